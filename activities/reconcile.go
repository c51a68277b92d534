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
func (a *Activities) reconcile(ctx context.Context, in slice.ReconcileIn) (slice.ReconcileOut, error) {
	w, err := a.open(ctx, in.Header)
	if err != nil {
		return slice.ReconcileOut{}, err
	}
	tip, err := w.store.Tip(ctx, in.Slice, in.BaseName)
	if err != nil {
		if k := workspace.KindOf(err); k != "" && !k.Retryable() {
			return slice.ReconcileOut{Ended: w.ended(machine.Unmeasured, err.Error())}, nil
		}
		return slice.ReconcileOut{}, err
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
	if len(merged.Conflicts) > 0 {
		out.Commit, out.Conflicts = "", merged.Conflicts
		out.Ended = w.ended(machine.Failed, fmt.Sprintf("%s moved to %.10s, and both sides changed %s", in.BaseName, tip.Commit, list(merged.Conflicts)))
		return out, nil
	}
	out.Commit, err = w.store.Commit(ctx, workspace.CommitRequest{
		Slice: in.Slice, Parent: in.Good, Other: tip.Commit, Tree: merged.Tree,
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
	out.Ended = w.ended(machine.Done, fmt.Sprintf("%s moved to %.10s and was merged", in.BaseName, tip.Commit))
	return out, nil
}

// list names a few of many.
func list(names []string) string {
	if len(names) > 5 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:5], ", "), len(names)-5)
	}
	return strings.Join(names, ", ")
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
