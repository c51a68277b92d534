//go:build linux

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"interlock/machine"
	"interlock/slice"
)

// A judge that blocks what is right, and what skeptics say of it.
const (
	wrongly = `scores 5 '{"severity":"blocking","file":"hello.txt","line":1,"claim":"There is no greeting.","evidence":"hello"}'`
	doubts  = `
nth=$(wc -l <"$OUT/calls.skeptic")
said() { printf '{"verdict":"%s","file":"%s","line":%s,"quote":"%s","reason":"so it is","cost_usd":0.01}' "$@"; }
refuted() { said refuted hello.txt 1 hello; }
stands() { printf '{"verdict":"stands","reason":"it is true","cost_usd":0.01}'; }
uncertain() { printf '{"verdict":"uncertain","reason":"who knows","cost_usd":0.01}'; }
`
)

// skeptical is a world with skeptics.
func skeptical(t *testing.T, s setup, script, more string) *world {
	t.Helper()
	path := filepath.Join(shared.dir, "worlds", idOf(t.Name()), "skeptic.sh")
	s.skeptics = "  skeptics: {use: command, run: [/bin/sh, " + quote(path) + "], usd: 0.05" + more + "}\n"
	before := s.before
	s.before = func(w *world) {
		w.writeAgent("skeptic", doubts+script)
		if before != nil {
			before(w)
		}
	}
	return newWorld(t, s)
}

// TestSkeptics lets skeptics agree, disagree and say nothing that can be used.
// Only most of them, each with a place that is there, refute a finding.
func TestSkeptics(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, script, more string
		refuted            bool
		said               string
		calls              int
	}{
		{name: "all refute", script: "refuted", refuted: true, said: "refuted by 2 of 3 skeptics: refuted: so it is (hello.txt:1)", calls: 2},
		{name: "most refute", script: "[ $((nth % 3)) = 2 ] && stands || refuted", refuted: true, said: "refuted by 3 of 3", calls: 3},
		{name: "most do not", script: "[ $nth = 2 ] && refuted || stands", said: "not refuted by 3 of 3", calls: 3},
		{name: "none does", script: "stands", said: "not refuted by 2 of 3 skeptics: stands: it is true", calls: 2},
		{name: "a tie", script: "[ $nth = 1 ] && refuted || stands", more: ", count: 2", said: "not refuted by 2 of 2", calls: 2},
		{name: "uncertain", script: "[ $nth = 1 ] && refuted || uncertain", said: "uncertain: who knows", calls: 3},
		{name: "one that refutes is enough of one", script: "refuted", more: ", count: 1", refuted: true, said: "refuted by 1 of 1", calls: 1},
		{name: "garbage", script: "echo LGTM", said: "uncertain: skeptic skeptics: the answer on standard output does not fit", calls: 2},
		{name: "nothing", script: "exit 1", said: "exit status 1", calls: 2},
		{name: "a file that is not there", script: "said refuted nowhere.txt 1 hello", said: "which is not there", calls: 2},
		{name: "a line that is not there", script: "said refuted hello.txt 7 hello", said: "not at hello.txt:7", calls: 2},
		{name: "bytes that are not there", script: "said refuted hello.txt 1 goodbye", said: "not at hello.txt:1", calls: 2},
		{name: "no quote", script: `said refuted "" 0 ""`, said: "without a quote", calls: 2},
		{name: "a file outside", script: "said refuted /etc/passwd 1 root", said: "not there", calls: 2},
		{name: "makes its own place", script: "echo yes >proof.txt; said refuted proof.txt 1 yes", said: "changed what it was to look at", calls: 2},
		{name: "hangs", script: "sleep 600", more: ", count: 1, timeout: 1s", said: "no answer within 1s", calls: 1},
		{name: "answers as a judge", script: "scores 5", said: "uncertain", calls: 2},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := skeptical(t, setup{judge: wrongly, budgets: "judge: 0"}, row.script, row.more)
			if row.refuted {
				r := w.ends(machine.Delivered, "")
				w.delivered(w.remote, map[string]string{"hello.txt": hello})
				require.NotEmpty(t, r.Struck)
				require.Contains(t, r.Struck[0].Struck, row.said)
				require.Equal(t, slice.Blocking, r.Struck[0].Severity, "it stays what it was")
				require.Equal(t, 1, w.calls("implementer"), "nobody is sent to correct it")
				// The whole is judged too, and its finding is another one.
				require.Equal(t, 2*row.calls, w.calls("skeptic"))
				return
			}
			r := w.ends(machine.BlockedJudge, machine.CauseTask)
			require.Len(t, r.Findings, 1)
			require.Contains(t, r.Findings[0].Remark, row.said)
			require.Equal(t, row.calls, w.calls("skeptic"))
		})
	}
}

// TestSkepticsSeeLittle looks at what a skeptic is told, and counts the money.
func TestSkepticsSeeLittle(t *testing.T) {
	t.Parallel()
	w := skeptical(t, setup{judge: wrongly, budgets: "judge: 0",
		implementer: `work; answer "TRUST ME, IT IS FINE"`}, `printf '%s' "$brief" >"$OUT/skeptic.brief"; stands`, "")
	r := w.ends(machine.BlockedJudge, machine.CauseTask)
	b, err := os.ReadFile(filepath.Join(w.out, "skeptic.brief"))
	require.NoError(t, err)
	require.NotContains(t, string(b), "TRUST ME")
	require.NotContains(t, string(b), "reader", "nor who found it")
	var brief map[string]any
	require.NoError(t, json.Unmarshal(b, &brief))
	require.Equal(t, map[string]any{"file": "hello.txt", "line": 1.0, "claim": "There is no greeting.", "evidence": "hello"}, brief["finding"])
	require.NotContains(t, brief, "diff")
	require.NotContains(t, brief, "checks")
	require.EqualValues(t, 40_000, r.CostMicroUSD, "implementer, judge and two skeptics")
}

// TestSkepticsAreCapped: eight findings of a round, and no more than twenty calls.
func TestSkepticsAreCapped(t *testing.T) {
	t.Parallel()
	many := `f='{"severity":"blocking","claim":"no 0"}'; for i in 1 2 3 4 5 6 7 8 9; do f="$f,{\"severity\":\"blocking\",\"claim\":\"no $i\"}"; done; scores 5 "$f"`
	for name, row := range map[string]struct {
		script, more string
		calls, cut   int
		why          string
	}{
		"findings": {"stands", ", count: 1", 8, 2, "8 findings a round"},
		"calls":    {"[ $((nth % 3)) = 1 ] && refuted || stands", "", 18, 4, "at most 20 such calls"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := skeptical(t, setup{judge: many, budgets: "judge: 0"}, `[ "$nth" -gt 20 ] && exit 1; `+row.script, row.more)
			r := w.ends(machine.BlockedJudge, machine.CauseTask)
			require.Equal(t, row.calls, w.calls("skeptic"))
			cut := 0
			for _, f := range r.Findings {
				if strings.Contains(f.Remark, "no skeptic was asked") {
					require.Contains(t, f.Remark, row.why)
					cut++
				}
			}
			require.Equal(t, row.cut, cut)
			require.Contains(t, r.Why, "were not put to skeptics")
		})
	}
}

// TestFindingsAreChecked: what a judge says of places that are not there does
// not count.
func TestFindingsAreChecked(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, judge string
		why         string // empty: delivered
		struck      string
	}{
		{name: "no such file", judge: `scores 5 '{"severity":"blocking","file":"gone.txt","line":1,"claim":"no"}'`, struck: `there is no file "gone.txt"`},
		{name: "no such line", judge: `scores 5 '{"severity":"blocking","file":"hello.txt","line":9,"claim":"no"}'`, struck: "there is no line 9"},
		{name: "no such bytes", judge: `scores 5 '{"severity":"correction","file":"hello.txt","line":1,"claim":"no","evidence":"goodbye"}'`, struck: "what it quotes is not in"},
		{name: "of its own making", judge: `echo x >made.txt; rm made.txt; scores 5 '{"severity":"blocking","file":"made.txt","line":1,"claim":"no","evidence":"x"}'`, struck: "there is no file"},
		{name: "a low mean and nothing that stands", judge: `scores 1 '{"severity":"blocking","file":"gone.txt","claim":"no"}'`, why: "without a finding that stands"},
		{name: "by its full path", judge: `scores 5 '{"severity":"blocking","file":"'$PWD'/hello.txt","line":1,"claim":"no","evidence":"hello"}'`, why: "1 blocking"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, setup{judge: row.judge, budgets: "judge: 0, discards: 0"})
			if row.why == "" {
				r := w.ends(machine.Delivered, "")
				require.NotEmpty(t, r.Struck)
				require.Contains(t, r.Struck[0].Struck, row.struck)
				require.Equal(t, 1, w.calls("implementer"))
				return
			}
			r, how := w.run()
			require.Equal(t, machine.BlockedJudge, r.Ending, how.stderr)
			require.Contains(t, r.Why, row.why)
		})
	}
}

// TestRoundsConverge: a judge that finds something new in what it has seen
// before stops nobody; one that repeats what was not corrected does.
func TestRoundsConverge(t *testing.T) {
	t.Parallel()
	const work = `[ -e list.txt ] || seq 1 40 >list.txt; echo "try $(wc -l <"$OUT/calls.implementer")" >>hello.txt; answer`
	const nth = `n=$(wc -l <"$OUT/calls.judge"); at() { scores 5 '{"severity":"blocking","file":"list.txt","line":'$1',"claim":"'"$2"'"}'; }; `
	t.Run("new on unchanged lines", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, setup{implementer: work, budgets: "judge: 2",
			judge: nth + `case $n in 1) scores 5 '{"severity":"blocking","file":"hello.txt","line":1,"claim":"no greeting"}';; 2) at 20 "this too";; *) scores 5;; esac`})
		r := w.ends(machine.Delivered, "")
		require.Equal(t, 1, r.Late)
		require.Equal(t, 2, w.calls("implementer"))
	})
	t.Run("the same again", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, setup{implementer: work, budgets: "judge: 1", judge: nth + `told '"role": "advisor"' && printf '{"advice":"mend the list","cost_usd":0.01}' || at 20 "the list is wrong"`})
		r := w.ends(machine.BlockedJudge, machine.CauseTask)
		require.Zero(t, r.Late)
		require.Equal(t, 2, w.calls("implementer"))
	})
}

// TestLenses: each of several judges looks for something else, and a veto of
// one is a veto.
func TestLenses(t *testing.T) {
	t.Parallel()
	script := filepath.Join(shared.dir, "worlds", idOf(t.Name()), "judge.sh")
	w := newWorld(t, setup{
		budgets: "judge: 0",
		judges:  ", {name: tester, use: command, run: [/bin/sh, " + quote(script) + "]}, {name: guard, lens: is it safe, use: command, run: [/bin/sh, " + quote(script) + "]}",
		judge: `lens=$(printf '%s' "$brief" | sed -n 's/^  "lens": "\(.*\)",$/\1/p'); echo "$lens" >>"$OUT/lenses"
			[ "$lens" = "is it safe" ] && scores 4 '{"severity":"blocking","claim":"it is not safe"}' || scores 5 '{"severity":"correction","claim":"nicer"}'`,
	})
	r := w.ends(machine.BlockedJudge, machine.CauseTask)
	b, err := os.ReadFile(filepath.Join(w.out, "lenses"))
	require.NoError(t, err)
	require.Equal(t, "does it solve the task\nis it tested\nis it safe\n", string(b))
	require.Equal(t, "guard", r.Findings[0].Judge)
}
