package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agenthost"
	"agenthost/pkg/loader"
	"agenthost/pkg/runtime"
	"agenthost/wing/mcptool"

	"google.golang.org/genai"
)

// An agent calls the tools of the Go SDK's example servers, which it starts as programs. A tool whose
// name models cannot have is not offered.
func TestExampleServers(t *testing.T) {
	servers := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", servers)
	for _, name := range []string{"everything", "hello", "memory", "sequentialthinking"} {
		build.Args = append(build.Args, "github.com/modelcontextprotocol/go-sdk/examples/server/"+name)
	}
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s: %s", err, out)
	}
	for _, tt := range []struct{ server, tool, args, want string }{
		{"hello", "greet", `{"name": "Ada"}`, `"text":"Hi Ada"`},
		{"everything", "greet", `{"name": "Ada"}`, `"text":"Hi Ada"`},
		{"everything", "greet (structured)", `{"name": "Ada"}`, `the available tools are greet, log, ping, roots, sample`},
		{"everything", "ping", `{}`, `"isError":false`},
		{"everything", "log", `{}`, `"isError":false`},
		{"memory", "create_entities", `{"entities": [{"name": "Ada", "entityType": "person", "observations": ["writes"]}]}`, `"name":"Ada"`},
		{"sequentialthinking", "start_thinking", `{"problem": "tea", "sessionId": "s"}`, `Started thinking session 's'`},
		{"sequentialthinking", "review_thinking", `{"sessionId": "none"}`, `session none not found`},
	} {
		t.Run(tt.server+"/"+tt.tool, func(t *testing.T) {
			if got := callExample(t, filepath.Join(servers, tt.server), tt.tool, tt.args); !strings.Contains(got, tt.want) {
				t.Errorf("%s has the response %s, want %s", tt.tool, got, tt.want)
			}
		})
	}
}

// callExample returns the response of an example server's tool in JSON.
func callExample(t *testing.T, program, tool, args string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "desk")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	command, err := json.Marshal([]string{program})
	if err != nil {
		t.Fatal(err)
	}
	name, err := json.Marshal(tool)
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{
		"app.yaml":        "models: {demo: {provider: scripted, script: s.yaml}}\n",
		"root_agent.yaml": "name: desk\nmodel: demo\ninstruction: Help.\ntools:\n  - mcp: {command: " + string(command) + ", connect_timeout: 30s}\n",
		"s.yaml":          "- when: responses[" + string(name) + "] != nil\n  text: Done.\n- calls: [{name: " + string(name) + ", args: " + args + "}]\n",
		"../policy.yaml":  "grants: [{apps: [desk], commands: [" + string(command) + "]}]\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	policy, err := loader.ReadPolicy(filepath.Join(dir, "../policy.yaml"), loader.PolicyHost{})
	if err != nil {
		t.Fatal(err)
	}
	kinds := agenthost.StandardKinds()
	kinds.Tools = append(kinds.Tools, mcptool.Kinds()...)
	problems := &strings.Builder{}
	host, err := agenthost.Open(t.Context(), &agenthost.Options{Folders: []string{dir}, Kinds: kinds, Problems: problems, Load: &loader.Options{Policy: policy}})
	if err != nil {
		t.Fatal(err, problems)
	}
	defer host.Close()
	var all []string
	for ev, err := range host.Run(t.Context(), &runtime.RunRequest{
		App: "desk", UserID: "u", SessionID: "s", CreateSession: true, Message: genai.NewContentFromText("hello", genai.RoleUser),
	}) {
		if err != nil {
			t.Fatal(err, problems)
		}
		if ev.Content == nil {
			continue
		}
		for _, part := range ev.Content.Parts {
			if part.FunctionResponse != nil {
				response, err := json.Marshal(part.FunctionResponse.Response)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, string(response))
			}
		}
		if ev.ErrorCode != "" {
			all = append(all, ev.ErrorCode+": "+ev.ErrorMessage)
		}
	}
	return strings.Join(all, "\n")
}
