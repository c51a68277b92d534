package activities

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"interlock/activities/evidence"
	"interlock/slice"
)

// limits knows which accounts of this host are at a limit of their provider, so
// that every slice that uses an account is held back when one has met its
// limit. What it knows is in a locked file for each account, which outlives the
// worker. After the limit one call goes first, and the others follow when that
// one has not met it again.
type limits struct {
	dir string
	now func() time.Time
	// passes is how long the first call may last before it is taken for a proof
	// that the account is free: a provider refuses at the first request.
	passes time.Duration

	mu sync.Mutex
	// first are the calls that go first, by account.
	first map[string]chan struct{}
}

// limited is the file of an account. It holds no credential.
type limited struct {
	Use slice.Adapter `json:"use"`
	// MetAt is when the limit was met last, ResetAt when it ends as the provider
	// says (zero if it does not say), Until when the account may be asked again.
	MetAt   time.Time `json:"met_at"`
	ResetAt time.Time `json:"reset_at,omitzero"`
	Until   time.Time `json:"until"`
	// Probes counts how often it was met in a row.
	Probes int `json:"probes"`
}

func newLimits(home string) *limits {
	return &limits{dir: filepath.Join(home, "limits"), now: time.Now, passes: 20 * time.Second, first: map[string]chan struct{}{}}
}

// account names the account that an agent uses, by its adapter, its program if
// that is the policy's, and a hash of the credentials that the policy passes.
func account(who slice.Agent, env, pass []string) string {
	secrets := evidence.Secrets(env)
	if slices.Contains(pass, "HOME") {
		for _, e := range env {
			if home, ok := strings.CutPrefix(e, "HOME="); ok {
				secrets = append(secrets, home)
			}
		}
	}
	slices.Sort(secrets)
	parts := append(append([]string{string(who.Use)}, who.Run...), "\x00")
	b, _ := json.Marshal(append(parts, slices.Compact(secrets)...)) // strings have a JSON form
	sum := sha256.Sum256(b)
	return string(who.Use) + "-" + hex.EncodeToString(sum[:12])
}

// enter asks whether an account may be used now. It returns the limit that holds
// it back, or a channel that is closed when the call that goes first is through,
// or neither: then the call may begin, and leave must follow it.
func (l *limits) enter(account string, renewed bool) (held *limited, wait <-chan struct{}, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if first := l.first[account]; first != nil {
		return nil, first, nil
	}
	err = l.locked(account, func(file string, has *limited) error {
		switch {
		case has == nil:
			return nil
		case l.now().Before(has.Until) && !renewed:
			held = has
			return nil
		}
		l.first[account] = make(chan struct{})
		time.AfterFunc(l.passes, func() { l.pass(account, l.first[account]) })
		return nil
	})
	return held, nil, err
}

// pass takes an account for free, unless its first call has ended already.
func (l *limits) pass(account string, first chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if first == nil || l.first[account] != first {
		return
	}
	_ = l.locked(account, func(file string, _ *limited) error { return os.Remove(file) })
	l.release(account)
}

func (l *limits) release(account string) {
	if first := l.first[account]; first != nil {
		close(first)
		delete(l.first, account)
	}
}

// leave says how a call ended that began at a time: met says that it met the
// limit, free that the account can be used.
func (l *limits) leave(account string, use slice.Adapter, began time.Time, met bool, reset time.Time, free bool) (until time.Time, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.release(account)
	err = l.locked(account, func(file string, has *limited) error {
		switch {
		case met:
			next := limited{Use: use, MetAt: l.now(), ResetAt: reset, Probes: 1}
			if has != nil {
				next.Probes = has.Probes
				if began.After(has.MetAt) {
					next.Probes++
				}
			}
			next.Until = slice.ProbeAt(next.MetAt, reset, next.Probes)
			until = next.Until
			b, err := json.MarshalIndent(next, "", "  ")
			if err != nil {
				return err
			}
			return writeSynced(file, append(b, '\n'))
		case free && has != nil && began.After(has.MetAt):
			return os.Remove(file)
		}
		return nil
	})
	return until, err
}

// locked does something with the file of an account while no other process
// does. A file that cannot be read is one that somebody else wrote: it counts
// for nothing.
func (l *limits) locked(account string, do func(file string, has *limited) error) error {
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return fmt.Errorf("limits of accounts: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(l.dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("limits of accounts: %w", err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("limits of accounts: lock %s: %w", lock.Name(), err)
	}
	file := filepath.Join(l.dir, account+".json")
	b, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("limits of accounts: %w", err)
	}
	var has *limited
	if err == nil {
		has = &limited{}
		if json.Unmarshal(b, has) != nil || has.Until.IsZero() || has.Until.After(l.now().Add(slice.MaxProbe)) {
			has = nil
		}
	}
	if err := do(file, has); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("limits of accounts: %w", err)
	}
	return nil
}

// follow waits until the call that goes first is through.
func follow(ctx context.Context, first <-chan struct{}) error {
	tell(ctx, "waiting for the first call after a limit of the account")
	select {
	case <-first:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
