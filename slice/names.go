package slice

// Names that Temporal knows.
const (
	Workflow = "Slice"
	Queue    = "interlock"

	QueryStatus = "status"
	QueryNext   = "next"
	QueryLedger = "ledger"

	// These are both updates and signals, with one payload each.
	Decide       = "decide"
	Report       = "report"
	Answer       = "answer"
	QuotaRenewed = "quota_renewed"
	RaiseBudget  = "raise_budget"
)

// Search attributes.
const (
	AttrStep       = "SliceStep"
	AttrTask       = "SliceTask"
	AttrRepo       = "SliceRepo"
	AttrWaitingFor = "SliceWaitingFor"
	AttrNeedsHuman = "SliceNeedsHuman"
	AttrEnding     = "SliceEnding"
	AttrCostUSD    = "SliceCostUSD"
)

// Attributes are the search attributes with their types, as
// `temporal operator search-attribute create` names them.
func Attributes() map[string]string {
	return map[string]string{
		AttrStep:       "Keyword",
		AttrTask:       "Keyword",
		AttrRepo:       "Keyword",
		AttrWaitingFor: "Keyword",
		AttrNeedsHuman: "Bool",
		AttrEnding:     "Keyword",
		AttrCostUSD:    "Double",
	}
}

// Roles that policy has one of; judges go by their names.
const (
	RoleImplementer = "implementer"
	RoleAdvisor     = "advisor"
	RoleReconciler  = "reconciler"
	// RoleJudge is what all judges count as.
	RoleJudge = "judge"
)

// Types of errors that leave an activity. None of them is retried.
const (
	ErrInvalid  = "Invalid"  // an input that cannot be
	ErrLedger   = "Ledger"   // a record that does not verify
	ErrMismatch = "Mismatch" // what is there is not what was checked
	ErrFenced   = "Fenced"   // another host has the slice
)

// Types of errors with which the workflow refuses a message.
const (
	ErrNotDue      = "NotDue"      // the step, task or attempt is not the one that is due
	ErrStale       = "Stale"       // it names another subject than the one that waits
	ErrBadDecision = "BadDecision" // it is no decision
	ErrBadReport   = "BadReport"   // it is no report
	ErrBadAnswer   = "BadAnswer"   // it is no answer to a question
	ErrBadRaise    = "BadRaise"    // it is no cap that could be raised to
	ErrDraining    = "Draining"    // the run is about to continue as new: send it again
)

// HostQueue returns the queue of the host with the given id.
func HostQueue(id string) string { return Queue + "-host-" + id }

// Ref returns the name of a ref of a slice in the store.
func Ref(slice, name string) string { return "refs/interlock/" + slice + "/" + name }

// Branch returns the branch that a slice is delivered as.
func Branch(slice string) string { return "interlock/" + slice }

// Trailers of the commits that the program makes.
const (
	TrailerSlice   = "Interlock-Slice"
	TrailerTask    = "Interlock-Task"
	TrailerAttempt = "Interlock-Attempt"
	TrailerLedger  = "Interlock-Ledger"
)

// PolicyFile is where a repository keeps its policy.
const PolicyFile = "interlock.yaml"
