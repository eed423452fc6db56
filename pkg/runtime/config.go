package runtime

import (
	"math"

	"google.golang.org/genai"

	"agenthost/pkg/spec"
)

// A StreamingMode says how answers arrive.
type StreamingMode string

// The streaming modes. The empty mode is StreamingNone.
const (
	StreamingNone StreamingMode = "none" // one event for each answer
	StreamingSSE  StreamingMode = "sse"  // partial events first, then the whole
	StreamingBidi StreamingMode = "bidi" // both ways at once in live runs; as sse in others
)

// DefaultMaxLLMCalls bounds the model calls of one invocation where nothing
// else is said (adk-python agents/run_config.py).
const DefaultMaxLLMCalls = 500

// A RunConfig says how an app's invocations run. It is the run_config of
// app.yaml; a request may change the streaming mode and add metadata.
type RunConfig struct {
	StreamingMode StreamingMode `yaml:"streaming_mode" enum:"none|sse|bidi" default:"none" doc:"How answers arrive: none is one event for each answer, sse sends the pieces first, bidi is for live runs and is sse in others. A request that says streaming wins."`
	MaxLLMCalls   int           `yaml:"max_llm_calls" default:"500" doc:"The most model calls that one invocation may make, agents called as tools included. Zero or less is no limit."`

	MaxFunctionCalls int `yaml:"max_function_calls" default:"128" doc:"The most function calls that one answer of a model may hold, at least 1; more end the run. A request may lower it only."`

	SaveInputBlobsAsArtifacts bool           `yaml:"save_input_blobs_as_artifacts" default:"false" doc:"Keep files in the user's message as artifacts, and put a line of text in their place."`
	CustomMetadata            map[string]any `yaml:"custom_metadata" doc:"Added to the customMetadata of every event of the run."`

	SessionWindow        *SessionWindow `yaml:"get_session_config" doc:"The events of the session that a run sees; all of them when nothing is said."`
	ToolThreadPoolConfig *ToolPool      `yaml:"tool_thread_pool_config" doc:"How many calls of one answer are executed at the same time; 8 without it."`
	ResponseModalities   []string       `yaml:"response_modalities" enum:"TEXT|IMAGE|AUDIO" doc:"What answers are made of; an agent's generate_content_config wins."`
	SupportCFC           bool           `yaml:"support_cfc" default:"false" doc:"ADK's calls of tools by code over the live API; it needs streaming_mode: sse. Answers do not come over that API here: tools are called without it, which check says."`

	SpeechConfig             *genai.SpeechConfig                   `yaml:"speech_config" doc:"The voice of spoken answers; an agent's generate_content_config wins."`
	OutputAudioTranscription *genai.AudioTranscriptionConfig       `yaml:"output_audio_transcription" doc:"Live runs: how what the model says is written down."`
	InputAudioTranscription  *genai.AudioTranscriptionConfig       `yaml:"input_audio_transcription" doc:"Live runs: how what the user says is written down."`
	RealtimeInputConfig      *genai.RealtimeInputConfig            `yaml:"realtime_input_config" doc:"Live runs: how it is noticed that the user speaks."`
	EnableAffectiveDialog    *bool                                 `yaml:"enable_affective_dialog" doc:"Live runs: the model hears the user's mood and fits its tone to it."`
	Proactivity              *genai.ProactivityConfig              `yaml:"proactivity" doc:"Live runs: whether the model may speak, or stay silent, of its own accord."`
	SessionResumption        *genai.SessionResumptionConfig        `yaml:"session_resumption" doc:"Live runs: how a connection that broke is taken up again."`
	ContextWindowCompression *genai.ContextWindowCompressionConfig `yaml:"context_window_compression" doc:"Live runs: how the model's service shortens a long conversation."`
	AvatarConfig             *genai.AvatarConfig                   `yaml:"avatar_config" doc:"Live runs: who is seen to speak."`
	SaveLiveBlob             bool                                  `yaml:"save_live_blob" default:"false" doc:"Live runs: keep what is spoken as artifacts."`
	SaveLiveAudio            bool                                  `yaml:"save_live_audio" default:"false" deprecated:"use save_live_blob" doc:"ADK's old name of save_live_blob."`
}

// DefaultRunConfig is what applies to an app that says nothing.
func DefaultRunConfig() RunConfig {
	return RunConfig{StreamingMode: StreamingNone, MaxLLMCalls: DefaultMaxLLMCalls, MaxFunctionCalls: DefaultMaxFunctionCalls}
}

// What is wrong with a config, wherever it was made.
const (
	tooManyCalls    = "max_llm_calls must be less than %d; zero is no limit"
	noWorkers       = "max_workers %d lets no call run; at least 1 is needed"
	noFunctionCalls = "max_function_calls must be at least 1, got %d"
	cfcNeedsSSE     = "support_cfc needs streaming_mode: sse"
)

// Check reports values that cannot be meant, at their place in n, the mapping
// that the config was decoded from.
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
		d := at.Errorf("run-config", "max_llm_calls %d is no limit: a loop of agents can then run up any bill", c.MaxLLMCalls)
		d.Severity = spec.Warning
		return spec.Diagnostics{d}
	}
	return nil
}
