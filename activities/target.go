package activities

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"interlock/activities/evidence"
	"interlock/activities/forge"
	"interlock/activities/workspace"
	"interlock/machine"
	"interlock/slice"
	"interlock/spec"
)

// target is where a slice is proposed and merged.
type target struct {
	// remote is what git is told.
	remote string
	// forge is nil for a plain remote.
	forge *forge.Forge
	// mask hides the forge's token.
	mask *evidence.Masker
}

// target returns where the slice goes, or a sentence on what is missing.
func (a *Activities) target(ctx context.Context, w *work, p slice.Deliver) (t target, missing string, err error) {
	t.remote, missing, err = w.remote(ctx, p)
	if err != nil || missing != "" {
		return t, missing, err
	}
	c, err := forge.Find(t.remote, p.Forge)
	if err != nil {
		return t, err.Error(), nil
	}
	if c.Kind == slice.ForgeGit {
		return t, "", nil
	}
	if c.Token, missing = token(c, p.Forge); missing != "" {
		return t, missing, nil
	}
	c.Cache = &a.answers
	t.mask = evidence.NewMasker(c.Token)
	if t.forge, err = forge.New(c); err != nil {
		return t, err.Error(), nil
	}
	return t, "", nil
}

// token reads the forge's token from the environment of the worker. It never
// leaves this call but to the forge.
func token(c forge.Config, p *slice.Forge) (token, missing string) {
	names := []string{spec.ForgeToken}
	where := c.BaseURL
	switch {
	case p != nil && p.TokenEnv != "":
		names = []string{p.TokenEnv}
	case c.BaseURL == "":
		names = []string{spec.GitHubToken, "GH_TOKEN"}
	}
	for _, name := range names {
		if v := os.Getenv(name); v != "" {
			return v, ""
		}
	}
	if where == "" {
		where = "GitHub.com"
	}
	return "", fmt.Sprintf("the worker has no token for %s: set %s in its environment and start it again", where, strings.Join(names, " or "))
}

// deliverable says before any work is done what would keep the slice from
// being delivered: the branch that it is merged into, or a sentence on what is
// missing.
func (a *Activities) deliverable(ctx context.Context, w *work, base workspace.Base, p slice.Deliver) (onto, missing string, err error) {
	to := machine.Target(p.To)
	if to != machine.ToPropose && to != machine.ToMerge {
		return "", "", nil
	}
	onto, ok := strings.CutPrefix(base.Ref, "refs/heads/")
	if !ok {
		return "", fmt.Sprintf("deliver.to is %s, but the base is no branch: name the branch that it goes to as base", to), nil
	}
	t, missing, err := a.target(ctx, w, p)
	if err != nil || missing != "" {
		return "", missing, err
	}
	switch {
	case t.forge == nil && to == machine.ToPropose:
		return "", fmt.Sprintf("%s is a plain git remote, which has no proposals: use deliver.to: publish or merge, or name its forge in deliver.forge", t.remote), nil
	case t.forge == nil && len(p.Checks) > 0:
		return "", fmt.Sprintf("%s is a plain git remote, which reports no checks: leave deliver.checks out, or name its forge in deliver.forge", t.remote), nil
	case t.forge != nil && to == machine.ToMerge && p.Checks == nil:
		return "", "deliver.checks is missing: name what CI must report green before the merge, or write [] if there is no CI", nil
	case t.forge == nil:
		return onto, "", nil
	}
	tell(ctx, "asking the forge")
	err = t.forge.Check(ctx)
	if k := forge.KindOf(err); k != "" && !k.Retryable() {
		return "", err.Error(), nil
	}
	// A forge that is down or has a limit now is waited for when it is needed.
	return onto, "", ctx.Err()
}

// later says what to wait for, if err is what may pass by itself.
func later(ctx context.Context, err error) (l slice.Later, ok bool) {
	if ctx.Err() != nil {
		return l, false
	}
	var atForge *forge.Error
	unknown, passes := workspace.KindOf(err) == workspace.Unknown, workspace.KindOf(err).Retryable()
	if errors.As(err, &atForge) {
		unknown, passes = atForge.Kind == forge.Unknown, atForge.Kind.Retryable()
	}
	switch {
	case unknown:
		l.For = slice.WaitUnknown
	case passes:
		l.For = slice.WaitForge
	default:
		return l, false
	}
	l.Why = err.Error()
	if at := forge.RetryAt(err); !at.IsZero() {
		l.At = at.Add(time.Second).UnixMilli()
	}
	return l, true
}

// refusal is the cause of a failure at the forge that does not pass by itself.
func refusal(err error) machine.Cause {
	if cause, final := delivery(err); final {
		return cause
	}
	switch forge.KindOf(err) {
	case forge.NotFound:
		return machine.CauseMissing
	case forge.Conflict, forge.HeadMoved:
		return machine.CauseConflict
	case forge.WasClosed:
		return machine.CauseClosed
	case forge.Unauthorized, forge.Refused, forge.Limited, forge.Unready, forge.Unreachable, forge.NotApplied, forge.Unknown:
	}
	return machine.CauseRefused
}

// answeredBy is how a step at the forge ends that failed with err, or what it
// waits for.
func (w *work) answeredBy(ctx context.Context, err error) (slice.Ended, slice.Later, error) {
	if l, ok := later(ctx, err); ok {
		return slice.Ended{Ack: w.ack}, l, nil
	}
	var atForge *forge.Error
	var atRemote *workspace.Error
	if ctx.Err() != nil || !errors.As(err, &atForge) && !errors.As(err, &atRemote) {
		return slice.Ended{}, slice.Later{}, err
	}
	return w.failed(refusal(err), err.Error()), slice.Later{}, nil
}

// deliverableAgain is deliverable for a slice whose base is known by name alone.
func (a *Activities) deliverableAgain(ctx context.Context, w *work, base string, p slice.Deliver) (onto, missing string, err error) {
	if to := machine.Target(p.To); to != machine.ToPropose && to != machine.ToMerge {
		return "", "", nil
	}
	now, err := w.store.Tip(ctx, w.Slice, base)
	if k := workspace.KindOf(err); k != "" && !k.Retryable() {
		return "", err.Error(), nil
	}
	if err != nil {
		return "", "", err
	}
	return a.deliverable(ctx, w, now, p)
}
