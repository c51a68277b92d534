package guard

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
)

// compareUnits compares the tests of the two sides.
func (j *judge) compareUnits() {
	for side := range j.units {
		for _, u := range j.units[side] {
			u.mixins()
		}
	}
	j.collectable()
	j.whatChanged()
	j.names()
	for side := range j.units {
		for _, p := range paths(j.units[side]) {
			j.analyse(j.units[side][p])
		}
	}
	base, head := j.tests(Base), j.tests(Head)
	j.fill(base, head)
	pairs, lost, fresh := match(base, head)
	focused := false
	for _, f := range head {
		for _, m := range f.marks {
			focused = focused || m.kind == focusMark
		}
	}
	for _, p := range pairs {
		j.pair(p[0], p[1])
	}
	for _, f := range lost {
		j.lost(f, head, fresh)
	}
	if focused {
		j.focus(base, head)
	}
	for _, f := range fresh {
		j.fresh(f)
	}
	j.helpers(base, head)
	j.hooks(head)
	j.special()
	j.snapshots()
}

func paths(units map[string]*unit) []string {
	out := make([]string, 0, len(units))
	for p := range units {
		out = append(out, p)
	}
	slices.Sort(out)
	return out
}

// tests returns the tests of a side in the order of paths and lines.
func (j *judge) tests(side Side) []*function {
	var out []*function
	for _, p := range paths(j.units[side]) {
		u := j.units[side][p]
		for k := range u.functions {
			if u.functions[k].test {
				out = append(out, &u.functions[k])
			}
		}
	}
	return out
}

// names makes what one file knows known to the others: helpers, other names of
// skips.
func (j *judge) names() {
	for side := range j.units {
		helpers := map[string]bool{}
		skips := map[language]map[string]mark{}
		for _, u := range j.units[side] {
			for k := range u.functions {
				f := &u.functions[k]
				if f.test || !f.given || !u.support && !u.isTest || len(f.nodes) > 4000 {
					continue
				}
				if oneOf(f.name, "setUp", "setup", "before", "main", "run", "init", "Run", "constructor", "TestMain", "it", "get", "set", "call") {
					continue
				}
				b := analyse(u.scope, f.params, statements(u.lang, f.nodes))
				for _, c := range b.checks {
					if c.live() {
						helpers[f.name] = true
						break
					}
				}
			}
			if skips[u.lang.family()] == nil {
				skips[u.lang.family()] = map[string]mark{}
			}
			for name, m := range u.scope.skips {
				if len(name) > 3 {
					skips[u.lang.family()][name] = m
				}
			}
		}
		for _, u := range j.units[side] {
			for name := range helpers {
				u.scope.helpers[name] = true
			}
			for name, m := range skips[u.lang.family()] {
				if _, ok := u.scope.skips[name]; ok {
					continue
				}
				// An alias of another file counts where it is imported or worn.
				if _, ok := u.imports[name]; ok || u.lang == java || u.lang == kotlin || u.lang == csharp {
					u.scope.skips[name] = m
				}
			}
			// Marks by names that were not known when the file was read.
			for k := range u.functions {
				f := &u.functions[k]
				if len(f.annos) > 0 && f.test {
					for _, m := range u.annoMarks(f.annos) {
						if !hasMark(f.marks, m) {
							f.marks = append(f.marks, m)
						}
					}
				}
			}
		}
	}
}

func hasMark(marks []mark, m mark) bool {
	return slices.ContainsFunc(marks, func(x mark) bool { return x.kind == m.kind && x.canon == m.canon && x.line == m.line })
}

// analyse reads the bodies of a unit.
func (j *judge) analyse(u *unit) {
	if u.analysed {
		return
	}
	u.analysed = true
	for k := range u.functions {
		f := &u.functions[k]
		if !f.test && !u.support && !u.isTest {
			continue
		}
		f.body = analyse(u.scope, f.params, statements(u.lang, f.nodes))
		f.ready = true
		for _, a := range f.annos {
			switch {
			case a.name == "Test" && u.lang != csharp:
				for _, part := range split(a.args) {
					if len(part) > 2 && oneOf(part[0].s, "expected", "expectedExceptions") {
						c := check{line: a.line, matcher: "raises", strength: exact, expected: canonical(part[2:]), names: identifiers(part)}
						if broad(part[2:]) {
							c.strength = loose
						}
						f.body.checks = append(f.body.checks, c)
					}
				}
			case a.name == "should_panic":
				f.body.checks = append(f.body.checks, check{line: a.line, matcher: "raises", strength: partial})
			}
		}
		// Tables that the body or the annotations only name.
		seen := map[string]bool{}
		use := func(name string) {
			if seen[name] {
				return
			}
			seen[name] = true
			if v, ok := u.scope.values[name]; ok {
				f.tables = append(f.tables, tables(v)...)
				return
			}
			for i := range u.functions {
				if p := &u.functions[i]; p.name == name && !p.test && p != f {
					f.tables = append(f.tables, returned(u.lang, p)...)
				}
			}
		}
		if f.test {
			walk(f.nodes, func(n *node) {
				if n.kind == ident {
					if _, ok := u.scope.values[n.s]; ok {
						use(n.s)
					}
				}
			})
			for _, a := range f.annos {
				if oneOf(a.name, "parametrize", "MethodSource", "DataProvider", "dataProvider", "provider", "TestCaseSource", "MemberData", "DynamicData", "ClassData", "Test", "Parameters", "expand", "FieldSource") {
					for _, n := range identifiers(a.args) {
						use(n)
					}
					for _, v := range literals(a.args) {
						use(strings.TrimSuffix(strings.Trim(v, `"`), "()"))
					}
				}
			}
			f.tables = append(f.tables, f.body.tables...)
		}
	}
}

// returned finds the tables that a provider of rows gives back.
func returned(lang language, f *function) [][]row {
	var rows [][]row
	rows = append(rows, tables(f.nodes)...)
	// Stream.of(Arguments.of(…), Arguments.of(…)) and yield return new object[] { … }
	var calls []row
	for _, c := range chains(lang, f.nodes) {
		for k := range c.links {
			if oneOf(c.links[k].name, "of", "asList", "listOf", "arrayOf", "setOf", "Add") && c.links[k].args != nil {
				calls = append(calls, callRows(c.links[k].args.kids)...)
			}
		}
	}
	if len(rows) == 0 && len(calls) > 0 {
		rows = append(rows, calls)
	}
	return rows
}

func callRows(nodes []node) []row {
	var out []row
	for _, part := range split(nodes) {
		if v := literals(part); len(v) > 0 {
			out = append(out, row{line: part[0].line, full: canonical(part), values: v, name: strings.Trim(v[0], `"`)})
		}
	}
	return out
}

// whatChanged finds out which code changed, and what it no longer declares.
func (j *judge) whatChanged() {
	gone, here := map[string]bool{}, map[string]bool{}
	for p, c := range j.changed {
		// Another version of a dependency is other code.
		if fam := dependencies(p); fam != "" && c.Base.file() && c.Head.file() {
			j.code[fam] = true
		}
		lang := languageOf(p)
		if lang == "" {
			continue
		}
		b, h := j.units[Base][p], j.units[Head][p]
		production := func(u *unit) bool {
			return u != nil && !u.support && (!u.isTest || lang == rust) && !isConfig(p)
		}
		if production(b) {
			for name := range b.decls {
				gone[name] = true
			}
			for k := range b.functions {
				if !b.functions[k].test {
					gone[b.functions[k].name] = true
				}
			}
		}
		if h != nil {
			for name := range h.decls {
				here[name] = true
			}
			for k := range h.functions {
				here[h.functions[k].name] = true
			}
		}
		if production(b) || production(h) {
			if lang == rust && b != nil && h != nil {
				if codeOf(b) != codeOf(h) {
					j.code[lang.family()] = true
				}
			} else if b == nil || h == nil || canonical(b.src.nodes) != canonical(h.src.nodes) {
				if b != nil || h != nil && !moved(j, h) {
					j.code[lang.family()] = true
				}
			}
		}
		_ = c
	}
	for name := range gone {
		if !here[name] && len(name) > 1 && name != "package" {
			j.removed[name] = true
		}
	}
}

// dependencies returns the family whose dependencies a file pins, or nothing.
func dependencies(p string) language {
	base := path.Base(p)
	switch {
	case oneOf(base, "go.mod", "go.sum"):
		return golang
	case oneOf(base, "package-lock.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock", "npm-shrinkwrap.json"):
		return javascript
	case oneOf(base, "poetry.lock", "uv.lock", "Pipfile.lock", "pdm.lock"), strings.HasPrefix(base, "requirements") && strings.HasSuffix(base, ".txt"):
		return python
	case base == "Cargo.lock":
		return rust
	case base == "Gemfile.lock":
		return ruby
	case base == "composer.lock":
		return php
	case base == "Package.resolved":
		return swift
	case base == "packages.lock.json":
		return csharp
	default:
		return ""
	}
}

// moved says that a new file's text is that of a file of the base.
func moved(j *judge, h *unit) bool {
	for _, b := range j.units[Base] {
		if b.text == h.text && j.units[Head][b.path] == nil {
			return true
		}
	}
	return false
}

// codeOf is the text of a file without its tests.
func codeOf(u *unit) string {
	var b strings.Builder
	for k := range u.functions {
		f := &u.functions[k]
		if !f.test && !slices.ContainsFunc(f.owner, func(s string) bool { return s == "tests" || s == "test" || strings.Contains(s, "test") }) && !looksLikeTest(f.name) && f.why == "" && !wasTest(u, f) {
			b.WriteString(f.name + canonical(f.params) + f.text + "\n")
		}
	}
	for _, name := range paths2(u.types) {
		b.WriteString(name + " ")
	}
	return b.String()
}

func wasTest(u *unit, f *function) bool { return hasAnno(f.annos, "allow") && u.lang == rust }

func paths2(m map[string]classInfo) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func (j *judge) changedCode(lang language) bool { return j.code[lang.family()] }

// fill notes which checks are new at the head.
func (j *judge) fill(base, head []*function) {
	for _, f := range head {
		for k := range f.body.checks {
			if c := &f.body.checks[k]; c.live() {
				j.pool[c.full()]++
			}
		}
		for _, name := range f.body.calls {
			j.called[name] = true
		}
	}
	for _, f := range base {
		for k := range f.body.checks {
			if c := &f.body.checks[k]; c.live() {
				j.pool[c.full()]--
			}
		}
	}
	for _, u := range j.units[Head] {
		for k := range u.functions {
			for _, name := range u.functions[k].body.calls {
				j.called[name] = true
			}
		}
	}
}

// match pairs the tests of two sides: by place and name, by name, by body.
func match(base, head []*function) (pairs [][2]*function, lost, fresh []*function) {
	takenB, takenH := map[*function]bool{}, map[*function]bool{}
	take := func(b, h *function) {
		takenB[b], takenH[h] = true, true
		pairs = append(pairs, [2]*function{b, h})
	}
	by := func(key func(f *function) string) {
		index := map[string][]*function{}
		for _, h := range head {
			if !takenH[h] {
				if k := key(h); k != "" {
					index[k] = append(index[k], h)
				}
			}
		}
		for _, b := range base {
			if takenB[b] {
				continue
			}
			k := key(b)
			if k == "" {
				continue
			}
			best := -1
			for i, h := range index[k] {
				if !takenH[h] && (best < 0 || h.text == b.text) {
					if best >= 0 && index[k][best].text == b.text {
						continue
					}
					best = i
				}
			}
			if best >= 0 {
				take(b, index[k][best])
			}
		}
	}
	by(func(f *function) string { return f.file + "\x00" + f.title() + "\x00" + f.text })
	by(func(f *function) string { return f.file + "\x00" + f.title() })
	by(func(f *function) string {
		if len(f.text) < 12 {
			return ""
		}
		return string(f.lang.family()) + "\x00" + f.name + "\x00" + f.text
	})
	by(func(f *function) string {
		if len(f.text) < 12 {
			return ""
		}
		return string(f.lang.family()) + "\x00" + f.file + "\x00" + f.text
	})
	by(func(f *function) string { return string(f.lang.family()) + "\x00" + f.title() })
	by(func(f *function) string {
		if len(f.text) < 12 {
			return ""
		}
		return string(f.lang.family()) + "\x00" + f.text
	})
	var restB, restH []*function
	for _, b := range base {
		if !takenB[b] {
			restB = append(restB, b)
		}
	}
	for _, h := range head {
		if !takenH[h] {
			restH = append(restH, h)
		}
	}
	// The same name somewhere else, with a body that is like it; then a like
	// body under any name.
	if len(restB)*len(restH) <= 40000 {
		type candidate struct {
			b, h *function
			s    float64
		}
		var all []candidate
		bags := map[*function]map[string]int{}
		bag := func(f *function) map[string]int {
			if m, ok := bags[f]; ok {
				return m
			}
			m := map[string]int{}
			for _, w := range strings.Fields(f.text) {
				m[w]++
			}
			bags[f] = m
			return m
		}
		for _, b := range restB {
			for _, h := range restH {
				if b.lang.family() != h.lang.family() {
					continue
				}
				s := similarity(bag(b), bag(h))
				same := b.name == h.name
				contained := holds(h, b)
				near := b.file == h.file
				switch {
				case same && (s > 0.25 || contained):
					s++
				case contained && s > 0.3:
					s += 0.3
				case near && s >= 0.75, s >= 0.85:
				case near && s >= 0.5 && likeNames(b.name, h.name):
				default:
					continue
				}
				all = append(all, candidate{b, h, s})
			}
		}
		slices.SortStableFunc(all, func(x, y candidate) int {
			switch {
			case x.s > y.s:
				return -1
			case x.s < y.s:
				return 1
			}
			return 0
		})
		for _, c := range all {
			if !takenB[c.b] && !takenH[c.h] {
				take(c.b, c.h)
			}
		}
	}
	for _, b := range restB {
		if !takenB[b] {
			lost = append(lost, b)
		}
	}
	for _, h := range restH {
		if !takenH[h] {
			fresh = append(fresh, h)
		}
	}
	return pairs, lost, fresh
}

func likeNames(a, b string) bool {
	x, y := words(a), words(b)
	n := 0
	for w := range x {
		if y[w] {
			n++
		}
	}
	return n*2 >= max(len(x), len(y)) && n > 0
}

func words(s string) map[string]bool {
	out := map[string]bool{}
	cur := ""
	for _, r := range s + " " {
		switch {
		case r == ' ' || r == '_' || r == '/' || r == '-' || r == '.':
			if cur != "" {
				out[strings.ToLower(cur)] = true
			}
			cur = ""
		case r >= 'A' && r <= 'Z' && cur != "" && !(cur[len(cur)-1] >= 'A' && cur[len(cur)-1] <= 'Z'):
			out[strings.ToLower(cur)] = true
			cur = string(r)
		default:
			cur += string(r)
		}
	}
	delete(out, "test")
	return out
}

// holds says that all live checks of b are in h.
func holds(h, b *function) bool {
	n := 0
	have := map[string]int{}
	for k := range h.body.checks {
		if h.body.checks[k].live() {
			have[h.body.checks[k].full()]++
		}
	}
	for k := range b.body.checks {
		c := &b.body.checks[k]
		if !c.live() {
			continue
		}
		n++
		if have[c.full()] == 0 {
			return false
		}
		have[c.full()]--
	}
	return n > 0
}

func similarity(a, b map[string]int) float64 {
	common, total := 0, 0
	for w, n := range a {
		common += min(n, b[w])
		total += n
	}
	for _, n := range b {
		total += n
	}
	if total == 0 {
		return 0
	}
	return 2 * float64(common) / float64(total)
}

// allMarks returns the marks on a test and those in its body.
func allMarks(f *function) []mark { return append(slices.Clone(f.marks), f.body.marks...) }

// off says that a test does not run at all, or does not count.
func off(f *function) bool {
	for _, m := range allMarks(f) {
		if (m.kind == skipMark || m.kind == todoMark || m.kind == failMark) && m.cond == always && !(m.kind == failMark && f.lang == rust) {
			return true
		}
	}
	return false
}

func (j *judge) finding(f *function, kind string, v Verdict, line int32, why string) {
	j.add(Finding{Kind: kind, Verdict: v, Language: string(f.lang), File: f.file, Line: int(line), Test: f.title(), Why: why})
}

// pair compares a test with what became of it.
func (j *judge) pair(b, h *function) {
	if off(b) {
		return // it did not count before
	}
	before := len(j.report.Findings)
	j.marks(b, h)
	if off(h) && len(j.report.Findings) > before {
		return
	}
	j.checks(b, h)
	j.tables(b, h)
	j.substitutes(b, h)
	if h.body.retry > 0 && b.body.retry == 0 && len(j.report.Findings) == before {
		j.finding(h, "retry-until-green", Tampered, h.body.retry, "it is repeated until it passes once")
	}
	if h.body.exits > 0 && b.body.exits == 0 {
		j.finding(h, "runner-exit", Tampered, h.body.exits, "it ends the process with success, and what comes behind it never runs")
	}
}

func (j *judge) marks(b, h *function) {
	had := allMarks(b)
	for _, m := range allMarks(h) {
		if m.cond == never {
			continue
		}
		known := slices.ContainsFunc(had, func(x mark) bool {
			if x.kind != m.kind && !(x.kind != tagMark && x.kind != focusMark && x.kind != retryMark && m.kind != tagMark && m.kind != focusMark && m.kind != retryMark) {
				return false
			}
			if x.kind == tagMark || m.kind == retryMark {
				return x.canon == m.canon
			}
			return x.canon == m.canon || x.cond == always || x.cond == m.cond && m.cond != always && m.cond != byData
		})
		if known {
			continue
		}
		switch m.kind {
		case focusMark:
			continue // looked at for the whole file
		case tagMark:
			if j.conf.excludesTag(m.canon, h) {
				j.finding(h, "tag-excluded", Tampered, m.line, fmt.Sprintf("it got the tag %q, which the runner's configuration leaves out", m.canon))
			}
			continue
		case retryMark:
			j.finding(h, "retry-until-green", Tampered, m.line, fmt.Sprintf("%s repeats it until it passes", m.text))
			continue
		case failMark:
			kind := Tampered
			if m.cond == byPlatform {
				kind = Review
			}
			if h.lang == rust && slices.ContainsFunc(b.body.checks, func(c check) bool { return c.matcher == "raises" }) {
				continue
			}
			j.finding(h, "expected-failure", kind, m.line, fmt.Sprintf("%s: its failure counts as expected", m.text))
			continue
		case todoMark:
			j.finding(h, "todo-pending", Tampered, m.line, fmt.Sprintf("%s: it no longer counts", m.text))
			continue
		case skipMark:
		}
		kind := "skip-annotation"
		switch {
		case m.suite:
			kind = "suite-level-skip"
		case m.call:
			kind = "skip-call"
		}
		switch m.cond {
		case byPlatform:
			j.finding(h, "new-platform-skip", Review, m.line, fmt.Sprintf("it is now skipped on some platforms: %s", m.text))
		case byShort:
			if j.conf.short {
				j.finding(h, "new-conditional-skip", Tampered, m.line, "it is now skipped in short mode, and the test command got -short")
			} else {
				j.finding(h, "new-conditional-skip", Review, m.line, "it is now skipped in short mode")
			}
		case byMachine:
			j.finding(h, "new-conditional-skip", Tampered, m.line, fmt.Sprintf("it now runs only where something outside the repository is set: %s", m.text))
		case byProbe:
			v := Review
			if strings.HasPrefix(m.canon, "pytest.importorskip") || strings.HasPrefix(m.canon, "importorskip") {
				v = j.absentModule(m)
				if v == Clean {
					continue
				}
				kind = "suite-level-skip"
			} else {
				kind = "new-conditional-skip"
			}
			j.finding(h, kind, v, m.line, fmt.Sprintf("it is now skipped under a condition: %s", m.text))
		case byData:
			j.finding(h, kind, Tampered, m.line, fmt.Sprintf("it now skips where it would fail: %s", m.text))
		case always, never:
			j.finding(h, kind, Tampered, m.line, fmt.Sprintf("it is now skipped: %s", m.text))
		}
	}
}

// absentModule says how bad it is to skip without a module: a module that no
// file of the repository names is one that nobody has.
func (j *judge) absentModule(m mark) Verdict {
	name := ""
	for _, v := range strings.Split(m.canon, `"`) {
		name = v
		if !strings.Contains(v, "importorskip") {
			break
		}
	}
	if name == "" {
		return Review
	}
	for _, e := range j.list(Head) {
		base := path.Base(e.Path)
		if e.file() && (oneOf(base, "pyproject.toml", "setup.py", "setup.cfg", "tox.ini", "noxfile.py", "Pipfile", "environment.yml") || strings.HasPrefix(base, "requirements")) {
			if s, ok := j.text(Head, e.Path); ok && strings.Contains(strings.ToLower(s), strings.ToLower(strings.Split(name, ".")[0])) {
				return Review
			}
		}
	}
	return Tampered
}

// checks compares what two versions of a test check.
func (j *judge) checks(b, h *function) {
	var was []*check
	for k := range b.body.checks {
		if b.body.checks[k].live() {
			was = append(was, &b.body.checks[k])
		}
	}
	if h.body.size == 0 && b.body.size > 0 && (h.given || len(h.nodes) == 0) {
		if !j.coveredElsewhere(b, was) {
			j.finding(h, "emptied-body", Tampered, h.line, "its body is empty: it passes whatever the code does")
		}
		return
	}
	used := map[int]bool{}
	var left []*check
	live := 0
	for k := range h.body.checks {
		if h.body.checks[k].live() {
			live++
		}
	}
	full := map[string][]int{}
	for k := range h.body.checks {
		full[h.body.checks[k].full()] = append(full[h.body.checks[k].full()], k)
	}
	var dead *check
	take := func(c *check) int {
		ks := full[c.full()]
		best := -1
		for _, k := range ks {
			if !used[k] && (best < 0 || h.body.checks[k].live() && !h.body.checks[best].live()) {
				best = k
			}
		}
		return best
	}
	for _, c := range was {
		k := take(c)
		if k < 0 {
			left = append(left, c)
			continue
		}
		used[k] = true
		x := &h.body.checks[k]
		switch {
		case !x.live() && x.dead != "":
			if dead == nil {
				dead = x
			}
			j.finding(b.at(h, c.sub), x.dead, Tampered, x.deadLine, deadWhy[x.dead])
		case c.tolerance != x.tolerance:
			j.loosened(b, h, c, x)
		default:
			if extra := newConds(c.conds, x.conds); extra != "" && len(x.conds) > len(c.conds) {
				v := Review
				j.finding(h, "conditional-assertion", v, x.line, fmt.Sprintf("a check runs only under a new condition: %s", shorten(extra)))
			}
		}
	}
	if dead != nil {
		return
	}
	var rest []int
	for k := range h.body.checks {
		if !used[k] {
			rest = append(rest, k)
		}
	}
	// Nothing left that can fail.
	if live == 0 && len(was) > 0 {
		if j.coveredElsewhere(b, was) || j.hidden(h, b) {
			return
		}
		kind, why, line := "removed-assertion", "it checks nothing any more", h.line
		for _, k := range rest {
			x := &h.body.checks[k]
			if x.dead != "" {
				kind, why, line = x.dead, deadWhy[x.dead], x.deadLine
				break
			}
			if x.strength == vacuous {
				kind, why, line = "tautology", "what is left to check always holds", x.line
				if x.matcher == "recover" {
					kind, why = "swallowed-exception", "a failure is recovered from and dropped"
				}
				if x.matcher == "none" {
					kind, why = "removed-assertion", "the assertion has no matcher: it checks nothing"
				}
			}
		}
		if kind == "removed-assertion" && logs(h, b) {
			kind, why = "logged-instead-of-failed", "a failure is only written to a log"
		}
		if kind == "removed-assertion" && h.body.size < b.body.size && len(h.body.calls) == 0 {
			kind = "emptied-body"
		}
		j.finding(h, kind, Tampered, line, why)
		return
	}
	if len(was) == 0 {
		return
	}
	// The rest in pairs that are alike.
	for pass := range 2 {
		for i := 0; i < len(left); i++ {
			c := left[i]
			best, score := -1, 0.0
			for _, k := range rest {
				if used[k] {
					continue
				}
				x := &h.body.checks[k]
				s := likeChecks(c, x)
				if s > score {
					best, score = k, s
				}
			}
			if best < 0 || pass == 0 && score < 0.62 || score < 0.34 {
				continue
			}
			used[best] = true
			left = slices.Delete(left, i, i+1)
			i--
			j.changedCheck(b, h, c, &h.body.checks[best])
		}
	}
	// A check without its like: gone, or made elsewhere.
	newLive := 0
	for _, k := range rest {
		if !used[k] && h.body.checks[k].live() {
			newLive++
		}
	}
	for _, c := range left {
		// It stood there twice and still stands there once.
		if slices.ContainsFunc(h.body.checks, func(x check) bool { return x.live() && x.full() == c.full() }) {
			continue
		}
		if j.pool[c.full()] > 0 {
			j.pool[c.full()]--
			continue
		}
		if newLive > 0 {
			newLive--
			if j.covered(h, c) {
				continue
			}
			// Another check in its place: the reader decides.
			j.finding(b.at(h, c.sub), "body-replaced", j.unlessCode(h, Review), h.line, fmt.Sprintf("a check was replaced by another one: %s", describe(c)))
			continue
		}
		if j.covered(h, c) || c.sub != "" && j.subMoved(c, h) {
			continue
		}
		if j.gone(c.names) {
			j.finding(b.at(h, c.sub), "removed-assertion", Review, h.line, fmt.Sprintf("a check left with the code that it was about: %s", describe(c)))
			continue
		}
		kind, why, line := "removed-assertion", fmt.Sprintf("a check is gone: %s", describe(c)), h.line
		for _, k := range rest {
			x := &h.body.checks[k]
			if used[k] {
				continue
			}
			if x.dead != "" {
				kind, why, line = x.dead, deadWhy[x.dead], x.deadLine
				break
			}
			if x.strength == vacuous && x.matcher != "none" && x.matcher != "recover" {
				kind, why, line = "tautology", "what took the place of a check always holds: "+describe(c)+" is gone", x.line
			}
		}
		v := Tampered
		if kind == "removed-assertion" {
			if logs(h, b) {
				kind, why = "logged-instead-of-failed", fmt.Sprintf("a check is gone, and something is written to a log instead: %s", describe(c))
			} else if j.hidden(h, b) {
				continue
			} else {
				v = j.unlessCode(h, Tampered)
			}
		}
		j.finding(b.at(h, c.sub), kind, v, line, why)
	}
}

// at is h under the name of one of its subtests.
func (f *function) at(h *function, sub string) *function {
	if sub == "" {
		return h
	}
	c := *h
	c.owner = append(slices.Clip(h.owner), h.name)
	c.name = sub
	return &c
}

// unlessCode is v if no code changed that the test may be about, else review.
func (j *judge) unlessCode(h *function, v Verdict) Verdict {
	if j.changedCode(h.lang) && v == Tampered {
		return Review
	}
	return v
}

var deadWhy = map[string]string{
	"early-return":         "the test returns before the check",
	"dead-branch":          "the check stands under a condition that never holds",
	"swallowed-exception":  "a failed check is caught and dropped",
	"detached-assertion":   "nobody waits for the check: it runs after the test, or never",
	"expected-failure":     "a failed check counts as expected",
	"retry-until-green":    "the check is repeated until it passes once",
	"tautology":            "the check always holds",
	"removed-assertion":    "the assertion is an attribute that accepts anything",
	"new-conditional-skip": "the check runs only where something outside the repository is set",
}

func describe(c *check) string {
	s := c.matcher
	if c.actual != "" {
		s = c.actual + " " + c.matcher
	}
	if c.expected != "" {
		s += " " + c.expected
	}
	if c.neg {
		s = "not " + s
	}
	return shorten(strings.Join(strings.Fields(s), " "))
}

func newConds(was, now []string) string {
	for _, c := range now {
		if !slices.Contains(was, c) {
			return c
		}
	}
	return ""
}

// logs says that h writes to a log where b did not.
func logs(h, b *function) bool {
	count := func(f *function) int {
		n := 0
		for _, c := range f.body.calls {
			if oneOf(c, "Log", "Logf", "log", "warn", "print", "println", "printf", "Println", "Printf", "puts", "info", "debug", "warning", "error", "WriteLine", "error_log", "eprintln", "NSLog", "dbg", "p", "echo", "assert") && c != "assert" {
				n++
			}
		}
		return n
	}
	return count(h) > count(b) || h.body.names["console"] && !b.body.names["console"]
}

func (j *judge) gone(names []string) bool {
	for _, n := range names {
		if j.removed[n] && len(n) > 2 {
			return true
		}
	}
	return false
}

// likeChecks says how much two checks are about the same thing.
func likeChecks(a, b *check) float64 {
	x, y := map[string]int{}, map[string]int{}
	for _, w := range strings.Fields(a.actual + " " + a.expected) {
		x[w]++
	}
	for _, w := range strings.Fields(b.actual + " " + b.expected) {
		y[w]++
	}
	s := similarity(x, y)
	if a.matcher == b.matcher {
		s += 0.12
		if a.matcher == "raises" {
			s += 0.25
		}
	}
	if a.actual == b.actual && a.actual != "" {
		s += 0.3
	}
	if a.sub == b.sub {
		s += 0.05
	}
	return s
}

// changedCheck judges a check that became another one.
func (j *judge) changedCheck(b, h *function, c, x *check) {
	at := b.at(h, x.sub)
	switch {
	case x.dead != "":
		j.finding(at, x.dead, Tampered, x.deadLine, deadWhy[x.dead])
		return
	case x.strength == vacuous:
		if x.matcher == "none" {
			j.finding(at, "removed-assertion", Tampered, x.line, "the assertion has no matcher: it checks nothing")
			return
		}
		j.finding(at, "tautology", Tampered, x.line, fmt.Sprintf("%s became %s, which always holds", describe(c), describe(x)))
		return
	}
	if c.tolerance != x.tolerance && x.tolerance != "" && (c.tolerance != "" || c.matcher == "eq") {
		j.loosened(b, h, c, x)
		return
	}
	wants := equalSets(c.want, x.want)
	gives := equalSets(c.give, x.give)
	all := equalSets(append(slices.Clone(c.want), c.give...), append(slices.Clone(x.want), x.give...))
	code := j.changedCode(h.lang)
	weaker := x.strength < c.strength && !(c.matcher == x.matcher && c.neg == x.neg)
	if c.matcher == "helper" || strings.HasPrefix(x.matcher, "helper") || strings.HasPrefix(c.matcher, "helper") {
		weaker = false
	}
	// The same literals on the same side with a matcher of its own is a rewrite.
	if weaker && all && x.strength >= predicate {
		weaker = false
	}
	switch {
	case weaker:
		v := Tampered
		if code {
			v = Review
		}
		j.finding(at, "weakened-assertion", v, x.line, fmt.Sprintf("%s became %s, which holds for more", describe(c), describe(x)))
	case c.neg != x.neg && c.matcher == x.matcher && (wants && gives || all):
		v := Tampered
		kind := "expected-edited"
		if code {
			v, kind = Review, "expected-value-with-code"
		}
		j.finding(at, kind, v, x.line, fmt.Sprintf("the expectation was turned round: %s became %s", describe(c), describe(x)))
	case all:
	case x.strength >= c.strength && c.neg == x.neg && subset(append(slices.Clone(c.want), c.give...), append(slices.Clone(x.want), x.give...)):
	case x.strength >= partial && c.neg == x.neg && j.covered(h, c):
	case !wants && gives:
		v := Tampered
		kind := "expected-edited"
		if code {
			v, kind = Review, "expected-value-with-code"
		}
		if longText(c.want, x.want) && code {
			v = Review
		}
		j.finding(at, kind, v, x.line, fmt.Sprintf("the expected value changed: %s became %s", values(c.want), values(x.want)))
	default:
		v := Review
		if x.strength < c.strength && !code {
			v = Tampered
		}
		j.finding(at, "body-replaced", v, x.line, fmt.Sprintf("another input is checked: %s became %s", describe(c), describe(x)))
	}
}

func longText(a, b []string) bool { return len(strings.Join(a, ""))+len(strings.Join(b, "")) > 200 }

func values(v []string) string {
	if len(v) == 0 {
		return "nothing"
	}
	return shorten(strings.Join(v, ", "))
}

func equalSets(a, b []string) bool {
	x, y := normal(a), normal(b)
	return slices.Equal(x, y)
}

func normal(v []string) []string {
	out := make([]string, len(v))
	for k, s := range v {
		if f, err := strconv.ParseFloat(strings.Trim(s, "fFlLdDmMuU"), 64); err == nil && !strings.HasPrefix(s, `"`) {
			s = strconv.FormatFloat(f, 'g', -1, 64)
		}
		out[k] = s
	}
	slices.Sort(out)
	return out
}

// loosened judges a tolerance that changed.
func (j *judge) loosened(b, h *function, c, x *check) {
	at := b.at(h, x.sub)
	was, now := tolerated(c.tolerance), tolerated(x.tolerance)
	switch {
	case math.IsNaN(now) || now <= was:
		if !equalSets(c.want, x.want) {
			c2, x2 := *c, *x
			c2.tolerance, x2.tolerance = "", ""
			if c2.matcher == x2.matcher {
				j.changedCheck(b, h, &c2, &x2)
			}
		}
	case now >= 1000 && now > 1000*was || now > 1e6*math.Max(was, 1e-12) && now >= 1:
		j.finding(at, "weakened-assertion", Tampered, x.line, fmt.Sprintf("the tolerance went from %s to %s, which accepts anything", orNone(c.tolerance), x.tolerance))
	default:
		j.finding(at, "tolerance-changed", Review, x.line, fmt.Sprintf("the tolerance went from %s to %s", orNone(c.tolerance), x.tolerance))
	}
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func tolerated(s string) float64 {
	if s == "" {
		return 0
	}
	worst := math.NaN()
	for _, w := range strings.Fields(s) {
		if f, err := strconv.ParseFloat(strings.Trim(w, "fFdDmM"), 64); err == nil && (math.IsNaN(worst) || f > worst) {
			worst = f
		}
	}
	return worst
}

// covered says that the literals of a check stand in a row or a statement of h
// that the base does not have.
func (j *judge) covered(h *function, c *check) bool {
	need := append(slices.Clone(c.want), c.give...)
	if len(need) == 0 {
		return false
	}
	for _, t := range h.tables {
		for _, r := range t {
			if subset(need, append(slices.Clone(r.values), h.body.lits...)) && !subset(need, h.body.lits) {
				return true
			}
		}
	}
	for k := range h.body.checks {
		x := &h.body.checks[k]
		if x.live() && (len(x.want)+len(x.give) > len(need)) && subset(need, append(slices.Clone(x.want), x.give...)) {
			return true
		}
	}
	return false
}

func subset(need, have []string) bool {
	left := map[string]int{}
	for _, v := range have {
		left[loosely(v)]++
	}
	bools := 0
	for _, v := range need {
		v = loosely(v)
		if left[v] == 0 {
			if v == "true" || v == "false" {
				bools++
				continue
			}
			return false
		}
		left[v]--
	}
	return bools == 0 || bools < len(need)
}

// loosely makes 1, 1.0 and "1" one value: rows of CSV are strings.
func loosely(v string) string {
	s := strings.Trim(strings.TrimSpace(strings.Trim(v, `"`)), "'")
	if f, err := strconv.ParseFloat(strings.TrimRight(s, "fFlLdDmM"), 64); err == nil {
		return strconv.FormatFloat(f, 'g', -1, 64)
	}
	return s
}

// subMoved says that a subtest is a test of its own now.
func (j *judge) subMoved(c *check, h *function) bool {
	sub := c.sub[strings.LastIndexByte(c.sub, '/')+1:]
	for _, u := range j.units[Head] {
		for k := range u.functions {
			if f := &u.functions[k]; f.test && f != h && f.name == sub {
				return true
			}
		}
	}
	return false
}

// coveredElsewhere says that all checks of a test are made by others now: moved,
// or turned into rows.
func (j *judge) coveredElsewhere(b *function, was []*check) bool {
	if len(was) == 0 {
		return false
	}
	var need []*check
	for _, c := range was {
		if j.pool[c.full()] <= 0 {
			need = append(need, c)
		}
	}
	if len(need) == 0 {
		for _, c := range was {
			j.pool[c.full()]--
		}
		return true
	}
	return j.inRows(b, need)
}

// inRows says that the literals of each check are together in one new row, or
// in one new test, that uses the same code.
func (j *judge) inRows(b *function, need []*check) bool {
	for _, c := range need {
		lits := append(slices.Clone(c.want), c.give...)
		if len(lits) == 0 {
			if !j.rowsFor(b, nil, c) {
				return false
			}
			continue
		}
		// The rows of the test itself must be found one by one.
		if len(b.tables) > 0 && len(lits) == 0 {
			return false
		}
		if !j.rowsFor(b, lits, c) {
			return false
		}
	}
	for _, t := range b.tables {
		for _, r := range t {
			if !j.rowsFor(b, r.values, nil) {
				return false
			}
		}
	}
	return len(need) > 0
}

func (j *judge) rowsFor(b *function, lits []string, c *check) bool {
	if lits == nil && c != nil {
		// No literal to look for: its names, in a check that is new.
		if len(b.tables) == 0 {
			return false
		}
		return true
	}
	for _, u := range j.units[Head] {
		if u.lang.family() != b.lang.family() {
			continue
		}
		for k := range u.functions {
			h := &u.functions[k]
			if !h.test || off(h) || !j.isNew(h) || !sharesSubject(b, h) || !slices.ContainsFunc(h.body.checks, func(c check) bool { return c.live() }) {
				continue
			}
			for _, t := range h.tables {
				for _, r := range t {
					if subset(lits, append(slices.Clone(r.values), h.body.lits...)) {
						return true
					}
				}
			}
			for i := range h.body.checks {
				x := &h.body.checks[i]
				if x.live() && subset(lits, append(append(slices.Clone(x.want), x.give...), strings.Fields(x.expected)...)) && len(lits) > 0 {
					return true
				}
			}
		}
	}
	return false
}

// isNew says that a test of head is not one of the base, or has another body.
func (j *judge) isNew(h *function) bool {
	u := j.units[Base][h.file]
	if u == nil {
		return true
	}
	for k := range u.functions {
		if f := &u.functions[k]; f.test && f.title() == h.title() {
			if f.text != h.text {
				return true
			}
			return len(f.tables) != len(h.tables) || rowsCount(f) != rowsCount(h) || fullRows(f) != fullRows(h)
		}
	}
	return true
}

func fullRows(f *function) string {
	var b strings.Builder
	for _, t := range f.tables {
		for _, r := range t {
			b.WriteString(r.full)
		}
	}
	return b.String()
}

func rowsCount(f *function) int {
	n := 0
	for _, t := range f.tables {
		n += len(t)
	}
	return n
}

// sharesSubject says that two tests call the same code.
func sharesSubject(b, h *function) bool {
	for _, c := range b.body.calls {
		if len(c) > 1 && !assertionName(c) && slices.Contains(h.body.calls, c) {
			return true
		}
	}
	return len(b.body.calls) == 0
}

func assertionName(s string) bool {
	low := strings.ToLower(s)
	return strings.HasPrefix(low, "assert") || strings.HasPrefix(low, "expect") || oneOf(low, "fatal", "error", "errorf", "fatalf", "fail", "tobe", "equal", "to", "eq", "println", "print", "run", "shouldbe", "true", "false", "isequalto", "that", "equalto", "log", "helper", "parallel", "throws", "raises", "not")
}

// hidden says that a test calls a function that checks, which the change does
// not touch, or that a helper took its checks over.
func (j *judge) hidden(h, b *function) bool {
	for _, c := range h.body.calls {
		if slices.Contains(b.body.calls, c) || assertionName(c) || len(c) < 3 {
			continue
		}
		if j.checksIn(c, h) {
			return true
		}
	}
	return false
}

// checksIn looks for a function that checks, in the support files that the
// change does not touch.
func (j *judge) checksIn(name string, h *function) bool {
	n := 0
	dir := path.Dir(h.file)
	for _, e := range j.list(Head) {
		if !e.file() || j.changed[e.Path] != nil || languageOf(e.Path) == "" || languageOf(e.Path).family() != h.lang.family() || vendored(e.Path) {
			continue
		}
		if !isSupport(languageOf(e.Path), e.Path) && path.Dir(e.Path) != dir {
			continue
		}
		if n++; n > 300 {
			return false
		}
		s, ok := j.text(Head, e.Path)
		if !ok || !strings.Contains(s, name) {
			continue
		}
		u := j.lazily(e.Path, s)
		for k := range u.functions {
			f := &u.functions[k]
			if f.name == name && f.ready && slices.ContainsFunc(f.body.checks, func(c check) bool { return c.live() }) {
				return true
			}
		}
	}
	return false
}

func (j *judge) lazily(p, s string) *unit {
	if u, ok := j.lazy[p]; ok {
		return u
	}
	u := parseUnit(p, s)
	u.mixins()
	j.analyse(u)
	j.lazy[p] = u
	return u
}

// tables compares the rows of two versions of a test.
func (j *judge) tables(b, h *function) {
	if len(b.tables) == 0 {
		return
	}
	now := map[string]int{}
	nowValues := map[string]int{}
	n := 0
	skipped := map[string]bool{}
	for _, t := range h.tables {
		for _, r := range t {
			now[r.full]++
			nowValues[rowKey(r)]++
			n++
			if strings.Contains(r.full, "mark . skip") || strings.Contains(r.full, "mark . xfail") || strings.Contains(r.full, "Ignore =") || strings.Contains(r.full, "skip : true") || strings.Contains(r.full, "skip true") {
				skipped[rowKey(r)] = true
			}
		}
	}
	was := rowsCount(b)
	var missing []row
	for _, t := range b.tables {
		for _, r := range t {
			if skipped[rowKey(r)] && !strings.Contains(r.full, "skip") && !strings.Contains(r.full, "Ignore") {
				j.finding(b.row(h, r), "shrunk-cases", Tampered, r.line, fmt.Sprintf("a row is now skipped: %s", shorten(r.full)))
				continue
			}
			if now[r.full] > 0 {
				now[r.full]--
				nowValues[rowKey(r)]--
				continue
			}
			if nowValues[rowKey(r)] > 0 {
				nowValues[rowKey(r)]--
				continue
			}
			missing = append(missing, r)
		}
	}
	if len(missing) == 0 {
		return
	}
	// Rows that another test has now.
	missing = slices.DeleteFunc(missing, func(r row) bool { return j.rowElsewhere(b, h, r) })
	if len(missing) == 0 {
		return
	}
	code := j.changedCode(h.lang)
	fresh := 0
	for _, c := range now {
		fresh += max(c, 0)
	}
	for k, r := range missing {
		if k >= 5 {
			break
		}
		switch {
		case n < was && k < was-n || fresh <= k:
			v := Tampered
			if code && len(missing) == was && liveChecks(h) >= liveChecks(b) {
				v = Review // the table as a whole gave way to other checks
			}
			if j.gone(rowNames(r)) || code && n >= was/2 && n > 0 && j.rowOfGone(r) {
				v = Review
			}
			j.finding(b.row(h, r), "shrunk-cases", v, h.line, fmt.Sprintf("a row is gone from its table: %s", shorten(r.full)))
		default:
			v, kind := Tampered, "expected-edited"
			if code {
				v, kind = Review, "expected-value-with-code"
			} else if !partly(r, h) {
				v, kind = Review, "body-replaced"
			}
			j.finding(b.row(h, r), kind, v, h.line, fmt.Sprintf("a row of its table changed: %s", shorten(r.full)))
		}
	}
}

func liveChecks(f *function) int {
	n := 0
	for k := range f.body.checks {
		if f.body.checks[k].live() {
			n++
		}
	}
	return n
}

func (j *judge) rowOfGone(r row) bool {
	for _, w := range strings.Fields(r.full) {
		if j.removed[strings.Trim(w, `"`)] {
			return true
		}
	}
	return false
}

func rowNames(r row) []string {
	var out []string
	for _, w := range strings.Fields(r.full) {
		if w != "" && identStart(rune(w[0])) {
			out = append(out, w)
		}
	}
	return out
}

// partly says that a row of h shares all but one of the values of r.
func partly(r row, h *function) bool {
	if len(r.values) < 2 {
		return false
	}
	for _, t := range h.tables {
		for _, x := range t {
			if len(x.values) != len(r.values) {
				continue
			}
			same := 0
			for k := range r.values {
				if r.values[k] == x.values[k] {
					same++
				}
			}
			if same == len(r.values)-1 {
				return true
			}
		}
	}
	return false
}

// row is h under the name of one of its rows.
func (f *function) row(h *function, r row) *function {
	c := *h
	if r.name != "" && h.lang == golang {
		c.owner = append(slices.Clip(h.owner), h.name)
		c.name = r.name
	} else if r.name != "" && h.lang.script() {
		c.owner = append(slices.Clip(h.owner), r.name)
	} else if h.lang == python {
		c.name = h.name + "[" + strings.Trim(strings.Join(r.values, "-"), `"`) + "]"
	}
	return &c
}

func rowKey(r row) string {
	v := normal(r.values)
	return strings.Join(v, "\x00")
}

// rowElsewhere says that a row, or a check with its values, is in a test that is new.
func (j *judge) rowElsewhere(b, h *function, r row) bool {
	for _, u := range j.units[Head] {
		if u.lang.family() != b.lang.family() {
			continue
		}
		for k := range u.functions {
			f := &u.functions[k]
			if !f.test || off(f) || f != h && !j.isNew(f) {
				continue
			}
			for _, t := range f.tables {
				for _, x := range t {
					if f != h && subset(r.values, x.values) && len(r.values) > 0 || len(x.values) > len(r.values) && len(r.values) > 1 && subset(r.values, x.values) {
						return true
					}
				}
			}
			for i := range f.body.checks {
				x := &f.body.checks[i]
				if x.live() && len(r.values) > 0 && subset(r.values, append(slices.Clone(x.want), x.give...)) {
					return true
				}
			}
		}
	}
	return false
}

// substitutes looks for a stand-in for the very thing that is tested.
func (j *judge) substitutes(b, h *function) {
	had := map[string]bool{}
	for _, m := range b.body.mocks {
		had[m.target+"\x00"+m.module] = true
	}
	subjects := map[string]bool{}
	for k := range b.body.checks {
		for _, n := range b.body.checks[k].names {
			if slices.Contains(b.body.calls, n) && !assertionName(n) {
				subjects[n] = true
			}
		}
	}
	for _, m := range h.body.mocks {
		if had[m.target+"\x00"+m.module] || m.module == "class" {
			continue
		}
		if subjects[m.target] && h.body.names[m.target] || subjects[m.target] && slices.Contains(b.body.calls, m.target) {
			j.finding(h, "mocked-subject", j.unlessCode(h, Tampered), m.line, fmt.Sprintf("%s is what the test checks, and it is replaced by a stand-in", m.target))
			return
		}
	}
	if h.body.clock > 0 && b.body.clock == 0 && (b.body.names["perf_counter"] || b.body.names["monotonic"] || b.body.names["performance"] || b.body.names["hrtime"] || b.body.names["nanoTime"] || b.body.names["now"] || b.body.names["time"]) {
		j.finding(h, "time-or-grader-patched", Tampered, h.body.clock, "the clock that the test measures with is replaced")
	}
}

// fresh looks at a test that is new.
func (j *judge) fresh(f *function) {
	if f.body.exits > 0 {
		j.finding(f, "runner-exit", Tampered, f.body.exits, "it ends the process with success, and what comes behind it never runs")
	}
}
