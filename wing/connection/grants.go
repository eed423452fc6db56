package connection

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"time"

	"agenthost/pkg/connection"
)

// CallbackPath is where authorization servers send browsers.
const CallbackPath = "/oauth/callback"

// Grants keep what users have consented to. One Grants serves all of a host's connections. It is
// safe for concurrent use.
type Grants struct {
	opts GrantOptions

	mu      sync.Mutex
	sources map[sourceKey]*userTokens
}

type sourceKey struct{ app, connection string }

// GrantOptions configure grants. Store is required.
type GrantOptions struct {
	Store connection.GrantStore
	// Keys are nil if the host has none: users' connections then fail to open.
	Keys *Keys
	// RedirectURL is where authorization servers send browsers; empty leaves it to the
	// client that opens the address, as in ADK.
	RedirectURL string
	// LocalURL is the redirect URL for clients that the host registers if RedirectURL is empty: the
	// address of a host that only browsers on its own machine reach.
	LocalURL string
	// LoopbackURL is what registrations name instead if RedirectURL is empty: the address on the
	// user's own machine, with or without a port (RFC 8252, 7.3).
	LoopbackURL string
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Wait waits until a time has passed or ctx ends; nil waits with a timer.
	Wait func(ctx context.Context, d time.Duration) error
	// Logger receives warnings; nil discards them.
	Logger *slog.Logger
}

// NewGrants returns grants without connections.
func NewGrants(opts GrantOptions) *Grants {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Wait == nil {
		opts.Wait = waitFor
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Grants{opts: opts, sources: map[sourceKey]*userTokens{}}
}

func waitFor(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// IsLocal reports whether authorization servers send browsers to a loopback address.
func (g *Grants) IsLocal() bool {
	u, err := url.Parse(cmp.Or(g.opts.RedirectURL, g.opts.LocalURL))
	return err == nil && connection.IsLoopback(u)
}

// userTokens is the source of each user's tokens. The user authorizes the app in a browser (RFC
// 6749, 4.1 with PKCE, RFC 7636) or with a code on another device (RFC 8628). The tokens are only
// in the grant store, so that all replicas have the same, and one replica renews them.
type userTokens struct {
	config *oauthConfig
	server *tokenServer
	grants *Grants
	// app and name are the connection's, configID is its settings' hash.
	app, name, configID string
	// mayRegister is the policy for registrations; nil allows them.
	mayRegister func() error
}

// addSource makes a source answer consents for its connection, instead of the source of the
// previous revision.
func (g *Grants) addSource(s *userTokens) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sources[sourceKey{s.app, s.name}] = s
}

func (g *Grants) findSource(app, name string) *userTokens {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.sources[sourceKey{app, name}]
}

func hashID(kind string, words ...string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %q", kind, words))
	return hex.EncodeToString(sum[:])
}
