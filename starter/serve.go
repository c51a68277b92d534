package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"

	"github.com/spf13/cobra"

	"interlock/engine"
	"interlock/host"
	"interlock/slice"
)

func (a *app) workerCommand() *cobra.Command {
	wait := false
	c := &cobra.Command{
		Use:   "worker",
		Short: "Serve as a worker until interrupted",
		Long: `Worker does the steps of slices on this host: workflows, agents, checks, git. One
process at a time is the worker of a home; a second one ends with exit code 8, or
takes over when the first leaves (--wait).`,
		Args: nothing,
		RunE: does(func(ctx context.Context, _ []string) error {
			s, release, err := a.join(ctx)
			if err != nil {
				return err
			}
			defer release()
			o := host.Options{Home: a.home, Client: s.Client, Namespace: s.namespace, Log: slog.New(slog.NewTextHandler(a.stderr, nil))}
			serve := host.Run
			if wait {
				serve = host.Wait
			}
			err = serve(ctx, o)
			if errors.Is(err, host.ErrBusy) {
				return missing("interlock worker --wait takes over when it leaves", "%s: %w", a.home, err)
			}
			return err
		}),
	}
	c.Flags().BoolVar(&wait, "wait", false, "wait until the worker of now leaves, then take over")
	return c
}

// serving is what `server` says of itself.
type serving struct {
	Address   string `json:"address"`
	Namespace string `json:"namespace"`
	WebUI     string `json:"web_ui"`
	Version   string `json:"version"`
	PID       int    `json:"pid"`
}

func (a *app) serverCommand() *cobra.Command {
	port := 0
	c := &cobra.Command{
		Use:   "server",
		Short: "The home's own Temporal server, until interrupted",
		Long: `Server runs the Temporal server that is kept in the home, with its Web UI, and
registers what slices need. It leaves when nobody uses it any more.`,
		Args: nothing,
		RunE: does(func(ctx context.Context, _ []string) error {
			wanted := engine.Options{Home: a.home, Attributes: slice.Attributes(), Port: port, Log: a.log()}
			server, release, err := engine.Start(ctx, wanted)
			a.clearLine()
			if err != nil {
				return err
			}
			defer release()
			v := serving{server.Address, server.Namespace, "http://" + server.UIAddress, server.Version, server.PID}
			if err := a.print(v, func(w io.Writer) {
				f := fields{w: w, term: a.out}
				f.add("address", v.Address)
				f.add("Web UI", v.WebUI)
				f.add("version", v.Version)
				f.add("home", a.home)
			}); err != nil {
				return err
			}
			engine.Keep(ctx, wanted)
			return nil
		}),
	}
	c.Flags().IntVar(&port, "port", 7233, "port in a home that never had a server; a home keeps its port")
	return c
}

// about is what `version` tells.
type about struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Go      string `json:"go"`
	SDK     string `json:"temporal_sdk,omitempty"`
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "The version of this program",
		Args:  nothing,
		RunE: does(func(context.Context, []string) error {
			v := versionOf()
			return a.print(v, func(w io.Writer) {
				commit := ""
				if v.Commit != "" {
					commit = " " + short(v.Commit)
				}
				fmt.Fprintf(w, "interlock %s%s (%s, Temporal SDK %s)\n", v.Version, commit, v.Go, v.SDK)
			})
		}),
	}
}

func versionOf() about {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return about{Version: "unknown"}
	}
	v := about{Version: info.Main.Version, Go: info.GoVersion}
	if v.Version == "" {
		v.Version = "(devel)"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v.Commit = s.Value
		}
	}
	for _, m := range info.Deps {
		if m.Path == "go.temporal.io/sdk" {
			v.SDK = m.Version
		}
	}
	return v
}
