package check

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"interlock/machine"
	"interlock/slice"
)

// told is a list of tests in a few words.
func told(l Tests) string {
	var words []string
	for _, t := range l.Tests {
		word := string(t.State) + " " + t.Name
		if t.N > 1 {
			word += fmt.Sprintf(" x%d", t.N)
		}
		words = append(words, word)
	}
	return strings.Join(words, "\n")
}

// Every row is what a runner wrote, and the command that stands for it.
func TestReaders(t *testing.T) {
	for _, c := range []struct {
		file    string
		reads   slice.Reads
		code    int
		outcome machine.Outcome
		killed  bool
		why     string
		failing []string
		flaky   []string
		tests   string
		summary string
	}{
		{file: "cargo-red.txt", reads: slice.ReadsCargo, code: 101, outcome: machine.Failed, why: "exit status 101: 1 failed, 4 passed", failing: []string{"shop tests::fails"}, summary: "left: 3",
			tests: "pass it whole\npass shop doc src/lib.rs - add\nfail shop tests::fails\npass shop tests::panics\nskip shop tests::slow\npass shop tests::works"},
		{file: "cargo-loud.txt", reads: slice.ReadsCargo, outcome: machine.Done, why: "exit status 0: 5 passed, 1 skipped",
			tests: "pass it whole\npass shop doc src/lib.rs - add\npass shop tests::fails\npass shop tests::panics\nskip shop tests::slow\npass shop tests::works"},
		{file: "cargo-build.txt", reads: slice.ReadsCargo, code: 101, outcome: machine.Failed, why: "exit status 101: it does not build (src/lib.rs:15:26)"},
		{file: "cargo-build-json.txt", reads: slice.ReadsCargo, code: 101, outcome: machine.Failed, why: "exit status 101: it does not build (src/lib.rs:15:26)"},
		{file: "cargo-abort.txt", reads: slice.ReadsCargo, code: 101, outcome: machine.Failed, why: "exit status 101: 1 failed, 1 passed, the process ended in shop", failing: []string{"shop"},
			tests: "pass shop tests::fails\nskip shop tests::slow"},
		{file: "nextest.txt", reads: slice.ReadsCargo, code: 100, outcome: machine.Failed, why: "exit status 100: 1 failed, 3 passed", failing: []string{"shop tests::fails"}, flaky: []string{"shop tests::shaky"},
			tests: "fail shop tests::fails\npass shop tests::shaky\npass shop tests::works\npass shop::it whole"},
		{file: "libtest-json.txt", reads: slice.ReadsCargo, code: 100, outcome: machine.Failed, why: "exit status 100: 1 failed, 1 passed", failing: []string{"shop tests::fails"}, summary: "right: 4",
			tests: "fail shop tests::fails\nskip shop tests::slow\npass shop tests::works"},

		{file: "node-tap.txt", reads: slice.ReadsTAP, code: 1, outcome: machine.Failed, why: "exit status 1: 1 failed, 2 passed", failing: []string{"calculator > divides # by zero"}, summary: "error: '1 == 2'",
			tests: "fail calculator\npass calculator > adds\nfail calculator > divides # by zero\nskip calculator > later\nskip calculator > some day\npass top\npass top > sub"},
		{file: "tap14.txt", reads: slice.ReadsTAP, code: 1, outcome: machine.Failed, why: "exit status 1: 1 failed, 2 passed", failing: []string{"broken # here"}, summary: "message: bad sum",
			tests: "fail broken # here\npass buffered\npass buffered > within\npass outer\npass outer > one\nskip outer > two\nskip some day"},
		{file: "tap-short.txt", reads: slice.ReadsTAP, outcome: machine.Failed, why: "exit status 0: planned 3 tests and ran 1", tests: "pass a"},
		{file: "tap-bail.txt", reads: slice.ReadsTAP, code: 1, outcome: machine.Unmeasured, killed: true, why: "exit status 1: bailed out: no database", tests: "pass a"},
		{file: "tap-no-plan.txt", reads: slice.ReadsTAP, outcome: machine.Failed, why: "exit status 0: 2 tests without a plan: the output ends early", tests: "pass a\npass b"},
		{file: "tap-none.txt", reads: slice.ReadsTAP, outcome: machine.Unmeasured, why: "exit status 0: ran no test: no test of the Test Anything Protocol in the output"},
		{file: "cut.xml", reads: slice.ReadsTAP, code: 2, outcome: machine.Unmeasured, killed: true, why: "exit status 2: the runner ended before any test: no test of"},

		{file: "maven.xml", reads: slice.ReadsJUnit, code: 1, outcome: machine.Failed, why: "exit status 1: 2 failed, 2 passed",
			failing: []string{"org.acme.CalculatorTest.divideByZero", "org.acme.CalculatorTest.overflow"}, flaky: []string{"org.acme.CalculatorTest.shaky"}, summary: "expected: <1> but was: <2>",
			tests: "pass org.acme.CalculatorTest.adds\nfail org.acme.CalculatorTest.divideByZero\nskip org.acme.CalculatorTest.later\nfail org.acme.CalculatorTest.overflow\npass org.acme.CalculatorTest.shaky"},
		{file: "maven.xml", reads: slice.ReadsJUnit, outcome: machine.Failed, why: "exit status 0: 2 failed, 2 passed", failing: []string{"org.acme.CalculatorTest.divideByZero", "org.acme.CalculatorTest.overflow"}, flaky: []string{"org.acme.CalculatorTest.shaky"}},
		{file: "gradle.xml", reads: slice.ReadsJUnit, outcome: machine.Done, why: "exit status 0: 2 passed", tests: "pass org.acme.PriceTest.[1] 3, 4\npass org.acme.PriceTest.rounds()"},
		{file: "pytest.xml", reads: slice.ReadsJUnit, code: 2, outcome: machine.Failed, why: "exit status 2: 1 failed, 2 passed, tests.test_bad does not load (/src/tests/test_bad.py:3)", failing: []string{"tests.test_bad"},
			tests: "fail tests.test_bad\npass tests.test_calc.TestDiv.test_zero\npass tests.test_calc.test_add[1-2]\nskip tests.test_calc.test_later"},
		{file: "jest.xml", reads: slice.ReadsJUnit, code: 1, outcome: machine.Failed, why: "exit status 1: 1 failed, 2 passed", failing: []string{"src/broken.test.ts"}, summary: "Unexpected token",
			tests: "pass Calculator adds\npass src/calc.test.ts > Calculator > subtracts"},
		{file: "phpunit.xml", reads: slice.ReadsJUnit, code: 1, outcome: machine.Failed, why: "exit status 1: 1 failed, 1 passed", failing: []string{"Tests.CalcTest.testSum with data set #0"}, summary: "3 matches 4",
			tests: "pass Tests.CalcTest.testAdd\nskip Tests.CalcTest.testLater\nfail Tests.CalcTest.testSum with data set #0"},
		{file: "googletest.xml", reads: slice.ReadsJUnit, outcome: machine.Done, why: "exit status 0: 1 passed, 1 skipped", tests: "pass Calc.Adds\nskip Calc.DISABLED_Later"},
		{file: "node.xml", reads: slice.ReadsJUnit, code: 1, outcome: machine.Failed, why: "exit status 1: 1 failed, 2 passed", failing: []string{"calculator > divides # by zero"}, summary: "ERR_TEST_FAILURE",
			tests: "pass calculator > adds\nfail calculator > divides # by zero\nskip calculator > later\nskip calculator > some day\npass top > sub"},
		{file: "bomb.xml", reads: slice.ReadsJUnit, outcome: machine.Unmeasured, killed: true, why: "exit status 0: the reports cannot be read: out/bomb.xml: it has a document type, which is refused"},
		{file: "cut.xml", reads: slice.ReadsJUnit, outcome: machine.Unmeasured, killed: true, why: "the reports cannot be read: out/cut.xml: XML syntax error", tests: "pass b"},
		{file: "other.xml", reads: slice.ReadsJUnit, outcome: machine.Unmeasured, killed: true, why: "the reports cannot be read: out/other.xml: it is no JUnit XML"},
	} {
		t.Run(fmt.Sprintf("%s %s %d", c.file, c.reads, c.code), func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("testdata", "readers", c.file))
			require.NoError(t, err)
			b := newBench(t)
			command := slice.Command{Name: "test", Reads: c.reads, Run: slice.Shell(fmt.Sprintf("cat ../given; exit %d", c.code))}
			b.Dir = filepath.Join(b.Dir, "tree")
			require.NoError(t, os.MkdirAll(b.Dir, 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(b.Dir, "..", "given"), text, 0o600))
			if c.reads == slice.ReadsJUnit {
				command.Reports = []string{"out/**/*.xml"}
				command.Run = slice.Shell(fmt.Sprintf("mkdir -p out; cp ../given out/%s; exit %d", c.file, c.code))
			}
			res, _ := b.one(t, command)
			require.Equal(t, c.outcome, res.Outcome, res.Why)
			require.Equal(t, c.killed, res.Killed)
			require.Contains(t, res.Why, c.why)
			require.Equal(t, c.failing, res.Failing)
			require.Equal(t, c.flaky, res.Flaky)
			require.Contains(t, res.Summary, c.summary)
			kept, err := b.Evidence.Get(res.Tests.Hash)
			require.NoError(t, err)
			list, err := ReadTests(kept)
			require.NoError(t, err)
			if c.tests != "" || c.outcome == machine.Unmeasured {
				require.Equal(t, c.tests, told(list))
			}
		})
	}
}

// What an earlier run has left is nobody's result, and links lead nowhere.
func TestReportsAreThoseOfTheRun(t *testing.T) {
	text, err := os.ReadFile("testdata/readers/googletest.xml")
	require.NoError(t, err)
	b := newBench(t)
	out := filepath.Join(b.Dir, "a", "out")
	require.NoError(t, os.MkdirAll(out, 0o700))
	old := filepath.Join(out, "old.xml")
	require.NoError(t, os.WriteFile(old, text, 0o600))
	elsewhere := filepath.Join(t.TempDir(), "kept.xml")
	require.NoError(t, os.WriteFile(elsewhere, text, 0o600))
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(out, "link.xml")))
	require.NoError(t, os.Symlink(filepath.Dir(elsewhere), filepath.Join(b.Dir, "b")))
	command := slice.Command{Name: "test", Reads: slice.ReadsJUnit, Reports: []string{"a/out/*.xml", "b/*.xml", "**/*.xml"}, Run: slice.Shell("true")}
	res, _ := b.one(t, command)
	require.Equal(t, machine.Unmeasured, res.Outcome)
	require.Contains(t, res.Why, "ran no test: no test in files that match a/out/*.xml, b/*.xml, **/*.xml")
	require.NoFileExists(t, old)
	require.FileExists(t, elsewhere)

	command.Run = slice.Shell("rm -r a/out; mkfifo p.xml; ln -s a loop; mkdir -p a/out; cp " + elsewhere + " a/out/new.xml")
	res, _ = b.one(t, command)
	require.Equal(t, machine.Done, res.Outcome, res.Why)
	require.Equal(t, 1, res.Passed, "counted once, though three globs match it")
}

func TestReportsAreBounded(t *testing.T) {
	b := newBench(t)
	command := slice.Command{Name: "test", Reads: slice.ReadsJUnit, Reports: []string{"*.xml"}}
	command.Run = slice.Shell(fmt.Sprintf("head -c %d /dev/zero >a.xml", maxReportBytes+1))
	res, _ := b.one(t, command)
	require.Equal(t, machine.Unmeasured, res.Outcome)
	require.Contains(t, res.Why, "a.xml is too large")
	command.Run = slice.Shell(`i=0; while [ $i -lt 200 ]; do printf '<testsuite>'; i=$((i+1)); done >a.xml`)
	res, _ = b.one(t, command)
	require.Contains(t, res.Why, "nested too deeply")
}

func TestABuildFailureHasItsPlace(t *testing.T) {
	b := newBench(t)
	for line, place := range map[string]string{
		"[ERROR] " + b.Dir + "/src/A.java:[12,5] cannot find symbol":                         "src/A.java:12:5",
		b.Dir + "/src/A.java:12: error: ';' expected":                                        "src/A.java:12",
		"e: file://" + b.Dir + "/src/A.kt:3:7 Unresolved reference: x":                       "src/A.kt:3:7",
		"e: src/A.kt: (3, 7): Unresolved reference: x":                                       "src/A.kt:3:7",
		"src/a.ts(3,7): error TS2304: Cannot find name 'x'.":                                 "src/a.ts:3:7",
		"src/a.ts:3:7 - error TS2304: Cannot find name 'x'.":                                 "src/a.ts:3:7",
		"A.cs(3,7): error CS0103: The name 'x' does not exist":                               "A.cs:3:7",
		"src/a.c:3:7: error: expected ';'":                                                   "src/a.c:3:7",
		"PHP Parse error:  syntax error, unexpected '}' in a.php on line 3":                  "a.php:3",
		"  File \"a.py\", line 3\n    def f(\n         ^\nSyntaxError: '(' was never closed": "a.py:3",
		"SyntaxError: src/a.js: Unexpected token (3:7)":                                      "src/a.js:3:7",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(b.Dir, "said"), []byte(line+"\n"), 0o600))
		res, _ := b.one(t, slice.Command{Name: "test", Reads: slice.ReadsJUnit, Reports: []string{"*.xml"}, Run: slice.Shell("cat said; exit 1")})
		require.Equal(t, machine.Failed, res.Outcome, line)
		require.Equal(t, "exit status 1: it does not build ("+place+")", res.Why)
	}
}

// No output, however broken, is too much for a reader, and what is read does
// not depend on how it is cut into chunks.
func TestReadersInAnyChunks(t *testing.T) {
	var files []string
	for _, name := range []string{"cargo-red", "cargo-loud", "cargo-build-json", "nextest", "libtest-json", "node-tap", "tap14"} {
		b, err := os.ReadFile("testdata/readers/" + name + ".txt")
		require.NoError(t, err)
		files = append(files, string(b))
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom(files).Draw(t, "file")
		from, to := rapid.IntRange(0, len(text)).Draw(t, "from"), rapid.IntRange(0, len(text)).Draw(t, "to")
		noise := rapid.SampledFrom([]string{"", "\n", "{", "}", "    ok {\n", "        not ok\n}\n", "\n---\n", "1..9\n", "\xff"}).Draw(t, "noise")
		text = text[:min(from, to)] + noise + text[max(from, to):]
		for _, fresh := range []func() reader{func() reader { return newTAP() }, func() reader { return newCargo() }} {
			want, got := fresh(), fresh()
			_, _ = want.Write([]byte(text))
			for rest := text; len(rest) > 0; {
				n := rapid.IntRange(1, len(rest)).Draw(t, "chunk")
				_, _ = got.Write([]byte(rest[:n]))
				rest = rest[n:]
			}
			r := got.finish()
			require.Equal(t, want.finish(), r)
			require.LessOrEqual(t, len(r.summary), summaryLimit)
		}
	})
}

func TestRetriesMakeFlakyNotGreen(t *testing.T) {
	b := newBench(t)
	shaky := `echo x >>../runs; n=$(wc -l <../runs); echo "run $n"; [ $n -ge %d ]`
	b.Dir = filepath.Join(b.Dir, "tree")
	require.NoError(t, os.MkdirAll(b.Dir, 0o700))
	runs := filepath.Join(b.Dir, "..", "runs")
	for _, c := range []struct {
		need, retries int
		outcome       machine.Outcome
		flaky         []string
		why           string
	}{
		{1, 2, machine.Done, nil, "exit status 0"},
		{2, 2, machine.Done, []string{"test"}, "exit status 0; flaky: red in 1 of 2 runs"},
		{3, 2, machine.Done, []string{"test"}, "exit status 0; flaky: red in 2 of 3 runs"},
		{4, 2, machine.Failed, nil, "exit status 1 (in the last of 3 runs)"},
		{2, 0, machine.Failed, nil, "exit status 1"},
	} {
		_ = os.Remove(runs)
		command := sh(fmt.Sprintf(shaky, c.need))
		command.Retries = c.retries
		res, log := b.one(t, command)
		require.Equal(t, c.outcome, res.Outcome)
		require.Equal(t, c.flaky, res.Flaky)
		require.Equal(t, c.why, res.Why)
		require.Equal(t, min(c.need, c.retries+1), strings.Count(log, "run "+"1")+strings.Count(log, "--- run "))
	}
	_, why := Decide([]slice.CheckResult{{Measured: slice.Measured{Name: "test", Outcome: machine.Done, Flaky: []string{"m.TestA"}}}}, nil)
	require.Equal(t, "1 of 1 checks are green; flaky: test (m.TestA)", why)
}

func TestTheTreeThatAChecksChangesIsNamed(t *testing.T) {
	b := newBench(t)
	seen := [][]string{{"old", "a.txt", "report.xml"}, {"old", "a.txt", "report.xml", "b.txt", "c.txt"}}
	b.Before = []string{"old"}
	b.Touched = func(context.Context) ([]string, error) {
		now := seen[0]
		seen = seen[1:]
		return now, nil
	}
	first := sh("true")
	first.Reads, first.Reports = slice.ReadsJUnit, []string{"*.xml"}
	second := sh("true")
	second.Name = "second"
	b.Commands = []slice.Command{first, second}
	rs, err := b.Measure(t.Context(), b.Request)
	require.NoError(t, err)
	require.Equal(t, []string{"a.txt"}, rs[0].Touched)
	require.Contains(t, rs[0].Why, "; it changed the tree that it measures: a.txt")
	require.Equal(t, []string{"b.txt", "c.txt"}, rs[1].Touched)
	require.Equal(t, "exit status 0; it changed the tree that it measures: b.txt and 1 more", rs[1].Why)
}
