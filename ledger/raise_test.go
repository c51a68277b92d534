package ledger

import (
	"testing"

	"github.com/stretchr/testify/require"

	"interlock/machine"
)

// A raise moves the cap of the record from its line on, and never lowers it.
func TestRaise(t *testing.T) {
	prepared := func() *scribe {
		w := &scribe{}
		w.start(2)
		turn := machine.Turn{Step: machine.Prepare}
		op := Op(id, 1, w.N+1)
		w.add(Line{Kind: Intent, Op: op, Turn: turn})
		w.add(Line{Kind: Done, Op: op, Turn: turn, Outcome: machine.Done, Rules: &policy, Base: sha})
		return w
	}
	w := prepared()
	w.add(Line{Kind: Raise, CapMicroUSD: policy.CapMicroUSD + 1, Why: "by ada"})
	w.add(Line{Kind: Raise, CapMicroUSD: 7, Role: "judge", Why: "by ada"})
	f, err := Fold(w.Pending)
	require.NoError(t, err)
	require.Equal(t, policy.CapMicroUSD+1, f.State.Rules.CapMicroUSD)

	for name, l := range map[string]Line{
		"not more": {Kind: Raise, CapMicroUSD: policy.CapMicroUSD, Why: "by ada"},
		"nothing":  {Kind: Raise, Why: "by ada"},
		"absurd":   {Kind: Raise, CapMicroUSD: MaxCost + 1, Why: "by ada"},
		"nobody":   {Kind: Raise, CapMicroUSD: policy.CapMicroUSD + 1},
		"a step":   {Kind: Raise, CapMicroUSD: policy.CapMicroUSD + 1, Why: "by ada", Op: "x"},
	} {
		w := prepared()
		w.add(l)
		_, err := Fold(w.Pending)
		require.Equal(t, w.N, line(t, err), name)
	}
}
