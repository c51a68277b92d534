package machine

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files anew; commit them only if you understand what changed")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	if !bytes.Equal(want, []byte(got)) {
		require.Equal(t, string(want), got, "%s is not what the machine does; -update writes it anew", path)
	}
}

// The matrix is what the machine does, found out by asking it: each step ended
// in each way, for each cause, at each position of every counter, task and
// policy. It is a black box on purpose: nothing of it is read from the table.

var (
	counters = []Counter{Checks, Judgements, CorrectionRounds, Reconciles, Moves, CIRounds, Discards, HostLosses}
	causes   = []Cause{"", CauseInvalid, CausePrecondition, CauseBaseMoved, CauseTask, CauseSlice, CauseDiscards, CauseRed,
		CauseUnmeasured, CauseBaseRed, CauseBaseUnmeasured, CauseConflict, CauseBaseMoves, CauseTimeout, CauseLimit,
		CauseHost, CauseFatal, CauseRefused, CauseClosed, CauseMissing, CauseUnknown}
	everyEnding = []Ending{Delivered, Invalid, Precondition, BlockedChecks, BlockedJudge, BlockedE2E, BlockedVerify,
		BlockedReconcile, BlockedCommit, BlockedCall, BlockedCI, BlockedDelivery, AbortedBudget, Rejected, Cancelled, Impossible}
)

// usedAlready is what every counter of the matrix has used, so that going up
// and going back to 0 both show.
const usedAlready = 5

// A dim is something on which a crossing may depend, a point is one place in
// all dims, as indices of their values.
type dim struct {
	name   string
	values []string
	set    func(*State, int)
}

type point [15]int8

func dims() []dim {
	var ds []dim
	for _, c := range counters {
		ds = append(ds, dim{string(c), []string{"2 left", "1 left", "0 left", "over"}, func(s *State, i int) {
			*s.Rules.Budgets.at(c) = usedAlready + 2 - i
		}})
	}
	tasks := [][2]int{{1, 1}, {1, 2}, {2, 2}, {2, 3}, {3, 2}} // task in work, of
	names := make([]string, len(tasks))
	for i, p := range tasks {
		names[i] = fmt.Sprintf("%d of %d", p[0], p[1])
		if p[0] > p[1] {
			names[i] = "all committed"
		}
	}
	ds = append(ds, dim{"task", names, func(s *State, i int) { s.Task, s.Tasks = tasks[i][0]-1, tasks[i][1] }})
	for _, b := range []struct {
		name string
		of   func(*Rules) *bool
	}{
		{"plan gate", func(r *Rules) *bool { return &r.PlanGate }},
		{"publish gate", func(r *Rules) *bool { return &r.PublishGate }},
		{"merge gate", func(r *Rules) *bool { return &r.MergeGate }},
		{"e2e", func(r *Rules) *bool { return &r.E2E }},
		{"e2e_unmeasured", func(r *Rules) *bool { return &r.DeliverUnmeasured }},
	} {
		values := []string{"off", "on"}
		if b.name == "e2e_unmeasured" {
			values = []string{"block", "deliver"}
		}
		ds = append(ds, dim{b.name, values, func(s *State, i int) { *b.of(&s.Rules) = i == 1 }})
	}
	return append(ds, dim{"deliver.to", []string{"branch", "publish", "propose", "merge"}, func(s *State, i int) {
		s.Rules.DeliverTo = targets[i]
	}})
}

const taskDim = 8 // after the counters, before the policy

// bases are the points from which each dim is varied alone, to find those
// that matter.
func bases(ds []dim) []point {
	var list []point
	for _, left := range [][8]int8{{}, {1, 1, 1, 1, 1, 1, 1, 1}, {2, 2, 2, 2, 2, 2, 2, 2}, {6: 2}} {
		for _, task := range []int{0, 1, 4} {
			for _, policy := range [][]int8{{0, 0, 0, 0, 0, 0}, {1, 1, 1, 1, 1, 3}, {0, 0, 0, 1, 0, 3}} {
				var p point
				copy(p[:], left[:])
				p[taskDim] = int8(task)
				copy(p[taskDim+1:], policy)
				list = append(list, p)
			}
		}
	}
	return list
}

func (p point) with(dim, value int) point {
	p[dim] = int8(value)
	return p
}

func stateAt(step Step, ds []dim, p point) State {
	s := State{Step: step, Attempt: 3, Milestone: MilestoneStarted, Rules: Rules{CapMicroUSD: 100}}
	for _, c := range counters {
		*s.Used.at(c) = usedAlready
	}
	for i, d := range ds {
		d.set(&s, int(p[i]))
	}
	return s
}

// crossing says in words what d does with the event at the point.
func (d *definition) crossing(e Event, ds []dim, p point) string {
	s := stateAt(e.Step, ds, p)
	holding := 0
	for i := range d.table {
		if r := &d.table[i]; r.On == e.Outcome && has(r.In, e.Step) && r.takes(e.Cause) && r.holds(s) {
			holding++
		}
	}
	if holding > 1 {
		return fmt.Sprintf("AMBIGUOUS: %d rules hold", holding)
	}
	n, err := d.next(s, e)
	if err != nil {
		if holding > 0 {
			return "GAP: " + err.Error()
		}
		return "impossible"
	}
	words := d.difference(s, n)

	flagged := s
	flagged.Restore, flagged.E2EUnmeasured, flagged.Milestone = true, true, MilestoneDelivered
	after, err := d.next(flagged, e)
	if err != nil || after.Milestone != MilestoneDelivered {
		return fmt.Sprintf("MILESTONE TAKEN BACK: %v %s", err, after.Milestone)
	}
	if !after.Restore {
		words += ", restore off"
	}
	if !after.E2EUnmeasured {
		words += ", e2e note off"
	}

	s.SpentMicroUSD, e.CostMicroUSD = 90, 10
	if exact, err := d.next(s, e); err != nil || d.difference(s, exact) != d.difference(s, n) {
		return "MONEY: exactly the cap does not pass"
	}
	e.CostMicroUSD = 11
	over, err := d.next(s, e)
	switch want := n; {
	case err != nil:
		words += "; MONEY: " + err.Error()
	case over.Ending == AbortedBudget:
		want.Ending, want.SpentMicroUSD = AbortedBudget, 101
		if over != withRules(want, s) {
			return "MONEY: " + d.difference(s, over)
		}
		words += " [$]"
	case d.difference(s, over) != d.difference(s, n):
		return "MONEY: " + d.difference(s, over)
	}
	return words
}

func withRules(n, s State) State { n.Rules = s.Rules; return n }

// difference says in words how n differs from s.
func (d *definition) difference(s, n State) string {
	words := "→ " + string(n.Step)
	if n.Step == s.Step {
		words = "stays"
	}
	if n.Ended() {
		end, ok := find(d.endings, n.Ending, n.Cause)
		words = fmt.Sprintf("⇒ %s", n.Ending)
		if n.Cause != "" {
			words += fmt.Sprintf(" (%s)", n.Cause)
		}
		words += fmt.Sprintf(", exit %d", end.Code)
		if !ok {
			words += " NOT AN ENDING"
		}
		if n.Step != s.Step {
			words += ", due " + string(n.Step)
		}
	}
	number := func(name string, a, b int) {
		switch {
		case b == a:
		case b == 0:
			words += fmt.Sprintf(", %s=0", name)
		default:
			words += fmt.Sprintf(", %s%+d", name, b-a)
		}
	}
	extra := n.Task == n.Tasks-1 && n.Tasks == s.Tasks+1
	if extra {
		words += ", extra task"
	} else {
		number("task", s.Task, n.Task)
		number("tasks", s.Tasks, n.Tasks)
	}
	if n.Attempt == 1 {
		words += ", attempt=1"
	} else {
		number("attempt", s.Attempt, n.Attempt)
	}
	for _, c := range counters {
		number(string(c), s.Used.Of(c), n.Used.Of(c))
	}
	if n.Restore && !s.Restore {
		words += ", restore"
	}
	if n.E2EUnmeasured && !s.E2EUnmeasured {
		words += ", e2e note"
	}
	if n.Milestone != s.Milestone {
		words += fmt.Sprintf(", milestone %s", n.Milestone)
	}
	return words
}

// crossings are the lines of the matrix for one event, all positions folded
// together that agree.
func (d *definition) crossings(t require.TestingT, e Event) string {
	ds := dims()
	base := bases(ds)
	first := base[0]
	matters := make([]bool, len(ds))
	at := make(map[point]string)
	ask := func(p point) string {
		w, ok := at[p]
		if !ok {
			w = d.crossing(e, ds, p)
			at[p] = w
		}
		return w
	}
	possible := false
	for _, p := range base {
		possible = possible || ask(p) != "impossible"
	}
	if !possible {
		return "impossible"
	}
	for _, p := range base {
		here := ask(p)
		for i := range ds {
			for v := range ds[i].values {
				matters[i] = matters[i] || ask(p.with(i, v)) != here
			}
		}
	}
	// One cell per point of the dims that matter: sets of values, one word.
	type cell struct {
		sets  [][]int
		words string
	}
	var cells []cell
	points := []point{first}
	for i := range ds {
		if !matters[i] {
			continue
		}
		var more []point
		for _, p := range points {
			for v := range ds[i].values {
				more = append(more, p.with(i, v))
			}
		}
		points = more
	}
	folded := make(map[point]string)
	for _, p := range points {
		c := cell{words: ask(p), sets: make([][]int, len(ds))}
		for i := range ds {
			if matters[i] {
				c.sets[i] = []int{int(p[i])}
			}
		}
		folded[p] = c.words
		cells = append(cells, c)
	}
	for q, words := range at { // folding loses nothing
		p := q
		for i := range ds {
			if !matters[i] {
				p[i] = first[i]
			}
		}
		if folded[p] != words {
			require.Equal(t, words, folded[p], "%v at %v", e, q)
		}
	}
	for merged := true; merged; {
		merged = false
		for i := 0; i < len(cells); i++ {
			for j := i + 1; j < len(cells); j++ {
				if cells[i].words != cells[j].words {
					continue
				}
				differs, where := 0, 0
				for k := range ds {
					if !slices.Equal(cells[i].sets[k], cells[j].sets[k]) {
						differs, where = differs+1, k
					}
				}
				if differs == 1 {
					set := slices.Concat(cells[i].sets[where], cells[j].sets[where])
					slices.Sort(set)
					cells[i].sets[where] = set
					cells = slices.Delete(cells, j, j+1)
					merged, j = true, i
				}
			}
		}
	}
	var lines []string
	for _, c := range cells {
		var when []string
		for k, set := range c.sets {
			if set == nil || len(set) == len(ds[k].values) {
				continue
			}
			var names []string
			for _, v := range set {
				names = append(names, ds[k].values[v])
			}
			when = append(when, ds[k].name+" "+strings.Join(names, "|"))
		}
		line := c.words
		if len(when) > 0 {
			line = strings.Join(when, ", ") + ": " + line
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func (d *definition) matrix(t require.TestingT) string {
	var b strings.Builder
	b.WriteString(`What the machine does, found by asking it (go test ./machine -update).

step
  outcome (cause)
    position: → next step | stays | ⇒ ending, and what else changes
Positions: "2 left" is a budget of which two are left, "over" one that was
lowered below what is used; a position that makes no difference is not shown.
[$]: with more spent than the cap, the step is not begun: aborted_budget, exit 15.
Everything else is impossible: it was asked as well.
`)
	for _, step := range steps {
		fmt.Fprintf(&b, "\n%s\n", step)
		var never []string
		for _, o := range append(slices.Clone(outcomes), "", "nonsense") {
			var order []string
			groups := make(map[string][]string)
			for _, c := range append(slices.Clone(causes), "nonsense") {
				lines := d.crossings(t, Event{Step: step, Outcome: o, Cause: c})
				if groups[lines] == nil && lines != "impossible" {
					order = append(order, lines)
				}
				groups[lines] = append(groups[lines], string(c))
			}
			if len(order) == 0 {
				never = append(never, fmt.Sprintf("%q", o))
				continue
			}
			for _, lines := range order {
				name := string(o)
				if c := strings.Join(groups[lines], " | "); c != "" {
					name += " (" + c + ")"
				}
				fmt.Fprintf(&b, "  %s\n    %s\n", name, strings.ReplaceAll(lines, "\n", "\n    "))
			}
		}
		fmt.Fprintf(&b, "  impossible with every cause: %s\n", strings.Join(never, ", "))
	}
	return b.String()
}

func TestMatrix(t *testing.T) {
	got := standard.matrix(t)
	for _, bad := range []string{"AMBIGUOUS", "GAP", "MONEY", "TAKEN BACK", "NOT AN ENDING"} {
		require.NotContains(t, got, bad)
	}
	golden(t, "matrix.golden", got)
}
