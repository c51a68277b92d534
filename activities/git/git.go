// Package git runs the git program with nothing left to chance: arguments as lists, the repository named
// explicitly, an environment made from scratch, machine formats, and errors that carry the exit code.
//
// There are two classes of call. A *local* call inherits nothing of the user's: no system or global
// configuration, no hooks, fsmonitor, filters, replace refs, signing, pager or prompt, and none of the GIT_*
// variables that the program itself was started with. A *remote* call (Client.Remote: fetch, push, ls-remote)
// adds the user's credential.*, url.*, http.* and core.sshCommand settings and the environment that credential
// helpers and the SSH agent live in, or nobody with a credential helper could push.
package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Client says where git runs. The zero value runs git without a repository. A Client is a value: copies are
// independent and it may be used by many goroutines at once.
type Client struct {
	// GitDir is the repository (GIT_DIR). Empty: git looks for one in Dir.
	GitDir string
	// WorkTree is the folder of files (GIT_WORK_TREE); empty for a call that needs none.
	WorkTree string
	// Index is the index file (GIT_INDEX_FILE); empty for the repository's own.
	Index string
	// Dir is the folder that git runs in; empty: WorkTree, else GitDir, else the root folder.
	Dir string
	// Safe lists folders that may belong to another user (safe.directory), exactly these.
	Safe []string
	// Lease, if set, is inherited by every git process, so that a file lock on it is held until the last of
	// them has ended, even if this program is killed first.
	Lease *os.File
	// Env is added last, as KEY=value.
	Env []string

	remote *remote
}

// neutral is given to every call, above every configuration file.
var neutral = []setting{
	{"core.hooksPath", "/dev/null"},
	{"core.fsmonitor", "false"},
	{"core.attributesFile", "/dev/null"},
	{"core.excludesFile", "/dev/null"},
	{"core.autocrlf", "false"},
	{"core.safecrlf", "false"},
	{"core.fileMode", "true"},
	{"core.symlinks", "true"},
	{"core.ignoreCase", "false"},
	{"core.precomposeUnicode", "false"},
	{"core.protectHFS", "true"},
	{"core.protectNTFS", "true"},
	{"core.trustctime", "true"},
	{"core.checkStat", "default"},
	{"core.sparseCheckout", "false"},
	{"core.splitIndex", "false"},
	{"core.untrackedCache", "false"},
	{"core.pager", "cat"},
	{"core.editor", "false"},
	{"core.packedRefsTimeout", "10000"},
	{"core.filesRefLockTimeout", "10000"},
	{"commit.gpgSign", "false"},
	{"tag.gpgSign", "false"},
	{"push.gpgSign", "false"},
	{"push.followTags", "false"},
	{"push.recurseSubmodules", "no"},
	{"fetch.recurseSubmodules", "false"},
	{"fetch.writeCommitGraph", "false"},
	{"submodule.recurse", "false"},
	{"gc.auto", "0"},
	{"gc.autoDetach", "false"},
	{"maintenance.auto", "false"},
	{"color.ui", "false"},
	{"column.ui", "never"},
	{"i18n.commitEncoding", "UTF-8"},
	{"i18n.logOutputEncoding", "UTF-8"},
	{"user.useConfigOnly", "true"},
	{"credential.interactive", "never"},
	{"protocol.version", "2"},
}

type setting struct{ key, value string }

// neutralEnv is given to every call.
var neutralEnv = []string{
	"LC_ALL=C",
	"GIT_CONFIG_NOSYSTEM=1",
	"GIT_CONFIG_SYSTEM=/dev/null",
	"GIT_ATTR_NOSYSTEM=1",
	"GIT_NO_REPLACE_OBJECTS=1",
	"GIT_TERMINAL_PROMPT=0",
	"GIT_OPTIONAL_LOCKS=0",
	"GIT_PAGER=cat",
	"GIT_EDITOR=false",
	"GIT_ADVICE=0",
	"GIT_DEFAULT_REF_FORMAT=files",
	"GIT_ALLOW_PROTOCOL=file:git:http:https:ssh",
	"GIT_AUTHOR_NAME=Interlock",
	"GIT_AUTHOR_EMAIL=interlock@localhost",
	"GIT_COMMITTER_NAME=Interlock",
	"GIT_COMMITTER_EMAIL=interlock@localhost",
}

// stopGrace is how long a cancelled git may take to remove its lock files before it is killed.
const stopGrace = 5 * time.Second

// maxStderr bounds what is kept of git's messages; the end is what tells.
const maxStderr = 32 << 10

// With returns a copy of the client with more environment, each KEY=value.
func (c Client) With(env ...string) Client {
	c.Env = append(append([]string(nil), c.Env...), env...)
	return c
}

// Output runs git and returns its standard output. A failure is an *Error.
func (c Client) Output(ctx context.Context, args ...string) ([]byte, error) {
	var out bytes.Buffer
	if err := c.Run(ctx, nil, &out, args...); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// Line is Output without its final newline.
func (c Client) Line(ctx context.Context, args ...string) (string, error) {
	out, err := c.Output(ctx, args...)
	return strings.TrimSuffix(string(out), "\n"), err
}

// Feed is Output with a standard input.
func (c Client) Feed(ctx context.Context, in []byte, args ...string) ([]byte, error) {
	var out bytes.Buffer
	if err := c.Run(ctx, bytes.NewReader(in), &out, args...); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// Run runs git with the given standard input and output; either may be nil. A failure is an *Error. If the
// context ends, git and every process it started are stopped, and the error unwraps to the context's.
func (c Client) Run(ctx context.Context, in io.Reader, out io.Writer, args ...string) error {
	return c.run(ctx, c.environ(), in, out, args...)
}

func (c Client) run(ctx context.Context, env []string, in io.Reader, out io.Writer, args ...string) error {
	fail := func(code int, stderr string, err error) error {
		return &Error{Args: redactAll(args), Dir: c.dir(), ExitCode: code, Stderr: Redact(stderr), Err: err}
	}
	path, err := exec.LookPath("git")
	if err != nil {
		return fail(-1, "", err)
	}
	if err := ctx.Err(); err != nil {
		return fail(-1, "", context.Cause(ctx))
	}
	cmd := exec.CommandContext(ctx, path, append([]string{"-C", c.dir()}, args...)...)
	// The folder of this program may be gone; git is told by -C where to go.
	cmd.Dir = "/"
	cmd.Env = env
	cmd.Stdin, cmd.Stdout = in, out
	stderr := &tail{limit: maxStderr}
	cmd.Stderr = stderr
	if c.Lease != nil {
		cmd.ExtraFiles = []*os.File{c.Lease}
	}
	// A session of its own: one group to stop, and no terminal that ssh could ask on.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = stopGrace
	err = cmd.Run()
	if ctx.Err() != nil && cmd.Process != nil {
		// ESRCH is the usual answer: the group has ended.
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fail(-1, stderr.String(), context.Cause(ctx))
	}
	code := -1
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	}
	return fail(code, stderr.String(), err)
}

func (c Client) dir() string {
	for _, d := range []string{c.Dir, c.WorkTree, c.GitDir} {
		if d != "" {
			return d
		}
	}
	return "/"
}

func (c Client) environ() []string {
	var env []string
	settings := neutral
	global := "/dev/null"
	if c.remote == nil {
		env = append(env, "PATH="+os.Getenv("PATH"), "HOME=/nonexistent")
		if tmp := os.Getenv("TMPDIR"); tmp != "" {
			env = append(env, "TMPDIR="+tmp)
		}
	} else {
		env = append(env, c.remote.env...)
		settings = append(append([]setting(nil), c.remote.settings...), neutral...)
		if c.remote.global != "" {
			global = c.remote.global
		}
	}
	env = append(env, neutralEnv...)
	env = append(env, "GIT_CONFIG_GLOBAL="+global)
	for _, dir := range c.Safe {
		settings = append(settings[:len(settings):len(settings)], setting{"safe.directory", dir})
	}
	env = append(env, "GIT_CONFIG_COUNT="+strconv.Itoa(len(settings)))
	for i, s := range settings {
		n := strconv.Itoa(i)
		env = append(env, "GIT_CONFIG_KEY_"+n+"="+s.key, "GIT_CONFIG_VALUE_"+n+"="+s.value)
	}
	for _, v := range []struct{ name, value string }{
		{"GIT_DIR", c.GitDir}, {"GIT_WORK_TREE", c.WorkTree}, {"GIT_INDEX_FILE", c.Index},
	} {
		if v.value != "" {
			env = append(env, v.name+"="+v.value)
		}
	}
	return append(env, c.Env...)
}

// Fields splits the NUL-terminated output of a command run with -z.
func Fields(out []byte) []string {
	s := strings.TrimSuffix(string(out), "\x00")
	if s == "" {
		return nil
	}
	return strings.Split(s, "\x00")
}

// Floor is the oldest git that works: the first with "merge-tree --write-tree", "cat-file -z" and
// safe.directory from the environment.
const Floor = "2.38"

var newEnough atomic.Bool

// Require checks that the git on the PATH is at least Floor. A success is remembered.
func Require(ctx context.Context) error {
	if newEnough.Load() {
		return nil
	}
	out, err := Client{}.Line(ctx, "version")
	if err != nil {
		return err
	}
	if !atLeast(out, 2, 38) {
		return &VersionError{Found: strings.TrimPrefix(out, "git version ")}
	}
	newEnough.Store(true)
	return nil
}

// VersionError says that the git on the PATH is older than Floor.
type VersionError struct{ Found string }

func (e *VersionError) Error() string {
	return fmt.Sprintf("git %s is too old: install git %s or newer", e.Found, Floor)
}

// atLeast reads "git version 2.39.5 (Apple Git-154)".
func atLeast(version string, major, minor int) bool {
	var a, b int
	if _, err := fmt.Sscanf(strings.TrimPrefix(version, "git version "), "%d.%d", &a, &b); err != nil {
		return false
	}
	return a > major || a == major && b >= minor
}

// tail keeps the last limit bytes written to it.
type tail struct {
	limit int
	buf   []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.buf = append(t.buf, p...)
	if extra := len(t.buf) - t.limit; extra > 0 {
		t.buf = append(t.buf[:0], t.buf[extra:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return string(t.buf) }
