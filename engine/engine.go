// Package engine finds or starts the Temporal server of a home folder.
//
// The server is a process of its own (the devserver program) that everybody who
// uses the home shares. It lives as long as anybody holds a shared lock on the
// home's lock file, so it outlives the one who started it, and none is left
// when all holders are gone, however they ended. In the home are:
//
//	temporal.db        the database, and beside it temporal.db.json (what made
//	                   it) and temporal.db.lock (locked while a server runs)
//	server.json        where the server answers, or last answered
//	server.lock        shared lock: somebody needs the server
//	server.start.lock  exclusive lock: somebody is starting it
//	server.log         what it printed
package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
)

const (
	// answerTimeout bounds one question to a server on this machine.
	answerTimeout = 3 * time.Second
	// startTimeout bounds the start of a server that is built; one takes half
	// a second on an idle machine.
	startTimeout = time.Minute
	// leaveTimeout bounds the wait for a server that is just leaving. It gives
	// itself ten seconds.
	leaveTimeout = 30 * time.Second
	// keepInterval is how often Keep looks, and keepBackoff the longest pause
	// after restarts that failed.
	keepInterval = 500 * time.Millisecond
	keepBackoff  = 30 * time.Second
	// maxLog is the size in bytes at which a start begins a new server.log.
	maxLog = 16 << 20
)

// Exit codes of devserver that trying again does not cure.
const (
	exitUsage   = 2
	exitRefused = 3
)

// Server is a Temporal server of a home that answers.
type Server struct {
	Address   string // host:port of the frontend
	Namespace string
	UIAddress string // host:port of the Web UI
	Version   string // of the Temporal server, as 1.32.1
	PID       int
}

// Options say which server is wanted. Only Home is required.
type Options struct {
	// Home is the folder that the server belongs to. It is made if missing.
	Home string
	// Attributes are the search attributes to register where they are missing:
	// name to type, which is one of Bool, Datetime, Double, Int, Keyword,
	// KeywordList and Text.
	Attributes map[string]string
	// Port is the frontend's in a home that never had a server; the Web UI
	// then gets Port+1000. 0, or one that is taken, gives any free port. A
	// home keeps its ports.
	Port int
	// Binary is the path of a devserver program, see Build for the default.
	Binary string
	// Log gets progress and trouble; nil discards them.
	Log *slog.Logger
}

func (o Options) log() *slog.Logger {
	if o.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return o.Log
}

// record is server.json, which the server writes when it is ready.
type record struct {
	PID           int       `json:"pid"`
	Address       string    `json:"address"`
	UIAddress     string    `json:"ui_address"`
	Namespace     string    `json:"namespace"`
	ServerVersion string    `json:"server_version"`
	ClusterID     string    `json:"cluster_id"`
	StartedAt     time.Time `json:"started_at"`
}

func (r record) server() *Server {
	return &Server{Address: r.Address, Namespace: r.Namespace, UIAddress: r.UIAddress, Version: r.ServerVersion, PID: r.PID}
}

// Start makes sure that the home's server runs, joining one that does, and
// holds it: the server stays until release is called, or this process ends, and
// longer if others hold it too. Whatever attributes it lacks are registered.
//
// A home's server starts again on the address that it had, so that clients
// reconnect, unless something else has taken the port meanwhile.
func Start(ctx context.Context, o Options) (_ *Server, release func(), err error) {
	if o.Home == "" {
		return nil, nil, errors.New("the Temporal server needs a home folder")
	}
	if o.Home, err = filepath.Abs(o.Home); err != nil {
		return nil, nil, err
	}
	if err := os.MkdirAll(o.Home, 0o700); err != nil {
		return nil, nil, fmt.Errorf("home of the Temporal server: %w", err)
	}
	// Only a server that is leaving locks it exclusively, until it is gone.
	hold, err := flock(ctx, filepath.Join(o.Home, "server.lock"), syscall.LOCK_SH, leaveTimeout)
	if err != nil {
		return nil, nil, fmt.Errorf("waiting for the Temporal server of %s, which is leaving: %w", o.Home, err)
	}
	release = sync.OnceFunc(func() { _ = hold.Close() })
	server, err := ensure(ctx, o, true)
	if err != nil {
		release()
		return nil, nil, err
	}
	return server, release, nil
}

// Keep starts the home's server again, on the same address, whenever it has
// died. It is for a holder (see Start) and returns when ctx ends. A restart
// that fails is logged and tried again.
func Keep(ctx context.Context, o Options) {
	pause := keepInterval
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if running(o.Home) {
			pause = keepInterval
			continue
		}
		o.log().Warn("the Temporal server died and is started again", "home", o.Home)
		if _, err := ensure(ctx, o, false); err != nil && ctx.Err() == nil {
			pause = min(2*pause, keepBackoff)
			o.log().Error("the Temporal server could not be started again", "error", err, "next_try", pause)
		}
	}
}

// Find returns the server of a home if one is recorded and answers. It starts
// none and holds none: the server may leave at any time.
func Find(ctx context.Context, home string) (*Server, bool) {
	if !running(home) {
		return nil, false
	}
	r, ok := readRecord(home)
	if !ok || !r.answers(ctx) {
		return nil, false
	}
	return r.server(), true
}

// running tells whether some server process, answering or not, has the home's
// database.
func running(home string) bool {
	file, err := os.OpenFile(database(home)+".lock", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }()
	return errors.Is(tryFlock(file, syscall.LOCK_SH), errLocked)
}

func database(home string) string { return filepath.Join(home, "temporal.db") }

func readRecord(home string) (r record, ok bool) {
	data, err := os.ReadFile(filepath.Join(home, "server.json"))
	if err != nil || json.Unmarshal(data, &r) != nil {
		return record{}, false
	}
	host, _, err := net.SplitHostPort(r.Address)
	if err != nil || !net.ParseIP(host).IsLoopback() {
		return record{}, false
	}
	return r, true
}

// answers tells whether the very server of the record answers: a port may have
// got another owner.
func (r record) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	c, err := dial(ctx, r)
	if err != nil {
		return false
	}
	defer c.Close()
	info, err := c.WorkflowService().GetClusterInfo(ctx, &workflowservice.GetClusterInfoRequest{})
	return err == nil && info.GetClusterId() == r.ClusterID
}

func dial(ctx context.Context, r record) (client.Client, error) {
	return client.DialContext(ctx, client.Options{
		HostPort:  r.Address,
		Namespace: r.Namespace,
		Logger:    log.NewStructuredLogger(slog.New(slog.DiscardHandler)),
	})
}

// ensure returns the home's server, started if there is none. The caller holds
// the shared lock. One process at a time is in here.
func ensure(ctx context.Context, o Options, mayMove bool) (*Server, error) {
	starting, err := flock(ctx, filepath.Join(o.Home, "server.start.lock"), syscall.LOCK_EX, 0)
	if err != nil {
		return nil, fmt.Errorf("waiting for another process that starts the Temporal server of %s: %w", o.Home, err)
	}
	defer func() { _ = starting.Close() }()

	// A server may be there that does not answer yet, because whoever started
	// it was killed meanwhile.
	patience, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for running(o.Home) {
		r, ok := readRecord(o.Home)
		if ok && r.answers(patience) {
			if err := register(ctx, r, o.Attributes); err != nil {
				return nil, err
			}
			return r.server(), nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-patience.Done():
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, fmt.Errorf("a Temporal server has the database of %s, but does not answer (process %d, address %q): end that process", o.Home, r.PID, r.Address)
		}
	}
	return start(ctx, o, mayMove)
}

// register adds the missing search attributes to a server that runs.
func register(ctx context.Context, r record, attributes map[string]string) error {
	if len(attributes) == 0 {
		return nil
	}
	c, err := dial(ctx, r)
	if err != nil {
		return err
	}
	defer c.Close()
	list, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: r.Namespace})
	if err != nil {
		return fmt.Errorf("search attributes of %s: %w", r.Address, err)
	}
	missing := map[string]enums.IndexedValueType{}
	for name, typ := range attributes {
		want, err := enums.IndexedValueTypeFromString(typ)
		if err != nil {
			return fmt.Errorf("search attribute %s: %w", name, err)
		}
		have, ok := list.GetCustomAttributes()[name]
		switch {
		case !ok:
			missing[name] = want
		case have != want:
			return fmt.Errorf("search attribute %s is registered with type %s at %s, not %s", name, have, r.Address, want)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	_, err = c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
		Namespace: r.Namespace, SearchAttributes: missing,
	})
	if err != nil {
		return fmt.Errorf("register search attributes at %s: %w", r.Address, err)
	}
	return nil
}

// ports are those of one try to start. "" leaves the choice to devserver.
type ports struct{ frontend, ui string }

// start runs a new server process and waits until it answers.
func start(ctx context.Context, o Options, mayMove bool) (*Server, error) {
	binary, err := Build(ctx, o)
	if err != nil {
		return nil, err
	}
	before, recorded := readRecord(o.Home)
	var tries []ports
	if recorded {
		frontend, ui := portOf(before.Address), portOf(before.UIAddress)
		tries = []ports{{frontend, ui}, {frontend, "0"}}
	} else {
		tries = []ports{{fmt.Sprint(o.Port), ""}}
	}
	if mayMove || !recorded {
		// Twice: a port that was found free may be taken before it is used.
		tries = append(tries, ports{"0", "0"}, ports{"0", "0"})
	}
	for i, try := range tries {
		if i > 0 {
			o.log().Warn("the Temporal server did not start, trying other ports", "error", err)
		}
		var server *Server
		server, err = launch(ctx, o, binary, try, before)
		if err == nil {
			if recorded && server.Address != before.Address {
				o.log().Warn("the Temporal server has a new address", "address", server.Address, "before", before.Address)
			}
			return server, nil
		}
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() == exitUsage || exit.ExitCode() == exitRefused {
			break
		}
	}
	return nil, err
}

func portOf(address string) string {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return "0"
	}
	return port
}

// launch is one try to start. Its error holds *exec.ExitError if the process
// ended before it was ready.
func launch(ctx context.Context, o Options, binary string, p ports, before record) (*Server, error) {
	name := filepath.Join(o.Home, "server.log")
	if info, err := os.Stat(name); err == nil && info.Size() > maxLog {
		if err := os.Rename(name, name+".1"); err != nil {
			return nil, err
		}
	}
	logFile, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = logFile.Close() }()
	begin, err := logFile.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}

	args := []string{
		"server", "start-dev",
		"--port=" + p.frontend,
		"--db-filename=" + database(o.Home),
		"--ready-file=" + filepath.Join(o.Home, "server.json"),
		"--while-locked=" + filepath.Join(o.Home, "server.lock"),
	}
	if p.ui != "" {
		args = append(args, "--ui-port="+p.ui)
	}
	for _, attribute := range slices.Sorted(maps.Keys(o.Attributes)) {
		args = append(args, "--search-attribute="+attribute+"="+o.Attributes[attribute])
	}
	cmd := exec.Command(binary, args...)
	cmd.Dir = o.Home
	cmd.Stdout, cmd.Stderr = logFile, logFile
	// The server outlives this process, so it gets neither its secrets nor the
	// interrupts of its terminal.
	cmd.Env = environment("PATH", "HOME", "TMPDIR", "LANG", "TZ")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the Temporal server: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()

	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not ready after %s", startTimeout))
	defer cancel()
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			if err == nil {
				err = errors.New("it ended at once")
			}
			return nil, fmt.Errorf("the Temporal server of %s did not start: %w; the end of %s:\n%s", o.Home, err, name, tail(logFile, begin))
		case <-ctx.Done():
			_ = cmd.Process.Kill()
			if err := <-ended; err != nil {
				o.log().Debug("the server that did not start was ended", "error", err)
			}
			return nil, fmt.Errorf("the Temporal server of %s did not start: %w; the end of %s:\n%s", o.Home, context.Cause(ctx), name, tail(logFile, begin))
		case <-tick.C:
		}
		r, ok := readRecord(o.Home)
		if ok && !r.StartedAt.Equal(before.StartedAt) && r.answers(ctx) {
			o.log().Info("Temporal server started", "address", r.Address, "ui", "http://"+r.UIAddress, "pid", r.PID, "version", r.ServerVersion)
			return r.server(), nil
		}
	}
}

func environment(names ...string) []string {
	var env []string
	for _, name := range names {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// tail returns the last lines that were written to a log since begin.
func tail(file io.ReaderAt, begin int64) string {
	const maxBytes, maxLines = 1 << 20, 12
	data, err := io.ReadAll(io.NewSectionReader(file, begin, maxBytes))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-maxLines):], "\n")
}
