package forge

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"code.gitea.io/sdk/gitea"

	"interlock/machine"
	"interlock/slice"
)

// giteaForge speaks to Gitea and Forgejo.
type giteaForge struct {
	base        string
	http        *http.Client
	owner, name string
}

func newGitea(c Config, client *http.Client, w *wire) (*giteaForge, error) {
	u, err := url.Parse(c.BaseURL)
	if err != nil || u.Host == "" {
		return nil, errors.New("a Gitea forge needs its address (base_url)")
	}
	w.host = u.Host
	return &giteaForge{base: strings.TrimSuffix(c.BaseURL, "/"), http: client, owner: c.Owner, name: c.Name}, nil
}

// client is one for each call: the context is the client's.
func (g *giteaForge) client(ctx context.Context) (*gitea.Client, error) {
	// The version is not asked for: every call here is older than 1.17.
	return gitea.NewClient(g.base, gitea.SetHTTPClient(g.http), gitea.SetContext(ctx), gitea.SetGiteaVersion(""))
}

func (g *giteaForge) check(ctx context.Context) error {
	c, err := g.client(ctx)
	if err != nil {
		return err
	}
	_, _, err = c.GetRepo(g.owner, g.name)
	return err
}

// list: the interface has no filter by head.
func (g *giteaForge) list(ctx context.Context, head string) ([]Proposal, error) {
	c, err := g.client(ctx)
	if err != nil {
		return nil, err
	}
	opts := gitea.ListPullRequestsOptions{State: gitea.StateAll, Sort: "recentupdate", ListOptions: gitea.ListOptions{Page: 1, PageSize: 50}}
	var all []Proposal
	for ; opts.Page <= mostPages; opts.Page++ {
		page, _, err := c.ListRepoPullRequests(g.owner, g.name, opts)
		if err != nil {
			return nil, err
		}
		for _, p := range page {
			if p.Head != nil && p.Base != nil && p.Head.Name == head && p.Head.RepoID == p.Base.RepoID {
				all = append(all, fromGitea(p))
			}
		}
		if len(page) == 0 {
			break
		}
	}
	return all, nil
}

func fromGitea(p *gitea.PullRequest) Proposal {
	out := Proposal{Number: int(p.Index), URL: p.HTMLURL, State: Open, Body: p.Body}
	if p.Head != nil {
		out.Head = p.Head.Sha
	}
	if p.Base != nil {
		out.Base = p.Base.Ref
	}
	switch {
	case p.HasMerged:
		out.State = Merged
		if p.MergedCommitID != nil {
			out.MergeCommit = *p.MergedCommitID
		}
		if p.MergedBy != nil {
			out.MergedBy = p.MergedBy.UserName
		}
	case p.State == gitea.StateClosed:
		out.State = Closed
	}
	return out
}

func (g *giteaForge) get(ctx context.Context, number int) (Proposal, error) {
	c, err := g.client(ctx)
	if err != nil {
		return Proposal{}, err
	}
	p, _, err := c.GetPullRequest(g.owner, g.name, int64(number))
	if err != nil {
		return Proposal{}, err
	}
	return fromGitea(p), nil
}

func (g *giteaForge) create(ctx context.Context, d Draft) (Proposal, error) {
	c, err := g.client(ctx)
	if err != nil {
		return Proposal{}, err
	}
	p, _, err := c.CreatePullRequest(g.owner, g.name, gitea.CreatePullRequestOption{Head: d.Head, Base: d.Base, Title: d.Title, Body: d.Body})
	if err != nil {
		return Proposal{}, err
	}
	return fromGitea(p), nil
}

func (g *giteaForge) comments(ctx context.Context, number int) ([]string, error) {
	c, err := g.client(ctx)
	if err != nil {
		return nil, err
	}
	// The comments of one issue come in one page.
	page, _, err := c.ListIssueComments(g.owner, g.name, int64(number), gitea.ListIssueCommentOptions{})
	if err != nil {
		return nil, err
	}
	all := make([]string, len(page))
	for i, one := range page {
		all[i] = one.Body
	}
	return all, nil
}

func (g *giteaForge) comment(ctx context.Context, number int, text string) error {
	c, err := g.client(ctx)
	if err != nil {
		return err
	}
	_, _, err = c.CreateIssueComment(g.owner, g.name, int64(number), gitea.CreateIssueCommentOption{Body: text})
	return err
}

func (g *giteaForge) close(ctx context.Context, number int) error {
	c, err := g.client(ctx)
	if err != nil {
		return err
	}
	closed := gitea.StateClosed
	_, _, err = c.EditPullRequest(g.owner, g.name, int64(number), gitea.EditPullRequestOption{State: &closed})
	return err
}

func (g *giteaForge) merge(ctx context.Context, number int, m Merge) error {
	c, err := g.client(ctx)
	if err != nil {
		return err
	}
	_, _, err = c.MergePullRequest(g.owner, g.name, int64(number), gitea.MergePullRequestOption{
		Style: gitea.MergeStyle(cmp.Or(m.Method, slice.MergeCommit)), HeadCommitId: m.Head, Title: m.Title, Message: m.Body,
	})
	return err
}

func (g *giteaForge) checks(ctx context.Context, commit string) ([]Check, error) {
	c, err := g.client(ctx)
	if err != nil {
		return nil, err
	}
	opts := gitea.ListStatusesOption{ListOptions: gitea.ListOptions{Page: 1, PageSize: 50}}
	var all []Check
	for ; opts.Page <= mostPages; opts.Page++ {
		page, _, err := c.ListStatuses(g.owner, g.name, commit, opts)
		if err != nil {
			return nil, err
		}
		for _, s := range page {
			one := Check{Name: s.Context, URL: absolute(g.base, s.TargetURL), id: s.ID, app: "status", at: s.Updated, text: s.Description}
			one.Outcome, one.Why = status(string(s.State))
			all = append(all, one)
		}
		if len(page) == 0 {
			break
		}
	}
	return all, nil
}

// log reads the log of a job of Gitea Actions, whose status points to
// …/actions/runs/N/jobs/ID; what else sets a status keeps its log itself.
func (g *giteaForge) log(ctx context.Context, c Check) ([]byte, error) {
	_, job, ok := strings.Cut(c.URL, "/"+g.owner+"/"+g.name+"/actions/runs/")
	if ok {
		_, job, ok = strings.Cut(job, "/jobs/")
	}
	id, err := strconv.ParseInt(job, 10, 64)
	if !ok || err != nil || c.Outcome != machine.Failed {
		return nil, nil
	}
	client, err := g.client(ctx)
	if err != nil {
		return nil, err
	}
	log, _, err := client.GetRepoActionJobLogs(g.owner, g.name, id)
	return log[max(0, len(log)-maxLog):], err
}

// absolute: the statuses of Gitea Actions have addresses without a host.
func absolute(base, target string) string {
	if !strings.HasPrefix(target, "/") || strings.HasPrefix(target, "//") {
		return target
	}
	u, err := url.Parse(base)
	if err != nil {
		return target
	}
	return u.Scheme + "://" + u.Host + target
}
