package activities

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"go.temporal.io/sdk/temporal"

	"interlock/activities/workspace"
	"interlock/ledger"
	"interlock/machine"
	"interlock/slice"
)

// reopen says what a slice that has ended goes on with. The state comes from
// the record alone; a record that does not verify, or that git contradicts,
// stops it. Nothing that the slice works with is changed here: resume does
// that, once the reopening is in the record.
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
	all, err := ledger.Fold(record.Lines)
	if err != nil {
		return slice.ReopenOut{}, temporal.NewNonRetryableApplicationError(
			fmt.Sprintf("%s: %v", slice.Ref(in.Slice, "ledger"), err), slice.ErrLedger, nil)
	}
	past := all
	if all.Ending != nil {
		past = *all.Ending
	}
	switch {
	case past.Runs == 0:
		return refused(machine.CausePrecondition, "slice %s has no record on this host: there is nothing to reopen; run it", in.Slice)
	case !past.State.Ended():
		return refused(machine.CausePrecondition, "the last run of slice %s was cut off at %s without an ending: run it again", in.Slice, past.State.Step)
	case past.Base == "":
		return refused(machine.CausePrecondition, "slice %s ended as %s before it had a base: run it again", in.Slice, past.State.Ending)
	}
	before, notes, err := w.before(ctx, past.Spec, all.Spec)
	if err != nil {
		return slice.ReopenOut{}, err
	}
	now := terms{Spec: in.Spec}
	if in.Unchanged {
		now.Spec = before.Spec
	}
	now.Spec.ID = before.Spec.ID // said or not, it is the same
	fresh, why := goesOn(&now.Spec, before.Spec.Tasks, notes.Extra, past.State.Task)
	if why != "" {
		return refused(machine.CauseInvalid, "%s", why)
	}
	if now.Policy, err = policyOf(ctx, w.store, past.Base, now.Spec); err != nil {
		if isInvalid(err) {
			return refused(machine.CauseInvalid, "%v", err)
		}
		return slice.ReopenOut{}, err
	}
	out := slice.ReopenOut{State: past.State, Spec: now.Spec, Candidate: past.Candidate, Whole: past.Whole, Notes: notes}
	if _, out.PrepareOut, err = w.under(now); err != nil {
		return slice.ReopenOut{}, err
	}
	out.By = machine.Reopening{Tasks: len(now.Spec.Tasks), Changed: fresh != past.Spec, Rules: out.Rules}
	switch {
	case in.CapMicroUSD > 0:
		out.By.Rules.CapMicroUSD = in.CapMicroUSD
	case !out.By.Changed:
		out.By.Rules.CapMicroUSD = past.State.Rules.CapMicroUSD // a person may have raised it
	}
	if _, err := machine.Reopen(past.State, out.By); err != nil {
		return refused(machine.CausePrecondition, "%v", err)
	}
	onto, missing, err := a.deliverableAgain(ctx, w, now.Spec.Base, now.Policy.Deliver)
	if err != nil {
		return slice.ReopenOut{}, err
	}
	if missing != "" {
		return refused(machine.CausePrecondition, "%s", missing)
	}
	if why, err = w.crossCheck(ctx, past, all.Good, &out); err != nil {
		return slice.ReopenOut{}, err
	}
	if why == "" && past.State.Ending == machine.BlockedReconcile {
		out.Adopted, why, err = w.byHand(ctx, past.Good, notes.Tip, now.Spec.Base)
		if err != nil {
			return slice.ReopenOut{}, err
		}
	}
	if why != "" {
		return refused(machine.CausePrecondition, "%s", why)
	}
	if out.Adopted != "" {
		if out.Was == "" {
			out.Was = out.Good
		}
		out.Good, out.Whole = out.Adopted, out.Adopted
	}
	for i, t := range past.Tasks {
		begun := slice.TaskStatus{Attempts: t.Attempts, CostMicroUSD: t.CostMicroUSD}
		if i < len(past.Commits) {
			begun.Commit = past.Commits[i]
		}
		out.Begun = append(out.Begun, begun)
	}
	out.Base, out.Onto = past.Base, onto
	return out, nil
}

// resume makes ready what a reopened slice goes on with: its terms, its last
// good commit and its workspace.
func (a *Activities) resume(ctx context.Context, in slice.ResumeIn) (slice.Ack, error) {
	w, err := a.open(ctx, in.Header)
	if err != nil {
		return slice.Ack{}, err
	}
	policy, err := policyOf(ctx, w.store, in.Base, in.Spec)
	if err != nil {
		return slice.Ack{}, err
	}
	kept, out, err := w.under(terms{Spec: in.Spec, Policy: policy})
	if err != nil {
		return slice.Ack{}, err
	}
	if out.Plan != in.Plan {
		return slice.Ack{}, mismatch("the policy of %.10s is not what it was when the slice was reopened", in.Base)
	}
	if err := w.store.SetBlob(ctx, in.Slice, specBlob, kept); err != nil {
		return slice.Ack{}, err
	}
	if in.Was != "" {
		if err := w.store.SetRef(ctx, in.Slice, refGood, in.Good, in.Was); err != nil {
			return slice.Ack{}, err
		}
	}
	return w.ack, w.rebuild(ctx, in.Restore)
}

func mismatch(format string, args ...any) error {
	return temporal.NewNonRetryableApplicationError(fmt.Sprintf(format, args...), slice.ErrMismatch, nil)
}

// before reads what the last run worked under, and what it left. The spec must
// be one whose hash is in the record.
func (w *work) before(ctx context.Context, recorded ...string) (t terms, notes slice.Notes, err error) {
	for name, into := range map[string]any{specBlob: &t, notesBlob: &notes} {
		b, err := w.store.Blob(ctx, w.Slice, name)
		if workspace.KindOf(err) == workspace.NotFound && name == notesBlob {
			continue // the run was killed before it could leave any
		}
		if workspace.KindOf(err) == workspace.NotFound {
			return t, notes, mismatch("%s is gone, which has the spec of the slice: start it again with another id", slice.Ref(w.Slice, name))
		}
		if err != nil {
			return t, notes, fmt.Errorf("read %s: %w", slice.Ref(w.Slice, name), err)
		}
		if err := json.Unmarshal(b, into); err != nil {
			return t, notes, mismatch("%s cannot be read: %v", slice.Ref(w.Slice, name), err)
		}
	}
	hash, err := hashOf(t.Spec)
	if err == nil && !slices.Contains(recorded, hash) {
		err = mismatch("%s is not the spec that the record says", slice.Ref(w.Slice, specBlob))
	}
	return t, notes, err
}

// hashOf is the hash of a spec, as the record has it.
func hashOf(s slice.Spec) (string, error) {
	b, err := json.Marshal(s)
	return ledger.Hash(string(b)), err
}

// goesOn gives s the tasks of a reopened slice: the committed ones as they
// were, those that the machine had added, and then those that s has now. fresh
// is the hash of s without what the machine has added since the last run began;
// why says that a committed task is another one in s.
func goesOn(s *slice.Spec, had, extra []slice.Task, committed int) (fresh, why string) {
	find := func(list []slice.Task, id string) int {
		return slices.IndexFunc(list, func(t slice.Task) bool { return t.ID == id })
	}
	all := slices.Clone(had)
	for _, t := range extra {
		if find(all, t.ID) < 0 {
			all = append(all, t)
		}
	}
	now := s.Tasks
	s.Tasks = slices.Clone(all[:min(committed, len(all))])
	for _, t := range now {
		if i := find(s.Tasks, t.ID); i >= 0 && s.Tasks[i] != t {
			return "", fmt.Sprintf("task %s is committed, and another one in the changed slice: give the new one an id of its own", t.ID)
		}
	}
	for _, t := range append(slices.Clone(extra), now...) {
		if find(s.Tasks, t.ID) < 0 {
			s.Tasks = append(s.Tasks, t)
		}
	}
	given := *s
	given.Tasks = slices.DeleteFunc(slices.Clone(s.Tasks), func(t slice.Task) bool {
		return find(had, t.ID) < 0 && find(extra, t.ID) >= 0
	})
	fresh, err := hashOf(given)
	if err != nil {
		return "", err.Error()
	}
	return fresh, ""
}

// crossCheck compares the record with git: the base, the last good commit and
// the candidate that is in work. It sets out's Good, and Was if the last good
// commit was moved by a step that was cut off before its line was written, or
// by a reopening that was.
func (w *work) crossCheck(ctx context.Context, past ledger.Folded, resumed string, out *slice.ReopenOut) (why string, err error) {
	at := map[string]string{}
	for _, name := range []string{"base", refGood, "candidate"} {
		if at[name], err = w.store.Ref(ctx, w.Slice, name); err != nil {
			return "", err
		}
	}
	moved := func(name, want string) string {
		what := fmt.Sprintf("is %.10s", at[name])
		if at[name] == "" {
			what = "is gone"
		}
		return fmt.Sprintf("%s %s, but the record says %.10s; put it back, then reopen the slice: %s",
			slice.Ref(w.Slice, name), what, want, slice.Argv{"git", "-C", w.store.Dir(), "update-ref", slice.Ref(w.Slice, name), want})
	}
	if at["base"] != past.Base {
		return "", mismatch("%s", moved("base", past.Base))
	}
	good := at[refGood]
	out.Good = past.Good
	cut := false
	if good != "" && good != past.Good && (past.State.Step == machine.Commit || past.State.Step == machine.Reconcile) && past.State.Ending != machine.BlockedCommit {
		parent, err := w.store.Parent(ctx, good)
		if err != nil {
			return "", err
		}
		cut = parent == past.Good
	}
	switch {
	case good == past.Good:
	case good != "" && good == resumed, cut:
		out.Was = good
	case past.State.Ending == machine.BlockedCommit:
		return moved(refGood, past.Good), nil
	default:
		return "", mismatch("%s", moved(refGood, past.Good))
	}
	switch past.State.Step {
	case machine.Check, machine.Judge, machine.Advise, machine.Commit:
		w.Turn = machine.Turn{Step: past.State.Step, Task: past.State.Task + 1}
		return "", w.unchanged(ctx, past.Candidate)
	default: // no candidate is in work
		return "", nil
	}
}

// byHand finds the merge that a person made on the slice's branch in its
// repository. It must contain the slice's work and the base that it met.
func (w *work) byHand(ctx context.Context, good, tip, base string) (merge, why string, err error) {
	branch := slice.Branch(w.Slice)
	ref := "refs/heads/" + branch
	in := []string{"git"}
	if filepath.IsAbs(w.Repo) {
		in = append(in, "-C", w.Repo)
	}
	do := func(args ...string) string { return slice.Argv(append(slices.Clone(in), args...)).String() }
	found, err := w.store.ByHand(ctx, w.Slice, ref)
	if err != nil {
		if k := workspace.KindOf(err); k != "" && !k.Retryable() {
			return "", fmt.Sprintf("there is no merge to adopt (%v); make it, then reopen the slice:\n%s\n%s\n%s", err,
				do("fetch", w.store.Dir(), "+"+slice.Ref(w.Slice, refGood)+":"+ref), do("switch", branch), do("merge", cmp.Or(tip, base))), nil
		}
		return "", "", err
	}
	for _, part := range []struct{ commit, what, merge string }{
		{good, "the slice's work", do("pull", "--no-rebase", w.store.Dir(), slice.Ref(w.Slice, refGood))},
		{tip, "the base that it met", do("merge", tip)},
	} {
		if part.commit == "" {
			continue
		}
		contained, err := w.store.Contains(ctx, found.Commit, part.commit)
		if err != nil {
			return "", "", err
		}
		if !contained {
			return "", fmt.Sprintf("branch %s is at %.10s, which does not contain %s (%.10s); merge it there, then reopen the slice:\n%s\n%s",
				branch, found.Commit, part.what, part.commit, do("switch", branch), part.merge), nil
		}
	}
	return found.Commit, "", nil
}

// rebuild makes the workspace again if it is gone: from the candidate that is
// in work, if there is one. A workspace that is there is left as it stands, as
// its files are what the agent goes on with, unless they are to be restored.
func (w *work) rebuild(ctx context.Context, restore bool) error {
	tree, err := w.store.Workspace(w.Slice)
	if err != nil {
		return err
	}
	if restore {
		return tree.Restore(ctx, w.Good, false)
	}
	if _, err = os.Lstat(tree.Dir()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	from := w.Good
	candidate, err := w.store.Ref(ctx, w.Slice, "candidate")
	if err != nil {
		return err
	}
	if candidate != "" {
		parent, err := w.store.Parent(ctx, candidate)
		if err != nil {
			return err
		}
		if parent == w.Good {
			from = candidate
		}
	}
	if err := tree.Restore(ctx, from, true); err != nil {
		return err
	}
	return tree.Advance(ctx, w.Good)
}
