package runtime

import (
	"math"

	"google.golang.org/genai"

	"agenthost/pkg/spec"
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

	SaveInputBlobsAsArtifacts bool           `yaml:"save_input_blobs_as_artifacts" default:"false" doc:"Save files in user messages as artifacts, and replace them by a line of text."`
	CustomMetadata            map[string]any `yaml:"custom_metadata" doc:"Added to the customMetadata of every event of a run."`

	SessionWindow        *SessionWindow `yaml:"get_session_config" doc:"The events of the session that a run sees. Default: all."`
	ToolThreadPoolConfig *ToolPool      `yaml:"tool_thread_pool_config" doc:"Number of calls of one response that run at the same time. Default: 8."`
	ResponseModalities   []string       `yaml:"response_modalities" enum:"TEXT|IMAGE|AUDIO" doc:"Modalities of responses; generate_content_config of an agent takes precedence."`
	SupportCFC           bool           `yaml:"support_cfc" default:"false" doc:"ADK's compositional function calling over the live API; requires streaming_mode: sse. It has no effect here, which check reports: models call tools without it."`

	SpeechConfig             *genai.SpeechConfig                   `yaml:"speech_config" doc:"Voice of spoken responses; generate_content_config of an agent takes precedence."`
	OutputAudioTranscription *genai.AudioTranscriptionConfig       `yaml:"output_audio_transcription" doc:"Live runs: transcription of the model's speech."`
	InputAudioTranscription  *genai.AudioTranscriptionConfig       `yaml:"input_audio_transcription" doc:"Live runs: transcription of the user's speech."`
	RealtimeInputConfig      *genai.RealtimeInputConfig            `yaml:"realtime_input_config" doc:"Live runs: voice activity detection."`
	EnableAffectiveDialog    *bool                                 `yaml:"enable_affective_dialog" doc:"Live runs: the model adapts its tone to the user's emotions."`
	Proactivity              *genai.ProactivityConfig              `yaml:"proactivity" doc:"Live runs: whether the model can decide by itself to speak or stay silent."`
	SessionResumption        *genai.SessionResumptionConfig        `yaml:"session_resumption" doc:"Live runs: resumption of broken connections."`
	ContextWindowCompression *genai.ContextWindowCompressionConfig `yaml:"context_window_compression" doc:"Live runs: compression of long conversations by the model's service."`
	AvatarConfig             *genai.AvatarConfig                   `yaml:"avatar_config" doc:"Live runs: the avatar that is shown."`
	SaveLiveBlob             bool                                  `yaml:"save_live_blob" default:"false" doc:"Live runs: save audio as artifacts."`
	SaveLiveAudio            bool                                  `yaml:"save_live_audio" default:"false" deprecated:"use save_live_blob" doc:"Former name of save_live_blob in ADK."`
}

// DefaultRunConfig returns the config of an app without run_config.
func DefaultRunConfig() RunConfig {
	return RunConfig{StreamingMode: StreamingNone, MaxLLMCalls: DefaultMaxLLMCalls, MaxFunctionCalls: DefaultMaxFunctionCalls}
}

// Errors of configs from YAML, requests and Go code.
const (
	tooManyCalls    = "max_llm_calls must be less than %d; 0 means no limit"
	noWorkers       = "max_workers must be at least 1, got %d"
	noFunctionCalls = "max_function_calls must be at least 1, got %d"
	cfcNeedsSSE     = "support_cfc requires streaming_mode: sse"
)

// Check reports invalid values at their position in n, the mapping that the
// config was decoded from.
func (c *RunConfig) Check(n *spec.Node) spec.Diagnostics {
	return append(c.checkCalls(n), c.checkSettings(n)...)
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
