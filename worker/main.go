// Command worker serves the steps of slices as a worker process: what
// `interlock worker` does, for those who run nothing else. Its home is
// INTERLOCK_HOME, its server that of the TEMPORAL_* variables and profiles.
package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"interlock/activities/process"
	"interlock/engine"
	"interlock/host"
)

func main() {
	process.Main()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx); err != nil {
		slog.Error("worker ended", "error", err)
		os.Exit(1)
	}
}

func serve(ctx context.Context) error {
	home, err := host.DefaultHome()
	if err != nil {
		return err
	}
	options, _, err := engine.ClientOptions(ctx, home, "", "")
	if err != nil {
		return err
	}
	options.Logger = log.NewStructuredLogger(slog.Default())
	c, err := client.DialContext(ctx, options)
	if err != nil {
		return err
	}
	defer c.Close()
	return host.Run(ctx, host.Options{Home: home, Client: c, Namespace: options.Namespace, Log: slog.Default()})
}
