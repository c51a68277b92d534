package activities

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"interlock/activities/agent"
	"interlock/activities/workspace"
	"interlock/ledger"
	"interlock/machine"
	"interlock/slice"
)

const (
	sliceID = "merge-1"
	answer  = `
echo '{"status": "done", "cost_usd": 0.25, "session": "s-1"}'`
)

// shell runs a script as a user would.
func shell(t testing.TB, dir, script string) string {
	t.Helper()
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "LC_ALL=C.UTF-8", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=u", "GIT_AUTHOR_EMAIL=u@example.com", "GIT_COMMITTER_NAME=u", "GIT_COMMITTER_EMAIL=u@example.com",
		"GIT_AUTHOR_DATE=2024-01-01T00:00:00Z", "GIT_COMMITTER_DATE=2024-01-01T00:00:00Z",
	}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s\n%s", script, out)
	return strings.TrimSuffix(string(out), "\n")
}

// site is a repository whose base has moved under a slice.
type site struct {
	t          testing.TB
	repo       string
	activities *Activities
	store      *workspace.Store
	in         slice.ReconcileIn
	tip        string
	calls      string // a file that has a byte for every call of the agent, next to the repository
}

// newSite makes a repository from scripts: what both begin from, what the
// slice did, and what the base did.
func newSite(t testing.TB, base, ours, theirs, reconciler string) *site {
	t.Helper()
	top := t.TempDir()
	s := &site{t: t, repo: filepath.Join(top, "repo"), calls: filepath.Join(top, "calls")}
	require.NoError(t, os.Mkdir(s.repo, 0o755))
	commit := "\ngit add -A; git commit -q --allow-empty -m work\n"
	shell(t, s.repo, "git init -q -b main .\necho kept > other.txt\n"+base+commit+
		"git checkout -q -b work\n"+ours+commit+"git checkout -q main\n"+theirs+commit)
	s.tip = shell(t, s.repo, "git rev-parse main")
	ctx := t.Context()
	var err error
	s.activities, err = New(Options{Home: filepath.Join(top, "home"), Host: slice.Host{ID: "h"}, Agents: 1})
	require.NoError(t, err)
	s.store, err = workspace.Open(ctx, s.activities.home, s.repo)
	require.NoError(t, err)
	good, err := s.store.Tip(ctx, sliceID, "work")
	require.NoError(t, err)
	require.NoError(t, s.store.SetRef(ctx, sliceID, refGood, good.Commit, ""))
	kept := terms{Spec: slice.Spec{ID: sliceID, Title: "Merge", Tasks: []slice.Task{{ID: "t1", Criterion: "c"}}}}
	if reconciler != "" {
		usd := slice.USD(2_000_000)
		kept.Policy.Sandbox = slice.SandboxOff // it counts its calls outside
		kept.Policy.Agents.Reconciler = &slice.Agent{Name: "reconciler", Use: slice.AdapterCommand, USD: &usd, Timeout: slice.Duration(time.Minute),
			Run: slice.Argv{"/bin/sh", "-c", "cat > \"$HOME/brief.json\"; printf x >> " + s.calls + "\n" + reconciler}}
	}
	b, err := json.Marshal(kept)
	require.NoError(t, err)
	require.NoError(t, s.store.SetBlob(ctx, sliceID, specBlob, b))
	s.in = slice.ReconcileIn{BaseName: "main", Ledger: "abc123", Attempt: 1, Header: slice.Header{
		Slice: sliceID, Run: 1, Turn: machine.Turn{Step: machine.Reconcile}, Op: sliceID + "/1/9", Repo: s.repo, Key: s.store.Key(),
		Plan: ledger.Hash(string(b)), Base: shell(t, s.repo, "git merge-base main work"), Good: good.Commit, At: 1_700_000_000_000}}
	return s
}

func (s *site) run() slice.ReconcileOut {
	s.t.Helper()
	out, err := s.try()
	require.NoError(s.t, err)
	return out
}

func (s *site) try() (slice.ReconcileOut, error) {
	s.t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.SetTestTimeout(time.Minute)
	register(env, slice.ActReconcile, s.activities.reconcile)
	var out slice.ReconcileOut
	v, err := env.ExecuteActivity(string(slice.ActReconcile), s.in)
	if err == nil {
		err = v.Get(&out)
	}
	return out, err
}

// settled is what a cancelled slice is told that the step has cost.
func (s *site) settled() slice.Ended {
	s.t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	register(env, slice.ActSettle, s.activities.settle)
	v, err := env.ExecuteActivity(string(slice.ActSettle), slice.SettleIn{Header: s.in.Header})
	require.NoError(s.t, err)
	var out slice.Ended
	require.NoError(s.t, v.Get(&out))
	return out
}

func (s *site) called() int {
	b, err := os.ReadFile(s.calls)
	if !os.IsNotExist(err) {
		require.NoError(s.t, err)
	}
	return len(b)
}

func (s *site) brief() agent.ReconcileBrief {
	s.t.Helper()
	b, err := os.ReadFile(s.activities.folder(s.in.Header, "agents", "reconciler", "reconciler", "home", "brief.json"))
	require.NoError(s.t, err)
	var brief agent.ReconcileBrief
	require.NoError(s.t, json.Unmarshal(b, &brief))
	return brief
}

// git runs git in the store.
func (s *site) git(args string) string {
	s.t.Helper()
	return shell(s.t, s.store.Dir(), "git "+args)
}

const (
	one       = "printf 'a\\nb\\nc\\n' > f.txt"
	oneOurs   = "printf 'a\\nours\\nc\\n' > f.txt"
	oneTheirs = "printf 'a\\ntheirs\\nc\\n' > f.txt; echo new > n.txt"
	both      = "printf 'a\\ntheirs\\nours\\nc\\n' > f.txt"
	pair      = one + "; printf 'x\\n' > g.txt"
)

func TestReconcileTakesWhatIsResolved(t *testing.T) {
	s := newSite(t, one, oneOurs, oneTheirs, `test -n "$(grep '^<<<<<<< ' f.txt)"; git show "$(git rev-parse HEAD):f.txt" > /dev/null
`+both+answer)
	out := s.run()
	require.Equal(t, machine.Done, out.Outcome, out.Why)
	require.Equal(t, s.tip, out.Tip)
	require.Equal(t, "s-1", out.Session)
	require.EqualValues(t, 250_000, out.CostMicroUSD)
	require.NotEmpty(t, out.Evidence)
	require.Contains(t, out.Why, "conflicts in f.txt were resolved")
	require.Equal(t, "a\ntheirs\nours\nc", s.git("show "+out.Commit+":f.txt"))
	require.Equal(t, "new", s.git("show "+out.Commit+":n.txt"))
	require.Equal(t, s.in.Good+" "+s.tip, s.git("show -s --format=%P "+out.Commit))
	require.Equal(t, "Merge main into interlock/merge-1\n\nInterlock-Slice: merge-1\nInterlock-Ledger: abc123\n", s.git("show -s --format=%B "+out.Commit))
	brief := s.brief()
	require.Equal(t, []string{"f.txt"}, brief.Conflicts)
	require.Equal(t, []string{"CONFLICT (content): Merge conflict in f.txt"}, brief.Messages)
	require.Equal(t, []string{s.in.Base, s.in.Good, s.tip}, []string{brief.Base, brief.Commit, brief.Tip})
	require.Equal(t, 1, brief.Attempt)
	require.Equal(t, "t1", brief.Tasks[0].ID)

	// A second try finds the first, even if the base has moved on meanwhile.
	shell(t, s.repo, "echo more > more.txt; git add -A; git commit -q -m more")
	again := s.run()
	require.Equal(t, out, again)
	require.Equal(t, 1, s.called())
	require.Equal(t, out.Commit, s.git("rev-parse "+slice.Ref(sliceID, "good")))
}

func TestReconcileWithoutConflictsAsksNobody(t *testing.T) {
	s := newSite(t, pair, oneOurs, "echo y > g.txt", both+answer)
	out := s.run()
	require.Equal(t, machine.Done, out.Outcome, out.Why)
	require.Zero(t, s.called())
	shell(t, s.repo, "echo more > more.txt; git add -A; git commit -q -m more")
	require.Equal(t, out, s.run())
}

func TestReconcileWithABaseThatIsGone(t *testing.T) {
	s := newSite(t, one, oneOurs, oneTheirs, both+answer)
	shell(t, s.repo, "git checkout -q work; git branch -q -D main")
	out := s.run()
	require.Equal(t, machine.Unmeasured, out.Outcome, out.Why)
	require.Contains(t, out.Why, "main")
	require.Zero(t, s.called())

	s = newSite(t, one, oneOurs, oneTheirs, both+answer)
	shell(t, s.repo, "git checkout -q --orphan fresh; git commit -q -m fresh; git branch -f main")
	out = s.run()
	require.Equal(t, machine.Unmeasured, out.Outcome, out.Why)
	require.Contains(t, out.Why, "no common ancestor")
	require.Zero(t, s.called())
}

func TestReconcileWithoutReconciler(t *testing.T) {
	s := newSite(t, one, oneOurs, oneTheirs, "")
	out := s.run()
	require.Equal(t, machine.Failed, out.Outcome)
	require.Contains(t, out.Why, "both sides changed f.txt")
	require.Equal(t, []string{"f.txt"}, out.Conflicts)
	require.Empty(t, out.Commit)
	require.Equal(t, s.in.Good, s.git("rev-parse "+slice.Ref(sliceID, "good")))
}

func TestReconcileRefusesWhatIsNotResolved(t *testing.T) {
	for _, c := range []struct {
		name, base, ours, theirs string
		agent                    string
		outcome                  machine.Outcome
		why                      string
	}{
		{"nothing changed", one, oneOurs, oneTheirs, answer, machine.Failed, "changed nothing: conflicts are left in \"f.txt\""},
		{"markers are left", one, oneOurs, oneTheirs, `echo more >> f.txt` + answer, machine.Failed, `"f.txt": conflict markers are left`},
		{"one marker is left", one, oneOurs, oneTheirs, `printf 'a\nours\n=======\ntheirs\nc\n' > f.txt` + answer, machine.Failed, `"f.txt": conflict markers are left`},
		{"ours only", one, oneOurs, oneTheirs, oneOurs + answer, machine.Failed, `"f.txt": "theirs" is gone, which the base added`},
		{"theirs only", one, oneOurs, oneTheirs, `printf 'a\ntheirs\nc\n' > f.txt` + answer, machine.Failed, `"f.txt": "ours" is gone, which the slice added`},
		{"another file changed", one, oneOurs, oneTheirs, both + "; echo x >> other.txt" + answer, machine.Discarded, `not in conflict: "other.txt"`},
		{"another file added", one, oneOurs, oneTheirs, both + "; mkdir d; echo x > d/added.txt" + answer, machine.Discarded, `not in conflict: "d/added.txt"`},
		{"another file deleted", one, oneOurs, oneTheirs, both + "; rm other.txt n.txt" + answer, machine.Discarded, `not in conflict: "n.txt", "other.txt"`},
		{"another file made executable", one, oneOurs, oneTheirs, both + "; chmod +x other.txt" + answer, machine.Discarded, `not in conflict: "other.txt"`},
		{"the file deleted", one, oneOurs, oneTheirs, "rm f.txt" + answer, machine.Failed, `"f.txt" was deleted, but both sides have it`},
		{"a link", one, oneOurs, oneTheirs, "rm f.txt; ln -s other.txt f.txt" + answer, machine.Failed, `"f.txt": it is no regular file any more`},
		{"a link outside", one, oneOurs, oneTheirs, both + "; cp f.txt \"$HOME/f\"; rm f.txt; ln -s \"$HOME/f\" f.txt" + answer, machine.Failed, `"f.txt": it is no regular file any more`},
		{"a FIFO", one, oneOurs, oneTheirs, "rm f.txt; mkfifo f.txt" + answer, machine.Discarded, "f.txt"},
		{"a folder", one, oneOurs, oneTheirs, "rm f.txt; mkdir f.txt; echo x > f.txt/x" + answer, machine.Discarded, `not in conflict: "f.txt/x"`},
		{"its folder is a link", "mkdir d; echo a > d/f", "echo o > d/f", "echo t > d/f", "mkdir \"$HOME/d\"; printf 'o\\nt\\n' > \"$HOME/d/f\"; rm -r d; ln -s \"$HOME/d\" d" + answer, machine.Discarded, `"d"`},
		{"binary now", one, oneOurs, oneTheirs, both + "; printf '\\0' >> f.txt" + answer, machine.Failed, `"f.txt" is binary now`},
		{"too large", one, oneOurs, oneTheirs, both + "; head -c 5000000 /dev/zero | tr '\\0' x >> f.txt" + answer, machine.Failed, `"f.txt": it has more than`},
		{"only one of two", pair, oneOurs + "; echo o > g.txt", oneTheirs + "; echo t > g.txt", both + answer, machine.Failed, `"g.txt": conflict markers are left`},
		{"committed and reset", one, oneOurs, oneTheirs, both + "; git add -A; git commit -q -m x; git checkout -q HEAD~1 -- f.txt" + answer, machine.Failed, `"theirs" is gone`},
		{"garbage", one, oneOurs, oneTheirs, both + "; echo done", machine.Discarded, "does not fit"},
		{"an unknown key", one, oneOurs, oneTheirs, both + `; echo '{"status": "done", "resolved": true}'`, machine.Discarded, "resolved"},
		{"exit status 3", one, oneOurs, oneTheirs, both + "; exit 3", machine.Discarded, "exit status 3"},
		{"the folder removed", one, oneOurs, oneTheirs, `rm -rf "$(dirname "$PWD")"` + answer, machine.Discarded, "removed the files"},
		{"no program", one, oneOurs, oneTheirs, "no-such-program-here", machine.Unanswered, "cannot be run"},
		{"both add a file: one dropped", "true", "echo o > f", "echo t > f", "echo t > f" + answer, machine.Failed, `"o" is gone, which the slice added`},
		{"modified and deleted: left as it is", one, oneOurs, "git rm -q f.txt", answer, machine.Failed, "changed nothing"},
		{"modified and deleted: gutted", one, oneOurs, "git rm -q f.txt", "echo a > f.txt" + answer, machine.Failed, `"ours" is gone, which the slice added`},
		{"renamed twice: both removed", one, "git mv f.txt o.txt", "git mv f.txt t.txt", "rm o.txt t.txt" + answer, machine.Failed, `"o.txt", "t.txt" were deleted`},
		{"renamed twice and changed: one side dropped", "seq 1 20 > f.txt", "sed s/^3$/3o/ f.txt > o.txt; git rm -q f.txt", "sed s/^15$/15t/ f.txt > t.txt; git rm -q f.txt", "rm t.txt; seq 1 20 | sed s/^3$/3o/ > o.txt" + answer, machine.Failed, `"15t" is gone, which the base added`},
		{"a marker in a document on merging", "printf '%s\\nx\\n' '=======' > f.txt", "printf '%s\\no\\n' '=======' > f.txt", "printf '%s\\nt\\n' '=======' > f.txt", "printf '%s\\no\\nt\\n%s\\n' '=======' '=======' > f.txt" + answer, machine.Failed, "conflict markers are left"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t, c.base, c.ours, c.theirs, c.agent)
			out := s.run()
			require.Equal(t, c.outcome, out.Outcome, out.Why)
			require.Contains(t, out.Why, c.why)
			require.Empty(t, out.Commit)
			require.NotEmpty(t, out.Conflicts)
			require.Positive(t, out.CostMicroUSD)
			require.NotEmpty(t, out.Evidence)
			require.Equal(t, 1, s.called())
			require.Equal(t, s.in.Good, s.git("rev-parse "+slice.Ref(sliceID, "good")))
			require.Equal(t, s.tip, shell(t, s.repo, "git rev-parse main"))
		})
	}
}

func TestReconcileResolvesEveryKindThatHasLines(t *testing.T) {
	for _, c := range []struct {
		name, base, ours, theirs string
		agent                    string
		want                     string // what git says of the commit against the tip
	}{
		{"both add a file", "true", "echo o > f", "echo t > f", "printf 'o\\nt\\n' > f", "M f"},
		{"modified and deleted: kept", one, oneOurs, "git rm -q f.txt", oneOurs, "A f.txt"},
		{"modified and deleted: deleted", one, oneOurs, "git rm -q f.txt", "grep -q '^>>>>>>> ' f.txt && rm f.txt", ""},
		{"deleted and modified: kept", one, "git rm -q f.txt", oneTheirs, `printf 'a\ntheirs\nc\n' > f.txt`, ""},
		{"renamed twice: one of the names", one, "git mv f.txt o.txt", "git mv f.txt t.txt", "rm o.txt; sed -i '/^[<=>]\\{7\\}/d' t.txt", ""},
		{"renamed twice: both names", one, "git mv f.txt o.txt", "git mv f.txt t.txt", "sed -i '/^[<=>]\\{7\\}/d' o.txt t.txt", "A o.txt"},
		{"renamed twice and changed", "seq 1 20 > f.txt", "sed s/^3$/3o/ f.txt > o.txt; git rm -q f.txt", "sed s/^15$/15t/ f.txt > t.txt; git rm -q f.txt",
			"rm t.txt; seq 1 20 | sed 's/^3$/3o/; s/^15$/15t/' > o.txt", "R t.txt o.txt"},
		{"renamed, and changed on both sides", "seq 1 20 > f.txt", "sed -i s/^3$/3o/ f.txt; git mv f.txt o.txt", "sed -i s/^3$/3t/ f.txt",
			"seq 1 20 | sed 's/^3$/3o\\n3t/' > o.txt", "R f.txt o.txt"},
		{"an executable, whatever the agent makes of it", "printf '#!/bin/sh\\na\\n' > f; chmod +x f", "echo o >> f", "echo t >> f",
			"rm f; printf '#!/bin/sh\\na\\no\\nt\\n' > f; test ! -x f", "M f"},
		{"made executable on one side", "printf 'a\\n' > f", "echo o >> f; chmod +x f", "echo t >> f", "printf 'a\\no\\nt\\n' > f; chmod -x f", "M f 100755"},
		{"a document on merging", "printf '%s\\nx\\n' '=======' > f", "printf '%s\\no\\n' '=======' > f", "printf '%s\\nt\\n' '=======' > f", "printf '%s\\no\\nt\\n' '=======' > f", "M f"},
		{"hard names", "true", "echo o > '-f \"\nx'", "echo t > '-f \"\nx'", "printf 'o\\nt\\n' > '-f \"\nx'", "M -f \"\nx"},
		{"ignored files are not looked at", one + "; echo '*.log' > .gitignore", oneOurs, oneTheirs, both + "; echo x > a.log", "M f.txt"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t, c.base, c.ours, c.theirs, "set -e\n"+c.agent+answer)
			out := s.run()
			require.Equal(t, machine.Done, out.Outcome, out.Why)
			changes, err := s.store.Diff(t.Context(), s.tip, out.Commit)
			require.NoError(t, err)
			var got []string
			for _, x := range changes {
				line := x.Status + " " + x.OldPath + " " + x.Path
				if x.OldMode != x.NewMode && x.Status == "M" {
					line += " " + x.NewMode
				}
				got = append(got, strings.ReplaceAll(line, "  ", " "))
			}
			require.Equal(t, c.want, strings.Join(got, ", "))
		})
	}
}

func TestReconcileAsksNobodyForWhatHasNoLines(t *testing.T) {
	for _, c := range []struct{ name, base, ours, theirs, why string }{
		{"binary", "printf 'x\\0' > f", "printf 'o\\0' > f", "printf 't\\0' > f", "it is binary"},
		{"symbolic links", "ln -s a f", "ln -sf o f", "ln -sf t f", "it is a symbolic link on one side"},
		{"a file and a link", "echo a > f", "echo b > f", "rm f; ln -s t f", "it is a symbolic link on one side"},
		{"a file and a folder", "echo a > f", "echo b >> f", "rm f; mkdir f; echo x > f/x", "it is a file on one side and a folder on the other"},
		{"too large", "head -c 5000000 /dev/zero | tr '\\0' x > f", "echo o >> f", "echo t >> f", "it has more than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t, c.base, c.ours, c.theirs, answer)
			out := s.run()
			require.Equal(t, machine.Unmeasured, out.Outcome, out.Why)
			require.Contains(t, out.Why, c.why)
			require.NotEmpty(t, out.Conflicts)
			require.Zero(t, s.called())
			require.Zero(t, out.CostMicroUSD)
		})
	}
}

func TestReconcileRefusesASubmodule(t *testing.T) {
	s := newSite(t, one, oneOurs, oneTheirs+"; git update-index --add --cacheinfo 160000,"+strings.Repeat("1", 40)+",m; mkdir m", both+answer)
	out := s.run()
	require.Equal(t, machine.Unmeasured, out.Outcome, out.Why)
	require.Contains(t, out.Why, "submodule")
	require.Zero(t, s.called())
}

func TestReconcileDecidesModesItself(t *testing.T) {
	s := newSite(t, "true", "echo same > f; chmod +x f", "echo same > f", "")
	out := s.run()
	require.Equal(t, machine.Done, out.Outcome, out.Why)
	require.Equal(t, "100755", strings.Fields(s.git("ls-tree " + out.Commit + " f"))[0])
}

// Two bases of the merge make a third one, with markers of its own.
func TestReconcileAfterMergesBothWays(t *testing.T) {
	s := newSite(t, one, `
printf 'a\no1\nc\n' > f.txt; git commit -q -a -m o1
git checkout -q main; printf 'a\nt1\nc\n' > f.txt; git commit -q -a -m t1
git branch t1; git branch o1 work
git checkout -q work; git merge -q t1 || printf 'a\no1\nt1\nours\nc\n' > f.txt`, `
git merge -q o1 || printf 'a\nt1\no1\ntheirs\nc\n' > f.txt`, `printf 'a\nt1\no1\nt1\nours\ntheirs\nc\n' > f.txt`+answer)
	require.Len(t, strings.Fields(shell(t, s.repo, "git merge-base --all main work")), 2)
	s.in.Base = strings.Fields(shell(t, s.repo, "git merge-base --all main work"))[0]
	out := s.run()
	require.Equal(t, machine.Done, out.Outcome, out.Why)
	require.Equal(t, 1, s.called())
}

func TestReconcileTellsTheNextAttemptWhatWasWrong(t *testing.T) {
	s := newSite(t, one, oneOurs, oneTheirs, "if grep -q '\"attempt\": 2' \"$HOME/brief.json\"; then "+both+"; else "+oneOurs+"; fi"+answer)
	first := s.run()
	require.Equal(t, machine.Failed, first.Outcome)
	require.Equal(t, "s-1", first.Session)
	s.in.Op, s.in.Attempt, s.in.Unmerged, s.in.Session = sliceID+"/1/11", 2, first.Why, first.Session
	second := s.run()
	require.Equal(t, machine.Done, second.Outcome, second.Why)
	brief := s.brief()
	require.Equal(t, first.Why, brief.Failed)
	require.Equal(t, "s-1", brief.Session)
	require.Equal(t, 2, brief.Attempt)
	require.Contains(t, strings.Join(brief.Rules, "\n"), "was not accepted")
}

func TestReconcileCountsKilledTries(t *testing.T) {
	s := newSite(t, one, oneOurs, oneTheirs, both+answer)
	killed := &tab{a: s.activities, path: s.activities.kept(s.in.Header) + tabSuffix}
	require.NoError(t, os.MkdirAll(filepath.Dir(killed.path), 0o700))
	for range 2 {
		require.NoError(t, killed.reserve(slice.Called{Role: slice.RoleReconciler}, 2_000_000))
	}
	require.EqualValues(t, 2*2_000_000, s.settled().CostMicroUSD)
	out := s.run()
	require.Equal(t, machine.Done, out.Outcome, out.Why)
	require.EqualValues(t, 2*2_000_000+250_000, out.CostMicroUSD)
	require.Equal(t, out.CostMicroUSD, s.settled().CostMicroUSD)

	// Killed between the answer and the commit.
	ctx := t.Context()
	require.NoError(t, s.store.SetRef(ctx, sliceID, refGood, s.in.Good, out.Commit))
	again := s.run()
	require.Equal(t, out, again)
	require.Equal(t, 1, s.called())
}
