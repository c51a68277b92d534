package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"interlock/activities/git"
	"interlock/slice"
	"interlock/spec"
)

// problem is one thing that is wrong with a file.
type problem struct {
	File   string `json:"file"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	Path   string `json:"path,omitempty"`
	Got    string `json:"got"`
	Want   string `json:"want,omitempty"`
	Hint   string `json:"hint,omitempty"`
}

// validation is what was found about one file.
type validation struct {
	File     string    `json:"file"`
	Kind     spec.Kind `json:"kind"`
	Valid    bool      `json:"valid"`
	Problems []problem `json:"problems"`
	// Policy says which policy the slice was checked with: a file at a commit.
	Policy string `json:"policy,omitempty"`
}

func (a *app) validateCommand() *cobra.Command {
	schema := ""
	c := &cobra.Command{
		Use:   "validate FILE",
		Short: "Check a slice or a policy; --schema prints what they may hold",
		Long: `Validate checks a slice's file, or a policy (interlock.yaml), and says what is
wrong as FILE:LINE:COLUMN with what was expected. A slice is also checked with
the policy at the base of its repository, if that is on this machine.

Without a file, --schema prints the JSON Schema, for editors: --schema (a slice)
or --schema=policy. With a file, it says which of the two the file is.`,
		Example: "  interlock validate slice.yaml\n  interlock validate interlock.yaml\n  interlock validate --schema=policy > policy.schema.json",
		RunE: does(func(ctx context.Context, args []string) error {
			kind := spec.Kind(schema)
			// `--schema policy` is how people write it, though the value is optional.
			if len(args) > 0 && kind != "" && spec.Schema(spec.Kind(args[0])) != nil {
				kind, args = spec.Kind(args[0]), args[1:]
			}
			document := spec.Schema(kind)
			switch {
			case kind != "" && document == nil:
				return usage("--schema %q: expected slice or policy", kind)
			case len(args) == 0 && kind != "":
				_, err := fmt.Fprintln(a.stdout, strings.TrimSpace(string(document)))
				return err
			case len(args) != 1:
				return &failure{code: exitUsage, err: errors.New("expected one file, or --schema alone"), do: "interlock validate FILE [--schema=slice|policy]"}
			}
			return a.validate(ctx, args[0], kind)
		}),
	}
	c.Flags().StringVar(&schema, "schema", "", "slice or policy: the kind of the file, or the schema to print")
	c.Flags().Lookup("schema").NoOptDefVal = string(spec.SliceFile)
	return c
}

func (a *app) validate(ctx context.Context, file string, kind spec.Kind) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return usage("%w", err)
	}
	v := validation{File: file, Kind: kind, Problems: []problem{}}
	if v.Kind == "" {
		v.Kind = kindOf(file, data)
	}
	var found error
	if v.Kind == spec.PolicyFile {
		_, found = spec.ParsePolicy(file, data)
	} else {
		var sp slice.Spec
		if sp, found = spec.ParseSlice(file, data); found == nil {
			v.Policy, found = policyAtBase(ctx, file, sp)
		}
	}
	v.Problems = append(v.Problems, problems(file, found)...)
	v.Valid = len(v.Problems) == 0
	if err := a.print(v, func(w io.Writer) {
		if !v.Valid {
			return
		}
		with := ""
		if v.Policy != "" {
			with = ", with " + v.Policy
		}
		fmt.Fprintf(w, "%s: %s %s%s\n", file, a.out.green("valid"), v.Kind, with)
	}); err != nil {
		return err
	}
	if v.Valid {
		return nil
	}
	if a.json() {
		return code(exitUsage)
	}
	return a.invalid(found)
}

// invalid says what is wrong with a file, in the form that editors read.
func (a *app) invalid(err error) error {
	for line := range strings.Lines(strings.TrimSpace(err.Error()) + "\n") {
		a.say("%s", strings.TrimRight(line, "\n"))
	}
	return code(exitUsage)
}

func problems(file string, err error) []problem {
	if err == nil {
		return nil
	}
	var list spec.Errors
	var one *spec.Error
	switch {
	case errors.As(err, &list):
	case errors.As(err, &one):
		list = spec.Errors{one}
	default:
		return []problem{{File: file, Got: err.Error()}}
	}
	out := make([]problem, len(list))
	for i, e := range list {
		out[i] = problem{File: e.File, Line: e.Line, Column: e.Column, Path: e.Path, Got: e.Got, Want: e.Want, Hint: e.Hint}
	}
	return out
}

// kindOf recognises a policy by its name, or by keys that only a policy has.
func kindOf(file string, data []byte) spec.Kind {
	if filepath.Base(file) == slice.PolicyFile {
		return spec.PolicyFile
	}
	var keys map[string]yaml.Node
	if yaml.Unmarshal(data, &keys) != nil {
		return spec.SliceFile
	}
	_, tasks := keys["tasks"]
	_, agents := keys["agents"]
	_, checks := keys["checks"]
	if !tasks && (agents || checks) {
		return spec.PolicyFile
	}
	return spec.SliceFile
}

// policyAtBase checks a slice with the policy of its repository, if that can
// be read here, and says which one it was.
func policyAtBase(ctx context.Context, file string, sp slice.Spec) (string, error) {
	repo := sp.Repo
	if !isPath(repo) {
		return "", nil
	}
	if !filepath.IsAbs(repo) {
		repo = filepath.Join(filepath.Dir(file), repo)
	}
	repo, err := filepath.Abs(repo)
	if err != nil {
		return "", err
	}
	data, err := git.Client{Dir: repo, Safe: []string{repo, filepath.Join(repo, ".git")}}.
		Output(ctx, "cat-file", "blob", sp.Base+":"+slice.PolicyFile)
	if err != nil {
		return "", nil // there is none, or it is elsewhere: prepare will say so
	}
	where := fmt.Sprintf("%s at %s", slice.PolicyFile, sp.Base)
	policy, err := spec.ParsePolicy(where, data)
	if err != nil {
		return where, err
	}
	_, err = spec.Merge(&policy, sp.Policy)
	return where, err
}
