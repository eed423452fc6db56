package openapitool

import (
	"slices"
	"strings"

	"agenthost/pkg/spec"
)

// A securityScheme is how a service expects a credential.
type securityScheme struct {
	// key is the name in the document, kind its type: apiKey, http, oauth2, openIdConnect.
	key, kind string
	// in and name are the place of an API key; scheme is basic or bearer.
	in, name, scheme string
}

// describeScheme names the scheme in messages.
func (s *securityScheme) describeScheme() string {
	switch s.kind {
	case "apiKey":
		return s.key + " (apiKey in " + s.in + ")"
	case "http":
		return s.key + " (http " + s.scheme + ")"
	}
	return s.key + " (" + s.kind + ")"
}

// readSecurity reads the schemes of an operation, in the order of the document. An empty list
// asks for no credential, and so does an empty requirement among others.
func (r *operationReader) readSecurity(op *operation, full *spec.Node) {
	at := full.Get("security")
	if at == nil {
		at = r.doc.root.Get("security")
	}
	if at == nil || at.Kind != spec.Sequence {
		return
	}
	op.declaresSecurity, op.needsNone = true, len(at.Items) == 0
	for _, requirement := range at.Items {
		if requirement.Kind == spec.Mapping && len(requirement.Entries) == 0 {
			op.needsNone = true
		}
		for _, e := range requirement.Entries {
			if s := r.readScheme(e.Key); s != nil && !slices.ContainsFunc(op.schemes, func(o *securityScheme) bool { return o.key == s.key }) {
				op.schemes = append(op.schemes, s)
				op.addScopes(s, e.Value)
			}
		}
	}
}

// readScheme returns a scheme of the components, or nil, which is reported.
func (r *operationReader) readScheme(key *spec.Node) *securityScheme {
	escaped := strings.NewReplacer("~", "~0", "/", "~1").Replace(key.Value)
	found := r.doc.findPointer("/components/securitySchemes/" + escaped)
	if found == nil {
		r.doc.reportError(key, "openapi-auth", "security scheme %q not found under components.securitySchemes", cutMessage(key.Value))
		return nil
	}
	if found, _ = r.doc.followRefs(found); found == nil {
		return nil
	}
	text := func(key string) string {
		if v := found.Get(key); isString(v) {
			return v.Value
		}
		return ""
	}
	return &securityScheme{key: key.Value, kind: text("type"), in: text("in"), name: text("name"), scheme: strings.ToLower(text("scheme"))}
}

// addScopes adds the scopes that a requirement of OAuth 2 has.
func (o *operation) addScopes(s *securityScheme, list *spec.Node) {
	if s.kind != "oauth2" && s.kind != "openIdConnect" {
		return
	}
	for _, item := range list.Items {
		if isString(item) && !slices.Contains(o.scopes, item.Value) {
			o.scopes = append(o.scopes, item.Value)
		}
	}
}
