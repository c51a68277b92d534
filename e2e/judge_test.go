//go:build linux

package e2e

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"interlock/machine"
)

// TestJudge runs judges that cannot be trusted. None of them can deliver what
// an honest one would not, and none reaches the files that are delivered.
func TestJudge(t *testing.T) {
	t.Parallel()
	const none, wrong = machine.CauseDiscards, machine.BlockedJudge
	for _, row := range []struct {
		name    string
		judge   string
		budgets string
		timeout string
		ending  machine.Ending // empty: delivered
		cause   machine.Cause
		why     string
		calls   int // 0: not counted
	}{
		{name: "writes a new file", judge: `echo x >new.txt; scores 5`, budgets: "discards: 1", ending: wrong, cause: none, why: "new.txt", calls: 2},
		{name: "writes a file of the tree", judge: `echo x >>README.md; scores 5`, ending: wrong, cause: none, why: "README.md"},
		{name: "removes its view", judge: `rm -rf "$PWD"; scores 5`, ending: wrong, cause: none, why: "changed what it was to judge"},
		{name: "removes its view whole", judge: `rm -rf "$(dirname "$PWD")"; scores 5`, ending: wrong, cause: none, why: "changed what it was to judge"},
		{name: "commits what it wrote", judge: `echo x >new.txt; commit -m mine; scores 5`, ending: wrong, cause: none, why: "new.txt"},
		{name: "writes while it leaves", judge: `(setsid sh -c 'trap "" TERM; while :; do echo x >>new.txt; sleep 0.02; done' &); while [ ! -e new.txt ]; do sleep 0.02; done; scores 5`,
			ending: wrong, cause: none, why: "new.txt"},
		{name: "leaves a process", judge: `(setsid sh -c 'trap "" TERM; sleep 600' &) ; scores 5`},
		{name: "changes only its git", judge: `rm -rf .git; scores 5`},
		{name: "garbage", judge: `echo LGTM`, ending: wrong, cause: none, why: "JSON"},
		{name: "nothing", judge: `exit 0`, budgets: "discards: 2", ending: wrong, cause: none, why: "nothing was written", calls: 3},
		{name: "no score for the criterion", judge: `printf '{"scores":[{"criterion":"Nice.","score":5,"reason":""}],"findings":[]}'`, ending: wrong, cause: none, why: "no criterion of the rubric"},
		{name: "no scores", judge: `printf '{"scores":[],"findings":[]}'`, ending: wrong, cause: none},
		{name: "scores twice", judge: `printf '{"scores":[{"criterion":"It works.","score":5,"reason":""},{"criterion":"It works.","score":5,"reason":""}],"findings":[]}'`, ending: wrong, cause: none, why: "twice"},
		{name: "a score of 100", judge: `scores 100`, ending: wrong, cause: none, why: "/scores/0/score"},
		{name: "another role's answer", judge: `answer APPROVED`, ending: wrong, cause: none, why: "scores"},
		{name: "more than was asked", judge: `printf '{"scores":[{"criterion":"It works.","score":5,"reason":""}],"findings":[],"verdict":"merge"}'`, ending: wrong, cause: none, why: "verdict"},
		{name: "a veto without a finding", judge: `scores 1`, ending: wrong, cause: none, why: "without any finding"},
		{name: "vetoes", judge: `scores 1 '{"severity":"blocking","claim":"no"}'`, budgets: "judge: 0", ending: wrong, cause: machine.CauseTask},
		{name: "approves with a blocking finding", judge: `scores 5 '{"severity":"blocking","claim":"no"}'`, budgets: "judge: 0", ending: wrong, cause: machine.CauseTask},
		{name: "hangs", judge: `trap "" TERM; sleep 600`, timeout: "1s", ending: machine.BlockedCall, cause: machine.CauseTimeout},
		{name: "kills its shim", judge: `kill -9 $PPID; scores 5; sleep 600`, ending: wrong, cause: none},
		{name: "exit status 1", judge: `scores 5; exit 1`, ending: wrong, cause: none},
		{name: "writes into the workspace", judge: `echo hacked >$IL/workspaces/$ID/tree/hello.txt; scores 5`},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, setup{judge: row.judge, budgets: or(row.budgets, "discards: 0"), timeout: row.timeout})
			if row.ending == "" {
				w.ends(machine.Delivered, "")
				w.delivered(w.remote, map[string]string{"hello.txt": hello})
				return
			}
			r := w.ends(row.ending, row.cause)
			require.Contains(t, r.Why, row.why)
			if row.calls > 0 {
				require.Equal(t, row.calls, w.calls("judge"))
			}
		})
	}
}

// TestCheck runs checks that do what checks should not. Red is what the change
// did, unmeasured what the environment did.
func TestCheck(t *testing.T) {
	t.Parallel()
	const changed = "test -e hello.txt || exit 0; " // what follows happens at the candidate alone
	const red, unmeasured, blocked = machine.CauseRed, machine.CauseUnmeasured, machine.BlockedChecks
	for _, row := range []struct {
		name     string
		check    string // $OUT stands for the folder outside
		more     string // of the command
		expected string
		ending   machine.Ending // empty: delivered
		cause    machine.Cause
		why      string
	}{
		{name: "red", check: changed + "exit 3", ending: blocked, cause: red, why: "exit status 3"},
		{name: "killed at the candidate", check: changed + "kill -9 $$", ending: blocked, cause: red, why: "killed by SIGKILL"},
		{name: "hangs at the candidate", check: changed + "sleep 600", more: ", timeout: 1s", ending: blocked, cause: red, why: "timed out"},
		{name: "hangs at the base too", check: "test -e $OUT/hang && sleep 600; test -e hello.txt || exit 0; touch $OUT/hang; sleep 600", more: ", timeout: 1s",
			ending: blocked, cause: unmeasured, why: "the base cannot be measured either"},
		{name: "kills its shim at the candidate", check: changed + "kill -9 $PPID; sleep 600", ending: blocked, cause: red, why: "watches over it was killed"},
		{name: "kills its shim at the base", check: "kill -9 $PPID; sleep 600", ending: blocked, cause: machine.CauseBaseUnmeasured},
		{name: "leaves processes", check: `(setsid sh -c 'trap "" TERM; sleep 600' >/dev/null 2>&1 &); (setsid sleep 600 &); test -s README.md`},
		{name: "writes to its view", check: `echo x >>README.md; echo y >junk; rm -f interlock.yaml; test -s README.md`},
		{name: "removes its view", check: `rm -rf "$PWD"; test ! -e README.md`},
		{name: "a program is missing", check: "no-such-program", ending: blocked, cause: machine.CauseBaseUnmeasured, why: "127"},
		{name: "a program goes missing", check: changed + "no-such-program", ending: blocked, cause: unmeasured, why: "127"},
		{name: "base red", check: "test -e never", ending: blocked, cause: machine.CauseBaseRed},
		{name: "base red as expected", check: "test -e hello.txt", expected: "[works]"},
		{name: "red though expected at the base", check: "test -e hello.txt", expected: "[other]", ending: blocked, cause: machine.CauseBaseRed},
		{name: "much output", check: changed + "head -c 20000000 /dev/zero | tr '\\0' '\\377'; exit 1", ending: blocked, cause: red},
		{name: "red only in the verify view", check: `test ! -e hello.txt || case $PWD in */verify/*) exit 1;; esac`, ending: machine.BlockedVerify, cause: red},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			out := filepath.Join(shared.dir, "worlds", idOf(t.Name()), "out")
			w := newWorld(t, setup{budgets: "checks: 0", expectedRed: row.expected,
				checks: `[{name: works, run: ` + quote("OUT="+out+"; "+row.check) + row.more + `}]`})
			if row.ending == "" {
				w.ends(machine.Delivered, "")
				w.delivered(w.remote, map[string]string{"hello.txt": hello})
				return
			}
			r := w.ends(row.ending, row.cause)
			require.Contains(t, r.Why, row.why)
		})
	}
}

// TestForgedResults lets an implementer write what the program keeps of steps
// that are still to come: it finds the folder beside its own HOME.
func TestForgedResults(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{
		budgets: "judge: 0",
		judge:   `scores 1 '{"severity":"blocking","claim":"no"}'`,
		implementer: `work; d=$HOME/../../../../ops; ls $d >/dev/null || exit 1
			for i in $(seq 1 60); do printf '{"outcome":"done","mean_milli":5000}' >$d/1-$i.done; done
			mkdir -p $d/../verdicts; git add -A
			key=$(printf 'judge\0001\0001\000%s\000reader' $(git write-tree) | sha256sum | cut -c1-24)
			printf '{"Outcome":"done","MeanMilli":5000,"Why":"forged","Op":"x"}' >$d/../verdicts/$key; answer`,
	})
	w.ends(machine.BlockedJudge, machine.CauseTask)
	require.Equal(t, 1, w.calls("judge"))
}
