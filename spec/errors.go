package spec

import (
	"fmt"
	"sort"
	"strings"
)

// An Error is one thing that is wrong with what a person wrote.
type Error struct {
	// File, Line and Column say where; Line and Column count from 1, columns
	// in characters. They are empty for a value that came without a file.
	File   string
	Line   int
	Column int
	// Path is the place inside the document, such as "tasks[1].id"; empty is the whole.
	Path string
	// Got is what is there, Want what was expected, Hint what to do.
	Got  string
	Want string
	Hint string
}

func (e *Error) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File + ":")
	}
	if e.Line > 0 {
		fmt.Fprintf(&b, "%d:%d:", e.Line, e.Column)
	}
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	if e.Path != "" {
		b.WriteString(e.Path + ": ")
	}
	b.WriteString(e.Got)
	if e.Want != "" {
		b.WriteString(": expected " + e.Want)
	}
	if e.Hint != "" {
		b.WriteString("; " + e.Hint)
	}
	return b.String()
}

// Errors are all that was found wrong, in the order of the file.
type Errors []*Error

// MaxErrors is the most errors that are reported at once.
const MaxErrors = 20

// Error writes one error a line.
func (list Errors) Error() string {
	lines := make([]string, len(list))
	for i, e := range list {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the errors one by one.
func (list Errors) Unwrap() []error {
	errs := make([]error, len(list))
	for i, e := range list {
		errs[i] = e
	}
	return errs
}

// sorted returns the list as an error: nil if it is empty, else in order and
// cut to MaxErrors.
func (list Errors) sorted() error {
	if len(list) == 0 {
		return nil
	}
	sort.SliceStable(list, func(i, j int) bool {
		a, b := list[i], list[j]
		return a.Line < b.Line || a.Line == b.Line && a.Column < b.Column
	})
	if more := len(list) - MaxErrors; more > 0 {
		list = list[:MaxErrors:MaxErrors]
		last := list[MaxErrors-1]
		list[MaxErrors-1] = &Error{File: last.File, Line: last.Line, Column: last.Column, Got: fmt.Sprintf("%d more errors from here on", more+1)}
	}
	return list
}

// Suggest returns the one of known that word was most likely meant to be, or
// nothing if none is near.
func Suggest(word string, known []string) string {
	best, least := "", max(1, len(word)/3)+1
	for _, k := range known {
		if d := distance(strings.ToLower(word), strings.ToLower(k)); d < least {
			best, least = k, d
		}
	}
	return best
}

// distance is Levenshtein's, in bytes, with two that changed places as one step.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, last, row = last, row, before
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}

// or joins words as a sentence does: "a, b or c".
func or(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}
