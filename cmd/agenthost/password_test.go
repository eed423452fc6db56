package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agenthost/internal/command"
	"agenthost/internal/testdb"
)

// outputCapture collects a verb's output, and stops a host at its first write.
type outputCapture struct {
	bytes.Buffer
	cancel context.CancelFunc
}

func (h *outputCapture) Write(b []byte) (int, error) {
	h.cancel()
	return h.Buffer.Write(b)
}

const dbPassword = "hunter2-canary"

// secretURLs returns URLs with a password: for reachable servers, for an unreachable server, and
// invalid ones.
func secretURLs(t *testing.T) []string {
	all := []string{"oracle://me:" + dbPassword + "@127.0.0.1/x", "postgres:me:" + dbPassword + "@127.0.0.1/x", "sqlite://me:" + dbPassword + "@127.0.0.1/x.db", "sqlite:///none.db?key=" + dbPassword}
	for _, e := range testdb.Engines()[1:] {
		scheme := e.Name + "://"
		for _, form := range []string{
			"me:%s@127.0.0.1:1/x", "me:%s@127.0.0.1:1", "me:%s@127.0.0.1:x/x", "me:%s/x@127.0.0.1:1/x", "me:1/%s@127.0.0.1:1/x", "me:1/x?%s@127.0.0.1:1/x",
			"me:%s%%zz@127.0.0.1:1/x", "me:1?%s@127.0.0.1:1/x", "127.0.0.1:1/x?password=%s", "127.0.0.1:1/x?pool_size=2&password=%s", "me:#%s@127.0.0.1:1/x",
		} {
			all = append(all, scheme+fmt.Sprintf(form, dbPassword))
		}
		at, drop, err := e.Fresh(t.Context(), t.TempDir())
		if errors.Is(err, testdb.ErrAbsent) {
			t.Log(err)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := drop(); err != nil {
				t.Error(err)
			}
		})
		u, err := url.Parse(at)
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword(u.User.Username(), dbPassword)
		all = append(all, u.String())
	}
	return all
}

// No verb prints a URL's password, whatever the error.
func TestVerbsRedactPasswords(t *testing.T) {
	t.Chdir(t.TempDir())
	app := "echo"
	writeEcho(t, app)
	verbs := [][]string{
		{"db", "status", "URL"},
		{"db", "migrate", "URL"},
		{"db", "check", "URL"},
		{"db", "check", "URL", "--json"},
		{"db", "import", "URL"},
		{"db", "import", "URL", "--json", "--dry-run"},
		{"db", "import", "sqlite:///source.db", "--session-db", "URL"},
		{"session", "list", app, "--session-db", "URL"},
		{"session", "delete", app, "s", "--session-db", "URL"},
		{"memory", "search", app, "x", "--session-db", "URL"},
		{"memory", "search", app, "x", "--session-db", "memory:", "--memory", "URL"},
		{"run", app, "hi", "--session-db", "URL"},
		{"run", app, "hi", "--session-db", "memory:", "--artifacts", "URL"},
		{"serve", app, "--addr", "127.0.0.1:0", "--session-db", "URL"},
	}
	if printed, code := runVerb(t, []string{"db", "migrate", "sqlite:///source.db"}); code != 0 {
		t.Fatal(printed)
	}
	printed := 0
	for _, at := range secretURLs(t) {
		for _, verb := range verbs {
			printed++
			args := make([]string, len(verb))
			for i, arg := range verb {
				args[i] = strings.Replace(arg, "URL", at, 1)
			}
			if printed, _ := runVerb(t, args); strings.Contains(printed, dbPassword) {
				t.Errorf("agenthost %s prints the password:\n%s", strings.Join(args, " "), printed)
			}
		}
	}
	t.Logf("shown: %d outputs searched for passwords of databases", printed)
}

func writeEcho(t *testing.T, dir string) {
	t.Helper()
	err := os.Mkdir(dir, 0o700)
	for name, text := range map[string]string{
		"root_agent.yaml": "name: echo\nmodel: demo\ninstruction: Repeat.\n",
		"app.yaml":        "models:\n  demo: {provider: scripted, script: s.yaml}\n",
		"s.yaml":          "- text: hi\n",
	} {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func runVerb(t *testing.T, args []string) (string, int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	end := func() {}
	if args[0] == "serve" {
		end = cancel
	}
	var complaints bytes.Buffer
	out := &outputCapture{cancel: end}
	code := run(ctx, args, command.Env{In: strings.NewReader(""), Out: out, Err: &complaints})
	return out.String() + complaints.String(), code
}
