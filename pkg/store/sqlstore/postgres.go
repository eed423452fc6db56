package sqlstore

import (
	"database/sql"

	"agenthost/pkg/store/sqlstore/internal/engine"
)

func postgresDialect(classify func(error) engine.Fault, lanes int) dialect {
	return dialect{
		classify: classify,
		begin:    "BEGIN",
		upsert: `INSERT INTO states (app_name, user_id, session_id, key, value) VALUES ($1, $2, $3, $4, $5)
 ON CONFLICT (app_name, user_id, session_id, key) DO UPDATE SET value = excluded.value`,
		reserve: `INSERT INTO states (app_name, user_id, session_id, key, value) VALUES ($1, $2, $3, $4, 'null')
 ON CONFLICT (app_name, user_id, session_id, key) DO UPDATE SET value = states.value`,
		lockRow: " FOR UPDATE",
		insert: `INSERT INTO events (session_pk, seq, id, invocation_id, timestamp, event, provenance, outcome)
 SELECT s.pk, $2::bigint, $3, $4, $5::bigint, $6, $8, $9 FROM sessions s
 WHERE s.pk = $1 AND coalesce((SELECT max(h.seq) FROM events h WHERE h.session_pk = $1), 0) = $2::bigint - 1
 AND $7::bigint IN (s.lease_epoch, 0) FOR SHARE OF s
 ON CONFLICT DO NOTHING`,
		now:          "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint",
		tableOptions: func(string) string { return "" },
		snapshot:     sql.LevelRepeatableRead,
		writerCount:  lanes,
		server: &serverDialect{
			lockSQL:     "SELECT 1 FROM pg_advisory_xact_lock(hashtext('agenthost ' || current_schema()))",
			appendBatch: appendPostgres,
			headsSQL:    noBalance + headsPostgresSQL,
			readHint:    noBalance,
			atomic:      true,
		},
	}
}

// noBalance keeps pgpool-II from sending a statement to a standby (its documentation of allow_sql_comments).
const noBalance = "/*NO LOAD BALANCE*/ "

// headsPostgresSQL is headSQL for many sessions.
const headsPostgresSQL = `
WITH k AS MATERIALIZED (SELECT * FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS k(app, usr, id, n))
SELECT k.n, 0, s.pk, coalesce(h.seq, 0), coalesce(h.timestamp, s.create_time), coalesce(h.id, ''), coalesce(h.outcome, '') FROM k
 JOIN sessions s ON s.app_name = k.app AND s.user_id = k.usr AND s.id = k.id
 LEFT JOIN LATERAL (SELECT e.seq, e.timestamp, e.id, e.outcome FROM events e WHERE e.session_pk = s.pk ORDER BY e.seq DESC LIMIT 1) h ON true
UNION ALL SELECT k.n, 1, 0, 0, 0, t.key, t.value FROM k
 JOIN states t ON t.app_name = k.app AND t.user_id = '' AND t.session_id = ''
UNION ALL SELECT k.n, 2, 0, 0, 0, t.key, t.value FROM k
 JOIN states t ON t.app_name = k.app AND t.user_id = k.usr AND t.session_id = ''
UNION ALL SELECT k.n, 3, 0, 0, 0, t.key, t.value FROM k
 JOIN states t ON t.app_name = k.app AND t.user_id = k.usr AND t.session_id = k.id`

// Statements for an append batch. Each is a transaction in one round trip: events and state for the
// sessions that are at the expected version and under the named lease. No lease is taken while they
// are inserted.
const (
	putEventsSQL = `
INSERT INTO events (session_pk, seq, id, invocation_id, timestamp, event, provenance, outcome)
 SELECT s.pk, g.seq, g.id, g.inv, g.at, g.event, g.provenance, g.outcome
 FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::bigint[], $8::text[], $9::text[])
  AS g(pk, seq, id, inv, at, event, epoch, provenance, outcome)
 JOIN sessions s ON s.pk = g.pk
 WHERE coalesce((SELECT h.seq FROM events h WHERE h.session_pk = g.pk ORDER BY h.seq DESC LIMIT 1), 0) = g.seq - 1
 AND g.epoch IN (s.lease_epoch, 0) FOR SHARE OF s
 ON CONFLICT DO NOTHING RETURNING session_pk, id`
	putAllSQL = `WITH put AS (` + putEventsSQL + `), cells AS (
SELECT DISTINCT ON (c.app, c.usr, c.session, c.key) c.*
 FROM unnest($10::bigint[], $11::text[], $12::bigint[], $13::text[], $14::text[], $15::text[], $16::text[], $17::text[])
  AS c(pk, id, place, app, usr, session, key, value)
 JOIN put ON put.session_pk = c.pk AND put.id = c.id
 ORDER BY c.app, c.usr, c.session, c.key, c.place DESC
), gone AS (
DELETE FROM states t USING cells c
 WHERE c.value = '' AND t.app_name = c.app AND t.user_id = c.usr AND t.session_id = c.session AND t.key = c.key
), kept AS (
INSERT INTO states (app_name, user_id, session_id, key, value)
 SELECT c.app, c.usr, c.session, c.key, c.value FROM cells c WHERE c.value <> ''
 ORDER BY c.app, c.usr, c.session, c.key
 ON CONFLICT (app_name, user_id, session_id, key) DO UPDATE SET value = excluded.value
)
SELECT session_pk, id FROM put`
)

func appendPostgres(w *writer, jobs []*job) error {
	text, args := putEventsSQL, eventArgs(jobs)
	if cells := collectCellRows(jobs); len(cells) > 0 {
		text, args = putAllSQL, append(args, cellArgs(jobs, cells)...)
	}
	rows, err := w.conn.QueryContext(w.ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	put := map[eventKey]bool{}
	for rows.Next() {
		var k eventKey
		if err := rows.Scan(&k.head, &k.id); err != nil {
			return err
		}
		put[k] = true
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, j := range jobs {
		k := eventKey{j.append.head, j.append.Event.ID}
		if !put[k] {
			j.err = errConflict
			continue
		}
		delete(put, k) // with the same event in two jobs, the first one inserted it
		j.append.seq = j.append.Version + 1
	}
	return nil
}

// eventKey identifies an event by its session's head id and its event id.
type eventKey struct {
	head int64
	id   string
}

func eventArgs(jobs []*job) []any {
	var heads, seqs, times, epochs []int64
	var ids, invocations, texts, provenances, outcomes []string
	for _, j := range jobs {
		a := j.append
		heads, seqs, times = append(heads, a.head), append(seqs, a.Version+1), append(times, a.Event.Timestamp.UnixMicro())
		ids, invocations, texts = append(ids, a.Event.ID), append(invocations, a.Event.InvocationID), append(texts, a.text)
		epochs, provenances, outcomes = append(epochs, a.Epoch), append(provenances, a.provenance), append(outcomes, a.outcome)
	}
	return []any{heads, seqs, ids, invocations, times, texts, epochs, provenances, outcomes}
}

func cellArgs(jobs []*job, cells []cellRow) []any {
	var heads, places []int64
	var ids, apps, users, sessions, keys, values []string
	for i, c := range cells {
		a := jobs[c.job].append
		heads, ids, places = append(heads, a.head), append(ids, a.Event.ID), append(places, int64(i))
		apps, users, sessions = append(apps, c.App), append(users, c.User), append(sessions, c.Session)
		keys, values = append(keys, c.Key), append(values, c.Value)
	}
	return []any{heads, ids, places, apps, users, sessions, keys, values}
}
