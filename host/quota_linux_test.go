package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"interlock/slice"
)

// limitedImplementer meets a limit at its first call, goes on with its session
// at the second, and notes what it is told.
const limitedImplementer = `#!/bin/sh
set -eu
brief=$(cat)
date +%s.%N >>CONTROL/calls
printf '%s\n' "$brief" >"CONTROL/brief.$(wc -l <CONTROL/calls)"
if [ ! -e CONTROL/limited ]; then
	echo half >first.txt
	touch CONTROL/limited
	printf '{"limit":{"reset_at":"%s"},"session":"s-1","cost_usd":0.01}\n' "$(date -u -d '+20 seconds' +%Y-%m-%dT%H:%M:%SZ)"
	exit 1
fi
if printf '%s' "$brief" | grep -q -e second.txt; then
	echo right >second.txt
else
	cat first.txt >CONTROL/found
	echo right >first.txt
fi
printf '{"status":"done","session":"s-2","cost_usd":0.02}\n'
`

// A limit of 20 seconds is waited for although the worker is killed in the
// middle and another one comes, and although the server is too.
func TestAQuotaWaitOutlivesTheWorker(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for more than 20 seconds")
	}
	t.Parallel()
	s := newSite(t)
	script := strings.ReplaceAll(limitedImplementer, "CONTROL", s.control)
	require.NoError(t, os.WriteFile(filepath.Join(s.control, "implementer"), []byte(script), 0o700))
	s.start()
	first := s.worker(plan{})
	status := func() (st slice.Status, ok bool) {
		answer, err := s.lane.client.QueryWorkflow(t.Context(), s.id, "", slice.QueryStatus)
		return st, err == nil && answer.Get(&st) == nil
	}
	var waiting slice.Wait
	require.Eventually(t, func() bool {
		st, ok := status()
		if ok && st.Waiting != nil && st.Waiting.For == slice.WaitQuota {
			waiting = *st.Waiting
		}
		return waiting.For != ""
	}, 30*time.Second, 100*time.Millisecond)
	require.Equal(t, "implementer", waiting.Role)
	t.Logf("it waits until %s for a limit that ends at %s", time.UnixMilli(waiting.Until).Format(time.TimeOnly), time.UnixMilli(waiting.Reset).Format(time.TimeOnly))

	require.NoError(t, first.cmd.Process.Kill())
	<-first.ended
	pid, err := serverPID(s.lane.home)
	require.NoError(t, err)
	server, err := os.FindProcess(pid)
	require.NoError(t, err)
	require.NoError(t, server.Kill())
	require.True(t, gone(pid, 5*time.Second))

	all := s.finish(plan{})
	require.Len(t, all, 1)
	require.NoError(t, s.err, "%s", s.log())
	require.Len(t, s.result.Tasks, 2)
	require.Equal(t, []int{1, 1}, []int{s.result.Tasks[0].Attempts, s.result.Tasks[1].Attempts}, "no attempt is spent")
	require.EqualValues(t, 10_000+2*implementCost+3*judgeCost, s.result.CostMicroUSD)

	calls, err := os.ReadFile(filepath.Join(s.control, "calls"))
	require.NoError(t, err)
	require.Equal(t, 3, strings.Count(string(calls), "\n"), "one call that met the limit, none during it, one for each task")
	again, err := os.Stat(filepath.Join(s.control, "brief.2"))
	require.NoError(t, err)
	late := again.ModTime().Sub(time.UnixMilli(waiting.Reset))
	t.Logf("it was asked again %s after the limit had ended", late.Round(time.Millisecond))
	require.GreaterOrEqual(t, late, time.Duration(0))
	require.Less(t, late, 15*time.Second)
	brief, err := os.ReadFile(filepath.Join(s.control, "brief.2"))
	require.NoError(t, err)
	require.Contains(t, string(brief), `"session": "s-1"`, "the same session goes on")
	found, err := os.ReadFile(filepath.Join(s.control, "found"))
	require.NoError(t, err)
	require.Equal(t, "half\n", string(found), "in the same tree")
	all[0].stop()
	s.requireNoProcess()
}
