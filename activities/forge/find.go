package forge

import (
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strings"

	"interlock/slice"
)

const gitHubCom = "github.com"

// Find says which repository of which forge a remote is, as its address and
// the policy say. An address on this host is a plain remote unless the policy
// says otherwise. What is missing is told as an error.
func Find(remote string, p *slice.Forge) (Config, error) {
	var f slice.Forge
	if p != nil {
		f = *p
	}
	host, repo := address(remote)
	home := host == gitHubCom || host == "ssh."+gitHubCom
	if f.BaseURL != "" {
		u, err := url.Parse(f.BaseURL)
		if err != nil {
			return Config{}, fmt.Errorf("deliver.forge.base_url %q: %w", f.BaseURL, err)
		}
		home = u.Host == gitHubCom || u.Host == "www."+gitHubCom
	}
	switch {
	case f.Kind != "":
	case home:
		f.Kind = slice.ForgeGitHub
	case host == "" && f.BaseURL == "":
		f.Kind = slice.ForgeGit
	default:
		return Config{}, fmt.Errorf("it is not known what kind of forge %s is: set deliver.forge.kind to github, gitea or git", host)
	}
	c := Config{Kind: f.Kind}
	if c.Kind == slice.ForgeGit {
		return c, nil
	}
	switch {
	case home && c.Kind == slice.ForgeGitHub:
	case f.BaseURL != "":
		c.BaseURL = strings.TrimSuffix(f.BaseURL, "/")
	case host != "":
		c.BaseURL = "https://" + host
	default:
		return Config{}, fmt.Errorf("%s has no address on a forge: set deliver.forge.base_url", remote)
	}
	if f.Repo != "" {
		repo = f.Repo
	}
	var ok bool
	if c.Owner, c.Name, ok = strings.Cut(repo, "/"); !ok || c.Owner == "" || c.Name == "" || strings.Contains(c.Name, "/") {
		return Config{}, fmt.Errorf("the repository at %s has no owner and name: set deliver.forge.repo to owner/name", remote)
	}
	return c, nil
}

var scpLike = regexp.MustCompile(`^(?:[^@/]+@)?([^:/]+):(.*)$`)

// address takes host and owner/name out of what git is told; both are empty
// for a repository on this host.
func address(remote string) (host, repo string) {
	switch {
	case strings.Contains(remote, "://"):
		u, err := url.Parse(remote)
		if err != nil || u.Scheme == "file" {
			return "", ""
		}
		host, repo = strings.ToLower(u.Hostname()), u.Path
	case !strings.HasPrefix(remote, "/"):
		m := scpLike.FindStringSubmatch(remote)
		if m == nil {
			return "", ""
		}
		host, repo = strings.ToLower(m[1]), m[2]
	}
	return host, strings.TrimSuffix(strings.Trim(path.Clean("/"+repo), "/"), ".git")
}
