package workspace

import (
	"bytes"
	"context"
	"crypto/sha1"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// lease is an exclusive lock on a file. It belongs to the open file, so git processes that inherit it keep it.
type lease struct{ file *os.File }

// acquire waits for the lock until the context ends.
func acquire(ctx context.Context, path string) (*lease, error) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		err = flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			// The file may have been removed between opening and locking.
			held, err1 := f.Stat()
			named, err2 := os.Lstat(path)
			if err1 == nil && err2 == nil && os.SameFile(held, named) {
				return &lease{f}, nil
			}
		}
		_ = f.Close()
		if err != nil && !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, &os.PathError{Op: "lock", Path: path, Err: err}
		}
		select {
		case <-ctx.Done():
			return nil, &os.PathError{Op: "lock", Path: path, Err: context.Cause(ctx)}
		case <-tick.C:
		}
	}
}

func flock(f *os.File, how int) error {
	for {
		err := syscall.Flock(int(f.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

func (l *lease) release() {
	// Closing alone would not unlock if a process still had inherited it.
	_ = flock(l.file, syscall.LOCK_UN)
	_ = l.file.Close()
}

// writeFile replaces a file at once.
func writeFile(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

func readFileIfAny(path string) (string, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(b), err
}

// readIndex reads an index file. Git does not check its sum and would take what is left of a file that was cut
// off for paths, so a broken one is removed, and is as good as none: fs.ErrNotExist.
func readIndex(path string) ([]byte, time.Time, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, time.Time{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, time.Time{}, err
	}
	content, err := io.ReadAll(f)
	if err != nil {
		return nil, time.Time{}, err
	}
	if n := len(content) - sha1.Size; n > 0 {
		if sum := sha1.Sum(content[:n]); bytes.Equal(sum[:], content[n:]) {
			return content, info.ModTime(), nil
		}
	}
	if err := os.Remove(path); err != nil {
		return nil, time.Time{}, err
	}
	return nil, time.Time{}, &fs.PathError{Op: "read", Path: path, Err: fs.ErrNotExist}
}

// copyIndex copies an index file with its time: git compares it with the files' times to find those that were
// changed too soon after the index was written to be told by their times.
func copyIndex(from, to string) error {
	content, written, err := readIndex(from)
	if err != nil {
		return err
	}
	if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.WriteFile(to, content, 0o600); err != nil {
		return err
	}
	return os.Chtimes(to, written, written)
}

// RemoveAll removes a folder or file whatever its modes are, and follows no link.
func RemoveAll(path string) error {
	if err := os.RemoveAll(path); err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	unlock(path)
	return os.RemoveAll(path)
}

// unlock makes all folders below path writable; what it cannot change will fail at the removal.
func unlock(path string) {
	_ = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			if info, err := d.Info(); err == nil && info.Mode().Perm()&0o700 != 0o700 {
				_ = os.Chmod(p, info.Mode().Perm()|0o700)
			}
		}
		return nil
	})
}
