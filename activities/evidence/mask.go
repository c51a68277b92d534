package evidence

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/url"
	"slices"
	"strings"

	"interlock/activities/process"
)

const (
	// leastSecret is the length in bytes below which a value is not masked: it
	// would be found in innocent words.
	leastSecret = 6
	// leastLine is the length from which a single line of a secret of several
	// lines is masked by itself.
	leastLine = 16
)

// mark stands where a secret was.
var mark = []byte("***")

// Masker replaces known secrets by ***: as they are, and as JSON, URLs and
// Base64 write them. The nil Masker knows none.
type Masker struct {
	// needles are what is looked for, by their first byte, longest first.
	needles [256][][]byte
}

// NewMasker returns a masker of these values. Values of fewer than six bytes
// are left out.
func NewMasker(values ...string) *Masker {
	m := &Masker{}
	for _, v := range values {
		for _, needle := range spellings(v) {
			m.add(needle)
		}
	}
	for i := range m.needles {
		sortLongestFirst(m.needles[i])
	}
	return m
}

func sortLongestFirst(list [][]byte) {
	slices.SortFunc(list, func(a, b []byte) int { return len(b) - len(a) })
}

func (m *Masker) add(needle string) {
	if len(needle) < leastSecret || strings.Trim(needle, "*") == "" {
		return
	}
	list := &m.needles[needle[0]]
	for _, known := range *list {
		if string(known) == needle {
			return
		}
	}
	*list = append(*list, []byte(needle))
}

// spellings are the ways in which a secret appears in logs and documents.
func spellings(v string) []string {
	v = strings.TrimSpace(v)
	if len(v) < leastSecret {
		return nil
	}
	all := []string{v, url.QueryEscape(v), url.PathEscape(v), base64.StdEncoding.EncodeToString([]byte(v)), base64.RawURLEncoding.EncodeToString([]byte(v))}
	for _, html := range []bool{false, true} {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(html)
		if enc.Encode(v) == nil {
			all = append(all, strings.Trim(strings.TrimSpace(b.String()), `"`))
		}
	}
	if strings.Contains(v, "\n") {
		for line := range strings.Lines(v) {
			if line = strings.TrimSpace(line); len(line) >= leastLine {
				all = append(all, line)
			}
		}
	}
	return all
}

// Bytes returns p with every secret replaced.
func (m *Masker) Bytes(p []byte) []byte {
	var b bytes.Buffer
	s := m.Stream(&b)
	_, _ = s.Write(p)
	_ = s.Close()
	return b.Bytes()
}

// String returns s with every secret replaced.
func (m *Masker) String(s string) string { return string(m.Bytes([]byte(s))) }

// Output returns o with every secret replaced, those cut in two by what was
// left out included.
func (m *Masker) Output(o process.Output) process.Output {
	left := o.LeftOut()
	if left == 0 {
		masked := m.Bytes(o.Bytes())
		return process.Output{Head: masked, Size: int64(len(masked))}
	}
	var head bytes.Buffer
	s := m.Stream(&head)
	_, _ = s.Write(o.Head) // not closed: what is held back may be half a secret
	left += int64(len(s.held))
	cut := m.halfAt(o.Tail)
	left += int64(cut)
	tail := m.Bytes(o.Tail[cut:])
	return process.Output{Head: head.Bytes(), Tail: tail, Size: left + int64(head.Len()+len(tail))}
}

// halfAt returns the length of the longest beginning of p that is the end of a
// secret.
func (m *Masker) halfAt(p []byte) int {
	longest := 0
	if m == nil {
		return longest
	}
	for _, list := range m.needles {
		for _, needle := range list {
			for k := min(len(needle)-1, len(p)); k > longest; k-- {
				if bytes.Equal(needle[len(needle)-k:], p[:k]) {
					longest = k
				}
			}
		}
	}
	return longest
}

// Stream masks what is written on its way to another writer, whatever the
// borders of the chunks.
type Stream struct {
	m *Masker
	w io.Writer
	// held is what may be the beginning of a secret; covered is how many of
	// its bytes belong to a secret that is already replaced.
	held    []byte
	covered int
}

// Stream returns a writer that masks and passes on to w. Close passes on what
// is still held back; it does not close w.
func (m *Masker) Stream(w io.Writer) *Stream { return &Stream{m: m, w: w} }

// Write masks p.
func (s *Stream) Write(p []byte) (int, error) {
	if s.m == nil {
		return s.w.Write(p)
	}
	s.held = append(s.held, p...)
	if err := s.flush(false); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close ends the stream.
func (s *Stream) Close() error {
	if s.m == nil {
		return nil
	}
	return s.flush(true)
}

// flush passes on what is decided. Secrets that overlap become one ***, since
// the rest of the second would give it away.
func (s *Stream) flush(end bool) error {
	out := make([]byte, 0, len(s.held))
	i := 0
scan:
	for ; i < len(s.held); i++ {
		rest, longest := s.held[i:], 0
		for _, needle := range s.m.needles[rest[0]] {
			if len(needle) > len(rest) {
				if !end && bytes.HasPrefix(needle, rest) {
					break scan
				}
			} else if bytes.HasPrefix(rest, needle) {
				longest = len(needle)
				break
			}
		}
		if longest > 0 && s.covered == 0 {
			out = append(out, mark...)
		}
		s.covered = max(s.covered, longest)
		if s.covered > 0 {
			s.covered--
		} else {
			out = append(out, rest[0])
		}
	}
	s.held = append(s.held[:0], s.held[i:]...)
	if len(out) == 0 {
		return nil
	}
	_, err := s.w.Write(out)
	return err
}
