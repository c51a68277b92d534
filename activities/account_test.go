package activities

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func text(lines ...string) []byte { return []byte(strings.Join(lines, "\n") + "\n") }

func TestLosses(t *testing.T) {
	abc := text("alpha", "beta", "gamma")
	for _, c := range []struct {
		name string
		r    resolution
		want []string
	}{
		{"both sides added, both kept", resolution{base: abc, ours: text("alpha", "o", "beta", "gamma"), theirs: text("alpha", "t", "beta", "gamma"),
			result: text("alpha", "t", "o", "beta", "gamma")}, nil},
		{"ours only", resolution{base: abc, ours: text("alpha", "o", "beta", "gamma"), theirs: text("alpha", "t", "beta", "gamma"),
			result: text("alpha", "o", "beta", "gamma")}, []string{`"t" is gone, which the base added`}},
		{"theirs only", resolution{base: abc, ours: text("alpha", "o", "beta", "gamma"), theirs: text("alpha", "t", "beta", "gamma"),
			result: text("alpha", "t", "beta", "gamma")}, []string{`"o" is gone, which the slice added`}},
		{"the base's own lines are back", resolution{base: abc, ours: text("alpha", "o", "gamma"), theirs: text("alpha", "t", "gamma"),
			result: abc}, []string{`"o" is gone, which the slice added`, `"t" is gone, which the base added`}},
		{"empty", resolution{base: text("k"), ours: text("k", "o"), theirs: text("k", "t")},
			[]string{`"k" is gone, which neither side had changed`, `"o" is gone, which the slice added`, `"t" is gone, which the base added`}},
		{"white space and line ends do not count", resolution{base: abc, ours: text("alpha", "if x { y }"), theirs: text("alpha", "t"),
			result: text("alpha\r", "\tif x  {y}", "t")}, nil},
		{"what both added counts once", resolution{base: abc, ours: text("alpha", "same", "o"), theirs: text("alpha", "same", "t"),
			result: text("alpha", "same", "o", "t")}, nil},
		{"punctuation is not missed", resolution{base: nil, ours: text("if o {", "}"), theirs: text("if t {", "}", "---"),
			result: text("if o {", "if t {")}, nil},
		{"a line that both changed, combined", resolution{base: text("f(a)"), ours: text("f(a, b)"), theirs: text("f(a, c)"),
			result: text("f(a, b, c)")}, nil},
		{"combined over several lines", resolution{base: text("f(a)"), ours: text("f(a, b)"), theirs: text("f(a, c)"),
			result: text("f(", "a,", "b,", "c,", ")")}, nil},
		{"combined, but for a word", resolution{base: text("f(a)"), ours: text("f(a, b)"), theirs: text("f(a, c)"),
			result: text("f(a, c, d)")}, []string{`"f(a, b)" is gone, which the slice added`}},
		{"combined lines apart are none", resolution{base: text("k", "f(a)"), ours: text("k", "f(a, b, d)"), theirs: text("k", "f(a, c)"),
			result: text("f(a, b)", "k", "g(c, d)")}, []string{`"f(a, b, d)" is gone, which the slice added`, `"f(a, c)" is gone, which the base added`}},
		{"a longer line of the other side is not a combination", resolution{base: text("f(a)"), ours: text("f(a, b)"), theirs: text("f(a, b, c)"),
			result: text("f(a, b, c)")}, []string{`"f(a, b)" is gone, which the slice added`}},
		{"one of two versions", resolution{base: text("v = 1"), ours: text("v = 2"), theirs: text("v = 3"),
			result: text("v = 3")}, []string{`"v = 2" is gone, which the slice added`}},
		{"a third version", resolution{base: text("v = 1"), ours: text("v = 2"), theirs: text("v = 3"),
			result: text("v = 4")}, []string{`"v = 2" is gone, which the slice added`, `"v = 3" is gone, which the base added`}},
		{"a comma at the end of what was the last", resolution{base: text("{"), ours: text(`{`, `"x": 1`), theirs: text(`{`, `"y": 2`),
			result: text(`{`, `"x": 1,`, `"y": 2`)}, nil},
		{"a removal beside a change", resolution{base: abc, ours: text("alpha", "beta2", "gamma"), theirs: text("alpha", "beta"),
			result: text("alpha", "beta2")}, nil},
		{"a removal beside a change, dropped", resolution{base: abc, ours: text("alpha", "beta2", "gamma"), theirs: text("alpha", "beta"),
			result: text("alpha", "beta2", "gamma")}, []string{`"gamma" is there again, which the base removed`}},
		{"ours removed, dropped", resolution{base: abc, ours: text("alpha", "beta"), theirs: text("alpha", "beta2", "gamma"),
			result: text("alpha", "beta2", "gamma")}, []string{`"gamma" is there again, which the slice removed`}},
		{"a changed block that the other removed stays", resolution{base: abc, ours: text("alpha", "beta2", "gamma"), theirs: nil,
			result: text("alpha", "beta2", "gamma")}, nil},
		{"a changed block that the other removed may not go", resolution{base: abc, ours: text("alpha", "beta2", "gamma"), theirs: nil,
			result: text("")}, []string{`"beta2" is gone, which the slice added`}},
		{"a changed file that the other deleted", resolution{base: abc, ours: text("alpha", "beta", "gamma", "delta"), theirsGone: true,
			result: text("alpha", "beta", "gamma", "delta")}, nil},
		{"a line moved", resolution{base: abc, ours: text("gamma", "alpha", "beta"), theirs: text("alpha", "t", "gamma"),
			result: text("gamma", "alpha", "t")}, nil},
		{"one more of what was there", resolution{base: text("x", "x"), ours: text("x", "x", "x"), theirs: text("x", "x", "t"),
			result: text("x", "x", "t")}, []string{`"x" is gone, which the slice added`}},
		{"bytes that are no text", resolution{base: nil, ours: []byte("\xff\xfea1\n"), theirs: []byte("t"), result: []byte("t\n\xff\xfea1")}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, l := range losses(c.r) {
				got = append(got, l.String())
			}
			require.Equal(t, c.want, got)
		})
	}
	require.Len(t, []rune(loss{line: strings.Repeat("x", 500), by: byBase}.String()), 82+len(" is gone, which the base added"))
}

func TestLeftMarkers(t *testing.T) {
	marked := text("<<<<<<< 1234", "o", "=======", "t", ">>>>>>> 5678")
	heading := text("Title", "=======")
	for _, c := range []struct {
		name                       string
		base, ours, theirs, result []byte
		want                       bool
	}{
		{"all", nil, text("o"), text("t"), marked, true},
		{"the middle one alone", nil, text("o"), text("t"), text("o", "=======", "t"), true},
		{"with CRLF", nil, text("o"), text("t"), text("o\r", ">>>>>>> 5678\r", "t\r"), true},
		{"of another style", nil, text("o"), text("t"), text("o", "||||||| 1234", "t"), true},
		{"none", nil, text("o"), text("t"), text("o", "t", "====== 6", "======== 8", " <<<<<<< x", "<<<<<<<x"), false},
		{"a heading of one side", nil, heading, text("t"), heading, false},
		{"headings of both sides", nil, heading, heading, append(heading, heading...), false},
		{"a heading and a marker", nil, heading, text("t"), append(heading, "=======\n"...), true},
		{"a heading that was there, and a marker", heading, heading, heading, append(heading, "=======\n"...), true},
		{"a document on merging", nil, marked, text("t"), append(marked, "t\n"...), false},
		{"a document on merging, with a real one", nil, marked, text("t"), append(marked, "<<<<<<< 9abc\n"...), true},
	} {
		require.Equal(t, c.want, leftMarkers(c.base, c.ours, c.theirs, c.result), c.name)
	}
}

// Two sides change a file of many lines at the same place, each with words of
// its own. Whoever keeps both loses nothing, in whatever order; whoever drops
// all that one side added is found out.
func TestLossesFindADroppedSide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.StringMatching(`[a-c ]{0,3}[(){};]{0,2}`)
		base := rapid.SliceOfN(line, 0, 8).Draw(t, "base")
		from := rapid.IntRange(0, len(base)).Draw(t, "from")
		to := rapid.IntRange(from, len(base)).Draw(t, "to")
		added := func(word string) []string {
			lines := rapid.SliceOfN(line, 1, 4).Draw(t, word)
			for i := range lines {
				lines[i] = fmt.Sprintf("%s%d %s", word, i, lines[i])
			}
			return lines
		}
		with := func(middle ...string) []byte {
			lines := append(append([]string(nil), base[:from]...), middle...)
			return text(append(lines, base[to:]...)...)
		}
		ours, theirs := added("ours"), added("theirs")
		r := resolution{base: text(base...), ours: with(ours...), theirs: with(theirs...)}

		r.result = with(rapid.Permutation(append(append([]string(nil), ours...), theirs...)).Draw(t, "kept")...)
		require.Empty(t, losses(r))

		for party, side := range map[party][]string{bySlice: theirs, byBase: ours} {
			r.result = with(side...)
			lost := losses(r)
			require.NotEmpty(t, lost)
			for _, l := range lost {
				require.Equal(t, party, l.by)
				require.False(t, l.back)
			}
		}
		r.result = r.base
		require.NotEmpty(t, losses(r))
	})
}
