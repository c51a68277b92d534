package activities

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"interlock/activities/agent"
	"interlock/machine"
	"interlock/slice"
)

// desk is a place where agents are called, without a repository.
type desk struct {
	t     *testing.T
	a     *Activities
	calls string // a file with one letter for each call
}

func newDesk(t *testing.T, agents int) *desk {
	top := t.TempDir()
	a, err := New(Options{Home: filepath.Join(top, "home"), Host: slice.Host{ID: "h"}, Agents: agents})
	require.NoError(t, err)
	a.backoff = time.Millisecond
	return &desk{t: t, a: a, calls: filepath.Join(top, "calls")}
}

// agent is a program that notes its calls; its n-th call sees n.
func (s *desk) agent(name, script string) slice.Agent {
	usd := slice.USD(1_000_000)
	return slice.Agent{Name: name, Use: slice.AdapterCommand, USD: &usd, Timeout: slice.Duration(time.Minute),
		Run: slice.Argv{"/bin/sh", "-c", "brief=$(cat); printf x >> " + s.calls + "; n=$(wc -c < " + s.calls + ")\n" + script}}
}

func (s *desk) made() int {
	b, err := os.ReadFile(s.calls)
	if os.IsNotExist(err) {
		return 0
	}
	require.NoError(s.t, err)
	return len(b)
}

// ask has one operation of a slice ask an agent once.
func (s *desk) ask(op string, who slice.Agent, terms slice.Calls) (slice.Ended, reply, error) {
	id, _, _ := strings.Cut(op, "/")
	w := &work{Header: slice.Header{Slice: id, Run: 1, Turn: machine.Turn{Step: machine.Implement, Task: 1, Attempt: 1}, Op: op}}
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.SetTestTimeout(time.Minute)
	const name slice.Activity[slice.Header, slice.Ended] = "ask"
	var got reply
	register(env, name, func(ctx context.Context, h slice.Header) (slice.Ended, error) {
		return once(ctx, s.a, h, func(tab *tab) (slice.Ended, error) {
			var err error
			got, err = s.a.call(ctx, w, tab, slice.Policy{Sandbox: slice.SandboxOff}, question{who: who, dir: s.t.TempDir(), terms: terms,
				brief: agent.ImplementBrief{Task: slice.Task{ID: "t", Criterion: "c", Details: strings.Repeat("word ", 20_000)}}})
			ended := w.answered(got)
			tab.charge(&ended)
			return ended, err
		})
	})
	v, err := env.ExecuteActivity(string(name), w.Header)
	var ended slice.Ended
	if err == nil {
		err = v.Get(&ended)
	}
	return ended, got, err
}

const fine = `printf '{"status":"done","cost_usd":0.25}'`

func limitFor(seconds string) string {
	return `printf '{"limit":{"retry_after":` + seconds + `},"cost_usd":0}'`
}

// What each class becomes: how often it is asked, how the step ends, and what
// it has cost, every call counted.
func TestWhatEveryClassBecomes(t *testing.T) {
	for name, c := range map[string]struct {
		script  string
		calls   int
		outcome machine.Outcome
		cause   machine.Cause
		cost    int64
	}{
		"answered":           {fine, 1, machine.Done, "", 250_000},
		"discarded":          {"echo garbage", 1, machine.Discarded, "", 1_000_000},
		"limit":              {limitFor("60"), 1, machine.Limited, "", 0},
		"transient for ever": {`printf '{"failure":"transient","cost_usd":0.01}'`, 6, machine.Unanswered, machine.CauseTimeout, 60_000},
		"transient, twice":   {`if [ $n -le 2 ]; then printf '{"failure":"transient"}'; else ` + fine + `; fi`, 3, machine.Done, "", 2_250_000},
		"fatal":              {`printf '{"failure":"fatal","reason":"no such model: mend it"}'`, 1, machine.Unanswered, machine.CauseFatal, 1_000_000},
		"context for ever":   {`printf '{"failure":"context","cost_usd":0.01}'`, 2, machine.Unanswered, machine.CauseFatal, 20_000},
		"context, then room": {`if [ ${#brief} -gt 50000 ]; then printf '{"failure":"context","cost_usd":0.01}'; else ` + fine + `; fi`, 2, machine.Done, "", 260_000},
		"budget":             {`printf '{"failure":"budget","cost_usd":1}'`, 1, machine.Limited, "", 1_000_000},
		"no program":         {"exit 127", 1, machine.Unanswered, machine.CauseFatal, 1_000_000},
	} {
		t.Run(name, func(t *testing.T) {
			s := newDesk(t, 1)
			ended, _, err := s.ask("a/1/1", s.agent("implementer", c.script), slice.Calls{})
			require.NoError(t, err)
			require.Equal(t, c.calls, s.made())
			require.Equal(t, c.outcome, ended.Outcome, ended.Why)
			require.Equal(t, c.cause, ended.Cause)
			require.Equal(t, c.cost, ended.CostMicroUSD)
			require.Len(t, ended.Calls, c.calls)
			for _, call := range ended.Calls {
				require.Positive(t, call.BriefBytes)
			}
			require.Equal(t, name == "limit", ended.Limit != nil)
			require.Equal(t, name == "budget", ended.Short != nil && ended.Short.Reached)
			if name == "context, then room" {
				require.True(t, ended.Calls[1].Fresh)
				require.Less(t, ended.Calls[1].BriefBytes, ended.Calls[0].BriefBytes)
			}
			if name == "fatal" {
				require.Contains(t, ended.Why, "no such model: mend it")
			}
			again, _, err := s.ask("a/1/1", s.agent("implementer", c.script), slice.Calls{})
			require.NoError(t, err)
			require.Equal(t, ended.CostMicroUSD, again.CostMicroUSD, "money is counted once")
			require.Equal(t, c.calls, s.made())
		})
	}
}

// What an agent says of its cost is believed only where it can be.
func TestSpend(t *testing.T) {
	for name, c := range map[string]struct {
		says string
		cost int64
	}{
		"zero":      {`{"status":"done","cost_usd":0}`, 0},
		"nothing":   {`{"status":"done"}`, 1_000_000},
		"null":      {`{"status":"done","cost_usd":null}`, 1_000_000},
		"NaN":       {`{"status":"done","cost_usd":NaN}`, 1_000_000},
		"negative":  {`{"status":"done","cost_usd":-3}`, 1_000_000},
		"huge":      {`{"status":"done","cost_usd":1e30}`, 1_000_000},
		"over":      {`{"status":"done","cost_usd":7.5}`, 7_500_000},
		"a word":    {`{"status":"done","cost_usd":"free"}`, 1_000_000},
		"very fine": {`{"status":"done","cost_usd":0.0000001}`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newDesk(t, 1)
			ended, _, err := s.ask("a/1/1", s.agent("implementer", "printf '%s' '"+c.says+"'"), slice.Calls{})
			require.NoError(t, err)
			require.Equal(t, c.cost, ended.CostMicroUSD)
		})
	}
}

func TestACostThatCannotBeIsTheReservation(t *testing.T) {
	s := newDesk(t, 1)
	for _, cost := range []int64{-1, absurd + 1, -1 << 63} {
		tab := &tab{a: s.a, path: filepath.Join(t.TempDir(), "tab")}
		require.NoError(t, tab.reserve(slice.Called{}, 40))
		require.EqualValues(t, 40, tab.total(), "a call whose end nobody saw")
		require.NoError(t, tab.settle(agent.Answer{Class: agent.Answered, CostMicroUSD: cost}))
		require.EqualValues(t, 40, tab.total())
	}
}

// A crash between a call and its settlement is charged the reservation, at the
// next try and when it is settled without one.
func TestACrashBeforeTheSettlement(t *testing.T) {
	s := newDesk(t, 1)
	h := slice.Header{Slice: "a", Op: "a/1/1"}
	file := s.a.kept(h)
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
	killed := &tab{a: s.a, path: file + tabSuffix}
	require.NoError(t, killed.reserve(slice.Called{Role: "implementer"}, 700_000))
	require.NoError(t, killed.settle(agent.Answer{Class: agent.Transient, CostMicroUSD: 5}))
	require.NoError(t, killed.reserve(slice.Called{Role: "implementer"}, 700_000))

	left, err := readTab(file)
	require.NoError(t, err)
	require.EqualValues(t, 700_005, left.total())
	require.Equal(t, unsettled, left.calls()[1].Class)
	ended, _, err := s.ask("a/1/1", s.agent("implementer", fine), slice.Calls{})
	require.NoError(t, err)
	require.EqualValues(t, 700_005+250_000, ended.CostMicroUSD)
	require.Len(t, ended.Calls, 3)
}

// A call that the money does not cover is not made.
func TestACallThatIsNotMade(t *testing.T) {
	for _, c := range []struct {
		left  int64
		calls int
	}{{1_000_000, 1}, {999_999, 0}, {0, 0}, {-5, 0}} {
		s := newDesk(t, 1)
		ended, _, err := s.ask("a/1/1", s.agent("implementer", fine), slice.Calls{LeftMicroUSD: &c.left})
		require.NoError(t, err)
		require.Equal(t, c.calls, s.made())
		require.Equal(t, c.calls == 0, ended.Short != nil)
		if c.calls == 0 {
			require.Equal(t, slice.Shortage{Role: "implementer", NeedMicroUSD: 1_000_000}, *ended.Short)
			require.Equal(t, machine.Limited, ended.Outcome)
			require.Zero(t, ended.CostMicroUSD)
		}
	}
	// What the tries of the same operation have cost counts too.
	s := newDesk(t, 1)
	left := int64(2_500_000)
	ended, _, err := s.ask("a/1/1", s.agent("implementer", `printf '{"failure":"transient"}'`), slice.Calls{LeftMicroUSD: &left})
	require.NoError(t, err)
	require.Equal(t, 2, s.made())
	require.EqualValues(t, 2_000_000, ended.CostMicroUSD)
	require.NotNil(t, ended.Short)
}

// Ten slices share an account: during its limit none calls, and afterwards one
// goes first.
func TestTenSlicesShareAnAccount(t *testing.T) {
	const slots = 3
	s := newDesk(t, slots)
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var mu sync.Mutex
	s.a.limits.now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	free := filepath.Join(t.TempDir(), "free")
	who := s.agent("implementer", `if [ -e `+free+` ]; then sleep 0.2; `+fine+`; else `+limitFor("3600")+`; fi`)
	round := func(name string, renewed int) (held, limited, done int) {
		var all sync.WaitGroup
		var count sync.Mutex
		for i := range 10 {
			all.Go(func() {
				ended, _, err := s.ask("s"+string(rune('a'+i))+"/1/"+name, who, slice.Calls{Renewed: i < renewed})
				count.Lock()
				defer count.Unlock()
				switch {
				case err != nil:
					t.Error(err)
				case ended.Limit != nil && ended.Limit.Held:
					held++
				case ended.Limit != nil:
					limited++
				case ended.Outcome == machine.Done:
					done++
				}
			})
		}
		all.Wait()
		return held, limited, done
	}
	held, limited, _ := round("1", 0)
	before := s.made()
	t.Logf("meeting the limit: %d calls, %d slices held back without one", before, held)
	require.LessOrEqual(t, before, slots, "no more than are at work at once")
	require.Equal(t, before, limited)
	require.Equal(t, 10-before, held)

	held, _, _ = round("2", 0)
	require.Equal(t, 10, held)
	require.Equal(t, before, s.made(), "no call during the window")

	mu.Lock()
	now = now.Add(time.Hour)
	mu.Unlock()
	held, limited, _ = round("3", 0)
	t.Logf("a limit that goes on: %d more call, %d held back", s.made()-before, held)
	require.Equal(t, before+1, s.made(), "one asks, and the others learn from it")
	require.Equal(t, []int{9, 1}, []int{held, limited})

	require.NoError(t, os.WriteFile(free, nil, 0o600))
	mu.Lock()
	now = now.Add(time.Minute)
	mu.Unlock()
	_, _, done := round("4", 1)
	t.Logf("free, as a person said: %d of 10 done", done)
	require.Positive(t, done)
	_, _, done = round("5", 0)
	require.Equal(t, 10, done)
	require.NoFileExists(t, filepath.Join(s.a.limits.dir, account(who, nil, nil)+".json"))
}

// The files of accounts outlive the worker and hold no credential.
func TestLimitsOutliveTheWorker(t *testing.T) {
	home := t.TempDir()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	open := func() *limits {
		l := newLimits(home)
		l.now = func() time.Time { return now }
		return l
	}
	l := open()
	until, err := l.leave("x", "command", now, true, now.Add(time.Hour), false)
	require.NoError(t, err)
	require.Equal(t, now.Add(time.Hour), until)
	held, _, err := open().enter("x", false)
	require.NoError(t, err)
	require.Equal(t, now.Add(time.Hour), held.ResetAt)
	other, wait, err := open().enter("y", false)
	require.NoError(t, err)
	require.Nil(t, other)
	require.Nil(t, wait)

	// An older call that ends well says nothing of a limit that was met since.
	_, err = open().leave("x", "command", now.Add(-time.Minute), false, time.Time{}, true)
	require.NoError(t, err)
	held, _, err = open().enter("x", false)
	require.NoError(t, err)
	require.NotNil(t, held)

	// A file that somebody else wrote counts for nothing.
	for _, text := range []string{"", "{", `{"until":"9999-01-01T00:00:00Z"}`, `{"until":"0001-01-01T00:00:00Z"}`} {
		require.NoError(t, os.WriteFile(filepath.Join(home, "limits", "z.json"), []byte(text), 0o600))
		held, wait, err := open().enter("z", false)
		require.NoError(t, err)
		require.Nil(t, held, text)
		require.Nil(t, wait)
	}
}

func TestAccounts(t *testing.T) {
	a := slice.Agent{Use: slice.AdapterClaude}
	key := func(v string) []string { return []string{"HOME=/a", "ANTHROPIC_API_KEY=" + v, "LANG=C"} }
	one := account(a, key("secret-value-one"), nil)
	require.Equal(t, one, account(a, append([]string{"TERM=dumb"}, key("secret-value-one")...), nil))
	require.NotEqual(t, one, account(a, key("secret-value-two"), nil))
	require.NotEqual(t, one, account(slice.Agent{Use: slice.AdapterCodex}, key("secret-value-one"), nil))
	require.NotEqual(t, one, account(a, key("secret-value-one"), []string{"HOME"}), "the login in a home")
	require.NotContains(t, one, "secret")
	require.Regexp(t, `^[a-z]+-[0-9a-f]{24}$`, one)
}

// The fallback answers in the agent's place, with an account of its own.
func TestTheFallbackIsAsked(t *testing.T) {
	s := newDesk(t, 1)
	who, other := s.agent("implementer", limitFor("3600")), s.agent("other", fine)
	who.Fallback = &other
	ended, _, err := s.ask("a/1/1", who, slice.Calls{})
	require.NoError(t, err)
	require.Equal(t, machine.Limited, ended.Outcome)
	ended, _, err = s.ask("a/1/2", who, slice.Calls{Fallback: []string{"implementer"}})
	require.NoError(t, err)
	require.Equal(t, machine.Done, ended.Outcome)
	require.True(t, ended.Calls[0].Fallback)
	require.Equal(t, "implementer", ended.Calls[0].Agent)
}

// The third question of a task is no answer.
func TestAThirdQuestionIsDiscarded(t *testing.T) {
	w := &work{Header: slice.Header{Op: "a/1/7"}}
	for asked := range 4 {
		var e slice.Ended
		w.ask(&e, slice.RoleImplementer, "Which\nport?", asked)
		if asked < slice.MostQuestions {
			require.Equal(t, machine.Limited, e.Outcome)
			require.Equal(t, "Which\nport?", e.Question.Text)
			require.Equal(t, "the implementer asks: Which port?", e.Why)
			continue
		}
		require.Equal(t, machine.Discarded, e.Outcome)
		require.Nil(t, e.Question)
		require.Contains(t, e.Why, "may ask 2 times")
	}
}
