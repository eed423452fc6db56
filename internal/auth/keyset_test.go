package auth

import (
	"context"
	"crypto/elliptic"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// stallingIssuer is an issuer that responds once proceed is closed; requests counts
// its requests.
type stallingIssuer struct {
	*httptest.Server
	keys     []byte
	arrived  chan struct{}
	proceed  chan struct{}
	requests atomic.Int32
}

func newStallingIssuer(t *testing.T, keys []byte) *stallingIssuer {
	t.Helper()
	s := &stallingIssuer{keys: keys, arrived: make(chan struct{}), proceed: make(chan struct{})}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		s.arrived <- struct{}{}
		select {
		case <-s.proceed:
			_, _ = w.Write(s.keys)
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *stallingIssuer) document() string {
	return fmt.Sprintf("jwt: [{issuer: https://id.example, audience: agenthost, jwks: %s, algorithms: [ES256, ES384, ES512]}]", s.URL)
}

// A stalled issuer does not delay callers with a known key, even an expired one.
// Callers with an unknown key wait for the one fetch in flight and can be canceled;
// nonexistent keys trigger no further fetch until refreshInterval has passed.
func TestStalledIssuer(t *testing.T) {
	first, second, never := newECDSAKey(t, "ES256", elliptic.P256()), newECDSAKey(t, "ES384", elliptic.P384()), newECDSAKey(t, "ES512", elliptic.P521())
	issuer := newStallingIssuer(t, marshalKeySet(t, first, second))
	clock := now
	a := decodeAuth(t, func() time.Time { return clock }, issuer.document())
	ks := a.issuers["https://id.example"].keys
	ks.keys, ks.fetched, ks.attempted = []jose.JSONWebKey{{KeyID: first.alg, Key: first.key.Public()}}, now, now
	n := 0
	token := func(s signer) string { n++; return "Bearer " + s.sign(t, nil, map[string]any{"jti": n}) }

	clock = clock.Add(keyTTL)
	if _, err := a.Authenticate(t.Context(), token(first)); err != nil {
		t.Errorf("expired key = %v", err)
	}
	<-issuer.arrived
	var waiting sync.WaitGroup
	for range 8 {
		with := token(second)
		waiting.Go(func() {
			if _, err := a.Authenticate(t.Context(), with); err != nil {
				t.Errorf("key that is being fetched = %v", err)
			}
		})
	}
	if _, err := a.Authenticate(t.Context(), token(first)); err != nil {
		t.Errorf("expired key during a fetch = %v", err)
	}
	left, leave := context.WithCancel(t.Context())
	leave()
	if _, err := a.Authenticate(left, token(second)); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled caller = %v", err)
	}
	close(issuer.proceed)
	waiting.Wait()
	for range 100 {
		if _, err := a.Authenticate(t.Context(), token(never)); !errors.Is(err, ErrUnauthenticated) {
			t.Errorf("nonexistent key = %v", err)
		}
	}
	if got := issuer.requests.Load(); got != 1 {
		t.Errorf("issuer received %d requests, want 1", got)
	}
}

// Close cancels the fetch in flight.
func TestCloseCancelsFetch(t *testing.T) {
	first := newECDSAKey(t, "ES256", elliptic.P256())
	issuer := newStallingIssuer(t, marshalKeySet(t, first))
	a := decodeAuth(t, fixedClock, issuer.document())
	asked := make(chan error, 1)
	token := "Bearer " + first.sign(t, nil, nil)
	go func() {
		_, err := a.Authenticate(t.Context(), token)
		asked <- err
	}()
	<-issuer.arrived
	a.Close()
	if err := <-asked; !errors.Is(err, ErrUnavailable) {
		t.Errorf("waiting caller = %v", err)
	}
	if _, err := a.Authenticate(t.Context(), "Bearer "+first.sign(t, nil, map[string]any{"jti": 1})); !errors.Is(err, ErrUnavailable) {
		t.Errorf("later caller = %v", err)
	}
}
