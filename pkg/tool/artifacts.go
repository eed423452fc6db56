package tool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/template"
)

const loadArtifactsName = "load_artifacts"

// artifactsInstruction lists the artifacts for the model; %s is a JSON
// list.
const artifactsInstruction = "You have access to these artifacts:\n  %s\n\n" +
	"Before you answer a question about one of them, call the function `load_artifacts` with its name, " +
	"and write nothing besides that call. The contents are only in the request right after the call: " +
	"load an artifact again each time you need it, even if you have loaded it before."

// loadedStatus is the status in the response of load_artifacts.
const loadedStatus = "The contents are inserted for the next response only, and removed after it. " +
	"To see them again, call load_artifacts again."

// A loadArtifactsTool gives the model access to the session's artifacts: it
// lists them in every request, and appends those that the model has just
// requested. The rules are those of adk-python tools/load_artifacts_tool.py.
type loadArtifactsTool struct {
	declaration
	log          *slog.Logger
	capabilities Capabilities
}

// Capabilities returns the settings of the document.
func (t *loadArtifactsTool) Capabilities() Capabilities { return t.capabilities }

func newLoadArtifacts(_ context.Context, env Env, c *callToolArgs) (Set, error) {
	d := newDeclaration(loadArtifactsName, "Loads the contents of artifacts, such as files that the user uploaded.",
		objectSchema(map[string]any{"artifact_names": stringListSchema("The names of the artifacts.")}))
	caps, err := c.Call.Capabilities(d.decl)
	return One(&loadArtifactsTool{declaration: d, log: env.Logger, capabilities: caps}), err
}

// Run implements [Tool]: it only returns the requested names, which EditRequest
// reads from the response.
func (t *loadArtifactsTool) Run(ctx context.Context, call *Call) (*Result, error) {
	args, err := CheckArgs(ctx, t.decl, call.Args)
	if err != nil {
		return nil, err
	}
	names := asList(args["artifact_names"])
	if names == nil {
		names = []any{}
	}
	return &Result{Response: map[string]any{"artifact_names": names, "status": loadedStatus}}, nil
}

// EditRequest lists the artifacts, if there are any, and appends the contents
// of those named in the response at the end of the request.
func (t *loadArtifactsTool) EditRequest(ctx context.Context, call *Call, req *model.Request) error {
	keys, err := call.Artifacts.Keys(ctx)
	if err != nil {
		return fmt.Errorf("listing artifacts: %w", err)
	}
	if len(keys) == 0 {
		return nil
	}
	req.AppendNote(fmt.Sprintf(artifactsInstruction, template.String(keys)))
	loaded, err := t.loadContents(ctx, call.Artifacts, requestedNames(req.Contents))
	if err != nil {
		return err
	}
	// The list may be shared with other requests.
	req.Contents = append(slices.Clip(req.Contents), loaded...)
	return nil
}

// requestedNames returns the names in the last content if its first part is a
// response of load_artifacts. As in ADK, other parts and contents do not count.
func requestedNames(contents []*genai.Content) []string {
	if len(contents) == 0 {
		return nil
	}
	last := contents[len(contents)-1]
	if last == nil || len(last.Parts) == 0 {
		return nil
	}
	answer := last.Parts[0].FunctionResponse
	if answer == nil || answer.Name != loadArtifactsName {
		return nil
	}
	if names, ok := answer.Response["artifact_names"].([]string); ok {
		return names
	}
	var names []string
	for _, v := range asList(answer.Response["artifact_names"]) {
		if name, ok := v.(string); ok {
			names = append(names, name)
		}
	}
	return names
}

func (t *loadArtifactsTool) loadContents(ctx context.Context, from Artifacts, names []string) ([]*genai.Content, error) {
	var contents []*genai.Content
	for _, name := range names {
		part, err := loadArtifact(ctx, from, name)
		switch {
		case errors.Is(err, session.ErrNotFound), errors.Is(err, session.ErrInvalid):
			t.log.WarnContext(ctx, "requested artifact not found", "artifact", name)
		case err != nil:
			return nil, fmt.Errorf("loading artifact %s: %w", name, err)
		default:
			contents = append(contents, &genai.Content{Role: genai.RoleUser, Parts: []*genai.Part{
				{Text: "Artifact " + name + " is:"}, textOrMedia(name, part),
			}})
		}
	}
	return contents, nil
}

// loadArtifact loads the session's artifact, or else the user's artifact of
// that name.
func loadArtifact(ctx context.Context, from Artifacts, name string) (*genai.Part, error) {
	part, err := from.Load(ctx, name)
	if errors.Is(err, session.ErrNotFound) && !strings.HasPrefix(name, session.UserPrefix) {
		return from.Load(ctx, session.UserPrefix+name)
	}
	return part, err
}

// textOrMedia converts bytes that a model cannot read to text.
func textOrMedia(name string, part *genai.Part) *genai.Part {
	if part.InlineData == nil {
		return part
	}
	kind, _, _ := strings.Cut(part.InlineData.MIMEType, ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	bytes := part.InlineData.Data
	switch {
	case isMediaType(kind):
		return part
	case isTextType(kind) && len(bytes) > 0:
		return &genai.Part{Text: strings.ToValidUTF8(string(bytes), "\uFFFD")}
	}
	if kind == "" {
		kind = "application/octet-stream"
	}
	return &genai.Part{Text: fmt.Sprintf("[Binary artifact: %s, type: %s, size: %.1f KB. Content cannot be displayed inline.]",
		name, kind, float64(len(bytes))/1024)}
}

func isMediaType(kind string) bool {
	family, _, _ := strings.Cut(kind, "/")
	return slices.Contains([]string{"image", "audio", "video"}, family) || kind == "application/pdf"
}

func isTextType(kind string) bool {
	return strings.HasPrefix(kind, "text/") ||
		slices.Contains([]string{"application/csv", "application/json", "application/xml"}, kind)
}
