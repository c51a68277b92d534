package check

import (
	"bytes"
	"fmt"

	"interlock/activities/evidence"
)

const (
	// summaryLimit is the length of a summary in bytes, summaryHead how much
	// of it is the beginning: the end of a log says more.
	summaryLimit = 4096
	summaryHead  = 1024
)

// summary is the beginning and the end of an output as text for people and
// models.
func summary(output []byte) string {
	const enough = 64 << 10
	if len(output) > 2*enough {
		gap := fmt.Sprintf("\n[... %d bytes left out ...]\n", len(output)-2*enough)
		output = bytes.Join([][]byte{output[:enough], output[len(output)-enough:]}, []byte(gap))
	}
	return evidence.Cut(evidence.Text(string(output)), summaryLimit, summaryHead)
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
