package runtime

import (
	"cmp"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/spec"
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

// DefaultMaxLLMCalls is the default limit on model calls of one invocation
// (adk-python agents/run_config.py).
const DefaultMaxLLMCalls = 500

// A RunConfig configures the invocations of an app: run_config of app.yaml.
// [RunConfig.Override] changes single fields for one request.
type RunConfig struct {
	StreamingMode StreamingMode `yaml:"streaming_mode" enum:"none|sse|bidi" default:"none" doc:"How responses arrive: none sends one event per response, sse streams partial events first, bidi is for live runs and means sse otherwise. streaming in a request takes precedence."`
	MaxLLMCalls   int           `yaml:"max_llm_calls" default:"500" doc:"Maximum number of model calls of one invocation, including agents called as tools. 0 or less means no limit."`

	MaxFunctionCalls int `yaml:"max_function_calls" default:"128" doc:"Maximum number of function calls in one model response, at least 1; more end the run. A request can only lower it."`

	MaxCost float64 `yaml:"max_cost" doc:"Maximum cost of one invocation in US dollars, including agents called as tools: no model is called after it is reached. All models must have a price. Default: no limit. A request can only lower it."`

	SaveInputBlobsAsArtifacts bool           `yaml:"save_input_blobs_as_artifacts" default:"false" doc:"Save files in user messages as artifacts, and replace them by a line of text."`
	CustomMetadata            map[string]any `yaml:"custom_metadata" doc:"Added to the customMetadata of every event of a run."`

	TextAnswers bool `yaml:"text_answers" default:"false" doc:"A message of text answers the question that the last invocation waits for: the one open call of request_input or get_user_choice."`

	Labels      map[string]string `yaml:"labels" doc:"Labels of model requests on Vertex AI, for billing; at most 64. Those in generate_content_config of an agent take precedence."`
	ServiceTier genai.ServiceTier `yaml:"service_tier" enum:"flex|standard|priority" doc:"Service tier of requests to Gemini; generate_content_config of an agent takes precedence."`

	SessionWindow        *SessionWindow `yaml:"get_session_config" doc:"The events of the session that a run sees. Default: all."`
	ToolThreadPoolConfig *ToolPool      `yaml:"tool_thread_pool_config" doc:"Number of calls of one response that run at the same time. Default: 8."`
	ResponseModalities   []string       `yaml:"response_modalities" enum:"TEXT|IMAGE|AUDIO|VIDEO" doc:"Modalities of responses, in live runs one, by default AUDIO; generate_content_config of an agent takes precedence."`
	SupportCFC           bool           `yaml:"support_cfc" default:"false" doc:"Compositional function calling: models answer over their live API and can execute code that calls functions. Requires streaming_mode: sse, and models with a live API."`

	SpeechConfig             *genai.SpeechConfig                   `yaml:"speech_config" doc:"Voice of spoken responses; generate_content_config of an agent takes precedence."`
	OutputAudioTranscription *genai.AudioTranscriptionConfig       `yaml:"output_audio_transcription" doc:"Live runs: transcription of the model's speech; transcripts are always on."`
	InputAudioTranscription  *genai.AudioTranscriptionConfig       `yaml:"input_audio_transcription" doc:"Live runs: transcription of the user's speech; transcripts are always on."`
	RealtimeInputConfig      *genai.RealtimeInputConfig            `yaml:"realtime_input_config" doc:"Live runs: voice activity detection."`
	EnableAffectiveDialog    *bool                                 `yaml:"enable_affective_dialog" doc:"Live runs: the model adapts its tone to the user's emotions."`
	Proactivity              *genai.ProactivityConfig              `yaml:"proactivity" doc:"Live runs: whether the model can decide by itself to speak or stay silent."`
	SessionResumption        *genai.SessionResumptionConfig        `yaml:"session_resumption" doc:"Live runs: resumption of broken connections."`
	ContextWindowCompression *genai.ContextWindowCompressionConfig `yaml:"context_window_compression" doc:"Live runs: compression of long conversations by the model's service."`
	ExplicitVADSignal        *bool                                 `yaml:"explicit_vad_signal" doc:"Live runs on Vertex AI: whether the model reports when speech begins and ends."`
	TranslationConfig        *genai.TranslationConfig              `yaml:"translation_config" doc:"Live runs: the language into which a translating model translates."`
	HistoryConfig            *genai.HistoryConfig                  `yaml:"history_config" doc:"Live runs: whether the first contents are history, which the model does not answer. Default: true if the session has events."`
	AvatarConfig             *genai.AvatarConfig                   `yaml:"avatar_config" doc:"Live runs: the avatar that is shown."`
	Live                     LiveLimits                            `yaml:"live" doc:"Live runs: limits of one conversation. Requests cannot change them."`
	SaveLiveBlob             bool                                  `yaml:"save_live_blob" default:"false" doc:"Live runs: save the audio of each turn as WAV artifacts, one of the user and one of the model."`
	SaveLiveAudio            bool                                  `yaml:"save_live_audio" default:"false" deprecated:"use save_live_blob" doc:"Former name of save_live_blob in ADK."`
}

// DefaultRunConfig returns the config of an app without run_config.
func DefaultRunConfig() RunConfig {
	return RunConfig{
		StreamingMode: StreamingNone, MaxLLMCalls: DefaultMaxLLMCalls, MaxFunctionCalls: DefaultMaxFunctionCalls,
		Live: LiveLimits{IdleTimeout: spec.Duration(DefaultIdleTimeout)},
	}
}

// Errors of configs from YAML, requests and Go code.
const (
	tooManyCalls    = "max_llm_calls must be less than %d; 0 means no limit"
	costNotPositive = "max_cost must be above 0 US dollars, got %v"
	noWorkers       = "max_workers must be at least 1, got %d"
	tooManyLabels   = "labels exceed the limit of %d, got %d"
	noFunctionCalls = "max_function_calls must be at least 1, got %d"
	cfcNeedsSSE     = "support_cfc requires streaming_mode: sse"
)

// Check reports invalid values at their position in n, the mapping that the
// config was decoded from.
func (c *RunConfig) Check(n *spec.Node) spec.Diagnostics {
	ds := append(c.checkCalls(n), c.checkSettings(n)...)
	if at := n.Get("max_cost"); !at.IsNull() && c.MaxCost <= 0 {
		ds = append(ds, at.Errorf("run-config", costNotPositive, c.MaxCost))
	}
	return ds
}

func (c *RunConfig) checkCalls(n *spec.Node) spec.Diagnostics {
	at := n.Get("max_llm_calls")
	switch {
	case at == nil:
		return nil
	case c.MaxLLMCalls >= math.MaxInt32:
		return spec.Diagnostics{at.Errorf("run-config", tooManyCalls, math.MaxInt32)}
	case c.MaxLLMCalls <= 0:
		d := at.Errorf("run-config", "max_llm_calls %d means no limit: a loop of agents can cause unbounded costs", c.MaxLLMCalls)
		d.Severity = spec.Warning
		return spec.Diagnostics{d}
	}
	return nil
}

// A SessionWindow limits the events of a session that a run sees. With both
// fields, the run sees the latest events after the time.
type SessionWindow struct {
	NumRecentEvents *int     `yaml:"num_recent_events" doc:"Number of latest events; 0 means none."`
	AfterTimestamp  *float64 `yaml:"after_timestamp" doc:"Only events at or after this time, in seconds since the epoch; 0 means all."`
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

// A ToolPool limits how many calls of one response run at the same time.
type ToolPool struct {
	MaxWorkers int `yaml:"max_workers" default:"4" doc:"Number of calls of one response that run at the same time, at least 1."`
}

// Default limits on the calls of one response.
const (
	DefaultMaxFunctionCalls = 128
	defaultToolWorkers      = 8
)

// maxToolWorkers returns how many calls of one response run at the same time.
func (c *RunConfig) maxToolWorkers() int {
	if c.ToolThreadPoolConfig == nil {
		return defaultToolWorkers
	}
	return c.ToolThreadPoolConfig.MaxWorkers
}

// maxFunctionCalls returns the maximum number of calls in one response.
func (c *RunConfig) maxFunctionCalls() int {
	return cmp.Or(c.MaxFunctionCalls, DefaultMaxFunctionCalls)
}

// applyToRequest sets the run's settings in a request; those of the agent take
// precedence.
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

// maxLabels is the limit of Vertex AI on the labels of a request.
const maxLabels = 64

// checkSettings validates the settings other than max_llm_calls.
func (c *RunConfig) checkSettings(n *spec.Node) spec.Diagnostics {
	ds := c.checkNumbers(n)
	if at := n.Get("support_cfc"); c.SupportCFC && c.StreamingMode != StreamingSSE {
		ds = append(ds, at.Errorf("run-config", cfcNeedsSSE))
	}
	ds = append(ds, c.checkLive(n)...)
	if c.RealtimeInputConfig != nil {
		ds = append(ds, checkRealtime(c.RealtimeInputConfig, n.Get("realtime_input_config"))...)
	}
	for key, a := range map[string]*genai.AudioTranscriptionConfig{"output_audio_transcription": c.OutputAudioTranscription, "input_audio_transcription": c.InputAudioTranscription} {
		if a != nil {
			ds = append(ds, checkEnum(n.Get(key), "mode", string(a.Mode), "VERBATIM", "SMART")...)
		}
	}
	ds.Sort()
	return ds
}

func (c *RunConfig) checkNumbers(n *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	if p := c.ToolThreadPoolConfig; p != nil && p.MaxWorkers < 1 {
		ds = append(ds, n.Get("tool_thread_pool_config").Get("max_workers").Errorf("run-config", noWorkers, p.MaxWorkers))
	}
	if len(c.Labels) > maxLabels {
		ds = append(ds, n.Get("labels").Errorf("run-config", tooManyLabels, maxLabels, len(c.Labels)))
	}
	if at := n.Get("max_function_calls"); !at.IsNull() && c.MaxFunctionCalls < 1 {
		ds = append(ds, at.Errorf("run-config", noFunctionCalls, c.MaxFunctionCalls))
	}
	if w := c.SessionWindow; w != nil {
		at := n.Get("get_session_config")
		if w.NumRecentEvents != nil && *w.NumRecentEvents < 0 {
			ds = append(ds, at.Get("num_recent_events").Errorf("run-config", "num_recent_events must be 0 or more, got %d", *w.NumRecentEvents))
		}
		if t := w.AfterTimestamp; t != nil && !(*t >= 0 && *t < 1e11) {
			ds = append(ds, at.Get("after_timestamp").Errorf("run-config", "after_timestamp must be a time in seconds since the epoch"))
		}
	}
	return ds
}

func checkRealtime(c *genai.RealtimeInputConfig, n *spec.Node) spec.Diagnostics {
	ds := checkEnum(n, "activity_handling", string(c.ActivityHandling), "START_OF_ACTIVITY_INTERRUPTS", "NO_INTERRUPTION")
	ds = append(ds, checkEnum(n, "turn_coverage", string(c.TurnCoverage),
		"TURN_INCLUDES_ONLY_ACTIVITY", "TURN_INCLUDES_ALL_INPUT", "TURN_INCLUDES_AUDIO_ACTIVITY_AND_ALL_VIDEO")...)
	if d := c.AutomaticActivityDetection; d != nil {
		at := getAnySpelling(n, "automatic_activity_detection")
		ds = append(ds, checkEnum(at, "start_of_speech_sensitivity", string(d.StartOfSpeechSensitivity), "START_SENSITIVITY_HIGH", "START_SENSITIVITY_LOW")...)
		ds = append(ds, checkEnum(at, "end_of_speech_sensitivity", string(d.EndOfSpeechSensitivity), "END_SENSITIVITY_HIGH", "END_SENSITIVITY_LOW")...)
	}
	return ds
}

// checkEnum requires one of the values of the live API, whose Go type accepts
// any string.
func checkEnum(n *spec.Node, key, value string, words ...string) spec.Diagnostics {
	if value == "" || slices.Contains(words, value) {
		return nil
	}
	d := getAnySpelling(n, key).Errorf("enum", "%q is not one of: %s", value, strings.Join(words, ", "))
	if near := spec.Suggest(value, words); near != "" {
		d = d.WithHint("did you mean %q?", near)
	}
	return spec.Diagnostics{d}
}

// getAnySpelling returns the value of a key in snake_case or camelCase.
func getAnySpelling(n *spec.Node, key string) *spec.Node {
	if v := n.Get(key); v != nil {
		return v
	}
	for _, e := range n.Entries {
		if strings.EqualFold(e.Key.Value, strings.ReplaceAll(key, "_", "")) {
			return e.Value
		}
	}
	return n
}

// Override returns the config with the fields of one request replaced: a JSON
// object with the fields of run_config, in snake_case or camelCase. It is
// validated like the YAML. Limits of c cannot be raised.
func (c RunConfig) Override(text []byte) (*RunConfig, spec.Diagnostics) {
	n, ds := spec.Parse("run_config", text)
	if ds.HasErrors() {
		return nil, ds
	}
	convertKeysToSnake(n)
	for _, key := range []string{"get_session_config", "tool_thread_pool_config"} {
		if v := n.Get(key); v != nil {
			convertKeysToSnake(v)
		}
	}
	asked := &RunConfig{}
	if ds = spec.Decode(n, asked); !ds.HasErrors() {
		if n.Get("streaming_mode").IsNull() {
			asked.StreamingMode = c.StreamingMode
		}
		ds = append(ds, asked.Check(n)...)
	}
	if ds.HasErrors() {
		return nil, ds
	}
	if at := n.Get("max_llm_calls"); !at.IsNull() && c.MaxLLMCalls > 0 && (asked.MaxLLMCalls <= 0 || asked.MaxLLMCalls > c.MaxLLMCalls) {
		return nil, append(ds, at.Errorf("run-config", "max_llm_calls %d exceeds the limit of the app, %d", asked.MaxLLMCalls, c.MaxLLMCalls))
	}
	if at := n.Get("max_function_calls"); !at.IsNull() && asked.MaxFunctionCalls > c.maxFunctionCalls() {
		return nil, append(ds, at.Errorf("run-config", "max_function_calls %d exceeds the limit of the app, %d", asked.MaxFunctionCalls, c.maxFunctionCalls()))
	}
	if at := n.Get("live"); !at.IsNull() {
		return nil, append(ds, at.Errorf("run-config", "live is a limit of the app: a request cannot change it"))
	}
	if at := n.Get("support_cfc"); asked.SupportCFC && !c.SupportCFC {
		return nil, append(ds, at.Errorf("run-config", "support_cfc lets models execute code: only the app can turn it on"))
	}
	switch at := n.Get("max_cost"); {
	case at.IsNull():
	case c.MaxCost == 0:
		return nil, append(ds, at.Errorf("run-config", "max_cost requires max_cost in run_config of the app, which a request can only lower"))
	case asked.MaxCost > c.MaxCost:
		return nil, append(ds, at.Errorf("run-config", "max_cost %v exceeds the limit of the app, %v", asked.MaxCost, c.MaxCost))
	}
	from, to := reflect.ValueOf(asked).Elem(), reflect.ValueOf(&c).Elem()
	for i := range from.NumField() {
		if !n.Get(from.Type().Field(i).Tag.Get("yaml")).IsNull() {
			to.Field(i).Set(from.Field(i))
		}
	}
	return &c, ds
}

// convertKeysToSnake converts the keys of a mapping to snake_case.
func convertKeysToSnake(n *spec.Node) {
	for _, e := range n.Entries {
		var snake strings.Builder
		for _, c := range e.Key.Value {
			if 'A' <= c && c <= 'Z' {
				snake.WriteByte('_')
				c += 'a' - 'A'
			}
			snake.WriteRune(c)
		}
		e.Key.Value = snake.String()
	}
}

// validateConfig rejects invalid configs made by Go code; configs from YAML
// are validated when they are decoded.
func (c *RunConfig) validateConfig() error {
	switch {
	case c.MaxLLMCalls >= math.MaxInt32:
		return invalidRequest(tooManyCalls, math.MaxInt32)
	case c.MaxCost < 0:
		return invalidRequest(costNotPositive, c.MaxCost)
	case c.SupportCFC && c.StreamingMode != StreamingSSE:
		return invalidRequest("%s", cfcNeedsSSE)
	case c.ToolThreadPoolConfig != nil && c.ToolThreadPoolConfig.MaxWorkers < 1:
		return invalidRequest(noWorkers, c.ToolThreadPoolConfig.MaxWorkers)
	case len(c.Labels) > maxLabels:
		return invalidRequest(tooManyLabels, maxLabels, len(c.Labels))
	case c.MaxFunctionCalls < 0:
		return invalidRequest(noFunctionCalls, c.MaxFunctionCalls)
	case c.StreamingMode != "" && c.StreamingMode != StreamingNone && c.StreamingMode != StreamingSSE && c.StreamingMode != StreamingBidi:
		return invalidRequest("streaming_mode %q is not one of: none, sse, bidi", c.StreamingMode)
	}
	return nil
}

// CompactionOptions configure when summaries replace the older part of a
// conversation. Fields and meaning are those of adk-python apps/_configs.py
// EventsCompactionConfig.
type CompactionOptions struct {
	// Interval is the number of new invocations after which they are
	// summarized; zero means [DefaultCompactionInterval], or never if there is a
	// TokenThreshold.
	Interval int
	// Overlap is the number of invocations of the previous summary that are
	// summarized again.
	Overlap int
	// TokenThreshold is the size of a prompt, in tokens, at which the
	// conversation is summarized, even during a run; zero means never.
	TokenThreshold int
	// EventRetention is the number of latest events that a summary by
	// TokenThreshold keeps.
	EventRetention int
	// Prompt is the prompt of the summary, with [ConversationHistory]; empty
	// means a built-in one.
	Prompt string
}

// DefaultCompactionInterval is the default of [CompactionOptions].Interval.
const DefaultCompactionInterval = 10

// ConversationHistory is the placeholder of the conversation in the prompt of
// summaries.
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

// The checks of a gate.
const (
	GateTests = "tests" // the tests of the app pass
	GateEvals = "evals" // the eval sets of the app pass
)

// DefaultGateTime is the default of [GateBudget].Time.
const DefaultGateTime = 2 * time.Minute

// DefaultKeepRevisions is the default of [ReloadOptions].KeepRevisions.
const DefaultKeepRevisions = 20

// ReloadOptions configure how changes of an app's files are published.
type ReloadOptions struct {
	// Sessions selects the revision of existing sessions.
	Sessions SessionPolicy
	// Gate lists the checks that must pass before a change is published:
	// [GateTests], [GateEvals].
	Gate []string
	// EvalSets are the eval sets that GateEvals runs, each as SET or SET:CASE,CASE;
	// empty for all of the app.
	EvalSets []string
	// Budget limits the gate.
	Budget GateBudget
	// KeepRevisions is the number of revisions that are kept, including the
	// current one; zero means [DefaultKeepRevisions].
	KeepRevisions int
}

// A GateBudget limits a gate. A change that exceeds it is not published.
type GateBudget struct {
	// Time limits all checks together; zero means [DefaultGateTime].
	Time time.Duration
	// Cost limits the model calls of GateEvals, in US dollars; zero disables it.
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
