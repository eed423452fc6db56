package connection

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"agenthost/pkg/connection"
)

// The kinds of pending consents. A state of one kind is unknown to the other.
const (
	kindConsent = "consent"
	kindDevice  = "device"
)

// The bounds for a consent.
const consentLifetime = 10 * time.Minute

// consentCall is what a pending consent was requested for.
type consentCall struct {
	SessionID string `json:"session"`
	CallID    string `json:"call"`
	// Config is the connection's hash. It may change until the answer.
	Config   string `json:"config"`
	TokenURL string `json:"token_url"`
}

// isAnsweredBy reports whether an answer, if it names its user, is for a row's call.
func (c *consentCall) isAnsweredBy(a connection.Answer, row *connection.Grant) bool {
	return a.User == nil || *a.User == row.User && a.SessionID == c.SessionID && a.CallID == c.CallID
}

// storePending stores a new pending consent, with its row's user and connection, and returns its
// state.
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
	row.Sealed = g.opts.Keys.SealText(row, text)
	if ok, err := g.opts.Store.SwapGrant(ctx, row); err != nil || !ok {
		return "", errors.Join(err, errors.New("storing the requested consent"))
	}
	return state, nil
}

// readPending reads the content of a state's pending consent.
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
	text, err := g.opts.Keys.OpenSealed(row)
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
	// Service is the name that users read: the connection's, or the address of a service whose
	// connection has no name in app.yaml.
	Service string
	// Expires is when it can no longer be answered.
	Expires time.Time
}

// findSourceOf returns a pending consent's source, unless its connection has changed.
func (g *Grants) findSourceOf(row *connection.Grant, configID string) (*userTokens, error) {
	s := g.findSource(row.User.App, row.Connection)
	if s == nil || s.configID != configID {
		return nil, answerErrorf("connection %s has changed: start again in the conversation", row.Connection)
	}
	return s, nil
}

func answerErrorf(format string, args ...any) error {
	return &connection.AnswerError{Text: fmt.Sprintf(format, args...)}
}

// serviceName returns the name that users read.
func (s *userTokens) serviceName() string {
	if address := s.config.Resource.Value; address != "" && s.name == nameFound(address) {
		return describeAddress(address)
	}
	return s.name
}

// newPending returns a row's pending consent.
func (g *Grants) newPending(row *connection.Grant, sessionID string) *PendingConsent {
	service := row.Connection
	if s := g.findSource(row.User.App, row.Connection); s != nil {
		service = s.serviceName()
	}
	return &PendingConsent{User: row.User, Connection: row.Connection, Service: service, SessionID: sessionID, Expires: row.Expires}
}

// newAuthConfig returns ADK's AuthConfig for a flow, with OpenAPI's names.
func (s *userTokens) newAuthConfig(flow string, client *oauthClient, settings, asked map[string]any) map[string]any {
	scopes := map[string]any{}
	for _, scope := range client.Scopes {
		scopes[scope] = ""
	}
	id := client.ID
	if service := s.serviceName(); service != s.name {
		asked[connection.ServiceKey] = service
	}
	settings["scopes"], asked["clientId"] = scopes, id
	return map[string]any{
		"authScheme":              map[string]any{"type": "oauth2", "flows": map[string]any{flow: settings}},
		"rawAuthCredential":       map[string]any{"authType": "oauth2", "oauth2": map[string]any{"clientId": id}},
		"exchangedAuthCredential": map[string]any{"authType": "oauth2", "oauth2": asked},
		"credentialKey":           connection.CredentialKey(s.name),
	}
}
