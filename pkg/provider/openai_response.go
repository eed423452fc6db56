package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/model"
)

// readResponse reads a response that is not streamed.
func (o *openAI) readResponse(ctx context.Context, body io.Reader) (*model.Response, error) {
	raw, err := io.ReadAll(io.LimitReader(body, maxResponseBytes))
	if err != nil {
		return nil, o.toModelError(ctx, fmt.Errorf("response was truncated: %w", err))
	}
	var answer chatAnswer
	if err := json.Unmarshal(raw, &answer); err != nil {
		return nil, o.malformedError(raw, err)
	}
	if failed := o.errorInBody(&answer); failed != nil {
		return nil, failed
	}
	r := &model.Response{ModelVersion: answer.Model, UsageMetadata: answer.Usage.usageMetadata()}
	if len(answer.Choices) == 0 || answer.Choices[0].Message == nil {
		return nil, o.malformedError(raw, fmt.Errorf("no message"))
	}
	choice := answer.Choices[0]
	r.Content = modelContent(textParts(choice.Message)...)
	for _, call := range choice.Message.ToolCalls {
		part, bad := callPart(call)
		if bad != nil {
			return bad.errorResponse(r), nil
		}
		r.Content.Parts = append(r.Content.Parts, part)
	}
	r.FinishReason = finishReason(choice.FinishReason)
	if choice.Message.Refusal != "" {
		r.FinishReason, r.ErrorMessage = genai.FinishReasonSafety, choice.Message.Refusal
	}
	if len(r.Content.Parts) == 0 && r.FinishReason != genai.FinishReasonStop {
		r.Content, r.ErrorCode = nil, string(r.FinishReason)
	}
	return r, nil
}

func (o *openAI) malformedError(answer []byte, err error) *model.Error {
	return &model.Error{Message: fmt.Sprintf("malformed response from %s: %v in %q", o.name, err, truncateBytes([]byte(o.redactSecrets(string(answer))))), Err: err}
}

// errorInBody returns an error that some servers send with status 200.
func (o *openAI) errorInBody(answer *chatAnswer) *model.Error {
	if len(answer.Error) == 0 || string(answer.Error) == "null" {
		return nil
	}
	var details struct {
		Code any `json:"code"`
	}
	e := &model.Error{Message: o.redactSecrets(errorMessage([]byte(`{"error":` + string(answer.Error) + `}`)))}
	if json.Unmarshal(answer.Error, &details) == nil {
		if code, ok := details.Code.(float64); ok && code >= 400 && code <= 599 {
			e.Code, e.Status = int(code), statusWord(int(code))
		}
	}
	return e
}

// textParts returns the model's thoughts and its text.
func textParts(m *chatReply) []*genai.Part {
	var parts []*genai.Part
	if thought := firstNonEmpty(m.ReasoningContent, m.Reasoning); thought != "" {
		parts = append(parts, &genai.Part{Text: thought, Thought: true})
	}
	if m.Content != "" {
		parts = append(parts, &genai.Part{Text: m.Content})
	}
	return parts
}

// A malformedCall is a call whose arguments are not a JSON object.
type malformedCall struct{ name, args string }

// errorResponse returns a response with the error MALFORMED_FUNCTION_CALL.
func (b *malformedCall) errorResponse(r *model.Response) *model.Response {
	r.Content, r.FinishReason = nil, genai.FinishReasonMalformedFunctionCall
	r.ErrorCode = string(r.FinishReason)
	r.ErrorMessage = fmt.Sprintf("arguments of %s must be a JSON object: %s", b.name, truncateBytes([]byte(b.args)))
	return r
}

func callPart(c chatCall) (*genai.Part, *malformedCall) {
	args := map[string]any{}
	if text := strings.TrimSpace(c.Function.Arguments); text != "" && text != "null" {
		if json.Unmarshal([]byte(text), &args) != nil || args == nil {
			return nil, &malformedCall{c.Function.Name, text}
		}
	}
	return &genai.Part{FunctionCall: &genai.FunctionCall{ID: c.ID, Name: c.Function.Name, Args: args}}, nil
}

// finishReason converts a finish reason to Gemini's.
func finishReason(reason string) genai.FinishReason {
	switch reason {
	case "length":
		return genai.FinishReasonMaxTokens
	case "content_filter":
		return genai.FinishReasonSafety
	case "", "stop", "tool_calls", "function_call":
		return genai.FinishReasonStop
	}
	return genai.FinishReasonOther
}

// usageMetadata counts thoughts separately from the response, as Gemini does.
func (u *chatUsage) usageMetadata() *genai.GenerateContentResponseUsageMetadata {
	if u == nil {
		return nil
	}
	thoughts := min(u.CompletionDetails.Reasoning, u.Completion)
	return &genai.GenerateContentResponseUsageMetadata{
		PromptTokenCount: u.Prompt, CandidatesTokenCount: u.Completion - thoughts, ThoughtsTokenCount: thoughts,
		CachedContentTokenCount: u.PromptDetails.Cached, TotalTokenCount: max(u.Total, u.Prompt+u.Completion),
	}
}
