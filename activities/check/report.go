package check

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"interlock/activities/evidence"
	"interlock/machine"
	"interlock/slice"
)

// What a reader keeps at most, so that no output, however hostile, fills the
// worker's memory.
const (
	maxFailing  = 50
	maxLine     = 1 << 20
	maxTests    = 100_000
	maxTestName = 500      // bytes
	maxOutput   = 16 << 20 // of tests that did not pass (yet), together
	maxWhy      = 400
)

// State is what became of a test.
type State string

// The states, from the best to the worst.
const (
	Passed  State = "pass"
	Skipped State = "skip"
	Failing State = "fail"
)

// Test is one test of a list.
type Test struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// N is how often a test of that name passed.
	N int `json:"n,omitempty"`
}

// Tests is the list of the tests of one check, sorted by name.
type Tests struct {
	Tests []Test `json:"tests"`
	// More says that there were more than are listed.
	More bool `json:"more,omitempty"`
}

// ReadTests reads a list that Measure has kept as evidence.
func ReadTests(b []byte) (Tests, error) {
	var t Tests
	if err := json.Unmarshal(b, &t); err != nil {
		return Tests{}, fmt.Errorf("read a list of tests: %w", err)
	}
	return t, nil
}

// testSet collects tests by name.
type testSet struct {
	tests map[string]*Test
	more  bool
}

func (s *testSet) add(name string, state State) {
	name = testName(name)
	t := s.tests[name]
	if t == nil {
		if len(s.tests) >= maxTests {
			s.more = true
			return
		}
		if s.tests == nil {
			s.tests = map[string]*Test{}
		}
		t = &Test{Name: name, State: state}
		s.tests[name] = t
	}
	switch {
	case state == Passed:
		t.N++
		if t.State == Skipped {
			t.State = Passed
		}
	case state == Failing:
		t.State = Failing
	}
}

func (s *testSet) list() Tests {
	l := Tests{Tests: make([]Test, 0, len(s.tests)), More: s.more}
	for _, t := range s.tests {
		l.Tests = append(l.Tests, *t)
	}
	slices.SortFunc(l.Tests, func(a, b Test) int { return strings.Compare(a.Name, b.Name) })
	return l
}

// testName makes a name one line of bounded text. A long one ends in its hash,
// since many long ones begin alike.
func testName(name string) string {
	short := evidence.Line(name, maxTestName)
	if len(name) > maxTestName {
		sum := sha256.Sum256([]byte(name))
		short += "#" + hex.EncodeToString(sum[:6])
	}
	return short
}

// reader reads what a check tells of its tests.
type reader interface {
	io.Writer
	finish() report
}

// newReader returns the reader of a check in a folder, or nil if its exit
// status is all there is to read. What earlier runs have left for it to read
// is removed.
func newReader(c slice.Command, dir string) (reader, error) {
	switch c.Reads {
	case slice.ReadsGo:
		return newGoTests(), nil
	case slice.ReadsTAP:
		return newTAP(), nil
	case slice.ReadsCargo:
		return newCargo(), nil
	case slice.ReadsJUnit:
		return newJUnit(dir, c.Reports)
	case slice.ReadsExit, "":
	}
	return nil, nil
}

// report is what the tests of one command came to.
type report struct {
	// what is the thing that tells of a test, and missing where it was looked
	// for and what may be wrong if there is none.
	what, missing string
	// told is how many of those things there were.
	told                    int
	set                     testSet
	passed, failed, skipped int
	failing, flaky          []string
	notes                   []string // for Why: no words of the tests' own
	stopped                 []string
	red                     bool // something failed that was not stopped
	// broken says that code does not build, so that not all tests could run.
	broken  bool
	place   string // what a compiler complains about
	blocks  []block
	kept    int
	summary string
}

type block struct{ title, text string }

func (r *report) pass(name string) {
	r.set.add(name, Passed)
	r.passed++
}

func (r *report) skip(name string) {
	r.set.add(name, Skipped)
	r.skipped++
}

func (r *report) fail(name string) {
	r.failed++
	if len(r.failing) < maxFailing {
		r.failing = append(r.failing, evidence.Line(name, 300))
	}
}

// failedTest adds a test that failed, with what it said.
func (r *report) failedTest(name, said string) {
	r.set.add(name, Failing)
	r.fail(name)
	r.red = true
	r.say(name, said)
}

func (r *report) say(title, text string) {
	if strings.TrimSpace(text) == "" || r.kept > maxOutput || len(r.blocks) >= maxFailing {
		return
	}
	c := clip{}
	c.add(text)
	r.kept += c.size()
	r.blocks = append(r.blocks, block{title, c.String()})
}

func (r *report) flake(name string) {
	if len(r.flaky) < maxFailing {
		r.flaky = append(r.flaky, evidence.Line(name, 300))
	}
}

// layOut gives every failing test its share of the summary.
func (r *report) layOut(other string) {
	if strings.TrimSpace(other) != "" {
		r.blocks = append(r.blocks, block{"other output", other})
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d passed, %d failed, %d skipped\n", r.passed, r.failed, r.skipped)
	const least = 400
	room := summaryLimit - b.Len()
	shown := min(len(r.blocks), room/least)
	for i, bl := range r.blocks[:shown] {
		share := room / (shown - i)
		text := "--- " + evidence.Text(bl.title) + "\n" + strings.TrimRight(evidence.Text(bl.text), "\n") + "\n"
		text = evidence.Cut(text, share, share/3)
		b.WriteString(text)
		room -= len(text)
	}
	r.summary = evidence.Cut(strings.TrimRight(b.String(), "\n"), summaryLimit, summaryHead)
	r.blocks = nil
}

// judge corrects what the exit status says by what the tests did.
func (r report) judge(res *Result) {
	res.Passed, res.Failed, res.Skipped, res.Failing, res.Flaky = r.passed, r.failed, r.skipped, r.failing, r.flaky
	res.broken = r.broken
	if r.told > 0 {
		res.Summary = r.summary
	}
	details := slices.Clone(r.notes)
	if r.failed > 0 {
		details = append([]string{fmt.Sprintf("%d failed, %d passed", r.failed, r.passed)}, details...)
	}
	details = append(details, r.stopped...)
	none := fmt.Sprintf("no %s %s", r.what, r.missing)
	switch {
	case res.Outcome == machine.Unmeasured:
		return
	case len(r.stopped) > 0 && !r.red:
		res.Outcome, res.Killed = machine.Unmeasured, true
	case r.failed > 0 || r.red:
		res.Outcome = machine.Failed
	case res.Outcome == machine.Failed && r.place != "":
		res.broken = true
		details = append(details, "it does not build ("+r.place+")")
	case res.Outcome == machine.Failed && r.told == 0:
		// Whether the environment or the tree is to blame shows at the base.
		res.Outcome, res.Killed = machine.Unmeasured, true
		details = append(details, "the runner ended before any test: "+none)
	case res.Outcome == machine.Failed:
		details = append(details, "no test failed")
	case r.told == 0:
		res.Outcome = machine.Unmeasured
		details = append(details, "ran no test: "+none)
	case r.passed == 0:
		res.Outcome = machine.Unmeasured
		details = append(details, fmt.Sprintf("ran no test (%d skipped)", r.skipped))
	default:
		details = append(details, fmt.Sprintf("%d passed", r.passed))
		if r.skipped > 0 {
			details = append(details, fmt.Sprintf("%d skipped", r.skipped))
		}
	}
	res.Why = evidence.Line(res.Why+": "+strings.Join(details, ", "), maxWhy)
}

// lines cuts output into lines of bounded length.
type lines struct{ line []byte }

// write calls each for every line, and cut for the beginning of one that is
// too long.
func (l *lines) write(p []byte, each, cut func([]byte)) {
	for {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			break
		}
		each(append(l.line, p[:i]...))
		l.line, p = l.line[:0], p[i+1:]
	}
	if len(l.line)+len(p) > maxLine {
		l.line = append(l.line, p[:min(len(p), clipHead)]...)
		cut(l.line[:min(len(l.line), clipHead)])
		l.line = l.line[:0]
		p = nil
	}
	l.line = append(l.line, p...)
}

func (l *lines) close(each func([]byte)) {
	if len(l.line) > 0 {
		each(l.line)
		l.line = nil
	}
}

// compilers are how compilers and interpreters say where code is wrong: file,
// line and, if there is one, column.
var compilers = []*regexp.Regexp{
	regexp.MustCompile(`^\[ERROR\] ([^\s:]+):\[(\d+),(\d+)\]`),                                   // Maven
	regexp.MustCompile(`^e: (?:file://)?([^\s:]+):(\d+):(\d+)`),                                  // Kotlin
	regexp.MustCompile(`^e: ([^\s:]+): \((\d+), (\d+)\):`),                                       // Kotlin before 1.8
	regexp.MustCompile(`^([^\s:()]+)\((\d+),(\d+)\): error `),                                    // TypeScript, C#
	regexp.MustCompile(`^([^\s:]+):(\d+):(\d+) - error `),                                        // TypeScript for people
	regexp.MustCompile(`^([^\s:]+\.\w+):(\d+):(?:(\d+):)? (?:fatal )?error\b`),                   // javac, C, Swift
	regexp.MustCompile(`^\s*SyntaxError: ([^\s:]+): .*\((\d+):(\d+)\)`),                          // Babel
	regexp.MustCompile(`^(?:PHP )?(?:Parse|Fatal) error: .* in ([^\s:]+)(?: on line |:)(\d+)()`), // PHP
	regexp.MustCompile(`^\s*(?:E\s+)?File "([^"]+)", line (\d+)()$`),                             // Python: see pythonError
	regexp.MustCompile(`^([^\s:]+\.rb):(\d+)(): .*(?:syntax error|SyntaxError)`),                 // Ruby
	regexp.MustCompile(`^(?:\x1b\[[0-9;]*m)*\s*--> ([^\s:]+):(\d+):(\d+)`),                       // Rust: see cargo
}

var pythonError = regexp.MustCompile(`^(?:E\s+)?(?:SyntaxError|IndentationError|TabError|ModuleNotFoundError|ImportError)\b`)

const (
	pythonFile = 8
	rustPlace  = 10
)

// findPlace finds where code is wrong in output that comes line by line.
type findPlace struct {
	dir    string
	python string
	place  string
}

func (f *findPlace) look(line []byte) {
	if f.place != "" || len(line) > 4096 {
		return
	}
	line = bytes.TrimRight(line, "\r")
	if f.python != "" && pythonError.Match(line) {
		f.place = f.python
		return
	}
	for i, re := range compilers {
		m := re.FindSubmatch(line)
		if m == nil || i == rustPlace {
			continue
		}
		at := f.at(m)
		if i == pythonFile {
			f.python = at
		} else {
			f.place = at
		}
		return
	}
}

func (f *findPlace) at(m [][]byte) string {
	file := string(m[1])
	if f.dir != "" {
		file = strings.TrimPrefix(file, f.dir+"/")
	}
	at := file + ":" + string(m[2])
	if len(m) > 3 && len(m[3]) > 0 {
		at += ":" + string(m[3])
	}
	return evidence.Line(at, 200)
}
