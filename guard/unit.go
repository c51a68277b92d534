package guard

import (
	"path"
	"slices"
	"strings"
)

// anno is one annotation, decorator or attribute.
type anno struct {
	name string // the last name
	full string
	args []node
	line int32
}

// function is a test, or any other function of a file.
type function struct {
	file  string
	lang  language
	name  string
	owner []string // the classes, modules and groups around it
	line  int32
	annos []anno
	mods  []string
	// params are the nodes of its parameters, nodes those of its body.
	params, nodes []node
	// test says that the runner collects it; why is the kind of finding if it
	// looks like a test and is not collected.
	test bool
	why  string
	// given says that it has a body.
	given bool
	marks []mark
	// tables are those that stand around it: in annotations, in loops.
	tables [][]row
	// inherited says that a class gets it from another one.
	abstract bool
	// group counts the file's blocks of tests, for focus.
	body  body
	ready bool
	text  string
}

// title is the test as a person would say it.
func (f *function) title() string {
	return strings.Join(append(slices.Clip(f.owner), f.name), sep(f.lang))
}

func sep(lang language) string {
	switch lang {
	case javascript, typescript, ruby:
		return " "
	case python, rust, php:
		return "::"
	case golang:
		return "/"
	default:
		return "."
	}
}

// unit is one file of source text.
type unit struct {
	path      string
	lang      language
	text      string
	src       source
	functions []function
	// types are the classes of the file with what they derive from.
	types map[string]classInfo
	// names are all that the file declares, with their bodies.
	decls   map[string]string
	imports map[string]string // name → where from
	modules []string          // what is imported, as written
	scope   scope
	// aliases are other names for functions that make tests.
	aliases map[string]alias
	// top are the statements of the file outside functions.
	top []node
	// guarded is the condition under which the file is built at all.
	guarded mark
	// isTest says that the runner looks for tests in a file of this name.
	isTest bool
	// support says that the file belongs to the tests.
	support  bool
	analysed bool
}

type classInfo struct {
	name     string
	supers   []string
	abstract bool
	line     int32
	methods  []string
	private  bool
}

type alias struct {
	base string
	mods []string
	cond condition
}

var testDirs = []string{"test", "tests", "spec", "specs", "__tests__", "e2e", "testing", "integration", "acceptance", "features", "cypress", "Tests", "Test", "androidTest", "testFixtures", "test-utils", "testutil", "testutils", "testhelpers", "testlib", "integration-tests", "integrationTest", "it", "jvmTest", "commonTest", "test_helpers", "jsTest", "nativeTest", "unit"}

func segments(p string) []string { return strings.Split(p, "/") }

func inTestDir(p string) bool {
	dirs := segments(path.Dir(p))
	for _, d := range dirs {
		if oneOf(d, testDirs[:9]...) || oneOf(d, testDirs[11:]...) && d != "it" && d != "unit" || strings.HasSuffix(d, "_tests") || strings.HasSuffix(d, ".Tests") || strings.HasSuffix(d, "-tests") || strings.HasSuffix(d, "Tests") {
			return true
		}
	}
	return false
}

// isTestFile says that the runner of the language looks into a file of this name.
func isTestFile(lang language, p string) bool {
	base := path.Base(p)
	stem := strings.TrimSuffix(base, path.Ext(base))
	switch lang {
	case golang:
		if !strings.HasSuffix(base, "_test.go") || base[0] == '_' || base[0] == '.' {
			return false
		}
		for _, d := range segments(path.Dir(p)) {
			if d == "testdata" || d == "vendor" || len(d) > 1 && (d[0] == '_' || d[0] == '.') {
				return false
			}
		}
		return true
	case python:
		return strings.HasPrefix(stem, "test_") || strings.HasSuffix(stem, "_test") || stem == "tests" || stem == "test"
	case javascript, typescript:
		low := strings.ToLower(stem)
		for _, mark := range []string{".test", ".spec", "-test", "_test", "-spec", "_spec", ".e2e", ".cy", ".it", ".unit", ".tests", ".specs", ".steps"} {
			if strings.HasSuffix(low, mark) || strings.Contains(low, mark+".") {
				return true
			}
		}
		if oneOf(low, "test", "tests", "spec") || strings.HasPrefix(low, "test-") || strings.HasPrefix(low, "test_") {
			return true
		}
		for _, d := range segments(path.Dir(p)) {
			if oneOf(d, "test", "tests", "spec", "specs", "__tests__", "e2e") {
				return !strings.Contains(p, "fixtures/") && !strings.Contains(p, "/helpers/") && !strings.Contains(p, "__mocks__")
			}
		}
		return false
	case java, kotlin:
		return strings.Contains("/"+p, "/test/") || strings.Contains("/"+p, "/tests/") || strings.Contains(p, "Test/") || strings.HasSuffix(stem, "Test") || strings.HasSuffix(stem, "Tests") || strings.HasSuffix(stem, "Spec") || strings.HasPrefix(stem, "Test") || strings.HasSuffix(stem, "IT") || strings.HasSuffix(stem, "TestCase")
	case rust:
		return true // tests stand beside the code
	case ruby:
		return strings.HasSuffix(stem, "_test") || strings.HasSuffix(stem, "_spec") || strings.HasPrefix(stem, "test_") || strings.HasSuffix(stem, "Test")
	case csharp, swift:
		return strings.Contains(p, "Test") || strings.Contains(p, "test") || strings.Contains(p, "Spec") || strings.Contains(p, "spec")
	case php:
		return strings.HasSuffix(stem, "Test") || strings.HasSuffix(stem, "Tests") || inTestDir(p) || strings.HasSuffix(stem, "TestCase")
	default:
		return false
	}
}

var supportNames = []string{"conftest.py", "setupTests.js", "setupTests.ts", "spec_helper.rb", "rails_helper.rb", "test_helper.rb", "helper.rb", "minitest_helper.rb"}

// isSupport says that a file that holds no tests belongs to them.
func isSupport(lang language, p string) bool {
	base := path.Base(p)
	if oneOf(base, supportNames...) || inTestDir(p) || strings.HasSuffix(base, "_test.go") {
		return true
	}
	low := strings.ToLower(base)
	for _, s := range []string{"jest.setup", "vitest.setup", "setup-jest", "setup-tests", "jest.config", "vitest.config", "test-setup", "testsetup", "test_setup", "setup.test", "test-helper", "testhelper", "test_helper", "testutil", "test_util", "test-util", "mocha.setup", "sitecustomize.py", "pytest_plugin", "playwright.config", "noxfile"} {
		if strings.HasPrefix(low, s) || strings.Contains(low, s) {
			return true
		}
	}
	stem := strings.TrimSuffix(low, path.Ext(low))
	if path.Dir(p) == "." && (strings.Contains(stem, "helper") || strings.HasPrefix(stem, "assert") || strings.HasSuffix(stem, "assertions") || strings.HasSuffix(stem, "_assert") || oneOf(stem, "grader", "verifier", "matchers", "testing", "harness", "checks")) {
		return true
	}
	for _, d := range segments(path.Dir(p)) {
		if oneOf(d, "testdata", "fixtures", "__mocks__", "mocks", "mock") {
			return true
		}
	}
	return isTestFile(lang, p) && lang != rust && !(lang == csharp || lang == swift) || (lang == csharp || lang == swift) && isTestFile(lang, p)
}

// parseUnit reads one file.
func parseUnit(p, content string) *unit {
	lang := languageOf(p)
	u := &unit{path: p, lang: lang, text: content, src: read(lang, content), types: map[string]classInfo{}, decls: map[string]string{}, imports: map[string]string{}, aliases: map[string]alias{}}
	u.scope = scope{lang: lang, consts: map[string]bool{}, values: map[string][]node{}, helpers: map[string]bool{}, skips: map[string]mark{}, hidden: map[string]bool{}}
	u.isTest = isTestFile(lang, p)
	u.support = isSupport(lang, p)
	u.importsOf()
	switch lang {
	case golang:
		u.readGo()
	case python:
		u.globals(u.src.nodes)
		u.pythonMembers(u.src.nodes, nil, nil, "", nil)
		u.shadows()
	case ruby:
		u.globals(u.src.nodes)
		u.rubyMembers(u.src.nodes, nil, nil, nil)
		u.shadows()
	case javascript, typescript:
		u.globals(u.src.nodes)
		u.readScript()
	default:
		u.globals(u.src.nodes)
		u.members(u.src.nodes, nil, nil, classInfo{})
	}
	for k := range u.functions {
		f := &u.functions[k]
		f.file, f.lang = p, lang
		f.text = canonical(f.nodes)
		if !f.test {
			u.decls[f.name] += "\n" + canonical(f.params) + f.text
		}
	}
	for name, t := range u.types {
		if _, ok := u.decls[name]; !ok {
			u.decls[name] = strings.Join(t.supers, " ")
		}
	}
	u.wrappers()
	return u
}

// globals notes what stands at the top of a file: constants, tables, aliases
// of skips.
func (u *unit) globals(nodes []node) {
	p := &splitter{lang: u.lang}
	for i := 0; i < len(nodes); {
		var j int
		switch u.lang {
		case python, ruby:
			j = logical(nodes, i)
		default:
			j = max(p.expression(nodes, i), i+1)
		}
		u.global(nodes[i:j])
		i = j
	}
}

func (u *unit) global(line []node) {
	for k := range line {
		if k > 0 && line[k].op("=", ":=") {
			name := ""
			for _, n := range line[:k] {
				if n.is(":") {
					break
				}
				if n.kind == ident {
					name = n.s
				}
				if n.is(".") {
					return
				}
			}
			value := line[k+1:]
			for len(value) > 0 && value[len(value)-1].is(";") {
				value = value[:len(value)-1]
			}
			if name == "" || len(value) == 0 {
				return
			}
			u.define(name, value)
			return
		}
		if line[k].opens("{") {
			return
		}
	}
}

func (u *unit) define(name string, value []node) {
	if len(value) == 1 && value[0].kind == ident {
		switch strings.ToLower(value[0].s) {
		case "true":
			u.scope.consts[name] = true
		case "false", "none", "nil", "null", "undefined":
			u.scope.consts[name] = false
		}
	}
	if len(value) == 1 && value[0].kind == number && strings.Trim(value[0].s, "0") == "" {
		u.scope.consts[name] = false
	}
	u.scope.values[name] = value
	u.decls[name] = canonical(value)
	if m, ok := u.skipValue(value); ok {
		m.text = name
		u.scope.skips[name] = m
	}
	if u.lang.script() {
		if al, ok := u.aliasOf(value); ok {
			u.aliases[name] = al
		}
	}
}

// skipValue says that an expression is a skip under another name.
func (u *unit) skipValue(value []node) (mark, bool) {
	if u.lang != python {
		return mark{}, false
	}
	cs := chains(u.lang, value)
	if len(cs) == 0 || cs[0].from > 0 {
		return mark{}, false
	}
	a := anno{name: cs[0].last().name, full: cs[0].names(), args: cs[0].last().arguments(), line: cs[0].line}
	for k := range cs[0].links {
		if cs[0].links[k].args != nil {
			a.args = cs[0].links[k].args.kids
		}
	}
	ms := u.annoMarks([]anno{a})
	for _, m := range ms {
		if m.kind == skipMark || m.kind == failMark {
			return m, true
		}
	}
	return mark{}, false
}

// importsOf notes what the file imports, and which names hide those of the
// test framework.
func (u *unit) importsOf() {
	nodes := u.src.nodes
	for k := 0; k < len(nodes); k++ {
		n := &nodes[k]
		if n.kind != ident {
			continue
		}
		switch u.lang {
		case javascript, typescript:
			if n.s == "import" && n.nl || n.s == "import" && k == 0 || n.s == "export" && n.nl && k+1 < len(nodes) && (nodes[k+1].opens("{") || nodes[k+1].is("*")) {
				j, from := k+1, ""
				var names []string
				for j < len(nodes) && j < k+40 {
					if nodes[j].kind == text {
						from = nodes[j].s
						break
					}
					if nodes[j].is(";") || nodes[j].nl && nodes[j].kind == ident && !oneOf(nodes[j].s, "from") {
						break
					}
					if nodes[j].kind == ident && !oneOf(nodes[j].s, "from", "as", "type") {
						names = append(names, nodes[j].s)
					}
					if nodes[j].opens("{") {
						for _, part := range split(nodes[j].kids) {
							if len(part) > 0 && part[len(part)-1].kind == ident {
								name := part[len(part)-1].s
								names = append(names, name)
								if len(part) == 3 && part[1].named("as") && isMaker(part[0].s) {
									u.aliases[name] = alias{base: part[0].s}
								}
							}
						}
					}
					j++
				}
				u.imported(from, names)
				k = j
			}
			if (n.s == "const" || n.s == "let" || n.s == "var") && k+2 < len(nodes) {
				for j := k + 1; j < len(nodes) && j < k+8; j++ {
					if nodes[j].named("require") && j+1 < len(nodes) && nodes[j+1].opens("(") && len(nodes[j+1].kids) > 0 && nodes[j+1].kids[0].kind == text {
						u.imported(nodes[j+1].kids[0].s, identifiers(nodes[k+1:j]))
						break
					}
					if nodes[j].is(";") || nodes[j].nl {
						break
					}
				}
			}
			if n.s == "require" && k+1 < len(nodes) && nodes[k+1].opens("(") && len(nodes[k+1].kids) > 0 && nodes[k+1].kids[0].kind == text {
				u.modules = append(u.modules, nodes[k+1].kids[0].s)
			}
		case python:
			if !n.nl || n.s != "from" && n.s != "import" {
				continue
			}
			line := nodes[k:logical(nodes, k)]
			at := 0
			for j := range line {
				if line[j].named("import") {
					at = j
					break
				}
			}
			module := ""
			for _, x := range line[1:max(at, 1)] {
				module += x.s
			}
			rest := line[at+1:]
			if len(rest) == 1 && rest[0].opens("(") {
				rest = rest[0].kids
			}
			for _, part := range split(rest) {
				if len(part) == 0 {
					continue
				}
				name, orig := part[len(part)-1].s, part[0].s
				if n.s == "import" {
					full := ""
					for _, x := range part {
						if x.named("as") {
							break
						}
						full += x.s
					}
					u.imports[name] = full
					u.modules = append(u.modules, full)
					continue
				}
				u.imports[name] = module + "." + orig
				u.modules = append(u.modules, module+"."+orig, module)
				if oneOf(orig, "skip", "SkipTest", "skipIf", "skipUnless", "expectedFailure", "xfail", "importorskip") && name != orig {
					kind := skipMark
					if oneOf(orig, "xfail", "expectedFailure") {
						kind = failMark
					}
					u.scope.skips[name] = mark{kind: kind, text: name, canon: orig}
				}
				if oneOf(orig, "skip", "xfail", "fail") && !oneOf(module, "pytest", "unittest", "unittest.case", "_pytest.outcomes") {
					u.scope.hidden[name] = true
				}
			}
		case java, kotlin:
			if n.s == "import" && n.nl {
				line := nodes[k+1 : logical(nodes, k)]
				var parts []string
				as := ""
				for j, x := range line {
					if x.named("as") && j+1 < len(line) {
						as = line[j+1].s
						break
					}
					if x.kind == ident && x.s != "static" || x.is("*") {
						parts = append(parts, x.s)
					}
				}
				if len(parts) == 0 {
					continue
				}
				name := parts[len(parts)-1]
				full := strings.Join(parts, ".")
				if as != "" {
					if ms := u.annoMarks([]anno{{name: name, full: full}}); len(ms) > 0 {
						u.scope.skips[as] = ms[0]
					}
					name = as
				}
				u.imports[name] = full
				u.modules = append(u.modules, full)
			}
		case csharp:
			if n.s == "using" && n.nl {
				line := nodes[k+1 : logical(nodes, k)]
				for j := range line {
					if line[j].is("=") && j > 0 && j+1 < len(line) {
						last := ""
						for _, x := range line[j+1:] {
							if x.kind == ident {
								last = x.s
							}
						}
						if ms := u.annoMarks([]anno{{name: strings.TrimSuffix(last, "Attribute")}}); len(ms) > 0 {
							u.scope.skips[strings.TrimSuffix(line[j-1].s, "Attribute")] = ms[0]
						}
					}
				}
			}
		case rust, php:
			if n.s == "use" && n.nl {
				line := nodes[k+1 : logical(nodes, k)]
				ids := identifiers(line)
				if len(ids) > 0 {
					u.modules = append(u.modules, strings.Join(ids, "."))
				}
			}
		default:
		}
	}
}

var frameworks = []string{"vitest", "@jest/globals", "mocha", "node:test", "test", "bun:test", "@playwright/test", "ava", "tap", "tape", "jasmine", "chai", "assert", "node:assert", "node:assert/strict", "assert/strict", "@testing-library/jest-dom", "uvu", "qunit", "cypress", "jest-each", "@std/testing/bdd"}

func (u *unit) imported(from string, names []string) {
	if from != "" {
		u.modules = append(u.modules, from)
	}
	for _, name := range names {
		u.imports[name] = from
		if strings.HasPrefix(from, ".") && !oneOf(name, "it", "test", "describe", "expect", "assert") {
			u.scope.hidden[name] = true
		}
		if oneOf(name, "fit", "xit", "pending", "skip", "fail", "fdescribe") && !oneOf(from, frameworks...) && from != "" {
			u.scope.hidden[name] = true
		}
	}
}

// shadows finds tests that a later one of the same name replaces.
func (u *unit) shadows() {
	last := map[string]int{}
	for k := range u.functions {
		f := &u.functions[k]
		if u.lang == ruby && !strings.HasPrefix(f.name, "test_") || strings.Contains(f.name, " ") {
			continue
		}
		key := f.title()
		if p, ok := last[key]; ok && u.functions[p].test && !hasAnno(f.annos, "overload") && !hasAnno(f.annos, "setter") && !conditional(u.functions[p].annos) {
			u.functions[p].test = false
			u.functions[p].why = "shadowed-duplicate"
		}
		last[key] = k
	}
}

func conditional(annos []anno) bool { return hasAnno(annos, "register") || hasAnno(annos, "overload") }

func hasAnno(annos []anno, name string) bool {
	return slices.ContainsFunc(annos, func(a anno) bool { return a.name == name })
}

// wrappers finds functions that only skip, or that decorate with a skip.
func (u *unit) wrappers() {
	for k := range u.functions {
		f := &u.functions[k]
		if f.test || f.why != "" || len(f.nodes) > 60 || strings.HasPrefix(f.name, "pytest_") || hasAnno(f.annos, "fixture") || oneOf(f.name, "setUp", "setUpClass", "setUpModule", "setup", "setup_method", "setup_class", "setup_module", "asyncSetUp") {
			continue
		}
		stmts := statements(u.lang, f.nodes)
		if len(stmts) == 0 || len(stmts) > 3 {
			continue
		}
		b := analyse(u.scope, f.params, stmts)
		for _, m := range b.marks {
			if m.call && (m.kind == skipMark || m.kind == failMark) && len(b.checks) == 0 {
				m.text, m.call = f.name, false
				u.scope.skips[f.name] = m
			}
		}
		if u.lang == python && len(b.marks) == 0 {
			for _, c := range chains(python, stmts[len(stmts)-1].head) {
				for j := range c.links {
					if c.links[j].name == "skip" || c.links[j].name == "skipIf" || c.links[j].name == "expectedFailure" {
						if len(c.links) > 1 || !u.scope.hidden["skip"] {
							u.scope.skips[f.name] = mark{kind: skipMark, line: f.line, text: f.name, canon: f.name}
						}
					}
				}
			}
		}
	}
}

// annoMarks reads marks from annotations.
func (u *unit) annoMarks(annos []anno) []mark {
	var out []mark
	an := &analysis{scope: u.scope, assigned: map[string][]node{}, twice: map[string]bool{}}
	an.names, an.params = map[string]bool{}, map[string]bool{}
	for _, a := range annos {
		m := mark{kind: skipMark, line: a.line, text: "@" + a.full, canon: a.name}
		if al, ok := u.scope.skips[a.name]; ok && u.lang != golang {
			al.line, al.call = a.line, false
			if al.text == "" {
				al.text = a.name
			}
			out = append(out, al)
			continue
		}
		cond := func(nodes []node, neg bool) {
			parts := split(nodes)
			if len(parts) == 0 {
				m.cond = byProbe
				return
			}
			m.cond = an.classify(parts[0])
			if t := an.truth(parts[0]); t != unknown {
				m.cond = never
				if (t == yes) != neg {
					m.cond = always
				}
			}
			m.canon += " if " + canonical(an.strip(parts[0]))
			m.text += "(" + shorten(canonical(parts[0])) + ")"
		}
		argument := func(name string) []node {
			for _, part := range split(a.args) {
				if len(part) > 2 && part[0].named(name) && part[1].op("=", ":") {
					return part[2:]
				}
			}
			return nil
		}
		switch u.lang {
		case python:
			marker := strings.Contains(a.full, "mark.")
			switch {
			case oneOf(a.name, "skip", "skip_test") && (marker || strings.HasPrefix(a.full, "unittest") || a.full == "skip" && !u.scope.hidden["skip"] || strings.HasSuffix(a.full, ".skip")):
				out = append(out, m)
			case oneOf(a.name, "skipif", "skipIf"):
				cond(a.args, false)
				if m.cond != never {
					out = append(out, m)
				}
			case a.name == "skipUnless":
				cond(a.args, true)
				if m.cond != never {
					out = append(out, m)
				}
			case oneOf(a.name, "xfail", "expectedFailure"):
				m.kind = failMark
				if c := split(a.args); len(c) > 0 && !(len(c[0]) > 1 && c[0][1].is("=")) {
					cond(a.args, false)
				} else if v := argument("condition"); v != nil {
					cond(v, false)
				}
				if s := argument("strict"); len(s) == 1 && s[0].named("True") {
					m.text += "(strict)"
				}
				out = append(out, m)
			case oneOf(a.name, "flaky", "repeat", "retry", "rerun", "retries"):
				m.kind = retryMark
				m.canon += canonical(a.args)
				out = append(out, m)
			case marker && !oneOf(a.name, "parametrize", "usefixtures", "filterwarnings", "asyncio", "anyio", "django_db", "timeout"):
				m.kind, m.canon = tagMark, a.name
				out = append(out, m)
			case oneOf(a.name, "tag"):
				for _, v := range literals(a.args) {
					out = append(out, mark{kind: tagMark, line: a.line, text: "@tag", canon: strings.Trim(v, `"`)})
				}
			}
		case java, kotlin:
			if full := u.imports[a.name]; a.name == "Ignore" && full != "" && !strings.Contains(full, "junit") && !strings.Contains(full, "kotlin.test") && !strings.Contains(full, "testng") && !strings.Contains(full, "spock") {
				continue
			}
			switch a.name {
			case "Disabled", "Ignore", "Ignored", "DisabledForTestFailure", "Suspend", "PendingFeature", "DisabledInNativeImage", "DisabledInAotMode", "XTest":
				out = append(out, m)
			case "DisabledOnOs", "EnabledOnOs", "DisabledOnJre", "EnabledOnJre", "EnabledForJreRange", "DisabledForJreRange", "RequiresApi", "SdkSuppress", "IgnoreJRERequirement", "EnabledOnJvm":
				m.cond = byPlatform
				out = append(out, m)
			case "EnabledIfEnvironmentVariable", "DisabledIfEnvironmentVariable", "EnabledIfSystemProperty", "DisabledIfSystemProperty", "EnabledIfEnvironmentVariables", "EnabledIfSystemProperties":
				m.cond = byMachine
				m.canon += canonical(a.args)
				out = append(out, m)
			case "EnabledIf", "DisabledIf", "IfProfileValue", "EnabledInNativeImage", "Requires":
				m.cond = byProbe
				m.canon += canonical(a.args)
				if v := literals(a.args); len(v) > 0 && oneOf(strings.Trim(v[0], `"`), "true", "false") {
					m.cond = always
				}
				out = append(out, m)
			case "RetryingTest", "RepeatedIfExceptionsTest", "Retry", "FlakyTest", "Flaky", "RetryTest":
				m.kind = retryMark
				m.canon += canonical(a.args)
				out = append(out, m)
			case "ExpectedToFail", "NotWorking":
				m.kind = failMark
				out = append(out, m)
			case "Tag", "Category", "Tags", "Groups", "LargeTest":
				for _, v := range append(literals(a.args), identifiers(a.args)...) {
					out = append(out, mark{kind: tagMark, line: a.line, text: "@" + a.name, canon: strings.Trim(v, `"`)})
				}
				if len(a.args) == 0 {
					out = append(out, mark{kind: tagMark, line: a.line, text: "@" + a.name, canon: a.name})
				}
			case "Test":
				if v := argument("enabled"); len(v) == 1 && (v[0].named("false") || !u.scope.consts[v[0].s] && hasConst(u.scope.consts, v[0].s)) {
					m.text = "@Test(enabled = false)"
					out = append(out, m)
				}
				if v := argument("retryAnalyzer"); v != nil {
					out = append(out, mark{kind: retryMark, line: a.line, text: "@Test(retryAnalyzer)", canon: canonical(v)})
				}
				if v := argument("groups"); v != nil {
					for _, s := range literals(v) {
						out = append(out, mark{kind: tagMark, line: a.line, text: "groups", canon: strings.Trim(s, `"`)})
					}
				}
				if v := argument("invocationCount"); len(v) == 1 && v[0].s == "0" {
					out = append(out, m)
				}
			}
		case csharp:
			switch strings.TrimSuffix(a.name, "Attribute") {
			case "Ignore", "Explicit", "Inconclusive":
				out = append(out, m)
			case "Fact", "Theory", "Test", "TestCase", "TestMethod", "SkippableFact", "SkippableTheory", "TestCaseSource", "InlineData", "DataRow":
				row := oneOf(a.name, "TestCase", "InlineData", "DataRow")
				for _, key := range []string{"Skip", "Ignore", "IgnoreReason", "Explicit"} {
					if v := argument(key); v != nil && !row && !v[0].named("null") && !v[0].named("false") {
						m.text = "[" + a.name + "(" + key + ")]"
						if argument("SkipWhen") != nil || argument("SkipUnless") != nil {
							m.cond = byProbe
						}
						out = append(out, m)
					}
				}
			case "Platform", "PlatformSpecific", "SupportedOSPlatform", "ConditionalFact", "ConditionalTheory", "OSCondition", "Architecture":
				m.cond = byPlatform
				m.canon += canonical(a.args)
				out = append(out, m)
			case "Retry", "RetryFact", "RetryTheory", "Flaky":
				m.kind = retryMark
				m.canon += canonical(a.args)
				out = append(out, m)
			case "Category", "Trait", "TestCategory":
				for _, v := range literals(a.args) {
					out = append(out, mark{kind: tagMark, line: a.line, text: "[" + a.name + "]", canon: strings.Trim(v, `"`)})
				}
			}
		case php:
			switch a.name {
			case "RequiresPhp", "RequiresOperatingSystem", "RequiresOperatingSystemFamily", "RequiresPhpExtension", "requires":
				m.cond = byPlatform
				m.canon += canonical(a.args)
				out = append(out, m)
			case "Group", "group", "Ticket":
				for _, v := range literals(a.args) {
					out = append(out, mark{kind: tagMark, line: a.line, text: "group", canon: strings.Trim(v, `"`)})
				}
			case "DoesNotPerformAssertions", "doesNotPerformAssertions", "Skip", "skip":
				out = append(out, m)
			}
		case swift:
			if a.name != "Test" && a.name != "Suite" {
				if a.name == "available" {
					m.cond = byPlatform
					m.canon += canonical(a.args)
					out = append(out, m)
				}
				continue
			}
			for _, part := range split(a.args) {
				for _, c := range chains(swift, part) {
					switch c.links[0].name {
					case "disabled":
						m.text = ".disabled()"
						for _, p := range split(c.links[0].arguments()) {
							if len(p) > 2 && p[0].named("if") {
								cond(p[2:], false)
							}
						}
						if m.cond != never {
							out = append(out, m)
						}
					case "enabled":
						m.text = ".enabled()"
						for _, p := range split(c.links[0].arguments()) {
							if len(p) > 2 && p[0].named("if") {
								cond(p[2:], true)
							}
						}
						if m.cond != never {
							out = append(out, m)
						}
					case "tags":
						for _, t := range identifiers(c.links[0].arguments()) {
							out = append(out, mark{kind: tagMark, line: a.line, text: ".tags", canon: t})
						}
					}
				}
			}
		case rust:
			switch a.name {
			case "ignore":
				m.text = "#[ignore]"
				out = append(out, m)
			case "should_panic":
				m.kind, m.text = failMark, "#[should_panic]"
				m.canon += canonical(a.args)
				out = append(out, m)
			case "cfg", "cfg_attr":
				parts := split(a.args)
				if len(parts) == 0 || len(parts) == 1 && canonical(parts[0]) == "test" {
					continue
				}
				if a.name == "cfg_attr" && !mentions(a.args, "ignore", "should_panic") {
					continue
				}
				m.text = "#[" + a.name + "(" + shorten(canonical(a.args)) + ")]"
				m.canon += canonical(parts[0])
				switch {
				case mentions(parts[0], "target_os", "unix", "windows", "target_arch", "target_pointer_width", "target_family", "target_env", "miri", "target_endian"):
					m.cond = byPlatform
				case canonical(parts[0]) == "any ( )" || canonical(parts[0]) == "all ( )" && a.name == "cfg_attr":
					m.cond = always
				case canonical(parts[0]) == "not ( test )":
					m.cond = always
				case mentions(parts[0], "test") && len(parts[0]) == 2 && parts[0][0].named("all"):
					m.cond = byMachine
					if mentions(parts[0], "target_os", "unix", "windows") {
						m.cond = byPlatform
					}
				default:
					m.cond = byMachine
				}
				out = append(out, m)
			}
		default:
		}
	}
	return out
}

func hasConst(m map[string]bool, name string) bool { _, ok := m[name]; return ok }

// uncollected explains why a function that reads like a test is none.
func looksLikeTest(name string) bool {
	low := strings.ToLower(name)
	return strings.HasPrefix(low, "test") || strings.HasSuffix(low, "test") || strings.Contains(low, "_test")
}
