package workspace

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"interlock/activities/git"
)

// checkout is a folder of ours: the files in tree/, and beside them index files, a lock and a marker.
type checkout struct {
	store *Store
	slice string
	dir   string
}

const marker = "interlock"

func (c *checkout) tree() string            { return filepath.Join(c.dir, "tree") }
func (c *checkout) file(name string) string { return filepath.Join(c.dir, name) }
func (c *checkout) git(l *lease) git.Client { return c.gitAt(l, c.file("index")) }
func (c *checkout) markerText() string      { return "interlock " + c.store.key + " " + c.slice + "\n" }

func (c *checkout) gitAt(l *lease, index string) git.Client {
	return git.Client{GitDir: c.store.dir, WorkTree: c.tree(), Index: index, Lease: l.file}
}

// enter locks the folder and makes it if it is not there. One that is there and is not ours is left alone.
func (c *checkout) enter(ctx context.Context) (*lease, error) {
	for {
		if err := os.MkdirAll(c.dir, 0o700); err != nil {
			return nil, err
		}
		if _, err := c.owned(); err != nil {
			return nil, err
		}
		l, err := acquire(ctx, c.file("lock"))
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed by somebody since
		}
		if err != nil {
			return nil, err
		}
		owned, err := c.owned()
		if err == nil && !owned {
			err = writeFile(c.file(marker), []byte(c.markerText()))
		}
		if err == nil {
			err = c.settle()
		}
		if err != nil {
			l.release()
			return nil, err
		}
		return l, nil
	}
}

// owned says whether the folder has our marker: false for an empty one, an error for somebody else's.
func (c *checkout) owned() (bool, error) {
	held, err := readFileIfAny(c.file(marker))
	if err != nil {
		return false, err
	}
	switch held {
	case c.markerText():
		return true, nil
	case "":
	default:
		return false, errorf(Foreign, nil, "%s belongs to another repository or slice (%s)", c.dir, strings.TrimSpace(held))
	}
	entries, err := os.ReadDir(c.dir)
	for _, e := range entries {
		if e.Name() != "lock" && !strings.HasPrefix(e.Name(), ".new-") {
			return false, errorf(Foreign, nil, "%s was not made by interlock: move it away", c.dir)
		}
	}
	return false, err
}

// settle puts right what a killed predecessor, or an agent that reached out of its tree, has left. It needs the
// lock: nobody has an index lock open then.
func (c *checkout) settle() error {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".lock") || strings.HasPrefix(e.Name(), ".new-") {
			if err := os.RemoveAll(c.file(e.Name())); err != nil {
				return err
			}
		}
	}
	info, err := os.Lstat(c.tree())
	if err == nil && !info.IsDir() {
		if err := os.Remove(c.tree()); err != nil {
			return err
		}
		err = fs.ErrNotExist
	}
	if errors.Is(err, fs.ErrNotExist) {
		return os.Mkdir(c.tree(), 0o755)
	}
	return err
}

// listing is the state of the files, compared with an index.
type listing struct {
	tracked   map[string]bool // every path in the index; true if its file is gone
	changed   []string        // tracked, and not as in the index: changed, gone, of another type
	untracked []string        // neither tracked nor ignored; a nested repository ends with a slash
	ignored   map[string]bool // as git lists them; a folder ends with a slash

	// What git does not list, found by walking.
	nested     []string // a .git below the root
	special    []string // FIFOs, sockets, devices
	unreadable []string // folders
	unseen     []string // files that git's listing lacks
	tooLong    []string
	folders    []string // all folders that are not ignored, parents first
}

// statusPath is where the path begins in a line of git status for a tracked file: "1 XY N... mH mI mW hH hI path".
// X compares with HEAD, which the store has not, and says nothing.
const statusPath = len("1 XY N... 000000 000000 000000 ") + 2*(len(noObject)+1)

// scan compares the files with the index. It is git's listing plus a walk over the same folders, since git says
// nothing of special files, of a .git below the root, and of what it could not read.
func (c *checkout) scan(ctx context.Context, g git.Client) (*listing, error) {
	out, err := g.With("GIT_OPTIONAL_LOCKS=1").Output(ctx, "status", "--porcelain=v2", "-z", "--untracked-files=all",
		"--ignored=matching", "--no-renames", "--ignore-submodules=none")
	if err != nil {
		return nil, err
	}
	fields := git.Fields(out)
	l := &listing{tracked: make(map[string]bool, len(fields)), ignored: map[string]bool{}}
	for _, f := range fields {
		switch {
		case strings.HasPrefix(f, "? "):
			l.untracked = append(l.untracked, f[2:])
		case strings.HasPrefix(f, "! "):
			l.ignored[f[2:]] = true
		case strings.HasPrefix(f, "1 ") && len(f) > statusPath:
			name, y := f[statusPath:], f[3]
			l.tracked[name] = y == 'D'
			if y != '.' {
				l.changed = append(l.changed, name)
			}
		default:
			return nil, fmt.Errorf("git status answered %q", f)
		}
	}
	root, err := openFolder(unix.AT_FDCWD, c.tree())
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: c.tree(), Err: err}
	}
	known := make(map[string]bool, len(l.untracked))
	for _, name := range l.untracked {
		known[name] = true
	}
	return l, l.walk(ctx, root, "", known)
}

// openFolder opens a folder below another one, and never by way of a link.
func openFolder(parent int, name string) (int, error) {
	for {
		fd, err := unix.Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// maxPath is what git can handle (PATH_MAX), less room for a lock file's name.
const maxPath = 4000

// walk reads the folder at, a descriptor that it closes; dir is its path from the root, "" for the root itself.
func (l *listing) walk(ctx context.Context, at int, dir string, known map[string]bool) error {
	f := os.NewFile(uintptr(at), dir)
	defer f.Close()
	if err := ctx.Err(); err != nil {
		return err
	}
	entries, err := f.ReadDir(-1)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		if dir != "" {
			name = dir + "/" + name
		} else if name == ".git" {
			continue
		}
		if e.Type() == 0 {
			if _, tracked := l.tracked[name]; tracked || known[name] {
				continue
			}
		}
		switch {
		case e.Name() == ".git":
			l.nested = append(l.nested, name)
		case l.ignored[name] || e.IsDir() && l.ignored[name+"/"]:
		case len(name) > maxPath:
			l.tooLong = append(l.tooLong, name)
		case e.IsDir() && known[name+"/"]:
			l.folders = append(l.folders, name)
		case e.IsDir():
			l.folders = append(l.folders, name)
			below, err := openFolder(at, e.Name())
			if errors.Is(err, fs.ErrPermission) {
				l.unreadable = append(l.unreadable, name)
				continue
			}
			if err == nil {
				err = l.walk(ctx, below, name, known)
			}
			if err != nil {
				return &fs.PathError{Op: "read", Path: name, Err: err}
			}
		case e.Type() == fs.ModeSymlink:
			if _, tracked := l.tracked[name]; !tracked && !known[name] {
				l.unseen = append(l.unseen, name)
			}
		case e.Type() != 0:
			l.special = append(l.special, name)
		default:
			l.unseen = append(l.unseen, name)
		}
	}
	return nil
}

// reset makes the files those of a commit or tree: tracked files by git, then everything else that is not
// ignored is removed, or everything at all with ignoredToo. The index must be one that git has kept for this
// folder, or none.
func (c *checkout) reset(ctx context.Context, g git.Client, treeish string, ignoredToo bool) error {
	if _, err := g.Output(ctx, "read-tree", "-u", "--reset", treeish); err != nil {
		if ctx.Err() != nil {
			return err
		}
		// Folders that were made unwritable.
		unlock(c.tree())
		if _, err := g.Output(ctx, "read-tree", "-u", "--reset", treeish); err != nil {
			return err
		}
	}
	l, err := c.scan(ctx, g)
	if err != nil {
		return err
	}
	if len(l.unreadable) > 0 {
		unlock(c.tree())
		if l, err = c.scan(ctx, g); err != nil {
			return err
		}
	}
	if len(l.changed) > 0 {
		// Behind a link that took a folder's place git sees the very files; once the link is gone it does not.
		if err := c.clear(l, ignoredToo); err != nil {
			return err
		}
		if _, err := g.Output(ctx, "read-tree", "-u", "--reset", treeish); err != nil {
			return err
		}
		if l, err = c.scan(ctx, g); err != nil {
			return err
		}
	}
	if len(l.changed) > 0 {
		return fmt.Errorf("%s: %d files could not be put back, the first is %q", c.tree(), len(l.changed), l.changed[0])
	}
	return c.clear(l, ignoredToo)
}

func (c *checkout) clear(l *listing, ignoredToo bool) error {
	var gone []string
	for _, list := range [][]string{l.untracked, l.nested, l.special, l.unseen, l.tooLong, l.unreadable} {
		gone = append(gone, list...)
	}
	keep := map[string]bool{}
	for name := range l.ignored {
		if ignoredToo {
			gone = append(gone, name)
		} else {
			keepParents(keep, strings.TrimSuffix(name, "/"))
		}
	}
	if len(gone) == 0 && len(l.folders) == 0 {
		return nil
	}
	root, err := os.OpenRoot(c.tree())
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range gone {
		name = strings.TrimSuffix(name, "/")
		err := root.RemoveAll(name)
		if errors.Is(err, fs.ErrPermission) {
			unlock(c.tree())
			err = root.RemoveAll(name)
		}
		if err != nil {
			return err
		}
	}
	for name, missing := range l.tracked {
		if !missing {
			keepParents(keep, name)
		}
	}
	// Children come after their parents in folders, so from the end each is empty when its turn comes.
	for i := len(l.folders) - 1; i >= 0; i-- {
		if name := l.folders[i]; !keep[name] {
			if err := root.RemoveAll(name); err != nil {
				return err
			}
		}
	}
	return nil
}

func keepParents(keep map[string]bool, name string) {
	for dir := path.Dir(name); dir != "." && !keep[dir]; dir = path.Dir(dir) {
		keep[dir] = true
	}
}

// writeGit makes the disposable .git: HEAD on a branch at the commit, objects borrowed from the store, no remote,
// no hooks, a copy of the index. One that has anything more, or anything else, is made anew.
func (c *checkout) writeGit(index, branch, commit string) error {
	root, err := os.OpenRoot(c.tree())
	if err != nil {
		return err
	}
	defer root.Close()
	ref := "refs/heads/" + branch
	files := [][2]string{
		{"config", "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogAllRefUpdates = true\n" +
			"\tautocrlf = false\n[gc]\n\tauto = 0\n[commit]\n\tgpgSign = false\n" +
			"[user]\n\tname = agent\n\temail = agent@interlock.invalid\n"},
		{"info/attributes", neutralAttributes},
		{"objects/info/alternates", filepath.Join(c.store.dir, "objects") + "\n"},
		{ref, commit + "\n"},
		// HEAD comes last: without it git does not take the folder for a repository.
		{"HEAD", "ref: " + ref + "\n"},
	}
	if !isGit(root, files) {
		err := root.RemoveAll(".git")
		if errors.Is(err, fs.ErrPermission) {
			unlock(c.file("tree/.git"))
			err = root.RemoveAll(".git")
		}
		if err != nil {
			return err
		}
		for _, dir := range []string{"objects/info", "objects/pack", "info", path.Dir(ref)} {
			if err := root.MkdirAll(".git/"+dir, 0o755); err != nil {
				return err
			}
		}
		for _, f := range files {
			if err := root.WriteFile(".git/"+f[0], []byte(f[1]), 0o644); err != nil {
				return err
			}
		}
	}
	return copyIndex(index, c.file("tree/.git/index"))
}

// isGit says whether .git consists of these files, folders around them, and an index.
func isGit(root *os.Root, files [][2]string) bool {
	left := make(map[string]string, len(files))
	for _, f := range files {
		left[".git/"+f[0]] = f[1]
	}
	err := fs.WalkDir(root.FS(), ".git", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || name == ".git/index" && d.Type() == 0 {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		want, known := left[name]
		if !known || !info.Mode().IsRegular() || info.Size() != int64(len(want)) {
			return fs.ErrInvalid
		}
		if held, err := root.ReadFile(name); err != nil || string(held) != want {
			return fs.ErrInvalid
		}
		delete(left, name)
		return nil
	})
	return err == nil && len(left) == 0
}

// Workspace is the folder that the agent of a slice edits.
type Workspace struct{ c checkout }

// Workspace returns the slice's workspace; its folder is made when it is first used.
func (s *Store) Workspace(slice string) (*Workspace, error) {
	if err := CheckSlice(slice); err != nil {
		return nil, err
	}
	return &Workspace{checkout{store: s, slice: slice, dir: filepath.Join(s.home, "workspaces", slice)}}, nil
}

// Dir is the folder of files, the working directory for the agent.
func (w *Workspace) Dir() string { return w.c.tree() }

// Restore makes the files exactly those of a commit: tracked files, no untracked ones. Ignored files stay
// (caches of the agent's), unless ignoredToo. The agent's .git is made anew at that commit.
func (w *Workspace) Restore(ctx context.Context, commit string, ignoredToo bool) error {
	if err := checkIDs(commit); err != nil {
		return err
	}
	l, err := w.c.enter(ctx)
	if err != nil {
		return err
	}
	defer l.release()
	index, next := w.index(commit), w.c.file("index.next")
	if err := w.copyAnyIndex(next, index); err != nil {
		return err
	}
	if err := w.c.reset(ctx, w.c.gitAt(l, next), commit, ignoredToo); err != nil {
		return err
	}
	if err := w.adopt(next, index); err != nil {
		return err
	}
	return w.c.writeGit(index, "interlock/"+w.c.slice, commit)
}

// Advance takes a new commit for the last good one and leaves the files as they stand. The agent's .git is made
// anew at that commit.
func (w *Workspace) Advance(ctx context.Context, commit string) error {
	if err := checkIDs(commit); err != nil {
		return err
	}
	l, err := w.c.enter(ctx)
	if err != nil {
		return err
	}
	defer l.release()
	index, err := w.indexAt(ctx, l, commit)
	if err != nil {
		return err
	}
	return w.c.writeGit(index, "interlock/"+w.c.slice, commit)
}

// index is the index file that has exactly the entries of a commit, with the times of the files.
func (w *Workspace) index(commit string) string { return w.c.file("index-" + commit) }

// indexAt is index, made if it is not there.
func (w *Workspace) indexAt(ctx context.Context, l *lease, commit string) (string, error) {
	index := w.index(commit)
	if _, _, err := readIndex(index); !errors.Is(err, fs.ErrNotExist) {
		return index, err
	}
	next := w.c.file("index.next")
	if err := w.copyAnyIndex(next); err != nil {
		return "", err
	}
	if _, err := w.c.gitAt(l, next).Output(ctx, "read-tree", "--reset", commit); err != nil {
		return "", err
	}
	return index, w.adopt(next, index)
}

// copyAnyIndex copies the first index that there is, so that the times of the files are not lost.
func (w *Workspace) copyAnyIndex(to string, from ...string) error {
	older, err := filepath.Glob(w.c.file("index-*"))
	if err != nil {
		return err
	}
	if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, f := range append(from, older...) {
		if err := copyIndex(f, to); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// adopt makes next the index of a commit, and removes those of other commits.
func (w *Workspace) adopt(next, index string) error {
	if err := os.Rename(next, index); err != nil {
		return err
	}
	older, err := filepath.Glob(w.c.file("index-*"))
	for _, f := range older {
		if f != index {
			err = errors.Join(err, os.Remove(f))
		}
	}
	return err
}

// Why is the reason of a Refusal.
type Why string

// The reasons.
const (
	NestedRepository Why = "nested_repository" // a .git below the root
	LinkOutside      Why = "link_outside"      // a new symbolic link that leads out of the tree
	LinkIntoGit      Why = "link_into_git"     // a new symbolic link that leads into .git
	SpecialFile      Why = "special_file"      // a FIFO, socket or device
	TooLarge         Why = "too_large"
	TooMany          Why = "too_many"
	NameTwin         Why = "name_twin" // a new path that equals another but for case or Unicode form
	GitName          Why = "git_name"  // a name that git or a file system takes for .git, or a linked .gitmodules
	Unreadable       Why = "unreadable"
	PathTooLong      Why = "path_too_long"
)

// Refusal is a path that cannot be part of a candidate. It is an outcome, for the agent to put right.
type Refusal struct {
	Path   string
	Why    Why
	Detail string
}

// Limits bound what a candidate may add to or change in the last good commit.
type Limits struct {
	FileBytes  int64 // of one changed or new file
	TotalBytes int64 // of all changed and new files
	NewFiles   int
}

// DefaultLimits are 50 MiB for a file, 200 MiB for all, 20,000 new files.
var DefaultLimits = Limits{FileBytes: 50 << 20, TotalBytes: 200 << 20, NewFiles: 20_000}

// maxRefusals bounds the list; the rest is counted in the last entry's detail.
const maxRefusals = 50

// Candidate is what Snapshot found.
type Candidate struct {
	Tree    string    // the tree's id; "" if something was refused
	Refused []Refusal // in the order of the paths, at most 50 of them
	// GitState says what is unusual about the agent's .git, for the agent's next brief; no file depends on it.
	GitState []string
}

// Snapshot writes the files as they stand to the store and returns the tree, the candidate. It is pinned by a
// commit on top of good under refs/interlock/<slice>/candidate. Good is the last good commit: its files are tracked, ignored or not.
// If anything has to be refused, nothing is written.
func (w *Workspace) Snapshot(ctx context.Context, good string, limits Limits) (Candidate, error) {
	if err := checkIDs(good); err != nil {
		return Candidate{}, err
	}
	l, err := w.c.enter(ctx)
	if err != nil {
		return Candidate{}, err
	}
	defer l.release()
	index, err := w.indexAt(ctx, l, good)
	if err != nil {
		return Candidate{}, err
	}
	found, err := w.c.scan(ctx, w.c.gitAt(l, index))
	if err != nil {
		return Candidate{}, err
	}
	c := Candidate{GitState: gitState(w.c.tree())}
	if c.Refused, err = w.examine(found, limits); err != nil || len(c.Refused) > 0 {
		return c, err
	}
	c.Tree, err = w.write(ctx, l, good, found)
	return c, err
}

// write stores what differs from the last good commit. The program reads the files itself, so that no rule of
// git's can change a byte, and what was examined is what is kept; blobs, trees and the ref are one process.
func (w *Workspace) write(ctx context.Context, l *lease, good string, found *listing) (string, error) {
	ref, err := sliceRef(w.c.slice, "candidate")
	if err != nil {
		return "", err
	}
	root, err := os.OpenRoot(w.c.tree())
	if err != nil {
		return "", err
	}
	defer root.Close()
	in, feed := io.Pipe()
	fed := make(chan error, 1)
	go func() {
		err := feedCandidate(feed, root, ref, good, found)
		feed.CloseWithError(err)
		fed <- err
	}()
	g := w.c.store.git
	g.Lease = l.file
	var out bytes.Buffer
	err = g.Run(ctx, in, &out, append(fastImport[:len(fastImport):len(fastImport)], "--force")...)
	_ = in.Close()
	// The reason why the feed broke off says more than git, which only missed the end.
	if feedErr := <-fed; feedErr != nil && !errors.Is(feedErr, io.ErrClosedPipe) {
		return "", feedErr
	}
	if err != nil {
		return "", err
	}
	// "040000 tree <id>\t"
	parts := strings.Fields(out.String())
	if len(parts) != 3 || checkIDs(parts[2]) != nil {
		return "", fmt.Errorf("git fast-import answered %q", out.String())
	}
	return parts[2], nil
}

// feedCandidate writes a commit on top of the last good one, whose time is fixed: equal files, equal id.
func feedCandidate(to io.Writer, root *os.Root, ref, good string, found *listing) error {
	b := bufio.NewWriterSize(to, 1<<16)
	fmt.Fprintf(b, "feature done\ncommit %s\nmark :1\ncommitter Interlock <interlock@localhost> 0 +0000\n"+
		"data 10\nCandidate\n\nfrom %s\n", ref, good)
	// What is gone goes first: it may make room for a file or folder of the same name.
	for _, name := range found.changed {
		if found.tracked[name] {
			fmt.Fprintf(b, "D %s\n", quotePath(name))
		}
	}
	for _, list := range [][]string{found.changed, found.untracked} {
		for _, name := range list {
			if found.tracked[name] {
				continue
			}
			mode, content, err := readFile(root, name)
			if err != nil {
				return err
			}
			fmt.Fprintf(b, "M %s inline %s\ndata %d\n", mode, quotePath(name), len(content))
			_, _ = b.Write(content)
			_ = b.WriteByte('\n')
		}
	}
	_, _ = b.WriteString("\nls :1 \"\"\ndone\n")
	return b.Flush()
}

// readFile reads a file or the text of a symbolic link, with git's mode for it.
func readFile(root *os.Root, name string) (mode string, content []byte, err error) {
	info, err := root.Lstat(name)
	if err != nil {
		return "", nil, err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		target, err := root.Readlink(name)
		return "120000", []byte(target), err
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", nil, err
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return "", nil, err
	}
	if !info.Mode().IsRegular() {
		return "", nil, fmt.Errorf("%q has become another kind of file while it was read", name)
	}
	mode = "100644"
	if info.Mode()&0o100 != 0 {
		mode = "100755"
	}
	content, err = io.ReadAll(f)
	return mode, content, err
}

// quotePath writes a path as git fast-import reads it.
func quotePath(name string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c == 0x7f:
			fmt.Fprintf(&b, "\\%03o", c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// examine finds what must not become part of a candidate.
func (w *Workspace) examine(l *listing, limits Limits) ([]Refusal, error) {
	root, err := os.OpenRoot(w.c.tree())
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var refused []Refusal
	refuse := func(name string, why Why, detail string) {
		refused = append(refused, Refusal{name, why, detail})
	}
	for _, name := range l.nested {
		refuse(path.Dir(name), NestedRepository, "remove its .git, or move it out of the workspace")
	}
	for _, name := range l.special {
		refuse(name, SpecialFile, "only files, folders and symbolic links can be kept")
	}
	for _, name := range l.unreadable {
		refuse(name, Unreadable, "the folder cannot be read")
	}
	for _, name := range l.unseen {
		refuse(name, Unreadable, "git does not list it")
	}
	for _, name := range l.tooLong {
		refuse(name, PathTooLong, fmt.Sprintf("at most %d bytes", maxPath))
	}
	var total int64
	added := make([]string, 0, len(l.untracked))
	for _, name := range l.untracked {
		if strings.HasSuffix(name, "/") {
			refuse(strings.TrimSuffix(name, "/"), NestedRepository, "remove its .git, or move it out of the workspace")
		} else {
			added = append(added, name)
		}
	}
	tooMany := limits.NewFiles > 0 && len(added) > limits.NewFiles
	if tooMany {
		for _, r := range crowded(added, limits.NewFiles) {
			refuse(r.Path, r.Why, r.Detail)
		}
	}
	for _, name := range append(append([]string(nil), l.changed...), added...) {
		if missing := l.tracked[name]; missing {
			continue
		}
		size, why, detail := probe(root, name)
		total += size
		if why == "" && limits.FileBytes > 0 && size > limits.FileBytes {
			why, detail = TooLarge, fmt.Sprintf("%d bytes, at most %d", size, limits.FileBytes)
		}
		if why != "" {
			refuse(name, why, detail)
		}
	}
	if limits.TotalBytes > 0 && total > limits.TotalBytes && len(refused) == 0 {
		refuse(".", TooLarge, fmt.Sprintf("all changed and new files have %d bytes, at most %d", total, limits.TotalBytes))
	}
	if !tooMany {
		for _, twin := range twins(l, added) {
			refuse(twin[0], NameTwin, fmt.Sprintf("differs from %q only in case or Unicode form", twin[1]))
		}
	}
	seen := map[string]bool{}
	unique := refused[:0]
	for _, r := range refused {
		if id := r.Path + "\x00" + string(r.Why); !seen[id] {
			seen[id] = true
			unique = append(unique, r)
		}
	}
	sort.SliceStable(unique, func(i, j int) bool { return unique[i].Path < unique[j].Path })
	if more := len(unique) - maxRefusals; more > 0 {
		unique = unique[:maxRefusals]
		unique[maxRefusals-1].Detail += fmt.Sprintf(" (and %d more paths are refused)", more)
	}
	return unique, nil
}

// probe looks at one changed or new path without following a link.
func probe(root *os.Root, name string) (size int64, why Why, detail string) {
	for _, part := range strings.Split(name, "/") {
		if gitName(part) {
			return 0, GitName, "git, or a file system, takes the name for .git"
		}
	}
	info, err := root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		return 0, "", ""
	case err != nil:
		return 0, Unreadable, err.Error()
	case info.IsDir():
		return 0, "", ""
	case info.Mode()&fs.ModeSymlink != 0:
		if strings.EqualFold(path.Base(name), ".gitmodules") {
			return 0, GitName, "git refuses a .gitmodules that is a link"
		}
		why, detail = follow(root, name)
		return 0, why, detail
	case !info.Mode().IsRegular():
		return 0, SpecialFile, "only files, folders and symbolic links can be kept"
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return info.Size(), Unreadable, "the file cannot be read"
	}
	_ = f.Close()
	return info.Size(), "", ""
}

// follow resolves a symbolic link by hand inside the root: the operating system would follow it to outside, and
// the shortened text of a link says nothing when a folder on the way is a link too.
func follow(root *os.Root, name string) (Why, string) {
	target, err := root.Readlink(name)
	if err != nil {
		return Unreadable, err.Error()
	}
	first := target
	var at []string
	if dir := path.Dir(name); dir != "." {
		at = strings.Split(dir, "/")
	}
	todo := strings.Split(target, "/")
	if strings.HasPrefix(target, "/") {
		return LinkOutside, fmt.Sprintf("leads to the absolute path %q", first)
	}
	for links := 0; len(todo) > 0; {
		part := todo[0]
		todo = todo[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			if len(at) == 0 {
				return LinkOutside, fmt.Sprintf("leads to %q, out of the workspace", first)
			}
			at = at[:len(at)-1]
			continue
		}
		if gitName(part) {
			return LinkIntoGit, fmt.Sprintf("leads to %q", first)
		}
		at = append(at[:len(at):len(at)], part)
		next, err := root.Readlink(strings.Join(at, "/"))
		if err != nil {
			continue // not a link, or not there
		}
		if links++; links > 40 {
			return LinkOutside, "leads in a circle"
		}
		if strings.HasPrefix(next, "/") {
			return LinkOutside, fmt.Sprintf("leads to %q and from there to the absolute path %q", first, next)
		}
		at = at[:len(at)-1]
		todo = append(strings.Split(next, "/"), todo...)
	}
	return "", ""
}

// crowded names the folders at the top that hold most of the new files.
func crowded(added []string, limit int) []Refusal {
	count := map[string]int{}
	for _, name := range added {
		top, _, _ := strings.Cut(name, "/")
		count[top]++
	}
	tops := make([]string, 0, len(count))
	for top := range count {
		tops = append(tops, top)
	}
	sort.Slice(tops, func(i, j int) bool {
		if count[tops[i]] != count[tops[j]] {
			return count[tops[i]] > count[tops[j]]
		}
		return tops[i] < tops[j]
	})
	var list []Refusal
	for _, top := range tops[:min(len(tops), 5)] {
		list = append(list, Refusal{top, TooMany, fmt.Sprintf("%d of %d new files, at most %d; ignore or remove them", count[top], len(added), limit)})
	}
	return list
}

// gitState looks at the names of files in the agent's .git, never at what they say.
func gitState(tree string) []string {
	root, err := os.OpenRoot(tree)
	if err != nil {
		return nil
	}
	defer root.Close()
	info, err := root.Lstat(".git")
	if err != nil {
		return []string{"missing"}
	}
	if !info.IsDir() {
		return []string{"not a folder"}
	}
	var state []string
	for _, s := range []struct{ file, name string }{
		{"MERGE_HEAD", "merge in progress"}, {"rebase-merge", "rebase in progress"}, {"rebase-apply", "rebase in progress"},
		{"CHERRY_PICK_HEAD", "cherry-pick in progress"}, {"REVERT_HEAD", "revert in progress"}, {"index.lock", "index locked"},
	} {
		if _, err := root.Lstat(".git/" + s.file); err == nil {
			state = append(state, s.name)
		}
	}
	return state
}
