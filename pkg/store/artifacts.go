package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/session"
)

// Artifacts stores artifacts: named parts with versions. A name belongs to a
// session; with the prefix user: it belongs to the user and is visible in all
// sessions of the user. It is safe for concurrent use. Names are validated with
// [session.CheckArtifactName]; what cannot be stored is ErrInvalid.
type Artifacts struct {
	backend  artifactStore
	clock    func() time.Time
	maxBytes int64
}

// An artifactBackend stores the rows of artifacts. It is safe for concurrent
// use.
type artifactBackend interface {
	// saveVersion adds a version after the latest one, numbered from 0, and
	// returns its description.
	saveVersion(ctx context.Context, at artifactKey, rec *artifact) (session.ArtifactVersion, error)
	// loadVersion reads a version, or the latest one if version is negative. A
	// missing version is ErrNotFound.
	loadVersion(ctx context.Context, at artifactKey, version int) (*artifact, error)
	// listNames returns the artifact names of a session, or of a user if id is
	// empty, in any order.
	listNames(ctx context.Context, app, user, id string) ([]string, error)
	// listVersions describes all versions in order, without their content.
	listVersions(ctx context.Context, at artifactKey) ([]session.ArtifactVersion, error)
	// deleteArtifact deletes all versions. Deleting a missing artifact succeeds.
	deleteArtifact(ctx context.Context, at artifactKey) error
}

// An artifactStore is an artifactBackend with a lifecycle. Calls after close
// return errClosed.
type artifactStore interface {
	artifactBackend
	close() error
}

// An artifactKey identifies an artifact. Without a session it belongs to the
// user; the name has no prefix.
type artifactKey struct{ app, user, session, name string }

// A NewArtifact is the input of a new version.
type NewArtifact struct {
	Name string
	// Part has inline data, a file reference, or text.
	Part *genai.Part
	// CustomMetadata is returned with the version; buckets store values as
	// strings.
	CustomMetadata map[string]any
}

// Save stores a part as a new version and returns its number, from 0. The part
// has inline data, a file reference, or text.
func (a *Artifacts) Save(ctx context.Context, key session.Key, name string, part *genai.Part) (int, error) {
	v, err := a.Create(ctx, key, &NewArtifact{Name: name, Part: part})
	return v.Version, err
}

// Create stores a new version and returns its description.
func (a *Artifacts) Create(ctx context.Context, key session.Key, n *NewArtifact) (session.ArtifactVersion, error) {
	var none session.ArtifactVersion
	at, err := newArtifactKey(key, n.Name)
	if err != nil {
		return none, err
	}
	rec, err := packPart(at.name, n.Part)
	if err != nil {
		return none, fmt.Errorf("artifact %q: %w", n.Name, err)
	}
	if n, most := int64(len(rec.bytes)), a.maxBytes; n > most {
		return none, fmt.Errorf("artifact %q with %d bytes exceeds the limit of %d bytes: %w", at.prefixedName(), n, most, session.ErrInvalid)
	}
	if rec.Custom, err = canonicalizeState(n.CustomMetadata); err != nil {
		return none, fmt.Errorf("artifact %q: custom metadata: %w", n.Name, err)
	}
	if err := ctx.Err(); err != nil {
		return none, err
	}
	rec.Created = a.clock().UTC().Truncate(time.Microsecond)
	return a.backend.saveVersion(ctx, at, rec)
}

// Load reads a version; a negative version is the latest. A missing version is
// ErrNotFound, and so is an [Absence]. A part that refers to another artifact
// of the user loads that artifact. Buckets store what adk-python stores of a
// part: its text, or its bytes with type and display name, or its file
// reference.
func (a *Artifacts) Load(ctx context.Context, key session.Key, name string, version int) (*genai.Part, error) {
	part, err := a.loadUnresolved(ctx, key, name, version)
	if err != nil {
		return nil, err
	}
	return a.resolveReference(ctx, key, name, part)
}

func (a *Artifacts) loadUnresolved(ctx context.Context, key session.Key, name string, version int) (*genai.Part, error) {
	at, err := newArtifactKey(key, name)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	rec, err := a.backend.loadVersion(ctx, at, version)
	if err != nil {
		return nil, err
	}
	if rec.isAbsence() {
		return nil, at.errNotFound(version)
	}
	return rec.restorePart()
}

// Keys returns the sorted names of the session's artifacts and, with their
// prefix, of the user's. Without a session id it returns only the user's.
func (a *Artifacts) Keys(ctx context.Context, key session.Key) ([]string, error) {
	if err := checkOwner(key.App, key.User); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	users, err := a.backend.listNames(ctx, key.App, key.User, "")
	if err != nil {
		return nil, err
	}
	names := make([]string, len(users))
	for i, n := range users {
		names[i] = session.UserPrefix + n
	}
	if key.ID != "" {
		own, err := a.backend.listNames(ctx, key.App, key.User, key.ID)
		if err != nil {
			return nil, err
		}
		names = append(names, own...)
	}
	slices.Sort(names)
	return names, nil
}

// Versions describes the versions of an artifact in order. A missing artifact
// has none.
func (a *Artifacts) Versions(ctx context.Context, key session.Key, name string) ([]session.ArtifactVersion, error) {
	at, err := newArtifactKey(key, name)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return a.backend.listVersions(ctx, at)
}

// Version describes one version; a negative version is the latest. A missing
// version is ErrNotFound.
func (a *Artifacts) Version(ctx context.Context, key session.Key, name string, version int) (session.ArtifactVersion, error) {
	all, err := a.Versions(ctx, key, name)
	if err != nil {
		return session.ArtifactVersion{}, err
	}
	for _, v := range slices.Backward(all) {
		if version < 0 || v.Version == version {
			return v, nil
		}
	}
	at, err := newArtifactKey(key, name)
	if err != nil {
		return session.ArtifactVersion{}, err
	}
	return session.ArtifactVersion{}, at.errNotFound(version)
}

// Delete deletes all versions of an artifact. Deleting a missing artifact succeeds.
func (a *Artifacts) Delete(ctx context.Context, key session.Key, name string) error {
	at, err := newArtifactKey(key, name)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return a.backend.deleteArtifact(ctx, at)
}

func newArtifactKey(key session.Key, name string) (artifactKey, error) {
	if err := checkOwner(key.App, key.User); err != nil {
		return artifactKey{}, err
	}
	if err := session.CheckArtifactName(name); err != nil {
		return artifactKey{}, err
	}
	if err := checkText("artifact name", name, len(name)); err != nil {
		return artifactKey{}, err
	}
	if bare, ok := strings.CutPrefix(name, session.UserPrefix); ok {
		return artifactKey{key.App, key.User, "", bare}, nil
	}
	if err := checkSession(key); err != nil {
		return artifactKey{}, fmt.Errorf("artifact %q: %w", name, err)
	}
	return artifactKey{key.App, key.User, key.ID, name}, nil
}

// prefixedName returns the artifact's name as callers write it.
func (at artifactKey) prefixedName() string {
	if at.session == "" {
		return session.UserPrefix + at.name
	}
	return at.name
}

func (at artifactKey) errNotFound(version int) error {
	if version < 0 {
		return fmt.Errorf("artifact %w: %s", session.ErrNotFound, at.prefixedName())
	}
	return fmt.Errorf("artifact %w: %s version %d", session.ErrNotFound, at.prefixedName(), version)
}
