package guard

import (
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// readGo reads a Go file: its declarations by go/ast, the bodies as tokens.
func (u *unit) readGo() {
	fset := token.NewFileSet()
	// A file that does not parse has the declarations before its error.
	f, err := parser.ParseFile(fset, path.Base(u.path), u.text, parser.SkipObjectResolution|parser.ParseComments)
	if f == nil {
		return
	}
	groups := map[int]*node{}
	var index func(nodes []node, depth int)
	index = func(nodes []node, depth int) {
		for k := range nodes {
			if nodes[k].kind == group {
				groups[nodes[k].pos] = &nodes[k]
				if depth > 0 {
					index(nodes[k].kids, depth-1)
				}
			}
		}
	}
	index(u.src.nodes, 1)
	at := func(p token.Pos) *node {
		if !p.IsValid() {
			return nil
		}
		return groups[fset.PositionFor(p, false).Offset]
	}
	line := func(p token.Pos) int32 { return int32(fset.PositionFor(p, false).Line) } // lines of a file
	u.guarded = u.buildGo(f)
	for _, s := range f.Imports {
		p := strings.Trim(s.Path.Value, `"`)
		name := path.Base(p)
		if s.Name != nil {
			name = s.Name.Name
		}
		u.imports[name] = p
		u.modules = append(u.modules, p)
	}
	u.decls["package"] = f.Name.Name
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			fn := function{name: d.Name.Name, line: line(d.Name.Pos())}
			if g := at(d.Type.Params.Opening); g != nil {
				fn.params = g.kids
			}
			if d.Body != nil {
				if g := at(d.Body.Lbrace); g != nil {
					fn.nodes, fn.given = g.kids, true
				}
			}
			suite := false
			if d.Recv != nil && len(d.Recv.List) > 0 {
				t := d.Recv.List[0].Type
				if s, ok := t.(*ast.StarExpr); ok {
					t = s.X
				}
				if id, ok := t.(*ast.Ident); ok {
					fn.owner = []string{id.Name}
				}
				// A method of a suite of testify has no parameters.
				suite = strings.HasPrefix(d.Name.Name, "Test") && d.Type.Params.NumFields() == 0
			}
			name := d.Name.Name
			switch {
			case d.Recv != nil:
				fn.test = u.isTest && suite && fn.given
			case goTest(name, "Test") && name != "TestMain" && takes(d, "T"), goTest(name, "Fuzz") && takes(d, "F"):
				fn.test = u.isTest && fn.given
			case strings.HasPrefix(name, "Example") && d.Type.Params.NumFields() == 0:
				fn.test = u.isTest && output(f, d)
			case takes(d, "T") && u.isTest:
				fn.why = ""
			}
			u.functions = append(u.functions, fn)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.ValueSpec:
					for k, name := range s.Names {
						u.decls[name.Name] = ""
						if k < len(s.Values) {
							from, to := fset.PositionFor(s.Values[k].Pos(), false).Offset, fset.PositionFor(s.Values[k].End(), false).Offset
							if from >= 0 && to <= len(u.text) && from < to {
								u.define(name.Name, read(golang, u.text[from:to]).nodes)
							}
						}
					}
				case *ast.TypeSpec:
					from, to := fset.PositionFor(s.Pos(), false).Offset, fset.PositionFor(s.End(), false).Offset
					if from >= 0 && to <= len(u.text) && from < to {
						u.decls[s.Name.Name] = strings.Join(strings.Fields(u.text[from:to]), " ")
					}
				}
			}
		}
	}
	_ = err
}

// goTest says that name is prefix, or prefix and a name that is no word.
func goTest(name, prefix string) bool {
	rest, ok := strings.CutPrefix(name, prefix)
	if !ok {
		return false
	}
	r, _ := utf8.DecodeRuneInString(rest)
	return rest == "" || !unicode.IsLower(r)
}

// takes says that a function takes one *testing.T (or F).
func takes(d *ast.FuncDecl, name string) bool {
	if d.Type.Params.NumFields() != 1 {
		return false
	}
	star, ok := d.Type.Params.List[0].Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	switch x := star.X.(type) {
	case *ast.SelectorExpr:
		return x.Sel.Name == name
	case *ast.Ident:
		return x.Name == name
	}
	return false
}

// output says that an example has output that is compared.
func output(f *ast.File, d *ast.FuncDecl) bool {
	if d.Body == nil {
		return false
	}
	for _, g := range f.Comments {
		if g.Pos() > d.Body.Lbrace && g.End() <= d.Body.Rbrace {
			s := strings.ToLower(strings.TrimSpace(g.Text()))
			if strings.HasPrefix(s, "output:") || strings.HasPrefix(s, "unordered output:") {
				return true
			}
		}
	}
	return false
}

var goSystems = []string{"aix", "android", "darwin", "dragonfly", "freebsd", "hurd", "illumos", "ios", "js", "linux", "netbsd", "openbsd", "plan9", "solaris", "wasip1", "windows", "zos", "nacl"}
var goMachines = []string{"386", "amd64", "arm", "arm64", "loong64", "mips", "mips64", "mips64le", "mipsle", "ppc64", "ppc64le", "riscv64", "s390x", "wasm", "sparc64", "riscv", "ppc"}

// buildGo returns the condition under which the file is built: nothing, a
// platform, or a tag that somebody must set.
func (u *unit) buildGo(f *ast.File) mark {
	stem := strings.TrimSuffix(strings.TrimSuffix(path.Base(u.path), ".go"), "_test")
	parts := strings.Split(stem, "_")
	m := mark{kind: skipMark}
	set := func(c condition, text string, line int32) {
		if m.text == "" || c == byMachine {
			m.cond, m.text, m.canon, m.line = c, text, text, line
		}
	}
	if n := len(parts); n > 1 {
		last := parts[n-1]
		if oneOf(last, goSystems...) || oneOf(last, goMachines...) {
			c := byPlatform
			// These no continuous integration runs.
			if oneOf(last, "plan9", "aix", "dragonfly", "hurd", "illumos", "nacl", "zos", "solaris", "js", "wasip1", "wasm", "ios", "android", "sparc64", "mips", "mips64", "riscv", "ppc") {
				c = byMachine
			}
			set(c, "the file's name ends in _"+last, 1)
		}
	}
	for _, g := range f.Comments {
		if g.Pos() > f.Package {
			break
		}
		for _, c := range g.List {
			if !constraint.IsGoBuild(c.Text) {
				continue
			}
			expr, err := constraint.Parse(c.Text)
			if err != nil {
				continue
			}
			eval := func(system, machine string) bool {
				return expr.Eval(func(tag string) bool {
					return tag == system || tag == machine || tag == "cgo" || tag == "gc" || tag == "unix" && oneOf(system, "linux", "darwin", "freebsd") || strings.HasPrefix(tag, "go1.")
				})
			}
			lin, mac, win := eval("linux", "amd64"), eval("darwin", "arm64"), eval("windows", "amd64")
			switch {
			case lin && mac && win:
			case lin || mac || win:
				set(byPlatform, c.Text, 1)
			default:
				set(byMachine, c.Text, 1)
			}
		}
	}
	return m
}
