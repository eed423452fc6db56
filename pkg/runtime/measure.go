package runtime

import (
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/session"
)

// A MeasuredKind is a [Measurement]'s kind.
type MeasuredKind string

// The measurement kinds.
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
	// Revision is the one on which the run runs; empty if the app has none, or if the run failed before
	// it was chosen.
	Revision string
	// Session is that of a run; zero for its parts. Protocol is the run's, and Invocation is empty if the
	// run failed before it was known, and in live conversations.
	Session              session.Key
	Protocol, Invocation string
	// Agent names the agent that calls the model or the tool; empty for a run and a compaction
	// summary.
	Agent string
	// Name is the model's or tool's name; empty for a run.
	Name string
	// Code is the error code; empty without an error.
	Code       string
	Start, End time.Time
	// Wait is how long a run waited for the session.
	Wait time.Duration
	// FirstChunk is when a model's first response came, partial or whole; zero if there is none.
	FirstChunk time.Time
	// Usage has a model call's token counts; nil if the model reports none.
	Usage *genai.GenerateContentResponseUsageMetadata
	// Cost is a model call's cost in US dollars; 0 without a price.
	Cost float64
	// Retries is how often a model call was retried.
	Retries int
	// Dropped is how many chunks of the user's audio and images were dropped since the last live
	// connection, because the client sent more than the model takes.
	Dropped int
}
