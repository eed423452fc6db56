package sqlstore

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"agenthost/pkg/store/sqlstore/postgres"
)

// A write whose transaction a server aborts is attempted ten times, even if the server takes a
// second to detect each deadlock. Another error is not retried.
func TestConflictRetries(t *testing.T) {
	d := postgresDialect(postgres.Engine().Classify, 1)
	for code, want := range map[string]int{"40P01": maxConflictAttempts, "40001": maxConflictAttempts, "42601": 1} {
		synctest.Test(t, func(t *testing.T) {
			var r retries
			attempts := 0
			for again := true; again; attempts++ {
				time.Sleep(time.Second)
				var pause time.Duration
				pause, again = r.nextPause(&d, &pgconn.PgError{Code: code})
				time.Sleep(pause)
			}
			if attempts != want {
				t.Errorf("%s: %d attempts, want %d", code, attempts, want)
			}
		})
	}
}
