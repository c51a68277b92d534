package ledger

import (
	"errors"
	"fmt"
	"slices"

	"interlock/machine"
)

// Folded is what a record says of its slice. Everything but N, Head, Runs,
// Slice and what was spent is that of the last run; a reopened run keeps what
// the run before it had.
type Folded struct {
	N    int    // number of lines
	Head string // hash of the last line
	// Slice is the id of the slice, Spec the hash of the spec in force.
	Slice string
	Spec  string
	Runs  int
	// Started is when the last run began, as Stamp writes it.
	Started string
	State   machine.State
	// Intent is the step that is under way: its done line is not there.
	Intent *Line
	// Undoing says that compensations have begun.
	Undoing bool
	// Ended says that the run has its end line. A run that ended in State but
	// has none was killed before it could write it, or is about to.
	Ended bool
	Why   string
	// Base is the base commit.
	Base string
	// Commits are the commits of the tasks, in their order.
	Commits []string
	// Good is the last good commit: that of the last task, or what it was
	// brought together with the base as; before all, the base.
	Good string
	// Tasks is what became of the tasks that were begun, in their order.
	Tasks []Worked
	// Candidate is the tree of the last implement that was done, Whole the
	// commit of the last reconcile that was done, or the merge that a reopening
	// has adopted.
	Candidate string
	Whole     string
	// Ending is the record as the run before left it, if all that the last run
	// did was to reopen the slice; nil else. A reopening that was cut off there
	// has done nothing, and may be done again.
	Ending *Folded
}

// Worked is what a record says of one task.
type Worked struct {
	Attempts int
	// CostMicroUSD is what its steps cost, in millionths of a US dollar.
	CostMicroUSD int64
}

// Fold deduces the state of a slice from the whole record. A line that does
// not verify, or that the machine does not allow where it stands, is a
// *BrokenError. A record without a line folds to the zero Folded.
//
// A run begins with start or reopen and ends with end. Start follows nothing,
// the end of a run that was not delivered, or a run without an end (it was
// terminated); the new run keeps only what was spent. Reopen goes on from where
// the last run ended; it may lack the end line, if the host was gone by then. A
// reopen that nothing followed may be followed by another, which takes its place. In
// a run each intent is what the machine says is due, and is followed by its
// done; undo lines come after the last step, and before the end.
func Fold(lines []string) (Folded, error) {
	parsed, err := Parse(lines)
	if err != nil {
		return Folded{}, err
	}
	var f Folded
	for i, l := range parsed {
		if err := f.add(l); err != nil {
			return Folded{}, &BrokenError{l.N, err.Error()}
		}
		f.N, f.Head = l.N, Hash(lines[i])
	}
	return f, nil
}

func (f *Folded) add(l Line) error {
	begins := l.Kind == Start || l.Kind == Reopen
	switch {
	case begins && l.Run != f.Runs+1:
		return fmt.Errorf("it begins run %d, but the record has %d", l.Run, f.Runs)
	case !begins && f.Runs == 0:
		return errors.New("the record does not begin with a start")
	case !begins && f.Ended:
		return fmt.Errorf("run %d has ended: only start or reopen can follow", f.Runs)
	case !begins && l.Run != f.Runs:
		return fmt.Errorf("it is of run %d, but the run is %d", l.Run, f.Runs)
	}
	switch l.Kind {
	case Start:
		return f.start(l)
	case Reopen:
		return f.reopen(l)
	case Intent:
		return f.intent(l)
	case Done:
		return f.done(l)
	case Raise:
		return f.raise(l)
	case Undo:
		f.Undoing = true
		return nil
	case End:
		return f.end(l)
	}
	return fmt.Errorf("%q is no kind of line", l.Kind)
}

func (f *Folded) start(l Line) error {
	if f.Runs > 0 && l.Slice != f.Slice {
		return fmt.Errorf("it is of slice %q, but the record is of %q", l.Slice, f.Slice)
	}
	if f.State.Ending == machine.Delivered {
		return errors.New("the slice was delivered: it has no further run")
	}
	spent := f.State.SpentMicroUSD
	*f = Folded{Slice: l.Slice, Spec: l.Spec, Runs: l.Run, Started: l.At, State: machine.New(l.Tasks, machine.Rules{})}
	f.State.SpentMicroUSD = spent
	return nil
}

func (f *Folded) reopen(l Line) error {
	ending := *f
	if f.Ending != nil {
		ending = *f.Ending
	}
	if !ending.State.Ended() {
		return errors.New("nothing has ended that could be reopened")
	}
	s, err := machine.Reopen(ending.State, *l.Reopening)
	if err != nil {
		return err
	}
	*f = ending
	f.State, f.Runs, f.Spec, f.Started = s, l.Run, l.Spec, l.At
	f.Ended, f.Undoing, f.Intent, f.Why = false, false, nil, ""
	f.Tasks, f.Commits = slices.Clone(ending.Tasks), slices.Clone(ending.Commits)
	f.Ending = &ending
	if l.Commit != "" {
		f.Good, f.Whole = l.Commit, l.Commit
	}
	return nil
}

func (f *Folded) raise(l Line) error {
	switch had := f.State.Rules.CapMicroUSD; {
	case f.State.Ended():
		return fmt.Errorf("it raises the cap, but the slice has ended as %s", f.State.Ending)
	case l.Role != "":
		return nil
	case l.CapMicroUSD <= had:
		return fmt.Errorf("it raises the cap from %d to %d micro-dollars, which is not more", had, l.CapMicroUSD)
	}
	f.State.Rules.CapMicroUSD = l.CapMicroUSD
	return nil
}

func (f *Folded) intent(l Line) error {
	due, ok := machine.Due(f.State)
	switch {
	case !ok:
		return fmt.Errorf("it begins %s, but the slice has ended as %s", l.Turn, f.State.Ending)
	case f.Undoing:
		return fmt.Errorf("it begins %s after a compensation", l.Turn)
	case f.Intent != nil:
		return fmt.Errorf("it begins %s, but %s of line %d is not done", l.Turn, f.Intent.Turn, f.Intent.N)
	case l.Turn != due:
		return fmt.Errorf("it begins %s, but due is %s", l.Turn, due)
	case l.Op != Op(f.Slice, l.Run, l.N):
		return fmt.Errorf("it is operation %q, but must be %q", l.Op, Op(f.Slice, l.Run, l.N))
	}
	f.Intent, f.Ending = &l, nil
	return nil
}

func (f *Folded) done(l Line) error {
	switch {
	case f.Intent == nil:
		return fmt.Errorf("it ends %s, which was not begun", l.Turn)
	case f.Undoing:
		return fmt.Errorf("it ends %s after a compensation", l.Turn)
	case l.Op != f.Intent.Op || l.Turn != f.Intent.Turn:
		return fmt.Errorf("it ends %s (%s), but what was begun is %s (%s)", l.Turn, l.Op, f.Intent.Turn, f.Intent.Op)
	case f.State.SpentMicroUSD > MaxCost:
		return fmt.Errorf("%d micro-dollars cannot have been spent", f.State.SpentMicroUSD)
	}
	s := f.State
	if l.Rules != nil {
		s.Rules = *l.Rules
	}
	s, err := machine.Next(s, machine.Event{Step: l.Turn.Step, Outcome: l.Outcome, Cause: l.Cause, CostMicroUSD: l.CostMicroUSD})
	if err != nil {
		return err
	}
	f.State, f.Intent, f.Why = s, nil, l.Why
	if n := l.Turn.Task; n > 0 {
		for len(f.Tasks) < n {
			f.Tasks = append(f.Tasks, Worked{})
		}
		f.Tasks[n-1].Attempts = l.Turn.Attempt
		f.Tasks[n-1].CostMicroUSD += l.CostMicroUSD
	}
	if l.Outcome == machine.Done {
		f.keep(l)
	}
	return nil
}

// keep notes what a step that was done left behind.
func (f *Folded) keep(l Line) {
	switch l.Turn.Step {
	case machine.Prepare:
		f.Base, f.Good = l.Base, l.Base
	case machine.Implement:
		f.Candidate = l.Tree
	case machine.Commit:
		f.Commits = append(f.Commits, l.Commit)
		f.Good = l.Commit
	case machine.Reconcile:
		f.Whole = l.Commit
		if l.Commit != "" {
			f.Good = l.Commit
		}
	case machine.Baseline, machine.PlanGate, machine.Check, machine.Judge, machine.Advise, machine.Verify,
		machine.JudgeSlice, machine.E2E, machine.PublishGate, machine.Publish, machine.Propose,
		machine.AwaitCI, machine.MergeGate, machine.Merge:
	}
}

func (f *Folded) end(l Line) error {
	s := f.State
	if !s.Ended() {
		var err error
		if s, err = machine.Stop(s, l.Ending); err != nil {
			return fmt.Errorf("it ends the run as %s, but due is %s", l.Ending, s.Step)
		}
	}
	if s.Ending != l.Ending || s.Cause != l.Cause {
		return fmt.Errorf("it ends the run as %s (%s), but the run ended as %s (%s)", l.Ending, l.Cause, s.Ending, s.Cause)
	}
	f.State, f.Ended, f.Ending = s, true, nil
	if l.Why != "" {
		f.Why = l.Why
	}
	return nil
}
