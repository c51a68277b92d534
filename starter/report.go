package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"interlock/activities/agent"
	"interlock/machine"
	"interlock/slice"
)

// maxReport is how much of a file is read, in bytes: more than any slice takes.
const maxReport = 1 << 20

func (a *app) reportCommand() *cobra.Command {
	var p slice.Reported
	var d delivery
	step, file := "", ""
	c := &cobra.Command{
		Use:   "report ID --step STEP --file ANSWER.json",
		Short: "Report the answer of a role that is driven from outside",
		Long: `Report hands in the answer to the brief that ` + "`interlock next`" + ` printed, a JSON
document that fits the schema in it. It exits with 2 if it does not fit, and with
9 if that step, task or attempt is not the one that is due. The same report may
be sent twice; it is taken once.`,
		Example:           "  interlock report my-slice --step implement --task 1 --file answer.json\n  echo '{\"status\":\"done\"}' | interlock report my-slice --step implement --task 1 --file -",
		Args:              oneID,
		ValidArgsFunction: a.completeWaiting,
		RunE: does(func(ctx context.Context, args []string) error {
			p.Step = machine.Step(step)
			role, ok := roleOf(p.Step)
			if !ok {
				return usage("--step %q: expected %s, %s, %s or %s", step, machine.Implement, machine.Judge, machine.Advise, machine.JudgeSlice)
			}
			if file == "" {
				return &failure{code: exitUsage, err: fmt.Errorf("a report needs the answer: --file ANSWER.json, or - for standard input"), do: "interlock next " + args[0] + a.here() + " prints the brief, with the schema of the answer"}
			}
			answer, err := a.readReport(file)
			if err != nil {
				return usage("%w", err)
			}
			if err := agent.Fits(role, answer); err != nil {
				return &failure{code: exitUsage, err: fmt.Errorf("%s is no answer of the %s: %w", file, role, err), do: "interlock next " + args[0] + a.here() + " prints the brief, with the schema of the answer"}
			}
			var compact bytes.Buffer
			if err := json.Compact(&compact, answer); err != nil {
				return usage("%s: %w", file, err)
			}
			p.Answer = compact.Bytes()
			if p.By == "" {
				p.By = identity(ctx)
			}
			s, release, err := a.join(ctx)
			if err != nil {
				return err
			}
			defer release()
			return a.report(ctx, s, args[0], p, d)
		}),
	}
	f := c.Flags()
	f.StringVar(&step, "step", "", "step that the answer belongs to")
	f.IntVar(&p.Task, "task", 0, "task that it belongs to, from 1 (default: the one that is due)")
	f.IntVar(&p.Attempt, "attempt", 0, "attempt that it belongs to, from 1 (default: the one that is due)")
	f.StringVar(&p.Role, "role", "", "which of several judges answers (default: the one that is waited for)")
	f.StringVar(&file, "file", "", "file with the answer; - is standard input")
	f.StringVar(&p.By, "by", "", "who reports (default: git's user, or this system's)")
	d.flags(f)
	_ = c.RegisterFlagCompletionFunc("step", cobra.FixedCompletions([]string{
		string(machine.Implement), string(machine.Judge), string(machine.Advise), string(machine.JudgeSlice)}, cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("role", cobra.NoFileCompletions)
	return c
}

func (a *app) readReport(file string) ([]byte, error) {
	r := a.stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }()
		r = f
	}
	answer, err := io.ReadAll(io.LimitReader(r, maxReport+1))
	if err == nil && len(answer) > maxReport {
		err = fmt.Errorf("%s has more than 1 MiB", file)
	}
	return answer, err
}

// report sends an answer that fits its schema.
func (a *app) report(ctx context.Context, s *session, id string, p slice.Reported, d delivery) error {
	m := message{slice: id, name: slice.Report, payload: p}
	if !d.signal {
		n, err := ask[slice.Status](ctx, a, s, id, slice.QueryStatus)
		if err != nil {
			return err
		}
		p = resolve(n, p)
		m.payload = p
		m.id = messageID(m.name, id, string(p.Step), strconv.Itoa(p.Task), strconv.Itoa(p.Attempt), p.Role, string(p.Answer), strconv.Itoa(repeats(n, p)))
		if err := a.weigh(ctx, s, id, n, p); err != nil {
			return err
		}
	}
	out, err := a.send(ctx, s, m, d)
	if err != nil {
		return err
	}
	return a.print(out, func(w io.Writer) {
		if out.Taken == nil {
			fmt.Fprintf(w, "the report of %s is with the server; interlock status %s%s shows whether it was taken\n", p.Step, id, a.here())
			return
		}
		fmt.Fprintf(w, "%s: the report of %s is taken\n", id, out.Taken.Turn)
	})
}

// resolve fills in the task and attempt that were left out: those that are due,
// or else those of the last turn that fits, so that a report that was taken is
// found to be the same.
func resolve(s slice.Status, p slice.Reported) slice.Reported {
	fits := func(t machine.Turn) bool {
		return t.Step == p.Step && (p.Task == 0 || t.Task == p.Task) && (p.Attempt == 0 || t.Attempt == p.Attempt)
	}
	if s.Due != nil && fits(*s.Due) {
		p.Task, p.Attempt = s.Due.Task, s.Due.Attempt
		return p
	}
	for _, d := range slices.Backward(s.Recent) {
		if fits(d.Turn) {
			p.Task, p.Attempt = d.Turn.Task, d.Turn.Attempt
			break
		}
	}
	return p
}

// repeats counts how often the step was repeated in the same turn, as after an
// answer that was discarded: what is reported then is another report, even if
// it has the same words.
func repeats(s slice.Status, p slice.Reported) (n int) {
	for _, d := range s.Recent {
		same := d.Turn == machine.Turn{Step: p.Step, Task: p.Task, Attempt: p.Attempt}
		if same && (d.Outcome == machine.Discarded || d.Outcome == machine.Limited || d.Outcome == machine.Lost) {
			n++
		}
	}
	return n
}

// weigh refuses a judge's answer that would be no verdict, if the rubric is on
// this host.
func (a *app) weigh(ctx context.Context, s *session, id string, status slice.Status, p slice.Reported) error {
	if role, _ := roleOf(p.Step); role != agent.Judge || status.Due == nil || status.Due.Step != p.Step {
		return nil
	}
	n, err := ask[slice.Next](ctx, a, s, id, slice.QueryNext)
	if err != nil {
		return err
	}
	w, err := a.workshop(ctx, id, n)
	if err != nil {
		return nil // the worker weighs it
	}
	who := p.Role
	if who == "" && n.Waiting != nil {
		who = n.Waiting.Role
	}
	if why := w.weighs(who, p.Answer); why != "" {
		return usage("it would be no verdict: %s", plain(why))
	}
	return nil
}
