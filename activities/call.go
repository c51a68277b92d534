package activities

import (
	"context"
	"encoding/json"
	"errors"

	"interlock/activities/agent"
	"interlock/machine"
	"interlock/slice"
)

// call asks an agent in a folder. tries is how many earlier tries of the same
// operation began and have no result; each is charged its reservation.
//
// A call that the slice's cancellation ended is an answer too, so that its
// cost is counted; one that the end of the worker ended is an error, and is
// tried again.
func (a *Activities) call(ctx context.Context, w *work, policy slice.Policy, who slice.Agent, brief agent.Brief, dir string, report json.RawMessage, tries int) (agent.Answer, error) {
	release, err := a.slots.take(ctx)
	if err != nil {
		return agent.Answer{}, err
	}
	defer release()
	adapter, err := agent.New(who.Use, a.evidence)
	if err != nil {
		return agent.Answer{Class: agent.Fatal, Reason: err.Error()}, nil
	}
	env, err := agent.Environment(a.folder(w.Header, "agents", string(brief.Role()), who.Name), policy.Env, nil)
	if err != nil {
		return agent.Answer{}, err
	}
	answer, err := adapter.Call(ctx, agent.Call{
		Agent: who, Brief: brief, Dir: dir, Env: env, Marker: a.marker(w.Header), Report: report,
		OnProgress: func(s string) { tell(ctx, s) },
	})
	answer.CostMicroUSD += int64(tries) * agent.Reservation(who)
	if err != nil && ctx.Err() != nil && !errors.Is(context.Cause(ctx), errStopping) {
		err = nil
	}
	return answer, err
}

// answered is how a step ends whose call ended so.
func (w *work) answered(a agent.Answer) slice.Ended {
	outcome, cause, ok := a.Class.Ends()
	if !ok {
		outcome, cause = machine.Unanswered, machine.CauseFatal
	}
	ended := w.ended(outcome, a.Reason)
	ended.Cause = cause
	ended.CostMicroUSD = a.CostMicroUSD
	ended.Evidence = a.Evidence
	return ended
}

// head is what every brief of the slice begins with.
func (w *work) head(t terms) agent.Head {
	return agent.Head{Slice: w.Slice, Title: t.Spec.Title}
}
