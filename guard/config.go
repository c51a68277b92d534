package guard

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// setting is one value of a configuration file, wherever it stands in it.
type setting struct {
	// key is the last name of path, without list positions.
	path   []string
	values []string
	line   int
}

func (s *setting) key() string { return s.path[len(s.path)-1] }

func (s *setting) full() string { return strings.Join(s.path, ".") }

func (s *setting) under(names ...string) bool {
	for _, p := range s.path {
		for _, n := range names {
			if strings.EqualFold(p, n) {
				return true
			}
		}
	}
	return false
}

// script is one place of a configuration that holds commands.
type script struct {
	where string
	job   string
	line  int
	text  string
	mode  shellMode
	ci    bool
	// gates are what decides whether it runs and whether its failure counts.
	gates map[string]string
}

// conf is one file of configuration.
type conf struct {
	path     string
	settings []setting
	scripts  []script
	triggers map[string][]string // what starts a workflow
	paths    map[string][]string
	ok       bool
}

// configs is what the changed configuration says about tests.
type configs struct {
	tags  []string // tags that are left out
	short bool
	judge *judge
	read  bool
}

// excludesTag says that the runner's configuration leaves a tag out.
func (c *configs) excludesTag(tag string, f *function) bool {
	c.load()
	for _, t := range c.tags {
		if strings.EqualFold(t, tag) {
			return true
		}
	}
	_ = f
	return false
}

// load reads the tags that the configuration of head leaves out.
func (c *configs) load() {
	if c.read {
		return
	}
	c.read = true
	for _, e := range c.judge.list(Head) {
		if !e.file() || !isConfig(e.Path) || vendored(e.Path) || strings.Count(e.Path, "/") > 3 {
			continue
		}
		s, ok := c.judge.text(Head, e.Path)
		if !ok {
			continue
		}
		cf := readConfig(e.Path, s)
		for k := range cf.settings {
			c.tags = append(c.tags, leftOut(&cf.settings[k])...)
		}
		for k := range cf.scripts {
			for _, r := range runs(cf.scripts[k].text, cf.scripts[k].mode) {
				c.tags = append(c.tags, flagTags(r)...)
			}
		}
	}
}

// leftOut returns the tags that a setting excludes.
func leftOut(s *setting) []string {
	var out []string
	key := plain(s.key())
	switch {
	case oneOf(key, "excludedgroups", "excludetags", "excludedtags", "exclude-tag", "excludegroups", "excludecategories"), key == "group" && s.under("exclude"), key == "exclude" && s.under("groups"), key == "grepinvert":
		for _, v := range s.values {
			out = append(out, tagWords(v)...)
		}
	case oneOf(key, "addopts", "markexpr", "filter", "testcasefilter", "default-filter", "args"):
		for _, v := range s.values {
			out = append(out, notWords(v)...)
		}
	case key == "flags":
		for i, v := range s.values {
			if oneOf(v, "--tag", "-t") && i+1 < len(s.values) && strings.HasPrefix(s.values[i+1], "~") {
				out = append(out, strings.TrimLeft(s.values[i+1], "~:@"))
			}
			if rest, ok := strings.CutPrefix(v, "--tag=~"); ok {
				out = append(out, strings.TrimLeft(rest, ":@"))
			}
		}
	}
	return out
}

func tagWords(v string) []string {
	return strings.FieldsFunc(v, func(r rune) bool { return r == ',' || r == ' ' || r == '|' || r == '&' || r == '!' })
}

// notWords finds what stands behind not in an expression: -m "not slow".
func notWords(v string) []string {
	var out []string
	w := strings.FieldsFunc(v, func(r rune) bool { return r == ' ' || r == '"' || r == '\'' || r == '(' || r == ')' || r == ',' })
	for k := range w {
		if w[k] == "not" && k+1 < len(w) {
			out = append(out, w[k+1])
		}
		for _, op := range []string{"Category!=", "TestCategory!=", "!="} {
			if i := strings.Index(w[k], op); i >= 0 {
				out = append(out, strings.Trim(w[k][i+len(op):], "&|"))
			}
		}
	}
	return out
}

func flagTags(r run) []string {
	var out []string
	for k, a := range r.args {
		next := ""
		if k+1 < len(r.args) {
			next = r.args[k+1]
		}
		name, value, eq := strings.Cut(a, "=")
		if !eq {
			value = next
		}
		switch name {
		case "-m", "--filter", "-DexcludedGroups", "--exclude-group", "--exclude-tag", "--exclude-groups", "-e", "--grep-invert":
			if strings.Contains(value, "not ") || strings.Contains(value, "!=") {
				out = append(out, notWords(value)...)
			} else if name != "-m" && name != "--filter" && name != "-e" {
				out = append(out, tagWords(value)...)
			}
		case "--tag", "-t":
			if rest, ok := strings.CutPrefix(value, "~"); ok {
				out = append(out, strings.TrimLeft(rest, ":@"))
			}
		}
	}
	return out
}

var configNames = []string{
	"package.json", "composer.json", "pom.xml", "build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts", "gradle.properties", "maven.config", "jvm.config",
	"pyproject.toml", "pytest.ini", ".pytest.ini", "tox.ini", "setup.cfg", ".coveragerc", "pytest.toml", "tox.toml", "nose.cfg", ".noserc",
	"Makefile", "makefile", "GNUmakefile", "justfile", "Justfile", ".justfile", "Taskfile.yml", "Taskfile.yaml", "Rakefile2",
	"Cargo.toml", "nextest.toml", ".rspec", ".rspec-local", "phpunit.xml", "phpunit.xml.dist", "phpunit.dist.xml", "testng.xml", "build.xml", "Directory.Build.props", "Directory.Build.targets", "xunit.runner.json",
	".nycrc", ".nycrc.json", ".c8rc.json", ".c8rc", ".mocharc.json", ".mocharc.yml", ".mocharc.yaml", ".mocharc.js", ".mocharc.cjs", "jasmine.json", ".taprc", "ava.config.js", "ava.config.cjs", "ava.config.mjs", "karma.conf.js", "bunfig.toml", "deno.json", "deno.jsonc", "codecov.yml", ".codecov.yml", "codecov.yaml", ".jestrc",
	".gitlab-ci.yml", ".travis.yml", "azure-pipelines.yml", "azure-pipelines.yaml", "bitbucket-pipelines.yml", ".drone.yml", "appveyor.yml", ".appveyor.yml", ".cirrus.yml", "Jenkinsfile", "cloudbuild.yaml", "pnpm-workspace.yaml", "lerna.json", "go.work", "nx.json", "turbo.json", "project.json", "Dockerfile.test", ".simplecov", ".semaphore/semaphore.yml", "wercker.yml",
}

// isConfig says that a file decides which tests run, or what their failure means.
func isConfig(p string) bool {
	base := path.Base(p)
	if slices.Contains(configNames, base) {
		return true
	}
	for _, prefix := range []string{"jest.config.", "jest.", "vitest.config.", "vite.config.", "playwright.config.", "cypress.config.", "vitest.workspace.", "wdio.conf.", "karma.conf.", "jest-"} {
		if strings.HasPrefix(base, prefix) && !strings.Contains(base, "setup") && oneOf(path.Ext(base), ".js", ".ts", ".mjs", ".cjs", ".mts", ".json", ".cts") {
			return true
		}
	}
	if strings.HasPrefix(p, ".github/workflows/") || strings.HasPrefix(p, ".circleci/") || strings.HasPrefix(p, ".buildkite/") || strings.HasPrefix(p, ".gitlab/") || strings.HasPrefix(p, ".github/actions/") || strings.HasPrefix(p, ".forgejo/workflows/") || strings.HasPrefix(p, ".gitea/workflows/") || strings.HasPrefix(p, ".woodpecker") {
		return oneOf(path.Ext(p), ".yml", ".yaml")
	}
	switch path.Ext(base) {
	case ".mk", ".xctestplan", ".runsettings", ".csproj", ".fsproj", ".vbproj":
		return true
	case ".sh", ".bash":
		return true
	}
	return quarantine(p)
}

// quarantine says that a file is a list of tests that are not run.
func quarantine(p string) bool {
	if !oneOf(path.Ext(p), ".txt", ".json", ".yml", ".yaml", ".lst", ".list", ".toml", ".ini", ".csv", "") {
		return false
	}
	low := strings.ToLower(path.Base(p))
	for _, w := range []string{"flaky", "quarantine", "skiplist", "skip-list", "skip_list", "known_failures", "known-failures", "knownfailures", "known_issues", "known-issues", "excluded_tests", "excluded-tests", "skipped_tests", "skipped-tests", "disabled_tests", "disabled-tests", "ignored_tests", "ignored-tests", "test-exclusions", "test_exclusions", "denylist", "blacklist", "expected_failures", "expected-failures", "problemlist", "testignore", "broken_tests", "broken-tests"} {
		if strings.Contains(low, w) {
			return true
		}
	}
	return false
}

// readConfig reads a file of configuration by its name.
func readConfig(p, s string) *conf {
	c := &conf{path: p, triggers: map[string][]string{}, paths: map[string][]string{}, ok: true}
	base := path.Base(p)
	ext := path.Ext(base)
	switch {
	case base == "package.json" || base == "composer.json" || ext == ".json" || ext == ".jsonc" || ext == ".xctestplan" || oneOf(base, ".nycrc", ".jestrc", ".c8rc"):
		c.object(read(javascript, s).nodes, nil)
		for k := range c.settings {
			x := &c.settings[k]
			if len(x.path) >= 2 && x.path[0] == "scripts" || x.path[0] == "tasks" {
				c.scripts = append(c.scripts, script{where: x.full(), line: x.line, text: strings.Join(x.values, "\n"), mode: shellMode{stops: base == "composer.json"}})
			}
		}
	case oneOf(ext, ".js", ".ts", ".mjs", ".cjs", ".mts", ".cts"):
		c.object(read(typescript, s).nodes, nil)
	case ext == ".yml" || ext == ".yaml" || base == ".taprc":
		c.yaml(s)
	case ext == ".toml":
		c.toml(s)
	case ext == ".ini" || ext == ".cfg" || base == ".coveragerc" || base == ".noserc":
		c.ini(s)
	case ext == ".xml" || ext == ".dist" || ext == ".csproj" || ext == ".fsproj" || ext == ".vbproj" || ext == ".props" || ext == ".targets" || ext == ".runsettings":
		c.xml(s)
	case ext == ".gradle" || strings.HasSuffix(base, ".gradle.kts"):
		lang := groovy
		if ext == ".kts" {
			lang = kotlin
		}
		c.gradle(read(lang, s).nodes, nil, lang)
	case base == "Jenkinsfile":
		c.jenkins(read(groovy, s).nodes)
	case base == "Makefile" || base == "makefile" || base == "GNUmakefile" || ext == ".mk":
		c.makefile(s)
	case oneOf(base, "justfile", "Justfile", ".justfile"):
		c.makefile(s)
	case oneOf(base, ".rspec", ".rspec-local", "maven.config", "jvm.config"):
		for k, l := range strings.Split(s, "\n") {
			if w := strings.Fields(l); len(w) > 0 && !strings.HasPrefix(w[0], "#") {
				c.settings = append(c.settings, setting{path: []string{"flags"}, values: w, line: k + 1})
			}
		}
	case base == "gradle.properties":
		c.ini(s)
	case base == "go.work":
		for k, l := range strings.Split(s, "\n") {
			if w := strings.Fields(strings.TrimPrefix(strings.TrimSpace(l), "use ")); len(w) == 1 && strings.HasPrefix(w[0], ".") {
				c.settings = append(c.settings, setting{path: []string{"use"}, values: w, line: k + 1})
			}
		}
	case ext == ".sh" || ext == ".bash" || ext == "":
		if quarantine(p) {
			break
		}
		c.scripts = append(c.scripts, script{where: "script", line: 1, text: s, mode: shellMode{}})
	}
	if quarantine(p) {
		for k, l := range strings.Split(s, "\n") {
			if l = strings.TrimSpace(l); l != "" && !strings.HasPrefix(l, "#") && !strings.HasPrefix(l, "//") {
				c.settings = append(c.settings, setting{path: []string{"quarantine"}, values: []string{l}, line: k + 1})
			}
		}
	}
	return c
}

// object reads the literals of objects, wherever they stand.
func (c *conf) object(nodes []node, at []string) {
	if len(at) > 20 {
		return
	}
	for k := 0; k < len(nodes); k++ {
		n := &nodes[k]
		if (n.kind == ident || n.kind == text || n.kind == number) && k+1 < len(nodes) && nodes[k+1].is(":") && (k == 0 || nodes[k-1].is(",") || nodes[k-1].opens("{") || n.nl) {
			e := k + 2
			for e < len(nodes) && !nodes[e].is(",") && !nodes[e].is(";") && !(nodes[e].nl && e > k+2 && !nodes[e-1].op("?", ":", "+", "||", "&&") && !nodes[e].op("?", ":", "+", "||", "&&", ".") && nodes[e].kind != group) {
				e++
			}
			c.value(append(slices.Clip(at), n.s), nodes[k+2:e], int(n.line))
			k = e - 1
			continue
		}
		if n.kind == ident && (k == 0 || nodes[k-1].is(",")) && k+1 < len(nodes) && nodes[k+1].is("=") && len(at) == 0 {
			continue
		}
		if n.kind == group {
			c.object(n.kids, at)
		}
	}
}

func (c *conf) value(at []string, nodes []node, line int) {
	if len(nodes) == 0 {
		return
	}
	if len(nodes) == 1 {
		switch n := &nodes[0]; {
		case n.opens("{"):
			before := len(c.settings)
			c.object(n.kids, at)
			if len(c.settings) == before {
				c.settings = append(c.settings, setting{path: at, line: line})
			}
			return
		case n.opens("["):
			s := setting{path: at, line: line, values: []string{}}
			for _, part := range split(n.kids) {
				if len(part) == 1 && part[0].literal() {
					s.values = append(s.values, part[0].s)
				} else if len(part) == 1 && part[0].kind == group {
					c.value(at, part, int(part[0].line))
				} else {
					s.values = append(s.values, canonical(part))
				}
			}
			c.settings = append(c.settings, s)
			return
		case n.literal() || n.kind == ident:
			c.settings = append(c.settings, setting{path: at, values: []string{n.s}, line: line})
			return
		}
	}
	s := setting{path: at, values: []string{canonical(nodes)}, line: line}
	c.settings = append(c.settings, s)
	for k := range nodes {
		if nodes[k].kind == group {
			c.object(nodes[k].kids, at)
		}
	}
}

// gradle reads blocks, assignments and calls of a build file.
func (c *conf) gradle(nodes []node, at []string, lang language) {
	if len(at) > 20 {
		return
	}
	p := &splitter{lang: lang}
	for i := 0; i < len(nodes); {
		j := max(p.expression(nodes, i), i+1)
		line := nodes[i:j]
		i = j
		if line[0].is(";") {
			continue
		}
		// a.b = value
		eq := -1
		for k := range line {
			if line[k].is("=") {
				eq = k
				break
			}
			if line[k].kind == group {
				break
			}
		}
		if eq > 0 {
			names := identifiers(line[:eq])
			if len(names) > 0 {
				c.settings = append(c.settings, setting{path: append(slices.Clip(at), names...), values: append(strip2(literals(line[eq+1:])), bareWords(line[eq+1:])...), line: int(line[0].line)})
			}
			if last := line[len(line)-1]; last.opens("{") {
				c.gradle(last.kids, append(slices.Clip(at), names...), lang)
			}
			continue
		}
		cs := chains(lang, line)
		if len(cs) == 0 || line[0].kind != ident {
			continue
		}
		ch := cs[0]
		names := append(slices.Clip(at), func() []string {
			var out []string
			for k := range ch.links {
				out = append(out, ch.links[k].name)
				for _, v := range literals(ch.links[k].arguments()) {
					if ch.links[k].block != nil || k < len(ch.links)-1 || line[len(line)-1].opens("{") {
						out = append(out, strings.Trim(v, `"`))
					}
				}
			}
			return out
		}()...)
		if last := line[len(line)-1]; last.opens("{") {
			if ch.end < len(line) {
				for _, n := range line[ch.end : len(line)-1] {
					if n.kind == ident || n.kind == text {
						names = append(names, n.s)
					}
				}
			}
			before := len(c.settings)
			c.settings = append(c.settings, setting{path: names, values: []string{canonical(last.kids)}, line: int(line[0].line)})
			if oneOf(names[len(names)-1], "onlyIf", "doFirst", "doLast") {
				continue
			}
			c.settings = c.settings[:before]
			c.gradle(last.kids, names, lang)
			continue
		}
		values := strip2(literals(ch.last().arguments()))
		values = append(values, bareWords(ch.last().arguments())...)
		if ch.end < len(line) { // exclude '**/A*', 'b'
			values = append(values, strip2(literals(line[ch.end:]))...)
			values = append(values, bareWords(line[ch.end:])...)
		}
		c.settings = append(c.settings, setting{path: names, values: values, line: int(line[0].line)})
	}
}

func strip2(v []string) []string {
	var out []string
	for _, s := range v {
		out = append(out, strings.Trim(s, `"`))
	}
	return out
}

func bareWords(nodes []node) []string {
	var out []string
	for k := range nodes {
		if n := &nodes[k]; n.kind == ident && !oneOf(n.s, "true", "false") {
			out = append(out, n.s)
		}
	}
	return out
}

// jenkins finds the commands in sh steps.
func (c *conf) jenkins(nodes []node) {
	caught := func(n *node) string {
		return n.s
	}
	var look func(nodes []node, gates map[string]string)
	look = func(nodes []node, gates map[string]string) {
		for k := range nodes {
			n := &nodes[k]
			if n.kind == ident && oneOf(n.s, "sh", "bat", "powershell") && k+1 < len(nodes) {
				g := gates
				var t string
				switch {
				case nodes[k+1].kind == text:
					t = nodes[k+1].s
				case nodes[k+1].opens("("):
					walk(nodes[k+1].kids, func(x *node) {
						if x.kind == text && len(x.s) > len(t) {
							t = x.s
						}
					})
					if mentions(nodes[k+1].kids, "returnStatus") {
						g = map[string]string{"returnStatus": "true"}
					}
				default:
					if mentions(nodes[k+1:min(len(nodes), k+8)], "returnStatus") {
						g = map[string]string{"returnStatus": "true"}
					}
					for _, x := range nodes[k+1 : min(len(nodes), k+10)] {
						if x.kind == text {
							t = x.s
							break
						}
					}
				}
				c.scripts = append(c.scripts, script{where: "sh", line: int(n.line), text: t, ci: true, gates: g, mode: shellMode{stops: true}})
			}
			if n.kind == group {
				g := gates
				if k > 0 && n.s == "{" {
					for _, back := range nodes[max(0, k-2):k] {
						if oneOf(caught(&back), "catchError", "warnError") {
							g = map[string]string{"continue-on-error": "true"}
						}
					}
				}
				look(n.kids, g)
			}
		}
	}
	look(nodes, nil)
}

// makefile reads the recipes of targets.
func (c *conf) makefile(s string) {
	target := ""
	var deps []string
	lines := strings.Split(s, "\n")
	for k := 0; k < len(lines); k++ {
		l := lines[k]
		at := k + 1
		for strings.HasSuffix(l, "\\") && k+1 < len(lines) {
			k++
			l = strings.TrimSuffix(l, "\\") + " " + lines[k]
		}
		switch {
		case strings.HasPrefix(l, "\t") || strings.HasPrefix(l, "    ") && target != "":
			if target == "" {
				continue
			}
			t := strings.TrimSpace(l)
			ignored := false
			for t != "" && strings.ContainsRune("@-+", rune(t[0])) {
				ignored = ignored || t[0] == '-'
				t = strings.TrimSpace(t[1:])
			}
			g := map[string]string{}
			if ignored {
				g["-"] = "true"
			}
			c.scripts = append(c.scripts, script{where: target, line: at, text: t, gates: g})
		case strings.HasPrefix(strings.TrimSpace(l), "#") || strings.TrimSpace(l) == "":
		default:
			target = ""
			name, rest, ok := strings.Cut(l, ":")
			if ok && !strings.HasPrefix(rest, "=") && !strings.Contains(name, "=") {
				target = strings.TrimSpace(name)
				rest = strings.TrimLeft(rest, ":")
				var recipe string
				rest, recipe, _ = strings.Cut(rest, ";")
				deps = strings.Fields(rest)
				c.settings = append(c.settings, setting{path: []string{"target", target}, values: deps, line: at})
				if strings.TrimSpace(recipe) != "" {
					c.scripts = append(c.scripts, script{where: target, line: at, text: strings.TrimSpace(recipe)})
				}
				if target == ".IGNORE" {
					c.settings = append(c.settings, setting{path: []string{".IGNORE"}, values: deps, line: at})
				}
			} else if name, value, ok := strings.Cut(l, "="); ok {
				c.settings = append(c.settings, setting{path: []string{"variable", strings.Trim(name, " :?+")}, values: []string{strings.TrimSpace(value)}, line: at})
			}
		}
	}
	// A variable stands for its value.
	for k := range c.scripts {
		for i := range c.settings {
			if x := &c.settings[i]; x.path[0] == "variable" && len(x.values) == 1 {
				for _, form := range []string{"$(" + x.path[1] + ")", "${" + x.path[1] + "}"} {
					if len(c.scripts[k].text) < 4000 {
						c.scripts[k].text = strings.ReplaceAll(c.scripts[k].text, form, x.values[0])
					}
				}
			}
		}
	}
}

// ini reads sections of keys, whose values may go on in indented lines.
func (c *conf) ini(s string) {
	section := ""
	var cur *setting
	for k, l := range strings.Split(s, "\n") {
		t := strings.TrimSpace(l)
		switch {
		case t == "" || strings.HasPrefix(t, "#") || strings.HasPrefix(t, ";"):
		case strings.HasPrefix(t, "[") && strings.HasSuffix(t, "]"):
			section = t[1 : len(t)-1]
			cur = nil
		case (l[0] == ' ' || l[0] == '\t') && cur != nil:
			cur.values = append(cur.values, t)
		default:
			i := strings.IndexAny(t, "=:")
			if i < 0 {
				continue
			}
			c.settings = append(c.settings, setting{path: []string{section, strings.TrimSpace(t[:i])}, line: k + 1})
			cur = &c.settings[len(c.settings)-1]
			if v := strings.TrimSpace(t[i+1:]); v != "" {
				cur.values = append(cur.values, v)
			}
		}
	}
	c.toxCommands()
}

func (c *conf) toxCommands() {
	for k := range c.settings {
		x := &c.settings[k]
		if oneOf(x.key(), "commands", "commands_pre", "commands_post") {
			for i, v := range x.values {
				g := map[string]string{}
				if strings.HasPrefix(v, "-") {
					g["-"] = "true"
					v = strings.TrimSpace(v[1:])
				}
				c.scripts = append(c.scripts, script{where: x.full(), line: x.line + i, text: v, gates: g})
			}
		}
	}
}

// toml reads tables of keys.
func (c *conf) toml(s string) {
	nodes := read(toml, s).nodes
	var table []string
	for k := 0; k < len(nodes); {
		j := k + 1
		for j < len(nodes) && !nodes[j].nl {
			j++
		}
		line := nodes[k:j]
		k = j
		if line[0].opens("[") {
			kids := line[0].kids
			if len(kids) == 1 && kids[0].opens("[") {
				kids = kids[0].kids
			}
			table = keyOf(kids)
			continue
		}
		for i := range line {
			if line[i].is("=") {
				c.value(append(slices.Clip(table), keyOf(line[:i])...), tomlValue(line[i+1:]), int(line[0].line))
				break
			}
		}
	}
	for k := range c.settings {
		x := &c.settings[k]
		if x.under("scripts", "tasks", "env") && len(x.path) > 2 || oneOf(x.key(), "commands", "cmd", "shell", "test-command") {
			for _, v := range x.values {
				c.scripts = append(c.scripts, script{where: x.full(), line: x.line, text: v})
			}
		}
	}
}

// tomlValue makes inline tables look like objects.
func tomlValue(nodes []node) []node {
	out := slices.Clone(nodes)
	for k := range out {
		if out[k].is("=") {
			out[k].s = ":"
		}
		if out[k].kind == group {
			out[k].kids = tomlValue(out[k].kids)
		}
	}
	return out
}

func keyOf(nodes []node) []string {
	var out []string
	join := false
	for k := range nodes {
		switch n := &nodes[k]; {
		case n.is("."):
			join = false
		case n.kind == punct:
			if len(out) > 0 {
				out[len(out)-1] += n.s
			}
			join = true
		case join && len(out) > 0:
			out[len(out)-1] += n.s
			join = false
		default:
			out = append(out, n.s)
		}
	}
	if out == nil {
		return []string{""}
	}
	return out
}

// xml reads elements and attributes.
func (c *conf) xml(s string) {
	d := xml.NewDecoder(strings.NewReader(s))
	d.Strict = false
	d.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return in, nil }
	type frame struct {
		name string
		text strings.Builder
		kids int
		line int
	}
	var stack []*frame
	names := func() []string {
		var out []string
		for _, f := range stack {
			out = append(out, f.name)
		}
		return out
	}
	for range 500000 {
		t, err := d.Token()
		if err != nil {
			return
		}
		line, _ := d.InputPos()
		switch t := t.(type) {
		case xml.StartElement:
			if len(stack) > 0 {
				stack[len(stack)-1].kids++
			}
			if len(stack) > 60 {
				return
			}
			stack = append(stack, &frame{name: t.Name.Local, line: line})
			for _, a := range t.Attr {
				c.settings = append(c.settings, setting{path: append(names(), a.Name.Local), values: []string{a.Value}, line: line})
			}
		case xml.CharData:
			if len(stack) > 0 {
				stack[len(stack)-1].text.Write(bytes.TrimSpace(t))
			}
		case xml.EndElement:
			if len(stack) == 0 {
				return
			}
			f := stack[len(stack)-1]
			if f.kids == 0 {
				c.settings = append(c.settings, setting{path: names(), values: []string{f.text.String()}, line: f.line})
			}
			stack = stack[:len(stack)-1]
		}
	}
}

// yaml reads settings, and the commands of pipelines with what rules them.
func (c *conf) yaml(s string) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(s), &doc); err != nil {
		c.ok = false
		return
	}
	ci := strings.HasPrefix(c.path, ".github/") || strings.HasPrefix(c.path, ".circleci/") || strings.Contains(path.Base(c.path), "ci") || strings.Contains(c.path, "pipeline") || strings.Contains(c.path, "travis") || strings.Contains(c.path, "drone") || strings.Contains(c.path, "appveyor") || strings.Contains(c.path, "buildkite") || strings.Contains(c.path, "woodpecker") || strings.Contains(c.path, "workflows")
	github := strings.Contains(c.path, "workflows/") || strings.HasPrefix(c.path, ".github/")
	n := 0
	var look func(n1 *yaml.Node, at []string, gates map[string]string, shell string, depth int)
	look = func(y *yaml.Node, at []string, gates map[string]string, shell string, depth int) {
		if n++; n > 20000 || depth > 60 {
			return
		}
		switch y.Kind {
		case yaml.DocumentNode:
			for _, k := range y.Content {
				look(k, at, gates, shell, depth+1)
			}
		case yaml.AliasNode:
			if y.Alias != nil && depth < 30 {
				look(y.Alias, at, gates, shell, depth+10)
			}
		case yaml.ScalarNode:
			if len(at) > 0 {
				c.settings = append(c.settings, setting{path: at, values: []string{y.Value}, line: y.Line})
			}
		case yaml.SequenceNode:
			flat := setting{path: at, values: []string{}, line: y.Line}
			for i, k := range y.Content {
				if k.Kind == yaml.ScalarNode {
					flat.values = append(flat.values, k.Value)
				} else {
					look(k, append(slices.Clip(at), "#"+strconv.Itoa(i)), gates, shell, depth+1)
				}
			}
			if len(at) > 0 && len(flat.values) > 0 {
				c.settings = append(c.settings, flat)
			}
		case yaml.MappingNode:
			own := map[string]string{}
			for k, v := range gates {
				own[k] = v
			}
			sh := shell
			for i := 0; i+1 < len(y.Content); i += 2 {
				key, v := y.Content[i].Value, y.Content[i+1]
				if oneOf(key, "continue-on-error", "if", "when", "allow_failure", "continueOnError", "condition", "enabled", "soft_fail", "ignore_errors", "ignore-errors", "ignore_failure", "failure", "only", "except", "rules", "skip", "retry", "allow_failures") {
					if v.Kind == yaml.ScalarNode {
						own[key] = v.Value
					} else {
						data, err := yaml.Marshal(v)
						if err == nil {
							own[key] = string(data)
						}
					}
				}
				if key == "shell" && v.Kind == yaml.ScalarNode {
					sh = v.Value
				}
				if key == "defaults" && v.Kind == yaml.MappingNode {
					for k := 0; k+1 < len(v.Content); k += 2 {
						if v.Content[k].Value == "run" && v.Content[k+1].Kind == yaml.MappingNode {
							for q := 0; q+1 < len(v.Content[k+1].Content); q += 2 {
								if v.Content[k+1].Content[q].Value == "shell" {
									sh = v.Content[k+1].Content[q+1].Value
								}
							}
						}
					}
				}
			}
			for i := 0; i+1 < len(y.Content); i += 2 {
				key, v := y.Content[i].Value, y.Content[i+1]
				next := append(slices.Clip(at), key)
				if oneOf(key, "run", "script", "command", "commands", "before_script", "after_script", "cmd", "cmds", "steps", "bash", "sh", "test_script", "task", "args") {
					var lines []string
					switch v.Kind {
					case yaml.ScalarNode:
						lines = []string{v.Value}
					case yaml.SequenceNode:
						for _, k := range v.Content {
							if k.Kind == yaml.ScalarNode {
								lines = append(lines, k.Value)
							}
						}
					default:
					}
					if lines != nil && key != "args" {
						mode := shellMode{stops: true}
						if github {
							mode.pipefail = sh == "bash" || strings.Contains(sh, "pipefail")
							mode.stops = sh == "" || sh == "bash" || sh == "sh" || strings.Contains(sh, "-e")
						}
						if strings.Contains(c.path, "circleci") {
							mode.pipefail = sh == "" || strings.Contains(sh, "pipefail")
						}
						job := ""
						if len(at) > 1 {
							job = at[0] + "." + at[1]
						} else if len(at) > 0 {
							job = at[0]
						}
						c.scripts = append(c.scripts, script{where: strings.Join(next, "."), job: job, line: v.Line, text: strings.Join(lines, "\n"), mode: mode, ci: ci, gates: own})
					}
				}
				if len(at) == 0 && (key == "on" || key == "true") {
					c.on(v)
				}
				look(v, next, own, sh, depth+1)
			}
		}
	}
	look(&doc, nil, nil, "", 0)
}

// on reads what starts a workflow.
func (c *conf) on(v *yaml.Node) {
	switch v.Kind {
	case yaml.ScalarNode:
		c.triggers[v.Value] = nil
	case yaml.SequenceNode:
		for _, k := range v.Content {
			c.triggers[k.Value] = nil
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(v.Content); i += 2 {
			name := v.Content[i].Value
			c.triggers[name] = nil
			m := v.Content[i+1]
			if m.Kind != yaml.MappingNode {
				continue
			}
			for k := 0; k+1 < len(m.Content); k += 2 {
				key := m.Content[k].Value
				var list []string
				if m.Content[k+1].Kind == yaml.ScalarNode {
					list = []string{m.Content[k+1].Value}
				}
				for _, x := range m.Content[k+1].Content {
					list = append(list, x.Value)
				}
				c.paths[name+"."+key] = list
			}
		}
	default:
	}
}

// configuration compares the files that decide which tests run.
func (j *judge) configuration() {
	j.conf = &configs{judge: j}
	for _, p := range sortedKeys(j.changed) {
		c := j.changed[p]
		if !isConfig(p) || vendored(p) {
			continue
		}
		var b, h *conf
		if c.Base.file() {
			if s, ok := j.text(Base, p); ok {
				b = readConfig(p, s)
			}
		}
		if c.Head.file() {
			if s, ok := j.text(Head, p); ok {
				h = readConfig(p, s)
			}
		}
		if j.err != nil {
			return
		}
		if h != nil && !h.ok && (b == nil || b.ok) {
			j.add(Finding{Kind: "unreadable-config", Verdict: Review, Language: string(config), File: p, Why: "it is no YAML any more, so nobody knows what it runs"})
			continue
		}
		empty := &conf{path: p, triggers: map[string][]string{}, paths: map[string][]string{}}
		if b == nil {
			b = empty
		}
		if h == nil {
			if c.Head != nil {
				continue
			}
			j.configGone(b)
			continue
		}
		j.compareSettings(b, h)
		j.compareScripts(b, h)
		j.compareTriggers(b, h)
	}
}

func (j *judge) config(kind string, v Verdict, p string, line int, why string) {
	j.add(Finding{Kind: kind, Verdict: v, Language: string(config), File: p, Line: line, Why: why})
}

// configGone judges a file of configuration that was removed.
func (j *judge) configGone(b *conf) {
	for k := range b.scripts {
		s := &b.scripts[k]
		for _, r := range runs(s.text, s.mode) {
			if r.lost != "" || !s.ci {
				continue
			}
			if j.runElsewhere(r, b.path) {
				j.config("ci-job-moved", Review, b.path, 0, fmt.Sprintf("it ran %s, and is gone; another file still does", r.tool))
			} else {
				j.config("ci-swallowed", Tampered, b.path, 0, fmt.Sprintf("it ran %s, and is gone", r.tool))
			}
			return
		}
	}
	for k := range b.settings {
		s := &b.settings[k]
		if threshold(s) && len(s.values) == 1 {
			j.config("coverage-lowered", Review, b.path, 0, fmt.Sprintf("the floor %s of the coverage is gone with its file", s.values[0]))
			return
		}
	}
}

// runElsewhere says that another configuration of head runs the tool.
func (j *judge) runElsewhere(r run, not string) bool {
	for _, e := range j.list(Head) {
		if e.Path == not || !e.file() || !isConfig(e.Path) || vendored(e.Path) {
			continue
		}
		s, ok := j.text(Head, e.Path)
		if !ok {
			continue
		}
		c := readConfig(e.Path, s)
		for k := range c.scripts {
			for _, x := range runs(c.scripts[k].text, c.scripts[k].mode) {
				if (x.tool == r.tool || x.indirect) && x.lost == "" && c.scripts[k].ci {
					return true
				}
			}
		}
	}
	return false
}

// place of a run: the script that it stands in.
type placed struct {
	run
	s *script
}

func placedRuns(c *conf) []placed {
	var out []placed
	for k := range c.scripts {
		for _, r := range runs(c.scripts[k].text, c.scripts[k].mode) {
			out = append(out, placed{r, &c.scripts[k]})
		}
	}
	return out
}

func (p *placed) at() int { return p.s.line + max(p.line-1, 0) }

func kindOfLoss(s *script) string {
	if s.ci {
		return "ci-swallowed"
	}
	return "command-changed"
}

func (j *judge) compareScripts(b, h *conf) {
	was, now := placedRuns(b), placedRuns(h)
	used := map[int]bool{}
	// Shards: several runs with selections in place of one without.
	find := func(x placed) int {
		for _, same := range []func(y placed) bool{
			func(y placed) bool {
				return y.tool == x.tool && y.s.where == x.s.where && slices.Equal(y.args, x.args)
			},
			func(y placed) bool { return y.tool == x.tool && y.s.where == x.s.where },
			func(y placed) bool { return y.tool == x.tool && y.s.job == x.s.job && x.s.job != "" },
			func(y placed) bool { return y.tool == x.tool && slices.Equal(y.args, x.args) },
			func(y placed) bool { return y.tool == x.tool },
			func(y placed) bool { return y.s.where == x.s.where && y.indirect != x.indirect },
			func(y placed) bool { return y.s.where == x.s.where },
		} {
			for k := range now {
				if !used[k] && same(now[k]) {
					return k
				}
			}
		}
		return -1
	}
	for _, x := range was {
		if x.lost != "" || forgiven(x.s.gates) != "" {
			if k := find(x); k >= 0 {
				used[k] = true
			}
			continue
		}
		k := find(x)
		if k < 0 {
			// Two runs of the same in one place may have become one.
			shared := false
			for i := range now {
				shared = shared || now[i].tool == x.tool && now[i].lost == "" && (now[i].s.job == x.s.job || slices.Equal(now[i].args, x.args))
			}
			if shared {
				continue
			}
			j.runGone(b, h, x)
			continue
		}
		used[k] = true
		j.compareRun(h, x, now[k], now)
	}
	// Settings of a job around tests it runs by other means.
	for k := range now {
		if used[k] || len(was) > 0 {
			continue
		}
	}
}

// runGone judges a test run that a file no longer makes.
func (j *judge) runGone(b, h *conf, x placed) {
	// Its target is called by another name, or another file runs it now.
	for p, c := range j.changed {
		if p == b.path || !isConfig(p) || !c.Head.file() {
			continue
		}
		if s, ok := j.text(Head, p); ok {
			for _, r := range placedRuns(readConfig(p, s)) {
				if r.tool == x.tool && r.lost == "" {
					return
				}
			}
		}
	}
	kind := kindOfLoss(x.s)
	if x.s.ci && j.runElsewhere(x.run, h.path) {
		j.config("ci-job-moved", Review, h.path, 0, fmt.Sprintf("%s no longer runs %s here; another file does", x.s.where, command1(x.run)))
		return
	}
	v := Tampered
	if x.indirect || !x.s.ci && path.Ext(h.path) == ".sh" || !testScript(x.s.where) && !x.s.ci {
		v = Review
	}
	// Another runner in its place.
	for _, y := range placedRuns(h) {
		if y.s.where == x.s.where && y.lost == "" {
			v = Review
		}
	}
	j.config(kind, v, h.path, lineOf(h, x.s.where), fmt.Sprintf("%s no longer runs %s", x.s.where, command1(x.run)))
}

func testScript(where string) bool {
	low := strings.ToLower(where)
	return strings.Contains(low, "test") || strings.Contains(low, "check") || strings.Contains(low, "ci") || strings.Contains(low, "verify") || strings.Contains(low, "all") || strings.Contains(low, "spec") || strings.Contains(low, "commands")
}

func lineOf(c *conf, where string) int {
	for k := range c.scripts {
		if c.scripts[k].where == where {
			return c.scripts[k].line
		}
	}
	return 0
}

func command1(r run) string {
	return shorten(strings.TrimSpace(r.tool + " " + strings.Join(r.args, " ")))
}

// forgiven says by which gate the failure of a step does not count.
func forgiven(g map[string]string) string {
	for _, k := range []string{"continue-on-error", "allow_failure", "continueOnError", "soft_fail", "ignore_errors", "ignore-errors", "ignore_failure", "-", "returnStatus"} {
		if v, ok := g[k]; ok && !oneOf(strings.ToLower(strings.TrimSpace(v)), "false", "no", "") {
			return k
		}
	}
	if v, ok := g["failure"]; ok && v == "ignore" {
		return "failure: ignore"
	}
	return ""
}

func (j *judge) compareRun(h *conf, x, y placed, now []placed) {
	kind := kindOfLoss(y.s)
	at := y.at()
	if y.lost != "" {
		j.config(kind, Tampered, h.path, at, fmt.Sprintf("a failure of %s is lost: %s", y.tool, y.lost))
		return
	}
	if k := forgiven(y.s.gates); k != "" {
		v := Tampered
		if g := y.s.gates[k]; strings.Contains(g, "matrix.") || strings.Contains(g, "experimental") || strings.Contains(g, "exit_codes") {
			v = Review
		}
		if k == "-" {
			k = "the hyphen in front"
		}
		j.config(kind, v, h.path, at, fmt.Sprintf("a failure of %s does not count: %s", y.tool, k))
		return
	}
	j.compareGates(h, x, y)
	if x.tool != y.tool && !x.indirect && !y.indirect {
		j.config("command-changed", Review, h.path, at, fmt.Sprintf("%s runs in place of %s", command1(y.run), command1(x.run)))
		return
	}
	if x.indirect != y.indirect {
		if x.indirect {
			return
		}
		// The script it goes through runs the same.
		for k := range now {
			if now[k].tool == x.tool {
				return
			}
		}
		if !j.runElsewhere(x.run, h.path) {
			j.config("command-changed", Review, h.path, at, fmt.Sprintf("%s runs in place of %s", command1(y.run), command1(x.run)))
		}
		return
	}
	shards := 0
	for k := range now {
		if now[k].tool == y.tool && now[k].s.job == y.s.job && len(selections(now[k].tool, now[k].args)) > 0 {
			shards++
		}
	}
	j.compareFlags(h.path, at, kind, x.run, y.run, shards > 1)
}

func (j *judge) compareGates(h *conf, x, y placed) {
	for _, k := range []string{"if", "when", "condition", "enabled", "only", "except", "rules", "skip"} {
		now, ok := y.s.gates[k]
		if !ok {
			continue
		}
		was, had := x.s.gates[k]
		if had && was == now {
			continue
		}
		low := strings.ToLower(now)
		v := Review
		switch {
		case k == "when" && oneOf(strings.TrimSpace(low), "on_success", "always", "on_failure"), k == "enabled" && low == "true", k == "skip" && low == "false":
			continue
		case k == "if" && (strings.TrimSpace(low) == "true" || strings.Contains(low, "always()") || strings.Contains(low, "success()") || strings.Contains(low, "cancelled()")) && !strings.Contains(low, "&&"):
			continue
		case oneOf(strings.Trim(strings.TrimSpace(low), "${} "), "false", "never", "manual", "0"), k == "enabled" && low == "false", k == "skip":
			v = Tampered
		case had:
		case k == "if" && (strings.Contains(low, "event_name") && !strings.Contains(low, "!=") || strings.Contains(low, "contains(") || strings.Contains(low, "head.message") || strings.Contains(low, "github.actor") || strings.Contains(low, "vars.") || strings.Contains(low, "env.") || strings.Contains(low, "secrets.") || strings.Contains(low, "inputs.")) && !strings.Contains(low, "pull_request"):
			v = Tampered
		}
		j.config("ci-swallowed", v, h.path, y.at(), fmt.Sprintf("%s now runs only under a condition: %s: %s", y.tool, k, shorten(strings.TrimSpace(now))))
	}
}

// selects are flags that leave tests out, by tool; "" is any tool.
var selects = map[string][]string{
	"":           {"--deselect", "--ignore", "--ignore-glob", "--testNamePattern", "--testPathPattern", "--testPathPatterns", "--testPathIgnorePatterns", "--exclude", "--exclude-task", "--exclude-tag", "--exclude-tags", "--exclude-group", "--exclude-groups", "--grep", "--grep-invert", "--fgrep", "--invert", "--spec", "--only", "--lf", "--last-failed", "--ff2", "--onlyChanged", "--onlyFailures", "--changedSince", "--changed", "--findRelatedTests", "--lastCommit", "--selectProjects", "--ignoreProjects", "-Dtest", "-Dit.test", "-Dgroups", "-DexcludedGroups", "-Dsurefire.excludes", "-Dtests", "--tests", "--filter", "--skip", "--testsuite", "--exclude-testsuite", "--exclude-pattern", "--pattern", "--example", "--tag", "-only-testing", "-skip-testing", "-skip-test-configuration", "--label-exclude", "--exclude-regex", "--test-name-pattern", "--test-skip-pattern", "-skipPackage", "--skip-file", "--focus-file", "--label-filter", "--group", "--shard", "--partition", "--test-only2"},
	"go test":    {"-run", "--run", "-test.run", "-skip", "--skip", "-test.skip", "-short", "--short", "-test.short", "-list", "--focus"},
	"pytest":     {"-k", "-m", "--co", "--maxfail2", "--sw", "--stepwise"},
	"unittest":   {"-k", "-p"},
	"jest":       {"-t", "-o", "-f"},
	"vitest":     {"-t", "--project", "--dir"},
	"mocha":      {"-g", "-f", "-i"},
	"playwright": {"-g", "--project", "--last-failed"},
	"gradle":     {"-x", "--exclude-task"},
	"cargo":      {"--lib", "--bins", "--doc", "-E", "--filter-expr", "--exclude", "-p", "--package", "--test", "--bin", "--example"},
	"rspec":      {"-e", "-t", "-P"},
	"rake":       {},
	"phpunit":    {},
	"swift":      {},
	"tox":        {"-e"},
	"nox":        {"-s", "-k"},
	"ctest":      {"-R", "-E", "-L", "-LE"},
	"mvn":        {"-pl", "-P2"},
	"dotnet":     {},
}

// disables are flags with which a run cannot fail as it did.
var disables = map[string]string{
	"--passWithNoTests": "no test at all counts as success", "--pass-with-no-tests": "no test at all counts as success", "-DskipTests": "no test is run", "-Dmaven.test.skip": "no test is compiled or run", "-DskipITs": "no integration test is run", "-Dmaven.test.failure.ignore": "failures are ignored", "-DtestFailureIgnore": "failures are ignored", "-fn": "failures are ignored", "--fail-never": "failures are ignored",
	"--updateSnapshot": "snapshots are overwritten before they are compared", "--update": "stored results are overwritten", "--update-snapshots": "snapshots are overwritten", "--snapshot-update": "snapshots are overwritten", "--no-run": "tests are only compiled", "--collect-only": "tests are only listed", "--co": "tests are only listed", "--listTests": "tests are only listed", "--list": "tests are only listed", "--dry-run": "nothing is run", "--exit-zero": "failures are ignored", "--no-fail": "failures are ignored", "--suppress-tests-failed-exit-code": "failures are ignored", "--no-tests=pass": "no test at all counts as success", "--allow-empty": "no test at all counts as success", "--dangerouslyIgnoreUnhandledErrors": "errors are ignored", "--no-build2": "", "--do-not-fail-on-empty-test-suite": "no test at all counts as success", "--allowOnly": "tests in focus are allowed", "--pass-on-failure": "failures are ignored", "--lenient": "failures are ignored", "--no-exit-code": "failures are ignored", "-n0fail": "", "--noEmit2": "",
}

var updates = map[string][]string{"jest": {"-u"}, "vitest": {"-u"}, "playwright": {"-u"}, "ava": {"-u"}, "go test": {"-update", "--update"}, "npm test": {}}

var retriesFlags = []string{"--reruns", "--retry", "--retries", "--rerun-fails", "-Dsurefire.rerunFailingTestsCount", "--flaky", "--max-retries", "--force-flaky", "--flake-attempts", "--flaky-tests", "-retry-tests-on-failure", "--num-flaky-test-attempts", "--flaky_test_attempts"}

// flag is one option with its value.
type flag struct{ name, value string }

// flagsOf splits arguments into options and the rest.
func flagsOf(tool string, args []string) (fs []flag, rest []string) {
	for k := 0; k < len(args); k++ {
		a := args[k]
		if a == "--" {
			more, others := flagsOf(tool, args[k+1:])
			return append(fs, more...), append(rest, others...)
		}
		if strings.HasPrefix(a, ">") || strings.HasPrefix(a, "2>") || strings.HasPrefix(a, "<") || strings.HasPrefix(a, "&>") {
			if oneOf(a, ">", ">>", "2>", "<", "&>") {
				k++
			}
			continue
		}
		if !strings.HasPrefix(a, "-") || a == "-" {
			rest = append(rest, a)
			continue
		}
		name, value, eq := strings.Cut(a, "=")
		if !eq && k+1 < len(args) && !strings.HasPrefix(args[k+1], "-") && takesValue(tool, name) {
			value = args[k+1]
			k++
		}
		fs = append(fs, flag{name, value})
	}
	return fs, rest
}

func takesValue(tool, name string) bool {
	if oneOf(name, "-v", "-vv", "-q", "-x", "-s", "-l", "-race", "-cover", "--coverage", "--ci", "--watch", "--verbose", "--silent", "--bail", "--runInBand", "--passWithNoTests", "-short", "--quiet", "-B", "-U", "-ntp", "--workspace", "--all", "--all-features", "--release", "--locked", "--no-fail-fast", "-failfast", "--lib", "--doc", "--bins", "--all-targets", "-u", "-i", "--exit", "--colors", "--color", "--no-coverage", "--forceExit", "--run", "-json", "-a", "--watchAll", "--no-cache", "--cov", "--lf", "--ff", "--sw", "--co", "--no-run", "--collect-only", "--no-watch", "--test", "--stacktrace", "--info", "--no-daemon", "--offline", "--batch-mode", "--fail-at-end", "-fae", "-am", "-e2", "-trimpath", "-shuffle2", "--strict-markers", "--no-header", "--parallel", "--experimental-vm-modules", "--detectOpenHandles", "--no-build", "--no-restore", "--update", "-C2") {
		return tool == "gradle" && name == "-x" || tool == "cargo" && name == "--test"
	}
	if strings.HasPrefix(name, "-D") || strings.HasPrefix(name, "-P") && tool == "gradle" {
		return false
	}
	return true
}

// selections returns the options that leave tests out.
func selections(tool string, args []string) []flag {
	fs, _ := flagsOf(tool, args)
	var out []flag
	for _, f := range fs {
		if slices.Contains(selects[""], f.name) || slices.Contains(selects[tool], f.name) {
			if tool == "mvn" && f.name == "--test" {
				continue
			}
			out = append(out, f)
		}
	}
	return out
}

func (j *judge) compareFlags(p string, at int, kind string, x, y run, shards bool) {
	was, wasRest := flagsOf(x.tool, x.args)
	now, rest := flagsOf(y.tool, y.args)
	has := func(f flag) bool { return slices.Contains(was, f) }
	named := func(name string) bool {
		return slices.ContainsFunc(was, func(f flag) bool { return f.name == name })
	}
	if y.tool == "go test" {
		for _, f := range now {
			if oneOf(f.name, "-short", "--short", "-test.short") && !named(f.name) {
				j.conf.short = true
			}
		}
	}
	if kind != "ci-swallowed" {
		kind = "command-changed"
	} else {
		kind = "command-changed"
	}
	sel := selections(y.tool, y.args)
	for _, f := range sel {
		if has(f) || oneOf(f.value, "", "./...") && named(f.name) {
			continue
		}
		v := Tampered
		why := fmt.Sprintf("%s is narrowed by %s %s", y.tool, f.name, f.value)
		switch {
		case shards || oneOf(f.name, "--shard", "--partition", "--group") && strings.Contains(f.value, "/"):
			v = Review
			kind = "ci-job-moved"
			why = "the run is split: only a person can tell whether the parts are the whole: " + f.name + " " + f.value
		case named(f.name), strings.Contains(f.value, "matrix."):
			v = Review
			if wider(x.tool, was, f) {
				continue
			}
		case oneOf(f.name, "--pattern", "--dir", "--project", "-pl", "-p", "--package", "-e", "--spec") && strings.Contains(f.value, "$"):
			v = Review
		case oneOf(f.name, "--exclude", "--ignore", "--testPathIgnorePatterns", "--ignore-glob") && !j.matchesTests(f.value):
			continue
		}
		j.config(kind, v, p, at, strings.TrimSpace(why))
	}
	for _, f := range now {
		why, ok := disables[f.name]
		if !ok || why == "" {
			if slices.Contains(updates[y.tool], f.name) || f.name == "-u" && strings.HasPrefix(y.tool, "npm") {
				why, ok = "stored results are overwritten before they are compared", true
			}
		}
		if ok && slices.ContainsFunc(was, func(o flag) bool { return disables[o.name] != "" && oneOf(o.name, "-DskipTests", "-Dmaven.test.skip") }) && oneOf(f.name, "-DskipTests", "-Dmaven.test.skip") {
			continue
		}
		if ok && why != "" && !named(f.name) && !oneOf(strings.ToLower(f.value), "false", "0") && !(y.tool == "cargo" && f.name == "--update") {
			j.config("command-changed", Tampered, p, at, fmt.Sprintf("%s got %s: %s", y.tool, f.name, why))
		}
		if slices.Contains(retriesFlags, f.name) && !has(f) && f.value != "0" {
			v := Tampered
			if named(f.name) {
				v = Review
			}
			j.config("retry-until-green", v, p, at, fmt.Sprintf("%s got %s %s: failures are repeated until they pass", y.tool, f.name, f.value))
		}
		if oneOf(f.name, "--cov-fail-under", "--fail-under", "--coverage-threshold", "--check-coverage", "--lines", "--branches", "--functions", "--statements", "--fail-under-lines", "--min") {
			for _, o := range was {
				if o.name == f.name && lower(o.value, f.value) {
					j.config("coverage-lowered", Tampered, p, at, fmt.Sprintf("the floor of the coverage went from %s to %s", o.value, f.value))
				}
			}
		}
		if oneOf(f.name, "--testTimeout", "-timeout", "--timeout", "--test-timeout") {
			for _, o := range was {
				if o.name == f.name && longer(o.value, f.value) {
					j.config("timeout-raised", Review, p, at, fmt.Sprintf("the time limit of %s went from %s to %s", y.tool, o.value, f.value))
				}
			}
		}
	}
	for _, o := range was {
		if oneOf(o.name, "--cov-fail-under", "--fail-under", "--check-coverage", "--coverage-threshold") && !slices.ContainsFunc(now, func(f flag) bool { return f.name == o.name }) {
			j.config("coverage-lowered", Tampered, p, at, "the floor of the coverage is gone: "+o.name)
		}
		if oneOf(o.name, "--forbid-only", "--forbidOnly", "--strict", "--strict-markers", "--fail-on-empty-test-suite", "--forbid-pending") && !slices.ContainsFunc(now, func(f flag) bool { return f.name == o.name }) {
			j.config("command-changed", Review, p, at, "the test command lost "+o.name)
		}
	}
	// What is named to be run.
	if y.indirect {
		return
	}
	j.compareOperands(p, at, y.tool, wasRest, rest, shards)
}

// wider says that a selection that was there became no narrower.
func wider(_ string, was []flag, f flag) bool {
	for _, o := range was {
		if o.name == f.name && (strings.Contains(f.value, o.value) && strings.Contains(f.value, "|") || f.value == "") {
			return true
		}
	}
	return false
}

func (j *judge) compareOperands(p string, at int, tool string, was, now []string, shards bool) {
	if slices.Equal(was, now) || oneOf(tool, "mvn", "gradle", "npm", "rake", "tox", "nox", "make", "composer", "node", "python", "ruby", "karma", "cypress", "playwright", "bun", "deno", "dotnet", "xcodebuild", "swift") && !(oneOf(tool, "mvn", "gradle")) {
		if !oneOf(tool, "node", "python", "ruby", "playwright", "bun", "deno", "swift") || slices.Equal(was, now) {
			return
		}
	}
	if tool == "mvn" || tool == "gradle" {
		return
	}
	whole := func(list []string) bool {
		return len(list) == 0 || slices.ContainsFunc(list, func(s string) bool {
			return oneOf(s, "./...", ".", "...", "./", "test", "tests", "spec", "**/*.test.js", "all", "$(go list ./...)", "test/", "tests/", "spec/", "run") || strings.Contains(s, "list ./...")
		})
	}
	var gone []string
	for _, s := range was {
		if !slices.Contains(now, s) {
			gone = append(gone, s)
		}
	}
	var fresh []string
	for _, s := range now {
		if !slices.Contains(was, s) {
			fresh = append(fresh, s)
		}
	}
	switch {
	case whole(was) && len(now) == 0 && tool == "go test" && len(was) > 0:
		j.config("command-changed", Review, p, at, "go test runs the package here alone, no longer "+strings.Join(was, " "))
	case whole(was) && len(fresh) > 0 && !whole(now):
		if j.allTestsUnder(fresh, tool) {
			return
		}
		v := Tampered
		if shards || slices.ContainsFunc(fresh, func(s string) bool { return strings.Contains(s, "$") || strings.Contains(s, "matrix") }) {
			v = Review
		}
		j.config("command-changed", v, p, at, fmt.Sprintf("%s runs only %s", tool, shorten(strings.Join(fresh, " "))))
	case len(gone) > 0 && len(fresh) == 0 && len(now) > 0 && !whole(now):
		j.config("command-changed", Tampered, p, at, fmt.Sprintf("%s no longer runs %s", tool, shorten(strings.Join(gone, " "))))
	case len(gone) > 0 && !whole(now):
		j.config("command-changed", Review, p, at, fmt.Sprintf("%s runs %s in place of %s", tool, shorten(strings.Join(fresh, " ")), shorten(strings.Join(gone, " "))))
	}
}

// allTestsUnder says that all test files of head lie under one of the paths.
func (j *judge) allTestsUnder(list []string, tool string) bool {
	fam := map[string]language{"pytest": python, "unittest": python, "jest": javascript, "vitest": javascript, "mocha": javascript, "rspec": ruby, "phpunit": php, "pest": php, "go test": golang, "ava": javascript, "tap": javascript}[tool]
	if fam == "" {
		return false
	}
	n := 0
	for _, e := range j.list(Head) {
		lang := languageOf(e.Path)
		if !e.file() || lang == "" || lang.family() != fam || vendored(e.Path) || !isTestFile(lang, e.Path) {
			continue
		}
		n++
		if !slices.ContainsFunc(list, func(s string) bool { return under(e.Path, s) }) {
			return false
		}
	}
	return n > 0
}

// under says that a path lies at or below what a runner is told to run.
func under(p, where string) bool {
	where = strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(strings.Trim(where, `"'`), "./"), "..."), "/")
	if where == "" || where == "." {
		return true
	}
	if strings.ContainsAny(where, "*?[{") {
		return globAny(where, p)
	}
	return p == where || strings.HasPrefix(p, where+"/")
}

func lower(was, now string) bool {
	a, errA := strconv.ParseFloat(strings.Trim(was, "% "), 64)
	b, errB := strconv.ParseFloat(strings.Trim(now, "% "), 64)
	return errA == nil && errB == nil && b < a
}

func longer(was, now string) bool {
	a, b := seconds(was), seconds(now)
	return a >= 0 && (b > a || b == 0 && a > 0)
}

func seconds(s string) float64 {
	s = strings.TrimSpace(s)
	for _, u := range []struct {
		suffix string
		factor float64
	}{{"ms", 0.001}, {"s", 1}, {"m", 60}, {"h", 3600}, {"", 1}} {
		if rest, ok := strings.CutSuffix(s, u.suffix); ok {
			if f, err := strconv.ParseFloat(rest, 64); err == nil {
				return f * u.factor
			}
		}
	}
	return -1
}

func (j *judge) compareTriggers(b, h *conf) {
	if len(b.triggers) == 0 {
		return
	}
	tests := false
	for _, r := range placedRuns(h) {
		tests = tests || r.lost == ""
	}
	if !tests && len(placedRuns(b)) == 0 {
		return
	}
	lost, kept := []string{}, false
	for _, t := range []string{"push", "pull_request", "pull_request_target", "merge_group"} {
		_, was := b.triggers[t]
		_, now := h.triggers[t]
		kept = kept || now
		if was && !now {
			lost = append(lost, t)
		}
	}
	if len(lost) > 0 {
		v := Review
		if !kept {
			v = Tampered
		}
		j.config("ci-swallowed", v, h.path, 0, fmt.Sprintf("the workflow no longer starts on %s", strings.Join(lost, ", ")))
	}
	for key, now := range h.paths {
		was := b.paths[key]
		for _, v := range now {
			if slices.Contains(was, v) {
				continue
			}
			switch {
			case strings.HasSuffix(key, ".paths-ignore"):
				if !docs(v) {
					j.config("ci-swallowed", Tampered, h.path, 0, fmt.Sprintf("the workflow no longer starts for %s", v))
				}
			case strings.HasSuffix(key, ".branches-ignore") && oneOf(v, "**", "*"):
				j.config("ci-swallowed", Tampered, h.path, 0, "the workflow no longer starts for any branch")
			case strings.HasSuffix(key, ".paths") && len(was) == 0:
				j.config("ci-swallowed", Review, h.path, 0, fmt.Sprintf("the workflow now starts only for some paths: %s", strings.Join(now, " ")))
			case strings.HasSuffix(key, ".paths") && strings.HasPrefix(v, "!") && !docs(v[1:]):
				j.config("ci-swallowed", Tampered, h.path, 0, fmt.Sprintf("the workflow no longer starts for %s", v[1:]))
			case strings.HasSuffix(key, ".branches") && len(was) == 0 && !oneOf(v, "main", "master", "**", "*", "develop", "trunk"):
				j.config("ci-swallowed", Review, h.path, 0, fmt.Sprintf("the workflow now starts only for some branches: %s", strings.Join(now, " ")))
			}
		}
		if strings.HasSuffix(key, ".paths") {
			for _, v := range was {
				if !slices.Contains(now, v) && len(now) > 0 && !docs(v) {
					j.config("ci-swallowed", Review, h.path, 0, fmt.Sprintf("the workflow no longer starts for %s", v))
				}
			}
		}
	}
}

// docs says that a pattern is about documents and the like alone.
func docs(v string) bool {
	low := strings.ToLower(v)
	for _, w := range []string{".md", ".rst", ".txt", "docs", "doc/", "license", "readme", "changelog", ".github", "examples", ".png", ".svg", ".adoc", "website", "authors", "codeowners", ".gitignore", ".editorconfig", "contributing", "notice", "examples/", ".vscode", ".devcontainer", "renovate", "dependabot"} {
		if strings.Contains(low, w) {
			return true
		}
	}
	return false
}
