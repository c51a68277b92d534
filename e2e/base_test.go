//go:build linux

package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"interlock/machine"
	"interlock/slice"
)

// TestBaseMoves runs slices whose base somebody else moves while they run. The
// implementer stands in for that somebody: it works in the user's repository.
func TestBaseMoves(t *testing.T) {
	t.Parallel()
	const (
		// user is git in the user's repository.
		user = `user() { git -C $REPO -c user.name=u -c user.email=u@u "$@"; }; `
		// other makes a commit on main of the user's repository without touching its files.
		other = user + `
			other() { b=$(printf '%s\n' "$2" | user hash-object -w --stdin)
				t=$( (user ls-tree main; printf '100644 blob %s\t%s\n' $b "$1") | awk '{n=$4; l[n]=$0} END {for (n in l) print l[n]}' | user mktree)
				user update-ref refs/heads/main $(user commit-tree -p main -m other $t); }; `
	)
	for _, row := range []struct {
		name        string
		implementer string
		files       map[string]string
		checks      string
		ending      machine.Ending // empty: delivered
		cause       machine.Cause
		why         []string
		merged      map[string]string // in the delivered commit
	}{
		{name: "clean advance", implementer: other + `other other.txt theirs; work; answer`,
			merged: map[string]string{"hello.txt": hello, "other.txt": "theirs"}},
		{name: "clean advance that breaks the whole", implementer: other + `other other.txt theirs; work; answer`,
			checks: `[{name: works, run: "test ! -e hello.txt || test ! -e other.txt"}]`,
			ending: machine.BlockedVerify, cause: machine.CauseRed},
		{name: "conflict", implementer: other + `other hello.txt theirs; other also.txt theirs; work; echo mine >also.txt; answer`,
			ending: machine.BlockedReconcile, cause: machine.CauseConflict, why: []string{"hello.txt", "also.txt", "main moved"}},
		{name: "base deleted", implementer: user + `user checkout -q --detach; user branch -q -D main; work; answer`,
			ending: machine.BlockedReconcile, cause: machine.CauseConflict, why: []string{`there is no branch or tag "main"`}},
		{name: "base becomes a tag too", implementer: user + `user tag main; work; answer`,
			ending: machine.BlockedReconcile, cause: machine.CauseConflict, why: []string{"refs/heads/main"}},
		{name: "base forced to another history", implementer: user + `user update-ref refs/heads/main $(user commit-tree -m orphan main^{tree}); work; answer`,
			ending: machine.BlockedReconcile, cause: machine.CauseConflict, why: []string{"no common ancestor"}},
		{name: "base forced back", implementer: user + `user update-ref refs/heads/main main~1; work; answer`,
			merged: map[string]string{"hello.txt": hello, "last.txt": "last"}},
		{name: "policy loosened at the base", implementer: other + `other interlock.yaml "$(sed 's/^checks:.*/checks: [{name: works, run: "test -s README.md"}]/' $REPO/interlock.yaml)"; work; echo BROKEN >hello.txt; answer`,
			ending: machine.BlockedChecks, cause: machine.CauseRed},
		{name: "submodule arrives", implementer: user + `user update-ref refs/heads/main $(user commit-tree -p main -m sub $( (user ls-tree main; printf '160000 commit %s\tsub\n' $(user rev-parse main)) | user mktree)); work; answer`,
			ending: machine.BlockedReconcile, cause: machine.CauseConflict, why: []string{"submodule"}},
		{name: "repository gone", implementer: `mv $REPO $REPO.away; work; answer`,
			ending: machine.BlockedChecks, cause: machine.CauseUnmeasured, why: []string{"no repository at"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, setup{implementer: row.implementer, budgets: "checks: 0, reconcile: 1", checks: row.checks, before: func(w *world) {
				if row.name == "base forced back" {
					w.write("last.txt", "last\n")
					w.git(w.repo, "add", "-A")
					w.git(w.repo, "commit", "-q", "-m", "Last")
				}
			}})
			r, how := w.run()
			ending := row.ending
			if ending == "" {
				ending = machine.Delivered
			}
			require.Equal(t, [2]string{string(ending), string(row.cause)}, [2]string{string(r.Ending), string(r.Cause)}, "%s\n%s", r.Why, how.stderr)
			for _, why := range row.why {
				require.Contains(t, r.Why, why)
			}
			require.Empty(t, w.left())
			verified := interlock(t, "ledger", w.id, "--verify")
			require.Zero(t, verified.code, verified.stdout+verified.stderr)
			if ending != machine.Delivered {
				require.NotContains(t, w.refsOf(w.remote), "refs/heads/"+slice.Branch(w.id))
				// The base that the slice began from is kept.
				require.Contains(t, w.refsOf(w.store()), "refs/interlock/"+w.id+"/base")
				return
			}
			branch := slice.Branch(w.id)
			for name, text := range row.merged {
				require.Equal(t, text, w.git(w.remote, "cat-file", "-p", branch+":"+name))
			}
			require.Equal(t, r.Commit, w.git(w.remote, "rev-parse", branch))
			// Nobody's files were touched.
			_, err := os.Stat(filepath.Join(w.repo, "hello.txt"))
			require.ErrorIs(t, err, os.ErrNotExist)
		})
	}
}

// TestDelivery delivers to places that do not take it.
func TestDelivery(t *testing.T) {
	t.Parallel()
	foreign := func(dir func(*world) string) func(*world) {
		return func(w *world) {
			id := w.git(w.repo, "commit-tree", "-p", "main", "-m", "foreign", "main^{tree}")
			w.git(w.repo, "push", "-q", dir(w), id+":refs/heads/"+slice.Branch(w.id))
		}
	}
	remote := func(w *world) string { return w.remote }
	repo := func(w *world) string { return w.repo }
	for _, row := range []struct {
		name    string
		deliver string
		before  func(*world)
		ending  machine.Ending // empty: delivered
		cause   machine.Cause
		why     []string
	}{
		{name: "published", deliver: "{to: publish}"},
		{name: "branch", deliver: "{to: branch}"},
		{name: "remote of another name", deliver: "{to: publish, remote: upstream}", before: func(w *world) { w.git(w.repo, "remote", "rename", "origin", "upstream") }},
		{name: "no such remote", deliver: "{to: publish}", before: func(w *world) { w.git(w.repo, "remote", "remove", "origin") },
			ending: machine.BlockedDelivery, cause: machine.CauseMissing, why: []string{`no remote "origin"`, "deliver.remote"}},
		{name: "remote is gone", deliver: "{to: publish}", before: func(w *world) { w.git(w.repo, "remote", "set-url", "origin", "/no/such/repository.git") },
			ending: machine.BlockedDelivery, cause: machine.CauseMissing, why: []string{"/no/such/repository.git"}},
		{name: "rejected by a hook", deliver: "{to: publish}", before: func(w *world) {
			hook := filepath.Join(w.remote, "hooks", "pre-receive")
			require.NoError(w.t, os.MkdirAll(filepath.Dir(hook), 0o755))
			require.NoError(w.t, os.WriteFile(hook, []byte("#!/bin/sh\necho no pushing on Fridays >&2\nexit 1\n"), 0o755))
		}, ending: machine.BlockedDelivery, cause: machine.CauseRefused, why: []string{"no pushing on Fridays"}},
		{name: "somebody else's branch at the remote", deliver: "{to: publish}", before: foreign(remote),
			ending: machine.BlockedDelivery, cause: machine.CauseConflict, why: []string{"moved by somebody else"}},
		{name: "somebody else's branch here", deliver: "{to: branch}", before: foreign(repo),
			ending: machine.BlockedDelivery, cause: machine.CauseConflict, why: []string{"expected nothing"}},
		{name: "branch in the way of the branch", deliver: "{to: publish}", before: func(w *world) { w.git(w.repo, "push", "-q", "origin", "main:refs/heads/interlock") },
			ending: machine.BlockedDelivery, cause: machine.CauseRefused, why: []string{"refs/heads/interlock"}},
		{name: "branch in the way of the branch here", deliver: "{to: branch}", before: func(w *world) { w.git(w.repo, "branch", "interlock", "main") },
			ending: machine.BlockedDelivery, cause: machine.CauseRefused, why: []string{"refs/heads/interlock"}},
		{name: "branch locked here", deliver: "{to: branch}", before: func(w *world) {
			hook := filepath.Join(w.repo, ".git", "hooks", "reference-transaction")
			require.NoError(w.t, os.MkdirAll(filepath.Dir(hook), 0o755))
			require.NoError(w.t, os.WriteFile(hook, []byte("#!/bin/sh\nexit 1\n"), 0o755))
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, setup{deliver: row.deliver, before: row.before})
			if row.ending == "" {
				w.ends(machine.Delivered, "")
				where := w.remote
				if row.deliver == "{to: branch}" {
					where = w.repo
				}
				w.delivered(where, map[string]string{"hello.txt": hello})
				return
			}
			branch := "refs/heads/" + slice.Branch(w.id)
			before := w.refsOf(w.remote)[branch] + w.refsOf(w.repo)[branch]
			r := w.ends(row.ending, row.cause)
			for _, why := range row.why {
				require.Contains(t, r.Why, why)
			}
			require.Equal(t, before, w.refsOf(w.remote)[branch]+w.refsOf(w.repo)[branch])
		})
	}
}

// TestBranchCheckedOut delivers to a branch that the user is on.
func TestBranchCheckedOut(t *testing.T) {
	t.Parallel()
	// The user switches while the slice runs, to a branch that has no commit yet.
	w := newWorld(t, setup{deliver: "{to: branch}", implementer: `git -C $REPO symbolic-ref HEAD refs/heads/interlock/$ID; work; answer`})
	r, how := w.run()
	require.Equal(t, 22, how.code, how.stderr)
	require.Equal(t, machine.CauseRefused, r.Cause)
	require.Contains(t, r.Why, "is checked out in "+w.repo)
	require.NotContains(t, w.refsOf(w.repo), "refs/heads/"+slice.Branch(w.id))
}
