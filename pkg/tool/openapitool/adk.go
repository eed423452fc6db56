package openapitool

import (
	"context"
	"reflect"
	"time"

	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

func apiKeyType() reflect.Type { return reflect.TypeFor[apiKeyPlace]() }

// adkConfig is the args of ADK's OpenAPIToolset (adk-python
// tools/openapi_tool/openapi_spec_parser/openapi_toolset.py).
type adkConfig struct {
	SpecStr               spec.Text      `yaml:"spec_str" doc:"The document as a string, such as ${file:petstore.yaml}."`
	SpecStrType           string         `yaml:"spec_str_type" enum:"json|yaml" default:"json" doc:"The format of spec_str."`
	SpecDict              *spec.Node     `yaml:"spec_dict" doc:"The document as a mapping."`
	ToolFilter            []spec.Text    `yaml:"tool_filter" doc:"The tools to provide, by their names without the prefix; default: all."`
	ToolNamePrefix        string         `yaml:"tool_name_prefix" doc:"Prefix of the tool names, joined with _."`
	AuthScheme            *adkScheme     `yaml:"auth_scheme" doc:"How the service expects the credential, instead of the document's security."`
	AuthCredential        *adkCredential `yaml:"auth_credential" doc:"The credential."`
	CredentialKey         string         `yaml:"credential_key" doc:"The key of ADK's credential store. A static credential has none, so that it only has a meaning in ADK."`
	SSLVerify             *bool          `yaml:"ssl_verify" doc:"Whether to verify certificates; only true is supported."`
	PreservePropertyNames bool           `yaml:"preserve_property_names" doc:"Whether parameters keep the names of the document; by default they are in snake_case."`
}

type adkScheme struct {
	Type   string `yaml:"type" enum:"apiKey|http|oauth2|openIdConnect" required:"true" doc:"The type of the scheme."`
	In     string `yaml:"in" enum:"header|query|cookie" doc:"The place of an API key."`
	Name   string `yaml:"name" doc:"The name of the header, the query parameter or the cookie of an API key."`
	Scheme string `yaml:"scheme" doc:"The scheme of http: basic or bearer."`
}

type adkCredential struct {
	AuthType spec.Text   `yaml:"auth_type" doc:"apiKey, http or oauth2."`
	APIKey   spec.Secret `yaml:"api_key" doc:"The API key."`
	HTTP     *adkHTTP    `yaml:"http" doc:"A token, or a user name and a password."`
	OAuth2   *adkOAuth2  `yaml:"oauth2" doc:"An access token."`
}

type adkHTTP struct {
	Scheme      string         `yaml:"scheme" doc:"basic or bearer."`
	Credentials adkHTTPSecrets `yaml:"credentials" required:"true" doc:"The token, or the user name and the password."`
}

type adkHTTPSecrets struct {
	Username spec.Secret `yaml:"username" doc:"The user name."`
	Password spec.Secret `yaml:"password" doc:"The password."`
	Token    spec.Secret `yaml:"token" doc:"The token."`
}

type adkOAuth2 struct {
	AccessToken spec.Secret `yaml:"access_token" required:"true" doc:"The access token."`
}

// inlineFile is the name of a document in spec_str.
const inlineFile = "spec_str"

// DocumentSource returns no place: the config contains the document.
func (c *adkConfig) DocumentSource() tool.DocumentSource { return tool.DocumentSource{} }

// ReadDocument reads the document in the config.
func (c *adkConfig) ReadDocument(string, []byte) (tool.Document, spec.Diagnostics) {
	t := c.newToolset()
	if c.SpecDict != nil {
		return t.readDocumentAPI(newDocument(c.SpecDict.Pos.File, c.SpecDict), nil)
	}
	found, ds := t.readAPI(inlineFile, []byte(c.SpecStr.Value))
	for i := range ds {
		// The lines of the string are not those of the file.
		if ds[i].Pos.File == inlineFile {
			inner := ds[i].Pos
			at := c.SpecStr.Errorf(0, ds[i].Rule, "spec_str, line %d, column %d: %s", inner.Line, inner.Col, ds[i].Message)
			at.Severity, at.Hint = ds[i].Severity, ds[i].Hint
			ds[i] = at
		}
	}
	return found, ds
}

// Check requires exactly one document, as ADK does, and reports what is not supported.
func (c *adkConfig) Check(n *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	if (c.SpecStr.Pos.Line > 0) == (c.SpecDict != nil) {
		ds = append(ds, n.Errorf("required", "exactly one of spec_str and spec_dict is required"))
	}
	if c.SSLVerify != nil && !*c.SSLVerify {
		ds = append(ds, n.Get("ssl_verify").Errorf("openapi", "ssl_verify: false is not supported: certificates are always verified").
			WithHint("add the certificate of the service to those of the host, for example with SSL_CERT_FILE"))
	}
	if (c.AuthScheme == nil) != (c.AuthCredential == nil) {
		ds = append(ds, n.Errorf("openapi-auth", "auth_scheme and auth_credential require each other"))
	}
	if at := n.Get("auth_credential"); c.AuthCredential != nil && c.newCredential() == nil {
		ds = append(ds, at.Errorf("openapi-auth", "auth_credential requires api_key, http or oauth2 with access_token"))
	}
	if s := c.AuthScheme; s != nil && s.Type == "apiKey" && (s.In == "" || s.Name == "") {
		ds = append(ds, n.Get("auth_scheme").Errorf("required", "an auth_scheme of the type apiKey requires in and name"))
	}
	return ds
}

func (c *adkConfig) newToolset() *toolset {
	t := &toolset{
		at: c.SpecStr, filter: c.ToolFilter, prefix: c.ToolNamePrefix, preserve: c.PreservePropertyNames, auth: c.newCredential(),
		capabilities: tool.Capabilities{Timeout: 30 * time.Second}, maxResponse: 1 << 20,
	}
	if c.SpecDict != nil {
		t.at = spec.Text{Pos: c.SpecDict.Pos}
	}
	t.authAt = t.at
	if s := c.AuthScheme; s != nil {
		t.scheme = &securityScheme{key: "auth_scheme", kind: s.Type, in: s.In, name: s.Name, scheme: s.Scheme}
	}
	return t
}

// newCredential returns the credential, or nil.
func (c *adkConfig) newCredential() *credential {
	a := c.AuthCredential
	switch {
	case a == nil:
		return nil
	case a.APIKey.Pos.Line > 0:
		return &credential{kind: "api_key", value: a.APIKey}
	case a.HTTP != nil && a.HTTP.Credentials.Token.Pos.Line > 0:
		return &credential{kind: "bearer", value: a.HTTP.Credentials.Token}
	case a.HTTP != nil && a.HTTP.Credentials.Username.Pos.Line > 0:
		return &credential{kind: "basic", value: a.HTTP.Credentials.Username, password: a.HTTP.Credentials.Password}
	case a.OAuth2 != nil:
		return &credential{kind: "bearer", value: a.OAuth2.AccessToken}
	}
	return nil
}

func newADKSet(_ context.Context, env tool.Env, c *adkConfig) (tool.Set, error) {
	return c.newToolset().newSet(env)
}
