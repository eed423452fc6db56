package loader_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"agenthost/internal/policy"
	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
	"agenthost/pkg/model"
	"agenthost/wing/gemini"
	"agenthost/wing/live"
)

// TestLiveGuard: an app's live connections reach only addresses that the policy allows, as all its
// requests do, however the app names the address.
func TestLiveGuard(t *testing.T) {
	var received atomic.Int64
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		received.Add(1)
		http.Error(w, "not here", http.StatusNotFound)
	}))
	defer service.Close()
	port := service.URL[strings.LastIndex(service.URL, ":"):]
	for name, tt := range map[string]struct {
		base   string
		shared bool
		want   string
	}{
		"own machine": {service.URL, false, "not here"},
		"loopback":    {service.URL, true, "a private address"},
		"localhost":   {"http://localhost" + port, true, "a private address"},
		"mapped":      {"http://[::ffff:127.0.0.1]" + port, true, "a private address"},
		"metadata":    {"http://169.254.169.254", true, "a private address"},
	} {
		t.Run(name, func(t *testing.T) {
			before := received.Load()
			opts := loader.Options{Env: func(string) (string, bool) { return "", false }}
			opts.Policy = decodePolicy("grants: []").For(policy.Host{Shared: true})
			if !tt.shared {
				opts.Policy = nil
			}
			top := t.TempDir()
			write(t, filepath.Join(top, "talk/app.yaml"), "models: {m: {provider: gemini, model: gemini-live-2.5-flash, api_key: k, base_url: \""+tt.base+"\"}}\n")
			write(t, filepath.Join(top, "talk/root_agent.yaml"), "name: a\nmodel: m\ninstruction: x\n")
			env := testenv.New(t, &testenv.Options{Loader: &opts})
			app, ds := env.Loader.Load(t.Context(), filepath.Join(top, "talk"))
			output := ds.Error()
			if app != nil {
				env.Host.Swap(app)
				key := env.Session(t, "talk", "s", nil)
				for _, err := range live.Run(t.Context(), env.Host, &live.RunRequest{App: "talk", UserID: key.User, SessionID: key.ID, Requests: live.NewQueue()}) {
					if err != nil {
						output += err.Error()
					}
				}
			}
			if reached := received.Load() > before; reached == tt.shared || !strings.Contains(output, tt.want) {
				t.Errorf("the service was reached: %v, output %s, want %s", reached, output, tt.want)
			}
		})
	}
}

// TestLiveGuardWhenConnecting: an address that no document check saw, such as a name's address, is
// refused when the connection is made.
func TestLiveGuardWhenConnecting(t *testing.T) {
	var received atomic.Int64
	service := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { received.Add(1) }))
	defer service.Close()
	guard := decodePolicy("grants: []").For(policy.Host{Shared: true}).Guard("talk")
	llm := model.LiveOf(gemini.New("gemini-live-2.5-flash", &gemini.Options{
		BaseURL: service.URL, APIKey: "k", HTTP: &http.Client{Transport: guard.Transport()}, Lookup: func(string) (string, bool) { return "", false },
	}))
	_, err := llm.ConnectLive(t.Context(), &model.LiveSetup{})
	var refused *policy.Refused
	if !errors.As(err, &refused) || received.Load() > 0 {
		t.Errorf("%d requests arrived, error %v", received.Load(), err)
	}
}
