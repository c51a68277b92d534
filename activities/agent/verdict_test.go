package agent

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"interlock/machine"
	"interlock/slice"
)

func scores(pairs ...any) []Score {
	var out []Score
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, Score{Criterion: pairs[i].(string), Score: pairs[i+1].(int)})
	}
	return out
}

func finding(s slice.Severity) slice.Finding { return slice.Finding{Severity: s, Claim: "c"} }

func TestWeigh(t *testing.T) {
	two := []slice.Rubric{{Criterion: "Does it work"}, {Criterion: "is it tested", Weight: 3}}
	for _, c := range []struct {
		name     string
		scores   []Score
		findings []slice.Finding
		outcome  machine.Outcome
		mean     int
		why      string
	}{
		{"passes", scores("Does it work", 5, "is it tested", 5), nil, machine.Done, 5000, "j: mean 5.000, 0 blocking, 0 corrections"},
		{"just passes", scores("Does it work", 5, "is it tested", 3), nil, machine.Done, 3500, "mean 3.500"},
		{"just fails", scores("Does it work", 4, "is it tested", 3), []slice.Finding{finding(slice.Note)}, machine.Failed, 3250, "mean 3.250"},
		{"weights count", scores("Does it work", 3, "is it tested", 4), nil, machine.Done, 3750, ""},
		{"in other words", scores("does  it WORK ", 5, "is it tested", 5), nil, machine.Done, 5000, ""},
		{"blocking", scores("Does it work", 5, "is it tested", 5), []slice.Finding{finding(slice.Correction), finding(slice.Blocking)}, machine.Failed, 5000, "1 blocking, 1 corrections"},
		{"correction", scores("Does it work", 5, "is it tested", 5), []slice.Finding{finding(slice.Note), finding(slice.Correction)}, machine.Corrections, 5000, ""},
		{"note", scores("Does it work", 5, "is it tested", 5), []slice.Finding{finding(slice.Note)}, machine.Done, 5000, ""},
		{"low without a finding", scores("Does it work", 1, "is it tested", 1), nil, machine.Discarded, 0, "nothing that could be corrected"},
		{"one is missing", scores("Does it work", 5), nil, machine.Discarded, 0, `"is it tested" is not scored`},
		{"one twice", scores("Does it work", 5, "is it tested", 5, "Does it work", 5), nil, machine.Discarded, 0, `"Does it work" is scored twice`},
		{"one too many", scores("Does it work", 5, "is it tested", 5, "is it nice", 5), nil, machine.Discarded, 0, `"is it nice" is no criterion`},
		{"off the scale", scores("Does it work", 50, "is it tested", 5), nil, machine.Discarded, 0, "expected 1 to 5"},
		{"none", nil, nil, machine.Discarded, 0, "is not scored"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := Weigh("j", two, JudgeAnswer{Scores: c.scores, Findings: c.findings})
			require.Equal(t, c.outcome, v.Outcome, v.Why)
			require.Equal(t, c.mean, v.MeanMilli)
			require.Contains(t, v.Why, c.why)
			for _, f := range v.Findings {
				require.Equal(t, "j", f.Judge)
			}
			if c.outcome == machine.Discarded {
				require.Empty(t, v.Findings)
			}
		})
	}
}

func TestWeighBoundsWhatTravels(t *testing.T) {
	var findings []slice.Finding
	for range 200 {
		findings = append(findings, slice.Finding{Severity: slice.Note, Claim: strings.Repeat("x", 100_000), Evidence: "\x1b[31mred\x1b[0m"})
	}
	findings = append(findings, finding(slice.Blocking))
	v := Weigh("j", []slice.Rubric{{Criterion: "c"}}, JudgeAnswer{Scores: scores("c", 5), Findings: findings})
	require.Equal(t, machine.Failed, v.Outcome)
	require.Len(t, v.Findings, maxFindings)
	require.Equal(t, slice.Blocking, v.Findings[0].Severity, "the heaviest are kept")
	require.LessOrEqual(t, len(v.Findings[1].Claim), maxText)
	require.Equal(t, "red", v.Findings[1].Evidence)
}

func TestCombine(t *testing.T) {
	v := func(o machine.Outcome, mean int) Verdict {
		return Verdict{Outcome: o, MeanMilli: mean, Why: string(o), Findings: []slice.Finding{{Claim: string(o), Severity: slice.Note}}}
	}
	pass, fix, veto, bad := v(machine.Done, 5000), v(machine.Corrections, 4000), v(machine.Failed, 3000), Verdict{Outcome: machine.Discarded, Why: "discarded"}
	for _, c := range []struct {
		in      []Verdict
		outcome machine.Outcome
		mean    int
	}{
		{nil, machine.Discarded, 0},
		{[]Verdict{pass, pass}, machine.Done, 5000},
		{[]Verdict{pass, fix}, machine.Corrections, 4000},
		{[]Verdict{fix, veto, pass}, machine.Failed, 3000},
		{[]Verdict{pass, bad}, machine.Discarded, 5000},
		{[]Verdict{bad, fix}, machine.Discarded, 4000},
		{[]Verdict{bad, veto}, machine.Failed, 3000},
		{[]Verdict{bad}, machine.Discarded, 0},
	} {
		got := Combine(c.in)
		require.Equal(t, c.outcome, got.Outcome)
		require.Equal(t, c.mean, got.MeanMilli)
	}
	all := Combine([]Verdict{pass, veto})
	require.Len(t, all.Findings, 2)
	require.Equal(t, "done; failed", all.Why)
}

// The order in which judges are asked changes nothing, and one more judge
// never makes a verdict milder.
func TestCombineIsFair(t *testing.T) {
	verdict := rapid.Custom(func(t *rapid.T) Verdict {
		return Verdict{Outcome: rapid.SampledFrom(weight).Draw(t, "outcome"), MeanMilli: rapid.IntRange(1000, 5000).Draw(t, "mean")}
	})
	rapid.Check(t, func(t *rapid.T) {
		vs := rapid.SliceOfN(verdict, 1, 5).Draw(t, "verdicts")
		mixed := rapid.Permutation(vs).Draw(t, "mixed")
		a, b := Combine(vs), Combine(mixed)
		require.Equal(t, a.Outcome, b.Outcome)
		require.Equal(t, a.MeanMilli, b.MeanMilli)
		if a.Outcome == machine.Done {
			for _, v := range vs {
				require.Equal(t, machine.Done, v.Outcome)
			}
		}
	})
}
