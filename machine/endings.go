package machine

// An Ending is the terminal state of a slice.
type Ending string

// The endings.
const (
	Delivered        Ending = "delivered"
	Invalid          Ending = "invalid"
	Precondition     Ending = "precondition"
	BlockedChecks    Ending = "blocked_checks"
	BlockedJudge     Ending = "blocked_judge"
	BlockedE2E       Ending = "blocked_e2e"
	BlockedVerify    Ending = "blocked_verify"
	BlockedReconcile Ending = "blocked_reconcile"
	BlockedCommit    Ending = "blocked_commit"
	BlockedCall      Ending = "blocked_call"
	BlockedCI        Ending = "blocked_ci"
	BlockedDelivery  Ending = "blocked_delivery"
	AbortedBudget    Ending = "aborted_budget"
	Rejected         Ending = "rejected"
	Cancelled        Ending = "cancelled"
	Impossible       Ending = "impossible"
)

// A Cause says why a slice ended as it did, or why a step failed.
type Cause string

// The causes. CauseInvalid, CausePrecondition and CauseBaseMoved distinguish
// events and are no cause of an ending.
const (
	CauseInvalid        Cause = "invalid"
	CausePrecondition   Cause = "precondition"
	CauseBaseMoved      Cause = "base_moved"
	CauseTask           Cause = "task"
	CauseSlice          Cause = "slice"
	CauseDiscards       Cause = "discards"
	CauseRed            Cause = "red"
	CauseUnmeasured     Cause = "unmeasured"
	CauseBaseRed        Cause = "base_red"
	CauseBaseUnmeasured Cause = "base_unmeasured"
	CauseConflict       Cause = "conflict"
	CauseBaseMoves      Cause = "base_moves"
	CauseTimeout        Cause = "timeout"
	CauseLimit          Cause = "limit"
	CauseHost           Cause = "host"
	CauseFatal          Cause = "fatal"
	CauseRefused        Cause = "refused"
	CauseClosed         Cause = "closed"
	CauseMissing        Cause = "missing"
	CauseUnknown        Cause = "unknown"
)

// Exit codes that are no ending of a slice.
const (
	ExitNotDue      = 9   // the step asked for is not the one that is due
	ExitInterrupted = 130 // the command line was interrupted; the slice goes on
)

// An End is what belongs to one pair of ending and cause.
type End struct {
	Ending Ending
	Cause  Cause
	// Code is the exit code of the commands that wait for a slice.
	Code int
	// Next is what a person does next, as one line.
	Next string
	// ReopenAt is the step at which the slice is reopened: Same for the one
	// that was due, empty if it is not reopened. A changed slice is reopened at
	// the plan gate instead.
	ReopenAt Step
	// Reset are the counters that close a slice this way. Reopening it sets
	// those back to 0 of which none was left.
	Reset []Counter
	// AddsTask says that all tasks are committed, so that reopening needs an
	// added one.
	AddsTask bool
}

// endings are in the order of their codes.
var endings = []End{
	{Delivered, "", 0, "nothing: it is delivered", "", nil, false},
	{BlockedJudge, CauseTask, 1, "read the verdicts, then reopen it with a changed task", Implement, count(Judgements), false},
	{BlockedJudge, CauseSlice, 1, "read the verdicts, then reopen it with an added task", Implement, nil, true},
	{Invalid, "", 2, "fix the input at the place that the message names, then run it again", "", nil, false},
	{BlockedJudge, CauseDiscards, 3, "look at the discarded answers (the adapter or the prompt is wrong), then reopen it", Same, count(Discards), false},
	{BlockedChecks, CauseRed, 4, "read the check log, then reopen it", Implement, count(Checks), false},
	{BlockedChecks, CauseBaseRed, 4, "the base itself is red: name the test in expected_red and reopen it, or repair the base and start it again", Baseline, nil, false},
	{BlockedChecks, CauseUnmeasured, 5, "repair the environment that the check log shows, then reopen it", Same, nil, false},
	{BlockedChecks, CauseBaseUnmeasured, 5, "the checks cannot be measured at the base: repair the environment, then reopen it", Baseline, nil, false},
	{BlockedE2E, CauseRed, 7, "read the e2e log, then reopen it with an added task", Implement, nil, true},
	{Precondition, "", 8, "do what the message says, then run it again", "", nil, false},
	{Impossible, "", 10, "report it with the pair or line that the message names: it is a design question", "", nil, false},
	{BlockedVerify, CauseRed, 11, "nothing was published: read the log, then reopen it with an added task", Implement, nil, true},
	{BlockedVerify, CauseUnmeasured, 12, "nothing was published: repair the environment that the log shows, then reopen it", Same, nil, false},
	{BlockedReconcile, CauseConflict, 13, "merge by hand on the slice's branch, then reopen it", Verify, count(Reconciles), false},
	{BlockedReconcile, CauseBaseMoves, 13, "the base moves faster than the slice: merge by hand on the slice's branch, then reopen it", Verify, count(Moves), false},
	{BlockedCommit, "", 14, "repair the repository, then reopen it", Commit, nil, false},
	{AbortedBudget, "", 15, "reopen it with a higher cap (--usd)", Same, nil, false},
	{BlockedCall, CauseTimeout, 16, "look at the agent: it did not answer in its time; then reopen it", Same, nil, false},
	{BlockedCall, CauseDiscards, 16, "look at the discarded answers (the adapter or the prompt is wrong), then reopen it", Same, count(Discards), false},
	{BlockedCall, CauseHost, 16, "look at the host: it was lost too often; then reopen it", Same, count(HostLosses), false},
	{BlockedCall, CauseLimit, 16, "wait for the provider's limit to end or raise it, then reopen it", Same, nil, false},
	{BlockedCall, CauseFatal, 16, "repair the agent's configuration as the message says, then reopen it", Same, nil, false},
	{Rejected, "", 17, "reopen it with a changed file", PlanGate, nil, false},
	{BlockedE2E, CauseUnmeasured, 18, "repair the environment that the e2e log shows, then reopen it", Same, nil, false},
	{BlockedCI, CauseRed, 19, "the pull request stays open: read the failing check, then reopen it with an added task", Implement, count(CIRounds), true},
	{BlockedCI, CauseUnmeasured, 20, "the pull request stays open: look why CI did not report, then reopen it", AwaitCI, nil, false},
	{Cancelled, "", 21, "nothing, or reopen it", Same, nil, false},
	{BlockedDelivery, CauseRefused, 22, "the remote refused: do what the message says, then reopen it", Same, nil, false},
	{BlockedDelivery, CauseClosed, 22, "somebody closed or merged the proposal: decide, then reopen it", Same, nil, false},
	{BlockedDelivery, CauseConflict, 22, "the branch holds commits that are not this slice's: move them away, then reopen it", Same, nil, false},
	{BlockedDelivery, CauseMissing, 22, "the remote or the branch is not there: restore it, then reopen it", Same, nil, false},
	{BlockedDelivery, CauseUnknown, 22, "it is not known whether the effect happened: look at the remote, then reopen it", Same, nil, false},
}

// takenBack are the steps that go on from what was published, which a
// cancellation takes back: a cancelled slice is published again.
var takenBack = in(Propose, AwaitCI, MergeGate, Merge)

// Find returns the pair of ending e and cause c; ok is false if there is none.
func Find(e Ending, c Cause) (end End, ok bool) { return find(endings, e, c) }

// Ends returns every pair of ending and cause, in the order of their codes.
func Ends() []End { return append([]End(nil), endings...) }

// Changes reports whether what a person does next is to change the slice.
func (e End) Changes() bool {
	return e.AddsTask || e.Ending == Rejected || e.Ending == BlockedJudge && e.Cause == CauseTask ||
		e.Ending == BlockedChecks && e.Cause == CauseBaseRed
}

func find(list []End, e Ending, c Cause) (End, bool) {
	for _, end := range list {
		if end.Ending == e && end.Cause == c {
			return end, true
		}
	}
	return End{}, false
}
