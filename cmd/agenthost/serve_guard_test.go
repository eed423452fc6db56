package main

import (
	"slices"
	"testing"

	"agenthost/wing/connection/authorize"
)

// A Host header with the --public-url host is allowed wherever the Host header is checked.
func TestPublicURLIsAllowedHost(t *testing.T) {
	loopback := []string{"127.0.0.1", "localhost", "[::1]"}
	for _, tt := range []struct {
		addr, public string
		given, want  []string
	}{
		{"127.0.0.1:8000", "", nil, loopback},
		{"127.0.0.1:8000", "https://agents.example.com/crm", nil, append(slices.Clone(loopback), "agents.example.com")},
		{"127.0.0.1:8000", "https://agents.example.com:8443", nil, append(slices.Clone(loopback), "agents.example.com:8443")},
		{"127.0.0.1:8000", "https://agents.example.com", []string{"inside"}, []string{"inside", "agents.example.com"}},
	} {
		f := &serveFlags{addr: tt.addr, allowedHosts: tt.given, grants: authorize.GrantFlags{PublicURL: tt.public}}
		opts, err := f.serverOptions()
		if err != nil || !slices.Equal(opts.AllowedHosts, tt.want) {
			t.Errorf("%+v: %v, %v", tt, opts, err)
		}
	}
}

// A server that listens on all addresses prints one that a browser on this machine can open.
func TestLocalAddress(t *testing.T) {
	for addr, want := range map[string]string{
		"[::]:8000": "127.0.0.1:8000", "0.0.0.0:8000": "127.0.0.1:8000",
		"127.0.0.1:8000": "127.0.0.1:8000", "[::1]:8000": "[::1]:8000", "10.0.0.7:80": "10.0.0.7:80",
	} {
		if got := localAddress(addr); got != want {
			t.Errorf("localAddress(%s) = %s, want %s", addr, got, want)
		}
	}
}
