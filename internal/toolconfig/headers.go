package toolconfig

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"agenthost/pkg/spec"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

// Headers are request headers whose values may depend on the session, such as
// `Bearer {user:token}`. They are immutable.
type Headers struct{ all []NamedTemplate }

// CompileHeaders compiles headers that are the same for all calls in a session: their placeholders
// are state keys, state, session and agent. The error is a [spec.Diagnostics].
func CompileHeaders(src map[string]spec.Secret) (*Headers, error) {
	read := Compiler{Params: &tool.Params{}}
	for name, text := range src {
		if !IsHeaderName(name) {
			read.AddDiagnostic(text.Errorf(0, "header", "invalid header name %q", name))
		}
	}
	h := &Headers{all: read.CompileTexts(src)}
	for _, one := range h.all {
		if one.Text == nil {
			continue // already reported
		}
		for _, ref := range one.Text.Placeholders() {
			root, _, _ := strings.Cut(ref.Name, ".")
			if root == "args" || root == "user" || root == "invocation" || root == "run_config" {
				read.AddDiagnostic(src[one.Name].Errorf(0, "placeholder",
					"header %s cannot contain {%s}: all calls of a session have the same headers; use state keys, session or agent", one.Name, ref.Name))
			}
		}
	}
	read.diagnostics.Sort()
	return h, read.diagnostics.Err()
}

// IsFixed reports whether the headers have no placeholders.
func (h *Headers) IsFixed() bool {
	return !slices.ContainsFunc(h.all, func(one NamedTemplate) bool { return len(one.Text.Placeholders()) > 0 })
}

// Render returns the headers for the call's session. An optional placeholder without a value omits
// its header. Errors name headers and placeholders, never values.
func (h *Headers) Render(call *tool.Call) (http.Header, error) {
	header := http.Header{}
	for _, one := range h.all {
		v, ok, err := one.Text.RenderValue(call)
		if err != nil {
			return nil, fmt.Errorf("header %s: %w", one.Name, err)
		}
		text := template.String(v)
		switch {
		case !ok:
		case strings.ContainsAny(text, "\r\n\x00"):
			return nil, fmt.Errorf("header %s: the value contains a line break", one.Name)
		default:
			header.Set(one.Name, text)
		}
	}
	return header, nil
}

// credentialHeader matches header names whose values are credentials.
var credentialHeader = regexp.MustCompile(`(?i)auth|token|key|secret|cookie|password|session`)

// minCredentialLength is the length from which a session's value is redacted: shorter ones would
// match by accident.
const minCredentialLength = 8

// Credentials returns the words in rendered headers that are the session's credentials, to redact
// them.
func (h *Headers) Credentials(rendered http.Header) []string {
	var found []string
	for _, one := range h.all {
		if len(one.Text.Placeholders()) == 0 || !credentialHeader.MatchString(one.Name) {
			continue
		}
		for word := range strings.FieldsSeq(rendered.Get(one.Name)) {
			if len(word) >= minCredentialLength {
				found = append(found, word)
			}
		}
	}
	return found
}

// IsHeaderName reports whether a name is allowed for an HTTP header.
func IsHeaderName(name string) bool { return validHeader.MatchString(name) }

var validHeader = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
