package runtime

import (
	"strings"
	"time"

	"agenthost/pkg/spec"
)

// DefaultIdleTimeout is the default of [LiveLimits].IdleTimeout.
const DefaultIdleTimeout = 15 * time.Minute

// LiveLimits limit one live conversation: live in run_config. Requests cannot change them.
type LiveLimits struct {
	MaxDuration spec.Duration `yaml:"max_duration" doc:"Maximum duration of a live conversation, such as 30m. Default: no limit."`
	IdleTimeout spec.Duration `yaml:"idle_timeout" default:"15m" doc:"Ends a live conversation in which nothing arrives from the client or from the model for this time."`
	MaxTokens   int           `yaml:"max_tokens" doc:"Maximum number of tokens that the models of a live conversation report. Default: no limit."`
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

// checkLive reports settings of live runs that a model's service refuses after the user
// has begun to speak, and those without effect.
func (c *RunConfig) checkLive(n *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	if problem := c.checkModality(); problem != "" && (c.StreamingMode == StreamingBidi || c.SupportCFC) {
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

// checkModality returns the problem of several modalities in a live run, or "".
func (c *RunConfig) checkModality() string {
	if len(c.ResponseModalities) < 2 {
		return ""
	}
	return "a live model answers in one modality, got " + strings.Join(c.ResponseModalities, ", ")
}

// checkDetection rejects negative times of the detection of speech.
func (c *RunConfig) checkDetection(n *spec.Node) spec.Diagnostics {
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
