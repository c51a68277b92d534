package evidence

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// escapes are the control sequences of terminals: CSI, OSC and the rest, as
// far as they are complete.
var escapes = regexp.MustCompile("\x1b(?:\\[[0-?]*[ -/]*[@-~]|[\\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\\\)|[ -/]*[0-~])")

// Text returns s as valid UTF-8 without what only a terminal understands.
func Text(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = escapes.ReplaceAllString(s, "")
	s = strings.ReplaceAll(s, "\r\n", "\n")
	var b strings.Builder
	for line := range strings.Lines(s) {
		// A carriage return begins the line anew, as progress bars do.
		text, end := strings.CutSuffix(line, "\n")
		text = strings.TrimRight(text, "\r")
		text = text[strings.LastIndexByte(text, '\r')+1:]
		b.WriteString(strings.Map(func(r rune) rune {
			if r < ' ' && r != '\t' || r == 0x7f || r >= 0x80 && r < 0xa0 {
				return -1
			}
			return r
		}, text))
		if end {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// gapRoom is what the line about the gap may take.
const gapRoom = 64

// Cut returns s if it has at most limit bytes, or its first head bytes and its
// end, with a line between them that says how much is missing. limit must be
// larger than head by at least 100.
func Cut(s string, limit, head int) string {
	if len(s) <= limit {
		return s
	}
	first := s[:head]
	for !utf8.ValidString(first) {
		first = first[:len(first)-1]
	}
	if i := strings.LastIndexByte(first, '\n'); i > head/2 {
		first = first[:i]
	}
	last := s[len(s)-(limit-head-gapRoom):]
	for len(last) > 0 && !utf8.RuneStart(last[0]) {
		last = last[1:]
	}
	if i := strings.IndexByte(last, '\n'); i >= 0 && i < len(last)/2 {
		last = last[i+1:]
	}
	return fmt.Sprintf("%s\n[... %d bytes left out ...]\n%s", first, len(s)-len(first)-len(last), last)
}

// Line returns s as one line of text, of at most limit bytes.
func Line(s string, limit int) string {
	s = strings.ReplaceAll(strings.TrimRight(Text(s), "\n"), "\n", " ")
	if len(s) <= limit {
		return s
	}
	const dots = "…"
	return strings.ToValidUTF8(s[:limit-len(dots)], "") + dots
}
