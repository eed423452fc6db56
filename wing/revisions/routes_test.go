package revisions_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"agenthost/internal/auth"
	"agenthost/internal/servertest"
	"agenthost/internal/testenv"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/wing/revisions"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// folder is a served folder with the app desk.
type folder string

func (f folder) Open(app string) (*os.Root, error) {
	if app != "desk" {
		return nil, session.ErrNotFound
	}
	return os.OpenRoot(string(f))
}

// Save is not used: the routes change no file.
func (f folder) Save(context.Context, string, map[string][]byte) (spec.Diagnostics, error) {
	return nil, errors.New("read only")
}

// A site is a server with the app desk, of which two revisions are stored; the second one serves.
type site struct {
	server *server.Server
	dir    string
	ids    []string
}

const administrator = "ops-ops-ops-ops-ops"

func newSite(t *testing.T) *site {
	t.Helper()
	e := testenv.New(t, nil)
	s := &site{dir: testenv.Files(t, "desk", map[string][]byte{
		"app.yaml": []byte("models:\n  demo: {provider: scripted, script: s.yaml}\n"),
		"s.yaml":   []byte("- text: ok\n"),
	})}
	for _, text := range []string{"Be brief.", "Be kind."} {
		s.write(t, "root_agent.yaml", "name: desk\nmodel: demo\ninstruction: "+text+"\n")
		loaded, ds := e.Loader.LoadFiles(t.Context(), s.dir)
		if loaded == nil {
			t.Fatal(ds)
		}
		e.Host.Swap(loaded.App)
		s.ids = append(s.ids, loaded.App.Revision())
		if err := loaded.SaveRevision(t.Context(), e.Store.Revisions); err != nil {
			t.Fatal(err)
		}
	}
	e.Session(t, "desk", "s", nil)
	n, _ := spec.Parse("auth.yaml", []byte(`tokens: [{token: u-u-u-u-u-u-u-u-u-u, claims: {sub: u}}, {token: ops-ops-ops-ops-ops, claims: {sub: ops}}]
admin: claims.sub == "ops"`))
	callers, ds := auth.Decode(n, nil)
	if ds.HasErrors() {
		t.Fatal(ds)
	}
	t.Cleanup(callers.Close)
	opts := &revisions.Options{Loader: e.Loader, Folders: folder(s.dir)}
	s.server = server.New(e.Host, &server.Options{Auth: callers, Extensions: []func(*server.Services) *server.Extension{revisions.Extend(opts)}})
	return s
}

func (s *site) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// get requests a path below the app's developer routes.
func (s *site) get(path, token string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", "/dev/apps/"+path, nil)
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	s.server.ServeHTTP(w, r)
	return w
}

// decode decodes a response and validates it against the OpenAPI document.
func (s *site) decode(t *testing.T, w *httptest.ResponseRecorder, path string, v any) {
	t.Helper()
	if w.Code != 200 {
		t.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	checker := servertest.NewSchemaChecker(t, s.server)
	for _, err := range checker.CheckExchange([]byte("GET /dev/apps/"+path+"\n"), servertest.FormatResponse(w)) {
		t.Errorf("%s: %v", path, err)
	}
	if err := json.Unmarshal(w.Body.Bytes(), v); err != nil {
		t.Fatal(err)
	}
}

type fileChange struct{ Name, What, Before, After, Omitted string }

type diff struct {
	From, To string
	Changes  []struct{ Where, Field, What, Before, After string }
	Files    []fileChange
	// A plan's fields.
	Serving, Reach string
	Sessions, Live int
	Problems       []struct{ Severity, Message string }
}

// The list has the stored revisions, newest first, and the one that serves.
func TestListedRevisions(t *testing.T) {
	s := newSite(t)
	var list struct {
		Serving   string
		Revisions []struct{ Revision, Served string }
	}
	s.decode(t, s.get("desk/revisions", administrator), "desk/revisions", &list)
	if list.Serving != s.ids[1] || len(list.Revisions) != 2 || list.Revisions[0].Revision != s.ids[1] || list.Revisions[1].Revision != s.ids[0] || list.Revisions[0].Served == "" {
		t.Errorf("the list is %+v, want %v", list, s.ids)
	}
	servertest.ExpectResponse(t, s.get("nope/revisions", administrator), 404, `{"detail":"App not found: nope"}`)
}

// A diff has the changed fields and the texts of the files.
func TestDiffOfRevisions(t *testing.T) {
	s := newSite(t)
	path := "desk/revisions/diff?from=" + s.ids[0] + "&to=" + s.ids[1]
	var d diff
	s.decode(t, s.get(path, administrator), path, &d)
	if len(d.Changes) != 1 || d.Changes[0].Field != "instruction" || d.Changes[0].Before != "Be brief." || d.Changes[0].After != "Be kind." {
		t.Errorf("the changes are %+v", d.Changes)
	}
	if len(d.Files) != 1 || d.Files[0].Name != "root_agent.yaml" || d.Files[0].What != "changed" || !strings.Contains(d.Files[0].After, "Be kind.") {
		t.Errorf("the files are %+v", d.Files)
	}
}

// A revision has to be given by its whole name: an unknown one, a prefix, and one of another app are
// not found.
func TestDiffOfUnknownRevision(t *testing.T) {
	s := newSite(t)
	for path, want := range map[string]string{
		"desk/revisions/diff?from=nope&to=" + s.ids[1]:                         `{"detail":"Revision not found: nope"}`,
		"desk/revisions/diff?from=" + s.ids[0][:6] + "&to=" + s.ids[1]:         `{"detail":"Revision not found: ` + s.ids[0][:6] + `"}`,
		"other/revisions/diff?from=" + s.ids[0] + "&to=" + s.ids[1]:            `{"detail":"Revision not found: ` + s.ids[0] + `"}`,
		"desk/revisions/diff?from=" + s.ids[0] + "&to=%00" + "&none=" + "none": `{"detail":"Revision not found: \u0000"}`,
	} {
		servertest.ExpectResponse(t, s.get(path, administrator), 404, want)
	}
	const want = `{"detail":[{"type":"value_error","loc":["query","to"],"msg":"Input should be a revision of the app, with at most 128 characters"}]}`
	servertest.ExpectResponse(t, s.get("desk/revisions/diff?from="+s.ids[0], administrator), 422, want)
	servertest.ExpectResponse(t, s.get("desk/revisions/diff?from="+s.ids[0]+"&to="+strings.Repeat("a", 129), administrator), 422, want)
}

// A plan compares the files on disk with the revision that the database served last, and changes
// nothing.
func TestPlannedChanges(t *testing.T) {
	s := newSite(t)
	var d diff
	s.decode(t, s.get("desk/plan", administrator), "desk/plan", &d)
	if d.From != s.ids[1] || d.To != s.ids[1] || d.Serving != s.ids[1] || len(d.Files)+len(d.Changes)+len(d.Problems) != 0 {
		t.Errorf("without a change, the plan is %+v", d)
	}
	s.write(t, "root_agent.yaml", "name: desk\nmodel: demo\ninstruction: Be quick.\n")
	s.write(t, "notes.bin", "\xff\xfe")
	d = diff{}
	s.decode(t, s.get("desk/plan", administrator), "desk/plan", &d)
	if d.From != s.ids[1] || d.To == s.ids[1] || d.Serving != s.ids[1] || len(d.Changes) != 1 || d.Changes[0].After != "Be quick." || d.Reach != "next_turn" || d.Sessions != 1 {
		t.Errorf("the plan is %+v", d)
	}
	servertest.ExpectResponse(t, s.get("nope/plan", administrator), 404, `{"detail":"App has no folder: nope"}`)
}

// A plan of files with errors has the errors, and no revision.
func TestPlanOfBrokenFiles(t *testing.T) {
	s := newSite(t)
	s.write(t, "root_agent.yaml", "name: desk\nmodel: demo\ninstuction: Be quick.\n")
	var d diff
	s.decode(t, s.get("desk/plan", administrator), "desk/plan", &d)
	if d.To != "" || d.Serving != s.ids[1] || len(d.Problems) == 0 || d.Problems[0].Severity != "error" {
		t.Errorf("the plan is %+v", d)
	}
}

// The routes return files of apps: only administrators may use them.
func TestRoutesNeedAdministrator(t *testing.T) {
	s := newSite(t)
	for _, path := range []string{"desk/revisions", "desk/plan", "desk/revisions/diff?from=" + s.ids[0] + "&to=" + s.ids[1]} {
		servertest.ExpectResponse(t, s.get(path, "u-u-u-u-u-u-u-u-u-u"), 403, `{"detail":"Forbidden"}`)
		servertest.ExpectResponse(t, s.get(path, "no-one-no-one-no-one"), 401, `{"detail":"Not authenticated"}`)
	}
}
