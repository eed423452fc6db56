package runconfig

import (
	"math"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// Check reports invalid values at their position in n, the mapping that the
// config was decoded from.
func (c *Config) Check(n *spec.Node) spec.Diagnostics {
	ds := append(c.checkCalls(n), c.checkSettings(n)...)
	if at := n.Get("max_cost"); !at.IsNull() && c.MaxCost <= 0 {
		ds = append(ds, at.Errorf("run-config", "max_cost must be above 0 US dollars, got %v", c.MaxCost))
	}
	return ds
}

func (c *Config) checkCalls(n *spec.Node) spec.Diagnostics {
	at := n.Get("max_llm_calls")
	switch {
	case at == nil:
		return nil
	case c.MaxLLMCalls >= math.MaxInt32:
		return spec.Diagnostics{at.Errorf("run-config", "max_llm_calls must be less than %d; 0 means no limit", math.MaxInt32)}
	case c.MaxLLMCalls <= 0:
		d := at.Errorf("run-config", "max_llm_calls %d means no limit: a loop of agents can cause unbounded costs", c.MaxLLMCalls)
		d.Severity = spec.Warning
		return spec.Diagnostics{d}
	}
	return nil
}

// checkSettings validates the settings other than max_llm_calls.
func (c *Config) checkSettings(n *spec.Node) spec.Diagnostics {
	ds := c.checkNumbers(n)
	if at := n.Get("support_cfc"); c.SupportCFC && c.StreamingMode != runtime.StreamingSSE {
		ds = append(ds, at.Errorf("run-config", "support_cfc requires streaming_mode: sse"))
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

func (c *Config) checkNumbers(n *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	if p := c.ToolThreadPoolConfig; p != nil && p.MaxWorkers < 1 {
		ds = append(ds, n.Get("tool_thread_pool_config").Get("max_workers").Errorf("run-config", "max_workers must be at least 1, got %d", p.MaxWorkers))
	}
	if len(c.Labels) > runtime.MaxLabels {
		ds = append(ds, n.Get("labels").Errorf("run-config", "labels exceed the limit of %d, got %d", runtime.MaxLabels, len(c.Labels)))
	}
	if at := n.Get("max_function_calls"); !at.IsNull() && c.MaxFunctionCalls < 1 {
		ds = append(ds, at.Errorf("run-config", "max_function_calls must be at least 1, got %d", c.MaxFunctionCalls))
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

// checkEnum requires one of the live API's values, whose Go type accepts any string.
func checkEnum(n *spec.Node, key, value string, words ...string) spec.Diagnostics {
	if value == "" || slices.Contains(words, value) {
		return nil
	}
	d := getAnySpelling(n, key).Errorf("enum", "%q is not one of: %s", value, strings.Join(words, ", "))
	if near := spec.Suggest(value, words); near != "" {
		d = d.WithNearName(value, near)
	}
	return spec.Diagnostics{d}
}

// getAnySpelling returns a key's value in snake_case or camelCase.
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

// checkLimits rejects limits below zero.
func (l *LiveLimits) checkLimits(n *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	for _, one := range []struct {
		key   string
		value int64
	}{{"max_duration", int64(l.MaxDuration)}, {"idle_timeout", int64(l.IdleTimeout)}, {"max_tokens", int64(l.MaxTokens)}} {
		if at := n.Get(one.key); !at.IsNull() && one.value <= 0 {
			ds = append(ds, at.Errorf("run-config", "%s must be above 0", one.key))
		}
	}
	return ds
}

// checkLive reports settings for live runs that a model's service rejects after the user has begun
// to speak, and those without effect.
func (c *Config) checkLive(n *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	if problem := c.checkModality(); problem != "" && (c.StreamingMode == runtime.StreamingBidi || c.SupportCFC) {
		ds = append(ds, n.Get("response_modalities").Errorf("run-config", "%s", problem))
	}
	for _, key := range []string{"input_audio_transcription", "output_audio_transcription"} {
		if at := n.Get(key); at != nil && at.IsNull() {
			ds = append(ds, at.Warnf("run-config", "null has no effect: transcripts are always on, because sessions store them"))
		}
	}
	if k := c.ContextWindowCompression; k != nil && k.TriggerTokens != nil && k.SlidingWindow != nil && k.SlidingWindow.TargetTokens != nil &&
		*k.SlidingWindow.TargetTokens >= *k.TriggerTokens {
		ds = append(ds, n.Get("context_window_compression").Errorf("run-config",
			"target_tokens %d must be less than trigger_tokens %d", *k.SlidingWindow.TargetTokens, *k.TriggerTokens))
	}
	if at := n.Get("live"); at != nil {
		ds = append(ds, c.Live.checkLimits(at)...)
	}
	return append(ds, c.checkDetection(n)...)
}

// checkModality describes why a live run cannot have several modalities, or returns "".
func (c *Config) checkModality() string {
	if len(c.ResponseModalities) < 2 {
		return ""
	}
	return "a live model answers in one modality, got " + strings.Join(c.ResponseModalities, ", ")
}

// checkDetection rejects negative times in speech detection.
func (c *Config) checkDetection(n *spec.Node) spec.Diagnostics {
	if c.RealtimeInputConfig == nil || c.RealtimeInputConfig.AutomaticActivityDetection == nil {
		return nil
	}
	d := c.RealtimeInputConfig.AutomaticActivityDetection
	at := getAnySpelling(n.Get("realtime_input_config"), "automatic_activity_detection")
	var ds spec.Diagnostics
	if d.PrefixPaddingMs != nil && *d.PrefixPaddingMs < 0 {
		ds = append(ds, getAnySpelling(at, "prefix_padding_ms").Errorf("run-config", "prefix_padding_ms must be 0 or more, got %d", *d.PrefixPaddingMs))
	}
	if d.SilenceDurationMs != nil && *d.SilenceDurationMs < 0 {
		ds = append(ds, getAnySpelling(at, "silence_duration_ms").Errorf("run-config", "silence_duration_ms must be 0 or more, got %d", *d.SilenceDurationMs))
	}
	return ds
}
