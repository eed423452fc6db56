package tool_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/tooltest"
)

func TestRequestCredential(t *testing.T) {
	scheme := map[string]any{"type": "apiKey", "in": "header", "name": "X-Key"}
	tests := []struct {
		name   string
		config map[string]any
		key    string
	}{
		{"a key of its own", map[string]any{"credentialKey": "crm", "authScheme": scheme}, "crm"},
		{
			"a key from the rest",
			map[string]any{"authScheme": scheme, "rawAuthCredential": map[string]any{"authType": "apiKey"}},
			"adk_apiKey_9a46dad5a84303f3_apiKey_0e0c64790d90ab22",
		},
		{"nothing", nil, "adk_none_74234e98afe7498f_none_74234e98afe7498f"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			call := tooltest.NewCall(nil, nil)
			if c, ok := call.Credential(tt.config); ok {
				t.Errorf("Credential before it was given = %v", c)
			}
			call.RequestCredential(tt.config)
			asked, _ := call.Actions.RequestedAuthConfigs["call-1"].(map[string]any)
			if diff := cmp.Diff(tt.key, asked["credentialKey"]); diff != "" || !call.Actions.SkipSummarization {
				t.Errorf("credentialKey (-want +got):\n%s\nskip: %v", diff, call.Actions.SkipSummarization)
			}
			given := map[string]any{"apiKey": "k"}
			call.State.Set("temp:"+tt.key, given)
			if c, ok := call.Credential(tt.config); !ok || c["apiKey"] != "k" {
				t.Errorf("Credential = %v, %v, want %v", c, ok, given)
			}
		})
	}
}
