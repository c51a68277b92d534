package saga

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"interlock/slice"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDeclare(t *testing.T) {
	var stack []slice.UndoIn
	for _, u := range []slice.UndoIn{
		{What: slice.UndoWorkspace}, {What: slice.UndoViews}, {What: slice.UndoBranch, Commit: "old"},
		{What: slice.UndoWorkspace}, {What: slice.UndoBranch, Commit: "new"},
	} {
		stack = Declare(stack, u)
	}
	require.Equal(t, []slice.UndoIn{{What: slice.UndoWorkspace}, {What: slice.UndoViews}, {What: slice.UndoBranch, Commit: "new"}}, stack)
}

// However often it is declared, each compensation is there once, in the order
// of its first declaration and with its last arguments.
func TestDeclareKeepsPlaces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kinds := rapid.SampledFrom([]slice.Undone{slice.UndoWorkspace, slice.UndoViews, slice.UndoBranch})
		var stack, want []slice.UndoIn
		for _, what := range rapid.SliceOf(kinds).Draw(t, "declared") {
			u := slice.UndoIn{What: what, Commit: rapid.StringMatching(`[0-9a-f]{4}`).Draw(t, "commit")}
			stack = Declare(stack, u)
			known := false
			for i := range want {
				if want[i].What == what {
					want[i], known = u, true
				}
			}
			if !known {
				want = append(want, u)
			}
		}
		require.Equal(t, want, stack)
	})
}

// compensation is a workflow that takes three effects back, after it was cancelled.
func compensation(ctx workflow.Context, fails slice.Undone) (done []slice.Undone, err error) {
	if err := workflow.Sleep(ctx, time.Hour); err == nil {
		return nil, errors.New("it was not cancelled")
	}
	stack := []slice.UndoIn{{What: slice.UndoWorkspace}, {What: slice.UndoViews}, {What: slice.UndoBranch}}
	all := Compensate(ctx, stack, func(ctx workflow.Context, u slice.UndoIn) (string, error) {
		done = append(done, u.What)
		if err := workflow.Sleep(ctx, time.Minute); err != nil {
			return "", err // the cancellation came through
		}
		if u.What == fails {
			return "", errors.New("permission denied")
		}
		return "the " + string(u.What) + " is gone", nil
	})
	for i, s := range all {
		if s.What != done[i] || (s.Err != nil) != (s.What == fails) || (s.Seen == "") != (s.What == fails) {
			return nil, errors.New("what was seen is not what was done")
		}
	}
	return done, nil
}

func TestCompensate(t *testing.T) {
	for _, fails := range []slice.Undone{"", slice.UndoBranch, slice.UndoViews, slice.UndoWorkspace} {
		t.Run("fails "+string(fails), func(t *testing.T) {
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestWorkflowEnvironment()
			env.RegisterDelayedCallback(env.CancelWorkflow, time.Second)
			env.ExecuteWorkflow(compensation, fails)
			require.NoError(t, env.GetWorkflowError())
			var done []slice.Undone
			require.NoError(t, env.GetWorkflowResult(&done))
			require.Equal(t, []slice.Undone{slice.UndoBranch, slice.UndoViews, slice.UndoWorkspace}, done)
		})
	}
}

func TestNothingToCompensate(t *testing.T) {
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.ExecuteWorkflow(func(ctx workflow.Context) (int, error) {
		return len(Compensate(ctx, nil, nil)), nil
	})
	var n int
	require.NoError(t, env.GetWorkflowError())
	require.NoError(t, env.GetWorkflowResult(&n))
	require.Zero(t, n)
}
