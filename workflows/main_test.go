package workflows

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.uber.org/goleak"

	"interlock/engine"
	"interlock/slice"
)

// noCache names the variable that makes this process replay the whole history
// at every workflow task.
const noCache = "INTERLOCK_TEST_NO_CACHE"

var (
	update = flag.String("update", "", "record histories on a real server as a new `version`, such as v2")
	force  = flag.Bool("force", false, "let -update replace a version that exists, which forgets what its runs looked like")
	golden = flag.Bool("golden", false, "write testdata/pages anew")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv(noCache) != "" {
		worker.SetStickyWorkflowCacheSize(0)
	}
	code := m.Run()
	if theServer != nil {
		if err := theServer.stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the server:", err)
			code = max(code, 1)
		}
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func startServer(ctx context.Context) (*server, error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute) // it may have to be built
	defer cancel()
	path, err := engine.Build(ctx, engine.Options{})
	if err != nil {
		return nil, err
	}
	// By default, a run that follows within a second waits.
	extra := []string{"--dynamic-config-value", `history.workflowIdReuseMinimalInterval="1ms"`}
	for name, kind := range slice.Attributes() {
		extra = append(extra, "--search-attribute", name+"="+kind)
	}
	dev, err := testsuite.StartDevServer(ctx, testsuite.DevServerOptions{
		ExistingPath: path, ClientOptions: &client.Options{Logger: quiet, Identity: "test"}, LogLevel: "error", ExtraArgs: extra,
		Stdout: io.Discard, Stderr: io.Discard,
	})
	if err != nil {
		return nil, err
	}
	s := &server{Client: dev.Client(), dev: dev}
	return s, s.serve()
}
