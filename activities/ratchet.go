package activities

import (
	"cmp"
	"context"

	"interlock/activities/check"
	"interlock/machine"
	"interlock/slice"
)

// ratchet makes those checks red whose tests do not all run that ran and passed
// at the base.
func (a *Activities) ratchet(ctx context.Context, m measurement, in slice.MeasureIn, t terms, checks []slice.CheckResult) error {
	known := map[string]check.Tests{}
	tip := cmp.Or(in.Tip, in.Base)
	if tip == in.Base {
		for _, s := range in.Baseline {
			if tests, ok := a.tests(s.Tests); ok {
				known[s.Check] = tests
			}
		}
	}
	byName := map[string]slice.Command{}
	for i, c := range m.commands {
		byName[check.Name(c, i)] = c
	}
	// What is red by itself is told first: of code that does not build no test runs.
	compared := func(c slice.CheckResult) bool {
		return c.Outcome == machine.Done || check.Excused(c, in.ExpectedRed)
	}
	var due []slice.Command
	for i, c := range checks {
		command := byName[c.Name]
		if !compared(c) {
			continue
		}
		if command.Reads == "" || command.Reads == slice.ReadsExit {
			checks[i].Why += ", which tells no tests to compare with those of the base"
			continue
		}
		if _, ok := known[c.Name]; !ok {
			due = append(due, command)
		}
	}
	if len(due) > 0 {
		tell(ctx, "measuring the tests of the base")
		base := m
		base.view, base.commands = viewBase, due
		results, err := a.measureAt(ctx, base, tip, tip)
		if err != nil {
			return err
		}
		for _, r := range results {
			if tests, ok := a.tests(r.Tests); ok {
				known[r.Name] = tests
			}
		}
	}
	for i, c := range checks {
		command := byName[c.Name]
		if !compared(c) || command.Reads == "" || command.Reads == slice.ReadsExit {
			continue
		}
		base, ok := known[c.Name]
		now, there := a.tests(c.Tests)
		if !ok || !there {
			checks[i].Why += "; the tests of the base are not known, so none are compared"
			continue
		}
		check.Lose(&checks[i], check.Losses(base, now, t.Spec.AllowRemovedTests, nil))
	}
	return nil
}

// tests reads a list of tests that was kept as evidence. One that is gone or
// was changed is as good as none: it is measured again.
func (a *Activities) tests(e slice.Evidence) (check.Tests, bool) {
	if e.Hash == "" {
		return check.Tests{}, false
	}
	b, err := a.evidence.Get(e.Hash)
	if err != nil {
		return check.Tests{}, false
	}
	tests, err := check.ReadTests(b)
	return tests, err == nil
}
