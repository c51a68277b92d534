package activities

import (
	"testing"

	"github.com/stretchr/testify/require"

	"interlock/slice"
)

func TestTasksOfAReopenedSlice(t *testing.T) {
	task := func(id string) slice.Task { return slice.Task{ID: id, Criterion: "It is " + id + "."} }
	list := func(ids ...string) (all []slice.Task) {
		for _, id := range ids {
			all = append(all, task(id))
		}
		return all
	}
	for name, c := range map[string]struct {
		had, extra, now []slice.Task
		committed       int
		want            []slice.Task
		// unchanged says that the plan is the one that was approved.
		unchanged bool
		why       string
	}{
		"unchanged":                      {had: list("a", "b"), now: list("a", "b"), committed: 1, want: list("a", "b"), unchanged: true},
		"one added":                      {had: list("a"), now: list("a", "b"), committed: 1, want: list("a", "b")},
		"only the added one is given":    {had: list("a"), now: list("b"), committed: 1, want: list("a", "b")},
		"an open one removed":            {had: list("a", "b", "c"), now: list("a", "c"), committed: 1, want: list("a", "c")},
		"the machine's own, open":        {had: list("a"), extra: list("ci"), now: list("a"), committed: 1, want: list("a", "ci"), unchanged: true},
		"the machine's own, committed":   {had: list("a"), extra: list("ci"), now: list("a"), committed: 2, want: list("a", "ci"), unchanged: true},
		"the machine's own comes first":  {had: list("a"), extra: list("ci"), now: list("a", "b"), committed: 1, want: list("a", "ci", "b")},
		"reopened before":                {had: list("a", "ci", "b"), extra: list("ci"), now: list("a", "b"), committed: 3, want: list("a", "ci", "b"), unchanged: true},
		"reopened before, and CI again":  {had: list("a", "ci", "b"), extra: list("ci", "ci-2"), now: list("a", "b"), committed: 4, want: list("a", "ci", "b", "ci-2"), unchanged: true},
		"a committed task is another":    {had: list("a"), now: []slice.Task{{ID: "a", Criterion: "another"}}, committed: 1, why: "task a is committed"},
		"an open task is another":        {had: list("a"), now: []slice.Task{{ID: "a", Criterion: "another"}}, want: []slice.Task{{ID: "a", Criterion: "another"}}},
		"nothing is committed, all open": {had: list("a"), now: list("a"), want: list("a"), unchanged: true},
	} {
		t.Run(name, func(t *testing.T) {
			before, err := hashOf(slice.Spec{Title: "T", Tasks: c.had})
			require.NoError(t, err)
			s := slice.Spec{Title: "T", Tasks: c.now}
			fresh, why := goesOn(&s, c.had, c.extra, c.committed)
			if c.why != "" {
				require.Contains(t, why, c.why)
				return
			}
			require.Empty(t, why)
			require.Equal(t, c.want, s.Tasks)
			require.Equal(t, c.unchanged, fresh == before)
		})
	}
}
