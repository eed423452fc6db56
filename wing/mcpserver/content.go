package mcpserver

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"mime"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/genai"

	"agenthost/internal/safe"
	"agenthost/pkg/protocol"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/wing/mcpserver/mcpskills"
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
	if responses := ev.Responses(); len(responses) > 0 {
		t.response = responses[len(responses)-1].Response
	} else if ev.Output != nil {
		t.response = map[string]any{"result": ev.Output} // a person's answer is the tool's
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

func (t *Prompt) describePrompt() *mcp.Prompt {
	described := &mcp.Prompt{Name: t.Name, Description: t.Description}
	for _, a := range t.Arguments {
		described.Arguments = append(described.Arguments, &mcp.PromptArgument{Name: a.Name, Description: a.Description, Required: a.Required})
	}
	return described
}

// handlePrompt renders a prompt. An argument's value is not rendered again.
func (p *publishedApp) handlePrompt(ctx context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
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
	render := strings.NewReplacer(pairs...)
	var attached []string
	for _, uri := range t.Attach {
		attached = append(attached, render.Replace(uri))
	}
	messages, err := p.attachResources(ctx, req, attached)
	if err != nil {
		return nil, err
	}
	messages = append(messages, &mcp.PromptMessage{Role: "user", Content: &mcp.TextContent{Text: render.Replace(t.Text)}})
	return &mcp.GetPromptResult{Description: t.Description, Messages: messages}, nil
}

// A Resource is text or bytes that clients read by URI. A resource whose URI has a {NAME} is a
// template: the name matches one segment, whose value replaces {NAME} in the text.
type Resource struct {
	URI, Description, MIMEType, Text string
	Data                             []byte
	Arguments                        []PromptArgument
	// pattern matches the URIs of a template; nil for a resource with one URI.
	pattern *regexp.Regexp
}

var uriParameter = regexp.MustCompile(`\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// checkResource reports problems in a resource.
func (e *exposeConfig) checkResource(at *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	if e.Resource == "" {
		if e.Data != "" || e.MIMEType != "" {
			ds = append(ds, at.Errorf(sectionKey, "data and mime_type belong to a resource: resource is required"))
		}
		return ds
	}
	u, err := url.Parse(uriParameter.ReplaceAllString(e.Resource, "x"))
	switch {
	case err != nil || u.Scheme == "" || strings.ContainsAny(u.String(), "{}") || strings.Contains(u.String(), "%7B"):
		ds = append(ds, at.Get("resource").Errorf(sectionKey, "resource must be a URI with a scheme, such as docs://returns or docs://{name}, got %q", e.Resource))
	case strings.HasPrefix(strings.ToLower(e.Resource), artifactScheme):
		ds = append(ds, at.Get("resource").Errorf(sectionKey, "resource cannot begin with %s, which artifacts have", artifactScheme))
	case strings.HasPrefix(strings.ToLower(e.Resource), mcpskills.Scheme):
		ds = append(ds, at.Get("resource").Errorf(sectionKey, "resource cannot begin with %s, which skills have", mcpskills.Scheme))
	}
	if (e.Text == "") == (e.Data == "") {
		ds = append(ds, at.Errorf(sectionKey, "exactly one of text and data is required for a resource"))
	}
	if _, err := base64.StdEncoding.DecodeString(e.Data); err != nil {
		ds = append(ds, at.Get("data").Errorf(sectionKey, "data must be base64: %s", err))
	}
	if n := len(e.Text) + len(e.Data); n > maxResource {
		ds = append(ds, at.Errorf(sectionKey, "resource exceeds the limit of %d bytes, got %d", maxResource, n))
	}
	return ds
}

func (e *exposeConfig) buildResource() Resource {
	r := Resource{URI: e.Resource, Description: e.Description, MIMEType: e.MIMEType, Text: e.Text, Arguments: e.buildArguments()}
	if e.Data != "" {
		r.Data, _ = base64.StdEncoding.DecodeString(e.Data) // Check has reported an error
	}
	switch {
	case r.MIMEType != "":
	case r.Data != nil:
		r.MIMEType = "application/octet-stream"
	default:
		r.MIMEType = "text/plain"
	}
	if !uriParameter.MatchString(r.URI) {
		return r
	}
	var pattern strings.Builder
	rest := r.URI
	for _, at := range uriParameter.FindAllStringSubmatchIndex(r.URI, -1) {
		begin := len(r.URI) - len(rest)
		pattern.WriteString(regexp.QuoteMeta(r.URI[begin:at[0]]) + "([^/?#]+)")
		rest = r.URI[at[1]:]
	}
	r.pattern = regexp.MustCompile("^" + pattern.String() + regexp.QuoteMeta(rest) + "$")
	return r
}

// contentsFor returns the contents at a URI; nil if it is not the resource's.
func (r *Resource) contentsFor(uri string) *mcp.ResourceContents {
	contents := &mcp.ResourceContents{URI: uri, MIMEType: r.MIMEType, Text: r.Text, Blob: r.Data}
	if r.pattern == nil {
		if uri != r.URI {
			return nil
		}
		return contents
	}
	values := r.pattern.FindStringSubmatch(uri)
	if values == nil {
		return nil
	}
	var pairs []string
	for i, name := range uriParameter.FindAllString(r.URI, -1) {
		value, err := url.PathUnescape(values[i+1])
		if err != nil {
			return nil
		}
		pairs = append(pairs, name, value)
	}
	contents.Text = strings.NewReplacer(pairs...).Replace(r.Text)
	return contents
}

// findResource returns the contents at a URI; nil without.
func (s *Settings) findResource(uri string) *mcp.ResourceContents {
	for i := range s.Resources {
		if contents := s.Resources[i].contentsFor(uri); contents != nil {
			return contents
		}
	}
	return nil
}

// updateResources makes the server list the resources in settings, and notifies the subscribers of
// those that have changed. The caller holds the lock.
func (p *publishedApp) updateResources(settings *Settings) (changed []string) {
	listed := map[string][]byte{}
	for i := range settings.Resources {
		r := &settings.Resources[i]
		listed[r.URI] = encodeEntry(r)
		if bytes.Equal(listed[r.URI], p.listedResources[r.URI]) {
			continue
		}
		if caught := safe.Call(func() { p.addResource(r) }); caught != nil {
			p.h.Logger().Error("MCP resource rejected", "app", p.name, "resource", r.URI, "reason", caught.Value)
			delete(listed, r.URI)
		} else if p.listedResources[r.URI] != nil {
			changed = append(changed, r.URI)
		}
	}
	changed = append(changed, p.updateSkills(settings, listed)...)
	missing := listMissing(p.listedResources, listed)
	p.server.RemoveResources(missing...)
	p.server.RemoveResourceTemplates(missing...)
	if settings.Artifacts && !p.hasArtifacts {
		p.server.AddResourceTemplate(&mcp.ResourceTemplate{Name: "artifact", Description: "A file that an answer has saved.", URITemplate: artifactTemplate}, p.handleResource)
	} else if !settings.Artifacts && p.hasArtifacts {
		p.server.RemoveResourceTemplates(artifactTemplate)
	}
	p.listedResources, p.hasArtifacts = listed, settings.Artifacts
	return append(changed, missing...)
}

// updateSkills makes the server list each skill's main file, and match the URIs of the others.
func (p *publishedApp) updateSkills(settings *Settings, listed map[string][]byte) (changed []string) {
	if settings.Skills == nil {
		if p.hasSkills {
			p.server.RemoveResourceTemplates(mcpskills.Template)
		}
		p.hasSkills = false
		return nil
	}
	if !p.hasSkills {
		p.server.AddResourceTemplate(&mcp.ResourceTemplate{Name: "skill", Description: "A file in a skill.", URITemplate: mcpskills.Template}, p.handleResource)
	}
	p.hasSkills = true
	for _, s := range settings.Skills.Skills() {
		listed[s.URI] = encodeEntry(s)
		if bytes.Equal(listed[s.URI], p.listedResources[s.URI]) {
			continue
		}
		p.server.AddResource(&mcp.Resource{Name: s.Name(), Description: s.Description(), MIMEType: "text/markdown", URI: s.URI}, p.handleResource)
		if p.listedResources[s.URI] != nil {
			changed = append(changed, s.URI)
		}
	}
	return changed
}

func (p *publishedApp) addResource(r *Resource) {
	name := path.Base(r.URI)
	if r.pattern != nil {
		p.server.AddResourceTemplate(&mcp.ResourceTemplate{Name: name, Description: r.Description, MIMEType: r.MIMEType, URITemplate: r.URI}, p.handleResource)
		return
	}
	p.server.AddResource(&mcp.Resource{Name: name, Description: r.Description, MIMEType: r.MIMEType, URI: r.URI}, p.handleResource)
}

// handleResource reads a resource, or an artifact in one of the caller's sessions.
func (p *publishedApp) handleResource(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	contents := p.readResource(ctx, p.callerOf(req), req.Params.URI)
	if contents == nil {
		return nil, mcp.ResourceNotFoundError(req.Params.URI)
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{contents}}, nil
}

// readResource returns what a user reads at a URI; nil if there is nothing.
func (p *publishedApp) readResource(ctx context.Context, user, uri string) *mcp.ResourceContents {
	settings := p.currentSettings()
	if strings.HasPrefix(uri, artifactScheme) {
		if !settings.Artifacts {
			return nil
		}
		return p.readArtifact(ctx, user, uri)
	}
	if settings.Skills != nil && strings.HasPrefix(uri, mcpskills.Scheme) {
		return settings.Skills.FindFile(uri)
	}
	return settings.findResource(uri)
}

// readArtifact returns an artifact in one of a user's sessions; nil without.
func (p *publishedApp) readArtifact(ctx context.Context, user, uri string) *mcp.ResourceContents {
	id, name, version, ok := parseArtifactURI(uri)
	if !ok || isInternal(name) {
		return nil
	}
	key, st := session.Key{App: p.name, User: user, ID: id}, p.h.Host().Store()
	if _, err := st.Sessions.Get(ctx, key, nil); err != nil {
		return nil
	}
	part, err := st.Artifacts.Load(ctx, key, name, version)
	switch {
	case err != nil || part == nil:
		return nil
	case part.InlineData != nil:
		data := part.InlineData.Data
		if data == nil {
			data = []byte{} // an empty file: clients require text or a blob
		}
		return &mcp.ResourceContents{URI: uri, Blob: data, MIMEType: part.InlineData.MIMEType}
	case part.Text == "":
		return nil // a reference to another place
	}
	return &mcp.ResourceContents{URI: uri, MIMEType: "text/plain", Text: part.Text}
}

// handleSubscribe accepts a subscription to what the caller can read.
func (p *publishedApp) handleSubscribe(ctx context.Context, req *mcp.SubscribeRequest) error {
	user, hasStream := ctx.Value(streamUserKey{}).(string)
	if !hasStream {
		user = p.callerOf(req)
	}
	if p.readResource(ctx, user, req.Params.URI) == nil {
		return mcp.ResourceNotFoundError(req.Params.URI)
	}
	return nil
}

func (p *publishedApp) handleUnsubscribe(context.Context, *mcp.UnsubscribeRequest) error { return nil }

// notifySubscribers notifies the subscribers of changed resources.
func (p *publishedApp) notifySubscribers(ctx context.Context, uris ...string) {
	for _, uri := range uris {
		_ = p.server.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: uri}) // clients may have left
	}
}

// notifyArtifacts notifies the subscribers of the files that an event has saved.
func (c *call) notifyArtifacts(ctx context.Context, ev *session.Event) {
	if !c.settings.Artifacts {
		return
	}
	for name := range ev.Actions.ArtifactDelta {
		if !isInternal(name) {
			latest, _, _ := strings.Cut(artifactURI(c.key.ID, name, 0), "?")
			c.p.notifySubscribers(ctx, latest)
		}
	}
}

// handleComplete completes an argument of a prompt or a template by the values in app.yaml.
func (p *publishedApp) handleComplete(_ context.Context, req *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
	settings := p.currentSettings()
	arguments, found := settings.listArguments(req.Params.Ref)
	if !found {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "unknown prompt or resource template"}
	}
	values := []string{}
	begin := strings.ToLower(req.Params.Argument.Value)
	for i := range arguments {
		if arguments[i].Name != req.Params.Argument.Name {
			continue
		}
		for _, value := range arguments[i].Values {
			if strings.HasPrefix(strings.ToLower(value), begin) {
				values = append(values, value)
			}
		}
	}
	return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: values, Total: len(values)}}, nil
}

// listArguments returns the arguments of what a reference names.
func (s *Settings) listArguments(ref *mcp.CompleteReference) (arguments []PromptArgument, found bool) {
	switch {
	case ref == nil:
	case ref.Type == "ref/prompt":
		if i := slices.IndexFunc(s.Prompts, func(t Prompt) bool { return t.Name == ref.Name }); i >= 0 {
			return s.Prompts[i].Arguments, true
		}
	case ref.URI == artifactTemplate:
		return nil, s.Artifacts
	case ref.URI == mcpskills.Template:
		return nil, s.Skills != nil
	default:
		if i := slices.IndexFunc(s.Resources, func(r Resource) bool { return r.URI == ref.URI }); i >= 0 {
			return s.Resources[i].Arguments, true
		}
	}
	return nil, false
}

// attachResources returns what precedes a prompt's text.
func (p *publishedApp) attachResources(ctx context.Context, req *mcp.GetPromptRequest, uris []string) ([]*mcp.PromptMessage, error) {
	var messages []*mcp.PromptMessage
	for _, uri := range uris {
		contents := p.readResource(ctx, p.callerOf(req), uri)
		if contents == nil {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("resource %q not found", protocol.TruncateText(uri, maxErrorLine))}
		}
		messages = append(messages, &mcp.PromptMessage{Role: "user", Content: attachedContent(contents)})
	}
	return messages, nil
}

func attachedContent(contents *mcp.ResourceContents) mcp.Content {
	family, _, _ := strings.Cut(contents.MIMEType, "/")
	switch {
	case contents.Blob != nil && family == "image":
		return &mcp.ImageContent{Data: contents.Blob, MIMEType: contents.MIMEType}
	case contents.Blob != nil && family == "audio":
		return &mcp.AudioContent{Data: contents.Blob, MIMEType: contents.MIMEType}
	}
	return &mcp.EmbeddedResource{Resource: contents}
}
