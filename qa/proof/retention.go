package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"agenthost/pkg/store"
)

// retentionAge is the proof's retention. All its sessions are older, and still active.
const retentionAge = 30 * 24 * time.Hour

// retentionRows proves that looking for expired sessions reads as much with ten times as many
// sessions. It counts what the tick reads, not how long it takes: rows on PostgreSQL, file bytes on
// SQLite. MySQL counts reads only for the whole server.
func retentionRows(ctx context.Context, s *sandbox) ([]row, error) {
	if s.driver == "mysql" {
		return nil, nil
	}
	small := s.choose(500, 20_000)
	var ticks, control [2]int64
	for i, n := range []int{small, 10 * small} {
		_, err := s.runOnOther(ctx, func(ctx context.Context, s *sandbox) (int, error) {
			var err error
			ticks[i], control[i], err = s.measureTicks(ctx, n)
			return 0, err
		})
		if err != nil {
			return nil, err
		}
	}
	unit := "rows"
	if s.file != "" {
		unit = "bytes of the file"
	}
	return []row{{
		fmt.Sprintf("retention %s: with ten times as many old sessions that are active, looking for expired ones reads no more", s.name),
		fmt.Sprintf("%d and %d %s with %d and %d sessions; control, without the recorded times: %d and %d", ticks[0], ticks[1], unit, small, 10*small, control[0], control[1]),
		ticks[1] < ticks[0]*3/2+100 && control[1] > 4*control[0],
	}}, nil
}

// measureTicks fills a database, and measures what a first pruning reads, which examines
// every session, and what a later one reads.
func (s *sandbox) measureTicks(ctx context.Context, sessions int) (tick, first int64, err error) {
	st, err := s.openStore(ctx) // creates the tables
	if err != nil {
		return 0, 0, err
	}
	if err := errors.Join(st.Close(), s.insertActiveSessions(ctx, sessions)); err != nil {
		return 0, 0, err
	}
	if first, err = s.measurePruning(ctx); err != nil {
		return 0, 0, err
	}
	if s.driver == "pgx" { // the index entries that were moved
		err = s.execSQL(ctx, "VACUUM sessions")
	}
	if err == nil {
		tick, err = s.measurePruning(ctx)
	}
	return tick, first, err
}

// insertActiveSessions inserts sessions as an older agenthost did: created before the retention,
// with a current event.
func (s *sandbox) insertActiveSessions(ctx context.Context, n int) error {
	now := time.Now()
	numbers := fmt.Sprintf("WITH RECURSIVE g(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM g WHERE i < %d) ", n)
	return s.execSQL(ctx,
		numbers+fmt.Sprintf("INSERT INTO sessions (app_name, user_id, id, create_time, initial) SELECT 'app', 'u', 's-' || i, %d, '{}' FROM g", now.Add(-2*retentionAge).UnixMicro()),
		fmt.Sprintf("INSERT INTO events (session_pk, seq, id, invocation_id, timestamp, event) SELECT pk, 1, 'e', 'i', %d, '{}' FROM sessions", now.UnixMicro()),
	)
}

func (s *sandbox) execSQL(ctx context.Context, all ...string) error {
	db, err := s.openSQL()
	if err != nil {
		return err
	}
	defer db.Close()
	for _, text := range all {
		if _, err := db.ExecContext(ctx, text); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	return nil
}

// measurePruning returns what a pruning by a new store reads. It deletes nothing.
func (s *sandbox) measurePruning(ctx context.Context) (int64, error) {
	before, err := s.countReads(ctx)
	if err != nil {
		return 0, err
	}
	st, err := s.openStore(ctx)
	if err != nil {
		return 0, err
	}
	n, err := st.Prune(ctx, &store.PruneRequest{App: "app", Age: retentionAge})
	if err := errors.Join(err, st.Close()); err != nil || n != 0 {
		return 0, fmt.Errorf("pruning deleted %d active sessions: %w", n, err)
	}
	after, err := s.countReads(ctx)
	return after - before, err
}

// countReads returns the rows that were read in a PostgreSQL database, or the bytes that
// this process has read. PostgreSQL adds up what a connection read when it ends.
func (s *sandbox) countReads(ctx context.Context) (n int64, err error) {
	if s.file != "" {
		text, err := os.ReadFile("/proc/self/io")
		if err != nil {
			return 0, err
		}
		_, err = fmt.Sscanf(strings.TrimSpace(string(text)), "rchar: %d", &n)
		return n, err
	}
	db, err := s.openSQL()
	if err != nil {
		return 0, err
	}
	defer db.Close()
	for {
		var others int
		err := db.QueryRowContext(ctx, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()").Scan(&others)
		if err != nil || others == 0 {
			if err == nil {
				err = db.QueryRowContext(ctx, "SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::bigint FROM pg_stat_user_tables").Scan(&n)
			}
			return n, err
		}
		if err := waitFor(ctx, 10*time.Millisecond); err != nil {
			return 0, err
		}
	}
}
