package connection

import (
	"net/http"
	"reflect"
	"time"

	"agenthost/pkg/spec"
)

// A Kind decodes and opens the connections in documents, like the kind in
// agenthost/wing/connection.
type Kind interface {
	// Decode decodes and validates a connection. A tool's auth is inline: it has no name.
	Decode(n *spec.Node, inline bool) (Config, spec.Diagnostics)
	// Open returns the source of a connection's credentials. It sends no requests.
	Open(c Config, env Env) (Source, error)
	// ConfigType is the struct with the fields, for the schema and the reference.
	ConfigType() reflect.Type
}

// A Config is a connection decoded from a document: a credential, and the hosts that may receive
// it.
type Config interface {
	// Addresses returns the authorization servers' addresses in the document.
	Addresses() []spec.Text
	// HostNames returns the document's hosts, if it has any.
	HostNames() []string
	// UsesHostAccount reports whether the tokens belong to the host account. The host policy must
	// allow that.
	UsesHostAccount() bool
	Exchange
	// Fingerprint returns a string that differs if the credential differs. It contains
	// secrets: callers hash it.
	Fingerprint() string
}

// An Exchange is what a connection does when it exchanges tokens for another connection's.
type Exchange interface {
	// Subject returns the connection whose tokens this one exchanges, or nil.
	Subject() *Ref
	// SubjectHosts returns the hosts to which the connection may send its own tokens for an
	// exchange.
	SubjectHosts() []string
}

// Env holds what sources depend on.
type Env struct {
	// HTTP sends the requests to authorization servers; nil means http.DefaultClient. Its
	// transport decides which addresses are allowed.
	HTTP *http.Client
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// App and Name are the connection's.
	App, Name string
	// Subject is the connection that [Exchange.Subject] names.
	Subject *Connection
	// MayRegister returns an error if the host policy forbids the app to register clients at
	// authorization servers; nil allows it.
	MayRegister func() error
}

// A Discoverer is a [Kind] that can make a connection from a service's URL alone: the service's
// metadata names its authorization server.
type Discoverer interface {
	// Discover returns the connection for a service, and the name under which its tokens are stored.
	Discover(resource spec.Text) (name string, c Config)
}

// A Ref is a tool's connection: a name in app.yaml, or the connection itself.
type Ref struct {
	// Name is the name in app.yaml. An inline connection has one only if users' tokens are stored
	// under it.
	Name spec.Text
	// Inline is nil if the tool names a connection. The loader decodes a document's connection.
	Inline Config
	// Node is the document's value.
	Node *spec.Node
	// Resource, if it is set, is the service that [Discovered] is for.
	Resource spec.Text
}

// Discovered is the name for the connection that a service's own metadata describes, unless
// app.yaml declares one with this name.
const Discovered = "oauth"

// IsInline reports whether the document has the connection itself.
func (r *Ref) IsInline() bool { return r.Node.Kind == spec.Mapping }

// DecodeSpec decodes the name, and keeps the connection's own node.
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

// A RefConfig is the config for a kind whose tools can use a connection.
type RefConfig interface {
	// Connection returns the connection, or nil.
	Connection() *Ref
}
