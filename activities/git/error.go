package git

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
)

// Error is a git call that failed. Nothing in it carries a password: addresses are redacted.
type Error struct {
	Args     []string
	Dir      string // the folder it ran in
	ExitCode int    // -1 if git did not start or did not end by itself
	Stderr   string // the end of git's messages, in English
	Err      error  // why it did not end by itself: the context's error, or that of the operating system
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("git")
	if len(e.Args) > 0 {
		b.WriteString(" " + e.Args[0])
	}
	if e.Dir != "" {
		b.WriteString(" in " + e.Dir)
	}
	if message := strings.TrimSpace(e.Stderr); message != "" {
		b.WriteString(": " + message)
	}
	switch {
	case e.ExitCode >= 0:
		b.WriteString(" (exit code " + strconv.Itoa(e.ExitCode) + ")")
	case e.Err != nil:
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// ExitCode is the exit code of the git call that err comes from: 0 for nil, -1 if there is none.
func ExitCode(err error) int {
	if err == nil {
		return 0
	}
	var e *Error
	if errors.As(err, &e) {
		return e.ExitCode
	}
	return -1
}

// Stderr is what the git call that err comes from said, or "".
func Stderr(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Stderr
	}
	return ""
}

// A name before the @ of an http address may be a token; of an ssh address it is a plain user name.
var (
	httpUser    = regexp.MustCompile(`(?i)\b(https?://)[^/@\s'"]+@`)
	anyPassword = regexp.MustCompile(`(?i)\b([a-z][a-z0-9+.-]*://[^/:@\s'"]*):[^/@\s'"]*@`)
)

// Redact hides the credentials in addresses.
func Redact(s string) string {
	s = httpUser.ReplaceAllString(s, "${1}***@")
	return anyPassword.ReplaceAllString(s, "${1}:***@")
}

func redactAll(args []string) []string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = Redact(a)
	}
	return out
}
