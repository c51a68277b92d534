package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"interlock/activities/git"
	"interlock/slice"
	"interlock/spec"
)

func repositoryIn(t *testing.T, dir string) {
	t.Helper()
	_, err := git.Client{Dir: dir}.Output(t.Context(), "init", "--quiet", "--initial-branch=main")
	require.NoError(t, err)
}

// checkout makes a repository with files, and goes into it.
func checkout(t *testing.T, files map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	repositoryIn(t, dir)
	for name, text := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	t.Chdir(dir)
	return dir
}

func commandsOf(list []slice.Command) (out []string) {
	for _, c := range list {
		out = append(out, c.Name+": "+c.Run.String())
	}
	return out
}

func TestInit(t *testing.T) {
	for name, c := range map[string]struct {
		files         map[string]string
		setup, checks []string
		env           string
	}{
		"go": {map[string]string{"go.mod": "module x\n\nrequire y v1.0.0\n"},
			[]string{"download: go mod download"}, []string{"vet: go vet ./...", "test: go test -json ./..."}, "GOPROXY"},
		"go alone": {map[string]string{"go.mod": "module x\n"}, nil, []string{"vet: go vet ./...", "test: go test -json ./..."}, "GOPROXY"},
		"npm": {map[string]string{"package.json": `{"scripts":{"test":"node --test","lint":"eslint .","deploy":"x"}}`, "package-lock.json": "{}"},
			[]string{"install: npm ci"}, []string{"lint: npm run lint", "test: npm run test"}, "HTTPS_PROXY"},
		"pnpm": {map[string]string{"package.json": `{"scripts":{"test":"x"}}`, "pnpm-lock.yaml": ""},
			[]string{"install: pnpm install --frozen-lockfile"}, []string{"test: pnpm run test"}, "HTTPS_PROXY"},
		"yarn": {map[string]string{"package.json": `{"scripts":{"test":"x"},"packageManager":"yarn@4.1.0"}`, "yarn.lock": ""},
			[]string{"install: yarn install --immutable"}, []string{"test: yarn run test"}, "HTTPS_PROXY"},
		"named manager": {map[string]string{"package.json": `{"scripts":{"test":"x"},"packageManager":"bun@1.2"}`},
			[]string{"install: bun install"}, []string{"test: bun run test"}, "HTTPS_PROXY"},
		"no script": {map[string]string{"package.json": `{"scripts":{"test":"echo \"Error: no test specified\" && exit 1"}}`},
			[]string{"install: npm install"}, []string{"replace-me: echo 'interlock.yaml has no check of its own yet' >&2; exit 1"}, "HTTPS_PROXY"},
		"broken manifest": {map[string]string{"package.json": `{`}, []string{"install: npm install"},
			[]string{"replace-me: echo 'interlock.yaml has no check of its own yet' >&2; exit 1"}, "HTTPS_PROXY"},
		"pip": {map[string]string{"requirements.txt": "pytest\n", "setup.cfg": "[mypy]\n"},
			[]string{`install: python3 -m venv "$HOME/venv" && "$HOME/venv/bin/pip" install -r requirements.txt`},
			[]string{`types: "$HOME/venv/bin/python" -m mypy .`, `test: "$HOME/venv/bin/python" -m pytest -q`}, "HTTPS_PROXY"},
		"uv": {map[string]string{"pyproject.toml": "[tool.ruff]\n[dependency-groups]\ndev=['pytest']\n", "uv.lock": ""},
			[]string{"install: uv sync --frozen"}, []string{"lint: uv run python -m ruff check .", "test: uv run python -m pytest -q"}, "HTTPS_PROXY"},
		"poetry": {map[string]string{"pyproject.toml": "[tool.poetry]\n", "poetry.lock": ""},
			[]string{"install: poetry install --no-interaction"}, []string{"test: poetry run python -m unittest discover"}, "HTTPS_PROXY"},
		"maven": {map[string]string{"pom.xml": "<project/>", "mvnw": "#!/bin/sh\n"}, nil,
			[]string{"test: ./mvnw --batch-mode --no-transfer-progress test"}, "JAVA_HOME"},
		"gradle": {map[string]string{"build.gradle.kts": ""}, nil, []string{"test: gradle --no-daemon check"}, "JAVA_HOME"},
		"rust": {map[string]string{"Cargo.toml": "[package]\n", "Cargo.lock": ""},
			[]string{"fetch: cargo fetch --locked"}, []string{"test: cargo test --locked"}, "RUSTUP_HOME"},
		"mixed, one below": {map[string]string{"go.mod": "module x\n", "web/package.json": `{"scripts":{"test":"x"}}`, "web/package-lock.json": "{}", "node_modules/y/package.json": "{}"},
			[]string{"node-install-web: cd web && npm ci"},
			[]string{"go-vet: go vet ./...", "go-test: go test -json ./...", "node-test-web: cd web && npm run test"}, "GOPROXY"},
		"two of a kind below": {map[string]string{"a.b/Cargo.toml": "", "a-b/Cargo.toml": ""}, nil,
			[]string{"rust-test-a-b: cd a-b && cargo test", "rust-test-a-b-2: cd a.b && cargo test"}, "RUSTUP_HOME"},
		"nothing": {map[string]string{"README.md": "x"}, nil, []string{"replace-me: echo 'interlock.yaml has no check of its own yet' >&2; exit 1"}, "HTTPS_PROXY"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := checkout(t, c.files)
			code, _, stderr := call(t, "init", "--home", t.TempDir())
			require.Equal(t, 0, code, stderr)
			require.Contains(t, stderr, "git add interlock.yaml && git commit")
			data, err := os.ReadFile(filepath.Join(dir, slice.PolicyFile))
			require.NoError(t, err)
			p, err := spec.ParsePolicy(slice.PolicyFile, data)
			require.NoError(t, err)
			require.Equal(t, c.setup, commandsOf(p.Setup))
			require.Equal(t, c.checks, commandsOf(p.Checks))
			require.Contains(t, p.Env, c.env)
			require.Equal(t, slice.AdapterExternal, p.Agents.Implementer.Use)
			require.True(t, p.Gates.Plan)
			_, err = spec.Merge(&p, nil)
			require.NoError(t, err)
		})
	}
}

// TestInitOpensNoSecret puts pipes where secrets are, which hang whoever opens them.
func TestInitOpensNoSecret(t *testing.T) {
	dir := checkout(t, map[string]string{"go.mod": "module x\n", "sub/README.md": "x"})
	for _, name := range []string{".env", ".env.local", ".npmrc", ".yarnrc.yml", ".pypirc", ".netrc", "credentials", "id_rsa", "server.pem",
		"secrets.yaml", "package.json", "settings.xml", "sub/.env", "sub/pyproject.toml", "sub/Cargo.toml"} {
		require.NoError(t, unix.Mkfifo(filepath.Join(dir, name), 0o600))
	}
	ended := make(chan int, 1)
	var stdout string
	go func() {
		code, out, _ := call(t, "init", "--stdout", "-o", "json", "--home", t.TempDir())
		stdout = out
		ended <- code
	}()
	select {
	case code := <-ended:
		require.Equal(t, 0, code)
	case <-time.After(20 * time.Second):
		require.Fail(t, "it opens a file that it must not open")
	}
	var v initialised
	require.NoError(t, json.Unmarshal([]byte(stdout), &v))
	require.Equal(t, []string{"Go module (go.mod)"}, v.Found, "what is no regular file is no manifest")
	require.False(t, v.Written)
	require.NoFileExists(t, filepath.Join(dir, slice.PolicyFile))
}

func TestInitKeepsWhatIsThere(t *testing.T) {
	dir := checkout(t, map[string]string{"go.mod": "module x\n", "sub/x": "", slice.PolicyFile: "mine\n"})
	t.Chdir(filepath.Join(dir, "sub"))
	home := t.TempDir()
	code, _, stderr := call(t, "init", "--home", home)
	require.Equal(t, exitPrecondition, code)
	require.Contains(t, stderr, "is there already")
	data, err := os.ReadFile(filepath.Join(dir, slice.PolicyFile))
	require.NoError(t, err)
	require.Equal(t, "mine\n", string(data))

	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	require.NoError(t, os.WriteFile(elsewhere, []byte("not ours\n"), 0o644))
	require.NoError(t, os.Remove(filepath.Join(dir, slice.PolicyFile)))
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(dir, slice.PolicyFile)))
	code, _, _ = call(t, "init", "--home", home)
	require.Equal(t, exitPrecondition, code)
	code, _, stderr = call(t, "init", "--force", "--home", home)
	require.Equal(t, 0, code, stderr)
	data, err = os.ReadFile(elsewhere)
	require.NoError(t, err)
	require.Equal(t, "not ours\n", string(data), "a link is replaced, not followed")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	require.Equal(t, ".git go.mod interlock.yaml sub", strings.Join(names, " "), "nothing else is left")
}

func TestInitNeedsARepository(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("GIT_CEILING_DIRECTORIES", filepath.Dir(dir))
	_, err := repositoryHere(t.Context())
	require.Error(t, err)
	code, _, stderr := call(t, "init", "--home", t.TempDir())
	require.Equal(t, exitPrecondition, code)
	require.Contains(t, stderr, "git init")
}
