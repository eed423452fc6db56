package provider

import (
	"slices"

	"google.golang.org/genai"

	"agenthost/pkg/model"
)

// fromGemini converts a response or chunk like ADK: it uses the first candidate. Content
// with parts, or the finish reason STOP, is a success; other responses get the error
// code of the finish reason or the block reason; an empty response is an empty success.
// The second result is the finish message.
func fromGemini(answer *genai.GenerateContentResponse) (*model.Response, string) {
	r := &model.Response{ModelVersion: answer.ModelVersion, UsageMetadata: answer.UsageMetadata}
	if len(answer.Candidates) == 0 || answer.Candidates[0] == nil {
		if f := answer.PromptFeedback; f != nil {
			r.ErrorCode, r.ErrorMessage = string(f.BlockReason), f.BlockReasonMessage
		}
		return r, ""
	}
	c := answer.Candidates[0]
	r.Content = withoutNil(c.Content)
	r.FinishReason = c.FinishReason
	r.GroundingMetadata, r.CitationMetadata = c.GroundingMetadata, c.CitationMetadata
	r.AvgLogprobs, r.LogprobsResult = c.AvgLogprobs, c.LogprobsResult
	if !hasParts(r.Content) && c.FinishReason != genai.FinishReasonStop {
		r.ErrorCode, r.ErrorMessage = string(c.FinishReason), c.FinishMessage
	}
	return r, c.FinishMessage
}

// toPartial converts a chunk to a partial response. Errors are reported only once, on
// the complete response.
func toPartial(r *model.Response) *model.Response {
	p := *r
	p.Partial = true
	p.ErrorCode, p.ErrorMessage = "", ""
	return &p
}

// withFinishError sets the error of a complete streamed response whose finish reason is
// not STOP, even if it has content. A stream without chunks is an empty response.
func withFinishError(whole *model.Response, finishMessage string) *model.Response {
	if whole == nil {
		return &model.Response{}
	}
	if whole.ErrorCode == "" && whole.FinishReason != genai.FinishReasonStop && whole.FinishReason != "" {
		whole.ErrorCode, whole.ErrorMessage = string(whole.FinishReason), finishMessage
	}
	return whole
}

// withContent adds an empty content of role model to a success without content.
func withContent(r *model.Response) *model.Response {
	if r.Content == nil && r.ErrorCode == "" {
		r.Content = modelContent()
	}
	return r
}

// withoutNil removes parts that the service sent as null.
func withoutNil(c *genai.Content) *genai.Content {
	if c != nil {
		c.Parts = slices.DeleteFunc(c.Parts, func(p *genai.Part) bool { return p == nil })
	}
	return c
}

func hasParts(c *genai.Content) bool { return c != nil && len(c.Parts) > 0 }
