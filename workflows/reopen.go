package workflows

import (
	"strings"

	"go.temporal.io/sdk/workflow"

	"interlock/ledger"
	"interlock/machine"
	"interlock/saga"
	"interlock/slice"
)

// reopen goes on with a slice that has ended. Its state is the one that its
// record folds to, never what a client says; the machine decides where it goes
// on. What cannot be reopened leaves the record as it is.
func (r *run) reopen(ctx workflow.Context, by slice.Reopen) {
	workflow.SetCurrentDetails(ctx, "### "+cell(r.spec.Title)+"\n\nit is being reopened: "+cell(by.Reason)+"\n")
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
	if why := flaw(by); why != "" {
		return slice.Ended{Outcome: machine.Failed, Cause: machine.CauseInvalid, Why: why}, nil
	}
	out, err := execute(r.host(ctx, "reopen"), slice.ActReopen, slice.ReopenIn{
		Header: r.header(ctx, machine.Turn{}, ""), Spec: r.spec, Reopen: by})
	if err != nil || out.Outcome != machine.Done {
		return out.Ended, err
	}
	state, err := machine.Reopen(out.State, out.By)
	if err != nil {
		return slice.Ended{Outcome: machine.Failed, Cause: machine.CausePrecondition, Why: err.Error()}, nil
	}
	r.append(ctx, ledger.Line{Kind: ledger.Reopen, Spec: hash(out.Spec), Reopening: &out.By, Commit: out.Adopted, Why: by.Reason})
	h := r.header(ctx, machine.Turn{Step: state.Step}, "")
	h.Base, h.Good, h.Plan = out.Base, out.Good, out.Plan
	ack, err := execute(r.host(ctx, "resume"), slice.ActResume, slice.ResumeIn{
		Header: h, Spec: out.Spec, Was: out.Was, Restore: out.Adopted != ""})
	if err != nil {
		return slice.Ended{}, err
	}
	ledger.Written(&r.Ledger, ack.Written)
	r.State, r.spec = state, out.Spec
	r.Base, r.Good, r.Candidate, r.Whole = out.Base, out.Good, out.Candidate, out.Whole
	r.Plan, r.Workspace, r.Store, r.Branch = out.Plan, out.Workspace, out.Store, out.Branch
	r.Gates, r.External = out.Gates, out.External
	r.Onto, r.CITimeout = out.Onto, out.CITimeout
	r.Quota, r.Callers, r.Roles = out.Quota, out.Callers, out.Roles
	r.recall(out.Notes)
	r.Renewed = out.State.Cause == machine.CauseLimit // who reopens it says so
	r.Tasks = nil
	for i, t := range out.Spec.Tasks {
		status := taskStatus(t)
		if i < len(out.Begun) {
			status.Attempts, status.Commit, status.CostMicroUSD = out.Begun[i].Attempts, out.Begun[i].Commit, out.Begun[i].CostMicroUSD
		}
		r.Tasks = append(r.Tasks, status)
	}
	return out.Ended, nil
}

// flaw says what is wrong with a reopening, or nothing.
func flaw(by slice.Reopen) string {
	switch {
	case strings.TrimSpace(by.Reason) == "":
		return "a slice is reopened for a reason: say which"
	case by.CapMicroUSD < 0 || by.CapMicroUSD > ledger.MaxCost:
		return "cap_micro_usd is what the slice may spend in all, in millionths of a US dollar"
	}
	return ""
}

// notes are what the record does not hold and a reopened slice goes on with.
// The last veto is not among them: who reopens a slice wants it judged anew.
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
	n := &slice.Notes{
		Extra: r.Extra, Open: first(r.Open, mostNoted), Tip: r.Tip, Undo: due,
		Baseline: r.Baseline, Guard: r.Guard, Remote: r.Remote, Proposal: r.Proposal,
		Feedback: slice.Feedback{Findings: first(r.Findings, mostNoted), Advice: r.Advice, Discarded: r.Discarded},
	}
	summaries := 0
	for _, c := range r.Checks {
		if c.Outcome != machine.Failed || summaries == mostNoted {
			c.Summary = "" // a judge reads what was measured, an implementer what is red
		} else {
			summaries++
		}
		n.Feedback.Checks = append(n.Feedback.Checks, c)
	}
	return n
}

// recall takes up what the run before has left.
func (r *run) recall(n slice.Notes) {
	r.Extra, r.Open, r.Tip, r.Undo = n.Extra, n.Open, n.Tip, n.Undo
	r.Baseline, r.Guard, r.Remote, r.Proposal = n.Baseline, n.Guard, n.Remote, n.Proposal
	told := n.Feedback
	r.Checks, r.Findings, r.Advice, r.Discarded = told.Checks, told.Findings, told.Advice, told.Discarded
	// Made anew or there already, they are to be taken back if it is cancelled.
	r.Undo = saga.Declare(r.Undo, slice.UndoIn{What: slice.UndoWorkspace})
	r.Undo = saga.Declare(r.Undo, slice.UndoIn{What: slice.UndoViews})
}

// mostNoted bounds what notes hold of a kind: they travel through history.
const mostNoted = 10
