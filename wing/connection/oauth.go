package connection

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"agenthost/pkg/connection"
	"agenthost/pkg/spec"
)

type oauthConfig struct {
	Grant            string      `yaml:"grant" enum:"client_credentials|authorization_code|device_code|token_exchange" required:"true" doc:"How tokens are issued: client_credentials issues them to the app itself (RFC 6749, 4.4), authorization_code to each user, who authorizes the app in a browser (RFC 6749, 4.1 with PKCE), device_code to each user, who enters a code in a browser on any device (RFC 8628), token_exchange for the tokens of the connection subject (RFC 8693)."`
	Subject          spec.Text   `yaml:"subject" doc:"For token_exchange: the connection in app.yaml whose tokens are exchanged."`
	Issuer           spec.Text   `yaml:"issuer" doc:"The URL of the authorization server, whose metadata names its endpoints (RFC 8414, OpenID Connect Discovery)."`
	AuthorizationURL spec.Text   `yaml:"authorization_url" doc:"The authorization endpoint for authorization_code, with token_url instead of issuer."`
	DeviceURL        spec.Text   `yaml:"device_authorization_url" doc:"The device authorization endpoint for device_code, with token_url instead of issuer."`
	TokenURL         spec.Text   `yaml:"token_url" doc:"The token endpoint, instead of issuer."`
	ClientID         spec.Secret `yaml:"client_id" required:"true" doc:"The client ID."`
	ClientSecret     spec.Secret `yaml:"client_secret" secret:"true" doc:"The client secret; required for client_credentials. A public client has none."`
	TokenAuth        string      `yaml:"token_auth" enum:"client_secret_basic|client_secret_post" default:"client_secret_basic" doc:"How the client authenticates to the token endpoint: with HTTP Basic authentication, or in the body."`
	Scopes           []string    `yaml:"scopes" doc:"The scopes of the tokens."`
	Audience         string      `yaml:"audience" doc:"The audience of the tokens, for servers that require one."`
}

// checkValues requires one address of the server, with TLS.
func (c *oauthConfig) checkValues(n *spec.Node) spec.Diagnostics {
	if (c.Issuer.Value == "") == (c.TokenURL.Value == "") {
		return spec.Diagnostics{n.Errorf("required", "oauth2 requires exactly one of issuer and token_url")}
	}
	if c.Grant == grantClientCredentials && c.ClientSecret.Pos.Line == 0 {
		return spec.Diagnostics{n.Errorf("required", "client_secret is required for the grant client_credentials")}
	}
	if c.Grant == grantTokenExchange && c.Subject.Value == "" {
		return spec.Diagnostics{n.Errorf("required", "the grant token_exchange requires subject: the connection whose tokens are exchanged")}
	}
	if c.Grant != grantTokenExchange && c.Subject.Value != "" {
		return spec.Diagnostics{c.Subject.Errorf(0, "value", "subject requires the grant token_exchange")}
	}
	for _, own := range []struct {
		grant, key string
		url        spec.Text
	}{{grantAuthorizationCode, "authorization_url", c.AuthorizationURL}, {grantDeviceCode, "device_authorization_url", c.DeviceURL}} {
		switch {
		case own.url.Value != "" && (c.Grant != own.grant || c.Issuer.Value != ""):
			return spec.Diagnostics{own.url.Errorf(0, "value", "%s requires the grant %s and token_url", own.key, own.grant)}
		case own.url.Value == "" && c.Grant == own.grant && c.TokenURL.Value != "":
			return spec.Diagnostics{n.Errorf("required", "the grant %s requires issuer, or %s and token_url", own.grant, own.key)}
		}
	}
	for _, at := range []spec.Text{c.tokenAddress(), c.AuthorizationURL, c.DeviceURL} {
		if at.Value == "" {
			continue
		}
		if err := checkServerURL(at.Value); err != nil {
			return spec.Diagnostics{at.Errorf(0, "url", "%s", err)}
		}
	}
	return nil
}

const (
	grantClientCredentials = "client_credentials"
	grantAuthorizationCode = "authorization_code"
	grantDeviceCode        = "device_code"
)

// tokenAddress returns the address of the server in the document.
func (c *oauthConfig) tokenAddress() spec.Text {
	if c.Issuer.Value != "" {
		return c.Issuer
	}
	return c.TokenURL
}

// checkServerURL rejects addresses without TLS, except for loopback addresses.
func checkServerURL(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Fragment != "":
		return errors.New("the address of the authorization server must be a URL with a host")
	case !connection.IsSecure(u):
		return errors.New("the address of the authorization server must start with https://")
	}
	return nil
}

// A sharedToken is a source of one token for all users. Calls share the token and one
// request for it.
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

func newTokenServer(c *oauthConfig, env connection.Env) *tokenServer {
	return &tokenServer{
		client: withoutRedirects(env.HTTP), issuer: c.Issuer.Value, authorizationURL: c.AuthorizationURL.Value, deviceURL: c.DeviceURL.Value, tokenURL: c.TokenURL.Value,
	}
}

func newSharedToken(env connection.Env, issue func(ctx context.Context) (*issuedToken, error)) *sharedToken {
	now := env.Now
	if now == nil {
		now = time.Now
	}
	return &sharedToken{issue: issue, now: now, slot: make(chan struct{}, 1)}
}

// newClientCredentials returns the source of the tokens of the app itself.
func newClientCredentials(c *oauthConfig, env connection.Env) *sharedToken {
	server := newTokenServer(c, env)
	var s *sharedToken
	s = newSharedToken(env, func(ctx context.Context) (*issuedToken, error) {
		token, err := server.requestToken(ctx, c.buildRequest())
		if err != nil {
			return nil, err
		}
		issued := &issuedToken{credential: bearerCredential(token.AccessToken)}
		if token.ExpiresIn > 0 {
			issued.expires = s.now().Add(time.Duration(min(token.ExpiresIn, maxLifetime)) * time.Second)
		}
		return issued, nil
	})
	return s
}

// withoutRedirects returns a copy of the client that follows no redirects: requests
// to token endpoints contain secrets.
func withoutRedirects(c *http.Client) *http.Client {
	if c == nil {
		c = http.DefaultClient
	}
	direct := *c
	direct.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &direct
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

// maxLifetime bounds the lifetime of a token, in seconds, so that it does not overflow.
const maxLifetime = 10 * 365 * 24 * 60 * 60

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

// PerUser implements [connection.Source]: the tokens are those of the app.
func (s *sharedToken) PerUser() bool { return false }

// buildRequest returns the parameters of a request for a token of the app and the client's authentication.
func (c *oauthConfig) buildRequest() tokenRequest {
	form := url.Values{"grant_type": {"client_credentials"}}
	if len(c.Scopes) > 0 {
		form.Set("scope", strings.Join(c.Scopes, " "))
	}
	if c.Audience != "" {
		form.Set("audience", c.Audience)
	}
	return c.newTokenRequest(form)
}

// newTokenRequest returns a request with the authentication of the client. Its errors do not
// show the secrets.
func (c *oauthConfig) newTokenRequest(form url.Values, secrets ...string) tokenRequest {
	secret := c.ClientSecret.Reveal()
	return tokenRequest{
		form: form, id: c.ClientID.Reveal(), secret: secret, redactor: spec.NewRedactor(append(secrets, secret)...),
		inBody: secret == "" || c.TokenAuth == "client_secret_post",
	}
}

func bearerCredential(token string) *connection.Credential {
	return &connection.Credential{In: connection.InHeader, Name: "Authorization", Value: "Bearer " + token, Secrets: []string{token}}
}

// listSettings returns the words of Config.Fingerprint.
func (c *oauthConfig) listSettings() []string {
	words := slices.Concat([]string{"oauth2", c.Grant, c.Issuer.Value, c.AuthorizationURL.Value, c.TokenURL.Value, c.ClientID.Reveal(), c.ClientSecret.Reveal(), c.TokenAuth, c.Audience, fmt.Sprint(len(c.Scopes))}, c.Scopes)
	if c.DeviceURL.Value != "" {
		words = append(words, c.DeviceURL.Value)
	}
	if c.Subject.Value != "" {
		words = append(words, c.Subject.Value)
	}
	return words
}
