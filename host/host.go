// Package host is the worker process as a library: the home folder and its
// lock, the host's id, and the two SDK workers that serve the shared queue and
// the host's own.
package host

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"golang.org/x/sys/unix"

	"interlock/activities"
	"interlock/activities/process"
	"interlock/slice"
	"interlock/workflows"
)

// Defaults of Options.
const (
	// DefaultHeartbeat is how long a dead worker goes unnoticed when nothing
	// else tells: a worker that is started again on the same home tells at once.
	DefaultHeartbeat = 30 * time.Second
	// DefaultScheduleToStart is how long a slice waits for its host. It is
	// long, because with one host there is nobody else to turn to.
	DefaultScheduleToStart = 24 * time.Hour
	// DefaultAgents is how many agents a host runs at once.
	DefaultAgents = 4
)

// ErrBusy says that another process is the worker of the home.
var ErrBusy = errors.New("another process is the worker of this home")

// Options of one worker process.
type Options struct {
	Home   string
	Client client.Client
	// Namespace is the client's; empty means default.
	Namespace string
	Log       *slog.Logger
	// Heartbeat, ScheduleToStart and Agents default to the constants above.
	Heartbeat, ScheduleToStart time.Duration
	Agents                     int
	// StepsPerRun continues slices as new after so many steps; 0 leaves it to the server.
	StepsPerRun int
	// Interceptors watch both workers, outermost first. In an activity all of
	// them are within the keeping of its task token.
	Interceptors []interceptor.WorkerInterceptor
}

// DefaultHome returns INTERLOCK_HOME, or .interlock in the user's home folder.
func DefaultHome() (string, error) {
	if home := os.Getenv("INTERLOCK_HOME"); home != "" {
		return filepath.Abs(home)
	}
	user, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no home folder: %w; set INTERLOCK_HOME or use --home", err)
	}
	return filepath.Join(user, ".interlock"), nil
}

// Run serves until ctx is done. It returns ErrBusy at once if another process
// is the worker of the home.
func Run(ctx context.Context, o Options) error { return serve(ctx, o, unix.LOCK_NB) }

// Wait is Run for a process that comes second: it waits until the worker of
// the home leaves, then takes its place.
func Wait(ctx context.Context, o Options) error { return serve(ctx, o, 0) }

func serve(ctx context.Context, o Options, how int) error {
	o = defaults(o)
	if err := os.MkdirAll(o.Home, 0o700); err != nil {
		return fmt.Errorf("home %s: %w", o.Home, err)
	}
	unlock, err := lock(ctx, filepath.Join(o.Home, "worker.lock"), how)
	if err != nil {
		return err
	}
	defer unlock()
	id, err := ID(o.Home)
	if err != nil {
		return err
	}
	if err := checkAttributes(ctx, o); err != nil {
		return err
	}
	if n, err := process.Sweep(id); err != nil {
		return fmt.Errorf("sweep what an earlier worker left running: %w", err)
	} else if n > 0 {
		o.Log.Warn("ended processes that an earlier worker left", "count", n)
	}
	tokens := &tokens{dir: filepath.Join(o.Home, "tokens"), namespace: o.Namespace}
	if err := tokens.fail(ctx, o.Client, o.Log); err != nil {
		return err
	}
	return work(ctx, o, id, tokens)
}

func defaults(o Options) Options {
	if o.Heartbeat == 0 {
		o.Heartbeat = DefaultHeartbeat
	}
	if o.ScheduleToStart == 0 {
		o.ScheduleToStart = DefaultScheduleToStart
	}
	if o.Agents == 0 {
		o.Agents = DefaultAgents
	}
	if o.Namespace == "" {
		o.Namespace = client.DefaultNamespace
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

func work(ctx context.Context, o Options, id string, tokens *tokens) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	options := worker.Options{
		Identity:                         "interlock@" + id,
		DisableRegistrationAliasing:      true,
		WorkerStopTimeout:                stopTimeout,
		MaxConcurrentActivityTaskPollers: pollers,
		MaxConcurrentWorkflowTaskPollers: pollers,
		OnFatalError:                     func(err error) { cancel(fmt.Errorf("the worker stopped: %w", err)) },
		StickyScheduleToStartTimeout:     stickyTimeout,
		MaxHeartbeatThrottleInterval:     activities.MaxHeartbeatInterval,
		// Tokens first: what happens before a token is kept is found out only by a timeout.
		Interceptors: append([]interceptor.WorkerInterceptor{tokens}, o.Interceptors...),
	}
	shared := worker.New(o.Client, slice.Queue, options)
	options.DisableWorkflowWorker = true
	own := worker.New(o.Client, slice.HostQueue(id), options)

	shared.RegisterWorkflowWithOptions(workflows.Slice, workflow.RegisterOptions{Name: slice.Workflow})
	acts, err := activities.New(activities.Options{
		Home:   o.Home,
		Agents: o.Agents,
		Host: slice.Host{
			ID: id, Queue: slice.HostQueue(id), StepsPerRun: o.StepsPerRun,
			Heartbeat: slice.Duration(o.Heartbeat), ScheduleToStart: slice.Duration(o.ScheduleToStart),
		},
	})
	if err != nil {
		return err
	}
	acts.Register(shared, own)

	workers := []worker.Worker{shared, own}
	defer stop(workers)
	for _, w := range workers {
		if err := w.Start(); err != nil {
			return fmt.Errorf("start the worker: %w", err)
		}
	}
	o.Log.Info("worker is serving", "host", id, "home", o.Home, "queue", slice.Queue)
	<-ctx.Done()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

const (
	// stopTimeout is what activities have to end their programs.
	stopTimeout = 10 * time.Second
	// stickyTimeout is how long a workflow task is kept for the worker that has
	// the workflow in its cache: that long it waits for one that was killed.
	stickyTimeout = 2 * time.Second
	// pollers beyond the SDK's default keep a sparse queue from waiting for
	// the partition that no poller looks at.
	pollers = 8
)

// stop stops the workers at the same time, since each waits for its activities.
func stop(workers []worker.Worker) {
	var all sync.WaitGroup
	for _, w := range workers {
		all.Go(w.Stop)
	}
	all.Wait()
}

// ID returns the id of the host that a home is, made at the first call.
func ID(home string) (string, error) {
	path := filepath.Join(home, "host-id")
	for range 2 {
		b, err := os.ReadFile(path)
		if id := strings.TrimSpace(string(b)); err == nil && id != "" {
			return id, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("the host's id: %w", err)
		}
		raw := make([]byte, 5)
		if _, err := rand.Read(raw); err != nil {
			return "", err
		}
		if err := writeNew(path, hex.EncodeToString(raw)+"\n"); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("the host's id: %w", err)
		}
	}
	return "", fmt.Errorf("the host's id in %s is empty: remove the file", path)
}

// writeNew writes a file that must not exist yet, whole or not at all.
func writeNew(path, content string) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	if _, err := tmp.WriteString(content); err != nil {
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	return os.Link(tmp.Name(), path)
}

// lock takes the file's exclusive lock. With unix.LOCK_NB it returns ErrBusy
// if somebody holds it, else it waits until ctx is done.
func lock(ctx context.Context, path string, how int) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("the worker's lock: %w", err)
	}
	release := func() { _ = f.Close() }
	if how == unix.LOCK_NB {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			release()
			return nil, ErrBusy
		}
		return release, nil
	}
	ticker := time.NewTicker(lockPoll)
	defer ticker.Stop()
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
			return release, nil
		}
		select {
		case <-ctx.Done():
			release()
			return nil, ctx.Err()
		case <-ticker.C:
		}
	}
}

const lockPoll = 200 * time.Millisecond

// checkAttributes refuses to serve a namespace that lacks a search attribute or
// has one of another type: there, every slice would hang at its first upsert without a word.
func checkAttributes(ctx context.Context, o Options) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	got, err := o.Client.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: o.Namespace})
	if err != nil {
		return fmt.Errorf("ask the Temporal server for its search attributes: %w", err)
	}
	var missing, wrong []string
	for name, kind := range slice.Attributes() {
		have, ok := got.GetCustomAttributes()[name]
		want, err := enumspb.IndexedValueTypeFromString(kind)
		switch {
		case err != nil:
			return fmt.Errorf("search attribute %s: %w", name, err)
		case !ok:
			missing = append(missing, fmt.Sprintf("--name %s --type %s", name, kind))
		case have != want:
			wrong = append(wrong, fmt.Sprintf("%s is of type %s, not %s", name, have, kind))
		}
	}
	slices.Sort(missing)
	slices.Sort(wrong)
	switch {
	case len(wrong) > 0:
		return fmt.Errorf("namespace %q has search attributes of another type, which cannot be changed: use another namespace: %s",
			o.Namespace, strings.Join(wrong, ", "))
	case len(missing) > 0:
		return fmt.Errorf("namespace %q lacks search attributes; register them with:\n  temporal operator search-attribute create --namespace %s %s",
			o.Namespace, o.Namespace, strings.Join(missing, " "))
	}
	return nil
}
