package workflows

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/testsuite"

	"interlock/ledger"
	"interlock/slice"
)

// timeless returns the lines of a record without what depends on the time.
func timeless(t *testing.T, lines []string) (all []string) {
	t.Helper()
	record, err := ledger.Parse(lines)
	require.NoError(t, err)
	for _, l := range record {
		l.At, l.Prev = "", ""
		all = append(all, l.String())
	}
	return all
}

// continued are the scenarios that are also run with a new Temporal run after
// every step: those that carry something from step to step.
func continued() (all []scenario) {
	for _, s := range scenarios {
		if !strings.HasPrefix(s.name, "broken-") && s.name != "record-forked" {
			all = append(all, s)
		}
	}
	return all
}

func TestContinueAsNewAfterEveryStepInTheEnvironment(t *testing.T) {
	for _, s := range continued() {
		t.Run(s.name, func(t *testing.T) {
			whole := s.world("continued-").open(t)
			once, often := &recorder{}, &recorder{}
			want := inEnvironment(t, whole, once, nil)
			require.Empty(t, want.carries)
			worlds.Delete(whole.spec.ID)

			w := s.world("continued-").open(t)
			w.host.StepsPerRun = 1
			got := inEnvironment(t, w, often, nil)
			s.agree(t, w, got)
			require.Equal(t, once.count("attributes", ""), often.count("attributes", ""), "a new run tells nothing anew")
			require.Equal(t, timeless(t, whole.lines), timeless(t, w.lines))
			got.Millis, want.Millis, got.Ledger, want.Ledger = 0, 0, slice.Tail{}, slice.Tail{}
			require.Equal(t, want.Result, got.Result)
			require.Equal(t, carried(t, whole.inputs), carried(t, w.inputs), "every activity is told the same")
			if turns, _ := pure(t, max(s.tasks, 1), s.ruled(), s.script); len(turns) > 1 {
				require.Len(t, got.carries, len(turns)-1, "one for each step but the last")
			}
			for _, c := range got.carries {
				var again slice.Carry
				b, err := json.Marshal(c)
				require.NoError(t, err)
				require.NoError(t, json.Unmarshal(b, &again))
				require.Equal(t, c, again)
			}
		})
	}
}

// carried returns inputs without what depends on the time.
func carried(t *testing.T, inputs []any) (all []any) {
	t.Helper()
	for _, in := range inputs {
		b, err := json.Marshal(in)
		require.NoError(t, err)
		var m map[string]any
		require.NoError(t, json.Unmarshal(b, &m))
		delete(m, "lines")
		delete(m, "at")
		delete(m, "ledger")
		all = append(all, m)
	}
	return all
}

func TestContinueAsNewAfterEveryStepOnTheServer(t *testing.T) {
	server := realServer(t)
	for _, s := range scenarios {
		switch s.name {
		case "two-tasks", "vetoes-advice", "unchanged-veto", "corrections-open", "discards", "red-exhausted", "mismatch":
		default:
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			w := s.world("continued-server-").open(t)
			w.host.StepsPerRun = 1
			s.agree(t, w, server.run(t, w))

			once := s.world("continued-server-").inOneRun(t)
			require.Equal(t, timeless(t, once.lines), timeless(t, w.lines))
			last := server.history(t, w.spec.ID, "").Events[0].GetWorkflowExecutionStartedEventAttributes()
			require.NotEmpty(t, last.GetContinuedExecutionRunId())
			require.Equal(t, enumspb.CONTINUE_AS_NEW_INITIATOR_WORKFLOW, last.GetInitiator())
		})
	}
}

// inOneRun runs the slice of w in the test environment, beside a world that is
// open for the same slice.
func (w *world) inOneRun(t *testing.T) *world {
	t.Helper()
	open, _ := worlds.Swap(w.spec.ID, w)
	defer worlds.Store(w.spec.ID, open)
	inEnvironment(t, w, nil, nil)
	return w
}

// The server suggests it when the history is long.
func TestContinueAsNewWhenItIsSuggested(t *testing.T) {
	w := named("suggested", begin+task+whole+"publish").open(t)
	got := inEnvironment(t, w, nil, func(env *testsuite.TestWorkflowEnvironment) { env.SetContinueAsNewSuggested(true) })
	require.Len(t, got.carries, 9)
	w.sound(t)
}

// The same tests again in a process that keeps no workflow in memory: every
// workflow task replays the whole history.
func TestWithoutStickyCache(t *testing.T) {
	if os.Getenv(noCache) != "" {
		t.Skip("this is that process")
	}
	realServer(t)
	program, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), program, "-test.run", "OnTheServer$|Compensation", "-test.count=1")
	cmd.Env = append(os.Environ(), noCache+"=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.NotContains(t, string(out), "no tests to run")
}
