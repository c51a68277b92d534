package check

import (
	"fmt"
	"slices"
	"strings"

	"interlock/machine"
	"interlock/slice"
)

// Killed returns the places in commands of those whose result was killed:
// they are measured again at the base.
func Killed(results []Result) []int {
	var places []int
	for i, r := range results {
		if r.Killed {
			places = append(places, i)
		}
	}
	return places
}

// Reclassify says whether the environment or the candidate is to blame for the
// checks that were killed at the candidate. base holds the results of those
// checks, measured again at the base, told apart by name: where the base is
// fine the candidate did it, and the check is red; where it is not, or was not
// measured, the check stays unmeasured.
func Reclassify(candidate, base []Result) []slice.CheckResult {
	out := make([]slice.CheckResult, 0, len(candidate))
	for _, r := range candidate {
		c := r.CheckResult
		if r.Killed {
			i := slices.IndexFunc(base, func(b Result) bool { return b.Name == r.Name })
			switch {
			case i < 0:
				c.Why += "; not measured again at the base"
			case base[i].Outcome == machine.Unmeasured:
				c.Why += "; the base cannot be measured either: " + base[i].Why
			default:
				c.Outcome = machine.Failed
				c.Why += "; the base runs to its end, so the change did it"
			}
		}
		out = append(out, c)
	}
	return out
}

// Decide returns how a step ends whose checks found that: unmeasured if any of
// them is or if there are none, failed if one is red that is not expected to
// be, else done. An entry of expected is the name of a check, or check/test,
// where test is a name as Measured.Failing has it, with or without the
// package; a test includes its subtests. A check whose failing tests are all
// expected counts as done; that its tests are too many to be named is not
// expected, and neither is what the guard finds or that a check lost tests. why is one line for a person.
func Decide(results []slice.CheckResult, expected []string) (outcome machine.Outcome, why string) {
	if len(results) == 0 {
		return machine.Unmeasured, "no check was run: name at least one under checks in " + slice.PolicyFile
	}
	var unmeasured, red, excused, flaky []string
	for _, r := range results {
		line := fmt.Sprintf("%s (%s)", r.Name, r.Why)
		if len(r.Flaky) > 0 {
			flaky = append(flaky, fmt.Sprintf("%s (%s)", r.Name, r.Flaky[0]))
		}
		switch {
		case r.Outcome == machine.Done:
		case r.Outcome != machine.Failed:
			unmeasured = append(unmeasured, line)
		case isExpected(r, expected):
			excused = append(excused, r.Name)
		default:
			red = append(red, line)
		}
	}
	var parts []string
	for _, p := range []struct {
		label string
		lines []string
	}{{"not measured: ", unmeasured}, {"red: ", red}, {"red as expected: ", excused}, {"flaky: ", flaky}} {
		if len(p.lines) > 0 {
			parts = append(parts, p.label+strings.Join(p.lines, ", "))
		}
	}
	switch {
	case len(unmeasured) > 0:
		outcome = machine.Unmeasured
	case len(red) > 0:
		outcome = machine.Failed
	default:
		outcome = machine.Done
		if len(excused) == 0 {
			parts = append([]string{fmt.Sprintf("%d of %d checks are green", len(results), len(results))}, parts...)
		}
	}
	return outcome, strings.Join(parts, "; ")
}

func isExpected(r slice.CheckResult, expected []string) bool {
	if len(r.Lost) > 0 || r.Name == slice.GuardCheck {
		return false // to be red is no leave to take tests away
	}
	if slices.Contains(expected, r.Name) {
		return true
	}
	if len(r.Failing) == 0 || r.Failed > len(r.Failing) {
		return false
	}
	for _, failing := range r.Failing {
		if !slices.ContainsFunc(expected, func(e string) bool {
			test, ok := strings.CutPrefix(e, r.Name+"/")
			return ok && covers(test, failing)
		}) {
			return false
		}
	}
	return true
}

// covers reports whether an expected test is the failing one, or the test that
// the failing one is a subtest of.
func covers(expected, failing string) bool {
	if expected == failing {
		return true
	}
	pkg, test := splitName(failing)
	if test == "" {
		return false
	}
	for _, whole := range []string{test, pkg + "." + test} {
		if expected == whole {
			return true
		}
		_, e := splitName(expected)
		if e != "" && strings.HasPrefix(whole, expected+"/") {
			return true
		}
	}
	return false
}

// splitName splits package.Test/Sub; test is empty if name is a package.
func splitName(name string) (pkg, test string) {
	kinds := []string{"Test", "Example", "Fuzz", "Benchmark"}
	for _, kind := range kinds {
		if strings.HasPrefix(name, kind) {
			return "", name
		}
	}
	at := -1
	for _, kind := range kinds {
		if i := strings.Index(name, "."+kind); i >= 0 && (at < 0 || i < at) {
			at = i
		}
	}
	if at < 0 {
		return name, ""
	}
	return name[:at], name[at+1:]
}
