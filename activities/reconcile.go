package activities

import (
	"context"
	"fmt"
	"strings"
	"time"

	"interlock/activities/workspace"
	"interlock/machine"
	"interlock/slice"
)

// reconcile brings the work together with the base as it is now: the result
// is the last good commit itself if it contains the base, else a merge of both.
// Conflicts are resolved by the policy's reconciler, if it has one.
func (a *Activities) reconcile(ctx context.Context, in slice.ReconcileIn) (slice.ReconcileOut, error) {
	w, err := a.open(ctx, in.Header)
	if err != nil {
		return slice.ReconcileOut{}, err
	}
	// One operation has one tip: a second try would find another merge else.
	tip, err := once(ctx, a, part(in.Header, "tip"), func(*tab) (tipped, error) { return w.tip(ctx, in) })
	if err != nil {
		return slice.ReconcileOut{}, err
	}
	if tip.Commit == "" {
		return slice.ReconcileOut{Ended: w.ended(machine.Unmeasured, tip.Why)}, nil
	}
	out := slice.ReconcileOut{Tip: tip.Commit, Commit: in.Good}
	contained, err := w.store.Contains(ctx, in.Good, tip.Commit)
	if err != nil {
		return slice.ReconcileOut{}, err
	}
	if contained {
		out.Ended = w.ended(machine.Done, "")
		return out, nil
	}
	merged, err := w.store.Merge(ctx, in.Good, tip.Commit)
	if err != nil {
		if workspace.KindOf(err) == workspace.Unrelated {
			return slice.ReconcileOut{Ended: w.ended(machine.Unmeasured, err.Error())}, nil
		}
		return slice.ReconcileOut{}, err
	}
	settled := resolved{Tree: merged.Tree}
	settled.Ended = w.ended(machine.Done, fmt.Sprintf("%s moved to %.10s and was merged", in.BaseName, tip.Commit))
	if len(merged.Conflicts) > 0 {
		if settled, err = a.resolve(ctx, w, in, tip.Commit); err != nil {
			return slice.ReconcileOut{}, err
		}
	}
	out.Ended, out.Session = settled.Ended, settled.Session
	if out.Outcome != machine.Done {
		out.Commit, out.Conflicts = "", merged.Conflicts[:min(len(merged.Conflicts), mostConflicts)]
		return out, nil
	}
	out.Commit, err = w.store.Commit(ctx, workspace.CommitRequest{
		Slice: in.Slice, Parent: in.Good, Other: tip.Commit, Tree: settled.Tree,
		Subject: "Merge " + oneLine(in.BaseName) + " into " + slice.Branch(in.Slice),
		Trailers: []workspace.Trailer{
			{Key: slice.TrailerSlice, Value: in.Slice},
			{Key: slice.TrailerLedger, Value: in.Ledger},
		},
		Name: authorName, Email: authorEmail, When: time.UnixMilli(in.At).UTC(),
	})
	if err != nil {
		return slice.ReconcileOut{}, err
	}
	// A task that comes after begins from the merge: in the old files, it would
	// take back what the base has brought.
	tree, err := w.store.Workspace(in.Slice)
	if err != nil {
		return slice.ReconcileOut{}, err
	}
	return out, tree.Restore(ctx, out.Commit, false)
}

// mostConflicts is how many paths travel through history.
const mostConflicts = 100

// tipped is where the base is now, or why that cannot be told.
type tipped struct{ Commit, Why string }

// tip is where the base is now: at the remote that the slice is merged into,
// which a copy of it on this host may be behind of.
func (w *work) tip(ctx context.Context, in slice.ReconcileIn) (tipped, error) {
	var tip workspace.Base
	var err error
	if in.Onto == "" {
		tip, err = w.store.Tip(ctx, w.Slice, in.BaseName)
	} else {
		where, missing, placeErr := w.place(ctx, machine.ToMerge)
		if placeErr != nil || missing != "" {
			return tipped{Why: missing}, placeErr
		}
		tip.Commit, err = w.store.RemoteTip(ctx, w.Slice, where, in.Onto)
	}
	if k := workspace.KindOf(err); k != "" && !k.Retryable() {
		return tipped{Why: err.Error()}, nil
	}
	return tipped{Commit: tip.Commit}, err
}

// part is the header of an operation within an operation.
func part(h slice.Header, name string) slice.Header {
	h.Op += "/" + name
	return h
}

// list names a few of many.
func list(names []string) string {
	if len(names) > 5 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:5], ", "), len(names)-5)
	}
	return strings.Join(names, ", ")
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
