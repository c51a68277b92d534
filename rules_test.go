// Package interlock_test holds the rules of the house: which package may know
// which, and what the pure and the deterministic ones must not do.
package interlock_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "interlock"

// rule is what one package may import; its tests are free.
type rule struct {
	pkg string
	// ours are the packages of this module that it may import: "x" that one,
	// "x/..." those below it.
	ours []string
	// only, if not nil, is all that it may import beside them; never is what it
	// may not. Both take the same patterns.
	only, never []string
	// later says that the package is planned and may be missing.
	later bool
}

var (
	temporal = []string{"go.temporal.io/..."}
	// effects let a package act on the world, wait, or differ between two runs.
	effects = []string{
		"os/...", "syscall", "golang.org/x/sys/...", "net", "net/http/...", "net/rpc/...",
		"math/rand/...", "crypto/rand", "hash/maphash", "github.com/google/uuid",
		"context", "sync/...", "runtime/...", "log/...",
	}
	effectsAndTemporal = slices.Concat(effects, temporal)
)

// house has one line for each package.
var house = []rule{
	// Pure: no I/O, no clock, no goroutine.
	{pkg: "machine", only: []string{"fmt"}},
	{pkg: "slice", ours: []string{"machine"}, never: effectsAndTemporal},
	{pkg: "spec", ours: []string{"machine", "slice"}, never: effectsAndTemporal},
	{pkg: "ledger", ours: []string{"machine", "slice"}, never: effectsAndTemporal},
	{pkg: "guard", ours: []string{"slice"}, never: effectsAndTemporal, later: true},

	// Deterministic: asks the machine, waits, schedules. Activities are called
	// by typed name, so that no effect is linked into workflow code.
	{pkg: "workflows", ours: []string{"machine", "slice", "ledger", "saga"}, never: effects},
	{pkg: "saga", ours: []string{"machine", "slice", "ledger"}, never: effects},

	// Effects. Those at the bottom know neither each other nor Temporal.
	{pkg: "activities", ours: []string{"machine", "slice", "spec", "ledger", "guard", "activities/..."}},
	{pkg: "activities/process", never: temporal},
	{pkg: "activities/git", never: temporal},
	{pkg: "activities/workspace", ours: []string{"activities/git"}, never: temporal},
	{pkg: "activities/evidence", ours: []string{"slice", "activities/process"}, never: temporal},
	{pkg: "activities/agent", ours: []string{"machine", "slice", "activities/process", "activities/evidence"}, later: true},
	{pkg: "activities/check", ours: []string{"machine", "slice", "activities/process", "activities/evidence"}},
	// A code host for tests alone.
	{pkg: "activities/forge/fakeforge", never: temporal},
	{pkg: "activities/sandbox", ours: []string{"activities/process"}, never: temporal},
	{pkg: "activities/forge", ours: []string{"machine", "slice", "activities/process", "activities/evidence"}, later: true},

	// Doors: wiring only. The client program does not link the workflows but
	// through host.
	{pkg: "host", ours: []string{"slice", "workflows", "activities/..."}},
	{pkg: "engine"},
	// Agents and checks run under a shim, which is the program itself started again.
	{pkg: "worker", ours: []string{"host", "engine", "activities/process"}},
	{pkg: "starter", ours: []string{"machine", "slice", "spec", "ledger", "guard", "host", "engine", "activities/...", "examples"}},
	{pkg: "examples", ours: []string{"machine", "slice", "activities/git"}},

	// Tests and benchmarks of the whole, and the rules themselves.
	{pkg: "bench"},
	{pkg: "e2e"},
	{pkg: "."},
}

func TestImports(t *testing.T) {
	tree := sources(t, ".")
	rules := map[string]rule{}
	for _, r := range house {
		require.NotContains(t, rules, r.pkg, "two lines of the house for one package")
		rules[r.pkg] = r
		if tree[r.pkg] == nil && !r.later {
			t.Errorf("the house lists package %s, which is not there", r.pkg)
		}
	}
	for pkg, files := range tree {
		r, listed := rules[pkg]
		if !listed {
			t.Errorf("package %s has no rule: add its line to the house in rules_test.go", pkg)
			continue
		}
		for _, f := range files {
			for _, spec := range f.ast.Imports {
				if why := r.refuses(imported(t, spec)); why != "" && !f.test {
					t.Errorf("%s: %s", f.at(spec), why)
				}
			}
		}
	}
}

// refuses says why the package may not import the one at importPath, or nothing.
func (r rule) refuses(importPath string) string {
	if importPath == module || strings.HasPrefix(importPath, module+"/") {
		if own := strings.TrimPrefix(importPath, module+"/"); !matches(r.ours, own) {
			return fmt.Sprintf("%s must not know %s: of ours it may import %q", r.pkg, own, r.ours)
		}
		return ""
	}
	if r.only != nil && !matches(r.only, importPath) {
		return fmt.Sprintf("%s must not import %s, but only %q", r.pkg, importPath, r.only)
	}
	if matches(r.never, importPath) {
		return fmt.Sprintf("%s must not import %s", r.pkg, importPath)
	}
	return ""
}

// The rules decide what they are meant to decide.
func TestRefuses(t *testing.T) {
	rules := map[string]rule{}
	for _, r := range house {
		rules[r.pkg] = r
	}
	for _, c := range []struct {
		pkg, imports string
		ok           bool
	}{
		{"machine", "fmt", true},
		{"machine", "strings", false},
		{"machine", "interlock/slice", false},
		{"slice", "interlock/machine", true},
		{"slice", "interlock/ledger", false},
		{"slice", "go.temporal.io/sdk/temporal", false},
		{"spec", "net/url", true},
		{"spec", "net/http", false},
		{"spec", "os", false},
		{"ledger", "math/rand/v2", false},
		{"guard", "interlock/machine", false},
		{"workflows", "go.temporal.io/sdk/workflow", true},
		{"workflows", "interlock/saga", true},
		{"workflows", "interlock/activities", false},
		{"workflows", "interlock/activities/git", false},
		{"workflows", "os", false},
		{"workflows", "os/exec", false},
		{"workflows", "net", false},
		{"workflows", "net/http", false},
		{"workflows", "math/rand", false},
		{"workflows", "sync/atomic", false},
		{"saga", "interlock/workflows", false},
		{"activities/process", "interlock/slice", false},
		{"activities/process", "os/exec", true},
		{"activities/git", "interlock/activities/process", false},
		{"activities/git", "go.temporal.io/sdk/activity", false},
		{"activities/workspace", "interlock/activities/git", true},
		{"activities/workspace", "interlock/activities/process", false},
		{"activities", "interlock/activities/git", true},
		{"activities", "interlock/workflows", false},
		{"engine", "interlock", false},
		{"worker", "interlock/starter", false},
	} {
		require.Equal(t, c.ok, rules[c.pkg].refuses(c.imports) == "", "%s imports %s", c.pkg, c.imports)
	}
}

// The embedded server is a module of its own and does not know this one: then
// neither needs a replace, and one command installs it.
func TestDevserverStandsAlone(t *testing.T) {
	for _, files := range sources(t, "devserver") {
		for _, f := range files {
			for _, spec := range f.ast.Imports {
				p := imported(t, spec)
				if (p == module || strings.HasPrefix(p, module+"/")) && !strings.HasPrefix(p, module+"/devserver/") {
					t.Errorf("%s: devserver must not import %s", f.at(spec), p)
				}
			}
		}
	}
	for _, file := range []string{"go.mod", "devserver/go.mod"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NotContains(t, string(text), "\nreplace ", "%s", file)
	}
	require.NoFileExists(t, "go.work")
	require.NoFileExists(t, "go.work.sum")
}

// What workflowcheck cannot see: a variable of the package outlives a replay
// and is shared by all workflows of a worker, so a table is all it may hold.
func TestWorkflowsKeepNoState(t *testing.T) {
	tree := sources(t, ".")
	for _, pkg := range []string{"workflows", "saga"} {
		for _, complaint := range state(tree[pkg]) {
			t.Error(complaint)
		}
	}
}

func TestState(t *testing.T) {
	for source, want := range map[string]int{
		"var table = map[string]int{\"a\": 1}":                                       0,
		"var order = []int{1}; func f() int { return order[0] }":                     0,
		"var order = []int{1}; func f() { order := order; order2 := 1; _ = order2 }": 1,
		"var n int":   1,
		"var n = 1":   1,
		"var p *int":  1,
		"var a = f()": 1,
		"var k = temporal.NewSearchAttributeKeyBool(\"K\")": 0,
		"var _ I = T{}": 0,
		"var table = map[string]int{}; func f() { table[\"a\"] = 1 }":      1,
		"var table = map[string]int{}; func f() { table[\"a\"]++ }":        1,
		"var table = map[string]int{}; func f() { delete(table, \"a\") }":  1,
		"var table = [1]int{}; func f() *int { return &table[0] }":         1,
		"var table = T{}; func f() { table.a.b = 1 }":                      1,
		"var table = []int{}; func f() { table, x = nil, 1 }":              1,
		"var table = []int{}; func f() { for table[0] = range 3 { g() } }": 1,
		"func f() { local := []int{}; local[0] = 1; delete(local, 1) }":    0,
		"const c = 1; func f() { var local int; local = 1; g(&local) }":    0,
	} {
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, "x.go", "package x; "+source, parser.SkipObjectResolution)
		require.NoError(t, err, source)
		require.Len(t, state([]file{{fset: fset, ast: parsed}}), want, source)
	}
}

// state returns what is wrong with the variables of the package in files: each
// must be a table written out in its declaration that nothing writes to.
func state(files []file) []string {
	var all []string
	tables := map[string]bool{}
	for _, f := range files {
		for _, decl := range f.ast.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if f.test || !ok || gen.Tok != token.VAR {
				continue
			}
			for _, spec := range gen.Specs {
				v := spec.(*ast.ValueSpec)
				for i, name := range v.Names {
					if name.Name == "_" {
						continue
					}
					tables[name.Name] = true
					if i >= len(v.Values) || !isTable(v.Values[i]) {
						all = append(all, fmt.Sprintf("%s: variable %s is no table: make it a constant, a field or an argument", f.at(name), name.Name))
					}
				}
			}
		}
	}
	for _, f := range files {
		if f.test {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			for _, target := range written(n) {
				if root := rootOf(target); root != nil && tables[root.Name] {
					all = append(all, fmt.Sprintf("%s: %s is a table of the package and is written to (or hidden by a variable of the same name)", f.at(n), root.Name))
				}
			}
			return true
		})
	}
	return all
}

// isTable reports whether e is written out in full: a composite literal, or the
// typed name of a search attribute, which Go has no constant for.
func isTable(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.CompositeLit:
		return true
	case *ast.CallExpr:
		f, ok := e.Fun.(*ast.SelectorExpr)
		return ok && strings.HasPrefix(f.Sel.Name, "NewSearchAttributeKey")
	}
	return false
}

// written returns what statement or expression n may write to.
func written(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.AssignStmt:
		return n.Lhs
	case *ast.IncDecStmt:
		return []ast.Expr{n.X}
	case *ast.RangeStmt:
		return []ast.Expr{n.Key, n.Value}
	case *ast.UnaryExpr:
		if n.Op == token.AND {
			return []ast.Expr{n.X}
		}
	case *ast.CallExpr:
		if f, ok := n.Fun.(*ast.Ident); ok && slices.Contains([]string{"delete", "clear", "copy"}, f.Name) && len(n.Args) > 0 {
			return n.Args[:1]
		}
	}
	return nil
}

// rootOf returns x of x, x.f, x[i], *x and their like.
func rootOf(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.SliceExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		default:
			return nil
		}
	}
}

// A pure package takes the time as an argument and starts nothing.
func TestPurePackagesHaveNoClockAndStartNothing(t *testing.T) {
	clock := []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Local", "LoadLocation"}
	tree := sources(t, ".")
	for _, pkg := range []string{"machine", "slice", "spec", "ledger", "guard"} {
		for _, f := range tree[pkg] {
			if f.test {
				continue
			}
			ast.Inspect(f.ast, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.GoStmt, *ast.SendStmt, *ast.SelectStmt, *ast.ChanType:
					t.Errorf("%s: %s is pure and must not start or wait for anything", f.at(n), pkg)
				case *ast.SelectorExpr:
					if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clock, n.Sel.Name) {
						t.Errorf("%s: %s is pure and must not use time.%s", f.at(n), pkg, n.Sel.Name)
					}
				}
				return true
			})
		}
	}
}

// file is one parsed Go file.
type file struct {
	fset *token.FileSet
	ast  *ast.File
	test bool
}

func (f file) at(n ast.Node) string {
	p := f.fset.Position(n.Pos())
	return fmt.Sprintf("%s:%d", p.Filename, p.Line)
}

// sources returns the Go files of the module at root, whatever system they are
// for, by the folder of their package below root.
func sources(t *testing.T, root string) map[string][]file {
	t.Helper()
	all := map[string][]file{}
	fset := token.NewFileSet()
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != root {
			if base := d.Name(); base == "testdata" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
				return fs.SkipDir
			}
			if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil {
				return fs.SkipDir
			}
		}
		if d.IsDir() || path.Ext(name) != ".go" {
			return nil
		}
		parsed, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, filepath.Dir(name))
		if err != nil {
			return err
		}
		pkg := filepath.ToSlash(rel)
		all[pkg] = append(all[pkg], file{fset: fset, ast: parsed, test: strings.HasSuffix(name, "_test.go")})
		return nil
	})
	require.NoError(t, err)
	require.NotEmpty(t, all, "no Go files in %s", root)
	return all
}

func imported(t *testing.T, spec *ast.ImportSpec) string {
	t.Helper()
	p, err := strconv.Unquote(spec.Path.Value)
	require.NoError(t, err)
	return p
}

// matches reports whether pkg is one of patterns; "x/..." is x and all below.
func matches(patterns []string, pkg string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		if base, deep := strings.CutSuffix(p, "/..."); deep {
			return pkg == base || strings.HasPrefix(pkg, base+"/")
		}
		return pkg == p
	})
}
