package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"interlock/machine"
	"interlock/slice"
)

// progress shows a slice at work: one line for every step that ended and,
// where the last line can be overwritten, the step that is due.
type progress struct {
	w    io.Writer
	term terminal
	now  func() time.Time
	// run and shown are the run of the slice and the last of its steps that
	// has its line.
	run, shown int
	live       bool
	heard      time.Time // when somebody answered last
	told       bool      // that nobody answers
	waiting    string
	// endings are the commands that end the wait of a status; nil for none.
	endings func(slice.Status) []string
}

func newProgress(w io.Writer, term terminal) *progress {
	return &progress{w: w, term: term, now: time.Now, heard: time.Now()}
}

// show brings what is seen up to s.
func (p *progress) show(s slice.Status) {
	p.clear()
	if p.told {
		p.line(p.term.dim("  a worker answers again"))
	}
	p.heard, p.told = p.now(), false
	if s.Run != p.run {
		p.run, p.shown = s.Run, 0
	}
	for _, d := range s.Recent {
		if d.N <= p.shown {
			continue
		}
		if missed := d.N - p.shown - 1; missed > 0 {
			p.line(p.term.dim(fmt.Sprintf("  … %s before", count(missed, "step"))))
		}
		p.shown = d.N
		p.line(p.step(d, len(s.Tasks)))
	}
	p.wait(s)
	if s.Due != nil {
		p.due(s)
	}
}

// wait says once what a slice waits for and what ends it, and again when it
// is asked or reminded anew.
func (p *progress) wait(s slice.Status) {
	what := waits(s.Waiting)
	if what == "" {
		p.waiting = ""
		return
	}
	asking := fmt.Sprintf("%s %s %d %d", what, s.Waiting.Subject, s.Waiting.Asked, s.Waiting.Reminded)
	if asking == p.waiting {
		return
	}
	p.waiting = asking
	p.line("  " + p.term.yellow(what))
	for line := range strings.Lines(asked(s.Waiting)) {
		p.line("    " + plain(strings.TrimRight(line, "\n")))
	}
	if p.endings != nil {
		for _, command := range p.endings(s) {
			p.line("    " + command)
		}
	}
}

// unanswered notes that no worker answered.
func (p *progress) unanswered() {
	silence := p.now().Sub(p.heard)
	if silence < queryTimeout {
		return
	}
	if !p.told {
		p.clear()
		p.line("  " + p.term.yellow("no worker answers; the slice waits for one"))
		p.told = true
	}
	p.overwrite(fmt.Sprintf("  waiting for a worker · %s", took(silence)))
}

func (p *progress) due(s slice.Status) {
	where := string(s.Due.Step)
	if s.Due.Task > 0 {
		where += fmt.Sprintf(" · task %d of %d", s.Due.Task, len(s.Tasks))
		if s.Due.Task <= len(s.Tasks) {
			where += " (" + plain(s.Tasks[s.Due.Task-1].ID) + ")"
		}
		where += fmt.Sprintf(" · attempt %d", s.Due.Attempt)
	}
	p.overwrite(fmt.Sprintf("  %s · %s", where, took(max(0, p.now().Sub(time.UnixMilli(s.Since))))))
}

// step is the line of a step that ended.
func (p *progress) step(d slice.Done, tasks int) string {
	at := ""
	if d.Turn.Task > 0 {
		at = fmt.Sprintf("task %d/%d  try %d", d.Turn.Task, max(tasks, d.Turn.Task), d.Turn.Attempt)
	}
	cost := ""
	if d.CostMicroUSD > 0 {
		cost = slice.USD(d.CostMicroUSD).String()
	}
	head := fmt.Sprintf("  %s %s ", pad(string(d.Turn.Step), 12), pad(at, 16))
	outcome := pad(string(d.Outcome), 11)
	tail := fmt.Sprintf(" %8s  %s", took(time.Duration(d.Millis)*time.Millisecond), pad(cost, 7))
	line := head + p.term.outcome(d.Outcome, outcome) + tail
	if why := plain(d.Why); why != "" {
		room := 200
		if p.term.width > 0 {
			room = p.term.width - len([]rune(head+outcome+tail)) - 3
		}
		if room < 24 {
			return strings.TrimRight(line, " ") + "\n" + p.term.dim("    "+clip(why, max(40, p.term.width-5)))
		}
		line += "  " + p.term.dim(clip(why, room))
	}
	return strings.TrimRight(line, " ")
}

// outcome colours s by what an outcome means to a person.
func (t terminal) outcome(o machine.Outcome, s string) string {
	switch o {
	case machine.Done:
		return t.green(s)
	case machine.Failed:
		return t.red(s)
	case machine.Unmeasured, machine.Corrections, machine.Discarded, machine.Unanswered, machine.Limited, machine.Lost:
		return t.yellow(s)
	}
	return s
}

func (p *progress) line(s string) { fmt.Fprintln(p.w, s) }

func (p *progress) overwrite(s string) {
	if !p.term.live {
		return
	}
	fmt.Fprintf(p.w, "\r\x1b[K%s", p.term.dim(clip(s, p.term.width-1)))
	p.live = true
}

// clear removes the line of the step that is due.
func (p *progress) clear() {
	if p.live {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.live = false
	}
}

// took writes a duration as people say it.
func took(d time.Duration) string {
	switch {
	case d < 0:
		return "0.0 s"
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %02d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %02d min", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%d days", int(d.Hours())/24)
	}
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
