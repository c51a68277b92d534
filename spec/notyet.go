package spec

import (
	"strings"

	"interlock/slice"
)

// notYet is what a slice or policy can ask for, but this version would not do.
// It is refused, because a promise that is silently not kept is worse than none.
// When something is built, its line goes.
var notYet = []struct {
	// used returns the paths at which a slice asks for it.
	used func(slice.Spec) []string
	// why is what this version lacks, want what can be written instead.
	why  string
	want string
}{
	{policy("agents.skeptics.use", func(p slice.Policy) bool {
		return p.Agents.Skeptics != nil && p.Agents.Skeptics.Use == slice.AdapterExternal
	}), "this version waits for no report of a skeptic", "command"},
	{policy("agents.reconciler.use", func(p slice.Policy) bool {
		return p.Agents.Reconciler != nil && p.Agents.Reconciler.Use == slice.AdapterExternal
	}), "this version waits for no report of a reconciler", "command"},
}

func when(path string, used func(slice.Spec) bool) func(slice.Spec) []string {
	return func(s slice.Spec) []string {
		if used(s) {
			return []string{path}
		}
		return nil
	}
}

func policy(path string, used func(slice.Policy) bool) func(slice.Spec) []string {
	return when(join("policy", path), func(s slice.Spec) bool { return s.Policy != nil && used(*s.Policy) })
}

// notYet refuses what this version would not do. If the document is a policy alone, its
// paths do not begin with "policy".
func (d *document) notYet(s slice.Spec, alone bool) {
	for _, row := range notYet {
		for _, path := range row.used(s) {
			if alone {
				path = strings.TrimPrefix(path, "policy.")
			}
			d.bad(path, row.why, row.want, "")
		}
	}
}
