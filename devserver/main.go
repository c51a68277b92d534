// Command devserver is a whole Temporal cluster in one process: frontend,
// history, matching, worker, the Web UI, and SQLite persistence.
//
// It takes the arguments of `temporal server start-dev`, so it can stand in for
// the temporal program wherever one is started for development or tests, and
// adds two for a program that shares one server among its processes:
// --ready-file tells when and where the server answers, and --while-locked
// bounds its life by a lock file.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/server/common/headers"
)

// Exit codes. A usage error and a refused database are not cured by trying
// again; any other failure may be.
const (
	exitFailed  = 1
	exitUsage   = 2
	exitRefused = 3
)

// stopTimeout bounds a graceful stop. What it cuts off is as safe as a kill:
// every accepted request is in the database.
const stopTimeout = 10 * time.Second

// options are the command line.
type options struct {
	ip, uiIP            string
	port, uiPort        int
	httpPort            int
	metricsPort         int
	headless            bool
	namespaces          []string
	dbFilename          string
	pragmas             map[string]string
	attributes          map[string]enums.IndexedValueType
	dynamicConfig       map[string]any
	logLevel, logFormat string
	whileLocked         string
	readyFile           string
}

// ready is what --ready-file holds.
type ready struct {
	PID           int       `json:"pid"`
	Address       string    `json:"address"`
	UIAddress     string    `json:"ui_address,omitempty"`
	Namespace     string    `json:"namespace"`
	ServerVersion string    `json:"server_version"`
	ClusterID     string    `json:"cluster_id"`
	StartedAt     time.Time `json:"started_at"`
}

func main() {
	opts, err := parse(os.Args[1:])
	if errors.Is(err, pflag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "devserver: %v\n", err)
		os.Exit(exitUsage)
	}
	if err := run(opts); err != nil {
		fmt.Fprintf(os.Stderr, "devserver: %v\n", err)
		var refused *refusedError
		if errors.As(err, &refused) {
			os.Exit(exitRefused)
		}
		os.Exit(exitFailed)
	}
}

func parse(args []string) (*options, error) {
	o := &options{}
	var attributes, values, pragmas []string
	flags := pflag.NewFlagSet("devserver server start-dev", pflag.ContinueOnError)
	flags.StringVar(&o.ip, "ip", "127.0.0.1", "IP address that the frontend listens on; there is no authentication")
	flags.IntVarP(&o.port, "port", "p", 7233, "port of the frontend (gRPC); 0 is any free one")
	flags.IntVar(&o.httpPort, "http-port", 0, "port of the frontend's HTTP API; 0 is none")
	flags.IntVar(&o.metricsPort, "metrics-port", 0, "port of Prometheus metrics; 0 is none")
	flags.StringVar(&o.uiIP, "ui-ip", "", "IP address that the Web UI listens on (default: the one of --ip)")
	flags.IntVar(&o.uiPort, "ui-port", 0, "port of the Web UI; 0 is any free one (default: --port + 1000)")
	flags.BoolVar(&o.headless, "headless", false, "no Web UI")
	flags.StringArrayVarP(&o.namespaces, "namespace", "n", nil, "namespace to create if missing, may be repeated (default: default)")
	flags.StringVarP(&o.dbFilename, "db-filename", "f", "", "SQLite file; without it everything is kept in memory")
	flags.StringArrayVar(&pragmas, "sqlite-pragma", nil, "SQLite pragma, as NAME=VALUE, may be repeated")
	flags.StringArrayVar(&attributes, "search-attribute", nil, "search attribute to register if missing, as NAME=TYPE, may be repeated")
	flags.StringArrayVar(&values, "dynamic-config-value", nil, "dynamic configuration, as KEY=JSON, may be repeated")
	flags.StringVar(&o.logLevel, "log-level", "warn", "debug, info, warn, error or never")
	flags.StringVar(&o.logFormat, "log-format", "pretty", "pretty, text or json")
	flags.StringVar(&o.whileLocked, "while-locked", "", "stop once nobody holds a shared lock (flock) on this file")
	flags.StringVar(&o.readyFile, "ready-file", "", "file to write, as JSON, when the server answers")
	if len(args) < 2 || args[0] != "server" || args[1] != "start-dev" {
		fmt.Fprintf(os.Stderr, "usage: devserver server start-dev [flags]\n%s", flags.FlagUsages())
		return nil, errors.New("expected the words `server start-dev`")
	}
	if err := flags.Parse(args[2:]); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}

	address, err := net.ResolveIPAddr("ip", o.ip)
	if err != nil {
		return nil, fmt.Errorf("--ip: %w", err)
	}
	o.ip = address.IP.String()
	if o.uiIP == "" {
		o.uiIP = o.ip
	} else if address, err = net.ResolveIPAddr("ip", o.uiIP); err != nil {
		return nil, fmt.Errorf("--ui-ip: %w", err)
	} else {
		o.uiIP = address.IP.String()
	}
	if o.port == 0 {
		if o.port, err = freePort(o.ip); err != nil {
			return nil, err
		}
	} else if !flags.Changed("ui-port") {
		o.uiPort = o.port + 1000
	}
	if o.uiPort == 0 && !o.headless {
		if o.uiPort, err = freePort(o.uiIP); err != nil {
			return nil, err
		}
	}
	if len(o.namespaces) == 0 {
		o.namespaces = []string{"default"}
	}

	o.attributes = map[string]enums.IndexedValueType{}
	for _, pair := range attributes {
		name, typ, found := strings.Cut(pair, "=")
		value, err := enums.IndexedValueTypeFromString(typ)
		if !found || name == "" || err != nil || value == enums.INDEXED_VALUE_TYPE_UNSPECIFIED {
			return nil, fmt.Errorf("--search-attribute %q: expected NAME=TYPE with one of the types Bool, Datetime, Double, Int, Keyword, KeywordList, Text", pair)
		}
		o.attributes[name] = value
	}
	o.dynamicConfig = map[string]any{}
	for _, pair := range values {
		key, text, found := strings.Cut(pair, "=")
		value, err := jsonValue(text)
		if !found || key == "" || err != nil {
			return nil, fmt.Errorf("--dynamic-config-value %q: expected KEY=JSON (a string needs its quotes)", pair)
		}
		o.dynamicConfig[key] = value
	}
	// The write-ahead log triples throughput; synchronous=full keeps what was
	// acknowledged through a power failure too.
	o.pragmas = map[string]string{"journal_mode": "wal", "synchronous": "full", "busy_timeout": "10000"}
	for _, pair := range pragmas {
		name, value, found := strings.Cut(pair, "=")
		if !found || name == "" {
			return nil, fmt.Errorf("--sqlite-pragma %q: expected NAME=VALUE", pair)
		}
		o.pragmas[name] = value
	}
	if o.dbFilename != "" {
		if o.dbFilename, err = filepath.Abs(o.dbFilename); err != nil {
			return nil, fmt.Errorf("--db-filename: %w", err)
		}
	}
	return o, nil
}

// jsonValue keeps whole numbers whole: the server refuses a float where it
// expects an int.
func jsonValue(text string) (any, error) {
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		return nil, err
	}
	if number, ok := value.(float64); ok && number == math.Trunc(number) {
		return int(number), nil
	}
	return value, nil
}

func run(o *options) error {
	ctx, restore := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer restore()
	context.AfterFunc(ctx, restore) // a second signal ends it at once
	err := serve(ctx, o)
	var refused *refusedError
	if ctx.Err() != nil && !errors.As(err, &refused) {
		return nil // asked to stop, be it in the middle of the start
	}
	return err
}

// serve runs the server until ctx ends or --while-locked says so.
func serve(ctx context.Context, o *options) error {
	started := time.Now()
	// The lock of --while-locked is let go of after everything else: whoever
	// takes a shared one next finds no server that is just leaving.
	var unlocked *os.File
	defer func() { _ = unlocked.Close() }()

	db, err := openDatabase(ctx, o)
	if err != nil {
		return err
	}
	defer db.close()
	c, err := startCluster(o, db)
	if err != nil {
		return err
	}
	defer c.stop()
	if err := c.waitReady(ctx); err != nil {
		return err
	}

	r := ready{
		PID:           os.Getpid(),
		Address:       c.address,
		UIAddress:     c.uiAddress,
		Namespace:     o.namespaces[0],
		ServerVersion: headers.ServerVersion,
		ClusterID:     db.clusterID,
		StartedAt:     started.UTC(),
	}
	fmt.Printf("Temporal server %s, ready in %s\n", r.ServerVersion, time.Since(started).Round(time.Millisecond))
	fmt.Printf("server   %s\n", r.Address)
	if !o.headless {
		fmt.Printf("web ui   http://%s\n", r.UIAddress)
	}
	if o.metricsPort != 0 {
		fmt.Printf("metrics  http://%s/metrics\n", hostPort(o.ip, o.metricsPort))
	}
	if db.file != "" {
		fmt.Printf("database %s\n", db.file)
	}
	if ip := net.ParseIP(o.ip); !ip.IsLoopback() {
		fmt.Printf("warning: whoever can reach %s controls this server: it has no authentication\n", hostPort(o.ip, o.port))
	}
	if o.readyFile != "" {
		if err := writeJSON(o.readyFile, r); err != nil {
			return fmt.Errorf("--ready-file: %w", err)
		}
	}

	reason := "signal"
	if o.whileLocked == "" {
		<-ctx.Done()
	} else {
		if unlocked, err = waitUnlocked(ctx, o.whileLocked); err != nil {
			return fmt.Errorf("--while-locked: %w", err)
		}
		if ctx.Err() == nil {
			reason = "nobody holds a lock on " + o.whileLocked
		}
	}
	fmt.Printf("stopping: %s\n", reason)
	return nil
}

// waitUnlocked returns once an exclusive lock on the file could be taken,
// holding it, or with nil when the file is gone or ctx ended.
func waitUnlocked(ctx context.Context, file string) (*os.File, error) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, nil
		case <-tick.C:
		}
		// Opened anew each time: a file that was replaced has other holders.
		lock, err := lockFile(file, os.O_RDWR)
		switch {
		case errors.Is(err, os.ErrNotExist):
			return nil, nil
		case errors.Is(err, errLocked):
			continue
		case err != nil:
			return nil, err
		default:
			return lock, nil
		}
	}
}

var errLocked = errors.New("locked by another process")

// lockFile opens a file and takes an exclusive lock on it without waiting;
// errLocked if somebody else has one.
func lockFile(name string, flag int) (*os.File, error) {
	file, err := os.OpenFile(name, flag, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		_ = file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errLocked
		}
		return nil, &os.PathError{Op: "flock", Path: name, Err: err}
	}
	return file, nil
}

// writeJSON replaces a file at once, so that no reader sees a part of it.
func writeJSON(name string, value any) error {
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temp.Name()) }()
	_, err = temp.Write(append(data, '\n'))
	err = errors.Join(err, temp.Sync(), temp.Close())
	if err != nil {
		return err
	}
	return os.Rename(temp.Name(), name)
}
