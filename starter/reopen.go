package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"interlock/machine"
	"interlock/slice"
)

func (a *app) reopenCommand() *cobra.Command {
	var reason, file, usd string
	c := &cobra.Command{
		Use:   "reopen ID --reason TEXT",
		Short: "Go on with a slice that has ended without being delivered",
		Long: `Reopen goes on with a slice where its record says: at the step that its ending
names, or, with a changed file, at the plan gate. Only the counter that closed
it starts afresh; what was spent stays spent, and what is committed stays
committed. The reason is kept in the record.

This process is the worker and follows the slice to its end, as run does.`,
		Example: "  interlock reopen fix-typo --reason 'the linter is installed now'\n" +
			"  interlock reopen fix-typo --reason 'one criterion was missing' --file slice.yaml\n" +
			"  interlock reopen fix-typo --reason 'worth it' --usd 40",
		Args:              oneID,
		ValidArgsFunction: a.completeEnded,
		RunE: does(func(ctx context.Context, args []string) error {
			if strings.TrimSpace(reason) == "" {
				return usage("a slice is reopened for a reason: --reason TEXT")
			}
			by := slice.Reopen{Reason: reason, Unchanged: file == ""}
			if usd != "" {
				amount, err := slice.ParseUSD(usd)
				if err != nil || amount == 0 {
					return usage("--usd %q: expected what the slice may spend in all, in US dollars, such as 40", usd)
				}
				by.CapMicroUSD = int64(amount)
			}
			s, release, err := a.hold(ctx)
			if err != nil {
				return err
			}
			defer release()
			return a.reopen(ctx, s, args[0], file, by)
		}),
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for the record (needed)")
	c.Flags().StringVar(&file, "file", "", "a changed slice; without it, the slice is as it was")
	c.Flags().StringVar(&usd, "usd", "", "what the slice may spend in all, all runs together")
	_ = c.MarkFlagFilename("file", "yaml", "yml", "json")
	return c
}

func (a *app) reopen(ctx context.Context, s *session, id, file string, by slice.Reopen) error {
	sp, err := a.specOf(ctx, s, id)
	if err != nil {
		return err
	}
	if file != "" {
		changed, err := a.readSlice(ctx, file)
		if err != nil {
			return err
		}
		if changed.ID != id {
			return usage("%s is slice %s, not %s: give it `id: %s`", file, changed.ID, id, id)
		}
		sp = changed
	}
	hash, err := specHash(sp)
	if err != nil {
		return err
	}
	run, err := s.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:                                       id,
		TaskQueue:                                slice.Queue,
		WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY,
		WorkflowIDConflictPolicy:                 enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		Memo:                                     map[string]any{memoSpec: hash},
		TypedSearchAttributes:                    temporal.NewSearchAttributes(temporal.NewSearchAttributeKeyKeyword(slice.AttrRepo).ValueSet(sp.Repo)),
		StaticSummary:                            clip(plain(sp.Title), 200),
		StaticDetails:                            details(sp),
	}, slice.Workflow, slice.Input{Spec: sp, Reopen: &by})
	if err != nil {
		var there *serviceerror.WorkflowExecutionAlreadyStarted
		if errors.As(err, &there) {
			return a.notReopened(ctx, s, id)
		}
		return a.refused(s, err)
	}
	a.say("%s  %s", a.err.bold(id), plain(sp.Title))
	a.say("%s", a.err.dim("reopened: "+plain(by.Reason)))
	a.say("")
	r, err := a.serveAndFollow(ctx, s, id, run.GetRunID())
	if err != nil {
		return err
	}
	return a.conclude(r, sp.Title)
}

// notReopened says why the server does not begin another run of a slice.
func (a *app) notReopened(ctx context.Context, s *session, id string) error {
	d, err := s.describe(ctx, id, "")
	if err != nil {
		return ended(id, err)
	}
	if d.GetWorkflowExecutionInfo().GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED {
		return missing("look at it: interlock status "+id+a.here(), "slice %s was delivered: only a slice that ended otherwise is reopened", id)
	}
	return missing("follow it: interlock wait "+id+a.here(), "slice %s runs: only a slice that has ended is reopened", id)
}

// reopenLine is the command that reopens a slice which ended so; empty if none
// does.
func reopenLine(r slice.Result, here string) string {
	end, _ := machine.Find(r.Ending, r.Cause)
	if end.ReopenAt == "" {
		return ""
	}
	line := "interlock reopen " + r.Slice + " --reason 'WHY'"
	switch {
	case end.Changes():
		line += " --file SLICE.yaml"
	case end.Ending == machine.AbortedBudget:
		line += " --usd N"
	}
	return line + here
}

// specOf is what a slice was last started with: by the first run of its chain,
// since those that continue it have the tasks that the machine added.
func (a *app) specOf(ctx context.Context, s *session, id string) (slice.Spec, error) {
	var in slice.Input
	d, err := s.describe(ctx, id, "")
	if err == nil {
		history := s.GetWorkflowHistory(ctx, id, d.GetWorkflowExecutionInfo().GetFirstRunId(), false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		if !history.HasNext() {
			return in.Spec, missing("interlock list"+a.here(), "the history of slice %s is gone", id)
		}
		var event *historypb.HistoryEvent
		if event, err = history.Next(); err == nil {
			err = converter.GetDefaultDataConverter().FromPayloads(event.GetWorkflowExecutionStartedEventAttributes().GetInput(), &in)
			return in.Spec, err
		}
	}
	var none *serviceerror.NotFound
	if errors.As(err, &none) {
		return in.Spec, missing("interlock list"+a.here()+" shows those that there are", "there is no slice %s on this server", id)
	}
	return in.Spec, a.refused(s, err)
}
