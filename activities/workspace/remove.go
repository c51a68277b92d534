package workspace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Remove removes the workspace. Files that differ from the last good commit, good, are kept first: as a tree
// under refs/interlock/<slice>/removed. If they cannot be kept, the error is of kind Unsaved, it names the
// paths, and nothing is removed. With good "" the files are thrown away. One that is gone already is success.
func (w *Workspace) Remove(ctx context.Context, good string) error {
	if _, err := os.Lstat(w.c.dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	// Without a marker it was never entered, or its removal had begun.
	if owned, err := w.c.owned(); err != nil {
		return err
	} else if owned && good != "" {
		if err := w.save(ctx, good); err != nil {
			return err
		}
	}
	return w.c.remove(ctx)
}

func (w *Workspace) save(ctx context.Context, good string) error {
	c, err := w.Snapshot(ctx, good, Limits{})
	if err != nil {
		return err
	}
	if len(c.Refused) > 0 {
		r := c.Refused[0]
		return errorf(Unsaved, nil, "%s has files that cannot be kept, the first is %q (%s): remove them, or discard the workspace",
			w.c.tree(), r.Path, r.Why)
	}
	changes, err := w.c.store.Diff(ctx, good, c.Tree)
	if err != nil || len(changes) == 0 {
		return err
	}
	held, err := w.c.store.Ref(ctx, w.c.slice, "removed")
	if err != nil {
		return err
	}
	return w.c.store.SetRef(ctx, w.c.slice, "removed", c.Tree, held)
}

// Remove removes the view. One that is gone already is success.
func (v *View) Remove(ctx context.Context) error {
	if _, err := os.Lstat(v.c.dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return v.c.remove(ctx)
}

// RemoveViews removes all views of a slice.
func (s *Store) RemoveViews(ctx context.Context, slice string) error {
	if err := CheckSlice(slice); err != nil {
		return err
	}
	all := filepath.Join(s.home, "views", slice)
	entries, err := os.ReadDir(all)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		v, err := s.View(slice, e.Name())
		if err != nil {
			return errorf(Foreign, err, "%s was not made by interlock: move it away", filepath.Join(all, e.Name()))
		}
		if err := v.Remove(ctx); err != nil {
			return err
		}
	}
	return os.Remove(all)
}

// remove takes the lock first, so that no git is at work in the folder, and the marker last, so that a removal
// that was killed can go on.
func (c *checkout) remove(ctx context.Context) error {
	l, err := c.enter(ctx)
	if err != nil {
		return err
	}
	defer l.release()
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() != marker && e.Name() != "lock" {
			if err := RemoveAll(c.file(e.Name())); err != nil {
				return err
			}
		}
	}
	return errors.Join(os.Remove(c.file(marker)), os.Remove(c.file("lock")), os.Remove(c.dir))
}
