// Package bucketstore keeps artifacts in buckets at Google Cloud Storage, Amazon S3 or compatible
// services, under the object names of adk-python.
package bucketstore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// The metadata keys with which adk-python's artifacts/gcs_artifact_service.py
// describes a blob.
const (
	keyIsText      = "adkIsText"
	keyDisplayName = "adkDisplayName"
	keyFileURI     = "adkFileUri"
	keyFileMIME    = "adkFileMimeType"
)

// maxObjectName is an object name's maximum length in bytes at Google and Amazon.
const maxObjectName = 1024

// maxSaveAttempts limits how often a save is attempted.
const maxSaveAttempts = 100

// userScope is the object name part for a user's artifacts.
const userScope = "user"

// Options configure a bucket. Nil and the zero value are valid.
type Options struct {
	// Clock returns the time for signatures; nil is time.Now.
	Clock func() time.Time
	// HTTP is the client for the bucket and for credentials; nil uses the backend's clients.
	HTTP *http.Client
	// Lookup replaces the process's environment for S3 and for STORAGE_EMULATOR_HOST: an s3: URL
	// then has only the keys AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, the
	// region and the endpoint from that environment. With nil, S3 uses the AWS SDK's default chain,
	// with profiles and pod and instance roles. Google credentials always come from the process's
	// environment.
	Lookup func(name string) (string, bool)
	// MaxArtifactBytes limits how large an artifact to read may be; 0 is 32 MiB.
	MaxArtifactBytes int64
}

func (o *Options) withDefaults() *Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.Clock == nil {
		d.Clock = time.Now
	}
	d.MaxArtifactBytes = cmp.Or(d.MaxArtifactBytes, store.DefaultArtifactBytes)
	return &d
}

// readVariable returns an environment variable, or "".
func (o *Options) readVariable(name string) string {
	if o.Lookup == nil {
		return os.Getenv(name)
	}
	v, _ := o.Lookup(name)
	return v
}

// Open opens a bucket by URL: gs://bucket/prefix or s3://bucket/prefix. It fails if
// there are no credentials; an s3: URL retrieves them, within 5 seconds. They are
// refreshed before they expire.
func Open(ctx context.Context, url string, opts *Options) (*Artifacts, error) {
	scheme, rest, _ := strings.Cut(url, ":")
	switch scheme {
	case "gs":
		return openGCS(rest, opts.withDefaults())
	case "s3":
		return openS3(ctx, rest, opts.withDefaults())
	}
	return nil, fmt.Errorf("unknown scheme %q: supported are gs://bucket/prefix and s3://bucket/prefix", scheme)
}

// Artifacts stores artifacts in a bucket, under the object names of
// adk-python:
//
//	{app}/{user}/{session}/{name}/{version}
//	{app}/{user}/user/user:{name}/{version}
//
// Several processes may use the bucket concurrently: the first one to create an
// object gets the version.
type Artifacts struct {
	bucket   bucket
	at       *bucketURL
	maxBytes int64
	closed   atomic.Bool
}

func newArtifacts(b bucket, at *bucketURL, o *Options) *Artifacts {
	return &Artifacts{bucket: b, at: at, maxBytes: o.MaxArtifactBytes}
}

// SaveVersion implements [store.ArtifactBackend].
func (b *Artifacts) SaveVersion(ctx context.Context, at store.ArtifactKey, rec *store.ArtifactRecord) (session.ArtifactVersion, error) {
	var none session.ArtifactVersion
	if b.closed.Load() {
		return none, store.ErrClosed
	}
	o, err := packObject(rec)
	if err != nil {
		return none, fmt.Errorf("artifact %q: %w", at.PrefixedName(), err)
	}
	for try := 1; ; try++ {
		numbers, err := b.listVersionNumbers(ctx, at)
		if err != nil {
			return none, b.wrapError("saving", at, err)
		}
		n := 0
		if len(numbers) > 0 {
			n = numbers[len(numbers)-1] + 1
		}
		if o.name, err = b.objectName(at, n); err != nil {
			return none, err
		}
		err = b.bucket.createObject(ctx, o)
		if err == nil {
			rec.Created = o.created
			return rec.DescribeVersion(n, b.objectURI(o.name)), nil
		}
		// Another process created this version first.
		if !errors.Is(err, fs.ErrExist) || try == maxSaveAttempts || ctx.Err() != nil {
			return none, b.wrapError("saving", at, err)
		}
	}
}

// listVersionNumbers returns the versions in order.
func (b *Artifacts) listVersionNumbers(ctx context.Context, at store.ArtifactKey) ([]int, error) {
	found, err := b.listVersionObjects(ctx, at, false)
	return slices.Sorted(maps.Keys(found)), err
}

// listVersionObjects returns an artifact's objects by version.
func (b *Artifacts) listVersionObjects(ctx context.Context, at store.ArtifactKey, full bool) (map[int]object, error) {
	prefix := b.artifactPrefix(at) + "/"
	objects, err := b.bucket.listObjects(ctx, listRequest{prefix, true, full})
	found := map[int]object{}
	for _, o := range objects {
		if n, ok := parseVersion(strings.TrimPrefix(o.name, prefix)); ok {
			found[n] = o
		}
	}
	return found, err
}

// parseVersion parses an object name's last part. The bucket may contain other objects.
func parseVersion(text string) (int, bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= 0 && strconv.Itoa(n) == text
}

// LoadVersion implements [store.ArtifactBackend].
func (b *Artifacts) LoadVersion(ctx context.Context, at store.ArtifactKey, version int) (*store.ArtifactRecord, error) {
	if b.closed.Load() {
		return nil, store.ErrClosed
	}
	n := version
	if n < 0 {
		numbers, err := b.listVersionNumbers(ctx, at)
		if err != nil {
			return nil, b.wrapError("loading", at, err)
		}
		if len(numbers) == 0 {
			return nil, at.NotFound(version)
		}
		n = numbers[len(numbers)-1]
	}
	o, err := b.bucket.readObject(ctx, fmt.Sprintf("%s/%d", b.artifactPrefix(at), n), b.maxBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, at.NotFound(version)
	case errors.Is(err, errTooLarge):
		return nil, fmt.Errorf("artifact %q version %d exceeds the limit of %d bytes: %w", at.PrefixedName(), n, b.maxBytes, session.ErrInvalid)
	case err != nil:
		return nil, b.wrapError("loading", at, err)
	}
	return unpackObject(at.Name, o)
}

// ListNames implements [store.ArtifactBackend].
func (b *Artifacts) ListNames(ctx context.Context, app, user, id string) ([]string, error) {
	if b.closed.Load() {
		return nil, store.ErrClosed
	}
	// User artifacts keep their prefix in the bucket, so a session with the id
	// "user" can share their folder.
	folder, begin := b.scopePrefix(store.ArtifactKey{App: app, User: user, Session: id}), ""
	if id == "" {
		begin = session.UserPrefix
	}
	objects, err := b.bucket.listObjects(ctx, listRequest{prefix: folder + begin})
	if err != nil {
		return nil, fmt.Errorf("listing artifacts of user %q in %s: %w", user, b.at, markUnavailable(err))
	}
	seen := map[string]bool{}
	for _, o := range objects {
		name := strings.TrimPrefix(o.name, folder)
		cut := strings.LastIndexByte(name, '/')
		if cut < 0 || session.CheckArtifactName(name[:cut]) != nil {
			continue
		}
		bare, users := strings.CutPrefix(name[:cut], session.UserPrefix)
		if _, ok := parseVersion(name[cut+1:]); ok && users == (id == "") {
			seen[bare] = true
		}
	}
	return slices.Collect(maps.Keys(seen)), nil
}

// ListVersions implements [store.ArtifactBackend].
func (b *Artifacts) ListVersions(ctx context.Context, at store.ArtifactKey) ([]session.ArtifactVersion, error) {
	if b.closed.Load() {
		return nil, store.ErrClosed
	}
	found, err := b.listVersionObjects(ctx, at, true)
	if err != nil {
		return nil, b.wrapError("reading the versions of", at, err)
	}
	var all []session.ArtifactVersion
	for _, n := range slices.Sorted(maps.Keys(found)) {
		o := found[n]
		rec, err := unpackObject(at.Name, &o)
		if err != nil {
			return nil, err
		}
		all = append(all, rec.DescribeVersion(n, b.objectURI(o.name)))
	}
	return all, nil
}

// DeleteArtifact deletes the lowest version first: if it fails, the latest
// version is still there.
func (b *Artifacts) DeleteArtifact(ctx context.Context, at store.ArtifactKey) error {
	if b.closed.Load() {
		return store.ErrClosed
	}
	numbers, err := b.listVersionNumbers(ctx, at)
	for _, n := range numbers {
		if err == nil {
			err = b.bucket.deleteObject(ctx, fmt.Sprintf("%s/%d", b.artifactPrefix(at), n))
		}
	}
	if err != nil {
		return b.wrapError("deleting", at, err)
	}
	return nil
}

// Ping tests nothing: all hosts share the bucket, so that its outage must not take all of
// them out of service.
func (b *Artifacts) Ping(context.Context) error {
	if b.closed.Load() {
		return store.ErrClosed
	}
	return nil
}

// Close closes the backend.
func (b *Artifacts) Close() error {
	if b.closed.Swap(true) {
		return nil
	}
	return b.bucket.close()
}

func (b *Artifacts) wrapError(doing string, at store.ArtifactKey, err error) error {
	return fmt.Errorf("%s artifact %q in %s: %w", doing, at.PrefixedName(), b.at, markUnavailable(err))
}

// markUnavailable marks a service error as [store.ArtifactsUnavailable]: no connection, no
// credentials, or a status after which a retry may succeed.
func markUnavailable(err error) error {
	status, lost := (*bucketError)(nil), (*url.Error)(nil)
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &status) && isRetryableStatus(status.status), errors.As(err, &lost), errors.Is(err, errAuthentication):
		return &store.ArtifactsUnavailable{Err: err}
	}
	return err
}

func (b *Artifacts) objectURI(name string) string {
	return b.at.scheme + "://" + b.at.bucket + "/" + name
}

// scopePrefix returns the object name prefix for the artifacts of a session or user.
func (b *Artifacts) scopePrefix(at store.ArtifactKey) string {
	folder := userScope
	if at.Session != "" {
		folder = escapeObjectPart(at.Session)
	}
	return b.at.prefix + escapeObjectPart(at.App) + "/" + escapeObjectPart(at.User) + "/" + folder + "/"
}

// artifactPrefix returns the name of an artifact's objects, without the
// version.
func (b *Artifacts) artifactPrefix(at store.ArtifactKey) string {
	return b.scopePrefix(at) + at.PrefixedName()
}

// objectName returns an object's name. It rejects names that buckets do not accept.
func (b *Artifacts) objectName(at store.ArtifactKey, version int) (string, error) {
	name := fmt.Sprintf("%s/%d", b.artifactPrefix(at), version)
	switch {
	case len(name) > maxObjectName:
		return "", fmt.Errorf("artifact %q: its object name of %d bytes exceeds the limit of %d bytes: %w",
			at.PrefixedName(), len(name), maxObjectName, session.ErrInvalid)
	case strings.ContainsAny(name, "\r\n"):
		return "", fmt.Errorf("artifact %q: object names cannot contain line breaks: %w", at.PrefixedName(), session.ErrInvalid)
	}
	return name, nil
}

// escapeObjectPart returns an id for use in an object name. As in adk-python, it is unchanged
// unless it would collide with another one. Then "/", "." and "%" are escaped. Ids that look
// escaped are escaped too, so that no two ids collide.
func escapeObjectPart(id string) string {
	dots := id == "." || id == ".."
	escaped := strings.Contains(id, "%2F") || strings.Contains(id, "%25") || strings.Contains(id, "%2E")
	if !dots && !escaped && !strings.Contains(id, "/") {
		return id
	}
	id = strings.NewReplacer("%", "%25", "/", "%2F").Replace(id)
	if dots {
		id = strings.ReplaceAll(id, ".", "%2E")
	}
	return id
}

// packObject converts an artifact to an object. It drops what adk-python does
// not store.
func packObject(rec *store.ArtifactRecord) (*object, error) {
	part, err := rec.RestorePart()
	if err != nil {
		return nil, err
	}
	o := &object{mime: rec.MIME, created: rec.Created, bytes: rec.Bytes, metadata: map[string]string{}}
	for k, v := range rec.Custom {
		if isReservedKey(k) {
			return nil, fmt.Errorf("custom metadata: key %q is reserved by ADK: %w", k, session.ErrInvalid)
		}
		if o.metadata[k], err = encodeMetadata(v); err != nil {
			return nil, fmt.Errorf("custom metadata: %s: %w: %w", k, err, session.ErrInvalid)
		}
	}
	switch {
	case rec.Text:
		o.mime, o.metadata[keyIsText] = "text/plain", "true"
	case part.FileData != nil:
		o.metadata[keyFileURI] = part.FileData.FileURI
		if part.FileData.MIMEType != "" {
			o.metadata[keyFileMIME] = part.FileData.MIMEType
		}
	case part.InlineData.DisplayName != "":
		o.metadata[keyDisplayName] = part.InlineData.DisplayName
	}
	if o.mime == "" {
		o.mime = store.AbsenceMIME
	}
	if strings.ContainsFunc(o.mime, func(c rune) bool { return c < ' ' || c > '~' }) {
		return nil, fmt.Errorf("invalid MIME type %q: %w", o.mime, session.ErrInvalid)
	}
	return o, nil
}

func isReservedKey(key string) bool {
	return slices.Contains([]string{keyIsText, keyDisplayName, keyFileURI, keyFileMIME}, key)
}

// encodeMetadata returns a value as a string, since buckets store only strings.
func encodeMetadata(v any) (string, error) {
	if text, ok := v.(string); ok {
		return text, nil
	}
	text, err := json.Marshal(v)
	return string(text), err
}

func unpackObject(name string, o *object) (*store.ArtifactRecord, error) {
	rec := &store.ArtifactRecord{Name: name, Created: o.created, MIME: o.mime, Bytes: o.bytes}
	for k, v := range o.metadata {
		if !isReservedKey(k) {
			if rec.Custom == nil {
				rec.Custom = map[string]any{}
			}
			rec.Custom[k] = v
		}
	}
	part := &genai.Part{}
	switch {
	case o.metadata[keyFileURI] != "":
		kind := o.metadata[keyFileMIME]
		if kind == "" && o.mime != store.AbsenceMIME {
			kind = o.mime
		}
		rec.MIME, part.FileData = kind, &genai.FileData{FileURI: o.metadata[keyFileURI], MIMEType: kind}
	case o.metadata[keyIsText] == "true":
		rec.Text = true
	default:
		part.InlineData = &genai.Blob{MIMEType: o.mime, DisplayName: o.metadata[keyDisplayName]}
	}
	var err error
	rec.Part, err = json.Marshal(part)
	return rec, err
}
