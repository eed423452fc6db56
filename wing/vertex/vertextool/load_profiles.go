package vertextool

import (
	"context"
	"errors"
	"fmt"

	"agenthost/internal/toolconfig"
	"agenthost/pkg/tool"
)

// A ProfileReader is a [tool.Memories] that may have user profiles.
type ProfileReader interface {
	// LoadProfiles returns the user's profiles by schema name. A store without profiles is an
	// error.
	LoadProfiles(ctx context.Context) (map[string]any, error)
}

// A loadProfilesTool lets the model read the user's profiles (adk-python VertexAiLoadProfilesTool).
type loadProfilesTool struct {
	toolconfig.Declarer
	capabilities tool.Capabilities
}

func newLoadProfiles(_ context.Context, _ tool.Env, c *toolconfig.BuiltinConfig) (tool.Set, error) {
	d := toolconfig.NewDeclarer("load_profiles", "Returns the user's profiles: structured data from earlier conversations, by schema.", nil)
	caps, err := c.Call.Capabilities(d.Declaration())
	return tool.One(&loadProfilesTool{d, caps}), err
}

// Capabilities returns the document's settings.
func (t *loadProfilesTool) Capabilities() tool.Capabilities { return t.capabilities }

// Run returns the profiles by their schemas.
func (t *loadProfilesTool) Run(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	reader, ok := call.Memories.(ProfileReader)
	if !ok {
		return nil, errors.New("the memory store has no profiles")
	}
	profiles, err := reader.LoadProfiles(ctx)
	if err != nil {
		return nil, fmt.Errorf("loading profiles: %w", err)
	}
	return &tool.Result{Response: map[string]any{"profiles": profiles}}, nil
}
