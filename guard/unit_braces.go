package guard

import (
	"slices"
	"strings"
)

var modifiers = map[string]bool{
	"public": true, "private": true, "protected": true, "internal": true, "static": true, "final": true, "abstract": true, "sealed": true, "open": true, "override": true,
	"async": true, "suspend": true, "inline": true, "virtual": true, "partial": true, "readonly": true, "pub": true, "unsafe": true, "extern": true, "data": true, "inner": true,
	"synchronized": true, "native": true, "default": true, "strictfp": true, "companion": true, "fileprivate": true, "mutating": true, "class": false, "var": false, "new": true, "operator": true, "infix": true, "tailrec": true, "lateinit": true, "const": true, "required": true, "convenience": true, "nonisolated": true, "indirect": true, "lazy": true, "weak": true, "dynamic": true, "distributed": true, "expect": true, "actual": true, "value": true, "file": true, "ref": true, "scoped": true, "non": true, "external": true, "crate": true,
}

var typeWords = []string{"class", "interface", "object", "enum", "record", "struct", "trait", "extension", "namespace", "mod", "impl", "actor", "protocol", "union", "module"}

// member is one declaration.
type member struct {
	annos []anno
	mods  []string
	nodes []node
	line  int32
	first int
	gated []mark // the #if around it
}

// split cuts the content of a class or a file into declarations.
func (u *unit) declarations(nodes []node) []member {
	var out []member
	p := &splitter{lang: u.lang}
	var gates []mark
	for i := 0; i < len(nodes); {
		n := &nodes[i]
		if n.kind == directive {
			gates = u.gate(gates, n)
			i++
			continue
		}
		if n.is(";") || n.is(",") {
			i++
			continue
		}
		m := member{line: n.line, first: n.pos, gated: slices.Clip(gates)}
		i = u.annotations(nodes, i, &m)
		for i < len(nodes) && nodes[i].kind == ident && modifiers[nodes[i].s] && i+1 < len(nodes) && !nodes[i+1].op("=", ".", "(", ";") && !(nodes[i+1].opens("(") && !oneOf(nodes[i].s, "pub", "private", "internal", "fileprivate", "open")) {
			m.mods = append(m.mods, nodes[i].s)
			i++
			if i < len(nodes) && nodes[i].opens("(") && oneOf(nodes[i-1].s, "pub", "private", "internal", "fileprivate", "open") { // pub(crate)
				i++
			}
			// Annotations may stand between the modifiers.
			i = u.annotations(nodes, i, &m)
		}
		from := i
		assigned := false
		for i < len(nodes) {
			x := &nodes[i]
			if x.is(";") || x.kind == directive {
				break
			}
			if i > from && x.nl && p.lines() && !p.continues(nodes[i-1]) && !p.begins(*x) && !x.opens("{") && !x.named("where") && !x.named("throws") {
				break
			}
			if x.op("=", "=>") && !(u.lang == rust && x.is("=>")) {
				assigned = true
			}
			i++
			if x.opens("{") {
				if assigned && i < len(nodes) && !nodes[i].nl {
					continue
				}
				if assigned && !p.lines() && i < len(nodes) && nodes[i].is(";") {
					continue
				}
				// A where clause or a second block does not follow.
				break
			}
		}
		if i > from {
			m.nodes = nodes[from:i]
			m.line = nodes[from].line
			out = append(out, m)
		} else if i < len(nodes) && !nodes[i].is(";") && nodes[i].kind != directive {
			i++
		}
	}
	return out
}

// gate follows #if, #else and #endif.
func (u *unit) gate(gates []mark, n *node) []mark {
	word, rest, _ := strings.Cut(n.s, " ")
	switch word {
	case "if", "elif", "elseif":
		m := mark{kind: skipMark, line: n.line, text: "#" + n.s, canon: "#" + rest, cond: byMachine}
		low := strings.ToLower(strings.TrimSpace(rest))
		switch {
		case low == "false" || low == "0":
			m.cond = always
		case low == "true" || low == "debug" || strings.HasPrefix(low, "net") && u.lang == csharp || strings.Contains(low, "canimport") || strings.Contains(low, "swift("):
			m.cond = byPlatform
			if low == "true" {
				m.cond = never
			}
		case strings.Contains(low, "os(") || strings.Contains(low, "windows") || strings.Contains(low, "linux") || strings.Contains(low, "arch(") || strings.Contains(low, "netcoreapp") || strings.Contains(low, "netframework") || strings.Contains(low, "netstandard") || strings.Contains(low, "targetenvironment") || strings.Contains(low, "compiler("):
			m.cond = byPlatform
		}
		if word != "if" && len(gates) > 0 {
			gates = gates[:len(gates)-1]
		}
		return append(slices.Clip(gates), m)
	case "else":
		if len(gates) > 0 {
			m := gates[len(gates)-1]
			m.canon = "!" + m.canon
			if m.cond == always {
				m.cond = never
			} else if m.cond == never {
				m.cond = always
			}
			return append(slices.Clip(gates[:len(gates)-1]), m)
		}
	case "endif":
		if len(gates) > 0 {
			return gates[:len(gates)-1]
		}
	}
	return gates
}

// annotations reads what stands above a declaration.
func (u *unit) annotations(nodes []node, i int, m *member) int {
	for i < len(nodes) {
		n := &nodes[i]
		switch u.lang {
		case java, kotlin, swift, groovy:
			if !n.is("@") || i+1 >= len(nodes) || nodes[i+1].kind != ident || nodes[i+1].s == "interface" {
				return i
			}
			a := anno{line: n.line}
			i++
			for i < len(nodes) && nodes[i].kind == ident {
				a.name = nodes[i].s
				a.full += nodes[i].s
				i++
				if i+1 < len(nodes) && nodes[i].op(".", ":") && nodes[i+1].kind == ident && nodes[i+1].pos == nodes[i].end {
					if nodes[i].is(":") {
						a.full = ""
					} else {
						a.full += "."
					}
					i++
					continue
				}
				break
			}
			if i < len(nodes) && nodes[i].opens("(") && nodes[i].pos <= nodes[i-1].end+1 && (u.lang == java || nodes[i].pos == nodes[i-1].end) {
				a.args = nodes[i].kids
				i++
			}
			m.annos = append(m.annos, a)
		case csharp:
			if !n.opens("[") {
				return i
			}
			for _, part := range split(n.kids) {
				a := anno{line: n.line}
				for k := range part {
					if part[k].is(":") {
						a.name, a.full = "", ""
						continue
					}
					if part[k].kind == ident {
						a.name = strings.TrimSuffix(part[k].s, "Attribute")
						a.full += part[k].s
					}
					if part[k].opens("(") {
						a.args = part[k].kids
					}
				}
				m.annos = append(m.annos, a)
			}
			i++
		case php, rust:
			if !n.is("#") || i+1 >= len(nodes) {
				return i
			}
			k := i + 1
			if nodes[k].is("!") {
				k++
			}
			if k >= len(nodes) || !nodes[k].opens("[") {
				return i
			}
			for _, part := range split(nodes[k].kids) {
				a := anno{line: n.line}
				for j := range part {
					if part[j].kind == ident {
						a.name = part[j].s
						a.full += part[j].s
					}
					if part[j].op("::") || part[j].op(`\`) {
						a.full += "."
					}
					if part[j].kind == group {
						a.args = part[j].kids
						break
					}
					if part[j].is("=") {
						a.args = part[j+1:]
						break
					}
				}
				m.annos = append(m.annos, a)
			}
			i = k + 1
		default:
			return i
		}
	}
	return i
}

// members reads the declarations of a file or of a class.
func (u *unit) members(nodes []node, owner []string, around []mark, class classInfo) {
	for _, m := range u.declarations(nodes) {
		u.member(m, owner, around, class)
	}
}

func (u *unit) member(m member, owner []string, around []mark, class classInfo) {
	nodes := m.nodes
	marks := append(slices.Clip(around), m.gated...)
	// A file of PHP begins with statements; namespaces without braces go on.
	word, at := "", -1
	for k := range nodes {
		if nodes[k].kind == group && nodes[k].s != "[" || nodes[k].op("=", "=>") {
			break
		}
		if nodes[k].kind == ident && oneOf(nodes[k].s, typeWords...) && k+1 < len(nodes) && (nodes[k+1].kind == ident || nodes[k+1].opens("{") || nodes[k+1].op("<")) {
			if k > 0 && nodes[k-1].is("::") || k > 0 && nodes[k-1].is(".") {
				continue
			}
			word, at = nodes[k].s, k
			break
		}
		if nodes[k].kind == ident && oneOf(nodes[k].s, "fun", "func", "fn", "function", "init", "deinit", "subscript", "constructor") {
			break
		}
	}
	last := nodes[len(nodes)-1]
	if word != "" {
		name := ""
		var supers []string
		end := len(nodes)
		var inside *node
		if last.opens("{") {
			inside = &nodes[len(nodes)-1]
			end--
		}
		for k := at + 1; k < end; k++ {
			if nodes[k].kind == ident && !oneOf(nodes[k].s, "class", "extends", "implements", "for", "with", "where", "permits", "interface") {
				if name == "" {
					name = nodes[k].s
				} else {
					supers = append(supers, nodes[k].s)
				}
			}
		}
		own := u.annoMarks(m.annos)
		for k := range own {
			own[k].suite = true
		}
		// What an annotation type carries, all that wear it carry.
		if word == "interface" && u.lang == java && at > 0 && nodes[at-1].is("@") || u.lang == kotlin && slices.Contains(m.mods, "annotation") {
			for _, k := range own {
				if k.kind == skipMark {
					k.text, k.suite = "@"+name, false
					u.scope.skips[name] = k
				}
			}
		}
		if word == "class" && at > 0 && nodes[at-1].named("annotation") {
			for _, k := range own {
				if k.kind == skipMark {
					k.text, k.suite = "@"+name, false
					u.scope.skips[name] = k
				}
			}
		}
		info := classInfo{name: name, supers: supers, abstract: slices.Contains(m.mods, "abstract") || word == "interface" || word == "trait", line: m.line}
		info.private = slices.Contains(m.mods, "private") || u.lang == java && slices.ContainsFunc(u.types[name].supers, func(string) bool { return false })
		if word == "impl" || word == "extension" {
			info = u.types[name]
			info.name = name
			if word == "extension" {
				info.supers = append(slices.Clip(info.supers), "extension")
			}
		}
		if word != "namespace" && word != "mod" && word != "module" && name != "" {
			u.types[name] = info
		}
		in := owner
		if name != "" && word != "namespace" {
			in = append(slices.Clip(owner), name)
		}
		all := append(slices.Clip(marks), own...)
		if word == "mod" && len(m.annos) == 1 && m.annos[0].name == "cfg" && inside == nil {
			all = marks
		}
		// A spec of kotest is a closure handed to the constructor of its base.
		if u.lang == kotlin {
			for k := range nodes {
				if nodes[k].opens("(") {
					for j := range nodes[k].kids {
						if nodes[k].kids[j].opens("{") && slices.ContainsFunc(supers, isSpec) {
							u.kotest(nodes[k].kids[j].kids, in, all, nil)
						}
					}
				}
			}
		}
		if inside != nil {
			before := len(u.functions)
			u.members(inside.kids, in, all, info)
			if u.lang == kotlin && slices.ContainsFunc(supers, isSpec) {
				for _, d := range u.declarations(inside.kids) {
					if len(d.nodes) == 2 && d.nodes[0].named("init") && d.nodes[1].opens("{") {
						u.kotest(d.nodes[1].kids, in, all, nil)
					}
				}
			}
			info = u.types[name]
			for _, f := range u.functions[before:] {
				info.methods = append(info.methods, f.name)
			}
			if name != "" && word != "namespace" && word != "mod" {
				u.types[name] = info
			}
		}
		if word == "namespace" && inside == nil {
			return
		}
		return
	}
	// A function?
	f := function{owner: owner, line: m.line, annos: m.annos, mods: m.mods}
	params := -1
	for k := range nodes {
		if nodes[k].op("=", "=>", ":") && u.lang != swift && u.lang != kotlin && u.lang != php {
			break
		}
		if nodes[k].is("=") {
			break
		}
		if nodes[k].opens("(") && k > 0 && nodes[k-1].kind == ident {
			params = k
			break
		}
		if nodes[k].opens("(") && k > 0 && nodes[k-1].is(">") { // fn f<T>()
			for j := k - 1; j > 0; j-- {
				if nodes[j].is("<") && nodes[j-1].kind == ident {
					params = k
					f.name = nodes[j-1].s
					break
				}
			}
			if params >= 0 {
				break
			}
		}
		if nodes[k].opens("{") {
			break
		}
	}
	if params < 0 {
		if owner == nil {
			u.top = append(u.top, nodes...)
		}
		if u.lang == php || u.lang == csharp {
			u.global(nodes)
		}
		return
	}
	if f.name == "" {
		f.name = nodes[params-1].s
	}
	f.params = nodes[params].kids
	switch {
	case last.opens("{"):
		f.nodes, f.given = last.kids, true
	default:
		for k := params; k < len(nodes); k++ {
			if nodes[k].op("=", "=>") {
				f.nodes, f.given = nodes[k+1:], true
				break
			}
		}
	}
	keyword := mentionsTop(nodes[:params], "fun", "func", "fn", "function")
	if !keyword && !f.given && owner == nil {
		u.top = append(u.top, nodes...)
		u.pest(nodes, marks)
		return
	}
	if !keyword && u.lang == kotlin || !keyword && u.lang == swift && f.name != "init" || !keyword && u.lang == rust || !keyword && u.lang == php {
		if owner == nil {
			u.top = append(u.top, nodes...)
			u.pest(nodes, marks)
		}
		return
	}
	doc := u.doc(m)
	if u.lang == php {
		f.annos = append(f.annos, doc...)
		u.phpTables(&f)
	}
	f.marks = append(marks, u.annoMarks(f.annos)...)
	for _, a := range f.annos {
		f.tables = append(f.tables, u.annoTables(a)...)
	}
	f.tables = append(f.tables, u.annoRows(f.annos)...)
	f.test, f.why = u.collects(&f, class)
	f.abstract = class.abstract
	u.functions = append(u.functions, f)
}

func mentionsTop(nodes []node, words ...string) bool {
	return slices.ContainsFunc(nodes, func(n node) bool { return n.kind == ident && oneOf(n.s, words...) })
}

// annoTables finds tables in the arguments of an annotation.
func (u *unit) annoTables(a anno) [][]row {
	if !oneOf(a.name, "ValueSource", "CsvSource", "EnumSource", "parametrize", "parameterized", "expand", "TestWith", "testWith", "rstest", "Test", "NullSource", "Parameters", "values", "FieldSource", "CsvFileSource", "data", "ddt", "params", "named_parameters", "product") {
		return nil
	}
	var nodes []node
	for _, part := range split(a.args) {
		if len(part) > 2 && part[0].kind == ident && part[1].op("=", ":") && oneOf(part[0].s, "ids", "name", "description", "displayName", "enabled", "timeout") {
			continue
		}
		nodes = append(nodes, part...)
	}
	t := tables(nodes)
	if t == nil && oneOf(a.name, "ValueSource", "CsvSource") {
		if len(nodes) > 0 {
			if r := rowsOf(&node{kind: group, s: "[", kids: valuesOf(nodes)}); r != nil {
				t = [][]row{r}
			}
		}
	}
	if a.name == "CsvSource" {
		for _, rows := range t {
			for k := range rows {
				if len(rows[k].values) == 1 {
					cells := strings.Split(strings.Trim(rows[k].values[0], `"`), ",")
					rows[k].values = nil
					for _, c := range cells {
						rows[k].values = append(rows[k].values, `"`+strings.TrimSpace(c)+`"`)
					}
				}
			}
		}
	}
	// A text block of CSV has one row a line.
	for k := range nodes {
		if nodes[k].kind == text && strings.Contains(nodes[k].s, "\n") && a.name == "CsvSource" {
			var rows []row
			for j, l := range strings.Split(nodes[k].s, "\n") {
				if l = strings.TrimSpace(l); l != "" {
					rows = append(rows, row{line: nodes[k].line + int32(j), full: l, values: []string{`"` + l + `"`}, name: l}) // lines of a file
				}
			}
			t = append(t, rows)
		}
	}
	return t
}

func valuesOf(nodes []node) []node {
	for k := range nodes {
		if nodes[k].is("=") {
			return nodes[k+1:]
		}
	}
	return nodes
}

// annoRows makes a table of annotations that are one row each.
func (u *unit) annoRows(annos []anno) [][]row {
	var rows []row
	for _, a := range annos {
		if !oneOf(a.name, "TestCase", "InlineData", "DataRow", "test_case", "case", "TestWith", "testWith", "Arguments") || len(a.args) == 0 {
			continue
		}
		r := row{line: a.line, full: canonical(a.args), values: literals(a.args)}
		for _, s := range r.values {
			if strings.HasPrefix(s, `"`) {
				r.name = strings.Trim(s, `"`)
				break
			}
		}
		rows = append(rows, r)
	}
	if rows == nil {
		return nil
	}
	return [][]row{rows}
}

// doc reads the annotations in the comment above a declaration of PHP.
func (u *unit) doc(m member) []anno {
	if u.lang != php {
		return nil
	}
	var best *comment
	for k := range u.src.comments {
		c := &u.src.comments[k]
		if c.pos < m.first && strings.HasPrefix(c.text, "/**") {
			best = c
		}
	}
	if best == nil || strings.TrimSpace(u.text[best.pos+len(best.text):m.first]) != "" {
		return nil
	}
	var out []anno
	for _, l := range strings.Split(best.text, "\n") {
		l = strings.Trim(strings.TrimSpace(l), "/* \t")
		if !strings.HasPrefix(l, "@") {
			continue
		}
		word, rest, _ := strings.Cut(l[1:], " ")
		a := anno{name: word, full: word, line: best.line}
		if rest = strings.TrimSpace(rest); rest != "" {
			a.args = []node{{kind: text, s: rest, line: best.line}}
		}
		out = append(out, a)
	}
	return out
}

// phpTables finds the rows that a data provider of the file returns.
func (u *unit) phpTables(f *function) {
	for _, a := range f.annos {
		if oneOf(a.name, "DataProvider", "dataProvider", "TestWith", "testWith") && len(a.args) > 0 {
			f.annos = append(f.annos, anno{name: "provider", args: a.args})
			break
		}
	}
}

var testAnnos = map[language][]string{
	java:   {"Test", "ParameterizedTest", "RepeatedTest", "TestFactory", "TestTemplate", "Theory", "Property", "Example", "RetryingTest", "CartesianTest", "Scenario", "ArchTest", "RepeatedIfExceptionsTest"},
	kotlin: {"Test", "ParameterizedTest", "RepeatedTest", "TestFactory", "TestTemplate", "Theory", "Property", "Example", "CartesianTest", "BeforeTest2"},
	csharp: {"Fact", "Theory", "Test", "TestCase", "TestCaseSource", "TestMethod", "DataTestMethod", "SkippableFact", "SkippableTheory", "Property", "Arguments", "StaFact", "UIFact", "ConditionalFact", "ConditionalTheory", "WpfFact"},
	rust:   {"test", "rstest", "test_case", "case", "quickcheck", "wasm_bindgen_test", "proptest", "googletest", "apply", "tokio.test", "bench2", "parameterized", "traced_test"},
	php:    {"Test", "test"},
	swift:  {"Test"},
}

// collects says whether the runner takes a function for a test, and if it only
// looks like one, which kind of finding that is.
func (u *unit) collects(f *function, class classInfo) (bool, string) {
	annotated := false
	for _, a := range f.annos {
		if oneOf(a.name, testAnnos[u.lang]...) {
			annotated = true
		}
		if al, ok := u.scope.skips[a.name]; ok && al.kind == skipMark {
			continue
		}
	}
	private := slices.Contains(f.mods, "private") || slices.Contains(f.mods, "fileprivate")
	switch u.lang {
	case java, kotlin:
		if !annotated {
			if oneOf("TestCase", class.supers...) && strings.HasPrefix(f.name, "test") { // JUnit 3
				return !private, ""
			}
			// Methods of a class with @Test are tests of TestNG.
			return false, ""
		}
		if private {
			return false, "annotation-lost"
		}
		if u.lang == java && slices.Contains(f.mods, "static") {
			return false, "annotation-lost"
		}
		if !f.given {
			return false, ""
		}
		return true, ""
	case csharp:
		if !annotated {
			return false, ""
		}
		if private || slices.Contains(f.mods, "protected") || slices.Contains(f.mods, "internal") {
			return false, "annotation-lost"
		}
		return f.given, ""
	case rust:
		return annotated && f.given, ""
	case php:
		if private || slices.Contains(f.mods, "protected") || slices.Contains(f.mods, "static") {
			if strings.HasPrefix(f.name, "test") || annotated {
				return false, "annotation-lost"
			}
			return false, ""
		}
		if !annotated && !strings.HasPrefix(f.name, "test") {
			return false, ""
		}
		if !f.given || len(class.supers) == 0 && !strings.HasSuffix(class.name, "Test") && class.name != "" && !class.abstract {
			return false, ""
		}
		return u.isTest, ""
	case swift:
		if annotated {
			return true, ""
		}
		if !strings.HasPrefix(f.name, "test") || !u.isTest {
			return false, ""
		}
		if private || slices.Contains(f.mods, "static") || len(f.params) > 0 {
			return false, "annotation-lost"
		}
		if len(class.supers) == 0 {
			return false, ""
		}
		return f.given, ""
	default:
		return false, ""
	}
}

func isSpec(s string) bool {
	return oneOf(s, "FunSpec", "StringSpec", "DescribeSpec", "BehaviorSpec", "ShouldSpec", "WordSpec", "FeatureSpec", "ExpectSpec", "FreeSpec", "AnnotationSpec")
}

// kotest reads the tests in the closure of a spec.
func (u *unit) kotest(nodes []node, owner []string, around []mark, outer [][]row) {
	for _, s := range statements(kotlin, nodes) {
		u.kotestStatement(s.head, owner, around, outer)
		if s.kind == sLoop {
			t := append(slices.Clip(outer), tables(s.head)...)
			for _, in := range s.body {
				u.kotestStatement(in.head, owner, around, t)
			}
		}
	}
}

func (u *unit) kotestStatement(head []node, owner []string, around []mark, outer [][]row) {
	if len(head) == 0 {
		return
	}
	title, block := "", (*node)(nil)
	marks := slices.Clip(around)
	word := ""
	if head[0].kind == text { // "title" { … }
		title = head[0].s
		for k := 1; k < len(head); k++ {
			switch {
			case head[k].opens("{"):
				block = &head[k]
			case head[k].named("config") && k+1 < len(head) && head[k+1].opens("("):
				marks = append(marks, u.kotestConfig(head[k+1].kids, head[k].line)...)
			case head[k].kind == ident && oneOf(head[k].s, "should", "When", "when", "-"):
			}
		}
		word = "test"
	} else {
		cs := chains(kotlin, head)
		if len(cs) == 0 || cs[0].from != 0 {
			return
		}
		c := cs[0]
		word = c.links[0].name
		if oneOf(word, "forEach", "onEach", "withData") || c.last().name == "forEach" {
			for k := range c.links {
				l := &c.links[k]
				if l.name == "withData" || l.name == "forEach" {
					t := append(slices.Clip(outer), tables(append(slices.Clone(head[:1]), l.arguments()...))...)
					if l.args != nil {
						t = append(t, pairs(l.args.kids)...)
					}
					if l.name == "forEach" {
						for j := 0; j < k; j++ {
							t = append(t, tables([]node{{kind: group, s: "[", kids: c.links[j].arguments()}})...)
						}
					}
					if l.block != nil {
						if l.name == "withData" {
							f := function{name: "withData", owner: owner, line: c.line, nodes: closureBody(kotlin, l.block.kids, nil), test: true, given: true, marks: marks, tables: t}
							for _, r := range t {
								for _, x := range r {
									f.params = append(f.params, node{kind: ident, s: x.name})
								}
							}
							u.functions = append(u.functions, f)
						} else {
							u.kotest(closureBody(kotlin, l.block.kids, nil), owner, marks, t)
						}
					}
				}
			}
			return
		}
		for k := range c.links {
			l := &c.links[k]
			if k == 0 && len(l.arguments()) > 0 && l.arguments()[0].kind == text {
				title = l.arguments()[0].s
			}
			if l.name == "config" {
				marks = append(marks, u.kotestConfig(l.arguments(), l.line)...)
			}
			if l.block != nil {
				block = l.block
			}
		}
	}
	if title == "" || block == nil {
		return
	}
	off := strings.HasPrefix(word, "x")
	base := word
	if off || strings.HasPrefix(word, "f") && oneOf(word, "ftest", "fit", "fdescribe", "fcontext", "fshould") {
		base = word[1:]
	}
	line := head[0].line
	switch {
	case off && oneOf(base, "test", "it", "describe", "context", "should", "given", "when", "then", "and", "feature", "scenario", "expect"):
		marks = append(marks, mark{kind: skipMark, line: line, text: word, canon: word})
	case word != base:
		marks = append(marks, mark{kind: focusMark, line: line, text: word, canon: word})
	}
	if rest, ok := strings.CutPrefix(title, "!"); ok {
		title = rest
		marks = append(marks, mark{kind: skipMark, line: line, text: "a title that begins with !", canon: "!"})
	}
	if rest, ok := strings.CutPrefix(title, "f:"); ok {
		title = rest
		marks = append(marks, mark{kind: focusMark, line: line, text: "a title that begins with f:", canon: "f:"})
	}
	inside := closureBody(kotlin, block.kids, nil)
	if oneOf(base, "describe", "context", "given", "Given", "when", "When", "`when`", "feature", "and", "And") || word == "test" && nested(inside) {
		before := len(u.functions)
		u.kotest(inside, append(slices.Clip(owner), title), suite(marks), outer)
		if len(u.functions) > before {
			return
		}
	}
	if !oneOf(base, "test", "it", "should", "then", "Then", "scenario", "expect", "describe", "context", "given", "when", "When", "Given", "and", "feature") {
		return
	}
	u.functions = append(u.functions, function{name: title, owner: owner, line: line, nodes: inside, test: true, given: true, marks: marks, tables: outer})
}

// suite makes marks of what is around.
func suite(marks []mark) []mark {
	out := slices.Clone(marks)
	for k := range out {
		out[k].suite = true
	}
	return out
}

// nested says that a block holds further blocks with titles.
func nested(nodes []node) bool {
	for k := range nodes {
		if nodes[k].kind == text && nodes[k].nl && k+1 < len(nodes) && (nodes[k+1].opens("{") || nodes[k+1].is("-") || nodes[k+1].is(".")) {
			return true
		}
		if nodes[k].kind == ident && nodes[k].nl && oneOf(nodes[k].s, "test", "it", "should", "then", "Then", "xtest", "xit", "describe", "context") && k+2 < len(nodes) && nodes[k+1].opens("(") && nodes[k+2].opens("{") {
			return true
		}
	}
	return false
}

// pairs reads a to b, c to d as rows.
func pairs(nodes []node) [][]row {
	var rows []row
	for _, part := range split(nodes) {
		if v := literals(part); len(v) > 0 {
			r := row{line: part[0].line, full: canonical(part), values: v}
			if strings.HasPrefix(v[0], `"`) {
				r.name = strings.Trim(v[0], `"`)
			}
			rows = append(rows, r)
		}
	}
	// One argument is a collection of its own.
	if len(rows) < 2 {
		var out [][]row
		for k := range nodes {
			if nodes[k].opens("(") {
				out = append(out, pairs(nodes[k].kids)...)
			}
		}
		return out
	}
	return [][]row{rows}
}

func (u *unit) kotestConfig(args []node, line int32) []mark {
	var out []mark
	for _, part := range split(args) {
		if len(part) < 3 || !part[1].is("=") {
			continue
		}
		switch part[0].s {
		case "enabled":
			an := &analysis{scope: u.scope}
			m := mark{kind: skipMark, line: line, text: "config(enabled)", canon: "enabled " + canonical(part[2:])}
			switch an.truth(part[2:]) {
			case yes:
				continue
			case no:
			case unknown:
				m.cond = an.classify(part[2:])
			}
			out = append(out, m)
		case "enabledIf", "enabledOrReasonIf":
			an := &analysis{scope: u.scope}
			m := mark{kind: skipMark, line: line, text: "config(enabledIf)", canon: "enabledIf " + canonical(part[2:]), cond: byProbe}
			if part[2].opens("{") {
				m.cond = an.classify(part[2].kids)
				if an.truth(part[2].kids) == no {
					m.cond = always
				}
			}
			out = append(out, m)
		case "retries", "retry":
			out = append(out, mark{kind: retryMark, line: line, text: "config(retries)", canon: canonical(part)})
		case "tags":
			for _, t := range identifiers(part[2:]) {
				out = append(out, mark{kind: tagMark, line: line, text: "config(tags)", canon: t})
			}
		}
	}
	return out
}

// pest reads it('…', function () { … })->skip() of PHP.
func (u *unit) pest(nodes []node, marks []mark) {
	if u.lang != php {
		return
	}
	for _, c := range chains(php, nodes) {
		l := &c.links[0]
		if !oneOf(l.name, "it", "test", "describe", "todo") || l.args == nil || len(l.args.kids) == 0 || l.args.kids[0].kind != text {
			continue
		}
		f := function{name: l.args.kids[0].s, line: c.line, test: true, marks: slices.Clip(marks)}
		for _, part := range split(l.args.kids)[1:] {
			for k := range part {
				if part[k].opens("{") {
					f.nodes, f.given = part[k].kids, true
				} else if part[k].is("=>") {
					f.nodes, f.given = part[k+1:], true
					break
				}
			}
		}
		if l.name == "describe" {
			for _, d := range u.declarations(f.nodes) {
				u.pest(d.nodes, marks)
			}
			continue
		}
		an := &analysis{scope: u.scope}
		for k := range c.links[1:] {
			x := &c.links[k+1]
			m := mark{kind: skipMark, line: x.line, text: "->" + x.name + "()", canon: x.name}
			switch x.name {
			case "skip", "skipOnWindows", "skipOnMac", "skipOnLinux", "skipOnPhp":
				if strings.HasPrefix(x.name, "skipOn") {
					m.cond = byPlatform
				} else if parts := split(x.arguments()); len(parts) > 0 && parts[0][0].kind != text {
					m.cond = an.classify(parts[0])
					if lambda(parts[0], php) {
						m.cond = byProbe
					}
				}
				if m.cond != never {
					f.marks = append(f.marks, m)
				}
			case "todo":
				m.kind = todoMark
				f.marks = append(f.marks, m)
			case "only":
				m.kind = focusMark
				f.marks = append(f.marks, m)
			case "fails":
				m.kind = failMark
				f.marks = append(f.marks, m)
			case "repeat2":
			case "group":
				for _, v := range literals(x.arguments()) {
					f.marks = append(f.marks, mark{kind: tagMark, line: x.line, text: "->group()", canon: strings.Trim(v, `"`)})
				}
			case "with":
				f.tables = append(f.tables, tables(x.arguments())...)
			case "throws":
				f.nodes = append(slices.Clip(f.nodes), node{kind: ident, s: "expectException", line: x.line, nl: true}, *x.args)
			}
		}
		if l.name == "todo" {
			f.marks = append(f.marks, mark{kind: todoMark, line: c.line, text: "todo()", canon: "todo"})
		}
		u.functions = append(u.functions, f)
	}
}
