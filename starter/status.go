package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"

	"interlock/machine"
	"interlock/slice"
)

// seen is a slice as the server knows it, without asking a worker.
type seen struct {
	Slice string `json:"slice"`
	RunID string `json:"run_id"`
	// Workflow is Temporal's word: running, completed, failed, canceled, …
	Workflow   string         `json:"workflow"`
	Repo       string         `json:"repo,omitempty"`
	Step       machine.Step   `json:"step,omitempty"`
	Task       string         `json:"task,omitempty"`
	WaitingFor string         `json:"waiting_for,omitempty"`
	NeedsHuman bool           `json:"needs_human"`
	Ending     machine.Ending `json:"ending,omitempty"`
	CostUSD    float64        `json:"cost_usd"`
	Started    time.Time      `json:"started"`
	Closed     *time.Time     `json:"closed,omitempty"`
}

func seenOf(i *workflowpb.WorkflowExecutionInfo) seen {
	v := seen{
		Slice:    i.GetExecution().GetWorkflowId(),
		RunID:    i.GetExecution().GetRunId(),
		Workflow: strings.ToLower(i.GetStatus().String()),
		Started:  i.GetStartTime().AsTime(),
	}
	if t := i.GetExecutionTime(); t != nil && t.AsTime().Before(v.Started) {
		v.Started = t.AsTime()
	}
	if i.GetCloseTime() != nil {
		closed := i.GetCloseTime().AsTime()
		v.Closed = &closed
	}
	fields := i.GetSearchAttributes().GetIndexedFields()
	decode(fields, slice.AttrRepo, &v.Repo)
	decode(fields, slice.AttrStep, &v.Step)
	decode(fields, slice.AttrTask, &v.Task)
	decode(fields, slice.AttrWaitingFor, &v.WaitingFor)
	decode(fields, slice.AttrNeedsHuman, &v.NeedsHuman)
	decode(fields, slice.AttrEnding, &v.Ending)
	decode(fields, slice.AttrCostUSD, &v.CostUSD)
	return v
}

// decode reads one search attribute; one that is missing or of another type
// leaves v as it is.
func decode(fields map[string]*commonpb.Payload, name string, v any) {
	if p, ok := fields[name]; ok {
		_ = converter.GetDefaultDataConverter().FromPayload(p, v)
	}
}

// report is what `status ID` tells.
type report struct {
	seen
	Title string `json:"title"`
	WebUI string `json:"web_ui,omitempty"`
	// Live is what the worker answers; absent if none does.
	Live   *slice.Status `json:"live,omitempty"`
	Result *slice.Result `json:"result,omitempty"`
}

func (a *app) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "status [ID]",
		Short:             "Where a slice is; without an id, all that run",
		Args:              atMostOneID,
		ValidArgsFunction: a.completeID,
		RunE: does(func(ctx context.Context, args []string) error {
			s, err := a.connect(ctx)
			if err != nil {
				return err
			}
			defer s.Close()
			if len(args) == 0 {
				return a.list(ctx, s, anySlice+" AND ExecutionStatus = 'Running'", 200, "no slice runs; those that ended: interlock list")
			}
			r, err := a.known(ctx, s, args[0])
			if err != nil {
				return err
			}
			return a.print(r, func(w io.Writer) { a.writeReport(w, r) })
		}),
	}
}

func (a *app) listCommand() *cobra.Command {
	limit := 50
	c := &cobra.Command{
		Use:   "list",
		Short: "The slices that the server knows: those that wait for a person, then the newest",
		Args:  nothing,
		RunE: does(func(ctx context.Context, _ []string) error {
			s, err := a.connect(ctx)
			if err != nil {
				return err
			}
			defer s.Close()
			return a.list(ctx, s, anySlice, limit, "no slices")
		}),
	}
	c.Flags().IntVar(&limit, "limit", limit, "at most so many")
	return c
}

// completeID offers the ids of slices to the shell.
func (a *app) completeID(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return a.complete(c, args, anySlice)
}

// completeEnded offers those whose last run has ended without being delivered.
func (a *app) completeEnded(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return a.offer(c, args, anySlice, func(v seen) bool {
		end := slices.ContainsFunc(machine.Ends(), func(e machine.End) bool { return e.Ending == v.Ending && e.ReopenAt != "" })
		return v.Workflow != "running" && end
	})
}

// completeWaiting offers those that wait for a person.
func (a *app) completeWaiting(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return a.complete(c, args, anySlice+" AND "+needsHuman)
}

func (a *app) complete(c *cobra.Command, args []string, query string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return a.offer(c, args, query, func(seen) bool { return true })
}

// offer offers those slices of a query whose newest run fits.
func (a *app) offer(c *cobra.Command, args []string, query string, fits func(seen) bool) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 || a.settle() != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(c.Context(), 2*time.Second)
	defer cancel()
	s, err := a.connect(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	defer s.Close()
	all, err := find(ctx, s, query, 50)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var ids []cobra.Completion
	offered := map[string]bool{}
	for _, v := range all {
		if offered[v.Slice] {
			continue
		}
		offered[v.Slice] = true
		if !fits(v) {
			continue
		}
		ids = append(ids, cobra.CompletionWithDesc(v.Slice, v.state()))
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}

func atMostOneID(c *cobra.Command, args []string) error {
	if len(args) > 1 {
		return &failure{code: exitUsage, err: errors.New("expected the id of one slice, or nothing"), do: c.UseLine()}
	}
	return nil
}

func nothing(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return &failure{code: exitUsage, err: fmt.Errorf("unexpected argument %q", args[0]), do: c.UseLine()}
	}
	return nil
}

// list prints the slices of a query, those first that wait for a person, or
// the sentence none.
func (a *app) list(ctx context.Context, s *session, query string, limit int, none string) error {
	all, err := find(ctx, s, query+" AND "+needsHuman, limit)
	var unregistered *serviceerror.InvalidArgument
	if err != nil && !errors.As(err, &unregistered) {
		return a.refused(s, err)
	}
	rest, err := find(ctx, s, query, limit)
	if err != nil {
		return a.refused(s, err)
	}
	for _, v := range rest {
		if len(all) < limit && !slices.ContainsFunc(all, func(w seen) bool { return w.RunID == v.RunID }) {
			all = append(all, v)
		}
	}
	return a.print(all, func(w io.Writer) {
		if len(all) == 0 {
			a.say("%s", none)
			return
		}
		writeList(w, all, time.Now())
	})
}

const (
	anySlice   = "WorkflowType = 'Slice'"
	needsHuman = slice.AttrNeedsHuman + " = true AND ExecutionStatus = 'Running'"
)

// find returns the slices of a query, the newest first, at most limit of them.
func find(ctx context.Context, s *session, query string, limit int) ([]seen, error) {
	all := []seen{}
	var token []byte
	for len(all) < limit {
		page, err := s.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
			Namespace: s.namespace, Query: query, PageSize: int32(min(limit-len(all), 200)), NextPageToken: token,
		})
		if err != nil {
			return all, err
		}
		for _, e := range page.GetExecutions() {
			if e.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW {
				all = append(all, seenOf(e))
			}
		}
		if token = page.GetNextPageToken(); len(token) == 0 {
			break
		}
	}
	return all, nil
}

func writeList(w io.Writer, all []seen, now time.Time) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SLICE\tSTATE\tTASK\tWAITS FOR\tCOST\tAGE")
	for _, v := range all {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", v.Slice, v.state(), orDash(plain(v.Task)), orDash(v.waits()),
			slice.USD(int64(v.CostUSD*1e6+0.5)), took(now.Sub(v.Started)))
	}
	_ = t.Flush()
}

// state is the word for where a slice is.
func (v seen) state() string {
	switch {
	case v.Workflow != "running" && v.Ending != "":
		return string(v.Ending)
	case v.Workflow != "running":
		return v.Workflow
	case v.Step != "":
		return string(v.Step)
	}
	return "not begun"
}

func (v seen) waits() string {
	if v.WaitingFor != "" {
		return plain(v.WaitingFor)
	}
	if v.NeedsHuman {
		return "a person"
	}
	return ""
}

func orDash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

// known gathers what server and worker know about a slice.
func (a *app) known(ctx context.Context, s *session, id string) (report, error) {
	d, err := s.describe(ctx, id, "")
	if err != nil {
		var unknown *serviceerror.NotFound
		if errors.As(err, &unknown) {
			return report{}, ended(id, err)
		}
		return report{}, a.refused(s, err)
	}
	r := report{seen: seenOf(d.GetWorkflowExecutionInfo()), Title: titleOf(d), WebUI: s.link(id)}
	if r.Workflow == "running" {
		asked, cancel := context.WithTimeout(ctx, queryTimeout)
		defer cancel()
		if status, err := query(asked, s, id); err == nil {
			r.Live = &status
		} else if ctx.Err() != nil {
			return r, ctx.Err()
		}
		return r, nil
	}
	asked, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	if result, err := ending(asked, s, id, r.RunID); err == nil {
		r.Result = &result
	}
	return r, nil
}

// titleOf is the title of a slice as it was started; one that any other client
// started may have none.
func titleOf(d *workflowservice.DescribeWorkflowExecutionResponse) string {
	title := ""
	_ = converter.GetDefaultDataConverter().FromPayload(d.GetExecutionConfig().GetUserMetadata().GetSummary(), &title)
	return title
}

func (a *app) writeReport(w io.Writer, r report) {
	if r.Result != nil {
		summary{result: *r.Result, title: r.Title, home: a.home, here: a.here(), term: a.out}.write(w)
		return
	}
	f := fields{w: w, term: a.out}
	if r.Live == nil {
		f.add("slice", r.Slice)
		f.add("title", plain(r.Title))
		f.add("state", r.state())
		f.add("task", plain(r.Task))
		f.add("waits", r.waits())
		if r.NeedsHuman && r.Workflow == "running" {
			f.add("", "interlock next "+r.Slice+a.here()+" says what ends it")
		}
		f.add("repo", plain(r.Repo))
		f.add("cost", slice.USD(int64(r.CostUSD*1e6+0.5)).String())
		f.add("started", r.Started.Local().Format("2006-01-02 15:04:05"))
		if r.Workflow == "running" {
			f.add("worker", a.out.yellow(fmt.Sprintf("none answered within %s; this is what the server knows", took(queryTimeout))))
			f.add("", "start one with: interlock worker"+a.homeFlag())
		}
		f.add("Web UI", r.WebUI)
		return
	}
	s := r.Live
	fmt.Fprintf(w, "%s  %s\n\n", a.out.bold("running"), plain(s.Title))
	f.add("slice", r.Slice)
	if s.Due != nil {
		f.add("now", fmt.Sprintf("%s, for %s", s.Due, took(time.Since(time.UnixMilli(s.Since)))))
	}
	if s.Waiting != nil && s.Due != nil {
		f.add("waits", strings.TrimPrefix(waits(s.Waiting), "waiting for "))
		f.add("", since(s.Waiting, time.Now()))
		f.add("", clip(plain(s.Waiting.Why), 300))
		f.add("subject", plain(s.Waiting.Subject))
		f.lines("asks", s.Waiting.Text)
		f.list("end it", a.endings(r.Slice, *s.Due, s.Waiting))
	}
	if s.Ignored.Count > 0 {
		f.add("ignored", a.out.yellow(fmt.Sprintf("%s; the last: %s", count(s.Ignored.Count, "message"), plain(s.Ignored.Last))))
	}
	forge(&f, s.Proposal, s.CI)
	f.add("repo", plain(s.Repo))
	f.add("base", short(s.Base))
	(&summary{result: slice.Result{Tasks: s.Tasks}, term: a.out}).tasks(&f)
	f.add("cost", fmt.Sprintf("%s of %s", slice.USD(s.State.SpentMicroUSD), slice.USD(s.State.Rules.CapMicroUSD)))
	f.list("", costs(s.Costs, s.Caps))
	for _, h := range s.Handed {
		f.add("fallback", fmt.Sprintf("that of %s is asked in its place", plain(h.Agent)))
	}
	f.add("host", s.Host)
	f.add("folder", s.Folder)
	f.add("Web UI", r.WebUI)
	if len(s.Recent) == 0 {
		return
	}
	fmt.Fprintln(w)
	p := newProgress(w, terminal{color: a.out.color, width: a.out.width})
	for _, d := range s.Recent {
		p.line(p.step(d, len(s.Tasks)))
	}
}

func (a *app) waitCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "wait ID",
		Short: "Follow a slice to its end; exits with its code",
		Long: `Wait follows a slice that was started before and exits with the code of its
ending. If the slice is on the home's own server, this process keeps that server
alive and is its worker if there is no other, so that a slice whose run was
interrupted goes on.`,
		Args:              oneID,
		ValidArgsFunction: a.completeID,
		RunE: does(func(ctx context.Context, args []string) error {
			s, release, err := a.join(ctx)
			if err != nil {
				return err
			}
			defer release()
			r, title, err := a.waitFor(ctx, s, args[0])
			if err != nil {
				return err
			}
			return a.conclude(r, title)
		}),
	}
}

// join connects to a server that is named, or takes part in the home's own.
func (a *app) join(ctx context.Context) (*session, func(), error) {
	if own, err := a.ownServer(ctx); err != nil {
		return nil, nil, err
	} else if own {
		return a.hold(ctx)
	}
	s, err := a.connect(ctx)
	if err != nil {
		return nil, nil, err
	}
	return s, s.Close, nil
}

// waitFor follows a slice that is there.
func (a *app) waitFor(ctx context.Context, s *session, id string) (slice.Result, string, error) {
	d, err := s.describe(ctx, id, "")
	if err != nil {
		return slice.Result{}, "", ended(id, err)
	}
	info := d.GetWorkflowExecutionInfo()
	title := titleOf(d)
	runID := info.GetExecution().GetRunId()
	if info.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		r, err := ending(ctx, s, id, runID)
		return r, title, err
	}
	a.say("%s  %s\n", a.err.bold(id), plain(title))
	if !s.own {
		r, err := a.follow(ctx, s, id, runID)
		return r, title, err
	}
	r, err := a.serveAndFollow(ctx, s, id, runID)
	return r, title, err
}

func (a *app) cancelCommand() *cobra.Command {
	wait := true
	c := &cobra.Command{
		Use:   "cancel ID",
		Short: "Cancel a slice and take back what it left",
		Long: `Cancel asks a slice to stop, and waits until what it left was taken back. It exits
with 0 if the slice was cancelled; a slice that ended otherwise before gives the
code of that ending, or 8 if it was delivered.`,
		Args:              oneID,
		ValidArgsFunction: a.completeID,
		RunE: does(func(ctx context.Context, args []string) error {
			id := args[0]
			s, release, err := a.join(ctx)
			if err != nil {
				return err
			}
			defer release()
			if err := s.CancelWorkflow(ctx, id, ""); err != nil {
				var unknown *serviceerror.NotFound
				if _, missing := s.describe(ctx, id, ""); missing != nil || !errors.As(err, &unknown) {
					return ended(id, err)
				}
			}
			if !wait {
				return a.print(map[string]string{"slice": id}, func(io.Writer) { a.say("slice %s was asked to stop", id) })
			}
			r, title, err := a.waitFor(ctx, s, id)
			if err != nil {
				return err
			}
			err = a.conclude(r, title)
			switch {
			case r.Ending == machine.Cancelled:
				return nil
			case r.Ending == machine.Delivered:
				return missing("", "slice %s was delivered before it could be cancelled", id)
			}
			return err
		}),
	}
	c.Flags().BoolVar(&wait, "wait", wait, "wait until everything was taken back")
	return c
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
