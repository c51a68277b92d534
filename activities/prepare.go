package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"go.temporal.io/sdk/temporal"

	"interlock/activities/agent"
	"interlock/activities/workspace"
	"interlock/ledger"
	"interlock/machine"
	"interlock/slice"
	"interlock/spec"
)

// claim takes a slice to this host. It looks at the slice's own record: what
// was delivered is never run again, however it was started.
func (a *Activities) claim(ctx context.Context, in slice.ClaimIn) (slice.ClaimOut, error) {
	refused := func(cause machine.Cause, why string) (slice.ClaimOut, error) {
		return slice.ClaimOut{Ended: slice.Ended{Outcome: machine.Failed, Cause: cause, Why: why}}, nil
	}
	if err := spec.CheckID(in.Slice); err != nil {
		return refused(machine.CauseInvalid, err.Error())
	}
	if in.Spec.ID != "" && in.Spec.ID != in.Slice {
		return refused(machine.CauseInvalid, fmt.Sprintf("the slice's id is %q, but it was started as %q: they must be the same", in.Spec.ID, in.Slice))
	}
	if err := spec.Validate(in.Spec); err != nil {
		return refused(machine.CauseInvalid, err.Error())
	}
	if !strings.Contains(in.Spec.Repo, ":") && !filepath.IsAbs(in.Spec.Repo) {
		return refused(machine.CauseInvalid, fmt.Sprintf("repo %q is relative, and the worker does not know to what: give an absolute path or a URL", in.Spec.Repo))
	}
	store, err := workspace.Open(ctx, a.home, in.Spec.Repo)
	if err != nil {
		if k := workspace.KindOf(err); k != "" && !k.Retryable() {
			return refused(machine.CausePrecondition, err.Error())
		}
		return slice.ClaimOut{}, err
	}
	if err := store.Taken(in.Slice); workspace.KindOf(err) == workspace.Foreign {
		return refused(machine.CausePrecondition, err.Error()+"; give this slice an id of its own")
	} else if err != nil {
		return slice.ClaimOut{}, err
	}
	if err := store.Taken(in.Slice); workspace.KindOf(err) == workspace.Foreign {
		return refused(machine.CausePrecondition, err.Error()+"; give this slice an id of its own")
	} else if err != nil {
		return slice.ClaimOut{}, err
	}
	record, err := store.Ledger(ctx, in.Slice)
	if err != nil {
		return slice.ClaimOut{}, err
	}
	past, err := ledger.Fold(record.Lines)
	if err != nil {
		return slice.ClaimOut{}, temporal.NewNonRetryableApplicationError(
			fmt.Sprintf("%s: %v", slice.Ref(in.Slice, "ledger"), err), slice.ErrLedger, nil)
	}
	if past.State.Ending == machine.Delivered {
		return refused(machine.CausePrecondition, fmt.Sprintf("slice %s was delivered already, as commit %.10s; for more work start a slice with another id", in.Slice, past.Whole))
	}
	return slice.ClaimOut{
		Ended: slice.Ended{Outcome: machine.Done, Ack: slice.Ack{Written: past.N, Head: past.Head}},
		Host:  a.host, Key: store.Key(), Runs: past.Runs, SpentMicroUSD: past.State.SpentMicroUSD,
	}, nil
}

// prepare resolves the base, reads the policy there, and makes the workspace.
func (a *Activities) prepare(ctx context.Context, in slice.PrepareIn) (slice.PrepareOut, error) {
	w, err := a.open(ctx, in.Header)
	if err != nil {
		return slice.PrepareOut{}, err
	}
	tell(ctx, "fetching "+in.Spec.Base)
	base, err := w.store.Fetch(ctx, in.Slice, in.Spec.Base)
	if err != nil {
		if k := workspace.KindOf(err); k != "" && !k.Retryable() {
			return slice.PrepareOut{Ended: w.failed(machine.CausePrecondition, err.Error())}, nil
		}
		return slice.PrepareOut{}, err
	}
	policy, err := policyOf(ctx, w.store, base.Commit, in.Spec)
	if err != nil {
		if isInvalid(err) {
			return slice.PrepareOut{Ended: w.failed(machine.CauseInvalid, err.Error())}, nil
		}
		return slice.PrepareOut{}, err
	}
	onto, missing, err := a.deliverable(ctx, w, base, policy.Deliver)
	if err != nil {
		return slice.PrepareOut{}, err
	}
	if missing != "" {
		return slice.PrepareOut{Ended: w.failed(machine.CausePrecondition, missing)}, nil
	}
	if why := a.cannotSandbox(policy); why != "" {
		return slice.PrepareOut{Ended: w.failed(machine.CausePrecondition, why)}, nil
	}
	out, err := w.keep(ctx, terms{Spec: in.Spec, Policy: policy})
	if err != nil {
		return slice.PrepareOut{}, err
	}
	out.Sandbox = a.isolation(policy)
	if err := w.begin(ctx, base.Commit); err != nil {
		return slice.PrepareOut{}, err
	}
	tell(ctx, "making the workspace")
	tree, err := w.store.Workspace(in.Slice)
	if err != nil {
		return slice.PrepareOut{}, err
	}
	if err := tree.Restore(ctx, base.Commit, true); err != nil {
		return slice.PrepareOut{}, err
	}
	out.Base, out.Onto = base.Commit, onto
	return out, nil
}

// keep keeps spec and policy in the store, and says what the slice works with
// under them.
func (w *work) keep(ctx context.Context, t terms) (slice.PrepareOut, error) {
	kept, out, err := w.under(t)
	if err != nil {
		return slice.PrepareOut{}, err
	}
	return out, w.store.SetBlob(ctx, w.Slice, specBlob, kept)
}

// under says what the slice works with under t, and what is kept of t.
func (w *work) under(t terms) (kept []byte, out slice.PrepareOut, err error) {
	if kept, err = json.Marshal(t); err != nil {
		return nil, out, err
	}
	tree, err := w.store.Workspace(w.Slice)
	if err != nil {
		return nil, out, err
	}
	return kept, slice.PrepareOut{
		Ended: w.ended(machine.Done, ""), Rules: spec.Rules(t.Spec, t.Policy), Plan: ledger.Hash(string(kept)),
		Workspace: tree.Dir(), Store: w.store.Dir(), Branch: slice.Branch(w.Slice), Gates: t.Policy.Gates, External: external(t.Policy),
		CITimeout: t.Policy.Deliver.CITimeout,
		Quota:     t.Policy.Quota, Callers: callers(t.Policy), Roles: spec.RoleCaps(t.Policy),
	}, nil
}

// callers are the agents that the steps of a slice may ask.
func callers(p slice.Policy) (all []slice.Caller) {
	add := func(role string, a slice.Agent) {
		all = append(all, slice.Caller{Name: a.Name, Role: role, Use: a.Use, ReserveMicroUSD: agent.Reservation(a), Fallback: a.Fallback != nil})
	}
	add(slice.RoleImplementer, p.Agents.Implementer)
	for _, j := range p.Agents.Judges {
		add(slice.RoleJudge, j)
	}
	if p.Agents.Skeptics != nil {
		add(slice.RoleJudge, *p.Agents.Skeptics)
	}
	add(slice.RoleAdvisor, spec.Advisor(p))
	if p.Agents.Reconciler != nil {
		add(slice.RoleReconciler, *p.Agents.Reconciler)
	}
	return all
}

// external names the roles that are driven from outside.
func external(p slice.Policy) (roles []string) {
	if p.Agents.Implementer.Use == slice.AdapterExternal {
		roles = append(roles, slice.RoleImplementer)
	}
	for _, j := range p.Agents.Judges {
		if j.Use == slice.AdapterExternal {
			roles = append(roles, j.Name)
		}
	}
	if spec.Advisor(p).Use == slice.AdapterExternal {
		roles = append(roles, slice.RoleAdvisor)
	}
	return roles
}

// restore puts the workspace back to the last good commit, before somebody
// outside works in it.
func (a *Activities) restore(ctx context.Context, in slice.RestoreIn) (slice.Ack, error) {
	w, err := a.open(ctx, in.Header)
	if err != nil {
		return slice.Ack{}, err
	}
	tree, err := w.store.Workspace(in.Slice)
	if err != nil {
		return slice.Ack{}, err
	}
	return w.ack, tree.Restore(ctx, in.Good, false)
}

// begin makes base the last good commit. Work of an earlier run that was
// never delivered stays reachable under a ref of that run.
func (w *work) begin(ctx context.Context, base string) error {
	good, err := w.store.Ref(ctx, w.Slice, refGood)
	if err != nil {
		return err
	}
	if good == base {
		return nil
	}
	if good != "" {
		keep := fmt.Sprintf("run-%d", w.Run-1)
		had, err := w.store.Ref(ctx, w.Slice, keep)
		if err != nil {
			return err
		}
		if err := w.store.SetRef(ctx, w.Slice, keep, good, had); err != nil {
			return err
		}
	}
	return w.store.SetRef(ctx, w.Slice, refGood, base, good)
}

const refGood = "good"
