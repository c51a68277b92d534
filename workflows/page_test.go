package workflows

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"

	"interlock/machine"
	"interlock/slice"
)

// compareGolden compares text with a file, which -golden writes.
func compareGolden(t *testing.T, name, text string) {
	t.Helper()
	text = regexp.MustCompile(`12:0\d:\d\d`).ReplaceAllString(text, "12:00:00") // the test may be slow
	text = regexp.MustCompile(`\d+\.\d s \|`).ReplaceAllString(text, "0.0 s |")
	file := filepath.Join("testdata", "pages", name)
	if *golden {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), text)
}

// detailsOf returns what the Web UI shows of a slice.
func detailsOf(t *testing.T, env *testsuite.TestWorkflowEnvironment) string {
	t.Helper()
	var m sdkpb.WorkflowMetadata
	answer, err := env.QueryWorkflow("__temporal_workflow_metadata")
	require.NoError(t, err)
	require.NoError(t, answer.Get(&m))
	for _, q := range m.GetDefinition().GetQueryDefinitions() {
		require.NotEmpty(t, q.GetDescription(), q.GetName())
	}
	return m.GetCurrentDetails()
}

// The current details while the second task is advised on, and at the endings.
func TestCurrentDetails(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		at     string // the activity or gate at which it is looked at; "" is the end
	}{
		"waiting.md":   {begin, "plan_gate"},
		"working.md":   {begin + task + "implement check judge=failed implement check=failed implement check judge=failed advise " + task + whole + "publish", string(slice.ActAdvise)},
		"delivered.md": {begin + task + task + whole + "publish", ""},
		"blocked.md":   {begin + task + "implement check=unmeasured", ""},
		"refused.md":   {"claim=failed/invalid", ""},
	} {
		t.Run(name, func(t *testing.T) {
			rules := scenario{}.ruled()
			rules.PlanGate = c.at == "plan_gate"
			w := newWorld("page-"+strings.TrimSuffix(name, ".md"), 2, rules, c.script).open(t)
			w.spec.Tasks[1].Criterion = "a | b\n\nand `c` <script>"
			page := ""
			got := inEnvironment(t, w, nil, func(env *testsuite.TestWorkflowEnvironment) {
				env.RegisterDelayedCallback(func() {
					page = detailsOf(t, env)
					env.CancelWorkflow()
				}, time.Minute)
				env.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, _ converter.EncodedValues) {
					if info.ActivityType.Name == c.at {
						page = detailsOf(t, env)
					}
				})
			})
			if c.at == "" {
				page = detailsOf(t, got.env)
			}
			compareGolden(t, name, page)
		})
	}
}

func TestThePageShowsTheTasksAroundTheOneInWork(t *testing.T) {
	for _, c := range []struct{ tasks, at, before, shown, after int }{
		{1, 0, 0, 1, 0}, {30, 0, 0, 30, 0}, {30, 30, 0, 30, 0}, {31, 0, 0, 30, 1}, {31, 31, 1, 30, 0},
		{1000, 0, 0, 30, 970}, {1000, 500, 485, 30, 485}, {1000, 1000, 970, 30, 0},
	} {
		r := &run{}
		for i := range c.tasks {
			r.Tasks = append(r.Tasks, slice.TaskStatus{ID: fmt.Sprint("t", i)})
		}
		r.State = machine.New(c.tasks, machine.Rules{})
		r.State.Task = c.at
		before, shown, after := r.window()
		require.Equal(t, []int{c.before, c.shown, c.after}, []int{before, len(shown), after}, "%+v", c)
		require.Equal(t, fmt.Sprint("t", c.before), shown[0].ID)
		page := r.page()
		require.Less(t, len(page), 16<<10)
		require.Equal(t, c.after > 0, strings.Contains(page, fmt.Sprintf("%d more to come", c.after)))
	}
}
