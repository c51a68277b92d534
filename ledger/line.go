// Package ledger is the record of a slice: a hash chain of JSON lines, from
// which the state of the slice is deduced. It makes, reads and folds lines;
// where they are kept is not its business.
package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"interlock/machine"
	"interlock/slice"
)

// A Kind says what a line records.
type Kind string

// The kinds.
const (
	Start  Kind = "start"  // a run begins, from the first step
	Intent Kind = "intent" // a step is about to begin
	Done   Kind = "done"   // the step of the last intent ended
	Undo   Kind = "undo"   // an effect was taken back; only undo and end follow in this run
	End    Kind = "end"    // the run ended
	Reopen Kind = "reopen" // a run begins, and goes on where the last one ended
	Raise  Kind = "raise"  // a person raised the cap
)

// MaxWhy is the most bytes of Why and Seen that a line keeps.
const MaxWhy = 1000

// MaxCost is the most that one line can say a step cost, in millionths of a
// US dollar: a thousand million dollars.
const MaxCost = 1_000_000_000_000_000

// A Line is one line of the record. Which fields a line has follows from its
// kind; N, At, Run and Kind are in every one.
type Line struct {
	// N is the line's number, from 1; Append sets it.
	N int `json:"n"`
	// Prev is the SHA-256 of the line before, in hex; Append sets it. The first line has none.
	Prev string `json:"prev,omitempty"`
	// At is when it happened, as Stamp writes it.
	At string `json:"at"`
	// Run counts the runs of the slice, from 1.
	Run  int  `json:"run"`
	Kind Kind `json:"kind"`

	// Slice is the id of the slice, Tasks the number of its tasks (start).
	Slice string `json:"slice,omitempty"`
	Tasks int    `json:"tasks,omitempty"`
	// Spec is the SHA-256 of the spec, in hex (start and reopen).
	Spec string `json:"spec,omitempty"`
	// Reopening is what a person brought to a slice that had ended (reopen).
	Reopening *machine.Reopening `json:"reopening,omitempty"`

	// Op identifies the operation, as the function Op makes it of the number
	// of the intent (intent and done).
	Op string `json:"op,omitempty"`
	// Turn is what was due (intent and done).
	Turn machine.Turn `json:"turn,omitzero"`
	// Outcome is how the step ended (done).
	Outcome machine.Outcome `json:"outcome,omitempty"`
	// CostMicroUSD is what the step cost, in millionths of a US dollar (done).
	CostMicroUSD int64 `json:"cost_micro_usd,omitempty"`
	// Tree is the candidate (done of implement, check and judge).
	Tree string `json:"tree,omitempty"`
	// Commit is the commit that was made or measured (done), or the merge by
	// hand that is adopted (reopen).
	Commit   string           `json:"commit,omitempty"`
	Evidence []slice.Evidence `json:"evidence,omitempty"` // (done)
	// Base is the base commit, and Rules what policy decides (done of prepare with outcome done).
	Base  string         `json:"base,omitempty"`
	Rules *machine.Rules `json:"rules,omitempty"`

	// CapMicroUSD is the new cap of the slice, in millionths of a US dollar, or of
	// Role if that is there; Why says who raised it (raise).
	CapMicroUSD int64  `json:"cap_micro_usd,omitempty"`
	Role        string `json:"role,omitempty"`

	// Undo is the compensation, and Seen how the world looked after it (undo).
	Undo slice.Undone `json:"undo,omitempty"`
	Seen string       `json:"seen,omitempty"`

	// Ending is how the run ended (end).
	Ending machine.Ending `json:"ending,omitempty"`
	// Cause belongs to Outcome (done) or Ending (end).
	Cause machine.Cause `json:"cause,omitempty"`
	// Why is for a person; of a reopen it is the reason (done, end, reopen, raise).
	Why string `json:"why,omitempty"`
}

// A BrokenError is a line that cannot be part of the record, or does not
// follow from the lines before it.
type BrokenError struct {
	Line int // from 1
	Why  string
}

func (e *BrokenError) Error() string {
	return fmt.Sprintf("the record does not verify: line %d: %s", e.Line, e.Why)
}

// Op returns the id of the operation whose intent is line n of run.
func Op(slice string, run, n int) string { return fmt.Sprintf("%s/%d/%d", slice, run, n) }

const stamp = "2006-01-02T15:04:05.000Z"

// Stamp writes a time as a line does: RFC 3339 in UTC, with milliseconds.
func Stamp(t time.Time) string { return t.UTC().Format(stamp) }

// Hash returns the SHA-256 of a line, in hex.
func Hash(line string) string {
	sum := sha256.Sum256([]byte(line))
	return hex.EncodeToString(sum[:])
}

// Append adds l to the record that ends as t says. It sets l's number and the
// hash of the line before, and cuts Why and Seen to MaxWhy bytes.
func Append(t *slice.Tail, l Line) {
	l.N, l.Prev = t.N+1, t.Head
	l.Why, l.Seen = cut(l.Why), cut(l.Seen)
	line := l.String()
	t.N, t.Head = l.N, Hash(line)
	t.Pending = append(t.Pending, line)
}

// Written drops the pending lines of t that are known to be written: those up
// to number written.
func Written(t *slice.Tail, written int) {
	n := min(max(written-(t.N-len(t.Pending)), 0), len(t.Pending))
	t.Pending = append([]string(nil), t.Pending[n:]...)
}

// String writes l as it stands in the record, without a newline.
func (l Line) String() string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(l); err != nil {
		panic(fmt.Sprintf("ledger: a line is made of strings and numbers only: %v", err))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// cut makes s valid UTF-8 of at most MaxWhy bytes.
func cut(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= MaxWhy {
		return s
	}
	end := MaxWhy - len("…")
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}

// Number returns the number of a line without reading the rest of it.
func Number(line string) (int, error) {
	rest, ok := strings.CutPrefix(line, `{"n":`)
	digits, _, more := strings.Cut(rest, ",")
	n, err := strconv.Atoi(digits)
	if !ok || !more || err != nil || n < 1 || strconv.Itoa(n) != digits {
		return 0, fmt.Errorf("this is no line of a record: %.60q", line)
	}
	return n, nil
}

// Parse reads the lines of a whole record and verifies their numbers, form
// and chain. What is wrong is a *BrokenError.
//
// Nothing in the record vouches for the last line: see Verify.
func Parse(lines []string) ([]Line, error) { return parse(lines, "") }

// Verify checks that a record holds, as its line n, the one whose hash is
// head: the number and hash are those that were noted elsewhere, in the trailer
// of a commit or the state of a workflow. Lines may follow it.
func Verify(lines []string, n int, head string) error {
	if len(lines) >= n && n > 0 {
		if _, err := parse(lines[:n], head); err != nil {
			return err
		}
	}
	if _, err := parse(lines, ""); err != nil {
		return err
	}
	if len(lines) < n {
		return &BrokenError{len(lines) + 1, fmt.Sprintf("it is missing: the record is known to have %d lines", n)}
	}
	return nil
}

// parse reads lines; head, if not empty, is the hash that the last must have.
func parse(lines []string, head string) ([]Line, error) {
	parsed := make([]Line, len(lines))
	prev := ""
	for i, text := range lines {
		l, why := read(text, i+1)
		if why != "" {
			return nil, &BrokenError{i + 1, why}
		}
		if l.Prev != prev {
			if i > 0 && vouched(lines, i, head) {
				return nil, &BrokenError{i, "it was changed: the line after it has another hash of it"}
			}
			return nil, &BrokenError{i + 1, fmt.Sprintf("it does not follow line %d, whose hash is %.12s…", i, prev)}
		}
		parsed[i], prev = l, Hash(text)
	}
	if head != "" && prev != head {
		return nil, &BrokenError{len(lines), "it was changed: its hash is not the one that was noted"}
	}
	return parsed, nil
}

// vouched says whether the line after line i, or the noted head, confirms it.
// It decides which of two lines that do not fit was changed.
func vouched(lines []string, i int, head string) bool {
	if i+1 == len(lines) {
		return head != "" && Hash(lines[i]) == head
	}
	var after Line
	return json.Unmarshal([]byte(lines[i+1]), &after) == nil && after.Prev == Hash(lines[i])
}

// read reads one line by itself and says why it cannot be line n.
func read(text string, n int) (l Line, why string) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&l); err != nil {
		return l, fmt.Sprintf("it cannot be read: %v", err)
	}
	if l.N != n {
		return l, fmt.Sprintf("it has number %d", l.N)
	}
	if l.String() != text {
		return l, "its bytes are not those that a record is written with"
	}
	if own := l.fields(); own.String() != text {
		return l, fmt.Sprintf("it has fields that a line of kind %q does not have", l.Kind)
	}
	return l, l.flaw()
}

// fields returns l with nothing but the fields of its kind.
func (l Line) fields() Line {
	m := Line{N: l.N, Prev: l.Prev, At: l.At, Run: l.Run, Kind: l.Kind}
	switch l.Kind {
	case Start:
		m.Slice, m.Tasks, m.Spec = l.Slice, l.Tasks, l.Spec
	case Reopen:
		m.Spec, m.Reopening, m.Commit, m.Why = l.Spec, l.Reopening, l.Commit, l.Why
	case Intent:
		m.Op, m.Turn = l.Op, l.Turn
	case Done:
		m.Op, m.Turn, m.Outcome, m.Cause = l.Op, l.Turn, l.Outcome, l.Cause
		m.CostMicroUSD, m.Tree, m.Commit = l.CostMicroUSD, l.Tree, l.Commit
		m.Evidence, m.Why = l.Evidence, l.Why
		if l.Turn.Step == machine.Prepare && l.Outcome == machine.Done {
			m.Base, m.Rules = l.Base, l.Rules
		}
	case Raise:
		m.CapMicroUSD, m.Role, m.Why = l.CapMicroUSD, l.Role, l.Why
	case Undo:
		m.Undo, m.Seen = l.Undo, l.Seen
	case End:
		m.Ending, m.Cause, m.Why = l.Ending, l.Cause, l.Why
	}
	return m
}

// flaw says what is wrong with the values of l, or nothing.
func (l Line) flaw() string {
	if t, err := time.Parse(stamp, l.At); err != nil || Stamp(t) != l.At {
		return fmt.Sprintf("%q is no time such as %s", l.At, stamp)
	}
	if l.Run < 1 {
		return fmt.Sprintf("it has run %d", l.Run)
	}
	if len(l.Why) > MaxWhy || len(l.Seen) > MaxWhy {
		return fmt.Sprintf("it tells more than %d bytes", MaxWhy)
	}
	switch l.Kind {
	case Start:
		return first(l.Slice == "", "it names no slice", l.Tasks < 1, "it has no task", !digest(l.Spec), "it has no hash of the spec")
	case Reopen:
		return first(!digest(l.Spec), "it has no hash of the spec", l.Why == "", "it has no reason",
			l.Reopening == nil, "it does not say what the slice is reopened with",
			l.Reopening != nil && !sound(l.Reopening.Rules), "it has rules that cannot be",
			l.Commit != "" && !object(l.Commit), "its commit is no object id")
	case Intent:
		return first(l.Op == "", "it names no operation", !isStep(l.Turn.Step), fmt.Sprintf("%q is no step", l.Turn.Step))
	case Done:
		prepared := l.Turn.Step == machine.Prepare && l.Outcome == machine.Done
		why := first(l.Op == "", "it names no operation", !isStep(l.Turn.Step), fmt.Sprintf("%q is no step", l.Turn.Step),
			!isOutcome(l.Outcome), fmt.Sprintf("%q is no outcome", l.Outcome),
			l.Cause != "" && !isCause(l.Cause), fmt.Sprintf("%q is no cause", l.Cause),
			l.CostMicroUSD < 0 || l.CostMicroUSD > MaxCost, fmt.Sprintf("%d micro-dollars cannot be its cost", l.CostMicroUSD),
			l.Tree != "" && !object(l.Tree), "its tree is no object id", l.Commit != "" && !object(l.Commit), "its commit is no object id",
			l.Base != "" && !object(l.Base), "its base is no object id",
			prepared && l.Rules == nil, "it has no rules", l.Rules != nil && !sound(*l.Rules), "it has rules that cannot be",
			l.Turn.Step == machine.Commit && l.Outcome == machine.Done && l.Commit == "", "it names no commit")
		for _, e := range l.Evidence {
			if why == "" && (!digest(e.Hash) || e.Size < 0) {
				why = fmt.Sprintf("evidence %q has no hash or no size", e.Name)
			}
		}
		return why
	case Raise:
		return first(l.CapMicroUSD < 1 || l.CapMicroUSD > MaxCost, fmt.Sprintf("%d micro-dollars cannot be a cap", l.CapMicroUSD),
			l.Why == "", "it does not say who raised the cap")
	case Undo:
		return first(l.Undo != slice.UndoWorkspace && l.Undo != slice.UndoViews && l.Undo != slice.UndoBranch && l.Undo != slice.UndoProposal, fmt.Sprintf("%q is no compensation", l.Undo))
	case End:
		_, ok := machine.Find(l.Ending, l.Cause)
		return first(!ok, fmt.Sprintf("%q with cause %q is no ending", l.Ending, l.Cause))
	}
	return fmt.Sprintf("%q is no kind of line", l.Kind)
}

// first returns the text after the first condition that is true.
func first(pairs ...any) string {
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i].(bool) {
			return pairs[i+1].(string)
		}
	}
	return ""
}

func sound(r machine.Rules) bool {
	b := r.Budgets
	switch r.DeliverTo {
	case machine.ToBranch, machine.ToPublish, machine.ToPropose, machine.ToMerge:
		return r.CapMicroUSD >= 0 && min(b.Checks, b.Judge, b.Corrections, b.Reconcile, b.Moves, b.CI, b.Discards, b.Lost) >= 0
	}
	return false
}

func digest(s string) bool { return len(s) == 64 && isHex(s) }

// object says whether s is the full id of a git object, SHA-1 or SHA-256.
func object(s string) bool { return (len(s) == 40 || len(s) == 64) && isHex(s) }

func isHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }

func isStep(s machine.Step) bool {
	switch s {
	case machine.Prepare, machine.Baseline, machine.PlanGate, machine.Implement, machine.Check, machine.Judge,
		machine.Advise, machine.Commit, machine.Reconcile, machine.Verify, machine.JudgeSlice, machine.E2E,
		machine.PublishGate, machine.Publish, machine.Propose, machine.AwaitCI, machine.MergeGate, machine.Merge:
		return true
	}
	return false
}

func isOutcome(o machine.Outcome) bool {
	switch o {
	case machine.Done, machine.Failed, machine.Unmeasured, machine.Corrections, machine.Discarded,
		machine.Unanswered, machine.Limited, machine.Lost:
		return true
	}
	return false
}

func isCause(c machine.Cause) bool {
	switch c {
	case machine.CauseInvalid, machine.CausePrecondition, machine.CauseBaseMoved, machine.CauseTask, machine.CauseSlice,
		machine.CauseDiscards, machine.CauseRed, machine.CauseUnmeasured, machine.CauseBaseRed,
		machine.CauseBaseUnmeasured, machine.CauseConflict, machine.CauseBaseMoves, machine.CauseTimeout,
		machine.CauseLimit, machine.CauseHost, machine.CauseFatal, machine.CauseRefused, machine.CauseClosed,
		machine.CauseMissing, machine.CauseUnknown:
		return true
	}
	return false
}
