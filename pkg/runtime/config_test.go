package runtime_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

func TestDefaultRunConfig(t *testing.T) {
	want := runtime.RunConfig{StreamingMode: "none", MaxLLMCalls: 500, MaxFunctionCalls: 128}
	if diff := cmp.Diff(want, runtime.DefaultRunConfig()); diff != "" {
		t.Errorf("DefaultRunConfig() (-want +got):\n%s", diff)
	}
	n, ds := spec.Parse("app.yaml", []byte("{}"))
	var c runtime.RunConfig
	ds = append(ds, spec.Decode(n, &c)...)
	if diff := cmp.Diff(want, c); diff != "" || len(ds) > 0 {
		t.Errorf("an empty run_config (-want +got):\n%s%s", diff, ds.Error())
	}
}

func TestRunConfigCheck(t *testing.T) {
	tests := []struct{ name, src, want string }{
		{"fine", "max_llm_calls: 3", ""},
		{"unsaid", "streaming_mode: sse", ""},
		{"zero", "max_llm_calls: 0", "app.yaml:1:16: warning: max_llm_calls 0 means no limit: a loop of agents can cause unbounded costs [run-config]"},
		{"negative", "max_llm_calls: -1", "app.yaml:1:16: warning: max_llm_calls -1 means no limit: a loop of agents can cause unbounded costs [run-config]"},
		{"too many", "max_llm_calls: 2147483647", "app.yaml:1:16: max_llm_calls must be less than 2147483647; 0 means no limit [run-config]"},
		{"mode", "streaming_mode: duplex", `app.yaml:1:17: "duplex" is not one of: none, sse, bidi [enum]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n, ds := spec.Parse("app.yaml", []byte(tt.src))
			var c runtime.RunConfig
			ds = append(ds, spec.Decode(n, &c)...)
			if len(ds) == 0 {
				ds = c.Check(n)
			}
			if diff := cmp.Diff(tt.want, ds.Error()); diff != "" {
				t.Errorf("Check() (-want +got):\n%s", diff)
			}
		})
	}
}
