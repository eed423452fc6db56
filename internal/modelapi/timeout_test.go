package modelapi_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genai"

	"agenthost/internal/modeltest"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/wing/gemini"
	"agenthost/wing/openai"
)

// A pause is a body whose reads take a while. Without chunks left it blocks until the
// call is cancelled.
type pause struct {
	ctx    context.Context //nolint:containedctx // the request's
	wait   time.Duration
	chunks []string
}

func (p *pause) Read(b []byte) (int, error) {
	wait := time.After(p.wait)
	if len(p.chunks) == 0 {
		wait = nil
	}
	select {
	case <-p.ctx.Done():
		return 0, p.ctx.Err()
	case <-wait:
	}
	chunk := p.chunks[0]
	p.chunks = p.chunks[1:]
	return copy(b, chunk), nil
}

func (p *pause) Close() error { return nil }

// pausing is a transport that answers after a while, and then with a body's chunks, each after a
// while.
type pausing struct {
	before, between time.Duration
	chunks          []string
}

func (p pausing) RoundTrip(req *http.Request) (*http.Response, error) {
	if p.before > 0 {
		select {
		case <-req.Context().Done():
			return nil, req.Context().Err()
		case <-time.After(p.before):
		}
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{}, Body: &pause{req.Context(), p.between, p.chunks}, Request: req,
	}, nil
}

// A service that is silent for too long fails the call with an error that can be
// retried; a slow one does not. A complete stream is drained for one more second.
func TestSilentServiceTimesOut(t *testing.T) {
	const text, end = `data: {"choices":[{"delta":{"content":"a"}}]}` + "\n\n", "data: [DONE]\n\n"
	timeouts := provider.TimeoutOptions{FirstByte: 30 * time.Second, Idle: 10 * time.Second}
	for _, tt := range []struct {
		name   string
		server pausing
		opts   provider.TimeoutOptions
		want   string
		after  time.Duration
	}{
		{"slow", pausing{20 * time.Second, 9 * time.Second, []string{text, text, text, end}}, timeouts, "", 57 * time.Second},
		{"no response", pausing{before: time.Hour}, timeouts, "timeout after 30s without a first byte", 30 * time.Second},
		{"headers only", pausing{}, timeouts, "stream was interrupted: timeout after 30s without a first byte", 30 * time.Second},
		{"silence", pausing{between: time.Second, chunks: []string{text}}, timeouts, "stream was interrupted: timeout after 10s without further data", 11 * time.Second},
		{"the default until the first byte", pausing{before: time.Hour}, provider.TimeoutOptions{}, "timeout after 5m0s without a first byte", 5 * time.Minute},
		{"the default of silence", pausing{chunks: []string{text}}, provider.TimeoutOptions{}, "stream was interrupted: timeout after 2m0s without further data", 2 * time.Minute},
		{"no limit", pausing{time.Hour, time.Hour, []string{text, end}}, provider.TimeoutOptions{FirstByte: -1, Idle: -1}, "", 3*time.Hour + time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				llm := openai.New("gpt-x", &openai.Options{
					BaseURL: "http://fake/v1", HTTP: &http.Client{Transport: tt.server}, Timeouts: tt.opts, Retry: provider.RetryOptions{Attempts: 1},
				})
				_, err := modeltest.Ask(t, llm, true)
				checkTimeout(t, err, tt.want)
				if took := time.Since(start).Round(time.Second); took != tt.after {
					t.Errorf("Generate() took %s, want %s", took, tt.after)
				}
			})
		})
	}
}

func checkTimeout(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" {
		if err != nil {
			t.Errorf("Generate() = %v", err)
		}
		return
	}
	failed, ok := errors.AsType[*model.Error](err)
	if !ok || failed.Message != "no response from gpt-x: "+want || failed.EventCode() != "DEADLINE_EXCEEDED" || !failed.Retryable() {
		t.Errorf("Generate() = %v, want DEADLINE_EXCEEDED: %s", err, want)
	}
}

// http_options.timeout limits a whole call, also when a server keeps sending.
func TestTimeoutOfRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := pausing{0, 9 * time.Second, []string{": 1\n", ": 2\n", ": 3\n", ": 4\n"}}
		llm := openai.New("gpt-x", &openai.Options{
			BaseURL: "http://fake/v1", HTTP: &http.Client{Transport: server}, Retry: provider.RetryOptions{Attempts: 1},
		})
		req := modeltest.ScriptInput("hi", true)
		req.Config.HTTPOptions = &genai.HTTPOptions{Timeout: genai.Ptr(20 * time.Second)}
		_, err := modeltest.Collect(llm.Generate(t.Context(), req))
		checkTimeout(t, err, "stream was interrupted: timeout after 20s without a complete response")
	})
}

// Gemini has the same limits.
func TestGeminiTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		llm := gemini.New("m", &gemini.Options{
			APIKey: "k", Lookup: modeltest.Lookup(nil), HTTP: &http.Client{Transport: pausing{before: time.Hour}},
			Timeouts: provider.TimeoutOptions{FirstByte: time.Second}, Retry: provider.RetryOptions{Attempts: 1},
		})
		_, err := modeltest.Ask(t, llm, true)
		want := "model: no response from Gemini: timeout after 1s without a first byte"
		if err == nil || err.Error() != want {
			t.Errorf("Generate() = %v, want %s", err, want)
		}
	})
}

// A response larger than 64 MiB is an error.
func TestResponseLimit(t *testing.T) {
	server := endless{}
	llm := openai.New("gpt-x", &openai.Options{
		BaseURL: "http://fake/v1", HTTP: &http.Client{Transport: server}, Retry: provider.RetryOptions{Attempts: 1},
	})
	_, err := modeltest.Ask(t, llm, true)
	want := "model: response of the model exceeds the limit of 64 MiB"
	if err == nil || err.Error() != want {
		t.Errorf("Generate() = %v, want %s", err, want)
	}
}

// endless is a transport whose streams are only comments and never end.
type endless struct{}

func (endless) RoundTrip(*http.Request) (*http.Response, error) {
	comments := bytes.Repeat([]byte(": still thinking\n"), 1<<16)
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(&repeated{comments})}, nil
}

type repeated struct{ data []byte }

func (r *repeated) Read(b []byte) (int, error) { return copy(b, r.data), nil }
