package toolhttp

import (
	"net/http"
	"net/url"
	"testing"
)

func TestLeavesHost(t *testing.T) {
	tests := []struct {
		name, from, to string
		want           bool
	}{
		{"same", "https://a/x", "https://a/y", false},
		{"to TLS", "http://a/x", "https://a/x", false},
		{"from TLS", "https://a/x", "http://a/x", true},
		{"another port", "http://a:1/x", "http://a:2/x", true},
		{"a host below", "https://a/x", "https://b.a/x", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			from, _ := url.Parse(tt.from)
			to, _ := url.Parse(tt.to)
			got := leavesHost(&http.Request{URL: to}, []*http.Request{{URL: from}})
			if got != tt.want {
				t.Errorf("leavesHost(%s → %s) = %v, want %v", tt.from, tt.to, got, tt.want)
			}
		})
	}
}
