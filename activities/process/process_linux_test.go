package process_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"interlock/activities/process"
)

func TestMain(m *testing.M) {
	process.Main()
	if len(os.Args) > 2 && os.Args[1] == "helper" {
		helper(os.Args[2], os.Args[3:])
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// helper is what the test binary does as somebody else.
func helper(mode string, args []string) {
	token := args[0]
	again := func(mode string) {
		c := exec.Command("/proc/self/exe", "helper", mode, token)
		c.Env = []string{} // no marker
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := c.Start(); err != nil {
			panic(err)
		}
	}
	switch mode {
	case "daemon": // the double fork: the middle one ends at once
		again("middle")
		awaitLinger(token)
	case "middle":
		again("linger")
	case "linger": // deaf to everything but SIGKILL, and holds the output open
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
		fmt.Println("lingering")
		select {}
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("deaf")
		select {}
	case "worker":
		_, err := process.Run(context.Background(), process.Command{
			Args: args[2:], Dir: args[1], Marker: token, Env: []string{"PATH=/usr/bin:/bin"},
			OnOutput: func(_ process.Stream, p []byte) { os.Stdout.Write(p) },
		})
		fmt.Println("run ended", err)
	case "sweeper":
		fmt.Println(process.Sweep(token))
	default:
		panic(mode)
	}
}

// awaitLinger returns when the daemon is deaf, by its process title.
func awaitLinger(token string) {
	for len(alive(token, "linger")) == 0 {
	}
}

// alive returns the living processes that have all words in their environment
// or command line, by looking at all that there are.
func alive(words ...string) (pids []int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if pid == os.Getpid() {
			continue
		}
		env, _ := os.ReadFile(dir + "/environ")
		args, _ := os.ReadFile(dir + "/cmdline")
		text, all := string(env)+string(args), true
		for _, w := range words {
			all = all && strings.Contains(text, w)
		}
		stat, _ := os.ReadFile(dir + "/stat")
		if all && !bytes.Contains(stat, []byte(") Z ")) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func poll(t *testing.T, within time.Duration, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(within)
	for !condition() {
		if time.Now().After(deadline) {
			require.FailNow(t, "not within "+within.String(), what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// command returns a command with a marker of its own, and checks at the end of
// the test that nothing with that marker is left.
func command(t *testing.T, args ...string) process.Command {
	t.Helper()
	marker := "test-" + rand.Text()
	t.Cleanup(func() {
		left := alive(marker)
		_, err := process.Sweep(marker)
		require.NoError(t, err)
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		require.Empty(t, left, "processes left")
	})
	for i, a := range args {
		args[i] = strings.ReplaceAll(a, "TOKEN", marker)
	}
	return process.Command{
		Args:   args,
		Dir:    t.TempDir(),
		Env:    []string{"PATH=/usr/bin:/bin"},
		Marker: marker,
		Grace:  100 * time.Millisecond,
	}
}

func sh(t *testing.T, script string) process.Command {
	t.Helper()
	return command(t, "/bin/sh", "-c", script)
}

func self(t *testing.T, mode string) process.Command {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	return command(t, exe, "helper", mode, "TOKEN")
}

func run(t *testing.T, c process.Command) process.Result {
	t.Helper()
	res, err := process.Run(t.Context(), c)
	require.NoError(t, err)
	return res
}

func TestEndings(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		script string
		code   int
		signal string
	}{
		"success":            {"exit 0", 0, ""},
		"failure":            {"exit 3", 3, ""},
		"highest status":     {"exit 255", 255, ""},
		"status of a signal": {"exit 143", 143, ""},
		"killed":             {"kill -9 $$", -1, "SIGKILL"},
		"terminated":         {"kill -TERM $$", -1, "SIGTERM"},
		"crashed":            {"kill -SEGV $$", -1, "SIGSEGV"},
	} {
		t.Run(name, func(t *testing.T) {
			res := run(t, sh(t, "echo out; echo err >&2; "+tc.script))
			require.True(t, res.Started)
			require.NoError(t, res.StartErr)
			require.Equal(t, tc.code, res.ExitCode)
			require.Equal(t, tc.signal, res.Signal)
			require.Equal(t, tc.code == 0, res.Succeeded())
			require.Equal(t, "out\n", res.Stdout.String())
			require.Equal(t, "err\n", res.Stderr.String())
			require.False(t, res.TimedOut || res.Cancelled)
			require.Zero(t, res.Survivors)
			require.Positive(t, res.Duration)
			require.Greater(t, res.MaxRSS, int64(100<<10))
		})
	}
}

func TestCannotStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), mode))
		return path
	}
	file("plain", "text", 0o644)
	for name, tc := range map[string]struct {
		program string
		path    string
		code    int
		is      error
		says    string
	}{
		"no such file":        {dir + "/none", "", 127, os.ErrNotExist, "was not found"},
		"below a file":        {dir + "/plain/none", "", 127, syscall.ENOTDIR, "was not found"},
		"not in PATH":         {"none", dir + ":/usr/bin", 127, nil, dir + ":/usr/bin"},
		"relative PATH entry": {"here", ".::bin", 127, nil, "was not found"},
		"no interpreter":      {file("lost", "#!/no/such/shell\n", 0o755), "", 127, os.ErrNotExist, "interpreter"},
		"not executable":      {dir + "/plain", "", 126, os.ErrPermission, "cannot be executed"},
		"same, in PATH":       {"plain", dir, 126, os.ErrPermission, "cannot be executed"},
		"a folder":            {dir, "", 126, syscall.EISDIR, "cannot be executed"},
		"no known format":     {file("junk", "\x00\x01\x02", 0o755), "", 126, syscall.ENOEXEC, "cannot be executed"},
	} {
		t.Run(name, func(t *testing.T) {
			c := command(t, tc.program)
			c.Env = []string{"PATH=" + tc.path}
			require.NoError(t, os.WriteFile(c.Dir+"/here", []byte("#!/bin/sh\n"), 0o755))
			res := run(t, c)
			require.False(t, res.Started)
			require.False(t, res.Succeeded())
			require.Equal(t, tc.code, res.ExitCode)
			var se *process.StartError
			require.ErrorAs(t, res.StartErr, &se)
			require.Equal(t, tc.code, se.Code)
			require.ErrorContains(t, res.StartErr, tc.says)
			if tc.is != nil {
				require.ErrorIs(t, res.StartErr, tc.is)
			}
		})
	}
	t.Run("relative to Dir", func(t *testing.T) {
		c := command(t, "./here")
		require.NoError(t, os.WriteFile(c.Dir+"/here", []byte("#!/bin/sh\npwd"), 0o755))
		require.Equal(t, c.Dir+"\n", run(t, c).Stdout.String())
	})
}

func TestCommandThatCannotBe(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*process.Command){
		"no program":       func(c *process.Command) { c.Args = nil },
		"empty program":    func(c *process.Command) { c.Args = []string{""} },
		"NUL":              func(c *process.Command) { c.Args = []string{"/bin/true", "a\x00b"} },
		"no directory":     func(c *process.Command) { c.Dir = "" },
		"relative":         func(c *process.Command) { c.Dir = "." },
		"missing":          func(c *process.Command) { c.Dir = "/no/such/folder" },
		"a file":           func(c *process.Command) { c.Dir = "/bin/true" },
		"environment":      func(c *process.Command) { c.Env = []string{"NAME"} },
		"no marker":        func(c *process.Command) { c.Marker = "" },
		"marker list":      func(c *process.Command) { c.Marker = "a,b" },
		"marker's slash":   func(c *process.Command) { c.Marker = "a/" },
		"negative timeout": func(c *process.Command) { c.Timeout = -1 },
		"negative limit":   func(c *process.Command) { c.Limit = -1 },
	} {
		t.Run(name, func(t *testing.T) {
			c := command(t, "/bin/true")
			spoil(&c)
			_, err := process.Run(t.Context(), c)
			require.Error(t, err)
		})
	}
}

func TestInheritsNothing(t *testing.T) {
	// Anything can have been inheritable in the worker.
	extra, err := syscall.Dup(1)
	require.NoError(t, err)
	defer syscall.Close(extra)
	t.Setenv("OF_THE_WORKER", "1")

	c := command(t, "/usr/bin/env")
	c.Env = []string{"FOO=bar", "BYTES=\xff\xfe", "EMPTY=", process.MarkerVariable + "=forged"}
	lines := strings.Split(strings.TrimSpace(run(t, c).Stdout.String()), "\n")
	require.Len(t, lines, 4)
	require.Equal(t, []string{"FOO=bar", "BYTES=\xff\xfe", "EMPTY="}, lines[:3])
	require.Contains(t, lines[3], process.MarkerVariable+"="+c.Marker+"/")

	require.Equal(t, "0\n1\n2\n", run(t, sh(t, "ls /proc/$$/fd; true")).Stdout.String())
	require.Equal(t, "0\n0\n", run(t, sh(t, "ulimit -Sc; ulimit -Hc")).Stdout.String())
	res := run(t, sh(t, ": < /dev/tty"))
	require.False(t, res.Succeeded(), "there must be no terminal")
	res = run(t, sh(t, `set -- $(cat /proc/$$/stat); [ "$5" = $$ ] && [ "$6" = $$ ]`))
	require.True(t, res.Succeeded(), "leader of a group and session of its own")
	require.Contains(t, run(t, sh(t, "grep -E 'SigIgn|SigBlk' /proc/$$/status")).Stdout.String(),
		"SigIgn:\t0000000000000000")
	require.Equal(t, "/dev/null\n", run(t, sh(t, "readlink /proc/$$/fd/0")).Stdout.String())

	mask := syscall.Umask(0o027)
	defer syscall.Umask(mask)
	require.Equal(t, "0027\n", run(t, sh(t, "umask")).Stdout.String())
}

func TestNestedRunKeepsTheOuterMarker(t *testing.T) {
	t.Setenv(process.MarkerVariable, "outer/x")
	c := command(t, "/usr/bin/env")
	require.Contains(t, run(t, c).Stdout.String(), process.MarkerVariable+"=outer/x,"+c.Marker+"/")
}

func TestStdin(t *testing.T) {
	t.Parallel()
	input := bytes.Repeat([]byte("0123456789abcdef"), 10<<20/16)
	t.Run("read", func(t *testing.T) {
		c := sh(t, "cksum | cut -d' ' -f2")
		c.Stdin = input
		require.Equal(t, "10485760\n", run(t, c).Stdout.String())
	})
	t.Run("never read", func(t *testing.T) {
		c := sh(t, "exit 4")
		c.Stdin = input
		require.Equal(t, 4, run(t, c).ExitCode)
	})
	t.Run("never read until the timeout", func(t *testing.T) {
		c := sh(t, "exec sleep 1000")
		c.Stdin = input
		c.Timeout = 50 * time.Millisecond
		require.True(t, run(t, c).TimedOut)
	})
}

func TestOutput(t *testing.T) {
	t.Parallel()
	t.Run("huge", func(t *testing.T) {
		var seen int64
		c := sh(t, "echo first; head -c 52428800 /dev/zero; echo last")
		c.Limit = 1000
		c.OnOutput = func(_ process.Stream, p []byte) { seen += int64(len(p)) }
		res := run(t, c)
		require.True(t, res.Succeeded())
		require.EqualValues(t, 52428800+11, res.Stdout.Size)
		require.Equal(t, res.Stdout.Size, seen)
		require.EqualValues(t, 52428800+11-1000, res.Stdout.LeftOut())
		require.True(t, strings.HasPrefix(res.Stdout.String(), "first\n"))
		require.True(t, strings.HasSuffix(res.Stdout.String(), "last\n"))
	})
	t.Run("complete below the limit", func(t *testing.T) {
		c := sh(t, "head -c 4000000 /dev/zero; head -c 4000000 /dev/zero >&2")
		res := run(t, c)
		require.Len(t, res.Stdout.Bytes(), 4000000)
		require.Len(t, res.Stderr.Bytes(), 4000000)
	})
	t.Run("combined in order", func(t *testing.T) {
		c := sh(t, "for i in 1 2 3 4; do echo out$i; echo err$i >&2; done")
		c.Combine = true
		res := run(t, c)
		require.Equal(t, "out1\nerr1\nout2\nerr2\nout3\nerr3\nout4\nerr4\n", res.Stdout.String())
		require.Zero(t, res.Stderr.Size)
	})
	t.Run("seen while it runs", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c := sh(t, "echo now >&2; exec sleep 1000")
		c.OnOutput = func(s process.Stream, p []byte) {
			if s == process.Stderr && string(p) == "now\n" {
				cancel()
			}
		}
		res, err := process.Run(ctx, c)
		require.NoError(t, err)
		require.True(t, res.Cancelled)
	})
}

func TestTimeoutAndCancellation(t *testing.T) {
	t.Parallel()
	const ready = "echo ready; "
	for name, tc := range map[string]struct {
		script string
		grace  time.Duration
		code   int
		signal string
		out    string
	}{
		"ends at SIGTERM":      {"exec sleep 1000", 10 * time.Second, -1, "SIGTERM", ""},
		"cleans up at SIGTERM": {"trap 'echo bye; exit 0' TERM; " + ready + "while :; do sleep 0.01; done", 10 * time.Second, 0, "", "bye\n"},
		"is stopped":           {"kill -STOP $$", 10 * time.Second, -1, "SIGTERM", ""},
		"ignores SIGTERM":      {"trap '' TERM; " + ready + "while :; do sleep 1; done", 50 * time.Millisecond, -1, "SIGKILL", ""},
		"gets no grace":        {"trap 'echo bye; exit 0' TERM; " + ready + "while :; do sleep 0.01; done", -1, -1, "SIGKILL", ""},
	} {
		check := func(t *testing.T, res process.Result) {
			t.Helper()
			require.True(t, res.Started)
			require.False(t, res.Succeeded())
			require.Equal(t, tc.code, res.ExitCode)
			require.Equal(t, tc.signal, res.Signal)
			require.Equal(t, tc.out, strings.TrimPrefix(res.Stdout.String(), "ready\n"))
			require.Less(t, res.Duration, 8*time.Second, "the grace must not be waited for")
		}
		t.Run(name+"/timeout", func(t *testing.T) {
			c := sh(t, tc.script)
			c.Grace, c.Timeout = tc.grace, 300*time.Millisecond
			res := run(t, c)
			check(t, res)
			require.True(t, res.TimedOut)
			require.False(t, res.Cancelled)
		})
		t.Run(name+"/cancel", func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			c := sh(t, tc.script)
			c.Grace, c.Timeout = tc.grace, time.Minute
			res, err := process.Run(ctx, c)
			require.NoError(t, err)
			check(t, res)
			require.True(t, res.Cancelled)
			require.False(t, res.TimedOut)
		})
	}
	t.Run("cancelled before", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		c := sh(t, "echo x > file")
		res, err := process.Run(ctx, c)
		require.NoError(t, err)
		require.True(t, res.Cancelled)
		require.False(t, res.Started)
		require.NoFileExists(t, c.Dir+"/file")
	})
	t.Run("ended in time", func(t *testing.T) {
		c := sh(t, "exit 0")
		c.Timeout = time.Hour
		require.True(t, run(t, c).Succeeded())
	})
}

// evil are programs that leave processes behind. Each prints one line when
// they are there; least is how many they are.
var evil = map[string]struct {
	script string
	least  int
}{
	"background":           {"sleep 1000 &" + nowUp, 1},
	"hangup and term deaf": {"(trap '' TERM HUP INT; : > up; while :; do sleep 1; done) &" + whenUp, 1},
	"own session":          {"setsid sh -c ': > up; exec sleep 1000' &" + whenUp, 1},
	"orphans in a session": {"(setsid sh -c '(sleep 1000 &) ; (sleep 1000 &) ; : > up' &) ;" + whenUp, 2},
	"stopped":              {"sh -c ': > up; kill -STOP $$' &" + whenUp, 1},
	"deep": {`d() { if [ "$1" -eq 0 ]; then : > up; sleep 1000; else (d $(($1-1))); true; fi; }
		d 20 &` + whenUp, 20},
	"forking": {`i=0; while [ $i -lt 50 ]; do
		(while :; do (sleep 0.05 &); sleep 0.02; : > up; done) & i=$((i+1)); done;` + whenUp, 50},
	"forking in sessions": {`i=0; while [ $i -lt 20 ]; do
		setsid sh -c 'while :; do (setsid sleep 0.2 &); sleep 0.05; : > up; done' & i=$((i+1)); done;` + whenUp, 20},
}

const (
	nowUp  = " echo ready"
	whenUp = " until [ -e up ]; do sleep 0.01; done; echo ready"
)

func TestNothingSurvivesTheEnd(t *testing.T) {
	for name, e := range evil {
		t.Run(name, func(t *testing.T) {
			c := sh(t, e.script+"; exit 7")
			res := run(t, c)
			require.Equal(t, 7, res.ExitCode)
			require.Equal(t, "ready\n", res.Stdout.String())
			require.GreaterOrEqual(t, res.Survivors, e.least)
			require.Empty(t, alive(c.Marker))
		})
	}
	t.Run("daemon without the marker that holds the output", func(t *testing.T) {
		c := self(t, "daemon")
		begin := time.Now()
		res := run(t, c)
		require.True(t, res.Succeeded())
		require.Equal(t, 1, res.Survivors)
		require.Less(t, time.Since(begin), 10*time.Second)
	})
}

func TestNothingSurvivesACancellation(t *testing.T) {
	for name, e := range evil {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c := sh(t, "trap '' TERM; "+e.script+"; while :; do sleep 1; done")
			c.OnOutput = func(process.Stream, []byte) { cancel() }
			res, err := process.Run(ctx, c)
			require.NoError(t, err)
			require.True(t, res.Cancelled)
			require.Equal(t, "SIGKILL", res.Signal)
			require.Empty(t, alive(c.Marker))
		})
	}
}

// worker starts a worker of its own that runs the program and returns when
// that has printed something.
func worker(t *testing.T, c process.Command) *exec.Cmd {
	t.Helper()
	w := exec.Command("/proc/self/exe", append([]string{"helper", "worker", c.Marker, c.Dir}, c.Args...)...)
	out, err := w.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, w.Start())
	_, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	return w
}

func TestNothingSurvivesTheWorker(t *testing.T) {
	for name, e := range evil {
		t.Run(name, func(t *testing.T) {
			c := sh(t, e.script+"; sleep 1000")
			w := worker(t, c)
			require.NoError(t, w.Process.Kill())
			require.Error(t, w.Wait())
			poll(t, 2*time.Second, "all gone", func() bool { return len(alive(c.Marker)) == 0 })
		})
	}
	t.Run("deaf", func(t *testing.T) {
		c := self(t, "deaf")
		w := worker(t, c)
		require.NoError(t, w.Process.Kill())
		require.Error(t, w.Wait())
		poll(t, 2*time.Second, "all gone", func() bool { return len(alive(c.Marker)) == 0 })
	})
}

func shims(marker string) []int { return alive("interlock-shim\x00", marker) }

func TestRunReportsALostShim(t *testing.T) {
	t.Run("killed", func(t *testing.T) {
		c := sh(t, "setsid sleep 1000 & (trap '' TERM; exec sleep 1000) & echo ready; wait")
		c.OnOutput = func(process.Stream, []byte) {
			for _, pid := range shims(c.Marker) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		res, err := process.Run(t.Context(), c)
		require.ErrorContains(t, err, "was lost")
		require.False(t, res.Succeeded())
		require.Equal(t, "ready\n", res.Stdout.String())
		require.Empty(t, alive(c.Marker))
	})
	t.Run("by the program", func(t *testing.T) {
		c := sh(t, "kill -9 $PPID; sleep 1000")
		res, err := process.Run(t.Context(), c)
		var lost *process.LostError
		require.ErrorAs(t, err, &lost)
		require.True(t, res.Started)
	})
	t.Run("asked to end by somebody else", func(t *testing.T) {
		c := sh(t, "kill -TERM $PPID; kill -INT $PPID; kill -HUP $PPID; exit 5")
		require.Equal(t, 5, run(t, c).ExitCode)
	})
}

func TestAStoppedShimIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("waits until the shim is given up")
	}
	t.Parallel()
	c := sh(t, "kill -STOP $PPID; exec sleep 1000")
	c.Timeout = 50 * time.Millisecond
	_, err := process.Run(t.Context(), c)
	require.ErrorContains(t, err, "was lost")
	require.Empty(t, alive(c.Marker))
}

func TestAnOutputHeldFromOutsideIsBounded(t *testing.T) {
	t.Parallel()
	var held *os.File
	c := sh(t, "echo $$; read wait < up")
	require.NoError(t, syscall.Mkfifo(c.Dir+"/up", 0o600))
	c.OnOutput = func(_ process.Stream, p []byte) {
		held, _ = os.OpenFile("/proc/"+strings.TrimSpace(string(p))+"/fd/1", os.O_WRONLY, 0)
		_ = os.WriteFile(c.Dir+"/up", []byte("go on\n"), 0o600)
	}
	begin := time.Now()
	res := run(t, c)
	require.NotNil(t, held, "the test must hold the pipe open")
	require.NoError(t, held.Close())
	require.True(t, res.Succeeded())
	require.Less(t, time.Since(begin), 10*time.Second)
}

func TestSweepFindsWhatALostShimLeft(t *testing.T) {
	home := "home-" + rand.Text()
	c := sh(t, "setsid sleep 1000 & env -i sh -c ': > up; sleep 1000; : TOKEN' &"+whenUp+"; wait")
	token := c.Marker
	c.Marker = home + "/" + token
	w := worker(t, c)
	// Stopped, so that it can do nothing about the death of its shim.
	require.NoError(t, w.Process.Signal(syscall.SIGSTOP))
	found := shims(c.Marker)
	require.Len(t, found, 1)
	require.NoError(t, syscall.Kill(found[0], syscall.SIGKILL))
	require.NoError(t, w.Process.Kill())
	require.Error(t, w.Wait())
	poll(t, 2*time.Second, "shim gone", func() bool { return len(shims(c.Marker)) == 0 })
	require.GreaterOrEqual(t, len(alive(token)), 3, "the test needs something left over")

	for _, other := range []string{home + "x", home[:len(home)-1], "home-"} {
		n, err := process.Sweep(other)
		require.NoError(t, err)
		require.Zero(t, n, "another home's sweep")
	}
	n, err := process.Sweep(home)
	require.NoError(t, err)
	require.GreaterOrEqual(t, n, 3)
	require.Empty(t, alive(token))
	n, err = process.Sweep(home)
	require.NoError(t, err)
	require.Zero(t, n)
}

func TestSweepSparesItsCallerAndAncestors(t *testing.T) {
	// A worker that is itself below a program of the same home.
	res := run(t, self(t, "sweeper"))
	require.True(t, res.Succeeded())
	require.Equal(t, "0 <nil>\n", res.Stdout.String())
}

func TestRunLeaksNoDescriptors(t *testing.T) {
	count := func() int {
		fds, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(fds)
	}
	once := func() {
		c := sh(t, "sleep 1000 & cat")
		c.Stdin = []byte("x")
		run(t, c)
		run(t, command(t, "/no/such/program"))
		c.Args = []string{"/bin/true"}
		c.Combine, c.Stdin = true, nil
		run(t, c)
	}
	once()
	before := count()
	for range 5 {
		once()
	}
	require.Equal(t, before, count())
}

func TestManyAtOnce(t *testing.T) {
	c := sh(t, "cat; sleep 1000 & exit 3")
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			c := c
			c.Stdin = []byte(strconv.Itoa(i))
			res, err := process.Run(t.Context(), c)
			if err != nil || res.ExitCode != 3 || res.Stdout.String() != strconv.Itoa(i) || res.Survivors != 1 {
				t.Errorf("run %d: %+v, %v", i, res, err)
			}
		})
	}
	group.Wait()
}

func TestGuarantee(t *testing.T) {
	complete, why := process.Guarantee()
	require.True(t, complete, why)
	require.Contains(t, why, "complete")
}

func TestRunNeedsMain(t *testing.T) {
	// Of a program that does not call Main, only the refusal can be seen; it
	// is built from a source of its own.
	if testing.Short() {
		t.Skip("builds a program")
	}
	dir := filepath.Join(t.TempDir(), "program")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	source := `package main

import (
	"context"
	"fmt"

	"interlock/activities/process"
)

func main() {
	_, err := process.Run(context.Background(), process.Command{})
	fmt.Print(err)
}
`
	file := filepath.Join(dir, "main.go")
	require.NoError(t, os.WriteFile(file, []byte(source), 0o644))
	out, err := exec.Command("go", "run", file).CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "process.Main")
}

func BenchmarkRun(b *testing.B) {
	c := process.Command{Args: []string{"/bin/true"}, Dir: "/", Marker: "bench-" + rand.Text()}
	for b.Loop() {
		if _, err := process.Run(b.Context(), c); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPlainExec(b *testing.B) {
	for b.Loop() {
		c := exec.Command("/bin/true")
		c.Stdout, c.Stderr = io.Discard, io.Discard
		if err := c.Run(); err != nil {
			b.Fatal(err)
		}
	}
}
