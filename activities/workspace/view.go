package workspace

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"sort"
)

// View is a checkout that the program owns, for checks and judges. It is reused: moving it to another tree
// costs the difference.
type View struct{ c checkout }

// View returns the slice's view of that name (lower-case letters, digits, '-', '_'); its folder is made when it
// is first used.
func (s *Store) View(slice, name string) (*View, error) {
	if _, err := sliceRef(slice, name); err != nil {
		return nil, err
	}
	return &View{checkout{store: s, slice: slice, dir: filepath.Join(s.home, "views", slice, name)}}, nil
}

// Dir is the folder of files.
func (v *View) Dir() string { return v.c.tree() }

// Move makes the files exactly those of a tree. What an earlier check has left is removed, except ignored files
// (dependencies, caches). The view's .git is made anew, with HEAD at the commit, for builds that ask git for a
// version; nothing is read back from it.
func (v *View) Move(ctx context.Context, tree, commit string) error {
	if err := checkIDs(tree, commit); err != nil {
		return err
	}
	l, err := v.c.enter(ctx)
	if err != nil {
		return err
	}
	defer l.release()
	return v.move(ctx, l, tree, commit)
}

// Fresh is Move into an empty folder: nothing of an earlier check stays.
func (v *View) Fresh(ctx context.Context, tree, commit string) error {
	if err := checkIDs(tree, commit); err != nil {
		return err
	}
	l, err := v.c.enter(ctx)
	if err != nil {
		return err
	}
	defer l.release()
	for _, name := range []string{"index", "tree"} {
		if err := RemoveAll(v.c.file(name)); err != nil {
			return err
		}
	}
	if err := v.c.settle(); err != nil {
		return err
	}
	return v.move(ctx, l, tree, commit)
}

func (v *View) move(ctx context.Context, l *lease, tree, commit string) error {
	if _, _, err := readIndex(v.c.file("index")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := v.c.reset(ctx, v.c.git(l), tree, false); err != nil {
		return err
	}
	return v.c.writeGit(v.c.file("index"), "interlock/"+v.c.slice, commit)
}

// Drift is how a view differs from the tree that it was moved to.
type Drift struct {
	Changed []string // files of the tree that were changed or removed
	Added   []string // new files that are not ignored
}

// Compare tells how the view differs from the tree that it was moved to last.
func (v *View) Compare(ctx context.Context) (Drift, error) {
	l, err := v.c.enter(ctx)
	if err != nil {
		return Drift{}, err
	}
	defer l.release()
	if _, _, err := readIndex(v.c.file("index")); err != nil {
		return Drift{}, errorf(NotFound, err, "view %s was not moved to a tree yet", v.c.dir)
	}
	found, err := v.c.scan(ctx, v.c.git(l))
	if err != nil {
		return Drift{}, err
	}
	d := Drift{Changed: found.changed}
	for _, list := range [][]string{found.untracked, found.nested, found.special, found.unseen, found.unreadable, found.tooLong} {
		d.Added = append(d.Added, list...)
	}
	sort.Strings(d.Added)
	return d, nil
}
