package e2e

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"interlock/machine"
	"interlock/slice"
)

// waits starts the slice and returns when it waits for something.
func (w *world) waits(f slice.WaitFor) slice.Status {
	w.t.Helper()
	how := interlock(w.t, "start", w.file)
	require.Zero(w.t, how.code, how.stderr)
	var status struct {
		Live *slice.Status `json:"live"`
	}
	require.Eventually(w.t, func() bool {
		how := interlock(w.t, "status", w.id, "-o", "json")
		status.Live = nil
		return how.code == 0 && json.Unmarshal([]byte(how.stdout), &status) == nil &&
			status.Live != nil && status.Live.Waiting != nil && status.Live.Waiting.For == f
	}, patience, 200*time.Millisecond)
	return *status.Live
}

// goesOn waits for the end, which must be a delivery.
func (w *world) goesOn(files map[string]string) slice.Result {
	w.t.Helper()
	how := interlock(w.t, "wait", w.id, "-o", "json")
	var r slice.Result
	require.NoError(w.t, json.Unmarshal([]byte(how.stdout), &r), how.stdout+how.stderr)
	require.Equal(w.t, machine.Delivered, r.Ending, r.Why)
	w.unharmed()
	w.delivered(w.remote, files)
	return r
}

// TestWaits goes through every wait that agents bring about, as a person does.
func TestWaits(t *testing.T) {
	t.Parallel()
	t.Run("a question", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, setup{implementer: `if told '"answer": "eighty"'; then echo eighty >hello.txt; answer; else echo half >half.txt; printf '{"status":"question","question":"Which port?\\nEighty?","session":"s-1","cost_usd":0.01}'; fi`})
		w.waits(slice.WaitQuestion)
		how := interlock(t, "answer", w.id)
		require.Equal(t, 2, how.code)
		require.Equal(t, "Which port?\nEighty?\n", how.stdout)
		t.Log(interlock(t, "status", w.id).stdout)
		require.Equal(t, 9, interlock(t, "answer", w.id, "--question", "q-other", "--text", "x").code)
		how = interlock(t, "answer", w.id, "--text", "eighty")
		require.Zero(t, how.code, how.stderr)
		r := w.goesOn(map[string]string{"hello.txt": "eighty", "half.txt": "half"})
		require.Equal(t, 1, r.Tasks[0].Attempts)
		require.Equal(t, 9, interlock(t, "answer", w.id, "--text", "late").code, "nothing is asked")
	})
	t.Run("a quota", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, setup{implementer: `if [ -e $OUT/limited ]; then work; answer; else touch $OUT/limited; printf '{"limit":{"retry_after":3600},"cost_usd":0}'; exit 1; fi`,
			more: "quota: {fallback_after: 2h}"})
		s := w.waits(slice.WaitQuota)
		require.InDelta(t, time.Now().Add(time.Hour).UnixMilli(), s.Waiting.Until, float64(7*time.Minute.Milliseconds()))
		text := interlock(t, "status", w.id).stdout
		t.Log(text)
		require.Contains(t, text, "quota of implementer until")
		require.Contains(t, text, "interlock quota-renewed "+w.id)
		require.Equal(t, 9, interlock(t, "answer", w.id, "--text", "x").code)
		how := interlock(t, "quota-renewed", w.id)
		require.Zero(t, how.code, how.stderr)
		r := w.goesOn(map[string]string{"hello.txt": hello})
		require.Equal(t, 1, r.Tasks[0].Attempts)
		require.Equal(t, 2, w.calls("implementer"))
	})
	t.Run("money", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, setup{budgets: "usd: 0.04", more: "on_over_budget: ask"})
		s := w.waits(slice.WaitMoney)
		require.EqualValues(t, 50_000, s.Waiting.NeedMicroUSD)
		require.Zero(t, w.calls("implementer"), "a call that cannot be afforded is not made")
		t.Log(interlock(t, "status", w.id).stdout)
		require.Equal(t, 2, interlock(t, "raise", w.id, "--usd", "0.01").code)
		for range 2 {
			how := interlock(t, "raise", w.id, "--usd", "1")
			require.Zero(t, how.code, how.stderr)
		}
		r := w.goesOn(map[string]string{"hello.txt": hello})
		require.Len(t, r.Costs, 3)
		t.Log(interlock(t, "status", w.id).stdout)
	})
	t.Run("no money, no question", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, setup{budgets: "usd: 0.04"})
		r := w.ends(machine.AbortedBudget, "")
		require.Contains(t, r.Why, "a call of the implementer may cost $0.05")
		require.Zero(t, w.calls("implementer"))
	})
	t.Run("a role's money", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, setup{budgets: "roles: {judge: 0.055}"})
		r := w.ends(machine.AbortedBudget, "")
		require.Equal(t, machine.JudgeSlice, r.Step)
		require.Contains(t, r.Why, "by its judge of $0.055")
		require.Equal(t, 1, w.calls("judge"))
	})
	t.Run("a third question", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, setup{budgets: "discards: 0", implementer: `printf '{"status":"question","question":"Which port?","cost_usd":0}'`})
		w.waits(slice.WaitQuestion)
		require.Zero(t, interlock(t, "answer", w.id, "--text", "80").code)
		require.Eventually(t, func() bool { return interlock(t, "answer", w.id, "--text", "again").code == 0 }, patience, 200*time.Millisecond)
		how := interlock(t, "wait", w.id, "-o", "json")
		require.Equal(t, 16, how.code)
		require.Contains(t, how.stdout, "may ask 2 times")
		require.Equal(t, 3, w.calls("implementer"))
	})
}
