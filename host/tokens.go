package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
)

// tokens keeps the task token of the activity that each workflow runs here, so
// that a worker that starts after a kill can give the activity back at once
// instead of waiting for its heartbeat timeout. A token is kept past the end
// of its activity, because the kill may fall between the end and the answer;
// giving back an activity that is over does nothing.
type tokens struct {
	interceptor.WorkerInterceptorBase
	dir       string
	namespace string
}

type token struct {
	Workflow string `json:"workflow"`
	Activity string `json:"activity"`
	Token    []byte `json:"token"`
}

// InterceptActivity is called by the SDK for each worker.
func (t *tokens) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	in := &keepToken{tokens: t}
	in.Next = next
	return in
}

type keepToken struct {
	interceptor.ActivityInboundInterceptorBase
	tokens *tokens
}

func (k *keepToken) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	info := activity.GetInfo(ctx)
	err := k.tokens.keep(token{Workflow: info.WorkflowExecution.ID, Activity: info.ActivityType.Name, Token: info.TaskToken})
	if err != nil {
		activity.GetLogger(ctx).Warn("the task token could not be kept: recovery after a kill will take a heartbeat timeout", "error", err)
	}
	return k.Next.ExecuteActivity(ctx, in)
}

func (t *tokens) keep(tok token) error {
	if err := os.MkdirAll(t.dir, 0o700); err != nil {
		return err
	}
	b, err := json.Marshal(tok)
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(tok.Workflow))
	path := filepath.Join(t.dir, hex.EncodeToString(sum[:8]))
	tmp, err := os.CreateTemp(t.dir, ".new-*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(b)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
	}
	return err
}

// fail gives back every activity that an earlier worker of the home had in
// hand. The caller holds the home's lock, so that nobody works on them.
func (t *tokens) fail(ctx context.Context, c client.Client, log *slog.Logger) error {
	entries, err := os.ReadDir(t.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the tokens of an earlier worker: %w", err)
	}
	lost := temporal.NewApplicationErrorWithOptions("the worker was killed", "WorkerLost",
		temporal.ApplicationErrorOptions{NextRetryDelay: 50 * time.Millisecond})
	for _, e := range entries {
		path := filepath.Join(t.dir, e.Name())
		b, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("the tokens of an earlier worker: %w", err)
		}
		var tok token
		if json.Unmarshal(b, &tok) == nil && len(tok.Token) > 0 {
			var gone *serviceerror.NotFound
			// First, because giving the activity back may make a workflow task.
			if err := t.unstick(ctx, c, tok.Workflow); err != nil && !errors.As(err, &gone) {
				log.Warn("the server may look for the earlier worker once more, which takes some seconds", "slice", tok.Workflow, "error", err)
			}
			err := c.CompleteActivity(ctx, tok.Token, nil, lost)
			if err == nil {
				log.Info("gave back an activity that an earlier worker had in hand", "slice", tok.Workflow, "activity", tok.Activity)
			} else if !errors.As(err, &gone) {
				log.Warn("an activity could not be given back: it goes on after its heartbeat timeout", "slice", tok.Workflow, "activity", tok.Activity, "error", err)
			}
		}
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("the tokens of an earlier worker: %w", err)
		}
	}
	return nil
}

// unstick tells the server that the worker which has the workflow in its cache
// is gone, so that the next workflow task is not kept for it.
func (t *tokens) unstick(ctx context.Context, c client.Client, workflow string) error {
	_, err := c.WorkflowService().ResetStickyTaskQueue(ctx, &workflowservice.ResetStickyTaskQueueRequest{
		Namespace: t.namespace,
		Execution: &common.WorkflowExecution{WorkflowId: workflow},
	})
	return err
}
