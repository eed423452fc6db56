package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"

	// The driver that is named in sql.Open.
	_ "modernc.org/sqlite"
)

// checkIntegrity lets SQLite look through the whole file, which is only read.
func checkIntegrity(ctx context.Context, file string) error {
	at := url.URL{Scheme: "file", Path: file, RawQuery: "mode=ro"}
	db, err := sql.Open("sqlite", at.String())
	if err != nil {
		return fmt.Errorf("opening the database: %w", err)
	}
	defer db.Close()
	var verdict string
	if err := db.QueryRowContext(ctx, "PRAGMA integrity_check").Scan(&verdict); err != nil {
		return fmt.Errorf("checking the database: %w", err)
	}
	if verdict != "ok" {
		return fmt.Errorf("the database is broken: %s", verdict)
	}
	return nil
}
