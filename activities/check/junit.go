package check

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"interlock/activities/evidence"
)

const (
	maxReports     = 10_000
	maxReportBytes = 32 << 20
	maxAllReports  = 256 << 20
	maxDepth       = 100
)

// junit reads the files that a run leaves, in the dialects of Maven, Gradle,
// pytest, jest, PHPUnit, GoogleTest and what is like them.
type junit struct {
	lines
	dir   string
	globs []string
	findPlace
	report report
	bytes  int64
}

// newJUnit removes the reports that are there: what is there after the run, the
// run has written.
func newJUnit(dir string, globs []string) (*junit, error) {
	j := &junit{dir: dir, globs: globs, findPlace: findPlace{dir: dir}}
	j.report = report{what: "test", missing: "in files that match " + strings.Join(globs, ", ")}
	err := j.each(func(root *os.Root, name string) error { return root.Remove(name) })
	if err != nil {
		return nil, fmt.Errorf("remove old reports: %w", err)
	}
	return j, nil
}

// Write looks for what compilers say. It never fails.
func (j *junit) Write(p []byte) (int, error) {
	j.write(p, j.look, func([]byte) {})
	return len(p), nil
}

// each calls do for every file that the globs match, and follows no link.
func (j *junit) each(do func(*os.Root, string) error) error {
	root, err := os.OpenRoot(j.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	seen := map[string]bool{}
	for _, glob := range j.globs {
		from := literal(glob)
		info, err := root.Lstat(from)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() && !info.Mode().IsRegular() {
			continue
		}
		if err != nil {
			return err
		}
		err = fs.WalkDir(root.FS(), from, func(name string, d fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil
			case err != nil:
				return err
			case d.IsDir() && name == ".git":
				return fs.SkipDir
			case !d.Type().IsRegular() || seen[name]:
				return nil
			}
			ok, err := matches(glob, name)
			if err != nil || !ok {
				return err
			}
			seen[name] = true
			if len(seen) > maxReports {
				return errTooMany
			}
			return do(root, name)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

var errTooMany = fmt.Errorf("there are more than %d", maxReports)

// literal is the folder above all that a glob can match.
func literal(glob string) string {
	parts := strings.Split(glob, "/")
	for i, p := range parts {
		if strings.ContainsAny(p, `*?[\`) || i == len(parts)-1 {
			return path.Join(append([]string{"."}, parts[:i]...)...)
		}
	}
	return "."
}

func (j *junit) finish() report {
	j.close(j.look)
	r := &j.report
	if err := j.each(j.read); err != nil {
		j.broken(err.Error())
	}
	r.place = j.place
	r.layOut("")
	return *r
}

// broken says that reports cannot be read, so that nothing is known.
func (j *junit) broken(why string) {
	j.report.stopped = append(j.report.stopped, "the reports cannot be read: "+why)
}

func (j *junit) read(root *os.Root, name string) error {
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxReportBytes+1))
	if err != nil {
		return err
	}
	j.bytes += int64(len(b))
	if len(b) > maxReportBytes || j.bytes > maxAllReports {
		return fmt.Errorf("%s is too large", evidence.Line(name, 200))
	}
	if len(bytes.TrimSpace(b)) == 0 {
		return fmt.Errorf("%s is empty", evidence.Line(name, 200))
	}
	if err := j.parse(b); err != nil {
		return fmt.Errorf("%s: %w", evidence.Line(name, 200), err)
	}
	return nil
}

// junitCase is one testcase as it is read.
type junitCase struct {
	name, class, file, line string
	state                   State
	said                    string
	flaky                   bool
	load                    bool // the file of tests could not be loaded
}

// junitSuite is one testsuite as it is read.
type junitSuite struct {
	name     string
	bad, had int // failures that it claims, and those that its tests have
	tests    int
	said     string
}

// parse reads one document. encoding/xml knows no entities but the five of
// XML, and a document type is refused, so that nothing can grow.
func (j *junit) parse(b []byte) error {
	d := xml.NewDecoder(bytes.NewReader(legal(b)))
	d.CharsetReader = charset
	var suites []junitSuite
	var c *junitCase
	var inside string // the element of the case whose text is read
	var text strings.Builder
	depth, found := 0, false
	for {
		t, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		switch t := t.(type) {
		case xml.Directive:
			return errors.New("it has a document type, which is refused")
		case xml.StartElement:
			if depth++; depth > maxDepth {
				return errors.New("it is nested too deeply")
			}
			at := attributes(t)
			switch el := t.Name.Local; {
			case el == "testsuites" || el == "testsuite":
				found = true
				s := junitSuite{name: at["name"]}
				if el == "testsuite" {
					s.bad = number(at["failures"]) + number(at["errors"])
				}
				suites = append(suites, s)
			case el == "testcase":
				found = true
				c = &junitCase{name: at["name"], class: or(at["classname"], at["class"]), file: at["file"], line: at["line"], state: Passed}
				switch {
				case at["status"] == "notrun" || at["status"] == "disabled" || at["status"] == "skipped" || at["result"] == "suppressed" || at["result"] == "skipped":
					c.state = Skipped
				case at["status"] == "fail" || at["status"] == "failed":
					c.state = Failing
				}
			case inside != "":
			case el == "failure" || el == "error" || el == "skipped" || el == "disabled" || el == "flakyFailure" || el == "flakyError" || el == "rerunFailure" || el == "rerunError" || el == "warning":
				inside = el
				text.Reset()
				text.WriteString(at["message"])
				if c != nil {
					c.take(el, at)
				}
			}
		case xml.CharData:
			if (inside == "failure" || inside == "error") && text.Len() < clipHead+clipTail {
				text.WriteByte('\n')
				text.Write(t[:min(len(t), clipHead+clipTail)])
			}
		case xml.EndElement:
			depth--
			switch el := t.Name.Local; {
			case el == inside:
				if c != nil && (el == "failure" || el == "error") {
					c.said += text.String() + "\n"
				} else if n := len(suites); n > 0 && c == nil && (el == "failure" || el == "error") {
					suites[n-1].said += text.String() + "\n"
				}
				inside = ""
			case el == "testcase" && c != nil:
				suite := ""
				for i := range suites {
					suites[i].tests++
					if c.state == Failing {
						suites[i].had++
					}
					suite = suites[i].name
				}
				j.add(*c, suite)
				c = nil
			case el == "testsuite" || el == "testsuites":
				j.end(suites[len(suites)-1])
				suites = suites[:len(suites)-1]
			}
		}
	}
	if !found {
		return errors.New("it is no JUnit XML: it has no testsuite")
	}
	return nil
}

func (c *junitCase) take(el string, at map[string]string) {
	switch el {
	case "failure", "error":
		c.state = Failing
		c.load = c.load || at["message"] == "collection failure"
	case "skipped", "disabled":
		if c.state == Passed {
			c.state = Skipped
		}
	case "flakyFailure", "flakyError":
		c.flaky = true
	}
}

// add adds a test under the name that people call it: class and name, but the
// name alone where it holds the class.
func (j *junit) add(c junitCase, suite string) {
	r := &j.report
	r.told++
	name := c.name
	switch {
	case c.class == "" && suite != "" && name == "":
		name = suite
	case c.class == "" || c.class == c.name:
	case c.class == "test" && suite != "": // Node.js has no class but this one
		name = suite + " > " + name
	case name == "":
		name = c.class
	case strings.ContainsAny(c.class, "/ "):
		name = c.class + " > " + name
	default:
		name = c.class + "." + name
	}
	switch c.state {
	case Failing:
		r.failedTest(name, c.said)
		if c.load {
			j.loadFailed(name, c.said)
		}
	case Skipped:
		r.skip(name)
	case Passed:
		r.pass(name)
		if c.flaky {
			r.flake(name)
		}
	}
}

func (j *junit) loadFailed(name, said string) {
	r := &j.report
	f := findPlace{dir: j.dir}
	for line := range strings.Lines(said) {
		f.look([]byte(strings.TrimRight(line, "\n")))
	}
	where := ""
	if f.place != "" {
		where = " (" + f.place + ")"
	}
	r.broken = true
	r.notes = append(r.notes, evidence.Line(name, 100)+" does not load"+where)
}

// end looks at a suite that claims failures which none of its tests has: it
// could not be begun or ended.
func (j *junit) end(s junitSuite) {
	if s.bad > 0 && s.had == 0 || s.said != "" && s.tests == 0 {
		j.report.told++
		j.report.fail(or(s.name, "a suite without a name"))
		j.report.red = true
		j.report.say(s.name, s.said)
	}
}

func attributes(e xml.StartElement) map[string]string {
	m := make(map[string]string, len(e.Attr))
	for _, a := range e.Attr {
		m[a.Name.Local] = a.Value
	}
	return m
}

func number(s string) int {
	n, err := strconv.Atoi(strings.TrimSpace(s))
	if err != nil {
		return 0
	}
	return n
}

func or(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

var reference = regexp.MustCompile(`&#(?:[xX]([0-9a-fA-F]{1,8})|([0-9]{1,9}));`)

// legal replaces what XML forbids and runners write all the same: the control
// characters of colours and bells.
func legal(b []byte) []byte {
	if bytes.HasPrefix(b, []byte{0xEF, 0xBB, 0xBF}) {
		b = b[3:]
	}
	b = bytes.Map(func(r rune) rune {
		if r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xFFFE || r == 0xFFFF {
			return '?'
		}
		return r
	}, validOrLatin(b))
	return reference.ReplaceAllFunc(b, func(ref []byte) []byte {
		m := reference.FindSubmatch(ref)
		n, err := strconv.ParseInt(string(m[1])+string(m[2]), map[bool]int{true: 16, false: 10}[len(m[1]) > 0], 64)
		if err != nil || n < ' ' && !slices.Contains([]int64{'\t', '\n', '\r'}, n) || n >= 0xD800 && n <= 0xDFFF || n >= 0xFFFE {
			return []byte("?")
		}
		return ref
	})
}

// validOrLatin takes bytes that are no UTF-8 for Latin-1, the other encoding
// that runners write.
func validOrLatin(b []byte) []byte {
	if utf8.Valid(b) {
		return b
	}
	out := make([]rune, len(b))
	for i, c := range b {
		out[i] = rune(c)
	}
	return []byte(string(out))
}

// charset accepts what validOrLatin has made UTF-8.
func charset(label string, in io.Reader) (io.Reader, error) {
	switch strings.ToLower(label) {
	case "utf-8", "utf8", "us-ascii", "ascii", "iso-8859-1", "latin1", "windows-1252", "iso-8859-15":
		return in, nil
	}
	return nil, fmt.Errorf("its encoding %.40q is not known: write UTF-8", label)
}
