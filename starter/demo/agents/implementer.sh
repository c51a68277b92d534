#!/bin/sh
# A scripted implementer: it stands where a coding agent would. It gets its
# brief on standard input, changes files in the working directory, and answers
# with JSON on standard output.
#
# Its first try at the first task is wrong on purpose. It repairs it only
# because its next brief names the test that was red.
set -eu
brief=$(cat)
told() { printf '%s' "$brief" | grep -q -e "$1"; }

if told GreetAll; then
	cat >greet_all.go <<'GO'
package greet

import "strings"

// GreetAll returns one greeting for several people.
func GreetAll(names ...string) string {
	last := len(names) - 1
	if last < 1 {
		return Greet(strings.Join(names, ""))
	}
	return Greet(strings.Join(names[:last], ", ") + " and " + names[last])
}
GO
	cat >greet_all_test.go <<'GO'
package greet

import "testing"

func TestGreetAll(t *testing.T) {
	for want, names := range map[string][]string{
		"Hello, world!":                 nil,
		"Hello, Ada!":                   {"Ada"},
		"Hello, Ada and Grace!":         {"Ada", "Grace"},
		"Hello, Ada, Grace and Edsger!": {"Ada", "Grace", "Edsger"},
	} {
		if got := GreetAll(names...); got != want {
			t.Errorf("GreetAll(%q) = %q, want %q", names, got, want)
		}
	}
}
GO
	did='GreetAll joins the names.'
elif told TestGreetOnlySpaces; then
	cat >greet.go <<'GO'
// Package greet greets people.
package greet

import "strings"

// Greet returns a greeting for one person, or for the world.
func Greet(name string) string {
	if strings.TrimSpace(name) == "" {
		name = "world"
	}
	return "Hello, " + name + "!"
}
GO
	did='Names of nothing but spaces are no names either.'
else
	cat >without_name_test.go <<'GO'
package greet

import "testing"

func TestGreetNobody(t *testing.T) {
	if got := Greet(""); got != "Hello, world!" {
		t.Errorf("Greet(%q) = %q", "", got)
	}
}

func TestGreetOnlySpaces(t *testing.T) {
	if got := Greet("  "); got != "Hello, world!" {
		t.Errorf("Greet(%q) = %q", "  ", got)
	}
}
GO
	cat >greet.go <<'GO'
// Package greet greets people.
package greet

// Greet returns a greeting for one person, or for the world.
func Greet(name string) string {
	if name == "" {
		name = "world"
	}
	return "Hello, " + name + "!"
}
GO
	did='Greet greets the world; all tests are green.'
fi
printf '{"status":"done","summary":"%s","cost_usd":0.02}\n' "$did"
