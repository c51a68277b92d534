package workflows

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"interlock/ledger"
	"interlock/machine"
	"interlock/slice"
)

// ran is what a slice that was run looks like from outside.
type ran struct {
	slice.Result
	err     error
	status  slice.Status
	carries []slice.Carry // one for each continue-as-new
	env     *testsuite.TestWorkflowEnvironment
}

// pure takes a script through the machine alone.
func pure(t *testing.T, tasks int, rules machine.Rules, script string) (turns []machine.Turn, s machine.State) {
	t.Helper()
	s = machine.New(tasks, machine.Rules{})
	var err error
	for _, c := range parse(script) {
		turn, ok := machine.Due(s)
		require.True(t, ok, "the script goes on with %s after the slice has ended as %s", c.Step, s.Ending)
		if c.Step == claimed {
			if c.How == fork {
				s, err = machine.Stop(s, machine.Impossible)
			} else {
				s, err = machine.Next(s, machine.Event{Step: machine.Prepare, Outcome: c.Outcome, Cause: c.Cause})
			}
			require.NoError(t, err)
			continue
		}
		turns = append(turns, turn)
		if c.How == mismatch || c.How == fork {
			s, err = machine.Stop(s, machine.Impossible)
			require.NoError(t, err)
			continue
		}
		if c.Step == machine.Prepare && c.Outcome == machine.Done {
			s.Rules = rules
		}
		s, err = machine.Next(s, machine.Event{Step: c.Step, Outcome: c.Outcome, Cause: c.Cause, CostMicroUSD: c.Cost})
		require.NoError(t, err)
	}
	require.True(t, s.Ended(), "the script ends before the slice: %s is due", s.Step)
	return turns, s
}

// recorded reads back what the record of w says.
func (w *world) recorded(t *testing.T) (turns []machine.Turn, f ledger.Folded) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	record, err := ledger.Parse(w.lines)
	require.NoError(t, err)
	for _, l := range record {
		if l.Kind == ledger.Intent {
			turns = append(turns, l.Turn)
		}
	}
	f, err = ledger.Fold(w.lines)
	require.NoError(t, err)
	return turns, f
}

func (w *world) sound(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Empty(t, w.wrong)
	for w.at < len(w.calls) && w.calls[w.at].How == noCall {
		w.at++
	}
	require.Equal(t, len(w.calls), w.at, "not every call of the script was made")
}

// open makes w answer for its slice until the test ends.
func (w *world) open(t *testing.T) *world {
	t.Helper()
	_, twice := worlds.LoadOrStore(w.spec.ID, w)
	require.False(t, twice, "two worlds have slice %s", w.spec.ID)
	t.Cleanup(func() { worlds.Delete(w.spec.ID) })
	return w
}

// outcome reads the result out of what the workflow returned.
func outcome(t *testing.T, result slice.Result, err error) slice.Result {
	t.Helper()
	var app *temporal.ApplicationError
	var canceled *temporal.CanceledError
	switch {
	case err == nil:
		require.Equal(t, machine.Delivered, result.Ending)
	case errors.As(err, &app):
		require.NoError(t, app.Details(&result))
		require.True(t, app.NonRetryable())
		require.Equal(t, string(result.Ending), app.Type())
		require.NotContains(t, []machine.Ending{machine.Delivered, machine.Cancelled}, result.Ending)
	case errors.As(err, &canceled):
		require.NoError(t, canceled.Details(&result))
		require.Equal(t, machine.Cancelled, result.Ending)
	default:
		require.NoError(t, err)
	}
	end, ok := machine.Find(result.Ending, result.Cause)
	require.True(t, ok)
	require.Equal(t, end.Code, result.Code)
	require.Equal(t, end.Next, result.Next)
	return result
}

var quiet = log.NewStructuredLogger(slog.New(slog.DiscardHandler))

// environment is a test environment with the fakes.
func environment(w *world, rec *recorder) *testsuite.TestWorkflowEnvironment {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(quiet)
	env := suite.NewTestWorkflowEnvironment()
	env.RegisterWorkflowWithOptions(Slice, workflow.RegisterOptions{Name: slice.Workflow})
	registerClaim(env)
	registerOwn(env)
	env.SetStartTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: w.spec.ID, TaskQueue: slice.Queue})
	if rec != nil {
		env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{rec}})
	}
	return env
}

// inEnvironment runs the slice of w in the test environment, through every
// continue-as-new. each is called with the environment before every run.
func inEnvironment(t *testing.T, w *world, rec *recorder, each func(*testsuite.TestWorkflowEnvironment)) ran {
	t.Helper()
	in := slice.Input{Spec: w.spec}
	var carries []slice.Carry
	for range 10_000 {
		env := environment(w, rec)
		if each != nil {
			each(env)
		} else {
			decideInEnvironment(env, w)
		}
		if in.Carry != nil {
			env.SetContinuedExecutionRunID("the-run-before")
		}
		env.ExecuteWorkflow(slice.Workflow, in)
		require.True(t, env.IsWorkflowCompleted())
		err := env.GetWorkflowError()
		var next *workflow.ContinueAsNewError
		if errors.As(err, &next) {
			require.Equal(t, slice.Workflow, next.WorkflowType.Name)
			in = slice.Input{}
			require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(next.Input, &in))
			require.NotNil(t, in.Carry)
			carries = append(carries, *in.Carry)
			continue
		}
		var result slice.Result
		if err == nil {
			require.NoError(t, env.GetWorkflowResult(&result))
		}
		got := ran{Result: outcome(t, result, err), err: err, carries: carries, env: env}
		answer, err := env.QueryWorkflow(slice.QueryStatus)
		require.NoError(t, err)
		require.NoError(t, answer.Get(&got.status))
		return got
	}
	require.FailNow(t, "the slice never ends")
	return ran{}
}

// decideInEnvironment lets a person look every minute, who decides as the
// script has it.
func decideInEnvironment(env *testsuite.TestWorkflowEnvironment, w *world) {
	for i := range 3 {
		env.RegisterDelayedCallback(func() {
			var s slice.Status
			if answer, err := env.QueryWorkflow(slice.QueryStatus); err != nil || answer.Get(&s) != nil {
				w.complain("the status cannot be asked: %v", err)
			}
			if d, ok := w.decision(s.Waiting); ok {
				env.SignalWorkflow(slice.Decide, d)
			}
		}, time.Duration(i+1)*time.Minute)
	}
}

// decide does the same on a server, by updates, until ctx ends.
func (s *server) decide(ctx context.Context, w *world) {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		var status slice.Status
		if answer, err := s.QueryWorkflow(ctx, w.spec.ID, "", slice.QueryStatus); err != nil || answer.Get(&status) != nil {
			continue
		}
		if d, ok := w.decision(status.Waiting); ok {
			update, err := s.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
				WorkflowID: w.spec.ID, UpdateName: slice.Decide, WaitForStage: client.WorkflowUpdateStageCompleted, Args: []any{d}})
			if err == nil {
				err = update.Get(ctx, nil)
			}
			if err != nil && ctx.Err() == nil {
				w.complain("the decision was not taken: %v", err)
			}
		}
	}
}

// A server is a real one, with workers that serve every world.
type server struct {
	client.Client
	dev     *testsuite.DevServer
	workers []worker.Worker
}

var (
	serverOnce sync.Once
	theServer  *server
	serverErr  error
)

// realServer starts the server at its first call; TestMain stops it.
func realServer(t *testing.T) *server {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a Temporal server, which -short leaves out")
	}
	serverOnce.Do(func() { theServer, serverErr = startServer(context.Background()) }) //nolint:usetesting // it outlives the test that starts it
	require.NoError(t, serverErr)
	return theServer
}

func (s *server) serve() error {
	options := worker.Options{
		MaxHeartbeatThrottleInterval: 20 * time.Millisecond, DefaultHeartbeatThrottleInterval: 20 * time.Millisecond,
		DisableRegistrationAliasing: true,
	}
	shared := worker.New(s.Client, slice.Queue, options)
	shared.RegisterWorkflowWithOptions(Slice, workflow.RegisterOptions{Name: slice.Workflow})
	registerClaim(shared)
	options.DisableWorkflowWorker = true
	own := worker.New(s.Client, slice.HostQueue("h1"), options)
	registerOwn(own)
	s.workers = []worker.Worker{shared, own}
	for _, w := range s.workers {
		if err := w.Start(); err != nil {
			return err
		}
	}
	return nil
}

func (s *server) stop() error {
	for _, w := range s.workers {
		w.Stop()
	}
	s.Close()
	return s.dev.Stop()
}

func (s *server) start(t *testing.T, w *world) client.WorkflowRun {
	t.Helper()
	run, err := s.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
		ID: w.spec.ID, TaskQueue: slice.Queue, WorkflowExecutionTimeout: time.Minute,
	}, slice.Workflow, slice.Input{Spec: w.spec})
	require.NoError(t, err)
	return run
}

func (s *server) run(t *testing.T, w *world) ran {
	t.Helper()
	return s.wait(t, s.start(t, w))
}

func (s *server) wait(t *testing.T, run client.WorkflowRun) ran {
	t.Helper()
	var result slice.Result
	if w, err := worldOf(run.GetID()); err == nil && slices.ContainsFunc(w.calls, func(c call) bool { return isGate(c.Step) }) {
		ctx, cancel := context.WithCancel(t.Context())
		var person sync.WaitGroup
		person.Go(func() { s.decide(ctx, w) })
		defer person.Wait()
		defer cancel()
	}
	err := run.Get(t.Context(), &result)
	got := ran{Result: outcome(t, result, err), err: err}
	answer, err := s.QueryWorkflow(t.Context(), run.GetID(), "", slice.QueryStatus)
	require.NoError(t, err)
	require.NoError(t, answer.Get(&got.status))
	return got
}

// history returns the events of one Temporal run; an empty run is the last.
func (s *server) history(t *testing.T, id, run string) *historypb.History {
	t.Helper()
	h := &historypb.History{}
	for it := s.GetWorkflowHistory(t.Context(), id, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); it.HasNext(); {
		e, err := it.Next()
		require.NoError(t, err)
		h.Events = append(h.Events, e)
	}
	return h
}

// A command is what a workflow asks for, with all that the replayer does not
// compare by itself.
type command struct{ What, Name, Queue, Input string }

// recorder notes the commands of a workflow as its code makes them.
type recorder struct {
	interceptor.WorkerInterceptorBase
	got []command
}

func (r *recorder) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &inbound{interceptor.WorkflowInboundInterceptorBase{Next: next}, r}
}

type inbound struct {
	interceptor.WorkflowInboundInterceptorBase
	r *recorder
}

func (i *inbound) Init(next interceptor.WorkflowOutboundInterceptor) error {
	return i.Next.Init(&outbound{interceptor.WorkflowOutboundInterceptorBase{Next: next}, i.r})
}

func (i *inbound) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	result, err := i.Next.ExecuteWorkflow(ctx, in)
	var next *workflow.ContinueAsNewError
	failure := temporal.GetDefaultFailureConverter().ErrorToFailure(err)
	switch {
	case err == nil:
		i.r.got = append(i.r.got, ended("completed", must(converter.GetDefaultDataConverter().ToPayloads(result))))
	case errors.As(err, &next):
		i.r.got = append(i.r.got, ended("continued", next.Input))
	case failure.GetCanceledFailureInfo() != nil:
		i.r.got = append(i.r.got, ended("canceled", failure.GetCanceledFailureInfo().GetDetails()))
	default:
		i.r.got = append(i.r.got, ended("failed", failure.GetApplicationFailureInfo().GetDetails()))
	}
	return result, err
}

func ended(how string, with *commonpb.Payloads) command {
	return command{What: "end", Name: how, Input: text(with.GetPayloads()...)}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

type outbound struct {
	interceptor.WorkflowOutboundInterceptorBase
	r *recorder
}

func (o *outbound) ExecuteActivity(ctx workflow.Context, name string, args ...any) workflow.Future {
	input := must(converter.GetDefaultDataConverter().ToPayloads(args...))
	o.r.got = append(o.r.got, command{"activity", name, workflow.GetActivityOptions(ctx).TaskQueue, text(input.GetPayloads()...)})
	return o.Next.ExecuteActivity(ctx, name, args...)
}

func (o *outbound) NewTimer(ctx workflow.Context, d time.Duration) workflow.Future {
	o.r.got = append(o.r.got, command{What: "timer", Input: d.String()})
	return o.Next.NewTimer(ctx, d)
}

func (o *outbound) NewTimerWithOptions(ctx workflow.Context, d time.Duration, options workflow.TimerOptions) workflow.Future {
	o.r.got = append(o.r.got, command{What: "timer", Input: d.String()})
	return o.Next.NewTimerWithOptions(ctx, d, options)
}

func (o *outbound) UpsertTypedSearchAttributes(ctx workflow.Context, updates ...temporal.SearchAttributeUpdate) error {
	told := map[string]any{}
	for key, value := range temporal.NewSearchAttributes(updates...).GetUntypedValues() {
		told[key.GetName()] = value
	}
	o.r.got = append(o.r.got, command{What: "attributes", Input: asJSON(told)})
	return o.Next.UpsertTypedSearchAttributes(ctx, updates...)
}

func (r *recorder) count(what, name string) (n int) {
	for _, c := range r.got {
		if c.What == what && (name == "" || c.Name == name) {
			n++
		}
	}
	return n
}

// asked returns the commands in a history, in the order of their events.
func asked(h *historypb.History) (all []command, err error) {
	for _, e := range h.GetEvents() {
		if a := e.GetActivityTaskScheduledEventAttributes(); a != nil {
			all = append(all, command{"activity", a.GetActivityType().GetName(), a.GetTaskQueue().GetName(), text(a.GetInput().GetPayloads()...)})
		}
		if a := e.GetTimerStartedEventAttributes(); a != nil {
			all = append(all, command{What: "timer", Input: a.GetStartToFireTimeout().AsDuration().String()})
		}
		if a := e.GetUpsertWorkflowSearchAttributesEventAttributes(); a != nil {
			told := map[string]any{}
			for name, p := range a.GetSearchAttributes().GetIndexedFields() {
				var value any
				if len(p.GetData()) == 0 {
					continue
				}
				if err := json.Unmarshal(p.GetData(), &value); err != nil {
					return nil, fmt.Errorf("attribute %s: %w", name, err)
				}
				if list, ok := value.([]any); value == nil || ok && len(list) == 0 {
					continue // it was unset, which the interceptor is not told
				}
				told[name] = value
			}
			all = append(all, command{What: "attributes", Input: asJSON(told)})
		}
		switch e.GetEventType() {
		case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED:
			all = append(all, ended("completed", e.GetWorkflowExecutionCompletedEventAttributes().GetResult()))
		case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
			all = append(all, ended("continued", e.GetWorkflowExecutionContinuedAsNewEventAttributes().GetInput()))
		case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED:
			all = append(all, ended("canceled", e.GetWorkflowExecutionCanceledEventAttributes().GetDetails()))
		case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:
			all = append(all, ended("failed", e.GetWorkflowExecutionFailedEventAttributes().GetFailure().GetApplicationFailureInfo().GetDetails()))
		default:
		}
	}
	return all, nil
}

func text(payloads ...*commonpb.Payload) (all string) {
	for _, p := range payloads {
		all += string(p.GetData()) + "\n"
	}
	return all
}

func asJSON(v any) string { return string(must(json.Marshal(v))) }
