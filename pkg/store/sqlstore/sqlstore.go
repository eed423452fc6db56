// Package sqlstore keeps sessions, memories and revisions in an SQL database:
// SQLite, PostgreSQL, MySQL and MariaDB, through GORM. The drivers are in packages sqlite,
// postgres and mysql. It also migrates, describes,
// verifies, exports and imports such databases.
package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"agenthost/internal/codec"
	"agenthost/internal/safe"
	"agenthost/pkg/store"
	"agenthost/pkg/store/memstore"
	"agenthost/pkg/store/sqlstore/internal/engine"
)

// Open opens a database by URL: sqlite:///relative.db or sqlite:////absolute.db,
// postgres://user:password@host/database or mysql://user:password@host/database. A
// missing database file is created, an older schema is migrated, and a schema newer
// than this program is rejected; [Options.Access] allows less. Unknown schemes and
// parameters are errors. No error contains a password.
func (all Engines) Open(ctx context.Context, url string, opts *Options) (*Database, error) {
	e, rest, err := all.findEngine(url)
	if err != nil {
		return nil, err
	}
	o := opts.withDefaults()
	if o.Access != store.AccessMigrate {
		if o.schema, err = all.checkDatabase(ctx, url, o); err != nil {
			return nil, err
		}
	}
	if e.Kind == engine.SQLite {
		return openSQLiteURL(ctx, e, rest, o)
	}
	return openServerURL(ctx, e, rest, o)
}

// OpenMemories opens a database of its own for memories.
func (all Engines) OpenMemories(ctx context.Context, url string, opts *Options) (store.MemoryBackend, error) {
	d, err := all.Open(ctx, url, opts)
	if err != nil {
		return nil, err
	}
	return sqlMemories{d, d.Close}, nil
}

// openPlainStore opens a database and a store over it, with artifacts in memory.
func (all Engines) openPlainStore(ctx context.Context, url string, o *Options) (*store.Store, *Database, error) {
	d, err := all.Open(ctx, url, o)
	if err != nil {
		return nil, nil, fmt.Errorf("opening store %q: %w", store.Redacted(url), err)
	}
	b := d.Backends()
	b.Artifacts = memstore.NewArtifacts()
	o = o.withDefaults()
	return store.New(b, &store.Options{Owner: d.owner, Clock: o.Clock, Logger: o.Logger}), d, nil
}

// pools are the connections of the readers and those of the writers.
type pools struct{ readers, writers *gorm.DB }

// newSQLBackend creates a backend from two pools on the same database, migrates
// the schema and starts the writers. It owns the pools and the breaker. Without a pool for
// writers the database is only read.
func newSQLBackend(ctx context.Context, p pools, k *breaker, d dialect, o *Options) (b *Database, err error) {
	b = &Database{dialect: d, readers: p.readers, owner: o.Owner, readLimit: &readLimit{}, lag: &lagWatch{logger: o.Logger}, breaker: k, provenance: "provenance", activeTime: "s.active_time", outcome: outcomeExpr}
	b.closing = sync.OnceValue(b.closeAll)
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	b.writers = []*writer{{dialect: d, logger: o.Logger, readOnly: true, group: &writerGroup{breaker: k}, ctx: context.Background()}}
	if b.reads, err = p.readers.DB(); err != nil {
		return b, errors.Join(err, closePool(p.writers))
	}
	if p.writers != nil {
		err = b.openWriters(ctx, p.writers, o)
	} else {
		// Replace columns that an older schema does not have.
		if o.schema < provenanceVersion {
			b.provenance = "NULL"
		}
		if o.schema < ageVersion {
			b.activeTime = "s.create_time"
		}
		if o.schema < outcomeVersion {
			b.outcome = "NULL"
		}
		b.noResults = o.schema < resultVersion
		b.noRollouts, b.noOutcomeDays, b.noCases = o.schema < rolloutVersion, o.schema < outcomeDayVersion, o.schema < caseVersion
	}
	if err != nil {
		return b, err
	}
	if b.head, err = d.prepareStatement(ctx, b.reads, d.hintRead(fmt.Sprintf(headSQL, b.outcome))); err != nil {
		return b, err
	}
	if d.server != nil && d.server.headsSQL != "" {
		b.headReader = &headReader{maxReads: max(1, d.writerCount), logger: o.Logger, breaker: k, read: b.queryHeads}
	}
	b.events, err = d.prepareStatement(ctx, b.reads, d.hintRead(fmt.Sprintf(eventsSQL, b.provenance)))
	if err == nil && p.writers != nil {
		b.leases, err = d.prepareStatement(ctx, b.reads, d.hintRead(d.insertClock(findLeaseSQL, 3)))
	}
	return b, err
}

// openWriters migrates the schema and starts the writers.
func (b *Database) openWriters(ctx context.Context, writers *gorm.DB, o *Options) (err error) {
	if b.writes, err = writers.DB(); err != nil {
		return err
	}
	n := max(1, b.dialect.writerCount)
	b.writes.SetMaxOpenConns(n)
	b.writes.SetMaxIdleConns(n)
	all := &writerGroup{closeIdleReaders: b.closeIdleReaders, breaker: b.breaker}
	for range n {
		all.writers = append(all.writers, &writer{pool: b.writes, db: writers, dialect: b.dialect, logger: o.Logger, group: all, ctx: context.Background()})
	}
	b.writers = all.writers
	return b.breaker.runLong(ctx, func(ctx context.Context) error { return b.openFirst(ctx, o) })
}

// openFirst opens the connection of the first writer and migrates the schema.
func (b *Database) openFirst(ctx context.Context, o *Options) (err error) {
	w := b.writers[0]
	w.ctx = ctx
	defer w.setContext(context.Background())
	if err := w.openConn(ctx); err != nil {
		return fmt.Errorf("opening database: %w", err)
	}
	for attempt := range migrateAttempts {
		if attempt > 0 && sleepContext(ctx, migratePause) != nil {
			return err
		}
		if err = migrateLocked(ctx, w.conn, w.orm, b.dialect, o); !b.dialect.isOvertaken(err) {
			break
		}
	}
	if err != nil {
		return err
	}
	return w.prepareStatements(ctx)
}

// The lock of a Galera cluster's node excludes no program on another node. A migration that another one overtakes is
// repeated: each step leaves what is already there.
const (
	migrateAttempts = 50
	migratePause    = 100 * time.Millisecond
)

// isOvertaken reports whether a migration failed because another program migrates the same database. A schema lock that
// ends with its transaction excludes all others.
func (d dialect) isOvertaken(err error) bool {
	return d.server != nil && d.server.unlockSQL != "" && (d.hasFault(err, engine.Overtaken) || d.hasFault(err, engine.Aborted) || d.hasFault(err, engine.Conflict))
}

// openServerURL opens the database of a URL such as postgres://user@host/database.
func openServerURL(ctx context.Context, e *Engine, rest string, o *Options) (*Database, error) {
	u, err := parseServer(rest, e.Server)
	if err != nil {
		return nil, err
	}
	connect, err := e.Server.Prepare(&u.URL, engine.Settings{
		ReadOnly: o.Access == store.AccessRead, Tables: append(tableNames(), migrationRow{}.TableName()), Logger: o.Logger,
	})
	if err != nil {
		return nil, err
	}
	return retryOpen(ctx, newServerDialect(e, u.writerCount(), ""), func() (*Database, error) {
		pools, err := connect(ctx)
		if err != nil {
			return nil, err
		}
		return newServerBackend(ctx, newServerDialect(e, u.writerCount(), pools.Collation), u, pools.Open, o)
	})
}

// newServerDialect returns the dialect of a server. The collation is that of the tables of
// MySQL.
func newServerDialect(e *Engine, writers int, collation string) dialect {
	if e.Kind == engine.MySQL {
		return mysqlDialect(e.Classify, writers, collation)
	}
	return postgresDialect(e.Classify, writers)
}

// newServerBackend creates a backend on a server, with one pool for reads and
// one for writes.
func newServerBackend(ctx context.Context, d dialect, u *serverURL, pool func() (*gorm.DB, error), o *Options) (*Database, error) {
	var writers *gorm.DB
	if o.Access != store.AccessRead {
		var err error
		if writers, err = pool(); err != nil {
			return nil, err
		}
	}
	readers, err := pool()
	if err != nil {
		return nil, errors.Join(err, closePool(writers))
	}
	probes, err := pool()
	if err != nil {
		return nil, errors.Join(err, closePool(writers), closePool(readers))
	}
	k := newBreaker(d, u.timeout, u.conns, o.Logger)
	k.setProbes(probes, readers)
	b, err := newSQLBackend(ctx, pools{readers, writers}, k, d, o)
	if err != nil {
		return nil, err
	}
	// A database server has no place for artifacts.
	b.artifactFolder = filepath.Join("data", codec.EscapeFileName(u.Name, "")+".artifacts")
	b.setReaderLimit(u.size - u.writerCount())
	b.reads.SetConnMaxIdleTime(maxReaderIdle)
	return b, nil
}

func migrateLocked(ctx context.Context, conn *sql.Conn, orm *gorm.DB, d dialect, o *Options) error {
	if _, err := conn.ExecContext(ctx, d.begin); err != nil {
		return fmt.Errorf("locking database: %w", err)
	}
	end, from := "COMMIT", int64(0)
	err := d.lockSchema(ctx, conn)
	if err == nil {
		from, err = migrateSchema(orm, d, o)
	}
	if err != nil {
		end = "ROLLBACK"
	}
	_, endErr := conn.ExecContext(ctx, end)
	err = errors.Join(err, endErr, d.unlockSchema(ctx, conn))
	if err == nil && isMigrated(from) {
		o.Logger.Warn("migrated the database schema", "from", from, "to", newestVersion())
	}
	return err
}

// lockSchema waits until no other program changes the schema. It does nothing
// if begin locks the whole database.
func (d dialect) lockSchema(ctx context.Context, conn *sql.Conn) error {
	if d.server == nil {
		return nil
	}
	var got int
	if err := conn.QueryRowContext(ctx, d.server.lockSQL).Scan(&got); err != nil {
		return fmt.Errorf("locking schema: %w", err)
	}
	if got != 1 {
		return errors.New("locking schema: timeout: another program is changing it, retry later")
	}
	return nil
}

func (d dialect) unlockSchema(ctx context.Context, conn *sql.Conn) error {
	if d.server == nil || d.server.unlockSQL == "" {
		return nil
	}
	_, err := conn.ExecContext(ctx, d.server.unlockSQL)
	return err
}

// Backends returns the backends of a store, without artifacts. They share the
// database, and closing the sessions closes it.
func (b *Database) Backends() *store.Backends {
	return &store.Backends{Sessions: b, Memories: sqlMemories{b, nil}, Revisions: sqlRevisions{b}, Results: sqlResults{b}, Outcomes: sqlOutcomes{b}, Rollouts: sqlRollouts{b}, Grants: sqlGrants{b}}
}

// ArtifactFolder returns the default folder of artifacts: next to a database file, or
// in data/ for a server.
func (b *Database) ArtifactFolder() string { return b.artifactFolder }

// CountWrites returns the counters of [store.Stats].
func (b *Database) CountWrites() (writes, transactions, queued int64) {
	for _, w := range b.writers {
		writes += w.jobs.Load()
		transactions += w.batches.Load()
		queued += w.queueLength()
	}
	return writes, transactions, queued
}

// Ping writes what a turn writes (a session, an event and a state key, without
// app and user) and deletes them in the same transaction. If the connection of a
// writer does not answer, the others try too, because requests succeed if one of
// them does. It returns as soon as requests fail because the database does not
// answer.
func (b *Database) Ping(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // withdraws what is in the queue of a writer
	opened, done := b.breaker.openChannel(), make(chan error, len(b.writers))
	ping := func(i int) {
		go func() {
			defer safe.Recover(func(p *safe.Panic) { done <- p })
			// Each writer has a row: a connection that does not answer may have locked its own.
			done <- b.writers[i].runWrite(ctx, func(w *writer) error {
				if err := w.writeProbe(fmt.Sprintf("%s/%d", b.owner, i)); err != nil {
					return fmt.Errorf("writing a probe: %w", err)
				}
				return nil
			})
		}()
	}
	ping(0)
	others := time.NewTimer(suspectAfter)
	defer others.Stop()
	for pending := 1; pending > 0; {
		select {
		case err = <-done:
			if err == nil || b.dialect.isAnswer(err) {
				return err
			}
			pending--
		case <-others.C:
			for i := 1; i < len(b.writers); i++ {
				ping(i)
				pending++
			}
		case <-opened:
			return errSilent
		}
	}
	return err
}

func (w *writer) writeProbe(name string) error {
	row := sessionRow{Session: name, Initial: "{}"}
	if err := w.orm.Create(&row).Error; err != nil {
		return err
	}
	state := stateRow{Session: name, Key: "probe", Value: "1"}
	for _, of := range []any{&eventRow{SessionID: row.ID, Seq: 1, ID: "probe", Event: "{}"}, &state} {
		if err := w.orm.Omit(clause.Associations).Create(of).Error; err != nil {
			return err
		}
	}
	// The events go with their session.
	if err := w.orm.Where("pk = ?", row.ID).Delete(&sessionRow{}).Error; err != nil {
		return err
	}
	return w.orm.Where("app_name = '' AND user_id = '' AND session_id = ?", name).Delete(&stateRow{}).Error
}

// closeLimit is how long a connection may take to close.
const closeLimit = 2 * time.Second

// Close waits for the writers and closes the connections.
func (b *Database) Close() error { return b.closing() }

func (b *Database) closeAll() error {
	var errs []error
	for _, w := range b.writers {
		errs = append(errs, w.close())
	}
	// A server that hangs does not answer the end of a connection either.
	late := time.AfterFunc(closeLimit, func() {
		defer safe.Recover(b.breaker.logPanic)
		b.breaker.conns.cutAll()
	})
	defer late.Stop()
	errs = append(errs, b.breaker.stopProber())
	for _, stmt := range []*statement{b.head, b.events, b.leases} {
		errs = append(errs, stmt.Close())
	}
	if b.reads != nil {
		errs = append(errs, b.reads.Close())
	}
	for _, w := range b.writers {
		errs = append(errs, w.closeConn())
	}
	if b.writes != nil {
		errs = append(errs, b.writes.Close())
	}
	errs = append(errs, b.liveness.close())
	// All writes are acknowledged, so errors of connections to a server do not matter any more.
	errs = slices.DeleteFunc(errs, func(err error) bool {
		return err == nil || b.dialect.server != nil && !errors.Is(err, store.ErrClosed)
	})
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("closing database: %w", err)
	}
	return nil
}
