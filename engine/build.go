package engine

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const (
	// binaryVariable names a ready devserver program.
	binaryVariable = "INTERLOCK_DEVSERVER"
	// installedName is what the program is called beside the executable.
	installedName = "interlock-devserver"
	// sourceModule is the module of devserver's source.
	sourceModule = "interlock/devserver"
)

// Build returns the path of the devserver program, the first of: o.Binary, the
// INTERLOCK_DEVSERVER variable, interlock-devserver beside this executable, and
// one built from the source that this program was built from. It is built once
// for each source and Go version, into the user's cache folder, which takes
// minutes the first time; progress goes to o.Log.
//
// The working directory is not looked at: it may be any repository, and its
// code is not to be run for the name that it bears.
func Build(ctx context.Context, o Options) (string, error) {
	for _, named := range []struct{ by, path string }{
		{"Options.Binary", o.Binary},
		{binaryVariable, os.Getenv(binaryVariable)},
	} {
		if named.path == "" {
			continue
		}
		path, err := filepath.Abs(named.path)
		if err == nil {
			_, err = os.Stat(path)
		}
		if err != nil {
			return "", fmt.Errorf("the Temporal server program named by %s: %w", named.by, err)
		}
		return path, nil
	}
	beside := ""
	if executable, err := os.Executable(); err == nil {
		beside = filepath.Join(filepath.Dir(executable), installedName)
		if _, err := os.Stat(beside); err == nil {
			return beside, nil
		}
	}
	source, ok := sourceFolder()
	if !ok {
		return "", fmt.Errorf("there is no Temporal server program: build it in a checkout of Interlock with "+
			"`go -C devserver build -o %s .`, or set %s to the path of one, or name a running server (--address, TEMPORAL_ADDRESS)", beside, binaryVariable)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("build the Temporal server: %w", err)
	}
	return buildFrom(ctx, source, filepath.Join(cache, "interlock", "devserver"), o.log())
}

// sourceFolder finds devserver's source beside the source of this file.
func sourceFolder() (string, bool) {
	_, file, _, ok := runtime.Caller(0)
	if !ok || !filepath.IsAbs(file) {
		return "", false
	}
	folder := filepath.Join(filepath.Dir(file), "..", "devserver")
	data, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	if err != nil {
		return "", false
	}
	first, _, _ := strings.Cut(string(data), "\n")
	return folder, first == "module "+sourceModule
}

// buildFrom builds the module in source into cache/KEY/devserver, unless it is
// there.
func buildFrom(ctx context.Context, source, cache string, log *slog.Logger) (string, error) {
	key, err := sourceKey(ctx, source)
	if err != nil {
		return "", fmt.Errorf("build the Temporal server: %w", err)
	}
	folder := filepath.Join(cache, key)
	built := filepath.Join(folder, "devserver")
	if _, err := os.Stat(built); err == nil {
		return built, nil
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", fmt.Errorf("build the Temporal server: %w", err)
	}
	log.Info("building the Temporal server; the first time takes some minutes", "into", built)
	lock, err := flock(ctx, filepath.Join(folder, "build.lock"), syscall.LOCK_EX, 0)
	if err != nil {
		return "", fmt.Errorf("waiting for another process that builds the Temporal server: %w", err)
	}
	defer func() { _ = lock.Close() }()
	if _, err := os.Stat(built); err == nil {
		return built, nil
	}
	if err := compile(ctx, source, built+".new", log); err != nil {
		return "", fmt.Errorf("build the Temporal server from %s: %w", source, err)
	}
	if err := os.Rename(built+".new", built); err != nil {
		return "", fmt.Errorf("build the Temporal server: %w", err)
	}
	return built, nil
}

// sourceKey is a hash of all that decides what is built.
func sourceKey(ctx context.Context, source string) (string, error) {
	version, err := goCommand(ctx, source, "env", "GOVERSION", "GOOS", "GOARCH", "CGO_ENABLED").Output()
	if err != nil {
		return "", goError(err, "")
	}
	files, err := filepath.Glob(filepath.Join(source, "*"))
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	fmt.Fprintf(hash, "%s\n", version)
	for _, file := range files { // Glob sorts
		name := filepath.Base(file)
		isSource := strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
		if !isSource && name != "go.mod" && name != "go.sum" {
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(hash, "%s %x\n", name, sha256.Sum256(data))
	}
	return hex.EncodeToString(hash.Sum(nil))[:16], nil
}

// compile runs go build, logging how many packages are done.
func compile(ctx context.Context, source, output string, log *slog.Logger) error {
	list, err := goCommand(ctx, source, "list", "-deps", ".").Output()
	if err != nil {
		return goError(err, "")
	}
	packages := map[string]bool{}
	for name := range strings.Lines(string(list)) {
		packages[strings.TrimSpace(name)] = true
	}
	cmd := goCommand(ctx, source, "build", "-v", "-buildvcs=false", "-o", output, ".")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return goError(err, "")
	}
	total, done, said := len(packages), 0, time.Now()
	var other []string
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		if !packages[lines.Text()] {
			other = append(other, lines.Text())
			continue
		}
		done++
		if time.Since(said) >= 5*time.Second {
			said = time.Now()
			log.Info(fmt.Sprintf("building the Temporal server: %d of %d packages", done, total))
		}
	}
	_, readErr := io.Copy(io.Discard, stderr) // what a line that is too long left
	if err := errors.Join(cmd.Wait(), readErr); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return goError(err, strings.Join(other[max(0, len(other)-20):], "\n"))
	}
	return nil
}

func goCommand(ctx context.Context, folder string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "GOWORK=off")
	// Interrupted, go ends its compilers too.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

func goError(err error, output string) error {
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("it needs the go command, or a ready program named by %s: %w", binaryVariable, err)
	}
	var exit *exec.ExitError
	if output == "" && errors.As(err, &exit) {
		output = strings.TrimSpace(string(exit.Stderr))
	}
	if output == "" {
		return err
	}
	return fmt.Errorf("%w:\n%s", err, output)
}
