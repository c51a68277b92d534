package slice

import (
	"encoding/json"

	"interlock/machine"
)

// Input is the argument of the workflow Slice: a spec as a person writes it,
// so that any Temporal client can start one.
type Input struct {
	Spec
	// Reopen asks to go on with a slice that has ended, instead of from the start.
	Reopen *Reopen `json:"reopen,omitempty"`
	// Carry is the state of the run before; only continue-as-new sets it.
	Carry *Carry `json:"carry,omitempty"`
	// Wrong says why the input could not be read; the rest is empty then.
	Wrong string `json:"-"`
}

// Reopen says why a slice is reopened, and what else changes beside the spec.
type Reopen struct {
	Reason string `json:"reason"`
	// Unchanged says that the spec in force goes on, whatever the input has
	// beside repo and base.
	Unchanged bool `json:"unchanged,omitempty"`
	// CapMicroUSD is what the slice may spend from now on, all runs together;
	// 0 leaves it as policy says.
	CapMicroUSD int64 `json:"cap_micro_usd,omitempty"`
}

// Notes are what the record does not hold and a reopened slice goes on with.
type Notes struct {
	Feedback Feedback `json:"feedback,omitzero"`
	// Extra are tasks that the machine added to those of the spec.
	Extra []Task `json:"extra,omitempty"`
	// Open are the corrections that were not made.
	Open []Finding `json:"open,omitempty"`
	// Tip is the commit of the base that the slice met last.
	Tip string `json:"tip,omitempty"`
	// Undo are the compensations that are still due.
	Undo []UndoIn `json:"undo,omitempty"`
	// Baseline are the tests that ran at the base, Guard what the guard saw
	// last and does not decide.
	Baseline []TestSet      `json:"baseline,omitempty"`
	Guard    []GuardFinding `json:"guard,omitempty"`
	// Remote is where the branch was published, Proposal its pull request.
	Remote   string   `json:"remote,omitempty"`
	Proposal Proposal `json:"proposal,omitzero"`
}

// Carry is the state of a slice that must survive: the continue-as-new argument.
type Carry struct {
	Run     int           `json:"run"`
	State   machine.State `json:"state"`
	Host    Host          `json:"host"`
	Key     string        `json:"key"`
	Base    string        `json:"base,omitempty"`
	Good    string        `json:"good,omitempty"`
	Plan    string        `json:"plan,omitempty"`
	Branch  string        `json:"branch,omitempty"`
	Started int64         `json:"started"` // Unix milliseconds
	// Workspace is the agent's folder on the host, Store the bare repository.
	Workspace string `json:"workspace,omitempty"`
	Store     string `json:"store,omitempty"`
	// Candidate is the tree in work, Whole the commit that is delivered.
	Candidate string `json:"candidate,omitempty"`
	Whole     string `json:"whole,omitempty"`
	Tip       string `json:"tip,omitempty"`
	// Checks, Findings and Advice are what the next brief tells.
	Checks   []CheckResult `json:"checks,omitempty"`
	Findings []Finding     `json:"findings,omitempty"`
	Advice   []string      `json:"advice,omitempty"`
	// Baseline are the tests that ran at the base, Guard what the guard saw in
	// the tree that was checked last and does not decide.
	Baseline []TestSet      `json:"baseline,omitempty"`
	Guard    []GuardFinding `json:"guard,omitempty"`
	// Session is what the implementer called its conversation about the task,
	// or the reconciler that about the conflicts.
	Session string `json:"session,omitempty"`
	// Unmerged is why the last attempt to reconcile was not accepted.
	Unmerged string `json:"unmerged,omitempty"`
	// Discarded is why the implementer's last answer was discarded.
	Discarded string `json:"discarded,omitempty"`
	// Open are corrections that were not made.
	Open []Finding `json:"open,omitempty"`
	// Judged is the candidate of the last verdict of this task that found
	// something, Late how many findings came too late to block, all tasks together.
	Judged string `json:"judged,omitempty"`
	Late   int    `json:"late,omitempty"`
	// Struck are findings that do not count, all rounds together.
	Struck []Finding `json:"struck,omitempty"`
	// Sandbox says how far agents are kept apart from the host.
	Sandbox string `json:"sandbox,omitempty"`
	// Vetoed is the candidate of the last veto of this task.
	Vetoed string       `json:"vetoed,omitempty"`
	Tasks  []TaskStatus `json:"tasks"`
	Ledger Tail         `json:"ledger"`
	Undo   []UndoIn     `json:"undo,omitempty"`
	Why    string       `json:"why,omitempty"`
	Remote string       `json:"remote,omitempty"`
	// Onto is the branch that the slice is proposed for or merged into, Merged
	// the commit that it became there.
	Onto      string   `json:"onto,omitempty"`
	CITimeout Duration `json:"ci_timeout,omitempty"`
	Proposal  Proposal `json:"proposal,omitzero"`
	Merged    string   `json:"merged,omitempty"`
	// CI is what the forge's checks said last, Extra are tasks that the machine
	// added to those of the spec.
	CI    []CheckResult `json:"ci,omitempty"`
	Extra []Task        `json:"extra,omitempty"`
	// Failed are compensations that failed, with what to do by hand.
	Failed []string `json:"failed,omitempty"`
	// Gates and External are what policy says of gates, and which roles are
	// driven from outside.
	Gates    Gates    `json:"gates,omitzero"`
	External []string `json:"external,omitempty"`
	// Op is the operation that is under way, and Since when it began, in Unix
	// milliseconds, if the run before was left in the middle of a wait.
	Op    string `json:"op,omitempty"`
	Since int64  `json:"since,omitempty"`
	// Waiting is the wait of the step that is due, Inbox what came for it.
	Waiting *Wait      `json:"waiting,omitempty"`
	Inbox   []Decision `json:"inbox,omitempty"`
	// Reports are the answers that came for the turn that is due, by role.
	Reports map[string]json.RawMessage `json:"reports,omitempty"`
	// Quota and Callers are what policy says of limits and of agents, Roles what
	// each role may spend, in millionths of a US dollar.
	Quota   Quota            `json:"quota,omitzero"`
	Callers []Caller         `json:"callers,omitempty"`
	Roles   map[string]int64 `json:"roles,omitempty"`
	// SessionBy is the agent that Session belongs to. Resume says that the call
	// that is due goes on in the tree and the session as they are.
	SessionBy string `json:"session_by,omitempty"`
	Resume    bool   `json:"resume,omitempty"`
	// Held is the limit, Question the question and Short the want of money that
	// the step which is due waits for.
	Held     *Held     `json:"held,omitempty"`
	Question *Question `json:"question,omitempty"`
	Short    *Shortage `json:"short,omitempty"`
	// Renewed says that a person knows the account to be free again.
	Renewed bool `json:"renewed,omitempty"`
	// Handed are the agents whose fallback is asked in their place.
	Handed []Handed `json:"handed,omitempty"`
	// Replies are the answers to what was asked in the task in work.
	Replies []Replied `json:"replies,omitempty"`
	// Costs is what was spent in this run, by role and step.
	Costs []RoleCost `json:"costs,omitempty"`
	// Applied are the ids of the last messages that were taken.
	Applied []string `json:"applied,omitempty"`
	Ignored Ignored  `json:"ignored,omitzero"`
	// Recent are the last few steps, for people; Steps is how many there were.
	Recent []Done `json:"recent,omitempty"`
	Steps  int    `json:"steps"`
}

// Held is a limit that a slice waits for, over all of its waits.
type Held struct {
	Limit
	// Since is when the first of the waits began, Probes how often the limit was
	// met, and Wake when the account is asked again; times are Unix milliseconds.
	Since  int64 `json:"since"`
	Probes int   `json:"probes"`
	Wake   int64 `json:"wake"`
}

// Handed is an agent whose fallback is asked in its place, until a time in Unix
// milliseconds; 0 means until a person says that the account is free again.
type Handed struct {
	Agent string `json:"agent"`
	Until int64  `json:"until,omitempty"`
}

// Tail is the end of the ledger as the workflow knows it.
type Tail struct {
	// N is the number of lines, Head the hash of the last.
	N    int    `json:"n"`
	Head string `json:"head,omitempty"`
	// Pending are the last lines, which no activity has written yet.
	Pending []string `json:"pending,omitempty"`
}

// TaskStatus is what became of one task so far.
type TaskStatus struct {
	ID           string `json:"id"`
	Criterion    string `json:"criterion"`
	Attempts     int    `json:"attempts,omitempty"`
	Commit       string `json:"commit,omitempty"`
	CostMicroUSD int64  `json:"cost_micro_usd,omitempty"`
}

// Done is one step that ended.
type Done struct {
	Turn         machine.Turn    `json:"turn"`
	Outcome      machine.Outcome `json:"outcome"`
	Why          string          `json:"why,omitempty"`
	CostMicroUSD int64           `json:"cost_micro_usd,omitempty"`
	Millis       int64           `json:"millis"`
	// N numbers the steps of a run from 1.
	N int `json:"n"`
}

// WaitFor names a wait.
type WaitFor string

// The waits.
const (
	WaitApproval WaitFor = "approval"
	WaitReport   WaitFor = "report"
	WaitCI       WaitFor = "ci"
	WaitForge    WaitFor = "forge"          // it has a limit or cannot be reached
	WaitUnknown  WaitFor = "unknown effect" // it cannot be read whether an effect happened
	// WaitQuota is for a provider's limit to end. It needs nobody.
	WaitQuota WaitFor = "quota"
	// WaitQuestion is for a person's answer to a role's question.
	WaitQuestion WaitFor = "question"
	// WaitMoney is for a higher cap.
	WaitMoney WaitFor = "money"
)

// Wait is a named wait.
type Wait struct {
	For WaitFor `json:"for"`
	// Subject is what an approval has to name: the hash of the plan, or the
	// commit that is to be published or merged. Of a question it is the id.
	Subject string `json:"subject,omitempty"`
	// Role says whose report is waited for, whose limit, or who asks.
	Role string `json:"role,omitempty"`
	// Why says what is not there yet, for a person.
	Why string `json:"why,omitempty"`
	// Text is the question.
	Text string `json:"text,omitempty"`
	// Reset is when a limit is said to end, in Unix milliseconds; 0 is unknown.
	Reset int64 `json:"reset,omitempty"`
	// NeedMicroUSD is the least cap with which the slice goes on.
	NeedMicroUSD int64 `json:"need_micro_usd,omitempty"`
	// Since and Until are Unix milliseconds; without a deadline Until is 0.
	Since int64 `json:"since"`
	Until int64 `json:"until,omitempty"`
	// Asked counts how often it was asked, Reminded how often reminded.
	Asked    int `json:"asked,omitempty"`
	Reminded int `json:"reminded,omitempty"`
}

// Verdict is a person's answer at a gate. The empty one is none.
type Verdict string

// The verdicts.
const (
	Approved Verdict = "approved"
	Refused  Verdict = "rejected"
)

// Decision answers a gate.
type Decision struct {
	Verdict Verdict `json:"verdict"`
	// Subject is the hash that was looked at.
	Subject string `json:"subject"`
	// By is who decides.
	By   string `json:"by"`
	Note string `json:"note,omitempty"`
}

// Reported is the answer of a role that is driven from outside.
type Reported struct {
	Step machine.Step `json:"step"`
	// Task and Attempt count from 1; 0 is the one that is due.
	Task    int `json:"task,omitempty"`
	Attempt int `json:"attempt,omitempty"`
	// Role tells judges apart; empty is the one that is waited for.
	Role string `json:"role,omitempty"`
	// Answer is the role's answer, as its schema has it.
	Answer json.RawMessage `json:"answer"`
	By     string          `json:"by,omitempty"`
}

// Answered is a person's answer to a question.
type Answered struct {
	// ID is that of the question.
	ID   string `json:"id"`
	Text string `json:"text"`
	By   string `json:"by"`
}

// Renewed says that an account is free again.
type Renewed struct {
	By string `json:"by,omitempty"`
}

// Raised is a new cap of the slice, or of one role of it.
type Raised struct {
	// CapMicroUSD is the whole cap, not what is added to it.
	CapMicroUSD int64  `json:"cap_micro_usd"`
	Role        string `json:"role,omitempty"`
	By          string `json:"by"`
}

// Taken answers a message that was accepted.
type Taken struct {
	Slice string       `json:"slice"`
	Turn  machine.Turn `json:"turn"`
	// Said is one line for a person.
	Said string `json:"said"`
}

// Ignored is what came of messages that could not be taken: a signal has no answer.
type Ignored struct {
	Count int    `json:"count"`
	Last  string `json:"last"`
}

// Next answers the query `next`: what is due, and what whoever does it needs.
type Next struct {
	Turn    machine.Turn `json:"turn"`
	Waiting *Wait        `json:"waiting,omitempty"`
	// Folder is where an implementer works.
	Folder    string `json:"folder,omitempty"`
	Title     string `json:"title"`
	Task      *Task  `json:"task,omitempty"`
	Tasks     []Task `json:"tasks,omitempty"`
	Base      string `json:"base,omitempty"`
	Good      string `json:"good,omitempty"`
	Candidate string `json:"candidate,omitempty"`
	Whole     string `json:"whole,omitempty"`
	// Tip is the commit of the base that Whole contains.
	Tip      string        `json:"tip,omitempty"`
	Checks   []CheckResult `json:"checks,omitempty"`
	Feedback Feedback      `json:"feedback,omitzero"`
	// Session is what the implementer called its conversation about the task.
	Session string `json:"session,omitempty"`
	// Open are corrections that were not made.
	Open []Finding `json:"open,omitempty"`
	Repo string    `json:"repo"`
	Key  string    `json:"key"`
}

// Status answers the query `status`.
type Status struct {
	Slice   string        `json:"slice"`
	Title   string        `json:"title"`
	Repo    string        `json:"repo"`
	Base    string        `json:"base,omitempty"`
	Run     int           `json:"run"`
	State   machine.State `json:"state"`
	Due     *machine.Turn `json:"due,omitempty"`
	Since   int64         `json:"since"` // Unix milliseconds: when the step began
	Waiting *Wait         `json:"waiting,omitempty"`
	Ignored Ignored       `json:"ignored,omitzero"`
	Tasks   []TaskStatus  `json:"tasks"`
	// Costs is what was spent in this run, by role and step; Caps what a role
	// may spend; Handed the agents whose fallback is asked in their place.
	Costs  []RoleCost       `json:"costs,omitempty"`
	Caps   map[string]int64 `json:"caps,omitempty"`
	Handed []Handed         `json:"handed,omitempty"`
	Recent []Done           `json:"recent,omitempty"`
	Host   string           `json:"host,omitempty"`
	Folder string           `json:"folder,omitempty"`
	Result *Result          `json:"result,omitempty"`
	// Proposal is the pull request, CI what its checks say.
	Proposal Proposal      `json:"proposal,omitzero"`
	CI       []CheckResult `json:"ci,omitempty"`
}

// Result is how a slice ended: what the workflow returns, or the details of
// its failure.
type Result struct {
	Slice  string         `json:"slice"`
	Ending machine.Ending `json:"ending"`
	Cause  machine.Cause  `json:"cause,omitempty"`
	// Code is the exit code, Next what a person does next.
	Code     int           `json:"code"`
	Why      string        `json:"why,omitempty"`
	Next     string        `json:"next"`
	Step     machine.Step  `json:"step"`
	Tasks    []TaskStatus  `json:"tasks,omitempty"`
	Checks   []CheckResult `json:"checks,omitempty"`
	Findings []Finding     `json:"findings,omitempty"`
	Open     []Finding     `json:"open,omitempty"`
	// Struck are findings that do not count, with the reason: a place that is not
	// there, or skeptics who refuted it.
	Struck []Finding `json:"struck,omitempty"`
	// Late is how many blocking findings of later rounds became notes, because
	// they name lines that had not changed since the round before.
	Late int `json:"late,omitempty"`
	// Sandbox says how far agents were kept apart from the host.
	Sandbox      string     `json:"sandbox,omitempty"`
	Branch       string     `json:"branch,omitempty"`
	Commit       string     `json:"commit,omitempty"`
	Remote       string     `json:"remote,omitempty"`
	Proposal     Proposal   `json:"proposal,omitzero"`
	Merged       string     `json:"merged,omitempty"`
	CostMicroUSD int64      `json:"cost_micro_usd"`
	Costs        []RoleCost `json:"costs,omitempty"`
	Millis       int64      `json:"millis"`
	Ledger       Tail       `json:"ledger"`
	Kept         []string   `json:"kept,omitempty"`
	Undone       []string   `json:"undone,omitempty"`
	Failed       []string   `json:"failed,omitempty"`
}
