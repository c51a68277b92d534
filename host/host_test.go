package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"interlock/slice"
)

func TestDefaultHome(t *testing.T) {
	t.Setenv("HOME", "/users/ada")
	t.Setenv("INTERLOCK_HOME", "")
	home, err := DefaultHome()
	require.NoError(t, err)
	require.Equal(t, "/users/ada/.interlock", home)

	t.Setenv("INTERLOCK_HOME", "some/where")
	home, err = DefaultHome()
	require.NoError(t, err)
	require.True(t, filepath.IsAbs(home))
	require.True(t, strings.HasSuffix(home, "/some/where"))

	t.Setenv("INTERLOCK_HOME", "")
	t.Setenv("HOME", "")
	_, err = DefaultHome()
	require.ErrorContains(t, err, "set INTERLOCK_HOME or use --home")
}

func TestIDIsMadeOnce(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	ids := make([]string, 20)
	errs := make([]error, len(ids))
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() { ids[i], errs[i] = ID(home) })
	}
	all.Wait()
	require.NoError(t, errors.Join(errs...))
	for _, id := range ids {
		require.Equal(t, ids[0], id)
	}
	require.Regexp(t, `^[0-9a-f]{10}$`, ids[0])
	left, err := os.ReadDir(home)
	require.NoError(t, err)
	require.Len(t, left, 1, "nothing but the id is left")

	other, err := ID(t.TempDir())
	require.NoError(t, err)
	require.NotEqual(t, ids[0], other)
}

func TestIDThatCannotBeRead(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(home, "host-id"), []byte("\n"), 0o600))
	_, err := ID(home)
	require.ErrorContains(t, err, "is empty: remove the file")
	_, err = ID(filepath.Join(home, "nowhere"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestLock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "worker.lock")
	unlock, err := lock(t.Context(), path, unix.LOCK_NB)
	require.NoError(t, err)
	_, err = lock(t.Context(), path, unix.LOCK_NB)
	require.ErrorIs(t, err, ErrBusy)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = lock(ctx, path, 0)
	require.ErrorIs(t, err, context.Canceled)

	got := make(chan error, 1)
	go func() {
		release, err := lock(t.Context(), path, 0)
		if err == nil {
			release()
		}
		got <- err
	}()
	unlock()
	select {
	case err := <-got:
		require.NoError(t, err)
	case <-time.After(10 * time.Second):
		t.Fatal("the lock is not handed over")
	}
	unlock, err = lock(t.Context(), path, unix.LOCK_NB)
	require.NoError(t, err, "whoever waited gave it back")
	unlock()
}

// fakeServer is a Temporal server as far as the start of a worker asks it.
type fakeServer struct {
	client.Client

	attributes map[string]enumspb.IndexedValueType
	failWith   map[string]error // by workflow

	failed  map[string]error // by token
	unstuck []string
}

func (s *fakeServer) OperatorService() operatorservice.OperatorServiceClient {
	return &fakeOperator{server: s}
}

func (s *fakeServer) WorkflowService() workflowservice.WorkflowServiceClient {
	return &fakeFrontend{server: s}
}

type fakeOperator struct {
	operatorservice.OperatorServiceClient
	server *fakeServer
}

type fakeFrontend struct {
	workflowservice.WorkflowServiceClient
	server *fakeServer
}

func (s *fakeOperator) ListSearchAttributes(_ context.Context, in *operatorservice.ListSearchAttributesRequest, _ ...grpc.CallOption) (*operatorservice.ListSearchAttributesResponse, error) {
	if in.GetNamespace() != "team" {
		return nil, serviceerror.NewNamespaceNotFound(in.GetNamespace())
	}
	return &operatorservice.ListSearchAttributesResponse{CustomAttributes: s.server.attributes}, nil
}

func (s *fakeServer) CompleteActivity(_ context.Context, token []byte, result any, err error) error {
	if result != nil {
		return fmt.Errorf("a result %v", result)
	}
	if len(s.unstuck) != len(s.failed)+1 {
		return errors.New("the workflow task that this makes may go to the earlier worker")
	}
	s.failed[string(token)] = err
	return s.failWith[string(token)]
}

func (s *fakeFrontend) ResetStickyTaskQueue(_ context.Context, in *workflowservice.ResetStickyTaskQueueRequest, _ ...grpc.CallOption) (*workflowservice.ResetStickyTaskQueueResponse, error) {
	if in.GetNamespace() != "team" {
		return nil, serviceerror.NewNamespaceNotFound(in.GetNamespace())
	}
	s.server.unstuck = append(s.server.unstuck, in.GetExecution().GetWorkflowId())
	return &workflowservice.ResetStickyTaskQueueResponse{}, nil
}

func TestCheckAttributes(t *testing.T) {
	t.Parallel()
	s := &fakeServer{attributes: map[string]enumspb.IndexedValueType{slice.AttrStep: enumspb.INDEXED_VALUE_TYPE_KEYWORD}}
	err := Run(t.Context(), Options{Home: t.TempDir(), Client: s, Namespace: "team"})
	require.EqualError(t, err, `namespace "team" lacks search attributes; register them with:
  temporal operator search-attribute create --namespace team --name SliceCostUSD --type Double --name SliceEnding --type Keyword --name SliceNeedsHuman --type Bool --name SliceRepo --type Keyword --name SliceTask --type Keyword --name SliceWaitingFor --type Keyword`)

	for name, kind := range slice.Attributes() {
		s.attributes[name], err = enumspb.IndexedValueTypeFromString(kind)
		require.NoError(t, err)
	}
	require.NoError(t, checkAttributes(t.Context(), Options{Client: s, Namespace: "team"}))
	require.ErrorContains(t, checkAttributes(t.Context(), Options{Client: s, Namespace: "nowhere"}), "ask the Temporal server for its search attributes")

	s.attributes[slice.AttrCostUSD] = enumspb.INDEXED_VALUE_TYPE_KEYWORD
	require.ErrorContains(t, checkAttributes(t.Context(), Options{Client: s, Namespace: "team"}), "SliceCostUSD is of type Keyword, not Double")
}

func TestTokens(t *testing.T) {
	t.Parallel()
	k := &tokens{dir: filepath.Join(t.TempDir(), "tokens"), namespace: "team"}
	s := &fakeServer{failed: map[string]error{}, failWith: map[string]error{
		"b": serviceerror.NewNotFound("it is over"), "c": serviceerror.NewUnavailable("not now"),
	}}
	log := slog.New(slog.DiscardHandler)
	require.NoError(t, k.fail(t.Context(), s, log), "there was no worker before")

	for _, tok := range []token{
		{"one", "check", []byte("old")},
		{"one", "judge", []byte("a")},
		{"two", "check", []byte("b")},
		{"../../three", "check", []byte("c")},
	} {
		require.NoError(t, k.keep(tok))
	}
	entries, err := os.ReadDir(k.dir)
	require.NoError(t, err)
	require.Len(t, entries, 3, "one of each workflow, whatever its name")
	// What a worker left that was killed while it wrote, and what is none of ours.
	require.NoError(t, os.WriteFile(filepath.Join(k.dir, ".new-1"), []byte(`{"workflow":"on`), 0o600))

	require.NoError(t, k.fail(t.Context(), s, log))
	require.Len(t, s.failed, 3)
	for _, name := range []string{"a", "b", "c"} {
		var lost *temporal.ApplicationError
		require.ErrorAs(t, s.failed[name], &lost)
		require.False(t, lost.NonRetryable())
		require.Less(t, lost.NextRetryDelay(), time.Second)
	}
	require.ElementsMatch(t, []string{"one", "two", "../../three"}, s.unstuck)
	entries, err = os.ReadDir(k.dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}

// The form is that of homes which are in use: a worker must read the tokens of
// the one before it.
func TestTokenFile(t *testing.T) {
	t.Parallel()
	b, err := json.Marshal(token{"w", "check", []byte{1, 2}})
	require.NoError(t, err)
	require.JSONEq(t, `{"workflow":"w","activity":"check","token":"AQI="}`, string(b))
}
