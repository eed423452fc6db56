package connection

import (
	"net/http"
	"reflect"
	"time"

	"agenthost/pkg/spec"
)

// A Kind decodes and opens the connections of documents, as that of agenthost/wing/connection
// does.
type Kind interface {
	// Decode decodes and validates a connection. The auth of a tool is inline: it has no name.
	Decode(n *spec.Node, inline bool) (Config, spec.Diagnostics)
	// Open returns the source of the credentials of a connection. It sends no requests.
	Open(c Config, env Env) (Source, error)
	// ConfigType is the struct of the fields, for the schema and the reference.
	ConfigType() reflect.Type
}

// A Config is the decoded connection of a document: a credential, and the hosts that may
// receive it.
type Config interface {
	// Addresses returns the addresses of authorization servers in the document.
	Addresses() []spec.Text
	// HostNames returns the hosts of the document, which may be empty.
	HostNames() []string
	// UsesHostAccount reports whether the tokens are those of the account of the host, which
	// its policy must allow.
	UsesHostAccount() bool
	Exchange
	// Fingerprint returns a string that differs if the credential differs. It contains
	// secrets: callers hash it.
	Fingerprint() string
}

// An Exchange is what a connection does when tokens are exchanged for those of another one.
type Exchange interface {
	// Subject returns the connection whose tokens this one exchanges, or nil.
	Subject() *Ref
	// SubjectHosts returns the hosts to which the connection may send its own tokens for an
	// exchange.
	SubjectHosts() []string
}

// Env holds the dependencies of sources.
type Env struct {
	// HTTP sends the requests to authorization servers; nil means http.DefaultClient. Its
	// transport decides which addresses are allowed.
	HTTP *http.Client
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// App and Name are those of the connection.
	App, Name string
	// Subject is the connection that [Exchange.Subject] names.
	Subject *Connection
}

// A Ref is the connection of a tool: the name of one in app.yaml, or the connection itself.
type Ref struct {
	// Name is that in app.yaml. An inline connection has one only if tokens of users are
	// stored under it.
	Name spec.Text
	// Inline is nil if the tool names a connection. The loader decodes that of a document.
	Inline Config
	// Node is the value of the document.
	Node *spec.Node
}

// IsInline reports whether the document has the connection itself.
func (r *Ref) IsInline() bool { return r.Node.Kind == spec.Mapping }

// DecodeSpec decodes the name, and keeps the node of the connection itself.
func (r *Ref) DecodeSpec(n *spec.Node) spec.Diagnostics {
	r.Node = n
	if r.IsInline() {
		return nil
	}
	return r.Name.DecodeSpec(n)
}

// SchemaSpec describes both forms.
func (r *Ref) SchemaSpec() map[string]any {
	return map[string]any{"anyOf": []any{
		map[string]any{"type": "string"},
		map[string]any{"$ref": "#/$defs/connection"},
	}, "title": "string or [connection](connections.md)"}
}

// A RefConfig is the config of a kind whose tools can use a connection.
type RefConfig interface {
	// Connection returns the connection, or nil.
	Connection() *Ref
}
