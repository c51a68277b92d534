package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"interlock/activities/workspace"
	"interlock/machine"
	"interlock/slice"
	"interlock/spec"
)

func (a *app) runCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "run SLICE.yaml",
		Short: "Take a slice to its end: server if needed, worker, live progress",
		Long: `Run starts the slice of a file, or joins it if it runs already, and follows it
to its end. This process is the worker; with no server named (--address,
TEMPORAL_ADDRESS, a profile), it starts the one that is kept in the home.

The exit code is that of the slice's ending: 0 is delivered. Interrupted, it
exits with 130, and the slice goes on at the next run or wait.`,
		Example: "  interlock run slice.yaml\n  interlock run slice.yaml --output json | jq .commit",
		Args:    oneFile,
		RunE: does(func(ctx context.Context, args []string) error {
			sp, err := a.readSlice(ctx, args[0])
			if err != nil {
				return err
			}
			s, release, err := a.hold(ctx)
			if err != nil {
				return err
			}
			defer release()
			return a.runSlice(ctx, s, sp)
		}),
	}
}

func (a *app) startCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "start SLICE.yaml",
		Short: "Only start a slice; some worker takes it to its end",
		Long: `Start hands a slice to a Temporal server that runs, and returns at once. A worker
(interlock worker, or any interlock run in a home that has the repository) takes
it from there.`,
		Args: oneFile,
		RunE: does(func(ctx context.Context, args []string) error {
			sp, err := a.readSlice(ctx, args[0])
			if err != nil {
				return err
			}
			s, err := a.connect(ctx)
			if err != nil {
				return err
			}
			defer s.Close()
			b, err := a.begin(ctx, s, sp)
			if err != nil {
				return err
			}
			return a.print(b, func(w io.Writer) {
				f := fields{w: w, term: a.out}
				f.add("slice", b.Slice)
				f.add("run id", b.RunID)
				if b.Joined {
					f.add("", "it was there already")
				}
				f.add("Web UI", b.WebUI)
				f.add("follow", "interlock wait "+b.Slice+a.homeFlag())
			})
		}),
	}
}

// readSlice reads and checks a slice's file. What it names is made
// independent of where this process runs.
func (a *app) readSlice(ctx context.Context, file string) (slice.Spec, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return slice.Spec{}, usage("%w", err)
	}
	sp, err := spec.ParseSlice(file, data)
	if err != nil {
		return sp, a.invalid(err)
	}
	if isPath(sp.Repo) && !filepath.IsAbs(sp.Repo) {
		folder, err := filepath.Abs(filepath.Dir(file))
		if err != nil {
			return sp, err
		}
		sp.Repo = filepath.Join(folder, sp.Repo)
	}
	canonical, err := workspace.Canonical(ctx, sp.Repo)
	if err != nil {
		return sp, missing("look at repo in "+file, "%w", err)
	}
	if sp.ID == "" {
		sp.ID = spec.DefaultID(workspace.Key(canonical), sp.Title)
	}
	if err := workspace.CheckSlice(sp.ID); err != nil {
		return sp, usage("%s: %w", file, err)
	}
	return sp, nil
}

// isPath follows git: an address has a scheme, or a colon before its first slash.
func isPath(repo string) bool {
	colon, slash := strings.Index(repo, ":"), strings.Index(repo, "/")
	return colon < 0 || slash >= 0 && slash < colon
}

// specHash is what two starts of one slice must agree on; the record's first
// line has it too.
func specHash(sp slice.Spec) (string, error) {
	b, err := json.Marshal(sp)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

const memoSpec = "spec"

// begun says where a slice runs.
type begun struct {
	Slice string `json:"slice"`
	RunID string `json:"run_id"`
	// Joined says that the slice was there already, with the same file.
	Joined bool   `json:"joined"`
	WebUI  string `json:"web_ui,omitempty"`
	// delivered says that there is nothing left to do.
	delivered bool
}

// begin starts a slice, or joins the one that has the same id and the same
// file. A slice that was delivered is joined too: its end is known.
func (a *app) begin(ctx context.Context, s *session, sp slice.Spec) (begun, error) {
	hash, err := specHash(sp)
	if err != nil {
		return begun{}, err
	}
	b := begun{Slice: sp.ID, WebUI: s.link(sp.ID)}
	before, err := s.describe(ctx, sp.ID, "")
	var unknown *serviceerror.NotFound
	if err != nil && !errors.As(err, &unknown) {
		return b, a.refused(s, err)
	}
	run, err := s.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:                       sp.ID,
		TaskQueue:                slice.Queue,
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		Memo:                     map[string]any{memoSpec: hash},
		TypedSearchAttributes:    temporal.NewSearchAttributes(temporal.NewSearchAttributeKeyKeyword(slice.AttrRepo).ValueSet(sp.Repo)),
		StaticSummary:            clip(plain(sp.Title), 200),
		StaticDetails:            details(sp),
	}, slice.Workflow, slice.Input{Spec: sp})
	if err != nil {
		return b, a.refused(s, err)
	}
	// Of a slice that was delivered, it is the run that delivered it.
	b.RunID = run.GetRunID()
	now, err := s.describe(ctx, b.Slice, b.RunID)
	if err != nil {
		return b, a.refused(s, err)
	}
	b.delivered = now.GetWorkflowExecutionInfo().GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED
	b.Joined = before.GetWorkflowExecutionInfo().GetFirstRunId() == now.GetWorkflowExecutionInfo().GetFirstRunId()
	var known string
	if payload, ok := now.GetWorkflowExecutionInfo().GetMemo().GetFields()[memoSpec]; ok {
		if err := converter.GetDefaultDataConverter().FromPayload(payload, &known); err != nil {
			return b, fmt.Errorf("memo %q of slice %s: %w", memoSpec, b.Slice, err)
		}
	}
	if known != "" && known != hash {
		what := "runs"
		if b.delivered {
			what = "was delivered"
		}
		return b, missing("give this one an id of its own, or look at the other: interlock status "+b.Slice+a.homeFlag(),
			"slice %s %s already, with another content than this file", b.Slice, what)
	}
	return b, nil
}

// refused says what to do about a server that did not take a slice.
func (a *app) refused(s *session, err error) error {
	var invalid *serviceerror.InvalidArgument
	if errors.As(err, &invalid) && strings.Contains(err.Error(), "search attribute") {
		return missing("register them: "+registration(s.namespace), "namespace %q lacks the search attributes of slices: %w", s.namespace, err)
	}
	var none *serviceerror.NamespaceNotFound
	if errors.As(err, &none) {
		return missing("create it: temporal operator namespace create --namespace "+s.namespace, "the server has no namespace %q", s.namespace)
	}
	return err
}

// registration is the command that registers the search attributes.
func registration(namespace string) string {
	b := strings.Builder{}
	fmt.Fprintf(&b, "temporal operator search-attribute create --namespace %s", namespace)
	for _, name := range sortedKeys(slice.Attributes()) {
		fmt.Fprintf(&b, " --name %s --type %s", name, slice.Attributes()[name])
	}
	return b.String()
}

// details is what the Web UI shows of a slice from its first moment.
func details(sp slice.Spec) string {
	b := strings.Builder{}
	fmt.Fprintf(&b, "repository `%s` · base `%s`\n\n", sp.Repo, sp.Base)
	for i, t := range sp.Tasks {
		fmt.Fprintf(&b, "%d. **%s**: %s\n", i+1, t.ID, clip(plain(t.Criterion), 300))
		if i == 49 && len(sp.Tasks) > 50 {
			fmt.Fprintf(&b, "\n… %d more\n", len(sp.Tasks)-50)
			break
		}
	}
	return b.String()
}

// runSlice starts a slice, serves as worker and follows it to its end.
func (a *app) runSlice(ctx context.Context, s *session, sp slice.Spec) error {
	b, err := a.begin(ctx, s, sp)
	if err != nil {
		return err
	}
	a.say("%s  %s", a.err.bold(b.Slice), plain(sp.Title))
	where := "home " + a.home
	if !s.own {
		where = "server " + s.address
	}
	if b.WebUI != "" {
		where += " · " + b.WebUI
	}
	a.say("%s", a.err.dim(where))
	if b.delivered {
		a.say("%s", a.err.dim("it was delivered before"))
		r, err := ending(ctx, s, b.Slice, b.RunID)
		if err != nil {
			return err
		}
		return a.conclude(r, sp.Title)
	}
	if b.Joined {
		a.say("%s", a.err.dim("it was started before; this goes on with it"))
	}
	a.say("")
	r, err := a.serveAndFollow(ctx, s, b.Slice, b.RunID)
	if err != nil {
		return err
	}
	return a.conclude(r, sp.Title)
}

// conclude prints a result and returns its exit code.
func (a *app) conclude(r slice.Result, title string) error {
	if !a.json() {
		a.say("")
	}
	err := a.print(r, func(w io.Writer) {
		summary{result: r, title: title, home: a.home, here: a.here(), term: a.out}.write(w)
	})
	if err != nil {
		return err
	}
	return code(r.Code)
}

// serveAndFollow is the worker of the home while it follows a slice. A worker
// that cannot work ends it.
func (a *app) serveAndFollow(ctx context.Context, s *session, id, runID string) (slice.Result, error) {
	ctx, stop := context.WithCancelCause(ctx)
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := a.work(ctx, s); err != nil {
			stop(missing("", "this process cannot be the worker: %w", err))
		}
	}()
	r, err := a.follow(ctx, s, id, runID)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		var broken *failure
		if errors.As(cause, &broken) {
			err = broken
		}
	}
	stop(nil)
	<-served
	return r, err
}

const (
	pollEvery  = 500 * time.Millisecond
	pollSlowly = 5 * time.Second
	// queryTimeout is how long a worker has to answer; without one, a query
	// hangs.
	queryTimeout = 5 * time.Second
)

// follow shows the progress of a slice until it has ended. It outlives the
// server and the worker: both may come and go.
func (a *app) follow(ctx context.Context, s *session, id, runID string) (slice.Result, error) {
	type end struct {
		result slice.Result
		err    error
	}
	a.following.Store(&id)
	ends := make(chan end, 1)
	go func() {
		r, err := ending(ctx, s, id, runID)
		ends <- end{r, err}
	}()
	p := newProgress(a.stderr, a.err)
	p.endings = func(s slice.Status) []string {
		if s.Due == nil {
			return nil
		}
		return a.endings(id, *s.Due, s.Waiting)
	}
	defer p.clear()
	statuses := make(chan *slice.Status)
	polling, stop := context.WithCancel(ctx)
	defer stop()
	go poll(polling, s, id, statuses)
	for {
		select {
		case status := <-statuses:
			if status == nil {
				p.unanswered()
				continue
			}
			p.show(*status)
		case e := <-ends:
			stop()
			if e.err != nil {
				return e.result, e.err
			}
			a.following.Store(nil)
			last, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			if status, err := query(last, s, id); err == nil {
				p.show(status)
			}
			return e.result, nil
		}
	}
}

// poll sends the status of a slice, or nil if nobody answered, until ctx is done.
func poll(ctx context.Context, s *session, id string, to chan<- *slice.Status) {
	pause := time.Duration(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = pollEvery
		asked, cancel := context.WithTimeout(ctx, queryTimeout)
		status, err := query(asked, s, id)
		cancel()
		answer := &status
		if err != nil {
			answer, pause = nil, min(2*max(pause, pollEvery), pollSlowly)
		}
		select {
		case to <- answer:
		case <-ctx.Done():
			return
		}
	}
}

// query asks the worker of a slice for its status.
func query(ctx context.Context, s *session, id string) (slice.Status, error) {
	var status slice.Status
	value, err := s.QueryWorkflow(ctx, id, "", slice.QueryStatus)
	if err != nil {
		return status, err
	}
	err = value.Get(&status)
	return status, err
}

// ending waits for the end of a slice, across lost connections.
func ending(ctx context.Context, s *session, id, runID string) (slice.Result, error) {
	for {
		var r slice.Result
		err := s.GetWorkflow(ctx, id, runID).Get(ctx, &r)
		if err == nil {
			return r, nil
		}
		if r, ok := resultIn(err); ok {
			return r, nil
		}
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
		if !passing(err) {
			return r, ended(id, err)
		}
		select {
		case <-ctx.Done():
			return r, ctx.Err()
		case <-time.After(pollEvery):
		}
	}
}

// resultIn takes the result out of the failure that every ending but
// delivered is.
func resultIn(err error) (r slice.Result, ok bool) {
	var app *temporal.ApplicationError
	if errors.As(err, &app) && app.HasDetails() {
		return r, app.Details(&r) == nil && r.Ending != ""
	}
	var cancelled *temporal.CanceledError
	if errors.As(err, &cancelled) && cancelled.HasDetails() {
		return r, cancelled.Details(&r) == nil && r.Ending != ""
	}
	return r, false
}

// ended says what it means that a workflow has ended without a result.
func ended(id string, err error) error {
	var unknown *serviceerror.NotFound
	var terminated *temporal.TerminatedError
	var timeout *temporal.TimeoutError
	var cancelled *temporal.CanceledError
	switch {
	case errors.As(err, &unknown):
		return missing("interlock list shows those that there are", "there is no slice %s on this server", id)
	case errors.As(err, &terminated):
		return missing("run it again: its commits so far are kept", "slice %s was terminated on the server: nothing was taken back", id)
	case errors.As(err, &timeout):
		return missing("run it again: its commits so far are kept", "the workflow of slice %s timed out on the server", id)
	case errors.As(err, &cancelled):
		return &failure{code: endCode(machine.Cancelled), err: fmt.Errorf("slice %s was cancelled before it began", id)}
	}
	return fmt.Errorf("slice %s: %w", id, err)
}

func endCode(e machine.Ending) int {
	end, _ := machine.Find(e, "")
	return end.Code
}
