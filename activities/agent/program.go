package agent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"interlock/activities/evidence"
	"interlock/activities/process"
	"interlock/slice"
)

// Program is the adapter of one of the agent programs that this version knows:
// it makes the command line, and reads what the program printed.
//
// What the program sees is built from nothing. Its settings and sessions are in
// HOME, which is a folder of the slice's; it is logged in by the variables that
// policy names in env (ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN;
// OPENAI_API_KEY or CODEX_API_KEY; GEMINI_API_KEY, or those of Vertex AI; for
// opencode those of its provider), or by what it finds in the worker's HOME, if
// policy passes HOME, or CODEX_HOME, CLAUDE_CONFIG_DIR or XDG_DATA_HOME.
type Program struct {
	Evidence *evidence.Store
	use      slice.Adapter
	// binary is the program's name, found in PATH, if policy says no other.
	binary  string
	command func(request) (invocation, error)
	// patience is for how long a program may say that it is stuck; 0 means
	// longPatience.
	patience time.Duration
}

// programs are the adapters that drive a known program.
var programs = map[slice.Adapter]struct {
	binary  string
	command func(request) (invocation, error)
}{
	slice.AdapterClaude:   {"claude", claudeCommand},
	slice.AdapterCodex:    {"codex", codexCommand},
	slice.AdapterGemini:   {"gemini", geminiCommand},
	slice.AdapterOpencode: {"opencode", opencodeCommand},
}

// request is a call as the maker of a command line sees it.
type request struct {
	Call
	role        Role
	dir         string // the tree, absolute
	own         string // the folder of the adapter's own files
	reservation int64
}

// value returns a variable of the call's environment, or nothing.
func (r request) value(name string) string {
	for _, e := range r.Env {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			return v
		}
	}
	return ""
}

// folder returns a folder of the program: where policy says that it is, or a
// place in HOME.
func (r request) folder(variable, inHome string) string {
	if v := r.value(variable); v != "" {
		return v
	}
	return filepath.Join(r.value("HOME"), inHome)
}

// denied are the globs of files that an implementer must not change.
func (r request) denied() []string {
	brief, ok := r.Brief.(ImplementBrief)
	if !ok {
		return nil
	}
	var globs []string
	for _, g := range append(append([]string{}, brief.Protected...), brief.Frozen...) {
		if !strings.ContainsAny(g, "\"()\\\n") {
			globs = append(globs, g)
		}
	}
	return globs
}

// invocation is how a program is run.
type invocation struct {
	args []string // after the program
	env  []string // besides that of the call
	dir  string   // the working directory, if it is not that of the call
	// before tells what the session has used so far, log what the program wrote
	// about a session elsewhere; each may be nil.
	before func() Tokens
	log    func(session string) []byte
	// stuck, if not nil, tells of an event whether it is one of those that
	// Codex and opencode write for ever, and whether it shows that they go on.
	stuck func(json.RawMessage) (stuck, moving bool)
}

// Call implements Adapter.
func (a *Program) Call(ctx context.Context, c Call) (Answer, error) {
	answer, lost, err := a.once(ctx, c, "")
	if err != nil || !lost || c.Session == "" {
		return answer, err
	}
	c.Session = ""
	again, _, err := a.once(ctx, c, "again-")
	again.FellBack = true
	again.CostMicroUSD += answer.CostMicroUSD
	again.CostKnown = again.CostKnown && answer.CostKnown
	again.Evidence = append(answer.Evidence, again.Evidence...)
	return again, err
}

// once calls the program a single time; lost says that the session which was to
// go on is not there.
func (a *Program) once(ctx context.Context, c Call, which string) (answer Answer, lost bool, err error) {
	role, name := c.Brief.Role(), label(c)
	mask := evidence.NewMasker(evidence.Secrets(c.Env)...)
	store := a.Evidence.Masked(mask)
	keep := func(what string, data []byte) error {
		e, err := store.Put(fileName(name)+"-"+which+what, data)
		if err == nil {
			answer.Evidence = append(answer.Evidence, e)
		}
		return err
	}
	end := func(class Class, format string, args ...any) {
		answer.Class = class
		answer.Reason = mask.String(evidence.Line(fmt.Sprintf("%s %s (%s): ", role, name, a.use)+fmt.Sprintf(format, args...), maxReason))
		answer.Reason = strings.Replace(answer.Reason, string(role)+" "+string(role)+" (", string(role)+" (", 1)
	}
	brief, err := encode(c.Brief, inFinalMessage)
	if err != nil {
		return answer, false, err
	}
	if err := keep("brief.json", brief); err != nil {
		return answer, false, err
	}
	if c.Session != "" && !sessionName.MatchString(c.Session) {
		c.Session = ""
	}
	program := a.program(c.Agent)
	if role.ReadOnly() && strings.Contains(program[0], "/") && !filepath.IsAbs(program[0]) {
		answer.CostKnown = true
		end(Fatal, "the program %q would come from the files that it looks at, which an agent wrote; in %s give it an absolute path, or a name found in PATH", program[0], slice.PolicyFile)
		return answer, false, nil
	}
	own, err := a.own(c)
	if err != nil {
		return answer, false, err
	}
	in, err := a.command(request{Call: c, role: role, dir: c.Dir, own: own, reservation: Reservation(c.Agent)})
	if err != nil {
		return answer, false, err
	}
	var before Tokens
	if c.Session != "" && in.before != nil {
		before = in.before()
	}
	dir := c.Dir
	if in.dir != "" {
		dir = in.dir
	}

	timeout := c.Agent.Timeout.Or(slice.DefaultCallTimeout)
	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	meter := evidence.NewMeter(name, c.OnProgress)
	watch := &watcher{stuck: in.stuck, patience: cmp.Or(a.patience, longPatience), stop: func() { stop(errStuck) }}
	ran, runErr := process.Run(running, process.Command{
		Args: append(program, in.args...), Dir: dir, Env: environment(c.Env, in.env), Stdin: prompt(brief),
		Timeout: timeout, Limit: streamLimit, Marker: c.Marker, Within: c.Within,
		OnOutput: func(s process.Stream, p []byte) {
			meter.Add(len(p))
			if s == process.Stdout {
				watch.write(p)
			}
		},
	})
	meter.Stop()
	watch.end()
	stuck := errors.Is(context.Cause(running), errStuck) && ctx.Err() == nil
	if runErr == nil && ran.Cancelled && !stuck {
		runErr = context.Cause(ctx)
	}

	printed := Printed{
		Stdout: ran.Stdout.Bytes(), Stderr: mask.Output(ran.Stderr).Bytes(), ExitCode: ran.ExitCode,
		Role: role, Model: c.Agent.Model, At: time.Now(), Before: before,
	}
	if ran.TimedOut || ran.Cancelled {
		printed.ExitCode = -1
	}
	ending, err := explained(parsers[a.use], printed, mask)
	if err == nil && in.log != nil && ending.Session != "" {
		printed.Log = in.log(ending.Session)
		ending, err = explained(parsers[a.use], printed, mask)
	}
	answer.settle(c, ran.Started, ending)
	if err != nil {
		return answer, false, err
	}
	for _, stream := range []struct {
		name   string
		output process.Output
	}{{"stdout", mask.Output(ran.Stdout)}, {"stderr", mask.Output(ran.Stderr)}} {
		if stream.output.Size == 0 {
			continue
		}
		if err := keep(stream.name, stream.output.Bytes()); err != nil {
			return answer, false, err
		}
	}
	var shim *process.LostError
	if errors.As(runErr, &shim) && ran.Started && ctx.Err() == nil {
		end(Discarded, "the process that watches over it was killed, by itself or by the system%s", lastWords(printed.Stderr))
		return answer, false, nil
	}
	if runErr != nil {
		end(Unanswered, "%v", runErr)
		return answer, false, fmt.Errorf("%s %s: %w", role, name, runErr)
	}
	switch {
	case ran.StartErr != nil:
		end(Fatal, "%v; install it on the worker's host, or name its path as run under agents in %s", ran.StartErr, slice.PolicyFile)
	case ran.TimedOut && ending.Class == Unanswered:
		end(Unanswered, "no answer within %s; look at what it wrote, or raise timeout under agents in %s", timeout, slice.PolicyFile)
	case ending.Class == Answered:
		answer.Class, answer.Raw = Answered, ending.Answer
	default:
		end(ending.Class, "%s", ending.Reason)
	}
	return answer, ending.SessionLost, nil
}

// settle takes what an ending tells, and sets the cost: what the program says;
// else its tokens by the price table; else the reservation. What was never
// started costs nothing, and neither does a session that was not there.
func (a *Answer) settle(c Call, started bool, e Ending) {
	a.Session, a.Model, a.Tokens = e.Session, e.Model, e.Tokens
	a.ResetAt, a.Wait = e.ResetAt, e.Wait
	if e.SessionLost {
		a.Session = ""
	}
	model := e.Model
	if model == "" {
		model = c.Agent.Model
	}
	priced, ok := Priced(c.Prices, model, e.Tokens)
	switch {
	case !started || e.SessionLost:
		a.CostMicroUSD, a.CostKnown = 0, true
	case e.CostKnown:
		a.CostMicroUSD, a.CostKnown = e.CostMicroUSD, true
	case ok:
		a.CostMicroUSD, a.CostKnown = priced, true
	case e.TokensKnown && e.Tokens == (Tokens{}) && (e.Class == Limit || e.Class == Transient || e.Class == Fatal || e.Class == Context):
		a.CostMicroUSD, a.CostKnown = 0, true
	default:
		a.CostMicroUSD, a.CostKnown = Reservation(c.Agent), false
	}
	// The last figure of a call that was killed leaves out what was under way.
	if e.Killed && started && e.Class != Transient {
		a.CostKnown = false
	}
}

// program is the beginning of the command line. A policy's line of shell is
// taken for words: there is nothing that a shell would be needed for.
func (a *Program) program(agent slice.Agent) []string {
	run := []string(agent.Run)
	if len(run) == 3 && run[0] == "/bin/sh" && run[1] == "-c" {
		run = strings.Fields(run[2])
	}
	if len(run) == 0 {
		run = []string{a.binary}
	}
	return append([]string{}, run...)
}

// own is the folder of the adapter's own files, which is made if need be.
func (a *Program) own(c Call) (string, error) {
	own := c.Own
	if own == "" {
		r := request{Call: c}
		own = filepath.Join(r.value("HOME"), ".interlock")
	}
	own = filepath.Join(own, string(a.use))
	if err := os.MkdirAll(own, 0o700); err != nil {
		return "", fmt.Errorf("folders of an agent: %w", err)
	}
	return own, nil
}

// environment is that of a call with what a program needs; TZ, because some
// programs print times of day.
func environment(call, program []string) []string {
	env, taken := []string{}, map[string]bool{}
	for _, e := range append(append([]string{"TZ=UTC"}, program...), call...) {
		name, _, _ := strings.Cut(e, "=")
		if !taken[name] {
			taken[name] = true
			env = append(env, e)
		}
	}
	return env
}

// prompt is the brief as a message. It comes by standard input: a long one does
// not fit into a command line, where everybody on the host could read it, too.
func prompt(brief []byte) []byte {
	return append([]byte("Your brief is the JSON document that follows. Do what its rules say.\n\n"), brief...)
}

// usd is an amount as an option takes it.
func usd(micro int64) string { return fmt.Sprintf("%d.%06d", micro/1_000_000, micro%1_000_000) }

// within reports whether a path is in a folder.
func within(folder, path string) bool {
	rel, err := filepath.Rel(filepath.Dir(folder), path)
	return err == nil && filepath.IsLocal(rel)
}

var errStuck = errors.New("it does the same again and again")

// watcher ends a program that is stuck: that has said so often enough, or once
// and nothing else for long enough.
type watcher struct {
	stuck func(json.RawMessage) (stuck, moving bool)
	stop  func()
	line  []byte
	count int
	// patience begins with the first event that says so.
	patience time.Duration
	timer    *time.Timer
}

const (
	// oftenStuck is how often a program may say that it is stuck.
	oftenStuck   = 10
	longPatience = 2 * time.Minute
	// longestLine is the longest event, in bytes, that is looked at while a
	// program runs.
	longestLine = 64 << 10
)

func (w *watcher) write(p []byte) {
	if w.stuck == nil {
		return
	}
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			w.line = append(w.line, p[:min(len(p), max(longestLine-len(w.line), 0))]...)
			return
		}
		w.line = append(w.line, p[:min(i, max(longestLine-len(w.line), 0))]...)
		w.event(w.line)
		w.line, p = w.line[:0], p[i+1:]
	}
}

func (w *watcher) event(line []byte) {
	stuck, moving := w.stuck(line)
	switch {
	case moving:
		w.end()
	case stuck:
		if w.timer == nil {
			w.timer = time.AfterFunc(w.patience, w.stop)
		}
		if w.count++; w.count == oftenStuck {
			w.stop()
		}
	}
}

// end forgets that the program was stuck.
func (w *watcher) end() {
	w.count = 0
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
}
