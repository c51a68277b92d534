package check

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestClean(t *testing.T) {
	for _, c := range []struct{ in, out string }{
		{"plain\ttext\n", "plain\ttext\n"},
		{"\x1b[1;31mred\x1b[0m\n", "red\n"},
		{"\x1b]0;title\x07x \x1b]8;;http://e\x1b\\link", "x link"},
		{"\x1b(Bx\x1bMy", "xy"},
		{"10%\r50%\r100%\r\ndone\r\n", "100%\ndone\n"},
		{"a\xffb\x00c\x07", "a\uFFFDbc"},
		{"\u009b31mx", "31mx"},
		{"half \x1b[", "half "},
	} {
		require.Equal(t, c.out, clean(c.in), "%q", c.in)
	}
}

func TestSummaryKeepsBeginningAndEnd(t *testing.T) {
	require.Equal(t, "short\n", summary([]byte("short\n")))
	long := "first line\n" + strings.Repeat("in the middle of it\n", 30_000) + "last line"
	s := summary([]byte(long))
	require.True(t, strings.HasPrefix(s, "first line\n"))
	require.True(t, strings.HasSuffix(s, "\nlast line"))
	require.Contains(t, s, "bytes left out ...]\n")
}

func TestSummaryIsShortValidText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "bytes")
		word := rapid.StringMatching(`[aé€\n𝄞]{0,9}`).Draw(t, "word")
		n := rapid.IntRange(0, 9000).Draw(t, "n")
		s := summary([]byte(string(part) + strings.Repeat(word, n) + string(part)))
		require.LessOrEqual(t, len(s), summaryLimit)
		require.True(t, utf8.ValidString(s))
		require.NotContains(t, s, "\x1b")
		short := shorten(s, 80)
		require.LessOrEqual(t, len(short), 80)
		require.NotContains(t, short, "\n")
		require.True(t, utf8.ValidString(short))
	})
}
