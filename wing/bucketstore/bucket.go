package bucketstore

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"

	"agenthost/pkg/session"
)

// A bucket stores objects by name; slashes in names have no meaning. It is safe
// for concurrent use.
type bucket interface {
	// listObjects returns the objects whose names begin with a prefix, in any
	// order, without their content.
	listObjects(ctx context.Context, l listRequest) ([]object, error)
	// readObject returns an object. A missing object is fs.ErrNotExist, one
	// with more than most bytes errTooLarge.
	readObject(ctx context.Context, name string, most int64) (*object, error)
	// createObject creates an object and sets its creation time. An existing
	// name is fs.ErrExist.
	createObject(ctx context.Context, o *object) error
	// deleteObject deletes an object. Deleting a missing object succeeds.
	deleteObject(ctx context.Context, name string) error
	// close closes idle connections.
	close() error
}

// A listRequest selects the objects to list.
type listRequest struct {
	prefix string
	// flat excludes names with a slash after the prefix.
	flat bool
	// full requests the metadata, not only the names.
	full bool
}

// An object is a named content with metadata.
type object struct {
	name, mime string
	created    time.Time
	metadata   map[string]string
	bytes      []byte
}

// A bucketURL identifies a bucket and an object name prefix.
type bucketURL struct {
	scheme, bucket string
	// prefix is empty or ends with a slash.
	prefix string
	query  url.Values
}

// parseBucket parses gs://bucket/prefix?k=v after the scheme and colon.
func parseBucket(scheme, rest string) (*bucketURL, error) {
	path, query, _ := strings.Cut(rest, "?")
	path, ok := strings.CutPrefix(path, "//")
	name, prefix, _ := strings.Cut(path, "/")
	if !ok || name == "" {
		return nil, fmt.Errorf("a bucket is required: %s://bucket or %s://bucket/prefix", scheme, scheme)
	}
	if strings.Contains(name, "@") {
		return nil, fmt.Errorf("credentials are not allowed in the URL: %s://bucket reads them from the environment", scheme)
	}
	if !regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]$`).MatchString(name) {
		return nil, fmt.Errorf("invalid bucket name %q: use lower case letters, digits, dots and dashes", name)
	}
	if prefix = strings.TrimSuffix(prefix, "/"); prefix != "" {
		if err := session.CheckArtifactName(prefix); err != nil || strings.HasPrefix(prefix, session.UserPrefix) {
			return nil, fmt.Errorf("prefix %q: write it as folders, such as %s://%s/agents/prod", prefix, scheme, name)
		}
		prefix += "/"
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, fmt.Errorf("parameters: %w", errors.Unwrap(err))
	}
	return &bucketURL{scheme, name, prefix, values}, nil
}

// String returns the URL without parameters.
func (u *bucketURL) String() string { return u.scheme + "://" + u.bucket + "/" + u.prefix }
