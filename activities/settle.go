package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"interlock/activities/agent"
	"interlock/machine"
	"interlock/slice"
	"interlock/spec"
)

// settle says what the calls of an operation have cost whose worker was killed
// and which is not tried again, because the slice was cancelled meanwhile. It
// reads what once and the judges have kept, and calls nobody.
func (a *Activities) settle(ctx context.Context, in slice.SettleIn) (slice.Ended, error) {
	w, err := a.open(ctx, in.Header)
	if err != nil {
		return slice.Ended{}, err
	}
	terms, err := w.terms(ctx)
	if err != nil {
		return slice.Ended{}, err
	}
	out := w.ended(machine.Limited, "it was cut off")
	kept := a.kept(in.Header)
	b, err := os.ReadFile(kept + doneSuffix)
	if err == nil {
		var done slice.Ended
		if err := json.Unmarshal(b, &done); err != nil {
			return slice.Ended{}, fmt.Errorf("%s: %w", kept+doneSuffix, err)
		}
		out.CostMicroUSD, out.Evidence = done.CostMicroUSD, done.Evidence
		return out, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return slice.Ended{}, err
	}
	b, err = os.ReadFile(kept + begunSuffix)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return slice.Ended{}, err
	}
	out.CostMicroUSD = int64(len(b)) * reservation(terms.Policy, in.Turn.Step)
	verdicts, err := filepath.Glob(filepath.Join(a.folder(in.Header, "verdicts"), "*"))
	if err != nil {
		return slice.Ended{}, err
	}
	for _, path := range verdicts {
		if v, ok := readVerdict(path); ok && v.Op == in.Op {
			out.CostMicroUSD += v.CostMicroUSD
			out.Evidence = append(out.Evidence, v.Evidence...)
		}
	}
	return out, nil
}

// reservation is the most that one call of a step may cost. Which of several
// judges was cut off is not kept: it is taken for the dearest.
func reservation(p slice.Policy, step machine.Step) int64 {
	switch step {
	case machine.Implement:
		return agent.Reservation(p.Agents.Implementer)
	case machine.Advise:
		return agent.Reservation(spec.Advisor(p))
	case machine.Reconcile:
		if p.Agents.Reconciler != nil {
			return agent.Reservation(*p.Agents.Reconciler)
		}
	case machine.Judge, machine.JudgeSlice:
		var most int64
		for _, j := range p.Agents.Judges {
			most = max(most, agent.Reservation(j))
		}
		return most
	case machine.Prepare, machine.Baseline, machine.PlanGate, machine.Check, machine.Commit,
		machine.Verify, machine.E2E, machine.PublishGate, machine.Publish, machine.Propose, machine.AwaitCI,
		machine.MergeGate, machine.Merge:
	}
	return 0
}
