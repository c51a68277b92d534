package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"interlock/machine"
	"interlock/slice"
)

func (a *app) answerCommand() *cobra.Command {
	var said slice.Answered
	var d delivery
	c := &cobra.Command{
		Use:   "answer ID --text TEXT",
		Short: "Answer the question that a role has asked",
		Long: `Without --text, answer shows the question. The answer goes into the conversation
that asked, which goes on with it; no attempt is spent. It exits with 9 if nothing
is asked. --text - reads standard input.`,
		Example:           "  interlock answer my-slice\n  interlock answer my-slice --text 'Port 8080, and no TLS.'",
		Args:              oneID,
		ValidArgsFunction: a.completeWaiting,
		RunE: does(func(ctx context.Context, args []string) error {
			s, release, err := a.join(ctx)
			if err != nil {
				return err
			}
			defer release()
			if said.Text == "-" {
				b, err := io.ReadAll(io.LimitReader(a.stdin, maxReport))
				if err != nil {
					return err
				}
				said.Text = string(b)
			}
			return a.answer(ctx, s, args[0], said, d)
		}),
	}
	f := c.Flags()
	f.StringVar(&said.Text, "text", "", "the answer; - reads standard input")
	f.StringVar(&said.ID, "question", "", "id of the question (default: the one that is asked)")
	f.StringVar(&said.By, "by", "", "who answers (default: git's user, or this system's)")
	d.flags(f)
	for _, flag := range []string{"text", "question", "by", "timeout"} {
		_ = c.RegisterFlagCompletionFunc(flag, cobra.NoFileCompletions)
	}
	return c
}

func (a *app) answer(ctx context.Context, s *session, id string, said slice.Answered, d delivery) error {
	if said.By == "" {
		said.By = identity(ctx)
	}
	if said.ID == "" || strings.TrimSpace(said.Text) == "" {
		status, err := ask[slice.Status](ctx, a, s, id, slice.QueryStatus)
		if err != nil {
			return err
		}
		w := status.Waiting
		if w == nil || w.For != slice.WaitQuestion {
			return &failure{code: machine.ExitNotDue, err: fmt.Errorf("slice %s asks nothing", id), do: "interlock status " + id + a.here() + " says what it waits for"}
		}
		if strings.TrimSpace(said.Text) == "" {
			if err := a.print(w, func(out io.Writer) { fmt.Fprintf(out, "%s\n", plainLines(w.Text)) }); err != nil {
				return err
			}
			return &failure{code: exitUsage, err: errors.New("an answer has a text"), do: fmt.Sprintf("interlock answer %s --text 'ANSWER'%s", id, a.here())}
		}
		said.ID = w.Subject
	}
	out, err := a.send(ctx, s, message{slice: id, name: slice.Answer, payload: said, id: messageID(slice.Answer, id, said.ID, said.Text)}, d)
	if err != nil {
		return err
	}
	return a.print(out, func(w io.Writer) {
		if out.Taken == nil {
			fmt.Fprintf(w, "the answer is with the server; interlock status %s%s shows whether it was taken\n", id, a.here())
			return
		}
		fmt.Fprintf(w, "%s: %s goes on with the answer\n", id, out.Taken.Turn)
	})
}

// plainLines is text of several lines, each fit to be shown.
func plainLines(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, plain(strings.TrimRight(line, "\r\n")))
	}
	return strings.Join(lines, "\n")
}

func (a *app) quotaRenewedCommand() *cobra.Command {
	var said slice.Renewed
	var d delivery
	c := &cobra.Command{
		Use:   "quota-renewed [ID]",
		Short: "Say that an account is free again, before its limit was to end",
		Long: `The slice asks its provider again at once, in the same conversation. Without an
ID, all slices that wait for a quota do, one after the other: the first finds out
whether the account is free, and the others follow it.`,
		Args:              atMostOneID,
		ValidArgsFunction: a.completeWaitingForQuota,
		RunE: does(func(ctx context.Context, args []string) error {
			if said.By == "" {
				said.By = identity(ctx)
			}
			s, release, err := a.join(ctx)
			if err != nil {
				return err
			}
			defer release()
			if len(args) == 1 {
				return a.renewed(ctx, s, args[0], said, d)
			}
			return a.renewedAll(ctx, s, said)
		}),
	}
	c.Flags().StringVar(&said.By, "by", "", "who says so (default: git's user, or this system's)")
	d.flags(c.Flags())
	return c
}

func (a *app) renewed(ctx context.Context, s *session, id string, said slice.Renewed, d delivery) error {
	status, err := ask[slice.Status](ctx, a, s, id, slice.QueryStatus)
	if err != nil && !d.signal {
		return err
	}
	since := ""
	if status.Waiting != nil {
		since = fmt.Sprint(status.Waiting.Since)
	}
	out, err := a.send(ctx, s, message{slice: id, name: slice.QuotaRenewed, payload: said, id: messageID(slice.QuotaRenewed, id, since)}, d)
	if err != nil {
		return err
	}
	return a.print(out, func(w io.Writer) {
		if out.Taken == nil {
			fmt.Fprintf(w, "it is with the server; interlock status %s%s shows whether it was taken\n", id, a.here())
			return
		}
		fmt.Fprintf(w, "%s: %s is asked again\n", id, out.Taken.Turn)
	})
}

const (
	waitingForQuota = anySlice + " AND " + slice.AttrWaitingFor + " = 'quota' AND ExecutionStatus = 'Running'"
	// mostRenewed is how many slices one command wakes.
	mostRenewed = 10_000
)

// renewedAll wakes every slice that waits, by signals: those need no worker.
func (a *app) renewedAll(ctx context.Context, s *session, said slice.Renewed) error {
	all, err := find(ctx, s, waitingForQuota, mostRenewed)
	if err != nil {
		return a.refused(s, err)
	}
	woken := []sent{}
	for _, v := range all {
		if err := s.SignalWorkflow(ctx, v.Slice, "", slice.QuotaRenewed, said); err != nil {
			a.say("%s: %v", v.Slice, err) // it may have ended meanwhile
			continue
		}
		woken = append(woken, sent{Slice: v.Slice})
	}
	return a.print(woken, func(w io.Writer) {
		fmt.Fprintf(w, "%s asked again\n", count(len(woken), "slice"))
	})
}

func (a *app) completeWaitingForQuota(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return a.complete(c, args, waitingForQuota)
}
