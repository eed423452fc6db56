package builtin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"google.golang.org/genai"

	"agenthost/internal/toolconfig"
	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
	"agenthost/pkg/tool/declare"
)

const loadArtifactsName = "load_artifacts"

// artifactsInstruction lists the artifacts for the model; %s is a JSON
// list.
const artifactsInstruction = "You have access to these artifacts:\n  %s\n\n" +
	"Before you answer a question about one of them, call the function `load_artifacts` with its name, " +
	"and write nothing besides that call. The contents are only in the request right after the call: " +
	"load an artifact again each time you need it, even if you have loaded it before."

// loadedStatus is the status in load_artifacts' response.
const loadedStatus = "The contents are inserted for the next response only, and removed after it. " +
	"To see them again, call load_artifacts again."

// A loadArtifactsTool gives the model access to the session's artifacts: it lists them in every
// request, and appends those that the model has just requested. The rules are from adk-python
// tools/load_artifacts_tool.py.
type loadArtifactsTool struct {
	toolconfig.Declarer
	log          *slog.Logger
	capabilities tool.Capabilities
}

// Capabilities returns the document's settings.
func (t *loadArtifactsTool) Capabilities() tool.Capabilities { return t.capabilities }

func newLoadArtifacts(_ context.Context, env tool.Env, c *toolconfig.BuiltinConfig) (tool.Set, error) {
	d := toolconfig.NewDeclarer(loadArtifactsName, "Loads the contents of artifacts, such as files that the user uploaded.",
		toolconfig.ObjectSchema(map[string]any{"artifact_names": toolconfig.StringListSchema("The names of the artifacts.")}))
	caps, err := c.Call.Capabilities(d.Declaration())
	return tool.One(&loadArtifactsTool{Declarer: d, log: env.Logger, capabilities: caps}), err
}

// Run implements [tool.Tool]: it only returns the requested names, which EditRequest
// reads from the response.
func (t *loadArtifactsTool) Run(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	args, err := declare.CheckArgs(ctx, t.Declaration(), call.Args)
	if err != nil {
		return nil, err
	}
	names, _ := args["artifact_names"].([]any)
	if names == nil {
		names = []any{}
	}
	return &tool.Result{Response: map[string]any{"artifact_names": names, "status": loadedStatus}}, nil
}

// EditRequest lists the artifacts, if there are any, and appends the contents of those named in the
// response to the request.
func (t *loadArtifactsTool) EditRequest(ctx context.Context, call *tool.Call, req *model.Request) error {
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

// requestedNames returns the names in the last content if its first part is a load_artifacts
// response. As in ADK, other parts and contents do not count.
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
	listed, _ := answer.Response["artifact_names"].([]any)
	for _, v := range listed {
		if name, ok := v.(string); ok {
			names = append(names, name)
		}
	}
	return names
}

func (t *loadArtifactsTool) loadContents(ctx context.Context, from tool.Artifacts, names []string) ([]*genai.Content, error) {
	var contents []*genai.Content
	for _, name := range names {
		part, err := toolconfig.LoadArtifact(ctx, from, name)
		switch {
		case errors.Is(err, session.ErrNotFound), errors.Is(err, session.ErrInvalid):
			t.log.WarnContext(ctx, "requested artifact not found", "artifact", name)
		case err != nil:
			return nil, fmt.Errorf("loading artifact %s: %w", name, err)
		default:
			contents = append(contents, &genai.Content{Role: genai.RoleUser, Parts: []*genai.Part{
				{Text: "Artifact " + name + " is:"}, toolconfig.TextOrMedia(name, part),
			}})
		}
	}
	return contents, nil
}
