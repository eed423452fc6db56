package toolconfig

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// IsMediaType reports whether a media type is an image, audio, video or PDF, which models read as it is.
func IsMediaType(kind string) bool {
	family, _, _ := strings.Cut(kind, "/")
	return slices.Contains([]string{"image", "audio", "video"}, family) || kind == "application/pdf"
}

// IsTextType reports whether content with a media type is text.
func IsTextType(kind string) bool {
	return strings.HasPrefix(kind, "text/") ||
		slices.Contains([]string{"application/csv", "application/json", "application/xml"}, kind)
}

// PartBytes returns a part's content: its data, or else its text.
func PartBytes(part *genai.Part) []byte {
	if part.InlineData != nil {
		return part.InlineData.Data
	}
	return []byte(part.Text)
}

// MediaTypeOf returns a file's media type by its name, or else by its content.
func MediaTypeOf(name string, content []byte) string {
	if kind := mime.TypeByExtension(path.Ext(name)); kind != "" {
		kind, _, _ = strings.Cut(kind, ";")
		return kind
	}
	kind, _, _ := strings.Cut(http.DetectContentType(content), ";")
	return kind
}

// textTypeOf returns a string's media type by its name's extension. Unlike package mime, it does
// not depend on the machine.
func textTypeOf(name string) string {
	types := map[string]string{
		".md": "text/markdown", ".csv": "text/csv", ".html": "text/html", ".json": "application/json",
		".xml": "application/xml", ".svg": "image/svg+xml", ".yaml": "text/yaml", ".ics": "text/calendar",
	}
	if kind, ok := types[strings.ToLower(path.Ext(name))]; ok {
		return kind
	}
	return "text/plain"
}

// LoadArtifact loads the session's artifact, or else the user's artifact with that name.
func LoadArtifact(ctx context.Context, from tool.Artifacts, name string) (*genai.Part, error) {
	part, err := from.Load(ctx, name)
	if errors.Is(err, session.ErrNotFound) && !strings.HasPrefix(name, session.UserPrefix) {
		return from.Load(ctx, session.UserPrefix+name)
	}
	return part, err
}

// TextOrMedia converts bytes that a model cannot read to text.
func TextOrMedia(name string, part *genai.Part) *genai.Part {
	if part.InlineData == nil {
		return part
	}
	kind, _, _ := strings.Cut(part.InlineData.MIMEType, ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	bytes := part.InlineData.Data
	switch {
	case IsMediaType(kind):
		return part
	case IsTextType(kind) && len(bytes) > 0:
		return &genai.Part{Text: strings.ToValidUTF8(string(bytes), "\uFFFD")}
	}
	if kind == "" {
		kind = "application/octet-stream"
	}
	return &genai.Part{Text: fmt.Sprintf("[Binary artifact: %s, type: %s, size: %.1f KB. Content cannot be displayed inline.]",
		name, kind, float64(len(bytes))/1024)}
}
