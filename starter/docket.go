package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"interlock/activities/workspace"
	"interlock/machine"
	"interlock/slice"
	"interlock/spec"
)

// docket is what a person is shown at a gate.
type docket struct {
	Slice   string       `json:"slice"`
	Title   string       `json:"title"`
	Step    machine.Step `json:"step"`
	Subject string       `json:"subject"`
	Waiting *slice.Wait  `json:"waiting"`
	Repo    string       `json:"repo"`
	Base    string       `json:"base"`
	CostUSD slice.USD    `json:"cost_usd"`
	CapUSD  slice.USD    `json:"cap_usd"`
	Tasks   []slice.Task `json:"tasks,omitempty"`
	// Spec and Policy are absent if they are on another host.
	Spec   *slice.Spec   `json:"spec,omitempty"`
	Policy *slice.Policy `json:"policy,omitempty"`
	// PolicyFrom says whose policy it is.
	PolicyFrom string `json:"policy_from,omitempty"`
	// Changes, Results, Checks, Findings, Open and Unmeasured belong to a commit.
	Changes    []change            `json:"changes,omitempty"`
	Results    []slice.Done        `json:"results,omitempty"`
	Checks     []slice.CheckResult `json:"checks,omitempty"`
	Findings   []slice.Finding     `json:"findings,omitempty"`
	Open       []slice.Finding     `json:"open,omitempty"`
	Unmeasured []string            `json:"unmeasured,omitempty"`
	// Hidden says what cannot be shown here, and why.
	Hidden string `json:"hidden,omitempty"`
}

// change is what happened to one file.
type change struct {
	Path    string `json:"path"`
	OldPath string `json:"old_path,omitempty"`
	Status  string `json:"status"`
	Added   int    `json:"added"`
	Deleted int    `json:"deleted"`
	Binary  bool   `json:"binary,omitempty"`
}

// docket gathers what waits for a decision.
func (a *app) docket(ctx context.Context, s *session, id string) (docket, error) {
	n, err := ask[slice.Next](ctx, a, s, id, slice.QueryNext)
	if err != nil {
		if over := a.over(ctx, s, id); over != nil {
			err = over
		}
		return docket{}, err
	}
	if n.Waiting == nil || n.Waiting.For != slice.WaitApproval {
		return docket{}, &failure{code: machine.ExitNotDue, err: fmt.Errorf("no gate is open: due is %s", n.Turn), do: "interlock status " + id + a.here()}
	}
	status, err := ask[slice.Status](ctx, a, s, id, slice.QueryStatus)
	if err != nil {
		return docket{}, err
	}
	d := docket{
		Slice: id, Title: n.Title, Step: n.Turn.Step, Subject: n.Waiting.Subject, Waiting: n.Waiting, Repo: n.Repo, Base: n.Base,
		CostUSD: slice.USD(status.State.SpentMicroUSD), CapUSD: slice.USD(status.State.Rules.CapMicroUSD), Tasks: n.Tasks,
	}
	if d.Step != machine.PlanGate {
		d.Checks, d.Findings, d.Open = n.Checks, n.Feedback.Findings, n.Open
		d.Results = looked(status.Recent)
		d.Unmeasured = unmeasured(status.State, n.Checks)
	}
	w, err := a.workshop(ctx, id, n)
	if err != nil {
		d.Hidden = fmt.Sprintf("the policy and the files: %s is worked on by host %s", id, status.Host)
		if !errors.Is(err, errElsewhere) {
			d.Hidden = "the policy and the files: " + err.Error()
		}
		return d, nil
	}
	if d.Step == machine.PlanGate && w.plan != d.Subject {
		return d, &failure{code: exitBroken, err: fmt.Errorf("the plan in %s has hash %s, but what waits is %s: it was changed behind the slice's back", slice.Ref(id, "spec"), w.plan, d.Subject)}
	}
	d.Spec, d.Policy = &w.Spec, &w.Policy
	if d.PolicyFrom, err = w.policyFrom(ctx, n.Base); err != nil {
		return d, err
	}
	if d.Step != machine.PlanGate {
		d.Changes, err = w.changes(ctx, n)
	}
	return d, err
}

// policyFrom says whose policy is in force.
func (w *workshop) policyFrom(ctx context.Context, base string) (string, error) {
	_, err := w.store.File(ctx, base, slice.PolicyFile)
	switch {
	case workspace.KindOf(err) == workspace.NotFound:
		return "the slice alone: the repository has no " + slice.PolicyFile + " at the base", nil
	case err != nil:
		return "", err
	case w.Spec.Policy != nil:
		return slice.PolicyFile + " at the base, tightened by the slice", nil
	}
	return slice.PolicyFile + " at the base", nil
}

// changes is what the slice changes at the base as it is now.
func (w *workshop) changes(ctx context.Context, n slice.Next) ([]change, error) {
	from := n.Tip
	if from == "" {
		from = n.Base
	}
	all, err := w.store.Diff(ctx, from, n.Whole)
	if err != nil {
		return nil, err
	}
	changes := make([]change, len(all))
	for i, c := range all {
		changes[i] = change{Path: c.Path, OldPath: c.OldPath, Status: c.Status, Added: c.Added, Deleted: c.Deleted, Binary: c.Binary}
	}
	return changes, nil
}

// looked are the steps that say what judges and measurements found.
func looked(recent []slice.Done) (out []slice.Done) {
	for _, d := range recent {
		switch d.Turn.Step {
		case machine.Judge, machine.Reconcile, machine.Verify, machine.JudgeSlice, machine.E2E:
			out = append(out, d)
		default:
		}
	}
	return out
}

// unmeasured is what nobody knows about the commit.
func unmeasured(s machine.State, checks []slice.CheckResult) (out []string) {
	if s.E2EUnmeasured {
		out = append(out, "e2e could not be measured, and policy delivers all the same")
	}
	for _, c := range checks {
		if c.Outcome == machine.Unmeasured {
			out = append(out, strings.TrimSuffix(c.Name+": "+c.Why, ": "))
		}
	}
	if !s.Rules.E2E {
		out = append(out, "end to end: policy names no e2e")
	}
	return out
}

func (a *app) writeDocket(w io.Writer, d docket) {
	t := a.out
	what := "plan"
	if d.Step != machine.PlanGate {
		what = "commit"
	}
	fmt.Fprintf(w, "%s  %s\n\n", t.bold(string(d.Step)), plain(d.Title))
	f := fields{w: w, term: t}
	f.add("slice", d.Slice)
	f.add("repo", plain(d.Repo))
	f.add("base", d.Base)
	f.add(what, d.Subject)
	f.add("waits", since(d.Waiting, time.Now()))
	if d.Waiting.Until > 0 {
		f.add("", "asks anew at "+time.UnixMilli(d.Waiting.Until).Format("Jan 2 15:04")+"; silence is never yes")
	}
	d.writeTasks(&f)
	if d.Step != machine.PlanGate {
		d.writeCommit(&f)
	}
	f.add("spent", fmt.Sprintf("%s of at most %s", d.CostUSD, d.CapUSD))
	if d.Policy != nil && d.Step == machine.PlanGate {
		writePolicy(&f, *d.Spec, *d.Policy, d.PolicyFrom)
	}
	if d.Hidden != "" {
		f.add("hidden", t.yellow("not shown here: "+plain(d.Hidden)))
	}
}

func (d docket) writeTasks(f *fields) {
	label := "tasks"
	for i, task := range d.Tasks {
		f.add(label, fmt.Sprintf("%d. %s: %s", i+1, plain(task.ID), plain(task.Criterion)))
		label = ""
		if d.Step != machine.PlanGate {
			continue
		}
		for line := range strings.Lines(strings.TrimSpace(task.Details)) {
			fmt.Fprintf(f.w, "  %s    %s\n", pad("", 8), f.term.dim(plain(line)))
		}
	}
}

// shownChanges is how many files are listed; all of them are in the JSON.
const shownChanges = 100

func (d docket) writeCommit(f *fields) {
	if d.Policy != nil {
		added, deleted := 0, 0
		for _, c := range d.Changes {
			added, deleted = added+c.Added, deleted+c.Deleted
		}
		f.add("diff", fmt.Sprintf("%s, +%d -%d", count(len(d.Changes), "file"), added, deleted))
		for _, c := range first(d.Changes, shownChanges) {
			f.add("", c.String())
		}
		if more := len(d.Changes) - shownChanges; more > 0 {
			f.add("", fmt.Sprintf("… %d more", more))
		}
	}
	label := "results"
	for _, r := range d.Results {
		f.add(label, fmt.Sprintf("%s  %s  %s", r.Turn, f.term.outcome(r.Outcome, string(r.Outcome)), clip(plain(r.Why), 160)))
		label = ""
	}
	label = "checks"
	for _, c := range d.Checks {
		tests := ""
		if c.Passed+c.Failed+c.Skipped > 0 {
			tests = fmt.Sprintf("  %d passed, %d failed, %d skipped", c.Passed, c.Failed, c.Skipped)
		}
		f.add(label, fmt.Sprintf("%s  %s%s  %s", plain(c.Name), f.term.outcome(c.Outcome, string(c.Outcome)), tests, plain(c.Why)))
		label = ""
	}
	s := summary{term: f.term}
	s.findings(f, "finding", d.Findings)
	s.findings(f, "open", d.Open)
	label = "unknown"
	for _, u := range d.Unmeasured {
		f.add(label, f.term.yellow(plain(u)))
		label = ""
	}
}

func (c change) String() string {
	path := plain(c.Path)
	if c.OldPath != "" {
		path = plain(c.OldPath) + " → " + path
	}
	if c.Binary {
		return c.Status + "  binary  " + path
	}
	return fmt.Sprintf("%s  %6s  %s", c.Status, fmt.Sprintf("+%d -%d", c.Added, c.Deleted), path)
}

// writePolicy is a policy in force on one page.
func writePolicy(f *fields, s slice.Spec, p slice.Policy, from string) {
	if strings.HasPrefix(from, "the slice") {
		from = f.term.yellow(from)
	}
	f.add("policy", from)
	label := "agents"
	for _, a := range agents(p) {
		how := "driven from outside"
		if a.Use != slice.AdapterExternal {
			how = clip(plain(a.Run.String()), 120)
		}
		if a.Model != "" {
			how += ", model " + plain(a.Model)
		}
		usd := slice.DefaultCallUSD
		if a.USD != nil {
			usd = *a.USD
		}
		name := a.Role
		if a.Name != "" && a.Name != a.Role {
			name += " " + plain(a.Name)
		}
		f.add(label, fmt.Sprintf("%s: %s (a call: at most %s, %s)", name, how, usd, round(a.Timeout.Or(slice.DefaultCallTimeout))))
		label = ""
	}
	for _, list := range []struct {
		label    string
		commands []slice.Command
	}{{"setup", p.Setup}, {"checks", p.Checks}, {"verify", p.Verify}, {"e2e", p.E2E}} {
		label := list.label
		for _, c := range list.commands {
			f.add(label, fmt.Sprintf("%s: %s", plain(c.Name), clip(plain(c.Run.String()), 160)))
			label = ""
		}
	}
	f.add("protect", plain(strings.Join(append(append([]string(nil), p.Protected...), p.Frozen...), " ")))
	f.add("rubric", rubricLine(p.Rubric))
	f.add("expect", plain(strings.Join(s.ExpectedRed, ", ")))
	f.add("removes", f.term.yellow(plain(strings.Join(s.AllowRemovedTests, ", "))))
	r := spec.Rules(s, p)
	f.add("gates", gatesLine(r))
	f.add("deliver", deliverLine(p, r))
	f.add("budgets", fmt.Sprintf("%s for the slice; retries: checks %d, judge %d, corrections %d, reconcile %d; discards %d",
		slice.USD(r.CapMicroUSD), r.Budgets.Checks, r.Budgets.Judge, r.Budgets.Corrections, r.Budgets.Reconcile, r.Budgets.Discards))
	f.add("env", plain(strings.Join(p.Env, " ")))
	if p.Sandbox != "" {
		f.add("sandbox", string(p.Sandbox))
	}
}

// round writes a duration without the zeros of its smaller units: "10m", "1h".
func round(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func rubricLine(rubric []slice.Rubric) string {
	var parts []string
	for _, r := range rubric {
		part := plain(r.Criterion)
		if r.Weight > 1 {
			part += fmt.Sprintf(" (×%d)", r.Weight)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, " · ")
}

func gatesLine(r machine.Rules) string {
	var gates []string
	for _, g := range []struct {
		on   bool
		name string
	}{{r.PlanGate, "plan"}, {r.PublishGate, "publish"}, {r.MergeGate, "merge"}} {
		if g.on {
			gates = append(gates, g.name)
		}
	}
	return strings.Join(gates, ", ")
}

func deliverLine(p slice.Policy, r machine.Rules) string {
	if r.DeliverTo == machine.ToBranch {
		return "as a local branch of the repository"
	}
	remote := p.Deliver.Remote
	if remote == "" {
		remote = "origin"
	}
	return fmt.Sprintf("%s, at %s", r.DeliverTo, plain(remote))
}
