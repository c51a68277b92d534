package process

import (
	"bytes"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestCaptureKeepsHeadAndTail(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		chunks := rapid.SliceOf(rapid.SliceOfN(rapid.Byte(), 0, 40)).Draw(t, "chunks")
		limit := rapid.Int64Range(1, 64).Draw(t, "limit")
		all := bytes.Join(chunks, nil)

		var seen []byte
		c := newCapture(limit, func(p []byte) { seen = append(seen, p...) })
		for _, p := range chunks {
			c.readAll(bytes.NewReader(p))
		}
		o := c.output()

		require.Equal(t, int64(len(all)), o.Size)
		require.True(t, bytes.Equal(all, seen), "the watcher sees everything")
		require.True(t, bytes.HasPrefix(all, o.Head))
		require.True(t, bytes.HasSuffix(all, o.Tail))
		require.Equal(t, min(int64(len(all)), limit), int64(len(o.Head)+len(o.Tail)))
		if int64(len(all)) <= limit {
			require.Zero(t, o.LeftOut())
			require.True(t, bytes.Equal(all, o.Bytes()))
		}
	})
}

func TestOutputSaysWhatWasLeftOut(t *testing.T) {
	c := newCapture(10, nil)
	c.readAll(iotest.OneByteReader(strings.NewReader("0123456789abcdefghij")))
	require.Equal(t, "01234\n[... 10 bytes left out ...]\nfghij", c.output().String())
}
