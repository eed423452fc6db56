package runtime

import (
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/model"
)

// The messages for [CodeNoContent].
const (
	noContentMessage = "the model returned no content: the answer ended with STOP, without parts"
	noAnswerMessage  = "the model returned no answer: its response ended with STOP and has only thoughts or white space"
)

// rejectEmptyAnswer gives a complete response without an answer the error
// [CodeNoContent], because it would look like a success. A response with another finish
// reason or an error keeps them. The planner and code execution, which change contents, come
// later (adk-python flows/llm_flows/base_llm_flow.py since 2.7; thoughts and white space
// since 2.11). ADK excludes a streamed response without parts, because earlier ones may have
// the answer; ours is complete.
func rejectEmptyAnswer(resp *model.Response, err error) *model.Response {
	if err != nil || resp.Partial || resp.ErrorCode != "" || resp.FinishReason != genai.FinishReasonStop || hasAnswer(resp.Content) {
		return resp
	}
	empty := *resp
	empty.ErrorCode = CodeNoContent
	if empty.ErrorMessage == "" {
		empty.ErrorMessage = noContentMessage
		if resp.Content != nil && len(resp.Content.Parts) > 0 {
			empty.ErrorMessage = noAnswerMessage
		}
	}
	return &empty
}

// hasAnswer reports whether a content has more than thoughts and white space.
func hasAnswer(c *genai.Content) bool {
	return c != nil && slices.ContainsFunc(c.Parts, func(p *genai.Part) bool {
		return !model.IsText(p) || !p.Thought && strings.TrimSpace(p.Text) != ""
	})
}
