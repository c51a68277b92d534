package workflows

import (
	"testing"

	"github.com/stretchr/testify/require"

	"interlock/machine"
	"interlock/slice"
)

// A scenario is one list of outcomes, and the ending that it leads to.
type scenario struct {
	name   string
	tasks  int // 0 is 1
	rules  func(*machine.Rules)
	script string
	ending machine.Ending
	cause  machine.Cause
	code   int
	// slow scenarios wait for minutes of retries or timeouts, which only the test
	// environment passes over.
	slow bool
}

func (s scenario) ruled() machine.Rules {
	r := machine.Rules{Budgets: machine.DefaultBudgets(), CapMicroUSD: 1_000_000, DeliverTo: machine.ToBranch}
	if s.rules != nil {
		s.rules(&r)
	}
	return r
}

func (s scenario) world(prefix string) *world {
	return newWorld(prefix+s.name, max(s.tasks, 1), s.ruled(), s.script)
}

func withE2E(r *machine.Rules) { r.E2E = true }

func toMerge(r *machine.Rules) { r.DeliverTo = machine.ToMerge }

func gated(r *machine.Rules) { r.PlanGate, r.PublishGate = true, true }

func capped(usd int64) func(*machine.Rules) {
	return func(r *machine.Rules) { r.CapMicroUSD = usd }
}

const (
	begin = "prepare baseline "
	task  = "implement check judge commit "
	whole = "reconcile verify judge_slice "
	// forged is the way of the whole through a forge, up to the merge.
	forged = whole + "publish propose await_ci "
)

var scenarios = []scenario{
	{name: "one-task", script: begin + task + whole + "publish", ending: machine.Delivered},
	{name: "two-tasks", tasks: 2, script: begin + task + task + whole + "publish", ending: machine.Delivered},
	{name: "three-tasks", tasks: 3, script: begin + task + task + task + whole + "publish", ending: machine.Delivered},
	{name: "e2e", rules: withE2E, script: begin + task + whole + "e2e publish", ending: machine.Delivered},
	{name: "e2e-red", rules: withE2E, script: begin + task + whole + "e2e=failed", ending: machine.BlockedE2E, cause: machine.CauseRed, code: 7},
	{name: "e2e-unmeasured", rules: withE2E, script: begin + task + whole + "e2e=unmeasured", ending: machine.BlockedE2E, cause: machine.CauseUnmeasured, code: 18},
	{name: "e2e-unmeasured-delivered", rules: func(r *machine.Rules) { r.E2E, r.DeliverUnmeasured = true, true },
		script: begin + task + whole + "e2e=unmeasured publish", ending: machine.Delivered},
	{name: "base-red", script: "prepare baseline=failed", ending: machine.BlockedChecks, cause: machine.CauseBaseRed, code: 4},
	{name: "base-unmeasured", script: "prepare baseline=unmeasured", ending: machine.BlockedChecks, cause: machine.CauseBaseUnmeasured, code: 5},
	{name: "red-repaired", script: begin + "implement check=failed implement check judge commit " + whole + "publish", ending: machine.Delivered},
	{name: "red-exhausted", script: begin + "implement check=failed implement check=failed implement check=failed",
		ending: machine.BlockedChecks, cause: machine.CauseRed, code: 4},
	{name: "unmeasured", script: begin + "implement check=unmeasured", ending: machine.BlockedChecks, cause: machine.CauseUnmeasured, code: 5},
	{name: "vetoes-advice", script: begin + "implement check judge=failed implement check judge=failed advise " + task + whole + "publish", ending: machine.Delivered},
	{name: "vetoes-exhausted", script: begin + "implement check judge=failed implement check judge=failed advise implement check judge=failed",
		ending: machine.BlockedJudge, cause: machine.CauseTask, code: 1},
	{name: "unchanged-veto", script: begin + "implement@a check judge=failed implement@a check judge=failed!nocall advise " + task + whole + "publish", ending: machine.Delivered},
	{name: "unchanged-vetoes-exhausted", script: begin + "implement@a check judge=failed implement@a check judge=failed!nocall advise implement@a check judge=failed!nocall",
		ending: machine.BlockedJudge, cause: machine.CauseTask, code: 1},
	{name: "same-tree-next-task", tasks: 2, script: begin + "implement@a check judge=failed " + task + "implement@a check judge commit " + whole + "publish", ending: machine.Delivered},
	{name: "corrections", script: begin + "implement check judge=corrections " + task + whole + "publish", ending: machine.Delivered},
	{name: "corrections-open", script: begin + "implement check judge=corrections implement check judge=corrections implement check judge=corrections commit " +
		"reconcile verify judge_slice=corrections publish", ending: machine.Delivered},
	{name: "discards", script: begin + "implement=discarded implement check judge=discarded judge commit reconcile verify judge_slice=discarded judge_slice publish", ending: machine.Delivered},
	{name: "discards-judge", rules: func(r *machine.Rules) { r.Budgets.Discards = 1 }, script: begin + "implement check judge=discarded judge=discarded",
		ending: machine.BlockedJudge, cause: machine.CauseDiscards, code: 3},
	{name: "discards-implement", rules: func(r *machine.Rules) { r.Budgets.Discards = 1 }, script: begin + "implement=discarded implement=discarded",
		ending: machine.BlockedCall, cause: machine.CauseDiscards, code: 16},
	{name: "unanswered", script: begin + "implement=unanswered/timeout", ending: machine.BlockedCall, cause: machine.CauseTimeout, code: 16},
	{name: "unanswered-judge", script: begin + "implement check judge=unanswered/limit", ending: machine.BlockedCall, cause: machine.CauseLimit, code: 16},
	{name: "limited", script: begin + "implement check judge=unanswered/limit$5!limit", ending: machine.BlockedCall, cause: machine.CauseLimit, code: 16},
	{name: "cap-exact", rules: capped(1301), script: begin + task + whole + "publish", ending: machine.Delivered},
	{name: "over-cap", rules: capped(1000), script: begin + "implement$1001 check", ending: machine.AbortedBudget, code: 15},
	{name: "over-cap-free-steps", rules: capped(1100), script: begin + "implement check judge$101 commit", ending: machine.AbortedBudget, code: 15},
	{name: "reconcile-merged", script: begin + task + "reconcile=failed reconcile@moved verify judge_slice publish", ending: machine.Delivered},
	{name: "reconcile-exhausted", script: begin + task + "reconcile=failed reconcile=failed reconcile=failed",
		ending: machine.BlockedReconcile, cause: machine.CauseConflict, code: 13},
	{name: "verify-red", script: begin + task + "reconcile verify=failed", ending: machine.BlockedVerify, cause: machine.CauseRed, code: 11},
	{name: "verify-unmeasured", script: begin + task + "reconcile verify=unmeasured", ending: machine.BlockedVerify, cause: machine.CauseUnmeasured, code: 12},
	{name: "whole-vetoed", script: begin + task + "reconcile verify judge_slice=failed", ending: machine.BlockedJudge, cause: machine.CauseSlice, code: 1},
	{name: "commit-failed", script: begin + "implement check judge commit=failed", ending: machine.BlockedCommit, code: 14},
	{name: "publish-refused", script: begin + task + whole + "publish=failed/refused", ending: machine.BlockedDelivery, cause: machine.CauseRefused, code: 22},
	{name: "publish-conflict", script: begin + task + whole + "publish=failed/conflict", ending: machine.BlockedDelivery, cause: machine.CauseConflict, code: 22},
	{name: "claim-invalid", script: "claim=failed/invalid", ending: machine.Invalid, code: 2},
	{name: "claim-precondition", script: "claim=failed/precondition", ending: machine.Precondition, code: 8},
	{name: "claim-record-broken", script: "claim!fork", ending: machine.Impossible, code: 10},
	{name: "prepare-invalid", script: "prepare=failed/invalid", ending: machine.Invalid, code: 2},
	{name: "prepare-precondition", script: "prepare=failed/precondition", ending: machine.Precondition, code: 8},

	{name: "gates", rules: gated, script: "prepare baseline plan_gate " + task + whole + "publish_gate publish", ending: machine.Delivered},
	{name: "plan-rejected", rules: gated, script: "prepare baseline plan_gate=failed", ending: machine.Rejected, code: 17},
	{name: "publish-rejected", rules: gated, script: "prepare baseline plan_gate " + task + whole + "publish_gate=failed", ending: machine.Rejected, code: 17},

	{name: "proposed", rules: func(r *machine.Rules) { r.DeliverTo = machine.ToPropose }, script: begin + task + whole + "publish propose", ending: machine.Delivered},
	{name: "merged", rules: toMerge, script: begin + task + forged + "merge", ending: machine.Delivered},
	{name: "merged-after-waits", slow: true, rules: toMerge, script: begin + task + whole + "publish propose!waits await_ci!waits merge!waits", ending: machine.Delivered},
	{name: "merge-gate", rules: func(r *machine.Rules) { r.DeliverTo, r.MergeGate = machine.ToMerge, true },
		script: begin + task + forged + "merge_gate merge", ending: machine.Delivered},
	{name: "merge-rejected", rules: func(r *machine.Rules) { r.DeliverTo, r.MergeGate = machine.ToMerge, true },
		script: begin + task + forged + "merge_gate=failed", ending: machine.Rejected, code: 17},
	{name: "ci-repaired", rules: toMerge, script: begin + task + whole + "publish propose await_ci=failed " + task + forged + "merge", ending: machine.Delivered},
	{name: "ci-red", rules: toMerge, script: begin + task + whole + "publish propose await_ci=failed " + task + whole + "publish propose await_ci=failed",
		ending: machine.BlockedCI, cause: machine.CauseRed, code: 19},
	{name: "ci-unmeasured", rules: toMerge, script: begin + task + whole + "publish propose await_ci=unmeasured",
		ending: machine.BlockedCI, cause: machine.CauseUnmeasured, code: 20},
	{name: "base-moved", rules: toMerge, script: begin + task + forged + "merge=failed/base_moved reconcile@moved verify judge_slice publish propose await_ci merge", ending: machine.Delivered},
	{name: "base-moves", rules: func(r *machine.Rules) { r.DeliverTo, r.Budgets.Moves = machine.ToMerge, 1 },
		script: begin + task + forged + "merge=failed/base_moved reconcile@moved verify judge_slice publish propose await_ci merge=failed/base_moved",
		ending: machine.BlockedReconcile, cause: machine.CauseBaseMoves, code: 13},
	{name: "propose-closed", rules: toMerge, script: begin + task + whole + "publish propose=failed/closed", ending: machine.BlockedDelivery, cause: machine.CauseClosed, code: 22},
	{name: "merge-refused", rules: toMerge, script: begin + task + forged + "merge=failed/refused", ending: machine.BlockedDelivery, cause: machine.CauseRefused, code: 22},
	{name: "merge-unknown", rules: toMerge, script: begin + task + forged + "merge=unanswered", ending: machine.BlockedDelivery, cause: machine.CauseUnknown, code: 22},

	// The infrastructure failed for good: never red, never green.
	{name: "broken-claim", script: "claim=failed/precondition!broken", ending: machine.Precondition, code: 8},
	{name: "broken-prepare", script: "prepare=failed/precondition!broken", ending: machine.Precondition, code: 8},
	{name: "broken-baseline", script: "prepare baseline=unmeasured!broken", ending: machine.BlockedChecks, cause: machine.CauseBaseUnmeasured, code: 5},
	{name: "broken-implement", script: begin + "implement=unanswered/fatal!broken", ending: machine.BlockedCall, cause: machine.CauseFatal, code: 16},
	{name: "broken-check", script: begin + "implement check=unmeasured!broken", ending: machine.BlockedChecks, cause: machine.CauseUnmeasured, code: 5},
	{name: "broken-judge", script: begin + "implement check judge=unanswered/fatal!broken", ending: machine.BlockedCall, cause: machine.CauseFatal, code: 16},
	{name: "broken-advise", script: begin + "implement check judge=failed implement check judge=failed advise=unanswered/fatal!broken",
		ending: machine.BlockedCall, cause: machine.CauseFatal, code: 16},
	{name: "broken-commit", script: begin + "implement check judge commit=failed!broken", ending: machine.BlockedCommit, code: 14},
	{name: "broken-reconcile", script: begin + task + "reconcile=unmeasured!broken", ending: machine.BlockedReconcile, cause: machine.CauseConflict, code: 13},
	{name: "broken-verify", script: begin + task + "reconcile verify=unmeasured!broken", ending: machine.BlockedVerify, cause: machine.CauseUnmeasured, code: 12},
	{name: "broken-judge-slice", script: begin + task + "reconcile verify judge_slice=unanswered/fatal!broken", ending: machine.BlockedCall, cause: machine.CauseFatal, code: 16},
	{name: "broken-e2e", rules: withE2E, script: begin + task + whole + "e2e=unmeasured!broken", ending: machine.BlockedE2E, cause: machine.CauseUnmeasured, code: 18},
	{name: "broken-propose", rules: toMerge, script: begin + task + whole + "publish propose=unanswered!broken", ending: machine.BlockedDelivery, cause: machine.CauseUnknown, code: 22},
	{name: "broken-await-ci", rules: toMerge, script: begin + task + whole + "publish propose await_ci=unmeasured!broken", ending: machine.BlockedCI, cause: machine.CauseUnmeasured, code: 20},
	{name: "broken-merge", rules: toMerge, script: begin + task + forged + "merge=unanswered!broken", ending: machine.BlockedDelivery, cause: machine.CauseUnknown, code: 22},
	{name: "broken-publish", script: begin + task + whole + "publish=unanswered!broken", ending: machine.BlockedDelivery, cause: machine.CauseUnknown, code: 22},

	{name: "flaky", script: "prepare!flaky baseline!flaky implement!flaky check!flaky judge!flaky commit!flaky reconcile!flaky verify!flaky judge_slice!flaky publish!flaky", ending: machine.Delivered},
	{name: "mismatch", script: begin + "implement check judge commit!mismatch", ending: machine.Impossible, code: 10},
	{name: "record-forked", script: begin + "implement!fork", ending: machine.Impossible, code: 10},
	{name: "lost-once", slow: true, script: begin + "implement check=lost!lost check judge commit " + whole + "publish", ending: machine.Delivered},
	{name: "lost-too-often", slow: true, script: begin + "implement=lost!lost implement=lost!lost implement=lost!lost implement=lost!lost",
		ending: machine.BlockedCall, cause: machine.CauseHost, code: 16},
}

// agree checks that a run of the slice of w is the one that the machine makes
// of the same script.
func (s scenario) agree(t *testing.T, w *world, got ran) {
	t.Helper()
	w.sound(t)
	turns, state := pure(t, max(s.tasks, 1), s.ruled(), s.script)
	require.Equal(t, s.ending, got.Ending)
	require.Equal(t, s.cause, got.Cause)
	require.Equal(t, s.code, got.Code)
	require.Equal(t, state, got.status.State)
	require.Equal(t, state.SpentMicroUSD, got.CostMicroUSD)
	require.Equal(t, &got.Result, got.status.Result)
	require.Empty(t, got.Failed)
	recorded, folded := w.recorded(t)
	require.Equal(t, turns, recorded)
	if len(turns) == 0 {
		require.Empty(t, w.lines, "a slice that was refused has no record")
		require.Empty(t, w.undone)
		return
	}
	require.True(t, folded.Ended)
	require.Equal(t, state, folded.State)
	require.Equal(t, slice.Tail{N: folded.N, Head: folded.Head}, got.Ledger)
	var commits []string
	for _, task := range got.Tasks[:state.Task] {
		commits = append(commits, task.Commit)
	}
	require.Equal(t, folded.Commits, commits)
	require.Equal(t, folded.Whole, got.Commit)
	if got.Ending != machine.Impossible {
		require.Equal(t, len(turns), got.status.Recent[len(got.status.Recent)-1].N)
	}
}

func TestParityInTheEnvironment(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			w := s.world("env-").open(t)
			s.agree(t, w, inEnvironment(t, w, nil, nil))
		})
	}
}

func TestParityOnTheServer(t *testing.T) {
	server := realServer(t)
	for _, s := range scenarios {
		if s.slow {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			w := s.world("server-").open(t)
			s.agree(t, w, server.run(t, w))
		})
	}
}
