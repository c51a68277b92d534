package activities

import (
	"os"
	"path/filepath"

	"interlock/activities/sandbox"
	"interlock/slice"
)

// apart returns the argument list that runs an agent's program apart from the
// host, or nothing if it is not to be. The folder that it works in must be
// there; folder is the agent's own.
func (a *Activities) apart(w *work, policy slice.Policy, c called, folder string) []string {
	if policy.Sandbox == slice.SandboxOff || !a.sandbox.Works() {
		return nil
	}
	n := a.needs(w, policy, c.dir, folder)
	n.Args, n.Env = c.who.Run, c.env
	if len(n.Args) == 0 {
		n.Args = []string{string(c.who.Use)}
	}
	if n.Observe = c.brief.Role().ReadOnly(); !n.Observe {
		n.Writable = append(n.Writable, c.dir)
	}
	return a.sandbox.Within(n)
}

// needs is what every program of a slice needs: the objects of the store are
// what the .git of its folder borrows from.
func (a *Activities) needs(w *work, policy slice.Policy, dir, own string) sandbox.Needs {
	user, err := os.UserHomeDir()
	if err != nil {
		user = ""
	}
	return sandbox.Needs{Home: a.home, User: user, Dir: dir, Writable: []string{own},
		ReadOnly: []string{filepath.Join(w.store.Dir(), "objects")}, Pass: policy.Env}
}

// cannotSandbox says why a slice with the policy cannot be worked on here, or
// nothing.
func (a *Activities) cannotSandbox(policy slice.Policy) string {
	if policy.Sandbox != slice.SandboxRequired || a.sandbox.Works() {
		return ""
	}
	return "policy requires a sandbox, which this host has not: " + a.sandbox.Why + "; " + sandbox.Mend
}

// isolation says for a person how far agents are kept apart.
func (a *Activities) isolation(policy slice.Policy) string {
	switch {
	case policy.Sandbox == slice.SandboxOff:
		return "off, as policy says: " + sandbox.Without
	case !a.sandbox.Works():
		return "none (" + a.sandbox.Why + "): " + sandbox.Without
	}
	return "bubblewrap: agents see their own folders alone, and judges and skeptics can write to none of the files; they have this host's network, and so its Temporal server; checks, and the tests in them that agents write, run without it"
}
