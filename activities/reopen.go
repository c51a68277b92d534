package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"go.temporal.io/sdk/temporal"

	"interlock/activities/workspace"
	"interlock/ledger"
	"interlock/machine"
	"interlock/slice"
)

// reopen says what a slice that has ended goes on with. The state comes from
// the record alone; a record that does not verify, or that git contradicts,
// stops it. Nothing is written to the record here.
func (a *Activities) reopen(ctx context.Context, in slice.ReopenIn) (slice.ReopenOut, error) {
	w, err := a.open(ctx, in.Header)
	if err != nil {
		return slice.ReopenOut{}, err
	}
	refused := func(cause machine.Cause, format string, args ...any) (slice.ReopenOut, error) {
		var out slice.ReopenOut
		out.Ended = w.failed(cause, fmt.Sprintf(format, args...))
		return out, nil
	}
	record, err := w.store.Ledger(ctx, in.Slice)
	if err != nil {
		return slice.ReopenOut{}, err
	}
	past, err := ledger.Fold(record.Lines)
	if err != nil {
		return slice.ReopenOut{}, temporal.NewNonRetryableApplicationError(
			fmt.Sprintf("%s: %v", slice.Ref(in.Slice, "ledger"), err), slice.ErrLedger, nil)
	}
	switch {
	case past.Runs == 0:
		return refused(machine.CausePrecondition, "slice %s has no record on this host: there is nothing to reopen; run it", in.Slice)
	case !past.State.Ended():
		return refused(machine.CausePrecondition, "the last run of slice %s was cut off at %s without an ending: run it again", in.Slice, past.State.Step)
	case past.Base == "":
		return refused(machine.CausePrecondition, "slice %s ended as %s before it had a base: run it again", in.Slice, past.State.Ending)
	}
	before, notes, err := w.before(ctx)
	if err != nil {
		return slice.ReopenOut{}, err
	}
	now := terms{Spec: in.Spec}
	if now.Policy, err = policyOf(ctx, w.store, past.Base, in.Spec); err != nil {
		if isInvalid(err) {
			return refused(machine.CauseInvalid, "%v", err)
		}
		return slice.ReopenOut{}, err
	}
	onto, missing, err := a.deliverableAgain(ctx, w, in.Spec.Base, now.Policy.Deliver)
	if err != nil {
		return slice.ReopenOut{}, err
	}
	if missing != "" {
		return refused(machine.CausePrecondition, "%s", missing)
	}
	now.Spec.Tasks = goesOn(before.Spec.Tasks, notes.Extra, past.State.Task, in.Spec.Tasks)
	out := slice.ReopenOut{State: past.State, Tasks: now.Spec.Tasks, Commits: past.Commits, Candidate: past.Candidate, Whole: past.Whole, Notes: notes}
	if out.Good, err = w.goodOf(ctx, past); err != nil {
		return slice.ReopenOut{}, err
	}
	if past.State.Ending == machine.BlockedReconcile {
		merge, why, err := w.adopt(ctx, out.Good, notes.Tip)
		if err != nil {
			return slice.ReopenOut{}, err
		}
		if why != "" {
			return refused(machine.CausePrecondition, "%s", why)
		}
		out.Good, out.Whole = merge, merge
	}
	if out.PrepareOut, err = w.keep(ctx, now); err != nil {
		return slice.ReopenOut{}, err
	}
	out.Base, out.Onto = past.Base, onto
	if in.CapMicroUSD > 0 {
		out.Rules.CapMicroUSD = in.CapMicroUSD
	}
	given, err := json.Marshal(in.Spec)
	if err != nil {
		return slice.ReopenOut{}, err
	}
	out.By = machine.Reopening{Tasks: len(out.Tasks), Changed: past.Spec != ledger.Hash(string(given)), Rules: out.Rules}
	return out, w.rebuild(ctx, out.Good)
}

// before reads what the last run worked under, and what it left.
func (w *work) before(ctx context.Context) (t terms, notes slice.Notes, err error) {
	for name, into := range map[string]any{specBlob: &t, notesBlob: &notes} {
		b, err := w.store.Blob(ctx, w.Slice, name)
		if workspace.KindOf(err) == workspace.NotFound && name == notesBlob {
			continue // the run was killed before it could leave any
		}
		if err != nil {
			return t, notes, fmt.Errorf("read %s: %w", slice.Ref(w.Slice, name), err)
		}
		if err := json.Unmarshal(b, into); err != nil {
			return t, notes, temporal.NewNonRetryableApplicationError(
				fmt.Sprintf("%s cannot be read: %v", slice.Ref(w.Slice, name), err), slice.ErrMismatch, nil)
		}
	}
	return t, notes, nil
}

// goesOn is the list of tasks of a reopened slice: the committed ones as they
// were, then those that the spec has now, then what the machine had added.
func goesOn(had, extra []slice.Task, committed int, now []slice.Task) []slice.Task {
	all := append(append([]slice.Task(nil), had...), extra...)
	tasks := append([]slice.Task(nil), all[:min(committed, len(all))]...)
	known := map[string]bool{}
	for _, t := range tasks {
		known[t.ID] = true
	}
	for _, t := range append(append([]slice.Task(nil), now...), extra...) {
		if !known[t.ID] {
			known[t.ID] = true
			tasks = append(tasks, t)
		}
	}
	return tasks
}

// goodOf is the last good commit, on which record and git must agree. Of a
// slice that could not be reconciled it may be the merge that an earlier try to
// reopen it has adopted.
func (w *work) goodOf(ctx context.Context, past ledger.Folded) (string, error) {
	at, err := w.store.Ref(ctx, w.Slice, refGood)
	if err != nil {
		return "", err
	}
	agree := at == past.Good() || at != "" && at == past.Whole
	if !agree && at != "" && past.State.Ending == machine.BlockedReconcile {
		if agree, err = w.store.Contains(ctx, at, past.Good()); err != nil {
			return "", err
		}
	}
	if !agree {
		return "", temporal.NewNonRetryableApplicationError(
			fmt.Sprintf("%s is %.10s, but the record says %.10s", slice.Ref(w.Slice, refGood), at, past.Good()), slice.ErrMismatch, nil)
	}
	return at, nil
}

// adopt takes the merge that a person made on the slice's branch in its
// repository. It must contain the slice's work and the base that it met.
func (w *work) adopt(ctx context.Context, good, tip string) (merge, why string, err error) {
	branch := "refs/heads/" + slice.Branch(w.Slice)
	found, err := w.store.Tip(ctx, w.Slice, branch)
	if err != nil {
		if k := workspace.KindOf(err); k != "" && !k.Retryable() {
			return "", fmt.Sprintf("there is no merge to adopt (%v); make it: git -C %s fetch %s %s:%s, merge the base into that branch, then reopen the slice",
				err, w.Repo, w.store.Dir(), slice.Ref(w.Slice, refGood), branch), nil
		}
		return "", "", err
	}
	for _, part := range []struct{ commit, what string }{{good, "the slice's work"}, {tip, "the base that it met"}} {
		if part.commit == "" {
			continue
		}
		contained, err := w.store.Contains(ctx, found.Commit, part.commit)
		if err != nil {
			return "", "", err
		}
		if !contained {
			return "", fmt.Sprintf("%s is at %.10s, which does not contain %s (%.10s): merge it there, then reopen the slice", branch, found.Commit, part.what, part.commit), nil
		}
	}
	if found.Commit == good {
		return good, "", nil
	}
	return found.Commit, "", w.store.SetRef(ctx, w.Slice, refGood, found.Commit, good)
}

// rebuild makes the workspace again if it is gone. One that is there is left
// as it stands: its files are what the agent goes on with.
func (w *work) rebuild(ctx context.Context, good string) error {
	tree, err := w.store.Workspace(w.Slice)
	if err != nil {
		return err
	}
	_, err = os.Lstat(tree.Dir())
	if errors.Is(err, fs.ErrNotExist) {
		return tree.Restore(ctx, good, true)
	}
	return err
}
