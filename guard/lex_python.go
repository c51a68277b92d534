package guard

import "strings"

// python reads Python: an indented block becomes a group in braces.
func (l *lexer) python() {
	indents := []int{0}
	depth := 0    // of brackets
	fresh := true // at the beginning of a logical line
	l.i += len(bom(l.src))
	for l.i < len(l.src) {
		if fresh && depth == 0 {
			width, k := 0, l.i
			for k < len(l.src) && (l.src[k] == ' ' || l.src[k] == '\t' || l.src[k] == '\f') {
				if l.src[k] == '\t' {
					width = width/8*8 + 8
				} else {
					width++
				}
				k++
			}
			l.i = k
			if k >= len(l.src) {
				break
			}
			if c := l.src[k]; c == '\n' || c == '\r' || c == '#' {
				if c == '#' {
					l.lineComment()
				} else {
					if c == '\n' {
						l.line++
					}
					l.i++
				}
				continue
			}
			fresh = false
			l.nl = true
			if top := indents[len(indents)-1]; width > top {
				indents = append(indents, width)
				l.emit(punct, l.i, "{")
				l.nl = true
			}
			for len(indents) > 1 && width < indents[len(indents)-1] {
				indents = indents[:len(indents)-1]
				l.emit(punct, l.i, "}")
				l.nl = true
			}
		}
		start := l.i
		c := l.src[l.i]
		switch {
		case c == '\n':
			l.line++
			l.i++
			if depth == 0 {
				fresh = true
			}
		case c == ' ' || c == '\t' || c == '\r' || c == '\f':
			l.i++
		case c == '\\' && (l.peek(1) == '\n' || l.peek(1) == '\r'):
			l.i++
			if l.peek(0) == '\r' {
				l.i++
			}
			if l.peek(0) == '\n' {
				l.i++
			}
			l.line++
		case c == '#':
			l.lineComment()
		case c == '"' || c == '\'':
			l.stringPython(start, "")
		case isDigit(c) || c == '.' && isDigit(l.peek(1)) && (l.last() == nil || l.last().kind == punct):
			l.number()
		case c == '(' || c == '[' || c == '{':
			depth++
			l.operator()
		case c == ')' || c == ']' || c == '}':
			depth = max(depth-1, 0)
			l.operator()
		default:
			if s := l.name(); s != "" {
				if len(s) <= 3 && (l.peek(0) == '"' || l.peek(0) == '\'') && strings.Trim(strings.ToLower(s), "rbuft") == "" {
					l.stringPython(start, strings.ToLower(s))
				} else {
					l.emit(ident, start, s)
				}
				continue
			}
			if c >= 0x80 {
				l.i++
				continue
			}
			l.operator()
		}
	}
	for range indents[1:] {
		l.emit(punct, len(l.src), "}")
	}
}

func (l *lexer) stringPython(start int, prefix string) {
	quote := l.src[l.i : l.i+1]
	multi := strings.HasPrefix(l.src[l.i:], quote+quote+quote)
	if multi {
		quote += quote + quote
	}
	l.i += len(quote)
	from := l.i
	content := ""
	if strings.ContainsAny(prefix, "ft") {
		content = l.interpolated(quote, "{", true, multi, true, 0)
		// A brace without its partner took the end of the string along.
		if !multi && (l.i >= len(l.src) || !strings.HasSuffix(l.src[from:l.i], quote)) {
			l.i = from
			content = l.interpolated(quote, "\x00", true, false, false, 0)
		}
	} else {
		content = l.interpolated(quote, "\x00", true, multi, false, 0)
	}
	l.finish(start, content, multi)
}
