package check

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"interlock/activities/evidence"
)

// cargo reads the output of cargo test and of cargo nextest, as text and as
// JSON lines. A test is named after the program that it is in, "store
// tests::finds", since every crate has a tests::works.
type cargo struct {
	lines
	report  report
	place   string
	fault   string // the error of the compiler that a place belongs to
	plain   clip
	program string
	open    *cargoRun
	pending string // a test whose result comes on a later line
	said    map[string]*clip
	hearing string // the test whose output is read
	waiting map[string]bool
	seen    map[string]bool // results of nextest, which tells failures twice
	tried   map[string]bool // tests whose last try failed
	errors  clip
	failed  []string
	killed  string
}

// cargoRun is one program of tests.
type cargoRun struct {
	program string
	ended   bool
}

func newCargo() *cargo {
	c := &cargo{said: map[string]*clip{}, waiting: map[string]bool{}, seen: map[string]bool{}, tried: map[string]bool{}}
	c.report = report{what: "test of cargo", missing: "in the output"}
	return c
}

// Write reads a chunk of output. It never fails.
func (c *cargo) Write(p []byte) (int, error) {
	c.write(p, c.read, func(head []byte) { c.plain.add(string(head) + "[...]\n") })
	return len(p), nil
}

var (
	ansi         = regexp.MustCompile(`\x1b\[[0-9;]*m`)
	cargoRunning = regexp.MustCompile(`^\s*Running (?:unittests )?\S+ \((\S+)\)$`)
	cargoDoc     = regexp.MustCompile(`^\s*Doc-tests (\S+)$`)
	cargoBegins  = regexp.MustCompile(`^running \d+ tests?$`)
	cargoTest    = regexp.MustCompile(`^test (.+?) \.\.\.(?: (.*))?$`)
	cargoResult  = regexp.MustCompile(`^(ok|FAILED|ignored(?:, .*)?|bench: .*)(?: <\d+\.\d+s>)?$`)
	cargoEnds    = regexp.MustCompile(`^test result: (?:ok|FAILED)\. `)
	cargoSaid    = regexp.MustCompile(`^---- (.+) (?:stdout|stderr) ----$`)
	cargoNext    = regexp.MustCompile(`^\s+(?:TRY \d+ )?(PASS|FAIL|FLAKY \d+/\d+|LEAK|LEAK-FAIL|TIMEOUT|SIG[A-Z]+|ABORT|SKIP) \[[^\]]*\] (?:\([ \d/]+\) )?(.+)$`)
	cargoTry     = regexp.MustCompile(`^\s+TRY \d+ `)
	cargoError   = regexp.MustCompile(`^error(?:\[E\d+\])?: `)
	cargoSignal  = regexp.MustCompile(`\(signal: (\d+), (SIG[A-Z]+)`)
	cargoHash    = regexp.MustCompile(`-[0-9a-f]{16}$`)
	docLine      = regexp.MustCompile(` \(line \d+\)`)
	shouldPanic  = regexp.MustCompile(` - (?:should panic|compile fail|compile)$`)
)

func (c *cargo) read(raw []byte) {
	raw = bytes.TrimRight(raw, "\r")
	if bytes.HasPrefix(raw, []byte("{")) && c.event(raw) {
		return
	}
	line := string(ansi.ReplaceAll(raw, nil))
	if m := cargoRunning.FindStringSubmatch(line); m != nil {
		c.begin(cargoHash.ReplaceAllString(path.Base(m[1]), ""))
		return
	}
	if m := cargoDoc.FindStringSubmatch(line); m != nil {
		c.begin(m[1] + " doc")
		return
	}
	if m := cargoSaid.FindStringSubmatch(line); m != nil {
		c.hearing = c.name(m[1])
		return
	}
	switch {
	case cargoBegins.MatchString(line):
		c.closeProgram()
		c.open = &cargoRun{program: c.program}
		return
	case cargoEnds.MatchString(line):
		if c.open != nil {
			c.open.ended = true
		}
		c.hearing, c.pending = "", ""
		return
	case line == "failures:" || line == "successes:":
		c.hearing = ""
		return
	}
	if c.hearing != "" {
		c.keep(c.hearing, line)
		return
	}
	if c.text(line) {
		return
	}
	c.fails(line)
	c.plain.add(line + "\n")
}

// text reads a line that tells of a test.
func (c *cargo) text(line string) bool {
	if m := cargoTest.FindStringSubmatch(line); m != nil && c.open != nil && !c.open.ended {
		if r := cargoResult.FindStringSubmatch(m[2]); r != nil {
			c.result(c.name(m[1]), r[1])
			c.pending = ""
		} else {
			c.pending = m[1]
		}
		return true
	}
	if c.pending != "" {
		if r := cargoResult.FindStringSubmatch(line); r != nil {
			c.result(c.name(c.pending), r[1])
			c.pending = ""
			return true
		}
	}
	if m := cargoNext.FindStringSubmatch(line); m != nil {
		c.nextest(m[1], strings.TrimSpace(m[2]), cargoTry.MatchString(line))
		return true
	}
	return false
}

// fails looks for what the compiler and cargo complain about.
func (c *cargo) fails(line string) {
	switch {
	case strings.HasPrefix(line, "error: could not compile "):
		c.report.broken = true
	case cargoError.MatchString(line):
		c.fault = line
		c.errors.add(line + "\n")
	case c.fault != "":
		if m := compilers[rustPlace].FindStringSubmatch(line); m != nil && c.place == "" {
			c.place = evidence.Line(m[1]+":"+m[2]+":"+m[3], 200)
		}
		c.errors.add(line + "\n")
		if strings.TrimSpace(line) == "" {
			c.fault = ""
		}
	}
	if m := cargoSignal.FindStringSubmatch(line); m != nil {
		c.killed = m[2]
	}
}

// begin is the line that names the program that runs now.
func (c *cargo) begin(program string) {
	c.closeProgram()
	c.program, c.hearing, c.pending = program, "", ""
}

// closeProgram ends the program that ran; one that did not say how it ended was ended.
func (c *cargo) closeProgram() {
	if c.open != nil && !c.open.ended {
		c.broke(c.open.program)
	}
	c.open = nil
}

func (c *cargo) broke(program string) {
	name := or(program, "a program of tests")
	if c.pending != "" {
		name = c.name(c.pending)
	}
	for _, test := range slices.Sorted(maps.Keys(c.waiting)) {
		c.report.set.add(test, Failing)
		c.failed = append(c.failed, test)
	}
	clear(c.waiting)
	c.report.notes = append(c.report.notes, "the process ended in "+evidence.Line(name, 200))
	if len(c.failed) == 0 {
		c.report.fail(name)
	}
	c.report.red = true
}

// name is the name of a test without what differs from run to run: the lines of
// documentation move whenever something above them does.
func (c *cargo) name(test string) string {
	test = shouldPanic.ReplaceAllString(docLine.ReplaceAllString(test, ""), "")
	if c.program == "" {
		return test
	}
	return c.program + " " + test
}

func (c *cargo) result(name, how string) {
	c.report.told++
	delete(c.waiting, name)
	switch {
	case how == "ok" || strings.HasPrefix(how, "bench"):
		c.report.pass(name)
	case strings.HasPrefix(how, "ignored"):
		c.report.skip(name)
	default:
		c.report.set.add(name, Failing)
		c.report.red = true
		c.failed = append(c.failed, name)
	}
}

// nextest takes a line of nextest: what it printed of failures before, it
// prints again at the end.
func (c *cargo) nextest(how, name string, try bool) {
	name = docLine.ReplaceAllString(name, "")
	if strings.HasPrefix(how, "FLAKY") {
		c.report.flake(name)
		if !c.seen[name] {
			how = "PASS"
		}
	}
	if c.seen[name] || len(c.seen)+len(c.tried) > maxTests {
		return
	}
	if try && how != "PASS" {
		c.tried[name] = true // another try may follow
		return
	}
	c.seen[name] = true
	switch how {
	case "PASS", "LEAK":
		c.result(name, "ok")
	case "SKIP":
		c.result(name, "ignored")
	default:
		c.result(name, how)
	}
}

func (c *cargo) keep(test, line string) {
	s := c.said[test]
	if s == nil {
		if len(c.said) >= maxFailing {
			return
		}
		s = &clip{}
		c.said[test] = s
	}
	s.add(line + "\n")
}

// cargoEvent is a line of libtest's and nextest's JSON, or of cargo's.
type cargoEvent struct {
	Type    string
	Event   string
	Name    string
	Stdout  string
	Reason  string
	Crate   string `json:"crate"`
	Nextest struct {
		Crate string `json:"crate"`
		Bin   string `json:"test_binary"`
	} `json:"nextest"`
	Message json.RawMessage
}

type compilerMessage struct {
	Level    string
	Rendered string
	Spans    []struct {
		File    string `json:"file_name"`
		Line    int    `json:"line_start"`
		Column  int    `json:"column_start"`
		Primary bool   `json:"is_primary"`
	}
}

// event reads a line of JSON, if it is one of cargo's.
func (c *cargo) event(raw []byte) bool {
	var e cargoEvent
	if json.Unmarshal(raw, &e) != nil {
		return false
	}
	if e.Reason != "" {
		c.compiled(e)
		return true
	}
	switch e.Type + " " + e.Event {
	case "suite started":
		c.closeProgram()
		if e.Nextest.Bin != "" {
			c.program = e.Nextest.Bin
			if e.Nextest.Crate != "" && e.Nextest.Crate != e.Nextest.Bin {
				c.program = e.Nextest.Crate + "::" + e.Nextest.Bin
			}
		}
		c.open = &cargoRun{program: c.program}
	case "suite ok", "suite failed":
		if c.open != nil {
			c.open.ended = true
		}
	case "test started":
		if len(c.waiting) < maxTests {
			c.waiting[c.jsonName(e.Name)] = true
		}
	case "test ok":
		c.result(c.jsonName(e.Name), "ok")
	case "test ignored":
		c.result(c.jsonName(e.Name), "ignored")
	case "test failed", "test timeout":
		name := c.jsonName(e.Name)
		if e.Event == "timeout" {
			return true // it only warns: how the test ended comes later
		}
		c.result(name, "FAILED")
		c.keep(name, e.Stdout)
		var message string
		if json.Unmarshal(e.Message, &message) == nil {
			c.keep(name, message)
		}
	default:
		return e.Type == "suite" || e.Type == "test" || e.Type == "bench" || e.Type == "report"
	}
	return true
}

// jsonName is the name of a test as nextest tells it, "crate::binary$test",
// under the name that nextest has for people.
func (c *cargo) jsonName(name string) string {
	binary, test, ok := strings.Cut(name, "$")
	if !ok {
		return c.name(name)
	}
	if crate, same, found := strings.Cut(binary, "::"); found && crate == same {
		binary = crate
	}
	return binary + " " + docLine.ReplaceAllString(test, "")
}

// compiled reads what cargo says of a crate that it compiles.
func (c *cargo) compiled(e cargoEvent) {
	var m compilerMessage
	if e.Reason != "compiler-message" || json.Unmarshal(e.Message, &m) != nil || m.Level != "error" {
		return
	}
	c.report.broken = true
	c.errors.add(m.Rendered + "\n")
	for _, s := range m.Spans {
		if s.Primary && c.place == "" {
			c.place = evidence.Line(fmt.Sprintf("%s:%d:%d", s.File, s.Line, s.Column), 200)
		}
	}
}

func (c *cargo) finish() report {
	c.close(c.read)
	c.closeProgram()
	r := &c.report
	for _, name := range slices.Sorted(maps.Keys(c.tried)) {
		if !c.seen[name] {
			c.result(name, "FAILED")
		}
	}
	for _, name := range c.failed {
		r.fail(name)
		text := ""
		if s := c.said[name]; s != nil {
			text = s.String()
		}
		r.say(name, text)
	}
	switch {
	case r.broken:
		r.red = true
		where := ""
		if c.place != "" {
			where = " (" + c.place + ")"
		}
		r.notes = append(r.notes, "it does not build"+where)
		r.say("it does not build", c.errors.String())
	case (c.killed == "SIGKILL" || c.killed == "SIGTERM") && len(c.failed) == 0:
		r.stopped = append(r.stopped, "was killed by "+c.killed)
		r.red = false
	}
	r.layOut(c.plain.String())
	return *r
}
