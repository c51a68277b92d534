package check

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
)

// goTests reads the output of `go test -json` as it comes. Lines that are no
// event are kept as text.
type goTests struct {
	lines
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
	g.write(p, g.read, func(head []byte) { g.text(string(head) + "[...]") })
	return len(p), nil
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

func (g *goTests) finish() report {
	g.close(g.read)
	r := report{what: "event of go test -json", missing: "in the output (is -json missing?)", told: g.events}
	r.set.more = g.tests > maxTests
	for _, name := range g.order {
		r.blocks = append(r.blocks, g.packages[name].report(g, &r)...)
	}
	r.layOut(g.plain.String())
	return r
}

// report adds one package to r. A test is named package.Test/Sub. A test with
// subtests counts only if it failed while none of them did; a test that did
// not end, in a package that did not pass, failed.
func (p *goPackage) report(g *goTests, r *report) []block {
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
		case bad(t):
			r.set.add(full, Failing)
		case t.state == "pass":
			r.set.add(full, Passed)
		case t.state == "skip":
			r.set.add(full, Skipped)
		}
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
		r.red, r.broken = true, true
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
