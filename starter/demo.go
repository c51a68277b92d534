package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	"interlock/activities/git"
	"interlock/slice"
)

// sample is what the demo works on. Files of Go are kept with the suffix
// .txt, so that they are no part of this module.
//
//go:embed demo
var sample embed.FS

func (a *app) demoCommand() *cobra.Command {
	dir, keep, tour := "", false, false
	c := &cobra.Command{
		Use:   "demo",
		Short: "A sample repository and scripted agents, start to end, no other set-up",
		Long: `Demo makes a small Go repository with a bare remote, scripted agents, a policy and
a slice of two tasks in a new folder, and runs the slice on a Temporal server of
its own. The first try at the first task is wrong on purpose. Everything is in
that folder; nothing else on this machine is changed.

With --tour, it plays small examples instead, one after another: vetoes, advice,
corrections, a conflict, gates, and slices that are blocked. Named ones are played
if any are named; examples/README.md lists all.

The first time, the server is built, which takes some minutes.`,
		Example: "  interlock demo --keep\n  interlock demo --tour\n  interlock demo --tour conflict blocked-verify-red",
		Args: func(c *cobra.Command, args []string) error {
			if tour {
				return nil
			}
			return nothing(c, args)
		},
		RunE: does(func(ctx context.Context, args []string) error {
			if tour {
				return a.tour(ctx, dir, args, keep)
			}
			return a.demo(ctx, dir, keep)
		}),
	}
	c.Flags().StringVar(&dir, "dir", "", "folder to make (default: a new one for temporary files)")
	c.Flags().BoolVar(&tour, "tour", false, "play the examples, one after another")
	c.Flags().BoolVar(&keep, "keep", false, "keep the server, and with it the Web UI, until interrupted")
	return c
}

func (a *app) demo(ctx context.Context, dir string, keep bool) error {
	if _, err := exec.LookPath("go"); err != nil {
		return missing("install Go (https://go.dev/dl), or try a repository of your own: interlock run --help", "the demo's repository is a Go module, and there is no go command")
	}
	dir, err := demoFolder(dir)
	if err != nil {
		return err
	}
	a.home = filepath.Join(dir, "home")
	a.connection = connection{alone: true}
	if err := shareGoCache(ctx); err != nil {
		return err
	}
	if err := writeSample(ctx, dir); err != nil {
		return fmt.Errorf("write the demo to %s: %w", dir, err)
	}
	sp, err := a.readSlice(ctx, filepath.Join(dir, "slice.yaml"))
	if err != nil {
		return err
	}
	a.say("%s\n%s\n", a.err.dim("demo in "+dir+": a repository, its remote, scripted agents"), a.err.dim("the first try at the first task is wrong on purpose"))
	s, release, err := a.hold(ctx)
	if err != nil {
		return err
	}
	defer release()
	ending := a.runSlice(ctx, s, sp)
	var ended *failure
	if ending != nil && (!errors.As(ending, &ended) || ended.err != nil) {
		return ending // it did not come to its end
	}
	a.lookAround(dir, sp.ID, s.link(sp.ID), keep)
	if keep {
		<-ctx.Done()
		return nil
	}
	return ending
}

// lookAround says how to look at what the demo left.
func (a *app) lookAround(dir, id, ui string, keep bool) {
	home := slice.Argv{a.home}.String()
	f := fields{w: a.stderr, term: a.err}
	a.say("\nlook at it:")
	f.add("commits", fmt.Sprintf("git -C %s log --format='%%h %%s%%n%%w(0,9,9)%%(trailers)' main..%s", slice.Argv{filepath.Join(dir, "remote.git")}, slice.Branch(id)))
	f.add("record", fmt.Sprintf("%s ledger %s --home %s", program(), id, home))
	f.add("verify", fmt.Sprintf("%s ledger %s --verify --home %s", program(), id, home))
	f.add("agents", slice.Argv{filepath.Join(dir, "agents", "implementer.sh")}.String())
	if keep {
		f.add("Web UI", ui+"   (until you press Ctrl-C)")
	} else {
		f.add("Web UI", fmt.Sprintf("%s server --home %s, then %s", program(), home, ui))
	}
	f.add("remove", "rm -rf "+slice.Argv{dir}.String())
}

// program is how this program is called again: by its name, if the shell
// finds it.
func program() string {
	if _, err := exec.LookPath("interlock"); err == nil {
		return "interlock"
	}
	path, err := os.Executable()
	if err != nil || strings.Contains(path, string(filepath.Separator)+"go-build") {
		return "go run ./starter" // it was not installed
	}
	return slice.Argv{path}.String()
}

// demoFolder makes the demo's folder. One that holds something already is
// refused: it may be somebody's work.
func demoFolder(dir string) (string, error) {
	if dir == "" {
		made, err := os.MkdirTemp("", "interlock-demo-")
		if err != nil {
			return "", err
		}
		return filepath.EvalSymlinks(made)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return "", err
	case len(entries) > 0:
		return "", missing("name a folder that does not exist yet", "%s is not empty", dir)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(dir)
}

// shareGoCache lets the demo's checks use this user's build cache, as its
// policy says: they compile the standard library otherwise.
func shareGoCache(ctx context.Context) error {
	if os.Getenv("GOCACHE") != "" {
		return nil
	}
	out, err := exec.CommandContext(ctx, "go", "env", "GOCACHE").Output()
	if err != nil {
		return fmt.Errorf("go env GOCACHE: %w", err)
	}
	return os.Setenv("GOCACHE", strings.TrimSpace(string(out)))
}

// writeSample writes the demo's files and makes the repository with its remote.
func writeSample(ctx context.Context, dir string) error {
	err := fs.WalkDir(sample, "demo", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := sample.ReadFile(name)
		if err != nil {
			return err
		}
		rel := strings.TrimSuffix(strings.TrimPrefix(name, "demo/"), ".txt")
		if path.Dir(rel) == "." {
			if text, err = fill(name, text, dir); err != nil {
				return err
			}
		}
		if rel == slice.PolicyFile {
			rel = "repository/" + rel
		}
		mode := fs.FileMode(0o644)
		if strings.HasSuffix(rel, ".sh") {
			mode = 0o755
		}
		target := filepath.Join(dir, filepath.FromSlash(rel))
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		return os.WriteFile(target, text, mode)
	})
	if err != nil {
		return err
	}
	repository, remote := filepath.Join(dir, "repository"), filepath.Join(dir, "remote.git")
	for _, call := range []struct {
		in   string
		args []string
	}{
		{dir, []string{"init", "--quiet", "--bare", "--initial-branch=main", "--", remote}},
		{dir, []string{"init", "--quiet", "--initial-branch=main", "--", repository}},
		{repository, []string{"add", "--", "."}},
		{repository, []string{"commit", "--quiet", "--message=Begin the module"}},
		{repository, []string{"remote", "add", "origin", remote}},
		{repository, []string{"push", "--quiet", "--set-upstream", "origin", "main"}},
	} {
		if _, err := (git.Client{Dir: call.in}).Output(ctx, call.args...); err != nil {
			return err
		}
	}
	return nil
}

// fill puts the demo's folder into a file of it.
func fill(name string, text []byte, dir string) ([]byte, error) {
	t, err := template.New(name).Parse(string(text))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = t.Execute(&out, map[string]string{"Agents": filepath.Join(dir, "agents")})
	return out.Bytes(), err
}
