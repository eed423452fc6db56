package connection

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"agenthost/pkg/connection"
)

// The parameters for a token exchange (RFC 8693, 2.1 and 3).
const (
	exchangeGrantType = "urn:ietf:params:oauth:grant-type:token-exchange"
	accessTokenType   = "urn:ietf:params:oauth:token-type:access_token"
)

// maxExchanged bounds the tokens in memory: one for each user.
const maxExchanged = 10_000

// exchangedTokens is a source that exchanges another connection's tokens (RFC 8693). Its tokens are
// only in memory.
type exchangedTokens struct {
	config *oauthConfig
	server *tokenServer
	// subject is the other connection. Its hosts have the token endpoint.
	subject *connection.Connection
	env     connection.Env

	mu     sync.Mutex
	tokens map[exchangeKey]*sharedToken
}

// An exchangeKey is a user with a hash of the token to exchange, so that a new authorization does
// not use the previous one's tokens.
type exchangeKey struct {
	user    connection.User
	subject [sha256.Size]byte
}

func newExchangedTokens(c *oauthConfig, env connection.Env) (*exchangedTokens, error) {
	if env.Subject == nil {
		return nil, errors.New("the grant token_exchange requires subject")
	}
	return &exchangedTokens{config: c, server: newTokenServer(c, env), subject: env.Subject, env: env, tokens: map[exchangeKey]*sharedToken{}}, nil
}

// PerUser implements [connection.Source].
func (s *exchangedTokens) PerUser() bool { return s.subject.IsPerUser() }

// Credential implements [connection.Source]. The error wraps the other connection's
// [*connection.ConsentError] if the user has to authorize it. If the server refuses its token,
// another one is exchanged.
func (s *exchangedTokens) Credential(ctx context.Context, user connection.User) (*connection.Credential, error) {
	got, used, err := s.exchangeOnce(ctx, user)
	failed := (*tokenError)(nil)
	if errors.As(err, &failed) && (failed.code == "invalid_grant" || failed.code == "invalid_request") && s.subject.Evict(user, used) {
		got, _, err = s.exchangeOnce(ctx, user)
	}
	return got, err
}

// exchangeOnce returns the credential with the one that it was exchanged for.
func (s *exchangedTokens) exchangeOnce(ctx context.Context, user connection.User) (got, used *connection.Credential, err error) {
	used, err = s.subject.Credential(ctx, user)
	if err != nil {
		return nil, nil, err
	}
	token, isBearer := strings.CutPrefix(used.Value, "Bearer ")
	if used.In != connection.InHeader || used.Name != "Authorization" || !isBearer {
		return nil, nil, fmt.Errorf("connection %s has no bearer token to exchange", s.subject.Name())
	}
	if !s.PerUser() {
		user = connection.User{}
	}
	got, err = s.findToken(exchangeKey{user, sha256.Sum256([]byte(token))}, token).Credential(ctx, user)
	return got, used, err
}

// findToken returns a user's exchanged token; it requests the token at its first use.
func (s *exchangedTokens) findToken(key exchangeKey, token string) *sharedToken {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.tokens[key]; t != nil {
		return t
	}
	for other, t := range s.tokens {
		if other.user == key.user || len(s.tokens) >= maxExchanged || t.current.Load() != nil && t.validToken() == nil {
			delete(s.tokens, other)
		}
	}
	var t *sharedToken
	t = newSharedToken(s.env, func(ctx context.Context) (*issuedToken, error) {
		m, err := s.server.findMetadata(ctx)
		if err != nil {
			return nil, err
		}
		if err := s.subject.CheckAddress(m.TokenURL); err != nil {
			return nil, fmt.Errorf("connection %s: %w", s.subject.Name(), err)
		}
		r := s.config.newTokenRequest(s.config.exchangeForm(token), token)
		r.endpoint = m.TokenURL
		got, err := s.server.requestToken(ctx, r)
		if err != nil {
			return nil, err
		}
		issued := &issuedToken{credential: bearerCredential(got.AccessToken)}
		if got.ExpiresIn > 0 {
			issued.expires = t.now().Add(time.Duration(min(got.ExpiresIn, maxLifetime)) * time.Second)
		}
		return issued, nil
	})
	s.tokens[key] = t
	return t
}

// exchangeForm returns the request's parameters.
func (c *oauthConfig) exchangeForm(token string) url.Values {
	form := url.Values{"grant_type": {exchangeGrantType}, "subject_token": {token}, "subject_token_type": {accessTokenType}}
	if len(c.Scopes) > 0 {
		form.Set("scope", strings.Join(c.Scopes, " "))
	}
	if c.Audience != "" {
		form.Set("audience", c.Audience)
	}
	return form
}

// Evict implements [connection.Source].
func (s *exchangedTokens) Evict(user connection.User, rejected *connection.Credential) bool {
	if !s.PerUser() {
		user = connection.User{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, t := range s.tokens {
		if key.user == user {
			t.Evict(user, rejected)
		}
	}
	return true
}
