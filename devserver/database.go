package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/headers"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/metrics"
	"go.temporal.io/server/common/persistence/serialization"
	"go.temporal.io/server/common/persistence/sql"
	"go.temporal.io/server/common/persistence/sql/sqlplugin"
	"go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/common/resolver"
	"go.temporal.io/server/common/searchattribute/sadefs"
	sqliteschema "go.temporal.io/server/schema/sqlite"
	"google.golang.org/protobuf/types/known/durationpb"
)

// retention is how long a closed workflow, and with it the uniqueness of its
// id, is kept. The server's own default for SQLite is one day.
const retention = 90 * 24 * time.Hour

// lockPatience is how long a database in use is waited for: the time in which
// a server that is leaving lets go of it.
const lockPatience = 5 * time.Second

// refusedError says that a database cannot be used as it is.
type refusedError struct{ text string }

func (e *refusedError) Error() string { return e.text }

// database is an open SQLite database with its schema, namespaces and search
// attributes in place. Beside its file FILE are FILE.json, which says what made
// it, and FILE.lock, which is locked as long as a server uses it.
type database struct {
	file      string // empty if in memory
	config    config.SQL
	clusterID string
	lock      *os.File
}

// origin is what FILE.json holds.
type origin struct {
	ServerVersion string `json:"server_version"`
	ClusterID     string `json:"cluster_id"`
}

func openDatabase(ctx context.Context, o *options) (_ *database, err error) {
	db := &database{file: o.dbFilename, clusterID: primitives.NewUUID().String()}
	db.config = config.SQL{PluginName: sqlite.PluginName, ConnectAttributes: maps.Clone(o.pragmas)}
	if db.file == "" {
		db.config.DatabaseName = "devserver"
		db.config.ConnectAttributes["mode"] = "memory"
		db.config.ConnectAttributes["cache"] = "shared"
	} else {
		db.config.DatabaseName = uriPath(db.file)
		db.config.ConnectAttributes["mode"] = "rw"
		if err := db.openFile(ctx); err != nil {
			return nil, err
		}
		defer func() {
			if err != nil {
				db.close()
			}
		}()
	}
	if err := db.prepare(ctx, o.namespaces, o.attributes); err != nil {
		name := db.file
		if name == "" {
			name = "in memory"
		}
		return nil, fmt.Errorf("database %s: %w", name, err)
	}
	return db, nil
}

func (db *database) close() {
	if db.lock != nil {
		_ = db.lock.Close()
	}
}

// openFile locks the database file, and makes it if there is none.
func (db *database) openFile(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		db.lock, err = lockFile(db.file+".lock", os.O_RDWR|os.O_CREATE)
		if err == nil {
			break
		}
		if !errors.Is(err, errLocked) {
			return fmt.Errorf("database: %w", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("database %s is in use by another server; end that one, or use another file", db.file)
		}
	}

	recorded := db.file + ".json"
	_, err = os.Stat(db.file)
	if err == nil {
		return db.checkOrigin(recorded)
	}
	if !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("database: %w", err)
	}
	// The database appears under its name only when it is complete and its
	// origin is recorded, so a half-made one is never taken for a database.
	made := db.file + ".new"
	for _, stale := range []string{made, made + "-journal", db.file + "-wal", db.file + "-shm"} {
		if err := os.Remove(stale); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("database: %w", err)
		}
	}
	err = sqliteschema.SetupSchema(&config.SQL{
		PluginName:        sqlite.PluginName,
		DatabaseName:      uriPath(made),
		ConnectAttributes: map[string]string{"mode": "rwc"},
	})
	if err != nil {
		return fmt.Errorf("database %s: schema: %w", db.file, err)
	}
	if err := os.Chmod(made, 0o600); err != nil {
		return fmt.Errorf("database: %w", err)
	}
	err = writeJSON(recorded, origin{ServerVersion: headers.ServerVersion, ClusterID: db.clusterID})
	if err != nil {
		return fmt.Errorf("database %s: %w", db.file, err)
	}
	return os.Rename(made, db.file)
}

// checkOrigin refuses a database of another server version: SQLite files have
// no migrations, and a server on a strange schema fails late and obscurely.
func (db *database) checkOrigin(recorded string) error {
	const remedy = "SQLite files have no migrations. Either move the file away with everything beside it (%s*), " +
		"which starts an empty one and leaves its workflows behind, or %s"
	data, err := os.ReadFile(recorded)
	if errors.Is(err, os.ErrNotExist) {
		return &refusedError{fmt.Sprintf("database %s was made by another program (there is no %s): "+remedy,
			db.file, recorded, db.file, "use it with the program that made it")}
	}
	if err != nil {
		return fmt.Errorf("database: %w", err)
	}
	var o origin
	if err := json.Unmarshal(data, &o); err != nil || o.ClusterID == "" {
		return &refusedError{fmt.Sprintf("database %s: %s is damaged: restore it, or move the database away with everything beside it (%s*)",
			db.file, recorded, db.file)}
	}
	if o.ServerVersion != headers.ServerVersion {
		return &refusedError{fmt.Sprintf("database %s was made by Temporal server %s, and this is %s: "+remedy,
			db.file, o.ServerVersion, headers.ServerVersion, db.file, "go on with the version that made it")}
	}
	db.clusterID = o.ClusterID
	return nil
}

// prepare creates missing namespaces, and gives each of them the missing search
// attributes. It writes to the tables before the server starts, because a
// running one takes seconds to notice a new attribute, and until then fails the
// workflow tasks that use it.
func (db *database) prepare(ctx context.Context, namespaces []string, attributes map[string]enums.IndexedValueType) error {
	for _, name := range namespaces {
		namespace, err := sqliteschema.NewNamespaceConfig(clusterName, name, false, nil)
		if err != nil {
			return fmt.Errorf("namespace %s: %w", name, err)
		}
		namespace.Detail.Config.Retention = durationpb.New(retention)
		if err := sqliteschema.CreateNamespaces(&db.config, namespace); err != nil {
			return fmt.Errorf("namespace %s: %w", name, err)
		}
	}
	tables, err := sql.NewSQLDB(sqlplugin.DbKindUnknown, &db.config, resolver.NewNoopResolver(), log.NewNoopLogger(), metrics.NoopMetricsHandler)
	if err != nil {
		return err
	}
	defer func() { _ = tables.Close() }()
	for _, name := range namespaces {
		if err := addAttributes(ctx, tables, name, attributes); err != nil {
			return fmt.Errorf("namespace %s: %w", name, err)
		}
	}
	return nil
}

func addAttributes(ctx context.Context, tables sqlplugin.DB, namespace string, attributes map[string]enums.IndexedValueType) error {
	rows, err := tables.SelectFromNamespace(ctx, sqlplugin.NamespaceFilter{Name: &namespace})
	if err != nil {
		return err
	}
	row := rows[0]
	encoding, err := enums.EncodingTypeFromString(row.DataEncoding)
	if err != nil {
		return err
	}
	serializer := serialization.NewSerializer()
	detail, err := serializer.NamespaceDetailFromBlob(&commonpb.DataBlob{Data: row.Data, EncodingType: encoding})
	if err != nil {
		return err
	}
	added, err := assignFields(detail.Config.CustomSearchAttributeAliases, attributes)
	if err != nil || len(added) == 0 {
		return err
	}
	if detail.Config.CustomSearchAttributeAliases == nil {
		detail.Config.CustomSearchAttributeAliases = map[string]string{}
	}
	maps.Copy(detail.Config.CustomSearchAttributeAliases, added)
	blob, err := serializer.NamespaceDetailToBlob(detail)
	if err != nil {
		return err
	}
	row.Data, row.DataEncoding = blob.GetData(), blob.GetEncodingType().String()
	_, err = tables.UpdateNamespace(ctx, &row)
	return err
}

// assignFields gives each attribute that no alias names yet a free column of
// its type, and returns these new aliases by column.
func assignFields(aliases map[string]string, attributes map[string]enums.IndexedValueType) (map[string]string, error) {
	columns := sadefs.GetDBIndexSearchAttributes(nil).CustomSearchAttributes
	column := map[string]string{}
	for field, name := range aliases {
		column[name] = field
	}
	added := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		want := attributes[name]
		if field, ok := column[name]; ok {
			if have := columns[field]; have != want {
				return nil, &refusedError{fmt.Sprintf("search attribute %s is registered with type %s, not %s: "+
					"give it another name, or remove the old one (temporal operator search-attribute remove --name %[1]s)", name, have, want)}
			}
			continue
		}
		free := ""
		for _, field := range slices.Sorted(maps.Keys(columns)) {
			if columns[field] == want && aliases[field] == "" && added[field] == "" {
				free = field
				break
			}
		}
		if free == "" {
			return nil, &refusedError{fmt.Sprintf("search attribute %s: all columns of type %s are taken: remove one that is not needed "+
				"(temporal operator search-attribute list)", name, want)}
		}
		added[free] = name
	}
	return added, nil
}

// uriPath makes a path that SQLite reads back from a file: URI as it was.
func uriPath(path string) string {
	return (&url.URL{Path: path}).EscapedPath()
}
