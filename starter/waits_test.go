package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"interlock/activities/agent"
	"interlock/activities/git"
	"interlock/machine"
	"interlock/slice"
)

// site is a home with its server, and a worker that comes and goes.
type site struct {
	t             *testing.T // of the whole, which the processes live as long as
	home, address string
	keeper        *commandLine
	worker        *commandLine
	client        client.Client
}

func newSite(t *testing.T) *site {
	t.Helper()
	withServer(t)
	for name, value := range map[string]string{"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1",
		"TEMPORAL_CONFIG_FILE": "/nonexistent", "TEMPORAL_ADDRESS": "", "INTERLOCK_HOME": filepath.Join(t.TempDir(), "none")} {
		t.Setenv(name, value)
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	s := &site{t: t, home: filepath.Join(dir, "home")}
	s.keeper = interlock(t, "server", "--home", s.home, "-o", "json")
	eventually(t, func() bool {
		var v serving
		b, err := os.ReadFile(filepath.Join(s.home, "server.json"))
		if err != nil || json.Unmarshal(b, &v) != nil {
			return false
		}
		s.address = v.Address
		c, err := client.Dial(client.Options{HostPort: s.address, Logger: silent{}})
		if err != nil {
			return false
		}
		s.client = c
		return true
	}, func() string { return "no server:\n" + s.keeper.told() })
	t.Cleanup(s.client.Close)
	t.Cleanup(func() {
		if t.Failed() && s.worker != nil {
			t.Log(s.worker.told())
		}
	})
	return s
}

type silent struct{}

func (silent) Debug(string, ...any) {}
func (silent) Info(string, ...any)  {}
func (silent) Warn(string, ...any)  {}
func (silent) Error(string, ...any) {}

// work makes sure that a worker serves, rest that none does.
func (s *site) work(t *testing.T) {
	t.Helper()
	if s.worker == nil {
		s.worker = interlock(s.t, "worker", "--home", s.home)
		s.worker.tells(t, "worker is serving")
	}
}

func (s *site) rest(t *testing.T) {
	t.Helper()
	if s.worker != nil {
		require.NoError(t, s.worker.cmd.Process.Signal(os.Interrupt))
		s.worker.exit(t, 30*time.Second)
		s.worker = nil
	}
}

// call runs the command line in the site's home.
func (s *site) call(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return call(t, append(args, "--home", s.home)...)
}

// does is call for a command that must end with a code.
func (s *site) does(t *testing.T, want int, args ...string) (stdout, stderr string) {
	t.Helper()
	t.Log("interlock", args)
	code, stdout, stderr := s.call(t, args...)
	require.Equal(t, want, code, "interlock %s\n%s%s", strings.Join(args, " "), stdout, stderr)
	return stdout, stderr
}

const (
	scripted = `agents:
  implementer: {use: command, run: [/bin/sh, -c, "echo hello >hello.txt; echo '{\"status\":\"done\",\"cost_usd\":0.01}'"], timeout: 1m, usd: 0.05}
  judges: [{name: reader, use: command, run: [/bin/sh, -c, "echo '{\"scores\":[{\"criterion\":\"It works.\",\"score\":5,\"reason\":\"so\"}],\"findings\":[],\"cost_usd\":0.01}'"], timeout: 1m, usd: 0.05}]
rubric: [{criterion: It works.}]
checks: [{name: works, run: "test -s README.md && ! grep -qs BROKEN hello.txt"}]
budgets: {usd: 2}
`
	fromOutside = `agents:
  implementer: {use: external, usd: 0}
  judges: [{name: reader, use: external, usd: 0}]
rubric: [{criterion: It works.}]
checks: [{name: works, run: "test -s README.md && ! grep -qs BROKEN hello.txt"}]
budgets: {usd: 2}
`
	bothGates = "gates: {plan: true, publish: true}\n"
)

// begin starts a slice of one task on a repository with that policy.
func (s *site) begin(t *testing.T, id, policy string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	repo := filepath.Join(dir, "repository")
	require.NoError(t, os.MkdirAll(repo, 0o755))
	for name, text := range map[string]string{
		"repository/README.md": "a sample\n", "repository/" + slice.PolicyFile: policy,
		"slice.yaml": fmt.Sprintf("id: %s\nrepo: ./repository\nbase: main\ntitle: Say hello\ntasks:\n- {id: hello, criterion: There is a greeting., details: In hello.txt.}\n", id),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	for _, args := range [][]string{{"init", "--quiet", "--initial-branch=main"}, {"add", "--", "."}, {"commit", "--quiet", "--message=Begin"}} {
		_, err := git.Client{Dir: repo}.Output(t.Context(), args...)
		require.NoError(t, err)
	}
	s.does(t, 0, "start", filepath.Join(dir, "slice.yaml"))
}

// waitsAt waits until the slice waits at a step, and returns what is due.
func (s *site) waitsAt(t *testing.T, id string, step machine.Step) (d due) {
	t.Helper()
	said := ""
	eventually(t, func() bool {
		code, stdout, stderr := s.call(t, "next", id, "-o", "json")
		said = stdout + stderr
		d = due{}
		return code == 0 && json.Unmarshal([]byte(stdout), &d) == nil && d.Step == step && d.Waiting != nil
	}, func() string { return "it never waits at " + string(step) + ":\n" + said })
	return d
}

func (s *site) status(t *testing.T, id string) slice.Status {
	t.Helper()
	out, _ := s.does(t, 0, "status", id, "-o", "json")
	var r report
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	require.NotNil(t, r.Live)
	return *r.Live
}

// ends waits for the end of a slice and returns its result.
func (s *site) ends(t *testing.T, want int, id string) slice.Result {
	t.Helper()
	wait := interlock(t, "wait", id, "--home", s.home, "-o", "json")
	require.Equal(t, want, wait.exit(t, 60*time.Second), wait.told())
	var r slice.Result
	require.NoError(t, json.Unmarshal(wait.stdout.Bytes(), &r), wait.stdout.String())
	return r
}

// stock is the `temporal` client, built once and kept in the build cache of this user.
func stock(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	binary := filepath.Join(cache, "interlock", "temporal-client")
	out, err := exec.Command("go", "build", "-modfile=../tools.mod", "-o", binary, "github.com/temporalio/cli/cmd/temporal").CombinedOutput()
	if err != nil {
		t.Skipf("the temporal client cannot be built here: %v\n%s", err, out)
	}
	return binary
}

// TestWaits goes through everything that a slice waits for, on one server.
func TestWaits(t *testing.T) {
	s := newSite(t)
	for _, c := range []struct {
		name string
		test func(*testing.T, *site)
	}{
		{"approved on the command line", approved},
		{"by a Go client", byClient},
		{"by the temporal client", byStock},
		{"two approvals in one workflow task", twoInOneTask},
		{"a late update", lateUpdate},
		{"rejected", rejected},
		{"asked anew", askedAnew},
		{"cancelled at a gate", cancelledAtGate},
		{"driven from outside", drivenFromOutside},
		{"what nobody knows", nobodyKnows},
		{"attributes are not registered", unregistered},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, s) })
	}
}

func approved(t *testing.T, s *site) {
	s.work(t)
	s.begin(t, "approved", scripted+bothGates)
	at := s.waitsAt(t, "approved", machine.PlanGate)
	require.Equal(t, []string{
		"interlock approve approved --subject " + at.Waiting.Subject + " --home " + s.home,
		"interlock reject approved --subject " + at.Waiting.Subject + " --home " + s.home,
	}, at.Commands)

	// Where nobody can be asked, it shows what waits and decides nothing.
	shown, stderr := s.does(t, exitUsage, "approve", "approved")
	require.Contains(t, stderr, "--subject "+at.Waiting.Subject)
	for _, want := range []string{"plan_gate  Say hello", "1. hello: There is a greeting.", "In hello.txt.", slice.PolicyFile + " at the base\n",
		"judge reader: ", "checks   works: test -s README.md", "gates    plan, publish", "$2.00 for the slice", at.Waiting.Subject} {
		require.Contains(t, shown, want)
	}
	out, _ := s.does(t, 0, "status", "approved")
	require.Contains(t, out, "interlock approve approved --subject "+at.Waiting.Subject)
	require.Contains(t, out, "waits    approval until ")

	_, stderr = s.does(t, machine.ExitNotDue, "approve", "approved", "--subject", strings.Repeat("0", 64))
	require.Contains(t, stderr, "plan_gate waits for a decision on "+at.Waiting.Subject)
	s.does(t, exitUsage, "approve", "approved", "--subject", at.Waiting.Subject, "--by", strings.Repeat("x", 300))

	plan := []string{"approve", "approved", "--subject", at.Waiting.Subject, "--by", "Ada <ada@example.com>", "--note", "go on", "-o", "json"}
	first, _ := s.does(t, 0, plan...)
	require.Contains(t, first, `"step": "plan_gate"`)
	gate := s.waitsAt(t, "approved", machine.PublishGate)
	again, _ := s.does(t, 0, plan...)
	require.Equal(t, first, again, "the same decision has the same answer")
	require.Equal(t, gate.Waiting.Since, s.waitsAt(t, "approved", machine.PublishGate).Waiting.Since, "and is taken once")
	s.does(t, machine.ExitNotDue, "approve", "approved", "--subject", at.Waiting.Subject, "--by", "Grace")

	shown, _ = s.does(t, exitUsage, "approve", "approved")
	for _, want := range []string{"publish_gate  Say hello", "commit   " + gate.Waiting.Subject, "diff     1 file, +1 -0", "A   +1 -0  hello.txt",
		"judge · task 1 · attempt 1  done  reader: mean 5.000", "verify  done", "works  done", "$0.03 of at most $2.00", "policy names no e2e"} {
		require.Contains(t, shown, want)
	}
	out, _ = s.does(t, 0, "list")
	require.Contains(t, strings.Split(out, "\n")[1], "approved", "those that wait for a person come first")
	_, out, _ = call(t, "__complete", "approve", "--home", s.home, "")
	require.Contains(t, out, "approved\tpublish_gate")
	s.does(t, 0, "approve", "approved", "--subject", gate.Waiting.Subject)
	r := s.ends(t, 0, "approved")
	require.Equal(t, gate.Waiting.Subject, r.Commit)
	out, _ = s.does(t, 0, "ledger", "approved")
	require.Contains(t, out, "approved by Ada <ada@example.com>: go on")
	_, stderr = s.does(t, machine.ExitNotDue, "next", "approved")
	require.Contains(t, stderr, "has ended as delivered")
	s.does(t, machine.ExitNotDue, "reject", "approved")
	s.does(t, exitPrecondition, "approve", "nobody", "--subject", "x")
}

func byClient(t *testing.T, s *site) {
	s.work(t)
	s.begin(t, "client", scripted+bothGates)
	plan := s.waitsAt(t, "client", machine.PlanGate).Waiting.Subject
	update := func(d slice.Decision) error {
		handle, err := s.client.UpdateWorkflow(t.Context(), client.UpdateWorkflowOptions{WorkflowID: "client", UpdateName: slice.Decide,
			Args: []any{d}, WaitForStage: client.WorkflowUpdateStageCompleted})
		require.NoError(t, err)
		return handle.Get(t.Context(), nil)
	}
	var refused *temporal.ApplicationError
	require.ErrorAs(t, update(slice.Decision{Subject: plan, By: "x"}), &refused, "the zero verdict is never yes")
	require.Equal(t, slice.ErrBadDecision, refused.Type())
	require.ErrorAs(t, update(slice.Decision{Verdict: slice.Approved, By: "x"}), &refused, "a subject is required")
	require.ErrorAs(t, update(slice.Decision{Verdict: slice.Approved, Subject: plan}), &refused, "and who decides")
	require.NoError(t, update(slice.Decision{Verdict: slice.Approved, Subject: plan, By: "x"}))
	commit := s.waitsAt(t, "client", machine.PublishGate).Waiting.Subject
	require.NoError(t, s.client.SignalWorkflow(t.Context(), "client", "", slice.Decide, slice.Decision{Verdict: slice.Approved, Subject: commit, By: "x"}))
	s.ends(t, 0, "client")
}

func byStock(t *testing.T, s *site) {
	program := stock(t)
	s.work(t)
	s.begin(t, "stock", scripted+bothGates)
	temporal := func(args ...string) (string, error) {
		cmd := exec.Command(program, append(args, "--workflow-id", "stock", "--address", s.address)...)
		cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	decision := func(verdict, subject string) string {
		return fmt.Sprintf(`{"verdict":%q,"subject":%q,"by":"Ada"}`, verdict, subject)
	}
	plan := s.waitsAt(t, "stock", machine.PlanGate).Waiting.Subject
	out, err := temporal("workflow", "update", "execute", "--name", "decide", "--input", decision("maybe", plan))
	require.Error(t, err)
	require.Contains(t, out, "want approved or rejected")
	out, err = temporal("workflow", "update", "execute", "--name", "decide", "--input", decision("approved", plan))
	require.NoError(t, err, out)
	commit := s.waitsAt(t, "stock", machine.PublishGate).Waiting.Subject
	out, err = temporal("workflow", "signal", "--name", "decide", "--input", decision("approved", commit))
	require.NoError(t, err, out)
	s.ends(t, 0, "stock")
}

// twoInOneTask sends two approvals to a slice without a worker. Both come in
// one workflow task: the second must not approve the next gate.
func twoInOneTask(t *testing.T, s *site) {
	s.work(t)
	s.begin(t, "two", scripted+bothGates)
	plan := s.waitsAt(t, "two", machine.PlanGate).Waiting.Subject
	s.rest(t)
	for _, by := range []string{"Ada", "Grace"} {
		out, _ := s.does(t, 0, "approve", "two", "--subject", plan, "--by", by, "--signal")
		require.Contains(t, out, "the decision is with the server")
	}
	require.NoError(t, s.client.SignalWorkflow(t.Context(), "two", "", slice.Decide, map[string]any{"verdict": 7}), "what is no decision at all")
	s.work(t)
	gate := s.waitsAt(t, "two", machine.PublishGate)
	status := s.status(t, "two")
	require.Equal(t, 1, status.Ignored.Count)
	require.Contains(t, status.Ignored.Last, "decide: ")
	require.Equal(t, gate.Waiting.Since, s.waitsAt(t, "two", machine.PublishGate).Waiting.Since)
	out, _ := s.does(t, 0, "status", "two")
	require.Contains(t, out, "ignored  1 message; the last: decide: ")
	s.does(t, 0, "approve", "two", "--subject", gate.Waiting.Subject)
	s.ends(t, 0, "two")
	events := decisions(t, s, "two")
	require.Equal(t, "approved by Ada", events[0])
}

// decisions are the words of the gates in the record.
func decisions(t *testing.T, s *site, id string) (out []string) {
	t.Helper()
	text, _ := s.does(t, 0, "ledger", id, "-o", "json")
	for line := range strings.Lines(text) {
		var l struct {
			Kind, Why string
			Turn      machine.Turn
		}
		require.NoError(t, json.Unmarshal([]byte(line), &l))
		if l.Kind == "done" && (l.Turn.Step == machine.PlanGate || l.Turn.Step == machine.PublishGate) {
			out = append(out, l.Why)
		}
	}
	return out
}

// lateUpdate sends updates that nobody answers in time: the server may deliver
// them later, and then they are taken once, or refused as at any other time.
func lateUpdate(t *testing.T, s *site) {
	s.work(t)
	s.begin(t, "late", scripted+bothGates)
	plan := s.waitsAt(t, "late", machine.PlanGate).Waiting.Subject
	s.rest(t)
	command := []string{"approve", "late", "--subject", plan, "--by", "Ada", "--timeout", "2s"}
	_, stderr := s.does(t, exitPrecondition, command...)
	require.Contains(t, stderr, "no worker answered within 2s: whether slice late will take it is unknown")
	require.Contains(t, stderr, "--signal")
	_, stderr = s.does(t, exitPrecondition, "approve", "late")
	require.Contains(t, stderr, "no worker answers for slice late")
	s.work(t)
	s.does(t, 0, command...)
	commit := s.waitsAt(t, "late", machine.PublishGate).Waiting.Subject
	s.does(t, 0, command...)

	s.rest(t)
	s.does(t, exitPrecondition, "approve", "late", "--subject", plan, "--by", "Grace", "--timeout", "2s")
	s.work(t)
	s.does(t, machine.ExitNotDue, "approve", "late", "--subject", plan, "--by", "Grace")
	require.Equal(t, commit, s.waitsAt(t, "late", machine.PublishGate).Waiting.Subject, "a stale approval approves nothing")
	s.does(t, 0, "approve", "late", "--subject", commit, "--by", "Grace")
	s.ends(t, 0, "late")
	require.Equal(t, []string{"approved by Ada", "approved by Grace"}, decisions(t, s, "late"))
}

func rejected(t *testing.T, s *site) {
	s.work(t)
	s.begin(t, "rejected", scripted+bothGates)
	plan := s.waitsAt(t, "rejected", machine.PlanGate).Waiting.Subject
	command := []string{"reject", "rejected", "--subject", plan, "--by", "Ada", "--note", "not like this"}
	s.does(t, 0, command...)
	r := s.ends(t, 17, "rejected")
	require.Equal(t, machine.Rejected, r.Ending)
	require.Equal(t, "rejected by Ada: not like this", r.Why)
	s.does(t, 0, command...)
	_, stderr := s.does(t, machine.ExitNotDue, "approve", "rejected", "--subject", plan)
	require.Contains(t, stderr, "rejected")
}

func askedAnew(t *testing.T, s *site) {
	s.work(t)
	s.begin(t, "anew", scripted+"gates: {plan: true, expire: 1s}\n")
	first := s.waitsAt(t, "anew", machine.PlanGate)
	follower := interlock(t, "wait", "anew", "--home", s.home)
	var later due
	eventually(t, func() bool {
		later = s.waitsAt(t, "anew", machine.PlanGate)
		return later.Waiting.Asked > 2
	}, func() string { return "it is never asked anew" })
	require.Greater(t, later.Waiting.Until, first.Waiting.Until)
	require.Equal(t, first.Waiting.Subject, later.Waiting.Subject)
	follower.tells(t, "waiting for approval until ")
	follower.tells(t, "interlock approve anew --subject "+first.Waiting.Subject)
	s.does(t, 0, "approve", "anew", "--subject", first.Waiting.Subject)
	require.Equal(t, 0, follower.exit(t, 60*time.Second), follower.told())
}

func cancelledAtGate(t *testing.T, s *site) {
	s.work(t)
	s.begin(t, "cancelled", scripted+bothGates)
	plan := s.waitsAt(t, "cancelled", machine.PlanGate).Waiting.Subject
	cancel := interlock(t, "cancel", "cancelled", "--home", s.home)
	require.Equal(t, 0, cancel.exit(t, 60*time.Second), cancel.told())
	r := s.ends(t, 21, "cancelled")
	require.Equal(t, machine.PlanGate, r.Step)
	s.does(t, machine.ExitNotDue, "approve", "cancelled", "--subject", plan)
	require.NoDirExists(t, filepath.Join(s.home, "workspaces", "cancelled", "tree"))
}

// drivenFromOutside is a slice whose work and verdicts come from a shell.
func drivenFromOutside(t *testing.T, s *site) {
	s.work(t)
	s.begin(t, "pull", fromOutside)
	at := s.waitsAt(t, "pull", machine.Implement)
	require.Equal(t, slice.RoleImplementer, at.Waiting.Role)
	require.Contains(t, at.Commands, "interlock report pull --step implement --task 1 --attempt 1 --file ANSWER.json --home "+s.home)
	brief, _ := s.does(t, 0, "next", "pull", "--brief")
	again, _ := s.does(t, 0, "next", "pull", "--brief")
	require.Equal(t, brief, again)
	var implement agent.ImplementBrief
	require.NoError(t, json.Unmarshal([]byte(brief), &implement))
	require.Equal(t, "There is a greeting.", implement.Task.Criterion)
	require.Equal(t, agent.Implementer, implement.Head.Role)
	require.JSONEq(t, string(agent.Schema(agent.Implementer)), string(implement.AnswerSchema))
	require.Equal(t, []string{"test -s README.md && ! grep -qs BROKEN hello.txt"}, implement.MeasuredBy)
	text, _ := s.does(t, 0, "next", "pull")
	require.Contains(t, text, "folder   "+at.Folder)
	require.Contains(t, text, "report   interlock report pull --step implement")

	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	done := file("done.json", `{"status": "done"}`)
	verdict := file("verdict.json", `{"scores":[{"criterion":"It works.","score":5,"reason":"so"}],"findings":[]}`)
	_, stderr := s.does(t, machine.ExitNotDue, "report", "pull", "--step", "judge", "--task", "1", "--file", verdict)
	require.Contains(t, stderr, "due is implement · task 1 · attempt 1 (implementer)")
	_, stderr = s.does(t, machine.ExitNotDue, "report", "pull", "--step", "implement", "--task", "2", "--file", done)
	require.Contains(t, stderr, "step implement of task 2 is not due")
	s.does(t, machine.ExitNotDue, "report", "pull", "--step", "implement", "--task", "1", "--attempt", "2", "--file", done)
	_, stderr = s.does(t, exitUsage, "report", "pull", "--step", "implement", "--task", "1", "--file", file("bad.json", `{"status":"perhaps"}`))
	require.Contains(t, stderr, "at /status: value must be one of 'done', 'failed'")
	s.does(t, exitUsage, "report", "pull", "--step", "implement", "--task", "1", "--file", file("none.json", ``))
	s.does(t, exitUsage, "report", "pull", "--step", "commit", "--task", "1", "--file", done)
	s.does(t, exitUsage, "report", "pull", "--step", "implement", "--task", "1")

	// A file that cannot be part of a candidate: the step is repeated, and the
	// same words are another report.
	hello := filepath.Join(at.Folder, "hello.txt")
	nested := filepath.Join(at.Folder, "nested")
	_, err := git.Client{Dir: at.Folder}.Output(t.Context(), "init", "--quiet", "--", nested)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(nested, "x"), nil, 0o644))
	report := []string{"report", "pull", "--step", "implement", "--task", "1", "--file", done}
	s.does(t, 0, report...)
	eventually(t, func() bool {
		return s.status(t, "pull").State.Used.Discards == 1 && s.waitsAt(t, "pull", machine.Implement).Waiting != nil
	}, func() string { return "the answer is not discarded" })
	brief, _ = s.does(t, 0, "next", "pull", "--brief")
	require.Contains(t, brief, "the files cannot be taken")
	require.NoError(t, os.RemoveAll(nested))

	require.NoError(t, os.WriteFile(hello, []byte("BROKEN\n"), 0o644))
	s.does(t, 0, report...)
	eventually(t, func() bool {
		return s.waitsAt(t, "pull", machine.Implement).Attempt == 2
	}, func() string { return "a red check asks for nothing" })
	brief, _ = s.does(t, 0, "next", "pull", "--brief")
	require.Contains(t, brief, `"outcome": "failed"`)
	require.NoError(t, os.WriteFile(hello, []byte("hello\n"), 0o644))
	second := append(report, "--attempt", "2", "-o", "json")
	first, _ := s.does(t, 0, second...)
	judge := s.waitsAt(t, "pull", machine.Judge)
	twice, _ := s.does(t, 0, second...)
	require.Equal(t, first, twice, "the same report has the same answer")
	require.Equal(t, judge.Waiting.Since, s.waitsAt(t, "pull", machine.Judge).Waiting.Since)

	require.Contains(t, judge.Commands, "interlock report pull --step judge --task 1 --attempt 2 --role reader --file ANSWER.json --home "+s.home)
	looked, err := os.ReadFile(filepath.Join(judge.Folder, "hello.txt"))
	require.NoError(t, err)
	require.Equal(t, "hello\n", string(looked))
	var asked agent.JudgeBrief
	require.NoError(t, json.Unmarshal(judge.Brief, &asked))
	require.Contains(t, asked.Diff, "+hello")
	require.Equal(t, machine.Done, asked.Checks[0].Outcome)
	_, stderr = s.does(t, exitUsage, "report", "pull", "--step", "judge", "--task", "1", "--file", file("other.json", `{"scores":[{"criterion":"It is short.","score":5,"reason":"so"}],"findings":[]}`))
	require.Contains(t, stderr, "is no criterion of the rubric")
	_, stderr = s.does(t, machine.ExitNotDue, "report", "pull", "--step", "judge", "--task", "1", "--role", "writer", "--file", verdict)
	require.Contains(t, stderr, `no report of "writer" is waited for`)
	s.does(t, 0, "report", "pull", "--step", "judge", "--task", "1", "--role", "reader", "--file", verdict)

	// The last one comes as a signal, with no worker.
	s.waitsAt(t, "pull", machine.JudgeSlice)
	s.rest(t)
	s.does(t, exitPrecondition, "report", "pull", "--step", "judge_slice", "--file", verdict, "--timeout", "2s")
	s.does(t, 0, "report", "pull", "--step", "judge_slice", "--file", verdict, "--signal")
	s.work(t)
	r := s.ends(t, 0, "pull")
	require.EqualValues(t, 0, r.CostMicroUSD)
	s.does(t, machine.ExitNotDue, "report", "pull", "--step", "implement", "--task", "1", "--attempt", "7", "--file", done)
}

// nobodyKnows is a slice whose e2e cannot be measured: the gate says so. The
// policy is the slice's alone.
func nobodyKnows(t *testing.T, s *site) {
	s.work(t)
	s.begin(t, "unknown", scripted+"gates: {publish: true}\ne2e: [{name: smoke, run: [no-such-program]}]\ne2e_unmeasured: deliver\n")
	s.waitsAt(t, "unknown", machine.PublishGate)
	shown, _ := s.does(t, exitUsage, "approve", "unknown")
	require.Contains(t, shown, "unknown  e2e could not be measured, and policy delivers all the same")
	require.Contains(t, shown, "smoke  unmeasured")
	cancel := interlock(t, "cancel", "unknown", "--home", s.home)
	require.Equal(t, 0, cancel.exit(t, 60*time.Second), cancel.told())
}

// unregistered is a namespace without the search attributes: a worker refuses
// to start, and doctor mends it.
func unregistered(t *testing.T, s *site) {
	s.rest(t)
	const namespace = "bare"
	newNamespace(t, s.address, namespace, 3*24*time.Hour)
	worker := func() *commandLine {
		return interlock(t, "worker", "--address", s.address, "--namespace", namespace, "--home", s.home)
	}
	refused := worker()
	require.Equal(t, exitPrecondition, refused.exit(t, 60*time.Second), refused.told())
	require.Contains(t, refused.told(), "lacks search attributes")

	doctor := []string{"doctor", "--address", s.address, "--namespace", namespace, "-o", "json"}
	var v diagnosis
	out, _ := s.does(t, exitPrecondition, doctor...)
	require.NoError(t, json.Unmarshal([]byte(out), &v))
	require.False(t, v.OK)
	require.Equal(t, broken, found(t, v, "attributes").State)
	require.Contains(t, found(t, v, "attributes").Mend, "--fix")
	require.Equal(t, doubt, found(t, v, "retention").State)
	require.Contains(t, found(t, v, "retention").Mend, "namespace update --namespace bare --retention 30d")
	require.Equal(t, doubt, found(t, v, "approvals").State)

	out, _ = s.does(t, exitPrecondition, "doctor", "--address", s.address, "--namespace", "nowhere", "-o", "json")
	require.NoError(t, json.Unmarshal([]byte(out), &v))
	fails(t, found(t, v, "retention"), broken, `has no namespace "nowhere"`, "temporal operator namespace create --namespace nowhere --retention 30d")

	out, _ = s.does(t, 0, append(doctor, "--fix")...)
	require.NoError(t, json.Unmarshal([]byte(out), &v))
	require.Equal(t, fine, found(t, v, "attributes").State)
	worker().tells(t, "worker is serving")
}

func found(t *testing.T, v diagnosis, probe string) finding {
	t.Helper()
	for _, f := range v.Findings {
		if f.Probe == probe {
			return f
		}
	}
	require.Failf(t, "no such finding", "%s in %v", probe, v.Findings)
	return finding{}
}

func newNamespace(t *testing.T, address, name string, retention time.Duration) {
	t.Helper()
	c, err := client.NewNamespaceClient(client.Options{HostPort: address, Logger: silent{}})
	require.NoError(t, err)
	defer c.Close()
	known, err := c.Describe(t.Context(), client.DefaultNamespace)
	require.NoError(t, err)
	period := known.GetConfig().GetWorkflowExecutionRetentionTtl()
	period.Seconds = int64(retention / time.Second)
	require.NoError(t, c.Register(t.Context(), &workflowservice.RegisterNamespaceRequest{Namespace: name, WorkflowExecutionRetentionPeriod: period}))
	eventually(t, func() bool {
		var out bytes.Buffer
		code := run([]string{"list", "--address", address, "--namespace", name}, strings.NewReader(""), &out, &out)
		return code == 0
	}, func() string { return "the namespace does not come" })
}
