// Package saga takes the effects of a slice back. A compensation is declared
// before its effect, as data that survives continue-as-new; it is written so
// that it does nothing where the effect did not happen.
package saga

import (
	"go.temporal.io/sdk/workflow"

	"interlock/slice"
)

// Declare adds compensation u to the stack. The same compensation declared
// again keeps its place and takes the newer arguments.
func Declare(stack []slice.UndoIn, u slice.UndoIn) []slice.UndoIn {
	for i := range stack {
		if stack[i].What == u.What {
			stack[i] = u
			return stack
		}
	}
	return append(stack, u)
}

// Seen is what was observed after one compensation, or why it failed.
type Seen struct {
	What slice.Undone
	Seen string
	Err  error
}

// Compensate runs the compensations of the stack in reverse order, in a
// context that a cancellation of ctx does not reach. One that fails does not
// keep the others from running.
func Compensate(ctx workflow.Context, stack []slice.UndoIn, undo func(workflow.Context, slice.UndoIn) (string, error)) []Seen {
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	var all []Seen
	for i := len(stack) - 1; i >= 0; i-- {
		seen, err := undo(ctx, stack[i])
		all = append(all, Seen{What: stack[i].What, Seen: seen, Err: err})
	}
	return all
}
