package agent

import (
	"encoding/json"
	"strings"

	"interlock/activities/evidence"
	"interlock/slice"
)

// What a brief has left when it is made shorter: bytes of a diff and of the
// output of a check, and numbers of checks, findings and messages.
const (
	shortDiff    = 32 << 10
	shortOutput  = 512
	shortChecks  = 5
	shortList    = 10
	shortDetails = 8 << 10
)

// Begun returns the brief of a call that goes on with a session; an empty one
// begins anew.
func Begun(b Brief, session string) Brief {
	switch b := b.(type) {
	case ImplementBrief:
		b.Session = session
		return b
	case ReconcileBrief:
		b.Session = session
		return b
	}
	return b
}

// Shorter returns a brief without what can be found out in other ways, for a
// program whose model has no room for the whole: what is asked stays.
func Shorter(b Brief) Brief {
	switch b := b.(type) {
	case ImplementBrief:
		b.Checks = shorterChecks(b.Checks)
		b.Findings = b.Findings[:min(len(b.Findings), shortList)]
		b.Task.Details = evidence.Cut(b.Task.Details, shortDetails, shortDetails/2)
		return b
	case JudgeBrief:
		b.Diff = evidence.Cut(b.Diff, shortDiff, shortDiff/2)
		b.Task.Details = evidence.Cut(b.Task.Details, shortDetails, shortDetails/2)
		return b
	case JudgeSliceBrief:
		b.Diff = evidence.Cut(b.Diff, shortDiff, shortDiff/2)
		b.Tasks = append([]slice.Task(nil), b.Tasks...)
		for i := range b.Tasks {
			b.Tasks[i].Details = evidence.Cut(b.Tasks[i].Details, shortOutput, shortOutput/2)
		}
		return b
	case AdviseBrief:
		b.Diff = evidence.Cut(b.Diff, shortDiff, shortDiff/2)
		b.Findings = b.Findings[:min(len(b.Findings), shortList)]
		return b
	case ReconcileBrief:
		b.Messages = b.Messages[:min(len(b.Messages), shortList)]
		return b
	}
	return b
}

func shorterChecks(all []slice.CheckResult) []slice.CheckResult {
	short := append([]slice.CheckResult(nil), all[:min(len(all), shortChecks)]...)
	for i := range short {
		short[i].Summary = evidence.Cut(short[i].Summary, shortOutput, shortOutput/2)
		short[i].Failing = short[i].Failing[:min(len(short[i].Failing), shortList)]
	}
	return short
}

// Asks returns what an implementer's answer asks a person, or nothing.
func Asks(answer json.RawMessage) string {
	var said ImplementAnswer
	if json.Unmarshal(answer, &said) != nil || said.Status != StatusQuestion {
		return ""
	}
	return strings.TrimSpace(said.Question)
}
