//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"interlock/slice"
)

// TestInput gives the command line what it cannot take. The golden file has
// exit codes and messages: each must name the place and say what to do.
func TestInput(t *testing.T) {
	needsServer(t)
	t.Parallel()
	// A slice of one task in the repository of a world, with lines changed.
	change := func(pairs ...string) func(*world) {
		return func(w *world) {
			text := w.spec()
			for i := 0; i < len(pairs); i += 2 {
				before := text
				text = strings.Replace(text, strings.ReplaceAll(pairs[i], "$REPO", w.repo), strings.ReplaceAll(pairs[i+1], "$REPO", w.repo), 1)
				require.NotEqual(w.t, before, text)
			}
			require.NoError(w.t, os.WriteFile(w.file, []byte(text), 0o644))
		}
	}
	content := func(data string) func(*world) {
		return func(w *world) { require.NoError(w.t, os.WriteFile(w.file, []byte(data), 0o644)) }
	}
	policy := func(text string) func(*world) {
		return func(w *world) {
			if text == "" {
				w.git(w.repo, "rm", "-q", slice.PolicyFile)
			} else {
				w.write(slice.PolicyFile, text)
				w.git(w.repo, "add", "-A")
			}
			w.git(w.repo, "commit", "-q", "-m", "Policy")
		}
	}
	shell := func(line string) func(*world) {
		return func(w *world) {
			file := filepath.Join(w.dir, "do.sh")
			require.NoError(w.t, os.WriteFile(file, []byte("set -eu\nREPO="+w.repo+" DIR="+w.dir+"\n"+line+"\n"), 0o644))
			out, err := w.trySh(file)
			require.NoError(w.t, err, out)
		}
	}
	both := func(list ...func(*world)) func(*world) {
		return func(w *world) {
			for _, do := range list {
				do(w)
			}
		}
	}
	const repo = "repo: \"$REPO\""
	file := filepath.Join("testdata", "input.golden")
	want := map[string]string{}
	if text, err := os.ReadFile(file); err == nil {
		for _, part := range strings.Split(string(text), "== ")[1:] {
			name, rest, _ := strings.Cut(part, "\n")
			want[name] = rest
		}
	}
	var golden strings.Builder
	for _, row := range []struct {
		name string
		code int
		// command is validate where no server is needed to see it.
		command string
		before  func(*world)
	}{
		{"empty", 2, "validate", content("")},
		{"comment alone", 2, "validate", content("# nothing\n")},
		{"binary", 2, "validate", content("id: x\n\x00\x01\x02")},
		{"not UTF-8", 2, "validate", content("title: \xff\n")},
		{"too large", 2, "validate", func(w *world) { require.NoError(w.t, os.Truncate(w.file, 50<<20)) }},
		{"a folder", 2, "validate", shell("rm $DIR/slice.yaml; mkdir $DIR/slice.yaml")},
		{"not there", 2, "validate", shell("rm $DIR/slice.yaml")},
		{"broken YAML", 2, "validate", content("id: [x\n")},
		{"a list", 2, "validate", content("- id: x\n")},
		{"anchors that grow", 2, "validate", content("a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\ntasks: [*b,*b,*b,*b,*b,*b]\n")},
		{"unknown key", 2, "validate", change("title:", "titel:")},
		{"unknown key in a task", 2, "validate", change("criterion:", "criterium:")},
		{"key twice", 2, "validate", change("title: Say hello", "title: a\ntitle: b")},
		{"no task", 2, "validate", change("tasks:\n- {id: t1, criterion: There is a greeting 1.}", "tasks: []")},
		{"duplicate task", 2, "validate", change("tasks:", "tasks:\n- {id: t1, criterion: Another.}")},
		{"task id with a slash", 2, "validate", change("id: t1", "id: a/b")},
		{"id with dots", 2, "validate", change("id: ", "id: ../")},
		{"id like an option", 2, "validate", change("id: ", "id: -x")},
		{"repo like an option", 2, "validate", change(repo, `repo: "--upload-pack=touch /tmp/pwned"`)},
		{"repo that runs a helper", 2, "validate", change(repo, `repo: "ext::sh -c true"`)},
		{"base like an option", 2, "validate", change("base: main", "base: --all")},
		{"base with a revision", 2, "validate", change("base: main", "base: main~1")},
		{"protected path that leaves", 2, "validate", change("tasks:", "policy: {protected: [../x]}\ntasks:")},
		{"repo not there", 8, "run", change(repo, `repo: "$REPO-not"`)},
		{"repo is a file", 8, "run", change(repo, `repo: "$REPO/README.md"`)},
		{"repo is no repository", 8, "run", both(shell("mkdir $DIR/plain"), change(repo, `repo: "plain"`))},
		{"repo is a folder in one", 8, "run", both(shell("mkdir $REPO/sub"), change(repo, `repo: "$REPO/sub"`))},
		{"repo without a commit", 8, "run", both(shell("git init -q -b main $DIR/new"), change(repo, `repo: "new"`))},
		{"repo is shallow", 8, "run", both(shell("cd $REPO; git commit -q --allow-empty -m 2; git clone -q --depth 1 file://$REPO $DIR/shallow"), change(repo, `repo: "shallow"`))},
		{"repo is bare", 0, "run", both(shell("git clone -q --bare $REPO $DIR/bare.git"), change(repo, `repo: "bare.git"`))},
		{"submodule", 8, "run", shell("cd $REPO; git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),sub; git commit -q -m sub")},
		{"LFS", 8, "run", shell("cd $REPO; echo '*.bin filter=lfs diff=lfs' >.gitattributes; git add .gitattributes; git commit -q -m lfs")},
		{"base not there", 8, "run", change("base: main", "base: mian")},
		{"base is a short id", 8, "run", change("base: main", "base: abcdef1")},
		{"base is a branch and a tag", 8, "run", shell("cd $REPO; git tag main")},
		{"base is a blob", 8, "run", shell("cd $REPO; git tag blob $(git rev-parse HEAD:README.md); sed -i 's/^base: .*/base: blob/' $DIR/slice.yaml")},
		{"policy missing", 2, "run", policy("")},
		{"policy empty", 2, "run", policy("# nothing\n")},
		{"policy broken", 2, "run", policy("agents: [\n")},
		{"policy misspelled", 2, "run", policy("agents: {}\ncheks: []\n")},
		{"policy that checks nothing", 2, "run", policy("agents:\n  implementer: {use: command, run: [x]}\n  judges: [{use: command, run: [y]}]\nchecks:\n  - name: nothing\n    run: exit 0\n")},
		{"policy that leaves the repository", 2, "run", policy("agents:\n  implementer: {use: command, run: [x]}\n  judges: [{use: command, run: [y]}]\nchecks: [{run: make, inputs: [/etc/**]}]\n")},
		{"policy is a link", 2, "run", shell("cd $REPO; rm interlock.yaml; ln -s /etc/passwd interlock.yaml; git add -A; git commit -q -m link")},
		{"policy is a folder", 2, "run", shell("cd $REPO; rm interlock.yaml; mkdir interlock.yaml; touch interlock.yaml/x; git add -A; git commit -q -m folder")},
	} {
		t.Run(row.name, func(t *testing.T) {
			var got strings.Builder
			w := newWorld(t, setup{before: row.before})
			args := []string{row.command, w.file}
			if row.command == "run" {
				args = append(args, "-o", "json")
			}
			how := interlock(t, args...)
			require.Equal(t, row.code, how.code, how.stdout+how.stderr)
			fmt.Fprintf(&got, "exits with %d\n", how.code)
			var r slice.Result
			switch {
			case row.command == "run" && how.stdout != "":
				require.NoError(t, json.Unmarshal([]byte(how.stdout), &r), how.stdout)
				fmt.Fprintf(&got, "%s: %snext: %s\n", r.Ending, w.plain(r.Why+"\n"), r.Next)
			default:
				fmt.Fprintf(&got, "%s", w.plain(how.stdout+how.stderr))
			}
			fmt.Fprintf(&golden, "== %s\n%s", row.name, got.String())
			if !*update {
				require.Equal(t, want[row.name], got.String())
			}
			require.NotContains(t, how.stderr, "panic")
			require.Zero(t, w.calls("implementer")*row.code)
			if row.code != 0 {
				require.Equal(t, w.kept, hashes(t, w.repo))
			}
			require.NoFileExists(t, "/tmp/pwned")
		})
	}
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(golden.String()), 0o644))
	}
}

var (
	// What git says differs between its versions.
	gitSays = regexp.MustCompile(`: git [a-z-]+ in .*`)
	// The keys that there are change with every version.
	keys   = regexp.MustCompile(`\b(agents|allow_removed_tests), [a-z0-9_, ]* or (verify|title)\b`)
	commit = regexp.MustCompile(`\b[0-9a-f]{40}\b|\b[0-9a-f]{10}\b`)
)

// plain takes out of a text what differs between two runs.
func (w *world) plain(text string) string {
	text = strings.NewReplacer(w.repo, "$REPO", w.dir, "$DIR", shared.home, "$HOME", shared.dir, "$TMP", w.id, "$ID").Replace(text)
	text = keys.ReplaceAllString(text, "$$KEYS")
	return commit.ReplaceAllString(gitSays.ReplaceAllString(text, ": git …"), "$$COMMIT")
}
