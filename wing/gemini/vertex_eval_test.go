package gemini_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agenthost/internal/modeltest"
	"agenthost/wing/gemini"
)

// vertexEnv has the project and the region of an evaluator, and a fake's address.
func vertexEnv(base string) func(string) (string, bool) {
	return modeltest.Lookup(map[string]string{"GOOGLE_CLOUD_PROJECT": "p-1", "GOOGLE_CLOUD_LOCATION": "europe-west1", "GOOGLE_VERTEX_BASE_URL": base})
}

func newEvaluator(t *testing.T, opts *gemini.VertexEvaluatorOptions) *gemini.VertexEvaluator {
	t.Helper()
	if opts.Token == nil {
		opts.Token = func(context.Context) (string, error) { return "secret-token", nil }
	}
	e, err := gemini.NewVertexEvaluator(t.Context(), opts)
	if e == nil {
		t.Fatalf("NewVertexEvaluator = nil, %v", err)
	}
	return e
}

// TestVertexEvaluator: one call is a POST of the body with the credentials' token, to the path for
// the project and the region.
func TestVertexEvaluator(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != "/v1beta1/projects/p-1/locations/europe-west1:evaluateInstances" ||
			r.Header.Get("Authorization") != "Bearer secret-token" || r.Header.Get("Content-Type") != "application/json" || r.ContentLength != 2 {
			http.Error(w, "wrong request", http.StatusTeapot)
			t.Errorf("request %s %s, headers %v", r.Method, r.URL.Path, r.Header)
		}
		fmt.Fprint(w, `{"metricResults":[]}`)
	}))
	defer server.Close()
	got, err := newEvaluator(t, &gemini.VertexEvaluatorOptions{Lookup: vertexEnv(server.URL)}).Evaluate(t.Context(), []byte("{}"))
	if err != nil || string(got) != `{"metricResults":[]}` {
		t.Errorf("Evaluate = %s, %v", got, err)
	}
}

// TestVertexEvaluatorErrors: an error names the status, the message and the way out, and no
// token. Errors that may be temporary are attempted 5 times, the others once.
func TestVertexEvaluatorErrors(t *testing.T) {
	for _, tt := range []struct {
		code   int
		header string
		calls  int
		waits  []time.Duration
		want   string
	}{
		{401, "", 1, nil, "the Vertex AI evaluation service failed: 401 FAILED: no [hidden]; sign in with gcloud auth application-default login"},
		{403, "", 1, nil, "; enable aiplatform.googleapis.com in project p-1, and grant the credentials roles/aiplatform.user"},
		{404, "", 1, nil, "; region europe-west1 or project p-1 may not have the service: set GOOGLE_CLOUD_LOCATION"},
		{400, "", 1, nil, "400 FAILED: no [hidden]; a judge model scores instead with judge_model_options or --judge"},
		{429, "", 5, []time.Duration{2, 4, 8, 16}, "; raise the service's quota, or run fewer cases at once with --parallel"},
		{429, "7", 5, []time.Duration{7, 7, 7, 7}, "; raise the service's quota"},
		{429, "600", 1, nil, "; raise the service's quota"},
		{503, "", 5, []time.Duration{2, 4, 8, 16}, "503 FAILED"},
	} {
		calls, waits := 0, []time.Duration{}
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			calls++
			if tt.header != "" {
				w.Header().Set("Retry-After", tt.header)
			}
			w.WriteHeader(tt.code)
			fmt.Fprintf(w, `{"error": {"code": %d, "message": "no secret-token", "status": "FAILED"}}`, tt.code)
		}))
		e := newEvaluator(t, &gemini.VertexEvaluatorOptions{Lookup: vertexEnv(server.URL), Wait: func(_ context.Context, d time.Duration) error {
			waits = append(waits, d.Truncate(time.Second))
			return nil
		}})
		_, err := e.Evaluate(t.Context(), []byte("{}"))
		server.Close()
		if got := strings.ReplaceAll(fmt.Sprint(err), "***", "[hidden]"); !strings.Contains(got, tt.want) && !strings.Contains(got, strings.TrimPrefix(tt.want, "; ")) || strings.Contains(got, "secret-token") || calls != tt.calls || len(waits) != len(tt.waits) {
			t.Errorf("%d %s: %d calls, waits %v, error %s; want %d, %v, %s", tt.code, tt.header, calls, waits, got, tt.calls, tt.waits, tt.want)
			continue
		}
		for i, w := range tt.waits {
			if low := w * time.Second; waits[i] < low || waits[i] > low+time.Second {
				t.Errorf("%d: wait %d is %s, want %s", tt.code, i+1, waits[i], low)
			}
		}
	}
}

// TestVertexEvaluatorBounds: a response over the limit is an error, and a canceled call ends.
func TestVertexEvaluatorBounds(t *testing.T) {
	started := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); len(body) > 2 { // then the server sees that the client has gone
			close(started)
			<-r.Context().Done()
			return
		}
		chunk := make([]byte, 1<<20)
		for range 18 {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	e := newEvaluator(t, &gemini.VertexEvaluatorOptions{Lookup: vertexEnv(server.URL)})
	if _, err := e.Evaluate(t.Context(), []byte("{}")); err == nil || !strings.Contains(err.Error(), "response of Vertex AI evaluation exceeds the limit of 16 MiB") {
		t.Errorf("a response of 18 MiB: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-started; cancel() }()
	if _, err := e.Evaluate(ctx, []byte("{wait}")); !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled call: %v", err)
	}
}

// TestNewVertexEvaluator: the service needs a project, a region and credentials. The region cannot
// change the host, and an address that the app chose does not get the host's token.
func TestNewVertexEvaluator(t *testing.T) {
	for _, tt := range []struct {
		env  map[string]string
		want string
	}{
		{map[string]string{}, ""},
		{map[string]string{"GOOGLE_CLOUD_PROJECT": "p"}, ""},
		{map[string]string{"GOOGLE_CLOUD_LOCATION": "us-central1"}, ""},
		{map[string]string{"GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "us-central1"}, "https://us-central1-aiplatform.googleapis.com/"},
		{map[string]string{"GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "global"}, "https://aiplatform.googleapis.com/"},
		{map[string]string{"GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "evil.test/"}, "GOOGLE_CLOUD_LOCATION must be a region such as europe-west1"},
		{map[string]string{"GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "us", "GOOGLE_VERTEX_BASE_URL": "host"}, "GOOGLE_VERTEX_BASE_URL: base_url must be a URL"},
	} {
		e, err := gemini.NewVertexEvaluator(t.Context(), &gemini.VertexEvaluatorOptions{
			Lookup: modeltest.Lookup(tt.env), Token: func(context.Context) (string, error) { return "t", nil },
		})
		got := ""
		if err != nil {
			got = err.Error()
		} else if e != nil {
			got = e.Endpoint().URL
		}
		if !strings.HasPrefix(got, tt.want) || tt.want == "" && got != "" {
			t.Errorf("%v: %q, want %q", tt.env, got, tt.want)
		}
	}

	file := filepath.Join(t.TempDir(), "credentials.json")
	if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file) // invalid
	if e, err := gemini.NewVertexEvaluator(t.Context(), &gemini.VertexEvaluatorOptions{Lookup: vertexEnv("")}); e != nil || err != nil {
		t.Errorf("without credentials: %v, %v; want none, so that a judge scores", e, err)
	}

	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header.Get("Authorization"))
	}))
	defer server.Close()
	e, err := gemini.NewVertexEvaluator(t.Context(), &gemini.VertexEvaluatorOptions{
		Lookup: modeltest.Lookup(map[string]string{"GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "us"}), App: map[string]string{"GOOGLE_VERTEX_BASE_URL": server.URL},
	})
	if e == nil || err != nil || e.Endpoint().OfHost {
		t.Fatalf("an address of the app: %v, %v", e, err)
	}
	if got, err := e.Evaluate(t.Context(), []byte("{}")); err != nil || len(got) > 0 {
		t.Errorf("an address of the app got the token %q, %v", got, err)
	}
}
