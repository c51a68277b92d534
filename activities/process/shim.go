//go:build unix

package process

import (
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The shim is recognised by its whole argument list. The token only keeps it
// from being started by accident: whoever starts it on purpose gains nothing,
// as it does for its caller what the caller could do itself.
const (
	shimName  = "interlock-shim"
	shimToken = "b41c0d3c5f8e4d6fa7e2"
)

// The shim's file descriptors, in the order in which the worker hands them
// over. Its own 0, 1 and 2 are not the program's, so that it never keeps the
// program's output open.
const (
	controlFD = 3 + iota // requests; its end means that the worker is gone
	statusFD
	stdinFD
	stdoutFD
	stderrFD
)

// request goes from the worker to the shim; exactly one field is set. It is
// gob, not JSON, because arguments and environments are any bytes.
type request struct {
	Start     *start
	Terminate bool
	Kill      bool
}

type start struct {
	Path string
	Args []string
	Dir  string
	Env  []string
	// Wrapped says that the program is one that runs another, which a signal is
	// meant for.
	Wrapped bool
}

// report goes from the shim to the worker; exactly one field is set.
type report struct {
	Starts  bool // Refused may follow
	Refused *refusal
	Exit    *exit
	Done    *done
}

type refusal struct {
	Errno syscall.Errno // 0 if there is only a text
	Text  string
}

type exit struct {
	Code   int // -1 with a Signal
	Signal string
	MaxRSS int64
	Asked  bool // the end was asked for before it came
}

type done struct{ Survivors int }

var mainCalled atomic.Bool

// Main must be called before anything else in main and in TestMain. It returns
// at once, unless this process was started as a shim: then it does the shim's
// work and never returns.
//
// It is a function to be called rather than the package's init, which would
// let an import change what a program does. The price is that every package's
// init runs in the shim too: with the Temporal SDK linked its start takes 5 ms.
func Main() {
	if len(os.Args) == 3 && os.Args[0] == shimName && os.Args[1] == shimToken {
		code := 0
		if err := runShim(); err != nil {
			fmt.Fprintf(os.Stderr, "%s %s: %v\n", shimName, os.Args[2], err)
			code = 1
		}
		// Not os.Exit: hooks of an instrumented program are not wanted here.
		syscall.Exit(code)
	}
	mainCalled.Store(true)
}

// shim is the parent, and on Linux the reaper, of everything that one Run
// started. It is single-threaded by design: only its main loop waits for
// children, so a process id cannot be reused while the loop knows it as one.
type shim struct {
	child   int
	wrapped bool
	asked   bool
	exited  bool // the child was reaped
	reports *gob.Encoder
	killed  map[int]bool
	kin     kin
}

func runShim() error {
	if err := closeOnExec(); err != nil {
		return fmt.Errorf("file descriptors: %w", err)
	}
	// Caught, not ignored: an ignored signal would be ignored by the program
	// too. Whoever wants the shim to end closes its lifeline.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	if err := becomeReaper(); err != nil {
		return fmt.Errorf("become the reaper of orphans: %w", err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("forbid core dumps: %w", err)
	}

	control := gob.NewDecoder(os.NewFile(controlFD, "control"))
	s := &shim{
		reports: gob.NewEncoder(os.NewFile(statusFD, "status")),
		killed:  map[int]bool{},
		kin:     kin{remember: !reapsOrphans},
	}
	var first request
	if err := control.Decode(&first); err != nil || first.Start == nil {
		return nil // the worker died first
	}
	// Before it is started: a program may kill its shim at once.
	s.report(report{Starts: true})
	pid, err := startProgram(first.Start)
	for fd := stdinFD; fd <= stderrFD; fd++ {
		_ = syscall.Close(fd)
	}
	if err != nil {
		f := &refusal{Text: err.Error()}
		errors.As(err, &f.Errno)
		s.report(report{Refused: f})
		return nil
	}
	s.child, s.wrapped = pid, first.Start.Wrapped

	requests := make(chan request)
	go func() {
		defer close(requests)
		for {
			var q request
			if control.Decode(&q) != nil {
				return
			}
			requests <- q
		}
	}()
	s.attend(requests, children)
	s.end(children)
	s.report(report{Done: &done{Survivors: len(s.killed)}})
	return nil
}

// report tells the worker; that it may be gone is the lifeline's matter.
func (s *shim) report(r report) { _ = s.reports.Encode(r) }

// startProgram retries while the file is "busy": a fork elsewhere in the worker can
// hold a just written program open for the moment until its exec.
func startProgram(p *start) (int, error) {
	for try := 0; ; try++ {
		pid, err := syscall.ForkExec(p.Path, p.Args, &syscall.ProcAttr{
			Dir:   p.Dir,
			Env:   p.Env,
			Files: []uintptr{stdinFD, stdoutFD, stderrFD},
			Sys:   &syscall.SysProcAttr{Setsid: true},
		})
		if !errors.Is(err, syscall.ETXTBSY) || try == 20 {
			return pid, err
		}
		<-time.After(10 * time.Millisecond)
	}
}

// attend returns when the child has ended or everything has to.
func (s *shim) attend(requests <-chan request, children <-chan os.Signal) {
	recorder := time.NewTicker(recordEvery)
	defer recorder.Stop()
	if reapsOrphans {
		recorder.Stop()
	}
	for {
		select {
		case q, ok := <-requests:
			s.asked = true
			if !ok || q.Kill {
				return
			}
			s.terminate()
		case <-children:
			if s.reap(); s.exited {
				return
			}
		case <-recorder.C:
			s.kin.look(os.Getpid())
		}
	}
}

// terminate asks the child's group to end; the leader of a session cannot leave
// its group. A sandbox would die of the signal at once and take what it runs
// with it, so there all below it are asked, whose first process is deaf to it.
func (s *shim) terminate() {
	if !s.wrapped {
		_ = syscall.Kill(-s.child, syscall.SIGTERM)
		_ = syscall.Kill(-s.child, syscall.SIGCONT)
		return
	}
	for _, e := range s.kin.look(os.Getpid()) {
		if e.pid != s.child {
			_ = syscall.Kill(e.pid, syscall.SIGTERM)
			_ = syscall.Kill(e.pid, syscall.SIGCONT)
		}
	}
}

// reap collects every process that has ended and reports whether any child,
// ended or not, is left.
func (s *shim) reap() (left bool) {
	for {
		var status syscall.WaitStatus
		var usage syscall.Rusage
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG|waitAll, &usage)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return false
		case pid == 0:
			return true
		case pid == s.child && !s.exited:
			s.exited = true
			e := &exit{Code: status.ExitStatus(), MaxRSS: maxRSS(&usage), Asked: s.asked}
			if status.Signaled() {
				e.Code, e.Signal = -1, unix.SignalName(status.Signal())
			}
			s.report(report{Exit: e})
		}
	}
}

// end kills until nothing is left. Where orphans come to the shim, having no
// child is the proof: whoever has a living ancestor below the shim is below
// one of its children.
func (s *shim) end(children <-chan os.Signal) {
	look := func() []entry { return s.kin.look(os.Getpid()) }
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		if left := s.reap(); !left && reapsOrphans {
			return
		} else if n := stopAndKill(look, s.note); n == 0 && !left {
			return
		}
		select {
		case <-children:
		case <-time.After(pause):
		}
	}
}

func (s *shim) note(pid int) {
	if pid != s.child {
		s.killed[pid] = true
	}
}
