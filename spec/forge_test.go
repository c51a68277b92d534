package spec

import (
	"testing"

	"github.com/stretchr/testify/require"

	"interlock/slice"
)

func TestASliceMayWaitForMoreOfCIAndForNoOtherForge(t *testing.T) {
	d := &document{failed: map[string]bool{}}
	p := slice.Deliver{Checks: []string{"build"}}
	d.tightenForge(&p, slice.Deliver{Checks: []string{"test"}, CITimeout: slice.Duration(60e9), Method: slice.MergeCommit})
	require.Empty(t, d.errs)
	require.Equal(t, slice.Deliver{Checks: []string{"build", "test"}, CITimeout: slice.Duration(60e9)}, p)

	d.tightenForge(&p, slice.Deliver{
		Forge: &slice.Forge{Kind: slice.ForgeGitea}, CITimeout: slice.Duration(3 * 3600e9), Method: slice.MergeSquash,
	})
	require.ErrorContains(t, d.errs, "policy.deliver.forge: it is not the repository's")
	require.ErrorContains(t, d.errs, "policy.deliver.ci_timeout: it is 3h0m0s: expected at most 1m0s")
	require.ErrorContains(t, d.errs, `policy.deliver.method: it is "squash"`)
}

// A policy comes from whoever may change the base: it must not be able to have
// a secret of the worker sent to a host of its choice.
func TestTokensGoWhereTheyBelong(t *testing.T) {
	for _, c := range []struct {
		forge slice.Forge
		ok    bool
	}{
		{slice.Forge{TokenEnv: "GITHUB_TOKEN"}, true},
		{slice.Forge{TokenEnv: "GH_TOKEN", Kind: slice.ForgeGitHub, BaseURL: "https://github.com/"}, true},
		{slice.Forge{TokenEnv: "INTERLOCK_SHOP", Kind: slice.ForgeGitea, BaseURL: "https://git.example.org"}, true},
		{slice.Forge{TokenEnv: "INTERLOCK_SHOP", BaseURL: "http://127.0.0.1:3000"}, true},
		{slice.Forge{TokenEnv: "GITHUB_TOKEN", BaseURL: "https://git.example.org"}, false},
		{slice.Forge{TokenEnv: "GITHUB_TOKEN", Kind: slice.ForgeGitea}, false},
		{slice.Forge{TokenEnv: "AWS_SESSION_TOKEN"}, false},
		{slice.Forge{TokenEnv: "HOME"}, false},
		{slice.Forge{BaseURL: "http://git.example.org"}, false},
		{slice.Forge{BaseURL: "https://user@git.example.org"}, false},
		{slice.Forge{BaseURL: "https://git.example.org/?x=1"}, false},
	} {
		d := &document{failed: map[string]bool{}}
		d.forge("deliver", slice.Deliver{Forge: &c.forge})
		require.Equal(t, c.ok, len(d.errs) == 0, "%+v: %v", c.forge, d.errs)
	}
}
