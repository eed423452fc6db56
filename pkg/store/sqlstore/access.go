package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"agenthost/pkg/store"
)

// errReadOnly is returned for a write to a database that was opened to be read.
var errReadOnly = errors.New("the database was opened only for reading")

// checkVersion rejects the schema versions that cannot be used with an access.
// Version 0 is an empty database.
func checkVersion(a store.Access, at int64) error {
	newest := newestVersion()
	switch {
	case at > newest:
		return fmt.Errorf("database has schema version %d, this program supports versions up to %d: use a newer agenthost or another database", at, newest)
	case at == 0 && a == store.AccessRead:
		return emptyDatabase{}
	case a == store.AccessRead && at < oldestReadable():
		return errOlderSchema(at, fmt.Sprintf("commands that only read require %d or later", oldestReadable()))
	case a == store.AccessWrite && isMigrated(at):
		return errOlderSchema(at, fmt.Sprintf("this command requires %d", newest))
	}
	return nil
}

// errOlderSchema rejects an older schema, with the requirement that it does not
// meet.
func errOlderSchema(at int64, requirement string) error {
	return fmt.Errorf("database has schema version %d, and %s; hint: run agenthost db migrate, after which no older agenthost can start on the database", at, requirement)
}

// An emptyDatabase is the error for a database without agenthost tables.
type emptyDatabase struct{}

func (emptyDatabase) Error() string { return "the database has no tables of agenthost" }

// Unwrap makes an empty database a missing one.
func (emptyDatabase) Unwrap() error { return fs.ErrNotExist }

// checkDatabase checks a database before it is opened, because opening a file to
// write may change it, and returns its schema version. A file that is missing is
// left to opening.
func (all Engines) checkDatabase(ctx context.Context, url string, o *Options) (version int64, err error) {
	r, err := all.openReadOnly(ctx, url)
	if errors.Is(err, fs.ErrNotExist) && o.Access != store.AccessRead {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	at, err := r.readSchemaVersion(ctx)
	if err == nil {
		err = checkVersion(o.Access, at)
	}
	if err == nil && at == 0 && o.Existing {
		err = emptyDatabase{}
	}
	return at, errors.Join(err, r.Close())
}
