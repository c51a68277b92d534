package agent

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"interlock/slice"
)

// Any program can say that it was stopped, with any exit status.
func TestAProgramThatWasStopped(t *testing.T) {
	reset := time.Date(2026, 3, 1, 12, 0, 20, 0, time.UTC)
	for name, c := range map[string]struct {
		says  string
		exit  string
		class Class
		reset time.Time
		wait  time.Duration
		cost  int64
	}{
		"limit":               {`{"limit":{}}`, "1", Limit, time.Time{}, 0, reservation},
		"limit with a reset":  {`{"limit":{"reset_at":"2026-03-01T12:00:20Z"},"cost_usd":0}`, "0", Limit, reset, 0, 0},
		"limit with a wait":   {`{"limit":{"retry_after":2.5},"cost_usd":0.5}`, "75", Limit, time.Time{}, 2500 * time.Millisecond, 500_000},
		"transient":           {`{"failure":"transient","reason":"overloaded"}`, "1", Transient, time.Time{}, 0, reservation},
		"fatal":               {`{"failure":"fatal"}`, "1", Fatal, time.Time{}, 0, reservation},
		"context":             {`{"failure":"context"}`, "0", Context, time.Time{}, 0, reservation},
		"budget":              {`{"failure":"budget","cost_usd":2.5}`, "0", Budget, time.Time{}, 0, 2_500_000},
		"another failure":     {`{"failure":"tired"}`, "0", Discarded, time.Time{}, 0, reservation},
		"both":                {`{"failure":"fatal","limit":{}}`, "0", Discarded, time.Time{}, 0, reservation},
		"no time":             {`{"limit":{"reset_at":"soon"}}`, "0", Discarded, time.Time{}, 0, reservation},
		"no day":              {`{"limit":{"reset_at":"2026-13-41T12:00:20Z"}}`, "0", Discarded, time.Time{}, 0, reservation},
		"a wait in the past":  {`{"limit":{"retry_after":-1}}`, "0", Discarded, time.Time{}, 0, reservation},
		"an answer too":       {`{"limit":{},"status":"done"}`, "0", Discarded, time.Time{}, 0, reservation},
		"a negative cost":     {`{"limit":{},"cost_usd":-1}`, "0", Discarded, time.Time{}, 0, reservation},
		"no document":         {`You've hit your usage limit. {"limit":{}}`, "1", Discarded, time.Time{}, 0, reservation},
		"words in an answer":  {`{"status":"done","summary":"You've hit your usage limit"}`, "0", Answered, time.Time{}, 0, reservation},
		"an answer that fits": {`{"status":"done","cost_usd":0.5}`, "0", Answered, time.Time{}, 0, 500_000},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil)
			b.call.Brief = ImplementBrief{}
			b.call.Agent.Run = slice.Argv{"/bin/sh", "-c", `printf '%s' "$1"; exit "$2"`, "sh", c.says, c.exit}
			a, err := b.adapter.Call(t.Context(), b.call)
			require.NoError(t, err)
			require.Equal(t, c.class, a.Class, a.Reason)
			require.True(t, c.reset.Equal(a.ResetAt), a.ResetAt)
			require.Equal(t, c.wait, a.Wait)
			require.Equal(t, c.cost, a.CostMicroUSD)
		})
	}
}

func TestAQuestionNeedsOne(t *testing.T) {
	require.NoError(t, Fits(Implementer, []byte(`{"status":"question","question":"Which port?"}`)))
	require.ErrorContains(t, Fits(Implementer, []byte(`{"status":"question"}`)), "at /question")
	require.ErrorContains(t, Fits(Implementer, []byte(`{"status":"question","question":" "}`)), "at /question")
	require.ErrorContains(t, Fits(Implementer, []byte(`{"status":"done","question":"Which port?"}`)), "at /question")
	require.Error(t, Fits(Judge, []byte(`{"status":"question","question":"Which port?"}`)))
	require.Equal(t, "Which port?", Asks(json.RawMessage(`{"status":"question","question":" Which port? "}`)))
	require.Empty(t, Asks(json.RawMessage(`{"status":"done"}`)))
	require.Empty(t, Asks(nil))
}

func TestShorter(t *testing.T) {
	long := strings.Repeat("word ", 100_000)
	findings := make([]slice.Finding, 50)
	for _, b := range []Brief{
		ImplementBrief{Task: slice.Task{Criterion: "c", Details: long}, Checks: []slice.CheckResult{{Summary: long}}, Findings: findings},
		JudgeBrief{Task: slice.Task{Criterion: "c"}, Diff: long},
		JudgeSliceBrief{Tasks: []slice.Task{{Criterion: "c", Details: long}}, Diff: long},
		AdviseBrief{Task: slice.Task{Criterion: "c"}, Findings: findings, Diff: long},
		ReconcileBrief{Messages: make([]string, 90)},
	} {
		whole, err := Encode(b)
		require.NoError(t, err)
		short, err := Encode(Shorter(b))
		require.NoError(t, err)
		require.Less(t, len(short), len(whole))
		require.Less(t, len(short), 64<<10)
		require.Equal(t, b.Role(), Shorter(b).Role())
	}
}
