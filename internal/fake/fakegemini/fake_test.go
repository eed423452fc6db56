package fakegemini_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/fake/fakegemini"
)

const helloBody = `{"contents":[{"role":"user","parts":[{"text":"hello there"}]}]}`

func TestAnswersByPathAndReply(t *testing.T) {
	const unary, stream = "/v1beta/models/m:generateContent", "/v1beta/models/m:streamGenerateContent?alt=sse"
	tests := []struct {
		name, path string
		reply      *fakegemini.Reply
		status     int
		want       string
	}{
		{
			"echo", unary, nil, 200,
			`{"candidates":[{"content":{"parts":[{"text":"hello there"}],"role":"model"},"finishReason":"STOP"}],"modelVersion":"fake-gemini"}` + "\n",
		},
		{
			"stream", stream, new(fakegemini.Text("a", "b")), 200,
			`data: {"candidates":[{"content":{"parts":[{"text":"a"}],"role":"model"}}],"modelVersion":"fake-gemini"}` + "\n\n" +
				`data: {"candidates":[{"content":{"parts":[{"text":"b"}],"role":"model"},"finishReason":"STOP"}],"modelVersion":"fake-gemini"}` + "\n\n",
		},
		{"count", "/v1beta/models/m:countTokens", nil, 200, `{"totalTokens":2}` + "\n"},
		{
			"failure", unary, new(fakegemini.Failure(429, "slow down")), 429,
			`{"error":{"code":429,"message":"slow down","status":"RESOURCE_EXHAUSTED"}}` + "\n",
		},
		{
			"blocked", unary, new(fakegemini.Blocked(genai.BlockedReasonSafety)), 200,
			`{"modelVersion":"fake-gemini","promptFeedback":{"blockReason":"SAFETY"}}` + "\n",
		},
		{
			"unknown action", "/v1beta/models/m:sing", nil, 404,
			`{"error":{"code":404,"message":"unknown action: sing","status":"NOT_FOUND"}}` + "\n",
		},
		{
			"vertex", "/v1beta1/projects/p/locations/l/publishers/google/models/m:countTokens", nil, 200,
			`{"totalTokens":2}` + "\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := fakegemini.New()
			defer s.Close()
			if tt.reply != nil {
				s.Enqueue(*tt.reply)
			}
			status, body, err := postHello(t, s, tt.path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(fmt.Sprint(tt.status, " ", tt.want), fmt.Sprint(status, " ", body)); diff != "" {
				t.Errorf("POST %s (-want +got):\n%s", tt.path, diff)
			}
		})
	}
}

func TestCutAndHold(t *testing.T) {
	s := fakegemini.New()
	defer s.Close()
	cut := fakegemini.Text("a")
	cut.Cut = true
	s.Enqueue(cut, cut)
	for _, path := range []string{"/v1beta/models/m:generateContent", "/v1beta/models/m:streamGenerateContent?alt=sse"} {
		if _, body, err := postHello(t, s, path); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("POST %s = %q, %v, want unexpected EOF", path, body, err)
		}
	}
	hold := make(chan struct{})
	s.Enqueue(fakegemini.Reply{Hold: hold, Started: func() { close(hold) }})
	if _, _, err := postHello(t, s, "/v1beta/models/m:generateContent"); err != nil {
		t.Errorf("held reply: %v", err)
	}
}

func TestRequestsRedactCredential(t *testing.T) {
	s := fakegemini.New()
	defer s.Close()
	if _, _, err := postHello(t, s, "/v1beta/models/m:generateContent"); err != nil {
		t.Fatal(err)
	}
	reqs := s.Requests()
	if len(reqs) != 1 {
		t.Fatalf("Requests() has %d, want 1", len(reqs))
	}
	got := reqs[0]
	if strings.Contains(fmt.Sprint(got), "my-secret") {
		t.Errorf("Requests() = %v, contains the key", got)
	}
	want := "m generateContent key …cret"
	if text := got.Model + " " + got.Action + " " + got.Credential; text != want {
		t.Errorf("Requests() = %s, want %s", text, want)
	}
}

func postHello(t *testing.T, s *fakegemini.Server, path string) (int, string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+path, strings.NewReader(helloBody))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Goog-Api-Key", "my-secret")
	resp, err := s.Client().Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}
