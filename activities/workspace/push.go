package workspace

import (
	"context"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"interlock/activities/git"
)

// lookTimeout bounds the look at a remote after a push whose own time had run out.
const lookTimeout = 15 * time.Second

// PushResult says how a branch came to be where it is.
type PushResult struct {
	Already bool // it was there before this call
}

// Push makes the branch of the remote at location point to the commit, if it points to expect now ("": if it
// does not exist). It looks first, and looks again after a failure: the error is of kind Moved if the branch is
// somewhere else, Rejected or Unauthorized if the other side refused for good, NotApplied if nothing has
// happened and the same call may be repeated, and Unknown if it cannot be told.
func (s *Store) Push(ctx context.Context, location, branch, commit, expect string) (PushResult, error) {
	if err := checkIDs(commit); err != nil {
		return PushResult{}, err
	}
	return s.push(ctx, location, branch, commit, expect)
}

// DeleteBranch removes the branch from the remote at location if it points to expect. One that is not there is
// success. Errors are those of Push.
func (s *Store) DeleteBranch(ctx context.Context, location, branch, expect string) (PushResult, error) {
	if err := checkIDs(expect); err != nil {
		return PushResult{}, err
	}
	return s.push(ctx, location, branch, "", expect)
}

func (s *Store) push(ctx context.Context, location, branch, commit, expect string) (PushResult, error) {
	ref := "refs/heads/" + branch
	if !validRef(ref) || strings.HasPrefix(branch, "-") {
		return PushResult{}, errorf(InvalidInput, nil, "%q is no name for a branch", branch)
	}
	if expect != "" {
		if err := checkIDs(expect); err != nil {
			return PushResult{}, err
		}
	}
	if isLocal(location) && !filepath.IsAbs(strings.TrimPrefix(location, "file://")) {
		return PushResult{}, errorf(InvalidInput, nil, "remote %q must be an absolute path or an address", location)
	}
	where := git.Redact(location)
	remote, err := s.remoteGit(ctx)
	if err != nil {
		return PushResult{}, err
	}
	var inTheWay string
	look := func(ctx context.Context) (string, error) {
		refs, err := lsRemote(ctx, remote, location, append(above(ref), ref, ref+"/*")...)
		inTheWay = rival(ref, slices.Sorted(maps.Keys(refs)))
		return refs[ref], err
	}
	moved := func(have string, err error) error {
		e := errorf(Moved, err, "branch %s of %s was moved by somebody else: it is at %s, expected %s",
			branch, where, orNothing(have), orNothing(expect))
		e.Have = have
		return e
	}
	have, err := look(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return PushResult{}, err
		}
		kind, what := transportKind(git.Stderr(err))
		if kind == Unreachable {
			return PushResult{}, errorf(NotApplied, err, "%s cannot be reached, nothing was pushed", where)
		}
		return PushResult{}, errorf(kind, err, "%s %s", where, what)
	}
	if have == commit {
		return PushResult{Already: true}, nil
	}
	if have != expect {
		return PushResult{}, moved(have, nil)
	}
	if inTheWay != "" && commit != "" {
		return PushResult{}, blocked(branch, where, inTheWay)
	}
	_, err = remote.Output(ctx, "push", "--no-progress", "--no-verify", "--no-signed", "--no-follow-tags",
		"--recurse-submodules=no", "--force-with-lease="+ref+":"+expect, "--", location, commit+":"+ref)
	if err == nil {
		return PushResult{}, nil
	}
	// The answer may have been lost on the way: only the remote can tell.
	again, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTimeout)
	defer cancel()
	have, lookErr := look(again)
	switch {
	case lookErr != nil:
		return PushResult{}, errorf(Unknown, err, "it is unknown whether branch %s of %s was pushed: it cannot be read (%s)", branch, where,
			strings.TrimSpace(git.Stderr(lookErr)))
	case have == commit:
		return PushResult{}, nil
	case have != expect:
		return PushResult{}, moved(have, err)
	}
	if kind, what := transportKind(git.Stderr(err)); kind == Unauthorized {
		return PushResult{}, errorf(kind, err, "%s %s", where, what)
	}
	if refusedForGood(git.Stderr(err)) {
		return PushResult{}, errorf(Rejected, err, "%s refused branch %s", where, branch)
	}
	return PushResult{}, errorf(NotApplied, err, "branch %s of %s was not pushed", branch, where)
}

// RemoteTip does what Tip does for a branch of the remote at location, which is where the slice is merged.
func (s *Store) RemoteTip(ctx context.Context, slice, location, branch string) (string, error) {
	pin, err := sliceRef(slice, "tip")
	if err != nil {
		return "", err
	}
	id, err := s.RemoteBranch(ctx, location, branch)
	if err != nil {
		return "", err
	}
	if id == "" {
		return "", errorf(NoSuchBase, nil, "there is no branch %q in %s", branch, git.Redact(location))
	}
	remote, err := s.remoteGit(ctx)
	if err != nil {
		return "", err
	}
	found, err := s.bring(ctx, slice, pin, branch, Base{Commit: id, Ref: "refs/heads/" + branch}, func(refspec string) error {
		return unread(ctx, fetchInto(ctx, remote, location, refspec), location)
	})
	return found.Commit, err
}

// RemoteBranch reads where the branch of the remote at location is now; "" if it is not there.
func (s *Store) RemoteBranch(ctx context.Context, location, branch string) (string, error) {
	ref := "refs/heads/" + branch
	if !validRef(ref) || strings.HasPrefix(branch, "-") {
		return "", errorf(InvalidInput, nil, "%q is no name for a branch", branch)
	}
	remote, err := s.remoteGit(ctx)
	if err != nil {
		return "", err
	}
	refs, err := lsRemote(ctx, remote, location, ref)
	return refs[ref], unread(ctx, err, location)
}

// unread classes a failed look at a remote.
func unread(ctx context.Context, err error, location string) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	kind, what := transportKind(git.Stderr(err))
	if kind == Unreachable {
		what = "cannot be reached"
	}
	return errorf(kind, err, "%s %s", git.Redact(location), what)
}

// above are the refs whose names are folders of ref's name.
func above(ref string) (list []string) {
	for dir := path.Dir(ref); dir != "refs/heads"; dir = path.Dir(dir) {
		list = append(list, dir)
	}
	return list
}

// rival is one of the refs that git cannot have beside ref: one of the names is a folder of the other. Or "".
func rival(ref string, refs []string) string {
	for _, name := range refs {
		if strings.HasPrefix(name, ref+"/") || strings.HasPrefix(ref, name+"/") {
			return name
		}
	}
	return ""
}

func blocked(branch, where, by string) error {
	return errorf(Rejected, nil, "branch %s cannot be made in %s: %s is there, and git has no branch whose name is a folder of another one's; rename that one",
		branch, where, by)
}

// refusedForGood: the other side's own word; "failed to update ref" and "cannot lock ref" may pass.
func refusedForGood(stderr string) bool {
	for _, part := range []string{"hook declined", "protected branch", "GH006", "GH013", "GH001", "not allowed to",
		"denyCurrentBranch", "branch is currently checked out", "deny updating", "deletion prohibited", "exceeds", "funny refname"} {
		if strings.Contains(stderr, part) {
			return true
		}
	}
	return false
}

func orNothing(id string) string {
	if id == "" {
		return "nothing"
	}
	return id
}

// RemoteURL is where the slice's repository pushes to by its remote of that name, usually "origin"; "" if it
// has no such remote. For a repository that is not on this host it is the repository's own address.
func (s *Store) RemoteURL(ctx context.Context, name string) (string, error) {
	if s.source.gitDir == "" {
		return s.source.location, nil
	}
	c := s.sourceGit()
	out, err := c.Line(ctx, "remote", "get-url", "--push", "--", name)
	if git.ExitCode(err) == 2 {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if isLocal(out) && !strings.HasPrefix(out, "file://") && !filepath.IsAbs(out) {
		out = filepath.Join(strings.TrimSuffix(s.source.gitDir, "/.git"), out)
	}
	return out, nil
}

func (s *Store) sourceGit() git.Client {
	return git.Client{GitDir: s.source.gitDir, Safe: append([]string{s.dir}, s.source.safe...)}
}

// LocalBranch makes refs/heads/<branch> in the slice's own repository on this host point to the commit, if it
// points to expect now ("": if it does not exist). A branch that is checked out in one of its worktrees is an
// Error of kind CheckedOut, one at a third commit of kind Moved. No file of the repository is touched.
func (s *Store) LocalBranch(ctx context.Context, branch, commit, expect string) error {
	ref := "refs/heads/" + branch
	if !validRef(ref) || strings.HasPrefix(branch, "-") {
		return errorf(InvalidInput, nil, "%q is no name for a branch", branch)
	}
	if err := checkIDs(commit); err != nil {
		return err
	}
	if s.source.gitDir == "" {
		return errorf(InvalidInput, nil, "%s is not on this host: push the branch instead", s.where())
	}
	c := s.sourceGit()
	have, err := readRef(ctx, c, ref)
	if err != nil {
		return err
	}
	if have == commit {
		return nil
	}
	if have != expect {
		e := errorf(Moved, nil, "branch %s is at %s, expected %s", branch, orNothing(have), orNothing(expect))
		e.Have = have
		return e
	}
	near, err := c.Output(ctx, append([]string{"for-each-ref", "--format=%(refname)", ref}, above(ref)...)...)
	if err != nil {
		return err
	}
	if inTheWay := rival(ref, strings.Fields(string(near))); inTheWay != "" {
		return blocked(branch, s.where(), inTheWay)
	}
	out, err := c.Output(ctx, "worktree", "list", "--porcelain", "-z")
	if err != nil {
		return err
	}
	worktree := ""
	for _, f := range git.Fields(out) {
		if path, ok := strings.CutPrefix(f, "worktree "); ok {
			worktree = path
		}
		if f == "branch "+ref {
			return errorf(CheckedOut, nil, "branch %s is checked out in %s: switch to another branch there", branch, worktree)
		}
	}
	local, err := c.Remote(ctx, "", s.safeFile())
	if err != nil {
		return err
	}
	if _, err := local.Output(ctx, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance",
		"--no-recurse-submodules", "--", s.dir, commit); err != nil {
		return fmt.Errorf("objects of branch %s could not be brought into %s: %w", branch, s.source.gitDir, err)
	}
	return moveRef(ctx, c, ref, commit, expect)
}
