package evalweb_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"agenthost/internal/appfolder"
	"agenthost/internal/servertest"
	"agenthost/wing/evaluation/evalweb"
)

const evalApp = `
-- apps/shop/root_agent.yaml --
name: shop
agent_class: SequentialAgent
-- apps/shop/basics.evalset.json --
{"eval_set_id": "basics", "eval_cases": []}
-- stored --
{"appName": "shop", "id": "s", "events": [
  {"invocationId": "i-1", "author": "user", "content": {"role": "user", "parts": [{"text": "Hi"}]}}]}
`

// Concurrent changes to an eval set are all kept, and leave only the set behind.
func TestConcurrentEvalEdits(t *testing.T) {
	e, dir := newExchangeEnv(t, txtar.Parse([]byte(evalApp)))
	const cases = 20
	var wg sync.WaitGroup
	for i := range cases {
		wg.Go(func() {
			body := fmt.Sprintf(`{"evalId": "c%02d", "sessionId": "s", "userId": "u"}`, i)
			servertest.ExpectResponse(t, e.Serve("POST", "/dev/apps/shop/eval-sets/basics/add-session", body), http.StatusOK, "null")
		})
	}
	wg.Wait()
	if got := e.Serve("GET", "/dev/apps/shop/eval_sets/basics/evals", "").Body.String(); strings.Count(got, `"c`) != cases {
		t.Errorf("cases = %s, want %d", got, cases)
	}
	if diff := cmp.Diff([]string{"basics.evalset.json", "root_agent.yaml"}, listFolder(t, filepath.Join(dir, "shop"))); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func listFolder(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// Changes to eval sets neither replace the app nor are reported as changes to it.
func TestEvalEditsKeepApp(t *testing.T) {
	folders := newFolders()
	e := newEnv(t, &evalweb.Options{Folders: folders, Dev: true})
	folders.LoadApps(t, e, txtar.Parse([]byte(evalApp)), t.TempDir())
	app := e.Host.App("shop")
	reports, _ := folders.Reports(0)
	if w := e.Serve("POST", "/dev/apps/shop/eval_sets/more", ""); w.Code != http.StatusOK {
		t.Fatalf("create = %d %s", w.Code, w.Body)
	}
	if err := folders.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after, _ := folders.Reports(0); len(after) != len(reports) {
		t.Errorf("reports = %+v, want %+v", after, reports)
	}
	if e.Host.App("shop") != app || app == nil {
		t.Error("the app was replaced")
	}
}

// rootFolders gives every app the same folder.
type rootFolders struct {
	appfolder.Folders
	dir string
}

// Open opens the folder.
func (f rootFolders) Open(string) (*os.Root, error) { return os.OpenRoot(f.dir) }

// A folder that the server may not write is reported. /sys is such a folder for root too.
func TestEvalEditsOfReadOnlyFolder(t *testing.T) {
	if _, err := os.Stat("/sys/kernel"); err != nil {
		t.Skip("SKIPPED: no /sys")
	}
	e := newEnv(t, &evalweb.Options{Folders: rootFolders{dir: "/sys"}, Dev: true})
	servertest.ExpectResponse(t, e.Serve("POST", "/dev/apps/shop/eval_sets/more", ""), http.StatusForbidden,
		`{"detail":"Eval sets cannot be changed: the server has no permission to write to the app's folder"}`)
}

// A link that leads outside the folder is neither read nor replaced.
func TestLinkedEvalSet(t *testing.T) {
	e, dir := newExchangeEnv(t, txtar.Parse([]byte(evalApp)))
	secret := filepath.Join(dir, "secret.json")
	if err := os.WriteFile(secret, []byte(`{"eval_set_id": "secret", "eval_cases": []}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(dir, "shop", "linked.evalset.json")); err != nil {
		t.Fatal(err)
	}
	servertest.ExpectResponse(t, e.Serve("GET", "/dev/apps/shop/eval_sets", ""), http.StatusOK, `["basics"]`)
	missing := "{\"detail\":\"Eval set `linked` not found.\"}"
	servertest.ExpectResponse(t, e.Serve("GET", "/dev/apps/shop/eval-sets/linked", ""), http.StatusNotFound, missing)
	servertest.ExpectResponse(t, e.Serve("DELETE", "/dev/apps/shop/eval-sets/linked", ""), http.StatusNotFound, missing)
	w := e.Serve("POST", "/dev/apps/shop/eval_sets/linked", "")
	servertest.ExpectResponse(t, w, http.StatusBadRequest, `{"detail":"EvalSet linked already exists for app shop."}`)
}
