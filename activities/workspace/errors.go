package workspace

import (
	"errors"
	"fmt"
)

// Kind classes an Error, so that a caller can choose between repeating, asking a person and giving up.
type Kind string

// The kinds. Only Unreachable, NotApplied and Unknown are worth a repetition (Kind.Retryable).
const (
	NotARepository Kind = "not_a_repository" // nothing there, or no git repository
	NoSuchBase     Kind = "no_such_base"     // no branch, tag or commit of that name (any more)
	AmbiguousBase  Kind = "ambiguous_base"   // the name means more than one thing
	Unreachable    Kind = "unreachable"      // network, server: may pass
	Unauthorized   Kind = "unauthorized"     // credentials missing or refused
	Shallow        Kind = "shallow"          // the source has only a part of its history
	LFS            Kind = "lfs"              // files kept by Git LFS
	Submodule      Kind = "submodule"        // gitlinks
	UnsafePath     Kind = "unsafe_path"      // a path that git refuses to check out
	ObjectFormat   Kind = "object_format"    // a SHA-256 repository
	TooOldGit      Kind = "too_old_git"
	InvalidInput   Kind = "invalid_input" // a name, id or address that cannot be
	NotFound       Kind = "not_found"     // a ref, object or file that is not in the store
	Moved          Kind = "moved"         // a ref is not where it was expected: somebody else moved it
	NotApplied     Kind = "not_applied"   // a push had no effect; it may be repeated with the same lease
	Rejected       Kind = "rejected"      // the other side refused for good: a rule, a hook, a size
	Unknown        Kind = "unknown"       // it cannot be told whether a push had its effect
	CheckedOut     Kind = "checked_out"   // the branch is checked out in the user's repository
	Unrelated      Kind = "unrelated"     // the two commits have no common ancestor
	LedgerConflict Kind = "ledger_conflict"
	LedgerGap      Kind = "ledger_gap"
	Foreign        Kind = "foreign" // a folder that is not ours
	Unsaved        Kind = "unsaved" // work that would be lost
)

// Retryable says whether the same call may succeed later without anybody doing something.
func (k Kind) Retryable() bool { return k == Unreachable || k == NotApplied || k == Unknown }

// Error is a failure that has a class. Its text is for the person who must act.
type Error struct {
	Kind    Kind
	Message string
	Have    string // for Moved: the object id that is there; empty: nothing
	Err     error
}

func (e *Error) Error() string {
	if e.Err != nil {
		return e.Message + ": " + e.Err.Error()
	}
	return e.Message
}

func (e *Error) Unwrap() error { return e.Err }

// KindOf is the kind of the Error in err's chain, or "".
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return ""
}

func errorf(kind Kind, err error, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...), Err: err}
}
