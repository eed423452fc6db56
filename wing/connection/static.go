package connection

import (
	"context"

	"agenthost/pkg/connection"
)

// static is a source with one credential that never changes.
type static struct{ credential *connection.Credential }

// Credential implements [connection.Source].
func (s static) Credential(context.Context, connection.User) (*connection.Credential, error) {
	return s.credential, nil
}

// Evict implements [connection.Source]: there is no other credential.
func (s static) Evict(connection.User, *connection.Credential) bool { return false }

// PerUser implements [connection.Source]: all users share the credential.
func (s static) PerUser() bool { return false }

func bearerCredential(token string) *connection.Credential {
	return &connection.Credential{In: connection.InHeader, Name: "Authorization", Value: "Bearer " + token, Secrets: []string{token}}
}
