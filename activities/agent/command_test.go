package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"interlock/activities/evidence"
	"interlock/activities/process"
	"interlock/machine"
	"interlock/slice"
)

func TestMain(m *testing.M) {
	process.Main()
	if len(os.Args) > 1 && os.Args[1] == "judge-that-passes-everything" {
		passEverything()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// passEverything is a judge that reads only its brief.
func passEverything() {
	var brief struct {
		Rubric []slice.Rubric `json:"rubric"`
	}
	stdin, err := io.ReadAll(os.Stdin)
	if err != nil || json.Unmarshal(stdin, &brief) != nil {
		os.Exit(1)
	}
	var a JudgeAnswer
	a.Findings = []slice.Finding{}
	for _, r := range brief.Rubric {
		a.Scores = append(a.Scores, Score{Criterion: r.Criterion, Score: 5, Reason: "it is so"})
	}
	out, err := json.Marshal(a)
	if err != nil {
		os.Exit(1)
	}
	fmt.Println(string(out))
}

const reservation = 2_500_000

type bench struct {
	adapter Adapter
	store   *evidence.Store
	call    Call
	home    string
}

func newBench(t *testing.T, worker map[string]string, pass ...string) *bench {
	t.Helper()
	b := &bench{home: t.TempDir()}
	var err error
	b.store, err = evidence.Open(filepath.Join(b.home, "evidence"))
	require.NoError(t, err)
	b.adapter, err = New(slice.AdapterCommand, b.store)
	require.NoError(t, err)
	env, err := Environment(filepath.Join(b.home, "agent"), pass, func(name string) (string, bool) {
		if name == "PATH" {
			return os.LookupEnv(name)
		}
		v, ok := worker[name]
		return v, ok
	})
	require.NoError(t, err)
	usd := slice.USD(reservation)
	b.call = Call{
		Agent: slice.Agent{Use: slice.AdapterCommand, USD: &usd},
		Brief: ImplementBrief{Head: Head{Slice: "s", Title: "T"}, Task: slice.Task{ID: "t", Criterion: "it works"}},
		Dir:   t.TempDir(), Env: env, Marker: "agent-test",
	}
	return b
}

func (b *bench) ask(t *testing.T, line string) Answer {
	t.Helper()
	b.call.Agent.Run = slice.Shell(line)
	a, err := b.adapter.Call(t.Context(), b.call)
	require.NoError(t, err)
	return a
}

func (b *bench) evidence(t *testing.T, a Answer) map[string]string {
	t.Helper()
	kept := map[string]string{}
	for _, e := range a.Evidence {
		data, err := b.store.Get(e.Hash)
		require.NoError(t, err)
		kept[e.Name] = string(data)
	}
	return kept
}

func say(answer string) string { return "cat >/dev/null; echo '" + answer + "'" }

func TestCallClasses(t *testing.T) {
	b := newBench(t, nil)
	for _, c := range []struct {
		name   string
		line   string
		class  Class
		cost   int64
		known  bool
		reason string
	}{
		{"an answer", say(`{"status":"done","cost_usd":0.25}`), Answered, 250_000, true, ""},
		{"of a program that does not read", `echo '{"status":"done","cost_usd":0}'`, Answered, 0, true, ""},
		{"without cost", say(`{"status":"failed"}`), Answered, reservation, false, ""},
		{"cost not known", say(`{"status":"done","cost_usd":null}`), Answered, reservation, false, ""},
		{"above the reservation", say(`{"status":"done","cost_usd":7}`), Answered, 7_000_000, true, ""},
		{"with an exponent", say(`{"status":"done","cost_usd":1e-3}`), Answered, 1000, true, ""},
		{"rounded up", say(`{"status":"done","cost_usd":0.30000000000000004}`), Answered, 300_001, true, ""},
		{"nothing", "cat >/dev/null", Discarded, reservation, false, "nothing was written to standard output"},
		{"words", say("I am done."), Discarded, reservation, false, "it is not one JSON document"},
		{"two documents", say(`{"status":"done"} {"status":"done"}`), Discarded, reservation, false, "byte 19"},
		{"twice the same key", say(`{"status":"failed","status":"done"}`), Discarded, reservation, false, `the key "status" is there twice`},
		{"not in the schema, with its cost", say(`{"status":"perfect","cost_usd":0.5}`), Discarded, 500_000, true, "at /status: "},
		{"another key", say(`{"status":"done","merge":true}`), Discarded, reservation, false, "'merge' not allowed"},
		{"negative cost", say(`{"status":"done","cost_usd":-1}`), Discarded, reservation, false, "at /cost_usd: "},
		{"absurd cost", say(`{"status":"done","cost_usd":1000000}`), Discarded, reservation, false, "at /cost_usd: "},
		{"endless cost", say(`{"status":"done","cost_usd":1e999999999}`), Discarded, reservation, false, "at /cost_usd: a number out of all bounds"},
		{"no number", say(`{"status":"done","cost_usd":NaN}`), Discarded, reservation, false, "it is not one JSON document"},
		{"too long", "cat >/dev/null; head -c 1100000 /dev/zero | tr '\\0' ' '; echo '{\"status\":\"done\"}'", Discarded, reservation, false, "more than 1048576 bytes"},
		{"not UTF-8", `cat >/dev/null; printf '{"status":"done","summary":"\377"}'`, Discarded, reservation, false, "it is not UTF-8"},
		{"failed", `echo '{"status":"done"}'; echo no login >&2; exit 3`, Discarded, reservation, false, "implementer: exit status 3; the end of its standard error: no login"},
		{"failed, cheaper than reserved", `echo '{"status":"done","cost_usd":0.1}'; exit 3`, Discarded, reservation, false, "exit status 3"},
		{"failed, dearer than reserved", `echo '{"status":"done","cost_usd":9}'; exit 3`, Discarded, 9_000_000, false, "exit status 3"},
		{"killed", "kill -KILL $$", Discarded, reservation, false, "killed by SIGKILL"},
		{"killed with what watches over it", "kill -KILL $PPID; exec sleep 600", Discarded, reservation, false, "the process that watches over it was killed"},
		{"not there", "no-such-agent --json", Fatal, reservation, false, "install it on the worker's host"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := b.ask(t, c.line)
			require.Equal(t, c.class, a.Class, a.Reason)
			require.Equal(t, c.cost, a.CostMicroUSD)
			require.Equal(t, c.known, a.CostKnown)
			require.Contains(t, a.Reason, c.reason)
			require.Equal(t, c.class == Answered, len(a.Raw) > 0)
			require.Equal(t, c.class == Answered, a.Reason == "")
			require.NotContains(t, a.Reason, "\n")
			require.LessOrEqual(t, len(a.Reason), maxReason)
			require.Contains(t, b.evidence(t, a), "implementer-brief.json")
		})
	}
}

func TestCallWithoutAProgram(t *testing.T) {
	b := newBench(t, nil)
	require.NoError(t, os.WriteFile(filepath.Join(b.call.Dir, "judge.sh"), []byte("#!/bin/sh\necho '{}'\n"), 0o600))
	judge := JudgeBrief{}
	for _, c := range []struct {
		name  string
		run   slice.Argv
		brief Brief
		want  string
	}{
		{"none", nil, b.call.Brief, "no command"},
		{"not found", slice.Argv{"no-such-agent"}, b.call.Brief, "was not found"},
		{"not executable", slice.Argv{b.call.Dir}, b.call.Brief, "cannot be executed"},
		{"a judge from the tree that it judges", slice.Argv{"./judge.sh"}, judge, "an agent wrote"},
	} {
		b.call.Agent.Run, b.call.Brief = c.run, c.brief
		a, err := b.adapter.Call(t.Context(), b.call)
		require.NoError(t, err)
		require.Equal(t, Fatal, a.Class, c.name)
		require.Contains(t, a.Reason, c.want, c.name)
		require.Contains(t, a.Reason, "interlock.yaml", c.name)
		require.Zero(t, a.CostMicroUSD, "what was never started costs nothing")
		require.True(t, a.CostKnown)
	}
}

func TestCallOutOfTime(t *testing.T) {
	b := newBench(t, nil)
	b.call.Agent.Timeout = slice.Duration(50 * time.Millisecond)
	a := b.ask(t, `exec tail -f /dev/null`)
	require.Equal(t, Unanswered, a.Class)
	require.Equal(t, int64(reservation), a.CostMicroUSD)
	require.Contains(t, a.Reason, "no answer within 50ms")
}

func TestCallCancelledIsAnErrorAndIsCharged(t *testing.T) {
	b := newBench(t, nil)
	why := errors.New("the slice was cancelled")
	ctx, cancel := context.WithCancelCause(t.Context())
	b.call.OnProgress = func(s string) {
		if strings.Contains(s, " 1 s") {
			cancel(why)
		}
	}
	b.call.Agent.Run = slice.Shell("echo thinking >&2; exec tail -f /dev/null")
	a, err := b.adapter.Call(ctx, b.call)
	require.ErrorIs(t, err, why)
	require.Equal(t, int64(reservation), a.CostMicroUSD)
	require.False(t, a.CostKnown)
	require.Equal(t, "thinking\n", b.evidence(t, a)["implementer-stderr"])
}

func TestCallGivesBriefFolderAndEnvironment(t *testing.T) {
	b := newBench(t, map[string]string{"MODEL": "m1", "LEFT_OUT": "x"}, "MODEL")
	b.call.Agent.Name = "coder one"
	a := b.ask(t, `cat >brief.json; env >&2; echo '{"status":"done","session":"abc-1"}'`)
	require.Equal(t, Answered, a.Class)
	require.Equal(t, "abc-1", a.Session)
	brief, err := os.ReadFile(filepath.Join(b.call.Dir, "brief.json"))
	require.NoError(t, err)
	kept := b.evidence(t, a)
	require.Equal(t, string(brief), kept["coder-one-brief.json"])
	require.JSONEq(t, `{"status":"done","session":"abc-1"}`, kept["coder-one-stdout"])
	env := "\n" + kept["coder-one-stderr"]
	for _, line := range []string{"MODEL=m1", "TERM=dumb", "LANG=C.UTF-8", "GIT_TERMINAL_PROMPT=0", "HOME=" + b.home + "/agent/home", "TMPDIR=" + b.home + "/agent/tmp"} {
		require.Contains(t, env, "\n"+line+"\n")
	}
	require.NotContains(t, env, "LEFT_OUT")
}

func TestPolicyMayPassHome(t *testing.T) {
	lookup := func(name string) (string, bool) { return "/home/me", name == "HOME" }
	env, err := Environment(t.TempDir(), []string{"HOME"}, lookup)
	require.NoError(t, err)
	require.Contains(t, env, "HOME=/home/me")
}

func TestSecretsAreNowhere(t *testing.T) {
	const secret = "sk-0123456789abcdef"
	b := newBench(t, map[string]string{"ANTHROPIC_API_KEY": secret}, "ANTHROPIC_API_KEY")
	b.call.Brief = AdviseBrief{Head: Head{Title: "uses " + secret}}
	for _, line := range []string{
		`cat >/dev/null; echo "key $ANTHROPIC_API_KEY" >&2; echo "{\"advice\":\"use $ANTHROPIC_API_KEY\"}"`,
		`cat >/dev/null; echo "key $ANTHROPIC_API_KEY" >&2; exit 1`,
		`cat >/dev/null; echo "{\"$ANTHROPIC_API_KEY\":1,\"$ANTHROPIC_API_KEY\":2}"`,
		`cat >/dev/null; echo "{\"advice\":\"x\",\"$ANTHROPIC_API_KEY\":2}"`,
		`no-such-agent-$ANTHROPIC_API_KEY`,
	} {
		a := b.ask(t, line)
		require.NotContains(t, fmt.Sprintf("%+v %s", a, a.Raw), secret)
		if a.Class == Answered {
			require.JSONEq(t, `{"advice":"use ***"}`, string(a.Raw))
		}
	}
	require.NoError(t, filepath.WalkDir(b.home, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		require.NotContains(t, string(data), secret, path)
		return err
	}))
}

func TestAJudgeFromBriefToVerdict(t *testing.T) {
	b := newBench(t, nil)
	self, err := os.Executable()
	require.NoError(t, err)
	b.call.Agent.Run = slice.Argv{self, "judge-that-passes-everything"}
	b.call.Agent.Name = "strict"
	for _, brief := range []Brief{JudgeBrief{Task: slice.Task{ID: "t"}}, JudgeSliceBrief{}} {
		b.call.Brief = brief
		a, err := b.adapter.Call(t.Context(), b.call)
		require.NoError(t, err)
		require.Equal(t, Answered, a.Class, a.Reason)
		var answer JudgeAnswer
		require.NoError(t, json.Unmarshal(a.Raw, &answer))
		v := Weigh("strict", nil, answer)
		require.Equal(t, Verdict{Judge: "strict", Outcome: machine.Done, MeanMilli: 5000, Findings: []slice.Finding{}, Why: "strict: mean 5.000, 0 blocking, 0 corrections"}, v)
	}
}

func TestEveryClassEndsAStep(t *testing.T) {
	want := map[Class][2]string{
		Answered: {"done", ""}, Discarded: {"discarded", ""}, Limit: {"limited", ""}, Transient: {"unanswered", "timeout"},
		Fatal: {"unanswered", "fatal"}, Context: {"unanswered", "fatal"}, Budget: {"limited", ""}, Unanswered: {"unanswered", "timeout"},
	}
	require.Len(t, classes, len(want))
	for class, w := range want {
		outcome, cause, ok := class.Ends()
		require.True(t, ok)
		require.Equal(t, [2]string{string(outcome), string(cause)}, w, class)
		if class == Answered {
			continue
		}
		// The machine must know every pair.
		_, err := machine.Next(machine.State{Step: machine.JudgeSlice, Tasks: 1, Task: 1, Rules: machine.Rules{Budgets: machine.DefaultBudgets(), CapMicroUSD: 1, DeliverTo: machine.ToBranch}},
			machine.Event{Step: machine.JudgeSlice, Outcome: outcome, Cause: cause})
		require.NoError(t, err, class)
	}
	_, _, ok := Class("").Ends()
	require.False(t, ok)
}

func TestReservation(t *testing.T) {
	require.Equal(t, int64(slice.DefaultCallUSD), Reservation(slice.Agent{}))
	usd := slice.USD(0)
	require.Zero(t, Reservation(slice.Agent{USD: &usd}))
}

func TestUnknownAdapter(t *testing.T) {
	_, err := New("telepathy", nil)
	require.ErrorContains(t, err, `no adapter "telepathy": expected use: command`)
}
