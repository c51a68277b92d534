// Package evidence keeps bytes by their SHA-256 (check logs, diffs,
// transcripts, verdicts, briefs), so that a record holds the hash and never the
// bytes, and keeps secrets out of both.
package evidence

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"interlock/slice"
)

// litter is the age at which an unfinished file is taken for one that a killed
// worker left behind.
const litter = 24 * time.Hour

// Store is a folder of evidence. The bytes with hash abcd… are the file
// ab/abcd…; a file is there completely or not at all. A Store may be used by
// many goroutines and by many processes at once.
type Store struct {
	dir  string
	mask *Masker
}

// Open opens the store in the folder dir, which it makes if need be.
func Open(dir string) (*Store, error) {
	s := &Store{dir: dir}
	if err := os.MkdirAll(s.unfinished(), 0o700); err != nil {
		return nil, fmt.Errorf("evidence: %w", err)
	}
	entries, err := os.ReadDir(s.unfinished())
	if err != nil {
		return nil, fmt.Errorf("evidence: %w", err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > litter {
			_ = os.Remove(filepath.Join(s.unfinished(), e.Name()))
		}
	}
	return s, nil
}

// Masked returns the same store, except that what is put through it is masked
// by m first.
func (s *Store) Masked(m *Masker) *Store { return &Store{dir: s.dir, mask: m} }

func (s *Store) unfinished() string { return filepath.Join(s.dir, "unfinished") }

// Path returns the file that keeps the bytes with that hash, whether or not it
// is there. What is no SHA-256 in lower-case hexadecimal is refused.
func (s *Store) Path(hash string) (string, error) {
	if len(hash) != 2*sha256.Size || strings.Trim(hash, "0123456789abcdef") != "" {
		return "", fmt.Errorf("evidence: %q is no SHA-256: expected 64 hexadecimal digits", hash)
	}
	return filepath.Join(s.dir, hash[:2], hash), nil
}

// Put keeps data. When it returns, the bytes are on the disk. Putting the same
// bytes again changes nothing, unless the file was damaged: then it is mended.
func (s *Store) Put(name string, data []byte) (slice.Evidence, error) {
	w, err := s.Create(name)
	if err != nil {
		return slice.Evidence{}, err
	}
	defer w.Discard()
	if _, err := w.Write(data); err != nil {
		return slice.Evidence{}, err
	}
	return w.Commit()
}

// Get returns the bytes with that hash. What is missing is fs.ErrNotExist; a
// file whose bytes have another hash is a *DamagedError.
func (s *Store) Get(hash string) ([]byte, error) {
	path, err := s.Path(hash)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("evidence %s is not on this host: %w", hash, err)
	}
	if err != nil {
		return nil, fmt.Errorf("evidence: %w", err)
	}
	if found := sha256.Sum256(data); hex.EncodeToString(found[:]) != hash {
		return nil, &DamagedError{Path: path, Hash: hash, Found: hex.EncodeToString(found[:])}
	}
	return data, nil
}

// DamagedError says that a file does not hold the bytes that its name promises.
type DamagedError struct {
	Path  string
	Hash  string // what the name promises
	Found string // what the bytes have
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("evidence %s is damaged: the bytes of %s have the hash %s; restore the file from a copy, and do not trust what is in it", e.Hash, e.Path, e.Found)
}

// Writer keeps bytes as they come. It is for one goroutine.
type Writer struct {
	store *Store
	name  string
	file  *os.File // nil once it is committed or discarded
	hash  hash.Hash
	size  int64
	mask  *Stream
}

// Create begins evidence of the given name, which ends with Commit or Discard.
func (s *Store) Create(name string) (*Writer, error) {
	f, err := os.CreateTemp(s.unfinished(), "")
	if err != nil {
		return nil, fmt.Errorf("evidence %s: %w", name, err)
	}
	w := &Writer{store: s, name: name, file: f, hash: sha256.New()}
	w.mask = s.mask.Stream(kept{w})
	return w, nil
}

// Write adds p. Bytes that may be the beginning of a secret are held back
// until it is known whether they are.
func (w *Writer) Write(p []byte) (int, error) { return w.mask.Write(p) }

// kept is the end of a Writer's masking.
type kept struct{ w *Writer }

func (k kept) Write(p []byte) (int, error) {
	if k.w.file == nil {
		return 0, fmt.Errorf("evidence %s: %w", k.w.name, fs.ErrClosed)
	}
	n, err := k.w.file.Write(p)
	k.w.hash.Write(p[:n])
	k.w.size += int64(n)
	if err != nil {
		return n, fmt.Errorf("evidence %s: %w", k.w.name, err)
	}
	return n, nil
}

var _ io.Writer = (*Writer)(nil)

// Commit keeps what was written and names it.
func (w *Writer) Commit() (slice.Evidence, error) {
	fail := func(err error) (slice.Evidence, error) {
		w.Discard()
		return slice.Evidence{}, fmt.Errorf("evidence %s: %w", w.name, err)
	}
	if w.file == nil {
		return fail(fs.ErrClosed)
	}
	if err := w.mask.Close(); err != nil {
		return fail(err)
	}
	e := slice.Evidence{Name: w.name, Hash: hex.EncodeToString(w.hash.Sum(nil)), Size: w.size}
	if _, err := w.store.Get(e.Hash); err == nil {
		w.Discard()
		return e, nil
	}
	path, err := w.store.Path(e.Hash)
	if err != nil {
		return fail(err)
	}
	if err := errors.Join(w.file.Chmod(0o400), w.file.Sync(), w.file.Close()); err != nil {
		return fail(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fail(err)
	}
	if err := os.Rename(w.file.Name(), path); err != nil {
		return fail(err)
	}
	w.file = nil
	// Without these a power cut can lose the name although the bytes are safe.
	if err := errors.Join(syncFolder(filepath.Dir(path)), syncFolder(w.store.dir)); err != nil {
		return fail(err)
	}
	return e, nil
}

// Discard forgets what was written. It does nothing after Commit.
func (w *Writer) Discard() {
	if w.file == nil {
		return
	}
	_ = w.file.Close()
	_ = os.Remove(w.file.Name())
	w.file = nil
}

func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
