package loader_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"agenthost/internal/testenv"
	"agenthost/pkg/connection"
	"agenthost/pkg/loader"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/tool/builtin"
	connections "agenthost/wing/connection"
	"agenthost/wing/mcptool"
	"agenthost/wing/openapitool"
)

// TestConnectionTokenSharedAndHidden checks that tools share a connection's token, also after a
// reload, and that neither events nor spans contain it, even if the service repeats it.
func TestConnectionTokenSharedAndHidden(t *testing.T) {
	var issued, authorized atomic.Int32
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/token" {
			fmt.Fprintf(w, `{"access_token": "t0ken-%d", "token_type": "Bearer", "expires_in": 3600}`, issued.Add(1))
			return
		}
		if r.Header.Get("Authorization") == "Bearer t0ken-1" {
			authorized.Add(1)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"got": r.Header.Get("Authorization")})
	}))
	defer service.Close()
	ended := tracetest.NewSpanRecorder()
	opts := testenv.NewTracing(ended)
	variables := map[string]string{"CRM_SECRET": "s3cret"}
	opts.Loader = &loader.Options{Env: func(name string) (string, bool) { v, ok := variables[name]; return v, ok }}
	env := testenv.New(t, opts)
	dir := testenv.Files(t, "shop", map[string][]byte{
		"app.yaml": []byte(`connections:
  crm: {oauth2: {grant: client_credentials, token_url: "` + service.URL + `/token", client_id: id, client_secret: "${env:CRM_SECRET}"}}
models: {m: {provider: scripted, script: m.script.yaml}}
`),
		"m.script.yaml": []byte("- when: responses.find != nil\n  text: done\n- calls: [{name: find}, {name: list}]\n"),
		"root_agent.yaml": []byte(`name: desk
model: m
instruction: Help.
tools:
  - http: {name: find, url: "` + service.URL + `/find", auth: crm}
  - http: {name: list, url: "` + service.URL + `/list", auth: crm}
`),
	})
	var seen strings.Builder
	for range 2 {
		env.Load(t, dir)
		for ev, err := range env.Host.Run(t.Context(), &runtime.RunRequest{App: "shop", UserID: "u", SessionID: "s", CreateSession: true, Message: model.UserText("hi")}) {
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(ev)
			if err != nil {
				t.Fatal(err)
			}
			seen.Write(text)
		}
	}
	for _, s := range ended.Ended() {
		fmt.Fprintln(&seen, s.Name(), s.Attributes(), s.Events(), s.Status())
	}
	if issued.Load() != 1 || authorized.Load() < 2 {
		t.Errorf("%d tokens, %d authorized requests, want 1 and at least 2", issued.Load(), authorized.Load())
	}
	for _, secret := range []string{"t0ken", "s3cret"} {
		if strings.Contains(seen.String(), secret) {
			t.Errorf("events or spans contain %s:\n%s", secret, seen.String())
		}
	}
	if !strings.Contains(seen.String(), `"got":"Bearer ***"`) {
		t.Errorf("the response of the service is missing:\n%s", seen.String())
	}
}

// TestConnectionExchange checks that a tool gets a token in exchange for another connection's
// token, also after a reload that changes only the other connection.
func TestConnectionExchange(t *testing.T) {
	var header atomic.Value
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		id, _, _ := r.BasicAuth()
		switch {
		case r.URL.Path == "/find":
			header.Store(r.Header.Get("Authorization"))
			_ = json.NewEncoder(w).Encode(map[string]any{"ok": true})
		case r.FormValue("subject_token") != "":
			fmt.Fprintf(w, `{"access_token": "crm-for-%s", "token_type": "Bearer", "expires_in": 3600}`, r.FormValue("subject_token"))
		default:
			fmt.Fprintf(w, `{"access_token": "login-of-%s", "token_type": "Bearer", "expires_in": 3600}`, id)
		}
	}))
	defer service.Close()
	env := testenv.New(t, nil)
	for _, client := range []string{"one", "two"} {
		env.Load(t, testenv.Files(t, "shop", map[string][]byte{
			"app.yaml": []byte(strings.NewReplacer("URL", service.URL, "CLIENT", client).Replace(`connections:
  login: {oauth2: {grant: client_credentials, token_url: "URL/token", client_id: CLIENT, client_secret: "${env:S:-s3cret}"}}
  crm: {oauth2: {grant: token_exchange, subject: login, token_url: "URL/token", client_id: crm}}
models: {m: {provider: scripted, script: m.script.yaml}}
`)),
			"m.script.yaml":   []byte("- when: responses.find != nil\n  text: done\n- calls: [{name: find}]\n"),
			"root_agent.yaml": []byte("name: desk\nmodel: m\ninstruction: Help.\ntools:\n  - http: {name: find, url: \"" + service.URL + "/find\", auth: crm}\n"),
		}))
		for _, err := range env.Host.Run(t.Context(), &runtime.RunRequest{App: "shop", UserID: "u", SessionID: client, CreateSession: true, Message: model.UserText("hi")}) {
			if err != nil {
				t.Fatal(err)
			}
		}
		if got, want := header.Load(), "Bearer crm-for-login-of-"+client; got != want {
			t.Errorf("Authorization: %v, want %s", got, want)
		}
	}
}

// TestConnectionWithoutKey checks that an app whose users authorize a connection does not load
// on a host that could not encrypt their tokens.
func TestConnectionWithoutKey(t *testing.T) {
	dir := testenv.Files(t, "shop", map[string][]byte{
		"app.yaml": []byte(`connections:
  crm: {oauth2: {grant: authorization_code, issuer: "https://login.example.com", client_id: id}}
models: {m: {provider: scripted, script: m.script.yaml}}
`),
		"m.script.yaml":   []byte("- text: done\n"),
		"root_agent.yaml": []byte("name: desk\nmodel: m\ninstruction: Help.\ntools:\n  - http: {name: find, url: \"https://crm.example.com/find\", auth: crm}\n"),
	})
	kinds := testenv.Kinds()
	kinds.Connections = connections.NewKind(connections.NewGrants(connections.GrantOptions{Store: &connection.MemoryGrants{}}))
	loaded, ds := loader.New(kinds, nil).LoadFiles(t.Context(), dir)
	if loaded != nil || len(ds) != 1 {
		t.Fatalf("LoadFiles = %v, %v, want one error", loaded, ds)
	}
	if want := "the grant authorization_code stores users' tokens encrypted and requires --credentials-key"; !strings.Contains(ds[0].Message, want) || ds[0].Pos.Line != 5 {
		t.Errorf("%s, want %s at line 5", ds[0], want)
	}
}

// TestProgramWithoutConnections checks that a program whose kinds have no connections reports an
// app's connections at their places, and loads apps that use none.
func TestProgramWithoutConnections(t *testing.T) {
	kinds := testenv.Kinds()
	kinds.Connections = nil
	kinds.Builtins = slices.Concat(builtin.Builtins(), mcptool.Toolsets[connection.UnsupportedADKAuth](), openapitool.Toolsets[connection.UnsupportedADKAuth](nil))
	const head, want = "name: desk\nmodel: m\ninstruction: Help.\n", "this program does not support connections"
	for _, tt := range []struct{ name, app, agent, place string }{
		{"none", "", head + "tools: [{http: {name: find, url: \"https://crm.example.com\"}}]\n", ""},
		{"declared", "connections:\n  crm: {bearer: \"${env:T:-x}\"}\n", head + "tools: [{http: {name: find, url: \"https://crm.example.com\", auth: crm}}]\n", "app.yaml:2:8"},
		{"inline", "", head + "tools:\n  - http: {name: find, url: \"https://crm.example.com\", auth: {bearer: \"${env:T:-x}\"}}\n", "root_agent.yaml:5:62"},
		{
			"ADK's syntax", "", head + "tools:\n  - name: McpToolset\n    args:\n      streamable_http_connection_params: {url: \"https://mcp.example.com\"}\n" +
				"      auth_scheme: {type: http, scheme: bearer}\n", "root_agent.yaml:8:20",
		},
		{"Google", "", head + "tools:\n  - name: GmailToolset\n    args: {spec: gmail.json, client_id: id}\n", "root_agent.yaml:6:11"},
	} {
		dir := testenv.Files(t, "shop", map[string][]byte{
			"app.yaml":        []byte(tt.app + "models: {m: {provider: scripted, script: m.script.yaml}}\n"),
			"m.script.yaml":   []byte("- text: done\n"),
			"root_agent.yaml": []byte(tt.agent),
		})
		_, ds := loader.New(kinds, nil).LoadFiles(t.Context(), dir)
		if tt.place == "" {
			if ds.HasErrors() {
				t.Errorf("%s: %s", tt.name, ds)
			}
			continue
		}
		if len(ds) != 1 || ds[0].Message != want || !strings.HasSuffix(ds[0].Pos.String(), tt.place) || ds[0].Hint != "in Go, add the kind in package agenthost/wing/connection to loader.Kinds" {
			t.Errorf("%s: %s, want %s at %s", tt.name, ds, want, tt.place)
		}
	}
}
