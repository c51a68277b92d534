//go:build linux

// Package e2e runs the real program and the embedded server against agents,
// judges, checks, repositories and input that mean no good.
//
// All tests share one home, one server and one worker; what keeps them apart
// is what keeps slices apart. INTERLOCK_PROGRAM names a program that is built
// already.
package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"interlock/engine"
)

var update = flag.Bool("update", false, "write the golden files anew")

// shared is what all tests use: the program, and a home with server and worker.
var shared struct {
	dir, program, home string
	address            string
	env                []string
	// skip says why there is no server; empty if there is one.
	skip string
}

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(withProgram(m))
}

func withProgram(m *testing.M) int {
	if testing.Short() {
		shared.skip = "it needs the embedded server"
		return m.Run()
	}
	stop, err := begin()
	defer stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	return m.Run()
}

// begin builds the program and starts the worker of the shared home, which
// starts the server. stop is never nil.
func begin() (stop func(), err error) {
	stop = func() {}
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "interlock-e2e-")
	if err != nil {
		return stop, err
	}
	stop = func() { _ = os.RemoveAll(dir) }
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return stop, err
	}
	shared.dir, shared.home, shared.program = dir, filepath.Join(dir, "home"), filepath.Join(dir, "interlock")
	server, err := engine.Build(ctx, engine.Options{})
	if err != nil {
		return stop, err
	}
	if built := os.Getenv("INTERLOCK_PROGRAM"); built != "" {
		shared.program = built
	} else if out, err := exec.Command("go", "build", "-o", shared.program, "../starter").CombinedOutput(); err != nil {
		return stop, fmt.Errorf("build the program: %w\n%s", err, out)
	}
	user := filepath.Join(dir, "user")
	if err := os.MkdirAll(user, 0o755); err != nil {
		return stop, err
	}
	shared.env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + user, "TMPDIR=" + dir, "XDG_CONFIG_HOME=" + user,
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "TEMPORAL_CONFIG_FILE=/nonexistent",
		"INTERLOCK_DEVSERVER=" + server, "INTERLOCK_FORGE_TOKEN=" + forgeToken,
	}
	said, err := os.Create(filepath.Join(dir, "worker.log"))
	if err != nil {
		return stop, err
	}
	// The server stays as long as somebody needs it: this one until the end.
	keeper := exec.Command(shared.program, "server", "--home", shared.home, "-o", "json")
	keeper.Env, keeper.Stderr = shared.env, said
	answer, err := keeper.StdoutPipe()
	if err != nil {
		return stop, err
	}
	if err := keeper.Start(); err != nil {
		return stop, err
	}
	worker := exec.Command(shared.program, "worker", "--home", shared.home)
	worker.Env, worker.Stdout, worker.Stderr = shared.env, said, said
	stop = func() {
		for _, c := range []*exec.Cmd{worker, keeper} {
			if c.Process != nil {
				_ = c.Process.Signal(os.Interrupt)
				_ = c.Wait()
			}
		}
		_ = said.Close()
		_ = os.RemoveAll(dir)
	}
	var serving struct{ Address string }
	if err := json.NewDecoder(answer).Decode(&serving); err != nil {
		log, _ := os.ReadFile(said.Name())
		return stop, fmt.Errorf("the server does not say where it is: %w\n%s", err, log)
	}
	shared.address = serving.Address
	if err := worker.Start(); err != nil {
		return stop, err
	}
	for deadline := time.Now().Add(time.Minute); ; {
		log, _ := os.ReadFile(said.Name())
		if bytes.Contains(log, []byte("worker is serving")) {
			return stop, nil
		}
		if time.Now().After(deadline) {
			return stop, fmt.Errorf("the worker does not serve:\n%s", log)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// needsServer skips a test where there is none.
func needsServer(t *testing.T) {
	t.Helper()
	if shared.skip != "" {
		t.Skip(shared.skip)
	}
}

// ran is how a program ended.
type ran struct {
	code           int
	stdout, stderr string
}

// interlock runs the program in the shared home.
func interlock(t *testing.T, args ...string) ran {
	t.Helper()
	return runIn(t, shared.dir, append(args, "--home", shared.home)...)
}

func runIn(t *testing.T, dir string, args ...string) ran {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience) //nolint:usetesting // also runs in cleanups
	defer cancel()
	cmd := exec.CommandContext(ctx, shared.program, args...)
	var stdout, stderr bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, shared.env, &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("interlock %s: %v after %s\n%s", strings.Join(args, " "), err, patience, stderr.String())
	}
	return ran{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// patience is how long one command may take on a machine that is busy.
const patience = 2 * time.Minute
