package session

import (
	"fmt"
	"strings"
	"time"
)

// An ArtifactVersion describes one stored version of an artifact. The JSON
// form is ADK's.
type ArtifactVersion struct {
	// Version counts from 0.
	Version        int
	CanonicalURI   string
	CustomMetadata map[string]any
	Created        time.Time
	MIMEType       string
}

// CheckArtifactName says why a name cannot be used; the error is ErrInvalid.
// Names may have folders ("reports/may.txt") and the user: prefix, but are
// never absolute and never step up.
func CheckArtifactName(name string) error {
	bare := strings.TrimPrefix(name, UserPrefix)
	fail := func(why string) error {
		return fmt.Errorf("artifact name %q %s: %w", name, why, ErrInvalid)
	}
	switch {
	case bare == "":
		return fail("is empty")
	case len(name) > 512:
		return fail("is longer than 512 bytes")
	case strings.HasPrefix(bare, "/"):
		return fail("is absolute")
	case strings.ContainsAny(name, "\x00\\"):
		return fail("holds a NUL or a backslash")
	}
	for part := range strings.SplitSeq(bare, "/") {
		if part == "" || part == "." || part == ".." {
			return fail("has an empty, . or .. part")
		}
	}
	return nil
}
