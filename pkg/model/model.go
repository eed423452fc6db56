// Package model defines the interface between agents and language models: [Request],
// [Response] and [LLM]. Contents are [genai.Content]; only providers translate them.
package model

import (
	"context"
	"iter"
	"maps"
	"strings"
	"time"

	"google.golang.org/genai"
)

// An LLM generates responses. Implementations are safe for concurrent use.
type LLM interface {
	// Name returns the model's name at the provider.
	Name() string

	// Generate calls the model once. Without req.Stream it yields exactly one response, which
	// is not partial. With req.Stream it yields any number of partial responses, then the
	// complete one. A failure is yielded as (nil, err) and ends the sequence; service errors
	// are an [*Error]. Stopping the iteration cancels the call. Generate does not modify the
	// request or anything it points to.
	Generate(ctx context.Context, req *Request) iter.Seq2[*Response, error]
}

// A Request is one model call.
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

	// Notes are the parts of the system instruction that the host's tools have added; see
	// [Request.AppendNote].
	Notes []string

	// Stream requests partial responses.
	Stream bool

	// MaxCalls limits the function calls in the answer; 0 is the provider's limit. A provider
	// ends a longer answer with a [*CallsLimitError] as soon as it sees it.
	MaxCalls int

	// Origin identifies the run. It is never sent to a remote model.
	Origin Origin

	// Cache requests context caching; nil disables it. Models that do not support it
	// (see [CanCache]) ignore it.
	Cache *CacheRequest

	// Retry replaces the model's retries; nil keeps them.
	Retry *RetryPolicy

	// OnWait is called before the call waits for a retry or for a limit; nil is allowed.
	// It does not block.
	OnWait func(Wait)
}

// A RetryPolicy is how often a call is attempted, and after which delays. It is applied by
// [agenthost/pkg/provider.Retry], the only place that repeats calls.
type RetryPolicy struct {
	// Attempts is the maximum number of attempts, including the first; at least 1.
	Attempts int
	// Initial is the first delay, which doubles with each attempt up to Max. A service that
	// requests a longer delay than Max ends the call.
	Initial, Max time.Duration
	// Codes are the HTTP statuses to retry; nil keeps the model's.
	Codes []int
}

// Instruction returns the system instruction's text.
func (r *Request) Instruction() string {
	if r.Config == nil {
		return ""
	}
	return TextOf(r.Config.SystemInstruction)
}

// AppendNote appends the host's own text to the system instruction. Conformance tests do not
// compare its wording.
func (r *Request) AppendNote(text string) {
	r.AppendInstruction(text)
	r.Notes = append(r.Notes, text)
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

// An Origin identifies a request's run, for the scripted model, logs and traces.
type Origin struct {
	App, Agent, UserID, SessionID, InvocationID string

	// UserText is the text in the invocation's user message.
	UserText string
	// Step is the number of earlier model calls in the invocation.
	Step int
	// Turn is the number of user messages in the session, including this one.
	Turn int
	// Run reads the state and the settings of the run; nil has no state and default settings.
	Run RunReader
	// Now is the host's clock, or nil.
	Now func() time.Time
}

// A RunReader reads what a run has while its request is answered.
type RunReader interface {
	// ReadState returns a key in the session's state, or its default.
	ReadState(key string) (v any, isSet bool)
	// ReadConfig returns the run's settings as [SampleRunConfig] declares them. The map belongs to
	// the caller.
	ReadConfig() map[string]any
}

// A Response is a complete or partial model response. As part of an event, it is immutable.
type Response struct {
	Content *genai.Content
	// Partial marks a chunk of a streamed response.
	Partial bool
	// TurnComplete and Interrupted are for live conversations.
	TurnComplete, Interrupted bool
	// TurnCompleteReason, LiveSessionID, Resumption and VoiceActivity come from a
	// [LiveMessage] and its connection.
	TurnCompleteReason string
	LiveSessionID      string
	Resumption         *LiveResumption
	VoiceActivity      *genai.VoiceActivity

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

// CacheConfig configures context caching.
type CacheConfig struct {
	// MinTokens is the last prompt's minimum size. The service has its own minimum.
	MinTokens int
	// TTL is a cache's lifetime.
	TTL time.Duration
	// Intervals is the number of invocations that use a cache before it is recreated.
	Intervals int
}

// A CacheRequest asks a model to cache the conversation's beginning. It carries the last
// response's metadata because models are stateless.
type CacheRequest struct {
	CacheConfig
	// Metadata is the latest metadata in the agent's responses, or nil.
	Metadata *CacheMetadata
	// PromptTokens is the size of the agent's last prompt, or 0 if unknown.
	PromptTokens int
}

// CacheMetadata describes the cache that a response used, or the prefix from which the
// next request may create one. It is stored only in events (adk-python
// models/cache_metadata.py).
type CacheMetadata struct {
	// Name, Expires and Used are set if there is a cache: its name at the service, its
	// expiry, and how many invocations used it.
	Name    string
	Expires time.Time
	Used    int
	// Fingerprint is a hash of the prefix's settings and contents.
	Fingerprint string
	// Contents is the number of contents in the prefix.
	Contents int
	// Created is when the cache was created, or zero.
	Created time.Time
}

// Active reports whether there is a cache and not only a fingerprint.
func (m *CacheMetadata) Active() bool {
	return m != nil && m.Name != "" && !m.Expires.IsZero() && m.Used > 0
}

// A ContentCacher is a model that may support [Request.Cache].
type ContentCacher interface{ CachesContents() bool }

// CanCache reports whether a model supports [Request.Cache]; see [ContentCacher].
func CanCache(m LLM) bool {
	c, ok := m.(ContentCacher)
	return ok && c.CachesContents()
}

// A SchemaMixer is a model that may accept tools and a response schema in one request.
type SchemaMixer interface{ MixesToolsAndSchema() bool }

// CanMixSchema reports whether a model accepts tools and a response schema in one request;
// see [SchemaMixer].
func CanMixSchema(m LLM) bool {
	mixer, ok := m.(SchemaMixer)
	return ok && mixer.MixesToolsAndSchema()
}

// TextOf returns a content's text: all text parts except thoughts, joined without a
// separator. It accepts nil.
func TextOf(c *genai.Content) string {
	if c == nil {
		return ""
	}
	if len(c.Parts) == 1 && !c.Parts[0].Thought {
		return c.Parts[0].Text
	}
	var b strings.Builder
	for _, p := range c.Parts {
		if !p.Thought {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

// IsEmptyText reports whether a part is an empty text. That includes a part without any
// data: the API's type does not distinguish the two.
func IsEmptyText(p *genai.Part) bool { return p.Text == "" && IsText(p) }

// CallsOf returns the content's function calls in order.
func CallsOf(c *genai.Content) []*genai.FunctionCall {
	if c == nil {
		return nil
	}
	var calls []*genai.FunctionCall
	for _, p := range c.Parts {
		if p.FunctionCall != nil {
			calls = append(calls, p.FunctionCall)
		}
	}
	return calls
}

// IsInterim reports whether a response is not the call's last one: its will_continue is set, as in
// Gemini's API.
func IsInterim(f *genai.FunctionResponse) bool { return f.WillContinue != nil && *f.WillContinue }

// ResponsesOf returns the content's function responses in order.
func ResponsesOf(c *genai.Content) []*genai.FunctionResponse {
	if c == nil {
		return nil
	}
	var rs []*genai.FunctionResponse
	for _, p := range c.Parts {
		if p.FunctionResponse != nil {
			rs = append(rs, p.FunctionResponse)
		}
	}
	return rs
}

// pendingStatus is the status for a call without a response.
const pendingStatus = "No response to this call is available: it may still be pending, or the call was interrupted."

// PendingResponse returns the placeholder for a call's missing response: models require a
// response to each call.
func PendingResponse(c *genai.FunctionCall) *genai.FunctionResponse {
	return &genai.FunctionResponse{ID: c.ID, Name: c.Name, Response: map[string]any{"status": pendingStatus}}
}

// UserText returns a content with role user and one text part.
func UserText(text string) *genai.Content { return textContent(genai.RoleUser, text) }

// ModelText returns a content with role model and one text part.
func ModelText(text string) *genai.Content { return textContent(genai.RoleModel, text) }

// textContent allocates the content, its part and their list at once.
func textContent(role, text string) *genai.Content {
	all := &struct {
		content genai.Content
		part    genai.Part
		parts   [1]*genai.Part
	}{}
	all.part.Text = text
	all.parts[0] = &all.part
	all.content.Role, all.content.Parts = role, all.parts[:]
	return &all.content
}

// A CodeRunner is a model that may execute its own code.
type CodeRunner interface{ RunsCode() bool }

// RunsCode reports whether a model executes its own code if the request's tools include
// code execution; see [CodeRunner].
func RunsCode(m LLM) bool {
	c, ok := m.(CodeRunner)
	return ok && c.RunsCode()
}
