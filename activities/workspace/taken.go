package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Taken is an Error of kind Foreign if a folder of the slice on this host is another repository's, or nobody's
// that is known. It changes nothing.
func (s *Store) Taken(slice string) error {
	if err := CheckSlice(slice); err != nil {
		return err
	}
	views := filepath.Join(s.home, "views", slice)
	entries, err := os.ReadDir(views)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	dirs := []string{filepath.Join(s.home, "workspaces", slice)}
	for _, e := range entries {
		dirs = append(dirs, filepath.Join(views, e.Name()))
	}
	for _, dir := range dirs {
		c := checkout{store: s, slice: slice, dir: dir}
		if _, err := c.owned(); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
