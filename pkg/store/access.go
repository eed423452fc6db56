package store

// An Access is what opening a database may change. Only programs that run apps,
// and db migrate, change the schema: after that, no older program can start on the
// database.
type Access int

const (
	// AccessMigrate creates a missing database and migrates an older schema.
	AccessMigrate Access = iota
	// AccessWrite creates a missing database and rejects one with an older schema.
	AccessWrite
	// AccessRead creates and changes nothing. It reads older schemas as far as their
	// rows can be read without a migration. A missing or empty database is
	// [fs.ErrNotExist].
	AccessRead
)
