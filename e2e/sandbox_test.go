//go:build linux

package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"interlock/activities/sandbox"
	"interlock/machine"
)

// apart skips a test where programs cannot be kept apart.
func apart(t *testing.T) {
	t.Helper()
	if h := sandbox.Probe(t.Context()); !h.Works() {
		t.Skip(h.Why)
	}
}

// TestTricksOfAJudge lets a judge reach for what is not its business, with a
// sandbox and without, and looks whether it got there. What it may not do it
// says on standard error, which is evidence.
func TestTricksOfAJudge(t *testing.T) {
	t.Parallel()
	const secret = "WORDS-OF-THE-IMPLEMENTER"
	for _, row := range []struct {
		name string
		// trick prints what it found.
		trick string
		// found is in what it found where nothing stops it. Nothing of it is there
		// with a sandbox, unless it is reached.
		found   string
		reached bool
		// voids says that without a sandbox the verdict is discarded.
		voids bool
	}{
		{name: "writes to its view", trick: `echo x >mine.txt && echo written`, found: "written", voids: true},
		{name: "replaces its view", trick: `p=$PWD; rm -rf "$p"/* 2>/dev/null; mv "$p" "$p.old" 2>/dev/null && mkdir "$p" && echo replaced`, found: "replaced", voids: true},
		{name: "writes to the store", trick: `echo x >"$STORE/mine" && echo written && rm "$STORE/mine"`, found: "written"},
		{name: "reads the transcript of the implementer", trick: `grep -rhs ` + secret + ` $IL/evidence | grep -v grep`, found: secret},
		{name: "reads the home of the implementer", trick: `cat $IL/slices/$ID/agents/implementer/*/home/diary`, found: secret},
		{name: "reads the database of the server", trick: `head -c 16 $IL/*/*.db $IL/*.db 2>/dev/null | tr -d '\0'; ls $IL | grep -v -e slices -e views -e stores`, found: "lock"},
		{name: "reads other slices", trick: `ls $IL/slices | grep -v -x "$ID"`, found: "-"},
		{name: "reads the environment of the worker", trick: `for p in /proc/[0-9]*; do tr '\0' '\n' <$p/environ 2>/dev/null; done | grep -a -m 1 TEMPORAL_CONFIG_FILE`, found: "TEMPORAL_CONFIG_FILE"},
		{name: "reads the home of the user", trick: `cat ` + "USERHOME" + `/token`, found: "TOKEN"},
		{name: "sees other processes", trick: `cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' ' ' | grep -a -o '[i]nterlock worker' | head -n 1`, found: "interlock worker"},
		{name: "leaves a process", trick: `(setsid sh -c 'trap "" TERM; sleep 600' >/dev/null 2>&1 &); echo left`, found: "left", reached: true},
		{name: "reaches the server", trick: `bash -c 'exec 3<>/dev/tcp/` + "SERVER" + ` && echo reached'`, found: "reached", reached: true},
	} {
		for _, mode := range []string{"required", "off"} {
			t.Run(row.name+", "+mode, func(t *testing.T) {
				t.Parallel()
				needsServer(t)
				if mode == "required" {
					apart(t)
				}
				user := filepath.Join(shared.dir, "user")
				require.NoError(t, os.WriteFile(filepath.Join(user, "token"), []byte("TOKEN\n"), 0o600))
				host, port, _ := strings.Cut(shared.address, ":")
				trick := strings.NewReplacer("USERHOME", user, "SERVER", host+"/"+port).Replace(row.trick)
				// What it found comes out as the reason of its score, kept as evidence.
				w := newWorld(t, setup{sandbox: mode, budgets: "discards: 0",
					implementer: `echo ` + secret + ` >$HOME/diary; work; answer ` + secret,
					judge: `found=$( (` + trick + `) | head -c 400 | tr '\n"\\' '  /')
						printf '{"scores":[{"criterion":"It works.","score":5,"reason":"%s"}],"findings":[{"severity":"note","claim":"FOUND %s"}],"cost_usd":0.01}\n' "$found" "$found"`,
				})
				r, how := w.run()
				require.Empty(t, w.left(), "processes were left")
				found := evidenceOf(t, w, "FOUND")
				if mode == "off" {
					require.Contains(t, found, row.found, how.stderr)
					require.Contains(t, r.Sandbox, "off, as policy says")
					if row.voids {
						require.Equal(t, machine.BlockedJudge, r.Ending)
						require.Contains(t, r.Why, "changed what it was to judge")
						return
					}
				} else {
					require.Equal(t, row.reached, strings.Contains(found, row.found), found)
					require.Contains(t, r.Sandbox, "bubblewrap")
				}
				require.Equal(t, machine.Delivered, r.Ending, "%s\n%s", r.Why, how.stderr)
				w.delivered(w.remote, map[string]string{"hello.txt": hello})
			})
		}
	}
}

// hashOf finds hashes of evidence in a record.
var hashOf = regexp.MustCompile(`[0-9a-f]{64}`)

// evidenceOf returns the lines of evidence of the slice that have a word.
func evidenceOf(t *testing.T, w *world, word string) string {
	t.Helper()
	how := interlock(t, "ledger", w.id, "-o", "json")
	var lines []string
	for _, hash := range hashOf.FindAllString(how.stdout, -1) {
		b, err := os.ReadFile(filepath.Join(shared.home, "evidence", hash[:2], hash))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			if strings.Contains(line, word) {
				lines = append(lines, line)
			}
		}
	}
	return strings.Join(lines, "")
}

// TestSandboxedWork is the peaceful slice with everything kept apart, and an
// implementer that reaches out of its workspace.
func TestSandboxedWork(t *testing.T) {
	t.Parallel()
	apart(t)
	t.Run("peaceful", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, setup{sandbox: "required", tasks: 2, implementer: `work; git log -1 --format=%H >/dev/null && echo x >>list.txt; answer`, judge: "git diff HEAD --stat >/dev/null && scores 5"})
		w.ends(machine.Delivered, "")
		require.Zero(t, w.calls("implementer"), "what is outside cannot be written")
	})
	t.Run("implementer reaches out", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, setup{sandbox: "required", implementer: `
			for p in "$REPO/hacked" "$OUT/hacked" "$STORE/hacked" "$IL/hacked" "$IL/evidence/hacked" "$IL/slices/$ID/ops/1-9.done" /usr/hacked /etc/hacked; do
				echo x >"$p" && echo "$p" >>escaped.txt
			done 2>/dev/null
			touch /tmp/mine-$ID && work; answer`})
		w.ends(machine.Delivered, "")
		w.delivered(w.remote, map[string]string{"hello.txt": hello})
		for _, p := range []string{"/usr/hacked", "/etc/hacked", "/tmp/mine-" + w.id, filepath.Join(shared.home, "hacked")} {
			require.NoFileExists(t, p)
		}
	})
}
