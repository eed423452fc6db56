package anthropic

import (
	"cmp"
	"encoding/json"
	"errors"

	"google.golang.org/genai"

	"agenthost/internal/modelcall"
	"agenthost/pkg/model"
)

// An anthropicEvent is one stream event.
type anthropicEvent struct {
	Type    string          `json:"type"`
	Index   int             `json:"index"`
	Message wireMessage     `json:"message"`
	Block   json.RawMessage `json:"content_block"`
	Delta   struct {
		Type        string `json:"type"`
		Text        string `json:"text"`
		Thinking    string `json:"thinking"`
		Signature   string `json:"signature"`
		PartialJSON string `json:"partial_json"`
		StopReason  string `json:"stop_reason"`
		StopDetails struct {
			Explanation string `json:"explanation"`
		} `json:"stop_details"`
	} `json:"delta"`
	Usage *anthropicUsage `json:"usage"`
	anthropicFailure
}

// readStream reads one streamed response's events and emits its chunks. The stream is complete
// after message_stop.
func (r *anthropicReply) readStream() error {
	r.first, r.stop, r.details, r.current = len(r.blocks), "", "", anthropicUsage{}
	for event, err := range r.resp.ReadEvents() {
		if err != nil {
			return err
		}
		var e anthropicEvent
		if err := json.Unmarshal(event.Data, &e); err != nil {
			return r.resp.MalformedError(event.Data, err)
		}
		if e.Type == "message_stop" && r.stop != "" {
			r.usage.addUsage(r.current)
			return nil
		}
		if err := r.handleEvent(&e, event.Data); err != nil || r.stopped {
			return err
		}
	}
	return r.resp.ToModelError(errors.New("stream ended before the response was complete"))
}

func (r *anthropicReply) handleEvent(e *anthropicEvent, data []byte) error {
	switch e.Type {
	case "error":
		return r.newFailure(&e.anthropicFailure)
	case "message_start":
		r.version = cmp.Or(r.version, e.Message.Model)
		r.current = e.Message.Usage
	case "content_block_start":
		return r.startBlock(e, data)
	case "content_block_delta":
		return r.addDelta(e, data)
	case "content_block_stop":
		return r.endBlock(e, data)
	case "message_delta":
		r.stop = cmp.Or(e.Delta.StopReason, r.stop)
		r.details = cmp.Or(e.Delta.StopDetails.Explanation, r.details)
		if e.Usage != nil { // counts at the end are totals, and may lack the input's
			merged := *e.Usage
			merged.Input = max(merged.Input, r.current.Input)
			merged.CacheRead = max(merged.CacheRead, r.current.CacheRead)
			merged.CacheCreation = max(merged.CacheCreation, r.current.CacheCreation)
			r.current = merged
		}
	}
	return nil // ping, and events that the service may add
}

func (r *anthropicReply) startBlock(e *anthropicEvent, data []byte) error {
	if r.first+e.Index != len(r.blocks) {
		return r.newMalformed(data, "unexpected block index")
	}
	block, err := newReplyBlock(e.Block)
	if err != nil {
		return r.resp.MalformedError(data, err)
	}
	if err := r.addBlock(block); err != nil {
		return err
	}
	if block.Type == "text" || block.Type == "thinking" {
		r.emitText(block, block.text.String())
	}
	return nil
}

// findBlock returns an event's block: only the last one is open.
func (r *anthropicReply) findBlock(e *anthropicEvent) *replyBlock {
	if n := len(r.blocks); n > r.first && r.first+e.Index == n-1 {
		return r.blocks[n-1]
	}
	return nil
}

func (r *anthropicReply) addDelta(e *anthropicEvent, data []byte) error {
	block := r.findBlock(e)
	if block == nil {
		return r.newMalformed(data, "delta without a block")
	}
	switch e.Delta.Type {
	case "text_delta":
		block.text.WriteString(e.Delta.Text)
		r.emitText(block, e.Delta.Text)
	case "thinking_delta":
		block.text.WriteString(e.Delta.Thinking)
		r.emitText(block, e.Delta.Thinking)
	case "signature_delta":
		block.signature.WriteString(e.Delta.Signature)
	case "input_json_delta":
		block.text.WriteString(e.Delta.PartialJSON)
		if r.call.answerTool != "" && block.Name == r.call.answerTool {
			r.emitText(block, e.Delta.PartialJSON)
		}
	}
	return nil
}

// endBlock emits a call. One with malformed arguments is reported at the end, when the
// stop reason is known.
func (r *anthropicReply) endBlock(e *anthropicEvent, data []byte) error {
	block := r.findBlock(e)
	if block == nil {
		return r.newMalformed(data, "end without a block")
	}
	if block.Type != "tool_use" || r.call.answerTool != "" && block.Name == r.call.answerTool {
		return nil
	}
	part, bad, err := r.blockPart(block)
	if bad == nil && err == nil {
		r.emitPart(part)
	}
	return err
}

func (r *anthropicReply) emitText(block *replyBlock, text string) {
	if text != "" {
		r.emitPart(&genai.Part{Text: text, Thought: block.Type == "thinking"})
	}
}

// emitPart yields a part as a chunk.
func (r *anthropicReply) emitPart(p *genai.Part) {
	if !r.stopped {
		r.stopped = !r.yield(&model.Response{Content: modelcall.ModelContent(p), ModelVersion: r.version, Partial: true}, nil)
	}
}
