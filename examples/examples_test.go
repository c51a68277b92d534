package examples_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"

	"interlock/engine"
	"interlock/examples"
	"interlock/machine"
	"interlock/slice"
	"interlock/spec"
)

var update = flag.Bool("update", false, "write README.md anew")

const readme = "README.md"

// The list in README.md is made from the examples: to write it, run the test
// with -update.
func TestReadme(t *testing.T) {
	const begin, end = "<!-- table: examples -->\n", "<!-- end -->"
	b, err := os.ReadFile(readme)
	require.NoError(t, err)
	head, rest, ok := strings.Cut(string(b), begin)
	require.True(t, ok, "no line %q", begin)
	_, tail, ok := strings.Cut(rest, end)
	require.True(t, ok, "no line %q", end)
	want := head + begin + examples.Table() + end + tail
	if *update {
		require.NoError(t, os.WriteFile(readme, []byte(want), 0o644))
		return
	}
	require.Equal(t, want, string(b), "run go test ./examples -run TestReadme -update")
}

// Every folder is an example or one that examples share, and every example has
// its folder.
func TestFolders(t *testing.T) {
	var want, got []string
	for _, e := range examples.All() {
		want = append(want, e.Name)
		_, ok := machine.Find(e.Ending, e.Cause)
		require.True(t, ok, "%s cannot end as %s (%s)", e.Name, e.Ending, e.Cause)
	}
	entries, err := os.ReadDir(".")
	require.NoError(t, err)
	for _, entry := range entries {
		if entry.IsDir() {
			got = append(got, entry.Name())
		}
	}
	require.ElementsMatch(t, append(want, "sample", "agents"), got)
}

// Each ending and cause that a slice can have without a forge and without an
// agent program that knows limits is the ending of an example. The others are
// listed here with what they need.
func TestEveryEndingIsShown(t *testing.T) {
	needs := map[[2]string]string{
		{"blocked_call", "host"}:            "a host that is lost",
		{"blocked_call", "limit"}:           "an adapter that reports a provider's limit",
		{"blocked_reconcile", "base_moves"}: "a merge",
		{"blocked_ci", "red"}:               "a forge",
		{"blocked_ci", "unmeasured"}:        "a forge",
		{"blocked_delivery", "closed"}:      "a forge",
		{"blocked_delivery", "unknown"}:     "a remote that does not say what it did",
	}
	shown := map[[2]string]bool{}
	for _, e := range examples.All() {
		shown[[2]string{string(e.Ending), string(e.Cause)}] = true
	}
	for _, end := range machine.Ends() {
		pair := [2]string{string(end.Ending), string(end.Cause)}
		require.NotEqual(t, shown[pair], needs[pair] != "", "%v", pair)
	}
}

// What an example's files say is right, but for those that show what is not.
func TestFilesAreValid(t *testing.T) {
	for _, e := range examples.All() {
		dir := t.TempDir()
		file, err := examples.Write(t.Context(), dir, e)
		require.NoError(t, err)
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		sp, err := spec.ParseSlice(file, b)
		require.NoError(t, err)
		require.Equal(t, e.Name, sp.ID)
		b, err = os.ReadFile(filepath.Join(dir, "repository", slice.PolicyFile))
		require.NoError(t, err)
		_, err = spec.ParsePolicy(slice.PolicyFile, b)
		require.Equal(t, e.Ending == machine.Invalid, err != nil, "%s: %v", e.Name, err)
		require.NoError(t, filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(name) != ".sh" {
				return err
			}
			out, err := exec.Command("/bin/sh", "-n", name).CombinedOutput()
			require.NoError(t, err, "%s: %s", name, out)
			return nil
		}))
	}
}

// shared is the program, and a home with server and worker, which all examples
// use as all slices of a host do.
var shared struct {
	dir, program, home, address string
	env                         []string
}

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(withProgram(m))
}

func withProgram(m *testing.M) int {
	if testing.Short() {
		return m.Run()
	}
	stop, err := begin()
	defer stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "examples:", err)
		return 1
	}
	return m.Run()
}

// begin builds the program, which INTERLOCK_PROGRAM may name, and starts the
// worker with its server. stop is never nil.
func begin() (stop func(), err error) {
	stop = func() {}
	dir, err := os.MkdirTemp("", "interlock-examples-")
	if err != nil {
		return stop, err
	}
	stop = func() { _ = os.RemoveAll(dir) }
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return stop, err
	}
	shared.dir, shared.home, shared.program = dir, filepath.Join(dir, "home"), filepath.Join(dir, "bin", "interlock")
	server, err := engine.Build(context.Background(), engine.Options{})
	if err != nil {
		return stop, err
	}
	if err := os.MkdirAll(filepath.Dir(shared.program), 0o755); err != nil {
		return stop, err
	}
	if built := os.Getenv("INTERLOCK_PROGRAM"); built != "" {
		if err := os.Symlink(built, shared.program); err != nil {
			return stop, err
		}
	} else if out, err := exec.Command("go", "build", "-o", shared.program, "../starter").CombinedOutput(); err != nil {
		return stop, fmt.Errorf("build the program: %w\n%s", err, out)
	}
	shared.env = []string{
		"PATH=" + filepath.Dir(shared.program) + ":" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir, "XDG_CONFIG_HOME=" + dir,
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "TEMPORAL_CONFIG_FILE=/nonexistent",
		"INTERLOCK_DEVSERVER=" + server, "INTERLOCK_HOME=" + shared.home,
	}
	log, err := os.Create(filepath.Join(dir, "worker.log"))
	if err != nil {
		return stop, err
	}
	keeper := exec.Command(shared.program, "server", "-o", "json")
	keeper.Env, keeper.Stderr = shared.env, log
	answer, err := keeper.StdoutPipe()
	if err != nil {
		return stop, err
	}
	if err := keeper.Start(); err != nil {
		return stop, err
	}
	worker := exec.Command(shared.program, "worker")
	worker.Env, worker.Stderr = shared.env, log
	stop = func() {
		for _, c := range []*exec.Cmd{worker, keeper} {
			if c.Process != nil {
				_ = c.Process.Signal(os.Interrupt)
				_ = c.Wait()
			}
		}
		_ = log.Close()
		_ = os.RemoveAll(dir)
	}
	var serving struct{ Address string }
	if err := json.NewDecoder(answer).Decode(&serving); err != nil {
		return stop, fmt.Errorf("the server does not say where it is: %w", err)
	}
	shared.address = serving.Address
	return stop, worker.Start()
}

// patience is how long one example may take on a machine that is busy.
const patience = 2 * time.Minute

// TestPlay plays every example on the embedded server, and looks at what a
// person sees of its end: the exit code, the result, and what Temporal has.
func TestPlay(t *testing.T) {
	if testing.Short() {
		t.Skip("it needs the embedded server")
	}
	c, err := client.Dial(client.Options{HostPort: shared.address})
	require.NoError(t, err)
	defer c.Close()
	t.Run("examples", func(t *testing.T) {
		for _, e := range examples.All() {
			t.Run(e.Name, func(t *testing.T) {
				t.Parallel()
				play(t, c, e)
			})
		}
	})
}

func play(t *testing.T, c client.Client, e examples.Example) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	dir := filepath.Join(shared.dir, "examples", e.Name)
	file, err := examples.Write(ctx, dir, e)
	require.NoError(t, err)

	run := exec.CommandContext(ctx, shared.program, "run", file, "-o", "json")
	var stdout, stderr bytes.Buffer
	run.Env, run.Stdout, run.Stderr, run.WaitDelay = shared.env, &stdout, &stderr, time.Second
	require.NoError(t, run.Start())
	running, ended := context.WithCancel(ctx)
	defer ended()
	acted := make(chan error, 1)
	go func() { acted <- act(ctx, running, c, e, dir) }()
	err = run.Wait()
	var exit *exec.ExitError
	require.True(t, err == nil || errors.As(err, &exit), "%v\n%s", err, stderr.String())
	ended()
	require.NoError(t, <-acted, stderr.String())

	var r slice.Result
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &r), stdout.String()+stderr.String())
	end, _ := machine.Find(e.Ending, e.Cause)
	require.Equal(t, [2]string{string(e.Ending), string(e.Cause)}, [2]string{string(r.Ending), string(r.Cause)}, "%s\n%s", r.Why, stderr.String())
	require.Equal(t, end.Code, run.ProcessState.ExitCode())
	require.Equal(t, end.Code, r.Code)
	require.Equal(t, end.Next, r.Next)
	if e.Ending != machine.Delivered && e.Ending != machine.Cancelled {
		require.NotEmpty(t, r.Why)
	}
	closed(t, c, e, end)
	seen(t, e, r, stderr.String())
}

// closed looks at the last event of the history.
func closed(t *testing.T, c client.Client, e examples.Example, end machine.End) {
	var last *historypb.HistoryEvent
	for events := c.GetWorkflowHistory(t.Context(), e.Name, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); events.HasNext(); {
		event, err := events.Next()
		require.NoError(t, err)
		last = event
	}
	switch e.Ending {
	case machine.Delivered:
		require.Equal(t, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED, last.GetEventType())
	case machine.Cancelled:
		require.Equal(t, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED, last.GetEventType())
	default:
		require.Equal(t, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED, last.GetEventType())
		failure := last.GetWorkflowExecutionFailedEventAttributes().GetFailure()
		require.Equal(t, string(e.Ending), failure.GetApplicationFailureInfo().GetType())
		require.True(t, failure.GetApplicationFailureInfo().GetNonRetryable())
		require.Contains(t, failure.GetMessage(), end.Next)
		require.NotContains(t, failure.GetMessage(), "\n")
	}
}

// seen says that an example showed what it is there to show.
func seen(t *testing.T, e examples.Example, r slice.Result, progress string) {
	told := map[string][]string{
		"veto":               {"advise"},
		"corrections":        {"corrections"},
		"discarded":          {"discarded"},
		"conflict":           {"reconcile"},
		"gates":              {"approved by Ada"},
		"expected-red":       {"red as expected: bye"},
		"e2e-unmeasured":     {"not measured: browser"},
		"blocked-checks-red": {"red: tests"},
	}
	for _, want := range told[e.Name] {
		require.Contains(t, progress, want)
	}
	why := map[string]string{
		"invalid":                  "rubrics",
		"precondition":             "no-such-branch",
		"rejected":                 "two tasks, please",
		"reconciler-drops-a-side":  "Edsger",
		"blocked-verify-red":       "tests",
		"blocked-delivery-refused": "no pushing on Fridays",
		"impossible":               "ledger",
		"blocked-commit":           "good",
		"blocked-call-fatal":       "no-such-agent",
	}
	require.Contains(t, r.Why, why[e.Name])
	if e.Ending == machine.Cancelled {
		require.Equal(t, machine.PublishGate, r.Step)
		require.NotEmpty(t, r.Undone)
	}
	attempts := map[string]int{"veto": 3, "corrections": 2, "corrections-open": 2, "discarded": 1}
	if n := attempts[e.Name]; n > 0 {
		require.Equal(t, n, r.Tasks[0].Attempts)
	}
	require.Equal(t, e.Name == "corrections-open", len(r.Open) > 0, "%v", r.Open)
}

// act does what a person does at each wait of the example, as long as it runs.
func act(ctx, running context.Context, c client.Client, e examples.Example, dir string) error {
	for _, a := range e.Person {
		status, err := waiting(running, c, e.Name, a.At)
		if err != nil {
			return fmt.Errorf("the slice never waited at %s: %w", a.At, err)
		}
		for _, line := range a.Lines {
			text := line.Fill(map[string]string{"SUBJECT": status.Waiting.Subject, "FOLDER": status.Folder, "HERE": dir})
			cmd := exec.CommandContext(ctx, "/bin/sh", "-c", text)
			cmd.Env, cmd.WaitDelay = shared.env, time.Second
			out, err := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != line.Exit {
				return fmt.Errorf("%s\nexits with %d, expected %d: %w\n%s", text, code, line.Exit, err, out)
			}
		}
	}
	return nil
}

// waiting polls until the slice waits at a step.
func waiting(ctx context.Context, c client.Client, id string, at machine.Step) (slice.Status, error) {
	var s slice.Status
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		asked, cancel := context.WithTimeout(ctx, 5*time.Second)
		value, err := c.QueryWorkflow(asked, id, "", slice.QueryStatus)
		cancel()
		if err == nil {
			s = slice.Status{}
			if err := value.Get(&s); err != nil {
				return s, err
			}
			if s.Waiting != nil && s.State.Step == at {
				return s, nil
			}
		}
		select {
		case <-ctx.Done():
			return s, errors.Join(ctx.Err(), err)
		case <-tick.C:
		}
	}
}

// The acts of an example name what the tour can fill in.
func TestLines(t *testing.T) {
	for _, e := range examples.All() {
		for _, a := range e.Person {
			for _, l := range a.Lines {
				filled := l.Fill(map[string]string{"SUBJECT": "s", "FOLDER": "a b", "HERE": "h"})
				require.NotContains(t, filled, "$")
			}
		}
	}
	require.True(t, slices.ContainsFunc(examples.All(), func(e examples.Example) bool { return e.Tour }))
}
