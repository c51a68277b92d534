// Package forge talks to code hosts: it opens, watches, merges and closes
// proposals (pull requests) so that each happens once, however often it is
// asked for and whatever becomes of the answers. Branches are git's, not the
// forge's: they are pushed and deleted with a lease by package workspace.
//
// Before an effect the world is read. After a doubtful answer it is read again,
// and the effect is completed, not applied, or unknown: see the kinds of Error.
package forge

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"interlock/machine"
	"interlock/slice"
)

// Config says which repository of which forge.
type Config struct {
	// Kind is ForgeGitHub or ForgeGitea.
	Kind slice.ForgeKind
	// BaseURL is where people see the forge; empty means GitHub.com.
	BaseURL string
	// Owner and Name are those of the repository.
	Owner, Name string
	// Token is sent to the host of BaseURL, and to nobody else.
	Token string
	// Cache, if not nil, remembers answers that the forge may say are still good.
	Cache *Cache
}

// Forge is one repository of a code host. It may be used by many goroutines.
type Forge struct {
	api   api
	where string
}

// api is what a code host can do. It does what it is told, as often as it is told.
type api interface {
	// check reads the repository itself.
	check(ctx context.Context) error
	// list returns the proposals of a branch of this repository, not of a fork, in any state.
	list(ctx context.Context, head string) ([]Proposal, error)
	get(ctx context.Context, number int) (Proposal, error)
	create(ctx context.Context, d Draft) (Proposal, error)
	comments(ctx context.Context, number int) ([]string, error)
	comment(ctx context.Context, number int, text string) error
	close(ctx context.Context, number int) error
	merge(ctx context.Context, number int, m Merge) error
	checks(ctx context.Context, commit string) ([]Check, error)
	// log returns the end of what a check has written, or nothing.
	log(ctx context.Context, c Check) ([]byte, error)
}

// State is that of a proposal.
type State string

// The states.
const (
	Open   State = "open"
	Closed State = "closed" // without a merge
	Merged State = "merged"
)

// Proposal is a pull request.
type Proposal struct {
	Number int
	URL    string
	State  State
	// Head is the commit that it proposes, as the forge knows it.
	Head string
	// Base is the branch that it is for.
	Base string
	Body string
	// MergeCommit is what a merged one became on its base.
	MergeCommit string
	// MergedBy is who merged it, if the forge says so.
	MergedBy string
	// Unready says that the forge does not know yet whether it can be merged.
	Unready bool
}

// Draft is a proposal that is to be.
type Draft struct {
	// Head and Base are names of branches, Commit what Head points to.
	Head, Base, Commit string
	Title, Body        string
	// Slice and Run mark it, so that a second try finds it.
	Slice string
	Run   int
}

// Merge says what is merged, and how.
type Merge struct {
	// Head is the commit that the proposal must be at.
	Head   string
	Method slice.MergeMethod
	Title  string
	Body   string
}

// Check is what CI says of a commit. Outcome is done, failed or unmeasured,
// or empty while it runs.
type Check struct {
	Name    string
	Outcome machine.Outcome
	// Why is the forge's own word for it.
	Why string
	URL string

	id   int64
	app  string
	at   time.Time
	text string
}

// New returns the forge of c.
func New(c Config) (*Forge, error) {
	w := &wire{token: c.Token, kind: c.Kind, cache: c.Cache, next: http.DefaultTransport}
	client := &http.Client{Transport: w, Timeout: callTimeout}
	f := &Forge{where: c.Owner + "/" + c.Name}
	var err error
	switch c.Kind {
	case slice.ForgeGitHub:
		f.api, err = newGitHub(c, client, w)
	case slice.ForgeGitea:
		f.api, err = newGitea(c, client, w)
	case slice.ForgeGit:
		err = fmt.Errorf("a plain git remote has no proposals")
	default:
		err = fmt.Errorf("%q is no kind of forge", c.Kind)
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// callTimeout bounds one call; lookTimeout the look after one whose own time had run out.
const (
	callTimeout = 30 * time.Second
	lookTimeout = 15 * time.Second
)

// Check reads the repository: it says early that token or address are wrong.
func (f *Forge) Check(ctx context.Context) error { return f.api.check(ctx) }

// Proposal reads one proposal.
func (f *Forge) Proposal(ctx context.Context, number int) (Proposal, error) {
	return f.api.get(ctx, number)
}

// Propose finds the proposal of the draft's branch or opens it. One that
// somebody closed in this run is an Error of kind WasClosed. Of several open
// ones that this slice made, the first is kept and the others are closed.
func (f *Forge) Propose(ctx context.Context, d Draft) (Proposal, error) {
	p, found, err := f.find(ctx, d)
	if err != nil || found {
		return p, err
	}
	made, err := f.api.create(ctx, d)
	if err != nil {
		return f.lookForProposal(ctx, d, err)
	}
	// Two that asked at the same time may both have been heard.
	if p, found, err := f.find(ctx, d); err == nil && found {
		return p, nil
	}
	return made, nil
}

// lookForProposal classes an attempt to open a proposal that failed with cause.
func (f *Forge) lookForProposal(ctx context.Context, d Draft, cause error) (Proposal, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTimeout)
	defer cancel()
	p, found, err := f.find(ctx, d)
	switch {
	case err == nil && found:
		return p, nil
	case KindOf(err) == WasClosed || KindOf(err) == Conflict:
		return Proposal{}, err
	case !doubtful(cause):
		return Proposal{}, cause
	case err != nil:
		return Proposal{}, errorf(Unknown, cause, "it is unknown whether a proposal of %s was opened in %s: it cannot be read (%v)", d.Head, f.where, err)
	}
	return Proposal{}, errorf(NotApplied, cause, "no proposal of %s was opened in %s", d.Head, f.where)
}

func (f *Forge) find(ctx context.Context, d Draft) (Proposal, bool, error) {
	all, err := f.api.list(ctx, d.Head)
	if err != nil {
		return Proposal{}, false, err
	}
	slices.SortFunc(all, func(a, b Proposal) int { return a.Number - b.Number })
	var kept *Proposal
	for i, p := range all {
		switch {
		case p.State == Open && kept == nil:
			kept = &all[i]
		case p.State == Open && p.has(markOf(d.Slice)):
			if err := f.closeOne(ctx, p, fmt.Sprintf("This is a duplicate of #%d.", kept.Number), "duplicate"); err != nil {
				return Proposal{}, false, err
			}
		}
	}
	if kept != nil {
		if kept.Base != d.Base {
			return *kept, false, errorf(Conflict, nil, "proposal %s of branch %s is for %s, not for %s: close it or give it the other base", kept.URL, d.Head, kept.Base, d.Base)
		}
		return *kept, true, nil
	}
	for i := len(all) - 1; i >= 0; i-- {
		p := all[i]
		switch {
		case p.State == Merged && p.Head == d.Commit:
			return p, true, nil
		case p.State == Closed && p.has(markOf(d.Slice)) && p.has(runMark(d.Run)):
			return p, false, errorf(WasClosed, nil, "proposal %s was closed by somebody", p.URL)
		}
	}
	return Proposal{}, false, nil
}

func markOf(id string) string      { return slice.TrailerSlice + ": " + id }
func runMark(run int) string       { return fmt.Sprintf("%s: %d", trailerRun, run) }
func noteMark(n string) string     { return "<!-- interlock: " + n + " -->" }
func signed(text, n string) string { return text + "\n\n" + noteMark(n) }

const trailerRun = "Interlock-Run"

// has reports whether the body has the line.
func (p Proposal) has(line string) bool {
	for l := range strings.Lines(p.Body) {
		if strings.TrimSpace(l) == line {
			return true
		}
	}
	return false
}

// Body returns the text of a proposal with the marks by which it is found.
func Body(text, id string, run int) string {
	return strings.TrimRight(text, "\n") + "\n\n" + markOf(id) + "\n" + runMark(run) + "\n"
}

// Comment says something on a proposal once: name tells what was said already.
func (f *Forge) Comment(ctx context.Context, number int, name, text string) error {
	said, err := f.said(ctx, number, name)
	if err != nil || said {
		return err
	}
	err = f.api.comment(ctx, number, signed(text, name))
	if err == nil || !doubtful(err) {
		return err
	}
	look, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTimeout)
	defer cancel()
	said, lookErr := f.said(look, number, name)
	switch {
	case said:
		return nil
	case lookErr != nil:
		return errorf(Unknown, err, "it is unknown whether proposal #%d of %s has its comment: it cannot be read (%v)", number, f.where, lookErr)
	}
	return errorf(NotApplied, err, "proposal #%d of %s has no comment", number, f.where)
}

func (f *Forge) said(ctx context.Context, number int, name string) (bool, error) {
	all, err := f.api.comments(ctx, number)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(all, func(c string) bool { return strings.Contains(c, noteMark(name)) }), nil
}

// Close closes every open proposal of the branch that the slice made, with a
// comment that says why, and returns all that it made, as they are afterwards.
func (f *Forge) Close(ctx context.Context, head, id, why string) ([]Proposal, error) {
	all, err := f.api.list(ctx, head)
	if err != nil {
		return nil, err
	}
	var ours []Proposal
	for _, p := range all {
		if !p.has(markOf(id)) {
			continue
		}
		if p.State == Open {
			if err := f.closeOne(ctx, p, why, "closed"); err != nil {
				return nil, err
			}
			if p, err = f.api.get(ctx, p.Number); err != nil {
				return nil, err
			}
		}
		ours = append(ours, p)
	}
	return ours, nil
}

// closeOne says why, closes, and looks.
func (f *Forge) closeOne(ctx context.Context, p Proposal, why, name string) error {
	if err := f.Comment(ctx, p.Number, name, why); err != nil {
		return err
	}
	err := f.api.close(ctx, p.Number)
	if err != nil && !doubtful(err) {
		return err
	}
	look, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTimeout)
	defer cancel()
	now, lookErr := f.api.get(look, p.Number)
	switch {
	case lookErr == nil && now.State != Open:
		return nil
	case lookErr != nil:
		return errorf(Unknown, err, "it is unknown whether %s was closed: it cannot be read (%v)", p.URL, lookErr)
	}
	return errorf(NotApplied, err, "%s was not closed", p.URL)
}

// Merge merges the proposal if it is at the commit m.Head, and returns it as
// it is afterwards; one that is merged already is returned as it is. An Error
// of kind HeadMoved, Refused or WasClosed is final; one of kind Unready or
// NotApplied may be tried again.
func (f *Forge) Merge(ctx context.Context, number int, m Merge) (Proposal, error) {
	p, err := f.api.get(ctx, number)
	if err != nil {
		return p, err
	}
	switch {
	case p.State == Merged:
		return p, nil
	case p.State == Closed:
		return p, errorf(WasClosed, nil, "proposal %s was closed by somebody", p.URL)
	case p.Head != m.Head:
		return p, errorf(HeadMoved, nil, "proposal %s is at commit %.10s, not at %.10s", p.URL, p.Head, m.Head)
	case p.Unready:
		return p, errorf(Unready, nil, "the forge is still looking whether %s can be merged", p.URL)
	}
	cause := f.api.merge(ctx, number, m)
	look, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTimeout)
	defer cancel()
	now, err := f.api.get(look, number)
	switch {
	case err == nil && now.State == Merged:
		return now, nil
	case err != nil && (cause == nil || doubtful(cause)):
		return p, errorf(Unknown, cause, "it is unknown whether %s was merged: it cannot be read (%v)", p.URL, err)
	case cause == nil || doubtful(cause):
		return now, errorf(NotApplied, cause, "%s was not merged", p.URL)
	case err == nil && now.State == Closed:
		return now, errorf(WasClosed, cause, "proposal %s was closed by somebody", p.URL)
	case err == nil && now.Head != m.Head:
		return now, errorf(HeadMoved, cause, "proposal %s is at commit %.10s, not at %.10s", p.URL, now.Head, m.Head)
	}
	return p, cause
}

// Checks returns what CI says of a commit, one of each name: the newest of one
// source, and the worst of several sources.
func (f *Forge) Checks(ctx context.Context, commit string) ([]Check, error) {
	all, err := f.api.checks(ctx, commit)
	if err != nil {
		return nil, err
	}
	type source struct{ name, app string }
	newest := map[source]Check{}
	for _, c := range all {
		key := source{c.Name, c.app}
		if had, ok := newest[key]; !ok || c.at.After(had.at) || c.at.Equal(had.at) && c.id > had.id {
			newest[key] = c
		}
	}
	worst := map[string]Check{}
	for key, c := range newest {
		if had, ok := worst[key.name]; !ok || badness(c) > badness(had) || badness(c) == badness(had) && c.app < had.app {
			worst[key.name] = c
		}
	}
	list := make([]Check, 0, len(worst))
	for _, c := range worst {
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b Check) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

func badness(c Check) int {
	return slices.Index([]machine.Outcome{machine.Done, machine.Unmeasured, "", machine.Failed}, c.Outcome)
}

// Log returns the end of what a check has written, at most so many bytes, or
// nothing if the forge keeps no log of it.
func (f *Forge) Log(ctx context.Context, c Check) ([]byte, error) {
	log, err := f.api.log(ctx, c)
	if KindOf(err) == NotFound || KindOf(err) == Refused {
		// Logs expire, and a token may be good for everything but logs.
		err = nil
	}
	if len(log) == 0 {
		log = []byte(c.text)
	}
	return log, err
}
