package sqlstore

import (
	"context"

	"agenthost/pkg/store"
	"agenthost/pkg/store/storeurl"
)

// Schemes returns the engines' schemes for [storeurl.Options].
func (all Engines) Schemes() []storeurl.Scheme {
	var schemes []storeurl.Scheme
	for _, e := range all {
		schemes = append(schemes, storeurl.Scheme{Names: e.Names, Form: e.Form, Database: all.openDatabase, Memories: all.openMemories})
	}
	return schemes
}

// openDatabase is a [storeurl.Scheme]'s Database.
func (all Engines) openDatabase(ctx context.Context, url string, o *storeurl.Options) (*store.Backends, string, error) {
	d, err := all.Open(ctx, url, databaseOptions(o))
	if err != nil {
		return nil, "", err
	}
	return d.Backends(), "dir:" + d.ArtifactFolder(), nil
}

// openMemories is a [storeurl.Scheme]'s Memories.
func (all Engines) openMemories(ctx context.Context, url string, o *storeurl.Options) (store.MemoryBackend, error) {
	return all.OpenMemories(ctx, url, databaseOptions(o))
}

func databaseOptions(o *storeurl.Options) *Options {
	return &Options{Owner: o.Owner, Clock: o.Clock, Logger: o.Logger, Existing: o.Existing, Access: o.Access}
}
