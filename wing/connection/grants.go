package connection

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"time"

	"agenthost/pkg/connection"
)

// CallbackPath is where authorization servers send browsers.
const CallbackPath = "/oauth/callback"

// Grants keep what users have consented to. One Grants serves all connections of a host. It
// is safe for concurrent use.
type Grants struct {
	opts GrantOptions

	mu      sync.Mutex
	sources map[sourceKey]*userTokens
}

type sourceKey struct{ app, connection string }

// GrantOptions configure grants. Store is required.
type GrantOptions struct {
	Store connection.GrantStore
	// Keys are nil if the host has none: connections of users then fail to open.
	Keys *Keys
	// RedirectURL is where authorization servers send browsers; empty leaves it to the
	// client that opens the address, as in ADK.
	RedirectURL string
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

// IsLocal reports whether authorization servers send browsers to a loopback address.
func (g *Grants) IsLocal() bool {
	u, err := url.Parse(g.opts.RedirectURL)
	return err == nil && connection.IsLoopback(u)
}

// addSource makes a source answer the consents of its connection, instead of the source of
// the previous revision.
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

// The bounds of a consent.
const consentLifetime = 10 * time.Minute

// The kinds of pending consents. A state of one kind is unknown to the other.
const (
	kindConsent = "consent"
	kindDevice  = "device"
)

// consentCall is what a pending consent was requested for.
type consentCall struct {
	SessionID string `json:"session"`
	CallID    string `json:"call"`
	// Config is the hash of the connection, which may change until the answer.
	Config   string `json:"config"`
	TokenURL string `json:"token_url"`
}

// isAnsweredBy reports whether an answer, if it names its user, is for the call of a row.
func (c *consentCall) isAnsweredBy(a connection.Answer, row *connection.Grant) bool {
	return a.User == nil || *a.User == row.User && a.SessionID == c.SessionID && a.CallID == c.CallID
}

// A consent is the content of a pending consent in a browser.
type consent struct {
	consentCall
	Verifier string `json:"verifier"`
	Redirect string `json:"redirect"`
	// Issuer is what the answer must name if it names one, or if IssuerRequired is set.
	Issuer         string `json:"issuer"`
	IssuerRequired bool   `json:"issuer_required"`
}

func hashID(kind string, words ...string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %q", kind, words))
	return hex.EncodeToString(sum[:])
}

// storePending stores a new pending consent, with the user and the connection of its row, and
// returns its state.
func (g *Grants) storePending(ctx context.Context, kind string, row *connection.Grant, content any, lifetime time.Duration) (state string, err error) {
	now := g.opts.Now()
	if err := g.opts.Store.DeleteExpired(ctx, now); err != nil {
		return "", err
	}
	text, err := json.Marshal(content)
	if err != nil {
		return "", err
	}
	state = rand.Text() + rand.Text() // 260 bits
	row.ID, row.Version, row.Expires = hashID(kind, state), 1, now.Add(lifetime)
	row.Sealed = g.opts.Keys.sealText(row, text)
	if ok, err := g.opts.Store.SwapGrant(ctx, row); err != nil || !ok {
		return "", errors.Join(err, errors.New("storing the requested consent"))
	}
	return state, nil
}

func answerErrorf(format string, args ...any) error {
	return &connection.AnswerError{Text: fmt.Sprintf(format, args...)}
}

// readPending reads the content of the pending consent of a state.
func (g *Grants) readPending(ctx context.Context, kind, state string, content any) (*connection.Grant, error) {
	if g.opts.Keys == nil {
		return nil, connection.ErrNoConsent
	}
	row, err := g.opts.Store.GetGrant(ctx, hashID(kind, state))
	if err != nil {
		return nil, err
	}
	if row == nil || row.Expires.IsZero() || !g.opts.Now().Before(row.Expires) {
		return nil, connection.ErrNoConsent
	}
	text, err := g.opts.Keys.openSealed(row)
	if err == nil {
		err = json.Unmarshal(text, content)
	}
	if err != nil {
		return nil, connection.ErrNoConsent
	}
	return row, nil
}

// A PendingConsent is a request to a user that has no answer yet.
type PendingConsent struct {
	User                  connection.User
	Connection, SessionID string
	// Expires is when it can no longer be answered.
	Expires time.Time
}

// FindConsent returns the pending consent of a state. The error is [connection.ErrNoConsent] if there
// is none.
func (g *Grants) FindConsent(ctx context.Context, state string) (*PendingConsent, error) {
	c := &consent{}
	row, err := g.readPending(ctx, kindConsent, state, c)
	if err != nil {
		return nil, err
	}
	return &PendingConsent{row.User, row.Connection, c.SessionID, row.Expires}, nil
}

// FinishConsent takes the answer to a consent, whose state is used up, and stores the tokens
// of the user. For a device consent it polls the authorization server for a bounded time, and
// a pending error keeps the state. The error is an [*connection.AnswerError], without codes and tokens, or one of the store.
func (g *Grants) FinishConsent(ctx context.Context, a connection.Answer) error {
	if a.Device {
		return g.finishDevice(ctx, a)
	}
	c := &consent{}
	row, err := g.readPending(ctx, kindConsent, a.State, c)
	if err != nil {
		return err
	}
	if !c.isAnsweredBy(a, row) {
		return connection.ErrNoConsent
	}
	if ok, err := g.opts.Store.DeleteGrant(ctx, row.ID, row.Version); err != nil {
		return err
	} else if !ok {
		return connection.ErrNoConsent
	}
	s, err := g.findSourceOf(row, c.Config)
	if err != nil {
		return err
	}
	if err := c.checkAnswer(row.Connection, a); err != nil {
		return err
	}
	if a.RedirectURL != "" {
		c.Redirect = a.RedirectURL
	}
	got, err := s.redeemCode(ctx, c, a.Code)
	if err != nil {
		return answerErrorf("connection %s: %s", row.Connection, err)
	}
	return s.replaceToken(ctx, row.User, s.newToken(got))
}

// findSourceOf returns the source of a pending consent, unless its connection has changed.
func (g *Grants) findSourceOf(row *connection.Grant, configID string) (*userTokens, error) {
	s := g.findSource(row.User.App, row.Connection)
	if s == nil || s.configID != configID {
		return nil, answerErrorf("connection %s has changed: start again in the conversation", row.Connection)
	}
	return s, nil
}

// checkAnswer checks the issuer (RFC 9207, 2.4), and that there is a code.
func (c *consent) checkAnswer(name string, a connection.Answer) error {
	switch {
	case a.Issuer != "" && c.Issuer != "" && !sameIssuer(a.Issuer, c.Issuer):
		return answerErrorf("connection %s: the answer is from the issuer %q, want %s", name, cutText(a.Issuer), c.Issuer)
	case a.Issuer == "" && c.IssuerRequired:
		return answerErrorf("connection %s: the answer does not name its issuer", name)
	case a.Error != "":
		return answerErrorf("connection %s: the authorization server refused: %s", name, cutText(a.Error))
	case a.Code == "":
		return answerErrorf("connection %s: the answer has no code", name)
	}
	return nil
}
