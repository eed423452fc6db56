package modelcall

import (
	"google.golang.org/genai"

	"agenthost/pkg/model"
)

// ToPartial converts a chunk to a partial response. Errors are reported only once, on
// the complete response.
func ToPartial(r *model.Response) *model.Response {
	p := *r
	p.Partial = true
	p.ErrorCode, p.ErrorMessage = "", ""
	return &p
}

// WithFinishError sets the error on a complete streamed response whose finish reason is not
// STOP, even if it has content. A nil one is an empty response.
func WithFinishError(whole *model.Response, finishMessage string) *model.Response {
	if whole == nil {
		return &model.Response{}
	}
	if whole.ErrorCode == "" && whole.FinishReason != genai.FinishReasonStop && whole.FinishReason != "" {
		whole.ErrorCode, whole.ErrorMessage = string(whole.FinishReason), finishMessage
	}
	return whole
}

// WithContent adds an empty content with role model to a success without content.
func WithContent(r *model.Response) *model.Response {
	if r.Content == nil && r.ErrorCode == "" {
		r.Content = ModelContent()
	}
	return r
}

// HasParts reports whether a content has parts; it may be nil.
func HasParts(c *genai.Content) bool { return c != nil && len(c.Parts) > 0 }

// ModelContent returns a content with role model.
func ModelContent(parts ...*genai.Part) *genai.Content {
	return &genai.Content{Role: genai.RoleModel, Parts: parts}
}

// FinishMessage returns the error message for a finish reason; ADK has only MAX_TOKENS.
func FinishMessage(reason genai.FinishReason) string {
	switch reason {
	case genai.FinishReasonMaxTokens:
		return "Maximum tokens reached"
	case genai.FinishReasonSafety:
		return "The service filtered the response for its content"
	}
	return ""
}
