package machine

import (
	"fmt"
	"slices"
	"sync"
	"testing"
)

// Each single change of what decides must change a golden file: the matrix
// catches the table, the omissions and the costs; the reopenings and the table
// of endings catch the endings.

var (
	actions    = []Action{NextTask, AddTask, RestoreGood, KeepWork, ResetReconcile, NoteUnmeasured, AwaitE2E}
	ofCounters = []Condition{Left, Some, Last, None}
	ofState    = []Condition{MoreTasks, LastTask, OpenTasks, NoTasks, Delivers, Blocks,
		PlanGateOff, PublishGateOff, MergeGateOff, E2EOff, NoProposal, NoMerge}
)

// A cell is one event at one point: what the matrix is folded from.
type cell struct {
	event Event
	at    point
	words string
}

// cells are those of one step and outcome.
type cells map[Step]map[Outcome][]cell

var allCells = sync.OnceValue(func() cells {
	all := make(cells)
	ds := dims()
	for _, s := range steps {
		all[s] = make(map[Outcome][]cell)
		for _, o := range outcomes {
			for _, c := range causes {
				e := Event{Step: s, Outcome: o, Cause: c}
				var near []cell
				for _, p := range bases(ds) {
					words := standard.crossing(e, ds, p)
					all[s][o] = append(all[s][o], cell{e, p, words})
					for i := range ds {
						for v := range ds[i].values {
							if q := p.with(i, v); q != p && words != "impossible" {
								near = append(near, cell{e, q, standard.crossing(e, ds, q)})
							}
						}
					}
				}
				all[s][o] = append(all[s][o], near...)
			}
		}
	}
	return all
})

// sees reports whether a cell of the step and outcome is another one with d.
func (c cells) sees(d *definition, s Step, o Outcome) bool {
	ds := dims()
	return slices.ContainsFunc(c[s][o], func(x cell) bool { return d.crossing(x.event, ds, x.at) != x.words })
}

func (d *definition) clone() *definition {
	c := definition{slices.Clone(d.table), slices.Clone(d.leaveOut), slices.Clone(d.costs), slices.Clone(d.endings)}
	return &c
}

// others are the values of all that are not v.
func others[T comparable](all []T, v T) []T {
	return slices.DeleteFunc(slices.Clone(all), func(x T) bool { return x == v })
}

// swaps are the lists that differ from list in one element: one left out, one
// put in, one exchanged.
func swaps[T comparable](list, all []T) [][]T {
	var out [][]T
	for i := range list {
		out = append(out, slices.Delete(slices.Clone(list), i, i+1))
		for _, v := range all {
			if !slices.Contains(list, v) {
				changed := slices.Clone(list)
				changed[i] = v
				out = append(out, changed)
			}
		}
	}
	for _, v := range all {
		if !slices.Contains(list, v) {
			out = append(out, append(slices.Clone(list), v))
		}
	}
	return out
}

type mutant struct {
	name string
	rule Rule
}

// alike reports whether m means the same as r although it is written in
// another way: what a rule counts or keeps is lost in what it clears, and a
// step that stays is due again.
func alike(r, m Rule) bool {
	begins := has(r.Do, NextTask) || has(r.Do, AddTask)
	cleared := func(c Counter) bool {
		return begins && (c == Checks || c == Judgements || c == CorrectionRounds) || c == Reconciles && has(r.Do, ResetReconcile)
	}
	return slices.ContainsFunc(m.Count, func(c Counter) bool { return !has(r.Count, c) && cleared(c) }) && len(m.Count) > len(r.Count) ||
		begins && has(m.Do, KeepWork) && len(m.Do) > len(r.Do) ||
		r.To == Same && len(r.In) == 1 && m.To == r.In[0] && m.To != Implement
}

// mutants are the rules that differ from r in one thing.
func mutants(r Rule) []mutant {
	var list []mutant
	add := func(name string, change func(*Rule)) {
		m := r
		change(&m)
		if !alike(r, m) {
			list = append(list, mutant{name, m})
		}
	}
	for _, in := range swaps(r.In, steps) {
		if len(in) > 0 {
			add(fmt.Sprintf("In %v", in), func(m *Rule) { m.In = in })
		}
	}
	for _, o := range others(outcomes, r.On) {
		add("On "+string(o), func(m *Rule) { m.On = o })
	}
	for _, c := range swaps(r.Causes, causes[1:]) {
		add(fmt.Sprintf("Causes %v", c), func(m *Rule) { m.Causes = c })
	}
	for i, g := range r.If {
		add(fmt.Sprintf("no guard %v", g), func(m *Rule) { m.If = slices.Delete(slices.Clone(r.If), i, i+1) })
		guard := func(to Guard) {
			if to != g {
				add(fmt.Sprintf("guard %v", to), func(m *Rule) { m.If = slices.Clone(r.If); m.If[i] = to })
			}
		}
		for _, c := range ofState {
			guard(is(c))
		}
		for _, c := range ofCounters {
			for _, of := range counters {
				if g.Of == "" || c == g.Is || of == g.Of {
					guard(c.of(of))
				}
			}
		}
	}
	for _, c := range swaps(r.Count, counters) {
		add(fmt.Sprintf("Count %v", c), func(m *Rule) { m.Count = c })
	}
	for _, to := range append(others(steps, r.To), Same) {
		if to != r.To {
			add("To "+string(to), func(m *Rule) { m.To, m.End, m.EndCause = to, "", "" })
		}
	}
	for _, e := range others(everyEnding, r.End) {
		add("End "+string(e), func(m *Rule) { m.End = e })
	}
	if r.End != "" {
		for _, c := range append(others(causes, r.EndCause), ByEvent) {
			if c != r.EndCause && (c != ByEvent || len(r.Causes) > 0) {
				add("EndCause "+string(c), func(m *Rule) { m.EndCause = c })
			}
		}
	}
	for _, m := range append(others(milestones[1:], r.Mark), "") {
		if m != r.Mark {
			add("Mark "+string(m), func(x *Rule) { x.Mark = m })
		}
	}
	for _, do := range swaps(r.Do, actions) {
		add(fmt.Sprintf("Do %v", do), func(m *Rule) { m.Do = do })
	}
	return list
}

func (r Rule) name() string { return fmt.Sprintf("%v %s %v %v", r.In, r.On, r.Causes, r.If) }

func TestMutantsOfTheTable(t *testing.T) {
	all := allCells()
	count := 0
	survives := func(d *definition, in []Step, on []Outcome) bool {
		count++
		for _, s := range in {
			for _, o := range on {
				if all.sees(d, s, o) {
					return false
				}
			}
		}
		return true
	}
	for i, r := range standard.table {
		d := standard.clone()
		d.table = slices.Delete(d.table, i, i+1)
		if survives(d, r.In, []Outcome{r.On}) {
			t.Errorf("%s: nothing notices that the row is gone", r.name())
		}
		for _, m := range mutants(r) {
			d := standard.clone()
			d.table[i] = m.rule
			in, on := r.In, []Outcome{r.On}
			if len(m.rule.In) > len(r.In) {
				in = others(m.rule.In, "")
				slices.Reverse(in) // the new one first
			}
			if m.rule.On != r.On {
				on = append(on, m.rule.On)
			}
			if len(m.rule.In) <= len(r.In) && !slices.Equal(m.rule.In, r.In) {
				in = slices.DeleteFunc(slices.Clone(r.In), func(s Step) bool { return has(m.rule.In, s) })
			}
			if survives(d, in, on) {
				t.Errorf("%s: nothing notices %s", r.name(), m.name)
			}
		}
	}
	t.Logf("%d changes of the table", count)
}

func TestMutantsOfOmissionsAndCosts(t *testing.T) {
	all := allCells()
	count := 0
	check := func(name string, at Step, change func(*definition)) {
		count++
		d := standard.clone()
		change(d)
		i := slices.Index(steps, at) // where it shows first: at the step before
		for _, o := range []Outcome{Done, Lost, Limited, Corrections, Unmeasured, Failed, Discarded, Unanswered} {
			for _, s := range slices.Concat(steps[max(i-1, 0):i+1], steps) {
				if all.sees(d, s, o) {
					return
				}
			}
		}
		t.Errorf("nothing notices %s", name)
	}
	policy := ofState[6:]
	for i, o := range standard.leaveOut {
		check(fmt.Sprintf("that %v is gone", o), o.Step, func(d *definition) { d.leaveOut = slices.Delete(d.leaveOut, i, i+1) })
		for _, c := range others(policy, o.If) {
			if !has(standard.leaveOut, Omission{o.Step, c}) {
				check(fmt.Sprintf("%v if %s", o, c), o.Step, func(d *definition) { d.leaveOut[i].If = c })
			}
		}
		for _, s := range others(steps, o.Step) {
			if !has(standard.leaveOut, Omission{s, o.If}) && s != Prepare {
				check(fmt.Sprintf("%v as %s", o, s), s, func(d *definition) { d.leaveOut[i].Step = s })
			}
		}
	}
	for _, s := range steps {
		check(fmt.Sprintf("whether %s costs", s), s, func(d *definition) {
			if d.costs = others(d.costs, s); len(d.costs) == len(standard.costs) {
				d.costs = append(d.costs, s)
			}
		})
	}
	t.Logf("%d changes of omissions and costs", count)
}

func TestMutantsOfTheEndings(t *testing.T) {
	shown := func(d *definition, i int) string {
		return endingsRow(d.endings[i]) + d.reopeningsOf(d.endings[i])
	}
	count := 0
	for i, e := range standard.endings {
		want := shown(&standard, i)
		check := func(what string, change func(*End)) {
			count++
			d := standard.clone()
			change(&d.endings[i])
			if shown(d, i) == want {
				t.Errorf("%s (%s): nothing notices %s", e.Ending, e.Cause, what)
			}
		}
		for _, o := range others(everyEnding, e.Ending) {
			check("the ending "+string(o), func(x *End) { x.Ending = o })
		}
		for _, c := range others(causes, e.Cause) {
			check("the cause "+string(c), func(x *End) { x.Cause = c })
		}
		check("another code", func(x *End) { x.Code++ })
		check("another next action", func(x *End) { x.Next += "!" })
		for _, s := range append(others(append(slices.Clone(steps), Same), e.ReopenAt), "") {
			if s != e.ReopenAt {
				check("reopened at "+string(s), func(x *End) { x.ReopenAt = s })
			}
		}
		if e.ReopenAt != "" {
			check("another need of a task", func(x *End) { x.AddsTask = !x.AddsTask })
			for _, r := range swaps(e.Reset, counters) {
				check(fmt.Sprintf("the reset of %v", r), func(x *End) { x.Reset = r })
			}
		}
	}
	t.Logf("%d changes of the endings", count)
}
