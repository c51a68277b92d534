package workflows

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/testsuite"

	"interlock/ledger"
	"interlock/machine"
	"interlock/slice"
)

// timeless returns the lines of a record without what depends on the time.
func timeless(t *testing.T, lines []string) (all []string) {
	t.Helper()
	record, err := ledger.Parse(lines)
	require.NoError(t, err)
	for _, l := range record {
		l.At, l.Prev = "", ""
		all = append(all, l.String())
	}
	return all
}

// continued are the scenarios that are also run with a new Temporal run after
// every step: those that carry something from step to step.
func continued() (all []scenario) {
	for _, s := range scenarios {
		if !strings.HasPrefix(s.name, "broken-") && s.name != "record-forked" {
			all = append(all, s)
		}
	}
	return all
}

func TestContinueAsNewAfterEveryStepInTheEnvironment(t *testing.T) {
	for _, s := range continued() {
		t.Run(s.name, func(t *testing.T) {
			whole := s.world("continued-").open(t)
			once, often := &recorder{}, &recorder{}
			want := inEnvironment(t, whole, once, nil)
			require.Empty(t, want.carries)
			worlds.Delete(whole.spec.ID)

			w := s.world("continued-").open(t)
			w.host.StepsPerRun = 1
			got := inEnvironment(t, w, often, nil)
			s.agree(t, w, got)
			require.Equal(t, once.count("attributes", ""), often.count("attributes", ""), "a new run tells nothing anew")
			require.Equal(t, timeless(t, whole.lines), timeless(t, w.lines))
			got.Millis, want.Millis, got.Ledger, want.Ledger = 0, 0, slice.Tail{}, slice.Tail{}
			require.Equal(t, want.Result, got.Result)
			require.Equal(t, carried(t, whole.inputs), carried(t, w.inputs), "every activity is told the same")
			if turns, _ := pure(t, max(s.tasks, 1), s.ruled(), s.script); len(turns) > 1 {
				require.Len(t, got.carries, len(turns)-1, "one for each step but the last")
			}
			for _, c := range got.carries {
				var again slice.Carry
				b, err := json.Marshal(c)
				require.NoError(t, err)
				require.NoError(t, json.Unmarshal(b, &again))
				require.Equal(t, c, again)
			}
		})
	}
}

// carried returns inputs without what depends on the time.
func carried(t *testing.T, inputs []any) (all []any) {
	t.Helper()
	for _, in := range inputs {
		b, err := json.Marshal(in)
		require.NoError(t, err)
		var m map[string]any
		require.NoError(t, json.Unmarshal(b, &m))
		delete(m, "lines")
		delete(m, "at")
		delete(m, "ledger")
		all = append(all, m)
	}
	return all
}

func TestContinueAsNewAfterEveryStepOnTheServer(t *testing.T) {
	server := realServer(t)
	for _, s := range scenarios {
		switch s.name {
		case "two-tasks", "vetoes-advice", "unchanged-veto", "corrections-open", "discards", "red-exhausted", "mismatch":
		default:
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			w := s.world("continued-server-").open(t)
			w.host.StepsPerRun = 1
			s.agree(t, w, server.run(t, w))

			once := s.world("continued-server-").inOneRun(t)
			require.Equal(t, timeless(t, once.lines), timeless(t, w.lines))
			last := server.history(t, w.spec.ID, "").Events[0].GetWorkflowExecutionStartedEventAttributes()
			require.NotEmpty(t, last.GetContinuedExecutionRunId())
			require.Equal(t, enumspb.CONTINUE_AS_NEW_INITIATOR_WORKFLOW, last.GetInitiator())
		})
	}
}

// inOneRun runs the slice of w in the test environment, beside a world that is
// open for the same slice.
func (w *world) inOneRun(t *testing.T) *world {
	t.Helper()
	open, _ := worlds.Swap(w.spec.ID, w)
	defer worlds.Store(w.spec.ID, open)
	inEnvironment(t, w, nil, nil)
	return w
}

// The server suggests it when the history is long.
func TestContinueAsNewWhenItIsSuggested(t *testing.T) {
	w := named("suggested", begin+task+whole+"publish").open(t)
	got := inEnvironment(t, w, nil, func(env *testsuite.TestWorkflowEnvironment) { env.SetContinueAsNewSuggested(true) })
	require.Len(t, got.carries, 9)
	w.sound(t)
}

// The same tests again in a process that keeps no workflow in memory: every
// workflow task replays the whole history.
func TestWithoutStickyCache(t *testing.T) {
	if os.Getenv(noCache) != "" {
		t.Skip("this is that process")
	}
	realServer(t)
	program, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), program, "-test.run", "OnTheServer$|Compensation", "-test.count=1")
	cmd.Env = append(os.Environ(), noCache+"=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.NotContains(t, string(out), "no tests to run")
}

// A wait that lasts goes on in a new run as it is: the same subject and
// deadline, asked and reminded as often, in one operation.
func TestContinueAsNewInTheMiddleOfAWait(t *testing.T) {
	const remind = 24 * time.Hour
	for name, suggested := range map[string]bool{"stays": false, "leaves": true} {
		t.Run(name, func(t *testing.T) {
			w := gatedWorld(t, "wait-"+name, begin+task+whole+"publish")
			w.host.StepsPerRun = 1 // the steps around the gates continue as new either way
			rec := &recorder{}
			began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
			var last *testsuite.TestWorkflowEnvironment
			looked := 0
			got := inEnvironment(t, w, rec, func(env *testsuite.TestWorkflowEnvironment) {
				now := began
				if last != nil {
					now = last.Now().UTC()
				}
				env.SetStartTime(now)
				last = env
				env.SetContinueAsNewSuggested(suggested)
				at := func(when time.Time, do func()) {
					if d := when.Sub(now); d > 0 {
						env.RegisterDelayedCallback(do, d)
					}
				}
				at(began.Add(15*remind+time.Hour), func() {
					s := statusOf(t, env)
					require.Equal(t, machine.PlanGate, s.State.Step)
					require.Equal(t, plan, s.Waiting.Subject)
					require.Equal(t, 3, s.Waiting.Asked)
					require.Equal(t, 1, s.Waiting.Reminded)
					require.Equal(t, began.UnixMilli(), s.Waiting.Since/1000*1000)
					require.Equal(t, began.Add(21*remind).UnixMilli(), s.Waiting.Until/1000*1000)
					looked++
				})
				at(began.Add(16*remind+time.Hour), func() { env.SignalWorkflow(slice.Decide, approval(plan)) })
				at(began.Add(17*remind), func() { env.SignalWorkflow(slice.Decide, approval(w.whole)) })
			})
			w.sound(t)
			require.Equal(t, machine.Delivered, got.Ending)
			require.Equal(t, 1, looked)
			require.Equal(t, suggested, len(got.carries) > 20, "%d runs", len(got.carries))
			for _, c := range got.carries {
				var again slice.Carry
				b, err := json.Marshal(c)
				require.NoError(t, err)
				require.NoError(t, json.Unmarshal(b, &again))
				require.Equal(t, c, again)
			}
			record, f := w.recorded(t)
			require.Equal(t, machine.Delivered, f.State.Ending)
			gates := 0
			for _, turn := range record {
				if turn.Step == machine.PlanGate {
					gates++
				}
			}
			require.Equal(t, 1, gates, "one operation")
			for _, d := range got.status.Recent {
				if d.Turn.Step == machine.PlanGate {
					require.Equal(t, (16*remind + time.Hour).Round(time.Minute), (time.Duration(d.Millis) * time.Millisecond).Round(time.Minute))
				}
			}
			// start, two waits begun and ended, the task done, and the end.
			require.Equal(t, 7, rec.count("attributes", ""), "a new run tells nothing anew")
		})
	}
}

// An implementer from outside keeps the tree in which it works, and what was
// reported so far.
func TestContinueAsNewWhileAReportIsWaitedFor(t *testing.T) {
	w := newWorld("wait-report", 1, scenario{}.ruled(), begin+"implement check judge=failed implement check judge=failed advise "+task+whole+"publish").open(t)
	w.external = []string{slice.RoleImplementer}
	var last *testsuite.TestWorkflowEnvironment
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	reported := 0
	got := inEnvironment(t, w, nil, func(env *testsuite.TestWorkflowEnvironment) {
		now := began
		if last != nil {
			now = last.Now().UTC()
		}
		env.SetStartTime(now)
		last = env
		env.SetContinueAsNewSuggested(true)
		for i := range 3 {
			if d := began.Add(time.Duration(i+1) * 60 * time.Hour).Sub(now); d > 0 {
				env.RegisterDelayedCallback(func() {
					s := statusOf(t, env)
					require.Equal(t, slice.RoleImplementer, s.Waiting.Role)
					require.Equal(t, 2, s.Waiting.Reminded)
					reported++
					env.SignalWorkflow(slice.Report, slice.Reported{Step: machine.Implement, Task: 1, Attempt: i + 1, Answer: json.RawMessage(`{"status":"done"}`)})
				}, d)
			}
		}
	})
	w.sound(t)
	require.Equal(t, machine.Delivered, got.Ending)
	require.Equal(t, 3, reported)
	restored := 0
	for _, in := range w.inputs {
		if _, ok := in.(slice.RestoreIn); ok {
			restored++
		}
	}
	require.Equal(t, 1, restored, "the tree is put back once, before the third attempt")
}
