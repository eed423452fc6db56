package runtime_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/testenv"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
)

const previewedApp = `
agent_class: SequentialAgent
name: line
sub_agents:
  - name: first
    model: demo
    instruction: "Be {tone?}."
    generate_content_config: {temperature: 0.5}
  - name: second
    model: demo
    instruction: "Answer {user:name}."
    tools:
      - expr: {name: vat, description: VAT., params: {net: number}, value: args.net}
  - {agent_class: LoopAgent, name: idle, max_iterations: 1}
`

func previewEnv(t *testing.T) (*testenv.Env, session.Key) {
	e := testenv.New(t, nil)
	e.Load(t, testenv.Files(t, "app", map[string][]byte{
		"root_agent.yaml":  []byte(previewedApp),
		"app.yaml":         []byte("models: {demo: {provider: scripted, script: demo.script.yaml}}"),
		"demo.script.yaml": []byte("- text: \"I am {agent}\""),
	}))
	key := e.Session(t, "app", "s", map[string]any{"user:name": "Ana", "tone": "kind"})
	formatRun(e.Host.Run(t.Context(), userMessage(key, "hi")))
	return e, key
}

func TestPreview(t *testing.T) {
	tests := []struct {
		name string
		edit func(*runtime.PreviewRequest)
		want string
	}{
		{
			"a session that begins", func(r *runtime.PreviewRequest) { r.SessionID, r.Text = "", "hello" },
			`{
  "app": "app",
  "agent": "first",
  "model": "scripted",
  "systemInstruction": "Be .\n\nYou are an agent. Your internal name is \"first\".",
  "contents": [
    {
      "parts": [
        {
          "text": "hello"
        }
      ],
      "role": "user"
    }
  ],
  "tools": [],
  "config": {
    "temperature": 0.5
  }
}`,
		},
		{
			"a named agent of a session", func(r *runtime.PreviewRequest) {
				r.Agent, r.Text, r.State = "second", "more", map[string]any{"user:name": "Bo"}
			},
			`{
  "app": "app",
  "agent": "second",
  "model": "scripted",
  "systemInstruction": "Answer Bo.\n\nYou are an agent. Your internal name is \"second\".",
  "contents": [
    {
      "parts": [
        {
          "text": "hi"
        }
      ],
      "role": "user"
    },
    {
      "parts": [
        {
          "text": "For context:"
        },
        {
          "text": "[first] said: I am first"
        }
      ],
      "role": "user"
    },
    {
      "parts": [
        {
          "text": "I am second"
        }
      ],
      "role": "model"
    },
    {
      "parts": [
        {
          "text": "more"
        }
      ],
      "role": "user"
    }
  ],
  "tools": [
    {
      "functionDeclarations": [
        {
          "description": "VAT.",
          "name": "vat",
          "parametersJsonSchema": {
            "properties": {
              "net": {
                "type": "number"
              }
            },
            "required": [
              "net"
            ],
            "type": "object"
          }
        }
      ]
    }
  ],
  "config": {}
}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e, key := previewEnv(t)
			before := storedAuthors(t, e, key)
			req := &runtime.PreviewRequest{App: key.App, UserID: key.User, SessionID: key.ID}
			tt.edit(req)
			p, err := e.Host.Preview(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.MarshalIndent(p, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("Preview() (-want +got):\n%s", diff)
			}
			if after := storedAuthors(t, e, key); after != before {
				t.Errorf("stored %q after a preview, want %q", after, before)
			}
			sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]any{"user:name": "Ana", "tone": "kind"}
			if diff := cmp.Diff(want, sess.State.All()); diff != "" {
				t.Errorf("state after a preview (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPreviewErrors(t *testing.T) {
	tests := []struct {
		name string
		req  runtime.PreviewRequest
		want string
	}{
		{"no app", runtime.PreviewRequest{App: "other"}, "App not found: other"},
		{"no session", runtime.PreviewRequest{App: "app", UserID: "u", SessionID: "other"}, "Session not found: other"},
		{"no agent", runtime.PreviewRequest{App: "app", Agent: "third"}, "agent not found in app app: third; its agents are line, first, second, idle"},
		{"no model", runtime.PreviewRequest{App: "app", Agent: "idle"}, "agent idle does not use a model"},
		{
			"missing key",
			runtime.PreviewRequest{App: "app", Agent: "second", UserID: "other"},
			"Context variable not found: `user:name`. (agent second, ",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e, _ := previewEnv(t)
			_, err := e.Host.Preview(t.Context(), &tt.req)
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("Preview() = %v, want %s", err, tt.want)
			}
		})
	}
}
