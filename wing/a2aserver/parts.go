package a2aserver

import (
	"fmt"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"google.golang.org/genai"

	"agenthost/internal/a2apart"
)

// Limits for messages.
const (
	maxParts    = 100
	maxName     = 256
	maxMetadata = 4096
	maxID       = 256
)

func newInvalid(format string, args ...any) error {
	return a2a.NewError(a2a.ErrInvalidParams, fmt.Sprintf(format, args...))
}

// readParts returns a message's parts.
func readParts(m *a2a.Message) ([]*genai.Part, error) {
	if len(m.Parts) == 0 || len(m.Parts) > maxParts {
		return nil, newInvalid("message.parts must have 1 to %d parts, got %d", maxParts, len(m.Parts))
	}
	var all []*genai.Part
	for i, p := range m.Parts {
		part, err := a2apart.ReadPart(fmt.Sprintf("message.parts[%d]", i), p)
		if err != nil {
			return nil, err
		}
		all = append(all, part)
	}
	return all, nil
}
