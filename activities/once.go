package activities

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.temporal.io/sdk/activity"

	"interlock/slice"
)

// once keeps the result of an operation in the slice's folder, so that an
// activity that was killed between its effect and its answer does not call an
// agent, and pay, a second time. The tab has what earlier tries have called.
func once[Out any](ctx context.Context, a *Activities, h slice.Header, do func(*tab) (Out, error)) (Out, error) {
	var out Out
	file := a.kept(h)
	b, err := a.recall(ctx, file+doneSuffix)
	if err != nil {
		return out, err
	}
	if b != nil && json.Unmarshal(b, &out) == nil {
		return out, nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return out, err
	}
	t, err := a.tab(ctx, file)
	if err != nil {
		return out, err
	}
	out, err = do(t)
	if err != nil {
		return out, err
	}
	if b, err = json.Marshal(out); err != nil {
		return out, err
	}
	return out, a.keep(file+doneSuffix, b)
}

// keep keeps a result for recall.
func (a *Activities) keep(path string, content []byte) error {
	a.made.Store(path, sha256.Sum256(content))
	return writeSynced(path, content)
}

// recall returns what keep kept, or nil. An agent without a sandbox can write
// to the folder too, so a file counts only if this process made it, or if a
// process may have that was killed while it tried the same activity; any other
// is removed.
func (a *Activities) recall(ctx context.Context, path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if sum, ok := a.made.Load(path); ok && sum == sha256.Sum256(b) || activity.GetInfo(ctx).Attempt > 1 {
		return b, nil
	}
	return nil, os.Remove(path)
}

// forget drops what is known of files below a folder that is removed.
func (a *Activities) forget(folder string) {
	a.made.Range(func(path, _ any) bool {
		if name, ok := path.(string); ok && strings.HasPrefix(name, folder+string(filepath.Separator)) {
			a.made.Delete(path)
		}
		return true
	})
}

// kept is where the result of an operation and its tab are kept.
func (a *Activities) kept(h slice.Header) string {
	return a.folder(h, "ops", strings.ReplaceAll(strings.TrimPrefix(h.Op, h.Slice+"/"), "/", "-"))
}

const doneSuffix = ".done"

// writeSynced puts content in place of a file, whole or not at all, and does
// not return before it is on the disk.
func writeSynced(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("keep %s: %w", path, err)
	}
	return nil
}
