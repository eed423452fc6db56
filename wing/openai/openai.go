// Package openai provides the models of OpenAI and of all services with OpenAI's chat completions
// API or Responses API. [Kinds] are for the loader, and [New] is for Go callers.
package openai

import (
	"cmp"
	"context"
	"iter"

	"agenthost/internal/legalrequest"
	"agenthost/internal/modelapi"
	"agenthost/pkg/model"
)

// Generate calls the model once; see [model.LLM].
func (o *openAI) Generate(ctx context.Context, req *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) {
		target := o.newTarget(cmp.Or(req.Model, o.name))
		if o.usesResponses(target.model) {
			legal := legalrequest.New(ctx, &responsesRules, target.vendor, req)
			o.generateResponses(ctx, legal.Request, legal.RestoreCalls(yield))
			return
		}
		legal := legalrequest.New(ctx, target.requestRules(), target.vendor, req)
		req, yield := legal.Request, legal.RestoreCalls(yield)
		resp, err := o.sendRequest(ctx, req)
		if err != nil {
			yield(nil, err)
			return
		}
		defer resp.CloseBody()
		if !resp.IsStream(req.Stream) {
			yield(readChatResponse(resp, target))
			return
		}
		if streamChat(resp, target, modelapi.ForwardChunks(req.Stream, yield)) {
			resp.DrainBody()
		}
	}
}

func (o *openAI) sendRequest(ctx context.Context, req *model.Request) (*modelapi.Response, error) {
	body, err := o.encodeRequest(ctx, req)
	if err != nil {
		return nil, err
	}
	return o.sendBody(ctx, req, "/chat/completions", body)
}
