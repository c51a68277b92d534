package check

import (
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"interlock/machine"
)

// read has the output of a program that ended with that status read.
func read(output string, code int) Result {
	res := Result{}
	res.Outcome, res.Why = machine.Done, "exit status 0"
	if code != 0 {
		res.Outcome, res.Why = machine.Failed, "exit status 1"
	}
	g := newGoTests()
	_, _ = g.Write([]byte(output))
	g.finish().judge(&res)
	return res
}

func TestGoOutput(t *testing.T) {
	for _, c := range []struct {
		file                    string
		code                    int
		outcome                 machine.Outcome
		killed                  bool
		passed, failed, skipped int
		failing                 []string
		why                     string
		summary                 []string
	}{
		{file: "green", outcome: machine.Done, passed: 1, skipped: 1, why: "exit status 0: 1 passed, 1 skipped"},
		{file: "mixed", outcome: machine.Done, passed: 1, skipped: 1, why: "exit status 0: 1 passed, 1 skipped",
			summary: []string{"warning without a line end", "go: downloading", "{broken"}},
		{file: "none", outcome: machine.Unmeasured, why: "exit status 0: ran no test (0 skipped)"},
		{file: "skip", outcome: machine.Unmeasured, skipped: 1, why: "exit status 0: ran no test (1 skipped)"},
		{file: "subtest", code: 1, outcome: machine.Failed, passed: 2, failed: 1, failing: []string{"example.com/m/ok.TestA/y"},
			why: "exit status 1: 1 failed, 2 passed", summary: []string{"--- example.com/m/ok.TestA/y", "a_test.go:3: bad y"}},
		{file: "subtest", code: 0, outcome: machine.Failed, passed: 2, failed: 1, failing: []string{"example.com/m/ok.TestA/y"},
			why: "exit status 0: 1 failed, 2 passed"},
		{file: "build", code: 1, outcome: machine.Failed, failed: 1, failing: []string{"example.com/m/bad"},
			why: "exit status 1: 1 failed, 0 passed, example.com/m/bad does not build (bad/a.go:1:22)", summary: []string{"undefined: undefinedThing"}},
		{file: "oldbuild", code: 1, outcome: machine.Failed, failed: 1, failing: []string{"example.com/m/bad"},
			why: "exit status 1: 1 failed, 0 passed, example.com/m/bad does not build (bad/a.go:1:22)", summary: []string{"undefined: undefinedThing"}},
		{file: "vet", code: 1, outcome: machine.Failed, failed: 1, failing: []string{"example.com/m/vv"},
			why: "exit status 1: 1 failed, 0 passed, example.com/m/vv does not build (vv/a_test.go:3:39)", summary: []string{"wrong type string"}},
		{file: "import", code: 1, outcome: machine.Failed, failed: 1, failing: []string{"example.com/m/imp"},
			why: "exit status 1: 1 failed, 0 passed, example.com/m/imp does not build (imp/a.go:2:8)", summary: []string{"cannot find module"}},
		{file: "panic", code: 1, outcome: machine.Failed, failed: 1, failing: []string{"example.com/m/panic.TestA/q"},
			why: "exit status 1: 1 failed, 0 passed, panic in example.com/m/panic.TestA", summary: []string{"panic: assignment to entry in nil map"}},
		{file: "crash", code: 1, outcome: machine.Failed, passed: 1, failed: 1, failing: []string{"example.com/m/crash.TestDead"},
			why: "exit status 1: 1 failed, 1 passed, panic in example.com/m/crash.TestDead", summary: []string{"panic: boom"}},
		{file: "exit", code: 1, outcome: machine.Failed, failed: 1, failing: []string{"example.com/m/exit.TestA"},
			why: "exit status 1: 1 failed, 0 passed, the process ended in example.com/m/exit.TestA", summary: []string{"hello"}},
		{file: "testmain", code: 1, outcome: machine.Failed, passed: 1, failed: 1, failing: []string{"example.com/m/tm"},
			why: "exit status 1: 1 failed, 1 passed", summary: []string{"leak found"}},
		{file: "timeout", code: 1, outcome: machine.Unmeasured, killed: true, passed: 1, failed: 1, failing: []string{"example.com/m/tmo.TestSlow/s"},
			why: "exit status 1: 1 failed, 1 passed, example.com/m/tmo timed out", summary: []string{"panic: test timed out after 1s"}},
		{file: "killed", code: 1, outcome: machine.Unmeasured, killed: true, passed: 1, failed: 1, failing: []string{"example.com/m/kill.TestKill"},
			why: "exit status 1: 1 failed, 1 passed, example.com/m/kill was killed"},
	} {
		t.Run(c.file, func(t *testing.T) {
			output, err := os.ReadFile("testdata/" + c.file + ".txt")
			require.NoError(t, err)
			res := read(string(output), c.code)
			require.Equal(t, c.outcome, res.Outcome)
			require.Equal(t, c.killed, res.Killed)
			require.Equal(t, c.why, res.Why)
			require.Equal(t, []int{c.passed, c.failed, c.skipped}, []int{res.Passed, res.Failed, res.Skipped})
			require.Equal(t, c.failing, res.Failing)
			for _, text := range c.summary {
				require.Contains(t, res.Summary, text)
			}
			require.NotContains(t, res.Summary, `"Action"`)
		})
	}
}

func TestGoOutputWithoutEvents(t *testing.T) {
	res := read("ok  \texample.com/m\t0.1s\n", 0)
	require.Equal(t, machine.Unmeasured, res.Outcome)
	require.Contains(t, res.Why, "is -json missing?")

	res = read("go: cannot find main module\n", 1)
	require.Equal(t, machine.Unmeasured, res.Outcome)
	require.True(t, res.Killed, "the base shows who is to blame")
	require.Contains(t, res.Why, "the runner ended before any test: no event of go test -json")
}

func TestAFailureBesidesATimeoutIsRed(t *testing.T) {
	slow, err := os.ReadFile("testdata/timeout.txt")
	require.NoError(t, err)
	red, err := os.ReadFile("testdata/subtest.txt")
	require.NoError(t, err)
	res := read(string(slow)+string(red), 1)
	require.Equal(t, machine.Failed, res.Outcome)
	require.False(t, res.Killed)
	require.Contains(t, res.Why, "example.com/m/tmo timed out")
}

func TestManyFailingTestsAreNotAllNamed(t *testing.T) {
	var b strings.Builder
	for i := range 120 {
		name := "Test" + strings.Repeat("x", i+1)
		b.WriteString(`{"Action":"fail","Package":"m","Test":"` + name + `"}` + "\n")
		b.WriteString(`{"Action":"output","Package":"m","Test":"` + name + `","Output":"` + strings.Repeat("o", 500) + `\n"}` + "\n")
	}
	b.WriteString(`{"Action":"fail","Package":"m"}`)
	res := read(b.String(), 1)
	require.Equal(t, 120, res.Failed)
	require.Len(t, res.Failing, maxFailing)
	require.LessOrEqual(t, len(res.Summary), summaryLimit)
	outcome, _ := Decide(results(res), []string{"/m.Testx"})
	require.Equal(t, machine.Failed, outcome)
}

// What is read does not depend on how the output is cut into chunks, and no
// output, however broken, is too much for the reader.
func TestGoOutputInAnyChunks(t *testing.T) {
	var files []string
	for _, name := range []string{"subtest", "panic", "build", "mixed", "timeout"} {
		b, err := os.ReadFile("testdata/" + name + ".txt")
		require.NoError(t, err)
		files = append(files, string(b))
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom(files).Draw(t, "file")
		from, to := rapid.IntRange(0, len(text)).Draw(t, "from"), rapid.IntRange(0, len(text)).Draw(t, "to")
		text = text[:min(from, to)] + rapid.SampledFrom([]string{"", "\n", "{", `{"`, "\xff"}).Draw(t, "noise") + text[max(from, to):]
		want := newGoTests()
		_, _ = want.Write([]byte(text))
		got := newGoTests()
		for rest := text; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "chunk")
			_, _ = got.Write([]byte(rest[:n]))
			rest = rest[n:]
		}
		r := got.finish()
		require.Equal(t, want.finish(), r)
		require.True(t, utf8.ValidString(r.summary))
		require.LessOrEqual(t, len(r.summary), summaryLimit)
	})
}

func TestAnEndlessLineIsBounded(t *testing.T) {
	g := newGoTests()
	for range 100 {
		_, _ = g.Write([]byte(strings.Repeat("x", 100_000)))
		require.LessOrEqual(t, len(g.line), maxLine)
	}
	require.LessOrEqual(t, len(g.finish().summary), summaryLimit)
}
