package store

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

// A bucket keeps objects by name; a slash in a name means nothing to it. Many
// goroutines use it.
type bucket interface {
	// listObjects finds objects by the beginning of their names, in any order, without
	// their bytes.
	listObjects(ctx context.Context, l listRequest) ([]object, error)
	// readObject returns an object. What is missing is fs.ErrNotExist, one with more
	// bytes than most errTooLarge.
	readObject(ctx context.Context, name string, most int64) (*object, error)
	// createObject adds an object; a name that is taken is fs.ErrExist. It notes when
	// the bucket says that it was made.
	createObject(ctx context.Context, o *object) error
	// deleteObject takes an object away. A missing one is no error.
	deleteObject(ctx context.Context, name string) error
	// close ends what waits.
	close() error
}

// A listing says what list finds.
type listRequest struct {
	prefix string
	// flat leaves out names with a slash behind the prefix.
	flat bool
	// full asks for more than the names.
	full bool
}

// An object is a name with bytes, and what is known of them.
type object struct {
	name, mime string
	created    time.Time
	metadata   map[string]string
	bytes      []byte
}

// A bucketURL names a bucket and the beginning of the names of its objects.
type bucketURL struct {
	scheme, bucket string
	// prefix is empty or ends with a slash.
	prefix string
	query  url.Values
}

// parseBucket reads what follows the colon of gs://bucket/prefix?k=v.
func parseBucket(scheme, rest string) (*bucketURL, error) {
	path, query, _ := strings.Cut(rest, "?")
	path, ok := strings.CutPrefix(path, "//")
	name, prefix, _ := strings.Cut(path, "/")
	if !ok || name == "" {
		return nil, fmt.Errorf("a bucket is required: %s://bucket or %s://bucket/prefix", scheme, scheme)
	}
	if strings.Contains(name, "@") {
		return nil, fmt.Errorf("keys have no place in the URL: %s://bucket takes those of the host's environment", scheme)
	}
	if !regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]$`).MatchString(name) {
		return nil, fmt.Errorf("%q is no name of a bucket: small letters, digits, dots and dashes make one", name)
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

// String is the URL without its parameters.
func (u *bucketURL) String() string { return u.scheme + "://" + u.bucket + "/" + u.prefix }
