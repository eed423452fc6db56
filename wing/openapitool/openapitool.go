// Package openapitool provides the operations in an OpenAPI document, or in a Google discovery
// document, as tools: the tool kind openapi, and ADK's OpenAPIToolset. To use them, add both lists
// to the loader's kinds, the toolsets with what makes their connections:
//
//	loader.Kinds{
//		Tools:    append(builtin.Kinds(), openapitool.Kinds()...),
//		Builtins: append(builtin.Builtins(), openapitool.Toolsets[connections.ADKAuth](connections.Google{})...),
//	}
//
// The document is read once per load: in JSON only the chosen operations and what they refer to
// become nodes, so that a document with many megabytes costs little time and memory.
package openapitool

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"agenthost/internal/toolconfig"
	"agenthost/internal/toolhttp"
	"agenthost/pkg/connection"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

type config struct {
	Spec                  spec.Text                        `yaml:"spec" required:"true" doc:"The OpenAPI 3 document, or a Google API's discovery document, as JSON or YAML: a file in the app folder, or an https URL with sha256."`
	SHA256                spec.Text                        `yaml:"sha256" doc:"The document's SHA-256 hash, in hexadecimal."`
	Operations            []selector                       `yaml:"operations" doc:"The operations to provide: an operationId, a method with its path such as GET /pets/{petId}, {tag: NAME} or {method: GET}; default: all."`
	Except                []selector                       `yaml:"except" doc:"Operations to leave out, written as in operations."`
	BaseURL               spec.Text                        `yaml:"base_url" doc:"The service's address, instead of the document's servers."`
	ToolNamePrefix        string                           `yaml:"tool_name_prefix" doc:"Prefix for tool names, joined with _."`
	Names                 map[string]spec.Text             `yaml:"names" doc:"Tool names by operation, instead of the names that ADK derives from the operationId."`
	Auth                  *authConfig                      `yaml:"auth" doc:"The credential: the name of a connection under connections in app.yaml, {bearer: …}, {api_key: …} at the place that the document names, {api_key: {in, name, value}}, or {basic: {username, password}}."`
	Headers               map[string]spec.Secret           `yaml:"headers" doc:"Request headers; they may contain {user:key} and other state keys, {session.user_id} and {agent}. An optional placeholder without a value omits the header."`
	Params                map[string]map[string]*spec.Node `yaml:"params" doc:"Fixed parameter values by operation. The model does not see them."`
	Result                map[string]spec.Expr             `yaml:"result" doc:"Results by operation, computed from status, headers and body; default: the body."`
	Artifacts             map[string]spec.Text             `yaml:"artifacts" doc:"Session artifacts that responses are saved as, by operation; names may contain {args.x} and {state.key}. Default: only a response that is neither JSON nor text is saved, under the tool's name."`
	Confirm               toolconfig.ToolsetConfirm        `yaml:"confirm" doc:"Whether a call requires confirmation by a person (human-in-the-loop): true, or an expression over args, state, user, session, invocation, agent and tool, such as tool.method != \"GET\"."`
	OnError               string                           `yaml:"on_error" enum:"return|fail" default:"return" doc:"Whether an error is returned to the model or ends the invocation."`
	Timeout               spec.Duration                    `yaml:"timeout" default:"30s" doc:"Maximum call duration."`
	MaxResponse           spec.Size                        `yaml:"max_response" default:"1MiB" doc:"Maximum response size."`
	Preview               spec.Size                        `yaml:"preview" doc:"A larger result becomes its beginning, at least 256 bytes: {output: {truncated, original_size_bytes, message, preview}}. Default: whole results."`
	PreservePropertyNames bool                             `yaml:"preserve_property_names" doc:"Whether parameters keep the document's names; by default they are in snake_case, as in ADK."`
	Async                 toolconfig.AsyncConfig           `yaml:",inline"`
}

var (
	_ tool.DocumentConfig = (*config)(nil)
	_ tool.DocumentConfig = (*adkConfig[connection.UnsupportedADKAuth])(nil)
	_ tool.AddressConfig  = (*config)(nil)
	_ tool.StateConfig    = (*config)(nil)
	_ spec.Checker        = (*config)(nil)

	_ connection.RefConfig = (*config)(nil)
	_ spec.Checker         = (*adkConfig[connection.UnsupportedADKAuth])(nil)
	_ connection.RefConfig = (*adkConfig[connection.UnsupportedADKAuth])(nil)
)

// DocumentSource returns the document's file or URL.
func (c *config) DocumentSource() tool.DocumentSource {
	var selection strings.Builder
	for _, list := range [][]selector{c.Operations, c.Except} {
		for _, s := range list {
			selection.WriteString(strings.Join([]string{s.id, s.method, s.path, s.tag}, "\x00") + "\x01")
		}
		selection.WriteString("\x02")
	}
	return tool.DocumentSource{At: c.Spec, SHA256: c.SHA256, Selection: selection.String()}
}

// Addresses returns the address in the settings, if there is one.
func (c *config) Addresses() []spec.Text {
	if toolhttp.ConstantHost(c.BaseURL.Value) == "" {
		return nil // none, or reported by Check
	}
	return []spec.Text{c.BaseURL}
}

// ReadDocument reads the document's operations.
func (c *config) ReadDocument(file string, content []byte) (tool.Document, spec.Diagnostics) {
	return c.newToolset().readAPI(file, content)
}

// ResultExprs returns the operations' result expressions.
func (c *config) ResultExprs() []tool.StateExpr {
	var exprs []tool.StateExpr
	for _, e := range c.Result {
		exprs = append(exprs, tool.StateExpr{Expr: e, Env: toolhttp.ResponseEnv()})
	}
	return exprs
}

// StateUse returns the headers' placeholders and the confirmation condition.
func (c *config) StateUse(*spec.Node) tool.StateUse {
	u := toolconfig.ConfirmRuleUse(c.Confirm.Expr, confirmEnv())
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		u.AddPaths(c.Headers[name].Text, isCallName)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Artifacts)) {
		u.AddPaths(c.Artifacts[name], isCallName)
	}
	return u
}

// isCallName reports whether a placeholder's root is a value from the call, and no state key.
func isCallName(root string) bool {
	return slices.Contains([]string{"session", "agent", "args", "user", "invocation", "run_config"}, root)
}

// Check reports settings that cannot work with any document.
func (c *config) Check(n *spec.Node) spec.Diagnostics {
	ds := append(toolconfig.CheckTimeout(n), c.Async.CheckAsync(n, false, false)...)
	if c.BaseURL.Pos.Line > 0 && (toolhttp.ConstantHost(c.BaseURL.Value) == "" || strings.ContainsAny(c.BaseURL.Value, "{}?#")) {
		ds = append(ds, c.BaseURL.Errorf(0, "url", "base_url must start with http:// or https:// and a host, without placeholders and query"))
	}
	ds = append(ds, checkSource(c.Spec, c.SHA256)...)
	ds = append(ds, toolconfig.CheckPreview(n, c.Preview)...)
	var invalid spec.Diagnostics
	if _, err := toolconfig.CompileHeaders(c.Headers); errors.As(err, &invalid) {
		ds = append(ds, invalid...)
	}
	return ds
}

// checkSource reports the place when a document cannot be read, or not reproducibly.
func checkSource(at, sum spec.Text) spec.Diagnostics {
	isURL := strings.Contains(at.Value, "://")
	switch {
	case isURL && !strings.HasPrefix(at.Value, "https://"):
		return spec.Diagnostics{at.Errorf(0, "url", "spec must be a file in the app folder or an https URL")}
	case isURL && !isSHA256(sum.Value):
		return spec.Diagnostics{at.Errorf(0, "openapi", "a document at a URL requires sha256: its SHA-256 hash in hexadecimal").
			WithHint("review the document, then set sha256 to the output of: curl -sL URL | sha256sum")}
	case !isURL && sum.Pos.Line > 0:
		return spec.Diagnostics{sum.Errorf(0, "openapi", "sha256 requires a URL in spec")}
	}
	return nil
}

func isSHA256(text string) bool {
	return len(text) == 64 && strings.Trim(strings.ToLower(text), "0123456789abcdef") == ""
}

func (c *config) newToolset() *toolset {
	capabilities := tool.Capabilities{Timeout: time.Duration(c.Timeout), FailOnError: c.OnError == "fail"}
	c.Async.SetCapabilities(&capabilities)
	return &toolset{
		source: c.Spec.Value, operations: c.Operations, except: c.Except, baseURL: c.BaseURL, prefix: c.ToolNamePrefix, names: c.Names,
		auth: c.Auth.newCredential(), connected: c.Connection() != nil, authAt: c.Auth.valueText(), headers: c.Headers, params: c.Params, result: c.Result, artifacts: c.Artifacts, confirm: c.Confirm.Expr,
		capabilities: capabilities, maxResponse: int64(c.MaxResponse), preview: toolconfig.Preview(c.Preview), preserve: c.PreservePropertyNames, at: c.Spec,
	}
}

func newConfigSet(_ context.Context, env tool.Env, c *config) (tool.Set, error) {
	return c.newToolset().newSet(env)
}

// Connection returns the document's connection, or nil.
func (c *config) Connection() *connection.Ref {
	if c.Auth == nil {
		return nil
	}
	return c.Auth.connection
}
