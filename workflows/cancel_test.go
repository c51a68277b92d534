package workflows

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"interlock/ledger"
	"interlock/machine"
	"interlock/slice"
)

// cancelled is a script that has every step.
var cancelled = scenario{name: "cancelled", tasks: 2, rules: func(r *machine.Rules) { r.E2E, r.DeliverTo = true, machine.ToMerge }, script: begin + task +
	"implement check judge=failed implement check=failed implement check judge=failed advise " + task + whole + "e2e publish propose await_ci merge"}

// afterwards holds the names of activities at which a cancellation comes too late.
var afterwards = []string{string(slice.ActUndo), string(slice.ActConclude)}

// checkCancelled checks what is left of a slice that was cancelled while the
// activity name ran.
func checkCancelled(t *testing.T, w *world, got ran, name string) {
	t.Helper()
	w.mu.Lock()
	require.Empty(t, w.wrong)
	require.Empty(t, w.held, "what was made is taken back")
	undone := w.undone
	w.mu.Unlock()
	require.Equal(t, machine.Cancelled, got.Ending)
	require.Equal(t, 21, got.Code)
	require.Empty(t, got.Failed)
	var canceled *temporal.CanceledError
	require.ErrorAs(t, got.err, &canceled)
	if name == string(slice.ActClaim) {
		require.Empty(t, undone)
		require.Empty(t, w.lines)
		return
	}
	want := []slice.Undone{slice.UndoViews, slice.UndoWorkspace}
	switch name {
	case string(slice.ActPublish):
		want = []slice.Undone{slice.UndoBranch, slice.UndoViews, slice.UndoWorkspace}
	case string(slice.ActPropose), string(slice.ActAwaitCI), string(slice.ActMerge):
		want = []slice.Undone{slice.UndoProposal, slice.UndoBranch, slice.UndoViews, slice.UndoWorkspace}
	}
	require.Equal(t, want, undone, "in reverse order")
	turns, f := w.recorded(t)
	require.Equal(t, machine.Cancelled, f.State.Ending)
	require.True(t, f.Ended)
	require.True(t, f.Undoing)
	require.Equal(t, got.status.State, f.State)
	require.Equal(t, f.State.SpentMicroUSD, got.CostMicroUSD)
	require.Equal(t, machine.Step(name), turns[len(turns)-1].Step)
	require.Equal(t, slice.Tail{N: f.N, Head: f.Head}, got.Ledger)
}

func TestCancelAtEveryAwaitInTheEnvironment(t *testing.T) {
	for n := 1; ; n++ {
		w := cancelled.world(fmt.Sprintf("env-%d-", n)).open(t)
		var env *testsuite.TestWorkflowEnvironment
		at := ""
		w.unheard = true
		w.onStart = func(_ context.Context, i int, name string) bool {
			if i == n {
				at = name
				env.CancelWorkflow()
			}
			return i == n
		}
		got := inEnvironment(t, w, nil, func(e *testsuite.TestWorkflowEnvironment) { env = e })
		switch {
		case at == "":
			require.Equal(t, machine.Delivered, got.Ending)
			require.Equal(t, len(parse(cancelled.script))+1+3+1, n-1, "a claim, every step, three compensations, the end")
			return
		case slices.Contains(afterwards, at):
			require.Equal(t, machine.Delivered, got.Ending, "it is too late at %s", at)
			w.sound(t)
		default:
			checkCancelled(t, w, got, at)
		}
	}
}

// On a real server the activity hears of the cancellation and ends by itself:
// an agent with what it has cost, any other step as cancelled.
func TestCancelAtEveryAwaitOnTheServer(t *testing.T) {
	server := realServer(t)
	calls := parse(cancelled.script)
	names := []string{string(slice.ActClaim)}
	for _, c := range calls {
		names = append(names, string(c.Step))
	}
	names = append(names, string(slice.ActUndo), string(slice.ActUndo), string(slice.ActUndo), string(slice.ActConclude))
	for n, name := range names {
		t.Run(fmt.Sprintf("%d-%s", n+1, name), func(t *testing.T) {
			t.Parallel()
			w := cancelled.world(fmt.Sprintf("server-%d-", n+1)).open(t)
			var started atomic.Value
			w.onStart = func(ctx context.Context, i int, now string) bool {
				if i != n+1 {
					return false
				}
				started.Store(now)
				if err := server.CancelWorkflow(t.Context(), w.spec.ID, ""); err != nil {
					panic(err)
				}
				return name != string(slice.ActClaim) && !slices.Contains(afterwards, name) && stopped(ctx)
			}
			got := server.run(t, w)
			require.Equal(t, name, started.Load())
			if slices.Contains(afterwards, name) {
				require.Equal(t, machine.Delivered, got.Ending)
				w.sound(t)
				return
			}
			checkCancelled(t, w, got, name)
			var cost int64
			for _, c := range calls[:max(n-1, 0)] {
				cost += c.Cost
			}
			if prices[machine.Step(name)] > 0 {
				cost += 7
			}
			require.Equal(t, cost, got.CostMicroUSD, "what the step has cost that was cut off counts")
		})
	}
}

// stopped waits until an activity is told to stop.
func stopped(ctx context.Context) bool {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(20 * time.Second)
	for {
		select {
		case <-ctx.Done():
			return true
		case <-deadline:
			return false
		case <-ticker.C:
			activity.RecordHeartbeat(ctx)
		}
	}
}

// A worker that is killed while its step is being cancelled gets no second
// try: what an agent has cost by then is asked for.
func TestAKilledCallIsSettled(t *testing.T) {
	server := realServer(t)
	for name, c := range map[string]struct {
		step   machine.Step
		fails  bool
		cost   int64
		settle int
	}{
		"an agent":                {step: machine.Judge, cost: 1000 + 9, settle: 1},
		"a reconciler":            {step: machine.Reconcile, cost: 1100 + 9, settle: 1},
		"a check":                 {step: machine.Check, cost: 1000},
		"nobody knows what it is": {step: machine.Implement, settle: 1, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := named("killed-"+string(c.step), begin+task+whole+"publish").open(t)
			w.killed, w.settleFails = true, c.fails
			w.onStart = func(ctx context.Context, _ int, now string) bool {
				if now != string(c.step) {
					return false
				}
				if err := server.CancelWorkflow(t.Context(), w.spec.ID, ""); err != nil {
					panic(err)
				}
				return stopped(ctx)
			}
			got := server.run(t, w)
			require.Equal(t, machine.Cancelled, got.Ending)
			require.Empty(t, w.held)
			require.Equal(t, c.settle, w.settled)
			require.Equal(t, c.cost, got.CostMicroUSD)
			_, f := w.recorded(t)
			require.Equal(t, got.status.State, f.State)
			if !c.fails {
				require.Empty(t, got.Failed)
				return
			}
			require.Len(t, got.Failed, 1)
			require.Contains(t, got.Failed[0], "is not known and not counted: the home is not there")
		})
	}
}

// A step that ended before the cancellation reached it counts as it ended.
func TestCancelComesTooLateForADelivery(t *testing.T) {
	server := realServer(t)
	w := named("late", begin+task+whole+"publish").open(t)
	w.onStart = func(ctx context.Context, _ int, name string) bool {
		if name == string(slice.ActPublish) {
			if err := server.CancelWorkflow(t.Context(), w.spec.ID, ""); err != nil {
				panic(err)
			}
		}
		return false
	}
	got := server.run(t, w)
	require.Equal(t, machine.Delivered, got.Ending, "it is published: that cannot be cancelled")
	w.sound(t)
}

// Of three compensations the middle one fails.
func TestOneFailedCompensationKeepsNoOtherBack(t *testing.T) {
	server := realServer(t)
	w := named("undo-fails", begin+task+whole+"publish").open(t)
	w.undoFails = map[slice.Undone]error{slice.UndoViews: temporal.NewNonRetryableApplicationError("permission denied", "Disk", nil)}
	w.onStart = func(ctx context.Context, _ int, name string) bool {
		if name != string(slice.ActPublish) {
			return false
		}
		if err := server.CancelWorkflow(t.Context(), w.spec.ID, ""); err != nil {
			panic(err)
		}
		return stopped(ctx)
	}
	got := server.run(t, w)
	require.Equal(t, machine.Cancelled, got.Ending)
	require.Equal(t, []slice.Undone{slice.UndoBranch, slice.UndoWorkspace}, w.undone)
	require.Equal(t, []string{"the branch is removed", "the workspace is removed"}, got.Undone)
	require.Len(t, got.Failed, 1)
	require.Contains(t, got.Failed[0], "the views could not be taken back: permission denied; ")
	require.Contains(t, got.Failed[0], "host h1")
	_, f := w.recorded(t)
	require.Equal(t, machine.Cancelled, f.State.Ending)
	record, err := ledger.Parse(w.lines)
	require.NoError(t, err)
	var undone []slice.Undone
	for _, l := range record {
		if l.Kind == ledger.Undo {
			undone = append(undone, l.Undo)
		}
	}
	require.Equal(t, w.undone, undone, "the record has what was taken back, and nothing else")

	// The order as the history has it.
	all, err := asked(server.history(t, w.spec.ID, ""))
	require.NoError(t, err)
	var order []string
	for _, c := range all {
		for _, what := range []slice.Undone{slice.UndoBranch, slice.UndoViews, slice.UndoWorkspace} {
			if c.Name == string(slice.ActUndo) && strings.Contains(c.Input, fmt.Sprintf(`"what":%q`, what)) {
				require.Equal(t, slice.HostQueue("h1"), c.Queue)
				order = append(order, string(what))
			}
		}
		if c.Name == string(slice.ActConclude) {
			order = append(order, c.Name)
		}
	}
	require.Equal(t, []string{"branch", "views", "workspace", "conclude"}, order)
}

// A record whose end cannot be written is said to have none.
func TestTheEndOfTheRecordCannotBeWritten(t *testing.T) {
	w := named("no-end", begin+"implement check=unmeasured").open(t)
	got := inEnvironment(t, w, nil, func(env *testsuite.TestWorkflowEnvironment) {
		env.OnActivity(string(slice.ActConclude), mock.Anything, mock.Anything).Return(slice.Ack{}, temporal.NewNonRetryableApplicationError("the disk is full", "Disk", nil))
	})
	require.Equal(t, machine.BlockedChecks, got.Ending)
	require.Equal(t, []string{"the end of the record could not be written: the disk is full"}, got.Failed)
}

// No worker serves the host: the step is lost, and so is the end of the record.
func TestAHostThatIsGone(t *testing.T) {
	server := realServer(t)
	w := named("gone", "").open(t)
	w.host.Queue, w.host.ScheduleToStart = slice.HostQueue("gone"), slice.Duration(200*time.Millisecond)
	got := server.run(t, w)
	require.Equal(t, machine.BlockedCall, got.Ending)
	require.Equal(t, machine.CauseHost, got.Cause)
	require.Contains(t, message(t, got.err), "start the worker of that host again")
	require.Len(t, got.Failed, 1)
	require.Contains(t, got.Failed[0], "no worker of the host took it in its time")
	require.Empty(t, w.lines)
}
