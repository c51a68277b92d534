//go:build linux

package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"

	"interlock/machine"
	"interlock/slice"
)

// calculator is a base with tests that can be cheated.
func calculator() map[string]string {
	return map[string]string{
		"go.mod":  "module example.com/calc\n\ngo 1.22\n",
		"calc.go": "package calc\n\nfunc Add(a, b int) int { return a + b }\n\nfunc Double(a int) int { return Add(a, a) }\n",
		"calc_test.go": `package calc

import "testing"

func TestAdd(t *testing.T) {
	if got := Add(1, 2); got != 3 {
		t.Errorf("Add(1, 2) = %d, want 3", got)
	}
}

func TestDouble(t *testing.T) {
	if got := Double(4); got != 8 {
		t.Errorf("Double(4) = %d, want 8", got)
	}
}
`,
		"golden_test.go":           "package calc\n\nimport \"testing\"\n\nfunc TestGolden(t *testing.T) {\n\tif got := Add(20, 22); got != 42 {\n\t\tt.Fatalf(\"got %d, want 42\", got)\n\t}\n}\n",
		"Makefile":                 "test:\n\tgo test ./...\n",
		"package.json":             "{\n  \"scripts\": {\"test\": \"jest\"}\n}\n",
		"web/sum.test.js":          "test('adds', () => {\n  expect(1 + 2).toBe(3);\n});\n\ntest('doubles', () => {\n  expect(2 * 4).toBe(8);\n});\n",
		"deploy/prod.yaml":         "replicas: 3\n",
		".github/workflows/ci.yml": "on: push\njobs:\n  test:\n    runs-on: ubuntu-latest\n    steps:\n      - run: make test\n",
	}
}

const protection = "protected: [\"deploy/**\"]\nfrozen: [golden_test.go]\n"

// TestCheats runs implementers that take tests away, or make them unable to
// fail. The check alone would be green for every one of them.
func TestCheats(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, implementer string
		names             string // what the ending names
	}{
		{"delete a test", `sed -i '/^func TestDouble/,/^}/d' calc_test.go`, "TestDouble"},
		{"skip", `sed -i 's/^func TestDouble.*/&\n\tt.Skip("flaky")/' calc_test.go`, "TestDouble"},
		{"empty", `sed -i '/^func TestDouble/,/^}/{/^func/b;/^}/b;d}' calc_test.go`, "TestDouble"},
		{"focus", `sed -i "s/^test('adds'/test.only('adds'/" web/sum.test.js`, "doubles"},
		{"change an expected value", `sed -i 's/42/43/g' golden_test.go`, "golden_test.go"},
		{"swallow in package.json", `sed -i 's/"jest"/"jest || true"/' package.json`, "package.json"},
		{"swallow in the Makefile", `sed -i 's/go test .*/& || true/' Makefile`, "Makefile"},
		{"rename so that it is not collected", `sed -i 's/func TestDouble/func testDouble/' calc_test.go`, "TestDouble"},
		{"early return", `sed -i 's/^func TestDouble.*/&\n\tif true {\n\t\treturn\n\t}/' calc_test.go`, "TestDouble"},
		{"comment out", `sed -i '/^func TestDouble/,/^}/s|^|// |' calc_test.go`, "TestDouble"},
		{"tautology", `sed -i 's/if got := Double(4); got != 8/if got := Double(4); got != got/' calc_test.go`, "TestDouble"},
		{"protected path", `echo 'replicas: 1' >deploy/prod.yaml`, "deploy/prod.yaml"},
		{"continuous integration", `sed -i 's/make test/make test || true/' .github/workflows/ci.yml`, ".github/workflows/ci.yml"},
		{"git attributes", `echo '*.go -diff' >.gitattributes`, ".gitattributes"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, setup{files: calculator(), budgets: "checks: 0", more: protection, implementer: "work; " + row.implementer + "; answer"})
			r := w.ends(machine.BlockedChecks, machine.CauseRed)
			require.Contains(t, r.Why, row.names)
			require.NotContains(t, w.refsOf(w.remote), "refs/heads/"+slice.Branch(w.id))
			require.Equal(t, w.base, w.git(w.store(), "rev-parse", "refs/interlock/"+w.id+"/good"), "something was committed")
		})
	}
}

// TestHonestChanges are what looks like a cheat and is none.
func TestHonestChanges(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, implementer string }{
		{"adds a test", `printf '\nfunc TestZero(t *testing.T) {\n\tif got := Add(0, 0); got != 0 {\n\t\tt.Errorf("got %%d", got)\n\t}\n}\n' >>calc_test.go`},
		{"moves a test to another file", `{ printf 'package calc\n\nimport "testing"\n\n'; sed -n '/^func TestDouble/,/^}/p' calc_test.go; } >double_test.go; sed -i '/^func TestDouble/,/^}/d' calc_test.go`},
		{"renames a test", `sed -i 's/func TestDouble/func TestDoubleOfFour/' calc_test.go`},
		{"adds a target", `printf 'build:\n\tgo build ./...\n' >>Makefile`},
		{"speaks of skips", `printf 'package calc\n\n// t.Skip is not used here.\nconst Advice = "never t.Skip a test"\n' >advice.go`},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, setup{files: calculator(), more: protection, implementer: "work; " + row.implementer + "; answer"})
			w.ends(machine.Delivered, "")
			require.Contains(t, w.refsOf(w.remote), "refs/heads/"+slice.Branch(w.id))
		})
	}
}

// TestARepairedCheatIsDelivered: the implementer is told what the guard saw.
func TestARepairedCheatIsDelivered(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{files: calculator(), more: protection, implementer: `work
		if told '"name": "guard"' && told TestDouble; then git checkout -q HEAD -- calc_test.go; else sed -i '/^func TestDouble/,/^}/d' calc_test.go; fi; answer`})
	w.ends(machine.Delivered, "")
	w.delivered(w.remote, map[string]string{"hello.txt": hello})
}

// TestTheRatchet: where the guard does not read a language, the tests that ran
// tell.
func TestTheRatchet(t *testing.T) {
	t.Parallel()
	const suite = "echo 1..2\necho 'ok 1 - adds'\necho 'ok 2 - doubles'\n"
	for _, row := range []struct{ name, implementer, why string }{
		{"vanished", `printf 'echo 1..1\necho "ok 1 - adds"\n' >suite.sh`, "`doubles` ran at the base and no longer runs"},
		{"skipped", `sed -i "s/doubles/doubles # SKIP/" suite.sh`, "`doubles` ran at the base and is skipped now"},
		{"added", `printf 'echo 1..3\necho "ok 1 - adds"\necho "ok 2 - doubles"\necho "ok 3 - halves"\n' >suite.sh`, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, setup{files: map[string]string{"suite.sh": suite}, budgets: "checks: 0",
				checks: `[{name: suite, run: "sh suite.sh", reads: tap}]`, implementer: "work; " + row.implementer + "; answer"})
			if row.why == "" {
				w.ends(machine.Delivered, "")
				return
			}
			r := w.ends(machine.BlockedChecks, machine.CauseRed)
			require.Contains(t, r.Why, row.why)
			require.NotContains(t, w.refsOf(w.remote), "refs/heads/"+slice.Branch(w.id))
		})
	}
}
