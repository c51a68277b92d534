package machine

import "fmt"

// formats are those that Graph knows.
var formats = []string{"mermaid", "dot", "table"}

// Graph draws the table: as a Mermaid flowchart, as a graph for Graphviz's
// dot, or as a Markdown table. It is generated from what decides.
func Graph(format string) (string, error) {
	switch format {
	case "mermaid":
		return standard.mermaid(), nil
	case "dot":
		return standard.dot(), nil
	case "table":
		return standard.markdown(), nil
	}
	return "", fmt.Errorf("%q is no format of the graph: expected %s, %s or %s", format, formats[0], formats[1], formats[2])
}

// EndingsTable is the table of endings in Markdown: exit code, ending and
// cause, what a person does next, and where the slice is reopened.
func EndingsTable() string { return standard.endingsTable() }

// everywhere are the outcomes that say the same wherever they are listed. The
// diagrams leave them out, the table tells them below.
var everywhere = []Outcome{Limited, Lost}

// An arrow is a way from one step to another in the diagrams; rules that lead
// the same way are one arrow.
type arrow struct {
	from, to Step
	label    string
	main     bool // the way of a slice without incident
}

func (d *definition) arrows() []arrow {
	var list []arrow
	for _, from := range steps {
		for i := range d.table {
			r := &d.table[i]
			if r.End != "" || !has(r.In, from) || has(everywhere, r.On) {
				continue
			}
			a := arrow{from, r.To, label(r), false}
			if a.to == Same {
				a.to = from
			}
			a.main = r.On == Done && after(from, a.to)
			joined := false
			for j := range list {
				if b := &list[j]; b.from == a.from && b.to == a.to {
					b.label, b.main = join(b.label, a.label, "; "), b.main || a.main
					joined = true
				}
			}
			if !joined {
				list = append(list, a)
			}
		}
	}
	for i := range list {
		if list[i].main && list[i].label == string(Done) {
			list[i].label = ""
		}
	}
	return list
}

// after reports whether a slice without incident takes b after a.
func after(a, b Step) bool {
	for i, s := range steps[:len(steps)-1] {
		if s == a {
			return steps[i+1] == b || a == Judge && b == Commit
		}
	}
	return false
}

// exits are the endings of a step, one string for each code.
func (d *definition) exits(from Step) []string {
	var list []string
	code := -1
	for _, end := range d.endings {
		if end.Ending == Delivered || !d.ends(from, end) {
			continue
		}
		if end.Code != code {
			list = append(list, fmt.Sprintf("%d %s", end.Code, end.Ending))
			if end.Cause != "" {
				list[len(list)-1] += ": " + string(end.Cause)
			}
		} else {
			list[len(list)-1] += ", " + string(end.Cause)
		}
		code = end.Code
	}
	return list
}

func (d *definition) ends(from Step, end End) bool {
	for i := range d.table {
		r := &d.table[i]
		if r.End == end.Ending && has(r.In, from) && !has(everywhere, r.On) &&
			(r.EndCause == end.Cause || r.EndCause == ByEvent && has(r.Causes, end.Cause)) {
			return true
		}
	}
	return false
}

// notes are what the diagrams say once for all steps.
func (d *definition) notes() []string {
	list := []string{"B is the budget of a counter"}
	for _, o := range everywhere {
		for _, cell := range d.cells(o, "; ") {
			in := "steps on a host"
			if o == Limited {
				in = "steps that cost (thick border)"
			}
			list = append(list, fmt.Sprintf("%s, in all %s: %s", o, in, cell))
		}
	}
	broke, _ := find(d.endings, AbortedBudget, "")
	stopped, _ := find(d.endings, Cancelled, "")
	return append(list,
		fmt.Sprintf("more spent than the cap: no step that costs is begun, %d %s", broke.Code, broke.Ending),
		fmt.Sprintf("cancelled at any step: %d %s", stopped.Code, stopped.Ending))
}

// label is what makes rule r apply, and what it counts.
func label(r *Rule) string {
	text := string(r.On)
	for i, c := range r.Causes {
		text += pick(i == 0, " ", ", ") + string(c)
	}
	for i, g := range r.If {
		text += pick(i == 0, ", ", " and ") + g.String()
	}
	return text
}

// String says the guard in words.
func (g Guard) String() string {
	switch g.Is {
	case Left:
		return fmt.Sprintf("%s < B", g.Of)
	case Some:
		return fmt.Sprintf("%s + 1 < B", g.Of)
	case Last:
		return fmt.Sprintf("%s + 1 = B", g.Of)
	case None:
		return fmt.Sprintf("%s ≥ B", g.Of)
	case MoreTasks, LastTask, OpenTasks, NoTasks, Delivers, Blocks,
		PlanGateOff, PublishGateOff, MergeGateOff, E2EOff, NoProposal, NoMerge:
	}
	return string(g.Is)
}

func (d *definition) optional(s Step) string {
	text := ""
	for _, o := range d.leaveOut {
		if o.Step == s {
			text = join(text, string(o.If), ", ")
		}
	}
	if text == "" {
		return ""
	}
	return "skipped: " + text
}

func (d *definition) mermaid() string {
	out := "flowchart TD\n"
	for _, s := range steps {
		text := string(s)
		if skip := d.optional(s); skip != "" {
			text += "<br><small>" + skip + "</small>"
		}
		out += fmt.Sprintf("  %s[\"%s\"]\n", s, text)
	}
	out += "  delivered([\"0 delivered\"])\n"
	for _, a := range d.arrows() {
		line := pick(a.main, "==>", "-->")
		if a.label != "" {
			line += fmt.Sprintf("|\"%s\"|", breaks(a.label, "<br>"))
		}
		out += fmt.Sprintf("  %s %s %s\n", a.from, line, a.to)
	}
	out += "  merge ==> delivered\n"
	for _, s := range steps {
		text := ""
		for _, e := range d.exits(s) {
			text = join(text, e, "<br>")
		}
		if text != "" {
			out += fmt.Sprintf("  %s -.-> ends_%s>\"%s\"]:::ending\n", s, s, text)
		}
	}
	note := ""
	for _, n := range d.notes() {
		note = join(note, bare(n), "<br>")
	}
	out += fmt.Sprintf("  notes[\"%s\"]:::ending\n", note)
	out += "  classDef ending fill:none,stroke-dasharray:3 3,text-align:left\n"
	for i, s := range d.costs {
		out += pick(i == 0, "  class ", ",") + string(s)
	}
	return out + " costs\n  classDef costs stroke-width:3px\n"
}

func (d *definition) dot() string {
	out := "digraph interlock {\n  node [shape=box, style=rounded, fontname=\"sans-serif\"];\n" +
		"  edge [fontname=\"sans-serif\", fontsize=10];\n"
	for _, s := range steps {
		text := string(s)
		if skip := d.optional(s); skip != "" {
			text += `\n` + skip
		}
		width := pick(has(d.costs, s), 3, 1)
		out += fmt.Sprintf("  %s [label=\"%s\", group=main, penwidth=%d];\n", s, text, width)
	}
	out += "  delivered [label=\"0 delivered\", shape=oval, group=main];\n"
	for _, a := range d.arrows() {
		style := pick(a.main, "penwidth=3, weight=10", "constraint=false") + pick(a.from == a.to, ", tailport=w, headport=w", "")
		out += fmt.Sprintf("  %s -> %s [label=\"%s\", %s];\n", a.from, a.to, breaks(a.label, `\n`), style)
	}
	out += "  { rank=same; advise; commit; }\n  merge -> delivered [penwidth=3, weight=10];\n"
	for _, s := range steps {
		text := ""
		for _, e := range d.exits(s) {
			text += e + `\l`
		}
		if text != "" {
			out += fmt.Sprintf("  ends_%s [label=\"%s\", shape=note, style=dashed, fontsize=10];\n", s, text)
			out += fmt.Sprintf("  { rank=same; %s; ends_%s; }\n  %s -> ends_%s [style=dashed];\n", s, s, s, s)
		}
	}
	note := ""
	for _, n := range d.notes() {
		note += bare(n) + `\l`
	}
	return out + fmt.Sprintf("  notes [label=\"%s\", shape=note, style=dashed, fontsize=10];\n}\n", note)
}

// columns are the outcomes that have one in the table; the others stay in the
// step and are told below it.
var columns = []Outcome{Done, Failed, Unmeasured, Corrections, Discarded, Unanswered}

func (d *definition) markdown() string {
	out, line := "| step |", "|---|"
	for _, o := range columns {
		out += fmt.Sprintf(" %s |", o)
		line += "---|"
	}
	out += "\n" + line + "\n"
	for _, s := range steps {
		out += fmt.Sprintf("| `%s` |", s)
		for _, o := range columns {
			out += fmt.Sprintf(" %s |", d.cell(s, o, "<br>"))
		}
		out += "\n"
	}
	out += "\nB is the budget of the counter. What is not listed (–) is impossible.\n\n"
	for _, o := range everywhere {
		for _, cell := range d.cells(o, "; ") {
			in := ""
			for _, s := range steps {
				if d.cell(s, o, "; ") == cell {
					in = join(in, fmt.Sprintf("`%s`", s), ", ")
				}
			}
			out += fmt.Sprintf("- `%s` in %s: %s\n", o, in, cell)
		}
	}
	costs := ""
	for _, s := range d.costs {
		costs = join(costs, fmt.Sprintf("`%s`", s), ", ")
	}
	broke, _ := find(d.endings, AbortedBudget, "")
	out += fmt.Sprintf("- with more spent than the cap, none of %s is begun: **%s** (%d)\n", costs, AbortedBudget, broke.Code)
	for _, s := range steps {
		if skip := d.optional(s); skip != "" {
			out += fmt.Sprintf("- `%s` is %s\n", s, skip)
		}
	}
	return out
}

// cells are the different cells of outcome o, in the order of the steps.
func (d *definition) cells(o Outcome, sep string) []string {
	var list []string
	for _, s := range steps {
		if c := d.cell(s, o, sep); c != "–" && !has(list, c) {
			list = append(list, c)
		}
	}
	return list
}

func (d *definition) cell(s Step, o Outcome, sep string) string {
	text := ""
	for i := range d.table {
		r := &d.table[i]
		if r.On == o && has(r.In, s) {
			text = join(text, d.entry(r), sep)
		}
	}
	if text == "" {
		return "–"
	}
	return text
}

// entry is one rule in words: [cause][, guards]: where it leads.
func (d *definition) entry(r *Rule) string {
	when := ""
	for _, c := range r.Causes {
		when = join(when, string(c), ", ")
	}
	for i, g := range r.If {
		when = join(when, g.String(), pick(i == 0, "; ", " and "))
	}
	text := ""
	if when != "" {
		text = when + ": "
	}
	switch {
	case r.End != "":
		text += d.ending(r)
	case r.To == Same:
		text += "stays"
	default:
		text += "→ " + string(r.To)
	}
	for _, c := range r.Count {
		text += fmt.Sprintf(", %s+1", c)
	}
	for _, a := range r.Do {
		text += ", " + string(a)
	}
	if r.Mark != "" {
		text += fmt.Sprintf(" (*%s*)", r.Mark)
	}
	return text
}

func (d *definition) ending(r *Rule) string {
	cause := r.EndCause
	if cause == ByEvent {
		cause = r.Causes[0]
	}
	end, _ := find(d.endings, r.End, cause)
	text := fmt.Sprintf("**%s** (%d", r.End, end.Code)
	switch r.EndCause {
	case "":
	case ByEvent:
		text += ", that cause"
	default:
		text += fmt.Sprintf(", `%s`", r.EndCause)
	}
	return text + ")"
}

func (d *definition) endingsTable() string {
	out := "| code | ending (cause) | what a person does next | reopened at |\n|---|---|---|---|\n"
	for _, e := range d.endings {
		out += endingsRow(e)
	}
	return out
}

func endingsRow(e End) string {
	name := string(e.Ending)
	if e.Cause != "" {
		name += fmt.Sprintf(" (%s)", e.Cause)
	}
	at := ""
	switch {
	case e.ReopenAt == "":
		at = "–"
	case e.ReopenAt == Same:
		at = "the step that was due"
	case e.AddsTask:
		at = fmt.Sprintf("%s of an added task", e.ReopenAt)
	default:
		at = string(e.ReopenAt)
	}
	if e.Ending == Cancelled {
		at += fmt.Sprintf("; %s, if it had been published", PublishGate)
	}
	for _, c := range e.Reset {
		at += fmt.Sprintf(", %s 0", c)
	}
	return fmt.Sprintf("| %d | %s | %s | %s |\n", e.Code, name, e.Next, at)
}

// bare is text without the marks of Markdown.
func bare(text string) string {
	out := ""
	for _, c := range text {
		if c != '*' && c != '`' {
			out += string(c)
		}
	}
	return out
}

// breaks exchanges the "; " between joined labels for a line break.
func breaks(text, br string) string {
	out := ""
	for i := 0; i < len(text); i++ {
		if text[i] == ';' && i+1 < len(text) && text[i+1] == ' ' {
			out += br
			i++
			continue
		}
		out += text[i : i+1]
	}
	return out
}

func join(a, b, sep string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + sep + b
}

func pick[T any](first bool, a, b T) T {
	if first {
		return a
	}
	return b
}
