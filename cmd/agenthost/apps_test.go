package main

import (
	"io/fs"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
)

const appsDir = "../../apps"

// lookupEnv returns an app's environment, which has only vars.
func lookupEnv(vars map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v, ok := vars[name]
		return v, ok
	}
}

func exampleApps(t *testing.T) []string {
	t.Helper()
	apps, err := loader.Discover(appsDir)
	if err != nil || len(apps) < 4 {
		t.Fatalf("Discover(%s) = %v, %v", appsDir, apps, err)
	}
	return apps
}

// TestExampleApps checks rules for every example app: no problems, a short README, and
// file names by which editors find the schemas.
func TestExampleApps(t *testing.T) {
	for _, dir := range exampleApps(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			for _, vars := range []map[string]string{nil, {"DEMO_MODEL": "gemini-flash-latest"}, {"RESEARCH_SOURCE": "server"}} {
				l := newLoader(&loader.Options{Env: lookupEnv(vars)})
				if ds := l.Check(t.Context(), dir); len(ds) > 0 {
					t.Errorf("Check with %v:\n%v", vars, ds)
				}
			}
			if n := strings.Count(readText(t, filepath.Join(dir, "README.md")), "\n"); n > 20 {
				t.Errorf("README.md has %d lines, want 20 at most", n)
			}
			testSchemaPatterns(t, dir)
		})
	}
}

// testSchemaPatterns checks that editors find each file's schema by its name, and that no file
// refers to a path on its author's machine. OpenAPI documents have their own schema.
func testSchemaPatterns(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(file) != ".yaml" || strings.HasSuffix(file, ".openapi.yaml") {
			return err
		}
		if found := matchingSchemas(file); len(found) != 1 {
			t.Errorf("%s matches the schemas %q, want one", file, found)
		}
		if strings.Contains(readText(t, file), "yaml-language-server") {
			t.Errorf("%s names a schema: editors choose it by the name of the file", file)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// matchingSchemas returns the schemas whose patterns match a file.
func matchingSchemas(file string) []string {
	var found []string
	for name, patterns := range schemaPatterns() {
		for _, pattern := range patterns {
			pattern = strings.TrimPrefix(pattern, "**/")
			steps := strings.Split(filepath.ToSlash(file), "/")
			last := strings.Join(steps[max(0, len(steps)-1-strings.Count(pattern, "/")):], "/")
			if ok, err := path.Match(pattern, last); err == nil && ok {
				found = append(found, name)
			}
		}
	}
	return found
}

func readText(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestApps runs the example apps on the scripted model. Each text has the form "session: message"
// and is paired with its turn's final answer.
func TestApps(t *testing.T) {
	orders := httptest.NewServer(demoOrders())
	defer orders.Close()
	unreachable := httptest.NewServer(nil)
	unreachable.Close()
	for _, tt := range []struct {
		name, app string
		env       map[string]string
		talk      [][2]string
		state     map[string]any
	}{
		{name: "hello", app: "hello", talk: [][2]string{
			{"first: good morning", "hello: Hello! What is your name? (Try: my name is Ana)"},
			{"first: my name is Ana", "hello: Nice to meet you, Ana! I will remember you."},
			{"first: thanks", "hello: Hello again, Ana! You wrote: thanks"},
			{"later: good morning", "hello: Hello again, Ana! You wrote: good morning"},
		}, state: map[string]any{"user:name": "Ana"}},
		{name: "pipeline", app: "pipeline", talk: [][2]string{
			{"s: why sleep matters", "critic: I give it 9 of 10."},
		}, state: map[string]any{
			"outline": "1. Definition 2. Benefits 3. First steps (why sleep matters)",
			"draft":   "A better draft than the one that scored 6.", "score": int64(9),
		}},
		{name: "team", app: "team", talk: [][2]string{
			{"s: hello", "front_desk: Welcome! Is it about an invoice, or is something broken?"},
			{"s: my invoice is wrong", `billing: Billing here. About "my invoice is wrong": which invoice number is it?`},
			{"s: it is number 12", `billing: Billing here. About "it is number 12": which invoice number is it?`},
			{"s: and my tyre is flat", `technician: The workshop here. About "and my tyre is flat": when did it begin?`},
			{"s: since monday", `technician: The workshop here. About "since monday": when did it begin?`},
		}, state: map[string]any{}},
		{name: "tools", app: "tools", env: map[string]string{"ORDERS_URL": orders.URL + "/demo"}, talk: [][2]string{
			{"s: hi", "clerk: Ask me about an order, a price with tax, or for something in Portuguese."},
			{"s: what is 100 with tax?", "clerk: With tax that is 121."},
			{"s: good morning in Portuguese, please", "clerk: In Portuguese: Bom dia (para: Good morning)"},
			{"s: where is order 1001?", "clerk: Order 1001 is shipped."},
		}, state: map[string]any{"last_net": int64(100)}},
		{name: "tools without orders", app: "tools", env: map[string]string{"ORDERS_URL": unreachable.URL}, talk: [][2]string{
			{"s: where is order 1001?", "clerk: I cannot look that up now: http tool order_lookup: …"},
			{"s: what is 100 with tax?", "clerk: With tax that is 121."},
		}, state: map[string]any{"last_net": int64(100)}},
		{name: "support", app: "support", env: map[string]string{"ORDERS_URL": orders.URL + "/demo"}, talk: [][2]string{
			{"s: My order 1002 arrived broken.", "support: I am sorry about that. Shall I refund 18 euros for order 1002?"},
			{"s: Yes, please.", "support: I have refunded 18 euros (R-1002)."},
			{"s: I want twice as much.", "support: I cannot refund more than you paid for the order."},
		}, state: map[string]any{"order": map[string]any{
			"id": "1002", "status": "packing", "total": int64(18), "items": []any{map[string]any{"name": "Notebook", "quantity": int64(3)}},
		}, "refunded": int64(18)}},
		{name: "support without orders", app: "support", env: map[string]string{"ORDERS_URL": unreachable.URL}, talk: [][2]string{
			{"s: Where is order 1002?", "support: I cannot look up your order now: openapi tool get_order: …"},
		}, state: map[string]any{}},
		{name: "research", app: "research", talk: [][2]string{
			{"s: How do cities get cooler?", "writer: Plant trees, and paint roofs white. Street trees …"},
		}, state: map[string]any{
			"plan":   map[string]any{"questions": []any{"shade of trees", "white roofs"}},
			"facts":  "Street trees cool the air by up to 4 degrees [trees]. White roofs cool rooms by about 3 degrees [roofs].",
			"report": "Plant trees, and paint roofs white. Street trees cool the air by up to 4 degrees [trees]. White roofs cool rooms by about 3 degrees [roofs].",
		}},
		{name: "documents", app: "documents", talk: [][2]string{
			{"s: where is my lease?", "assistant: I do not have such a document."},
		}, state: map[string]any{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			env := testenv.New(t, &testenv.Options{Loader: &loader.Options{Env: lookupEnv(tt.env)}})
			env.Load(t, filepath.Join(appsDir, tt.app))
			var key session.Key
			for _, turn := range tt.talk {
				id, text, _ := strings.Cut(turn[0], ": ")
				key = ensureSession(t, env, tt.app, id)
				got := finalAnswer(t, env, key, text)
				if want, isPrefix := strings.CutSuffix(turn[1], "…"); got != want && !(isPrefix && strings.HasPrefix(got, want)) {
					t.Errorf("%s = %q, want %q", turn[0], got, turn[1])
				}
			}
			sess, err := env.Store.Sessions.Get(t.Context(), key, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.state, sess.State.All()); diff != "" {
				t.Errorf("state (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPipelineRunsLoopTwice checks the authors of the answers in each loop iteration.
func TestPipelineRunsLoopTwice(t *testing.T) {
	env := testenv.New(t, &testenv.Options{Loader: &loader.Options{Env: lookupEnv(nil)}})
	env.Load(t, filepath.Join(appsDir, "pipeline"))
	var authors []string
	for ev := range finalEvents(t, env, env.Session(t, "pipeline", "s", nil), "why sleep matters") {
		authors = append(authors, ev.Author)
	}
	if diff := cmp.Diff([]string{"outliner", "writer", "critic", "editor", "critic"}, authors); diff != "" {
		t.Errorf("final answers (-want +got):\n%s", diff)
	}
}

// ensureSession creates the session unless it exists.
func ensureSession(t *testing.T, env *testenv.Env, app, id string) session.Key {
	t.Helper()
	key := session.Key{App: app, User: "u", ID: id}
	if _, err := env.Store.Sessions.Get(t.Context(), key, nil); err == nil {
		return key
	}
	return env.Session(t, app, id, nil)
}

// finalAnswer returns the last answer of a turn, prefixed with its author.
func finalAnswer(t *testing.T, env *testenv.Env, key session.Key, text string) string {
	t.Helper()
	answer := ""
	for ev := range finalEvents(t, env, key, text) {
		answer = ev.Author + ": " + model.TextOf(ev.Content)
	}
	return answer
}

// finalEvents returns a turn's final events; an error fails the test.
func finalEvents(t *testing.T, env *testenv.Env, key session.Key, text string) func(func(*session.Event) bool) {
	t.Helper()
	return func(yield func(*session.Event) bool) {
		req := &runtime.RunRequest{App: key.App, UserID: key.User, SessionID: key.ID, Message: model.UserText(text)}
		for ev, err := range env.Host.Run(t.Context(), req) {
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			if ev.IsFinal() && !yield(ev) {
				return
			}
		}
	}
}
