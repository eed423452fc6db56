package model

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/genai"
)

// A LiveLLM is a model that holds live conversations: both sides send audio, images and
// text whenever they like. Implementations are safe for concurrent use.
type LiveLLM interface {
	LLM

	// LiveTraits returns what live conversations with the named model require; an empty name
	// means the model's own.
	LiveTraits(name string) LiveTraits

	// ConnectLive opens a connection and waits until the model has accepted the setup. The
	// context bounds only the opening. A refusal is an [*Error] or a [*LiveCloseError].
	// ConnectLive does not modify the setup or anything it points to.
	ConnectLive(ctx context.Context, setup *LiveSetup) (LiveConn, error)
}

// LiveTraits are the differences between live models. The zero value describes Gemini 2.5.
type LiveTraits struct {
	// ExecutesCallsAtOnce reports that the model waits for the responses before it completes
	// the turn with a call.
	ExecutesCallsAtOnce bool
	// WholeTranscripts reports that each transcript of the user's speech arrives whole.
	WholeTranscripts bool
	// RealtimeText reports that user text is sent like speech, as [LiveFrame.Text].
	RealtimeText bool
	// TypedMedia reports that the model accepts only audio and images.
	TypedMedia bool
	// NoDialogOptions reports that the model refuses affective dialog and proactivity.
	NoDialogOptions bool
	// TextOnly reports that the model accepts no audio and no images, and answers in text.
	TextOnly bool
	// NoAsyncCalls reports that the model waits for the response to each call, and accepts one
	// only.
	NoAsyncCalls bool
	// AnswersHistory reports that the model answers a history that ends with the user.
	AnswersHistory bool
	// CanReplay reports that a resumed connection continues after a known client frame
	// ([LiveResumption.LastConsumedClientMessageIndex]): transparent resumption.
	CanReplay bool
}

// A LiveSetup configures a live connection.
type LiveSetup struct {
	// Model overrides the LLM's name if it is not empty.
	Model string
	// Response modalities.
	Modalities []genai.Modality

	SystemInstruction *genai.Content
	Tools             []*genai.Tool
	Thinking          *genai.ThinkingConfig
	Speech            *genai.SpeechConfig

	// InputTranscription and OutputTranscription request transcripts; nil disables them.
	InputTranscription, OutputTranscription *genai.AudioTranscriptionConfig

	RealtimeInput   *genai.RealtimeInputConfig
	Resumption      *genai.SessionResumptionConfig
	Compression     *genai.ContextWindowCompressionConfig
	Proactivity     *genai.ProactivityConfig
	AffectiveDialog *bool
	ExplicitVAD     *bool
	Translation     *genai.TranslationConfig
	Avatar          *genai.AvatarConfig
	History         *genai.HistoryConfig

	// Origin identifies the run. It is never sent to a remote model.
	Origin Origin
}

// A LiveConn is an open live connection. Send and Receive are each called by one goroutine
// at a time, which may be different ones. Close may be called by any.
type LiveConn interface {
	// SessionID returns the model's id for the connection, or an empty string.
	SessionID() string

	// Send sends a frame. It blocks while the model does not read. A context that ends
	// during Send ends the connection.
	Send(ctx context.Context, frame *LiveFrame) error

	// Receive returns the next message. When the connection ends, it returns a
	// [*LiveCloseError] or a network error, and every later call returns it again. A context
	// that ends during Receive ends the connection.
	Receive(ctx context.Context) (*LiveMessage, error)

	// Close ends the connection with a close frame, and unblocks Send and Receive. Every
	// connection must be closed, also one that has ended. It may be called again.
	Close() error
}

// A LiveFrame is what the host sends on a live connection: exactly one kind.
type LiveFrame struct {
	// Turns are added to the conversation. TurnComplete asks the model to answer.
	Turns        []*genai.Content
	TurnComplete bool
	// Blob is a chunk of audio, or an image.
	Blob *genai.Blob
	// Text is user text that is treated like speech.
	Text string
	// ActivityStart and ActivityEnd mark speech when its detection is disabled.
	ActivityStart, ActivityEnd bool
	// AudioStreamEnd reports that the microphone is off.
	AudioStreamEnd bool
	// Responses answer function calls.
	Responses []*genai.FunctionResponse
}

// A LiveMessage is what a model sends on a live connection. Any number of fields are set;
// they apply in the order in adk-python models/gemini_llm_connection.py.
type LiveMessage struct {
	// Usage counts the last answer's tokens, CustomMetadata is what belongs to its response.
	Usage          *genai.GenerateContentResponseUsageMetadata
	CustomMetadata map[string]any

	Content             *genai.Content
	Grounding           *genai.GroundingMetadata
	InputTranscription  *genai.Transcription
	OutputTranscription *genai.Transcription
	// GenerationComplete, TurnComplete and Interrupted end an answer: the model has sent it
	// completely, the turn is over, or the user spoke.
	GenerationComplete, TurnComplete, Interrupted bool
	// TurnCompleteReason explains a turn that ended without a regular answer.
	TurnCompleteReason string

	Calls []*genai.FunctionCall
	// CanceledCalls are ids of calls whose responses the model no longer expects.
	CanceledCalls []string

	Resumption    *LiveResumption
	VoiceActivity *genai.VoiceActivity
	// GoAway is the time until the model ends the connection; nil if it does not.
	GoAway *time.Duration
}

// A LiveResumption is a conversation state that a new connection can resume.
type LiveResumption struct {
	// NewHandle identifies the state; empty if it cannot be resumed.
	NewHandle string `json:"newHandle,omitempty"`
	Resumable bool   `json:"resumable,omitempty"`
	// LastConsumedClientMessageIndex is how many client frames from this connection the state
	// contains; only with transparent resumption.
	LastConsumedClientMessageIndex int64 `json:"lastConsumedClientMessageIndex,omitempty"`
}

// A LiveCloseError reports that the model's side ended a live connection. Code is a close
// code from RFC 6455, section 7.4; 1006 means that there was none.
type LiveCloseError struct {
	Code   int
	Reason string
}

// Error names the code and the reason.
func (e *LiveCloseError) Error() string {
	if e.Reason == "" {
		return fmt.Sprintf("the live connection was closed with code %d", e.Code)
	}
	return fmt.Sprintf("the live connection was closed with code %d: %s", e.Code, e.Reason)
}

// A LiveProvider is a model that may hold live conversations: its Live method returns nil
// if it does not.
type LiveProvider interface{ Live() LiveLLM }

// LiveOf returns a model's live conversations, or nil if it has none; see [LiveProvider] and
// [LiveLLM].
func LiveOf(m LLM) LiveLLM {
	switch m := m.(type) {
	case LiveProvider:
		return m.Live()
	case LiveLLM:
		return m
	}
	return nil
}

// IsAudio reports whether a part has audio, or refers to an audio file.
func IsAudio(p *genai.Part) bool {
	return p.InlineData != nil && strings.HasPrefix(p.InlineData.MIMEType, "audio/") ||
		p.FileData != nil && strings.HasPrefix(p.FileData.MIMEType, "audio/")
}
