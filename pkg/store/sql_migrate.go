package store

import (
	"fmt"
	"time"

	"gorm.io/gorm"
)

// A migration takes the schema one version forward. Once released it never
// changes; its row types stay as they were.
type migration struct {
	version int64
	name    string
	up      func(db *gorm.DB, d dialect) error
}

// migrations are all versions of the schema in order.
func migrations() []migration {
	return []migration{
		{1, "sessions, events, states", createTables},
		{2, "memories", createMemoryTables},
		{3, "leases of sessions", addLeases},
		{4, "sessions in the order of their creation", addOrderIndexes},
		{5, "revisions of apps", createRevisionTable},
		{6, "provenance of events", addProvenance},
	}
}

// migrateSchema brings the schema to this program's version. The caller has opened a
// transaction that no other program can be in at the same time.
func migrateSchema(db *gorm.DB, d dialect, o *Options) error {
	if err := createMigrationTable(db, d); err != nil {
		return err
	}
	var at int64
	if err := db.Model(&migrationRow{}).Select("coalesce(max(version), 0)").Scan(&at).Error; err != nil {
		return fmt.Errorf("reading the schema version: %w", err)
	}
	all := migrations()
	if newest := all[len(all)-1].version; at > newest {
		return errNewerSchema(at, newest)
	}
	for _, m := range all {
		if m.version <= at {
			continue
		}
		if err := m.apply(db, d, o.Clock()); err != nil {
			return fmt.Errorf("migration %d (%s): %w", m.version, m.name, err)
		}
		o.Logger.Info("database schema brought forward", "version", m.version, "name", m.name)
		o.migrated(Step{m.version, m.name})
	}
	return nil
}

// createMigrationTable makes the table of migrations in a database that has none of
// another program's tables.
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

func errNewerSchema(at, newest int64) error {
	return fmt.Errorf("the database has schema version %d, this program knows versions up to %d: use a newer agenthost or another database", at, newest)
}

func (m migration) apply(db *gorm.DB, d dialect, now time.Time) error {
	if err := m.up(db, d); err != nil {
		return err
	}
	return db.Create(&migrationRow{Version: m.version, Name: m.name, Applied: now.UnixMicro()}).Error
}

func createTables(db *gorm.DB, d dialect) error {
	for _, row := range []table{&sessionRow{}, &eventRow{}, &stateRow{}} {
		if err := createTable(db, d, row); err != nil {
			return err
		}
	}
	return nil
}

// tableNames are the tables of sessions, memories and revisions; beside them
// there is that of migrations.
func tableNames() []string {
	var all []string
	for _, row := range []table{sessionRow{}, eventRow{}, stateRow{}, memoryOwnerRow{}, memoryRow{}, memoryTermRow{}, revisionRow{}} {
		all = append(all, row.TableName())
	}
	return all
}

// A table is a row type that knows its table's name.
type table interface{ TableName() string }

// createTable makes a table. Where a table is a transaction by itself, it may be
// there already; one with other columns is somebody else's.
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
			return false, errForeign([]string{row.TableName()})
		}
	}
	return true, nil
}

// addOrderIndexes adds the indexes that a page of sessions is read from.
func addOrderIndexes(db *gorm.DB, _ dialect) error {
	for _, index := range []struct{ name, columns string }{
		{"sessions_of_app", "app_name, pk"},
		{"sessions_of_user", "app_name, user_id, pk"},
	} {
		if db.Migrator().HasIndex(&sessionRow{}, index.name) {
			continue // was cut off here, where a change is a transaction by itself
		}
		if err := db.Exec("CREATE INDEX " + index.name + " ON sessions (" + index.columns + ")").Error; err != nil {
			return fmt.Errorf("making the index %s: %w", index.name, err)
		}
	}
	return nil
}
