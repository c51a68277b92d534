package activities

import (
	"context"
	"fmt"

	"interlock/activities/forge"
	"interlock/activities/workspace"
	"interlock/machine"
	"interlock/slice"
)

// merge merges exactly the commit that was verified and judged, into a base
// that is where it was reconciled with; or nothing.
func (a *Activities) merge(ctx context.Context, in slice.MergeIn) (slice.MergeOut, error) {
	var out slice.MergeOut
	w, err := a.open(ctx, in.Header)
	if err != nil {
		return out, err
	}
	terms, err := w.terms(ctx)
	if err != nil {
		return out, err
	}
	t, missing, err := a.target(ctx, w, terms.Policy.Deliver)
	if err != nil {
		return out, err
	}
	if missing != "" {
		out.Ended = w.failed(machine.CauseRefused, missing)
		return out, nil
	}
	tell(ctx, "merging into "+in.Onto)
	m := merging{w: w, target: t, in: in, policy: terms.Policy.Deliver, title: terms.Spec.Title}
	if t.forge == nil {
		out, err = m.push(ctx)
	} else {
		out, err = m.atForge(ctx)
	}
	if err != nil {
		out.Ended, out.Later, err = w.answeredBy(ctx, err)
	}
	return out, err
}

// merging is one look at the world, and one try.
type merging struct {
	w      *work
	target target
	in     slice.MergeIn
	policy slice.Deliver
	title  string
}

func (m merging) ended(e slice.Ended) slice.MergeOut { return slice.MergeOut{Ended: e} }

// push moves the base itself, from where it was reconciled with and nowhere else.
func (m merging) push(ctx context.Context) (slice.MergeOut, error) {
	out, done, err := m.base(ctx)
	if err != nil || done {
		return out, err
	}
	_, err = m.w.store.Push(ctx, m.target.remote, m.in.Onto, m.in.Commit, m.in.Tip)
	if err != nil && workspace.KindOf(err) != workspace.Moved {
		return out, err
	}
	out, done, err = m.base(ctx)
	if err == nil && !done {
		err = fmt.Errorf("%s at %s was pushed, but is still at %.10s", m.in.Onto, m.target.remote, m.in.Tip)
	}
	return out, err
}

// base looks at the base. It is done if the commit is in it already, or if it
// has moved.
func (m merging) base(ctx context.Context) (slice.MergeOut, bool, error) {
	tip, err := m.w.store.RemoteTip(ctx, m.in.Slice, m.target.remote, m.in.Onto)
	if workspace.KindOf(err) == workspace.NoSuchBase {
		return m.ended(m.w.failed(machine.CauseMissing, err.Error())), true, nil
	}
	if err != nil {
		return slice.MergeOut{}, false, err
	}
	contained, err := m.w.store.Contains(ctx, tip, m.in.Commit)
	switch {
	case err != nil:
		return slice.MergeOut{}, false, err
	case contained && m.target.forge == nil:
		out := m.ended(m.w.ended(machine.Done, fmt.Sprintf("%s is at %.10s", m.in.Onto, tip)))
		out.Merged = m.in.Commit
		return out, true, nil
	case tip != m.in.Tip:
		return m.ended(m.w.failed(machine.CauseBaseMoved, fmt.Sprintf("%s moved from %.10s to %.10s", m.in.Onto, m.in.Tip, tip))), true, nil
	}
	return slice.MergeOut{}, false, nil
}

// atForge has the forge merge the proposal by its own method.
func (m merging) atForge(ctx context.Context) (slice.MergeOut, error) {
	p, err := m.target.forge.Proposal(ctx, m.in.Proposal.Number)
	if err != nil {
		return slice.MergeOut{}, err
	}
	switch p.State {
	case forge.Merged:
		return m.look(ctx, p, machine.CauseClosed)
	case forge.Closed:
		return m.ended(m.w.failed(machine.CauseClosed, p.URL+" was closed by somebody")), nil
	case forge.Open:
	}
	if p.Base != m.in.Onto {
		return m.ended(m.w.failed(machine.CauseConflict, fmt.Sprintf("%s is for %s now, not for %s", p.URL, p.Base, m.in.Onto))), nil
	}
	if cause, why, err := m.w.branchAt(ctx, m.target.remote, m.in.Branch, m.in.Commit); err != nil || cause != "" {
		return m.ended(m.w.failed(cause, why)), err
	}
	if out, done, err := m.base(ctx); err != nil || done {
		return out, err
	}
	if p.Head != m.in.Commit {
		// Git says that the branch is where it should be: the forge is behind.
		return slice.MergeOut{}, &forge.Error{Kind: forge.Unready, Message: fmt.Sprintf("%s is still at %.10s, and its branch at %.10s", p.URL, p.Head, m.in.Commit)}
	}
	// CI may have been run again while a person was waited for.
	seen, err := m.target.forge.Checks(ctx, m.in.Commit)
	if err != nil {
		return slice.MergeOut{}, err
	}
	switch v := decideCI(m.policy.Checks, seen); v.outcome {
	case machine.Done:
	case "":
		return slice.MergeOut{Ended: slice.Ended{Ack: m.w.ack}, Later: slice.Later{For: slice.WaitCI, Why: v.why}}, nil
	default:
		return m.ended(m.w.failed(machine.CauseRefused, "CI is not green any more: "+v.why)), nil
	}
	p, err = m.target.forge.Merge(ctx, m.in.Proposal.Number, forge.Merge{
		Head: m.in.Commit, Method: m.policy.Method,
		Title: fmt.Sprintf("%s (#%d)", subject(m.title), m.in.Proposal.Number),
		Body:  slice.TrailerSlice + ": " + m.in.Slice,
	})
	if k := forge.KindOf(err); k == forge.Refused || k == forge.Conflict || k == forge.Unready {
		// It may be refused because the base moved since it was looked at.
		if out, done, lookErr := m.base(ctx); lookErr == nil && done {
			return out, nil
		}
	}
	if err != nil {
		return slice.MergeOut{}, err
	}
	return m.look(ctx, p, machine.CauseConflict)
}

// look sees what a merged proposal has become. If that is not the tree that
// was verified, the slice is not delivered, and cause says whose doing it is.
func (m merging) look(ctx context.Context, p forge.Proposal, cause machine.Cause) (slice.MergeOut, error) {
	tip, err := m.w.store.RemoteTip(ctx, m.in.Slice, m.target.remote, m.in.Onto)
	if err != nil {
		return slice.MergeOut{}, err
	}
	merged := p.MergeCommit
	if merged == "" {
		merged = tip
	}
	contained, err := m.w.store.Contains(ctx, tip, merged)
	if err != nil || !contained {
		return slice.MergeOut{}, &forge.Error{Kind: forge.Unready, Message: fmt.Sprintf("%s is merged as %.10s, which is not in %s yet", p.URL, merged, m.in.Onto), Err: err}
	}
	changes, err := m.w.store.Diff(ctx, m.in.Commit, merged)
	if err != nil {
		return slice.MergeOut{}, err
	}
	if len(changes) == 0 {
		why := fmt.Sprintf("%s is merged as %.10s", p.URL, merged)
		out := m.ended(m.w.ended(machine.Done, why))
		out.Merged = merged
		return out, nil
	}
	why := fmt.Sprintf("%s was merged", p.URL)
	if p.MergedBy != "" {
		why += " by " + p.MergedBy
	}
	why += fmt.Sprintf(" as %.10s, whose files are not those of %.10s, which was verified and judged: look at it (git diff %.10s %.10s), and take it back with git revert if need be",
		merged, m.in.Commit, m.in.Commit, merged)
	out := m.ended(m.w.failed(cause, why))
	out.Merged = merged
	return out, nil
}
