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

// A chatStream is an answer that comes in chunks. Text is passed on as it
// comes; a call once it is whole.
type chatStream struct {
	llm   *openAI
	yield func(*model.Response, error) bool
	whole model.Aggregator

	calls   []*chatCall
	refusal bytes.Buffer
	version string
	usage   *chatUsage
	finish  string
	// left says that nobody listens any more.
	left bool
}

// stream passes the answer on, and ends with the whole of it. It says whether that
// was heard.
func (o *openAI) stream(ctx context.Context, body io.Reader, yield func(*model.Response, error) bool) (whole bool) {
	s := &chatStream{llm: o, yield: yield}
	err := s.read(body)
	switch {
	case s.left:
	case err != nil:
		yield(nil, o.failure(ctx, err))
	default:
		s.end()
	}
	return err == nil && !s.left
}

// read takes the events of the stream. It ends well with [DONE], or after a
// finish reason: not all servers say both.
func (s *chatStream) read(body io.Reader) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxAnswer)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(bytes.TrimSpace(lines.Bytes()), []byte("data:"))
		data = bytes.TrimSpace(data)
		if !ok || len(data) == 0 {
			continue
		}
		if string(data) == "[DONE]" {
			return nil
		}
		if err := s.take(data); err != nil || s.left {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("the stream was cut: %w", err)
	}
	if s.finish == "" {
		return errors.New("the stream was cut before the answer ended")
	}
	return nil
}

func (s *chatStream) take(data []byte) error {
	var chunk chatAnswer
	if err := json.Unmarshal(data, &chunk); err != nil {
		return s.llm.malformed(data, err)
	}
	if failed := s.llm.failureIn(&chunk); failed != nil {
		return failed
	}
	s.version = first(s.version, chunk.Model)
	if chunk.Usage != nil {
		s.usage = chunk.Usage
	}
	for _, choice := range chunk.Choices {
		if choice.Index != 0 {
			continue
		}
		s.finish = first(choice.FinishReason, s.finish)
		if choice.Delta != nil {
			s.refusal.WriteString(choice.Delta.Refusal)
			s.addCalls(choice.Delta.ToolCalls)
			s.pass(textParts(choice.Delta)...)
		}
	}
	return nil
}

// addCalls puts the pieces of calls together. A piece belongs to the last call
// of its index; another id there is another call, as some servers count none.
func (s *chatStream) addCalls(pieces []chatCall) {
	for _, p := range pieces {
		c := s.open(p)
		if c == nil {
			c = &chatCall{Index: p.Index, ID: p.ID}
			s.calls = append(s.calls, c)
		}
		c.ID = first(c.ID, p.ID)
		c.Function.Name += p.Function.Name
		c.Function.Arguments += p.Function.Arguments
	}
}

func (s *chatStream) open(p chatCall) *chatCall {
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

// pass hands parts on as a piece of the answer.
func (s *chatStream) pass(parts ...*genai.Part) {
	for _, p := range parts {
		if s.left {
			return
		}
		r := &model.Response{Content: modelContent(p), ModelVersion: s.version}
		s.whole.Add(r)
		s.left = !s.yield(partial(r), nil)
	}
}

// end tells the calls, and then the whole answer.
func (s *chatStream) end() {
	last := &model.Response{ModelVersion: s.version, UsageMetadata: s.usage.metadata(), FinishReason: finishReason(s.finish)}
	if s.refusal.Len() > 0 {
		last.FinishReason = genai.FinishReasonSafety
	}
	for _, c := range s.calls {
		part, bad := callPart(*c)
		if bad != nil {
			s.yield(bad.of(last), nil)
			return
		}
		if s.pass(part); s.left {
			return
		}
	}
	s.whole.Add(last)
	s.yield(complete(unfinished(s.whole.Whole(), s.refusal.String())), nil)
}
