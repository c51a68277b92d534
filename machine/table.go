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
	Delivers  Condition = "e2e_unmeasured=deliver"
	Blocks    Condition = "e2e_unmeasured=block"

	PlanGateOff    Condition = "no plan gate"
	PublishGateOff Condition = "no publish gate"
	MergeGateOff   Condition = "no merge gate"
	E2EOff         Condition = "no e2e"
	NoProposal     Condition = "deliver.to below propose"
	NoMerge        Condition = "deliver.to below merge"
)

// ByEvent as the cause of an ending means: the cause that the event has.
const ByEvent Cause = "by event"

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
	// EndCause is the cause of End, ByEvent for that of the event.
	EndCause Cause
	Mark     Milestone
	Do       []Action
}

// An Omission is a step that policy leaves out if a condition holds. It is
// passed over to where it leads when it is done.
type Omission struct {
	Step Step
	If   Condition
}

// An Action is what a crossing does to the state besides counting.
type Action string

// The actions.
const (
	NextTask       Action = "task counters 0"
	AddTask        Action = "extra task ci" // it is then in work; task counters 0
	RestoreGood    Action = "from the last good commit"
	KeepWork       Action = "the work stands" // no restore is open any more
	ResetReconcile Action = "reconcile counter 0"
	NoteUnmeasured Action = "every later gate says so"
	AwaitE2E       Action = "e2e not measured yet" // an older note falls
)

var (
	// agentSteps ask an agent program. They cost; no other step does.
	agentSteps = []Step{Implement, Judge, Advise, Reconcile, JudgeSlice}
	// hostSteps run where the workspace is.
	hostSteps = []Step{Prepare, Baseline, Implement, Check, Judge, Advise, Commit, Reconcile, Verify, JudgeSlice, E2E,
		Publish, Propose, AwaitCI, Merge}
	// taskSteps are those that are of one task.
	taskSteps = []Step{Implement, Check, Judge, Advise, Commit}
)

// leaveOut says which steps policy leaves out; all others always come.
var leaveOut = []Omission{
	{PlanGate, PlanGateOff},
	{E2E, E2EOff},
	{PublishGate, PublishGateOff},
	{Propose, NoProposal},
	{AwaitCI, NoMerge},
	{MergeGate, NoMerge},
	{MergeGate, MergeGateOff},
	{Merge, NoMerge},
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

	{In: in(Implement), On: Done, To: Check, Do: does(KeepWork)},

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

	{In: in(Reconcile), On: Done, To: Verify, Mark: MilestoneImplemented},
	{In: in(Reconcile), On: Failed, If: when(Left.of(Reconciles)), Count: count(Reconciles), To: Same},
	{In: in(Reconcile), On: Failed, If: when(None.of(Reconciles)), End: BlockedReconcile, EndCause: CauseConflict},
	{In: in(Reconcile), On: Unmeasured, End: BlockedReconcile, EndCause: CauseConflict},
	{In: in(Reconcile), On: Discarded, If: when(Left.of(Reconciles), Left.of(Discards)), Count: count(Reconciles, Discards), To: Same},
	{In: in(Reconcile), On: Discarded, If: when(Left.of(Reconciles), None.of(Discards)), End: BlockedCall, EndCause: CauseDiscards},
	{In: in(Reconcile), On: Discarded, If: when(None.of(Reconciles)), End: BlockedReconcile, EndCause: CauseConflict},

	{In: in(Verify), On: Done, To: JudgeSlice, Do: does(AwaitE2E)},
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
	{In: in(Publish, Propose, Merge), On: Failed, Causes: by(CauseRefused, CauseClosed, CauseConflict, CauseMissing), End: BlockedDelivery, EndCause: ByEvent},
	{In: in(Publish, Propose, Merge), On: Unanswered, End: BlockedDelivery, EndCause: CauseUnknown},

	// An answer that does not fit its schema: no retry is spent, but the
	// discards of a slice have one cap.
	{In: in(Implement, Judge, Advise, JudgeSlice), On: Discarded, If: when(Left.of(Discards)), Count: count(Discards), To: Same},
	{In: in(Judge, JudgeSlice), On: Discarded, If: when(None.of(Discards)), End: BlockedJudge, EndCause: CauseDiscards},
	{In: in(Implement, Advise), On: Discarded, If: when(None.of(Discards)), End: BlockedCall, EndCause: CauseDiscards},

	{In: agentSteps, On: Unanswered, Causes: by(CauseTimeout, CauseLimit, CauseFatal), End: BlockedCall, EndCause: ByEvent},
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

// takes reports whether r is for cause c: one of those it lists, or none.
func (r *Rule) takes(c Cause) bool {
	if len(r.Causes) == 0 {
		return c == ""
	}
	return has(r.Causes, c)
}

func (r *Rule) holds(s State) bool {
	for _, g := range r.If {
		if !g.holds(s) {
			return false
		}
	}
	return true
}

func (g Guard) holds(s State) bool {
	left := s.Rules.Budgets.Of(g.Of) - s.Used.Of(g.Of)
	switch g.Is {
	case Left:
		return left > 0
	case Some:
		return left > 1
	case Last:
		return left == 1
	case None:
		return left <= 0
	case MoreTasks:
		return s.Task+1 < s.Tasks
	case LastTask:
		return s.Task+1 == s.Tasks
	case OpenTasks:
		return s.Task < s.Tasks
	case NoTasks:
		return s.Task >= s.Tasks
	case Delivers:
		return s.Rules.DeliverUnmeasured
	case Blocks:
		return !s.Rules.DeliverUnmeasured
	case PlanGateOff:
		return !s.Rules.PlanGate
	case PublishGateOff:
		return !s.Rules.PublishGate
	case MergeGateOff:
		return !s.Rules.MergeGate
	case E2EOff:
		return !s.Rules.E2E
	case NoProposal:
		return s.Rules.DeliverTo != ToPropose && s.Rules.DeliverTo != ToMerge
	case NoMerge:
		return s.Rules.DeliverTo != ToMerge
	}
	return false
}

// apply does what a crossing does to the state, besides moving it.
func (r *Rule) apply(s State) State {
	for _, c := range r.Count {
		*s.Used.at(c)++
	}
	for _, a := range r.Do {
		switch a {
		case NextTask:
			s.Task++
			s.beginTask()
		case AddTask:
			s.Task = s.Tasks
			s.Tasks++
			s.beginTask()
		case RestoreGood:
			s.Restore = true
		case KeepWork:
			s.Restore = false
		case ResetReconcile:
			s.Used.Reconcile = 0
		case NoteUnmeasured:
			s.E2EUnmeasured = true
		case AwaitE2E:
			s.E2EUnmeasured = false
		}
	}
	s.mark(r.Mark)
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
