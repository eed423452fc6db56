package main

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"agenthost/internal/command"
	"agenthost/internal/testenv"
	"agenthost/pkg/spec"
)

// Secrets that no output may contain: an app's, with characters that URLs, JSON and shells escape,
// and a caller's token.
const (
	canary       = `c4n4ry/v4lue<&"+{x}`
	callersToken = "c4n4ry-of-a-caller-0001"
)

// credentialStarts returns the texts in front of a secret in credentials, for each of the three
// base64 alignments.
func credentialStarts() []string {
	return []string{"me:", "you:", "user:", "Basic me:", "Basic you:", "Basic user:", "Bearer ", "\tBearer ", ": Bearer "}
}

// encodeCredentials returns a secret after each start in base64, for files and for URLs.
func encodeCredentials(secret string) string {
	var b strings.Builder
	for _, start := range credentialStarts() {
		text := []byte(start + secret)
		fmt.Fprintf(&b, " %s %s", base64.StdEncoding.EncodeToString(text), base64.RawURLEncoding.EncodeToString(text))
	}
	return b.String()
}

// newEchoService starts a service that repeats the received secret in its responses and
// errors, plain and encoded for URLs, JSON and base64, alone and in credentials, and counts
// requests with the secret.
func newEchoService(t *testing.T) (url string, received *atomic.Int64) {
	received = new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := cmp.Or(r.Header.Get("X-Goog-Api-Key"), strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
		if key == canary {
			received.Add(1)
		}
		inJSON, _ := json.Marshal(key)
		echo := fmt.Sprintf("received %s%s, %s, %q, %s, %s,%s at %s", r.Header.Get("Authorization"), r.Header.Get("X-Goog-Api-Key"),
			r.URL.Query().Get("key"), key, inJSON, base64.StdEncoding.EncodeToString([]byte(key)), encodeCredentials(key), r.URL)
		whole, _ := json.Marshal(map[string]any{"echo": echo, key: []string{key}})
		w.Header().Set("X-Echo", r.Header.Get("Authorization"))
		switch r.URL.Path {
		case "/good":
			_, _ = io.WriteString(w, echo)
		case "/json":
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(bytes.ReplaceAll(whole, []byte("/"), []byte(`\/`))) // as PHP writes it
		case "/away":
			w.Header().Set("Location", "http://[::1"+key)
			w.WriteHeader(http.StatusFound)
		case "/phrase":
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				fmt.Fprintf(conn, "HTTP/1.1 400 received %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", key)
				conn.Close()
			}
		case "/garbled/v1beta/models/m:generateContent", "/garbled/chat/completions":
			_, _ = io.WriteString(w, "{"+echo)
		default:
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, echo)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, received
}

// failingModels returns models whose errors contain the key in different ways.
func failingModels() []string {
	return []string{"real", "garbled", "other", "othergarbled", "unreachable"}
}

// writeSecretApp writes an app that uses the secret wherever possible: it calls tools
// that succeed, tools that fail, and a model that fails.
func writeSecretApp(t *testing.T, url, modelName string) (dir, secrets string) {
	t.Helper()
	text := `
models:
  demo: {provider: scripted, script: s.yaml}
  real: {provider: gemini, model: m, api_key: "${secret:TOKEN}", retry: {attempts: 1}, base_url: "URL"}
  garbled: {provider: gemini, model: m, api_key: "${secret:TOKEN}", retry: {attempts: 1}, base_url: "URL/garbled"}
  other: {provider: openai_compatible, model: m, api_key: "${secret:TOKEN}", retry: {attempts: 1}, base_url: "URL", headers: {X-Key: "${secret:TOKEN}"}}
  othergarbled: {provider: openai_compatible, model: m, api_key: "${secret:TOKEN}", retry: {attempts: 1}, base_url: "URL/garbled"}
  unreachable: {provider: openai_compatible, model: m, api_key: "${secret:TOKEN}", retry: {attempts: 1}, base_url: "http://127.0.0.1:1"}
plugins: [logging: {level: debug, contents: true}]
root_agent:
  agent_class: SequentialAgent
  name: a
  sub_agents:
    - name: caller
      model: demo
      instruction: Call.
      tools:
        - http: {name: good, url: "URL/good", headers: {Authorization: "Bearer ${secret:TOKEN}"}, query: {key: "${secret:TOKEN}"}, result: '{"body": body, "echo": headers["x-echo"]}'}
        - http: {name: as_json, url: "URL/json", headers: {Authorization: "Bearer ${secret:TOKEN}"}, query: {key: "${secret:TOKEN}"}}
        - http: {name: bad, url: "URL/bad", headers: {Authorization: "Bearer ${secret:TOKEN}"}, query: {key: "${secret:TOKEN}"}}
        - http: {name: phrase, url: "URL/phrase", headers: {Authorization: "Bearer ${secret:TOKEN}"}}
        - http: {name: away, url: "URL/away", headers: {Authorization: "Bearer ${secret:TOKEN}"}}
        - http: {name: gone, url: "http://127.0.0.1:1/gone", query: {key: "${secret:TOKEN}"}}
    - {name: answerer, model: MODEL, instruction: Answer.}
`
	top := testenv.Files(t, "top", map[string][]byte{
		"secrets/app/TOKEN": []byte(canary + "\n"),
		"secrets/CALLER":    []byte(callersToken + "\n"),
		"auth.yaml":         []byte("tokens: [{token: \"${secret:CALLER}\", claims: {sub: u}}]\nadmin: \"true\"\n"),
		"policy.yaml":       []byte("grants: [{apps: [app], network: [127.0.0.1]}]\n"),
		"app/app.yaml":      []byte(strings.NewReplacer("URL", url, "MODEL", modelName).Replace(text)),
		"app/s.yaml":        []byte("- {when: responses.good == nil, calls: [{name: good}, {name: as_json}, {name: bad}, {name: phrase}, {name: away}, {name: gone}]}\n- text: \"{responses}\"\n"),
	})
	return filepath.Join(top, "app"), filepath.Join(top, "secrets")
}

// TestVerbsRedactSecrets searches all verbs' outputs for the secret: output, logs, events, and
// stored files.
func TestVerbsRedactSecrets(t *testing.T) {
	outputs, total := 0, 0
	for _, modelName := range failingModels() {
		t.Run(modelName, func(t *testing.T) {
			n, size := searchVerbs(t, modelName)
			outputs, total = outputs+n, total+size
		})
	}
	t.Logf("shown: %d outputs and files of verbs searched, %d KiB", outputs, total>>10)
}

func searchVerbs(t *testing.T, modelName string) (outputs, size int) {
	url, received := newEchoService(t)
	dir, secrets := writeSecretApp(t, url, modelName)
	db := filepath.Join(t.TempDir(), "s.db")
	at := []string{"--session-db", "sqlite:///" + db}
	all := new(bytes.Buffer)
	for _, args := range [][]string{
		{"check", dir, "--secrets", secrets},
		{"check", dir, "--format", "json", "--secrets", secrets},
		{"check", dir, "--portable", "--secrets", secrets},
		{"config", dir, "--resolved", "--secrets", secrets},
		{"config", dir, "--secrets", secrets},
		{"preview", dir, "Hello", "--agent", "answerer", "--session-db", "memory:", "--secrets", secrets},
		append([]string{"run", dir, "Hello", "--json", "--session", "s", "--secrets", secrets}, at...),
		append([]string{"run", dir, "Hello", "--secrets", secrets, "--record", filepath.Join(filepath.Dir(db), "record.yaml")}, at...),
		append([]string{"session", "list", dir}, at...),
		append([]string{"session", "show", dir, "s"}, at...),
		append([]string{"why", dir, "s"}, at...),
		append([]string{"revisions", dir}, at...),
		append([]string{"plan", dir, "--secrets", secrets}, at...),
		append([]string{"record", dir, "s", "--out", filepath.Join(filepath.Dir(db), "case.yaml"), "--secrets", secrets}, at...),
		{"export", dir, "--adk", filepath.Join(filepath.Dir(db), "adk"), "--secrets", secrets},
	} {
		run(t.Context(), args, command.Env{In: strings.NewReader(""), Out: all, Err: all})
		outputs++
	}
	if want := int64(12); modelName != "unreachable" && received.Load() < want {
		t.Errorf("the service received the secret %d times, want %d:\n%s", received.Load(), want, all)
	}
	if strings.Count(all.String(), "received Bearer ***") < 2 {
		t.Errorf("the output does not contain the responses:\n%s", all)
	}
	// An invalid app's errors are searched too.
	if err := os.WriteFile(filepath.Join(dir, "s.yaml"), []byte("- text: ${secret:TOKEN}\n- texts: ${secret:TOKEN}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code := run(t.Context(), []string{"check", dir, "--secrets", secrets}, command.Env{Out: all, Err: all}); code != command.ExitProblems {
		t.Errorf("a secret in a script: exit status %d, want %d", code, command.ExitProblems)
	}
	checkNoSecret(t, "the output", all.Bytes())
	err := filepath.WalkDir(filepath.Dir(db), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			text := []byte(readText(t, path))
			checkNoSecret(t, path, text)
			outputs, size = outputs+1, size+len(text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return outputs, size + all.Len()
}

// findSecret returns the index of a secret in text, plain or encoded, or -1. It searches for a part
// that templates, shells and URLs do not change, for its base64 at each of the three alignments,
// and for part of it next to its replacement.
func findSecret(text []byte) int {
	const marker = "c4n4ry"
	forms := []string{marker, hex.EncodeToString([]byte(marker))}
	for before := range 3 {
		code := base64.RawStdEncoding.EncodeToString([]byte("xx"[:before] + marker))
		// The first and last characters contain bits from adjacent bytes.
		forms = append(forms, code[(before*8+5)/6:len(code)-1])
	}
	for _, start := range credentialStarts() {
		forms = append(forms, partlyRedacted(start)...)
	}
	for _, form := range forms {
		if at := bytes.Index(text, []byte(form)); at >= 0 {
			return at
		}
	}
	return -1
}

// partlyRedacted returns a credential's base64 whose replacement leaves the first or the last
// character with the secret's bits.
func partlyRedacted(start string) (forms []string) {
	code := base64.StdEncoding.EncodeToString([]byte(start + canary))
	plain := strings.TrimRight(code, "=")
	first, rest := plain[:len(start)*8/6], plain[len(start)*8/6:]
	if len(start)%3 != 0 {
		forms = append(forms, first+rest[:1]+"***")
	}
	return append(forms, first+"***"+plain[len(plain)-1:])
}

func checkNoSecret(t *testing.T, where string, b []byte) {
	t.Helper()
	if at := findSecret(b); at >= 0 {
		t.Errorf("%s contains the secret: …%s…", where, b[max(0, at-200):min(len(b), at+80)])
	}
}

// TestSecretSearchFindsLeaks is the control: findSecret finds a leaking logger's secret in every
// form.
func TestSecretSearchFindsLeaks(t *testing.T) {
	inJSON, err := json.Marshal(canary)
	if err != nil {
		t.Fatal(err)
	}
	forms := map[string]string{
		"plain": canary, "in a header": "Bearer " + canary, "quoted": fmt.Sprintf("%q", canary), "JSON": string(inJSON), "query": url.QueryEscape(canary), "path": url.PathEscape(canary),
		"base64": base64.StdEncoding.EncodeToString([]byte(canary)), "base64 for URLs": base64.URLEncoding.EncodeToString([]byte("x" + canary)),
		"Basic": base64.StdEncoding.EncodeToString([]byte("me:" + canary)), "hexadecimal": hex.EncodeToString([]byte(canary)), "a struct": fmt.Sprintf("%+v", struct{ Key string }{canary}),
	}
	for _, start := range credentialStarts() {
		text := []byte(start + canary)
		forms["base64 of "+start] = base64.StdEncoding.EncodeToString(text)
		forms["base64 for URLs of "+start] = base64.RawURLEncoding.EncodeToString(text)
		for i, form := range partlyRedacted(start) {
			forms[fmt.Sprintf("part %d of base64 of %s", i, start)] = form
		}
		forms["base64 as redacted by old versions of "+start] = redactInside(start)
	}
	caught := 0
	for name, form := range forms {
		var log bytes.Buffer
		slog.New(slog.NewTextHandler(&log, nil)).Info("asking", "header", form)
		if findSecret(log.Bytes()) >= 0 {
			caught++
		} else {
			t.Errorf("%s: findSecret misses %s", name, &log)
		}
	}
	redacted := "Bearer ***" + spec.NewRedactor(canary).RedactString(encodeCredentials(canary))
	if at := findSecret([]byte(redacted)); at >= 0 || strings.Count(redacted, "***") != 1+2*len(credentialStarts()) {
		t.Errorf("findSecret reports %d in redacted secrets: %s", at, redacted)
	}
	t.Logf("shown: control, a logger that leaks: found in %d of %d forms", caught, len(forms))
}

// redactInside returns a credential's base64 without the characters that encode only the secret's
// bits: the first and the last one with some of its bits stay.
func redactInside(start string) string {
	code := base64.StdEncoding.EncodeToString([]byte(start + canary))
	plain := strings.TrimRight(code, "=")
	return plain[:(len(start)*8+5)/6] + "***" + code[len(plain)-1:]
}

// TestServeRedactsSecrets does the same for serve with debug logs, developer tools and
// exported traces: it searches all responses, the log and the traces.
func TestServeRedactsSecrets(t *testing.T) {
	outputs := 0
	for _, modelName := range failingModels() {
		t.Run(modelName, func(t *testing.T) { outputs += searchResponses(t, modelName) })
	}
	t.Logf("shown: %d answers, logs and traces of serve searched", outputs)
}

func searchResponses(t *testing.T, modelName string) (outputs int) {
	url, _ := newEchoService(t)
	dir, secrets := writeSecretApp(t, url, modelName)
	traces, received := newCollector(t)
	ctx, cancel := context.WithCancel(t.Context())
	log := new(bytes.Buffer)
	out, in := io.Pipe()
	exitCode := make(chan int)
	go func() {
		exitCode <- run(ctx, []string{
			"serve", dir, "--addr", "127.0.0.1:0", "--session-db", "memory:", "--artifacts", "memory:", "--dev",
			"--otlp", traces, "--trace-contents", "--auth", filepath.Join(filepath.Dir(dir), "auth.yaml"),
			"--secrets", secrets, "--log-level", "debug", "--auto-create-session", "--policy", filepath.Join(filepath.Dir(dir), "policy.yaml"),
		}, command.Env{In: strings.NewReader(""), Out: in, Err: log})
		in.Close()
	}()
	greeting := bufio.NewReader(out)
	line, err := greeting.ReadString('\n')
	if err != nil {
		t.Fatal(err, log)
	}
	go func() { _, _ = io.Copy(io.Discard, greeting) }()
	base := strings.TrimSpace(strings.TrimPrefix(line, "agenthost serves at "))
	const message = `{"appName":"app","userId":"u","sessionId":"s","streaming":true,"newMessage":{"parts":[{"text":"Hello"}]}}`
	responses := []string{
		sendPlain(t, http.MethodPost, base+"/run_sse", message),
		sendPlain(t, http.MethodPost, base+"/run", message),
		sendPlain(t, http.MethodPost, base+"/apps/app/preview", `{"agent":"answerer","text":"hi","userId":"u"}`),
		sendPlain(t, http.MethodPost, base+"/-/reload", ""),
	}
	if err := os.WriteFile(filepath.Join(dir, "s.yaml"), []byte("- texts: ${secret:TOKEN}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	responses = append(responses, sendPlain(t, http.MethodPost, base+"/-/reload", ""))
	for _, path := range []string{
		"/apps/app/users/u/sessions/s", "/apps/app/users/u/sessions", "/apps/app/diagnostics", "/apps/app/app-info", "/list-apps?detailed=true", "/metrics", "/readyz",
		"/debug/trace/session/s", "/apps/app/builder", "/apps/app/builder?file_path=app.yaml", "/apps/app/graph", "/apps/app/build_graph", "/apps/app/tests", "/unknown",
	} {
		responses = append(responses, sendPlain(t, http.MethodGet, base+path, ""))
	}
	cancel()
	if code := <-exitCode; code != command.ExitOK {
		t.Errorf("serve: exit status %d\n%s", code, log)
	}
	joined := strings.Join(responses, "\n")
	if !strings.Contains(joined, "received Bearer ***") || !strings.Contains(received.String(), "Hello") {
		t.Errorf("the responses or the traces are missing:\n%s\n%s", joined, received)
	}
	for _, response := range responses {
		checkNoSecret(t, "a response", []byte(response))
	}
	checkNoSecret(t, "the log", log.Bytes())
	checkNoSecret(t, "the traces", received.Bytes())
	return len(responses) + 2
}

// newCollector starts a trace collector and returns the data that it received.
func newCollector(t *testing.T) (url string, received *bytes.Buffer) {
	received = new(bytes.Buffer)
	var mu sync.Mutex
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		body := io.Reader(r.Body)
		if zipped, err := gzip.NewReader(r.Body); r.Header.Get("Content-Encoding") == "gzip" && err == nil {
			body = zipped
		}
		_, _ = io.Copy(received, body)
	}))
	t.Cleanup(s.Close)
	return s.URL, received
}

func sendPlain(t *testing.T, method, url, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+callersToken)
	// A separate client leaves no connection open.
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
	return fmt.Sprint(resp.Header, string(b))
}
