package guard

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"
)

// lost judges a test of the base that head does not have.
func (j *judge) lost(b *function, head, fresh []*function) {
	if off(b) || !b.given && len(b.nodes) == 0 {
		return
	}
	var was []*check
	for k := range b.body.checks {
		if b.body.checks[k].live() {
			was = append(was, &b.body.checks[k])
		}
	}
	if f := j.stillThere(b); f != nil {
		kind, why := "renamed-uncollected", "the function is still there, but the runner no longer collects it"
		switch {
		case skeleton(f.name) == skeleton(b.name) && f.name != b.name && !ascii(f.name):
			kind, why = "lookalike-name", "its name only looks the same: letters of another alphabet"
		case f.why != "":
			kind = f.why
			switch kind {
			case "shadowed-duplicate":
				why = "a later function of the same name takes its place"
			case "annotation-lost":
				why = "the runner passes it over: it is private, static, or lost its annotation"
			case "module-boundary":
				why = "it is in a module of its own now, which the runs of the old one do not reach"
			}
		case f.file != b.file && f.name == b.name && (hidden(f.file) && !hidden(b.file)):
			kind, why = "moved-out-of-collection", "it was moved to where the runner does not look"
		case f.name == b.name && (f.lang == java || f.lang == csharp || f.lang == rust || f.lang == kotlin || f.lang == php) && len(f.annos) < len(b.annos):
			kind, why = "annotation-lost", "it lost the annotation that makes it a test"
		case f.name == b.name && slices.ContainsFunc(b.annos, func(a anno) bool { return oneOf(a.name, testAnnos[b.lang]...) }) && !slices.ContainsFunc(f.annos, func(a anno) bool { return oneOf(a.name, testAnnos[f.lang]...) }):
			kind, why = "annotation-lost", "it lost the annotation that makes it a test"
		}
		j.add(Finding{Kind: kind, Verdict: Tampered, Language: string(b.lang), File: f.file, Line: int(f.line), Test: b.title(), Why: why})
		return
	}
	if line, file := j.commented(b); line > 0 {
		j.add(Finding{Kind: "commented-out", Verdict: Tampered, Language: string(b.lang), File: file, Line: int(line), Test: b.title(), Why: "it is text now, not code"})
		return
	}
	if len(was) > 0 && j.coveredElsewhere(b, was) {
		return
	}
	if twin := j.twin(b); twin != nil {
		j.finding(b, "duplicate-test-removed", Review, 0, fmt.Sprintf("%s checked the same and is still there", twin.title()))
		return
	}
	kind := "deleted-test"
	if j.units[Head][b.file] == nil {
		kind = "deleted-file"
	}
	if j.subjectGone(b) {
		j.finding(b, "feature-and-test-removed", Review, 0, "it left together with code that it was about")
		return
	}
	if len(was) == 0 && len(b.body.calls) == 0 {
		j.finding(b, kind, Review, 0, "it is gone; it checked nothing that can be seen")
		return
	}
	if why, ok := j.rewritten(b, was, fresh); ok {
		j.finding(b, "test-rewritten", Review, 0, why)
		return
	}
	if b.lang == golang && slices.ContainsFunc(fresh, func(f *function) bool { return f.file == b.file }) && kind == "deleted-test" {
		kind = "count-preserving-swap"
	}
	j.finding(b, kind, Tampered, 0, "it is gone, and what it tested is still there")
}

func hidden(p string) bool {
	for _, d := range segments(path.Dir(p)) {
		if d == "testdata" || len(d) > 1 && (d[0] == '_' || d[0] == '.') || oneOf(d, "fixtures", "disabled", "attic", "archive", "old", "deprecated", "skipped", "quarantine", "wip", "broken", "vendor") {
			return true
		}
	}
	return false
}

func ascii(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r > unicode.MaxASCII }) < 0
}

var lookalikes = map[rune]rune{
	'а': 'a', 'в': 'b', 'с': 'c', 'е': 'e', 'һ': 'h', 'і': 'i', 'ј': 'j', 'к': 'k', 'м': 'm', 'о': 'o', 'р': 'p', 'ѕ': 's', 'т': 't', 'у': 'y', 'х': 'x', 'ԁ': 'd', 'ԛ': 'q', 'ԝ': 'w',
	'А': 'A', 'В': 'B', 'С': 'C', 'Е': 'E', 'Н': 'H', 'І': 'I', 'Ј': 'J', 'К': 'K', 'М': 'M', 'О': 'O', 'Р': 'P', 'Ѕ': 'S', 'Т': 'T', 'У': 'Y', 'Х': 'X',
	'α': 'a', 'ο': 'o', 'ν': 'v', 'ρ': 'p', 'τ': 't', 'υ': 'u', 'ι': 'i', 'κ': 'k', 'χ': 'x', 'Α': 'A', 'Β': 'B', 'Ε': 'E', 'Ζ': 'Z', 'Η': 'H', 'Ι': 'I', 'Κ': 'K', 'Μ': 'M', 'Ν': 'N', 'Ο': 'O', 'Ρ': 'P', 'Τ': 'T', 'Υ': 'Y', 'Χ': 'X',
	'ｔ': 't', 'ｅ': 'e', 'ｓ': 's', 'Ｔ': 'T', 'ɡ': 'g', 'ⅼ': 'l', 'ⅰ': 'i', 'ᴛ': 't', 'ꓔ': 'T', 'Ꭲ': 'T', 'օ': 'o', 'ո': 'n', 'ս': 'u',
}

// skeleton replaces letters that look like Latin ones, and drops those that
// cannot be seen.
func skeleton(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Mn, r) {
			return -1
		}
		if x, ok := lookalikes[r]; ok {
			return x
		}
		return r
	}, s)
}

// stillThere finds the function that a test of the base has become at the
// head, if it is not collected any more.
func (j *judge) stillThere(b *function) *function {
	var best *function
	score := 0.0
	bag := bagOf(b)
	for _, p := range paths(j.units[Head]) {
		u := j.units[Head][p]
		if u.lang.family() != b.lang.family() {
			continue
		}
		for k := range u.functions {
			f := &u.functions[k]
			if f.test || !f.given {
				continue
			}
			s := 0.0
			switch {
			case f.text == b.text && len(f.text) > 12:
				s = 1
			case f.name == b.name || skeleton(f.name) == skeleton(b.name):
				s = similarity(bag, bagOf(f))
				if s < 0.5 && f.why != "shadowed-duplicate" {
					continue
				}
				if f.why == "shadowed-duplicate" && f.file == b.file {
					s = 1
				}
			case strings.Contains(strings.ToLower(f.name), strings.ToLower(b.name)) || likeNames(f.name, b.name):
				if s = similarity(bag, bagOf(f)); s < 0.8 {
					continue
				}
			default:
				continue
			}
			if f.name == b.name {
				s += 0.5
			}
			// It may have become a helper of tests that live.
			if f.name != b.name && j.called[f.name] || existed(j.units[Base][p], f) {
				continue
			}
			if s > score {
				best, score = f, s
			}
		}
	}
	return best
}

func existed(u *unit, f *function) bool {
	if u == nil {
		return false
	}
	for k := range u.functions {
		if g := &u.functions[k]; g.name == f.name && !g.test && g.text == f.text && g.title() == f.title() {
			return true
		}
	}
	return false
}

func bagOf(f *function) map[string]int {
	m := map[string]int{}
	for _, w := range strings.Fields(f.text) {
		m[w]++
	}
	return m
}

// commented looks for a test in the comments of head, and in the strings that
// nobody uses.
func (j *judge) commented(b *function) (int32, string) {
	files := []string{b.file}
	for _, p := range paths(j.units[Head]) {
		if p != b.file && j.units[Head][p].lang.family() == b.lang.family() {
			files = append(files, p)
		}
	}
	bag := bagOf(b)
	for _, p := range files {
		u := j.units[Head][p]
		if u == nil {
			continue
		}
		// Comments of neighbouring lines are one.
		var old string
		if o := j.units[Base][p]; o != nil {
			for _, c := range o.src.comments {
				old += c.text + "\n"
			}
		}
		block, at, last := "", int32(0), int32(-9)
		look := func() bool {
			if block == "" || !strings.Contains(block, b.name) || strings.Contains(old, block) {
				return false
			}
			words := map[string]int{}
			for _, w := range strings.Fields(canonical(read(b.lang, block).nodes)) {
				words[w]++
			}
			have, all := 0, 0
			for w, n := range bag {
				have += min(n, words[w])
				all += n
			}
			return all > 0 && float64(have) >= 0.6*float64(all)
		}
		for _, c := range u.src.comments {
			if c.line > last+1 {
				if look() {
					return at, p
				}
				block, at = "", c.line
			}
			block += uncomment(c.text) + "\n"
			last = c.line + int32(strings.Count(c.text, "\n")) // lines of a file
		}
		if look() {
			return at, p
		}
		for k := range u.src.nodes {
			n := &u.src.nodes[k]
			if n.kind == text && n.nl && (b.lang == python || b.lang == ruby) && strings.Contains(n.s, b.name) {
				block = n.s
				if look() {
					return n.line, p
				}
			}
		}
	}
	return 0, ""
}

func uncomment(s string) string {
	for _, cut := range []string{"///", "//!", "//", "#"} {
		if rest, ok := strings.CutPrefix(s, cut); ok {
			return rest
		}
	}
	s = strings.TrimSuffix(strings.TrimPrefix(s, "/*"), "*/")
	s = strings.TrimSuffix(strings.TrimPrefix(s, "=begin"), "=end")
	lines := strings.Split(s, "\n")
	stars := 0
	for _, l := range lines {
		if strings.HasPrefix(strings.TrimSpace(l), "* ") {
			stars++
		}
	}
	if stars*2 > len(lines) {
		for k, l := range lines {
			lines[k] = strings.TrimPrefix(strings.TrimSpace(l), "*")
		}
	}
	return strings.Join(lines, "\n")
}

// twin finds a live test that checks word for word the same.
func (j *judge) twin(b *function) *function {
	if len(b.text) < 12 {
		return nil
	}
	for _, p := range paths(j.units[Head]) {
		u := j.units[Head][p]
		if u.lang.family() != b.lang.family() || path.Dir(p) != path.Dir(b.file) {
			continue
		}
		for k := range u.functions {
			h := &u.functions[k]
			if !h.test || off(h) || fullRows(h) != fullRows(b) {
				continue
			}
			if h.text == b.text || holds(h, b) && similarity(bagOf(h), bagOf(b)) > 0.7 {
				return h
			}
		}
	}
	return nil
}

// subjectGone says that what a test is about is no longer declared.
func (j *judge) subjectGone(b *function) bool {
	if len(j.removed) == 0 {
		return false
	}
	for k := range b.body.checks {
		if j.gone(b.body.checks[k].names) {
			return true
		}
	}
	return j.gone(b.body.calls) || func() bool {
		for n := range b.body.names {
			if j.removed[n] && len(n) > 2 {
				return true
			}
		}
		return false
	}()
}

// rewritten says that new tests of the same code came along with a change of
// the code, with as many checks as were lost.
func (j *judge) rewritten(b *function, was []*check, fresh []*function) (string, bool) {
	if !j.changedCode(b.lang) {
		return "", false
	}
	n := 0
	name := ""
	for _, f := range fresh {
		if f.lang.family() != b.lang.family() || off(f) || !sharesSubject(b, f) && f.file != b.file {
			continue
		}
		for k := range f.body.checks {
			if f.body.checks[k].live() {
				n++
			}
		}
		if name == "" {
			name = f.title()
		}
	}
	if n >= max(len(was), 1) {
		return fmt.Sprintf("it is gone; the code changed, and %s is new", name), true
	}
	return "", false
}

// collectable finds tests that stand where the runner does not look, although
// each looks like one.
func (j *judge) collectable() {
	j.inheritance()
	j.modules()
	for _, p := range paths(j.units[Head]) {
		h, b := j.units[Head][p], j.units[Base][p]
		if h.lang == golang && h.guarded.text != "" {
			if b == nil {
				b = j.origin(h)
			}
			m := h.guarded
			if b != nil && b.guarded.text != "" && (b.guarded.cond == m.cond || b.guarded.canon == m.canon) {
				continue
			}
			if b == nil {
				continue
			}
			for k := range h.functions {
				f := &h.functions[k]
				if !f.test || !has(b, f) {
					continue
				}
				f.file, f.lang = p, golang
				switch m.cond {
				case byPlatform:
					j.finding(f, "excluded-by-build", Review, m.line, fmt.Sprintf("it is now built on some platforms only: %s", m.text))
				default:
					v := Tampered
					if j.setsTag(m.text) {
						v = Review
					}
					j.finding(f, "excluded-by-build", v, m.line, fmt.Sprintf("it is not built by default any more: %s", m.text))
				}
			}
		}
	}
}

// setsTag says that a changed configuration builds with a tag of a constraint.
func (j *judge) setsTag(constraint string) bool {
	for _, w := range strings.FieldsFunc(constraint, func(r rune) bool { return !identPart(r) }) {
		if w == "go" || w == "build" {
			continue
		}
		for p, c := range j.changed {
			if isConfig(p) && c.Head.file() {
				if s, ok := j.text(Head, p); ok && strings.Contains(s, "-tags") && strings.Contains(s, w) {
					return true
				}
			}
		}
	}
	return false
}

// origin finds the file of the base that a new file is made from.
func (j *judge) origin(h *unit) *unit {
	for _, p := range paths(j.units[Base]) {
		b := j.units[Base][p]
		if b.lang != h.lang || j.units[Head][p] != nil {
			continue
		}
		for k := range h.functions {
			if h.functions[k].test && has(b, &h.functions[k]) {
				return b
			}
		}
	}
	return nil
}

func has(u *unit, f *function) bool {
	return slices.ContainsFunc(u.functions, func(g function) bool { return g.test && g.name == f.name })
}

// inheritance follows abstract classes and names that Maven looks for.
func (j *judge) inheritance() {
	for side := range j.units {
		known := map[string]bool{}   // class → something derives from it
		classes := map[string]bool{} // all test cases by name
		for _, u := range j.units[side] {
			for name, t := range u.types {
				for _, s := range t.supers {
					known[s] = true
				}
				classes[name] = true
			}
		}
		for _, p := range paths(j.units[side]) {
			u := j.units[side][p]
			for k := range u.functions {
				f := &u.functions[k]
				if !f.test || len(f.owner) == 0 {
					continue
				}
				class := f.owner[0]
				switch u.lang {
				case java, kotlin, csharp, php:
					if f.abstract && side == int(Head) && !known[f.owner[len(f.owner)-1]] {
						// Abstract at the base too: others derive from it.
						if b := j.units[Base][p]; b != nil && b.types[f.owner[len(f.owner)-1]].abstract || b == nil && j.origin(u) == nil {
							continue
						}
						if j.derived(f.owner[len(f.owner)-1], u.lang) {
							continue
						}
						f.test, f.why = false, "renamed-uncollected"
						continue
					}
					if u.lang == java && !f.abstract && !surefire(class) && side == int(Head) {
						b := j.units[Base][p]
						if b != nil && len(b.functions) > 0 && b.types[class].name != "" {
							continue // it had this name
						}
						if j.byMaven() && !slices.ContainsFunc(u.types[class].supers, func(string) bool { return false }) && j.hadName(f) {
							f.test, f.why = false, "renamed-uncollected"
						}
					}
				default:
				}
			}
		}
	}
}

// hadName says that a test of that name stood in a class that Maven collects.
func (j *judge) hadName(f *function) bool {
	for _, u := range j.units[Base] {
		for k := range u.functions {
			b := &u.functions[k]
			if b.test && b.name == f.name && len(b.owner) > 0 && surefire(b.owner[0]) {
				return true
			}
		}
	}
	return false
}

func surefire(class string) bool {
	return strings.HasPrefix(class, "Test") || strings.HasSuffix(class, "Test") || strings.HasSuffix(class, "Tests") || strings.HasSuffix(class, "TestCase") || strings.HasSuffix(class, "IT") || strings.HasPrefix(class, "IT") || strings.HasSuffix(class, "Spec")
}

// byMaven says that nothing but Maven's names decides what is collected.
func (j *judge) byMaven() bool {
	for _, e := range j.list(Head) {
		if base := path.Base(e.Path); base == "build.gradle" || base == "build.gradle.kts" || base == "BUILD" || base == "BUILD.bazel" || base == "build.xml" {
			return false
		}
	}
	return true
}

// derived says that an unchanged file of the tests derives from a class.
func (j *judge) derived(class string, lang language) bool {
	n := 0
	for _, e := range j.list(Head) {
		if !e.file() || j.changed[e.Path] != nil || languageOf(e.Path) == "" || languageOf(e.Path).family() != lang.family() || !isSupport(languageOf(e.Path), e.Path) {
			continue
		}
		if n++; n > 400 {
			return true
		}
		if s, ok := j.text(Head, e.Path); ok && strings.Contains(s, class) {
			for _, t := range j.lazily(e.Path, s).types {
				if slices.Contains(t.supers, class) {
					return true
				}
			}
		}
	}
	return false
}

// modules finds borders that a run from the root does not cross.
func (j *judge) modules() {
	for _, p := range sortedKeys(j.changed) {
		c := j.changed[p]
		if path.Base(p) != "go.mod" || c.Base != nil || !c.Head.file() || path.Dir(p) == "." || hidden(p) {
			continue
		}
		dir := path.Dir(p) + "/"
		var tests []string
		line := func(name string, u *unit) {
			for k := range u.functions {
				if u.functions[k].test {
					tests = append(tests, u.functions[k].name)
					j.add(Finding{Kind: "module-boundary", Verdict: j.boundary(p), Language: string(golang), File: name, Line: int(u.functions[k].line), Test: u.functions[k].name, Why: fmt.Sprintf("%s starts a module of its own: a run from the root does not reach it", p)})
				}
			}
		}
		for _, e := range j.list(Base) {
			if !strings.HasPrefix(e.Path, dir) || !isTestFile(golang, e.Path) || languageOf(e.Path) != golang || !e.file() {
				continue
			}
			if u := j.units[Head][e.Path]; u != nil {
				line(e.Path, u)
				continue
			}
			if j.changed[e.Path] != nil {
				continue
			}
			if s, ok := j.text(Head, e.Path); ok {
				line(e.Path, j.lazily(e.Path, s))
			}
		}
	}
}

// boundary is review if the change also runs the new module somewhere.
func (j *judge) boundary(mod string) Verdict {
	dir := path.Dir(mod)
	for p, c := range j.changed {
		if (isConfig(p) || path.Base(p) == "go.work") && c.Head.file() {
			if s, ok := j.text(Head, p); ok && strings.Contains(s, dir) && path.Base(p) != "go.mod" {
				return Review
			}
		}
	}
	return Tampered
}

func sortedKeys(m map[string]*Change) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// focus names the tests that a focus on others silences.
func (j *judge) focus(base, head []*function) {
	old := map[string]bool{}
	for _, f := range base {
		for _, m := range f.marks {
			if m.kind == focusMark {
				old[f.file] = true
			}
		}
	}
	byFile := map[string][]*function{}
	for _, f := range head {
		byFile[f.file] = append(byFile[f.file], f)
	}
	for _, file := range sortedFiles(byFile) {
		var focused *function
		var at mark
		for _, f := range byFile[file] {
			for _, m := range f.marks {
				if m.kind == focusMark && focused == nil {
					focused, at = f, m
				}
			}
		}
		if focused == nil || old[file] {
			continue
		}
		if b := j.origin(j.units[Head][file]); b != nil && old[b.path] {
			continue
		}
		n := 0
		for _, f := range byFile[file] {
			if slices.ContainsFunc(f.marks, func(m mark) bool { return m.kind == focusMark }) || off(f) {
				continue
			}
			n++
			j.finding(f, "focus-only", Tampered, at.line, fmt.Sprintf("%s on %q leaves it out", at.text, focused.title()))
		}
		if n > 0 {
			continue
		}
		// A focus on all of a file silences the other files.
		others := 0
		for _, e := range j.list(Head) {
			lang := languageOf(e.Path)
			if lang == "" || lang.family() != focused.lang.family() || e.Path == file || !e.file() || !isTestFile(lang, e.Path) || vendored(e.Path) || others > 20 {
				continue
			}
			u := j.units[Head][e.Path]
			if u == nil {
				if s, ok := j.text(Head, e.Path); ok {
					u = j.lazily(e.Path, s)
				}
			}
			if u == nil {
				continue
			}
			for k := range u.functions {
				if f := &u.functions[k]; f.test && !off(f) && others <= 20 {
					others++
					j.finding(f, "focus-only", Tampered, 0, fmt.Sprintf("%s in %s leaves all other files out", at.text, file))
				}
			}
		}
		j.add(Finding{Kind: "focus-only", Verdict: Tampered, Language: string(focused.lang), File: file, Line: int(at.line), Test: focused.title(), Why: at.text + " runs nothing else"})
	}
}

func sortedFiles(m map[string][]*function) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
