package workflows

import (
	"fmt"
	"strings"
	"time"

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
		updates = append(updates, attrWaitingFor.ValueSet(waiting), attrNeedsHuman.ValueSet(needsHuman(r.Waiting)))
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
		Feedback: slice.Feedback{Checks: r.redChecks(), Findings: slice.Standing(r.Findings), Advice: r.Advice, Discarded: r.Discarded},
		Open:     r.Open, Tip: r.Tip,
	}
	if !r.State.Restore {
		n.Session = r.session(slice.RoleImplementer)
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
	s.Proposal, s.CI = r.Proposal, r.CI
	s.Costs, s.Caps, s.Handed = r.Costs, r.Roles, r.Handed
	if turn, ok := machine.Due(r.State); ok {
		s.Due = &turn
	}
	return s
}

// page is the current details: what a person reads in the Web UI. Dollars are
// written without their sign, which the UI takes for mathematics.
func (r *run) page() string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n", cell(r.spec.Title))
	turn, due := machine.Due(r.State)
	switch {
	case r.result != nil:
		fmt.Fprintf(&b, "**%s**\n\n", markdown(headline(*r.result)))
		if r.result.Ending == machine.Delivered {
			fmt.Fprintf(&b, "branch `%s` in `%s`, commit `%s`\n\n", r.result.Branch, strings.ReplaceAll(r.result.Remote, "`", "'"), short(r.result.Commit))
		}
		b.WriteString(r.reopenLine())
	case r.Waiting != nil:
		b.WriteString(r.pageOfWait(turn))
	case due:
		fmt.Fprintf(&b, "**now: %s**, since %s\n\n", turn, stamp(r.since))
	}
	if r.State.Rules.DeliverTo != "" {
		b.WriteString(r.way() + "\n\n")
	}
	b.WriteString(r.pageOfProposal())
	b.WriteString("| task | criterion | attempts | USD | commit |\n|---|---|---|---|---|\n")
	before, shown, after := r.window()
	if before > 0 {
		fmt.Fprintf(&b, "| … | %d more before | | | |\n", before)
	}
	for _, t := range shown {
		fmt.Fprintf(&b, "| %s | %s | %d | %s | %s |\n", t.ID, cell(t.Criterion), t.Attempts, dollars(t.CostMicroUSD), short(t.Commit))
	}
	if after > 0 {
		fmt.Fprintf(&b, "| … | %d more to come | | | |\n", after)
	}
	fmt.Fprintf(&b, "\nspent USD %s of %s · repository `%s`",
		dollars(r.State.SpentMicroUSD), dollars(r.State.Rules.CapMicroUSD), strings.ReplaceAll(r.spec.Repo, "`", "'"))
	if r.Base != "" {
		fmt.Fprintf(&b, " · base `%s` · run %d", short(r.Base), r.Run)
	}
	b.WriteString("\n")
	for _, c := range r.Costs {
		fmt.Fprintf(&b, "\n- %s in %s: USD %s, %d calls, briefs of %d bytes", c.Role, c.Step, dollars(c.CostMicroUSD), c.Calls, c.BriefBytes)
	}
	for _, h := range r.Handed {
		fmt.Fprintf(&b, "\n- the fallback of %s is asked in its place%s", markdown(h.Agent), until(h.Until))
	}
	if len(r.Costs)+len(r.Handed) > 0 {
		b.WriteString("\n")
	}
	b.WriteString(pageOfFindings("what the judges found last", r.Findings))
	b.WriteString(pageOfFindings("corrections that stay open", r.Open))
	if len(r.Recent) > 0 {
		b.WriteString("\n| step | ended | took | why |\n|---|---|---|---|\n")
		for i := len(r.Recent) - 1; i >= 0; i-- {
			d := r.Recent[i]
			fmt.Fprintf(&b, "| %s | %s | %.1f s | %s |\n", d.Turn, d.Outcome, float64(d.Millis)/1000, cell(d.Why))
		}
	}
	if r.Ignored.Count > 0 {
		fmt.Fprintf(&b, "\n%d messages were ignored, the last: %s\n", r.Ignored.Count, cell(r.Ignored.Last))
	}
	for _, f := range r.Failed {
		fmt.Fprintf(&b, "\n- %s\n", markdown(f))
	}
	return b.String()
}

// pageOfWait says what is waited for, until when, and the exact commands that
// end the wait.
func (r *run) pageOfWait(turn machine.Turn) string {
	var b strings.Builder
	w := r.Waiting
	fmt.Fprintf(&b, "**%s waits for %s**, since %s", turn, what(*w), stamp(millis(w.Since)))
	if w.Until > 0 {
		fmt.Fprintf(&b, ", %s at %s", then(*w), stamp(millis(w.Until)))
	}
	if w.Asked > 1 || w.Reminded > 0 {
		fmt.Fprintf(&b, " (asked %d times, reminded %d times)", w.Asked, w.Reminded)
	}
	b.WriteString("\n\n")
	var lines []string
	by := func(name, input string) {
		lines = append(lines, fmt.Sprintf("temporal workflow update execute --workflow-id %s \\\n      --name %s --input '%s'", r.id, name, input),
			fmt.Sprintf("temporal workflow signal --workflow-id %s \\\n      --name %s --input '%s'", r.id, name, input))
	}
	switch w.For {
	case slice.WaitQuota:
		if w.Reset > 0 {
			fmt.Fprintf(&b, "The provider says that the limit ends at %s. ", stamp(millis(w.Reset)))
		}
		b.WriteString("No attempt is spent. If the account is free before:\n\n")
		lines = []string{"interlock quota-renewed " + r.id}
		by(slice.QuotaRenewed, `{"by":"YOUR NAME"}`)
	case slice.WaitQuestion:
		fmt.Fprintf(&b, "Question `%s` of the %s:\n\n> %s\n\nThe same conversation goes on with the answer:\n\n", w.Subject, w.Role, clip(markdown(w.Text), 2000))
		lines = []string{"interlock answer " + r.id + " --text 'ANSWER'"}
		by(slice.Answer, fmt.Sprintf(`{"id":"%s","text":"ANSWER","by":"YOUR NAME"}`, w.Subject))
	case slice.WaitMoney:
		role, input := "", ""
		if w.Role != "" {
			role, input = " --role "+w.Role, fmt.Sprintf(`,"role":"%s"`, w.Role)
		}
		fmt.Fprintf(&b, "%s. It goes on with a cap of at least USD %s:\n\n", markdown(w.Why), dollars(w.NeedMicroUSD))
		lines = []string{fmt.Sprintf("interlock raise %s --usd %s%s", r.id, dollars(w.NeedMicroUSD), role)}
		by(slice.RaiseBudget, fmt.Sprintf(`{"cap_micro_usd":%d%s,"by":"YOUR NAME"}`, w.NeedMicroUSD, input))
	case slice.WaitApproval:
		fmt.Fprintf(&b, "It decides on `%s`. Look at it and decide:\n\n", w.Subject)
		input := fmt.Sprintf(`'{"verdict":"approved","by":"YOUR NAME",
          "subject":"%s"}'`, w.Subject)
		lines = []string{
			"interlock approve " + r.id,
			"interlock reject " + r.id + " --note 'WHY'",
			fmt.Sprintf("temporal workflow update execute --workflow-id %s \\\n      --name %s --input %s", r.id, slice.Decide, input),
			fmt.Sprintf("temporal workflow signal --workflow-id %s \\\n      --name %s --input %s", r.id, slice.Decide, input),
		}
	case slice.WaitCI, slice.WaitForge, slice.WaitUnknown:
		fmt.Fprintf(&b, "%s\n", markdown(w.Why))
	case slice.WaitReport:
		b.WriteString("Whoever does it asks for the brief and reports:\n\n")
		lines = []string{
			"interlock next " + r.id,
			r.reportLine(turn, w.Role),
		}
	}
	for _, l := range lines {
		fmt.Fprintf(&b, "    %s\n", l)
	}
	b.WriteString("\n")
	return b.String()
}

// reportLine is the command that reports the answer of a role.
func (r *run) reportLine(turn machine.Turn, role string) string {
	line := fmt.Sprintf("interlock report %s --step %s", r.id, turn.Step)
	if turn.Task > 0 {
		line += fmt.Sprintf(" --task %d", turn.Task)
	}
	if turn.Step == machine.Judge || turn.Step == machine.JudgeSlice {
		line += " --role " + role
	}
	return line + " \\\n      --file ANSWER.json"
}

// reopenLine is the command that reopens the slice, if it can be.
func (r *run) reopenLine() string {
	end, _ := machine.Find(r.State.Ending, r.State.Cause)
	if end.ReopenAt == "" {
		return ""
	}
	line := "    interlock reopen " + r.id + " --reason 'WHY'"
	switch {
	case end.Changes():
		line += " --file SLICE.yaml"
	case r.State.Ending == machine.AbortedBudget:
		line += " --usd N"
	}
	return line + "\n\n"
}

// pageOfFindings lists findings, the heaviest first, as they are kept.
func pageOfFindings(title string, all []slice.Finding) string {
	if len(all) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s:\n\n", title)
	for _, f := range first(all, pageFindings) {
		where := ""
		if f.File != "" {
			where = " in " + markdown(clip(f.File, 100))
			if f.Line > 0 {
				where += fmt.Sprintf(", line %d", f.Line)
			}
		}
		line := fmt.Sprintf("**%s**%s: %s (%s)", f.Severity, where, cell(f.Claim), markdown(f.Judge))
		if f.Struck != "" {
			line = "~~" + line + "~~ " + cell(f.Struck)
		} else if f.Remark != "" {
			line += " " + cell(f.Remark)
		}
		fmt.Fprintf(&b, "- %s\n", line)
	}
	if more := len(all) - pageFindings; more > 0 {
		fmt.Fprintf(&b, "- %d more\n", more)
	}
	return b.String()
}

// pageFindings bounds the findings of one kind that a page lists.
const pageFindings = 10

// then is what a wait does at its end.
func then(w slice.Wait) string {
	switch w.For {
	case slice.WaitApproval, slice.WaitReport, slice.WaitQuestion:
		return "asks anew"
	case slice.WaitQuota:
		return "goes on by itself"
	case slice.WaitMoney, slice.WaitCI, slice.WaitForge, slice.WaitUnknown:
	}
	return "gives up"
}

// pageOfProposal links the pull request and says what its checks say.
func (r *run) pageOfProposal() string {
	if r.Proposal.Number == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "proposal %s\n\n", link(fmt.Sprintf("#%d", r.Proposal.Number), r.Proposal.URL))
	for _, c := range r.CI {
		fmt.Fprintf(&b, "- %s: %s (%s)\n", cell(c.Name), c.Outcome, cell(c.Why))
	}
	if len(r.CI) > 0 {
		b.WriteString("\n")
	}
	return b.String()
}

// link is a link of Markdown, or the text alone if the address is none of the web's.
func link(text, url string) string {
	if !strings.HasPrefix(url, "https://") && !strings.HasPrefix(url, "http://") || strings.ContainsAny(url, " \t\r\n<>()[]`|\"") {
		return text
	}
	return fmt.Sprintf("[%s](%s)", text, url)
}

func what(w slice.Wait) string {
	switch w.For {
	case slice.WaitReport:
		return "the report of " + w.Role
	case slice.WaitQuota:
		return "the quota of " + w.Role
	case slice.WaitQuestion:
		return "an answer to the " + w.Role
	case slice.WaitMoney:
		return "money"
	case slice.WaitApproval, slice.WaitCI, slice.WaitForge, slice.WaitUnknown:
	}
	return string(w.For)
}

func until(ms int64) string {
	if ms == 0 {
		return ""
	}
	return " until " + stamp(millis(ms))
}

// way shows where in the machine the slice is.
func (r *run) way() string {
	var parts []string
	for _, s := range machine.Path(r.State.Rules) {
		name := string(s)
		if s == r.State.Step {
			name = "**" + name + "**"
		}
		parts = append(parts, name)
	}
	return strings.Join(parts, " → ")
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 MST") }

func dollars(micro int64) string { return strings.TrimPrefix(slice.USD(micro).String(), "$") }

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
func cell(s string) string { return clip(markdown(s), shownCriterion) }

// markdown makes foreign text one line that means nothing to Markdown.
func markdown(s string) string {
	return strings.NewReplacer("|", "\\|", "\n", " ", "\r", " ", "<", "&lt;", "`", "'", "$", "USD ").Replace(s)
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

// refusedNext is what a person does when a reopening was refused.
const refusedNext = "nothing was changed: do what the message says, then reopen it again"

// resultLimit bounds what goes into history: 64 KiB, less what the engine adds.
const resultLimit = 60 << 10

func (r *run) resultOf(ctx workflow.Context, undone []string) slice.Result {
	end, _ := machine.Find(r.State.Ending, r.State.Cause)
	res := slice.Result{
		Slice: r.id, Ending: r.State.Ending, Cause: r.State.Cause, Code: end.Code, Why: clip(r.Why, 2000), Next: end.Next,
		Step: r.State.Step, Tasks: r.Tasks, Checks: r.Checks, Findings: slice.Standing(r.Findings), Open: r.Open,
		Struck: r.Struck, Late: r.Late, Sandbox: r.Sandbox, Branch: r.Branch, Commit: r.Whole, Remote: r.Remote, CostMicroUSD: r.State.SpentMicroUSD, Costs: r.Costs,
		Millis: workflow.Now(ctx).Sub(millis(r.Started)).Milliseconds(),
		Ledger: slice.Tail{N: r.Ledger.N, Head: r.Ledger.Head}, Undone: undone, Failed: r.Failed,
		Proposal: r.Proposal, Merged: r.Merged,
	}
	if res.Ending == machine.Delivered {
		res.Checks = nil
	}
	if r.reopening != nil && r.Workspace == "" {
		res.Next = refusedNext // it still is as its last run left it, and to run it would begin anew
	}
	for _, u := range r.Undo {
		if u.What == slice.UndoWorkspace && !r.undoes(u) && r.Workspace != "" {
			res.Kept = append(res.Kept, r.Workspace)
		}
	}
	if res.Ending != machine.Delivered && r.Good != r.Base && r.Store != "" {
		res.Kept = append(res.Kept, fmt.Sprintf("its commits: git fetch %s %s", r.Store, slice.Ref(r.id, "good")))
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
		func() { res.Struck = first(res.Struck, 10) },
		func() { res.Findings, res.Open = first(res.Findings, 20), first(res.Open, 20) },
		func() { res.Tasks = shorter(res.Tasks) },
		func() { res.Tasks = first(res.Tasks, 200) },
		func() { res.Checks, res.Findings, res.Open, res.Struck = nil, nil, nil, nil },
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
