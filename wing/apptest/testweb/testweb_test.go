package testweb_test

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agenthost/internal/auth"
	"agenthost/internal/servertest"
	"agenthost/internal/testenv"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/wing/apptest/testweb"
)

// folder is the served app's folder.
type folder string

// Open opens the folder.
func (f folder) Open(app string) (*os.Root, error) {
	if app != "desk" {
		return nil, session.ErrNotFound
	}
	return os.OpenRoot(string(f))
}

// Save writes the files; the host does not watch the folder.
func (f folder) Save(_ context.Context, _ string, files map[string][]byte) (spec.Diagnostics, error) {
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(string(f), name), text, 0o600); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

type desk struct {
	server *server.Server
	dir    string
	// events are the two answers' IDs in the session s.
	events []string
}

func newDesk(t *testing.T, isDev bool) *desk {
	t.Helper()
	e := testenv.New(t, nil)
	d := &desk{dir: testenv.Files(t, "desk", map[string][]byte{
		"app.yaml":        []byte("models:\n  demo: {provider: scripted, script: s.yaml}\n"),
		"s.yaml":          []byte("- text: \"You wrote: {user}\"\n"),
		"root_agent.yaml": []byte("name: desk\nmodel: demo\ninstruction: Serve.\n"),
	})}
	e.Load(t, d.dir)
	key := e.Session(t, "desk", "s", nil)
	for _, text := range []string{"hello", "- name: {\"evil\"}"} {
		for ev, err := range e.Host.Run(t.Context(), &runtime.RunRequest{App: key.App, UserID: key.User, SessionID: key.ID, Message: model.UserText(text)}) {
			if err != nil {
				t.Fatal(err)
			}
			d.events = append(d.events, ev.ID)
		}
	}
	n, _ := spec.Parse("auth.yaml", []byte(`tokens: [{token: u-u-u-u-u-u-u-u-u-u, claims: {sub: u}}, {token: ops-ops-ops-ops-ops, claims: {sub: ops}}]
admin: claims.sub == "ops"`))
	callers, ds := auth.Decode(n, nil)
	if ds.HasErrors() {
		t.Fatal(ds)
	}
	t.Cleanup(callers.Close)
	opts := &testweb.Options{Loader: e.Loader, Folders: folder(d.dir), Dev: isDev}
	d.server = server.New(e.Host, &server.Options{Auth: callers, Extensions: []func(*server.Services) *server.Extension{testweb.Extend(opts)}})
	return d
}

func (d *desk) save(token, session, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", "/dev/apps/desk/users/u/sessions/"+session+"/save-test", strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	d.server.ServeHTTP(w, r)
	return w
}

const ops = "ops-ops-ops-ops-ops"

// A test has the turns up to the named event, is added to the file, and passes. Text of the
// conversation stays text.
func TestSaveTest(t *testing.T) {
	d := newDesk(t, true)
	for _, c := range []struct{ body, has, hasNot string }{
		{`{"name": "greets", "eventId": "` + d.events[0] + `"}`, `user: "hello"`, "evil"},
		{`{"name": "answers: [all]"}`, "evil", ""},
	} {
		w := d.save(ops, "s", c.body)
		var saved struct {
			File, Text, Report string
			Passed             bool
		}
		if err := json.Unmarshal(w.Body.Bytes(), &saved); err != nil || w.Code != 200 {
			t.Fatalf("%d %s: %v", w.Code, w.Body, err)
		}
		if !saved.Passed || saved.File != "saved.test.yaml" || !strings.Contains(saved.Text, c.has) || c.hasNot != "" && strings.Contains(saved.Text, c.hasNot) {
			t.Errorf("saved %s", w.Body)
		}
	}
	text, err := os.ReadFile(filepath.Join(d.dir, "saved.test.yaml"))
	if err != nil || strings.Count(string(text), "- name: ") < 2 {
		t.Errorf("the file is %s, %v", text, err)
	}
	if _, ds := spec.Parse("saved.test.yaml", text); ds.HasErrors() {
		t.Errorf("the file has problems: %v", ds)
	}
	servertest.ExpectResponse(t, d.save(ops, "s", `{"name": "greets"}`), 409, `{"detail":"The app has a test named \"greets\": choose another name"}`)
}

// Each mistake in a request has a clear error, and writes nothing.
func TestSaveTestInvalid(t *testing.T) {
	d := newDesk(t, true)
	for _, c := range []struct {
		session, body string
		status        int
		want          string
	}{
		{"s", `{}`, 400, `{"detail":"name must have 1 to 200 characters"}`},
		{"s", `{"name": "` + strings.Repeat("x", 201) + `"}`, 400, `{"detail":"name must have 1 to 200 characters"}`},
		{"s", `{"name": "a", "file": "../out.test.yaml"}`, 400, `{"detail":"file must be a name such as saved.test.yaml in the app's folder, got \"../out.test.yaml\""}`},
		{"s", `{"name": "a", "file": "root_agent.yaml"}`, 400, `{"detail":"file must be a name such as saved.test.yaml in the app's folder, got \"root_agent.yaml\""}`},
		{"s", `{"name": "a", "eventId": "zzz"}`, 400, `{"detail":"Event not found: zzz"}`},
		{"s", `{"name": "a", "event": "x"}`, 422, `{"detail":[{"type":"extra_forbidden","loc":["body","event"],"msg":"Extra inputs are not permitted"}]}`},
		{"nope", `{"name": "a"}`, 404, `{"detail":"Session not found"}`},
	} {
		servertest.ExpectResponse(t, d.save(ops, c.session, c.body), c.status, c.want)
	}
	if _, err := os.Stat(filepath.Join(d.dir, "saved.test.yaml")); err == nil {
		t.Error("a rejected request has written a file")
	}
}

// Only administrators save tests, and only with --dev: the host reads what they write.
func TestSaveTestNeedsDeveloper(t *testing.T) {
	servertest.ExpectResponse(t, newDesk(t, true).save("u-u-u-u-u-u-u-u-u-u", "s", `{"name": "a"}`), 403, `{"detail":"Forbidden"}`)
	servertest.ExpectResponse(t, newDesk(t, false).save(ops, "s", `{"name": "a"}`), 403, `{"detail":"Tests cannot be saved: start the server with --dev"}`)
}
