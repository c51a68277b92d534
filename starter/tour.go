package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"interlock/examples"
	"interlock/machine"
	"interlock/slice"
)

// seenEnding is one line of what the tour has shown.
type seenEnding struct {
	Example string         `json:"example"`
	Ending  machine.Ending `json:"ending"`
	Cause   machine.Cause  `json:"cause,omitempty"`
	Code    int            `json:"code"`
	Why     string         `json:"why,omitempty"`
	Next    string         `json:"next"`
	WebUI   string         `json:"web_ui,omitempty"`
}

func (s seenEnding) end() string {
	if s.Cause == "" {
		return string(s.Ending)
	}
	return fmt.Sprintf("%s (%s)", s.Ending, s.Cause)
}

// tourOf are the examples of those names, or those of the tour.
func tourOf(names []string) (list []examples.Example, err error) {
	for _, name := range names {
		e, ok := examples.Find(name)
		if !ok {
			var known []string
			for _, e := range examples.All() {
				known = append(known, e.Name)
			}
			return nil, &failure{code: exitUsage, err: fmt.Errorf("there is no example %q", name), do: "the examples are: " + strings.Join(known, " ")}
		}
		list = append(list, e)
	}
	if len(names) > 0 {
		return list, nil
	}
	for _, e := range examples.All() {
		if e.Tour {
			list = append(list, e)
		}
	}
	return list, nil
}

// tour plays examples one after another, with one server and one worker.
func (a *app) tour(ctx context.Context, dir string, names []string, keep bool) error {
	list, err := tourOf(names)
	if err != nil {
		return err
	}
	if dir, err = demoFolder(dir); err != nil {
		return err
	}
	a.home = filepath.Join(dir, "home")
	a.connection = connection{alone: true}
	a.say("%s", a.err.dim(fmt.Sprintf("%s, each a slice with scripted agents, in %s", count(len(list), "example"), dir)))
	s, release, err := a.hold(ctx)
	if err != nil {
		return err
	}
	defer release()
	ctx, stop := context.WithCancelCause(ctx)
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := a.work(ctx, s); err != nil {
			stop(missing("", "this process cannot be the worker: %w", err))
		}
	}()
	defer func() { stop(nil); <-served }()

	var seen []seenEnding
	for i, e := range list {
		a.say("\n%s  %s", a.err.bold(fmt.Sprintf("%d of %d: %s", i+1, len(list), e.Name)), e.Shows)
		r, err := a.play(ctx, s, filepath.Join(dir, e.Name), e)
		if err != nil {
			if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
				err = cause
			}
			return err
		}
		v := seenEnding{Example: e.Name, Ending: r.Ending, Cause: r.Cause, Code: r.Code, Why: r.Why, Next: r.Next, WebUI: s.link(e.Name)}
		seen = append(seen, v)
		a.tell(e, v)
		if r.Ending != e.Ending || r.Cause != e.Cause {
			return fmt.Errorf("example %s ended as %s, expected %s %s: %s", e.Name, v.end(), e.Ending, e.Cause, r.Why)
		}
	}
	a.say("")
	if err := a.print(seen, func(w io.Writer) { writeSeen(w, a.out, seen) }); err != nil {
		return err
	}
	a.lookAtTour(dir, s.ui, keep)
	if keep {
		<-ctx.Done()
	}
	return nil
}

// play takes one example to its end, and does what a person does meanwhile.
func (a *app) play(ctx context.Context, s *session, dir string, e examples.Example) (slice.Result, error) {
	file, err := examples.Write(ctx, dir, e)
	if err != nil {
		return slice.Result{}, err
	}
	sp, err := a.readSlice(ctx, file)
	if err != nil {
		return slice.Result{}, err
	}
	b, err := a.begin(ctx, s, sp)
	if err != nil {
		return slice.Result{}, err
	}
	running, ended := context.WithCancel(ctx)
	defer ended()
	acted := make(chan error, 1)
	go func() { acted <- a.act(ctx, running, s, dir, e) }()
	r, err := a.follow(ctx, s, b.Slice, b.RunID)
	ended()
	return r, errors.Join(err, <-acted)
}

// act does what a person does at each wait of an example, and shows it.
func (a *app) act(ctx, running context.Context, s *session, dir string, e examples.Example) error {
	for _, step := range e.Person {
		status, ok := a.waitsAt(running, s, e.Name, step.At)
		if !ok {
			return nil // it ended before, which shows
		}
		for _, line := range step.Lines {
			text := line.Fill(map[string]string{"SUBJECT": status.Waiting.Subject, "FOLDER": status.Folder, "HERE": dir})
			a.clearLine()
			a.say("  %s %s", a.err.bold("$"), text)
			if err := a.typed(ctx, s, text, line.Exit); err != nil {
				return err
			}
		}
	}
	return nil
}

// waitsAt polls until the slice waits at a step; ok is false if it never did.
func (a *app) waitsAt(ctx context.Context, s *session, id string, at machine.Step) (slice.Status, bool) {
	for {
		asked, cancel := context.WithTimeout(ctx, queryTimeout)
		status, err := query(asked, s, id)
		cancel()
		if err == nil && status.Waiting != nil && status.State.Step == at {
			// So that its line is read before the answer.
			select {
			case <-ctx.Done():
			case <-time.After(2 * pollEvery):
			}
			return status, true
		}
		select {
		case <-ctx.Done():
			return status, false
		case <-time.After(pollEvery / 4):
		}
	}
}

// typed runs a line as a person types it, with this program as interlock.
func (a *app) typed(ctx context.Context, s *session, line string, exit int) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", `interlock() { "$INTERLOCK_PROGRAM" "$@"; }; `+line)
	cmd.Env = append(os.Environ(), "INTERLOCK_PROGRAM="+program, "INTERLOCK_HOME="+a.home,
		"TEMPORAL_ADDRESS="+s.address, "TEMPORAL_NAMESPACE="+s.namespace, "TEMPORAL_CONFIG_FILE="+os.DevNull)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		return err
	}
	for _, l := range headAndTail(string(out), 7, 0) {
		a.say("    %s", a.err.dim("│ "+l))
	}
	switch code := cmd.ProcessState.ExitCode(); {
	case code != exit:
		return fmt.Errorf("%s exits with %d, expected %d", line, code, exit)
	case code != 0:
		a.say("    %s", a.err.dim(fmt.Sprintf("exit code %d", code)))
	}
	return nil
}

// tell says how an example ended.
func (a *app) tell(e examples.Example, v seenEnding) {
	f := fields{w: a.stderr, term: a.err}
	head := fmt.Sprintf("%s, exit code %d", v.end(), v.Code)
	if v.Code == 0 {
		head = a.err.green(head)
	} else {
		head = a.err.red(head)
	}
	f.add("ends as", head)
	if v.Code != 0 {
		f.add("why", clip(plain(v.Why), 200))
	}
	f.add("saw", e.Saw)
	f.add("next", v.Next)
}

// writeSeen is the table of the endings that were seen.
func writeSeen(w io.Writer, t terminal, seen []seenEnding) {
	name, end := len("example"), len("ends as")
	for _, v := range seen {
		name, end = max(name, len(v.Example)), max(end, len(v.end()))
	}
	fmt.Fprintln(w, t.dim(fmt.Sprintf("%s  %s  code  what a person does next", pad("example", name), pad("ends as", end))))
	for _, v := range seen {
		fmt.Fprintf(w, "%s  %s  %4d  %s\n", pad(v.Example, name), pad(v.end(), end), v.Code, v.Next)
	}
}

func (a *app) lookAtTour(dir, ui string, keep bool) {
	a.say("")
	f := fields{w: a.stderr, term: a.err}
	if keep {
		f.add("Web UI", ui+"   (until you press Ctrl-C)")
	} else {
		f.add("Web UI", fmt.Sprintf("%s server --home %s, then %s", program(), slice.Argv{a.home}, ui))
	}
	f.add("files", dir)
	f.add("remove", "rm -rf "+slice.Argv{dir}.String())
}
