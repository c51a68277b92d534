package workflows

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/sdk/testsuite"

	"interlock/machine"
	"interlock/slice"
)

// looks is a forge that answers as a test says, and notes when it was asked.
type looks struct {
	at     []time.Time
	answer func(n int, now time.Time) slice.AwaitCIOut
}

// awaited runs a slice whose CI answers so, up to its end.
func awaited(t *testing.T, name string, timeout time.Duration, answer func(n int, now time.Time) slice.AwaitCIOut, script string) (ran, *looks, *world) {
	t.Helper()
	w := newWorld(name, 1, scenario{rules: toMerge}.ruled(), begin+task+whole+"publish propose "+script).open(t)
	l := &looks{answer: answer}
	got := inEnvironment(t, w, nil, func(env *testsuite.TestWorkflowEnvironment) {
		env.OnActivity(string(slice.ActAwaitCI), mock.Anything, mock.Anything).Return(func(_ context.Context, in slice.AwaitCIIn) (slice.AwaitCIOut, error) {
			l.at = append(l.at, env.Now())
			w.mu.Lock()
			ack := w.write(in.Lines)
			w.mu.Unlock()
			out := l.answer(len(l.at), env.Now())
			out.Ack = ack
			return out, nil
		})
		env.OnActivity(string(slice.ActPrepare), mock.Anything, mock.Anything).Return(func(ctx context.Context, in slice.PrepareIn) (slice.PrepareOut, error) {
			out, err := w.prepare(ctx, in)
			out.Onto, out.CITimeout = "main", slice.Duration(timeout)
			return out, err
		})
	})
	return got, l, w
}

func (l *looks) pauses() (all []time.Duration) {
	for i := 1; i < len(l.at); i++ {
		all = append(all, l.at[i].Sub(l.at[i-1]).Round(time.Second))
	}
	return all
}

func pending(why string) slice.AwaitCIOut {
	return slice.AwaitCIOut{
		Later:  slice.Later{For: slice.WaitCI, Why: why},
		Checks: []slice.CheckResult{{Measured: slice.Measured{Name: "build", Outcome: machine.Unmeasured, Why: why}}},
	}
}

func TestCIIsPolledLessAndLessOften(t *testing.T) {
	got, l, _ := awaited(t, "polled", 0, func(n int, _ time.Time) slice.AwaitCIOut {
		if n < 9 {
			return pending("build is queued")
		}
		return slice.AwaitCIOut{Ended: slice.Ended{Outcome: machine.Done}}
	}, "merge")
	require.Equal(t, machine.Delivered, got.Ending)
	s := time.Second
	require.Equal(t, []time.Duration{15 * s, 30 * s, 60 * s, 120 * s, 240 * s, 300 * s, 300 * s, 300 * s}, l.pauses())
}

func TestCIThatWasNotSeenInItsTimeIsUnmeasured(t *testing.T) {
	for name, c := range map[string]struct{ timeout, want time.Duration }{"default": {0, 2 * time.Hour}, "own": {40 * time.Minute, 40 * time.Minute}} {
		t.Run(name, func(t *testing.T) {
			got, l, _ := awaited(t, "unseen-"+name, c.timeout, func(int, time.Time) slice.AwaitCIOut { return pending("build was not seen") }, "")
			require.Equal(t, [2]string{"blocked_ci", "unmeasured"}, [2]string{string(got.Ending), string(got.Cause)})
			require.Equal(t, "after "+c.want.String()+": build was not seen", got.Why)
			require.Equal(t, c.want, l.at[len(l.at)-1].Sub(l.at[0]).Round(time.Second), "it is looked at once more at the end")
			require.Equal(t, "build", got.Checks[0].Name)
			require.Equal(t, "https://forge.example/pull/7", got.Proposal.URL)
		})
	}
}

// A limit ends when the forge says, and no CI's deadline makes it end sooner.
func TestALimitOfTheForgeIsWaitedForAsLongAsItSays(t *testing.T) {
	got, l, _ := awaited(t, "forge-limit", time.Minute, func(n int, now time.Time) slice.AwaitCIOut {
		if n == 1 {
			return slice.AwaitCIOut{Later: slice.Later{For: slice.WaitForge, At: now.Add(47 * time.Minute).UnixMilli(), Why: "a limit"}}
		}
		return slice.AwaitCIOut{Ended: slice.Ended{Outcome: machine.Done}}
	}, "merge")
	require.Equal(t, machine.Delivered, got.Ending)
	require.Equal(t, []time.Duration{47 * time.Minute}, l.pauses())
}

func TestAForgeIsNotWaitedForForEver(t *testing.T) {
	got, l, _ := awaited(t, "forge-gone", time.Minute, func(_ int, now time.Time) slice.AwaitCIOut {
		return slice.AwaitCIOut{Later: slice.Later{For: slice.WaitForge, At: now.Add(24 * time.Hour).UnixMilli(), Why: "it is down"}}
	}, "")
	require.Equal(t, machine.BlockedCI, got.Ending)
	require.Equal(t, machine.CauseUnmeasured, got.Cause)
	require.Equal(t, []time.Duration{forgePatience}, l.pauses())
}

func TestAWaitForAForgeIsShown(t *testing.T) {
	var page string
	var status slice.Status
	w := newWorld("forge-shown", 1, scenario{rules: toMerge}.ruled(), begin+task+whole+"publish propose await_ci!waits merge").open(t)
	got := inEnvironment(t, w, nil, func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(func() {
			answer, err := env.QueryWorkflow(slice.QueryStatus)
			require.NoError(t, err)
			require.NoError(t, answer.Get(&status))
			answer, err = env.QueryWorkflow("__temporal_workflow_metadata")
			require.NoError(t, err)
			var meta sdkpb.WorkflowMetadata
			require.NoError(t, answer.Get(&meta))
			page = meta.GetCurrentDetails()
		}, 20*time.Second)
	})
	require.Equal(t, machine.Delivered, got.Ending)
	require.Equal(t, slice.WaitCI, status.Waiting.For)
	require.Equal(t, "look 2", status.Waiting.Why)
	require.NotZero(t, status.Waiting.Until)
	require.Equal(t, 7, status.Proposal.Number)
	require.Contains(t, page, "waits for ci")
	require.Contains(t, page, "gives up at")
	require.Contains(t, page, "[#7](https://forge.example/pull/7)")
	require.Contains(t, page, "- build: done (https://forge.example/run/1)")
	require.NotContains(t, page, "interlock report")
	require.Equal(t, object("merged", w.whole), got.Merged)
}

// The extra task of red CI tells its implementer what CI said, in every
// attempt; the slice goes on with it over continue-as-new.
func TestRedCIIsToldInEveryAttempt(t *testing.T) {
	w := newWorld("told-ci", 1, scenario{rules: toMerge}.ruled(), begin+task+whole+"publish propose await_ci=failed "+
		"implement check=failed implement check judge commit "+forged+"merge").open(t)
	w.host.StepsPerRun = 1
	got := inEnvironment(t, w, nil, nil)
	w.sound(t)
	require.Equal(t, machine.Delivered, got.Ending)
	var told [][]string
	for _, in := range w.inputs {
		if in, ok := in.(slice.ImplementIn); ok {
			var names []string
			for _, c := range in.Feedback.Checks {
				names = append(names, c.Name+" "+c.Summary)
			}
			told = append(told, append([]string{in.Task.ID}, names...))
		}
	}
	require.Equal(t, [][]string{
		{"t1"},
		{"ci", "build the log of CI"},
		{"ci", "unit --- FAIL: TestGreet", "build the log of CI"},
	}, told)
	require.Len(t, got.Tasks, 2)
	require.Equal(t, "CI is green: build failed.", got.Tasks[1].Criterion)
	for _, in := range w.inputs {
		if in, ok := in.(slice.JudgeIn); ok {
			require.NotContains(t, in.Task.Details, "the log of CI")
		}
		if in, ok := in.(slice.ProposeIn); ok && in.Proposal.Number != 0 {
			require.Len(t, in.Extra, 1)
			require.NotContains(t, in.Extra[0].Details, "the log of CI")
		}
	}
}

// A slice that has a task of that name already gets another one.
func TestTheExtraTaskHasAnIDOfItsOwn(t *testing.T) {
	w := newWorld("two-ci", 2, scenario{rules: toMerge}.ruled(), begin+task+task+whole+"publish propose await_ci=failed "+task+forged+"merge").open(t)
	w.spec.Tasks[0].ID, w.spec.Tasks[1].ID = "ci", "ci-2"
	got := inEnvironment(t, w, nil, nil)
	require.Equal(t, "ci-3", got.Tasks[2].ID)
}

func TestLink(t *testing.T) {
	require.Equal(t, "[#1](https://x/pull/1)", link("#1", "https://x/pull/1"))
	for _, bad := range []string{"javascript:alert(1)", "https://x/)[y](z", "https://x/\ny", ""} {
		require.Equal(t, "#1", link("#1", bad))
	}
}
