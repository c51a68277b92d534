package check

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

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
	})
}
