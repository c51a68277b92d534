//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"interlock/machine"
	"interlock/slice"
)

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); {
		require.False(t, time.Now().After(deadline), "never: %s", what)
		<-time.After(20 * time.Millisecond)
	}
}

// other writes the slice's file with another title and returns its name.
func (w *world) other() string {
	w.t.Helper()
	text, err := os.ReadFile(w.file)
	require.NoError(w.t, err)
	file := filepath.Join(w.dir, "other.yaml")
	require.NoError(w.t, os.WriteFile(file, []byte(strings.Replace(string(text), "Say hello", "Say goodbye", 1)), 0o644))
	return file
}

// TestSameIDWhileItRuns joins a slice that runs, and refuses another one.
func TestSameIDWhileItRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{implementer: `while [ ! -e $OUT/release ]; do sleep 0.05; done; work; answer`})
	started := interlock(t, "start", w.file, "-o", "json")
	require.Zero(t, started.code, started.stderr)
	eventually(t, "an agent began", func() bool { return w.calls("implementer") > 0 })

	again := interlock(t, "start", w.file, "-o", "json")
	require.Zero(t, again.code, again.stderr)
	require.Contains(t, again.stdout, `"joined": true`)
	refused := interlock(t, "start", w.other())
	require.Equal(t, 8, refused.code, refused.stdout)
	require.Contains(t, refused.stderr, "runs already, with another content than this file")

	require.NoError(t, os.WriteFile(filepath.Join(w.out, "release"), nil, 0o644))
	w.ends(machine.Delivered, "")
	require.Equal(t, 1, w.calls("implementer"))
	w.delivered(w.remote, map[string]string{"hello.txt": hello})
}

// TestSameIDAfterDelivery tells the end again, but does nothing again.
func TestSameIDAfterDelivery(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	first := w.ends(machine.Delivered, "")
	again := w.ends(machine.Delivered, "")
	require.Equal(t, first, again)
	_, how := w.runFile(w.other())
	require.Equal(t, 8, how.code)
	require.Contains(t, how.stderr, "was delivered already, with another content than this file")

	// The stock client knows no such rule; the slice's own record does.
	_, err := start(t, w.id, w.input())
	r := resultOf(t, err)
	require.Equal(t, machine.Precondition, r.Ending)
	require.Equal(t, 8, r.Code)
	require.Contains(t, r.Why, "was delivered already")
	require.Equal(t, 1, w.calls("implementer"))
	w.delivered(w.remote, map[string]string{"hello.txt": hello})
	w.unharmed()
}

// TestSameIDAfterABlock runs a slice again.
func TestSameIDAfterABlock(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{budgets: "checks: 0", implementer: `work; [ -e $OUT/mended ] || echo BROKEN >hello.txt; answer`})
	w.ends(machine.BlockedChecks, machine.CauseRed)
	require.NoError(t, os.WriteFile(filepath.Join(w.out, "mended"), nil, 0o644))
	r := w.ends(machine.Delivered, "")
	w.delivered(w.remote, map[string]string{"hello.txt": hello})
	require.Equal(t, 2, w.calls("implementer"))
	// What the first run has spent counts.
	require.EqualValues(t, 40_000, r.CostMicroUSD)
}

// input is what a person would give to the stock client.
func (w *world) input() map[string]any {
	return map[string]any{"repo": w.repo, "base": "main", "title": "Say hello",
		"tasks": []any{map[string]any{"id": "t1", "criterion": "There is a greeting."}}}
}

// start runs a slice by the stock client, as any Temporal user could.
func start(t *testing.T, id string, args ...any) (slice.Result, error) {
	t.Helper()
	c, err := client.Dial(client.Options{HostPort: shared.address})
	require.NoError(t, err)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: slice.Queue}, slice.Workflow, args...)
	require.NoError(t, err)
	var r slice.Result
	err = run.Get(ctx, &r)
	require.NoError(t, ctx.Err(), "the workflow does not end")
	return r, err
}

func resultOf(t *testing.T, err error) slice.Result {
	t.Helper()
	var app *temporal.ApplicationError
	require.ErrorAs(t, err, &app)
	require.True(t, app.NonRetryable(), app)
	var r slice.Result
	require.NoError(t, app.Details(&r), app)
	require.Equal(t, string(r.Ending), app.Type())
	return r
}

// TestStockClient starts slices without the command line.
func TestStockClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	r, err := start(t, w.id, w.input())
	require.NoError(t, err)
	require.Equal(t, machine.Delivered, r.Ending)
	w.delivered(w.remote, map[string]string{"hello.txt": hello})
	w.unharmed()

	with := func(key string, value any) map[string]any {
		in := w.input()
		in[key] = value
		return in
	}
	raw := func(encoding, data string) converter.RawValue {
		return converter.NewRawValue(&commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte(encoding)}, Data: []byte(data)})
	}
	for _, row := range []struct {
		name, id string
		args     []any
		why      string
	}{
		{"unknown key", "c-unknown", []any{with("tasksx", 1)}, `unknown field "tasksx"`},
		{"null tasks", "c-null", []any{with("tasks", nil)}, "there is no task"},
		{"tasks of a wrong type", "c-type", []any{with("tasks", "all of them")}, "tasks"},
		{"task of a wrong type", "c-task", []any{with("tasks", []any{7})}, "tasks"},
		{"duplicate tasks", "c-twice", []any{with("tasks", []any{w.input()["tasks"].([]any)[0], w.input()["tasks"].([]any)[0]})}, "duplicate id"},
		{"a carry", "c-carry", []any{with("carry", map[string]any{"state": map[string]any{"step": "publish"}, "tasks": []any{}})}, "carry"},
		{"a relative repository", "c-relative", []any{with("repo", "./x")}, "absolute"},
		{"an option for a repository", "c-option", []any{with("repo", "--upload-pack=touch /tmp/x")}, "begins with a dash"},
		{"another id", "c-other", []any{with("id", "c-another")}, "they must be the same"},
		{"an id with a slash", "c/slash", []any{w.input()}, "is no id of a slice"},
		{"an id that climbs", "..", []any{w.input()}, "is no id of a slice"},
		{"a string", "c-string", []any{"fix it"}, "no slice"},
		{"nothing", "c-nothing", nil, "there is no task"},
		{"null", "c-nil", []any{nil}, "there is no task"},
		{"two arguments", "c-two", []any{with("title", ""), "more"}, "title"},
		{"no JSON", "c-broken", []any{raw("json/plain", `{"repo":`)}, ""},
		{"bytes", "c-bytes", []any{raw("binary/plain", "\x00\x01")}, ""},
		{"an unknown encoding", "c-encoding", []any{raw("x/y", "?")}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			_, err := start(t, row.id, row.args...)
			require.Error(t, err)
			if row.why == "" { // not even the workflow sees it
				require.ErrorContains(t, err, "unable to decode")
				return
			}
			r := resultOf(t, err)
			require.Contains(t, []machine.Ending{machine.Invalid, machine.Precondition}, r.Ending)
			require.Contains(t, r.Why, row.why)
			text, err := json.Marshal(r)
			require.NoError(t, err)
			require.Less(t, len(text), 64<<10)
		})
	}
}

// TestSameIDInAnotherRepository starts a slice whose id another repository has:
// the work that a blocked slice left there stays.
func TestSameIDInAnotherRepository(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{budgets: "checks: 0", implementer: `echo BROKEN >hello.txt; answer`})
	w.ends(machine.BlockedChecks, machine.CauseRed)
	before := hashes(t, filepath.Join(shared.home, "workspaces", w.id))
	store := w.refsOf(w.store())

	clone := filepath.Join(w.dir, "other")
	w.git(w.dir, "clone", "-q", w.repo, clone)
	text, err := os.ReadFile(w.file)
	require.NoError(t, err)
	file := filepath.Join(w.dir, "other.yaml")
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(string(text), w.repo, clone, 1)), 0o644))
	r, how := w.runFile(file)
	require.Equal(t, 8, how.code, how.stdout+how.stderr)
	require.Contains(t, r.Why, "belongs to another repository or slice")
	require.Empty(t, r.Failed)
	require.Equal(t, before, hashes(t, filepath.Join(shared.home, "workspaces", w.id)))
	require.Equal(t, store, w.refsOf(w.store()))
	require.DirExists(t, filepath.Join(shared.home, "slices", w.id))
}
