package workflows

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"interlock/ledger"
	"interlock/machine"
	"interlock/slice"
)

func named(name, script string) *world {
	return newWorld(name, 1, scenario{}.ruled(), script)
}

// inputsOf returns what the calls of one activity were told, in their order.
func inputsOf[In any](w *world) (all []In) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, in := range w.inputs {
		if v, ok := in.(In); ok {
			all = append(all, v)
		}
	}
	return all
}

func TestFeedbackOfRedChecks(t *testing.T) {
	w := named("feedback", begin+"implement check=failed implement check judge commit "+whole+"publish").open(t)
	inEnvironment(t, w, nil, nil)
	briefs := inputsOf[slice.ImplementIn](w)
	require.Len(t, briefs, 2)
	require.Equal(t, slice.Feedback{}, briefs[0].Feedback)
	require.Len(t, briefs[1].Feedback.Checks, 1, "a green check is no feedback")
	require.Equal(t, "unit", briefs[1].Feedback.Checks[0].Name)
	require.Equal(t, []string{"TestGreet"}, briefs[1].Feedback.Checks[0].Failing)
	require.Equal(t, "--- FAIL: TestGreet", briefs[1].Feedback.Checks[0].Summary)
	require.Equal(t, 2, briefs[1].Turn.Attempt)
}

func TestFeedbackOfJudges(t *testing.T) {
	w := newWorld("vetoes", 2, scenario{}.ruled(), begin+
		"implement check judge=failed implement check=failed implement check judge=failed advise implement check judge=corrections "+task+
		"implement check judge commit "+whole+"publish").open(t)
	inEnvironment(t, w, nil, nil)
	briefs := inputsOf[slice.ImplementIn](w)
	require.Len(t, briefs, 6)
	const veto, name, advice = "it does not greet", "name it better", "begin with the greeting"
	for i, want := range []struct {
		claim, advice string
		red, restore  bool
	}{
		{}, {claim: veto}, {claim: veto, red: true}, {claim: veto, advice: advice, restore: true}, {claim: name, advice: advice}, {},
	} {
		got := briefs[i]
		var claims []string
		for _, f := range got.Feedback.Findings {
			claims = append(claims, f.Claim)
		}
		require.Equal(t, want.claim, strings.Join(claims, ", "), "brief %d", i+1)
		require.Equal(t, want.advice, strings.Join(got.Feedback.Advice, ", "), "brief %d", i+1)
		require.Equal(t, want.red, len(got.Feedback.Checks) > 0, "brief %d", i+1)
		require.Equal(t, want.restore, got.Restore, "brief %d", i+1)
	}
	require.Equal(t, 2, briefs[5].Turn.Task)
	advised := inputsOf[slice.AdviseIn](w)
	require.Len(t, advised, 1)
	require.Equal(t, veto, advised[0].Findings[0].Claim)
}

func TestFeedbackOfDiscards(t *testing.T) {
	w := named("discarded", begin+"implement=discarded implement=discarded "+task+whole+"publish").open(t)
	inEnvironment(t, w, nil, nil)
	briefs := inputsOf[slice.ImplementIn](w)
	require.Len(t, briefs, 3)
	require.Empty(t, briefs[0].Feedback.Discarded)
	require.Equal(t, "implement is discarded", briefs[1].Feedback.Discarded)
	require.Equal(t, "implement is discarded", briefs[2].Feedback.Discarded)
	require.Equal(t, 1, briefs[2].Turn.Attempt, "no retry is spent")
}

func TestJudgesGetFactsOnly(t *testing.T) {
	w := named("facts", begin+task+whole+"publish").open(t)
	inEnvironment(t, w, nil, nil)
	in := inputsOf[slice.JudgeIn](w)[0]
	require.Equal(t, []slice.Measured{{Name: "unit", Outcome: machine.Done, Passed: 3}, {Name: "lint", Outcome: machine.Done}}, in.Checks)
	require.Equal(t, w.spec.Tasks[0], in.Task)
	all := inputsOf[slice.JudgeSliceIn](w)[0]
	require.Equal(t, w.spec.Tasks, all.Tasks)
}

func TestAnUnchangedCandidateIsNotJudgedAgain(t *testing.T) {
	w := named("unchanged", begin+"implement@a check judge=failed implement@a check judge=failed!nocall advise "+task+whole+"publish").open(t)
	rec := &recorder{}
	got := inEnvironment(t, w, rec, nil)
	require.Equal(t, machine.Delivered, got.Ending)
	require.Equal(t, 2, rec.count("activity", string(slice.ActJudge)))
}

func TestOpenCorrectionsAreKept(t *testing.T) {
	w := newWorld("open", 1, scenario{}.ruled(), begin+
		"implement check judge=corrections implement check judge=corrections implement check judge=corrections commit reconcile verify judge_slice=corrections publish").open(t)
	got := inEnvironment(t, w, nil, nil)
	require.Equal(t, machine.Delivered, got.Ending)
	require.Len(t, got.Open, 2, "those of the task, and those of the whole")
	require.Empty(t, got.Findings)
}

func TestABlockedSliceFailsWithItsWholeResult(t *testing.T) {
	w := named("blocked", begin+"implement check=failed implement check=failed implement check=failed").open(t)
	got := inEnvironment(t, w, nil, nil)
	require.Equal(t, 4, got.Code)
	require.Equal(t, "blocked_checks (red): check is failed — next: read the check log, then reopen it", message(t, got.err))
	require.Equal(t, []string{"/home/slices/blocked/tree"}, got.Kept, "a person can look")
	require.Empty(t, w.undone)
	require.Equal(t, map[slice.Undone]bool{slice.UndoWorkspace: true, slice.UndoViews: true}, w.held)
	require.Equal(t, "unit", got.Checks[0].Name)
	require.Equal(t, machine.Check, got.Step)
	require.Equal(t, []slice.TaskStatus{{ID: "t1", Criterion: "criterion 1 holds", Attempts: 3, CostMicroUSD: 3000}}, got.Tasks)
	require.EqualValues(t, 3000, got.CostMicroUSD)
}

func message(t *testing.T, err error) string {
	t.Helper()
	var app *temporal.ApplicationError
	require.ErrorAs(t, err, &app, "%v", err)
	return app.Message()
}

func TestTheMessageIsOneLine(t *testing.T) {
	for _, ending := range []string{"check=unmeasured", "check=unmeasured!broken"} {
		w := named("line-"+ending[len("check="):], begin+"implement "+ending).open(t)
		got := inEnvironment(t, w, nil, nil)
		require.NotContains(t, message(t, got.err), "\n")
		require.Contains(t, message(t, got.err), " — next: "+got.Next)
	}
	long := headline(slice.Result{Ending: machine.BlockedCommit, Why: strings.Repeat("über\n", 2000), Next: "repair it"})
	require.NotContains(t, long, "\n")
	require.Less(t, len(long), 2500)
	require.Contains(t, long, " — next: repair it")
}

func TestADeliveredSliceKeepsNothing(t *testing.T) {
	w := named("delivered", begin+task+whole+"publish").open(t)
	got := inEnvironment(t, w, nil, nil)
	require.NoError(t, got.err)
	require.Equal(t, map[slice.Undone]bool{slice.UndoBranch: true}, w.held, "the branch is what was asked for")
	require.Equal(t, []slice.Undone{slice.UndoViews, slice.UndoWorkspace}, w.undone, "in reverse order")
	require.Equal(t, []string{"the views is removed", "the workspace is removed"}, got.Undone)
	require.Empty(t, got.Kept)
	require.Equal(t, slice.Branch("delivered"), got.Branch)
	require.Equal(t, "/srv/repo", got.Remote)
	require.Equal(t, w.whole, got.Commit)
}

func TestARefusedClaimHasNoEffect(t *testing.T) {
	for _, script := range []string{"claim=failed/invalid", "claim=failed/precondition", "claim=failed/precondition!broken", "claim!fork"} {
		w := named("refused-"+strings.ReplaceAll(script, "/", "-"), script).open(t)
		rec := &recorder{}
		got := inEnvironment(t, w, rec, nil)
		require.Equal(t, 1, rec.count("activity", ""), "claim alone")
		require.Empty(t, w.lines)
		require.Empty(t, w.held)
		require.Zero(t, got.Ledger)
	}
}

func TestASecondRunGoesOnInTheRecord(t *testing.T) {
	w := named("again", begin+"implement=unanswered/timeout").open(t)
	inEnvironment(t, w, nil, nil)
	_, before := w.recorded(t)
	w.calls, w.at, w.ops = parse(begin+task+whole+"publish"), 0, map[string]int{}
	w.runs, w.spent = before.Runs, before.State.SpentMicroUSD
	got := inEnvironment(t, w, nil, nil)
	w.sound(t)
	_, after := w.recorded(t)
	require.Equal(t, machine.Delivered, got.Ending)
	require.Equal(t, 2, after.Runs)
	require.EqualValues(t, 1000+1301, got.CostMicroUSD, "what was spent stays spent")
	require.Equal(t, after.State.SpentMicroUSD, got.CostMicroUSD)
}

// A failing infrastructure is retried, and then never taken for a red check.
func TestRetriesEnd(t *testing.T) {
	w := named("retries", begin+"implement check").open(t)
	tries := 0
	got := inEnvironment(t, w, nil, func(env *testsuite.TestWorkflowEnvironment) {
		env.OnActivity(string(slice.ActCheck), mock.Anything, mock.Anything).Return(func(context.Context, slice.MeasureIn) (slice.MeasureOut, error) {
			tries++
			return slice.MeasureOut{}, fmt.Errorf("the disk is full")
		})
	})
	require.Equal(t, 20, tries)
	require.Equal(t, machine.BlockedChecks, got.Ending)
	require.Equal(t, machine.CauseUnmeasured, got.Cause)
	require.Equal(t, "the disk is full", got.Why)
}

// An activity that wraps a contradiction makes it retryable, but does not hide it.
func TestAWrappedContradictionStopsTheSlice(t *testing.T) {
	for name, err := range map[string]error{
		"bare":    temporal.NewNonRetryableApplicationError("another tree", slice.ErrMismatch, nil),
		"wrapped": fmt.Errorf("commit: %w", temporal.NewNonRetryableApplicationError("another tree", slice.ErrMismatch, nil)),
		"caused":  temporal.NewNonRetryableApplicationError("commit", "Other", temporal.NewApplicationError("another tree", slice.ErrLedger)),
	} {
		t.Run(name, func(t *testing.T) {
			w := named("stop-"+name, begin+"implement check judge").open(t)
			got := inEnvironment(t, w, nil, func(env *testsuite.TestWorkflowEnvironment) {
				env.OnActivity(string(slice.ActCommit), mock.Anything, mock.Anything).Return(slice.CommitOut{}, err)
			})
			require.Equal(t, machine.Impossible, got.Ending)
			require.Equal(t, 10, got.Code)
			require.Empty(t, w.undone, "a person must be able to look")
			_, f := w.recorded(t)
			require.Equal(t, machine.Impossible, f.State.Ending)
		})
	}
}

func TestAnOutcomeThatTheTableLacksIsImpossible(t *testing.T) {
	for _, call := range []string{"implement=failed", "implement=done/red", "implement=", "implement=great", "implement$-1"} {
		w := named("lacks-"+strings.ReplaceAll(call, "/", "-"), begin+call).open(t)
		got := inEnvironment(t, w, nil, nil)
		require.Equal(t, machine.Impossible, got.Ending, call)
		require.Contains(t, got.Why, `impossible: step "implement"`)
		_, f := w.recorded(t)
		require.True(t, f.Ended)
	}
}

func TestEveryStepCanBeTaken(t *testing.T) {
	all := machine.Rules{PlanGate: true, PublishGate: true, MergeGate: true, E2E: true, DeliverTo: machine.ToMerge}
	for _, s := range machine.Path(all) {
		require.Contains(t, steps, s)
	}
	require.Len(t, steps, len(machine.Path(all))+1, "advise is on no straight path")
}

func TestAttributesCostAnEventOnlyWhenATaskChanges(t *testing.T) {
	for _, c := range []struct {
		tasks  int
		script string
		want   int
	}{
		{1, begin + task + whole + "publish", 3},
		{3, begin + task + "implement check=failed " + task + task + whole + "publish", 5},
		{2, begin + "implement check=unmeasured", 2},
		{1, "claim=failed/invalid", 2},
	} {
		w := newWorld(fmt.Sprintf("attributes-%d-%d", c.tasks, c.want), c.tasks, scenario{}.ruled(), c.script).open(t)
		rec := &recorder{}
		got := inEnvironment(t, w, rec, nil)
		require.Equal(t, c.want, rec.count("attributes", ""), c.script)
		var told []string
		for _, a := range rec.got {
			if a.What == "attributes" {
				told = append(told, a.Input)
			}
		}
		require.JSONEq(t, `{"SliceStep":"prepare","SliceTask":"t1","SliceCostUSD":0,"SliceRepo":"/srv/repo","SliceNeedsHuman":false}`, told[0])
		require.Contains(t, told[len(told)-1], fmt.Sprintf(`"SliceEnding":%q`, got.Ending))
		require.Contains(t, told[len(told)-1], `"SliceNeedsHuman":false`)
	}
}

// While each activity runs, the queries answer for its step.
func TestQueriesAtEveryStep(t *testing.T) {
	w := newWorld("queries", 2, scenario{rules: withE2E}.ruled(), begin+task+"implement check judge=failed "+task+whole+"e2e publish").open(t)
	var env *testsuite.TestWorkflowEnvironment
	asked := 0
	rec := &recorder{}
	got := inEnvironment(t, w, rec, func(e *testsuite.TestWorkflowEnvironment) {
		env = e
		e.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, args converter.EncodedValues) {
			if info.ActivityType.Name == string(slice.ActClaim) {
				return
			}
			var in struct{ slice.Header }
			require.NoError(t, args.Get(&in))
			var status slice.Status
			ask(t, env, slice.QueryStatus, &status)
			var tail slice.Tail
			ask(t, env, slice.QueryLedger, &tail)
			if len(in.Lines) > 0 {
				n, err := ledger.Number(in.Lines[0])
				require.NoError(t, err)
				require.Equal(t, len(w.lines)+1, n, "what is written does not travel again")
			}
			require.Equal(t, in.Lines, tail.Pending, "what is not written travels with the step")
			asked++
			if name := info.ActivityType.Name; name == string(slice.ActUndo) || name == string(slice.ActConclude) {
				require.Nil(t, status.Due)
				require.Equal(t, machine.Delivered, status.State.Ending)
				_, err := env.QueryWorkflow(slice.QueryNext)
				require.ErrorContains(t, err, "slice queries has ended as delivered: no step is due")
				return
			}
			var next slice.Next
			ask(t, env, slice.QueryNext, &next)
			due := next.Turn
			require.Equal(t, in.Turn, due)
			require.Equal(t, &due, status.Due)
			require.Equal(t, info.ActivityType.Name, string(due.Step))
			require.Equal(t, "queries", status.Slice)
			require.Equal(t, 1, status.Run)
			require.Equal(t, "h1", status.Host)
			require.Nil(t, status.Result)
			require.Len(t, status.Tasks, 2)
		})
	})
	require.Equal(t, machine.Delivered, got.Ending)
	require.Equal(t, rec.count("activity", "")-1, asked)
	require.Equal(t, &got.Result, got.status.Result)
	require.Len(t, got.status.Recent, 18)
	require.Equal(t, "/home/slices/queries/tree", got.status.Folder)
}

func ask(t *testing.T, env *testsuite.TestWorkflowEnvironment, query string, answer any) {
	t.Helper()
	value, err := env.QueryWorkflow(query)
	require.NoError(t, err)
	require.NoError(t, value.Get(answer))
}

// A slice of a thousand tasks whose every text is as long as it can be.
func TestTheResultIsCapped(t *testing.T) {
	long := strings.Repeat("ünd <weiter> ", 300)
	w := newWorld("large", 1000, scenario{}.ruled(), begin+"implement check=unmeasured").open(t)
	for i := range w.spec.Tasks {
		w.spec.Tasks[i] = slice.Task{ID: fmt.Sprintf("task-%d-%s", i, strings.Repeat("x", 50)), Criterion: long[:400], Details: long[:100]}
	}
	w.host.StepsPerRun = 2
	got := inEnvironment(t, w, nil, func(env *testsuite.TestWorkflowEnvironment) {
		var all []slice.CheckResult
		for i := range 100 {
			all = append(all, slice.CheckResult{Measured: slice.Measured{Name: fmt.Sprint("check ", i), Outcome: machine.Unmeasured, Why: long}, Summary: long})
		}
		env.OnActivity(string(slice.ActCheck), mock.Anything, mock.Anything).Return(slice.MeasureOut{
			Ended: slice.Ended{Outcome: machine.Unmeasured, Why: long}, Checks: all}, nil)
	})
	require.Equal(t, machine.BlockedChecks, got.Ending)
	require.LessOrEqual(t, size(got.Result), 64<<10)
	require.NotEmpty(t, got.Tasks)
	require.NotEmpty(t, got.carries)
	for _, c := range got.carries {
		require.Less(t, size(c), 512<<10)
	}
	require.Less(t, size(got.status), 1<<20)
	_, f := w.recorded(t)
	require.Equal(t, got.status.State, f.State)
}

func TestFit(t *testing.T) {
	long := strings.Repeat("🚦", 2000)
	res := slice.Result{Slice: "s", Ending: machine.BlockedJudge, Cause: machine.CauseTask, Why: long[:2000], Next: "read"}
	for i := range 300 {
		res.Tasks = append(res.Tasks, slice.TaskStatus{ID: fmt.Sprint(i, strings.Repeat("x", 60)), Criterion: long, Commit: object("c"), Attempts: 9, CostMicroUSD: 1e9})
		res.Findings = append(res.Findings, slice.Finding{Judge: "j", Severity: slice.Blocking, Claim: long, Evidence: long})
		res.Checks = append(res.Checks, slice.CheckResult{Measured: slice.Measured{Name: "c", Outcome: machine.Failed, Failing: []string{long}}, Summary: long})
	}
	res.Open = res.Findings
	before := size(res)
	fitted := fit(res)
	require.LessOrEqual(t, size(fitted), resultLimit)
	require.Equal(t, before, size(res), "it cuts a copy")
	require.NotEmpty(t, fitted.Tasks)
	require.Equal(t, res.Why, fitted.Why)

	small := slice.Result{Slice: "s", Tasks: res.Tasks[:1], Checks: res.Checks[:1]}
	require.Equal(t, small, fit(small))
}
