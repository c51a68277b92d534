package workflows

import (
	"encoding/json"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"interlock/ledger"
	"interlock/machine"
	"interlock/saga"
	"interlock/slice"
)

// steps says how each step is taken: which activity, with what, and what of
// its result the slice keeps.
var steps = map[machine.Step]func(*run, workflow.Context, slice.Header) (slice.Ended, error){
	machine.Prepare:     (*run).prepare,
	machine.Baseline:    (*run).baseline,
	machine.PlanGate:    (*run).gate,
	machine.Implement:   (*run).implement,
	machine.Check:       (*run).check,
	machine.Judge:       (*run).judge,
	machine.Advise:      (*run).advise,
	machine.Commit:      (*run).commit,
	machine.Reconcile:   (*run).reconcile,
	machine.Verify:      (*run).verify,
	machine.JudgeSlice:  (*run).judgeSlice,
	machine.E2E:         (*run).e2e,
	machine.PublishGate: (*run).gate,
	machine.Publish:     (*run).publishBranch,
	machine.Propose:     (*run).propose,
	machine.AwaitCI:     (*run).awaitCI,
	machine.MergeGate:   (*run).gate,
	machine.Merge:       (*run).merge,
}

// claim finds a host for the slice and looks at its record there. It has no
// effect, so that it needs no line of the record.
func (r *run) claim(ctx workflow.Context) (slice.Ended, error) {
	if r.wrong != "" {
		return slice.Ended{Outcome: machine.Failed, Cause: machine.CauseInvalid, Why: r.wrong}, nil
	}
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           workflow.GetInfo(ctx).TaskQueueName,
		StartToCloseTimeout: time.Minute,
		Summary:             "claim",
		RetryPolicy:         retries(),
	})
	out, err := execute(ctx, slice.ActClaim, slice.ClaimIn{Slice: r.id, Spec: r.spec})
	if err != nil || out.Outcome != machine.Done {
		return out.Ended, err
	}
	r.Host, r.Key = out.Host, out.Key
	r.Run = out.Runs + 1
	r.State.SpentMicroUSD = out.SpentMicroUSD
	r.Ledger = slice.Tail{N: out.Written, Head: out.Head}
	return out.Ended, nil
}

func (r *run) prepare(ctx workflow.Context, h slice.Header) (slice.Ended, error) {
	r.Undo = saga.Declare(r.Undo, slice.UndoIn{What: slice.UndoWorkspace})
	r.Undo = saga.Declare(r.Undo, slice.UndoIn{What: slice.UndoViews})
	out, err := execute(ctx, slice.ActPrepare, slice.PrepareIn{Header: h, Spec: r.spec})
	if err != nil || out.Outcome != machine.Done {
		return out.Ended, err
	}
	r.Base, r.Good, r.Plan, r.Sandbox = out.Base, out.Base, out.Plan, out.Sandbox
	r.Workspace, r.Store, r.Branch = out.Workspace, out.Store, out.Branch
	r.State.Rules = out.Rules
	r.Gates, r.External = out.Gates, out.External
	r.Onto, r.CITimeout = out.Onto, out.CITimeout
	r.Quota, r.Callers, r.Roles = out.Quota, out.Callers, out.Roles
	return out.Ended, nil
}

func (r *run) baseline(ctx workflow.Context, h slice.Header) (slice.Ended, error) {
	out, err := execute(ctx, slice.ActBaseline, slice.MeasureIn{Header: h, Tree: r.Base, ExpectedRed: r.spec.ExpectedRed})
	if err == nil {
		r.Checks, r.Baseline = out.Checks, testSets(out.Checks)
	}
	return out.Ended, err
}

func (r *run) implement(ctx workflow.Context, h slice.Header) (slice.Ended, error) {
	in := slice.ImplementIn{Header: h, Task: r.spec.Tasks[r.State.Task], Restore: r.State.Restore && !r.Resume,
		Calls: r.terms(machine.Implement), Replies: r.Replies,
		Feedback: slice.Feedback{Checks: r.redChecks(), Findings: slice.Standing(r.Findings), Advice: r.Advice, Discarded: r.Discarded}}
	if !in.Restore {
		in.Session = r.session(slice.RoleImplementer)
	}
	reports, err := r.implementOutside(ctx, h)
	if err != nil {
		return slice.Ended{}, err
	}
	in.Report = reports[slice.RoleImplementer]
	out, err := execute(ctx, slice.ActImplement, in)
	if err != nil {
		return out.Ended, err
	}
	r.Discarded = ""
	switch out.Outcome {
	case machine.Done:
		r.Candidate = out.Candidate
		r.keepSession(slice.RoleImplementer, out.Session)
	case machine.Limited:
		if len(out.Calls) > 0 {
			r.keepSession(slice.RoleImplementer, out.Session)
		}
	case machine.Discarded:
		r.Discarded = out.Why
	default: // no answer, and nothing to tell of one
	}
	return out.Ended, nil
}

// implementOutside lets an implementer from outside work in the tree that the
// step begins from.
func (r *run) implementOutside(ctx workflow.Context, h slice.Header) (map[string]json.RawMessage, error) {
	if !slices.Contains(r.External, slice.RoleImplementer) {
		return nil, nil
	}
	if r.State.Restore && r.Waiting == nil {
		ack, err := execute(ctx, slice.ActRestore, slice.RestoreIn{Header: h})
		if err != nil {
			return nil, err
		}
		ledger.Written(&r.Ledger, ack.Written)
	}
	return r.outside(ctx, slice.RoleImplementer)
}

func (r *run) check(ctx workflow.Context, h slice.Header) (slice.Ended, error) {
	out, err := execute(ctx, slice.ActCheck, slice.MeasureIn{Header: h, Tree: r.Candidate, ExpectedRed: r.spec.ExpectedRed, Baseline: r.Baseline, Tip: r.metTip()})
	if err == nil {
		r.Checks, r.Guard = out.Checks, out.Guard
	}
	return out.Ended, err
}

func (r *run) judge(ctx workflow.Context, h slice.Header) (slice.Ended, error) {
	if r.unchanged() {
		return slice.Ended{Outcome: machine.Failed, Why: "nothing was changed since the veto, so it stands"}, nil
	}
	reports, err := r.outside(ctx, r.externalJudges()...)
	if err != nil {
		return slice.Ended{}, err
	}
	out, err := execute(ctx, slice.ActJudge, slice.JudgeIn{
		Header: h, Task: r.spec.Tasks[r.State.Task], Candidate: r.Candidate, Before: r.Judged, Known: r.known(), Checks: measured(r.Checks), Guard: r.Guard, Reports: reports, Calls: r.terms(machine.Judge)})
	if err != nil {
		return out.Ended, err
	}
	r.Late += out.Late
	r.strike(out.Findings)
	switch out.Outcome {
	case machine.Failed:
		r.Vetoed, r.Judged, r.Findings = r.Candidate, r.Candidate, out.Findings
	case machine.Corrections:
		r.Judged, r.Findings = r.Candidate, out.Findings
	case machine.Done:
		r.Findings = nil
	default: // no verdict: what was found before still stands
	}
	return out.Ended, nil
}

// strike keeps the findings that do not count to be seen at the end. A verdict
// that is asked for again has those of the judges that had answered.
func (r *run) strike(all []slice.Finding) {
	for _, f := range all {
		if f.Struck != "" && !slices.Contains(r.Struck, f) {
			r.Struck = first(append(r.Struck, f), mostOpen)
		}
	}
}

// known are the findings of the task's round before.
func (r *run) known() []slice.Finding {
	if r.Judged == "" {
		return nil
	}
	return r.Findings
}

// unchanged reports whether the candidate is the one that was vetoed.
func (r *run) unchanged() bool { return r.Vetoed != "" && r.Candidate == r.Vetoed }

// externalJudges are the judges that are driven from outside.
func (r *run) externalJudges() (names []string) {
	for _, role := range r.External {
		if role != slice.RoleImplementer && role != slice.RoleAdvisor {
			names = append(names, role)
		}
	}
	return names
}

func (r *run) advise(ctx workflow.Context, h slice.Header) (slice.Ended, error) {
	reports, err := r.outside(ctx, slice.RoleAdvisor)
	if err != nil {
		return slice.Ended{}, err
	}
	out, err := execute(ctx, slice.ActAdvise, slice.AdviseIn{
		Header: h, Task: r.spec.Tasks[r.State.Task], Candidate: r.Candidate, Findings: slice.Standing(r.Findings), Report: reports[slice.RoleAdvisor],
		Calls: r.terms(machine.Advise)})
	if err == nil && out.Outcome == machine.Done {
		r.Advice = append(r.Advice, out.Advice)
	}
	return out.Ended, err
}

func (r *run) commit(ctx workflow.Context, h slice.Header) (slice.Ended, error) {
	out, err := execute(ctx, slice.ActCommit, slice.CommitIn{
		Header: h, Task: r.spec.Tasks[r.State.Task], Candidate: r.Candidate, Ledger: r.Ledger.Head})
	if err != nil || out.Outcome != machine.Done {
		return out.Ended, err
	}
	r.Good, r.Judged = out.Commit, ""
	r.Tasks[r.State.Task].Commit = out.Commit
	r.Vetoed, r.Session, r.Advice, r.Checks, r.Guard, r.Replies = "", "", nil, nil, nil, nil
	return out.Ended, nil
}

func (r *run) reconcile(ctx workflow.Context, h slice.Header) (slice.Ended, error) {
	out, err := execute(ctx, slice.ActReconcile, slice.ReconcileIn{Header: h, BaseName: r.spec.Base, Ledger: r.Ledger.Head,
		Attempt: r.State.Used.Reconcile + 1, Unmerged: r.Unmerged, Session: r.session(slice.RoleReconciler),
		Calls: r.terms(machine.Reconcile), Onto: r.Onto})
	if err != nil {
		return out.Ended, err
	}
	if out.Tip != "" {
		r.Tip = out.Tip // of a conflict, too: who merges by hand needs it
	}
	if out.Outcome == machine.Done {
		r.Whole, r.Good = out.Commit, out.Commit
		r.Unmerged, r.Session = "", ""
	} else if out.Outcome == machine.Failed || out.Outcome == machine.Discarded {
		r.Unmerged = out.Why
		r.keepSession(slice.RoleReconciler, out.Session)
	} else if out.Outcome == machine.Limited && len(out.Calls) > 0 {
		r.keepSession(slice.RoleReconciler, out.Session)
	}
	return out.Ended, nil
}

func (r *run) verify(ctx workflow.Context, h slice.Header) (slice.Ended, error) {
	return r.measureWhole(ctx, h, slice.ActVerify, r.Baseline)
}

func (r *run) e2e(ctx workflow.Context, h slice.Header) (slice.Ended, error) {
	return r.measureWhole(ctx, h, slice.ActE2E, nil)
}

func (r *run) measureWhole(ctx workflow.Context, h slice.Header, a slice.Activity[slice.MeasureIn, slice.MeasureOut], baseline []slice.TestSet) (slice.Ended, error) {
	out, err := execute(ctx, a, slice.MeasureIn{Header: h, Tree: r.Whole, ExpectedRed: r.spec.ExpectedRed, Baseline: baseline, Tip: r.metTip()})
	if err == nil {
		r.Checks, r.Guard = out.Checks, out.Guard
	}
	return out.Ended, err
}

// metTip is the commit of the base that the work contains, if it is not the
// one that the work began from.
func (r *run) metTip() string {
	if r.Tip == r.Base {
		return ""
	}
	return r.Tip
}

func (r *run) judgeSlice(ctx workflow.Context, h slice.Header) (slice.Ended, error) {
	reports, err := r.outside(ctx, r.externalJudges()...)
	if err != nil {
		return slice.Ended{}, err
	}
	out, err := execute(ctx, slice.ActJudgeSlice, slice.JudgeSliceIn{
		Header: h, Title: r.spec.Title, Tasks: r.spec.Tasks, Commit: r.Whole, Checks: measured(r.Checks), Guard: r.Guard, Reports: reports, Calls: r.terms(machine.JudgeSlice)})
	if err == nil && out.Outcome != machine.Limited {
		r.Findings = out.Findings
		r.strike(out.Findings)
	}
	return out.Ended, err
}

func (r *run) publishBranch(ctx workflow.Context, h slice.Header) (slice.Ended, error) {
	to := r.State.Rules.DeliverTo
	r.Undo = saga.Declare(r.Undo, slice.UndoIn{What: slice.UndoBranch, To: to, Branch: r.Branch, Commit: r.Whole})
	out, err := execute(ctx, slice.ActPublish, slice.PublishIn{Header: h, To: to, Branch: r.Branch, Commit: r.Whole})
	if err == nil {
		r.Remote = out.Remote
	}
	return out.Ended, err
}

func red(all []slice.CheckResult) (out []slice.CheckResult) {
	for _, c := range all {
		if c.Outcome == machine.Failed {
			out = append(out, c)
		}
	}
	return out
}

// testSets are the lists of the tests that ran.
func testSets(all []slice.CheckResult) (out []slice.TestSet) {
	for _, c := range all {
		if c.Tests.Hash != "" {
			out = append(out, slice.TestSet{Check: c.Name, Tests: c.Tests})
		}
	}
	return out
}

func measured(all []slice.CheckResult) (out []slice.Measured) {
	for _, c := range all {
		out = append(out, c.Measured)
	}
	return out
}
