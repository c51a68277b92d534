package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"interlock/activities/git"
	"interlock/engine"
	"interlock/machine"
	"interlock/slice"
)

// withServer builds the embedded server, if it is not there yet.
func withServer(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("it needs the embedded server")
	}
	binary, err := engine.Build(t.Context(), engine.Options{})
	require.NoError(t, err)
	t.Setenv("INTERLOCK_DEVSERVER", binary)
	require.NoError(t, shareGoCache(t.Context()))
}

func TestEndToEnd(t *testing.T) {
	withServer(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/e2e",
		RequireExplicitExec: true,
		UpdateScripts:       *update,
		Setup: func(env *testscript.Env) error {
			env.Setenv("GOCACHE", os.Getenv("GOCACHE"))
			return isolate(env)
		},
		Cmds: commands,
	})
}

// process is one running command line.
type commandLine struct {
	cmd    *exec.Cmd
	ended  chan struct{}
	mu     sync.Mutex
	stderr bytes.Buffer
	stdout bytes.Buffer
}

// Write takes what is written to standard error.
func (c *commandLine) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stderr.Write(p)
}

func (c *commandLine) told() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stderr.String()
}

// interlock starts the command line as another process.
func interlock(t *testing.T, args ...string) *commandLine {
	t.Helper()
	c := &commandLine{cmd: exec.Command("interlock", args...), ended: make(chan struct{})}
	c.cmd.Stdout, c.cmd.Stderr = &c.stdout, c
	c.cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"TEMPORAL_CONFIG_FILE=/nonexistent", "TEMPORAL_ADDRESS=")
	require.NoError(t, c.cmd.Start())
	go func() {
		defer close(c.ended)
		_ = c.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		<-c.ended
	})
	return c
}

// exit waits for the end and returns the exit code.
func (c *commandLine) exit(t *testing.T, within time.Duration) int {
	t.Helper()
	select {
	case <-c.ended:
	case <-time.After(within):
		require.Failf(t, "it does not end", "%v after %s:\n%s", c.cmd.Args, within, c.told())
	}
	return c.cmd.ProcessState.ExitCode()
}

// tells waits until something was told.
func (c *commandLine) tells(t *testing.T, what string) {
	t.Helper()
	eventually(t, func() bool { return strings.Contains(c.told(), what) }, func() string { return "never told " + what + ":\n" + c.told() })
}

func eventually(t *testing.T, holds func() bool, otherwise func() string) {
	t.Helper()
	deadline := time.NewTimer(90 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline.C:
			require.Fail(t, otherwise())
		case <-tick.C:
		}
	}
}

// slowDemo is the demo's slice with an implementer that notes that it began,
// and waits for a file before it works.
type slowDemo struct{ dir, home, file, began, release string }

func newSlowDemo(t *testing.T) slowDemo {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, writeSample(t.Context(), dir))
	d := slowDemo{dir, filepath.Join(dir, "home"), filepath.Join(dir, "slice.yaml"), filepath.Join(dir, "began"), filepath.Join(dir, "release")}
	script := filepath.Join(dir, "agents", "implementer.sh")
	text, err := os.ReadFile(script)
	require.NoError(t, err)
	slow := strings.Replace(string(text), "set -eu\n", "set -eu\necho $$ >>'"+d.began+"'\nwhile [ ! -e '"+d.release+"' ]; do sleep 0.1; done\n", 1)
	require.NotEqual(t, string(text), slow)
	require.NoError(t, os.WriteFile(script, []byte(slow), 0o755))
	// It says outside that it began, and waits for a file there.
	repository := filepath.Join(dir, "repository")
	policy := filepath.Join(repository, slice.PolicyFile)
	kept, err := os.ReadFile(policy)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(policy, append(kept, "sandbox: \"off\"\n"...), 0o644))
	for _, args := range [][]string{
		{"-c", "user.name=x", "-c", "user.email=x@example.org", "commit", "--quiet", "--all", "--message=No sandbox"},
		{"push", "--quiet", "origin", "main"},
	} {
		call := exec.Command("git", args...)
		call.Dir = repository
		said, err := call.CombinedOutput()
		require.NoError(t, err, string(said))
	}
	return d
}

// agents returns the process ids of the implementers that began.
func (d slowDemo) agents(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile(d.began)
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(t, err)
	return strings.Fields(string(b))
}

func (d slowDemo) letGo(t *testing.T) {
	t.Helper()
	require.NoError(t, os.WriteFile(d.release, nil, 0o644))
}

// delivered checks the two commits and the record.
func (d slowDemo) delivered(t *testing.T, stdout string) {
	t.Helper()
	var r slice.Result
	require.NoError(t, json.Unmarshal([]byte(stdout), &r), stdout)
	require.Equal(t, machine.Delivered, r.Ending)
	out, err := git.Client{GitDir: filepath.Join(d.dir, "remote.git")}.Line(context.WithoutCancel(t.Context()),
		"log", "--reverse", "--format=%(trailers:key=Interlock-Task,valueonly,separator=)", "main..interlock/greet-everyone")
	require.NoError(t, err)
	require.Equal(t, "without-name\nmany-names", out)
	code, verified, stderr := call(t, "ledger", "greet-everyone", "--home", d.home, "--verify")
	require.Equal(t, 0, code, stderr)
	require.Contains(t, verified, "folds to delivered")
}

// TestInterrupted presses Ctrl-C while an agent works: the command line leaves
// within a second, the agent is ended, and the next run goes on.
func TestInterrupted(t *testing.T) {
	withServer(t)
	d := newSlowDemo(t)
	first := interlock(t, "run", d.file, "--home", d.home, "-o", "json")
	first.tells(t, "baseline")
	eventually(t, func() bool { return len(d.agents(t)) > 0 }, func() string { return "no agent began:\n" + first.told() })

	pressed := time.Now()
	require.NoError(t, first.cmd.Process.Signal(os.Interrupt))
	require.Equal(t, machine.ExitInterrupted, first.exit(t, 5*time.Second))
	require.Less(t, time.Since(pressed), 2*time.Second)
	require.Contains(t, first.told(), "interlock wait greet-everyone --home ")
	agent := d.agents(t)[0]
	eventually(t, func() bool {
		_, err := os.Stat("/proc/" + agent)
		return os.IsNotExist(err)
	}, func() string { return "agent " + agent + " is still there" })

	d.letGo(t)
	second := interlock(t, "wait", "greet-everyone", "--home", d.home, "-o", "json")
	require.Equal(t, 0, second.exit(t, 90*time.Second), second.told())
	d.delivered(t, second.stdout.String())
}

// TestTwoRuns runs one slice twice in one home: the second is a client that
// takes over worker and server when the first is killed.
func TestTwoRuns(t *testing.T) {
	withServer(t)
	d := newSlowDemo(t)
	first := interlock(t, "run", d.file, "--home", d.home)
	first.tells(t, "baseline")
	second := interlock(t, "run", d.file, "--home", d.home, "-o", "json")
	second.tells(t, "it was started before")
	eventually(t, func() bool { return len(d.agents(t)) > 0 }, func() string { return "no agent began:\n" + first.told() })

	require.NoError(t, first.cmd.Process.Kill())
	first.exit(t, 5*time.Second)
	d.letGo(t)
	require.Equal(t, 0, second.exit(t, 90*time.Second), second.told())
	d.delivered(t, second.stdout.String())
}

// TestServerKilled kills the server while an agent works: it comes back, and
// the slice notices nothing.
func TestServerKilled(t *testing.T) {
	withServer(t)
	d := newSlowDemo(t)
	first := interlock(t, "run", d.file, "--home", d.home, "-o", "json")
	eventually(t, func() bool { return len(d.agents(t)) > 0 }, func() string { return "no agent began:\n" + first.told() })
	server, ok := engine.Find(t.Context(), d.home)
	require.True(t, ok)
	process, err := os.FindProcess(server.PID)
	require.NoError(t, err)
	require.NoError(t, process.Kill())
	d.letGo(t)
	require.Equal(t, 0, first.exit(t, 90*time.Second), first.told())
	require.Contains(t, first.told(), "the Temporal server died and is started again")
	d.delivered(t, first.stdout.String())
}

// TestCancel takes back what a slice left.
func TestCancel(t *testing.T) {
	withServer(t)
	d := newSlowDemo(t)
	first := interlock(t, "run", d.file, "--home", d.home)
	first.tells(t, "baseline")
	eventually(t, func() bool { return len(d.agents(t)) > 0 }, func() string { return "no agent began:\n" + first.told() })
	cancel := interlock(t, "cancel", "greet-everyone", "--home", d.home, "-o", "json")
	require.Equal(t, 0, cancel.exit(t, 60*time.Second), cancel.told())
	require.Contains(t, cancel.stdout.String(), `"ending": "cancelled"`)
	require.Equal(t, 21, first.exit(t, 20*time.Second), first.told())
	require.NoDirExists(t, filepath.Join(d.home, "workspaces", "greet-everyone", "tree"))
}
