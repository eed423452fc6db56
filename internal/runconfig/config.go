// Package runconfig decodes and checks run_config: the invocation settings in app.yaml, which
// requests can override.
package runconfig

import (
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// A Config is run_config's YAML.
type Config struct {
	StreamingMode runtime.StreamingMode `yaml:"streaming_mode" enum:"none|sse|bidi" default:"none" doc:"How responses arrive: none sends one event per response, sse streams partial events first, bidi is for live runs and means sse otherwise. streaming in a request takes precedence."`
	MaxLLMCalls   int                   `yaml:"max_llm_calls" default:"500" doc:"Maximum model calls in one invocation, including agents called as tools. 0 or less means no limit."`

	MaxFunctionCalls int `yaml:"max_function_calls" default:"128" doc:"Maximum number of function calls in one model response, at least 1; more end the run. A request can only lower it."`

	MaxCost float64 `yaml:"max_cost" doc:"Maximum cost per invocation in US dollars, including agents called as tools: no model is called after it is reached. All models must have a price. Default: no limit. A request can only lower it."`

	SaveInputBlobsAsArtifacts bool           `yaml:"save_input_blobs_as_artifacts" default:"false" doc:"Save files in user messages as artifacts, and replace them by a line of text."`
	CustomMetadata            map[string]any `yaml:"custom_metadata" doc:"Added to every event's customMetadata in a run."`

	TextAnswers bool `yaml:"text_answers" default:"false" doc:"A text message answers the question that the last invocation waits for: the one open call to request_input or get_user_choice."`

	Labels      map[string]string `yaml:"labels" doc:"Labels for model requests on Vertex AI, for billing; at most 64. Those in an agent's generate_content_config take precedence."`
	ServiceTier genai.ServiceTier `yaml:"service_tier" enum:"flex|standard|priority" doc:"Service tier for Gemini requests; an agent's generate_content_config takes precedence."`

	SessionWindow        *SessionWindow `yaml:"get_session_config" doc:"The events of the session that a run sees. Default: all."`
	ToolThreadPoolConfig *ToolPool      `yaml:"tool_thread_pool_config" doc:"Number of calls in one response that run at the same time. Default: 8."`
	ResponseModalities   []string       `yaml:"response_modalities" enum:"TEXT|IMAGE|AUDIO|VIDEO" doc:"Response modalities, in live runs one, by default AUDIO; an agent's generate_content_config takes precedence."`
	SupportCFC           bool           `yaml:"support_cfc" default:"false" doc:"Compositional function calling: models answer over their live API and can execute code that calls functions. Requires streaming_mode: sse, and models with a live API."`

	SpeechConfig             *genai.SpeechConfig                   `yaml:"speech_config" doc:"Voice for spoken responses; an agent's generate_content_config takes precedence."`
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
	SaveLiveBlob             bool                                  `yaml:"save_live_blob" default:"false" doc:"Live runs: save each turn's audio as WAV artifacts, one for the user and one for the model."`
	SaveLiveAudio            bool                                  `yaml:"save_live_audio" default:"false" deprecated:"use save_live_blob" doc:"Former name of save_live_blob in ADK."`
}

// A SessionWindow is the YAML for a [runtime.SessionWindow].
type SessionWindow struct {
	NumRecentEvents *int     `yaml:"num_recent_events" doc:"Number of latest events; 0 means none."`
	AfterTimestamp  *float64 `yaml:"after_timestamp" doc:"Only events at or after this time, in seconds since the epoch; 0 means all."`
}

// A ToolPool is the YAML for a [runtime.ToolPool].
type ToolPool struct {
	MaxWorkers int `yaml:"max_workers" default:"4" doc:"Number of calls in one response that run at the same time, at least 1."`
}

// LiveLimits are the YAML for [runtime.LiveLimits].
type LiveLimits struct {
	MaxDuration spec.Duration `yaml:"max_duration" doc:"Maximum duration of a live conversation, such as 30m. Default: no limit."`
	IdleTimeout spec.Duration `yaml:"idle_timeout" default:"15m" doc:"Ends a live conversation in which nothing arrives from the client or from the model for this time."`
	MaxTokens   int           `yaml:"max_tokens" doc:"Maximum tokens that the models in a live conversation report. Default: no limit."`
}

func (l *LiveLimits) convertLimits() runtime.LiveLimits {
	return runtime.LiveLimits{MaxDuration: time.Duration(l.MaxDuration), IdleTimeout: time.Duration(l.IdleTimeout), MaxTokens: l.MaxTokens}
}

// Convert returns the runtime's config.
func (c *Config) Convert() runtime.RunConfig {
	return runtime.RunConfig{
		StreamingMode:             c.StreamingMode,
		MaxLLMCalls:               c.MaxLLMCalls,
		MaxFunctionCalls:          c.MaxFunctionCalls,
		MaxCost:                   c.MaxCost,
		SaveInputBlobsAsArtifacts: c.SaveInputBlobsAsArtifacts,
		CustomMetadata:            c.CustomMetadata,
		TextAnswers:               c.TextAnswers,
		Labels:                    c.Labels,
		ServiceTier:               c.ServiceTier,
		SessionWindow:             (*runtime.SessionWindow)(c.SessionWindow),
		ToolThreadPoolConfig:      (*runtime.ToolPool)(c.ToolThreadPoolConfig),
		ResponseModalities:        c.ResponseModalities,
		SupportCFC:                c.SupportCFC,
		SpeechConfig:              c.SpeechConfig,
		OutputAudioTranscription:  c.OutputAudioTranscription,
		InputAudioTranscription:   c.InputAudioTranscription,
		RealtimeInputConfig:       c.RealtimeInputConfig,
		EnableAffectiveDialog:     c.EnableAffectiveDialog,
		Proactivity:               c.Proactivity,
		SessionResumption:         c.SessionResumption,
		ContextWindowCompression:  c.ContextWindowCompression,
		ExplicitVADSignal:         c.ExplicitVADSignal,
		TranslationConfig:         c.TranslationConfig,
		HistoryConfig:             c.HistoryConfig,
		AvatarConfig:              c.AvatarConfig,
		Live:                      c.Live.convertLimits(),
		SaveLiveBlob:              c.SaveLiveBlob,
		SaveLiveAudio:             c.SaveLiveAudio,
	}
}

// Decode decodes and checks run_config.
func Decode(n *spec.Node) (runtime.RunConfig, spec.Diagnostics) {
	var c Config
	ds := spec.Decode(n, &c)
	if !ds.HasErrors() {
		ds = append(ds, c.Check(n)...)
	}
	return c.Convert(), ds
}
