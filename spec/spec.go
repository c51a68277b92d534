// Package spec reads what a person writes: a slice, and the policy of a
// repository. It says where something is wrong and what was expected. It
// reads bytes, never files.
package spec

import (
	"interlock/slice"
)

const (
	emptySlice  = "a slice with repo, base, title and tasks"
	emptyPolicy = "a policy with agents and checks"
)

// ParseSlice reads a slice in YAML or JSON; name is the file's, for messages.
// A repo that is a relative path stays relative. What is wrong is told as Errors.
func ParseSlice(name string, data []byte) (slice.Spec, error) {
	var s slice.Spec
	d := parse(name, data, &s, emptySlice)
	if !d.unreadable() {
		d.slice(s)
	}
	return s, d.errs.sorted()
}

// ParsePolicy reads the policy of a repository in YAML or JSON; name is the
// file's, for messages. What is wrong is told as Errors.
func ParsePolicy(name string, data []byte) (slice.Policy, error) {
	var p slice.Policy
	d := parse(name, data, &p, emptyPolicy)
	if !d.unreadable() {
		d.whole(p)
	}
	return p, d.errs.sorted()
}

// Validate checks a slice that came without a file, by the rules of ParseSlice.
func Validate(s slice.Spec) error {
	d := &document{failed: map[string]bool{}}
	d.slice(s)
	return d.errs.sorted()
}

// ValidatePolicy checks a policy that came without a file, by the rules of ParsePolicy.
func ValidatePolicy(p slice.Policy) error {
	d := &document{failed: map[string]bool{}}
	d.whole(p)
	return d.errs.sorted()
}

// unreadable says that there is no document to check.
func (d *document) unreadable() bool { return len(d.at) == 0 }

// whole checks the policy of a repository.
func (d *document) whole(p slice.Policy) {
	d.policy("", p, false)
	d.notYet(slice.Spec{Policy: &p}, true)
}
