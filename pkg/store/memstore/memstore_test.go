package memstore_test

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"agenthost/pkg/store"
	"agenthost/pkg/store/memstore"
	"agenthost/pkg/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Several stores share the backends, so that leases are tested too.
func TestConformance(t *testing.T) {
	suite := &storetest.Suite{LocalClock: true}
	suite.Create = func(testing.TB) storetest.Database {
		b := memstore.NewBackends()
		b.Unshared = false
		return func(context.Context, *store.Options) (*store.Backends, error) { return b, nil }
	}
	suite.Run(t)
}

func TestArtifacts(t *testing.T) {
	suite := &storetest.ArtifactSuite{URI: "memory://apps/app/"}
	suite.Create = func(testing.TB, *store.Options) store.ArtifactBackend { return memstore.NewArtifacts() }
	suite.Run(t)
}
