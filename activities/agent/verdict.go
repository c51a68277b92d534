package agent

import (
	"fmt"
	"slices"
	"strings"

	"interlock/activities/evidence"
	"interlock/machine"
	"interlock/slice"
)

const (
	// passMean is the least weighted mean of the scores that passes, in
	// thousandths.
	passMean = 3500
	// maxFindings and maxText bound what a verdict carries, in findings and in
	// bytes of one text; the whole answer is evidence.
	maxFindings = 50
	maxText     = 2000
	maxPath     = 500
)

// Verdict is what the program makes of a judge's answer.
type Verdict struct {
	// Judge is whose it is; empty for that of several.
	Judge   string
	Outcome machine.Outcome // done, corrections, failed or discarded
	// MeanMilli is the weighted mean of the scores in thousandths; 0 if the
	// answer was discarded.
	MeanMilli int
	// Findings are the heaviest first, at most 50.
	Findings []slice.Finding
	// Why is one line for a person.
	Why string
}

// Weigh makes the verdict of the named judge from its answer. An empty rubric
// means DefaultRubric.
//
// An answer that does not score every criterion exactly once is discarded, and
// so is a mean below 3.5 without a finding that stands, which gives nobody
// anything to correct. A mean below 3.5 or a blocking finding fails the work,
// else a correction asks for corrections.
func Weigh(judge string, rubric []slice.Rubric, a JudgeAnswer) Verdict {
	sum, weights, why := total(rubricOr(rubric), a.Scores)
	if why != "" {
		return Verdict{Outcome: machine.Discarded, Why: judge + ": " + why}
	}
	v := Verdict{Judge: judge, MeanMilli: sum * 1000 / weights, Findings: trim(judge, a.Findings)}
	return v.Again()
}

// Again is the verdict with what its findings are now.
func (v Verdict) Again() Verdict {
	count := map[slice.Severity]int{}
	var struck []string
	for _, f := range v.Findings {
		if f.Struck != "" {
			struck = append(struck, f.Struck)
			continue
		}
		count[f.Severity]++
	}
	said := ""
	if n := len(struck); n > 0 {
		said = fmt.Sprintf(", %d struck (%s)", n, strings.Join(struck[:min(n, 2)], "; "))
	}
	switch {
	case v.MeanMilli < passMean && len(struck) == len(v.Findings):
		without := "without any finding"
		if len(struck) > 0 {
			without = "without a finding that stands"
		}
		return Verdict{Judge: v.Judge, Outcome: machine.Discarded, Findings: v.Findings,
			Why: fmt.Sprintf("%s: a mean of %s %s says nothing that could be corrected%s", v.Judge, points(v.MeanMilli), without, said)}
	case v.MeanMilli < passMean, count[slice.Blocking] > 0:
		v.Outcome = machine.Failed
	case count[slice.Correction] > 0:
		v.Outcome = machine.Corrections
	default:
		v.Outcome = machine.Done
	}
	v.Why = fmt.Sprintf("%s: mean %s, %d blocking, %d corrections%s", v.Judge, points(v.MeanMilli), count[slice.Blocking], count[slice.Correction], said)
	return v
}

func points(milli int) string { return fmt.Sprintf("%d.%03d", milli/1000, milli%1000) }

// total adds up the weighted scores, or says why they are no verdict.
func total(rubric []slice.Rubric, scores []Score) (sum, weights int, why string) {
	left := map[string]int{} // weights of the criteria without a score
	all := map[string]bool{}
	for _, r := range rubric {
		left[plain(r.Criterion)] = max(r.Weight, 1)
		all[plain(r.Criterion)] = true
	}
	for _, s := range scores {
		name := plain(s.Criterion)
		weight, ok := left[name]
		shown := evidence.Line(s.Criterion, 200)
		switch {
		case !all[name]:
			return 0, 0, fmt.Sprintf("%q is no criterion of the rubric", shown)
		case !ok:
			return 0, 0, fmt.Sprintf("the criterion %q is scored twice", shown)
		case s.Score < 1 || s.Score > 5:
			return 0, 0, fmt.Sprintf("the criterion %q has the score %d: expected 1 to 5", shown, s.Score)
		}
		delete(left, name)
		sum += weight * s.Score
		weights += weight
	}
	for _, r := range rubric {
		if _, missing := left[plain(r.Criterion)]; missing {
			return 0, 0, fmt.Sprintf("the criterion %q is not scored", r.Criterion)
		}
	}
	return sum, weights, ""
}

// plain lets a judge write a criterion with other spaces or capitals.
func plain(criterion string) string {
	return strings.ToLower(strings.Join(strings.Fields(criterion), " "))
}

var severities = []slice.Severity{slice.Blocking, slice.Correction, slice.Note}

// byWeight puts what decides first, and what is struck last.
func byWeight(a, b slice.Finding) int {
	if (a.Struck != "") != (b.Struck != "") {
		if a.Struck != "" {
			return 1
		}
		return -1
	}
	return slices.Index(severities, a.Severity) - slices.Index(severities, b.Severity)
}

func trim(judge string, findings []slice.Finding) []slice.Finding {
	out := Heaviest(findings)
	for i := range out {
		f := &out[i]
		f.Judge = judge
		f.File = evidence.Line(f.File, maxPath)
		f.Claim = shorten(f.Claim)
		f.Evidence = shorten(f.Evidence)
	}
	return out
}

func shorten(s string) string { return evidence.Cut(evidence.Text(s), maxText, maxText/2) }

// weight orders the outcomes of verdicts, the one that decides first.
var weight = []machine.Outcome{machine.Failed, machine.Discarded, machine.Corrections, machine.Done}

// Combine makes one verdict of several judges': a veto beats everything, an
// answer that was discarded must be asked for again before there is a verdict
// without a veto, and corrections beat a pass. The lowest mean counts, and
// the findings of all are kept. Of no verdicts there is none to trust.
func Combine(verdicts []Verdict) Verdict {
	if len(verdicts) == 0 {
		return Verdict{Outcome: machine.Discarded, Why: "no judge has answered"}
	}
	all := Verdict{Outcome: machine.Done}
	var why []string
	for _, v := range verdicts {
		if slices.Index(weight, v.Outcome) < slices.Index(weight, all.Outcome) {
			all.Outcome = v.Outcome
		}
		if v.MeanMilli > 0 && (all.MeanMilli == 0 || v.MeanMilli < all.MeanMilli) {
			all.MeanMilli = v.MeanMilli
		}
		all.Findings = append(all.Findings, v.Findings...)
		why = append(why, v.Why)
	}
	slices.SortStableFunc(all.Findings, byWeight)
	all.Findings = all.Findings[:min(len(all.Findings), maxFindings)]
	all.Why = strings.Join(why, "; ")
	return all
}
