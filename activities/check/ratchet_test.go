package check

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"interlock/machine"
	"interlock/slice"
)

// list makes a list of words: a test that passed, -skipped or !failed.
func list(words ...string) Tests {
	var s testSet
	for _, w := range words {
		switch w[0] {
		case '-':
			s.add(w[1:], Skipped)
		case '!':
			s.add(w[1:], Failing)
		default:
			s.add(w, Passed)
		}
	}
	return s.list()
}

func TestLosses(t *testing.T) {
	for _, c := range []struct {
		name      string
		base, now Tests
		allowed   []string
		moves     []Move
		want      []string
	}{
		{name: "the same", base: list("a.TestA", "-a.TestB"), now: list("a.TestA", "-a.TestB", "a.TestC")},
		{name: "vanished", base: list("CalculatorTest.add", "CalculatorTest.divideByZero"), now: list("CalculatorTest.add"),
			want: []string{"CalculatorTest.divideByZero no longer runs"}},
		{name: "skipped", base: list("a.TestA"), now: list("-a.TestA"), want: []string{"a.TestA is skipped now"}},
		{name: "skipped already", base: list("-a.TestA", "!a.TestB"), now: list()},
		{name: "it fails, so it runs", base: list("a.TestA"), now: list("!a.TestA")},
		{name: "fewer of one name", base: list("x", "x", "x"), now: list("x"), want: []string{"x runs 1 times instead of 3"}},
		{name: "moved to another package", base: list("m/a.TestA", "m/a.TestA/x"), now: list("m/b.TestA", "m/b.TestA/x")},
		{name: "moved to another class", base: list("org.A.adds()"), now: list("org.b.B.adds()")},
		{name: "moved, skipped", base: list("m/a.TestA"), now: list("-m/b.TestA"), want: []string{"m/a.TestA no longer runs"}},
		{name: "two become one", base: list("m/a.TestA", "m/b.TestA"), now: list("m/c.TestA"), want: []string{"m/b.TestA no longer runs"}},
		{name: "a test that was there is no move", base: list("m/a.TestA", "m/b.TestA"), now: list("m/b.TestA"), want: []string{"m/a.TestA no longer runs"}},
		{name: "another row", base: list("m.TestA", "m.TestA/x", "m.TestA/y"), now: list("m.TestA", "m.TestA/x", "m.TestA/z")},
		{name: "fewer rows", base: list("t.test_a[1]", "t.test_a[2]"), now: list("t.test_a[1]"), want: []string{"t.test_a[2] no longer runs"}},
		{name: "renamed", base: list("m.TestA"), now: list("m.TestB"), moves: []Move{{"TestA", "TestB"}}},
		{name: "renamed, title", base: list("calc > adds two"), now: list("calc > sums two"), moves: []Move{{"adds two", "sums two"}}},
		{name: "renamed to what does not run", base: list("m.TestA"), now: list("m.TestC"), moves: []Move{{"TestA", "TestB"}}, want: []string{"m.TestA no longer runs"}},
		{name: "renamed, nobody knows", base: list("m.TestA"), now: list("m.TestB"), want: []string{"m.TestA no longer runs"}},
		{name: "several become rows", base: list("m.TestA", "m.TestB"), now: list("m.TestAll", "m.TestAll/a", "m.TestAll/b"), moves: []Move{{"TestA", "TestAll"}, {"TestB", "TestAll"}}},
		{name: "allowed", base: list("m.TestOld", "m.TestOld/x", "m.TestNew"), now: list(), allowed: []string{"TestOl*"}, want: []string{"m.TestNew no longer runs"}},
		{name: "all are gone", base: list("a", "b"), now: Tests{}, want: []string{"a no longer runs", "b no longer runs"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, l := range Losses(c.base, c.now, c.allowed, c.moves) {
				got = append(got, l.Name+" "+l.Why)
			}
			require.Equal(t, c.want, got)
		})
	}
}

// A list loses nothing against itself; every test that is taken out of one is
// named, unless another test could stand for it.
func TestLossesNameWhatIsTaken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-c]\.[a-f]{1,3}(\[[12]\])?`), 1, 20, rapid.ID[string]).Draw(t, "names")
		base := list(names...)
		require.Empty(t, Losses(base, base, nil, nil))
		out := rapid.IntRange(0, len(names)-1).Draw(t, "out")
		now := list(append(append([]string(nil), names[:out]...), names[out+1:]...)...)
		require.Equal(t, []Loss{{names[out], "no longer runs"}}, Losses(base, now, nil, nil))
	})
}

func TestALossIsNeverExcused(t *testing.T) {
	r := result("test", machine.Done, "exit status 0: 1 passed")
	r.Summary = "1 passed"
	Lose(&r, []Loss{{"CalculatorTest.divideByZero", "no longer runs"}, {"CalculatorTest.x", "is skipped now"}})
	require.Equal(t, machine.Failed, r.Outcome)
	require.Equal(t, "exit status 0: 1 passed; `CalculatorTest.divideByZero` ran at the base and no longer runs, and 1 more", r.Why)
	require.True(t, strings.HasPrefix(r.Summary, "`CalculatorTest.divideByZero` ran at the base and no longer runs\n`CalculatorTest.x` ran at the base and is skipped now\n"))
	outcome, _ := Decide([]slice.CheckResult{r}, []string{"test"})
	require.Equal(t, machine.Failed, outcome)
	outcome, _ = Decide([]slice.CheckResult{result(slice.GuardCheck, machine.Failed, "tampered", "TestA")}, []string{"guard", "guard/TestA"})
	require.Equal(t, machine.Failed, outcome)
}

func TestNameMatches(t *testing.T) {
	for _, c := range []struct {
		glob, name string
		want       bool
	}{
		{"TestOld", "example.com/m.TestOld", true},
		{"TestOld", "example.com/m.TestOld/row", true},
		{"TestOld", "example.com/m.TestOlder", false},
		{"CalculatorTest.*", "CalculatorTest.adds()", true},
		{"*.CalculatorTest.*", "org.acme.CalculatorTest.adds()", true},
		{"adds *", "calc > adds two", true},
		{"t?st", "a.test", true},
		{"test", "a.test[1]", true},
		{"*zero", "divides by zero", true},
		{"*zero", "divides by zeroes", false},
	} {
		require.Equal(t, c.want, NameMatches(c.glob, c.name), "%s %s", c.glob, c.name)
	}
}
