package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"

	// registers the driver "sqlite"
	_ "modernc.org/sqlite"
)

// checkIntegrity runs SQLite's integrity check on a read-only connection.
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
		return fmt.Errorf("integrity check failed: %s", verdict)
	}
	return nil
}
