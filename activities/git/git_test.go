package git

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) {
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "GIT_") || strings.HasPrefix(name, "XDG_") {
			os.Unsetenv(name)
		}
	}
	os.Setenv("HOME", "/nonexistent")
	os.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	os.Exit(m.Run())
}

func repository(t *testing.T) Client {
	t.Helper()
	dir := t.TempDir()
	_, err := Client{}.Output(t.Context(), "init", "--quiet", "--bare", "--template=", "--", dir)
	require.NoError(t, err)
	return Client{GitDir: dir}
}

func TestErrorHasExitCodeAndStderr(t *testing.T) {
	c := repository(t)
	_, err := c.Output(t.Context(), "rev-parse", "--verify", "refs/heads/none")
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, 128, e.ExitCode)
	require.Equal(t, 128, ExitCode(err))
	require.Equal(t, "fatal: Needed a single revision\n", Stderr(err))
	require.Equal(t, c.GitDir, e.Dir)
	require.ErrorContains(t, err, "git rev-parse in "+c.GitDir+": fatal: Needed a single revision (exit code 128)")
	require.Equal(t, 0, ExitCode(nil))
	require.Equal(t, -1, ExitCode(errors.New("other")))

	t.Setenv("PATH", t.TempDir())
	_, err = c.Output(t.Context(), "version")
	require.Equal(t, -1, ExitCode(err))
	require.ErrorContains(t, err, "executable file not found")
}

// TestCancelStopsTheGroup: git and what it has started are gone when the context ends, also if they ignore the
// polite signal.
func TestCancelStopsTheGroup(t *testing.T) {
	c := repository(t)
	pidFile := filepath.Join(t.TempDir(), "pid")
	script := filepath.Join(t.TempDir(), "upload-pack")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\ntrap '' TERM\necho $$ > "+pidFile+".new && mv "+pidFile+".new "+pidFile+"\nwhile :; do sleep 1; done\n"), 0o755))
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error)
	go func() { _, err := c.Output(ctx, "ls-remote", "--upload-pack="+script, "--", c.GitDir); done <- err }()
	require.Eventually(t, func() bool { _, err := os.Stat(pidFile); return err == nil }, 10*time.Second, 10*time.Millisecond)
	why := errors.New("told to")
	cancel(why)
	err := <-done
	require.ErrorIs(t, err, why)
	require.Equal(t, -1, ExitCode(err))
	pid, err := os.ReadFile(pidFile)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		status, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/status")
		return err != nil || strings.Contains(string(status), "State:\tZ")
	}, 10*time.Second, 10*time.Millisecond)

	_, err = c.Output(ctx, "version")
	require.ErrorIs(t, err, why, "nothing is started any more")
}

// TestLocalInheritsNothing: the whole configuration that a local call sees is ours and the repository's.
func TestLocalInheritsNothing(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	require.NoError(t, os.WriteFile(home+"/.gitconfig", []byte("[user]\n\tname = someone\n[core]\n\thooksPath = /x\n[credential]\n\thelper = x\n"), 0o644))
	t.Setenv("GIT_CONFIG_COUNT", "1")
	t.Setenv("GIT_CONFIG_KEY_0", "alias.x")
	t.Setenv("GIT_CONFIG_VALUE_0", "y")
	t.Setenv("GIT_DIR", "/elsewhere")
	t.Setenv("SECRET", "s")
	c := repository(t)
	out, err := c.Output(t.Context(), "config", "--list")
	require.NoError(t, err)
	require.NotContains(t, string(out), "someone")
	require.NotContains(t, string(out), "credential.helper")
	require.NotContains(t, string(out), "alias")
	for _, s := range neutral {
		got, err := c.Line(t.Context(), "config", s.key)
		require.NoError(t, err, s.key)
		require.Equal(t, s.value, got, s.key)
	}
	require.NotContains(t, strings.Join(c.environ(), "\n"), "SECRET")
}

// TestRemoteTakesOnlyWhatIsNeeded: credentials, addresses, http and ssh, of the user and of the repository.
func TestRemoteTakesOnlyWhatIsNeeded(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	require.NoError(t, os.WriteFile(home+"/included", []byte("[http \"https://x.example/\"]\n\textraHeader = A: b\n"), 0o644))
	require.NoError(t, os.WriteFile(home+"/.gitconfig", []byte(`[include]
	path = included
[user]
	name = someone
[core]
	hooksPath = /x
	sshCommand = ssh -i key
	askPass = /x
[credential]
	helper =
	helper = store
[credential "https://y.example"]
	useHttpPath
[url "ssh://git@z.example/"]
	insteadOf = https://z.example/
[push]
	gpgSign = true
[protocol "ext"]
	allow = always
`), 0o644))
	t.Setenv("GIT_DIR", "/elsewhere")
	t.Setenv("GIT_ASKPASS", "/x")
	t.Setenv("SSH_ASKPASS", "/x")
	t.Setenv("SSH_AUTH_SOCK", "/agent")
	local := repository(t)
	_, err := local.Output(t.Context(), "config", "http.proxy", "http://p.example")
	require.NoError(t, err)
	c, err := repository(t).Remote(t.Context(), local.GitDir, "")
	require.NoError(t, err)
	require.Equal(t, []setting{
		{"http.https://x.example/.extraheader", "A: b"}, {"core.sshcommand", "ssh -i key"},
		{"credential.helper", ""}, {"credential.helper", "store"}, {"credential.https://y.example.usehttppath", "true"},
		{"url.ssh://git@z.example/.insteadof", "https://z.example/"}, {"http.proxy", "http://p.example"},
	}, c.remote.settings)
	env := strings.Join(c.environ(), "\n")
	require.Contains(t, env, "SSH_AUTH_SOCK=/agent")
	require.NotContains(t, env, "ASKPASS")
	require.NotContains(t, env, "elsewhere")
	got, err := c.Line(t.Context(), "ls-remote", "--get-url", "https://z.example/a")
	require.NoError(t, err)
	require.Equal(t, "ssh://git@z.example/a", got)
	got, err = c.Line(t.Context(), "config", "core.hooksPath")
	require.NoError(t, err)
	require.Equal(t, "/dev/null", got)
	_, err = c.Output(t.Context(), "ls-remote", "--", "ext::touch "+home+"/sprung")
	require.ErrorContains(t, err, "not allowed")
	require.NoFileExists(t, home+"/sprung")
}

func TestRedact(t *testing.T) {
	for in, want := range map[string]string{
		"fatal: https://user:pw@h.example/a failed": "fatal: https://***@h.example/a failed",
		"https://ghp_token@github.com/a/b":          "https://***@github.com/a/b",
		"ssh://git@h.example/a":                     "ssh://git@h.example/a",
		"ssh://git:pw@h.example/a":                  "ssh://git:***@h.example/a",
		"git@h.example:a/b":                         "git@h.example:a/b",
		"https://h.example/a@b":                     "https://h.example/a@b",
		"'HTTPS://u:p@h/x' and http://v@h":          "'HTTPS://***@h/x' and http://***@h",
	} {
		require.Equal(t, want, Redact(in))
	}
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringMatching(`[a-zA-Z0-9:%._~-]{8,20}`).Draw(t, "secret")
		scheme := rapid.SampledFrom([]string{"http", "https", "HTTPS"}).Draw(t, "scheme")
		text := rapid.StringMatching(`[a-z ]{0,5}`).Draw(t, "text") + " " + scheme + "://" + secret + "@host/path"
		if strings.Contains(Redact(text), secret) {
			t.Fatalf("%q keeps the secret", Redact(text))
		}
	})
}

func TestFieldsAndVersion(t *testing.T) {
	require.Nil(t, Fields(nil))
	require.Equal(t, []string{"a", "", "b\n"}, Fields([]byte("a\x00\x00b\n\x00")))
	for version, want := range map[string]bool{
		"git version 2.38.0": true, "git version 2.39.5 (Apple Git-154)": true, "git version 3.0.0-rc1": true,
		"git version 2.37.9": false, "git version 1.99.0": false, "": false, "git version x": false,
	} {
		require.Equal(t, want, atLeast(version, 2, 38), version)
	}
	require.NoError(t, Require(t.Context()))
}

func TestStderrIsBounded(t *testing.T) {
	w := &tail{limit: 10}
	for range 100 {
		_, _ = w.Write([]byte("abcdefg"))
	}
	require.Equal(t, "efgabcdefg", w.String())
	var out bytes.Buffer
	require.NoError(t, Client{}.Run(t.Context(), nil, &out, "version"))
	require.Contains(t, out.String(), "git version")
}

func TestOldGitIsRefused(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(dir+"/git", []byte("#!/bin/sh\necho git version 2.30.1\n"), 0o755))
	t.Setenv("PATH", dir)
	newEnough.Store(false)
	var e *VersionError
	require.ErrorAs(t, Require(t.Context()), &e)
	require.Equal(t, "git 2.30.1 is too old: install git 2.38 or newer", e.Error())
}
