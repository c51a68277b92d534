package machine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// reopenings says for each ending, and each step that can have been due, what
// reopening makes of it: steps that agree are folded together.
func (d *definition) reopenings() string {
	var b strings.Builder
	b.WriteString(`Where an ended slice goes on (go test ./machine -update).

ending (cause)
  steps that were due
    what a person brings: where it goes on
Used of every counter: 5. "full": none was left of any, else two were.
`)
	for _, e := range d.endings {
		b.WriteString(d.reopeningsOf(e))
	}
	return b.String()
}

func (d *definition) reopeningsOf(e End) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s (%s)\n", e.Ending, e.Cause)
	var order []string
	groups := make(map[string][]string)
	for _, step := range d.endsIn(e) {
		lines := d.reopeningsAt(e, step)
		if groups[lines] == nil {
			order = append(order, lines)
		}
		groups[lines] = append(groups[lines], string(step))
	}
	for _, lines := range order {
		fmt.Fprintf(&b, "  %s\n%s", strings.Join(groups[lines], ", "), lines)
	}
	return b.String()
}

// endsIn are the steps that can be due when a slice ends as e.
func (d *definition) endsIn(e End) []Step {
	var list []Step
	for _, s := range steps {
		can := e.Ending == Cancelled || e.Ending == Impossible || e.Ending == AbortedBudget && has(d.costs, s)
		for i := range d.table {
			r := &d.table[i]
			can = can || has(r.In, s) && r.End == e.Ending &&
				(r.EndCause == e.Cause || r.EndCause == ByEvent && has(r.Causes, e.Cause))
		}
		if can {
			list = append(list, s)
		}
	}
	return list
}

func (d *definition) reopeningsAt(e End, step Step) string {
	var order []string
	groups := make(map[string][]string)
	tell := func(name, words string) {
		if groups[words] == nil {
			order = append(order, words)
		}
		groups[words] = append(groups[words], name)
	}
	for _, full := range []bool{true, false} {
		for _, by := range []struct {
			name  string
			gates bool
			tasks int
			Reopening
		}{
			{name: "unchanged", tasks: 2, gates: true},
			{name: "unchanged, no gates", tasks: 2},
			{name: "changed", tasks: 2, gates: true, Reopening: Reopening{Changed: true}},
			{name: "changed, no gates", tasks: 2, Reopening: Reopening{Changed: true}},
			{name: "task added", tasks: 3, gates: true},
			{name: "open tasks removed, no gates", tasks: 1},
		} {
			s := State{Step: step, Task: 1, Tasks: 2, Attempt: 3, Milestone: MilestoneStarted, Ending: e.Ending, Cause: e.Cause}
			if !has(taskSteps, step) && step != Prepare && step != Baseline && step != PlanGate {
				s.Task = 2
			}
			s.Rules = Rules{CapMicroUSD: 100, DeliverTo: ToMerge, E2E: true, PlanGate: by.gates, PublishGate: by.gates, MergeGate: by.gates}
			for _, c := range counters {
				*s.Used.at(c) = usedAlready
				*s.Rules.Budgets.at(c) = usedAlready
				if !full {
					*s.Rules.Budgets.at(c) += 2
				}
			}
			name := by.name
			if full {
				name += ", full"
			}
			by.Rules, by.Tasks = s.Rules, by.tasks
			n, err := d.reopen(s, by.Reopening)
			if err != nil {
				tell(name, err.Error())
				continue
			}
			words := d.difference(s, n)
			s.Restore, s.E2EUnmeasured = true, true
			n, _ = d.reopen(s, by.Reopening)
			if !n.Restore {
				words += ", restore off"
			}
			if !n.E2EUnmeasured {
				words += ", e2e note off"
			}
			tell(name, words)
		}
	}
	var b strings.Builder
	for _, words := range order {
		names := strings.Join(groups[words], " | ")
		if len(order) == 1 {
			names = "whatever it is"
		}
		fmt.Fprintf(&b, "    %s: %s\n", names, words)
	}
	return b.String()
}

func TestReopenings(t *testing.T) {
	golden(t, "reopen.golden", standard.reopenings())
}

func TestReopenRefuses(t *testing.T) {
	rules := Rules{CapMicroUSD: 100, Budgets: DefaultBudgets(), DeliverTo: ToMerge}
	ended := State{Step: Judge, Task: 1, Tasks: 3, Rules: rules, Ending: Cancelled, Milestone: MilestoneFrozen}
	running := ended
	running.Ending = ""
	broke := ended
	broke.Ending, broke.SpentMicroUSD = AbortedBudget, 101
	odd := ended
	odd.Cause = CauseRed
	done := ended
	done.Ending = Delivered
	vetoed := State{Step: JudgeSlice, Task: 3, Tasks: 3, Rules: rules, Ending: BlockedJudge, Cause: CauseSlice}
	for name, c := range map[string]struct {
		s    State
		by   Reopening
		want string
	}{
		"running":                  {running, Reopening{Tasks: 3, Rules: rules}, "has not ended"},
		"no such ending":           {odd, Reopening{Tasks: 3, Rules: rules}, "cannot have ended as cancelled (red)"},
		"delivered":                {done, Reopening{Tasks: 3, Rules: rules}, "not reopened: nothing"},
		"no target":                {ended, Reopening{Tasks: 3}, `deliver to ""`},
		"no task":                  {State{Step: PlanGate, Tasks: 1, Ending: Cancelled}, Reopening{Rules: rules}, "at least one"},
		"committed task removed":   {vetoed, Reopening{Tasks: 2, Rules: rules}, "3 are committed"},
		"a task must be added":     {vetoed, Reopening{Tasks: 3, Changed: true, Rules: rules}, "needs an added task"},
		"the cap is still too low": {broke, Reopening{Tasks: 3, Rules: rules}, "spent $0.000101 of $0.000100"},
		"too low, by the plan gate": {broke, Reopening{Tasks: 3, Changed: true,
			Rules: Rules{PlanGate: true, CapMicroUSD: 100, DeliverTo: ToMerge}}, "higher cap (--usd)"},
	} {
		t.Run(name, func(t *testing.T) {
			n, err := Reopen(c.s, c.by)
			require.ErrorContains(t, err, c.want)
			require.Equal(t, c.s, n)
		})
	}
}

func TestReopenKeepsTheRestoreBehindThePlanGate(t *testing.T) {
	s := State{Step: Implement, Tasks: 1, Attempt: 2, Restore: true, Milestone: MilestoneFrozen, Ending: Cancelled}
	s, err := Reopen(s, Reopening{Tasks: 1, Changed: true, Rules: Rules{DeliverTo: ToBranch, PlanGate: true}})
	require.NoError(t, err)
	s, err = Next(s, Event{Step: PlanGate, Outcome: Done})
	require.NoError(t, err)
	require.Equal(t, Implement, s.Step)
	require.True(t, s.Restore)
	s, err = Next(s, Event{Step: Implement, Outcome: Done})
	require.NoError(t, err)
	require.False(t, s.Restore)
}
