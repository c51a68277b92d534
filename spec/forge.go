package spec

import (
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"interlock/machine"
	"interlock/slice"
)

// What a policy that is silent means.
const (
	GitHubToken = "GITHUB_TOKEN"
	ForgeToken  = "INTERLOCK_FORGE_TOKEN"
)

var (
	repoOfForge = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}/[A-Za-z0-9_.-]{1,100}$`)
	// gitHubTokens are sent to GitHub.com alone, whatever a policy says.
	gitHubTokens = []string{GitHubToken, "GH_TOKEN"}
)

// forge checks how a slice is proposed and merged.
func (d *document) forge(at string, p slice.Deliver) {
	oneOf(d, at+".method", p.Method, slice.MergeCommit, slice.MergeSquash)
	d.duration(at+".ci_timeout", p.CITimeout, maxCIWait)
	if len(p.Checks) > maxCommands {
		d.bad(at+".checks", fmt.Sprintf("there are %d names", len(p.Checks)), fmt.Sprintf("at most %d", maxCommands), "")
	}
	first := map[string]string{}
	for i, name := range p.Checks {
		here := fmt.Sprintf("%s.checks[%d]", at, i)
		d.unique(first, here, "name", name)
		d.line(here, name, maxTitle, "the name of a check as the forge shows it")
	}
	f := p.Forge
	if f == nil {
		return
	}
	oneOf(d, at+".forge.kind", f.Kind, slice.ForgeGit, slice.ForgeGitHub, slice.ForgeGitea)
	if f.BaseURL != "" {
		d.baseURL(at+".forge.base_url", f.BaseURL)
	}
	if f.Repo != "" && (!repoOfForge.MatchString(f.Repo) || strings.HasSuffix(f.Repo, "/..") || strings.HasSuffix(f.Repo, "/.")) {
		d.bad(at+".forge.repo", fmt.Sprintf("it is %.60q", f.Repo), "owner/name", "")
	}
	if f.TokenEnv != "" {
		d.tokenEnv(at+".forge.token_env", *f)
	}
	if f.Kind == slice.ForgeGit {
		if p.To == string(machine.ToPropose) {
			d.bad(at+".to", "a plain git remote has no proposals", "branch, publish or merge", "")
		}
		if len(p.Checks) > 0 {
			d.bad(at+".checks", "a plain git remote has no CI", "nothing here", "")
		}
	}
}

// isToken reports whether a variable has the token of the forge.
func isToken(name string, p slice.Deliver) bool {
	proposes := p.To == string(machine.ToPropose) || p.To == string(machine.ToMerge)
	return name == ForgeToken || p.Forge != nil && name == p.Forge.TokenEnv || proposes && slices.Contains(gitHubTokens, name)
}

func (d *document) baseURL(at, v string) {
	const want = "the address of a forge, such as https://git.example.org"
	u, err := url.Parse(v)
	switch {
	case err != nil || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "":
		d.bad(at, fmt.Sprintf("it is %.60q", v), want, "")
	case u.User != nil:
		d.bad(at, "it has a user", want, "name the variable that has the token in token_env")
	case u.Scheme == "http" && !loopback(u.Hostname()):
		d.bad(at, "http:// proves neither side", want, "use https")
	case u.Scheme != "http" && u.Scheme != "https":
		d.bad(at, fmt.Sprintf("unknown scheme %.60q", u.Scheme), want, "")
	}
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// tokenEnv: whoever may change a policy must not be able to have any secret of
// the worker sent to any host. A token that was not made for Interlock goes to
// GitHub.com alone.
func (d *document) tokenEnv(at string, f slice.Forge) {
	home := (f.Kind == "" || f.Kind == slice.ForgeGitHub) && (f.BaseURL == "" || strings.TrimSuffix(f.BaseURL, "/") == "https://github.com")
	switch {
	case !envName.MatchString(f.TokenEnv):
		d.bad(at, "it is no name of an environment variable", "a name such as "+ForgeToken, "the token itself belongs into the worker's environment")
	case strings.HasPrefix(f.TokenEnv, "INTERLOCK_"):
	case home && slices.Contains(gitHubTokens, f.TokenEnv):
	default:
		d.bad(at, fmt.Sprintf("it is %.60q", f.TokenEnv), "a name that begins with INTERLOCK_, or for GitHub.com "+or(gitHubTokens),
			"other variables of the worker are sent to no forge")
	}
}
