package machine

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGraph(t *testing.T) {
	for format, file := range map[string]string{"mermaid": "graph.mmd", "dot": "graph.dot", "table": "table.md"} {
		t.Run(format, func(t *testing.T) {
			got, err := Graph(format)
			require.NoError(t, err)
			for _, s := range steps {
				require.Contains(t, got, string(s))
			}
			golden(t, file, got)
		})
	}
	_, err := Graph("svg")
	require.EqualError(t, err, `"svg" is no format of the graph: expected mermaid, dot or table`)
}

func TestEndingsTable(t *testing.T) {
	got := EndingsTable()
	require.Equal(t, len(Ends())+2, strings.Count(got, "\n"))
	golden(t, "endings.md", got)
}
