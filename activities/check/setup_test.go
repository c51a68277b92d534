package check

import (
	"testing"

	"github.com/stretchr/testify/require"

	"interlock/slice"
)

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		glob, path string
		want       bool
	}{
		{"go.mod", "go.mod", true},
		{"go.mod", "sub/go.mod", false},
		{"**/go.mod", "go.mod", true},
		{"**/go.mod", "a/b/go.mod", true},
		{"*.lock", "a.lock", true},
		{"*.lock", "x/a.lock", false},
		{"web/**", "web/a/b", true},
		{"web/**", "web", false},
		{"web/", "web/a/b", true},
		{"web/**/*.json", "web/x.json", true},
		{"web/**/*.json", "web/a/b/x.json", true},
		{"web/**/*.json", "api/x.json", false},
		{"**", "a/b", true},
		{"a/**/b/**/c", "a/b/x/b/y/c", true},
		{"a/**/b/**/c", "a/x/c", false},
	} {
		got, err := matches(c.glob, c.path)
		require.NoError(t, err)
		require.Equal(t, c.want, got, "%s %s", c.glob, c.path)
	}
	_, err := matches("[", "a")
	require.Error(t, err)
}

func TestSetupKey(t *testing.T) {
	files := []File{{"package-lock.json", "1"}, {"src/a.ts", "2"}}
	npm := slice.Command{Name: "npm", Run: slice.Argv{"npm", "ci"}, Inputs: []string{"package-lock.json", "**/*.lock"}}
	tool := slice.Command{Run: slice.Argv{"make", "tools"}}
	key := func(base string, files []File, commands ...slice.Command) string {
		k, err := SetupKey(base, files, commands)
		require.NoError(t, err)
		return k
	}
	first := key("base", files, npm)
	require.Equal(t, first, key("base", []File{files[1], files[0]}, npm), "the order of the files does not matter")
	require.Equal(t, first, key("other", files, npm), "with inputs the base does not matter")
	require.Equal(t, first, key("base", []File{files[0], {"src/a.ts", "3"}}, npm), "nor what is no input")
	require.NotEqual(t, first, key("base", []File{{"package-lock.json", "9"}, files[1]}, npm))
	require.NotEqual(t, first, key("base", append(files, File{"x/yarn.lock", "4"}), npm), "an added input")
	require.NotEqual(t, first, key("base", files[1:], npm), "a removed input")
	require.NotEqual(t, first, key("base", files, tool, npm))

	require.NotEqual(t, key("base", files, tool), key("other", files, tool), "without inputs: once per base")
	require.Equal(t, key("base", files, tool), key("base", nil, tool))

	_, err := SetupKey("base", files, []slice.Command{{Name: "npm", Inputs: []string{"[a"}}})
	require.ErrorContains(t, err, `setup npm: input "[a"`)
}
