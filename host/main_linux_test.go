package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/workflow"
	"go.uber.org/goleak"

	"interlock/activities/process"
	"interlock/engine"
	"interlock/slice"
)

// workerVariable makes the test program a worker process: its value is a plan.
const workerVariable = "HOST_TEST_WORKER"

func TestMain(m *testing.M) {
	process.Main()
	if text := os.Getenv(workerVariable); text != "" {
		os.Exit(workerMain(text))
	}
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	before := goleak.IgnoreCurrent()
	binary, err := engine.Build(context.Background(), engine.Options{Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err == nil {
		err = os.Setenv("INTERLOCK_DEVSERVER", binary)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := closeLanes(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	numbers.print()
	if err := goleak.Find(before); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// when is a moment of an activity.
type when string

const (
	atStart when = "start"
	// atMiddle is while a program that the activity runs is running.
	atMiddle when = "middle"
	// atEnd is when the activity has its result, and nobody else has it.
	atEnd when = "end"
)

// point is where something happens: at the nth activity of a name.
type point struct {
	Activity string
	N        int
	At       when
	// Git is the number of the git call that is the middle; 0 means the agent or check.
	Git int
}

// plan is what a worker process does beside its work.
type plan struct {
	Home, Address, Control, ServerHome string
	// Slice is the id of the slice.
	Slice string
	Wait  bool
	// Kill is where the worker kills itself, Cancel where it cancels the slice.
	Kill, Cancel *point
	// KillServer is the number of the activity whose scheduling kills the
	// server; one more than there are is the end of the workflow.
	KillServer int
	// KillServerAt is an activity in which the worker kills the server.
	KillServerAt *point
	// Both kills the worker too, when it has killed the server.
	Both bool
	// Count counts the git calls of each activity.
	Count bool
}

// Messages of the worker's log that the tests read.
const (
	saysServing     = "worker is serving"
	saysStarts      = "test: activity starts"
	saysEnds        = "test: activity ends"
	saysLeft        = "test: worker left"
	saysKillsServer = "test: kills the server"
)

func workerMain(text string) int {
	var p plan
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	file, err := os.OpenFile(filepath.Join(p.Control, "log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	logger := slog.New(slog.NewJSONHandler(file, nil)).With("pid", os.Getpid())
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	c, err := dialPatiently(ctx, client.Options{HostPort: p.Address, Logger: log.NewStructuredLogger(logger)})
	if err != nil {
		logger.Error("dial", "error", err)
		return 1
	}
	defer c.Close()
	serve := Run
	if p.Wait {
		serve = Wait
	}
	w := &watcher{plan: p, client: c, log: logger, begun: map[string]int{}}
	err = serve(ctx, Options{Home: p.Home, Client: c, Log: logger, Interceptors: []interceptor.WorkerInterceptor{w}})
	logger.Info(saysLeft, "error", err)
	if err != nil {
		return 1
	}
	return 0
}

// dialPatiently waits for a server that is being started again.
func dialPatiently(ctx context.Context, options client.Options) (client.Client, error) {
	for deadline := time.Now().Add(20 * time.Second); ; <-time.After(20 * time.Millisecond) {
		c, err := client.DialContext(ctx, options)
		if err == nil || time.Now().After(deadline) || ctx.Err() != nil {
			return c, err
		}
	}
}

// watcher carries out the plan.
type watcher struct {
	interceptor.WorkerInterceptorBase
	plan   plan
	client client.Client
	log    *slog.Logger

	mu    sync.Mutex
	begun map[string]int // by activity

	serverKilled atomic.Bool
}

func (w *watcher) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	in := &watchedActivity{watcher: w}
	in.Next = next
	return in
}

type watchedActivity struct {
	interceptor.ActivityInboundInterceptorBase
	*watcher
}

func (a *watchedActivity) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	name := activity.GetInfo(ctx).ActivityType.Name
	a.mu.Lock()
	a.begun[name]++
	n := a.begun[name]
	a.mu.Unlock()
	a.log.Info(saysStarts, "activity", name, "n", n)
	a.act(ctx, name, n, atStart)
	if k := a.plan.Kill; k != nil && *k == (point{name, n, atMiddle, k.Git}) {
		a.arm(k.Git)
	}
	if a.plan.Count {
		a.arm(1 << 30)
	}
	out, err := a.Next.ExecuteActivity(ctx, in)
	calls := 0
	if a.plan.Count {
		b, _ := os.ReadFile(filepath.Join(a.plan.Control, "calls"))
		calls = strings.Count(string(b), "\n")
	}
	a.log.Info(saysEnds, "activity", name, "n", n, "git", calls, "error", err)
	a.act(ctx, name, n, atEnd)
	return out, err
}

func (w *watcher) act(ctx context.Context, name string, n int, at when) {
	is := func(p *point) bool { return p != nil && *p == (point{Activity: name, N: n, At: at}) }
	if is(w.plan.Cancel) {
		w.cancelSlice(ctx)
	}
	if is(w.plan.KillServerAt) {
		w.killServer()
	}
	if is(w.plan.Kill) {
		suicide()
	}
}

// cancelSlice cancels the slice and returns when the server knows that this
// activity is to be cancelled too.
func (w *watcher) cancelSlice(ctx context.Context) {
	if err := w.client.CancelWorkflow(ctx, w.plan.Slice, ""); err != nil {
		panic(err)
	}
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); <-time.After(5 * time.Millisecond) {
		d, err := w.client.DescribeWorkflow(ctx, w.plan.Slice, "")
		if err != nil {
			panic(err)
		}
		for _, a := range d.RawResponse.GetPendingActivities() {
			if a.GetState() == enumspb.PENDING_ACTIVITY_STATE_CANCEL_REQUESTED {
				return
			}
		}
	}
	panic("the activity is not cancelled")
}

// arm lets the next program of the activity kill this process: see the
// programs of a site. With a git call's number it is that one, else the agent or check.
func (w *watcher) arm(git int) {
	write := func(name, text string) {
		path := filepath.Join(w.plan.Control, name)
		err := os.WriteFile(path+".new", []byte(text), 0o600)
		if err == nil {
			err = os.Rename(path+".new", path)
		}
		if err != nil {
			panic(err)
		}
	}
	write("pid", strconv.Itoa(os.Getpid()))
	write("calls", "")
	if git > 0 {
		write("armed.git", strconv.Itoa(git))
	} else {
		write("armed.child", "")
	}
}

func suicide() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// killServer kills the server and returns when it is gone. It does so once.
func (w *watcher) killServer() {
	if w.serverKilled.Swap(true) {
		return
	}
	pid, err := serverPID(w.plan.ServerHome)
	if err != nil {
		panic(err)
	}
	w.log.Info(saysKillsServer, "server", pid)
	_ = syscall.Kill(pid, syscall.SIGKILL)
	if !gone(pid, 5*time.Second) {
		panic("the server does not die")
	}
	if w.plan.Both {
		suicide()
	}
}

// serverPID returns the process id of a home's server.
func serverPID(home string) (int, error) {
	var record struct{ PID int }
	b, err := os.ReadFile(filepath.Join(home, "server.json"))
	if err == nil {
		err = json.Unmarshal(b, &record)
	}
	return record.PID, err
}

// gone waits until a process has ended.
func gone(pid int, limit time.Duration) bool {
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); <-time.After(time.Millisecond) {
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			return true
		}
	}
	return false
}

func (w *watcher) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	in := &watchedWorkflow{watcher: w}
	in.Next = next
	return in
}

// watchedWorkflow counts the activities that a workflow schedules, those that
// are replayed too, so that the count does not depend on the cache.
type watchedWorkflow struct {
	interceptor.WorkflowInboundInterceptorBase
	*watcher
}

type watchedCalls struct {
	interceptor.WorkflowOutboundInterceptorBase
	*watcher
	scheduled int
}

func (w *watchedWorkflow) Init(next interceptor.WorkflowOutboundInterceptor) error {
	out := &watchedCalls{watcher: w.watcher}
	out.Next = next
	return w.Next.Init(out)
}

func (w *watchedWorkflow) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	out, err := w.Next.ExecuteWorkflow(ctx, in)
	if w.plan.KillServer == len(activitySequence)+1 && !workflow.IsReplaying(ctx) {
		w.killServer()
	}
	return out, err
}

func (o *watchedCalls) ExecuteActivity(ctx workflow.Context, name string, args ...any) workflow.Future {
	o.scheduled++
	if o.scheduled == o.plan.KillServer && !workflow.IsReplaying(ctx) {
		o.killServer()
	}
	return o.Next.ExecuteActivity(ctx, name, args...)
}

// lane is a server of its own, used by one test at a time.
type lane struct {
	home    string
	server  *engine.Server
	client  client.Client
	release func()
}

var lanes struct {
	mu   sync.Mutex
	dir  string
	all  []*lane
	free []*lane
}

// enter gives the test a lane until it ends.
func enter(t *testing.T) *lane {
	t.Helper()
	lanes.mu.Lock()
	defer lanes.mu.Unlock()
	var l *lane
	if n := len(lanes.free); n > 0 {
		l, lanes.free = lanes.free[n-1], lanes.free[:n-1]
	} else {
		var err error
		if l, err = newLane(); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		lanes.mu.Lock()
		defer lanes.mu.Unlock()
		lanes.free = append(lanes.free, l)
	})
	return l
}

func newLane() (*lane, error) {
	if lanes.dir == "" {
		var err error
		if lanes.dir, err = os.MkdirTemp("", "interlock-host-test-"); err != nil {
			return nil, err
		}
	}
	l := &lane{home: filepath.Join(lanes.dir, strconv.Itoa(len(lanes.all)))}
	options := engine.Options{Home: l.home, Attributes: slice.Attributes()}
	server, release, err := engine.Start(context.Background(), options)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var keeping sync.WaitGroup
	keeping.Go(func() { engine.Keep(ctx, options) })
	l.server = server
	l.release = func() {
		cancel()
		keeping.Wait()
		release()
	}
	lanes.all = append(lanes.all, l)
	l.client, err = client.Dial(client.Options{HostPort: server.Address, Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	return l, err
}

// closeLanes ends the servers, and fails if one stays.
func closeLanes() error {
	var errs []error
	for _, l := range lanes.all {
		if l.client != nil {
			l.client.Close()
		}
		l.release()
	}
	for _, l := range lanes.all {
		pid, err := serverPID(l.home)
		if err == nil && !gone(pid, 20*time.Second) {
			err = fmt.Errorf("the server of %s is still there: process %d", l.home, pid)
		}
		errs = append(errs, err)
	}
	if lanes.dir != "" {
		errs = append(errs, os.RemoveAll(lanes.dir))
	}
	return errors.Join(errs...)
}

// numbers are what the tests measured.
var numbers measured

type measured struct {
	mu                 sync.Mutex
	points, restarts   int
	toServing, toFirst time.Duration
	gap                time.Duration
	where              string
	takeover, stop     time.Duration
	server             time.Duration
}

func (m *measured) count() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.points++
}

// raise raises one of the maxima.
func (m *measured) raise(which *time.Duration, d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	*which = max(*which, d)
}

func (m *measured) print() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.points > 0 {
		fmt.Printf("kill points: %d; restarts: %d; serving after the start of the process: at most %s; first activity after serving: at most %s; longest gap afterwards: %s (%s)\n",
			m.points, m.restarts, m.toServing.Round(time.Millisecond), m.toFirst.Round(time.Millisecond), m.gap.Round(time.Millisecond), m.where)
		fmt.Printf("next activity after the kill of the server: at most %s; takeover by the second process: %s; graceful stop: at most %s\n",
			m.server.Round(time.Millisecond), m.takeover.Round(time.Millisecond), m.stop.Round(time.Millisecond))
	}
}
