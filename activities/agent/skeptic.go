package agent

import (
	"fmt"
	"slices"

	"interlock/activities/evidence"
)

// Opinion is what a skeptic thinks of a finding.
type Opinion string

// The opinions.
const (
	Refuted   Opinion = "refuted"
	Stands    Opinion = "stands"
	Uncertain Opinion = "uncertain"
)

// Counted returns the opinion that counts, with the reason for a person. A
// refutation must quote what the candidate has at the line that it names; else
// it is uncertain. files has the file that the answer names, if it is there.
func (a SkepticAnswer) Counted(files Files) (Opinion, string) {
	reason := evidence.Line(a.Reason, maxOpinion)
	if a.Verdict != Refuted {
		return a.Verdict, reason
	}
	shown := evidence.Line(a.File, maxPath)
	content, ok := files[a.File]
	switch {
	case a.File == "" || a.Line == 0 || !says(a.Quote):
		return Uncertain, "it refutes without a quote"
	case !ok:
		return Uncertain, fmt.Sprintf("it refutes with %q, which is not there", shown)
	case !slices.Contains(places(content, a.Quote), a.Line):
		return Uncertain, fmt.Sprintf("it refutes with a quote that is not at %s:%d", shown, a.Line)
	}
	return Refuted, fmt.Sprintf("%s (%s:%d)", reason, shown, a.Line)
}

// maxOpinion bounds the words of a skeptic that a finding carries, in bytes.
const maxOpinion = 400

// Majority reports whether more than half of count skeptics refute, and
// whether that is decided by the opinions so far.
func Majority(opinions []Opinion, count int) (refuted, decided bool) {
	n := 0
	for _, o := range opinions {
		if o == Refuted {
			n++
		}
	}
	left := count - len(opinions)
	refuted = 2*n > count
	return refuted, refuted || 2*(n+left) <= count
}
