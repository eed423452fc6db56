package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"slices"
	"strings"

	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
	"gorm.io/gorm/migrator"
	"gorm.io/gorm/schema"

	"agenthost/pkg/store"
)

// postgresParams returns the parameters of a PostgreSQL URL. All but pool_size
// have their libpq meaning; ssl is asyncpg's name of sslmode.
func postgresParams() []parameter {
	return []parameter{
		{"sslmode", "ssl"},
		{"sslrootcert"},
		{"sslcert"},
		{"sslkey"},
		{"connect_timeout"},
		{"application_name"},
		{"search_path"},
		{"synchronous_commit"},
		{"target_session_attrs"},
		{"default_query_exec_mode"},
		{"statement_cache_capacity"},
		{"host"},
		{"pool_size"},
		{"timeout"},
	}
}

// openPostgresURL opens the database of a URL: postgres://user@host/database.
func openPostgresURL(ctx context.Context, rest string, o *Options) (*Database, error) {
	u, err := parseServer(rest, "5432", postgresParams())
	if err != nil {
		return nil, err
	}
	place, err := parsePostgres(u)
	if err != nil {
		return nil, err
	}
	d := postgresDialect(u.writerCount())
	return retryOpen(ctx, d, func() (*Database, error) {
		schema, err := findSchema(ctx, place)
		if err != nil {
			return nil, err
		}
		connector := newPostgresConnector(place, schema)
		connector.readOnly = o.Access == store.AccessRead
		return newServerBackend(ctx, d, u, func() (*gorm.DB, error) { return openPostgres(connector) }, o)
	})
}

func openPostgres(connector driver.Connector) (*gorm.DB, error) {
	pool := sql.OpenDB(connector)
	db, err := gorm.Open(postgresDialector{postgres.Dialector{Config: &postgres.Config{Conn: pool}}}, gormConfig())
	if err != nil {
		return nil, errors.Join(err, pool.Close())
	}
	return db, nil
}

func gormConfig() *gorm.Config {
	return &gorm.Config{Logger: logger.Discard, SkipDefaultTransaction: true, DisableAutomaticPing: true}
}

// postgresDialector makes ids compare and sort byte by byte, so that indexes do
// not depend on collations of the operating system, which change.
type postgresDialector struct{ postgres.Dialector }

// DataTypeOf returns the type of a column.
func (d postgresDialector) DataTypeOf(f *schema.Field) string {
	t := d.Dialector.DataTypeOf(f)
	if strings.HasPrefix(t, "varchar") {
		t += ` COLLATE "C"`
	}
	return t
}

// Migrator migrates tables with the types of this dialector.
func (d postgresDialector) Migrator(db *gorm.DB) gorm.Migrator {
	return postgres.Migrator{Migrator: migrator.Migrator{Config: migrator.Config{
		DB: db, Dialector: d, CreateIndexAfterCreateTable: true,
	}}}
}

func postgresDialect(lanes int) dialect {
	return dialect{
		begin: "BEGIN",
		upsert: `INSERT INTO states (app_name, user_id, session_id, key, value) VALUES ($1, $2, $3, $4, $5)
 ON CONFLICT (app_name, user_id, session_id, key) DO UPDATE SET value = excluded.value`,
		reserve: `INSERT INTO states (app_name, user_id, session_id, key, value) VALUES ($1, $2, $3, $4, 'null')
 ON CONFLICT (app_name, user_id, session_id, key) DO UPDATE SET value = states.value`,
		lockRow: " FOR UPDATE",
		insert: `INSERT INTO events (session_pk, seq, id, invocation_id, timestamp, event, provenance)
 SELECT s.pk, $2::bigint, $3, $4, $5::bigint, $6, $8 FROM sessions s
 WHERE s.pk = $1 AND coalesce((SELECT max(h.seq) FROM events h WHERE h.session_pk = $1), 0) = $2::bigint - 1
 AND $7::bigint IN (s.lease_epoch, 0) FOR SHARE OF s
 ON CONFLICT DO NOTHING`,
		now:          "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint",
		tableOptions: func(string) string { return "" },
		isConflict: func(err error) bool {
			code := sqlState(err)
			return code == "23505" || code == "23503" || code == "23502"
		},
		isUnwritable: func(err error) bool { return slices.Contains([]string{"25006", "53100"}, sqlState(err)) },
		snapshot:     sql.LevelRepeatableRead,
		writerCount:  lanes,
		server: &serverDialect{
			lockSQL:           "SELECT 1 FROM pg_advisory_xact_lock(hashtext('agenthost ' || current_schema()))",
			isConnectionLost:  isConnectionLostPostgres,
			isConnectionLimit: isConnectionLimitPostgres,
			isRetryable:       func(err error) bool { code := sqlState(err); return code == "40001" || code == "40P01" },
			appendBatch:       appendPostgres,
			headsSQL:          headsPostgresSQL,
			atomic:            true,
		},
	}
}

// headsPostgresSQL is headSQL for many sessions.
const headsPostgresSQL = `
WITH k AS MATERIALIZED (SELECT * FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS k(app, usr, id, n))
SELECT k.n, 0, s.pk, coalesce(h.seq, 0), coalesce(h.timestamp, s.create_time), coalesce(h.id, ''), '' FROM k
 JOIN sessions s ON s.app_name = k.app AND s.user_id = k.usr AND s.id = k.id
 LEFT JOIN LATERAL (SELECT e.seq, e.timestamp, e.id FROM events e WHERE e.session_pk = s.pk ORDER BY e.seq DESC LIMIT 1) h ON true
UNION ALL SELECT k.n, 1, 0, 0, 0, t.key, t.value FROM k
 JOIN states t ON t.app_name = k.app AND t.user_id = '' AND t.session_id = ''
UNION ALL SELECT k.n, 2, 0, 0, 0, t.key, t.value FROM k
 JOIN states t ON t.app_name = k.app AND t.user_id = k.usr AND t.session_id = ''
UNION ALL SELECT k.n, 3, 0, 0, 0, t.key, t.value FROM k
 JOIN states t ON t.app_name = k.app AND t.user_id = k.usr AND t.session_id = k.id`

// The statements of a batch of appends. Each is a transaction in one round trip:
// the events of the sessions that are at the expected version and under the named
// lease, and the state of those sessions. No lease is taken while they are
// inserted.
const (
	putEventsSQL = `
INSERT INTO events (session_pk, seq, id, invocation_id, timestamp, event, provenance)
 SELECT s.pk, g.seq, g.id, g.inv, g.at, g.event, g.provenance
 FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::bigint[], $8::text[])
  AS g(pk, seq, id, inv, at, event, epoch, provenance)
 JOIN sessions s ON s.pk = g.pk
 WHERE coalesce((SELECT h.seq FROM events h WHERE h.session_pk = g.pk ORDER BY h.seq DESC LIMIT 1), 0) = g.seq - 1
 AND g.epoch IN (s.lease_epoch, 0) FOR SHARE OF s
 ON CONFLICT DO NOTHING RETURNING session_pk, id`
	putAllSQL = `WITH put AS (` + putEventsSQL + `), cells AS (
SELECT DISTINCT ON (c.app, c.usr, c.session, c.key) c.*
 FROM unnest($9::bigint[], $10::text[], $11::bigint[], $12::text[], $13::text[], $14::text[], $15::text[], $16::text[])
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
	setAppendResults(jobs, put)
	return nil
}

// eventKey identifies an event by its session's head id and its event id.
type eventKey struct {
	head int64
	id   string
}

// setAppendResults sets the results of append jobs. If two jobs have the same
// event, the first one inserted it.
func setAppendResults(jobs []*job, put map[eventKey]bool) {
	for _, j := range jobs {
		k := eventKey{j.append.head, j.append.Event.ID}
		if !put[k] {
			j.err = errConflict
			continue
		}
		delete(put, k)
		j.append.seq = j.append.Version + 1
	}
}

func eventArgs(jobs []*job) []any {
	var heads, seqs, times, epochs []int64
	var ids, invocations, texts, provenances []string
	for _, j := range jobs {
		a := j.append
		heads, seqs, times = append(heads, a.head), append(seqs, a.Version+1), append(times, a.Event.Timestamp.UnixMicro())
		ids, invocations, texts = append(ids, a.Event.ID), append(invocations, a.Event.InvocationID), append(texts, a.text)
		epochs, provenances = append(epochs, a.Epoch), append(provenances, a.provenance)
	}
	return []any{heads, seqs, ids, invocations, times, texts, epochs, provenances}
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
