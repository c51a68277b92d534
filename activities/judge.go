package activities

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"interlock/activities/agent"
	"interlock/activities/workspace"
	"interlock/machine"
	"interlock/slice"
	"interlock/spec"
)

// diffRoom bounds the diff in a judge's brief; the files themselves are in its view.
const diffRoom = 256 << 10

// inquiry is what judges and skeptics are asked about.
type inquiry struct {
	slice.Header
	tasks []slice.Task
	// tree is what is judged, from what it began from, commit what HEAD is in
	// the views.
	tree, from, commit string
	// before is the tree of the round before, known what was found in it.
	before  string
	known   []slice.Finding
	reports map[string]json.RawMessage
	calls   slice.Calls
}

// judge asks every judge for a verdict on a candidate.
func (a *Activities) judge(ctx context.Context, in slice.JudgeIn) (slice.JudgeOut, error) {
	q := inquiry{Header: in.Header, tasks: []slice.Task{in.Task}, tree: in.Candidate, from: in.Good, commit: in.Good,
		before: in.Before, known: in.Known, reports: in.Reports, calls: in.Calls}
	return a.judgeAll(ctx, q, func(t terms, w *work, lens, diff string) agent.Brief {
		return agent.JudgeBrief{Head: w.head(t), Task: in.Task, Base: in.Base, Good: in.Good, Candidate: in.Candidate,
			Lens: lens, Rubric: t.Policy.Rubric, Checks: in.Checks, Guard: in.Guard, Diff: diff}
	})
}

// judgeSlice asks every judge for a verdict on the whole.
func (a *Activities) judgeSlice(ctx context.Context, in slice.JudgeSliceIn) (slice.JudgeOut, error) {
	q := inquiry{Header: in.Header, tasks: in.Tasks, tree: in.Commit, from: in.Base, commit: in.Commit, reports: in.Reports, calls: in.Calls}
	return a.judgeAll(ctx, q, func(t terms, w *work, lens, diff string) agent.Brief {
		return agent.JudgeSliceBrief{Head: w.head(t), Tasks: in.Tasks, Base: in.Base, Commit: in.Commit,
			Lens: lens, Rubric: t.Policy.Rubric, Checks: in.Checks, Guard: in.Guard, Diff: diff}
	})
}

// judgeAll lets the judges look at a tree in a view of their own, one after the
// other, each at the unchanged files, and then the skeptics at what the judges
// found. A judge that has answered in this turn is not asked again when another
// one's answer was discarded.
func (a *Activities) judgeAll(ctx context.Context, q inquiry, brief func(t terms, w *work, lens, diff string) agent.Brief) (slice.JudgeOut, error) {
	h := q.Header
	w, err := a.open(ctx, h)
	if err != nil {
		return slice.JudgeOut{}, err
	}
	terms, err := w.terms(ctx)
	if err != nil {
		return slice.JudgeOut{}, err
	}
	view, err := w.store.View(h.Slice, viewJudge)
	if err != nil {
		return slice.JudgeOut{}, err
	}
	out, err := once(ctx, a, h, func(t *tab) (slice.JudgeOut, error) {
		diff, _, err := w.store.Patch(ctx, q.from, q.tree, diffRoom)
		if err != nil {
			return slice.JudgeOut{}, err
		}
		var out slice.JudgeOut
		var verdicts []verdict
		for _, who := range terms.Policy.Agents.Judges {
			kept := a.folder(h, "verdicts", key(h.Turn, q.tree, who.Name))
			var v verdict
			had, err := a.said(ctx, kept, h.Op, &v)
			if err != nil {
				return out, err
			}
			v.path = kept
			if had && (v.Outcome != machine.Discarded || v.Op == h.Op) {
				verdicts = append(verdicts, v)
				if v.Op == h.Op {
					out.Evidence = append(out.Evidence, v.Evidence...)
				}
				continue
			}
			// Made anew: what git takes for unchanged in an old view is only as
			// good as its index, which others may have written.
			fresh := func() error { return view.Fresh(ctx, q.tree, q.commit) }
			answer, err := a.call(ctx, w, t, terms.Policy, question{who: who, brief: brief(terms, w, who.Lens, string(diff)), dir: view.Dir(),
				report: q.reports[who.Name], terms: q.calls, before: fresh})
			if err != nil {
				return out, err
			}
			ended := w.answered(answer)
			ended.Evidence = append(out.Evidence, ended.Evidence...)
			out.Ended = ended
			t.charge(&out.Ended)
			if out.Outcome != machine.Done && out.Outcome != machine.Discarded {
				return out, nil
			}
			v = verdict{paid: paid{kept, h.Op, answer.Evidence}}
			v.Verdict, v.Late, err = w.weigh(ctx, q, view, who.Name, terms.Policy.Rubric, answer.Answer)
			if err != nil {
				return out, err
			}
			if v.Outcome != machine.Discarded {
				if err := a.keepSaid(kept, v); err != nil {
					return out, err
				}
			}
			verdicts = append(verdicts, v)
		}
		if ended, err := a.doubt(ctx, w, t, terms, q, verdicts, &out); err != nil || ended {
			return out, err
		}
		t.charge(&out.Ended)
		plain := make([]agent.Verdict, len(verdicts))
		out.Late = 0
		for i, v := range verdicts {
			plain[i] = v.Verdict
			out.Late += v.Late
		}
		all := agent.Combine(plain)
		out.Outcome, out.Cause, out.Why = all.Outcome, "", all.Why+out.Why
		out.MeanMilli, out.Findings = all.MeanMilli, all.Findings
		return out, nil
	})
	out.Ack = w.ack
	return out, err
}

// weigh makes a verdict of an answer, and counts the findings that came too
// late. A judge that changed the files that it looked at has none.
func (w *work) weigh(ctx context.Context, q inquiry, view *workspace.View, name string, rubric []slice.Rubric, answer agent.Answer) (agent.Verdict, int, error) {
	discarded := func(why string) (agent.Verdict, int, error) {
		return agent.Verdict{Judge: name, Outcome: machine.Discarded, Why: why}, 0, nil
	}
	if answer.Class != agent.Answered {
		return discarded(answer.Reason)
	}
	why, err := changedIn(ctx, view)
	if err != nil {
		return agent.Verdict{}, 0, err
	}
	if why != "" {
		return discarded(name + " changed what it was to judge: " + why)
	}
	var said agent.JudgeAnswer
	if err := json.Unmarshal(answer.Raw, &said); err != nil {
		return discarded(name + ": " + err.Error())
	}
	said.Findings = agent.Heaviest(said.Findings)
	var paths []string
	for i := range said.Findings {
		f := &said.Findings[i]
		if clean, ok := agent.FindingPath(view.Dir(), f.File); ok {
			f.File = clean
			paths = append(paths, clean)
		}
	}
	// From the store, never from a view that somebody could have changed.
	files := map[string]agent.Files{}
	for _, tree := range []string{q.tree, q.from, q.before} {
		if files[tree], err = w.files(ctx, tree, paths); err != nil {
			return agent.Verdict{}, 0, err
		}
	}
	agent.Strike(said.Findings, files[q.tree], files[q.from])
	late := 0
	if q.before != "" {
		late = agent.Late(said.Findings, q.known, files[q.tree], files[q.before])
	}
	return agent.Weigh(name, rubric, said), late, nil
}

// changedIn says how the files of a view differ from what they were made as, or
// nothing.
func changedIn(ctx context.Context, view *workspace.View) (string, error) {
	drift, err := view.Compare(ctx)
	if workspace.KindOf(err) == workspace.NotFound {
		return "it is gone", nil
	}
	if err != nil {
		return "", err
	}
	if all := append(drift.Changed, drift.Added...); len(all) > 0 {
		return list(all), nil
	}
	return "", nil
}

// files reads files of a tree; without a tree there are none.
func (w *work) files(ctx context.Context, tree string, paths []string) (agent.Files, error) {
	found := agent.Files{}
	if tree == "" {
		return found, nil
	}
	slices.Sort(paths)
	paths = slices.Compact(paths)
	names := make([]string, len(paths))
	for i, p := range paths {
		names[i] = tree + ":" + p
	}
	objects, err := w.store.Read(ctx, names...)
	for i, o := range objects {
		if o.Type == "blob" {
			found[paths[i]] = o.Bytes
		}
	}
	return found, err
}

// key names what one judge says of one tree in one turn.
func key(turn machine.Turn, tree, judge string) string {
	sum := sha256.Sum256([]byte(fmt.Sprintf("%s\x00%d\x00%d\x00%s\x00%s", turn.Step, turn.Task, turn.Attempt, tree, judge)))
	return hex.EncodeToString(sum[:12])
}

// paid is what an answer is kept with: where, the operation that asked, and
// what shows it.
type paid struct {
	path     string
	Op       string
	Evidence []slice.Evidence
}

func (p paid) op() string { return p.Op }

// verdict is what one judge said.
type verdict struct {
	agent.Verdict
	paid
	Late int
}

// said reads what keepSaid kept in this process, or in one that was killed in
// this very operation.
func (a *Activities) said(ctx context.Context, path, op string, into interface{ op() string }) (bool, error) {
	b, err := a.recall(ctx, path)
	if b == nil || err != nil {
		return false, err
	}
	if json.Unmarshal(b, into) != nil {
		return false, nil
	}
	_, made := a.made.Load(path)
	return made || into.op() == op, nil
}

func (a *Activities) keepSaid(path string, v any) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return a.keep(path, b)
}

// advise asks the advisor how to go on with a task that was vetoed. It gets
// text only, and an empty folder.
func (a *Activities) advise(ctx context.Context, in slice.AdviseIn) (slice.AdviseOut, error) {
	w, err := a.open(ctx, in.Header)
	if err != nil {
		return slice.AdviseOut{}, err
	}
	terms, err := w.terms(ctx)
	if err != nil {
		return slice.AdviseOut{}, err
	}
	out, err := once(ctx, a, in.Header, func(t *tab) (slice.AdviseOut, error) {
		diff, _, err := w.store.Patch(ctx, in.Good, in.Candidate, diffRoom)
		if err != nil {
			return slice.AdviseOut{}, err
		}
		empty := a.folder(in.Header, "advisor")
		if err := workspace.RemoveAll(empty); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return slice.AdviseOut{}, err
		}
		if err := os.MkdirAll(empty, 0o700); err != nil {
			return slice.AdviseOut{}, err
		}
		brief := agent.AdviseBrief{
			Head: w.head(terms), Task: in.Task, Attempt: in.Turn.Attempt, Base: in.Base,
			Candidate: in.Candidate, Findings: in.Findings, Diff: string(diff),
		}
		answer, err := a.call(ctx, w, t, terms.Policy, question{who: spec.Advisor(terms.Policy), brief: brief, dir: empty, report: in.Report, terms: in.Calls})
		if err != nil {
			return slice.AdviseOut{}, err
		}
		out := slice.AdviseOut{Ended: w.answered(answer)}
		t.charge(&out.Ended)
		var said agent.AdviseAnswer
		if out.Outcome != machine.Done {
			return out, nil
		}
		if err := json.Unmarshal(answer.Raw, &said); err != nil {
			out.Outcome, out.Why = machine.Discarded, err.Error()
			return out, nil
		}
		out.Advice = said.Advice
		return out, nil
	})
	out.Ack = w.ack
	return out, err
}
