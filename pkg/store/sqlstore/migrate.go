package sqlstore

import (
	"fmt"
	"time"

	"gorm.io/gorm"
)

// A migration upgrades the schema by one version. Once released, a migration
// and its row types never change.
type migration struct {
	version int64
	name    string
	up      func(db *gorm.DB, d dialect) error
}

// migrations returns all schema versions in order.
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

// migrateSchema upgrades the schema to this program's version. The caller has
// opened a transaction that excludes other programs.
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
		o.Logger.Info("applied schema migration", "version", m.version, "name", m.name)
		o.migrated(Step{m.version, m.name})
	}
	return nil
}

// createMigrationTable creates the migration table unless the database contains
// tables of another program.
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
	return fmt.Errorf("database has schema version %d, this program supports versions up to %d: use a newer agenthost or another database", at, newest)
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

// tableNames returns the tables of sessions, memories and revisions, without
// the migration table.
func tableNames() []string {
	var all []string
	for _, row := range []table{sessionRow{}, eventRow{}, stateRow{}, memoryOwnerRow{}, memoryRow{}, memoryTermRow{}, revisionRow{}} {
		all = append(all, row.TableName())
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
			return false, errForeign([]string{row.TableName()})
		}
	}
	return true, nil
}

// addOrderIndexes adds the indexes for pages of sessions.
func addOrderIndexes(db *gorm.DB, _ dialect) error {
	for _, index := range []struct{ name, columns string }{
		{"sessions_of_app", "app_name, pk"},
		{"sessions_of_user", "app_name, user_id, pk"},
	} {
		if db.Migrator().HasIndex(&sessionRow{}, index.name) {
			continue // an interrupted migration has added it
		}
		if err := db.Exec("CREATE INDEX " + index.name + " ON sessions (" + index.columns + ")").Error; err != nil {
			return fmt.Errorf("creating index %s: %w", index.name, err)
		}
	}
	return nil
}
