package sqlstore

import (
	"context"
	"testing"
)

// Engines that speak the protocol of MySQL, but lack its locks, are rejected by name.
func TestMySQLEngines(t *testing.T) {
	for _, tt := range []struct{ version, collation, err string }{
		{"8.0.36", "utf8mb4_0900_bin", ""},
		{"10.11.19-MariaDB-0+deb12u1", "utf8mb4_nopad_bin", ""},
		{"5.7.25-TiDB-v5.4.0", "", `TiDB is not supported, the version of the server is "5.7.25-TiDB-v5.4.0"; hint: use MySQL, MariaDB or PostgreSQL`},
		{"8.0.30-Vitess", "", `Vitess is not supported, the version of the server is "8.0.30-Vitess"; hint: use MySQL, MariaDB or PostgreSQL`},
	} {
		got, err := selectCollation(tt.version)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if got != tt.collation || text != tt.err {
			t.Errorf("%s: %s, %s", tt.version, got, text)
		}
	}
}

// Until an append has committed, no other transaction locks the session, not even for
// reading: its lease cannot be taken between the check of the epoch and the event.
func TestAppendLocksSession(t *testing.T) {
	s := openStore(t, mysqlDatabase(t), nil)
	createSession(t, s, alice, nil)
	var id int64
	if err := s.db.reads.QueryRowContext(t.Context(), "SELECT pk FROM sessions").Scan(&id); err != nil {
		t.Fatal(err)
	}
	tryLock := func() error {
		tx, err := s.db.reads.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		if _, err := tx.Exec("SET SESSION innodb_lock_wait_timeout = 1"); err != nil {
			t.Fatal(err)
		}
		return tx.QueryRow("SELECT pk FROM sessions WHERE pk = ? LOCK IN SHARE MODE", id).Scan(&id)
	}
	statement := func(w *writer) error {
		_, err := w.stmt.insert.ExecContext(context.Background(), id, 1, "e-1", "i", 0, "{}", 0, "{}")
		return err
	}
	batch := func(w *writer) error {
		_, err := lockHeads(w, []*job{{append: &appendJob{head: id}}})
		return err
	}
	for name, lock := range map[string]func(*writer) error{"insert": statement, "batch": batch} {
		err := s.db.writers[0].runWrite(t.Context(), func(w *writer) error {
			if err := lock(w); err != nil {
				return err
			}
			if err := tryLock(); mysqlCode(err) != 1205 {
				t.Errorf("%s: another transaction locks the session, %v", name, err)
			}
			return nil
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := tryLock(); err != nil {
		t.Errorf("after the appends: %v", err)
	}
}
