// Package machine is the state machine of a slice: a total function over
// closed lists of strings, written as one table (table.go).
//
// The model produces, the program decides what comes next. Everything that
// decides is here; nothing here does I/O, reads a clock or knows Temporal.
package machine

import "fmt"

// A Step is what the machine is doing; it is always exactly one.
type Step string

// The steps, in the order in which a slice without incident takes them.
const (
	Prepare     Step = "prepare"
	Baseline    Step = "baseline"
	PlanGate    Step = "plan_gate"
	Implement   Step = "implement"
	Check       Step = "check"
	Judge       Step = "judge"
	Advise      Step = "advise"
	Commit      Step = "commit"
	Reconcile   Step = "reconcile"
	Verify      Step = "verify"
	JudgeSlice  Step = "judge_slice"
	E2E         Step = "e2e"
	PublishGate Step = "publish_gate"
	Publish     Step = "publish"
	Propose     Step = "propose"
	AwaitCI     Step = "await_ci"
	MergeGate   Step = "merge_gate"
	Merge       Step = "merge"
)

// An Outcome is how a step ended.
type Outcome string

// The outcomes. Limited and Lost stay in the step: Limited is a quota wait
// that spends nothing, Lost is a host that is gone, which is counted.
const (
	Done        Outcome = "done"
	Failed      Outcome = "failed"
	Unmeasured  Outcome = "unmeasured"
	Corrections Outcome = "corrections"
	Discarded   Outcome = "discarded"
	Unanswered  Outcome = "unanswered"
	Limited     Outcome = "limited"
	Lost        Outcome = "lost"
)

// A Counter is a thing that the machine counts against a budget.
type Counter string

// The counters. Checks, Judgements and CorrectionRounds are per task and go
// back to 0 at the next task; the others are per slice.
const (
	Checks           Counter = "checks"
	Judgements       Counter = "judge"
	CorrectionRounds Counter = "corrections"
	Reconciles       Counter = "reconcile"
	Moves            Counter = "moves"
	CIRounds         Counter = "ci"
	Discards         Counter = "discards"
	HostLosses       Counter = "lost"
)

// Counts holds one number per Counter: what is used, or what a budget allows.
type Counts struct {
	Checks      int `json:"checks"`
	Judge       int `json:"judge"`
	Corrections int `json:"corrections"`
	Reconcile   int `json:"reconcile"`
	Moves       int `json:"moves"`
	CI          int `json:"ci"`
	Discards    int `json:"discards"`
	Lost        int `json:"lost"`
}

// DefaultBudgets is what a policy that names no budgets allows.
func DefaultBudgets() Counts {
	return Counts{Checks: 2, Judge: 2, Corrections: 2, Reconcile: 2, Moves: 3, CI: 1, Discards: 6, Lost: 3}
}

// Of returns the number of counter c, or 0 for a counter that does not exist.
func (n Counts) Of(c Counter) int {
	if p := n.at(c); p != nil {
		return *p
	}
	return 0
}

func (n *Counts) at(c Counter) *int {
	switch c {
	case Checks:
		return &n.Checks
	case Judgements:
		return &n.Judge
	case CorrectionRounds:
		return &n.Corrections
	case Reconciles:
		return &n.Reconcile
	case Moves:
		return &n.Moves
	case CIRounds:
		return &n.CI
	case Discards:
		return &n.Discards
	case HostLosses:
		return &n.Lost
	}
	return nil
}

// A Target is how far a slice is delivered.
type Target string

// The targets of `deliver.to`: a local branch of the slice's repository, a
// branch pushed to its remote, a proposal (pull request), a merged proposal.
const (
	ToBranch  Target = "branch"
	ToPublish Target = "publish"
	ToPropose Target = "propose"
	ToMerge   Target = "merge"
)

// A Milestone is the furthest point that a slice has passed.
type Milestone string

// The milestones, in their order. A slice passes those that its deliver.to
// names; none is ever taken back.
const (
	MilestoneStarted     Milestone = "started"
	MilestonePrepared    Milestone = "prepared"
	MilestoneFrozen      Milestone = "frozen"
	MilestoneImplemented Milestone = "implemented"
	MilestonePublished   Milestone = "published"
	MilestoneProposed    Milestone = "proposed"
	MilestoneDelivered   Milestone = "delivered"
)

// The closed lists, in the order in which they are shown.
var (
	steps = []Step{Prepare, Baseline, PlanGate, Implement, Check, Judge, Advise, Commit,
		Reconcile, Verify, JudgeSlice, E2E, PublishGate, Publish, Propose, AwaitCI, MergeGate, Merge}
	outcomes   = []Outcome{Done, Failed, Unmeasured, Corrections, Discarded, Unanswered, Limited, Lost}
	targets    = []Target{ToBranch, ToPublish, ToPropose, ToMerge}
	milestones = []Milestone{MilestoneStarted, MilestonePrepared, MilestoneFrozen, MilestoneImplemented,
		MilestonePublished, MilestoneProposed, MilestoneDelivered}
)

// Rules is what policy decides for the machine. It is fixed when the step
// prepare is done, and changes only when a slice is reopened.
type Rules struct {
	Budgets Counts `json:"budgets"`
	// CapMicroUSD is what the slice may spend, in millionths of a US dollar.
	// Spending exactly the cap is allowed.
	CapMicroUSD int64 `json:"cap_micro_usd"`
	PlanGate    bool  `json:"plan_gate,omitempty"`
	PublishGate bool  `json:"publish_gate,omitempty"`
	MergeGate   bool  `json:"merge_gate,omitempty"`
	E2E         bool  `json:"e2e,omitempty"`
	// DeliverUnmeasured lets a slice whose e2e could not be measured go on to
	// delivery (`e2e_unmeasured: deliver`).
	DeliverUnmeasured bool `json:"deliver_unmeasured,omitempty"`
	// AskOverBudget keeps the machine from ending a slice that is over its cap
	// (`on_over_budget: ask`): a person is asked first, and Stop ends it.
	AskOverBudget bool   `json:"ask_over_budget,omitempty"`
	DeliverTo     Target `json:"deliver_to"`
}

// State is where a slice is. It is a value: Next returns a new one.
type State struct {
	Step Step `json:"step"`
	// Task is the index of the task in work, which is also the number of
	// tasks committed; it equals Tasks once all of them are.
	Task  int `json:"task"`
	Tasks int `json:"tasks"`
	// Attempt counts the entries into implement for the task in work, from 1.
	Attempt int    `json:"attempt"`
	Used    Counts `json:"used"`
	// SpentMicroUSD is the sum of the costs of all events, reopened runs included.
	SpentMicroUSD int64     `json:"spent_micro_usd"`
	Milestone     Milestone `json:"milestone"`
	// Restore says that the next implement begins from the last good commit.
	Restore bool `json:"restore,omitempty"`
	// E2EUnmeasured says that e2e could not be measured for the tree that was
	// last verified, and that the slice goes on all the same.
	E2EUnmeasured bool `json:"e2e_unmeasured,omitempty"`
	// Ending and Cause are empty while the slice runs. Step then keeps its
	// last value: the step that was due.
	Ending Ending `json:"ending,omitempty"`
	Cause  Cause  `json:"cause,omitempty"`
	Rules  Rules  `json:"rules"`
}

// Event is the end of the step that was due.
type Event struct {
	Step    Step    `json:"step"`
	Outcome Outcome `json:"outcome"`
	// Cause is needed where the table distinguishes by it (table.go), and
	// refused where it does not.
	Cause Cause `json:"cause,omitempty"`
	// CostMicroUSD is what the step cost, in millionths of a US dollar.
	CostMicroUSD int64 `json:"cost_micro_usd,omitempty"`
}

// ImpossibleError is a crossing that the table does not list. It is a design
// question, never something to retry.
type ImpossibleError struct {
	Step    Step
	Outcome Outcome
	Cause   Cause
	Why     string
}

func (e *ImpossibleError) Error() string {
	if e.Outcome == "" {
		return fmt.Sprintf("impossible: step %q: %s", e.Step, e.Why)
	}
	cause := ""
	if e.Cause != "" {
		cause = fmt.Sprintf(" (%s)", e.Cause)
	}
	return fmt.Sprintf("impossible: step %q cannot end %q%s: %s", e.Step, e.Outcome, cause, e.Why)
}

// New returns the state of a slice of n tasks (at least one) whose prepare is
// due. The rules that prepare finds out may be put into the state until it is
// done.
func New(n int, rules Rules) State {
	return State{Step: Prepare, Tasks: n, Milestone: MilestoneStarted, Rules: rules}
}

// Ended reports whether the state is terminal.
func (s State) Ended() bool { return s.Ending != "" }

// A Turn is what is due: a step and, inside a task, which task and attempt.
// Task and Attempt count from 1; they are 0 outside a task.
type Turn struct {
	Step    Step `json:"step"`
	Task    int  `json:"task,omitempty"`
	Attempt int  `json:"attempt,omitempty"`
}

func (t Turn) String() string {
	if t.Task == 0 {
		return string(t.Step)
	}
	return fmt.Sprintf("%s · task %d · attempt %d", t.Step, t.Task, t.Attempt)
}

// Due returns what is due in state s; ok is false if the slice has ended.
func Due(s State) (turn Turn, ok bool) {
	if s.Ended() {
		return Turn{}, false
	}
	turn.Step = s.Step
	if has(taskSteps, s.Step) {
		turn.Task, turn.Attempt = s.Task+1, s.Attempt
	}
	return turn, true
}

// A definition is everything that decides. There is one; tests change copies.
type definition struct {
	table    []Rule
	leaveOut []Omission
	costs    []Step
	endings  []End
}

var standard = definition{table, leaveOut, agentSteps, endings}

// Next returns the state that follows s when the step that was due ended as e
// says. It adds up the cost, and ends the slice as AbortedBudget if the step
// that is due next costs and more than the cap is spent. A pair that the table
// does not list is an *ImpossibleError, and s is returned as it was.
func Next(s State, e Event) (State, error) { return standard.next(s, e) }

// Costs reports whether a step may ask an agent program, and so cost money.
func Costs(s Step) bool { return has(agentSteps, s) }

// Stop ends a slice from outside the table: it was cancelled, a crossing or a
// record proved impossible, or the money does not cover the call that is due.
// The step that was due is kept.
func Stop(s State, ending Ending) (State, error) { return standard.stop(s, ending) }

// Reopen returns the state in which a slice that ended as s goes on. Only the
// counter that closed it is reset; what was spent stays spent. A changed slice
// asks the plan gate again.
func Reopen(s State, by Reopening) (State, error) { return standard.reopen(s, by) }

// Reopening is what a person brings to a slice that has ended.
type Reopening struct {
	// Tasks is the number of tasks from now on, the extra ones that the
	// machine added (State.Tasks) included. Another number than before is a
	// changed slice, whatever Changed says.
	Tasks int `json:"tasks"`
	// Changed says that the spec is another one than before.
	Changed bool `json:"changed,omitempty"`
	// Rules are those in force from now on.
	Rules Rules `json:"rules"`
}

func (d *definition) next(s State, e Event) (State, error) {
	why := ""
	switch {
	case s.Ended():
		why = fmt.Sprintf("the slice has ended as %s", s.Ending)
	case e.Step != s.Step:
		why = fmt.Sprintf("the step that is due is %q", s.Step)
	case e.CostMicroUSD < 0 || s.SpentMicroUSD+e.CostMicroUSD < s.SpentMicroUSD:
		why = fmt.Sprintf("a cost of %d micro-dollars on top of %d", e.CostMicroUSD, s.SpentMicroUSD)
	case !has(targets, s.Rules.DeliverTo) && (s.Step != Prepare || e.Outcome == Done):
		why = fmt.Sprintf("the rules deliver to %q", s.Rules.DeliverTo)
	}
	if why != "" {
		return s, &ImpossibleError{e.Step, e.Outcome, e.Cause, why}
	}
	r, err := d.find(s, e)
	if err != nil {
		return s, err
	}
	n := s
	n.SpentMicroUSD += e.CostMicroUSD
	if n, err = d.cross(n, r, e.Cause); err != nil {
		return s, err
	}
	if !n.Ended() && d.unaffordable(n) {
		n.Ending, n.Cause = AbortedBudget, ""
	}
	return n, nil
}

// unaffordable looks at money: over the cap, a step that costs is not begun.
func (d *definition) unaffordable(s State) bool {
	return !s.Rules.AskOverBudget && has(d.costs, s.Step) && s.SpentMicroUSD > s.Rules.CapMicroUSD
}

// find returns the one rule that applies. That the rules of a pair exclude
// each other and leave no gap is a test of the table.
func (d *definition) find(s State, e Event) (Rule, error) {
	why := "the table does not list it"
	for i := range d.table {
		r := &d.table[i]
		if r.On != e.Outcome || !has(r.In, e.Step) {
			continue
		}
		if !r.takes(e.Cause) {
			why = fmt.Sprintf("the table lists this outcome, but not with cause %q", e.Cause)
			continue
		}
		if r.holds(s) {
			return *r, nil
		}
		why = "no guard of the table holds"
	}
	return Rule{}, &ImpossibleError{e.Step, e.Outcome, e.Cause, why}
}

// cross applies rule r, then passes over the steps that the rules leave out:
// from those it takes where they lead, nothing else.
func (d *definition) cross(s State, r Rule, cause Cause) (State, error) {
	taken := s.Step
	s = r.apply(s)
	for passed := 0; r.End == "" && r.To != Same; passed++ {
		s.Step = r.To
		if !d.leavesOut(s) {
			if s.Step == Implement {
				s.Attempt++
			}
			return s, nil
		}
		if passed == len(steps) {
			return s, &ImpossibleError{Step: taken, Cause: cause, Why: "the steps that are left out lead in a circle"}
		}
		var err error
		if r, err = d.find(s, Event{Step: s.Step, Outcome: Done}); err != nil {
			return s, err
		}
	}
	if r.End != "" {
		s.Step, s.Ending, s.Cause = taken, r.End, r.EndCause
		if r.EndCause == ByEvent {
			s.Cause = cause
		}
		s.mark(r.Mark)
	}
	return s, nil
}

func (d *definition) leavesOut(s State) bool {
	for _, o := range d.leaveOut {
		if o.Step == s.Step && is(o.If).holds(s) {
			return true
		}
	}
	return false
}

func (d *definition) stop(s State, ending Ending) (State, error) {
	why := ""
	switch {
	case s.Ended():
		why = fmt.Sprintf("the slice has ended as %s", s.Ending)
	case ending == AbortedBudget && !has(d.costs, s.Step):
		why = fmt.Sprintf("it costs nothing, so the slice cannot end as %s", ending)
	case ending != Cancelled && ending != Impossible && ending != AbortedBudget:
		why = fmt.Sprintf("ending %q comes only from the table", ending)
	}
	if why != "" {
		return s, &ImpossibleError{Step: s.Step, Why: why}
	}
	s.Ending, s.Cause = ending, ""
	return s, nil
}

func (d *definition) reopen(ended State, by Reopening) (State, error) {
	if !ended.Ended() {
		return ended, fmt.Errorf("the slice has not ended: step %q is due, and nothing is there to reopen", ended.Step)
	}
	end, ok := find(d.endings, ended.Ending, ended.Cause)
	switch {
	case !ok:
		return ended, fmt.Errorf("a slice cannot have ended as %s (%s)", ended.Ending, ended.Cause)
	case end.ReopenAt == "":
		return ended, fmt.Errorf("a slice that ended as %s is not reopened: %s", ended.Ending, end.Next)
	case !has(targets, by.Rules.DeliverTo):
		return ended, fmt.Errorf("the slice cannot be reopened with rules that deliver to %q", by.Rules.DeliverTo)
	case by.Tasks < 1:
		return ended, fmt.Errorf("the slice cannot be reopened with %d tasks: it needs at least one", by.Tasks)
	case by.Tasks < ended.Task:
		return ended, fmt.Errorf("the changed slice has %d tasks, but %d are committed: committed tasks cannot be removed", by.Tasks, ended.Task)
	case end.AddsTask && by.Tasks <= ended.Task:
		return ended, fmt.Errorf("a slice that ended as %s needs an added task: reopen it with a changed file that has one", ended.Ending)
	}
	s := ended
	for _, c := range end.Reset {
		if None.of(c).holds(ended) {
			*s.Used.at(c) = 0
		}
	}
	s.Tasks, s.Rules, s.Ending, s.Cause = by.Tasks, by.Rules, "", ""
	if s.Task == s.Tasks {
		s.beginTask()
	}
	at := end.ReopenAt
	if at == Same {
		at = ended.Step
	}
	if ended.Ending == Cancelled && has(takenBack, at) {
		at = PublishGate
	}
	if (by.Changed || by.Tasks != ended.Tasks) && at != Prepare && at != Baseline {
		at = PlanGate
	}
	if at != s.Step || d.leavesOut(s) {
		var err error
		if s, err = d.cross(s, Rule{To: at}, ""); err != nil {
			return ended, err
		}
	}
	if s.SpentMicroUSD > s.Rules.CapMicroUSD && (ended.Ending == AbortedBudget || d.unaffordable(s)) {
		return ended, fmt.Errorf("the slice has spent $%s of $%s: reopen it with a higher cap (--usd)",
			dollars(s.SpentMicroUSD), dollars(s.Rules.CapMicroUSD))
	}
	return s, nil
}

// beginTask clears what belongs to one task alone.
func (s *State) beginTask() {
	s.Attempt, s.Restore = 0, false
	s.Used.Checks, s.Used.Judge, s.Used.Corrections = 0, 0, 0
}

// mark notes that milestone m is passed.
func (s *State) mark(m Milestone) {
	passed := false
	for _, x := range milestones {
		passed = passed || x == s.Milestone
		if x == m && passed {
			s.Milestone = m
		}
	}
}

func dollars(micro int64) string {
	return fmt.Sprintf("%d.%06d", micro/1_000_000, micro%1_000_000)
}
