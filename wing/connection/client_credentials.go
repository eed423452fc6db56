package connection

import (
	"context"
	"net/url"
	"strings"
	"time"

	"agenthost/pkg/connection"
)

// newClientCredentials returns the source of the app's own tokens.
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

// buildRequest returns the parameters of a request for an app token with the client's
// authentication.
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
