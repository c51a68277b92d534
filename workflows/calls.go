package workflows

import (
	"fmt"
	"strings"

	"go.temporal.io/sdk/workflow"

	"interlock/ledger"
	"interlock/slice"
)

const (
	// answerLimit bounds the answer to a question in bytes.
	answerLimit = 16 << 10
	// mostCap is the highest cap that a slice may have, in millionths of a US dollar.
	mostCap = 10_000_000_000
)

// door is where one kind of thing comes in that a person sends while a slice works, as an update or as a signal.
type door[T any] struct {
	name, description, example string
	// check says why it cannot be taken now, said what was taken.
	check func(T) error
	take  func(T)
	said  func(T) string
}

func listenTo[T any](ctx workflow.Context, r *run, m door[T]) error {
	signals := workflow.GetSignalChannelWithOptions(ctx, m.name, workflow.SignalChannelOptions{Description: m.description + ": " + m.example})
	r.drains = append(r.drains, func() {
		for {
			var v T
			if !signals.ReceiveAsync(&v) {
				return
			}
			if err := m.check(v); err != nil {
				r.ignore(m.name, err)
				continue
			}
			m.take(v)
		}
	})
	return workflow.SetUpdateHandlerWithOptions(ctx, m.name,
		func(ctx workflow.Context, v T) (slice.Taken, error) {
			return r.accept(ctx, func() error {
				err := m.check(v)
				if err == nil {
					m.take(v)
				}
				return err
			}, m.said(v))
		},
		workflow.UpdateHandlerOptions{
			Description: m.description,
			Validator: func(ctx workflow.Context, v T) error {
				return r.validate(ctx, func() error { return m.check(v) })
			},
		})
}

// listenToCalls registers what people say about the calls of agents.
func (r *run) listenToCalls(ctx workflow.Context) error {
	if err := listenTo(ctx, r, door[slice.Answered]{
		name: slice.Answer, description: "answer a role's question", example: `{"id":"…","text":"…","by":"…"}`,
		check: r.checkAnswer,
		take:  func(a slice.Answered) { r.answered = &a },
		said:  func(slice.Answered) string { return "answered" },
	}); err != nil {
		return err
	}
	if err := listenTo(ctx, r, door[slice.Renewed]{
		name: slice.QuotaRenewed, description: "the account that is waited for is free again", example: `{"by":"…"}`,
		check: r.checkRenewed,
		take: func(slice.Renewed) {
			r.Handed, r.Renewed = nil, true
			r.renewed = r.Waiting != nil && r.Waiting.For == slice.WaitQuota
		},
		said: func(slice.Renewed) string { return "asked again" },
	}); err != nil {
		return err
	}
	return listenTo(ctx, r, door[slice.Raised]{
		name: slice.RaiseBudget, description: "raise the cap of the slice, or of one role", example: `{"cap_micro_usd":N,"by":"…"}`,
		check: r.checkRaise,
		take:  func(x slice.Raised) { r.raise(ctx, x) },
		said: func(x slice.Raised) string {
			return fmt.Sprintf("the cap is %s", slice.USD(x.CapMicroUSD))
		},
	})
}

func (r *run) checkAnswer(a slice.Answered) error {
	switch {
	case strings.TrimSpace(a.Text) == "":
		return refuse(slice.ErrBadAnswer, "an answer has a text")
	case strings.TrimSpace(a.By) == "":
		return refuse(slice.ErrBadAnswer, "an answer needs the name of who answers (by)")
	case len(a.Text) > answerLimit || len(a.By) > 200:
		return refuse(slice.ErrBadAnswer, "text has at most %d bytes, by at most 200", answerLimit)
	case r.Waiting == nil || r.Waiting.For != slice.WaitQuestion || r.answered != nil:
		return refuse(slice.ErrNotDue, "nothing is asked: %s", r.dueNow())
	case a.ID == "":
		return refuse(slice.ErrBadAnswer, "an answer names its question (id): it is %s", r.Waiting.Subject)
	case a.ID != r.Waiting.Subject:
		return refuse(slice.ErrStale, "question %s is asked, not %s: look at it again", r.Waiting.Subject, clip(a.ID, 80))
	}
	return nil
}

func (r *run) checkRenewed(x slice.Renewed) error {
	switch {
	case len(x.By) > 200:
		return refuse(slice.ErrBadAnswer, "by has at most 200 bytes")
	case (r.Waiting == nil || r.Waiting.For != slice.WaitQuota) && len(r.Handed) == 0:
		return refuse(slice.ErrNotDue, "no limit is waited for: %s", r.dueNow())
	}
	return nil
}

// checkRaise says why a cap cannot be raised. The cap that is in force already
// may be sent again.
func (r *run) checkRaise(x slice.Raised) error {
	now, known := r.State.Rules.CapMicroUSD, r.State.Rules.DeliverTo != "" && !r.State.Ended()
	if x.Role != "" {
		if now, known = r.Roles[x.Role]; !known {
			return refuse(slice.ErrBadRaise, "the role %q has no cap of its own", clip(x.Role, 40))
		}
	}
	switch {
	case strings.TrimSpace(x.By) == "" || len(x.By) > 200:
		return refuse(slice.ErrBadRaise, "a raise needs the name of who raises (by), with at most 200 bytes")
	case x.CapMicroUSD < 1 || x.CapMicroUSD > mostCap:
		return refuse(slice.ErrBadRaise, "a cap is more than 0 and at most %s", slice.USD(mostCap))
	case !known:
		return refuse(slice.ErrNotDue, "there is no cap to raise: %s", r.dueNow())
	case x.CapMicroUSD < now:
		return refuse(slice.ErrBadRaise, "the cap is %s already: a raise names the whole cap, not what is added", slice.USD(now))
	}
	return nil
}

// raise sets a cap. A call that had reached its own money may go on then.
func (r *run) raise(ctx workflow.Context, x slice.Raised) {
	now := r.State.Rules.CapMicroUSD
	if x.Role != "" {
		now = r.Roles[x.Role]
	}
	if x.CapMicroUSD == now {
		return
	}
	r.append(ctx, ledger.Line{Kind: ledger.Raise, CapMicroUSD: x.CapMicroUSD, Role: x.Role, Why: "by " + oneLine(x.By)})
	if x.Role != "" {
		r.Roles[x.Role] = x.CapMicroUSD
	} else {
		r.State.Rules.CapMicroUSD = x.CapMicroUSD
	}
	if r.Short != nil && r.Short.Reached {
		r.Short = nil
	}
}
