package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"interlock/activities/git"
)

// Change is one path that differs between two trees.
type Change struct {
	Path    string
	OldPath string // for a rename: the name before; else ""
	Status  string // A added, D deleted, M changed (content or mode), T other type, R renamed
	OldMode string // 000000 if it was not there
	NewMode string
	OldID   string
	NewID   string
	Added   int // lines; 0 for a binary file
	Deleted int
	Binary  bool
}

// ModeOnly says that the content is the same and only the mode differs.
func (c Change) ModeOnly() bool {
	return c.OldID == c.NewID && c.OldMode != c.NewMode && c.OldPath == ""
}

// No configuration, attribute or driver has a say in what differs.
var exactDiff = []string{"diff-tree", "-r", "--no-ext-diff", "--no-textconv", "--no-color", "--full-index", "--no-abbrev",
	"--ignore-submodules=none", "-M50%", "-l1000", "--diff-algorithm=myers"}

// Diff lists what differs between two commits or trees.
func (s *Store) Diff(ctx context.Context, a, b string) ([]Change, error) {
	if err := checkIDs(a, b); err != nil {
		return nil, err
	}
	out, err := s.git.Output(ctx, append(exactDiff[:len(exactDiff):len(exactDiff)], "-z", "--raw", "--numstat", a, b)...)
	if err != nil {
		return nil, err
	}
	fields := git.Fields(out)
	bad := func() ([]Change, error) { return nil, fmt.Errorf("git diff-tree answered %q", out) }
	var changes []Change
	i := 0
	// First the raw entries: ":100644 100755 id id R100", path and, for a rename, the new path.
	for i < len(fields) && strings.HasPrefix(fields[i], ":") {
		parts := strings.Fields(fields[i][1:])
		if len(parts) != 5 || i+1 >= len(fields) {
			return bad()
		}
		c := Change{OldMode: parts[0], NewMode: parts[1], OldID: parts[2], NewID: parts[3], Status: parts[4][:1], Path: fields[i+1]}
		i += 2
		if c.Status == "R" {
			if i >= len(fields) {
				return bad()
			}
			c.OldPath, c.Path = c.Path, fields[i]
			i++
		}
		changes = append(changes, c)
	}
	// Then the same in lines: "1\t2\tpath", or for a rename "1\t2\t", path, new path.
	for n := range changes {
		if i >= len(fields) {
			return bad()
		}
		parts := strings.SplitN(fields[i], "\t", 3)
		if len(parts) != 3 {
			return bad()
		}
		i++
		if parts[2] == "" {
			i += 2
		}
		if parts[0] == "-" {
			changes[n].Binary = true
			continue
		}
		var err1, err2 error
		changes[n].Added, err1 = strconv.Atoi(parts[0])
		changes[n].Deleted, err2 = strconv.Atoi(parts[1])
		if err1 != nil || err2 != nil {
			return bad()
		}
	}
	return changes, nil
}

// Patch is the difference between two commits or trees as text, at most limit bytes of it; cut says that there
// was more. It ends with a whole line.
func (s *Store) Patch(ctx context.Context, a, b string, limit int) (patch []byte, cut bool, err error) {
	if err := checkIDs(a, b); err != nil {
		return nil, false, err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	out := &head{limit: limit, full: func() { stop(errEnough) }}
	err = s.git.Run(ctx, nil, out, append(exactDiff[:len(exactDiff):len(exactDiff)],
		"-p", "--src-prefix=a/", "--dst-prefix=b/", a, b)...)
	if out.cut {
		whole := out.buf.Bytes()
		return whole[:bytes.LastIndexByte(whole, '\n')+1], true, nil
	}
	return out.buf.Bytes(), false, err
}

var errEnough = errors.New("enough was read")

// head keeps the first limit bytes written to it.
type head struct {
	limit int
	full  func()
	cut   bool
	buf   bytes.Buffer
}

func (h *head) Write(p []byte) (int, error) {
	if room := h.limit - h.buf.Len(); len(p) > room {
		h.buf.Write(p[:max(room, 0)])
		h.cut = true
		h.full()
		return len(p), nil
	}
	return h.buf.Write(p)
}

// Markers returns those of the paths whose file in the tree has a conflict's markers, "<<<<<<<", "=======" and
// ">>>>>>>", in this order at the beginning of lines.
func (s *Store) Markers(ctx context.Context, tree string, paths []string) ([]string, error) {
	names := make([]string, len(paths))
	for i, p := range paths {
		names[i] = tree + ":" + p
	}
	objects, err := s.Read(ctx, names...)
	if err != nil {
		return nil, err
	}
	var marked []string
	for i, o := range objects {
		if o.Type == "blob" && hasMarkers(o.Bytes) {
			marked = append(marked, paths[i])
		}
	}
	return marked, nil
}

func hasMarkers(content []byte) bool {
	want := []string{"<<<<<<< ", "=======", ">>>>>>> "}
	for line := range bytes.Lines(content) {
		line = bytes.TrimRight(line, "\r\n")
		ok := bytes.HasPrefix(line, []byte(want[0]))
		if want[0] == "=======" {
			ok = string(line) == want[0]
		}
		if ok {
			if want = want[1:]; len(want) == 0 {
				return true
			}
		}
	}
	return false
}
