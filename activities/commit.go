package activities

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"go.temporal.io/sdk/temporal"

	"interlock/activities/workspace"
	"interlock/machine"
	"interlock/slice"
)

// The author of every commit that the program makes: the model produced the
// files, but no model has a say in the commit.
const (
	authorName  = "Interlock"
	authorEmail = "interlock@localhost"
)

// commit commits exactly the candidate on the last good commit. Message and
// trailers come from the spec and the record, never from the implementer.
func (a *Activities) commit(ctx context.Context, in slice.CommitIn) (slice.CommitOut, error) {
	w, err := a.open(ctx, in.Header)
	if err != nil {
		return slice.CommitOut{}, err
	}
	if err := w.unchanged(ctx, in.Candidate); err != nil {
		return slice.CommitOut{}, err
	}
	id, err := w.store.Commit(ctx, workspace.CommitRequest{
		Slice: in.Slice, Parent: in.Good, Tree: in.Candidate,
		Subject: subject(in.Task.Criterion), Body: in.Task.Details,
		Trailers: []workspace.Trailer{
			{Key: slice.TrailerSlice, Value: in.Slice},
			{Key: slice.TrailerTask, Value: in.Task.ID},
			{Key: slice.TrailerAttempt, Value: strconv.Itoa(in.Turn.Attempt)},
			{Key: slice.TrailerLedger, Value: in.Ledger},
		},
		Name: authorName, Email: authorEmail, When: time.UnixMilli(in.At).UTC(),
	})
	if err != nil {
		if workspace.KindOf(err) == workspace.Moved {
			return slice.CommitOut{Ended: w.ended(machine.Failed, err.Error())}, nil
		}
		return slice.CommitOut{}, err
	}
	tree, err := w.store.Workspace(in.Slice)
	if err != nil {
		return slice.CommitOut{}, err
	}
	if err := tree.Advance(ctx, id); err != nil {
		return slice.CommitOut{}, err
	}
	return slice.CommitOut{Ended: w.ended(machine.Done, ""), Commit: id}, nil
}

// unchanged stops the slice if the candidate in the store is not the one that
// was checked and judged.
func (w *work) unchanged(ctx context.Context, candidate string) error {
	pinned, err := w.store.Ref(ctx, w.Slice, "candidate")
	if err != nil {
		return err
	}
	if pinned == candidate {
		return nil
	}
	if pinned != "" {
		changes, err := w.store.Diff(ctx, pinned, candidate)
		if err != nil {
			return err
		}
		if len(changes) == 0 {
			return nil
		}
	}
	return temporal.NewNonRetryableApplicationError(
		fmt.Sprintf("task %d: %s is %.10s, but %.10s was checked and judged", w.Turn.Task, slice.Ref(w.Slice, "candidate"), pinned, candidate), slice.ErrMismatch, nil)
}

// subject is the first line of a commit message: the criterion, cut at a word.
func subject(criterion string) string {
	line := []rune(oneLine(criterion))
	if len(line) <= subjectLength {
		return string(line)
	}
	cut := subjectLength - 1
	for i := cut; i > subjectLength/2; i-- {
		if line[i] == ' ' {
			cut = i
			break
		}
	}
	return string(line[:cut]) + "…"
}

const subjectLength = 72
