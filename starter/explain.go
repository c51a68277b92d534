package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"interlock/activities/agent"
	"interlock/slice"
)

// explained is how an agent program's ending is classed.
type explained struct {
	Class       agent.Class `json:"class"`
	ResetAt     *time.Time  `json:"reset_at"`
	WaitSeconds *float64    `json:"wait"`
	// CostMicroUSD is null if the program did not tell what can be believed.
	CostMicroUSD *int64        `json:"cost_micro_usd"`
	Tokens       *agent.Tokens `json:"tokens"`
	Session      string        `json:"session"`
	Model        string        `json:"model"`
	// Answer is a document if the program or the role has a schema for it, else
	// a string; null if there is none.
	Answer any    `json:"answer"`
	Reason string `json:"reason"`
}

func (a *app) explainCommand() *cobra.Command {
	var (
		use, stdout, stderr, role, model, when string
		exit                                   int
	)
	c := &cobra.Command{
		Use:   "explain --agent NAME --exit-code N --stdout FILE",
		Short: "Say how the ending of an agent program is classed",
		Long: `Explain reads what an agent program left behind, as the adapter of that name
does after a call, and says what it makes of it: the class of the ending, the
end of a limit, cost, tokens, session, model and answer. Nothing is run.

With --role, the answer must fit the schema of that role; without, any last
message is an answer.`,
		Example: "  interlock explain --agent claude --exit-code 1 --stdout out.jsonl --stderr err.txt --output json",
		Args:    cobra.NoArgs,
		RunE: does(func(context.Context, []string) error {
			if exit < -1 || exit > 255 {
				return usage("--exit-code %d: expected 0 to 255, or -1 for a program that a signal ended", exit)
			}
			p := agent.Printed{ExitCode: exit, Role: agent.Role(role), Model: model}
			var err error
			if p.Stdout, err = os.ReadFile(stdout); err != nil {
				return usage("--stdout: %w", err)
			}
			if stderr != "" {
				if p.Stderr, err = os.ReadFile(stderr); err != nil {
					return usage("--stderr: %w", err)
				}
			}
			if when != "" {
				if p.At, err = time.Parse(time.RFC3339, when); err != nil {
					return usage("--at %q: expected a time such as 2026-11-30T19:34:00Z", when)
				}
			}
			e, err := agent.Explain(slice.Adapter(use), p)
			if err != nil {
				return usage("%w", err)
			}
			return a.print(explain(e), func(w io.Writer) { explainText(w, e) })
		}),
	}
	flags := c.Flags()
	flags.StringVar(&use, "agent", "", "claude, codex, gemini, opencode or command")
	flags.IntVar(&exit, "exit-code", 0, "the program's exit status; -1 if a signal ended it")
	flags.StringVar(&stdout, "stdout", "", "file with its standard output")
	flags.StringVar(&stderr, "stderr", "", "file with its standard error")
	flags.StringVar(&role, "role", "", "implementer, judge, advisor or reconciler: the answer must fit its schema")
	flags.StringVar(&model, "model", "", "the model that was asked for")
	flags.StringVar(&when, "at", "", "when the program ended, for limits that name a time of day (default: when the conversation began, where that is known)")
	for _, name := range []string{"agent", "exit-code", "stdout"} {
		_ = c.MarkFlagRequired(name)
	}
	_ = c.RegisterFlagCompletionFunc("agent", cobra.FixedCompletions([]string{"claude", "codex", "gemini", "opencode", "command"}, cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("role", cobra.FixedCompletions([]string{"implementer", "judge", "advisor", "reconciler"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

func explain(e agent.Ending) explained {
	out := explained{Class: e.Class, Session: e.Session, Model: e.Model, Reason: e.Reason}
	if !e.ResetAt.IsZero() {
		out.ResetAt = &e.ResetAt
	}
	if e.Wait > 0 {
		wait := e.Wait.Seconds()
		out.WaitSeconds = &wait
	}
	if e.CostKnown {
		out.CostMicroUSD = &e.CostMicroUSD
	}
	if e.TokensKnown {
		out.Tokens = &e.Tokens
	}
	switch {
	case e.Class != agent.Answered:
	case len(e.Answer) > 0:
		out.Answer = e.Answer
	default:
		out.Answer = e.Text
	}
	return out
}

func explainText(w io.Writer, e agent.Ending) {
	row := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-9s %s\n", name, strings.TrimSpace(fmt.Sprintf(format, args...)))
	}
	row("class", "%s", e.Class)
	if e.Reason != "" {
		row("reason", "%s", e.Reason)
	}
	if !e.ResetAt.IsZero() {
		row("reset at", "%s", e.ResetAt.Format(time.RFC3339))
	}
	if e.Wait > 0 {
		row("wait", "%s", e.Wait)
	}
	if e.CostKnown {
		row("cost", "%s", slice.USD(e.CostMicroUSD))
	} else {
		row("cost", "not told")
	}
	if e.TokensKnown {
		row("tokens", "%d in, of which %d cached; %d out", e.Tokens.Input, e.Tokens.Cached, e.Tokens.Output)
	}
	if e.Session != "" {
		row("session", "%s", e.Session)
	}
	if e.Model != "" {
		row("model", "%s", e.Model)
	}
	if e.Class == agent.Answered {
		answer := string(e.Answer)
		if answer == "" {
			answer = e.Text
		}
		row("answer", "%s", answer)
	}
}
