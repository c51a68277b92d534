package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"interlock/activities/agent"
	"interlock/machine"
	"interlock/slice"
)

// question is one question to an agent of the policy.
type question struct {
	who    slice.Agent
	brief  agent.Brief
	dir    string
	report json.RawMessage
	terms  slice.Calls
	// session is the conversation to go on with, if there is one.
	session string
	// before, if not nil, prepares the folder for each call.
	before func() error
}

// reply is how a question ended.
type reply struct {
	agent.Answer
	// limit is there if the class is Limit, short if the money does not cover it.
	limit *slice.Limit
	short *slice.Shortage
}

// call asks an agent in a folder, or its fallback where that has taken over. It
// asks again what the table of classes says is worth it. What it has cost is on
// the tab.
//
// A call that the slice's cancellation ended is an answer too, so that its
// cost is counted; one that the end of the worker ended is an error, and is
// tried again.
func (a *Activities) call(ctx context.Context, w *work, t *tab, policy slice.Policy, q question) (reply, error) {
	c := called{question: q, w: w, t: t, who: q.who, prices: policy.Prices}
	if q.who.Fallback != nil && slices.Contains(q.terms.Fallback, q.who.Name) {
		c.who, c.fallback = *q.who.Fallback, true
	}
	fatal := func(err error) reply { return reply{Answer: agent.Answer{Class: agent.Fatal, Reason: err.Error()}} }
	var err error
	if c.adapter, err = agent.New(c.who.Use, a.evidence); err != nil {
		return fatal(err), nil
	}
	folder := a.folder(w.Header, "agents", string(q.brief.Role()), c.who.Name)
	if c.env, err = agent.Environment(folder, policy.Env, nil); err != nil {
		return reply{}, err
	}
	c.own = folder
	if why := a.cannotSandbox(policy); why != "" {
		return fatal(errors.New(why)), nil
	}
	c.apart = func() []string { return a.apart(w, policy, c, folder) }
	c.account = account(c.who, c.env, policy.Env)
	var kept []slice.Evidence
	used := map[agent.Class]int{}
	for {
		got, err := a.callOnce(ctx, &c)
		kept = append(kept, got.Evidence...)
		got.Evidence = kept
		if err != nil && ctx.Err() != nil && !errors.Is(context.Cause(ctx), errStopping) {
			return got, nil
		}
		if err != nil || got.limit != nil || got.short != nil || ctx.Err() != nil {
			return got, err
		}
		if used[got.Class]++; used[got.Class] > got.Class.Again() {
			return got, nil
		}
		switch got.Class {
		case agent.Transient:
			pause := a.pause(used[got.Class], got.Wait)
			tell(ctx, fmt.Sprintf("%s; the next try is in %s", got.Reason, pause))
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				if errors.Is(context.Cause(ctx), errStopping) {
					return got, context.Cause(ctx)
				}
				return got, nil
			}
		case agent.Context:
			c.brief, c.session, c.fresh = agent.Shorter(c.brief), "", true
		default:
		}
	}
}

// called is a question on its way.
type called struct {
	question
	w        *work
	t        *tab
	who      slice.Agent
	fallback bool
	fresh    bool
	adapter  agent.Adapter
	env      []string
	account  string
	// own is the adapter's folder, prices are the policy's, apart is what runs its
	// program apart from the host.
	own    string
	apart  func() []string
	prices []slice.Price
}

// callOnce makes one call, if neither the account nor the money forbids it.
func (a *Activities) callOnce(ctx context.Context, c *called) (reply, error) {
	release, held, err := a.admit(ctx, c)
	if err != nil || held != nil {
		return reply{Answer: agent.Answer{Class: agent.Limit, Reason: c.name() + ": the account is at its limit, as another call found"}, limit: held}, err
	}
	defer release()
	role, reserve := string(c.brief.Role()), agent.Reservation(c.who)
	began := a.limits.now()
	leave := func(met bool, reset time.Time, free bool) (time.Time, error) {
		return a.limits.leave(c.account, c.who.Use, began, met, reset, free)
	}
	if left := c.terms.LeftMicroUSD; left != nil && c.t.total()+reserve > *left {
		_, err := leave(false, time.Time{}, false)
		return reply{Answer: agent.Answer{Class: agent.Budget, Reason: fmt.Sprintf("%s may cost %s, but %s is left: it is not called", c.name(), slice.USD(reserve), slice.USD(max(*left-c.t.total(), 0)))},
			short: &slice.Shortage{Role: role, NeedMicroUSD: reserve}}, err
	}
	brief := agent.Begun(c.brief, c.session)
	doc, err := agent.Encode(brief)
	if err == nil && c.before != nil {
		err = c.before()
	}
	if err == nil {
		err = c.t.reserve(slice.Called{Role: role, Agent: c.question.who.Name, Use: c.who.Use, Fallback: c.fallback, BriefBytes: int64(len(doc)), Fresh: c.fresh}, reserve)
	}
	if err != nil {
		_, left := leave(false, time.Time{}, false)
		return reply{}, errors.Join(err, left)
	}
	answer, callErr := c.adapter.Call(ctx, agent.Call{
		Agent: c.who, Brief: brief, Dir: c.dir, Env: c.env, Marker: a.marker(c.w.Header), Within: c.apart(), Report: c.report, Session: c.session,
		Own: c.own, Prices: c.prices,
		OnProgress: func(s string) { tell(ctx, s) },
	})
	got := reply{Answer: answer}
	err = c.t.settle(answer)
	met := callErr == nil && answer.Class == agent.Limit
	reset := answer.ResetAt
	if met && reset.IsZero() && answer.Wait > 0 {
		reset = a.limits.now().Add(answer.Wait)
	}
	until, leaveErr := leave(met, reset, callErr == nil && free[answer.Class])
	if met {
		got.limit = &slice.Limit{Agent: c.question.who.Name, Fallback: c.fallback, ResetAt: unixMilli(reset), Until: unixMilli(until)}
	}
	if answer.Class == agent.Budget {
		got.short = &slice.Shortage{Role: role, NeedMicroUSD: reserve, Reached: true}
	}
	for _, e := range []error{callErr, err, leaveErr} {
		if e != nil {
			return got, e
		}
	}
	return got, nil
}

// free are the classes that show that an account can be used.
var free = map[agent.Class]bool{agent.Answered: true, agent.Discarded: true, agent.Context: true, agent.Budget: true}

// admit waits for a slot, and then looks whether the account may be used: it may
// have met its limit meanwhile. Who waits for the first call after a limit holds
// no slot.
func (a *Activities) admit(ctx context.Context, c *called) (release func(), held *slice.Limit, err error) {
	for {
		release, err := a.slots.take(ctx)
		if err != nil {
			return nil, nil, err
		}
		if c.who.Use == slice.AdapterExternal {
			return release, nil, nil
		}
		has, first, err := a.limits.enter(c.account, c.terms.Renewed)
		if err == nil && has == nil && first == nil {
			return release, nil, nil
		}
		release()
		if err != nil {
			return nil, nil, err
		}
		if has != nil {
			return nil, &slice.Limit{Agent: c.question.who.Name, Fallback: c.fallback, Held: true,
				ResetAt: unixMilli(has.ResetAt), Until: unixMilli(has.Until)}, nil
		}
		if err := follow(ctx, first); err != nil {
			return nil, nil, err
		}
	}
}

func unixMilli(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func (c *called) name() string {
	if c.who.Name != "" {
		return c.who.Name
	}
	return string(c.brief.Role())
}

// mostWait is the longest that a provider's own wish prolongs a pause.
const mostWait = 2 * time.Minute

// pause is how long to wait before the nth try after a failure that may pass.
func (a *Activities) pause(n int, asked time.Duration) time.Duration {
	return min(max(a.backoff<<(n-1), asked), mostWait)
}

// answered is how a step ends whose call ended so. What it has cost is the tab's
// to say.
func (w *work) answered(a reply) slice.Ended {
	outcome, cause, ok := a.Class.Ends()
	if !ok {
		outcome, cause = machine.Unanswered, machine.CauseFatal
	}
	ended := w.ended(outcome, a.Reason)
	ended.Cause = cause
	ended.Evidence = a.Evidence
	ended.Limit, ended.Short = a.limit, a.short
	return ended
}

// head is what every brief of the slice begins with.
func (w *work) head(t terms) agent.Head {
	return agent.Head{Slice: w.Slice, Title: t.Spec.Title}
}
