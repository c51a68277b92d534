package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"interlock/activities/workspace"
	"interlock/machine"
	"interlock/slice"
)

// refPublished is where this slice's branch was put last: what a push may replace.
const refPublished = "published"

// publish makes the verified commit the slice's branch: in the slice's own
// repository, or at its remote.
func (a *Activities) publish(ctx context.Context, in slice.PublishIn) (slice.PublishOut, error) {
	w, err := a.open(ctx, in.Header)
	if err != nil {
		return slice.PublishOut{}, err
	}
	before, err := w.store.Ref(ctx, in.Slice, refPublished)
	if err != nil {
		return slice.PublishOut{}, err
	}
	where, missing, err := w.place(ctx, in.To)
	if err != nil {
		return slice.PublishOut{}, err
	}
	if missing != "" {
		return slice.PublishOut{Ended: w.failed(machine.CauseMissing, missing)}, nil
	}
	if in.To == machine.ToBranch {
		err = w.store.LocalBranch(ctx, in.Branch, in.Commit, before)
	} else {
		tell(ctx, "pushing "+in.Branch)
		_, err = w.store.Push(ctx, where, in.Branch, in.Commit, before)
	}
	if err != nil {
		if cause, final := delivery(err); final {
			return slice.PublishOut{Ended: w.failed(cause, err.Error()), Remote: where}, nil
		}
		return slice.PublishOut{}, err
	}
	if before != in.Commit {
		if err := w.store.SetRef(ctx, in.Slice, refPublished, in.Commit, before); err != nil {
			return slice.PublishOut{}, err
		}
	}
	return slice.PublishOut{Ended: w.ended(machine.Done, ""), Remote: where}, nil
}

// place returns where the slice's branch goes, or a sentence on what is missing.
func (w *work) place(ctx context.Context, to machine.Target) (where, missing string, err error) {
	if to == machine.ToBranch {
		return w.Repo, "", nil
	}
	terms, err := w.terms(ctx)
	if err != nil {
		return "", "", err
	}
	return w.remote(ctx, terms.Policy.Deliver)
}

// remote returns the address of the remote, or a sentence on what is missing.
func (w *work) remote(ctx context.Context, p slice.Deliver) (where, missing string, err error) {
	name := p.Remote
	if name == "" {
		name = "origin"
	}
	if strings.ContainsAny(name, ":/") {
		return name, "", nil
	}
	where, err = w.store.RemoteURL(ctx, name)
	if err == nil && where == "" {
		missing = fmt.Sprintf("%s has no remote %q to publish to: add one, name another in deliver.remote, or use deliver.to: branch", w.Repo, name)
	}
	return where, missing, err
}

// delivery says what a failed push means; final is false if the same push may
// be tried again, which looks at the remote first.
func delivery(err error) (cause machine.Cause, final bool) {
	switch workspace.KindOf(err) {
	case workspace.Moved:
		return machine.CauseConflict, true
	case workspace.Rejected, workspace.Unauthorized, workspace.CheckedOut, workspace.InvalidInput:
		return machine.CauseRefused, true
	case workspace.NotARepository, workspace.NotFound:
		return machine.CauseMissing, true
	default:
		return "", false
	}
}

// undo takes one effect of the slice back and says how the world looks after.
func (a *Activities) undo(ctx context.Context, in slice.UndoIn) (slice.UndoOut, error) {
	w, err := a.open(ctx, in.Header)
	if err != nil {
		return slice.UndoOut{}, err
	}
	var seen string
	switch in.What {
	case slice.UndoWorkspace:
		seen, err = a.undoWorkspace(ctx, w)
	case slice.UndoViews:
		seen, err = a.undoViews(ctx, w)
	case slice.UndoBranch:
		seen, err = w.undoBranch(ctx, in)
	case slice.UndoProposal:
		seen, err = a.undoProposal(ctx, w, in)
	default:
		err = fmt.Errorf("%q is no compensation", in.What)
	}
	return slice.UndoOut{Ack: w.ack, Seen: seen}, err
}

func (a *Activities) undoWorkspace(ctx context.Context, w *work) (string, error) {
	tree, err := w.store.Workspace(w.Slice)
	if err != nil {
		return "", err
	}
	if err := tree.Remove(ctx, w.Good); err != nil {
		return "", err
	}
	if _, err := os.Lstat(tree.Dir()); err == nil {
		return "", fmt.Errorf("%s is still there", tree.Dir())
	}
	return "the workspace is removed", nil
}

func (a *Activities) undoViews(ctx context.Context, w *work) (string, error) {
	if err := w.store.RemoveViews(ctx, w.Slice); err != nil {
		return "", err
	}
	if err := workspace.RemoveAll(a.folder(w.Header)); err != nil {
		return "", err
	}
	a.forget(a.folder(w.Header))
	return "the views are removed", nil
}

func (w *work) undoBranch(ctx context.Context, in slice.UndoIn) (string, error) {
	where, missing, err := w.place(ctx, in.To)
	if err != nil {
		return "", err
	}
	if missing != "" {
		return "no branch was published: " + missing, nil
	}
	_, err = w.store.DeleteBranch(ctx, where, in.Branch, in.Commit)
	if workspace.KindOf(err) == workspace.Moved {
		// It may be where an earlier round put it, if this one was cut off before its push.
		put, refErr := w.store.Ref(ctx, in.Slice, refPublished)
		if refErr != nil {
			return "", refErr
		}
		if put != "" && put != in.Commit {
			_, err = w.store.DeleteBranch(ctx, where, in.Branch, put)
		}
	}
	if workspace.KindOf(err) == workspace.Moved {
		return fmt.Sprintf("branch %s at %s is not at this slice's commit and was left", in.Branch, where), nil
	}
	if err != nil {
		return "", fmt.Errorf("%w; by hand: git push %s :refs/heads/%s", err, where, in.Branch)
	}
	// If the slice is reopened, it is published as if for the first time.
	put, err := w.store.Ref(ctx, in.Slice, refPublished)
	if err != nil {
		return "", err
	}
	if put != "" {
		if err := w.store.SetRef(ctx, in.Slice, refPublished, "", put); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("branch %s is not at %s", in.Branch, where), nil
}

// conclude writes the last lines of the record, and keeps what a reopening
// goes on with.
func (a *Activities) conclude(ctx context.Context, in slice.ConcludeIn) (slice.Ack, error) {
	w, err := a.open(ctx, in.Header)
	if err != nil {
		return slice.Ack{}, err
	}
	if in.Notes != nil {
		b, err := json.Marshal(in.Notes)
		if err != nil {
			return slice.Ack{}, err
		}
		if err := w.store.SetBlob(ctx, in.Slice, notesBlob, b); err != nil {
			return slice.Ack{}, err
		}
	}
	return w.ack, nil
}

const notesBlob = "notes"
