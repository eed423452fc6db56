package connection

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"agenthost/internal/limit"
	"agenthost/pkg/connection"
)

// userTokens is the source of the tokens of each user, who authorizes the app in a browser
// (RFC 6749, 4.1 with PKCE, RFC 7636) or with a code on another device (RFC 8628). The tokens are only in the store of the grants, so
// that all replicas have the same, and one of them renews.
type userTokens struct {
	config *oauthConfig
	server *tokenServer
	grants *Grants
	// app and name are those of the connection, configID is a hash of its settings.
	app, name, configID string
}

// newUserTokens registers the source with the grants.
func newUserTokens(c *oauthConfig, env connection.Env, grants *Grants) (connection.Source, error) {
	if grants == nil {
		return unavailable{errors.New("users can authorize the connection only with agenthost serve and agenthost run")}, nil
	}
	if grants.opts.Keys == nil {
		return nil, fmt.Errorf("the grant %s stores tokens of users encrypted, which requires --credentials-key", c.Grant)
	}
	s := &userTokens{config: c, server: newTokenServer(c, env), grants: grants, app: env.App, name: env.Name}
	settings := *c
	settings.ClientSecret.Text.Value = "" // a new secret keeps the tokens
	s.configID = hashID("config", settings.listSettings()...)
	grants.addSource(s)
	return s, nil
}

// unavailable is a source whose calls fail.
type unavailable struct{ err error }

// Credential implements [connection.Source].
func (s unavailable) Credential(context.Context, connection.User) (*connection.Credential, error) {
	return nil, s.err
}

// Evict implements [connection.Source].
func (s unavailable) Evict(connection.User, *connection.Credential) bool { return false }

// PerUser implements [connection.Source].
func (s unavailable) PerUser() bool { return true }

// newConsentError returns the error of a user who has to authorize the app.
func (s *userTokens) newConsentError(user connection.User) error {
	return connection.NewConsentError(func(ctx context.Context, sessionID, callID string) (map[string]any, error) {
		return s.requestConsent(ctx, user, sessionID, callID)
	})
}

// renewalLease returns how long a renewal is reserved: longer than a token request may
// take, so that it ends first.
func renewalLease() time.Duration { return limit.TokenAnswer.Time + 15*time.Second }

// The bounds of a renewal.
const (
	renewalPause = 50 * time.Millisecond
	evictTimeout = 10 * time.Second
)

// userToken is the content of a grant with tokens.
type userToken struct {
	Access  string `json:"access"`
	Refresh string `json:"refresh,omitempty"`
	// Expires is in Unix seconds; 0 means never.
	Expires int64 `json:"expires,omitempty"`
}

// PerUser implements [connection.Source].
func (s *userTokens) PerUser() bool { return true }

func (s *userTokens) grantID(user connection.User) string {
	return hashID("token", user.App, user.UserID, s.name, s.configID)
}

// readToken returns the stored token with its row, or nil and the row, which may be nil, if
// there is none that the keys decrypt.
func (s *userTokens) readToken(ctx context.Context, user connection.User) (*userToken, *connection.Grant, error) {
	row, err := s.grants.opts.Store.GetGrant(ctx, s.grantID(user))
	if err != nil || row == nil {
		return nil, nil, err
	}
	text, err := s.grants.opts.Keys.openSealed(row)
	t := &userToken{}
	if err == nil {
		err = json.Unmarshal(text, t)
	}
	if err != nil {
		s.grants.opts.Logger.WarnContext(ctx, "stored token unusable", "app", user.App, "connection", s.name, "error", err)
		return nil, row, nil
	}
	return t, row, nil
}

// swapToken stores a token after a version of its row.
func (s *userTokens) swapToken(ctx context.Context, user connection.User, t *userToken, after int64, busyUntil time.Time) (*connection.Grant, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	row := &connection.Grant{ID: s.grantID(user), User: user, Connection: s.name, Version: after + 1, BusyUntil: busyUntil}
	row.Sealed = s.grants.opts.Keys.sealText(row, text)
	ok, err := s.grants.opts.Store.SwapGrant(ctx, row)
	if err != nil || !ok {
		return nil, err
	}
	return row, nil
}

// Credential implements [connection.Source]. The error is a [*connection.ConsentError] if the user has to authorize
// the app.
func (s *userTokens) Credential(ctx context.Context, user connection.User) (*connection.Credential, error) {
	if user.UserID == "" {
		return nil, errors.New("the request has no user")
	}
	for {
		t, row, err := s.readToken(ctx, user)
		switch {
		case err != nil:
			return nil, err
		case t == nil:
			return nil, s.newConsentError(user)
		case s.isFresh(t):
			return bearerCredential(t.Access), nil
		case t.Refresh == "":
			if _, err := s.grants.opts.Store.DeleteGrant(ctx, row.ID, row.Version); err != nil {
				return nil, err
			}
			return nil, s.newConsentError(user)
		}
		now := s.grants.opts.Now()
		if now.Before(row.BusyUntil) {
			if err := s.grants.opts.Wait(ctx, renewalPause); err != nil {
				return nil, err
			}
			continue
		}
		lease, err := s.swapToken(ctx, user, t, row.Version, now.Add(renewalLease()))
		if err != nil {
			return nil, err
		}
		if lease == nil {
			continue // another replica renews
		}
		// A canceled call must not lose a token that replaces the previous one.
		return s.renewToken(context.WithoutCancel(ctx), user, t, lease)
	}
}

func (s *userTokens) isFresh(t *userToken) bool {
	return t.Expires == 0 || s.grants.opts.Now().Add(renewBefore).Before(time.Unix(t.Expires, 0))
}

// renewToken requests a token with the refresh token, and ends the lease.
func (s *userTokens) renewToken(ctx context.Context, user connection.User, t *userToken, lease *connection.Grant) (*connection.Credential, error) {
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {t.Refresh}}
	got, err := s.server.requestToken(ctx, s.config.newTokenRequest(form, t.Refresh))
	if failed := (*tokenError)(nil); errors.As(err, &failed) && failed.code == "invalid_grant" {
		if _, err := s.grants.opts.Store.DeleteGrant(ctx, lease.ID, lease.Version); err != nil {
			return nil, err
		}
		return nil, s.newConsentError(user)
	}
	if err != nil {
		_, releaseErr := s.swapToken(ctx, user, t, lease.Version, time.Time{})
		return nil, errors.Join(err, releaseErr)
	}
	renewed := s.newToken(got)
	if renewed.Refresh == "" {
		renewed.Refresh = t.Refresh
	}
	if _, err := s.swapToken(ctx, user, renewed, lease.Version, time.Time{}); err != nil {
		return nil, err
	}
	return bearerCredential(renewed.Access), nil
}

func (s *userTokens) newToken(got *tokenResponse) *userToken {
	t := &userToken{Access: got.AccessToken, Refresh: got.RefreshToken}
	if got.ExpiresIn > 0 {
		t.Expires = s.grants.opts.Now().Unix() + min(got.ExpiresIn, maxLifetime)
	}
	return t
}

// Evict implements [connection.Source]: the token expires now, for all replicas.
func (s *userTokens) Evict(user connection.User, rejected *connection.Credential) bool {
	ctx, cancel := context.WithTimeout(context.Background(), evictTimeout)
	defer cancel()
	t, row, err := s.readToken(ctx, user)
	if err != nil || t == nil {
		return err == nil
	}
	if bearerCredential(t.Access).Value != rejected.Value {
		return true // renewed meanwhile
	}
	if !s.isFresh(t) {
		return true // a change would end the lease of a replica that renews it
	}
	t.Expires = 1
	_, err = s.swapToken(ctx, user, t, row.Version, row.BusyUntil)
	return err == nil
}

// redeemCode requests the tokens of a code.
func (s *userTokens) redeemCode(ctx context.Context, c *consent, code string) (*tokenResponse, error) {
	form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "code_verifier": {c.Verifier}}
	if c.Redirect != "" {
		form.Set("redirect_uri", c.Redirect)
	}
	r := s.config.newTokenRequest(form, code, c.Verifier)
	r.endpoint = c.TokenURL
	return s.server.requestToken(ctx, r)
}

// replaceToken stores a token instead of an earlier one.
func (s *userTokens) replaceToken(ctx context.Context, user connection.User, t *userToken) error {
	for {
		row, err := s.grants.opts.Store.GetGrant(ctx, s.grantID(user))
		if err != nil {
			return err
		}
		after := int64(0)
		if row != nil {
			after = row.Version
		}
		if stored, err := s.swapToken(ctx, user, t, after, time.Time{}); err != nil || stored != nil {
			return err
		}
	}
}

// requestConsent starts a consent for a call of a session, as [connection.ConsentError.Request].
func (s *userTokens) requestConsent(ctx context.Context, user connection.User, sessionID, callID string) (map[string]any, error) {
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
	c := &consent{
		consentCall: consentCall{sessionID, callID, s.configID, m.TokenURL}, Verifier: rand.Text() + rand.Text(),
		Redirect: s.grants.opts.RedirectURL, Issuer: s.config.Issuer.Value, IssuerRequired: m.IssuerInAnswer,
	}
	state, err := s.grants.storePending(ctx, kindConsent, &connection.Grant{User: user, Connection: s.name}, c, consentLifetime)
	if err != nil {
		return nil, fmt.Errorf("connection %s: %w", s.name, err)
	}
	asked := map[string]any{"authUri": s.config.authorizationURL(m.AuthorizationURL, state, c), "state": state}
	if c.Redirect != "" {
		asked["redirectUri"] = c.Redirect
	}
	return s.newAuthConfig("authorizationCode", map[string]any{"authorizationUrl": m.AuthorizationURL, "tokenUrl": m.TokenURL}, asked), nil
}

// newAuthConfig returns ADK's AuthConfig of a flow, whose names are those of OpenAPI.
func (s *userTokens) newAuthConfig(flow string, settings, asked map[string]any) map[string]any {
	scopes := map[string]any{}
	for _, scope := range s.config.Scopes {
		scopes[scope] = ""
	}
	id := s.config.ClientID.Reveal()
	settings["scopes"], asked["clientId"] = scopes, id
	return map[string]any{
		"authScheme":              map[string]any{"type": "oauth2", "flows": map[string]any{flow: settings}},
		"rawAuthCredential":       map[string]any{"authType": "oauth2", "oauth2": map[string]any{"clientId": id}},
		"exchangedAuthCredential": map[string]any{"authType": "oauth2", "oauth2": asked},
		"credentialKey":           connection.CredentialKey(s.name),
	}
}

// authorizationURL returns the address that the user opens (RFC 6749, 4.1.1). The parameters
// access_type and prompt are those of ADK, so that servers issue a refresh token.
func (c *oauthConfig) authorizationURL(endpoint, state string, pending *consent) string {
	sum := sha256.Sum256([]byte(pending.Verifier))
	query := url.Values{
		"response_type": {"code"}, "client_id": {c.ClientID.Reveal()}, "state": {state}, "access_type": {"offline"}, "prompt": {"consent"},
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
	separator := "?"
	if strings.Contains(endpoint, "?") {
		separator = "&"
	}
	return endpoint + separator + query.Encode()
}
