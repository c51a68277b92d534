package evidence

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMeterTellsBeginningAndEnd(t *testing.T) {
	var lines []string
	m := NewMeter("check test", func(s string) { lines = append(lines, s) })
	m.Add(3000)
	m.Add(999)
	m.Stop()
	require.Equal(t, "check test: 0 s, 0 B of output", lines[0])
	require.Contains(t, lines[len(lines)-1], "3 kB of output")

	NewMeter("silent", nil).Stop()
}

func TestMeterLine(t *testing.T) {
	m := &Meter{label: "judge"}
	m.Add(2_340_000)
	require.Equal(t, "judge: 12 s, 2.3 MB of output", m.line(12*time.Second))
	require.Equal(t, "judge: 2m5s, 2.3 MB of output", m.line(125*time.Second+time.Millisecond))
}
