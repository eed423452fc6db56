package vertexstore

import (
	"context"
	"net/http"
	"testing"

	"agenthost/internal/fake/fakevertex"
	"agenthost/pkg/store"
	"agenthost/pkg/store/storetest"
)

const testURL = "agentengine://projects/p-1/locations/us-central1/reasoningEngines/77"

func newFake() *fakevertex.Server {
	return &fakevertex.Server{Project: "p-1", Number: "4711", Location: "us-central1", Engines: []string{"77"}, Token: "t-1", PageSize: 7}
}

func fakeOptions(s *fakevertex.Server) *Options {
	return &Options{
		HTTP: &http.Client{Transport: s}, Lookup: func(string) (string, bool) { return "", false },
		Token: func(context.Context) (string, error) { return "t-1", nil },
	}
}

func openFake(t testing.TB, s *fakevertex.Server) *Sessions {
	t.Helper()
	b, err := Open(t.Context(), testURL, fakeOptions(s))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestSessionsPassSuite(t *testing.T) {
	su := &storetest.Suite{
		Durable: true,
		Create: func(t testing.TB) storetest.Database {
			s := newFake()
			return func(ctx context.Context, _ *store.Options) (*store.Backends, error) {
				b, err := Open(ctx, testURL, fakeOptions(s))
				return &store.Backends{Sessions: b, Unshared: true}, err
			}
		},
		Impossible: impossible,
	}
	su.Run(t)
}

// impossible are the store rules that the service cannot follow.
var impossible = map[string]string{
	"LeaseExclusive":               noLeases,
	"LeaseRead":                    noLeases,
	"LeaseWait":                    noLeases,
	"LeaseTakeover":                noLeases,
	"LeaseTakenByOperator":         noLeases,
	"LeaseExpiry":                  noLeases,
	"LeaseRepeatedEvent":           noLeases,
	"LeaseCreatedWithSession":      noLeases,
	"LeaseSessionCreatedElsewhere": noLeases,
	"LeaseIdleReuse":               noLeases,
	"LeaseDeletedSession":          noLeases,
	"CloseReleasesLeases":          noLeases,
	"LeaseRace":                    noLeases,
	"AppendRaceWithoutLease":       noLeases,
	"RunCancelledOnLeaseLoss":      noLeases,
	"AppendScopes":                 sharedIDs,
	"IDsCompareBytewise":           sharedIDs,
	"StateLimitCreate":             sharedIDs,
	"RandomOperations":             sharedIDs,
	"EventRoundTrip":               doubles,
	"StateValueRoundTrip":          doubles,
	"UpdateVerbs":                  doubles,
	"Initial":                      doubles,
	"UpdatesConcurrent":            "computed updates of two hosts are not atomic: the service has no conditional writes",
	"ListOrder":                    "lists of the service have no number of events",
	"PruneActiveSessions":          serviceClock,
	"PruneDryRun":                  serviceClock,
	"PruneEarlierClock":            serviceClock,
	"PruneOneStore":                serviceClock,
	"Prune":                        serviceClock,
	"SweepAfterClockJump":          serviceClock,
}

const (
	serviceClock = "the clock of the service sets the times of sessions"
	sharedIDs    = "ids of sessions are unique in an engine, not for a user of an app"
	doubles      = "the service stores numbers as doubles: 5.0 is read as 5, and integers above 2^53 are rejected"
)

const noLeases = "the service has no leases and no conditional writes"
