package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"interlock/machine"
	"interlock/slice"
)

func (a *app) approveCommand() *cobra.Command { return a.decideCommand("approve", slice.Approved) }

func (a *app) rejectCommand() *cobra.Command { return a.decideCommand("reject", slice.Refused) }

func (a *app) decideCommand(name string, verdict slice.Verdict) *cobra.Command {
	decision := slice.Decision{Verdict: verdict}
	var d delivery
	c := &cobra.Command{
		Use:   name + " ID",
		Short: map[slice.Verdict]string{slice.Approved: "Approve what waits at a gate", slice.Refused: "Reject what waits at a gate; the slice ends"}[verdict],
		Long: `Without --subject, ` + name + ` shows what is to be decided (the plan, or the commit)
and asks on the terminal. With --subject, the hash that was looked at, it decides
at once. A decision on something else than what waits now is refused with exit
code 9; the same decision may be sent twice and is taken once.

An update needs a worker and is answered. With --signal the decision waits on
the server for a worker; whether it was taken is shown by interlock status.`,
		Example:           fmt.Sprintf("  interlock %[1]s my-slice\n  interlock %[1]s my-slice --subject HASH --note 'looked at by two'", name),
		Args:              oneID,
		ValidArgsFunction: a.completeWaiting,
		RunE: does(func(ctx context.Context, args []string) error {
			if decision.By == "" {
				decision.By = identity(ctx)
			}
			s, release, err := a.join(ctx)
			if err != nil {
				return err
			}
			defer release()
			if decision.Subject == "" {
				if decision.Subject, err = a.consult(ctx, s, args[0], name); err != nil {
					return err
				}
			}
			return a.decide(ctx, s, args[0], decision, d)
		}),
	}
	f := c.Flags()
	f.StringVar(&decision.Subject, "subject", "", "hash of the plan or the commit that was looked at")
	f.StringVar(&decision.By, "by", "", "who decides (default: git's user, or this system's)")
	f.StringVar(&decision.Note, "note", "", "why, for the record")
	d.flags(f)
	for _, flag := range []string{"subject", "by", "note", "timeout"} {
		_ = c.RegisterFlagCompletionFunc(flag, cobra.NoFileCompletions)
	}
	return c
}

// decide sends a decision.
func (a *app) decide(ctx context.Context, s *session, id string, decision slice.Decision, d delivery) error {
	out, err := a.send(ctx, s, message{
		slice: id, name: slice.Decide, payload: decision,
		id: messageID(slice.Decide, id, decision.Subject, string(decision.Verdict), decision.By),
	}, d)
	if err != nil {
		return err
	}
	return a.print(out, func(w io.Writer) {
		if out.Taken == nil {
			fmt.Fprintf(w, "the decision is with the server; interlock status %s%s shows whether it was taken\n", id, a.here())
			return
		}
		fmt.Fprintf(w, "%s: %s %s by %s\n", id, out.Taken.Turn.Step, decision.Verdict, plain(decision.By))
		if decision.Verdict == slice.Approved {
			a.say("%s", a.err.dim("follow it: interlock wait "+id+a.here()))
		}
	})
}

// consult shows what waits for a decision, asks, and returns the subject that
// was shown.
func (a *app) consult(ctx context.Context, s *session, id, name string) (string, error) {
	d, err := a.docket(ctx, s, id)
	if err != nil {
		return "", err
	}
	if err := a.print(d, func(w io.Writer) { a.writeDocket(w, d) }); err != nil {
		return "", err
	}
	if a.json() || !isTerminal(a.stdin) {
		return "", &failure{code: exitUsage, err: errors.New("nobody can be asked here: say with --subject what is decided on"),
			do: fmt.Sprintf("interlock %s %s --subject %s%s", name, id, d.Subject, a.here())}
	}
	fmt.Fprintf(a.stderr, "\n%s %s of %s? [y/N] ", name, map[bool]string{true: "the plan", false: "the commit"}[d.Step == machine.PlanGate], id)
	said, err := bufio.NewReader(a.stdin).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	switch strings.ToLower(strings.TrimSpace(said)) {
	case "y", "yes":
		return d.Subject, nil
	}
	return "", &failure{code: machine.ExitInterrupted, err: errors.New("nothing was decided; the slice goes on waiting"), do: "interlock status " + id + a.here()}
}

// isTerminal says whether somebody types what is read.
func isTerminal(r io.Reader) bool {
	f, ok := r.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
}

// identity names who types: as git knows them, or else as the system does.
func identity(ctx context.Context) string {
	ask := func(key string) string {
		out, err := exec.CommandContext(ctx, "git", "config", "--get", key).Output()
		if err != nil {
			return ""
		}
		return plain(string(out))
	}
	name, email := ask("user.name"), ask("user.email")
	switch {
	case name != "" && email != "":
		return name + " <" + email + ">"
	case name+email != "":
		return name + email
	}
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return os.Getenv("USER")
}
