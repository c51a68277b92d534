package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"interlock/host"
	"interlock/machine"
)

// Exit codes that do not come from a slice.
const (
	exitUsage        = 2
	exitPrecondition = 8
	exitBroken       = 10
)

// app is one call of the command line.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	out, err       terminal

	connection
	home    string
	output  string
	verbose bool

	// following is the slice that goes on if this process is interrupted.
	following atomic.Pointer[string]

	logOnce sync.Once
	logger  *slog.Logger
}

// A failure ends a command with an exit code.
type failure struct {
	code int
	err  error  // nil if everything was said already
	do   string // what to do now
}

func (f *failure) Error() string {
	if f.err == nil {
		return fmt.Sprintf("exit %d", f.code)
	}
	return f.err.Error()
}

func (f *failure) Unwrap() error { return f.err }

// usage is a command line or a file that cannot be.
func usage(format string, args ...any) error {
	return &failure{code: exitUsage, err: fmt.Errorf(format, args...)}
}

// missing is a precondition that does not hold, with what to do.
func missing(do, format string, args ...any) error {
	return &failure{code: exitPrecondition, err: fmt.Errorf(format, args...), do: do}
}

// code ends with an exit code after everything was said.
func code(n int) error {
	if n == 0 {
		return nil
	}
	return &failure{code: n}
}

// leaveWithin is how long a command that was interrupted may still take.
const leaveWithin = 800 * time.Millisecond

// run is the whole command line; it returns the exit code.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)

	a := &app{stdin: stdin, stdout: stdout, stderr: stderr, out: terminalOf(stdout), err: terminalOf(stderr)}
	ended := make(chan error, 1)
	go func() { ended <- a.execute(ctx, args) }()
	select {
	case err := <-ended:
		return a.exit(err)
	case <-signals:
		cancel(errInterrupted)
	}
	// What runs is safe to be cut off: agents die with the process, and the
	// slice is the server's.
	select {
	case err := <-ended:
		if err == nil {
			return 0
		}
	case <-signals:
	case <-time.After(leaveWithin):
	}
	if id := a.following.Load(); id != nil {
		return a.exit(&failure{code: machine.ExitInterrupted, err: errors.New("interrupted; the slice goes on"), do: "interlock wait " + *id + a.homeFlag()})
	}
	return a.exit(&failure{code: machine.ExitInterrupted, err: errInterrupted})
}

var errInterrupted = errors.New("interrupted")

func (a *app) execute(ctx context.Context, args []string) error {
	root := a.root()
	root.SetArgs(args)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	return root.ExecuteContext(ctx)
}

// exit says why a command failed and returns its exit code. What cobra itself
// refuses is a usage error.
func (a *app) exit(err error) int {
	if err == nil {
		return 0
	}
	var f *failure
	if !errors.As(err, &f) {
		f = &failure{code: exitUsage, err: err, do: "interlock --help"}
	}
	a.clearLine()
	if f.err != nil {
		fmt.Fprintf(a.stderr, "%s %s\n", a.err.red("interlock:"), strings.TrimSpace(f.err.Error()))
		if f.do != "" {
			fmt.Fprintf(a.stderr, "  %s\n", f.do)
		}
	}
	return f.code
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "interlock",
		Short: "The model produces, the program decides what comes next",
		Long: `Interlock takes a slice (one piece of work on a git repository) through a fixed
machine of steps: coding agents produce, checks measure, judges look, and the
program alone decides what comes next. Every slice is one Temporal workflow.

Try it without any set-up:  interlock demo`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			return a.settle()
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	flags := root.PersistentFlags()
	flags.StringVar(&a.home, "home", "", "folder of stores, evidence and the embedded server (default: $INTERLOCK_HOME, else ~/.interlock)")
	flags.StringVarP(&a.output, "output", "o", "text", "text or json; results go to standard output, progress to standard error")
	flags.BoolVarP(&a.verbose, "verbose", "v", false, "show what the libraries log, which is in interlock.log of the home")
	a.connection.flags(flags)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return &failure{code: exitUsage, err: err, do: c.CommandPath() + " --help"}
	})
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
	cobra.EnableCommandSorting = false // they stand in the order of use
	root.AddGroup(
		&cobra.Group{ID: "slices", Title: "Slices:"},
		&cobra.Group{ID: "people", Title: "What slices wait for:"},
		&cobra.Group{ID: "look", Title: "To look at:"},
		&cobra.Group{ID: "serve", Title: "Processes:"},
	)
	for _, group := range []struct {
		id       string
		commands []*cobra.Command
	}{
		{"slices", []*cobra.Command{a.initCommand(), a.demoCommand(), a.runCommand(), a.startCommand(), a.statusCommand(), a.listCommand(), a.waitCommand(), a.reopenCommand(), a.cancelCommand()}},
		{"people", []*cobra.Command{a.nextCommand(), a.approveCommand(), a.rejectCommand(), a.answerCommand(), a.reportCommand(), a.quotaRenewedCommand(), a.raiseCommand()}},
		{"look", []*cobra.Command{a.validateCommand(), a.guardCommand(), a.graphCommand(), a.ledgerCommand(), a.explainCommand(), a.doctorCommand()}},
		{"serve", []*cobra.Command{a.workerCommand(), a.serverCommand()}},
	} {
		for _, c := range group.commands {
			c.GroupID = group.id
			root.AddCommand(c)
		}
	}
	root.AddCommand(a.versionCommand())
	return root
}

// settle checks the flags that all commands share.
func (a *app) settle() error {
	if a.output != "text" && a.output != "json" {
		return usage("--output %q: expected text or json", a.output)
	}
	var err error
	if a.home == "" {
		a.home, err = host.DefaultHome()
	} else {
		a.home, err = filepath.Abs(a.home)
	}
	if err != nil {
		return missing("name one with --home", "no home folder: %w", err)
	}
	return nil
}

// does makes the function of a command: an error without an exit code means
// that something which the command needs is not there.
func does(f func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		err := f(c.Context(), args)
		var coded *failure
		if err == nil || errors.As(err, &coded) {
			return err
		}
		if c.Context().Err() == nil && passing(err) {
			return missing("interlock doctor", "the Temporal server stopped answering: %s", dialled(err))
		}
		return &failure{code: exitPrecondition, err: err}
	}
}

// oneID takes exactly one argument, the id of a slice.
func oneID(c *cobra.Command, args []string) error {
	if len(args) != 1 || args[0] == "" {
		return &failure{code: exitUsage, err: errors.New("expected the id of one slice"), do: c.UseLine()}
	}
	return nil
}

// oneFile takes exactly one argument, a file.
func oneFile(c *cobra.Command, args []string) error {
	if len(args) != 1 || args[0] == "" {
		return &failure{code: exitUsage, err: errors.New("expected one file"), do: c.UseLine()}
	}
	return nil
}

func (a *app) json() bool { return a.output == "json" }

// print writes a result to standard output: as JSON if that is asked for,
// else as text says.
func (a *app) print(v any, text func(w io.Writer)) error {
	if !a.json() {
		text(a.stdout)
		return nil
	}
	enc := json.NewEncoder(a.stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// say writes a line of progress to standard error.
func (a *app) say(format string, args ...any) {
	fmt.Fprintf(a.stderr, format+"\n", args...)
}
