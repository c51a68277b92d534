package workflows

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"interlock/machine"
	"interlock/slice"
)

// await waits until ready, but no longer than d; in time says which it was.
func (r *run) await(ctx workflow.Context, ready func() bool, d time.Duration, summary string) (inTime bool, err error) {
	timerCtx, cancel := workflow.WithCancel(ctx)
	defer cancel()
	timer := workflow.NewTimerWithOptions(timerCtx, d, workflow.TimerOptions{Summary: summary})
	err = workflow.Await(ctx, func() bool {
		r.drain()
		return ready() || timer.IsReady()
	})
	if err == nil {
		err = ctx.Err() // which ends the timer too, and what it holds then is no answer
	}
	return ready(), err
}

// wait opens a wait and shows it to people.
func (r *run) wait(ctx workflow.Context, w slice.Wait) error {
	r.drain() // what came before the wait was not meant for it
	w.Since = workflow.Now(ctx).UnixMilli()
	w.Asked = 1
	r.Waiting = &w
	return r.publish(ctx)
}

// leave reports whether the wait that is open goes on in a new run, because the
// history has become long: nothing has come for it, and it is carried on as it is.
func (r *run) leave(ctx workflow.Context, came bool) bool {
	r.drain()
	r.left = !came && workflow.GetInfo(ctx).GetContinueAsNewSuggested() && workflow.AllHandlersFinished(ctx)
	return r.left
}

// closeWait forgets the wait that is open, unless it goes on in a new run.
func (r *run) closeWait() {
	if !r.left {
		r.Waiting, r.Inbox, r.Reports = nil, nil, nil
	}
}

// gate waits for a person to decide on what the step names. Silence is never
// yes: a gate that expires asks anew, and what came before is void.
func (r *run) gate(ctx workflow.Context, _ slice.Header) (slice.Ended, error) {
	defer r.closeWait()
	remind, expire := r.Gates.Remind.Or(slice.DefaultRemind), r.Gates.Expire.Or(slice.DefaultExpire)
	if r.Waiting == nil {
		if err := r.wait(ctx, slice.Wait{For: slice.WaitApproval, Subject: r.subject(),
			Until: workflow.Now(ctx).Add(expire).UnixMilli()}); err != nil {
			return slice.Ended{}, err
		}
	}
	for {
		left := millis(r.Waiting.Until).Sub(workflow.Now(ctx))
		came, err := r.await(ctx, func() bool { return len(r.Inbox) > 0 }, min(remind, max(left, 0)),
			fmt.Sprintf("%s: remind or ask anew", r.State.Step))
		if err != nil {
			return slice.Ended{}, err
		}
		if !came {
			r.askAgain(ctx, expire)
			if err := r.publish(ctx); err != nil {
				return slice.Ended{}, err
			}
			if r.leave(ctx, len(r.Inbox) > 0) {
				return slice.Ended{}, errLeft
			}
			continue
		}
		d := r.Inbox[0]
		r.Inbox = nil
		if err := r.checkDecision(d); err != nil {
			r.ignore(slice.Decide, err)
			continue
		}
		return decided(d), nil
	}
}

// askAgain reminds, or opens the gate anew when it has expired.
func (r *run) askAgain(ctx workflow.Context, expire time.Duration) {
	now := workflow.Now(ctx)
	r.Waiting.Reminded++
	if now.UnixMilli() < r.Waiting.Until {
		return
	}
	r.Waiting.Asked++
	r.Waiting.Reminded = 0
	if r.Waiting.For == slice.WaitApproval {
		r.Waiting.Subject = r.subject()
	}
	r.Waiting.Until = now.Add(expire).UnixMilli()
}

func decided(d slice.Decision) slice.Ended {
	ended := slice.Ended{Outcome: machine.Done, Why: "approved by " + d.By}
	if d.Verdict != slice.Approved {
		ended = slice.Ended{Outcome: machine.Failed, Why: "rejected by " + d.By}
	}
	if d.Note != "" {
		ended.Why += ": " + d.Note
	}
	return ended
}

// subject is the hash of what waits at the gate: the plan, or the commit.
func (r *run) subject() string {
	if r.State.Step == machine.PlanGate {
		return r.Plan
	}
	return r.Whole
}

// outside waits for the reports of those of the roles that are driven from
// outside. With none of them there is nothing to wait for.
func (r *run) outside(ctx workflow.Context, roles ...string) (map[string]json.RawMessage, error) {
	r.due = nil
	for _, role := range roles {
		if slices.Contains(r.External, role) {
			r.due = append(r.due, role)
		}
	}
	if len(r.due) == 0 {
		return nil, nil
	}
	defer func() { r.closeWait(); r.due = nil }()
	if r.Waiting == nil {
		r.Reports = nil
		if err := r.wait(ctx, slice.Wait{For: slice.WaitReport, Role: r.due[0]}); err != nil {
			return nil, err
		}
	}
	for {
		came, err := r.await(ctx, func() bool { return len(r.missing()) == 0 }, time.Duration(slice.DefaultRemind),
			fmt.Sprintf("%s: remind of the report", r.State.Step))
		if err != nil {
			return nil, err
		}
		if came {
			return r.Reports, nil
		}
		r.Waiting.Reminded++
		if err := r.publish(ctx); err != nil {
			return nil, err
		}
		if r.leave(ctx, len(r.missing()) == 0) {
			return nil, errLeft
		}
	}
}

// errLeft ends a step whose wait goes on in a new run.
const errLeft = leftError("the wait goes on in a new run")

type leftError string

func (e leftError) Error() string { return string(e) }

// missing are the roles whose report is waited for.
func (r *run) missing() (roles []string) {
	for _, role := range r.due {
		if _, ok := r.Reports[role]; !ok {
			roles = append(roles, role)
		}
	}
	return roles
}

func (r *run) waitForNextRole() {
	if left := r.missing(); len(left) > 0 {
		r.Waiting.Role = left[0]
	}
}
