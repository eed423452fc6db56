package runtime

import (
	"cmp"
	"context"
	"maps"
	"math"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/store"
)

// A StreamingMode selects how responses are delivered.
type StreamingMode string

// The streaming modes. The empty mode is StreamingNone.
const (
	StreamingNone StreamingMode = "none" // one event per response
	StreamingSSE  StreamingMode = "sse"  // partial events, then the whole response
	StreamingBidi StreamingMode = "bidi" // bidirectional in live runs, otherwise the same as sse
)

// DefaultMaxLLMCalls is the default limit on an invocation's model calls (adk-python
// agents/run_config.py).
const DefaultMaxLLMCalls = 500

// A RunConfig configures an app's invocations: run_config in app.yaml.
type RunConfig struct {
	// StreamingMode selects how responses arrive; empty means [StreamingNone].
	StreamingMode StreamingMode
	// MaxLLMCalls limits an invocation's model calls, including agents called as tools; 0 or less
	// means no limit.
	MaxLLMCalls int
	// MaxFunctionCalls limits the calls in one model response; more end the run. 0 means
	// [DefaultMaxFunctionCalls].
	MaxFunctionCalls int
	// MaxCost limits an invocation's cost in US dollars, including agents called as tools: no model
	// is called after it is reached. 0 means no limit.
	MaxCost float64

	// SaveInputBlobsAsArtifacts saves files in user messages as artifacts, and replaces them by
	// a line of text.
	SaveInputBlobsAsArtifacts bool
	// CustomMetadata is added to every event in a run.
	CustomMetadata map[string]any
	// TextAnswers makes a text message answer the question that the last invocation waits for.
	TextAnswers bool

	// Labels are for model requests on Vertex AI, at most [MaxLabels]. ServiceTier is for Gemini
	// requests, ResponseModalities are for responses, and SpeechConfig is the voice for spoken
	// ones. An agent's settings take precedence.
	Labels             map[string]string
	ServiceTier        genai.ServiceTier
	ResponseModalities []string
	SpeechConfig       *genai.SpeechConfig

	// SessionWindow limits the session events that a run sees; nil means all.
	SessionWindow *SessionWindow
	// ToolThreadPoolConfig limits how many calls in one response run at the same time; nil means 8.
	ToolThreadPoolConfig *ToolPool
	// SupportCFC lets models answer over their live API and execute code that calls functions.
	// It requires [StreamingSSE].
	SupportCFC bool

	// The other settings are for live conversations.

	// Live limits one conversation.
	Live LiveLimits
	// SaveLiveBlob saves each turn's audio as artifacts; SaveLiveAudio is its former name in ADK.
	SaveLiveBlob, SaveLiveAudio bool
	// HistoryConfig determines whether the first contents are history, which the model does not
	// answer; nil means that they are if the session has events.
	HistoryConfig *genai.HistoryConfig

	OutputAudioTranscription *genai.AudioTranscriptionConfig
	InputAudioTranscription  *genai.AudioTranscriptionConfig
	RealtimeInputConfig      *genai.RealtimeInputConfig
	EnableAffectiveDialog    *bool
	Proactivity              *genai.ProactivityConfig
	SessionResumption        *genai.SessionResumptionConfig
	ContextWindowCompression *genai.ContextWindowCompressionConfig
	ExplicitVADSignal        *bool
	TranslationConfig        *genai.TranslationConfig
	AvatarConfig             *genai.AvatarConfig
}

// MaxLabels is Vertex AI's limit on the labels in a request.
const MaxLabels = 64

// LiveLimits limit one live conversation. Requests cannot change them.
type LiveLimits struct {
	// MaxDuration is the longest duration; 0 means no limit.
	MaxDuration time.Duration
	// IdleTimeout ends a conversation in which nothing arrives from the client or from the
	// model for this time; 0 means [DefaultIdleTimeout].
	IdleTimeout time.Duration
	// MaxTokens limits the tokens that the models report; 0 means no limit.
	MaxTokens int
}

// DefaultIdleTimeout is the default of [LiveLimits].IdleTimeout.
const DefaultIdleTimeout = 15 * time.Minute

// DefaultRunConfig returns the config of an app without run_config.
func DefaultRunConfig() RunConfig {
	return RunConfig{
		StreamingMode: StreamingNone, MaxLLMCalls: DefaultMaxLLMCalls, MaxFunctionCalls: DefaultMaxFunctionCalls,
		Live: LiveLimits{IdleTimeout: DefaultIdleTimeout},
	}
}

// A SessionWindow limits the session events that a run sees. With both fields, the run sees the
// latest events after the time.
type SessionWindow struct {
	// NumRecentEvents is how many of the latest events it keeps; 0 means none.
	NumRecentEvents *int
	// AfterTimestamp excludes events before this time, in seconds since the epoch; 0 means all.
	AfterTimestamp *float64
}

// storeOptions converts the window for the store; nil means all events.
func (w *SessionWindow) storeOptions() *store.GetOptions {
	if w == nil {
		return nil
	}
	o := &store.GetOptions{NumRecentEvents: w.NumRecentEvents}
	if at := w.AfterTimestamp; at != nil && *at > 0 {
		whole, part := math.Modf(*at)
		o.After = time.Unix(int64(whole), int64(part*1e9)).UTC()
	}
	return o
}

// A ToolPool limits how many calls in one response run at the same time.
type ToolPool struct {
	// MaxWorkers is at least 1.
	MaxWorkers int
}

// Default limits on the calls in one response.
const (
	DefaultMaxFunctionCalls = 128
	defaultToolWorkers      = 8
)

// maxToolWorkers returns how many calls in one response run at the same time.
func (c *RunConfig) maxToolWorkers() int {
	if c.ToolThreadPoolConfig == nil {
		return defaultToolWorkers
	}
	return c.ToolThreadPoolConfig.MaxWorkers
}

// maxFunctionCalls returns how many calls one response may have.
func (c *RunConfig) maxFunctionCalls() int {
	return cmp.Or(c.MaxFunctionCalls, DefaultMaxFunctionCalls)
}

// applyToRequest sets the run's settings in a request; the agent's own take precedence.
func (c *RunConfig) applyToRequest(g *genai.GenerateContentConfig) {
	if len(c.ResponseModalities) > 0 && len(g.ResponseModalities) == 0 {
		g.ResponseModalities = c.ResponseModalities
	}
	if c.SpeechConfig != nil && g.SpeechConfig == nil {
		g.SpeechConfig = c.SpeechConfig
	}
	if g.ServiceTier == "" {
		g.ServiceTier = c.ServiceTier
	}
	if len(c.Labels) > 0 {
		labels := maps.Clone(c.Labels)
		maps.Copy(labels, g.Labels)
		g.Labels = labels
	}
}

// affectsRequests reports whether a run changes requests.
func (c *RunConfig) affectsRequests() bool {
	return len(c.ResponseModalities) > 0 || c.SpeechConfig != nil || len(c.Labels) > 0 || c.ServiceTier != ""
}

// validateConfig rejects invalid configs.
func (c *RunConfig) validateConfig() error {
	switch {
	case c.MaxLLMCalls >= math.MaxInt32:
		return invalidRequest("max_llm_calls must be less than %d; 0 means no limit", math.MaxInt32)
	case c.MaxCost < 0:
		return invalidRequest("max_cost must be above 0 US dollars, got %v", c.MaxCost)
	case c.SupportCFC && c.StreamingMode != StreamingSSE:
		return invalidRequest("support_cfc requires streaming_mode: sse")
	case c.ToolThreadPoolConfig != nil && c.ToolThreadPoolConfig.MaxWorkers < 1:
		return invalidRequest("max_workers must be at least 1, got %d", c.ToolThreadPoolConfig.MaxWorkers)
	case len(c.Labels) > MaxLabels:
		return invalidRequest("labels exceed the limit of %d, got %d", MaxLabels, len(c.Labels))
	case c.MaxFunctionCalls < 0:
		return invalidRequest("max_function_calls must be at least 1, got %d", c.MaxFunctionCalls)
	case c.StreamingMode != "" && c.StreamingMode != StreamingNone && c.StreamingMode != StreamingSSE && c.StreamingMode != StreamingBidi:
		return invalidRequest("streaming_mode %q is not one of: none, sse, bidi", c.StreamingMode)
	}
	return nil
}

// effectiveConfig returns a request's config.
func (req *RunRequest) effectiveConfig(app *App) RunConfig {
	if req.Config != nil {
		return *req.Config
	}
	return app.config
}

// A LiveDriver holds live conversations for an app: agenthost/wing/live implements it. It is safe
// for concurrent use.
type LiveDriver interface {
	// NewGenerator returns a model that answers one agent's requests over a live connection:
	// compositional function calling. It is nil for a model without a live API.
	NewGenerator(llm model.LLM, config *RunConfig) LiveGenerator
	// RunMessage sends one message in a live conversation, and yields events as [Host.Run]
	// does. The conversation ends when the model has completed its turn, or when a call
	// waits for the user. The transcript of speech is its content, and its audio is not
	// yielded.
	RunMessage(ctx context.Context, host *Host, req *RunRequest) Events
}

// A LiveGenerator is a model on one live connection, which Close ends.
type LiveGenerator interface {
	model.LLM
	Close() error
}

// CompactionOptions configure when summaries replace the older part of a conversation. Fields and
// meaning are as in adk-python apps/_configs.py EventsCompactionConfig.
type CompactionOptions struct {
	// Interval is how many new invocations trigger a summary; zero means
	// [DefaultCompactionInterval], or never if there is a TokenThreshold.
	Interval int
	// Overlap is how many invocations in the previous summary are summarized again.
	Overlap int
	// TokenThreshold is the prompt size, in tokens, at which the conversation is summarized, even
	// during a run; zero means never.
	TokenThreshold int
	// EventRetention is how many of the latest events a summary by TokenThreshold keeps.
	EventRetention int
	// Prompt is the summary prompt, with [ConversationHistory]; empty means a built-in one.
	Prompt string
}

// DefaultCompactionInterval is the default of [CompactionOptions].Interval.
const DefaultCompactionInterval = 10

// ConversationHistory is the placeholder for the conversation in summary prompts.
const ConversationHistory = "{conversation_history}"

const defaultSummaryPrompt = `Below is a conversation between a user and one or more AI agents. Write a summary
that replaces it: the next agent sees the summary and
not the conversation. Keep the user's requests, decisions, names, numbers and
facts, and open questions. If it begins with an earlier summary, carry that
over. Be brief, and write nothing but the summary.

` + ConversationHistory + "\n"

// A SessionPolicy selects the revision that existing sessions use after an app
// has changed.
type SessionPolicy string

// The session policies. The empty policy is FollowNextTurn.
const (
	FollowNextTurn    SessionPolicy = "next_turn"    // the newest revision, from the next turn on
	FollowNewSessions SessionPolicy = "new_sessions" // the revision with which the session started
	FollowManual      SessionPolicy = "manual"       // the newest revision that was activated manually
)

// A gate's checks.
const (
	GateTests = "tests" // the app's tests pass
	GateEvals = "evals" // the app's eval sets pass
	// stored sessions replay as replay.allow in app.yaml has it
	GateReplay = "replay"
)

// DefaultGateTime is the default of [GateBudget].Time.
const DefaultGateTime = 2 * time.Minute

// DefaultKeepRevisions is the default of [ReloadOptions].KeepRevisions.
const DefaultKeepRevisions = 20

// ReloadOptions configure how changes to an app's files are published.
type ReloadOptions struct {
	// Sessions selects the revision for existing sessions.
	Sessions SessionPolicy
	// Gate lists the checks that must pass before a change is published:
	// [GateTests], [GateEvals], [GateReplay].
	Gate []string
	// EvalSets are the eval sets that GateEvals runs, each as SET or SET:CASE,CASE; empty for all
	// in the app.
	EvalSets []string
	// Budget limits the gate.
	Budget GateBudget
	// KeepRevisions is how many revisions are kept, including the current one; zero means
	// [DefaultKeepRevisions].
	KeepRevisions int
}

// A GateBudget limits a gate. A change that exceeds it is not published.
type GateBudget struct {
	// Time limits all checks together; zero means [DefaultGateTime].
	Time time.Duration
	// Cost limits GateEvals' model calls, in US dollars; zero disables it.
	Cost float64
}

// withDefaults returns the options with defaults for unset fields.
func (o *ReloadOptions) withDefaults() ReloadOptions {
	if o == nil {
		o = &ReloadOptions{}
	}
	return ReloadOptions{
		Sessions: cmp.Or(o.Sessions, FollowNextTurn), Gate: o.Gate, EvalSets: o.EvalSets,
		Budget:        GateBudget{cmp.Or(o.Budget.Time, DefaultGateTime), o.Budget.Cost},
		KeepRevisions: cmp.Or(o.KeepRevisions, DefaultKeepRevisions),
	}
}
