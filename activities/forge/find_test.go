package forge_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"interlock/activities/forge"
	"interlock/slice"
)

func TestFind(t *testing.T) {
	for _, c := range []struct {
		remote string
		policy *slice.Forge
		want   forge.Config
		says   string
	}{
		{"https://github.com/shop/api.git", nil, forge.Config{Kind: slice.ForgeGitHub, Owner: "shop", Name: "api"}, ""},
		{"https://x@github.com/shop/api", nil, forge.Config{Kind: slice.ForgeGitHub, Owner: "shop", Name: "api"}, ""},
		{"git@github.com:shop/api.git", nil, forge.Config{Kind: slice.ForgeGitHub, Owner: "shop", Name: "api"}, ""},
		{"ssh://git@ssh.github.com:443/shop/api.git", nil, forge.Config{Kind: slice.ForgeGitHub, Owner: "shop", Name: "api"}, ""},
		{"/srv/api.git", nil, forge.Config{Kind: slice.ForgeGit}, ""},
		{"file:///srv/api.git", nil, forge.Config{Kind: slice.ForgeGit}, ""},
		{"https://git.example.org/shop/api", nil, forge.Config{}, "set deliver.forge.kind"},
		{"https://github.com.evil.org/shop/api", nil, forge.Config{}, "set deliver.forge.kind"},
		{"https://git.example.org/shop/api", &slice.Forge{Kind: slice.ForgeGit}, forge.Config{Kind: slice.ForgeGit}, ""},
		{
			"git@git.example.org:shop/api.git", &slice.Forge{Kind: slice.ForgeGitea},
			forge.Config{Kind: slice.ForgeGitea, BaseURL: "https://git.example.org", Owner: "shop", Name: "api"}, "",
		},
		{
			"https://ghe.example.org/shop/api", &slice.Forge{Kind: slice.ForgeGitHub, TokenEnv: "INTERLOCK_X"},
			forge.Config{Kind: slice.ForgeGitHub, BaseURL: "https://ghe.example.org", Owner: "shop", Name: "api"}, "",
		},
		{
			"/srv/api.git", &slice.Forge{Kind: slice.ForgeGitea, BaseURL: "http://127.0.0.1:3000/", Repo: "shop/api"},
			forge.Config{Kind: slice.ForgeGitea, BaseURL: "http://127.0.0.1:3000", Owner: "shop", Name: "api"}, "",
		},
		{"/srv/api.git", &slice.Forge{Kind: slice.ForgeGitea, Repo: "shop/api"}, forge.Config{}, "set deliver.forge.base_url"},
		{"/srv/api.git", &slice.Forge{Kind: slice.ForgeGitHub, BaseURL: "https://ghe.example.org"}, forge.Config{}, "set deliver.forge.repo"},
		{"https://github.com/shop/group/api", nil, forge.Config{}, "set deliver.forge.repo"},
		// What a policy names instead of GitHub.com is not GitHub.com.
		{
			"git@github.com:shop/api.git", &slice.Forge{Kind: slice.ForgeGitHub, BaseURL: "https://evil.example.org"},
			forge.Config{Kind: slice.ForgeGitHub, BaseURL: "https://evil.example.org", Owner: "shop", Name: "api"}, "",
		},
	} {
		got, err := forge.Find(c.remote, c.policy)
		if c.says != "" {
			require.ErrorContains(t, err, c.says, c.remote)
			continue
		}
		require.NoError(t, err, c.remote)
		require.Equal(t, c.want, got, c.remote)
	}
}
