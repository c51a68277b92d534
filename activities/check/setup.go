package check

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"interlock/slice"
)

// File is a file of a tree: its slash-separated path and the id of its content.
type File struct {
	Path, ID string
}

// SetupKey names what a folder is set up for. Set-up commands run again, all
// of them in their order, when the key of the tree in the folder is another
// one: a command was changed, a file that the inputs of a command match was
// changed, added or removed, or, for a command without inputs, the base is
// another one.
//
// Inputs are globs from the root of the tree: * and ? stay within one folder,
// ** is any number of folders, a final slash means everything below.
func SetupKey(base string, files []File, commands []slice.Command) (string, error) {
	type line struct {
		Run    slice.Argv
		Inputs []string
		Base   string
		Files  []File
	}
	lines := make([]line, 0, len(commands))
	for i, c := range commands {
		l := line{Run: c.Run, Inputs: c.Inputs}
		if len(c.Inputs) == 0 {
			l.Base = base
		}
		for _, f := range files {
			for _, glob := range c.Inputs {
				ok, err := matches(glob, f.Path)
				if err != nil {
					return "", fmt.Errorf("setup %s: input %q: %w", Name(c, i), glob, err)
				}
				if ok {
					l.Files = append(l.Files, f)
					break
				}
			}
		}
		slices.SortFunc(l.Files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
		lines = append(lines, l)
	}
	b, err := json.Marshal(lines)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

func matches(glob, name string) (bool, error) {
	if strings.HasSuffix(glob, "/") {
		glob += "**"
	}
	if _, err := path.Match(glob, ""); err != nil {
		return false, err
	}
	return match(strings.Split(glob, "/"), strings.Split(name, "/")), nil
}

func match(glob, name []string) bool {
	for len(glob) > 0 {
		if glob[0] == "**" {
			if len(glob) == 1 {
				return len(name) > 0 // what is below a folder, not the folder
			}
			for i := range len(name) + 1 {
				if match(glob[1:], name[i:]) {
					return true
				}
			}
			return false
		}
		if len(name) == 0 {
			return false
		}
		if ok, err := path.Match(glob[0], name[0]); err != nil || !ok {
			return false
		}
		glob, name = glob[1:], name[1:]
	}
	return len(name) == 0
}
