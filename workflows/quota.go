package workflows

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"interlock/machine"
	"interlock/slice"
)

// ready waits until the step may be taken: until a limit is over, a question is
// answered, and the money covers it. It reports false if the slice went on or
// ended meanwhile, so that the step is not to be taken now.
func (r *run) ready(ctx workflow.Context, turn machine.Turn) (bool, error) {
	if !machine.Costs(turn.Step) {
		return true, nil
	}
	if r.Held != nil {
		over, err := r.awaitQuota(ctx)
		if err != nil {
			return false, err
		}
		if over != "" {
			r.since = workflow.Now(ctx)
			r.record(ctx, turn, r.intend(ctx, turn), slice.Ended{Outcome: machine.Unanswered, Cause: machine.CauseLimit, Why: over})
			return false, nil
		}
	}
	if r.Question != nil {
		if err := r.awaitAnswer(ctx); err != nil {
			return false, err
		}
	}
	r.takeBack(workflow.Now(ctx))
	return r.awaitMoney(ctx, turn)
}

// paused keeps why a step that is limited is due again, and forgets it when the
// step has ended otherwise.
func (r *run) paused(now time.Time, ended slice.Ended) {
	limit := ended.Limit
	if ended.Outcome != machine.Limited {
		r.Held, r.Question, r.Short, r.Renewed, r.Resume = nil, nil, nil, false, false
		return
	}
	r.Question, r.Short, r.Renewed = ended.Question, ended.Short, false
	r.Resume = r.Resume || len(ended.Calls) > 0
	if limit == nil {
		r.Held = nil
		return
	}
	h := slice.Held{Limit: *limit, Since: now.UnixMilli()}
	if r.Held != nil && r.Held.Agent == limit.Agent {
		h.Since, h.Probes = r.Held.Since, r.Held.Probes
	}
	h.Probes++
	reset := time.Time{}
	if limit.ResetAt > 0 {
		reset = millis(limit.ResetAt)
	}
	wake := slice.ProbeAt(now, reset, h.Probes)
	if until := millis(limit.Until); until.After(now) && !until.After(now.Add(slice.MaxProbe)) {
		wake = until
	}
	if limit.Fallback {
		// The agent itself may be free before its fallback is.
		for _, handed := range r.Handed {
			if own := millis(handed.Until); handed.Agent == limit.Agent && own.After(now) && own.Before(wake) {
				wake = own
			}
		}
	}
	h.Wake = wake.Add(jitter(r.id, r.Run, h.Probes, wake.Sub(now))).UnixMilli()
	r.Held = &h
}

// jitter keeps slices that wait for the same account from waking at once. A
// provider's clock may be a second behind.
func jitter(id string, run, probe int, wait time.Duration) time.Duration {
	window := min(max(wait/10, 5*time.Second), 5*time.Minute)
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d/%d", id, run, probe))
	return time.Second + time.Duration(binary.BigEndian.Uint64(sum[:8])%uint64(window))
}

// awaitQuota waits until the account may be asked again, or hands the role over
// to its fallback. It says why if the wait is over for good.
func (r *run) awaitQuota(ctx workflow.Context) (over string, err error) {
	h := r.Held
	now := workflow.Now(ctx)
	since := millis(h.Since)
	until, end := millis(h.Wake), since.Add(r.Quota.MaxWait.Or(slice.DefaultMaxWait))
	waits := r.Quota.Wait == nil || *r.Quota.Wait
	handOver := time.Time{}
	if r.hasFallback(h.Limit) {
		handOver = since.Add(r.Quota.FallbackAfter.Or(slice.DefaultFallbackAfter))
		if !waits || h.ResetAt > 0 && millis(h.ResetAt).After(handOver) {
			handOver = now
		}
	}
	switch {
	case !handOver.IsZero() && !handOver.After(now):
		r.handOver(*h)
		return "", nil
	case !waits:
		return "the account of " + who(h.Limit) + " is at its limit" + resets(h.Limit) + ", and policy waits for none (quota.wait)", nil
	case !end.After(now):
		return fmt.Sprintf("the account of %s is at its limit%s; it was waited for %s, which is all that policy allows (quota.max_wait)", who(h.Limit), resets(h.Limit), now.Sub(since).Round(time.Second)), nil
	}
	if until.After(end) {
		until = end
	}
	if !handOver.IsZero() && until.After(handOver) {
		until = handOver
	}
	defer func() { r.Waiting, r.renewed = nil, false }()
	if err := r.wait(ctx, slice.Wait{For: slice.WaitQuota, Role: who(h.Limit), Reset: h.ResetAt, Until: until.UnixMilli()}); err != nil {
		return "", err
	}
	if _, err = r.await(ctx, func() bool { return r.renewed }, max(until.Sub(now), 0), fmt.Sprintf("%s: the quota of %s", r.State.Step, who(h.Limit))); err != nil {
		return "", err
	}
	switch now = workflow.Now(ctx); {
	case r.renewed:
		h.Since, h.Probes = now.UnixMilli(), 0
	case !handOver.IsZero() && !now.Before(handOver):
		r.handOver(*h)
	case !now.Before(end):
		return r.awaitQuota(ctx)
	}
	r.Waiting = nil
	return "", r.publish(ctx)
}

// handOver lets the fallback of an agent go on, until the agent's own account is
// free again.
func (r *run) handOver(h slice.Held) {
	r.Handed = append(r.Handed, slice.Handed{Agent: h.Agent, Until: h.ResetAt})
	r.Held = nil
}

// takeBack ends what fallbacks do when the agents' own accounts are free again.
func (r *run) takeBack(now time.Time) {
	r.Handed = slices.DeleteFunc(r.Handed, func(h slice.Handed) bool { return h.Until > 0 && h.Until <= now.UnixMilli() })
}

func (r *run) handed(agent string) bool {
	return slices.ContainsFunc(r.Handed, func(h slice.Handed) bool { return h.Agent == agent })
}

// hasFallback reports whether there is somebody to hand over to.
func (r *run) hasFallback(l slice.Limit) bool {
	return !l.Fallback && slices.ContainsFunc(r.Callers, func(c slice.Caller) bool { return c.Name == l.Agent && c.Fallback })
}

func who(l slice.Limit) string {
	if l.Fallback {
		return "the fallback of " + l.Agent
	}
	return l.Agent
}

func resets(l slice.Limit) string {
	if l.ResetAt == 0 {
		return ""
	}
	return " until " + stamp(millis(l.ResetAt)) + ", as its provider says"
}

// awaitAnswer waits for a person's answer to a question. Silence is none: a
// question that expires is asked anew.
func (r *run) awaitAnswer(ctx workflow.Context) error {
	q := *r.Question
	defer func() { r.closeWait(); r.answered = nil }()
	remind, expire := r.Gates.Remind.Or(slice.DefaultRemind), r.Gates.Expire.Or(slice.DefaultExpire)
	if r.Waiting == nil {
		if err := r.wait(ctx, slice.Wait{For: slice.WaitQuestion, Subject: q.ID, Role: q.Role, Text: q.Text,
			Until: workflow.Now(ctx).Add(expire).UnixMilli()}); err != nil {
			return err
		}
	}
	for r.answered == nil {
		left := millis(r.Waiting.Until).Sub(workflow.Now(ctx))
		came, err := r.await(ctx, func() bool { return r.answered != nil }, min(remind, max(left, 0)), fmt.Sprintf("%s: remind of the question", r.State.Step))
		if err != nil {
			return err
		}
		if !came {
			r.askAgain(ctx, expire)
			if err := r.publish(ctx); err != nil {
				return err
			}
			if r.leave(ctx, r.answered != nil) {
				return errLeft
			}
		}
	}
	r.Replies = append(r.Replies, slice.Replied{Question: q.Text, Answer: r.answered.Text})
	r.Question, r.Waiting = nil, nil
	return r.publish(ctx)
}

// awaitMoney looks whether the money covers the call that is due. If not, the
// slice ends, or asks for more where policy says so.
func (r *run) awaitMoney(ctx workflow.Context, turn machine.Turn) (bool, error) {
	why := func() string { w, _, _ := r.short(turn.Step); return w }
	if why() == "" {
		r.Short = nil
		return true, nil
	}
	if !r.State.Rules.AskOverBudget {
		r.stop(machine.AbortedBudget, why())
		return false, nil
	}
	defer func() { r.Waiting = nil }()
	expire := r.Gates.Expire.Or(slice.DefaultExpire)
	text, role, need := r.short(turn.Step)
	if err := r.wait(ctx, slice.Wait{For: slice.WaitMoney, Role: role, Why: text, NeedMicroUSD: need,
		Until: workflow.Now(ctx).Add(expire).UnixMilli()}); err != nil {
		return false, err
	}
	came, err := r.await(ctx, func() bool { return why() == "" }, expire, fmt.Sprintf("%s: a higher cap", turn.Step))
	switch {
	case err != nil:
		return false, err
	case !came:
		r.stop(machine.AbortedBudget, why()+"; nobody raised the cap in time")
		return false, nil
	}
	r.Short, r.Waiting = nil, nil
	return true, r.publish(ctx)
}

// short says why the money does not cover a call of the step, with the least
// cap that does, and the role whose cap it is; the slice's own has no role. All
// is empty if the money covers it.
func (r *run) short(step machine.Step) (why, role string, need int64) {
	call := r.reserve(step)
	if r.Short != nil {
		call = max(call, r.Short.NeedMicroUSD)
	}
	spent, limit := r.State.SpentMicroUSD, r.State.Rules.CapMicroUSD
	cut := func(spent, limit int64) bool { return spent > limit || call > limit-spent }
	name := roleOf(step)
	own, capped := r.Roles[name]
	of := ""
	switch {
	case cut(spent, limit):
	case capped && cut(r.spentBy(name), own):
		role, of, spent, limit = name, " by its "+name, r.spentBy(name), own
	case r.Short != nil && r.Short.Reached:
		return fmt.Sprintf("a call of the %s reached the %s that it may cost; raise usd under agents in %s, or the cap to let it go on", r.Short.Role, slice.USD(call), slice.PolicyFile), "", limit + 1
	default:
		return "", "", 0
	}
	if call == 0 {
		return fmt.Sprintf("the slice has spent %s%s of %s", slice.USD(spent), of, slice.USD(limit)), role, spent
	}
	return fmt.Sprintf("the slice has spent %s%s of %s, and a call of the %s may cost %s", slice.USD(spent), of, slice.USD(limit), name, slice.USD(call)), role, spent + call
}

// reserve is the least that the step needs to make a call, in millionths of a US
// dollar. Whether a reconcile asks anybody is not known before.
func (r *run) reserve(step machine.Step) int64 {
	least := int64(-1)
	if step == machine.Reconcile || step == machine.Judge && r.unchanged() {
		return 0
	}
	for _, c := range r.Callers {
		if c.Role == roleOf(step) && (least < 0 || c.ReserveMicroUSD < least) {
			least = c.ReserveMicroUSD
		}
	}
	return max(least, 0)
}

// terms are those on which the step may call agents. What the slice's own record
// does not know of, nobody is told.
func (r *run) terms(step machine.Step) (c slice.Calls) {
	if len(r.Callers) == 0 {
		return c
	}
	name := roleOf(step)
	left := r.State.Rules.CapMicroUSD - r.State.SpentMicroUSD
	if own, capped := r.Roles[name]; capped {
		left = min(left, own-r.spentBy(name))
	}
	c.LeftMicroUSD, c.Renewed = &left, r.Renewed
	for _, h := range r.Handed {
		c.Fallback = append(c.Fallback, h.Agent)
	}
	return c
}

// roleOf is the role that a step asks.
func roleOf(step machine.Step) string {
	switch step {
	case machine.Implement:
		return slice.RoleImplementer
	case machine.Judge, machine.JudgeSlice:
		return slice.RoleJudge
	case machine.Advise:
		return slice.RoleAdvisor
	case machine.Reconcile:
		return slice.RoleReconciler
	case machine.Prepare, machine.Baseline, machine.PlanGate, machine.Check, machine.Commit, machine.Verify, machine.E2E,
		machine.PublishGate, machine.Publish, machine.Propose, machine.AwaitCI, machine.MergeGate, machine.Merge:
	}
	return ""
}

// spentBy is what a role has spent in this run.
func (r *run) spentBy(role string) (sum int64) {
	for _, c := range r.Costs {
		if c.Role == role {
			sum += c.CostMicroUSD
		}
	}
	return sum
}

// spend counts the calls of a step.
func (r *run) spend(step machine.Step, calls []slice.Called) {
	for _, c := range calls {
		i := slices.IndexFunc(r.Costs, func(x slice.RoleCost) bool { return x.Role == c.Role && x.Step == string(step) })
		if i < 0 {
			i = len(r.Costs)
			r.Costs = append(r.Costs, slice.RoleCost{Role: c.Role, Step: string(step)})
		}
		r.Costs[i].Calls++
		r.Costs[i].CostMicroUSD += c.CostMicroUSD
		r.Costs[i].BriefBytes += c.BriefBytes
	}
}

// unusual is what a person should know of the calls of a step: that a fallback
// answered, or that a conversation was begun anew.
func unusual(calls []slice.Called) (notes []string) {
	note := func(s string) {
		if !slices.Contains(notes, s) {
			notes = append(notes, s)
		}
	}
	for _, c := range calls {
		if c.Fallback {
			note(fmt.Sprintf("the fallback of %s (%s) was asked", c.Agent, c.Use))
		}
		if c.Fresh {
			note(c.Agent + " had to begin a new conversation")
		}
	}
	return notes
}

// session is the conversation that an agent goes on with: one of its own.
func (r *run) session(role string) string {
	if r.Session == "" || r.SessionBy != r.speaker(role) {
		return ""
	}
	return r.Session
}

// keepSession keeps the conversation of the last call of a step.
func (r *run) keepSession(role, session string) {
	r.Session, r.SessionBy = session, r.speaker(role)
}

// speaker names who answers for a role that has one agent.
func (r *run) speaker(role string) string {
	for _, c := range r.Callers {
		if c.Role == role {
			if r.handed(c.Name) {
				return c.Name + "/fallback"
			}
			return c.Name
		}
	}
	return ""
}
