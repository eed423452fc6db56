package openapitool

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"reflect"
	"strings"

	"agenthost/internal/toolconfig"
	"agenthost/internal/toolhttp"
	"agenthost/pkg/connection"
	"agenthost/pkg/spec"
)

// authConfig is a connection's name, or a static credential.
type authConfig struct {
	// connection is nil unless the document names one.
	connection *connection.Ref
	forms      authForms
}

// authForms is a static credential: exactly one field is set.
type authForms struct {
	Bearer spec.Secret   `yaml:"bearer" doc:"A token, sent as Authorization: Bearer."`
	APIKey *apiKeyConfig `yaml:"api_key" doc:"An API key: its value, or {in, name, value} if the document does not name its place."`
	Basic  *basicConfig  `yaml:"basic" doc:"A user name and a password, sent as Authorization: Basic."`
}

type apiKeyPlace struct {
	In    string      `yaml:"in" enum:"header|query|cookie" default:"header" doc:"Where the key is sent."`
	Name  string      `yaml:"name" required:"true" doc:"The name of the header, the query parameter or the cookie."`
	Value spec.Secret `yaml:"value" required:"true" doc:"The key."`
}

// apiKeyConfig is a key, with its place or at the place that the document names.
type apiKeyConfig struct{ place apiKeyPlace }

// DecodeSpec decodes the value or the mapping.
func (c *apiKeyConfig) DecodeSpec(n *spec.Node) spec.Diagnostics {
	if n.Kind == spec.Mapping {
		return spec.Decode(n, &c.place)
	}
	return c.place.Value.DecodeSpec(n)
}

// SchemaSpec describes both forms.
func (c *apiKeyConfig) SchemaSpec() map[string]any {
	return map[string]any{
		"title": "the key, or its place and value",
		"anyOf": []any{map[string]any{"type": "string"}, spec.Schema(reflect.TypeFor[apiKeyPlace]())},
	}
}

type basicConfig struct {
	Username spec.Secret `yaml:"username" required:"true" doc:"The user name."`
	Password spec.Secret `yaml:"password" required:"true" doc:"The password."`
}

// DecodeSpec decodes the name or the mapping.
func (c *authConfig) DecodeSpec(n *spec.Node) spec.Diagnostics {
	if n.Kind != spec.Mapping {
		c.connection = &connection.Ref{}
		return c.connection.DecodeSpec(n)
	}
	ds := spec.Decode(n, &c.forms)
	if ds.HasErrors() {
		return ds
	}
	ways := 0
	for _, set := range []bool{c.forms.Bearer.Pos.Line > 0, c.forms.APIKey != nil, c.forms.Basic != nil} {
		if set {
			ways++
		}
	}
	if ways != 1 {
		ds = append(ds, n.Errorf("required", "auth requires exactly one of bearer, api_key and basic").
			WithHint("declare other credentials under connections in app.yaml, and write auth: NAME"))
	}
	return ds
}

// SchemaSpec describes both forms.
func (c *authConfig) SchemaSpec() map[string]any {
	credential := map[string]any{
		"type": "object", "additionalProperties": false, "minProperties": 1, "maxProperties": 1,
		"properties": map[string]any{
			"bearer":  map[string]any{"type": "string"},
			"api_key": (*apiKeyConfig)(nil).SchemaSpec(),
			"basic":   spec.Schema(reflect.TypeFor[basicConfig]()),
		},
	}
	return map[string]any{"title": "a connection, or a credential", "anyOf": []any{map[string]any{"type": "string"}, credential}}
}

// valueText returns the credential's place.
func (c *authConfig) valueText() spec.Text {
	switch {
	case c == nil:
		return spec.Text{}
	case c.connection != nil:
		return c.connection.Name
	case c.forms.APIKey != nil:
		return c.forms.APIKey.place.Value.Text
	case c.forms.Basic != nil:
		return c.forms.Basic.Username.Text
	}
	return c.forms.Bearer.Text
}

// newCredential returns the credential, or nil.
func (c *authConfig) newCredential() *credential {
	switch {
	case c == nil || c.connection != nil:
		return nil
	case c.forms.APIKey != nil:
		p := c.forms.APIKey.place
		return &credential{kind: "api_key", in: p.In, name: p.Name, value: p.Value}
	case c.forms.Basic != nil:
		return &credential{kind: "basic", value: c.forms.Basic.Username, password: c.forms.Basic.Password}
	}
	return &credential{kind: "bearer", value: c.forms.Bearer}
}

// A credential is the app's static credential.
type credential struct {
	// kind is bearer, api_key or basic.
	kind string
	// in and name are an API key's place; empty means the document's.
	in, name        string
	value, password spec.Secret
}

// listSecrets returns the values to redact: the credential in all the forms that are sent.
func (c *credential) listSecrets() []string {
	if c == nil {
		return nil
	}
	secrets := toolconfig.SecretsOf(map[string]spec.Secret{"value": c.value, "password": c.password})
	if c.kind == "basic" && len(secrets) > 0 {
		secrets = append(secrets, c.encodeBasic())
	}
	return secrets
}

func (c *credential) encodeBasic() string {
	return base64.StdEncoding.EncodeToString([]byte(c.value.Reveal() + ":" + c.password.Reveal()))
}

// fitsScheme reports whether the credential is what a scheme asks for.
func (c *credential) fitsScheme(s *securityScheme) bool {
	switch c.kind {
	case "api_key":
		return s.kind == "apiKey"
	case "basic":
		return s.kind == "http" && s.scheme == "basic"
	}
	return s.kind == "oauth2" || s.kind == "openIdConnect" || s.kind == "http" && s.scheme == "bearer"
}

// authorizeRequest adds the credential to a request; scheme is what the document asks for, or nil.
func (c *credential) authorizeRequest(req *http.Request, scheme *securityScheme) error {
	value := c.value.Reveal()
	if strings.ContainsAny(value, "\r\n\x00") {
		return errors.New("auth: the credential contains a line break")
	}
	switch c.kind {
	case "bearer":
		req.Header.Set("Authorization", "Bearer "+value)
		return nil
	case "basic":
		req.Header.Set("Authorization", "Basic "+c.encodeBasic())
		return nil
	}
	in, name := c.in, c.name
	if name == "" && scheme != nil {
		in, name = scheme.in, scheme.name
	}
	switch in {
	case "query":
		req.URL.RawQuery = strings.TrimPrefix(toolhttp.AppendQuery("?"+req.URL.RawQuery, url.Values{name: {value}}.Encode()), "?")
	case "cookie":
		addCookie(req, name, value)
	default:
		req.Header.Set(name, value)
	}
	return nil
}

// addCookie appends a cookie to the header.
func addCookie(req *http.Request, name, value string) {
	text := name + "=" + url.QueryEscape(value)
	if before := req.Header.Get("Cookie"); before != "" {
		text = before + "; " + text
	}
	req.Header.Set("Cookie", text)
}
