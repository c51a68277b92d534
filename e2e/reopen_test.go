//go:build linux

package e2e

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"interlock/ledger"
	"interlock/machine"
	"interlock/slice"
)

// unlessMended is a line of shell that does what is wrong until a person has
// mended the world.
func unlessMended(wrong, right string) string {
	return "if [ -e $OUT/mended ]; then " + right + "; else " + wrong + "; fi"
}

// mend mends the world.
func mend(w *world) { require.NoError(w.t, os.WriteFile(filepath.Join(w.out, "mended"), nil, 0o644)) }

// outOf is the folder outside of the world of a test that is not made yet.
func outOf(t *testing.T) string {
	return filepath.Join(shared.dir, "worlds", idOf(t.Name()), "out")
}

// reopen reopens the slice and follows it to its end.
func (w *world) reopen(args ...string) (slice.Result, ran) {
	w.t.Helper()
	how := interlock(w.t, append([]string{"reopen", w.id, "--reason", "it is mended", "-o", "json"}, args...)...)
	var r slice.Result
	if how.stdout != "" {
		require.NoError(w.t, json.Unmarshal([]byte(how.stdout), &r), how.stdout)
	}
	return r, how
}

// record is the record of the slice.
func (w *world) record() []string { w.t.Helper(); return w.recordIn(w.store()) }

func (w *world) recordIn(store string) []string {
	w.t.Helper()
	text := w.git(store, "cat-file", "blob", slice.Ref(w.id, "ledger")+":ledger.jsonl")
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// changed writes the slice's file with another text and returns its name.
func (w *world) changed(old, now string) string {
	w.t.Helper()
	text, err := os.ReadFile(w.file)
	require.NoError(w.t, err)
	require.Contains(w.t, string(text), old)
	file := filepath.Join(w.dir, "changed.yaml")
	require.NoError(w.t, os.WriteFile(file, []byte(strings.Replace(string(text), old, now, 1)), 0o644))
	return file
}

// more is the slice's file with a task more.
func more(w *world) []string {
	const last = "There is a greeting 1.}\n"
	w.setup.tasks = 2
	return []string{"--file", w.changed(last, last+"- {id: t2, criterion: There is more.}\n")}
}

// repaired notes that a person has changed the repository or its remote.
func repaired(do func(*world)) func(*world) []string {
	return func(w *world) []string { do(w); w.keep(); return nil }
}

// TestReopen brings a slice of every ending and cause that can be reopened,
// without a forge, to its delivery: what was spent stays spent, only what
// closed it is counted anew, and what was committed stays so.
func TestReopen(t *testing.T) {
	t.Parallel()
	const (
		veto    = `scores 1 '{"severity":"blocking","claim":"no"}'`
		twoSide = `work; told "There is more" && echo more >more.txt; answer`
		work1   = `work; told '"t2"' && echo two >two.txt; answer`
		user    = `user() { git -C $REPO -c user.name=u -c user.email=u@u "$@"; }; `
		other   = user + `
			other() { b=$(printf '%s\n' "$2" | user hash-object -w --stdin)
				t=$( (user ls-tree main; printf '100644 blob %s\t%s\n' $b "$1") | awk '{n=$4; l[n]=$0} END {for (n in l) print l[n]}' | user mktree)
				user update-ref refs/heads/main $(user commit-tree -p main -m other $t); }; `
	)
	isWhole := `printf '%s' "$brief" | grep -q '^  "tasks": '`
	missing := func(out, when string) string { return "test -e " + out + "/mended || { " + when + "; }" }
	greeting := map[string]string{"hello.txt": hello}
	both := map[string]string{"hello.txt": hello, "more.txt": "more"}
	for _, row := range []struct {
		name  string
		setup func(t *testing.T) setup
		// first runs the slice to its first end; nil runs it.
		first  func(*world) slice.Result
		ending machine.Ending
		cause  machine.Cause
		// mend mends what is wrong, and returns what else is told to reopen.
		mend func(*world) []string
		// then is instead of reopening it by the command line.
		reopen func(*world, []string) slice.Result
		files  map[string]string // nil: the greeting
		// check looks at the end itself; nil looks at commits and files.
		check func(*world, slice.Result)
		// again are the most calls of the implementer that reopening may make.
		again int
	}{
		{name: "judge task", ending: machine.BlockedJudge, cause: machine.CauseTask, again: 1,
			setup: func(*testing.T) setup {
				return setup{budgets: "judge: 1",
					judge: `if told '"role": "advisor"'; then echo '{"advice":"begin again","cost_usd":0.01}'; exit; fi; ` + unlessMended(veto, "scores 5")}
			}},
		{name: "judge slice", ending: machine.BlockedJudge, cause: machine.CauseSlice, mend: more, files: both, again: 1,
			setup: func(*testing.T) setup {
				return setup{implementer: twoSide, judge: `if ` + isWhole + ` && [ ! -e more.txt ]; then ` + veto + `; else scores 5; fi`}
			}},
		{name: "judge discards", ending: machine.BlockedJudge, cause: machine.CauseDiscards,
			setup: func(*testing.T) setup {
				return setup{budgets: "discards: 1", judge: unlessMended("echo LGTM", "scores 5")}
			}},
		{name: "checks red", ending: machine.BlockedChecks, cause: machine.CauseRed, again: 1,
			setup: func(*testing.T) setup {
				return setup{budgets: "checks: 1", implementer: "work; " + unlessMended("echo BROKEN >hello.txt", "told BROKEN || true") + "; answer",
					checks: `[{name: works, run: "test -s README.md; if grep -qs BROKEN hello.txt; then echo it says BROKEN; exit 1; fi"}]`}
			}},
		{name: "checks unmeasured", ending: machine.BlockedChecks, cause: machine.CauseUnmeasured,
			setup: func(t *testing.T) setup {
				return setup{checks: `[{name: works, run: ` + quote("test -s README.md; test ! -e hello.txt || "+missing(outOf(t), "exit 127")) + `}]`}
			}},
		{name: "checks base red", ending: machine.BlockedChecks, cause: machine.CauseBaseRed, again: 1,
			setup: func(*testing.T) setup { return setup{checks: `[{name: works, run: "test -e hello.txt"}]`} },
			mend: func(w *world) []string {
				return []string{"--file", w.changed("tasks:", "expected_red: [works]\ntasks:")}
			}},
		{name: "checks base unmeasured", ending: machine.BlockedChecks, cause: machine.CauseBaseUnmeasured, again: 1,
			setup: func(t *testing.T) setup {
				return setup{checks: `[{name: works, run: ` + quote(missing(outOf(t), "exit 127")+"; test -s README.md") + `}]`}
			}},
		{name: "e2e red", ending: machine.BlockedE2E, cause: machine.CauseRed, mend: more, files: both, again: 1,
			setup: func(*testing.T) setup {
				return setup{implementer: twoSide, checks: peacefulCheck + "\ne2e: [{name: whole, run: test -e more.txt}]"}
			}},
		{name: "e2e unmeasured", ending: machine.BlockedE2E, cause: machine.CauseUnmeasured,
			setup: func(t *testing.T) setup {
				return setup{checks: peacefulCheck + "\ne2e: [{name: whole, run: " + quote(missing(outOf(t), "exit 127")+"; test -e hello.txt") + "}]"}
			}},
		{name: "verify red", ending: machine.BlockedVerify, cause: machine.CauseRed, mend: more, again: 1,
			setup: func(*testing.T) setup {
				return setup{implementer: `work; if told "There is more"; then rm hello.txt; echo more >more.txt; else ` + other + `other other.txt theirs; fi; answer`,
					checks: `[{name: works, run: "test ! -e hello.txt || test ! -e other.txt"}]`}
			}, check: func(w *world, r slice.Result) {
				require.Equal(w.t, "theirs", w.git(w.remote, "cat-file", "-p", r.Commit+":other.txt"))
				require.Equal(w.t, "more", w.git(w.remote, "cat-file", "-p", r.Commit+":more.txt"))
			}},
		{name: "verify unmeasured", ending: machine.BlockedVerify, cause: machine.CauseUnmeasured,
			setup: func(t *testing.T) setup {
				return setup{checks: peacefulCheck + "\nverify: [{name: whole, run: " + quote(missing(outOf(t), "exit 127")+"; test -e README.md") + "}]"}
			}},
		{name: "reconcile conflict", ending: machine.BlockedReconcile, cause: machine.CauseConflict,
			setup: func(*testing.T) setup {
				return setup{budgets: "reconcile: 0", implementer: other + `other hello.txt theirs; work; answer`}
			},
			mend: mergeByHand, check: func(w *world, r slice.Result) {
				require.Equal(w.t, "hello\ntheirs", w.git(w.remote, "cat-file", "-p", r.Commit+":hello.txt"))
				require.Equal(w.t, w.git(w.repo, "rev-parse", slice.Branch(w.id)), r.Commit)
				require.Equal(w.t, r.Commit, w.git(w.remote, "rev-parse", slice.Branch(w.id)))
			}},
		{name: "commit", ending: machine.BlockedCommit,
			setup: func(*testing.T) setup {
				return setup{implementer: `work; g=$(git --git-dir=$STORE -c user.name=x -c user.email=x@x commit-tree -m x refs/interlock/$ID/good^{tree}); git --git-dir=$STORE update-ref refs/interlock/$ID/good $g; answer`}
			},
			mend: func(w *world) []string {
				// Not repaired, it says how.
				before := w.record()
				r, how := w.reopen()
				require.Equal(w.t, 8, how.code, how.stderr)
				require.Contains(w.t, r.Why, "update-ref "+slice.Ref(w.id, "good")+" "+w.base)
				require.Contains(w.t, r.Next, "reopen it again")
				require.Equal(w.t, before, w.record())
				_, command, _ := strings.Cut(r.Why, "reopen the slice: ")
				w.git(w.dir, strings.Fields(command)[1:]...)
				return nil
			}},
		{name: "budget", ending: machine.AbortedBudget,
			setup: func(*testing.T) setup { return setup{budgets: "usd: 0.055", tasks: 2, implementer: work1} },
			mend:  func(*world) []string { return []string{"--usd", "1"} }, again: 1,
			files: map[string]string{"hello.txt": hello, "two.txt": "two"}},
		{name: "call timeout", ending: machine.BlockedCall, cause: machine.CauseTimeout, again: 1,
			setup: func(*testing.T) setup {
				return setup{timeout: "1s", implementer: "work; " + unlessMended("sleep 600", "answer")}
			}},
		{name: "call discards", ending: machine.BlockedCall, cause: machine.CauseDiscards, again: 1,
			setup: func(*testing.T) setup {
				return setup{budgets: "discards: 0", implementer: "work; " + unlessMended("echo done", "answer")}
			}},
		{name: "call fatal", ending: machine.BlockedCall, cause: machine.CauseFatal, again: 1,
			setup: func(*testing.T) setup {
				return setup{implementer: "work; " + unlessMended(`printf '{"failure":"fatal","reason":"no key"}'; exit 1`, "answer")}
			}},
		{name: "call limit", ending: machine.BlockedCall, cause: machine.CauseLimit, again: 1,
			setup: func(*testing.T) setup {
				return setup{checks: peacefulCheck + "\nquota: {wait: false}", implementer: "work; " + unlessMended(`printf '{"limit":{"retry_after":86400}}'; exit 1`, "answer")}
			}},
		{name: "rejected", ending: machine.Rejected, again: 2, files: both,
			setup: func(*testing.T) setup {
				return setup{implementer: twoSide, checks: peacefulCheck + "\ngates: {plan: true}"}
			},
			first: func(w *world) slice.Result { return w.decided(machine.PlanGate, "reject", w.run) },
			mend:  more,
			reopen: func(w *world, args []string) slice.Result {
				return w.decided(machine.PlanGate, "approve", func() (slice.Result, ran) { return w.reopen(args...) })
			}},
		{name: "cancelled", ending: machine.Cancelled, again: 2, files: map[string]string{"hello.txt": hello, "two.txt": "two"},
			setup: func(*testing.T) setup {
				return setup{tasks: 2, implementer: `work; if told '"t2"'; then echo two >two.txt; [ -e $OUT/mended ] || { touch $OUT/cancel; sleep 600; }; fi; answer`}
			},
			first: func(w *world) slice.Result {
				var r slice.Result
				var wait = make(chan struct{})
				go func() { defer close(wait); r, _ = w.run() }()
				eventually(w.t, "an agent is at work", func() bool { _, err := os.Stat(filepath.Join(w.out, "cancel")); return err == nil })
				require.Zero(w.t, interlock(w.t, "cancel", w.id).code)
				<-wait
				require.NoDirExists(w.t, filepath.Join(shared.home, "workspaces", w.id))
				return r
			}},
		{name: "cancelled when it is published", ending: machine.Cancelled,
			setup: func(*testing.T) setup {
				return setup{deliver: "{to: merge}\ngates: {merge: true}"}
			},
			first: func(w *world) slice.Result {
				r := w.decided(machine.MergeGate, "cancel", w.run)
				require.NotContains(w.t, w.refsOf(w.remote), "refs/heads/"+slice.Branch(w.id), "the branch was taken back")
				return r
			},
			reopen: func(w *world, args []string) slice.Result {
				return w.decided(machine.MergeGate, "approve", func() (slice.Result, ran) { return w.reopen(args...) })
			},
			check: func(w *world, r slice.Result) {
				require.Equal(w.t, r.Commit, w.git(w.remote, "rev-parse", "main"))
				require.Equal(w.t, hello, w.git(w.remote, "cat-file", "-p", "main:hello.txt"))
			}},
		{name: "delivery conflict", ending: machine.BlockedDelivery, cause: machine.CauseConflict,
			setup: func(*testing.T) setup {
				return setup{before: func(w *world) {
					id := w.git(w.repo, "commit-tree", "-p", "main", "-m", "foreign", "main^{tree}")
					w.git(w.repo, "push", "-q", w.remote, id+":refs/heads/"+slice.Branch(w.id))
				}}
			},
			mend: repaired(func(w *world) { w.git(w.repo, "push", "-q", w.remote, ":refs/heads/"+slice.Branch(w.id)) })},
		{name: "delivery refused", ending: machine.BlockedDelivery, cause: machine.CauseRefused,
			setup: func(*testing.T) setup {
				return setup{before: func(w *world) {
					hook := filepath.Join(w.remote, "hooks", "pre-receive")
					require.NoError(w.t, os.MkdirAll(filepath.Dir(hook), 0o755))
					require.NoError(w.t, os.WriteFile(hook, []byte("#!/bin/sh\nexit 1\n"), 0o755))
				}}
			},
			mend: func(w *world) []string {
				require.NoError(w.t, os.Remove(filepath.Join(w.remote, "hooks", "pre-receive")))
				return nil
			}},
		{name: "delivery missing", ending: machine.BlockedDelivery, cause: machine.CauseMissing,
			setup: func(*testing.T) setup {
				return setup{before: func(w *world) { w.git(w.repo, "remote", "remove", "origin") }}
			},
			mend: repaired(func(w *world) { w.git(w.repo, "remote", "add", "origin", w.remote) })},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, row.setup(t))
			var first slice.Result
			if row.first != nil {
				first = row.first(w)
			} else {
				var how ran
				first, how = w.run()
				require.NotEmpty(t, first.Ending, how.stderr)
			}
			require.Equal(t, [2]string{string(row.ending), string(row.cause)}, [2]string{string(first.Ending), string(first.Cause)}, first.Why)
			end, ok := machine.Find(row.ending, row.cause)
			require.True(t, ok)
			require.NotEmpty(t, end.ReopenAt)
			before, err := ledger.Fold(w.record())
			require.NoError(t, err)
			called := w.calls("implementer")

			mend(w)
			var args []string
			if row.mend != nil {
				args = row.mend(w)
			}
			var r slice.Result
			if row.reopen != nil {
				r = row.reopen(w, args)
			} else {
				var how ran
				r, how = w.reopen(args...)
				require.Equal(t, machine.Delivered, r.Ending, "%s\n%s", r.Why, how.stderr)
			}
			require.Equal(t, machine.Delivered, r.Ending, r.Why)

			lines := w.record()
			after, err := ledger.Fold(lines)
			require.NoError(t, err)
			require.Equal(t, machine.Delivered, after.State.Ending)
			require.Equal(t, 2, after.Runs)
			require.Zero(t, interlock(t, "ledger", w.id, "--verify").code)
			opened, err := ledger.Fold(lines[:before.N+1])
			require.NoError(t, err)
			require.Equal(t, before.State.SpentMicroUSD, opened.State.SpentMicroUSD, "what was spent stays spent")
			require.Equal(t, before.Commits, opened.Commits)
			kept := before.State.Used
			for _, c := range end.Reset {
				kept = without(kept, c)
			}
			require.Equal(t, kept, opened.State.Used, "nothing but %v is counted anew", end.Reset)
			require.LessOrEqual(t, w.calls("implementer")-called, row.again)
			require.Equal(t, after.State.SpentMicroUSD, r.CostMicroUSD)
			for i, task := range r.Tasks {
				require.NotEmpty(t, task.Commit, task.ID)
				require.Equal(t, after.Commits[i], task.Commit)
				require.Equal(t, ledger.Worked{Attempts: task.Attempts, CostMicroUSD: task.CostMicroUSD}, after.Tasks[i])
			}
			if row.check != nil {
				row.check(w, r)
				return
			}
			files := row.files
			if files == nil {
				files = greeting
			}
			w.delivered(w.remote, files)
			w.unharmed()
		})
	}
}

// without is counts with one of them at 0.
func without(n machine.Counts, c machine.Counter) machine.Counts {
	switch c {
	case machine.Checks:
		n.Checks = 0
	case machine.Judgements:
		n.Judge = 0
	case machine.CorrectionRounds:
		n.Corrections = 0
	case machine.Reconciles:
		n.Reconcile = 0
	case machine.Moves:
		n.Moves = 0
	case machine.CIRounds:
		n.CI = 0
	case machine.Discards:
		n.Discards = 0
	case machine.HostLosses:
		n.Lost = 0
	}
	return n
}

// decided lets a person decide at a gate while what is run waits.
func (w *world) decided(at machine.Step, verdict string, run func() (slice.Result, ran)) slice.Result {
	w.t.Helper()
	type end struct {
		slice.Result
		ran
	}
	ended := make(chan end, 1)
	go func() {
		r, how := run()
		ended <- end{r, how}
	}()
	var subject string
	eventually(w.t, "it waits at "+string(at), func() bool {
		var s struct{ Live *slice.Status }
		if len(ended) > 0 {
			return true
		}
		how := interlock(w.t, "status", w.id, "-o", "json")
		if json.Unmarshal([]byte(how.stdout), &s) != nil || s.Live == nil || s.Live.Waiting == nil {
			return false
		}
		subject = s.Live.Waiting.Subject
		return s.Live.State.Step == at && subject != ""
	})
	args := []string{verdict, w.id}
	if verdict != "cancel" {
		args = append(args, "--subject", subject, "--by", "Ada")
	}
	how := interlock(w.t, args...)
	require.Zero(w.t, how.code, how.stderr)
	e := <-ended
	require.NotEmpty(w.t, e.Ending, e.stderr)
	return e.Result
}

// mergeByHand does what the refusals of reopen tell a person to do, one after
// the other.
func mergeByHand(w *world) []string {
	branch := slice.Branch(w.id)
	follow := func(want string) {
		before := w.record()
		r, how := w.reopen()
		require.Equal(w.t, 8, how.code, how.stderr)
		require.Contains(w.t, r.Why, want)
		require.Equal(w.t, before, w.record())
		for line := range strings.Lines(r.Why) {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "git ") && !strings.Contains(line, " merge ") {
				w.git(w.dir, strings.Fields(line)[1:]...)
			} else if strings.HasPrefix(line, "git ") {
				_, err := w.tryGit(w.dir, strings.Fields(line)[1:]...)
				require.Error(w.t, err, "there is no conflict")
			}
		}
	}
	// One that lacks the slice's work.
	w.git(w.repo, "branch", branch, "main")
	r, how := w.reopen()
	require.Equal(w.t, 8, how.code, how.stderr)
	require.Contains(w.t, r.Why, "does not contain the slice's work")
	w.git(w.repo, "branch", "-D", branch)
	w.git(w.repo, "reset", "-q", "--hard", "main")
	follow("there is no merge to adopt")
	w.git(w.repo, "merge", "--abort")
	// One that lacks the base.
	follow("does not contain the base that it met")
	w.write("hello.txt", "hello\ntheirs\n")
	w.git(w.repo, "add", "hello.txt")
	w.git(w.repo, "commit", "-q", "-m", "Merge by hand")
	w.git(w.repo, "switch", "-q", "main")
	w.keep()
	return nil
}

// TestReopenIsRefused shows what cannot be reopened; nothing of it changes.
func TestReopenIsRefused(t *testing.T) {
	t.Parallel()
	blocked := setup{budgets: "checks: 0", implementer: `work; [ -e $OUT/mended ] || echo BROKEN >hello.txt; answer`}
	for _, row := range []struct {
		name   string
		setup  setup
		before func(*world)
		args   func(*world) []string
		code   int
		why    string
	}{
		{name: "there is none", before: func(w *world) { w.id = "never-was" }, code: 8, why: "there is no slice never-was"},
		{name: "it was delivered", setup: setup{}, before: (*world).runs, code: 8, why: "was delivered: only a slice that ended otherwise"},
		{name: "a committed task is another one", setup: setup{tasks: 2, budgets: "checks: 0", implementer: `work; told '"t2"' && echo BROKEN >hello.txt; answer`}, before: (*world).runs,
			args: func(w *world) []string { return []string{"--file", w.changed("greeting 1.", "gruss 1.")} }, code: 2, why: "task t1 is committed"},
		{name: "a file of another slice", setup: blocked, before: (*world).runs,
			args: func(w *world) []string { return []string{"--file", w.changed("id: "+w.id, "id: another")} }, code: 2, why: "is slice another, not"},
		{name: "a cap that is too low", setup: setup{budgets: "usd: 0.055, checks: 0", tasks: 2}, before: (*world).runs,
			args: func(w *world) []string { return []string{"--usd", "0.001"} }, code: 8, why: "higher cap"},
		{name: "no added task", setup: setup{checks: peacefulCheck + "\ne2e: [{name: whole, run: test -e more.txt}]"}, before: (*world).runs, code: 8, why: "needs an added task"},
		{name: "a broken record", setup: blocked, before: func(w *world) {
			w.runs()
			// A line is taken out, as by somebody who can write to the store.
			w.rewrite(slices.Delete(w.record(), 3, 4))
		}, code: 10, why: "the record does not verify"},
		{name: "no record", setup: blocked, before: func(w *world) {
			w.runs()
			w.git(w.store(), "update-ref", "-d", slice.Ref(w.id, "ledger"))
		}, code: 8, why: "there is nothing to reopen"},
		{name: "a lost base", setup: blocked, before: func(w *world) {
			w.runs()
			w.git(w.store(), "update-ref", "-d", slice.Ref(w.id, "base"))
		}, code: 10, why: "base is gone, but the record says"},
		{name: "a lost commit", setup: blocked, before: func(w *world) {
			w.runs()
			w.git(w.store(), "update-ref", "-d", slice.Ref(w.id, "good"))
		}, code: 10, why: "good is gone, but the record says"},
		{name: "a lost spec", setup: blocked, before: func(w *world) {
			w.runs()
			w.git(w.store(), "update-ref", "-d", slice.Ref(w.id, "spec"))
		}, code: 10, why: "spec is gone"},
		{name: "a forged spec", setup: blocked, before: func(w *world) {
			w.runs()
			file := filepath.Join(w.dir, "forged")
			text := w.git(w.store(), "cat-file", "blob", slice.Ref(w.id, "spec"))
			require.NoError(w.t, os.WriteFile(file, []byte(strings.Replace(text, "greeting", "nothing", 1)), 0o644))
			w.git(w.store(), "update-ref", slice.Ref(w.id, "spec"), w.git(w.store(), "hash-object", "-w", file))
		}, code: 10, why: "is not the spec that the record says"},
		{name: "no reason", setup: blocked, before: (*world).runs, args: func(*world) []string { return []string{"--reason", " "} }, code: 2, why: "for a reason"},
		{name: "no money", setup: blocked, before: (*world).runs, args: func(*world) []string { return []string{"--usd", "-1"} }, code: 2, why: "--usd"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, row.setup)
			row.before(w)
			var args []string
			if row.args != nil {
				args = row.args(w)
			}
			world := func() (refs, files map[string]string) {
				if w.store() == "" {
					return nil, nil
				}
				return w.refsOf(w.store()), w.workspace()
			}
			refs, files := world()
			r, how := w.reopen(args...)
			require.Equal(t, row.code, how.code, "%s\n%s", how.stdout, how.stderr)
			require.Contains(t, r.Why+how.stderr, row.why)
			if r.Slice != "" {
				require.Contains(t, r.Next, "reopen")
			}
			nowRefs, nowFiles := world()
			require.Equal(t, refs, nowRefs, "nothing of the slice was changed")
			require.Equal(t, files, nowFiles, "nothing of its workspace was changed")
		})
	}
}

// workspace is what is in the workspace of the slice; nil if there is none.
func (w *world) workspace() map[string]string {
	dir := filepath.Join(shared.home, "workspaces", w.id)
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return hashes(w.t, dir)
}

// runs takes the slice to its end, whatever that is.
func (w *world) runs() { w.t.Helper(); _, _ = w.run() }

// rewrite puts other lines in the place of the record.
func (w *world) rewrite(lines []string) {
	w.t.Helper()
	file := filepath.Join(w.dir, "ledger.jsonl")
	require.NoError(w.t, os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644))
	index := "GIT_INDEX_FILE=" + filepath.Join(w.dir, "index")
	blob := w.git(w.store(), "hash-object", "-w", file)
	out, err := w.do(w.dir, "env", index, "git", "--git-dir", w.store(), "update-index", "--add", "--cacheinfo", "100644,"+blob+",ledger.jsonl")
	require.NoError(w.t, err, out)
	tree, err := w.do(w.dir, "env", index, "git", "--git-dir", w.store(), "write-tree")
	require.NoError(w.t, err, tree)
	w.git(w.store(), "update-ref", slice.Ref(w.id, "ledger"), w.git(w.store(), "commit-tree", "-m", "x", tree))
}

// redUntilMended is a slice whose check is red until a person has mended the
// world; the implementer notes if the work of the first run is not there.
func redUntilMended() setup {
	return setup{budgets: "checks: 0", implementer: `if [ -e $OUT/mended ]; then [ -e hello.txt ] || touch $OUT/lost; work; else echo BROKEN >hello.txt; fi; answer`}
}

// TestReopenByTheStockClient needs no command line: what a person brings is
// part of the input.
func TestReopenByTheStockClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redUntilMended())
	w.ends(machine.BlockedChecks, machine.CauseRed)
	before := w.record()
	mend(w)
	for name, reopen := range map[string]map[string]any{
		"no reason":      {},
		"a blank reason": {"reason": " \n"},
		"a strange cap":  {"reason": "mended", "cap_micro_usd": -1},
	} {
		in := w.input()
		in["reopen"] = reopen
		_, err := start(t, w.id, in)
		r := resultOf(t, err)
		require.Equal(t, machine.Invalid, r.Ending, name)
		require.Contains(t, r.Next, "reopen it again", name)
		require.Equal(t, before, w.record(), name)
	}
	in := w.input()
	in["reopen"] = map[string]any{"reason": "mended", "unchanged": true}
	r, err := start(t, w.id, in)
	require.NoError(t, err)
	require.Equal(t, machine.Delivered, r.Ending)
	require.Contains(t, r.Tasks[0].Criterion, "greeting 1", "the spec in force counts, not the input's")
	w.delivered(w.remote, map[string]string{"hello.txt": hello})
	w.unharmed()
}

// TestReopenTwiceAtOnce lets one of two go on.
func TestReopenTwiceAtOnce(t *testing.T) {
	t.Parallel()
	s := redUntilMended()
	s.implementer = `[ -e $OUT/mended ] && while [ ! -e $OUT/release ]; do sleep 0.05; done; ` + s.implementer
	w := newWorld(t, s)
	w.ends(machine.BlockedChecks, machine.CauseRed)
	mend(w)
	type end struct {
		slice.Result
		ran
	}
	ends := make(chan end, 2)
	for range 2 {
		go func() {
			r, how := w.reopen()
			ends <- end{r, how}
		}()
	}
	refused := <-ends
	require.Equal(t, 8, refused.code, refused.stdout+refused.stderr)
	require.Contains(t, refused.stderr, "runs: only a slice that has ended is reopened")
	require.Contains(t, refused.stderr, "interlock wait "+w.id)
	require.NoError(t, os.WriteFile(filepath.Join(w.out, "release"), nil, 0o644))
	won := <-ends
	require.Equal(t, machine.Delivered, won.Ending, won.stderr)
	w.delivered(w.remote, map[string]string{"hello.txt": hello})
	w.unharmed()
}

// TestReopenWithoutItsWorkspace makes it again, from the candidate in work.
func TestReopenWithoutItsWorkspace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redUntilMended())
	w.ends(machine.BlockedChecks, machine.CauseRed)
	mend(w)
	require.NoError(t, os.RemoveAll(filepath.Join(shared.home, "workspaces", w.id)))
	require.NoError(t, os.RemoveAll(filepath.Join(shared.home, "views", w.id)))
	r, how := w.reopen()
	require.Equal(t, machine.Delivered, r.Ending, r.Why+how.stderr)
	require.NoFileExists(t, filepath.Join(w.out, "lost"))
	w.delivered(w.remote, map[string]string{"hello.txt": hello})
	w.unharmed()
}

// TestReopenAgain reopens a slice that has adopted a merge by hand, after it was
// blocked by the whole: what it goes on from is the merge.
func TestReopenAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{budgets: "reconcile: 0", checks: peacefulCheck + "\ne2e: [{name: whole, run: test -e more.txt}]",
		implementer: `u() { git -C $REPO -c user.name=u -c user.email=u@u "$@"; }
			if told "There is more"; then grep -q theirs hello.txt && echo more >more.txt; else work
			b=$(echo theirs | u hash-object -w --stdin); t=$( (u ls-tree main; printf '100644 blob %s\thello.txt\n' $b) | u mktree)
			u update-ref refs/heads/main $(u commit-tree -p main -m other $t); fi; answer`})
	r, how := w.run()
	require.Equal(t, machine.BlockedReconcile, r.Ending, r.Why+how.stderr)
	mergeByHand(w)
	r, how = w.reopen()
	require.Equal(t, machine.BlockedE2E, r.Ending, r.Why+how.stderr)
	r, how = w.reopen(more(w)...)
	require.Equal(t, machine.Delivered, r.Ending, r.Why+how.stderr)
	require.Equal(t, "hello\ntheirs", w.git(w.remote, "cat-file", "-p", r.Commit+":hello.txt"))
	require.Equal(t, "more", w.git(w.remote, "cat-file", "-p", r.Commit+":more.txt"))
	require.Len(t, r.Tasks, 2)
	folded, err := ledger.Fold(w.record())
	require.NoError(t, err)
	require.Equal(t, 3, folded.Runs)
	require.Zero(t, interlock(t, "ledger", w.id, "--verify").code)
	require.Equal(t, 8, second(w.reopen()).code, "a slice that was delivered")
}

func second[A, B any](_ A, b B) B { return b }

// TestReopenThatIsCutOff ends a reopening after it is in the record and before
// anything is done: it can be done again.
func TestReopenThatIsCutOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redUntilMended())
	w.ends(machine.BlockedChecks, machine.CauseRed)
	before, files := w.record(), w.workspace()
	mend(w)
	lock := filepath.Join(w.store(), "refs", "interlock", w.id, "spec.lock")
	require.NoError(t, os.WriteFile(lock, nil, 0o644))
	ended := make(chan ran, 1)
	go func() { ended <- second(w.reopen()) }()
	eventually(t, "the reopening is in the record", func() bool { return len(w.record()) > len(before) })
	require.Zero(t, interlock(t, "cancel", w.id).code)
	require.Equal(t, 21, (<-ended).code)
	require.Len(t, w.record(), len(before)+1)
	require.Equal(t, files, w.workspace(), "nothing was taken back")

	require.NoError(t, os.Remove(lock))
	r, how := w.reopen()
	require.Equal(t, machine.Delivered, r.Ending, r.Why+how.stderr)
	require.NoFileExists(t, filepath.Join(w.out, "lost"))
	w.delivered(w.remote, map[string]string{"hello.txt": hello})
	w.unharmed()
}

// TestReopenIsKilled kills the process that reopens a slice, which is its
// worker and the one that keeps the server, as soon as its record has changed.
func TestReopenIsKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redUntilMended())
	home := filepath.Join(w.dir, "home")
	args := func(a ...string) []string { return append(a, "--home", home, "-o", "json") }
	how := runIn(t, w.dir, args("run", w.file)...)
	require.Equal(t, 4, how.code, how.stderr)
	stores, err := filepath.Glob(filepath.Join(home, "stores", "*"+w.id+"*", "interlock-store"))
	require.NoError(t, err)
	require.Len(t, stores, 1)
	store := filepath.Dir(stores[0])
	before := w.recordIn(store)
	mend(w)
	reopening := exec.Command(shared.program, args("reopen", w.id, "--reason", "mended")...)
	reopening.Env = shared.env
	require.NoError(t, reopening.Start())
	eventually(t, "the reopening is in the record", func() bool { return len(w.recordIn(store)) > len(before) })
	require.NoError(t, reopening.Process.Kill())
	_ = reopening.Wait()
	how = runIn(t, w.dir, args("wait", w.id)...)
	require.Zero(t, how.code, how.stdout+how.stderr)
	var r slice.Result
	require.NoError(t, json.Unmarshal([]byte(how.stdout), &r))
	require.Equal(t, machine.Delivered, r.Ending)
	how = runIn(t, w.dir, "ledger", w.id, "--verify", "--home", home)
	require.Zero(t, how.code, how.stdout+how.stderr)
	folded, err := ledger.Fold(w.recordIn(store))
	require.NoError(t, err)
	require.Equal(t, 2, folded.Runs)
	w.delivered(w.remote, map[string]string{"hello.txt": hello})
}
