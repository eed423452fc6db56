package anthropic

import (
	"context"
	"strings"

	"agenthost/internal/modelapi"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
)

const noVertexKeyForClaude = "Claude on Vertex AI has no api_key: it uses the host's Google credentials"

// OnVertex returns the config for a Claude model on Vertex AI, or nil for other models; it is a
// [modelapi.HostVendor].
func OnVertex(m modelapi.HostedModel) modelapi.HostedConfig {
	name := strings.TrimPrefix(m.Name, "anthropic/")
	if !claudeName.MatchString(name) {
		return nil
	}
	return &claudeOnVertex{anthropicConfig{Model: name, BaseURL: m.BaseURL, Vertex: &vertexConfig{}, CallsConfig: m.Calls}}
}

// claudeOnVertex is the config for a Claude model from the provider vertex_ai.
type claudeOnVertex struct{ anthropicConfig }

// KeyProblem returns why Claude has no api_key on Vertex AI.
func (c *claudeOnVertex) KeyProblem() string { return noVertexKeyForClaude }

// BuildModel builds the model.
func (c *claudeOnVertex) BuildModel(ctx context.Context, env provider.Env) (model.LLM, error) {
	return buildAnthropic(ctx, env, &c.anthropicConfig)
}
