package main

import (
	"context"
	"iter"

	"google.golang.org/genai"

	"agenthost"
)

// providers lists our model providers.
func providers() []agenthost.ModelKind {
	return []agenthost.ModelKind{
		agenthost.NewKind("echo", "Repeats the user's message.", newEcho),
	}
}

// echoConfig is an echo model's YAML.
type echoConfig struct {
	Provider string         `yaml:"provider" doc:"echo"`
	Prefix   agenthost.Text `yaml:"prefix" required:"true" doc:"The beginning of each answer."`
}

func newEcho(_ context.Context, env agenthost.ModelEnv, c *echoConfig) (agenthost.LLM, error) {
	return &echo{name: env.Name, prefix: c.Prefix.Value}, nil
}

type echo struct{ name, prefix string }

func (m *echo) Name() string { return m.name }

func (m *echo) Generate(_ context.Context, req *agenthost.ModelRequest) iter.Seq2[*agenthost.ModelResponse, error] {
	return func(yield func(*agenthost.ModelResponse, error) bool) {
		content := genai.NewContentFromText(m.prefix+req.Origin.UserText, genai.RoleModel)
		yield(&agenthost.ModelResponse{Content: content, FinishReason: genai.FinishReasonStop}, nil)
	}
}
