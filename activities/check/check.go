// Package check measures a tree with the commands of the policy, in a folder
// that the caller prepared.
//
// Red is not unmeasured: a check is red if it ran to its own end and said so,
// and unmeasured if it could not start, was killed, ran out of time, or ran no
// test where tests are expected.
//
// The environment of a check is built from nothing: PATH, a HOME, TMPDIR and
// XDG_CACHE_HOME of the slice's own, LANG=C.UTF-8, TZ=UTC, CI=true, and those
// variables of the worker that policy names in env. With a HOME of its own a
// check finds no cache of the user: whoever wants to share downloads between
// slices names their variables in policy, as in
// `env: [GOMODCACHE, GOCACHE, GOPROXY, GOFLAGS]`, and sets them for the worker.
package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"interlock/activities/evidence"
	"interlock/activities/process"
	"interlock/machine"
	"interlock/slice"
)

// logLimit is the number of bytes of a log that are kept; of a longer one the
// beginning and the end.
const logLimit = 8 << 20

// The exit statuses of a shell that could not run a program.
const (
	exitNotExecutable = 126
	exitNotFound      = 127
	exitSignalled     = 128 // plus the signal
)

// Runner runs checks and set-up commands.
type Runner struct {
	Evidence *evidence.Store
	// Lookup finds the variables of the worker; nil means os.LookupEnv.
	Lookup evidence.Lookup
}

// Request says what to run where.
type Request struct {
	// Step names the evidence and the progress: "check", "baseline".
	Step string
	// Dir is the folder to measure, an absolute path.
	Dir string
	// Own is a folder of the slice's own, an absolute path, made if need be:
	// HOME, TMPDIR and the caches are in it. A step that must not see what
	// earlier checks cached is given another one.
	Own string
	// Pass names the variables of the worker that the commands may see.
	Pass     []string
	Commands []slice.Command
	// Marker is that of process.Command.
	Marker string
	// OnProgress, if not nil, is told every second how far the commands are.
	OnProgress func(string)
	// Touched, if not nil, returns the files of the tree in Dir that are not as
	// they are in the tree. Those of Before are known already.
	Touched func(context.Context) ([]string, error)
	Before  []string
}

// Result is what one check found.
type Result struct {
	slice.CheckResult
	// Killed says that a signal or a time limit ended it, or that the runner
	// ended before any test. Whether the environment or the tree is to blame
	// shows at the base: see Reclassify.
	Killed bool
	// broken says that not all tests could run, because code does not build.
	broken bool
}

// Measure runs the commands one after the other, all of them whatever the
// first ones find. An error means that the infrastructure failed or that ctx
// was cancelled, never that a check is red.
func (r *Runner) Measure(ctx context.Context, q Request) ([]Result, error) {
	results := make([]Result, 0, len(q.Commands))
	for i, c := range q.Commands {
		res, err := r.run(ctx, q, i, c)
		if err != nil {
			return nil, err
		}
		if q.Touched != nil {
			if q.Before, err = touched(ctx, q, c, &res); err != nil {
				return nil, err
			}
		}
		results = append(results, res)
	}
	return results, nil
}

// touched names the files that a check has changed: what it says of them, and
// what the next ones say, is not about the tree as it was.
func touched(ctx context.Context, q Request, c slice.Command, res *Result) ([]string, error) {
	all, err := q.Touched(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range all {
		report := slices.ContainsFunc(c.Reports, func(glob string) bool {
			ok, err := matches(glob, name)
			return ok && err == nil
		})
		if !report && !slices.Contains(q.Before, name) {
			res.Touched = append(res.Touched, evidence.Line(name, 200))
		}
	}
	if n := len(res.Touched); n > 0 {
		res.Touched = res.Touched[:min(n, maxTouched)]
		more := ""
		if n > 1 {
			more = fmt.Sprintf(" and %d more", n-1)
		}
		res.Why += "; it changed the tree that it measures: " + res.Touched[0] + more
	}
	return all, nil
}

const maxTouched = 10

// Setup runs the commands one after the other and stops at the first one that
// fails, whose result is unmeasured: what a check finds in a folder that is
// not set up means nothing.
func (r *Runner) Setup(ctx context.Context, q Request) ([]Result, error) {
	var results []Result
	for i, c := range q.Commands {
		c.Reads = slice.ReadsExit
		res, err := r.run(ctx, q, i, c)
		if err != nil {
			return nil, err
		}
		failed := res.Outcome != machine.Done
		if failed {
			res.Outcome, res.Why = machine.Unmeasured, "setup: "+res.Why
		}
		results = append(results, res)
		if failed {
			break
		}
	}
	return results, nil
}

// Name is the name of the command at place i of a list.
func Name(c slice.Command, i int) string {
	if c.Name != "" {
		return c.Name
	}
	return fmt.Sprintf("command %d", i+1)
}

// run runs a command, again if it is red and that is declared, and keeps what it
// wrote.
func (r *Runner) run(ctx context.Context, q Request, i int, c slice.Command) (Result, error) {
	name := Name(c, i)
	began := time.Now()
	res, output, tests, err := r.once(ctx, q, name, c)
	var flaky []string
	tries := 1
	for err == nil && res.Outcome == machine.Failed && !res.broken && tries <= c.Retries {
		for _, test := range res.Failing {
			if !slices.Contains(flaky, test) {
				flaky = append(flaky, test)
			}
		}
		tries++
		var more []byte
		res, more, tests, err = r.once(ctx, q, name, c)
		output = slices.Concat(output, fmt.Appendf(nil, "\n--- run %d ---\n", tries), more)
	}
	if err != nil {
		return Result{}, fmt.Errorf("%s %s: %w", q.Step, name, err)
	}
	if tries > 1 {
		if res.Outcome == machine.Done {
			if len(flaky) == 0 {
				flaky = []string{name}
			}
			res.Flaky = append(flaky, res.Flaky...)
			res.Flaky = res.Flaky[:min(len(res.Flaky), maxFailing)]
			res.Why += fmt.Sprintf("; flaky: red in %d of %d runs", tries-1, tries)
		} else {
			res.Why += fmt.Sprintf(" (in the last of %d runs)", tries)
		}
	} else if n := len(res.Flaky); n > 0 && res.Outcome == machine.Done {
		res.Why += fmt.Sprintf("; flaky: %d of its tests passed only when they were run again", n)
	}
	if res.Log, err = r.Evidence.Put(fileName(q.Step, name)+".log", output); err != nil {
		return Result{}, err
	}
	if tests != nil {
		if res.Tests, err = r.Evidence.Put(fileName(q.Step, name)+".tests.json", tests); err != nil {
			return Result{}, err
		}
	}
	res.Name, res.Millis = name, time.Since(began).Milliseconds()
	return res, nil
}

// once runs a command once. tests is the list of its tests, if it tells them.
func (r *Runner) once(ctx context.Context, q Request, name string, c slice.Command) (res Result, output, tests []byte, err error) {
	env, err := r.environment(q)
	if err != nil {
		return Result{}, nil, nil, err
	}
	reads, err := newReader(c, q.Dir)
	if err != nil {
		return Result{}, nil, nil, err
	}
	mask := evidence.NewMasker(evidence.Secrets(env)...)
	meter := evidence.NewMeter(q.Step+" "+name, q.OnProgress)
	// Masked before it is read: what the reader cuts in two cannot be masked later.
	var stream *evidence.Stream
	if reads != nil {
		stream = mask.Stream(reads)
	}
	ran, err := process.Run(ctx, process.Command{
		Args: c.Run, Dir: q.Dir, Env: env, Combine: true, Limit: logLimit,
		Timeout: c.Timeout.Or(slice.DefaultCheckTimeout), Marker: q.Marker,
		OnOutput: func(_ process.Stream, p []byte) {
			meter.Add(len(p))
			if stream != nil {
				_, _ = stream.Write(p)
			}
		},
	})
	meter.Stop()
	if err == nil && ran.Cancelled {
		err = context.Cause(ctx)
	}
	var lost *process.LostError
	orphaned := errors.As(err, &lost) && ran.Started && ctx.Err() == nil
	if err != nil && !orphaned {
		return Result{}, nil, nil, err
	}
	output = mask.Output(ran.Stdout).Bytes()
	res.Outcome, res.Why, res.Killed = ended(c, ran)
	if orphaned {
		res.Outcome, res.Why, res.Killed = machine.Unmeasured, "killed: the process that watches over it was killed, by itself or by the system", true
	}
	res.Summary = summary(output)
	if stream != nil {
		_ = stream.Close()
		found := reads.finish()
		found.judge(&res)
		list := found.set.list()
		for i := range list.Tests {
			list.Tests[i].Name = mask.String(list.Tests[i].Name)
		}
		if tests, err = json.Marshal(list); err != nil {
			return Result{}, nil, nil, err
		}
	}
	// Once more: text without its escape sequences can be a secret that the log
	// held in pieces.
	res.Summary = mask.String(res.Summary)
	for _, names := range [][]string{res.Failing, res.Flaky} {
		for i, name := range names {
			names[i] = mask.String(name)
		}
	}
	res.Why = mask.String(evidence.Line(res.Why, maxWhy))
	return res, output, tests, nil
}

func (r *Runner) environment(q Request) ([]string, error) {
	own := map[string]string{"HOME": "home", "TMPDIR": "tmp", "XDG_CACHE_HOME": "cache"}
	fixed := []string{"LANG=C.UTF-8", "TZ=UTC", "CI=true"}
	for name, folder := range own {
		dir := filepath.Join(q.Own, folder)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
		fixed = append(fixed, name+"="+dir)
	}
	return evidence.Environment(fixed, q.Pass, r.Lookup), nil
}

// ended reads the end of a program.
func ended(c slice.Command, ran process.Result) (outcome machine.Outcome, why string, killed bool) {
	code := ran.ExitCode
	switch {
	case ran.StartErr != nil:
		return machine.Unmeasured, "could not start: " + ran.StartErr.Error(), false
	case ran.TimedOut:
		return machine.Unmeasured, "timed out after " + short(c.Timeout.Or(slice.DefaultCheckTimeout)), true
	case ran.Signal != "":
		return machine.Unmeasured, "killed by " + ran.Signal, true
	case code == 0:
		return machine.Done, "exit status 0", false
	case code == exitNotFound:
		return machine.Unmeasured, "could not start: exit status 127, a program was not found", false
	case code == exitNotExecutable:
		return machine.Unmeasured, "could not start: exit status 126, a program cannot be executed", false
	}
	if name := unix.SignalName(syscall.Signal(code - exitSignalled)); code > exitSignalled && name != "" {
		return machine.Unmeasured, fmt.Sprintf("exit status %d: a program that it ran was killed by %s", code, name), true
	}
	return machine.Failed, fmt.Sprintf("exit status %d", code), false
}

// short writes a duration without the zeros that Go adds: 10m, not 10m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// fileName joins words to a name that any file system takes.
func fileName(words ...string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			return r
		}
		return '-'
	}, strings.Join(words, "-"))
}
