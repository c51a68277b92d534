package workspace

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHostileTrees: whatever an agent does in its folder, the candidate is its files, or a refusal that names
// the path; nothing around the folder changes; and Restore brings the last good commit back.
func TestHostileTrees(t *testing.T) {
	edit := "printf 'package src // edited\\n' > src/a.go; "
	edited := []string{"M src/a.go"}
	for _, row := range []struct {
		name    string
		agent   string   // runs in the tree
		changes []string // of the candidate
		refused []string // "why path"
		state   []string
	}{
		{name: "nothing", agent: "true", changes: []string{}},
		{name: "edits", agent: edit, changes: edited},
		{name: "commits", agent: edit + "git commit -qam mine", changes: edited},
		{name: "commits, then edits more", agent: edit + "git commit -qam mine; rm plain.txt", changes: []string{"D plain.txt", "M src/a.go"}},
		{name: "amends", agent: edit + "git commit -qa --amend -m other", changes: edited},
		{name: "new root commit", agent: edit + "git checkout -q --orphan x; git commit -qam root", changes: edited},
		{name: "rebases", agent: edit + "git commit -qam 1; git rebase -q --root", changes: edited},
		{name: "resets to nothing", agent: edit + "git update-ref -d HEAD", changes: edited},
		{name: "resets files", agent: edit + "git reset -q --hard", changes: []string{}},
		{name: "detaches HEAD", agent: edit + "git checkout -q --detach", changes: edited},
		{name: "switches branch", agent: edit + "git checkout -q -b other", changes: edited},
		{name: "tag shadows branch", agent: edit + "git tag interlock/s1; git tag main", changes: edited},
		{name: "stashes", agent: edit + "git stash -q", changes: []string{}},
		{name: "deletes .git", agent: edit + "rm -rf .git", changes: edited, state: []string{"missing"}},
		{name: ".git is a file", agent: edit + "rm -rf .git; echo 'gitdir: ../../../../outside' > .git", changes: edited, state: []string{"not a folder"}},
		{name: ".git is a link", agent: edit + "rm -rf .git; ln -s ../../../../outside .git", changes: edited, state: []string{"not a folder"}},
		{name: "hooks", agent: edit + "mkdir -p .git/hooks; for h in pre-commit post-checkout post-index-change reference-transaction; do printf '#!/bin/sh\\ntouch %s/hooked' \"$PWD/../../../../outside\" > .git/hooks/$h; chmod +x .git/hooks/$h; done", changes: edited},
		{name: "hooksPath, fsmonitor, external diff", agent: edit + "mkdir h; printf '#!/bin/sh\\ntouch %s/hooked\\n' \"$PWD/../../../../outside\" > h/x; chmod +x h/x; cp h/x h/post-index-change; git config core.hooksPath \"$PWD/h\"; git config core.fsmonitor \"$PWD/h/x\"; git config diff.external \"$PWD/h/x\"",
			changes: []string{"A h/post-index-change", "A h/x", "M src/a.go"}},
		{name: "filter driver", agent: "git config filter.evil.clean 'sed s/package/EVIL/'; git config filter.evil.smudge 'sed s/package/EVIL/'; git config filter.evil.required true; echo '* filter=evil' > .gitattributes; " + edit,
			changes: []string{"A .gitattributes", "M src/a.go"}},
		{name: "attributes of the tree", agent: "printf '*.txt text ident eol=lf working-tree-encoding=UTF-16\\n* binary -diff\\n' > .gitattributes; touch crlf.txt ident.txt plain.txt",
			changes: []string{"A .gitattributes"}},
		{name: "attributes of .git", agent: "mkdir -p .git/info; echo '*.txt text ident' > .git/info/attributes; touch crlf.txt ident.txt", changes: []string{}},
		{name: "new CRLF file", agent: "printf 'a\\r\\nb\\n' > new.txt", changes: []string{"A new.txt"}},
		{name: "nested repository without commit", agent: edit + "git init -q sub/inner", refused: []string{"nested_repository sub/inner"}},
		{name: "nested repository with commit", agent: "git init -q inner; cd inner; echo x > f; git add f; git commit -qm x", refused: []string{"nested_repository inner"}},
		{name: "nested repository in a tracked folder", agent: "git init -q src", refused: []string{"nested_repository src"}},
		{name: "nested .git that is no repository", agent: "mkdir -p a/.git; echo x > a/f", refused: []string{"nested_repository a"}},
		{name: "nested .git file", agent: "mkdir a; echo 'gitdir: ../.git' > a/.git", refused: []string{"nested_repository a"}},
		{name: "worktree inside", agent: "git worktree add -q wt", refused: []string{"nested_repository wt"}},
		{name: "submodule", agent: "git init -q ../sub; (cd ../sub; echo x > f; git add f; git commit -qm x); git -c protocol.file.allow=always submodule --quiet add \"$PWD/../sub\" mod; rm -rf ../sub", refused: []string{"nested_repository mod"}},
		{name: "nested repository in an ignored folder", agent: edit + "git init -q ignored/inner", changes: edited},
		{name: "link out of the tree", agent: "ln -s ../../../../outside/secret out", refused: []string{"link_outside out"}},
		{name: "absolute link", agent: "ln -s /etc/passwd out", refused: []string{"link_outside out"}},
		{name: "link out by way of a link", agent: "ln -s ../.. src/deep/up; ln -s src/deep/up/.. out", refused: []string{"link_outside out"}},
		{name: "link into .git", agent: "ln -s .git/config cfg; ln -s ../.GIT src/g", refused: []string{"link_into_git cfg", "link_into_git src/g"}},
		{name: "links in a circle", agent: "ln -s y x; ln -s x y", refused: []string{"link_outside x", "link_outside y"}},
		{name: "link inside", agent: "ln -s ../plain.txt src/p; ln -s nowhere dangling", changes: []string{"A dangling", "A src/p"}},
		{name: "tracked link changed", agent: "ln -sfn ../../../../outside link", refused: []string{"link_outside link"}},
		{name: "folder swapped by a link", agent: "rm -rf src; ln -s ../../../../outside src", refused: []string{"link_outside src"}},
		{name: "folder swapped by a link inside", agent: "mv src moved; ln -s moved src",
			changes: []string{"R src/a.go moved/a.go", "R src/deep/b.go moved/deep/b.go", "A src"}},
		{name: "file swapped by a folder", agent: "rm plain.txt; mkdir plain.txt; echo x > plain.txt/x", changes: []string{"D plain.txt", "A plain.txt/x"}},
		{name: "folder swapped by a file", agent: "rm -rf src; echo x > src", changes: []string{"A src", "D src/a.go", "D src/deep/b.go"}},
		{name: "index.lock", agent: edit + "touch .git/index.lock", changes: edited, state: []string{"index locked"}},
		{name: "merge in progress", agent: "git checkout -q -b x; echo x > plain.txt; git commit -qam x; git checkout -q -; echo y > plain.txt; git commit -qam y; git merge -q x || true",
			changes: []string{"M plain.txt"}, state: []string{"merge in progress"}},
		{name: "rebase in progress", agent: "git checkout -q -b x; echo x > plain.txt; git commit -qam x; git checkout -q -b y HEAD~1; echo y > plain.txt; git commit -qam y; git rebase -q x || true",
			changes: []string{"M plain.txt"}, state: []string{"rebase in progress"}},
		{name: "ignored files", agent: edit + "mkdir -p ignored build; echo x > ignored/x; echo x > x.log; echo x > build/out", changes: edited},
		{name: "tracked file in an ignored folder", agent: "echo more >> build/kept", changes: []string{"M build/kept"}},
		{name: "ignored file added by force", agent: edit + "echo x > x.log; git add -f x.log; git commit -qam x", changes: edited},
		{name: "info/exclude and excludesFile", agent: "echo '*' > .git/info/exclude; echo '*' > /tmp/none-$$; git config core.excludesFile /tmp/none-$$; echo x > new; rm /tmp/none-$$", changes: []string{"A new"}},
		{name: ".gitignore hides a tracked file", agent: "echo '*' > .gitignore; " + edit, changes: []string{"M .gitignore", "M src/a.go"}},
		{name: ".gitignore is a link", agent: "rm .gitignore; ln -s plain.txt .gitignore", changes: []string{"T .gitignore"}},
		{name: "huge file", agent: "truncate -s 60M core", refused: []string{"too_large core"}},
		{name: "tracked file becomes huge", agent: "truncate -s 60M plain.txt", refused: []string{"too_large plain.txt"}},
		{name: "too much in all", agent: "for i in 1 2 3 4 5 6; do truncate -s 40M f$i; done", refused: []string{"too_large ."}},
		{name: "30,000 files", agent: "mkdir -p many/x; cd many/x; seq 30000 | xargs touch", refused: []string{"too_many many"}},
		{name: "FIFO", agent: edit + "mkfifo pipe", refused: []string{"special_file pipe"}},
		{name: "FIFO in place of a file", agent: "rm plain.txt; mkfifo plain.txt", refused: []string{"special_file plain.txt"}},
		{name: "FIFO alone in a folder", agent: "mkdir -p p/q; mkfifo p/q/pipe", refused: []string{"special_file p/q/pipe"}},
		{name: "FIFO in an ignored folder", agent: "mkdir ignored; mkfifo ignored/pipe", changes: []string{}},
		{name: "odd names", agent: `printf x > $'new\nline'; printf x > 'a "quoted" name'; printf x > $'tab\there'; printf x > -dash; printf x > --help; printf x > $'\xff\xfe'; printf x > ':(exclude)src'; printf x > 'back\slash'; printf x > '*'; printf x > ' '; printf x > "$(printf 'n\xcc\x83')"`,
			changes: []string{"A  ", "A *", "A --help", "A -dash", "A :(exclude)src", "A a \"quoted\" name", `A back\slash`, "A new\nline", "A n\u0303", "A tab\there", "A \xff\xfe"}},
		{name: "names that are .git elsewhere", agent: "mkdir -p .Git x; echo x > .Git/config; echo x > x/git~1; echo x > '.git '; echo x > $'.g\u200cit'",
			refused: []string{"git_name .Git/config", "git_name .git ", "git_name .g\u200cit", "git_name x/git~1"}},
		{name: ".gitmodules is a link", agent: "ln -s plain.txt .gitmodules", refused: []string{"git_name .gitmodules"}},
		{name: "case twins", agent: "echo x > Plain.txt; mkdir Docs SRC; echo x > SRC/new.go", refused: []string{"name_twin Plain.txt", "name_twin SRC/new.go"}},
		{name: "Unicode twins", agent: `printf x > $'\u00e9'; printf x > $'e\u0301'`, refused: []string{"name_twin \u00e9"}},
		{name: "case-only rename", agent: "mv plain.txt PLAIN.txt", changes: []string{"R plain.txt PLAIN.txt"}},
		{name: "mode", agent: "chmod +x plain.txt; chmod -x run.sh", changes: []string{"M plain.txt 100755", "M run.sh 100644"}},
		{name: "deep path", agent: "d=$(printf 'folder%.0s/' {1..300}); mkdir -p $d; echo x > $d/f", changes: []string{"A " + strings.Repeat("folder/", 300) + "f"}},
		{name: "path that is too long", agent: "for i in $(seq 45); do d=$(printf 'f%.0s' {1..100}); mkdir $d; cd -P $d; done; echo x > f",
			refused: []string{"path_too_long " + strings.TrimSuffix(strings.Repeat(strings.Repeat("f", 100)+"/", 40), "/")}},
		{name: "assume-unchanged, skip-worktree", agent: edit + "echo x > plain.txt; git update-index --assume-unchanged src/a.go; git update-index --skip-worktree plain.txt", changes: []string{"M plain.txt", "M src/a.go"}},
		{name: "sparse checkout", agent: "git sparse-checkout set --no-cone /docs 2>/dev/null; test ! -e plain.txt", changes: []string{"D .gitignore", "D build/kept", "D crlf.txt", "D ident.txt", "D link", "D plain.txt", "D run.sh", "D src/a.go", "D src/deep/b.go"}},
		{name: "intent to add", agent: "echo x > new; git add -N new", changes: []string{"A new"}},
		{name: "same size and time", agent: "touch -r plain.txt /tmp/ref-$$; printf 'PLAIN\\n' > plain.txt; touch -r /tmp/ref-$$ plain.txt; rm /tmp/ref-$$", changes: []string{"M plain.txt"}},
		{name: "hard link from outside", agent: "ln ../../../../outside/secret hard", changes: []string{"A hard"}},
		{name: "bare repository", agent: "git init -q --bare b.git; rm -rf b.git/hooks b.git/info b.git/description", changes: []string{"A b.git/HEAD", "A b.git/config"}},
		{name: "grafts and replace refs", agent: edit + "git commit -qam x; git replace HEAD HEAD~1 2>/dev/null || true", changes: edited},
		{name: "alternates", agent: edit + "echo /nonexistent > .git/objects/info/alternates", changes: edited},
		{name: "everything deleted", agent: "rm -rf ./* .gitignore", changes: []string{"D .gitignore", "D build/kept", "D crlf.txt", "D ident.txt", "D link", "D plain.txt", "D run.sh", "D src/a.go", "D src/deep/b.go"}},
		{name: "empty folders", agent: "mkdir -p e/f/g", changes: []string{}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, sourceScript)
			before := f.surroundings()
			sh(t, f.ws.Dir(), row.agent)
			c := f.snapshot()
			if row.refused != nil {
				got := []string{}
				for _, r := range c.Refused {
					got = append(got, string(r.Why)+" "+r.Path)
				}
				require.ElementsMatch(t, row.refused, got)
				require.Empty(t, c.Tree)
			} else {
				require.Empty(t, c.Refused)
				require.ElementsMatch(t, row.changes, f.changes(c.Tree))
				again := f.snapshot()
				require.Equal(t, c.Tree, again.Tree)
				require.Equal(t, c.Tree, sh(t, f.store.Dir(), "git rev-parse refs/interlock/s1/candidate^{tree}"))
				require.Equal(t, f.base, sh(t, f.store.Dir(), "git rev-parse refs/interlock/s1/candidate^"))
				f.roundTrip(c.Tree)
			}
			require.Equal(t, row.state, c.GitState)
			require.Equal(t, before, f.surroundings(), "something around the tree has changed")

			require.NoError(t, f.ws.Restore(f.ctx, f.base, true))
			require.Empty(t, f.changes(f.snapshot().Tree))
			require.Equal(t, f.base, sh(t, f.ws.Dir(), "git rev-parse HEAD"))
			require.Equal(t, "", sh(t, f.ws.Dir(), "git status --porcelain --ignored"))
			require.Equal(t, "refs/heads/interlock/s1", sh(t, f.ws.Dir(), "git symbolic-ref HEAD"))
			require.Equal(t, "", sh(t, f.ws.Dir(), "git remote; find . -name .git -prune -o -type d -empty -print -o -type p -print"))
			require.Equal(t, before, f.surroundings(), "something around the tree has changed")
		})
	}
}

// roundTrip checks that a view of the candidate has the very files of the agent's tree that are not ignored.
func (f *fix) roundTrip(tree string) {
	f.t.Helper()
	v, err := f.store.View("s1", "check")
	require.NoError(f.t, err)
	require.NoError(f.t, v.Fresh(f.ctx, tree, f.base))
	list, err := f.store.List(f.ctx, tree)
	require.NoError(f.t, err)
	for _, e := range list {
		a, b := filepath.Join(f.ws.Dir(), e.Path), filepath.Join(v.Dir(), e.Path)
		if e.Mode == "120000" {
			require.Equal(f.t, must(os.Readlink(a)), must(os.Readlink(b)), e.Path)
			continue
		}
		require.Equal(f.t, must(os.ReadFile(a)), must(os.ReadFile(b)), e.Path)
		require.Equal(f.t, must(os.Lstat(a)).Mode()&0o100, must(os.Lstat(b)).Mode()&0o100, e.Path)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestSocketIsRefused(t *testing.T) {
	f := setup(t, sourceScript)
	t.Chdir(f.ws.Dir())
	l, err := net.Listen("unix", "sock")
	require.NoError(t, err)
	defer l.Close()
	c := f.snapshot()
	require.Equal(t, []Refusal{{"sock", SpecialFile, "only files, folders and symbolic links can be kept"}}, c.Refused)
}

// TestHostileEnvironment: what the worker was started with and what the user has configured have no say.
func TestHostileEnvironment(t *testing.T) {
	trap := t.TempDir()
	hook := trap + "/hooks"
	require.NoError(t, os.MkdirAll(hook, 0o755))
	for _, name := range []string{"pre-commit", "post-checkout", "reference-transaction", "post-index-change", "pre-push", "update", "fsmonitor", "gpg"} {
		require.NoError(t, os.WriteFile(hook+"/"+name, []byte("#!/bin/sh\ntouch "+trap+"/sprung\nexit 1\n"), 0o755))
	}
	t.Setenv("HOME", trap)
	require.NoError(t, os.WriteFile(trap+"/.gitconfig", []byte(`[core]
	hooksPath = `+hook+`
	autocrlf = true
	fsmonitor = `+hook+`/fsmonitor
	excludesFile = `+trap+`/exclude
	attributesFile = `+trap+`/attributes
	pager = `+hook+`/gpg
[commit]
	gpgSign = true
[tag]
	gpgSign = true
[push]
	gpgSign = true
	followTags = true
[gpg]
	program = `+hook+`/gpg
[diff]
	external = `+hook+`/gpg
	noprefix = true
[fetch]
	prune = true
[init]
	templateDir = `+trap+`/template
[filter "x"]
	clean = `+hook+`/gpg
	required = true
[merge]
	conflictStyle = diff3
[transfer]
	fsckObjects = true
`), 0o644))
	require.NoError(t, os.WriteFile(trap+"/exclude", []byte("*\n"), 0o644))
	require.NoError(t, os.WriteFile(trap+"/attributes", []byte("* filter=x text\n"), 0o644))
	source := t.TempDir()
	cmd := exec.Command("bash", "-ec", sourceScript)
	cmd.Dir = source
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_AUTHOR_NAME=u", "GIT_AUTHOR_EMAIL=u@x", "GIT_COMMITTER_NAME=u", "GIT_COMMITTER_EMAIL=u@x"}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for name, value := range map[string]string{
		"GIT_DIR": trap + "/elsewhere", "GIT_INDEX_FILE": trap + "/index", "GIT_OBJECT_DIRECTORY": trap + "/objects",
		"GIT_WORK_TREE": trap, "GIT_NAMESPACE": "x", "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.hooksPath",
		"GIT_CONFIG_VALUE_0": hook, "GIT_CONFIG_PARAMETERS": "'core.hookspath=" + hook + "'", "GIT_EXTERNAL_DIFF": hook + "/gpg",
		"GIT_ALTERNATE_OBJECT_DIRECTORIES": trap, "GIT_TRACE": trap + "/trace", "GIT_CEILING_DIRECTORIES": "/", "GIT_SHALLOW_FILE": trap + "/x",
		"GIT_ATTR_SOURCE": "x", "GIT_LITERAL_PATHSPECS": "1", "GIT_DEFAULT_HASH": "sha256", "GIT_TEMPLATE_DIR": trap,
	} {
		t.Setenv(name, value)
	}

	f := &fix{t: t, ctx: t.Context(), source: source, home: t.TempDir()}
	f.open()
	b, err := f.store.Fetch(f.ctx, "s1", "main")
	require.NoError(t, err)
	f.base = b.Commit
	require.NoError(t, f.store.SetRef(f.ctx, "s1", "good", f.base, ""))
	require.NoError(t, f.ws.Restore(f.ctx, f.base, false))
	require.NoError(t, os.WriteFile(f.ws.Dir()+"/crlf.txt", []byte("one\r\ntwo\r\nthree\r\n"), 0o644))
	require.NoError(t, os.WriteFile(f.ws.Dir()+"/new", []byte("new\r\n"), 0o644))
	c := f.snapshot()
	require.Equal(t, []string{"M crlf.txt", "A new"}, f.changes(c.Tree))
	require.Equal(t, "new\r\n", string(must(f.store.File(f.ctx, c.Tree, "new"))))
	patch, _, err := f.store.Patch(f.ctx, f.base, c.Tree, 1<<20)
	require.NoError(t, err)
	require.Contains(t, string(patch), "diff --git a/new b/new")
	id, err := f.store.Commit(f.ctx, f.request(c.Tree))
	require.NoError(t, err)
	require.NotContains(t, string(must(f.store.read(f.ctx, id))[0].Bytes), "gpgsig")
	v, err := f.store.View("s1", "check")
	require.NoError(t, err)
	require.NoError(t, v.Move(f.ctx, c.Tree, id))
	require.NoError(t, f.store.LocalBranch(f.ctx, "interlock/s1", id, ""))
	_, err = f.store.AppendLedger(f.ctx, "s1", 1, []string{"{}"}, when)
	require.NoError(t, err)
	remote := t.TempDir()
	git := exec.Command("git", "init", "-q", "--bare", remote)
	git.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent"}
	require.NoError(t, git.Run())
	_, err = f.store.Push(f.ctx, remote, "interlock/s1", id, "")
	require.NoError(t, err)
	require.NoFileExists(t, trap+"/sprung")
	for _, name := range []string{"elsewhere", "index", "objects", "trace"} {
		require.NoFileExists(t, trap+"/"+name)
	}
}

// asNobody runs the test again as another user, since root may read and remove everything.
func asNobody(t *testing.T) bool {
	t.Helper()
	if os.Getenv("INTERLOCK_TEST_AS_NOBODY") != "" || os.Getuid() != 0 {
		return true
	}
	dir, err := os.MkdirTemp("", "interlock-nobody-") //nolint:usetesting // another user cannot enter t.TempDir
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o777))
	self, err := os.ReadFile(must(os.Executable()))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(dir+"/test", self, 0o755))
	cmd := exec.Command(dir+"/test", "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + dir, "INTERLOCK_TEST_AS_NOBODY=1"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "PASS")
	return false
}

func TestUnreadableAndReadOnly(t *testing.T) {
	if !asNobody(t) {
		return
	}
	f := setup(t, sourceScript)
	sh(t, f.ws.Dir(), "echo x > secret; chmod 000 secret; mkdir closed; echo x > closed/x; chmod 000 closed")
	c := f.snapshot()
	require.Equal(t, []Refusal{
		{"closed", Unreadable, "the folder cannot be read"}, {"secret", Unreadable, "the file cannot be read"},
	}, c.Refused)

	// Read-only folders, as a Go module cache has them, tracked, untracked and ignored.
	sh(t, f.ws.Dir(), "chmod 700 closed; mkdir -p ignored/mod ro/deep; touch ignored/mod/f ro/deep/f; echo x > src/a.go; echo x > src/deep/b.go; chmod 555 ignored/mod ro/deep ro src/deep src; chmod 500 .git/objects .git")
	require.NoError(t, f.ws.Restore(f.ctx, f.base, false))
	require.Empty(t, f.changes(f.snapshot().Tree))
	require.NoDirExists(t, f.ws.Dir()+"/ro")
	require.FileExists(t, f.ws.Dir()+"/ignored/mod/f")
	v, err := f.store.View("s1", "check")
	require.NoError(t, err)
	require.NoError(t, v.Move(f.ctx, f.base, f.base))
	sh(t, v.Dir(), "mkdir -p ignored/mod; touch ignored/mod/f; chmod 555 ignored/mod ignored")
	require.NoError(t, v.Fresh(f.ctx, f.base, f.base))
	require.NoDirExists(t, v.Dir()+"/ignored")
	sh(t, v.Dir(), "mkdir -p ignored/mod; touch ignored/mod/f; chmod 555 ignored/mod ignored")
	sh(t, f.ws.Dir(), "chmod 555 ignored/mod ignored")
	require.NoError(t, f.store.RemoveViews(f.ctx, "s1"))
	require.NoError(t, f.ws.Remove(f.ctx, f.base))
	require.NoDirExists(t, f.home+"/views/s1")
	require.NoDirExists(t, f.home+"/workspaces/s1")
}
