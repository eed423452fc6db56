package connection

import (
	"errors"
	"testing"
)

// TestCheckAddress checks to which addresses a connection may send its credential.
func TestCheckAddress(t *testing.T) {
	other := (*HostError)(nil)
	tests := []struct {
		host, address string
		want          error
	}{
		{"api.example.com", "https://api.example.com/x", nil},
		{"api.example.com", "https://API.example.com.:443/x", nil},
		{"api.example.com", "https://api.example.com:8443/x", other},
		{"api.example.com:8443", "https://api.example.com:8443/x", nil},
		{"api.example.com:8443", "https://api.example.com/x", other},
		{"api.example.com", "http://api.example.com/x", ErrInsecure},
		{"api.example.com", "https://api.example.com.evil.test/x", other},
		{"api.example.com", "https://evilapi.example.com/x", other},
		{"api.example.com", "https://api.example.com@evil.test/x", other},
		{"*.example.com", "https://a.b.example.com/x", nil},
		{"*.example.com", "https://example.com/x", other},
		{"*.example.com", "https://evilexample.com/x", other},
		{"127.0.0.1:81", "http://127.0.0.1:81/x", nil},
		{"localhost", "http://localhost/x", nil},
		{"[::1]:81", "http://[::1]:81/x", nil},
		{"localhost.evil.test", "http://localhost.evil.test/x", ErrInsecure},
		{"127.0.0.1", "ftp://127.0.0.1/x", ErrInsecure},
	}
	for _, tt := range tests {
		got := New("c", nil, []string{tt.host}).CheckAddress(tt.address)
		if !errors.Is(got, tt.want) && !(errors.Is(tt.want, other) && errors.As(got, new(*HostError))) {
			t.Errorf("hosts [%s]: CheckAddress(%s) = %v, want %v", tt.host, tt.address, got, tt.want)
		}
	}
}

func TestIsHostPattern(t *testing.T) {
	for text, want := range map[string]bool{
		"api.example.com": true, "*.example.com": true, "a:8443": true, "127.0.0.1:1": true, "[::1]:81": true,
		"": false, "*": false, "*.": false, "https://a": false, "a/b": false, "a?b": false, "u@a": false, "a.*.b": false, "a b": false, "a:x": false,
	} {
		if got := IsHostPattern(text); got != want {
			t.Errorf("IsHostPattern(%q) = %v, want %v", text, got, want)
		}
	}
}
