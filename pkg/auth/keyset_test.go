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
)

// stalling is an issuer that answers when it is let go on; asked counts who came.
type stalling struct {
	*httptest.Server
	keys    []byte
	arrived chan struct{}
	goOn    chan struct{}
	asked   atomic.Int32
}

func newStalling(t *testing.T, keys []byte) *stalling {
	t.Helper()
	s := &stalling{keys: keys, arrived: make(chan struct{}), goOn: make(chan struct{})}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		s.arrived <- struct{}{}
		select {
		case <-s.goOn:
			_, _ = w.Write(s.keys)
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *stalling) document() string {
	return fmt.Sprintf("jwt: [{issuer: https://id.example, audience: agenthost, jwks: %s, algorithms: [ES256, ES384, ES512]}]", s.URL)
}

// An issuer that stalls holds up nobody whose key is known, old as it may be. Who
// needs another key waits for the one reading that is under way, with all others, and
// may leave; keys that there are not have nobody ask again for a while.
func TestAnIssuerThatStalls(t *testing.T) {
	first, second, never := onCurveKey(t, "ES256", elliptic.P256()), onCurveKey(t, "ES384", elliptic.P384()), onCurveKey(t, "ES512", elliptic.P521())
	issuer := newStalling(t, keySetOf(t, first, second))
	clock := now
	a := decode(t, func() time.Time { return clock }, issuer.document())
	ks := a.issuers["https://id.example"].keys
	ks.keys, ks.read, ks.tried = []key{{id: first.alg, public: first.key.Public()}}, now, now
	n := 0
	token := func(s signer) string { n++; return "Bearer " + s.sign(t, nil, map[string]any{"jti": n}) }

	clock = clock.Add(freshness)
	if _, err := a.Authenticate(t.Context(), token(first)); err != nil {
		t.Errorf("an old key = %v", err)
	}
	<-issuer.arrived
	var waiting sync.WaitGroup
	for range 8 {
		with := token(second)
		waiting.Go(func() {
			if _, err := a.Authenticate(t.Context(), with); err != nil {
				t.Errorf("a key that was being read = %v", err)
			}
		})
	}
	if _, err := a.Authenticate(t.Context(), token(first)); err != nil {
		t.Errorf("an old key, while new ones are read = %v", err)
	}
	left, leave := context.WithCancel(t.Context())
	leave()
	if _, err := a.Authenticate(left, token(second)); !errors.Is(err, context.Canceled) {
		t.Errorf("who leaves hears %v", err)
	}
	close(issuer.goOn)
	waiting.Wait()
	for range 100 {
		if _, err := a.Authenticate(t.Context(), token(never)); !errors.Is(err, ErrUnknown) {
			t.Errorf("a key that there is not = %v", err)
		}
	}
	if got := issuer.asked.Load(); got != 1 {
		t.Errorf("the issuer was asked %d times, want once", got)
	}
}

// What is closed does not wait for an issuer.
func TestCloseEndsReading(t *testing.T) {
	first := onCurveKey(t, "ES256", elliptic.P256())
	issuer := newStalling(t, keySetOf(t, first))
	a := decode(t, still, issuer.document())
	asked := make(chan error, 1)
	token := "Bearer " + first.sign(t, nil, nil)
	go func() {
		_, err := a.Authenticate(t.Context(), token)
		asked <- err
	}()
	<-issuer.arrived
	a.Close()
	if err := <-asked; !errors.Is(err, ErrUnavailable) {
		t.Errorf("who waited hears %v", err)
	}
	if _, err := a.Authenticate(t.Context(), "Bearer "+first.sign(t, nil, map[string]any{"jti": 1})); !errors.Is(err, ErrUnavailable) {
		t.Errorf("who comes later hears %v", err)
	}
}
