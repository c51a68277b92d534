package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	sdklog "go.temporal.io/sdk/log"

	"interlock/engine"
	"interlock/host"
	"interlock/slice"
)

// connection is what the command line says about the Temporal server; what it
// leaves out comes from the environment and profile of the temporal program.
type connection struct {
	address, namespace string
	apiKey             string
	tls                bool
	tlsConfig          envconfig.ClientConfigTLS
	// alone leaves the environment and profiles out: the home's own server.
	alone bool
}

func (c *connection) flags(f *pflag.FlagSet) {
	f.StringVar(&c.address, "address", "", "host:port of the Temporal server (default: TEMPORAL_ADDRESS, profile, the home's own server, localhost:7233)")
	f.StringVarP(&c.namespace, "namespace", "n", "", "namespace (default: TEMPORAL_NAMESPACE, profile, \"default\")")
	f.StringVar(&c.apiKey, "api-key", "", "API key; better in TEMPORAL_API_KEY, where no other process sees it")
	f.BoolVar(&c.tls, "tls", false, "encrypt the connection; implied by the other --tls flags")
	f.StringVar(&c.tlsConfig.ClientCertPath, "tls-cert-path", "", "client certificate (PEM)")
	f.StringVar(&c.tlsConfig.ClientKeyPath, "tls-key-path", "", "key of the client certificate (PEM)")
	f.StringVar(&c.tlsConfig.ServerCACertPath, "tls-ca-path", "", "certificates that vouch for the server (PEM)")
	f.StringVar(&c.tlsConfig.ServerName, "tls-server-name", "", "name that the server's certificate must have")
	f.BoolVar(&c.tlsConfig.DisableHostVerification, "tls-disable-host-verification", false, "do not verify the server's certificate")
}

// options resolves which server to talk to.
func (c *connection) options(ctx context.Context, home string) (client.Options, engine.Source, error) {
	if c.alone {
		server, ok := engine.Find(ctx, home)
		if !ok {
			return client.Options{}, engine.SourceDefault, nil
		}
		return client.Options{HostPort: server.Address, Namespace: server.Namespace}, engine.SourceHome, nil
	}
	o, source, err := engine.ClientOptions(ctx, home, c.address, c.namespace)
	if err != nil {
		return o, source, err
	}
	profile := envconfig.ClientConfigProfile{APIKey: c.apiKey}
	if c.tls || c.tlsConfig.ClientCertPath != "" || c.tlsConfig.ClientKeyPath != "" || c.tlsConfig.ServerCACertPath != "" ||
		c.tlsConfig.ServerName != "" || c.tlsConfig.DisableHostVerification {
		profile.TLS = &c.tlsConfig
	}
	flagged, err := profile.ToClientOptions(envconfig.ToClientOptionsRequest{})
	if err != nil {
		return o, source, err
	}
	if flagged.Credentials != nil {
		o.Credentials = flagged.Credentials
	}
	if flagged.ConnectionOptions.TLS != nil {
		o.ConnectionOptions.TLS = flagged.ConnectionOptions.TLS
		o.ConnectionOptions.TLSDisabled = false
	}
	return o, source, nil
}

// session is a connection to a server that answers.
type session struct {
	client.Client
	namespace string
	address   string
	// ui is the address of the Web UI, as a URL; empty if it is not known.
	ui string
	// own says that it is the home's own server.
	own bool
}

// link is where the Web UI shows a slice, or empty.
func (s *session) link(id string) string {
	if s.ui == "" {
		return ""
	}
	return s.ui + "/namespaces/" + url.PathEscape(s.namespace) + "/workflows/" + url.PathEscape(id)
}

// describe is what the server knows of a slice; an empty runID is the last run.
func (s *session) describe(ctx context.Context, id, runID string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	return s.WorkflowService().DescribeWorkflowExecution(ctx, &workflowservice.DescribeWorkflowExecutionRequest{
		Namespace: s.namespace, Execution: &commonpb.WorkflowExecution{WorkflowId: id, RunId: runID},
	})
}

// connect talks to a server that runs.
func (a *app) connect(ctx context.Context) (*session, error) {
	o, source, err := a.connection.options(ctx, a.home)
	if err != nil {
		return nil, usage("%w", err)
	}
	if source == engine.SourceDefault {
		if _, err := os.Stat(filepath.Join(a.home, "server.json")); err == nil {
			return nil, missing("start it with: interlock server"+a.homeFlag()+", or name another one with --address",
				"the Temporal server of %s does not run", a.home)
		}
	}
	return a.dial(ctx, o, source)
}

func (a *app) dial(ctx context.Context, o client.Options, source engine.Source) (*session, error) {
	o.Logger = sdklog.NewStructuredLogger(a.log())
	patience, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	c, err := client.DialContext(patience, o)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, missing("start one with: interlock server"+a.homeFlag()+", or name one with --address or TEMPORAL_ADDRESS",
			"no Temporal server answers at %s (%s): %s", o.HostPort, from(source), dialled(err))
	}
	s := &session{Client: c, namespace: o.Namespace, address: o.HostPort, own: source == engine.SourceHome}
	if s.own {
		if server, ok := engine.Find(ctx, a.home); ok {
			s.ui = "http://" + server.UIAddress
		}
	}
	return s, nil
}

func from(s engine.Source) string {
	switch s {
	case engine.SourceFlag:
		return "--address"
	case engine.SourceEnvironment:
		return "TEMPORAL_ADDRESS"
	case engine.SourceProfile:
		return "profile of temporal.toml"
	case engine.SourceHome:
		return "the home's own server"
	case engine.SourceDefault:
		return "no other one is named"
	}
	return string(s)
}

// dialled is what is telling in the error of a connection.
func dialled(err error) string {
	text := strings.TrimRight(plain(err.Error()), `"`)
	if i := strings.LastIndex(text, "dial "); i >= 0 {
		return text[i:]
	}
	return text
}

// homeFlag is how the home is named in a command that a person is told to type.
func (a *app) homeFlag() string {
	if standard, err := host.DefaultHome(); err == nil && standard == a.home {
		return ""
	}
	return " --home " + slice.Argv{a.home}.String()
}

// ownServer says whether commands speak to the home's own server: nothing
// names another one, and the home has one, running or not.
func (a *app) ownServer(ctx context.Context) (bool, error) {
	_, source, err := a.connection.options(ctx, a.home)
	if err != nil {
		return false, usage("%w", err)
	}
	if source == engine.SourceDefault {
		_, err := os.Stat(filepath.Join(a.home, "server.json"))
		return err == nil, nil
	}
	return source == engine.SourceHome, nil
}

// hold is connect for a command that takes part: if nothing names another
// server, it starts the home's own and keeps it until release is called.
func (a *app) hold(ctx context.Context) (*session, func(), error) {
	o, source, err := a.connection.options(ctx, a.home)
	if err != nil {
		return nil, nil, usage("%w", err)
	}
	if source != engine.SourceHome && source != engine.SourceDefault {
		s, err := a.dial(ctx, o, source)
		return s, func() {}, err
	}
	defer a.clearLine()
	wanted := engine.Options{Home: a.home, Attributes: slice.Attributes(), Log: a.log()}
	server, leave, err := engine.Start(ctx, wanted)
	if err != nil {
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		return nil, nil, missing("", "%w", err)
	}
	o = client.Options{HostPort: server.Address, Namespace: server.Namespace}
	s, err := a.dial(ctx, o, engine.SourceHome)
	if err != nil {
		leave()
		return nil, nil, err
	}
	keep, stop := context.WithCancel(ctx)
	var kept sync.WaitGroup
	kept.Go(func() { engine.Keep(keep, wanted) })
	return s, func() {
		stop()
		kept.Wait()
		s.Close()
		leave()
	}, nil
}

// work serves as the worker of the home, at once or when the worker of now
// leaves, until ctx is done. What it returns is why it cannot.
func (a *app) work(ctx context.Context, s *session) error {
	o := host.Options{Home: a.home, Client: s.Client, Namespace: s.namespace, Log: a.log()}
	pause := time.Second
	for {
		err := host.Run(ctx, o)
		if errors.Is(err, host.ErrBusy) {
			a.log().Info("another process is the worker of this home; waiting to take over")
			err = host.Wait(ctx, o)
		}
		if ctx.Err() != nil {
			return nil
		}
		if !passing(err) {
			return err
		}
		a.log().Warn("the worker lost its server and begins again", "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		pause = min(2*pause, 15*time.Second)
	}
}

// passing reports whether an error of the server may go away by itself.
func passing(err error) bool {
	var unavailable *serviceerror.Unavailable
	var late *serviceerror.DeadlineExceeded
	var exhausted *serviceerror.ResourceExhausted
	var cancelled *serviceerror.Canceled
	return errors.As(err, &unavailable) || errors.As(err, &late) || errors.As(err, &exhausted) ||
		errors.As(err, &cancelled) || errors.Is(err, context.DeadlineExceeded)
}

// log is where the libraries of this process write: a file of the home, and
// standard error for what a person must know while waiting.
func (a *app) log() *slog.Logger {
	a.logOnce.Do(func() {
		w := io.Discard
		if err := os.MkdirAll(a.home, 0o700); err == nil {
			// The file is open as long as the process lives.
			if f, err := os.OpenFile(filepath.Join(a.home, "interlock.log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600); err == nil {
				w = f
			}
		}
		file := slog.NewTextHandler(w, nil).WithAttrs([]slog.Attr{slog.Int("process", os.Getpid())})
		a.logger = slog.New(teller{Handler: file, app: a})
	})
	return a.logger
}

// teller passes on to a person what the engine says of its work.
type teller struct {
	slog.Handler
	app *app
}

const building = "building the Temporal server"

func (t teller) Handle(ctx context.Context, r slog.Record) error {
	about := strings.HasPrefix(r.Message, "the Temporal server")
	switch {
	case strings.HasPrefix(r.Message, building):
		t.app.building(r.Message)
	case t.app.verbose, about && r.Level >= slog.LevelWarn:
		line := r.Message
		r.Attrs(func(x slog.Attr) bool {
			line += fmt.Sprintf(" %s=%v", x.Key, x.Value)
			return true
		})
		t.app.say("  %s", t.app.err.yellow(plain(line)))
	}
	return t.Handler.Handle(ctx, r)
}

func (t teller) WithAttrs(attrs []slog.Attr) slog.Handler {
	return teller{Handler: t.Handler.WithAttrs(attrs), app: t.app}
}

func (t teller) WithGroup(name string) slog.Handler {
	return teller{Handler: t.Handler.WithGroup(name), app: t.app}
}

// building shows how far the build of the server is.
func (a *app) building(message string) {
	if a.err.live {
		fmt.Fprintf(a.stderr, "\r\x1b[K  %s", clip(message, a.err.width-3))
		return
	}
	a.say("  %s", message)
}

// clearLine removes a line that was to be overwritten.
func (a *app) clearLine() {
	if a.err.live {
		fmt.Fprint(a.stderr, "\r\x1b[K")
	}
}
