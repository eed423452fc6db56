package sqlstore

import (
	"context"
	"net/url"
	"testing"

	"agenthost/pkg/store"
	"agenthost/pkg/store/storetest"
)

func TestConformance(t *testing.T) {
	for _, be := range backends()[1:] {
		t.Run(be.name, func(t *testing.T) {
			t.Parallel()
			empty := be.emptyURL(t)
			newSuite(empty, be.name == "sqlite").Run(t)
		})
	}
}

// newSuite returns the store's suite on empty databases.
func newSuite(empty func(testing.TB) string, localClock bool) *storetest.Suite {
	return &storetest.Suite{Durable: true, LocalClock: localClock, Create: func(t testing.TB) storetest.Database {
		at := patientURL(t, empty(t))
		return func(ctx context.Context, o *store.Options) (*store.Backends, error) {
			d, err := allEngines().Open(ctx, at, &Options{Owner: o.Owner, Clock: o.Clock, Logger: o.Logger})
			if err != nil {
				return nil, err
			}
			return d.Backends(), nil
		}
	}}
}

// patientURL gives a server's requests a minute: the suite tests results, and other tests load the machine.
func patientURL(t testing.TB, at string) string {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	if u.Scheme == "sqlite" {
		return at
	}
	q := u.Query()
	q.Set("timeout", "60")
	u.RawQuery = q.Encode()
	return u.String()
}
