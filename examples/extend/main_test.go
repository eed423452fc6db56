package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agenthost"
	"agenthost/pkg/loader"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
)

// The app runs with this module's provider, tool kind, agent class and plugin: the first sub-agent
// is skipped, and the second one answers. The second turn continues the session in the file.
func Example() {
	dir, err := os.MkdirTemp("", "extend")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "sessions.db")
	for _, message := range []string{"Good morning!", "Goodbye!"} {
		if err := run(context.Background(), file, message); err != nil {
			fmt.Println(err)
		}
	}
	db, err := openBolt(file)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	st := newStore(db)
	defer st.Close()
	sess, err := st.Sessions.Get(context.Background(), session.Key{App: "shop", User: "ana", ID: "s1"}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, ev := range sess.EventsBy("clerk") {
		fmt.Println("stored:", ev.Text())
	}
	// Output:
	// clerk: Echo: Good morning!
	// clerk: Echo: Goodbye!
	// stored: Echo: Good morning!
	// stored: Echo: Goodbye!
}

// A problem in a kind's YAML is reported at its position, and unknown fields are errors.
func TestProblems(t *testing.T) {
	for _, tt := range []struct{ file, old, new, want string }{
		{"root_agent.yaml", "pear: 0.75", "pear: -1", "root_agent.yaml:12:62: the price of pear must be at least 0, got -1"},
		{"root_agent.yaml", "prices:", "price:", `unknown field "price"`},
		{"app.yaml", "prefix:", "suffix:", `missing field "prefix"`},
		{"app.yaml", "closed: false", "closed: 5", "expected true or false"},
		{"app.yaml", "opening_hours", "opening_hour", `unknown plugin "opening_hour"`},
	} {
		dir := filepath.Join(t.TempDir(), "shop")
		if err := os.CopyFS(dir, os.DirFS("shop")); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(dir, tt.file))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, tt.file), []byte(strings.Replace(string(b), tt.old, tt.new, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := loader.New(kinds(), nil).Check(t.Context(), dir).Error(); !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q → %q: problems\n%s\nwant %s", tt.file, tt.old, tt.new, got, tt.want)
		}
	}
}

// The schema for editors and the reference know the kinds.
func TestSchema(t *testing.T) {
	schema, err := loader.New(kinds(), nil).Schema("app")
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(schema)
	if err != nil {
		t.Fatal(err)
	}
	reference := loader.New(kinds(), nil).Reference()
	for _, name := range []string{"echo", "price_list", "FirstAnswerAgent", "opening_hours"} {
		if !strings.Contains(string(b), `"`+name+`"`) {
			t.Errorf("the schema does not contain %s", name)
		}
		if !strings.Contains(reference, "\n### "+name+"\n") {
			t.Errorf("the reference does not contain %s", name)
		}
	}
}

// A program outside the module can read the --policy and --auth files.
func TestPolicyAndAuth(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	policy, err := loader.ReadPolicy(write("policy.yaml", "grants: [{variables: [PRICE]}]"), loader.PolicyHost{Shared: true})
	if err != nil || loader.New(loader.Kinds{}, &loader.Options{Policy: policy}) == nil {
		t.Errorf("ReadPolicy: %v", err)
	}
	if _, err := loader.ReadPolicy(write("bad.yaml", "grant: []"), loader.PolicyHost{}); err == nil || !strings.Contains(err.Error(), "bad.yaml:1:1") {
		t.Errorf("ReadPolicy of a bad file: %v", err)
	}
	lookup := func(kind, name string) (string, error) { return "0123456789abcdef-" + kind, nil }
	auth, err := server.ReadAuth(write("auth.yaml", "tokens: [{token: '${secret:TOKEN}', claims: {sub: ana}}]\nuser_id: claims.sub"), lookup)
	if err != nil {
		t.Fatal(err)
	}
	defer auth.Close()
	if server.New(nil, &server.Options{Auth: auth}) == nil {
		t.Error("no server")
	}
	if _, err := server.ReadAuth(write("empty.yaml", "user_id: claims.sub"), nil); err == nil || !strings.Contains(err.Error(), "tokens or jwt is required") {
		t.Errorf("ReadAuth of an empty file: %v", err)
	}
}

// The protocol runs turns over HTTP.
func TestRoute(t *testing.T) {
	host, err := agenthost.Open(t.Context(), &agenthost.Options{Folders: []string{"shop"}, Kinds: kinds()})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	api := httptest.NewServer(host.NewServer(&agenthost.ServerOptions{Extensions: []func(*agenthost.Services) *agenthost.Extension{chatRoutes}}))
	defer api.Close()
	for body, want := range map[string]string{
		`{"user":"ana","text":"Hi"}`: `{"text":"Echo: Hi"}`,
		`{"user":"ana"}`:             `{"detail":"text is required"}`,
	} {
		resp, err := http.Post(api.URL+"/chat/shop", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if got, err := io.ReadAll(resp.Body); err != nil || strings.TrimSpace(string(got)) != want {
			t.Errorf("%s: %s, %v, want %s", body, got, err, want)
		}
	}
}

// The code for a kind, for the sessions in bbolt, and for the protocol has at most 60 lines.
func TestLength(t *testing.T) {
	for _, file := range []string{"provider.go", "tool.go", "agent.go", "plugin.go", "store.go", "route.go"} {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(b), "\n"); n > 60 {
			t.Errorf("%s has %d lines", file, n)
		}
	}
}
