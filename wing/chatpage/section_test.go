package chatpage_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/wing/chatpage"
)

// The defaults of chat in app.yaml are those that Go callers get, and an app without chat has none.
// An empty list of uploads allows none.
func TestChatDefaults(t *testing.T) {
	const agent, script = "name: a\nmodel: m\ninstruction: x", "- text: hi"
	for doc, want := range map[string]*chatpage.Settings{
		"description: x":      nil,
		"chat: {}":            chatpage.DefaultSettings(),
		"chat: {uploads: []}": func() *chatpage.Settings { c := chatpage.DefaultSettings(); c.Uploads = []string{}; return c }(),
	} {
		e := newEnv(t, newOptions(nil), "-- apps/shop/app.yaml --\n"+doc+"\nmodels: {m: {provider: scripted, script: s.yaml}}\n-- apps/shop/root_agent.yaml --\n"+agent+"\n-- apps/shop/s.yaml --\n"+script+"\n")
		got, _ := e.Host.App("shop").Section("chat").(*chatpage.Settings)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", doc, diff)
		}
	}
}
