package workspace

import (
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// twins returns the new paths that equal another path of the candidate, or a folder of it, but for case or
// Unicode form, each with the other one. Such a pair cannot be checked out on every file system; one that the
// last good commit has already is not reported.
func twins(l *listing, added []string) [][2]string {
	if len(added) == 0 {
		return nil
	}
	names := make(map[string]string, len(l.tracked)) // folded path → the path as it is written
	for name, missing := range l.tracked {
		if !missing {
			for ; name != "."; name = path.Dir(name) {
				names[fold(name)] = name
			}
		}
	}
	var pairs [][2]string
	for _, name := range added {
		for part := name; part != "."; part = path.Dir(part) {
			key := fold(part)
			if other, there := names[key]; !there {
				names[key] = part
			} else if other != part && !exists(l, part) {
				pairs = append(pairs, [2]string{name, other})
				break
			}
		}
	}
	return pairs
}

// exists: with twins in the last good commit only one of them is in the map of names.
func exists(l *listing, dir string) bool {
	for name, missing := range l.tracked {
		if !missing && strings.HasPrefix(name, dir+"/") {
			return true
		}
	}
	return false
}

func fold(s string) string {
	if !utf8.ValidString(s) {
		return s
	}
	for i := 0; i < len(s); i++ {
		if s[i] > unicode.MaxASCII {
			return norm.NFD.String(cases.Fold().String(norm.NFD.String(s)))
		}
	}
	return strings.ToLower(s)
}
