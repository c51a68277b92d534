package workflows

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"interlock/machine"
	"interlock/slice"
)

const (
	// reportLimit bounds a report in bytes: it travels through history.
	reportLimit = 48 << 10
	// appliedKept is how many ids of messages are remembered over
	// continue-as-new, where the server forgets them.
	appliedKept = 100
)

// listenToMessages registers decide and report, each as update and as signal
// with one payload. An update is checked before it is accepted and answered;
// a signal is durable with no worker running, and has no answer.
func (r *run) listenToMessages(ctx workflow.Context) error {
	r.decisions = workflow.GetSignalChannelWithOptions(ctx, slice.Decide, workflow.SignalChannelOptions{
		Description: `approve or reject what waits at a gate: {"verdict":"approved|rejected","subject":"…","by":"…","note":"…"}`})
	r.reports = workflow.GetSignalChannelWithOptions(ctx, slice.Report, workflow.SignalChannelOptions{
		Description: `the answer of a role that is driven from outside: {"step":"…","task":N,"attempt":N,"answer":{…}}`})
	err := workflow.SetUpdateHandlerWithOptions(ctx, slice.Decide,
		func(ctx workflow.Context, d slice.Decision) (slice.Taken, error) {
			return r.accept(ctx, func() error { return r.decide(d) }, string(d.Verdict))
		},
		workflow.UpdateHandlerOptions{
			Description: "approve or reject what waits at a gate",
			Validator: func(ctx workflow.Context, d slice.Decision) error {
				return r.validate(ctx, func() error { return r.checkDecision(d) })
			},
		})
	if err != nil {
		return err
	}
	err = workflow.SetUpdateHandlerWithOptions(ctx, slice.Report,
		func(ctx workflow.Context, p slice.Reported) (slice.Taken, error) {
			return r.accept(ctx, func() error { return r.report(p) }, "reported")
		},
		workflow.UpdateHandlerOptions{
			Description: "the answer of a role that is driven from outside",
			Validator: func(ctx workflow.Context, p slice.Reported) error {
				return r.validate(ctx, func() error { return r.checkReport(p) })
			},
		})
	if err != nil {
		return err
	}
	return r.listenToCalls(ctx)
}

// validate refuses an update that cannot be taken. One that was taken before,
// by its id, is let through to the same answer.
func (r *run) validate(ctx workflow.Context, check func() error) error {
	if slices.Contains(r.Applied, workflow.GetCurrentUpdateInfo(ctx).ID) {
		return nil
	}
	return check()
}

// accept takes an update once. It answers on acceptance, so that it never
// keeps the run from ending.
func (r *run) accept(ctx workflow.Context, take func() error, said string) (slice.Taken, error) {
	turn, _ := machine.Due(r.State)
	id := workflow.GetCurrentUpdateInfo(ctx).ID
	if !slices.Contains(r.Applied, id) {
		if err := take(); err != nil {
			return slice.Taken{}, err
		}
		if r.Applied = append(r.Applied, id); len(r.Applied) > appliedKept {
			r.Applied = r.Applied[len(r.Applied)-appliedKept:]
		}
	}
	return slice.Taken{Slice: r.id, Turn: turn, Said: said}, nil
}

// drain takes the signals that have come. It is the only consumer of their
// channels, and runs where the slice looks: in a wait, and between two steps,
// where every message is misplaced.
func (r *run) drain() {
	var d slice.Decision
	for r.decisions.ReceiveAsync(&d) {
		if err := r.decide(d); err != nil {
			r.ignore(slice.Decide, err)
		}
		d = slice.Decision{}
	}
	var p slice.Reported
	for r.reports.ReceiveAsync(&p) {
		if err := r.report(p); err != nil {
			r.ignore(slice.Report, err)
		}
		p = slice.Reported{}
	}
	for _, drain := range r.drains {
		drain()
	}
}

func (r *run) ignore(what string, err error) {
	r.Ignored.Count++
	r.Ignored.Last = clip(what+": "+rootMessage(err), 500)
}

func (r *run) decide(d slice.Decision) error {
	if err := r.checkDecision(d); err != nil {
		return err
	}
	r.Inbox = append(r.Inbox, d)
	return nil
}

// checkDecision says why a decision cannot be taken now. It is asked when the
// decision arrives, and again when it is used.
func (r *run) checkDecision(d slice.Decision) error {
	switch {
	case d.Verdict != slice.Approved && d.Verdict != slice.Refused:
		return refuse(slice.ErrBadDecision, "verdict %q: want %s or %s", clip(string(d.Verdict), 40), slice.Approved, slice.Refused)
	case strings.TrimSpace(d.By) == "":
		return refuse(slice.ErrBadDecision, "a decision needs the name of who decides (by)")
	case len(d.By) > 200 || len(d.Note) > 2000:
		return refuse(slice.ErrBadDecision, "by has at most 200 bytes, note at most 2000")
	case r.Waiting == nil || r.Waiting.For != slice.WaitApproval:
		return refuse(slice.ErrNotDue, "no gate is open: %s", r.dueNow())
	case d.Subject == "":
		return refuse(slice.ErrBadDecision, "a decision names what it decides on (subject): at %s that is %s", r.State.Step, r.Waiting.Subject)
	case d.Subject != r.Waiting.Subject:
		return refuse(slice.ErrStale, "%s waits for a decision on %s, not on %s: look at it again", r.State.Step, r.Waiting.Subject, clip(d.Subject, 80))
	case len(r.Inbox) > 0:
		return refuse(slice.ErrNotDue, "%s was decided already", r.State.Step)
	}
	return nil
}

func (r *run) report(p slice.Reported) error {
	if err := r.checkReport(p); err != nil {
		return err
	}
	if r.Reports == nil {
		r.Reports = map[string]json.RawMessage{}
	}
	role := p.Role
	if role == "" {
		role = r.Waiting.Role
	}
	r.Reports[role] = p.Answer
	r.waitForNextRole()
	return nil
}

// checkReport says why a report cannot be taken now. A step that is not due
// cannot be reported, whoever asks.
func (r *run) checkReport(p slice.Reported) error {
	turn, due := machine.Due(r.State)
	switch {
	case p.Step == "":
		return refuse(slice.ErrBadReport, "a report names its step: %s", r.dueNow())
	case !due || p.Step != turn.Step || p.Task != 0 && p.Task != turn.Task || p.Attempt != 0 && p.Attempt != turn.Attempt:
		asked := machine.Turn{Step: p.Step, Task: p.Task, Attempt: p.Attempt}
		return refuse(slice.ErrNotDue, "%s is not due: %s", describe(asked), r.dueNow())
	case r.Waiting == nil || r.Waiting.For != slice.WaitReport:
		return refuse(slice.ErrNotDue, "%s is due, but no report is waited for: it is taken by its agent", turn)
	case p.Role != "" && !slices.Contains(r.missing(), p.Role):
		return refuse(slice.ErrNotDue, "no report of %q is waited for: %s", clip(p.Role, 80), r.dueNow())
	case len(p.Answer) == 0 || string(p.Answer) == "null":
		return refuse(slice.ErrBadReport, "a report carries the role's answer as a JSON document (answer)")
	case len(p.Answer) > reportLimit:
		return refuse(slice.ErrBadReport, "the answer has %d bytes: at most %d", len(p.Answer), reportLimit)
	}
	return nil
}

// describe is a turn as somebody asked for it, who may have left things out.
func describe(t machine.Turn) string {
	s := "step " + clip(string(t.Step), 40)
	if t.Task != 0 {
		s += fmt.Sprintf(" of task %d", t.Task)
	}
	if t.Attempt != 0 {
		s += fmt.Sprintf(", attempt %d", t.Attempt)
	}
	return s
}

func (r *run) dueNow() string {
	turn, ok := machine.Due(r.State)
	if !ok {
		return fmt.Sprintf("the slice has ended as %s", r.State.Ending)
	}
	s := "due is " + turn.String()
	if r.Waiting != nil && r.Waiting.Role != "" {
		s += " (" + r.Waiting.Role + ")"
	}
	return s
}

func refuse(kind, format string, args ...any) error {
	return temporal.NewNonRetryableApplicationError(fmt.Sprintf(format, args...), kind, nil)
}
