//go:build linux

package sandbox

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"interlock/activities/process"
)

// What is in a folder is mounted after it, whatever it is; else it would be
// covered. What may be written wins, and only temporary folders can be filled.
func TestArgumentsAreInOrder(t *testing.T) {
	path := rapid.Custom(func(t *rapid.T) string {
		return "/" + strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 1, 4).Draw(t, "parts"), "/")
	})
	rapid.Check(t, func(t *rapid.T) {
		paths := rapid.SliceOfN(path, 0, 6)
		b := box{temporary: paths.Draw(t, "temporary"), hidden: paths.Draw(t, "hidden"), readOnly: paths.Draw(t, "ro"), writable: paths.Draw(t, "rw"), dir: "/x"}
		args := arguments("/usr/bin/bwrap", b)
		require.Equal(t, []string{"/usr/bin/bwrap", "--ro-bind", "/", "/"}, args[:4])
		require.Equal(t, []string{"--chdir", "/x", "--"}, args[len(args)-3:])
		seen := map[string]int{}
		for i, a := range args {
			switch a {
			case "--tmpfs", "--ro-bind", "--bind":
				p := args[i+1]
				if p == "/" {
					continue
				}
				require.NotContains(t, seen, p)
				for had := range seen {
					require.False(t, had != p && below(had, p), "%s after %s", p, had)
				}
				seen[p] = i
			}
		}
		for _, p := range b.writable {
			require.Equal(t, "--bind", args[seen[p]])
		}
	})
}

// host is a sandbox that works, or the test is skipped.
func host(t *testing.T) Host {
	t.Helper()
	h := Probe(t.Context())
	if !h.Works() {
		t.Skip(h.Why)
	}
	return h
}

// world is a host as a program sees it: a home of Interlock with a view, and
// the home of a user.
type world struct{ home, user, view, own, objects string }

func newWorld(t *testing.T) world {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	w := world{user: filepath.Join(top, "user")}
	w.home = filepath.Join(w.user, ".interlock")
	w.view, w.own, w.objects = filepath.Join(w.home, "views/s/judge/tree"), filepath.Join(w.home, "slices/s/agents/judge"), filepath.Join(w.home, "stores/k/objects")
	for name, text := range map[string]string{
		filepath.Join(w.view, "f"): "hello\n", filepath.Join(w.own, "home/x"): "x", filepath.Join(w.objects, "pack"): "p",
		filepath.Join(w.home, "evidence/ab/secret"): "words of the implementer\n",
		filepath.Join(w.home, "temporal.db"):        "db", filepath.Join(w.home, "slices/other/ops/1"): "o",
		filepath.Join(w.user, ".ssh/id"): "key", filepath.Join(w.user, "bin/tool"): "#!/bin/sh\necho tool\n",
		filepath.Join(w.user, "cache/c"): "c", filepath.Join(w.user, "agents/judge.sh"): "#!/bin/sh\necho judge\n",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o755))
	}
	return w
}

func (w world) run(t *testing.T, script string, change func(*Needs), env ...string) process.Result {
	t.Helper()
	n := Needs{Home: w.home, User: w.user, Dir: w.view, Writable: []string{w.own}, ReadOnly: []string{w.objects},
		Env: append([]string{"PATH=" + w.user + "/bin:/usr/bin:/bin", "OWN=" + w.own, "USERHOME=" + w.user, "IL=" + w.home}, env...)}
	if change != nil {
		change(&n)
	}
	res, err := process.Run(t.Context(), process.Command{
		Args: []string{"/bin/sh", "-c", script}, Within: host(t).Within(n), Dir: w.view, Env: n.Env, Combine: true,
		Marker: "test/sandbox", Timeout: time.Minute,
	})
	require.NoError(t, err)
	require.NoError(t, res.StartErr)
	return res
}

func TestWithin(t *testing.T) {
	host(t)
	writable := func(w world) func(*Needs) {
		return func(n *Needs) { n.Writable = append(n.Writable, w.view) }
	}
	for _, row := range []struct {
		name, script, said string
		change             func(world) func(*Needs)
		env                []string
	}{
		{name: "works in the view", script: "cat f; pwd | sed 's,.*/,,'", said: "hello\ntree\n"},
		{name: "cannot write the view", script: "echo x >f || echo no; rm f || echo no; touch new || echo no", said: "no\nno\nno\n"},
		{name: "cannot replace the view", script: `rm -rf "$PWD" 2>/dev/null; mv "$PWD" "$PWD.old" 2>/dev/null; cat f`, said: "hello\n"},
		{name: "writes its own folder", script: "echo y >$OWN/home/x && cat $OWN/home/x", said: "y\n"},
		{name: "writes the workspace", script: "echo y >f && cat f", said: "y\n", change: writable},
		{name: "reads objects, not more of the home", script: "cat $IL/stores/k/objects/pack; ls -A $IL", said: "pslices\nstores\nviews\n"},
		{name: "no evidence, no database, no other slice", script: "cat $IL/evidence/ab/secret $IL/temporal.db $IL/slices/other/ops/1; ls $IL/slices", said: "s\n"},
		{name: "no home of the user", script: "cat $USERHOME/.ssh/id; ls -A $USERHOME; echo x >$USERHOME/new || echo no", said: ".interlock\nbin\nno\n"},
		{name: "programs of PATH", script: "tool", said: "tool\n"},
		{name: "an argument", script: "sh $USERHOME/agents/judge.sh", said: "judge\n",
			change: func(w world) func(*Needs) {
				return func(n *Needs) { n.Args = []string{"sh", filepath.Join(w.user, "agents/judge.sh")} }
			}},
		{name: "a line of shell", script: "sh $USERHOME/agents/judge.sh", said: "judge\n",
			change: func(w world) func(*Needs) {
				return func(n *Needs) {
					n.Args = []string{"/bin/sh", "-c", "A=1 " + filepath.Join(w.user, "agents/judge.sh") + " --x"}
				}
			}},
		{name: "what policy passes", script: "echo d >$CACHE/c && cat $CACHE/c", said: "d\n", change: func(w world) func(*Needs) {
			return func(n *Needs) {
				n.Pass, n.Env = []string{"CACHE"}, append(n.Env, "CACHE="+filepath.Join(w.user, "cache"))
			}
		}},
		{name: "what policy passes, for one that only looks", script: "cat $CACHE/c; echo d >$CACHE/c || echo no", said: "cno\n", change: func(w world) func(*Needs) {
			return func(n *Needs) {
				n.Observe, n.Pass, n.Env = true, []string{"CACHE"}, append(n.Env, "CACHE="+filepath.Join(w.user, "cache"))
			}
		}},
		{name: "HOME passed, and Interlock hidden in it", script: "cat $HOME/.ssh/id; ls -A $HOME/.interlock", said: "keyslices\nstores\nviews\n", change: func(w world) func(*Needs) {
			return func(n *Needs) { n.Pass, n.Env = []string{"HOME"}, append(n.Env, "HOME="+w.user) }
		}},
		{name: "a folder of the system stays as it is", script: "touch /usr/x /etc/x || echo no", said: "no\n", change: func(world) func(*Needs) {
			return func(n *Needs) { n.Pass, n.Env = []string{"A", "B"}, append(n.Env, "A=/usr", "B=/") }
		}},
		{name: "own processes alone", script: "ls /proc | grep -c '^[0-9]'; echo $$", said: "", change: nil},
		{name: "no environment of others", script: "cat /proc/" + strconv.Itoa(os.Getpid()) + "/environ | tr '\\0' '\\n' | grep -c ^GO || true", said: "0\n"},
		{name: "no capability", script: "grep CapEff /proc/self/status", said: "CapEff:\t0000000000000000\n"},
		{name: "cannot undo it", script: "umount $USERHOME 2>/dev/null || echo no; mount -o remount,rw / 2>/dev/null || echo no", said: "no\nno\n"},
		{name: "no service of the host", script: "ls -A /run | grep -v -e systemd -e resolvconf | wc -l", said: "0\n"},
		{name: "exit status", script: "exit 7", said: ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			var change func(*Needs)
			if row.change != nil {
				change = row.change(w)
			}
			res := w.run(t, "exec 2>/dev/null; "+row.script, change, row.env...)
			switch row.name {
			case "own processes alone":
				var n, pid int
				_, err := fmt.Sscan(res.Stdout.String(), &n, &pid)
				require.NoError(t, err)
				require.Less(t, n, 8)
				require.Less(t, pid, 8)
			case "exit status":
				require.Equal(t, 7, res.ExitCode)
			default:
				require.Equal(t, row.said, res.Stdout.String())
			}
			kept, err := os.ReadFile(filepath.Join(w.home, "evidence/ab/secret"))
			require.NoError(t, err)
			require.Equal(t, "words of the implementer\n", string(kept))
		})
	}
}

// The network is the host's: what listens on loopback can be reached.
func TestNetworkIsTheHosts(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("here\n"))
			_ = c.Close()
		}
	}()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	res := newWorld(t).run(t, "bash -c 'cat </dev/tcp/127.0.0.1/"+port+"'", nil)
	require.Equal(t, "here\n", res.Stdout.String())
}

// Nothing outlives it, and one that is asked to end can still write.
func TestItsEnd(t *testing.T) {
	h, w := host(t), newWorld(t)
	command := func(script string) process.Command {
		return process.Command{
			Args: []string{"/bin/sh", "-c", script}, Dir: w.view, Env: []string{"PATH=/usr/bin:/bin", "OWN=" + w.own}, Combine: true,
			Within: h.Within(Needs{Home: w.home, User: w.user, Dir: w.view, Writable: []string{w.own}}), Marker: "test/end",
			Grace: 5 * time.Second,
		}
	}
	c := command(`(setsid sh -c 'trap "" TERM; while :; do echo x >>$OWN/tick; sleep 0.02; done' &); while [ ! -e $OWN/tick ]; do sleep 0.02; done; kill -9 $PPID; echo done`)
	res, err := process.Run(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, "done\n", res.Stdout.String())
	before, err := os.ReadFile(filepath.Join(w.own, "tick"))
	require.NoError(t, err)
	<-time.After(100 * time.Millisecond)
	after, err := os.ReadFile(filepath.Join(w.own, "tick"))
	require.NoError(t, err)
	require.Len(t, after, len(before))

	c = command(`trap 'echo asked; exit 3' TERM; echo begun; while :; do sleep 0.05; done`)
	c.Timeout = 300 * time.Millisecond
	res, err = process.Run(t.Context(), c)
	require.NoError(t, err)
	require.True(t, res.TimedOut)
	require.Contains(t, res.Stdout.String(), "asked\n")
	require.Equal(t, 3, res.ExitCode)

	c = command("exit 0")
	c.Args = []string{filepath.Join(w.user, "agents/judge.sh")}
	res, err = process.Run(t.Context(), c)
	require.NoError(t, err)
	require.False(t, res.Started)
	require.ErrorContains(t, res.StartErr, "bwrap: execvp")
}
