package workspace

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheTipOfTheRemoteIsNotThatOfTheCopyHere(t *testing.T) {
	f := setup(t, sourceScript)
	remote := f.top + "/remote.git"
	sh(t, f.source, "git clone -q --bare . "+remote)
	id, err := f.store.RemoteTip(f.ctx, "s1", remote, "main")
	require.NoError(t, err)
	require.Equal(t, f.base, id)

	sh(t, f.top, "git clone -q remote.git other; cd other; echo x > x.txt; git add -A; git commit -q -m more; git push -q origin HEAD:main")
	there, err := f.store.RemoteBranch(f.ctx, remote, "main")
	require.NoError(t, err)
	id, err = f.store.RemoteTip(f.ctx, "s1", remote, "main")
	require.NoError(t, err)
	require.Equal(t, there, id)
	require.NotEqual(t, f.base, id)
	pinned, err := f.store.Ref(f.ctx, "s1", "tip")
	require.NoError(t, err)
	require.Equal(t, id, pinned)
	contained, err := f.store.Contains(f.ctx, id, f.base)
	require.NoError(t, err, "its objects are here")
	require.True(t, contained)

	_, err = f.store.RemoteTip(f.ctx, "s1", remote, "none")
	require.Equal(t, NoSuchBase, KindOf(err), err)
	none, err := f.store.RemoteBranch(f.ctx, remote, "none")
	require.NoError(t, err)
	require.Empty(t, none)
	for _, bad := range []string{"-x", "a..b", ""} {
		_, err = f.store.RemoteTip(f.ctx, "s1", remote, bad)
		require.Equal(t, InvalidInput, KindOf(err), bad)
	}
	require.NoError(t, os.RemoveAll(remote))
	_, err = f.store.RemoteTip(f.ctx, "s1", remote, "main")
	require.Equal(t, NotARepository, KindOf(err), err)
}

// A base that got what a slice cannot work on is told when it is met.
func TestTheTipOfTheRemoteIsInspected(t *testing.T) {
	f := setup(t, sourceScript)
	remote := f.top + "/remote.git"
	sh(t, f.source, "git clone -q --bare . "+remote)
	sh(t, f.top, "git clone -q remote.git other; cd other; git update-index --add --cacheinfo 160000,"+f.base+",sub; git commit -q -m sub; git push -q origin HEAD:main")
	_, err := f.store.RemoteTip(f.ctx, "s1", remote, "main")
	require.Equal(t, Submodule, KindOf(err), err)
}
