package guard

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// helpers compares the functions that tests call to check something.
func (j *judge) helpers(base, head []*function) {
	for _, p := range paths(j.units[Base]) {
		b := j.units[Base][p]
		for k := range b.functions {
			f := &b.functions[k]
			if f.test || !f.ready || !f.given || f.why != "" || !b.support && !b.isTest {
				continue
			}
			was := 0
			for i := range f.body.checks {
				if f.body.checks[i].live() {
					was++
				}
			}
			h := j.successor(f)
			if h == nil || h.text == f.text && canonical(h.params) == canonical(f.params) || h.test {
				continue
			}
			answers := was == 0 && verifying(f.name) && answersAlways(h) && !answersAlways(f)
			if was == 0 && !answers {
				continue
			}
			before := len(j.report.Findings)
			if answers {
				j.finding(h, "helper-neutered", Tampered, h.line, "it says yes to everything")
			} else {
				j.checks(f, h)
			}
			// What is found in a helper is found for all who call it.
			for i := range j.report.Findings[before:] {
				i += before
				found := j.report.Findings[i]
				if found.Verdict != Tampered {
					continue
				}
				if found.Kind != "expected-edited" {
					j.report.Findings[i].Kind = "helper-neutered"
				}
				j.report.Findings[i].Test = h.title()
				for _, t := range j.callers(h, head) {
					j.add(Finding{Kind: "helper-neutered", Verdict: Tampered, Language: string(t.lang), File: t.file, Line: int(t.line), Test: t.title(), Why: fmt.Sprintf("it relies on %s, which no longer checks (%s)", h.name, found.Why)})
				}
			}
		}
	}
}

func verifying(name string) bool {
	low := plain(name)
	for _, w := range []string{"verify", "check", "valid", "assert", "match", "equal", "compare", "same", "expect", "ensure", "grade", "score", "passes", "close", "approx"} {
		if strings.Contains(low, w) {
			return true
		}
	}
	return false
}

// answersAlways says that a function only returns true.
func answersAlways(f *function) bool {
	stmts := statements(f.lang, f.nodes)
	if len(stmts) == 0 {
		return false
	}
	for k := range stmts[:len(stmts)-1] {
		if stmts[k].kind != sExpr {
			return false
		}
	}
	head := unparen(stmts[len(stmts)-1].head)
	return len(head) == 1 && strings.EqualFold(head[0].s, "true") && head[0].kind == ident
}

func (j *judge) successor(f *function) *function {
	var far *function
	for _, p := range paths(j.units[Head]) {
		u := j.units[Head][p]
		if u.lang.family() != f.lang.family() {
			continue
		}
		var near []*function
		for k := range u.functions {
			h := &u.functions[k]
			if h.name != f.name || !h.given || h.test {
				continue
			}
			if p == f.file {
				if slices.Equal(h.owner, f.owner) {
					near = append(near, h)
				}
				continue
			}
			if len(h.owner) == len(f.owner) {
				far = h
			}
		}
		if len(near) > 0 {
			// Several of one name, as those of nameless classes are: the same text
			// is the same one, else their order tells.
			for _, h := range near {
				if h.text == f.text && canonical(h.params) == canonical(f.params) {
					return h
				}
			}
			at := 0
			if b := j.units[Base][p]; b != nil {
				for k := range b.functions {
					if g := &b.functions[k]; g == f {
						break
					} else if g.name == f.name && g.given && !g.test && slices.Equal(g.owner, f.owner) {
						at++
					}
				}
			}
			return near[min(at, len(near)-1)]
		}
	}
	if j.units[Head][f.file] != nil {
		return nil
	}
	return far
}

// callers returns the live tests that call a helper.
func (j *judge) callers(h *function, head []*function) []*function {
	var out []*function
	for _, t := range head {
		if t.lang.family() == h.lang.family() && slices.Contains(t.body.calls, h.name) {
			out = append(out, t)
		}
	}
	n := 0
	for _, e := range j.list(Head) {
		lang := languageOf(e.Path)
		if !e.file() || j.changed[e.Path] != nil || lang == "" || lang.family() != h.lang.family() || !isTestFile(lang, e.Path) || vendored(e.Path) || n > 200 || len(out) > 50 {
			continue
		}
		n++
		if s, ok := j.text(Head, e.Path); ok && strings.Contains(s, h.name) {
			u := j.lazily(e.Path, s)
			for k := range u.functions {
				if t := &u.functions[k]; t.test && slices.Contains(t.body.calls, h.name) {
					out = append(out, t)
				}
			}
		}
	}
	return out
}

var setupNames = []string{"setUp", "setup", "setUpClass", "setUpModule", "setup_method", "setup_class", "setup_module", "setup_function", "asyncSetUp", "before", "beforeEach", "beforeAll", "beforeTest", "setUpBeforeClass", "setUpWithError", "before_all", "before_each", "beforeSpec", "setupClass", "SetUp", "Setup", "SetUpTest", "SetupTest", "SetupSuite", "SetUpSuite", "OneTimeSetUp", "Init", "init", "TestInitialize"}

// hooks looks at what runs around tests: it must not skip them.
func (j *judge) hooks(head []*function) {
	for _, p := range paths(j.units[Head]) {
		u := j.units[Head][p]
		if !u.support && !u.isTest {
			continue
		}
		old := j.units[Base][p]
		if old == nil {
			old = j.origin(u)
		}
		for k := range u.functions {
			f := &u.functions[k]
			if f.test || !f.given {
				continue
			}
			hook := oneOf(f.name, setupNames...) || hasAnyAnno(f.annos, "BeforeEach", "BeforeAll", "Before", "BeforeClass", "BeforeMethod", "BeforeTest", "SetUp", "OneTimeSetUp", "TestInitialize", "ClassInitialize", "fixture", "before", "Setup")
			if !hook {
				continue
			}
			if hasAnno(f.annos, "fixture") && !mentions(annoArgs(f.annos, "fixture"), "autouse") && path.Base(p) == "conftest.py" {
				continue // those who ask for it are found by their own file
			}
			had := sameFunction(old, f)
			for _, m := range f.body.marks {
				if m.kind != skipMark && m.kind != failMark || had != nil && hasCanon(had.body.marks, m) {
					continue
				}
				v := Tampered
				switch m.cond {
				case byPlatform, byShort:
					v = Review
				case byProbe:
					v = Review
					if path.Base(p) == "conftest.py" || mentions(f.nodes, "request") {
						v = Tampered
					}
					if len(f.nodes) > 0 && asksFor(f.nodes) {
						v = Review
					}
				default:
				}
				j.suite(u, f, v, m, head)
			}
			if f.body.clock > 0 && (had == nil || had.body.clock == 0) && (mentions(annoArgs(f.annos, "fixture"), "autouse") || !hasAnno(f.annos, "fixture")) && constantClock(f.nodes) {
				j.suiteKind(u, f, "time-or-grader-patched", Tampered, f.body.clock, "the clock that tests measure with is replaced for all of them", head)
			}
			if f.body.exits > 0 && (had == nil || had.body.exits == 0) {
				j.suiteKind(u, f, "runner-exit", Tampered, f.body.exits, "it ends the process with success before the tests ran", head)
			}
		}
		j.topLevel(u, old, head)
	}
}

// asksFor says that code asks the options of the runner or the marks of a test.
func asksFor(nodes []node) bool {
	return mentions(nodes, "getoption", "getvalue", "get_closest_marker", "iter_markers", "keywords")
}

// constantClock says that a clock is replaced by one that stands still.
func constantClock(nodes []node) bool {
	for k := range nodes {
		if nodes[k].named("lambda") || nodes[k].is("=>") || nodes[k].named("return_value") || nodes[k].named("mockReturnValue") || nodes[k].named("function") {
			return true
		}
		if nodes[k].kind == group && constantClock(nodes[k].kids) {
			return true
		}
	}
	return false
}

func annoArgs(annos []anno, name string) []node {
	for _, a := range annos {
		if a.name == name {
			return a.args
		}
	}
	return nil
}

func hasAnyAnno(annos []anno, names ...string) bool {
	return slices.ContainsFunc(annos, func(a anno) bool { return oneOf(a.name, names...) })
}

func hasCanon(marks []mark, m mark) bool {
	return slices.ContainsFunc(marks, func(x mark) bool {
		return x.kind == m.kind && (x.canon == m.canon || x.cond == always || x.cond == m.cond && m.cond != always)
	})
}

func sameFunction(u *unit, f *function) *function {
	if u == nil {
		return nil
	}
	for k := range u.functions {
		if g := &u.functions[k]; g.name == f.name && slices.Equal(g.owner, f.owner) {
			return g
		}
	}
	for k := range u.functions {
		if g := &u.functions[k]; g.name == f.name {
			return g
		}
	}
	return nil
}

// suite adds a finding for each test around which a hook skips.
func (j *judge) suite(u *unit, f *function, v Verdict, m mark, head []*function) {
	j.suiteKind(u, f, "suite-level-skip", v, m.line, fmt.Sprintf("%s now skips it: %s", f.name, m.text), head)
}

func (j *judge) suiteKind(u *unit, f *function, kind string, v Verdict, line int32, why string, head []*function) {
	n := 0
	add := func(t *function) {
		n++
		if n <= 30 {
			j.add(Finding{Kind: kind, Verdict: v, Language: string(t.lang), File: u.path, Line: int(line), Test: t.title(), Why: why})
		}
	}
	wide := path.Base(u.path) == "conftest.py" || !u.isTest
	for _, t := range head {
		if t.file == u.path && (f == nil || len(f.owner) == 0 || len(t.owner) >= len(f.owner) && slices.Equal(t.owner[:len(f.owner)], f.owner)) && (f == nil || f.line != t.line) {
			add(t)
		}
	}
	if n == 0 || wide {
		j.everyTest(u, func(t *function) { add(t) })
	}
	if n == 0 {
		j.add(Finding{Kind: kind, Verdict: v, Language: string(u.lang), File: u.path, Line: int(line), Why: why})
	}
}

// everyTest calls f for the tests of the directory of a support file and below.
func (j *judge) everyTest(u *unit, f func(*function)) {
	dir := path.Dir(u.path)
	n := 0
	for _, e := range j.list(Head) {
		lang := languageOf(e.Path)
		if !e.file() || lang == "" || lang.family() != u.lang.family() || !isTestFile(lang, e.Path) || vendored(e.Path) || e.Path == u.path {
			continue
		}
		if dir != "." && !strings.HasPrefix(e.Path, dir+"/") && u.lang == python {
			continue
		}
		if n++; n > 40 {
			return
		}
		t := j.units[Head][e.Path]
		if t == nil {
			s, ok := j.text(Head, e.Path)
			if !ok {
				continue
			}
			t = j.lazily(e.Path, s)
		}
		for k := range t.functions {
			if t.functions[k].test {
				t.functions[k].file, t.functions[k].lang = e.Path, t.lang
				f(&t.functions[k])
			}
		}
	}
}

// topLevel looks at what runs when a file of the tests is loaded.
func (j *judge) topLevel(u, old *unit, head []*function) {
	if u.lang != python && u.lang != ruby && u.lang != php && !u.lang.script() {
		return
	}
	now, was := topOf(u), body{}
	if old != nil {
		was = topOf(old)
	}
	for _, m := range now.marks {
		if m.kind != skipMark || hasCanon(was.marks, m) || u.lang.script() {
			continue
		}
		v := Tampered
		switch m.cond {
		case byPlatform:
			v = Review
		case byProbe:
			v = Review
			if strings.Contains(m.canon, "importorskip") {
				v = j.absentModule(m)
			}
		default:
		}
		if old == nil && j.origin(u) == nil && u.isTest {
			continue // a new file may skip itself
		}
		j.suiteKind(u, nil, "suite-level-skip", v, m.line, "the whole file is now skipped: "+m.text, head)
	}
	if now.exits > 0 && was.exits == 0 {
		j.suiteKind(u, nil, "runner-exit", Tampered, now.exits, "it ends the process with success when it is loaded", head)
	}
	if now.clock > 0 && was.clock == 0 && constantClock(u.top) {
		j.suiteKind(u, nil, "time-or-grader-patched", Tampered, now.clock, "the clock that tests measure with is replaced for all of them", head)
	}
	if now.retry < 0 {
		j.suiteKind(u, nil, "retry-until-green", Tampered, -now.retry, "all tests are repeated until they pass", head)
	}
	// Modules replaced by stand-ins are looked at per test file.
	subject := strings.ToLower(stemOf(u.path))
	for _, m := range now.mocks {
		if m.target != "" || !strings.HasPrefix(m.module, ".") {
			continue
		}
		if slices.ContainsFunc(was.mocks, func(x mock) bool { return x.module == m.module }) || old == nil {
			continue
		}
		if strings.EqualFold(stemOf(m.module), subject) {
			j.suiteKind(u, nil, "mocked-subject", j.unlessCode(&function{lang: u.lang}, Tampered), m.line, fmt.Sprintf("the module under test, %s, is replaced by a stand-in", m.module), head)
		}
	}
}

// stemOf is the name of a file without its endings.
func stemOf(p string) string {
	base := path.Base(p)
	for {
		ext := path.Ext(base)
		if ext == "" || ext == base {
			return base
		}
		base = strings.TrimSuffix(base, ext)
	}
}

// topOf reads the statements of a file that stand in no function and no test.
func topOf(u *unit) body {
	if !u.lang.script() {
		return analyse(u.scope, nil, statements(u.lang, u.top))
	}
	// Of a script: all but what is handed to functions.
	var bare []node
	var strip func(nodes []node, depth int) []node
	strip = func(nodes []node, depth int) []node {
		out := make([]node, 0, len(nodes))
		for k := range nodes {
			n := nodes[k]
			if n.opens("{") {
				code := k > 0 && nodes[k-1].opens("(") && k > 1 && nodes[k-2].kind == ident && oneOf(nodes[k-2].s, "if", "while", "for") || k > 0 && nodes[k-1].named("else") || k > 0 && nodes[k-1].named("try") || k == 0 && depth > 0
				if !code {
					n.kids = nil
				} else {
					n.kids = strip(n.kids, depth+1)
				}
			}
			if n.opens("(") && k > 0 && nodes[k-1].kind == ident && !oneOf(nodes[k-1].s, "if", "while", "for") {
				lam := false
				for _, part := range split(n.kids) {
					lam = lam || lambda(part, u.lang)
				}
				if lam && !oneOf(nodes[k-1].s, "mock", "doMock") {
					n.kids = nil
				}
			}
			out = append(out, n)
		}
		return out
	}
	bare = strip(u.src.nodes, 0)
	b := analyse(u.scope, nil, statements(u.lang, bare))
	for _, m := range b.marks {
		if m.kind == retryMark {
			b.retry = -m.line
		}
	}
	return b
}

// special looks for what forges results, in files of the tests and in the code
// that they load.
func (j *judge) special() {
	for _, p := range paths(j.units[Head]) {
		u, old := j.units[Head][p], j.units[Base][p]
		if u.lang == golang && u.isTest {
			j.testMain(u, old)
		}
		if u.lang == python && (u.support || path.Base(p) == "conftest.py" || strings.Contains(p, "plugin")) {
			j.pytestHooks(u, old)
		}
		if u.lang.script() && (u.support || u.isTest) {
			j.matchers(u, old)
		}
		j.forged(u, old)
		j.equality(u, old)
		j.copied(u, old)
		if !u.support && !u.isTest || u.lang == rust {
			j.loaded(u, old)
		}
		if u.lang == rust {
			j.rustModules(u, old)
		}
		if u.lang == java || u.lang == kotlin {
			j.wrongFramework(u, old)
		}
	}
}

// testMain judges a TestMain of Go: it must run the tests and keep their code.
func (j *judge) testMain(u, old *unit) {
	for k := range u.functions {
		f := &u.functions[k]
		if f.name != "TestMain" || !f.given {
			if f.name == "init" && f.body.exits > 0 {
				j.suiteKind(u, nil, "runner-exit", Tampered, f.body.exits, "init ends the process with success before any test runs", j.tests(Head))
			}
			continue
		}
		was := sameFunction(old, f)
		if was != nil && was.text == f.text {
			continue
		}
		why := mainFault(f)
		if why == "" || was != nil && mainFault(was) == why {
			continue
		}
		// The tests of the whole package.
		n := 0
		for _, e := range j.list(Head) {
			if path.Dir(e.Path) != path.Dir(u.path) || languageOf(e.Path) != golang || !isTestFile(golang, e.Path) || !e.file() {
				continue
			}
			t := j.units[Head][e.Path]
			if t == nil {
				s, ok := j.text(Head, e.Path)
				if !ok {
					continue
				}
				t = j.lazily(e.Path, s)
			}
			for i := range t.functions {
				if t.functions[i].test {
					n++
					j.add(Finding{Kind: "runner-exit", Verdict: Tampered, Language: string(golang), File: u.path, Line: int(f.line), Test: t.functions[i].name, Why: why})
				}
			}
		}
		if n == 0 {
			j.add(Finding{Kind: "runner-exit", Verdict: Tampered, Language: string(golang), File: u.path, Line: int(f.line), Why: why})
		}
	}
}

// mainFault says what is wrong with a TestMain.
func mainFault(f *function) string {
	m := "m"
	if len(f.params) > 0 {
		m = f.params[0].s
	}
	runs, handed, under := false, false, false
	var codes []string
	literalExit, codeExit := false, false
	var look func(stmts []stmt, cond bool)
	inspect := func(nodes []node, cond bool) {
		walk(nodes, func(*node) {})
		var deep func(nodes []node)
		deep = func(nodes []node) {
			for _, c := range chains(golang, nodes) {
				l := c.last()
				if c.links[0].name == m && l.name == "Run" && l.args != nil {
					runs = true
					under = under || cond
				}
				if l.args != nil {
					for _, part := range split(l.args.kids) {
						if len(part) == 1 && part[0].named(m) {
							handed = true
						}
					}
				}
				if c.names() == "os.Exit" && l.args != nil {
					switch {
					case mentions(l.args.kids, append([]string{"Run"}, codes...)...):
						codeExit = true
					case len(l.args.kids) == 1 && l.args.kids[0].is("0"):
						literalExit = literalExit || !cond
					case len(l.args.kids) == 1 && l.args.kids[0].kind == number:
					default:
						codeExit = codeExit || mentions(l.args.kids, "Main", "run") || len(identifiers(l.args.kids)) > 0 && handed
					}
				}
				for i := range c.links {
					deep(c.links[i].arguments())
				}
			}
			for i := range nodes {
				if nodes[i].opens("{") {
					look(statements(golang, nodes[i].kids), cond)
				}
			}
		}
		for k := range nodes {
			if nodes[k].op("=", ":=") && k > 0 && mentions(nodes[k:], "Run", m) {
				for _, n := range nodes[:k] {
					if n.kind == ident && n.s != "_" {
						codes = append(codes, n.s)
					}
				}
			}
		}
		deep(nodes)
	}
	left := false
	look = func(stmts []stmt, cond bool) {
		for k := range stmts {
			s := &stmts[k]
			if left {
				return
			}
			inspect(s.head, cond)
			look(s.body, cond || s.kind == sIf)
			look(s.alt, true)
			if s.kind == sReturn && !cond && !runs && !handed {
				left = true
			}
		}
	}
	stmts := statements(golang, f.nodes)
	look(stmts, false)
	switch {
	case !runs && !handed:
		return "TestMain does not run the tests: the package passes without them"
	case literalExit && !codeExit:
		return "TestMain ends with 0 whatever the tests say"
	case runs && under && !handed && !everyWay(stmts, m):
		return "TestMain runs the tests only under a condition"
	}
	return ""
}

// everyWay says that some call of m.Run stands under no condition.
func everyWay(stmts []stmt, m string) bool {
	for k := range stmts {
		if stmts[k].kind == sIf {
			if len(stmts[k].alt) > 0 && everyWay(stmts[k].body, m) && everyWay(stmts[k].alt, m) {
				return true
			}
			// if code := m.Run(); code != 0 { … }
			if hasCall(stmts[k].head, m) {
				return true
			}
			continue
		}
		if hasCall(stmts[k].head, m) || everyWay(stmts[k].body, m) {
			return true
		}
	}
	return false
}

func hasCall(nodes []node, m string) bool {
	for k := range nodes {
		if nodes[k].named(m) && k+2 < len(nodes) && nodes[k+1].is(".") && nodes[k+2].named("Run") {
			return true
		}
		if hasCall(nodes[k].kids, m) {
			return true
		}
	}
	return false
}

// pytestHooks judges the hooks of conftest.py and of plugins.
func (j *judge) pytestHooks(u, old *unit) {
	suite := func(kind string, v Verdict, line int32, why string) {
		j.suiteKind(u, nil, kind, v, line, why, nil)
	}
	for k := range u.functions {
		f := &u.functions[k]
		if !strings.HasPrefix(f.name, "pytest_") && !hasAnno(f.annos, "hookimpl") {
			continue
		}
		was := sameFunction(old, f)
		if was != nil && was.text == f.text {
			continue
		}
		// fresh says that the old version does not do it too.
		fresh := func(does func(*function) bool) bool { return does(f) && (was == nil || !does(was)) }
		switch f.name {
		case "pytest_sessionfinish", "pytest_unconfigure", "pytest_terminal_summary":
			if fresh(func(f *function) bool { return assigns(f.nodes, "exitstatus") || f.body.exits > 0 }) {
				suite("result-forged", Tampered, f.line, f.name+" sets the exit status of the run")
			}
		case "pytest_runtest_makereport", "pytest_runtest_logreport", "pytest_report_teststatus", "pytest_runtest_protocol", "pytest_runtest_call", "pytest_pyfunc_call", "pytest_exception_interact":
			if fresh(func(f *function) bool {
				return assigns(f.nodes, "outcome") && holdsText(f.nodes, "passed", "skipped") || assigns(f.nodes, "failed", "passed", "wasxfail", "excinfo") || mentions(f.nodes, "force_result", "force_exception") && !mentions(f.nodes, "get_result") || f.name == "pytest_report_teststatus" && holdsText(f.nodes, "passed") && !mentions(f.nodes, "passed2")
			}) {
				suite("result-forged", Tampered, f.line, f.name+" changes the outcome of tests")
			}
			if oneOf(f.name, "pytest_pyfunc_call", "pytest_runtest_call", "pytest_runtest_protocol") && fresh(func(f *function) bool {
				return answersAlways(f) || swallowsAll(f)
			}) {
				suite("result-forged", Tampered, f.line, f.name+" takes the place of the tests")
			}
		case "pytest_collection_modifyitems", "pytest_itemcollected", "pytest_runtest_setup", "pytest_generate_tests", "pytest_pycollect_makeitem":
			if fresh(func(f *function) bool { return drops(f.nodes) }) {
				v := Tampered
				if asksFor(f.nodes) {
					v = Review
				}
				kind := "suite-level-skip"
				if mentions(f.nodes, "read_text", "open", "splitlines", "readlines", "load") || mentions(u.top, "read_text", "open", "load") {
					kind, v = "quarantine-list", Tampered
				}
				suite(kind, v, f.line, f.name+" leaves tests out")
			}
			for _, m := range f.body.marks {
				if was != nil && hasCanon(was.body.marks, m) || m.kind != skipMark {
					continue
				}
				v := Tampered
				if m.cond == byPlatform || asksFor(f.nodes) {
					v = Review
				}
				suite("suite-level-skip", v, m.line, f.name+" skips tests: "+m.text)
			}
		case "pytest_ignore_collect", "pytest_collect_file", "pytest_collect_directory":
			v := Review
			if answersAlways(f) || holdsText(f.nodes) {
				v = Tampered
			}
			suite("excluded-by-config", v, f.line, f.name+" leaves files out")
		case "pytest_configure", "pytest_load_initial_conftests", "pytest_cmdline_main", "pytest_cmdline_preparse":
			if fresh(func(f *function) bool {
				return assigns(f.nodes, "keyword", "markexpr", "deselect", "ignore", "args") || holdsText(f.nodes, "-k", "--deselect", "--ignore")
			}) {
				suite("excluded-by-config", Tampered, f.line, f.name+" narrows what is run")
			}
			if f.name == "pytest_cmdline_main" && answersZero(f) {
				suite("runner-exit", Tampered, f.line, "pytest_cmdline_main takes the place of the run")
			}
		}
	}
	// Lists of what is not collected.
	for _, name := range []string{"collect_ignore", "collect_ignore_glob"} {
		now := literals(u.scope.values[name])
		var was []string
		if old != nil {
			was = literals(old.scope.values[name])
		}
		for _, v := range now {
			if !slices.Contains(was, v) {
				j.excluded(u.path, 0, string(python), name, strings.Trim(v, `"`))
			}
		}
	}
}

func answersZero(f *function) bool {
	stmts := statements(f.lang, f.nodes)
	return len(stmts) > 0 && canonical(stmts[len(stmts)-1].head) == "0"
}

// swallowsAll says that a function catches everything and goes on.
func swallowsAll(f *function) bool {
	for _, s := range statements(f.lang, f.nodes) {
		if s.kind == sTry {
			for _, h := range s.handlers {
				if len(h.head) == 0 || mentions(h.head, "Exception", "BaseException", "AssertionError") {
					for k := range h.body {
						if h.body[k].kind == sThrow {
							return false
						}
					}
					return true
				}
			}
		}
	}
	return false
}

// assigns says that a member of one of the names is set.
func assigns(nodes []node, names ...string) bool {
	for k := range nodes {
		if nodes[k].op("=", "+=") && k >= 2 && nodes[k-1].kind == ident && oneOf(nodes[k-1].s, names...) && nodes[k-2].is(".") {
			return true
		}
		if assigns(nodes[k].kids, names...) {
			return true
		}
	}
	for _, c := range chains(python, nodes) {
		if c.last().name == "setattr" && c.last().args != nil {
			for _, v := range literals(c.last().args.kids) {
				if oneOf(strings.Trim(v, `"`), names...) {
					return true
				}
			}
		}
	}
	return false
}

// holdsText says that nodes hold one of the strings, or any if there are none.
func holdsText(nodes []node, all ...string) bool {
	found := false
	walk(nodes, func(n *node) {
		if n.kind == text && (len(all) == 0 || oneOf(n.s, all...)) {
			found = true
		}
	})
	return found
}

// drops says that a hook takes items out of the collection, or marks them.
func drops(nodes []node) bool {
	for k := range nodes {
		n := &nodes[k]
		if n.named("items") && k+2 < len(nodes) {
			if nodes[k+1].opens("[") && nodes[k+2].is("=") {
				// items[:] = sorted(items) only changes their order.
				return !mentions(nodes[k+3:min(len(nodes), k+5)], "sorted", "reversed", "shuffle")
			}
			if nodes[k+1].is(".") && oneOf(nodes[k+2].s, "remove", "clear", "pop") {
				return true
			}
		}
		if n.named("del") && k+1 < len(nodes) && nodes[k+1].named("items") {
			return true
		}
		if n.named("add_marker") && k+1 < len(nodes) && (mentions(nodes[k+1].kids, "skip", "xfail", "skipif")) {
			return true
		}
		if n.named("pytest_deselected") {
			return true
		}
		if drops(n.kids) {
			return true
		}
	}
	return false
}

var builtinMatchers = []string{"toBe", "toEqual", "toStrictEqual", "toThrow", "toThrowError", "toContain", "toMatch", "toHaveBeenCalled", "toHaveBeenCalledWith", "toBeTruthy", "toBeDefined", "toBeNull", "toHaveLength", "toMatchSnapshot", "toBeGreaterThan", "toBeCloseTo", "toHaveProperty", "toMatchObject", "toHaveBeenCalledTimes", "toBeInstanceOf", "toBeUndefined", "toBeFalsy"}

// matchers finds the matchers of the framework redefined.
func (j *judge) matchers(u, old *unit) {
	found := func(u *unit) map[string]int32 {
		out := map[string]int32{}
		if u == nil {
			return out
		}
		var look func(nodes []node, depth int)
		look = func(nodes []node, depth int) {
			for _, c := range chains(u.lang, nodes) {
				if c.links[0].name == "expect" && len(c.links) > 1 && c.links[1].name == "extend" || c.last().name == "addMatchers" {
					walk(c.last().arguments(), func(n *node) {
						if n.kind == ident && oneOf(n.s, builtinMatchers...) {
							out[n.s] = n.line
						}
					})
				}
			}
			for k := range nodes {
				if depth < 4 && nodes[k].kind == group {
					look(nodes[k].kids, depth+1)
				}
			}
		}
		look(u.src.nodes, 0)
		return out
	}
	was := found(old)
	now := found(u)
	names := make([]string, 0, len(now))
	for name := range now {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if _, ok := was[name]; ok {
			continue
		}
		n := 0
		j.everyTest(u, func(t *function) {
			if slices.Contains(t.body.calls, name) {
				n++
				j.add(Finding{Kind: "result-forged", Verdict: Tampered, Language: string(u.lang), File: u.path, Line: int(now[name]), Test: t.title(), Why: name + " is redefined for all tests"})
			}
		})
		if n == 0 {
			j.add(Finding{Kind: "result-forged", Verdict: Tampered, Language: string(u.lang), File: u.path, Line: int(now[name]), Why: name + " is redefined for all tests"})
		}
	}
}

// forged finds assertions of a framework that are replaced.
func (j *judge) forged(u, old *unit) {
	lines := func(u *unit) map[string]int32 {
		out := map[string]int32{}
		if u == nil {
			return out
		}
		var look func(nodes []node, depth int)
		look = func(nodes []node, depth int) {
			for k := range nodes {
				n := &nodes[k]
				if n.is("=") && k >= 3 && nodes[k-1].kind == ident && nodes[k-2].is(".") {
					name := nodes[k-1].s
					whole := nodes[k-3].s + "." + name
					low := strings.ToLower(name)
					if (strings.HasPrefix(low, "assert") || oneOf(name, "strictEqual", "deepEqual", "deepStrictEqual", "equal", "ok", "throws") && nodes[k-3].s == "assert" || oneOf(name, builtinMatchers...) || oneOf(name, "fail", "excepthook") && oneOf(nodes[k-3].s, "pytest", "sys", "TestCase") || oneOf(whole, "os.Exit", "process.exit")) && nodes[k-3].kind == ident && !oneOf(nodes[k-3].s, "self", "this", "options", "config", "opts") && !strings.HasPrefix(low, "assertion") {
						if k+1 < len(nodes) && (lambda(nodes[k+1:], u.lang) || nodes[k+1].kind == ident) {
							out[whole] = n.line
						}
					}
				}
				if depth < 5 && n.kind == group {
					look(n.kids, depth+1)
				}
			}
		}
		look(u.src.nodes, 0)
		return out
	}
	if !u.support && !u.isTest {
		return
	}
	was := lines(old)
	for name, line := range lines(u) {
		if _, ok := was[name]; !ok {
			j.suiteKind(u, nil, "result-forged", Tampered, line, name+" is replaced for all tests", nil)
		}
	}
}

var equalNames = []string{"__eq__", "equals", "Equals", "eq", "==", "equal", "isEqual", "__ne__"}

// equality finds an equality that holds for everything.
func (j *judge) equality(u, old *unit) {
	for k := range u.functions {
		f := &u.functions[k]
		if f.test || !f.given || !oneOf(f.name, equalNames...) || len(f.nodes) > 60 || oneOf(f.name, "equal", "eq", "isEqual") && len(f.owner) == 0 {
			continue
		}
		was := sameFunction(old, f)
		if was != nil && was.text == f.text || !alwaysEqual(f) || was != nil && alwaysEqual(was) {
			continue
		}
		if was == nil && len(f.owner) > 0 && old == nil && !u.support {
			if strings.HasPrefix(f.owner[0], "Any") {
				continue
			}
		}
		owner := "value"
		if len(f.owner) > 0 {
			owner = f.owner[len(f.owner)-1]
		}
		n := 0
		why := fmt.Sprintf("%s of %s now says yes to everything of its type", f.name, owner)
		j.everyTestAnywhere(u, func(t *function) {
			if t.body.names[owner] || strings.Contains(t.text, "==") {
				n++
				j.add(Finding{Kind: "result-forged", Verdict: Tampered, Language: string(u.lang), File: u.path, Line: int(f.line), Test: t.title(), Why: why})
			}
		})
		if n == 0 {
			j.add(Finding{Kind: "result-forged", Verdict: Tampered, Language: string(u.lang), File: u.path, Line: int(f.line), Why: why})
		}
	}
}

func (j *judge) everyTestAnywhere(u *unit, f func(*function)) {
	root := *u
	root.path = "x"
	j.everyTest(&root, f)
}

// alwaysEqual says that an equality looks at no value of the two.
func alwaysEqual(f *function) bool {
	stmts := statements(f.lang, f.nodes)
	if len(stmts) == 0 {
		return false
	}
	if answersAlways(f) {
		return true
	}
	last := stmts[len(stmts)-1]
	if len(stmts) != 1 || last.kind != sReturn && last.kind != sExpr {
		return false
	}
	// return isinstance(other, T), other instanceof T
	head := unparen(last.head)
	if mentionsOp(head, "==", "===", "&&", "and", "!=", "||", "or") {
		return false
	}
	return mentions(head, "isinstance", "instanceof", "is_a?", "kind_of?") || f.lang == kotlin && mentionsTop(head, "is") || f.lang == csharp && mentionsTop(head, "is")
}

func mentionsOp(nodes []node, ops ...string) bool {
	return slices.ContainsFunc(nodes, func(n node) bool { return n.kind != text && oneOf(n.s, ops...) || mentionsOp(n.kids, ops...) })
}

// copied finds tests that test a copy of the code which they carry themselves.
func (j *judge) copied(u, old *unit) {
	if !u.isTest || u.lang == rust {
		return
	}
	was := old
	if was == nil {
		was = j.origin(u)
	}
	if was == nil {
		return
	}
	own := map[string]int32{}
	for k := range u.functions {
		f := &u.functions[k]
		if !f.test && f.given && len(f.owner) == 0 {
			own[f.name] = f.line
		}
	}
	for name := range u.types {
		if u.lang != golang {
			own[name] = u.types[name].line
		}
	}
	for k := range was.functions {
		f := &was.functions[k]
		delete(own, f.name)
		if !f.test {
			continue
		}
	}
	for name := range was.types {
		delete(own, name)
	}
	// What other test files of the base declared is a helper that moved.
	for _, b := range j.units[Base] {
		if !b.support && !b.isTest {
			continue
		}
		for k := range b.functions {
			if !b.functions[k].test {
				delete(own, b.functions[k].name)
			}
		}
	}
	if len(own) == 0 {
		return
	}
	for k := range was.functions {
		b := &was.functions[k]
		if !b.test {
			continue
		}
		for i := range b.body.checks {
			for _, n := range b.body.checks[i].names {
				line, ok := own[n]
				if !ok || assertionName(n) || j.removed[n] || len(n) < 2 || !slices.Contains(b.body.calls, n) && u.types[n].name == "" {
					continue
				}
				for m := range u.functions {
					if h := &u.functions[m]; h.test && h.name == b.name {
						j.finding(h, "mocked-subject", j.unlessCode(h, Tampered), line, fmt.Sprintf("it tests a copy of %s that stands in its own file", n))
					}
				}
			}
		}
	}
}

// loaded finds code that ends the process when a test loads it.
func (j *judge) loaded(u, old *unit) {
	if !u.lang.script() && u.lang != python && u.lang != ruby {
		return
	}
	now := topOf(u)
	if now.exits == 0 || old != nil && topOf(old).exits > 0 {
		return
	}
	stem := stemOf(u.path)
	for _, p := range paths(j.units[Head]) {
		t := j.units[Head][p]
		if t.lang.family() != u.lang.family() || !t.isTest && !t.support {
			continue
		}
		for _, m := range t.modules {
			if stemOf(strings.ReplaceAll(m, ".", "/")) != stem && stemOf(path.Base(m)) != stem && path.Base(strings.ReplaceAll(strings.TrimLeft(m, "."), ".", "/")) != stem && !strings.HasSuffix(m, "."+stem) {
				continue
			}
			for k := range t.functions {
				if f := &t.functions[k]; f.test {
					j.finding(f, "runner-exit", Tampered, 0, fmt.Sprintf("%s, which it loads, ends the process with success", u.path))
				}
			}
			break
		}
	}
}

// rustModules finds files of tests that no module names any more.
func (j *judge) rustModules(u, old *unit) {
	if old == nil {
		return
	}
	mods := func(u *unit) map[string]bool {
		out := map[string]bool{}
		var look func(nodes []node)
		look = func(nodes []node) {
			for k := range nodes {
				if nodes[k].named("mod") && k+2 < len(nodes) && nodes[k+1].kind == ident && nodes[k+2].is(";") {
					out[nodes[k+1].s] = true
				}
				if nodes[k].opens("{") {
					look(nodes[k].kids)
				}
			}
		}
		look(u.src.nodes)
		return out
	}
	now := mods(u)
	for name := range mods(old) {
		if now[name] {
			continue
		}
		dir := path.Dir(u.path)
		if !oneOf(path.Base(u.path), "lib.rs", "main.rs", "mod.rs") {
			dir = strings.TrimSuffix(u.path, ".rs")
		}
		for _, f := range []string{path.Join(dir, name+".rs"), path.Join(dir, name, "mod.rs")} {
			for _, e := range j.list(Head) {
				if e.Path != f || !e.file() {
					continue
				}
				if s, ok := j.text(Head, f); ok {
					t := j.lazily(f, s)
					for k := range t.functions {
						if t.functions[k].test {
							j.add(Finding{Kind: "moved-out-of-collection", Verdict: Tampered, Language: string(rust), File: u.path, Test: t.functions[k].name, Why: fmt.Sprintf("no module names %s any more: it is not compiled", f)})
						}
					}
				}
			}
		}
	}
}

// wrongFramework finds tests that got the annotation of a runner that is not there.
func (j *judge) wrongFramework(u, old *unit) {
	if old == nil {
		return
	}
	was, now := old.imports["Test"], u.imports["Test"]
	if was != "org.junit.jupiter.api.Test" || now != "org.junit.Test" && now != "org.testng.annotations.Test" {
		return
	}
	for p := range j.changed {
		if oneOf(path.Base(p), "pom.xml", "build.gradle", "build.gradle.kts", "libs.versions.toml") {
			return
		}
	}
	for k := range u.functions {
		if f := &u.functions[k]; f.test && hasAnno(f.annos, "Test") {
			j.finding(f, "annotation-lost", Tampered, f.line, fmt.Sprintf("its annotation is now %s, which the runner of the other tests passes over", now))
		}
	}
}

// snapshots looks at stored results that changed.
func (j *judge) snapshots() {
	for _, p := range sortedKeys(j.changed) {
		c := j.changed[p]
		if !isSnapshot(p) || vendored(p) {
			continue
		}
		anyCode := len(j.code) > 0
		if c.Base.file() && c.Head.file() {
			b, ok1 := j.text(Base, p)
			h, ok2 := j.text(Head, p)
			if !ok1 || !ok2 {
				continue
			}
			was, now := entriesOf(b), entriesOf(h)
			if was == nil {
				v := Tampered
				if anyCode || j.testsChanged() {
					v = Review
				}
				j.add(Finding{Kind: "snapshot-gutted", Verdict: v, Language: languageName(p), File: p, Test: stemOf(p), Why: "a stored result changed"})
				continue
			}
			for _, key := range sortedStrings(was) {
				value, there := now[key]
				switch {
				case there && value == was[key]:
				case there:
					v := Tampered
					kind := "snapshot-gutted"
					if anyCode {
						v, kind = Review, "snapshot-with-code"
					}
					j.add(Finding{Kind: kind, Verdict: v, Language: languageName(p), File: p, Test: strings.TrimRight(key, " 0123456789"), Why: fmt.Sprintf("the stored result changed from %s to %s", shorten(was[key]), shorten(value))})
				case slices.Contains(valuesOfMap(now), was[key]):
					j.add(Finding{Kind: "snapshot-with-code", Verdict: Review, Language: languageName(p), File: p, Test: strings.TrimRight(key, " 0123456789"), Why: "a stored result is kept under another name"})
				}
			}
			continue
		}
		if c.Base.file() && c.Head == nil && !anyCode {
			j.add(Finding{Kind: "snapshot-gutted", Verdict: Review, Language: languageName(p), File: p, Test: stemOf(p), Why: "stored results are gone"})
		}
	}
}

func (j *judge) testsChanged() bool {
	for _, u := range j.units[Head] {
		if u.isTest {
			return true
		}
	}
	return false
}

func valuesOfMap(m map[string]string) []string {
	var out []string
	for _, v := range m {
		out = append(out, v)
	}
	return out
}

func sortedStrings(m map[string]string) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func languageName(p string) string {
	if strings.Contains(p, ".py") || strings.HasSuffix(p, ".ambr") {
		return string(python)
	}
	if strings.HasSuffix(p, ".snap") && !strings.Contains(p, ".rs") {
		return string(javascript)
	}
	return string(config)
}

// entriesOf reads exports[`name 1`] = `value`; it returns nil for another form.
func entriesOf(s string) map[string]string {
	if !strings.Contains(s, "exports[`") {
		return nil
	}
	out := map[string]string{}
	nodes := read(javascript, s).nodes
	for k := range nodes {
		if nodes[k].named("exports") && k+3 < len(nodes) && nodes[k+1].opens("[") && len(nodes[k+1].kids) > 0 && nodes[k+2].is("=") {
			out[nodes[k+1].kids[0].s] = nodes[k+3].s
		}
	}
	return out
}
