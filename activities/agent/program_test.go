package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"interlock/activities/evidence"
	"interlock/machine"
	"interlock/slice"
)

// double is a program that stands for a known one: it keeps its arguments and
// what it read, and prints what a script says.
func double(t *testing.T, use slice.Adapter, script string) (*stage, string) {
	t.Helper()
	s := &stage{use: use, home: t.TempDir()}
	store, err := evidence.Open(filepath.Join(s.home, "evidence"))
	require.NoError(t, err)
	s.adapter, err = New(use, store)
	require.NoError(t, err)
	env, err := Environment(s.home, []string{"ANTHROPIC_API_KEY"}, func(name string) (string, bool) {
		if name == "ANTHROPIC_API_KEY" {
			return "a-secret-key", true
		}
		return "/usr/bin:/bin", name == "PATH"
	})
	require.NoError(t, err)
	kept := filepath.Join(s.home, "kept")
	require.NoError(t, os.Mkdir(kept, 0o700))
	program := filepath.Join(s.home, "program")
	text := fmt.Sprintf("#!/bin/sh\nn=$(ls %[1]s | grep -c args)\nprintf '%%s\\n' \"$@\" > %[1]s/args$n\ncat > %[1]s/stdin$n\nenv > %[1]s/env$n\n%[2]s\n", kept, script)
	require.NoError(t, os.WriteFile(program, []byte(text), 0o700))
	usd := slice.USD(reservation)
	s.call = Call{
		Agent: slice.Agent{Use: use, Run: slice.Shell(program), Model: stageModels[use], USD: &usd},
		Brief: implementBrief(200_000), Dir: t.TempDir(), Env: env, Own: s.home, Marker: "agent-test",
	}
	return s, kept
}

func (s *stage) prints(t *testing.T, name string, out []byte) string {
	t.Helper()
	path := filepath.Join(s.home, name)
	require.NoError(t, os.WriteFile(path, out, 0o600))
	return path
}

func content(t *testing.T, parts ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(parts...))
	require.NoError(t, err)
	return string(b)
}

func TestASessionThatIsLostBeginsAnewOnce(t *testing.T) {
	s, kept := double(t, slice.AdapterClaude, `
case "$*" in
*--resume*) echo 'No conversation found with session ID: x' >&2; exit 1;;
*) cat "$HOME/../out";;
esac`)
	s.prints(t, "out", succeeds(slice.AdapterClaude, `{"status":"done"}`).Stdout)
	s.call.Session = "s-old"
	a := s.ask(t)
	require.Equal(t, Answered, a.Class, a.Reason)
	require.True(t, a.FellBack)
	require.Equal(t, "s-1", a.Session)
	require.Equal(t, int64(500_000), a.CostMicroUSD, "a session that is not there costs nothing")
	require.Contains(t, content(t, kept, "args0"), "--resume\ns-old\n")
	require.NotContains(t, content(t, kept, "args1"), "--resume")
	require.Contains(t, content(t, kept, "stdin1"), strings.Repeat("a word ", 1000), "the whole brief, by standard input")

	s, _ = double(t, slice.AdapterClaude, `echo 'No conversation found with session ID: x' >&2; exit 1`)
	s.call.Session = "s-old"
	a = s.ask(t)
	require.Equal(t, Fatal, a.Class, "once, not for ever")
	require.True(t, a.FellBack)
	require.Empty(t, a.Session)
}

func TestASessionIsNeverAnOption(t *testing.T) {
	s, kept := double(t, slice.AdapterCodex, "exit 1")
	s.call.Session = "--dangerously-bypass-approvals-and-sandbox"
	s.ask(t)
	require.NotContains(t, content(t, kept, "args0"), "dangerously")
}

func TestProgramsSeeWhatIsTheirs(t *testing.T) {
	for _, use := range known {
		s, kept := double(t, use, `echo "key: $ANTHROPIC_API_KEY" >&2; exit 1`)
		a := s.ask(t)
		require.NotContains(t, a.Reason, "a-secret-key")
		env := content(t, kept, "env0")
		for _, want := range []string{"HOME=" + filepath.Join(s.home, "home"), "TZ=UTC", "LANG=C.UTF-8", "TMPDIR=" + s.home} {
			require.Contains(t, env, want, use)
		}
		require.NotContains(t, env, "GOPATH")
		require.NotContains(t, content(t, kept, "args0"), "a word", "a brief is no argument")
		for _, e := range a.Evidence {
			data, err := s.adapter.(*Program).Evidence.Get(e.Hash)
			require.NoError(t, err)
			require.NotContains(t, string(data), "a-secret-key")
		}
	}
}

// What a program is charged whose call ended so.
func TestSettle(t *testing.T) {
	price := []slice.Price{{Model: "gpt-5.5", Input: 1_000_000, Output: 1_000_000}}
	for _, c := range []struct {
		name    string
		started bool
		e       Ending
		cost    int64
		known   bool
	}{
		{"never started", false, Ending{Class: Fatal}, 0, true},
		{"what the program says", true, Ending{Class: Answered, CostMicroUSD: 7, CostKnown: true}, 7, true},
		{"a failure, too", true, Ending{Class: Discarded, CostMicroUSD: 7, CostKnown: true}, 7, true},
		{"by the table", true, Ending{Class: Answered, Tokens: Tokens{Input: 5}, TokensKnown: true, Model: "gpt-5.5"}, 5, true},
		{"a model without a price", true, Ending{Class: Answered, Tokens: Tokens{Input: 5}, TokensKnown: true, Model: "gpt-6"}, reservation, false},
		{"an answer for nothing", true, Ending{Class: Answered, TokensKnown: true}, reservation, false},
		{"nothing told", true, Ending{Class: Answered}, reservation, false},
		{"a limit at once", true, Ending{Class: Limit, TokensKnown: true}, 0, true},
		{"a limit, and nothing told", true, Ending{Class: Limit}, reservation, false},
		{"killed after the last figure", true, Ending{Class: Unanswered, Killed: true, CostMicroUSD: 7, CostKnown: true}, 7, false},
		{"killed before any", true, Ending{Class: Unanswered, Killed: true}, reservation, false},
		{"a session that is not there", true, Ending{Class: Fatal, SessionLost: true}, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var a Answer
			usd := slice.USD(reservation)
			a.settle(Call{Agent: slice.Agent{USD: &usd}, Prices: price}, c.started, c.e)
			require.Equal(t, c.cost, a.CostMicroUSD)
			require.Equal(t, c.known, a.CostKnown)
		})
	}
}

func TestProgramsThatCannotBeRun(t *testing.T) {
	s, _ := double(t, slice.AdapterGemini, "")
	s.call.Agent.Run = nil
	a := s.ask(t)
	require.Equal(t, Fatal, a.Class)
	require.Contains(t, a.Reason, `"gemini" was not found`)
	require.Zero(t, a.CostMicroUSD)

	s.call.Brief = JudgeBrief{}
	s.call.Agent.Run = slice.Argv{"./judge"}
	a = s.ask(t)
	require.Equal(t, Fatal, a.Class)
	require.Contains(t, a.Reason, "an agent wrote")
	outcome, cause, ok := a.Class.Ends()
	require.True(t, ok)
	require.Equal(t, machine.Unanswered, outcome)
	require.Equal(t, machine.CauseFatal, cause)
}

// A program that is stuck is ended, and what it is stuck at may be over at the
// next try.
func TestAProgramThatIsStuck(t *testing.T) {
	s, _ := double(t, slice.AdapterOpencode, `while :; do echo '{"type":"step_finish","sessionID":"ses_1","part":{"reason":"unknown","cost":0}}'; sleep 0.01; done`)
	a := s.ask(t)
	require.Equal(t, Transient, a.Class, a.Reason)
	require.Equal(t, "ses_1", a.Session)
}

func TestMirrorLeavesInstructionsOut(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "view")
	for _, name := range []string{"a.go", "sub/b.go", "sub/agents.MD", "GEMINI.md", ".gemini/settings.json", ".git/config", "opencode.json", "docs/AGENTS.md.txt"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(from, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(from, name), []byte(name), 0o600))
	}
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(from, "link")))
	for range 2 { // it may be there already
		require.NoError(t, mirror(from, to))
		var names []string
		require.NoError(t, filepath.WalkDir(to, func(path string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				rel, _ := filepath.Rel(to, path)
				names = append(names, rel)
			}
			return err
		}))
		require.Equal(t, []string{"a.go", "docs/AGENTS.md.txt", "sub/b.go"}, names)
		require.Equal(t, "sub/b.go", content(t, to, "sub/b.go"))
	}
}

func TestCommandLines(t *testing.T) {
	dir, own := t.TempDir(), t.TempDir()
	env, err := Environment(own, nil, func(string) (string, bool) { return "", false })
	require.NoError(t, err)
	for use, p := range programs {
		for _, brief := range []Brief{implementBrief(10), JudgeBrief{}, JudgeSliceBrief{}, AdviseBrief{}, ReconcileBrief{}} {
			r := request{
				Call: Call{Agent: slice.Agent{Model: "m"}, Brief: brief, Dir: dir, Env: env, Session: "s-1"},
				role: brief.Role(), dir: dir, own: own, reservation: reservation,
			}
			in, err := p.command(r)
			require.NoError(t, err)
			line := strings.Join(in.args, " ") + " " + strings.Join(in.env, " ")
			require.Contains(t, line, "s-1", use)
			require.Contains(t, line, "m", use)
			writes := map[slice.Adapter]string{
				slice.AdapterClaude: "acceptEdits", slice.AdapterCodex: "workspace-write",
				slice.AdapterGemini: "yolo", slice.AdapterOpencode: `"bash":"allow"`,
			}[use]
			require.Equal(t, !brief.Role().ReadOnly(), strings.Contains(line, writes), "%s as %s: %s", use, brief.Role(), line)
			for _, arg := range in.args {
				require.Less(t, len(arg), 16<<10)
			}
		}
	}
}
