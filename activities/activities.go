// Package activities holds the effects of a slice, one file per step: each
// composes git, workspace, processes, checks and agents, and returns the
// outcome of the step as a value. An error means that the infrastructure
// failed, never that the code is red.
//
// Every activity may run twice, be killed at any instant, or be answered too
// late. What makes that harmless is the same everywhere: it first writes the
// record's lines that it was handed, looks before it does, and names what it
// makes after its input.
package activities

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"interlock/activities/evidence"
	"interlock/activities/forge"
	"interlock/activities/sandbox"
	"interlock/activities/workspace"
	"interlock/slice"
)

// Options of the activities of one host.
type Options struct {
	Home string
	Host slice.Host
	// Agents is how many agents run at once.
	Agents int
}

// Activities are the effects of one host.
type Activities struct {
	home     string
	host     slice.Host
	slots    *slots
	limits   *limits
	evidence *evidence.Store
	// answers are what forges said that may still be so.
	answers forge.Cache
	sandbox sandbox.Host
	// made has the hash of every result that this process has kept, by path.
	made sync.Map
	// backoff is the pause before a failed call is made again; it doubles.
	backoff time.Duration
}

// New returns the activities of a host whose lock the caller holds.
func New(o Options) (*Activities, error) {
	store, err := evidence.Open(filepath.Join(o.Home, "evidence"))
	if err != nil {
		return nil, err
	}
	// Inside a sandbox links may not be there.
	home, err := filepath.EvalSymlinks(o.Home)
	if err != nil {
		return nil, err
	}
	return &Activities{home: home, sandbox: sandbox.Probe(context.Background()), host: o.Host, slots: newSlots(o.Agents), limits: newLimits(o.Home), evidence: store, backoff: 2 * time.Second}, nil
}

// Register registers claim with the worker of the shared queue, and all
// others with the worker of the host's queue.
func (a *Activities) Register(shared, own worker.ActivityRegistry) {
	register(shared, slice.ActClaim, a.claim)
	register(own, slice.ActPrepare, a.prepare)
	register(own, slice.ActRestore, a.restore)
	register(own, slice.ActReopen, a.reopen)
	register(own, slice.ActResume, a.resume)
	register(own, slice.ActBaseline, a.baseline)
	register(own, slice.ActImplement, a.implement)
	register(own, slice.ActCheck, a.check)
	register(own, slice.ActJudge, a.judge)
	register(own, slice.ActAdvise, a.advise)
	register(own, slice.ActCommit, a.commit)
	register(own, slice.ActReconcile, a.reconcile)
	register(own, slice.ActVerify, a.verify)
	register(own, slice.ActJudgeSlice, a.judgeSlice)
	register(own, slice.ActE2E, a.e2e)
	register(own, slice.ActPublish, a.publish)
	register(own, slice.ActPropose, a.propose)
	register(own, slice.ActAwaitCI, a.awaitCI)
	register(own, slice.ActMerge, a.merge)
	register(own, slice.ActUndo, a.undo)
	register(own, slice.ActConclude, a.conclude)
	register(own, slice.ActSettle, a.settle)
}

func register[In, Out any](r worker.ActivityRegistry, name slice.Activity[In, Out], do func(context.Context, In) (Out, error)) {
	r.RegisterActivityWithOptions(func(ctx context.Context, in In) (Out, error) {
		ctx, end := alive(ctx)
		defer end()
		out, err := do(ctx, in)
		if err != nil && errors.Is(context.Cause(ctx), errStopping) {
			return out, temporal.NewApplicationErrorWithOptions("the worker was stopped", "WorkerStopped",
				temporal.ApplicationErrorOptions{NextRetryDelay: 50 * time.Millisecond, Category: temporal.ApplicationErrorCategoryBenign})
		}
		return out, final(err)
	}, activity.RegisterOptions{Name: string(name)})
}

// final keeps what no repetition cures from being repeated.
func final(err error) error {
	kind := workspace.KindOf(err)
	if kind == "" || kind.Retryable() {
		return err
	}
	return temporal.NewNonRetryableApplicationError(err.Error(), string(kind), err)
}

// MaxHeartbeatInterval is the longest between two heartbeats, whatever the
// timeout: only the answer to one tells an activity that it is cancelled.
const MaxHeartbeatInterval = 2 * time.Second

var errStopping = errors.New("the worker is being stopped")

// alive keeps the server told that the activity lives, from a ticker beside
// its work, and ends its context when the worker is being stopped.
func alive(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	note := &note{}
	ctx = context.WithValue(ctx, noteKey{}, note)
	every := min(activity.GetInfo(ctx).HeartbeatTimeout/3, MaxHeartbeatInterval)
	stopping := activity.GetWorkerStopChannel(ctx)
	done := make(chan struct{})
	go func() {
		var tick <-chan time.Time
		if every > 0 {
			ticker := time.NewTicker(every)
			defer ticker.Stop()
			tick = ticker.C
		}
		for {
			select {
			case <-done:
				return
			case <-stopping:
				cancel(errStopping)
				return
			case <-tick:
				activity.RecordHeartbeat(ctx, note.get())
			}
		}
	}()
	return ctx, func() { close(done); cancel(nil) }
}
