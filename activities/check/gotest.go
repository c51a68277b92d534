package check

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"interlock/activities/evidence"
	"interlock/machine"
)

// What a reader keeps at most, so that no output, however hostile, fills the
// worker's memory.
const (
	maxFailing = 50
	maxLine    = 1 << 20
	maxTests   = 100_000
	maxOutput  = 16 << 20 // of tests that did not pass (yet), together
	maxWhy     = 400
)

// goTests reads the output of `go test -json` as it comes. Lines that are no
// event are kept as text.
type goTests struct {
	line   []byte
	events int
	tests  int
	output int

	packages map[string]*goPackage
	order    []string
	builds   map[string]*clip // by import path
	plain    clip
}

type goPackage struct {
	name        string
	tests       map[string]*goTest
	order       []string
	out         clip
	ended       string // pass, fail or skip
	failedBuild string
	noBuild     bool   // build or set-up failed
	stopped     string // "was killed", "timed out"
	panicked    string // the test, or ""
	crashed     bool
}

type goTest struct {
	state string // run, pass, fail or skip
	out   clip
}

type goEvent struct {
	Action      string
	Package     string
	ImportPath  string
	Test        string
	Output      string
	FailedBuild string
}

func newGoTests() *goTests {
	return &goTests{packages: map[string]*goPackage{}, builds: map[string]*clip{}}
}

// Write reads a chunk of output. It never fails.
func (g *goTests) Write(p []byte) (int, error) {
	n := len(p)
	for {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			break
		}
		g.read(append(g.line, p[:i]...))
		g.line, p = g.line[:0], p[i+1:]
	}
	if len(g.line)+len(p) > maxLine {
		g.text(string(g.line[:min(len(g.line), clipHead)]) + "[...]")
		g.line = g.line[:0]
		p = nil
	}
	g.line = append(g.line, p...)
	return n, nil
}

func (g *goTests) read(line []byte) {
	e, before, ok := parseEvent(line)
	if !ok {
		g.text(string(line))
		return
	}
	if len(before) > 0 {
		g.text(string(before))
	}
	g.events++
	g.event(e)
}

func (g *goTests) text(line string) { g.plain.add(line + "\n") }

// parseEvent finds the event in a line, also after text without a line end
// that another program wrote.
func parseEvent(line []byte) (e goEvent, before []byte, ok bool) {
	i := bytes.Index(line, []byte(`{"`))
	if i < 0 || json.Unmarshal(line[i:], &e) != nil {
		return e, nil, false
	}
	switch e.Action {
	case "start", "run", "pause", "cont", "pass", "bench", "fail", "output", "skip", "attr", "artifacts":
		return e, line[:i], e.Package != ""
	case "build-output", "build-fail":
		return e, line[:i], e.ImportPath != ""
	}
	return e, nil, false
}

func (g *goTests) event(e goEvent) {
	if e.Package == "" {
		if e.Action == "build-output" {
			b := g.builds[e.ImportPath]
			if b == nil && len(g.builds) < maxTests {
				b = &clip{}
				g.builds[e.ImportPath] = b
			}
			if b != nil {
				g.keep(b, e.Output)
			}
		}
		return
	}
	p := g.packages[e.Package]
	if p == nil {
		if g.tests++; g.tests > maxTests {
			return
		}
		p = &goPackage{name: e.Package, tests: map[string]*goTest{}}
		g.packages[e.Package] = p
		g.order = append(g.order, e.Package)
	}
	if e.Action == "output" {
		p.look(e)
	}
	if e.Test == "" {
		switch e.Action {
		case "output":
			g.keep(&p.out, e.Output)
		case "pass", "fail", "skip":
			p.ended = e.Action
			p.failedBuild = e.FailedBuild
			p.noBuild = p.noBuild || e.FailedBuild != ""
		}
		return
	}
	t := p.tests[e.Test]
	if t == nil {
		if g.tests++; g.tests > maxTests {
			return
		}
		t = &goTest{state: "run"}
		p.tests[e.Test] = t
		p.order = append(p.order, e.Test)
	}
	switch e.Action {
	case "output":
		if !frame(e.Output) {
			g.keep(&t.out, e.Output)
		}
	case "pass", "skip":
		if t.state != "fail" { // run more than once, a test that failed once failed
			t.state = e.Action
			g.output -= t.out.size()
			t.out = clip{}
		}
	case "fail":
		t.state = "fail"
	}
}

func (g *goTests) keep(c *clip, s string) {
	if g.output > maxOutput {
		return
	}
	before := c.size()
	c.add(s)
	g.output += c.size() - before
}

// frame reports whether a line only says what the events say.
func frame(line string) bool {
	line = strings.TrimLeft(line, " ")
	for _, begin := range []string{"=== RUN", "=== PAUSE", "=== CONT", "=== NAME", "--- PASS", "--- SKIP"} {
		if strings.HasPrefix(line, begin) {
			return true
		}
	}
	return false
}

// look notes what only the output of a package tells.
func (p *goPackage) look(e goEvent) {
	switch line := strings.TrimRight(e.Output, "\n"); {
	case strings.HasPrefix(line, "panic: test timed out after "):
		p.stopped = "timed out"
	case line == "signal: killed", line == "signal: terminated":
		p.stopped = "was killed"
	case strings.HasPrefix(line, "panic: "), strings.HasPrefix(line, "fatal error: "):
		p.crashed = true
		if p.panicked == "" {
			p.panicked = e.Test
		}
	case strings.HasPrefix(line, "FAIL\t") && (strings.HasSuffix(line, "[build failed]") || strings.HasSuffix(line, "[setup failed]")):
		p.noBuild = true
	}
}

// goReport is what the tests of one command came to.
type goReport struct {
	events                  int
	passed, failed, skipped int
	failing                 []string
	notes                   []string // for Why: no words of the tests' own
	stopped                 []string
	red                     bool // something failed that was not stopped
	summary                 string
}

func (g *goTests) finish() goReport {
	if len(g.line) > 0 {
		g.read(g.line)
		g.line = nil
	}
	r := goReport{events: g.events}
	var blocks []block
	for _, name := range g.order {
		blocks = append(blocks, g.packages[name].report(g, &r)...)
	}
	if text := g.plain.String(); len(strings.TrimSpace(text)) > 0 {
		blocks = append(blocks, block{"other output", text})
	}
	r.summary = layOut(r, blocks)
	return r
}

type block struct{ title, text string }

func (r *goReport) fail(name string) {
	r.failed++
	if len(r.failing) < maxFailing {
		r.failing = append(r.failing, evidence.Line(name, 300))
	}
}

// report adds one package to r. A test is named package.Test/Sub. A test with
// subtests counts only if it failed while none of them did; a test that did
// not end, in a package that did not pass, failed.
func (p *goPackage) report(g *goTests, r *goReport) []block {
	parent, blamed := map[string]bool{}, map[string]bool{}
	bad := func(t *goTest) bool { return t.state == "fail" || t.state == "run" && p.ended != "pass" }
	for _, name := range p.order {
		for i := strings.LastIndexByte(name, '/'); i >= 0; i = strings.LastIndexByte(name[:i], '/') {
			parent[name[:i]] = true
			if bad(p.tests[name]) {
				blamed[name[:i]] = true
			}
		}
	}
	var blocks []block
	var unfinished string
	found := false
	for _, name := range p.order {
		t := p.tests[name]
		full := p.name + "." + name
		switch {
		case bad(t) && !blamed[name]:
			found = true
			r.fail(full)
			if t.state == "run" && unfinished == "" {
				unfinished = full
			}
			if t.state == "fail" || p.stopped == "" {
				r.red = true
			}
			fallthrough
		case bad(t):
			if text := t.out.String(); strings.TrimSpace(text) != "" {
				blocks = append(blocks, block{full, text})
			}
		case parent[name]:
		case t.state == "pass":
			r.passed++
		case t.state == "skip":
			r.skipped++
		}
	}
	if p.ended == "pass" || p.ended == "skip" || p.ended == "" && !found {
		return blocks
	}
	switch {
	case p.noBuild:
		r.red = true
		text, where := p.buildOutput(g)
		r.notes = append(r.notes, p.name+" does not build"+where)
		if strings.TrimSpace(text) != "" {
			blocks = append(blocks, block{p.name + " does not build", text})
		}
	case p.stopped != "":
		r.stopped = append(r.stopped, p.name+" "+p.stopped)
	case p.crashed && p.panicked != "":
		r.notes = append(r.notes, "panic in "+p.name+"."+p.panicked)
	case p.crashed:
		r.notes = append(r.notes, "panic in "+p.name)
	case unfinished != "":
		r.notes = append(r.notes, "the process ended in "+unfinished)
	}
	if !found {
		r.fail(p.name)
		r.red = r.red || p.stopped == ""
	}
	if text := p.out.String(); !p.noBuild && (!found || p.crashed || p.stopped != "") {
		blocks = append(blocks, block{p.name, text})
	}
	return blocks
}

var place = regexp.MustCompile(`(?m)^(?:vet: )?([^\s:]+\.go:\d+(?::\d+)?): `)

// buildOutput returns what the compiler said about a package, and the first
// place in it as " (file:line:column)".
func (p *goPackage) buildOutput(g *goTests) (text, where string) {
	out := &g.plain // where Go before 1.24 puts it
	for _, path := range []string{p.name, p.failedBuild} {
		if b := g.builds[path]; b != nil {
			out = b
		}
	}
	if m := place.FindStringSubmatch(out.String()); m != nil {
		where = " (" + m[1] + ")"
	}
	if out == &g.plain {
		return "", where
	}
	return out.String(), where
}

// layOut gives every failing test its share of the summary.
func layOut(r goReport, blocks []block) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d passed, %d failed, %d skipped\n", r.passed, r.failed, r.skipped)
	const least = 400
	room := summaryLimit - b.Len()
	shown := min(len(blocks), room/least)
	for i, bl := range blocks[:shown] {
		share := room / (shown - i)
		text := "--- " + evidence.Text(bl.title) + "\n" + strings.TrimRight(evidence.Text(bl.text), "\n") + "\n"
		text = evidence.Cut(text, share, share/3)
		b.WriteString(text)
		room -= len(text)
	}
	return evidence.Cut(strings.TrimRight(b.String(), "\n"), summaryLimit, summaryHead)
}

// judge corrects what the exit status says by what the tests did.
func (r goReport) judge(res *Result) {
	res.Passed, res.Failed, res.Skipped, res.Failing = r.passed, r.failed, r.skipped, r.failing
	if r.events > 0 {
		res.Summary = r.summary
	}
	details := slices.Clone(r.notes)
	if r.failed > 0 {
		details = append([]string{fmt.Sprintf("%d failed, %d passed", r.failed, r.passed)}, details...)
	}
	details = append(details, r.stopped...)
	switch {
	case res.Outcome == machine.Unmeasured:
		return
	case len(r.stopped) > 0 && !r.red:
		res.Outcome, res.Killed = machine.Unmeasured, true
	case r.failed > 0:
		res.Outcome = machine.Failed
	case res.Outcome == machine.Failed && r.events == 0:
		details = append(details, "no event of go test -json in the output")
	case res.Outcome == machine.Failed:
		details = append(details, "no test failed")
	case r.events == 0:
		res.Outcome = machine.Unmeasured
		details = append(details, "ran no test: no event of go test -json in the output (is -json missing?)")
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
