package activities

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// A resolution is what became of the files of one conflict. Where a side has
// no file at all, the contents are nil.
type resolution struct {
	base, ours, theirs, result []byte
	// oursGone and theirsGone say that a side deleted the files.
	oursGone, theirsGone bool
}

// loss is a line that a resolution does not account for.
type loss struct {
	line string
	// by is whose change is lost: the slice's, the base's, or nobody's, for a
	// line that neither had touched.
	by party
	// back says that the line was removed, and is there again.
	back bool
}

// party is one of the two sides of a merge.
type party string

const (
	bySlice party = "the slice"
	byBase  party = "the base"
	nobody  party = "neither side"
)

func (l loss) String() string {
	line := strings.TrimSpace(l.line)
	if runes := []rune(line); len(runes) > 80 {
		line = string(runes[:79]) + "…"
	}
	switch {
	case l.back:
		return fmt.Sprintf("%q is there again, which %s removed", line, l.by)
	case l.by == nobody:
		return fmt.Sprintf("%q is gone, which neither side had changed", line)
	default:
		return fmt.Sprintf("%q is gone, which %s added", line, l.by)
	}
}

// losses returns the lines that a resolution took from one side and dropped
// from the other.
//
// Files are bags of lines: white space does not count, and a line without a
// letter or digit neither. With B, O, T and R, how often a line is in the
// base, ours, theirs and the result:
//
//   - A line that neither side removed must be there max(O, T) times, any
//     other O+T-B times. So what either side added stays, and what neither
//     changed; what both added counts once.
//   - A line that is there less often is accounted for if it was combined: if
//     somewhere in the result lines that no side has, one after the other, hold
//     all its words, but for those of base lines that both sides removed, and
//     at least half of its words in all. Base "f(a)", ours "f(a, b)", theirs
//     "f(a, c)" may become "f(a, b, c)", but neither of the two.
//   - Where the sides removed different lines, a line that one side removed and
//     the other left as it was must not be there as often as in the base.
//
// Its limits: the order of lines and the place where they stand do not count.
// A line that one side dropped is not missed if the other added the same. Where
// both sides removed or changed the same line, a removal is not asked for: who
// deleted a block that the other changed may lose. A line that must be adapted,
// as to a name that the other side changed, is taken for dropped unless the new
// line holds its words, and so is one of two that cannot both hold, as two
// version numbers: those are for a person. A program that means to deceive can
// put the words into a comment; for that there are checks and judges.
func losses(r resolution) []loss {
	base, ours, theirs, result := bag(r.base), bag(r.ours), bag(r.theirs), bag(r.result)
	same := map[string]bool{} // words of base lines that both sides removed
	overlap := false
	for key, b := range base {
		if ours[key].n < b.n && theirs[key].n < b.n {
			overlap = true
			for _, w := range words(b.text) {
				same[w] = true
			}
		}
	}
	written := runs(r.result, base, ours, theirs)
	var lost []loss
	for _, key := range keys(base, ours, theirs) {
		b, o, t, n := base[key].n, ours[key].n, theirs[key].n, result[key].n
		want := max(0, o+t-b)
		if o >= b && t >= b {
			want = max(o, t)
		}
		text := first(base[key].text, ours[key].text, theirs[key].text)
		switch {
		case n < want && !combined(text, same, written):
			lost = append(lost, loss{line: text, by: whose(o > b, t > b)})
		case overlap || r.oursGone || r.theirsGone || n < b || n == 0:
		case o < b && t == b:
			lost = append(lost, loss{line: text, by: bySlice, back: true})
		case t < b && o == b:
			lost = append(lost, loss{line: text, by: byBase, back: true})
		}
	}
	return lost
}

func whose(ours, theirs bool) party {
	switch {
	case ours:
		return bySlice
	case theirs:
		return byBase
	default:
		return nobody
	}
}

func first(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// counted is a line and how often it is there.
type counted struct {
	n    int
	text string
}

// bag counts the lines of a file that have a letter or digit, under their
// text without white space.
func bag(content []byte) map[string]counted {
	lines := map[string]counted{}
	for line := range bytes.Lines(content) {
		if key, ok := keyOf(line); ok {
			c := lines[key]
			if c.n++; c.n == 1 {
				c.text = string(line)
			}
			lines[key] = c
		}
	}
	return lines
}

// keyOf returns a line without white space; ok is false if nothing is left
// that could be missed.
func keyOf(line []byte) (key string, ok bool) {
	for _, r := range string(line) {
		if unicode.IsLetter(r) || unicode.IsNumber(r) {
			ok = true
			break
		}
	}
	return strings.Join(strings.Fields(string(line)), ""), ok
}

// keys returns the lines that are in any of the bags, sorted.
func keys(bags ...map[string]counted) []string {
	var all []string
	for _, b := range bags {
		for key := range b {
			all = append(all, key)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// words returns the words and numbers of a line.
func words(line string) []string {
	return strings.FieldsFunc(line, func(r rune) bool {
		return r != '_' && !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.IsMark(r)
	})
}

// runs returns the words of the lines that no side has, one set for lines that
// follow each other.
func runs(result []byte, sides ...map[string]counted) []map[string]bool {
	var all []map[string]bool
	var open map[string]bool
	for line := range bytes.Lines(result) {
		key, ok := keyOf(line)
		if !ok {
			continue
		}
		if slices.ContainsFunc(sides, func(side map[string]counted) bool { return side[key].n > 0 }) {
			open = nil
			continue
		}
		if open == nil {
			open = map[string]bool{}
			all = append(all, open)
		}
		for _, w := range words(string(line)) {
			open[w] = true
		}
	}
	return all
}

// combined reports whether a line that is not there went into lines that were
// written instead.
func combined(line string, same map[string]bool, written []map[string]bool) bool {
	all := words(line)
	for _, run := range written {
		held, must := 0, true
		for _, w := range all {
			if run[w] {
				held++
			} else if !same[w] {
				must = false
			}
		}
		if must && 2*held >= len(all) {
			return true
		}
	}
	return false
}

// leftMarkers reports whether a file has lines of conflict markers that come
// from neither side: a document on merging may have such lines of its own, and
// a heading may be underlined with seven equals signs.
func leftMarkers(base, ours, theirs, result []byte) bool {
	b, o, t := markersIn(base), markersIn(ours), markersIn(theirs)
	for line, n := range markersIn(result) {
		if n > max(o[line], t[line], o[line]+t[line]-b[line]) {
			return true
		}
	}
	return false
}

var markers = []string{"<<<<<<<", "|||||||", "=======", ">>>>>>>"}

// markersIn counts the lines that git's conflict markers look like: seven equal
// characters, alone or before a space.
func markersIn(content []byte) map[string]int {
	found := map[string]int{}
	for line := range bytes.Lines(content) {
		text := strings.TrimRight(string(line), "\r\n")
		for _, m := range markers {
			if rest, ok := strings.CutPrefix(text, m); ok && (rest == "" || rest[0] == ' ') {
				found[text]++
			}
		}
	}
	return found
}
