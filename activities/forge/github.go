package forge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/go-github/v75/github"

	"interlock/machine"
	"interlock/slice"
)

type gitHub struct {
	client      *github.Client
	owner, name string
	// plain has no token: logs are kept elsewhere.
	plain *http.Client
}

func newGitHub(c Config, client *http.Client, w *wire) (*gitHub, error) {
	g := &gitHub{client: github.NewClient(client), owner: c.Owner, name: c.Name, plain: &http.Client{Timeout: callTimeout}}
	if base := strings.TrimSuffix(c.BaseURL, "/"); base != "" && base != "https://github.com" {
		var err error
		if g.client, err = g.client.WithEnterpriseURLs(base, base); err != nil {
			return nil, fmt.Errorf("base_url %q: %w", c.BaseURL, err)
		}
	}
	// Limits are read by the wire.
	g.client.DisableRateLimitCheck = true
	w.host = g.client.BaseURL.Host
	return g, nil
}

// mostPages bounds every list, so that a server that never ends its pages does not keep a worker.
const mostPages = 30

func (g *gitHub) check(ctx context.Context) error {
	_, _, err := g.client.Repositories.Get(ctx, g.owner, g.name)
	return err
}

func (g *gitHub) list(ctx context.Context, head string) ([]Proposal, error) {
	opts := &github.PullRequestListOptions{State: "all", Head: g.owner + ":" + head, ListOptions: github.ListOptions{PerPage: 100}}
	var all []Proposal
	for range mostPages {
		page, resp, err := g.client.PullRequests.List(ctx, g.owner, g.name, opts)
		if err != nil {
			return nil, err
		}
		for _, p := range page {
			if p.GetHead().GetRef() == head && strings.EqualFold(p.GetHead().GetRepo().GetFullName(), g.owner+"/"+g.name) {
				all = append(all, fromGitHub(p))
			}
		}
		if opts.Page = resp.NextPage; opts.Page == 0 {
			break
		}
	}
	return all, nil
}

func fromGitHub(p *github.PullRequest) Proposal {
	out := Proposal{
		Number: p.GetNumber(), URL: p.GetHTMLURL(), State: Open, Head: p.GetHead().GetSHA(), Base: p.GetBase().GetRef(), Body: p.GetBody(),
	}
	switch {
	case p.GetMerged() || p.MergedAt != nil:
		out.State, out.MergeCommit, out.MergedBy = Merged, p.GetMergeCommitSHA(), p.GetMergedBy().GetLogin()
	case p.GetState() == "closed":
		out.State = Closed
	default:
		out.Unready = p.Mergeable == nil
	}
	return out
}

func (g *gitHub) get(ctx context.Context, number int) (Proposal, error) {
	p, _, err := g.client.PullRequests.Get(ctx, g.owner, g.name, number)
	if err != nil {
		return Proposal{}, err
	}
	return fromGitHub(p), nil
}

func (g *gitHub) create(ctx context.Context, d Draft) (Proposal, error) {
	p, _, err := g.client.PullRequests.Create(ctx, g.owner, g.name, &github.NewPullRequest{
		Title: &d.Title, Body: &d.Body, Head: &d.Head, Base: &d.Base,
	})
	if err != nil {
		return Proposal{}, err
	}
	return fromGitHub(p), nil
}

func (g *gitHub) comments(ctx context.Context, number int) ([]string, error) {
	opts := &github.IssueListCommentsOptions{ListOptions: github.ListOptions{PerPage: 100}}
	var all []string
	for range mostPages {
		page, resp, err := g.client.Issues.ListComments(ctx, g.owner, g.name, number, opts)
		if err != nil {
			return nil, err
		}
		for _, c := range page {
			all = append(all, c.GetBody())
		}
		if opts.Page = resp.NextPage; opts.Page == 0 {
			break
		}
	}
	return all, nil
}

func (g *gitHub) comment(ctx context.Context, number int, text string) error {
	_, _, err := g.client.Issues.CreateComment(ctx, g.owner, g.name, number, &github.IssueComment{Body: &text})
	return err
}

func (g *gitHub) close(ctx context.Context, number int) error {
	_, _, err := g.client.PullRequests.Edit(ctx, g.owner, g.name, number, &github.PullRequest{State: github.Ptr("closed")})
	return err
}

func (g *gitHub) merge(ctx context.Context, number int, m Merge) error {
	_, _, err := g.client.PullRequests.Merge(ctx, g.owner, g.name, number, m.Body, &github.PullRequestOptions{
		CommitTitle: m.Title, SHA: m.Head, MergeMethod: string(cmp.Or(m.Method, slice.MergeCommit)),
	})
	return err
}

func (g *gitHub) checks(ctx context.Context, commit string) ([]Check, error) {
	var all []Check
	runs := &github.ListCheckRunsOptions{ListOptions: github.ListOptions{PerPage: 100}}
	for range mostPages {
		page, resp, err := g.client.Checks.ListCheckRunsForRef(ctx, g.owner, g.name, commit, runs)
		if err != nil {
			return nil, err
		}
		for _, r := range page.CheckRuns {
			c := Check{
				Name: r.GetName(), URL: cmp.Or(r.GetHTMLURL(), r.GetDetailsURL()), id: r.GetID(),
				app: "run " + r.GetApp().GetSlug(), at: r.GetStartedAt().Time,
				text: strings.TrimSpace(r.GetOutput().GetTitle() + "\n\n" + r.GetOutput().GetSummary() + "\n\n" + r.GetOutput().GetText()),
			}
			c.Outcome, c.Why = conclusion(r.GetStatus(), r.GetConclusion())
			all = append(all, c)
		}
		if runs.Page = resp.NextPage; runs.Page == 0 {
			break
		}
	}
	opts := &github.ListOptions{PerPage: 100}
	for range mostPages {
		page, resp, err := g.client.Repositories.GetCombinedStatus(ctx, g.owner, g.name, commit, opts)
		if err != nil {
			return nil, err
		}
		for _, s := range page.Statuses {
			c := Check{
				Name: s.GetContext(), URL: s.GetTargetURL(), id: s.GetID(), app: "status", at: s.GetUpdatedAt().Time, text: s.GetDescription(),
			}
			c.Outcome, c.Why = status(s.GetState())
			all = append(all, c)
		}
		if opts.Page = resp.NextPage; opts.Page == 0 {
			break
		}
	}
	return all, nil
}

// conclusion: what did not run, or not to its end, has measured nothing.
func conclusion(status, concluded string) (machine.Outcome, string) {
	if status != "completed" {
		return "", status
	}
	switch concluded {
	case "success":
		return machine.Done, concluded
	case "failure":
		return machine.Failed, concluded
	case "action_required", "":
		return "", cmp.Or(concluded, status)
	}
	return machine.Unmeasured, concluded
}

func status(state string) (machine.Outcome, string) {
	switch state {
	case "success":
		return machine.Done, state
	case "failure":
		return machine.Failed, state
	case "pending", "":
		return "", cmp.Or(state, "pending")
	}
	return machine.Unmeasured, state
}

// log reads the log of a job of GitHub Actions; other apps keep theirs themselves.
func (g *gitHub) log(ctx context.Context, c Check) ([]byte, error) {
	if c.app != "run github-actions" {
		return nil, nil
	}
	at, _, err := g.client.Actions.GetWorkflowJobLogs(ctx, g.owner, g.name, c.id, 3)
	if err != nil {
		return nil, err
	}
	return fetch(ctx, g.plain, at)
}

// maxLog is how much of the end of a log is kept.
const maxLog = 1 << 20

func fetch(ctx context.Context, client *http.Client, at *url.URL) (log []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(r)
	if err != nil {
		return nil, &Error{Kind: Unreachable, Message: at.Host + " cannot be reached", Err: errors.Unwrap(err)}
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, &Error{Kind: NotFound, Message: fmt.Sprintf("%s answered %d for the log", at.Host, resp.StatusCode)}
	}
	return tail(resp.Body)
}

// tail returns the end of what r has, and gives up on a log without end.
func tail(r io.Reader) ([]byte, error) {
	var kept []byte
	buf := make([]byte, 64<<10)
	for read := 0; read < 256*maxLog; {
		n, err := r.Read(buf)
		read += n
		if kept = append(kept, buf[:n]...); len(kept) > 2*maxLog {
			kept = append(kept[:0], kept[len(kept)-maxLog:]...)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, &Error{Kind: Unreachable, Message: "the log was cut off", Err: err}
		}
	}
	return kept[max(0, len(kept)-maxLog):], nil
}
