// Package agent asks agent programs. Whatever the program and whatever the
// role, a call is a brief (a JSON document) and a folder, and ends as an
// Answer: one class of a closed list, the answer if it fits the schema of its
// role, and what it cost.
//
// The brief and everything that the program wrote are kept as evidence,
// without secrets. The program's word is never taken for its work: what became
// of the files is for the caller to look at.
package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"interlock/activities/evidence"
	"interlock/machine"
	"interlock/slice"
)

// Role is what an agent program is asked for.
type Role string

// The roles. Their names are those of the policy file, in the singular.
const (
	Implementer Role = "implementer"
	Judge       Role = "judge"
	Skeptic     Role = "skeptic"
	Advisor     Role = "advisor"
	Reconciler  Role = "reconciler"
)

// Roles returns all of them.
func Roles() []Role { return []Role{Implementer, Judge, Skeptic, Advisor, Reconciler} }

// ReadOnly reports whether the role may change nothing: the caller gives it a
// view of its own and compares it with its tree hash afterwards.
func (r Role) ReadOnly() bool { return r == Judge || r == Skeptic || r == Advisor }

// Class is how a call ended.
type Class string

// The classes.
const (
	// Answered is an answer that fits the schema of its role.
	Answered Class = "answered"
	// Discarded is an answer that does not, or a program that failed.
	Discarded Class = "discarded"
	// Limit is a limit of the provider's account, as the provider said it.
	Limit Class = "limit"
	// Transient is a failure of the provider or the network that may be over
	// at the next try.
	Transient Class = "transient"
	// Fatal is a failure that every further call would meet too: no program,
	// no login, no such model.
	Fatal Class = "fatal"
	// Context is a conversation that grew too long for the model.
	Context Class = "context"
	// Budget is a call that reached the money it was allowed.
	Budget Class = "budget"
	// Unanswered is a call that did not end in its time.
	Unanswered Class = "unanswered"
)

// classes says how often a call is made again that ended so, and how the step
// ends then. No attempt is spent by any of them. A transient failure is tried
// again after a pause, a full context with a new conversation and a shorter
// brief. What is limited stays due: a limit is waited for, and a call that
// reached its budget is a matter of the policy's on_over_budget.
var classes = []struct {
	class   Class
	again   int
	outcome machine.Outcome
	cause   machine.Cause
}{
	{Answered, 0, machine.Done, ""},
	{Discarded, 0, machine.Discarded, ""},
	{Limit, 0, machine.Limited, ""},
	{Transient, 5, machine.Unanswered, machine.CauseTimeout},
	{Fatal, 0, machine.Unanswered, machine.CauseFatal},
	{Context, 1, machine.Unanswered, machine.CauseFatal},
	{Budget, 0, machine.Limited, ""},
	{Unanswered, 0, machine.Unanswered, machine.CauseTimeout},
}

// Again returns how often a call that ended as c is made again.
func (c Class) Again() int {
	for _, row := range classes {
		if row.class == c {
			return row.again
		}
	}
	return 0
}

// Ends returns how a step ends whose call ended as c; ok is false if there is
// no such class.
func (c Class) Ends() (outcome machine.Outcome, cause machine.Cause, ok bool) {
	for _, row := range classes {
		if row.class == c {
			return row.outcome, row.cause, true
		}
	}
	return "", "", false
}

// Call is one question to one agent program.
type Call struct {
	Agent slice.Agent
	// Brief tells the role too.
	Brief Brief
	// Dir is the working directory, an absolute path: the tree, a view of it,
	// or an empty folder.
	Dir string
	// Env is the whole environment: see Environment.
	Env []string
	// Own is a folder of the slice's, outside of Dir, where an adapter keeps
	// files of its own; a HOME below it is the slice's too. Empty means a folder
	// in HOME.
	Own string
	// Session is that of an earlier answer, to be taken up again; empty begins a
	// new one. The adapter command gets it in its brief.
	Session string
	// Prices are what tokens cost, for programs that do not tell their cost.
	Prices []slice.Price
	// Marker and Within are those of process.Command.
	Marker string
	Within []string
	// Report is the answer of a role that is driven from outside.
	Report json.RawMessage
	// OnProgress, if not nil, is told every second how far the call is.
	OnProgress func(string)
}

// Answer is how a call ended. It holds no secret of Call.Env.
type Answer struct {
	Class Class
	// Raw is the answer, which fits the schema of its role: an ImplementAnswer,
	// JudgeAnswer, SkepticAnswer, AdviseAnswer or ReconcileAnswer. It is empty unless the
	// class is Answered.
	Raw json.RawMessage
	// CostMicroUSD is what to charge. CostKnown is false if the program did not
	// say and the reservation is charged, or if it was ended after it said.
	CostMicroUSD int64
	CostKnown    bool
	// Session is under what name the conversation can be taken up again.
	Session string
	// Reason is one line for a person: what happened and what to do. It is
	// empty if the class is Answered.
	Reason string
	// FellBack is true if Call.Session was not there, and a new session was
	// begun with the whole brief.
	FellBack bool
	// Model is the model that answered, Tokens what it used; each is zero if the
	// program did not say.
	Model  string
	Tokens Tokens
	// ResetAt is when a limit ends, Wait how long the provider asks to wait
	// before the next try; each is zero if that is not known. Neither is checked.
	ResetAt time.Time
	Wait    time.Duration
	// Evidence is the brief and what the program wrote.
	Evidence []slice.Evidence
}

// Adapter drives one kind of agent program.
//
// An error means that the infrastructure failed or that ctx was cancelled; the
// answer then still says what to charge, and which evidence there is.
type Adapter interface {
	Call(context.Context, Call) (Answer, error)
}

// New returns the adapter of that name.
func New(use slice.Adapter, store *evidence.Store) (Adapter, error) {
	switch use {
	case slice.AdapterCommand:
		return &Command{Evidence: store}, nil
	case slice.AdapterExternal:
		return &External{Evidence: store}, nil
	default:
	}
	if p, ok := programs[use]; ok {
		return &Program{Evidence: store, use: use, binary: p.binary, command: p.command}, nil
	}
	return nil, fmt.Errorf("there is no adapter %q: expected use: command, external, claude, codex, gemini or opencode", use)
}

// Reservation is what one call of the agent may cost, in millionths of a US
// dollar, and what is charged when its cost is not known.
func Reservation(a slice.Agent) int64 {
	if a.USD == nil {
		return int64(slice.DefaultCallUSD)
	}
	return int64(*a.USD)
}

// Environment builds the environment of an agent program from nothing: PATH of
// the worker, HOME and TMPDIR in the folder own, which are made if need be,
// LANG=C.UTF-8, TERM=dumb, GIT_TERMINAL_PROMPT=0, and the variables of the
// worker that policy names in pass. A policy that passes HOME gives agents the
// logins and settings of the worker's user. A nil lookup means os.LookupEnv.
func Environment(own string, pass []string, lookup evidence.Lookup) ([]string, error) {
	home, tmp := filepath.Join(own, "home"), filepath.Join(own, "tmp")
	for _, dir := range []string{home, tmp} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("folders of an agent: %w", err)
		}
	}
	fixed := []string{"TMPDIR=" + tmp, "LANG=C.UTF-8", "TERM=dumb", "GIT_TERMINAL_PROMPT=0"}
	if !slices.Contains(pass, "HOME") {
		fixed = append(fixed, "HOME="+home)
	}
	return evidence.Environment(fixed, pass, lookup), nil
}
