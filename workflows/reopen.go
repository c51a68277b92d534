package workflows

import (
	"go.temporal.io/sdk/workflow"

	"interlock/ledger"
	"interlock/machine"
	"interlock/slice"
)

// reopen goes on with a slice that has ended. Its state is the one that its
// record folds to, never what a client says; the machine decides where it goes
// on. What cannot be reopened leaves the record as it is.
func (r *run) reopen(ctx workflow.Context, by slice.Reopen) {
	turn := machine.Turn{Step: machine.Prepare}
	ended, err := r.claim(ctx)
	if err == nil && ended.Outcome == machine.Done {
		ended, err = r.goOn(ctx, by)
	}
	switch {
	case err != nil && isStop(err):
		r.stop(machine.Impossible, rootMessage(err))
	case err != nil && ctx.Err() != nil:
		r.stop(machine.Cancelled, "")
	case err != nil:
		r.record(ctx, turn, "", unable(machine.Prepare, err))
	case ended.Outcome != machine.Done:
		r.record(ctx, turn, "", ended)
	}
	if r.State.Ended() {
		r.Ledger = slice.Tail{} // nothing of this run is for the record
	}
}

func (r *run) goOn(ctx workflow.Context, by slice.Reopen) (slice.Ended, error) {
	if by.Reason == "" {
		return slice.Ended{Outcome: machine.Failed, Cause: machine.CauseInvalid, Why: "a slice is reopened for a reason: say which"}, nil
	}
	out, err := execute(r.host(ctx, "reopen"), slice.ActReopen, slice.ReopenIn{
		Header: r.header(ctx, machine.Turn{}, ""), Spec: r.spec, CapMicroUSD: by.CapMicroUSD})
	if err != nil || out.Outcome != machine.Done {
		return out.Ended, err
	}
	state, err := machine.Reopen(out.State, out.By)
	if err != nil {
		return slice.Ended{Outcome: machine.Failed, Cause: machine.CausePrecondition, Why: err.Error()}, nil
	}
	r.append(ctx, ledger.Line{Kind: ledger.Reopen, Spec: hash(r.spec), Reopening: &out.By, Why: by.Reason})
	r.State = state
	r.spec.Tasks = out.Tasks
	r.Base, r.Good, r.Candidate, r.Whole, r.Tip = out.Base, out.Good, out.Candidate, out.Whole, out.Notes.Tip
	r.Plan, r.Workspace, r.Store, r.Branch = out.Plan, out.Workspace, out.Store, out.Branch
	r.Gates, r.External = out.Gates, out.External
	r.Onto, r.CITimeout = out.Onto, out.CITimeout
	r.Proposal, r.Extra = out.Notes.Proposal, out.Notes.Extra
	r.Quota, r.Callers, r.Roles = out.Quota, out.Callers, out.Roles
	r.Undo, r.Vetoed, r.Open = out.Notes.Undo, out.Notes.Vetoed, out.Notes.Open
	told := out.Notes.Feedback
	r.Checks, r.Findings, r.Advice, r.Discarded = told.Checks, told.Findings, told.Advice, told.Discarded
	r.Tasks = nil
	for i, t := range out.Tasks {
		status := taskStatus(t)
		if i < len(out.Commits) {
			status.Commit = out.Commits[i]
		}
		r.Tasks = append(r.Tasks, status)
	}
	return out.Ended, nil
}

// notes are what the record does not hold and a reopened slice goes on with.
func (r *run) notes() *slice.Notes {
	end, _ := machine.Find(r.State.Ending, r.State.Cause)
	if end.ReopenAt == "" {
		return nil
	}
	var due []slice.UndoIn
	for _, u := range r.Undo {
		u.Header = slice.Header{}
		due = append(due, u)
	}
	return &slice.Notes{
		Proposal: r.Proposal, Extra: r.Extra,
		Vetoed: r.Vetoed, Open: first(r.Open, mostNoted), Tip: r.Tip, Undo: due,
		Feedback: slice.Feedback{Checks: red(r.Checks), Findings: first(r.Findings, mostNoted), Advice: r.Advice, Discarded: r.Discarded},
	}
}

// mostNoted bounds the findings that notes hold: they travel through history.
const mostNoted = 10
