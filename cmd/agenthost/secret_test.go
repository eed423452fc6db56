package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"agenthost/internal/testenv"
)

// canary is a secret that must not come out anywhere.
const canary = "c4n4ry-v4lue-{x}"

// repeating is a service that says all that it was told, in its answers and in
// its failures, and counts who knew the secret.
func repeating(t *testing.T) (url string, knew *atomic.Int64) {
	knew = new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer "+canary || r.Header.Get("X-Goog-Api-Key") == canary {
			knew.Add(1)
		}
		w.Header().Set("X-Said", r.Header.Get("Authorization"))
		if r.URL.Path != "/good" {
			w.WriteHeader(http.StatusBadRequest)
		}
		_, _ = w.Write([]byte("you said " + r.Header.Get("Authorization") + r.Header.Get("X-Goog-Api-Key") + r.URL.Query().Get("key")))
	}))
	t.Cleanup(s.Close)
	return s.URL, knew
}

// guarded is an app that uses the secret wherever it may: it calls a tool that
// answers, one that fails, and a model that fails.
func guarded(t *testing.T, url string) (dir, secrets string) {
	t.Helper()
	top := testenv.Files(t, "top", map[string][]byte{
		"secrets/TOKEN": []byte(canary + "\n"),
		"app/app.yaml": []byte(`
models:
  demo: {provider: scripted, script: s.yaml}
  real: {provider: gemini, model: gemini-x, api_key: "${secret:TOKEN}", base_url: "` + url + `"}
plugins: [logging: {level: debug, contents: true}]
root_agent:
  agent_class: SequentialAgent
  name: a
  sub_agents:
    - name: caller
      model: demo
      instruction: Call.
      tools:
        - http: {name: good, url: "` + url + `/good", headers: {Authorization: "Bearer ${secret:TOKEN}"}, query: {key: "${secret:TOKEN}"}, result: '{"body": body, "said": headers["x-said"]}'}
        - http: {name: bad, url: "` + url + `/bad", headers: {Authorization: "Bearer ${secret:TOKEN}"}}
    - {name: asker, model: real, instruction: Answer.}
`),
		"app/s.yaml": []byte("- {when: responses.good == nil, calls: [{name: good}, {name: bad}]}\n- text: \"{responses}\"\n"),
	})
	return filepath.Join(top, "app"), filepath.Join(top, "secrets")
}

// TestSecretsStayInside lets every way out of the program speak, and listens for
// the secret: output, logs, events, answers over HTTP, and what is stored.
func TestSecretsStayInside(t *testing.T) {
	url, knew := repeating(t)
	dir, secrets := guarded(t, url)
	db := filepath.Join(t.TempDir(), "s.db")
	all := new(bytes.Buffer)
	for _, args := range [][]string{
		{"check", dir},
		{"check", dir, "--format", "json"},
		{"check", dir, "--portable"},
		{"config", dir, "--resolved"},
		{"config", dir},
		{"preview", dir, "Hello", "--agent", "asker", "--session-db", "memory:"},
		{"run", dir, "Hello", "--json", "--session-db", "sqlite:///" + db},
		{"run", dir, "Hello", "--session-db", "sqlite:///" + db, "--record", filepath.Join(filepath.Dir(db), "record.yaml")},
	} {
		run(t.Context(), append(args, "--secrets", secrets), stdio{strings.NewReader(""), all, all})
	}
	if knew.Load() != 6 {
		t.Errorf("the service was told the secret %d times, want 6:\n%s", knew.Load(), all)
	}
	if strings.Count(all.String(), "you said Bearer ***") < 2 {
		t.Errorf("the answers are not there:\n%s", all)
	}
	// An app that is refused speaks too.
	if err := os.WriteFile(filepath.Join(dir, "s.yaml"), []byte("- text: ${secret:TOKEN}\n- texts: ${secret:TOKEN}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code := run(t.Context(), []string{"check", dir, "--secrets", secrets}, stdio{nil, all, all}); code != exitNo {
		t.Errorf("a secret in a script: exit status %d, want %d", code, exitNo)
	}
	hearken(t, "the output", all.Bytes())
	err := filepath.WalkDir(filepath.Dir(db), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			hearken(t, path, []byte(read(t, path)))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// hearken looks for the secret, and for it without what a template could change.
func hearken(t *testing.T, where string, b []byte) {
	t.Helper()
	if at := bytes.Index(b, []byte("c4n4ry")); at >= 0 {
		t.Errorf("%s tells the secret: …%s…", where, b[max(0, at-80):min(len(b), at+80)])
	}
}

// TestSecretsStayInsideServe is the same for serve, with its log at its loudest.
func TestSecretsStayInsideServe(t *testing.T) {
	url, _ := repeating(t)
	dir, secrets := guarded(t, url)
	ctx, cancel := context.WithCancel(t.Context())
	log := new(bytes.Buffer)
	out, in := io.Pipe()
	ended := make(chan int)
	go func() {
		ended <- run(ctx, []string{
			"serve", dir, "--addr", "127.0.0.1:0", "--session-db", "memory:", "--artifacts", "memory:",
			"--secrets", secrets, "--log-level", "debug", "--auto-create-session",
		}, stdio{nil, in, log})
	}()
	greeting := bufio.NewReader(out)
	line, err := greeting.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, greeting) }()
	base := strings.TrimSpace(strings.TrimPrefix(line, "agenthost serves at "))
	said := askPlainly(t, http.MethodPost, base+"/run_sse", `{"appName":"app","userId":"u","sessionId":"s","newMessage":{"parts":[{"text":"Hello"}]}}`)
	said += askPlainly(t, http.MethodGet, base+"/apps/app/users/u/sessions/s", "")
	said += askPlainly(t, http.MethodGet, base+"/apps/app/diagnostics", "")
	cancel()
	if code := <-ended; code != exitGood {
		t.Errorf("serve: exit status %d\n%s", code, log)
	}
	in.Close()
	if !strings.Contains(said, "you said Bearer ***") {
		t.Errorf("the answers are not there:\n%s", said)
	}
	hearken(t, "the answer", []byte(said))
	hearken(t, "the log", log.Bytes())
}

func askPlainly(t *testing.T, method, url, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	// A client of its own leaves no connection open.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
