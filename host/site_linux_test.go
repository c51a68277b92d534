package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"interlock/activities/process"
	"interlock/activities/workspace"
	"interlock/ledger"
	"interlock/machine"
	"interlock/slice"
)

// activitySequence is what a slice of the site takes: the first try at the
// first task is red.
var activitySequence = []string{
	"claim", "prepare", "baseline",
	"implement", "check", "implement", "check", "judge", "commit",
	"implement", "check", "judge", "commit",
	"reconcile", "verify", "judge_slice", "publish",
	"undo", "undo", "conclude",
}

// What the calls of the site cost, in millionths of a US dollar.
const (
	implementCost    = 20_000
	judgeCost        = 10_000
	implementReserve = 100_000
	judgeReserve     = 50_000
	undisturbedCost  = 3*implementCost + 3*judgeCost
)

// The programs of a site. Each is filled with the site's folder for CONTROL
// and the real git for GIT.
const (
	// hit kills the worker if the worker has armed it, and stays until it is
	// killed itself, deaf to everything else.
	hit = `#!/bin/sh
if mv CONTROL/armed.child CONTROL/taken 2>/dev/null; then
	trap '' TERM HUP INT
	kill -9 "$(cat CONTROL/pid)"
	while :; do sleep 60; done
fi
`
	// gitWrapper kills the worker just before the git call with the number
	// that it has armed. The call itself goes on.
	gitWrapper = `#!/bin/sh
if [ -f CONTROL/armed.git ]; then
	echo >>CONTROL/calls
	if [ "$(wc -l <CONTROL/calls)" -eq "$(cat CONTROL/armed.git)" ] && mv CONTROL/armed.git CONTROL/taken; then
		kill -9 "$(cat CONTROL/pid)"
	fi
fi
exec GIT "$@"
`
	implementer = `#!/bin/sh
set -eu
brief=$(cat)
told() { printf '%s' "$brief" | grep -q -e "$1"; }
if told second.txt; then
	echo wrong >second.txt
	. CONTROL/hit
	echo right >second.txt
elif told 'is not right'; then
	. CONTROL/hit
	echo right >first.txt
else
	echo wrong >first.txt
	. CONTROL/hit
fi
if mv CONTROL/block CONTROL/blocking 2>/dev/null; then
	if [ -s CONTROL/blocking ]; then trap '' TERM; fi
	touch CONTROL/blocked
	while :; do sleep 60; done
fi
printf '{"status":"done","summary":"did it","cost_usd":0.02}\n'
`
	judge = `#!/bin/sh
set -eu
brief=$(cat)
. CONTROL/hit
scores=$(printf '%s\n' "$brief" |
	sed -n '/^  "rubric": \[/,/^  \]/s/^ *"criterion": \(".*"\),\{0,1\}$/\1/p' |
	while IFS= read -r criterion; do
		printf '%s{"criterion":%s,"score":5,"reason":"it is so"}' "${comma-}" "$criterion"
		comma=,
	done)
printf '{"scores":[%s],"findings":[],"cost_usd":0.01}\n' "$scores"
`
	// checker runs the test of the tree.
	checker = `#!/bin/sh
. CONTROL/hit
exec /bin/sh ./test.sh
`
	treeTest = `#!/bin/sh
status=0
for file in *.txt; do
	if [ -f "$file" ] && [ "$(cat "$file")" != right ]; then
		echo "$file is not right"
		status=1
	fi
done
exit $status
`
)

// site is a repository with a remote, agents, and a worker's home.
type site struct {
	t    *testing.T
	lane *lane
	// id is the slice's.
	id string
	// dir holds the others.
	dir, home, control, repository, remote string
	// trees are what the tasks are to make.
	trees   [2]string
	deliver slice.Deliver

	run client.WorkflowRun
	// closed is closed when the slice has ended, and what follows is set.
	closed   chan struct{}
	closedAt time.Time
	result   slice.Result
	err      error
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, lane: enter(t), dir: t.TempDir(), closed: make(chan struct{})}
	s.id = "kill-" + filepath.Base(filepath.Dir(s.dir)) + "-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	s.id = strings.ToLower(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '-'
	}, s.id))
	s.deliver = slice.Deliver{To: "publish", Remote: "origin"}
	s.home, s.control = filepath.Join(s.dir, "home"), filepath.Join(s.dir, "control")
	s.repository, s.remote = filepath.Join(s.dir, "repository"), filepath.Join(s.dir, "remote.git")
	for _, dir := range []string{"home", "control", "bin", "user", "tmp"} {
		require.NoError(t, os.MkdirAll(filepath.Join(s.dir, dir), 0o700))
	}
	realGit, err := exec.LookPath("git")
	require.NoError(t, err)
	fill := strings.NewReplacer("CONTROL", s.control, "GIT", realGit)
	for name, text := range map[string]string{
		"control/hit": hit, "control/implementer": implementer, "control/judge": judge, "control/checker": checker, "bin/git": gitWrapper,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(s.dir, name), []byte(fill.Replace(text)), 0o700))
	}

	s.git(s.dir, "init", "-q", "--bare", "-b", "main", s.remote)
	s.git(s.dir, "init", "-q", "-b", "main", s.repository)
	s.write("README", "a site\n")
	s.write("test.sh", treeTest)
	s.git(s.repository, "add", ".")
	s.git(s.repository, "commit", "-q", "-m", "begin")
	s.git(s.repository, "remote", "add", "origin", s.remote)
	s.git(s.repository, "push", "-q", "origin", "main")
	for i, name := range []string{"first.txt", "second.txt"} {
		s.write(name, "right\n")
		s.git(s.repository, "add", name)
		s.trees[i] = s.git(s.repository, "write-tree")
	}
	s.git(s.repository, "reset", "-q", "--hard")
	return s
}

func (s *site) write(name, text string) {
	s.t.Helper()
	require.NoError(s.t, os.WriteFile(filepath.Join(s.repository, name), []byte(text), 0o644))
}

// environment is of everything that the site starts.
func (s *site) environment() []string {
	return []string{
		"PATH=" + filepath.Join(s.dir, "bin") + ":" + os.Getenv("PATH"),
		"HOME=" + filepath.Join(s.dir, "user"), "TMPDIR=" + filepath.Join(s.dir, "tmp"),
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@localhost", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@localhost",
		"INTERLOCK_FORGE_TOKEN=" + forgeToken,
	}
}

func (s *site) git(dir string, args ...string) string {
	s.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = dir, s.environment()
	out, err := cmd.CombinedOutput()
	require.NoError(s.t, err, "git %v: %s", args, out)
	return strings.TrimSpace(string(out))
}

func (s *site) spec() slice.Spec {
	usd := func(micro int64) *slice.USD { u := slice.USD(micro); return &u }
	agent := func(name string, reserve int64) slice.Agent {
		return slice.Agent{Name: name, Use: slice.AdapterCommand, Run: slice.Argv{"/bin/sh", filepath.Join(s.control, name)},
			Timeout: slice.Duration(time.Minute), USD: usd(reserve)}
	}
	return slice.Spec{
		ID: s.id, Repo: s.repository, Base: "main", Title: "Make two files right",
		Tasks: []slice.Task{
			{ID: "one", Criterion: "There is a first file, and it is right."},
			{ID: "two", Criterion: "There is another file, and it is right.", Details: "Its name is second.txt."},
		},
		Policy: &slice.Policy{
			Agents: slice.Agents{
				Implementer: agent("implementer", implementReserve),
				Judges:      []slice.Agent{agent("judge", judgeReserve)},
			},
			Checks:  []slice.Command{{Name: "test", Run: slice.Argv{"/bin/sh", filepath.Join(s.control, "checker")}}},
			Rubric:  []slice.Rubric{{Criterion: "The files are right."}},
			Budgets: slice.Budgets{USD: usd(2_000_000)},
			Deliver: s.deliver,
			// The agents write outside, to be counted and held up.
			Sandbox: slice.SandboxOff,
		},
	}
}

// start starts the slice, and notes when it closes.
func (s *site) start() {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	var err error
	s.run, err = s.lane.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: s.id, TaskQueue: slice.Queue}, slice.Workflow, slice.Input{Spec: s.spec()})
	require.NoError(s.t, err)
	go func() {
		defer close(s.closed)
		for ctx.Err() == nil {
			err := s.run.Get(ctx, &s.result)
			var failed *temporal.WorkflowExecutionError
			if err == nil || errors.As(err, &failed) {
				s.err, s.closedAt = err, time.Now()
				return
			}
			<-time.After(20 * time.Millisecond) // the server may be gone for a moment
		}
	}()
	s.t.Cleanup(func() {
		// A slice that is left would be taken by the next test's worker.
		ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
		defer stop()
		_ = s.lane.client.TerminateWorkflow(ctx, s.id, "", "the test is over")
		cancel()
		<-s.closed
	})
}

// workerProcess is a worker.
type workerProcess struct {
	site  *site
	cmd   *exec.Cmd
	began time.Time
	ended chan struct{}
}

func (s *site) worker(p plan) *workerProcess {
	s.t.Helper()
	p.Home, p.Address, p.Control, p.ServerHome, p.Slice = s.home, s.lane.server.Address, s.control, s.lane.home, s.id
	text, err := json.Marshal(p)
	require.NoError(s.t, err)
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(s.environment(), workerVariable+"="+string(text))
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	w := &workerProcess{site: s, cmd: cmd, began: time.Now(), ended: make(chan struct{})}
	require.NoError(s.t, cmd.Start())
	go func() {
		defer close(w.ended)
		_ = cmd.Wait()
	}()
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-w.ended
		if id, err := ID(s.home); err == nil {
			_, _ = process.Sweep(id)
		}
	})
	return w
}

// killed reports whether the worker was ended by SIGKILL.
func (w *workerProcess) killed() bool {
	status, ok := w.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// stop stops the worker gracefully and returns how long that took.
func (w *workerProcess) stop() time.Duration {
	w.site.t.Helper()
	began := time.Now()
	require.NoError(w.site.t, w.cmd.Process.Signal(syscall.SIGTERM))
	w.site.await(w.ended, 20*time.Second, "the worker does not leave")
	require.Equal(w.site.t, 0, w.cmd.ProcessState.ExitCode(), "%s", w.site.log())
	return time.Since(began)
}

func (s *site) await(c <-chan struct{}, limit time.Duration, why string) {
	s.t.Helper()
	select {
	case <-c:
	case <-time.After(limit):
		s.t.Fatalf("%s within %s\n%s", why, limit, s.log())
	}
}

// finish has workers serve until the slice has ended: one with each plan, the
// next one when one dies, and one without a plan at last. It returns them.
func (s *site) finish(plans ...plan) []*workerProcess {
	s.t.Helper()
	return s.finishWith(s.worker(plans[0]), plans[1:]...)
}

// finishWith is finish with a first worker that is there.
func (s *site) finishWith(first *workerProcess, plans ...plan) []*workerProcess {
	s.t.Helper()
	all := []*workerProcess{first}
	plans = append(plans, plan{})
	limit := time.After(runLimit)
	for {
		last := all[len(all)-1]
		select {
		case <-s.closed:
			return all
		case <-last.ended:
			require.True(s.t, last.killed(), "the worker ended by itself: %s\n%s", last.cmd.ProcessState, s.log())
			require.LessOrEqual(s.t, len(all), len(plans), "workers die again and again\n%s", s.log())
			all = append(all, s.worker(plans[len(all)-1]))
		case <-limit:
			s.t.Fatalf("the slice has not ended within %s\n%s", runLimit, s.log())
		}
	}
}

// runLimit is for a run with one restart; recovery has limits of its own.
const runLimit = 90 * time.Second

// event is a line of the log of the site's workers.
type event struct {
	Time     time.Time
	Level    string
	Msg      string
	PID      int
	Activity string
	N, Git   int
}

func (s *site) events() []event {
	s.t.Helper()
	b, err := os.ReadFile(filepath.Join(s.control, "log"))
	require.NoError(s.t, err)
	var all []event
	for line := range bytes.Lines(b) {
		var e event
		require.NoError(s.t, json.Unmarshal(line, &e), "%s", line)
		all = append(all, e)
	}
	return all
}

// log is the end of the workers' log, for a person.
func (s *site) log() string {
	b, _ := os.ReadFile(filepath.Join(s.control, "log"))
	if len(b) > 6000 {
		b = b[len(b)-6000:]
	}
	return string(b)
}

const (
	// maxGap is the longest that nothing may happen after a restart.
	maxGap = 3 * time.Second
	// maxStart is the longest until a worker serves; a turn at the home's lock
	// and a server that is just starting are in it.
	maxStart = 10 * time.Second
)

// requireRecovered asserts that the last worker, once it served, never waited
// for something that was lost with an earlier one.
func (s *site) requireRecovered(last *workerProcess) {
	s.t.Helper()
	var serving, before time.Time
	var first, gap time.Duration
	began, where := false, ""
	for _, e := range s.events() {
		if e.PID != last.cmd.Process.Pid {
			continue
		}
		switch {
		case e.Msg == saysServing:
			serving = e.Time
			if !began {
				before = e.Time
			}
		case e.Msg == saysStarts && !began:
			// One queue may be polled before the worker says that both are.
			began, before = true, e.Time
			if !serving.IsZero() {
				first = e.Time.Sub(serving)
			}
		case e.Msg == saysStarts:
			if d := e.Time.Sub(before); d > gap {
				gap, where = d, fmt.Sprintf("before %s %d in %s", e.Activity, e.N, s.t.Name())
			}
		case e.Msg == saysEnds:
			before = e.Time
		}
	}
	require.NotZero(s.t, serving, "%s", s.log())
	if d := s.closedAt.Sub(before); d > gap {
		gap, where = d, "before the end in "+s.t.Name()
	}
	numbers.mu.Lock()
	numbers.restarts++
	numbers.toServing = max(numbers.toServing, serving.Sub(last.began))
	numbers.toFirst = max(numbers.toFirst, first)
	if gap > numbers.gap {
		numbers.gap, numbers.where = gap, where
	}
	numbers.mu.Unlock()
	require.LessOrEqual(s.t, serving.Sub(last.began), maxStart, "until it serves\n%s", s.log())
	require.LessOrEqual(s.t, first, maxGap, "from serving to the first activity\n%s", s.log())
	require.LessOrEqual(s.t, gap, maxGap, "%s\n%s", where, s.log())
}

// requireSteady asserts that nothing was ended by the heartbeat timeout: that
// would hide that something was lost.
func (s *site) requireSteady() {
	s.t.Helper()
	var before event
	for i, e := range s.events() {
		if i > 0 {
			require.Less(s.t, e.Time.Sub(before.Time), DefaultHeartbeat*2/3, "between %q and %q\n%s", before.Msg, e.Msg, s.log())
		}
		before = e
	}
}

// requireDelivered asserts that the slice ended as an undisturbed one does,
// and has cost what is said.
func (s *site) requireDelivered(cost int64) {
	s.t.Helper()
	t := s.t
	require.NoError(t, s.err, "%s", s.log())
	require.Equal(t, machine.Delivered, s.result.Ending, s.result.Why)
	require.Empty(t, s.result.Failed)
	require.Equal(t, cost, s.result.CostMicroUSD, "micro-dollars")
	var attempts []int
	for _, task := range s.result.Tasks {
		attempts = append(attempts, task.Attempts)
	}
	require.Equal(t, []int{2, 1}, attempts)

	lines, folded := s.record()
	require.Equal(t, machine.Delivered, folded.State.Ending)
	require.True(t, folded.Ended)
	require.Equal(t, cost, folded.State.SpentMicroUSD)
	require.Equal(t, s.result.Ledger.N, folded.N)
	require.Equal(t, s.result.Ledger.Head, folded.Head)
	require.Equal(t, 1, folded.Runs)
	s.requireSteady()
	heads := map[string]bool{}
	for _, l := range lines {
		heads[ledger.Hash(l)] = true
	}

	commits := strings.Fields(s.git(s.remote, "rev-list", "--reverse", "main..refs/heads/"+slice.Branch(s.id)))
	require.Equal(t, folded.Commits, commits)
	require.Len(t, commits, 2)
	require.Equal(t, s.result.Commit, commits[1])
	require.Equal(t, s.git(s.remote, "rev-parse", "main"), s.git(s.remote, "rev-parse", commits[0]+"^"))
	for i, want := range []struct{ task, attempt string }{{"one", "2"}, {"two", "1"}} {
		require.Equal(t, s.trees[i], s.git(s.remote, "rev-parse", commits[i]+"^{tree}"))
		trailers := map[string]string{}
		for line := range strings.Lines(s.git(s.remote, "log", "-1", "--format=%(trailers:only,unfold)", commits[i])) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
			trailers[key] = value
		}
		require.True(t, heads[trailers[slice.TrailerLedger]], "the trailer names a line of the record")
		delete(trailers, slice.TrailerLedger)
		require.Equal(t, map[string]string{slice.TrailerSlice: s.id, slice.TrailerTask: want.task, slice.TrailerAttempt: want.attempt}, trailers)
	}
	s.requireNothingLeft()
}

func (s *site) record() ([]string, ledger.Folded) {
	s.t.Helper()
	store, err := workspace.Open(s.t.Context(), s.home, s.repository)
	require.NoError(s.t, err)
	record, err := store.Ledger(s.t.Context(), s.id)
	require.NoError(s.t, err)
	folded, err := ledger.Fold(record.Lines)
	require.NoError(s.t, err)
	return record.Lines, folded
}

// requireNothingLeft asserts that the home holds no file of the slice outside
// the store, and that no process is left but the workers.
func (s *site) requireNothingLeft() {
	s.t.Helper()
	for _, room := range []string{"workspaces", "views", "slices"} {
		err := filepath.WalkDir(filepath.Join(s.home, room), func(path string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				s.t.Errorf("%s is left", path)
			}
			return err
		})
		if !errors.Is(err, fs.ErrNotExist) {
			require.NoError(s.t, err)
		}
	}
	s.requireNoProcess()
}

func (s *site) requireNoProcess() {
	s.t.Helper()
	id, err := ID(s.home)
	require.NoError(s.t, err)
	require.Eventually(s.t, func() bool { return len(s.processes(id)) == 0 }, 5*time.Second, 20*time.Millisecond, "processes are left")
}

// processes are those that carry the home's marker, or that name the site's folder.
func (s *site) processes(id string) []int {
	var found []int
	all, err := filepath.Glob("/proc/[0-9]*")
	require.NoError(s.t, err)
	for _, dir := range all {
		environ, _ := os.ReadFile(filepath.Join(dir, "environ"))
		arguments, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		isWorker := bytes.Contains(environ, []byte(workerVariable+"="))
		marked := bytes.Contains(environ, []byte(process.MarkerVariable+"="+id+"/"))
		if marked || !isWorker && (bytes.Contains(environ, []byte(s.dir)) || bytes.Contains(arguments, []byte(s.dir))) {
			pid, _ := strconv.Atoi(filepath.Base(dir))
			found = append(found, pid)
		}
	}
	return found
}

// requireCancelled asserts that the slice was cancelled, that it took back
// what it had done, and that it has cost what is said.
func (s *site) requireCancelled(cost int64, undone int) {
	s.t.Helper()
	t := s.t
	var cancelled *temporal.CanceledError
	require.ErrorAs(t, s.err, &cancelled, "%s", s.log())
	require.NoError(t, cancelled.Details(&s.result))
	require.Equal(t, machine.Cancelled, s.result.Ending)
	require.Empty(t, s.result.Failed)
	require.Len(t, s.result.Undone, undone)
	require.Equal(t, cost, s.result.CostMicroUSD, "micro-dollars")
	_, folded := s.record()
	require.Equal(t, machine.Cancelled, folded.State.Ending)
	require.True(t, folded.Ended)
	require.Equal(t, cost, folded.State.SpentMicroUSD)
	require.Equal(t, s.result.Ledger.Head, folded.Head)
	require.Empty(t, s.git(s.remote, "for-each-ref", "refs/heads/interlock"))
	s.requireNothingLeft()
}

// awaitBlocked waits until a call runs that block has made endless.
func (s *site) awaitBlocked() {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		_, err := os.Stat(filepath.Join(s.control, "blocked"))
		return err == nil
	}, runLimit, 10*time.Millisecond, "no agent runs")
}

// block has the next call of the implementer run until it is ended; a deaf one
// does not end by SIGTERM.
func (s *site) block(deaf bool) {
	s.t.Helper()
	text := ""
	if deaf {
		text = "deaf"
	}
	require.NoError(s.t, os.WriteFile(filepath.Join(s.control, "block"), []byte(text), 0o600))
}
