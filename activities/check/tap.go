package check

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"interlock/activities/evidence"
)

// tap reads the Test Anything Protocol, 13 and 14. A test of a subtest is named
// after all that it is in: "list > sorts".
type tap struct {
	lines
	findPlace
	report report
	plain  clip
	levels []tapLevel
	yaml   int // the indentation of a block of YAML, or -1
	last   *tapPoint
}

// tapLevel is one depth of indentation.
type tapLevel struct {
	points  []tapPoint
	plan    int // -1: none yet
	numbers int
	begun   bool
	// of is the test whose subtests these are, if its line came first.
	of int
}

type tapPoint struct {
	name  string
	state State
	said  clip
	subs  []tapPoint
}

const maxTAPDepth = 32

func newTAP() *tap {
	t := &tap{yaml: -1}
	t.report = report{what: "test of the Test Anything Protocol", missing: "in the output"}
	t.levels = []tapLevel{newLevel()}
	return t
}

func newLevel() tapLevel { return tapLevel{plan: -1, of: -1} }

// Write reads a chunk of output. It never fails.
func (t *tap) Write(p []byte) (int, error) {
	t.write(p, t.read, func(head []byte) { t.plain.add(string(head) + "[...]\n") })
	return len(p), nil
}

var (
	tapPlan  = regexp.MustCompile(`^1\.\.(\d{1,9})\s*(?:#.*)?$`)
	tapTest  = regexp.MustCompile(`^(not )?ok\b(?:\s+(\d{1,9}))?(.*)$`)
	tapBail  = regexp.MustCompile(`^Bail out!\s*(.*)$`)
	tapOther = regexp.MustCompile(`^(?:TAP version \d+|pragma\b.*|#.*)$`)
)

func (t *tap) read(raw []byte) {
	line := strings.TrimRight(string(raw), "\r \t")
	text := strings.TrimLeft(line, " ")
	indent := len(line) - len(text)
	if t.yaml >= 0 {
		if text == "..." && indent == t.yaml {
			t.yaml = -1
		} else if t.last != nil {
			t.keep(line)
		}
		return
	}
	if text == "---" && t.last != nil {
		t.yaml = indent
		return
	}
	depth := indent / 4
	known := tapPlan.MatchString(text) || tapTest.MatchString(text) || text == "}"
	switch m := tapBail.FindStringSubmatch(text); {
	case m != nil:
		t.report.stopped = append(t.report.stopped, evidence.Line("bailed out: "+m[1], 200))
	case known && indent%4 == 0 && depth < maxTAPDepth:
		t.known(depth, text)
	case tapOther.MatchString(text):
	default:
		t.look([]byte(line))
		if t.last != nil && t.last.state == Failing {
			t.keep(line)
		} else {
			t.plain.add(line + "\n")
		}
	}
}

func (t *tap) keep(line string) {
	if t.report.kept < maxOutput {
		before := t.last.said.size()
		t.last.said.add(line + "\n")
		t.report.kept += t.last.said.size() - before
	}
}

func (t *tap) known(depth int, text string) {
	for len(t.levels) <= depth {
		t.levels = append(t.levels, newLevel())
	}
	l := &t.levels[depth]
	if text == "}" { // the end of subtests that came after the line of their test
		t.fold(depth+1, -1)
		return
	}
	if m := tapPlan.FindStringSubmatch(text); m != nil {
		l.plan, _ = strconv.Atoi(m[1])
		l.begun = true
		return
	}
	m := tapTest.FindStringSubmatch(text)
	l.begun = true
	l.numbers++
	name, directive := tapName(m[3])
	buffered := strings.HasSuffix(name, "{")
	name = strings.TrimSpace(strings.TrimSuffix(name, "{"))
	if name == "" {
		name = fmt.Sprintf("test %d", l.numbers)
	}
	p := tapPoint{name: name, state: Passed}
	switch {
	case directive != "":
		p.state = Skipped
	case m[1] != "":
		p.state = Failing
	}
	if t.report.told++; t.report.told > maxTests {
		t.report.set.more = true
		t.last = nil
		return
	}
	l.points = append(l.points, p)
	i := len(l.points) - 1
	t.fold(depth+1, i)
	if buffered && len(t.levels) == depth+1 {
		sub := newLevel()
		sub.of = i
		t.levels = append(t.levels, sub)
	}
	t.last = &t.levels[depth].points[i]
}

// tapName splits the rest of a test line into its name and SKIP or TODO.
func tapName(rest string) (name, directive string) {
	rest = strings.TrimSpace(rest)
	rest = strings.TrimSpace(strings.TrimPrefix(rest, "- "))
	if rest == "-" {
		rest = ""
	}
	for i := 0; i < len(rest); i++ {
		if rest[i] == '\\' {
			i++
			continue
		}
		if rest[i] != '#' {
			continue
		}
		word := strings.ToUpper(strings.TrimSpace(rest[i+1:]))
		if strings.HasPrefix(word, "SKIP") || strings.HasPrefix(word, "TODO") {
			directive = word[:4]
			tail := strings.TrimSpace(rest[i+1:])
			rest = rest[:i]
			if strings.HasSuffix(tail, "{") {
				rest += "{"
			}
			break
		}
	}
	return strings.TrimSpace(strings.NewReplacer(`\#`, "#", `\\`, `\`).Replace(rest)), directive
}

// fold puts the tests below a depth under their test: the one at place i of the
// depth above, or the one that had announced them.
func (t *tap) fold(depth, i int) {
	if depth >= len(t.levels) {
		return
	}
	l := t.levels[depth]
	t.fold(depth+1, len(l.points)-1)
	if l.of >= 0 {
		i = l.of
	}
	t.levels = t.levels[:depth]
	above := &t.levels[depth-1]
	t.plan(l)
	if i < 0 || i >= len(above.points) {
		// They have no test of their own: the output ended early.
		above.points = append(above.points, l.points...)
		return
	}
	above.points[i].subs = append(above.points[i].subs, l.points...)
}

// plan compares what was planned with what ran.
func (t *tap) plan(l tapLevel) {
	switch {
	case !l.begun, len(t.report.stopped) > 0:
	case l.plan < 0:
		t.report.notes = append(t.report.notes, fmt.Sprintf("%d tests without a plan: the output ends early", l.numbers))
		t.report.red = true
	case l.plan != l.numbers:
		t.report.notes = append(t.report.notes, fmt.Sprintf("planned %d tests and ran %d", l.plan, l.numbers))
		t.report.red = true
	}
}

func (t *tap) finish() report {
	t.close(t.read)
	t.fold(1, -1)
	top := t.levels[0]
	t.plan(top)
	t.count("", top.points)
	if n := len(t.report.notes); n > 5 {
		t.report.notes = append(t.report.notes[:5], fmt.Sprintf("and %d more plans that were not kept", n-5))
	}
	t.report.place = t.findPlace.place
	t.report.layOut(t.plain.String())
	return t.report
}

// count adds tests to the report. One with subtests counts only if it failed
// while none of them did.
func (t *tap) count(in string, points []tapPoint) (failed bool) {
	r := &t.report
	for _, p := range points {
		name := p.name
		if in != "" {
			name = in + " > " + name
		}
		if len(name) > maxLine {
			name = name[:maxLine]
		}
		below := t.count(name, p.subs)
		switch {
		case p.state == Failing && below:
			r.set.add(name, Failing)
		case p.state == Failing:
			r.failedTest(name, p.said.String())
		case len(p.subs) > 0:
			r.set.add(name, p.state)
		case p.state == Skipped:
			r.skip(name)
		default:
			r.pass(name)
		}
		failed = failed || p.state == Failing || below
	}
	return failed
}
