package machine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPathLeavesOutWhatPolicyLeavesOut(t *testing.T) {
	require.Equal(t, []Step{Prepare, Baseline, Implement, Check, Judge, Commit, Reconcile, Verify, JudgeSlice, Publish},
		Path(Rules{DeliverTo: ToBranch}))
	require.Equal(t, []Step{Prepare, Baseline, PlanGate, Implement, Check, Judge, Commit, Reconcile, Verify, JudgeSlice,
		E2E, PublishGate, Publish, Propose, AwaitCI, MergeGate, Merge},
		Path(Rules{DeliverTo: ToMerge, PlanGate: true, PublishGate: true, MergeGate: true, E2E: true}))
}
