package replay_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agenthost/internal/auth"
	"agenthost/internal/servertest"
	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/wing/replay"
)

// folder is a served folder with the app desk.
type folder string

func (f folder) Open(app string) (*os.Root, error) {
	if app != "desk" {
		return nil, session.ErrNotFound
	}
	return os.OpenRoot(string(f))
}

// Save is not used: the route changes no file.
func (f folder) Save(context.Context, string, map[string][]byte) (spec.Diagnostics, error) {
	return nil, errors.New("read only")
}

// post sends a replay request for an app.
func post(s *server.Server, app, token, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", "/dev/apps/"+app+"/replay", strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// The route replays sessions on the files on disk for administrators only, and its report has no texts
// and no values. Each bad request has its error, and the sample is bounded.
func TestRoute(t *testing.T) {
	d := newDesk(t, "vat", "hi")
	n, _ := spec.Parse("auth.yaml", []byte(`tokens: [{token: u-u-u-u-u-u-u-u-u-u, claims: {sub: u}}, {token: ops-ops-ops-ops-ops, claims: {sub: ops}}]
admin: claims.sub == "ops"`))
	callers, ds := auth.Decode(n, nil)
	if ds.HasErrors() {
		t.Fatal(ds)
	}
	t.Cleanup(callers.Close)
	opts := &replay.Options{Loader: loader.New(testenv.Kinds(), nil), Folders: folder(filepath.Join(d.dir, "desk"))}
	s := server.New(d.host.Host, &server.Options{Auth: callers, Extensions: []func(*server.Services) *server.Extension{replay.Extend(opts)}})
	d.edit("desk/root_agent.yaml", "1.21", "1.19")

	const ops = "ops-ops-ops-ops-ops"
	w := post(s, "desk", ops, "{}")
	if w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	for _, err := range servertest.NewSchemaChecker(t, s).CheckExchange([]byte("POST /dev/apps/desk/replay\n\n{}"), servertest.FormatResponse(w)) {
		t.Error(err)
	}
	var got struct {
		Sessions, Same int
		Differences    []map[string]any
	}
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Sessions != 2 || got.Same != 1 || len(got.Differences) != 1 || got.Differences[0]["class"] != "result" || got.Differences[0]["before"] != nil {
		t.Errorf("report: %s", w.Body)
	}
	d.edit("desk/root_agent.yaml", "instruction:", "instuction:")
	if w := post(s, "desk", ops, "{}"); w.Code != 200 || !strings.Contains(w.Body.String(), "instuction") || strings.Contains(w.Body.String(), `"sessions"`) {
		t.Errorf("files with problems: %d %s", w.Code, w.Body)
	}
	for _, test := range []struct {
		app, token, body string
		code             int
		want             string
	}{
		{"desk", "u-u-u-u-u-u-u-u-u-u", "{}", 403, ""},
		{"desk", ops, `{"sample": 501}`, 422, "Input should be from 1 to 500"},
		{"desk", ops, `{"sample": "x"}`, 422, ""},
		{"other", ops, "{}", 404, ""},
	} {
		if w := post(s, test.app, test.token, test.body); w.Code != test.code || !strings.Contains(w.Body.String(), test.want) {
			t.Errorf("%s %s: %d %s, want %d %s", test.app, test.body, w.Code, w.Body, test.code, test.want)
		}
	}
}
