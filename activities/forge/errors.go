package forge

import (
	"errors"
	"fmt"
	"time"
)

// Kind classes an Error, so that a caller can choose between waiting, asking a
// person and giving up.
type Kind string

// The kinds. Kind.Retryable says which may pass by themselves.
const (
	Unauthorized Kind = "unauthorized" // the token is missing, wrong or expired
	NotFound     Kind = "not_found"    // no such repository, branch or proposal, or the token may not see it
	Refused      Kind = "refused"      // a rule of the forge: protection, permission, a method that is off
	Conflict     Kind = "conflict"     // what is there is not what was expected
	HeadMoved    Kind = "head_moved"   // the proposal is at another commit
	WasClosed    Kind = "was_closed"   // somebody closed the proposal
	Limited      Kind = "limited"      // a rate limit: see RetryAt
	Unready      Kind = "unready"      // the forge is not done with something that it does by itself
	Unreachable  Kind = "unreachable"  // network, server: may pass
	NotApplied   Kind = "not_applied"  // it had no effect; the same call may be repeated
	Unknown      Kind = "unknown"      // it cannot be told whether it had its effect
)

// Retryable says whether the same call may succeed later without anybody doing something.
func (k Kind) Retryable() bool {
	switch k {
	case Limited, Unready, Unreachable, NotApplied, Unknown:
		return true
	case Unauthorized, NotFound, Refused, Conflict, HeadMoved, WasClosed:
	}
	return false
}

// Error is a failure that has a class. Its text is for the person who must act.
type Error struct {
	Kind    Kind
	Message string
	// RetryAt is when a rate limit ends; zero if the forge does not say.
	RetryAt time.Time
	Err     error
}

func (e *Error) Error() string {
	if e.Err != nil {
		return e.Message + ": " + text(e.Err)
	}
	return e.Message
}

// text is what err says, without the method and address that package http adds.
func text(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Error()
	}
	return err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// KindOf is the kind of the Error in err's chain; Unreachable for any other
// error, and "" for none.
func KindOf(err error) Kind {
	var e *Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &e):
		return e.Kind
	}
	return Unreachable
}

// RetryAt is when err says that a limit ends; zero if it does not.
func RetryAt(err error) time.Time {
	for {
		var e *Error
		if !errors.As(err, &e) {
			return time.Time{}
		}
		if !e.RetryAt.IsZero() {
			return e.RetryAt
		}
		err = e.Err
	}
}

// doubtful reports whether a failed effect may have happened all the same.
func doubtful(err error) bool { return KindOf(err) == Unreachable }

func errorf(kind Kind, err error, format string, args ...any) *Error {
	e := &Error{Kind: kind, Message: fmt.Sprintf(format, args...), Err: err}
	e.RetryAt = RetryAt(err)
	return e
}
