// Package sandbox runs programs apart from the host, by bubblewrap: what they
// do not need is not there, and what they need can be written only where they
// may write.
//
// Inside, the file system is read-only. The home folder of the worker's user,
// that of Interlock (stores, records, evidence, other slices, the server's
// database), /run with the sockets of the host's services, /tmp and /var/tmp are
// empty, but for what the program needs: the folder it works in, folders of its
// own, the programs of PATH, and what policy names in an argument list or passes
// in a variable. It sees no process but its own, and none outlives it.
//
// The network is the host's, because agents need the API of their model. So a
// program can reach whatever listens on the host's loopback interface, the
// Temporal server too, and sockets in the abstract name space.
package sandbox

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Host is whether programs can be kept apart on this host.
type Host struct {
	// Program is the path of bubblewrap, empty if it does not work.
	Program string
	// Why says what does not work, in a line.
	Why string
}

// Mend is how to mend a host that cannot.
const Mend = "install bubblewrap and allow unprivileged user namespaces (Ubuntu: sysctl kernel.apparmor_restrict_unprivileged_userns=0; Docker: a seccomp profile that allows them)"

// Without is what is not stopped where programs are not kept apart.
const Without = "agents and checks can read and write what the worker's user can, so other slices, evidence of other agents and the server's database too; a judge that changes the files that it looks at is found out afterwards, one that reads is not"

// Works reports whether programs can be kept apart.
func (h Host) Works() bool { return h.Program != "" }

// probeTime bounds the probe.
const probeTime = 10 * time.Second

// Probe runs a program apart, to see whether it works: that bubblewrap is
// installed says little.
func Probe(ctx context.Context) Host {
	program, err := exec.LookPath("bwrap")
	if err != nil {
		return Host{Why: "bubblewrap (bwrap) is not on the PATH"}
	}
	if program, err = filepath.Abs(program); err != nil {
		return Host{Why: err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	args := append(arguments(program, box{temporary: temporary(), dir: "/"}), "/bin/sh", "-c", "exit 0")
	out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput()
	if err != nil {
		return Host{Why: strings.TrimSpace(fmt.Sprintf("bubblewrap does not work here: %s (%v)", strings.Join(strings.Fields(string(out)), " "), err))}
	}
	return Host{Program: program}
}

// Needs is what a program needs of the host. All paths are absolute.
type Needs struct {
	// Home is the folder of Interlock, User that of the worker's user; what is
	// below them is hidden. User may be empty.
	Home, User string
	// Dir is where the program works. It can be written only if it is in Writable.
	Dir string
	// Writable and ReadOnly are folders that are there, if they exist.
	Writable, ReadOnly []string
	// Args is the program with its arguments, Env its environment: what they
	// name is there, if it is hidden otherwise, to be read.
	Args, Env []string
	// Pass are the variables that policy passes from the worker. A folder that
	// one of them names is there, and can be written; with Observe only if it is
	// where agent programs keep their own things.
	Pass    []string
	Observe bool
}

// Within returns the argument list that runs a program apart: that of
// process.Command.
func (h Host) Within(n Needs) []string { return arguments(h.Program, n.box()) }

// box is what is there. Paths are real ones.
type box struct {
	temporary, hidden, readOnly, writable []string
	dir                                   string
}

// arguments is the argument list of bubblewrap, without the program.
func arguments(program string, b box) []string {
	args := []string{program, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"}
	kinds := map[string]string{}
	for _, list := range []struct {
		option string
		paths  []string
	}{{"--tmpfs", b.temporary}, {"hide", b.hidden}, {"--ro-bind", b.readOnly}, {"--bind", b.writable}} {
		for _, p := range list.paths {
			kinds[p] = list.option
		}
	}
	var sealed []string
	// A folder comes before what is in it, or it would cover it.
	for _, p := range slices.Sorted(maps.Keys(kinds)) {
		switch option := kinds[p]; option {
		case "hide":
			args = append(args, "--tmpfs", p)
			sealed = append(sealed, "--remount-ro", p)
		case "--tmpfs":
			args = append(args, option, p)
		default:
			args = append(args, option, p, p)
		}
	}
	// Last, since the places of what is in it are made in it.
	args = append(args, sealed...)
	return append(args, "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
		"--cap-drop", "ALL", "--die-with-parent", "--chdir", b.dir, "--")
}

// temporary are the folders that are the program's own while it runs.
func temporary() []string { return existing("/tmp", "/var/tmp") }

// existing returns the real paths of those that are there.
func existing(paths ...string) (all []string) {
	for _, p := range paths {
		if real, err := filepath.EvalSymlinks(p); err == nil && filepath.IsAbs(real) && real != "/" && !slices.Contains(all, real) {
			all = append(all, real)
		}
	}
	return all
}

// system are the folders that nothing makes writable.
var system = []string{"/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/sbin", "/sys", "/usr"}

// own are the variables that name where agent programs keep their own things.
var own = []string{"HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"}

// box looks at what of the needs is there.
func (n Needs) box() box {
	b := box{
		temporary: temporary(), hidden: existing(cmp.Or(n.User, "/nonexistent"), n.Home, "/run", "/var/run"),
		readOnly: existing(n.ReadOnly...), writable: existing(n.Writable...), dir: n.Dir,
	}
	if real := existing(n.Dir); len(real) == 1 {
		b.dir = real[0]
		b.readOnly = append(b.readOnly, real[0])
	}
	// What would hide the whole system hides nothing.
	b.hidden = slices.DeleteFunc(b.hidden, func(p string) bool {
		return slices.ContainsFunc(system, func(s string) bool { return below(s, p) })
	})
	see := func(name string) {
		info, err := os.Stat(name)
		if err != nil || !filepath.IsAbs(name) {
			return
		}
		// Under the name that is given, and where it really is.
		for _, p := range append(existing(name), filepath.Clean(name)) {
			if !info.IsDir() && !slices.Contains(b.roots(), filepath.Dir(p)) {
				p = filepath.Dir(p)
			}
			if b.hides(p) {
				b.readOnly = append(b.readOnly, p)
			}
		}
	}
	words := n.words()
	for _, d := range filepath.SplitList(n.value("PATH")) {
		see(d)
		for _, beside := range []string{"lib", "lib64", "libexec", "versions"} {
			if up := filepath.Dir(d); !slices.Contains(b.roots(), up) {
				see(filepath.Join(up, beside))
			}
		}
		for _, w := range words {
			if !strings.Contains(w, "/") {
				see(filepath.Join(d, w))
			}
		}
	}
	for _, w := range words {
		see(w)
	}
	see("/etc/resolv.conf")
	for _, name := range n.Pass {
		value := n.value(name)
		if name == "PATH" || !filepath.IsAbs(value) {
			continue
		}
		for _, p := range existing(value) {
			info, err := os.Stat(p)
			folder := err == nil && info.IsDir()
			locked := slices.ContainsFunc(system, func(s string) bool { return below(p, s) || below(s, p) })
			switch {
			case folder && !locked && (!n.Observe || slices.Contains(own, name)):
				b.writable = append(b.writable, p)
			case folder && b.hides(p), err == nil && !folder && b.hides(filepath.Dir(p)+"/x"):
				b.readOnly = append(b.readOnly, p)
			}
		}
	}
	return b
}

// words are those of the arguments, and of lines of shell among them.
func (n Needs) words() (all []string) {
	for _, a := range n.Args {
		all = append(all, strings.FieldsFunc(a, func(r rune) bool { return strings.ContainsRune(" \t\n\"'`;|&()<>=$", r) })...)
	}
	return all
}

// value returns a variable of the environment, or nothing.
func (n Needs) value(name string) string {
	for _, e := range n.Env {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			return v
		}
	}
	return ""
}

func (b box) roots() []string { return slices.Concat(b.temporary, b.hidden) }

// hides reports whether a path would not be there: it is in a hidden folder,
// and not the folder itself.
func (b box) hides(p string) bool {
	return slices.ContainsFunc(b.roots(), func(root string) bool { return root != p && below(p, root) })
}

// below reports whether a path is a folder or in it.
func below(p, folder string) bool {
	return p == folder || strings.HasPrefix(p, strings.TrimSuffix(folder, "/")+"/")
}
