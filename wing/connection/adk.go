package connection

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"agenthost/pkg/connection"
	"agenthost/pkg/spec"
)

// An ADKAuth is a toolset credential in ADK's syntax
type ADKAuth struct {
	Scheme     *adkScheme     `yaml:"auth_scheme" doc:"How the service expects the credential."`
	Credential *adkCredential `yaml:"auth_credential" doc:"The credential."`
	Key        spec.Text      `yaml:"credential_key" doc:"The name under which users' tokens are stored; toolsets with the same key share them. Default: a name that depends on scheme and credential."`
}

// adkScheme is an OpenAPI security scheme, or OpenID Connect with its endpoints.
type adkScheme struct {
	Type   string `yaml:"type" enum:"apiKey|http|oauth2|openIdConnect" required:"true" doc:"The scheme's type."`
	In     string `yaml:"in" enum:"header|query|cookie" doc:"Where the API key goes."`
	Name   string `yaml:"name" doc:"The name of the header, query parameter or cookie for an API key."`
	Scheme string `yaml:"scheme" doc:"The scheme for http: basic or bearer."`

	Flows     *adkFlows `yaml:"flows" doc:"The flows for oauth2."`
	IssuerURL spec.Text `yaml:"issuer_url" alias:"issuerUrl" doc:"The authorization server for oauth2. Its metadata names the endpoints."`

	OpenIDConnectURL      spec.Text `yaml:"openIdConnectUrl" alias:"open_id_connect_url" doc:"The URL of the openIdConnect server's metadata."`
	AuthorizationEndpoint spec.Text `yaml:"authorization_endpoint" doc:"The authorization endpoint for openIdConnect."`
	TokenEndpoint         spec.Text `yaml:"token_endpoint" doc:"The token endpoint for openIdConnect."`
	GrantTypes            []string  `yaml:"grant_types_supported" doc:"The server's grants; client_credentials authorizes the app itself."`
	Scopes                []string  `yaml:"scopes" doc:"The scopes for openIdConnect."`

	Description      string `yaml:"description" doc:"Not used."`
	BearerFormat     string `yaml:"bearerFormat" alias:"bearer_format" doc:"Not used."`
	UserinfoEndpoint string `yaml:"userinfo_endpoint" doc:"Not used."`
	RevokeEndpoint   string `yaml:"revocation_endpoint" doc:"Not used."`

	node *spec.Node
}

type adkFlows struct {
	AuthorizationCode *adkFlow `yaml:"authorizationCode" alias:"authorization_code" doc:"Each user authorizes the app in a browser."`
	ClientCredentials *adkFlow `yaml:"clientCredentials" alias:"client_credentials" doc:"The app itself is authorized; has priority, as in ADK."`
	Implicit          *adkFlow `yaml:"implicit" doc:"Not supported, as in ADK."`
	Password          *adkFlow `yaml:"password" doc:"Not supported, as in ADK."`
}

type adkFlow struct {
	AuthorizationURL spec.Text         `yaml:"authorizationUrl" alias:"authorization_url" doc:"The authorization endpoint."`
	TokenURL         spec.Text         `yaml:"tokenUrl" alias:"token_url" doc:"The token endpoint."`
	RefreshURL       string            `yaml:"refreshUrl" alias:"refresh_url" doc:"Not used: tokens are renewed at the token endpoint."`
	Scopes           map[string]string `yaml:"scopes" doc:"The scopes, with their descriptions."`
}

type adkCredential struct {
	AuthType       string             `yaml:"auth_type" alias:"authType" enum:"apiKey|http|oauth2|openIdConnect|serviceAccount" doc:"The credential's type."`
	APIKey         spec.Secret        `yaml:"api_key" alias:"apiKey" secret:"true" doc:"The API key."`
	HTTP           *adkHTTP           `yaml:"http" doc:"A token, or a user name and a password."`
	OAuth2         *adkOAuth2         `yaml:"oauth2" doc:"The client for oauth2 or openIdConnect, or an access token."`
	ServiceAccount *adkServiceAccount `yaml:"service_account" alias:"serviceAccount" doc:"A Google Cloud account."`

	node *spec.Node
}

type adkHTTP struct {
	Scheme      string         `yaml:"scheme" doc:"basic or bearer."`
	Credentials adkHTTPSecrets `yaml:"credentials" required:"true" doc:"The token, or the user name and the password."`
}

type adkHTTPSecrets struct {
	Username spec.Secret `yaml:"username" doc:"The user name."`
	Password spec.Secret `yaml:"password" secret:"true" doc:"The password."`
	Token    spec.Secret `yaml:"token" secret:"true" doc:"The token."`
}

type adkOAuth2 struct {
	ClientID     spec.Secret `yaml:"client_id" alias:"clientId" doc:"The client ID."`
	ClientSecret spec.Secret `yaml:"client_secret" alias:"clientSecret" secret:"true" doc:"The client secret."`
	AccessToken  spec.Secret `yaml:"access_token" alias:"accessToken" secret:"true" doc:"An access token, sent as it is."`
	Audience     string      `yaml:"audience" doc:"The tokens' audience."`
	TokenAuth    string      `yaml:"token_endpoint_auth_method" alias:"tokenEndpointAuthMethod" enum:"client_secret_basic|client_secret_post" default:"client_secret_basic" doc:"How the client authenticates to the token endpoint."`
	RedirectURI  string      `yaml:"redirect_uri" alias:"redirectUri" doc:"Not used: the redirect address is the host's, or the client's."`
	Challenge    string      `yaml:"code_challenge_method" alias:"codeChallengeMethod" enum:"S256" doc:"PKCE, which is always used."`
}

type adkServiceAccount struct {
	Key        *adkServiceAccountKey `yaml:"service_account_credential" alias:"serviceAccountCredential" doc:"A service account's key."`
	Scopes     []string              `yaml:"scopes" doc:"Scopes for access tokens."`
	OfHost     bool                  `yaml:"use_default_credential" alias:"useDefaultCredential" doc:"Uses the host's account. The host policy must allow it."`
	UseIDToken bool                  `yaml:"use_id_token" alias:"useIdToken" doc:"Sends ID tokens for audience."`
	Audience   string                `yaml:"audience" doc:"The audience for ID tokens."`
}

// adkServiceAccountKey is a Google Cloud key file, as a mapping.
type adkServiceAccountKey struct {
	Type         string      `yaml:"type" enum:"service_account" default:"service_account" doc:"The key's type."`
	ProjectID    string      `yaml:"project_id" alias:"projectId" doc:"Not used."`
	PrivateKeyID string      `yaml:"private_key_id" alias:"privateKeyId" doc:"The key's ID."`
	PrivateKey   spec.Secret `yaml:"private_key" alias:"privateKey" required:"true" secret:"true" doc:"The key, in PEM."`
	Email        spec.Secret `yaml:"client_email" alias:"clientEmail" required:"true" doc:"The account's address."`
	ClientID     string      `yaml:"client_id" alias:"clientId" doc:"Not used."`
	AuthURI      string      `yaml:"auth_uri" alias:"authUri" doc:"Not used."`
	TokenURI     string      `yaml:"token_uri" alias:"tokenUri" default:"https://oauth2.googleapis.com/token" doc:"The token endpoint."`
	ProviderCert string      `yaml:"auth_provider_x509_cert_url" alias:"authProviderX509CertUrl" doc:"Not used."`
	ClientCert   string      `yaml:"client_x509_cert_url" alias:"clientX509CertUrl" doc:"Not used."`
	Universe     string      `yaml:"universe_domain" alias:"universeDomain" doc:"Not used."`
}

// DecodeSpec decodes the scheme.
func (s *adkScheme) DecodeSpec(n *spec.Node) spec.Diagnostics {
	s.node = n
	return spec.Decode(n, s)
}

// DecodeSpec decodes the credential, and warns of secrets in the file.
func (c *adkCredential) DecodeSpec(n *spec.Node) spec.Diagnostics {
	c.node = n
	ds := spec.Decode(n, c)
	if ds.HasErrors() {
		return ds
	}
	var secrets []spec.Secret
	secrets = append(secrets, c.APIKey)
	if c.HTTP != nil {
		secrets = append(secrets, c.HTTP.Credentials.Password, c.HTTP.Credentials.Token)
	}
	if c.OAuth2 != nil {
		secrets = append(secrets, c.OAuth2.ClientSecret, c.OAuth2.AccessToken)
	}
	if c.ServiceAccount != nil && c.ServiceAccount.Key != nil {
		secrets = append(secrets, c.ServiceAccount.Key.PrivateKey)
	}
	for _, s := range secrets {
		if s.Pos.Line > 0 && s.Value != "" && !slices.ContainsFunc(s.Parts(), func(p spec.SecretPart) bool { return p.Hidden }) {
			ds = append(ds, withoutSource(s.Warnf(0, "key-in-file", "credential in a file").WithHint("store it as a secret, and write ${secret:NAME}")))
		}
	}
	return ds
}

// Check implements [connection.ADKAuth].
func (a ADKAuth) Check(n *spec.Node, hosts []string) spec.Diagnostics {
	_, ds := a.buildConfig(n, hosts)
	return ds
}

// Ref implements [connection.ADKAuth].
func (a ADKAuth) Ref(hosts []string) *connection.Ref {
	if a.Scheme == nil || a.Credential == nil {
		return nil
	}
	c, ds := a.buildConfig(a.Credential.node, hosts)
	if c == nil || ds.HasErrors() {
		return nil
	}
	name := a.Key
	if name.Value == "" && c.IsPerUser() {
		name = spec.Text{Pos: a.Credential.node.Pos, Value: a.defaultKey(c)}
	}
	return &connection.Ref{Name: name, Inline: c, Node: a.Credential.node}
}

// defaultKey names the connection by what identifies its tokens, as ADK does. It differs from ADK's
// digest: that covers all fields of ADK's own classes.
func (a ADKAuth) defaultKey(c *Config) string {
	words := []string{"adk", a.Scheme.Type}
	if c.OAuth2 != nil {
		words = append(words, c.OAuth2.Issuer.Value, c.OAuth2.AuthorizationURL.Value, c.OAuth2.TokenURL.Value, c.OAuth2.ClientID.Reveal(), strings.Join(c.OAuth2.Scopes, " "))
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", words))
	return "adk_" + a.Scheme.Type + "_" + hex.EncodeToString(sum[:8])
}

func (a ADKAuth) buildConfig(n *spec.Node, hosts []string) (*Config, spec.Diagnostics) {
	if a.Scheme == nil && a.Credential == nil {
		return nil, nil
	}
	if a.Scheme == nil || a.Credential == nil {
		return nil, spec.Diagnostics{n.Errorf("required", "auth_scheme and auth_credential require each other")}
	}
	s, c := a.Scheme, a.Credential
	config, ds := &Config{}, spec.Diagnostics(nil)
	if !slices.Contains([]string{"apiKey", "http", "oauth2", "openIdConnect"}, s.Type) {
		return nil, nil // Decoding has reported the type.
	}
	require := func(ok bool, at *spec.Node, format string, args ...any) {
		if !ok && len(ds) == 0 {
			ds = append(ds, at.Errorf("required", format, args...))
		}
	}
	switch {
	case c.ServiceAccount != nil:
		ds = a.connectGoogle(config, hosts)
	case s.Type == "apiKey":
		require(s.In != "" && s.Name != "", s.node, "an auth_scheme with type apiKey requires in and name")
		require(c.APIKey.Pos.Line > 0, c.node, "an auth_scheme with type apiKey requires api_key in auth_credential")
		config.APIKey = &apiKeyConfig{In: s.In, Name: spec.Text{Pos: s.node.Pos, Value: s.Name}, Value: c.APIKey}
	case c.OAuth2 != nil && c.OAuth2.AccessToken.Pos.Line > 0:
		config.Bearer = c.OAuth2.AccessToken
	case s.Type == "http":
		require(c.HTTP != nil, c.node, "an auth_scheme with type http requires http in auth_credential")
		if c.HTTP != nil {
			ds = append(ds, c.connectHTTP(config, cmp.Or(c.HTTP.Scheme, s.Scheme))...)
		}
	default:
		require(c.OAuth2 != nil && c.OAuth2.ClientID.Pos.Line > 0, c.node, "an auth_scheme with type %s requires oauth2 with client_id in auth_credential", s.Type)
		if len(ds) == 0 {
			ds = a.connectOAuth(config)
		}
	}
	if len(ds) == 0 {
		ds = config.checkValues()
	}
	return config, ds
}

// connectHTTP sets the token, or the user name and the password.
func (c *adkCredential) connectHTTP(config *Config, scheme string) spec.Diagnostics {
	secrets := c.HTTP.Credentials
	switch {
	case strings.EqualFold(scheme, "basic") && secrets.Username.Pos.Line > 0 && secrets.Password.Pos.Line > 0:
		config.Basic = &basicConfig{Username: secrets.Username, Password: secrets.Password}
	case strings.EqualFold(scheme, "basic"):
		return spec.Diagnostics{c.node.Errorf("required", "the scheme basic requires username and password in credentials")}
	case !strings.EqualFold(cmp.Or(scheme, "bearer"), "bearer"):
		return spec.Diagnostics{c.node.Errorf("value", "the scheme %q is not supported, only basic and bearer", scheme).
			WithHint("send the header by a connection with api_key: {in: header, name: Authorization, value: …}")}
	case secrets.Token.Pos.Line == 0:
		return spec.Diagnostics{c.node.Errorf("required", "the scheme bearer requires token in credentials")}
	default:
		config.Bearer = secrets.Token
	}
	return nil
}

// connectOAuth sets the grant by the flows; ADK prefers clientCredentials.
func (a ADKAuth) connectOAuth(config *Config) spec.Diagnostics {
	s, client := a.Scheme, a.Credential.OAuth2
	o := &oauthConfig{
		Grant: grantAuthorizationCode, Issuer: s.IssuerURL, ClientID: client.ClientID, ClientSecret: client.ClientSecret,
		TokenAuth: client.TokenAuth, Audience: client.Audience, Scopes: s.Scopes,
	}
	if slices.Contains(s.GrantTypes, grantClientCredentials) {
		o.Grant = grantClientCredentials
	}
	if s.Type == "openIdConnect" {
		o.AuthorizationURL, o.TokenURL = s.AuthorizationEndpoint, s.TokenEndpoint
		if s.TokenEndpoint.Value == "" {
			o.Issuer = s.OpenIDConnectURL
			o.Issuer.Value = strings.TrimSuffix(o.Issuer.Value, "/.well-known/openid-configuration")
		}
	}
	if s.Type == "oauth2" {
		flow := (*adkFlow)(nil)
		switch f := s.Flows; {
		case f != nil && f.ClientCredentials != nil:
			flow, o.Grant = f.ClientCredentials, grantClientCredentials
		case f != nil && f.AuthorizationCode != nil:
			flow = f.AuthorizationCode
		case f != nil && (f.Implicit != nil || f.Password != nil):
			return spec.Diagnostics{s.node.Errorf("value", "the flows implicit and password are not supported").WithHint("use authorizationCode or clientCredentials")}
		case f == nil && s.IssuerURL.Value == "":
			return spec.Diagnostics{s.node.Errorf("required", "an auth_scheme with type oauth2 requires flows or issuer_url")}
		}
		if flow != nil {
			o.Scopes = slices.Sorted(maps.Keys(flow.Scopes))
			if flow.TokenURL.Value != "" {
				o.Issuer, o.TokenURL, o.AuthorizationURL = spec.Text{}, flow.TokenURL, flow.AuthorizationURL
			}
		}
	}
	if o.Grant == grantClientCredentials {
		o.AuthorizationURL = spec.Text{}
	}
	config.OAuth2, config.node = o, a.Credential.node
	return o.checkValues(s.node)
}

// connectGoogle sets the Google Cloud account. The host account is only for hosts of the service.
func (a ADKAuth) connectGoogle(config *Config, hosts []string) spec.Diagnostics {
	account, at := a.Credential.ServiceAccount, a.Credential.node
	g := &googleConfig{Scopes: account.Scopes}
	if account.UseIDToken {
		if account.Audience == "" {
			return spec.Diagnostics{at.Errorf("required", "use_id_token requires audience")}
		}
		g.Audience, g.Scopes = account.Audience, nil
	} else if len(g.Scopes) == 0 && account.Key == nil {
		g.Scopes = []string{"https://www.googleapis.com/auth/cloud-platform"}
	}
	config.Google, config.node = g, at
	if (account.Key == nil) != account.OfHost {
		return spec.Diagnostics{at.Errorf("required", "service_account requires exactly one of service_account_credential and use_default_credential")}
	}
	if k := account.Key; k != nil {
		g.ServiceAccount = k.PrivateKey
		g.key = &serviceAccountKey{Type: k.Type, Email: k.Email.Reveal(), PrivateKey: k.PrivateKey.Reveal(), PrivateKeyID: k.PrivateKeyID, TokenURL: k.TokenURI}
		return g.checkValues(at, nil)
	}
	for _, host := range hosts {
		config.Hosts = append(config.Hosts, spec.Text{Pos: at.Pos, Value: host})
	}
	return g.checkValues(at, config.Hosts)
}
