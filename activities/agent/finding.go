package agent

import (
	"bytes"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"interlock/activities/evidence"
	"interlock/slice"
)

// Files are files of a tree by their paths. One that is asked for and is not
// there has no entry.
type Files map[string][]byte

// FindingPath is the path that a finding names, from the root of the tree: an
// agent that works in a folder may write it from there, or from the root of
// the file system. ok is false if it cannot be a path in the tree.
func FindingPath(dir, name string) (clean string, ok bool) {
	if filepath.IsAbs(name) {
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return "", false
		}
		name = rel
	}
	clean = path.Clean(name)
	return clean, clean != "." && filepath.IsLocal(clean) && !strings.ContainsAny(clean, "\x00\n")
}

// Heaviest returns the findings of an answer that are looked at: the heaviest
// first, at most 50.
func Heaviest(findings []slice.Finding) []slice.Finding {
	out := slices.Clone(findings)
	slices.SortStableFunc(out, byWeight)
	return out[:min(len(out), maxFindings)]
}

// Strike strikes the findings that name a place that is not there: a file or a
// line that the candidate does not have, or a quote that is not in the file.
// before are the files as they were before the work: what the work has removed
// may be named too. A finding that names no file cannot be looked up, and
// stands.
//
// A quote is looked for in the whole file, and the finding's line is set to
// where it is, since models count lines badly. White space around the lines of
// a quote does not count, and neither do the signs of a diff.
func Strike(findings []slice.Finding, now, before Files) {
	for i := range findings {
		if f := &findings[i]; f.File != "" && f.Struck == "" {
			f.Struck = misplaced(f, now, before)
		}
	}
}

func misplaced(f *slice.Finding, now, before Files) string {
	shown := evidence.Line(f.File, maxPath)
	have, ok := now[f.File]
	had, was := before[f.File]
	if !ok && !was {
		return fmt.Sprintf("there is no file %q", shown)
	}
	if most := max(count(have), count(had)); f.Line > most {
		return fmt.Sprintf("there is no line %d in %q, which has %d", f.Line, shown, most)
	}
	if strings.TrimSpace(f.Evidence) == "" {
		return ""
	}
	if at := places(have, f.Evidence); len(at) > 0 {
		f.Line = nearest(at, f.Line)
		return ""
	}
	if len(places(had, f.Evidence)) == 0 {
		return fmt.Sprintf("what it quotes is not in %q", shown)
	}
	return ""
}

// count is the number of lines of a file.
func count(content []byte) int {
	n := bytes.Count(content, []byte("\n"))
	if len(content) > 0 && content[len(content)-1] != '\n' {
		n++
	}
	return n
}

// places returns the lines, counted from 1, at which a quote begins.
func places(content []byte, quote string) []int {
	file := trimmed(string(content))
	want := trimmed(quote)
	for len(want) > 0 && want[0] == "" {
		want = want[1:]
	}
	for len(want) > 0 && want[len(want)-1] == "" {
		want = want[:len(want)-1]
	}
	if len(want) == 0 {
		return nil
	}
	at := find(file, want)
	if len(at) == 0 && !slices.ContainsFunc(want, func(l string) bool { return l != "" && l[0] != '+' && l[0] != '-' }) {
		for i, l := range want {
			want[i] = strings.TrimSpace(strings.TrimLeft(l, "+-"))
		}
		at = find(file, want)
	}
	return at
}

func trimmed(text string) []string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimSpace(l)
	}
	return lines
}

// find returns where the lines begin, of which the first may be the end of one
// and the last the beginning of one.
func find(file, want []string) (at []int) {
	last := len(want) - 1
	for i := 0; i+last < len(file); i++ {
		ok := last > 0 && strings.HasSuffix(file[i], want[0]) && strings.HasPrefix(file[i+last], want[last]) ||
			last == 0 && strings.Contains(file[i], want[0])
		for k := 1; ok && k < last; k++ {
			ok = file[i+k] == want[k]
		}
		if ok {
			at = append(at, i+1)
		}
	}
	return at
}

func nearest(at []int, line int) int {
	best := at[0]
	for _, l := range at {
		if abs(l-line) < abs(best-line) {
			best = l
		}
	}
	return best
}

func abs(n int) int { return max(n, -n) }

// margin is how many lines around a change count as changed with it.
const margin = 3

// Late makes a note of every blocking finding of a later round on lines that
// did not change since the round before, and returns how many there are: what
// was there to be seen then opens nothing anew. known are the findings of the
// round before; one that was raised then and is raised again stays what it is.
// A finding that names no file stands.
func Late(findings, known []slice.Finding, now, before Files) (late int) {
	for i := range findings {
		f := &findings[i]
		if f.Severity != slice.Blocking || f.Struck != "" || f.File == "" {
			continue
		}
		old := matched(before[f.File], now[f.File])
		if !untouched(*f, now, before, old) || raised(*f, known, old) {
			continue
		}
		f.Severity = slice.Note
		f.Remark = "was blocking; but the lines that it names did not change since the round before, where nobody found it"
		late++
	}
	return late
}

// untouched reports whether the lines of a finding are as they were.
func untouched(f slice.Finding, now, before Files, old []int) bool {
	have, ok := now[f.File]
	had, was := before[f.File]
	if ok != was {
		return false
	}
	if bytes.Equal(have, had) {
		return true
	}
	if f.Line == 0 {
		return false
	}
	from := max(f.Line-margin, 1)
	to := min(f.Line+strings.Count(strings.TrimSpace(f.Evidence), "\n")+margin, len(old))
	if from > to {
		return false
	}
	for l := from; l <= to; l++ {
		if old[l-1] == 0 || old[l-1]-old[from-1] != l-from {
			return false
		}
	}
	return true
}

// raised reports whether the round before had found it too.
func raised(f slice.Finding, known []slice.Finding, old []int) bool {
	line := f.Line
	if line > 0 && line <= len(old) {
		line = old[line-1]
	}
	return slices.ContainsFunc(known, func(k slice.Finding) bool {
		switch {
		case k.Struck != "" || k.Severity == slice.Note:
			return false
		case plain(k.Claim) == plain(f.Claim):
			return true
		}
		return k.File == f.File && (k.Line == 0 || f.Line == 0 || abs(k.Line-line) <= margin)
	})
}

// matched returns for every line of a file, from the first, which line of an
// earlier version it is, counted from 1, or 0 if it is none. Lines that occur
// once in both anchor the others.
func matched(before, now []byte) []int {
	a, b := strings.Split(string(before), "\n"), strings.Split(string(now), "\n")
	old := make([]int, len(b))
	head := 0
	for head < min(len(a), len(b)) && a[head] == b[head] {
		old[head] = head + 1
		head++
	}
	tail := 0
	for tail < min(len(a), len(b))-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		old[len(b)-1-tail] = len(a) - tail
		tail++
	}
	type seen struct{ inA, inB, a, b int }
	lines := map[string]*seen{}
	at := func(l string) *seen {
		if lines[l] == nil {
			lines[l] = &seen{}
		}
		return lines[l]
	}
	for i := head; i < len(a)-tail; i++ {
		s := at(a[i])
		s.inA, s.a = s.inA+1, i
	}
	for i := head; i < len(b)-tail; i++ {
		s := at(b[i])
		s.inB, s.b = s.inB+1, i
	}
	var anchors []*seen
	for i := head; i < len(b)-tail; i++ {
		if s := lines[b[i]]; s.inA == 1 && s.inB == 1 {
			anchors = append(anchors, s)
		}
	}
	for _, s := range rising(len(anchors), func(i int) int { return anchors[i].a }) {
		i, j := anchors[s].a, anchors[s].b
		old[j] = i + 1
		for k := 1; i-k >= head && j-k >= head && old[j-k] == 0 && a[i-k] == b[j-k]; k++ {
			old[j-k] = i - k + 1
		}
		for k := 1; i+k < len(a)-tail && j+k < len(b)-tail && old[j+k] == 0 && a[i+k] == b[j+k]; k++ {
			old[j+k] = i + k + 1
		}
	}
	return old
}

// rising returns the places of a longest rising run among n values.
func rising(n int, value func(int) int) []int {
	var ends []int // the last place of the best run of each length
	prev := make([]int, n)
	for i := range n {
		k, _ := slices.BinarySearchFunc(ends, value(i), func(p, v int) int { return value(p) - v })
		prev[i] = -1
		if k > 0 {
			prev[i] = ends[k-1]
		}
		if k == len(ends) {
			ends = append(ends, i)
		} else {
			ends[k] = i
		}
	}
	var run []int
	if len(ends) > 0 {
		for i := ends[len(ends)-1]; i >= 0; i = prev[i] {
			run = append(run, i)
		}
	}
	slices.Reverse(run)
	return run
}

// says reports whether a quote says anything: a bracket is in every file.
func says(quote string) bool {
	return strings.IndexFunc(quote, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }) >= 0
}
