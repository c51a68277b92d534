package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"interlock/activities/forge/fakeforge"
	"interlock/machine"
	"interlock/slice"
)

// forgeToken is that of every forge here; the worker has it in its environment.
const forgeToken = "secret-token-of-the-forge"

// atForge makes a world whose remote is a repository of a code host. deliver is
// the rest of the policy's part on delivery, ci what CI says of a commit.
func atForge(t *testing.T, kind, deliver string, s setup, ci func(commit string) []fakeforge.Check) (*world, *fakeforge.Server) {
	t.Helper()
	if shared.skip != "" {
		t.Skip(shared.skip)
	}
	fake := fakeforge.New("")
	t.Cleanup(fake.Close)
	fake.Token = forgeToken
	s.deliver = fmt.Sprintf("{forge: {kind: %s, base_url: %q, repo: shop/api}, %s}", kind, fake.URL, deliver)
	w := newWorld(t, s)
	fake.Dir = w.remote
	fake.Set(func(b *fakeforge.Behaviour) { b.CI, b.Strict = ci, true })
	return w, fake
}

func green(string) []fakeforge.Check { return []fakeforge.Check{fakeforge.Green("build")} }

const toMerge = "to: merge, checks: [build]"

// endsAs runs the slice and says how it ended.
func (w *world) endsAs(ending machine.Ending, cause machine.Cause) slice.Result {
	w.t.Helper()
	r, how := w.run()
	require.Equal(w.t, [2]string{string(ending), string(cause)}, [2]string{string(r.Ending), string(r.Cause)}, "%s\n%s", r.Why, how.stderr)
	end, ok := machine.Find(ending, cause)
	require.True(w.t, ok)
	require.Equal(w.t, end.Code, how.code)
	w.noToken(how)
	return r
}

// noToken says that the token is nowhere but in the worker.
func (w *world) noToken(how ran) {
	w.t.Helper()
	require.NotContains(w.t, how.stdout+how.stderr, forgeToken)
	record := interlock(w.t, "ledger", w.id, "--verify", "-o", "json")
	require.Zero(w.t, record.code, record.stderr)
	require.NotContains(w.t, record.stdout, forgeToken)
	require.Empty(w.t, w.left(), "processes were left")
}

// merged says that the base of the remote has the work, and that the branch is gone.
func (w *world) merged(r slice.Result) {
	w.t.Helper()
	require.Equal(w.t, "hello", w.git(w.remote, "show", "main:hello.txt"))
	require.Equal(w.t, w.git(w.remote, "rev-parse", r.Commit+"^{tree}"), w.git(w.remote, "rev-parse", r.Merged+"^{tree}"),
		"what was merged is what was verified and judged")
	_, err := w.tryGit(w.remote, "merge-base", "--is-ancestor", r.Merged, "main")
	require.NoError(w.t, err)
	require.NotContains(w.t, w.refsOf(w.remote), "refs/heads/"+slice.Branch(w.id), "its work is in the base: the branch was deleted")
}

// move adds a commit to a branch of the remote, as another person does.
func (w *world) move(branch, name string) string {
	w.t.Helper()
	dir := w.t.TempDir()
	w.git(w.dir, "clone", "-q", "--branch", branch, w.remote, dir)
	w.git(dir, "commit", "-q", "--allow-empty", "-m", "Another's "+name)
	if name != "" {
		require.NoError(w.t, os.WriteFile(filepath.Join(dir, name), []byte("another's\n"), 0o644))
		w.git(dir, "add", "-A")
		w.git(dir, "commit", "-q", "--amend", "--no-edit")
	}
	w.git(dir, "push", "-q", "origin", "HEAD:"+branch)
	return w.git(dir, "rev-parse", "HEAD")
}

// said is what an agent has written to a file of its own.
func (w *world) said(name string) string {
	w.t.Helper()
	b, err := os.ReadFile(filepath.Join(w.out, name))
	require.NoError(w.t, err)
	return string(b)
}

func count(requests []string, part string) (n int) {
	for _, r := range requests {
		if strings.Contains(r, part) {
			n++
		}
	}
	return n
}

func TestMergedIntoAPlainRemote(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{deliver: "{to: merge}", tasks: 2})
	r := w.endsAs(machine.Delivered, "")
	w.merged(r)
	require.Equal(t, r.Commit, w.git(w.remote, "rev-parse", "main"), "it is the verified commit itself")
	require.Equal(t, r.Commit, r.Merged)
}

func TestMergedAtAForge(t *testing.T) {
	for _, kind := range []string{"github", "gitea"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w, fake := atForge(t, kind, toMerge, setup{}, green)
			r := w.endsAs(machine.Delivered, "")
			w.merged(r)
			require.Equal(t, fake.URL+"/shop/api/pull/1", r.Proposal.URL)
			require.Equal(t, 1, count(fake.Requests(), "/merge"))
			pull := fake.Pulls()[0]
			require.Equal(t, "Say hello ["+w.id+"]", pull.Title)
			require.Contains(t, pull.Body, "There is a greeting 1.")
			require.Contains(t, pull.Body, "`works`: done")
			require.Contains(t, pull.Body, slice.TrailerSlice+": "+w.id)
			require.NotContains(t, pull.Body, "did it", "the implementer's words reach nobody")
			require.Empty(t, pull.Comments)
			require.Contains(t, w.git(w.remote, "log", "-1", "--format=%B", r.Merged), slice.TrailerSlice+": "+w.id)
			how := interlock(t, "status", w.id)
			require.Contains(t, how.stdout, r.Proposal.URL)
		})
	}
}

func TestSquashed(t *testing.T) {
	t.Parallel()
	w, _ := atForge(t, "github", toMerge+", method: squash", setup{tasks: 2, implementer: `work; date +%N >>more.txt; answer`}, green)
	r := w.endsAs(machine.Delivered, "")
	w.merged(r)
	require.Equal(t, "1", w.git(w.remote, "rev-list", "--count", w.base+"..main"))
}

func TestDeliveredAsFarAsThePolicySays(t *testing.T) {
	for to, want := range map[string]struct{ pulls, branch int }{"branch": {0, 0}, "publish": {0, 1}, "propose": {1, 1}, "merge": {1, 0}} {
		t.Run(to, func(t *testing.T) {
			t.Parallel()
			w, fake := atForge(t, "github", "checks: [build], to: "+to, setup{}, green)
			r := w.endsAs(machine.Delivered, "")
			require.Len(t, fake.Pulls(), want.pulls)
			_, there := w.refsOf(w.remote)["refs/heads/"+slice.Branch(w.id)]
			require.Equal(t, want.branch == 1, there)
			moved := w.git(w.remote, "rev-parse", "main") != w.base
			require.Equal(t, to == "merge", moved)
			if to == "propose" {
				require.Equal(t, "open", fake.Pulls()[0].State)
				require.NotEmpty(t, r.Proposal.URL)
			}
		})
	}
}

// CI is red at first: that makes one more task, whose implementer is told the
// log. Nobody else is.
func TestRedCIMakesATaskThatTurnsItGreen(t *testing.T) {
	t.Parallel()
	var w *world
	ci := func(commit string) []fakeforge.Check {
		if commit != "" {
			if _, err := w.tryGit(w.remote, "cat-file", "-e", commit+":fixed.txt"); err == nil {
				return []fakeforge.Check{fakeforge.Green("build")}
			}
		}
		return []fakeforge.Check{fakeforge.Red("build", strings.Repeat("noise\n", 5000)+"fixed.txt is MISSING_ON_CI\n")}
	}
	w, fake := atForge(t, "github", toMerge, setup{
		implementer: `printf '%s' "$brief" >>"$OUT/implementer.brief"
if told 'MISSING_ON_CI'; then echo x >fixed.txt; fi
work; answer`,
		judge: `printf '%s' "$brief" >>"$OUT/judge.brief"; scores 5`,
	}, ci)
	r := w.endsAs(machine.Delivered, "")
	w.merged(r)
	require.Len(t, r.Tasks, 2)
	require.Equal(t, "ci", r.Tasks[1].ID)
	require.Equal(t, "CI is green: build failed.", r.Tasks[1].Criterion)
	require.Equal(t, "ci", w.git(w.remote, "log", "-1", "--format=%(trailers:key="+slice.TrailerTask+",valueonly,separator=)", r.Commit))
	require.Equal(t, 2, w.calls("implementer"))
	require.Contains(t, w.said("implementer.brief"), "MISSING_ON_CI")
	judged := w.said("judge.brief")
	require.Contains(t, judged, "CI is green: build failed.")
	require.NotContains(t, judged, "MISSING_ON_CI", "a judge gets facts, not logs that the work may have written")
	require.Len(t, fake.Pulls(), 1)
	require.Len(t, fake.Pulls()[0].Comments, 1)
	require.Contains(t, fake.Pulls()[0].Comments[0], "verified and judged as a whole again")
	require.False(t, fake.Leaked())
}

func TestRedCIBlocksInTheEnd(t *testing.T) {
	t.Parallel()
	w, fake := atForge(t, "github", toMerge, setup{}, func(string) []fakeforge.Check {
		return []fakeforge.Check{fakeforge.Green("lint"), fakeforge.Red("build", "it is red\n")}
	})
	r := w.endsAs(machine.BlockedCI, machine.CauseRed)
	require.Contains(t, r.Why, "build failed: "+fake.URL+"/shop/api/actions/runs/7/jobs/2")
	require.Equal(t, "open", fake.Pulls()[0].State, "the pull request stays open")
	require.Equal(t, w.base, w.git(w.remote, "rev-parse", "main"))
	require.Equal(t, "build", r.Checks[0].Name)
	require.Contains(t, r.Checks[0].Summary, "it is red")
	require.Len(t, r.Tasks, 2)
}

func TestNoChecksSeenIsNotGreen(t *testing.T) {
	for name, ci := range map[string]func(string) []fakeforge.Check{
		"none":          nil,
		"only others":   func(string) []fakeforge.Check { return []fakeforge.Check{fakeforge.Green("lint")} },
		"it never ends": func(string) []fakeforge.Check { return []fakeforge.Check{{Name: "build", Status: "in_progress"}} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, fake := atForge(t, "github", toMerge+", ci_timeout: 1s", setup{}, ci)
			r := w.endsAs(machine.BlockedCI, machine.CauseUnmeasured)
			require.Contains(t, r.Why, "after 1s: build ")
			require.Equal(t, "open", fake.Pulls()[0].State)
			require.Equal(t, w.base, w.git(w.remote, "rev-parse", "main"))
		})
	}
	t.Run("skipped", func(t *testing.T) {
		t.Parallel()
		w, _ := atForge(t, "github", toMerge, setup{}, func(string) []fakeforge.Check {
			return []fakeforge.Check{{Name: "build", Status: "completed", Conclusion: "skipped"}}
		})
		r := w.endsAs(machine.BlockedCI, machine.CauseUnmeasured)
		require.Contains(t, r.Why, "build: skipped")
	})
}

// The base moves while CI runs: the slice meets it, and is verified and judged
// again; after three times it gives up.
func TestTheBaseMoves(t *testing.T) {
	for _, c := range []struct {
		times  int
		ending machine.Ending
		cause  machine.Cause
	}{{1, machine.Delivered, ""}, {3, machine.Delivered, ""}, {4, machine.BlockedReconcile, machine.CauseBaseMoves}} {
		t.Run(fmt.Sprint(c.times), func(t *testing.T) {
			t.Parallel()
			var w *world
			moved := map[string]bool{}
			w, fake := atForge(t, "github", toMerge, setup{}, func(commit string) []fakeforge.Check {
				if commit != "" && !moved[commit] && len(moved) < c.times {
					moved[commit] = true
					w.move("main", fmt.Sprintf("other-%d.txt", len(moved)))
				}
				return []fakeforge.Check{fakeforge.Green("build")}
			})
			r := w.endsAs(c.ending, c.cause)
			require.Len(t, fake.Pulls(), 1, "the same proposal all the time")
			require.Equal(t, 1, w.calls("implementer"))
			require.Equal(t, 1+1+min(c.times, 3), w.calls("judge"), "the whole is judged again each time")
			if c.ending != machine.Delivered {
				require.Equal(t, "open", fake.Pulls()[0].State)
				require.NotContains(t, w.git(w.remote, "ls-tree", "--name-only", "main"), "hello.txt")
				return
			}
			w.merged(r)
			for i := range c.times {
				require.Contains(t, w.git(w.remote, "ls-tree", "--name-only", "main"), fmt.Sprintf("other-%d.txt", i+1))
			}
		})
	}
}

func TestTheBaseOfAPlainRemoteMoves(t *testing.T) {
	t.Parallel()
	// Whenever the slice pushes its branch, somebody pushes to the base: twice.
	w := newWorld(t, setup{deliver: "{to: merge}"})
	hook := `#!/bin/sh
while read -r old new ref; do
  n=$(ls moved.* 2>/dev/null | wc -l)
  case $ref in refs/heads/interlock/*) [ "$n" -lt 2 ] || continue; touch "moved.$n"
    export GIT_AUTHOR_NAME=x GIT_AUTHOR_EMAIL=x@x GIT_COMMITTER_NAME=x GIT_COMMITTER_EMAIL=x@x
    git update-ref refs/heads/main "$(git commit-tree "main^{tree}" -p main -m "Another $n")";;
  esac
done
`
	require.NoError(t, os.WriteFile(filepath.Join(w.remote, "hooks", "post-receive"), []byte(hook), 0o755))
	r := w.endsAs(machine.Delivered, "")
	w.merged(r)
	require.Equal(t, r.Commit, w.git(w.remote, "rev-parse", "main"))
	require.Equal(t, "2", w.git(w.remote, "rev-list", "--count", "--grep=^Another", "main"))
	require.Equal(t, 4, w.calls("judge"))
}

// Between the look and the merge somebody pushes to the base, which no forge
// can refuse: the slice does not call that delivered.
func TestAnotherTreeThanTheVerifiedOneIsNotDelivered(t *testing.T) {
	t.Parallel()
	w, fake := atForge(t, "github", toMerge, setup{}, green)
	var once atomic.Bool
	fake.Set(func(b *fakeforge.Behaviour) {
		b.BeforeMerge = func() {
			if once.CompareAndSwap(false, true) {
				w.move("main", "other.txt")
			}
		}
	})
	r := w.endsAs(machine.BlockedDelivery, machine.CauseConflict)
	require.Contains(t, r.Why, "whose files are not those of")
	require.Contains(t, r.Why, "by interlock-bot")
}

func TestWhatOthersDoToTheProposal(t *testing.T) {
	cases := map[string]struct {
		change func(*world, *fakeforge.Server)
		ending machine.Ending
		cause  machine.Cause
		says   string
	}{
		"closed": {func(_ *world, f *fakeforge.Server) {
			f.Change(1, func(p *fakeforge.Pull) { p.State = "closed" })
		}, machine.BlockedDelivery, machine.CauseClosed, "closed by somebody"},
		"branch deleted": {func(w *world, _ *fakeforge.Server) {
			w.git(w.remote, "update-ref", "-d", "refs/heads/"+slice.Branch(w.id))
		}, machine.BlockedDelivery, machine.CauseClosed, "closed by somebody"},
		"branch moved": {func(w *world, _ *fakeforge.Server) { w.move(slice.Branch(w.id), "evil.txt") },
			machine.BlockedDelivery, machine.CauseConflict, "moved by somebody else"},
		"merged by somebody": {func(w *world, _ *fakeforge.Server) {
			w.git(w.remote, "update-ref", "refs/heads/main", "refs/heads/"+slice.Branch(w.id))
		}, machine.Delivered, "", ""},
		"protected": {func(_ *world, f *fakeforge.Server) {
			f.Set(func(b *fakeforge.Behaviour) { b.Refuse = "At least 1 approving review is required." })
		}, machine.BlockedDelivery, machine.CauseRefused, "approving review is required"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var w *world
			var fake *fakeforge.Server
			done := false
			w, fake = atForge(t, "github", toMerge, setup{}, nil)
			// What is done while CI is looked at holds for the merge.
			fake.Set(func(b *fakeforge.Behaviour) {
				b.Fault = func(r *http.Request) fakeforge.Fault {
					if strings.HasSuffix(r.URL.Path, "/check-runs") && !done {
						done = true
						go func() { c.change(w, fake) }()
						// The answer comes when it is done.
						return fakeforge.Fault{Status: 429, Header: map[string]string{"Retry-After": "1"}}
					}
					return fakeforge.Fault{}
				}
				b.CI = green
			})
			r := w.endsAs(c.ending, c.cause)
			require.Contains(t, r.Why, c.says)
			require.Len(t, fake.Pulls(), 1)
			if c.ending != machine.Delivered {
				require.Equal(t, w.base, w.git(w.remote, "rev-parse", "main"), "nothing was merged")
			}
		})
	}
}

// Whatever becomes of the answers, each effect happens once.
func TestAnswersThatAreLost(t *testing.T) {
	for name, fault := range map[string]fakeforge.Fault{
		"cut off after": {Drop: true, After: true},
		"502 after":     {Status: 502, After: true},
		"limit":         {Status: 429, Header: map[string]string{"Retry-After": "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, fake := atForge(t, "github", toMerge, setup{}, green)
			fake.Set(func(b *fakeforge.Behaviour) {
				had := map[string]bool{}
				b.Strict = false
				b.Fault = func(r *http.Request) fakeforge.Fault {
					if r.Method == http.MethodGet || had[r.URL.Path] {
						return fakeforge.Fault{}
					}
					had[r.URL.Path] = true
					return fault
				}
			})
			r := w.endsAs(machine.Delivered, "")
			w.merged(r)
			require.Len(t, fake.Pulls(), 1)
			require.Equal(t, "2", w.git(w.remote, "rev-list", "--count", "--first-parent", "main"))
		})
	}
}

func TestWhatIsMissingIsSaidBeforeAnyWork(t *testing.T) {
	for name, c := range map[string]struct{ deliver, says string }{
		"no token":     {"{to: propose, forge: {kind: github, base_url: %q, repo: shop/api, token_env: INTERLOCK_NO_SUCH}}", "set INTERLOCK_NO_SUCH"},
		"no such repo": {"{to: propose, forge: {kind: github, base_url: %q, repo: shop/none}}", "may not see it"},
		"no checks":    {"{to: merge, forge: {kind: gitea, base_url: %q, repo: shop/api}}", "deliver.checks is missing"},
		"plain remote": {"{to: propose, remote: origin, checks: []} # %q", "has no proposals"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake := fakeforge.New("")
			t.Cleanup(fake.Close)
			w := newWorld(t, setup{deliver: fmt.Sprintf(c.deliver, fake.URL)})
			fake.Dir = w.remote
			r := w.endsAs(machine.Precondition, "")
			require.Contains(t, r.Why, c.says)
			require.Zero(t, w.calls("implementer"))
			require.Empty(t, fake.Pulls())
		})
	}
}

// status asks where a slice is.
func (w *world) status() (live slice.Status) {
	how := interlock(w.t, "status", w.id, "-o", "json")
	var r struct{ Live *slice.Status }
	if json.Unmarshal([]byte(how.stdout), &r) == nil && r.Live != nil {
		return *r.Live
	}
	return live
}

// until polls until the slice waits for something.
func (w *world) until(what slice.WaitFor) slice.Wait {
	w.t.Helper()
	var last slice.Status
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-time.After(50 * time.Millisecond) {
		if last = w.status(); last.Waiting != nil && last.Waiting.For == what {
			return *last.Waiting
		}
	}
	w.t.Fatalf("it does not wait for %s: %+v", what, last)
	return slice.Wait{}
}

func TestCancelledWhileCIRuns(t *testing.T) {
	t.Parallel()
	w, fake := atForge(t, "github", toMerge, setup{}, func(string) []fakeforge.Check {
		return []fakeforge.Check{{Name: "build", Status: "queued"}}
	})
	require.Zero(t, interlock(t, "start", w.file).code)
	wait := w.until(slice.WaitCI)
	require.Equal(t, "build is queued", wait.Why)
	how := interlock(t, "cancel", w.id, "-o", "json")
	require.Zero(t, how.code, how.stderr)
	pull := fake.Pulls()[0]
	require.Equal(t, "closed", pull.State)
	require.Len(t, pull.Comments, 1)
	require.Contains(t, pull.Comments[0], "ended as `cancelled`")
	require.NotContains(t, w.refsOf(w.remote), "refs/heads/"+slice.Branch(w.id))
	var r slice.Result
	require.NoError(t, json.Unmarshal([]byte(how.stdout), &r))
	require.Empty(t, r.Failed)
	require.Contains(t, strings.Join(r.Undone, "\n"), "proposal "+fake.URL+"/shop/api/pull/1 is closed")
}

// An approval is for a commit: when the base has moved meanwhile, it is void,
// and what is merged in the end was approved itself.
func TestTheBaseMovesWhileAPersonIsAsked(t *testing.T) {
	t.Parallel()
	w, _ := atForge(t, "github", toMerge, setup{more: "gates: {merge: true}"}, green)
	require.Zero(t, interlock(t, "start", w.file).code)
	first := w.until(slice.WaitApproval)
	w.move("main", "other.txt")
	how := interlock(t, "approve", w.id, "--subject", first.Subject, "--by", "ada")
	require.Zero(t, how.code, how.stderr)
	var second slice.Wait
	require.Eventually(t, func() bool {
		second = w.until(slice.WaitApproval)
		return second.Subject != first.Subject
	}, patience, 50*time.Millisecond)
	require.Equal(t, w.base, w.git(w.remote, "merge-base", "main", first.Subject))
	how = interlock(t, "approve", w.id, "--subject", first.Subject, "--by", "bob")
	require.NotZero(t, how.code, "an approval of what was there before is void")
	require.Equal(t, second.Subject, w.until(slice.WaitApproval).Subject)
	require.Zero(t, interlock(t, "approve", w.id, "--subject", second.Subject, "--by", "ada").code)
	ended := interlock(t, "wait", w.id, "-o", "json")
	require.Zero(t, ended.code, ended.stderr)
	var r slice.Result
	require.NoError(t, json.Unmarshal([]byte(ended.stdout), &r))
	require.Equal(t, second.Subject, r.Commit)
	w.merged(r)
}
