package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"interlock/activities/git"
	"interlock/activities/workspace"
	"interlock/ledger"
	"interlock/machine"
	"interlock/slice"
)

// recorded makes a home with the record of a slice whose first task was
// committed when the record had the line that the trailer names.
type recorded struct {
	home  string
	store *workspace.Store
	lines []string
}

func recordIn(t *testing.T, trailer func(lines []string) string) recorded {
	t.Helper()
	ctx := t.Context()
	dir := t.TempDir()
	repo, home := filepath.Join(dir, "repo"), filepath.Join(dir, "home")
	for _, args := range [][]string{
		{"init", "--quiet", "--initial-branch=main", "--", repo},
		{"-C", repo, "commit", "--quiet", "--allow-empty", "--message=base"},
	} {
		_, err := git.Client{Dir: dir}.Output(ctx, args...)
		require.NoError(t, err)
	}
	store, err := workspace.Open(ctx, home, repo)
	require.NoError(t, err)
	base, err := store.Fetch(ctx, "greet", "main")
	require.NoError(t, err)

	var tail slice.Tail
	add := func(l ledger.Line) {
		l.Run, l.At = 1, ledger.Stamp(time.Unix(1_700_000_000, 0))
		ledger.Append(&tail, l)
	}
	state := machine.New(1, machine.Rules{})
	step := func(l ledger.Line) {
		turn, ok := machine.Due(state)
		require.True(t, ok)
		op := ledger.Op("greet", 1, tail.N+1)
		add(ledger.Line{Kind: ledger.Intent, Op: op, Turn: turn})
		l.Kind, l.Op, l.Turn, l.Outcome = ledger.Done, op, turn, machine.Done
		if l.Rules != nil {
			state.Rules = *l.Rules
		}
		add(l)
		state, err = machine.Next(state, machine.Event{Step: turn.Step, Outcome: machine.Done, CostMicroUSD: l.CostMicroUSD})
		require.NoError(t, err)
	}
	add(ledger.Line{Kind: ledger.Start, Slice: "greet", Tasks: 1, Spec: strings.Repeat("0", 64)})
	rules := machine.Rules{Budgets: machine.DefaultBudgets(), CapMicroUSD: 1_000_000, DeliverTo: machine.ToBranch}
	step(ledger.Line{Base: base.Commit, Rules: &rules}) // prepare
	step(ledger.Line{})                                 // baseline
	step(ledger.Line{CostMicroUSD: 20_000})             // implement
	step(ledger.Line{})                                 // check
	step(ledger.Line{})                                 // judge
	client := git.Client{GitDir: store.Dir()}
	commit, err := client.Line(ctx, "commit-tree", "-p", base.Commit, "-m", "task\n\n"+slice.TrailerLedger+": "+trailer(tail.Pending), base.Commit+"^{tree}")
	require.NoError(t, err)
	step(ledger.Line{Commit: commit})
	r := recorded{home, store, tail.Pending}
	_, err = store.AppendLedger(ctx, "greet", 1, r.lines, time.Unix(1_700_000_000, 0))
	require.NoError(t, err)
	return r
}

func lastHash(lines []string) string { return ledger.Hash(lines[len(lines)-1]) }

// call runs the command line in this process.
func call(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = run(args, strings.NewReader(""), &out, &err)
	return code, out.String(), err.String()
}

func TestLedger(t *testing.T) {
	r := recordIn(t, lastHash)

	code, out, _ := call(t, "ledger", "greet", "--home", r.home)
	require.Equal(t, 0, code)
	require.Contains(t, out, "run 1 of greet, 1 task")
	require.Contains(t, out, "implement · task 1 · attempt 1  done  $0.02")

	code, out, _ = call(t, "ledger", "greet", "--home", r.home, "--output", "json")
	require.Equal(t, 0, code)
	require.Equal(t, strings.Join(r.lines, "\n")+"\n", out)

	code, out, _ = call(t, "ledger", "greet", "--home", r.home, "--verify")
	require.Equal(t, 0, code)
	require.Equal(t, "ok: 13 lines, head "+lastHash(r.lines)[:10]+", folds to reconcile being due\n", out)

	code, _, stderr := call(t, "ledger", "other", "--home", r.home)
	require.Equal(t, exitPrecondition, code)
	require.Contains(t, stderr, "has no record of a slice other")
}

func TestLedgerBroken(t *testing.T) {
	t.Run("a line that was changed", func(t *testing.T) {
		r := recordIn(t, lastHash)
		r.lines[6] = strings.Replace(r.lines[6], `"cost_micro_usd":20000`, `"cost_micro_usd":10000`, 1)
		rewrite(t, r)
		code, out, _ := call(t, "ledger", "greet", "--home", r.home, "--verify", "--output", "json")
		require.Equal(t, exitBroken, code)
		require.Contains(t, out, `"ok": false`)
		require.Contains(t, out, `"line": 7`)
	})
	t.Run("a whole record that was written anew", func(t *testing.T) {
		r := recordIn(t, func([]string) string { return strings.Repeat("f", 64) })
		code, out, _ := call(t, "ledger", "greet", "--home", r.home, "--verify")
		require.Equal(t, exitBroken, code)
		require.Contains(t, out, "ffffffffff, which it has not now")
	})
}

// rewrite puts a forged record in the place of the slice's.
func rewrite(t *testing.T, r recorded) {
	t.Helper()
	ref := slice.Ref("greet", "ledger")
	client := git.Client{GitDir: r.store.Dir()}
	_, err := client.Output(context.WithoutCancel(t.Context()), "update-ref", "-d", ref)
	require.NoError(t, err)
	_, err = r.store.AppendLedger(t.Context(), "greet", 1, r.lines, time.Unix(1_700_000_000, 0))
	require.NoError(t, err)
}
