package workspace

import (
	"context"
	"fmt"
	"strings"

	"interlock/activities/git"
)

// Merged is the outcome of a merge that touched no files.
type Merged struct {
	Tree      string   // with conflict markers in it if there are conflicts
	Conflicts []string // paths
	UpToDate  bool     // ours contains theirs already: the tree is that of ours
}

// Merge merges two commits in the store. Two commits without a common ancestor are an Error of kind Unrelated.
func (s *Store) Merge(ctx context.Context, ours, theirs string) (Merged, error) {
	if err := checkIDs(ours, theirs); err != nil {
		return Merged{}, err
	}
	base, err := s.git.Line(ctx, "merge-base", ours, theirs)
	if git.ExitCode(err) == 1 {
		return Merged{}, errorf(Unrelated, nil, "commits %s and %s have no common ancestor", ours, theirs)
	}
	if err != nil {
		return Merged{}, err
	}
	if base == theirs {
		tree, err := s.git.Line(ctx, "rev-parse", "--verify", "--end-of-options", ours+"^{tree}")
		return Merged{Tree: tree, UpToDate: true}, err
	}
	// Exit code 1 means conflicts; the listing is on standard output all the same.
	out := &head{limit: 16 << 20, full: func() {}}
	err = s.git.Run(ctx, nil, out, "merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", ours, theirs)
	if code := git.ExitCode(err); code != 0 && code != 1 {
		return Merged{}, err
	}
	fields := git.Fields(out.buf.Bytes())
	if len(fields) == 0 || checkIDs(fields[0]) != nil || out.cut {
		return Merged{}, fmt.Errorf("git merge-tree answered %q", strings.Join(fields, " "))
	}
	m := Merged{Tree: fields[0]}
	if err != nil {
		m.Conflicts = fields[1:]
	}
	return m, nil
}

// Contains says whether the commit has the other one in its history, itself included.
func (s *Store) Contains(ctx context.Context, commit, other string) (bool, error) {
	if err := checkIDs(commit, other); err != nil {
		return false, err
	}
	_, err := s.git.Output(ctx, "merge-base", "--is-ancestor", other, commit)
	if git.ExitCode(err) == 1 {
		return false, nil
	}
	return err == nil, err
}

// Parent is the first parent of a commit, or "" if it has none.
func (s *Store) Parent(ctx context.Context, commit string) (string, error) {
	if err := checkIDs(commit); err != nil {
		return "", err
	}
	return readRef(ctx, s.git, commit+"^1")
}
