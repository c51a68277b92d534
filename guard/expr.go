package guard

import (
	"slices"
	"strings"
	"unicode"
)

// link is one name of a chain, with what it is called with.
type link struct {
	name string
	line int32
	args *node // the parentheses, or nil if it is not called
	// block is a closure behind the call: { … } or do … end.
	block *node
	// bare are the arguments of a call without parentheses.
	bare  []node
	index *node // brackets: it['skip']
	macro bool
}

func (l *link) arguments() []node {
	if l.args != nil {
		return l.args.kids
	}
	return l.bare
}

func (l *link) called() bool { return l.args != nil || l.block != nil || len(l.bare) > 0 }

// chain is a.b(c).d as its links. from and end are its nodes.
type chain struct {
	links     []link
	from, end int
	line      int32
	// head is the group that begins it, if it does not begin with a name.
	head *node
}

func (c *chain) last() *link { return &c.links[len(c.links)-1] }

// names returns the links as a.b.c.
func (c *chain) names() string {
	parts := make([]string, len(c.links))
	for k := range c.links {
		parts[k] = c.links[k].name
	}
	return strings.Join(parts, ".")
}

var notCalls = map[string]bool{
	"if": true, "for": true, "while": true, "switch": true, "return": true, "else": true, "and": true, "or": true, "not": true, "in": true, "is": true,
	"await": true, "new": true, "throw": true, "raise": true, "try": true, "try!": true, "case": true, "when": true, "match": true, "typeof": true, "yield": true, "lambda": true,
	"var": true, "let": true, "const": true, "val": true, "mut": true, "do": true, "function": true, "func": true, "fun": true, "fn": true, "async": true, "void": true, "defer": true, "go": true, "def": true,
	"from": true, "import": true, "as": true, "instanceof": true, "unless": true, "until": true, "rescue": true, "elsif": true, "then": true, "end": true, "begin": true, "out": true, "ref": true, "delete": true, "range": true,
}

// chains finds the chains of one level of nodes.
func chains(lang language, nodes []node) []chain {
	var out []chain
	trailing := oneOf(string(lang), string(kotlin), string(swift), string(ruby), string(groovy))
	for k := 0; k < len(nodes); {
		n := &nodes[k]
		var c chain
		switch {
		case n.kind == ident && !notCalls[n.s]:
			c = chain{from: k, line: n.line, links: []link{{name: n.s, line: n.line}}}
		case n.opens("(") && k+1 < len(nodes) && (nodes[k+1].op(".", "?.", "->") || nodes[k+1].opens("(") && !nodes[k+1].nl):
			c = chain{from: k, line: n.line, head: n, links: []link{{line: n.line}}}
		default:
			k++
			continue
		}
		k++
		for k < len(nodes) {
			n := &nodes[k]
			last := c.last()
			switch {
			case n.opens("(") && last.args == nil && last.block == nil && !(n.nl && lang != java && lang != csharp && lang != php && lang != rust && k > c.from+1 && lang != ruby) && !(lang == ruby && nodes[k-1].end < n.pos):
				last.args = n
				k++
			case n.opens("(") && last.called() && !n.nl && lang != ruby:
				c.links = append(c.links, link{line: n.line, args: n})
				k++
			case n.opens("[") && !n.nl && (lang != ruby || nodes[k-1].end == n.pos):
				if last.index == nil && !last.called() && len(n.kids) == 1 && n.kids[0].kind == text {
					c.links = append(c.links, link{name: n.kids[0].s, line: n.line})
				} else {
					last.index = n
				}
				k++
			case n.op("!") && lang == rust && k+1 < len(nodes) && nodes[k+1].kind == group && last.args == nil:
				last.args, last.macro = &nodes[k+1], true
				k += 2
			case n.op("!", "!!") && (lang == swift || lang == typescript || lang == kotlin) && k+1 < len(nodes) && nodes[k+1].op(".", "?."):
				k++
			case n.op("?") && (lang == rust || lang == swift) && k+1 < len(nodes) && nodes[k+1].op("."):
				k++
			case n.op(".", "?.", "::", "->", "&.") && k+1 < len(nodes) && nodes[k+1].kind == ident && !(n.s == "->" && lang != php):
				c.links = append(c.links, link{name: nodes[k+1].s, line: nodes[k+1].line})
				k += 2
			case n.op("::") && lang == rust && k+1 < len(nodes) && nodes[k+1].op("<"):
				// The turbofish.
				j := k + 1
				for j < len(nodes) && !nodes[j].op(">", ">>") {
					j++
				}
				k = min(j+1, len(nodes))
			case n.op("<") && oneOf(string(lang), string(java), string(kotlin), string(csharp), string(typescript), string(swift)) && typeArguments(nodes, k) > 0:
				k = typeArguments(nodes, k)
			case n.opens("{") && trailing && last.block == nil && !n.nl:
				last.block = n
				k++
			case n.opens("{") && trailing && lang == ruby && last.block == nil && !n.nl:
				last.block = n
				k++
			default:
				goto done
			}
		}
	done:
		c.end = k
		// Ruby: a call without parentheses takes the rest of the line.
		if lang == ruby && k < len(nodes) && !c.last().called() && nodes[k].end > nodes[k].pos && command(nodes, k) {
			last := c.last()
			j := k
			for j < len(nodes) && !nodes[j].is(";") {
				if nodes[j].kind == ident && oneOf(nodes[j].s, "if", "unless", "and", "or") {
					break
				}
				if nodes[j].opens("{") && j+1 == len(nodes) {
					last.block = &nodes[j]
					break
				}
				j++
			}
			last.bare = nodes[k:j]
			if last.block != nil {
				j++
			}
			k = j
			c.end = k
		}
		out = append(out, c)
	}
	return out
}

// command says that what follows a name at k is its argument.
func command(nodes []node, k int) bool {
	n := &nodes[k]
	if nodes[k-1].end == n.pos && n.kind != text {
		return false
	}
	switch n.kind {
	case ident:
		return !oneOf(n.s, "if", "unless", "while", "until", "and", "or", "do", "then", "in", "rescue")
	case text, number:
		return true
	case group:
		return n.s == "[" || n.s == "("
	case punct:
		return oneOf(n.s, "->", "-", ":", "&", "*", "**", "::") && k+1 < len(nodes) && nodes[k+1].pos == n.end
	default:
		return false
	}
}

// typeArguments returns the place behind <T, U>( at k, or 0.
func typeArguments(nodes []node, k int) int {
	depth := 0
	for j := k; j < len(nodes) && j < k+24; j++ {
		switch {
		case nodes[j].is("<"):
			depth++
		case nodes[j].is(">"):
			depth--
		case nodes[j].is(">>"):
			depth -= 2
		case nodes[j].kind == ident, nodes[j].op(",", ".", "?", "::", "&", ":", "|"), nodes[j].opens("["):
		default:
			return 0
		}
		if depth <= 0 {
			if j+1 < len(nodes) && nodes[j+1].kind == group {
				return j + 1
			}
			return 0
		}
	}
	return 0
}

// use notes names and literals without looking for checks.
func (a *analysis) use(nodes []node) {
	walk(nodes, func(n *node) {
		switch n.kind {
		case ident:
			a.names[n.s] = true
		case number, text:
			a.note(n)
		default:
		}
	})
}

func (a *analysis) note(n *node) {
	if len(a.lits) < 2000 {
		if n.kind == text {
			a.lits = append(a.lits, `"`+n.s+`"`)
		} else {
			a.lits = append(a.lits, n.s)
		}
	}
}

// bind notes the names that a header binds.
func (a *analysis) bind(nodes []node) {
	for _, n := range nodes {
		if n.named("in") || n.named("of") || n.is(":") || n.is(":=") || n.named("range") {
			return
		}
		if n.kind == ident && !oneOf(n.s, "var", "let", "const", "val", "final", "as", "mut") {
			a.params[n.s] = true
		}
		if n.kind == group {
			a.bind(n.kids)
		}
	}
}

// assign notes name = value.
func (a *analysis) assign(nodes []node, p place) {
	for k := range nodes {
		n := &nodes[k]
		if !n.op("=", ":=") {
			if n.op("+=", "-=", "++", "--", "||=", "*=") && k > 0 && nodes[k-1].kind == ident {
				a.twice[nodes[k-1].s] = true
			}
			if n.kind == group && n.s != "(" && n.s != "[" || n.op("=>", "->") {
				return
			}
			continue
		}
		if k == 0 {
			return
		}
		// The name is the last word of the left side, before its type.
		left, value := nodes[:k], nodes[k+1:]
		name, count := "", 0
		for j := range left {
			if left[j].is(":") {
				break
			}
			if left[j].is(",") {
				count++
			}
			if left[j].op(".", "->") || left[j].opens("[") && j == len(left)-1 {
				return
			}
			if left[j].kind == ident {
				name = left[j].s
			}
		}
		if name == "" {
			return
		}
		if count > 0 || left[len(left)-1].kind == group {
			walk(left, func(n *node) {
				if n.kind == ident {
					a.params[n.s] = true
				}
			})
			return
		}
		if _, ok := a.assigned[name]; ok {
			a.twice[name] = true
			return
		}
		a.assigned[name] = value
		a.rows(value)
		// A local function.
		if lambda(value, a.lang) {
			a.lambdas[name] = nodes[k].line
		}
		return
	}
}

// lambda says that nodes are a function.
func lambda(nodes []node, lang language) bool {
	if len(nodes) == 0 {
		return false
	}
	if nodes[0].named("lambda") || nodes[0].named("function") || nodes[0].named("func") && lang == golang || nodes[0].named("fn") || nodes[0].named("proc") || nodes[0].named("move") && lang == rust || nodes[0].is("|") && lang == rust || nodes[0].is("->") && lang == ruby {
		return true
	}
	if nodes[0].named("async") && len(nodes) > 1 {
		return lambda(nodes[1:], lang) || nodes[1].opens("(")
	}
	if nodes[0].opens("{") && (lang == kotlin || lang == swift) {
		return true
	}
	if lang == typescript && nodes[0].opens("(") && len(nodes) > 2 && nodes[1].is(":") || lang == typescript && nodes[0].is("<") {
		for k := 1; k < len(nodes) && k < 24; k++ {
			if nodes[k].is("=>") {
				return true
			}
		}
		return false
	}
	return len(nodes) > 1 && (nodes[0].opens("(") || nodes[0].kind == ident) && nodes[1].op("=>", "->") && lang != php
}

var voids = []string{"requireNonNull", "print", "println", "log", "debug", "info", "warn", "len", "str", "repr", "type", "id", "typeof", "assertNotNull", "checkNotNull", "is_callable", "callable"}

// later are functions that call what they are given when the test is over.
var later = []string{"setTimeout", "setInterval", "setImmediate", "nextTick", "queueMicrotask", "requestAnimationFrame", "requestIdleCallback", "asyncAfter", "Timer", "AfterFunc", "postDelayed", "after_exit", "at_exit", "atexit", "addShutdownHook", "register_shutdown_function", "call_later", "call_soon", "schedule", "scheduledTimer"}

// expression looks at a statement that is an expression. It reports that the
// test ends there.
func (a *analysis) expression(s *stmt, p place) (ends bool) {
	nodes := s.head
	if len(nodes) == 0 {
		return false
	}
	first := nodes[0]
	switch {
	case first.named("assert") && (a.lang == python || a.lang == java || a.lang == groovy):
		a.asserted(nodes[1:], first.line, p)
		return false
	case first.named("defer") && a.lang == golang:
		a.deferred(nodes[1:], p)
		return false
	case first.named("go") && a.lang == golang:
		// Failures in a goroutine count while the test runs; most wait for it.
		a.expr(nodes[1:], p)
		return false
	}
	if name := void(nodes, a.lang); name {
		p.held = false
		a.expr(nodes, p)
		return false
	}
	a.assign(nodes, p)
	if a.clockPatch(nodes) {
		a.clock = first.line
	}
	a.infix(nodes, p)
	// x = () => { … } runs only if x is called.
	if name, value := lambdaOf(nodes, a.lang); name != "" {
		from := len(a.checks)
		q := p
		q.failIf = nil
		a.expr(value, q)
		for k := from; k < len(a.checks); k++ {
			a.pending[k] = name
		}
		return false
	}
	if first.named("await") || first.is("->") {
		p.held = true
	}
	return a.expr(nodes, p)
}

func void(nodes []node, lang language) bool {
	return lang.script() && nodes[0].named("void") || lang == golang && len(nodes) > 1 && nodes[0].named("_") && nodes[1].is("=")
}

// lambdaOf returns the name and the value of name = function.
func lambdaOf(nodes []node, lang language) (string, []node) {
	for k := range nodes {
		if nodes[k].op("=", ":=") && k > 0 {
			name := ""
			for _, n := range nodes[:k] {
				if n.is(":") {
					break
				}
				if n.is(".") || n.is("->") {
					return "", nil
				}
				if n.kind == ident {
					name = n.s
				}
			}
			if lambda(nodes[k+1:], lang) {
				// Called at once: (() => { … })() is no name.
				if last := nodes[len(nodes)-1]; last.opens("(") && len(nodes) > k+3 && nodes[len(nodes)-2].opens("{") {
					return "", nil
				}
				return name, nodes[k+1:]
			}
			return "", nil
		}
		if nodes[k].kind == group && nodes[k].s == "{" {
			return "", nil
		}
	}
	return "", nil
}

// asserted reads what follows the word assert.
func (a *analysis) asserted(nodes []node, line int32, p place) {
	cut := len(nodes)
	for k := range nodes {
		if nodes[k].is(",") && a.lang == python || nodes[k].is(":") && a.lang == java {
			cut = k
			break
		}
	}
	cond := nodes[:cut]
	a.use(cond)
	a.callsIn(cond, p)
	p.failIf = nil
	// assert (x, "message") is always true.
	if a.lang == python && len(cond) == 1 && cond[0].opens("(") && len(split(cond[0].kids)) > 1 {
		a.add(check{line: line, matcher: "true", strength: vacuous}, p)
		return
	}
	a.condition(cond, false, line, p)
}

// callsIn notes the calls in an expression that is asserted.
func (a *analysis) callsIn(nodes []node, p place) {
	for _, c := range chains(a.lang, nodes) {
		for k := range c.links {
			if c.links[k].called() {
				a.call(&c.links[k])
				a.callsIn(c.links[k].arguments(), p)
			}
		}
	}
	for k := range nodes {
		if nodes[k].kind == group {
			a.callsIn(nodes[k].kids, p)
		}
	}
}

func (a *analysis) call(l *link) {
	if l.name != "" && len(a.calls) < 4000 {
		a.calls = append(a.calls, l.name)
	}
}

// deferred looks at what runs when the test is left. A recover that fails if
// there was nothing is a check; one that does nothing swallows.
func (a *analysis) deferred(nodes []node, p place) {
	if mentions(nodes, "recover") {
		before := len(a.checks)
		a.expr(nodes, p)
		if len(a.checks) == before {
			// What fails with a panic is lost; t.Fatal is not.
			a.add(check{line: nodes[0].line, matcher: "recover", strength: vacuous}, p)
		}
		return
	}
	a.expr(nodes, p)
}

// infix finds a shouldBe b.
func (a *analysis) infix(nodes []node, p place) {
	if a.lang != kotlin && a.lang != ruby {
		return
	}
	for k := range nodes {
		n := &nodes[k]
		if n.kind != ident || k == 0 || k+1 >= len(nodes) || nodes[k-1].is(".") || !strings.HasPrefix(n.s, "should") && !(a.lang == ruby && (strings.HasPrefix(n.s, "must_") || strings.HasPrefix(n.s, "wont_"))) {
			continue
		}
		c := check{line: n.line, neg: strings.Contains(strings.ToLower(n.s), "not") || strings.HasPrefix(n.s, "wont")}
		a.matcher(&c, n.s, nodes[:k], split(nodes[k+1:]), p)
		a.add(c, p)
		return
	}
}

// expr looks at an expression: its calls, its closures and its checks.
func (a *analysis) expr(nodes []node, p place) (ends bool) {
	p.depth++
	if p.depth > maxDepth {
		return false
	}
	a.level(nodes)
	covered := make([]bool, len(nodes))
	cs := chains(a.lang, nodes)
	for k := range cs {
		c := &cs[k]
		for j := c.from; j < c.end; j++ {
			covered[j] = true
		}
		q := p
		if c.from > 0 && (nodes[c.from-1].named("await") || nodes[c.from-1].named("return")) || a.lang == rust || a.lang == python && c.from > 0 && nodes[c.from-1].named("yield") {
			q.held = true
		}
		if c.from > 0 && nodes[c.from-1].named("void") {
			q.held = false
		}
		if a.lang == swift && c.from > 0 && nodes[c.from-1].op("#") {
			c.links[0].name = "#" + c.links[0].name
		}
		if a.chain(c, nodes, q) {
			ends = true
		}
	}
	for k := range nodes {
		if nodes[k].kind != group || covered[k] {
			continue
		}
		if nodes[k].s == "{" && a.isCode(nodes, k) {
			q := p
			if lambda(nodes, a.lang) || k > 0 && (nodes[k-1].op("=>", "->") || nodes[k-1].opens("(")) {
				q.failIf = nil
			}
			a.block(statements(a.lang, closureBody(a.lang, nodes[k].kids, a)), q)
		} else {
			a.expr(nodes[k].kids, p)
		}
	}
	return ends
}

func (a *analysis) level(nodes []node) {
	for k := range nodes {
		switch n := &nodes[k]; n.kind {
		case ident:
			a.names[n.s] = true
		case number, text:
			a.note(n)
		default:
		}
	}
}

// isCode says that the braces at k hold statements, not data.
func (a *analysis) isCode(nodes []node, k int) bool {
	kids := nodes[k].kids
	if len(kids) == 0 {
		return false
	}
	switch a.lang {
	case python:
		return nodes[k].nl
	case ruby:
		return k > 0 && !(len(kids) > 1 && (kids[1].is("=>") || kids[1].is(":")))
	case golang:
		if k == 0 {
			return true
		}
		for j := k - 1; j >= 0 && j > k-12; j-- {
			if nodes[j].named("func") {
				return true
			}
			if nodes[j].is(",") || nodes[j].op("=", ":=") {
				return false
			}
		}
		return false
	case javascript, typescript:
		if k > 0 && (nodes[k-1].is("=>") || nodes[k-1].opens("(")) {
			return true
		}
		return false
	default:
		if k > 0 && nodes[k-1].op("=>", "->", "|") || k > 0 && nodes[k-1].opens("(") {
			return true
		}
		return a.lang == kotlin || a.lang == swift || a.lang == rust && k > 0 && !(nodes[k-1].kind == ident && unicode.IsUpper([]rune(nodes[k-1].s + "x")[0]))
	}
}

// closureBody cuts the parameters off a closure, which the test binds.
func closureBody(lang language, kids []node, a *analysis) []node {
	cut := 0
	switch lang {
	case kotlin, groovy:
		for k := 0; k < len(kids) && k < 24; k++ {
			if kids[k].is("->") {
				cut = k + 1
				break
			}
			if kids[k].kind == group && kids[k].s == "{" || kids[k].nl && k > 0 {
				break
			}
		}
	case swift:
		for k := 0; k < len(kids) && k < 24; k++ {
			if kids[k].named("in") {
				cut = k + 1
				break
			}
			if kids[k].nl && k > 0 {
				break
			}
		}
	case ruby:
		if len(kids) > 1 && kids[0].is("|") {
			for k := 1; k < len(kids); k++ {
				if kids[k].is("|") {
					cut = k + 1
					break
				}
			}
		}
	default:
	}
	if a != nil {
		for _, n := range kids[:cut] {
			if n.kind == ident {
				a.params[n.s] = true
			}
		}
	}
	return kids[cut:]
}

// chain looks at one chain: what it is, and what is in its arguments.
func (a *analysis) chain(c *chain, nodes []node, p place) (ends bool) {
	for k := range c.links {
		if c.links[k].called() {
			a.call(&c.links[k])
		}
		a.names[c.links[k].name] = true
		if c.links[k].name != "" && c.links[k].called() {
			a.used[c.links[k].name] = true
		}
	}
	// A function handed on is called, unless all know that it is not.
	for k := range c.links {
		if oneOf(c.links[k].name, voids...) || oneOf(c.links[k].name, later...) {
			continue
		}
		for _, n := range c.links[k].arguments() {
			if n.kind == ident {
				a.used[n.s] = true
			}
		}
	}
	if len(c.links) > 1 && oneOf(c.last().name, "run", "call", "get", "invoke", "execute", "start", "accept", "apply", "Invoke", "test", "exec") {
		a.used[c.links[0].name] = true
	}
	a.mocked(c)
	a.ending(c)
	if m, rest, ok := a.skipCall(c, nodes); ok {
		if m.kind == failMark || m.kind == retryMark {
			m.call = true
			a.marks = append(a.marks, m)
		} else {
			a.skip(m, p)
		}
		for k := range c.links {
			a.inner(c, k, p)
		}
		return rest && m.cond == always && len(p.failIf) == 0
	}
	if isFail(a.lang, c) && !a.hidden[c.links[0].name] {
		a.failed(c.line, p)
		return oneOf(c.last().name, "Fatal", "Fatalf", "FailNow", "fatalError")
	}
	done := a.assertion(c, nodes, p)
	swallow := a.swallows(c, p)
	for k := range c.links {
		q := p
		if swallow != "" && k < len(c.links)-1 {
			q = q.with(swallow, c.line)
		}
		a.inner(c, k, q)
	}
	if c.head != nil {
		a.expr(c.head.kids, p)
	}
	_ = done
	return false
}

// swallows says that the end of a chain takes away the failure of what stands
// before it: .catch(() => {}), runCatching { … }.
func (a *analysis) swallows(c *chain, p place) string {
	for k := 1; k < len(c.links); k++ {
		l := &c.links[k]
		if l.name == "catch" && l.args != nil && a.lang.script() {
			if len(l.args.kids) == 0 {
				continue
			}
			h := handler{}
			if lambda(l.args.kids, a.lang) {
				kids := l.args.kids
				h.body = statements(a.lang, kids[1:])
				for j := range kids {
					if kids[j].opens("{") {
						h.body = statements(a.lang, kids[j].kids)
					}
				}
				if !a.reacts(h, &stmt{}) {
					return "swallowed-exception"
				}
			} else if len(l.args.kids) == 1 && mentions(l.args.kids, "noop") {
				return "swallowed-exception"
			}
		}
	}
	return ""
}

// inner looks at the arguments and the closure of one link.
func (a *analysis) inner(c *chain, k int, p place) {
	l := &c.links[k]
	q := p
	q.failIf = nil
	name := l.name
	switch {
	case oneOf(name, "runCatching", "catch_unwind"):
		kept := k+1 < len(c.links) && oneOf(c.links[k+1].name, "getOrThrow", "unwrap", "onFailure", "isSuccess", "exceptionOrNull", "isFailure", "getOrElse")
		if !kept && !p.held {
			q = q.with("swallowed-exception", l.line)
		}
	case oneOf(name, "XCTExpectFailure", "withKnownIssue"):
		q = q.with("expected-failure", l.line)
	case name == "suppress" && (a.lang == ruby || a.lang == python):
		q = q.with("swallowed-exception", l.line)
	case oneOf(name, later...) && !callsBack(l.arguments()):
		q = q.with("detached-assertion", l.line)
	case name == "then" && a.lang.script() && !p.held && !callsBack(l.arguments()) && k > 0:
		q = q.with("detached-assertion", l.line)
	case oneOf(name, "Run", "run", "subTest", "test", "step", "it", "context", "describe", "assert_in_group") && len(l.arguments()) > 0 && l.arguments()[0].kind == text:
		if q.sub != "" {
			q.sub += "/"
		}
		q.sub += l.arguments()[0].s
	}
	args := l.arguments()
	if len(args) > 0 {
		for _, part := range split(args) {
			if lambda(part, a.lang) {
				r := q
				r.held = false
				a.lambda(part, r)
				continue
			}
			a.expr(part, q)
		}
	}
	if l.block != nil {
		a.block(statements(a.lang, closureBody(a.lang, l.block.kids, a)), q)
	}
	if l.index != nil {
		a.expr(l.index.kids, q)
	}
}

// lambda looks into a function that is an argument.
func (a *analysis) lambda(nodes []node, p place) {
	for k := range nodes {
		n := &nodes[k]
		if n.opens("{") && (a.lang != python) {
			a.block(statements(a.lang, closureBody(a.lang, n.kids, a)), p)
			return
		}
		if n.op("=>", "->") && k+1 < len(nodes) && !nodes[k+1].opens("{") && !(a.lang == ruby) {
			a.bindAll(nodes[:k])
			rest := nodes[k+1:]
			p.held = true // its value is given back
			s := statements(a.lang, rest)
			a.block(s, p)
			return
		}
		if n.named("lambda") || n.is(":") && a.lang == python {
			continue
		}
		if n.opens("(") {
			a.bindAll(n.kids)
		}
	}
	a.expr(nodes, p)
}

func (a *analysis) bindAll(nodes []node) {
	walk(nodes, func(n *node) {
		if n.kind == ident {
			a.params[n.s] = true
		}
	})
}

// callsBack says that code tells the runner that it is done.
func callsBack(nodes []node) bool {
	found := false
	walk(nodes, func(n *node) {
		found = found || n.kind == ident && oneOf(n.s, "done", "resolve", "reject", "next", "cb", "callback", "end", "fulfill", "countDown", "fulfil")
	})
	return found
}

var failNames = map[string]bool{
	"fail": true, "Fail": true, "flunk": true, "XCTFail": true, "fatalError": true, "unreachable": true, "todo": false,
}

// isFail says that a call fails the test, whatever it is given.
func isFail(lang language, c *chain) bool {
	l := c.last()
	first := c.links[0].name
	switch lang {
	case golang:
		if oneOf(l.name, "Fatal", "Fatalf", "Error", "Errorf", "Fail", "FailNow", "Failf") && len(c.links) >= 2 && l.args != nil {
			r := c.links[len(c.links)-2].name
			return testingNames[r] || oneOf(r, "assert", "require", "T") && strings.HasPrefix(l.name, "Fail") || len(c.links) == 2 && testingLike(first)
		}
		return len(c.links) == 1 && oneOf(first, "panic", "Fail") && l.args != nil || first == "log" && strings.HasPrefix(l.name, "Fatal")
	case python:
		return l.name == "fail" && l.args != nil && len(c.links) <= 2
	case rust:
		return l.macro && oneOf(l.name, "panic", "unreachable", "bail")
	case swift:
		return l.name == "XCTFail" || first == "Issue" && l.name == "record" || l.name == "fatalError" || l.name == "fail" && len(c.links) <= 1
	case ruby:
		return oneOf(l.name, "flunk", "fail") && len(c.links) == 1
	case javascript, typescript:
		if l.args == nil {
			return false
		}
		return l.name == "fail" && (len(c.links) == 1 || oneOf(first, "assert", "expect", "t", "chai", "should", "test"))
	default:
		return failNames[l.name] && l.args != nil && len(c.links) <= 2
	}
}

var testingNames = map[string]bool{"t": true, "tt": true, "tb": true, "b": true, "f": true, "tc": true, "st": true, "c": true, "testingT": true, "s": true, "suite": true, "T": true, "GinkgoT": true}

func testingLike(name string) bool {
	return testingNames[name] || strings.HasSuffix(name, "T") && len(name) < 4
}

// assertion records the check that a chain is, if it is one.
func (a *analysis) assertion(c *chain, nodes []node, p place) bool {
	q := p
	q.failIf = nil
	if a.hidden[c.links[0].name] && c.head == nil {
		return false
	}
	// expect(x).toBe(y), x.should.equal(y), x.Should().Be(y)
	for k := range c.links {
		l := &c.links[k]
		lower := plain(l.name)
		switch {
		case k == 0 && oneOf(l.name, "expect", "expectTypeOf", "assertThat", "expectThat", "verifyThat", "is_expected", "assertType", "assertThatThrownBy", "assertThatCode", "#expect", "#require", "expectThrows"),
			k == 1 && oneOf(l.name, "expect", "assertThat", "assertThatThrownBy", "assertThatCode", "That") && oneOf(c.links[0].name, "chai", "jest", "Assertions", "Truth", "Assert", "test", "t", "this", "MatcherAssert", "AssertionsForClassTypes"):
			if l.name == "#expect" || l.name == "#require" {
				a.hash(l, q)
				return true
			}
			if k == 0 && l.name == "expect" && l.args == nil && l.block == nil && a.lang != ruby {
				if len(c.links) > 1 && c.links[1].called() { // expect.assertions(2)
					return false
				}
				return false
			}
			a.expects(c, k, nodes, q)
			return true
		case k > 0 && (lower == "should" || lower == "shouldnot" || lower == "expect" && l.args != nil): //nolint:misspell // the name of an assertion
			if lower == "expect" && a.lang.script() {
				// A request that is checked: each link is one check.
				ch := check{line: l.line, matcher: "response", strength: exact, want: literals(l.arguments()), expected: canonical(a.strip(l.arguments())), names: []string{"expect"}}
				if len(c.links[0].arguments()) > 0 || k > 1 {
					ch.actual = requested(c, k)
				}
				if len(split(l.arguments())) == 1 && lambda(l.arguments(), a.lang) {
					ch.expected, ch.want, ch.matcher = "", nil, "response with"
				}
				a.add(ch, q)
				continue
			}
			if lower == "expect" {
				return false
			}
			a.shoulds(c, k, q)
			return true
		case k > 0 && strings.HasPrefix(l.name, "Should") && a.lang == csharp || k > 0 && (strings.HasPrefix(l.name, "should") && len(l.name) > 6) || k > 0 && a.lang == ruby && (strings.HasPrefix(l.name, "must_") || strings.HasPrefix(l.name, "wont_")):
			ch := check{line: l.line, neg: strings.Contains(lower, "not") || strings.HasPrefix(lower, "wont")}
			a.matcher(&ch, l.name, before(nodes, c, k), split(l.arguments()), q)
			a.add(ch, q)
			return true
		}
	}
	l := c.last()
	first := c.links[0].name
	name := l.name
	// A matcher that is a property does not check anything if it is called one.
	if !l.called() {
		return false
	}
	switch {
	case a.lang == golang:
		return a.assertGo(c, q)
	case name == "assert" && (a.lang == rust || a.lang == kotlin || a.lang == swift || a.lang == php || a.lang == ruby || a.lang == csharp || a.lang.script() && first != "console"):
		parts := split(l.arguments())
		if len(parts) == 0 {
			return false
		}
		cond := parts[0]
		a.condition(cond, false, l.line, q)
		return true
	case first == "console" && a.lang.script():
		return false
	case a.lang == rust && l.macro && strings.HasPrefix(strings.TrimPrefix(name, "debug_"), "assert"), a.lang == rust && l.macro && strings.HasPrefix(name, "prop_assert"):
		parts := split(l.arguments())
		if strings.HasSuffix(name, "assert") && len(parts) > 0 {
			a.condition(parts[0], false, l.line, q)
			return true
		}
		ch := check{line: l.line}
		if len(parts) > 2 && !strings.Contains(name, "matches") && !strings.Contains(name, "delta") && !strings.Contains(name, "approx") {
			parts = parts[:2]
		}
		a.two(&ch, name, parts, q)
		a.add(ch, q)
		return true
	case a.lang == rust && oneOf(name, "unwrap", "expect", "unwrap_err", "expect_err"):
		return false
	case a.asserting(c):
		ch := check{line: l.line}
		parts := split(l.arguments())
		if l.block != nil && len(parts) == 0 {
			parts = [][]node{{*l.block}}
		}
		a.two(&ch, name, parts, q)
		if len(c.links) > 1 && oneOf(plain(first), "verify", "thenverify") || oneOf(plain(name), "verify") {
			ch.matcher, ch.strength = "call", exact
		}
		if len(c.links) > 1 && strings.HasPrefix(name, "assert_") && !oneOf(first, "self", "np", "numpy", "testing", "pd", "torch", "mock") && a.lang == python {
			// mock.assert_called_once_with(x)
			ch.matcher, ch.actual = "call "+strings.TrimPrefix(name, "assert_"), canonical(a.strip(nodes[c.from:max(c.end-1, c.from)]))
			ch.strength = exact
			ch.want = literals(l.arguments())
			ch.expected = canonical(a.strip(l.arguments()))
		}
		a.add(ch, q)
		return true
	case first == "verify" && len(c.links) > 1 && (a.lang == java || a.lang == kotlin):
		ch := check{line: l.line, matcher: "call", strength: exact, actual: c.names(), expected: canonical(a.strip(l.arguments())), want: literals(l.arguments()), names: identifiers(l.arguments())}
		ch.expected += canonical(c.links[0].arguments())
		a.add(ch, q)
		return true
	case a.helpers[name] && (len(c.links) == 1 || oneOf(first, "self", "this", "$this", "super", "helpers", "Self") || len(c.links) == 2) || a.helpers[name]:
		ch := check{line: l.line, matcher: "helper " + name, strength: exact, expected: canonical(a.strip(l.arguments())), names: append(identifiers(l.arguments()), name)}
		ch.want, ch.give = expectedArguments(l.arguments())
		a.add(ch, q)
		return true
	}
	return false
}

// expectedArguments parts the literals that a helper is handed: those inside
// calls are input, the others may be what it compares with.
func expectedArguments(nodes []node) (want, give []string) {
	for k := range nodes {
		n := &nodes[k]
		if n.opens("(") && k > 0 && nodes[k-1].kind == ident {
			give = append(give, literals(n.kids)...)
		} else if n.kind == group {
			w, g := expectedArguments(n.kids)
			want, give = append(want, w...), append(give, g...)
		} else {
			want = append(want, literals(nodes[k:k+1])...)
		}
	}
	return want, give
}

// requested writes the request that a chain checks.
func requested(c *chain, k int) string {
	var parts []string
	for j := 0; j < k; j++ {
		if c.links[j].name != "expect" {
			parts = append(parts, c.links[j].name+strings.Join(literals(c.links[j].arguments()), " "))
		}
	}
	return strings.Join(parts, ".")
}

func before(nodes []node, c *chain, k int) []node {
	// The nodes of the links before k.
	end := c.from
	for j, n := 0, c.from; n < c.end; n++ {
		if nodes[n].kind == ident {
			if j == k {
				break
			}
			j++
		}
		end = n
	}
	return nodes[c.from:max(end, c.from)]
}

// hash reads #expect(cond) of Swift.
func (a *analysis) hash(l *link, p place) {
	parts := split(l.arguments())
	if len(parts) == 0 {
		return
	}
	if len(parts[0]) > 1 && parts[0][0].named("throws") {
		c := check{line: l.line, matcher: "raises", strength: exact, expected: canonical(parts[0])}
		if mentions(parts[0], "Error") {
			c.strength = loose
		}
		a.add(c, p)
		return
	}
	a.condition(parts[0], false, l.line, p)
}

// asserting says that a call is an assertion by its name.
func (a *analysis) asserting(c *chain) bool {
	l := c.last()
	first := c.links[0].name
	lower := strings.ToLower(l.name)
	switch {
	case strings.HasPrefix(lower, "assert") && (len(lower) == 6 || !unicode.IsLower([]rune(l.name)[6]) || strings.HasPrefix(lower, "asserts")):
		return len(lower) > 6
	case strings.HasPrefix(l.name, "XCTAssert"), l.name == "XCTUnwrap":
		return true
	case a.lang == ruby && strings.HasPrefix(l.name, "refute"):
		return true
	case oneOf(first, "assert", "Assert", "Assertions", "assertions", "StringAssert", "CollectionAssert", "should", "verify", "Verify", "FileAssert", "Approvals", "MultiAssert") && len(c.links) > 1:
		return len(c.links) == 2 || oneOf(c.links[1].name, "strict", "deep", "not")
	case first == "t" && a.lang.script() && len(c.links) >= 2 && oneOf(c.links[1].name, "assert", "is", "not", "deepEqual", "equal", "ok", "notOk", "true", "false", "throws", "throwsAsync", "same", "match", "like", "regex", "truthy", "falsy", "strictSame", "notEqual", "error", "rejects", "resolves", "plan", "notThrows", "notThrowsAsync", "snapshot", "matchSnapshot", "equals", "strictEqual", "isDeepEqual", "deepEquals", "hasProp", "has", "type"):
		return l.name != "plan"
	case oneOf(l.name, "expectException", "expectExceptionMessage", "expectExceptionMessageMatches", "expectExceptionCode", "expectOutputString", "expectExceptionObject"):
		return true
	case oneOf(l.name, "shouldThrow", "shouldNotThrow", "shouldThrowAny", "shouldThrowExactly", "verify", "coVerify", "confirmVerified", "verifyNoMoreInteractions", "verifyNoInteractions", "verifyOrder", "verifySequence", "expectThrows") && len(c.links) == 1:
		return true
	case oneOf(l.name, "check", "require", "checkNotNull", "requireNotNull") && len(c.links) == 1 && a.lang == kotlin:
		return true
	case oneOf(l.name, "Verify", "VerifyAll", "VerifyNoOtherCalls", "Received", "DidNotReceive", "MustHaveHappened") && a.lang == csharp:
		return true
	case oneOf(l.name, "deepEqual", "deepStrictEqual", "strictEqual", "notStrictEqual", "equal", "rejects", "throws", "doesNotThrow", "ok", "match", "doesNotMatch") && len(c.links) == 1 && a.lang.script() && !a.hidden[l.name]:
		return true
	}
	return false
}

// assertGo finds the checks of testify, gomega, quicktest and of helpers that
// take the test.
func (a *analysis) assertGo(c *chain, p place) bool {
	l := c.last()
	first := c.links[0].name
	if l.args == nil {
		return false
	}
	parts := split(l.args.kids)
	isT := func(part []node) bool {
		return len(part) == 1 && testingLike(part[0].s) || len(part) == 4 && part[len(part)-2].named("T")
	}
	switch {
	case (oneOf(first, "assert", "require", "is", "qt", "must", "check") || oneOf(c.links[max(len(c.links)-2, 0)].name, "Assert", "Require", "require", "assert")) && len(c.links) > 1 && !oneOf(l.name, "New", "Run", "Helper"):
		if len(parts) > 0 && isT(parts[0]) {
			parts = parts[1:]
		}
		ch := check{line: l.line}
		a.two(&ch, l.name, parts, p)
		a.add(ch, p)
		return true
	case first == "Expect" || first == "Eventually" || first == "Consistently" || first == "Ω":
		if len(c.links) < 2 || !c.links[0].called() {
			return false
		}
		ch := check{line: l.line, neg: oneOf(l.name, "ToNot", "NotTo", "ShouldNot")}
		if len(parts) > 0 {
			inner := chains(golang, parts[0])
			if len(inner) > 0 {
				a.matcher(&ch, inner[0].last().name, c.links[0].arguments(), split(inner[0].last().arguments()), p)
				a.add(ch, p)
				return true
			}
		}
		ch.matcher, ch.strength = "helper "+l.name, exact
		a.add(ch, p)
		return true
	case oneOf(l.name, "Assert", "Check") && len(c.links) == 2 && testingLike(first):
		ch := check{line: l.line}
		if len(parts) > 1 {
			a.matcher(&ch, canonical(parts[1]), parts[0], parts[2:], p)
		}
		a.add(ch, p)
		return true
	case oneOf(l.name, "Run", "Helper", "Log", "Logf", "Parallel", "Cleanup", "TempDir", "Setenv", "Name", "New", "NewController", "WithT", "Context") && (testingLike(first) || first != ""):
		return false
	case a.helpers[l.name] || len(parts) > 0 && isT(parts[0]) && len(c.links) <= 2:
		low := strings.ToLower(l.name)
		if !a.helpers[l.name] && (strings.HasPrefix(low, "new") || strings.HasPrefix(low, "setup") || strings.HasPrefix(low, "make") || strings.HasPrefix(low, "start") || strings.HasPrefix(low, "temp") || strings.HasPrefix(low, "create")) {
			return false
		}
		rest := l.args.kids
		if len(parts) > 0 && isT(parts[0]) {
			rest = rest[min(len(parts[0])+1, len(rest)):]
		}
		ch := check{line: l.line, matcher: "helper " + l.name, strength: exact, expected: canonical(a.strip(rest)), names: append(identifiers(rest), l.name)}
		ch.want, ch.give = expectedArguments(rest)
		a.add(ch, p)
		return true
	}
	return false
}

// expects reads expect(x).not.toBe(y) from the link that is expect.
func (a *analysis) expects(c *chain, k int, nodes []node, p place) {
	l := &c.links[k]
	ch := check{line: l.line}
	args := split(l.arguments())
	actual := []node{}
	if len(args) > 0 {
		actual = args[0]
	}
	if l.block != nil {
		actual = append(actual[:len(actual):len(actual)], *l.block)
	}
	var deferred bool
	rest := c.links[k+1:]
	// assertThat(x, is(y)) and Assert.That(x, Is.EqualTo(y))
	if len(args) > 1 && (a.lang == java || a.lang == kotlin || a.lang == csharp || a.lang == php) && len(rest) == 0 {
		parts := args[1:]
		if args[0][0].kind == text && len(args) > 2 {
			actual, parts = args[1], args[2:]
		}
		in := chains(a.lang, parts[0])
		if len(in) == 0 {
			a.two(&ch, l.name, args, p)
			a.add(ch, p)
			return
		}
		m := in[0]
		for oneOf(m.last().name, "is", "not") && len(chains(a.lang, m.last().arguments())) == 1 && m.last().args != nil {
			if m.last().name == "not" {
				ch.neg = !ch.neg
			}
			next := chains(a.lang, m.last().arguments())[0]
			if !next.last().called() {
				break
			}
			m = next
		}
		name := m.last().name
		if !m.last().called() && len(m.links) > 1 { // Is.True, Is.Not.Null
			name = m.last().name
		}
		for _, x := range m.links {
			if x.name == "Not" {
				ch.neg = !ch.neg
			}
		}
		if oneOf(name, "Within") && len(m.links) > 1 {
			ch.tolerance = strings.Join(literals(m.last().arguments()), " ")
			m.links = m.links[:len(m.links)-1]
			name = m.last().name
		}
		a.matcher(&ch, name, actual, split(m.last().arguments()), p)
		a.add(ch, p)
		return
	}
	// Ruby: expect(x).to eq(y); the matcher is the argument.
	if a.lang == ruby {
		if l.name == "is_expected" {
			actual = []node{{kind: ident, s: "subject"}}
		}
		if len(rest) == 0 {
			ch.matcher, ch.strength = "none", vacuous
			a.side(&ch, actual, true)
			a.add(ch, p)
			return
		}
		to := rest[0]
		ch.neg = oneOf(to.name, "not_to", "to_not")
		margs := to.arguments()
		in := chains(a.lang, margs)
		switch {
		case len(in) > 0:
			m := in[0]
			last := m.links[0]
			params := last.arguments()
			if !last.called() && m.end < len(margs) {
				params = margs[m.end:]
			}
			if len(m.links) > 1 && oneOf(last.name, "be") {
				last = m.links[1]
			}
			if last.name == "be" && len(params) == 0 && m.end < len(margs) {
				params = margs[m.end:]
			}
			if oneOf(last.name, "be_within") && len(m.links) > 1 {
				ch.tolerance = strings.Join(literals(last.arguments()), " ")
				params = m.last().arguments()
			}
			a.matcher(&ch, last.name, actual, split(params), p)
		case to.called() || to.block != nil:
			ch.matcher, ch.strength = "true", predicate
			a.side(&ch, actual, true)
		default:
			ch.matcher, ch.strength = "none", vacuous
		}
		a.add(ch, p)
		return
	}
	matcher := -1
	for j := range rest {
		switch x := rest[j]; {
		case oneOf(x.name, "not", "isNot", "never"):
			ch.neg = !ch.neg
		case oneOf(x.name, "resolves", "rejects"):
			deferred = true
			if x.name == "rejects" {
				ch.actual = "rejects "
			}
		case oneOf(x.name, "catch", "then", "finally"):
		case oneOf(x.name, "to", "be", "been", "is", "that", "which", "and", "has", "have", "with", "at", "of", "same", "but", "does", "still", "also", "deep", "nested", "own", "a", "an", "as", "describedAs", "extracting", "usingRecursiveComparison", "poll", "soft", "because") && !(j == len(rest)-1 && (x.called() || oneOf(x.name, "empty"))):
		default:
			matcher = j
			// What stands first and is called decides; a refinement follows.
			if x.called() {
				goto found
			}
		}
	}
found:
	if l.name == "assertThatThrownBy" || l.name == "assertThatCode" {
		ch.matcher, ch.strength = "raises", partial
		for _, x := range rest {
			if oneOf(x.name, "isInstanceOf", "isExactlyInstanceOf") {
				ch.strength = exact
				ch.expected = canonical(x.arguments())
				if broad(x.arguments()) {
					ch.strength = loose
				}
			}
			if strings.HasPrefix(x.name, "hasMessage") {
				ch.want = append(ch.want, literals(x.arguments())...)
			}
		}
		a.add(ch, p)
		return
	}
	if matcher < 0 {
		ch.matcher, ch.strength = "none", vacuous
		a.side(&ch, actual, true)
		if len(rest) > 0 && oneOf(rest[len(rest)-1].name, "a", "an") {
			ch.strength = loose
		}
		a.add(ch, p)
		return
	}
	m := &rest[matcher]
	prefix := ch.actual
	ch.actual = ""
	a.matcher(&ch, m.name, actual, split(m.arguments()), p)
	ch.actual = prefix + ch.actual
	// A matcher that must be called and is not.
	if !m.called() && a.lang.script() && strings.HasPrefix(m.name, "to") && len(m.name) > 2 && unicode.IsUpper(rune(m.name[2])) {
		ch.strength = vacuous
	}
	if !m.called() && a.lang.script() && oneOf(m.name, "equal", "equals", "eql", "include", "contain", "throw", "match", "lengthOf", "property", "above", "below", "instanceof") {
		ch.strength = vacuous
	}
	if deferred && !p.held && ch.dead == "" {
		ch.dead, ch.deadLine = "detached-assertion", l.line
	}
	a.add(ch, p)
}

// shoulds reads x.should.equal(y) and x.Should().Be(y).
func (a *analysis) shoulds(c *chain, k int, p place) {
	l := &c.links[k]
	ch := check{line: l.line, neg: plain(l.name) == "shouldnot"} //nolint:misspell // the name of an assertion
	actual := strings.Join(func() []string {
		var parts []string
		for j := 0; j < k; j++ {
			parts = append(parts, c.links[j].name)
			if len(c.links[j].arguments()) > 0 {
				parts = append(parts, canonical(a.strip(c.links[j].arguments())))
				ch.give = append(ch.give, literals(c.links[j].arguments())...)
			}
		}
		return parts
	}(), " ")
	m := link{}
	for j := k + 1; j < len(c.links); j++ {
		x := c.links[j]
		if oneOf(x.name, "not", "Not") {
			ch.neg = !ch.neg
			continue
		}
		if oneOf(x.name, "be", "have", "a", "an", "And", "Which", "deep") && !x.called() && j < len(c.links)-1 {
			continue
		}
		m = x
		break
	}
	if m.name == "" && len(l.arguments()) > 0 { // x.should eq(1)
		if in := chains(a.lang, l.arguments()); len(in) > 0 {
			m = in[0].links[0]
		}
	}
	if m.name == "" {
		ch.matcher, ch.strength = "none", vacuous
	} else {
		give := ch.give
		a.matcher(&ch, m.name, nil, split(m.arguments()), p)
		ch.give = give
	}
	ch.actual = actual
	for j := 0; j < k; j++ {
		ch.names = append(ch.names, c.links[j].name)
	}
	a.add(ch, p)
}

// two reads an assertion with both sides as arguments: assertEquals(a, b).
func (a *analysis) two(c *check, name string, parts [][]node, p place) {
	low := plain(name)
	for _, cut := range []string{"xctassert", "propassert", "debugassert", "assert", "refute"} {
		if rest, ok := strings.CutPrefix(low, cut); ok {
			if cut == "refute" {
				c.neg = !c.neg
			}
			low = rest
			break
		}
	}
	low = strings.TrimSuffix(low, "f")
	if strings.HasPrefix(low, "not") && !strings.HasPrefix(low, "nothing") && !oneOf(low, "note", "notify") {
		c.neg = !c.neg
		low = low[3:]
	}
	if rest, ok := strings.CutPrefix(low, "isnot"); ok {
		c.neg = !c.neg
		low = "is" + rest
	}
	unary := oneOf(low, "true", "false", "istrue", "isfalse", "nil", "null", "isnull", "isnone", "isnil", "empty", "isempty", "ok", "noerror", "error", "truthy", "falsy", "", "defined", "exists", "zero", "isdefined", "predicate")
	if unary {
		if len(parts) > 1 && (len(parts[0]) == 1 && parts[0][0].kind == text && oneOf(low, "true", "false", "null", "nil") && parts[1][0].kind != text) {
			parts = parts[1:] // the message stands first in JUnit 4
		}
		if len(parts) > 1 {
			parts = parts[:1]
		}
		a.matcher(c, low, first(parts), nil, p)
		return
	}
	if oneOf(low, "throws", "raises", "doesnotthrow", "throwserror", "nothrow", "throwsexactly", "throwsexception", "catch", "panics", "panicswithvalue", "expectthrows", "throwsasync", "rejects", "throwsany", "nothingraised", "raise", "failswith", "haserror", "iserror", "erroris", "errorcontains", "errorf", "raisesregex", "raisesregexp", "raisemessage", "expectexception", "expectexceptionmessage") || oneOf(plain(name), "shouldthrow", "shouldthrowexactly", "shouldthrowany", "expectexception", "expectexceptionmessage", "expectexceptionmessagematches") {
		c.matcher = "raises"
		if strings.Contains(low, "nothrow") || strings.Contains(low, "doesnotthrow") || low == "nothingraised" {
			c.neg = !c.neg
		}
		c.strength = exact
		var kept [][]node
		for _, part := range parts {
			if lambda(part, a.lang) || part[0].opens("{") {
				c.give = append(c.give, literals(part)...)
				continue
			}
			kept = append(kept, part)
		}
		for k, part := range kept {
			if broad(part) {
				c.strength = loose
			}
			if k == 0 {
				c.expected = canonical(part)
			}
			c.want = append(c.want, literals(part)...)
		}
		if len(kept) == 0 {
			c.strength = partial
		}
		for _, part := range parts {
			c.names = append(c.names, identifiers(part)...)
		}
		if c.neg {
			c.strength = loose
		}
		return
	}
	// A third argument is a tolerance or a message.
	if len(parts) == 3 {
		if len(parts[0]) == 1 && parts[0][0].kind == text && parts[2][0].kind != text && !tolerance(low, parts[2]) && (a.lang == java) {
			parts = parts[1:]
		} else if tolerance(low, parts[2]) {
			c.tolerance = strings.Join(literals(parts[2]), " ")
			if c.tolerance == "" {
				if v, ok := a.numeric(unparen(parts[2])); ok {
					c.tolerance = v
				}
			}
			parts = parts[:2]
		} else if oneOf(low, "equal", "equals", "same", "eq", "ne", "contains", "greater", "less", "len", "is", "in", "match", "includes", "strictequal", "deepequal") {
			parts = parts[:2]
		}
	}
	if len(parts) < 2 {
		a.matcher(c, low, first(parts), nil, p)
		return
	}
	x, y := parts[0], parts[1]
	for len(x) > 2 && x[0].kind == ident && x[1].is(":") && a.lang == swift {
		x = x[2:]
	}
	// Which of the two is expected: what is fixed.
	if a.fixed(y) && !a.fixed(x) || oneOf(low, "contains", "match", "matches", "regexp", "len", "is", "isinstance", "in", "includes", "greater", "less", "greaterthan", "lessthan", "greaterorequal", "lessequal", "greaterequal", "isinstanceof") && !a.fixed(x) {
		a.matcher(c, low, x, append([][]node{y}, parts[2:]...), p)
		return
	}
	if hasCallIn(y) && !hasCallIn(x) && !a.fixed(y) && len(parts) == 2 {
		a.matcher(c, low, y, [][]node{x}, p)
		return
	}
	if oneOf(low, "instanceof", "istype", "contains", "stringcontainsstring", "matchesregularexpression", "arrayhaskey", "count", "regex") || a.fixed(x) {
		a.matcher(c, low, y, append([][]node{x}, parts[2:]...), p)
		return
	}
	a.matcher(c, low, x, append([][]node{y}, parts[2:]...), p)
}

func tolerance(name string, part []node) bool {
	if oneOf(name, "indelta", "withindelta", "equalwithaccuracy", "equalsdelta", "almostequal", "inepsilon", "within", "equalswithdelta") {
		return true
	}
	if len(part) > 1 && part[0].kind == ident && part[1].op(":", "=") {
		return oneOf(part[0].s, "accuracy", "delta", "places", "tol", "tolerance", "msg") && part[0].s != "msg"
	}
	return len(part) == 1 && part[0].kind == number && (strings.ContainsAny(part[0].s, ".e") || strings.HasPrefix(name, "equal"))
}

func first(parts [][]node) []node {
	if len(parts) == 0 {
		return nil
	}
	return parts[0]
}

// matcher fills in a check by the name of its matcher.
func (a *analysis) matcher(c *check, name string, actual []node, args [][]node, _ place) {
	low := plain(name)
	for _, cut := range []string{"shouldnot", "should", "to", "must", "wont", "is", "be", "has", "have"} { //nolint:misspell // the name of an assertion
		if rest, ok := strings.CutPrefix(low, cut); ok && rest != "" && !oneOf(low, "isin", "isolate", "tostring", "total", "isinstance", "isinstanceof", "best") {
			low = rest
			if cut == "is" || cut == "be" {
				break
			}
		}
	}
	if rest, ok := strings.CutPrefix(low, "not"); ok && rest != "" && !strings.HasPrefix(low, "nothing") && !oneOf(low, "note") {
		if !c.neg || !strings.Contains(plain(name), "shouldnot") { //nolint:misspell // the name of an assertion
			c.neg = !c.neg
		}
		low = rest
	}
	low = strings.TrimPrefix(low, "be")
	switch {
	case len(args) == 0 && oneOf(low, "true", "istrue", "ok", "truthy", "", "predicate", "betruthy"):
		if oneOf(low, "truthy", "ok") {
			low = "truthy"
		}
		kept := *c
		if len(actual) > 0 {
			*c = a.compare(unparen(actual), false)
			if kept.neg {
				c.neg = !c.neg
			}
			c.line = kept.line
			c.tolerance = kept.tolerance
			if low == "truthy" && c.matcher == "true" && c.strength == predicate {
				c.strength = loose
				c.matcher = "truthy"
			}
		} else {
			c.matcher, c.strength = "true", predicate
		}
		return
	case len(args) == 0 && oneOf(low, "false", "falsy", "falsey", "isfalse"):
		kept := *c
		if len(actual) > 0 {
			*c = a.compare(unparen(actual), true)
			if kept.neg {
				c.neg = !c.neg
			}
			c.line = kept.line
		} else {
			c.matcher, c.strength = "true", predicate
			c.neg = !c.neg
		}
		return
	}
	a.side(c, actual, true)
	for _, part := range args {
		if lambda(part, a.lang) {
			continue
		}
		if c.expected != "" {
			c.expected += " , "
		}
		before := c.expected
		a.side(c, part, false)
		c.expected = before + c.expected
	}
	switch low {
	case "equal", "equals", "eq", "eql", "isequal", "equalto", "same", "sameas", "", "identical", "identicalto", "deepequal", "strictequal", "deepstrictequal", "strictsame", "is", "exactly", "equalvalues", "jsoneq", "yamleq", "equalcanonicalizing", "equaljson", "listequal", "dictequal", "setequal", "tupleequal", "multilineequal", "countequal", "arrayequal", "arrayequals", "iterableequals", "linesmatch", "sequenceequal", "deepequals", "equalignoringcase", "equivalentto", "equivalent", "elementsmatch", "containsexactly", "containsexactlyinanyorder", "text", "value", "url", "title", "html", "exacterror", "eqlines", "samebeanas", "diff", "stringequalsfile", "jsonstringequalsjsonstring", "xmlstringequalsxmlstring", "hastext", "havetext", "textcontent":
		c.matcher, c.strength = "eq", exact
		if c.neg {
			c.strength = loose
		}
		if len(args) == 1 && len(args[0]) == 3 && args[0][0].named("Boolean") {
			args = [][]node{args[0][2:]}
		}
		if len(args) == 1 && len(args[0]) == 1 && args[0][0].kind == ident {
			switch strings.ToLower(args[0][0].s) {
			case "true", "false":
				neg := c.neg != strings.EqualFold(args[0][0].s, "false")
				c.matcher, c.strength, c.neg, c.want, c.expected = "true", predicate, neg, nil, ""
				if a.constant(actual) {
					c.strength = vacuous
				}
				return
			case "nil", "null", "none", "undefined":
				c.matcher, c.strength, c.expected = "nil", exact, ""
				if c.neg {
					c.strength = loose
				}
				if a.constant(actual) {
					c.strength = vacuous
				}
				return
			}
		}
		if len(args) >= 1 && len(actual) > 0 && (canonical(unparen(actual)) == canonical(unparen(args[0])) && !c.neg || a.constant(actual) && a.constant(args[0])) {
			c.strength = vacuous
		}
	case "nil", "null", "none", "undefined", "isnil", "isnull", "isnone":
		c.matcher, c.strength = "nil", exact
		if c.neg {
			c.strength = loose
		}
		if len(actual) > 0 && a.constant(actual) {
			c.strength = vacuous
		}
	case "empty", "zero", "isempty", "blank", "nan", "notcalled", "length0":
		c.matcher, c.strength = low, exact
		if c.neg {
			c.strength = loose
		}
	case "noerror", "success", "succeed", "issuccess":
		c.matcher, c.strength = "raises", loose
		c.neg = true
	case "error", "occurred", "haveoccurred", "failure":
		c.matcher, c.strength = "raises", partial
		if low == "haveoccurred" || low == "occurred" {
			c.strength = loose
		}
	case "truthy", "ok":
		c.matcher, c.strength = "truthy", loose
	case "defined", "exist", "exists", "present", "any":
		c.matcher, c.strength = "nil", loose
		c.neg = !c.neg
	case "instanceof", "a", "an", "kindof", "akindof", "aninstanceof", "instance", "typeof", "isinstance", "isinstanceof", "istype", "oftype", "implements", "assignableto", "type", "respondto", "function", "object", "array", "string", "number", "iterable", "isa", "exactinstanceof", "assignablefrom":
		c.matcher, c.strength = "type", loose
	case "contain", "contains", "include", "includes", "containtext", "containstext", "match", "matches", "regexp", "matchobject", "containequal", "startwith", "startswith", "endwith", "endswith", "containsentry", "containskey", "property", "haveproperty", "keys", "members", "like", "subset", "in", "oneof", "partial", "stringcontainsstring", "matchesregularexpression", "arrayhaskey", "hasproperty", "key", "havekey", "regex", "hassubstring", "inlist", "containsstring", "arraycontaining", "objectcontaining", "hasitem", "hasitems", "hasentry", "hassubset", "rematch", "doesnotcontain", "doesnotmatch", "dictcontainssubset", "containselement", "containsubstring", "haveattribute", "attribute", "class", "haveclass", "objecthasattribute", "containsonly":
		if oneOf(low, "doesnotcontain", "doesnotmatch") {
			c.neg = !c.neg
		}
		c.matcher, c.strength = "contains", partial
		if len(args) > 0 && both(args[0]) {
			c.strength = vacuous
		}
	case "length", "lengthof", "size", "len", "count", "hassize", "havesize", "havelength", "havelengthof", "haslength", "hascount", "havecount":
		c.matcher, c.strength = "length", exact
	case "closeto", "almostequal", "indelta", "within", "approximately", "inepsilon", "withindelta", "equalwithaccuracy", "equalswithdelta", "plusorminus", "approx", "equalsdelta", "becloseto", "beapproximately":
		c.matcher, c.strength = "eq", partial
		if len(args) > 1 {
			c.tolerance = strings.Join(literals(args[1]), " ")
			c.want = literals(args[0])
			c.expected = canonical(a.strip(args[0]))
		} else if low == "closeto" {
			c.tolerance = "2"
		}
		// toBeCloseTo counts digits: fewer are looser.
		if plain(name) == "tobecloseto" && c.tolerance != "" {
			c.tolerance = "1e-" + c.tolerance
		}
	case "greater", "greaterthan", "less", "lessthan", "greaterorequal", "lessorequal", "greaterthanorequal", "lessthanorequal", "above", "below", "atleast", "atmost", "greaterequal", "lessequal", "greaterthanorequalto", "lessthanorequalto", "positive", "negative", "between", "gt", "lt", "ge", "le", "gte", "lte":
		c.matcher, c.strength = "compare", partial
		c.expected = low + " " + c.expected
		if len(args) > 0 && canonical(args[0]) == "0" && strings.Contains(low, "equal") && strings.Contains(low, "great") && (mentions(actual, "length", "size", "len", "count")) {
			c.strength = vacuous
		}
	case "throw", "throws", "throwerror", "raise", "raiseerror", "raises", "throwexactly", "reject", "rejected", "rejectedwith", "panic", "haveraised":
		c.matcher, c.strength = "raises", exact
		if len(args) == 0 {
			c.strength = partial
		} else if broad(args[0]) {
			c.strength = loose
		}
		if c.neg {
			c.strength = loose
		}
	case "matchsnapshot", "matchinlinesnapshot", "throwerrormatchingsnapshot", "throwerrormatchinginlinesnapshot", "matchfilesnapshot", "havescreenshot", "snapshot", "matchimagesnapshot", "matchessnapshot":
		c.matcher, c.strength = "snapshot", exact
	case "havebeencalled", "called", "calledonce", "havebeencalledtimes", "calledtimes", "havebeencalledwith", "calledwith", "havebeenlastcalledwith", "havereturned", "beencalled", "beencalledwith", "beencalledtimes", "receive", "received", "havereceived", "calledoncewith", "havebeencalledoncewith", "beencalledonce", "lastcalledwith", "calledonceexactly", "calledwithexactly", "havebeencalledonce":
		c.matcher, c.strength = "call", exact
		if !strings.Contains(low, "with") && len(args) == 0 && !strings.Contains(low, "once") && !strings.Contains(low, "times") {
			c.strength = partial
		}
	case "anything", "satisfyany":
		c.matcher, c.strength = "truthy", vacuous
	default:
		c.matcher, c.strength = low, exact
		if len(args) == 0 {
			c.strength = predicate
		}
	}
	if c.strength > vacuous && len(actual) > 0 && a.constant(actual) && len(args) > 0 && a.constant(args[0]) && c.matcher != "raises" {
		c.strength = vacuous
	}
}

// rows notes the tables in an expression.
func (a *analysis) rows(nodes []node) {
	if t := tables(nodes); len(t) > 0 {
		a.tables = append(a.tables, t...)
	}
}

// row is one line of a table.
type row struct {
	line   int32
	full   string
	values []string
	name   string // its first string
}

// tables finds lists of rows in nodes.
func tables(nodes []node) [][]row {
	var out [][]row
	var look func(nodes []node, depth int)
	look = func(nodes []node, depth int) {
		for k := range nodes {
			n := &nodes[k]
			if n.kind != group {
				continue
			}
			index := n.s == "[" && k > 0 && nodes[k-1].end == n.pos && (nodes[k-1].kind == ident || nodes[k-1].kind == group)
			if t := rowsOf(n); len(t) > 0 && !index {
				out = append(out, t)
				continue
			}
			if depth < 6 {
				look(n.kids, depth+1)
			}
		}
	}
	look(nodes, 0)
	return out
}

// rowsOf reads a bracket as a table, if all its elements hold literals.
func rowsOf(n *node) []row {
	if n.s == "(" && !(len(n.kids) > 0 && n.kids[0].kind == group) {
		return nil
	}
	for k := range n.kids {
		if n.kids[k].is(";") || n.kids[k].kind == ident && notCalls[n.kids[k].s] && !oneOf(n.kids[k].s, "new", "lambda", "not", "async", "function", "func", "fn") {
			return nil
		}
	}
	parts := split(n.kids)
	// A value of a structure is no table: its parts have names.
	if n.s == "{" && len(parts) > 0 && len(parts[0]) > 1 && parts[0][0].kind == ident && parts[0][1].op(":", "=") {
		return nil
	}
	var out []row
	for _, part := range parts {
		v := literals(part)
		if len(v) == 0 && len(part) > 0 && !mentions(part, "nil", "null", "None", "undefined") {
			if part[0].is("...") || part[0].is("*") {
				continue
			}
			if len(part) == 1 && part[0].kind == ident {
				v = []string{part[0].s}
			} else {
				return nil
			}
		}
		r := row{line: part[0].line, full: canonical(part), values: v}
		for _, s := range v {
			if strings.HasPrefix(s, `"`) {
				r.name = strings.Trim(s, `"`)
				break
			}
		}
		out = append(out, r)
	}
	return out
}

var clocks = []string{"perf_counter", "monotonic", "process_time", "perf_counter_ns", "monotonic_ns", "now", "time", "hrtime", "performance", "nanoTime", "currentTimeMillis", "time_ns", "clock_gettime"}

// clockPatch says that nodes replace a clock: time.perf_counter = lambda: 0.
func (a *analysis) clockPatch(nodes []node) bool {
	for k := range nodes {
		if nodes[k].is("=") && k >= 3 && nodes[k-2].is(".") && nodes[k-1].kind == ident && oneOf(nodes[k-1].s, clocks...) && oneOf(nodes[k-3].s, "time", "performance", "Date", "process", "timeit", "Process") {
			return true
		}
	}
	for _, c := range chains(a.lang, nodes) {
		l := c.last()
		if oneOf(l.name, "setattr", "patch", "spyOn", "defineProperty", "object", "stub", "allow") && l.args != nil {
			s := canonical(l.args.kids)
			for _, clock := range clocks[:6] {
				if strings.Contains(s, clock) {
					return true
				}
			}
			if strings.Contains(s, `"time.time"`) || strings.Contains(s, "performance") && strings.Contains(s, "now") {
				return true
			}
		}
	}
	return false
}

// mocked notes what a chain replaces by a stand-in.
func (a *analysis) mocked(c *chain) {
	l := c.last()
	name := l.name
	first := c.links[0].name
	args := split(l.arguments())
	add := func(target, module string) {
		a.mocks = append(a.mocks, mock{target: target, module: module, line: c.line})
	}
	lastPart := func(s string) string { return s[strings.LastIndexByte(s, '.')+1:] }
	for k := range c.links {
		x := &c.links[k]
		xs := split(x.arguments())
		switch {
		case a.lang == python && oneOf(x.name, "patch", "object", "setattr", "spy") && len(xs) > 0:
			if x.name == "patch" || len(xs[0]) == 1 && xs[0][0].kind == text {
				if xs[0][0].kind == text {
					add(lastPart(xs[0][0].s), xs[0][0].s)
				}
			} else if len(xs) > 1 && xs[1][0].kind == text {
				add(xs[1][0].s, canonical(xs[0]))
			}
		case a.lang.script() && oneOf(x.name, "mock", "doMock", "unstable_mockModule", "module") && k > 0 && oneOf(c.links[k-1].name, "jest", "vi", "mock", "td") && len(xs) > 0 && len(xs[0]) > 0 && xs[0][0].kind == text:
			add("", xs[0][0].s)
		case a.lang.script() && oneOf(x.name, "spyOn", "stub", "method") && len(xs) > 1 && len(xs[1]) > 0 && xs[1][0].kind == text && k < len(c.links)-1:
			add(xs[1][0].s, canonical(xs[0]))
		}
	}
	switch {
	case (a.lang == java || a.lang == kotlin) && oneOf(first, "when", "doReturn", "given", "every") && len(c.links[0].arguments()) > 0:
		for _, in := range chains(a.lang, c.links[0].arguments()) {
			if len(in.links) > 1 {
				add(in.last().name, in.links[0].name)
			}
		}
	case (a.lang == java || a.lang == kotlin) && oneOf(name, "mock", "mockk", "mockStatic", "spy", "mockkObject", "spyk") && len(args) > 0:
		add(canonical(args[0][:1]), "class")
	case a.lang == ruby && oneOf(name, "receive") || a.lang == ruby && oneOf(name, "stub", "stubs", "expects"):
		if len(args) > 0 && args[0][0].kind == text {
			add(strings.TrimPrefix(args[0][0].s, ":"), first)
		}
	case a.lang == ruby && oneOf(first, "allow", "expect") && len(c.links) > 1:
		for _, in := range chains(a.lang, c.links[1].arguments()) {
			if in.links[0].name == "receive" && len(in.links[0].arguments()) > 0 {
				add(strings.TrimPrefix(in.links[0].arguments()[0].s, ":"), canonical(c.links[0].arguments()))
			}
		}
	case a.lang == php && oneOf(name, "createMock", "createStub", "getMockBuilder", "createPartialMock", "mock") && len(args) > 0:
		add(args[0][0].s, "class")
	case a.lang == csharp && oneOf(name, "Setup", "Returns", "For"):
		if name == "Setup" && len(args) > 0 {
			for _, in := range chains(a.lang, args[0][min(2, len(args[0])):]) {
				add(in.last().name, in.links[0].name)
			}
		}
	}
}

// ending notes a call that ends the process as if all were well.
func (a *analysis) ending(c *chain) {
	l := c.last()
	if l.args == nil && !(a.lang == ruby && len(c.links) == 1) {
		return
	}
	if !exits(a.lang, c) {
		return
	}
	args := l.arguments()
	if len(args) == 0 || len(args) == 1 && args[0].literal() && oneOf(strings.Trim(args[0].s, `"`), "0") || len(args) == 1 && args[0].named("true") || mentions(args, "SUCCESS", "EX_OK", "ExitSuccess") {
		a.exits = c.line
	}
}

// exits says that a call ends the process.
func exits(lang language, c *chain) bool {
	name := c.names()
	switch lang {
	case python:
		return oneOf(name, "sys.exit", "os._exit", "exit", "quit", "_exit", "pytest.exit", "os.kill")
	case javascript, typescript:
		return oneOf(name, "process.exit", "process.reallyExit", "Deno.exit", "Bun.exit", "exit")
	case golang:
		return oneOf(name, "os.Exit", "syscall.Exit")
	case java, kotlin:
		return oneOf(name, "System.exit", "Runtime.getRuntime.exit", "Runtime.getRuntime.halt", "exitProcess", "kotlin.system.exitProcess")
	case ruby:
		return oneOf(name, "exit", "exit!", "Kernel.exit", "Process.exit", "Process.exit!")
	case rust:
		return oneOf(name, "std.process.exit", "process.exit", "exit")
	case csharp:
		return oneOf(name, "Environment.Exit")
	case php:
		return oneOf(name, "exit", "die")
	case swift:
		return oneOf(name, "exit", "Darwin.exit", "_exit", "Glibc.exit")
	default:
		return false
	}
}

// skipThrow says that a throw skips the test.
func (a *analysis) skipThrow(s *stmt) (mark, bool) {
	found := ""
	walk(s.head, func(n *node) {
		if n.kind == ident && oneOf(n.s, "SkipTest", "Skipped", "SkipException", "TestAbortedException", "AssumptionViolatedException", "XCTSkip", "SkippedTestError", "SkippedWithMessageException", "SkippedTestSuiteError", "IncompleteTestError", "TestSkippedException", "IgnoreException", "InconclusiveException", "AssumptionViolated", "OutcomeException") {
			found = n.s
		}
	})
	if found == "" && a.lang == ruby && mentions(s.head, "Skip") {
		found = "Skip"
	}
	if found == "" {
		for k := range s.head {
			if m, ok := a.skips[s.head[k].s]; ok && s.head[k].kind == ident {
				m.line = s.line
				return m, true
			}
		}
		return mark{}, false
	}
	return mark{kind: skipMark, line: s.line, text: s.word + " " + found, canon: "throw"}, true
}

// skipCall says that a call skips the test, or marks it. ends says that nothing
// runs behind it.
func (a *analysis) skipCall(c *chain, nodes []node) (m mark, ends, ok bool) {
	l := c.last()
	first := c.links[0].name
	n := len(c.links)
	args := l.arguments()
	parts := split(args)
	m = mark{kind: skipMark, line: c.line, text: c.names() + "()", canon: c.names()}
	condition := func(cond []node, neg bool) {
		m.cond = a.classify(cond)
		switch t := a.truth(cond); {
		case t == unknown:
		case (t == yes) != neg:
			m.cond = always
		default:
			m.cond = never
		}
		m.canon += " if " + canonical(a.strip(cond))
		m.text = c.names() + "(" + shorten(canonical(cond)) + ")"
	}
	if n == 1 {
		if alias, found := a.skips[first]; found && l.called() && !a.defined[first] {
			alias.line = c.line
			return alias, true, true
		}
	}
	local := a.hidden[first] || a.params[first] && !testingNames[first]
	switch a.lang {
	case golang:
		if oneOf(l.name, "Skip", "Skipf", "SkipNow") && l.args != nil && (n == 2 && (testingLike(first) || a.params[first] && !a.assignedOnce(first)) || n == 3 && c.links[1].name == "T" || n == 1) {
			return m, true, true
		}
	case python:
		switch {
		case oneOf(c.names(), "pytest.skip", "self.skipTest", "skipTest", "unittest.skip") || n == 1 && first == "skip" && l.args != nil && !a.hidden["skip"]:
			return m, true, true
		case c.names() == "pytest.xfail" || n == 1 && first == "xfail" && l.args != nil:
			m.kind = failMark
			m.cond = always
			return m, true, true
		case oneOf(c.names(), "pytest.importorskip", "importorskip"):
			m.cond = byProbe
			m.canon += canonical(args)
			return m, true, true
		}
	case javascript, typescript:
		switch {
		case l.name == "skip" && l.args != nil && n == 2 && (oneOf(first, "this", "t", "ctx", "context", "test", "it", "self", "testInfo", "suite", "tap") && (!local || oneOf(first, "t", "ctx", "context", "testInfo") || first == "this")):
			if len(parts) > 0 && !(len(parts[0]) == 1 && parts[0][0].kind == text) && !lambda(parts[0], a.lang) {
				condition(parts[0], false)
			}
			if len(parts) > 1 && lambda(parts[len(parts)-1], a.lang) {
				return m, false, false // it.skip('title', …) is a test, read elsewhere
			}
			return m, true, true
		case oneOf(c.names(), "test.fixme", "test.fail", "t.todo", "test.todo", "it.todo", "testInfo.skip", "testInfo.fixme", "testInfo.fail", "t.fails", "test.fails") && l.args != nil:
			if len(parts) > 1 && lambda(parts[len(parts)-1], a.lang) {
				return m, false, false
			}
			switch l.name {
			case "fail", "fails":
				m.kind = failMark
			case "todo":
				m.kind = todoMark
			}
			if len(parts) > 0 && parts[0][0].kind != text && !lambda(parts[0], a.lang) {
				condition(parts[0], false)
			}
			return m, l.name != "fail", true
		case n == 1 && oneOf(first, "pending") && l.args != nil && !local && !a.defined[first]:
			m.kind = todoMark
			return m, true, true
		case oneOf(c.names(), "this.retries", "jest.retryTimes", "test.describe.configure", "vi.retryTimes") && l.args != nil:
			v := literals(args)
			if len(v) > 0 && v[len(v)-1] != "0" && (l.name != "configure" || mentions(args, "retries")) {
				m.kind = retryMark
				m.canon += strings.Join(v, " ")
				return m, false, true
			}
		}
	case java, kotlin:
		switch {
		case oneOf(l.name, "assumeTrue", "assumeThat") && len(parts) > 0:
			cond := parts[0]
			if len(parts) > 1 && len(cond) == 1 && cond[0].kind == text {
				cond = parts[1]
			}
			condition(cond, true)
			return m, true, m.cond != never
		case l.name == "assumeFalse" && len(parts) > 0:
			cond := parts[0]
			if len(parts) > 1 && len(cond) == 1 && cond[0].kind == text {
				cond = parts[1]
			}
			condition(cond, false)
			return m, true, m.cond != never
		case oneOf(l.name, "assumingThat", "assumeNotNull", "assumeNoException", "abort"):
			m.cond = byProbe
			if l.name == "abort" && first == "Assumptions" {
				m.cond = always
			}
			return m, true, l.name != "abort" || first == "Assumptions"
		}
	case ruby:
		switch {
		case n == 1 && oneOf(first, "skip", "pend", "omit") && !a.hidden[first] && !a.params[first]:
			return m, true, true
		case n == 1 && first == "pending" && !a.hidden[first] && !a.params[first] && (l.called() || len(nodes) == 1):
			m.kind = failMark
			return m, false, true
		}
	case csharp:
		switch {
		case oneOf(c.names(), "Assert.Ignore", "Assert.Inconclusive", "Assert.Pass", "Assert.Skip"):
			return m, true, true
		case oneOf(c.names(), "Skip.If", "Assert.SkipWhen", "Skip.When") && len(parts) > 0:
			condition(parts[0], false)
			return m, true, true
		case oneOf(c.names(), "Skip.IfNot", "Assert.SkipUnless", "Skip.Unless", "Assume.That") && len(parts) > 0:
			condition(parts[0], true)
			return m, true, true
		}
	case php:
		switch {
		case oneOf(l.name, "markTestSkipped", "markTestIncomplete", "markAsRisky", "expectNotToPerformAssertions"):
			return m, true, l.name != "markAsRisky"
		case oneOf(l.name, "markTestSkippedIf", "markTestSkippedUnless") && len(parts) > 0:
			condition(parts[0], l.name == "markTestSkippedUnless")
			return m, true, true
		}
	case swift:
		switch l.name {
		case "XCTSkipIf":
			condition(first2(parts), false)
			return m, true, true
		case "XCTSkipUnless":
			condition(first2(parts), true)
			return m, true, true
		case "XCTExpectFailure":
			if l.block == nil {
				m.kind = failMark
				return m, false, true
			}
		}
	default:
	}
	return m, false, false
}

func (a *analysis) assignedOnce(name string) bool { _, ok := a.assigned[name]; return ok }

func first2(parts [][]node) []node { return slices.Clone(first(parts)) }
