package slice

import (
	"encoding/json"

	"interlock/machine"
)

// Activity is the name of an activity that carries the types of its input and
// result, so that a wrong input does not compile.
type Activity[In, Out any] string

// The activities, one per step and a few around them. Claim runs on the
// shared queue; all others run on the queue of the host that holds the
// workspace.
const (
	ActClaim      Activity[ClaimIn, ClaimOut]         = "claim"
	ActPrepare    Activity[PrepareIn, PrepareOut]     = "prepare"
	ActRestore    Activity[RestoreIn, Ack]            = "restore"
	ActReopen     Activity[ReopenIn, ReopenOut]       = "reopen"
	ActResume     Activity[ResumeIn, Ack]             = "resume"
	ActBaseline   Activity[MeasureIn, MeasureOut]     = "baseline"
	ActImplement  Activity[ImplementIn, ImplementOut] = "implement"
	ActCheck      Activity[MeasureIn, MeasureOut]     = "check"
	ActJudge      Activity[JudgeIn, JudgeOut]         = "judge"
	ActAdvise     Activity[AdviseIn, AdviseOut]       = "advise"
	ActCommit     Activity[CommitIn, CommitOut]       = "commit"
	ActReconcile  Activity[ReconcileIn, ReconcileOut] = "reconcile"
	ActVerify     Activity[MeasureIn, MeasureOut]     = "verify"
	ActJudgeSlice Activity[JudgeSliceIn, JudgeOut]    = "judge_slice"
	ActE2E        Activity[MeasureIn, MeasureOut]     = "e2e"
	ActPublish    Activity[PublishIn, PublishOut]     = "publish"
	ActPropose    Activity[ProposeIn, ProposeOut]     = "propose"
	ActAwaitCI    Activity[AwaitCIIn, AwaitCIOut]     = "await_ci"
	ActMerge      Activity[MergeIn, MergeOut]         = "merge"
	ActUndo       Activity[UndoIn, UndoOut]           = "undo"
	ActConclude   Activity[ConcludeIn, Ack]           = "conclude"
	ActSettle     Activity[SettleIn, Ended]           = "settle"
)

// Header is what every activity on a host queue is told.
type Header struct {
	Slice string `json:"slice"`
	// Run counts the runs of the slice, from 1. It is never a Temporal run
	// id, which a reset changes.
	Run  int          `json:"run"`
	Turn machine.Turn `json:"turn"`
	// Op identifies the operation: it is the same in its intent, its retries
	// and its done line.
	Op string `json:"op"`
	// Repo and Key are the repository's location and its key in the home.
	Repo string `json:"repo"`
	Key  string `json:"key"`
	// Base is the base commit, Good the last good commit.
	Base string `json:"base,omitempty"`
	Good string `json:"good,omitempty"`
	// Plan is the hash of spec and policy as prepare kept them.
	Plan string `json:"plan,omitempty"`
	// Lines are the ledger lines not yet written, and At is when the step
	// began, as the workflow saw it.
	Lines []string `json:"lines,omitempty"`
	At    int64    `json:"at"` // Unix milliseconds
}

// GetHeader returns the header, for code that serves every activity.
func (h Header) GetHeader() Header { return h }

// Ack is what every activity on a host queue returns.
type Ack struct {
	// Written is the number of lines in the ledger, Head the hash of the last.
	Written int    `json:"written,omitempty"`
	Head    string `json:"head,omitempty"`
}

// Ended is how a step ended.
type Ended struct {
	Ack
	Outcome machine.Outcome `json:"outcome"`
	Cause   machine.Cause   `json:"cause,omitempty"`
	// CostMicroUSD is what the step cost, in millionths of a US dollar.
	CostMicroUSD int64 `json:"cost_micro_usd,omitempty"`
	// Why is for a person: one line, what happened and what to do.
	Why      string     `json:"why,omitempty"`
	Evidence []Evidence `json:"evidence,omitempty"`
	// Calls are the calls of agents that the step has made.
	Calls []Called `json:"calls,omitempty"`
	// Limit, Question or Short say why a step that is limited is due again.
	Limit    *Limit    `json:"limit,omitempty"`
	Question *Question `json:"question,omitempty"`
	Short    *Shortage `json:"short,omitempty"`
}

// Evidence names bytes that are kept by their SHA-256.
type Evidence struct {
	Name string `json:"name"`
	Hash string `json:"hash"`
	Size int64  `json:"size"`
}

// ClaimIn asks a worker of the shared queue to take the slice to its host.
type ClaimIn struct {
	Slice string `json:"slice"`
	Spec  Spec   `json:"spec"`
}

// ClaimOut says which host has the slice, and what its record holds already.
type ClaimOut struct {
	Ended
	Host Host   `json:"host"`
	Key  string `json:"key"`
	// Runs and SpentMicroUSD come from the record of earlier runs of the slice.
	Runs          int   `json:"runs,omitempty"`
	SpentMicroUSD int64 `json:"spent_micro_usd,omitempty"`
}

// Host is the worker process that holds the workspace of a slice.
type Host struct {
	ID    string `json:"id"`
	Queue string `json:"queue"`
	// Heartbeat is after how long without a sign of life an activity is given
	// up; ScheduleToStart after how long the host counts as lost.
	Heartbeat       Duration `json:"heartbeat"`
	ScheduleToStart Duration `json:"schedule_to_start"`
	// StepsPerRun continues the workflow as new after so many steps; 0 means
	// when the server suggests it.
	StepsPerRun int `json:"steps_per_run,omitempty"`
}

// PrepareIn asks for base, policy and workspace.
type PrepareIn struct {
	Header
	Spec Spec `json:"spec"`
}

// PrepareOut is what the slice works with from now on.
type PrepareOut struct {
	Ended
	Base  string        `json:"base"`
	Rules machine.Rules `json:"rules"`
	// Plan is the hash of spec and policy: what the plan gate approves.
	Plan string `json:"plan"`
	// Workspace is the folder in which the agent works, Store the bare
	// repository of the host that holds the slice's commits.
	Workspace string `json:"workspace"`
	Store     string `json:"store,omitempty"`
	Branch    string `json:"branch"`
	// Sandbox says in a line how far agents are kept apart from the host.
	Sandbox string `json:"sandbox,omitempty"`
	// Gates says how gates remind and expire, External which roles are driven
	// from outside.
	Gates    Gates    `json:"gates,omitzero"`
	External []string `json:"external,omitempty"`
	// Onto is the branch that the slice is proposed for or merged into, CITimeout
	// how long its CI is waited for.
	Onto      string   `json:"onto,omitempty"`
	CITimeout Duration `json:"ci_timeout,omitempty"`
	// Quota says how long limits are waited for, Callers which agents may be
	// called, and Roles what each role may spend, in millionths of a US dollar.
	Quota   Quota            `json:"quota,omitzero"`
	Callers []Caller         `json:"callers,omitempty"`
	Roles   map[string]int64 `json:"roles,omitempty"`
}

// ReopenIn asks what a slice that has ended goes on with: the state that its
// record folds to, under the spec that is given now. It has no effect.
type ReopenIn struct {
	Header
	Spec Spec `json:"spec"`
	Reopen
}

// ReopenOut is what the slice goes on with.
type ReopenOut struct {
	PrepareOut
	// State is the one that the record folds to, By what it is reopened with.
	State machine.State     `json:"state"`
	By    machine.Reopening `json:"by"`
	// Spec is the one in force from now on. Its tasks are the committed ones as
	// they were, those that the machine added, and then those of the spec.
	Spec Spec `json:"spec"`
	// Begun is what became of the tasks that were begun, in their order.
	Begun []TaskStatus `json:"begun,omitempty"`
	Good  string       `json:"good"`
	// Was is where the ref of the last good commit stands, if not at Good.
	Was string `json:"was,omitempty"`
	// Adopted is the merge by hand that the slice goes on from.
	Adopted   string `json:"adopted,omitempty"`
	Candidate string `json:"candidate,omitempty"`
	Whole     string `json:"whole,omitempty"`
	Notes     Notes  `json:"notes"`
}

// ResumeIn asks to make ready what a reopened slice goes on with.
type ResumeIn struct {
	Header
	Spec Spec `json:"spec"`
	// Was is where the ref of the last good commit stands, if not at Good.
	Was string `json:"was,omitempty"`
	// Restore puts the workspace to the last good commit even if it is there.
	Restore bool `json:"restore,omitempty"`
}

// RestoreIn asks to put the workspace back to the last good commit, before
// somebody outside works in it.
type RestoreIn struct {
	Header
}

// MeasureIn asks for the checks of a step on a tree or commit.
type MeasureIn struct {
	Header
	// Tree is the candidate, or the commit to verify.
	Tree        string   `json:"tree"`
	ExpectedRed []string `json:"expected_red,omitempty"`
	// Baseline are the tests that ran at the base.
	Baseline []TestSet `json:"baseline,omitempty"`
	// Tip is the commit of the base that the tree contains; empty means Base.
	Tip string `json:"tip,omitempty"`
}

// MeasureOut is what was measured.
type MeasureOut struct {
	Ended
	Checks []CheckResult `json:"checks,omitempty"`
	// Guard is what the guard saw and does not decide.
	Guard []GuardFinding `json:"guard,omitempty"`
}

// Measured is what one check found: facts, no output.
type Measured struct {
	Name string `json:"name"`
	// Outcome is done (green), failed (red) or unmeasured.
	Outcome machine.Outcome `json:"outcome"`
	// Why says what happened: "exit status 1", "timed out after 10m".
	Why     string   `json:"why,omitempty"`
	Passed  int      `json:"passed,omitempty"`
	Failed  int      `json:"failed,omitempty"`
	Skipped int      `json:"skipped,omitempty"`
	Failing []string `json:"failing,omitempty"` // at most 50 names
	// Lost are tests that ran and passed at the base and do no more; at most 50 names.
	Lost []string `json:"lost,omitempty"`
	// Flaky are tests that failed and then passed when they were run again, or
	// the check itself if it tells none; at most 50 names.
	Flaky []string `json:"flaky,omitempty"`
	// Touched are files of the tree that the check changed; at most 10 names.
	Touched []string `json:"touched,omitempty"`
}

// CheckResult is one check with its output.
type CheckResult struct {
	Measured
	// Summary is the head and tail of the output, at most 4 KiB.
	Summary string   `json:"summary,omitempty"`
	Log     Evidence `json:"log,omitzero"`
	// Tests is the list of the tests that ran, as JSON.
	Tests  Evidence `json:"tests,omitzero"`
	Millis int64    `json:"millis"`
}

// TestSet is the list of the tests of one check.
type TestSet struct {
	Check string   `json:"check"`
	Tests Evidence `json:"tests"`
}

// GuardCheck is the name under which the guard is listed with the checks.
const GuardCheck = "guard"

// GuardFinding is one thing that the guard saw in a change of tests, of what
// runs them, or of protected paths.
type GuardFinding struct {
	Kind string `json:"kind"`
	// Verdict is review or tampered.
	Verdict  string `json:"verdict"`
	Language string `json:"language,omitempty"`
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
	Test     string `json:"test,omitempty"`
	Why      string `json:"why"`
}

// ImplementIn asks the implementer for a candidate.
type ImplementIn struct {
	Header
	Task Task `json:"task"`
	// Restore puts the tree back to the last good commit first.
	Restore  bool     `json:"restore,omitempty"`
	Feedback Feedback `json:"feedback,omitzero"`
	// Session is what the agent called the conversation to go on with.
	Session string `json:"session,omitempty"`
	// Calls are the terms, and Replies the answers to what was asked in this task.
	Calls   Calls     `json:"calls,omitzero"`
	Replies []Replied `json:"replies,omitempty"`
	// Report is the answer of an implementer that is driven from outside.
	Report json.RawMessage `json:"report,omitempty"`
}

// Feedback is what an implementer is told of the attempts before.
type Feedback struct {
	Checks   []CheckResult `json:"checks,omitempty"`
	Findings []Finding     `json:"findings,omitempty"`
	Advice   []string      `json:"advice,omitempty"`
	// Discarded says why the last answer was discarded.
	Discarded string `json:"discarded,omitempty"`
}

// ImplementOut is the candidate.
type ImplementOut struct {
	Ended
	// Candidate is the tree hash of the files as they stood at the end.
	Candidate string `json:"candidate,omitempty"`
	// Changed says whether it differs from the last good commit.
	Changed bool   `json:"changed,omitempty"`
	Session string `json:"session,omitempty"`
}

// JudgeIn asks the judges for a verdict on a candidate. It has no field that
// could carry the implementer's words.
type JudgeIn struct {
	Header
	Task      Task       `json:"task"`
	Candidate string     `json:"candidate"`
	Checks    []Measured `json:"checks,omitempty"`
	// Guard is what the guard saw and does not decide.
	Guard []GuardFinding `json:"guard,omitempty"`
	Calls Calls          `json:"calls,omitzero"`
	// Before is the candidate of the task's round before, Known what was found
	// in it; both are empty in the first.
	Before string    `json:"before,omitempty"`
	Known  []Finding `json:"known,omitempty"`
	// Reports are the answers of judges that are driven from outside, by name.
	Reports map[string]json.RawMessage `json:"reports,omitempty"`
}

// JudgeSliceIn asks the judges for a verdict on the whole.
type JudgeSliceIn struct {
	Header
	Title  string     `json:"title"`
	Tasks  []Task     `json:"tasks"`
	Commit string     `json:"commit"`
	Checks []Measured `json:"checks,omitempty"`
	// Guard is what the guard saw and does not decide.
	Guard []GuardFinding `json:"guard,omitempty"`
	Calls Calls          `json:"calls,omitzero"`
	// Reports are the answers of judges that are driven from outside, by name.
	Reports map[string]json.RawMessage `json:"reports,omitempty"`
}

// JudgeOut is what the judges found. The program, not a judge, computes the outcome.
type JudgeOut struct {
	Ended
	// MeanMilli is the lowest weighted mean of the judges' scores, in thousandths.
	MeanMilli int       `json:"mean_milli,omitempty"`
	Findings  []Finding `json:"findings,omitempty"`
	// Late is how many blocking findings became notes, because they name lines
	// that did not change since the round before.
	Late int `json:"late,omitempty"`
}

// Severity is how much a finding weighs.
type Severity string

// The severities.
const (
	Blocking   Severity = "blocking"
	Correction Severity = "correction"
	Note       Severity = "note"
)

// Finding is one thing that a judge found.
type Finding struct {
	Judge    string   `json:"judge,omitempty"`
	Severity Severity `json:"severity"`
	File     string   `json:"file,omitempty"`
	Line     int      `json:"line,omitempty"`
	Claim    string   `json:"claim"`
	// Evidence is what the judge quotes from the file.
	Evidence string `json:"evidence,omitempty"`
	// Struck says why the finding does not count: it names a place that is not
	// there, or skeptics have refuted it. Remark is what else became of it.
	Struck string `json:"struck,omitempty"`
	Remark string `json:"remark,omitempty"`
}

// Standing returns the findings that are not struck.
func Standing(all []Finding) (out []Finding) {
	for _, f := range all {
		if f.Struck == "" {
			out = append(out, f)
		}
	}
	return out
}

// AdviseIn asks the advisor how to go on: text only.
type AdviseIn struct {
	Header
	Task      Task      `json:"task"`
	Candidate string    `json:"candidate"`
	Findings  []Finding `json:"findings,omitempty"`
	Calls     Calls     `json:"calls,omitzero"`
	// Report is the answer of an advisor that is driven from outside.
	Report json.RawMessage `json:"report,omitempty"`
}

// AdviseOut is the advice.
type AdviseOut struct {
	Ended
	Advice string `json:"advice,omitempty"`
}

// CommitIn asks for a commit of exactly the candidate on the last good commit.
type CommitIn struct {
	Header
	Task      Task   `json:"task"`
	Candidate string `json:"candidate"`
	// Ledger is the head of the record, for the trailer.
	Ledger string `json:"ledger"`
}

// CommitOut is the commit.
type CommitOut struct {
	Ended
	Commit string `json:"commit,omitempty"`
}

// ReconcileIn asks to bring the work together with the base as it is now.
type ReconcileIn struct {
	Header
	BaseName string `json:"base_name"`
	Ledger   string `json:"ledger"`
	// Attempt counts from 1. Unmerged is why the attempt before was not
	// accepted, Session what the reconciler called its conversation.
	Attempt  int    `json:"attempt,omitempty"`
	Unmerged string `json:"unmerged,omitempty"`
	Session  string `json:"session,omitempty"`
	// Onto is the branch of the remote that the slice is merged into; empty for
	// one that only becomes a branch, which meets its base where that is.
	Onto  string `json:"onto,omitempty"`
	Calls Calls  `json:"calls,omitzero"`
}

// ReconcileOut is the commit that is verified, judged whole and delivered.
type ReconcileOut struct {
	Ended
	Commit string `json:"commit,omitempty"`
	// Tip is the commit of the base that it contains.
	Tip string `json:"tip,omitempty"`
	// Conflicts are the first paths that both sides changed.
	Conflicts []string `json:"conflicts,omitempty"`
	Session   string   `json:"session,omitempty"`
}

// PublishIn asks to publish a commit as the slice's branch.
type PublishIn struct {
	Header
	To     machine.Target `json:"to"`
	Branch string         `json:"branch"`
	Commit string         `json:"commit"`
}

// PublishOut says where the branch is.
type PublishOut struct {
	Ended
	Remote string `json:"remote,omitempty"`
}

// Later asks the workflow to wait and to ask again. Empty means: there is
// nothing to wait for, and the step has ended.
type Later struct {
	// For names the wait.
	For WaitFor `json:"for,omitempty"`
	// At is when to come back, in Unix milliseconds; 0 leaves it to the workflow.
	At  int64  `json:"at,omitempty"`
	Why string `json:"why,omitempty"`
}

// Proposal is a pull request of the slice; with Number 0 there is none.
type Proposal struct {
	Number int    `json:"number"`
	URL    string `json:"url,omitempty"`
}

// ProposeIn asks to find or open the proposal of the slice's branch. It has no
// field that could carry the implementer's words.
type ProposeIn struct {
	Header
	Onto   string `json:"onto"`
	Branch string `json:"branch"`
	Commit string `json:"commit"`
	// Proposal is the one that is known already.
	Proposal Proposal `json:"proposal,omitzero"`
	// Extra are tasks that the machine added to those of the spec.
	Extra  []Task     `json:"extra,omitempty"`
	Checks []Measured `json:"checks,omitempty"`
	// Open are corrections that were not made.
	Open []Finding `json:"open,omitempty"`
	// E2EUnmeasured says that e2e could not be measured.
	E2EUnmeasured bool `json:"e2e_unmeasured,omitempty"`
}

// ProposeOut is the proposal.
type ProposeOut struct {
	Ended
	Later    Later    `json:"later,omitzero"`
	Proposal Proposal `json:"proposal,omitzero"`
}

// AwaitCIIn asks what CI says of the commit now.
type AwaitCIIn struct {
	Header
	Proposal Proposal `json:"proposal,omitzero"`
	Commit   string   `json:"commit"`
}

// AwaitCIOut is what CI says; while it runs there is something to wait for.
type AwaitCIOut struct {
	Ended
	Later  Later         `json:"later,omitzero"`
	Checks []CheckResult `json:"checks,omitempty"`
}

// MergeIn asks to merge exactly a commit into the branch Onto, if that still
// is at Tip.
type MergeIn struct {
	Header
	Onto     string   `json:"onto"`
	Tip      string   `json:"tip"`
	Branch   string   `json:"branch"`
	Commit   string   `json:"commit"`
	Proposal Proposal `json:"proposal,omitzero"`
}

// MergeOut is what the commit became on its base.
type MergeOut struct {
	Ended
	Later  Later  `json:"later,omitzero"`
	Merged string `json:"merged,omitempty"`
}

// Undone is a kind of compensation.
type Undone string

// The compensations.
const (
	UndoWorkspace Undone = "workspace"
	UndoViews     Undone = "views"
	UndoBranch    Undone = "branch"
	UndoProposal  Undone = "proposal"
)

// UndoIn asks to take back one effect of the slice.
type UndoIn struct {
	Header
	What   Undone         `json:"what"`
	To     machine.Target `json:"to,omitempty"`
	Branch string         `json:"branch,omitempty"`
	Commit string         `json:"commit,omitempty"`
	// Ending is why it is taken back.
	Ending machine.Ending `json:"ending,omitempty"`
}

// UndoOut is what was seen after the compensation.
type UndoOut struct {
	Ack
	// Seen says how the world looks now, for a person.
	Seen string `json:"seen"`
}

// ConcludeIn asks to write the last lines of the record.
type ConcludeIn struct {
	Header
	// Notes are kept for a reopening; nil if there is none.
	Notes *Notes `json:"notes,omitempty"`
}

// SettleIn asks what a call has cost that was cut off and is not tried again.
type SettleIn struct {
	Header
}
