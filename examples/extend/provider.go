package main

import (
	"context"
	"iter"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/pkg/spec"
)

// providers lists our providers of models.
func providers() spec.Kinds[provider.Env, model.LLM] {
	return spec.Kinds[provider.Env, model.LLM]{
		spec.NewKind("echo", "Repeats the user's message.", newEcho),
	}
}

// echoConfig is the YAML of an echo model.
type echoConfig struct {
	Provider string    `yaml:"provider" doc:"echo"`
	Prefix   spec.Text `yaml:"prefix" required:"true" doc:"The beginning of each answer."`
}

func newEcho(_ context.Context, env provider.Env, c *echoConfig) (model.LLM, error) {
	return &echo{name: env.Name, prefix: c.Prefix.Value}, nil
}

type echo struct{ name, prefix string }

func (m *echo) Name() string { return m.name }

func (m *echo) Generate(_ context.Context, req *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) {
		content := genai.NewContentFromText(m.prefix+req.Origin.UserText, genai.RoleModel)
		yield(&model.Response{Content: content, FinishReason: genai.FinishReasonStop}, nil)
	}
}
