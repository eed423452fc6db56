package runtime

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/spec"
	"agenthost/pkg/store"
)

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
}

// affectsRequests reports whether a run changes requests.
func (c *RunConfig) affectsRequests() bool {
	return len(c.ResponseModalities) > 0 || c.SpeechConfig != nil
}

// checkSettings validates the settings other than max_llm_calls.
func (c *RunConfig) checkSettings(n *spec.Node) spec.Diagnostics {
	ds := c.checkNumbers(n)
	switch at := n.Get("support_cfc"); {
	case c.SupportCFC && c.StreamingMode != StreamingSSE:
		ds = append(ds, at.Errorf("run-config", cfcNeedsSSE))
	case c.SupportCFC:
		ds = append(ds, at.Warnf("run-config", "support_cfc has no effect: agenthost does not use the live API, and models call tools without it"))
	}
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
