package ollama

import (
	"encoding/json"
	"errors"
	"net/http"

	"google.golang.org/genai"

	"agenthost/internal/modelapi"
	"agenthost/internal/modelcall"
	"agenthost/pkg/model"
)

// An ollamaChunk is a response, or a chunk of a streamed one.
type ollamaChunk struct {
	Model      string              `json:"model"`
	Message    ollamaMessage       `json:"message"`
	Done       bool                `json:"done"`
	DoneReason string              `json:"done_reason"`
	Prompt     modelapi.TokenCount `json:"prompt_eval_count"`
	Output     modelapi.TokenCount `json:"eval_count"`
	Error      json.RawMessage     `json:"error"`
}

// An ollamaReader reads a response.
type ollamaReader struct {
	ollama *ollama
	resp   *modelapi.Response
	stream bool
	yield  func(*model.Response, error) bool

	all     model.Aggregator
	bad     *modelapi.MalformedCall
	last    ollamaChunk
	stopped bool // the consumer has stopped iterating
}

// readResponse yields a stream's chunks; it is complete after the chunk that is done. A response
// that is not streamed is one such chunk, also if the other was requested.
func (r *ollamaReader) readResponse() error {
	var last json.RawMessage
	for value, err := range r.resp.ReadValues() {
		if err != nil {
			return err
		}
		chunk, err := r.decodeChunk(value)
		if err != nil {
			return err
		}
		last = value
		parts, err := r.addChunk(chunk)
		if err != nil {
			return err
		}
		for _, part := range parts {
			partial := &model.Response{Content: modelcall.ModelContent(part), ModelVersion: chunk.Model, Partial: true}
			if r.stopped = !r.yield(partial, nil); r.stopped {
				return nil
			}
		}
		if chunk.Done {
			return nil
		}
	}
	if !r.stream {
		return r.resp.MalformedError(last, errors.New("response is not done"))
	}
	return r.resp.ToModelError(errors.New("stream ended before the response was complete"))
}

// decodeChunk decodes a chunk. A failure inside a stream is a chunk with an error and has no
// status: it is the server's.
func (r *ollamaReader) decodeChunk(data []byte) (*ollamaChunk, error) {
	var chunk ollamaChunk
	if err := json.Unmarshal(data, &chunk); err != nil {
		return nil, r.resp.MalformedError(data, err)
	}
	if len(chunk.Error) > 0 && string(chunk.Error) != "null" && string(chunk.Error) != `""` {
		_, message := modelapi.ParseServiceError(data)
		return nil, r.resp.NewError(http.StatusInternalServerError, message)
	}
	return &chunk, nil
}

// addChunk adds a chunk to the response and returns its parts.
func (r *ollamaReader) addChunk(chunk *ollamaChunk) ([]*genai.Part, error) {
	var parts []*genai.Part
	if chunk.Message.Thinking != "" {
		parts = append(parts, &genai.Part{Text: chunk.Message.Thinking, Thought: true})
	}
	if chunk.Message.Content != "" {
		parts = append(parts, &genai.Part{Text: chunk.Message.Content})
	}
	if err := r.resp.Budget.AddCalls(len(chunk.Message.ToolCalls)); err != nil {
		return nil, err
	}
	for _, call := range chunk.Message.ToolCalls {
		part, bad, err := r.resp.DecodeCall(call.ID, call.Function.Name, modelapi.UnquoteJSON(call.Function.Arguments))
		if err != nil {
			return nil, err
		}
		if bad != nil {
			r.bad = bad
			continue
		}
		parts = append(parts, part)
	}
	r.last = *chunk
	r.all.Add(&model.Response{Content: modelcall.ModelContent(parts...), ModelVersion: chunk.Model})
	if err := r.resp.Budget.CheckParts(r.all.CountParts()); err != nil {
		return nil, r.resp.ToModelError(err)
	}
	return parts, nil
}

// buildWhole returns the complete response. Thoughts are counted with the output: the server does
// not count them separately.
func (r *ollamaReader) buildWhole() *model.Response {
	last := &model.Response{ModelVersion: r.last.Model, FinishReason: ollamaFinishReason(r.last.DoneReason)}
	if r.last.Prompt > 0 || r.last.Output > 0 {
		last.UsageMetadata = &genai.GenerateContentResponseUsageMetadata{
			PromptTokenCount: int32(r.last.Prompt), CandidatesTokenCount: int32(r.last.Output), TotalTokenCount: int32(r.last.Prompt + r.last.Output),
		}
	}
	if r.bad != nil {
		return r.bad.ErrorResponse(last)
	}
	r.all.Add(last)
	whole := r.all.Whole()
	if r.stream || !modelcall.HasParts(whole.Content) {
		whole = modelcall.WithFinishError(whole, modelcall.FinishMessage(last.FinishReason))
	}
	whole = modelcall.WithContent(whole)
	if r.ollama.opts.Thoughts != modelapi.ThoughtsDrop {
		modelapi.MarkThoughts(whole, ollamaName, r.ollama.name)
	}
	return whole
}

// ollamaFinishReason converts a reason to Gemini's. load and unload answer a request
// without messages.
func ollamaFinishReason(reason string) genai.FinishReason {
	switch reason {
	case "", "stop", "load", "unload":
		return genai.FinishReasonStop
	case "length":
		return genai.FinishReasonMaxTokens
	}
	return genai.FinishReasonOther
}
