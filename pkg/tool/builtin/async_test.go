package builtin

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/tooltest"
	"agenthost/pkg/tool"
)

// TestAsyncSettings: the settings for streams and scheduling, with their defaults.
func TestAsyncSettings(t *testing.T) {
	for yaml, want := range map[string]tool.Capabilities{
		"":                               {},
		"response_scheduling: when_idle": {Scheduling: genai.FunctionResponseSchedulingWhenIdle},
		"stream: {every: 5s}":            {Stream: &tool.Stream{Every: 5 * time.Second, For: 10 * time.Minute}},
		"stream: {every: 1m, on: always, for: 1h, watch: audio}\nresponse_scheduling: silent": {
			Scheduling: genai.FunctionResponseSchedulingSilent, Stream: &tool.Stream{Every: time.Minute, Always: true, For: time.Hour, Watch: "audio"},
		},
	} {
		got := tool.CapabilitiesOf(tooltest.MustBuildTool(t, Kinds(), "expr", "name: it\nvalue: 1\n"+yaml))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", yaml, diff)
		}
	}
}
