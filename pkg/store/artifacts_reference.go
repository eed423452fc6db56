package store

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/session"
)

// referenceScheme begins the URIs by which a part refers to another artifact.
const referenceScheme = "artifact://"

// maxReferences bounds how many references may follow each other.
const maxReferences = 5

// A reference is an artifact that another one refers to.
type reference struct {
	key     session.Key
	name    string
	version int
}

// parseReference reads adk-python's form (artifacts/artifact_util.py):
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

// resolveReference loads what a part refers to, for as long as it refers to something.
// A reference stays with the app and user, and in the session if it names one.
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
			return fail(fmt.Sprintf("%q is no reference to an artifact", part.FileData.FileURI))
		case ref.key.App != key.App || ref.key.User != key.User:
			return fail("the reference leaves the app and user")
		case ref.key.ID != "" && ref.key.ID != key.ID:
			return fail("the reference leaves the session")
		}
		var err error
		if part, err = a.loadUnresolved(ctx, ref.key, ref.name, ref.version); err != nil {
			return nil, err
		}
	}
	return fail(fmt.Sprintf("more than %d references follow each other", maxReferences))
}
