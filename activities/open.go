package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"go.temporal.io/sdk/temporal"

	"interlock/activities/workspace"
	"interlock/ledger"
	"interlock/machine"
	"interlock/slice"
	"interlock/spec"
)

// work is what an activity on the host's queue works with.
type work struct {
	slice.Header
	store *workspace.Store
	// ack is what the record holds now that the header's lines are in it.
	ack slice.Ack
}

// open opens the slice's store and writes the lines of the record that the
// header carries, so that the intent is in git before the effect.
func (a *Activities) open(ctx context.Context, h slice.Header) (*work, error) {
	store, err := workspace.Open(ctx, a.home, h.Repo)
	if err != nil {
		return nil, err
	}
	w := &work{Header: h, store: store}
	if len(h.Lines) == 0 {
		return w, nil
	}
	first, err := ledger.Number(h.Lines[0])
	if err != nil {
		return nil, temporal.NewNonRetryableApplicationError(err.Error(), slice.ErrLedger, nil)
	}
	if _, err := store.AppendLedger(ctx, h.Slice, first, h.Lines, time.UnixMilli(h.At)); err != nil {
		switch workspace.KindOf(err) {
		case workspace.LedgerConflict, workspace.LedgerGap:
			return nil, temporal.NewNonRetryableApplicationError(err.Error(), slice.ErrLedger, nil)
		default:
			return nil, err
		}
	}
	last := len(h.Lines) - 1
	w.ack = slice.Ack{Written: first + last, Head: ledger.Hash(h.Lines[last])}
	return w, nil
}

func (w *work) ended(outcome machine.Outcome, why string) slice.Ended {
	return slice.Ended{Ack: w.ack, Outcome: outcome, Why: why}
}

func (w *work) failed(cause machine.Cause, why string) slice.Ended {
	e := w.ended(machine.Failed, why)
	e.Cause = cause
	return e
}

const specBlob = "spec"

// terms are the slice's spec and the policy in force, as prepare kept them.
type terms struct {
	Spec   slice.Spec   `json:"spec"`
	Policy slice.Policy `json:"policy"`
}

// terms reads spec and policy from the store: they never travel through
// history, but their hash does, since an agent without a sandbox that looks for
// the store can write to it.
func (w *work) terms(ctx context.Context) (terms, error) {
	var t terms
	b, err := w.store.Blob(ctx, w.Slice, specBlob)
	if err != nil {
		return t, fmt.Errorf("read the policy of the slice: %w", err)
	}
	if found := ledger.Hash(string(b)); found != w.Plan {
		return t, temporal.NewNonRetryableApplicationError(
			fmt.Sprintf("the policy of the slice was changed: %s has hash %.10s, but prepare kept %.10s", slice.Ref(w.Slice, specBlob), found, w.Plan), slice.ErrMismatch, nil)
	}
	if err := json.Unmarshal(b, &t); err != nil {
		return t, temporal.NewNonRetryableApplicationError(
			fmt.Sprintf("%s does not hold the policy of the slice: %v", slice.Ref(w.Slice, specBlob), err), slice.ErrMismatch, nil)
	}
	return t, nil
}

// policyOf returns the policy in force for s at commit base.
func policyOf(ctx context.Context, store *workspace.Store, base string, s slice.Spec) (slice.Policy, error) {
	var repo *slice.Policy
	b, err := store.File(ctx, base, slice.PolicyFile)
	switch {
	case err == nil:
		p, err := spec.ParsePolicy(slice.PolicyFile, b)
		if err != nil {
			return slice.Policy{}, err
		}
		repo = &p
	case workspace.KindOf(err) == workspace.NotFound:
	default:
		return slice.Policy{}, err
	}
	if repo == nil && s.Policy == nil {
		return slice.Policy{}, &noPolicyError{base}
	}
	return spec.Merge(repo, s.Policy)
}

type noPolicyError struct{ base string }

func (e *noPolicyError) Error() string {
	return fmt.Sprintf("there is no %s at the base commit %.10s: commit one, or put `policy:` into the slice", slice.PolicyFile, e.base)
}

// folder returns a folder of the slice in the home.
func (a *Activities) folder(h slice.Header, names ...string) string {
	return filepath.Join(append([]string{a.home, "slices", h.Slice}, names...)...)
}

// marker names a program of the slice, for the sweep of a later worker.
func (a *Activities) marker(h slice.Header) string { return a.host.ID + "/" + h.Slice + "/" + h.Op }

// isInvalid reports whether err is a mistake in what a person wrote.
func isInvalid(err error) bool {
	var one *spec.Error
	var all spec.Errors
	var none *noPolicyError
	return errors.As(err, &one) || errors.As(err, &all) || errors.As(err, &none)
}
