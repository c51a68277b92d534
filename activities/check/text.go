package check

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

const (
	// summaryLimit is the length of a summary in bytes, summaryHead how much
	// of it is the beginning: the end of a log says more.
	summaryLimit = 4096
	summaryHead  = 1024
	// gapRoom is what the line about the gap may take.
	gapRoom = 64
)

// escapes are the control sequences of terminals: CSI, OSC and the rest, as
// far as they are complete.
var escapes = regexp.MustCompile("\x1b(?:\\[[0-?]*[ -/]*[@-~]|[\\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\\\)|[ -/]*[0-~])")

// summary is the beginning and the end of an output as text for people and
// models.
func summary(output []byte) string {
	const enough = 64 << 10
	if len(output) > 2*enough {
		gap := fmt.Sprintf("\n[... %d bytes left out ...]\n", len(output)-2*enough)
		output = bytes.Join([][]byte{output[:enough], output[len(output)-enough:]}, []byte(gap))
	}
	return cut(clean(string(output)), summaryLimit, summaryHead)
}

// clean returns s as valid UTF-8 without what only a terminal understands.
func clean(s string) string {
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

// cut returns s if it has at most limit bytes, or its first head bytes and its
// end, with a line between them that says how much is missing.
func cut(s string, limit, head int) string {
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

// shorten returns s as one line of at most limit bytes.
func shorten(s string, limit int) string {
	s = strings.ReplaceAll(strings.TrimRight(clean(s), "\n"), "\n", " ")
	if len(s) <= limit {
		return s
	}
	const dots = "…"
	return strings.ToValidUTF8(s[:limit-len(dots)], "") + dots
}

// clip keeps the beginning and the end of a text that grows.
type clip struct {
	head, tail []byte
	gap        int
}

const (
	clipHead = 1024
	clipTail = 3072
)

func (c *clip) add(s string) {
	n := min(len(s), clipHead-len(c.head))
	if c.gap == 0 && len(c.tail) == 0 && n > 0 {
		c.head = append(c.head, s[:n]...)
		s = s[n:]
	}
	c.tail = append(c.tail, s...)
	if over := len(c.tail) - clipTail; over > 0 {
		c.gap += over
		c.tail = append(c.tail[:0], c.tail[over:]...)
	}
}

func (c *clip) size() int { return len(c.head) + len(c.tail) }

func (c *clip) String() string {
	if c.gap == 0 {
		return string(c.head) + string(c.tail)
	}
	return fmt.Sprintf("%s\n[... %d bytes left out ...]\n%s", c.head, c.gap, c.tail)
}
