package workflows

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"go.temporal.io/sdk/workflow"

	"interlock/ledger"
	"interlock/machine"
	"interlock/slice"
)

// header returns what an activity is told; the lines that are not yet written
// travel with it, so that they are in git before its effect.
func (r *run) header(ctx workflow.Context, turn machine.Turn, op string) slice.Header {
	return slice.Header{
		Slice: r.id, Run: r.Run, Turn: turn, Op: op, Repo: r.spec.Repo, Key: r.Key,
		Base: r.Base, Good: r.Good, Plan: r.Plan, Lines: r.Ledger.Pending, At: workflow.Now(ctx).UnixMilli(),
	}
}

func (r *run) append(ctx workflow.Context, line ledger.Line) {
	line.Run = r.Run
	line.At = ledger.Stamp(workflow.Now(ctx))
	ledger.Append(&r.Ledger, line)
}

// intend writes the intent of a step and returns the id of its operation.
func (r *run) intend(ctx workflow.Context, turn machine.Turn) string {
	op := ledger.Op(r.id, r.Run, r.Ledger.N+1)
	r.append(ctx, ledger.Line{Kind: ledger.Intent, Op: op, Turn: turn})
	return op
}

func (r *run) doneLine(turn machine.Turn, op string, ended slice.Ended) ledger.Line {
	line := ledger.Line{
		Kind: ledger.Done, Op: op, Turn: turn, Outcome: ended.Outcome, Cause: ended.Cause,
		CostMicroUSD: ended.CostMicroUSD, Evidence: ended.Evidence, Why: ended.Why,
	}
	if ended.Outcome != machine.Done {
		return line
	}
	switch turn.Step {
	case machine.Prepare:
		rules := r.State.Rules
		line.Rules, line.Base = &rules, r.Base
	case machine.Implement, machine.Check, machine.Judge:
		line.Tree = r.Candidate
	case machine.Commit:
		line.Commit = r.Good
	case machine.Reconcile, machine.Verify, machine.JudgeSlice, machine.E2E, machine.Publish,
		machine.Propose, machine.AwaitCI, machine.Merge:
		line.Commit = r.Whole
	default: // the others leave nothing behind in git
	}
	return line
}

// hash returns the SHA-256 of v as JSON.
func hash(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // the types of package slice all have a JSON form
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// size returns the length of v as JSON.
func size(v any) int {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // as in hash
	}
	return len(b)
}

func millis(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
