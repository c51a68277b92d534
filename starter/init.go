package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"interlock/activities/git"
	"interlock/slice"
	"interlock/spec"
)

// initialised is what `init` tells.
type initialised struct {
	File string `json:"file"`
	// Found are the kinds of projects that were recognised.
	Found   []string `json:"found"`
	Written bool     `json:"written"`
	Policy  string   `json:"policy"`
}

func (a *app) initCommand() *cobra.Command {
	force, show := false, false
	c := &cobra.Command{
		Use:   "init",
		Short: "Look at the repository here and write a commented " + slice.PolicyFile,
		Long: `Init looks at the manifests of the repository here (Go, Node, Python, Java, Rust)
and writes a policy with the checks that they suggest. It opens manifests alone,
never a file that may hold a secret, runs nothing but git, and writes nothing
before its last step. A policy that is there is kept unless --force is given.`,
		Example: "  interlock init\n  interlock init --stdout | less",
		Args:    nothing,
		RunE: does(func(ctx context.Context, _ []string) error {
			return a.init(ctx, force, show)
		}),
	}
	c.Flags().BoolVar(&force, "force", false, "replace a policy that is there")
	c.Flags().BoolVar(&show, "stdout", false, "print the policy, and write nothing")
	return c
}

func (a *app) init(ctx context.Context, force, show bool) error {
	root, err := repositoryHere(ctx)
	if err != nil {
		return missing("go into one, or make one with: git init", "there is no git repository here: %w", err)
	}
	v := initialised{File: filepath.Join(root, slice.PolicyFile), Found: []string{}}
	projects, err := look(root)
	if err != nil {
		return err
	}
	for _, p := range projects {
		v.Found = append(v.Found, p.String())
	}
	v.Policy = policyText(projects)
	if _, err := spec.ParsePolicy(slice.PolicyFile, []byte(v.Policy)); err != nil {
		return &failure{code: exitBroken, err: fmt.Errorf("the policy for this repository does not hold: %w", err)}
	}
	if !show {
		if err := writePolicyFile(v.File, v.Policy, force); err != nil {
			return err
		}
		v.Written = true
	}
	if err := a.print(v, func(w io.Writer) {
		if show {
			fmt.Fprint(w, v.Policy)
			return
		}
		fmt.Fprintf(w, "%s is written\n", v.File)
	}); err != nil || show {
		return err
	}
	f := fields{w: a.stderr, term: a.err}
	for _, found := range v.Found {
		f.add("found", plain(found))
	}
	if len(v.Found) == 0 {
		f.add("found", a.err.yellow("no manifest that is known: the check is a placeholder that fails; write one that measures the work"))
	}
	f.list("next", []string{
		"look at " + slice.PolicyFile + ": who works and judges, and what is measured",
		"git add " + slice.PolicyFile + " && git commit        it is read at the base of a slice",
		"interlock validate " + slice.PolicyFile,
		"interlock doctor" + a.homeFlag(),
		"interlock run SLICE.yaml" + a.homeFlag() + "        the form of a slice: interlock validate --schema",
	})
	return nil
}

// repositoryHere is the root of the repository that the working directory is in.
func repositoryHere(ctx context.Context) (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	// Whoever calls this in a folder trusts it as far as to look at it.
	safe := []string{}
	for at := dir; ; at = filepath.Dir(at) {
		safe = append(safe, at, filepath.Join(at, ".git"))
		if at == filepath.Dir(at) {
			break
		}
	}
	return git.Client{Dir: dir, Safe: safe}.Line(ctx, "rev-parse", "--show-toplevel")
}

// writePolicyFile writes a policy whole or not at all.
func writePolicyFile(file, text string, force bool) error {
	if _, err := os.Lstat(file); err == nil && !force {
		return missing("interlock init --stdout shows what would be written, --force replaces it", "%s is there already", file)
	}
	tmp, err := os.CreateTemp(filepath.Dir(file), ".interlock-*.yaml")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	_, err = tmp.WriteString(text)
	if err == nil {
		err = tmp.Chmod(0o644)
	}
	if closed := tmp.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	if force {
		return os.Rename(tmp.Name(), file)
	}
	err = os.Link(tmp.Name(), file) // which never replaces
	if errors.Is(err, fs.ErrExist) {
		return missing("interlock init --stdout shows what would be written, --force replaces it", "%s is there already", file)
	}
	return err
}

// policyText is a commented policy for the projects of a repository.
func policyText(projects []project) string {
	var b strings.Builder
	b.WriteString(`# The policy of this repository: who does what, what is measured, and how far a
# slice is delivered. Interlock reads it at the base commit of a slice, so that
# no agent can change the rules that it works under: commit it.
#
# Check it with: interlock validate ` + slice.PolicyFile + `
# All that it may hold: interlock validate --schema=policy
`)
	if len(projects) > 0 {
		b.WriteString("#\n# Found here:\n")
	}
	for _, p := range projects {
		fmt.Fprintf(&b, "#   %s\n", p)
	}
	b.WriteString(`
agents:
  # With external, whoever does the work asks "interlock next" for the brief and
  # hands in the answer with "interlock report". A program is called with
  #   use: command
  #   run: ["my-agent", "--some-flag"]   # JSON brief on standard input, JSON answer on standard output
  #   timeout: 30m
  #   usd: 2                             # the most that one call may cost
  implementer:
    use: external
    usd: 0
  # Judges look at a candidate that passed the checks, and never see a word of
  # the implementer. Every one of them can veto.
  judges:
    - name: reviewer
      use: external
      usd: 0
`)
	var setup, checks []command
	var env, notes []string
	for _, p := range projects {
		setup = append(setup, p.named(p.setup, len(projects) > 1)...)
		checks = append(checks, p.named(p.checks, len(projects) > 1)...)
		env = append(env, p.env...)
		notes = append(notes, p.notes...)
	}
	unique(setup)
	unique(checks)
	if len(setup) > 0 {
		b.WriteString("\n# Prepares a fresh checkout for the checks; runs again when a file of inputs changes.\nsetup:\n")
		writeCommands(&b, setup)
	}
	b.WriteString("\n# Measure every candidate, in a checkout that no agent works in. All must be green\n# at the base already.\nchecks:\n")
	if len(checks) == 0 {
		b.WriteString("  # No manifest was recognised: put a command here that fails when the work is wrong.\n")
		checks = []command{{name: "replace-me", run: slice.Shell("echo 'interlock.yaml has no check of its own yet' >&2; exit 1")}}
	}
	writeCommands(&b, checks)
	b.WriteString(`
# verify measures the whole once more before it is delivered; without it, the
# checks do. e2e comes after it.
# verify:
#   - name: all
#     run: ["make", "verify"]
# e2e:
#   - name: smoke
#     run: ["make", "e2e"]

# What judges score from 1 to 5; a mean below 3.5 rejects.
rubric:
  - criterion: The criterion of the task is met, and a test shows it.
    weight: 2
  - criterion: The change stays in scope and reads like the code around it.

# Steps at which a person must approve: interlock approve ID.
gates:
  plan: true
  publish: false

budgets:
  usd: 10      # of a slice, all calls together
  checks: 2    # retries after a red check, for each task
  judge: 2     # retries after a veto, for each task

# branch: a local branch interlock/ID. publish: the same, pushed to the remote.
# propose: a pull request of it. merge: merged, once checks are green. The token
# is in GITHUB_TOKEN of the worker's environment, or in INTERLOCK_FORGE_TOKEN
# for a forge other than GitHub.com.
deliver:
  to: branch
  # remote: origin
  # checks: [build]
  # forge: {kind: gitea, base_url: https://git.example.org}

# Variables of the worker that agents and checks may see; all others are kept
# from them, and HOME is a folder of the slice's own. Never name a secret here.
`)
	for _, n := range notes {
		fmt.Fprintf(&b, "# %s\n", n)
	}
	b.WriteString("env:\n")
	seen := map[string]bool{}
	for _, name := range append(env, "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "SSL_CERT_FILE") {
		if !seen[name] {
			fmt.Fprintf(&b, "  - %s\n", name)
		}
		seen[name] = true
	}
	return b.String()
}

// unique gives commands of one name a number each.
func unique(list []command) {
	times := map[string]int{}
	for i := range list {
		name := list[i].name
		if times[name]++; times[name] > 1 {
			list[i].name = fmt.Sprintf("%s-%d", name, times[name])
		}
	}
}

func writeCommands(b *strings.Builder, list []command) {
	for _, c := range list {
		fmt.Fprintf(b, "  - name: %s\n", c.name)
		if line, ok := shellLine(c.run); ok {
			fmt.Fprintf(b, "    run: %s\n", quoted(line))
		} else {
			words := make([]string, len(c.run))
			for i, w := range c.run {
				words[i] = quoted(w)
			}
			fmt.Fprintf(b, "    run: [%s]\n", strings.Join(words, ", "))
		}
		if c.reads != "" {
			fmt.Fprintf(b, "    reads: %s\n", c.reads)
		}
		if len(c.inputs) > 0 {
			inputs := make([]string, len(c.inputs))
			for i, in := range c.inputs {
				inputs[i] = quoted(in)
			}
			fmt.Fprintf(b, "    inputs: [%s]\n", strings.Join(inputs, ", "))
		}
		if c.timeout != "" {
			fmt.Fprintf(b, "    timeout: %s\n", c.timeout)
		}
	}
}

func shellLine(a slice.Argv) (string, bool) {
	if len(a) == 3 && a[0] == "/bin/sh" && a[1] == "-c" {
		return a[2], true
	}
	return "", false
}

// quoted writes a YAML string in single quotes.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
