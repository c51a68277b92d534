package workflows

import (
	"fmt"
	"strings"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"interlock/machine"
	"interlock/slice"
)

var (
	attrStep       = temporal.NewSearchAttributeKeyKeyword(slice.AttrStep)
	attrTask       = temporal.NewSearchAttributeKeyKeyword(slice.AttrTask)
	attrRepo       = temporal.NewSearchAttributeKeyKeyword(slice.AttrRepo)
	attrWaitingFor = temporal.NewSearchAttributeKeyKeyword(slice.AttrWaitingFor)
	attrNeedsHuman = temporal.NewSearchAttributeKeyBool(slice.AttrNeedsHuman)
	attrEnding     = temporal.NewSearchAttributeKeyKeyword(slice.AttrEnding)
	attrCostUSD    = temporal.NewSearchAttributeKeyFloat64(slice.AttrCostUSD)
)

// publish shows people where the slice is: the current details at every step,
// the search attributes, which cost an event, when a task changes and at the ending.
func (r *run) publish(ctx workflow.Context) error {
	workflow.SetCurrentDetails(ctx, r.page())
	s := r.State
	first := r.told.Step == ""
	waiting := r.waitingFor()
	if !first && s.Task == r.told.Task && s.Ended() == r.told.Ended() && waiting == r.toldWaiting {
		return nil
	}
	updates := []temporal.SearchAttributeUpdate{
		attrStep.ValueSet(string(s.Step)),
		attrTask.ValueSet(r.taskID()),
		attrCostUSD.ValueSet(float64(s.SpentMicroUSD) / 1e6),
	}
	if first {
		updates = append(updates, attrRepo.ValueSet(r.spec.Repo), attrNeedsHuman.ValueSet(false))
	}
	switch {
	case waiting != "":
		updates = append(updates, attrWaitingFor.ValueSet(waiting), attrNeedsHuman.ValueSet(true))
	case waiting != r.toldWaiting || s.Ended():
		updates = append(updates, attrWaitingFor.ValueUnset(), attrNeedsHuman.ValueSet(false))
	}
	if s.Ended() {
		updates = append(updates, attrEnding.ValueSet(string(s.Ending)))
	}
	r.told, r.toldWaiting = s, waiting
	return workflow.UpsertTypedSearchAttributes(ctx, updates...)
}

func (r *run) taskID() string {
	if r.State.Task < len(r.Tasks) {
		return r.Tasks[r.State.Task].ID
	}
	return ""
}

// waitingFor names the wait, as the attribute has it.
func (r *run) waitingFor() string {
	if r.Waiting == nil {
		return ""
	}
	return string(r.Waiting.For)
}

func (r *run) next() (slice.Next, error) {
	turn, ok := machine.Due(r.State)
	if !ok {
		return slice.Next{}, fmt.Errorf("slice %s has ended as %s: no step is due", r.id, r.State.Ending)
	}
	n := slice.Next{
		Turn: turn, Waiting: r.Waiting, Folder: r.Workspace, Title: r.spec.Title, Repo: r.spec.Repo, Key: r.Key,
		Base: r.Base, Good: r.Good, Candidate: r.Candidate, Whole: r.Whole, Tasks: r.spec.Tasks, Checks: r.Checks,
		Feedback: slice.Feedback{Checks: red(r.Checks), Findings: r.Findings, Advice: r.Advice, Discarded: r.Discarded},
		Open:     r.Open,
	}
	if !r.State.Restore {
		n.Session = r.Session
	}
	if turn.Task > 0 {
		n.Task = &r.spec.Tasks[turn.Task-1]
	}
	return n, nil
}

func (r *run) status() slice.Status {
	s := slice.Status{
		Slice: r.id, Title: r.spec.Title, Repo: r.spec.Repo, Base: r.Base, Run: r.Run, State: r.State,
		Since: r.since.UnixMilli(), Tasks: r.Tasks, Recent: r.Recent, Host: r.Host.ID, Folder: r.Workspace, Result: r.result,
	}
	s.Waiting, s.Ignored = r.Waiting, r.Ignored
	if turn, ok := machine.Due(r.State); ok {
		s.Due = &turn
	}
	return s
}

// page is the current details: what a person reads in the Web UI.
func (r *run) page() string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n", r.spec.Title)
	if r.result != nil {
		fmt.Fprintf(&b, "**%s**\n\n", headline(*r.result))
	} else if turn, ok := machine.Due(r.State); ok {
		fmt.Fprintf(&b, "**now: %s** since %s\n\n", turn, r.since.UTC().Format("2006-01-02 15:04:05 MST"))
	}
	b.WriteString("| task | criterion | attempts | cost | commit |\n|---|---|---|---|---|\n")
	before, shown, after := r.window()
	if before > 0 {
		fmt.Fprintf(&b, "| … | %d more before | | | |\n", before)
	}
	for _, t := range shown {
		fmt.Fprintf(&b, "| %s | %s | %d | %s | %s |\n", t.ID, cell(t.Criterion), t.Attempts, slice.USD(t.CostMicroUSD), short(t.Commit))
	}
	if after > 0 {
		fmt.Fprintf(&b, "| … | %d more to come | | | |\n", after)
	}
	fmt.Fprintf(&b, "\nspent %s of %s · repository `%s` · base `%s` · run %d\n",
		slice.USD(r.State.SpentMicroUSD), slice.USD(r.State.Rules.CapMicroUSD), r.spec.Repo, short(r.Base), r.Run)
	if len(r.Recent) > 0 {
		b.WriteString("\n| step | ended | took | why |\n|---|---|---|---|\n")
		for _, d := range r.Recent {
			fmt.Fprintf(&b, "| %s | %s | %.1f s | %s |\n", d.Turn, d.Outcome, float64(d.Millis)/1000, cell(d.Why))
		}
	}
	for _, f := range r.Failed {
		fmt.Fprintf(&b, "\n- %s\n", cell(f))
	}
	return b.String()
}

// window returns the tasks around the one in work that the page shows, and how
// many there are before and after them.
func (r *run) window() (before int, shown []slice.TaskStatus, after int) {
	before = max(0, min(r.State.Task-shownTasks/2, len(r.Tasks)-shownTasks))
	shown = first(r.Tasks[before:], shownTasks)
	return before, shown, len(r.Tasks) - before - len(shown)
}

const (
	shownTasks     = 30  // in the page
	shownCriterion = 160 // characters of a criterion
)

// cell makes foreign text safe for a cell of a Markdown table.
func cell(s string) string {
	s = strings.NewReplacer("|", "\\|", "\n", " ", "\r", " ", "<", "&lt;", "`", "'").Replace(s)
	return clip(s, shownCriterion)
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func clip(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

func short(id string) string {
	if len(id) > 10 {
		return id[:10]
	}
	return id
}

func headline(res slice.Result) string {
	what := string(res.Ending)
	if res.Cause != "" {
		what += " (" + string(res.Cause) + ")"
	}
	if res.Why != "" && res.Ending != machine.Delivered {
		what += ": " + clip(oneLine(res.Why), 500)
	}
	return what + " — next: " + res.Next
}

// resultLimit bounds what goes into history: 64 KiB, less what the engine adds.
const resultLimit = 60 << 10

func (r *run) resultOf(ctx workflow.Context, undone []string) slice.Result {
	end, _ := machine.Find(r.State.Ending, r.State.Cause)
	res := slice.Result{
		Slice: r.id, Ending: r.State.Ending, Cause: r.State.Cause, Code: end.Code, Why: clip(r.Why, 2000), Next: end.Next,
		Step: r.State.Step, Tasks: r.Tasks, Checks: r.Checks, Findings: r.Findings, Open: r.Open,
		Branch: r.Branch, Commit: r.Whole, Remote: r.Remote, CostMicroUSD: r.State.SpentMicroUSD,
		Millis: workflow.Now(ctx).Sub(millis(r.Started)).Milliseconds(),
		Ledger: slice.Tail{N: r.Ledger.N, Head: r.Ledger.Head}, Undone: undone, Failed: r.Failed,
	}
	if res.Ending == machine.Delivered {
		res.Checks = nil
	}
	for _, u := range r.Undo {
		if u.What == slice.UndoWorkspace && !r.undoes(u) && r.Workspace != "" {
			res.Kept = append(res.Kept, r.Workspace)
		}
	}
	return fit(res)
}

// fit shortens a result to what history may hold: first the output of checks,
// whose logs are evidence, then the longest lists.
func fit(res slice.Result) slice.Result {
	if size(res) <= resultLimit {
		return res
	}
	res.Checks = append([]slice.CheckResult(nil), res.Checks...)
	for i := range res.Checks {
		res.Checks[i].Summary = clip(res.Checks[i].Summary, 400)
	}
	for _, cut := range []func(){
		func() { res.Checks = first(res.Checks, 10) },
		func() { res.Findings, res.Open = first(res.Findings, 20), first(res.Open, 20) },
		func() { res.Tasks = shorter(res.Tasks) },
		func() { res.Tasks = first(res.Tasks, 200) },
		func() { res.Checks, res.Findings, res.Open = nil, nil, nil },
		func() { res.Tasks = first(res.Tasks, 50) },
	} {
		if size(res) <= resultLimit {
			break
		}
		cut()
	}
	return res
}

func shorter(tasks []slice.TaskStatus) []slice.TaskStatus {
	out := append([]slice.TaskStatus(nil), tasks...)
	for i := range out {
		out[i].Criterion = clip(out[i].Criterion, 80)
	}
	return out
}

func first[T any](list []T, n int) []T {
	if len(list) > n {
		return list[:n]
	}
	return list
}
