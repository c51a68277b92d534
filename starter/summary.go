package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"interlock/machine"
	"interlock/slice"
)

// summary tells a person how a slice ended: what was delivered, or why it was
// not, where to look, and what to do next.
type summary struct {
	result slice.Result
	title  string
	// home is the folder in which evidence is looked for; empty if the worker
	// was not on this host.
	home string
	// here is how home and server are named in a command.
	here string
	term terminal
}

func (s summary) write(w io.Writer) {
	r, t := s.result, s.term
	head := string(r.Ending)
	if r.Cause != "" {
		head += " (" + string(r.Cause) + ")"
	}
	switch {
	case r.Code == 0:
		head = t.green(head)
	case r.Ending == machine.Cancelled:
		head = t.yellow(head)
	default:
		head = t.red(head)
	}
	fmt.Fprintf(w, "%s  %s\n\n", t.bold(head), plain(s.title))

	f := fields{w: w, term: t}
	f.add("slice", r.Slice)
	if r.Code != 0 {
		if r.Ending != machine.Cancelled {
			f.add("at", string(r.Step))
		}
		f.lines("why", r.Why)
	}
	s.where(&f)
	s.tasks(&f)
	if r.Code != 0 {
		s.checks(&f)
		s.findings(&f, "finding", r.Findings)
	}
	s.findings(&f, "open", r.Open)
	s.findings(&f, "struck", r.Struck)
	for _, kept := range r.Kept {
		f.add("kept", kept)
	}
	if r.Code != 0 {
		for _, undone := range r.Undone {
			f.add("undone", plain(undone))
		}
	}
	for _, failed := range r.Failed {
		f.add("by hand", t.yellow(plain(failed)))
	}
	if r.Late > 0 {
		f.add("late", count(r.Late, "blocking finding")+" of later rounds, on lines that had not changed, became notes")
	}
	f.add("sandbox", plain(r.Sandbox))
	f.add("cost", slice.USD(r.CostMicroUSD).String())
	f.list("", costs(r.Costs, nil))
	f.add("time", took(time.Duration(r.Millis)*time.Millisecond))
	if r.Ledger.N > 0 {
		f.add("record", fmt.Sprintf("%s, head %s", count(r.Ledger.N, "line"), short(r.Ledger.Head)))
	}
	if r.Code != 0 {
		f.add("next", plain(r.Next))
		f.add("", reopenLine(r, s.here))
	}
}

// costs are what the calls of each role have cost, by step.
func costs(all []slice.RoleCost, caps map[string]int64) (lines []string) {
	width, spent := 0, map[string]int64{}
	for _, c := range all {
		width = max(width, len(c.Role))
		spent[c.Role] += c.CostMicroUSD
	}
	for _, c := range all {
		line := fmt.Sprintf("%s  %s in %s, briefs %s", pad(c.Role, width), slice.USD(c.CostMicroUSD), pad(c.Step, 11)+" "+count(c.Calls, "call"), bytesOf(c.BriefBytes))
		if limit, ok := caps[c.Role]; ok {
			line += fmt.Sprintf("; %s of %s", slice.USD(spent[c.Role]), slice.USD(limit))
		}
		lines = append(lines, line)
	}
	return lines
}

func bytesOf(n int64) string {
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f kB", float64(n)/1000)
}

func (s summary) where(f *fields) {
	r := s.result
	forge(f, r.Proposal, nil)
	if r.Branch == "" || r.Code != 0 {
		return
	}
	where := r.Branch
	if r.Remote != "" {
		where += " in " + plain(r.Remote)
	}
	f.add("branch", where)
	if r.Commit != "" {
		f.add("commit", short(r.Commit))
	}
	if r.Merged != "" {
		f.add("merged", "as "+short(r.Merged))
	}
}

// forge tells of the pull request and its checks.
func forge(f *fields, p slice.Proposal, ci []slice.CheckResult) {
	f.add("proposal", plain(p.URL))
	label := "ci"
	for _, c := range ci {
		f.add(label, fmt.Sprintf("%s  %s  %s", f.term.outcome(c.Outcome, string(c.Outcome)), plain(c.Name), f.term.dim(clip(plain(c.Why), 120))))
		label = ""
	}
}

func (s summary) tasks(f *fields) {
	width := 0
	for _, t := range s.result.Tasks {
		width = max(width, len([]rune(t.ID)))
	}
	for i, t := range s.result.Tasks {
		commit := pad(short(t.Commit), 10)
		if t.Commit == "" {
			commit = pad("–", 10)
		}
		tries := ""
		switch {
		case t.Attempts == 1:
			tries = "1 try"
		case t.Attempts > 1:
			tries = fmt.Sprintf("%d tries", t.Attempts)
		}
		label := ""
		if i == 0 {
			label = "tasks"
		}
		f.add(label, fmt.Sprintf("%s  %s  %s  %s", commit, pad(plain(t.ID), width), pad(tries, 8), f.term.dim(clip(plain(t.Criterion), 70))))
	}
}

// checks tells which checks are not green, with the head and the tail of
// their logs.
func (s summary) checks(f *fields) {
	for _, c := range s.result.Checks {
		if c.Outcome == machine.Done {
			continue
		}
		what := fmt.Sprintf("%s: %s", plain(c.Name), c.Outcome)
		if c.Why != "" {
			what += ", " + plain(c.Why)
		}
		f.add("check", what)
		for _, name := range first(c.Failing, 10) {
			f.add("", f.term.red(plain(name)))
		}
		for _, line := range headAndTail(c.Summary, 4, 10) {
			f.add("", f.term.dim("│ "+line))
		}
		if path := evidenceFile(s.home, c.Log); path != "" {
			f.add("log", path)
		} else if c.Log.Hash != "" {
			f.add("log", "sha256 "+c.Log.Hash)
		}
	}
}

func (s summary) findings(f *fields, label string, all []slice.Finding) {
	for _, x := range first(all, 10) {
		where := ""
		if x.File != "" {
			where = plain(x.File)
			if x.Line > 0 {
				where += fmt.Sprintf(":%d", x.Line)
			}
			where += "  "
		}
		f.add(label, fmt.Sprintf("%s  %s%s", x.Severity, where, clip(plain(x.Claim), 300)))
		if x.Struck != "" {
			f.add("", f.term.dim("struck: "+clip(plain(x.Struck), 500)))
		}
		if x.Remark != "" {
			f.add("", f.term.dim(clip(plain(x.Remark), 500)))
		}
		if x.Judge != "" {
			f.add("", f.term.dim("by "+plain(x.Judge)))
		}
	}
}

// fields are aligned lines with a label each; an empty label continues the
// one above.
type fields struct {
	w    io.Writer
	term terminal
}

func (f *fields) add(label, value string) {
	if value == "" {
		return
	}
	fmt.Fprintf(f.w, "  %s %s\n", f.term.dim(pad(label, 8)), strings.TrimRight(value, " "))
}

// list is add for several values.
func (f *fields) list(label string, values []string) {
	for _, v := range values {
		f.add(label, v)
		label = ""
	}
}

// lines is add for a text of several lines.
func (f *fields) lines(label, text string) {
	for line := range strings.Lines(text) {
		f.add(label, plain(line))
		label = ""
	}
}

// headAndTail returns the first and the last lines of a log, fit to be shown.
func headAndTail(log string, head, tail int) []string {
	log = strings.TrimSpace(log)
	if log == "" {
		return nil
	}
	lines := strings.Split(log, "\n")
	for i, l := range lines {
		lines[i] = clip(strings.TrimRight(plain(strings.ReplaceAll("·"+l, "\t", "    ")), " "), 161)
		lines[i] = strings.TrimPrefix(lines[i], "·")
	}
	if len(lines) <= head+tail+1 {
		return lines
	}
	left := len(lines) - head - tail
	out := append([]string(nil), lines[:head]...)
	out = append(out, fmt.Sprintf("… %d lines …", left))
	return append(out, lines[len(lines)-tail:]...)
}

func short(id string) string {
	if len(id) > 10 {
		return id[:10]
	}
	return id
}

func first[T any](list []T, n int) []T {
	if len(list) > n {
		return list[:n]
	}
	return list
}
