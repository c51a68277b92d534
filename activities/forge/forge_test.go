package forge_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"interlock/activities/forge"
	"interlock/activities/forge/fakeforge"
	"interlock/machine"
	"interlock/slice"
)

const (
	branch = "interlock/greet"
	id     = "greet"
)

// world is a code host whose repository has a base and the slice's branch.
type world struct {
	t     *testing.T
	fake  *fakeforge.Server
	forge *forge.Forge
	kind  slice.ForgeKind
	head  string
}

// inBoth runs a test against GitHub and against Gitea.
func inBoth(t *testing.T, test func(*testing.T, *world)) {
	t.Helper()
	for _, kind := range []slice.ForgeKind{slice.ForgeGitHub, slice.ForgeGitea} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			test(t, newWorld(t, kind))
		})
	}
}

func newWorld(t *testing.T, kind slice.ForgeKind) *world {
	dir := filepath.Join(t.TempDir(), "api.git")
	require.NoError(t, os.Mkdir(dir, 0o755))
	w := &world{t: t, fake: fakeforge.New(dir), kind: kind}
	t.Cleanup(w.fake.Close)
	w.git("init", "-q", "--bare", "-b", "main")
	w.commit("main", "README.md", "a sample\n")
	w.git("update-ref", "refs/heads/"+branch, "refs/heads/main")
	w.head = w.commit(branch, "hello.txt", "hello\n")
	w.forge = w.open(w.fake.Token, nil)
	return w
}

func (w *world) open(token string, cache *forge.Cache) *forge.Forge {
	f, err := forge.New(forge.Config{Kind: w.kind, BaseURL: w.fake.URL, Owner: w.fake.Owner, Name: w.fake.Name, Token: token, Cache: cache})
	require.NoError(w.t, err)
	return f
}

func (w *world) git(args ...string) string {
	w.t.Helper()
	out, err := w.fake.Git(args...)
	require.NoError(w.t, err)
	return out
}

// commit adds a file to a branch of the bare repository.
func (w *world) commit(branch, name, text string) string {
	w.t.Helper()
	file := filepath.Join(w.t.TempDir(), "file")
	require.NoError(w.t, os.WriteFile(file, []byte(text), 0o644))
	blob := w.git("hash-object", "-w", file)
	ref := "refs/heads/" + branch
	index := filepath.Join(w.t.TempDir(), "index")
	args := []string{"commit-tree", "-m", "Add " + name}
	run := func(script string) string {
		w.t.Helper()
		return w.git("-c", "alias.x=!"+script, "x")
	}
	load := ""
	if parent, err := w.fake.Git("rev-parse", "--quiet", "--verify", ref); err == nil {
		args, load = append(args, "-p", parent), "git read-tree "+parent+" && "
	}
	tree := run(fmt.Sprintf("export GIT_INDEX_FILE=%s; %sgit update-index --add --cacheinfo 100644,%s,%s && git write-tree", index, load, blob, name))
	made := w.git(append(args, tree)...)
	w.git("update-ref", ref, made)
	return made
}

func (w *world) draft() forge.Draft {
	return forge.Draft{Head: branch, Base: "main", Commit: w.head, Slice: id, Run: 1, Title: "Greet [greet]", Body: forge.Body("It greets.", id, 1)}
}

func (w *world) propose() (forge.Proposal, error) {
	return w.forge.Propose(w.t.Context(), w.draft())
}

func (w *world) merge(n int) (forge.Proposal, error) {
	return w.forge.Merge(w.t.Context(), n, forge.Merge{Head: w.head, Title: "Greet (#1)", Body: "Interlock-Slice: greet"})
}

// openPulls are the numbers of the proposals that are open.
func (w *world) openPulls() (numbers []int) {
	for _, p := range w.fake.Pulls() {
		if p.State == "open" {
			numbers = append(numbers, p.Number)
		}
	}
	return numbers
}

// first makes the first request that matches go wrong.
func (w *world) first(method, part string, f fakeforge.Fault) {
	var done atomic.Bool
	w.always(func(r *http.Request) fakeforge.Fault {
		if r.Method == method && strings.Contains(r.URL.Path, part) && done.CompareAndSwap(false, true) {
			return f
		}
		return fakeforge.Fault{}
	})
}

func (w *world) always(f func(*http.Request) fakeforge.Fault) {
	w.fake.Set(func(b *fakeforge.Behaviour) { b.Fault = f })
}

func TestAProposalIsOpenedOnceAndFoundAgain(t *testing.T) {
	inBoth(t, func(t *testing.T, w *world) {
		require.NoError(t, w.forge.Check(w.t.Context()))
		p, err := w.propose()
		require.NoError(t, err)
		require.Equal(t, forge.Open, p.State)
		require.Equal(t, w.head, p.Head)
		require.Equal(t, "main", p.Base)
		require.Contains(t, p.URL, "/pull/1")
		again, err := w.propose()
		require.NoError(t, err)
		require.Equal(t, p.Number, again.Number)
		require.Len(t, w.fake.Pulls(), 1)
		pull := w.fake.Pulls()[0]
		require.Equal(t, "Greet [greet]", pull.Title)
		require.Contains(t, pull.Body, "\nInterlock-Slice: greet\nInterlock-Run: 1\n")
	})
}

func TestOneThatAPersonOpenedForTheBranchIsTaken(t *testing.T) {
	inBoth(t, func(t *testing.T, w *world) {
		w.fake.Add(fakeforge.Pull{Title: "by hand", Head: branch, Base: "main"})
		p, err := w.propose()
		require.NoError(t, err)
		require.Equal(t, 1, p.Number)
		require.Len(t, w.fake.Pulls(), 1)
	})
}

// A branch of that name in somebody's fork is not the slice's.
func TestAForksBranchOfTheSameNameIsNotTaken(t *testing.T) {
	inBoth(t, func(t *testing.T, w *world) {
		w.fake.Add(fakeforge.Pull{Title: "take me", Head: branch, Base: "main", Fork: true, Body: "Interlock-Slice: greet"})
		p, err := w.propose()
		require.NoError(t, err)
		require.Equal(t, 2, p.Number)
		_, err = w.forge.Close(w.t.Context(), branch, id, "over")
		require.NoError(t, err)
		require.Equal(t, []int{1}, w.openPulls(), "the stranger's stays open")
	})
}

func TestOneForAnotherBaseIsAConflict(t *testing.T) {
	inBoth(t, func(t *testing.T, w *world) {
		w.git("update-ref", "refs/heads/old", "refs/heads/main")
		w.fake.Add(fakeforge.Pull{Head: branch, Base: "old"})
		_, err := w.propose()
		require.Equal(t, forge.Conflict, forge.KindOf(err), err)
		require.Len(t, w.fake.Pulls(), 1)
	})
}

func TestOneThatWasClosedInThisRunIsNotOpenedAgain(t *testing.T) {
	inBoth(t, func(t *testing.T, w *world) {
		_, err := w.propose()
		require.NoError(t, err)
		w.fake.Change(1, func(p *fakeforge.Pull) { p.State = "closed" })
		_, err = w.propose()
		require.Equal(t, forge.WasClosed, forge.KindOf(err), err)
		require.Len(t, w.fake.Pulls(), 1)

		next := w.draft()
		next.Run, next.Body = 2, forge.Body("It greets.", id, 2)
		p, err := w.forge.Propose(w.t.Context(), next)
		require.NoError(t, err, "a run that was begun again proposes anew")
		require.Equal(t, 2, p.Number)
	})
}

// effect is one thing that is done at a forge, and how often it was done.
type effect struct {
	name         string
	method, part string
	prepare      func(*world)
	do           func(*world) error
	times        func(*world) int
}

var effects = []effect{
	{
		name: "open", method: http.MethodPost, part: "/pulls",
		do:    func(w *world) error { _, err := w.propose(); return err },
		times: func(w *world) int { return len(w.fake.Pulls()) },
	},
	{
		name: "comment", method: http.MethodPost, part: "/comments",
		prepare: func(w *world) { _, err := w.propose(); require.NoError(w.t, err) },
		do:      func(w *world) error { return w.forge.Comment(w.t.Context(), 1, "round 1", "Verified again.") },
		times:   func(w *world) int { return len(w.fake.Pulls()[0].Comments) },
	},
	{
		name: "merge", method: "", part: "/merge",
		prepare: func(w *world) { _, err := w.propose(); require.NoError(w.t, err) },
		do:      func(w *world) error { _, err := w.merge(1); return err },
		times: func(w *world) int {
			n, err := strconv.Atoi(w.git("rev-list", "--count", "--first-parent", "main"))
			require.NoError(w.t, err)
			return n - 1
		},
	},
	{
		name: "close", method: http.MethodPatch, part: "/pulls/1",
		prepare: func(w *world) { _, err := w.propose(); require.NoError(w.t, err) },
		do: func(w *world) error {
			_, err := w.forge.Close(w.t.Context(), branch, id, "It was cancelled.")
			return err
		},
		times: func(w *world) int {
			closed := w.fake.Pulls()[0]
			if closed.State == "closed" && len(closed.Comments) == 1 {
				return 1
			}
			return len(closed.Comments) * 100
		},
	},
}

// Whatever becomes of the answer, asking until there is one has one effect.
func TestEveryEffectHappensOnce(t *testing.T) {
	faults := map[string]struct {
		fault fakeforge.Fault
		// kind is what the first call says; empty if it finds the effect.
		kind forge.Kind
	}{
		"nothing wrong":            {},
		"refused before":           {fakeforge.Fault{Status: 503}, forge.NotApplied},
		"cut off before":           {fakeforge.Fault{Drop: true}, forge.NotApplied},
		"answer lost after":        {fakeforge.Fault{Drop: true, After: true}, ""},
		"bad gateway after":        {fakeforge.Fault{Status: 502, After: true, Body: "<html>"}, ""},
		"limit with Retry-After":   {fakeforge.Fault{Status: 429, Header: map[string]string{"Retry-After": "7"}}, forge.Limited},
		"secondary limit":          {fakeforge.Fault{Status: 403, Header: map[string]string{"Retry-After": "7"}, Body: `{"message":"You have exceeded a secondary rate limit."}`}, forge.Limited},
		"credentials withdrawn":    {fakeforge.Fault{Status: 401, Body: `{"message":"Bad credentials"}`}, forge.Unauthorized},
		"permission taken":         {fakeforge.Fault{Status: 403, Body: `{"message":"Resource not accessible by personal access token"}`}, forge.Refused},
		"gone":                     {fakeforge.Fault{Status: 404, Body: `{"message":"Not Found"}`}, forge.NotFound},
		"no body at all, and busy": {fakeforge.Fault{Status: 500}, forge.NotApplied},
	}
	for _, e := range effects {
		t.Run(e.name, func(t *testing.T) {
			for name, c := range faults {
				t.Run(name, func(t *testing.T) {
					inBoth(t, func(t *testing.T, w *world) {
						if e.prepare != nil {
							e.prepare(w)
						}
						method := e.method
						if method == "" {
							method = map[slice.ForgeKind]string{slice.ForgeGitHub: http.MethodPut, slice.ForgeGitea: http.MethodPost}[w.kind]
						}
						w.first(method, e.part, c.fault)
						before := time.Now()
						err := e.do(w)
						require.Equal(t, c.kind, forge.KindOf(err), "%v", err)
						if c.kind == forge.Limited {
							require.WithinDuration(t, before.Add(7*time.Second), forge.RetryAt(err), 5*time.Second)
						}
						if err != nil {
							require.NotContains(t, err.Error(), w.fake.Token)
							require.Zero(t, e.times(w)%100, "it has had no effect")
						}
						require.NoError(t, e.do(w))
						require.NoError(t, e.do(w), "done already")
						require.Equal(t, 1, e.times(w))
					})
				})
			}
		})
	}
}

// The answer is lost and the forge cannot be read: that is unknown, never done
// and never not done. When it can be read again, it is found.
func TestADoubtfulEffectIsNamedUntilItCanBeRead(t *testing.T) {
	for _, e := range effects {
		t.Run(e.name, func(t *testing.T) {
			for _, after := range []bool{true, false} {
				t.Run(fmt.Sprintf("effect=%v", after), func(t *testing.T) {
					inBoth(t, func(t *testing.T, w *world) {
						if e.prepare != nil {
							e.prepare(w)
						}
						var down atomic.Bool
						w.always(func(r *http.Request) fakeforge.Fault {
							switch {
							case down.Load():
								return fakeforge.Fault{Status: 503}
							case r.Method != http.MethodGet && strings.Contains(r.URL.Path, e.part):
								down.Store(true)
								return fakeforge.Fault{Drop: true, After: after}
							}
							return fakeforge.Fault{}
						})
						err := e.do(w)
						require.Equal(t, forge.Unknown, forge.KindOf(err), "%v", err)
						require.True(t, forge.Unknown.Retryable())
						w.always(nil)
						require.NoError(t, e.do(w))
						require.Equal(t, 1, e.times(w))
					})
				})
			}
		})
	}
}

// Two that propose at the same time may both be heard: one proposal stays.
func TestDuplicatesAreClosed(t *testing.T) {
	inBoth(t, func(t *testing.T, w *world) {
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() { _, _ = w.propose() })
		}
		wg.Wait()
		p, err := w.propose()
		require.NoError(t, err)
		require.Equal(t, []int{p.Number}, w.openPulls())
		for _, pull := range w.fake.Pulls() {
			if pull.Number != p.Number {
				require.NotEmpty(t, pull.Comments)
				require.Contains(t, pull.Comments[0], "duplicate of #1")
			}
		}
	})
}

// The real forges refuse a second proposal; one that was opened between the
// look and the try is found.
func TestARefusedDuplicateIsTheOneThatIsThere(t *testing.T) {
	inBoth(t, func(t *testing.T, w *world) {
		var raced atomic.Bool
		w.fake.Set(func(b *fakeforge.Behaviour) {
			b.Strict = true
			b.Fault = func(r *http.Request) fakeforge.Fault {
				if r.Method == http.MethodPost && raced.CompareAndSwap(false, true) {
					return fakeforge.Fault{After: true, Status: 422, Body: `{"message":"Validation Failed","errors":[{"message":"A pull request already exists for shop:interlock/greet."}]}`}
				}
				return fakeforge.Fault{}
			}
		})
		p, err := w.propose()
		require.NoError(t, err)
		require.Equal(t, 1, p.Number)
		require.Len(t, w.fake.Pulls(), 1)
	})
}

func TestWhatCannotBeProposedSaysWhy(t *testing.T) {
	inBoth(t, func(t *testing.T, w *world) {
		w.git("update-ref", "refs/heads/main", w.head)
		_, err := w.propose()
		require.Equal(t, forge.Refused, forge.KindOf(err), err)
		require.ErrorContains(t, err, "No commits between main and interlock/greet")
	})
}

func TestMergeSeesWhatOthersDid(t *testing.T) {
	cases := map[string]struct {
		change func(*world)
		kind   forge.Kind
		says   string
	}{
		"closed by somebody": {func(w *world) {
			w.fake.Change(1, func(p *fakeforge.Pull) { p.State = "closed" })
		}, forge.WasClosed, "closed by somebody"},
		"branch deleted": {func(w *world) { w.git("update-ref", "-d", "refs/heads/"+branch) }, forge.WasClosed, "closed by somebody"},
		"head moved":     {func(w *world) { w.commit(branch, "more.txt", "more\n") }, forge.HeadMoved, "not at"},
		"head moves at the last moment": {func(w *world) {
			w.fake.Set(func(b *fakeforge.Behaviour) { b.BeforeMerge = func() { w.commit(branch, "more.txt", "more\n") } })
		}, forge.HeadMoved, "not at"},
		"closed at the last moment": {func(w *world) {
			w.fake.Set(func(b *fakeforge.Behaviour) {
				b.BeforeMerge = func() { w.git("update-ref", "-d", "refs/heads/"+branch) }
			})
		}, forge.WasClosed, "closed by somebody"},
		"protected": {func(w *world) {
			w.fake.Set(func(b *fakeforge.Behaviour) {
				b.Refuse = "At least 1 approving review is required by reviewers with write access."
			})
		}, forge.Refused, "approving review is required"},
		"base modified": {func(w *world) {
			w.fake.Set(func(b *fakeforge.Behaviour) { b.Refuse = "Base branch was modified. Review and try the merge again." })
		}, forge.Unready, "Base branch was modified"},
		"still being checked": {func(w *world) {
			w.fake.Set(func(b *fakeforge.Behaviour) { b.Refuse = "Please try again later" })
		}, forge.Unready, "Please try again later"},
		"conflict": {func(w *world) { w.commit("main", "hello.txt", "another\n") }, forge.Refused, "not mergeable"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			inBoth(t, func(t *testing.T, w *world) {
				_, err := w.propose()
				require.NoError(t, err)
				c.change(w)
				before := w.git("rev-parse", "main")
				_, err = w.merge(1)
				require.Equal(t, c.kind, forge.KindOf(err), "%v", err)
				require.ErrorContains(t, err, c.says)
				require.Equal(t, before, w.git("rev-parse", "main"), "nothing was merged")
			})
		})
	}
}

func TestMergedBySomeoneElseIsMerged(t *testing.T) {
	inBoth(t, func(t *testing.T, w *world) {
		_, err := w.propose()
		require.NoError(t, err)
		w.git("update-ref", "refs/heads/main", w.head)
		p, err := w.merge(1)
		require.NoError(t, err)
		require.Equal(t, forge.Merged, p.State)
		require.Equal(t, w.head, p.MergeCommit)
		found, err := w.propose()
		require.NoError(t, err)
		require.Equal(t, 1, found.Number, "what was merged is not proposed again")
	})
}

func TestMethodsOfMerge(t *testing.T) {
	inBoth(t, func(t *testing.T, w *world) {
		_, err := w.propose()
		require.NoError(t, err)
		p, err := w.forge.Merge(w.t.Context(), 1, forge.Merge{Head: w.head, Method: slice.MergeSquash, Title: "Greet (#1)", Body: "Interlock-Slice: greet"})
		require.NoError(t, err)
		require.Equal(t, p.MergeCommit, w.git("rev-parse", "main"))
		require.Equal(t, "interlock-bot", p.MergedBy)
		require.Equal(t, "1", w.git("rev-list", "--count", "--no-walk", "main"))
		require.Equal(t, "Greet (#1)\n\nInterlock-Slice: greet", w.git("log", "-1", "--format=%B", "main"))
		require.Equal(t, "hello", w.git("show", "main:hello.txt"))
	})
}

func TestAForgeThatDoesNotKnowYetIsAskedAgain(t *testing.T) {
	w := newWorld(t, slice.ForgeGitHub)
	_, err := w.propose()
	require.NoError(t, err)
	w.fake.Set(func(b *fakeforge.Behaviour) { b.Uncertain = 1 })
	_, err = w.merge(1)
	require.Equal(t, forge.Unready, forge.KindOf(err))
	_, err = w.merge(1)
	require.NoError(t, err)
}

func TestChecks(t *testing.T) {
	w := newWorld(t, slice.ForgeGitHub)
	all := []fakeforge.Check{
		{Name: "build", Status: "completed", Conclusion: "failure", Log: "first try\n"},
		fakeforge.Green("build"), // run again
		{Name: "lint", Status: "in_progress"},
		{Name: "docs", Status: "completed", Conclusion: "skipped"},
		{Name: "slow", Status: "completed", Conclusion: "timed_out"},
		{Name: "owner", Status: "completed", Conclusion: "action_required"},
		{Name: "cover", Status: "completed", Conclusion: "failure", Old: true, Log: "61 % of 80 %"},
		{Name: "infra", Status: "completed", Conclusion: "error", Old: true},
		{Name: "two", Status: "completed", Conclusion: "success"},
		{Name: "two", Status: "completed", Conclusion: "failure", App: "other-ci", Log: "it broke there"},
	}
	w.fake.Set(func(b *fakeforge.Behaviour) { b.CI = func(string) []fakeforge.Check { return all } })
	got, err := w.forge.Checks(w.t.Context(), w.head)
	require.NoError(t, err)
	outcomes := map[string]machine.Outcome{}
	for _, c := range got {
		outcomes[c.Name] = c.Outcome
		require.Contains(t, c.URL, "/actions/runs/7/jobs/")
	}
	require.Equal(t, map[string]machine.Outcome{
		"build": machine.Done, "lint": "", "docs": machine.Unmeasured, "slow": machine.Unmeasured, "owner": "",
		"cover": machine.Failed, "infra": machine.Unmeasured, "two": machine.Failed,
	}, outcomes)
	for _, c := range got {
		log, err := w.forge.Log(w.t.Context(), c)
		require.NoError(t, err)
		switch c.Name {
		case "cover":
			require.Equal(t, "61 % of 80 %", string(log))
		case "two":
			require.Contains(t, string(log), "it broke there")
		}
	}
}

func TestLogsAreReadWithoutTheToken(t *testing.T) {
	w := newWorld(t, slice.ForgeGitHub)
	long := strings.Repeat("x", 3<<20) + "the end\n"
	w.fake.Set(func(b *fakeforge.Behaviour) {
		b.CI = func(string) []fakeforge.Check { return []fakeforge.Check{fakeforge.Red("build", long)} }
	})
	got, err := w.forge.Checks(w.t.Context(), w.head)
	require.NoError(t, err)
	log, err := w.forge.Log(w.t.Context(), got[0])
	require.NoError(t, err)
	require.Len(t, log, 1<<20)
	require.True(t, strings.HasSuffix(string(log), "the end\n"))
	require.False(t, w.fake.Leaked(), "the token was sent to where logs are kept")

	w.first(http.MethodGet, "/logs", fakeforge.Fault{Status: 410})
	log, err = w.forge.Log(w.t.Context(), got[0])
	require.NoError(t, err, "a log that has expired is none")
	require.Empty(t, log)
}

func TestGiteaStatuses(t *testing.T) {
	w := newWorld(t, slice.ForgeGitea)
	w.fake.Set(func(b *fakeforge.Behaviour) {
		b.CI = func(string) []fakeforge.Check {
			return []fakeforge.Check{fakeforge.Red("build", "x"), {Name: "lint", Status: "queued"}, {Name: "warn", Status: "completed", Conclusion: "warning"}}
		}
	})
	got, err := w.forge.Checks(w.t.Context(), w.head)
	require.NoError(t, err)
	require.Len(t, got, 3)
	require.Equal(t, []machine.Outcome{machine.Failed, "", machine.Unmeasured}, []machine.Outcome{got[0].Outcome, got[1].Outcome, got[2].Outcome})
}

func TestWhatHasNotChangedIsNotSentAgain(t *testing.T) {
	inBoth(t, func(t *testing.T, w *world) {
		w.fake.Set(func(b *fakeforge.Behaviour) {
			b.CI = func(string) []fakeforge.Check { return []fakeforge.Check{fakeforge.Green("build")} }
		})
		cache := &forge.Cache{}
		f := w.open(w.fake.Token, cache)
		first, err := f.Checks(w.t.Context(), w.head)
		require.NoError(t, err)
		require.Zero(t, w.fake.Saved())
		second, err := w.open(w.fake.Token, cache).Checks(w.t.Context(), w.head)
		require.NoError(t, err)
		require.Equal(t, first, second)
		require.GreaterOrEqual(t, w.fake.Saved(), 2)
		_, err = w.open("another-token", cache).Checks(w.t.Context(), w.head)
		require.Equal(t, forge.Unauthorized, forge.KindOf(err), "what one token may see, another may not")
		w.fake.Set(func(b *fakeforge.Behaviour) {
			b.CI = func(string) []fakeforge.Check { return []fakeforge.Check{fakeforge.Red("build", "")} }
		})
		third, err := f.Checks(w.t.Context(), w.head)
		require.NoError(t, err)
		require.Equal(t, machine.Failed, third[0].Outcome)
	})
}

func TestLimits(t *testing.T) {
	reset := time.Now().Add(90 * time.Second).Truncate(time.Second)
	for name, c := range map[string]struct {
		fault fakeforge.Fault
		at    time.Time
		kind  forge.Kind
	}{
		"primary": {fakeforge.Fault{Status: 403, Header: map[string]string{
			"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": strconv.FormatInt(reset.Unix(), 10)}}, reset, forge.Limited},
		"date":           {fakeforge.Fault{Status: 503, Header: map[string]string{"Retry-After": reset.UTC().Format(http.TimeFormat)}}, reset, forge.Limited},
		"without a time": {fakeforge.Fault{Status: 429}, time.Time{}, forge.Limited},
		"far away":       {fakeforge.Fault{Status: 429, Header: map[string]string{"Retry-After": "99999999"}}, time.Now().Add(24 * time.Hour), forge.Limited},
		"only words":     {fakeforge.Fault{Status: 403, Body: `{"message":"the branch is called rate limit"}`}, time.Time{}, forge.Refused},
		"remaining some": {fakeforge.Fault{Status: 403, Header: map[string]string{"X-RateLimit-Remaining": "12"}}, time.Time{}, forge.Refused},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, slice.ForgeGitHub)
			w.first(http.MethodGet, "", c.fault)
			_, err := w.propose()
			require.Equal(t, c.kind, forge.KindOf(err), "%v", err)
			if c.at.IsZero() {
				require.True(t, forge.RetryAt(err).IsZero())
			} else {
				require.WithinDuration(t, c.at, forge.RetryAt(err), 10*time.Second)
			}
			require.Empty(t, w.fake.Pulls())
		})
	}
}

func TestAServerThatIsNotThere(t *testing.T) {
	inBoth(t, func(t *testing.T, w *world) {
		w.fake.Close()
		_, err := w.propose()
		require.Equal(t, forge.Unreachable, forge.KindOf(err))
		ctx, cancel := context.WithCancel(w.t.Context())
		cancel()
		_, err = w.forge.Propose(ctx, w.draft())
		require.Error(t, err)
	})
}

func TestAWrongTokenIsNotRetried(t *testing.T) {
	inBoth(t, func(t *testing.T, w *world) {
		err := w.open("wrong-token-of-somebody", nil).Check(w.t.Context())
		require.Equal(t, forge.Unauthorized, forge.KindOf(err))
		require.False(t, forge.KindOf(err).Retryable())
		require.NotContains(t, err.Error(), "wrong-token-of-somebody")
	})
}
