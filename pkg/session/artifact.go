package session

import (
	"fmt"
	"strings"
	"time"
)

// An ArtifactVersion describes one stored version of an artifact. Its JSON form
// is ADK's.
type ArtifactVersion struct {
	// Version starts at 0.
	Version        int
	CanonicalURI   string
	CustomMetadata map[string]any
	Created        time.Time
	MIMEType       string
}

// CheckArtifactName validates an artifact name; the error is ErrInvalid. A name
// may contain folders ("reports/may.txt") and the prefix user:, but it must be
// relative and must not contain "..".
func CheckArtifactName(name string) error {
	bare := strings.TrimPrefix(name, UserPrefix)
	fail := func(why string) error {
		return fmt.Errorf("artifact name %q %s: %w", name, why, ErrInvalid)
	}
	switch {
	case bare == "":
		return fail("is empty")
	case len(name) > 512:
		return fail("exceeds the limit of 512 bytes")
	case strings.HasPrefix(bare, "/"):
		return fail("must be relative")
	case strings.ContainsAny(name, "\x00\\"):
		return fail("contains a NUL byte or a backslash")
	}
	for part := range strings.SplitSeq(bare, "/") {
		if part == "" || part == "." || part == ".." {
			return fail("contains an empty, . or .. element")
		}
	}
	return nil
}
