package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"interlock/activities/check"
	"interlock/activities/evidence"
	"interlock/activities/workspace"
	"interlock/guard"
	"interlock/machine"
	"interlock/slice"
)

const (
	maxGuardFindings = 50 // that travel through history
	maxGuardText     = 300
	// prefetched is how many files are read in one go, before the guard asks for
	// them one by one.
	prefetched = 2000
)

// guarded is what the guard says of a tree.
type guarded struct {
	// result lists the guard with the checks; nil if it has nothing to say.
	result   *slice.CheckResult
	tampered bool
	// review is what it saw and does not decide.
	review []slice.GuardFinding
}

// diffSpan is a change that the guard looks at: from one tree or commit to another.
type diffSpan struct{ from, to string }

// guard looks at what changed before anything of it is run.
func (a *Activities) guard(ctx context.Context, w *work, t terms, spans []diffSpan) (guarded, error) {
	tell(ctx, "guard")
	var reports []guard.Report
	var tampered, review []slice.GuardFinding
	var unread []string
	for _, s := range spans {
		report, err := w.judgeChange(ctx, t.Policy, s)
		if err != nil {
			return guarded{}, err
		}
		reports = append(reports, report)
		for _, f := range report.Findings {
			list := &review
			found := carried(f)
			switch {
			case f.Verdict != guard.Tampered:
			case isRemoval(f.Kind) && allowed(t.Spec.AllowRemovedTests, f.Test):
				found.Verdict = string(guard.Review)
				found.Why += " (the slice allows it)"
			default:
				list = &tampered
			}
			if !slices.Contains(*list, found) {
				*list = append(*list, found)
			}
		}
		for _, u := range report.Unread {
			if line := fmt.Sprintf("%s (%d files)", u.Language, len(u.Files)); !slices.Contains(unread, line) {
				unread = append(unread, line)
			}
		}
	}
	g := guarded{tampered: len(tampered) > 0, review: review[:min(len(review), maxGuardFindings)]}
	if len(tampered)+len(review)+len(unread) == 0 {
		return g, nil
	}
	kept, err := json.Marshal(reports)
	if err != nil {
		return guarded{}, err
	}
	log, err := a.evidence.Put(string(w.Turn.Step)+"-guard.json", kept)
	if err != nil {
		return guarded{}, err
	}
	g.result = guardResult(tampered, review, unread)
	g.result.Log = log
	return g, nil
}

// carried is a finding as it crosses borders: one line of text each.
func carried(f guard.Finding) slice.GuardFinding {
	return slice.GuardFinding{
		Kind: f.Kind, Verdict: string(f.Verdict), Language: f.Language, Line: f.Line,
		File: evidence.Line(f.File, maxGuardText), Test: evidence.Line(f.Test, maxGuardText), Why: evidence.Line(f.Why, maxGuardText),
	}
}

// isRemoval says that a kind of finding is that a test is not there any more.
func isRemoval(kind string) bool {
	return slices.Contains([]string{"deleted-test", "deleted-file", "commented-out", "count-preserving-swap", "shrunk-cases"}, kind)
}

func allowed(globs []string, test string) bool {
	return test != "" && slices.ContainsFunc(globs, func(glob string) bool { return check.NameMatches(glob, test) })
}

func guardResult(tampered, review []slice.GuardFinding, unread []string) *slice.CheckResult {
	r := &slice.CheckResult{Measured: slice.Measured{Name: slice.GuardCheck, Outcome: machine.Done}}
	var why []string
	if n := len(tampered); n > 0 {
		r.Outcome, r.Failed = machine.Failed, n
		more := ""
		if n > 1 {
			more = fmt.Sprintf(", and %d more", n-1)
		}
		why = append(why, guardLine(tampered[0])+more)
		for _, f := range tampered[:min(n, maxGuardFindings)] {
			name := f.Test
			if name == "" {
				name = f.File
			}
			r.Failing = append(r.Failing, name)
		}
	}
	if n := len(review); n > 0 {
		why = append(why, fmt.Sprintf("to be looked at: %d", n))
	}
	if len(unread) > 0 {
		why = append(why, "not read: "+strings.Join(unread, ", ")+": only the tests that ran tell")
	}
	r.Why = strings.Join(why, "; ")
	var lines []string
	size := 0
	for _, f := range append(slices.Clone(tampered), review...) {
		line := guardLine(f)
		if size += len(line) + 1; size > 4000 {
			lines = append(lines, "...")
			break
		}
		lines = append(lines, line)
	}
	r.Summary = strings.Join(lines, "\n")
	return r
}

func guardLine(f slice.GuardFinding) string {
	at := f.File
	if f.Line > 0 {
		at = fmt.Sprintf("%s:%d", at, f.Line)
	}
	if f.Test != "" {
		at += ": `" + f.Test + "`"
	}
	return fmt.Sprintf("%s: %s: %s", at, f.Kind, f.Why)
}

// judgeChange has the guard judge one change.
func (w *work) judgeChange(ctx context.Context, p slice.Policy, s diffSpan) (guard.Report, error) {
	changes, err := w.store.Diff(ctx, s.from, s.to)
	if err != nil {
		return guard.Report{}, err
	}
	trees := [2]string{s.from, s.to}
	in := guard.Input{
		Protected: append(slices.Clone(p.Protected), guard.ProtectedByDefault()...),
		Frozen:    p.Frozen,
		List: func(side guard.Side) ([]guard.Entry, error) {
			entries, err := w.store.List(ctx, trees[side])
			list := make([]guard.Entry, len(entries))
			for i, e := range entries {
				list[i] = guard.Entry{Path: e.Path, Mode: e.Mode, Object: e.ID}
			}
			return list, err
		},
	}
	texts := [2]map[string][]byte{{}, {}}
	var names []string
	for _, c := range changes {
		both := map[string]*guard.Change{}
		for side, e := range []guard.Entry{{Path: c.Path, Mode: c.OldMode, Object: c.OldID}, {Path: c.Path, Mode: c.NewMode, Object: c.NewID}} {
			if side == 0 && c.OldPath != "" {
				e.Path = c.OldPath
			}
			if strings.Trim(e.Mode, "0") == "" {
				continue
			}
			change := both[e.Path]
			if change == nil {
				change = &guard.Change{Path: e.Path}
				both[e.Path] = change
			}
			if side == 0 {
				change.Base = &e
			} else {
				change.Head = &e
			}
			if strings.HasPrefix(e.Mode, "100") && !c.Binary && len(names) < prefetched {
				names = append(names, e.Object)
				texts[side][e.Path] = nil
			}
		}
		for _, path := range []string{c.OldPath, c.Path} {
			if change := both[path]; change != nil {
				in.Changes = append(in.Changes, *change)
			}
		}
	}
	objects, err := w.store.Read(ctx, names...)
	if err != nil {
		return guard.Report{}, err
	}
	found := map[string]workspace.Object{}
	for _, o := range objects {
		found[o.ID] = o
	}
	for _, c := range in.Changes {
		for side, e := range []*guard.Entry{c.Base, c.Head} {
			if e == nil {
				continue
			}
			if o, ok := found[e.Object]; ok && o.Type == "blob" {
				texts[side][e.Path] = o.Bytes
			}
		}
	}
	in.Read = func(side guard.Side, path string) ([]byte, error) {
		if b := texts[side][path]; b != nil {
			return b, nil
		}
		return w.store.File(ctx, trees[side], path)
	}
	return guard.Judge(in)
}
