package host

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// everyGitCall makes the tests kill the worker at every git call of every
// activity, which takes many minutes.
const everyGitCall = "HOST_TEST_EVERY_GIT_CALL"

func TestUndisturbed(t *testing.T) {
	s := newSite(t)
	s.start()
	all := s.finish(plan{Count: true})
	require.Len(t, all, 1)
	s.requireDelivered(undisturbedCost)
	var seen []string
	for _, e := range s.events() {
		if e.Msg == saysStarts {
			seen = append(seen, e.Activity)
		}
		if e.Msg == saysEnds {
			t.Logf("%s %d: %d git calls", e.Activity, e.N, e.Git)
		}
	}
	require.Equal(t, activitySequence, seen)
	all[0].stop()
	s.requireNoProcess()
}

// hasChild says that an activity runs an agent or a check.
var hasChild = map[string]bool{"baseline": true, "implement": true, "check": true, "judge": true, "verify": true, "judge_slice": true}

// reserve is what a call costs that was cut off.
var reserve = map[string]int64{"implement": implementReserve, "judge": judgeReserve, "judge_slice": judgeReserve}

func TestWorkerKilledInEveryActivity(t *testing.T) {
	calls := gitCalls(t)
	begun := map[string]int{}
	for i, name := range activitySequence {
		begun[name]++
		n := begun[name]
		points := []point{{name, n, atStart, 0}, {name, n, atEnd, 0}}
		if hasChild[name] {
			points = append(points, point{name, n, atMiddle, 0})
		}
		switch {
		case os.Getenv(everyGitCall) != "":
			for call := range calls[i] {
				points = append(points, point{name, n, atMiddle, call + 1})
			}
		case !hasChild[name]:
			points = append(points, point{name, n, atMiddle, (calls[i] + 1) / 2})
		}
		if testing.Short() && name != "implement" && name != "commit" && name != "publish" {
			continue
		}
		for _, p := range points {
			title := fmt.Sprintf("%02d %s %d %s", i+1, name, n, p.At)
			if p.Git > 0 {
				title += fmt.Sprintf(" at git call %d of %d", p.Git, calls[i])
			}
			t.Run(title, func(t *testing.T) {
				t.Parallel()
				numbers.count()
				s := newSite(t)
				s.start()
				all := s.finish(plan{Kill: &p})
				require.Len(t, all, 2, "the worker was not killed, or more than once")
				cost := int64(undisturbedCost)
				if p.At == atMiddle && p.Git == 0 {
					cost += reserve[name]
				}
				if p.Git > 0 && hasChild[name] {
					// Whether the call was made at this git call is not known here.
					if more := s.result.CostMicroUSD - cost; more != 0 {
						require.Equal(t, reserve[name], more)
						cost += more
					}
				}
				s.requireDelivered(cost)
				s.requireRecovered(all[1])
				all[1].stop()
				s.requireNoProcess()
			})
		}
	}
}

// gitCalls returns the number of git calls of each activity of an undisturbed slice.
func gitCalls(t *testing.T) []int {
	t.Helper()
	var calls []int
	require.True(t, t.Run("undisturbed", func(t *testing.T) {
		s := newSite(t)
		s.start()
		s.finish(plan{Count: true})
		for _, e := range s.events() {
			if e.Msg == saysEnds {
				calls = append(calls, e.Git)
			}
		}
		s.requireDelivered(undisturbedCost)
	}))
	require.Len(t, calls, len(activitySequence))
	return calls
}

func TestServerKilledAtEveryWorkflowTask(t *testing.T) {
	for n := 1; n <= len(activitySequence)+1; n++ {
		name := "end"
		if n <= len(activitySequence) {
			name = activitySequence[n-1]
		}
		if testing.Short() && n%5 != 1 {
			continue
		}
		t.Run(fmt.Sprintf("%02d %s", n, name), func(t *testing.T) {
			t.Parallel()
			numbers.count()
			s := newSite(t)
			s.start()
			all := s.finish(plan{KillServer: n})
			require.Len(t, all, 1)
			s.requireServerKilled()
			s.requireDelivered(undisturbedCost)
			all[0].stop()
			s.requireNoProcess()
		})
	}
}

// What an activity has done while there is no server is told when there is one.
func TestServerKilledInAnActivity(t *testing.T) {
	for _, p := range []point{
		{"claim", 1, atEnd, 0},
		{"implement", 1, atStart, 0}, {"implement", 1, atEnd, 0},
		{"judge", 1, atEnd, 0}, {"commit", 1, atEnd, 0},
		{"publish", 1, atStart, 0}, {"publish", 1, atEnd, 0},
		{"conclude", 1, atEnd, 0},
	} {
		if testing.Short() && p.Activity != "publish" {
			continue
		}
		t.Run(fmt.Sprintf("%s %s", p.Activity, p.At), func(t *testing.T) {
			t.Parallel()
			numbers.count()
			s := newSite(t)
			s.start()
			all := s.finish(plan{KillServerAt: &p})
			require.Len(t, all, 1)
			s.requireServerKilled()
			s.requireDelivered(undisturbedCost)
			all[0].stop()
			s.requireNoProcess()
		})
	}
}

func TestServerAndWorkerKilled(t *testing.T) {
	plans := map[string]plan{}
	for _, n := range []int{1, 9, len(activitySequence) + 1} {
		plans[fmt.Sprintf("workflow task %d", n)] = plan{KillServer: n, Both: true}
	}
	for _, p := range []point{{"prepare", 1, atStart, 0}, {"implement", 1, atEnd, 0}, {"commit", 1, atEnd, 0}, {"publish", 1, atEnd, 0}} {
		plans[fmt.Sprintf("%s %s", p.Activity, p.At)] = plan{KillServerAt: &p, Both: true}
	}
	for title, p := range plans {
		if testing.Short() && p.KillServerAt == nil {
			continue
		}
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			numbers.count()
			s := newSite(t)
			s.start()
			all := s.finish(p)
			require.Len(t, all, 2)
			s.requireServerKilled()
			s.requireDelivered(undisturbedCost)
			all[1].stop()
			s.requireNoProcess()
		})
	}
}

// maxServerGap is the longest that nothing may happen after the kill of the
// server: a workflow task that was under way is given up after ten seconds.
const maxServerGap = 15 * time.Second

// requireServerKilled asserts that it was, and that the slice went on soon.
func (s *site) requireServerKilled() {
	s.t.Helper()
	var killed time.Time
	next := s.closedAt
	for _, e := range s.events() {
		if e.Msg == saysKillsServer {
			killed = e.Time
		} else if !killed.IsZero() && e.Msg == saysStarts {
			next = e.Time
			break
		}
	}
	require.NotZero(s.t, killed, "the server was not killed")
	numbers.raise(&numbers.server, next.Sub(killed))
	require.LessOrEqual(s.t, next.Sub(killed), maxServerGap)
}

// The slice is cancelled while it publishes, and the worker is killed when the
// branch is at the remote and nobody knows.
func TestWorkerKilledWhileCompensating(t *testing.T) {
	first := plan{Cancel: &point{"publish", 1, atStart, 0}, Kill: &point{"publish", 1, atEnd, 0}}
	var again []point
	for n := 1; n <= 3; n++ { // the branch, the views, the workspace
		again = append(again, point{"undo", n, atStart, 0}, point{"undo", n, atMiddle, 3}, point{"undo", n, atEnd, 0})
	}
	again = append(again, point{"conclude", 1, atStart, 0}, point{"conclude", 1, atMiddle, 2}, point{"conclude", 1, atEnd, 0})
	for _, p := range again {
		if testing.Short() && p.Activity == "undo" && p.N > 1 {
			continue
		}
		t.Run(fmt.Sprintf("%s %d %s", p.Activity, p.N, p.At), func(t *testing.T) {
			t.Parallel()
			numbers.count()
			s := newSite(t)
			s.start()
			all := s.finish(first, plan{Kill: &p})
			require.Len(t, all, 3)
			s.requireCancelled(undisturbedCost, 3)
			s.requireRecovered(all[2])
			all[2].stop()
			s.requireNoProcess()
		})
	}
}

func TestCancelledWhileAnAgentRuns(t *testing.T) {
	t.Run("worker stays", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		s.block(false)
		s.start()
		w := s.worker(plan{})
		s.awaitBlocked()
		require.NoError(t, s.lane.client.CancelWorkflow(t.Context(), s.id, ""))
		s.await(s.closed, 10*time.Second, "the slice is not cancelled")
		s.requireCancelled(implementReserve, 2)
		w.stop()
	})
	t.Run("worker killed", func(t *testing.T) {
		t.Parallel()
		numbers.count()
		s := newSite(t)
		s.block(true)
		s.start()
		w := s.worker(plan{Cancel: &point{"implement", 1, atStart, 0}})
		s.awaitBlocked()
		require.NoError(t, w.cmd.Process.Kill())
		all := s.finishWith(w)
		require.Len(t, all, 2)
		s.requireCancelled(implementReserve, 2)
		s.requireRecovered(all[1])
		all[1].stop()
	})
}

// A worker that waits for its turn takes over from one that was killed.
func TestSecondWorkerTakesOver(t *testing.T) {
	t.Parallel()
	numbers.count()
	s := newSite(t)
	s.block(true)
	s.start()
	first := s.worker(plan{})
	s.awaitBlocked()
	second := s.worker(plan{Wait: true})
	require.ErrorIs(t, Run(t.Context(), Options{Home: s.home, Client: s.lane.client}), ErrBusy)
	require.NoError(t, first.cmd.Process.Kill())
	killed := time.Now()
	all := s.finishWith(second)
	require.Len(t, all, 1)
	s.requireDelivered(undisturbedCost + implementReserve)
	s.requireRecovered(second)
	for _, e := range s.events() {
		if e.PID == second.cmd.Process.Pid && e.Msg == saysServing {
			numbers.raise(&numbers.takeover, e.Time.Sub(killed))
			require.Less(t, e.Time.Sub(killed), maxGap)
		}
	}
	second.stop()
	s.requireNoProcess()
}

func TestStoppedWhileAnAgentRuns(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		t.Run(fmt.Sprintf("deaf %t", deaf), func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.block(deaf)
			s.start()
			first := s.worker(plan{})
			s.awaitBlocked()
			took := first.stop()
			numbers.raise(&numbers.stop, took)
			require.Less(t, took, stopTimeout+2*time.Second)
			s.requireNoProcess()
			second := s.worker(plan{})
			s.finishWith(second)
			s.requireDelivered(undisturbedCost + implementReserve)
			s.requireRecovered(second)
			second.stop()
		})
	}
}
