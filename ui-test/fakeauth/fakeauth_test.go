// Package fakeauth_test runs an authorization server, and a service that accepts its tokens,
// as a process for the tests in a browser.
package fakeauth_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"agenthost/internal/fake/fakeidp"
)

// TestServe serves until stdin ends, if ui-test/fake-auth.mjs has started this process. It
// prints the URLs. Requests that violate a standard fail the test, and with it the process.
func TestServe(t *testing.T) {
	redirect := os.Getenv("FAKE_AUTH_REDIRECT")
	if redirect == "" {
		return // started by go test
	}
	idp := fakeidp.New(t, redirect)
	idp.Interval = 1
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !idp.Accepts(r.Header.Get("Authorization")) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"name": "Ada"}`)
	}))
	defer service.Close()
	fmt.Println("FAKE", idp.URL, service.URL)
	_, _ = io.Copy(io.Discard, os.Stdin)
}
