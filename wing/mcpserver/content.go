package mcpserver

import (
	"context"
	"fmt"
	"maps"
	"mime"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/genai"

	"agenthost/pkg/session"
)

// readEvent adds what a client sees of an event: the final text without thoughts, media, and links
// to the files that were saved.
func (t *turn) readEvent(id string, ev *session.Event) {
	if ev.Partial || ev.IsFromUser() {
		return
	}
	if len(ev.LongRunningToolIDs) > 0 {
		t.asks = true
	}
	if ev.ErrorCode != "" || ev.ErrorMessage != "" {
		t.failure = strings.TrimPrefix(ev.ErrorCode+": "+ev.ErrorMessage, ": ")
	}
	for _, name := range slices.Sorted(maps.Keys(ev.Actions.ArtifactDelta)) {
		if !isInternal(name) {
			t.content = append(t.content, &mcp.ResourceLink{URI: artifactURI(id, name, ev.Actions.ArtifactDelta[name]), Name: path.Base(name)})
		}
	}
	switch {
	case ev.IsPlainResult():
		t.addText(ev.ResultText())
	case ev.Content != nil && ev.IsFinal():
		for _, p := range ev.Content.Parts {
			t.addPart(p)
		}
	}
}

func (t *turn) addText(text string) {
	t.text.WriteString(text)
	t.content = append(t.content, &mcp.TextContent{Text: text})
}

// addPart converts a part, as ADK does. Thoughts, calls and their results are not for the client.
func (t *turn) addPart(p *genai.Part) {
	switch {
	case p == nil || p.Thought:
	case p.Text != "":
		t.addText(p.Text)
	case p.InlineData != nil:
		kind, _, err := mime.ParseMediaType(p.InlineData.MIMEType)
		family, _, _ := strings.Cut(kind, "/")
		switch {
		case err != nil:
			t.content = append(t.content, embedBlob(p.InlineData.Data, "application/octet-stream"))
		case family == "image":
			t.content = append(t.content, &mcp.ImageContent{Data: p.InlineData.Data, MIMEType: kind})
		case family == "audio":
			t.content = append(t.content, &mcp.AudioContent{Data: p.InlineData.Data, MIMEType: kind})
		default:
			t.content = append(t.content, embedBlob(p.InlineData.Data, kind))
		}
	case p.FileData != nil && !strings.HasPrefix(p.FileData.FileURI, "artifact:"):
		t.content = append(t.content, &mcp.ResourceLink{URI: p.FileData.FileURI, Name: p.FileData.DisplayName, MIMEType: p.FileData.MIMEType})
	}
}

func embedBlob(data []byte, kind string) mcp.Content {
	return &mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "resource://adk-agent/inline-data", MIMEType: kind, Blob: data}}
}

// plainText returns a content's text without thoughts.
func plainText(c *genai.Content) string {
	if c == nil {
		return ""
	}
	var all strings.Builder
	for _, p := range c.Parts {
		if p != nil && !p.Thought {
			all.WriteString(p.Text)
		}
	}
	return all.String()
}

const (
	artifactScheme   = "artifact://"
	artifactTemplate = "artifact://{session}/{+name}"
)

// isInternal reports whether ADK or the host keeps an artifact for itself.
func isInternal(name string) bool {
	return strings.HasPrefix(strings.TrimPrefix(name, session.UserPrefix), "_adk")
}

func artifactURI(id, name string, version int) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	return fmt.Sprintf("%s%s/%s?version=%d", artifactScheme, url.PathEscape(id), strings.Join(parts, "/"), version)
}

// parseArtifactURI returns the session, the name and the version, which is -1 for the latest.
func parseArtifactURI(uri string) (id, name string, version int, ok bool) {
	rest, ok := strings.CutPrefix(uri, artifactScheme)
	rest, query, hasQuery := strings.Cut(rest, "?")
	id, name, found := strings.Cut(rest, "/")
	id, idErr := url.PathUnescape(id)
	name, nameErr := url.PathUnescape(name)
	version = -1
	if hasQuery {
		number, err := strconv.Atoi(strings.TrimPrefix(query, "version="))
		if err != nil || number < 0 || !strings.HasPrefix(query, "version=") {
			return "", "", 0, false
		}
		version = number
	}
	return id, name, version, ok && found && idErr == nil && nameErr == nil && id != "" && name != ""
}

// handleArtifact reads an artifact in one of the caller's sessions.
func (p *publishedApp) handleArtifact(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	id, name, version, ok := parseArtifactURI(req.Params.URI)
	if !ok || isInternal(name) {
		return nil, mcp.ResourceNotFoundError(req.Params.URI)
	}
	key, st := session.Key{App: p.name, User: p.callerOf(req), ID: id}, p.h.Host().Store()
	if _, err := st.Sessions.Get(ctx, key, nil); err != nil {
		return nil, mcp.ResourceNotFoundError(req.Params.URI)
	}
	part, err := st.Artifacts.Load(ctx, key, name, version)
	if err != nil || part == nil {
		return nil, mcp.ResourceNotFoundError(req.Params.URI)
	}
	contents := &mcp.ResourceContents{URI: req.Params.URI, MIMEType: "text/plain", Text: part.Text}
	switch {
	case part.InlineData != nil:
		contents.Text, contents.Blob, contents.MIMEType = "", part.InlineData.Data, part.InlineData.MIMEType
	case part.Text == "":
		return nil, mcp.ResourceNotFoundError(req.Params.URI) // a reference to another place
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{contents}}, nil
}

func (t *Prompt) describePrompt() *mcp.Prompt {
	described := &mcp.Prompt{Name: t.Name, Description: t.Description}
	for _, a := range t.Arguments {
		described.Arguments = append(described.Arguments, &mcp.PromptArgument{Name: a.Name, Description: a.Description, Required: a.Required})
	}
	return described
}

// handlePrompt renders a prompt. An argument's value is not rendered again.
func (p *publishedApp) handlePrompt(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	settings := p.currentSettings()
	i := slices.IndexFunc(settings.Prompts, func(t Prompt) bool { return t.Name == req.Params.Name })
	if i < 0 {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("unknown prompt %q", req.Params.Name)}
	}
	t := &settings.Prompts[i]
	var pairs []string
	for _, a := range t.Arguments {
		value, given := req.Params.Arguments[a.Name]
		if !given && a.Required {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("argument %q is required", a.Name)}
		}
		pairs = append(pairs, "{"+a.Name+"}", value)
	}
	text := strings.NewReplacer(pairs...).Replace(t.Text)
	return &mcp.GetPromptResult{Description: t.Description, Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: text}}}}, nil
}
