package testdb

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"slices"
	"strings"
)

// undoStatements returns the statements that undo the session schema's migrations, by the version
// that they undo.
func undoStatements(engine string) map[int64][]string {
	dropIndex := "DROP INDEX %s"
	if engine == "mysql" {
		dropIndex = "DROP INDEX %s ON sessions"
	}
	return map[int64][]string{
		13: {"ALTER TABLE eval_results DROP COLUMN cases", "ALTER TABLE eval_results DROP COLUMN passed"},
		12: {"DROP TABLE outcome_days"},
		11: {"DROP TABLE rollouts"},
		10: {"DROP TABLE session_feedback", "ALTER TABLE events DROP COLUMN outcome"},
		9:  {"DROP TABLE retention_sweeps", fmt.Sprintf(dropIndex, "sessions_by_age"), "ALTER TABLE sessions DROP COLUMN active_time"},
		8:  {"DROP TABLE credential_grants"},
		7:  {"DROP TABLE eval_results"},
		6:  {"ALTER TABLE events DROP COLUMN provenance"},
		5:  {"DROP TABLE revisions"},
		4:  {fmt.Sprintf(dropIndex, "sessions_of_app"), fmt.Sprintf(dropIndex, "sessions_of_user")},
		3:  {"ALTER TABLE sessions DROP COLUMN lease_owner", "ALTER TABLE sessions DROP COLUMN lease_epoch", "ALTER TABLE sessions DROP COLUMN lease_until"},
		2:  {"DROP TABLE memory_terms", "DROP TABLE memories", "DROP TABLE memory_owners"},
	}
}

// Downgrade turns the session database at a URL into one that an older agenthost has created: it
// undoes the migrations after a schema version. Rows keep what the version stores.
func Downgrade(ctx context.Context, at string, version int64) error {
	db, err := Open(at)
	if err != nil {
		return err
	}
	defer db.Close()
	var from int64
	if err := db.QueryRowContext(ctx, "SELECT max(version) FROM schema_migrations").Scan(&from); err != nil {
		return err
	}
	undo := undoStatements(engineOf(at))
	for ; from > version; from-- {
		if undo[from] == nil {
			return fmt.Errorf("testdb cannot undo schema version %d; hint: add its statements to undoStatements", from)
		}
		for _, text := range append(undo[from], fmt.Sprintf("DELETE FROM schema_migrations WHERE version = %d", from)) {
			if _, err := db.ExecContext(ctx, text); err != nil {
				return fmt.Errorf("%s: %w", text, err)
			}
		}
	}
	return nil
}

func engineOf(at string) string {
	switch name, _, _ := strings.Cut(at, ":"); name {
	case "sqlite", "mysql":
		return name
	default:
		return "postgres"
	}
}

// DumpDatabase returns the tables, columns, indexes and rows of the database at a URL as text, and
// a file's bytes.
func DumpDatabase(ctx context.Context, at string) (string, error) {
	db, err := Open(at)
	if err != nil {
		return "", err
	}
	defer db.Close()
	var b strings.Builder
	for _, query := range schemaQueries(engineOf(at)) {
		if err := dumpRows(ctx, db, query, &b); err != nil {
			return "", fmt.Errorf("%s: %w", query, err)
		}
	}
	if file, ok := strings.CutPrefix(at, "sqlite:///"); ok {
		text, err := os.ReadFile(file)
		b.Write(text)
		return b.String(), err
	}
	tables, err := listTables(ctx, db, engineOf(at))
	if err != nil {
		return "", err
	}
	for _, table := range tables {
		var rows strings.Builder
		if err := dumpRows(ctx, db, "SELECT * FROM "+table, &rows); err != nil {
			return "", fmt.Errorf("%s: %w", table, err)
		}
		fmt.Fprintln(&b, table, strings.Join(slices.Sorted(strings.Lines(rows.String())), ""))
	}
	return b.String(), nil
}

// listTables returns the table names in a server's database.
func listTables(ctx context.Context, db *sql.DB, engine string) (tables []string, err error) {
	schema := "current_schema()"
	if engine == "mysql" {
		schema = "database()"
	}
	rows, err := db.QueryContext(ctx, "SELECT table_name FROM information_schema.tables WHERE table_schema = "+schema+" ORDER BY 1")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		tables = append(tables, name)
	}
	return tables, rows.Err()
}

func schemaQueries(engine string) []string {
	switch engine {
	case "sqlite":
		return []string{"SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name"}
	case "mysql":
		return []string{
			"SELECT table_name, column_name, ordinal_position, column_type, is_nullable, column_default, collation_name FROM information_schema.columns WHERE table_schema = database() ORDER BY 1, 3",
			"SELECT table_name, index_name, seq_in_index, column_name, non_unique FROM information_schema.statistics WHERE table_schema = database() ORDER BY 1, 2, 3",
		}
	default:
		return []string{
			"SELECT table_name, column_name, ordinal_position, data_type, is_nullable, column_default, collation_name FROM information_schema.columns WHERE table_schema = current_schema() ORDER BY 1, 3",
			"SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = current_schema() ORDER BY 1, 2",
		}
	}
}

func dumpRows(ctx context.Context, db *sql.DB, query string, b *strings.Builder) error {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	texts, into := make([]sql.NullString, len(columns)), make([]any, len(columns))
	for i := range texts {
		into[i] = &texts[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		for _, text := range texts {
			fmt.Fprintf(b, "%q ", text.String)
		}
		b.WriteByte('\n')
	}
	return rows.Err()
}
