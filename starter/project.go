package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"interlock/slice"
)

// A project is what a manifest describes, with what measures it.
type project struct {
	// key begins the names of its commands where there are several projects.
	key, kind, manifest string
	// dir is the folder of the manifest below the root; empty is the root.
	dir    string
	setup  []command
	checks []command
	env    []string
	// notes are for the reader of the policy.
	notes []string
}

// command is one suggestion for a policy.
type command struct {
	name    string
	run     slice.Argv
	reads   slice.Reads
	inputs  []string
	timeout string
}

func (p project) String() string {
	return fmt.Sprintf("%s (%s)", p.kind, filepath.ToSlash(filepath.Join(p.dir, p.manifest)))
}

// named gives the commands of p names that are its own among several projects.
func (p project) named(list []command, several bool) []command {
	out := slices.Clone(list)
	for i := range out {
		if several {
			out[i].name = p.key + "-" + out[i].name
		}
		if p.dir != "" {
			out[i].name += "-" + strings.ToLower(strings.Trim(notName.ReplaceAllString(p.dir, "-"), "-"))
			for n, in := range out[i].inputs {
				out[i].inputs = slices.Clone(out[i].inputs)
				out[i].inputs[n] = p.dir + "/" + in
			}
			if line, ok := shellLine(out[i].run); ok {
				out[i].run = slice.Shell("cd " + p.dir + " && " + line)
			} else {
				out[i].run = slice.Shell("cd " + p.dir + " && " + out[i].run.String())
			}
		}
	}
	return out
}

var (
	notName = regexp.MustCompile(`[^A-Za-z0-9]+`)
	// plainDir is a folder that needs no quotes in a shell.
	plainDir = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,40}$`)
	notOurs  = []string{"node_modules", "vendor", "testdata", "target", "build", "dist", "third_party", "examples"}
)

// folder is one folder of a repository. Only manifests can be read of it.
type folder struct {
	path  string
	names map[string]os.DirEntry
}

func open(path string) (folder, error) {
	entries, err := os.ReadDir(path)
	f := folder{path, map[string]os.DirEntry{}}
	for _, e := range entries {
		f.names[e.Name()] = e
	}
	return f, err
}

// has says whether a regular file is there; it is not opened.
func (f folder) has(name string) bool {
	e, ok := f.names[name]
	return ok && e.Type().IsRegular()
}

// manifests are the files that are opened, and no others.
var manifests = []string{"go.mod", "package.json", "pyproject.toml", "setup.cfg", "requirements.txt", "requirements-dev.txt", "Cargo.toml"}

const maxManifest = 1 << 20

// read returns a manifest, or nothing.
func (f folder) read(name string) string {
	if !slices.Contains(manifests, name) || !f.has(name) {
		return ""
	}
	file, err := os.Open(filepath.Join(f.path, name))
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }()
	b, err := io.ReadAll(io.LimitReader(file, maxManifest))
	if err != nil {
		return ""
	}
	return string(b)
}

// look finds the projects at the root of a repository; of a kind that is not
// there, those in the folders directly below it.
func look(root string) ([]project, error) {
	top, err := open(root)
	if err != nil {
		return nil, err
	}
	var below []string
	for name, e := range top.names {
		if e.IsDir() && plainDir.MatchString(name) && !slices.Contains(notOurs, name) {
			below = append(below, name)
		}
	}
	slices.Sort(below)
	var found []project
	for _, recognise := range []func(folder) (project, bool){goProject, nodeProject, pythonProject, mavenProject, gradleProject, rustProject} {
		if p, ok := recognise(top); ok {
			found = append(found, p)
			continue
		}
		for _, dir := range below {
			f, err := open(filepath.Join(root, dir))
			if err != nil {
				continue // it is not ours to read
			}
			if p, ok := recognise(f); ok {
				p.dir = dir
				found = append(found, p)
			}
		}
	}
	return found, nil
}

func goProject(f folder) (project, bool) {
	if !f.has("go.mod") {
		return project{}, false
	}
	p := project{key: "go", kind: "Go module", manifest: "go.mod",
		env:   []string{"GOPROXY", "GOPRIVATE", "GONOSUMDB", "GOSUMDB", "GOTOOLCHAIN"},
		notes: []string{"GOCACHE and GOMODCACHE, if named here and set for the worker, make checks faster,", "and let the tests of a candidate write to them."},
	}
	if strings.Contains(f.read("go.mod"), "require") {
		p.setup = []command{{name: "download", run: slice.Argv{"go", "mod", "download"}, inputs: []string{"go.mod", "go.sum"}, timeout: "10m"}}
	}
	p.checks = []command{
		{name: "vet", run: slice.Argv{"go", "vet", "./..."}, timeout: "10m"},
		{name: "test", run: slice.Argv{"go", "test", "-json", "./..."}, reads: slice.ReadsGo, timeout: "20m"},
	}
	return p, true
}

func nodeProject(f folder) (project, bool) {
	if !f.has("package.json") {
		return project{}, false
	}
	var manifest struct {
		PackageManager string            `json:"packageManager"`
		Scripts        map[string]string `json:"scripts"`
	}
	_ = json.Unmarshal([]byte(f.read("package.json")), &manifest) // one that is broken suggests nothing
	manager, lock, install := nodeManager(f, manifest.PackageManager)
	inputs := []string{"package.json"}
	if lock != "" {
		inputs = append(inputs, lock)
	}
	p := project{key: "node", kind: "Node package with " + manager, manifest: "package.json",
		setup: []command{{name: "install", run: install, inputs: inputs, timeout: "15m"}},
	}
	for _, script := range []string{"typecheck", "type-check", "lint", "build", "test"} {
		line, ok := manifest.Scripts[script]
		if !ok || strings.Contains(line, "no test specified") {
			continue
		}
		run := slice.Argv{manager, "run", script}
		timeout := "10m"
		if script == "test" {
			timeout = "20m"
		}
		p.checks = append(p.checks, command{name: script, run: run, timeout: timeout})
	}
	if len(p.checks) == 0 {
		p.notes = append(p.notes, "package.json has no script test, lint, typecheck or build: write a check for it.")
	}
	return p, true
}

// nodeManager tells the package manager by its lockfile, or by what the
// manifest names.
func nodeManager(f folder, named string) (manager, lock string, install slice.Argv) {
	frozen := map[string]slice.Argv{
		"npm": {"npm", "ci"}, "pnpm": {"pnpm", "install", "--frozen-lockfile"},
		"yarn": {"yarn", "install", "--frozen-lockfile"}, "bun": {"bun", "install", "--frozen-lockfile"},
	}
	if f.has(".yarnrc.yml") || strings.HasPrefix(named, "yarn@") && !strings.HasPrefix(named, "yarn@1.") {
		frozen["yarn"] = slice.Argv{"yarn", "install", "--immutable"}
	}
	for _, l := range []struct{ file, manager string }{
		{"pnpm-lock.yaml", "pnpm"}, {"yarn.lock", "yarn"}, {"bun.lock", "bun"}, {"bun.lockb", "bun"},
		{"package-lock.json", "npm"}, {"npm-shrinkwrap.json", "npm"},
	} {
		if f.has(l.file) {
			return l.manager, l.file, frozen[l.manager]
		}
	}
	manager, _, _ = strings.Cut(named, "@")
	if frozen[manager] == nil {
		manager = "npm"
	}
	return manager, "", slice.Argv{manager, "install"}
}

func pythonProject(f folder) (project, bool) {
	p := project{key: "python", kind: "Python project"}
	var inputs []string
	text := ""
	for _, name := range []string{"pyproject.toml", "setup.cfg", "setup.py", "requirements.txt", "requirements-dev.txt"} {
		if f.has(name) {
			inputs = append(inputs, name)
			text += f.read(name)
		}
	}
	if len(inputs) == 0 {
		return p, false
	}
	p.manifest = inputs[0]
	var in []string // what runs a program in the environment
	switch {
	case f.has("uv.lock"):
		in = []string{"uv", "run"}
		p.setup = []command{{name: "install", run: slice.Argv{"uv", "sync", "--frozen"}, inputs: append(inputs, "uv.lock")}}
	case f.has("poetry.lock"):
		in = []string{"poetry", "run"}
		p.setup = []command{{name: "install", run: slice.Argv{"poetry", "install", "--no-interaction"}, inputs: append(inputs, "poetry.lock")}}
	default:
		// HOME is the slice's own, so that the environment is in nobody's way.
		line := `python3 -m venv "$HOME/venv"`
		for _, name := range []string{"requirements.txt", "requirements-dev.txt"} {
			if f.has(name) {
				line += ` && "$HOME/venv/bin/pip" install -r ` + name
			}
		}
		if f.has("pyproject.toml") && strings.Contains(text, "[build-system]") || f.has("setup.py") {
			line += ` && "$HOME/venv/bin/pip" install -e .`
		}
		p.setup = []command{{name: "install", run: slice.Shell(line), inputs: inputs}}
	}
	p.setup[0].timeout = "15m"
	module := func(words ...string) slice.Argv {
		if in == nil {
			return slice.Shell(`"$HOME/venv/bin/python" -m ` + strings.Join(words, " "))
		}
		return append(slices.Clone(in), append([]string{"python", "-m"}, words...)...)
	}
	if strings.Contains(text, "ruff") {
		p.checks = append(p.checks, command{name: "lint", run: module("ruff", "check", "."), timeout: "10m"})
	}
	if strings.Contains(text, "mypy") {
		p.checks = append(p.checks, command{name: "types", run: module("mypy", "."), timeout: "10m"})
	}
	test := module("unittest", "discover")
	if strings.Contains(text, "pytest") {
		test = module("pytest", "-q")
	}
	p.checks = append(p.checks, command{name: "test", run: test, timeout: "20m"})
	return p, true
}

func mavenProject(f folder) (project, bool) {
	maven := "mvn"
	if f.has("mvnw") {
		maven = "./mvnw"
	}
	return project{key: "maven", kind: "Java project with Maven", manifest: "pom.xml", env: []string{"JAVA_HOME", "MAVEN_OPTS"},
		checks: []command{{name: "test", run: slice.Argv{maven, "--batch-mode", "--no-transfer-progress", "test"}, timeout: "30m"}},
	}, f.has("pom.xml")
}

func gradleProject(f folder) (project, bool) {
	p := project{key: "gradle", kind: "Java project with Gradle", env: []string{"JAVA_HOME", "GRADLE_OPTS"}}
	for _, name := range []string{"build.gradle.kts", "build.gradle"} {
		if f.has(name) {
			p.manifest = name
		}
	}
	gradle := "gradle"
	if f.has("gradlew") {
		gradle = "./gradlew"
	}
	p.checks = []command{{name: "test", run: slice.Argv{gradle, "--no-daemon", "check"}, timeout: "30m"}}
	return p, p.manifest != ""
}

func rustProject(f folder) (project, bool) {
	p := project{key: "rust", kind: "Rust crate", manifest: "Cargo.toml", env: []string{"RUSTUP_HOME", "CARGO_HOME", "RUSTUP_TOOLCHAIN"},
		notes: []string{"cargo by rustup needs RUSTUP_HOME and CARGO_HOME set for the worker, since HOME is another", "(~/.rustup and ~/.cargo, say); candidates can write to them."},
	}
	locked := []string{}
	if f.has("Cargo.lock") {
		locked = []string{"--locked"}
		p.setup = []command{{name: "fetch", run: slice.Argv{"cargo", "fetch", "--locked"}, inputs: []string{"Cargo.toml", "Cargo.lock"}, timeout: "15m"}}
	}
	p.checks = []command{{name: "test", run: append(slice.Argv{"cargo", "test"}, locked...), timeout: "30m"}}
	return p, f.has("Cargo.toml")
}
