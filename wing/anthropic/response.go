package anthropic

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"google.golang.org/genai"

	"agenthost/internal/modelapi"
	"agenthost/internal/modelcall"
	"agenthost/pkg/model"
	"agenthost/pkg/session"
)

// A replyBlock is a content block in a response, with its deltas so far.
type replyBlock struct {
	wireBlock
	text      bytes.Buffer // text or a thought, or a call's JSON input
	signature bytes.Buffer
	raw       json.RawMessage // for types that have no genai form
	call      *genai.Part     // for a complete call
}

// A wireBlock is a content block as the service sends it.
type wireBlock struct {
	Type      string             `json:"type"`
	Text      string             `json:"text"`
	Thinking  string             `json:"thinking"`
	Signature string             `json:"signature"`
	Data      string             `json:"data"`
	ID        modelapi.LooseText `json:"id"`
	Name      string             `json:"name"`
	Input     json.RawMessage    `json:"input"`
}

func newReplyBlock(raw json.RawMessage) (*replyBlock, error) {
	b := &replyBlock{raw: bytes.Clone(raw)}
	if len(raw) > 0 && raw[0] == '"' { // the content is a string, not a block list
		raw = json.RawMessage(`{"type":"text","text":` + string(raw) + `}`)
		b.raw = raw
	}
	if err := json.Unmarshal(raw, &b.wireBlock); err != nil {
		return nil, err
	}
	b.text.WriteString(b.Text)
	b.text.WriteString(b.Thinking)
	b.signature.WriteString(b.Signature)
	return b, nil
}

// inputJSON returns a call's arguments as JSON. Deltas replace the empty input at the start.
func (b *replyBlock) inputJSON() string {
	if b.text.Len() > 0 {
		return b.text.String()
	}
	return modelapi.UnquoteJSON(b.Input)
}

// encodeBlock returns the block as the service sent it, for a paused turn.
func (b *replyBlock) encodeBlock() anthropicBlock {
	block, err := session.DecodeMap(b.raw)
	if err != nil || block == nil {
		block = anthropicBlock{"type": b.Type}
	}
	switch b.Type {
	case "text":
		block["text"] = b.text.String()
		delete(block, "citations")
	case "thinking":
		block["thinking"], block["signature"] = b.text.String(), b.signature.String()
	case "tool_use", "server_tool_use":
		block["input"] = map[string]any{}
		if input := b.inputJSON(); strings.HasPrefix(strings.TrimSpace(input), "{") && json.Valid([]byte(input)) {
			block["input"] = json.RawMessage(input)
		}
	}
	return block
}

// An anthropicReply reads one call's response, which may take several requests if the service
// pauses the turn. It emits text at once, and calls when they are complete.
type anthropicReply struct {
	call   *anthropicCall
	stream bool
	yield  func(*model.Response, error) bool
	resp   *modelapi.Response
	budget *modelapi.AnswerBudget // for all requests in the turn

	blocks  []*replyBlock
	first   int // the index of the current request's first block
	stop    string
	details string // why the model refused
	version string
	usage   anthropicUsage // of the turn's earlier requests
	current anthropicUsage
	// stopped is set once the consumer has stopped iterating.
	stopped bool
}

// An anthropicUsage counts tokens. Input excludes cache tokens.
type anthropicUsage struct {
	Input         modelapi.TokenCount `json:"input_tokens"`
	CacheRead     modelapi.TokenCount `json:"cache_read_input_tokens"`
	CacheCreation modelapi.TokenCount `json:"cache_creation_input_tokens"`
	Output        modelapi.TokenCount `json:"output_tokens"`

	OutputDetails struct {
		Thinking modelapi.TokenCount `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
}

// addUsage adds a request's tokens.
func (u *anthropicUsage) addUsage(o anthropicUsage) {
	u.Input += o.Input
	u.CacheRead += o.CacheRead
	u.CacheCreation += o.CacheCreation
	u.Output += o.Output
	u.OutputDetails.Thinking += o.OutputDetails.Thinking
}

// usageMetadata counts the cached tokens with the prompt, and thoughts separately from the
// response, as Gemini does.
func (u *anthropicUsage) usageMetadata() *genai.GenerateContentResponseUsageMetadata {
	if *u == (anthropicUsage{}) {
		return nil
	}
	prompt := u.Input + u.CacheRead + u.CacheCreation
	thoughts := min(u.OutputDetails.Thinking, u.Output)
	return &genai.GenerateContentResponseUsageMetadata{
		PromptTokenCount: int32(prompt), CachedContentTokenCount: int32(u.CacheRead), CandidatesTokenCount: int32(u.Output - thoughts),
		ThoughtsTokenCount: int32(thoughts), TotalTokenCount: int32(prompt + u.Output),
	}
}

// readMessage reads a response that is not streamed.
func (r *anthropicReply) readMessage() error {
	raw, err := r.resp.ReadBody()
	if err != nil {
		return err
	}
	var m struct {
		wireMessage
		anthropicFailure
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return r.resp.MalformedError(raw, err)
	}
	if m.Type == "error" {
		return r.newFailure(&m.anthropicFailure)
	}
	if m.StopReason == "" {
		return r.newMalformed(raw, "no stop_reason")
	}
	r.first = len(r.blocks)
	for _, content := range m.Content {
		block, err := newReplyBlock(content)
		if err != nil {
			return r.resp.MalformedError(raw, err)
		}
		if err := r.addBlock(block); err != nil {
			return err
		}
	}
	r.version = cmp.Or(r.version, m.Model)
	r.usage.addUsage(m.Usage)
	r.stop, r.details = m.StopReason, m.StopDetails.Explanation
	return nil
}

// addBlock adds a block to the response.
func (r *anthropicReply) addBlock(b *replyBlock) error {
	if err := r.budget.CheckParts(len(r.blocks) + 1); err != nil {
		return r.resp.ToModelError(err)
	}
	if b.Type == "tool_use" {
		if err := r.budget.AddCall(); err != nil {
			return err
		}
	}
	r.blocks = append(r.blocks, b)
	return nil
}

// A wireMessage is a message as the service sends it.
type wireMessage struct {
	Type        string                              `json:"type"`
	Model       string                              `json:"model"`
	Content     modelapi.LooseList[json.RawMessage] `json:"content"`
	Usage       anthropicUsage                      `json:"usage"`
	StopReason  string                              `json:"stop_reason"`
	StopDetails struct {
		Explanation string `json:"explanation"`
	} `json:"stop_details"`
}

// buildResponse returns the complete response.
func (r *anthropicReply) buildResponse() (*model.Response, error) {
	whole := &model.Response{ModelVersion: r.version, UsageMetadata: r.usage.usageMetadata(), FinishReason: anthropicFinish(r.stop)}
	content := modelcall.ModelContent()
	for _, b := range r.blocks {
		part, bad, err := r.blockPart(b)
		if err != nil {
			return nil, err
		}
		if bad != nil {
			if whole.FinishReason == genai.FinishReasonMaxTokens {
				continue // the limit cut the arguments
			}
			return bad.ErrorResponse(whole), nil
		}
		if part != nil {
			content.Parts = append(content.Parts, part)
		}
	}
	if len(content.Parts) > 0 {
		whole.Content = content
	}
	return modelcall.WithContent(modelcall.WithFinishError(whole, describeFinish(r))), nil
}

// describeFinish returns why the response is not complete.
func describeFinish(r *anthropicReply) string {
	switch {
	case r.details != "":
		return r.details
	case r.stop == "refusal":
		return r.call.model + " refused to answer"
	case r.stop == "model_context_window_exceeded":
		return "the conversation exceeds the context window of " + r.call.model
	case r.stop == "max_tokens":
		return fmt.Sprintf("the response exceeds the limit of %v tokens: set max_output_tokens", r.call.body["max_tokens"])
	}
	return ""
}

// anthropicFinish converts a stop reason to Gemini's.
func anthropicFinish(stop string) genai.FinishReason {
	switch stop {
	case "end_turn", "stop_sequence", "tool_use":
		return genai.FinishReasonStop
	case "max_tokens", "model_context_window_exceeded":
		return genai.FinishReasonMaxTokens
	case "refusal":
		return genai.FinishReasonSafety
	}
	return genai.FinishReasonOther
}

// blockPart converts a complete block. It returns nil for blocks without a genai form, such as
// calls that the service runs itself. It fails if the answer exceeds a limit.
func (r *anthropicReply) blockPart(b *replyBlock) (*genai.Part, *modelapi.MalformedCall, error) {
	signed := func(p *genai.Part) *genai.Part {
		p.Thought, p.PartMetadata = true, modelapi.VendorMetadata(modelapi.AnthropicVendor, modelapi.BareModelName(r.call.model))
		return p
	}
	switch b.Type {
	case "text":
		if b.text.Len() == 0 {
			return nil, nil, nil
		}
		return &genai.Part{Text: b.text.String()}, nil, nil
	case "thinking":
		return signed(&genai.Part{Text: b.text.String(), ThoughtSignature: bytes.Clone(b.signature.Bytes())}), nil, nil
	case "redacted_thinking":
		p := signed(&genai.Part{ThoughtSignature: []byte(b.Data)})
		p.PartMetadata[modelapi.RedactedKey] = true
		return p, nil, nil
	case "tool_use":
		if r.call.answerTool != "" && b.Name == r.call.answerTool {
			return &genai.Part{Text: strings.TrimSpace(b.inputJSON())}, nil, nil
		}
		if b.call != nil {
			return b.call, nil, nil
		}
		part, bad, err := r.resp.DecodeCall(string(b.ID), b.Name, b.inputJSON())
		b.call = part
		return part, bad, err
	}
	return nil, nil, nil
}
