package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

var errLocked = errors.New("locked by another process")

// flock opens a file and takes the lock (LOCK_SH or LOCK_EX), waiting up to
// patience, or as long as ctx allows if that is 0. Closing the file lets go.
func flock(ctx context.Context, name string, how int, patience time.Duration) (*os.File, error) {
	if patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := tryFlock(file, how)
		if err == nil {
			return file, nil
		}
		if !errors.Is(err, errLocked) {
			_ = file.Close()
			return nil, fmt.Errorf("lock %s: %w", name, err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			_ = file.Close()
			return nil, fmt.Errorf("%s is %w: %w", name, errLocked, ctx.Err())
		}
	}
}

// tryFlock takes a lock without waiting; errLocked if it is not to be had.
func tryFlock(file *os.File, how int) error {
	for {
		err := syscall.Flock(int(file.Fd()), how|syscall.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EWOULDBLOCK):
			return errLocked
		default:
			return err
		}
	}
}
