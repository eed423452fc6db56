package main

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"agenthost/qa/bench/internal/engine"
)

// The floor writes the same rows in as many transactions as agenthost.
func TestFloorWritesTheSame(t *testing.T) {
	for _, e := range []engine.Engine{engine.SQLite(), engine.Postgres()} {
		t.Run(e.Name, func(t *testing.T) {
			ctx := t.Context()
			b := &bench{Engine: e, dir: t.TempDir(), pairs: 1, progress: t.Output()}
			_, drop, err := e.Create(ctx, b.dir)
			if err != nil {
				t.Skip(err)
			}
			drop()
			if e.Name == engine.SQLite().Name && !engine.HasC() {
				if l, err := b.measureDistance(ctx); err != nil || l.note != "needs cgo" || l.met() {
					t.Errorf("measureDistance() = %+v, %v", l, err)
				}
				return
			}
			p, err := b.openPair(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := p.close(); err != nil {
					t.Error(err)
				}
			}()
			// Some agenthost turns also acquire a lease, or meet another one's release.
			fewest := int64(100)
			count := func(ctx context.Context, id string) error {
				before := p.host.commits()
				err := p.host.runTurn(ctx, id)
				fewest = min(fewest, p.host.commits()-before)
				return err
			}
			for _, run := range []func(context.Context, string) error{count, p.floor.runTurn} {
				if _, err := medianRound(ctx, 0, run); err != nil {
					t.Fatal(err)
				}
			}
			const turns = floorSessions * floorTurns
			if fewest != 2 || p.floor.commits != 2*turns {
				t.Errorf("%d transactions in a turn of agenthost and %d in %d turns of the floor, want 2 in each", fewest, p.floor.commits, turns)
			}
			// Two SQLite engines in one process release each other's locks.
			if err := p.host.close(); err != nil {
				t.Fatal(err)
			}
			p.host = nil
			floor, ours := readWritten(t, p.floorAt), readWritten(t, p.hostAt)
			const events = 2 * (turns + floorSessions)
			if floor != ours || ours.Events != events || ours.Sessions != floorSessions {
				t.Errorf("agenthost wrote %+v, the floor %+v, want %d events", ours, floor, events)
			}
		})
	}
}

// written has the row counts and sizes in a database. Bytes has no timestamps, whose length varies:
// an event ends with its timestamp, whose fraction has no trailing zeros.
type written struct{ Sessions, States, Events, Last, Bytes int }

func readWritten(t *testing.T, at *engine.Database) (w written) {
	t.Helper()
	timestamp := `instr(event, '"timestamp"')`
	if at.Name == engine.Postgres().Name {
		timestamp = `strpos(event, '"timestamp"')`
	}
	counts := `SELECT (SELECT count(*) FROM sessions), (SELECT count(*) FROM states), count(*), max(seq),
 sum(length(id) + length(invocation_id) + ` + timestamp + ` + length(coalesce(provenance, ''))) FROM events`
	dest := []any{&w.Sessions, &w.States, &w.Events, &w.Last, &w.Bytes}
	if at.Name == engine.Postgres().Name {
		conn, err := pgx.Connect(t.Context(), at.URL())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		if err := conn.QueryRow(t.Context(), counts).Scan(dest...); err != nil {
			t.Fatal(err)
		}
		return w
	}
	pool, err := at.OpenC()
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if err := pool.QueryRowContext(t.Context(), counts).Scan(dest...); err != nil {
		t.Fatal(err)
	}
	return w
}

// The floor's statements are in the store's source.
func TestFloorStatements(t *testing.T) {
	var source strings.Builder
	err := filepath.WalkDir("../../../pkg/store", func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		source.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{lastEventSQL, headTailSQL, insertSQLite, insertPostgres} {
		if !strings.Contains(source.String(), text) {
			t.Errorf("not a statement of pkg/store:\n%s", text)
		}
	}
}
