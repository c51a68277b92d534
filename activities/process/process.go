//go:build unix

// Package process runs one foreign program (an agent, a check, a set-up
// command) so that nothing that it started survives its end, its timeout, its
// cancellation, or the death of the worker.
//
// The worker does not start the program itself. It starts its own executable a
// second time as a shim, which becomes the reaper of everything below it,
// starts the program in a session of its own, and holds the reading end of a
// pipe, the lifeline, whose writing end only the worker has. When the program
// ends, or the worker asks for it, or the lifeline ends because the worker is
// gone, the shim stops and kills every descendant until none is left.
//
// Should the shim itself be killed, its processes are found by a marker in
// their environment: see [Sweep].
//
// A program must call [Main] before anything else in its main function, and in
// TestMain if its tests run programs.
package process

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// DefaultGrace is the time between SIGTERM and the kill when
	// [Command.Grace] is zero.
	DefaultGrace = 5 * time.Second

	// DefaultLimit is the number of bytes kept of each stream when
	// [Command.Limit] is zero.
	DefaultLimit = 4 << 20

	// MarkerVariable is the environment variable that every process started by
	// Run carries. Its value is a comma-separated list of markers: the one of
	// this run last, before it those of the runs that the worker itself is in.
	MarkerVariable = "INTERLOCK_PROCESS"
)

// startWait bounds a shim's start and killWait the end of what it runs; after
// them the shim is taken for dead. drainWait bounds reading what the pipes
// still hold when every writer is dead.
const (
	startWait = 30 * time.Second
	killWait  = 10 * time.Second
	drainWait = 2 * time.Second
)

// Stream tells the two output streams of a program apart.
type Stream int

// The streams, numbered as their file descriptors.
const (
	Stdout Stream = 1
	Stderr Stream = 2
)

// Command says what to run. The program inherits nothing from the worker but
// its user, its limits and its umask: no environment, no terminal, no file
// descriptor above 2, no core dump.
type Command struct {
	// Args is the program and its arguments. A program without a slash is
	// looked up in the PATH of Env, absolute entries only; one with a slash is
	// relative to Dir.
	Args []string
	// Within is an argument list that runs what follows it, as that of a sandbox
	// does: a program with an absolute path, and its arguments. It must be able
	// to see the program, which is looked up without it. If it fails before the
	// program begins, it says so in a line that begins with its name and a colon.
	// SIGTERM goes to what it runs, not to itself.
	Within []string
	// Dir is the absolute path of the working directory.
	Dir string
	// Env is the whole environment, as NAME=value. Run adds MarkerVariable.
	Env []string
	// Stdin is what the program reads; if empty, it reads /dev/null.
	Stdin []byte
	// Combine sends both streams into Result.Stdout, in the order of writing.
	Combine bool
	// Timeout is counted from the start of the program; 0 means none.
	Timeout time.Duration
	// Grace is the time that the program has between SIGTERM and the kill,
	// after a timeout or a cancellation; 0 means DefaultGrace, less than 0
	// means that it is killed at once.
	Grace time.Duration
	// Limit is the number of bytes kept of each stream; 0 means DefaultLimit.
	Limit int64
	// Marker names this run to Sweep: the home's identifier, then "/" and
	// whatever tells a person what it is. Commas, spaces and control
	// characters are refused.
	Marker string
	// OnOutput, if not nil, sees every chunk of output as it arrives, also
	// those beyond Limit. Calls never overlap. It must not keep the slice and
	// must return: while it blocks, so does the program, and then Run.
	OnOutput func(Stream, []byte)
}

// Result says how the program ended.
type Result struct {
	// Started is false if the program could not be started, which StartErr
	// explains, or was cancelled before it was.
	Started bool
	// StartErr is nil or a *StartError.
	StartErr error
	// ExitCode is the program's exit status; -1 if a signal ended it or it was
	// cancelled before its start; 126 or 127 if it could not be started, as a
	// shell has it.
	ExitCode int
	// Signal is the name of the signal that ended the program, as "SIGKILL".
	Signal string
	// TimedOut and Cancelled are true if the program was asked to end for that
	// reason while it ran, however it ended then. At most one is true.
	TimedOut, Cancelled bool
	// Stdout and Stderr are what the program and its descendants wrote.
	Stdout, Stderr Output
	// Survivors is the number of other processes that had to be killed.
	Survivors int
	// Duration is the time from the program's start to its end.
	Duration time.Duration
	// MaxRSS is the largest resident set of the program in bytes.
	MaxRSS int64
}

// Succeeded reports whether the program ran to its own end with exit status 0.
func (r Result) Succeeded() bool {
	return r.Started && r.ExitCode == 0 && !r.TimedOut && !r.Cancelled
}

// StartError says why a program could not be started.
type StartError struct {
	Path string
	// Code is 127 if the program was not found, 126 if it was found and cannot
	// be executed.
	Code int
	Err  error
}

func (e *StartError) Error() string {
	if e.Code == codeNotFound {
		return fmt.Sprintf("program %q was not found: %v", e.Path, e.Err)
	}
	return fmt.Sprintf("program %q cannot be executed: %v", e.Path, e.Err)
}

func (e *StartError) Unwrap() error { return e.Err }

// LostError says that the shim was killed while it watched a program, or no
// longer answered. What it left was killed. If the program had started
// ([Result.Started]), it may have done that itself.
type LostError struct {
	Path string
	// Left is the number of processes that were killed.
	Left int
	Err  error
}

func (e *LostError) Error() string {
	return fmt.Sprintf("process: the shim of %q was lost (%v); the %d processes that it left were killed", e.Path, e.Err, e.Left)
}

func (e *LostError) Unwrap() error { return e.Err }

const (
	codeNotExecutable = 126
	codeNotFound      = 127
)

// Run starts the program and returns when it and everything that it started
// are gone. An error means that the infrastructure failed: the command cannot
// be, the shim could not be made or was killed (a *LostError), or a process
// could not be killed. It is never returned for the way in which the program ended.
func Run(ctx context.Context, c Command) (Result, error) {
	if !mainCalled.Load() {
		return Result{}, errors.New("process: Run needs process.Main to be called first in main or TestMain: this program cannot be started as its own shim")
	}
	if err := c.validate(); err != nil {
		return Result{}, err
	}
	if ctx.Err() != nil {
		return Result{ExitCode: -1, Cancelled: true}, nil
	}
	path, err := lookPath(c.Args[0], c.Dir, c.Env)
	if err != nil {
		return notStarted(err)
	}
	r, err := launch(c, path)
	if err != nil {
		return Result{}, err
	}
	return r.wait(ctx)
}

func notStarted(err error) (Result, error) {
	var se *StartError
	if errors.As(err, &se) {
		return Result{ExitCode: se.Code, StartErr: se}, nil
	}
	return Result{}, err
}

func (c *Command) validate() error {
	if len(c.Args) == 0 || c.Args[0] == "" {
		return errors.New("process: no program given")
	}
	if err := checkMarker(c.Marker); err != nil {
		return err
	}
	if len(c.Within) > 0 && !filepath.IsAbs(c.Within[0]) {
		return fmt.Errorf("process: %q is not an absolute path", c.Within[0])
	}
	for _, s := range slices.Concat(c.Args, c.Within, c.Env, []string{c.Dir}) {
		if strings.ContainsRune(s, 0) {
			return fmt.Errorf("process: a NUL byte in the arguments, environment or directory of %q", c.Args[0])
		}
	}
	for _, s := range c.Env {
		if strings.IndexByte(s, '=') < 1 {
			name, _, _ := strings.Cut(s, "=")
			return fmt.Errorf("process: environment entry %q is not NAME=value", name)
		}
	}
	if !filepath.IsAbs(c.Dir) {
		return fmt.Errorf("process: working directory %q is not an absolute path", c.Dir)
	}
	switch info, err := os.Stat(c.Dir); {
	case err != nil:
		return fmt.Errorf("process: working directory: %w", err)
	case !info.IsDir():
		return fmt.Errorf("process: working directory %q is not a directory", c.Dir)
	}
	if c.Timeout < 0 || c.Limit < 0 {
		return fmt.Errorf("process: negative timeout or limit for %q", c.Args[0])
	}
	return nil
}

// lookPath finds the program as execvp does, but never by a relative entry of
// PATH: an agent can write to the working directory.
func lookPath(name, dir string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, executable(name)
	}
	path := ""
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, "PATH="); ok {
			path = v
		}
	}
	failure := error(&StartError{Path: name, Code: codeNotFound, Err: fmt.Errorf("it is in no folder of PATH %q", path)})
	for _, d := range filepath.SplitList(path) {
		if !filepath.IsAbs(d) {
			continue
		}
		file := filepath.Join(d, name)
		err := executable(file)
		if err == nil {
			return file, nil
		}
		var se *StartError
		if errors.As(err, &se) && se.Code == codeNotExecutable {
			failure = err
		}
	}
	return "", failure
}

func executable(file string) error {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return &StartError{Path: file, Code: codeNotFound, Err: err}
	case err != nil:
		return &StartError{Path: file, Code: codeNotExecutable, Err: err}
	case info.IsDir():
		return &StartError{Path: file, Code: codeNotExecutable, Err: syscall.EISDIR}
	}
	if err := unix.Access(file, unix.X_OK); err != nil {
		return &StartError{Path: file, Code: codeNotExecutable, Err: err}
	}
	return nil
}

// running is a shim that was started, seen from the worker.
type running struct {
	Command
	path    string
	marker  string
	shim    *exec.Cmd
	control *os.File
	request *gob.Encoder
	reports chan report // closed when the shim's status pipe ends
	closers []*os.File  // our ends, closed to free whoever still reads or writes
	pumps   sync.WaitGroup
	readers []*os.File
	stdout  *capture
	stderr  *capture
}

func launch(c Command, path string) (*running, error) {
	if c.Grace == 0 {
		c.Grace = DefaultGrace
	}
	if c.Limit == 0 {
		c.Limit = DefaultLimit
	}
	r := &running{Command: c, path: path, marker: newMarker(c.Marker), reports: make(chan report)}
	var theirs []*os.File
	defer func() {
		for _, f := range theirs {
			_ = f.Close()
		}
	}()
	var failed error
	pipe := func() (read, write *os.File) {
		if failed == nil {
			read, write, failed = os.Pipe()
		}
		return read, write
	}

	controlRead, controlWrite := pipe()
	statusRead, statusWrite := pipe()
	outRead, outWrite := pipe()
	errRead, errWrite := (*os.File)(nil), outWrite
	if !c.Combine {
		errRead, errWrite = pipe()
	}
	var inRead, inWrite *os.File
	if len(c.Stdin) > 0 {
		inRead, inWrite = pipe()
	} else if failed == nil {
		inRead, failed = os.Open(os.DevNull)
	}
	// The order is that of the shim's descriptors, from controlFD on.
	handed := []*os.File{controlRead, statusWrite, inRead, outWrite, errWrite}
	for _, f := range handed {
		if f != nil && !slices.Contains(theirs, f) {
			theirs = append(theirs, f)
		}
	}
	for _, f := range []*os.File{controlWrite, statusRead, outRead, errRead, inWrite} {
		if f != nil {
			r.closers = append(r.closers, f)
		}
	}
	if failed != nil {
		r.close()
		return nil, fmt.Errorf("process: pipes for %q: %w", c.Args[0], failed)
	}

	self, err := executableOfSelf()
	if err != nil {
		r.close()
		return nil, fmt.Errorf("process: own executable: %w", err)
	}
	r.control = controlWrite
	r.request = gob.NewEncoder(controlWrite)
	r.shim = &exec.Cmd{
		Path:        self,
		Args:        []string{shimName, shimToken, r.marker},
		Dir:         "/",
		Env:         withMarker([]string{"GOMAXPROCS=1"}, r.marker),
		Stderr:      os.Stderr,
		ExtraFiles:  handed,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err := r.shim.Start(); err != nil {
		r.close()
		return nil, fmt.Errorf("process: start the shim for %q: %w", c.Args[0], err)
	}

	var turn sync.Mutex
	watch := func(s Stream) func([]byte) {
		if c.OnOutput == nil {
			return nil
		}
		return func(p []byte) {
			turn.Lock()
			defer turn.Unlock()
			c.OnOutput(s, p)
		}
	}
	r.stdout = newCapture(c.Limit, watch(Stdout))
	r.stderr = newCapture(c.Limit, watch(Stderr))
	r.read(r.stdout, outRead)
	if errRead != nil {
		r.read(r.stderr, errRead)
	}
	if inWrite != nil {
		r.pumps.Go(func() {
			// A program that does not read its input is no failure.
			_, _ = inWrite.Write(c.Stdin)
			_ = inWrite.Close()
		})
	}
	go func() {
		defer close(r.reports)
		for dec := gob.NewDecoder(statusRead); ; {
			var rep report
			if dec.Decode(&rep) != nil {
				return
			}
			r.reports <- rep
		}
	}()
	return r, nil
}

func (r *running) read(c *capture, f *os.File) {
	r.readers = append(r.readers, f)
	r.pumps.Go(func() { c.readAll(f) })
}

func (r *running) close() {
	for _, f := range r.closers {
		_ = f.Close()
	}
}

// send asks the shim for something. A shim that is gone shows by the end of
// its reports.
func (r *running) send(q request) {
	_ = r.control.SetWriteDeadline(time.Now().Add(startWait))
	_ = r.request.Encode(q)
}

// wait follows the shim to its end.
func (r *running) wait(ctx context.Context) (Result, error) {
	res := Result{ExitCode: -1}
	first := &start{Path: r.path, Args: r.Args, Dir: r.Dir, Env: withMarker(r.Env, r.marker)}
	if len(r.Within) > 0 {
		first.Path, first.Wrapped = r.Within[0], true
		first.Args = slices.Concat(r.Within, []string{r.path}, r.Args[1:])
	}
	r.send(request{Start: first})

	var (
		started           time.Time
		timeout           <-chan time.Time
		grace             <-chan time.Time
		backstop          = time.After(startWait)
		cancelled         = ctx.Done()
		timedOut, aborted bool // what the shim was asked to end for
		refused           *report
		done              bool
	)
	ask := func() {
		cancelled, timeout = nil, nil
		if r.Grace < 0 {
			r.send(request{Kill: true})
			backstop = time.After(killWait)
			return
		}
		r.send(request{Terminate: true})
		grace, backstop = time.After(r.Grace), nil
	}
	for alive := true; alive; {
		select {
		case rep, ok := <-r.reports:
			switch {
			case !ok:
				alive = false
			case rep.Refused != nil:
				refused, done = &rep, true
				res.Started = false
			case rep.Starts:
				res.Started, started = true, time.Now()
				if aborted {
					break
				}
				backstop = nil
				if r.Timeout > 0 {
					timeout = time.After(r.Timeout)
				}
			case rep.Exit != nil:
				res.Duration = time.Since(started)
				res.MaxRSS = rep.Exit.MaxRSS
				res.ExitCode, res.Signal = rep.Exit.Code, rep.Exit.Signal
				res.TimedOut = timedOut && rep.Exit.Asked
				res.Cancelled = aborted && rep.Exit.Asked
				cancelled, timeout, grace = nil, nil, nil
				backstop = time.After(killWait)
			case rep.Done != nil:
				res.Survivors, done = rep.Done.Survivors, true
			}
		case <-cancelled:
			aborted = true
			ask()
		case <-timeout:
			timedOut = true
			ask()
		case <-grace:
			r.send(request{Kill: true})
			grace, backstop = nil, time.After(killWait)
		case <-backstop:
			alive = false
		}
	}
	return r.finish(res, refused, done)
}

// finish makes sure that nothing is left, whatever became of the shim, and
// that no goroutine of ours is.
func (r *running) finish(res Result, refused *report, done bool) (Result, error) {
	var left int
	var sweepErr error
	if !done {
		_ = r.shim.Process.Kill()
		left, sweepErr = Sweep(r.marker)
	}
	waitErr := r.shim.Wait()
	for _, f := range r.readers {
		_ = f.SetReadDeadline(time.Now().Add(drainWait))
	}
	for _, f := range r.closers {
		if !slices.Contains(r.readers, f) {
			_ = f.Close()
		}
	}
	r.pumps.Wait()
	r.close()
	for range r.reports { // until its reader has seen the closed pipe
	}
	res.Stdout, res.Stderr = r.stdout.output(), r.stderr.output()

	switch {
	case sweepErr != nil:
		return res, fmt.Errorf("process: the shim of %q was lost (%w) and what it left cannot be ended: %w", r.path, orGone(waitErr), sweepErr)
	case !done:
		return res, &LostError{r.path, left, orGone(waitErr)}
	case refused != nil:
		return r.refusal(res, refused.Refused)
	}
	if why := r.unwrapped(res); why != "" {
		res.Started, res.ExitCode = false, codeNotExecutable
		res.StartErr = &StartError{Path: r.path, Code: codeNotExecutable, Err: errors.New(why)}
	}
	return res, nil
}

// unwrapped says why the program was not begun by what it was to run within. A
// program that says the same itself has only itself to blame.
func (r *running) unwrapped(res Result) string {
	if len(r.Within) == 0 || res.ExitCode != 1 || res.Signal != "" {
		return ""
	}
	said := res.Stderr
	if r.Combine {
		said = res.Stdout
	}
	line, _, _ := strings.Cut(string(said.Bytes()), "\n")
	if !strings.HasPrefix(line, filepath.Base(r.Within[0])+": ") {
		return ""
	}
	return line
}

func orGone(err error) error {
	if err == nil {
		return errors.New("it ended without a report")
	}
	return err
}

// refusal tells a program that cannot be executed from a system that cannot
// start any.
func (r *running) refusal(res Result, f *refusal) (Result, error) {
	err := error(f.Errno)
	if f.Errno == 0 {
		err = errors.New(f.Text)
	}
	switch f.Errno {
	case syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, syscall.EIO, 0:
		return res, fmt.Errorf("process: start %q: %w", r.path, err)
	}
	code := codeNotExecutable
	if f.Errno == syscall.ENOENT {
		code = codeNotFound
		if _, statErr := os.Stat(r.path); statErr == nil {
			err = fmt.Errorf("the interpreter or loader that it names: %w", err)
		}
	}
	res.ExitCode = code
	res.StartErr = &StartError{Path: r.path, Code: code, Err: err}
	return res, nil
}
