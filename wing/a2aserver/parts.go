package a2aserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"google.golang.org/genai"

	"agenthost/internal/a2apart"
	"agenthost/pkg/session"
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

// Limits for saved files in an answer or a stream. The others are addresses. maxLoads is how many files a replica
// reads at a time, since many streams may follow one task, and a file is read before its size is known.
const (
	maxSavedFiles = 64
	maxSavedBytes = 2 << 20
	maxLoads      = 4
)

// internalFiles begins the names of files that ADK and the host keep for themselves.
const internalFiles = "_adk"

// savedFiles loads files for an answer or a stream. It belongs to one goroutine.
type savedFiles struct {
	h *handlers
	// base is the server's URL.
	base string
	// count and bytes are those of the loaded files.
	count, bytes int
}

// listSaved returns the files that an event has saved, as artifacts with the IDs that ADK gives them.
func (v *taskView) listSaved(ctx context.Context, ev *session.Event) []*a2a.Artifact {
	if v.saved == nil || ev.IsFromUser() {
		return nil
	}
	var all []*a2a.Artifact
	for _, name := range slices.Sorted(maps.Keys(ev.Actions.ArtifactDelta)) {
		plain := strings.TrimPrefix(name, session.UserPrefix)
		if strings.HasPrefix(plain, internalFiles) {
			continue
		}
		version := ev.Actions.ArtifactDelta[name]
		if part := v.saved.buildPart(ctx, v.id.Key, name, version); part != nil {
			part.Filename = path.Base(plain)
			all = append(all, &a2a.Artifact{ID: a2a.ArtifactID(fmt.Sprintf("%s_%d", name, version)), Name: plain, Parts: a2a.ContentParts{part}, Metadata: v.buildEventMetadata(ev)})
		}
	}
	return all
}

// buildPart returns a file, or its address if it exceeds the limits; nil for a deleted one. After the first file that
// exceeds them no other one is read.
func (s *savedFiles) buildPart(ctx context.Context, key session.Key, name string, version int) *a2a.Part {
	if s.count < maxSavedFiles && s.bytes < maxSavedBytes {
		content, err := s.loadFile(ctx, key, name, version)
		if errors.Is(err, session.ErrNotFound) {
			return nil
		}
		if err == nil {
			s.count++
			s.bytes += len(content.Text)
			if content.InlineData != nil {
				s.bytes += len(content.InlineData.Data)
			}
			if part := a2apart.BuildPart(content, false, nil); part != nil && s.bytes <= maxSavedBytes {
				return part
			}
		} else {
			s.h.Logger().WarnContext(ctx, "reading a saved file failed", "app", key.App, "session", key.ID, "error", err)
		}
	}
	address := s.base + "/apps/" + url.PathEscape(key.App) + "/users/" + url.PathEscape(key.User) + "/sessions/" + url.PathEscape(key.ID) +
		"/artifacts/" + url.PathEscape(name) + "/versions/" + strconv.Itoa(version)
	return a2a.NewFileURLPart(a2a.URL(address), "application/json")
}

// loadFile reads a file once fewer than maxLoads others are read.
func (s *savedFiles) loadFile(ctx context.Context, key session.Key, name string, version int) (*genai.Part, error) {
	select {
	case s.h.loads <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-s.h.loads }()
	return s.h.Host().Store().Artifacts.Load(ctx, key, name, version)
}
