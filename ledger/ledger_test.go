package ledger

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"interlock/machine"
	"interlock/slice"
)

const id = "repo.fix-typo"

var (
	spec   = Hash("spec")
	sha    = strings.Repeat("0a", 20)
	at     = Stamp(time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.FixedZone("", 3600)))
	policy = machine.Rules{Budgets: machine.DefaultBudgets(), CapMicroUSD: 5_000_000, DeliverTo: machine.ToBranch}
)

// A scribe writes a record as a workflow does.
type scribe struct {
	slice.Tail
	run int
}

func (w *scribe) add(l Line) {
	l.At, l.Run = at, w.run
	Append(&w.Tail, l)
}

func (w *scribe) start(tasks int) {
	w.run++
	w.add(Line{Kind: Start, Slice: id, Tasks: tasks, Spec: spec})
}

func (w *scribe) intent(t machine.Turn) string {
	op := Op(id, w.run, w.N+1)
	w.add(Line{Kind: Intent, Op: op, Turn: t})
	return op
}

func (w *scribe) done(op string, t machine.Turn, o machine.Outcome, rules machine.Rules) {
	l := Line{Kind: Done, Op: op, Turn: t, Outcome: o}
	if o == machine.Done {
		switch t.Step {
		case machine.Prepare:
			l.Rules, l.Base = &rules, sha
		case machine.Commit, machine.Reconcile:
			l.Commit = sha
		case machine.Implement:
			l.Tree = sha
		}
	}
	w.add(l)
}

// step does what is due, and returns the state after it.
func (w *scribe) step(t require.TestingT, s machine.State, o machine.Outcome) machine.State {
	due, ok := machine.Due(s)
	require.True(t, ok)
	w.done(w.intent(due), due, o, policy)
	if due.Step == machine.Prepare {
		s.Rules = policy
	}
	s, err := machine.Next(s, machine.Event{Step: due.Step, Outcome: o})
	require.NoError(t, err)
	return s
}

// delivered is the record of a slice of two tasks without incident.
func delivered(t require.TestingT) []string {
	w := &scribe{}
	w.start(2)
	s := machine.New(2, machine.Rules{})
	for !s.Ended() {
		s = w.step(t, s, machine.Done)
	}
	w.add(Line{Kind: Undo, Undo: slice.UndoViews, Seen: "gone"})
	w.add(Line{Kind: End, Ending: s.Ending})
	return w.Pending
}

func line(t require.TestingT, err error) int {
	var broken *BrokenError
	require.ErrorAs(t, err, &broken)
	return broken.Line
}

func TestFoldOfADeliveredSlice(t *testing.T) {
	lines := delivered(t)
	f, err := Fold(lines)
	require.NoError(t, err)
	require.Equal(t, machine.Delivered, f.State.Ending)
	require.True(t, f.Ended)
	require.Equal(t, []string{sha, sha}, f.Commits)
	require.Equal(t, sha, f.Whole)
	require.Equal(t, sha, f.Good)
	require.Equal(t, policy, f.State.Rules)
	require.Equal(t, len(lines), f.N)
	require.Equal(t, Hash(lines[f.N-1]), f.Head)
	require.Equal(t, id, f.Slice)
	require.Equal(t, 1, f.Runs)
	require.Equal(t, "2026-03-01T11:00:00.123Z", f.Started)

	f, err = Fold(nil)
	require.NoError(t, err)
	require.Zero(t, f)
}

func TestBytesOfALineAreFixed(t *testing.T) {
	w := &scribe{}
	w.start(2)
	op := w.intent(machine.Turn{Step: machine.Prepare})
	w.add(Line{Kind: Done, Op: op, Turn: machine.Turn{Step: machine.Prepare}, Outcome: machine.Failed, Cause: machine.CauseInvalid, CostMicroUSD: 7,
		Evidence: []slice.Evidence{{Name: "log", Hash: spec, Size: 3}}, Why: "a < b & \"c\" é\n\xff"})
	require.Equal(t, []string{
		`{"n":1,"at":"2026-03-01T11:00:00.123Z","run":1,"kind":"start","slice":"repo.fix-typo","tasks":2,"spec":"` + spec + `"}`,
		`{"n":2,"prev":"` + Hash(w.Pending[0]) + `","at":"2026-03-01T11:00:00.123Z","run":1,"kind":"intent","op":"repo.fix-typo/1/2","turn":{"step":"prepare"}}`,
		`{"n":3,"prev":"` + Hash(w.Pending[1]) + `","at":"2026-03-01T11:00:00.123Z","run":1,"kind":"done","op":"repo.fix-typo/1/2","turn":{"step":"prepare"},"outcome":"failed","cost_micro_usd":7,"evidence":[{"name":"log","hash":"` + spec + `","size":3}],"cause":"invalid","why":"a < b & \"c\" é\n�"}`,
	}, w.Pending)
}

func TestFoldRefusesWhatDoesNotFollow(t *testing.T) {
	prepare := machine.Turn{Step: machine.Prepare}
	cases := map[string]struct {
		write func(w *scribe)
		line  int
		why   string
	}{
		"no start":            {func(w *scribe) { w.run = 1; w.intent(prepare) }, 1, "does not begin with a start"},
		"run 2 first":         {func(w *scribe) { w.run = 1; w.start(1) }, 1, "begins run 2, but the record has 0"},
		"another slice":       {func(w *scribe) { w.start(1); w.run = 2; w.add(Line{Kind: Start, Slice: "b", Tasks: 1, Spec: spec}) }, 2, `of slice "b"`},
		"line of another run": {func(w *scribe) { w.start(1); w.run = 3; w.intent(prepare) }, 2, "of run 3, but the run is 1"},
		"not due":             {func(w *scribe) { w.start(1); w.intent(machine.Turn{Step: machine.Check, Task: 1}) }, 2, "due is prepare"},
		"operation":           {func(w *scribe) { w.start(1); w.add(Line{Kind: Intent, Op: "x", Turn: prepare}) }, 2, `must be "repo.fix-typo/1/2"`},
		"two intents":         {func(w *scribe) { w.start(1); w.intent(prepare); w.intent(prepare) }, 3, "prepare of line 2 is not done"},
		"done without intent": {func(w *scribe) { w.start(1); w.done("x", prepare, machine.Done, policy) }, 2, "was not begun"},
		"done of another":     {func(w *scribe) { w.start(1); w.intent(prepare); w.done("x", prepare, machine.Done, policy) }, 3, "what was begun"},
		"crossing":            {func(w *scribe) { w.start(1); w.done(w.intent(prepare), prepare, machine.Corrections, policy) }, 3, "impossible"},
		"no such ending yet":  {func(w *scribe) { w.start(1); w.add(Line{Kind: End, Ending: machine.Delivered}) }, 2, "due is prepare"},
		"intent after undo":   {func(w *scribe) { w.start(1); w.add(Line{Kind: Undo, Undo: slice.UndoViews}); w.intent(prepare) }, 3, "after a compensation"},
		"done after undo": {func(w *scribe) {
			w.start(1)
			op := w.intent(prepare)
			w.add(Line{Kind: Undo, Undo: slice.UndoViews})
			w.done(op, prepare, machine.Done, policy)
		}, 4, "after a compensation"},
		"after the end": {func(w *scribe) { w.start(1); w.add(Line{Kind: End, Ending: machine.Cancelled}); w.intent(prepare) }, 3, "only start or reopen"},
		"undo after the end": {func(w *scribe) {
			w.start(1)
			w.add(Line{Kind: End, Ending: machine.Cancelled})
			w.add(Line{Kind: Undo, Undo: slice.UndoViews})
		}, 3, "only start or reopen"},
		"reopen of an open run": {func(w *scribe) {
			w.start(1)
			w.run++
			w.add(Line{Kind: Reopen, Spec: spec, Why: "x", Reopening: &machine.Reopening{Tasks: 1, Rules: policy}})
		}, 2, "nothing has ended"},
		"another ending": {func(w *scribe) {
			w.start(1)
			op := w.intent(prepare)
			w.add(Line{Kind: Done, Op: op, Turn: prepare, Outcome: machine.Failed, Cause: machine.CauseInvalid})
			w.add(Line{Kind: End, Ending: machine.Precondition})
		}, 4, "but the run ended as invalid"},
		"an ended run goes on": {func(w *scribe) {
			w.start(1)
			op := w.intent(prepare)
			w.add(Line{Kind: Done, Op: op, Turn: prepare, Outcome: machine.Failed, Cause: machine.CauseInvalid})
			w.intent(prepare)
		}, 4, "has ended as invalid"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := &scribe{}
			c.write(w)
			_, err := Parse(w.Pending)
			require.NoError(t, err, "the lines by themselves are sound")
			_, err = Fold(w.Pending)
			require.Equal(t, c.line, line(t, err), err)
			require.ErrorContains(t, err, c.why)
		})
	}
}

func TestADeliveredSliceHasNoFurtherRun(t *testing.T) {
	lines := delivered(t)
	w := &scribe{Tail: slice.Tail{N: len(lines), Head: Hash(lines[len(lines)-1])}, run: 1}
	w.start(2)
	_, err := Fold(append(lines, w.Pending...))
	require.Equal(t, len(lines)+1, line(t, err))
	require.ErrorContains(t, err, "was delivered")
}

func TestParseRefusesLinesThatCannotBe(t *testing.T) {
	prepare := machine.Turn{Step: machine.Prepare}
	fine := Line{Kind: Done, Op: "x", Turn: prepare, Outcome: machine.Done, Rules: &policy, Base: sha}
	with := func(f func(*Line)) Line { l := fine; f(&l); return l }
	cases := map[string]Line{
		"kind":             {Kind: "note"},
		"zero kind":        {},
		"start: slice":     {Kind: Start, Tasks: 1, Spec: spec},
		"start: tasks":     {Kind: Start, Slice: id, Spec: spec},
		"start: spec":      {Kind: Start, Slice: id, Tasks: 1, Spec: "abc"},
		"start: stray":     {Kind: Start, Slice: id, Tasks: 1, Spec: spec, Why: "x"},
		"reopen: reason":   {Kind: Reopen, Spec: spec, Reopening: &machine.Reopening{Rules: policy}},
		"reopen: what":     {Kind: Reopen, Spec: spec, Why: "x"},
		"reopen: rules":    {Kind: Reopen, Spec: spec, Why: "x", Reopening: &machine.Reopening{}},
		"intent: step":     {Kind: Intent, Op: "x", Turn: machine.Turn{Step: "think"}},
		"intent: op":       {Kind: Intent, Turn: prepare},
		"intent: outcome":  {Kind: Intent, Op: "x", Turn: prepare, Outcome: machine.Done},
		"done: outcome":    with(func(l *Line) { l.Outcome = "fine"; l.Rules, l.Base = nil, "" }),
		"done: cause":      with(func(l *Line) { l.Cause = "bad luck" }),
		"done: cost":       with(func(l *Line) { l.CostMicroUSD = -1 }),
		"done: high cost":  with(func(l *Line) { l.CostMicroUSD = MaxCost + 1 }),
		"done: tree":       with(func(l *Line) { l.Tree = "--help" }),
		"done: commit":     with(func(l *Line) { l.Commit = "HEAD" }),
		"done: base":       with(func(l *Line) { l.Base = "main" }),
		"done: no rules":   with(func(l *Line) { l.Rules = nil }),
		"done: rules":      with(func(l *Line) { l.Rules = &machine.Rules{DeliverTo: "moon"} }),
		"done: budget":     with(func(l *Line) { l.Rules = &machine.Rules{DeliverTo: machine.ToBranch, Budgets: machine.Counts{CI: -1}} }),
		"done: evidence":   with(func(l *Line) { l.Evidence = []slice.Evidence{{Name: "log", Hash: "x"}} }),
		"done: size":       with(func(l *Line) { l.Evidence = []slice.Evidence{{Name: "log", Hash: spec, Size: -1}} }),
		"done: rules late": {Kind: Done, Op: "x", Turn: machine.Turn{Step: machine.Verify}, Outcome: machine.Done, Rules: &policy},
		"done: no commit":  {Kind: Done, Op: "x", Turn: machine.Turn{Step: machine.Commit, Task: 1, Attempt: 1}, Outcome: machine.Done},
		"undo: what":       {Kind: Undo, Undo: "everything"},
		"end: ending":      {Kind: End, Ending: "tired"},
		"end: cause":       {Kind: End, Ending: machine.Cancelled, Cause: machine.CauseHost},
	}
	for name, l := range cases {
		t.Run(name, func(t *testing.T) {
			w := &scribe{run: 1}
			w.add(l)
			_, err := Parse(w.Pending)
			require.Equal(t, 1, line(t, err))
		})
	}
	w := &scribe{run: 1}
	w.add(fine)
	_, err := Parse(w.Pending)
	require.NoError(t, err)
	text := w.Pending[0]
	for name, bad := range map[string]string{
		"empty":         "",
		"unknown field": strings.Replace(text, `{`, `{"x":1,`, 1),
		"upper case":    strings.Replace(text, `"kind"`, `"Kind"`, 1),
		"twice":         strings.Replace(text, `"run":1`, `"run":1,"run":1`, 1),
		"space":         text + " ",
		"escape":        strings.Replace(text, `"done"`, `"don\u0065"`, 1),
		"time":          strings.Replace(text, "00.123Z", "00.123456Z", 1),
		"run":           strings.Replace(text, `"run":1`, `"run":0`, 1),
		"why":           strings.Replace(text, `}`, `},"why":"`+strings.Repeat("x", MaxWhy+1)+`"`, 1),
	} {
		t.Run(name, func(t *testing.T) {
			require.NotEqual(t, text, bad)
			_, err := Parse([]string{bad})
			require.Equal(t, 1, line(t, err))
		})
	}
}

func TestWrittenDropsWhatIsInTheRef(t *testing.T) {
	w := &scribe{}
	w.start(1)
	w.intent(machine.Turn{Step: machine.Prepare})
	w.add(Line{Kind: End, Ending: machine.Cancelled})
	all := w.Pending
	for _, c := range []struct{ written, left int }{{0, 3}, {1, 2}, {1, 2}, {2, 1}, {0, 1}, {9, 0}} {
		Written(&w.Tail, c.written)
		require.Len(t, w.Pending, c.left)
		require.Equal(t, 3, w.N)
	}
	require.Len(t, all, 3)
	w.add(Line{Kind: Start, Slice: id, Tasks: 1, Spec: spec})
	n, err := Number(w.Pending[0])
	require.NoError(t, err)
	require.Equal(t, 4, n)
}

func TestNumber(t *testing.T) {
	for _, bad := range []string{"", "{}", `{"n":0,"x":1}`, `{"n":-1,"x":1}`, `{"n":01,"x":1}`, `{"n":1}`, `{"n":1e3,"x":1}`, `{"n":99999999999999999999,"x":1}`, ` {"n":1,"x":1}`} {
		_, err := Number(bad)
		require.Error(t, err, bad)
	}
}

func TestWhyIsCutBetweenRunes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		why := cut(strings.Repeat("x", rapid.IntRange(990, 1001).Draw(t, "n")) + rapid.String().Draw(t, "s") + strings.Repeat("é", 20))
		require.LessOrEqual(t, len(why), MaxWhy)
		require.True(t, utf8.ValidString(why))
	})
}

// events are the ways in which s can go on.
func events(s machine.State) (list []machine.Event) {
	outcomes := []machine.Outcome{machine.Done, machine.Failed, machine.Unmeasured, machine.Corrections, machine.Discarded, machine.Unanswered, machine.Limited, machine.Lost}
	causes := []machine.Cause{"", machine.CauseInvalid, machine.CausePrecondition, machine.CauseTimeout, machine.CauseFatal, machine.CauseLimit,
		machine.CauseRefused, machine.CauseClosed, machine.CauseConflict, machine.CauseMissing, machine.CauseBaseMoved}
	for _, o := range outcomes {
		for _, c := range causes {
			e := machine.Event{Step: s.Step, Outcome: o, Cause: c}
			if _, err := machine.Next(s, e); err == nil {
				list = append(list, e)
			}
		}
	}
	return list
}

// walk writes the record of a random slice of up to three runs and returns
// what it must fold to.
func walk(t *rapid.T) (lines []string, s machine.State, runs int, intent bool, ended bool) {
	w := &scribe{}
	for {
		tasks := rapid.IntRange(1, 3).Draw(t, "tasks")
		rules := machine.Rules{
			Budgets: machine.DefaultBudgets(), CapMicroUSD: rapid.Int64Range(0, 3000).Draw(t, "cap"), PlanGate: rapid.Bool().Draw(t, "plan"),
			PublishGate: rapid.Bool().Draw(t, "publish"), MergeGate: rapid.Bool().Draw(t, "merge"), E2E: rapid.Bool().Draw(t, "e2e"),
			DeliverTo: rapid.SampledFrom([]machine.Target{machine.ToBranch, machine.ToPublish, machine.ToPropose, machine.ToMerge}).Draw(t, "to"),
		}
		_, can := machine.Find(s.Ending, s.Cause)
		by := machine.Reopening{Tasks: s.Tasks + 1, Changed: rapid.Bool().Draw(t, "changed"), Rules: rules}
		by.Rules.CapMicroUSD += s.SpentMicroUSD
		next, err := machine.Reopen(s, by)
		if runs > 0 && can && err == nil && rapid.Bool().Draw(t, "reopen") {
			s = next
			w.run++
			w.add(Line{Kind: Reopen, Spec: spec, Why: "again", Reopening: &by})
		} else {
			spent := s.SpentMicroUSD
			s = machine.New(tasks, machine.Rules{})
			s.SpentMicroUSD = spent
			w.start(tasks)
		}
		runs++
		intent, ended = false, false
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			due, ok := machine.Due(s)
			if !ok {
				break
			}
			op := w.intent(due)
			intent = true
			if rapid.IntRange(0, 30).Draw(t, "killed") == 0 {
				break
			}
			withRules := s
			if due.Step == machine.Prepare {
				withRules.Rules = rules
			}
			e := rapid.SampledFrom(events(withRules)).Draw(t, "event")
			if rapid.IntRange(0, 9).Draw(t, "luck") > 2 {
				e = machine.Event{Step: s.Step, Outcome: machine.Done}
			}
			e.CostMicroUSD = rapid.Int64Range(0, 100).Draw(t, "cost")
			l := Line{Kind: Done, Op: op, Turn: due, Outcome: e.Outcome, Cause: e.Cause, CostMicroUSD: e.CostMicroUSD, Why: rapid.String().Draw(t, "why")}
			if due.Step == machine.Prepare && e.Outcome == machine.Done {
				l.Rules, l.Base = &rules, sha
				s = withRules
			}
			if due.Step == machine.Commit {
				l.Commit = sha
			}
			w.add(l)
			intent = false
			var err error
			s, err = machine.Next(s, e)
			require.NoError(t, err)
		}
		if rapid.IntRange(0, 9).Draw(t, "end") > 0 {
			if !s.Ended() {
				var err error
				s, err = machine.Stop(s, rapid.SampledFrom([]machine.Ending{machine.Cancelled, machine.Impossible}).Draw(t, "stop"))
				require.NoError(t, err)
			}
			if rapid.Bool().Draw(t, "undo") {
				w.add(Line{Kind: Undo, Undo: slice.UndoBranch, Seen: "gone"})
			}
			w.add(Line{Kind: End, Ending: s.Ending, Cause: s.Cause})
			ended = true
		}
		if s.Ending == machine.Delivered || runs == 3 || rapid.Bool().Draw(t, "enough") {
			return w.Pending, s, runs, intent, ended
		}
	}
}

func TestFoldOfARandomWalkIsItsState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines, s, runs, intent, ended := walk(t)
		f, err := Fold(lines)
		require.NoError(t, err)
		require.Equal(t, s, f.State)
		require.Equal(t, runs, f.Runs)
		require.Equal(t, ended, f.Ended)
		require.Equal(t, intent, f.Intent != nil)
		require.NoError(t, Verify(lines, len(lines), f.Head))
	})
}

func TestEveryPrefixOfARecordFolds(t *testing.T) {
	lines := delivered(t)
	for n := range lines {
		f, err := Fold(lines[:n])
		require.NoError(t, err)
		require.Equal(t, n, f.N)
		require.NoError(t, Verify(lines, n, f.Head))
	}
}

func TestTamperingIsFoundAtItsLine(t *testing.T) {
	whole := delivered(t)
	head := Hash(whole[len(whole)-1])
	found := func(t require.TestingT, lines []string, want int) {
		err := Verify(lines, len(whole), head)
		require.Equal(t, want, line(t, err), err)
	}
	t.Run("byte", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			lines := append([]string(nil), whole...)
			k := rapid.IntRange(0, len(lines)-1).Draw(t, "line")
			b := []byte(lines[k])
			i := rapid.IntRange(0, len(b)-1).Draw(t, "at")
			b[i] ^= rapid.ByteRange(1, 255).Draw(t, "xor")
			lines[k] = string(b)
			found(t, lines, k+1)
		})
	})
	t.Run("digit", func(t *testing.T) { // keeps the line sound by itself
		for k := range whole {
			lines := append([]string(nil), whole...)
			lines[k] = strings.Replace(lines[k], "00.123Z", "00.124Z", 1)
			found(t, lines, k+1)
			if k+2 < len(whole) {
				_, err := Fold(lines)
				require.Equal(t, k+1, line(t, err), "without a noted hash")
			}
		}
	})
	for k := range whole {
		found(t, append(append([]string(nil), whole[:k]...), whole[k+1:]...), k+1)
		found(t, append(append([]string(nil), whole[:k+1]...), whole[k:]...), k+2)
		for j := k + 1; j < len(whole); j++ {
			lines := append([]string(nil), whole...)
			lines[k], lines[j] = lines[j], lines[k]
			found(t, lines, k+1)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(strings.Join(delivered(f), "\n"))
	f.Add(`{"n":1}`)
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		lines := strings.Split(text, "\n")
		parsed, err := Parse(lines)
		if err != nil {
			var broken *BrokenError
			require.ErrorAs(t, err, &broken)
			require.True(t, broken.Line >= 1 && broken.Line <= len(lines), fmt.Sprint(broken.Line))
			return
		}
		var tail slice.Tail
		for _, l := range parsed {
			Append(&tail, l)
		}
		require.Equal(t, lines, tail.Pending)
		_, err = Fold(lines)
		if err != nil {
			require.LessOrEqual(t, line(t, err), len(lines))
		}
		require.True(t, json.Valid([]byte(lines[0])))
	})
}

// blocked is the record of a slice of one task that could not be reconciled.
func blocked(t require.TestingT) *scribe {
	w := &scribe{}
	w.start(1)
	s := machine.New(1, machine.Rules{})
	for s.Step != machine.Reconcile {
		s = w.step(t, s, machine.Done)
	}
	s = w.step(t, s, machine.Unmeasured)
	w.add(Line{Kind: End, Ending: s.Ending, Cause: s.Cause})
	return w
}

func (w *scribe) reopen(commit string) {
	w.run++
	w.add(Line{Kind: Reopen, Spec: Hash("changed"), Why: "merged", Commit: commit, Reopening: &machine.Reopening{Tasks: 1, Rules: policy}})
}

func TestAMergeByHandIsTheLastGoodCommit(t *testing.T) {
	w, merge := blocked(t), strings.Repeat("1b", 20)
	before, err := Fold(w.Pending)
	require.NoError(t, err)
	require.Equal(t, sha, before.Good)
	require.Equal(t, []Worked{{Attempts: 1}}, before.Tasks)

	w.reopen(merge)
	f, err := Fold(w.Pending)
	require.NoError(t, err)
	require.Equal(t, machine.Verify, f.State.Step)
	require.Equal(t, [2]string{merge, merge}, [2]string{f.Good, f.Whole})
	require.Equal(t, []string{sha}, f.Commits)
	require.Equal(t, before, *f.Ending)

	w.intent(machine.Turn{Step: machine.Verify})
	f, err = Fold(w.Pending)
	require.NoError(t, err)
	require.Nil(t, f.Ending)
}

// A reopening that nothing followed is replaced by the next.
func TestReopenInPlaceOfOneThatWasCutOff(t *testing.T) {
	w, merge := blocked(t), strings.Repeat("1b", 20)
	w.reopen(merge)
	w.reopen("")
	f, err := Fold(w.Pending)
	require.NoError(t, err)
	require.Equal(t, 3, f.Runs)
	require.Equal(t, sha, f.Good)
	require.Equal(t, machine.BlockedReconcile, f.Ending.State.Ending)

	w.intent(machine.Turn{Step: machine.Verify})
	w.reopen("")
	_, err = Fold(w.Pending)
	require.Equal(t, len(w.Pending), line(t, err))
	require.ErrorContains(t, err, "nothing has ended")
}
