package runconfig_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/runconfig"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

func TestDefaultRunConfig(t *testing.T) {
	want := runtime.RunConfig{
		StreamingMode: "none", MaxLLMCalls: 500, MaxFunctionCalls: 128,
		Live: runtime.LiveLimits{IdleTimeout: 15 * time.Minute},
	}
	if diff := cmp.Diff(want, runtime.DefaultRunConfig()); diff != "" {
		t.Errorf("DefaultRunConfig() (-want +got):\n%s", diff)
	}
	n, ds := spec.Parse("app.yaml", []byte("{}"))
	c, more := runconfig.Decode(n)
	ds = append(ds, more...)
	if diff := cmp.Diff(want, c); diff != "" || len(ds) > 0 {
		t.Errorf("an empty run_config (-want +got):\n%s%s", diff, ds.Error())
	}
}

func TestDecodeReportsInvalidSettings(t *testing.T) {
	tests := []struct{ name, src, want string }{
		{"fine", "max_llm_calls: 3", ""},
		{"unsaid", "streaming_mode: sse", ""},
		{"zero", "max_llm_calls: 0", "app.yaml:1:16: warning: max_llm_calls 0 means no limit: a loop of agents can cause unbounded costs [run-config]"},
		{"negative", "max_llm_calls: -1", "app.yaml:1:16: warning: max_llm_calls -1 means no limit: a loop of agents can cause unbounded costs [run-config]"},
		{"too many", "max_llm_calls: 2147483647", "app.yaml:1:16: max_llm_calls must be less than 2147483647; 0 means no limit [run-config]"},
		{"labels", "{labels: {team: shop}, service_tier: flex}", ""},
		{"tier", "service_tier: fast", `app.yaml:1:15: "fast" is not one of: flex, standard, priority [enum]`},
		{"too many labels", "labels: {" + manyLabels(65) + "}", "app.yaml:1:9: labels exceed the limit of 64, got 65 [run-config]"},
		{"mode", "streaming_mode: duplex", `app.yaml:1:17: "duplex" is not one of: none, sse, bidi [enum]`},
		{"two modalities", "{streaming_mode: bidi, response_modalities: [TEXT, AUDIO]}", "app.yaml:1:45: a live model answers in one modality, got TEXT, AUDIO [run-config]"},
		{"two modalities of functions", "{streaming_mode: sse, support_cfc: true, response_modalities: [TEXT, AUDIO]}", "app.yaml:1:63: a live model answers in one modality, got TEXT, AUDIO [run-config]"},
		{"limits", "live: {max_duration: 0s, idle_timeout: 1m, max_tokens: -1}", "app.yaml:1:22: max_duration must be above 0 [run-config]\napp.yaml:1:56: max_tokens must be above 0 [run-config]"},
		{"no transcripts", "input_audio_transcription: null", "app.yaml:1:28: warning: null has no effect: transcripts are always on, because sessions store them [run-config]"},
		{"compression", "context_window_compression: {trigger_tokens: 100, sliding_window: {target_tokens: 100}}", "app.yaml:1:29: target_tokens 100 must be less than trigger_tokens 100 [run-config]"},
		{"detection", "realtime_input_config: {automatic_activity_detection: {prefix_padding_ms: -1, silence_duration_ms: -2}}", "app.yaml:1:75: prefix_padding_ms must be 0 or more, got -1 [run-config]\napp.yaml:1:100: silence_duration_ms must be 0 or more, got -2 [run-config]"},
		{"live settings", "{explicit_vad_signal: true, translation_config: {target_language_code: de}, history_config: {initial_history_in_client_content: false}}", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n, ds := spec.Parse("app.yaml", []byte(tt.src))
			_, more := runconfig.Decode(n)
			ds = append(ds, more...)
			if diff := cmp.Diff(tt.want, ds.Error()); diff != "" {
				t.Errorf("Decode() (-want +got):\n%s", diff)
			}
		})
	}
}

func manyLabels(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("k%d: v", i))
	}
	return strings.Join(all, ", ")
}

// TestOverrideWithinAppLimits: a request can set any field in the run config, in either spelling.
// Invalid values are reported, and the app's limits apply.
func TestOverrideWithinAppLimits(t *testing.T) {
	app := runtime.DefaultRunConfig()
	app.MaxLLMCalls, app.ResponseModalities = 20, []string{"TEXT"}
	costly, unlimited := app, app
	costly.MaxCost = 1
	unlimited.MaxLLMCalls = 0
	for _, tt := range []struct {
		text string
		app  runtime.RunConfig
		want string
	}{
		{`{}`, app, "none 20 [TEXT]"},
		{`{"maxLlmCalls": 5, "streaming_mode": "sse"}`, app, "sse 5 [TEXT]"},
		{`{"responseModalities": ["AUDIO"], "maxLlmCalls": null}`, app, "none 20 [AUDIO]"},
		{`{"getSessionConfig": {"numRecentEvents": 3}, "streamingMode": "sse"}`, unlimited, "sse 0 [TEXT]"},
		{`{"streamingMode": "sse", "supportCfc": true}`, unlimited, "run_config:1:40: support_cfc lets models execute code: only the app can turn it on [run-config]"},
		{`{"max_llm_calls": 0}`, unlimited, "none 0 [TEXT] run_config:1:19: warning: max_llm_calls 0 means no limit: a loop of agents can cause unbounded costs [run-config]"},
		{`{"maxCost": 0.5}`, costly, "none 20 [TEXT]"},
		{`{"max_cost": 1.5}`, costly, "run_config:1:14: max_cost 1.5 exceeds the limit of the app, 1 [run-config]"},
		{`{"live": {"max_tokens": 5}}`, app, "run_config:1:10: live is a limit of the app: a request cannot change it [run-config]"},
		{`{"max_cost": 0.5}`, app, "run_config:1:14: max_cost requires max_cost in run_config of the app, which a request can only lower [run-config]"},
		{`{"max_llm_calls": 21}`, app, "run_config:1:19: max_llm_calls 21 exceeds the limit of the app, 20 [run-config]"},
		{`{"max_llm_calls": 0}`, app, "run_config:1:19: warning: max_llm_calls 0 means no limit: a loop of agents can cause unbounded costs [run-config] run_config:1:19: max_llm_calls 0 exceeds the limit of the app, 20 [run-config]"},
		{`{"max_llm_calls": 2147483647}`, unlimited, "run_config:1:19: max_llm_calls must be less than 2147483647; 0 means no limit [run-config]"},
		{`{"support_cfc": true}`, app, "run_config:1:17: support_cfc requires streaming_mode: sse [run-config]"},
		{`{"streamingMode": "see"}`, app, `run_config:1:19: "see" is not one of: none, sse, bidi [enum]`},
		{`{"maxCalls": 3}`, app, `run_config:1:2: unknown field "max_calls" [unknown-field]`},
	} {
		got, problems := runconfig.Override(tt.app, []byte(tt.text))
		summary := strings.Join(problems.Strings(), " ")
		if got != nil {
			summary = strings.TrimSpace(fmt.Sprintf("%s %d %v %s", got.StreamingMode, got.MaxLLMCalls, got.ResponseModalities, summary))
		}
		if summary != tt.want {
			t.Errorf("Override(%s) = %s\nwant %s", tt.text, summary, tt.want)
		}
	}
	if app.MaxLLMCalls != 20 || len(app.ResponseModalities) != 1 {
		t.Error("the app's own config was changed")
	}
}
