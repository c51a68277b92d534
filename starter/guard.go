package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha1" // the name that git gives to content
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"interlock/activities/git"
	"interlock/guard"
)

// exitTampered and exitUnread are how the guard ends a command.
const (
	exitTampered = 4
	exitUnread   = 5
)

func (a *app) guardCommand() *cobra.Command {
	repo, protected, frozen, sarif := ".", []string(nil), []string(nil), false
	c := &cobra.Command{
		Use:   "guard BASE HEAD",
		Short: "Whether a change takes tests away, or makes them unable to fail",
		Long: `Guard compares the tests of two commits, and the configuration of what runs
them. It says clean, review (look at it) or tampered: fewer live tests than
before, or tests that can no longer fail, while what they test is still there.

With --protected the policy file, the files of continuous integration and the
git attributes are protected too, and the repository around the commits is looked
at: hooks, configuration that makes git run a program, files of the working tree.

It ends with 0 if clean or to be reviewed, 4 if tampered, 5 if it could not read
what it must, 2 if the command line is wrong, 8 if there is no repository.`,
		Example: "  interlock guard origin/main HEAD\n  interlock guard main task --protected 'deploy/**' --frozen '**/*_acceptance_test.go'\n  interlock guard main HEAD --output sarif > guard.sarif",
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if sarif = a.output == "sarif"; sarif {
				a.output = "json"
			}
			return a.settle()
		},
		RunE: does(func(ctx context.Context, args []string) error {
			if len(args) != 2 {
				return &failure{code: exitUsage, err: errors.New("expected two commits: BASE and HEAD"), do: "interlock guard BASE HEAD [--repo DIR] [--protected GLOB]..."}
			}
			report, err := guardRepository(ctx, repo, args[0], args[1], protected, frozen)
			if err != nil {
				return err
			}
			if sarif {
				err = a.print(report.SARIF(versionOf().Version), nil)
			} else {
				err = a.print(guardJSON(report), func(w io.Writer) { a.guardText(w, report) })
			}
			if err != nil {
				return err
			}
			if report.Verdict == guard.Tampered {
				return code(exitTampered)
			}
			return nil
		}),
	}
	c.Flags().StringVar(&repo, "repo", repo, "folder of the repository")
	c.Flags().StringArrayVar(&protected, "protected", nil, "glob of paths that may not change, as a pathspec of git; may be repeated")
	c.Flags().StringArrayVar(&frozen, "frozen", nil, "glob of tests that may not change; may be repeated")
	return c
}

// guardFinding is a finding whose file may be no text: then its bytes are in
// FileBytes.
type guardFinding struct {
	guard.Finding
	FileBytes string `json:"file_base64,omitempty"`
}

type guardReport struct {
	Verdict  guard.Verdict  `json:"verdict"`
	Findings []guardFinding `json:"findings"`
	Unread   []guard.Unread `json:"unread"`
}

func guardJSON(r guard.Report) guardReport {
	out := guardReport{Verdict: r.Verdict, Findings: make([]guardFinding, len(r.Findings)), Unread: r.Unread}
	for k, f := range r.Findings {
		out.Findings[k].Finding = f
		if !utf8.ValidString(f.File) {
			out.Findings[k].FileBytes = base64.StdEncoding.EncodeToString([]byte(f.File))
		}
	}
	if out.Unread == nil {
		out.Unread = []guard.Unread{}
	}
	return out
}

func (a *app) guardText(w io.Writer, r guard.Report) {
	word := string(r.Verdict)
	switch r.Verdict {
	case guard.Clean:
		word = a.out.green(word)
	case guard.Tampered:
		word = a.out.red(word)
	case guard.Review:
	}
	fmt.Fprintln(w, word)
	for _, f := range r.Findings {
		// A name may hold what a terminal would obey.
		name, test := f.File, f.Test
		if a.out.width > 0 {
			name, test = visible(name), visible(test)
		}
		at := name
		if f.Line > 0 {
			at += ":" + strconv.Itoa(f.Line)
		}
		if test != "" {
			test += ": "
		}
		fmt.Fprintf(w, "%s: %s: %s: %s%s\n", at, f.Verdict, f.Kind, test, f.Why)
	}
	for _, u := range r.Unread {
		fmt.Fprintf(w, "not read (%s): %d files; only their results can tell\n", u.Language, len(u.Files))
	}
}

func visible(s string) string {
	if q := strconv.Quote(s); len(q) != len(s)+2 {
		return q
	}
	return s
}

// guardRepository runs the guard on two commits of the repository at dir.
func guardRepository(ctx context.Context, dir, base, head string, protected, frozen []string) (guard.Report, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return guard.Report{}, err
	}
	client := git.Client{Dir: dir, Safe: []string{dir, filepath.Join(dir, ".git")}}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return guard.Report{}, missing("name one with --repo", "%s is no folder", dir)
	}
	gitDir, err := client.Line(ctx, "rev-parse", "--absolute-git-dir")
	if err != nil {
		return guard.Report{}, missing("name one with --repo", "%s is in no git repository: %s", dir, strings.TrimSpace(git.Stderr(err)))
	}
	r := &guardReader{client: client, ctx: ctx}
	for side, name := range []string{base, head} {
		if r.commits[side], err = resolveCommit(ctx, client, name); err != nil {
			return guard.Report{}, err
		}
	}
	unread := func(err error) (guard.Report, error) {
		return guard.Report{}, &failure{code: exitUnread, err: err, do: "nothing is said about a change that cannot be read whole"}
	}
	in := guard.Input{List: r.list, Read: r.read, Protected: protected, Frozen: frozen}
	if in.Changes, err = r.changes(); err != nil {
		return unread(err)
	}
	if len(protected) > 0 {
		in.Protected = append(slices.Clone(protected), guard.ProtectedByDefault()...)
		if in.Surroundings, err = r.surroundings(gitDir, guard.Match(in.Protected)); err != nil {
			return unread(err)
		}
	}
	defer r.close()
	report, err := guard.Judge(in)
	if err != nil {
		return unread(err)
	}
	return report, nil
}

// resolveCommit returns the id of a commit. A name that is both a branch and a
// tag is refused: whoever made the second one decides which it is.
func resolveCommit(ctx context.Context, client git.Client, name string) (string, error) {
	if name == "" || strings.HasPrefix(name, "-") {
		return "", usage("%q is no commit", name)
	}
	full := 0
	for _, ref := range []string{"refs/heads/" + name, "refs/tags/" + name, "refs/remotes/" + name} {
		if _, err := client.Line(ctx, "show-ref", "--verify", "--quiet", "--", ref); err == nil {
			full++
		}
	}
	if full > 1 && !strings.HasPrefix(name, "refs/") {
		return "", usage("%q is a branch and a tag: say refs/heads/%s or refs/tags/%s", name, name, name)
	}
	id, err := client.Line(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", name+"^{commit}")
	if err != nil {
		return "", usage("%q is no commit of the repository", name)
	}
	return id, nil
}

// guardReader reads the two trees by one git process.
type guardReader struct {
	client  git.Client
	ctx     context.Context
	commits [2]string
	objects [2]map[string]guard.Entry
	listed  [2][]guard.Entry

	in    *io.PipeWriter
	out   *bufio.Reader
	ended chan error
}

// changes lists the paths that differ.
func (r *guardReader) changes() ([]guard.Change, error) {
	out, err := r.client.Output(r.ctx, "diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames", "--no-ext-diff", "--no-textconv", "--ignore-submodules=none", "-O/dev/null", "--no-relative", r.commits[0], r.commits[1], "--")
	if err != nil {
		return nil, err
	}
	r.objects = [2]map[string]guard.Entry{{}, {}}
	fields := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	var all []guard.Change
	for k := 0; k+1 < len(fields); k += 2 {
		meta := strings.Fields(strings.TrimPrefix(fields[k], ":"))
		if len(meta) != 5 {
			return nil, fmt.Errorf("git diff-tree answered %q", fields[k])
		}
		c := guard.Change{Path: fields[k+1]}
		for side, at := range []**guard.Entry{&c.Base, &c.Head} {
			if mode := meta[side]; mode != "000000" {
				*at = &guard.Entry{Path: c.Path, Mode: mode, Object: meta[side+2]}
				r.objects[side][c.Path] = **at
			}
		}
		all = append(all, c)
	}
	return all, nil
}

// list lists a tree.
func (r *guardReader) list(side guard.Side) ([]guard.Entry, error) {
	if r.listed[side] != nil {
		return r.listed[side], nil
	}
	out, err := r.client.Output(r.ctx, "ls-tree", "-r", "-z", "--full-tree", r.commits[side])
	if err != nil {
		return nil, err
	}
	all := []guard.Entry{}
	for line := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		meta, name, ok := strings.Cut(line, "\t")
		f := strings.Fields(meta)
		if !ok || len(f) != 3 {
			continue
		}
		e := guard.Entry{Path: name, Mode: f[0], Object: f[2]}
		all = append(all, e)
		r.objects[side][name] = e
	}
	r.listed[side] = all
	return all, nil
}

// read returns the content of a file, at most a little more than the guard reads.
func (r *guardReader) read(side guard.Side, name string) ([]byte, error) {
	e, ok := r.objects[side][name]
	if !ok {
		if _, err := r.list(side); err != nil {
			return nil, err
		}
		e, ok = r.objects[side][name]
	}
	if !ok {
		return nil, fmt.Errorf("no such path in %s", r.commits[side])
	}
	if r.in == nil {
		stdin, feed := io.Pipe()
		answer, stdout := io.Pipe()
		r.in, r.out, r.ended = feed, bufio.NewReaderSize(answer, 64<<10), make(chan error, 1)
		go func() {
			err := r.client.Run(r.ctx, stdin, stdout, "cat-file", "--batch")
			if err != nil {
				err = fmt.Errorf("git cat-file: %w", err)
			} else {
				err = io.EOF
			}
			_ = stdout.CloseWithError(err)
			_ = stdin.CloseWithError(err)
			r.ended <- err
		}()
	}
	if _, err := io.WriteString(r.in, e.Object+"\n"); err != nil {
		return nil, err
	}
	header, err := r.out.ReadString('\n')
	if err != nil {
		return nil, err
	}
	f := strings.Fields(header)
	if len(f) != 3 {
		return nil, fmt.Errorf("object %s: %s", e.Object, strings.TrimSpace(header))
	}
	size, err := strconv.ParseInt(f[2], 10, 64)
	if err != nil {
		return nil, err
	}
	data := make([]byte, min(size, guard.MaxFile+1))
	if _, err := io.ReadFull(r.out, data); err != nil {
		return nil, err
	}
	if _, err := io.CopyN(io.Discard, r.out, size-int64(len(data))+1); err != nil {
		return nil, err
	}
	return data, nil
}

func (r *guardReader) close() {
	if r.in != nil {
		_ = r.in.Close()
		if err := <-r.ended; err != nil {
			return // what was read is whole, and nothing more is asked
		}
	}
}

// surroundings reads what of the repository no commit holds.
func (r *guardReader) surroundings(gitDir string, protected func(string) bool) (*guard.Surroundings, error) {
	s := &guard.Surroundings{}
	common, err := r.client.Line(r.ctx, "rev-parse", "--path-format=absolute", "--git-common-dir")
	if err != nil {
		return nil, err
	}
	hooks, err := os.ReadDir(filepath.Join(common, "hooks"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	for _, h := range hooks {
		info, err := os.Stat(filepath.Join(common, "hooks", h.Name()))
		if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 && !strings.HasSuffix(h.Name(), ".sample") {
			s.Hooks = append(s.Hooks, h.Name())
		}
	}
	top, err := r.client.Line(r.ctx, "rev-parse", "--path-format=absolute", "--show-toplevel")
	bare := err != nil
	if bare {
		top = common
	}
	for _, scope := range []string{"--local", "--worktree"} {
		if scope == "--worktree" && gitDir == common {
			continue
		}
		out, err := r.client.Output(r.ctx, "config", scope, "--includes", "--list", "--show-origin", "-z")
		if err != nil {
			return nil, err
		}
		f := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
		for k := 0; k+1 < len(f); k += 2 {
			file := strings.TrimPrefix(f[k], "file:")
			if !filepath.IsAbs(file) {
				file = filepath.Join(r.client.Dir, file)
			}
			if rel, err := filepath.Rel(top, file); err == nil {
				file = filepath.ToSlash(rel)
			}
			key, value, _ := strings.Cut(f[k+1], "\n")
			s.Settings = append(s.Settings, guard.Setting{File: file, Key: key, Value: value})
		}
	}
	if s.Attributes, err = fileIfAny(filepath.Join(common, "info", "attributes")); err != nil {
		return nil, err
	}
	sparse := false
	for _, c := range s.Settings {
		if strings.EqualFold(c.Key, "core.sparseCheckout") {
			sparse = strings.EqualFold(c.Value, "true") || c.Value == "1"
		}
	}
	if sparse {
		if s.Sparse, err = fileIfAny(filepath.Join(gitDir, "info", "sparse-checkout")); err != nil {
			return nil, err
		}
	} else if s.Sparse, err = fileIfAny(filepath.Join(gitDir, "info", "sparse-checkout")); err != nil {
		return nil, err
	}
	if bare {
		return s, nil
	}
	if at, err := r.client.Line(r.ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", "HEAD^{commit}"); err != nil || at != r.commits[1] {
		return s, nil
	}
	return s, r.workingTree(s, top, protected)
}

func fileIfAny(name string) (string, error) {
	data, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	return string(data), err
}

// workingTree compares the protected files with the commit, whatever the index says.
func (r *guardReader) workingTree(s *guard.Surroundings, top string, protected func(string) bool) error {
	entries, err := r.list(guard.Head)
	if err != nil {
		return err
	}
	tracked := map[string]bool{}
	for _, e := range entries {
		tracked[e.Path] = true
		if !protected(e.Path) || e.Mode == "160000" {
			continue
		}
		name := filepath.Join(top, filepath.FromSlash(e.Path))
		info, err := os.Lstat(name)
		switch {
		case errors.Is(err, os.ErrNotExist):
			s.Absent = append(s.Absent, e.Path)
			continue
		case err != nil:
			s.Differ = append(s.Differ, e.Path)
			continue
		}
		var data []byte
		link := info.Mode()&os.ModeSymlink != 0
		if link {
			target, err := os.Readlink(name)
			if err != nil {
				return err
			}
			data = []byte(target)
		} else if info.Mode().IsRegular() {
			if data, err = os.ReadFile(name); err != nil {
				return err
			}
		}
		same := link == (e.Mode == "120000") && (link || (info.Mode()&0o100 != 0) == (e.Mode == "100755")) && info.Mode()&(os.ModeDir|os.ModeNamedPipe|os.ModeSocket|os.ModeDevice) == 0
		if !same || blobID(data, len(e.Object)) != e.Object && blobID(bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")), len(e.Object)) != e.Object {
			s.Differ = append(s.Differ, e.Path)
		}
	}
	out, err := r.client.Output(r.ctx, "ls-files", "-z", "--others", "--full-name", "--", ":/")
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if name != "" && !tracked[name] && protected(name) {
			s.Planted = append(s.Planted, name)
		}
	}
	return nil
}

// blobID is the name that git gives to content, of hex digits as many as wanted.
func blobID(data []byte, digits int) string {
	header := "blob " + strconv.Itoa(len(data)) + "\x00"
	if digits == 64 {
		sum := sha256.Sum256(append([]byte(header), data...))
		return hex.EncodeToString(sum[:])
	}
	sum := sha1.Sum(append([]byte(header), data...)) // the name that git gives to content
	return hex.EncodeToString(sum[:])
}
