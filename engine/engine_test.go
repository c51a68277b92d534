package engine

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
)

// holderVariable makes the test program a holder: it starts or joins the server
// of the home that it names, prints it as JSON, and holds it until its standard
// input ends.
const holderVariable = "ENGINE_TEST_HOLDER"

func TestMain(m *testing.M) {
	if home := os.Getenv(holderVariable); home != "" {
		os.Exit(hold(home))
	}
	binary, err := Build(context.Background(), Options{Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := os.Setenv(binaryVariable, binary); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func hold(home string) int {
	server, release, err := Start(context.Background(), Options{Home: home})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer release()
	if err := json.NewEncoder(os.Stdout).Encode(server); err != nil {
		return 1
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// holder is a second process that holds a home's server.
type holder struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	stdout *bufio.Reader
}

func startHolder(t *testing.T, home string) *holder {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holderVariable+"="+home)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	h := &holder{cmd, stdin, bufio.NewReader(stdout)}
	t.Cleanup(h.kill)
	return h
}

// server waits until the holder has its server.
func (h *holder) server(t *testing.T) *Server {
	t.Helper()
	line, err := h.stdout.ReadBytes('\n')
	require.NoError(t, err)
	var s Server
	require.NoError(t, json.Unmarshal(line, &s))
	return &s
}

func (h *holder) kill() {
	_ = h.cmd.Process.Kill()
	_ = h.cmd.Wait()
}

// testHome is a folder whose server is gone when the test ends.
func testHome(t *testing.T) string {
	t.Helper()
	home := filepath.Join(t.TempDir(), "home")
	t.Cleanup(func() { requireLeft(t, home) })
	return home
}

func requireLeft(t *testing.T, home string) {
	t.Helper()
	require.Eventually(t, func() bool { return !running(home) }, 20*time.Second, 20*time.Millisecond, "the server is still there")
}

func mustStart(t *testing.T, o Options) (*Server, func()) {
	t.Helper()
	server, release, err := Start(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(release)
	return server, release
}

func mustDial(t *testing.T, s *Server) client.Client {
	t.Helper()
	c, err := client.DialContext(t.Context(), client.Options{HostPort: s.Address, Namespace: s.Namespace})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func attributes(t *testing.T, c client.Client) map[string]enums.IndexedValueType {
	t.Helper()
	list, err := c.OperatorService().ListSearchAttributes(t.Context(), &operatorservice.ListSearchAttributesRequest{Namespace: "default"})
	require.NoError(t, err)
	return list.GetCustomAttributes()
}

func TestStartServesTemporalAndWebUI(t *testing.T) {
	t.Parallel()
	home := testHome(t)
	_, found := Find(t.Context(), home)
	require.False(t, found, "nothing there before the start")

	server, release := mustStart(t, Options{Home: home})
	require.NotEmpty(t, server.Version)
	found1, found := Find(t.Context(), home)
	require.True(t, found)
	require.Equal(t, server, found1)

	namespace, err := mustDial(t, server).WorkflowService().DescribeNamespace(t.Context(), &workflowservice.DescribeNamespaceRequest{Namespace: server.Namespace})
	require.NoError(t, err)
	require.Equal(t, 90*24*time.Hour, namespace.GetConfig().GetWorkflowExecutionRetentionTtl().AsDuration())
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+server.UIAddress+"/api/v1/cluster-info", nil)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)

	release()
	requireLeft(t, home)
	_, found = Find(t.Context(), home)
	require.False(t, found)

	again, _ := mustStart(t, Options{Home: home})
	require.Equal(t, server.Address, again.Address, "a home keeps its ports")
	require.Equal(t, server.UIAddress, again.UIAddress)
	require.NotEqual(t, server.PID, again.PID)
}

func TestServerStaysUntilTheLastHolderIsGone(t *testing.T) {
	t.Parallel()
	home := testHome(t)
	server, release := mustStart(t, Options{Home: home})
	second := startHolder(t, home)
	require.Equal(t, server, second.server(t), "the second process joins")

	release()
	// Long enough for two looks of the server at its lock.
	require.Never(t, func() bool { return !running(home) }, 2500*time.Millisecond, 100*time.Millisecond)
	_, found := Find(t.Context(), home)
	require.True(t, found)

	second.kill()
	requireLeft(t, home)
}

func TestServerLeavesWhenItsStarterIsKilled(t *testing.T) {
	t.Parallel()
	home := testHome(t)
	starter := startHolder(t, home)
	server := starter.server(t)
	starter.kill()
	requireLeft(t, home)

	again, _ := mustStart(t, Options{Home: home})
	require.Equal(t, server.Address, again.Address)
}

func TestStartTakesOverFromAStarterKilledHalfWay(t *testing.T) {
	t.Parallel()
	home := testHome(t)
	starter := startHolder(t, home)
	require.Eventually(t, func() bool { return running(home) }, 20*time.Second, time.Millisecond)
	starter.kill()
	server, _ := mustStart(t, Options{Home: home})
	found, ok := Find(t.Context(), home)
	require.True(t, ok)
	require.Equal(t, server, found)
}

func TestConcurrentStartsShareOneServer(t *testing.T) {
	t.Parallel()
	home := testHome(t)
	require.NoError(t, os.MkdirAll(home, 0o700))
	holders := []*holder{startHolder(t, home), startHolder(t, home)}
	var here [2]*Server
	var group sync.WaitGroup
	for i := range here {
		group.Go(func() {
			server, release, err := Start(t.Context(), Options{Home: home})
			if err == nil {
				t.Cleanup(release)
				here[i] = server
			}
		})
	}
	group.Wait()
	require.NotNil(t, here[0])
	require.Equal(t, here[0], here[1])
	for _, h := range holders {
		require.Equal(t, here[0], h.server(t))
	}
	data, err := os.ReadFile(filepath.Join(home, "server.log"))
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(data), "ready in"), "one server was started")
}

func TestKeepRestartsAKilledServerWithItsWorkflows(t *testing.T) {
	t.Parallel()
	home := testHome(t)
	server, _ := mustStart(t, Options{Home: home})
	ctx, cancel := context.WithCancel(t.Context())
	var keeper sync.WaitGroup
	keeper.Go(func() { Keep(ctx, Options{Home: home}) })
	t.Cleanup(func() { cancel(); keeper.Wait() })

	c := mustDial(t, server)
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "kept", TaskQueue: "nobody"}, "Slice")
	require.NoError(t, err)

	require.NoError(t, syscall.Kill(server.PID, syscall.SIGKILL))
	var again *Server
	require.Eventually(t, func() bool {
		s, ok := Find(t.Context(), home)
		again = s
		return ok && s.PID != server.PID
	}, 30*time.Second, 20*time.Millisecond)
	require.Equal(t, server.Address, again.Address)
	require.Eventually(t, func() bool { // the client that was there before
		description, err := c.DescribeWorkflow(t.Context(), "kept", run.GetRunID())
		return err == nil && description.Status == enums.WORKFLOW_EXECUTION_STATUS_RUNNING
	}, 30*time.Second, 50*time.Millisecond)
}

func TestAttributesAreRegistered(t *testing.T) {
	t.Parallel()
	home := testHome(t)
	first := map[string]string{"SliceStep": "Keyword", "SliceCostUSD": "Double"}
	server, release := mustStart(t, Options{Home: home, Attributes: first})
	require.Equal(t, map[string]enums.IndexedValueType{
		"SliceStep": enums.INDEXED_VALUE_TYPE_KEYWORD, "SliceCostUSD": enums.INDEXED_VALUE_TYPE_DOUBLE,
	}, attributes(t, mustDial(t, server)), "in a new database")
	release()
	requireLeft(t, home)

	server, _ = mustStart(t, Options{Home: home, Attributes: map[string]string{"SliceStep": "Keyword", "SliceNeedsHuman": "Bool"}})
	c := mustDial(t, server)
	require.Len(t, attributes(t, c), 3, "in an existing database")
	_, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
		ID: "new-attribute", TaskQueue: "nobody",
		TypedSearchAttributes: temporal.NewSearchAttributes(temporal.NewSearchAttributeKeyBool("SliceNeedsHuman").ValueSet(true)),
	}, "Slice")
	require.NoError(t, err, "usable as soon as the server is ready")
	require.Eventually(t, func() bool {
		count, err := c.CountWorkflow(t.Context(), &workflowservice.CountWorkflowExecutionsRequest{Query: "SliceNeedsHuman=true"})
		return err == nil && count.GetCount() == 1
	}, 10*time.Second, 20*time.Millisecond)

	mustStart(t, Options{Home: home, Attributes: map[string]string{"SliceRepo": "Keyword"}})
	require.Eventually(t, func() bool { return len(attributes(t, c)) == 4 }, 10*time.Second, 50*time.Millisecond, "in a running server")

	_, _, err = Start(t.Context(), Options{Home: home, Attributes: map[string]string{"SliceRepo": "Int"}})
	require.ErrorContains(t, err, "search attribute SliceRepo is registered with type Keyword")
	_, _, err = Start(t.Context(), Options{Home: home, Attributes: map[string]string{"SliceRepo": "Color"}})
	require.ErrorContains(t, err, "Color")
}

func TestStartRefusesADatabaseOfAnotherVersion(t *testing.T) {
	t.Parallel()
	home := testHome(t)
	_, release := mustStart(t, Options{Home: home})
	release()
	requireLeft(t, home)

	file := filepath.Join(home, "temporal.db.json")
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	var origin map[string]string
	require.NoError(t, json.Unmarshal(data, &origin))
	origin["server_version"] = "1.0.0"
	data, err = json.Marshal(origin)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, data, 0o600))

	_, _, err = Start(t.Context(), Options{Home: home})
	require.ErrorContains(t, err, "was made by Temporal server 1.0.0")
	require.ErrorContains(t, err, "move the file away")
	log, err := os.ReadFile(filepath.Join(home, "server.log"))
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(log), "was made by Temporal server"), "not tried again")
}

func TestStartMovesWhenItsPortIsTaken(t *testing.T) {
	t.Parallel()
	home := testHome(t)
	before, release := mustStart(t, Options{Home: home})
	release()
	requireLeft(t, home)
	foreign, err := net.Listen("tcp", before.Address)
	require.NoError(t, err)
	defer func() { _ = foreign.Close() }()

	after, _ := mustStart(t, Options{Home: home})
	require.NotEqual(t, before.Address, after.Address)
	mustDial(t, after)
}

func TestStartUsesThePortOfANewHome(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := listener.Addr().(*net.TCPAddr).Port

	home := testHome(t)
	taken, _ := mustStart(t, Options{Home: home, Port: port})
	require.NotEqual(t, listener.Addr().String(), taken.Address)

	require.NoError(t, listener.Close())
	other := testHome(t)
	free, _ := mustStart(t, Options{Home: other, Port: port})
	require.Equal(t, listener.Addr().String(), free.Address)
}

func TestStartShowsWhyAServerDoesNotStart(t *testing.T) {
	t.Parallel()
	home := testHome(t)
	require.NoError(t, os.MkdirAll(filepath.Join(home, "temporal.db.new"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(home, "temporal.db.new", "x"), nil, 0o600))
	_, _, err := Start(t.Context(), Options{Home: home})
	require.ErrorContains(t, err, "server.log")
	require.ErrorContains(t, err, "temporal.db.new: directory not empty")

	_, _, err = Start(t.Context(), Options{Home: home, Binary: filepath.Join(home, "none")})
	require.ErrorContains(t, err, "no such file")
	_, _, err = Start(t.Context(), Options{})
	require.ErrorContains(t, err, "needs a home")
}

func TestFindBelievesOnlyTheServerOfTheRecord(t *testing.T) {
	t.Parallel()
	home := testHome(t)
	server, _ := mustStart(t, Options{Home: home})
	r, ok := readRecord(home)
	require.True(t, ok)

	other := t.TempDir()
	lock, err := flock(t.Context(), database(other)+".lock", syscall.LOCK_EX, time.Second)
	require.NoError(t, err)
	defer func() { _ = lock.Close() }()
	write := func(r record) {
		data, err := json.Marshal(r)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(other, "server.json"), data, 0o600))
	}
	write(r)
	found, ok := Find(t.Context(), other)
	require.True(t, ok)
	require.Equal(t, server, found)

	foreign := r
	foreign.ClusterID = "another"
	write(foreign)
	_, ok = Find(t.Context(), other)
	require.False(t, ok, "another server has got the port")

	foreign = r
	foreign.Address = strings.Replace(r.Address, "127.0.0.1", "192.0.2.1", 1)
	write(foreign)
	_, ok = Find(t.Context(), other)
	require.False(t, ok, "a home's server is on this machine")

	require.NoError(t, os.WriteFile(filepath.Join(other, "server.json"), []byte("{"), 0o600))
	_, ok = Find(t.Context(), other)
	require.False(t, ok)
}

func TestDevServerOfTheSDK(t *testing.T) {
	t.Parallel()
	server, err := testsuite.StartDevServer(t.Context(), testsuite.DevServerOptions{
		ExistingPath:     os.Getenv(binaryVariable),
		DBFilename:       filepath.Join(t.TempDir(), "temporal.db"),
		EnableUI:         true,
		LogLevel:         "error",
		SearchAttributes: temporal.NewSearchAttributes(temporal.NewSearchAttributeKeyKeyword("SliceStep").ValueSet("")),
		Stdout:           io.Discard,
		Stderr:           io.Discard,
	})
	require.NoError(t, err)
	require.Equal(t, map[string]enums.IndexedValueType{"SliceStep": enums.INDEXED_VALUE_TYPE_KEYWORD}, attributes(t, server.Client()))
	server.Client().Close()
	require.NoError(t, server.Stop())
}

func TestClientOptions(t *testing.T) {
	home := testHome(t)
	server, release := mustStart(t, Options{Home: home})
	none := t.TempDir()
	profile := filepath.Join(t.TempDir(), "temporal.toml")
	require.NoError(t, os.WriteFile(profile, []byte("[profile.default]\naddress = \"profile:1\"\nnamespace = \"of-profile\"\n"), 0o600))

	for name, test := range map[string]struct {
		home, address, namespace string
		environment, file        string
		want                     string
		source                   Source
	}{
		"flag above all":          {home: home, address: "flag:1", environment: "environment:1", file: profile, want: "flag:1 of-profile", source: SourceFlag},
		"environment":             {home: home, environment: "environment:1", file: profile, want: "environment:1 of-profile", source: SourceEnvironment},
		"profile":                 {home: home, file: profile, want: "profile:1 of-profile", source: SourceProfile},
		"home":                    {home: home, want: server.Address + " default", source: SourceHome},
		"default":                 {home: none, want: "localhost:7233 default", source: SourceDefault},
		"namespace of profile":    {home: home, file: profile, namespace: "flag", want: "profile:1 flag", source: SourceProfile},
		"namespace of home":       {home: home, namespace: "flag", want: server.Address + " flag", source: SourceHome},
		"namespace of no server":  {home: none, namespace: "flag", want: "localhost:7233 flag", source: SourceDefault},
		"flag without all others": {home: none, address: "flag:1", want: "flag:1 default", source: SourceFlag},
	} {
		t.Run(name, func(t *testing.T) {
			for _, variable := range []string{"NAMESPACE", "PROFILE", "API_KEY"} {
				t.Setenv("TEMPORAL_"+variable, "")
				require.NoError(t, os.Unsetenv("TEMPORAL_"+variable))
			}
			t.Setenv("TEMPORAL_ADDRESS", test.environment)
			t.Setenv("TEMPORAL_CONFIG_FILE", filepath.Join(none, "no.toml"))
			if test.file != "" {
				t.Setenv("TEMPORAL_CONFIG_FILE", test.file)
			}
			if test.environment == "" {
				require.NoError(t, os.Unsetenv("TEMPORAL_ADDRESS"))
			}
			options, source, err := ClientOptions(t.Context(), test.home, test.address, test.namespace)
			require.NoError(t, err)
			require.Equal(t, test.want, options.HostPort+" "+options.Namespace)
			require.Equal(t, test.source, source)
		})
	}

	t.Setenv("TEMPORAL_PROFILE", "none-such")
	_, _, err := ClientOptions(t.Context(), home, "", "")
	require.ErrorContains(t, err, "none-such")
	release()
}
