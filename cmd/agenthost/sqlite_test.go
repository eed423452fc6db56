package main

import (
	"database/sql"

	"github.com/rogpeppe/go-internal/testscript"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

// sqlite carries out files of SQL statements in a database file, which is made
// when it is missing.
func sqlite(ts *testscript.TestScript, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: sqlite DATABASE FILE.sql...")
	}
	db, err := sql.Open("sqlite", ts.MkAbs(args[0]))
	ts.Check(err)
	defer db.Close()
	for _, file := range args[1:] {
		_, err := db.Exec(ts.ReadFile(file))
		ts.Check(err)
	}
}
