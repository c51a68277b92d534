package activities

import (
	"context"
	"fmt"
	"strings"

	"interlock/activities/evidence"
	"interlock/activities/forge"
	"interlock/machine"
	"interlock/slice"
)

// awaitCI looks once at what CI says of the commit. Checks that the policy
// does not name do not count, and those that it names must be seen.
func (a *Activities) awaitCI(ctx context.Context, in slice.AwaitCIIn) (slice.AwaitCIOut, error) {
	var out slice.AwaitCIOut
	w, err := a.open(ctx, in.Header)
	if err != nil {
		return out, err
	}
	terms, err := w.terms(ctx)
	if err != nil {
		return out, err
	}
	t, missing, err := a.target(ctx, w, terms.Policy.Deliver)
	names := terms.Policy.Deliver.Checks
	switch {
	case err != nil:
		return out, err
	case missing != "":
		out.Ended = w.ended(machine.Unmeasured, missing)
		return out, nil
	case t.forge == nil:
		out.Ended = w.ended(machine.Done, "a plain git remote has no CI")
		return out, nil
	case names == nil:
		out.Ended = w.ended(machine.Unmeasured, "deliver.checks names nothing that CI must report")
		return out, nil
	}
	p, err := t.forge.Proposal(ctx, in.Proposal.Number)
	if err == nil && p.State != forge.Open {
		// Nothing is measured any more. What it means for the merge is its own to see.
		out.Ended = w.ended(machine.Done, fmt.Sprintf("%s is %s", p.URL, p.State))
		return out, nil
	}
	var seen []forge.Check
	if err == nil {
		seen, err = t.forge.Checks(ctx, in.Commit)
	}
	if err != nil {
		out.Ended, out.Later, err = w.answeredBy(ctx, err)
		if out.Outcome == machine.Failed {
			// That CI cannot be read does not make the code red.
			out.Ended = w.ended(machine.Unmeasured, out.Why)
		}
		return out, err
	}
	verdict := decideCI(names, seen)
	out.Checks = verdict.results
	if verdict.outcome == "" {
		out.Later = slice.Later{For: slice.WaitCI, Why: verdict.why}
		out.Ended = slice.Ended{Ack: w.ack}
		return out, nil
	}
	out.Ended = w.ended(verdict.outcome, verdict.why)
	for i, c := range verdict.red {
		if c == nil {
			continue
		}
		log, err := t.forge.Log(ctx, *c)
		if err != nil {
			out.Ended, out.Later, err = w.answeredBy(ctx, err)
			return out, err
		}
		if err := a.keepLog(&out, i, t.mask.Bytes(log)); err != nil {
			return out, err
		}
	}
	out.Checks = bounded(out.Checks)
	return out, nil
}

// keepLog keeps the log of the check of result i.
func (a *Activities) keepLog(out *slice.AwaitCIOut, i int, log []byte) error {
	if len(log) == 0 {
		return nil
	}
	kept, err := a.evidence.Put(fmt.Sprintf("ci-%d.log", i+1), log)
	if err != nil {
		return err
	}
	out.Checks[i].Log = kept
	out.Checks[i].Summary = evidence.Cut(evidence.Text(string(log)), ciSummary, ciSummary/8)
	out.Evidence = append(out.Evidence, kept)
	return nil
}

// ciSummary bounds what travels of a log of CI; its end tells most.
const ciSummary = 4 << 10

// ciVerdict is what CI says of a commit. The outcome is empty while it runs.
type ciVerdict struct {
	outcome machine.Outcome
	why     string
	// results has one line for each name, and red the check of each that is red.
	results []slice.CheckResult
	red     []*forge.Check
}

// decideCI: the first red check decides, whatever still runs; a check that was
// not seen is waited for; one that ended without measuring makes the whole
// unmeasured once nothing runs any more.
func decideCI(names []string, seen []forge.Check) ciVerdict {
	v := ciVerdict{red: make([]*forge.Check, len(names))}
	var red, waits, unmeasured []string
	for i, name := range names {
		r := slice.CheckResult{Measured: slice.Measured{Name: name}}
		c := find(seen, name)
		switch {
		case c == nil:
			waits = append(waits, name+" was not seen")
			r.Outcome, r.Why = machine.Unmeasured, "not seen"
		case c.Outcome == "":
			waits = append(waits, name+" is "+c.Why)
			r.Outcome, r.Why = machine.Unmeasured, c.Why
		default:
			r.Outcome, r.Why = c.Outcome, c.Why
		}
		if c != nil && c.URL != "" {
			r.Why += ", " + c.URL
		}
		switch r.Outcome {
		case machine.Failed:
			red, v.red[i] = append(red, name+" failed: "+c.URL), c
		case machine.Unmeasured:
			unmeasured = append(unmeasured, name+": "+r.Why)
		default: // green
		}
		v.results = append(v.results, r)
	}
	switch {
	case len(red) > 0:
		v.outcome, v.why = machine.Failed, strings.TrimSuffix(list(red), ": ")
	case len(waits) > 0:
		v.why = list(waits)
	case len(unmeasured) > 0:
		v.outcome, v.why = machine.Unmeasured, list(unmeasured)
	default:
		v.outcome = machine.Done
		if len(names) == 0 {
			v.why = "the policy requires no check"
		}
	}
	return v
}

func find(seen []forge.Check, name string) *forge.Check {
	for i := range seen {
		if seen[i].Name == name {
			return &seen[i]
		}
	}
	return nil
}
