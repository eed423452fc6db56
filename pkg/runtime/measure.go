package runtime

import (
	"time"

	"google.golang.org/genai"
)

// A MeasuredKind is the kind of a [Measurement].
type MeasuredKind string

// The kinds of measurements.
const (
	MeasuredRun   MeasuredKind = "run"   // a whole invocation, starting with the request
	MeasuredModel MeasuredKind = "model" // a model call
	MeasuredTool  MeasuredKind = "tool"  // a tool call
	MeasuredLive  MeasuredKind = "live"  // a connection to a live model; its turns are model calls
)

// A Measurement is the outcome and the times of a part of a run. The host
// reports it when that part ends ([Options.Observe]).
type Measurement struct {
	Kind MeasuredKind
	App  string
	// Agent is the name of the agent that calls the model or the tool; empty for a run and a
	// summary of compaction.
	Agent string
	// Name is the name of the model or tool; empty for a run.
	Name string
	// Code is the code of the error; empty without an error.
	Code       string
	Start, End time.Time
	// Wait is how long a run waited for the session.
	Wait time.Duration
	// FirstChunk is the time of a model's first response, partial or whole;
	// zero if there is none.
	FirstChunk time.Time
	// Usage has the token counts of a model call; nil if the model reports
	// none.
	Usage *genai.GenerateContentResponseUsageMetadata
	// Cost is the cost of a model call in US dollars; 0 without a price.
	Cost float64
	// Retries is the number of retries of a model call.
	Retries int
	// Dropped is the number of chunks of audio and images of the user that were dropped since
	// the last live connection, because the client sent more than the model takes.
	Dropped int
}
