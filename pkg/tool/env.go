package tool

import (
	"log/slog"
	"net/http"

	"agenthost/pkg/connection"
	"agenthost/pkg/spec"
)

// Env holds the dependencies of tools.
type Env struct {
	// HTTP sends the requests of tools; nil means http.DefaultClient. Its
	// transport decides which addresses are allowed.
	HTTP *http.Client
	// Dir is the app folder, in which programs run.
	Dir string
	// Offline prevents tools from connecting to servers and running programs, as
	// in tests of an app.
	Offline bool
	// Connection authorizes the requests of a kind that implements
	// [connection.RefConfig]; nil means that they need no credential.
	Connection *connection.Connection
	// Programs runs programs; nil means that this host runs none.
	Programs ProgramRunner
	// Document is the document of a [DocumentConfig], else nil.
	Document Document
	// Skills are those of a [SkillConfig], sorted by name.
	Skills []Skill
	// Logger is never nil.
	Logger *slog.Logger
}

// An AddressConfig is the config of a kind whose tools send requests. The loader
// checks the addresses against the policy of the host.
type AddressConfig interface {
	// Addresses returns the URLs of the servers; a placeholder may follow the host.
	Addresses() []spec.Text
}

// A ReplaceableConfig is the config of a built-in tool that another one replaces if its agent has
// more tools.
type ReplaceableConfig interface {
	// Replacement returns the name of the other tool, and the setting that it does not have,
	// or "" if no tool replaces this one.
	Replacement() (kind, setting string)
}

// A DocumentConfig is the config of a kind whose tools a document of another program
// describes. The loader reads the document.
type DocumentConfig interface {
	// DocumentSource returns where the document is. It has no At.Value if the config
	// contains the document.
	DocumentSource() DocumentSource
	// ReadDocument reads what the tools use of a document. The document is nil if there
	// are errors. file is its name in diagnostics.
	ReadDocument(file string, content []byte) (Document, spec.Diagnostics)
}

// A DocumentConnectionConfig is a [DocumentConfig] whose connection depends on the document, such
// as its scopes.
type DocumentConnectionConfig interface {
	DocumentConfig
	// DocumentConnection returns the connection for a document of ReadDocument: an inline
	// one, which may have a name. It is nil if there are errors.
	DocumentConnection(doc Document) (*connection.Ref, spec.Diagnostics)
}

// A DocumentSource is the place of a document.
type DocumentSource struct {
	// At is a file of the app, or an https URL.
	At spec.Text
	// SHA256 is the hash of the document, in hexadecimal. URLs require it.
	SHA256 spec.Text
	// Selection identifies the part of the document that the tools use.
	Selection string
}

// A Document is the part of a document that tools use. It is immutable.
type Document interface {
	// Addresses returns the URLs of the servers that it names.
	Addresses() []spec.Text
	// Reduced returns the part as a document, which ReadDocument reads to an equal one.
	Reduced() []byte
}
