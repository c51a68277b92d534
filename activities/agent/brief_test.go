package agent

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"interlock/slice"
)

// keys lists the paths of a JSON document, arrays by [].
func keys(prefix string, v any, into map[string]bool) {
	switch t := v.(type) {
	case map[string]any:
		for k, w := range t {
			into[prefix+k] = true
			if k != "answer_schema" {
				keys(prefix+k+".", w, into)
			}
		}
	case []any:
		for _, w := range t {
			keys(strings.TrimSuffix(prefix, ".")+"[].", w, into)
		}
	}
}

// The briefs are an interface that other programs are written against: a key
// that appears or vanishes is a decision, and for a judge a matter of who may
// know what.
func TestBriefsHaveExactlyTheseKeys(t *testing.T) {
	task := slice.Task{ID: "i", Criterion: "c", Details: "d"}
	finding := slice.Finding{Judge: "j", Severity: slice.Note, File: "f", Line: 1, Claim: "c", Evidence: "e", Remark: "r"}
	measured := slice.Measured{Name: "n", Outcome: "done", Why: "w", Passed: 1, Failed: 1, Skipped: 1, Failing: []string{"x"}}
	rubric := []slice.Rubric{{Criterion: "c", Weight: 1}}
	const (
		head   = "role slice title rules notice answer_schema "
		tasks  = "tasks tasks[].id tasks[].criterion tasks[].details "
		one    = "task task.id task.criterion task.details "
		found  = "findings findings[].judge findings[].severity findings[].file findings[].line findings[].claim findings[].evidence findings[].remark "
		facts  = "checks checks[].name checks[].outcome checks[].why checks[].passed checks[].failed checks[].skipped checks[].failing "
		rubrik = "rubric rubric[].criterion rubric[].weight "
	)
	for _, c := range []struct {
		brief Brief
		want  string
	}{
		{ImplementBrief{Head: Head{}, Task: task, Attempt: 1, Base: "b", Good: "g", MeasuredBy: []string{"m"}, Protected: []string{"p"}, Frozen: []string{"f"},
			Checks: []slice.CheckResult{{Measured: measured, Summary: "s"}}, Findings: []slice.Finding{finding}, Advice: []string{"a"}, Session: "s"},
			head + one + found + facts + "checks[].summary checks[].millis attempt base good measured_by protected frozen advice session"},
		{JudgeBrief{Task: task, Base: "b", Good: "g", Candidate: "c", Lens: "l", Rubric: rubric, Checks: []slice.Measured{measured}, Diff: "d"},
			head + one + facts + rubrik + "base good candidate lens diff"},
		{JudgeSliceBrief{Tasks: []slice.Task{task}, Base: "b", Commit: "c", Lens: "l", Rubric: rubric, Checks: []slice.Measured{measured}, Diff: "d"},
			head + tasks + facts + rubrik + "base commit lens diff"},
		{SkepticBrief{Tasks: []slice.Task{task}, Base: "b", Candidate: "c", Finding: Dispute{File: "f", Line: 1, Claim: "c", Evidence: "e"}},
			head + tasks + "base candidate finding finding.file finding.line finding.claim finding.evidence"},
		{AdviseBrief{Task: task, Attempt: 1, Base: "b", Candidate: "c", Findings: []slice.Finding{finding}, Diff: "d"},
			head + one + found + "attempt base candidate diff"},
		{ReconcileBrief{Tasks: []slice.Task{task}, Base: "b", Commit: "c", Tip: "t", Conflicts: []string{"x"}, Messages: []string{"m"}, Attempt: 1, Failed: "f", Session: "s"},
			head + tasks + "base commit tip conflicts messages attempt failed session"},
	} {
		doc, err := Encode(c.brief)
		require.NoError(t, err)
		var v any
		require.NoError(t, json.Unmarshal(doc, &v))
		got := map[string]bool{}
		keys("", v, got)
		want := strings.Fields(c.want)
		require.ElementsMatch(t, want, slices.Collect(maps.Keys(got)), "%T", c.brief)
	}
}

func TestBriefsSayWhatIsWanted(t *testing.T) {
	doc, err := Encode(ImplementBrief{Head: Head{Slice: "s", Title: "a <b> & c"}, Protected: []string{"x"}})
	require.NoError(t, err)
	require.Contains(t, string(doc), "a <b> & c", "for people to read")
	var head Head
	require.NoError(t, json.Unmarshal(doc, &head))
	require.Equal(t, Implementer, head.Role)
	require.Equal(t, notice, head.Notice)
	require.JSONEq(t, string(Schema(Implementer)), string(head.AnswerSchema))
	require.Contains(t, strings.Join(head.Rules, "\n"), "globs of protected")
	require.NotContains(t, strings.Join(head.Rules, "\n"), "was not accepted")

	doc, err = Encode(JudgeBrief{})
	require.NoError(t, err)
	var judge JudgeBrief
	require.NoError(t, json.Unmarshal(doc, &judge))
	require.Equal(t, DefaultRubric(), judge.Rubric)
}

func TestReadOnlyRoles(t *testing.T) {
	require.Equal(t, []bool{false, true, true, true, false}, []bool{Implementer.ReadOnly(), Judge.ReadOnly(), Skeptic.ReadOnly(), Advisor.ReadOnly(), Reconciler.ReadOnly()})
}
