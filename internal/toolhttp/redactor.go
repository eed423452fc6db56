package toolhttp

import (
	"slices"
	"sync"
	"sync/atomic"

	"agenthost/pkg/spec"
)

// maxSecrets bounds the credentials that a Redactor removes: the last ones.
const maxSecrets = 8

// A Redactor removes the secrets in a document, and the last credentials of a connection, from what a
// server sends. It is safe for concurrent use.
type Redactor struct {
	document *spec.Redactor

	mu      sync.Mutex
	secrets []string
	last    atomic.Pointer[spec.Redactor]
}

// NewRedactor returns a redactor without credentials, for the secrets in a document.
func NewRedactor(document *spec.Redactor) *Redactor {
	r := &Redactor{document: document}
	r.last.Store(spec.NewRedactor())
	return r
}

// AddSecrets adds credentials that a request is about to send.
func (r *Redactor) AddSecrets(secrets []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := len(r.secrets)
	for _, one := range secrets {
		if !slices.Contains(r.secrets, one) {
			r.secrets = append(r.secrets, one)
		}
	}
	if len(r.secrets) > before {
		r.secrets = slices.Clone(r.secrets[max(0, len(r.secrets)-maxSecrets):])
		r.last.Store(spec.NewRedactor(r.secrets...))
	}
}

// RedactString replaces the secrets in a string.
func (r *Redactor) RedactString(text string) string {
	return r.last.Load().RedactString(r.document.RedactString(text))
}

// RedactValue replaces the secrets in a JSON value.
func (r *Redactor) RedactValue(v any) any {
	return r.last.Load().RedactValue(r.document.RedactValue(v))
}
