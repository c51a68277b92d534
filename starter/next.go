package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"interlock/machine"
	"interlock/slice"
)

// due is what `next` tells.
type due struct {
	machine.Turn
	Slice   string      `json:"slice"`
	Waiting *slice.Wait `json:"waiting,omitempty"`
	// Folder is where a role that is driven from outside works, Brief what it
	// is asked.
	Folder string          `json:"folder,omitempty"`
	Brief  json.RawMessage `json:"brief,omitempty"`
	// Commands end the wait.
	Commands []string `json:"commands,omitempty"`
}

func (a *app) nextCommand() *cobra.Command {
	briefOnly := false
	c := &cobra.Command{
		Use:   "next ID",
		Short: "The step that is due; for a role that is driven from outside, its brief",
		Long: `Next says which step of a slice is due, what it waits for and which command ends
that wait. For a role with the adapter external it prints the whole brief, the
folder to work in and the command that reports the answer. It exits with 9 if
nothing is due.`,
		Example:           "  interlock next my-slice\n  interlock next my-slice --brief >brief.json",
		Args:              oneID,
		ValidArgsFunction: a.completeID,
		RunE: does(func(ctx context.Context, args []string) error {
			s, err := a.connect(ctx)
			if err != nil {
				return err
			}
			defer s.Close()
			d, err := a.due(ctx, s, args[0])
			if err != nil {
				return err
			}
			if briefOnly {
				if d.Brief == nil {
					return &failure{code: machine.ExitNotDue, err: fmt.Errorf("%s is due, and asks nobody outside", d.Turn), do: "interlock next " + d.Slice + a.here()}
				}
				_, err := a.stdout.Write(d.Brief)
				return err
			}
			return a.print(d, func(w io.Writer) { a.writeDue(w, d) })
		}),
	}
	c.Flags().BoolVar(&briefOnly, "brief", false, "print the brief alone")
	return c
}

func (a *app) due(ctx context.Context, s *session, id string) (due, error) {
	n, err := ask[slice.Next](ctx, a, s, id, slice.QueryNext)
	if err != nil {
		if over := a.over(ctx, s, id); over != nil {
			err = over // the worker's words are those of a failed query
		}
		return due{}, err
	}
	d := due{Turn: n.Turn, Slice: id, Waiting: n.Waiting, Commands: a.endings(id, n.Turn, n.Waiting)}
	if n.Waiting == nil || n.Waiting.For != slice.WaitReport {
		return d, nil
	}
	w, err := a.workshop(ctx, id, n)
	if errors.Is(err, errElsewhere) {
		return d, missing("ask on that host, or name its home with --home", "%s waits for %s, whose brief and files are in the home of the slice's worker, not in %s", n.Turn, n.Waiting.Role, a.home)
	}
	if err != nil {
		return d, err
	}
	d.Brief, d.Folder, err = w.brief(ctx, n)
	return d, err
}

func (a *app) writeDue(w io.Writer, d due) {
	fmt.Fprintln(w, d.Turn)
	if d.Waiting == nil {
		return
	}
	f := fields{w: w, term: a.out}
	f.add("waits", strings.TrimPrefix(waits(d.Waiting), "waiting for "))
	f.add("subject", plain(d.Waiting.Subject))
	f.add("folder", d.Folder)
	if d.Brief == nil {
		f.list("end it", d.Commands)
		return
	}
	f.add("report", d.Commands[len(d.Commands)-1])
	fmt.Fprintf(w, "\n%s", d.Brief)
}
