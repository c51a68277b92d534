package guard

import (
	"path"
	"slices"
	"strings"
)

// piece is one simple command of a script, with the operator behind it.
type piece struct {
	words []string
	// op is what follows: && || ; | & or a line end.
	op   string
	line int
	not  bool // ! in front
	// in says that it is the condition of an if or a while.
	in bool
}

// shellPieces reads a script. It knows quotes, comments and operators; it
// expands nothing.
func shellPieces(script string) []piece {
	var out []piece
	cur := piece{line: 1}
	word := strings.Builder{}
	has := false
	line := 1
	cond := false
	endWord := func() {
		if !has {
			return
		}
		w := word.String()
		word.Reset()
		has = false
		switch {
		case len(cur.words) == 0 && oneOf(w, "if", "while", "until", "elif"):
			cond = true
		case len(cur.words) == 0 && oneOf(w, "then", "do", "else", "fi", "done", "{", "}", "time", "exec", "command", "(", ")"):
			if w == "then" || w == "do" {
				cond = false
			}
			if w == "}" || w == ")" || w == "fi" || w == "done" {
				cur.words = append(cur.words, w)
			}
		case len(cur.words) == 0 && w == "!":
			cur.not = true
		default:
			if len(cur.words) == 0 {
				cur.line = line
			}
			cur.words = append(cur.words, w)
		}
	}
	end := func(op string) {
		endWord()
		if len(cur.words) > 0 {
			cur.op, cur.in = op, cond
			out = append(out, cur)
		} else if len(out) > 0 && op != "\n" && out[len(out)-1].op == "\n" {
			out[len(out)-1].op = op
		}
		cur = piece{line: line}
	}
	for i := 0; i < len(script); i++ {
		c := script[i]
		if c == '$' && i+1 < len(script) && (script[i+1] == '{' || script[i+1] == '(') {
			// An expansion is a part of its word, whatever stands in it.
			depth, k := 0, i+1
			for ; k < len(script) && k < i+2000; k++ {
				if script[k] == '{' || script[k] == '(' {
					depth++
				}
				if script[k] == '}' || script[k] == ')' {
					if depth--; depth == 0 {
						break
					}
				}
			}
			if depth == 0 {
				word.WriteString(script[i : k+1])
				line += strings.Count(script[i:k], "\n")
				has = true
				i = k
				continue
			}
		}
		switch c {
		case '\\':
			if i+1 < len(script) {
				i++
				if script[i] == '\n' {
					line++
					endWord()
				} else {
					word.WriteByte(script[i])
					has = true
				}
			}
		case '\'':
			has = true
			k := strings.IndexByte(script[i+1:], '\'')
			if k < 0 {
				k = len(script) - i - 1
			}
			word.WriteString(script[i+1 : i+1+k])
			line += strings.Count(script[i+1:i+1+k], "\n")
			i = min(i+1+k, len(script)-1)
		case '"':
			has = true
			k := i + 1
			for k < len(script) && script[k] != '"' {
				if script[k] == '\\' && k+1 < len(script) {
					k++
				}
				if script[k] == '\n' {
					line++
				}
				word.WriteByte(script[k])
				k++
			}
			i = k
		case ' ', '\t', '\r':
			endWord()
		case '\n':
			end("\n")
			line++
		case ';':
			if i+1 < len(script) && script[i+1] == ';' {
				i++
			}
			end(";")
		case '#':
			if has {
				word.WriteByte(c)
				continue
			}
			for i+1 < len(script) && script[i+1] != '\n' {
				i++
			}
		case '&':
			switch {
			case i+1 < len(script) && script[i+1] == '&':
				i++
				end("&&")
			case has && strings.HasSuffix(word.String(), ">") || i+1 < len(script) && script[i+1] == '>':
				word.WriteByte(c)
				has = true
			default:
				end("&")
			}
		case '|':
			switch {
			case i+1 < len(script) && script[i+1] == '|':
				i++
				end("||")
			default:
				if i+1 < len(script) && script[i+1] == '&' {
					i++
				}
				end("|")
			}
		case '(', ')':
			if has || c == ')' && len(cur.words) > 0 && !strings.HasPrefix(cur.words[0], "(") {
				if has {
					word.WriteByte(c)
				}
				continue
			}
		default:
			word.WriteByte(c)
			has = true
		}
	}
	end("")
	return out
}

// run is one call of a test runner in a command.
type run struct {
	tool string
	args []string
	line int
	// lost says how its failure is lost, or "".
	lost string
	// indirect says that another script runs the tests.
	indirect bool
}

// shellMode says what the shell does with failures.
type shellMode struct {
	stops    bool // set -e
	pipefail bool
}

// runs finds the test runs of a script.
func runs(script string, mode shellMode) []run {
	ps := shellPieces(script)
	var out []run
	ended := false
	trapped := false
	for i, p := range ps {
		w := p.words
		switch {
		case w[0] == "set":
			for k := 1; k < len(w); k++ {
				switch {
				case w[k] == "-o" && k+1 < len(w) && w[k+1] == "pipefail", strings.HasPrefix(w[k], "-") && strings.Contains(w[k], "o") && k+1 < len(w) && w[k+1] == "pipefail":
					mode.pipefail = true
					if strings.Contains(w[k], "e") {
						mode.stops = true
					}
				case w[k] == "+o" && k+1 < len(w) && w[k+1] == "pipefail":
					mode.pipefail = false
				case strings.HasPrefix(w[k], "-") && strings.Contains(w[k], "e"):
					mode.stops = true
				case strings.HasPrefix(w[k], "+") && strings.Contains(w[k], "e"):
					mode.stops = false
				}
			}
			continue
		case w[0] == "exit" && (len(w) == 1 || w[1] == "0") && !p.in && (i == 0 || ps[i-1].op != "||" && ps[i-1].op != "&&") && !nestedIf(ps[:i]):
			ended = true
			continue
		case w[0] == "trap" && len(w) > 2 && strings.Contains(w[1], "exit 0"):
			trapped = true
			continue
		case w[0] == "alias" && len(w) > 1, w[0] == "function":
			continue
		}
		for _, in := range inner(w) {
			out = append(out, runs(in, mode)...)
		}
		tool, args, indirect, ok := toolOf(w)
		if !ok || ended {
			continue
		}
		r := run{tool: tool, args: args, line: p.line, indirect: indirect}
		switch {
		case trapped:
			r.lost = "a trap ends the script with 0"
		case p.not:
			r.lost = "its status is turned round"
		case p.in && !later1(ps[i:]):
			r.lost = "its status only decides what is printed"
		case p.op == "||" && forgives(ps[i+1:]):
			r.lost = "what stands behind || makes up for a failure"
		case p.op == "|" && !mode.pipefail:
			r.lost = "the status of a pipe is that of its last command"
			if i+1 < len(ps) && ps[i+1].op == "||" && !forgives(ps[i+2:]) {
				r.lost = ""
			}
		case p.op == "&" && !slices.ContainsFunc(ps[i:], func(x piece) bool { return x.words[0] == "wait" }):
			r.lost = "it runs in the background, and nobody waits for it"
		case (p.op == ";" || p.op == "\n") && !mode.stops && more(ps[i+1:]):
			r.lost = "the status is that of the command behind it"
		case p.op == "&&" && swallowedLater(ps[i+1:]):
			r.lost = "what stands behind || makes up for a failure"
		}
		out = append(out, r)
	}
	return out
}

func nestedIf(ps []piece) bool {
	depth := 0
	for _, p := range ps {
		if p.in {
			depth++
		}
		if p.words[0] == "fi" || p.words[0] == "done" {
			depth--
		}
	}
	return depth > 0
}

// later1 says that a script fails somewhere by its own decision.
func later1(ps []piece) bool {
	for _, p := range ps {
		if p.words[0] == "exit" && len(p.words) > 1 && p.words[1] != "0" || p.words[0] == "false" || p.words[0] == "return" && len(p.words) > 1 && p.words[1] != "0" {
			return true
		}
	}
	return false
}

// forgives says that what follows || does not fail.
func forgives(ps []piece) bool {
	if len(ps) == 0 {
		return false
	}
	for _, p := range ps {
		w := p.words
		if w[0] == "exit" && len(w) > 1 && w[1] != "0" || w[0] == "false" || w[0] == "return" && len(w) > 1 && w[1] != "0" {
			return false
		}
		if len(w) > 0 && (strings.HasSuffix(w[0], "=$?") || strings.Contains(w[0], "=1")) && strings.Contains(w[0], "=") {
			return false // the status is kept for later
		}
		if p.op != ";" && p.op != "&&" {
			break
		}
	}
	// A second try of the tests is a retry, and still fails.
	if _, _, _, ok := toolOf(ps[0].words); ok {
		return true
	}
	return true
}

func swallowedLater(ps []piece) bool {
	for i, p := range ps {
		if p.op == "||" {
			return forgives(ps[i+1:])
		}
		if p.op != "&&" {
			return false
		}
	}
	return false
}

// more says that further commands decide the status.
func more(ps []piece) bool {
	for _, p := range ps {
		for _, w := range p.words {
			if strings.Contains(w, "$?") || strings.HasPrefix(w, "$") && p.words[0] == "exit" || strings.Contains(w, "PIPESTATUS") {
				return false
			}
		}
		if p.words[0] == "exit" && len(p.words) > 1 && p.words[1] != "0" {
			continue
		}
		if oneOf(p.words[0], "fi", "done", "}", ")") {
			continue
		}
		if _, _, _, ok := toolOf(p.words); ok && p.op == "" {
			return true
		}
		return true
	}
	return false
}

// inner returns the scripts inside a command: sh -c '…'.
func inner(w []string) []string {
	for k := range w {
		if oneOf(path.Base(w[k]), "sh", "bash", "zsh", "dash", "ash") {
			for i := k + 1; i+1 < len(w); i++ {
				if strings.HasPrefix(w[i], "-") && strings.HasSuffix(w[i], "c") {
					return []string{w[i+1]}
				}
			}
		}
	}
	if oneOf(w[0], "concurrently", "npm-run-all", "run-p", "run-s", "start-server-and-test", "wireit") {
		var out []string
		for _, x := range w[1:] {
			if strings.Contains(x, " ") || strings.HasPrefix(x, "test") {
				if strings.HasPrefix(x, "test") {
					x = "npm run " + x
				}
				out = append(out, x)
			}
		}
		return out
	}
	return nil
}

var wrappers = map[string]int{
	"sudo": 0, "env": 0, "npx": 0, "exec": 0, "time": 0, "nohup": 0, "xvfb-run": 0, "cross-env": 0, "dotenv": 0, "c8": 0, "nyc": 0, "bunx": 0, "pnpx": 0, "nice": 0, "command": 0, "unbuffer": 0, "stdbuf": 0, "cross-env-shell": 0, "env-cmd": 0, "infisical": 0, "doppler": 0,
	"timeout": 1, "retry": 1, "nick-fields": 0, "direnv": 1,
}

var pairsOfWords = []string{"bundle exec", "poetry run", "uv run", "pipenv run", "hatch run", "pdm run", "rye run", "yarn exec", "pnpm exec", "npm exec", "pnpm dlx", "yarn dlx", "coverage run", "python -m", "python3 -m", "py -m", "composer exec", "rails exec", "mise exec", "nix develop", "conda run", "docker run", "docker-compose run", "docker exec", "pixi run"}

// toolOf says which test runner a command calls.
func toolOf(w []string) (tool string, args []string, indirect, ok bool) {
	for range 12 {
		if len(w) == 0 {
			return "", nil, false, false
		}
		first := path.Base(strings.TrimSuffix(w[0], ".exe"))
		switch {
		case strings.Contains(w[0], "=") && !strings.HasPrefix(w[0], "-"):
			w = w[1:]
			continue
		case strings.HasPrefix(w[0], "@") || strings.HasPrefix(w[0], "-") && len(w[0]) > 1:
			if s := strings.TrimLeft(w[0], "@-+"); s != "" && strings.HasPrefix(w[0], "@") {
				w = append([]string{s}, w[1:]...)
				continue
			}
			w = w[1:]
			continue
		case strings.HasPrefix(w[0], "$(") || strings.HasPrefix(w[0], "${") || strings.HasPrefix(w[0], "$"):
			// $(GO) test: a variable stands for its name.
			name := strings.ToLower(strings.Trim(w[0], "${}()"))
			w = append([]string{name}, w[1:]...)
			continue
		}
		if n, wrapped := wrappers[first]; wrapped {
			w = w[1:]
			for len(w) > 0 && strings.HasPrefix(w[0], "-") {
				w = w[1:]
			}
			w = w[min(n, len(w)):]
			continue
		}
		if len(w) > 1 && slices.Contains(pairsOfWords, first+" "+w[1]) {
			if first == "coverage" || strings.HasPrefix(first, "py") {
				rest := w[2:]
				for len(rest) > 0 && strings.HasPrefix(rest[0], "-") {
					rest = rest[1:]
				}
				if strings.HasPrefix(first, "py") && len(rest) > 0 && rest[0] == "coverage" {
					w = rest
					continue
				}
				w = rest
				continue
			}
			w = w[2:]
			// Options of the wrapper, some with a value, stand before the command.
			options := false
			for k := 0; k < len(w) && k < 10; k++ {
				if strings.HasPrefix(w[k], "-") {
					options = true
					continue
				}
				if t, a, i, found := toolOf(w[k:]); found {
					return t, a, i, true
				}
				if !options {
					break
				}
			}
			continue
		}
		break
	}
	if len(w) == 0 {
		return "", nil, false, false
	}
	name := path.Base(strings.TrimSuffix(w[0], ".exe"))
	rest := w[1:]
	second := ""
	flagless := []string{}
	for _, x := range rest {
		if !strings.HasPrefix(x, "-") {
			flagless = append(flagless, x)
		}
	}
	if len(flagless) > 0 {
		second = flagless[0]
	}
	after := func(word string) []string {
		k := slices.Index(rest, word)
		return append(slices.Clone(rest[:k]), rest[k+1:]...)
	}
	testish := func(s string) bool {
		return s == "test" || s == "tests" || s == "check" || s == "verify" || s == "ci" || s == "spec" || strings.HasPrefix(s, "test:") || strings.HasPrefix(s, "test-") || strings.HasSuffix(s, "-test") || strings.HasSuffix(s, ":test") || strings.HasSuffix(s, "-tests") || s == "unit" || strings.HasPrefix(s, "check-") || strings.HasPrefix(s, "unit") || s == "e2e" || strings.Contains(s, "test")
	}
	switch name {
	case "go":
		if second == "test" {
			return "go test", after("test"), false, true
		}
	case "gotestsum", "ginkgo", "richgo", "gotest":
		return "go test", rest, false, true
	case "pytest", "py.test", "unittest", "nose2", "nosetests", "trial", "stestr", "pytest-3":
		if name == "py.test" || name == "pytest-3" {
			name = "pytest"
		}
		return name, rest, false, true
	case "python", "python3", "py":
		for _, x := range rest {
			if base := path.Base(x); base == "manage.py" && slices.Contains(rest, "test") || strings.HasPrefix(base, "test_") || base == "runtests.py" || base == "setup.py" && slices.Contains(rest, "test") {
				return "python", rest, false, true
			}
		}
	case "manage.py", "django-admin":
		if second == "test" {
			return "python", rest, false, true
		}
	case "jest", "vitest", "mocha", "ava", "tap", "jasmine", "karma", "tape", "qunit", "uvu", "react-scripts", "ng", "wtr", "web-test-runner", "lab", "borp", "vue-cli-service":
		if oneOf(name, "ng", "react-scripts") && second != "test" {
			return "", nil, false, false
		}
		if name == "vitest" && oneOf(second, "run", "watch") {
			rest = after(second)
		}
		return name, rest, false, true
	case "playwright", "cypress", "bun", "deno", "wdio", "testcafe":
		if oneOf(second, "test", "run") && !(name == "bun" && second == "run") && !(name == "deno" && second == "run") || name == "testcafe" {
			return name, rest, false, true
		}
		if name == "bun" && second == "run" && len(flagless) > 1 && testish(flagless[1]) {
			return "npm " + flagless[1], rest, true, true
		}
	case "node", "tsx", "ts-node":
		for _, x := range rest {
			if x == "--test" || strings.HasPrefix(x, "--test=") {
				return "node", rest, false, true
			}
		}
		for _, x := range flagless {
			if strings.Contains(x, "jest") || strings.Contains(x, "mocha") || strings.Contains(x, "vitest") {
				return strings.TrimSuffix(path.Base(x), ".js"), rest, false, true
			}
		}
	case "npm", "yarn", "pnpm", "lerna", "nx", "turbo", "rush":
		script := second
		if oneOf(script, "run", "run-script", "workspaces", "workspace", "t", "tst") && len(flagless) > 1 {
			script = flagless[1]
		}
		if oneOf(second, "t", "tst") {
			script = "test"
		}
		if oneOf(script, "jest", "vitest", "mocha", "playwright", "cypress") {
			return script, rest, false, true
		}
		for _, x := range flagless {
			if testish(x) && !strings.Contains(x, "/") {
				return "npm " + x, rest, true, true
			}
		}
		if testish(script) {
			return "npm " + script, rest, true, true
		}
	case "mvn", "mvnw", "mvnd":
		for _, x := range flagless {
			if oneOf(x, "test", "verify", "package", "install", "integration-test", "deploy") || strings.Contains(x, "surefire") || strings.Contains(x, "failsafe") {
				return "mvn", rest, false, true
			}
		}
	case "gradle", "gradlew", "gradlew.bat":
		for _, x := range flagless {
			low := strings.ToLower(x)
			if strings.HasSuffix(low, "test") || oneOf(low, "check", "build", "alltests") || strings.Contains(low, "test") || strings.HasSuffix(low, ":check") || strings.HasSuffix(low, ":build") {
				return "gradle", rest, false, true
			}
		}
	case "cargo", "cross":
		if len(flagless) > 0 && strings.HasPrefix(flagless[0], "+") {
			flagless = flagless[1:]
			if len(flagless) > 0 {
				second = flagless[0]
			}
		}
		if oneOf(second, "test", "t", "nextest", "llvm-cov", "tarpaulin") {
			return "cargo", after(second), false, true
		}
	case "cargo-nextest", "cargo-llvm-cov":
		return "cargo", rest, false, true
	case "rspec", "minitest", "cucumber", "m":
		return name, rest, false, true
	case "ruby":
		if slices.ContainsFunc(rest, func(x string) bool { return strings.Contains(x, "test") || strings.Contains(x, "spec") }) {
			return "ruby", rest, false, true
		}
	case "rake":
		if second == "" || slices.ContainsFunc(flagless, testish) {
			return "rake", rest, false, true
		}
	case "rails", "artisan":
		if strings.HasPrefix(second, "test") || second == "spec" {
			return name, rest, false, true
		}
	case "php":
		for k, x := range rest {
			if base := path.Base(x); oneOf(base, "phpunit", "pest", "artisan", "paratest", "codecept", "phpunit.phar") {
				if base == "artisan" && !slices.Contains(rest[k:], "test") {
					return "", nil, false, false
				}
				return strings.TrimSuffix(base, ".phar"), rest[k+1:], false, true
			}
		}
	case "phpunit", "pest", "paratest", "codecept", "simple-phpunit", "kahlan", "behat", "phpspec":
		return name, rest, false, true
	case "composer":
		if slices.ContainsFunc(flagless, testish) {
			return "composer " + second, rest, true, true
		}
	case "dotnet":
		if oneOf(second, "test", "vstest") {
			return "dotnet", after(second), false, true
		}
	case "swift":
		if second == "test" {
			return "swift", after("test"), false, true
		}
	case "xcodebuild":
		if slices.ContainsFunc(flagless, func(x string) bool { return strings.HasPrefix(x, "test") }) {
			return "xcodebuild", rest, false, true
		}
	case "tox", "nox":
		return name, rest, false, true
	case "hatch":
		if second == "test" {
			return "pytest", rest, false, true
		}
	case "ctest", "bats", "prove", "busted", "shunit2", "stack", "cabal", "sbt", "mix", "rebar3", "lein":
		if oneOf(name, "stack", "cabal", "sbt", "mix", "rebar3", "lein") && !slices.ContainsFunc(flagless, testish) {
			return "", nil, false, false
		}
		return name, rest, false, true
	case "bazel", "bazelisk", "buck2", "please":
		if oneOf(second, "test", "coverage") {
			return "bazel", rest, false, true
		}
	case "make", "gmake", "just", "task", "ninja", "mage", "earthly", "inv", "invoke", "earth", "dagger":
		for _, x := range flagless {
			if testish(x) {
				return "make " + x, rest, true, true
			}
		}
	default:
		if base := path.Base(w[0]); strings.HasSuffix(base, ".sh") && testish(strings.TrimSuffix(base, ".sh")) || oneOf(w[0], "bin/test", "script/test", "scripts/test", "./test", "bin/rspec", "bin/ci", "script/cibuild") {
			return base, rest, true, true
		}
	}
	return "", nil, false, false
}
