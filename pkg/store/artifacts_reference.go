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

// referenceScheme is the URI prefix of a reference to another artifact.
const referenceScheme = "artifact://"

// maxReferences limits the length of a chain of references.
const maxReferences = 5

// A reference identifies the artifact that a part refers to.
type reference struct {
	key     session.Key
	name    string
	version int
}

// parseReference parses the form of adk-python (artifacts/artifact_util.py):
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

// resolveReference follows the references of a part. A reference must stay in
// the app and user, and in the session if it names one.
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
