package activities

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"interlock/activities/check"
	"interlock/activities/workspace"
	"interlock/machine"
	"interlock/slice"
)

// The views of a slice.
const (
	viewCheck   = "check"  // moved from candidate to candidate
	viewBase    = "base"   // what was killed at a candidate is measured again here
	viewVerify  = "verify" // made anew for every verify and e2e
	viewJudge   = "judge"
	viewSkeptic = "skeptic"
	viewMerge   = "reconcile" // what is merged, with the conflicts marked
)

// baseline measures the base, before anything is changed.
func (a *Activities) baseline(ctx context.Context, in slice.MeasureIn) (slice.MeasureOut, error) {
	w, err := a.open(ctx, in.Header)
	if err != nil {
		return slice.MeasureOut{}, err
	}
	terms, err := w.terms(ctx)
	if err != nil {
		return slice.MeasureOut{}, err
	}
	m := measurement{w: w, policy: terms.Policy, commands: terms.Policy.Checks, view: viewCheck}
	results, err := a.measureAt(ctx, m, in.Base, in.Base)
	if err != nil {
		return slice.MeasureOut{}, err
	}
	return w.measured(plain(results), in.ExpectedRed), nil
}

// check measures a candidate in the check view, which no agent works in.
func (a *Activities) check(ctx context.Context, in slice.MeasureIn) (slice.MeasureOut, error) {
	w, err := a.open(ctx, in.Header)
	if err != nil {
		return slice.MeasureOut{}, err
	}
	terms, err := w.terms(ctx)
	if err != nil {
		return slice.MeasureOut{}, err
	}
	m := measurement{w: w, policy: terms.Policy, commands: terms.Policy.Checks, view: viewCheck}
	tip := cmp.Or(in.Tip, in.Base)
	spans := []diffSpan{{tip, in.Tree}}
	if in.Good != tip {
		// Tests that an earlier task has added are nobody's to take away either.
		spans = append(spans, diffSpan{in.Good, in.Tree})
	}
	return a.measureGuarded(ctx, m, in, terms, spans)
}

// verify measures the whole in a checkout and with caches made for it alone.
func (a *Activities) verify(ctx context.Context, in slice.MeasureIn) (slice.MeasureOut, error) {
	w, terms, m, err := a.whole(ctx, in, func(p slice.Policy) []slice.Command {
		if len(p.Verify) == 0 {
			return p.Checks
		}
		return p.Verify
	})
	if err != nil {
		return slice.MeasureOut{}, err
	}
	// What the base has changed meanwhile is not the slice's doing.
	return a.measureGuarded(ctx, m, in, terms, []diffSpan{{cmp.Or(in.Tip, w.Base), in.Tree}})
}

// e2e is verify with the policy's end-to-end commands.
func (a *Activities) e2e(ctx context.Context, in slice.MeasureIn) (slice.MeasureOut, error) {
	_, _, m, err := a.whole(ctx, in, func(p slice.Policy) []slice.Command { return p.E2E })
	if err != nil {
		return slice.MeasureOut{}, err
	}
	checks, err := a.measure(ctx, m, in)
	if err != nil {
		return slice.MeasureOut{}, err
	}
	return m.w.measured(checks, in.ExpectedRed), nil
}

func (a *Activities) whole(ctx context.Context, in slice.MeasureIn, commands func(slice.Policy) []slice.Command) (*work, terms, measurement, error) {
	w, err := a.open(ctx, in.Header)
	if err != nil {
		return nil, terms{}, measurement{}, err
	}
	t, err := w.terms(ctx)
	return w, t, measurement{w: w, policy: t.Policy, commands: commands(t.Policy), view: viewVerify, fresh: true}, err
}

// measureGuarded has the guard look at the changes, then measures the tree,
// then compares its tests with those of the base. What the guard calls tampered
// is not run.
func (a *Activities) measureGuarded(ctx context.Context, m measurement, in slice.MeasureIn, t terms, spans []diffSpan) (slice.MeasureOut, error) {
	g, err := a.guard(ctx, m.w, t, spans)
	if err != nil {
		return slice.MeasureOut{}, err
	}
	var checks []slice.CheckResult
	if g.result != nil {
		checks = append(checks, *g.result)
	}
	if !g.tampered {
		measured, err := a.measure(ctx, m, in)
		if err != nil {
			return slice.MeasureOut{}, err
		}
		if err := a.ratchet(ctx, m, in, t, measured); err != nil {
			return slice.MeasureOut{}, err
		}
		checks = append(checks, measured...)
	}
	out := m.w.measured(checks, in.ExpectedRed)
	out.Guard = g.review
	return out, nil
}

// measurement is which commands are run where.
type measurement struct {
	w        *work
	policy   slice.Policy
	commands []slice.Command
	view     string
	// fresh makes view and caches anew.
	fresh bool
}

// measure measures a tree. What was killed there is measured again at the
// base, which tells a broken environment from a change that hangs.
func (a *Activities) measure(ctx context.Context, m measurement, in slice.MeasureIn) ([]slice.CheckResult, error) {
	results, err := a.measureAt(ctx, m, in.Tree, in.Good)
	if err != nil {
		return nil, err
	}
	checks := plain(results)
	if again := check.Killed(results); len(again) > 0 {
		base := m
		base.view, base.commands = viewBase, nil
		for _, i := range again {
			base.commands = append(base.commands, m.commands[i])
		}
		tell(ctx, "measuring again at the base")
		there, err := a.measureAt(ctx, base, in.Base, in.Base)
		if err != nil {
			return nil, err
		}
		checks = check.Reclassify(results, there)
	}
	return checks, nil
}

// measureAt moves the view to a tree, sets it up if that is due, and runs the
// commands. A set-up that fails is what is measured then.
func (a *Activities) measureAt(ctx context.Context, m measurement, tree, commit string) ([]check.Result, error) {
	view, err := m.w.store.View(m.w.Slice, m.view)
	if err != nil {
		return nil, err
	}
	own := a.folder(m.w.Header, m.view)
	if m.fresh {
		if err := workspace.RemoveAll(own); err != nil {
			return nil, err
		}
		err = view.Fresh(ctx, tree, commit)
	} else {
		err = view.Move(ctx, tree, commit)
	}
	if err != nil {
		return nil, err
	}
	runner := &check.Runner{Evidence: a.evidence}
	request := check.Request{
		Step: string(m.w.Turn.Step), Dir: view.Dir(), Own: own, Pass: m.policy.Env,
		Marker: a.marker(m.w.Header), OnProgress: func(s string) { tell(ctx, s) },
		Touched: func(ctx context.Context) ([]string, error) { return touched(ctx, view) },
	}
	if failed, err := setUp(ctx, runner, &request, m, view, tree); err != nil || failed != nil {
		return failed, err
	}
	request.Commands = m.commands
	return runner.Measure(ctx, request)
}

// touched are the files of its tree that a view does not have as they were.
func touched(ctx context.Context, view *workspace.View) ([]string, error) {
	drift, err := view.Compare(ctx)
	if workspace.KindOf(err) == workspace.NotFound {
		return []string{"."}, nil
	}
	return drift.Changed, err
}

// setUp runs the policy's set-up commands if the view is not set up for the
// tree in it. It returns the results only if one of them failed.
func setUp(ctx context.Context, runner *check.Runner, request *check.Request, m measurement, view *workspace.View, tree string) ([]check.Result, error) {
	if len(m.policy.Setup) == 0 {
		return nil, nil
	}
	entries, err := m.w.store.List(ctx, tree)
	if err != nil {
		return nil, err
	}
	files := make([]check.File, len(entries))
	for i, e := range entries {
		files[i] = check.File{Path: e.Path, ID: e.ID}
	}
	key, err := check.SetupKey(m.w.Base, files, m.policy.Setup)
	if err != nil {
		return nil, err
	}
	// Beside the view's files, so that it goes when they go.
	kept := filepath.Join(filepath.Dir(view.Dir()), "setup")
	had, err := os.ReadFile(kept)
	if err == nil && string(had) == key && !m.fresh {
		return nil, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	request.Commands = m.policy.Setup
	results, err := runner.Setup(ctx, *request)
	if err != nil {
		return nil, err
	}
	if request.Before, err = touched(ctx, view); err != nil {
		return nil, err
	}
	if n := len(results); n > 0 && results[n-1].Outcome != machine.Done {
		return results[n-1:], nil
	}
	return nil, os.WriteFile(kept, []byte(key), 0o600)
}

func plain(results []check.Result) []slice.CheckResult {
	out := make([]slice.CheckResult, len(results))
	for i, r := range results {
		out[i] = r.CheckResult
	}
	return out
}

func (w *work) measured(checks []slice.CheckResult, expected []string) slice.MeasureOut {
	outcome, why := check.Decide(checks, expected)
	ended := w.ended(outcome, why)
	for _, c := range checks {
		for _, e := range []slice.Evidence{c.Log, c.Tests} {
			if e.Hash != "" {
				ended.Evidence = append(ended.Evidence, e)
			}
		}
	}
	return slice.MeasureOut{Ended: ended, Checks: bounded(checks)}
}

// bounded keeps what travels through history small: the logs are evidence.
func bounded(checks []slice.CheckResult) []slice.CheckResult {
	room := summaryRoom
	for i := range checks {
		if s := checks[i].Summary; len(s) > room {
			checks[i].Summary = fmt.Sprintf("(%d bytes: see the log)", len(s))
		} else {
			room -= len(s)
		}
	}
	return checks
}

const summaryRoom = 24 << 10
