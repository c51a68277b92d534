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

	"interlock/activities/agent"
	"interlock/activities/workspace"
	"interlock/machine"
	"interlock/slice"
	"interlock/spec"
)

// diffRoom bounds the diff in a judge's brief; the files themselves are in its view.
const diffRoom = 256 << 10

// judge asks every judge for a verdict on a candidate.
func (a *Activities) judge(ctx context.Context, in slice.JudgeIn) (slice.JudgeOut, error) {
	return a.judgeAll(ctx, in.Header, in.Candidate, in.Good, in.Good, in.Reports, in.Calls, func(t terms, w *work, diff string) agent.Brief {
		return agent.JudgeBrief{Head: w.head(t), Task: in.Task, Base: in.Base, Good: in.Good, Candidate: in.Candidate,
			Rubric: t.Policy.Rubric, Checks: in.Checks, Guard: in.Guard, Diff: diff}
	})
}

// judgeSlice asks every judge for a verdict on the whole.
func (a *Activities) judgeSlice(ctx context.Context, in slice.JudgeSliceIn) (slice.JudgeOut, error) {
	return a.judgeAll(ctx, in.Header, in.Commit, in.Base, in.Commit, in.Reports, in.Calls, func(t terms, w *work, diff string) agent.Brief {
		return agent.JudgeSliceBrief{Head: w.head(t), Tasks: in.Tasks, Base: in.Base, Commit: in.Commit,
			Rubric: t.Policy.Rubric, Checks: in.Checks, Guard: in.Guard, Diff: diff}
	})
}

// judgeAll lets the judges look at a tree in a view of their own, one after the
// other, each at the unchanged files. A judge that has answered in this turn
// is not asked again when another one's answer was discarded.
func (a *Activities) judgeAll(ctx context.Context, h slice.Header, tree, from, commit string, reports map[string]json.RawMessage, calls slice.Calls, brief func(terms, *work, string) agent.Brief) (slice.JudgeOut, error) {
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
		diff, _, err := w.store.Patch(ctx, from, tree, diffRoom)
		if err != nil {
			return slice.JudgeOut{}, err
		}
		var out slice.JudgeOut
		var verdicts []agent.Verdict
		for _, who := range terms.Policy.Agents.Judges {
			kept := a.folder(h, "verdicts", key(h.Turn, tree, who.Name))
			v, had, err := a.verdict(ctx, kept, h.Op)
			if err != nil {
				return out, err
			}
			if had {
				verdicts = append(verdicts, v.Verdict)
				if v.Op == h.Op {
					out.Evidence = append(out.Evidence, v.Evidence...)
				}
				continue
			}
			// Made anew: what git takes for unchanged in an old view is only as
			// good as its index, which others may have written.
			fresh := func() error { return view.Fresh(ctx, tree, commit) }
			answer, err := a.call(ctx, w, t, terms.Policy, question{who: who, brief: brief(terms, w, string(diff)), dir: view.Dir(),
				report: reports[who.Name], terms: calls, before: fresh})
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
			v.Verdict, err = weigh(ctx, view, who.Name, terms.Policy.Rubric, answer.Answer)
			if err != nil {
				return out, err
			}
			if v.Outcome != machine.Discarded {
				if err := a.keepVerdict(kept, verdict{v.Verdict, h.Op, answer.Evidence}); err != nil {
					return out, err
				}
			}
			verdicts = append(verdicts, v.Verdict)
		}
		t.charge(&out.Ended)
		all := agent.Combine(verdicts)
		out.Outcome, out.Cause, out.Why = all.Outcome, "", all.Why
		out.MeanMilli, out.Findings = all.MeanMilli, all.Findings
		return out, nil
	})
	out.Ack = w.ack
	return out, err
}

// weigh makes a verdict of an answer. A judge that changed the files that it
// looked at has none.
func weigh(ctx context.Context, view *workspace.View, name string, rubric []slice.Rubric, answer agent.Answer) (agent.Verdict, error) {
	if answer.Class != agent.Answered {
		return agent.Verdict{Outcome: machine.Discarded, Why: answer.Reason}, nil
	}
	drift, err := view.Compare(ctx)
	if workspace.KindOf(err) == workspace.NotFound {
		return agent.Verdict{Outcome: machine.Discarded, Why: name + " changed what it was to judge: it is gone"}, nil
	}
	if err != nil {
		return agent.Verdict{}, err
	}
	if touched := append(drift.Changed, drift.Added...); len(touched) > 0 {
		return agent.Verdict{Outcome: machine.Discarded, Why: name + " changed what it was to judge: " + list(touched)}, nil
	}
	var said agent.JudgeAnswer
	if err := json.Unmarshal(answer.Raw, &said); err != nil {
		return agent.Verdict{Outcome: machine.Discarded, Why: name + ": " + err.Error()}, nil
	}
	return agent.Weigh(name, rubric, said), nil
}

// key names what one judge says of one tree in one turn.
func key(turn machine.Turn, tree, judge string) string {
	sum := sha256.Sum256([]byte(fmt.Sprintf("%s\x00%d\x00%d\x00%s\x00%s", turn.Step, turn.Task, turn.Attempt, tree, judge)))
	return hex.EncodeToString(sum[:12])
}

// verdict is what one judge said, with the operation that asked it.
type verdict struct {
	agent.Verdict
	Op       string
	Evidence []slice.Evidence
}

func readVerdict(path string) (verdict, bool) {
	var v verdict
	b, err := os.ReadFile(path)
	return v, err == nil && json.Unmarshal(b, &v) == nil && v.Outcome != ""
}

// verdict is readVerdict of what this process kept, or one that was killed in
// this very operation.
func (a *Activities) verdict(ctx context.Context, path, op string) (verdict, bool, error) {
	b, err := a.recall(ctx, path)
	if b == nil || err != nil {
		return verdict{}, false, err
	}
	v, ok := readVerdict(path)
	if _, made := a.made.Load(path); !made && v.Op != op {
		return verdict{}, false, nil
	}
	return v, ok, nil
}

func (a *Activities) keepVerdict(path string, v verdict) error {
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
