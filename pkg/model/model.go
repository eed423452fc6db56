// Package model defines the interface between agents and language models: [Request],
// [Response] and [LLM]. Contents are [genai.Content]; only providers translate them.
package model

import (
	"context"
	"iter"
	"maps"
	"time"

	"google.golang.org/genai"
)

// An LLM generates responses. Implementations are safe for concurrent use.
type LLM interface {
	// Name returns the model's name at the provider.
	Name() string

	// Generate calls the model once. Without req.Stream it yields exactly one response,
	// which is not partial. With req.Stream it yields any number of partial responses,
	// then the complete one. A failure is yielded as (nil, err) and ends the sequence;
	// errors of the service are an [*Error]. Stopping the iteration cancels the call.
	// Generate does not modify the request or anything it points to.
	Generate(ctx context.Context, req *Request) iter.Seq2[*Response, error]
}

// A Request is one call of a model.
type Request struct {
	// Model overrides the LLM's name if it is not empty.
	Model string

	// Contents is the conversation. It is shared with the session's history: replace a
	// content by a copy to change it.
	Contents []*genai.Content

	// Config holds the system instruction, tools and generation settings. It is never
	// nil. Callbacks and tools get a config that belongs to this request, though what it
	// points to may be shared; elsewhere the config may be shared, too.
	Config *genai.GenerateContentConfig

	// Stream requests partial responses.
	Stream bool

	// Origin identifies the run. It is never sent to a remote model.
	Origin Origin

	// Cache requests context caching; nil disables it. Models that do not support it
	// (see [CanCache]) ignore it.
	Cache *CacheRequest
}

// Instruction returns the text of the system instruction.
func (r *Request) Instruction() string {
	if r.Config == nil {
		return ""
	}
	return TextOf(r.Config.SystemInstruction)
}

// AppendInstruction appends text to the system instruction, after two line feeds. It
// ignores empty text.
func (r *Request) AppendInstruction(text string) {
	if text == "" {
		return
	}
	if old := r.Instruction(); old != "" {
		text = old + "\n\n" + text
	}
	r.Config.SystemInstruction = textContent("", text)
}

// An Origin identifies the run of a request, for the scripted model, logs and traces.
type Origin struct {
	App, Agent, UserID, SessionID, InvocationID string

	// User is the text of the invocation's user message.
	User string
	// Step is the number of earlier model calls of the invocation.
	Step int
	// Turn is the number of user messages of the session, including this one.
	Turn int
	// State reads the session's state; nil is an empty state.
	State func(key string) (any, bool)
	// Now is the host's clock, or nil.
	Now func() time.Time
}

// A Response is a complete or partial response of a model. As part of an event, it is
// immutable.
type Response struct {
	Content *genai.Content
	// Partial marks a chunk of a streamed response.
	Partial bool
	// TurnComplete and Interrupted are for live conversations.
	TurnComplete, Interrupted bool

	FinishReason genai.FinishReason
	// ErrorCode and ErrorMessage describe a failure reported in a response: a blocked
	// prompt, or a finish reason other than STOP.
	ErrorCode, ErrorMessage string

	ModelVersion        string
	UsageMetadata       *genai.GenerateContentResponseUsageMetadata
	GroundingMetadata   *genai.GroundingMetadata
	CitationMetadata    *genai.CitationMetadata
	InputTranscription  *genai.Transcription
	OutputTranscription *genai.Transcription
	AvgLogprobs         float64
	LogprobsResult      *genai.LogprobsResult
	CustomMetadata      map[string]any
	// CacheMetadata answers the request's Cache, on complete responses only.
	CacheMetadata *CacheMetadata
}

// Clone returns a copy with its own CustomMetadata map. Everything else is shared.
func (r *Response) Clone() *Response {
	c := *r
	c.CustomMetadata = maps.Clone(r.CustomMetadata)
	return &c
}
