package workspace

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Trailer is one "Key: value" line at the end of a commit message.
type Trailer struct{ Key, Value string }

// CommitRequest is everything that a commit consists of: the same request gives the same id.
type CommitRequest struct {
	Slice    string
	Parent   string // the last good commit
	Other    string // the second parent of a merge, or ""
	Tree     string
	Subject  string // one line
	Body     string // may be empty
	Trailers []Trailer
	Name     string // of the author, who is also the committer
	Email    string
	When     time.Time // to the second, in its own time zone
}

var trailerKey = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]*$`)

func (r CommitRequest) check() error {
	if err := checkIDs(r.Parent, r.Tree); err != nil {
		return err
	}
	if r.Other != "" {
		if err := checkIDs(r.Other); err != nil {
			return err
		}
	}
	if strings.TrimSpace(r.Subject) == "" || strings.ContainsAny(r.Subject, "\n\r\x00") || strings.ContainsRune(r.Body, 0) {
		return errorf(InvalidInput, nil, "commit subject %q must be one line of text, without NUL bytes in subject and body", r.Subject)
	}
	if len(r.Trailers) == 0 {
		return errorf(InvalidInput, nil, "a commit needs trailers, by which a second try finds it")
	}
	for _, t := range r.Trailers {
		if !trailerKey.MatchString(t.Key) || t.Value == "" || strings.ContainsAny(t.Value, "\n\r\x00") {
			return errorf(InvalidInput, nil, "trailer %q: %q must be one line", t.Key, t.Value)
		}
	}
	if r.Name == "" || r.Email == "" || strings.ContainsAny(r.Name+r.Email, "<>\n\x00") {
		return errorf(InvalidInput, nil, "author %q <%s> needs a name and an address", r.Name, r.Email)
	}
	if r.When.IsZero() {
		return errorf(InvalidInput, nil, "a commit needs a time")
	}
	return nil
}

func (r CommitRequest) message() string {
	var b strings.Builder
	b.WriteString(strings.TrimSpace(r.Subject) + "\n\n")
	if body := strings.Trim(r.Body, "\r\n"); body != "" {
		b.WriteString(body + "\n\n")
	}
	b.WriteString(r.trailers())
	return b.String()
}

func (r CommitRequest) trailers() string {
	var b strings.Builder
	for _, t := range r.Trailers {
		b.WriteString(t.Key + ": " + t.Value + "\n")
	}
	return b.String()
}

func (r CommitRequest) parents() []string {
	if r.Other == "" {
		return []string{r.Parent}
	}
	return []string{r.Parent, r.Other}
}

// Commit makes a commit of exactly the request's tree and moves refs/interlock/<slice>/good from the parent to
// it; the tree may be the parent's own. If good is at a commit with the same parents, tree and trailers already,
// that one is returned. If it is anywhere else, the error is of kind Moved.
func (s *Store) Commit(ctx context.Context, r CommitRequest) (string, error) {
	ref, err := sliceRef(r.Slice, "good")
	if err == nil {
		err = r.check()
	}
	if err != nil {
		return "", err
	}
	args := append(durable[:len(durable):len(durable)], "commit-tree", r.Tree)
	for _, p := range r.parents() {
		args = append(args, "-p", p)
	}
	date := fmt.Sprintf("@%d %s", r.When.Unix(), r.When.Format("-0700"))
	c := s.git.With("GIT_AUTHOR_NAME="+r.Name, "GIT_AUTHOR_EMAIL="+r.Email, "GIT_AUTHOR_DATE="+date,
		"GIT_COMMITTER_NAME="+r.Name, "GIT_COMMITTER_EMAIL="+r.Email, "GIT_COMMITTER_DATE="+date)
	out, err := c.Feed(ctx, []byte(r.message()), append(args, "-F", "-")...)
	if err != nil {
		return "", err
	}
	id := strings.TrimSpace(string(out))
	err = moveRef(ctx, s.git, ref, id, r.Parent)
	if KindOf(err) != Moved {
		return id, err
	}
	// Another time, but the same commit otherwise: the first try had its effect.
	held, lookErr := s.read(ctx, ref)
	if lookErr == nil && held[0].Type == "commit" && r.describes(held[0].Bytes) {
		return held[0].ID, nil
	}
	return "", err
}

// describes compares with a commit object all but who and when, subject and body.
func (r CommitRequest) describes(object []byte) bool {
	header, message, ok := strings.Cut(string(object), "\n\n")
	if !ok || !strings.HasSuffix(message, "\n\n"+r.trailers()) {
		return false
	}
	var tree string
	var parents []string
	for _, line := range strings.Split(header, "\n") {
		if id, ok := strings.CutPrefix(line, "tree "); ok {
			tree = id
		} else if id, ok := strings.CutPrefix(line, "parent "); ok {
			parents = append(parents, id)
		}
	}
	return tree == r.Tree && slices.Equal(parents, r.parents())
}
