// Package bench measures what the machine costs on top of bare Temporal: a
// slice with instant agents and a workspace that does nothing, beside a
// workflow that only runs as many activities on the same kind of queue.
//
//	go test -run '^$' -bench . ./bench
package bench

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	tlog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"interlock/engine"
	"interlock/ledger"
	"interlock/machine"
	"interlock/slice"
	"interlock/workflows"
)

const (
	hostQueue = "bench-host"
	tasks     = 10
	// activitiesPerSlice is claim, prepare and baseline; four for each task;
	// reconcile, verify, judge_slice and publish; two compensations; conclude.
	activitiesPerSlice = 3 + 4*tasks + 4 + 3
)

// bare is the floor: as many activities, in a row, with inputs as large.
func bare(ctx workflow.Context, n int) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{TaskQueue: hostQueue, StartToCloseTimeout: time.Minute, HeartbeatTimeout: 30 * time.Second})
	padding := string(make([]byte, 400))
	for range n {
		if err := workflow.ExecuteActivity(ctx, "bare", padding).Get(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

func name[In, Out any](a slice.Activity[In, Out]) activity.RegisterOptions {
	return activity.RegisterOptions{Name: string(a)}
}

// ack answers as the real activities do once the header's lines are written.
func ack(h slice.Header) slice.Ack {
	if len(h.Lines) == 0 {
		return slice.Ack{}
	}
	last := h.Lines[len(h.Lines)-1]
	n, err := ledger.Number(last)
	if err != nil {
		panic(err)
	}
	return slice.Ack{Written: n, Head: ledger.Hash(last)}
}

func done(h slice.Header) slice.Ended { return slice.Ended{Ack: ack(h), Outcome: machine.Done} }

const object = "0123456789012345678901234567890123456789"

// instant registers activities that answer at once.
func instant(shared, own worker.ActivityRegistry) {
	shared.RegisterActivityWithOptions(func(context.Context, slice.ClaimIn) (slice.ClaimOut, error) {
		return slice.ClaimOut{Ended: slice.Ended{Outcome: machine.Done}, Key: "bench",
			Host: slice.Host{ID: "bench", Queue: hostQueue, Heartbeat: slice.Duration(30 * time.Second), ScheduleToStart: slice.Duration(time.Hour)}}, nil
	}, name(slice.ActClaim))
	own.RegisterActivityWithOptions(func(_ context.Context, in slice.PrepareIn) (slice.PrepareOut, error) {
		return slice.PrepareOut{Ended: done(in.Header), Base: object, Plan: "plan", Workspace: "/none", Branch: slice.Branch(in.Slice),
			Rules: machine.Rules{Budgets: machine.DefaultBudgets(), CapMicroUSD: 1e9, DeliverTo: machine.ToPublish}}, nil
	}, name(slice.ActPrepare))
	measure := func(_ context.Context, in slice.MeasureIn) (slice.MeasureOut, error) {
		return slice.MeasureOut{Ended: done(in.Header), Checks: []slice.CheckResult{{Measured: slice.Measured{Name: "test", Outcome: machine.Done, Passed: 12}}}}, nil
	}
	own.RegisterActivityWithOptions(measure, name(slice.ActBaseline))
	own.RegisterActivityWithOptions(measure, name(slice.ActCheck))
	own.RegisterActivityWithOptions(measure, name(slice.ActVerify))
	own.RegisterActivityWithOptions(func(_ context.Context, in slice.ImplementIn) (slice.ImplementOut, error) {
		return slice.ImplementOut{Ended: done(in.Header), Candidate: object, Changed: true}, nil
	}, name(slice.ActImplement))
	own.RegisterActivityWithOptions(func(_ context.Context, in slice.JudgeIn) (slice.JudgeOut, error) {
		return slice.JudgeOut{Ended: done(in.Header), MeanMilli: 5000}, nil
	}, name(slice.ActJudge))
	own.RegisterActivityWithOptions(func(_ context.Context, in slice.JudgeSliceIn) (slice.JudgeOut, error) {
		return slice.JudgeOut{Ended: done(in.Header), MeanMilli: 5000}, nil
	}, name(slice.ActJudgeSlice))
	own.RegisterActivityWithOptions(func(_ context.Context, in slice.CommitIn) (slice.CommitOut, error) {
		return slice.CommitOut{Ended: done(in.Header), Commit: object}, nil
	}, name(slice.ActCommit))
	own.RegisterActivityWithOptions(func(_ context.Context, in slice.ReconcileIn) (slice.ReconcileOut, error) {
		return slice.ReconcileOut{Ended: done(in.Header), Commit: object, Tip: object}, nil
	}, name(slice.ActReconcile))
	own.RegisterActivityWithOptions(func(_ context.Context, in slice.PublishIn) (slice.PublishOut, error) {
		return slice.PublishOut{Ended: done(in.Header), Remote: "bench"}, nil
	}, name(slice.ActPublish))
	own.RegisterActivityWithOptions(func(_ context.Context, in slice.UndoIn) (slice.UndoOut, error) {
		return slice.UndoOut{Ack: ack(in.Header), Seen: "gone"}, nil
	}, name(slice.ActUndo))
	own.RegisterActivityWithOptions(func(_ context.Context, in slice.ConcludeIn) (slice.Ack, error) {
		return ack(in.Header), nil
	}, name(slice.ActConclude))
	own.RegisterActivityWithOptions(func(_ context.Context, s string) (string, error) { return s, nil }, activity.RegisterOptions{Name: "bare"})
}

// bed is an embedded server with one worker of each kind.
type bed struct {
	client client.Client
	n      int
	mu     sync.Mutex
}

func newBed(b *testing.B) *bed {
	b.Helper()
	quiet := slog.New(slog.DiscardHandler)
	server, release, err := engine.Start(b.Context(), engine.Options{Home: b.TempDir(), Attributes: slice.Attributes()})
	require.NoError(b, err)
	b.Cleanup(release)
	c, err := client.Dial(client.Options{HostPort: server.Address, Namespace: server.Namespace, Logger: tlog.NewStructuredLogger(quiet)})
	require.NoError(b, err)
	b.Cleanup(c.Close)
	options := worker.Options{MaxConcurrentActivityTaskPollers: 8, MaxConcurrentWorkflowTaskPollers: 8}
	shared := worker.New(c, slice.Queue, options)
	options.DisableWorkflowWorker = true
	own := worker.New(c, hostQueue, options)
	shared.RegisterWorkflowWithOptions(workflows.Slice, workflow.RegisterOptions{Name: slice.Workflow})
	shared.RegisterWorkflowWithOptions(bare, workflow.RegisterOptions{Name: "bare"})
	instant(shared, own)
	require.NoError(b, shared.Start())
	b.Cleanup(shared.Stop)
	require.NoError(b, own.Start())
	b.Cleanup(own.Stop)
	return &bed{client: c}
}

func (d *bed) id() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.n++
	return fmt.Sprintf("bench-%d", d.n)
}

func (d *bed) slice(b *testing.B) (events int64) {
	in := slice.Input{Spec: slice.Spec{Repo: "/none", Base: "main", Title: "A benchmark"}}
	for i := range tasks {
		in.Tasks = append(in.Tasks, slice.Task{ID: fmt.Sprintf("task-%d", i), Criterion: "Something is true at the end."})
	}
	return d.run(b, slice.Workflow, in)
}

func (d *bed) bare(b *testing.B) int64 { return d.run(b, "bare", activitiesPerSlice) }

func (d *bed) run(b *testing.B, workflowType string, in any) int64 {
	ctx := b.Context()
	r, err := d.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: d.id(), TaskQueue: slice.Queue}, workflowType, in)
	if err == nil {
		err = r.Get(ctx, nil)
	}
	if err != nil {
		b.Error(err)
		return 0
	}
	desc, err := d.client.DescribeWorkflow(ctx, r.GetID(), r.GetRunID())
	if err != nil {
		b.Error(err)
		return 0
	}
	return int64(desc.HistoryLength)
}

// BenchmarkStep is one slice at a time, each beside a bare workflow.
func BenchmarkStep(b *testing.B) {
	d := newBed(b)
	d.slice(b)
	d.bare(b)
	var ours, floor time.Duration
	var events int64
	b.ResetTimer()
	for range b.N {
		began := time.Now()
		d.bare(b)
		floor += time.Since(began)
		began = time.Now()
		events = d.slice(b)
		ours += time.Since(began)
	}
	steps := float64(b.N * activitiesPerSlice)
	b.ReportMetric(ours.Seconds()*1000/steps, "ms/step")
	b.ReportMetric(floor.Seconds()*1000/steps, "ms/bare-step")
	b.ReportMetric(ours.Seconds()/floor.Seconds(), "ratio")
	b.ReportMetric(float64(events)/activitiesPerSlice, "events/step")
}

// BenchmarkThroughput is a hundred at once.
func BenchmarkThroughput(b *testing.B) {
	d := newBed(b)
	d.slice(b)
	d.bare(b)
	const atOnce = 100
	all := func(one func(*testing.B) int64) time.Duration {
		began := time.Now()
		var wg sync.WaitGroup
		for range atOnce {
			wg.Go(func() { one(b) })
		}
		wg.Wait()
		return time.Since(began)
	}
	var ours, floor time.Duration
	b.ResetTimer()
	for range b.N {
		floor += all(d.bare)
		ours += all(d.slice)
	}
	steps := float64(b.N * atOnce * activitiesPerSlice)
	b.ReportMetric(steps/ours.Seconds(), "steps/s")
	b.ReportMetric(steps/floor.Seconds(), "bare-steps/s")
	b.ReportMetric(floor.Seconds()/ours.Seconds(), "ratio")
}
