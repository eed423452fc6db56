package provider

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"google.golang.org/genai"

	"agenthost/pkg/model"
)

// A chatStream reads a streamed response. It emits text at once, and calls when they are
// complete.
type chatStream struct {
	llm   *openAI
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

// streamResponse yields the chunks and then the complete response. It reports whether
// the stream was read completely.
func (o *openAI) streamResponse(ctx context.Context, body io.Reader, yield func(*model.Response, error) bool) (whole bool) {
	s := &chatStream{llm: o, yield: yield}
	err := s.readEvents(body)
	switch {
	case s.stopped:
	case err != nil:
		yield(nil, o.toModelError(ctx, err))
	default:
		s.emitFinal()
	}
	return err == nil && !s.stopped
}

// readEvents reads the events of the stream. The stream is complete after [DONE] or a
// finish reason: not all servers send both.
func (s *chatStream) readEvents(body io.Reader) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxResponseBytes)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(bytes.TrimSpace(lines.Bytes()), []byte("data:"))
		data = bytes.TrimSpace(data)
		if !ok || len(data) == 0 {
			continue
		}
		if string(data) == "[DONE]" {
			return nil
		}
		if err := s.handleChunk(data); err != nil || s.stopped {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("stream was interrupted: %w", err)
	}
	if s.finish == "" {
		return errors.New("stream ended before the response was complete")
	}
	return nil
}

func (s *chatStream) handleChunk(data []byte) error {
	var chunk chatAnswer
	if err := json.Unmarshal(data, &chunk); err != nil {
		return s.llm.malformedError(data, err)
	}
	if failed := s.llm.errorInBody(&chunk); failed != nil {
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
