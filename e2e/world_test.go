//go:build linux

package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"interlock/machine"
	"interlock/slice"
)

// setup is a slice and its world; what is empty is as in the peaceful one.
type setup struct {
	// files are those of the base beside README.md.
	files map[string]string
	// implementer and judge are lines of shell: see prelude.
	implementer, judge string
	// checks, setUp, budgets, deliver and expectedRed are YAML.
	checks, budgets, deliver, expectedRed string
	// skeptics are those of the policy, sandbox is "off" if it is empty: scripts
	// count their calls outside. judges are more of them.
	skeptics, sandbox, judges string
	// more is the rest of the policy.
	more string
	// timeout is that of agents.
	timeout string
	// tasks is how many there are; 0 means 1.
	tasks int
	// before is done to the world before the slice begins.
	before func(*world)
	// cut says that the slice loses its record.
	cut bool
}

// world is a repository with its remote, agents and a slice.
type world struct {
	t                                *testing.T
	id, dir, repo, remote, file, out string
	base                             string
	// kept is what the world looked like before the slice.
	kept  map[string]string
	refs  map[string]string
	setup setup
}

// prelude is what every script of an agent begins with: its brief, where
// things are, and words for what all of them do.
const prelude = `set -u
REPO=%[1]q OUT=%[2]q IL=%[3]q ID=%[4]q STORE=$(ls -d %[3]q/stores/*%[4]q*/ | head -n 1)
brief=$(cat)
echo begun >>"$OUT/calls.$ROLE"
told() { printf '%%s' "$brief" | grep -q -e "$1"; }
work() { echo hello >hello.txt; }
answer() { printf '{"status":"done","summary":"%%s","cost_usd":0.01}\n' "${1-did it}"; }
scores() { printf '{"scores":[{"criterion":"It works.","score":%%s,"reason":"so"}],"findings":[%%s],"cost_usd":0.01}\n' "$1" "${2-}"; }
commit() { git add -A; git -c user.name=x -c user.email=x@x -c commit.gpgsign=false commit -q --no-verify "$@"; }
`

const (
	peacefulWork  = "work; answer"
	peacefulJudge = `printf '%s' "$brief" >"$OUT/judge.brief.$$"; scores 5`
	// The check that every world has by default can fail.
	peacefulCheck = `[{name: works, run: "test -s README.md && ! grep -qs BROKEN hello.txt"}]`
)

func newWorld(t *testing.T, s setup) *world {
	t.Helper()
	needsServer(t)
	id := idOf(t.Name())
	dir := filepath.Join(shared.dir, "worlds", id)
	w := &world{t: t, id: id, dir: dir, repo: filepath.Join(dir, id), remote: filepath.Join(dir, "remote.git"),
		file: filepath.Join(dir, "slice.yaml"), out: filepath.Join(dir, "out"), setup: s}
	require.NoError(t, os.MkdirAll(w.out, 0o755))
	w.writeAgent("implementer", or(s.implementer, peacefulWork))
	w.writeAgent("judge", or(s.judge, peacefulJudge))

	w.git(dir, "init", "-q", "--bare", "-b", "main", w.remote)
	w.git(dir, "init", "-q", "-b", "main", w.repo)
	files := map[string]string{"README.md": "a sample\n", slice.PolicyFile: w.policy()}
	maps.Copy(files, s.files)
	for name, text := range files {
		if text != "" {
			w.write(name, text)
		}
	}
	w.git(w.repo, "add", "-A")
	w.git(w.repo, "commit", "-q", "-m", "Begin")
	w.base = w.git(w.repo, "rev-parse", "HEAD")
	w.git(w.repo, "remote", "add", "origin", w.remote)
	w.git(w.repo, "push", "-q", "origin", "main")
	require.NoError(t, os.WriteFile(w.file, []byte(w.spec()), 0o644))
	if s.before != nil {
		s.before(w)
	}
	w.keep()
	t.Cleanup(func() {
		if t.Failed() {
			w.tell()
		}
	})
	return w
}

// idOf makes an id that is short enough to be in the name of the store whole.
func idOf(name string) string {
	words := strings.FieldsFunc(strings.ToLower(name[strings.LastIndex(name, "/")+1:]), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	slug := strings.Join(words, "-")
	sum := sha256.Sum256([]byte(name))
	return strings.TrimRight(slug[:min(len(slug), 24)], "-") + "-" + hex.EncodeToString(sum[:3])
}

func or(s, def string) string {
	if s == "" {
		return def
	}
	return s
}

func (w *world) writeAgent(role, body string) {
	text := "#!/bin/sh\nROLE=" + role + "\n" + fmt.Sprintf(prelude, w.repo, w.out, shared.home, w.id)
	require.NoError(w.t, os.WriteFile(filepath.Join(w.dir, role+".sh"), []byte(text+body+"\n"), 0o755))
}

func (w *world) policy() string {
	s := w.setup
	return fmt.Sprintf(`agents:
  implementer: {use: command, run: [/bin/sh, %[1]q], timeout: %[3]s, usd: 0.05}
  judges: [{name: reader, use: command, run: [/bin/sh, %[2]q], timeout: %[3]s, usd: 0.05}%[8]s]
%[9]schecks: %[4]s
sandbox: %[10]q
rubric: [{criterion: It works.}]
budgets: {%[5]s}
deliver: %[6]s
%[7]s
`, filepath.Join(w.dir, "implementer.sh"), filepath.Join(w.dir, "judge.sh"), or(s.timeout, "60s"),
		or(s.checks, peacefulCheck), s.budgets, or(s.deliver, "{to: publish}"), s.more, s.judges, s.skeptics, or(s.sandbox, "off"))
}

func (w *world) spec() string {
	text := fmt.Sprintf("id: %s\nrepo: %q\nbase: main\ntitle: Say hello\ntasks:\n", w.id, w.repo)
	for i := range max(w.setup.tasks, 1) {
		text += fmt.Sprintf("- {id: t%d, criterion: There is a greeting %d.}\n", i+1, i+1)
	}
	if w.setup.expectedRed != "" {
		text += "expected_red: " + w.setup.expectedRed + "\n"
	}
	return text
}

// write writes a file of the user's repository.
func (w *world) write(name, text string) {
	path := filepath.Join(w.repo, name)
	require.NoError(w.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(w.t, os.WriteFile(path, []byte(text), 0o644))
}

// git runs git as a user does.
func (w *world) git(dir string, args ...string) string {
	w.t.Helper()
	out, err := w.tryGit(dir, args...)
	require.NoError(w.t, err, "git %v: %s", args, out)
	return out
}

func (w *world) tryGit(dir string, args ...string) (string, error) {
	return w.do(dir, "git", args...)
}

// trySh runs a script as a user does.
func (w *world) trySh(file string) (string, error) { return w.do(w.dir, "/bin/sh", file) }

func (w *world) do(dir, program string, args ...string) (string, error) {
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	cmd.Env = append(slices.Clone(shared.env), "GIT_AUTHOR_NAME=user", "GIT_AUTHOR_EMAIL=user@example.org",
		"GIT_COMMITTER_NAME=user", "GIT_COMMITTER_EMAIL=user@example.org")
	out, err := cmd.CombinedOutput()
	return strings.TrimSuffix(string(out), "\n"), err
}

// run takes the slice to its end.
func (w *world) run() (slice.Result, ran) {
	w.t.Helper()
	return w.runFile(w.file)
}

func (w *world) runFile(file string) (slice.Result, ran) {
	w.t.Helper()
	how := interlock(w.t, "run", file, "-o", "json")
	var r slice.Result
	if how.stdout != "" {
		require.NoError(w.t, json.Unmarshal([]byte(how.stdout), &r), how.stdout)
	}
	return r, how
}

// ends runs the slice and says that it ended so, and that it harmed nothing.
func (w *world) ends(ending machine.Ending, cause machine.Cause) slice.Result {
	w.t.Helper()
	r, how := w.run()
	require.Equal(w.t, [2]string{string(ending), string(cause)}, [2]string{string(r.Ending), string(r.Cause)},
		"%s\n%s", r.Why, how.stderr)
	end, ok := machine.Find(ending, cause)
	require.True(w.t, ok)
	require.Equal(w.t, end.Code, how.code)
	w.unharmed()
	return r
}

// keep notes what the world looks like.
func (w *world) keep() {
	w.kept = hashes(w.t, w.repo)
	w.refs = w.refsOf(w.remote)
}

// unharmed says that nothing but the slice's own has changed: the user's
// repository, other branches of the remote, the processes of this machine;
// and that the record verifies.
func (w *world) unharmed() {
	w.t.Helper()
	branch := slice.Branch(w.id)
	now := hashes(w.t, w.repo)
	if strings.Contains(w.setup.deliver, "branch") {
		for _, m := range []map[string]string{now, w.kept} {
			maps.DeleteFunc(m, func(name, _ string) bool {
				return strings.HasPrefix(name, ".git/objects") || strings.Contains(name, "/refs/heads/interlock")
			})
		}
	}
	require.Equal(w.t, w.kept, now, "the user's repository was changed")
	refs := w.refsOf(w.remote)
	delete(refs, "refs/heads/"+branch)
	before := maps.Clone(w.refs)
	delete(before, "refs/heads/"+branch)
	require.Equal(w.t, before, refs, "other branches of the remote were changed")
	require.Empty(w.t, w.left(), "processes were left")
	if _, err := os.Stat(filepath.Join(shared.home, "slices", w.id)); err == nil || w.recorded() {
		how := interlock(w.t, "ledger", w.id, "--verify")
		require.Equal(w.t, w.setup.cut, how.code != 0, how.stdout+how.stderr)
	}
}

func (w *world) refsOf(dir string) map[string]string {
	refs := map[string]string{}
	for line := range strings.Lines(w.git(dir, "for-each-ref", "--format=%(refname) %(objectname)")) {
		if name, id, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			refs[name] = id
		}
	}
	return refs
}

// store is the folder of the slice's store.
func (w *world) store() string {
	found, err := filepath.Glob(filepath.Join(shared.home, "stores", "*"+w.id+"*"))
	require.NoError(w.t, err)
	for _, dir := range found {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return dir
		}
	}
	return ""
}

func (w *world) recorded() bool {
	if w.store() == "" {
		return false
	}
	_, err := w.tryGit(w.store(), "rev-parse", "--quiet", "--verify", "refs/interlock/"+w.id+"/ledger")
	return err == nil
}

// left are the processes that have to do with the slice and still live.
func (w *world) left() []string {
	var list []string
	deadline := time.Now().Add(5 * time.Second)
	for {
		list = list[:0]
		dirs, err := filepath.Glob("/proc/[0-9]*")
		require.NoError(w.t, err)
		for _, dir := range dirs {
			line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
			env, _ := os.ReadFile(filepath.Join(dir, "environ"))
			cwd, _ := os.Readlink(filepath.Join(dir, "cwd"))
			if strings.Contains(string(line)+"\x00"+string(env)+"\x00"+cwd+"/", "/"+w.id+"/") {
				list = append(list, dir+": "+strings.ReplaceAll(string(line), "\x00", " "))
			}
		}
		if len(list) == 0 || time.Now().After(deadline) {
			return list
		}
		<-time.After(20 * time.Millisecond)
	}
}

// hashes is the content of every file below a folder.
func hashes(t *testing.T, dir string) map[string]string {
	t.Helper()
	m := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		info, err := e.Info()
		if err != nil {
			return err
		}
		what := info.Mode().String()
		switch {
		case e.Type()&fs.ModeSymlink != 0:
			to, err := os.Readlink(path)
			if err != nil {
				return err
			}
			what += " " + to
		case e.Type().IsRegular():
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			sum := sha256.Sum256(b)
			what += " " + hex.EncodeToString(sum[:6])
		}
		m[name] = what
		return nil
	})
	require.NoError(t, err)
	return m
}

// delivered says that the branch of the slice, in the repository at dir, has
// exactly these files beside the base's, in exactly one commit for each task,
// each with its trailers.
func (w *world) delivered(dir string, files map[string]string) {
	w.t.Helper()
	branch := "refs/heads/" + slice.Branch(w.id)
	list := strings.Fields(w.git(dir, "rev-list", "--reverse", w.base+".."+branch))
	require.Len(w.t, list, max(w.setup.tasks, 1))
	for i, commit := range list {
		for key, want := range map[string]string{
			slice.TrailerSlice: w.id, slice.TrailerTask: fmt.Sprintf("t%d", i+1),
		} {
			require.Equal(w.t, want, w.git(dir, "log", "-1", "--format=%(trailers:key="+key+",valueonly,separator=)", commit))
		}
		require.Len(w.t, w.git(dir, "log", "-1", "--format=%(trailers:key="+slice.TrailerLedger+",valueonly,separator=)", commit), 64)
		require.NotEmpty(w.t, w.git(dir, "log", "-1", "--format=%(trailers:key="+slice.TrailerAttempt+",valueonly,separator=)", commit))
		require.Equal(w.t, "Interlock <interlock@localhost> Interlock <interlock@localhost>", w.git(dir, "log", "-1", "--format=%an <%ae> %cn <%ce>", commit))
	}
	got := map[string]string{}
	changed := w.git(dir, "diff-tree", "-r", "-z", "--no-renames", "--name-only", w.base, branch)
	for _, name := range strings.Split(strings.TrimSuffix(changed, "\x00"), "\x00") {
		if name == "" {
			continue
		}
		text, err := w.tryGit(dir, "cat-file", "-p", branch+":"+name)
		if err != nil {
			text = "(removed)"
		}
		got[name] = text
	}
	require.Equal(w.t, files, got)
}

// calls is how often the agent of a role was started.
func (w *world) calls(role string) int {
	b, err := os.ReadFile(filepath.Join(w.out, "calls."+role))
	if err != nil {
		return 0
	}
	return strings.Count(string(b), "\n")
}

// tell shows what is known of a slice that failed its test.
func (w *world) tell() {
	how := interlock(w.t, "ledger", w.id)
	w.t.Logf("record of %s:\n%s%s", w.id, how.stdout, how.stderr)
}

// quote writes a string as YAML takes it.
func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string has a JSON form
	}
	return string(b)
}
