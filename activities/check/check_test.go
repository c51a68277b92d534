package check

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
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
	goleak.VerifyTestMain(m)
}

type bench struct {
	*Runner
	Request
	worker map[string]string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	home := t.TempDir()
	store, err := evidence.Open(filepath.Join(home, "evidence"))
	require.NoError(t, err)
	b := &bench{worker: map[string]string{"PATH": os.Getenv("PATH"), "HOME": "/nowhere"}}
	b.Runner = &Runner{Evidence: store, Lookup: func(name string) (string, bool) { v, ok := b.worker[name]; return v, ok }}
	b.Request = Request{Step: "check", Dir: t.TempDir(), Own: filepath.Join(home, "own"), Marker: "check-test"}
	return b
}

func (b *bench) one(t *testing.T, c slice.Command) (Result, string) {
	t.Helper()
	b.Commands = []slice.Command{c}
	rs, err := b.Measure(t.Context(), b.Request)
	require.NoError(t, err)
	require.Len(t, rs, 1)
	log, err := b.Evidence.Get(rs[0].Log.Hash)
	require.NoError(t, err)
	return rs[0], string(log)
}

func sh(line string) slice.Command { return slice.Command{Name: "test", Run: slice.Shell(line)} }

func TestMeasureExit(t *testing.T) {
	b := newBench(t)
	require.NoError(t, os.WriteFile(filepath.Join(b.Dir, "plain.sh"), []byte("exit 0\n"), 0o600))
	for _, c := range []struct {
		name    string
		command slice.Command
		outcome machine.Outcome
		killed  bool
		why     string
	}{
		{"green", sh("exit 0"), machine.Done, false, "exit status 0"},
		{"red", sh("exit 3"), machine.Failed, false, "exit status 3"},
		{"no such program", slice.Command{Run: slice.Argv{"no-such-program"}}, machine.Unmeasured, false, "could not start: program \"no-such-program\" was not found"},
		{"not executable", slice.Command{Run: slice.Argv{"./plain.sh"}}, machine.Unmeasured, false, "cannot be executed"},
		{"no such program in a shell", sh("no-such-program"), machine.Unmeasured, false, "could not start: exit status 127"},
		{"not executable in a shell", sh("./plain.sh"), machine.Unmeasured, false, "could not start: exit status 126"},
		{"killed", sh("kill -KILL $$"), machine.Unmeasured, true, "killed by SIGKILL"},
		{"killed in a shell", sh("sh -c 'kill -SEGV $$'; exit $?"), machine.Unmeasured, true, "killed by SIGSEGV"},
		{"killed with what watches over it", sh("kill -KILL $PPID; exec sleep 600"), machine.Unmeasured, true, "the process that watches over it was killed"},
		{"out of time", slice.Command{Run: slice.Shell("exec tail -f /dev/null"), Timeout: slice.Duration(50 * time.Millisecond)}, machine.Unmeasured, true, "timed out after 50ms"},
		{"a status above the signals", sh("exit 255"), machine.Failed, false, "exit status 255"},
	} {
		t.Run(c.name, func(t *testing.T) {
			res, _ := b.one(t, c.command)
			require.Equal(t, c.outcome, res.Outcome, res.Why)
			require.Equal(t, c.killed, res.Killed)
			require.Contains(t, res.Why, c.why)
		})
	}
}

func TestMeasureRunsAllInOrder(t *testing.T) {
	b := newBench(t)
	b.Commands = []slice.Command{
		{Name: "first", Run: slice.Shell("echo one >>log; exit 1")},
		{Run: slice.Shell("echo two >>log")},
	}
	rs, err := b.Measure(t.Context(), b.Request)
	require.NoError(t, err)
	require.Equal(t, []string{"first", "command 2"}, []string{rs[0].Name, rs[1].Name})
	require.Equal(t, []machine.Outcome{machine.Failed, machine.Done}, []machine.Outcome{rs[0].Outcome, rs[1].Outcome})
	require.Equal(t, "check-command-2.log", rs[1].Log.Name)
	log, err := os.ReadFile(filepath.Join(b.Dir, "log"))
	require.NoError(t, err)
	require.Equal(t, "one\ntwo\n", string(log))
}

func TestLogIsBothStreamsInOrder(t *testing.T) {
	b := newBench(t)
	res, log := b.one(t, sh(`printf '\033[31mout\033[0m\n'; echo err >&2; echo again`))
	require.Equal(t, "\x1b[31mout\x1b[0m\nerr\nagain\n", log)
	require.Equal(t, "out\nerr\nagain\n", res.Summary)
}

func TestEnvironmentOfChecks(t *testing.T) {
	b := newBench(t)
	b.worker["GOFLAGS"] = "-mod=mod"
	b.worker["SECRET_OF_THE_WORKER"] = "never"
	b.Pass = []string{"GOFLAGS", "HOME"}
	_, log := b.one(t, sh("env; ls -d $HOME $TMPDIR $XDG_CACHE_HOME"))
	for _, line := range []string{"CI=true", "LANG=C.UTF-8", "TZ=UTC", "GOFLAGS=-mod=mod", "HOME=" + b.Own + "/home", "TMPDIR=" + b.Own + "/tmp", "XDG_CACHE_HOME=" + b.Own + "/cache", "PATH=" + os.Getenv("PATH")} {
		require.Contains(t, "\n"+log, "\n"+line+"\n")
	}
	require.NotContains(t, log, "SECRET_OF_THE_WORKER")
}

func TestSecretsAreNowhere(t *testing.T) {
	b := newBench(t)
	const secret = "s3cr3t-v4lue-0123"
	b.worker["DB_PASSWORD"] = secret
	b.Pass = []string{"DB_PASSWORD"}
	event := `{"Action":"fail","Package":"m","Test":"Test$DB_PASSWORD"}`
	for _, reads := range []slice.Reads{slice.ReadsExit, slice.ReadsGo} {
		c := slice.Command{Name: "test", Reads: reads, Run: slice.Shell(
			`printf %s "$DB_PASSWORD" | head -c 8; printf %s "$DB_PASSWORD" | tail -c +9; echo; echo "` + strings.ReplaceAll(event, `"`, `\"`) + `"; exit 1`)}
		res, log := b.one(t, c)
		require.NotContains(t, fmt.Sprintf("%+v", res), secret)
		require.NotContains(t, log, secret)
		require.Contains(t, log, "***\n")
		if reads == slice.ReadsGo {
			require.Equal(t, []string{"m.Test***"}, res.Failing)
		}
	}
	res, _ := b.one(t, sh(`printf '\033[31m%s\033[0m%s' "${DB_PASSWORD%3}" 3`))
	require.Equal(t, "***", res.Summary, "in colours")
	res, _ = b.one(t, slice.Command{Name: "test", Run: slice.Argv{"./" + secret}})
	require.NotContains(t, res.Why, secret)
	require.NoError(t, filepath.WalkDir(filepath.Dir(b.Own), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		require.NotContains(t, string(data), secret, path)
		return err
	}))
}

func TestLongLogKeepsBothEnds(t *testing.T) {
	b := newBench(t)
	res, log := b.one(t, sh("echo begin; head -c 9000000 /dev/zero | tr '\\0' x; echo; echo end"))
	require.Less(t, len(log), logLimit+100)
	require.True(t, strings.HasPrefix(log, "begin\n") && strings.HasSuffix(log, "\nend\n"))
	require.Contains(t, log, "bytes left out")
	require.LessOrEqual(t, len(res.Summary), summaryLimit)
}

func TestProgress(t *testing.T) {
	b := newBench(t)
	var lines []string
	b.OnProgress = func(s string) { lines = append(lines, s) }
	b.one(t, sh("head -c 3500 /dev/zero"))
	require.Equal(t, "check test: 0 s, 0 B of output", lines[0])
	require.Contains(t, lines[len(lines)-1], "3 kB of output")
}

func TestCancellationIsAnError(t *testing.T) {
	b := newBench(t)
	why := errors.New("the slice was cancelled")
	ctx, cancel := context.WithCancelCause(t.Context())
	b.OnProgress = func(s string) {
		if strings.Contains(s, " 1 s") {
			cancel(why)
		}
	}
	b.Commands = []slice.Command{{Name: "test", Run: slice.Shell("exec tail -f /dev/null")}}
	_, err := b.Measure(ctx, b.Request)
	require.ErrorIs(t, err, why)
	require.ErrorContains(t, err, "check test")
}

func TestAFolderThatIsNotThereIsAnError(t *testing.T) {
	b := newBench(t)
	b.Dir = filepath.Join(b.Dir, "gone")
	b.Commands = []slice.Command{sh("exit 0")}
	_, err := b.Measure(t.Context(), b.Request)
	require.ErrorContains(t, err, "check test: process: working directory")
}

func TestSetupStopsAtTheFirstFailure(t *testing.T) {
	b := newBench(t)
	b.Step = "setup"
	b.Commands = []slice.Command{
		{Name: "one", Run: slice.Shell("touch one")},
		{Name: "two", Run: slice.Shell("echo no network; exit 1"), Reads: slice.ReadsGo},
		{Name: "three", Run: slice.Shell("touch three")},
	}
	rs, err := b.Setup(t.Context(), b.Request)
	require.NoError(t, err)
	require.Len(t, rs, 2)
	require.Equal(t, machine.Done, rs[0].Outcome)
	require.Equal(t, machine.Unmeasured, rs[1].Outcome)
	require.Equal(t, "setup: exit status 1", rs[1].Why)
	require.Equal(t, "no network\n", rs[1].Summary)
	require.FileExists(t, filepath.Join(b.Dir, "one"))
	require.NoFileExists(t, filepath.Join(b.Dir, "three"))

	outcome, why := Decide(Reclassify(rs, nil), nil)
	require.Equal(t, machine.Unmeasured, outcome)
	require.Equal(t, "not measured: two (setup: exit status 1)", why)
}

// A real go test, with the caches of the user passed as a policy would.
func TestMeasureGo(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command")
	}
	cache, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE").Output()
	require.NoError(t, err)
	b := newBench(t)
	b.worker["GOCACHE"] = strings.TrimSpace(string(cache))
	b.Pass = []string{"GOCACHE"}
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(b.Dir, name), []byte(text), 0o600))
	}
	write("go.mod", "module example.com/m\n\ngo 1.24\n")
	write("a_test.go", "package m\n\nimport \"testing\"\n\nfunc TestGood(*testing.T) {}\n\nfunc TestBad(t *testing.T) { t.Run(\"sub\", func(t *testing.T) { t.Error(\"it is bad\") }) }\n")
	c := slice.Command{Name: "test", Run: slice.Argv{"go", "test", "-json", "./..."}, Reads: slice.ReadsGo}
	res, log := b.one(t, c)
	require.Equal(t, machine.Failed, res.Outcome, log)
	require.Equal(t, []string{"example.com/m.TestBad/sub"}, res.Failing)
	require.Equal(t, []int{1, 1, 0}, []int{res.Passed, res.Failed, res.Skipped})
	require.Contains(t, res.Summary, "it is bad")

	outcome, why := Decide(results(res), []string{"test/TestBad"})
	require.Equal(t, machine.Done, outcome, why)
}
