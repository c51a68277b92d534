// Package examples holds slices with scripted agents, each of which shows one
// thing that the machine does. `interlock demo --tour` plays them, and a test
// plays all of them against the real server.
//
// Each folder is one example: slice.yaml, interlock.yaml and the scripts that
// stand where coding agents would; before.sh is run when the example is
// written, and repository/ holds what its repository has beside the files of
// sample/. The folder agents/ has the scripts that several examples share.
package examples

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"interlock/activities/git"
	"interlock/machine"
	"interlock/slice"
)

//go:embed */*
var files embed.FS

// Example is one slice with its world.
type Example struct {
	// Name is the folder and the slice's id.
	Name string
	// Shows is what there is to see, in one sentence; Saw what happened, once
	// it was seen.
	Shows, Saw string
	// Ending and Cause are how it ends.
	Ending machine.Ending
	Cause  machine.Cause
	// Tour says that the tour plays it.
	Tour bool
	// Person is what a person does at each wait, in order.
	Person []Act
}

// Act is what a person does when the slice waits at a step.
type Act struct {
	At    machine.Step
	Lines []Line
}

// Line is a line of shell that a person types. $SUBJECT in it is what waits to
// be decided on, $FOLDER where an implementer works, and $HERE the folder of
// the example.
type Line struct {
	Run string
	// Exit is the exit status that it ends with.
	Exit int
}

// End is the pair of ending and cause that the example ends with.
func (e Example) End() machine.End {
	end, _ := machine.Find(e.Ending, e.Cause)
	return end
}

// Find returns the example of a name.
func Find(name string) (Example, bool) {
	i := slices.IndexFunc(all, func(e Example) bool { return e.Name == name })
	if i < 0 {
		return Example{}, false
	}
	return all[i], true
}

// All returns every example, in the order of the tour and then of the exit codes.
func All() []Example { return slices.Clone(all) }

func approve(at machine.Step, id string) Act {
	return Act{At: at, Lines: []Line{{Run: "interlock approve " + id + " --subject $SUBJECT --by Ada"}}}
}

var all = []Example{
	{
		Name: "veto", Ending: machine.Delivered, Tour: true,
		Shows: "A veto, a second veto, the advisor, then a pass.",
		Saw:   "The first candidate had no test, the second one that could not fail. The last retry was not given away: an advisor was asked first, and the work began again from the last good commit.",
	}, {
		Name: "corrections", Ending: machine.Delivered, Tour: true,
		Shows: "A judge asks for a correction, and gets it.",
		Saw:   "What is to be corrected is no veto: it has a budget of its own, and nothing was thrown away.",
	}, {
		Name: "corrections-open", Ending: machine.Delivered,
		Shows: "A correction that is never made stays open: it is delivered, and the result says so.",
		Saw:   "Corrections do not block. The one that was not made is in the result and in the record.",
	}, {
		Name: "discarded", Ending: machine.Delivered, Tour: true,
		Shows: "An answer that does not fit its schema is discarded, and the step is asked again.",
		Saw:   "The agent said that it was done in its own words. That is no answer, so nothing of it was used and no retry was spent.",
	}, {
		Name: "conflict", Ending: machine.Delivered, Tour: true,
		Shows: "The base changes the same line meanwhile, and the reconciler resolves the conflict.",
		Saw:   "Only the file in conflict might change, no marker might stay, and the lines of both sides had to be there: the program looked, then measured and judged the whole again.",
	}, {
		Name: "gates", Ending: machine.Delivered, Tour: true,
		Shows:  "A person approves the plan, and later the commit that is to be published.",
		Saw:    "An approval names the hash that was looked at. Another plan or another commit would have asked again.",
		Person: []Act{approve(machine.PlanGate, "gates"), approve(machine.PublishGate, "gates")},
	}, {
		Name: "pull", Ending: machine.Delivered, Tour: true,
		Shows: "Nobody is called: whoever does the work asks what is due, and reports.",
		Saw:   "A report for a task that is not due was refused with exit code 9. The work was measured and judged as everybody's.",
		Person: []Act{{At: machine.Implement, Lines: []Line{
			{Run: "interlock next pull"},
			{Run: `echo '{"status":"done"}' | interlock report pull --step implement --task 2 --by Ada --file -`, Exit: machine.ExitNotDue},
			{Run: "sh $HERE/work.sh $FOLDER"},
			{Run: `echo '{"status":"done"}' | interlock report pull --step implement --task 1 --by Ada --file -`},
		}}},
	}, {
		Name: "expected-red", Ending: machine.Delivered,
		Shows: "A check that is red at the base, as the slice says, is green at the end.",
		Saw:   "Without expected_red in the slice, it would have been blocked at the baseline.",
	}, {
		Name: "e2e-unmeasured", Ending: machine.Delivered,
		Shows: "The end-to-end check cannot be measured, and policy delivers all the same.",
		Saw:   "The result says that it was not measured.",
	}, {
		Name: "blocked-judge-task", Ending: machine.BlockedJudge, Cause: machine.CauseTask,
		Shows: "A task is vetoed until no retry is left.",
		Saw:   "The same files after the advice count as a veto without asking the judge again.",
	}, {
		Name: "blocked-judge-slice", Ending: machine.BlockedJudge, Cause: machine.CauseSlice,
		Shows: "Each task passes, but the whole is vetoed.",
		Saw:   "The judges look once more at everything together before anything is published.",
	}, {
		Name: "invalid", Ending: machine.Invalid,
		Shows: "The policy at the base has a key that there is not.",
		Saw:   "The message names the file, the line and the key that was probably meant.",
	}, {
		Name: "blocked-judge-discards", Ending: machine.BlockedJudge, Cause: machine.CauseDiscards,
		Shows: "A judge never gives a verdict that can be read.",
		Saw:   "No verdict to trust is not a pass.",
	}, {
		Name: "blocked-checks-red", Ending: machine.BlockedChecks, Cause: machine.CauseRed, Tour: true,
		Shows: "A check stays red until no retry is left.",
		Saw:   "The agent said that it was done, twice. The check measured.",
	}, {
		Name: "blocked-checks-base-red", Ending: machine.BlockedChecks, Cause: machine.CauseBaseRed,
		Shows: "A check is red before anything is changed.",
		Saw:   "Everything is measured at the base first; no agent was asked.",
	}, {
		Name: "blocked-checks-unmeasured", Ending: machine.BlockedChecks, Cause: machine.CauseUnmeasured, Tour: true,
		Shows: "A check needs a program that this machine does not have.",
		Saw:   "Not measured is not red: no retry was spent, since no agent can repair a machine.",
	}, {
		Name: "blocked-checks-base-unmeasured", Ending: machine.BlockedChecks, Cause: machine.CauseBaseUnmeasured,
		Shows: "A check cannot be measured even at the base.",
		Saw:   "No agent was asked, and nothing was spent.",
	}, {
		Name: "blocked-e2e-red", Ending: machine.BlockedE2E, Cause: machine.CauseRed,
		Shows: "The end-to-end check is red.",
		Saw:   "All tasks are committed, so that only an added task can mend it.",
	}, {
		Name: "precondition", Ending: machine.Precondition,
		Shows: "The slice begins from a branch that is not there.",
		Saw:   "Nothing was begun, and what had been made was removed.",
	}, {
		Name: "impossible", Ending: machine.Impossible,
		Shows: "An agent removes the record of the slice.",
		Saw:   "The record no longer says what happened, so the slice does not go on.",
	}, {
		Name: "blocked-verify-red", Ending: machine.BlockedVerify, Cause: machine.CauseRed, Tour: true,
		Shows: "Two changes that merge without a conflict do not work together.",
		Saw:   "The work was green, and so was the base. What is delivered is both together, and that was measured in a fresh checkout.",
	}, {
		Name: "blocked-verify-unmeasured", Ending: machine.BlockedVerify, Cause: machine.CauseUnmeasured,
		Shows: "The whole cannot be measured.",
		Saw:   "Nothing was published.",
	}, {
		Name: "blocked-reconcile-conflict", Ending: machine.BlockedReconcile, Cause: machine.CauseConflict,
		Shows: "The base changes the same line meanwhile, and policy names no reconciler.",
		Saw:   "The conflict is for a person.",
	}, {
		Name: "reconciler-drops-a-side", Ending: machine.BlockedReconcile, Cause: machine.CauseConflict,
		Shows: "A reconciler resolves a conflict by dropping what the base has added.",
		Saw:   "The line that was gone was found, both times.",
	}, {
		Name: "blocked-commit", Ending: machine.BlockedCommit,
		Shows: "An agent moves the commit that the next one is to be made on.",
		Saw:   "What was judged is committed on what was judged, or not at all.",
	}, {
		Name: "aborted-budget", Ending: machine.AbortedBudget,
		Shows: "The slice has cost more than it may.",
		Saw:   "The step that would have cost more was not begun; the candidate is kept.",
	}, {
		Name: "blocked-call-timeout", Ending: machine.BlockedCall, Cause: machine.CauseTimeout,
		Shows: "An agent does not come to an end.",
		Saw:   "It was ended with everything that it had started, and its reservation was charged.",
	}, {
		Name: "blocked-call-discards", Ending: machine.BlockedCall, Cause: machine.CauseDiscards,
		Shows: "An agent never gives an answer that fits.",
		Saw:   "The discarded answers are kept as evidence.",
	}, {
		Name: "blocked-call-fatal", Ending: machine.BlockedCall, Cause: machine.CauseFatal,
		Shows: "The agent's program is not there.",
		Saw:   "Another try would end the same, so there was none.",
	}, {
		Name: "rejected", Ending: machine.Rejected, Tour: true,
		Shows: "A person rejects the plan.",
		Saw:   "Nothing was changed and nothing was spent.",
		Person: []Act{{At: machine.PlanGate, Lines: []Line{
			{Run: "interlock reject rejected --subject $SUBJECT --by Ada --note 'two tasks, please'"},
		}}},
	}, {
		Name: "blocked-e2e-unmeasured", Ending: machine.BlockedE2E, Cause: machine.CauseUnmeasured,
		Shows: "The end-to-end check cannot be measured.",
		Saw:   "With e2e_unmeasured: deliver in the policy it would be delivered all the same.",
	}, {
		Name: "cancelled", Ending: machine.Cancelled,
		Shows: "A person cancels the slice at a gate.",
		Saw:   "What the slice had left on this host was removed.",
		Person: []Act{{At: machine.PublishGate, Lines: []Line{
			{Run: "interlock cancel cancelled"},
		}}},
	}, {
		Name: "blocked-delivery-refused", Ending: machine.BlockedDelivery, Cause: machine.CauseRefused,
		Shows: "A hook of the remote refuses the branch.",
		Saw:   "What the remote said is in the message.",
	}, {
		Name: "blocked-delivery-conflict", Ending: machine.BlockedDelivery, Cause: machine.CauseConflict,
		Shows: "The slice's branch is there already, with somebody else's commit.",
		Saw:   "Nobody's work is overwritten.",
	}, {
		Name: "blocked-delivery-missing", Ending: machine.BlockedDelivery, Cause: machine.CauseMissing,
		Shows: "The repository has no remote to publish to.",
		Saw:   "The work is done and kept; only its delivery is open.",
	},
}

// Write makes the example in dir, which is made if need be, and returns the
// path of its slice.yaml: the repository with its remote, and the scripts.
func Write(ctx context.Context, dir string, e Example) (file string, err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return "", err
	}
	here := map[string]string{"Here": dir, "Shared": filepath.Join(dir, "agents")}
	repository, remote := filepath.Join(dir, "repository"), filepath.Join(dir, "remote.git")
	for _, part := range []struct{ from, to string }{
		{"sample", repository}, {"agents", here["Shared"]}, {e.Name, dir},
	} {
		if err := write(part.from, part.to, here); err != nil {
			return "", fmt.Errorf("example %s: %w", e.Name, err)
		}
	}
	policy := filepath.Join(dir, slice.PolicyFile)
	if err := os.Rename(policy, filepath.Join(repository, slice.PolicyFile)); err != nil {
		return "", fmt.Errorf("example %s: %w", e.Name, err)
	}
	for _, call := range []struct {
		in   string
		args []string
	}{
		{dir, []string{"init", "--quiet", "--bare", "--initial-branch=main", "--", remote}},
		{dir, []string{"init", "--quiet", "--initial-branch=main", "--", repository}},
		{repository, []string{"add", "--", "."}},
		{repository, []string{"commit", "--quiet", "--message=Begin"}},
		{repository, []string{"remote", "add", "origin", remote}},
		{repository, []string{"push", "--quiet", "origin", "main"}},
	} {
		if _, err := (git.Client{Dir: call.in}).Output(ctx, call.args...); err != nil {
			return "", fmt.Errorf("example %s: %w", e.Name, err)
		}
	}
	if err := before(ctx, dir); err != nil {
		return "", fmt.Errorf("example %s: before.sh: %w", e.Name, err)
	}
	return filepath.Join(dir, "slice.yaml"), nil
}

// write writes the files of an embedded folder.
func write(from, to string, here map[string]string) error {
	return fs.WalkDir(files, from, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		if path.Base(name) == slice.PolicyFile {
			if text, err = fill(name, text, here); err != nil {
				return err
			}
		}
		target := filepath.Join(to, filepath.FromSlash(strings.TrimPrefix(name, from+"/")))
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		return os.WriteFile(target, text, 0o644)
	})
}

func fill(name string, text []byte, here map[string]string) ([]byte, error) {
	t, err := template.New(name).Option("missingkey=error").Parse(string(text))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = t.Execute(&out, here)
	return out.Bytes(), err
}

// before runs the example's before.sh, if it has one, as somebody whom no
// setting of this user concerns.
func before(ctx context.Context, dir string) error {
	script := filepath.Join(dir, "before.sh")
	if _, err := os.Stat(script); err != nil {
		return nil
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-eu", script)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=Somebody", "GIT_AUTHOR_EMAIL=somebody@example.org",
		"GIT_COMMITTER_NAME=Somebody", "GIT_COMMITTER_EMAIL=somebody@example.org"}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// Fill puts values into a line as a person would type them: words, quoted where
// a shell needs it.
func (l Line) Fill(values map[string]string) string {
	names := slices.SortedFunc(maps.Keys(values), func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, name := range names {
		pairs = append(pairs, "$"+name, slice.Argv{values[name]}.String())
	}
	return strings.NewReplacer(pairs...).Replace(l.Run)
}

// Table is the list of the examples in Markdown.
func Table() string {
	var b strings.Builder
	b.WriteString("| example | shows | ends as | exit code | what a person does next |\n|---|---|---|---|---|\n")
	for _, e := range all {
		end := string(e.Ending)
		if e.Cause != "" {
			end += " (" + string(e.Cause) + ")"
		}
		tour := ""
		if e.Tour {
			tour = " ★"
		}
		fmt.Fprintf(&b, "| [%s](%s)%s | %s | %s | %d | %s |\n", e.Name, e.Name, tour, e.Shows, end, e.End().Code, e.End().Next)
	}
	return b.String()
}
