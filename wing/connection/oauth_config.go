package connection

import (
	"fmt"
	"slices"

	"agenthost/pkg/spec"
)

type oauthConfig struct {
	Grant            string      `yaml:"grant" enum:"client_credentials|authorization_code|device_code|token_exchange" required:"true" doc:"How tokens are issued: client_credentials issues them to the app itself (RFC 6749, 4.4), authorization_code to each user, who authorizes the app in a browser (RFC 6749, 4.1 with PKCE), device_code to each user, who enters a code in a browser on any device (RFC 8628), token_exchange in exchange for the tokens of the connection that subject names (RFC 8693)."`
	Subject          spec.Text   `yaml:"subject" doc:"For token_exchange: the connection in app.yaml whose tokens are exchanged."`
	Issuer           spec.Text   `yaml:"issuer" doc:"The authorization server's URL. Its metadata names the endpoints (RFC 8414, OpenID Connect Discovery)."`
	AuthorizationURL spec.Text   `yaml:"authorization_url" doc:"The authorization endpoint for authorization_code, with token_url instead of issuer."`
	DeviceURL        spec.Text   `yaml:"device_authorization_url" doc:"The device authorization endpoint for device_code, with token_url instead of issuer."`
	TokenURL         spec.Text   `yaml:"token_url" doc:"The token endpoint, instead of issuer."`
	Resource         spec.Text   `yaml:"resource" doc:"For authorization_code, instead of issuer: the URL of the service, whose metadata names the authorization server (RFC 9728). The tokens are for this service only (RFC 8707)."`
	ClientID         spec.Secret `yaml:"client_id" doc:"The client ID; required without resource. With resource, a client is registered if there is none."`
	ClientSecret     spec.Secret `yaml:"client_secret" secret:"true" doc:"The client secret; required for client_credentials. A public client has none."`
	TokenAuth        string      `yaml:"token_auth" enum:"client_secret_basic|client_secret_post" default:"client_secret_basic" doc:"How the client authenticates to the token endpoint: with HTTP Basic authentication, or in the body."`
	Scopes           []string    `yaml:"scopes" doc:"The tokens' scopes."`
	Audience         string      `yaml:"audience" doc:"The tokens' audience, for servers that require one."`
}

const grantTokenExchange = "token_exchange"

const (
	grantClientCredentials = "client_credentials"
	grantAuthorizationCode = "authorization_code"
	grantDeviceCode        = "device_code"
)

// checkValues requires one server address, with TLS.
func (c *oauthConfig) checkValues(n *spec.Node) spec.Diagnostics {
	switch {
	case c.Resource.Value != "" && (c.Grant != grantAuthorizationCode || c.TokenURL.Value != "" || c.AuthorizationURL.Value != ""):
		return spec.Diagnostics{c.Resource.Errorf(0, "value", "resource requires the grant authorization_code, without token_url and authorization_url")}
	case c.Resource.Value == "" && c.ClientID.Pos.Line == 0:
		return spec.Diagnostics{n.Errorf("required", "missing field client_id")}
	case c.Resource.Value == "" && (c.Issuer.Value == "") == (c.TokenURL.Value == ""):
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
	for _, at := range []spec.Text{c.tokenAddress(), c.AuthorizationURL, c.DeviceURL, c.Resource} {
		if at.Value == "" {
			continue
		}
		if err := checkServerURL(at.Value); err != nil {
			return spec.Diagnostics{at.Errorf(0, "url", "%s", err)}
		}
	}
	return nil
}

// tokenAddress returns the server's address in the document.
func (c *oauthConfig) tokenAddress() spec.Text {
	switch {
	case c.Issuer.Value != "":
		return c.Issuer
	case c.Resource.Value != "":
		return c.Resource
	}
	return c.TokenURL
}

// listSettings returns the words for Config.Fingerprint.
func (c *oauthConfig) listSettings() []string {
	words := slices.Concat([]string{"oauth2", c.Grant, c.Issuer.Value, c.AuthorizationURL.Value, c.TokenURL.Value, c.ClientID.Reveal(), c.ClientSecret.Reveal(), c.TokenAuth, c.Audience, fmt.Sprint(len(c.Scopes))}, c.Scopes)
	if c.DeviceURL.Value != "" {
		words = append(words, c.DeviceURL.Value)
	}
	if c.Subject.Value != "" {
		words = append(words, c.Subject.Value)
	}
	if c.Resource.Value != "" {
		words = append(words, "resource", c.Resource.Value)
	}
	return words
}
