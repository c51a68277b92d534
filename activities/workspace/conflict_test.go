package workspace

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const conflictScript = `
git init -q -b main .
seq 1 9 > content; seq 11 19 > md; seq 21 29 > rr; printf 'x\0y' > bin; echo a > df; echo k > keep
git add -A; git commit -q -m base
git checkout -q -b theirs
sed -i s/^3$/3t/ content; git rm -q md; git mv rr rr2; printf 'x\0t' > bin; printf 'same\n' > mode; echo t > aa
git rm -q df; mkdir df; echo z > df/z
git add -A; git commit -q -m theirs
git checkout -q main
sed -i s/^3$/3o/ content; sed -i s/^13$/13o/ md; git mv rr rr1; printf 'x\0o' > bin; printf 'same\n' > mode; chmod +x mode; echo o > aa
echo b >> df
git add -A; git commit -q -m ours
`

func TestConflictsTellWhatEachSideHas(t *testing.T) {
	f := setup(t, conflictScript)
	b, err := f.store.Tip(f.ctx, "s1", "theirs")
	require.NoError(t, err)
	plain, err := f.store.Merge(f.ctx, f.base, b.Commit)
	require.NoError(t, err)
	tree, all, err := f.store.Conflicts(f.ctx, f.base, b.Commit)
	require.NoError(t, err)
	require.Equal(t, plain.Tree, tree)
	var got []string
	var paths []string
	for _, c := range all {
		var files []string
		for _, f := range c.Files {
			stages := ""
			for i, e := range []Entry{f.Base, f.Ours, f.Theirs, f.Merged} {
				if e.ID != "" {
					stages += "bot="[i : i+1]
					require.Equal(t, f.Path, e.Path)
				}
			}
			files = append(files, strings.ReplaceAll(f.Path, b.Commit, "THEIRS")+":"+stages)
			paths = append(paths, f.Path)
		}
		got = append(got, strings.ReplaceAll(strings.Join(files, " "), f.base, "OURS"))
		require.NotEmpty(t, c.Kinds)
		require.Len(t, c.Messages, len(c.Kinds))
	}
	require.Equal(t, []string{"aa:ot=", "bin:bot=", "content:bot=", "df~OURS:bo=", "md:bo=", "mode:ot=", "rr:b rr1:o= rr2:t="}, got)
	require.ElementsMatch(t, plain.Conflicts, paths)

	_, all, err = f.store.Conflicts(f.ctx, f.base, f.base)
	require.NoError(t, err)
	require.Empty(t, all)
}

func TestGraftReplacesAndRemovesFiles(t *testing.T) {
	f := setup(t, sourceScript)
	tree := sh(t, f.source, "git rev-parse main^{tree}")
	put := []Replacement{
		{Path: "plain.txt", Mode: "100755", Content: []byte("no newline")},
		{Path: "src/deep/b.go"},
		{Path: "a \"new\"\n/\\ü", Mode: "100644", Content: []byte("done\n")},
	}
	got, err := f.store.Graft(f.ctx, "s1", "graft", tree, put)
	require.NoError(t, err)
	require.Equal(t, []string{"A a \"new\"\n/\\ü", "M plain.txt", "D src/deep/b.go"}, f.changes(got))
	content, err := f.store.File(f.ctx, got, "plain.txt")
	require.NoError(t, err)
	require.Equal(t, "no newline", string(content))
	again, err := f.store.Graft(f.ctx, "s1", "graft", tree, put)
	require.NoError(t, err)
	require.Equal(t, got, again)
	sh(t, f.store.Dir(), "git gc -q --prune=now")
	_, err = f.store.List(f.ctx, got)
	require.NoError(t, err, "it is kept")

	same, err := f.store.Graft(f.ctx, "s1", "graft", tree, nil)
	require.NoError(t, err)
	require.Equal(t, tree, same)
	_, err = f.store.Graft(f.ctx, "s1", "graft", tree, []Replacement{{Path: "x", Mode: "120000"}})
	require.Equal(t, InvalidInput, KindOf(err))
	for _, p := range []string{"a/../x", "/x", "", ".", "a//b", ".git/config", "a/.GIT"} {
		_, err = f.store.Graft(f.ctx, "s1", "graft", tree, []Replacement{{Path: p, Mode: "100644"}})
		require.Equal(t, InvalidInput, KindOf(err), p)
	}
}

func TestTakeFollowsNoLink(t *testing.T) {
	f := setup(t, sourceScript)
	v, err := f.store.View("s1", "reconcile")
	require.NoError(t, err)
	require.NoError(t, v.Move(f.ctx, f.base, f.base))
	sh(t, v.Dir(), "rm plain.txt ident.txt crlf.txt; rm -r src build; ln -s "+f.outside+"/secret plain.txt; mkfifo ident.txt; ln -s "+f.outside+" src; mkdir build")
	list, err := v.Take(f.ctx, []string{"run.sh", "plain.txt", "ident.txt", "crlf.txt", "src/secret", "build", ".gitignore", "link"}, 12)
	require.NoError(t, err)
	var got []string
	for _, x := range list {
		switch {
		case x.Missing:
			got = append(got, "missing")
		case x.Refused != "":
			require.Empty(t, x.Content)
			got = append(got, x.Refused)
		default:
			got = append(got, string(x.Content))
		}
	}
	const other = "it is no regular file any more"
	require.Equal(t, []string{"#!/bin/sh\n", other, other, "missing", `"src" on its way is no folder`, other, "it has more than 12 bytes", other}, got)
	require.FileExists(t, f.outside+"/secret")
	_, err = os.Lstat(v.Dir() + "/src")
	require.NoError(t, err)
}
