package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"interlock/activities/agent"
	"interlock/activities/workspace"
	"interlock/machine"
	"interlock/slice"
)

// What skeptics are asked at most: blocking findings of a round, and calls of a
// step.
const (
	mostDoubted      = 8
	mostSkepticCalls = 20
)

// opinion is what one skeptic said of one finding.
type opinion struct {
	paid
	Opinion agent.Opinion
	Why     string
}

// doubt puts each blocking finding of the verdicts to skeptics, and strikes
// those that most of them refute. What one says counts only if the program
// finds its quote; a skeptic that gives no answer is uncertain. Verdicts are
// weighed again, and kept as they are then. ended says that the step ends as
// out says: an account is at its limit, the money is short, or no skeptic can
// be asked at all.
func (a *Activities) doubt(ctx context.Context, w *work, t *tab, terms terms, q inquiry, verdicts []verdict, out *slice.JudgeOut) (ended bool, err error) {
	out.Why = ""
	who := terms.Policy.Agents.Skeptics
	if who == nil {
		return false, nil
	}
	count := who.Count
	if count == 0 {
		count = slice.DefaultSkeptics
	}
	view, err := w.store.View(w.Slice, viewSkeptic)
	if err != nil {
		return false, err
	}
	doubted, calls := 0, 0
	var cut []string
	for i := range verdicts {
		v := &verdicts[i]
		if v.Outcome == machine.Discarded {
			continue
		}
		changed := false
		for k := range v.Findings {
			f := &v.Findings[k]
			if f.Severity != slice.Blocking || f.Struck != "" {
				continue
			}
			switch {
			case doubted == mostDoubted:
				f.Remark = fmt.Sprintf("no skeptic was asked: %d findings a round are put to them", mostDoubted)
			case calls+count > mostSkepticCalls:
				f.Remark = fmt.Sprintf("no skeptic was asked: a step makes at most %d such calls", mostSkepticCalls)
			}
			changed = true
			if doubted == mostDoubted || calls+count > mostSkepticCalls {
				cut = append(cut, f.Remark)
				continue
			}
			doubted++
			var opinions []agent.Opinion
			var why []string
			for n := range count {
				one, ended, err := a.ask(ctx, w, t, terms, q, view, *who, *f, n, out)
				if err != nil || ended {
					return ended, err
				}
				if one.Op == w.Op {
					calls++
				}
				opinions, why = append(opinions, one.Opinion), append(why, string(one.Opinion)+": "+one.Why)
				if _, decided := agent.Majority(opinions, count); decided {
					break
				}
			}
			said := fmt.Sprintf("%d of %d skeptics: %s", len(opinions), count, strings.Join(why, "; "))
			if refuted, _ := agent.Majority(opinions, count); refuted {
				f.Struck = "refuted by " + said
			} else {
				f.Remark = "not refuted by " + said
			}
		}
		if !changed {
			continue
		}
		v.Verdict = v.Again()
		if err := a.keepSaid(v.path, *v); err != nil {
			return false, err
		}
	}
	if len(cut) > 0 {
		out.Why = fmt.Sprintf("; %d blocking findings were not put to skeptics (%s)", len(cut), cut[0])
	}
	return false, nil
}

// ask asks one skeptic about one finding, in files that were made for it.
func (a *Activities) ask(ctx context.Context, w *work, t *tab, terms terms, q inquiry, view *workspace.View, who slice.Agent, f slice.Finding, n int, out *slice.JudgeOut) (one opinion, ended bool, err error) {
	about, err := json.Marshal(agent.Dispute{File: f.File, Line: f.Line, Claim: f.Claim, Evidence: f.Evidence})
	if err != nil {
		return one, false, err
	}
	kept := a.folder(w.Header, "opinions", key(w.Turn, q.tree, fmt.Sprintf("%s %d %s", f.Judge, n, about)))
	if had, err := a.said(ctx, kept, w.Op, &one); err != nil || had {
		if had && one.Op == w.Op {
			out.Evidence = append(out.Evidence, one.Evidence...)
		}
		return one, false, err
	}
	// Each is a fresh one: what another has left in its HOME is not for it.
	own := a.folder(w.Header, "agents", string(agent.Skeptic))
	if err := workspace.RemoveAll(own); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return one, false, err
	}
	brief := agent.SkepticBrief{Head: w.head(terms), Tasks: q.tasks, Base: q.Base, Candidate: q.tree,
		Finding: agent.Dispute{File: f.File, Line: f.Line, Claim: f.Claim, Evidence: f.Evidence}}
	answer, err := a.call(ctx, w, t, terms.Policy, question{who: who, brief: brief, dir: view.Dir(), terms: q.calls,
		before: func() error { return view.Fresh(ctx, q.tree, q.commit) }})
	if err != nil {
		return one, false, err
	}
	evidence := append(out.Evidence, answer.Evidence...)
	if answer.limit != nil || answer.short != nil || answer.Class == agent.Fatal || ctx.Err() != nil {
		out.Ended = w.answered(answer)
		out.Evidence = evidence
		t.charge(&out.Ended)
		return one, true, nil
	}
	out.Evidence = evidence
	one = opinion{paid: paid{kept, w.Op, answer.Evidence}}
	one.Opinion, one.Why, err = w.heard(ctx, q, view, answer.Answer)
	if err != nil {
		return one, false, err
	}
	return one, false, a.keepSaid(kept, one)
}

// heard is what counts of a skeptic's answer.
func (w *work) heard(ctx context.Context, q inquiry, view *workspace.View, answer agent.Answer) (agent.Opinion, string, error) {
	if answer.Class != agent.Answered {
		return agent.Uncertain, answer.Reason, nil
	}
	why, err := changedIn(ctx, view)
	if err != nil {
		return "", "", err
	}
	if why != "" {
		return agent.Uncertain, "it changed what it was to look at: " + why, nil
	}
	var said agent.SkepticAnswer
	if err := json.Unmarshal(answer.Raw, &said); err != nil {
		return agent.Uncertain, err.Error(), nil
	}
	var paths []string
	if clean, ok := agent.FindingPath(view.Dir(), said.File); ok {
		said.File = clean
		paths = append(paths, clean)
	}
	files, err := w.files(ctx, q.tree, paths)
	if err != nil {
		return "", "", err
	}
	opinion, reason := said.Counted(files)
	return opinion, reason, nil
}
