package agent

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"interlock/machine"
	"interlock/slice"
)

func TestStrike(t *testing.T) {
	now := Files{
		"a.go":  []byte("package a\n\nfunc Add(a, b int) int {\n\treturn a - b\n}\n\nfunc Sub(a, b int) int {\n\treturn a - b\n}\n"),
		"empty": {}, "crlf": []byte("one\r\ntwo\r\n"),
	}
	before := Files{"a.go": []byte("package a\n"), "gone_test.go": []byte("func TestGone(t *testing.T) {\n")}
	for _, c := range []struct {
		name     string
		file     string
		line     int
		quote    string
		struck   string // empty: it stands
		setsLine int
	}{
		{"no file named", "", 0, "anything", "", 0},
		{"no such file", "b.go", 1, "", `there is no file "b.go"`, 1},
		{"line is there", "a.go", 9, "", "", 9},
		{"line is not there", "a.go", 10, "", `no line 10 in "a.go", which has 9`, 10},
		{"line is not there, quote is", "a.go", 99, "package a", "no line 99", 99},
		{"whole file", "a.go", 0, "", "", 0},
		{"empty file", "empty", 1, "", `no line 1 in "empty", which has 0`, 1},
		{"quote", "a.go", 4, "return a - b", "", 4},
		{"quote elsewhere", "a.go", 9, "\treturn a - b", "", 8},
		{"quote without a line", "a.go", 0, "return a - b", "", 4},
		{"quote is not there", "a.go", 4, "return a + b", `what it quotes is not in "a.go"`, 4},
		{"several lines", "a.go", 3, "func Add(a, b int) int {\n    return a - b\n}", "", 3},
		{"several lines that are not together", "a.go", 3, "func Add(a, b int) int {\n}", "not in", 3},
		{"begins and ends within lines", "a.go", 7, "b int) int {\n\treturn a", "", 7},
		{"as in a diff", "a.go", 4, "+\treturn a - b", "", 4},
		{"lines end as on Windows", "crlf", 1, "one\ntwo", "", 1},
		{"blank quote", "a.go", 1, " \n", "", 1},
		{"what was removed", "gone_test.go", 1, "func TestGone", "", 1},
		{"what was never there", "gone_test.go", 1, "func TestOther", "not in", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := []slice.Finding{{Severity: slice.Blocking, File: c.file, Line: c.line, Evidence: c.quote, Claim: "c"}}
			Strike(all, now, before)
			if c.struck == "" {
				require.Empty(t, all[0].Struck)
			} else {
				require.Contains(t, all[0].Struck, c.struck)
			}
			require.Equal(t, c.setsLine, all[0].Line)
		})
	}
}

// A quote of lines that a file has is always found where it is, and one of a
// line that it lacks never.
func TestQuotesAreFound(t *testing.T) {
	line := rapid.StringMatching(`[a-z]{1,3}( [a-z]{1,3})?`)
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(line, 1, 12).Draw(t, "lines")
		from := rapid.IntRange(0, len(lines)-1).Draw(t, "from")
		to := rapid.IntRange(from, len(lines)-1).Draw(t, "to")
		content := []byte(strings.Join(lines, "\n") + "\n")
		require.Contains(t, places(content, strings.Join(lines[from:to+1], "\n\t")), from+1)
		require.Empty(t, places(content, strings.Join(lines[from:to+1], "\n")+"\nNO"))
	})
}

func TestFindingPath(t *testing.T) {
	for name, want := range map[string]string{
		"a.go": "a.go", "./a/b": "a/b", "/view/tree/a/b": "a/b", "a//b": "a/b",
		"../a": "", "/etc/passwd": "", ".": "", "/view/tree": "", "a\nb": "", "a/../../b": "",
	} {
		got, ok := FindingPath("/view/tree", name)
		require.Equal(t, want != "", ok, name)
		if ok {
			require.Equal(t, want, got)
		}
	}
}

func numbered(n int, change map[int]string) []byte {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		if text, ok := change[i]; ok {
			b.WriteString(text)
			continue
		}
		fmt.Fprintf(&b, "line %d\n", i)
	}
	return []byte(b.String())
}

func TestLate(t *testing.T) {
	before := Files{"f": numbered(40, nil), "same": []byte("x\ny\n"), "gone": []byte("x\n")}
	// Line 20 changed, and two lines came in after line 30.
	now := Files{"f": numbered(40, map[int]string{20: "changed\n", 30: "line 30\nnew\nnewer\n"}), "same": []byte("x\ny\n"), "new": []byte("x\n")}
	for _, c := range []struct {
		name string
		f    slice.Finding
		late bool
	}{
		{"far from a change", slice.Finding{File: "f", Line: 5}, true},
		{"the change", slice.Finding{File: "f", Line: 20}, false},
		{"near the change", slice.Finding{File: "f", Line: 22}, false},
		{"a quote that reaches it", slice.Finding{File: "f", Line: 14, Evidence: "line 14\nline 15\nline 16\nline 17"}, false},
		{"moved, but the same", slice.Finding{File: "f", Line: 42}, true},
		{"came in", slice.Finding{File: "f", Line: 31}, false},
		{"a changed file as a whole", slice.Finding{File: "f"}, false},
		{"an unchanged file as a whole", slice.Finding{File: "same"}, true},
		{"an unchanged file", slice.Finding{File: "same", Line: 1}, true},
		{"a new file", slice.Finding{File: "new", Line: 1}, false},
		{"a removed file", slice.Finding{File: "gone", Line: 1}, false},
		{"no file", slice.Finding{}, false},
		{"raised before", slice.Finding{File: "f", Line: 11}, false},
		{"raised before, since moved", slice.Finding{File: "f", Line: 37}, false},
		{"raised before in the same words", slice.Finding{File: "same", Line: 2, Claim: "no  Test"}, false},
		{"near what was struck before", slice.Finding{File: "f", Line: 1}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			known := []slice.Finding{
				{Severity: slice.Blocking, File: "f", Line: 10, Claim: "k"}, {Severity: slice.Correction, File: "f", Line: 35, Claim: "l"},
				{Severity: slice.Blocking, Claim: "No test"}, {Severity: slice.Blocking, File: "f", Line: 1, Claim: "r", Struck: "refuted"},
				{Severity: slice.Note, File: "f", Line: 5, Claim: "n"},
			}
			f := c.f
			f.Severity = slice.Blocking
			if f.Claim == "" {
				f.Claim = "c"
			}
			all := []slice.Finding{f, {Severity: slice.Correction, File: "same", Line: 1}}
			n := Late(all, known, now, before)
			require.Equal(t, c.late, n == 1)
			require.Equal(t, c.late, all[0].Severity == slice.Note)
			require.Equal(t, c.late, all[0].Remark != "")
			require.Equal(t, slice.Correction, all[1].Severity)
		})
	}
}

// A line is only matched with an equal one, in order, and what was not touched
// is matched.
func TestMatched(t *testing.T) {
	line := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "", "}"})
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.SliceOfN(line, 0, 12).Draw(t, "a")
		b := rapid.SliceOfN(line, 0, 12).Draw(t, "b")
		old := matched([]byte(strings.Join(a, "\n")), []byte(strings.Join(b, "\n")))
		last := 0
		for i, o := range old {
			if o == 0 {
				continue
			}
			require.Greater(t, o, last)
			last = o
			require.Equal(t, strings.Split(strings.Join(a, "\n"), "\n")[o-1], strings.Split(strings.Join(b, "\n"), "\n")[i])
		}
		same := matched([]byte(strings.Join(a, "\n")), []byte(strings.Join(a, "\n")))
		for i, o := range same {
			require.Equal(t, i+1, o)
		}
	})
}

func TestStruckFindingsDoNotCount(t *testing.T) {
	rubric := []slice.Rubric{{Criterion: "c"}}
	struck := slice.Finding{Severity: slice.Blocking, Claim: "x", File: "f", Struck: "there is no file"}
	v := Weigh("j", rubric, JudgeAnswer{Scores: scores("c", 5), Findings: []slice.Finding{struck}})
	require.Equal(t, machine.Done, v.Outcome)
	require.Equal(t, "j: mean 5.000, 0 blocking, 0 corrections, 1 struck (there is no file)", v.Why)
	require.Len(t, v.Findings, 1, "it stays to be seen")

	v = Weigh("j", rubric, JudgeAnswer{Scores: scores("c", 2), Findings: []slice.Finding{struck}})
	require.Equal(t, machine.Discarded, v.Outcome)
	require.Contains(t, v.Why, "without a finding that stands")
	require.Contains(t, v.Why, "there is no file")

	v = Weigh("j", rubric, JudgeAnswer{Scores: scores("c", 2), Findings: []slice.Finding{finding(slice.Note), struck}})
	require.Equal(t, machine.Failed, v.Outcome)
	require.Equal(t, slice.Note, v.Findings[0].Severity, "what is struck comes last")
	v.Findings[0].Struck = "refuted"
	require.Equal(t, machine.Discarded, v.Again().Outcome)
}

func TestSkepticAnswerCounted(t *testing.T) {
	files := Files{"f": []byte("a\nb := 1\nc\n")}
	for _, c := range []struct {
		in   SkepticAnswer
		want Opinion
		why  string
	}{
		{SkepticAnswer{Verdict: Refuted, File: "f", Line: 2, Quote: "b := 1", Reason: "it is set"}, Refuted, "it is set (f:2)"},
		{SkepticAnswer{Verdict: Refuted, File: "f", Line: 2, Quote: "b := 1\nc", Reason: "r"}, Refuted, ""},
		{SkepticAnswer{Verdict: Refuted, File: "f", Line: 1, Quote: "b := 1", Reason: "r"}, Uncertain, "not at f:1"},
		{SkepticAnswer{Verdict: Refuted, File: "f", Line: 2, Quote: "b := 2", Reason: "r"}, Uncertain, "not at f:2"},
		{SkepticAnswer{Verdict: Refuted, File: "f", Line: 9, Quote: "b := 1", Reason: "r"}, Uncertain, "not at"},
		{SkepticAnswer{Verdict: Refuted, File: "g", Line: 2, Quote: "b := 1", Reason: "r"}, Uncertain, "not there"},
		{SkepticAnswer{Verdict: Refuted, Reason: "trust me"}, Uncertain, "without a quote"},
		{SkepticAnswer{Verdict: Refuted, File: "f", Line: 2, Quote: " := ", Reason: "r"}, Uncertain, "without a quote"},
		{SkepticAnswer{Verdict: Stands, Reason: "so"}, Stands, "so"},
		{SkepticAnswer{Verdict: Uncertain, Reason: "hm"}, Uncertain, "hm"},
	} {
		got, why := c.in.Counted(files)
		require.Equal(t, c.want, got, "%+v", c.in)
		require.Contains(t, why, c.why)
	}
}

func TestMajority(t *testing.T) {
	const r, s, u = Refuted, Stands, Uncertain
	for _, c := range []struct {
		in               []Opinion
		count            int
		refuted, decided bool
	}{
		{nil, 3, false, false},
		{[]Opinion{r}, 3, false, false},
		{[]Opinion{r, r}, 3, true, true},
		{[]Opinion{s, u}, 3, false, true},
		{[]Opinion{r, s}, 3, false, false},
		{[]Opinion{r, s, r}, 3, true, true},
		{[]Opinion{r, s, u}, 3, false, true},
		{[]Opinion{r, s}, 2, false, true}, // a tie
		{[]Opinion{s}, 2, false, true},
		{[]Opinion{r}, 1, true, true},
		{[]Opinion{u}, 1, false, true},
		{[]Opinion{r, r, s}, 4, false, false},
		{[]Opinion{r, r, s, s}, 4, false, true},
	} {
		refuted, decided := Majority(c.in, c.count)
		require.Equal(t, []bool{c.refuted, c.decided}, []bool{refuted, decided}, "%v of %d", c.in, c.count)
	}
}

// What has a blind role's brief to do with is a closed list of types, and none
// of them is where an implementer's words are kept.
func TestBlindRolesAreBlindByType(t *testing.T) {
	allowed := []reflect.Type{
		reflect.TypeFor[Head](), reflect.TypeFor[slice.Task](), reflect.TypeFor[slice.Rubric](), reflect.TypeFor[slice.Measured](),
		reflect.TypeFor[slice.Finding](), reflect.TypeFor[Dispute](), reflect.TypeFor[slice.GuardFinding](),
	}
	// Texts of a brief itself, and who they are by.
	texts := map[string]string{
		"Base": "program", "Good": "program", "Candidate": "program", "Commit": "program",
		"Diff": "the files", "Lens": "policy", "Attempt": "program",
	}
	var look func(owner, at reflect.Type, name string)
	look = func(owner, at reflect.Type, name string) {
		switch at.Kind() {
		case reflect.Slice, reflect.Pointer:
			look(owner, at.Elem(), name)
		case reflect.Struct:
			require.Contains(t, allowed, at, "%s.%s", owner, name)
		case reflect.String, reflect.Int:
			require.Contains(t, texts, name, "%s.%s may carry anybody's words", owner, name)
		default:
			t.Errorf("%s.%s is a %s", owner, name, at)
		}
	}
	for _, brief := range []Brief{JudgeBrief{}, JudgeSliceBrief{}, SkepticBrief{}, AdviseBrief{}} {
		require.True(t, brief.Role().ReadOnly())
		owner := reflect.TypeOf(brief)
		for i := range owner.NumField() {
			look(owner, owner.Field(i).Type, owner.Field(i).Name)
		}
	}
	// And these have no field for what an implementer says.
	for _, at := range append(allowed, reflect.TypeFor[slice.JudgeIn](), reflect.TypeFor[slice.JudgeSliceIn](), reflect.TypeFor[slice.AdviseIn]()) {
		for i := range at.NumField() {
			name := strings.ToLower(at.Field(i).Name)
			for _, word := range []string{"summary", "session", "stdout", "stderr", "transcript", "message", "log"} {
				require.NotContains(t, name, word, "%s", at)
			}
			require.False(t, slices.Contains([]reflect.Type{reflect.TypeFor[slice.CheckResult](), reflect.TypeFor[ImplementAnswer](), reflect.TypeFor[slice.Feedback]()},
				at.Field(i).Type), "%s.%s", at, at.Field(i).Name)
		}
	}
}
