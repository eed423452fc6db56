package connection

import "context"

// static is a source of one credential that never changes.
type static struct{ credential *Credential }

// Credential implements [Source].
func (s static) Credential(context.Context, User) (*Credential, error) { return s.credential, nil }

// Evict implements [Source]: there is no other credential.
func (s static) Evict(User, *Credential) bool { return false }

// PerUser implements [Source]: all users share the credential.
func (s static) PerUser() bool { return false }
