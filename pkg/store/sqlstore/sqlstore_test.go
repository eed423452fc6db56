package sqlstore

import (
	"context"
	"testing"

	"agenthost/pkg/store"
	"agenthost/pkg/store/storetest"
)

func TestConformance(t *testing.T) {
	for _, be := range backends()[1:] {
		t.Run(be.name, func(t *testing.T) {
			t.Parallel()
			url := be.emptyURL(t)
			suite := &storetest.Suite{Durable: true, LocalClock: be.name == "sqlite"}
			suite.Create = func(t testing.TB) storetest.Database {
				url := url(t)
				return func(ctx context.Context, o *store.Options) (*store.Backends, error) {
					d, err := allEngines().Open(ctx, url, &Options{Owner: o.Owner, Clock: o.Clock, Logger: o.Logger})
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
