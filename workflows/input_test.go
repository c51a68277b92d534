package workflows

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"interlock/machine"
	"interlock/slice"
)

// TestInputs starts slices with what any Temporal client can send.
func TestInputs(t *testing.T) {
	for _, row := range []struct{ name, input, why string }{
		{"a number", `7`, "cannot unmarshal number"},
		{"a string", `"fix it"`, "cannot unmarshal string"},
		{"a list", `[{}]`, "cannot unmarshal array"},
		{"tasks of a wrong type", `{"tasks":"all"}`, "Spec.tasks"},
		{"a misspelled key", `{"tittle":"x"}`, `unknown field "tittle"`},
		{"a misspelled key below", `{"tasks":[{"id":"a","criterium":"x"}]}`, `unknown field "criterium"`},
		{"a wrong amount", `{"policy":{"budgets":{"usd":"much"}}}`, "no amount of US dollars"},
		{"a carry", `{"carry":{"state":{"step":"publish"}}}`, "only the run before may hand on"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld("input", 1, machine.Rules{}, "")
			env := environment(w, nil)
			env.ExecuteWorkflow(slice.Workflow, json.RawMessage(row.input))
			require.True(t, env.IsWorkflowCompleted())
			result := outcome(t, slice.Result{}, env.GetWorkflowError())
			require.Equal(t, machine.Invalid, result.Ending)
			require.Contains(t, result.Why, row.why)
		})
	}
}

// TestInputOfAnotherVersion goes on with a state that has more than is known.
func TestInputOfAnotherVersion(t *testing.T) {
	var in slice.Input
	require.NoError(t, json.Unmarshal([]byte(`{"title":"x","carry":{"run":3,"later":true}}`), &in))
	require.Empty(t, in.Wrong)
	require.Equal(t, 3, in.Carry.Run)
}
