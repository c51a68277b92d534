package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"interlock/activities/agent"
	"interlock/activities/workspace"
	"interlock/ledger"
	"interlock/machine"
	"interlock/slice"
	"interlock/spec"
)

// workshop is what the home of this host holds of a slice in work: its
// repository's store, and spec and policy as they were agreed on.
type workshop struct {
	slice  string
	store  *workspace.Store
	Spec   slice.Spec   `json:"spec"`
	Policy slice.Policy `json:"policy"`
	// plan is the hash of both: what the plan gate approves.
	plan string
}

// errElsewhere says that the slice is worked on in another home.
var errElsewhere = errors.New("this home does not hold the slice")

// workshop opens what the home holds of a slice, without making anything.
func (a *app) workshop(ctx context.Context, id string, n slice.Next) (*workshop, error) {
	if n.Key == "" || filepath.Base(n.Key) != n.Key {
		return nil, errElsewhere
	}
	if _, err := os.Stat(filepath.Join(a.home, "stores", n.Key)); err != nil {
		return nil, errElsewhere
	}
	store, err := workspace.Open(ctx, a.home, n.Repo)
	if err != nil {
		return nil, err
	}
	if store.Key() != n.Key {
		return nil, errElsewhere
	}
	kept, err := store.Blob(ctx, id, "spec")
	if workspace.KindOf(err) == workspace.NotFound {
		return nil, errElsewhere
	}
	if err != nil {
		return nil, err
	}
	w := &workshop{slice: id, store: store, plan: ledger.Hash(string(kept))}
	if err := json.Unmarshal(kept, w); err != nil {
		return nil, fmt.Errorf("%s does not hold the policy of the slice: %w", slice.Ref(id, "spec"), err)
	}
	return w, nil
}

// diffRoom bounds the diff in a brief, as it does for agents that are called.
const diffRoom = 256 << 10

// brief is what a role that is driven from outside is asked, in the words and
// bytes in which an agent that is called is asked it, with the folder to work
// in; an advisor has none.
func (w *workshop) brief(ctx context.Context, n slice.Next) (brief []byte, folder string, err error) {
	head := agent.Head{Slice: w.slice, Title: w.Spec.Title}
	var b agent.Brief
	switch n.Turn.Step {
	case machine.Implement:
		var measuredBy []string
		for _, c := range w.Policy.Checks {
			measuredBy = append(measuredBy, c.Run.String())
		}
		folder = n.Folder
		b = agent.ImplementBrief{Head: head, Task: *n.Task, Attempt: n.Turn.Attempt, Base: n.Base, Good: n.Good,
			MeasuredBy: measuredBy, Protected: w.Policy.Protected, Frozen: w.Policy.Frozen,
			Checks: n.Feedback.Checks, Findings: n.Feedback.Findings, Advice: n.Feedback.Advice,
			Discarded: n.Feedback.Discarded, Session: n.Session}
	case machine.Judge:
		diff, err := w.diff(ctx, n.Good, n.Candidate)
		if err != nil {
			return nil, "", err
		}
		if folder, err = w.view(ctx, n.Candidate, n.Good); err != nil {
			return nil, "", err
		}
		b = agent.JudgeBrief{Head: head, Task: *n.Task, Base: n.Base, Good: n.Good, Candidate: n.Candidate,
			Rubric: w.Policy.Rubric, Checks: measured(n.Checks), Diff: diff}
	case machine.JudgeSlice:
		diff, err := w.diff(ctx, n.Base, n.Whole)
		if err != nil {
			return nil, "", err
		}
		if folder, err = w.view(ctx, n.Whole, n.Whole); err != nil {
			return nil, "", err
		}
		b = agent.JudgeSliceBrief{Head: head, Tasks: n.Tasks, Base: n.Base, Commit: n.Whole,
			Rubric: w.Policy.Rubric, Checks: measured(n.Checks), Diff: diff}
	case machine.Advise:
		diff, err := w.diff(ctx, n.Good, n.Candidate)
		if err != nil {
			return nil, "", err
		}
		b = agent.AdviseBrief{Head: head, Task: *n.Task, Attempt: n.Turn.Attempt, Base: n.Base,
			Candidate: n.Candidate, Findings: n.Feedback.Findings, Diff: diff}
	default:
		return nil, "", fmt.Errorf("%s has no brief for anybody outside", n.Turn.Step)
	}
	brief, err = agent.Encode(b)
	return brief, folder, err
}

func (w *workshop) diff(ctx context.Context, from, to string) (string, error) {
	patch, _, err := w.store.Patch(ctx, from, to, diffRoom)
	return string(patch), err
}

// view lets a judge look at a tree in the judges' view: no file of the
// implementer's folder that is not part of the tree is in it.
func (w *workshop) view(ctx context.Context, tree, commit string) (string, error) {
	v, err := w.store.View(w.slice, "judge")
	if err != nil {
		return "", err
	}
	return v.Dir(), v.Move(ctx, tree, commit)
}

func measured(all []slice.CheckResult) (out []slice.Measured) {
	for _, c := range all {
		out = append(out, c.Measured)
	}
	return out
}

// roleOf is the role that a step asks; ok is false if it asks none.
func roleOf(step machine.Step) (role agent.Role, ok bool) {
	switch step {
	case machine.Implement:
		return agent.Implementer, true
	case machine.Judge, machine.JudgeSlice:
		return agent.Judge, true
	case machine.Advise:
		return agent.Advisor, true
	default:
		return "", false
	}
}

// weighs says why a judge's answer is no verdict, or nothing.
func (w *workshop) weighs(judge string, answer []byte) string {
	var said agent.JudgeAnswer
	if err := json.Unmarshal(answer, &said); err != nil {
		return err.Error()
	}
	if v := agent.Weigh(judge, w.Policy.Rubric, said); v.Outcome == machine.Discarded {
		return v.Why
	}
	return ""
}

// agents are the agents of a policy with their roles, in the order of a policy file.
func agents(p slice.Policy) (list []struct {
	Role string
	slice.Agent
}) {
	add := func(role string, a *slice.Agent) {
		if a != nil {
			list = append(list, struct {
				Role string
				slice.Agent
			}{role, *a})
		}
	}
	add(slice.RoleImplementer, &p.Agents.Implementer)
	for i := range p.Agents.Judges {
		add("judge", &p.Agents.Judges[i])
	}
	add("skeptics", p.Agents.Skeptics)
	if len(p.Agents.Judges) > 0 {
		advisor := spec.Advisor(p)
		add(slice.RoleAdvisor, &advisor)
	}
	add("reconciler", p.Agents.Reconciler)
	return list
}
