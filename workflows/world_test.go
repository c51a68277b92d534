package workflows

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"sync"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"interlock/ledger"
	"interlock/machine"
	"interlock/slice"
)

// A call is one scripted step: how the step that is due ends.
type call struct {
	Step    machine.Step
	Outcome machine.Outcome
	Cause   machine.Cause
	Cost    int64
	// Tree names the candidate of implement, or the merge of reconcile.
	Tree string
	How  how
}

// how says what is unusual about a call.
type how string

const (
	noCall   how = "nocall"   // the workflow answers by itself
	broken   how = "broken"   // the infrastructure failed for good
	flaky    how = "flaky"    // it failed twice, then worked
	lost     how = "lost"     // no worker took it
	mismatch how = "mismatch" // the activity saw a contradiction
	fork     how = "fork"     // the activity saw another record
	limit    how = "limit"    // the agent's provider has a limit
	waits    how = "waits"    // the forge has to be waited for, twice
)

// Claim is no step of the machine, but a call like the others.
const claimed machine.Step = "claim"

// parse reads a script: calls in their order, each written as
//
//	step[=outcome[/cause]][@tree][$cost][!how]
//
// A claim that is done is left out.
func parse(script string) (calls []call) {
	for _, word := range strings.Fields(script) {
		c := call{Outcome: machine.Done, Cost: -1}
		word, unusual, _ := strings.Cut(word, "!")
		c.How = how(unusual)
		word, cost, priced := strings.Cut(word, "$")
		word, c.Tree, _ = strings.Cut(word, "@")
		step, ended, given := strings.Cut(word, "=")
		c.Step = machine.Step(step)
		if given {
			outcome, cause, _ := strings.Cut(ended, "/")
			c.Outcome, c.Cause = machine.Outcome(outcome), machine.Cause(cause)
		}
		switch {
		case priced:
			v, err := strconv.ParseInt(cost, 10, 64)
			if err != nil {
				panic(err)
			}
			c.Cost = v
		case c.How == "" || c.How == flaky:
			c.Cost = prices[c.Step]
		default:
			c.Cost = 0
		}
		calls = append(calls, c)
	}
	return calls
}

// prices are what a call costs that names no cost, in micro-dollars.
var prices = map[machine.Step]int64{
	machine.Implement: 1000, machine.Judge: 100, machine.Advise: 10, machine.Reconcile: 1, machine.JudgeSlice: 200,
}

// world is what the fake activities of one slice act on: a record, and the
// git, folders and people that a real one would have. It notes every
// contradiction that it sees.
type world struct {
	mu    sync.Mutex
	spec  slice.Spec
	rules machine.Rules
	host  slice.Host
	calls []call
	at    int            // calls taken
	ops   map[string]int // which call an operation is
	tries map[string]int

	lines  []string
	held   map[slice.Undone]bool
	undone []slice.Undone
	inputs []any
	wrong  []string

	candidate, checked, judged  string
	base, good, whole, verified string
	starts                      int
	// onStart runs at the start of the n-th call of an activity, from 1; what
	// it returns, if it stops the call, is how the call ends.
	onStart func(ctx context.Context, n int, name string) (stop bool)
	// killed says that a stopped call ends as if its worker had been killed, and
	// settleFails that nobody knows then what it has cost.
	killed, settleFails bool
	// unheard says that nobody waits for the end of a stopped call, as the test
	// environment does not.
	unheard bool
	settled int
	// undoFails are compensations that fail.
	undoFails map[slice.Undone]error
	// runs and spent are what claim knows of earlier runs.
	runs  int
	spent int64
	// external are the roles that are driven from outside.
	external []string
	// prepared and shape, if not nil, change what prepare finds out, and how the
	// nth try of an agent ends, from 1.
	prepared func(*slice.PrepareOut)
	shape    func(n int, in any, ended *slice.Ended)
	shaped   int
}

func newWorld(id string, tasks int, rules machine.Rules, script string) *world {
	w := &world{
		spec:  slice.Spec{ID: id, Repo: "/srv/repo", Base: "main", Title: "Greet " + id},
		rules: rules, calls: parse(script), ops: map[string]int{}, tries: map[string]int{}, held: map[slice.Undone]bool{},
		host: slice.Host{ID: "h1", Queue: slice.HostQueue("h1"), Heartbeat: slice.Duration(10e9), ScheduleToStart: slice.Duration(60e9)},
		base: object("base"),
	}
	w.good = w.base
	for i := range tasks {
		w.spec.Tasks = append(w.spec.Tasks, slice.Task{ID: fmt.Sprintf("t%d", i+1), Criterion: fmt.Sprintf("criterion %d holds", i+1)})
	}
	return w
}

// object returns a git object id that depends on words alone.
func object(words ...string) string {
	sum := sha1.Sum([]byte(strings.Join(words, " ")))
	return hex.EncodeToString(sum[:])
}

func (w *world) contradiction(format string, args ...any) {
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

// complain notes a contradiction from outside the fakes.
func (w *world) complain(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.contradiction(format, args...)
}

// expect notes a contradiction if what an activity is told is not what is so.
func (w *world) expect(what, told, is string) {
	if told != is {
		w.contradiction("%s: told %.10s, but it is %.10s", what, told, is)
	}
}

// write appends the lines of a header to the record, as the real ledger ref
// takes them: numbers that are there must have the same bytes.
func (w *world) write(lines []string) slice.Ack {
	var ack slice.Ack
	for _, line := range lines {
		n, err := ledger.Number(line)
		switch {
		case err != nil:
			w.contradiction("%v", err)
			return ack
		case n <= len(w.lines):
			if w.lines[n-1] != line {
				w.contradiction("line %d is written already, with other bytes", n)
			}
		case n == len(w.lines)+1:
			w.lines = append(w.lines, line)
		default:
			w.contradiction("line %d comes after line %d", n, len(w.lines))
		}
		ack = slice.Ack{Written: n, Head: ledger.Hash(line)}
	}
	return ack
}

// enter does what every activity does first. It returns the scripted call and
// how it ends.
func (w *world) enter(ctx context.Context, step machine.Step, h slice.Header, in any) (call, slice.Ended, error) {
	stop := w.start(ctx, string(step))
	w.mu.Lock()
	defer w.mu.Unlock()
	if stop && w.unheard {
		return call{Step: step}, slice.Ended{}, temporal.NewNonRetryableApplicationError("nobody waits for it", "Unheard", nil)
	}
	c, err := w.next(step, h.Op)
	if err != nil {
		return c, slice.Ended{}, err
	}
	if c.How == lost {
		return c, slice.Ended{}, temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START, nil)
	}
	ack := w.write(h.Lines)
	w.intended(step, h)
	w.tries[h.Op]++
	if w.tries[h.Op] == 1 {
		w.inputs = append(w.inputs, in)
	}
	ended := slice.Ended{Ack: ack, Outcome: c.Outcome, Cause: c.Cause, CostMicroUSD: c.Cost, Why: why(c)}
	if stop {
		if w.killed {
			return c, ended, temporal.NewApplicationError("the worker was killed", "Killed")
		}
		if prices[step] == 0 {
			return c, ended, ctx.Err()
		}
		// An agent that is stopped has cost what it has cost.
		ended.Outcome, ended.Cause, ended.CostMicroUSD, ended.Why = machine.Unanswered, machine.CauseFatal, 7, "it was stopped"
		return call{Step: step, Outcome: machine.Unanswered}, ended, nil
	}
	switch c.How {
	case broken:
		return c, ended, temporal.NewNonRetryableApplicationError("the disk of "+string(step)+" is full", "Broken", nil)
	case flaky:
		if w.tries[h.Op] <= 2 {
			return c, ended, temporal.NewApplicationErrorWithOptions("not yet", "Flaky", temporal.ApplicationErrorOptions{NextRetryDelay: 1e6})
		}
	case mismatch:
		return c, ended, temporal.NewNonRetryableApplicationError("the candidate is another one", slice.ErrMismatch, nil)
	case fork:
		return c, ended, temporal.NewNonRetryableApplicationError("line 3 is another one", slice.ErrLedger, nil)
	case limit:
		ended.Outcome, ended.Cause = machine.Limited, ""
	case noCall, lost, waits, "":
	}
	if w.shape != nil && prices[step] > 0 {
		w.shaped++
		w.shape(w.shaped, in, &ended)
	}
	return c, ended, nil
}

func why(c call) string {
	if c.Outcome == machine.Done {
		return ""
	}
	return fmt.Sprintf("%s is %s", c.Step, c.Outcome)
}

func (w *world) start(ctx context.Context, name string) (stop bool) {
	w.mu.Lock()
	w.starts++
	n, hook := w.starts, w.onStart
	w.mu.Unlock()
	return hook != nil && hook(ctx, n, name)
}

// next returns the call that operation op is: the same for every try.
func (w *world) next(step machine.Step, op string) (call, error) {
	i, again := w.ops[op]
	if !again {
		for w.at < len(w.calls) && w.calls[w.at].How == noCall {
			w.at++
		}
		i = w.at
		w.at++
		w.ops[op] = i
	}
	if i >= len(w.calls) || w.calls[i].Step != step {
		w.contradiction("call %d is %s, which the script does not have there", i+1, step)
		return call{Step: step}, temporal.NewNonRetryableApplicationError("the script ends here", slice.ErrInvalid, nil)
	}
	return w.calls[i], nil
}

// intended checks that the intent is in the record before the effect.
func (w *world) intended(step machine.Step, h slice.Header) {
	record, err := ledger.Parse(w.lines)
	if err != nil || len(record) == 0 {
		w.contradiction("%s: the record does not verify: %v", step, err)
		return
	}
	last := record[len(record)-1]
	if last.Kind != ledger.Intent || last.Op != h.Op || last.Turn != h.Turn || h.Turn.Step != step || h.Run != last.Run {
		w.contradiction("%s: the last line of the record is no intent of it: %s", step, last)
	}
	if step != machine.Prepare {
		w.expect(string(step)+": the base", h.Base, w.base)
		w.expect(string(step)+": the last good commit", h.Good, w.good)
	}
}

// decision returns what the script has a person decide at the gate that waits.
func (w *world) decision(wait *slice.Wait) (d slice.Decision, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if wait == nil || wait.For != slice.WaitApproval || w.at >= len(w.calls) || !isGate(w.calls[w.at].Step) {
		return d, false
	}
	d = slice.Decision{Verdict: slice.Approved, Subject: wait.Subject, By: "ada"}
	if w.calls[w.at].Outcome != machine.Done {
		d.Verdict = slice.Refused
	}
	w.at++
	want := ledger.Hash("plan")
	if w.calls[w.at-1].Step != machine.PlanGate {
		want = w.whole
	}
	w.expect(string(w.calls[w.at-1].Step), wait.Subject, want)
	return d, true
}

func isGate(s machine.Step) bool {
	return s == machine.PlanGate || s == machine.PublishGate || s == machine.MergeGate
}

func (w *world) claim(ctx context.Context, in slice.ClaimIn) (slice.ClaimOut, error) {
	stop := w.start(ctx, string(slice.ActClaim))
	w.mu.Lock()
	defer w.mu.Unlock()
	if stop {
		return slice.ClaimOut{}, ctx.Err()
	}
	out := slice.ClaimOut{Ended: slice.Ended{Outcome: machine.Done}, Host: w.host, Key: "repo", Runs: w.runs, SpentMicroUSD: w.spent}
	if n := len(w.lines); n > 0 {
		out.Ack = slice.Ack{Written: n, Head: ledger.Hash(w.lines[n-1])}
	}
	if len(w.calls) == 0 || w.calls[0].Step != claimed {
		return out, nil
	}
	c, err := w.next(claimed, "claim")
	if err != nil {
		return out, err
	}
	switch c.How {
	case fork:
		return out, temporal.NewNonRetryableApplicationError("line 3 does not verify", slice.ErrLedger, nil)
	case broken:
		return out, temporal.NewNonRetryableApplicationError("the disk of claim is full", "Broken", nil)
	case noCall, flaky, lost, mismatch, limit, waits, "":
	}
	return slice.ClaimOut{Ended: slice.Ended{Outcome: c.Outcome, Cause: c.Cause, Why: why(c)}}, nil
}

func (w *world) prepare(ctx context.Context, in slice.PrepareIn) (slice.PrepareOut, error) {
	w.hold(slice.UndoWorkspace, slice.UndoViews)
	_, ended, err := w.enter(ctx, machine.Prepare, in.Header, in)
	w.mu.Lock()
	defer w.mu.Unlock()
	out := slice.PrepareOut{Ended: ended}
	if err == nil && ended.Outcome == machine.Done {
		out.Base, out.Rules, out.Plan = w.base, w.rules, ledger.Hash("plan")
		out.External = w.external
		if w.prepared != nil {
			w.prepared(&out)
		}
		out.Workspace, out.Branch = "/home/slices/"+in.Slice+"/tree", slice.Branch(in.Slice)
	}
	return out, err
}

// hold notes what a call may have made from now on, however it ends.
func (w *world) hold(all ...slice.Undone) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, what := range all {
		w.held[what] = true
	}
}

func (w *world) measure(step machine.Step) func(context.Context, slice.MeasureIn) (slice.MeasureOut, error) {
	return func(ctx context.Context, in slice.MeasureIn) (slice.MeasureOut, error) {
		c, ended, err := w.enter(ctx, step, in.Header, in)
		w.mu.Lock()
		defer w.mu.Unlock()
		switch step {
		case machine.Baseline:
			w.expect("baseline", in.Tree, w.base)
		case machine.Check:
			w.expect("check", in.Tree, w.candidate)
			if c.Outcome == machine.Done {
				w.checked = in.Tree
			}
		default:
			w.expect(string(step), in.Tree, w.whole)
			if step == machine.Verify && c.Outcome == machine.Done {
				w.verified = in.Tree
			}
		}
		return slice.MeasureOut{Ended: ended, Checks: checks(c)}, err
	}
}

func checks(c call) []slice.CheckResult {
	unit := slice.CheckResult{Measured: slice.Measured{Name: "unit", Outcome: c.Outcome}, Millis: 12}
	switch c.Outcome {
	case machine.Done:
		unit.Passed = 3
	case machine.Failed:
		unit.Passed, unit.Failed, unit.Failing = 2, 1, []string{"TestGreet"}
		unit.Why, unit.Summary = "exit status 1", "--- FAIL: TestGreet"
	default:
		unit.Why = "timed out after 10m"
	}
	lint := slice.CheckResult{Measured: slice.Measured{Name: "lint", Outcome: machine.Done}}
	return []slice.CheckResult{unit, lint}
}

func (w *world) implement(ctx context.Context, in slice.ImplementIn) (slice.ImplementOut, error) {
	c, ended, err := w.enter(ctx, machine.Implement, in.Header, in)
	w.mu.Lock()
	defer w.mu.Unlock()
	out := slice.ImplementOut{Ended: ended}
	if err == nil && ended.Outcome == machine.Done {
		name := c.Tree
		if name == "" {
			name = in.Turn.String()
		}
		w.candidate = object("tree", name)
		out.Candidate, out.Changed = w.candidate, true
	}
	return out, err
}

func findings(c call) []slice.Finding {
	switch c.Outcome {
	case machine.Failed:
		return []slice.Finding{{Judge: "judge", Severity: slice.Blocking, File: "greet.go", Line: 3, Claim: "it does not greet"}}
	case machine.Corrections:
		return []slice.Finding{{Judge: "judge", Severity: slice.Correction, File: "greet.go", Line: 4, Claim: "name it better"}}
	default:
		return nil
	}
}

func (w *world) judge(ctx context.Context, in slice.JudgeIn) (slice.JudgeOut, error) {
	c, ended, err := w.enter(ctx, machine.Judge, in.Header, in)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.expect("judge", in.Candidate, w.checked)
	if c.Outcome == machine.Done || c.Outcome == machine.Corrections {
		w.judged = in.Candidate
	}
	return slice.JudgeOut{Ended: ended, Findings: findings(c)}, err
}

func (w *world) advise(ctx context.Context, in slice.AdviseIn) (slice.AdviseOut, error) {
	c, ended, err := w.enter(ctx, machine.Advise, in.Header, in)
	out := slice.AdviseOut{Ended: ended}
	if c.Outcome == machine.Done {
		out.Advice = "begin with the greeting"
	}
	return out, err
}

func (w *world) commit(ctx context.Context, in slice.CommitIn) (slice.CommitOut, error) {
	c, ended, err := w.enter(ctx, machine.Commit, in.Header, in)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		return slice.CommitOut{}, err
	}
	w.expect("commit: what was checked", in.Candidate, w.checked)
	w.expect("commit: what was judged", in.Candidate, w.judged)
	w.expect("commit: the head of the record", in.Ledger, ended.Head)
	out := slice.CommitOut{Ended: ended}
	if c.Outcome == machine.Done {
		w.good = object("commit", in.Good, in.Candidate, in.Task.ID)
		w.checked, w.judged = "", ""
		out.Commit = w.good
	}
	return out, err
}

func (w *world) reconcile(ctx context.Context, in slice.ReconcileIn) (slice.ReconcileOut, error) {
	c, ended, err := w.enter(ctx, machine.Reconcile, in.Header, in)
	w.mu.Lock()
	defer w.mu.Unlock()
	out := slice.ReconcileOut{Ended: ended}
	if err == nil && ended.Outcome == machine.Done {
		out.Tip, out.Commit = object("tip", c.Tree), w.good
		if c.Tree != "" {
			out.Commit = object("merge", w.good, out.Tip)
		}
		w.whole, w.good, w.verified = out.Commit, out.Commit, ""
	}
	return out, err
}

func (w *world) judgeSlice(ctx context.Context, in slice.JudgeSliceIn) (slice.JudgeOut, error) {
	c, ended, err := w.enter(ctx, machine.JudgeSlice, in.Header, in)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.expect("judge_slice", in.Commit, w.whole)
	w.expect("judge_slice: what was verified", in.Commit, w.verified)
	return slice.JudgeOut{Ended: ended, Findings: findings(c)}, err
}

func (w *world) publish(ctx context.Context, in slice.PublishIn) (slice.PublishOut, error) {
	w.hold(slice.UndoBranch)
	_, ended, err := w.enter(ctx, machine.Publish, in.Header, in)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.expect("publish: what was verified", in.Commit, w.verified)
	return slice.PublishOut{Ended: ended, Remote: in.Repo}, err
}

// later is what a call that waits answers at first.
func (w *world) later(c call, ended *slice.Ended, op string, what slice.WaitFor) (l slice.Later) {
	if c.How == waits && w.tries[op] <= 2 {
		ended.Outcome, ended.Cause, ended.Why = "", "", ""
		l = slice.Later{For: what, Why: fmt.Sprintf("look %d", w.tries[op])}
	}
	return l
}

func (w *world) propose(ctx context.Context, in slice.ProposeIn) (slice.ProposeOut, error) {
	w.hold(slice.UndoProposal)
	c, ended, err := w.enter(ctx, machine.Propose, in.Header, in)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.expect("propose: what was verified", in.Commit, w.verified)
	out := slice.ProposeOut{Later: w.later(c, &ended, in.Op, slice.WaitForge), Ended: ended}
	if err == nil && ended.Outcome == machine.Done {
		out.Proposal = slice.Proposal{Number: 7, URL: "https://forge.example/pull/7"}
	}
	return out, err
}

func (w *world) awaitCI(ctx context.Context, in slice.AwaitCIIn) (slice.AwaitCIOut, error) {
	c, ended, err := w.enter(ctx, machine.AwaitCI, in.Header, in)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.expect("await_ci: what was verified", in.Commit, w.verified)
	if in.Proposal.Number != 7 {
		w.contradiction("await_ci: told proposal %d", in.Proposal.Number)
	}
	out := slice.AwaitCIOut{Later: w.later(c, &ended, in.Op, slice.WaitCI), Ended: ended}
	build := slice.CheckResult{Measured: slice.Measured{Name: "build", Outcome: c.Outcome, Why: "https://forge.example/run/1"}}
	if c.Outcome == machine.Failed {
		build.Summary = "the log of CI"
	}
	out.Checks = []slice.CheckResult{build}
	return out, err
}

func (w *world) merge(ctx context.Context, in slice.MergeIn) (slice.MergeOut, error) {
	c, ended, err := w.enter(ctx, machine.Merge, in.Header, in)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.expect("merge: what was verified", in.Commit, w.verified)
	out := slice.MergeOut{Later: w.later(c, &ended, in.Op, slice.WaitUnknown), Ended: ended}
	if err == nil && ended.Outcome == machine.Done {
		out.Merged = object("merged", in.Commit)
	}
	return out, err
}

func (w *world) undo(ctx context.Context, in slice.UndoIn) (slice.UndoOut, error) {
	w.start(ctx, string(slice.ActUndo))
	w.mu.Lock()
	defer w.mu.Unlock()
	ack := w.write(in.Lines)
	if err := w.undoFails[in.What]; err != nil {
		return slice.UndoOut{}, err
	}
	if in.What == slice.UndoBranch && in.Commit != w.whole {
		w.contradiction("undo: the branch was %.10s, told %.10s", w.whole, in.Commit)
	}
	delete(w.held, in.What)
	w.undone = append(w.undone, in.What)
	return slice.UndoOut{Ack: ack, Seen: "the " + string(in.What) + " is removed"}, nil
}

func (w *world) restore(ctx context.Context, in slice.RestoreIn) (slice.Ack, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ack := w.write(in.Lines)
	w.intended(machine.Implement, in.Header)
	w.inputs = append(w.inputs, in)
	return ack, nil
}

func (w *world) settle(_ context.Context, in slice.SettleIn) (slice.Ended, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ended := slice.Ended{Ack: w.write(in.Lines), Outcome: machine.Limited, CostMicroUSD: 9}
	w.intended(in.Turn.Step, in.Header)
	w.settled++
	if w.settleFails {
		return slice.Ended{}, temporal.NewNonRetryableApplicationError("the home is not there", "Disk", nil)
	}
	return ended, nil
}

func (w *world) conclude(ctx context.Context, in slice.ConcludeIn) (slice.Ack, error) {
	w.start(ctx, string(slice.ActConclude))
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.write(in.Lines), nil
}

// worlds are the worlds of all slices of this process, by slice.
var worlds sync.Map

func worldOf(id string) (*world, error) {
	if w, ok := worlds.Load(id); ok {
		return w.(*world), nil
	}
	return nil, temporal.NewNonRetryableApplicationError("no world has slice "+id, slice.ErrInvalid, nil)
}

type registry interface {
	RegisterActivityWithOptions(any, activity.RegisterOptions)
}

type headed interface{ GetHeader() slice.Header }

// register registers a fake by the typed name of the activity it stands for.
func register[In headed, Out any](r registry, name slice.Activity[In, Out], do func(*world) func(context.Context, In) (Out, error)) {
	r.RegisterActivityWithOptions(func(ctx context.Context, in In) (out Out, err error) {
		w, err := worldOf(in.GetHeader().Slice)
		if err != nil {
			return out, err
		}
		return do(w)(ctx, in)
	}, activity.RegisterOptions{Name: string(name)})
}

func registerClaim(r registry) {
	r.RegisterActivityWithOptions(func(ctx context.Context, in slice.ClaimIn) (slice.ClaimOut, error) {
		w, err := worldOf(in.Slice)
		if err != nil {
			return slice.ClaimOut{}, err
		}
		return w.claim(ctx, in)
	}, activity.RegisterOptions{Name: string(slice.ActClaim)})
}

func registerOwn(r registry) {
	measure := func(step machine.Step) func(*world) func(context.Context, slice.MeasureIn) (slice.MeasureOut, error) {
		return func(w *world) func(context.Context, slice.MeasureIn) (slice.MeasureOut, error) {
			return w.measure(step)
		}
	}
	type w = *world
	register(r, slice.ActPrepare, func(w w) func(context.Context, slice.PrepareIn) (slice.PrepareOut, error) { return w.prepare })
	register(r, slice.ActRestore, func(w w) func(context.Context, slice.RestoreIn) (slice.Ack, error) { return w.restore })
	register(r, slice.ActBaseline, measure(machine.Baseline))
	register(r, slice.ActImplement, func(w w) func(context.Context, slice.ImplementIn) (slice.ImplementOut, error) { return w.implement })
	register(r, slice.ActCheck, measure(machine.Check))
	register(r, slice.ActJudge, func(w w) func(context.Context, slice.JudgeIn) (slice.JudgeOut, error) { return w.judge })
	register(r, slice.ActAdvise, func(w w) func(context.Context, slice.AdviseIn) (slice.AdviseOut, error) { return w.advise })
	register(r, slice.ActCommit, func(w w) func(context.Context, slice.CommitIn) (slice.CommitOut, error) { return w.commit })
	register(r, slice.ActReconcile, func(w w) func(context.Context, slice.ReconcileIn) (slice.ReconcileOut, error) { return w.reconcile })
	register(r, slice.ActVerify, measure(machine.Verify))
	register(r, slice.ActJudgeSlice, func(w w) func(context.Context, slice.JudgeSliceIn) (slice.JudgeOut, error) { return w.judgeSlice })
	register(r, slice.ActE2E, measure(machine.E2E))
	register(r, slice.ActPublish, func(w w) func(context.Context, slice.PublishIn) (slice.PublishOut, error) { return w.publish })
	register(r, slice.ActPropose, func(w w) func(context.Context, slice.ProposeIn) (slice.ProposeOut, error) { return w.propose })
	register(r, slice.ActAwaitCI, func(w w) func(context.Context, slice.AwaitCIIn) (slice.AwaitCIOut, error) { return w.awaitCI })
	register(r, slice.ActMerge, func(w w) func(context.Context, slice.MergeIn) (slice.MergeOut, error) { return w.merge })
	register(r, slice.ActUndo, func(w w) func(context.Context, slice.UndoIn) (slice.UndoOut, error) { return w.undo })
	register(r, slice.ActSettle, func(w w) func(context.Context, slice.SettleIn) (slice.Ended, error) { return w.settle })
	register(r, slice.ActConclude, func(w w) func(context.Context, slice.ConcludeIn) (slice.Ack, error) { return w.conclude })
}
