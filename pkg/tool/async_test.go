package tool

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"
)

func toJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func testImage() *genai.Blob { return &genai.Blob{MIMEType: "image/jpeg", Data: []byte{1, 2}} }

// TestAsyncSettings: the settings of streams and scheduling, with their defaults.
func TestAsyncSettings(t *testing.T) {
	for yaml, want := range map[string]Capabilities{
		"":                               {},
		"response_scheduling: when_idle": {Scheduling: genai.FunctionResponseSchedulingWhenIdle},
		"stream: {every: 5s}":            {Stream: &Stream{Every: 5 * time.Second, For: 10 * time.Minute}},
		"stream: {every: 1m, on: always, for: 1h, watch: audio}\nresponse_scheduling: silent": {
			Scheduling: genai.FunctionResponseSchedulingSilent, Stream: &Stream{Every: time.Minute, Always: true, For: time.Hour, Watch: "audio"},
		},
	} {
		got := CapabilitiesOf(mustBuildTool(t, "expr", "name: it\nvalue: 1\n"+yaml))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", yaml, diff)
		}
	}
}
