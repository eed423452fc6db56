package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"agenthost/pkg/session"
	"agenthost/pkg/template"
)

// The errors of Authenticate, for the response. Their messages are for the log only.
var (
	// ErrUnauthenticated is returned for a missing or invalid token.
	ErrUnauthenticated = errors.New("unauthenticated")
	// ErrUnavailable is returned if the signing keys cannot be loaded.
	ErrUnavailable = errors.New("signing keys unavailable")
)

// maxCachedPrincipals limits the cache that avoids verifying a token for each
// request.
const maxCachedPrincipals = 10_000

// maxTokenBytes limits a token's size.
const maxTokenBytes = 16 << 10

// Options configure an Auth. The zero value works.
type Options struct {
	// Client fetches keys; nil is a client with a timeout of 5 seconds.
	Client *http.Client
	// Clock returns the current time; nil is time.Now.
	Clock func() time.Time
}

// An Auth authenticates callers. It is safe for concurrent use. The creator closes
// it.
type Auth struct {
	opts    Options
	tokens  map[[sha256.Size]byte]map[string]any // claims
	issuers map[string]*issuer

	userID, admin, metrics, apps *template.Expr

	mu         sync.Mutex
	principals map[[sha256.Size]byte]*Principal
}

func newAuth(opts *Options) *Auth {
	a := &Auth{
		tokens: map[[sha256.Size]byte]map[string]any{}, issuers: map[string]*issuer{},
		principals: map[[sha256.Size]byte]*Principal{},
	}
	if opts != nil {
		a.opts = *opts
	}
	if a.opts.Client == nil {
		a.opts.Client = &http.Client{Timeout: 5 * time.Second}
	}
	if a.opts.Clock == nil {
		a.opts.Clock = time.Now
	}
	return a
}

// Close stops fetching keys in the background. It does nothing on a nil Auth.
func (a *Auth) Close() {
	if a == nil {
		return
	}
	for _, in := range a.issuers {
		in.keys.close()
	}
}

// Issuers returns the names of the trusted issuers of JWTs, sorted.
func (a *Auth) Issuers() []string { return slices.Sorted(maps.Keys(a.issuers)) }

// A Principal is an authenticated caller. It is immutable.
type Principal struct {
	// UserID is the only user that the caller may act as, unless it is an
	// administrator.
	UserID string
	Admin  bool
	// Metrics reports that the caller may read the host's metrics.
	Metrics bool

	auth   *Auth
	claims map[string]any
	// expires is when the cached result expires; zero means never.
	expires time.Time
}

// MayUse reports whether the caller may use an app.
func (p *Principal) MayUse(ctx context.Context, app string) bool {
	ok, err := p.auth.apps.Bool(ctx, map[string]any{"claims": p.claims, "app": app})
	return p.Admin || err == nil && ok
}

// Authenticate returns the principal of an Authorization header. The error is
// [ErrUnauthenticated], [ErrUnavailable] or the context's.
func (a *Auth) Authenticate(ctx context.Context, header string) (*Principal, error) {
	scheme, token, _ := strings.Cut(header, " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > maxTokenBytes {
		return nil, fmt.Errorf("%w: no bearer token", ErrUnauthenticated)
	}
	sum := sha256.Sum256([]byte(token))
	if p := a.cachedPrincipal(sum); p != nil {
		return p, nil
	}
	claims, static := a.tokens[sum]
	var until time.Time
	if !static {
		var err error
		if claims, until, err = a.verifyToken(ctx, token); err != nil {
			return nil, err
		}
	}
	p, err := a.resolvePrincipal(ctx, claims)
	if err != nil {
		return nil, err
	}
	p.expires = until
	a.cachePrincipal(sum, p)
	return p, nil
}

func (a *Auth) resolvePrincipal(ctx context.Context, claims map[string]any) (*Principal, error) {
	vars := map[string]any{"claims": claims}
	v, err := a.userID.Eval(ctx, vars)
	if err != nil {
		return nil, fmt.Errorf("%w: user_id: %w", ErrUnauthenticated, err)
	}
	id, ok := v.(string)
	if !ok || id == "" {
		return nil, fmt.Errorf("%w: user_id must be a non-empty string", ErrUnauthenticated)
	}
	admin, err := a.admin.Bool(ctx, vars)
	if err != nil {
		return nil, fmt.Errorf("%w: admin: %w", ErrUnauthenticated, err)
	}
	metrics, err := a.metrics.Bool(ctx, vars)
	if err != nil {
		return nil, fmt.Errorf("%w: metrics: %w", ErrUnauthenticated, err)
	}
	return &Principal{UserID: id, Admin: admin, Metrics: metrics || admin, auth: a, claims: claims}, nil
}

func (a *Auth) cachedPrincipal(sum [sha256.Size]byte) *Principal {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.principals[sum]
	if p != nil && !p.expires.IsZero() && !a.opts.Clock().Before(p.expires) {
		delete(a.principals, sum)
		return nil
	}
	return p
}

// cachePrincipal adds a principal, and evicts arbitrary ones from a full cache:
// their tokens are verified again on the next request.
func (a *Auth) cachePrincipal(sum [sha256.Size]byte, p *Principal) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for other := range a.principals {
		if len(a.principals) < maxCachedPrincipals {
			break
		}
		delete(a.principals, other)
	}
	a.principals[sum] = p
}

// An issuer is a trusted token issuer.
type issuer struct {
	name, audience string
	algorithms     []jose.SignatureAlgorithm
	leeway         time.Duration
	keys           *keySet
}

// maxCacheTime limits how long an authentication result is cached, because the
// issuer may revoke its keys.
const maxCacheTime = 10 * time.Minute

// validateClaims validates the claims of a verified token and returns when the
// result expires.
func (in *issuer) validateClaims(claims map[string]any, now time.Time) (until time.Time, err error) {
	expires, ok := parseNumericDate(claims["exp"])
	if !ok {
		return until, fmt.Errorf("%w: claim exp is required", ErrUnauthenticated)
	}
	if until = expires.Add(in.leeway); !now.Before(until) {
		return until, fmt.Errorf("%w: token expired at %s", ErrUnauthenticated, expires)
	}
	for _, name := range []string{"nbf", "iat"} {
		at, ok := parseNumericDate(claims[name])
		if claims[name] != nil && (!ok || now.Add(in.leeway).Before(at)) {
			return until, fmt.Errorf("%w: token not valid yet (claim %s)", ErrUnauthenticated, name)
		}
	}
	if !claimContains(claims["aud"], in.audience) {
		return until, fmt.Errorf("%w: audience %v not accepted", ErrUnauthenticated, claims["aud"])
	}
	if most := now.Add(maxCacheTime); most.Before(until) {
		until = most
	}
	return until, nil
}

// parseNumericDate decodes a NumericDate (RFC 7519).
func parseNumericDate(v any) (time.Time, bool) {
	switch v := v.(type) {
	case int64:
		return time.Unix(v, 0), v > 0 && v < 1<<40
	case float64:
		return time.UnixMilli(int64(v * 1000)), v > 0 && v < 1<<40
	}
	return time.Time{}, false
}

// claimContains reports whether a claim is the text, or a list that contains it.
func claimContains(claim any, text string) bool {
	if list, ok := claim.([]any); ok {
		for _, v := range list {
			if v == text {
				return true
			}
		}
		return false
	}
	return claim == text
}

// verifyToken verifies the signature and the claims of a JWT.
func (a *Auth) verifyToken(ctx context.Context, token string) (claims map[string]any, until time.Time, err error) {
	t, err := parseJWT(token)
	if err != nil {
		return nil, until, fmt.Errorf("%w: %w", ErrUnauthenticated, err)
	}
	if claims, err = session.DecodeMap(t.UnsafePayloadWithoutVerification()); err != nil {
		return nil, until, fmt.Errorf("%w: decoding claims: %w", ErrUnauthenticated, err)
	}
	name, _ := claims["iss"].(string)
	in := a.issuers[name]
	if in == nil {
		return nil, until, fmt.Errorf("%w: unknown issuer %q", ErrUnauthenticated, name)
	}
	if err := in.verifySignature(ctx, t); err != nil {
		return nil, until, err
	}
	until, err = in.validateClaims(claims, a.opts.Clock())
	return claims, until, err
}
