package store

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genai"

	"agenthost/internal/codec"
	"agenthost/pkg/session"
)

// Artifacts stores artifacts: named parts with versions. A name belongs to a session; with the
// prefix user: it belongs to the user and is visible in all the user's sessions. It is safe for
// concurrent use. Names are validated with [session.CheckArtifactName]; what cannot be stored is
// ErrInvalid.
type Artifacts struct {
	backend  ArtifactBackend
	clock    func() time.Time
	maxBytes int64
}

// An ArtifactRows stores artifact rows. It is safe for concurrent use.
type ArtifactRows interface {
	// SaveVersion adds a version after the latest one, numbered from 0, and
	// returns its description.
	SaveVersion(ctx context.Context, at ArtifactKey, rec *ArtifactRecord) (session.ArtifactVersion, error)
	// LoadVersion reads a version, or the latest one if version is negative. A
	// missing version is ErrNotFound.
	LoadVersion(ctx context.Context, at ArtifactKey, version int) (*ArtifactRecord, error)
	// ListNames returns a session's artifact names, or a user's if id is empty, in any order.
	ListNames(ctx context.Context, app, user, id string) ([]string, error)
	// ListVersions describes all versions in order, without their content.
	ListVersions(ctx context.Context, at ArtifactKey) ([]session.ArtifactVersion, error)
	// DeleteArtifact deletes all versions. Deleting a missing artifact succeeds.
	DeleteArtifact(ctx context.Context, at ArtifactKey) error
}

// An ArtifactBackend is an ArtifactRows with a lifecycle. Calls after close
// return ErrClosed.
type ArtifactBackend interface {
	ArtifactRows
	// Ping checks that the backend can write. A backend whose test would cost money, or
	// fail on all hosts at once, tests nothing.
	Ping(ctx context.Context) error
	Close() error
}

// An ArtifactKey identifies an artifact. Without a session it belongs to the
// user; the name has no prefix.
type ArtifactKey struct{ App, User, Session, Name string }

// A NewArtifact is the input for a new version.
type NewArtifact struct {
	Name string
	// Part has inline data, a file reference, or text.
	Part *genai.Part
	// CustomMetadata is returned with the version; buckets store values as
	// strings.
	CustomMetadata map[string]any
}

// Ping checks that artifacts can be written; buckets are not tested. An error is an
// [ArtifactsUnavailable].
func (a *Artifacts) Ping(ctx context.Context) error { return a.backend.Ping(ctx) }

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
	rec, err := packPart(at.Name, n.Part)
	if err != nil {
		return none, fmt.Errorf("artifact %q: %w", n.Name, err)
	}
	if n, most := int64(len(rec.Bytes)), a.maxBytes; n > most {
		return none, fmt.Errorf("artifact %q with %d bytes exceeds the limit of %d bytes: %w", at.PrefixedName(), n, most, session.ErrInvalid)
	}
	if rec.Custom, err = codec.CanonicalizeState(n.CustomMetadata); err != nil {
		return none, fmt.Errorf("artifact %q: custom metadata: %w", n.Name, err)
	}
	if err := ctx.Err(); err != nil {
		return none, err
	}
	rec.Created = a.clock().UTC().Truncate(time.Microsecond)
	return a.backend.SaveVersion(ctx, at, rec)
}

// Load reads a version; a negative version is the latest. A missing version is ErrNotFound, and so
// is an [Absence]. A part that refers to another of the user's artifacts loads that artifact.
// Buckets store what adk-python stores for a part: its text, or its bytes with type and display
// name, or its file reference.
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
	rec, err := a.backend.LoadVersion(ctx, at, version)
	if err != nil {
		return nil, err
	}
	if rec.isAbsence() {
		return nil, at.NotFound(version)
	}
	return rec.RestorePart()
}

// Keys returns the sorted names of the session's artifacts and, with their
// prefix, of the user's. Without a session id it returns only the user's.
func (a *Artifacts) Keys(ctx context.Context, key session.Key) ([]string, error) {
	if err := codec.CheckOwner(key.App, key.User); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	users, err := a.backend.ListNames(ctx, key.App, key.User, "")
	if err != nil {
		return nil, err
	}
	names := make([]string, len(users))
	for i, n := range users {
		names[i] = session.UserPrefix + n
	}
	if key.ID != "" {
		own, err := a.backend.ListNames(ctx, key.App, key.User, key.ID)
		if err != nil {
			return nil, err
		}
		names = append(names, own...)
	}
	slices.Sort(names)
	return names, nil
}

// Versions describes an artifact's versions in order. A missing artifact has none.
func (a *Artifacts) Versions(ctx context.Context, key session.Key, name string) ([]session.ArtifactVersion, error) {
	at, err := newArtifactKey(key, name)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return a.backend.ListVersions(ctx, at)
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
	return session.ArtifactVersion{}, at.NotFound(version)
}

// Delete deletes all of an artifact's versions. Deleting a missing artifact succeeds.
func (a *Artifacts) Delete(ctx context.Context, key session.Key, name string) error {
	at, err := newArtifactKey(key, name)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return a.backend.DeleteArtifact(ctx, at)
}

func newArtifactKey(key session.Key, name string) (ArtifactKey, error) {
	if err := codec.CheckOwner(key.App, key.User); err != nil {
		return ArtifactKey{}, err
	}
	if err := session.CheckArtifactName(name); err != nil {
		return ArtifactKey{}, err
	}
	if err := codec.CheckText("artifact name", name, len(name)); err != nil {
		return ArtifactKey{}, err
	}
	if bare, ok := strings.CutPrefix(name, session.UserPrefix); ok {
		return ArtifactKey{key.App, key.User, "", bare}, nil
	}
	if err := codec.CheckSession(key); err != nil {
		return ArtifactKey{}, fmt.Errorf("artifact %q: %w", name, err)
	}
	return ArtifactKey{key.App, key.User, key.ID, name}, nil
}

// PrefixedName returns the artifact's name as callers write it.
func (at ArtifactKey) PrefixedName() string {
	if at.Session == "" {
		return session.UserPrefix + at.Name
	}
	return at.Name
}

// VersionURI returns a version's URI in the form that adk-python's
// artifacts/in_memory_artifact_service.py uses, which contains nothing about the host.
func (at ArtifactKey) VersionURI(scheme string, version int) string {
	place := ""
	if at.Session != "" {
		place = "sessions/" + at.Session + "/"
	}
	return fmt.Sprintf("%s://apps/%s/users/%s/%sartifacts/%s/versions/%d", scheme, at.App, at.User, place, at.PrefixedName(), version)
}

// NotFound is the error for a missing version; a negative one is the latest.
func (at ArtifactKey) NotFound(version int) error {
	if version < 0 {
		return fmt.Errorf("artifact %w: %s", session.ErrNotFound, at.PrefixedName())
	}
	return fmt.Errorf("artifact %w: %s version %d", session.ErrNotFound, at.PrefixedName(), version)
}

// An ArtifactRecord is one version: a part whose bytes are stored separately.
type ArtifactRecord struct {
	Name    string    `json:"name"`
	Created time.Time `json:"createTime"`
	MIME    string    `json:"mimeType,omitempty"`
	// Text reports that the bytes are the part's text, not its inline data.
	Text bool `json:"text,omitempty"`
	// Part is the part's JSON form without the bytes.
	Part json.RawMessage `json:"part"`
	// Custom is the version's custom metadata.
	Custom CustomMetadata `json:"customMetadata,omitempty"`
	// Bytes are the part's text or inline data.
	Bytes []byte `json:"-"`
}

// CustomMetadata decodes whole numbers as integers.
type CustomMetadata map[string]any

// UnmarshalJSON decodes by the rules of [session.DecodeMap].
func (c *CustomMetadata) UnmarshalJSON(b []byte) error {
	m, err := session.DecodeMap(b)
	*c = m
	return err
}

// AbsenceMIME is an absence's MIME type.
const AbsenceMIME = "application/octet-stream"

// Absence returns a part that, as a new version, marks an artifact as deleted: empty data with an
// unknown type (adk-python runners.py). Its name stays listed.
func Absence() *genai.Part {
	return &genai.Part{InlineData: &genai.Blob{MIMEType: AbsenceMIME}}
}

func (rec *ArtifactRecord) isAbsence() bool {
	return rec.MIME == AbsenceMIME && !rec.Text && len(rec.Bytes) == 0 && !bytes.Contains(rec.Part, []byte(`"fileData"`))
}

// packPart separates the bytes from a part. The part is content, and not a step in a
// conversation, such as a call.
func packPart(name string, part *genai.Part) (*ArtifactRecord, error) {
	if part == nil || part.FunctionCall != nil || part.FunctionResponse != nil || part.ExecutableCode != nil ||
		part.CodeExecutionResult != nil || part.ToolCall != nil || part.ToolResponse != nil {
		return nil, fmt.Errorf("a part with inlineData, fileData or text is required: %w", session.ErrInvalid)
	}
	p := *part
	rec := &ArtifactRecord{Name: name}
	switch {
	case p.InlineData != nil:
		blob := *p.InlineData
		rec.MIME, rec.Bytes = blob.MIMEType, bytes.Clone(blob.Data)
		blob.Data = nil
		p.InlineData = &blob
	case p.FileData != nil:
		rec.MIME = p.FileData.MIMEType
	default:
		rec.Text, rec.Bytes = true, []byte(p.Text)
		p.Text = ""
	}
	var err error
	if rec.Part, err = json.Marshal(&p); err != nil {
		return nil, fmt.Errorf("%w: %w", err, session.ErrInvalid)
	}
	return rec, nil
}

// RestorePart returns the part with its bytes.
func (rec *ArtifactRecord) RestorePart() (*genai.Part, error) {
	p := &genai.Part{}
	if err := json.Unmarshal(rec.Part, p); err != nil {
		return nil, fmt.Errorf("reading artifact %q: %w", rec.Name, err)
	}
	switch {
	case rec.Text:
		p.Text = string(rec.Bytes)
	case p.InlineData != nil:
		p.InlineData.Data = bytes.Clone(rec.Bytes)
	}
	return p, nil
}

// DescribeVersion describes an artifact version without its content.
func (rec *ArtifactRecord) DescribeVersion(version int, uri string) session.ArtifactVersion {
	custom := maps.Clone(rec.Custom)
	for k, v := range custom {
		custom[k] = codec.CloneValue(v)
	}
	return session.ArtifactVersion{Version: version, CanonicalURI: uri, CustomMetadata: custom, Created: rec.Created, MIMEType: rec.MIME}
}

// referenceScheme is the URI prefix of a reference to another artifact.
const referenceScheme = "artifact://"

// maxReferences limits the length of a reference chain.
const maxReferences = 5

// A reference identifies the artifact that a part refers to.
type reference struct {
	key     session.Key
	name    string
	version int
}

// parseReference parses adk-python's form (artifacts/artifact_util.py):
//
//	artifact://apps/{app}/users/{user}/[sessions/{session}/]artifacts/{name}/versions/{n}
func parseReference(uri string) (reference, bool) {
	form := regexp.MustCompile(`^artifact://apps/(.+?)/users/(.+?)/(?:sessions/(.+?)/)?artifacts/(.+)/versions/(\d+)$`)
	m := form.FindStringSubmatch(uri)
	if m == nil {
		return reference{}, false
	}
	n, err := strconv.Atoi(m[5])
	return reference{session.Key{App: m[1], User: m[2], ID: m[3]}, m[4], n}, err == nil
}

// resolveReference follows a part's references. A reference must stay in the app and user, and in
// the session if it names one.
func (a *Artifacts) resolveReference(ctx context.Context, key session.Key, name string, part *genai.Part) (*genai.Part, error) {
	fail := func(why string) (*genai.Part, error) {
		return nil, fmt.Errorf("artifact %q: %s: %w", name, why, session.ErrInvalid)
	}
	for range maxReferences + 1 {
		if part.FileData == nil || !strings.HasPrefix(part.FileData.FileURI, referenceScheme) {
			return part, nil
		}
		ref, ok := parseReference(part.FileData.FileURI)
		switch {
		case !ok:
			return fail(fmt.Sprintf("invalid artifact reference %q", part.FileData.FileURI))
		case ref.key.App != key.App || ref.key.User != key.User:
			return fail("reference to another app or user not allowed")
		case ref.key.ID != "" && ref.key.ID != key.ID:
			return fail("reference to another session not allowed")
		}
		var err error
		if part, err = a.loadUnresolved(ctx, ref.key, ref.name, ref.version); err != nil {
			return nil, err
		}
	}
	return fail(fmt.Sprintf("chain of references exceeds the limit of %d", maxReferences))
}
