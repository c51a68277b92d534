// Package workflows holds the workflow of a slice. It asks the machine what is
// due, schedules the activity of that step and tells the machine how it ended;
// it decides nothing by itself.
package workflows

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"interlock/ledger"
	"interlock/machine"
	"interlock/saga"
	"interlock/slice"
)

// Slice is the workflow of one slice. It completes when the slice is
// delivered, is cancelled when it is cancelled, and fails with every other
// ending: the type of the failure is the ending, its details the whole result.
func Slice(ctx workflow.Context, in slice.Input) (slice.Result, error) {
	r := restore(ctx, in)
	if err := r.listen(ctx); err != nil {
		return slice.Result{}, err
	}
	return r.run(ctx)
}

// run is a slice in work. Everything that must survive is in Carry; the rest
// lives as long as one Temporal run.
type run struct {
	slice.Carry
	id    string
	spec  slice.Spec
	wrong string // why the input could not be read
	since time.Time
	steps int // in this Temporal run
	// told is what the attributes say, toldWaiting what they say of a wait.
	told        machine.State
	toldWaiting string
	// decisions and reports are the signals that have not been looked at; due
	// are the roles whose report the step waits for.
	decisions, reports workflow.ReceiveChannel
	due                []string
	// reopening is set in the run that reopens a slice.
	reopening *slice.Reopen
	// drains look at the other signals that have come; answered and renewed are
	// what came for the wait that is open.
	drains   []func()
	answered *slice.Answered
	renewed  bool
	// left says that the wait which is open goes on in a new run.
	left bool
	// result is set once the slice has ended.
	result *slice.Result
}

func restore(ctx workflow.Context, in slice.Input) *run {
	info := workflow.GetInfo(ctx)
	r := &run{
		id:    info.WorkflowExecution.ID,
		spec:  in.Spec,
		wrong: in.Wrong,
		since: workflow.Now(ctx),
	}
	if in.Carry != nil && (info.ContinuedExecutionRunID == "" || info.CronSchedule != "") {
		// A client's word on what was checked and judged is not taken.
		r.wrong = "the input of the workflow has a carry, which only the run before may hand on"
	} else if in.Carry != nil {
		r.Carry = *in.Carry
		r.told, r.toldWaiting = r.State, r.waitingFor()
		return r
	}
	r.Started = workflow.Now(ctx).UnixMilli()
	r.State = machine.New(len(in.Tasks), machine.Rules{})
	r.reopening = in.Reopen
	for _, t := range in.Tasks {
		r.Tasks = append(r.Tasks, taskStatus(t))
	}
	return r
}

func taskStatus(t slice.Task) slice.TaskStatus {
	return slice.TaskStatus{ID: t.ID, Criterion: clip(oneLine(t.Criterion), shownCriterion)}
}

func (r *run) listen(ctx workflow.Context) error {
	handlers := []struct {
		name, description string
		handler           any
	}{
		{slice.QueryStatus, "where the slice is, what it waits for and what it has cost", func() (slice.Status, error) { return r.status(), nil }},
		{slice.QueryNext, "the step that is due", func() (slice.Next, error) { return r.next() }},
		{slice.QueryLedger, "the end of the record as the workflow knows it", func() (slice.Tail, error) { return r.Ledger, nil }},
	}
	for _, h := range handlers {
		err := workflow.SetQueryHandlerWithOptions(ctx, h.name, h.handler, workflow.QueryHandlerOptions{Description: h.description})
		if err != nil {
			return err
		}
	}
	return r.listenToMessages(ctx)
}

func (r *run) run(ctx workflow.Context) (slice.Result, error) {
	if r.reopening != nil {
		r.reopen(ctx, *r.reopening)
	}
	for !r.State.Ended() {
		if err := r.publish(ctx); err != nil {
			return slice.Result{}, err
		}
		if r.border(ctx) {
			return slice.Result{}, workflow.NewContinueAsNewError(ctx, slice.Workflow, slice.Input{Spec: r.spec, Carry: &r.Carry})
		}
		r.step(ctx)
	}
	return r.finish(ctx)
}

// border reports whether the run goes on as a new Temporal run: between two
// steps, and never before the host is known.
func (r *run) border(ctx workflow.Context) bool {
	r.drain()
	if r.left {
		return true
	}
	if r.State.Step == machine.Prepare || r.steps == 0 || !workflow.AllHandlersFinished(ctx) {
		return false
	}
	return workflow.GetInfo(ctx).GetContinueAsNewSuggested() || r.Host.StepsPerRun > 0 && r.steps >= r.Host.StepsPerRun
}

// step takes the one step that is due and crosses to the next.
func (r *run) step(ctx workflow.Context) {
	turn, _ := machine.Due(r.State)
	r.since = workflow.Now(ctx)
	ready, err := r.ready(ctx, turn)
	switch {
	case r.left:
		return
	case err != nil && ctx.Err() != nil:
		r.stop(machine.Cancelled, "")
		return
	case err != nil:
		r.stop(machine.Impossible, rootMessage(err))
		return
	case !ready:
		return
	}
	r.since = workflow.Now(ctx)
	if r.Op != "" {
		r.since = millis(r.Since)
	}
	ended, op, err := r.take(ctx, turn)
	if r.left {
		r.Op, r.Since = op, r.since.UnixMilli()
		return
	}
	if err != nil && ctx.Err() != nil && !temporal.IsCanceledError(err) && !isStop(err) {
		ended, err = r.settle(ctx, turn, op, err)
	}
	switch {
	case err != nil && isStop(err):
		r.stop(machine.Impossible, rootMessage(err))
		return
	case err != nil && ctx.Err() != nil:
		// Whatever it failed with, it was cut off.
		r.stop(machine.Cancelled, "")
		return
	case err != nil:
		ended = unable(turn.Step, err)
	case ctx.Err() != nil && r.cutOff(ended):
		ended.Outcome, ended.Cause = machine.Limited, ""
	case ctx.Err() == nil && ended.Outcome == machine.Limited && ended.Limit == nil && ended.Question == nil && ended.Short == nil:
		// The same call at once would meet the same limit, for ever.
		ended.Outcome, ended.Cause = machine.Unanswered, machine.CauseLimit
	}
	r.record(ctx, turn, op, ended)
	if ctx.Err() != nil && !r.State.Ended() {
		r.stop(machine.Cancelled, "")
	}
}

// settle asks what a call has cost whose worker was killed when the slice was
// being cancelled: Temporal does not try such an activity again.
func (r *run) settle(ctx workflow.Context, turn machine.Turn, op string, cause error) (slice.Ended, error) {
	if !slices.Contains([]machine.Step{machine.Implement, machine.Judge, machine.Advise, machine.Reconcile, machine.JudgeSlice}, turn.Step) {
		return slice.Ended{}, cause
	}
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	options := workflow.GetActivityOptions(r.host(ctx, "settle "+turn.String()))
	options.ScheduleToCloseTimeout = 10 * time.Minute
	ended, err := execute(workflow.WithActivityOptions(ctx, options), slice.ActSettle, slice.SettleIn{Header: r.header(ctx, turn, op)})
	if err != nil {
		r.Failed = append(r.Failed, fmt.Sprintf("what %s has cost is not known and not counted: %s", turn, rootMessage(err)))
		return slice.Ended{}, cause
	}
	ledger.Written(&r.Ledger, ended.Written)
	return ended, nil
}

// cutOff reports whether a cancelled step ended as it did because an agent was
// cut off: it stays due, what it has cost counts, and its silence does not.
func (r *run) cutOff(ended slice.Ended) bool {
	if ended.Outcome != machine.Unanswered {
		return false
	}
	_, err := machine.Next(r.State, machine.Event{Step: r.State.Step, Outcome: machine.Limited, CostMicroUSD: ended.CostMicroUSD})
	return err == nil
}

// take records the intent and runs the activity of the step.
func (r *run) take(ctx workflow.Context, turn machine.Turn) (slice.Ended, string, error) {
	take, ok := steps[turn.Step]
	if !ok {
		return slice.Ended{}, "", temporal.NewNonRetryableApplicationError(
			fmt.Sprintf("step %q is due, but this version cannot do it", turn.Step), slice.ErrInvalid, nil)
	}
	if turn.Step == machine.Prepare {
		if ended, err := r.claim(ctx); err != nil || ended.Outcome != machine.Done {
			return ended, "", err
		}
		r.append(ctx, ledger.Line{Kind: ledger.Start, Slice: r.id, Tasks: len(r.spec.Tasks), Spec: hash(r.spec)})
	}
	op := r.Op
	if op == "" {
		op = r.intend(ctx, turn)
	}
	h := r.header(ctx, turn, op)
	if r.Op != "" {
		h.At, r.Op = r.Since, ""
	}
	ended, err := take(r, r.host(ctx, turn.String()), h)
	if err == nil {
		ledger.Written(&r.Ledger, ended.Written)
	}
	return ended, op, err
}

// record crosses the machine, and writes the done line of what happened.
func (r *run) record(ctx workflow.Context, turn machine.Turn, op string, ended slice.Ended) {
	if notes := unusual(ended.Calls); len(notes) > 0 {
		ended.Why = strings.TrimPrefix(ended.Why+"; "+strings.Join(notes, "; "), "; ")
	}
	event := machine.Event{Step: turn.Step, Outcome: ended.Outcome, Cause: ended.Cause, CostMicroUSD: ended.CostMicroUSD}
	r.steps++
	r.Steps++
	done := slice.Done{Turn: turn, Outcome: ended.Outcome, Why: ended.Why, CostMicroUSD: ended.CostMicroUSD,
		Millis: workflow.Now(ctx).Sub(r.since).Milliseconds(), N: r.Steps}
	if r.Recent = append(r.Recent, done); len(r.Recent) > recentSteps {
		r.Recent = r.Recent[len(r.Recent)-recentSteps:]
	}
	next, err := machine.Next(r.State, event)
	if err != nil {
		r.stop(machine.Impossible, err.Error())
		return
	}
	if op != "" {
		r.append(ctx, r.doneLine(turn, op, ended))
	}
	if turn.Task > 0 && turn.Task <= len(r.Tasks) {
		r.Tasks[turn.Task-1].CostMicroUSD += ended.CostMicroUSD
		r.Tasks[turn.Task-1].Attempts = turn.Attempt
	}
	r.spend(turn.Step, ended.Calls)
	r.paused(workflow.Now(ctx), ended)
	r.Why = ended.Why
	if next.Ending == machine.AbortedBudget {
		r.Why = fmt.Sprintf("the slice has spent %s of %s", slice.USD(next.SpentMicroUSD), slice.USD(next.Rules.CapMicroUSD))
	}
	if ended.Outcome == machine.Corrections && next.Step != machine.Implement {
		r.Open = first(append(r.Open, slice.Standing(r.Findings)...), mostOpen)
		r.Findings = nil
	}
	r.State = next
	r.extend()
}

// stop ends the slice from outside the table.
func (r *run) stop(ending machine.Ending, why string) {
	r.State, _ = machine.Stop(r.State, ending)
	r.Why = why
}

// isStop reports whether an activity says that the slice must not go on: what
// it saw contradicts what was checked or recorded.
func isStop(err error) bool {
	var app *temporal.ApplicationError
	for errors.As(err, &app) {
		switch app.Type() {
		case slice.ErrInvalid, slice.ErrLedger, slice.ErrMismatch:
			return true
		}
		err = app.Unwrap() // an activity may have wrapped it
	}
	return false
}

// unable is the outcome of a step whose activity failed for good: the
// infrastructure failed, which is never the code being red.
func unable(step machine.Step, err error) slice.Ended {
	var timeout *temporal.TimeoutError
	if errors.As(err, &timeout) && timeout.TimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START {
		return slice.Ended{Outcome: machine.Lost, Why: rootMessage(err)}
	}
	ended := slice.Ended{Outcome: machine.Unmeasured, Why: rootMessage(err)}
	switch step {
	case machine.Prepare:
		ended.Outcome, ended.Cause = machine.Failed, machine.CausePrecondition
	case machine.Implement, machine.Judge, machine.Advise, machine.JudgeSlice:
		ended.Outcome, ended.Cause = machine.Unanswered, machine.CauseFatal
	case machine.Commit, machine.PlanGate, machine.PublishGate, machine.MergeGate:
		ended.Outcome = machine.Failed
	case machine.Publish, machine.Propose, machine.Merge:
		ended.Outcome = machine.Unanswered
	case machine.Baseline, machine.Check, machine.Reconcile, machine.Verify, machine.E2E, machine.AwaitCI:
	}
	return ended
}

// rootMessage is what went wrong, without the engine's wrapping.
func rootMessage(err error) string {
	var app *temporal.ApplicationError
	var timeout *temporal.TimeoutError
	switch {
	case errors.As(err, &app):
		return app.Message()
	case errors.As(err, &timeout) && timeout.TimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START:
		return "no worker of the host took it in its time: start the worker of that host again"
	case errors.As(err, &timeout) && timeout.TimeoutType() == enumspb.TIMEOUT_TYPE_HEARTBEAT:
		return "its worker gave no more sign of life: look at the worker of the host"
	default:
		return err.Error()
	}
}

// host returns a context for activities on the slice's host.
func (r *run) host(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              r.Host.Queue,
		StartToCloseTimeout:    longestStep,
		ScheduleToStartTimeout: time.Duration(r.Host.ScheduleToStart),
		HeartbeatTimeout:       time.Duration(r.Host.Heartbeat),
		WaitForCancellation:    true,
		Summary:                summary,
		RetryPolicy:            retries(),
	})
}

func retries() *temporal.RetryPolicy {
	return &temporal.RetryPolicy{
		InitialInterval:    time.Second,
		BackoffCoefficient: 2,
		MaximumInterval:    30 * time.Second,
		MaximumAttempts:    20,
	}
}

const (
	// longestStep bounds an activity; the clock of an agent or check is the
	// runner's, and a dead worker shows by its missing heartbeat.
	longestStep = 7 * 24 * time.Hour
	recentSteps = 20
	// mostOpen is how many corrections that were not made are kept: the record
	// and the evidence have all of them.
	mostOpen = 100
)

// finish takes back what is to be taken back, closes the record and returns
// the ending as Temporal shows it.
func (r *run) finish(ctx workflow.Context) (slice.Result, error) {
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	undone := r.compensate(ctx)
	r.conclude(ctx)
	result := r.resultOf(ctx, undone)
	r.result = &result
	if err := r.publish(ctx); err != nil {
		return result, err
	}
	if err := workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) }); err != nil {
		return result, err
	}
	switch result.Ending {
	case machine.Delivered:
		return result, nil
	case machine.Cancelled:
		return result, temporal.NewCanceledError(result)
	default:
		return result, temporal.NewApplicationErrorWithOptions(headline(result), string(result.Ending),
			temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{result}})
	}
}

// undoes reports whether compensation u is due at the ending: all of them for
// a slice that was cancelled or never got to work; what was only needed for
// work if it is delivered; none if it is blocked, so that a person can look.
func (r *run) undoes(u slice.UndoIn) bool {
	switch r.State.Ending {
	case machine.Cancelled, machine.Invalid, machine.Precondition:
		return true
	case machine.Delivered:
		return u.What != slice.UndoProposal && (u.What != slice.UndoBranch || r.State.Rules.DeliverTo == machine.ToMerge)
	default:
		return false
	}
}

func (r *run) compensate(ctx workflow.Context) []string {
	var stack []slice.UndoIn
	for _, u := range r.Undo {
		if r.undoes(u) {
			stack = append(stack, u)
		}
	}
	var undone []string
	for _, s := range saga.Compensate(ctx, stack, r.undo) {
		if s.Err != nil {
			r.Failed = append(r.Failed, fmt.Sprintf("the %s could not be taken back: %s; %s", s.What, clip(rootMessage(s.Err), 500), r.byHand(s.What)))
			continue
		}
		undone = append(undone, s.Seen)
	}
	return undone
}

// byHand says what a person does if a compensation failed.
func (r *run) byHand(what slice.Undone) string {
	switch what {
	case slice.UndoWorkspace:
		return fmt.Sprintf("remove the folder %s on host %s by hand", r.Workspace, r.Host.ID)
	case slice.UndoBranch:
		return fmt.Sprintf("delete the branch %s by hand if it is there and nobody needs it", r.Branch)
	case slice.UndoProposal:
		if r.Proposal.URL != "" {
			return "close it by hand if it is open: gh pr close " + r.Proposal.URL
		}
		return fmt.Sprintf("close the proposal of branch %s by hand if there is one: gh pr close %s", r.Branch, r.Branch)
	case slice.UndoViews:
	}
	return fmt.Sprintf("they are in the way of nothing, and host %s may remove them at any time", r.Host.ID)
}

func (r *run) undo(ctx workflow.Context, u slice.UndoIn) (string, error) {
	u.Header = r.header(ctx, machine.Turn{Step: r.State.Step}, "")
	if u.What == slice.UndoProposal {
		u.Ending = r.State.Ending
	}
	options := workflow.GetActivityOptions(r.host(ctx, "undo "+string(u.What)))
	options.ScheduleToCloseTimeout = 10 * time.Minute
	out, err := execute(workflow.WithActivityOptions(ctx, options), slice.ActUndo, u)
	if err != nil {
		return "", err
	}
	ledger.Written(&r.Ledger, out.Written)
	r.append(ctx, ledger.Line{Kind: ledger.Undo, Undo: u.What, Seen: out.Seen})
	return out.Seen, nil
}

// conclude writes the last lines of the record. A slice that never had one
// has nothing to conclude.
func (r *run) conclude(ctx workflow.Context) {
	if r.Ledger.N == 0 {
		return
	}
	r.append(ctx, ledger.Line{Kind: ledger.End, Ending: r.State.Ending, Cause: r.State.Cause, Why: r.Why})
	options := workflow.GetActivityOptions(r.host(ctx, "conclude"))
	options.ScheduleToCloseTimeout = 10 * time.Minute
	out, err := execute(workflow.WithActivityOptions(ctx, options), slice.ActConclude,
		slice.ConcludeIn{Header: r.header(ctx, machine.Turn{Step: r.State.Step}, ""), Notes: r.notes()})
	if err != nil {
		r.Failed = append(r.Failed, "the end of the record could not be written: "+rootMessage(err))
		return
	}
	ledger.Written(&r.Ledger, out.Written)
}

func execute[In, Out any](ctx workflow.Context, a slice.Activity[In, Out], in In) (out Out, err error) {
	err = workflow.ExecuteActivity(ctx, string(a), in).Get(ctx, &out)
	return out, err
}
