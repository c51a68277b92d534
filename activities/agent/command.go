package agent

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"interlock/activities/evidence"
	"interlock/activities/process"
	"interlock/slice"
)

// streamLimit is the number of bytes kept of each stream of a program: more
// than an answer may have, so that one that is too long is seen to be.
const streamLimit = 4 << 20

// The exit statuses of a shell that could not run a program.
const (
	exitNotExecutable = 126
	exitNotFound      = 127
)

// Command is the adapter of any program: the brief comes as JSON on standard
// input, the working directory is the folder of the call, and one JSON answer
// goes to standard output. What goes to standard error is kept as evidence.
type Command struct {
	Evidence *evidence.Store
}

// Call implements Adapter.
func (a *Command) Call(ctx context.Context, c Call) (Answer, error) {
	role, name := c.Brief.Role(), label(c)
	mask := evidence.NewMasker(evidence.Secrets(c.Env)...)
	store := a.Evidence.Masked(mask)
	brief, err := Encode(c.Brief)
	if err != nil {
		return Answer{}, err
	}
	var answer Answer
	keep := func(what string, data []byte) error {
		e, err := store.Put(fileName(name)+"-"+what, data)
		if err == nil {
			answer.Evidence = append(answer.Evidence, e)
		}
		return err
	}
	if err := keep("brief.json", brief); err != nil {
		return answer, err
	}
	end := func(class Class, format string, args ...any) {
		answer.Class = class
		answer.Reason = mask.String(evidence.Line(fmt.Sprintf("%s %s: ", role, name)+fmt.Sprintf(format, args...), maxReason))
		answer.Reason = strings.Replace(answer.Reason, string(role)+" "+string(role)+":", string(role)+":", 1)
	}
	if why := unfit(role, c.Agent); why != "" {
		answer.CostKnown = true
		end(Fatal, "%s", why)
		return answer, nil
	}

	timeout := c.Agent.Timeout.Or(slice.DefaultCallTimeout)
	meter := evidence.NewMeter(name, c.OnProgress)
	ran, runErr := process.Run(ctx, process.Command{
		Args: c.Agent.Run, Dir: c.Dir, Env: c.Env, Stdin: brief,
		Timeout: timeout, Limit: streamLimit, Marker: c.Marker, Within: c.Within,
		OnOutput: func(_ process.Stream, p []byte) { meter.Add(len(p)) },
	})
	meter.Stop()

	stderr := mask.Output(ran.Stderr).Bytes()
	stop, isStopped, err := readStopped(ran.Stdout.Bytes(), mask)
	if err != nil {
		return answer, err
	}
	said, err := readAnswer(role, ran.Stdout.Bytes(), mask)
	answer.charge(c.Agent, ran, said)
	if err != nil {
		return answer, err
	}
	for _, stream := range []struct {
		name   string
		output process.Output
	}{{"stdout", mask.Output(ran.Stdout)}, {"stderr", mask.Output(ran.Stderr)}} {
		if stream.output.Size == 0 {
			continue
		}
		if err := keep(stream.name, stream.output.Bytes()); err != nil {
			return answer, err
		}
	}
	if runErr == nil && ran.Cancelled {
		runErr = context.Cause(ctx)
	}
	var lost *process.LostError
	if errors.As(runErr, &lost) && ran.Started && ctx.Err() == nil {
		// To try again would let a program that does so run for ever.
		end(Discarded, "the process that watches over it was killed, by itself or by the system%s", lastWords(stderr))
		return answer, nil
	}
	if runErr != nil {
		end(Unanswered, "%v", runErr)
		return answer, fmt.Errorf("%s %s: %w", role, name, runErr)
	}

	shell := len(c.Agent.Run) > 1 && c.Agent.Run[1] == "-c"
	switch {
	case ran.StartErr != nil:
		end(Fatal, "%v; install it on the worker's host, or mend run under agents in %s", ran.StartErr, slice.PolicyFile)
	case ran.TimedOut:
		end(Unanswered, "no answer within %s; look at its standard error, or raise timeout under agents in %s", timeout, slice.PolicyFile)
	case isStopped && stop.wrong == nil:
		end(stop.class, "%s", stop.reason)
		answer.ResetAt, answer.Wait, answer.Session = stop.resetAt, stop.wait, stop.session
		if said.costKnown {
			answer.CostMicroUSD, answer.CostKnown = int64(said.cost), true
		}
	case isStopped:
		end(Discarded, "what it says in place of an answer does not fit: %v", stop.wrong)
	case ran.Signal != "":
		end(Discarded, "killed by %s%s", ran.Signal, lastWords(stderr))
	case shell && (ran.ExitCode == exitNotFound || ran.ExitCode == exitNotExecutable):
		end(Fatal, "a program of %q cannot be run (exit status %d)%s; install it on the worker's host, or mend run under agents in %s", c.Agent.Run.String(), ran.ExitCode, lastWords(stderr), slice.PolicyFile)
	case ran.ExitCode != 0:
		end(Discarded, "exit status %d%s", ran.ExitCode, lastWords(stderr))
	case said.wrong != nil:
		end(Discarded, "the answer on standard output does not fit: %v", said.wrong)
	default:
		answer.Class, answer.Raw, answer.Session = Answered, said.raw, said.session
	}
	return answer, nil
}

// maxReason is the length of a reason in bytes.
const maxReason = 1000

// unfit says why an agent cannot be called at all.
func unfit(r Role, a slice.Agent) string {
	switch {
	case len(a.Run) == 0 || a.Run[0] == "":
		return fmt.Sprintf("no command; name it as run under agents in %s", slice.PolicyFile)
	case r.ReadOnly() && strings.Contains(a.Run[0], "/") && !filepath.IsAbs(a.Run[0]):
		return fmt.Sprintf("the program %q would come from the files that it looks at, which an agent wrote; in %s give it an absolute path, or a name found in PATH", a.Run[0], slice.PolicyFile)
	}
	return ""
}

// charge sets the cost: what the program said, or the reservation. A call that
// failed may have cost more than it could say, so it costs the reservation at
// least. What was never started costs nothing.
func (a *Answer) charge(agent slice.Agent, ran process.Result, s said) {
	if !ran.Started {
		a.CostKnown = true
		return
	}
	a.CostMicroUSD = Reservation(agent)
	if !s.costKnown {
		return
	}
	if ran.Succeeded() {
		a.CostMicroUSD, a.CostKnown = int64(s.cost), true
		return
	}
	a.CostMicroUSD = max(a.CostMicroUSD, int64(s.cost))
}

// lastWords is the end of standard error, for a reason.
func lastWords(stderr []byte) string {
	const enough = 400
	text := strings.TrimSpace(evidence.Text(string(stderr[max(0, len(stderr)-8*enough):])))
	if text == "" {
		return ""
	}
	if len(text) > enough {
		text = "…" + strings.ToValidUTF8(text[len(text)-enough:], "")
	}
	return "; the end of its standard error: " + text
}

// fileName returns a name that any file system takes.
func fileName(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			return r
		}
		return '-'
	}, name)
}
