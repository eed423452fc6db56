package a2aserver_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"agenthost/internal/policy"
	"agenthost/internal/servertest"
	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
	"agenthost/pkg/spec"
)

// call sends a body as the user u.
func call(e *servertest.Env, path string, body []byte) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+tokenU)
	w := httptest.NewRecorder()
	e.Server.ServeHTTP(w, r)
	return w
}

// Hostile bodies get an error without a 5xx status or an internal error's code, and start no turn.
func TestHostileBodies(t *testing.T) {
	e, _ := newReplica(t, "", nil)
	part := func(text string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[` + text + `]}}}`
	}
	for name, body := range map[string]string{
		"empty":           "",
		"no object":       "[]",
		"cut":             part(`{"text":"hello"}`)[:80],
		"deep":            part(`{"data":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`),
		"many parts":      part(strings.Repeat(`{"text":"x"},`, 200) + `{"text":"x"}`),
		"no part":         part("null"),
		"two kinds":       part(`{"text":"x","url":"https://example.com"}`),
		"wrong type":      part(`{"text":7}`),
		"wrong params":    `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":[]}`,
		"no params":       `{"jsonrpc":"2.0","id":1,"method":"GetTask"}`,
		"object as id":    `{"jsonrpc":"2.0","id":{},"method":"GetTask","params":{"id":"x"}}`,
		"long task":       `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"` + strings.Repeat("x", 100_000) + `.c"}}`,
		"control in task": `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"e-1.\u0000"}}`,
		"long context":    `{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{"contextId":"` + strings.Repeat("x", 100_000) + `"}}`,
		"old parts":       `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"kind":"message","messageId":"m","role":"user","parts":[{"kind":"file"}]}}}`,
		"old role":        `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"kind":"message","messageId":"m","role":"agent","parts":[{"kind":"text","text":"x"}]}}}`,
	} {
		for _, path := range []string{"/a2a/desk", "/a2a/desk/message:send", "/a2a/desk/v1/message:send"} {
			w := call(e, path, []byte(body))
			if w.Code >= http.StatusInternalServerError || strings.Contains(w.Body.String(), "-32603") || w.Code == http.StatusOK && !strings.Contains(w.Body.String(), `"error"`) {
				t.Errorf("%s at %s: %d %.300s", name, path, w.Code, w.Body)
			}
		}
	}
	sessions, err := e.Store.Sessions.List(t.Context(), "desk", "u")
	if err != nil || len(sessions) > 0 {
		t.Errorf("sessions: %v, %v", sessions, err)
	}
}

// A stream whose client leaves at any of its events ends, and the run does not: the task completes.
func TestDisconnects(t *testing.T) {
	e, address := newReplica(t, "", nil)
	p := newUserPeer(t, e, address, tokenU)
	for at := range 7 {
		ctx, leave := context.WithCancel(t.Context())
		var id a2a.TaskID
		seen := 0
		for ev, err := range p.SendStreamingMessage(ctx, newMessage("a story")) {
			if err != nil {
				break
			}
			id = ev.TaskInfo().TaskID
			if seen == at {
				leave()
			}
			seen++
		}
		leave()
		if done := p.get(id); textOf(done) != "Once, in a town, it rained." {
			t.Errorf("left at event %d: %v", at, done)
		}
	}
}

// Each problem of a2a_server is reported at its place.
func TestSectionProblems(t *testing.T) {
	for section, want := range map[string]string{
		"{agents: [stranger]}":                               `agent "stranger" not found in the agent tree, or it is a workflow's node`,
		"{icon_url: http://example.com}":                     `icon_url must be an https:// address, got "http://example.com"`,
		"{documentation_url: x}":                             `documentation_url must be an https:// address, got "x"`,
		"{provider: {organization: A, url: 'javascript:x'}}": `provider.url must be an https:// address, got "javascript:x"`,
		"{provider: {organization: A}}":                      "url",
		"{agents: [" + strings.Repeat("a,", 65) + "]}":       "agents exceeds the limit of 64, got 65",
		"{push_hosts: ['https://hooks.example.com/']}":       `push_hosts must be hosts such as hooks.example.com, hooks.example.com:8443 or *.example.com, got "https://hooks.example.com/"`,
		"{push_hosts: ['*']}":                                `got "*"`,
		"{push_hosts: [" + strings.Repeat("a,", 33) + "]}":   "push_hosts exceeds the limit of 32, got 33",
		"{push: true}":                                       "push",
	} {
		if got := loadSection(t, section); !strings.Contains(got, want) {
			t.Errorf("%.80s reports %q, want %q", section, got, want)
		}
	}
	for _, section := range []string{"{}", "{push_hosts: [hooks.example.com, '*.example.com', '127.0.0.1:9']}"} {
		if got := loadSection(t, section); got != "" {
			t.Errorf("control: %s", got)
		}
	}
}

// The policy of the host decides about push_hosts as about tools' addresses: other machines' apps need a grant
// for a private address, and with a policy file for each host.
func TestPushHostsPolicy(t *testing.T) {
	n, _ := spec.Parse("policy.yaml", []byte("grants: [{network: [hooks.example.com, '*.example.org']}]\n"))
	granted, ds := policy.Decode(n)
	if err := ds.Err(); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		policy *policy.Policy
		hosts  string
		want   string
	}{
		{nil, "127.0.0.1:9", "app desk may not reach 127.0.0.1:9 (a private address)"},
		{nil, "169.254.169.254", "app desk may not reach 169.254.169.254 (a private address)"},
		{nil, "hooks.example.net", ""},
		{granted, "hooks.example.com", ""},
		{granted, "'*.example.org'", ""},
		{granted, "hooks.example.net", "app desk may not reach hooks.example.net"},
		{granted, "'*.example.com'", "app desk may not reach *.example.com"},
	} {
		got := loadSectionWith(t, "{push_hosts: ["+tt.hosts+"]}", &loader.Options{Policy: tt.policy.For(policy.Host{Shared: true})})
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s reports %q, want %q", tt.hosts, got, tt.want)
		}
	}
}

func loadSection(t *testing.T, section string) string {
	t.Helper()
	return loadSectionWith(t, section, nil)
}

// loadSectionWith returns the problems of an app with the section.
func loadSectionWith(t *testing.T, section string, opts *loader.Options) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "desk")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{
		"app.yaml":        "models: {m: {provider: scripted, script: s.yaml}}\na2a_server: " + section + "\n",
		"root_agent.yaml": "name: desk\nmodel: m\ninstruction: x\n", "s.yaml": "- text: hi\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	app, problems := loader.New(testenv.Kinds(), opts).Load(t.Context(), dir)
	if app != nil {
		defer app.Close()
	}
	if err := problems.Err(); err != nil {
		return err.Error()
	}
	return ""
}
