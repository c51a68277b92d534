package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	home, err := os.MkdirTemp("", "interlock-home-")
	if err != nil {
		panic(err)
	}
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "GIT_") || strings.HasPrefix(name, "XDG_") {
			os.Unsetenv(name)
		}
	}
	os.Setenv("HOME", home)
	os.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	if os.Getenv("INTERLOCK_TEST_AS_NOBODY") != "" {
		os.Setenv("HOME", "/nonexistent")
	}
	code := m.Run()
	os.RemoveAll(home)
	os.Exit(code)
}

var when = time.Unix(1_700_000_000, 0).UTC()

// sh runs a script as an agent or a user would: git of the system, with an identity.
func sh(t testing.TB, dir, script string) string {
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

const sourceScript = `
git init -q -b main .
mkdir -p src/deep docs build
printf 'package src\n' > src/a.go
printf 'package deep\n' > src/deep/b.go
printf 'one\r\ntwo\r\n' > crlf.txt
printf '$Id$\n' > ident.txt
printf 'plain\n' > plain.txt
printf '#!/bin/sh\n' > run.sh; chmod +x run.sh
ln -s src/a.go link
printf 'ignored/\n*.log\nbuild/\n' > .gitignore
printf 'kept\n' > build/kept
git add -A; git add -f build/kept
git -c core.autocrlf=false commit -q -m base
`

// fix is a user's repository, a home, a store and a restored workspace.
type fix struct {
	t       testing.TB
	ctx     context.Context
	top     string
	source  string
	home    string
	outside string
	store   *Store
	ws      *Workspace
	base    string
}

func setup(t testing.TB, script string) *fix {
	t.Helper()
	f := &fix{t: t, ctx: t.Context(), top: t.TempDir()}
	f.source, f.home, f.outside = f.top+"/source", f.top+"/home", f.top+"/outside"
	require.NoError(t, os.MkdirAll(f.source, 0o755))
	require.NoError(t, os.MkdirAll(f.outside, 0o755))
	require.NoError(t, os.WriteFile(f.outside+"/secret", []byte("secret\n"), 0o644))
	sh(t, f.source, script)
	f.open()
	b, err := f.store.Fetch(f.ctx, "s1", "main")
	require.NoError(t, err)
	f.base = b.Commit
	require.NoError(t, f.store.SetRef(f.ctx, "s1", "good", f.base, ""))
	require.NoError(t, f.ws.Restore(f.ctx, f.base, false))
	return f
}

func (f *fix) open() {
	f.t.Helper()
	var err error
	f.store, err = Open(f.ctx, f.home, f.source)
	require.NoError(f.t, err)
	f.ws, err = f.store.Workspace("s1")
	require.NoError(f.t, err)
}

func (f *fix) snapshot() Candidate {
	f.t.Helper()
	c, err := f.ws.Snapshot(f.ctx, f.base, DefaultLimits)
	require.NoError(f.t, err)
	return c
}

// changes are "status path" for what the candidate changes.
func (f *fix) changes(tree string) []string {
	f.t.Helper()
	require.NotEmpty(f.t, tree, "refused")
	list, err := f.store.Diff(f.ctx, f.base, tree)
	require.NoError(f.t, err)
	out := []string{}
	for _, c := range list {
		s := c.Status + " " + c.Path
		if c.OldPath != "" {
			s = c.Status + " " + c.OldPath + " " + c.Path
		}
		if c.ModeOnly() {
			s += " " + c.NewMode
		}
		out = append(out, s)
	}
	return out
}

// surroundings hashes all that an agent must not be able to change through us: the user's repository, HOME, a
// folder outside, and the store but for objects and the candidate.
func (f *fix) surroundings() string {
	f.t.Helper()
	sum := sha256.New()
	for _, top := range []string{f.source, f.outside, os.Getenv("HOME"), f.store.Dir()} {
		err := filepath.WalkDir(top, func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if top == f.store.Dir() && (d.Name() == "objects" || strings.HasSuffix(p, "/candidate")) {
				if d.IsDir() {
					return filepath.SkipDir
				}
				return nil
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			fmt.Fprintln(sum, p, info.Mode())
			if info.Mode().IsRegular() {
				b, err := os.ReadFile(p)
				if err != nil {
					return err
				}
				sum.Write(b)
			}
			return nil
		})
		require.NoError(f.t, err)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

func (f *fix) request(tree string) CommitRequest {
	return CommitRequest{
		Slice: "s1", Parent: f.base, Tree: tree, Subject: "Do it", Body: "Because.",
		Trailers: []Trailer{{"Interlock-Slice", "s1"}, {"Interlock-Task", "t1"}, {"Interlock-Attempt", "1"}},
		Name:     "Interlock", Email: "interlock@localhost", When: when,
	}
}
