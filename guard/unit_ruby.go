package guard

import (
	"slices"
	"strings"
)

// rubyMembers reads the tests of one level: classes, methods, and the blocks
// of RSpec and of minitest/spec.
func (u *unit) rubyMembers(nodes []node, owner []string, around []mark, outer [][]row) {
	p := &splitter{lang: ruby}
	private := false
	for i := 0; i < len(nodes); {
		if nodes[i].is(";") {
			i++
			continue
		}
		// A statement goes up to the end of its line, its block with it.
		j := i + 1
		for j < len(nodes) && !nodes[j].is(";") && (!nodes[j].nl || p.continues(nodes[j-1]) || nodes[j].is(".")) {
			j++
		}
		line := nodes[i:j]
		i = j
		word := ""
		if line[0].kind == ident {
			word = line[0].s
		}
		var block *node
		for k := range line {
			if line[k].opens("{") {
				block = &line[k]
			}
		}
		switch word {
		case "private", "protected", "private_class_method":
			if len(line) == 1 {
				private = true
			} else if len(line) > 1 && line[1].kind == text {
				for _, v := range literals(line[1:]) {
					for k := range u.functions {
						if f := &u.functions[k]; f.name == strings.Trim(v, `":`) && slices.Equal(f.owner, owner) && f.test {
							f.test, f.why = false, "renamed-uncollected"
						}
					}
				}
			} else if line[1].named("def") {
				u.rubyDef(line[1:], owner, around, true)
			}
			continue
		case "def":
			u.rubyDef(line, owner, around, private)
			continue
		case "class", "module":
			var names []string
			super := false
			info := classInfo{line: line[0].line}
			for k := 1; k < len(line) && !line[k].opens("{"); k++ {
				if line[k].is("<") {
					super = true
				}
				if line[k].kind == ident {
					if super {
						info.supers = append(info.supers, line[k].s)
					} else {
						names = append(names, line[k].s)
					}
				}
			}
			if len(names) == 0 || block == nil {
				continue
			}
			info.name = names[len(names)-1]
			u.types[info.name] = info
			u.rubyMembers(block.kids, append(slices.Clip(owner), info.name), around, outer)
			continue
		case "if", "unless":
			if block != nil {
				a := &analysis{scope: u.scope}
				cond := line[1:]
				for k := range line {
					if line[k].opens("{") {
						cond = line[1:k]
						break
					}
				}
				marks := around
				m := mark{kind: skipMark, line: line[0].line, text: word + " " + shorten(canonical(cond)), canon: word + " " + canonical(cond), suite: true}
				t := a.truth(cond)
				if t == unknown {
					m.cond = a.classify(cond)
					marks = append(slices.Clip(around), m)
				} else if (t == no) == (word == "if") {
					marks = append(slices.Clip(around), m)
				}
				u.rubyMembers(block.kids, owner, marks, outer)
			}
			continue
		}
		cs := chains(ruby, line)
		if len(cs) == 0 {
			continue
		}
		c := cs[0]
		l := &c.links[0]
		if oneOf(l.name, "RSpec", "Minitest", "Test") && len(c.links) > 1 {
			l = &c.links[1]
		}
		if c.last().name == "each" || c.last().name == "each_pair" || c.last().name == "each_with_index" {
			t := append(slices.Clip(outer), tables(line[:max(c.end-1, 0)])...)
			if v, ok := u.scope.values[c.links[0].name]; ok {
				t = append(t, tables(v)...)
			}
			if c.last().block != nil {
				u.rubyMembers(closureBody(ruby, c.last().block.kids, nil), owner, around, t)
				continue
			}
		}
		if line[0].opens("[") && block != nil {
			u.rubyMembers(closureBody(ruby, block.kids, nil), owner, around, append(slices.Clip(outer), tables(line)...))
			continue
		}
		u.rubyBlock(l, c, block, owner, around, outer)
	}
}

var rubyTests = []string{"it", "specify", "example", "scenario", "test", "should", "its"}
var rubyGroups = []string{"describe", "context", "feature", "shared_examples", "shared_examples_for", "shared_context", "example_group"}

func (u *unit) rubyBlock(l *link, c chain, block *node, owner []string, around []mark, outer [][]row) {
	word := l.name
	base := word
	line := c.line
	marks := slices.Clip(around)
	switch {
	case oneOf(word, "xit", "xspecify", "xexample", "xscenario", "xtest", "xdescribe", "xcontext", "xfeature"):
		base = word[1:]
		marks = append(marks, mark{kind: skipMark, line: line, text: word, canon: word})
	case oneOf(word, "fit", "fspecify", "fexample", "fscenario", "fdescribe", "fcontext"):
		base = word[1:]
		marks = append(marks, mark{kind: focusMark, line: line, text: word, canon: word})
	case word == "skip" || word == "pending":
		if block == nil || len(owner) == 0 {
			return
		}
		base = "it"
		kind := skipMark
		if word == "pending" {
			kind = failMark
		}
		marks = append(marks, mark{kind: kind, line: line, text: word, canon: word})
	}
	group := oneOf(base, rubyGroups...)
	if !group && !oneOf(base, rubyTests...) {
		if base == "before" && block != nil {
			u.functions = append(u.functions, function{name: "before", owner: owner, line: line, nodes: block.kids, given: true})
		}
		return
	}
	args := l.arguments()
	parts := split(args)
	title := ""
	if len(parts) > 0 {
		switch {
		case parts[0][0].kind == text:
			title = strings.TrimPrefix(parts[0][0].s, ":")
		case parts[0][0].kind == ident:
			title = canonical(parts[0])
			if k := strings.Index(title, " {"); k > 0 {
				title = title[:k]
			}
		}
	}
	an := &analysis{scope: u.scope}
	for _, part := range parts[min(1, len(parts)):] {
		key, value := "", []node(nil)
		switch {
		case len(part) == 1 && part[0].kind == text && strings.HasPrefix(part[0].s, ":"):
			key = part[0].s[1:]
		case len(part) > 2 && part[0].kind == ident && part[1].is(":"):
			key, value = part[0].s, part[2:]
		case len(part) > 2 && part[0].kind == text && part[1].is("=>"):
			key, value = strings.TrimPrefix(part[0].s, ":"), part[2:]
		default:
			continue
		}
		if len(value) > 0 && value[len(value)-1].opens("{") {
			value = value[:len(value)-1]
		}
		if len(value) > 0 && an.truth(value) == no && key != "if" {
			continue
		}
		m := mark{line: line, text: key + ":", canon: key}
		switch key {
		case "skip":
			m.kind = skipMark
		case "pending":
			m.kind = failMark
		case "focus":
			m.kind = focusMark
		case "if", "unless":
			m.kind, m.cond = skipMark, byProbe
			m.canon += canonical(value)
			if len(value) > 0 {
				if t := an.truth(value); t != unknown {
					m.cond = never
					if (t == no) == (key == "if") {
						m.cond = always
					}
				} else {
					m.cond = an.classify(value)
				}
			}
			if m.cond == never {
				continue
			}
		case "retry", "flaky":
			m.kind = retryMark
		default:
			m.kind = tagMark
		}
		marks = append(marks, m)
	}
	if group {
		if block != nil {
			in := owner
			if title != "" {
				in = append(slices.Clip(owner), title)
			}
			u.rubyMembers(closureBody(ruby, block.kids, nil), in, suite(marks), outer)
		}
		return
	}
	f := function{name: title, owner: owner, line: line, marks: marks, tables: outer, test: u.isTest || len(owner) > 0}
	if block != nil {
		f.nodes, f.given = closureBody(ruby, block.kids, nil), true
	} else {
		f.marks = append(f.marks, mark{kind: todoMark, line: line, text: "an example without a body", canon: "pending"})
	}
	u.functions = append(u.functions, f)
}

func (u *unit) rubyDef(line []node, owner []string, around []mark, private bool) {
	k := 1
	for k < len(line) && (line[k].named("self") || line[k].is(".")) {
		k++
	}
	if k >= len(line) {
		return
	}
	f := function{name: line[k].s, owner: owner, line: line[k].line, marks: slices.Clip(around)}
	for j := k + 1; j < len(line); j++ {
		if line[j].opens("(") && f.params == nil {
			f.params = line[j].kids
		}
		if line[j].opens("{") && !f.given {
			f.nodes, f.given = line[j].kids, true
			// rescue and ensure of the method follow as further groups.
			if j+1 < len(line) {
				f.nodes = append([]node{{kind: ident, s: "begin", line: f.line, nl: true}, line[j]}, line[j+1:]...)
			}
			break
		}
		if line[j].is("=") {
			f.nodes, f.given = line[j+1:], true
			break
		}
	}
	if strings.HasPrefix(f.name, "test_") && len(owner) > 0 && u.isTest {
		class := u.types[owner[len(owner)-1]]
		switch {
		case private:
			f.why = "renamed-uncollected"
		case len(class.supers) == 0 && !strings.Contains(class.name, "Test"):
			f.why = "renamed-uncollected"
		default:
			f.test = true
		}
	}
	u.functions = append(u.functions, f)
}
