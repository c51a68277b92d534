package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"interlock/activities/evidence"
	"interlock/activities/git"
	"interlock/activities/workspace"
	"interlock/ledger"
	"interlock/machine"
	"interlock/slice"
)

// verified is what `ledger --verify` tells.
type verified struct {
	OK    bool   `json:"ok"`
	Lines int    `json:"lines"`
	Head  string `json:"head,omitempty"`
	// State is what the lines fold to.
	Ending machine.Ending `json:"ending,omitempty"`
	Cause  machine.Cause  `json:"cause,omitempty"`
	Due    *machine.Turn  `json:"due,omitempty"`
	// Line is the first that does not verify, Why what is wrong with it.
	Line int    `json:"line,omitempty"`
	Why  string `json:"why,omitempty"`
}

func (a *app) ledgerCommand() *cobra.Command {
	verify, repo := false, ""
	c := &cobra.Command{
		Use:   "ledger ID",
		Short: "The record of a slice; --verify deduces its state from it",
		Long: `Ledger prints the record of a slice from the store in the home; no server is
needed. With --output json, it prints the lines as they are.

With --verify, it checks the chain of the lines, that each follows from those
before as the machine allows, and that the commits of the slice name lines of
this very record. A record that does not verify is exit code 10, with its line.`,
		Args:              oneID,
		ValidArgsFunction: a.completeID,
		RunE: does(func(ctx context.Context, args []string) error {
			r, err := a.record(ctx, args[0], repo)
			if err != nil {
				return err
			}
			if verify {
				return a.verify(ctx, r)
			}
			if a.json() {
				for _, line := range r.lines {
					fmt.Fprintln(a.stdout, line)
				}
				return nil
			}
			return a.writeLedger(r)
		}),
	}
	c.Flags().BoolVar(&verify, "verify", false, "check the record and say what it folds to")
	c.Flags().StringVar(&repo, "repo", "", "the slice's repository, where two have a slice of this id")
	return c
}

// record is the record of a slice as its store has it.
type record struct {
	store git.Client
	slice string
	lines []string
}

// record finds the store of the home that has a slice. The repository itself
// may be gone.
func (a *app) record(ctx context.Context, id, repo string) (record, error) {
	if err := workspace.CheckSlice(id); err != nil {
		return record{}, usage("%w", err)
	}
	pattern := "*"
	if repo != "" {
		if abs, err := filepath.Abs(repo); err == nil && isPath(repo) {
			repo = abs
		}
		canonical, err := workspace.Canonical(ctx, repo)
		if err != nil {
			return record{}, err
		}
		pattern = workspace.Key(canonical)
	}
	stores, err := filepath.Glob(filepath.Join(a.home, "stores", pattern))
	if err != nil {
		return record{}, err
	}
	var found []record
	for _, dir := range stores {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			continue
		}
		store := git.Client{GitDir: dir}
		out, err := store.Output(ctx, "cat-file", "blob", slice.Ref(id, "ledger")+":ledger.jsonl")
		if err != nil {
			if ctx.Err() != nil {
				return record{}, ctx.Err()
			}
			continue
		}
		found = append(found, record{store, id, strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")})
	}
	switch len(found) {
	case 0:
		return record{}, missing("it is on the host that worked on it; --home names another home", "home %s has no record of a slice %s", a.home, id)
	case 1:
		return found[0], nil
	}
	return record{}, missing("say which one with --repo", "%d repositories have a slice %s", len(found), id)
}

// verify folds a record and compares it with what the slice's commits vouch for.
func (a *app) verify(ctx context.Context, r record) error {
	v := verified{Lines: len(r.lines)}
	folded, err := ledger.Fold(r.lines)
	if err == nil {
		err = vouch(ctx, r, folded)
	}
	var broken *ledger.BrokenError
	switch {
	case errors.As(err, &broken):
		v.Line, v.Why = broken.Line, broken.Why
	case err != nil:
		return err
	default:
		v.OK, v.Head = true, folded.Head
		v.Ending, v.Cause = folded.State.Ending, folded.State.Cause
		if turn, ok := machine.Due(folded.State); ok {
			v.Due = &turn
		}
	}
	if err := a.print(v, func(w io.Writer) {
		if !v.OK {
			fmt.Fprintf(w, "%s: line %d of %d: %s\n", a.out.red("broken"), v.Line, v.Lines, plain(v.Why))
			return
		}
		state := string(v.Ending)
		if v.Cause != "" {
			state += " (" + string(v.Cause) + ")"
		}
		if v.Due != nil {
			state = v.Due.String() + " being due"
		}
		fmt.Fprintf(w, "%s: %s, head %s, folds to %s\n", a.out.green("ok"), count(v.Lines, "line"), short(v.Head), state)
	}); err != nil {
		return err
	}
	if !v.OK {
		return code(exitBroken)
	}
	return nil
}

// vouch checks that the commits of the slice, which carry the head of the
// record as it was, name lines of this record: a record that was written anew
// as a whole would fold, too.
func vouch(ctx context.Context, r record, f ledger.Folded) error {
	commits := f.Commits
	if f.Whole != "" {
		commits = append(append([]string(nil), commits...), f.Whole)
	}
	known := map[string]bool{}
	for _, line := range r.lines {
		known[ledger.Hash(line)] = true
	}
	for _, commit := range commits {
		out, err := r.store.Line(ctx, "show", "--no-patch", "--format=%(trailers:key="+slice.TrailerLedger+",valueonly)", "--end-of-options", commit+"^{commit}", "--")
		if err != nil {
			return fmt.Errorf("commit %s of the record: %w", short(commit), err)
		}
		for _, head := range strings.Fields(out) {
			if !known[head] {
				return &ledger.BrokenError{Line: len(r.lines), Why: fmt.Sprintf("commit %s was made when the record had a line with hash %s, which it has not now", short(commit), short(head))}
			}
		}
	}
	return nil
}

func (a *app) writeLedger(r record) error {
	lines, err := ledger.Parse(r.lines)
	if err != nil {
		var broken *ledger.BrokenError
		if errors.As(err, &broken) {
			return &failure{code: exitBroken, err: err, do: "interlock ledger " + r.slice + " --output json" + a.homeFlag() + " shows the lines as they are"}
		}
		return err
	}
	for _, l := range lines {
		at, _ := time.Parse(time.RFC3339, l.At)
		fmt.Fprintf(a.stdout, "%4d  %s  %s %s\n", l.N, a.out.dim(at.Local().Format("2006-01-02 15:04:05")), pad(string(l.Kind), 7), a.about(l))
	}
	return nil
}

// about is what a line records, for people.
func (a *app) about(l ledger.Line) string {
	t := a.out
	var parts []string
	add := func(s string) {
		if s != "" {
			parts = append(parts, s)
		}
	}
	switch l.Kind {
	case ledger.Start:
		add(fmt.Sprintf("run %d of %s, %s, spec %s", l.Run, l.Slice, count(l.Tasks, "task"), short(l.Spec)))
	case ledger.Reopen:
		add(fmt.Sprintf("run %d, spec %s", l.Run, short(l.Spec)))
	case ledger.Intent:
		add(l.Turn.String())
	case ledger.Done:
		add(l.Turn.String())
		add(t.outcome(l.Outcome, string(l.Outcome)))
		if l.Cause != "" {
			add("(" + string(l.Cause) + ")")
		}
		if l.CostMicroUSD > 0 {
			add(slice.USD(l.CostMicroUSD).String())
		}
		if l.Base != "" {
			add("base " + short(l.Base))
		}
		if l.Tree != "" {
			add("tree " + short(l.Tree))
		}
		if l.Commit != "" {
			add("commit " + short(l.Commit))
		}
		for _, e := range l.Evidence {
			add(t.dim(plain(e.Name) + " " + short(e.Hash)))
		}
	case ledger.Undo:
		add(string(l.Undo))
		add(plain(l.Seen))
	case ledger.End:
		add(string(l.Ending))
		if l.Cause != "" {
			add("(" + string(l.Cause) + ")")
		}
	default:
	}
	if why := plain(l.Why); why != "" {
		add(t.dim(clip(why, 160)))
	}
	return strings.Join(parts, "  ")
}

// evidenceFile is where the bytes of evidence are on this machine, or empty.
func evidenceFile(home string, e slice.Evidence) string {
	if home == "" || e.Hash == "" {
		return ""
	}
	store, err := evidence.Open(filepath.Join(home, "evidence"))
	if err != nil {
		return ""
	}
	path, err := store.Path(e.Hash)
	if err != nil {
		return ""
	}
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}
