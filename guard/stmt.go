package guard

import "strings"

type stmtKind uint8

const (
	sExpr stmtKind = iota
	sIf
	sLoop
	sTry
	sReturn
	sThrow
	sBlock
	sWith // a block with a manager: with, using, synchronized
	sDef  // a function in a function
)

// stmt is one statement. Expressions stay lists of nodes.
type stmt struct {
	kind stmtKind
	line int32
	// word is the key word that made it.
	word string
	// neg says that the body runs if the head does not hold: unless, guard.
	neg bool
	// head is the condition, the header, the value, or the whole expression.
	head     []node
	body     []stmt
	alt      []stmt
	handlers []handler
	fin      []stmt
}

// handler is one catch.
type handler struct {
	head []node
	body []stmt
}

// statements splits the content of a block.
func statements(lang language, nodes []node) []stmt {
	p := &splitter{lang: lang}
	switch lang {
	case python:
		return p.python(nodes)
	case ruby:
		return p.ruby(nodes)
	default:
		return p.braces(nodes)
	}
}

type splitter struct{ lang language }

func (p *splitter) block(n node) []stmt { return statements(p.lang, n.kids) }

// logical returns where the logical line that begins at i ends.
func logical(nodes []node, i int) int {
	j := i + 1
	for j < len(nodes) && !nodes[j].nl && !nodes[j].is(";") {
		j++
	}
	return j
}

func (p *splitter) python(nodes []node) []stmt {
	var out []stmt
	for i := 0; i < len(nodes); {
		if nodes[i].is(";") {
			i++
			continue
		}
		j := logical(nodes, i)
		line := nodes[i:j]
		first := line[0]
		word := ""
		if first.kind == ident {
			word = first.s
			if word == "async" && len(line) > 1 {
				word = line[1].s
			}
		}
		s := stmt{line: first.line, word: word, head: line}
		compound := oneOf(word, "if", "elif", "else", "for", "while", "try", "except", "finally", "with", "def", "class") ||
			oneOf(word, "match", "case") && line[len(line)-1].is(":") && j < len(nodes) && nodes[j].opens("{")
		if !compound {
			switch word {
			case "return":
				s.kind, s.head = sReturn, line[1:]
			case "raise":
				s.kind, s.head = sThrow, line[1:]
			case "continue", "break":
				s.kind = sReturn
			}
			if first.opens("{") && first.nl {
				s.kind, s.body = sBlock, p.block(first)
			}
			out = append(out, s)
			i = j
			continue
		}
		colon, lambdas := len(line)-1, 0
		for k := 1; k < len(line); k++ {
			if line[k].named("lambda") {
				lambdas++
			} else if line[k].is(":") {
				if lambdas == 0 {
					colon = k
					break
				}
				lambdas--
			}
		}
		s.head = line[1:max(colon, 1)]
		if colon == 0 {
			s.head = nil
		}
		if word != first.s && len(s.head) > 0 {
			s.head = s.head[1:]
		}
		var body []stmt
		if colon+1 < len(line) {
			body = p.python(line[colon+1:])
			for j < len(nodes) && nodes[j].is(";") {
				e := logical(nodes, j+1)
				if j+1 < len(nodes) {
					body = append(body, p.python(nodes[j+1:e])...)
				}
				j = e
			}
		} else if j < len(nodes) && nodes[j].opens("{") {
			body = p.block(nodes[j])
			j++
		}
		i = j
		var prev *stmt
		if len(out) > 0 {
			prev = &out[len(out)-1]
		}
		s.body = body
		switch word {
		case "if", "match", "case":
			s.kind = sIf
		case "elif":
			s.kind = sIf
			if prev != nil && prev.kind == sIf {
				last := prev
				for len(last.alt) == 1 && last.alt[0].word == "elif" {
					last = &last.alt[0]
				}
				last.alt = []stmt{s}
				continue
			}
		case "else":
			if prev != nil {
				switch prev.kind {
				case sIf:
					last := prev
					for len(last.alt) == 1 && last.alt[0].word == "elif" {
						last = &last.alt[0]
					}
					last.alt = body
				case sTry:
					prev.alt = body
				default:
					prev.fin = append(prev.fin, body...)
				}
				continue
			}
			s.kind = sBlock
		case "for", "while":
			s.kind = sLoop
		case "try":
			s.kind = sTry
		case "except":
			if prev != nil && prev.kind == sTry {
				prev.handlers = append(prev.handlers, handler{head: s.head, body: body})
				continue
			}
			s.kind = sBlock
		case "finally":
			if prev != nil && prev.kind == sTry {
				prev.fin = body
				continue
			}
			s.kind = sBlock
		case "with":
			s.kind = sWith
		case "def", "class":
			s.kind = sDef
		}
		out = append(out, s)
	}
	return out
}

func (p *splitter) ruby(nodes []node) []stmt {
	var out []stmt
	for i := 0; i < len(nodes); {
		if nodes[i].is(";") {
			i++
			continue
		}
		first := nodes[i]
		word := ""
		if first.kind == ident {
			word = first.s
		}
		// A header goes up to its block.
		header := func(from int) (head []node, body []stmt, next int) {
			j := from
			for j < len(nodes) && !nodes[j].opens("{") {
				if nodes[j].nl && j > from {
					break
				}
				j++
			}
			// Blocks of the condition itself are rare; the last group counts.
			head = nodes[from:j]
			if j < len(nodes) && nodes[j].opens("{") {
				body = p.block(nodes[j])
				j++
			}
			return head, body, j
		}
		s := stmt{line: first.line, word: word}
		switch word {
		case "if", "unless", "while", "until", "case", "for", "begin", "def", "class", "module":
			s.head, s.body, i = header(i + 1)
			switch word {
			case "if", "unless":
				s.kind, s.neg = sIf, word == "unless"
			case "case":
				s.kind = sIf
			case "while", "until", "for":
				s.kind = sLoop
			case "begin":
				s.kind = sBlock
			default:
				s.kind = sDef
			}
			out = append(out, s)
			continue
		case "elsif", "when", "in", "else", "rescue", "ensure":
			head, body, next := header(i + 1)
			if next == i {
				next++
			}
			i = next
			if len(out) == 0 {
				out = append(out, stmt{kind: sBlock, line: first.line, body: body})
				continue
			}
			prev := &out[len(out)-1]
			switch word {
			case "elsif", "when", "in":
				last := prev
				for len(last.alt) == 1 && oneOf(last.alt[0].word, "elsif", "when", "in") {
					last = &last.alt[0]
				}
				last.alt = []stmt{{kind: sIf, line: first.line, word: word, head: head, body: body}}
			case "else":
				last := prev
				for len(last.alt) == 1 && oneOf(last.alt[0].word, "elsif", "when", "in") {
					last = &last.alt[0]
				}
				last.alt = body
			case "rescue":
				if prev.kind == sBlock {
					prev.kind = sTry
				}
				prev.handlers = append(prev.handlers, handler{head: head, body: body})
			case "ensure":
				prev.fin = body
			}
			continue
		}
		j := i + 1
		for j < len(nodes) && !nodes[j].is(";") {
			if nodes[j].nl && !nodes[j].is(".") && !nodes[j].is("&.") && !p.continues(nodes[j-1]) {
				break
			}
			j++
		}
		expr := nodes[i:j]
		i = j
		var cond []node
		modifier := ""
		for k := len(expr) - 1; k > 0; k-- {
			if expr[k].kind == ident && oneOf(expr[k].s, "if", "unless", "while", "until", "rescue") && !expr[k-1].is(".") && !(k+1 < len(expr) && expr[k+1].is(":")) {
				modifier, cond, expr = expr[k].s, expr[k+1:], expr[:k]
				break
			}
		}
		s.head = expr
		switch word {
		case "return", "next", "break":
			s.kind, s.head = sReturn, expr[1:]
		case "raise":
			s.kind, s.head = sThrow, expr[1:]
		}
		switch modifier {
		case "if", "unless":
			s = stmt{kind: sIf, line: s.line, word: modifier, neg: modifier == "unless", head: cond, body: []stmt{s}}
		case "rescue":
			s = stmt{kind: sTry, line: s.line, word: modifier, body: []stmt{s}, handlers: []handler{{body: []stmt{{kind: sExpr, head: cond, line: s.line}}}}}
		case "while", "until":
			s = stmt{kind: sLoop, line: s.line, word: modifier, head: cond, body: []stmt{s}}
		}
		out = append(out, s)
	}
	return out
}

// continues says that an expression cannot end with n.
func (p *splitter) continues(n node) bool {
	if n.kind == punct {
		return !oneOf(n.s, ")", "]", "}", "++", "--", "!", "?", ";", "...") || p.lang == rust && n.s == "..."
	}
	return n.kind == ident && oneOf(n.s, "and", "or", "not", "in", "as", "is", "new", "await", "instanceof", "typeof")
}

// begins says that an expression on the line before goes on with n.
func (p *splitter) begins(n node) bool {
	if n.kind == punct {
		return oneOf(n.s, ".", "?.", "&&", "||", "+", "*", "/", "%", "?", ":", "?:", "??", "==", "!=", "===", "!==", "<", ">", "<=", ">=", "=", "=>", "->", "|", "&", ",", "::", "!!") ||
			p.lang != swift && n.s == "-"
	}
	if n.kind == ident {
		switch p.lang {
		case kotlin:
			return oneOf(n.s, "as", "in", "is", "shouldBe", "shouldNotBe", "to", "infix")
		case swift, javascript, typescript:
			return oneOf(n.s, "as", "instanceof", "in", "of", "satisfies", "is", "catch") && !(p.lang == swift && n.s == "catch")
		default:
		}
	}
	return false
}

// lines says that the end of a line may end a statement.
func (p *splitter) lines() bool {
	return oneOf(string(p.lang), string(golang), string(kotlin), string(swift), string(javascript), string(typescript), string(groovy))
}

func (p *splitter) braces(nodes []node) []stmt {
	var out []stmt
	for i := 0; i < len(nodes); {
		var s stmt
		from := i
		s, i = p.one(nodes, i)
		if i <= from {
			i = from + 1
			continue
		}
		if s.line != 0 {
			out = append(out, s)
		}
	}
	return out
}

// one reads the statement at i and returns where the next one begins.
func (p *splitter) one(nodes []node, i int) (stmt, int) {
	n := nodes[i]
	s := stmt{line: n.line}
	if n.is(";") || n.is(",") || n.kind == directive {
		return stmt{}, i + 1
	}
	if n.opens("{") {
		s.kind, s.body = sBlock, p.block(n)
		return s, i + 1
	}
	if n.kind == ident && !(i+1 < len(nodes) && (nodes[i+1].is(".") || nodes[i+1].is("=") || nodes[i+1].is(":") && n.s != "default")) {
		s.word = n.s
		switch n.s {
		case "if", "guard":
			return p.branch(nodes, i)
		case "else":
			return p.one(nodes, min(i+1, len(nodes)-1))
		case "for", "while", "foreach", "loop", "repeat":
			s.kind = sLoop
			head, body, next := p.headed(nodes, i+1)
			if n.s == "repeat" && p.lang != swift {
				break // a function of Kotlin
			}
			s.head, s.body = head, body
			return s, next
		case "do":
			if i+1 < len(nodes) && nodes[i+1].opens("{") {
				s.body = p.block(nodes[i+1])
				next := i + 2
				if p.lang == swift {
					s.kind = sTry
					return p.catches(s, nodes, next)
				}
				s.kind = sLoop
				if next < len(nodes) && nodes[next].named("while") {
					next++
					for next < len(nodes) && !nodes[next].is(";") && !nodes[next].nl {
						next++
					}
				}
				return s, next
			}
		case "try":
			if p.lang == swift || p.lang == rust {
				break
			}
			next := i + 1
			if next < len(nodes) && nodes[next].opens("(") {
				s.head = nodes[next].kids
				next++
			}
			if next < len(nodes) && nodes[next].opens("{") {
				s.kind, s.body = sTry, p.block(nodes[next])
				return p.catches(s, nodes, next+1)
			}
		case "switch", "when", "match", "select":
			head, body, next := p.headed(nodes, i+1)
			if body != nil {
				s.kind, s.head, s.body = sIf, head, body
				s.word = "switch"
				return s, next
			}
		case "using", "synchronized", "lock", "unsafe", "fixed", "autoreleasepool":
			if i+1 < len(nodes) && nodes[i+1].opens("(") && i+2 < len(nodes) && nodes[i+2].opens("{") {
				s.kind, s.head, s.body = sWith, nodes[i+1].kids, p.block(nodes[i+2])
				return s, i + 3
			}
		case "return", "break", "continue", "goto", "yield":
			if n.s != "yield" {
				s.kind = sReturn
				end := p.expression(nodes, i+1)
				if i+1 < len(nodes) && nodes[i+1].nl && p.lines() {
					end = i + 1
				}
				s.head = nodes[i+1 : end]
				return s, end
			}
		case "throw":
			s.kind = sThrow
			end := p.expression(nodes, i+1)
			s.head = nodes[i+1 : end]
			return s, end
		}
	}
	end := p.expression(nodes, i)
	s.head = nodes[i:end]
	p.definition(&s)
	return s, end
}

// definition makes an expression that declares a function or a type an sDef.
func (p *splitter) definition(s *stmt) {
	if len(s.head) < 3 {
		return
	}
	for k, n := range s.head {
		if n.kind != ident {
			if n.kind == group && n.s == "(" || n.op("@", "#") {
				continue
			}
			return
		}
		if oneOf(n.s, "function", "fun", "func", "fn", "class", "struct", "record", "enum", "trait", "impl", "interface", "object", "mod") {
			last := s.head[len(s.head)-1]
			if last.opens("{") && k+1 < len(s.head) && s.head[k+1].kind == ident {
				s.kind, s.word, s.body = sDef, n.s, p.block(last)
			} else if n.s == "fun" && k+1 < len(s.head) && s.head[k+1].kind == ident {
				s.kind, s.word = sDef, n.s
			}
			return
		}
		if !oneOf(n.s, "public", "private", "protected", "static", "final", "abstract", "async", "suspend", "inline", "pub", "unsafe", "const", "export", "default", "sealed", "internal", "data", "open", "override", "local") {
			return
		}
	}
}

// headed reads a header, in parentheses or up to the brace, and what it rules.
func (p *splitter) headed(nodes []node, i int) (head []node, body []stmt, next int) {
	parens := oneOf(string(p.lang), string(java), string(kotlin), string(csharp), string(php), string(javascript), string(typescript), string(groovy))
	if i < len(nodes) && nodes[i].named("await") {
		i++
	}
	if parens && i < len(nodes) && nodes[i].opens("(") {
		head, i = nodes[i].kids, i+1
	} else {
		from := i
		for i < len(nodes) && !nodes[i].opens("{") {
			if nodes[i].is(";") && p.lang != golang {
				break
			}
			i++
		}
		// A composite literal or a closure inside the header is followed by more.
		for i+1 < len(nodes) && nodes[i].opens("{") && !nodes[i+1].nl && (nodes[i+1].opens("{") || nodes[i+1].is(".") || p.lang == golang && nodes[i+1].opens("(")) {
			i++
			for i < len(nodes) && !nodes[i].opens("{") {
				i++
			}
		}
		head = nodes[from:min(i, len(nodes))]
	}
	if i >= len(nodes) {
		return head, nil, i
	}
	if nodes[i].opens("{") {
		body = p.block(nodes[i])
		if body == nil {
			body = []stmt{}
		}
		return head, body, i + 1
	}
	if nodes[i].is(";") {
		return head, []stmt{}, i + 1
	}
	s, next := p.one(nodes, i)
	return head, []stmt{s}, max(next, i+1)
}

func (p *splitter) branch(nodes []node, i int) (stmt, int) {
	s := stmt{kind: sIf, line: nodes[i].line, word: nodes[i].s, neg: nodes[i].s == "guard"}
	s.head, s.body, i = p.headed(nodes, i+1)
	if s.neg && len(s.head) > 0 && s.head[len(s.head)-1].named("else") {
		s.head = s.head[:len(s.head)-1]
	}
	if i < len(nodes) && nodes[i].is(";") && i+1 < len(nodes) && nodes[i+1].named("else") {
		i++
	}
	if i < len(nodes) && nodes[i].named("elseif") {
		other, next := p.branch(nodes, i)
		s.alt = []stmt{other}
		return s, next
	}
	if i < len(nodes) && nodes[i].named("else") {
		i++
		if i < len(nodes) {
			other, next := p.one(nodes, i)
			if other.kind == sBlock {
				s.alt = other.body
			} else {
				s.alt = []stmt{other}
			}
			i = max(next, i+1)
		}
	}
	return s, i
}

func (p *splitter) catches(s stmt, nodes []node, i int) (stmt, int) {
	for i < len(nodes) && nodes[i].kind == ident && oneOf(nodes[i].s, "catch", "finally") {
		word := nodes[i].s
		from := i + 1
		for i < len(nodes) && !nodes[i].opens("{") {
			i++
		}
		if i >= len(nodes) {
			break
		}
		body := p.block(nodes[i])
		if word == "finally" {
			s.fin = body
		} else {
			head := nodes[from:i]
			if len(head) > 0 && head[0].opens("(") {
				head = head[0].kids
			}
			s.handlers = append(s.handlers, handler{head: head, body: body})
		}
		i++
	}
	if p.lang == swift && s.handlers == nil {
		s.kind = sBlock
	}
	return s, i
}

// expression returns the end of the expression at i, behind its semicolon.
func (p *splitter) expression(nodes []node, i int) int {
	j := i
	for j < len(nodes) {
		n := nodes[j]
		if n.is(";") || n.kind == directive {
			return j
		}
		if j > i {
			prev := nodes[j-1]
			if n.nl && p.lines() && !p.continues(prev) && !p.begins(n) && !n.opens("{") {
				return j
			}
			if prev.opens("{") && !p.lines() {
				// The body of a declaration ends it; an expression goes on.
				if !(n.op(".", ",", "?.", "::", "?", ":", "+", "-", "*", "/", "==", "!=", "&&", "||", "->", "=>", "<", ">", "=") || n.opens("(") && !n.nl || n.named("else")) {
					return j
				}
			}
			if prev.opens("{") && n.nl && n.opens("{") {
				return j
			}
		}
		j++
	}
	return j
}

// canonical writes nodes in one way, whatever their layout and quotes.
func canonical(nodes []node) string {
	var b strings.Builder
	write(&b, nodes)
	return b.String()
}

func write(b *strings.Builder, nodes []node) {
	for k := range nodes {
		n := &nodes[k]
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		switch n.kind {
		case text:
			b.WriteByte('"')
			b.WriteString(n.s)
			b.WriteByte('"')
		case group:
			b.WriteString(n.s)
			kids := n.kids
			if len(kids) > 0 && kids[len(kids)-1].is(",") {
				kids = kids[:len(kids)-1]
			}
			write(b, kids)
			b.WriteByte(' ')
			b.WriteString(map[string]string{"(": ")", "[": "]", "{": "}"}[n.s])
		case punct:
			if n.s == ";" {
				continue
			}
			b.WriteString(n.s)
		case ident, number, directive:
			b.WriteString(n.s)
		}
	}
}

// walk calls f for every node, those in groups too.
func walk(nodes []node, f func(n *node)) {
	for k := range nodes {
		f(&nodes[k])
		walk(nodes[k].kids, f)
	}
}

// split cuts nodes at the commas between them.
func split(nodes []node) [][]node {
	var out [][]node
	from := 0
	for k := range nodes {
		if nodes[k].is(",") {
			out = append(out, nodes[from:k])
			from = k + 1
		}
	}
	if from < len(nodes) {
		out = append(out, nodes[from:])
	}
	return out
}
