package guard

import (
	"strings"
	"unicode/utf8"
)

// ruby reads Ruby: do … end, def … end and their like become groups in braces.
func (l *lexer) ruby() {
	type opened struct {
		word string
		// head says that the words up to the end of the line belong to the
		// opening: a condition, a name, parameters.
		head bool
	}
	var blocks []opened
	var heredocs []string
	begin := true // at the beginning of a statement
	depth := 0
	open := func(at int) {
		l.emit(punct, at, "{")
	}
	endHead := func() {
		if n := len(blocks); n > 0 && blocks[n-1].head {
			blocks[n-1].head = false
			open(l.i)
		}
	}
	for l.i < len(l.src) {
		start := l.i
		c := l.src[l.i]
		switch {
		case c == '\n':
			l.line++
			l.i++
			for _, id := range heredocs {
				l.heredocRuby(id)
			}
			heredocs = nil
			p := l.last()
			if depth == 0 && (p == nil || p.kind != punct || oneOf(p.s, ")", "]", "}", "{", "?", "!")) {
				endHead()
				begin = true
			}
			l.nl = true
			if l.has("=begin") {
				from, line := l.i, l.line
				l.until("\n=end")
				l.restOfLine()
				l.comments = append(l.comments, comment{line: line, pos: from, text: l.src[from:l.i]})
				l.count(from)
			}
			if l.has("__END__\n") {
				l.i = len(l.src)
			}
			continue
		case c == ' ' || c == '\t' || c == '\r':
			l.i++
			continue
		case c == '\\' && l.peek(1) == '\n':
			l.i += 2
			l.line++
			continue
		case c == '#':
			l.lineComment()
			continue
		case c == ';':
			l.i++
			endHead()
			begin = true
			l.emit(punct, start, ";")
			continue
		case c == '"':
			l.i++
			l.finish(start, l.interpolated(`"`, "#{", true, true, false, 0), false)
		case c == '\'':
			l.finish(start, l.quoted('\'', true), true)
		case c == '`':
			l.finish(start, l.quoted('`', true), true)
		case c == ':' && l.peek(1) == '"':
			l.i += 2
			l.finish(start, l.interpolated(`"`, "#{", true, true, false, 0), false)
		case c == ':' && l.peek(1) != ':' && (l.last() == nil || l.last().end < start || l.last().kind == punct):
			l.i++
			if s := l.name(); s != "" {
				if l.peek(0) == '?' || l.peek(0) == '!' {
					l.i++
				}
				l.emit(text, start, ":"+s)
			} else {
				l.emit(punct, start, ":")
			}
		case c == '%' && l.percent(start):
		case l.has("<<") && l.heredocStart(&heredocs):
		case c == '/' && (l.operand() || l.argument(start)) && l.regexp():
		case c == '?' && l.peek(1) > ' ' && (l.peek(2) == ' ' || l.peek(2) == '\n' || l.peek(2) == ',' || l.peek(2) == ')') && l.operand():
			l.i += 2
			l.emit(text, start, l.src[start+1:l.i])
		case isDigit(c):
			l.number()
		case c == '@' || c == '$':
			l.i++
			for l.peek(0) == '@' {
				l.i++
			}
			l.name()
			l.emit(ident, start, l.src[start:l.i])
		case c == '(' || c == '[' || c == '{':
			depth++
			l.operator()
			begin = c == '{'
			continue
		case c == ')' || c == ']' || c == '}':
			depth = max(depth-1, 0)
			l.operator()
		default:
			s := l.name()
			if s == "" {
				if c >= utf8.RuneSelf {
					l.i++
					continue
				}
				l.operator()
				begin = oneOf(l.last().s, "=", "||", "&&", "|", "=>", "||=") && depth == 0
				continue
			}
			if (l.peek(0) == '?' || l.peek(0) == '!') && l.peek(1) != '=' {
				l.i++
				s = l.src[start:l.i]
			}
			method := len(l.flat) > 0 && (l.last().is(".") || l.last().is("&.") || l.last().named("def"))
			key := l.peek(0) == ':' && l.peek(1) != ':' // a key of a hash
			if method || key {
				l.emit(ident, start, s)
				break
			}
			switch s {
			case "def", "class", "module", "case", "begin", "for":
				if s == "class" && !begin {
					l.emit(ident, start, s)
					break
				}
				l.emit(ident, start, s)
				if s == "begin" {
					open(l.i)
					blocks = append(blocks, opened{word: s})
				} else {
					blocks = append(blocks, opened{word: s, head: true})
				}
			case "if", "unless", "while", "until":
				l.emit(ident, start, s)
				if begin {
					blocks = append(blocks, opened{word: s, head: true})
				}
			case "do":
				if n := len(blocks); n > 0 && blocks[n-1].head && oneOf(blocks[n-1].word, "while", "until", "for") {
					endHead()
					break
				}
				open(start)
				blocks = append(blocks, opened{word: s})
			case "then":
				endHead()
			case "else", "elsif", "when", "in", "rescue", "ensure":
				n := len(blocks)
				if n == 0 || !begin || s == "in" && blocks[n-1].word != "case" {
					l.emit(ident, start, s)
					break
				}
				endHead()
				l.emit(punct, start, "}")
				l.nl = true
				l.emit(ident, start, s)
				if s == "else" || s == "ensure" {
					open(l.i)
				} else {
					blocks[n-1].head = true
				}
			case "end":
				endHead()
				if n := len(blocks); n > 0 {
					blocks = blocks[:n-1]
					l.emit(punct, start, "}")
				}
			default:
				l.emit(ident, start, s)
			}
			// def name(args) = expression has no end.
			begin = oneOf(s, "then", "do", "else", "begin", "ensure", "and", "or", "not")
			continue
		}
		begin = false
		if n := len(blocks); n > 0 && blocks[n-1].head && blocks[n-1].word == "def" && depth == 0 && l.has(" = ") {
			blocks = blocks[:n-1]
		}
	}
	for range blocks {
		endHead()
		l.emit(punct, len(l.src), "}")
		blocks = blocks[:len(blocks)-1]
	}
}

// argument says that the / at start begins an argument: a name and a space
// stand before it, and no space behind.
func (l *lexer) argument(start int) bool {
	p := l.last()
	return p != nil && p.kind == ident && p.end < start && l.peek(1) != ' ' && l.peek(1) != '='
}

// percent reads %w[], %q(), %() and %r{}, and reports whether it was one.
func (l *lexer) percent(start int) bool {
	k := 1
	kind := l.peek(1)
	if strings.IndexByte("wWqQiIrsx", kind) >= 0 && kind != 0 {
		k = 2
	} else if !l.operand() && !l.argument(start) {
		return false
	}
	delim := l.peek(k)
	if delim == 0 || delim == ' ' || delim == '\n' || delim == '=' || isDigit(delim) || 'a' <= delim && delim <= 'z' || 'A' <= delim && delim <= 'Z' {
		return false
	}
	if k == 2 && !l.operand() && !l.argument(start) {
		return false
	}
	closes := delim
	if j := strings.IndexByte("([{<", delim); j >= 0 {
		closes = ")]}>"[j]
	}
	l.i += k + 1
	from, level := l.i, 1
	for l.i < len(l.src) {
		c := l.src[l.i]
		switch {
		case c == '\\':
			l.i++
		case c == closes:
			level--
		case c == delim:
			level++
		}
		if level == 0 {
			break
		}
		l.i++
	}
	l.i = min(l.i, len(l.src))
	content := l.src[min(from, l.i):l.i]
	l.i = min(l.i+1, len(l.src))
	if kind == 'w' || kind == 'W' || kind == 'i' || kind == 'I' {
		l.emit(punct, start, "[")
		for _, word := range strings.Fields(content) {
			l.emit(text, start, word)
		}
		l.emit(punct, start, "]")
		l.count(start)
		return true
	}
	l.finish(start, content, true)
	return true
}

// heredocStart reads <<~ID and remembers that its text follows.
func (l *lexer) heredocStart(pending *[]string) bool {
	rest := l.src[l.i+2:]
	rest = strings.TrimLeft(rest, "~-")
	squiggly := len(rest) < len(l.src[l.i+2:])
	quote := ""
	if rest != "" && strings.ContainsRune("'\"`", rune(rest[0])) {
		quote = rest[:1]
		rest = rest[1:]
	}
	n := 0
	for n < len(rest) && (rest[n] == '_' || isDigit(rest[n]) && n > 0 || 'A' <= rest[n] && rest[n] <= 'Z' || squiggly && 'a' <= rest[n] && rest[n] <= 'z') {
		n++
	}
	if n == 0 || quote != "" && !strings.HasPrefix(rest[n:], quote) || !squiggly && quote == "" && !l.operand() && !l.argument(l.i) {
		return false
	}
	start := l.i
	l.i = len(l.src) - len(rest) + n + len(quote)
	l.emit(text, start, "<<"+rest[:n]).raw = true
	*pending = append(*pending, rest[:n])
	return true
}

// heredocRuby moves over the text up to the line that is id; the text joins
// the token that began it.
func (l *lexer) heredocRuby(id string) {
	from := l.i
	for l.i < len(l.src) {
		at := l.i
		line := strings.TrimSpace(l.restOfLine())
		if l.i < len(l.src) {
			l.i++
		}
		l.line++
		if line == id {
			for k := len(l.flat) - 1; k >= 0 && k > len(l.flat)-40; k-- {
				if l.flat[k].s == "<<"+id {
					l.flat[k].s = l.src[from:at]
					break
				}
			}
			return
		}
	}
}
