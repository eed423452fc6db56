package connection

import (
	"context"
	"sync/atomic"
	"time"

	"agenthost/pkg/connection"
)

// A sharedToken is a source with one token for all users. Calls share the token and one request for
// it.
type sharedToken struct {
	// issue requests a token. It is not called concurrently.
	issue func(ctx context.Context) (*issuedToken, error)
	now   func() time.Time
	// slot is held while a token is requested.
	slot    chan struct{}
	current atomic.Pointer[issuedToken]
}

// An issuedToken is a token with its expiry; a zero time means that it has none.
type issuedToken struct {
	credential *connection.Credential
	expires    time.Time
}

// renewBefore is how long before its expiry a token is renewed, so that it does not
// expire on its way.
const renewBefore = 10 * time.Second

// maxLifetime bounds a token's lifetime, in seconds, so that it does not overflow.
const maxLifetime = 10 * 365 * 24 * 60 * 60

func newSharedToken(env connection.Env, issue func(ctx context.Context) (*issuedToken, error)) *sharedToken {
	now := env.Now
	if now == nil {
		now = time.Now
	}
	return &sharedToken{issue: issue, now: now, slot: make(chan struct{}, 1)}
}

// Credential implements [connection.Source].
func (s *sharedToken) Credential(ctx context.Context, _ connection.User) (*connection.Credential, error) {
	if t := s.validToken(); t != nil {
		return t, nil
	}
	select {
	case s.slot <- struct{}{}:
		defer func() { <-s.slot }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if t := s.validToken(); t != nil {
		return t, nil // another call requested it meanwhile
	}
	issued, err := s.issue(ctx)
	if err != nil {
		return nil, err
	}
	s.current.Store(issued)
	return issued.credential, nil
}

// validToken returns the current credential, or nil if it is missing or expires soon. A token
// with a shorter lifetime than renewBefore serves the call that requested it.
func (s *sharedToken) validToken() *connection.Credential {
	t := s.current.Load()
	if t == nil || !t.expires.IsZero() && !s.now().Add(renewBefore).Before(t.expires) {
		return nil
	}
	return t.credential
}

// Evict implements [connection.Source].
func (s *sharedToken) Evict(_ connection.User, rejected *connection.Credential) bool {
	t := s.current.Load()
	if t != nil && t.credential == rejected {
		s.current.CompareAndSwap(t, nil)
	}
	return true
}

// PerUser implements [connection.Source]: the tokens are the app's.
func (s *sharedToken) PerUser() bool { return false }
