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

// The milestones, in their order.
const (
	MilestoneStarted     Milestone = "started"
	MilestonePrepared    Milestone = "prepared"
	MilestoneFrozen      Milestone = "frozen"
	MilestoneImplemented Milestone = "implemented"
	MilestonePublished   Milestone = "published"
	MilestoneProposed    Milestone = "proposed"
	MilestoneDelivered   Milestone = "delivered"
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
	DeliverUnmeasured bool   `json:"deliver_unmeasured,omitempty"`
	DeliverTo         Target `json:"deliver_to"`
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
	// Restore says that the step begins from the last good commit.
	Restore bool `json:"restore,omitempty"`
	// E2EUnmeasured says that the slice goes on although e2e could not be measured.
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
	cause := ""
	if e.Cause != "" {
		cause = fmt.Sprintf(" (%s)", e.Cause)
	}
	return fmt.Sprintf("impossible: step %q cannot end %q%s: %s", e.Step, e.Outcome, cause, e.Why)
}

// New returns the state of a slice of n tasks whose prepare is due.
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
	if taskSteps[s.Step] {
		turn.Task, turn.Attempt = s.Task+1, s.Attempt
	}
	return turn, true
}

// Next returns the state that follows s when the step that was due ended as e
// says. A pair that the table does not list is an *ImpossibleError.
func Next(s State, e Event) (State, error) {
	if s.Ended() {
		return s, &ImpossibleError{e.Step, e.Outcome, e.Cause, fmt.Sprintf("the slice has ended as %s", s.Ending)}
	}
	if e.Step != s.Step {
		return s, &ImpossibleError{e.Step, e.Outcome, e.Cause, fmt.Sprintf("the step that is due is %q", s.Step)}
	}
	if e.CostMicroUSD < 0 {
		return s, &ImpossibleError{e.Step, e.Outcome, e.Cause, fmt.Sprintf("a cost of %d micro-dollars", e.CostMicroUSD)}
	}
	r, err := find(s, e)
	if err != nil {
		return s, err
	}
	s.SpentMicroUSD += e.CostMicroUSD
	s, err = cross(s, r, e.Cause)
	if err != nil || s.Ended() {
		return s, err
	}
	if costs[s.Step] && s.SpentMicroUSD > s.Rules.CapMicroUSD {
		s.Ending, s.Cause = AbortedBudget, ""
	}
	return s, nil
}

// find returns the one rule that applies. That the rules of a pair exclude
// each other and leave no gap is a test of the table.
func find(s State, e Event) (Rule, error) {
	listed := false
	for _, r := range table {
		if !r.lists(e) {
			continue
		}
		listed = true
		if r.holds(s) {
			return r, nil
		}
	}
	why := "the table does not list it"
	if listed {
		why = "no guard of the table holds"
	}
	return Rule{}, &ImpossibleError{e.Step, e.Outcome, e.Cause, why}
}

// cross applies rule r, then passes over the steps that the rules leave out,
// as if they were done.
func cross(s State, r Rule, cause Cause) (State, error) {
	for _, c := range r.Count {
		*s.Used.at(c)++
	}
	if r.Mark != "" {
		s.Milestone = r.Mark
	}
	for {
		s = r.does(s)
		if r.End != "" {
			s.Ending, s.Cause = r.End, r.EndCause
			if len(r.Causes) > 0 && r.EndCause == "" && endings.has(r.End, cause) {
				s.Cause = cause
			}
			return s, nil
		}
		if r.To == Same {
			return s, nil
		}
		s.Step = r.To
		if !leftOut(s.Step, s.Rules) {
			if s.Step == Implement {
				s.Attempt++
			}
			return s, nil
		}
		var err error
		if r, err = find(s, Event{Step: s.Step, Outcome: Done}); err != nil {
			return s, err
		}
	}
}

// Stop ends a slice from outside the table: it was cancelled, or a crossing
// or a record proved impossible. The step that was due is kept.
func Stop(s State, ending Ending) (State, error) {
	if s.Ended() {
		return s, &ImpossibleError{Step: s.Step, Why: fmt.Sprintf("the slice has ended as %s", s.Ending)}
	}
	if ending != Cancelled && ending != Impossible {
		return s, &ImpossibleError{Step: s.Step, Why: fmt.Sprintf("ending %q comes only from the table", ending)}
	}
	s.Ending, s.Cause = ending, ""
	return s, nil
}

// Reopening is what a person brings to a slice that has ended.
type Reopening struct {
	// Tasks is the number of tasks of the (possibly changed) spec.
	Tasks int `json:"tasks"`
	// Changed says that the spec is another one than before.
	Changed bool `json:"changed,omitempty"`
	// Rules are those in force from now on.
	Rules Rules `json:"rules"`
}

// Reopen returns the state in which a slice that ended as s goes on. Only the
// counter that closed it is reset; what was spent stays spent.
func Reopen(s State, by Reopening) (State, error) {
	e, ok := Find(s.Ending, s.Cause)
	if !ok || e.ReopenAt == "" {
		return s, fmt.Errorf("a slice that ended as %s is not reopened: %s", s.Ending, e.Next)
	}
	if by.Tasks < s.Task {
		return s, fmt.Errorf("the changed slice has %d tasks, but %d are committed: committed tasks cannot be removed", by.Tasks, s.Task)
	}
	if e.AddsTask && by.Tasks <= s.Task {
		return s, fmt.Errorf("a slice that ended as %s needs an added task: reopen it with a changed file that has one", s.Ending)
	}
	for _, c := range e.Reset {
		*s.Used.at(c) = 0
	}
	s.Tasks, s.Rules = by.Tasks, by.Rules
	at := e.ReopenAt
	if at == Same {
		at = s.Step
	}
	if by.Changed && at != Prepare && at != Baseline {
		at = PlanGate
	}
	s.Ending, s.Cause = "", ""
	if at != s.Step || leftOut(at, s.Rules) {
		var err error
		if s, err = cross(s, Rule{To: at}, ""); err != nil {
			return s, err
		}
	}
	if costs[s.Step] && s.SpentMicroUSD > s.Rules.CapMicroUSD {
		return s, fmt.Errorf("the slice has spent %d micro-dollars of %d: reopen it with a higher cap", s.SpentMicroUSD, s.Rules.CapMicroUSD)
	}
	return s, nil
}
