package engine

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

const program = "package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Print(\"one\") }\n"

func testSource(t *testing.T) (source, cache string) {
	t.Helper()
	source = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(source, "go.mod"), []byte("module example.com/tiny\n\ngo 1.26\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(source, "main.go"), []byte(program), 0o600))
	return source, t.TempDir()
}

func TestBuildFromBuildsEachSourceOnce(t *testing.T) {
	source, cache := testSource(t)
	log := slog.New(slog.DiscardHandler)
	var paths [3]string
	var group sync.WaitGroup
	for i := range paths {
		group.Go(func() {
			path, err := buildFrom(t.Context(), source, cache, log)
			if err == nil {
				paths[i] = path
			}
		})
	}
	group.Wait()
	require.NotEmpty(t, paths[0])
	require.Equal(t, paths[0], paths[1])
	require.Equal(t, paths[0], paths[2])
	output, err := exec.Command(paths[0]).Output()
	require.NoError(t, err)
	require.Equal(t, "one", string(output))
	before, err := os.Stat(paths[0])
	require.NoError(t, err)

	require.NoError(t, os.WriteFile(filepath.Join(source, "main_test.go"), []byte("package main\n"), 0o600))
	again, err := buildFrom(t.Context(), source, cache, log)
	require.NoError(t, err)
	require.Equal(t, paths[0], again, "tests are no part of the program")
	after, err := os.Stat(again)
	require.NoError(t, err)
	require.True(t, os.SameFile(before, after))

	require.NoError(t, os.WriteFile(filepath.Join(source, "more.go"), []byte("package main\n"), 0o600))
	other, err := buildFrom(t.Context(), source, cache, log)
	require.NoError(t, err)
	require.NotEqual(t, paths[0], other)
}

func TestBuildFromShowsTheCompilersWords(t *testing.T) {
	source, cache := testSource(t)
	require.NoError(t, os.WriteFile(filepath.Join(source, "more.go"), []byte("package main\n\nvar x int = \"\"\n"), 0o600))
	_, err := buildFrom(t.Context(), source, cache, slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "more.go:3")
	require.ErrorContains(t, err, source)
	built, err := filepath.Glob(filepath.Join(cache, "*", "devserver"))
	require.NoError(t, err)
	require.Empty(t, built)
}

func TestBuildTakesANamedProgram(t *testing.T) {
	named := filepath.Join(t.TempDir(), "named")
	require.NoError(t, os.WriteFile(named, nil, 0o600))
	path, err := Build(t.Context(), Options{Binary: named})
	require.NoError(t, err)
	require.Equal(t, named, path)

	t.Setenv(binaryVariable, named)
	path, err = Build(t.Context(), Options{})
	require.NoError(t, err)
	require.Equal(t, named, path)

	t.Setenv(binaryVariable, named+"-missing")
	_, err = Build(t.Context(), Options{})
	require.ErrorContains(t, err, binaryVariable)
	require.ErrorContains(t, err, "named-missing")
}

func TestSourceFolder(t *testing.T) {
	folder, ok := sourceFolder()
	require.True(t, ok)
	require.FileExists(t, filepath.Join(folder, "main.go"))
}
