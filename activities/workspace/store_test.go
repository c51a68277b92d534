package workspace

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestFetch(t *testing.T) {
	f := setup(t, sourceScript+`
git tag -a -m note v1
git branch both; git tag both
git branch deadbeef; git tag 20240501
git checkout -q -b other; echo x > o; git add o; git commit -qm o; git checkout -q main
git branch `+strings.Repeat("a", 40)+`
git checkout -q --orphan lfs; echo '*.bin filter=lfs diff=lfs' > .gitattributes; git add .gitattributes; git commit -qm lfs; git checkout -q main
git checkout -q -b sub; git update-index --add --cacheinfo 160000,$(git rev-parse main),mod; git commit -qm sub; git checkout -q main
git branch evil $(git commit-tree -m evil $(printf '040000 tree %s\t.Git\n' $(git rev-parse main:src) | git mktree))
git tag blob $(git rev-parse main:plain.txt)
`)
	other := sh(t, f.source, "git rev-parse other")
	deadbeef := sh(t, f.source, "git rev-parse deadbeef")
	for _, row := range []struct {
		base, commit, ref string
		kind              Kind
	}{
		{base: "main", commit: f.base, ref: "refs/heads/main"},
		{base: "refs/heads/main", commit: f.base, ref: "refs/heads/main"},
		{base: "HEAD", commit: f.base, ref: "refs/heads/main"},
		{base: "v1", commit: f.base, ref: "refs/tags/v1"},
		{base: "refs/tags/v1", commit: f.base, ref: "refs/tags/v1"},
		{base: f.base, commit: f.base},
		{base: other, commit: other},
		{base: "other", commit: other, ref: "refs/heads/other"},
		{base: "both", kind: AmbiguousBase},
		{base: "refs/heads/both", commit: f.base, ref: "refs/heads/both"},
		{base: "deadbeef", kind: AmbiguousBase},
		{base: "20240501", kind: AmbiguousBase},
		{base: strings.Repeat("a", 40), kind: AmbiguousBase},
		{base: "refs/heads/deadbeef", commit: deadbeef, ref: "refs/heads/deadbeef"},
		{base: f.base[:10], kind: NoSuchBase},
		{base: strings.Repeat("b", 40), kind: NoSuchBase},
		{base: "nope", kind: NoSuchBase},
		{base: "refs/heads/nope", kind: NoSuchBase},
		{base: "", kind: NoSuchBase},
		{base: "--upload-pack=touch x", kind: NoSuchBase},
		{base: "-x", kind: NoSuchBase},
		{base: "ma*", kind: NoSuchBase},
		{base: "main~1", kind: NoSuchBase},
		{base: "blob", kind: NoSuchBase},
		{base: "lfs", kind: LFS},
		{base: "sub", kind: Submodule},
		{base: "evil", kind: UnsafePath},
	} {
		t.Run(row.base, func(t *testing.T) {
			b, err := f.store.Fetch(f.ctx, "s2", row.base)
			if row.kind != "" {
				require.Equal(t, row.kind, KindOf(err), "%v", err)
				require.False(t, KindOf(err).Retryable())
				return
			}
			require.NoError(t, err)
			require.Equal(t, Base{Commit: row.commit, Ref: row.ref}, b)
			require.Equal(t, row.commit, must(f.store.Ref(f.ctx, "s2", "base")))
			require.Empty(t, must(f.store.Ref(f.ctx, "s2", "incoming")))
		})
	}
}

// TestTip: the base branch moves, is force-pushed, is deleted; the recorded base survives all of it.
func TestTip(t *testing.T) {
	f := setup(t, sourceScript)
	sh(t, f.source, "echo x > new; git add new; git commit -qm new")
	b, err := f.store.Tip(f.ctx, "s1", "main")
	require.NoError(t, err)
	require.Equal(t, sh(t, f.source, "git rev-parse main"), b.Commit)
	require.Equal(t, f.base, must(f.store.Ref(f.ctx, "s1", "base")))
	require.True(t, must(f.store.Contains(f.ctx, b.Commit, f.base)))

	sh(t, f.source, "git checkout -q --orphan fresh; git commit -qm fresh; git branch -f main; git reflog expire --expire=now --all; git gc -q --prune=now")
	b, err = f.store.Tip(f.ctx, "s1", "main")
	require.NoError(t, err)
	_, err = f.store.Merge(f.ctx, f.base, b.Commit)
	require.Equal(t, Unrelated, KindOf(err))

	sh(t, f.source, "git branch -D main")
	_, err = f.store.Tip(f.ctx, "s1", "main")
	require.Equal(t, NoSuchBase, KindOf(err))
	require.Equal(t, f.base, must(f.store.Ref(f.ctx, "s1", "base")))
	require.NoError(t, f.ws.Restore(f.ctx, f.base, false))
	require.NoError(t, os.Rename(f.source, f.source+"-moved"))
	_, err = f.store.Tip(f.ctx, "s1", "main")
	require.Equal(t, NotARepository, KindOf(err))
}

func TestOpen(t *testing.T) {
	f := setup(t, sourceScript)
	sh(t, f.top, `git clone -q --depth 1 "file://$PWD/source" shallow; mkdir empty; echo x > file; git init -q sha256 --object-format=sha256; git clone -q --bare source bare.git; ln -s source alias; git -C source worktree add -q ../linked -b linked; git init -q new`)
	for _, row := range []struct {
		location string
		kind     Kind
	}{
		{f.top + "/nothing", NotARepository},
		{f.top + "/empty", NotARepository},
		{f.top + "/file", NotARepository},
		{f.source + "/src", NotARepository},
		{f.top + "/sha256", ObjectFormat},
		{"relative/path", InvalidInput},
		{"-x", InvalidInput},
		{"ext::sh -c 'touch x'", InvalidInput},
		{"ssh://-oProxyCommand=x/y", InvalidInput},
		{"", InvalidInput},
	} {
		_, err := Open(f.ctx, f.home, row.location)
		require.Equal(t, row.kind, KindOf(err), "%s: %v", row.location, err)
	}
	for _, same := range []string{"/source/", "/source/.git", "/alias", "/linked"} {
		s, err := Open(f.ctx, f.home, f.top+same)
		require.NoError(t, err, same)
		require.Equal(t, f.store.Key(), s.Key(), same)
	}
	s, err := Open(f.ctx, f.home, "file://"+f.source)
	require.NoError(t, err)
	require.Equal(t, f.store.Key(), s.Key())
	for location, kind := range map[string]Kind{"shallow": Shallow, "new": NoSuchBase, "bare.git": ""} {
		s, err := Open(f.ctx, f.home, f.top+"/"+location)
		require.NoError(t, err)
		_, err = s.Fetch(f.ctx, "s1", "main")
		require.Equal(t, kind, KindOf(err), "%s: %v", location, err)
	}
	// Nobody listens there: it may pass.
	s, err = Open(f.ctx, f.home, "http://user:secret@127.0.0.1:1/a.git")
	require.NoError(t, err)
	_, err = s.Fetch(f.ctx, "s1", "main")
	require.Equal(t, Unreachable, KindOf(err), "%v", err)
	require.NotContains(t, err.Error(), "secret")
	out, err := exec.Command("grep", "-r", "secret@", f.home).CombinedOutput()
	require.Error(t, err, "%s", out)
}

func TestDubiousOwnership(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give a repository to another user")
	}
	f := setup(t, sourceScript)
	sh(t, f.source, "echo x > new; git add new; git commit -qm new; chown -R 65534 .")
	s, err := Open(f.ctx, f.home, f.source)
	require.NoError(t, err)
	b, err := s.Tip(f.ctx, "s1", "main")
	require.NoError(t, err)
	require.NotEqual(t, f.base, b.Commit)
	require.NoError(t, s.LocalBranch(f.ctx, "interlock/s1", b.Commit, ""))
	_, err = s.Push(f.ctx, f.source, "pushed", b.Commit, "")
	require.NoError(t, err)
}

func TestKey(t *testing.T) {
	for _, same := range [][]string{
		{"https://github.com/a/b", "https://GitHub.com/a/b.git", "HTTPS://user:token@github.com/a/b/"},
		{"git@github.com:a/b.git", "ssh://git@github.com/a/b"},
	} {
		for _, location := range same {
			require.Equal(t, must(Canonical(t.Context(), same[0])), must(Canonical(t.Context(), location)))
		}
	}
	require.Regexp(t, `^b-[0-9a-f]{8}$`, Key("https://github.com/a/b"))
	require.NotEqual(t, Key("https://github.com/a/b"), Key("https://github.com/c/b"))
	rapid.Check(t, func(t *rapid.T) {
		key := Key(rapid.String().Draw(t, "canonical"))
		if CheckSlice(key) != nil || len(key) > 41 || strings.Contains(key, ".") {
			t.Fatalf("key %q cannot name a folder", key)
		}
	})
}

// TestNamesAgreeWithGit: a slice's id or a branch that we let pass is one for git too.
func TestNamesAgreeWithGit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-zA-Z.@{}/~^:?*\[\\ \x00-\x20-]{1,8}(\.lock)?`).Draw(t, "name")
		if strings.Contains(name, "\x00") {
			return
		}
		ref := "refs/heads/" + name
		git := exec.Command("git", "check-ref-format", ref).Run() == nil
		if git != validRef(ref) {
			t.Fatalf("%q: git says %v", ref, git)
		}
		if CheckSlice(name) == nil && exec.Command("git", "check-ref-format", "refs/interlock/"+name+"/base").Run() != nil {
			t.Fatalf("slice %q", name)
		}
	})
}

func TestCommit(t *testing.T) {
	f := setup(t, sourceScript)
	sh(t, f.ws.Dir(), "echo x > new; rm plain.txt")
	c := f.snapshot()
	r := f.request(c.Tree)
	r.Body = "Text.\n\nInterlock-Slice: forged\n"
	id, err := f.store.Commit(f.ctx, r)
	require.NoError(t, err)
	require.Equal(t, `tree `+c.Tree+`
parent `+f.base+`
author Interlock <interlock@localhost> 1700000000 +0000
committer Interlock <interlock@localhost> 1700000000 +0000

Do it

Text.

Interlock-Slice: forged

Interlock-Slice: s1
Interlock-Task: t1
Interlock-Attempt: 1
`, string(must(f.store.read(f.ctx, id))[0].Bytes))

	again, err := f.store.Commit(f.ctx, r)
	require.NoError(t, err)
	require.Equal(t, id, again)
	r.When = when.Add(time.Hour)
	again, err = f.store.Commit(f.ctx, r)
	require.NoError(t, err)
	require.Equal(t, id, again, "the second try, at another time, finds the first")
	r.Trailers[2].Value = "2"
	_, err = f.store.Commit(f.ctx, r)
	require.Equal(t, Moved, KindOf(err), "%v", err)

	// The next task needs no change: an empty commit.
	require.NoError(t, f.ws.Advance(f.ctx, id))
	require.Equal(t, "", sh(t, f.ws.Dir(), "git status --porcelain"))
	require.Equal(t, id, sh(t, f.ws.Dir(), "git rev-parse HEAD"))
	same, err := f.ws.Snapshot(f.ctx, id, DefaultLimits)
	require.NoError(t, err)
	require.Equal(t, c.Tree, same.Tree)
	r.Parent = id
	next, err := f.store.Commit(f.ctx, r)
	require.NoError(t, err)
	require.Empty(t, must(f.store.Diff(f.ctx, id, next)))
	require.Equal(t, next, must(f.store.Ref(f.ctx, "s1", "good")))

	for name, spoil := range map[string]func(*CommitRequest){
		"tree is a commit": func(r *CommitRequest) { r.Tree = f.base },
		"no such tree":     func(r *CommitRequest) { r.Tree = strings.Repeat("1", 40) },
		"short id":         func(r *CommitRequest) { r.Parent = id[:10] },
		"option":           func(r *CommitRequest) { r.Tree = "--help" },
		"two-line subject": func(r *CommitRequest) { r.Subject = "a\nb" },
		"trailer":          func(r *CommitRequest) { r.Trailers = []Trailer{{"A", "x\nB: y"}} },
		"no trailers":      func(r *CommitRequest) { r.Trailers = nil },
		"author":           func(r *CommitRequest) { r.Name = "a> <b" },
		"time":             func(r *CommitRequest) { r.When = time.Time{} },
		"slice":            func(r *CommitRequest) { r.Slice = "../x" },
	} {
		bad := f.request(c.Tree)
		bad.Parent = next
		spoil(&bad)
		_, err := f.store.Commit(f.ctx, bad)
		require.Error(t, err, name)
		require.Equal(t, next, must(f.store.Ref(f.ctx, "s1", "good")), name)
	}
}

func TestLedger(t *testing.T) {
	f := setup(t, sourceScript)
	l, err := f.store.Ledger(f.ctx, "s1")
	require.NoError(t, err)
	require.Equal(t, Ledger{}, l)
	l, err = f.store.AppendLedger(f.ctx, "s1", 1, []string{"a", "b"}, when)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, l.Lines)
	head := l.Commit
	l, err = f.store.AppendLedger(f.ctx, "s1", 1, []string{"a", "b"}, when.Add(time.Hour))
	require.NoError(t, err)
	require.Equal(t, head, l.Commit)
	l, err = f.store.AppendLedger(f.ctx, "s1", 2, []string{"b", "c", "d"}, when)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "c", "d"}, l.Lines)
	_, err = f.store.AppendLedger(f.ctx, "s1", 3, []string{"c", "D", "e"}, when)
	require.Equal(t, LedgerConflict, KindOf(err))
	require.ErrorContains(t, err, "line 4")
	for _, first := range []int{0, -1, 6} {
		_, err = f.store.AppendLedger(f.ctx, "s1", first, []string{"x"}, when)
		require.Equal(t, LedgerGap, KindOf(err))
	}
	_, err = f.store.AppendLedger(f.ctx, "s1", 5, []string{"x\ny"}, when)
	require.Equal(t, InvalidInput, KindOf(err))
	got, err := f.store.Ledger(f.ctx, "s1")
	require.NoError(t, err)
	require.Equal(t, l, got)

	// The same steps elsewhere give the same ids.
	_, err = f.store.AppendLedger(f.ctx, "s2", 1, []string{"a", "b"}, when)
	require.NoError(t, err)
	two, err := f.store.AppendLedger(f.ctx, "s2", 3, []string{"c", "d"}, when)
	require.NoError(t, err)
	require.Equal(t, l, two)
	require.Equal(t, "a\nb\nc\nd", sh(t, f.store.Dir(), "git show refs/interlock/s1/ledger:ledger.jsonl"))
}

// TestLedgerWriters: the same lines from several at once are written once; different ones for one number, never.
func TestLedgerWriters(t *testing.T) {
	f := setup(t, sourceScript)
	var wg sync.WaitGroup
	errs := make([]error, 6)
	for w := range errs {
		wg.Go(func() {
			for n := 1; n <= 5 && errs[w] == nil; n++ {
				_, errs[w] = f.store.AppendLedger(f.ctx, "s1", n, []string{fmt.Sprint("line ", n)}, when)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	l, err := f.store.Ledger(f.ctx, "s1")
	require.NoError(t, err)
	require.Equal(t, []string{"line 1", "line 2", "line 3", "line 4", "line 5"}, l.Lines)
	require.Equal(t, "5", sh(t, f.store.Dir(), "git rev-list --count refs/interlock/s1/ledger"))

	results := make([]error, 4)
	for w := range results {
		wg.Go(func() { _, results[w] = f.store.AppendLedger(f.ctx, "s1", 6, []string{fmt.Sprint("by ", w)}, when) })
	}
	wg.Wait()
	won := 0
	for _, err := range results {
		if err == nil {
			won++
		} else {
			require.Equal(t, LedgerConflict, KindOf(err), "%v", err)
		}
	}
	require.Equal(t, 1, won)
	require.NoDirExists(t, f.store.Dir()+"/refs/interlock/s1/ledger")
	require.Equal(t, "", sh(t, f.store.Dir(), "ls | grep crash || true"))
}

func TestBlobAndRefs(t *testing.T) {
	f := setup(t, sourceScript)
	_, err := f.store.Blob(f.ctx, "s1", "spec")
	require.Equal(t, NotFound, KindOf(err))
	require.ErrorIs(t, err, fs.ErrNotExist)
	for _, content := range []string{"", "x\x00\r\n", "y"} {
		require.NoError(t, f.store.SetBlob(f.ctx, "s1", "spec", []byte(content)))
		require.Equal(t, content, string(must(f.store.Blob(f.ctx, "s1", "spec"))))
	}
	_, err = f.store.File(f.ctx, f.base, "nope\nnope")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Equal(t, "plain\n", string(must(f.store.File(f.ctx, f.base, "plain.txt"))))

	other := must(f.store.Commit(f.ctx, f.request(sh(t, f.store.Dir(), "git rev-parse "+f.base+"^{tree}"))))
	require.NoError(t, f.store.SetRef(f.ctx, "s1", "mark", f.base, ""))
	require.NoError(t, f.store.SetRef(f.ctx, "s1", "mark", f.base, ""), "it is there already")
	err = f.store.SetRef(f.ctx, "s1", "mark", other, "")
	require.Equal(t, Moved, KindOf(err))
	require.Equal(t, f.base, haveOf(t, err))
	require.NoError(t, f.store.SetRef(f.ctx, "s1", "mark", other, f.base))
	require.Equal(t, Moved, KindOf(f.store.SetRef(f.ctx, "s1", "mark", "", f.base)))
	require.NoError(t, f.store.SetRef(f.ctx, "s1", "mark", "", other))
	require.NoError(t, f.store.SetRef(f.ctx, "s1", "mark", "", other), "it is gone already")
	for _, slice := range []string{"", ".", "..", "a/b", "-x", "a..b", "x.lock", "a b", "a\n", "ä"} {
		require.Equal(t, InvalidInput, KindOf(f.store.SetRef(f.ctx, slice, "mark", f.base, "")), slice)
	}
}

func TestDiff(t *testing.T) {
	f := setup(t, sourceScript)
	sh(t, f.ws.Dir(), `seq 100 > long; printf 'a\0b' > bin; printf 'x\n' >> plain.txt; git mv src/a.go "$(printf 'src/new\nname.go')"; chmod +x ident.txt; rm link; echo '* -diff' > .gitattributes`)
	c := f.snapshot()
	list, err := f.store.Diff(f.ctx, f.base, c.Tree)
	require.NoError(t, err)
	got := map[string]Change{}
	for _, c := range list {
		c.OldID, c.NewID = "", ""
		got[c.Path] = c
	}
	require.Equal(t, map[string]Change{
		".gitattributes":   {Path: ".gitattributes", Status: "A", OldMode: "000000", NewMode: "100644", Added: 1},
		"bin":              {Path: "bin", Status: "A", OldMode: "000000", NewMode: "100644", Binary: true},
		"long":             {Path: "long", Status: "A", OldMode: "000000", NewMode: "100644", Added: 100},
		"plain.txt":        {Path: "plain.txt", Status: "M", OldMode: "100644", NewMode: "100644", Added: 1},
		"ident.txt":        {Path: "ident.txt", Status: "M", OldMode: "100644", NewMode: "100755"},
		"link":             {Path: "link", Status: "D", OldMode: "120000", NewMode: "000000", Deleted: 1},
		"src/new\nname.go": {Path: "src/new\nname.go", OldPath: "src/a.go", Status: "R", OldMode: "100644", NewMode: "100644"},
	}, got)
	patch, cut, err := f.store.Patch(f.ctx, f.base, c.Tree, 1<<20)
	require.NoError(t, err)
	require.False(t, cut)
	require.Contains(t, string(patch), "\n+99\n")
	require.Contains(t, string(patch), "\nold mode 100644\nnew mode 100755\n")
	short, cut, err := f.store.Patch(f.ctx, f.base, c.Tree, 200)
	require.NoError(t, err)
	require.True(t, cut)
	require.LessOrEqual(t, len(short), 200)
	require.True(t, strings.HasPrefix(string(patch), string(short)) && strings.HasSuffix(string(short), "\n"))
	none, cut, err := f.store.Patch(f.ctx, c.Tree, c.Tree, 10)
	require.NoError(t, err)
	require.False(t, cut)
	require.Empty(t, none)
}

func TestMerge(t *testing.T) {
	f := setup(t, sourceScript)
	commit := func(parent, script string) string {
		t.Helper()
		require.NoError(t, f.ws.Restore(f.ctx, parent, true))
		sh(t, f.ws.Dir(), script)
		c, err := f.ws.Snapshot(f.ctx, parent, DefaultLimits)
		require.NoError(t, err)
		r := f.request(c.Tree)
		r.Parent, r.Subject = parent, fmt.Sprintf("%q", script)
		require.NoError(t, f.store.SetRef(f.ctx, "s1", "good", parent, must(f.store.Ref(f.ctx, "s1", "good"))))
		return must(f.store.Commit(f.ctx, r))
	}
	ours := commit(f.base, "echo ours > plain.txt")
	apart := commit(f.base, "echo x > 'new\nfile'")
	against := commit(f.base, "echo theirs > plain.txt; echo '* merge=union' > .gitattributes")

	m, err := f.store.Merge(f.ctx, ours, f.base)
	require.NoError(t, err)
	require.True(t, m.UpToDate)
	require.Empty(t, must(f.store.Diff(f.ctx, ours, m.Tree)))

	m, err = f.store.Merge(f.ctx, f.base, ours)
	require.NoError(t, err)
	require.Empty(t, must(f.store.Diff(f.ctx, ours, m.Tree)))

	m, err = f.store.Merge(f.ctx, ours, apart)
	require.NoError(t, err)
	require.Empty(t, m.Conflicts)
	require.Len(t, must(f.store.Diff(f.ctx, ours, m.Tree)), 1)
	r := f.request(m.Tree)
	r.Parent, r.Other = ours, apart
	require.NoError(t, f.store.SetRef(f.ctx, "s1", "good", ours, must(f.store.Ref(f.ctx, "s1", "good"))))
	id, err := f.store.Commit(f.ctx, r)
	require.NoError(t, err)
	require.Equal(t, ours+" "+apart, sh(t, f.store.Dir(), "git log -1 --format=%P "+id))
	r.When = when.Add(time.Minute)
	require.Equal(t, id, must(f.store.Commit(f.ctx, r)))

	m, err = f.store.Merge(f.ctx, ours, against)
	require.NoError(t, err)
	require.Equal(t, []string{"plain.txt"}, m.Conflicts)
	require.Equal(t, []string{"plain.txt"}, must(f.store.Markers(f.ctx, m.Tree, []string{"plain.txt", "src/a.go", "gone\n"})))
	require.Empty(t, must(f.store.Markers(f.ctx, ours, []string{"plain.txt"})))
}

func TestHasMarkers(t *testing.T) {
	for content, want := range map[string]bool{
		"<<<<<<< a\nx\n=======\ny\n>>>>>>> b\n":          true,
		"<<<<<<< a\r\nx\r\n=======\r\ny\r\n>>>>>>> b":    true,
		"Title\n=======\n":                               false,
		">>>>>>> b\n=======\n<<<<<<< a\n":                false,
		"x <<<<<<< a\n=======\n>>>>>>> b\n":              false,
		"<<<<<<< a\n|||||||\nx\n=======\ny\n>>>>>>> b\n": true,
		"": false,
	} {
		require.Equal(t, want, hasMarkers([]byte(content)), content)
	}
}

func TestPush(t *testing.T) {
	f := setup(t, sourceScript)
	c := must(f.store.Commit(f.ctx, f.request(sh(t, f.store.Dir(), "git rev-parse "+f.base+"^{tree}"))))
	remote := f.top + "/remote.git"
	sh(t, f.top, "git init -q --bare remote.git; git -C source remote add origin ../remote.git; git -C source remote add web https://example.com/a.git")
	require.Equal(t, remote, must(f.store.RemoteURL(f.ctx, "origin")))
	require.Equal(t, "https://example.com/a.git", must(f.store.RemoteURL(f.ctx, "web")))
	require.Equal(t, "", must(f.store.RemoteURL(f.ctx, "nope")))
	at := func() string { return sh(t, remote, "git for-each-ref --format='%(objectname) %(refname)'") }

	res, err := f.store.Push(f.ctx, remote, "interlock/s1", f.base, "")
	require.NoError(t, err)
	require.False(t, res.Already)
	res, err = f.store.Push(f.ctx, remote, "interlock/s1", f.base, "")
	require.NoError(t, err)
	require.True(t, res.Already)
	require.Equal(t, f.base+" refs/heads/interlock/s1", at())
	_, err = f.store.Push(f.ctx, remote, "interlock/s1", c, "")
	require.Equal(t, Moved, KindOf(err))
	require.Equal(t, f.base, haveOf(t, err))
	_, err = f.store.Push(f.ctx, remote, "interlock/s1", c, f.base)
	require.NoError(t, err)
	// The lease, not ancestry, decides.
	_, err = f.store.Push(f.ctx, remote, "interlock/s1", f.base, c)
	require.NoError(t, err)

	for _, name := range []string{"interlock", "interlock/s1/x", "interlock/s1/x/y"} {
		_, err = f.store.Push(f.ctx, remote, name, c, "")
		require.Equal(t, Rejected, KindOf(err), name)
		require.ErrorContains(t, err, "refs/heads/interlock/s1 is there")
	}

	// A tag of the same name, or a name like an option, changes nothing.
	sh(t, remote, "git tag interlock/s1 "+f.base)
	_, err = f.store.Push(f.ctx, remote, "interlock/s1", c, f.base)
	require.NoError(t, err)
	for _, branch := range []string{"", "-x", "--force", "a b", "a..b", "x:refs/heads/main", "+x"} {
		_, err = f.store.Push(f.ctx, remote, branch, c, "")
		if branch == "+x" {
			require.NoError(t, err)
			continue
		}
		require.Equal(t, InvalidInput, KindOf(err), branch)
	}

	// The other side refuses.
	hook := func(name, body string) {
		require.NoError(t, os.WriteFile(remote+"/hooks/"+name, []byte("#!/bin/sh\n"+body+"\n"), 0o755))
	}
	require.NoError(t, os.MkdirAll(remote+"/hooks", 0o755))
	hook("pre-receive", "echo no such thing here >&2; exit 1")
	_, err = f.store.Push(f.ctx, remote, "interlock/s1", f.base, c)
	require.Equal(t, Rejected, KindOf(err), "%v", err)
	require.ErrorContains(t, err, "no such thing here")

	// Accepted, then the connection is lost: the look finds it done.
	hook("pre-receive", "exit 0")
	hook("post-receive", "kill -9 $PPID")
	_, err = f.store.Push(f.ctx, remote, "interlock/s1", f.base, c)
	require.NoError(t, err)
	require.Contains(t, at(), f.base+" refs/heads/interlock/s1")

	// Lost before it was accepted: not applied, the lease may be used again.
	hook("pre-receive", "kill -9 $PPID")
	_, err = f.store.Push(f.ctx, remote, "interlock/s1", c, f.base)
	require.Equal(t, NotApplied, KindOf(err), "%v", err)

	// Somebody pushes between the look and the push.
	hook("pre-receive", "unset GIT_QUARANTINE_PATH; git update-ref refs/heads/interlock/s1 "+c+" 2>/dev/null; exit 1")
	_, err = f.store.Push(f.ctx, remote, "interlock/s1", must(f.store.Commit(f.ctx, nextOf(f, c))), f.base)
	require.Equal(t, Moved, KindOf(err), "%v", err)

	// The remote is gone while the answer is awaited: nobody can tell.
	hook("pre-receive", "exit 0")
	hook("post-receive", "mv "+remote+" "+remote+"-gone; kill -9 $PPID")
	_, err = f.store.Push(f.ctx, remote, "interlock/s1", f.base, c)
	require.Equal(t, Unknown, KindOf(err), "%v", err)
	require.True(t, KindOf(err).Retryable())
	_, err = f.store.Push(f.ctx, remote, "interlock/s1", f.base, c)
	require.Equal(t, NotARepository, KindOf(err), "%v", err)
	require.NoError(t, os.Rename(remote+"-gone", remote))
	require.NoError(t, os.Remove(remote+"/hooks/post-receive"))

	_, err = f.store.DeleteBranch(f.ctx, remote, "interlock/s1", c)
	require.Equal(t, Moved, KindOf(err), "%v", err)
	_, err = f.store.DeleteBranch(f.ctx, remote, "interlock/s1", f.base)
	require.NoError(t, err)
	res, err = f.store.DeleteBranch(f.ctx, remote, "interlock/s1", f.base)
	require.NoError(t, err)
	require.True(t, res.Already)

	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	_, err = f.store.Push(ctx, remote, "interlock/s1", f.base, "")
	require.ErrorIs(t, err, context.Canceled)
	_, err = f.store.Push(f.ctx, "http://127.0.0.1:1/x.git", "interlock/s1", f.base, "")
	require.Equal(t, NotApplied, KindOf(err), "%v", err)
	_, err = f.store.Push(f.ctx, "ext::touch "+f.outside+"/x", "interlock/s1", f.base, "")
	require.Equal(t, InvalidInput, KindOf(err), "%v", err)
	require.NoFileExists(t, f.outside+"/x")
}

func nextOf(f *fix, parent string) CommitRequest {
	r := f.request(sh(f.t, f.store.Dir(), "git rev-parse "+f.base+"^{tree}"))
	r.Parent, r.Subject = parent, "next"
	return r
}

func TestLocalBranch(t *testing.T) {
	f := setup(t, sourceScript)
	sh(t, f.ws.Dir(), "echo x > new")
	c := must(f.store.Commit(f.ctx, f.request(f.snapshot().Tree)))
	before := sh(t, f.source, "git status --porcelain; git branch; git rev-parse HEAD")
	require.NoError(t, f.store.LocalBranch(f.ctx, "interlock/s1", c, ""))
	require.NoError(t, f.store.LocalBranch(f.ctx, "interlock/s1", c, ""))
	require.Equal(t, c, sh(t, f.source, "git rev-parse refs/heads/interlock/s1"))
	sh(t, f.source, "git fsck --strict --full")
	require.Equal(t, before+"", strings.Replace(sh(t, f.source, "git status --porcelain; git branch; git rev-parse HEAD"), "  interlock/s1\n", "", 1))
	require.NoFileExists(t, f.source+"/.git/FETCH_HEAD")

	require.Equal(t, Moved, KindOf(f.store.LocalBranch(f.ctx, "interlock/s1", f.base, "")))
	sh(t, f.source, "git worktree add -q ../wt interlock/s1")
	err := f.store.LocalBranch(f.ctx, "interlock/s1", f.base, c)
	require.Equal(t, CheckedOut, KindOf(err))
	require.ErrorContains(t, err, "/wt")
	require.Equal(t, CheckedOut, KindOf(f.store.LocalBranch(f.ctx, "main", c, f.base)))
	sh(t, f.source, "git worktree remove ../wt")
	require.NoError(t, f.store.LocalBranch(f.ctx, "interlock/s1", f.base, c))
	sh(t, f.source, "git branch interlock2")
	for _, name := range []string{"interlock2/x", "interlock2/x/y", "interlock"} {
		require.Equal(t, Rejected, KindOf(f.store.LocalBranch(f.ctx, name, c, "")), name)
	}
}

func TestView(t *testing.T) {
	f := setup(t, sourceScript)
	sh(t, f.ws.Dir(), "echo x > new; printf 'package src // 2\\n' > src/a.go; mkdir -p ignored; echo green > ignored/cheat")
	c := f.snapshot()
	v, err := f.store.View("s1", "check")
	require.NoError(t, err)
	require.NoError(t, v.Move(f.ctx, f.base, f.base))
	require.NoDirExists(t, v.Dir()+"/ignored", "no ignored file of the agent reaches a check")
	require.Equal(t, f.base, sh(t, v.Dir(), "git rev-parse HEAD"))
	require.Equal(t, "", sh(t, v.Dir(), "git status --porcelain"))

	// A check leaves things behind; ignored ones stay, all else is gone at the next move.
	sh(t, v.Dir(), "mkdir -p ignored out/x; echo cache > ignored/c; echo x > out/x/y; echo x > a.log; echo broken > plain.txt; rm crlf.txt; mkfifo p; git init -q nested; rm -rf .git")
	d, err := v.Compare(f.ctx)
	require.NoError(t, err)
	require.Equal(t, []string{"crlf.txt", "plain.txt"}, d.Changed)
	require.Equal(t, []string{"nested/", "out/x/y", "p"}, d.Added)
	require.NoError(t, v.Move(f.ctx, c.Tree, f.base))
	d, err = v.Compare(f.ctx)
	require.NoError(t, err)
	require.Equal(t, Drift{}, d)
	require.FileExists(t, v.Dir()+"/ignored/c")
	require.FileExists(t, v.Dir()+"/a.log")
	require.NoDirExists(t, v.Dir()+"/out")
	require.NoDirExists(t, v.Dir()+"/nested")
	require.NoFileExists(t, v.Dir()+"/ignored/cheat")
	require.Equal(t, "package src // 2\n", string(must(os.ReadFile(v.Dir()+"/src/a.go"))))
	require.Equal(t, f.base, sh(t, v.Dir(), "git rev-parse HEAD"))

	require.NoError(t, v.Fresh(f.ctx, c.Tree, f.base))
	require.NoDirExists(t, v.Dir()+"/ignored")
	require.NoFileExists(t, v.Dir()+"/a.log")

	// The folder itself is swapped for a link to elsewhere.
	require.NoError(t, os.RemoveAll(v.Dir()))
	require.NoError(t, os.Symlink(f.outside, v.Dir()))
	before := f.surroundings()
	require.NoError(t, v.Move(f.ctx, c.Tree, f.base))
	require.Equal(t, before, f.surroundings())
	require.True(t, must(os.Lstat(v.Dir())).IsDir())
	require.NoError(t, v.Remove(f.ctx))
	require.NoError(t, v.Remove(f.ctx))
	require.NoDirExists(t, filepath.Dir(v.Dir()))
	_, err = f.store.View("s1", "../x")
	require.Equal(t, InvalidInput, KindOf(err))
}

// TestKilledGit: locks and half-written files that a killed git or worker has left do not stop the next one.
func TestKilledGit(t *testing.T) {
	f := setup(t, sourceScript)
	dir := filepath.Dir(f.ws.Dir())
	sh(t, dir, "touch index-"+f.base+".lock index.next.lock .new-1; printf garbage > index.next; printf x >> tree/plain.txt")
	require.Equal(t, []string{"M plain.txt"}, f.changes(f.snapshot().Tree))
	for _, spoil := range []string{"truncate -s 100 index-*", "rm index-*", "printf garbage > index-" + f.base, "truncate -s 0 index-*"} {
		sh(t, dir, spoil)
		require.Equal(t, []string{"M plain.txt"}, f.changes(f.snapshot().Tree), spoil)
		sh(t, dir, spoil)
		require.NoError(t, f.ws.Restore(f.ctx, f.base, false), spoil)
		require.Empty(t, f.changes(f.snapshot().Tree), spoil)
		sh(t, dir, "printf x >> tree/plain.txt")
	}
	v, err := f.store.View("s1", "check")
	require.NoError(t, err)
	require.NoError(t, v.Move(f.ctx, f.base, f.base))
	sh(t, filepath.Dir(v.Dir()), "truncate -s 100 index; touch index.lock; rm tree/plain.txt")
	require.NoError(t, v.Move(f.ctx, f.base, f.base))
	require.FileExists(t, v.Dir()+"/plain.txt")
}

// TestLeaseOutlivesHolder: as long as a git started under the lock runs, nobody else enters.
func TestLeaseOutlivesHolder(t *testing.T) {
	path := t.TempDir() + "/lock"
	l, err := acquire(t.Context(), path)
	require.NoError(t, err)
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	cmd.ExtraFiles = []*os.File{l.file}
	require.NoError(t, cmd.Start())
	l.file.Close() // as when the holder was killed: closed, not unlocked
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = acquire(ctx, path)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	in.Close()
	require.NoError(t, cmd.Wait())
	l, err = acquire(t.Context(), path)
	require.NoError(t, err)
	require.NoError(t, os.Remove(path))
	l.release()
	l, err = acquire(t.Context(), path)
	require.NoError(t, err)
	l.release()
}

func TestRemove(t *testing.T) {
	f := setup(t, sourceScript)
	sh(t, f.ws.Dir(), "echo work > new; ln -s "+f.outside+" ignored")
	sh(t, f.ws.Dir(), "mkfifo p")
	require.Equal(t, Unsaved, KindOf(f.ws.Remove(f.ctx, f.base)))
	require.FileExists(t, f.ws.Dir()+"/new")
	sh(t, f.ws.Dir(), "rm p ignored")
	before := f.surroundings()
	require.NoError(t, f.ws.Remove(f.ctx, f.base))
	require.NoError(t, f.ws.Remove(f.ctx, f.base))
	require.NoDirExists(t, filepath.Dir(f.ws.Dir()))
	kept := must(f.store.Ref(f.ctx, "s1", "removed"))
	require.Equal(t, []string{"A new"}, f.changes(kept))
	require.NoError(t, f.store.SetRef(f.ctx, "s1", "removed", "", kept))
	require.Equal(t, before, f.surroundings())

	// Killed half-way: the marker is still there, and the removal goes on.
	require.NoError(t, f.ws.Restore(f.ctx, f.base, false))
	require.NoError(t, os.RemoveAll(f.ws.Dir()))
	require.NoError(t, f.ws.Remove(f.ctx, ""))
	require.NoError(t, os.Mkdir(filepath.Dir(f.ws.Dir()), 0o755))
	require.NoError(t, f.ws.Remove(f.ctx, f.base))

	// A folder that is not ours, and one of another repository, stay.
	require.NoError(t, os.MkdirAll(f.ws.Dir(), 0o755))
	require.NoError(t, os.WriteFile(f.ws.Dir()+"/precious", nil, 0o644))
	require.Equal(t, Foreign, KindOf(f.ws.Remove(f.ctx, "")))
	require.Equal(t, Foreign, KindOf(f.ws.Restore(f.ctx, f.base, true)))
	require.Equal(t, Foreign, KindOf(f.store.Taken("s1")))
	require.FileExists(t, f.ws.Dir()+"/precious")
	require.NoError(t, os.RemoveAll(filepath.Dir(f.ws.Dir())))
	require.NoError(t, f.ws.Restore(f.ctx, f.base, true))
	sh(t, f.top, "git clone -q source other")
	other := must(Open(f.ctx, f.home, f.top+"/other"))
	w := must(other.Workspace("s1"))
	require.Equal(t, Foreign, KindOf(w.Remove(f.ctx, "")))
	require.Equal(t, Foreign, KindOf(other.Taken("s1")))
	require.NoError(t, f.store.Taken("s1"))
	require.NoError(t, f.ws.Remove(f.ctx, ""))
	require.NoError(t, other.Taken("s1"))
	v := must(f.store.View("s1", "check"))
	require.NoError(t, v.Move(f.ctx, f.base, f.base))
	require.Equal(t, Foreign, KindOf(other.Taken("s1")))
	require.NoError(t, f.store.RemoveViews(f.ctx, "s1"))
	require.NoError(t, other.Taken("s1"))
}

// TestSnapshotHasNoMemory: the candidate follows from the last good commit and the files alone.
func TestSnapshotHasNoMemory(t *testing.T) {
	f := setup(t, sourceScript)
	sh(t, f.ws.Dir(), "echo x > new")
	require.Equal(t, []string{"A new"}, f.changes(f.snapshot().Tree))
	sh(t, f.ws.Dir(), "echo new >> .gitignore")
	require.Equal(t, []string{"M .gitignore"}, f.changes(f.snapshot().Tree))
}

// TestSnapshotSeesQuickEdits: files changed within one tick of the file system's clock, same size.
func TestSnapshotSeesQuickEdits(t *testing.T) {
	f := setup(t, sourceScript)
	last := ""
	for i := range 40 {
		require.NoError(t, os.WriteFile(f.ws.Dir()+"/plain.txt", fmt.Appendf(nil, "%06d", i), 0o644))
		tree := f.snapshot().Tree
		require.NotEqual(t, last, tree)
		require.Equal(t, fmt.Sprintf("%06d", i), string(must(f.store.File(f.ctx, tree, "plain.txt"))))
		last = tree
	}
}

// TestParallelSlices: slices share one store; afterwards it is whole, and nothing pinned is lost by a gc.
func TestParallelSlices(t *testing.T) {
	f := setup(t, sourceScript)
	const slices, snapshots = 4, 5
	trees := make([]string, slices)
	var wg sync.WaitGroup
	for n := range slices {
		wg.Go(func() {
			slice := fmt.Sprint("p", n)
			b, err := f.store.Fetch(f.ctx, slice, "main")
			if err != nil {
				t.Error(err)
				return
			}
			w := must(f.store.Workspace(slice))
			v := must(f.store.View(slice, "check"))
			if err := w.Restore(f.ctx, b.Commit, false); err != nil {
				t.Error(err)
				return
			}
			for i := range snapshots {
				for j := range 120 {
					if err := os.WriteFile(fmt.Sprintf("%s/f%d", w.Dir(), j), fmt.Appendf(nil, "%d %d %d", n%2, i, j), 0o644); err != nil {
						t.Error(err)
					}
				}
				c, err := w.Snapshot(f.ctx, b.Commit, DefaultLimits)
				if err != nil || c.Tree == "" {
					t.Error(err, c)
					return
				}
				if err := v.Move(f.ctx, c.Tree, b.Commit); err != nil {
					t.Error(err)
				}
				if _, err := f.store.AppendLedger(f.ctx, slice, i+1, []string{c.Tree}, when); err != nil {
					t.Error(err)
				}
				trees[n] = c.Tree
			}
		})
	}
	wg.Wait()
	require.NoError(t, f.store.Reclaim(f.ctx))
	require.Equal(t, "", sh(t, f.store.Dir(), "find objects/pack -name '*.keep'; ls | grep crash || true"))
	sh(t, f.store.Dir(), "git gc -q --prune=now; git fsck --full --strict --no-dangling")
	for n, tree := range trees {
		require.Equal(t, tree, sh(t, f.store.Dir(), fmt.Sprintf("git rev-parse refs/interlock/p%d/candidate^{tree}", n)))
		require.Len(t, must(f.store.Diff(f.ctx, f.base, tree)), 120)
	}
}

// TestTwoProcessesOneFolder: an exclusive lock is waited for, and the wait ends with the context.
func TestTwoProcessesOneFolder(t *testing.T) {
	f := setup(t, sourceScript)
	lock, err := os.OpenFile(filepath.Dir(f.ws.Dir())+"/lock", os.O_RDWR, 0)
	require.NoError(t, err)
	defer lock.Close()
	require.NoError(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))
	ctx, cancel := context.WithTimeout(f.ctx, 50*time.Millisecond)
	defer cancel()
	_, err = f.ws.Snapshot(ctx, f.base, DefaultLimits)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// haveOf is what an error of kind Moved says is there.
func haveOf(t *testing.T, err error) string {
	t.Helper()
	var moved *Error
	require.ErrorAs(t, err, &moved)
	return moved.Have
}
