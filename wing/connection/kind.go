// Package connection provides the credential kinds that documents declare under connections: static
// ones, OAuth 2 tokens for the app itself or for its users, and Google Cloud tokens. To use them,
// hand the kind to the loader, and ADK's syntax to toolsets:
//
//	grants := connections.NewGrants(connections.GrantOptions{Store: store.Grants, Keys: keys})
//	loader.Kinds{
//		Connections: connections.NewKind(grants),
//		Builtins:    append(builtin.Builtins(), mcptool.Toolsets[connections.ADKAuth]()...),
//	}
//
// Users authorize connections in a browser (package oauthweb takes the answer), or with a code on
// another device. The runtime finishes consents with the grants (Options.Consents).
package connection

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"reflect"
	"strings"

	"agenthost/pkg/connection"
	"agenthost/pkg/spec"
)

type kind struct{ grants *Grants }

// NewKind returns the connection kind. Nil grants mean that users can authorize none.
func NewKind(grants *Grants) connection.Kind { return kind{grants} }

// Decode implements [connection.Kind].
func (kind) Decode(n *spec.Node, inline bool) (connection.Config, spec.Diagnostics) {
	c := &Config{}
	ds := c.DecodeSpec(n)
	if inline && !ds.HasErrors() && c.IsPerUser() {
		ds = append(ds, n.Errorf("value", "a connection with the grant %s must have a name", c.OAuth2.Grant).
			WithHint("declare it under connections in app.yaml, and write auth: NAME"))
	}
	return c, ds
}

// Open implements [connection.Kind].
func (k kind) Open(c connection.Config, env connection.Env) (connection.Source, error) {
	own, ok := c.(*Config)
	if !ok {
		return nil, fmt.Errorf("connection %s is not one of this kind", env.Name)
	}
	return own.openSource(env, k.grants)
}

// openSource returns the source of the credentials, with users' grants.
func (c *Config) openSource(env connection.Env, grants *Grants) (connection.Source, error) {
	switch {
	case c.Bearer.Pos.Line > 0:
		token := c.Bearer.Reveal()
		return static{&connection.Credential{In: connection.InHeader, Name: "Authorization", Value: "Bearer " + token, Secrets: []string{token}}}, nil
	case c.Basic != nil:
		user, password := c.Basic.Username.Reveal(), c.Basic.Password.Reveal()
		code := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
		return static{&connection.Credential{In: connection.InHeader, Name: "Authorization", Value: "Basic " + code, Secrets: []string{password, code}}}, nil
	case c.APIKey != nil:
		k, value := c.APIKey, c.APIKey.Value.Reveal()
		return static{&connection.Credential{In: k.In, Name: k.Name.Value, Value: value, Secrets: []string{value}}}, nil
	case c.IsPerUser():
		return newUserTokens(c.OAuth2, env, grants)
	case c.OAuth2 != nil && c.OAuth2.Grant == grantTokenExchange:
		return newExchangedTokens(c.OAuth2, env)
	case c.OAuth2 != nil:
		return newClientCredentials(c.OAuth2, env), nil
	case c.Google != nil:
		return newGoogleTokens(c.Google, env), nil
	}
	return nil, fmt.Errorf("a connection requires exactly one of %s", joinNames(kindNames()))
}

// Discover implements [connection.Discoverer]: each user authorizes the app at the authorization
// server that the service's metadata names.
func (kind) Discover(resource spec.Text) (name string, c connection.Config) {
	return nameFound(resource.Value), &Config{OAuth2: &oauthConfig{Grant: grantAuthorizationCode, Resource: resource, TokenAuth: authBasic}}
}

// maxFoundName keeps the tool authorize_NAME within the 64 bytes that model services allow.
const maxFoundName = 54

// nameFound returns the name for the connection of a service that is known by its address only. A
// query may be a key, and is only in the hash.
func nameFound(address string) string {
	name := "oauth_" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToLower(describeAddress(address)))
	if len(name) <= maxFoundName && !strings.Contains(address, "?") {
		return name
	}
	hash := "_" + hashID("found", address)[:8]
	return name[:min(len(name), maxFoundName-len(hash))] + hash
}

// describeAddress returns an address without its scheme and query.
func describeAddress(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host + strings.TrimRight(u.EscapedPath(), "/")
}

// ConfigType implements [connection.Kind].
func (kind) ConfigType() reflect.Type { return reflect.TypeFor[Config]() }
