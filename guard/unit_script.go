package guard

import (
	"slices"
	"strings"
)

var makers = []string{"it", "test", "specify", "describe", "context", "suite", "fit", "xit", "ftest", "xtest", "xspecify", "fdescribe", "xdescribe", "fcontext", "xcontext", "Scenario", "Feature"}

func isMaker(name string) bool { return oneOf(name, makers...) }

// aliasOf says that an expression is a function that makes tests: it.skip,
// it['only'], cond ? it : it.skip.
func (u *unit) aliasOf(value []node) (alias, bool) {
	value = unparen(value)
	for k := range value {
		if value[k].is("?") {
			al := alias{}
			found := false
			for _, part := range cutAt(value[k+1:], ":") {
				x, ok := u.aliasOf(part)
				if !ok {
					continue
				}
				found = true
				al.base = x.base
				al.mods = append(al.mods, x.mods...)
			}
			if found && len(al.mods) > 0 {
				an := &analysis{scope: u.scope}
				al.cond = an.classify(value[:k])
			}
			return al, found
		}
	}
	cs := chains(u.lang, value)
	if len(cs) != 1 || cs[0].from != 0 || cs[0].end != len(value) {
		return alias{}, false
	}
	c := cs[0]
	al := alias{base: c.links[0].name}
	if x, ok := u.aliases[al.base]; ok {
		al = alias{base: x.base, mods: slices.Clone(x.mods), cond: x.cond}
	}
	if !isMaker(al.base) || u.scope.hidden[c.links[0].name] {
		return alias{}, false
	}
	for _, l := range c.links[1:] {
		if l.called() && !oneOf(l.name, "skipIf", "runIf", "bind", "extend") {
			return alias{}, false
		}
		al.mods = append(al.mods, l.name)
	}
	if c.links[0].called() {
		return alias{}, false
	}
	return al, true
}

// readScript reads the tests of JavaScript and TypeScript.
func (u *unit) readScript() {
	u.scriptFunctions(u.src.nodes, nil, 0)
	if !u.support && !u.isTest {
		// A file that calls the functions of a test framework is a test, but
		// nothing else is.
		if !slices.ContainsFunc(u.modules, func(m string) bool {
			return oneOf(m, "vitest", "node:test", "@jest/globals", "bun:test", "@playwright/test", "ava", "tape", "tap")
		}) {
			return
		}
	}
	u.scriptTests(u.src.nodes, nil, nil, nil, 0)
}

// scriptFunctions notes the functions that are declared, for helpers and for
// what is defined.
func (u *unit) scriptFunctions(nodes []node, owner []string, depth int) {
	if depth > 3 {
		return
	}
	for k := 0; k < len(nodes); k++ {
		n := &nodes[k]
		if n.kind != ident {
			continue
		}
		switch {
		case n.s == "function" && k+2 < len(nodes):
			j := k + 1
			if nodes[j].is("*") {
				j++
			}
			if j < len(nodes) && nodes[j].kind == ident {
				f := function{name: nodes[j].s, owner: owner, line: nodes[j].line}
				for i := j + 1; i < len(nodes) && i < j+40; i++ {
					if nodes[i].opens("(") && f.params == nil {
						f.params = nodes[i].kids
					}
					if nodes[i].opens("{") && f.params != nil || nodes[i].opens("{") && nodes[i-1].opens("(") {
						f.nodes, f.given = nodes[i].kids, true
						k = i
						break
					}
				}
				u.functions = append(u.functions, f)
			}
		case n.s == "class" && k+1 < len(nodes) && nodes[k+1].kind == ident:
			info := classInfo{name: nodes[k+1].s, line: n.line}
			for i := k + 2; i < len(nodes) && i < k+30; i++ {
				if nodes[i].kind == ident && nodes[i].s != "extends" {
					info.supers = append(info.supers, nodes[i].s)
				}
				if nodes[i].opens("{") {
					u.types[info.name] = info
					u.scriptMethods(nodes[i].kids, append(slices.Clip(owner), info.name))
					k = i
					break
				}
			}
		case oneOf(n.s, "const", "let", "var") && k+3 < len(nodes) && nodes[k+1].kind == ident:
			// const f = (…) => …
			j := k + 2
			for j < len(nodes) && j < k+16 && !nodes[j].is("=") && !nodes[j].is(";") {
				j++
			}
			if j < len(nodes) && nodes[j].is("=") && lambda(nodes[j+1:], u.lang) {
				f := function{name: nodes[k+1].s, owner: owner, line: n.line, given: true}
				for i := j + 1; i < len(nodes) && i < j+40; i++ {
					if nodes[i].opens("(") && f.params == nil {
						f.params = nodes[i].kids
						if f.params == nil {
							f.params = []node{}
						}
					}
					if nodes[i].opens("{") && nodes[i-1].op("=>") || nodes[i].opens("{") && nodes[i-1].opens("(") {
						f.nodes = nodes[i].kids
						k = i
						break
					}
					if nodes[i].is("=>") && i+1 < len(nodes) && !nodes[i+1].opens("{") {
						p := &splitter{lang: u.lang}
						f.nodes = nodes[i+1 : p.expression(nodes, i+1)]
						break
					}
				}
				u.functions = append(u.functions, f)
			}
		case n.named("exports") || n.named("module"):
			// exports.f = function () { … }
			for j := k + 1; j+1 < len(nodes) && j < k+7; j++ {
				if nodes[j].is("=") && lambda(nodes[j+1:], u.lang) {
					f := function{name: nodes[j-1].s, owner: owner, line: n.line, given: true}
					for i := j + 1; i < len(nodes) && i < j+12; i++ {
						if nodes[i].opens("(") && f.params == nil {
							f.params = nodes[i].kids
						}
						if nodes[i].opens("{") {
							f.nodes = nodes[i].kids
							break
						}
					}
					u.functions = append(u.functions, f)
					break
				}
				if nodes[j].nl {
					break
				}
			}
		}
	}
}

func (u *unit) scriptMethods(nodes []node, owner []string) {
	for k := 1; k+1 < len(nodes); k++ {
		if nodes[k].opens("(") && nodes[k-1].kind == ident {
			j := k + 1
			for j < len(nodes) && j < k+12 && !nodes[j].opens("{") && !nodes[j].is(";") {
				j++
			}
			if j < len(nodes) && nodes[j].opens("{") {
				u.functions = append(u.functions, function{name: nodes[k-1].s, owner: owner, line: nodes[k-1].line, params: nodes[k].kids, nodes: nodes[j].kids, given: true})
				k = j
			}
		}
	}
}

// scriptTests finds the calls that make tests.
func (u *unit) scriptTests(nodes []node, owner []string, around []mark, outer [][]row, depth int) {
	if depth > 40 {
		return
	}
	loop := [][]row(nil)
	for _, c := range chains(u.lang, nodes) {
		if u.scriptChain(&c, nodes, owner, around, outer, depth) {
			continue
		}
		// What a loop makes has the rows of the loop.
		t := outer
		for k := range c.links {
			l := &c.links[k]
			if oneOf(l.name, "forEach", "map") {
				t = append(slices.Clip(outer), tables(nodes[:c.from+1])...)
				if c.from > 0 && nodes[c.from-1].is(".") && c.from > 1 {
					if r := rowsOf(&nodes[c.from-2]); r != nil {
						t = append(slices.Clip(outer), r)
					}
				}
				if v, ok := u.scope.values[c.links[0].name]; ok {
					t = append(t, tables(v)...)
				}
			}
		}
		for k := range c.links {
			if c.links[k].args != nil {
				u.inside(c.links[k].args.kids, owner, around, t, depth)
			}
		}
	}
	for k := range nodes {
		if nodes[k].named("for") && k+1 < len(nodes) && nodes[k+1].opens("(") {
			loop = tables(nodes[k+1].kids)
			for _, n := range nodes[k+1].kids {
				if v, ok := u.scope.values[n.s]; ok && n.kind == ident {
					loop = append(loop, tables(v)...)
				}
			}
		}
		if nodes[k].opens("{") && (k == 0 || !nodes[k-1].op("=>") && !nodes[k-1].op("=")) {
			g := around
			if k > 1 && nodes[k-1].opens("(") && nodes[k-2].named("if") {
				an := &analysis{scope: u.scope}
				m := mark{kind: skipMark, line: nodes[k].line, text: "if " + shorten(canonical(nodes[k-1].kids)), canon: "if " + canonical(nodes[k-1].kids), suite: true}
				switch an.truth(nodes[k-1].kids) {
				case no:
					g = append(slices.Clip(around), m)
				case unknown:
					m.cond = an.classify(nodes[k-1].kids)
					g = append(slices.Clip(around), m)
				case yes:
				}
			}
			// The bodies of functions belong to those who call them.
			if k > 1 && nodes[k-1].opens("(") && (nodes[k-2].kind == ident && !oneOf(nodes[k-2].s, "if", "for", "while", "function")) {
				continue
			}
			u.scriptTests(nodes[k].kids, owner, g, append(slices.Clip(outer), loop...), depth+1)
		}
	}
}

// inside looks into the functions among arguments.
func (u *unit) inside(args []node, owner []string, around []mark, outer [][]row, depth int) {
	for _, part := range split(args) {
		if !lambda(part, u.lang) {
			continue
		}
		for k := range part {
			if part[k].opens("{") {
				u.scriptTests(part[k].kids, owner, around, outer, depth+1)
			} else if part[k].is("=>") && k+1 < len(part) && !part[k+1].opens("{") {
				u.scriptTests(part[k+1:], owner, around, outer, depth+1)
				break
			}
		}
	}
}

// scriptChain reads one chain as a test or a group of tests.
func (u *unit) scriptChain(c *chain, nodes []node, owner []string, around []mark, outer [][]row, depth int) bool {
	base := c.links[0].name
	var mods []string
	cond := always
	fn := -1 // the link that is called with the title
	links := c.links
	if c.head != nil { // (process.env.CI ? it.skip : it)('title', …)
		al, ok := u.aliasOf(c.head.kids)
		if !ok {
			return false
		}
		base, mods, cond = al.base, al.mods, al.cond
		links = links[1:]
		if len(c.links) > 0 && c.links[0].args != nil {
			links = c.links
		}
	}
	if al, ok := u.aliases[base]; ok {
		base, cond = al.base, al.cond
		mods = append(mods, al.mods...)
	}
	if base == "QUnit" || base == "Deno" || base == "t" || base == "bun" || base == "tap" || base == "jest" {
		if len(links) < 2 || !isMaker(links[1].name) || base == "t" && depth == 0 && !links[1].called() {
			return false
		}
		base, links = links[1].name, links[1:]
	}
	if maker, ok := u.makerOf(base); ok && !isMaker(base) {
		return u.made(c, maker, owner, around, outer)
	}
	if oneOf(base, scriptHooks...) || len(links) > 1 && oneOf(base, "test", "it") && oneOf(links[1].name, scriptHooks...) {
		return u.scriptHook(c, owner)
	}
	if !isMaker(base) || u.scope.hidden[base] && c.head == nil {
		return false
	}
	var marks []mark
	each := outer
	for k := range links {
		l := &links[k]
		if k > 0 || c.head != nil {
			if l.name != "" {
				mods = append(mods, l.name)
			}
		}
		args := split(l.arguments())
		an := &analysis{scope: u.scope}
		switch l.name {
		case "skipIf", "runIf", "if", "ifCondition":
			if len(args) > 0 {
				m := mark{kind: skipMark, line: l.line, text: base + "." + l.name + "(" + shorten(canonical(args[0])) + ")", canon: l.name + canonical(args[0])}
				switch t := an.truth(args[0]); {
				case t == unknown:
					m.cond = an.classify(args[0])
				case (t == yes) != (l.name == "skipIf"):
					m.cond = never
				}
				if m.cond != never {
					marks = append(marks, m)
				}
			}
			continue
		case "each", "for":
			each = append(slices.Clip(outer), tables([]node{{kind: group, s: "(", kids: append([]node{{kind: group, s: "[", kids: l.arguments()}}, node{})}})...)
			if l.args != nil {
				each = append(slices.Clip(outer), tables(l.args.kids)...)
				for _, n := range l.args.kids {
					if v, ok := u.scope.values[n.s]; ok && n.kind == ident {
						each = append(each, tables(v)...)
					}
				}
			} else if k+1 < len(links) {
				continue
			}
			continue
		}
		if l.args == nil || len(args) == 0 {
			continue
		}
		fn = k
		break
	}
	// it.each`table`('title', …): the template stands between.
	if fn < 0 && c.end < len(nodes) && nodes[c.end].kind == text && slices.Contains(mods, "each") && c.end+1 < len(nodes) && nodes[c.end+1].opens("(") {
		var rows []row
		for k, l := range strings.Split(nodes[c.end].s, "\n") {
			if l = strings.TrimSpace(l); l != "" && k > 0 && strings.Contains(l, "${") {
				rows = append(rows, row{line: nodes[c.end].line + int32(k), full: l, values: literals(read(javascript, strings.NewReplacer("${", " ", "}", " ").Replace(l)).nodes)}) // lines of a file
			}
		}
		each = append(slices.Clip(outer), rows)
		links = append(slices.Clone(links), link{line: nodes[c.end+1].line, args: &nodes[c.end+1]})
		fn = len(links) - 1
	}
	if fn < 0 {
		return false
	}
	args := split(links[fn].arguments())
	title := ""
	if len(args[0]) > 0 {
		switch {
		case args[0][0].kind == text:
			title = args[0][0].s
			if len(args[0]) > 1 { // 'a' + b
				title = strings.Join(literals(args[0]), "")
			}
		case lambda(args[0], u.lang):
		default:
			title = canonical(args[0])
			if v, ok := u.scope.values[args[0][0].s]; ok && len(v) == 1 && v[0].kind == text {
				title = v[0].s
			}
		}
	}
	var code []node
	given := false
	var params []node
	for _, part := range args {
		if lambda(part, u.lang) {
			params, code, given = parts(part)
			continue
		}
		if part[0].opens("{") {
			marks = append(marks, u.options(part[0].kids, base)...)
		}
		if len(part) == 1 && part[0].kind == ident {
			for k := range u.functions {
				if f := &u.functions[k]; f.name == part[0].s && f.given && !f.test {
					params, code, given = f.params, f.nodes, true
				}
			}
		}
		// wrapped(async () => { … })
		if !given {
			for _, in := range chains(u.lang, part) {
				if in.last().args == nil {
					continue
				}
				for _, x := range split(in.last().args.kids) {
					if lambda(x, u.lang) {
						params, code, given = parts(x)
					}
				}
			}
		}
	}
	// skip(condition) and skip() inside a test are calls, not tests.
	if !given && (args[0][0].kind != text || len(args) > 2) {
		return false
	}
	if !given && oneOf(links[fn].name, "skip", "fixme", "fail", "slow", "only") && fn > 0 && depth > 0 {
		return false
	}
	if len(links) > 1 && oneOf(links[fn].name, "use", "step", "extend", "info", "setTimeout", "beforeEach", "afterEach", "beforeAll", "afterAll", "configure", "before", "after") {
		return false
	}
	if rest, ok := strings.CutPrefix(base, "x"); ok && isMaker(rest) {
		base, mods = rest, append(mods, "skip")
	}
	if rest, ok := strings.CutPrefix(base, "f"); ok && isMaker(rest) {
		base, mods = rest, append(mods, "only")
	}
	group := oneOf(base, "describe", "context", "suite", "Feature") || slices.Contains(mods, "describe")
	for _, m := range mods {
		k := mark{line: c.line, text: base + "." + m, canon: m, cond: cond}
		switch m {
		case "skip", "fixme":
			k.kind = skipMark
			if m == "fixme" {
				k.canon = "skip"
			}
		case "todo":
			k.kind = todoMark
		case "only":
			k.kind = focusMark
		case "failing", "fails", "fail":
			k.kind = failMark
		default:
			continue
		}
		marks = append(marks, k)
	}
	all := append(slices.Clip(around), marks...)
	if group {
		if given {
			u.scriptTests(code, append(slices.Clip(owner), title), suite(all), each, depth+1)
		}
		return true
	}
	if !given {
		all = append(all, mark{kind: todoMark, line: c.line, text: "a test without a body", canon: "todo"})
	}
	u.functions = append(u.functions, function{name: title, owner: owner, line: c.line, nodes: code, params: params, test: true, given: given, marks: all, tables: each})
	return true
}

var scriptHooks = []string{"before", "beforeEach", "beforeAll", "setup", "suiteSetup"}

// scriptHook reads what runs before the tests of a group.
func (u *unit) scriptHook(c *chain, owner []string) bool {
	for _, part := range split(c.last().arguments()) {
		if lambda(part, u.lang) {
			params, code, given := parts(part)
			u.functions = append(u.functions, function{name: "before", owner: owner, line: c.line, params: params, nodes: code, given: given})
			return true
		}
	}
	return false
}

// parts takes a function apart.
func parts(part []node) (params, code []node, given bool) {
	for k := range part {
		n := &part[k]
		switch {
		case n.opens("(") && params == nil:
			params = n.kids
		case n.is("=>") && k > 0 && part[k-1].kind == ident && params == nil:
			params = part[k-1 : k]
			fallthrough
		case n.is("=>"):
			if k+1 < len(part) && !part[k+1].opens("{") {
				return params, part[k+1:], true
			}
		case n.opens("{") && k > 0 && (part[k-1].is("=>") || part[k-1].opens("(") || part[k-1].kind == ident):
			return params, n.kids, true
		}
	}
	return params, nil, false
}

// options reads { skip: true, retry: 3 }.
func (u *unit) options(nodes []node, base string) []mark {
	var out []mark
	an := &analysis{scope: u.scope}
	for _, part := range split(nodes) {
		if len(part) == 0 || part[0].kind != ident && part[0].kind != text {
			continue
		}
		value := part[min(2, len(part)):]
		if len(part) == 1 {
			value = part
		}
		m := mark{line: part[0].line, text: base + " { " + shorten(canonical(part)) + " }", canon: part[0].s}
		switch part[0].s {
		case "skip", "ignore":
			m.kind = skipMark
		case "todo":
			m.kind = todoMark
		case "only":
			m.kind = focusMark
		case "fails", "failing":
			m.kind = failMark
		case "retry", "retries", "repeats":
			if part[0].s == "repeats" || len(value) == 1 && value[0].is("0") {
				continue
			}
			m.kind, m.canon = retryMark, canonical(part)
			out = append(out, m)
			continue
		case "tag", "tags":
			for _, t := range literals(value) {
				out = append(out, mark{kind: tagMark, line: m.line, text: "tag", canon: strings.Trim(t, `"`)})
			}
			continue
		default:
			continue
		}
		switch an.truth(value) {
		case no:
			continue
		case unknown:
			m.cond = an.classify(value)
			m.canon += canonical(value)
		case yes:
		}
		out = append(out, m)
	}
	return out
}

// makerOf finds a function of the file that makes one test of its arguments.
func (u *unit) makerOf(name string) (*function, bool) {
	if u.scope.hidden[name] {
		return nil, false
	}
	for k := range u.functions {
		f := &u.functions[k]
		if f.name != name || f.test || !f.given || len(f.params) == 0 {
			continue
		}
		for _, c := range chains(u.lang, f.nodes) {
			if isMaker(c.links[0].name) && len(c.links) <= 3 {
				return f, true
			}
		}
	}
	return nil, false
}

// made reads a call of such a function as the test that it makes.
func (u *unit) made(c *chain, maker *function, owner []string, around []mark, outer [][]row) bool {
	args := split(c.links[0].arguments())
	if len(args) == 0 || len(args[0]) == 0 || args[0][0].kind != text {
		return false
	}
	before := len(u.functions)
	nodes, params := maker.nodes, maker.params
	u.scriptTests(nodes, owner, around, outer, 30)
	made := u.functions[before:]
	title := split(params)
	for k := range made {
		f := &made[k]
		f.line = c.line
		if len(title) > 0 && (f.name == canonical(title[0]) || f.name == "") {
			f.name = args[0][0].s
		}
		// What is handed over stands for the parameters.
		for j, p := range title {
			if j < len(args) && len(p) > 0 && p[0].kind == ident {
				if lambda(args[j], u.lang) {
					_, code, _ := parts(args[j])
					f.nodes = append(slices.Clip(f.nodes), code...)
					continue
				}
				f.nodes = append([]node{{kind: ident, s: "const", line: f.line, nl: true}, {kind: ident, s: p[0].s, line: f.line}, {kind: punct, s: "=", line: f.line}, {kind: group, s: "(", kids: args[j], line: f.line}, {kind: punct, s: ";"}}, f.nodes...)
			}
		}
	}
	return len(made) > 0
}
