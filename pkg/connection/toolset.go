package connection

import (
	"agenthost/pkg/spec"
)

// An ADKAuth is a toolset credential in ADK's syntax: a struct with the fields auth_scheme,
// auth_credential and credential_key, which toolset configs inline.
type ADKAuth interface {
	// Check reports what the settings lack, and what is not supported. hosts are the service's, if
	// the settings name it.
	Check(n *spec.Node, hosts []string) spec.Diagnostics
	// Ref returns the connection that the settings describe, or nil.
	Ref(hosts []string) *Ref
}

// Google makes the connections for Google API toolsets. Their tokens go only to these.
type Google interface {
	// NewUsers returns the connection for a Google OAuth client that each user authorizes.
	NewUsers(id, secret spec.Secret, scopes []string) Config
	// NewAccount returns the connection for a service account by its key, or for the host's account
	// if there is no key. The errors do not show the key.
	NewAccount(key spec.Secret, scopes []string) (Config, spec.Diagnostics)
}

// UnsupportedADKAuth is the [ADKAuth] in a program without connections.
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

// Unsupported reports a document's connection in a program without connections.
func Unsupported(n *spec.Node) spec.Diagnostic {
	return n.Errorf("connection", "this program does not support connections").
		WithHint("in Go, add the kind in package agenthost/wing/connection to loader.Kinds")
}
