package chatpage_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"go.uber.org/goleak"

	"agenthost/internal/servertest"
	"agenthost/pkg/server"
	"agenthost/pkg/store"
	"agenthost/wing/chatpage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newOptions(opts *chatpage.Options) *servertest.Options {
	return &servertest.Options{Server: &server.Options{Extensions: []func(*server.Services) *server.Extension{chatpage.Extend(opts)}}}
}

// newEnv returns a server with the apps in an archive.
func newEnv(t *testing.T, o *servertest.Options, apps string) *servertest.Env {
	t.Helper()
	e, _ := servertest.NewExchangeEnv(t, txtar.Parse([]byte(apps)), &servertest.Folders{}, o)
	return e
}

// helpdesk returns the app of the browser tests: its secrets, which begin with SECRET, reach no
// browser.
func helpdesk(t *testing.T) string {
	t.Helper()
	return readApp(t, "helpdesk")
}

func readApp(t *testing.T, name string) string {
	t.Helper()
	var all strings.Builder
	for _, file := range []string{"app.yaml", "root_agent.yaml", "demo.script.yaml"} {
		text, err := os.ReadFile(filepath.Join("../../ui-test/page/apps", name, file))
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString("-- apps/" + name + "/" + file + " --\n" + string(text))
	}
	return all.String()
}

// newAuth returns authentication for the users u and v, and the administrator root.
func newAuth(t *testing.T) *server.Auth {
	t.Helper()
	file := filepath.Join(t.TempDir(), "auth.yaml")
	text := `tokens:
  - {token: token-of-u-0123456789, claims: {sub: u}}
  - {token: token-of-v-0123456789, claims: {sub: v}}
  - {token: token-of-root-0123456789, claims: {sub: root, admin: true}}
  - {token: token-of-w-0123456789, claims: {sub: w, apps: [other]}}
user_id: claims.sub
admin: claims.admin ?? false
apps: claims.apps == nil || app in claims.apps
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	auth, err := server.ReadAuth(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(auth.Close)
	return auth
}

// Each file in testdata/http is an exchange; see [servertest.RunExchanges].
func TestExchanges(t *testing.T) {
	servertest.RunExchanges(t, "testdata/http/*.txtar", func(t *testing.T, ar *txtar.Archive) (*servertest.Env, string) {
		ar.Files = append(ar.Files[:len(ar.Files):len(ar.Files)], txtar.Parse([]byte(helpdesk(t))).Files...)
		e, dir := servertest.NewExchangeEnv(t, ar, &servertest.Folders{}, newOptions(nil))
		ar.Files = ar.Files[:len(ar.Files)-3]
		return e, dir
	})
}

// Accepted requests and all responses in testdata/http match the OpenAPI document.
func TestOpenAPIDescribesExchanges(t *testing.T) {
	servertest.CheckExchanges(t, server.New(nil, newOptions(nil).Server), "testdata/http/*.txtar", 12)
}

// pageOfAll selects the sessions of all users.
func pageOfAll(app string) *store.PageRequest { return &store.PageRequest{App: app, Size: 100} }
