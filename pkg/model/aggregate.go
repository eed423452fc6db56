package model

import (
	"cmp"
	"strings"

	"google.golang.org/genai"
)

// An Aggregator merges the chunks of a streamed response: it keeps the part order and joins
// adjacent texts of the same kind (thought or not), like ADK's progressive SSE (adk-python
// utils/streaming_utils.py). The zero value is ready to use. It is not safe for concurrent
// use.
type Aggregator struct {
	last      Response
	seen      bool
	parts     []*genai.Part
	text      strings.Builder
	thought   bool
	signature []byte
	role      string
}

// Add adds a chunk, in order of arrival. It does not keep r.
func (a *Aggregator) Add(r *Response) {
	before := a.last
	a.last = *r
	a.last.inheritFields(&before)
	a.seen = true
	if r.Content == nil {
		return
	}
	a.role = cmp.Or(r.Content.Role, a.role)
	for _, p := range r.Content.Parts {
		a.addPart(p)
	}
}

// inheritFields copies fields that only earlier chunks set.
func (r *Response) inheritFields(before *Response) {
	r.TurnComplete = r.TurnComplete || before.TurnComplete
	r.Interrupted = r.Interrupted || before.Interrupted
	r.FinishReason = cmp.Or(r.FinishReason, before.FinishReason)
	if r.ErrorCode == "" {
		r.ErrorCode, r.ErrorMessage = before.ErrorCode, before.ErrorMessage
	}
	r.ModelVersion = cmp.Or(r.ModelVersion, before.ModelVersion)
	r.UsageMetadata = cmp.Or(r.UsageMetadata, before.UsageMetadata)
	r.GroundingMetadata = cmp.Or(r.GroundingMetadata, before.GroundingMetadata)
	r.CitationMetadata = cmp.Or(r.CitationMetadata, before.CitationMetadata)
	r.InputTranscription = cmp.Or(r.InputTranscription, before.InputTranscription)
	r.OutputTranscription = cmp.Or(r.OutputTranscription, before.OutputTranscription)
	r.AvgLogprobs = cmp.Or(r.AvgLogprobs, before.AvgLogprobs)
	r.LogprobsResult = cmp.Or(r.LogprobsResult, before.LogprobsResult)
	r.CacheMetadata = cmp.Or(r.CacheMetadata, before.CacheMetadata)
	if r.CustomMetadata == nil {
		r.CustomMetadata = before.CustomMetadata
	}
}

func (a *Aggregator) addPart(p *genai.Part) {
	if !isPlainText(p) {
		a.flushText()
		a.parts = append(a.parts, p)
		return
	}
	if p.Thought != a.thought {
		a.flushText()
	}
	a.thought = p.Thought
	a.text.WriteString(p.Text)
	if len(p.ThoughtSignature) > 0 {
		a.signature = p.ThoughtSignature
	}
}

func (a *Aggregator) flushText() {
	if a.text.Len() > 0 || len(a.signature) > 0 {
		a.parts = append(a.parts, &genai.Part{Text: a.text.String(), Thought: a.thought, ThoughtSignature: a.signature})
	}
	a.text.Reset()
	a.signature = nil
	a.thought = false
}

// CountParts returns how many parts the response has so far.
func (a *Aggregator) CountParts() int { return len(a.parts) }

// Whole returns the complete response: the merged parts, and each other field's latest value.
// It returns nil if no chunk was added.
func (a *Aggregator) Whole() *Response {
	if !a.seen {
		return nil
	}
	a.flushText()
	r := a.last
	r.Partial = false
	r.Content = nil
	if len(a.parts) > 0 {
		r.Content = &genai.Content{Role: cmp.Or(a.role, genai.RoleModel), Parts: a.parts}
	}
	return &r
}

// isPlainText reports whether a part has only text, its kind and its signature.
func isPlainText(p *genai.Part) bool {
	return IsText(p) && p.VideoMetadata == nil && p.SpeechMetadata == nil &&
		p.MediaResolution == nil && p.MediaProcessing == "" && len(p.PartMetadata) == 0
}

// IsText reports whether a part has no data other than text.
func IsText(p *genai.Part) bool {
	return p.FunctionCall == nil && p.FunctionResponse == nil && p.InlineData == nil && p.FileData == nil &&
		p.ExecutableCode == nil && p.CodeExecutionResult == nil && p.ToolCall == nil && p.ToolResponse == nil &&
		p.AudioTranscription == nil
}
