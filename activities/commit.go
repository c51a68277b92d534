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
	pinned, err := w.store.Ref(ctx, in.Slice, "candidate")
	if err != nil {
		return slice.CommitOut{}, err
	}
	if pinned != in.Candidate {
		return slice.CommitOut{}, temporal.NewNonRetryableApplicationError(
			fmt.Sprintf("task %s: the candidate in the store is %.10s, but %.10s was checked and judged", in.Task.ID, pinned, in.Candidate), slice.ErrMismatch, nil)
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
