package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"interlock/activities/git"
)

// Conflict is what a merge could not decide: usually of one file. Files that belong together, as those of one file
// that was renamed to two names, are one conflict.
type Conflict struct {
	Files    []ConflictFile
	Kinds    []string // git's short names, such as "CONFLICT (modify/delete)"
	Messages []string // git's own words; they name the sides by commit
}

// ConflictFile is one path of a conflict. The entries of sides that have no file there are zero.
type ConflictFile struct {
	Path               string
	Base, Ours, Theirs Entry
	// Merged is what the merged tree has there; zero if it has nothing. Its mode is not told.
	Merged Entry
}

// Conflicts merges two commits as Merge does, and tells of every conflict what each side has. The order is that of
// the paths.
func (s *Store) Conflicts(ctx context.Context, ours, theirs string) (tree string, all []Conflict, err error) {
	if err := checkIDs(ours, theirs); err != nil {
		return "", nil, err
	}
	out := &head{limit: 64 << 20, full: func() {}}
	err = s.git.Run(ctx, nil, out, "merge-tree", "--write-tree", "-z", "--messages", ours, theirs)
	if code := git.ExitCode(err); code != 0 && code != 1 {
		return "", nil, err
	}
	fields := git.Fields(out.buf.Bytes())
	bad := func() (string, []Conflict, error) {
		return "", nil, fmt.Errorf("git merge-tree answered %.2000q", fields)
	}
	if len(fields) == 0 || checkIDs(fields[0]) != nil || out.cut {
		return bad()
	}
	tree, fields = fields[0], fields[1:]
	g := groups{at: map[string]int{}}
	// First the entries: "100644 <id> 2\tpath", up to an empty field.
	for len(fields) > 0 && fields[0] != "" {
		meta, name, ok := strings.Cut(fields[0], "\t")
		parts := strings.Fields(meta)
		if !ok || len(parts) != 3 || checkIDs(parts[1]) != nil {
			return bad()
		}
		file := g.file(name)
		e := Entry{Path: name, Mode: parts[0], ID: parts[1]}
		switch parts[2] {
		case "1":
			file.Base = e
		case "2":
			file.Ours = e
		case "3":
			file.Theirs = e
		default:
			return bad()
		}
		fields = fields[1:]
	}
	// Then the messages: the number of paths, the paths, the kind, the text.
	for fields = fields[min(1, len(fields)):]; len(fields) > 0; {
		var n int
		if _, err := fmt.Sscanf(fields[0], "%d", &n); err != nil || n < 1 || len(fields) < n+3 {
			return bad()
		}
		g.message(fields[1:n+1], fields[n+1], fields[n+2])
		fields = fields[n+3:]
	}
	if err := s.merged(ctx, tree, g.all); err != nil {
		return "", nil, err
	}
	return tree, g.sorted(), nil
}

// merged fills in what the merged tree has.
func (s *Store) merged(ctx context.Context, tree string, all []*Conflict) error {
	var files []*ConflictFile
	var names []string
	for _, c := range all {
		for i := range c.Files {
			files = append(files, &c.Files[i])
			names = append(names, tree+":"+c.Files[i].Path)
		}
	}
	objects, err := s.Read(ctx, names...)
	for i, o := range objects {
		if o.Type == "blob" {
			files[i].Merged = Entry{Path: files[i].Path, ID: o.ID}
		}
	}
	return err
}

// groups are conflicts in the making.
type groups struct {
	all []*Conflict
	at  map[string]int // path → index in all
}

func (g *groups) file(name string) *ConflictFile {
	i, ok := g.at[name]
	if !ok {
		i = len(g.all)
		g.at[name] = i
		g.all = append(g.all, &Conflict{Files: []ConflictFile{{Path: name}}})
	}
	files := g.all[i].Files
	return &files[slices.IndexFunc(files, func(f ConflictFile) bool { return f.Path == name })]
}

// message joins the conflicts of the paths that one message is about. Paths that are in no conflict, as the folder
// that is in a file's way, are left out.
func (g *groups) message(paths []string, kind, text string) {
	if !strings.HasPrefix(kind, "CONFLICT") {
		return
	}
	into := -1
	for _, p := range paths {
		i, ok := g.at[p]
		switch {
		case !ok || i == into:
			continue
		case into < 0:
			into = i
			continue
		}
		one, other := g.all[into], g.all[i]
		for _, f := range other.Files {
			g.at[f.Path] = into
		}
		one.Files = append(one.Files, other.Files...)
		one.Kinds = append(one.Kinds, other.Kinds...)
		one.Messages = append(one.Messages, other.Messages...)
		other.Files = nil
	}
	if into >= 0 {
		c := g.all[into]
		c.Kinds = append(c.Kinds, kind)
		c.Messages = append(c.Messages, strings.TrimSpace(text))
	}
}

func (g *groups) sorted() []Conflict {
	var list []Conflict
	for _, c := range g.all {
		if len(c.Files) > 0 {
			slices.SortFunc(c.Files, func(a, b ConflictFile) int { return strings.Compare(a.Path, b.Path) })
			list = append(list, *c)
		}
	}
	slices.SortFunc(list, func(a, b Conflict) int { return strings.Compare(a.Files[0].Path, b.Files[0].Path) })
	return list
}

// Replacement is what Graft puts at a path.
type Replacement struct {
	Path    string
	Mode    string // 100644 or 100755; "" removes the file
	Content []byte
}

// Graft writes a tree with some files replaced or removed, without a checkout, and keeps it from being reclaimed
// under refs/interlock/<slice>/<name>, in place of what was kept there. Equal input gives an equal tree.
func (s *Store) Graft(ctx context.Context, slice, name, tree string, files []Replacement) (string, error) {
	ref, err := sliceRef(slice, name)
	if err == nil {
		err = checkIDs(tree)
	}
	if err != nil {
		return "", err
	}
	var in, out bytes.Buffer
	fmt.Fprintf(&in, "feature done\ncommit %s\nmark :1\ncommitter Interlock <interlock@localhost> 0 +0000\n"+
		"data 6\nGraft\n\nM 040000 %s \"\"\n", ref, tree)
	for _, f := range files {
		if !fs.ValidPath(f.Path) || f.Path == "." || slices.ContainsFunc(strings.Split(f.Path, "/"), gitName) {
			return "", errorf(InvalidInput, nil, "%q is no path that can be put into a tree", f.Path)
		}
		switch f.Mode {
		case "":
			fmt.Fprintf(&in, "D %s\n", quotePath(f.Path))
		case "100644", "100755":
			fmt.Fprintf(&in, "M %s inline %s\ndata %d\n", f.Mode, quotePath(f.Path), len(f.Content))
			in.Write(f.Content)
			in.WriteByte('\n')
		default:
			return "", errorf(InvalidInput, nil, "%q cannot be put into a tree with mode %s", f.Path, f.Mode)
		}
	}
	in.WriteString("\nls :1 \"\"\ndone\n")
	if err := s.git.Run(ctx, &in, &out, "fast-import", "--quiet", "--force", "--done", "--date-format=raw"); err != nil {
		return "", err
	}
	parts := strings.Fields(out.String())
	if len(parts) != 3 || checkIDs(parts[2]) != nil {
		return "", fmt.Errorf("git fast-import answered %q", out.String())
	}
	return parts[2], nil
}

// Taken is a file as it stands in a view.
type Taken struct {
	Path    string
	Missing bool
	Content []byte
	// Refused says why it cannot be taken: it is not a regular file, lies behind a link, is too large.
	Refused string
}

// Take reads files of the view. It follows no link, neither at the end of a path nor on the way, and reads at most
// limit bytes of each.
func (v *View) Take(ctx context.Context, paths []string, limit int64) ([]Taken, error) {
	l, err := v.c.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer l.release()
	root, err := os.OpenRoot(v.c.tree())
	if err != nil {
		return nil, err
	}
	defer root.Close()
	list := make([]Taken, len(paths))
	for i, p := range paths {
		if list[i], err = take(root, p, limit); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func take(root *os.Root, name string, limit int64) (Taken, error) {
	t := Taken{Path: name}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if info, err := root.Lstat(dir); err == nil && !info.IsDir() {
			t.Refused = fmt.Sprintf("%q on its way is no folder", dir)
			return t, nil
		}
	}
	info, err := root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		t.Missing = true
		return t, nil
	case err != nil:
		t.Refused = "it cannot be read"
		return t, nil
	case !info.Mode().IsRegular():
		t.Refused = "it is no regular file any more"
		return t, nil
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Refused = "it cannot be read"
		return t, nil
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil || !info.Mode().IsRegular() {
		t.Refused = "it is no regular file any more"
		return t, err
	}
	t.Content, err = io.ReadAll(io.LimitReader(f, limit+1))
	if int64(len(t.Content)) > limit {
		t.Content, t.Refused = nil, fmt.Sprintf("it has more than %d bytes", limit)
	}
	return t, err
}
