package openaiserver

import (
	"google.golang.org/genai"

	"agenthost/pkg/server"
	"agenthost/pkg/session"
)

// The reasons why an answer ends.
const (
	finishStop   = "stop"
	finishLength = "length"
	finishFilter = "content_filter"
)

func readFinish(ev *session.Event) string {
	switch ev.FinishReason {
	case genai.FinishReasonMaxTokens:
		return finishLength
	case genai.FinishReasonSafety, genai.FinishReasonRecitation, genai.FinishReasonBlocklist, genai.FinishReasonProhibitedContent, genai.FinishReasonSPII:
		return finishFilter
	}
	return finishStop
}

// A usage counts a turn's tokens.
type usage struct {
	Prompt           int           `json:"prompt_tokens"`
	Completion       int           `json:"completion_tokens"`
	Total            int           `json:"total_tokens"`
	PromptDetail     promptDetail  `json:"prompt_tokens_details"`
	CompletionDetail completionSum `json:"completion_tokens_details"`
}

type promptDetail struct {
	Cached int `json:"cached_tokens"`
}

type completionSum struct {
	Reasoning int `json:"reasoning_tokens"`
}

func (u *usage) addEvent(ev *session.Event) {
	m := ev.UsageMetadata
	if m == nil {
		return
	}
	u.Prompt += int(m.PromptTokenCount + m.ToolUsePromptTokenCount)
	u.Completion += int(m.CandidatesTokenCount + m.ThoughtsTokenCount)
	u.PromptDetail.Cached += int(m.CachedContentTokenCount)
	u.CompletionDetail.Reasoning += int(m.ThoughtsTokenCount)
	u.Total = u.Prompt + u.Completion
}

// A delta is what a chunk adds to the answer.
type delta struct {
	Role      string  `json:"role,omitempty"`
	Content   *string `json:"content,omitempty"`
	Reasoning string  `json:"reasoning_content,omitempty"`
}

type chunkChoice struct {
	Index    int     `json:"index"`
	Delta    *delta  `json:"delta"`
	Logprobs any     `json:"logprobs"`
	Finish   *string `json:"finish_reason"`
}

// A chunk is a stream's event. Its keys and their order are OpenAI's.
type chunk struct {
	ID      string        `json:"id"`
	Object  string        `json:"object"`
	Created int64         `json:"created"`
	Model   string        `json:"model"`
	Choices []chunkChoice `json:"choices"`
	Usage   *usage        `json:"usage,omitempty"`
}

func (c *completion) newChunk(choices ...chunkChoice) *chunk {
	return &chunk{ID: c.id, Object: "chat.completion.chunk", Created: c.created, Model: c.model.id, Choices: choices}
}

// sendDelta streams a chunk; the first one has the role. A complete answer sends nothing.
func (c *completion) sendDelta(d *delta) error {
	if c.stream == nil {
		return nil
	}
	if !c.hasBegun {
		c.hasBegun = true
		empty := ""
		if err := c.stream.SendJSON(c.newChunk(chunkChoice{Delta: &delta{Role: roleAssistant, Content: &empty}})); err != nil {
			return err
		}
	}
	return c.stream.SendJSON(c.newChunk(chunkChoice{Delta: d}))
}

type answerMessage struct {
	Role      string `json:"role"`
	Content   string `json:"content"`
	Refusal   any    `json:"refusal"`
	Reasoning string `json:"reasoning_content,omitempty"`
}

type answerChoice struct {
	Index    int           `json:"index"`
	Message  answerMessage `json:"message"`
	Logprobs any           `json:"logprobs"`
	Finish   string        `json:"finish_reason"`
}

// An answerObject is a complete answer.
type answerObject struct {
	ID      string         `json:"id"`
	Object  string         `json:"object"`
	Created int64          `json:"created"`
	Model   string         `json:"model"`
	Choices []answerChoice `json:"choices"`
	Usage   usage          `json:"usage"`
}

// finishAnswer completes the answer.
func (c *completion) finishAnswer() error {
	if c.stream == nil {
		return server.WriteJSON(c.w, &answerObject{
			ID: c.id, Object: "chat.completion", Created: c.created, Model: c.model.id, Usage: c.usage,
			Choices: []answerChoice{{Message: answerMessage{Role: roleAssistant, Content: c.sent.String(), Reasoning: c.thoughts.String()}, Finish: c.finish}},
		})
	}
	last := chunkChoice{Delta: &delta{}, Finish: &c.finish}
	if !c.hasBegun {
		empty := ""
		last.Delta = &delta{Role: roleAssistant, Content: &empty}
	}
	if c.stream.SendJSON(c.newChunk(last)) != nil {
		return nil // the client has disconnected
	}
	if c.q.StreamOptions != nil && c.q.StreamOptions.IncludeUsage {
		sum := c.newChunk()
		sum.Choices, sum.Usage = []chunkChoice{}, &c.usage
		_ = c.stream.SendJSON(sum)
	}
	_ = c.stream.SendText("", []byte("[DONE]"))
	return nil
}

// retryHeader stops OpenAI's clients from repeating a request that has failed: it would be another
// turn.
const retryHeader = "X-Should-Retry"

// failAnswer ends the answer with an error: the response, if nothing was streamed, or the last event.
func (c *completion) failAnswer(err error) error {
	if c.hasRun {
		c.w.Header().Set(retryHeader, "false")
	}
	if c.stream == nil || !c.stream.HasStarted() {
		return err
	}
	body, _ := c.h.describeError(c.r, err)
	_ = c.stream.SendJSON(body)
	return nil
}
