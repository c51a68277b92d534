package guard_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"

	"interlock/guard"
)

// expect is what a case says about itself.
type expect struct {
	Language string          `json:"language"`
	Kind     string          `json:"kind"`
	Verdict  guard.Verdict   `json:"verdict"`
	AlsoOK   []guard.Verdict `json:"also_ok"`
	Tests    []string        `json:"tests"`
	Why      string          `json:"why"`
}

// tree is a tree in memory.
type tree map[string]string

type testCase struct {
	id string
	expect
	base, head tree
}

// cases reads a folder of cases.
func cases(t testing.TB, dir string) []testCase {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var all []testCase
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		a := txtar.Parse(data)
		c := testCase{id: strings.TrimSuffix(filepath.Base(file), ".txtar"), base: tree{}, head: tree{}}
		require.NoError(t, json.Unmarshal(a.Comment, &c.expect), file)
		for _, f := range a.Files {
			side, name, ok := strings.Cut(f.Name, "/")
			require.True(t, ok, "%s: %s", file, f.Name)
			if side != "head" {
				c.base[name] = string(f.Data)
			}
			if side != "base" {
				c.head[name] = string(f.Data)
			}
		}
		all = append(all, c)
	}
	return all
}

// input makes the guard's input of two trees.
func input(base, head tree) guard.Input {
	trees := []tree{base, head}
	entry := func(t tree, name string) *guard.Entry {
		content, ok := t[name]
		if !ok {
			return nil
		}
		return &guard.Entry{Path: name, Mode: "100644", Object: content}
	}
	in := guard.Input{
		List: func(side guard.Side) ([]guard.Entry, error) {
			var all []guard.Entry
			for _, name := range slices.Sorted(maps.Keys(trees[side])) {
				all = append(all, *entry(trees[side], name))
			}
			return all, nil
		},
		Read: func(side guard.Side, name string) ([]byte, error) {
			content, ok := trees[side][name]
			if !ok {
				return nil, fs.ErrNotExist
			}
			return []byte(content), nil
		},
	}
	names := map[string]bool{}
	for _, t := range trees {
		for name := range t {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		b, h := entry(base, name), entry(head, name)
		if b == nil || h == nil || *b != *h {
			in.Changes = append(in.Changes, guard.Change{Path: name, Base: b, Head: h})
		}
	}
	return in
}

func (c *testCase) right(v guard.Verdict) bool { return v == c.Verdict || slices.Contains(c.AlsoOK, v) }

// named says that a report names all tests of a case, by their last part.
func (c *testCase) named(r guard.Report) bool {
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%s\n%s\n%s\n", f.File, f.Test, f.Why)
	}
	for _, t := range c.Tests {
		last := t[strings.LastIndexByte(t, '/')+1:]
		last, _, _ = strings.Cut(last, "[")
		if !strings.Contains(b.String(), t) && !strings.Contains(b.String(), last) {
			return false
		}
	}
	return true
}

func findings(r guard.Report) string {
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "  %s:%d: %s: %s: %s: %s\n", f.File, f.Line, f.Verdict, f.Kind, f.Test, f.Why)
	}
	return b.String()
}

func TestCases(t *testing.T) {
	dirs := []string{"testdata/cases", "testdata/own"}
	if more := os.Getenv("GUARD_CASES"); more != "" {
		dirs = []string{more}
	}
	for _, dir := range dirs {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		for _, c := range cases(t, dir) {
			t.Run(c.id, func(t *testing.T) {
				r, err := guard.Judge(input(c.base, c.head))
				require.NoError(t, err)
				if !c.right(r.Verdict) {
					t.Errorf("%s, %s: got %s, want %s %v\n  %s\n%s", c.Language, c.Kind, r.Verdict, c.Verdict, c.AlsoOK, c.Why, findings(r))
				} else if r.Verdict != guard.Clean && !c.named(r) {
					t.Errorf("%s, %s: does not name %v\n%s", c.Language, c.Kind, c.Tests, findings(r))
				}
			})
		}
	}
}

var _ = cmp.Compare[int]
