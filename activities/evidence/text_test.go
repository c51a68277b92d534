package evidence

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestText(t *testing.T) {
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
		require.Equal(t, c.out, Text(c.in), "%q", c.in)
	}
}

func TestLineAndCutAreShortValidText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Text(strings.Repeat(rapid.StringMatching(`[aé€\n𝄞]{0,9}`).Draw(t, "word"), rapid.IntRange(0, 200).Draw(t, "n")))
		line := Line(s, 80)
		require.LessOrEqual(t, len(line), 80)
		require.NotContains(t, line, "\n")
		require.True(t, utf8.ValidString(line))
		cut := Cut(s, 200, 50)
		require.LessOrEqual(t, len(cut), 200)
		require.True(t, utf8.ValidString(cut))
		if len(s) <= 200 {
			require.Equal(t, s, cut)
		}
	})
}
