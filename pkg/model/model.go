// Package model is the contract between agents and language models: what a
// model is asked ([Request]), what it answers ([Response]), and who answers
// ([LLM]). Contents are [genai.Content] throughout; only a provider translates,
// at its own edge.
package model

import (
	"context"
	"iter"
	"maps"
	"time"

	"google.golang.org/genai"
)

// An LLM answers requests. Implementations are safe for use by many goroutines.
type LLM interface {
	// Name is the model's name, as the provider knows it.
	Name() string

	// Generate asks the model once. Without req.Stream it yields exactly one
	// response that is not partial. With req.Stream it yields any number of
	// partial responses, then the whole answer as one that is not partial.
	// A failure is yielded as (nil, err) and ends the sequence; failures that
	// the service names are an [*Error]. A consumer that stops early cancels
	// the call. The request and all it points to are only read.
	Generate(ctx context.Context, req *Request) iter.Seq2[*Response, error]
}

// A Request is one call of a model.
type Request struct {
	// Model is the name sent to the provider; empty means the LLM's own.
	Model string

	// Contents is the conversation. The contents are shared with the session's
	// history: whoever wants to change one replaces it by a changed copy.
	Contents []*genai.Content

	// Config holds system instruction, tools and generation settings. It is
	// never nil. Where a callback or a tool is shown the request, it is this
	// request's own, though what it points to may be shared; anywhere else it may
	// be shared, too.
	Config *genai.GenerateContentConfig

	// Stream asks for partial responses.
	Stream bool

	// Origin says who asks. It is never sent to a remote model.
	Origin Origin

	// Cache asks for contents to be kept; nil is not to. Models that cannot
	// (see [CanCache]) pass over it.
	Cache *CacheRequest
}

// Instruction is the request's system instruction as one text.
func (r *Request) Instruction() string {
	if r.Config == nil {
		return ""
	}
	return TextOf(r.Config.SystemInstruction)
}

// AppendInstruction adds text to the system instruction, two line feeds after
// what is there. Empty text changes nothing.
func (r *Request) AppendInstruction(text string) {
	if text == "" {
		return
	}
	if old := r.Instruction(); old != "" {
		text = old + "\n\n" + text
	}
	r.Config.SystemInstruction = textContent("", text)
}

// An Origin names the run that a request belongs to. The scripted model
// answers by it; logs and traces show it.
type Origin struct {
	App, Agent, UserID, SessionID, InvocationID string

	// User is the text of the invocation's user message.
	User string
	// Step counts the model calls of the invocation before this one.
	Step int
	// Turn counts the session's user messages, this one included.
	Turn int
	// State reads the session's state; nil reads nothing.
	State func(key string) (any, bool)
	// Now is the host's clock; nil where there is none.
	Now func() time.Time
}

// A Response is an answer of a model, whole or partial. Inside an event it is
// part of the session's history and never changed.
type Response struct {
	Content *genai.Content
	// Partial marks a piece of a streamed answer.
	Partial bool
	// TurnComplete and Interrupted belong to live conversations.
	TurnComplete, Interrupted bool

	FinishReason genai.FinishReason
	// ErrorCode and ErrorMessage name a failure that came as an answer: a
	// blocked prompt, a finish reason other than STOP.
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
	// CacheMetadata answers a request's Cache; it stands on whole answers only.
	CacheMetadata *CacheMetadata
}

// Clone returns a copy whose CustomMetadata map is its own. Everything else is
// shared.
func (r *Response) Clone() *Response {
	c := *r
	c.CustomMetadata = maps.Clone(r.CustomMetadata)
	return &c
}
