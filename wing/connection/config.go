package connection

import (
	"fmt"
	"strings"

	"agenthost/pkg/connection"
	"agenthost/pkg/spec"
)

// A Config is an app's connection: one kind of credential, and the hosts that may receive it.
type Config struct {
	Bearer spec.Secret   `yaml:"bearer" secret:"true" doc:"A bearer token, sent in the header Authorization."`
	Basic  *basicConfig  `yaml:"basic" doc:"A user name and a password (HTTP Basic authentication)."`
	APIKey *apiKeyConfig `yaml:"api_key" doc:"An API key in a header, the query or a cookie."`
	OAuth2 *oauthConfig  `yaml:"oauth2" doc:"Access tokens from an authorization server (OAuth 2), renewed before they expire."`
	Google *googleConfig `yaml:"google" doc:"Google Cloud tokens, for a service account or for the host's account."`
	Hosts  []spec.Text   `yaml:"hosts" doc:"The hosts that may receive the credential, such as api.example.com, api.example.com:8443 or *.example.com. Default: the hosts in the tool's own URLs."`

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
		if !connection.IsHostPattern(host.Value) {
			ds = append(ds, c.Hosts[i].Errorf(0, "value", "hosts must contain host names, got %q", host.Value).
				WithHint("write api.example.com, api.example.com:8443 or *.example.com, without https://"))
		}
	}
	return append(append(ds, c.checkValues()...), c.checkPlainText()...)
}

// kindNames are the Config keys that name a credential kind.
func kindNames() []string { return []string{"bearer", "basic", "api_key", "oauth2", "google"} }

func joinNames(names []string) string {
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// checkPlainText warns about credentials in the file.
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
	if k.In != connection.InQuery && !headerName.MatchString(k.Name.Value) {
		ds = append(ds, k.Name.Errorf(0, "header", "invalid %s name %q", k.In, k.Name.Value))
	}
	valid := headerValue
	if k.In == connection.InCookie {
		valid = cookieValue
	}
	if k.In != connection.InQuery && !valid.MatchString(k.Value.Reveal()) {
		ds = append(ds, withoutSource(k.Value.Errorf(0, "value", "the value is not allowed in a %s", k.In)))
	}
	return ds
}

// Addresses implements [connection.Config].
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

// UsesHostAccount implements [connection.Config].
func (c *Config) UsesHostAccount() bool { return c.Google != nil && c.Google.isOfHost() }

// Subject implements [connection.Exchange].
func (c *Config) Subject() *connection.Ref {
	if c.OAuth2 == nil || c.OAuth2.Subject.Value == "" {
		return nil
	}
	return &connection.Ref{Name: c.OAuth2.Subject, Node: c.node.Get("oauth2").Get("subject")}
}

// SubjectHosts implements [connection.Exchange]: the hosts are the document's, or its own
// authorization server.
func (c *Config) SubjectHosts() []string {
	if hosts := c.HostNames(); len(hosts) > 0 || c.OAuth2 == nil {
		return hosts
	}
	return []string{connection.HostOf(c.OAuth2.tokenAddress().Value)}
}

// IsPerUser reports whether each user authorizes the connection.
func (c *Config) IsPerUser() bool {
	return c.OAuth2 != nil && (c.OAuth2.Grant == grantAuthorizationCode || c.OAuth2.Grant == grantDeviceCode)
}

// HostNames implements [connection.Config].
func (c *Config) HostNames() []string {
	var hosts []string
	for _, host := range c.Hosts {
		hosts = append(hosts, host.Value)
	}
	return hosts
}

// Fingerprint implements [connection.Config].
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
