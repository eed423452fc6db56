package openapitool

import (
	"slices"
	"strings"

	"agenthost/pkg/spec"
)

// chooseCredentials keeps, for each operation, the scheme that the credential fits, and reports
// operations without a credential.
func (t *toolset) chooseCredentials(ops []*operation) spec.Diagnostics {
	var missing []*operation
	for _, op := range ops {
		wanted := op.schemes
		op.schemes = nil
		if t.connected {
			op.connected = t.connectsAll || !op.declaresSecurity || len(wanted) > 0
			continue
		}
		if t.auth != nil && t.auth.name != "" && (!op.declaresSecurity || len(wanted) > 0) {
			op.schemes = []*securityScheme{{kind: "apiKey", in: t.auth.in, name: t.auth.name}}
			continue
		}
		if t.auth != nil {
			if i := slices.IndexFunc(wanted, t.auth.fitsScheme); i >= 0 {
				op.schemes = wanted[i : i+1]
				continue
			}
			if !op.declaresSecurity && t.auth.kind != "api_key" {
				op.schemes = []*securityScheme{{kind: "http", scheme: t.auth.kind}}
				continue
			}
		}
		if len(wanted) > 0 && !op.needsNone && !t.hasOwnCredential(wanted) {
			op.schemes = wanted
			missing = append(missing, op)
		}
	}
	if t.connected && !slices.ContainsFunc(ops, func(op *operation) bool { return op.connected }) {
		return spec.Diagnostics{t.authAt.Warnf(0, "openapi-auth", "no operation uses the connection: the document asks for no credential").WithHint("remove auth")}
	}
	ds := t.reportMissing(missing)
	if t.auth != nil && len(missing) == 0 && !slices.ContainsFunc(ops, func(op *operation) bool { return len(op.schemes) > 0 }) {
		ds = append(ds, t.authAt.Warnf(0, "openapi-auth", "no operation uses the credential: the document does not ask for one").
			WithHint("remove auth, or write auth: {api_key: {in: header, name: NAME, value: …}}"))
	}
	return ds
}

// hasOwnCredential reports whether the settings' headers have the credential.
func (t *toolset) hasOwnCredential(schemes []*securityScheme) bool {
	return slices.ContainsFunc(schemes, func(s *securityScheme) bool {
		header := "Authorization"
		if s.kind == "apiKey" {
			header = s.name
		}
		for name := range t.headers {
			if strings.EqualFold(name, header) && s.in != "query" && s.in != "cookie" {
				return true
			}
		}
		return false
	})
}

// reportMissing reports operations without a credential in one warning, and sends none.
func (t *toolset) reportMissing(ops []*operation) spec.Diagnostics {
	if len(ops) == 0 {
		return nil
	}
	var labels, wanted []string
	for _, op := range ops {
		labels = append(labels, op.displayName())
		for _, s := range op.schemes {
			wanted = append(wanted, s.describeScheme())
		}
		op.schemes = nil
	}
	slices.Sort(wanted)
	shown := strings.Join(labels[:min(len(labels), 5)], ", ")
	if len(labels) > 5 {
		shown += ", …"
	}
	at, what := t.at, "there is none"
	if t.auth != nil {
		at, what = t.authAt, "auth has another"
	}
	return spec.Diagnostics{at.Warnf(0, "openapi-auth", "the document asks for a credential and %s: %s", what, shown).
		WithHint("set auth for one of: %s", strings.Join(slices.Compact(wanted), ", "))}
}
