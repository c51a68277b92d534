package workspace

import (
	"context"
	"errors"
	"path"
	"strings"

	"interlock/activities/git"
)

// Base is a base that was resolved at the user's repository and fetched into the store.
type Base struct {
	Commit string
	Ref    string // refs/heads/… or refs/tags/…; "" if the base was given as a commit id
}

// Fetch resolves base at the user's repository, fetches it into the store, checks that a slice can work on it,
// and pins it under refs/interlock/<slice>/base. Base is the name of a branch or a tag, a full ref name, a full
// commit id, or "HEAD" for the default branch.
//
// A name that means two things, or that looks like an abbreviated hash, is refused: the full ref name is always
// accepted. See the kinds of Error for the other ways to fail.
func (s *Store) Fetch(ctx context.Context, slice, base string) (Base, error) {
	return s.fetch(ctx, slice, base, "base")
}

// Tip does what Fetch does and pins the result under refs/interlock/<slice>/tip: where the base stands now.
// A branch that was deleted meanwhile is an Error of kind NoSuchBase; the pinned base stays.
func (s *Store) Tip(ctx context.Context, slice, base string) (Base, error) {
	return s.fetch(ctx, slice, base, "tip")
}

// ByHand does what Fetch does for the branch on which a person has merged by hand, and pins the result under
// refs/interlock/<slice>/by-hand.
func (s *Store) ByHand(ctx context.Context, slice, branch string) (Base, error) {
	return s.fetch(ctx, slice, branch, "by-hand")
}

func (s *Store) fetch(ctx context.Context, slice, base, pin string) (Base, error) {
	ref, err := sliceRef(slice, pin)
	if err != nil {
		return Base{}, err
	}
	if s.source.shallow {
		return Base{}, errorf(Shallow, nil, "%s is a shallow clone, so merge bases cannot be found; run: git -C %s fetch --unshallow",
			s.where(), s.where())
	}
	remote, err := s.remoteGit(ctx)
	if err != nil {
		return Base{}, err
	}
	found, err := s.resolve(ctx, remote, base)
	if err != nil {
		return Base{}, err
	}
	return s.bring(ctx, slice, ref, base, found, func(refspec string) error {
		err := fetchInto(ctx, remote, s.source.location, refspec)
		if err != nil {
			err = s.classify(ctx, err, base)
		}
		return err
	})
}

func fetchInto(ctx context.Context, remote git.Client, location, refspec string) error {
	_, err := remote.Output(ctx, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance",
		"--no-recurse-submodules", "--force", "--", location, refspec)
	return err
}

// bring has what was found as base fetched into the store, inspects it, and pins it under ref.
func (s *Store) bring(ctx context.Context, slice, ref, base string, found Base, fetch func(refspec string) error) (Base, error) {
	// What is below a ref of ours is complete; an object alone may be the start of a fetch that was killed.
	pins, err := s.refs(ctx, slice)
	if err != nil {
		return Base{}, err
	}
	for _, name := range []string{"base", "tip"} {
		if pins["refs/interlock/"+slice+"/"+name] == found.Commit {
			return found, moveRef(ctx, s.git, ref, found.Commit, pins[ref])
		}
	}
	incoming := "refs/interlock/" + slice + "/incoming"
	what := found.Ref
	if what == "" {
		what = found.Commit
	}
	if err := fetch(what + ":" + incoming); err != nil {
		return Base{}, err
	}
	// The branch may have moved since it was looked at: what was fetched counts.
	commit, err := s.git.Line(ctx, "rev-parse", "--quiet", "--verify", "--end-of-options", incoming+"^{commit}")
	if err == nil {
		found.Commit = commit
		err = s.inspect(ctx, commit)
	} else if git.ExitCode(err) == 1 {
		err = errorf(NoSuchBase, nil, "base %q is no commit", base)
	}
	if err == nil {
		err = moveRef(ctx, s.git, ref, commit, pins[ref])
	}
	if held, lookErr := readRef(ctx, s.git, incoming); lookErr == nil && held != "" {
		err = errors.Join(err, moveRef(ctx, s.git, incoming, "", held))
	}
	if err != nil {
		return Base{}, err
	}
	return found, nil
}

// refs are the refs of a slice with what they point to.
func (s *Store) refs(ctx context.Context, slice string) (map[string]string, error) {
	out, err := s.git.Output(ctx, "for-each-ref", "--format=%(objectname) %(refname)", "refs/interlock/"+slice+"/")
	if err != nil {
		return nil, err
	}
	refs := map[string]string{}
	for _, line := range strings.Split(string(out), "\n") {
		if id, name, ok := strings.Cut(line, " "); ok {
			refs[name] = id
		}
	}
	return refs, nil
}

func (s *Store) resolve(ctx context.Context, remote git.Client, base string) (Base, error) {
	branch, tag := "refs/heads/"+base, "refs/tags/"+base
	isID := objectID.MatchString(base)
	full := strings.HasPrefix(base, "refs/heads/") || strings.HasPrefix(base, "refs/tags/")
	var ask []string
	switch {
	case base == "HEAD":
		ask = []string{"HEAD"}
	case full && validRef(base):
		ask = []string{base, base + "^{}"}
	case !full && validRef(branch) && !strings.HasPrefix(base, "-"):
		ask = []string{branch, tag, tag + "^{}"}
	default:
		return Base{}, errorf(NoSuchBase, nil, "base %q is no name of a branch or tag and no full commit id", base)
	}
	refs, err := lsRemote(ctx, remote, s.source.location, ask...)
	if err != nil {
		return Base{}, s.classify(ctx, err, base)
	}
	pick := func(ref string) Base {
		id := refs[ref]
		if peeled := refs[ref+"^{}"]; peeled != "" {
			id = peeled
		}
		return Base{Commit: id, Ref: ref}
	}
	_, isBranch := refs[branch]
	_, isTag := refs[tag]
	switch {
	case base == "HEAD" && refs["HEAD"] != "":
		if to := refs["symref HEAD"]; validRef(to) {
			return Base{Commit: refs["HEAD"], Ref: to}, nil
		}
		return Base{Commit: refs["HEAD"]}, nil
	case full && refs[base] != "":
		return pick(base), nil
	case isBranch && isTag:
		return Base{}, errorf(AmbiguousBase, nil, "base %q is a branch and a tag: write %s or %s", base, branch, tag)
	case (isBranch || isTag) && hashLike.MatchString(base):
		name := branch
		if isTag {
			name = tag
		}
		return Base{}, errorf(AmbiguousBase, nil, "base %q could be a name or a commit id: write %s, or the full id of the commit", base, name)
	case isBranch:
		return pick(branch), nil
	case isTag:
		return pick(tag), nil
	case isID:
		return Base{Commit: base}, nil
	case hashLike.MatchString(base):
		return Base{}, errorf(NoSuchBase, nil, "base %q looks like an abbreviated commit id: give all 40 digits", base)
	}
	return Base{}, errorf(NoSuchBase, nil, "there is no branch or tag %q in %s", base, s.where())
}

// lsRemote reads refs by their full names; "symref HEAD" is what HEAD points to.
func lsRemote(ctx context.Context, remote git.Client, location string, names ...string) (map[string]string, error) {
	out, err := remote.Output(ctx, append([]string{"ls-remote", "--quiet", "--symref", "--", location}, names...)...)
	if err != nil {
		return nil, err
	}
	refs := map[string]string{}
	for _, line := range strings.Split(string(out), "\n") {
		id, name, ok := strings.Cut(line, "\t")
		switch {
		case !ok:
		case strings.HasPrefix(id, "ref: "):
			refs["symref "+name] = strings.TrimPrefix(id, "ref: ")
		case objectID.MatchString(id):
			refs[name] = id
		}
	}
	return refs, nil
}

// classify reads git's messages (in English by LC_ALL=C) about a repository that could not be talked to.
func (s *Store) classify(ctx context.Context, err error, base string) error {
	if ctx.Err() != nil {
		return err
	}
	kind, what := transportKind(git.Stderr(err))
	where := s.where()
	switch kind {
	case NoSuchBase:
		return errorf(kind, err, "base %q is not in %s", base, where)
	case Unreachable:
		if s.source.gitDir == "" {
			return errorf(kind, err, "%s cannot be reached", where)
		}
		// A repository on this host does not come back by waiting.
		return errorf(NotARepository, err, "%s cannot be read", where)
	default:
		return errorf(kind, err, "%s %s", where, what)
	}
}

// transportKind is the class of a failed fetch, push or ls-remote, and what to say about the address.
func transportKind(stderr string) (Kind, string) {
	text := strings.ToLower(stderr)
	for _, m := range []struct {
		kind Kind
		what string
		any  []string
	}{
		{NoSuchBase, "", []string{"couldn't find remote ref", "not our ref", "unadvertised object"}},
		{Shallow, "is shallow, so merge bases cannot be found", []string{"shallow update not allowed"}},
		{ObjectFormat, "has an object format other than sha1", []string{"mismatched algorithms", "object format"}},
		{InvalidInput, "is not allowed: use a path, https or ssh", []string{"' not allowed", "unable to find remote helper"}},
		{Unauthorized, "refused the credentials, or none were found", []string{
			"authentication failed", "permission denied", "could not read username", "could not read password",
			"terminal prompts disabled", "host key verification failed", "error: 401", "error: 403",
		}},
		{NotARepository, "is no git repository, or one that these credentials cannot see", []string{
			"does not appear to be a git repository", "repository not found", "error: 404", "not a git repository",
			"dubious ownership", "' not found", "/ not found",
		}},
	} {
		for _, part := range m.any {
			if strings.Contains(text, part) {
				return m.kind, m.what
			}
		}
	}
	return Unreachable, ""
}

// inspect refuses a commit whose files cannot be worked on.
func (s *Store) inspect(ctx context.Context, commit string) error {
	list, err := s.List(ctx, commit)
	if err != nil {
		return err
	}
	var attributes []string
	for _, e := range list {
		if e.Mode == "160000" {
			return errorf(Submodule, nil, "the base contains the submodule %q; submodules are not supported yet", e.Path)
		}
		for _, part := range strings.Split(e.Path, "/") {
			if gitName(part) {
				return errorf(UnsafePath, nil, "the base contains %q, which git refuses to check out", e.Path)
			}
		}
		if path.Base(e.Path) == ".gitattributes" && e.Mode != "120000" {
			attributes = append(attributes, e.Path, e.ID)
		}
	}
	var ids []string
	for i := 1; i < len(attributes); i += 2 {
		ids = append(ids, attributes[i])
	}
	objects, err := s.Read(ctx, ids...)
	if err != nil {
		return err
	}
	for i, o := range objects {
		for _, line := range strings.Split(string(o.Bytes), "\n") {
			line = strings.TrimSpace(line)
			if !strings.HasPrefix(line, "#") && strings.Contains(line, "filter=lfs") {
				return errorf(LFS, nil, "the base keeps files in Git LFS (%s says %q); LFS is not supported yet", attributes[2*i], line)
			}
		}
	}
	return nil
}
