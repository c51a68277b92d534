//go:build unix

package process

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func pids(entries []entry) []int {
	out := []int{}
	for _, e := range entries {
		out = append(out, e.pid)
	}
	return out
}

func TestDescendants(t *testing.T) {
	table := []entry{
		{pid: 1}, {pid: 10, parent: 1}, {pid: 11, parent: 10}, {pid: 12, parent: 11, ended: true},
		{pid: 13, parent: 12}, {pid: 20, parent: 1}, {pid: 21, parent: 20},
	}
	require.ElementsMatch(t, []int{11, 13}, pids(descendants(table, []int{10})), "through a zombie, without it")
	require.ElementsMatch(t, []int{11, 13, 21}, pids(descendants(table, []int{10, 20})))
	require.ElementsMatch(t, []int{13}, pids(descendants(table, []int{10, 11})), "a root is not its own kin")
	require.Empty(t, descendants(table, []int{21, 99}))
}

func TestDescendantsAreThoseWithAnAncestorInRoots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Any parent, so that a table read while it changes can have circles.
		parents := rapid.SliceOfN(rapid.IntRange(0, 12), 12, 12).Draw(t, "parents")
		root := rapid.IntRange(1, 12).Draw(t, "root")
		var table []entry
		for i, p := range parents {
			table = append(table, entry{pid: i + 1, parent: p})
		}
		expected := []int{}
		for pid := 1; pid <= 12; pid++ {
			at := pid
			for range parents {
				if at = parents[at-1]; at == 0 || at == root {
					break
				}
			}
			if at == root && pid != root {
				expected = append(expected, pid)
			}
		}
		require.ElementsMatch(t, expected, pids(descendants(table, []int{root})))
	})
}

func TestKinRemembersOrphansByTheirStart(t *testing.T) {
	family := []entry{{pid: 10, parent: 1, start: "a"}, {pid: 11, parent: 10, start: "b"}, {pid: 12, parent: 11, start: "c"}}
	orphaned := []entry{{pid: 10, parent: 1, start: "a"}, {pid: 12, parent: 1, start: "c"}, {pid: 13, parent: 12, start: "d"}}
	reused := []entry{{pid: 10, parent: 1, start: "a"}, {pid: 12, parent: 1, start: "later"}, {pid: 13, parent: 1, start: "d"}}

	k := kin{remember: true}
	require.Equal(t, []int{11, 12}, pids(k.find(family, 10)))
	require.Equal(t, []int{12, 13}, pids(k.find(orphaned, 10)), "an orphan and its child")
	require.Equal(t, []int{13}, pids(k.find(reused, 10)), "another process with the number of a dead one")

	k = kin{}
	k.find(family, 10)
	require.Empty(t, k.find(orphaned, 10))
}

func TestMarkers(t *testing.T) {
	require.True(t, carries("home/a", "home"))
	require.True(t, carries("home", "home"))
	require.True(t, carries("outer/x,home/a", "home"))
	require.True(t, carries("outer/x,home/a", "outer/x"))
	require.False(t, carries("homes/a", "home"))
	require.False(t, carries("x/home/a", "home"))
	one, other := newMarker("a"), newMarker("a")
	require.NotEqual(t, one, other)
}
