package agent

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"interlock/activities/evidence"
	"interlock/slice"
)

// installed are the versions of the programs that were seen to work.
var installed = map[slice.Adapter]struct {
	pkg string
	run []string // below the folder of the installation
}{
	slice.AdapterClaude:   {"@anthropic-ai/claude-code@2.1.332", []string{"@anthropic-ai/claude-code-linux-x64/claude"}},
	slice.AdapterCodex:    {"@openai/codex@0.171.0", []string{"@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex"}},
	slice.AdapterGemini:   {"@google/gemini-cli@0.61.0", []string{"node", "@google/gemini-cli/bundle/gemini.js"}},
	slice.AdapterOpencode: {"opencode-ai@1.18.33", []string{"opencode-linux-x64/bin/opencode"}},
}

var installing sync.Mutex

// install returns how a real program is begun. It is installed once into a
// cache; a test is skipped where that cannot be.
func install(t *testing.T, use slice.Adapter) slice.Argv {
	t.Helper()
	if testing.Short() {
		t.Skip("the real agent programs are left out of a short run")
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skip("the real agent programs need npm")
	}
	cache := os.Getenv("INTERLOCK_AGENT_PROGRAMS")
	if cache == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			t.Skip("no folder for a cache of agent programs: name one in INTERLOCK_AGENT_PROGRAMS")
		}
		cache = filepath.Join(base, "interlock-agent-programs")
	}
	p := installed[use]
	folder := filepath.Join(cache, strings.NewReplacer("/", "-", "@", "-").Replace(p.pkg))
	installing.Lock()
	defer installing.Unlock()
	if _, err := os.Stat(folder); err != nil {
		require.NoError(t, os.MkdirAll(cache, 0o700))
		fresh, err := os.MkdirTemp(cache, "new-") //nolint:usetesting // it becomes part of the cache by a rename
		require.NoError(t, err)
		defer func() { _ = os.RemoveAll(fresh) }()
		out, err := exec.CommandContext(t.Context(), npm, "install", "--prefix", fresh, "--ignore-scripts", "--no-audit", "--no-fund", p.pkg).CombinedOutput()
		if err != nil {
			t.Skipf("%s cannot be installed; is the npm registry reachable? %s", p.pkg, out[max(0, len(out)-300):])
		}
		if err := os.Rename(fresh, folder); err != nil {
			_, err = os.Stat(folder) // another test run was quicker
			require.NoError(t, err)
		}
	}
	var run slice.Argv
	for _, word := range p.run {
		if strings.Contains(word, "/") {
			word = filepath.Join(folder, "node_modules", word)
			_, err := os.Stat(word)
			require.NoError(t, err)
		} else if word, err = exec.LookPath(word); err != nil {
			t.Skipf("%s needs %s", p.pkg, p.run[0])
		}
		run = append(run, word)
	}
	return run
}

// stage is a real program with a model server of its own.
type stage struct {
	use     slice.Adapter
	adapter Adapter
	server  *modelServer
	call    Call
	// home is the folder of the slice's.
	home string
}

var stageModels = map[slice.Adapter]string{
	slice.AdapterClaude: "sonnet", slice.AdapterCodex: "gpt-5.5", slice.AdapterGemini: "gemini-2.5-pro", slice.AdapterOpencode: "openai/gpt-5.5",
}

func newStage(t *testing.T, use slice.Adapter) *stage {
	run := install(t, use)
	s := &stage{use: use, server: newModelServer(t), home: t.TempDir()}
	store, err := evidence.Open(filepath.Join(s.home, "evidence"))
	require.NoError(t, err)
	s.adapter, err = New(use, store)
	require.NoError(t, err)
	worker := map[string]string{
		"PATH": os.Getenv("PATH"), "UNRELATED_TOKEN": "must-not-be-seen",
		"ANTHROPIC_API_KEY": "fake-key-anthropic", "ANTHROPIC_BASE_URL": s.server.URL,
		"OPENAI_API_KEY": "fake-key-openai", "OPENAI_BASE_URL": s.server.URL + "/v1",
		"GEMINI_API_KEY": "fake-key-gemini", "GOOGLE_GEMINI_BASE_URL": s.server.URL,
	}
	pass := map[slice.Adapter][]string{
		slice.AdapterClaude:   {"ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"},
		slice.AdapterCodex:    {"OPENAI_API_KEY", "OPENAI_BASE_URL"},
		slice.AdapterGemini:   {"GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL"},
		slice.AdapterOpencode: {"OPENAI_API_KEY", "OPENAI_BASE_URL"},
	}
	env, err := Environment(s.home, pass[use], func(name string) (string, bool) { v, ok := worker[name]; return v, ok })
	require.NoError(t, err)
	usd := slice.USD(reservation)
	s.call = Call{
		Agent: slice.Agent{Use: use, Run: run, Model: stageModels[use], USD: &usd, Timeout: slice.Duration(4 * time.Minute)},
		Brief: implementBrief(70_000),
		Dir:   s.repository(t), Env: env, Own: s.home, Marker: "agent-test",
		Prices: []slice.Price{
			{Model: "gpt-5.5", Input: 1_250_000, CachedInput: ptr(slice.USD(125_000)), Output: 10_000_000},
			{Model: "gemini-2.5-pro", Input: 1_250_000, Output: 10_000_000},
		},
	}
	return s
}

func ptr[T any](v T) *T { return &v }

func implementBrief(details int) ImplementBrief {
	return ImplementBrief{
		Head: Head{Slice: "s", Title: "T"}, Attempt: 1, Protected: []string{"locked/**"},
		Task: slice.Task{ID: "t", Criterion: "it works", Details: strings.Repeat("a word ", details/7)},
	}
}

// repository is a tree in which every file that a program takes for
// instructions or settings has a canary, or would leave a file behind.
func (s *stage) repository(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(s.home, "tree")
	hooked := filepath.Join(s.home, "hooked")
	for name, content := range map[string]string{
		"main.go":                   "package main\n",
		"locked/x.go":               "package locked\n",
		"CLAUDE.md":                 "CANARY-CLAUDE",
		"CLAUDE.local.md":           "CANARY-CLAUDE-LOCAL",
		"AGENTS.md":                 "CANARY-AGENTS",
		"GEMINI.md":                 "CANARY-GEMINI",
		"sub/CLAUDE.md":             "CANARY-SUB-CLAUDE",
		"sub/AGENTS.md":             "CANARY-SUB-AGENTS",
		"sub/GEMINI.md":             "CANARY-SUB-GEMINI",
		"sub/code.go":               "package sub\n",
		".claude/settings.json":     fmt.Sprintf(`{"hooks":{"SessionStart":[{"hooks":[{"type":"command","command":"touch %s; echo CANARY-HOOK"}]}]}}`, hooked),
		".claude/rules/a.md":        "CANARY-RULE",
		".claude/skills/x/SKILL.md": "---\nname: x\ndescription: CANARY-SKILL\n---\nCANARY-SKILL\n",
		".agents/skills/x/SKILL.md": "---\nname: x\ndescription: CANARY-SKILL\n---\nCANARY-SKILL\n",
		".claude/agents/a.md":       "---\nname: a\ndescription: CANARY-AGENT\n---\nCANARY-AGENT\n",
		".mcp.json":                 fmt.Sprintf(`{"mcpServers":{"c":{"command":"/bin/sh","args":["-c","touch %s"]}}}`, hooked),
		".codex/config.toml":        `developer_instructions = "CANARY-CODEX"`,
		".gemini/settings.json":     fmt.Sprintf(`{"context":{"fileName":["AGENTS.md","GEMINI.md"]},"mcpServers":{"c":{"command":"/bin/sh","args":["-c","touch %s"]}}}`, hooked),
		".opencode/agent/build.md":  "---\ndescription: CANARY-OPENCODE\n---\nCANARY-OPENCODE\n",
		"opencode.json":             fmt.Sprintf(`{"instructions":["sub/AGENTS.md"],"mcp":{"c":{"type":"local","command":["sh","-c","touch %s"]}}}`, hooked),
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"}, {"-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", "base"}} {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.home, "GIT_CONFIG_NOSYSTEM=1"}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	return dir
}

// writes is how the model of a program writes a file; speaks how it answers.
func (s *stage) writes(name string) reply {
	path := filepath.Join(s.call.Dir, name)
	switch s.use {
	case slice.AdapterClaude:
		return reply{tool: "Write", input: m{"file_path": path, "content": "x\n"}}
	case slice.AdapterCodex:
		return reply{tool: "exec_command", input: m{"cmd": "mkdir -p " + filepath.Dir(path) + "; echo x > " + path}}
	case slice.AdapterGemini:
		return reply{tool: "write_file", input: m{"file_path": path, "content": "x\n"}}
	default:
		return reply{tool: "apply_patch", input: m{"patchText": "*** Begin Patch\n*** Add File: " + name + "\n+x\n*** End Patch"}}
	}
}

func (s *stage) shells(line string) reply {
	switch s.use {
	case slice.AdapterClaude:
		return reply{tool: "Bash", input: m{"command": line, "description": "d"}}
	case slice.AdapterCodex:
		return reply{tool: "exec_command", input: m{"cmd": line}}
	case slice.AdapterGemini:
		return reply{tool: "run_shell_command", input: m{"command": line}}
	default:
		return reply{tool: "bash", input: m{"command": line, "description": "d"}}
	}
}

func (s *stage) reads(name string) reply {
	path := filepath.Join(s.call.Dir, name)
	view := filepath.Join(s.call.Own, string(s.use), "view", name)
	switch s.use {
	case slice.AdapterClaude:
		return reply{tool: "Read", input: m{"file_path": path}}
	case slice.AdapterCodex:
		return reply{tool: "exec_command", input: m{"cmd": "cat " + path}}
	case slice.AdapterGemini:
		return reply{tool: "read_file", input: m{"file_path": view}}
	default:
		return reply{tool: "read", input: m{"filePath": view}}
	}
}

func (s *stage) speaks(answer string) reply {
	if s.use == slice.AdapterClaude {
		input := m{}
		if json.Unmarshal([]byte(answer), &input) == nil {
			return reply{tool: "StructuredOutput", input: input}
		}
	}
	return reply{text: answer}
}

func (s *stage) ask(t *testing.T) Answer {
	t.Helper()
	a, err := s.adapter.Call(t.Context(), s.call)
	require.NoError(t, err)
	if testing.Verbose() && os.Getenv("SHOW") != "" {
		for _, e := range a.Evidence {
			data, _ := s.adapter.(*Program).Evidence.Get(e.Hash)
			t.Logf("%s: %.6000s", e.Name, data)
		}
	}
	t.Logf("%s: %s session=%s model=%s cost=%d known=%v tokens=%+v reset=%s wait=%s fell back=%v %s", s.use, a.Class, a.Session, a.Model, a.CostMicroUSD, a.CostKnown, a.Tokens, a.ResetAt, a.Wait, a.FellBack, a.Reason)
	return a
}

// Two calls of the model are 10,000 tokens of input, of which 8,000 are cached,
// and 100 of output.
var twoCalls = map[slice.Adapter]Tokens{
	slice.AdapterClaude: {10_000, 8_000, 100}, slice.AdapterCodex: {10_000, 8_000, 100},
	slice.AdapterGemini: {10_000, 8_000, 100}, slice.AdapterOpencode: {10_000, 8_000, 100},
}

func TestRealPrograms(t *testing.T) {
	const done = `{"status":"done","summary":"You've hit your usage limit"}`
	for _, use := range known {
		t.Run(string(use), func(t *testing.T) {
			s := newStage(t, use)
			exists := func(name string) bool { _, err := os.Stat(filepath.Join(s.call.Dir, name)); return err == nil }

			s.server.will(s.writes("made.txt"), s.speaks(done))
			first := s.ask(t)
			require.Equal(t, Answered, first.Class, first.Reason)
			require.JSONEq(t, done, string(first.Raw))
			require.True(t, exists("made.txt"))
			require.NotEmpty(t, first.Session)
			require.True(t, first.CostKnown)
			require.Positive(t, first.CostMicroUSD)
			require.Equal(t, twoCalls[use], first.Tokens)
			bodies, keys := s.server.asked()
			require.Contains(t, strings.Join(bodies, ""), "a word a word")
			require.Contains(t, keys[0], "fake-key")
			require.NotContains(t, strings.Join(bodies, ""), "must-not-be-seen")

			s.call.Session = first.Session
			s.server.will(s.writes("again.txt"), s.speaks(done))
			second := s.ask(t)
			require.Equal(t, Answered, second.Class, second.Reason)
			require.Equal(t, first.Session, second.Session)
			require.False(t, second.FellBack)
			require.True(t, exists("again.txt"), "a resumed session may still write")
			require.Equal(t, first.CostMicroUSD, second.CostMicroUSD, "the cost of this call alone")
			require.Equal(t, first.Tokens, second.Tokens)

			s.call.Session = "11111111-2222-4333-8444-555555555555"
			s.server.will(s.speaks(done))
			fresh := s.ask(t)
			require.Equal(t, Answered, fresh.Class, fresh.Reason)
			require.True(t, fresh.FellBack)
			require.NotEqual(t, first.Session, fresh.Session)
			bodies, _ = s.server.asked()
			require.Contains(t, strings.Join(bodies, ""), "a word a word", "the whole brief")

			s.call.Session = ""
			if use != slice.AdapterCodex { // which has no rules for paths
				s.server.will(s.writes("locked/y.go"), s.speaks(done))
				require.Equal(t, Answered, s.ask(t).Class)
				require.False(t, exists("locked/y.go"), "a protected path")
			}

			s.server.will(s.shells("env > seen.txt"), s.speaks(done))
			require.Equal(t, Answered, s.ask(t).Class)
			seen, err := os.ReadFile(filepath.Join(s.call.Dir, "seen.txt"))
			require.NoError(t, err)
			if use == slice.AdapterCodex { // the others have no means
				require.NotContains(t, string(seen), "fake-key")
			}

			s.server.will(reply{status: 401, body: `{"type":"error","error":{"type":"authentication_error","message":"no such key","code":401,"status":"UNAUTHENTICATED"}}`})
			refused := s.ask(t)
			require.Equal(t, Fatal, refused.Class, refused.Reason)
			require.Zero(t, refused.CostMicroUSD)
		})
	}
}

func TestRealProgramsJudge(t *testing.T) {
	const verdict = `{"scores":[{"criterion":"does it solve the task","score":5,"reason":"r"}],"findings":[{"severity":"note","claim":"c"}]}`
	for _, use := range known {
		t.Run(string(use), func(t *testing.T) {
			s := newStage(t, use)
			s.call.Brief = JudgeBrief{Head: Head{Slice: "s", Title: "T"}, Task: slice.Task{ID: "t", Criterion: "it works"}}
			s.server.will(s.reads("sub/code.go"), s.writes("made.txt"), s.shells("echo x > "+filepath.Join(s.call.Dir, "shell.txt")), s.speaks(verdict))
			a := s.ask(t)
			require.Equal(t, Answered, a.Class, a.Reason)
			require.JSONEq(t, verdict, string(a.Raw))
			bodies, _ := s.server.asked()
			all := strings.Join(bodies, "")
			require.Contains(t, all, "package sub", "a judge reads the files")
			require.NotContains(t, all, "CANARY")
			for _, name := range []string{"made.txt", "shell.txt"} {
				require.NoFileExists(t, filepath.Join(s.call.Dir, name))
			}
			require.NoFileExists(t, filepath.Join(s.home, "hooked"))

			s.call.Brief = AdviseBrief{Head: Head{Slice: "s", Title: "T"}}
			s.call.Dir = t.TempDir()
			s.server.will(s.shells("touch "+filepath.Join(s.home, "hooked")), s.speaks(`{"advice":"begin with the test"}`))
			a = s.ask(t)
			require.Equal(t, Answered, a.Class, a.Reason)
			require.NoFileExists(t, filepath.Join(s.home, "hooked"))
		})
	}
}

// In the middle of its work each program meets a limit of its account; the
// session goes on after it.
func TestRealProgramsAtALimit(t *testing.T) {
	reset := time.Now().Add(20 * time.Minute).Truncate(time.Second).UTC()
	for _, c := range []struct {
		use   slice.Adapter
		reply reply
		exact bool
		wait  time.Duration
	}{
		{slice.AdapterClaude, reply{status: 429, body: `{"type":"error","error":{"type":"rate_limit_error","message":"limit"}}`, headers: map[string]string{
			"anthropic-ratelimit-unified-status": "rejected", "anthropic-ratelimit-unified-reset": fmt.Sprint(reset.Unix()),
			"anthropic-ratelimit-unified-representative-claim": "five_hour",
		}}, true, 0},
		{slice.AdapterCodex, reply{status: 429, body: fmt.Sprintf(`{"error":{"type":"usage_limit_reached","plan_type":"pro","resets_at":%d}}`, reset.Unix()), headers: map[string]string{
			"x-codex-primary-used-percent": "100", "x-codex-primary-window-minutes": "300", "x-codex-primary-reset-at": fmt.Sprint(reset.Unix()),
		}}, false, 0},
		{slice.AdapterGemini, reply{status: 429, body: `{"error":{"code":429,"message":"You exceeded your current quota. Please retry in 3600s.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"3600s"}]}}`}, false, time.Hour},
	} {
		t.Run(string(c.use), func(t *testing.T) {
			s := newStage(t, c.use)
			for i, e := range s.call.Env {
				if strings.HasPrefix(e, "ANTHROPIC_API_KEY=") {
					s.call.Env[i] = "CLAUDE_CODE_OAUTH_TOKEN=sk-ant-oat01-fake"
				}
			}
			s.server.will(s.writes("made.txt"), c.reply)
			a := s.ask(t)
			require.Equal(t, Limit, a.Class, a.Reason)
			require.Equal(t, c.wait, a.Wait)
			if c.wait == 0 {
				within := time.Minute // the text of Codex has no seconds
				if c.exact {
					within = 0
				}
				require.WithinDuration(t, reset, a.ResetAt, within)
			}
			require.True(t, a.CostKnown)
			require.Positive(t, a.CostMicroUSD, "what was used before the limit")
			require.FileExists(t, filepath.Join(s.call.Dir, "made.txt"))

			s.call.Session = a.Session
			s.server.will(s.speaks(`{"status":"done"}`))
			next := s.ask(t)
			require.Equal(t, Answered, next.Class, next.Reason)
			require.Equal(t, a.Session, next.Session)
			require.False(t, next.FellBack)
			require.Less(t, next.CostMicroUSD, 2*a.CostMicroUSD, "the cost of this call alone")
		})
	}
}

// A program that waits for ever for a provider that is not there is ended.
func TestRealCodexWithoutANetwork(t *testing.T) {
	s := newStage(t, slice.AdapterCodex)
	s.server.Close()
	s.call.Agent.Timeout = slice.Duration(time.Hour)
	s.adapter.(*Program).patience = 3 * time.Second
	a := s.ask(t)
	require.Equal(t, Transient, a.Class, a.Reason)
	require.Zero(t, a.CostMicroUSD)
}
