package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
)

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

// errReadOnly is returned for a write to a database that was opened to be read.
var errReadOnly = errors.New("the database was opened only for reading")

// checkVersion rejects the schema versions that cannot be used with an access.
// Version 0 is an empty database.
func (a Access) checkVersion(at int64) error {
	newest := newestVersion()
	switch {
	case at > newest:
		return fmt.Errorf("database has schema version %d, this program supports versions up to %d: use a newer agenthost or another database", at, newest)
	case at == 0 && a == AccessRead:
		return emptyDatabase{}
	case a == AccessRead && at < oldestReadable():
		return errOlderSchema(at, fmt.Sprintf("commands that only read require %d or later", oldestReadable()))
	case a == AccessWrite && isMigrated(at):
		return errOlderSchema(at, fmt.Sprintf("this command requires %d", newest))
	}
	return nil
}

// errOlderSchema rejects an older schema, with the requirement that it does not
// meet.
func errOlderSchema(at int64, requirement string) error {
	return fmt.Errorf("database has schema version %d, and %s; hint: run agenthost db migrate, after which no older agenthost can start on the database", at, requirement)
}

// An emptyDatabase is the error for a database without tables of agenthost.
type emptyDatabase struct{}

func (emptyDatabase) Error() string { return "the database has no tables of agenthost" }

// Unwrap makes an empty database a missing one.
func (emptyDatabase) Unwrap() error { return fs.ErrNotExist }

// checkDatabase checks a database before it is opened, because opening a file to
// write may change it, and returns its schema version. A file that is missing is
// left to opening.
func (o *Options) checkDatabase(ctx context.Context, url string) (version int64, err error) {
	r, err := openReadOnly(ctx, url)
	if errors.Is(err, fs.ErrNotExist) && o.Access != AccessRead {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	at, err := r.readSchemaVersion(ctx)
	if err == nil {
		err = o.Access.checkVersion(at)
	}
	if err == nil && at == 0 && o.Existing {
		err = emptyDatabase{}
	}
	return at, errors.Join(err, r.Close())
}
