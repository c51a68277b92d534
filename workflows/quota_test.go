package workflows

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"
	"pgregory.net/rapid"

	"interlock/ledger"
	"interlock/machine"
	"interlock/slice"
)

var began = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// limitedWorld is one whose implementer meets a limit wherever the script says
// limited; tell fills in what the provider says at the nth time, from 1.
func limitedWorld(t *testing.T, name, script string, quota slice.Quota, tell func(n int, l *slice.Limit)) *world {
	w := newWorld(name, 1, scenario{}.ruled(), script).open(t)
	w.prepared = func(p *slice.PrepareOut) {
		p.Quota = quota
		p.Callers = []slice.Caller{{Name: "implementer", Role: slice.RoleImplementer, Use: "command", ReserveMicroUSD: 10, Fallback: true},
			{Name: "judge", Role: slice.RoleJudge, Use: "command", ReserveMicroUSD: 10}}
	}
	met := 0
	w.shape = func(_ int, in any, e *slice.Ended) {
		role, calls := slice.RoleJudge, slice.Calls{}
		if x, ok := in.(slice.ImplementIn); ok {
			role, calls = slice.RoleImplementer, x.Calls
		}
		e.Calls = []slice.Called{{Role: role, Agent: role, Use: "command", Fallback: len(calls.Fallback) > 0, CostMicroUSD: e.CostMicroUSD, BriefBytes: 1000}}
		if e.Outcome == machine.Limited {
			met++
			e.Limit = &slice.Limit{Agent: role, Fallback: len(calls.Fallback) > 0}
			tell(met, e.Limit)
		}
	}
	return w
}

func after(d time.Duration) int64 { return began.Add(d).UnixMilli() }

// noFallback keeps the tests of waits from handing over.
var noFallback = slice.Duration(30 * 24 * time.Hour)

const limitedOnce = begin + "implement=limited$0 implement check judge commit " + whole + "publish"

// A limit is waited for as long as the provider says, and spends nothing.
func TestALimitIsWaitedFor(t *testing.T) {
	for name, c := range map[string]struct {
		reset  time.Duration
		times  int
		events int
	}{
		"five-hours": {reset: 5 * time.Hour, times: 1},
		// A wait of more than a day asks once a day.
		"seven-days": {reset: 7 * 24 * time.Hour, times: 7},
	} {
		t.Run(name, func(t *testing.T) {
			script := begin + strings.Repeat("implement=limited$0 ", c.times) + "implement check judge commit " + whole + "publish"
			w := limitedWorld(t, name, script, slice.Quota{FallbackAfter: noFallback}, func(_ int, l *slice.Limit) { l.ResetAt = after(c.reset) })
			var waiting slice.Wait
			var page string
			real := time.Now()
			got := inEnvironment(t, w, nil, func(env *testsuite.TestWorkflowEnvironment) {
				env.RegisterDelayedCallback(func() {
					waiting = *statusOf(t, env).Waiting
					page = detailsOf(t, env)
				}, 4*time.Hour)
			})
			require.Less(t, time.Since(real), 10*time.Second)
			w.sound(t)
			require.Equal(t, machine.Delivered, got.Ending)
			took := time.Duration(got.Millis) * time.Millisecond
			require.GreaterOrEqual(t, took, c.reset)
			require.Less(t, took, c.reset+7*5*time.Minute+time.Minute)
			require.Equal(t, slice.WaitQuota, waiting.For)
			require.Equal(t, "implementer", waiting.Role)
			require.Equal(t, after(c.reset), waiting.Reset)
			require.LessOrEqual(t, time.Duration(waiting.Until-began.UnixMilli())*time.Millisecond, min(c.reset, slice.MaxProbe)+6*time.Minute)
			require.Equal(t, 1, got.Tasks[0].Attempts, "no attempt is spent")
			require.Zero(t, got.status.State.Used, "no retry is spent")
			require.False(t, needsHuman(&waiting))
			require.Contains(t, page, "waits for the quota of implementer")
			require.Contains(t, page, "interlock quota-renewed "+name)
			_, f := w.recorded(t)
			require.Equal(t, got.status.State, f.State)
		})
	}
}

// A hundred slices that wait for one account do not wake in one second.
func TestJitterSpreads(t *testing.T) {
	for _, wait := range []time.Duration{time.Second, 20 * time.Second, 5 * time.Hour, 24 * time.Hour} {
		seconds := map[time.Duration]int{}
		most, last := 0, time.Duration(0)
		for i := range 100 {
			j := jitter(fmt.Sprintf("repo.slice-%d", i), 1, 1, wait)
			require.GreaterOrEqual(t, j, time.Second)
			require.Less(t, j, time.Second+5*time.Minute)
			seconds[j.Truncate(time.Second)]++
			most, last = max(most, seconds[j.Truncate(time.Second)]), max(last, j)
		}
		t.Logf("a wait of %s: at most %d of 100 wake in one second, the last after %s", wait, most, last.Round(time.Second))
		require.LessOrEqual(t, most, 40)
		if wait >= time.Hour {
			require.LessOrEqual(t, most, 6)
		}
	}
	require.NotEqual(t, jitter("a", 1, 1, time.Hour), jitter("a", 1, 2, time.Hour))
}

func TestProbeAtIsNeverAtOnceAndNeverFarAway(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.UnixMilli(rapid.Int64Range(0, 4e12).Draw(t, "now"))
		reset := time.Time{}
		if rapid.Bool().Draw(t, "known") {
			reset = time.UnixMilli(rapid.Int64Range(-4e12, 8e12).Draw(t, "reset"))
		}
		n := rapid.IntRange(-1, 100).Draw(t, "probes")
		at := slice.ProbeAt(now, reset, n)
		require.True(t, at.After(now))
		require.LessOrEqual(t, at.Sub(now), slice.MaxProbe)
		if reset.Sub(now) <= 0 || n > 1 && reset.Sub(now) < time.Minute {
			require.GreaterOrEqual(t, at.Sub(now), 15*time.Second)
		}
		if n <= 1 && reset.After(now) && reset.Before(now.Add(slice.MaxProbe)) {
			require.True(t, at.Equal(reset))
		}
	})
}

// A time that cannot be is not believed: it is asked again, less and less
// often, until the policy's patience is over.
func TestNonsenseTimes(t *testing.T) {
	for name, c := range map[string]struct {
		reset  int64
		least  int // calls in eight days
		most   int
		within time.Duration // of the first wait
	}{
		"none":       {0, 300, 420, 30 * time.Second},
		"past":       {after(-time.Hour), 300, 420, 30 * time.Second},
		"ages-past":  {1, 300, 420, 30 * time.Second},
		"one-year":   {after(365 * 24 * time.Hour), 7, 9, 25 * time.Hour},
		"year-9999":  {time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli(), 7, 9, 25 * time.Hour},
		"before-all": {-1 << 60, 300, 420, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			script := begin + strings.Repeat("implement=limited$0 ", 500)
			w := limitedWorld(t, "nonsense-"+name, script, slice.Quota{FallbackAfter: noFallback}, func(_ int, l *slice.Limit) { l.ResetAt = c.reset })
			w.host.StepsPerRun = 50
			var first slice.Wait
			got := inEnvironment(t, w, nil, func(env *testsuite.TestWorkflowEnvironment) {
				env.RegisterDelayedCallback(func() {
					if s := statusOf(t, env); first.For == "" && s.Waiting != nil {
						first = *s.Waiting
					}
				}, time.Second)
			})
			require.Equal(t, machine.BlockedCall, got.Ending)
			require.Equal(t, machine.CauseLimit, got.Cause)
			require.Equal(t, 16, got.Code)
			require.Contains(t, got.Why, "quota.max_wait")
			calls := w.shaped
			t.Logf("%d calls in 8 days, the first wait %s", calls, time.Duration(first.Until-first.Since)*time.Millisecond)
			require.GreaterOrEqual(t, calls, c.least)
			require.LessOrEqual(t, calls, c.most)
			require.LessOrEqual(t, time.Duration(first.Until-first.Since)*time.Millisecond, c.within)
			require.Equal(t, 1, got.Tasks[0].Attempts)
		})
	}
}

// A person who knows better ends the wait, through either door.
func TestQuotaRenewed(t *testing.T) {
	for _, door := range []string{"update", "signal"} {
		t.Run(door, func(t *testing.T) {
			w := limitedWorld(t, "renewed-"+door, limitedOnce, slice.Quota{FallbackAfter: noFallback}, func(_ int, l *slice.Limit) { l.ResetAt = after(5 * time.Hour) })
			var early, taken, late answer
			got := inEnvironment(t, w, nil, func(env *testsuite.TestWorkflowEnvironment) {
				env.RegisterDelayedCallback(func() { env.UpdateWorkflow(slice.QuotaRenewed, "early", early.callbacks(), slice.Renewed{}) }, 0)
				env.RegisterDelayedCallback(func() {
					if door == "signal" {
						env.SignalWorkflow(slice.QuotaRenewed, slice.Renewed{By: "ada"})
						return
					}
					env.UpdateWorkflow(slice.QuotaRenewed, "one", taken.callbacks(), slice.Renewed{By: "ada"})
				}, time.Hour)
				env.RegisterDelayedCallback(func() { env.UpdateWorkflow(slice.QuotaRenewed, "late", late.callbacks(), slice.Renewed{}) }, 3*time.Hour)
			})
			w.sound(t)
			require.Equal(t, machine.Delivered, got.Ending)
			require.Less(t, got.Millis, (2 * time.Hour).Milliseconds())
			require.Equal(t, slice.ErrNotDue, kind(early.refused))
			require.NoError(t, taken.refused)
			in := inputsOf[slice.ImplementIn](w)
			require.False(t, in[0].Calls.Renewed)
			require.True(t, in[1].Calls.Renewed)
			require.False(t, inputsOf[slice.JudgeIn](w)[0].Calls.Renewed)
		})
	}
}

func TestCancelDuringAQuotaWait(t *testing.T) {
	w := limitedWorld(t, "cancel-quota", begin+"implement=limited$7", slice.Quota{FallbackAfter: noFallback}, func(_ int, l *slice.Limit) { l.ResetAt = after(5 * time.Hour) })
	got := inEnvironment(t, w, nil, func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(env.CancelWorkflow, time.Hour)
	})
	w.sound(t)
	require.Equal(t, machine.Cancelled, got.Ending)
	require.EqualValues(t, 7, got.CostMicroUSD)
	require.Empty(t, w.held)
	require.Less(t, got.Millis, (2 * time.Hour).Milliseconds())
	_, f := w.recorded(t)
	require.Equal(t, got.status.State, f.State)
}

func TestPolicyThatWaitsForNoQuota(t *testing.T) {
	no := false
	w := limitedWorld(t, "no-wait", begin+"implement=limited$7", slice.Quota{Wait: &no}, func(_ int, l *slice.Limit) { l.ResetAt = after(time.Minute) })
	w.prepared = func(p *slice.PrepareOut) { p.Quota = slice.Quota{Wait: &no} }
	got := inEnvironment(t, w, nil, nil)
	require.Equal(t, machine.BlockedCall, got.Ending)
	require.Equal(t, machine.CauseLimit, got.Cause)
	require.Contains(t, got.Why, "quota.wait")
	require.Contains(t, got.Why, "2026-03-01 12:01:00 UTC")
	require.Less(t, got.Millis, time.Minute.Milliseconds())
	_, f := w.recorded(t)
	require.Equal(t, got.status.State, f.State)
}

func TestMaxWaitEndsTheSlice(t *testing.T) {
	w := limitedWorld(t, "max-wait", begin+"implement=limited$0", slice.Quota{MaxWait: slice.Duration(2 * time.Hour), FallbackAfter: noFallback},
		func(_ int, l *slice.Limit) { l.ResetAt = after(5 * time.Hour) })
	got := inEnvironment(t, w, nil, nil)
	require.Equal(t, 16, got.Code)
	require.Equal(t, machine.CauseLimit, got.Cause)
	require.InDelta(t, (2 * time.Hour).Milliseconds(), got.Millis, float64(time.Minute.Milliseconds()))
}

// The same session goes on in the same tree: after advice, a limit does not
// undo what was done since.
func TestALimitGoesOnWhereItWas(t *testing.T) {
	for _, steps := range []int{0, 1} {
		t.Run(fmt.Sprintf("continued after %d", steps), func(t *testing.T) {
			script := begin + "implement check judge=failed implement check judge=failed advise implement=limited$3 implement check judge commit " + whole + "publish"
			w := limitedWorld(t, fmt.Sprintf("goes-on-%d", steps), script, slice.Quota{FallbackAfter: noFallback}, func(_ int, l *slice.Limit) { l.ResetAt = after(time.Hour) })
			w.host.StepsPerRun = steps
			got := inEnvironment(t, w, nil, nil)
			w.sound(t)
			require.Equal(t, machine.Delivered, got.Ending)
			in := inputsOf[slice.ImplementIn](w)
			require.Len(t, in, 4)
			require.Equal(t, []bool{false, false, true, false}, []bool{in[0].Restore, in[1].Restore, in[2].Restore, in[3].Restore})
			require.Equal(t, in[2].Turn, in[3].Turn, "no attempt is spent")
			require.NotEqual(t, in[2].Op, in[3].Op)
			require.Equal(t, in[2].Feedback, in[3].Feedback)
			_, f := w.recorded(t)
			require.Equal(t, got.status.State, f.State)
		})
	}
}

// A limit that lasts hands the role over, in the same tree with a session of
// its own, and takes it back when the account is free.
func TestFallback(t *testing.T) {
	two := begin + "implement=limited$0 implement check judge=failed implement check judge commit " + whole + "publish"
	t.Run("a reset known to be far", func(t *testing.T) {
		w := limitedWorld(t, "fallback-far", two, slice.Quota{}, func(_ int, l *slice.Limit) { l.ResetAt = after(5 * time.Hour) })
		got := inEnvironment(t, w, nil, nil)
		w.sound(t)
		require.Less(t, got.Millis, time.Minute.Milliseconds())
		in := inputsOf[slice.ImplementIn](w)
		require.Empty(t, in[0].Calls.Fallback)
		require.Equal(t, []string{"implementer"}, in[1].Calls.Fallback)
		require.Equal(t, []string{"implementer"}, in[2].Calls.Fallback, "it goes on until the account is free")
		record, err := ledger.Parse(w.lines)
		require.NoError(t, err)
		whys := ""
		for _, l := range record {
			whys += l.Why + "\n"
		}
		require.Contains(t, whys, "the fallback of implementer (command) was asked")
		require.Equal(t, []slice.Handed{{Agent: "implementer", Until: after(5 * time.Hour)}}, got.status.Handed)
	})
	t.Run("a wait that grows", func(t *testing.T) {
		script := begin + strings.Repeat("implement=limited$0 ", 6) + "implement check judge commit " + whole + "publish"
		w := limitedWorld(t, "fallback-grows", script, slice.Quota{}, func(int, *slice.Limit) {})
		got := inEnvironment(t, w, nil, nil)
		w.sound(t)
		require.InDelta(t, (15 * time.Minute).Milliseconds(), got.Millis, float64((time.Minute).Milliseconds()))
		in := inputsOf[slice.ImplementIn](w)
		require.Empty(t, in[5].Calls.Fallback)
		require.Equal(t, []string{"implementer"}, in[6].Calls.Fallback)
	})
	t.Run("a fallback that is limited too", func(t *testing.T) {
		script := begin + "implement=limited$0 implement=limited$0 implement check judge commit " + whole + "publish"
		w := limitedWorld(t, "fallback-limited", script, slice.Quota{}, func(n int, l *slice.Limit) {
			l.ResetAt = after(map[int]time.Duration{1: 2 * time.Hour, 2: 9 * time.Hour}[n])
		})
		got := inEnvironment(t, w, nil, nil)
		w.sound(t)
		in := inputsOf[slice.ImplementIn](w)
		require.Len(t, in[1].Calls.Fallback, 1)
		require.Empty(t, in[2].Calls.Fallback, "the agent itself is free first")
		require.InDelta(t, (2 * time.Hour).Milliseconds(), got.Millis, float64((6 * time.Minute).Milliseconds()))
		require.Empty(t, got.status.Handed)
	})
	t.Run("no wait at all", func(t *testing.T) {
		no := false
		w := limitedWorld(t, "fallback-no-wait", limitedOnce, slice.Quota{Wait: &no}, func(_ int, l *slice.Limit) { l.ResetAt = after(time.Minute) })
		inEnvironment(t, w, nil, nil)
		w.sound(t)
		require.Len(t, inputsOf[slice.ImplementIn](w)[1].Calls.Fallback, 1)
	})
}

// What the host says of the account is believed within bounds.
func TestTheHostsWordOnAnAccount(t *testing.T) {
	for name, c := range map[string]struct {
		until int64
		want  time.Duration
	}{"soon": {after(10 * time.Minute), 10 * time.Minute}, "a year": {after(365 * 24 * time.Hour), 20 * time.Minute}, "past": {after(-time.Hour), 20 * time.Minute}} {
		w := limitedWorld(t, "host-"+strings.ReplaceAll(name, " ", "-"), limitedOnce, slice.Quota{FallbackAfter: noFallback},
			func(_ int, l *slice.Limit) { l.ResetAt, l.Until, l.Held = after(20*time.Minute), c.until, true })
		got := inEnvironment(t, w, nil, nil)
		w.sound(t)
		require.InDelta(t, c.want.Milliseconds(), got.Millis, float64((3 * time.Minute).Milliseconds()), name)
	}
}

func inputOf[T any](w *world) T { all := inputsOf[T](w); return all[len(all)-1] }

// A question waits for its own answer, and the call goes on with it.
func TestQuestions(t *testing.T) {
	script := begin + "implement=limited$5 implement=limited$5 implement check judge commit implement check judge commit " + whole + "publish"
	w := newWorld("questions", 2, scenario{}.ruled(), script).open(t)
	w.shape = func(n int, in any, e *slice.Ended) {
		if e.Outcome == machine.Limited {
			e.Calls = []slice.Called{{Role: slice.RoleImplementer, Agent: "implementer", CostMicroUSD: 5}}
			e.Question = &slice.Question{ID: fmt.Sprintf("q-%d", n), Role: slice.RoleImplementer, Text: fmt.Sprintf("Which port, %d?", n)}
		}
	}
	refused := map[string]*answer{}
	var taken answer
	got := inEnvironment(t, w, nil, func(env *testsuite.TestWorkflowEnvironment) {
		ask := func(name string, a slice.Answered) {
			refused[name] = &answer{}
			env.UpdateWorkflow(slice.Answer, name, refused[name].callbacks(), a)
		}
		env.RegisterDelayedCallback(func() { ask("early", slice.Answered{ID: "q-1", Text: "80", By: "ada"}) }, 0)
		env.RegisterDelayedCallback(func() {
			s := statusOf(t, env)
			require.Equal(t, slice.Wait{For: slice.WaitQuestion, Subject: "q-1", Role: "implementer", Text: "Which port, 1?", Asked: 1, Reminded: 1,
				Since: s.Waiting.Since, Until: s.Waiting.Until}, *s.Waiting)
			require.Contains(t, detailsOf(t, env), "Which port, 1?")
			ask("another", slice.Answered{ID: "q-9", Text: "80", By: "ada"})
			ask("no id", slice.Answered{Text: "80", By: "ada"})
			ask("nobody", slice.Answered{ID: "q-1", Text: "80"})
			ask("nothing", slice.Answered{ID: "q-1", Text: " ", By: "ada"})
			ask("too long", slice.Answered{ID: "q-1", Text: strings.Repeat("x", answerLimit+1), By: "ada"})
			env.UpdateWorkflow(slice.Answer, "good", taken.callbacks(), slice.Answered{ID: "q-1", Text: "80", By: "ada"})
		}, 30*time.Hour)
		env.RegisterDelayedCallback(func() {
			require.Equal(t, "q-2", statusOf(t, env).Waiting.Subject)
			env.UpdateWorkflow(slice.Answer, "good", taken.callbacks(), slice.Answered{ID: "q-1", Text: "80", By: "ada"})
			ask("stale", slice.Answered{ID: "q-1", Text: "80", By: "ada"})
			env.SignalWorkflow(slice.Answer, slice.Answered{ID: "q-2", Text: "443", By: "ada"})
		}, 40*time.Hour)
	})
	w.sound(t)
	require.Equal(t, machine.Delivered, got.Ending)
	require.NoError(t, taken.refused)
	for name, want := range map[string]string{"early": slice.ErrNotDue, "another": slice.ErrStale, "no id": slice.ErrBadAnswer, "nobody": slice.ErrBadAnswer,
		"nothing": slice.ErrBadAnswer, "too long": slice.ErrBadAnswer, "stale": slice.ErrStale} {
		require.Equal(t, want, kind(refused[name].refused), name)
	}
	in := inputsOf[slice.ImplementIn](w)
	require.Len(t, in, 4)
	require.Empty(t, in[0].Replies)
	require.Equal(t, []slice.Replied{{Question: "Which port, 1?", Answer: "80"}}, in[1].Replies)
	require.Equal(t, []slice.Replied{{Question: "Which port, 1?", Answer: "80"}, {Question: "Which port, 2?", Answer: "443"}}, in[2].Replies)
	require.Equal(t, in[0].Turn, in[2].Turn, "no attempt is spent")
	require.Empty(t, in[3].Replies, "another task")
	require.Equal(t, []slice.RoleCost{{Role: "implementer", Step: "implement", Calls: 2, CostMicroUSD: 10}}, got.Costs)
}

// moneyWorld has a cap, reservations and caps of roles, all in micro-dollars.
func moneyWorld(t *testing.T, name, script string, limit, call int64, ask bool, roles map[string]int64) *world {
	w := newWorld(name, 1, scenario{rules: func(r *machine.Rules) { r.CapMicroUSD, r.AskOverBudget = limit, ask }}.ruled(), script).open(t)
	w.prepared = func(p *slice.PrepareOut) {
		p.Roles = roles
		for _, role := range []string{slice.RoleImplementer, slice.RoleJudge, slice.RoleAdvisor} {
			p.Callers = append(p.Callers, slice.Caller{Name: role, Role: role, ReserveMicroUSD: call})
		}
	}
	w.shape = func(_ int, in any, e *slice.Ended) {
		role := slice.RoleJudge
		if _, ok := in.(slice.ImplementIn); ok {
			role = slice.RoleImplementer
		}
		e.Calls = []slice.Called{{Role: role, Agent: role, CostMicroUSD: e.CostMicroUSD, BriefBytes: 100}}
	}
	return w
}

// A call that cannot be afforded is not made.
func TestACallThatCannotBeAffordedIsNotMade(t *testing.T) {
	all := begin + "implement$1000 check judge$100 commit reconcile$0 verify judge_slice$200 publish"
	for name, c := range map[string]struct {
		script      string
		limit, call int64
		roles       map[string]int64
		ending      machine.Ending
		step        machine.Step
		why         string
	}{
		"exactly":        {script: all, limit: 1300, call: 200, ending: machine.Delivered},
		"one less":       {script: begin + "implement$1000 check judge$100 commit reconcile$0 verify", limit: 1299, call: 200, ending: machine.AbortedBudget, step: machine.JudgeSlice, why: "the slice has spent $0.0011 of $0.001299, and a call of the judge may cost $0.0002"},
		"never":          {script: begin, limit: 199, call: 200, ending: machine.AbortedBudget, step: machine.Implement, why: "may cost"},
		"role exactly":   {script: all, limit: 9999, call: 200, roles: map[string]int64{"judge": 300}, ending: machine.Delivered},
		"role, one less": {script: begin + "implement$1000 check judge$100 commit reconcile$0 verify", limit: 9999, call: 200, roles: map[string]int64{"judge": 299}, ending: machine.AbortedBudget, step: machine.JudgeSlice, why: "by its judge of $0.000299"},
		"overspent":      {script: begin + "implement$1301 check", limit: 1300, call: 0, ending: machine.AbortedBudget, step: machine.Judge, why: "has spent $0.001301 of $0.0013"},
	} {
		t.Run(name, func(t *testing.T) {
			w := moneyWorld(t, "money-"+strings.NewReplacer(" ", "-", ",", "").Replace(name), c.script, c.limit, c.call, false, c.roles)
			got := inEnvironment(t, w, nil, nil)
			w.sound(t)
			require.Equal(t, c.ending, got.Ending)
			_, f := w.recorded(t)
			require.Equal(t, got.status.State, f.State)
			if c.ending == machine.Delivered {
				require.Equal(t, []slice.RoleCost{{Role: "implementer", Step: "implement", Calls: 1, CostMicroUSD: 1000, BriefBytes: 100},
					{Role: "judge", Step: "judge", Calls: 1, CostMicroUSD: 100, BriefBytes: 100},
					{Role: "judge", Step: "reconcile", Calls: 1, BriefBytes: 100},
					{Role: "judge", Step: "judge_slice", Calls: 1, CostMicroUSD: 200, BriefBytes: 100}}, got.Costs)
				return
			}
			require.Equal(t, 15, got.Code)
			require.Equal(t, c.step, got.Step)
			require.Contains(t, got.Why, c.why)
		})
	}
}

// Where policy asks, a higher cap lets the slice go on; silence ends it.
func TestMoreMoney(t *testing.T) {
	whole := "check judge$100 commit reconcile$0 verify judge_slice$200 publish"
	t.Run("raised", func(t *testing.T) {
		for _, door := range []string{"update", "signal"} {
			w := moneyWorld(t, "raised-"+door, begin+"implement$1000 "+whole, 500, 600, true, nil)
			refused := map[string]*answer{}
			got := inEnvironment(t, w, nil, func(env *testsuite.TestWorkflowEnvironment) {
				raise := func(name string, x slice.Raised) {
					refused[name] = &answer{}
					env.UpdateWorkflow(slice.RaiseBudget, name, refused[name].callbacks(), x)
				}
				env.RegisterDelayedCallback(func() {
					s := statusOf(t, env)
					require.Equal(t, slice.WaitMoney, s.Waiting.For)
					require.EqualValues(t, 600, s.Waiting.NeedMicroUSD)
					require.True(t, needsHuman(s.Waiting))
					require.Contains(t, detailsOf(t, env), "interlock raise raised-"+door+" --usd 0.0006")
					raise("lower", slice.Raised{CapMicroUSD: 499, By: "ada"})
					raise("nobody", slice.Raised{CapMicroUSD: 5000})
					raise("nothing", slice.Raised{By: "ada"})
					raise("absurd", slice.Raised{CapMicroUSD: mostCap + 1, By: "ada"})
					raise("no such role", slice.Raised{CapMicroUSD: 5000, Role: "judge", By: "ada"})
					raise("the same", slice.Raised{CapMicroUSD: 500, By: "ada"})
					raise("too little", slice.Raised{CapMicroUSD: 550, By: "ada"})
				}, time.Hour)
				env.RegisterDelayedCallback(func() {
					require.Equal(t, slice.WaitMoney, statusOf(t, env).Waiting.For, "it still waits")
					more := slice.Raised{CapMicroUSD: 5000, By: "ada"}
					if door == "signal" {
						env.SignalWorkflow(slice.RaiseBudget, more)
						env.SignalWorkflow(slice.RaiseBudget, more)
						return
					}
					raise("more", more)
				}, 2*time.Hour)
			})
			w.sound(t)
			require.Equal(t, machine.Delivered, got.Ending)
			for name, want := range map[string]string{"lower": slice.ErrBadRaise, "nobody": slice.ErrBadRaise, "nothing": slice.ErrBadRaise,
				"absurd": slice.ErrBadRaise, "no such role": slice.ErrBadRaise, "the same": "", "too little": ""} {
				require.Equal(t, want, kind(refused[name].refused), name)
			}
			require.EqualValues(t, 5000, got.status.State.Rules.CapMicroUSD)
			_, f := w.recorded(t)
			require.Equal(t, got.status.State, f.State, "the record knows of the raises")
			require.Zero(t, got.status.Ignored.Count)
		}
	})
	t.Run("overspent, then raised", func(t *testing.T) {
		w := moneyWorld(t, "overspent-raised", begin+"implement$1000 "+whole, 900, 0, true, nil)
		w.host.StepsPerRun = 1
		got := inEnvironment(t, w, nil, func(env *testsuite.TestWorkflowEnvironment) {
			env.RegisterDelayedCallback(func() {
				if s := statusOf(t, env); s.Waiting != nil && s.Waiting.For == slice.WaitMoney {
					env.SignalWorkflow(slice.RaiseBudget, slice.Raised{CapMicroUSD: 1300, By: "ada"})
				}
			}, time.Hour)
		})
		w.sound(t)
		require.Equal(t, machine.Delivered, got.Ending)
		_, f := w.recorded(t)
		require.Equal(t, got.status.State, f.State)
	})
	t.Run("a role", func(t *testing.T) {
		w := moneyWorld(t, "role-raised", begin+"implement$1000 "+whole, 9000, 200, true, map[string]int64{"judge": 250})
		got := inEnvironment(t, w, nil, func(env *testsuite.TestWorkflowEnvironment) {
			env.RegisterDelayedCallback(func() {
				s := statusOf(t, env)
				require.Equal(t, "judge", s.Waiting.Role)
				require.EqualValues(t, 300, s.Waiting.NeedMicroUSD)
				env.SignalWorkflow(slice.RaiseBudget, slice.Raised{CapMicroUSD: 300, Role: "judge", By: "ada"})
			}, time.Hour)
		})
		w.sound(t)
		require.Equal(t, machine.Delivered, got.Ending)
	})
	t.Run("silence", func(t *testing.T) {
		w := moneyWorld(t, "silence-money", begin, 500, 600, true, nil)
		got := inEnvironment(t, w, nil, nil)
		require.Equal(t, 15, got.Code)
		require.Contains(t, got.Why, "nobody raised the cap in time")
		require.GreaterOrEqual(t, got.Millis, (7 * 24 * time.Hour).Milliseconds())
		_, f := w.recorded(t)
		require.Equal(t, got.status.State, f.State)
	})
	t.Run("cancelled", func(t *testing.T) {
		w := moneyWorld(t, "cancel-money", begin, 500, 600, true, nil)
		got := inEnvironment(t, w, nil, func(env *testsuite.TestWorkflowEnvironment) {
			env.RegisterDelayedCallback(env.CancelWorkflow, time.Hour)
		})
		require.Equal(t, machine.Cancelled, got.Ending)
		require.Empty(t, w.held)
	})
	t.Run("the activity says that it is short", func(t *testing.T) {
		for _, reached := range []bool{false, true} {
			for _, ask := range []bool{false, true} {
				name := fmt.Sprintf("short-%v-%v", reached, ask)
				script := begin + "implement=limited$400"
				if ask {
					script += " implement$1000 " + whole
				}
				w := moneyWorld(t, name, script, 9000, 0, ask, nil)
				shape := w.shape
				w.shape = func(n int, in any, e *slice.Ended) {
					shape(n, in, e)
					if e.Outcome == machine.Limited {
						e.Short = &slice.Shortage{Role: "implementer", NeedMicroUSD: 8700, Reached: reached}
					}
				}
				got := inEnvironment(t, w, nil, func(env *testsuite.TestWorkflowEnvironment) {
					env.RegisterDelayedCallback(func() { env.SignalWorkflow(slice.RaiseBudget, slice.Raised{CapMicroUSD: 9100, By: "ada"}) }, time.Hour)
				})
				w.sound(t)
				if ask {
					require.Equal(t, machine.Delivered, got.Ending)
				} else {
					require.Equal(t, machine.AbortedBudget, got.Ending)
					require.Equal(t, machine.Implement, got.Step)
				}
			}
		}
	})
}

// What may be spent is told to every step that calls agents.
func TestStepsKnowWhatIsLeft(t *testing.T) {
	w := moneyWorld(t, "left", begin+"implement$1000 check judge$100 commit reconcile$0 verify judge_slice$200 publish", 2000, 200, false, map[string]int64{"judge": 400})
	inEnvironment(t, w, nil, nil)
	w.sound(t)
	require.EqualValues(t, 2000, *inputOf[slice.ImplementIn](w).Calls.LeftMicroUSD)
	require.EqualValues(t, 400, *inputOf[slice.JudgeIn](w).Calls.LeftMicroUSD)
	require.EqualValues(t, 900, *inputOf[slice.ReconcileIn](w).Calls.LeftMicroUSD)
	require.EqualValues(t, 300, *inputOf[slice.JudgeSliceIn](w).Calls.LeftMicroUSD)
}
