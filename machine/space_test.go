package machine

import (
	"flag"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// The space is every state that a slice can reach, reopenings included. Beside
// the machine walks a witness that notes what happened to the trees, from the
// events alone: it, not the state, says what may be committed and delivered.

// witness is what was done to the candidate and to the whole tree since they
// last changed, and what a person has approved.
type witness uint16

const (
	checked witness = 1 << iota
	judged
	verified
	judgedWhole
	e2ePassed
	e2eNoted
	planApproved
	publishApproved
	mergeApproved

	ofCandidate = checked | judged
	ofWhole     = verified | judgedWhole | e2ePassed | e2eNoted | publishApproved | mergeApproved
)

func (w witness) after(e Event, goesOn bool) witness {
	fine := e.Outcome == Done || e.Outcome == Corrections
	switch {
	case e.Step == E2E && e.Outcome == Unmeasured && goesOn:
		return w | e2ePassed | e2eNoted
	case e.Step == PlanGate && e.Outcome == Failed:
		return w &^ planApproved
	case !fine:
		return w
	}
	switch e.Step {
	case PlanGate:
		return w | planApproved
	case Implement:
		return w &^ ofCandidate
	case Check:
		return w | checked
	case Judge:
		return w | judged
	case Commit:
		return w &^ (ofCandidate | ofWhole)
	case Reconcile:
		return w &^ ofWhole
	case Verify:
		return w | verified
	case JudgeSlice:
		return w | judgedWhole
	case E2E:
		return w | e2ePassed
	case PublishGate:
		return w | publishApproved
	case MergeGate:
		return w | mergeApproved
	case Prepare, Baseline, Advise, Publish, Propose, AwaitCI, Merge:
	}
	return w
}

// needs are what must have been done before step s is done.
func needs(s Step, r Rules) witness {
	var need witness
	if s == Commit {
		return ofCandidate
	}
	if s == Implement && r.PlanGate {
		return planApproved
	}
	if s == Publish || s == Propose || s == AwaitCI || s == Merge {
		need = verified | judgedWhole
		if r.E2E {
			need |= e2ePassed
		}
		if r.PublishGate {
			need |= publishApproved
		}
		if s == Merge && r.MergeGate {
			need |= mergeApproved
		}
	}
	return need
}

type space struct {
	t       testing.TB
	rules   Rules
	money   bool          // costs are walked through as well
	reopens bool          // so are reopenings
	longest map[key]int16 // events to the end of the run; 0 while it is being found out
	ended   map[key]bool
	reached map[[2]string]bool
	roots   []root // where reopened runs go on
	events  map[Step][]Event
	index   map[Step]uint8
}

type root struct {
	s     State
	w     witness
	added int
}

const (
	spaceCap = 10
	maxAdded = 1
)

func newSpace(t testing.TB, rules Rules, money, reopens bool) *space {
	rules.CapMicroUSD = spaceCap
	x := &space{t: t, rules: rules, money: money, reopens: reopens, longest: make(map[key]int16), ended: make(map[key]bool),
		reached: make(map[[2]string]bool), events: make(map[Step][]Event), index: make(map[Step]uint8)}
	for i, s := range steps {
		x.index[s] = uint8(i)
		for _, o := range outcomes {
			for _, c := range causes {
				e := Event{Step: s, Outcome: o, Cause: c}
				if slices.ContainsFunc(table, func(r Rule) bool { return r.On == o && has(r.In, s) && r.takes(c) }) {
					x.events[s] = append(x.events[s], e)
				}
			}
		}
	}
	return x
}

// A key is what the machine and the witness can still tell apart: the number
// of open tasks, not of all; neither attempt nor milestone; of money, whether
// the cap is reached or passed.
type key struct {
	step, open, added                           uint8
	checks, judge, corrections                  uint8
	reconcile, moves, ci, discards, lost, money uint8
	restore, unmeasured                         bool
	w                                           witness
	ending                                      uint8 // its row, from 1
}

func (x *space) key(r root) key {
	u := &r.s.Used
	return key{x.index[r.s.Step], uint8(r.s.Tasks - r.s.Task), uint8(r.added),
		uint8(u.Checks), uint8(u.Judge), uint8(u.Corrections),
		uint8(u.Reconcile), uint8(u.Moves), uint8(u.CI), uint8(u.Discards), uint8(u.Lost),
		uint8(max(0, r.s.SpentMicroUSD-spaceCap+1)), r.s.Restore, r.s.E2EUnmeasured, r.w, 0}
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (x *space) fail(r root, e Event, why string, args ...any) {
	x.t.Helper()
	x.t.Fatalf("%+v, witness %b, %+v: %s", r.s, r.w, e, fmt.Sprintf(why, args...))
}

// run explores all slices of up to n tasks and returns the longest path of
// one run for each number.
func (x *space) run(n int) []int {
	var longest []int
	for i := 1; i <= n; i++ {
		longest = append(longest, x.visit(root{s: New(i, x.rules)}))
		for len(x.roots) > 0 {
			r := x.roots[len(x.roots)-1]
			x.roots = x.roots[:len(x.roots)-1]
			x.visit(r)
		}
	}
	return longest
}

func (x *space) visit(r root) int {
	k := x.key(r)
	if l, ok := x.longest[k]; ok {
		if l == 0 {
			x.fail(r, Event{}, "a run comes back to it")
		}
		return int(l)
	}
	x.longest[k] = 0
	longest := 0
	for _, e := range x.events[r.s.Step] {
		for _, cost := range x.costs(r.s) {
			e.CostMicroUSD = cost
			longest = max(longest, x.cross(r, e))
		}
	}
	if longest == 0 {
		x.fail(r, Event{}, "nothing leads out of it")
	}
	stopped, err := Stop(r.s, Cancelled)
	if err != nil {
		x.fail(r, Event{}, "it cannot be cancelled: %v", err)
	}
	x.end(root{stopped, r.w, r.added})
	x.longest[k] = int16(longest)
	return longest
}

// costs are 0, and what makes the sum exactly the cap and one more.
func (x *space) costs(s State) []int64 {
	left := spaceCap - s.SpentMicroUSD
	switch {
	case !x.money || left < 0:
		return []int64{0}
	case left == 0:
		return []int64{0, 1}
	}
	return []int64{0, left, left + 1}
}

func (x *space) cross(r root, e Event) int {
	s := r.s
	n, err := Next(s, e)
	switch need := needs(s.Step, s.Rules); {
	case err != nil:
		x.fail(r, e, "%v", err)
	case e.Outcome == Done && r.w&need != need:
		x.fail(r, e, "it needs %b", need)
	case e.Outcome == Done && need&verified != 0 && (s.Task != s.Tasks || s.E2EUnmeasured != (r.w&e2eNoted != 0)):
		x.fail(r, e, "tasks are open, or it is not said whether e2e was measured")
	case n.Task < s.Task || n.Tasks < s.Tasks || n.Task > n.Tasks || n.SpentMicroUSD != s.SpentMicroUSD+e.CostMicroUSD:
		x.fail(r, e, "tasks or money are lost: %+v", n)
	}
	for _, c := range counters {
		if n.Used.Of(c) > n.Rules.Budgets.Of(c) {
			x.fail(r, e, "%s is above its budget", c)
		}
	}
	over := n.SpentMicroUSD > spaceCap
	if over && !n.Ended() && has(agentSteps, n.Step) || n.Ending == AbortedBudget && !(over && has(agentSteps, n.Step)) {
		x.fail(r, e, "money: %+v", n)
	}
	if !n.Ended() && e.Outcome == Limited {
		if n.SpentMicroUSD = s.SpentMicroUSD; n != s {
			x.fail(r, e, "a quota wait changes more than money: %+v", n)
		}
		if e.CostMicroUSD == 0 {
			return 0
		}
		n.SpentMicroUSD += e.CostMicroUSD
	}
	to := root{n, r.w.after(e, !n.Ended()), r.added}
	if n.Ended() {
		x.end(to)
		return 1
	}
	return 1 + x.visit(to)
}

// end notes an ended slice, and where each way to reopen it leads.
func (x *space) end(r root) {
	end, ok := Find(r.s.Ending, r.s.Cause)
	if !ok {
		x.fail(r, Event{}, "the ending has no row")
	}
	x.reached[[2]string{string(end.Ending), string(end.Cause)}] = true
	k := x.key(r)
	k.ending = uint8(1 + slices.IndexFunc(endings, func(e End) bool { return e.Ending == end.Ending && e.Cause == end.Cause }))
	if end.ReopenAt == "" || !x.reopens || x.ended[k] {
		return
	}
	x.ended[k] = true
	rules := r.s.Rules
	rules.CapMicroUSD = max(spaceCap, r.s.SpentMicroUSD)
	leads := 0
	for _, by := range []Reopening{
		{Tasks: r.s.Tasks},
		{Tasks: r.s.Tasks, Changed: true},
		{Tasks: r.s.Tasks + 1, Changed: true},
		{Tasks: max(r.s.Task, 1), Changed: true},
	} {
		by.Rules = rules
		to := root{r.s, r.w, r.added}
		if by.Tasks > r.s.Tasks {
			if to.added++; to.added > maxAdded {
				continue
			}
		}
		n, err := Reopen(r.s, by)
		if err != nil {
			if !end.AddsTask {
				x.fail(r, Event{}, "%+v: %v", by, err)
			}
			continue
		}
		leads++
		x.reopened(r, n, end)
		// What is spent and the cap move together from here on.
		n.SpentMicroUSD, n.Rules.CapMicroUSD = 0, spaceCap
		to.s = n
		if by.Changed || r.s.Ending == Rejected {
			to.w &^= planApproved
		}
		if end.ReopenAt == Verify {
			to.w &^= ofWhole // another tree: somebody merged by hand
		}
		if n.Ended() {
			x.fail(r, Event{}, "%+v ends it at once: %+v", by, n)
		}
		x.roots = append(x.roots, to)
	}
	if leads == 0 && r.added < maxAdded {
		x.fail(r, Event{}, "nothing reopens it")
	}
}

func (x *space) reopened(r root, n State, end End) {
	if n.SpentMicroUSD != r.s.SpentMicroUSD || n.Task != r.s.Task {
		x.fail(r, Event{}, "reopening loses money or a task: %+v", n)
	}
	for _, c := range counters {
		was, is := r.s.Used.Of(c), n.Used.Of(c)
		closed := has(end.Reset, c) && was >= r.s.Rules.Budgets.Of(c)
		gone := n.Task == n.Tasks && (c == Checks || c == Judgements || c == CorrectionRounds)
		if want := was * bit(!closed && !gone); is != want {
			x.fail(r, Event{}, "reopening makes %d of %s: %+v", is, c, n)
		}
	}
}

func spaceRules(to Target, gates, e2e, deliver bool, budgets Counts) Rules {
	return Rules{Budgets: budgets, DeliverTo: to, PlanGate: gates, PublishGate: gates, MergeGate: gates, E2E: e2e, DeliverUnmeasured: deliver}
}

var deep = flag.Bool("deep", false, "explore the largest space too (a minute, 2 GB)")

func TestSpaceOfDefaultBudgets(t *testing.T) {
	few := DefaultBudgets()
	few.Discards, few.Lost = 1, 0
	for _, c := range []struct {
		name    string
		rules   Rules
		reopens bool
		longest []int // of one run, for 1, 2 and 3 tasks
		states  int
		deep    bool
	}{
		{"branch", spaceRules(ToBranch, false, false, false, DefaultBudgets()), true, []int{38, 59, 80}, 77672, false},
		{"publish, gates", spaceRules(ToPublish, true, true, false, DefaultBudgets()), true, []int{41, 62, 83}, 163856, false},
		{"propose, e2e may be unmeasured", spaceRules(ToPropose, false, true, true, DefaultBudgets()), false, []int{40, 61, 82}, 12876, false},
		{"merge, everything on", spaceRules(ToMerge, true, true, true, DefaultBudgets()), false, []int{110, 131, 152}, 122088, false},
		{"merge, everything on, reopened, discards 1, lost 0", spaceRules(ToMerge, true, true, true, few), true, []int{102, 123, 144}, 196214, false},
		{"merge, everything on, reopened", spaceRules(ToMerge, true, true, true, DefaultBudgets()), true, []int{110, 131, 152}, 2746856, true},
	} {
		if c.deep && !*deep {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			x := newSpace(t, c.rules, false, c.reopens)
			longest := x.run(3)
			t.Logf("%d states, %d endings to reopen, longest runs %v", len(x.longest), len(x.ended), longest)
			require.Equal(t, c.longest, longest)
			require.Len(t, x.longest, c.states)
		})
	}
}

// Every policy, with money and reopenings, at budgets that keep it small.
func TestSpaceOfEveryPolicy(t *testing.T) {
	small := Counts{Checks: 1, Judge: 2, Corrections: 0, Reconcile: 1, Moves: 1, CI: 1, Discards: 0, Lost: 0}
	none := Counts{}
	reached := make(map[[2]string]bool)
	states := 0
	for _, to := range targets {
		for policy := range 32 {
			rules := spaceRules(to, false, policy&8 != 0, policy&16 != 0, small)
			rules.PlanGate, rules.PublishGate, rules.MergeGate = policy&1 != 0, policy&2 != 0, policy&4 != 0
			if rules.DeliverUnmeasured && !rules.E2E || rules.MergeGate && to != ToMerge {
				continue // what is left out makes no difference: see the matrix
			}
			for _, rules.Budgets = range []Counts{none, small} {
				x := newSpace(t, rules, true, true)
				x.run(1) // reopening adds a second
				states += len(x.longest)
				for k := range x.reached {
					reached[k] = true
				}
			}
		}
	}
	t.Logf("%d states", states)
	for _, e := range endings {
		if e.Ending != Impossible { // that comes only from outside
			require.Contains(t, reached, [2]string{string(e.Ending), string(e.Cause)})
		}
	}
}
