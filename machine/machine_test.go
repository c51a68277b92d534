package machine

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func everything(budgets Counts) Rules {
	return Rules{Budgets: budgets, CapMicroUSD: 1000, DeliverTo: ToMerge, E2E: true, PlanGate: true, PublishGate: true, MergeGate: true}
}

func plain(budgets Counts) Rules {
	return Rules{Budgets: budgets, CapMicroUSD: 1000, DeliverTo: ToBranch}
}

// walk takes the events "step outcome [cause] [$cost]", and requires where
// the slice then is: "step", or "ending" or "ending (cause)".
func walk(t *testing.T, s State, lines ...string) State {
	t.Helper()
	for _, line := range lines {
		event, want, ok := strings.Cut(line, " → ")
		require.True(t, ok, line)
		words := strings.Fields(event)
		e := Event{Step: Step(words[0]), Outcome: Outcome(words[1])}
		for _, w := range words[2:] {
			if _, err := fmt.Sscanf(w, "$%d", &e.CostMicroUSD); err != nil {
				e.Cause = Cause(w)
			}
		}
		n, err := Next(s, e)
		require.NoError(t, err, line)
		got := string(n.Step)
		if n.Ended() {
			got = string(n.Ending)
			if n.Cause != "" {
				got += fmt.Sprintf(" (%s)", n.Cause)
			}
		}
		require.Equal(t, want, got, line)
		s = n
	}
	return s
}

func due(t *testing.T, rules Rules, step Step, task, tasks int) State {
	t.Helper()
	return State{Step: step, Task: task, Tasks: tasks, Milestone: MilestoneFrozen, Rules: rules}
}

func TestASliceWithoutIncident(t *testing.T) {
	s := walk(t, New(2, everything(DefaultBudgets())),
		"prepare done → baseline", "baseline done → plan_gate", "plan_gate done → implement",
		"implement done → check", "check done → judge", "judge done → commit", "commit done → implement",
		"implement done → check", "check done → judge", "judge done → commit", "commit done → reconcile",
		"reconcile done → verify", "verify done → judge_slice", "judge_slice done → e2e", "e2e done → publish_gate",
		"publish_gate done → publish", "publish done → propose", "propose done → await_ci", "await_ci done → merge_gate",
		"merge_gate done → merge", "merge done → delivered")
	require.Equal(t, MilestoneDelivered, s.Milestone)
	_, ok := Due(s)
	require.False(t, ok)

	s = walk(t, New(1, plain(DefaultBudgets())),
		"prepare done → baseline", "baseline done → implement", "implement done → check", "check done → judge",
		"judge done → commit", "commit done → reconcile", "reconcile done → verify", "verify done → judge_slice",
		"judge_slice done → publish", "publish done → delivered")
	require.Equal(t, MilestoneDelivered, s.Milestone)
	require.Equal(t, Publish, s.Step)
}

func TestDue(t *testing.T) {
	s := due(t, plain(DefaultBudgets()), Check, 1, 3)
	s.Attempt = 2
	turn, ok := Due(s)
	require.True(t, ok)
	require.Equal(t, "check · task 2 · attempt 2", turn.String())
	s.Step = Verify
	turn, _ = Due(s)
	require.Equal(t, Turn{Step: Verify}, turn)
	require.Equal(t, "verify", turn.String())
}

func TestAVetoAfterAdviceFollowedByARedCheck(t *testing.T) {
	s := due(t, plain(DefaultBudgets()), Judge, 0, 1)
	s = walk(t, s, "judge failed → implement", "implement done → check", "check done → judge", "judge failed → advise",
		"advise done → implement")
	require.True(t, s.Restore)
	s = walk(t, s, "implement discarded → implement")
	require.True(t, s.Restore, "the step stays, so it still begins from the last good commit")
	s = walk(t, s, "implement done → check", "check failed → implement")
	require.False(t, s.Restore)
	require.Equal(t, Counts{Checks: 1, Judge: 2, Discards: 1}, s.Used)
	walk(t, s, "implement done → check", "check done → judge", "judge failed → blocked_judge (task)")
}

func TestDiscardsAtTheCapDuringReconcile(t *testing.T) {
	s := due(t, plain(DefaultBudgets()), Reconcile, 1, 1)
	s.Used.Discards = 5
	s = walk(t, s, "reconcile discarded → reconcile")
	require.Equal(t, Counts{Reconcile: 1, Discards: 6}, s.Used)
	walk(t, s, "reconcile discarded → blocked_call (discards)")
	s.Used.Reconcile = 2
	walk(t, s, "reconcile discarded → blocked_reconcile (conflict)")
}

func TestMoneyAtACommit(t *testing.T) {
	for _, tasks := range []int{1, 2} {
		s := due(t, plain(DefaultBudgets()), Judge, 0, tasks)
		s.SpentMicroUSD = 900
		next := map[int]string{1: "reconcile", 2: "implement"}[tasks]
		exact := walk(t, s, "judge done $100 → commit", "commit done → "+next)
		require.Equal(t, int64(1000), exact.SpentMicroUSD)

		over := walk(t, s, "judge done $101 → commit", "commit done → aborted_budget")
		require.Equal(t, 1, over.Task, "the commit itself passed")
		require.Equal(t, Step(next), over.Step)
		rules := over.Rules
		rules.CapMicroUSD = 1001
		again, err := Reopen(over, Reopening{Tasks: tasks, Rules: rules})
		require.NoError(t, err)
		require.Equal(t, Step(next), again.Step)
		require.Equal(t, int64(1001), again.SpentMicroUSD)
	}
}

func TestStopForWantOfMoney(t *testing.T) {
	s := due(t, plain(DefaultBudgets()), Judge, 0, 1)
	stopped, err := Stop(s, AbortedBudget)
	require.NoError(t, err)
	require.Equal(t, AbortedBudget, stopped.Ending)
	again, err := Reopen(stopped, Reopening{Tasks: 1, Rules: s.Rules})
	require.NoError(t, err)
	require.Equal(t, s, again)

	var impossible *ImpossibleError
	_, err = Stop(stopped, Cancelled)
	require.ErrorAs(t, err, &impossible)
	_, err = Stop(s, Delivered)
	require.ErrorAs(t, err, &impossible)
	s.Step = Commit
	_, err = Stop(s, AbortedBudget)
	require.ErrorAs(t, err, &impossible)
}

func TestCorrectionsExhaustedThenAVeto(t *testing.T) {
	s := due(t, plain(DefaultBudgets()), Judge, 0, 1)
	s = walk(t, s, "judge corrections → implement", "implement done → check", "check done → judge",
		"judge corrections → implement", "implement done → check", "check done → judge")
	walk(t, s, "judge corrections → commit")
	s = walk(t, s, "judge failed → implement")
	require.Equal(t, Counts{Judge: 1, Corrections: 2}, s.Used)
}

func TestRejectedAtThePlanGate(t *testing.T) {
	s := walk(t, due(t, everything(DefaultBudgets()), PlanGate, 0, 1), "plan_gate failed → rejected")
	end, ok := Find(s.Ending, s.Cause)
	require.True(t, ok)
	require.Equal(t, 17, end.Code)
	s, err := Reopen(s, Reopening{Tasks: 2, Changed: true, Rules: s.Rules})
	require.NoError(t, err)
	require.Equal(t, PlanGate, s.Step)
	walk(t, s, "plan_gate done → implement")
}

func TestE2EUnmeasured(t *testing.T) {
	rules := everything(DefaultBudgets())
	walk(t, due(t, rules, E2E, 1, 1), "e2e unmeasured → blocked_e2e (unmeasured)")
	rules.DeliverUnmeasured = true
	s := walk(t, due(t, rules, E2E, 1, 1), "e2e unmeasured → publish_gate", "publish_gate done → publish", "publish done → propose",
		"propose done → await_ci", "await_ci done → merge_gate", "merge_gate done → merge")
	require.True(t, s.E2EUnmeasured)
	s = walk(t, s, "merge failed base_moved → reconcile", "reconcile done → verify", "verify done → judge_slice",
		"judge_slice done → e2e", "e2e done → publish_gate")
	require.False(t, s.E2EUnmeasured, "this tree was measured")
}

func TestSmallBudgets(t *testing.T) {
	one, none := DefaultBudgets(), Counts{}
	one.Judge = 1
	walk(t, due(t, plain(one), Judge, 0, 1), "judge failed → advise", "advise done → implement", "implement done → check",
		"check done → judge", "judge failed → blocked_judge (task)")

	for _, lines := range []string{
		"judge failed → blocked_judge (task)", "judge corrections → commit", "judge discarded → blocked_judge (discards)",
		"implement discarded → blocked_call (discards)", "check failed → blocked_checks (red)",
		"check lost → blocked_call (host)", "reconcile failed → blocked_reconcile (conflict)",
		"reconcile discarded → blocked_reconcile (conflict)", "await_ci failed → blocked_ci (red)",
		"merge failed base_moved → blocked_reconcile (base_moves)",
	} {
		rules := everything(none)
		step := Step(strings.Fields(lines)[0])
		task := 1
		if has(taskSteps, step) {
			task = 0
		}
		walk(t, due(t, rules, step, task, 1), lines)
	}
}

func TestCIRedMakesAnExtraTask(t *testing.T) {
	s := due(t, everything(DefaultBudgets()), AwaitCI, 1, 1)
	s.Milestone = MilestoneProposed
	s = walk(t, s, "await_ci failed → implement")
	require.Equal(t, []int{1, 2, 1, 1}, []int{s.Task, s.Tasks, s.Attempt, s.Used.CI})
	s = walk(t, s, "implement done → check", "check done → judge", "judge done → commit", "commit done → reconcile",
		"reconcile done → verify", "verify done → judge_slice", "judge_slice done → e2e", "e2e done → publish_gate",
		"publish_gate done → publish", "publish done → propose")
	require.Equal(t, MilestoneProposed, s.Milestone, "a milestone is not taken back")
	s = walk(t, s, "propose done → await_ci", "await_ci failed → blocked_ci (red)")
	_, err := Reopen(s, Reopening{Tasks: 2, Changed: true, Rules: s.Rules})
	require.ErrorContains(t, err, "needs an added task")
	s, err = Reopen(s, Reopening{Tasks: 3, Changed: true, Rules: s.Rules})
	require.NoError(t, err)
	require.Zero(t, s.Used.CI)
	s = walk(t, s, "plan_gate done → implement")
	turn, _ := Due(s)
	require.Equal(t, Turn{Implement, 3, 1}, turn)
}

func TestTheBaseMovedThreeTimes(t *testing.T) {
	s := due(t, everything(DefaultBudgets()), Merge, 1, 1)
	for range 3 {
		s.Used.Reconcile = 2
		s = walk(t, s, "merge failed base_moved → reconcile")
		require.Zero(t, s.Used.Reconcile)
		s = walk(t, s, "reconcile done → verify", "verify done → judge_slice", "judge_slice done → e2e", "e2e done → publish_gate",
			"publish_gate done → publish", "publish done → propose", "propose done → await_ci", "await_ci done → merge_gate",
			"merge_gate done → merge")
	}
	s = walk(t, s, "merge failed base_moved → blocked_reconcile (base_moves)")
	s, err := Reopen(s, Reopening{Tasks: 1, Rules: s.Rules})
	require.NoError(t, err)
	require.Equal(t, Verify, s.Step)
	require.Zero(t, s.Used.Moves)
}

func TestImpossible(t *testing.T) {
	s := due(t, plain(DefaultBudgets()), Implement, 0, 1)
	ended := s
	ended.Ending = Cancelled
	rich := s
	rich.SpentMicroUSD = math.MaxInt64
	nowhere := s
	nowhere.Rules.DeliverTo = ""
	for name, c := range map[string]struct {
		s    State
		e    Event
		want string
	}{
		"not listed":       {s, Event{Step: Implement, Outcome: Failed}, `impossible: step "implement" cannot end "failed": the table does not list it`},
		"another step":     {s, Event{Step: Check, Outcome: Done}, `impossible: step "check" cannot end "done": the step that is due is "implement"`},
		"ended":            {ended, Event{Step: Implement, Outcome: Done}, `impossible: step "implement" cannot end "done": the slice has ended as cancelled`},
		"a cause too many": {s, Event{Step: Implement, Outcome: Done, Cause: CauseRed}, `impossible: step "implement" cannot end "done" (red): the table lists this outcome, but not with cause "red"`},
		"no cause":         {s, Event{Step: Implement, Outcome: Unanswered}, `impossible: step "implement" cannot end "unanswered": the table lists this outcome, but not with cause ""`},
		"no outcome":       {s, Event{Step: Implement}, `impossible: step "implement": the table does not list it`},
		"negative cost":    {s, Event{Step: Implement, Outcome: Done, CostMicroUSD: -1}, `impossible: step "implement" cannot end "done": a cost of -1 micro-dollars on top of 0`},
		"overflow":         {rich, Event{Step: Implement, Outcome: Done, CostMicroUSD: 1}, `impossible: step "implement" cannot end "done": a cost of 1 micro-dollars on top of 9223372036854775807`},
		"no target":        {nowhere, Event{Step: Implement, Outcome: Done}, `impossible: step "implement" cannot end "done": the rules deliver to ""`},
	} {
		t.Run(name, func(t *testing.T) {
			n, err := Next(c.s, c.e)
			var impossible *ImpossibleError
			require.ErrorAs(t, err, &impossible)
			require.Equal(t, c.e.Step, impossible.Step)
			require.EqualError(t, err, c.want)
			require.Equal(t, c.s, n)
		})
	}
}

func TestEndings(t *testing.T) {
	codes := make(map[int]Ending)
	seen := make(map[Ending]bool)
	last := -1
	for _, e := range Ends() {
		require.GreaterOrEqual(t, e.Code, last, "they are in the order of their codes")
		require.NotEqual(t, ExitNotDue, e.Code)
		last = e.Code
		if was, ok := codes[e.Code]; ok {
			require.Equal(t, was, e.Ending, "code %d", e.Code)
		}
		codes[e.Code], seen[e.Ending] = e.Ending, true
		require.NotEmpty(t, e.Next)
	}
	for _, e := range everyEnding {
		require.True(t, seen[e], e)
	}
	Ends()[0].Code = 99
	require.NotEqual(t, 99, Ends()[0].Code)
}

// The step, outcome and cause words that a walk draws from.
func anyEvent(t *rapid.T, s State) Event {
	e := Event{Step: s.Step, Outcome: rapid.SampledFrom(outcomes).Draw(t, "outcome"), CostMicroUSD: rapid.Int64Range(0, 40).Draw(t, "cost")}
	if e.Outcome == Failed || e.Outcome == Unanswered {
		e.Cause = rapid.SampledFrom(causes).Draw(t, "cause")
	}
	if rapid.IntRange(0, 20).Draw(t, "stray") == 0 {
		e.Step = rapid.SampledFrom(steps).Draw(t, "step")
	}
	return e
}

func TestRandomWalks(t *testing.T) {
	budget := rapid.IntRange(0, 3)
	rapid.Check(t, func(t *rapid.T) {
		b := func(name string) int { return budget.Draw(t, name) }
		on := func(name string) bool { return rapid.Bool().Draw(t, name) }
		rules := Rules{
			Budgets: Counts{b("checks"), b("judge"), b("corrections"), b("reconcile"), b("moves"), b("ci"), b("discards"), b("lost")}, CapMicroUSD: 1000,
			PlanGate: on("plan gate"), PublishGate: on("publish gate"), MergeGate: on("merge gate"),
			E2E: on("e2e"), DeliverUnmeasured: on("deliver"), DeliverTo: rapid.SampledFrom(targets).Draw(t, "to"),
		}
		s := New(rapid.IntRange(1, 3).Draw(t, "tasks"), rules)
		passed := map[Milestone]bool{s.Milestone: true}
		for range 120 {
			e := anyEvent(t, s)
			before := s
			n, err := Next(s, e)
			again, errAgain := Next(s, e)
			require.Equal(t, n, again)
			require.Equal(t, err, errAgain)
			require.Equal(t, before, s)
			if err != nil {
				var impossible *ImpossibleError
				require.ErrorAs(t, err, &impossible)
				require.Equal(t, s, n)
				continue
			}
			require.GreaterOrEqual(t, n.Task, s.Task)
			require.Equal(t, s.SpentMicroUSD+e.CostMicroUSD, n.SpentMicroUSD)
			for _, c := range counters {
				require.LessOrEqual(t, n.Used.Of(c), rules.Budgets.Of(c))
			}
			require.GreaterOrEqual(t, rank(n.Milestone), rank(s.Milestone))
			passed[n.Milestone] = true
			s = n
			if s.Ended() {
				for _, step := range steps {
					for _, o := range outcomes {
						refused, err := Next(s, Event{Step: step, Outcome: o})
						var impossible *ImpossibleError
						require.ErrorAs(t, err, &impossible)
						require.Equal(t, s, refused)
					}
				}
				break
			}
		}
		if s.Ending == Delivered {
			require.True(t, passed[MilestoneImplemented])
		}
		// Nothing depends on more than what is left of a budget.
		if !s.Ended() {
			shifted := s
			for _, c := range counters {
				by := rapid.IntRange(0, 5).Draw(t, "shift")
				*shifted.Used.at(c) += by
				*shifted.Rules.Budgets.at(c) += by
			}
			e := anyEvent(t, s)
			n, err := Next(s, e)
			m, errShifted := Next(shifted, e)
			require.Equal(t, err == nil, errShifted == nil)
			require.Equal(t, []any{n.Step, n.Ending, n.Cause, n.Task, n.Attempt}, []any{m.Step, m.Ending, m.Cause, m.Task, m.Attempt})
		}
	})
}

func rank(m Milestone) int {
	for i, x := range milestones {
		if x == m {
			return i
		}
	}
	return -1
}

func FuzzNext(f *testing.F) {
	f.Add("implement", "implement", "done", "", int64(1), 0, 1, "branch", 2, 1)
	f.Add("merge", "merge", "failed", "base_moved", int64(0), 1, 1, "merge", 0, 0)
	f.Add("", "", "", "", int64(-1), -1, -1, "", -1, math.MinInt)
	f.Add("same", "same", "done", "by event", int64(math.MaxInt64), math.MaxInt, 0, "moon", math.MaxInt, -1)
	f.Fuzz(func(t *testing.T, at, step, outcome, cause string, cost int64, task, tasks int, to string, budget, used int) {
		s := State{Step: Step(at), Task: task, Tasks: tasks, SpentMicroUSD: 1, Milestone: MilestoneStarted,
			Rules: Rules{DeliverTo: Target(to), CapMicroUSD: 100, Budgets: Counts{budget, budget, budget, budget, budget, budget, budget, budget}},
			Used:  Counts{used, used, used, used, used, used, used, used}}
		n, err := Next(s, Event{Step: Step(step), Outcome: Outcome(outcome), Cause: Cause(cause), CostMicroUSD: cost})
		if err != nil {
			var impossible *ImpossibleError
			require.ErrorAs(t, err, &impossible)
			require.Equal(t, s, n)
			return
		}
		require.Contains(t, steps, n.Step)
		require.Contains(t, outcomes, Outcome(outcome))
		if n.Ended() {
			_, ok := Find(n.Ending, n.Cause)
			require.True(t, ok, "%s (%s)", n.Ending, n.Cause)
		}
	})
}
