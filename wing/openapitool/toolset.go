package openapitool

import (
	"net/url"
	"slices"
	"strings"

	"agenthost/internal/toolconfig"

	"agenthost/pkg/spec"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

// A toolset is the settings that all YAML forms resolve to.
type toolset struct {
	// source is the document's file or URL, and at its place.
	source string
	at     spec.Text
	// operations and except select the operations; filter does so by tool name.
	operations, except []selector
	filter             []spec.Text
	baseURL            spec.Text
	prefix             string
	names              map[string]spec.Text
	auth               *credential
	authAt             spec.Text
	// connected sends a connection's credential, instead of auth.
	connected bool
	// connectsAll sends it also with operations that ask for none.
	connectsAll bool
	// google is set for a Google API toolset, whose addresses must be Google's.
	google       *googleAPI
	headers      map[string]spec.Secret
	params       map[string]map[string]*spec.Node
	result       map[string]spec.Expr
	artifacts    map[string]spec.Text
	confirm      spec.Expr
	capabilities tool.Capabilities
	maxResponse  int64
	preview      toolconfig.Preview
	preserve     bool
}

// confirmEnv declares the confirmation's variable tool.
func confirmEnv() template.Env {
	return template.Env{"tool": template.Env{"name": "", "method": "", "path": "", "operation_id": ""}}
}

// A selector selects operations by an operationId, by a method with a path, or by a tag or
// method.
type selector struct {
	at          *spec.Node
	id, path    string
	tag, method string
}

// DecodeSpec decodes a string or a mapping.
func (s *selector) DecodeSpec(n *spec.Node) spec.Diagnostics {
	s.at = n
	if n.Kind == spec.Scalar && !n.IsNull() {
		if method, path, ok := strings.Cut(n.Value, " "); ok {
			s.method, s.path = strings.ToUpper(method), strings.TrimSpace(path)
			return s.checkMethod()
		}
		s.id = n.Value
		return nil
	}
	var c selectorConfig
	if n.Kind != spec.Mapping || len(n.Entries) == 0 {
		return spec.Diagnostics{n.Errorf("type", "an operation must be an operationId, a method with its path, {tag: NAME} or {method: GET}")}
	}
	ds := spec.Decode(n, &c)
	s.tag, s.method = c.Tag, strings.ToUpper(c.Method)
	return append(ds, s.checkMethod()...)
}

type selectorConfig struct {
	Tag    string `yaml:"tag" doc:"A tag in the document."`
	Method string `yaml:"method" doc:"A method, such as GET."`
}

func (s *selector) checkMethod() spec.Diagnostics {
	if s.method == "" || slices.Contains(methodNames(), strings.ToLower(s.method)) {
		return nil
	}
	return spec.Diagnostics{s.at.Errorf("openapi-operation", "unknown method %q", s.method).WithHint("methods: %s", strings.ToUpper(strings.Join(methodNames(), ", ")))}
}

// SchemaSpec describes both forms.
func (s *selector) SchemaSpec() map[string]any {
	return map[string]any{
		"title": "an operationId, a method with its path, a tag or a method",
		"anyOf": []any{
			map[string]any{"type": "string"},
			map[string]any{
				"type": "object", "additionalProperties": false, "minProperties": 1,
				"properties": map[string]any{"tag": map[string]any{"type": "string"}, "method": map[string]any{"type": "string"}},
			},
		},
	}
}

// matchesOperation reports whether the selector selects an operation.
func (s *selector) matchesOperation(op *operation) bool {
	switch {
	case s.id != "":
		return op.id == s.id || op.baseName() == s.id
	case s.path != "":
		return op.method == s.method && op.path == s.path
	}
	return (s.tag == "" || slices.Contains(op.tags, s.tag)) && (s.method == "" || op.method == s.method)
}

// A googleAPI is a Google API, with its tools' kind.
type googleAPI struct {
	kind, title, name, version string
	// discoveryURL is where the discovery document is, or "" for the address that all have.
	discoveryURL string
}

// documentURL returns the discovery document's address.
func (a *googleAPI) documentURL() string {
	if a.discoveryURL != "" {
		return strings.NewReplacer("{api}", a.name, "{apiVersion}", a.version).Replace(a.discoveryURL)
	}
	return "https://www.googleapis.com/discovery/v1/apis/" + url.PathEscape(a.name) + "/" + url.PathEscape(a.version) + "/rest"
}

// findSetting returns an operation's setting in a map by operationId or tool name.
func findSetting[T any](settings map[string]T, op *operation) (T, bool) {
	for _, key := range []string{op.id, op.baseName(), op.method + " " + op.path} {
		if v, ok := settings[key]; ok && key != "" {
			return v, true
		}
	}
	var none T
	return none, false
}
