package guard

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// strength orders checks by what they pin down.
type strength int8

const (
	vacuous   strength = iota // can never fail
	loose                     // a type, not nothing
	partial                   // a comparison, a part
	predicate                 // something is true
	exact                     // one value
)

// check is one place where a test can fail.
type check struct {
	line int32
	// matcher is the kind of comparison: eq, true, nil, compare, contains,
	// type, raises, fail, call, snapshot, helper.
	matcher  string
	strength strength
	// neg says that the opposite is asserted.
	neg bool
	// actual and expected are the two sides, canonical, with local variables
	// replaced by what they hold.
	actual, expected string
	// want are the literals that are expected, give those handed to the code.
	want, give []string
	// names are the identifiers called or used.
	names []string
	// tolerance is the number that bounds the difference, or "".
	tolerance string
	// sub is the subtest that the check stands in.
	sub string
	// dead is the kind of finding that keeps the check from failing, or "".
	dead string
	// deadLine is where that stands.
	deadLine int32
	// conds are the conditions under which it runs.
	conds []string
}

func (c *check) full() string {
	return c.matcher + "|" + strconv.FormatBool(c.neg) + "|" + c.actual + "|" + c.expected
}

func (c *check) live() bool { return c.dead == "" && c.strength > vacuous }

// condition classes a condition by what decides it.
type condition uint8

const (
	always condition = iota // it always holds
	never
	byMachine  // the environment, the host: true on one machine only
	byPlatform // operating system, architecture, version
	byShort    // the short mode of the runner
	byData     // what the test itself works on
	byProbe    // something is asked that cannot be judged here
)

type markKind string

const (
	skipMark  markKind = "skip"
	todoMark  markKind = "todo"
	failMark  markKind = "expected-failure"
	focusMark markKind = "focus"
	retryMark markKind = "retry"
	tagMark   markKind = "tag"
)

// mark is what changes how a test runs.
type mark struct {
	kind markKind
	cond condition
	line int32
	// text is the mark as a person would say it; canon tells two apart.
	text, canon string
	// call says that it stands in the body, annotation if on it or around it.
	call bool
	// suite says that it stands on what is around the test.
	suite bool
}

// body is what was found in the body of a test.
type body struct {
	checks []check
	marks  []mark
	calls  []string        // names called, in order
	names  map[string]bool // identifiers used
	lits   []string        // literals
	size   int             // statements
	mocks  []mock
	exits  int32 // line of a call that ends the process with success, or 0
	retry  int32 // line of a loop that repeats until it is green, or 0
	clock  int32 // line where a clock is replaced
	// defined are the functions and types defined inside.
	defined map[string]bool
	tables  [][]row
}

// mock is a stand-in that was set up.
type mock struct {
	target string // the last name of what is replaced
	module string // the module, as it is imported
	line   int32
}

// scope is what is known about names outside the body.
type scope struct {
	lang language
	// consts are names that are always true or false.
	consts map[string]bool
	// values are tables and constants that stand outside.
	values map[string][]node
	// helpers are functions that contain checks.
	helpers map[string]bool
	// skips are other names of skips, each with the mark that it means.
	skips map[string]mark
	// hidden are names that stand for something other than the framework's.
	hidden map[string]bool
	// params are the names that the test takes.
	params map[string]bool
}

// place says how the walk came to a place.
type place struct {
	conds    []string
	dead     string
	deadLine int32
	sub      string
	// failIf are the conditions of the innermost if, for a call that fails.
	failIf []node
	failNo bool // they stand under else or unless
	// held says that the place is waited for: awaited or returned.
	held   bool
	inTry  bool
	inLoop bool
	depth  int
}

func (p place) with(dead string, line int32) place {
	if p.dead == "" {
		p.dead, p.deadLine = dead, line
	}
	return p
}

func (p place) under(cond string) place {
	p.conds = append(slices.Clip(p.conds), cond)
	return p
}

type analysis struct {
	scope
	body
	// assigned are local variables that are set once.
	assigned map[string][]node
	twice    map[string]bool
	// lambdas are local functions, with the place of the first check in them.
	lambdas map[string]int32
	used    map[string]bool
	// pending are checks in a lambda that may never be called.
	pending map[int]string
	steps   int
}

// maxSteps bounds the work on one body.
const maxSteps = 400000

func analyse(sc scope, params []node, stmts []stmt) body {
	a := &analysis{scope: sc, assigned: map[string][]node{}, twice: map[string]bool{}, lambdas: map[string]int32{}, used: map[string]bool{}, pending: map[int]string{}}
	a.names = map[string]bool{}
	a.defined = map[string]bool{}
	if a.params == nil {
		a.params = map[string]bool{}
	}
	a.defaults(params)
	a.block(stmts, place{})
	for k, name := range a.pending {
		if !a.used[name] && a.checks[k].dead == "" {
			a.checks[k].dead, a.checks[k].deadLine = "detached-assertion", a.lambdas[name]
		}
	}
	return a.body
}

// defaults reads the default values of parameters, which stand for them.
func (a *analysis) defaults(params []node) {
	for _, p := range split(params) {
		for k := range p {
			if p[k].kind == ident && !a.params[p[k].s] {
				a.params[p[k].s] = true
			}
			if p[k].is("=") && k > 0 && k+1 < len(p) {
				name := ""
				for _, n := range p[:k] {
					if n.kind == ident {
						name = n.s
						break
					}
				}
				if name != "" {
					a.assigned[name] = p[k+1:]
				}
				break
			}
		}
	}
}

func (a *analysis) block(stmts []stmt, p place) (left bool) {
	p.depth++
	if p.depth > maxDepth {
		return false
	}
	// deferred failures and checks in goroutines are found where they stand.
	for k := range stmts {
		s := &stmts[k]
		a.steps++
		if a.steps > maxSteps {
			return left
		}
		a.size++
		ended := a.statement(s, p)
		switch ended {
		case leaves:
			if k+1 < len(stmts) {
				p = p.with("early-return", s.line)
			}
			left = true
		case mayLeave:
			cond := canonical(a.strip(s.head))
			neg := "not "
			if s.neg {
				neg = ""
			}
			switch {
			case a.truth(s.head) == yes != s.neg && a.truth(s.head) != unknown:
				p = p.with("early-return", s.line)
			case a.classify(s.head) == byMachine:
				p = p.with("early-return", s.line)
			default:
				p = p.under("unless " + neg + cond)
			}
		case goesOn:
		}
	}
	return left
}

type ending uint8

const (
	goesOn ending = iota
	leaves
	mayLeave
)

func (a *analysis) statement(s *stmt, p place) ending {
	switch s.kind {
	case sReturn:
		if s.word == "return" || s.word == "" || s.word == "next" {
			q := p
			q.held = true
			a.expr(s.head, q)
		}
		return leaves
	case sThrow:
		if m, ok := a.skipThrow(s); ok {
			a.skip(m, p)
			return leaves
		}
		if !p.inTry || len(s.head) > 0 {
			a.failed(s.line, p)
		}
		a.use(s.head)
		return leaves
	case sIf:
		return a.branch(s, p)
	case sLoop:
		q := p
		q.inLoop = true
		q.failIf = nil
		a.expr(s.head, p)
		a.rows(s.head)
		if s.word == "for" {
			a.bind(s.head)
		}
		if a.empty(s) {
			q = q.with("dead-branch", s.line)
		}
		a.block(s.body, q)
		a.block(s.fin, p)
	case sTry:
		a.try(s, p)
	case sBlock:
		if a.block(s.body, p) {
			return leaves
		}
		a.block(s.fin, p)
	case sWith:
		q := p
		if kind := a.manager(s, p); kind != "" {
			q = q.with(kind, s.line)
		}
		a.expr(s.head, p)
		if a.block(s.body, q) {
			return leaves
		}
	case sDef:
		name := defined(s.head, a.lang)
		if name == "" {
			break
		}
		a.defined[name] = true
		a.lambdas[name] = s.line
		from := len(a.checks)
		q := p
		q.failIf = nil
		a.block(s.body, q)
		for k := from; k < len(a.checks); k++ {
			a.pending[k] = name
		}
	case sExpr:
		if done := a.expression(s, p); done {
			return leaves
		}
	}
	return goesOn
}

// defined returns the name that a definition gives.
func defined(head []node, lang language) string {
	if lang == python || lang == ruby {
		for k := range head {
			if head[k].kind == ident && head[k].s != "self" {
				return head[k].s
			}
		}
		return ""
	}
	word := false
	for k := range head {
		if head[k].kind == ident && word {
			return head[k].s
		}
		word = word || head[k].kind == ident && oneOf(head[k].s, "function", "fun", "func", "fn", "class", "struct", "record", "enum", "trait", "interface", "object", "mod")
	}
	return ""
}

// cond returns the condition of an if, with what stands before it done first.
func (a *analysis) cond(s *stmt, p place) []node {
	head := s.head
	for k := range head {
		if head[k].is(";") {
			a.assign(head[:k], p)
			a.expr(head[:k], p)
			return a.cond(&stmt{head: head[k+1:]}, p)
		}
	}
	if a.lang == swift || a.lang == rust {
		// if let x = f() binds.
		if len(head) > 1 && oneOf(head[0].s, "let", "var", "case") {
			a.assign(head, p)
		}
	}
	return head
}

func (a *analysis) branch(s *stmt, p place) ending {
	cond := a.cond(s, p)
	a.expr(cond, p)
	// A name in the condition may be the counter of a test helper.
	then, other := p, p
	then.failIf, then.failNo = cond, s.neg
	other.failIf, other.failNo = cond, !s.neg
	if s.word == "switch" || s.word == "case" || s.word == "match" {
		then.failIf, other.failIf = nil, nil
		a.block(s.body, then.under("case "+canonical(cond)))
		a.block(s.alt, other.under("case"))
		return goesOn
	}
	switch a.truth(cond) {
	case yes:
		if s.neg {
			then = then.with("dead-branch", s.line)
		} else {
			other = other.with("dead-branch", s.line)
		}
	case no:
		if s.neg {
			other = other.with("dead-branch", s.line)
		} else {
			then = then.with("dead-branch", s.line)
		}
	case unknown:
		if a.classify(cond) == byMachine && !a.short(cond) {
			then = then.with("new-conditional-skip", s.line)
		}
		text := canonical(a.strip(cond))
		if s.neg {
			then = then.under("not " + text)
			other = other.under(text)
		} else {
			then = then.under(text)
			other = other.under("not " + text)
		}
	}
	before, marks := len(a.checks), len(a.marks)
	left := a.block(s.body, then)
	quiet := len(a.checks) == before && len(a.marks) == marks
	if len(s.alt) > 0 && a.block(s.alt, other) && left {
		return leaves
	}
	// A branch that leaves without having failed takes what follows along.
	if left && quiet && !(p.inLoop && (endsWith(s.body, "continue") || endsWith(s.body, "break") || endsWith(s.body, "next"))) {
		return mayLeave
	}
	return goesOn
}

func endsWith(stmts []stmt, word string) bool {
	return len(stmts) > 0 && stmts[len(stmts)-1].word == word
}

// short says that a condition is about the short mode.
func (a *analysis) short(cond []node) bool { return a.classify(cond) == byShort }

// empty says that a loop never runs.
func (a *analysis) empty(s *stmt) bool {
	if s.word == "while" {
		return a.truth(s.head) == no
	}
	for k := range s.head {
		n := &s.head[k]
		if (n.named("in") || n.is(":") || n.named("of") || n.named("range")) && k+1 < len(s.head) {
			rest := s.head[k+1:]
			if rest[0].named("range") || rest[0].is("=") {
				continue
			}
			if len(rest) == 1 && rest[0].kind == group && len(rest[0].kids) == 0 {
				return true
			}
			if len(rest) == 1 && rest[0].kind == ident {
				if v, ok := a.value(rest[0].s); ok && len(v) == 1 && v[0].kind == group && len(v[0].kids) == 0 && !v[0].opens("(") && a.assigned[rest[0].s] == nil {
					return true
				}
			}
			return false
		}
	}
	return false
}

func (a *analysis) value(name string) ([]node, bool) {
	if v, ok := a.assigned[name]; ok && !a.twice[name] {
		return v, true
	}
	v, ok := a.values[name]
	return v, ok
}

// catchesAll says that a handler also takes failed assertions.
func (a *analysis) catchesAll(h handler) bool {
	switch a.lang {
	case javascript, typescript, swift:
		return true
	case python:
		if len(h.head) == 0 {
			return true
		}
		return mentions(h.head, "AssertionError", "Exception", "BaseException", "object")
	case ruby:
		if len(h.head) == 0 || h.head[0].is("=>") {
			return true
		}
		return mentions(h.head, "Exception", "Assertion", "ExpectationNotMetError", "StandardError", "AssertionFailedError")
	case csharp:
		return len(h.head) == 0 || mentions(h.head, "Exception", "AssertionException", "XunitException")
	case php:
		return mentions(h.head, "Throwable", "Exception", "AssertionFailedError", "ExpectationFailedException", "Error")
	default:
		return mentions(h.head, "Throwable", "Error", "AssertionError", "AssertionFailedError", "ComparisonFailure")
	}
}

func mentions(nodes []node, names ...string) bool {
	found := false
	walk(nodes, func(n *node) { found = found || n.kind == ident && oneOf(n.s, names...) })
	return found
}

func (a *analysis) try(s *stmt, p place) {
	q := p
	q.inTry = true
	swallowed := false
	for _, h := range s.handlers {
		if a.catchesAll(h) && !a.reacts(h, s) {
			swallowed = true
		}
	}
	// A body that reports what was missing, and checks the error it caught.
	if swallowed {
		kind := "swallowed-exception"
		if p.inLoop && gives(s.body) {
			kind = "retry-until-green"
			a.retry = s.line
		}
		q = q.with(kind, s.line)
	}
	a.expr(s.head, p)
	failsInside := a.failsAtEnd(s.body)
	inside, otherwise := s.body, s.alt
	// try … fail … catch E asserts that E is thrown.
	if (failsInside || a.failsAtEnd(s.alt)) && len(s.handlers) > 0 && !swallowed {
		c := check{line: s.line, matcher: "raises", strength: exact, expected: thrown(s.handlers[0].head)}
		if broad(s.handlers[0].head) || c.expected == "" {
			c.strength = loose
		}
		a.add(c, p)
		if failsInside {
			inside = inside[:len(inside)-1]
		} else {
			failsInside = true
			otherwise = otherwise[:len(otherwise)-1]
		}
	}
	a.block(inside, q)
	for _, h := range s.handlers {
		r := p
		r.inTry = true
		r.failIf = nil
		if !failsInside && len(s.alt) == 0 {
			r = r.under("an exception is caught")
		}
		a.bind(h.head)
		a.block(h.body, r)
	}
	r := p
	r.failIf = nil
	a.block(otherwise, r)
	a.block(s.fin, p)
}

// thrown is the type in the head of a handler.
func thrown(head []node) string {
	for k := range head {
		if head[k].kind == ident && !oneOf(head[k].s, "final", "val", "var", "let", "as") {
			return head[k].s
		}
		if head[k].kind == group {
			return canonical(head[k : k+1])
		}
	}
	return ""
}

// reacts says that a handler fails, checks or throws again.
func (a *analysis) reacts(h handler, s *stmt) bool {
	b := &analysis{scope: a.scope, assigned: map[string][]node{}, twice: map[string]bool{}, lambdas: map[string]int32{}, used: map[string]bool{}, pending: map[int]string{}, steps: a.steps}
	b.names, b.defined = map[string]bool{}, map[string]bool{}
	b.block(h.body, place{depth: 50})
	for k := range b.checks {
		if b.checks[k].live() {
			return true
		}
	}
	if len(b.marks) > 0 {
		return true // a skip, found as such
	}
	found := false
	var look func(stmts []stmt)
	look = func(stmts []stmt) {
		for k := range stmts {
			if stmts[k].kind == sThrow {
				found = true
			}
			look(stmts[k].body)
			look(stmts[k].alt)
		}
	}
	look(h.body)
	// done(err), reject(err) and next(err) hand the error on.
	if oneOf(string(a.lang), string(javascript), string(typescript)) {
		for _, c := range b.calls {
			if oneOf(c, "done", "reject", "next", "cb", "callback", "fail") {
				found = true
			}
		}
	}
	// What the handler notes is looked at afterwards.
	if len(s.alt) == 0 && !found && len(h.body) > 0 && !a.checksInside(s.body) {
		for k := range h.body {
			for _, n := range h.body[k].head {
				if n.is("=") || n.op("+=", "++") || n.named("append") || n.named("push") {
					return true
				}
			}
		}
	}
	return found
}

func (a *analysis) checksInside(stmts []stmt) bool {
	b := &analysis{scope: a.scope, assigned: map[string][]node{}, twice: map[string]bool{}, lambdas: map[string]int32{}, used: map[string]bool{}, pending: map[int]string{}, steps: a.steps}
	b.names, b.defined = map[string]bool{}, map[string]bool{}
	b.block(stmts, place{depth: 50})
	return len(b.checks) > 0
}

// failsAtEnd says that a body ends by failing: what it does before must throw.
func (a *analysis) failsAtEnd(stmts []stmt) bool {
	if len(stmts) == 0 {
		return false
	}
	s := &stmts[len(stmts)-1]
	if s.kind == sThrow {
		return true
	}
	for _, c := range chains(a.lang, s.head) {
		if isFail(a.lang, &c) {
			return true
		}
	}
	return false
}

// gives says that a body leaves the loop or the test around it.
func gives(stmts []stmt) bool {
	for k := range stmts {
		if stmts[k].kind == sReturn && stmts[k].word != "continue" || gives(stmts[k].body) || gives(stmts[k].alt) {
			return true
		}
	}
	return false
}

// manager looks at what a with statement enters, and returns the kind of
// finding that silences its body, or nothing.
func (a *analysis) manager(s *stmt, p place) string {
	for _, c := range chains(a.lang, s.head) {
		name := c.last().name
		switch {
		case name == "suppress" && c.last().args != nil && mentions(c.last().args.kids, "AssertionError", "Exception", "BaseException"):
			return "swallowed-exception"
		case oneOf(name, "raises", "assertRaises", "assertRaisesRegex", "warns", "assertWarns", "deprecated_call", "assertLogs", "assertNumQueries", "RaisesGroup"):
			a.add(a.raises(&c), p)
		}
	}
	return ""
}

func (a *analysis) raises(c *chain) check {
	k := check{line: c.line, matcher: "raises", strength: exact}
	args := c.last().args
	if args == nil {
		k.strength = partial
		return k
	}
	parts := split(args.kids)
	if len(parts) > 0 {
		k.expected = canonical(parts[0])
	}
	if len(parts) == 1 {
		k.strength = predicate
	}
	if len(parts) == 0 || broad(parts[0]) {
		k.strength = loose
		if len(parts) > 1 {
			k.strength = partial
		}
	}
	for _, rest := range parts[min(1, len(parts)):] {
		k.want = append(k.want, literals(rest)...)
	}
	k.names = identifiers(args.kids)
	return k
}

// broad says that an expected error is any error.
func broad(nodes []node) bool {
	n := 0
	last := ""
	for _, x := range nodes {
		if x.kind == ident && !oneOf(x.s, "class", "java", "self") {
			n++
			last = x.s
		}
	}
	return n > 0 && n <= 3 && oneOf(last, "Exception", "BaseException", "Throwable", "Error", "RuntimeException", "StandardError")
}

// add records a check that stands at p.
func (a *analysis) add(c check, p place) {
	c.conds = p.conds
	if p.sub != "" {
		c.sub = p.sub
	}
	if c.dead == "" {
		c.dead, c.deadLine = p.dead, p.deadLine
	}
	a.checks = append(a.checks, c)
}

// skip records a skip that stands at p.
func (a *analysis) skip(m mark, p place) {
	m.call = true
	if p.dead == "dead-branch" || p.dead == "early-return" {
		return
	}
	if m.cond == always && len(p.failIf) > 0 {
		m.cond = a.classify(p.failIf)
		if t := a.truth(p.failIf); t != unknown {
			m.cond = always
			if t == yes == p.failNo {
				m.cond = never
			}
		}
		m.canon += " if " + canonical(a.strip(p.failIf))
		m.text += " if " + shorten(canonical(p.failIf))
	}
	if m.cond != never {
		a.marks = append(a.marks, m)
	}
}

func shorten(s string) string {
	if r := []rune(s); len(r) > 80 {
		return string(r[:77]) + "..."
	}
	return s
}

// failed records the call or the throw that fails a test under a condition.
func (a *analysis) failed(line int32, p place) {
	if len(p.failIf) == 0 {
		a.add(check{line: line, matcher: "fail", strength: exact}, p)
		return
	}
	q := p
	q.conds = q.conds[:max(len(q.conds)-1, 0)]
	if q.dead == "new-conditional-skip" || q.dead == "dead-branch" && q.deadLine <= line {
		q.dead, q.deadLine = p.dead, p.deadLine
	}
	a.condition(p.failIf, !p.failNo, line, q)
}

// condition records what a condition asserts. fails says that the test fails
// if it holds, rather than if it does not.
func (a *analysis) condition(cond []node, fails bool, line int32, p place) {
	cond = unparen(cond)
	or, and := "||", "&&"
	if a.lang == python || a.lang == ruby {
		if hasOp(cond, "or") || hasOp(cond, "and") {
			or, and = "or", "and"
		}
	}
	cut, join := or, and
	if !fails {
		cut, join = and, or
	}
	if parts := cutAt(cond, cut); len(parts) > 1 {
		for _, part := range parts {
			a.condition(part, fails, line, p)
		}
		return
	}
	if parts := cutAt(cond, join); len(parts) > 1 {
		// One of several: what is compared last is the check, the rest its
		// conditions.
		for _, part := range parts[:len(parts)-1] {
			t := a.truth(part)
			if t == no && fails || t == yes && !fails {
				p = p.with("dead-branch", line)
			}
			if t == unknown {
				p = p.under(canonical(a.strip(part)))
			}
		}
		last := parts[len(parts)-1]
		if t := a.truth(last); t == no && fails || t == yes && !fails {
			p = p.with("tautology", line)
			last = parts[0]
		}
		a.condition(last, fails, line, p)
		return
	}
	c := a.compare(cond, fails)
	c.line = line
	a.add(c, p)
}

func hasOp(nodes []node, name string) bool {
	for k := range nodes {
		if nodes[k].named(name) {
			return true
		}
	}
	return false
}

func cutAt(nodes []node, op string) [][]node {
	var out [][]node
	from := 0
	for k := range nodes {
		if nodes[k].is(op) {
			out = append(out, nodes[from:k])
			from = k + 1
		}
	}
	return append(out, nodes[from:])
}

func unparen(nodes []node) []node {
	for len(nodes) == 1 && nodes[0].opens("(") {
		nodes = nodes[0].kids
	}
	return nodes
}

// compare makes a check of one comparison.
func (a *analysis) compare(cond []node, fails bool) check {
	neg := fails
	for len(cond) > 0 && (cond[0].is("!") || cond[0].named("not")) {
		neg = !neg
		cond = unparen(cond[1:])
	}
	c := check{neg: neg}
	for k := range cond {
		n := &cond[k]
		op := ""
		switch {
		case n.op("==", "===", "!=", "!==", "<", ">", "<=", ">=", "=~", "!~", "<=>"):
			op = n.s
		case a.lang == python && n.named("is") && k > 0:
			op = "=="
			if k+1 < len(cond) && cond[k+1].named("not") {
				op = "!="
			}
		case (a.lang == python || a.lang == kotlin) && n.named("in") && k > 0:
			op = "in"
			if k > 0 && cond[k-1].named("not") {
				op = "not in"
			}
		case n.named("instanceof") || (a.lang == kotlin || a.lang == csharp || a.lang == swift) && n.named("is") && k > 0:
			op = "is"
		}
		if op == "" || k == 0 || k+1 >= len(cond) {
			continue
		}
		if (op == "<" || op == ">") && a.generic(cond, k) {
			continue
		}
		left, right := cond[:k], cond[k+1:]
		if op == "not in" {
			left = cond[:k-1]
		}
		if len(right) > 0 && right[0].named("not") && a.lang == python {
			right = right[1:]
		}
		a.sides(&c, left, right, op)
		return c
	}
	c.matcher, c.strength = "true", predicate
	a.side(&c, cond, true)
	cs := chains(a.lang, cond)
	if t := a.truth(cond); t != unknown {
		c.strength = vacuous
		if (t == yes) == c.neg {
			c.strength, c.matcher = exact, "fail"
		}
	} else if len(cs) > 0 {
		c = a.predicateOf(c, cond, &cs[0])
	} else if a.constant(cond) {
		c.strength = vacuous
	}
	return c
}

// generic says that < or > belongs to type arguments.
func (a *analysis) generic(nodes []node, k int) bool {
	if !oneOf(string(a.lang), string(java), string(kotlin), string(csharp), string(swift), string(typescript), string(rust)) {
		return false
	}
	if nodes[k].s == "<" {
		for j := k + 1; j < len(nodes) && j < k+8; j++ {
			if nodes[j].is(">") {
				return j+1 < len(nodes) && (nodes[j+1].opens("(") || nodes[j+1].is("::") || nodes[j+1].opens("{"))
			}
			if nodes[j].kind != ident && !nodes[j].op(",", ".", "?", "::") && !nodes[j].opens("[") {
				return false
			}
		}
		return false
	}
	for j := k - 1; j >= 0 && j > k-8; j-- {
		if nodes[j].is("<") {
			return k+1 < len(nodes) && (nodes[k+1].opens("(") || nodes[k+1].is("::") || nodes[k+1].opens("{"))
		}
	}
	return false
}

// predicateOf refines a check of one call that must be true.
func (a *analysis) predicateOf(c check, cond []node, ch *chain) check {
	last := ch.last()
	name := plain(last.name)
	switch {
	case oneOf(name, "isinstance", "callable", "hasattr", "issubclass", "isarray", "isa", "isinstanceof", "isnumber", "isstring", "isobject") && len(cond) <= ch.end:
		c.strength = loose
		c.matcher = "type"
	case oneOf(name, "calledonce", "calledoncewith", "calledwith", "callonce", "calloncewith", "hascalls", "haveanycalls", "notcalled", "assertcalled", "calledoncewithexactly") && a.lang == python && !strings.HasPrefix(last.name, "assert"):
		c.strength = vacuous
		c.dead = "removed-assertion"
		c.deadLine = ch.line
	case oneOf(name, "approx", "isclose", "allclose", "withindelta", "almostequal"):
		c.strength = partial
	}
	return c
}

// sides fills in a comparison of two sides.
func (a *analysis) sides(c *check, left, right []node, op string) {
	neg := c.neg
	switch op {
	case "==", "===":
		c.matcher, c.strength = "eq", exact
	case "!=", "!==":
		c.matcher, c.strength, neg = "eq", exact, !neg
	case "in", "not in":
		c.matcher, c.strength = "contains", partial
		neg = neg != (op == "not in")
	case "is":
		c.matcher, c.strength = "type", loose
	case "=~", "!~":
		c.matcher, c.strength = "contains", partial
		neg = neg != (op == "!~")
	default:
		c.matcher, c.strength = "compare", partial
	}
	c.neg = neg
	if neg && c.matcher == "eq" {
		c.strength = loose
	}
	if c.matcher == "compare" {
		c.expected = op + " "
	}
	l, r := unparen(left), unparen(right)
	raw := canonical(l) == canonical(r)
	if c.matcher == "eq" && (a.fixed(l) && !a.fixed(r) || hasCallIn(r) && !hasCallIn(l) && !a.fixed(r)) {
		l, r = r, l
	}
	if c.matcher == "compare" && a.fixed(l) && !a.fixed(r) {
		l, r = r, l
		c.expected = map[string]string{"<": ">", ">": "<", "<=": ">=", ">=": "<="}[op] + " "
	}
	prefix := c.expected
	a.side(c, l, true)
	a.side(c, r, false)
	c.expected = prefix + c.expected
	if c.matcher == "eq" {
		switch w := canonical(r); {
		case oneOf(strings.ToLower(w), "true", "false"):
			// x == true is x.
			c.matcher, c.strength, c.expected = "true", predicate, ""
			if strings.EqualFold(w, "false") {
				c.neg = !c.neg
			}
			c.want = nil
		case oneOf(strings.ToLower(w), "nil", "null", "none", "undefined"):
			c.matcher = "nil"
			c.strength, c.expected, c.want = exact, "", nil
			if c.neg {
				c.strength = loose
			}
		}
	}
	// The number that a difference must stay below.
	if c.matcher == "compare" && len(r) == 1 && strings.HasPrefix(prefix, "<") {
		if n, ok := a.numeric(r); ok && mentions(l, "abs", "fabs", "Abs", "dist", "delta", "diff") {
			c.tolerance = n
			c.want = without(c.want, n)
		}
	}
	for _, ch := range chains(a.lang, r) {
		if last := ch.last(); last.args != nil && oneOf(plain(last.name), "approx", "within", "closeto") {
			c.strength = partial
			for _, part := range split(last.args.kids)[min(1, len(split(last.args.kids))):] {
				c.tolerance = strings.Join(literals(part), " ")
				for _, v := range literals(part) {
					c.want = without(c.want, v)
				}
			}
			c.expected = "approx"
			if p := split(last.args.kids); len(p) > 0 {
				c.expected += canonical(a.strip(p[0]))
			}
			c.matcher = "eq"
		}
	}
	switch {
	case raw && !c.neg:
		c.strength = vacuous
	case a.constant(l) && a.constant(r):
		c.strength = vacuous
	case c.matcher == "contains" && both(r):
		c.strength = vacuous
	case c.matcher == "compare" && (prefix == ">= " || prefix == "> ") && canonical(r) == "0" && prefix == ">= " && (mentions(l, "len", "length", "size", "count", "Count", "Len")):
		c.strength = vacuous
	case c.matcher == "compare" && prefix == ">= " && c.neg:
	}
}

// hasCallIn says that an expression calls something.
func hasCallIn(nodes []node) bool {
	for k := range nodes {
		if nodes[k].opens("(") && k > 0 && nodes[k-1].kind == ident && !notCalls[nodes[k-1].s] || nodes[k].kind == group && hasCallIn(nodes[k].kids) {
			return true
		}
	}
	return false
}

func without(all []string, one string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == one })
}

// both says that a collection holds true and false, so that it holds any answer.
func both(nodes []node) bool {
	yes, no := false, false
	walk(nodes, func(n *node) {
		yes = yes || n.kind == ident && strings.EqualFold(n.s, "true")
		no = no || n.kind == ident && strings.EqualFold(n.s, "false")
	})
	return yes && no
}

func (a *analysis) numeric(nodes []node) (string, bool) {
	if len(nodes) != 1 {
		return "", false
	}
	n := nodes[0]
	if n.kind == ident {
		if v, ok := a.value(n.s); ok {
			return a.numeric(v)
		}
	}
	return n.s, n.kind == number
}

// side writes one side of a comparison.
func (a *analysis) side(c *check, nodes []node, actual bool) {
	full := a.strip(nodes)
	s := canonical(full)
	if actual {
		c.actual = s
		c.give = append(c.give, literals(full)...)
	} else {
		c.expected = s
		c.want = append(c.want, literals(full)...)
	}
	c.names = append(c.names, identifiers(full)...)
}

// fixed says that nodes hold no call and no variable that changes.
func (a *analysis) fixed(nodes []node) bool {
	for k := range nodes {
		n := &nodes[k]
		switch n.kind {
		case number, text, punct, directive:
		case ident:
			if oneOf(strings.ToLower(n.s), "true", "false", "nil", "null", "none", "undefined", "new") {
				continue
			}
			v, ok := a.value(n.s)
			if !ok || a.params[n.s] || !a.fixedValue(v, 3) {
				return false
			}
		case group:
			if n.s == "(" && k > 0 && nodes[k-1].kind == ident && !unicode.IsUpper([]rune(nodes[k-1].s + "x")[0]) {
				return false
			}
			if !a.fixed(n.kids) {
				return false
			}
		}
	}
	return len(nodes) > 0
}

func (a *analysis) fixedValue(nodes []node, depth int) bool {
	for k := range nodes {
		if n := &nodes[k]; n.kind == ident && !oneOf(strings.ToLower(n.s), "true", "false", "nil", "null", "none", "undefined") {
			return false
		} else if n.kind == group && (depth == 0 || !a.fixedValue(n.kids, depth-1)) {
			return false
		}
	}
	return len(nodes) > 0
}

// constant says that nodes are literals alone.
func (a *analysis) constant(nodes []node) bool { return a.fixedValue(nodes, 3) }

// strip takes away what a move or a rename of a receiver changes, and puts the
// values of variables in their place.
func (a *analysis) strip(nodes []node) []node { return a.stripped(nodes, 3) }

func (a *analysis) stripped(nodes []node, depth int) []node {
	out := make([]node, 0, len(nodes))
	for k := 0; k < len(nodes); k++ {
		n := nodes[k]
		a.steps++
		if a.steps > maxSteps {
			return out
		}
		if n.kind == punct && n.s == `\` {
			continue
		}
		// A receiver or a package in front of a call.
		if n.kind == ident && k+2 < len(nodes) && nodes[k+1].op(".", "->", "::", "?.") && nodes[k+2].kind == ident && (k == 0 || !nodes[k-1].op(".", "->", "::", "?.")) {
			call := k+3 < len(nodes) && nodes[k+3].opens("(")
			if call || oneOf(n.s, "this", "self", "$this", "static") {
				k++
				continue
			}
		}
		if n.kind == ident && depth > 0 && !a.params[n.s] && (k == 0 || !nodes[k-1].op(".", "->", "?.")) && !(k+1 < len(nodes) && nodes[k+1].opens("(")) {
			if v, ok := a.assigned[n.s]; ok && !a.twice[n.s] && len(v) > 0 && len(v) <= 24 && !(len(v) == 1 && v[0].kind == group && len(v[0].kids) > 40) {
				out = append(out, a.stripped(unparen(v), depth-1)...)
				continue
			}
			if v, ok := a.values[n.s]; ok && len(v) == 1 && v[0].literal() {
				out = append(out, v[0])
				continue
			}
		}
		if oneOf(n.s, "await") && n.kind == ident {
			continue
		}
		if n.kind == group {
			n.kids = a.stripped(n.kids, depth)
		}
		out = append(out, n)
	}
	return out
}

// literals returns the numbers and strings in nodes, in order.
func literals(nodes []node) []string {
	var out []string
	minus := false
	var look func(nodes []node)
	look = func(nodes []node) {
		for k := range nodes {
			n := &nodes[k]
			switch {
			case n.kind == number:
				v := n.s
				if minus {
					v = "-" + v
				}
				out = append(out, v)
			case n.kind == text:
				out = append(out, `"`+n.s+`"`)
			case n.kind == ident && oneOf(strings.ToLower(n.s), "true", "false"):
				out = append(out, strings.ToLower(n.s))
			}
			minus = n.is("-") && (k == 0 || nodes[k-1].kind == punct)
			look(n.kids)
		}
	}
	look(nodes)
	return out
}

func identifiers(nodes []node) []string {
	var out []string
	walk(nodes, func(n *node) {
		if n.kind == ident && !slices.Contains(out, n.s) {
			out = append(out, n.s)
		}
	})
	return out
}

// plain is a name in lower case without its underscores.
func plain(name string) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimRight(name, "?!"), "_", ""))
}

type tri uint8

const (
	unknown tri = iota
	yes
	no
)

func (t tri) not() tri {
	switch t {
	case yes:
		return no
	case no:
		return yes
	default:
		return unknown
	}
}

// truth returns what a condition always is.
func (a *analysis) truth(cond []node) tri { return a.truthAt(cond, 0) }

func (a *analysis) truthAt(cond []node, depth int) tri {
	cond = unparen(cond)
	if len(cond) == 0 || depth > 4 {
		return unknown
	}
	if cond[0].is("!") || cond[0].named("not") {
		if len(cutAt(cond, "&&")) == 1 && len(cutAt(cond, "||")) == 1 && !hasOp(cond, "and") && !hasOp(cond, "or") {
			return a.truthAt(cond[1:], depth+1).not()
		}
	}
	for _, op := range []string{"||", "or", "&&", "and"} {
		parts := cutAt(cond, op)
		if len(parts) < 2 {
			continue
		}
		decides, rest := yes, no
		if op == "&&" || op == "and" {
			decides, rest = no, yes
		}
		all := true
		for _, part := range parts {
			t := a.truthAt(part, depth+1)
			if t == decides {
				return decides
			}
			all = all && t == rest
		}
		if all {
			return rest
		}
		return unknown
	}
	if len(cond) == 1 {
		n := cond[0]
		switch {
		case n.kind == ident:
			switch strings.ToLower(n.s) {
			case "true", "__debug__":
				return yes
			case "false", "none", "nil", "null", "undefined", "type_checking":
				return no
			}
			if v, ok := a.consts[n.s]; ok && !a.twice[n.s] {
				if v {
					return yes
				}
				return no
			}
			if v, ok := a.assigned[n.s]; ok && !a.twice[n.s] && len(v) <= 4 {
				return a.truthAt(v, depth+1)
			}
		case n.kind == number:
			if strings.Trim(n.s, "0.") == "" {
				return no
			}
			return yes
		case n.kind == text && (a.lang.script() || a.lang == python || a.lang == php):
			if n.s == "" {
				return no
			}
			return yes
		}
		return unknown
	}
	for k := range cond {
		n := &cond[k]
		if n.op("==", "===", "!=", "!==", "<", ">", "<=", ">=") && k > 0 && k+1 < len(cond) {
			l, r := unparen(cond[:k]), unparen(cond[k+1:])
			if len(l) == 1 && len(r) == 1 && l[0].literal() && r[0].literal() {
				x, errX := strconv.ParseFloat(l[0].s, 64)
				y, errY := strconv.ParseFloat(r[0].s, 64)
				var holds bool
				switch n.s {
				case "==", "===":
					holds = l[0].s == r[0].s
				case "!=", "!==":
					holds = l[0].s != r[0].s
				default:
					if errX != nil || errY != nil {
						return unknown
					}
					holds = n.s == "<" && x < y || n.s == ">" && x > y || n.s == "<=" && x <= y || n.s == ">=" && x >= y
				}
				if holds {
					return yes
				}
				return no
			}
			return unknown
		}
	}
	return unknown
}

var machineWords = []string{
	"getenv", "environ", "env", "lookupenv", "getproperty", "hasproperty", "hostname", "gethostname", "getuser", "getlogin", "whoami", "username", "userhome", "home", "environmentvariable", "getenvironmentvariable", "processinfo", "ci", "node", "uname", "getboolean",
}

var platformWords = []string{
	"goos", "goarch", "platform", "os", "win32", "darwin", "windows", "linux", "macos", "ios", "freebsd", "osname", "iswindows", "ismac", "ismacos", "islinux", "isdarwin", "versioninfo", "version", "rubyversion", "phpversion", "phposfamily", "phpos", "phpversionid", "pypy", "pypyversion", "ispypy", "cpython", "implementation", "arch", "machine", "jre", "jdk", "isosplatform", "rubyplatform", "rubyengine", "currentos", "sysversion", "osx", "cygwin", "byteorder", "numcpu", "nproc", "targetos", "available", "runtimeinformation", "platformsystem", "endian", "maxsize", "is64bit", "android",
}

// classify says what decides a condition.
func (a *analysis) classify(cond []node) condition {
	switch a.truth(cond) {
	case yes:
		return always
	case no:
		return never
	case unknown:
	}
	machine, platform, short, data := false, false, false, false
	var look func(nodes []node, depth int)
	look = func(nodes []node, depth int) {
		for k := range nodes {
			n := &nodes[k]
			look(n.kids, depth)
			if n.kind == text && (strings.HasPrefix(n.s, "/home/") || strings.HasPrefix(n.s, "/Users/") || strings.HasPrefix(n.s, `C:\\Users`)) {
				machine = true
			}
			if n.kind != ident {
				continue
			}
			w := plain(strings.TrimLeft(n.s, "$@"))
			switch {
			case w == "short" && k > 0 && nodes[k-1].is("."):
				short = true
			case w == "node" && !(k > 0 && nodes[k-1].is(".") && k+1 < len(nodes) && nodes[k+1].opens("(")):
			case w == "os" && k+2 < len(nodes) && nodes[k+1].is(".") && !oneOf(nodes[k+2].s, "name", "type", "platform", "arch", "release"):
			case w == "home" && n.s != "HOME":
			case w == "env" && k+1 < len(nodes) && nodes[k+1].opens("(") && a.lang != php:
			case oneOf(w, machineWords...):
				machine = true
			case oneOf(w, platformWords...) || strings.HasPrefix(w, "iswin") || strings.HasPrefix(w, "py3") || strings.HasPrefix(w, "py2") || strings.HasSuffix(w, "version") || strings.Contains(w, "platform"):
				platform = true
			case a.params[n.s]:
				data = true
			default:
				if v, ok := a.assigned[n.s]; ok && depth > 0 && len(v) < 40 {
					data = true
					look(v, depth-1)
				} else if v, ok := a.values[n.s]; ok && depth > 0 && len(v) < 40 {
					look(v, depth-1)
				} else if a.twice[n.s] {
					data = true
				}
			}
		}
	}
	look(cond, 2)
	switch {
	case short:
		return byShort
	case platform:
		return byPlatform
	case machine:
		return byMachine
	case data:
		return byData
	default:
		return byProbe
	}
}
