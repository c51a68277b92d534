package workflows

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"interlock/ledger"
	"interlock/machine"
	"interlock/saga"
	"interlock/slice"
)

const (
	// firstPause and longestPause are between two looks at a forge that is not
	// done: each pause is twice the one before.
	firstPause   = 15 * time.Second
	longestPause = 5 * time.Minute
	// forgePatience is how long a forge is waited for that has a limit or
	// cannot be read.
	forgePatience = 2 * time.Hour
)

func (r *run) propose(ctx workflow.Context, h slice.Header) (slice.Ended, error) {
	r.Undo = saga.Declare(r.Undo, slice.UndoIn{What: slice.UndoProposal, To: r.State.Rules.DeliverTo, Branch: r.Branch, Commit: r.Whole})
	return r.atForge(ctx, h, func(h slice.Header) (slice.Ended, slice.Later, error) {
		out, err := execute(ctx, slice.ActPropose, slice.ProposeIn{
			Header: h, Onto: r.Onto, Branch: r.Branch, Commit: r.Whole, Proposal: r.Proposal, Extra: r.Extra,
			Checks: measured(r.Checks), Open: r.Open, E2EUnmeasured: r.State.E2EUnmeasured,
		})
		if err == nil {
			r.Proposal = out.Proposal
		}
		return out.Ended, out.Later, err
	})
}

func (r *run) awaitCI(ctx workflow.Context, h slice.Header) (slice.Ended, error) {
	r.CI = nil
	ended, err := r.atForge(ctx, h, func(h slice.Header) (slice.Ended, slice.Later, error) {
		out, err := execute(ctx, slice.ActAwaitCI, slice.AwaitCIIn{Header: h, Proposal: r.Proposal, Commit: r.Whole})
		if err == nil && out.Checks != nil {
			r.CI = out.Checks
		}
		return out.Ended, out.Later, err
	})
	if err == nil {
		r.Checks = r.CI
	}
	return ended, err
}

func (r *run) merge(ctx workflow.Context, h slice.Header) (slice.Ended, error) {
	return r.atForge(ctx, h, func(h slice.Header) (slice.Ended, slice.Later, error) {
		out, err := execute(ctx, slice.ActMerge, slice.MergeIn{
			Header: h, Onto: r.Onto, Tip: r.Tip, Branch: r.Branch, Commit: r.Whole, Proposal: r.Proposal,
		})
		r.Merged = out.Merged
		return out.Ended, out.Later, err
	})
}

// atForge asks until the step has ended, and waits in between for what the
// answer names: the world is read again after every wait.
func (r *run) atForge(ctx workflow.Context, h slice.Header, ask func(slice.Header) (slice.Ended, slice.Later, error)) (slice.Ended, error) {
	defer r.closeWait()
	began := r.since
	ci := r.CITimeout.Or(slice.DefaultCITimeout)
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		ended, later, err := ask(h)
		if err != nil || later.For == "" {
			return ended, err
		}
		ledger.Written(&r.Ledger, ended.Written)
		h.Lines = r.Ledger.Pending
		until := began.Add(ci)
		if later.For != slice.WaitCI {
			until = began.Add(max(ci, forgePatience))
		}
		now := workflow.Now(ctx)
		if !now.Before(until) {
			return gaveUp(r.State.Step, later, until.Sub(began)), nil
		}
		next := now.Add(pause)
		if at := millis(later.At); later.At > 0 && at.After(now) {
			next = at
		}
		if next.After(until) {
			next = until
		}
		if err := r.waitForForge(ctx, later, until); err != nil {
			return slice.Ended{}, err
		}
		never := func() bool { return false }
		if _, err := r.await(ctx, never, next.Sub(now), fmt.Sprintf("%s: %s", r.State.Step, later.For)); err != nil {
			return slice.Ended{}, err
		}
		if r.leave(ctx, false) {
			return slice.Ended{}, errLeft
		}
	}
}

// waitForForge shows what is waited for.
func (r *run) waitForForge(ctx workflow.Context, later slice.Later, until time.Time) error {
	w := slice.Wait{For: later.For, Why: clip(oneLine(later.Why), 500), Until: until.UnixMilli()}
	if r.Waiting == nil || r.Waiting.For != later.For {
		return r.wait(ctx, w)
	}
	r.Waiting.Why, r.Waiting.Until = w.Why, w.Until
	return r.publish(ctx)
}

// gaveUp is how a step ends whose wait has passed its deadline: that CI was
// not seen is not green, and an effect that cannot be read is not done.
func gaveUp(step machine.Step, later slice.Later, after time.Duration) slice.Ended {
	ended := slice.Ended{Outcome: machine.Unanswered, Why: fmt.Sprintf("after %s: %s", after, later.Why)}
	if step == machine.AwaitCI {
		ended.Outcome = machine.Unmeasured
	}
	return ended
}

// extend adds the task that the machine has added to those of the spec. It is
// made by the program: what failed, and where that can be seen.
func (r *run) extend() {
	if r.State.Tasks <= len(r.spec.Tasks) {
		return
	}
	t := slice.Task{ID: "ci"}
	for n := 2; slices.ContainsFunc(r.spec.Tasks, func(other slice.Task) bool { return other.ID == t.ID }); n++ {
		t.ID = fmt.Sprintf("ci-%d", n)
	}
	var names, lines []string
	for _, c := range red(r.CI) {
		names = append(names, c.Name)
		lines = append(lines, fmt.Sprintf("%s: %s", c.Name, c.Why))
	}
	t.Criterion = "CI is green: " + clip(cmp.Or(strings.Join(names, ", "), "a check"), 1000) + " failed."
	t.Details = "What the continuous integration of the repository said of the commit that was proposed:\n\n" +
		clip(strings.Join(lines, "\n"), 4000)
	r.spec.Tasks = append(slices.Clone(r.spec.Tasks), t)
	r.Extra = append(r.Extra, t)
	r.Tasks = append(r.Tasks, taskStatus(t))
}

// redChecks are what an implementer is told of checks: those of the attempt
// before and, in a task that red CI has added, what CI said.
func (r *run) redChecks() []slice.CheckResult {
	checks := red(r.Checks)
	if r.State.Task >= len(r.spec.Tasks) || r.State.Attempt < 2 {
		return checks
	}
	id := r.spec.Tasks[r.State.Task].ID
	if slices.ContainsFunc(r.Extra, func(t slice.Task) bool { return t.ID == id }) {
		checks = append(checks, red(r.CI)...)
	}
	return checks
}

// needsHuman says whether a person can do something about a wait.
func needsHuman(w *slice.Wait) bool {
	return w != nil && w.For != slice.WaitQuota && w.For != slice.WaitCI && w.For != slice.WaitForge
}
