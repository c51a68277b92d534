package agent

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"

	"interlock/slice"
)

var update = flag.Bool("update", false, "write the golden files anew")

// known are the programs of which there are captures.
var known = []slice.Adapter{slice.AdapterClaude, slice.AdapterCodex, slice.AdapterGemini, slice.AdapterOpencode}

// captures are what real programs printed against a model server on loopback,
// by case.
func captures(t testing.TB, use slice.Adapter) map[string]Printed {
	t.Helper()
	a, err := txtar.ParseFile(filepath.Join("testdata", "captures", string(use)+".txtar"))
	require.NoError(t, err)
	cases := map[string]Printed{}
	for _, f := range a.Files {
		name, what, _ := strings.Cut(f.Name, "/")
		p := cases[name]
		switch what {
		case "out":
			p.Stdout = f.Data
		case "err":
			p.Stderr = f.Data
		case "rc":
			p.ExitCode, err = strconv.Atoi(strings.TrimSpace(string(f.Data)))
			require.NoError(t, err, f.Name)
		}
		cases[name] = p
	}
	require.NotEmpty(t, cases)
	return cases
}

// told is one line of a golden file.
func told(e Ending) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s", e.Class)
	if e.CostKnown {
		fmt.Fprintf(&b, " cost=%d", e.CostMicroUSD)
	}
	if e.Tokens != (Tokens{}) {
		fmt.Fprintf(&b, " tokens=%d/%d/%d", e.Tokens.Input, e.Tokens.Cached, e.Tokens.Output)
	}
	if e.Session != "" {
		fmt.Fprintf(&b, " session=%s", e.Session)
	}
	if e.Model != "" {
		fmt.Fprintf(&b, " model=%s", e.Model)
	}
	if !e.ResetAt.IsZero() {
		fmt.Fprintf(&b, " reset=%s", e.ResetAt.Format(time.RFC3339))
	}
	if e.Wait != 0 {
		fmt.Fprintf(&b, " wait=%s", e.Wait)
	}
	if e.SessionLost {
		b.WriteString(" lost")
	}
	if e.Reason != "" {
		fmt.Fprintf(&b, "\n    %s", e.Reason)
	}
	if e.Class == Answered {
		fmt.Fprintf(&b, "\n    = %.100q %.100s", e.Text, e.Answer)
	}
	return b.String()
}

func TestCaptures(t *testing.T) {
	for _, use := range known {
		t.Run(string(use), func(t *testing.T) {
			cases := captures(t, use)
			var b strings.Builder
			for _, name := range slices.Sorted(maps.Keys(cases)) {
				e, err := Explain(use, cases[name])
				require.NoError(t, err)
				_, _, ok := e.Class.Ends()
				require.True(t, ok, name)
				require.Equal(t, e.Class == Answered, e.Reason == "", name)
				fmt.Fprintf(&b, "%s (%d): %s\n", name, cases[name].ExitCode, told(e))
			}
			golden := filepath.Join("testdata", "captures", string(use)+".golden")
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(b.String()), 0o600))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err, "go test -update writes it")
			require.Equal(t, string(want), b.String())
		})
	}
}
