package sqlstore

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"agenthost/pkg/store"
	"agenthost/pkg/store/storetest"
)

// Engines run at the same time, because most of the time they wait for flushes. A schema
// on a server takes about a second, so the tests of a server share one.
func TestConformance(t *testing.T) {
	for _, be := range backends()[1:] {
		t.Run(be.name, func(t *testing.T) {
			t.Parallel()
			url := be.url
			if be.name != "sqlite" {
				shared := be.url(t)
				openStore(t, shared, nil) // creates the tables
				url = func(t testing.TB) string {
					deleteAllRows(t, shared)
					return shared
				}
			}
			suite := &storetest.Suite{Durable: true, LocalClock: be.name == "sqlite"}
			suite.Create = func(t testing.TB) storetest.Database {
				url := url(t)
				return func(ctx context.Context, o *store.Options) (*store.Backends, error) {
					d, err := Open(ctx, url, &Options{Owner: o.Owner, Clock: o.Clock, Logger: o.Logger})
					if err != nil {
						return nil, err
					}
					return d.Backends(), nil
				}
			}
			suite.Run(t)
		})
	}
}

func deleteAllRows(t testing.TB, url string) {
	t.Helper()
	var text strings.Builder
	for _, table := range tableNames() {
		fmt.Fprintf(&text, "DELETE FROM %s;", table)
	}
	execSQL(t, url, text.String())
}
