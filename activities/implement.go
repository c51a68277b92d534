package activities

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"interlock/activities/agent"
	"interlock/activities/workspace"
	"interlock/machine"
	"interlock/slice"
)

// implement asks the implementer to work on a task in the workspace, and
// takes the files as they stand at the end. What the implementer says is kept
// as evidence and reaches nobody.
func (a *Activities) implement(ctx context.Context, in slice.ImplementIn) (slice.ImplementOut, error) {
	w, err := a.open(ctx, in.Header)
	if err != nil {
		return slice.ImplementOut{}, err
	}
	terms, err := w.terms(ctx)
	if err != nil {
		return slice.ImplementOut{}, err
	}
	tree, err := w.store.Workspace(in.Slice)
	if err != nil {
		return slice.ImplementOut{}, err
	}
	out, err := once(ctx, a, in.Header, func(t *tab) (slice.ImplementOut, error) {
		if in.Restore && len(t.list) == 0 && in.Report == nil {
			if err := tree.Restore(ctx, in.Good, false); err != nil {
				return slice.ImplementOut{}, err
			}
		}
		p := terms.Policy
		brief := agent.ImplementBrief{
			Head: w.head(terms), Task: in.Task, Attempt: in.Turn.Attempt, Base: in.Base, Good: in.Good,
			MeasuredBy: measuredBy(p), Protected: p.Protected, Frozen: p.Frozen,
			Checks: in.Feedback.Checks, Findings: in.Feedback.Findings, Advice: in.Feedback.Advice,
			Discarded: in.Feedback.Discarded, Replies: in.Replies, MayAsk: len(in.Replies) < slice.MostQuestions,
		}
		answer, err := a.call(ctx, w, t, p, question{who: p.Agents.Implementer, brief: brief, dir: tree.Dir(),
			report: in.Report, terms: in.Calls, session: in.Session})
		if err != nil {
			return slice.ImplementOut{}, err
		}
		out := slice.ImplementOut{Ended: w.answered(answer), Session: answer.Session}
		t.charge(&out.Ended)
		if asked := agent.Asks(answer.Raw); asked != "" && out.Outcome == machine.Done {
			w.ask(&out.Ended, slice.RoleImplementer, asked, len(in.Replies))
		}
		if out.Outcome != machine.Done {
			return out, nil
		}
		return w.candidate(ctx, tree, out)
	})
	out.Ack = w.ack
	return out, err
}

// ask makes an answer a question to a person, which is named after the operation
// that asks it. After the last one that a task may have, it is no answer.
func (w *work) ask(e *slice.Ended, role, text string, asked int) {
	if asked >= slice.MostQuestions {
		e.Outcome, e.Why = machine.Discarded, fmt.Sprintf("the %s asks again, but a task may ask %d times: %s", role, slice.MostQuestions, oneLine(text))
		return
	}
	sum := sha256.Sum256([]byte(w.Op))
	e.Outcome, e.Why = machine.Limited, "the "+role+" asks: "+oneLine(text)
	e.Question = &slice.Question{ID: "q-" + hex.EncodeToString(sum[:5]), Role: role, Text: text}
}

// candidate takes the files as they stand. A file that cannot be part of a
// candidate makes the answer one that is discarded, naming the path.
func (w *work) candidate(ctx context.Context, tree *workspace.Workspace, out slice.ImplementOut) (slice.ImplementOut, error) {
	tell(ctx, "taking the candidate")
	found, err := tree.Snapshot(ctx, w.Good, workspace.DefaultLimits)
	if err != nil {
		return out, err
	}
	if len(found.Refused) > 0 {
		var paths []string
		for _, r := range found.Refused {
			paths = append(paths, strings.TrimSpace(fmt.Sprintf("%q (%s) %s", r.Path, r.Why, r.Detail)))
		}
		out.Outcome, out.Why = machine.Discarded, "the files cannot be taken: "+list(paths)
		return out, nil
	}
	changes, err := w.store.Diff(ctx, w.Good, found.Tree)
	if err != nil {
		return out, err
	}
	out.Candidate, out.Changed = found.Tree, len(changes) > 0
	out.Why = changed(changes)
	return out, nil
}

// changed is a diff in a few words.
func changed(changes []workspace.Change) string {
	if len(changes) == 0 {
		return "nothing was changed"
	}
	var added, deleted int
	for _, c := range changes {
		added += c.Added
		deleted += c.Deleted
	}
	files := "files"
	if len(changes) == 1 {
		files = "file"
	}
	return fmt.Sprintf("%d %s, +%d -%d", len(changes), files, added, deleted)
}

func measuredBy(p slice.Policy) []string {
	var lines []string
	for _, c := range p.Checks {
		lines = append(lines, c.Run.String())
	}
	return lines
}
