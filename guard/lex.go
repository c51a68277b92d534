package guard

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

type nodeKind uint8

const (
	ident nodeKind = iota
	number
	text // a string, template, regular expression or piece of markup: what is between the quotes
	punct
	group     // ( ) [ ] { }, or what stands for one: an indented block, do … end
	directive // a line of the preprocessor
)

// node is one token, or a bracket with all that is in it.
type node struct {
	kind nodeKind
	// nl says that the node is the first of its line.
	nl bool
	// raw says that a string has no escapes and holds no code.
	raw  bool
	line int32
	// pos is the node's first byte in the file, end the first behind it.
	pos, end int
	// s is the name, the number, the content of the string, the operator, or
	// the opening bracket of a group: one of ( [ {.
	s    string
	kids []node
}

func (n *node) is(s string) bool      { return n.kind != text && n.s == s }
func (n *node) opens(s string) bool   { return n.kind == group && n.s == s }
func (n *node) named(s string) bool   { return n.kind == ident && n.s == s }
func (n *node) literal() bool         { return n.kind == number || n.kind == text }
func (n *node) op(all ...string) bool { return n.kind == punct && oneOf(n.s, all...) }

func oneOf(s string, all ...string) bool {
	for _, a := range all {
		if s == a {
			return true
		}
	}
	return false
}

// comment is what is written to people, and sometimes to tools.
type comment struct {
	line int32
	pos  int
	text string
}

// source is a file as tokens.
type source struct {
	nodes    []node
	comments []comment
}

// maxDepth bounds the nesting that is kept: deeper brackets count as closed at
// once, so that no file can exhaust the stack.
const maxDepth = 200

type lexer struct {
	lang language
	src  string
	i    int
	line int32
	nl   bool
	// noRegexp is where the line ends that holds no further one.
	noRegexp int
	flat     []node
	comments []comment
}

// read turns a file into tokens. It never fails: what cannot be a token is
// skipped, and brackets that do not match are closed where they must be.
func read(lang language, src string) source {
	l := &lexer{lang: lang, src: src, line: 1, nl: true}
	switch lang {
	case python:
		l.python()
	case ruby:
		l.ruby()
	default:
		l.braces()
	}
	return source{nodes: nest(l.flat), comments: l.comments}
}

// nest makes groups of brackets.
func nest(flat []node) []node {
	type frame struct {
		open node
		kids []node
	}
	stack := make([]frame, 1, 16)
	skipped := 0
	closeTop := func(end int) {
		top := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		top.open.kids, top.open.end, top.open.kind = top.kids, end, group
		up := &stack[len(stack)-1]
		up.kids = append(up.kids, top.open)
	}
	for _, n := range flat {
		if n.kind != punct {
			top := &stack[len(stack)-1]
			top.kids = append(top.kids, n)
			continue
		}
		switch n.s {
		case "(", "[", "{":
			if len(stack) >= maxDepth {
				skipped++
				continue
			}
			stack = append(stack, frame{open: n})
		case ")", "]", "}":
			if skipped > 0 {
				skipped--
				continue
			}
			want := map[string]string{")": "(", "]": "[", "}": "{"}[n.s]
			at := -1
			for k := len(stack) - 1; k > 0; k-- {
				if stack[k].open.s == want {
					at = k
					break
				}
				if len(stack)-k > 8 {
					break
				}
			}
			for at > 0 && len(stack) > at {
				closeTop(n.end)
			}
		default:
			top := &stack[len(stack)-1]
			top.kids = append(top.kids, n)
		}
	}
	end := 0
	if len(flat) > 0 {
		end = flat[len(flat)-1].end
	}
	for len(stack) > 1 {
		closeTop(end)
	}
	return stack[0].kids
}

func (l *lexer) emit(kind nodeKind, start int, s string) *node {
	l.flat = append(l.flat, node{kind: kind, s: s, line: l.line, pos: start, end: l.i, nl: l.nl})
	l.nl = false
	return &l.flat[len(l.flat)-1]
}

func (l *lexer) has(s string) bool { return strings.HasPrefix(l.src[l.i:], s) }

func (l *lexer) peek(k int) byte {
	if l.i+k < len(l.src) {
		return l.src[l.i+k]
	}
	return 0
}

// count adds the lines between from and the place reached.
func (l *lexer) count(from int) { l.line += int32(strings.Count(l.src[from:l.i], "\n")) } // a file has fewer than 2^31 lines

// until moves behind the next end, or to the end of the file.
func (l *lexer) until(end string) {
	if k := strings.Index(l.src[l.i:], end); k >= 0 {
		l.i += k + len(end)
	} else {
		l.i = len(l.src)
	}
}

func (l *lexer) restOfLine() string {
	start := l.i
	if k := strings.IndexByte(l.src[l.i:], '\n'); k >= 0 {
		l.i += k
	} else {
		l.i = len(l.src)
	}
	return strings.TrimRight(l.src[start:l.i], "\r")
}

func (l *lexer) lineComment() {
	start, line := l.i, l.line
	l.comments = append(l.comments, comment{line: line, pos: start, text: l.restOfLine()})
}

func (l *lexer) blockComment(nested bool) {
	start, line := l.i, l.line
	l.i += 2
	if !nested {
		l.until("*/")
	} else {
		for depth := 1; depth > 0 && l.i < len(l.src); {
			switch {
			case l.has("/*"):
				depth++
				l.i += 2
			case l.has("*/"):
				depth--
				l.i += 2
			default:
				l.i++
			}
		}
	}
	l.comments = append(l.comments, comment{line: line, pos: start, text: l.src[start:l.i]})
	l.count(start)
}

func identStart(r rune) bool { return r == '_' || r == '$' || unicode.IsLetter(r) }
func identPart(r rune) bool {
	return identStart(r) || unicode.IsDigit(r) || unicode.Is(unicode.Mn, r) || unicode.Is(unicode.Cf, r)
}

// name moves over an identifier and returns it, or nothing.
func (l *lexer) name() string {
	start := l.i
	for l.i < len(l.src) {
		c := l.src[l.i]
		if c < utf8.RuneSelf {
			if c == '_' || c == '$' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || l.i > start && '0' <= c && c <= '9' {
				l.i++
				continue
			}
			break
		}
		r, size := utf8.DecodeRuneInString(l.src[l.i:])
		if l.i == start && !identStart(r) || !identPart(r) {
			break
		}
		l.i += size
	}
	return l.src[start:l.i]
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func (l *lexer) number() {
	start := l.i
	for l.i < len(l.src) {
		c := l.src[l.i]
		switch {
		case isDigit(c) || c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z':
			l.i++
			if (c == 'e' || c == 'E') && (l.peek(0) == '-' || l.peek(0) == '+') && isDigit(l.peek(1)) && !strings.HasPrefix(l.src[start:], "0x") {
				l.i++
			}
			continue
		case c == '.' && isDigit(l.peek(1)):
			l.i++
			continue
		}
		break
	}
	l.emit(number, start, strings.ReplaceAll(l.src[start:l.i], "_", ""))
}

// quoted moves over a string in quote that may hold escapes; one that may not
// go over the end of its line stops there.
func (l *lexer) quoted(quote byte, multiline bool) (content string) {
	l.i++
	start := l.i
	for l.i < len(l.src) {
		switch c := l.src[l.i]; {
		case c == '\\':
			l.i += 2
			continue
		case c == quote:
			content = l.src[start:l.i]
			l.i++
			return content
		case c == '\n' && !multiline:
			return l.src[start:l.i]
		}
		l.i++
	}
	l.i = min(l.i, len(l.src))
	return l.src[min(start, l.i):l.i]
}

// interpolated moves over a string with code in it. open begins code (a "${",
// "\(" or "{"), which ends with the bracket that matches; a doubled open is
// none if double is set.
func (l *lexer) interpolated(quote, open string, escape, multiline, double bool, depth int) (content string) {
	start, doubled := l.i, open+open
	for l.i < len(l.src) {
		c := l.src[l.i]
		switch {
		case l.has(quote):
			content = l.src[start:l.i]
			l.i += len(quote)
			return content
		case double && l.has(doubled):
			l.i += len(doubled)
		case l.has(open) && depth < 20:
			l.i += len(open)
			l.code(open[len(open)-1], multiline, depth+1)
		case escape && c == '\\':
			l.i += 2
		case c == '\n' && !multiline:
			return l.src[start:l.i]
		default:
			l.i++
		}
	}
	l.i = min(l.i, len(l.src))
	return l.src[min(start, l.i):l.i]
}

// code moves over code inside a string, behind the bracket that closes it.
func (l *lexer) code(open byte, multiline bool, depth int) {
	closes := byte('}')
	if open == '(' {
		closes = ')'
	}
	for level := 1; l.i < len(l.src); {
		c := l.src[l.i]
		switch {
		case c == open:
			level++
			l.i++
		case c == closes:
			level--
			l.i++
			if level == 0 {
				return
			}
		case c == '\n' && !multiline:
			return
		case c == '`' && (l.lang == javascript || l.lang == typescript):
			l.i++
			if depth < 20 {
				l.interpolated("`", "${", true, true, false, depth+1)
			}
		case c == '"' && (l.lang == kotlin || l.lang == swift || l.lang == csharp || l.lang == ruby):
			l.i++
			marks := map[language]string{kotlin: "${", swift: `\(`, csharp: "{", ruby: "#{"}[l.lang]
			if depth < 20 {
				l.interpolated(`"`, marks, true, multiline, l.lang == csharp, depth+1)
			}
		case c == '"' || c == '\'' && l.lang != swift && l.lang != kotlin:
			l.quoted(c, false)
		default:
			l.i++
		}
	}
}

// last returns the token before the place reached, or nil.
func (l *lexer) last() *node {
	if len(l.flat) == 0 {
		return nil
	}
	return &l.flat[len(l.flat)-1]
}

// operand says that an expression may begin here, so that / begins a regular
// expression and < begins markup.
func (l *lexer) operand() bool {
	p := l.last()
	if p == nil {
		return true
	}
	switch p.kind {
	case number, text:
		return false
	case ident:
		return oneOf(p.s, "return", "typeof", "case", "in", "of", "delete", "void", "throw", "new", "do", "else", "yield", "await", "default",
			"if", "unless", "and", "or", "not", "when", "while", "until", "then", "elsif") && !(len(l.flat) > 1 && l.flat[len(l.flat)-2].is("."))
	case punct:
		return !oneOf(p.s, ")", "]", "}", "++", "--") || p.s == "}" && l.nl
	case group, directive:
	}
	return true
}

var operators = []string{
	">>>=", "===", "!==", "...", "..<", "..=", "<=>", "**=", "<<=", ">>=", "&&=", "||=", "??=", "&^=", "=~",
	"=>", "->", "::", "?.", "?:", "??", "==", "!=", "<=", ">=", "&&", "||", "++", "--", "+=", "-=", "*=", "/=", "%=", "|=", "&=", "^=", ":=", "<-", "..", "!!", "**", "<<", ">>", "!~",
}

func (l *lexer) operator() {
	start := l.i
	for _, op := range operators {
		if l.has(op) {
			l.i += len(op)
			l.emit(punct, start, op)
			return
		}
	}
	l.i++
	l.emit(punct, start, l.src[start:l.i])
}

// regexp moves over a regular expression literal, or reports that there is none.
func (l *lexer) regexp() bool {
	start, class := l.i, false
	if start < l.noRegexp {
		return false
	}
	for k := l.i + 1; k < len(l.src); k++ {
		switch c := l.src[k]; {
		case c == '\n':
			l.noRegexp = k
			return false
		case c == '\\':
			k++
		case c == '[':
			class = true
		case c == ']':
			class = false
		case c == '/' && !class:
			l.i = k + 1
			content := l.src[start+1 : k]
			for l.i < len(l.src) && 'a' <= l.src[l.i] && l.src[l.i] <= 'z' {
				l.i++
			}
			l.emit(text, start, "/"+content).raw = true
			return true
		}
	}
	l.noRegexp = len(l.src)
	return false
}

// braces reads the languages whose blocks stand in braces.
func (l *lexer) braces() {
	lang := l.lang
	js := lang == javascript || lang == typescript
	if lang == php {
		l.outsidePHP()
	}
	if l.has("#!") && !l.has("#![") {
		l.restOfLine()
	}
	l.i += len(bom(l.src[l.i:]))
	for l.i < len(l.src) {
		start := l.i
		c := l.src[l.i]
		switch {
		case c == '\n':
			l.line++
			l.nl = true
			l.i++
		case c == ' ' || c == '\t' || c == '\r' || c == '\f':
			l.i++
		case l.has("//"):
			l.lineComment()
		case l.has("/*"):
			l.blockComment(lang == kotlin || lang == rust || lang == swift)
		case c == '#' && (lang == csharp || lang == swift) && l.nl && l.preprocessor():
		case c == '#' && lang == php && l.peek(1) != '[':
			l.lineComment()
		case c == '#' && lang == toml:
			l.lineComment()
		case lang == php && l.has("?>"):
			l.i += 2
			l.outsidePHP()
		case lang == php && l.has("<<<") && l.heredocPHP():
		case lang == rust && (c == 'r' || c == 'b' || c == 'c') && l.stringRust():
		case c == '"':
			l.doubleQuoted()
		case c == '\'':
			l.singleQuoted()
		case c == '`':
			l.backquoted()
		case (c == '@' || c == '$') && lang == csharp && l.stringCSharp():
		case c == '#' && lang == swift && l.stringSwift():
		case js && c == '/' && l.operand() && l.regexp():
		case js && c == '<' && l.operand() && l.markup(0):
		case isDigit(c) || c == '.' && isDigit(l.peek(1)) && (l.last() == nil || l.last().kind == punct):
			l.number()
		case c == '@' && lang == csharp && len(l.src) > l.i+1 && identStart(rune(l.src[l.i+1])):
			l.i++ // a name that is a key word
		default:
			if s := l.name(); s != "" {
				l.emit(ident, start, s)
				continue
			}
			if c >= utf8.RuneSelf {
				_, size := utf8.DecodeRuneInString(l.src[l.i:])
				l.i += size
				continue
			}
			l.operator()
		}
	}
}

func bom(s string) string {
	if strings.HasPrefix(s, "\ufeff") {
		return "\ufeff"
	}
	return ""
}

// preprocessor reads a line such as #if, and reports whether it was one.
func (l *lexer) preprocessor() bool {
	rest := strings.TrimLeft(l.src[l.i+1:], " \t")
	for _, word := range []string{"if", "elif", "elseif", "else", "endif", "region", "endregion", "pragma", "define", "undef", "nullable", "warning", "error", "line"} {
		if after, ok := strings.CutPrefix(rest, word); ok && (after == "" || !identPart(rune(after[0]))) {
			start := l.i
			line := l.restOfLine()
			if k := strings.Index(line, "//"); k >= 0 {
				line = line[:k]
			}
			l.emit(directive, start, strings.TrimSpace(strings.TrimPrefix(line, "#")))
			return true
		}
	}
	return false
}

func (l *lexer) doubleQuoted() {
	start := l.i
	content, raw := "", false
	switch l.lang {
	case java, kotlin, swift, toml, csharp:
		if l.has(`"""`) {
			quote := `"""`
			for l.lang == csharp && l.i+len(quote) < len(l.src) && l.src[l.i+len(quote)] == '"' {
				quote += `"`
			}
			l.i += len(quote)
			switch l.lang {
			case kotlin:
				content = l.interpolated(quote, "${", false, true, false, 0)
			case swift:
				content = l.interpolated(quote, `\(`, true, true, false, 0)
			case csharp:
				from := l.i
				l.until(quote)
				content = strings.TrimSuffix(l.src[from:l.i], quote)
			default:
				content = l.interpolated(quote, "\x00", true, true, false, 0)
			}
			for l.lang == kotlin && l.peek(0) == '"' {
				l.i++
			}
			l.finish(start, content, true)
			return
		}
		switch l.lang {
		case kotlin:
			l.i++
			content = l.interpolated(`"`, "${", true, false, false, 0)
		case swift:
			l.i++
			content = l.interpolated(`"`, `\(`, true, false, false, 0)
		default:
			content = l.quoted('"', false)
		}
	case php, rust:
		content = l.quoted('"', true)
	default:
		content = l.quoted('"', false)
	}
	l.finish(start, content, raw)
}

// finish emits a string that began at start, with the lines it spans.
func (l *lexer) finish(start int, content string, raw bool) {
	l.i = min(l.i, len(l.src))
	l.emit(text, start, content).raw = raw
	l.count(start)
}

func (l *lexer) singleQuoted() {
	start := l.i
	switch l.lang {
	case rust:
		// 'a' and '\n' are characters, 'a is a lifetime.
		rest := l.src[l.i+1:]
		if strings.HasPrefix(rest, `\`) {
			l.finish(start, l.quoted('\'', false), true)
			return
		}
		_, size := utf8.DecodeRuneInString(rest)
		if size > 0 && size < len(rest) && rest[size] == '\'' {
			l.i += size + 2
			l.finish(start, rest[:size], true)
			return
		}
		l.i++
		l.name()
	case swift:
		l.i++
	case toml:
		if l.has("'''") {
			l.i += 3
			from := l.i
			l.until("'''")
			l.finish(start, strings.TrimSuffix(l.src[from:l.i], "'''"), true)
			return
		}
		l.i++
		from := l.i
		for l.i < len(l.src) && l.src[l.i] != '\'' && l.src[l.i] != '\n' {
			l.i++
		}
		content := l.src[from:l.i]
		if l.peek(0) == '\'' {
			l.i++
		}
		l.finish(start, content, true)
	case php:
		l.finish(start, l.quoted('\'', true), true)
	default:
		multi := l.lang == groovy && l.has("'''")
		if multi {
			l.i += 3
			from := l.i
			l.until("'''")
			l.finish(start, strings.TrimSuffix(l.src[from:l.i], "'''"), true)
			return
		}
		l.finish(start, l.quoted('\'', false), false)
	}
}

func (l *lexer) backquoted() {
	start := l.i
	switch l.lang {
	case javascript, typescript:
		l.i++
		l.finish(start, l.interpolated("`", "${", true, true, false, 0), true)
	case golang:
		l.i++
		from := l.i
		l.until("`")
		l.finish(start, strings.TrimSuffix(l.src[from:l.i], "`"), true)
	case kotlin, swift:
		l.i++
		from := l.i
		for l.i < len(l.src) && l.src[l.i] != '`' && l.src[l.i] != '\n' {
			l.i++
		}
		name := l.src[from:l.i]
		if l.peek(0) == '`' {
			l.i++
		}
		l.emit(ident, start, name)
	default:
		l.finish(start, l.quoted('`', true), false)
	}
}

func (l *lexer) stringRust() bool {
	k := 1
	if l.peek(0) == 'b' || l.peek(0) == 'c' {
		switch l.peek(1) {
		case '"':
			start := l.i
			l.i++
			l.finish(start, l.quoted('"', true), false)
			return true
		case '\'':
			start := l.i
			l.i++
			l.finish(start, l.quoted('\'', false), true)
			return true
		case 'r':
			k = 2
		default:
			return false
		}
	}
	hashes := 0
	for l.peek(k+hashes) == '#' {
		hashes++
	}
	if l.peek(k+hashes) != '"' {
		return false
	}
	start := l.i
	l.i += k + hashes + 1
	from := l.i
	quote := `"` + strings.Repeat("#", hashes)
	l.until(quote)
	l.finish(start, strings.TrimSuffix(l.src[from:l.i], quote), true)
	return true
}

func (l *lexer) stringCSharp() bool {
	k, at, dollars := 0, false, 0
	for l.peek(k) == '@' || l.peek(k) == '$' {
		if l.peek(k) == '@' {
			at = true
		} else {
			dollars++
		}
		k++
	}
	if l.peek(k) != '"' {
		return false
	}
	start := l.i
	l.i += k
	content := ""
	switch {
	case l.has(`"""`):
		quote := `"""`
		for l.i+len(quote) < len(l.src) && l.src[l.i+len(quote)] == '"' {
			quote += `"`
		}
		l.i += len(quote)
		content = l.interpolated(quote, strings.Repeat("{", max(dollars, 1)), false, true, false, 0)
	case dollars > 0:
		l.i++
		content = l.interpolated(`"`, "{", !at, at, true, 0)
	default:
		l.i++
		from := l.i
		for l.i < len(l.src) {
			if l.src[l.i] == '"' {
				if l.peek(1) != '"' {
					break
				}
				l.i++
			}
			l.i++
		}
		content = l.src[from:l.i]
		l.i = min(l.i+1, len(l.src))
	}
	l.finish(start, content, true)
	return true
}

func (l *lexer) stringSwift() bool {
	hashes := 0
	for l.peek(hashes) == '#' {
		hashes++
	}
	if l.peek(hashes) != '"' {
		return false
	}
	start := l.i
	quote := `"`
	if strings.HasPrefix(l.src[l.i+hashes:], `"""`) {
		quote = `"""`
	}
	l.i += hashes + len(quote)
	from := l.i
	quote += strings.Repeat("#", hashes)
	l.until(quote)
	l.finish(start, strings.TrimSuffix(l.src[from:l.i], quote), true)
	return true
}

// outsidePHP moves over what is not PHP, up to the next opening tag.
func (l *lexer) outsidePHP() {
	start := l.i
	k := strings.Index(l.src[l.i:], "<?")
	if k < 0 {
		l.i = len(l.src)
		l.count(start)
		return
	}
	l.i += k + 2
	for _, tag := range []string{"php", "="} {
		if l.has(tag) {
			l.i += len(tag)
			break
		}
	}
	l.count(start)
	l.nl = true
}

func (l *lexer) heredocPHP() bool {
	rest := strings.TrimLeft(l.src[l.i+3:], " \t")
	quote := ""
	if rest != "" && (rest[0] == '\'' || rest[0] == '"') {
		quote = rest[:1]
		rest = rest[1:]
	}
	n := 0
	for n < len(rest) && (rest[n] == '_' || isDigit(rest[n]) || unicode.IsLetter(rune(rest[n]))) {
		n++
	}
	if n == 0 || quote != "" && !strings.HasPrefix(rest[n:], quote) {
		return false
	}
	id, start := rest[:n], l.i
	l.restOfLine()
	from := min(l.i+1, len(l.src))
	for l.i < len(l.src) {
		l.i++
		at := l.i
		line := strings.TrimLeft(l.restOfLine(), " \t")
		if after, ok := strings.CutPrefix(line, id); ok && (after == "" || !identPart(rune(after[0]))) {
			content := l.src[from:at]
			l.i = at + strings.Index(l.src[at:], id) + len(id)
			l.finish(start, content, true)
			return true
		}
	}
	l.finish(start, l.src[min(from, len(l.src)):], true)
	return true
}

// markup reads JSX: its strings and its code become tokens, its text a string.
// It reports false, having moved nowhere, if this is no markup.
func (l *lexer) markup(depth int) bool {
	rest := l.src[l.i+1:]
	if rest == "" || depth > 40 {
		return false
	}
	if rest[0] != '>' {
		k := 0
		for k < len(rest) && (identPart(rune(rest[k])) || rest[k] == '.' || rest[k] == '-' || rest[k] == ':') {
			k++
		}
		if k == 0 || isDigit(rest[0]) {
			return false
		}
		after := strings.TrimLeft(rest[k:], " \t\r\n")
		// <T>(x) => and <T,>() => and <T extends U> are types.
		if strings.HasPrefix(after, ",") || strings.HasPrefix(after, "extends ") || strings.HasPrefix(after, "=>") {
			return false
		}
		if l.lang == typescript && strings.HasPrefix(after, ">") && !strings.Contains(rest[:min(len(rest), 4000)], "</"+rest[:k]) {
			return false
		}
	}
	start := l.i
	l.i++
	l.emit(punct, start, "<")
	if s := l.name(); s != "" {
		l.emit(ident, start+1, s)
	}
	// The tag.
	for l.i < len(l.src) && l.src[l.i] != '>' {
		c := l.src[l.i]
		switch {
		case l.has("/>"):
			l.i += 2
			return true
		case c == '\n':
			l.line++
			l.i++
		case c == '"' || c == '\'':
			from := l.i
			l.i++
			k := strings.IndexByte(l.src[l.i:], c)
			if k < 0 {
				k = len(l.src) - l.i
			}
			l.i = min(l.i+k+1, len(l.src))
			l.finish(from, strings.Trim(l.src[from:l.i], string(c)), true)
		case c == '{':
			l.embedded(depth)
		case c == '<' || c == ';':
			return true // not markup after all; what was read stays read
		default:
			l.i++
		}
	}
	l.i = min(l.i+1, len(l.src))
	// The children.
	for l.i < len(l.src) {
		from := l.i
		for l.i < len(l.src) && l.src[l.i] != '<' && l.src[l.i] != '{' {
			l.i++
		}
		if s := strings.TrimSpace(l.src[from:l.i]); s != "" {
			l.finish(from, s, true)
		} else {
			l.count(from)
		}
		switch {
		case l.i >= len(l.src):
		case l.has("</"):
			from := l.i
			l.until(">")
			l.count(from)
			return true
		case l.src[l.i] == '{':
			l.embedded(depth)
		default:
			if !l.markup(depth + 1) {
				l.i++
			}
		}
	}
	return true
}

// embedded reads code in braces inside markup.
func (l *lexer) embedded(depth int) {
	start := l.i
	l.i++
	l.emit(punct, start, "{")
	for level := 1; l.i < len(l.src) && level > 0; {
		start := l.i
		c := l.src[l.i]
		switch {
		case c == '{':
			level++
			l.i++
			l.emit(punct, start, "{")
		case c == '}':
			level--
			l.i++
			l.emit(punct, start, "}")
		case c == '\n':
			l.line++
			l.nl = true
			l.i++
		case c == ' ' || c == '\t' || c == '\r':
			l.i++
		case l.has("//"):
			l.lineComment()
		case l.has("/*"):
			l.blockComment(false)
		case c == '"' || c == '\'':
			l.finish(start, l.quoted(c, false), false)
		case c == '`':
			l.backquoted()
		case c == '/' && l.operand() && l.regexp():
		case c == '<' && l.operand() && depth < 40 && l.markup(depth+1):
		case isDigit(c):
			l.number()
		default:
			if s := l.name(); s != "" {
				l.emit(ident, start, s)
			} else if c >= utf8.RuneSelf {
				l.i++
			} else {
				l.operator()
			}
		}
	}
}
