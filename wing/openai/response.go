package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"google.golang.org/genai"

	"agenthost/internal/modelapi"
	"agenthost/internal/modelcall"
	"agenthost/pkg/model"
)

// readChatResponse reads a response that is not streamed.
func readChatResponse(resp *modelapi.Response, target *chatTarget) (*model.Response, error) {
	raw, err := resp.ReadBody()
	if err != nil {
		return nil, err
	}
	var answer chatAnswer
	if err := json.Unmarshal(raw, &answer); err != nil {
		return nil, resp.MalformedError(raw, err)
	}
	if failed := errorInChat(resp, answer.errorObject(raw)); failed != nil {
		return nil, failed
	}
	r := &model.Response{ModelVersion: answer.Model, UsageMetadata: answer.Usage.usageMetadata()}
	if len(answer.Choices) == 0 || answer.Choices[0].Message == nil {
		return nil, resp.MalformedError(raw, errors.New("no message"))
	}
	choice := answer.Choices[0]
	if failed := errorInChoice(resp, &choice); failed != nil {
		return nil, failed
	}
	r.Content = modelcall.ModelContent(choice.Message.textParts()...)
	if err := resp.Budget.AddCalls(len(choice.Message.ToolCalls)); err != nil {
		return nil, err
	}
	for _, call := range choice.Message.ToolCalls {
		part, bad, err := decodeChatCall(resp, call)
		if err != nil {
			return nil, err
		}
		if bad = problemOrCut(bad, call, choice.FinishReason); bad != nil {
			return bad.ErrorResponse(r), nil
		}
		r.Content.Parts = append(r.Content.Parts, part)
	}
	r.FinishReason = finishReason(choice.FinishReason)
	message := ""
	if choice.Message.Refusal != "" {
		r.FinishReason, message = genai.FinishReasonSafety, choice.Message.Refusal
		r.ErrorMessage = message
	}
	if len(r.Content.Parts) == 0 && r.FinishReason != genai.FinishReasonStop {
		r.Content, r.ErrorCode, r.ErrorMessage = nil, string(r.FinishReason), cmp.Or(message, modelcall.FinishMessage(r.FinishReason))
	}
	thoughts := &chatThoughts{}
	thoughts.addReply(choice.Message)
	thoughts.markResponse(r, target)
	return r, nil
}

// errorInChat returns an error that some servers send with status 200.
func errorInChat(resp *modelapi.Response, raw json.RawMessage) *model.Error {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	var details struct {
		Code any    `json:"code"`
		Type string `json:"type"`
	}
	body := []byte(`{"error":` + string(raw) + `}`)
	_, message := modelapi.ParseServiceError(body)
	reason := modelapi.ErrorReason(body)
	status := modelcall.ReasonCode(reason)
	if json.Unmarshal(raw, &details) == nil {
		if code, ok := details.Code.(float64); ok && code >= 400 && code <= 599 {
			status = int(code)
		}
		status = cmp.Or(status, modelcall.ReasonCode(details.Type))
	}
	e := resp.NewError(status, message)
	e.Reason = resp.Redactor.RedactString(reason)
	return e
}

// errorInChoice returns the error when a router or an overloaded service gave up a response.
func errorInChoice(resp *modelapi.Response, c *chatChoice) *model.Error {
	if failed := errorInChat(resp, c.Error); failed != nil {
		return failed
	}
	if c.FinishReason == "insufficient_system_resource" {
		return resp.NewError(http.StatusServiceUnavailable, "the service has insufficient resources: "+c.FinishReason)
	}
	return nil
}

// decodeChatCall converts a complete call with its signature. It fails if the answer exceeds a
// limit.
func decodeChatCall(resp *modelapi.Response, c chatCall) (*genai.Part, *modelapi.MalformedCall, error) {
	id, signature := c.splitSignature()
	part, bad, err := resp.DecodeCall(id, c.Function.Name, c.Function.Arguments)
	if part != nil {
		part.ThoughtSignature = signature
	}
	return part, bad, err
}

// problemOrCut returns a call's problem in a response with a finish reason. A call that the token
// limit cut must not run, also if it has no arguments yet. b may be nil.
func problemOrCut(b *modelapi.MalformedCall, c chatCall, finish string) *modelapi.MalformedCall {
	if finishReason(finish) != genai.FinishReasonMaxTokens || b == nil && strings.TrimSpace(c.Function.Arguments) != "" {
		return b
	}
	return &modelapi.MalformedCall{Name: c.Function.Name, Args: c.Function.Arguments, Cut: true}
}

// finishReason converts a finish reason to Gemini's.
func finishReason(reason string) genai.FinishReason {
	switch reason {
	case "length", "max_tokens", "model_length":
		return genai.FinishReasonMaxTokens
	case "content_filter":
		return genai.FinishReasonSafety
	case "", "stop", "tool_calls", "function_call", "eos", "end_turn", "stop_sequence", "tool_use":
		return genai.FinishReasonStop
	}
	return genai.FinishReasonOther
}

// A chatStream reads a streamed response. It emits text at once, and calls when they are
// complete.
type chatStream struct {
	resp   *modelapi.Response
	target *chatTarget
	yield  func(*model.Response, error) bool
	whole  model.Aggregator

	calls    []*streamedCall
	thoughts chatThoughts
	refusal  bytes.Buffer
	version  string
	usage    *chatUsage
	finish   string
	// stopped is set once the consumer has stopped iterating.
	stopped bool
}

// A streamedCall is a call whose name and arguments arrive in chunks.
type streamedCall struct {
	chatCall
	names, arguments []string
	nameBytes        int
	object           objectScanner // scans the arguments
}

// maxCallName limits a name's chunks together: they are joined more than once. Some servers send in
// each chunk the name so far.
const maxCallName = 10_000

// addChunk adds the fields that are not empty.
func (c *streamedCall) addChunk(f chatFunction) error {
	isRepeated := len(c.names) == 1 && c.names[0] == f.Name
	if f.Name != "" && !isRepeated {
		if c.nameBytes += len(f.Name); c.nameBytes > maxCallName {
			return fmt.Errorf("function name exceeds the limit of %d bytes", maxCallName)
		}
		c.names = append(c.names, f.Name)
	}
	if f.Arguments != "" {
		c.arguments = append(c.arguments, f.Arguments)
		c.object.scanChunk(f.Arguments)
	}
	return nil
}

// An objectScanner reports whether chunks may together be one JSON object, without reading
// them again for each chunk.
type objectScanner struct {
	begun, inString, escaped, ended, other bool
	depth                                  int
}

func (s *objectScanner) scanChunk(text string) {
	for i := range len(text) {
		c := text[i]
		switch {
		case s.other:
			return
		case s.escaped:
			s.escaped = false
		case s.inString:
			s.escaped, s.inString = c == '\\', c != '"'
		case strings.IndexByte(jsonSpace, c) >= 0:
		case s.ended, !s.begun && c != '{':
			s.other = true
		case c == '"':
			s.inString = true
		case c == '{', c == '[':
			s.begun = true
			s.depth++
		case c == '}', c == ']':
			s.depth--
			s.ended = s.depth == 0
		}
	}
}

// jsonSpace is the white space that JSON allows between tokens.
const jsonSpace = " \t\r\n"

// mayBeObject reports whether the chunks so far may be an object.
func (s *objectScanner) mayBeObject() bool { return s.ended && !s.other }

// joinChunks returns the whole call.
func (c *streamedCall) joinChunks() chatCall {
	whole := c.chatCall
	whole.Function = chatFunction{Name: modelapi.JoinNameChunks(c.names), Arguments: modelapi.JoinArgumentChunks(c.arguments), LiteLLM: c.Function.LiteLLM}
	return whole
}

// streamChat yields the chunks and then the complete response. It reports whether
// the stream was read completely.
func streamChat(resp *modelapi.Response, target *chatTarget, yield func(*model.Response, error) bool) (whole bool) {
	s := &chatStream{resp: resp, target: target, yield: yield}
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

// readEvents reads the stream's events. The stream is complete after [DONE] or a finish reason: not
// all servers send both.
func (s *chatStream) readEvents() error {
	for event, err := range s.resp.ReadEvents() {
		if err != nil {
			return err
		}
		if string(event.Data) == "[DONE]" {
			return s.checkCalls()
		}
		if err := s.handleChunk(event.Data); err != nil || s.stopped {
			return err
		}
	}
	if s.finish == "" {
		return s.resp.ToModelError(errors.New("stream ended before the response was complete"))
	}
	return nil
}

// checkCalls rejects calls without a finish reason whose arguments are incomplete: the server gave
// up before their end.
func (s *chatStream) checkCalls() error {
	for _, c := range s.calls {
		if f := c.joinChunks().Function; s.finish == "" && !json.Valid([]byte(f.Arguments)) {
			return s.resp.ToModelError(errors.New("stream ended during a call to " + f.Name))
		}
	}
	return nil
}

func (s *chatStream) handleChunk(data []byte) error {
	var chunk chatAnswer
	if err := json.Unmarshal(data, &chunk); err != nil {
		return s.resp.MalformedError(data, err)
	}
	if failed := errorInChat(s.resp, chunk.errorObject(data)); failed != nil {
		return failed
	}
	s.version = cmp.Or(s.version, chunk.Model)
	if chunk.Usage != nil {
		s.usage = chunk.Usage
	}
	for _, choice := range chunk.Choices {
		if choice.Index != 0 {
			continue
		}
		if failed := errorInChoice(s.resp, &choice); failed != nil {
			return failed
		}
		s.finish = cmp.Or(choice.FinishReason, s.finish)
		if delta := cmp.Or(choice.Delta, choice.Message); delta != nil {
			s.refusal.WriteString(delta.Refusal)
			s.thoughts.addReply(delta)
			if err := s.addCalls(delta.ToolCalls); err != nil {
				return err
			}
			if err := s.emitParts(delta.textParts()...); err != nil {
				return err
			}
		}
	}
	return nil
}

// addCalls merges call chunks. A chunk belongs to the last call with its index, unless it has
// another ID: some servers send no index. Without both, a chunk with a whole call begins another
// one.
func (s *chatStream) addCalls(chunks []chatCall) error {
	for _, p := range chunks {
		c := s.findOpenCall(p)
		if c == nil {
			if err := s.resp.Budget.AddCall(); err != nil {
				return err
			}
			c = &streamedCall{chatCall: chatCall{Index: p.Index, ID: p.ID}}
			s.calls = append(s.calls, c)
		}
		c.ID = cmp.Or(c.ID, p.ID)
		if err := c.addChunk(p.Function); err != nil {
			return s.resp.NewError(0, err.Error())
		}
		for _, fields := range []*liteLLMFields{p.LiteLLM, p.Function.LiteLLM} {
			if fields != nil {
				c.LiteLLM = fields
			}
		}
		if p.Extra != nil {
			c.Extra = p.Extra
		}
	}
	return nil
}

// isOther reports whether a chunk without an ID is a whole call, and c too: one without an index,
// or for another function.
func (c *streamedCall) isOther(p chatCall) bool {
	if p.ID != "" || p.Function.Name == "" || !modelapi.IsObject(p.Function.Arguments) {
		return false
	}
	if !c.object.mayBeObject() || p.Index != nil && p.Function.Name == modelapi.JoinNameChunks(c.names) {
		return false
	}
	return modelapi.IsObject(modelapi.JoinArgumentChunks(c.arguments))
}

func (s *chatStream) findOpenCall(p chatCall) *streamedCall {
	for i := len(s.calls) - 1; i >= 0; i-- {
		c := s.calls[i]
		if p.Index != nil && c.Index != nil && *p.Index != *c.Index {
			continue
		}
		if p.ID != "" && c.ID != "" && p.ID != c.ID {
			return nil
		}
		if c.isOther(p) {
			return nil
		}
		return c
	}
	return nil
}

// emitParts yields parts as a chunk.
func (s *chatStream) emitParts(parts ...*genai.Part) error {
	for _, p := range parts {
		if s.stopped {
			return nil
		}
		r := &model.Response{Content: modelcall.ModelContent(p), ModelVersion: s.version}
		s.whole.Add(r)
		if err := s.resp.Budget.CheckParts(s.whole.CountParts()); err != nil {
			return s.resp.ToModelError(err)
		}
		s.stopped = !s.yield(modelcall.ToPartial(r), nil)
	}
	return nil
}

// emitFinal yields the calls, and then the whole response.
func (s *chatStream) emitFinal() {
	last := &model.Response{ModelVersion: s.version, UsageMetadata: s.usage.usageMetadata(), FinishReason: finishReason(s.finish)}
	if s.refusal.Len() > 0 {
		last.FinishReason = genai.FinishReasonSafety
	}
	for _, c := range s.calls {
		call := c.joinChunks()
		part, bad, err := decodeChatCall(s.resp, call)
		if bad = problemOrCut(bad, call, s.finish); bad != nil {
			s.yield(bad.ErrorResponse(last), nil)
			return
		}
		if err == nil {
			err = s.emitParts(part)
		}
		if err != nil {
			s.yield(nil, err)
			return
		}
		if s.stopped {
			return
		}
	}
	s.whole.Add(last)
	whole := modelcall.WithContent(modelcall.WithFinishError(s.whole.Whole(), cmp.Or(s.refusal.String(), modelcall.FinishMessage(last.FinishReason))))
	s.thoughts.markResponse(whole, s.target)
	s.yield(whole, nil)
}
