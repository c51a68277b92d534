package guard

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// threshold says that a setting is a floor of the coverage.
func threshold(s *setting) bool {
	key := plain(strings.ReplaceAll(s.key(), "-", ""))
	switch key {
	case "failunder", "minimumcoverage", "covfailunder", "coveragethreshold", "minimumcoveragepercentage", "minimumline", "failunderlines":
		return true
	case "lines", "branches", "functions", "statements", "minimum", "global", "linerate", "minlines":
		return s.under("coverageThreshold", "thresholds", "nyc", "c8", "coverage", "limit", "check", "rules", "jacoco", "violationRules", "jacocoTestCoverageVerification") || strings.Contains(s.full(), "overage")
	case "target":
		return s.under("coverage") && s.under("status")
	case "threshold":
		return s.under("coverage") && !s.under("status")
	}
	return false
}

// one returns the only value of a setting.
func (s *setting) one() string {
	if len(s.values) == 1 {
		return s.values[0]
	}
	return strings.Join(s.values, " ")
}

func (s *setting) truth() bool { return oneOf(strings.ToLower(s.one()), "true", "yes", "1", "on") }

// lookup finds the settings of one path.
func lookup(c *conf, p []string) []*setting {
	var out []*setting
	for k := range c.settings {
		if slices.Equal(c.settings[k].path, p) {
			out = append(out, &c.settings[k])
		}
	}
	return out
}

func (j *judge) compareSettings(b, h *conf) {
	if strings.HasPrefix(h.path, ".github/workflows/") {
		return // all that counts there are commands and what rules them
	}
	base := path.Base(h.path)
	old := map[string]int{} // positions used, for paths that occur more than once
	for k := range h.settings {
		s := &h.settings[k]
		key := s.full()
		same := lookup(b, s.path)
		var was *setting
		// One of several with the same value is unchanged.
		unchanged := false
		for _, x := range same {
			if slices.Equal(x.values, s.values) {
				unchanged = true
			}
		}
		if unchanged {
			continue
		}
		if n := old[key]; n < len(same) {
			was = same[n]
			old[key]++
		}
		j.setting(b, h, base, was, s)
	}
	// What is gone.
	for k := range b.settings {
		s := &b.settings[k]
		if len(lookup(h, s.path)) > 0 {
			continue
		}
		key := plain(s.key())
		switch {
		case threshold(s):
			// A limit that moved within its file is still there.
			moved := false
			for i := range h.settings {
				moved = moved || threshold(&h.settings[i]) && h.settings[i].key() == s.key() && !lower(s.one(), h.settings[i].one())
			}
			if moved || s.one() == "0" {
				continue
			}
			j.config("coverage-lowered", Tampered, h.path, 0, fmt.Sprintf("the floor %s of the coverage is gone (%s)", s.one(), s.full()))
		case oneOf(key, "xfailstrict", "failifnotests", "forbidonly", "failonwarning", "failonrisky", "failonemptytestsuite", "strict", "checkcoverage", "strictmarkers") && s.truth():
			j.config("expected-failure", Review, h.path, 0, fmt.Sprintf("%s is gone", s.full()))
		case oneOf(key, "testpaths", "roots", "testmatch") && false:
		case key == "include" && s.under("settings") && false:
		case s.path[0] == "use" && base == "go.work", oneOf(key, "module") && s.under("modules"), oneOf(key, "members", "workspaces", "packages") && (base == "Cargo.toml" || base == "package.json" || strings.HasPrefix(base, "pnpm-workspace") || base == "lerna.json"):
			for _, v := range s.values {
				j.unlinked(b, h, s, v)
			}
		case base == "phpunit.xml" || strings.HasPrefix(base, "phpunit"):
			if oneOf(key, "directory", "file") && s.under("testsuite") {
				for _, v := range s.values {
					j.narrowed(h.path, 0, "testsuite", v, nil)
				}
			}
		}
	}
	if base == "Cargo.toml" || base == "package.json" || strings.HasPrefix(base, "pnpm-workspace") || base == "pom.xml" || base == "go.work" || strings.HasPrefix(base, "settings.gradle") || base == "lerna.json" {
		j.members(b, h)
	}
}

// members compares the lists of the parts that a run goes through.
func (j *judge) members(b, h *conf) {
	collect := func(c *conf) []string {
		var out []string
		for k := range c.settings {
			s := &c.settings[k]
			key := s.key()
			if oneOf(key, "members", "workspaces", "packages", "include") && !s.under("exclude", "files", "package", "compilerOptions") && (key != "include" || strings.HasPrefix(path.Base(c.path), "settings.gradle")) || key == "module" && s.under("modules") || key == "use" {
				out = append(out, s.values...)
			}
		}
		return out
	}
	now := collect(h)
	for _, v := range collect(b) {
		if !slices.Contains(now, v) {
			j.unlinked(b, h, nil, v)
		}
	}
	// exclude = ["crates/x"] of a workspace.
	for k := range h.settings {
		s := &h.settings[k]
		if s.key() == "exclude" && s.under("workspace") {
			was := lookup(b, s.path)
			for _, v := range s.values {
				if len(was) == 0 || !slices.Contains(was[0].values, v) {
					j.unlinked(b, h, s, v)
				}
			}
		}
	}
}

// unlinked judges a part of a workspace that is no longer in its list.
func (j *judge) unlinked(_, h *conf, s *setting, v string) {
	dir := strings.Trim(strings.ReplaceAll(strings.TrimPrefix(v, ":"), ":", "/"), "./*")
	if root := path.Dir(h.path); root != "." {
		dir = path.Join(root, dir)
	}
	line := 0
	if s != nil {
		line = s.line
	}
	for _, e := range j.list(Head) {
		lang := languageOf(e.Path)
		if dir != "" && strings.HasPrefix(e.Path, dir+"/") && e.file() && lang != "" && isTestFile(lang, e.Path) {
			j.config("module-boundary", Tampered, h.path, line, fmt.Sprintf("%s is no longer part of the workspace, and its tests are still there", v))
			return
		}
	}
}

// exclusions are keys whose values are left out of a run.
var exclusions = []string{"testpathignorepatterns", "modulepathignorepatterns", "watchpathignorepatterns2", "exclude", "excludes", "ignore", "testignore", "ignored", "skippedtests", "norecursedirs", "collectignore", "excludetestsmatching", "excludefile", "excludesfile", "excludedgroups", "excludetags", "excludedtags", "excludecategories", "excludespecpattern", "excludepattern", "ignorefiles", "ignorespecs", "deselect", "skippedtestidentifiers", "excludedclass", "exclude_glob", "specignore", "grepinvert", "tests-exclude", "excludegroups", "excludetaskrules"}

// inclusions are keys whose values are all that is run.
var inclusions = []string{"testmatch", "testregex", "include", "includes", "testpaths", "testdir", "roots", "specs", "specpattern", "spec", "files", "specfiles", "python_files", "pythonfiles", "python_classes", "pythonclasses", "python_functions", "pythonfunctions", "includetestsmatching", "selectedtests", "includetags", "groups", "specdir", "directory", "file", "rootdir", "dir", "projects", "grep", "test", "testnamepattern", "testsuite", "suffix", "defaultfilter", "includedgroups"}

// aboutTests says that a setting stands where a runner of tests is configured.
func aboutTests(base string, s *setting) bool {
	for _, prefix := range []string{"jest", "vitest", "playwright", "cypress", ".mocharc", "karma", "jasmine", "ava.config", "phpunit", "testng", "pytest", "tox", "nextest", ".taprc", "wdio"} {
		if strings.HasPrefix(base, prefix) || strings.HasPrefix(base, "."+prefix) {
			return !s.under("coverage", "build", "typecheck", "source", "deps", "optimizeDeps", "transform", "nyc", "lint", "resolve", "plugins", "server", "babel")
		}
	}
	switch base {
	case "vite.config.ts", "vite.config.js", "vite.config.mts", "vite.config.mjs", "vitest.workspace.ts":
		return s.under("test") && !s.under("coverage")
	case "package.json":
		return s.under("jest", "mocha", "ava", "vitest", "tap", "jasmine") && !s.under("scripts", "dependencies", "devDependencies")
	case "pyproject.toml":
		return s.under("pytest", "nose", "unittest", "ini_options", "tox") && !s.under("coverage", "ruff", "mypy", "black", "isort")
	case "setup.cfg":
		return s.under("tool:pytest", "pytest", "nosetests", "aliases") || strings.HasPrefix(s.path[0], "testenv")
	case "pom.xml":
		return s.under("configuration") && !s.under("exclusions", "shade", "filters", "rules", "archive", "resources", "compilerArgs", "reporting")
	case "bunfig.toml":
		return s.under("test")
	case "deno.json", "deno.jsonc":
		return s.under("test")
	case "build.xml":
		return s.under("junit", "batchtest", "testng", "fileset") && s.under("junit", "batchtest", "junitlauncher", "testng")
	case "project.json", "nx.json":
		return s.under("test")
	}
	switch path.Ext(base) {
	case ".gradle", ".kts":
		return s.under("test", "Test", "tests", "integrationTest", "useJUnitPlatform", "testTask", "withType") || strings.HasSuffix(strings.ToLower(strings.Join(s.path[:len(s.path)-1], ".")), "test")
	case ".xctestplan":
		return true
	case ".runsettings":
		return true
	case ".csproj", ".props", ".targets", ".fsproj":
		return true
	}
	return false
}

//nolint:gocyclo // one case for each setting that means something
func (j *judge) setting(b, h *conf, base string, was, s *setting) {
	key := plain(strings.ReplaceAll(s.key(), "-", ""))
	val := s.one()
	low := strings.ToLower(val)
	had := ""
	if was != nil {
		had = was.one()
	}
	say := func(kind string, v Verdict, format string, args ...any) {
		j.config(kind, v, h.path, s.line, fmt.Sprintf(format, args...))
	}
	fresh := was == nil || !strings.EqualFold(had, val)
	about := aboutTests(base, s)
	if len(s.path) > 0 && s.path[0] == "quarantine" {
		if j.namesTest(val) {
			say("quarantine-list", Tampered, "%s is now on a list of tests that are left out", val)
		} else {
			say("quarantine-list", Review, "%s is now on a list of what is left out", val)
		}
		return
	}
	switch {
	// Flags that turn tests off, or their failures away.
	case oneOf(key, "maven.test.skip", "skiptests", "skipits", "skip", "maven.test.skip.exec", "skipexec", "skipunittests", "skipsurefire") && (base == "pom.xml" || base == "gradle.properties") && fresh && low == "true":
		if key == "skip" && !s.under("configuration") || key == "skip" && !j.plugin(h, s, "surefire", "failsafe") {
			return
		}
		say("build-skip-flag", Tampered, "%s: no test is run", s.key())
	case oneOf(key, "testfailureignore", "maven.test.failure.ignore", "ignorefailures", "ignoreerrors", "ignoreoutcome", "ignoreerrors", "dangerouslyignoreunhandlederrors", "ignoretestfailures", "continueonfailure", "teststopignore") && fresh && s.truth():
		kind := "build-skip-flag"
		if key == "ignoreoutcome" {
			kind = "result-forged"
		}
		say(kind, Tampered, "%s: failures do not count", s.key())
	case oneOf(key, "onlyif") && (s.under("test", "tests", "integrationTest", "check", "withType", "Test") || strings.Contains(strings.ToLower(s.full()), "test")) && fresh:
		say("build-skip-flag", Tampered, "the tests run only if %s", shorten(val))
	case key == "enabled" && (path.Ext(base) == ".gradle" || path.Ext(base) == ".kts") && about && fresh && low == "false", key == "isenabled" && about && low == "false", oneOf(key, "enabled") && len(s.path) > 1 && strings.Contains(strings.ToLower(s.full()), "test") && low == "false" && (path.Ext(base) == ".gradle" || path.Ext(base) == ".kts"):
		say("build-skip-flag", Tampered, "the task of the tests is turned off")
	case oneOf(key, "failifnotests", "failifnospecifiedtests", "haltonfailure", "haltonerror", "failonerror", "failonnomatchingtests", "failonnodiscoveredtests", "failontestfailure", "failonmissingtests") && fresh && oneOf(low, "false", "no") && (was != nil || oneOf(key, "failonmissingtests")) && !s.under("compilerOptions"):
		v := Review
		if was != nil && oneOf(strings.ToLower(had), "true", "yes") && oneOf(key, "haltonfailure", "failonerror", "failontestfailure") {
			v = Tampered
		}
		say("build-skip-flag", v, "%s was turned off", s.key())
	case oneOf(key, "passwithnotests", "allowonly", "allowempty", "passonfailure") && fresh && s.truth():
		say("command-changed", Tampered, "%s: no test at all, or tests in focus, count as success", s.key())
	case oneOf(key, "xfailstrict", "forbidonly", "failonwarning", "failonrisky", "failonemptytestsuite", "bestrictaboutteststhatdonottestanything", "strict", "restoremocks2", "failoncomplete2", "failonskipped", "failonincomplete", "forbidpending", "strictmarkers", "failonflakytests") && (about || key == "xfailstrict") && was != nil && fresh && oneOf(low, "false", "0", "no"):
		v := Tampered
		if !oneOf(key, "xfailstrict", "forbidonly") {
			v = Review
		}
		say("expected-failure", v, "%s was turned off", s.key())
	case oneOf(key, "bestrictaboutteststhatdonottestanything") && low == "false" && fresh:
		say("expected-failure", Review, "tests without a check no longer count as risky")
	case oneOf(key, "harness", "test", "autotests", "doctest") && base == "Cargo.toml" && low == "false" && fresh && !s.under("dependencies", "profile", "features"):
		v := Tampered
		if key == "doctest" || key == "harness" || s.under("bin") || s.under("bench") || s.under("example") {
			v = Review
		}
		say("excluded-by-config", v, "%s = false: cargo does not run these tests", s.full())
	case key == "istestproject" && low == "false" && fresh:
		say("excluded-by-config", Tampered, "IsTestProject is false: dotnet test passes it over")
	case oneOf(key, "remove") && path.Ext(base) == ".csproj" && s.under("Compile") && fresh && j.matchesTests(strings.ReplaceAll(val, `\`, "/")):
		say("excluded-by-config", Tampered, "%s is no longer compiled", val)
	case s.key() == ".IGNORE":
		say("command-changed", Tampered, ".IGNORE: failures of %s do not count", orNone(val))
	case len(s.path) == 2 && s.path[0] == "variable" && oneOf(s.path[1], "MAKEFLAGS", "GNUMAKEFLAGS") && (strings.Contains(val, "-i") || strings.Contains(val, "-k") || strings.Contains(val, "ignore")) && fresh:
		say("command-changed", Tampered, "%s = %s: failures do not count", s.path[1], val)
	// The floor of the coverage.
	case threshold(s):
		if was != nil && lower(had, val) {
			say("coverage-lowered", Tampered, "the floor of the coverage went from %s to %s (%s)", had, val, s.full())
		}
	case key == "checkcoverage" && was != nil && low == "false":
		say("coverage-lowered", Tampered, "the coverage is no longer checked")
	case oneOf(key, "omit", "coveragepathignorepatterns", "collectcoveragefrom") || oneOf(key, "exclude", "excludes", "excludelines", "exclude_lines", "exclude_also") && (s.under("coverage", "nyc", "c8", "jacoco", "run", "report") || strings.Contains(s.full(), "coverage") || strings.Contains(s.full(), "jacoco")):
		var gone []string
		for _, v := range s.values {
			if was != nil && slices.Contains(was.values, v) || generated(v) {
				continue
			}
			if key == "collectcoveragefrom" && !strings.HasPrefix(v, "!") {
				continue
			}
			gone = append(gone, v)
		}
		if len(gone) > 0 {
			say("coverage-lowered", Review, "the coverage no longer counts %s", shorten(strings.Join(gone, " ")))
		} else if len(s.values) > 0 && !slices.Equal(s.values, wasValues(was)) && key == "omit" {
			say("config-narrowed-plausibly", Review, "the coverage no longer counts %s", shorten(strings.Join(s.values, " ")))
		}
	// Time limits and repetitions.
	case oneOf(key, "testtimeout", "timeout", "defaulttimeout", "slowtimeout", "hooktimeout", "forkedprocesstimeoutinseconds", "timeoutmultiplier") && about:
		if was != nil && longer(had, val) {
			say("timeout-raised", Review, "the time limit went from %s to %s", had, val)
		}
	case oneOf(key, "retries", "retry", "reruns", "rerunfailingtestscount", "maxretries", "retrytimes", "maximumtestrepetitions", "testretries", "surefire.rerunfailingtestscount", "retrycount", "flaky") && (about || base == "pom.xml" || strings.Contains(s.full(), "retry") && strings.Contains(strings.ToLower(s.full()), "test")) && fresh:
		if more1(had, val) {
			say("retry-until-green", Tampered, "failures are now repeated: %s = %s", s.full(), val)
		}
	case key == "maxretries" && s.under("retry") && fresh && more1(had, val):
		say("retry-until-green", Tampered, "failures are now repeated: %s = %s", s.full(), val)
	case oneOf(key, "updatesnapshot", "update", "updatesnapshots") && about && oneOf(low, "true", "all", "always") && fresh:
		say("command-changed", Tampered, "stored results are overwritten before they are compared")
	// Options of the runner in one string.
	case oneOf(key, "addopts", "flags", "args", "pytestaddopts", "pytest_addopts", "nodearguments", "argline") && (about || key == "addopts" || key == "flags" || s.under("pytest")):
		j.options(h, base, was, s)
	case key == "env" || len(s.path) > 1 && oneOf(s.path[len(s.path)-2], "env", "setenv", "environment") && oneOf(s.key(), "PYTEST_ADDOPTS", "GOFLAGS", "MAVEN_OPTS", "MAVEN_ARGS", "NODE_OPTIONS", "JEST_ARGS", "CARGO_TEST_ARGS"):
		if len(s.path) > 1 && oneOf(s.key(), "PYTEST_ADDOPTS", "GOFLAGS", "MAVEN_OPTS", "MAVEN_ARGS") {
			j.options(h, base, was, s)
		}
	// Who is left out.
	case oneOf(key, "exclude", "excludes", "group") && s.under("groups") && strings.HasPrefix(base, "phpunit"), oneOf(key, "group") && s.under("exclude"):
		if fresh {
			if tests := j.tagged(val); len(tests) > 0 {
				for _, t := range tests {
					j.finding(t, "quarantine-list", Tampered, t.line, fmt.Sprintf("its group %q is left out by %s", val, h.path))
				}
			} else {
				say("tag-excluded", Review, "the group %q is left out", val)
			}
		}
	case oneOf(key, exclusions...) && about:
		for _, v := range s.values {
			if was != nil && slices.Contains(was.values, v) {
				continue
			}
			if inOther(b, s, v) {
				continue
			}
			j.excluded(h.path, s.line, string(config), s.full(), v)
		}
	case oneOf(key, inclusions...) && about && fresh && !oneOf(base, "pom.xml", "tox.ini") || key == "include" && base == "pom.xml" && s.under("includes") && fresh && j.plugin(h, s, "surefire", "failsafe"):
		j.included(b, h, base, was, s)
	}
}

func wasValues(s *setting) []string {
	if s == nil {
		return nil
	}
	return s.values
}

// inOther says that another list of the base with the same key held the value.
func inOther(b *conf, s *setting, v string) bool {
	for k := range b.settings {
		x := &b.settings[k]
		if x.key() == s.key() && slices.Contains(x.values, v) {
			return true
		}
	}
	return false
}

func more1(was, now string) bool {
	a, errA := strconv.Atoi(strings.TrimSpace(was))
	b, errB := strconv.Atoi(strings.TrimSpace(now))
	if errB != nil {
		// process.env.CI ? 2 : 0
		return errA == nil && strings.ContainsAny(now, "123456789") && a == 0 || was == "" && strings.ContainsAny(now, "123456789")
	}
	if errA != nil {
		return b > 0 && was == ""
	}
	return b > a
}

// plugin says that a setting of a pom belongs to one of the plugins.
func (j *judge) plugin(h *conf, s *setting, names ...string) bool {
	best, line := "", -1
	for k := range h.settings {
		x := &h.settings[k]
		if x.key() == "artifactId" && x.line <= s.line && x.line > line {
			best, line = x.one(), x.line
		}
	}
	for _, n := range names {
		if strings.Contains(best, n) {
			return true
		}
	}
	return best == "" && len(names) > 0 && names[0] == "surefire"
}

// generated says that a pattern is about files that tools make.
func generated(v string) bool {
	low := strings.ToLower(v)
	for _, w := range []string{"gen/", "gen\\", "_pb2", "generated", ".pb.", "dist", "build", "node_modules", "vendor", "migrations", "__pycache__", "site-packages", "test", "mock", ".d.ts", "config", "stories", "spec", "third_party", "version.py", "__main__", "fixtures", "coverage", ".venv", "venv", "no cover", "pragma", "typing", "abstractmethod", "notimplementederror", "__repr__", "if __name__", "example", "docs", "autogen", "proto"} {
		if strings.Contains(low, w) {
			return true
		}
	}
	return false
}

// tagged returns the tests of head that wear a tag.
func (j *judge) tagged(tag string) []*function {
	var out []*function
	for _, p := range paths(j.units[Head]) {
		u := j.units[Head][p]
		for k := range u.functions {
			f := &u.functions[k]
			if f.test && slices.ContainsFunc(f.marks, func(m mark) bool { return m.kind == tagMark && m.canon == tag }) {
				f.file, f.lang = p, u.lang
				out = append(out, f)
			}
		}
	}
	return out
}

// options compares options of a runner that are written as one string.
func (j *judge) options(h *conf, base string, was, s *setting) {
	tool := "pytest"
	switch {
	case base == ".rspec" || base == ".rspec-local":
		tool = "rspec"
	case base == "maven.config" || base == "jvm.config" || strings.HasPrefix(s.key(), "MAVEN"):
		tool = "mvn"
	case s.key() == "GOFLAGS":
		tool = "go test"
	case strings.HasPrefix(base, "jest"):
		tool = "jest"
	}
	words := func(s *setting) []string {
		if s == nil {
			return nil
		}
		var out []string
		for _, v := range s.values {
			for _, p := range shellPieces(strings.ReplaceAll(v, "&", " ")) {
				out = append(out, p.words...)
			}
			if len(shellPieces(v)) == 0 && v != "" {
				out = append(out, v)
			}
		}
		return out
	}
	b, n := words(was), words(s)
	// Options of one line each may stand in other lines of the base.
	if s.key() == "flags" && tool != "pytest" {
		if was != nil && slices.Equal(was.values, s.values) {
			return
		}
	}
	kind := "command-changed"
	before := len(j.report.Findings)
	j.compareFlags(h.path, s.line, kind, run{tool: tool, args: b}, run{tool: tool, args: n}, false)
	for k := before; k < len(j.report.Findings); k++ {
		f := &j.report.Findings[k]
		if f.Kind != "command-changed" {
			continue
		}
		f.Kind = "excluded-by-config"
		if tool == "mvn" {
			f.Kind = "build-skip-flag"
		}
		j.nameSelected(f, n)
	}
}

// nameSelected names the tests that -k "not x" leaves out, if it is that simple.
func (j *judge) nameSelected(f *Finding, args []string) {
	for k, a := range args {
		if a != "-k" && a != "--deselect" && a != "-m" || k+1 >= len(args) {
			continue
		}
		expr := args[k+1]
		words := notWords(expr)
		if a == "--deselect" {
			words = []string{expr[strings.LastIndexByte(expr, ':')+1:]}
		}
		for _, w := range words {
			n := 0
			for _, e := range j.list(Head) {
				if languageOf(e.Path) != python || !isTestFile(python, e.Path) || !e.file() || n > 20 {
					continue
				}
				u := j.units[Head][e.Path]
				if u == nil {
					s, ok := j.text(Head, e.Path)
					if !ok {
						continue
					}
					u = j.lazily(e.Path, s)
				}
				for i := range u.functions {
					t := &u.functions[i]
					hit := strings.Contains(t.title(), w)
					if a == "-m" {
						hit = slices.ContainsFunc(t.marks, func(m mark) bool { return m.kind == tagMark && m.canon == w })
					}
					if t.test && hit && n <= 20 {
						n++
						j.add(Finding{Kind: f.Kind, Verdict: f.Verdict, Language: f.Language, File: f.File, Line: f.Line, Test: t.title(), Why: f.Why})
					}
				}
			}
		}
	}
}

// excluded judges a pattern that is newly left out of a run.
func (j *judge) excluded(p string, line int, lang, key, v string) {
	if oneOf(v, "node_modules", "/node_modules/", "**/node_modules/**", "dist", "build", "coverage") {
		return
	}
	names := j.matching(v)
	if len(names) == 0 {
		if looksLikeTag(key) {
			if tests := j.tagged(v); len(tests) > 0 {
				for _, t := range tests {
					j.finding(t, "tag-excluded", Tampered, t.line, fmt.Sprintf("its tag %q is left out by %s", v, p))
				}
				return
			}
			j.add(Finding{Kind: "tag-excluded", Verdict: Review, Language: lang, File: p, Line: line, Why: fmt.Sprintf("%s now leaves out %q", key, v)})
			return
		}
		if j.namesTest(v) || strings.HasSuffix(v, "Test.java") || strings.HasSuffix(v, "Test") && !strings.Contains(v, " ") {
			j.add(Finding{Kind: "excluded-by-config", Verdict: Tampered, Language: lang, File: p, Line: line, Why: fmt.Sprintf("%s now leaves out %s", key, v)})
		}
		return
	}
	n := 0
	for _, name := range names {
		u := j.units[Head][name]
		if u == nil {
			s, ok := j.text(Head, name)
			if !ok {
				continue
			}
			u = j.lazily(name, s)
		}
		for k := range u.functions {
			if t := &u.functions[k]; t.test && n < 30 {
				n++
				j.add(Finding{Kind: "excluded-by-config", Verdict: Tampered, Language: lang, File: p, Line: line, Test: t.title(), Why: fmt.Sprintf("%s now leaves out %s, which is %s", key, v, name)})
			}
		}
	}
	if n == 0 {
		j.add(Finding{Kind: "excluded-by-config", Verdict: Tampered, Language: lang, File: p, Line: line, Why: fmt.Sprintf("%s now leaves out %s, which is %s", key, v, names[0])})
	}
}

func looksLikeTag(key string) bool {
	low := strings.ToLower(key)
	return strings.Contains(low, "tag") || strings.Contains(low, "group") || strings.Contains(low, "categor") || strings.Contains(low, "grep")
}

// matching returns the test files of head that a pattern means.
func (j *judge) matching(v string) []string {
	v = strings.Trim(strings.ReplaceAll(v, `\`, "/"), `"' `)
	v = strings.TrimPrefix(strings.TrimPrefix(v, "<rootDir>/"), "./")
	v, _, _ = strings.Cut(v, "::")
	v, _, _ = strings.Cut(v, "#")
	if v == "" {
		return nil
	}
	var out []string
	for _, e := range j.list(Head) {
		lang := languageOf(e.Path)
		if lang == "" || !e.file() || vendored(e.Path) || !isTestFile(lang, e.Path) || lang == rust && !strings.Contains(e.Path, "test") {
			continue
		}
		if patternMeans(v, e.Path) {
			out = append(out, e.Path)
			if len(out) > 50 {
				break
			}
		}
	}
	return out
}

func (j *judge) matchesTests(v string) bool { return len(j.matching(v)) > 0 }

// patternMeans says that a pattern of a runner, a glob, a regular expression of
// a simple kind, a path, or the name of a class, is about a file.
func patternMeans(v, p string) bool {
	if strings.ContainsAny(v, "*?[{") && globAny(v, p) {
		return true
	}
	plainV := strings.NewReplacer("^", "", "$", "", "/", "/", ".*", "", "**", "", "*", "").Replace(v)
	plainV = strings.Trim(plainV, "/ ")
	if plainV == "" {
		return false
	}
	if strings.ContainsAny(v, "*?[{") && strings.Contains(v, "/") {
		return false // a glob that did not match
	}
	if strings.HasSuffix(strings.TrimSuffix(v, "/"), "/") || under(p, strings.TrimSuffix(plainV, "/")) {
		return true
	}
	stem := stemOf(p)
	if last := plainV[strings.LastIndexByte(plainV, '.')+1:]; last == stem && len(last) > 3 { // com.example.RefundTest
		return true
	}
	// A part of the path, as the regular expressions of jest are.
	return len(plainV) > 3 && strings.Contains("/"+p, plainV)
}

// namesTest says that a value is the name of a test of head.
func (j *judge) namesTest(v string) bool {
	v = strings.Trim(v, `"',- `)
	if k := strings.LastIndexAny(v, ":#/ ."); k >= 0 {
		v = v[k+1:]
	}
	v, _, _ = strings.Cut(v, "[")
	v = strings.TrimSuffix(v, "()")
	if len(v) < 4 {
		return false
	}
	n := 0
	for _, e := range j.list(Head) {
		lang := languageOf(e.Path)
		if lang == "" || !e.file() || vendored(e.Path) || !isTestFile(lang, e.Path) {
			continue
		}
		if n++; n > 400 {
			return true
		}
		if stemOf(e.Path) == v {
			return true
		}
		if s, ok := j.text(Head, e.Path); ok && strings.Contains(s, v) {
			return true
		}
	}
	return false
}

// included judges a list of what is run that changed.
func (j *judge) included(_, h *conf, base string, was, s *setting) {
	key := s.key()
	low := plain(key)
	if oneOf(low, "pythonfiles", "pythonclasses", "pythonfunctions") {
		if was == nil {
			j.config("excluded-by-config", Review, h.path, s.line, fmt.Sprintf("%s = %s: other names are collected", key, s.one()))
			return
		}
		for _, v := range fieldsOf(was.values) {
			if !slices.Contains(fieldsOf(s.values), v) {
				j.config("excluded-by-config", Tampered, h.path, s.line, fmt.Sprintf("%s no longer holds %s", key, v))
			}
		}
		return
	}
	if oneOf(low, "grep", "testnamepattern", "selectedtests", "includetags", "groups", "includetestsmatching", "defaultfilter", "includedgroups", "test") {
		if low == "test" && s.under("test") && len(s.path) > 1 && !strings.HasPrefix(base, "testng") && base != "pom.xml" {
			return
		}
		if oneOf(low, "groups", "test") && base != "pom.xml" && !strings.HasPrefix(base, "testng") {
			return
		}
		if s.one() != "" {
			j.config("excluded-by-config", Tampered, h.path, s.line, fmt.Sprintf("only %s = %s is run", s.full(), shorten(s.one())))
		}
		return
	}
	if oneOf(low, "projects", "files", "suffix", "rootdir", "dir", "file", "directory", "testsuite") && was == nil {
		return
	}
	j.narrowed(h.path, s.line, s.full(), "", s, was)
}

func fieldsOf(v []string) []string {
	var out []string
	for _, s := range v {
		out = append(out, strings.Fields(s)...)
	}
	return out
}

// narrowed finds the test files that a list of what is run no longer reaches.
func (j *judge) narrowed(p string, line int, key, gone string, now *setting, more ...*setting) {
	var was *setting
	if len(more) > 0 {
		was = more[0]
	}
	covers := func(list []string, name string) bool {
		return slices.ContainsFunc(list, func(v string) bool {
			v = strings.TrimPrefix(strings.Trim(v, `"' `), "<rootDir>/")
			if oneOf(v, "<rootDir>", ".", "./", "") {
				return true
			}
			return under(name, v) || globAny(v, name) || strings.ContainsAny(v, "^$|(\\") && regexLike(v, name)
		})
	}
	var old, list []string
	if was != nil {
		old = fieldsOf(was.values)
	}
	if gone != "" {
		old = []string{gone}
	}
	if now != nil {
		list = fieldsOf(now.values)
	}
	n := 0
	for _, e := range j.list(Head) {
		lang := languageOf(e.Path)
		if lang == "" || !e.file() || vendored(e.Path) || !isTestFile(lang, e.Path) {
			continue
		}
		switch {
		case strings.Contains(key, "py") || strings.Contains(key, "testpaths") || strings.HasPrefix(path.Base(p), "pytest") || path.Base(p) == "pyproject.toml" || path.Base(p) == "setup.cfg" || path.Base(p) == "tox.ini":
			if lang != python {
				continue
			}
		case strings.HasPrefix(path.Base(p), "phpunit"):
			if lang != php {
				continue
			}
		default:
			if !lang.script() && lang != java && lang != kotlin {
				continue
			}
		}
		if len(old) > 0 && !covers(old, e.Path) || now != nil && covers(list, e.Path) {
			continue
		}
		u := j.units[Head][e.Path]
		if u == nil {
			s, ok := j.text(Head, e.Path)
			if !ok {
				continue
			}
			u = j.lazily(e.Path, s)
		}
		for k := range u.functions {
			if t := &u.functions[k]; t.test && n < 20 {
				n++
				j.add(Finding{Kind: "excluded-by-config", Verdict: Tampered, Language: string(config), File: p, Line: line, Test: t.title(), Why: fmt.Sprintf("%s no longer reaches %s", key, e.Path)})
			}
		}
	}
}

// regexLike matches the simple regular expressions that configurations hold: it
// says yes if it cannot tell.
func regexLike(v, name string) bool {
	for _, alt := range strings.Split(strings.Trim(v, "^$()"), "|") {
		alt = strings.NewReplacer(`\\.`, ".", `\.`, ".", `\/`, "/", ".*", "", "$", "", "^", "").Replace(alt)
		if strings.ContainsAny(alt, `([?+\`) || strings.Contains(name, alt) {
			return true
		}
	}
	return false
}

// globAny matches globs as runners write them: **, *, ?, [x], {a,b}, ?(x), and a
// leading ! or / that changes nothing here.
func globAny(pattern, name string) bool {
	pattern = strings.TrimPrefix(strings.TrimPrefix(pattern, "./"), "/")
	if strings.Contains(pattern, "+(") || strings.Contains(pattern, "?(") || strings.Contains(pattern, "@(") || strings.Contains(pattern, "*(") {
		pattern = extglob(pattern)
	}
	n := 0
	for _, p := range braces(pattern, &n) {
		if globMatch(p, name) || !strings.Contains(p, "/") && globMatch(p, path.Base(name)) || strings.HasSuffix(p, "/**") && globMatch(strings.TrimSuffix(p, "/**"), path.Dir(name)) {
			return true
		}
	}
	return false
}

// extglob turns ?(a|b) into {,a,b} and @(a|b), +(a|b) into {a,b}.
func extglob(p string) string {
	var b strings.Builder
	for i := 0; i < len(p); i++ {
		if i+1 < len(p) && p[i+1] == '(' && strings.IndexByte("?+@*", p[i]) >= 0 {
			end := strings.IndexByte(p[i:], ')')
			if end < 0 {
				b.WriteString(p[i:])
				break
			}
			alts := strings.ReplaceAll(p[i+2:i+end], "|", ",")
			if p[i] == '?' || p[i] == '*' {
				alts = "," + alts
			}
			b.WriteString("{" + alts + "}")
			i += end
			continue
		}
		b.WriteByte(p[i])
	}
	return b.String()
}

// braces writes out {a,b}.
func braces(p string, n *int) []string {
	if *n++; *n > 200 {
		return []string{p}
	}
	open := strings.IndexByte(p, '{')
	if open < 0 {
		return []string{p}
	}
	depth, end := 0, -1
	var cuts []int
	for i := open; i < len(p); i++ {
		switch p[i] {
		case '{':
			depth++
		case '}':
			depth--
			if depth == 0 {
				end = i
			}
		case ',':
			if depth == 1 {
				cuts = append(cuts, i)
			}
		}
		if end >= 0 {
			break
		}
	}
	if end < 0 {
		return []string{p}
	}
	var out []string
	from := open + 1
	for _, cut := range append(cuts, end) {
		out = append(out, braces(p[:open]+p[from:cut]+p[end+1:], n)...)
		from = cut + 1
	}
	return out
}
