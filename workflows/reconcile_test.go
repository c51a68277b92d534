package workflows

import (
	"testing"

	"github.com/stretchr/testify/require"

	"interlock/machine"
	"interlock/slice"
)

func TestReconcileIsToldWhatWasWrong(t *testing.T) {
	w := named("unmerged", begin+task+"reconcile=failed reconcile=discarded reconcile@moved verify judge_slice publish").open(t)
	got := inEnvironment(t, w, nil, nil)
	require.Equal(t, machine.Delivered, got.Ending)
	told := inputsOf[slice.ReconcileIn](w)
	require.Len(t, told, 3)
	for i, want := range []string{"", "reconcile is failed", "reconcile is discarded"} {
		require.Equal(t, want, told[i].Unmerged, "attempt %d", i+1)
		require.Equal(t, i+1, told[i].Attempt)
	}
}
