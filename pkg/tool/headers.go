package tool

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"agenthost/pkg/spec"
	"agenthost/pkg/template"
)

// Headers are request headers whose values may depend on the session, such as
// `Bearer {user:token}`. They are immutable.
type Headers struct{ all []namedTemplate }

// CompileHeaders compiles headers that are the same for all calls of a session: their
// placeholders are state keys, state, session and agent. The error is a
// [spec.Diagnostics].
func CompileHeaders(src map[string]spec.Secret) (*Headers, error) {
	read := configCompiler{params: &Params{}}
	for name, text := range src {
		if !IsHeaderName(name) {
			read.addDiagnostic(text.Errorf(0, "header", "invalid header name %q", name))
		}
	}
	h := &Headers{all: read.compileTexts(src)}
	for _, one := range h.all {
		if one.text == nil {
			continue // already reported
		}
		for _, ref := range one.text.placeholders() {
			root, _, _ := strings.Cut(ref.Name, ".")
			if root == "args" || root == "user" || root == "invocation" || root == "run_config" {
				read.addDiagnostic(src[one.name].Errorf(0, "placeholder",
					"header %s cannot contain {%s}: all calls of a session have the same headers; use state keys, session or agent", one.name, ref.Name))
			}
		}
	}
	read.diagnostics.Sort()
	return h, read.diagnostics.Err()
}

// IsFixed reports whether the headers have no placeholders.
func (h *Headers) IsFixed() bool {
	return !slices.ContainsFunc(h.all, func(one namedTemplate) bool { return len(one.text.placeholders()) > 0 })
}

// Render returns the headers for the session of a call. An optional placeholder without a
// value omits its header. Errors name headers and placeholders, never values.
func (h *Headers) Render(call *Call) (http.Header, error) {
	header := http.Header{}
	for _, one := range h.all {
		v, ok, err := one.text.renderValue(call)
		if err != nil {
			return nil, fmt.Errorf("header %s: %w", one.name, err)
		}
		text := template.String(v)
		switch {
		case !ok:
		case strings.ContainsAny(text, "\r\n\x00"):
			return nil, fmt.Errorf("header %s: the value contains a line break", one.name)
		default:
			header.Set(one.name, text)
		}
	}
	return header, nil
}

// credentialHeader matches the names of headers whose values are credentials.
var credentialHeader = regexp.MustCompile(`(?i)auth|token|key|secret|cookie|password|session`)

// minCredentialLength is the length from which a value of a session is redacted: shorter
// ones would match by accident.
const minCredentialLength = 8

// Credentials returns the words of rendered headers that are credentials of the session,
// to redact them.
func (h *Headers) Credentials(rendered http.Header) []string {
	var found []string
	for _, one := range h.all {
		if len(one.text.placeholders()) == 0 || !credentialHeader.MatchString(one.name) {
			continue
		}
		for word := range strings.FieldsSeq(rendered.Get(one.name)) {
			if len(word) >= minCredentialLength {
				found = append(found, word)
			}
		}
	}
	return found
}

// A SessionSet is a set whose tools may differ between sessions, such as those of a server
// that users authenticate to.
type SessionSet interface {
	Set
	// ListTools lists the tools for the session of a call, which has no ID, name and
	// arguments.
	ListTools(ctx context.Context, call *Call) ([]Tool, error)
}

// ListTools lists the tools of a set for the session of a call.
func ListTools(ctx context.Context, s Set, call *Call) ([]Tool, error) {
	if own, ok := s.(SessionSet); ok {
		return own.ListTools(ctx, call)
	}
	return s.Tools(ctx)
}

// A PromptRequest names a prompt of a [PromptSource].
type PromptRequest struct {
	Name string
	// Args are arguments by name. Arguments of the prompt that are not in it are the
	// state keys of their names.
	Args map[string]string
}

// A PromptSource is a set whose server has prompts, such as an MCP server.
type PromptSource interface {
	// LoadPrompt returns the text of a prompt for the session of a call, which has no ID,
	// name and arguments.
	LoadPrompt(ctx context.Context, call *Call, req *PromptRequest) (string, error)
}

// IsHeaderName reports whether a name is allowed for an HTTP header.
func IsHeaderName(name string) bool { return validHeader.MatchString(name) }

var validHeader = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
