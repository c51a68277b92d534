package activities

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"interlock/activities/agent"
	"interlock/activities/workspace"
	"interlock/machine"
	"interlock/slice"
)

// refMarked keeps the tree that a reconciler is given.
const refMarked = "marked"

// What a file may have that an agent resolves, and how much of what is wrong
// is told.
const (
	mostConflictBytes = 4 << 20
	mostProblems      = 3
)

// resolved is how a reconciler's work ended, with the tree if it was accepted.
type resolved struct {
	slice.Ended
	Session string `json:"session,omitempty"`
	Tree    string `json:"tree,omitempty"`
}

// resolve has the conflicts between the last good commit and the tip resolved.
// The reconciler works in a view with every conflict marked, also those that git
// only reports. Of what it leaves there, the files of conflicts alone are taken,
// and only if the conflicts are really resolved.
func (a *Activities) resolve(ctx context.Context, w *work, in slice.ReconcileIn, tip string) (resolved, error) {
	end := func(outcome machine.Outcome, format string, args ...any) resolved {
		return resolved{Ended: w.ended(outcome, fmt.Sprintf("%s moved to %.10s, and ", in.BaseName, tip)+fmt.Sprintf(format, args...))}
	}
	tree, conflicts, err := w.conflicts(ctx, tip)
	if err != nil {
		return resolved{}, err
	}
	terms, err := w.terms(ctx)
	if err != nil {
		return resolved{}, err
	}
	var asked, decided []conflict
	for _, c := range conflicts {
		if c.decided() {
			decided = append(decided, c)
		} else {
			asked = append(asked, c)
		}
	}
	tree, err = w.store.Graft(ctx, w.Slice, refMarked, tree, append(marked(asked, w.Good, tip), modes(decided)...))
	if err != nil {
		return resolved{}, err
	}
	if len(asked) == 0 {
		out := end(machine.Done, "it was merged")
		out.Tree = tree
		return out, nil
	}
	who := terms.Policy.Agents.Reconciler
	if who == nil {
		return end(machine.Failed, "both sides changed %s", list(paths(asked))), nil
	}
	for _, c := range asked {
		if why := c.unfit(); why != "" {
			return end(machine.Unmeasured, "no agent can be asked to merge %q: %s", c.files[0].Path, why), nil
		}
	}
	view, err := w.store.View(w.Slice, viewMerge)
	if err != nil {
		return resolved{}, err
	}
	brief := agent.ReconcileBrief{
		Head: w.head(terms), Tasks: terms.Spec.Tasks, Base: in.Base, Commit: in.Good, Tip: tip,
		Conflicts: names(asked), Messages: messages(asked), Attempt: max(in.Attempt, 1), Failed: in.Unmerged,
	}
	out, err := once(ctx, a, in.Header, func(t *tab) (resolved, error) {
		marked := func() error { return view.Move(ctx, tree, in.Good) }
		answer, err := a.call(ctx, w, t, terms.Policy, question{who: *who, brief: brief, dir: view.Dir(), terms: in.Calls, session: in.Session, before: marked})
		if err != nil {
			return resolved{}, err
		}
		out := resolved{Ended: w.answered(answer), Session: answer.Session}
		t.charge(&out.Ended)
		if out.Outcome != machine.Done {
			return out, nil
		}
		tell(ctx, "looking at the resolution")
		take, found, err := w.examine(ctx, view, asked)
		if err != nil {
			return out, err
		}
		if out.Outcome = found.outcome; out.Outcome != machine.Done {
			out.Why = found.why
			return out, nil
		}
		out.Why = fmt.Sprintf("%s moved to %.10s and was merged; conflicts in %s were resolved", in.BaseName, tip, list(names(asked)))
		out.Tree, err = w.store.Graft(ctx, w.Slice, refMarked, tree, take)
		return out, err
	})
	out.Ack = w.ack
	return out, err
}

// finding is what becomes of a resolution.
type finding struct {
	outcome machine.Outcome
	why     string
}

// examine takes the files of the conflicts, and says whether they resolve them.
func (w *work) examine(ctx context.Context, view *workspace.View, asked []conflict) ([]workspace.Replacement, finding, error) {
	drift, err := view.Compare(ctx)
	if workspace.KindOf(err) == workspace.NotFound {
		return nil, finding{machine.Discarded, "the reconciler removed the files that it was given"}, nil
	}
	if err != nil {
		return nil, finding{}, err
	}
	mine := names(asked)
	outside := drift.Added
	for _, p := range drift.Changed {
		if !slices.Contains(mine, p) {
			outside = append(outside, p)
		}
	}
	if len(outside) > 0 {
		slices.Sort(outside)
		return nil, finding{machine.Discarded, "the reconciler changed files that were not in conflict: " + list(quoted(outside))}, nil
	}
	if len(drift.Changed) == 0 {
		return nil, finding{machine.Failed, "the reconciler answered, but changed nothing: conflicts are left in " + list(quoted(mine))}, nil
	}
	taken, err := view.Take(ctx, mine, mostConflictBytes)
	if err != nil {
		return nil, finding{}, err
	}
	files := make(map[string]workspace.Taken, len(taken))
	for _, t := range taken {
		files[t.Path] = t
	}
	var take []workspace.Replacement
	var problems []string
	for _, c := range asked {
		put, wrong := c.accept(files)
		take = append(take, put...)
		problems = append(problems, wrong...)
	}
	if len(problems) > 0 {
		more := ""
		if n := len(problems) - mostProblems; n > 0 {
			problems, more = problems[:mostProblems], fmt.Sprintf("; and %d more", n)
		}
		return nil, finding{machine.Failed, "the conflicts are not resolved: " + strings.Join(problems, "; ") + more}, nil
	}
	return take, finding{outcome: machine.Done}, nil
}

// conflict is a conflict with what its files have on each side.
type conflict struct {
	workspace.Conflict
	files []version
}

// version is one file of a conflict. A side that has no such file has nil.
type version struct {
	workspace.ConflictFile
	base, ours, theirs, merged []byte
}

// conflicts reads the conflicts between the last good commit and the tip.
func (w *work) conflicts(ctx context.Context, tip string) (tree string, all []conflict, err error) {
	tree, found, err := w.store.Conflicts(ctx, w.Good, tip)
	if err != nil {
		return "", nil, err
	}
	var ids []string
	var into []*[]byte
	read := func(to *[]byte, id string) {
		ids, into = append(ids, id), append(into, to)
	}
	for _, c := range found {
		files := make([]version, len(c.Files))
		for i, f := range c.Files {
			files[i].ConflictFile = f
			v := &files[i]
			for _, side := range []struct {
				to     *[]byte
				e      workspace.Entry
				commit string
			}{{&v.base, f.Base, ""}, {&v.ours, f.Ours, w.Good}, {&v.theirs, f.Theirs, tip}, {&v.merged, f.Merged, ""}} {
				if side.e.ID == "" || !v.plain() {
					continue
				}
				read(side.to, side.e.ID)
				if side.commit != "" {
					// Of a file that both sides renamed, git gives what it has merged for a side.
					read(side.to, side.commit+":"+f.Path)
				}
			}
		}
		all = append(all, conflict{c, files})
	}
	objects, err := w.store.Read(ctx, ids...)
	for i, o := range objects {
		if o.Type == "blob" {
			*into[i] = append([]byte{}, o.Bytes...)
		}
	}
	return tree, all, err
}

const (
	modeFile       = "100644"
	modeExecutable = "100755"
)

// names returns the paths that are to be resolved.
func names(all []conflict) (paths []string) {
	for _, c := range all {
		for _, f := range c.files {
			if f.Merged.ID != "" {
				paths = append(paths, f.Path)
			}
		}
	}
	return paths
}

// paths returns all paths of conflicts, as git names them.
func paths(all []conflict) (paths []string) {
	for _, c := range all {
		for _, f := range c.files {
			paths = append(paths, f.Path)
		}
	}
	return paths
}

func quoted(paths []string) []string {
	out := make([]string, len(paths))
	for i, p := range paths {
		out[i] = fmt.Sprintf("%q", p)
	}
	return out
}

func messages(all []conflict) (lines []string) {
	for _, c := range all {
		lines = append(lines, c.Messages...)
	}
	return lines[:min(len(lines), mostConflicts)]
}

// decided reports whether there is nothing to ask: the sides differ in the
// mode alone.
func (c conflict) decided() bool {
	f := c.files[0]
	return len(c.files) == 1 && f.Ours.ID == f.Theirs.ID && f.Ours.ID == f.Merged.ID && f.plain()
}

// plain reports whether every side has a regular file, or none. What else
// there is are symbolic links: a base with a submodule is refused before.
func (f version) plain() bool {
	for _, e := range []workspace.Entry{f.Base, f.Ours, f.Theirs} {
		if e.ID != "" && e.Mode != modeFile && e.Mode != modeExecutable {
			return false
		}
	}
	return true
}

// mode is no agent's to say: a side that changed it has its way, and a new file
// can be executed if either side wants it.
func (f version) mode() string {
	switch {
	case f.Ours.ID == "":
		return f.Theirs.Mode
	case f.Theirs.ID == "" || f.Theirs.Mode == f.Base.Mode:
		return f.Ours.Mode
	case f.Ours.Mode == f.Base.Mode:
		return f.Theirs.Mode
	}
	return max(f.Ours.Mode, f.Theirs.Mode)
}

// unfit says why no agent is asked, because what it would do could not be
// looked at line by line.
func (c conflict) unfit() string {
	for _, f := range c.files {
		if !f.plain() {
			return "it is a symbolic link on one side"
		}
		for _, content := range [][]byte{f.base, f.ours, f.theirs} {
			if bytes.IndexByte(content[:min(len(content), 8000)], 0) >= 0 {
				return "it is binary"
			}
			if len(content) > mostConflictBytes {
				return fmt.Sprintf("it has more than %d bytes", mostConflictBytes)
			}
		}
	}
	for _, k := range c.Kinds {
		if k == "CONFLICT (file/directory)" {
			return "it is a file on one side and a folder on the other"
		}
	}
	if len(names([]conflict{c})) == 0 {
		return "the merge has no file of it"
	}
	return ""
}

// marked are the files in which a conflict is not to be seen, as of one that a
// side has deleted, whole between markers.
func marked(all []conflict, ours, theirs string) (put []workspace.Replacement) {
	for _, c := range all {
		if c.unfit() != "" {
			continue
		}
		for _, f := range c.files {
			if f.Merged.ID == "" || leftMarkers(c.side(baseSide), c.side(ourSide), c.side(theirSide), f.merged) {
				continue
			}
			content := f.merged
			if len(content) > 0 && content[len(content)-1] != '\n' {
				content = append(content, '\n')
			}
			before, after := content, []byte(nil)
			if f.Ours.ID == "" {
				before, after = nil, content
			}
			var b bytes.Buffer
			fmt.Fprintf(&b, "<<<<<<< %s\n%s=======\n%s>>>>>>> %s\n", ours, before, after, theirs)
			put = append(put, workspace.Replacement{Path: f.Path, Mode: f.mode(), Content: b.Bytes()})
		}
	}
	return put
}

func modes(decided []conflict) (put []workspace.Replacement) {
	for _, c := range decided {
		f := c.files[0]
		put = append(put, workspace.Replacement{Path: f.Path, Mode: f.mode(), Content: f.merged})
	}
	return put
}

func baseSide(f version) []byte  { return f.base }
func ourSide(f version) []byte   { return f.ours }
func theirSide(f version) []byte { return f.theirs }

// side joins what the files of a conflict have on one side; nil if it has none.
func (c conflict) side(of func(version) []byte) []byte {
	var all []byte
	for _, f := range c.files {
		if content := of(f); content != nil {
			all = joined(all, content)
		}
	}
	return all
}

func joined(all, content []byte) []byte {
	if len(all) > 0 && all[len(all)-1] != '\n' {
		all = append(all, '\n')
	}
	return append(append([]byte{}, all...), content...)
}

// accept returns what is to be put into the merged tree, or what is wrong.
func (c conflict) accept(files map[string]workspace.Taken) (put []workspace.Replacement, wrong []string) {
	r := resolution{base: c.side(baseSide), ours: c.side(ourSide), theirs: c.side(theirSide)}
	r.oursGone, r.theirsGone = r.ours == nil, r.theirs == nil
	left := 0
	for _, path := range names([]conflict{c}) {
		f := c.files[slices.IndexFunc(c.files, func(f version) bool { return f.Path == path })]
		t := files[path]
		switch {
		case t.Refused != "":
			wrong = append(wrong, fmt.Sprintf("%q: %s", path, t.Refused))
		case t.Missing && f.Ours.ID != "" && f.Theirs.ID != "":
			wrong = append(wrong, fmt.Sprintf("%q was deleted, but both sides have it", path))
		case t.Missing:
			put = append(put, workspace.Replacement{Path: path})
		case leftMarkers(r.base, r.ours, r.theirs, t.Content):
			wrong = append(wrong, fmt.Sprintf("%q: conflict markers are left", path))
		case bytes.IndexByte(t.Content, 0) >= 0:
			wrong = append(wrong, fmt.Sprintf("%q is binary now", path))
		default:
			left++
			r.result = joined(r.result, t.Content)
			put = append(put, workspace.Replacement{Path: path, Mode: f.mode(), Content: t.Content})
		}
	}
	if len(wrong) > 0 {
		return nil, wrong
	}
	if left == 0 {
		if !r.oursGone && !r.theirsGone {
			wrong = append(wrong, fmt.Sprintf("%s were deleted, but both sides have one of them", list(quoted(names([]conflict{c})))))
		}
		return put, wrong
	}
	for _, l := range losses(r) {
		wrong = append(wrong, fmt.Sprintf("%q: %s", names([]conflict{c})[0], l))
	}
	return put, wrong
}
