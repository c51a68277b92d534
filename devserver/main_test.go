package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/server/common/headers"
)

func TestParseTakesTheArgumentsOfTheSDK(t *testing.T) {
	o, err := parse([]string{
		"server", "start-dev", "--ip", "127.0.0.1", "--port", "17233", "--namespace", "one",
		"--dynamic-config-value", "frontend.enableServerVersionCheck=false",
		"--log-level", "error", "--log-format", "json", "--headless", "--db-filename", "/tmp/x.db", "--ui-port", "1",
		"--search-attribute", "Step=Keyword", "--search-attribute", "Cost=Double", "-n", "two",
	})
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1", o.ip)
	require.Equal(t, 17233, o.port)
	require.Equal(t, []string{"one", "two"}, o.namespaces)
	require.Equal(t, map[string]any{"frontend.enableServerVersionCheck": false}, o.dynamicConfig)
	require.True(t, o.headless)
	require.Equal(t, map[string]enums.IndexedValueType{
		"Step": enums.INDEXED_VALUE_TYPE_KEYWORD, "Cost": enums.INDEXED_VALUE_TYPE_DOUBLE,
	}, o.attributes)
}

func TestParseDefaults(t *testing.T) {
	o, err := parse([]string{"server", "start-dev"})
	require.NoError(t, err)
	require.Equal(t, 7233, o.port)
	require.Equal(t, 8233, o.uiPort)
	require.Equal(t, "127.0.0.1", o.uiIP)
	require.Equal(t, []string{"default"}, o.namespaces)

	o, err = parse([]string{"server", "start-dev", "--port", "0"})
	require.NoError(t, err)
	require.NotZero(t, o.port)
	require.NotZero(t, o.uiPort)
	require.NotEqual(t, o.port, o.uiPort)
}

func TestParseRefuses(t *testing.T) {
	for _, args := range [][]string{
		nil,
		{"server"},
		{"workflow", "start"},
		{"server", "start-dev", "--no-such-flag"},
		{"server", "start-dev", "stray"},
		{"server", "start-dev", "--search-attribute", "Step"},
		{"server", "start-dev", "--search-attribute", "=Keyword"},
		{"server", "start-dev", "--search-attribute", "Step=Unspecified"},
		{"server", "start-dev", "--search-attribute", "Step=Color"},
		{"server", "start-dev", "--dynamic-config-value", "k=not json"},
		{"server", "start-dev", "--dynamic-config-value", "k"},
		{"server", "start-dev", "--sqlite-pragma", "wal"},
		{"server", "start-dev", "--ip", "not an address"},
	} {
		_, err := parse(args)
		require.Error(t, err, "%q", args)
	}
}

func TestJSONValue(t *testing.T) {
	for text, want := range map[string]any{
		"10": 10, "-1": -1, "0.5": 0.5, "true": true, `"10ms"`: "10ms", `"10"`: "10",
		`{"a":"b"}`: map[string]any{"a": "b"}, "null": nil,
	} {
		got, err := jsonValue(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	_, err := jsonValue("10ms")
	require.Error(t, err)
}

func TestAssignFields(t *testing.T) {
	keyword, boolean := enums.INDEXED_VALUE_TYPE_KEYWORD, enums.INDEXED_VALUE_TYPE_BOOL
	aliases := map[string]string{"Keyword02": "Step"}

	added, err := assignFields(aliases, map[string]enums.IndexedValueType{"Step": keyword, "Task": keyword, "Repo": keyword, "Waits": boolean})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"Keyword01": "Repo", "Keyword03": "Task", "Bool01": "Waits"}, added)

	added, err = assignFields(aliases, map[string]enums.IndexedValueType{"Step": keyword})
	require.NoError(t, err)
	require.Empty(t, added)

	_, err = assignFields(aliases, map[string]enums.IndexedValueType{"Step": boolean})
	require.ErrorContains(t, err, "registered with type Keyword, not Bool")

	many := map[string]enums.IndexedValueType{}
	for i := range 30 {
		many[fmt.Sprintf("B%d", i)] = boolean
	}
	_, err = assignFields(nil, many)
	require.ErrorContains(t, err, "all columns of type Bool are taken")
}

func testOptions(file string) *options {
	return &options{dbFilename: file, namespaces: []string{"default"}, pragmas: map[string]string{"journal_mode": "wal"}}
}

func TestDatabaseKeepsItsOrigin(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a b%20#1?x.db")
	db, err := openDatabase(context.Background(), testOptions(file))
	require.NoError(t, err)
	first := db.clusterID
	require.FileExists(t, file)

	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = openDatabase(ended, testOptions(file))
	require.ErrorContains(t, err, "in use by another server")
	db.close()

	o := testOptions(file)
	o.attributes = map[string]enums.IndexedValueType{"Step": enums.INDEXED_VALUE_TYPE_KEYWORD}
	db, err = openDatabase(context.Background(), o)
	require.NoError(t, err)
	require.Equal(t, first, db.clusterID)
	db.close()

	o.attributes["Step"] = enums.INDEXED_VALUE_TYPE_INT
	_, err = openDatabase(context.Background(), o)
	var refused *refusedError
	require.ErrorAs(t, err, &refused, "the attribute that was added is there")
}

func TestDatabaseRefuses(t *testing.T) {
	other, err := json.Marshal(origin{ServerVersion: "1.0.0", ClusterID: "id"})
	require.NoError(t, err)
	for name, test := range map[string]struct {
		origin []byte
		want   string
	}{
		"another version": {other, "made by Temporal server 1.0.0, and this is " + headers.ServerVersion},
		"another program": {nil, "made by another program"},
		"damaged origin":  {[]byte("{"), "is damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "t.db")
			content := []byte("somebody's workflows")
			require.NoError(t, os.WriteFile(file, content, 0o600))
			if test.origin != nil {
				require.NoError(t, os.WriteFile(file+".json", test.origin, 0o600))
			}
			_, err := openDatabase(context.Background(), testOptions(file))
			var refused *refusedError
			require.ErrorAs(t, err, &refused)
			require.ErrorContains(t, err, test.want)
			after, err := os.ReadFile(file)
			require.NoError(t, err)
			require.True(t, bytes.Equal(content, after), "a refused database is not touched")
		})
	}
}

// A kill between making the schema and naming the file leaves both behind.
func TestDatabaseHalfMadeIsMadeAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "t.db")
	require.NoError(t, os.WriteFile(file+".new", []byte("half"), 0o600))
	require.NoError(t, writeJSON(file+".json", origin{ServerVersion: "1.0.0", ClusterID: "id"}))
	db, err := openDatabase(context.Background(), testOptions(file))
	require.NoError(t, err)
	db.close()
	require.NoFileExists(t, file+".new")
	db, err = openDatabase(context.Background(), testOptions(file))
	require.NoError(t, err)
	db.close()
}
