package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// TestRecordedAppsReplay records a conversation with each example app, and replays it
// from the script alone: all events are equal, including partial events.
func TestRecordedAppsReplay(t *testing.T) {
	messages := map[string][]string{
		"hello":    {"good morning", "my name is Ana", "thanks", "thanks"},
		"files":    {"hello"},
		"voice":    {"hello", "when does the pool open?"},
		"memory":   {"My cat is called Milo.", "What is my cat called?", "look up the cat"},
		"research": {"How do cities get cooler?", "Do unicorns exist?"}, "documents": {"hello", "where is my lease?"},
		"support":  {"hello", "Where is order 1002?", "I want twice as much.", "Yes, please."},
		"pipeline": {"why sleep matters", "and dreams"},
		"skills":   {"hello", "the letter for order 1001, please"},
		"team":     {"hello", "my invoice is wrong", "it is number 12", "and my tyre is flat", "since monday"},
		"tools": {
			"hi", "what is 100 with tax?", "good morning in Portuguese, please", "good night in Portuguese, please", "where is order 1001?",
		},
	}
	for _, dir := range exampleApps(t) {
		app := filepath.Base(dir)
		if len(messages[app]) == 0 {
			t.Errorf("the app %s is not recorded: add messages for it", app)
		}
		for _, streaming := range []bool{false, true} {
			t.Run(app, func(t *testing.T) {
				var script strings.Builder
				rec := provider.NewRecorder(&script)
				want := runConversation(t, dir, messages[app], streaming, &loader.Options{WrapModel: rec.Wrap, WrapTool: loader.RecordTools(rec)})
				if rec.Err() != nil {
					t.Fatal(rec.Err())
				}
				recorded := decodeScript(t, script.String())
				got := runConversation(t, dir, messages[app], streaming, &loader.Options{
					Model: provider.NewScripted(recorded, nil), WrapTool: loader.ReplayTools(recorded),
				})
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("streaming %v (-recorded +replayed):\n%s\nby\n%s", streaming, diff, &script)
				}
			})
		}
	}
}

func decodeScript(t *testing.T, text string) *provider.Script {
	t.Helper()
	n, ds := spec.Parse("recorded.script.yaml", []byte(text))
	if len(ds) > 0 {
		t.Fatalf("%v in\n%s", ds, text)
	}
	script, ds := provider.DecodeScript(n)
	if len(ds) > 0 {
		t.Fatalf("%v in\n%s", ds, text)
	}
	return script
}

// runConversation returns the events of all turns in a new session.
func runConversation(t *testing.T, dir string, messages []string, streaming bool, opts *loader.Options) []string {
	t.Helper()
	opts.Env = lookupEnv(map[string]string{"ORDERS_URL": "http://127.0.0.1:1"})
	e := testenv.New(t, &testenv.Options{Loader: opts})
	app := e.Load(t, dir)
	key := e.Session(t, app.Name(), "s", nil)
	var events []string
	for _, text := range messages {
		req := &runtime.RunRequest{App: key.App, UserID: key.User, SessionID: key.ID, Message: model.UserText(text), Streaming: &streaming}
		for ev, err := range e.Host.Run(t.Context(), req) {
			if err != nil {
				t.Fatal(err)
			}
			events = append(events, testenv.Stable(t, ev))
		}
	}
	return events
}
