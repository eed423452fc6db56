package vertexstore

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"agenthost/pkg/session"
)

// The service accepts ids that have lower case letters, digits and dashes and begin with a letter,
// and assigns 19-digit ids itself. Other ids get a prefix: "x-" if that is enough, otherwise "z-"
// and their base32.
const (
	plainPrefix   = "x-"
	encodedPrefix = "z-"
)

var (
	validID    = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)
	assignedID = regexp.MustCompile(`^[0-9]{16,20}$`)
	idEncoding = base32.HexEncoding.WithPadding(base32.NoPadding)
)

// encodeID returns the id in the service for a session id.
func encodeID(id string) (string, error) {
	if assignedID.MatchString(id) || validID.MatchString(id) && !hasReservedPrefix(id) {
		return id, nil
	}
	if plain := plainPrefix + id; validID.MatchString(plain) && !validID.MatchString(id) {
		return plain, nil
	}
	encoded := encodedPrefix + strings.ToLower(idEncoding.EncodeToString([]byte(id)))
	if !validID.MatchString(encoded) {
		return "", fmt.Errorf("session id exceeds the limit of Vertex AI: 63 characters of a-z, 0-9 and -, or 38 bytes of other characters: %w", session.ErrInvalid)
	}
	return encoded, nil
}

func hasReservedPrefix(id string) bool {
	return strings.HasPrefix(id, plainPrefix) || strings.HasPrefix(id, encodedPrefix)
}

// decodeID returns the session id for an id in the service.
func decodeID(id string) string {
	if rest, ok := strings.CutPrefix(id, encodedPrefix); ok {
		if text, err := idEncoding.DecodeString(strings.ToUpper(rest)); err == nil {
			if back, err := encodeID(string(text)); err == nil && back == id {
				return string(text)
			}
		}
	}
	if rest, ok := strings.CutPrefix(id, plainPrefix); ok {
		if back, err := encodeID(rest); err == nil && back == id {
			return rest
		}
	}
	return id
}

// A session's labels.
const (
	// appLabel is the creating app's hash. The service does not store the app itself.
	appLabel = "agenthost_app"
	// createLabel identifies the request that created the session.
	createLabel = "agenthost_request"
)

func hashApp(app string) string {
	sum := sha256.Sum256([]byte(app))
	return hex.EncodeToString(sum[:16])
}
