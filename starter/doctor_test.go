package main

import (
	"context"
	"crypto/tls"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"interlock/activities/evidence"
	"interlock/slice"
)

func doctorOf(t *testing.T) *doctor {
	t.Helper()
	a := &app{home: filepath.Join(t.TempDir(), "home"), connection: connection{address: "127.0.0.1:1"}}
	require.NoError(t, os.Mkdir(a.home, 0o700))
	return &doctor{app: a, space: spaceFree,
		guarantee: func() (bool, string) { return true, "complete" },
		sandboxes: map[string]slice.Argv{"walls": {"true"}, "fences": {"true"}}}
}

// fails says that a probe finds something broken, and how to mend it.
func fails(t *testing.T, f finding, state health, says, mend string) {
	t.Helper()
	require.Equal(t, state, f.State, f.Found)
	require.Contains(t, f.Found, says)
	require.Contains(t, f.Mend, mend)
}

func TestDoctorServer(t *testing.T) {
	all := doctorOf(t).server(t.Context(), nil)
	require.Len(t, all, 1, "what cannot be reached cannot be looked at")
	fails(t, all[0], broken, "no Temporal server answers at 127.0.0.1:1", "interlock server")
}

func TestDoctorDisk(t *testing.T) {
	d := doctorOf(t)
	for _, c := range []struct {
		free  uint64
		err   error
		state health
	}{{leastSpace - 1, nil, broken}, {leastSpace, nil, doubt}, {enoughSpace, nil, fine}, {0, errors.New("no such disk"), broken}} {
		d.space = func(string) (uint64, error) { return c.free, c.err }
		f := d.disk()
		require.Equal(t, c.state, f.State)
		require.Equal(t, c.state == fine, f.Mend == "")
	}
	d.space = spaceFree
	require.NotContains(t, d.disk().Found, "no such")
}

func TestDoctorHome(t *testing.T) {
	d := doctorOf(t)
	require.Equal(t, fine, d.home().State)
	require.NoError(t, os.Chmod(d.app.home, 0o755))
	fails(t, d.home(), broken, "can be used by others (-rwxr-xr-x)", "chmod 700 "+d.app.home)
	d.app.home = filepath.Join(t.TempDir(), "a", "b")
	require.Equal(t, fine, d.home().State, "it is made when it is needed")
	require.NoError(t, os.WriteFile(filepath.Dir(d.app.home), nil, 0o600))
	require.Equal(t, broken, d.home().State)
	d.app.home = filepath.Dir(d.app.home)
	fails(t, d.home(), broken, "is no folder", "--home")
}

func TestDoctorEvidence(t *testing.T) {
	d := doctorOf(t)
	require.Equal(t, fine, d.evidence().State, "there is none")
	store, err := evidence.Open(filepath.Join(d.app.home, "evidence"))
	require.NoError(t, err)
	kept, err := store.Put("x.log", []byte("what was seen"))
	require.NoError(t, err)
	require.Contains(t, d.evidence().Found, "1 file kept; 1 were read")
	path, err := store.Path(kept.Hash)
	require.NoError(t, err)
	require.NoError(t, os.Chmod(path, 0o600))
	require.NoError(t, os.WriteFile(path, []byte("what was not seen"), 0o600))
	fails(t, d.evidence(), broken, kept.Hash[:10], "look at the disk")
	require.NoError(t, os.RemoveAll(filepath.Join(d.app.home, "evidence")))
	require.NoError(t, os.WriteFile(filepath.Join(d.app.home, "evidence"), nil, 0o600))
	fails(t, d.evidence(), broken, "evidence", "look at the disk")
}

func TestDoctorAgents(t *testing.T) {
	d := doctorOf(t)
	policy := func(run ...string) *slice.Policy {
		return &slice.Policy{Agents: slice.Agents{
			Implementer: slice.Agent{Use: slice.AdapterCommand, Run: run},
			Judges:      []slice.Agent{{Name: "reader", Use: slice.AdapterExternal}},
		}}
	}
	require.Nil(t, d.agents(nil))
	fails(t, d.agents(policy("no-such-agent"))[0], broken, "implementer: no-such-agent is not on the PATH", "absolute path")
	fails(t, d.agents(policy("/bin/sh", "-c", "no-such-agent --print"))[0], broken, "no-such-agent", "install it")
	all := d.agents(policy("sh"))
	require.Equal(t, fine, all[0].State)
	require.Contains(t, all[1].Found, "reader is driven from outside")
	require.Len(t, d.agents(policy("/bin/sh", "-c", "$AGENT | tee x")), 2, "a shell's own business")
}

func TestDoctorPolicy(t *testing.T) {
	d := doctorOf(t)
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("GIT_CEILING_DIRECTORIES", filepath.Dir(dir))
	_, f := d.policy(t.Context())
	require.Contains(t, f.Found, "no repository here")
	repositoryIn(t, dir)
	_, f = d.policy(t.Context())
	fails(t, f, doubt, "has no interlock.yaml", "interlock init")
	require.NoError(t, os.WriteFile("interlock.yaml", []byte("checks: []\n"), 0o644))
	_, f = d.policy(t.Context())
	fails(t, f, broken, "interlock.yaml:1:1", "interlock validate")
}

func TestDoctorSandbox(t *testing.T) {
	d := doctorOf(t)
	require.Equal(t, finding{Probe: "sandbox", State: fine, Found: "fences and walls work here"}, d.sandbox(t.Context()))
	d.sandboxes["walls"] = slice.Argv{"/bin/sh", "-c", "echo walls are forbidden >&2; exit 1"}
	fails(t, d.sandbox(t.Context()), doubt, "fences works here; not: walls (walls are forbidden)", "install bubblewrap")
	d.sandboxes["fences"] = slice.Argv{"no-such-program"}
	fails(t, d.sandbox(t.Context()), doubt, "cannot be kept apart", "install bubblewrap")
}

func TestDoctorProcesses(t *testing.T) {
	d := doctorOf(t)
	require.Equal(t, fine, d.processes().State)
	d.guarantee = func() (bool, string) { return false, "best effort" }
	fails(t, d.processes(), doubt, "best effort", "run the worker on Linux")
}

func TestDoctorApprovals(t *testing.T) {
	near := client.Options{HostPort: "127.0.0.1:7233"}
	fails(t, reach(near, nil), doubt, "the server of this host, 127.0.0.1:7233 asks for no credentials", "API key")
	far := client.Options{HostPort: "temporal.example.com:7233"}
	require.Equal(t, doubt, reach(far, nil).State, "a network is no credential")
	far.Credentials = client.NewAPIKeyStaticCredentials("x")
	require.Equal(t, fine, reach(far, nil).State)
	fails(t, reach(far, &slice.Policy{Env: []string{"GOPROXY", "TEMPORAL_API_KEY"}}), broken, "TEMPORAL_API_KEY", "take it out of env")
	mutual := client.Options{HostPort: "temporal.example.com:7233", ConnectionOptions: client.ConnectionOptions{TLS: &tls.Config{MinVersion: tls.VersionTLS12}}}
	require.Equal(t, doubt, reach(mutual, nil).State, "encryption is no credential")
	mutual.ConnectionOptions.TLS.Certificates = []tls.Certificate{{}}
	require.Equal(t, fine, reach(mutual, nil).State)
}

// TestDiagnosis says that one broken finding is enough, and a doubt is not.
func TestDiagnosis(t *testing.T) {
	d := doctorOf(t)
	v := d.examine(t.Context())
	require.False(t, v.OK, "the server is not there")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.False(t, d.examine(ctx).OK)
	var b strings.Builder
	d.app.writeDiagnosis(&b, diagnosis{Findings: []finding{{"git", fine, "2.39.5", ""}, {"server", broken, "none", "start one"}}})
	require.Equal(t, "ok    git         2.39.5\nfail  server      none\n                  → start one\n", b.String())
}
