package agent

import (
	"context"
	"fmt"

	"interlock/activities/evidence"
	"interlock/slice"
)

// External is the adapter of pull mode: somebody outside does the work and
// reports the answer, which comes with the call.
type External struct {
	Evidence *evidence.Store
}

// Call implements Adapter. A report that does not tell its cost is charged the
// reservation; a policy whose external role costs nothing says `usd: 0`.
func (a *External) Call(_ context.Context, c Call) (Answer, error) {
	role, name := c.Brief.Role(), label(c)
	mask := evidence.NewMasker(evidence.Secrets(c.Env)...)
	answer := Answer{CostMicroUSD: Reservation(c.Agent)}
	kept, err := a.Evidence.Masked(mask).Put(fileName(name)+"-report.json", c.Report)
	if err != nil {
		return answer, err
	}
	answer.Evidence = []slice.Evidence{kept}
	said, err := readAnswer(role, c.Report, mask)
	if err != nil {
		return answer, err
	}
	if said.costKnown {
		answer.CostMicroUSD, answer.CostKnown = int64(said.cost), true
	}
	if said.wrong != nil {
		answer.Class = Discarded
		answer.Reason = evidence.Line(fmt.Sprintf("%s: the report does not fit: %v", name, said.wrong), maxReason)
		return answer, nil
	}
	answer.Class, answer.Raw, answer.Session = Answered, said.raw, said.session
	return answer, nil
}
