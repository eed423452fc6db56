package why_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"agenthost/internal/auth"
	"agenthost/internal/servertest"
	"agenthost/internal/testenv"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/wing/why"
)

// folder is a served folder with one app.
type folder string

func (f folder) Open(app string) (*os.Root, error) {
	if app != "desk" {
		return nil, session.ErrNotFound
	}
	return os.OpenRoot(string(f))
}

// Save is not used: an explanation changes no file.
func (f folder) Save(context.Context, string, map[string][]byte) (spec.Diagnostics, error) {
	return nil, errors.New("read only")
}

// newServer returns a server with the app desk, one turn in the session s of user u, and callers:
// ana, u and the administrator ops. The ID of the turn's last event is returned too.
func newServer(t *testing.T, isDev bool) (srv *server.Server, dir, event string) {
	t.Helper()
	e := testenv.New(t, nil)
	dir = testenv.Files(t, "desk", map[string][]byte{
		"app.yaml":        []byte("models:\n  demo: {provider: scripted, script: s.yaml}\n"),
		"s.yaml":          []byte("- text: ok\n"),
		"root_agent.yaml": []byte("name: desk\nmodel: demo\ninstruction: Serve a {tier?} customer.\n"),
	})
	files, ds := e.Loader.LoadFiles(t.Context(), dir)
	if files == nil {
		t.Fatal(ds)
	}
	e.Host.Swap(files.App)
	if err := files.SaveRevision(t.Context(), e.Store.Revisions); err != nil {
		t.Fatal(err)
	}
	key := e.Session(t, "desk", "s", map[string]any{"tier": "gold"})
	for ev, err := range e.Host.Run(t.Context(), &runtime.RunRequest{App: key.App, UserID: key.User, SessionID: key.ID, Message: model.UserText("hello")}) {
		if err != nil {
			t.Fatal(err)
		}
		event = ev.ID
	}
	n, _ := spec.Parse("auth.yaml", []byte(`tokens: [{token: ana-ana-ana-ana-ana, claims: {sub: ana}}, {token: u-u-u-u-u-u-u-u-u-u, claims: {sub: u}}, {token: ops-ops-ops-ops-ops, claims: {sub: ops}}]
admin: claims.sub == "ops"`))
	callers, ds := auth.Decode(n, nil)
	if ds.HasErrors() {
		t.Fatal(ds)
	}
	t.Cleanup(callers.Close)
	opts := &why.Options{Loader: e.Loader, Folders: folder(dir), Dev: isDev, Rollout: func(_ context.Context, app, revision string, began time.Time) (string, error) {
		if began.IsZero() {
			return "", errors.New("the session began at no time")
		}
		return "place of " + app + " " + revision, nil
	}}
	return server.New(e.Host, &server.Options{Auth: callers, Extensions: []func(*server.Services) *server.Extension{why.Extend(opts)}}), dir, event
}

// ask requests an explanation from this machine. edit changes the request.
func ask(srv *server.Server, event, token string, edit func(header func(key, value string), from func(remote, host string))) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", "/dev/apps/desk/users/u/sessions/s/events/"+event+"/why", nil)
	r.RemoteAddr, r.Host = "127.0.0.1:4000", "localhost:8000"
	r.Header.Set("Authorization", "Bearer "+token)
	if edit != nil {
		edit(r.Header.Set, func(remote, host string) { r.RemoteAddr, r.Host = remote, host })
	}
	w := httptest.NewRecorder()
	srv.ServeHTTP(w, r)
	return w
}

// An explanation has the lines of the revision, the instruction with its values and their writers,
// and the revision that serves now.
func TestExplanation(t *testing.T) {
	srv, dir, event := newServer(t, true)
	w := ask(srv, event, "ops-ops-ops-ops-ops", nil)
	var x struct {
		why.Explanation
		Serving, Folder string
	}
	if err := json.Unmarshal(w.Body.Bytes(), &x); err != nil {
		t.Fatalf("%v in %s", err, w.Body)
	}
	if x.Event != event || x.Agent == nil || x.Agent.At != "root_agent.yaml:1:1" || x.Serving != x.Revision || x.Revision == "" || x.Rollout != "place of desk "+x.Revision {
		t.Errorf("the explanation is %s", w.Body)
	}
	if len(x.Instructions) != 1 || x.Instructions[0].Text != "Serve a gold customer." || len(x.Read) != 1 || x.Read[0].By != "initial state of the session" {
		t.Errorf("instructions and keys are %s", w.Body)
	}
	if want, err := filepath.Abs(dir); err != nil || x.Folder != want {
		t.Errorf("folder = %q, want %q", x.Folder, want)
	}
}

// An explanation contains the app's files and instructions: only administrators get it, not even
// the session's user.
func TestExplanationNeedsAdministrator(t *testing.T) {
	srv, _, event := newServer(t, true)
	for _, token := range []string{"ana-ana-ana-ana-ana", "u-u-u-u-u-u-u-u-u-u"} {
		servertest.ExpectResponse(t, ask(srv, event, token, nil), 403, `{"detail":"Forbidden"}`)
	}
	servertest.ExpectResponse(t, ask(srv, event, "no-one-no-one-no-one", nil), 401, `{"detail":"Not authenticated"}`)
}

// An unknown event is not found. A prefix of an ID is a convenience of the terminal only.
func TestExplanationOfUnknownEvent(t *testing.T) {
	srv, _, event := newServer(t, true)
	servertest.ExpectResponse(t, ask(srv, "nosuch", "ops-ops-ops-ops-ops", nil), 404, `{"detail":"Event not found: nosuch"}`)
	servertest.ExpectResponse(t, ask(srv, event[:len(event)-1], "ops-ops-ops-ops-ops", nil), 404, `{"detail":"Event not found: `+event[:len(event)-1]+`"}`)
}

// The folder's path is for editors on the server's machine: without --dev, for another machine,
// for a name that is not this machine's, and through a proxy there is none.
func TestFolderOfExplanation(t *testing.T) {
	tests := map[string]func(h func(string, string), f func(string, string)){
		"another machine":        func(_, f func(string, string)) { f("192.0.2.7:4000", "localhost:8000") },
		"another name":           func(_, f func(string, string)) { f("127.0.0.1:4000", "agents.example:8000") },
		"through a proxy":        func(h, _ func(string, string)) { h("X-Forwarded-For", "192.0.2.7") },
		"through a newer proxy":  func(h, _ func(string, string)) { h("Forwarded", "for=192.0.2.7") },
		"through an other proxy": func(h, _ func(string, string)) { h("Via", "1.1 cache") },
	}
	srv, _, event := newServer(t, true)
	for name, edit := range tests {
		if w := ask(srv, event, "ops-ops-ops-ops-ops", edit); w.Code != 200 && w.Code != 403 || hasFolder(w) {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	srv, _, event = newServer(t, false)
	if w := ask(srv, event, "ops-ops-ops-ops-ops", nil); w.Code != 200 || hasFolder(w) {
		t.Errorf("without --dev: %d %s", w.Code, w.Body)
	}
}

// hasFolder reports whether a response has a path, or is invalid.
func hasFolder(w *httptest.ResponseRecorder) bool {
	var x struct{ Folder string }
	return json.Unmarshal(w.Body.Bytes(), &x) != nil || x.Folder != ""
}
