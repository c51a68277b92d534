// Package guard finds out whether a change takes tests away, or makes them
// unable to fail: a pure function over two trees.
//
// It reads source text as tokens and structure, never as lines, and compares
// sets of tests over the whole change, so that a move, a rename or a table in
// place of three functions is no loss, and a loss hidden in a move is one.
package guard

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"sort"
	"strings"
)

// Verdict is what the guard says of a change, and of one finding.
type Verdict string

// The verdicts, from the best to the worst.
const (
	// Clean: every check of the base is still made, or the change is not about tests.
	Clean Verdict = "clean"
	// Review: something that a person or a judge should look at.
	Review Verdict = "review"
	// Tampered: fewer live tests than before, or tests that can no longer fail,
	// while what they test is still there; or a protected path that changed.
	Tampered Verdict = "tampered"
)

func (v Verdict) rank() int { return slices.Index([]Verdict{Clean, Review, Tampered}, v) }

// Finding is one thing that the guard saw.
type Finding struct {
	// Kind is the word for what was done, such as deleted-test.
	Kind     string  `json:"kind"`
	Verdict  Verdict `json:"verdict"`
	Language string  `json:"language"`
	File     string  `json:"file"`
	// Line is in File at the head; 0 if it is not there any more.
	Line int `json:"line"`
	// Test is the test as a person would say it; empty if it is about all of them.
	Test string `json:"test"`
	Why  string `json:"why"`
}

// Report is the guard's answer.
type Report struct {
	Verdict  Verdict   `json:"verdict"`
	Findings []Finding `json:"findings"`
	// Unread says which changed files the guard did not read, and why: what it
	// says nothing about.
	Unread []Unread `json:"unread,omitempty"`
}

// Unread is a language, or another reason, with the files that were not read.
type Unread struct {
	Language string   `json:"language"`
	Files    []string `json:"files"`
}

// Side is one of the two trees.
type Side uint8

// The sides.
const (
	Base Side = iota
	Head
)

func (s Side) String() string {
	if s == Base {
		return "base"
	}
	return "head"
}

// Entry is one path of a tree, as git lists it. The name may hold any byte.
type Entry struct {
	Path string
	// Mode is 100644, 100755, 120000 (a link) or 160000 (a submodule).
	Mode string
	// Object is the id of the content.
	Object string
}

func (e *Entry) file() bool { return e != nil && strings.HasPrefix(e.Mode, "100") }

// Change is a path whose entry differs between the trees; nil is absent. A
// rename is two changes.
type Change struct {
	Path       string
	Base, Head *Entry
}

// Input is what the guard looks at.
type Input struct {
	// Changes are all paths that differ.
	Changes []Change
	// List returns all paths of a tree. It is called only if a change makes the
	// rest of the tree matter, and at most once a side.
	List func(Side) ([]Entry, error)
	// Read returns the content of a file.
	Read func(Side, string) ([]byte, error)
	// Protected are globs, with the meaning of git's pathspecs, of paths that may
	// not change; Frozen those of tests that may not.
	Protected, Frozen []string
	// Surroundings is the state of the repository around the commits, if it is to
	// be looked at too.
	Surroundings *Surroundings
}

// UnreadableError says what could not be read. Nothing is said about a change
// that could not be read whole.
type UnreadableError struct {
	Path string
	Side Side
	Err  error
}

func (e *UnreadableError) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("guard: the tree at the %s cannot be listed: %v", e.Side, e.Err)
	}
	return fmt.Sprintf("guard: %q at the %s cannot be read: %v", e.Path, e.Side, e.Err)
}

func (e *UnreadableError) Unwrap() error { return e.Err }

// MaxFile is the size in bytes of a file that is still read as source text. Of a
// larger one it is enough that Read returns more than this.
const MaxFile = 4 << 20

// judge is one call of Judge.
type judge struct {
	in     Input
	report Report
	lists  [2][]Entry
	listed [2]bool
	units  [2]map[string]*unit
	// changed are the paths of the change.
	changed map[string]*Change
	texts   [2]map[string]string
	unread  map[string][]string

	// code says that code outside tests changed, by family of languages.
	code    map[language]bool
	removed map[string]bool // declared in code at the base and no more
	// pool are the checks of head's tests that the base does not have.
	pool map[string]int
	conf *configs
	// called are the names that the tests of head call.
	called map[string]bool
	// lazy are unchanged files that were read when they mattered.
	lazy map[string]*unit
	err  error
}

// Judge compares two trees. An error means that something could not be read.
func Judge(in Input) (Report, error) {
	j := &judge{in: in, changed: map[string]*Change{}, unread: map[string][]string{}, code: map[language]bool{}, removed: map[string]bool{}, pool: map[string]int{}, called: map[string]bool{}, lazy: map[string]*unit{}}
	j.units = [2]map[string]*unit{{}, {}}
	j.texts = [2]map[string]string{{}, {}}
	j.report.Findings = []Finding{}
	for k := range in.Changes {
		j.changed[in.Changes[k].Path] = &in.Changes[k]
	}
	if err := j.paths(); err != nil {
		return Report{}, err
	}
	if err := j.load(); err != nil {
		return Report{}, err
	}
	j.configuration()
	j.compareUnits()
	if j.err != nil {
		return Report{}, j.err
	}
	j.finish()
	return j.report, nil
}

func (j *judge) add(f Finding) {
	f.Why = strings.TrimSpace(f.Why)
	j.report.Findings = append(j.report.Findings, f)
}

// finish sorts the findings, removes doubles and computes the verdict.
func (j *judge) finish() {
	fs := j.report.Findings
	sort.SliceStable(fs, func(a, b int) bool {
		if fs[a].Verdict != fs[b].Verdict {
			return fs[a].Verdict.rank() > fs[b].Verdict.rank()
		}
		if fs[a].File != fs[b].File {
			return fs[a].File < fs[b].File
		}
		return fs[a].Line < fs[b].Line
	})
	type key struct{ kind, file, test, why string }
	seen := map[key]bool{}
	kept := []Finding{}
	j.report.Verdict = Clean
	for _, f := range fs {
		k := key{f.Kind, f.File, f.Test, ""}
		if f.Test == "" {
			k.why = f.Why
		}
		if seen[k] {
			continue
		}
		seen[k] = true
		kept = append(kept, f)
		if f.Verdict.rank() > j.report.Verdict.rank() {
			j.report.Verdict = f.Verdict
		}
	}
	j.report.Findings = kept
	for lang, files := range j.unread {
		slices.Sort(files)
		j.report.Unread = append(j.report.Unread, Unread{Language: lang, Files: files})
	}
	slices.SortFunc(j.report.Unread, func(a, b Unread) int { return strings.Compare(a.Language, b.Language) })
}

// list returns all paths of a side.
func (j *judge) list(side Side) []Entry {
	if !j.listed[side] {
		j.listed[side] = true
		if j.in.List == nil {
			return nil
		}
		all, err := j.in.List(side)
		if err != nil && j.err == nil {
			j.err = &UnreadableError{Side: side, Err: err}
		}
		j.lists[side] = all
	}
	return j.lists[side]
}

// text returns the content of a file, or nothing if it is no text.
func (j *judge) text(side Side, p string) (string, bool) {
	if s, ok := j.texts[side][p]; ok {
		return s, s != "\x00"
	}
	data, err := j.in.Read(side, p)
	if err != nil {
		if j.err == nil {
			j.err = &UnreadableError{Path: p, Side: side, Err: err}
		}
		return "", false
	}
	if len(data) > MaxFile || bytes.IndexByte(data[:min(len(data), 8000)], 0) >= 0 {
		j.texts[side][p] = "\x00"
		return "", false
	}
	j.texts[side][p] = string(data)
	return string(data), true
}

// load reads what changed.
func (j *judge) load() error {
	for k := range j.in.Changes {
		c := &j.in.Changes[k]
		lang := languageOf(c.Path)
		conf := isConfig(c.Path)
		if lang == "" && !conf && !isSnapshot(c.Path) {
			if name, ok := unread[path.Ext(c.Path)]; ok && (inTestDir(c.Path) || strings.Contains(strings.ToLower(path.Base(c.Path)), "test") || strings.Contains(strings.ToLower(path.Base(c.Path)), "spec")) {
				j.unread[name] = append(j.unread[name], c.Path)
			}
			continue
		}
		if lang == "" {
			continue
		}
		for _, side := range []Side{Base, Head} {
			e := c.Base
			if side == Head {
				e = c.Head
			}
			if !e.file() || vendored(c.Path) {
				continue
			}
			s, ok := j.text(side, c.Path)
			if j.err != nil {
				return j.err
			}
			if !ok {
				j.unread["too large, or no text"] = append(j.unread["too large, or no text"], c.Path)
				continue
			}
			j.units[side][c.Path] = parseUnit(c.Path, s)
		}
	}
	return nil
}

// vendored says that a path holds other people's code.
func vendored(p string) bool {
	for _, d := range segments(path.Dir(p)) {
		if oneOf(d, "node_modules", "vendor", "third_party", "bower_components", "Pods", ".yarn") {
			return true
		}
	}
	return false
}

func isSnapshot(p string) bool {
	base := path.Base(p)
	return strings.HasSuffix(base, ".snap") || strings.HasSuffix(base, ".golden") || strings.HasSuffix(base, ".ambr") || strings.Contains(base, ".approved.") || strings.Contains(base, ".verified.") || strings.Contains(p, "__snapshots__/") || strings.Contains(p, "/snapshots/") || strings.HasSuffix(base, ".snapshot")
}
