package process

import (
	"fmt"
	"io"
)

// Output is what a program wrote to one stream: all of it, or, beyond the
// limit, its beginning and its end.
type Output struct {
	// Head and Tail are the bytes kept; Tail is empty unless some were left out
	// between the two.
	Head, Tail []byte
	// Size is the number of bytes written, kept or not.
	Size int64
}

// LeftOut is the number of bytes that were not kept.
func (o Output) LeftOut() int64 {
	return o.Size - int64(len(o.Head)) - int64(len(o.Tail))
}

// Bytes returns the bytes kept, with a line between head and tail that says
// how many were left out, if any were.
func (o Output) Bytes() []byte {
	if o.LeftOut() == 0 {
		return o.Head
	}
	b := append([]byte(nil), o.Head...)
	b = fmt.Appendf(b, "\n[... %d bytes left out ...]\n", o.LeftOut())
	return append(b, o.Tail...)
}

// String is Bytes as a string.
func (o Output) String() string { return string(o.Bytes()) }

// capture keeps the first and the last bytes of a stream, half of the limit
// each. The tail is a ring, so that memory is bounded by the limit.
type capture struct {
	head, ring     []byte
	headMax, tails int
	next           int // where the ring's next byte goes, once it is full
	size           int64
	watch          func([]byte)
}

func newCapture(limit int64, watch func([]byte)) *capture {
	head := (limit + 1) / 2
	return &capture{headMax: int(head), tails: int(limit - head), watch: watch}
}

// readAll reads until the stream ends or fails: either means that no more can
// come.
func (c *capture) readAll(r io.Reader) {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			c.add(buf[:n])
			if c.watch != nil {
				c.watch(buf[:n])
			}
		}
		if err != nil {
			return
		}
	}
}

func (c *capture) add(p []byte) {
	c.size += int64(len(p))
	if n := min(len(p), c.headMax-len(c.head)); n > 0 {
		c.head = append(c.head, p[:n]...)
		p = p[n:]
	}
	if len(p) > c.tails {
		p = p[len(p)-c.tails:]
	}
	if n := min(len(p), c.tails-len(c.ring)); n > 0 {
		c.ring = append(c.ring, p[:n]...)
		p = p[n:]
	}
	for len(p) > 0 {
		n := copy(c.ring[c.next:], p)
		c.next = (c.next + n) % c.tails
		p = p[n:]
	}
}

func (c *capture) output() Output {
	tail := append(append([]byte(nil), c.ring[c.next:]...), c.ring[:c.next]...)
	o := Output{Head: c.head, Tail: tail, Size: c.size}
	if o.LeftOut() == 0 {
		o.Head, o.Tail = append(c.head, tail...), nil
	}
	return o
}
