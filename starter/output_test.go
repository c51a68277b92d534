package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"interlock/machine"
	"interlock/slice"
)

func exitCode(err error) string {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "0"
	case errors.As(err, &exit):
		return strconv.Itoa(exit.ExitCode())
	}
	return err.Error()
}

// golden compares got with a file; -update writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", "golden", name)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

func done(n int, step machine.Step, task, attempt int, o machine.Outcome, millis, cost int64, why string) slice.Done {
	return slice.Done{N: n, Turn: machine.Turn{Step: step, Task: task, Attempt: attempt}, Outcome: o, Millis: millis, CostMicroUSD: cost, Why: why}
}

var tasks = []slice.TaskStatus{
	{ID: "without-name", Criterion: "A greeting for nobody is for the world.", Attempts: 2, Commit: "1111111111111111111111111111111111111111", CostMicroUSD: 50_000},
	{ID: "many-names", Criterion: "GreetAll greets several people.", Attempts: 1, Commit: "2222222222222222222222222222222222222222"},
}

func results() map[string]slice.Result {
	tail := slice.Tail{N: 42, Head: strings.Repeat("ab", 32)}
	end := func(e machine.Ending, c machine.Cause) slice.Result {
		found, ok := machine.Find(e, c)
		if !ok {
			panic("no such ending")
		}
		return slice.Result{Slice: "greet", Ending: e, Cause: c, Code: found.Code, Next: found.Next, Tasks: tasks,
			CostMicroUSD: 90_000, Millis: 83_400, Ledger: tail}
	}
	delivered := end(machine.Delivered, "")
	delivered.Branch, delivered.Remote, delivered.Commit = "interlock/greet", "/srv/remote.git", strings.Repeat("3", 40)
	delivered.Open = []slice.Finding{{Judge: "reader", Severity: slice.Correction, File: "greet.go", Line: 7, Claim: "the comment says less than the code"}}

	red := end(machine.BlockedChecks, machine.CauseRed)
	red.Step, red.Why = machine.Check, "1 check is red: test"
	red.Tasks = []slice.TaskStatus{{ID: "without-name", Criterion: tasks[0].Criterion, Attempts: 3}}
	red.Checks = []slice.CheckResult{
		{Measured: slice.Measured{Name: "vet", Outcome: machine.Done}},
		{Measured: slice.Measured{Name: "test", Outcome: machine.Failed, Why: "exit status 1", Passed: 2, Failed: 1, Failing: []string{"example.com/greet/TestGreetOnlySpaces"}},
			Summary: "=== RUN   TestGreetOnlySpaces\n    greet_test.go:16: Greet(\"  \") = \"Hello,   !\"\n\x1b]0;evil\x07" + strings.Repeat("noise\n", 30) + "FAIL\n",
			Log:     slice.Evidence{Name: "test.log", Hash: strings.Repeat("cd", 32), Size: 900}},
	}
	red.Kept = []string{"/home/slices/greet/workspace"}

	vetoed := end(machine.BlockedJudge, machine.CauseTask)
	vetoed.Step = machine.Judge
	vetoed.Findings = []slice.Finding{{Judge: "reader", Severity: slice.Blocking, File: "a.go", Line: 3, Claim: "it deletes the \x1b[31mtest\nof the criterion"}}

	cancelled := end(machine.Cancelled, "")
	cancelled.Undone = []string{"the workspace is removed"}
	cancelled.Failed = []string{"branch could not be taken back: somebody moved it"}

	refused := end(machine.Precondition, "")
	refused.Why = "a slice that ended as blocked_e2e needs an added task: reopen it with a changed file that has one"
	refused.Ledger, refused.Tasks = slice.Tail{}, nil
	refused.Next = "nothing was changed: do what the message says, then reopen it again"
	return map[string]slice.Result{"delivered": delivered, "blocked_checks": red, "blocked_judge": vetoed, "cancelled": cancelled,
		"blocked_e2e": end(machine.BlockedE2E, machine.CauseRed), "aborted_budget": end(machine.AbortedBudget, ""), "refused": refused}
}

func TestSummary(t *testing.T) {
	for name, r := range results() {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			summary{result: r, title: "Greet everyone", here: " --home /srv/interlock"}.write(&b)
			require.NotContains(t, b.String(), "\x1b", "nothing foreign may steer the terminal")
			golden(t, "summary_"+name+".txt", b.String())
		})
	}
}

func TestSummaryColours(t *testing.T) {
	var b bytes.Buffer
	summary{result: results()["delivered"], title: "Greet everyone", term: terminal{color: true}}.write(&b)
	require.Contains(t, b.String(), "\x1b[32mdelivered\x1b[0m")
}

func history() slice.Status {
	s := slice.Status{Slice: "greet", Run: 1, Tasks: tasks, Since: 1_700_000_000_000}
	s.Due = &machine.Turn{Step: machine.Judge, Task: 1, Attempt: 2}
	s.Recent = []slice.Done{
		done(1, machine.Prepare, 0, 0, machine.Done, 412, 0, ""),
		done(2, machine.Baseline, 0, 0, machine.Done, 2_310, 0, ""),
		done(3, machine.Implement, 1, 1, machine.Done, 61_000, 20_000, "said that it is done"),
		done(4, machine.Check, 1, 1, machine.Failed, 1_200, 0, "test: exit status 1: TestGreetOnlySpaces"),
		done(5, machine.Implement, 1, 2, machine.Done, 300, 1_234_500, ""),
		done(6, machine.Check, 1, 2, machine.Done, 7_400_000, 0, ""),
	}
	return s
}

// TestProgressPlain shows a slice where nothing can be overwritten: one line
// for each step, none twice.
func TestProgressPlain(t *testing.T) {
	var b bytes.Buffer
	p := newProgress(&b, terminal{})
	s := history()
	all := s.Recent
	s.Recent = all[:3]
	p.show(s)
	p.show(s)
	s.Recent = all[1:5]
	p.show(s)
	s.Recent = all
	s.Waiting = &slice.Wait{For: "approval of the plan"}
	p.show(s)
	p.show(s)
	// More steps happened than a status holds.
	s.Waiting = nil
	s.Recent = []slice.Done{done(31, machine.Commit, 2, 1, machine.Done, 90, 0, "")}
	p.show(s)
	// A new run counts from 1 again.
	s.Run, s.Recent = 2, all[:1]
	p.show(s)
	golden(t, "progress.txt", b.String())
}

func TestProgressLive(t *testing.T) {
	var b bytes.Buffer
	p := newProgress(&b, terminal{live: true, width: 72})
	p.now = func() time.Time { return time.UnixMilli(1_700_000_007_000) }
	p.show(history())
	last := b.String()[strings.LastIndex(b.String(), "\r"):]
	require.Equal(t, "\r\x1b[K  judge · task 1 of 2 (without-name) · attempt 2 · 7.0 s", last)
	for _, line := range strings.Split(b.String(), "\n") {
		require.LessOrEqual(t, len([]rune(strings.TrimPrefix(line, "\r\x1b[K"))), 72)
	}
	b.Reset()
	p.clear()
	p.clear()
	require.Equal(t, "\r\x1b[K", b.String())
}

func TestProgressWithoutWorker(t *testing.T) {
	var b bytes.Buffer
	p := newProgress(&b, terminal{})
	now := time.Now()
	p.now = func() time.Time { return now }
	p.heard = now
	p.unanswered()
	require.Empty(t, b.String(), "one missed answer is nothing to tell")
	now = now.Add(queryTimeout)
	p.unanswered()
	p.unanswered()
	require.Equal(t, "  no worker answers; the slice waits for one\n", b.String())
	p.show(slice.Status{Run: 1})
	require.Contains(t, b.String(), "a worker answers again")
}

func TestTook(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"0.0 s":       -time.Second,
		"0.4 s":       400 * time.Millisecond,
		"59.9 s":      59900 * time.Millisecond,
		"1 min 00 s":  time.Minute,
		"59 min 59 s": time.Hour - time.Second,
		"3 h 05 min":  3*time.Hour + 5*time.Minute,
		"4 days":      100 * time.Hour,
	} {
		require.Equal(t, want, took(d))
	}
}

func TestHeadAndTail(t *testing.T) {
	require.Empty(t, headAndTail(" \n\n", 2, 2))
	require.Equal(t, []string{"a", "    b"}, headAndTail("a\n\tb\n", 2, 2))
	require.Equal(t, []string{"1", "2", "… 2 lines …", "5", "6"}, headAndTail("1\n2\n3\n4\n5\n6", 2, 2))
}

func TestPlain(t *testing.T) {
	require.Equal(t, "a b[2Jc", plain(" a\nb\x1b[2J\u202ec\x00 "))
}

func TestIsPath(t *testing.T) {
	for repo, want := range map[string]bool{
		".": true, "../x": true, "/srv/x": true, "./a:b": true, "a/b:c": true,
		"https://x/y": false, "git@host:x/y": false, "host:x": false, "file:///x": false,
	} {
		require.Equal(t, want, isPath(repo), repo)
	}
}

func TestList(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var b bytes.Buffer
	writeList(&b, []seen{
		{Slice: "greet", Workflow: "running", Step: machine.Check, Task: "without-name", CostUSD: 0.07, Started: now.Add(-95 * time.Second)},
		{Slice: "a-much-longer-name", Workflow: "running", Started: now},
		{Slice: "waits", Workflow: "running", Step: machine.PlanGate, NeedsHuman: true, Started: now.Add(-50 * time.Hour)},
		{Slice: "red", Workflow: "failed", Step: machine.Check, Ending: machine.BlockedChecks, CostUSD: 1.5, Started: now.Add(-time.Hour)},
		{Slice: "gone", Workflow: "terminated", Started: now},
	}, now)
	golden(t, "list.txt", b.String())
}
