package guard

import (
	"slices"
	"strings"
)

// pythonMembers reads the functions and classes of one level.
func (u *unit) pythonMembers(nodes []node, owner []string, around []mark, class string, gates []mark) {
	var annos []anno
	for i := 0; i < len(nodes); {
		j := logical(nodes, i)
		line := nodes[i:j]
		if line[0].is("@") {
			if cs := chains(python, line[1:]); len(cs) > 0 {
				a := anno{name: cs[0].last().name, full: cs[0].names(), line: line[0].line}
				if cs[0].last().args != nil {
					a.args = cs[0].last().args.kids
				}
				annos = append(annos, a)
			}
			i = j
			continue
		}
		word := line[0].s
		rest := line
		if word == "async" && len(line) > 1 {
			word, rest = line[1].s, line[1:]
		}
		var block []node
		next := j
		if line[len(line)-1].is(":") && j < len(nodes) && nodes[j].opens("{") {
			block = nodes[j].kids
			next = j + 1
		} else if line[0].kind == ident && oneOf(word, "def", "class", "if", "else", "try", "with", "for") {
			depth := 0
			for k := range line {
				if line[k].named("lambda") {
					depth++
				}
				if line[k].is(":") {
					if depth == 0 {
						block = line[k+1:]
						break
					}
					depth--
				}
			}
		}
		switch {
		case line[0].kind != ident:
			if owner == nil {
				u.top = append(u.top, line...)
			}
		case word == "def" && len(rest) > 2:
			f := function{name: rest[1].s, owner: owner, line: rest[1].line, annos: annos, given: true, nodes: block}
			if rest[2].opens("(") {
				f.params = rest[2].kids
			}
			if word != line[0].s {
				f.mods = []string{"async"}
			}
			f.marks = append(append(slices.Clip(around), gates...), u.annoMarks(annos)...)
			for _, a := range annos {
				f.tables = append(f.tables, u.annoTables(a)...)
				f.marks = append(f.marks, u.paramMarks(a)...)
			}
			f.test, f.why = u.collectsPython(&f, class)
			u.functions = append(u.functions, f)
		case word == "class" && len(rest) > 1:
			info := classInfo{name: rest[1].s, line: rest[1].line}
			for k := 2; k < len(rest); k++ {
				if rest[k].opens("(") {
					for _, part := range split(rest[k].kids) {
						if len(part) > 0 && !(len(part) > 1 && part[1].is("=")) {
							info.supers = append(info.supers, part[len(part)-1].s)
						}
					}
				}
			}
			own := suite(u.annoMarks(annos))
			// pytestmark and __test__ stand in the class.
			for k := 0; k < len(block); {
				e := logical(block, k)
				own = append(own, suite(u.pytestmark(block[k:e]))...)
				k = e
			}
			u.types[info.name] = info
			before := len(u.functions)
			u.pythonMembers(block, append(slices.Clip(owner), info.name), append(append(slices.Clip(around), gates...), own...), info.name, nil)
			for _, f := range u.functions[before:] {
				if len(f.owner) == len(owner)+1 {
					info.methods = append(info.methods, f.name)
				}
			}
			u.types[info.name] = info
		case word == "if":
			a := &analysis{scope: u.scope}
			cond := line[1 : len(line)-1]
			g := gates
			m := mark{kind: skipMark, line: line[0].line, text: "if " + shorten(canonical(cond)), canon: "if " + canonical(cond), suite: true}
			if !mentions(cond, "__name__") {
				switch a.truth(cond) {
				case no:
					g = append(slices.Clip(gates), m)
				case yes:
				case unknown:
					m.cond = a.classify(cond)
					g = append(slices.Clip(gates), m)
				}
				u.pythonMembers(block, owner, around, class, g)
			}
			if owner == nil && !mentions(cond, "__name__") {
				u.top = append(u.top, line...)
				u.top = append(u.top, nodes[j:next]...)
			}
		case oneOf(word, "else", "elif", "try", "except", "finally", "with", "for", "while"):
			u.pythonMembers(block, owner, around, class, gates)
			if owner == nil {
				u.top = append(u.top, line...)
				u.top = append(u.top, nodes[j:next]...)
			}
		default:
			if owner == nil {
				u.top = append(u.top, line...)
				around = append(slices.Clip(around), suite(u.pytestmark(line))...)
			}
		}
		annos = nil
		i = next
	}
}

// pytestmark reads pytestmark = pytest.mark.skip and __test__ = False.
func (u *unit) pytestmark(line []node) []mark {
	if len(line) < 3 || !line[1].is("=") {
		return nil
	}
	switch line[0].s {
	case "pytestmark":
		var out []mark
		nodes := line[2:]
		if len(nodes) == 1 && nodes[0].opens("[") {
			nodes = nodes[0].kids
		}
		for _, part := range split(nodes) {
			for _, c := range chains(python, part) {
				a := anno{name: c.last().name, full: c.names(), line: c.line}
				if c.last().args != nil {
					a.args = c.last().args.kids
				}
				out = append(out, u.annoMarks([]anno{a})...)
			}
		}
		return out
	case "__test__":
		if line[2].named("False") {
			return []mark{{kind: skipMark, line: line[0].line, text: "__test__ = False", canon: "__test__"}}
		}
	}
	return nil
}

// paramMarks finds rows of a table that are marked to be skipped.
func (u *unit) paramMarks(a anno) []mark {
	if a.name != "parametrize" {
		return nil
	}
	return nil
}

// collectsPython says whether pytest or unittest takes a function for a test.
func (u *unit) collectsPython(f *function, class string) (bool, string) {
	if hasAnno(f.annos, "fixture") {
		return false, ""
	}
	if !strings.HasPrefix(f.name, "test") {
		return false, ""
	}
	if len(f.owner) == 0 {
		return u.isTest, ""
	}
	info := u.types[class]
	if u.unittestClass(class, 0) {
		return true, ""
	}
	if !u.isTest {
		return false, ""
	}
	if strings.HasPrefix(class, "Test") {
		return true, ""
	}
	_ = info
	return false, "renamed-uncollected"
}

// unittestClass says that a class is a TestCase, as far as this file tells.
func (u *unit) unittestClass(name string, depth int) bool {
	info, ok := u.types[name]
	if !ok || depth > 8 {
		return false
	}
	for _, s := range info.supers {
		if strings.HasSuffix(s, "TestCase") || s == "TestBase" || strings.HasSuffix(s, "TestBase") || strings.HasSuffix(s, "TestsBase") || strings.HasSuffix(s, "BaseTest") {
			return true
		}
		if _, here := u.types[s]; here {
			if u.unittestClass(s, depth+1) {
				return true
			}
			continue
		}
		// A base from elsewhere, in a class that calls itself a test.
		if s != "object" && s != "Protocol" && s != "ABC" && (strings.Contains(name, "Test") || strings.Contains(s, "Test")) && u.isTest {
			return true
		}
	}
	return false
}

// mixins turns the methods that a collected class inherits into tests, and
// those of a class with a constructor into none. It runs when the whole file is
// known.
func (u *unit) mixins() {
	if u.lang != python {
		return
	}
	used := map[string]bool{}
	for name, info := range u.types {
		if u.unittestClass(name, 0) || strings.HasPrefix(name, "Test") && u.isTest {
			for _, s := range info.supers {
				used[s] = true
			}
		}
	}
	for range 4 {
		for name, info := range u.types {
			if used[name] {
				for _, s := range info.supers {
					used[s] = true
				}
			}
		}
	}
	for k := range u.functions {
		f := &u.functions[k]
		if len(f.owner) == 0 || !strings.HasPrefix(f.name, "test") {
			continue
		}
		class := f.owner[len(f.owner)-1]
		if used[class] && !f.test && f.why == "renamed-uncollected" {
			f.test, f.why = true, ""
		}
		info := u.types[class]
		if f.test && (slices.Contains(info.methods, "__init__") || slices.Contains(info.methods, "__new__")) && !u.unittestClass(class, 0) {
			f.test, f.why = false, "renamed-uncollected"
		}
	}
}
