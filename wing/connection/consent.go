package connection

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"

	"agenthost/pkg/connection"
)

// A consent is the content of a pending browser consent.
type consent struct {
	consentCall
	Verifier string `json:"verifier"`
	Redirect string `json:"redirect"`
	// Issuer is what the answer must name if it names one, or if IssuerRequired is set.
	Issuer         string `json:"issuer"`
	IssuerRequired bool   `json:"issuer_required"`
	// Found is nil if the document names the authorization server.
	Found *foundServer `json:"found,omitempty"`
	// StepUps counts the consents to more scopes.
	StepUps int `json:"step_ups,omitempty"`
}

// requestConsent starts a consent for a call in a session, as [connection.ConsentError.Request].
// earlier is the user's token that lacks scopes, or nil.
func (s *userTokens) requestConsent(ctx context.Context, user connection.User, earlier *userToken, sessionID, callID string) (map[string]any, error) {
	if s.config.Resource.Value != "" {
		found, err := s.discoverServer(ctx, earlier)
		if err != nil {
			return nil, fmt.Errorf("connection %s: %w", s.name, err)
		}
		c := &consent{consentCall: consentCall{sessionID, callID, s.configID, found.TokenURL}, Issuer: found.Issuer, IssuerRequired: found.IssuerInAnswer, Found: found}
		if earlier != nil {
			c.StepUps = earlier.StepUps + 1
		}
		return s.openConsent(ctx, user, c, found.AuthorizationURL, &found.Client)
	}
	m, err := s.server.findMetadata(ctx)
	if err != nil {
		return nil, fmt.Errorf("connection %s: %w", s.name, err)
	}
	if s.config.Grant == grantDeviceCode {
		return s.requestDevice(ctx, user, m, sessionID, callID)
	}
	if m.AuthorizationURL == "" {
		return nil, fmt.Errorf("connection %s: metadata of %s has no authorization_endpoint", s.name, s.config.Issuer.Value)
	}
	c := &consent{consentCall: consentCall{sessionID, callID, s.configID, m.TokenURL}, Issuer: s.config.Issuer.Value, IssuerRequired: m.IssuerInAnswer}
	return s.openConsent(ctx, user, c, m.AuthorizationURL, s.config.newClient())
}

// openConsent stores a consent for a client, and returns what the user opens.
func (s *userTokens) openConsent(ctx context.Context, user connection.User, c *consent, authorizationURL string, client *oauthClient) (map[string]any, error) {
	c.Verifier, c.Redirect = rand.Text()+rand.Text(), s.grants.opts.RedirectURL
	if c.Redirect == "" && c.Found != nil && c.Found.ClientRow != "" { // no other client receives the answer
		c.Redirect = s.grants.opts.LocalURL
	}
	state, err := s.grants.storePending(ctx, kindConsent, &connection.Grant{User: user, Connection: s.name}, c, consentLifetime)
	if err != nil {
		return nil, fmt.Errorf("connection %s: %w", s.name, err)
	}
	asked := map[string]any{"authUri": client.authorizationURL(authorizationURL, state, c), "state": state}
	if c.Redirect != "" {
		asked["redirectUri"] = c.Redirect
	}
	return s.newAuthConfig("authorizationCode", client, map[string]any{"authorizationUrl": authorizationURL, "tokenUrl": c.TokenURL}, asked), nil
}

// authorizationURL returns the address that the user opens (RFC 6749, 4.1.1). The parameters
// access_type and prompt are ADK's, so that servers issue a refresh token.
func (c *oauthClient) authorizationURL(endpoint, state string, pending *consent) string {
	sum := sha256.Sum256([]byte(pending.Verifier))
	query := url.Values{
		"response_type": {"code"}, "client_id": {c.ID}, "state": {state}, "access_type": {"offline"}, "prompt": {"consent"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"},
	}
	if pending.Redirect != "" {
		query.Set("redirect_uri", pending.Redirect)
	}
	if len(c.Scopes) > 0 {
		query.Set("scope", strings.Join(c.Scopes, " "))
	}
	if c.Audience != "" {
		query.Set("audience", c.Audience)
	}
	if c.Resource != "" {
		query.Set("resource", c.Resource)
	}
	separator := "?"
	if strings.Contains(endpoint, "?") {
		separator = "&"
	}
	return endpoint + separator + query.Encode()
}

// FindConsent returns a state's pending consent. The error is [connection.ErrNoConsent] if there is
// none.
func (g *Grants) FindConsent(ctx context.Context, state string) (*PendingConsent, error) {
	c := &consent{}
	row, err := g.readPending(ctx, kindConsent, state, c)
	if err != nil {
		return nil, err
	}
	return g.newPending(row, c.SessionID), nil
}

// FinishConsent takes the answer to a consent, uses up its state, and stores the user's tokens. For
// a device consent it polls the authorization server for a bounded time, and a pending error keeps
// the state. The error is an [*connection.AnswerError], without codes and tokens, or the store's.
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
	if err := c.checkAnswer(s.serviceName(), a); err != nil {
		return err
	}
	if a.RedirectURL != "" {
		c.Redirect = a.RedirectURL
	}
	got, err := s.redeemCode(ctx, c, a.Code)
	if err != nil {
		s.deleteClient(ctx, c.Found, err)
		return answerErrorf("connection %s: %s", row.Connection, err)
	}
	t := s.newToken(got)
	t.Found, t.StepUps = c.Found, c.StepUps
	return s.replaceToken(ctx, row.User, t)
}

// checkAnswer checks the issuer (RFC 9207, 2.4), and that there is a code.
func (c *consent) checkAnswer(name string, a connection.Answer) error {
	switch {
	case c.Found != nil && a.Issuer != "" && a.Issuer != c.Issuer: // RFC 9207, 2.4: compared as they are
		return answerErrorf("connection %s: the answer is from the issuer %q, want %s", name, cutText(a.Issuer), c.Issuer)
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

// redeemCode requests a code's tokens.
func (s *userTokens) redeemCode(ctx context.Context, c *consent, code string) (*tokenResponse, error) {
	form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "code_verifier": {c.Verifier}}
	if c.Redirect != "" {
		form.Set("redirect_uri", c.Redirect)
	}
	client := s.config.newClient()
	if c.Found != nil {
		client = &c.Found.Client
	}
	r := client.newTokenRequest(form, code, c.Verifier)
	r.endpoint = c.TokenURL
	return s.server.requestToken(ctx, r)
}
