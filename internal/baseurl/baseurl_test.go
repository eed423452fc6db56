package baseurl_test

import (
	"testing"

	"agenthost/internal/baseurl"
)

func TestJoinBeforeQuery(t *testing.T) {
	for _, tt := range []struct{ base, joined, trimmed string }{
		{"https://a.example", "https://a.example/chat", "https://a.example"},
		{"https://a.example/v1/", "https://a.example/v1/chat", "https://a.example"},
		{"https://a.example/v1?api-version=2", "https://a.example/v1/chat?api-version=2", "https://a.example?api-version=2"},
		{"https://a.example/v1//?path=/v1/", "https://a.example/v1/chat?path=/v1/", "https://a.example?path=/v1/"},
		{"https://a.example?", "https://a.example/chat?", "https://a.example?"},
	} {
		if got := baseurl.Join(tt.base, "/chat"); got != tt.joined {
			t.Errorf("Join(%s) = %s, want %s", tt.base, got, tt.joined)
		}
		trimmed := baseurl.TrimPath(baseurl.TrimPath(tt.base, "/v1"), "")
		if trimmed != tt.trimmed {
			t.Errorf("TrimPath(%s) = %s, want %s", tt.base, trimmed, tt.trimmed)
		}
	}
}
