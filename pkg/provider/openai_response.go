package provider

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/model"
)

// readChatResponse reads a response that is not streamed.
func readChatResponse(resp *serviceResponse) (*model.Response, error) {
	raw, err := resp.readBody()
	if err != nil {
		return nil, err
	}
	var answer chatAnswer
	if err := json.Unmarshal(raw, &answer); err != nil {
		return nil, resp.malformedError(raw, err)
	}
	if failed := errorInChat(resp, &answer); failed != nil {
		return nil, failed
	}
	r := &model.Response{ModelVersion: answer.Model, UsageMetadata: answer.Usage.usageMetadata()}
	if len(answer.Choices) == 0 || answer.Choices[0].Message == nil {
		return nil, resp.malformedError(raw, errors.New("no message"))
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

// errorInChat returns an error that some servers send with status 200.
func errorInChat(resp *serviceResponse, answer *chatAnswer) *model.Error {
	if len(answer.Error) == 0 || string(answer.Error) == "null" {
		return nil
	}
	var details struct {
		Code any `json:"code"`
	}
	body := []byte(`{"error":` + string(answer.Error) + `}`)
	_, message := parseServiceError(body)
	reason := errorReason(body)
	e := resp.newError(reasonCode(reason), message)
	e.Reason = resp.redactor.RedactString(reason)
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

// A chatStream reads a streamed response. It emits text at once, and calls when they are
// complete.
type chatStream struct {
	resp  *serviceResponse
	yield func(*model.Response, error) bool
	whole model.Aggregator

	calls   []*chatCall
	refusal bytes.Buffer
	version string
	usage   *chatUsage
	finish  string
	// stopped is set once the consumer has stopped iterating.
	stopped bool
}

// streamChat yields the chunks and then the complete response. It reports whether
// the stream was read completely.
func streamChat(resp *serviceResponse, yield func(*model.Response, error) bool) (whole bool) {
	s := &chatStream{resp: resp, yield: yield}
	err := s.readEvents()
	switch {
	case s.stopped:
	case err != nil:
		yield(nil, err)
	default:
		s.emitFinal()
	}
	return err == nil && !s.stopped
}

// readEvents reads the events of the stream. The stream is complete after [DONE] or a
// finish reason: not all servers send both.
func (s *chatStream) readEvents() error {
	for event, err := range s.resp.readEvents() {
		if err != nil {
			return err
		}
		if string(event.data) == "[DONE]" {
			return nil
		}
		if err := s.handleChunk(event.data); err != nil || s.stopped {
			return err
		}
	}
	if s.finish == "" {
		return s.resp.toModelError(errors.New("stream ended before the response was complete"))
	}
	return nil
}

func (s *chatStream) handleChunk(data []byte) error {
	var chunk chatAnswer
	if err := json.Unmarshal(data, &chunk); err != nil {
		return s.resp.malformedError(data, err)
	}
	if failed := errorInChat(s.resp, &chunk); failed != nil {
		return failed
	}
	s.version = firstNonEmpty(s.version, chunk.Model)
	if chunk.Usage != nil {
		s.usage = chunk.Usage
	}
	for _, choice := range chunk.Choices {
		if choice.Index != 0 {
			continue
		}
		s.finish = firstNonEmpty(choice.FinishReason, s.finish)
		if choice.Delta != nil {
			s.refusal.WriteString(choice.Delta.Refusal)
			s.addCalls(choice.Delta.ToolCalls)
			s.emitParts(textParts(choice.Delta)...)
		}
	}
	return nil
}

// addCalls merges the chunks of calls. A chunk belongs to the last call of its index,
// unless it has another ID: some servers send no index.
func (s *chatStream) addCalls(chunks []chatCall) {
	for _, p := range chunks {
		c := s.findOpenCall(p)
		if c == nil {
			c = &chatCall{Index: p.Index, ID: p.ID}
			s.calls = append(s.calls, c)
		}
		c.ID = firstNonEmpty(c.ID, p.ID)
		c.Function.Name += p.Function.Name
		c.Function.Arguments += p.Function.Arguments
	}
}

func (s *chatStream) findOpenCall(p chatCall) *chatCall {
	for i := len(s.calls) - 1; i >= 0; i-- {
		c := s.calls[i]
		if p.Index != nil && c.Index != nil && *p.Index != *c.Index {
			continue
		}
		if p.ID != "" && c.ID != "" && p.ID != c.ID {
			return nil
		}
		return c
	}
	return nil
}

// emitParts yields parts as a chunk.
func (s *chatStream) emitParts(parts ...*genai.Part) {
	for _, p := range parts {
		if s.stopped {
			return
		}
		r := &model.Response{Content: modelContent(p), ModelVersion: s.version}
		s.whole.Add(r)
		s.stopped = !s.yield(toPartial(r), nil)
	}
}

// emitFinal yields the calls, and then the whole response.
func (s *chatStream) emitFinal() {
	last := &model.Response{ModelVersion: s.version, UsageMetadata: s.usage.usageMetadata(), FinishReason: finishReason(s.finish)}
	if s.refusal.Len() > 0 {
		last.FinishReason = genai.FinishReasonSafety
	}
	for _, c := range s.calls {
		part, bad := callPart(*c)
		if bad != nil {
			s.yield(bad.errorResponse(last), nil)
			return
		}
		if s.emitParts(part); s.stopped {
			return
		}
	}
	s.whole.Add(last)
	s.yield(withContent(withFinishError(s.whole.Whole(), s.refusal.String())), nil)
}

// A chatMessage is one message of a request.
type chatMessage struct {
	Role       string     `json:"role"`
	Content    any        `json:"content,omitempty"` // text, or a list of chatPart
	ToolCalls  []chatCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

// A chatPart is a part of a user message.
type chatPart struct {
	Type     string     `json:"type"`
	Text     string     `json:"text,omitempty"`
	ImageURL *chatImage `json:"image_url,omitempty"`
	Audio    *chatAudio `json:"input_audio,omitempty"`
	File     *chatFile  `json:"file,omitempty"`
}

type chatImage struct {
	URL string `json:"url"`
}

type chatAudio struct {
	Data   string `json:"data"`
	Format string `json:"format"`
}

type chatFile struct {
	Name string `json:"filename,omitempty"`
	Data string `json:"file_data"`
}

// A chatCall is a tool call, or a chunk of one in a stream.
type chatCall struct {
	Index    *int         `json:"index,omitempty"`
	ID       string       `json:"id,omitempty"`
	Type     string       `json:"type,omitempty"`
	Function chatFunction `json:"function"`
}

type chatFunction struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

// A chatAnswer is a response, or a chunk of a streamed one.
type chatAnswer struct {
	Model   string          `json:"model"`
	Choices []chatChoice    `json:"choices"`
	Usage   *chatUsage      `json:"usage"`
	Error   json.RawMessage `json:"error"`
}

type chatChoice struct {
	Index        int        `json:"index"`
	Message      *chatReply `json:"message"`
	Delta        *chatReply `json:"delta"`
	FinishReason string     `json:"finish_reason"`
}

// A chatReply is a message of the model. Servers use two names for its thoughts.
type chatReply struct {
	Content          string     `json:"content"`
	Refusal          string     `json:"refusal"`
	ReasoningContent string     `json:"reasoning_content"`
	Reasoning        string     `json:"reasoning"`
	ToolCalls        []chatCall `json:"tool_calls"`
}

type chatUsage struct {
	Prompt     int32 `json:"prompt_tokens"`
	Completion int32 `json:"completion_tokens"`
	Total      int32 `json:"total_tokens"`

	PromptDetails struct {
		Cached int32 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		Reasoning int32 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}
