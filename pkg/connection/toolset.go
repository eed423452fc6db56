package connection

import (
	"agenthost/pkg/spec"
)

// An ADKAuth is the credential of a toolset in ADK's syntax: a struct with the fields
// auth_scheme, auth_credential and credential_key, which configs of toolsets inline.
type ADKAuth interface {
	// Check reports what the settings lack, and what is not supported. hosts are those of the
	// service, if the settings name it.
	Check(n *spec.Node, hosts []string) spec.Diagnostics
	// Ref returns the connection that the settings describe, or nil.
	Ref(hosts []string) *Ref
}

// Google makes the connections of toolsets for APIs of Google. Their tokens go only to these.
type Google interface {
	// NewUsers returns the connection of an OAuth client of Google, which each user authorizes.
	NewUsers(id, secret spec.Secret, scopes []string) Config
	// NewAccount returns the connection of a service account by its key, or of the account of
	// the host if there is no key. The errors do not show the key.
	NewAccount(key spec.Secret, scopes []string) (Config, spec.Diagnostics)
}

// UnsupportedADKAuth is the [ADKAuth] of a program without connections.
type UnsupportedADKAuth struct {
	Scheme     *spec.Node `yaml:"auth_scheme" doc:"Not supported by this program."`
	Credential *spec.Node `yaml:"auth_credential" doc:"Not supported by this program."`
	Key        *spec.Node `yaml:"credential_key" doc:"Not supported by this program."`
}

// Check implements [ADKAuth]: it rejects each setting.
func (a UnsupportedADKAuth) Check(*spec.Node, []string) spec.Diagnostics {
	for _, n := range []*spec.Node{a.Scheme, a.Credential, a.Key} {
		if n != nil {
			return spec.Diagnostics{Unsupported(n)}
		}
	}
	return nil
}

// Ref implements [ADKAuth]: there is no connection.
func (UnsupportedADKAuth) Ref([]string) *Ref { return nil }

// Unsupported reports a connection in a document of a program without connections.
func Unsupported(n *spec.Node) spec.Diagnostic {
	return n.Errorf("connection", "this program does not support connections").
		WithHint("in Go, add the kind of package agenthost/wing/connection to loader.Kinds")
}
