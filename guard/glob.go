package guard

import (
	"slices"
	"strings"
)

// globSet are globs with the meaning of git's pathspecs: a glob also means all
// that is below what it names, * crosses folders as it does for git, and **/ at
// the beginning also stands for nothing, as with the magic word glob. With that
// word, * and ? stop at /.
type globSet struct{ patterns []pattern }

type pattern struct {
	text   string
	fold   bool // the magic word icase
	not    bool // the magic word exclude
	narrow bool // the magic word glob
}

// Match returns a function that says whether a path is meant by one of globs.
func Match(globs []string) func(path string) bool { return compile(globs).match }

// compile reads globs. Names with any byte are matched byte by byte.
func compile(globs []string) globSet {
	var g globSet
	for _, s := range globs {
		p := pattern{text: s}
		if rest, ok := strings.CutPrefix(s, ":("); ok {
			if words, body, ok := strings.Cut(rest, ")"); ok {
				for _, w := range strings.Split(words, ",") {
					switch w {
					case "icase":
						p.fold = true
					case "exclude":
						p.not = true
					case "glob":
						p.narrow = true
					case "literal":
						body = escape(body)
					}
				}
				p.text = body
			}
		} else if rest, ok := strings.CutPrefix(s, ":!"); ok {
			p.text, p.not = rest, true
		} else if rest, ok := strings.CutPrefix(s, ":^"); ok {
			p.text, p.not = rest, true
		} else if rest, ok := strings.CutPrefix(s, ":/"); ok {
			p.text = rest
		}
		p.text = strings.TrimPrefix(strings.TrimPrefix(p.text, "./"), "/")
		if p.text != "/" {
			p.text = strings.TrimSuffix(p.text, "/")
		}
		if p.text != "" && p.text != "." {
			g.patterns = append(g.patterns, p)
		} else if p.text == "." {
			p.text = "**"
			g.patterns = append(g.patterns, p)
		}
	}
	return g
}

func escape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if strings.IndexByte(`*?[\`, s[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// match says that a path is meant.
func (g globSet) match(p string) bool {
	hit := false
	for _, x := range g.patterns {
		text, name := x.text, p
		if x.fold {
			text, name = strings.ToLower(text), strings.ToLower(name)
		}
		if matchesOrBelow(text, name) || !x.narrow && strings.ContainsAny(text, "*?[") && globMatchAcross(text, name) {
			if x.not {
				return false
			}
			hit = true
		}
	}
	return hit
}

func matchesOrBelow(pattern, p string) bool {
	if globMatch(pattern, p) {
		return true
	}
	for i := len(p) - 1; i > 0; i-- {
		if p[i] == '/' && globMatch(pattern, p[:i]) {
			return true
		}
	}
	return false
}

// folders are the paths that stand in the globs without a wildcard.
func (g globSet) folders() []string {
	var out []string
	for _, x := range g.patterns {
		if x.not {
			continue
		}
		t := x.text
		if k := strings.IndexAny(t, `*?[\`); k >= 0 {
			t = t[:k]
			if s := strings.LastIndexByte(t, '/'); s >= 0 {
				t = t[:s]
			} else {
				continue
			}
		}
		if t != "" && !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out
}

// globMatch matches one glob with a whole path, as git's wildmatch does with
// WM_PATHNAME. It takes time linear in the product of both lengths.
func globMatch(pattern, name string) bool { return wildmatch(pattern, name, '/') }

// globMatchAcross is globMatch with wildcards that cross folders.
func globMatchAcross(pattern, name string) bool { return wildmatch(pattern, name, 0) }

func wildmatch(pattern, name string, stop byte) bool {
	type state struct{ p, n int }
	seen := map[state]bool{}
	var match func(p, n int) bool
	match = func(p, n int) bool {
		for p < len(pattern) {
			switch c := pattern[p]; c {
			case '*':
				if seen[state{p, n}] {
					return false
				}
				seen[state{p, n}] = true
				if stop != 0 && strings.HasPrefix(pattern[p:], "**") {
					before := p == 0 || pattern[p-1] == '/'
					q := p
					for q < len(pattern) && pattern[q] == '*' {
						q++
					}
					after := q == len(pattern) || pattern[q] == '/'
					if before && after {
						if q == len(pattern) {
							return true
						}
						// **/ also stands for nothing.
						if match(q+1, n) {
							return true
						}
						for k := n; k < len(name); k++ {
							if name[k] == '/' && match(q+1, k+1) {
								return true
							}
						}
						return false
					}
					p = q - 1
				}
				for k := n; ; k++ {
					if match(p+1, k) {
						return true
					}
					if k >= len(name) || stop != 0 && name[k] == stop {
						return false
					}
				}
			case '?':
				if n >= len(name) || stop != 0 && name[n] == stop {
					return false
				}
				p++
				n++
			case '[':
				end, hit := class(pattern[p:], name, n, stop)
				if end == 0 {
					if n >= len(name) || name[n] != '[' {
						return false
					}
					p++
					n++
					continue
				}
				if !hit {
					return false
				}
				p += end
				n++
			case '\\':
				if p+1 < len(pattern) {
					p++
				}
				if n >= len(name) || name[n] != pattern[p] {
					return false
				}
				p++
				n++
			default:
				if n >= len(name) || name[n] != c {
					return false
				}
				p++
				n++
			}
		}
		return n == len(name)
	}
	return match(0, 0)
}

// class matches [a-z], [!a] and [[:alpha:]]; end is 0 if it is not closed.
func class(pattern, name string, n int, stop byte) (end int, hit bool) {
	i := 1
	not := false
	if i < len(pattern) && (pattern[i] == '!' || pattern[i] == '^') {
		not = true
		i++
	}
	first := true
	var c byte
	ok := n < len(name) && (stop == 0 || name[n] != stop)
	if ok {
		c = name[n]
	}
	for i < len(pattern) && (first || pattern[i] != ']') {
		first = false
		if strings.HasPrefix(pattern[i:], "[:") {
			if k := strings.Index(pattern[i:], ":]"); k > 0 {
				hit = hit || ok && posix(pattern[i+2:i+k], c)
				i += k + 2
				continue
			}
		}
		lo := pattern[i]
		if lo == '\\' && i+1 < len(pattern) {
			i++
			lo = pattern[i]
		}
		hi := lo
		if i+2 < len(pattern) && pattern[i+1] == '-' && pattern[i+2] != ']' {
			hi = pattern[i+2]
			i += 2
			if hi == '\\' && i+1 < len(pattern) {
				i++
				hi = pattern[i]
			}
		}
		hit = hit || ok && lo <= c && c <= hi
		i++
	}
	if i >= len(pattern) {
		return 0, false
	}
	return i + 1, ok && hit != not
}

func posix(name string, c byte) bool {
	lower := 'a' <= c && c <= 'z'
	upper := 'A' <= c && c <= 'Z'
	digit := isDigit(c)
	switch name {
	case "alpha":
		return lower || upper
	case "digit":
		return digit
	case "alnum":
		return lower || upper || digit
	case "lower":
		return lower
	case "upper":
		return upper
	case "space":
		return c == ' ' || '\t' <= c && c <= '\r'
	case "blank":
		return c == ' ' || c == '\t'
	case "punct":
		return c > ' ' && c < 127 && !lower && !upper && !digit
	case "print":
		return c >= ' ' && c < 127
	case "graph":
		return c > ' ' && c < 127
	case "cntrl":
		return c < ' ' || c == 127
	case "xdigit":
		return digit || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
	}
	return false
}
