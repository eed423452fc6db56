package tool

import (
	"log/slog"
	"net/http"

	"agenthost/pkg/connection"
	"agenthost/pkg/spec"
)

// Env holds what tools depend on.
type Env struct {
	// HTTP sends tool requests; nil means http.DefaultClient. Its transport decides which addresses
	// are allowed.
	HTTP *http.Client
	// Dir is the app folder, in which programs run.
	Dir string
	// Offline prevents tools from connecting to servers and running programs, as in app tests.
	Offline bool
	// Connection authorizes requests if the kind implements [connection.RefConfig]; nil means that
	// they need no credential.
	Connection *connection.Connection
	// Programs runs programs; nil means that this host runs none.
	Programs ProgramRunner
	// Document is a [DocumentConfig]'s document, else nil.
	Document Document
	// Skills are a [SkillConfig]'s skills, sorted by name.
	Skills []Skill
	// Logger is never nil.
	Logger *slog.Logger
}

// An AddressConfig configures a kind whose tools send requests. The loader checks the addresses
// against the host's policy.
type AddressConfig interface {
	// Addresses returns the servers' URLs; a placeholder may follow the host.
	Addresses() []spec.Text
}

// A ReplaceableConfig configures a built-in tool that another one replaces if its agent has more
// tools.
type ReplaceableConfig interface {
	// Replacement returns the other tool's name, and the setting that it does not have, or "" if no
	// tool replaces this one.
	Replacement() (kind, setting string)
}

// A DocumentConfig configures a kind whose tools another program's document describes. The loader
// reads the document.
type DocumentConfig interface {
	// DocumentSource returns where the document is. It has no At.Value if the config
	// contains the document.
	DocumentSource() DocumentSource
	// ReadDocument reads what the tools use from a document. The document is nil if there are
	// errors. file is its name in diagnostics.
	ReadDocument(file string, content []byte) (Document, spec.Diagnostics)
}

// A DocumentConnectionConfig is a [DocumentConfig] whose connection depends on the document, such
// as its scopes.
type DocumentConnectionConfig interface {
	DocumentConfig
	// DocumentConnection returns the connection for a document from ReadDocument: an inline one,
	// which may have a name. It is nil if there are errors.
	DocumentConnection(doc Document) (*connection.Ref, spec.Diagnostics)
}

// A DocumentSource locates a document.
type DocumentSource struct {
	// At is a file in the app, or an https URL.
	At spec.Text
	// SHA256 is the document's hash, in hexadecimal. URLs require it.
	SHA256 spec.Text
	// Selection identifies what the tools use from the document.
	Selection string
}

// A Document is what tools use from a document. It is immutable.
type Document interface {
	// Addresses returns the server URLs that it names.
	Addresses() []spec.Text
	// Reduced returns the part as a document, which ReadDocument reads to an equal one.
	Reduced() []byte
}
