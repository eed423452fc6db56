package openapitool

import (
	"context"
	"time"

	"agenthost/pkg/connection"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// adkConfig is ADK's OpenAPIToolset args (adk-python
// tools/openapi_tool/openapi_spec_parser/openapi_toolset.py).
type adkConfig[A connection.ADKAuth] struct {
	SpecStr               spec.Text   `yaml:"spec_str" doc:"The document as a string, such as ${file:petstore.yaml}."`
	SpecStrType           string      `yaml:"spec_str_type" enum:"json|yaml" default:"json" doc:"The format in spec_str."`
	SpecDict              *spec.Node  `yaml:"spec_dict" doc:"The document as a mapping."`
	ToolFilter            []spec.Text `yaml:"tool_filter" doc:"The tools to provide, by their names without the prefix; default: all."`
	ToolNamePrefix        string      `yaml:"tool_name_prefix" doc:"Prefix for tool names, joined with _."`
	SSLVerify             *bool       `yaml:"ssl_verify" doc:"Whether to verify certificates; only true is supported."`
	PreservePropertyNames bool        `yaml:"preserve_property_names" doc:"Whether parameters keep the document's names; by default they are in snake_case."`

	Auth A `yaml:",inline"`
}

// Connection returns the connection that auth_scheme and auth_credential describe, or nil.
func (c *adkConfig[A]) Connection() *connection.Ref { return c.Auth.Ref(nil) }

// inlineFile names a document in spec_str.
const inlineFile = "spec_str"

// DocumentSource returns no place: the config contains the document.
func (c *adkConfig[A]) DocumentSource() tool.DocumentSource { return tool.DocumentSource{} }

// ReadDocument reads the document in the config.
func (c *adkConfig[A]) ReadDocument(string, []byte) (tool.Document, spec.Diagnostics) {
	t := c.newToolset()
	if c.SpecDict != nil {
		return t.readDocumentAPI(newDocument(c.SpecDict.Pos.File, c.SpecDict), nil)
	}
	found, ds := t.readAPI(inlineFile, []byte(c.SpecStr.Value))
	for i := range ds {
		// Lines in the string are not lines in the file.
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
func (c *adkConfig[A]) Check(n *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	if (c.SpecStr.Pos.Line > 0) == (c.SpecDict != nil) {
		ds = append(ds, n.Errorf("required", "exactly one of spec_str and spec_dict is required"))
	}
	if c.SSLVerify != nil && !*c.SSLVerify {
		ds = append(ds, n.Get("ssl_verify").Errorf("openapi", "ssl_verify: false is not supported: certificates are always verified").
			WithHint("add the service's certificate to the host's certificates, for example with SSL_CERT_FILE"))
	}
	return append(ds, c.Auth.Check(n, nil)...)
}

func (c *adkConfig[A]) newToolset() *toolset {
	t := &toolset{
		at: c.SpecStr, filter: c.ToolFilter, prefix: c.ToolNamePrefix, preserve: c.PreservePropertyNames,
		capabilities: tool.Capabilities{Timeout: 30 * time.Second}, maxResponse: 1 << 20,
	}
	if c.SpecDict != nil {
		t.at = spec.Text{Pos: c.SpecDict.Pos}
	}
	t.authAt = t.at
	// ADK sends the credential with every call, whatever the document asks for.
	t.connected, t.connectsAll = c.Connection() != nil, true
	return t
}

func newADKSet[A connection.ADKAuth](_ context.Context, env tool.Env, c *adkConfig[A]) (tool.Set, error) {
	return c.newToolset().newSet(env)
}
