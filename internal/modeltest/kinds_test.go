package modeltest_test

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/fake/fakeopenai"
	"agenthost/internal/modeltest"
	"agenthost/pkg/provider"
	"agenthost/pkg/spec"
	"agenthost/wing/gemini"
	"agenthost/wing/openai"
)

func TestKindsNameModel(t *testing.T) {
	files := map[string]string{"demo.yaml": "- text: hi"}
	tests := []struct{ name, src, want string }{
		{"gemini without a key", "{provider: gemini, model: gemini-x, retry: {codes: [429, 503], attempts: 4}}", "gemini-x"},
		{"gemini elsewhere", "{provider: gemini, model: gemini-x, base_url: 'http://127.0.0.1:1', api_key: k}", "gemini-x"},
		{"openai elsewhere", "{provider: openai_compatible, model: qwen, base_url: 'http://127.0.0.1:1/v1', headers: {X-Key: k}, fallback: [a]}", "qwen"},
		{"openai", "{provider: openai_compatible, model: gpt-x}", "gpt-x"},
		{"scripted with retries", "{provider: scripted, script: demo.yaml, retry: {attempts: 2}}", "scripted"},
		{"scripted", "{provider: scripted, script: demo.yaml}", "scripted"},
		{"scripted with a name", "{provider: scripted, script: demo.yaml, model: demo}", "demo"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			llm, problems := modeltest.BuildModel(t, tt.src, files)
			if problems != nil {
				t.Fatalf("problems: %q", problems)
			}
			if got := llm.Name(); got != tt.want {
				t.Errorf("Name() = %s, want %s", got, tt.want)
			}
		})
	}
}

// Each kind with call settings returns its fallbacks, limits and price. Without the methods the
// settings would be decoded and have no effect.
func TestKindsReturnCallSettings(t *testing.T) {
	found := 0
	for _, kind := range modeltest.AllKinds() {
		if !hasCallSettings(kind.NewConfig()) {
			continue
		}
		found++
		t.Run(kind.Name, func(t *testing.T) {
			src := "{provider: " + kind.Name + ", model: gemini-x, fallback: [spare], limits: {concurrent: 3}, price: {input: 1, output: 2}}"
			n, ds := spec.Parse("app.yaml", []byte(src))
			plan, more := kind.Decode(n)
			if err := append(ds, more...).Err(); err != nil {
				t.Fatal(err)
			}
			if c, ok := plan.Config.(provider.FallbackConfig); !ok || len(c.Fallbacks()) != 1 || c.Fallbacks()[0].Model.Value != "spare" {
				t.Errorf("%T has no fallbacks", plan.Config)
			}
			if c, ok := plan.Config.(provider.PricedConfig); !ok || c.ModelPrice() == nil {
				t.Errorf("%T has no price", plan.Config)
			}
			c, ok := plan.Config.(provider.LimitedConfig)
			if !ok {
				t.Fatalf("%T has no limits", plan.Config)
			}
			if limits, limited := c.CallLimits(); !limited || limits.Concurrent != 3 {
				t.Errorf("CallLimits() = %v, %v, want 3 concurrent calls", limits, limited)
			}
		})
	}
	if found < 15 {
		t.Errorf("%d kinds have the settings of calls, want most", found)
	}
}

// hasCallSettings reports whether a config has a CallsConfig field.
func hasCallSettings(config any) bool {
	for _, f := range reflect.VisibleFields(reflect.TypeOf(config).Elem()) {
		if f.Type.Name() == "CallsConfig" {
			return true
		}
	}
	return false
}

func TestKindsProblems(t *testing.T) {
	files := map[string]string{"bad.yaml": "- when: xyzzy\n  text: hi\n- {}"}
	tests := []struct {
		name, src string
		files     map[string]string
		want      []string
	}{
		{"no model", "{provider: gemini}", files, []string{`app.yaml:1:1: missing field "model" [required]`}},
		{
			"base_url", "{provider: gemini, model: m, base_url: example.com}", files,
			[]string{"app.yaml:1:40: base_url must be a URL such as https://example.com [value]"},
		},
		{
			"retry", "{provider: gemini, model: m, retry: {codes: [200, 429], attempts: 0}}", files,
			[]string{
				"app.yaml:1:46: 200 is not an error status, must be 400 to 599 [value]",
				"app.yaml:1:67: attempts must be at least 1; 1 disables retries [value]",
			},
		},
		{
			"openai", "{provider: openai_compatible, base_url: x, retry: {attempts: 0}}", files,
			[]string{
				`app.yaml:1:1: missing field "model" [required]`,
				"app.yaml:1:41: base_url must be a URL such as https://example.com [value]",
				"app.yaml:1:62: attempts must be at least 1; 1 disables retries [value]",
			},
		},
		{"no script", "{provider: scripted}", files, []string{`app.yaml:1:1: missing field "script" [required]`}},
		{"missing script", "{provider: scripted, script: x.yaml}", files, []string{"app.yaml:1:30: no such file [file]"}},
		{"no files", "{provider: scripted, script: x.yaml}", nil, []string{"app.yaml:1:30: there are no files to read x.yaml from [script]"}},
		{"script with problems", "{provider: scripted, script: bad.yaml}", files, []string{
			"bad.yaml:1:9: unknown name xyzzy [expression]",
			"bad.yaml:3:3: an entry requires text, json, calls, thought, parts, finish, close or error [script]",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, got := modeltest.BuildModel(t, tt.src, tt.files)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// The host's key is sent only to the provider and to an address that the host sets,
// never to one that the app sets by base_url or its .env. The app's own key is sent to
// either.
func TestHostKeyStaysWithHostAddress(t *testing.T) {
	const vertex = "GOOGLE_GENAI_USE_VERTEXAI"
	service, chat := modeltest.NewFake(t), fakeopenai.New()
	defer chat.Close()
	for _, tt := range []struct {
		name      string
		host, app map[string]string
		base, key string // the document's
		vertex    bool
		want      string // the end of the key; "" is none
	}{
		{"host key, host address", map[string]string{"GOOGLE_API_KEY": "k-host", "GOOGLE_GEMINI_BASE_URL": "URL"}, nil, "", "", false, "host"},
		{"host key, address of .env", map[string]string{"GOOGLE_API_KEY": "k-host"}, map[string]string{"GOOGLE_GEMINI_BASE_URL": "URL"}, "", "", false, ""},
		{"host key, base_url", map[string]string{"GOOGLE_API_KEY": "k-host", "GEMINI_API_KEY": "k-host"}, nil, "URL", "", false, ""},
		{"app key, base_url", map[string]string{"GOOGLE_API_KEY": "k-host"}, map[string]string{"GOOGLE_API_KEY": "k-apps"}, "URL", "", false, "apps"},
		{"app key, host address", map[string]string{"GOOGLE_GEMINI_BASE_URL": "URL"}, map[string]string{"GOOGLE_API_KEY": "k-apps"}, "", "", false, "apps"},
		{"document's key, base_url", map[string]string{"GOOGLE_API_KEY": "k-host"}, nil, "URL", "k-docs", false, "docs"},
		{"express mode, address of .env", map[string]string{vertex: "1", "GOOGLE_API_KEY": "k-host"}, map[string]string{"GOOGLE_VERTEX_BASE_URL": "URL"}, "", "", false, ""},
		{"Vertex chosen by .env, base_url", map[string]string{"GOOGLE_API_KEY": "k-host"}, map[string]string{vertex: "1"}, "URL", "", false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fill := strings.NewReplacer("URL", service.URL())
			for _, vars := range []map[string]string{tt.host, tt.app} {
				for name, value := range vars {
					vars[name] = fill.Replace(value)
				}
			}
			before := len(service.Requests())
			llm := gemini.New("gemini-x", &gemini.Options{
				Lookup: modeltest.Lookup(tt.host), App: tt.app, BaseURL: fill.Replace(tt.base), APIKey: tt.key, HTTP: service.Client(), Retry: provider.RetryOptions{Attempts: 1},
			})
			_, err := modeltest.Ask(t, llm, false)
			for _, req := range service.Requests()[before:] {
				if tt.want == "" && req.Credential != "" || !strings.HasSuffix(req.Credential, tt.want) {
					t.Errorf("the address got the credential %q, want the key …%s", req.Credential, tt.want)
				}
			}
			if (tt.want != "") != (err == nil && len(service.Requests()) > before) {
				t.Errorf("Generate() = %v after %d requests", err, len(service.Requests())-before)
			}
		})
	}
	for _, tt := range []struct {
		name      string
		host, app map[string]string
		want      string
	}{
		{"host key, address of .env", map[string]string{"OPENAI_API_KEY": "k-host"}, map[string]string{"OPENAI_BASE_URL": chat.URL()}, ""},
		{"app key, address of .env", map[string]string{"OPENAI_API_KEY": "k-host"}, map[string]string{"OPENAI_BASE_URL": chat.URL(), "OPENAI_API_KEY": "k-apps"}, "k-apps"},
		{"host key, host address", map[string]string{"OPENAI_API_KEY": "k-host", "OPENAI_BASE_URL": chat.URL()}, map[string]string{"OPENAI_BASE_URL": "http://127.0.0.1:1"}, "k-host"},
	} {
		t.Run("OpenAI, "+tt.name, func(t *testing.T) {
			if _, err := modeltest.Ask(t, openai.New("m", &openai.Options{Lookup: modeltest.Lookup(tt.host), App: tt.app, HTTP: chat.Client()}), false); err != nil {
				t.Fatal(err)
			}
			if got := strings.TrimPrefix(chat.Requests()[len(chat.Requests())-1].Header.Get("Authorization"), "Bearer "); got != tt.want {
				t.Errorf("the address got the key %q, want %q", got, tt.want)
			}
		})
	}
}

// A location that changes the host name is rejected before a request is sent.
func TestVertexLocation(t *testing.T) {
	for _, location := range []string{"evil.example/#", "evil.example:443/", "user@evil.example/x?", "EU West", strings.Repeat("a", 64)} {
		sent := false
		llm := gemini.New("gemini-x", &gemini.Options{
			Lookup: modeltest.Lookup(map[string]string{"GOOGLE_GENAI_USE_VERTEXAI": "1", "GOOGLE_CLOUD_PROJECT": "p"}), App: map[string]string{"GOOGLE_CLOUD_LOCATION": location},
			Token: func(context.Context) (string, error) { sent = true; return "token", nil },
		})
		_, err := modeltest.Ask(t, llm, false)
		want := "model: 400 INVALID_ARGUMENT: GOOGLE_CLOUD_LOCATION must be a region such as europe-west1, got \"" + location + "\""
		if modeltest.ErrorText(err) != want || sent {
			t.Errorf("location %q: %v, want %s", location, err, want)
		}
	}
}

// http_options cannot change a call's address: it would receive the key.
func TestRequestBaseURL(t *testing.T) {
	fake, evil := modeltest.NewFake(t), modeltest.NewFake(t)
	opts := modeltest.FakeOptions(fake)
	req := modeltest.ScriptInput("hi", false)
	req.Config = &genai.GenerateContentConfig{HTTPOptions: &genai.HTTPOptions{BaseURL: evil.URL()}}
	_, err := modeltest.Collect(gemini.New("gemini-x", opts).Generate(t.Context(), req))
	want := "model: 400 INVALID_ARGUMENT: http_options cannot change a call's address: set the model's base_url"
	if modeltest.ErrorText(err) != want || len(evil.Requests()) > 0 {
		t.Errorf("Generate() = %v after %d requests, want %s", err, len(evil.Requests()), want)
	}
}
