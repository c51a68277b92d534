package workspace

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"interlock/activities/git"
)

const ledgerFile = "ledger.jsonl"

// Ledger is the record of a slice as it stands in git: one line for each element, without newlines.
type Ledger struct {
	Commit string // that refs/interlock/<slice>/ledger points to; "" if nothing was written yet
	Lines  []string
}

// Ledger reads the record.
func (s *Store) Ledger(ctx context.Context, slice string) (Ledger, error) {
	ref, err := sliceRef(slice, "ledger")
	if err != nil {
		return Ledger{}, err
	}
	objects, err := s.read(ctx, ref, ref+":"+ledgerFile)
	if err != nil {
		return Ledger{}, err
	}
	l := Ledger{Commit: objects[0].ID}
	switch content := string(objects[1].Bytes); {
	case l.Commit == "":
	case objects[1].Type != "blob" || content == "" || !strings.HasSuffix(content, "\n"):
		return Ledger{}, errorf(LedgerConflict, nil, "%s holds no whole %s", ref, ledgerFile)
	default:
		l.Lines = strings.Split(strings.TrimSuffix(content, "\n"), "\n")
	}
	return l, nil
}

// appendTries bounds how often an append begins again because somebody else appended meanwhile.
const appendTries = 20

// AppendLedger appends lines to the record, the first of which has the number first (the record begins with
// number 1), and returns the record. Lines that are there already are compared: one that differs is an Error of
// kind LedgerConflict that names its number, and nothing is written. Numbers that would leave a gap are an
// Error of kind LedgerGap. The commit's time is when.
func (s *Store) AppendLedger(ctx context.Context, slice string, first int, lines []string, when time.Time) (Ledger, error) {
	ref, err := sliceRef(slice, "ledger")
	if err != nil {
		return Ledger{}, err
	}
	for i, line := range lines {
		if line == "" || strings.ContainsAny(line, "\n\x00") {
			return Ledger{}, errorf(InvalidInput, nil, "ledger line %d must be one line of text", first+i)
		}
	}
	for try := 0; ; try++ {
		l, err := s.Ledger(ctx, slice)
		if err != nil {
			return Ledger{}, err
		}
		if first < 1 || first > len(l.Lines)+1 {
			return Ledger{}, errorf(LedgerGap, nil, "ledger of %s has %d lines, line %d cannot follow", slice, len(l.Lines), first)
		}
		fresh := lines
		for n := first; n <= len(l.Lines) && len(fresh) > 0; n++ {
			if l.Lines[n-1] != fresh[0] {
				return Ledger{}, errorf(LedgerConflict, nil, "ledger of %s has another line %d than the one to append", slice, n)
			}
			fresh = fresh[1:]
		}
		if len(fresh) == 0 {
			return l, nil
		}
		l.Lines = append(l.Lines, fresh...)
		commit, err := s.writeLedger(ctx, ref, l, when)
		// 1 is fast-import's refusal to leave a commit behind that the new one does not contain.
		if git.ExitCode(err) == 1 && try < appendTries {
			continue
		}
		if err != nil {
			return Ledger{}, err
		}
		l.Commit = commit
		return l, nil
	}
}

// writeLedger makes blob, tree, commit and the move of the ref in one process. What fast-import refuses if it
// is no fast-forward is the compare-and-swap.
func (s *Store) writeLedger(ctx context.Context, ref string, l Ledger, when time.Time) (string, error) {
	var content bytes.Buffer
	for _, line := range l.Lines {
		content.WriteString(line + "\n")
	}
	message := fmt.Sprintf("Ledger, %d lines\n", len(l.Lines))
	var in bytes.Buffer
	fmt.Fprintf(&in, "feature done\ncommit %s\nmark :1\ncommitter Interlock <interlock@localhost> %d +0000\ndata %d\n%s\n",
		ref, when.Unix(), len(message), message)
	if l.Commit != "" {
		fmt.Fprintf(&in, "from %s\n", l.Commit)
	}
	fmt.Fprintf(&in, "M 100644 inline %s\ndata %d\n%s\nget-mark :1\ndone\n", ledgerFile, content.Len(), content.Bytes())
	out, err := s.git.Feed(ctx, in.Bytes(), append(durable[:len(durable):len(durable)], fastImport...)...)
	return strings.TrimSpace(string(out)), err
}
