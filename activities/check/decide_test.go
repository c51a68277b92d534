package check

import (
	"testing"

	"github.com/stretchr/testify/require"

	"interlock/machine"
	"interlock/slice"
)

func results(rs ...Result) []slice.CheckResult {
	out := make([]slice.CheckResult, len(rs))
	for i, r := range rs {
		out[i] = r.CheckResult
	}
	return out
}

func result(name string, outcome machine.Outcome, why string, failing ...string) slice.CheckResult {
	return slice.CheckResult{Measured: slice.Measured{Name: name, Outcome: outcome, Why: why, Failed: len(failing), Failing: failing}}
}

func TestDecide(t *testing.T) {
	green := result("lint", machine.Done, "exit status 0")
	red := result("test", machine.Failed, "exit status 1", "m/a.TestA", "m/b.TestB/sub")
	crude := result("test", machine.Failed, "exit status 1")
	gone := result("e2e", machine.Unmeasured, "timed out after 10m", "m/a.TestA")
	many := red
	many.Failed = 3
	for _, c := range []struct {
		name     string
		results  []slice.CheckResult
		expected []string
		outcome  machine.Outcome
		why      string
	}{
		{"none", nil, nil, machine.Unmeasured, "no check was run: name at least one under checks in interlock.yaml"},
		{"green", []slice.CheckResult{green}, nil, machine.Done, "1 of 1 checks are green"},
		{"red", []slice.CheckResult{green, red}, nil, machine.Failed, "red: test (exit status 1)"},
		{"unmeasured beats red", []slice.CheckResult{red, gone}, nil, machine.Unmeasured, "not measured: e2e (timed out after 10m); red: test (exit status 1)"},
		{"the check is expected", []slice.CheckResult{red, green}, []string{"test"}, machine.Done, "red as expected: test"},
		{"the check without tests is expected", []slice.CheckResult{crude}, []string{"test"}, machine.Done, "red as expected: test"},
		{"another check is expected", []slice.CheckResult{red}, []string{"lint", "tes", "test/"}, machine.Failed, "red: test (exit status 1)"},
		{"all tests are expected", []slice.CheckResult{red}, []string{"test/m/a.TestA", "test/m/b.TestB/sub"}, machine.Done, "red as expected: test"},
		{"a test includes its subtests", []slice.CheckResult{red}, []string{"test/m/a.TestA", "test/m/b.TestB"}, machine.Done, "red as expected: test"},
		{"without packages", []slice.CheckResult{red}, []string{"test/TestA", "test/TestB"}, machine.Done, "red as expected: test"},
		{"one is not expected", []slice.CheckResult{red}, []string{"test/m/a.TestA"}, machine.Failed, "red: test (exit status 1)"},
		{"no part of a name", []slice.CheckResult{red}, []string{"test/m/a.Test", "test/m/b.TestB", "test/m", "test/m/b"}, machine.Failed, "red: test (exit status 1)"},
		{"of another check", []slice.CheckResult{red}, []string{"unit/m/a.TestA", "unit/m/b.TestB"}, machine.Failed, "red: test (exit status 1)"},
		{"not all are named", []slice.CheckResult{many}, []string{"test/TestA", "test/TestB"}, machine.Failed, "red: test (exit status 1)"},
		{"no test to be expected", []slice.CheckResult{crude}, []string{"test/TestA"}, machine.Failed, "red: test (exit status 1)"},
		{"unmeasured is never expected", []slice.CheckResult{gone}, []string{"e2e", "e2e/TestA"}, machine.Unmeasured, "not measured: e2e (timed out after 10m)"},
		{"what has no outcome is not measured", []slice.CheckResult{result("x", "", "")}, nil, machine.Unmeasured, "not measured: x ()"},
	} {
		t.Run(c.name, func(t *testing.T) {
			outcome, why := Decide(c.results, c.expected)
			require.Equal(t, c.outcome, outcome)
			require.Equal(t, c.why, why)
		})
	}
}

func TestExpectedPackages(t *testing.T) {
	broken := result("test", machine.Failed, "exit status 1", "example.com/m/bad")
	outcome, _ := Decide([]slice.CheckResult{broken}, []string{"test/example.com/m/bad"})
	require.Equal(t, machine.Done, outcome)
	outcome, _ = Decide([]slice.CheckResult{broken}, []string{"test/example.com/m"})
	require.Equal(t, machine.Failed, outcome)
}

func TestReclassify(t *testing.T) {
	killed := func(name, why string) Result {
		return Result{CheckResult: result(name, machine.Unmeasured, why), Killed: true}
	}
	plain := func(name string, o machine.Outcome, why string) Result {
		return Result{CheckResult: result(name, o, why)}
	}
	candidate := []Result{
		plain("lint", machine.Failed, "exit status 1"),
		killed("test", "timed out after 10m"),
		killed("race", "killed by SIGKILL"),
		killed("red at the base", "timed out after 10m"),
		plain("tool", machine.Unmeasured, "could not start"),
		killed("lost", "killed by SIGKILL"),
	}
	require.Equal(t, []int{1, 2, 3, 5}, Killed(candidate))
	base := []Result{
		plain("test", machine.Done, "exit status 0"),
		killed("race", "killed by SIGKILL"),
		plain("red at the base", machine.Failed, "exit status 1"),
	}
	got := Reclassify(candidate, base)
	require.Equal(t, []slice.CheckResult{
		result("lint", machine.Failed, "exit status 1"),
		result("test", machine.Failed, "timed out after 10m; the base runs to its end, so the change did it"),
		result("race", machine.Unmeasured, "killed by SIGKILL; the base cannot be measured either: killed by SIGKILL"),
		result("red at the base", machine.Failed, "timed out after 10m; the base runs to its end, so the change did it"),
		result("tool", machine.Unmeasured, "could not start"),
		result("lost", machine.Unmeasured, "killed by SIGKILL; not measured again at the base"),
	}, got)
}
