package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"interlock/activities/git"
)

// Attributes, and .git/info/attributes of every disposable .git: it is above every .gitattributes file.
const neutralAttributes = "* -text -ident -filter -working-tree-encoding !merge !diff\n"

const storeMarker = "interlock-store"

// Store is the bare repository in which the program keeps one user's repository on this host. It may be used
// by many goroutines and processes at once.
type Store struct {
	home   string
	dir    string
	key    string
	source source
	git    git.Client
}

// source is the user's repository.
type source struct {
	location string   // what git is told
	gitDir   string   // for a repository on this host: its git directory
	safe     []string // for a repository on this host: the folders that git asks the owner of
	shallow  bool
}

// where is the repository as a person knows it.
func (s *Store) where() string { return strings.TrimSuffix(git.Redact(s.source.location), "/.git") }

// Canonical is the one name of a repository on this host or elsewhere: the real path of its main folder, or a
// normalised address without credentials. A path must be absolute and be the root of the repository.
func Canonical(ctx context.Context, location string) (string, error) {
	canonical, _, err := locate(ctx, location)
	return canonical, err
}

func locate(ctx context.Context, location string) (string, source, error) {
	if !isLocal(location) {
		canonical, err := canonicalURL(location)
		return canonical, source{location: location}, err
	}
	if strings.HasPrefix(location, "file://") {
		u, err := url.Parse(location)
		if err != nil || u.Host != "" && u.Host != "localhost" {
			return "", source{}, errorf(InvalidInput, nil, "repository address %s cannot be read", git.Redact(location))
		}
		location = u.Path
	}
	if !filepath.IsAbs(location) || strings.ContainsAny(location, "\n\x00") {
		return "", source{}, errorf(InvalidInput, nil, "repository %q must be an absolute path or an address", location)
	}
	path, err := filepath.EvalSymlinks(location)
	if err != nil {
		return "", source{}, errorf(NotARepository, err, "no repository at %s", location)
	}
	safe := []string{path, filepath.Join(path, ".git")}
	out, err := git.Client{Dir: path, Safe: safe}.Line(ctx, "rev-parse", "--path-format=absolute",
		"--git-common-dir", "--is-shallow-repository", "--show-object-format", "--show-prefix")
	if err != nil {
		if ctx.Err() != nil {
			return "", source{}, err
		}
		return "", source{}, errorf(NotARepository, err, "%s is no git repository that can be read", path)
	}
	lines := strings.SplitN(out, "\n", 4)
	if len(lines) < 3 {
		return "", source{}, fmt.Errorf("git rev-parse in %s answered %q", path, out)
	}
	if len(lines) == 4 && lines[3] != "" {
		return "", source{}, errorf(NotARepository, nil, "%s is a folder inside a repository: name the repository's root", path)
	}
	if lines[2] != "sha1" {
		return "", source{}, errorf(ObjectFormat, nil, "%s has object format %s; only sha1 is supported", path, lines[2])
	}
	src := source{location: lines[0], gitDir: lines[0], safe: append(safe, lines[0]), shallow: lines[1] == "true"}
	return strings.TrimSuffix(lines[0], "/.git"), src, nil
}

// Open returns the store of the repository at location (an absolute path or an address) in the home folder,
// and makes it if it is not there yet.
func Open(ctx context.Context, home, location string) (*Store, error) {
	if err := git.Require(ctx); err != nil {
		var old *git.VersionError
		if errors.As(err, &old) {
			return nil, errorf(TooOldGit, nil, "%s", old)
		}
		return nil, err
	}
	if !filepath.IsAbs(home) || strings.ContainsAny(home, "\n\x00\"") {
		return nil, errorf(InvalidInput, nil, "home folder %q must be an absolute path without quotes", home)
	}
	canonical, src, err := locate(ctx, location)
	if err != nil {
		return nil, err
	}
	key := Key(canonical)
	dir := filepath.Join(home, "stores", key)
	s := &Store{home: home, dir: dir, key: key, source: src, git: git.Client{GitDir: dir}}
	held, err := readFileIfAny(filepath.Join(dir, storeMarker))
	if err != nil {
		return nil, err
	}
	if held == "" {
		err = s.create(ctx, canonical)
	} else if held != canonical+"\n" {
		err = errorf(Foreign, nil, "store %s belongs to repository %s", dir, strings.TrimSpace(held))
	}
	if err != nil {
		return nil, err
	}
	return s, s.trustSource()
}

func (s *Store) create(ctx context.Context, canonical string) error {
	if err := os.MkdirAll(filepath.Dir(s.dir), 0o700); err != nil {
		return err
	}
	lock, err := acquire(ctx, s.dir+".lock")
	if err != nil {
		return err
	}
	defer lock.release()
	if _, err := (git.Client{Lease: lock.file}).Output(ctx, "init", "--quiet", "--bare", "--template=",
		"--object-format=sha1", "--initial-branch=none", "--", s.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(s.dir, "info"), 0o700); err != nil {
		return err
	}
	config := "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n\tlogAllRefUpdates = false\n" +
		"[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n"
	// The marker comes last: a store that has it is whole.
	for _, f := range []struct{ name, content string }{
		{"config", config}, {"info/attributes", neutralAttributes}, {storeMarker, canonical + "\n"},
	} {
		if err := writeFile(filepath.Join(s.dir, f.name), []byte(f.content)); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) safeFile() string {
	if s.source.gitDir == "" {
		return ""
	}
	return filepath.Join(s.dir, "interlock-safe.config")
}

// trustSource writes the file that lets git serve the user's repository although another user may own it.
func (s *Store) trustSource() error {
	if s.source.gitDir == "" {
		return nil
	}
	var b strings.Builder
	b.WriteString("[safe]\n")
	for _, dir := range append([]string{s.dir}, s.source.safe...) {
		b.WriteString("\tdirectory = " + configQuote(dir) + "\n")
	}
	held, err := readFileIfAny(s.safeFile())
	if err != nil || held == b.String() {
		return err
	}
	return writeFile(s.safeFile(), []byte(b.String()))
}

func configQuote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// remoteGit is the client for a call that talks to the user's repository or to its remote.
func (s *Store) remoteGit(ctx context.Context) (git.Client, error) {
	return s.git.Remote(ctx, s.source.gitDir, s.safeFile())
}

// Key is the repository's key.
func (s *Store) Key() string { return s.key }

// Dir is the folder of the bare repository, for a person or a sandbox that must be able to read it.
func (s *Store) Dir() string { return s.dir }

// Ref reads refs/interlock/<slice>/<name>: an object id, or "" if it is not there.
func (s *Store) Ref(ctx context.Context, slice, name string) (string, error) {
	ref, err := sliceRef(slice, name)
	if err != nil {
		return "", err
	}
	return readRef(ctx, s.git, ref)
}

func readRef(ctx context.Context, c git.Client, ref string) (string, error) {
	out, err := c.Line(ctx, "rev-parse", "--quiet", "--verify", "--end-of-options", ref)
	if git.ExitCode(err) == 1 {
		return "", nil
	}
	return out, err
}

// SetRef moves refs/interlock/<slice>/<name> from the object id old to new; old "" means that it must not be
// there, new "" deletes it. A ref that is at new already is success; one at a third value is an Error of kind
// Moved.
func (s *Store) SetRef(ctx context.Context, slice, name, new, old string) error {
	ref, err := sliceRef(slice, name)
	if err != nil {
		return err
	}
	return moveRef(ctx, s.git, ref, new, old)
}

const noObject = "0000000000000000000000000000000000000000"

// durable makes git write through to the disk what must survive a loss of power.
var durable = []string{"-c", "core.fsync=loose-object,pack,pack-metadata,reference", "-c", "core.fsyncMethod=fsync"}

// fastImport never lets it keep a pack: a kept pack's lock file has a name that follows from its content, so that
// of a killed import, or of another slice with equal files, would stop this one.
var fastImport = []string{"-c", "fastimport.unpackLimit=2000000000", "fast-import", "--quiet", "--done", "--date-format=raw"}

func moveRef(ctx context.Context, c git.Client, ref, new, old string) error {
	for _, id := range []string{new, old} {
		if id != "" {
			if err := checkIDs(id); err != nil {
				return err
			}
		}
	}
	if old == "" {
		old = noObject
	}
	in := "update " + ref + "\x00" + new + "\x00" + old + "\x00"
	if new == "" {
		in = "delete " + ref + "\x00" + old + "\x00"
		if old == noObject {
			in = "verify " + ref + "\x00" + old + "\x00"
		}
	}
	_, err := c.Feed(ctx, []byte(in), append(durable[:len(durable):len(durable)], "update-ref", "-z", "--stdin")...)
	if err == nil || ctx.Err() != nil {
		return err
	}
	have, lookErr := readRef(ctx, c, ref)
	if lookErr != nil {
		return err
	}
	if have == new {
		return nil
	}
	if have == strings.TrimPrefix(old, noObject) {
		return err
	}
	e := errorf(Moved, err, "%s was moved by somebody else", ref)
	e.Have = have
	return e
}

// Entry is a file in a tree.
type Entry struct {
	Path string // bytes as they are in git
	Mode string // 100644, 100755, 120000 (symbolic link) or 160000 (gitlink)
	ID   string
}

// List returns the files of a commit or tree, sorted by path.
func (s *Store) List(ctx context.Context, treeish string) ([]Entry, error) {
	if err := checkIDs(treeish); err != nil {
		return nil, err
	}
	out, err := s.git.Output(ctx, "ls-tree", "-r", "-z", "--full-tree", treeish)
	if err != nil {
		return nil, errorf(NotFound, err, "tree %s cannot be read", treeish)
	}
	var list []Entry
	for _, f := range git.Fields(out) {
		meta, path, ok := strings.Cut(f, "\t")
		parts := strings.Fields(meta)
		if !ok || len(parts) != 3 {
			return nil, fmt.Errorf("git ls-tree answered %q", f)
		}
		list = append(list, Entry{Path: path, Mode: parts[0], ID: parts[2]})
	}
	return list, nil
}

// Object is the answer to one name asked of Read.
type Object struct {
	ID    string
	Type  string // blob, tree, commit, tag; "" if there is no such object
	Bytes []byte
}

// Read returns objects in one go, in the order of the names. A name is an object id, or "<id>:<path>".
func (s *Store) Read(ctx context.Context, names ...string) ([]Object, error) {
	for _, name := range names {
		id, _, _ := strings.Cut(name, ":")
		if err := checkIDs(id); err != nil {
			return nil, err
		}
	}
	return s.read(ctx, names...)
}

// read also takes full ref names.
func (s *Store) read(ctx context.Context, names ...string) ([]Object, error) {
	if len(names) == 0 {
		return nil, nil
	}
	in := strings.Join(names, "\x00") + "\x00"
	out, err := s.git.Feed(ctx, []byte(in), "cat-file", "--batch", "-z")
	if err != nil {
		return nil, err
	}
	objects := make([]Object, 0, len(names))
	for _, name := range names {
		if missing := []byte(name + " missing\n"); bytes.HasPrefix(out, missing) {
			out = out[len(missing):]
			objects = append(objects, Object{})
			continue
		}
		head, rest, ok := bytes.Cut(out, []byte("\n"))
		parts := strings.Fields(string(head))
		if !ok || len(parts) != 3 {
			return nil, fmt.Errorf("git cat-file answered %q for %q", head, name)
		}
		size, err := strconv.Atoi(parts[2])
		if err != nil || len(rest) < size+1 {
			return nil, fmt.Errorf("git cat-file answered %q for %q", head, name)
		}
		objects = append(objects, Object{ID: parts[0], Type: parts[1], Bytes: rest[:size:size]})
		out = rest[size+1:]
	}
	return objects, nil
}

// File returns the bytes of a file in a commit or tree. One that is not there is an Error of kind NotFound that
// also is fs.ErrNotExist.
func (s *Store) File(ctx context.Context, treeish, path string) ([]byte, error) {
	objects, err := s.Read(ctx, treeish+":"+path)
	if err != nil {
		return nil, err
	}
	if objects[0].Type != "blob" {
		return nil, errorf(NotFound, fs.ErrNotExist, "no file %q in %s", path, treeish)
	}
	return objects[0].Bytes, nil
}

// SetBlob keeps a small document under refs/interlock/<slice>/<name>, in place of an earlier one.
func (s *Store) SetBlob(ctx context.Context, slice, name string, content []byte) error {
	ref, err := sliceRef(slice, name)
	if err != nil {
		return err
	}
	id, err := s.git.Feed(ctx, content, append(durable[:len(durable):len(durable)], "hash-object", "-w", "--stdin")...)
	if err != nil {
		return err
	}
	in := "update " + ref + "\x00" + strings.TrimSpace(string(id)) + "\x00\x00"
	_, err = s.git.Feed(ctx, []byte(in), append(durable[:len(durable):len(durable)], "update-ref", "-z", "--stdin")...)
	return err
}

// Blob reads what SetBlob kept. One that is not there is an Error of kind NotFound.
func (s *Store) Blob(ctx context.Context, slice, name string) ([]byte, error) {
	ref, err := sliceRef(slice, name)
	if err != nil {
		return nil, err
	}
	objects, err := s.read(ctx, ref)
	if err != nil {
		return nil, err
	}
	if objects[0].Type != "blob" {
		return nil, errorf(NotFound, fs.ErrNotExist, "no document at %s", ref)
	}
	return objects[0].Bytes, nil
}

// Reclaim gives disk space back. Objects that no ref names are kept for two hours, so that it is safe while
// slices run.
func (s *Store) Reclaim(ctx context.Context) error {
	// Left by a fast-import that was killed.
	reports, err := filepath.Glob(filepath.Join(s.dir, "fast_import_crash_*"))
	for _, r := range reports {
		err = errors.Join(err, os.Remove(r))
	}
	_, gcErr := s.git.Output(ctx, "gc", "--quiet", "--prune=2.hours.ago")
	return errors.Join(err, gcErr)
}
