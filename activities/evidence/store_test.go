package evidence

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"interlock/slice"
)

func open(t *testing.T) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "evidence"))
	require.NoError(t, err)
	return s
}

func unfinished(t *testing.T, s *Store) []os.DirEntry {
	t.Helper()
	entries, err := os.ReadDir(s.unfinished())
	require.NoError(t, err)
	return entries
}

func TestPutAndGet(t *testing.T) {
	s := open(t)
	for _, data := range [][]byte{nil, []byte("hello\n"), bytes.Repeat([]byte{0, 255}, 1<<20)} {
		e, err := s.Put("log", data)
		require.NoError(t, err)
		require.Equal(t, "log", e.Name)
		require.Equal(t, int64(len(data)), e.Size)

		again, err := s.Put("log", data)
		require.NoError(t, err)
		require.Equal(t, e, again, "the same bytes are the same evidence")

		got, err := s.Get(e.Hash)
		require.NoError(t, err)
		require.True(t, bytes.Equal(data, got))
	}
	e, err := s.Put("x", []byte("hello\n"))
	require.NoError(t, err)
	require.Equal(t, "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03", e.Hash)
	require.FileExists(t, filepath.Join(s.dir, "58", e.Hash))
	require.Empty(t, unfinished(t, s))
}

func TestGetRefusesWhatIsNoHash(t *testing.T) {
	s := open(t)
	for _, hash := range []string{"", "ab", "../../etc/passwd", strings.Repeat("A", 64), "../" + strings.Repeat("a", 61), strings.Repeat("g", 64)} {
		_, err := s.Get(hash)
		require.ErrorContains(t, err, "is no SHA-256", "%q", hash)
	}
	_, err := s.Get(strings.Repeat("a", 64))
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestDamagedEvidenceIsNamedAndMended(t *testing.T) {
	s := open(t)
	e, err := s.Put("verdict", []byte("vetoed"))
	require.NoError(t, err)
	path, err := s.Path(e.Hash)
	require.NoError(t, err)
	require.NoError(t, os.Chmod(path, 0o600))
	require.NoError(t, os.WriteFile(path, []byte("passed"), 0o600))

	_, err = s.Get(e.Hash)
	var damaged *DamagedError
	require.ErrorAs(t, err, &damaged)
	require.Equal(t, e.Hash, damaged.Hash)
	require.ErrorContains(t, err, path)

	_, err = s.Put("verdict", []byte("vetoed"))
	require.NoError(t, err)
	got, err := s.Get(e.Hash)
	require.NoError(t, err)
	require.Equal(t, "vetoed", string(got))
}

func TestWriterKeepsAllOrNothing(t *testing.T) {
	s := open(t)
	w, err := s.Create("log")
	require.NoError(t, err)
	_, err = w.Write([]byte("half"))
	require.NoError(t, err)
	w.Discard()
	require.Empty(t, unfinished(t, s))
	_, err = w.Write([]byte("more"))
	require.ErrorIs(t, err, fs.ErrClosed)
	_, err = w.Commit()
	require.ErrorIs(t, err, fs.ErrClosed)

	w, err = s.Create("log")
	require.NoError(t, err)
	for _, chunk := range []string{"one ", "two ", "three"} {
		_, err = w.Write([]byte(chunk))
		require.NoError(t, err)
	}
	e, err := w.Commit()
	require.NoError(t, err)
	w.Discard()
	got, err := s.Get(e.Hash)
	require.NoError(t, err)
	require.Equal(t, "one two three", string(got))
}

func TestManyPutTheSame(t *testing.T) {
	s := open(t)
	var group sync.WaitGroup
	results := make([]slice.Evidence, 16)
	errs := make([]error, len(results))
	for i := range results {
		group.Go(func() { results[i], errs[i] = s.Put("log", bytes.Repeat([]byte("x"), 100_000)) })
	}
	group.Wait()
	for i := range results {
		require.NoError(t, errs[i])
		require.Equal(t, results[0], results[i])
	}
	_, err := s.Get(results[0].Hash)
	require.NoError(t, err)
	require.Empty(t, unfinished(t, s))
}

func TestOpenRemovesWhatAKilledWorkerLeft(t *testing.T) {
	s := open(t)
	for name, age := range map[string]time.Duration{"old": 2 * litter, "new": 0} {
		file := filepath.Join(s.unfinished(), name)
		require.NoError(t, os.WriteFile(file, nil, 0o600))
		then := time.Now().Add(-age)
		require.NoError(t, os.Chtimes(file, then, then))
	}
	_, err := Open(s.dir)
	require.NoError(t, err)
	left := unfinished(t, s)
	require.Len(t, left, 1)
	require.Equal(t, "new", left[0].Name())
}

func TestMaskedStoreNeverKeepsASecret(t *testing.T) {
	s := open(t).Masked(NewMasker("hunter2hunter2"))
	w, err := s.Create("log")
	require.NoError(t, err)
	for _, b := range []byte("password: hunter2hunter2, again: hunter2hunter") {
		_, err := w.Write([]byte{b})
		require.NoError(t, err)
	}
	e, err := w.Commit()
	require.NoError(t, err)
	got, err := s.Get(e.Hash)
	require.NoError(t, err)
	require.Equal(t, "password: ***, again: hunter2hunter", string(got))
	require.Equal(t, int64(len(got)), e.Size)
}

func TestPathIsStable(t *testing.T) {
	s := open(t)
	hash := strings.Repeat("0a", 32)
	path, err := s.Path(hash)
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("%s/0a/%s", s.dir, hash), path)
}
