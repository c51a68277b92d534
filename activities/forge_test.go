package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"interlock/activities/forge"
	"interlock/activities/forge/fakeforge"
	"interlock/activities/workspace"
	"interlock/ledger"
	"interlock/machine"
	"interlock/slice"
)

const (
	greet     = "greet"
	tokenName = "INTERLOCK_TEST_TOKEN"
)

// shop is a repository with a remote at a code host, and a slice whose work is
// verified.
type shop struct {
	t          *testing.T
	home, repo string
	remote     string
	fake       *fakeforge.Server
	header     slice.Header
	whole, tip string
	branch     string
	a          *Activities
	deliver    slice.Deliver
}

// newShop makes one; a kind of "git" makes the remote a plain one.
func newShop(t *testing.T, kind slice.ForgeKind) *shop {
	t.Helper()
	top := t.TempDir()
	s := &shop{t: t, home: filepath.Join(top, "home"), repo: filepath.Join(top, "repo"), remote: filepath.Join(top, "api.git"), branch: slice.Branch(greet)}
	require.NoError(t, os.MkdirAll(s.repo, 0o755))
	shell(t, s.repo, `git init -q -b main; echo a > README.md; git add -A; git commit -q -m base
git init -q --bare -b main ../api.git; git remote add origin "$(cd ../api.git; pwd)"; git push -q origin main
git checkout -q -b work; echo hello > hello.txt; git add -A; git commit -q -m work; git checkout -q main`)
	s.whole, s.tip = shell(t, s.repo, "git rev-parse work"), shell(t, s.repo, "git rev-parse main")
	s.fake = fakeforge.New(s.remote)
	t.Cleanup(s.fake.Close)
	t.Setenv(tokenName, s.fake.Token)
	s.deliver = slice.Deliver{To: "merge"}
	if kind != slice.ForgeGit {
		s.deliver.Checks = []string{"build"}
		s.deliver.Forge = &slice.Forge{Kind: kind, BaseURL: s.fake.URL, Repo: "shop/api", TokenEnv: tokenName}
	}
	s.fake.Set(func(b *fakeforge.Behaviour) {
		b.CI = func(string) []fakeforge.Check { return []fakeforge.Check{fakeforge.Green("build")} }
	})
	s.restart()
	store, err := workspace.Open(t.Context(), s.home, s.repo)
	require.NoError(t, err)
	_, err = store.Tip(t.Context(), greet, "work")
	require.NoError(t, err)
	require.NoError(t, store.SetRef(t.Context(), greet, refGood, s.whole, ""))
	b, err := json.Marshal(terms{
		Spec:   slice.Spec{ID: greet, Title: "Greet", Base: "main", Tasks: []slice.Task{{ID: "t1", Criterion: "There is a greeting."}}},
		Policy: slice.Policy{Deliver: s.deliver},
	})
	require.NoError(t, err)
	require.NoError(t, store.SetBlob(t.Context(), greet, specBlob, b))
	s.header = slice.Header{
		Slice: greet, Run: 1, Op: greet + "/1/9", Repo: s.repo, Key: store.Key(), Plan: ledger.Hash(string(b)),
		Base: s.tip, Good: s.whole, At: 1_700_000_000_000,
	}
	return s
}

// restart is what a killed worker leaves: nothing in memory.
func (s *shop) restart() {
	s.t.Helper()
	var err error
	s.a, err = New(Options{Home: s.home, Host: slice.Host{ID: "h"}, Agents: 1})
	require.NoError(s.t, err)
}

func (s *shop) git(script string) string { s.t.Helper(); return shell(s.t, s.remote, script) }

func (s *shop) publish(ctx context.Context) (slice.Ended, slice.Later, error) {
	out, err := s.a.publish(ctx, slice.PublishIn{Header: s.header, To: machine.ToMerge, Branch: s.branch, Commit: s.whole})
	return out.Ended, slice.Later{}, err
}

func (s *shop) propose(ctx context.Context, known int) (slice.Ended, slice.Later, error) {
	out, err := s.a.propose(ctx, slice.ProposeIn{
		Header: s.header, Onto: "main", Branch: s.branch, Commit: s.whole, Proposal: slice.Proposal{Number: known},
		Checks: []slice.Measured{{Name: "unit", Outcome: machine.Done, Passed: 3}},
	})
	return out.Ended, out.Later, err
}

func (s *shop) merge(ctx context.Context) (slice.Ended, slice.Later, error) {
	out, err := s.a.merge(ctx, slice.MergeIn{
		Header: s.header, Onto: "main", Tip: s.tip, Branch: s.branch, Commit: s.whole, Proposal: slice.Proposal{Number: 1},
	})
	return out.Ended, out.Later, err
}

func (s *shop) undo(what slice.Undone) func(context.Context) (slice.Ended, slice.Later, error) {
	return func(ctx context.Context) (slice.Ended, slice.Later, error) {
		out, err := s.a.undo(ctx, slice.UndoIn{Header: s.header, What: what, To: machine.ToMerge, Branch: s.branch, Commit: s.whole, Ending: machine.Cancelled})
		return slice.Ended{Outcome: machine.Done, Why: out.Seen}, slice.Later{}, err
	}
}

// done takes a step that is expected to be done.
func (s *shop) done(do func(context.Context) (slice.Ended, slice.Later, error)) slice.Ended {
	s.t.Helper()
	ended, later, err := do(s.t.Context())
	require.NoError(s.t, err)
	require.Equal(s.t, slice.Later{}, later)
	require.Equal(s.t, machine.Done, ended.Outcome, ended.Why)
	return ended
}

func (s *shop) first(ctx context.Context) (slice.Ended, slice.Later, error) { return s.propose(ctx, 0) }
func (s *shop) again(ctx context.Context) (slice.Ended, slice.Later, error) { return s.propose(ctx, 1) }

func (s *shop) mergedTimes() int {
	n, err := strconv.Atoi(s.git("git rev-list --count --first-parent main"))
	require.NoError(s.t, err)
	return n - 1
}

// stepAtForge is one effect: what comes before it, and how often it has happened.
type stepAtForge struct {
	name   string
	part   string // of the request that has the effect
	before func(*shop)
	do     func(*shop) func(context.Context) (slice.Ended, slice.Later, error)
	times  func(*shop) int
}

type doing = func(context.Context) (slice.Ended, slice.Later, error)

var stepsAtForge = []stepAtForge{
	{
		"open", "/pulls", func(s *shop) { s.done(s.publish) }, func(s *shop) doing { return s.first },
		func(s *shop) int { return len(s.fake.Pulls()) },
	},
	{
		"comment", "/comments", func(s *shop) { s.done(s.publish); s.done(s.first) }, func(s *shop) doing { return s.again },
		func(s *shop) int { return len(s.fake.Pulls()[0].Comments) },
	},
	{
		"merge", "/merge", func(s *shop) { s.done(s.publish); s.done(s.first) }, func(s *shop) doing { return s.merge },
		(*shop).mergedTimes,
	},
	{
		"close", "/pulls/1", func(s *shop) { s.done(s.publish); s.done(s.first) },
		func(s *shop) doing { return s.undo(slice.UndoProposal) },
		func(s *shop) int {
			if s.fake.Pulls()[0].State == "open" {
				return 0
			}
			return len(s.fake.Pulls()[0].Comments)
		},
	},
}

// A worker is killed before or after an effect, and the step is taken again by
// another one, or twice by both: one effect in the end.
func TestAnEffectAtAForgeSurvivesItsWorker(t *testing.T) {
	for _, kind := range []slice.ForgeKind{slice.ForgeGitHub, slice.ForgeGitea} {
		for _, step := range stepsAtForge {
			for _, after := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/killed-after-%v", kind, step.name, after), func(t *testing.T) {
					s := newShop(t, kind)
					step.before(s)
					ctx, kill := context.WithCancel(t.Context())
					var killed atomic.Bool
					s.fake.Set(func(b *fakeforge.Behaviour) {
						b.Fault = func(r *http.Request) fakeforge.Fault {
							switch {
							case killed.Load():
								// Nothing that a killed worker asks for is heard.
								return fakeforge.Fault{Drop: true}
							case r.Method != http.MethodGet && strings.HasSuffix(r.URL.Path, step.part):
								killed.Store(true)
								kill()
								return fakeforge.Fault{Drop: true, After: after}
							}
							return fakeforge.Fault{}
						}
					})
					_, later, err := step.do(s)(ctx)
					require.True(t, killed.Load())
					require.Error(t, err, "a killed worker answers nothing: %+v", later)
					s.fake.Set(func(b *fakeforge.Behaviour) { b.Fault = nil })
					s.restart()
					s.done(step.do(s))
					s.done(step.do(s))
					require.Equal(t, 1, step.times(s))
				})
			}
		}
	}
}

func TestLimitsAndOutagesAreWaitedFor(t *testing.T) {
	for name, c := range map[string]struct {
		fault fakeforge.Fault
		want  slice.WaitFor
		at    bool
	}{
		"limit": {fakeforge.Fault{Status: 429, Header: map[string]string{"Retry-After": "60"}}, slice.WaitForge, true},
		"down":  {fakeforge.Fault{Status: 503}, slice.WaitForge, false},
		"gone":  {fakeforge.Fault{Drop: true}, slice.WaitForge, false},
	} {
		for _, step := range stepsAtForge[:3] {
			t.Run(name+"/"+step.name, func(t *testing.T) {
				s := newShop(t, slice.ForgeGitHub)
				step.before(s)
				s.fake.Set(func(b *fakeforge.Behaviour) { b.Fault = func(*http.Request) fakeforge.Fault { return c.fault } })
				ended, later, err := step.do(s)(t.Context())
				require.NoError(t, err)
				require.Empty(t, ended.Outcome)
				require.Equal(t, c.want, later.For)
				require.Equal(t, c.at, later.At > 0)
				require.NotEmpty(t, later.Why)
				require.Zero(t, step.times(s))
				s.fake.Set(func(b *fakeforge.Behaviour) { b.Fault = nil })
				s.done(step.do(s))
				require.Equal(t, 1, step.times(s))
			})
		}
	}
}

func TestAnEffectThatCannotBeReadIsUnknown(t *testing.T) {
	for _, step := range stepsAtForge[:3] {
		t.Run(step.name, func(t *testing.T) {
			s := newShop(t, slice.ForgeGitHub)
			step.before(s)
			var down atomic.Bool
			s.fake.Set(func(b *fakeforge.Behaviour) {
				b.Fault = func(r *http.Request) fakeforge.Fault {
					if down.Load() {
						return fakeforge.Fault{Status: 502}
					}
					if r.Method != http.MethodGet && strings.HasSuffix(r.URL.Path, step.part) {
						down.Store(true)
						return fakeforge.Fault{Drop: true, After: true}
					}
					return fakeforge.Fault{}
				}
			})
			_, later, err := step.do(s)(t.Context())
			require.NoError(t, err)
			require.Equal(t, slice.WaitUnknown, later.For)
			require.Contains(t, later.Why, "it is unknown whether")
			down.Store(false)
			s.fake.Set(func(b *fakeforge.Behaviour) { b.Fault = nil })
			s.done(step.do(s))
			require.Equal(t, 1, step.times(s))
		})
	}
}

func TestAPlainRemoteIsMergedIntoByAPushOfTheVerifiedCommit(t *testing.T) {
	s := newShop(t, slice.ForgeGit)
	s.done(s.publish)
	require.Equal(t, "a plain git remote has no proposals", s.done(s.first).Why)
	s.done(s.merge)
	require.Equal(t, s.whole, s.git("git rev-parse main"))
	s.restart()
	s.done(s.merge)
	// It stays merged when others have gone on from there.
	shell(t, s.repo, "git clone -q ../api.git ../other; cd ../other; git commit -q --allow-empty -m more; git push -q origin main")
	s.done(s.merge)
	require.Equal(t, "the views are removed", s.done(s.undo(slice.UndoViews)).Why)
	s.done(s.undo(slice.UndoBranch))
	require.Equal(t, "main", s.git("git for-each-ref --format='%(refname:short)' refs/heads"))
}

func TestABaseThatMovedIsNotMergedInto(t *testing.T) {
	for _, kind := range []slice.ForgeKind{slice.ForgeGit, slice.ForgeGitHub, slice.ForgeGitea} {
		t.Run(string(kind), func(t *testing.T) {
			s := newShop(t, kind)
			s.done(s.publish)
			s.done(s.first)
			moved := shell(t, s.repo, "git clone -q ../api.git ../other; cd ../other; echo x > x; git add -A; git commit -q -m more; git push -q origin main; git rev-parse HEAD")
			ended, later, err := s.merge(t.Context())
			require.NoError(t, err)
			require.Empty(t, later.For)
			require.Equal(t, machine.Failed, ended.Outcome)
			require.Equal(t, machine.CauseBaseMoved, ended.Cause)
			require.Equal(t, moved, s.git("git rev-parse main"))
			// The slice meets the base where it is merged, not where the copy on this host is.
			w, err := s.a.open(t.Context(), s.header)
			require.NoError(t, err)
			tip, err := w.tip(t.Context(), slice.ReconcileIn{BaseName: "main", Onto: "main", Header: s.header})
			require.NoError(t, err)
			require.Equal(t, tipped{Commit: moved}, tip)
			here, err := w.tip(t.Context(), slice.ReconcileIn{BaseName: "main", Header: s.header})
			require.NoError(t, err)
			require.Equal(t, s.tip, here.Commit)
		})
	}
}

func TestAPlainRemoteThatRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*shop)
		cause  machine.Cause
	}{
		"hook": {func(s *shop) {
			hook := "#!/bin/sh\n[ \"$1\" != refs/heads/main ] || { echo main is protected >&2; exit 1; }\n"
			require.NoError(s.t, os.WriteFile(filepath.Join(s.remote, "hooks", "update"), []byte(hook), 0o755))
		}, machine.CauseRefused},
		"no base any more":   {func(s *shop) { s.git("git update-ref -d refs/heads/main") }, machine.CauseMissing},
		"no remote any more": {func(s *shop) { require.NoError(s.t, os.RemoveAll(s.remote)) }, machine.CauseMissing},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t, slice.ForgeGit)
			s.done(s.publish)
			c.change(s)
			ended, later, err := s.merge(t.Context())
			require.NoError(t, err)
			require.Empty(t, later.For, later.Why)
			require.Equal(t, [2]string{string(machine.Failed), string(c.cause)}, [2]string{string(ended.Outcome), string(ended.Cause)}, ended.Why)
		})
	}
}

// CI that turned red while a person was asked keeps the merge from happening.
func TestCIIsLookedAtAgainBeforeTheMerge(t *testing.T) {
	s := newShop(t, slice.ForgeGitHub)
	s.done(s.publish)
	s.done(s.first)
	set := func(c fakeforge.Check) {
		s.fake.Set(func(b *fakeforge.Behaviour) { b.CI = func(string) []fakeforge.Check { return []fakeforge.Check{c} } })
	}
	set(fakeforge.Red("build", ""))
	ended, _, err := s.merge(t.Context())
	require.NoError(t, err)
	require.Equal(t, machine.CauseRefused, ended.Cause)
	require.Contains(t, ended.Why, "CI is not green any more: build failed: http")
	set(fakeforge.Check{Name: "build", Status: "queued"})
	_, later, err := s.merge(t.Context())
	require.NoError(t, err)
	require.Equal(t, slice.WaitCI, later.For)
	require.Zero(t, s.mergedTimes())
}

func TestWhoClosesSeesWhatBecameOfIt(t *testing.T) {
	s := newShop(t, slice.ForgeGitHub)
	require.Equal(t, "nothing was proposed", s.done(s.undo(slice.UndoProposal)).Why)
	s.done(s.publish)
	s.done(s.first)
	s.done(s.merge)
	require.Contains(t, s.done(s.undo(slice.UndoProposal)).Why, "/shop/api/pull/1 is merged")
	require.Empty(t, s.fake.Pulls()[0].Comments, "what is merged is not closed, and nothing is said")

	plain := newShop(t, slice.ForgeGit)
	require.Equal(t, "nothing was proposed: it is a plain git remote", plain.done(plain.undo(slice.UndoProposal)).Why)
}

// A round that was cut off before its push leaves the branch where the round
// before has put it, which is ours too.
func TestABranchOfAnEarlierRoundIsDeletedToo(t *testing.T) {
	s := newShop(t, slice.ForgeGit)
	s.done(s.publish)
	s.whole = shell(t, s.repo, "git commit-tree 'work^{tree}' -p work -m next")
	require.Contains(t, s.done(s.undo(slice.UndoBranch)).Why, "is not at")
	require.Equal(t, "main", s.git("git for-each-ref --format='%(refname:short)' refs/heads"))
}

func TestDecideCI(t *testing.T) {
	green := forge.Check{Name: "build", Outcome: machine.Done, Why: "success"}
	red := forge.Check{Name: "test", Outcome: machine.Failed, Why: "failure", URL: "https://ci/1"}
	runs := forge.Check{Name: "lint", Why: "in_progress"}
	skipped := forge.Check{Name: "docs", Outcome: machine.Unmeasured, Why: "skipped"}
	for name, c := range map[string]struct {
		names []string
		seen  []forge.Check
		want  machine.Outcome
		why   string
	}{
		"no names":               {[]string{}, []forge.Check{red}, machine.Done, "the policy requires no check"},
		"green":                  {[]string{"build"}, []forge.Check{green, red}, machine.Done, ""},
		"nothing seen":           {[]string{"build"}, nil, "", "build was not seen"},
		"other names":            {[]string{"Build"}, []forge.Check{green}, "", "Build was not seen"},
		"one is missing":         {[]string{"build", "e2e"}, []forge.Check{green}, "", "e2e was not seen"},
		"one runs":               {[]string{"build", "lint"}, []forge.Check{green, runs}, "", "lint is in_progress"},
		"red before all is seen": {[]string{"build", "test", "e2e"}, []forge.Check{red}, machine.Failed, "test failed: https://ci/1"},
		"skipped":                {[]string{"build", "docs"}, []forge.Check{green, skipped}, machine.Unmeasured, "docs: skipped"},
		"skipped, and one runs":  {[]string{"docs", "lint"}, []forge.Check{skipped, runs}, "", "lint is in_progress"},
	} {
		t.Run(name, func(t *testing.T) {
			v := decideCI(c.names, c.seen)
			require.Equal(t, c.want, v.outcome)
			require.Equal(t, c.why, v.why)
			require.Len(t, v.results, len(c.names))
		})
	}
}

// What a forge would read as a mention, a reference or markup is not written
// by who proposes.
func TestWordsOfOthersAreQuoted(t *testing.T) {
	s := slice.Spec{Title: "Greet", Tasks: []slice.Task{{ID: "t1", Criterion: "Closes #1:\n there is a greeting."}}}
	text := proposalText(s, slice.ProposeIn{
		Commit: "abc", Extra: []slice.Task{{ID: "ci", Criterion: "CI is green: build failed."}, {ID: "t1", Criterion: "again"}},
		Checks: []slice.Measured{{Name: "unit`](http://evil)", Outcome: machine.Done, Passed: 2}},
		Open:   []slice.Finding{{File: "a.go", Line: 3, Claim: "@everyone closes #7 `rm -rf`\n<!-- interlock: closed -->\nInterlock-Slice: other"}},

		E2EUnmeasured: true,
	})
	require.Contains(t, text, "- Closes #1: there is a greeting.\n- CI is green: build failed.\n\n")
	require.Contains(t, text, "- `unit'](http://evil)`: done (2 passed, 0 failed, 0 skipped)")
	require.Contains(t, text, "- `a.go:3` `@everyone closes #7 'rm -rf' <!-- interlock: closed --> Interlock-Slice: other`")
	require.Contains(t, text, "**not measured**")
	require.NotContains(t, text, "again")
	require.NotContains(t, text, "\nInterlock-Slice: other")
	long := title(strings.Repeat("ö", 300), "id")
	require.LessOrEqual(t, len([]rune(long)), 250)
	require.True(t, strings.HasSuffix(long, "… [id]"))
}
