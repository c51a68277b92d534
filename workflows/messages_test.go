package workflows

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"interlock/ledger"
	"interlock/machine"
	"interlock/slice"
)

// answer is what became of an update.
type answer struct {
	refused, err error
	taken        slice.Taken
	answered     bool
}

func (a *answer) callbacks() *testsuite.TestUpdateCallback {
	return &testsuite.TestUpdateCallback{
		OnReject: func(err error) { a.refused = err },
		OnAccept: func() {},
		OnComplete: func(v any, err error) {
			a.answered, a.err = true, err
			a.taken, _ = v.(slice.Taken)
		},
	}
}

func kind(err error) string {
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		return app.Type()
	}
	return ""
}

var plan = ledger.Hash("plan")

func approval(subject string) slice.Decision {
	return slice.Decision{Verdict: slice.Approved, Subject: subject, By: "ada"}
}

// gatedWorld has both gates, at which the test decides and not the script.
func gatedWorld(t *testing.T, name, script string) *world {
	return newWorld(name, 1, scenario{rules: gated}.ruled(), script).open(t)
}

func statusOf(t *testing.T, env *testsuite.TestWorkflowEnvironment) (s slice.Status) {
	t.Helper()
	ask(t, env, slice.QueryStatus, &s)
	return s
}

// Nothing but a decision of this gate opens it, whichever door it comes in by.
func TestDecisionsThatAreNone(t *testing.T) {
	for name, c := range map[string]struct {
		decision slice.Decision
		want     string
	}{
		"zero value":      {slice.Decision{}, slice.ErrBadDecision},
		"no verdict":      {slice.Decision{Subject: plan, By: "ada"}, slice.ErrBadDecision},
		"another verdict": {slice.Decision{Verdict: "yes", Subject: plan, By: "ada"}, slice.ErrBadDecision},
		"nobody":          {slice.Decision{Verdict: slice.Approved, Subject: plan, By: " "}, slice.ErrBadDecision},
		"nothing":         {approval(""), slice.ErrBadDecision},
		"something else":  {approval(object("base")), slice.ErrStale},
		"a prefix":        {approval(plan[:10]), slice.ErrStale},
		"a long note":     {slice.Decision{Verdict: slice.Approved, Subject: plan, By: "ada", Note: strings.Repeat("x", 3000)}, slice.ErrBadDecision},
	} {
		t.Run(name, func(t *testing.T) {
			w := gatedWorld(t, "none-"+strings.ReplaceAll(name, " ", "-"), begin)
			var a answer
			got := inEnvironment(t, w, nil, func(env *testsuite.TestWorkflowEnvironment) {
				env.RegisterDelayedCallback(func() {
					require.Equal(t, slice.WaitApproval, statusOf(t, env).Waiting.For)
					env.UpdateWorkflow(slice.Decide, "one", a.callbacks(), c.decision)
				}, time.Minute)
				env.RegisterDelayedCallback(func() { env.SignalWorkflow(slice.Decide, c.decision) }, 2*time.Minute)
				env.RegisterDelayedCallback(func() {
					s := statusOf(t, env)
					require.Equal(t, machine.PlanGate, s.State.Step, "it still waits")
					require.Equal(t, 1, s.Ignored.Count)
					require.NotEmpty(t, s.Ignored.Last)
					env.CancelWorkflow()
				}, 3*time.Minute)
			})
			require.Equal(t, c.want, kind(a.refused))
			require.Equal(t, machine.Cancelled, got.Ending)
		})
	}
}

// Of two approvals in one workflow task the second must not reach the next gate.
func TestASecondApprovalDoesNotOpenTheNextGate(t *testing.T) {
	for name, second := range map[string]func(w *world) slice.Decision{
		"the same": func(*world) slice.Decision { return approval(plan) },
		"of the next, early": func(*world) slice.Decision {
			return approval(object("commit", object("base"), object("tree", "implement · task 1 · attempt 1"), "t1"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := gatedWorld(t, "twice-"+strings.Fields(name)[0], begin+task+whole)
			got := inEnvironment(t, w, nil, func(env *testsuite.TestWorkflowEnvironment) {
				env.RegisterDelayedCallback(func() {
					env.SignalWorkflowSkippingWorkflowTask(slice.Decide, approval(plan))
					env.SignalWorkflow(slice.Decide, second(w))
				}, time.Minute)
				env.RegisterDelayedCallback(func() {
					s := statusOf(t, env)
					require.Equal(t, machine.PublishGate, s.State.Step)
					require.Equal(t, w.whole, s.Waiting.Subject)
					require.Equal(t, 1, s.Ignored.Count)
					env.CancelWorkflow()
				}, time.Hour)
			})
			w.sound(t)
			require.Equal(t, machine.Cancelled, got.Ending)
			require.Empty(t, w.held)
			_, f := w.recorded(t)
			require.Equal(t, machine.PublishGate, f.State.Step)
			require.Equal(t, machine.Cancelled, f.State.Ending)
		})
	}
}

// A decision that comes before its gate is open is misplaced, even with the right subject.
func TestAnEarlyDecision(t *testing.T) {
	w := gatedWorld(t, "early", begin)
	var a answer
	got := inEnvironment(t, w, nil, func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(func() {
			env.SignalWorkflow(slice.Decide, approval(plan))
			env.UpdateWorkflow(slice.Decide, "early", a.callbacks(), approval(plan))
		}, 0)
		env.RegisterDelayedCallback(func() {
			s := statusOf(t, env)
			require.Equal(t, machine.PlanGate, s.State.Step)
			require.Equal(t, 1, s.Ignored.Count)
			env.CancelWorkflow()
		}, time.Hour)
	})
	require.Equal(t, slice.ErrNotDue, kind(a.refused))
	require.Equal(t, machine.Cancelled, got.Ending)
}

// Silence is never yes: an unanswered gate reminds, asks anew, and waits.
func TestSilenceIsNeverYes(t *testing.T) {
	w := gatedWorld(t, "silence", begin)
	rec := &recorder{}
	got := inEnvironment(t, w, rec, func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(func() {
			s := statusOf(t, env)
			require.Equal(t, machine.PlanGate, s.State.Step)
			require.Equal(t, 3, s.Waiting.Asked)
			require.Greater(t, s.Waiting.Until, env.Now().UnixMilli())
			env.CancelWorkflow()
		}, 15*24*time.Hour)
	})
	require.Equal(t, machine.Cancelled, got.Ending)
	require.Equal(t, 3, rec.count("attributes", ""), "start, the wait, and the end: a reminder costs no event of its own")
}

func TestAnUpdateIsTakenOnceByItsID(t *testing.T) {
	w := gatedWorld(t, "once", begin+task+whole)
	var a, again, other answer
	got := inEnvironment(t, w, nil, func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(func() {
			env.UpdateWorkflow(slice.Decide, "one", a.callbacks(), approval(plan))
		}, time.Minute)
		env.RegisterDelayedCallback(func() {
			env.UpdateWorkflow(slice.Decide, "one", again.callbacks(), approval(plan))
			env.UpdateWorkflow(slice.Decide, "two", other.callbacks(), approval(plan))
		}, 2*time.Minute)
		env.RegisterDelayedCallback(func() {
			env.SignalWorkflow(slice.Decide, slice.Decision{Verdict: slice.Refused, Subject: w.whole, By: "bob", Note: "not\ntoday"})
		}, 3*time.Minute)
	})
	w.sound(t)
	require.True(t, a.answered)
	require.NoError(t, a.err)
	require.Equal(t, slice.Taken{Slice: "once", Turn: machine.Turn{Step: machine.PlanGate}, Said: "approved"}, a.taken)
	require.NoError(t, again.refused, "a repeated update is no mistake")
	require.Equal(t, slice.ErrStale, kind(other.refused))
	require.Equal(t, machine.Rejected, got.Ending)
	require.Equal(t, 17, got.Code)
	require.Equal(t, "rejected: rejected by bob: not today — next: reopen it with a changed file", message(t, got.err))
}

// An implementer from outside works in the folder, and reports for the turn that is due.
func TestReports(t *testing.T) {
	w := newWorld("reports", 1, scenario{}.ruled(), begin+"implement check judge=failed implement check judge=failed advise "+task+whole+"publish").open(t)
	w.external = []string{slice.RoleImplementer}
	said := json.RawMessage(`{"summary":"done"}`)
	answers := map[string][]*answer{}
	got := inEnvironment(t, w, nil, func(env *testsuite.TestWorkflowEnvironment) {
		for i := range 3 {
			env.RegisterDelayedCallback(func() {
				s := statusOf(t, env)
				require.Equal(t, slice.WaitReport, s.Waiting.For)
				require.Equal(t, slice.RoleImplementer, s.Waiting.Role)
				require.Equal(t, i+1, s.Due.Attempt)
				for name, p := range map[string]slice.Reported{
					"another step":    {Step: machine.Judge, Answer: said},
					"another attempt": {Step: machine.Implement, Attempt: i + 2, Answer: said},
					"another task":    {Step: machine.Implement, Task: 2, Answer: said},
					"another role":    {Step: machine.Implement, Role: slice.RoleAdvisor, Answer: said},
					"no step":         {Answer: said},
					"no answer":       {Step: machine.Implement},
					"null":            {Step: machine.Implement, Answer: json.RawMessage("null")},
					"too long":        {Step: machine.Implement, Answer: json.RawMessage(`"` + strings.Repeat("x", reportLimit) + `"`)},
				} {
					var a answer
					env.UpdateWorkflow(slice.Report, name+s.Due.String(), a.callbacks(), p)
					answers[name] = append(answers[name], &a)
				}
				env.SignalWorkflow(slice.Report, slice.Reported{Step: machine.Implement, Task: 1, Attempt: i + 1, Answer: said})
			}, time.Duration(i+1)*time.Minute)
		}
	})
	w.sound(t)
	require.Equal(t, machine.Delivered, got.Ending)
	for name, want := range map[string]string{
		"another step": slice.ErrNotDue, "another attempt": slice.ErrNotDue, "another task": slice.ErrNotDue, "another role": slice.ErrNotDue,
		"no step": slice.ErrBadReport, "no answer": slice.ErrBadReport, "null": slice.ErrBadReport, "too long": slice.ErrBadReport,
	} {
		require.Len(t, answers[name], 3)
		for _, a := range answers[name] {
			require.Equal(t, want, kind(a.refused), name)
		}
	}
	briefs := inputsOf[slice.ImplementIn](w)
	require.Len(t, briefs, 3)
	for _, in := range briefs {
		require.JSONEq(t, string(said), string(in.Report))
	}
	require.Len(t, inputsOf[slice.RestoreIn](w), 1, "after the advice the tree is put back before the work, not after it")
	require.Equal(t, "reports", got.Slice)
}
