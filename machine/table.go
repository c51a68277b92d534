package machine

// Same as a destination means: the step stays due.
const Same Step = "same"

// A Guard is a condition of a rule. Guards over counters compare what is used
// with the budget, so that "the last" is computed, never a literal.
type Guard struct {
	Is Condition
	Of Counter
}

// A Condition is what a Guard asks.
type Condition string

// The conditions. With budget B and n used, Left is n < B, Some is n+1 < B,
// Last is n+1 = B and None is n >= B.
const (
	Left      Condition = "left"
	Some      Condition = "more than one left"
	Last      Condition = "the last one left"
	None      Condition = "none left"
	MoreTasks Condition = "more tasks"    // after the one in work
	LastTask  Condition = "last task"     // the one in work is it
	OpenTasks Condition = "open tasks"    // not all are committed
	NoTasks   Condition = "no open tasks" // all are committed
	Delivers  Condition = "e2e_unmeasured: deliver"
	Blocks    Condition = "e2e_unmeasured: block"
)

// A Rule is one line of the table: when a step of In ends as On (with one of
// Causes, if any are listed) and all guards hold, the counters of Count go up
// by one and the step To is due, or the slice ends as End.
type Rule struct {
	In     []Step
	On     Outcome
	Causes []Cause
	If     []Guard
	Count  []Counter
	To     Step
	End    Ending
	// EndCause is the cause of End; where it is empty and Causes are listed,
	// the event's cause is.
	EndCause Cause
	Mark     Milestone
	Do       []Action
}

// An Action is what a crossing does to the state besides counting.
type Action string

// The actions.
const (
	NextTask       Action = "next task"     // task counters and attempt back to 0
	AddTask        Action = "extra task ci" // one more task, which is then in work
	RestoreGood    Action = "from the last good commit"
	ResetReconcile Action = "reconcile counter 0"
	NoteUnmeasured Action = "e2e unmeasured is told at every later gate"
)

var (
	// agentSteps ask an agent program; costs are those among them and
	// therefore the steps before which money is looked at.
	agentSteps = []Step{Implement, Judge, Advise, Reconcile, JudgeSlice}
	// hostSteps run where the workspace is.
	hostSteps = []Step{Baseline, Implement, Check, Judge, Advise, Commit, Reconcile, Verify, JudgeSlice, E2E, Publish, Propose, AwaitCI, Merge}

	costs     = setOf(agentSteps...)
	taskSteps = setOf(Implement, Check, Judge, Advise, Commit)
)

// leaveOut says which steps policy leaves out; all others always come.
var leaveOut = map[Step]func(Rules) bool{
	PlanGate:    func(r Rules) bool { return !r.PlanGate },
	E2E:         func(r Rules) bool { return !r.E2E },
	PublishGate: func(r Rules) bool { return !r.PublishGate },
	Propose:     func(r Rules) bool { return r.DeliverTo != ToPropose && r.DeliverTo != ToMerge },
	AwaitCI:     func(r Rules) bool { return r.DeliverTo != ToMerge },
	MergeGate:   func(r Rules) bool { return r.DeliverTo != ToMerge || !r.MergeGate },
	Merge:       func(r Rules) bool { return r.DeliverTo != ToMerge },
}

// table is the machine. A pair of step and outcome that it does not list is
// impossible; the rules of a pair exclude each other.
var table = []Rule{
	{In: in(Prepare), On: Done, To: Baseline, Mark: MilestonePrepared},
	{In: in(Prepare), On: Failed, Causes: by(CauseInvalid), End: Invalid},
	{In: in(Prepare), On: Failed, Causes: by(CausePrecondition), End: Precondition},

	{In: in(Baseline), On: Done, To: PlanGate, Mark: MilestoneFrozen},
	{In: in(Baseline), On: Failed, End: BlockedChecks, EndCause: CauseBaseRed},
	{In: in(Baseline), On: Unmeasured, End: BlockedChecks, EndCause: CauseBaseUnmeasured},

	{In: in(PlanGate), On: Done, If: when(is(OpenTasks)), To: Implement},
	{In: in(PlanGate), On: Done, If: when(is(NoTasks)), To: Reconcile},
	{In: in(PlanGate, PublishGate, MergeGate), On: Failed, End: Rejected},

	{In: in(Implement), On: Done, To: Check},

	{In: in(Check), On: Done, To: Judge},
	{In: in(Check), On: Failed, If: when(Left.of(Checks)), Count: count(Checks), To: Implement},
	{In: in(Check), On: Failed, If: when(None.of(Checks)), End: BlockedChecks, EndCause: CauseRed},
	{In: in(Check), On: Unmeasured, End: BlockedChecks, EndCause: CauseUnmeasured},

	{In: in(Judge), On: Done, To: Commit},
	{In: in(Judge), On: Failed, If: when(Some.of(Judgements)), Count: count(Judgements), To: Implement},
	{In: in(Judge), On: Failed, If: when(Last.of(Judgements)), Count: count(Judgements), To: Advise},
	{In: in(Judge), On: Failed, If: when(None.of(Judgements)), End: BlockedJudge, EndCause: CauseTask},
	{In: in(Judge), On: Corrections, If: when(Left.of(CorrectionRounds)), Count: count(CorrectionRounds), To: Implement},
	{In: in(Judge), On: Corrections, If: when(None.of(CorrectionRounds)), To: Commit},

	{In: in(Advise), On: Done, To: Implement, Do: does(RestoreGood)},

	{In: in(Commit), On: Done, If: when(is(MoreTasks)), To: Implement, Do: does(NextTask)},
	{In: in(Commit), On: Done, If: when(is(LastTask)), To: Reconcile, Do: does(NextTask), Mark: MilestoneImplemented},
	{In: in(Commit), On: Failed, End: BlockedCommit},

	{In: in(Reconcile), On: Done, To: Verify},
	{In: in(Reconcile), On: Failed, If: when(Left.of(Reconciles)), Count: count(Reconciles), To: Same},
	{In: in(Reconcile), On: Failed, If: when(None.of(Reconciles)), End: BlockedReconcile, EndCause: CauseConflict},
	{In: in(Reconcile), On: Unmeasured, End: BlockedReconcile, EndCause: CauseConflict},
	{In: in(Reconcile), On: Discarded, If: when(Left.of(Reconciles), Left.of(Discards)), Count: count(Reconciles, Discards), To: Same},
	{In: in(Reconcile), On: Discarded, If: when(Left.of(Reconciles), None.of(Discards)), End: BlockedCall, EndCause: CauseDiscards},
	{In: in(Reconcile), On: Discarded, If: when(None.of(Reconciles)), End: BlockedReconcile, EndCause: CauseConflict},

	{In: in(Verify), On: Done, To: JudgeSlice},
	{In: in(Verify), On: Failed, End: BlockedVerify, EndCause: CauseRed},
	{In: in(Verify), On: Unmeasured, End: BlockedVerify, EndCause: CauseUnmeasured},

	{In: in(JudgeSlice), On: Done, To: E2E},
	{In: in(JudgeSlice), On: Corrections, To: E2E},
	{In: in(JudgeSlice), On: Failed, End: BlockedJudge, EndCause: CauseSlice},

	{In: in(E2E), On: Done, To: PublishGate},
	{In: in(E2E), On: Failed, End: BlockedE2E, EndCause: CauseRed},
	{In: in(E2E), On: Unmeasured, If: when(is(Delivers)), To: PublishGate, Do: does(NoteUnmeasured)},
	{In: in(E2E), On: Unmeasured, If: when(is(Blocks)), End: BlockedE2E, EndCause: CauseUnmeasured},

	{In: in(PublishGate), On: Done, To: Publish},
	{In: in(Publish), On: Done, To: Propose, Mark: MilestonePublished},
	{In: in(Propose), On: Done, To: AwaitCI, Mark: MilestoneProposed},

	{In: in(AwaitCI), On: Done, To: MergeGate},
	{In: in(AwaitCI), On: Failed, If: when(Left.of(CIRounds)), Count: count(CIRounds), To: Implement, Do: does(AddTask)},
	{In: in(AwaitCI), On: Failed, If: when(None.of(CIRounds)), End: BlockedCI, EndCause: CauseRed},
	{In: in(AwaitCI), On: Unmeasured, End: BlockedCI, EndCause: CauseUnmeasured},

	{In: in(MergeGate), On: Done, To: Merge},
	{In: in(Merge), On: Done, End: Delivered, Mark: MilestoneDelivered},
	{In: in(Merge), On: Failed, Causes: by(CauseBaseMoved), If: when(Left.of(Moves)), Count: count(Moves), To: Reconcile, Do: does(ResetReconcile)},
	{In: in(Merge), On: Failed, Causes: by(CauseBaseMoved), If: when(None.of(Moves)), End: BlockedReconcile, EndCause: CauseBaseMoves},
	{In: in(Publish, Propose, Merge), On: Failed, Causes: by(CauseRefused, CauseClosed, CauseConflict, CauseMissing), End: BlockedDelivery},
	{In: in(Publish, Propose, Merge), On: Unanswered, End: BlockedDelivery, EndCause: CauseUnknown},

	// An answer that does not fit its schema: no retry is spent, but the
	// discards of a slice have one cap.
	{In: in(Implement, Judge, Advise, JudgeSlice), On: Discarded, If: when(Left.of(Discards)), Count: count(Discards), To: Same},
	{In: in(Judge, JudgeSlice), On: Discarded, If: when(None.of(Discards)), End: BlockedJudge, EndCause: CauseDiscards},
	{In: in(Implement, Advise), On: Discarded, If: when(None.of(Discards)), End: BlockedCall, EndCause: CauseDiscards},

	{In: agentSteps, On: Unanswered, Causes: by(CauseTimeout, CauseLimit, CauseFatal), End: BlockedCall},
	{In: agentSteps, On: Limited, To: Same},
	{In: hostSteps, On: Lost, If: when(Left.of(HostLosses)), Count: count(HostLosses), To: Same},
	{In: hostSteps, On: Lost, If: when(None.of(HostLosses)), End: BlockedCall, EndCause: CauseHost},
}

func in(steps ...Step) []Step                { return steps }
func by(causes ...Cause) []Cause             { return causes }
func when(guards ...Guard) []Guard           { return guards }
func count(counters ...Counter) []Counter    { return counters }
func does(actions ...Action) []Action        { return actions }
func is(c Condition) Guard                   { return Guard{Is: c} }
func (c Condition) of(counter Counter) Guard { return Guard{Is: c, Of: counter} }

func setOf(steps ...Step) map[Step]bool {
	set := make(map[Step]bool, len(steps))
	for _, s := range steps {
		set[s] = true
	}
	return set
}

func leftOut(s Step, r Rules) bool {
	f, ok := leaveOut[s]
	return ok && f(r)
}

func (r Rule) lists(e Event) bool {
	return e.Outcome == r.On && has(r.In, e.Step) &&
		(len(r.Causes) == 0 && e.Cause == "" || has(r.Causes, e.Cause))
}

func (r Rule) holds(s State) bool {
	for _, g := range r.If {
		if !g.holds(s) {
			return false
		}
	}
	return true
}

func (g Guard) holds(s State) bool {
	used, budget := s.Used.Of(g.Of), s.Rules.Budgets.Of(g.Of)
	switch g.Is {
	case Left:
		return used < budget
	case Some:
		return used+1 < budget
	case Last:
		return used+1 == budget
	case None:
		return used >= budget
	case MoreTasks:
		return s.Task+1 < s.Tasks
	case LastTask:
		return s.Task+1 >= s.Tasks
	case OpenTasks:
		return s.Task < s.Tasks
	case NoTasks:
		return s.Task >= s.Tasks
	case Delivers:
		return s.Rules.DeliverUnmeasured
	case Blocks:
		return !s.Rules.DeliverUnmeasured
	}
	return false
}

// does applies what a crossing does to the state. Restore speaks of the step
// that is entered, so that every move clears it and staying keeps it.
func (r Rule) does(s State) State {
	if r.To != Same && r.End == "" {
		s.Restore = false
	}
	for _, a := range r.Do {
		switch a {
		case NextTask:
			s.Task++
			s.Attempt = 0
			s.Used.Checks, s.Used.Judge, s.Used.Corrections = 0, 0, 0
		case AddTask:
			s.Task = s.Tasks
			s.Tasks++
			s.Attempt = 0
			s.Used.Checks, s.Used.Judge, s.Used.Corrections = 0, 0, 0
		case RestoreGood:
			s.Restore = true
		case ResetReconcile:
			s.Used.Reconcile = 0
		case NoteUnmeasured:
			s.E2EUnmeasured = true
		}
	}
	return s
}

func has[T comparable](list []T, v T) bool {
	for _, x := range list {
		if x == v {
			return true
		}
	}
	return false
}
