package sqlstore

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"agenthost/pkg/session"
	"agenthost/pkg/store/backend"
)

// The tables. Ids compare byte by byte: a dialect with another default sets
// column types or table options accordingly. Times are
// microseconds since the epoch.

// sessionRow is a session. Its version and last update are its last event's.
type sessionRow struct {
	ID      int64  `gorm:"column:pk;primaryKey;autoIncrement"`
	App     string `gorm:"column:app_name;size:128;not null;uniqueIndex:sessions_key,priority:1"`
	User    string `gorm:"column:user_id;size:255;not null;uniqueIndex:sessions_key,priority:2"`
	Session string `gorm:"column:id;size:128;not null;uniqueIndex:sessions_key,priority:3"`
	Created int64  `gorm:"column:create_time;not null"`
	// Initial is the session's own state at its creation, as a JSON object.
	Initial string `gorm:"column:initial;type:text;not null"`
}

// TableName is for GORM.
func (sessionRow) TableName() string { return "sessions" }

// eventRow is one event, ordered by Seq. The time is only for filters and has
// no index: it grows with Seq unless the clock was set back.
type eventRow struct {
	SessionID  int64      `gorm:"column:session_pk;primaryKey;autoIncrement:false;not null;uniqueIndex:events_id,priority:1"`
	Seq        int64      `gorm:"column:seq;primaryKey;autoIncrement:false;not null"`
	ID         string     `gorm:"column:id;size:128;not null;uniqueIndex:events_id,priority:2"`
	Invocation string     `gorm:"column:invocation_id;size:128;not null"`
	Time       int64      `gorm:"column:timestamp;not null"`
	Event      string     `gorm:"column:event;type:text;not null"`
	Session    sessionRow `gorm:"foreignKey:SessionID;references:ID;constraint:OnDelete:CASCADE"`
}

// TableName is for GORM.
func (eventRow) TableName() string { return "events" }

// stateRow is one state key. Without a session it belongs to the user, without
// a user to the app; the key has no prefix.
type stateRow struct {
	App     string `gorm:"column:app_name;size:128;primaryKey"`
	User    string `gorm:"column:user_id;size:255;primaryKey"`
	Session string `gorm:"column:session_id;size:128;primaryKey"`
	Key     string `gorm:"column:key;size:255;primaryKey"`
	Value   string `gorm:"column:value;type:text;not null"`
}

// TableName is for GORM.
func (stateRow) TableName() string { return "states" }

// migrationRow is an applied migration.
type migrationRow struct {
	Version int64  `gorm:"column:version;primaryKey;autoIncrement:false"`
	Name    string `gorm:"column:name;size:128;not null"`
	Applied int64  `gorm:"column:apply_time;not null"`
}

// TableName is for GORM.
func (migrationRow) TableName() string { return "schema_migrations" }

func microsToTime(t int64) time.Time { return time.UnixMicro(t).UTC() }

// leaseColumns are the columns that schema version 3 added to sessions. A session that was never
// leased has the epoch 0. Until is in microseconds since the Unix epoch.
type leaseColumns struct {
	Owner string `gorm:"column:lease_owner;size:128;not null;default:''"`
	Epoch int64  `gorm:"column:lease_epoch;not null;default:0"`
	Until int64  `gorm:"column:lease_until;not null;default:0"`
}

// TableName is for GORM.
func (leaseColumns) TableName() string { return "sessions" }

// The memory tables. Search terms are rows computed by this package instead of the engine's
// full-text index, so that every engine returns the same results in the same order.

// memoryOwnerRow is an app's user with memories.
type memoryOwnerRow struct {
	ID   int64  `gorm:"column:pk;primaryKey;autoIncrement"`
	App  string `gorm:"column:app_name;size:128;not null;uniqueIndex:memory_owners_key,priority:1"`
	User string `gorm:"column:user_id;size:255;not null;uniqueIndex:memory_owners_key,priority:2"`
}

// TableName is for GORM.
func (memoryOwnerRow) TableName() string { return "memory_owners" }

// memoryRow is one memory. Its session may be deleted, or empty.
type memoryRow struct {
	PK      int64  `gorm:"column:pk;primaryKey;autoIncrement"`
	Owner   int64  `gorm:"column:owner_pk;not null;uniqueIndex:memories_key,priority:1"`
	Session string `gorm:"column:session_id;size:128;not null;uniqueIndex:memories_key,priority:2"`
	ID      string `gorm:"column:id;size:128;not null;uniqueIndex:memories_key,priority:3"`
	Time    int64  `gorm:"column:timestamp;not null"`
	Memory  string `gorm:"column:memory;type:text;not null"`
}

// TableName is for GORM.
func (memoryRow) TableName() string { return "memories" }

// memoryTermRow is a memory's search term.
type memoryTermRow struct {
	Owner  int64  `gorm:"column:owner_pk;primaryKey;autoIncrement:false"`
	Term   string `gorm:"column:term;size:64;primaryKey"`
	Memory int64  `gorm:"column:memory_pk;primaryKey;autoIncrement:false;index:memory_terms_memory"`
}

// TableName is for GORM.
func (memoryTermRow) TableName() string { return "memory_terms" }

// revisionRow is an app's revision; its files are one archive.
type revisionRow struct {
	App    string `gorm:"column:app_name;size:128;primaryKey"`
	ID     string `gorm:"column:id;size:128;primaryKey"`
	Served int64  `gorm:"column:serve_time;not null"`
	Files  []byte `gorm:"column:files;not null"`
}

// TableName is for GORM.
func (revisionRow) TableName() string { return "revisions" }

// resultRow is the compressed evaluation result.
type resultRow struct {
	App      string `gorm:"column:app_name;size:128;primaryKey"`
	ID       string `gorm:"column:id;size:255;primaryKey"`
	SetID    string `gorm:"column:set_id;size:255;not null"`
	Revision string `gorm:"column:revision;size:255;not null"`
	Model    string `gorm:"column:model;size:255;not null"`
	Stored   int64  `gorm:"column:store_time;not null"`
	Content  []byte `gorm:"column:content;not null"`
}

// TableName is for GORM.
func (resultRow) TableName() string { return "eval_results" }

// caseColumns are the columns that schema version 13 added to evaluation results. They are 0 in rows written by
// an older agenthost.
type caseColumns struct {
	Cases  int64 `gorm:"column:cases;not null;default:0"`
	Passed int64 `gorm:"column:passed;not null;default:0"`
}

// TableName is for GORM.
func (caseColumns) TableName() string { return "eval_results" }

// fullResultRow is a result row with the columns from all schema versions.
type fullResultRow struct {
	Row    resultRow `gorm:"embedded"`
	Cases  int64     `gorm:"column:cases"`
	Passed int64     `gorm:"column:passed"`
}

// TableName is for GORM.
func (fullResultRow) TableName() string { return "eval_results" }

// grantRow is a user's tokens for a connection, or a request for them.
type grantRow struct {
	ID         string `gorm:"column:id;size:64;primaryKey"`
	App        string `gorm:"column:app_name;size:128;not null"`
	User       string `gorm:"column:user_id;size:255;not null"`
	Connection string `gorm:"column:connection;size:255;not null"`
	Version    int64  `gorm:"column:version;not null"`
	BusyUntil  int64  `gorm:"column:busy_until;not null"`
	Expires    int64  `gorm:"column:expire_time;not null;index:grants_expire"`
	Sealed     []byte `gorm:"column:sealed;not null"`
}

// TableName is for GORM.
func (grantRow) TableName() string { return "credential_grants" }

// provenanceColumn is the column that schema version 6 added to events:
// [session.Provenance.Append]'s output, or null in rows written by an older agenthost.
type provenanceColumn struct {
	Provenance *string `gorm:"column:provenance;type:text"`
}

// TableName is for GORM.
func (provenanceColumn) TableName() string { return "events" }

// fullEventRow is an event row with the columns from all schema versions.
type fullEventRow struct {
	SessionID  int64   `gorm:"column:session_pk;primaryKey;autoIncrement:false"`
	Seq        int64   `gorm:"column:seq;primaryKey;autoIncrement:false"`
	ID         string  `gorm:"column:id"`
	Invocation string  `gorm:"column:invocation_id"`
	Time       int64   `gorm:"column:timestamp"`
	Event      string  `gorm:"column:event"`
	Provenance *string `gorm:"column:provenance"`
	Outcome    *string `gorm:"column:outcome"`
}

// TableName is for GORM.
func (fullEventRow) TableName() string { return "events" }

// provenance returns decodeEvent's argument.
func (r *fullEventRow) provenance() []byte {
	if r.Provenance == nil {
		return nil
	}
	return []byte(*r.Provenance)
}

// ageColumn is the column that schema version 9 added to sessions: a time at which the session was
// certainly active, see [store.RetentionRows]. It is 0 in rows written by an older agenthost.
type ageColumn struct {
	Active int64 `gorm:"column:active_time;not null;default:0"`
}

// TableName is for GORM.
func (ageColumn) TableName() string { return "sessions" }

// agedSessionRow is a new session.
type agedSessionRow struct {
	Row    sessionRow `gorm:"embedded"`
	Active int64      `gorm:"column:active_time"`
}

// TableName is for GORM.
func (agedSessionRow) TableName() string { return "sessions" }

// sweepRow is the store that deletes an app's expired sessions until a time.
type sweepRow struct {
	App   string `gorm:"column:app_name;size:128;primaryKey"`
	Owner string `gorm:"column:owner;size:128;not null"`
	Until int64  `gorm:"column:until_time;not null"`
}

// TableName is for GORM.
func (sweepRow) TableName() string { return "retention_sweeps" }

// outcomeColumn is the column that schema version 10 added to events: the session's outcome up to the
// event, see [session.Outcome]. It is null in rows written by an older agenthost.
type outcomeColumn struct {
	Outcome *string `gorm:"column:outcome;type:text"`
}

// TableName is for GORM.
func (outcomeColumn) TableName() string { return "events" }

// outcomeExpr is the expression for it in a last event.
const outcomeExpr = "h.outcome"

// feedbackRow is a caller's feedback on an invocation. It is deleted with its session.
type feedbackRow struct {
	SessionID  int64      `gorm:"column:session_pk;primaryKey;autoIncrement:false;not null"`
	Invocation string     `gorm:"column:invocation_id;size:128;primaryKey"`
	Caller     string     `gorm:"column:caller;size:255;primaryKey"`
	Revision   string     `gorm:"column:revision;size:255;not null"`
	Score      int64      `gorm:"column:score;not null"` // in millionths
	Comment    string     `gorm:"column:comment;type:text;not null"`
	Time       int64      `gorm:"column:store_time;not null"`
	Session    sessionRow `gorm:"foreignKey:SessionID;references:ID;constraint:OnDelete:CASCADE"`
}

// TableName is for GORM.
func (feedbackRow) TableName() string { return "session_feedback" }

// rolloutRow is an app's rollout, and the id of the call that stored it.
type rolloutRow struct {
	App     string `gorm:"column:app_name;size:128;primaryKey"`
	Version int64  `gorm:"column:version;not null"`
	Data    []byte `gorm:"column:data;not null"`
	Changed int64  `gorm:"column:change_time;not null"`
	SaveID  string `gorm:"column:save_id;size:255;not null"`
}

// TableName is for GORM.
func (rolloutRow) TableName() string { return "rollouts" }

// outcomeDayRow has the outcomes of an app's deleted sessions on a day; see [store.OutcomeDay].
type outcomeDayRow struct {
	App    string `gorm:"column:app_name;size:128;primaryKey"`
	Day    int64  `gorm:"column:day;primaryKey;autoIncrement:false"`
	Totals string `gorm:"column:totals;type:text;not null"`
}

// TableName is for GORM.
func (outcomeDayRow) TableName() string { return "outcome_days" }

// addAges adds the index by which retention finds old sessions. It does not fill the column, which
// would rewrite every session in one transaction: an app's first pruning examines the sessions
// whose time is 0, page by page.
func addAges(db *gorm.DB) error {
	if !db.Migrator().HasColumn(&ageColumn{}, "Active") { // else an interrupted migration has added it
		if err := db.Migrator().AddColumn(&ageColumn{}, "Active"); err != nil {
			return fmt.Errorf("adding column active_time: %w", err)
		}
	}
	return addSessionIndex(db, "sessions_by_age", "app_name, active_time, pk")
}

// addOutcomes adds a column that is null in rows written by an older agenthost, which no engine has to
// rewrite.
func addOutcomes(db *gorm.DB) error {
	if db.Migrator().HasColumn(&outcomeColumn{}, "Outcome") {
		return nil // an interrupted migration has added it
	}
	if err := db.Migrator().AddColumn(&outcomeColumn{}, "Outcome"); err != nil {
		return fmt.Errorf("adding column outcome: %w", err)
	}
	return nil
}

func addCases(db *gorm.DB) error {
	for _, field := range []string{"Cases", "Passed"} {
		if db.Migrator().HasColumn(&caseColumns{}, field) {
			continue // an interrupted migration has added it
		}
		if err := db.Migrator().AddColumn(&caseColumns{}, field); err != nil {
			return fmt.Errorf("adding column %s: %w", strings.ToLower(field), err)
		}
	}
	return nil
}

func addProvenance(db *gorm.DB) error {
	if db.Migrator().HasColumn(&provenanceColumn{}, "Provenance") {
		return nil // an interrupted migration has added it
	}
	if err := db.Migrator().AddColumn(&provenanceColumn{}, "Provenance"); err != nil {
		return fmt.Errorf("adding column provenance: %w", err)
	}
	return nil
}

// decodeEvent decodes an event and its provenance, which is empty in rows
// written by an older version.
func decodeEvent(text []byte, seq int64, provenance []byte) (*session.Event, error) {
	ev := &session.Event{}
	err := ev.UnmarshalJSON(text)
	legacy := len(provenance) == 0
	if err == nil && !legacy {
		ev.Provenance, err = session.DecodeProvenance(provenance)
	}
	if err != nil {
		return nil, backend.NewDamagedError(err, "event %d", seq)
	}
	if legacy {
		ev.MoveLegacyProvenance()
	}
	ev.Seq = seq
	return ev, nil
}

// A migration upgrades the schema by one version. Once released, a migration
// and its row types never change.
type migration struct {
	version int64
	name    string
	// tables are created by the migration.
	tables []table
	// up changes existing tables; nil changes none.
	up func(db *gorm.DB) error
	// read reports that commands that only read need what the migration adds. An older version's
	// rows can be read without the others.
	read bool
}

// migrations returns all schema versions in order.
func migrations() []migration {
	return []migration{
		{version: 1, name: "sessions, events, states", tables: []table{&sessionRow{}, &eventRow{}, &stateRow{}}, read: true},
		{version: 2, name: "memories", tables: []table{&memoryOwnerRow{}, &memoryRow{}, &memoryTermRow{}}, read: true},
		{version: 3, name: "leases of sessions", up: addLeases},
		{version: 4, name: "sessions in the order of their creation", up: addOrderIndexes},
		{version: 5, name: "revisions of apps", tables: []table{&revisionRow{}}, read: true},
		{version: provenanceVersion, name: "provenance of events", up: addProvenance},
		{version: resultVersion, name: "results of evaluations", tables: []table{&resultRow{}}},
		{version: 8, name: "grants of users", tables: []table{&grantRow{}}},
		{version: ageVersion, name: "sessions by age", tables: []table{&sweepRow{}}, up: addAges},
		{version: outcomeVersion, name: "outcomes of sessions", tables: []table{&feedbackRow{}}, up: addOutcomes},
		{version: rolloutVersion, name: "rollouts of apps", tables: []table{&rolloutRow{}}},
		{version: outcomeDayVersion, name: "outcomes of deleted sessions", tables: []table{&outcomeDayRow{}}},
		{version: caseVersion, name: "cases of evaluation results", up: addCases},
	}
}

// The schema versions that added columns and tables which programs read, if they are there: event
// provenance, evaluation results, sessions' active time, outcomes, rollouts, outcomes of deleted sessions,
// and cases of evaluation results.
const (
	provenanceVersion = 6
	resultVersion     = 7
	ageVersion        = 9
	outcomeVersion    = 10
	rolloutVersion    = 11
	outcomeDayVersion = 12
	caseVersion       = 13
)

// newestVersion returns this program's schema version.
func newestVersion() int64 {
	all := migrations()
	return all[len(all)-1].version
}

// oldestReadable returns the oldest schema version that commands can read
// without migrating it.
func oldestReadable() (version int64) {
	for _, m := range migrations() {
		if m.read {
			version = m.version
		}
	}
	return version
}

// migrateSchema upgrades the schema to this program's version, and returns the
// version that it had, 0 in an empty database. The caller has opened a
// transaction that excludes other programs.
func migrateSchema(db *gorm.DB, d dialect, o *Options) (from int64, err error) {
	if err := createMigrationTable(db, d); err != nil {
		return 0, err
	}
	if err := db.Model(&migrationRow{}).Select("coalesce(max(version), 0)").Scan(&from).Error; err != nil {
		return 0, fmt.Errorf("reading the schema version: %w", err)
	}
	if err := checkVersion(o.Access, from); err != nil {
		return from, err
	}
	if isMigrated(from) {
		o.Logger.Warn("migrating the database schema: older versions of agenthost cannot start on it afterwards", "from", from, "to", newestVersion())
	}
	for _, m := range migrations() {
		if m.version <= from {
			continue
		}
		if err := m.apply(db, d, o.Clock()); err != nil {
			return from, fmt.Errorf("migration %d (%s): %w", m.version, m.name, err)
		}
		o.Logger.Info("applied schema migration", "version", m.version, "name", m.name)
		o.migrated(Step{m.version, m.name})
	}
	return from, nil
}

// isMigrated reports whether opening a database changes an older schema, as
// opposed to creating one.
func isMigrated(from int64) bool { return from > 0 && from < newestVersion() }

// createMigrationTable creates the migration table unless the database contains another program's
// tables.
func createMigrationTable(db *gorm.DB, d dialect) error {
	there, err := hasTable(db, &migrationRow{})
	if there || err != nil {
		return err
	}
	if err := checkForeignTables(func(name string) bool { return db.Migrator().HasTable(name) }); err != nil {
		return err
	}
	return createTable(db, d, &migrationRow{})
}

func (m migration) apply(db *gorm.DB, d dialect, now time.Time) error {
	for _, row := range m.tables {
		if err := createTable(db, d, row); err != nil {
			return err
		}
	}
	if m.up != nil {
		if err := m.up(db); err != nil {
			return err
		}
	}
	return db.Create(&migrationRow{Version: m.version, Name: m.name, Applied: now.UnixMicro()}).Error
}

// tableNames returns the tables from all schema versions, without the migration table.
func tableNames() []string { return tableNamesAt(newestVersion()) }

// tableNamesAt returns a schema version's tables, without the migration table.
func tableNamesAt(version int64) []string {
	var all []string
	for _, m := range migrations() {
		for _, row := range m.tables {
			if m.version <= version {
				all = append(all, row.TableName())
			}
		}
	}
	return all
}

// A table is a row type with a table name.
type table interface{ TableName() string }

// createTable creates a table. Where CREATE TABLE commits on its own, an
// interrupted migration may have created it; a table with other columns belongs
// to another program.
func createTable(db *gorm.DB, d dialect, row table) error {
	there, err := hasTable(db, row)
	if there || err != nil {
		return err
	}
	err = db.Set("gorm:table_options", d.tableOptions(row.TableName())).Migrator().CreateTable(row)
	if err != nil {
		return fmt.Errorf("creating table %s: %w", row.TableName(), err)
	}
	return nil
}

func hasTable(db *gorm.DB, row table) (bool, error) {
	m := db.Migrator()
	if !m.HasTable(row) {
		return false, nil
	}
	stmt := &gorm.Statement{DB: db}
	if err := stmt.Parse(row); err != nil {
		return false, err
	}
	for _, column := range stmt.Schema.DBNames {
		if !m.HasColumn(row, column) {
			// HasColumn is false, too, if the connection is lost.
			if err := db.Exec("SELECT 1").Error; err != nil {
				return false, fmt.Errorf("reading table %s: %w", row.TableName(), err)
			}
			return false, errForeign([]string{row.TableName()})
		}
	}
	return true, nil
}

// addOrderIndexes adds the indexes for session pages.
func addOrderIndexes(db *gorm.DB) error {
	for _, index := range []struct{ name, columns string }{
		{"sessions_of_app", "app_name, pk"},
		{"sessions_of_user", "app_name, user_id, pk"},
	} {
		if err := addSessionIndex(db, index.name, index.columns); err != nil {
			return err
		}
	}
	return nil
}

// addSessionIndex adds an index, unless an interrupted migration has added it.
func addSessionIndex(db *gorm.DB, name, columns string) error {
	if db.Migrator().HasIndex(&sessionRow{}, name) {
		return nil
	}
	if err := db.Exec("CREATE INDEX " + name + " ON sessions (" + columns + ")").Error; err != nil {
		return fmt.Errorf("creating index %s: %w", name, err)
	}
	return nil
}

func addLeases(db *gorm.DB) error {
	for _, field := range []string{"Owner", "Epoch", "Until"} {
		if db.Migrator().HasColumn(&leaseColumns{}, field) {
			continue // an interrupted migration has added it
		}
		if err := db.Migrator().AddColumn(&leaseColumns{}, field); err != nil {
			return fmt.Errorf("adding lease column %s: %w", strings.ToLower(field), err)
		}
	}
	return nil
}

// checkForeignTables rejects tables with our names but without a schema
// version, because they belong to another program. Tables with other names may
// share the database.
func checkForeignTables(there func(table string) bool) error {
	if taken := slices.DeleteFunc(tableNames(), func(name string) bool { return !there(name) }); len(taken) > 0 {
		return errForeign(taken)
	}
	return nil
}

// errForeign is the error for another program's database.
func errForeign(tables []string) error { return &foreignError{tables} }

// A foreignError names another program's tables.
type foreignError struct{ tables []string }

func (e *foreignError) Error() string {
	return fmt.Sprintf("the database holds the tables of another program (%s): use a database of its own, and agenthost db import to take over the sessions of an ADK", strings.Join(e.tables, ", "))
}
