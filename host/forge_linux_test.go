package host

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"interlock/activities/forge/fakeforge"
	"interlock/machine"
	"interlock/slice"
)

const forgeToken = "secret-token-of-the-forge"

// atForge makes the remote of the site a repository of a code host.
func (s *site) atForge(kind slice.ForgeKind) *fakeforge.Server {
	s.t.Helper()
	fake := fakeforge.New(s.remote)
	fake.Token = forgeToken
	s.t.Cleanup(fake.Close)
	s.deliver = slice.Deliver{To: "merge", Remote: "origin", Checks: []string{"build"},
		Forge: &slice.Forge{Kind: kind, BaseURL: fake.URL, Repo: "shop/api"}}
	fake.Set(func(b *fakeforge.Behaviour) {
		b.CI = func(string) []fakeforge.Check { return []fakeforge.Check{fakeforge.Green("build")} }
	})
	return fake
}

// requireMerged asserts that the work is in the base once, and nothing else is left.
func (s *site) requireMerged() {
	s.t.Helper()
	require.NoError(s.t, s.err, "%s", s.log())
	require.Equal(s.t, machine.Delivered, s.result.Ending, s.result.Why)
	require.Empty(s.t, s.result.Failed)
	require.EqualValues(s.t, undisturbedCost, s.result.CostMicroUSD)
	require.Equal(s.t, s.trees[1], s.git(s.remote, "rev-parse", "main^{tree}"))
	require.Equal(s.t, "2", s.git(s.remote, "rev-list", "--count", "--no-merges", "--grep="+slice.TrailerTask, "main"))
	require.Equal(s.t, "refs/heads/main", s.git(s.remote, "for-each-ref", "--format=%(refname)"))
	s.requireNothingLeft()
}

// The worker is killed when the forge has heard a request, before or after it
// does what it was asked for; the answer reaches nobody. Every effect happens once.
func TestWorkerKilledAroundAnEffectAtAForge(t *testing.T) {
	for _, kind := range []slice.ForgeKind{slice.ForgeGitHub, slice.ForgeGitea} {
		for _, part := range []string{"/pulls", "/merge"} {
			for _, after := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s %s after=%v", kind, part, after), func(t *testing.T) {
					t.Parallel()
					s := newSite(t)
					fake := s.atForge(kind)
					var first atomic.Pointer[workerProcess]
					var killed atomic.Bool
					fake.Set(func(b *fakeforge.Behaviour) {
						b.Fault = func(r *http.Request) fakeforge.Fault {
							if r.Method == http.MethodGet || !strings.HasSuffix(r.URL.Path, part) || killed.Swap(true) {
								return fakeforge.Fault{}
							}
							w := first.Load()
							_ = w.cmd.Process.Kill()
							<-w.ended
							return fakeforge.Fault{Drop: true, After: after}
						}
					})
					s.start()
					w := s.worker(plan{})
					first.Store(w)
					all := s.finishWith(w)
					require.Len(t, all, 2, "the worker was not killed, or more than once")
					s.requireMerged()
					require.Len(t, fake.Pulls(), 1)
					require.True(t, fake.Pulls()[0].Merged)
					require.Equal(t, "2", s.git(s.remote, "rev-list", "--count", "--first-parent", "main"))
					all[1].stop()
					s.requireNoProcess()
				})
			}
		}
	}
}

func TestWorkerKilledInEveryActivityOfAMerge(t *testing.T) {
	for _, p := range []point{
		{"propose", 1, atStart, 0}, {"propose", 1, atEnd, 0}, {"await_ci", 1, atStart, 0}, {"await_ci", 1, atEnd, 0},
		{"merge", 1, atStart, 0}, {"merge", 1, atEnd, 0}, {"undo", 1, atStart, 0}, {"undo", 1, atEnd, 0},
	} {
		for _, kind := range []slice.ForgeKind{slice.ForgeGit, slice.ForgeGitHub} {
			if testing.Short() && p.Activity != "merge" {
				continue
			}
			t.Run(fmt.Sprintf("%s %s %s", kind, p.Activity, p.At), func(t *testing.T) {
				t.Parallel()
				s := newSite(t)
				if kind == slice.ForgeGit {
					s.deliver = slice.Deliver{To: "merge", Remote: "origin"}
				} else {
					s.atForge(kind)
				}
				s.start()
				all := s.finish(plan{Kill: &p})
				require.Len(t, all, 2, "the worker was not killed, or more than once")
				s.requireMerged()
				all[1].stop()
			})
		}
	}
}
