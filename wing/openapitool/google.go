package openapitool

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"agenthost/internal/toolconfig"
	"agenthost/pkg/connection"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// googleConfig is the args for a toolset with one API. spec, sha256 and scopes are not ADK's: ADK
// downloads the document when it loads an agent.
type googleConfig struct {
	Spec              spec.Text              `yaml:"spec" doc:"The API's discovery document: a file in the app folder, or an https URL with sha256."`
	SHA256            spec.Text              `yaml:"sha256" doc:"The document's SHA-256 hash, in hexadecimal."`
	ClientID          spec.Secret            `yaml:"client_id" doc:"A Google OAuth client's ID: each user authorizes the app in a browser."`
	ClientSecret      spec.Secret            `yaml:"client_secret" secret:"true" doc:"The OAuth client's secret."`
	ServiceAccount    *serviceAccount        `yaml:"service_account" doc:"The service account that calls the API for all users, instead of an OAuth client: its key in JSON, such as ${secret:ROBOT}, or {service_account_credential, scopes} or {use_default_credential: true}."`
	Scopes            []string               `yaml:"scopes" doc:"The scopes to request, instead of those that the operations need."`
	AdditionalScopes  []string               `yaml:"additional_scopes" doc:"Scopes to request besides those that the operations need."`
	AdditionalHeaders map[string]spec.Secret `yaml:"additional_headers" doc:"Request headers; they may contain state keys, as in openapi tools."`
	ToolFilter        []spec.Text            `yaml:"tool_filter" doc:"The tools to provide, by their names without the prefix, such as calendar_events_list; default: all."`
	ToolNamePrefix    string                 `yaml:"tool_name_prefix" doc:"Prefix for tool names, joined with _."`

	api googleAPI
	// google is nil in a program without connections.
	google connection.Google
}

// anyGoogleConfig is ADK's GoogleApiToolset args (adk-python
// tools/google_api_tool/google_api_toolset.py).
type anyGoogleConfig struct {
	APIName      spec.Text    `yaml:"api_name" required:"true" doc:"The API's name, such as drive."`
	APIVersion   spec.Text    `yaml:"api_version" required:"true" doc:"The API's version, such as v3."`
	DiscoveryURL spec.Text    `yaml:"discovery_url" doc:"The discovery document's address, with {api} and {apiVersion}. Only errors name it: a load reads spec."`
	Google       googleConfig `yaml:",inline"`
}

// A serviceAccount is ADK's service_account, or its key.
type serviceAccount struct {
	key        spec.Secret
	scopes     []string
	usesHost   bool
	at         *spec.Node
	credential *spec.Node
}

type serviceAccountConfig struct {
	Credential spec.Secret `yaml:"service_account_credential" secret:"true" doc:"The service account's key, in JSON."`
	Scopes     []string    `yaml:"scopes" doc:"The tokens' scopes."`
	UseDefault bool        `yaml:"use_default_credential" doc:"Whether to use the host's account. The host policy must allow it."`
}

// DecodeSpec decodes the key or the mapping.
func (a *serviceAccount) DecodeSpec(n *spec.Node) spec.Diagnostics {
	a.at, a.credential = n, n
	if n.Kind != spec.Mapping {
		return a.key.DecodeSpec(n)
	}
	var c serviceAccountConfig
	ds := spec.Decode(n, &c)
	a.key, a.scopes, a.usesHost, a.credential = c.Credential, c.Scopes, c.UseDefault, n.Get("service_account_credential")
	if (a.key.Pos.Line > 0) == a.usesHost && !ds.HasErrors() {
		ds = append(ds, n.Errorf("required", "service_account requires exactly one of service_account_credential and use_default_credential: true"))
	}
	return ds
}

// SchemaSpec describes both forms.
func (a *serviceAccount) SchemaSpec() map[string]any {
	return map[string]any{
		"title": "the key of a service account, or ADK's mapping",
		"anyOf": []any{map[string]any{"type": "string"}, spec.Schema(reflect.TypeFor[serviceAccountConfig]())},
	}
}

var (
	_ tool.DocumentConnectionConfig = (*googleConfig)(nil)
	_ tool.DocumentConnectionConfig = (*anyGoogleConfig)(nil)
	_ tool.StateConfig              = (*googleConfig)(nil)
	_ tool.StateConfig              = (*anyGoogleConfig)(nil)
	_ spec.Checker                  = (*googleConfig)(nil)
	_ spec.Checker                  = (*anyGoogleConfig)(nil)
)

// DocumentSource returns the document's file or URL.
func (c *googleConfig) DocumentSource() tool.DocumentSource {
	selected := []string{"tool_filter"}
	for _, name := range c.ToolFilter {
		selected = append(selected, name.Value)
	}
	return tool.DocumentSource{At: c.Spec, SHA256: c.SHA256, Selection: strings.Join(selected, "\x00")}
}

// ReadDocument reads the document's operations.
func (c *googleConfig) ReadDocument(file string, content []byte) (tool.Document, spec.Diagnostics) {
	return c.newToolset().readAPI(file, content)
}

// StateUse returns the headers' placeholders.
func (c *googleConfig) StateUse(*spec.Node) tool.StateUse {
	var u tool.StateUse
	for _, name := range slices.Sorted(maps.Keys(c.AdditionalHeaders)) {
		u.AddPaths(c.AdditionalHeaders[name].Text, isCallName)
	}
	return u
}

// Check requires a document and one credential.
func (c *googleConfig) Check(n *spec.Node) spec.Diagnostics {
	if c.google == nil {
		return spec.Diagnostics{connection.Unsupported(n)}
	}
	var ds spec.Diagnostics
	if c.Spec.Value == "" {
		file, address := c.api.name+".json", c.api.documentURL()
		ds = append(ds, n.Errorf("required", "%s requires spec, the API's discovery document", c.api.kind).
			WithHint("run curl -sSfL -o %s '%s' in the app folder, and write spec: %[1]s under args", file, address))
	}
	ds = append(ds, checkSource(c.Spec, c.SHA256)...)
	hasClient, account := c.ClientID.Pos.Line > 0, c.ServiceAccount
	switch {
	case hasClient == (account != nil):
		ds = append(ds, n.Errorf("required", "%s requires exactly one of client_id and service_account", c.api.kind).
			WithHint("for another credential use openapi with the document, and with auth"))
	case !hasClient && c.ClientSecret.Pos.Line > 0:
		ds = append(ds, c.ClientSecret.Errorf(0, "required", "client_secret requires client_id"))
	}
	credentials := []*spec.Node{n.Get("client_secret")}
	if account != nil {
		credentials = append(credentials, account.credential)
		if account.key.Pos.Line > 0 {
			_, more := c.google.NewAccount(account.key, []string{"any"})
			ds = append(ds, more...)
		}
	}
	for _, at := range credentials {
		if at != nil && at.Kind == spec.Scalar && !at.IsNull() && !at.HasReference() {
			d := at.Warnf("key-in-file", "credential in a file").WithHint("store it as a secret, and write ${secret:NAME}")
			d.Source = ""
			ds = append(ds, d)
		}
	}
	var invalid spec.Diagnostics
	if _, err := toolconfig.CompileHeaders(c.AdditionalHeaders); errors.As(err, &invalid) {
		ds = append(ds, invalid...)
	}
	return ds
}

func (c *googleConfig) newToolset() *toolset {
	authAt := c.ClientID.Text
	if c.ServiceAccount != nil {
		authAt = c.ServiceAccount.at.Text()
	}
	return &toolset{
		source: c.Spec.Value, at: c.Spec, filter: c.ToolFilter, prefix: c.ToolNamePrefix, headers: c.AdditionalHeaders, connected: true, authAt: authAt,
		google: &c.api, capabilities: tool.Capabilities{Timeout: 30 * time.Second}, maxResponse: 1 << 20,
	}
}

// DocumentConnection returns the connection with the scopes that the operations need. The name of a
// connection for users has a hash over its client and scopes: connections with other clients or
// scopes have other tokens.
func (c *googleConfig) DocumentConnection(doc tool.Document) (*connection.Ref, spec.Diagnostics) {
	a, ok := doc.(*api)
	if !ok {
		return nil, nil // reported
	}
	scopes := slices.Clone(c.Scopes)
	if account := c.ServiceAccount; len(scopes) == 0 && account != nil {
		scopes = slices.Clone(account.scopes)
	}
	if len(scopes) == 0 {
		scopes = chooseScopes(a.operations)
	}
	for _, scope := range c.AdditionalScopes {
		if !slices.Contains(scopes, scope) {
			scopes = append(scopes, scope)
		}
	}
	if len(scopes) == 0 {
		return nil, spec.Diagnostics{c.Spec.Errorf(0, "openapi-auth", "the document has no scopes for the operations").WithHint("set scopes")}
	}
	if account := c.ServiceAccount; account != nil {
		key := account.key
		if account.usesHost {
			key = spec.Secret{}
		}
		conn, ds := c.google.NewAccount(key, scopes)
		return &connection.Ref{Name: spec.Text{Value: c.api.kind, Pos: account.at.Pos}, Inline: conn, Node: account.at}, ds
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q", c.ClientID.Reveal(), scopes))
	name := c.ClientID.Text
	name.Value = c.api.kind + "_" + hex.EncodeToString(sum[:4])
	return &connection.Ref{
		Name: name, Inline: c.google.NewUsers(c.ClientID, c.ClientSecret, scopes), Node: c.ClientID.Mapping("client_id", ""),
	}, nil
}

// chooseScopes returns scopes that suffice for operations: one that all accept, or else one for
// each operation.
func chooseScopes(ops []*operation) []string {
	var common, each []string
	isFirst, readsOnly := true, true
	for _, op := range ops {
		if len(op.scopes) == 0 {
			continue
		}
		if isFirst {
			common, isFirst = slices.Clone(op.scopes), false
		}
		common = slices.DeleteFunc(common, func(scope string) bool { return !slices.Contains(op.scopes, scope) })
		readsOnly = readsOnly && op.method == http.MethodGet
		if !slices.ContainsFunc(op.scopes, func(scope string) bool { return slices.Contains(each, scope) }) {
			each = append(each, preferScope(op.scopes, op.method == http.MethodGet))
		}
	}
	if len(common) == 0 {
		return each
	}
	return []string{preferScope(common, readsOnly)}
}

// preferScope returns the scope to request when any one in the list suffices. Drive and Cloud
// Platform scopes, which many APIs accept, are the last choice. For reading it prefers the scope
// that ends with .readonly and has the fewest words: others cover only a part of the data.
func preferScope(scopes []string, readsOnly bool) string {
	own := slices.DeleteFunc(slices.Clone(scopes), func(scope string) bool {
		_, name, _ := strings.Cut(scope, "/auth/")
		return strings.HasPrefix(name, "drive") || strings.HasPrefix(name, "cloud-platform")
	})
	if len(own) > 0 {
		scopes = own
	}
	best := ""
	for _, scope := range scopes {
		if readsOnly && strings.HasSuffix(scope, ".readonly") && (best == "" || strings.Count(scope, ".") < strings.Count(best, ".")) {
			best = scope
		}
	}
	return cmp.Or(best, scopes[0])
}

func newGoogleSet(_ context.Context, env tool.Env, c *googleConfig) (tool.Set, error) {
	return c.newToolset().newSet(env)
}

// withAPI returns the settings with the API that they name.
func (c *anyGoogleConfig) withAPI() *googleConfig {
	google := c.Google
	google.api = googleAPI{kind: "GoogleApiToolset", name: c.APIName.Value, version: c.APIVersion.Value, discoveryURL: c.DiscoveryURL.Value}
	return &google
}

// DocumentSource returns the document's file or URL.
func (c *anyGoogleConfig) DocumentSource() tool.DocumentSource { return c.Google.DocumentSource() }

// ReadDocument reads the document's operations.
func (c *anyGoogleConfig) ReadDocument(file string, content []byte) (tool.Document, spec.Diagnostics) {
	return c.withAPI().ReadDocument(file, content)
}

// StateUse returns the headers' placeholders.
func (c *anyGoogleConfig) StateUse(n *spec.Node) tool.StateUse { return c.Google.StateUse(n) }

// DocumentConnection returns the connection with the scopes that the operations need.
func (c *anyGoogleConfig) DocumentConnection(doc tool.Document) (*connection.Ref, spec.Diagnostics) {
	return c.withAPI().DocumentConnection(doc)
}

// Check requires a name and a version that can be in an address.
func (c *anyGoogleConfig) Check(n *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	for _, at := range []spec.Text{c.APIName, c.APIVersion} {
		if at.Pos.Line > 0 && !apiWord.MatchString(at.Value) {
			ds = append(ds, at.Errorf(0, "value", "api_name and api_version must name an API, such as drive and v3, got %q", at.Value))
		}
	}
	if at := c.DiscoveryURL; at.Value != "" && !strings.HasPrefix(at.Value, "https://") {
		ds = append(ds, at.Errorf(0, "url", "discovery_url must start with https://"))
	}
	if len(ds) > 0 {
		return ds
	}
	return c.withAPI().Check(n)
}

func newAnyGoogleSet(_ context.Context, env tool.Env, c *anyGoogleConfig) (tool.Set, error) {
	return c.withAPI().newToolset().newSet(env)
}

// apiWord matches API names and versions.
var apiWord = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,60}$`)
