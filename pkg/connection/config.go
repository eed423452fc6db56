package connection

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"agenthost/pkg/spec"
)

// A Config is a connection of an app: one kind of credential, and the hosts that may
// receive it.
type Config struct {
	Bearer spec.Secret   `yaml:"bearer" secret:"true" doc:"A bearer token, sent in the header Authorization."`
	Basic  *basicConfig  `yaml:"basic" doc:"A user name and a password (HTTP Basic authentication)."`
	APIKey *apiKeyConfig `yaml:"api_key" doc:"An API key in a header, the query or a cookie."`
	OAuth2 *oauthConfig  `yaml:"oauth2" doc:"Access tokens of an authorization server (OAuth 2), renewed before they expire."`
	Google *googleConfig `yaml:"google" doc:"Tokens of Google Cloud, of a service account or of the account of the host."`
	Hosts  []spec.Text   `yaml:"hosts" doc:"The hosts that may receive the credential, such as api.example.com, api.example.com:8443 or *.example.com. Default: the hosts of the tool's own URLs."`

	node *spec.Node
}

type basicConfig struct {
	Username spec.Secret `yaml:"username" required:"true" doc:"The user name."`
	Password spec.Secret `yaml:"password" required:"true" secret:"true" doc:"The password."`
}

type apiKeyConfig struct {
	In    string      `yaml:"in" enum:"header|query|cookie" default:"header" doc:"Where the key is sent."`
	Name  spec.Text   `yaml:"name" required:"true" doc:"The name of the header, query parameter or cookie."`
	Value spec.Secret `yaml:"value" required:"true" secret:"true" doc:"The key."`
}

// DecodeSpec decodes and validates a connection.
func (c *Config) DecodeSpec(n *spec.Node) spec.Diagnostics {
	c.node = n
	ds := spec.Decode(n, c)
	if ds.HasErrors() {
		return ds
	}
	var kinds []string
	for _, kind := range kindNames() {
		if !n.Get(kind).IsNull() {
			kinds = append(kinds, kind)
		}
	}
	if len(kinds) != 1 {
		ds = append(ds, n.Errorf("required", "a connection requires exactly one of %s", joinNames(kindNames())))
	}
	for i, host := range c.Hosts {
		if !isHostPattern(host.Value) {
			ds = append(ds, c.Hosts[i].Errorf(0, "value", "hosts must contain host names, got %q", host.Value).
				WithHint("write api.example.com, api.example.com:8443 or *.example.com, without https://"))
		}
	}
	return append(append(ds, c.checkValues()...), c.checkPlainText()...)
}

// kindNames are the keys of Config that name a kind of credential.
func kindNames() []string { return []string{"bearer", "basic", "api_key", "oauth2", "google"} }

func joinNames(names []string) string {
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

var (
	headerName  = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
	headerValue = regexp.MustCompile(`^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$`)
	cookieValue = regexp.MustCompile(`^[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]+$`)
)

// checkPlainText warns of credentials in the file.
func (c *Config) checkPlainText() spec.Diagnostics {
	var ds spec.Diagnostics
	for _, n := range []*spec.Node{
		c.node.Get("bearer"), c.node.Get("basic").Get("password"), c.node.Get("api_key").Get("value"), c.node.Get("oauth2").Get("client_secret"), c.node.Get("google").Get("service_account"),
	} {
		if n != nil && n.Kind == spec.Scalar && !n.IsNull() && !n.HasReference() {
			ds = append(ds, withoutSource(n.Warnf("key-in-file", "credential in a file").
				WithHint("store it as a secret, and write ${secret:NAME}")))
		}
	}
	return ds
}

// withoutSource returns a diagnostic that does not show its line, which has a secret.
func withoutSource(d spec.Diagnostic) spec.Diagnostic {
	d.Source = ""
	return d
}

// checkValues rejects values that a request cannot contain. Its errors do not show them.
func (c *Config) checkValues() spec.Diagnostics {
	var ds spec.Diagnostics
	if v := c.Bearer; v.Pos.Line > 0 && !headerValue.MatchString(v.Reveal()) {
		ds = append(ds, withoutSource(v.Errorf(0, "value", "bearer must be a token without line breaks, and without spaces at its ends")))
	}
	if b := c.Basic; b != nil && strings.Contains(b.Username.Reveal(), ":") {
		ds = append(ds, b.Username.Errorf(0, "value", "username must not contain a colon"))
	}
	if c.OAuth2 != nil {
		ds = append(ds, c.OAuth2.checkValues(c.node.Get("oauth2"))...)
	}
	if c.Google != nil {
		ds = append(ds, c.Google.checkValues(c.node.Get("google"), c.Hosts)...)
	}
	k := c.APIKey
	if k == nil {
		return ds
	}
	if k.In != inQuery && !headerName.MatchString(k.Name.Value) {
		ds = append(ds, k.Name.Errorf(0, "header", "invalid name %q of a %s", k.Name.Value, k.In))
	}
	valid := headerValue
	if k.In == inCookie {
		valid = cookieValue
	}
	if k.In != inQuery && !valid.MatchString(k.Value.Reveal()) {
		ds = append(ds, withoutSource(k.Value.Errorf(0, "value", "the value is not allowed in a %s", k.In)))
	}
	return ds
}

// Env holds the dependencies of sources.
type Env struct {
	// HTTP sends the requests to authorization servers; nil means http.DefaultClient. Its
	// transport decides which addresses are allowed.
	HTTP *http.Client
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// App and Name are those of the connection.
	App, Name string
	// Subject is the connection that [Config.Subject] names.
	Subject *Connection
	// Grants keep the tokens of users; nil if they cannot authorize connections.
	Grants *Grants
}

// Addresses returns the addresses of authorization servers in the document.
func (c *Config) Addresses() []spec.Text {
	if c.OAuth2 != nil {
		addresses := []spec.Text{c.OAuth2.tokenAddress()}
		if c.OAuth2.DeviceURL.Value != "" {
			addresses = append(addresses, c.OAuth2.DeviceURL)
		}
		return addresses
	}
	if c.Google != nil {
		if at, ok := c.Google.tokenAddress(); ok {
			return []spec.Text{at}
		}
	}
	return nil
}

// UsesHostAccount reports whether the tokens are those of the account of the host, which its
// policy must allow.
func (c *Config) UsesHostAccount() bool { return c.Google != nil && c.Google.isOfHost() }

// Open returns the source of the credentials. It sends no requests.
func (c *Config) Open(env Env) (Source, error) {
	switch {
	case c.Bearer.Pos.Line > 0:
		token := c.Bearer.Reveal()
		return static{&Credential{inHeader, "Authorization", "Bearer " + token, []string{token}}}, nil
	case c.Basic != nil:
		user, password := c.Basic.Username.Reveal(), c.Basic.Password.Reveal()
		code := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
		return static{&Credential{inHeader, "Authorization", "Basic " + code, []string{password, code}}}, nil
	case c.APIKey != nil:
		k, value := c.APIKey, c.APIKey.Value.Reveal()
		return static{&Credential{k.In, k.Name.Value, value, []string{value}}}, nil
	case c.IsPerUser():
		return newUserTokens(c.OAuth2, env)
	case c.OAuth2 != nil && c.OAuth2.Grant == grantTokenExchange:
		return newExchangedTokens(c.OAuth2, env)
	case c.OAuth2 != nil:
		return newClientCredentials(c.OAuth2, env), nil
	case c.Google != nil:
		return newGoogleTokens(c.Google, env), nil
	}
	return nil, fmt.Errorf("a connection requires exactly one of %s", joinNames(kindNames()))
}

// Subject returns the connection whose tokens this one exchanges, or nil.
func (c *Config) Subject() *Ref {
	if c.OAuth2 == nil || c.OAuth2.Subject.Value == "" {
		return nil
	}
	return &Ref{Name: c.OAuth2.Subject, Node: c.node.Get("oauth2").Get("subject")}
}

// SubjectHosts returns the hosts to which the connection may send its tokens for an exchange:
// those of the document, or its own authorization server.
func (c *Config) SubjectHosts() []string {
	if hosts := c.HostNames(); len(hosts) > 0 || c.OAuth2 == nil {
		return hosts
	}
	return []string{HostOf(c.OAuth2.tokenAddress().Value)}
}

// IsPerUser reports whether each user authorizes the connection.
func (c *Config) IsPerUser() bool {
	return c.OAuth2 != nil && (c.OAuth2.Grant == grantAuthorizationCode || c.OAuth2.Grant == grantDeviceCode)
}

// HostNames returns the hosts of the document, which may be empty.
func (c *Config) HostNames() []string {
	var hosts []string
	for _, host := range c.Hosts {
		hosts = append(hosts, host.Value)
	}
	return hosts
}

// Fingerprint returns a string that differs if the credential differs. It contains secrets:
// callers hash it.
func (c *Config) Fingerprint() string {
	words := []string{c.Bearer.Reveal()}
	if c.Basic != nil {
		words = append(words, "basic", c.Basic.Username.Reveal(), c.Basic.Password.Reveal())
	}
	if c.APIKey != nil {
		words = append(words, "api_key", c.APIKey.In, c.APIKey.Name.Value, c.APIKey.Value.Reveal())
	}
	if c.OAuth2 != nil {
		words = append(words, c.OAuth2.listSettings()...)
	}
	if c.Google != nil {
		words = append(words, c.Google.listSettings()...)
	}
	return fmt.Sprintf("%q %q", words, c.HostNames())
}

// A Ref is the connection of a tool: the name of one in app.yaml, or the connection itself.
type Ref struct {
	// Name is that in app.yaml. An inline connection has one only if tokens of users are
	// stored under it.
	Name spec.Text
	// Inline is nil if the tool names a connection.
	Inline *Config
	// Node is the value of the document.
	Node *spec.Node
}

// DecodeSpec accepts both forms.
func (r *Ref) DecodeSpec(n *spec.Node) spec.Diagnostics {
	r.Node = n
	if n.Kind != spec.Mapping {
		return r.Name.DecodeSpec(n)
	}
	r.Inline = &Config{}
	ds := r.Inline.DecodeSpec(n)
	if !ds.HasErrors() && r.Inline.IsPerUser() {
		ds = append(ds, n.Errorf("value", "a connection with the grant %s must have a name", r.Inline.OAuth2.Grant).
			WithHint("declare it under connections in app.yaml, and write auth: NAME"))
	}
	return ds
}

// SchemaSpec describes both forms.
func (r *Ref) SchemaSpec() map[string]any {
	return map[string]any{"anyOf": []any{
		map[string]any{"type": "string"},
		map[string]any{"$ref": "#/$defs/connection"},
	}, "title": "string or [connection](connections.md)"}
}

// A RefConfig is the config of a kind whose tools can use a connection.
type RefConfig interface {
	// Connection returns the connection, or nil.
	Connection() *Ref
}
