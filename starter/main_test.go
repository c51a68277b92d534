package main

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"interlock/activities/process"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) {
	process.Main()
	testscript.Main(m, map[string]func(){"interlock": main})
}

// TestScript runs the command line as a person does, where no server is needed.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               isolate,
		Cmds:                commands,
	})
}

// commands are those that scripts have beyond testscript's own.
var commands = map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "becomes": becomes}

// isolate keeps a script from this machine's settings.
func isolate(env *testscript.Env) error {
	for name, value := range map[string]string{
		"HOME":                 env.WorkDir,
		"XDG_CONFIG_HOME":      env.WorkDir + "/config",
		"INTERLOCK_HOME":       env.WorkDir + "/home",
		"GIT_CONFIG_GLOBAL":    "/dev/null",
		"GIT_CONFIG_NOSYSTEM":  "1",
		"TEMPORAL_CONFIG_FILE": env.WorkDir + "/no.toml",
		"INTERLOCK_DEVSERVER":  os.Getenv("INTERLOCK_DEVSERVER"),
	} {
		env.Setenv(name, value)
	}
	return nil
}

// exits runs a program and compares its exit code: exits CODE PROGRAM ARGS...
func exits(ts *testscript.TestScript, negated bool, args []string) {
	if negated || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARGS...")
	}
	want := args[0]
	err := ts.Exec(args[1], args[2:]...)
	if got := exitCode(err); got != want {
		ts.Fatalf("%v exited with %s, expected %s", args[1:], got, want)
	}
}

// becomes is exits for a condition that comes true in a while.
func becomes(ts *testscript.TestScript, negated bool, args []string) {
	if negated || len(args) < 2 {
		ts.Fatalf("usage: becomes CODE PROGRAM ARGS...")
	}
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	for {
		got := exitCode(ts.Exec(args[1], args[2:]...))
		if got == args[0] {
			return
		}
		select {
		case <-deadline.C:
			ts.Fatalf("%v exits with %s, never with %s", args[1:], got, args[0])
		case <-time.After(50 * time.Millisecond):
		}
	}
}
