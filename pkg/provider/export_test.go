package provider

import (
	"context"
	"iter"

	"agenthost/pkg/model"
)

// WithoutRules returns a model of a service that sends requests as they are, which is the
// control of tests of the rules.
func WithoutRules(llm model.LLM) model.LLM {
	switch m := llm.(type) {
	case *cachingModel:
		return m.LLM
	case *anthropicModel:
		return &bareModel{m.LLM, func(ctx context.Context, req *model.Request) (*serviceResponse, error) {
			call, err := m.anthropic.newCall(ctx, req)
			if err != nil {
				return nil, err
			}
			return m.anthropic.sendCall(ctx, call)
		}}
	case *retryingModel:
		switch inner := m.LLM.(type) {
		case *openAI:
			return &bareModel{inner, inner.sendBare}
		case *ollama:
			return &bareModel{inner, inner.sendRequest}
		}
	}
	panic("no rules to leave out")
}

// sendBare sends a request by the API of the model.
func (o *openAI) sendBare(ctx context.Context, req *model.Request) (*serviceResponse, error) {
	target := o.newTarget(firstNonEmpty(req.Model, o.name))
	if !o.usesResponses(target.model) {
		return o.sendRequest(ctx, req)
	}
	body, err := o.encodeResponsesRequest(ctx, target, req)
	if err != nil {
		return nil, err
	}
	return o.sendBody(ctx, req, "/responses", body)
}

// A bareModel sends requests and ignores the answers.
type bareModel struct {
	model.LLM
	send func(ctx context.Context, req *model.Request) (*serviceResponse, error)
}

// Generate sends the request; see [model.LLM].
func (m *bareModel) Generate(ctx context.Context, req *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) {
		resp, err := m.send(ctx, req)
		if err != nil {
			yield(nil, err)
			return
		}
		defer resp.closeBody()
		yield(&model.Response{Content: model.ModelText("ok"), FinishReason: "STOP"}, nil)
	}
}

// LegalName returns the name that a service gets for the last of these tools, and the
// name that is restored from it. It is for fuzzing.
func LegalName(service string, names ...string) (sent, restored string, legal bool) {
	rules := map[string]*requestRules{"gemini": &geminiRules, "anthropic": &anthropicRules, "openai": &chatRules, "ollama": &ollamaRules}[service]
	mapped := newNameMap(&rules.names)
	for _, name := range names {
		sent = mapped.mapName(name)
	}
	return sent, mapped.restoreName(sent), rules.names.isLegal(sent)
}
