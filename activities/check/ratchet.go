package check

import (
	"fmt"
	"slices"
	"strings"

	"interlock/activities/evidence"
	"interlock/machine"
	"interlock/slice"
)

// Move says that a test of the base, as its source names it, is made by
// another one now.
type Move struct{ From, To string }

// Loss is a test that ran and passed at the base and does no more.
type Loss struct {
	Name string
	// Why completes "ran at the base and".
	Why string
}

// Losses compares the tests of a check with those at the base: what ran and
// passed there must run here. A test that fails runs. No loss is
//
//   - a test of the same name in another package, class or file;
//   - a row of a table for which there is a new one;
//   - a test that moves have replaced by one that passes;
//   - a test whose name, or the last part of it, an entry of allowed matches, in
//     which * is any text.
//
// Each new test makes up for one of the base.
func Losses(base, now Tests, allowed []string, moves []Move) []Loss {
	if base.More && now.More {
		return nil
	}
	c := newComparison(base, now)
	var losses []Loss
	missing := map[string][]Test{} // by family
	var families []string
	for _, b := range base.Tests {
		if b.State != Passed {
			continue
		}
		n, ok := c.now[b.Name]
		switch {
		case ok && n.State == Failing, ok && n.State == Passed && n.N >= b.N:
		case ok && n.State == Skipped:
			losses = append(losses, Loss{b.Name, "is skipped now"})
		case ok:
			losses = append(losses, Loss{b.Name, fmt.Sprintf("runs %d times instead of %d", n.N, b.N)})
		case c.moved(b.Name):
		default:
			family := family(b.Name)
			if missing[family] == nil {
				families = append(families, family)
			}
			missing[family] = append(missing[family], b)
		}
	}
	for _, f := range families {
		for _, b := range missing[f] {
			if !c.anotherRow(f, b.Name) && !c.replaced(b.Name, moves) {
				losses = append(losses, Loss{b.Name, "no longer runs"})
			}
		}
	}
	losses = slices.DeleteFunc(losses, func(l Loss) bool {
		return slices.ContainsFunc(allowed, func(glob string) bool { return NameMatches(glob, l.Name) })
	})
	slices.SortFunc(losses, func(a, b Loss) int { return strings.Compare(a.Name, b.Name) })
	return losses
}

// comparison is what Losses knows of the tests that are there now.
type comparison struct {
	now map[string]Test
	// leaves and rows are the new tests that pass and have not made up for
	// another one yet, by their last part and by their family.
	leaves, rows map[string][]string
	used         map[string]bool
	passing      []string
}

func newComparison(base, now Tests) *comparison {
	had := map[string]bool{}
	for _, b := range base.Tests {
		had[b.Name] = true
	}
	c := &comparison{now: map[string]Test{}, leaves: map[string][]string{}, rows: map[string][]string{}, used: map[string]bool{}}
	for _, t := range now.Tests {
		c.now[t.Name] = t
		if t.State != Passed {
			continue
		}
		c.passing = append(c.passing, t.Name)
		if had[t.Name] {
			continue
		}
		c.leaves[leaf(t.Name)] = append(c.leaves[leaf(t.Name)], t.Name)
		if f := family(t.Name); f != t.Name {
			c.rows[f] = append(c.rows[f], t.Name)
		}
	}
	return c
}

func (c *comparison) take(names []string) bool {
	for _, name := range names {
		if !c.used[name] {
			c.used[name] = true
			return true
		}
	}
	return false
}

func (c *comparison) moved(name string) bool { return c.take(c.leaves[leaf(name)]) }

func (c *comparison) anotherRow(family, name string) bool {
	return family != name && c.take(c.rows[family])
}

// replaced: several tests of the base may have become one with rows.
func (c *comparison) replaced(name string, moves []Move) bool {
	for _, m := range moves {
		if !called(name, m.From) {
			continue
		}
		if slices.ContainsFunc(c.passing, func(now string) bool { return called(now, m.To) }) {
			return true
		}
	}
	return false
}

// family is the name of a test without the part that tells the rows of a table
// apart: Test/row, test[row], test(row)[1], test with data set #1.
func family(name string) string {
	if i := strings.Index(name, " with data set "); i > 0 {
		return name[:i]
	}
	if pkg, test := splitName(name); test != "" {
		if i := strings.IndexByte(test, '/'); i > 0 {
			return strings.TrimSuffix(pkg+"."+test[:i], ".")
		}
		return name
	}
	if i := strings.IndexAny(name, "[({"); i > 0 && strings.ContainsAny(name[len(name)-1:], "])}") {
		return strings.TrimSpace(name[:i])
	}
	return name
}

// leaf is the last part of a name, which a move to another package, class or
// file leaves as it is.
func leaf(name string) string {
	if _, test := splitName(name); test != "" {
		return test
	}
	f := family(name)
	rest := name[len(f):]
	for _, sep := range []string{" > ", "::", "."} {
		if i := strings.LastIndex(f, sep); i >= 0 && i+len(sep) < len(f) {
			return f[i+len(sep):] + rest
		}
	}
	return name
}

// called reports whether a test is the one that its source names so.
func called(full, title string) bool {
	if title == "" {
		return false
	}
	for _, name := range []string{full, family(full)} {
		rest, ok := strings.CutSuffix(name, title)
		if ok && (rest == "" || strings.ContainsAny(rest[len(rest)-1:], ".:/> #$")) {
			return true
		}
		// Java's runners write a method with its parentheses.
		if strings.TrimSuffix(leaf(name), "()") == title {
			return true
		}
	}
	return false
}

// NameMatches reports whether a glob matches the name of a test or the last
// part of it; * is any text, and ? any character.
func NameMatches(glob, name string) bool {
	f := family(name)
	for _, n := range []string{name, leaf(name), f, leaf(f)} {
		if nameGlob(glob, n) {
			return true
		}
	}
	return false
}

func nameGlob(glob, name string) bool {
	star, from := -1, 0
	g, n := 0, 0
	for n < len(name) {
		switch {
		case g < len(glob) && glob[g] == '*':
			star, from = g, n
			g++
		case g < len(glob) && (glob[g] == '?' || glob[g] == name[n]):
			g++
			n++
		case star >= 0:
			from++
			g, n = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(glob[g:], "*") == ""
}

// Lose makes a result red for what it lost.
func Lose(c *slice.CheckResult, losses []Loss) {
	if len(losses) == 0 {
		return
	}
	c.Outcome = machine.Failed
	var told strings.Builder
	for i, l := range losses {
		if i >= maxFailing {
			break
		}
		c.Lost = append(c.Lost, evidence.Line(l.Name, 300))
		if told.Len() < summaryLimit/2 {
			fmt.Fprintf(&told, "`%s` ran at the base and %s\n", evidence.Line(l.Name, 300), l.Why)
		}
	}
	more := ""
	if n := len(losses) - 1; n > 0 {
		more = fmt.Sprintf(", and %d more", n)
	}
	c.Why += fmt.Sprintf("; `%s` ran at the base and %s%s", evidence.Line(losses[0].Name, 200), losses[0].Why, more)
	c.Summary = evidence.Cut(told.String()+"\n"+c.Summary, summaryLimit, summaryHead+told.Len())
}

// Excused reports whether a red check counts as done, because expected names
// it or all tests of it that fail.
func Excused(c slice.CheckResult, expected []string) bool {
	return c.Outcome == machine.Failed && isExpected(c, expected)
}
