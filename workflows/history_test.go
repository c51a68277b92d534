package workflows

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/temporalproto"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/proto"

	"interlock/slice"
)

// A step must stay cheap: it is one activity, and attributes are told when a
// task changes.
func TestEventsPerStepOnTheServer(t *testing.T) {
	server := realServer(t)
	s := scenario{name: "events", tasks: 3, rules: withE2E, script: begin + "implement check=failed " + task + "implement check judge=corrections " + task + task + whole + "e2e publish"}
	w := s.world("").open(t)
	got := server.run(t, w)
	steps := len(parse(s.script))
	require.Equal(t, steps, got.status.Recent[len(got.status.Recent)-1].N)
	h := server.history(t, w.spec.ID, "")
	perStep := float64(len(h.Events)) / float64(steps)
	t.Logf("%d events for %d steps, claim, two compensations and the end included: %.2f per step", len(h.Events), steps, perStep)
	require.LessOrEqual(t, perStep, 8.0)

	// What a person reads in the timeline.
	var summaries []string
	for _, e := range h.Events {
		a := e.GetActivityTaskScheduledEventAttributes()
		if a == nil {
			continue
		}
		var summary string
		require.NoError(t, converter.GetDefaultDataConverter().FromPayload(e.GetUserMetadata().GetSummary(), &summary))
		summaries = append(summaries, summary)
		switch name := a.GetActivityType().GetName(); name {
		case string(slice.ActClaim), string(slice.ActConclude):
			require.Equal(t, name, summary)
		case string(slice.ActUndo):
			require.Contains(t, []string{"undo views", "undo workspace"}, summary)
		default:
			var in struct{ slice.Header }
			require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(a.GetInput(), &in))
			require.Equal(t, in.Turn.String(), summary)
		}
	}
	require.Contains(t, summaries, "judge · task 2 · attempt 2")
	require.Contains(t, summaries, "verify")
}

// replay runs the workflow code of today over a history, and compares all that
// it asks for with what was asked for then.
func replay(h *historypb.History) error {
	then, err := asked(h)
	if err != nil {
		return err
	}
	now := &recorder{}
	r, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{Interceptors: []interceptor.WorkerInterceptor{now}})
	if err != nil {
		return err
	}
	r.RegisterWorkflowWithOptions(Slice, workflow.RegisterOptions{Name: slice.Workflow})
	id := h.GetEvents()[0].GetWorkflowExecutionStartedEventAttributes().GetWorkflowId()
	err = r.ReplayWorkflowHistoryWithOptions(quiet, h, worker.ReplayWorkflowHistoryOptions{OriginalExecution: workflow.Execution{ID: id}})
	if err != nil {
		return err
	}
	for i := range max(len(then), len(now.got)) {
		switch {
		case i >= len(now.got):
			return fmt.Errorf("command %d: %+v was asked for, and is not any more", i+1, then[i])
		case i >= len(then):
			return fmt.Errorf("command %d: %+v was not asked for", i+1, now.got[i])
		case then[i] != now.got[i]:
			return fmt.Errorf("command %d was\n%+v\nand is now\n%+v", i+1, then[i], now.got[i])
		}
	}
	return nil
}

const countsFile = "counts.json"

// counts says how often each history asks for each activity.
type counts map[string]map[string]int

func count(h *historypb.History) map[string]int {
	n := map[string]int{}
	for _, e := range h.GetEvents() {
		if a := e.GetActivityTaskScheduledEventAttributes(); a != nil {
			n[a.GetActivityType().GetName()]++
		}
	}
	return n
}

func readHistory(file string) (*historypb.History, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	return client.HistoryFromJSON(z, client.HistoryJSONOptions{})
}

func writeHistory(file string, h *historypb.History) error {
	b, err := temporalproto.CustomJSONMarshalOptions{}.Marshal(h)
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(b); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return os.WriteFile(file, packed.Bytes(), 0o644)
}

// Every history of every version replays with the code of today.
func TestRecordedHistories(t *testing.T) {
	versions, err := filepath.Glob("testdata/v*")
	require.NoError(t, err)
	require.NotEmpty(t, versions)
	for _, version := range versions {
		var want counts
		b, err := os.ReadFile(filepath.Join(version, countsFile))
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(b, &want))
		files, err := filepath.Glob(filepath.Join(version, "*.json.gz"))
		require.NoError(t, err)
		got := counts{}
		for _, file := range files {
			name := strings.TrimSuffix(filepath.Base(file), ".json.gz")
			t.Run(filepath.Base(version)+"/"+name, func(t *testing.T) {
				h, err := readHistory(file)
				require.NoError(t, err)
				got[name] = count(h)
				require.NoError(t, replay(h))
			})
		}
		require.Equal(t, want, got)
	}
}

// TestRecordHistories records the histories of a version:
//
//	go test ./workflows -run TestRecordHistories -update v2
//
// A version that exists stays as it is: its slices may be running somewhere.
func TestRecordHistories(t *testing.T) {
	if *update == "" {
		t.Skip("it records only with -update VERSION")
	}
	require.Regexp(t, `^v[1-9][0-9]*$`, *update)
	folder := filepath.Join("testdata", *update)
	if _, err := os.Stat(folder); err == nil {
		require.True(t, *force, "%s exists: record a new version, or give -force too", folder)
		require.NoError(t, os.RemoveAll(folder))
	} else {
		require.ErrorIs(t, err, os.ErrNotExist)
	}
	require.NoError(t, os.MkdirAll(folder, 0o755))
	server := realServer(t)
	all := counts{}
	record := func(name string, w *world) {
		t.Helper()
		run := server.start(t, w)
		first := run.GetRunID()
		server.wait(t, run)
		for i, id := range server.chain(t, w.spec.ID, first) {
			h := server.history(t, w.spec.ID, id)
			part := name
			if w.host.StepsPerRun > 0 {
				part = fmt.Sprintf("%s-%02d", name, i+1)
			}
			all[part] = count(h)
			require.NoError(t, writeHistory(filepath.Join(folder, part+".json.gz"), h))
		}
	}
	for _, s := range scenarios {
		if !s.slow && !strings.HasPrefix(s.name, "broken-") {
			record(s.name, s.world("").open(t))
		}
	}
	continued := cancelled.world("").open(t)
	continued.spec.ID = "continued"
	worlds.Store(continued.spec.ID, continued)
	continued.host.StepsPerRun = 5
	record("continued", continued)
	for _, name := range []string{string(slice.ActClaim), string(slice.ActImplement), string(slice.ActCheck), string(slice.ActPublish)} {
		w := named("cancelled-at-"+name, begin+task+whole+"publish").open(t)
		w.undoFails = map[slice.Undone]error{slice.UndoViews: temporal.NewNonRetryableApplicationError("permission denied", "Disk", nil)}
		w.onStart = func(ctx context.Context, _ int, now string) bool {
			if now != name {
				return false
			}
			if err := server.CancelWorkflow(t.Context(), w.spec.ID, ""); err != nil {
				panic(err)
			}
			return name != string(slice.ActClaim) && stopped(ctx)
		}
		record(w.spec.ID, w)
	}
	b, err := json.MarshalIndent(all, "", "\t")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, countsFile), append(b, '\n'), 0o644))
}

// chain returns the ids of the Temporal runs from the first on.
func (s *server) chain(t *testing.T, id, first string) (all []string) {
	t.Helper()
	for run := first; run != ""; {
		all = append(all, run)
		events := s.history(t, id, run).Events
		run = events[len(events)-1].GetWorkflowExecutionContinuedAsNewEventAttributes().GetNewExecutionRunId()
	}
	return all
}

// The replay must see what it is for. Each bad history is a good one with one change.
func TestBadHistoriesFail(t *testing.T) {
	versions, err := filepath.Glob("testdata/v*/two-tasks.json.gz")
	require.NoError(t, err)
	require.NotEmpty(t, versions)
	good, err := readHistory(versions[len(versions)-1])
	require.NoError(t, err)
	require.NoError(t, replay(proto.Clone(good).(*historypb.History)))
	scheduled := func(h *historypb.History, name slice.Activity[slice.MeasureIn, slice.MeasureOut]) *historypb.HistoryEvent {
		for _, e := range h.Events {
			if e.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName() == string(name) {
				return e
			}
		}
		panic("no such activity")
	}
	replace := func(data []byte, old, new string) []byte {
		require.Contains(t, string(data), old)
		return bytes.Replace(data, []byte(old), []byte(new), 1)
	}
	for name, c := range map[string]struct {
		change func(h *historypb.History)
		want   string
	}{
		"a changed input": {func(h *historypb.History) {
			p := scheduled(h, slice.ActCheck).GetActivityTaskScheduledEventAttributes().GetInput().GetPayloads()[0]
			p.Data = replace(p.Data, `"attempt":1`, `"attempt":2`)
		}, "command 6 was"},
		"a changed queue": {func(h *historypb.History) {
			scheduled(h, slice.ActCheck).GetActivityTaskScheduledEventAttributes().GetTaskQueue().Name = slice.Queue
		}, "command 6 was"},
		"a changed attribute": {func(h *historypb.History) {
			for _, e := range h.Events {
				if a := e.GetUpsertWorkflowSearchAttributesEventAttributes(); a != nil {
					p := a.GetSearchAttributes().GetIndexedFields()[slice.AttrTask]
					p.Data = replace(p.Data, "t1", "t2")
					return
				}
			}
		}, "command 1 was"},
		"a changed result": {func(h *historypb.History) {
			p := h.Events[len(h.Events)-1].GetWorkflowExecutionCompletedEventAttributes().GetResult().GetPayloads()[0]
			p.Data = replace(p.Data, `"code":0`, `"code":1`)
		}, "and is now"},
		"another activity": {func(h *historypb.History) {
			scheduled(h, slice.ActCheck).GetActivityTaskScheduledEventAttributes().GetActivityType().Name = string(slice.ActVerify)
		}, "TMPRL1100"},
		"a removed activity": {func(h *historypb.History) { remove(h, scheduled(h, slice.ActCheck)) }, "TMPRL1100"},
	} {
		t.Run(name, func(t *testing.T) {
			bad := proto.Clone(good).(*historypb.History)
			c.change(bad)
			require.ErrorContains(t, replay(bad), c.want)
		})
	}
}

// remove takes an activity, and the workflow task after it, out of a history
// and numbers the rest again.
func remove(h *historypb.History, gone *historypb.HistoryEvent) {
	var kept []*historypb.HistoryEvent
	number := map[int64]int64{}
	for i := 0; i < len(h.Events); i++ {
		e := h.Events[i]
		if e == gone {
			for h.Events[i].GetEventType() != enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
				i++
			}
			continue
		}
		number[e.EventId] = int64(len(kept) + 1)
		e.EventId = int64(len(kept) + 1)
		kept = append(kept, e)
	}
	for _, e := range kept {
		if a := e.GetActivityTaskStartedEventAttributes(); a != nil {
			a.ScheduledEventId = number[a.ScheduledEventId]
		}
		if a := e.GetActivityTaskCompletedEventAttributes(); a != nil {
			a.ScheduledEventId, a.StartedEventId = number[a.ScheduledEventId], number[a.StartedEventId]
		}
		if a := e.GetWorkflowTaskStartedEventAttributes(); a != nil {
			a.ScheduledEventId = number[a.ScheduledEventId]
		}
		if a := e.GetWorkflowTaskCompletedEventAttributes(); a != nil {
			a.ScheduledEventId, a.StartedEventId = number[a.ScheduledEventId], number[a.StartedEventId]
		}
	}
	h.Events = kept
}
