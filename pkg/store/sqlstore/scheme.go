package sqlstore

import (
	"context"

	"agenthost/pkg/store"
	"agenthost/pkg/store/storeurl"
)

// Schemes returns the schemes of all engines: sqlite:, postgres: and mysql: with the driver
// names of SQLAlchemy, for example postgresql+asyncpg:.
func Schemes() []storeurl.Scheme {
	var all []storeurl.Scheme
	for _, s := range schemes() {
		all = append(all, storeurl.Scheme{Names: s.names, Form: s.form, Database: openDatabase, Memories: openMemories})
	}
	return all
}

// openDatabase is the Database of a [storeurl.Scheme].
func openDatabase(ctx context.Context, url string, o *storeurl.Options) (*store.Backends, string, error) {
	d, err := Open(ctx, url, databaseOptions(o))
	if err != nil {
		return nil, "", err
	}
	return d.Backends(), "dir:" + d.ArtifactFolder(), nil
}

// openMemories is the Memories of a [storeurl.Scheme].
func openMemories(ctx context.Context, url string, o *storeurl.Options) (store.MemoryBackend, error) {
	return OpenMemories(ctx, url, databaseOptions(o))
}

func databaseOptions(o *storeurl.Options) *Options {
	return &Options{Owner: o.Owner, Clock: o.Clock, Logger: o.Logger, Existing: o.Existing, Access: o.Access}
}
