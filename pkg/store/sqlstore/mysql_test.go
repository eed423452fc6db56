package sqlstore

import (
	"context"
	"errors"
	"testing"

	driver "github.com/go-sql-driver/mysql"
)

// Until an append has committed, no other transaction locks the session, not even for reading: its
// lease cannot be taken between the epoch check and the event.
func TestAppendLocksSession(t *testing.T) {
	s := openStore(t, mysqlDatabase(t), nil)
	createSession(t, s, alice, nil)
	var id int64
	if err := s.db.reads.QueryRowContext(t.Context(), "SELECT pk FROM sessions").Scan(&id); err != nil {
		t.Fatal(err)
	}
	var locked *driver.MySQLError
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
		_, err := w.stmt.insert.ExecContext(context.Background(), id, 1, "e-1", "i", 0, "{}", 0, "{}", "")
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
			if err := tryLock(); !errors.As(err, &locked) || locked.Number != 1205 {
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
