package activities

import (
	"context"
	"fmt"
	"strings"

	"interlock/activities/forge"
	"interlock/machine"
	"interlock/slice"
)

// propose finds the proposal of the slice's branch or opens it. Its words come
// from the spec and from what was measured and judged.
func (a *Activities) propose(ctx context.Context, in slice.ProposeIn) (slice.ProposeOut, error) {
	out := slice.ProposeOut{Proposal: in.Proposal}
	w, err := a.open(ctx, in.Header)
	if err != nil {
		return out, err
	}
	terms, err := w.terms(ctx)
	if err != nil {
		return out, err
	}
	t, missing, err := a.target(ctx, w, terms.Policy.Deliver)
	switch {
	case err != nil:
		return out, err
	case missing != "":
		out.Ended = w.failed(machine.CauseRefused, missing)
		return out, nil
	case t.forge == nil:
		out.Ended = w.ended(machine.Done, "a plain git remote has no proposals")
		return out, nil
	}
	tell(ctx, "proposing "+in.Branch)
	p, err := t.forge.Propose(ctx, forge.Draft{
		Head: in.Branch, Base: in.Onto, Commit: in.Commit, Slice: in.Slice, Run: in.Run,
		Title: title(terms.Spec.Title, in.Slice), Body: forge.Body(proposalText(terms.Spec, in), in.Slice, in.Run),
	})
	if err == nil && in.Proposal.Number == p.Number {
		// It was opened for an earlier commit: say what became of that.
		err = t.forge.Comment(ctx, p.Number, "round "+in.Commit, roundText(in))
	}
	if err != nil {
		out.Ended, out.Later, err = w.answeredBy(ctx, err)
		return out, err
	}
	out.Proposal = slice.Proposal{Number: p.Number, URL: p.URL}
	out.Ended = w.ended(machine.Done, p.URL)
	return out, nil
}

// title is that of a proposal: the slice's, with its mark.
func title(of, id string) string {
	const most = 250 // GitHub takes 256 characters
	mark := " [" + id + "]"
	line := []rune(oneLine(of))
	if room := most - len([]rune(mark)); len(line) > room {
		line = append(line[:room-1], '…')
	}
	return string(line) + mark
}

// mostListed is how many tasks, checks and findings a proposal names.
const mostListed = 50

func proposalText(s slice.Spec, in slice.ProposeIn) string {
	var b strings.Builder
	tasks := s.Tasks
	for _, t := range in.Extra {
		if !hasTask(tasks, t.ID) {
			tasks = append(tasks[:len(tasks):len(tasks)], t)
		}
	}
	b.WriteString("### What is to be true\n\n")
	for i, t := range tasks {
		if i == mostListed {
			fmt.Fprintf(&b, "- … and %d more\n", len(tasks)-i)
			break
		}
		fmt.Fprintf(&b, "- %s\n", oneLine(t.Criterion))
	}
	b.WriteString("\n### What was measured\n\n")
	b.WriteString(measuredText(in))
	return b.String()
}

func hasTask(list []slice.Task, id string) bool {
	for _, t := range list {
		if t.ID == id {
			return true
		}
	}
	return false
}

func roundText(in slice.ProposeIn) string {
	return "The proposal is at another commit now; it was verified and judged as a whole again.\n\n" + measuredText(in)
}

// measuredText tells facts about the commit. Names of checks and words of
// judges are quoted: they were not written by who proposes.
func measuredText(in slice.ProposeIn) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Commit %s was verified in a fresh checkout and judged as a whole.\n\n", in.Commit)
	for i, c := range in.Checks {
		if i == mostListed {
			fmt.Fprintf(&b, "- … and %d more checks\n", len(in.Checks)-i)
			break
		}
		fmt.Fprintf(&b, "- %s: %s", span(c.Name), c.Outcome)
		if n := c.Passed + c.Failed + c.Skipped; n > 0 {
			fmt.Fprintf(&b, " (%d passed, %d failed, %d skipped)", c.Passed, c.Failed, c.Skipped)
		}
		b.WriteString("\n")
	}
	if in.E2EUnmeasured {
		b.WriteString("- end to end: **not measured**; the policy delivers all the same\n")
	}
	if len(in.Open) > 0 {
		b.WriteString("\nCorrections that judges asked for and that were not made:\n\n")
	}
	for i, f := range in.Open {
		if i == mostListed {
			fmt.Fprintf(&b, "- … and %d more\n", len(in.Open)-i)
			break
		}
		where := ""
		if f.File != "" {
			where = span(fmt.Sprintf("%s:%d", f.File, f.Line)) + " "
		}
		fmt.Fprintf(&b, "- %s%s\n", where, span(f.Claim))
	}
	return b.String()
}

// span makes foreign text one span of code, in which a forge finds no
// mention, no reference to an issue, and no markup.
func span(s string) string {
	s = oneLine(strings.ReplaceAll(s, "`", "'"))
	if r := []rune(s); len(r) > 300 {
		s = string(r[:299]) + "…"
	}
	return "`" + s + "`"
}

// undoProposal closes what the slice proposed and says why.
func (a *Activities) undoProposal(ctx context.Context, w *work, in slice.UndoIn) (string, error) {
	terms, err := w.terms(ctx)
	if err != nil {
		return "", err
	}
	t, missing, err := a.target(ctx, w, terms.Policy.Deliver)
	if err != nil {
		return "", err
	}
	if missing != "" {
		return "", fmt.Errorf("whether there is a proposal cannot be seen: %s", missing)
	}
	if t.forge == nil {
		return "nothing was proposed: it is a plain git remote", nil
	}
	why := fmt.Sprintf("The slice `%s` ended as `%s`, so its proposal is closed. The branch is left to the slice.", in.Slice, in.Ending)
	all, err := t.forge.Close(ctx, in.Branch, in.Slice, why)
	if err != nil {
		return "", err
	}
	var seen []string
	for _, p := range all {
		seen = append(seen, fmt.Sprintf("%s is %s", p.URL, p.State))
	}
	if len(seen) == 0 {
		return "nothing was proposed", nil
	}
	return "proposal " + list(seen), nil
}

// branchAt says what is wrong with the slice's branch at the remote: somebody
// moved it away from the commit, or removed it.
func (w *work) branchAt(ctx context.Context, remote, branch, commit string) (machine.Cause, string, error) {
	at, err := w.store.RemoteBranch(ctx, remote, branch)
	switch {
	case err != nil:
		return "", "", err
	case at == "":
		return machine.CauseMissing, fmt.Sprintf("branch %s is not at %s any more: somebody deleted it", branch, remote), nil
	case at != commit:
		return machine.CauseConflict, fmt.Sprintf("branch %s at %s was moved by somebody else: it is at %.10s, expected %.10s", branch, remote, at, commit), nil
	}
	return "", "", nil
}
