package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"interlock/machine"
	"interlock/slice"
)

// A message is a decision or a report on its way to a slice.
type message struct {
	slice string
	// name is that of the update and of the signal.
	name string
	// id is the same for the same message, so that one that was taken is
	// answered again and not taken again.
	id      string
	payload any
}

// messageID names a message by what it says.
func messageID(name string, parts ...string) string {
	b, _ := json.Marshal(parts) // strings always have a JSON form
	sum := sha256.Sum256(b)
	return name + "-" + hex.EncodeToString(sum[:16])
}

// delivery is how a message is sent.
type delivery struct {
	signal bool
	within time.Duration
}

func (d *delivery) flags(f *pflag.FlagSet) {
	f.BoolVar(&d.signal, "signal", false, "leave it with the server, which needs no worker; there is no answer")
	f.DurationVar(&d.within, "timeout", 15*time.Second, "how long to wait for the worker's answer")
}

// sent is what `approve`, `reject` and `report` tell.
type sent struct {
	Slice string `json:"slice"`
	// Taken is the answer; absent after a signal, which has none.
	Taken *slice.Taken `json:"taken,omitempty"`
}

// send delivers a message and returns its answer.
func (a *app) send(ctx context.Context, s *session, m message, d delivery) (sent, error) {
	out := sent{Slice: m.slice}
	if d.signal {
		return out, a.undelivered(ctx, s, m, s.SignalWorkflow(ctx, m.slice, "", m.name, m.payload))
	}
	asked, cancel := context.WithTimeout(ctx, d.within)
	defer cancel()
	for {
		var taken slice.Taken
		handle, err := s.UpdateWorkflow(asked, client.UpdateWorkflowOptions{
			WorkflowID: m.slice, UpdateName: m.name, UpdateID: m.id, Args: []any{m.payload},
			WaitForStage: client.WorkflowUpdateStageCompleted,
		})
		if err == nil {
			err = handle.Get(asked, &taken)
		}
		switch {
		case err == nil:
			out.Taken = &taken
			return out, nil
		case ctx.Err() != nil:
			return out, ctx.Err()
		case asked.Err() != nil:
			return out, missing(fmt.Sprintf("start a worker (interlock worker%s) and repeat the command, which is taken once; or add --signal, which waits on the server for a worker", a.here()),
				"no worker answered within %s: whether slice %s will take it is unknown", d.within, m.slice)
		case !passing(err) && !refusedAs(err, slice.ErrDraining):
			return out, a.undelivered(ctx, s, m, err)
		}
		select {
		case <-asked.Done():
		case <-time.After(pollEvery):
		}
	}
}

func refusedAs(err error, kind string) bool {
	var app *temporal.ApplicationError
	return errors.As(err, &app) && app.Type() == kind
}

// undelivered says why a message was not taken.
func (a *app) undelivered(ctx context.Context, s *session, m message, err error) error {
	var app *temporal.ApplicationError
	var unknown *serviceerror.NotFound
	switch {
	case err == nil:
		return nil
	case errors.As(err, &app) && (app.Type() == slice.ErrNotDue || app.Type() == slice.ErrStale):
		return &failure{code: machine.ExitNotDue, err: errors.New(plain(app.Message())), do: "interlock next " + m.slice + a.here() + " says what is due"}
	case errors.As(err, &app) && slices.Contains([]string{slice.ErrBadDecision, slice.ErrBadReport, slice.ErrBadAnswer, slice.ErrBadRaise}, app.Type()):
		return usage("%s", plain(app.Message()))
	case errors.As(err, &unknown):
		if over := a.over(ctx, s, m.slice); over != nil {
			return over
		}
	}
	return ended(m.slice, err)
}

// over is the error of a slice that has ended or never was; nil if it runs.
func (a *app) over(ctx context.Context, s *session, id string) error {
	d, err := s.describe(ctx, id, "")
	if err != nil {
		return ended(id, err)
	}
	info := d.GetWorkflowExecutionInfo()
	if info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return nil
	}
	return &failure{code: machine.ExitNotDue, err: fmt.Errorf("slice %s has ended as %s: no step is due", id, seenOf(info).state())}
}

// ask puts a query to the worker of a slice.
func ask[T any](ctx context.Context, a *app, s *session, id, name string) (answer T, err error) {
	asked, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	value, err := s.QueryWorkflow(asked, id, "", name)
	if err == nil {
		return answer, value.Get(&answer)
	}
	if ctx.Err() != nil {
		return answer, ctx.Err()
	}
	if over := a.over(ctx, s, id); over != nil {
		return answer, over
	}
	return answer, missing("start one with: interlock worker"+a.here(), "no worker answers for slice %s", id)
}
