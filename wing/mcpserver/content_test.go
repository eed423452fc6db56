package mcpserver_test

//lint:file-ignore SA1019 clients of 2025-11-25 use logging until MCP removes it

import (
	"bufio"
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/genai"

	"agenthost/pkg/session"
	"agenthost/wing/mcpserver"
)

// library is an app with resources and prompts.
const library = `-- apps/library/app.yaml --
models: {demo: {provider: scripted, script: demo.script.yaml}}
mcp_server:
  expose:
    - agent: desk
    - artifacts: true
    - {resource: "docs://returns", description: How to return., text: "Within {days} days."}
    - {resource: "docs://logo", data: aGVsbG8=, mime_type: image/png}
    - {resource: "docs://orders/{id}/{part}", text: "{part} of {id}", arguments: [{name: part, values: [Lines, links, total]}]}
    - prompt: explain
      text: "Explain {what}."
      attach: ["{what}", "docs://logo"]
      arguments: [{name: what, required: true, values: ["docs://returns"]}]
-- apps/library/root_agent.yaml --
name: desk
model: demo
instruction: x
tools:
  - expr: {name: save_note, description: Saves., params: {text: string}, value: '"saved"', save_artifact: {note.txt: args.text}}
-- apps/library/demo.script.yaml --
- {when: responses.save_note != nil, text: "It is saved."}
- {calls: [{name: save_note, args: {text: hello}}]}
`

// Clients of either era read resources and templates, whose names match one segment. A value is
// not rendered again. A URI that matches no resource is not found.
func TestResources(t *testing.T) {
	_, url := newEnv(t, library, nil, nil)
	for _, era := range eras {
		s := connect(t, url+"/apps/library/mcp", era, "", nil)
		list, err := s.ListResources(t.Context(), nil)
		if err != nil || len(list.Resources) != 2 || list.Resources[1].URI != "docs://returns" {
			t.Errorf("%s: the resources are %v, %v", era, list, err)
		}
		for uri, want := range map[string]string{
			"docs://returns": "text/plain Within {days} days.", "docs://logo": "image/png hello",
			"docs://orders/7/total": "text/plain total of 7", "docs://orders/%7Bpart%7D/%7Bid%7D": "text/plain {id} of {part}",
			"docs://orders/a%2Fb/x": "text/plain x of a/b",
		} {
			read, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
			if err != nil {
				t.Errorf("%s %s: %v", era, uri, err)
				continue
			}
			if c := read.Contents[0]; c.URI != uri || c.MIMEType+" "+c.Text+string(c.Blob) != want {
				t.Errorf("%s %s is %v, want %q", era, uri, c, want)
			}
		}
		for _, uri := range []string{"docs://orders/7", "docs://orders/7/8/9", "docs://orders//x", "docs://return", "docs://orders/%zz/x", "file:///etc/passwd", "artifact://none/x"} {
			if read, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri}); err == nil {
				t.Errorf("%s %s was read: %v", era, uri, read.Contents[0])
			}
		}
	}
}

// A prompt attaches resources before its text, an image as such. An argument names only what the
// caller can read.
func TestPromptAttachesResources(t *testing.T) {
	_, url := newEnv(t, library, nil, nil)
	for _, era := range eras {
		s := connect(t, url+"/apps/library/mcp", era, "", nil)
		get := func(what string) (*mcp.GetPromptResult, error) {
			return s.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "explain", Arguments: map[string]string{"what": what}})
		}
		got, err := get("docs://returns")
		if err != nil || len(got.Messages) != 3 {
			t.Fatalf("%s: %v %v", era, got, err)
		}
		first, _ := got.Messages[0].Content.(*mcp.EmbeddedResource)
		image, _ := got.Messages[1].Content.(*mcp.ImageContent)
		last, _ := got.Messages[2].Content.(*mcp.TextContent)
		if first == nil || first.Resource.Text != "Within {days} days." || image == nil || string(image.Data) != "hello" || last == nil || last.Text != "Explain docs://returns." {
			t.Errorf("%s: the messages are %v %v %v", era, first, image, last)
		}
		for _, what := range []string{"file:///etc/passwd", "artifact://none/x", ""} {
			if _, err := get(what); err == nil || !strings.Contains(err.Error(), "not found") {
				t.Errorf("%s: %q is attached: %v", era, what, err)
			}
		}
	}
}

// Arguments of prompts and templates are completed by their values, whatever the case.
func TestCompletion(t *testing.T) {
	_, url := newEnv(t, library, nil, nil)
	for _, era := range eras {
		s := connect(t, url+"/apps/library/mcp", era, "", nil)
		for _, tt := range []struct {
			ref            mcp.CompleteReference
			argument, text string
			want           []string
		}{
			{mcp.CompleteReference{Type: "ref/prompt", Name: "explain"}, "what", "docs", []string{"docs://returns"}},
			{mcp.CompleteReference{Type: "ref/prompt", Name: "explain"}, "other", "", []string{}},
			{mcp.CompleteReference{Type: "ref/resource", URI: "docs://orders/{id}/{part}"}, "part", "L", []string{"Lines", "links"}},
			{mcp.CompleteReference{Type: "ref/resource", URI: "artifact://{session}/{+name}"}, "session", "", []string{}},
		} {
			got, err := s.Complete(t.Context(), &mcp.CompleteParams{Ref: &tt.ref, Argument: mcp.CompleteParamsArgument{Name: tt.argument, Value: tt.text}})
			if err != nil || !slices.Equal(got.Completion.Values, tt.want) {
				t.Errorf("%s %v %s: %v %v, want %q", era, tt.ref, tt.argument, got, err, tt.want)
			}
		}
		_, err := s.Complete(t.Context(), &mcp.CompleteParams{Ref: &mcp.CompleteReference{Type: "ref/prompt", Name: "none"}, Argument: mcp.CompleteParamsArgument{Name: "a"}})
		if err == nil || !strings.Contains(err.Error(), "unknown prompt or resource template") {
			t.Errorf("%s: an unknown prompt: %v", era, err)
		}
	}
}

// A client subscribes to what it can read, and is notified when an answer saves the artifact again.
func TestSubscription(t *testing.T) {
	_, url := newEnv(t, library, nil, nil)
	updated := make(chan string, 10)
	s := connect(t, url+"/apps/library/mcp", eras[0], "", &mcp.ClientOptions{ResourceUpdatedHandler: func(_ context.Context, req *mcp.ResourceUpdatedNotificationRequest) {
		updated <- req.Params.URI
	}})
	_, structured := call(t, s, "desk", map[string]any{"request": "save"})
	uri := "artifact://" + structured["session"].(string) + "/note.txt"
	for _, other := range []string{uri + "x", "artifact://none/note.txt", "docs://none"} {
		if err := s.Subscribe(t.Context(), &mcp.SubscribeParams{URI: other}); err == nil {
			t.Errorf("subscribed to %s", other)
		}
	}
	if err := s.Subscribe(t.Context(), &mcp.SubscribeParams{URI: uri}); err != nil {
		t.Fatal(err)
	}
	call(t, s, "desk", map[string]any{"request": "save"})
	if got := <-updated; got != uri {
		t.Errorf("the notification is for %s, want %s", got, uri)
	}
}

// listen opens the stream of a client of 2026-07-28 for a resource's notifications, and returns it with
// its status. The stream's lines are read one by one.
func listen(t *testing.T, url, token, uri string) (*bufio.Scanner, int) {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["` + uri + `"]},` +
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	r, err := http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen",
	} {
		r.Header.Set(name, value)
	}
	resp, err := (&http.Client{Transport: bearer(token)}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return bufio.NewScanner(resp.Body), resp.StatusCode
}

// readUntil returns the first line with some text; empty if the stream ends before.
func readUntil(lines *bufio.Scanner, text string) string {
	for lines.Scan() {
		if strings.Contains(lines.Text(), text) {
			return lines.Text()
		}
	}
	return ""
}

// Subscribers of a resource are notified when a reload changes it, in both eras, and not when it stays.
func TestResourceFollowsReload(t *testing.T) {
	e, url := newEnv(t, library, nil, nil)
	address := url + "/apps/library/mcp"
	changed, _ := newEnv(t, strings.Replace(library, "Within {days} days.", "At any time.", 1), nil, nil)
	updated := make(chan string, 10)
	s := connect(t, address, eras[0], "", &mcp.ClientOptions{ResourceUpdatedHandler: func(_ context.Context, req *mcp.ResourceUpdatedNotificationRequest) {
		updated <- req.Params.URI
	}})
	for _, uri := range []string{"docs://returns", "docs://logo"} {
		if err := s.Subscribe(t.Context(), &mcp.SubscribeParams{URI: uri}); err != nil {
			t.Fatal(err)
		}
	}
	lines, status := listen(t, address, "", "docs://returns")
	if readUntil(lines, "acknowledged") == "" {
		t.Fatalf("the stream is %d without an acknowledgement", status)
	}
	e.Host.Swap(changed.Host.App("library"))
	if got := readUntil(lines, "notifications/resources/updated"); !strings.Contains(got, "docs://returns") {
		t.Errorf("the stream has %q", got)
	}
	if got := <-updated; got != "docs://returns" || len(updated) > 0 {
		t.Errorf("the notification is for %s, with %d more", got, len(updated))
	}
}

// A user cannot subscribe to another user's artifact, and reads nothing of its changes. The control is its
// owner.
func TestForeignSubscription(t *testing.T) {
	_, url := newEnv(t, readDesk(t), nil, newAuth(t))
	address := url + "/apps/desk/mcp"
	own := connect(t, address, eras[0], tokenU, nil)
	_, structured := call(t, own, "write_note", map[string]any{"request": "save"})
	uri := "artifact://" + structured["session"].(string) + "/note.txt"
	if err := own.Subscribe(t.Context(), &mcp.SubscribeParams{URI: uri}); err != nil {
		t.Errorf("control: %v", err)
	}
	if err := connect(t, address, eras[0], tokenV, nil).Subscribe(t.Context(), &mcp.SubscribeParams{URI: uri}); err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("a foreign subscription: %v", err)
	}
	lines, status := listen(t, address, tokenV, uri)
	if got := readUntil(lines, "not found"); got == "" {
		t.Errorf("a foreign stream is %d", status)
	}
	lines, status = listen(t, address, tokenU, uri)
	if readUntil(lines, "acknowledged") == "" {
		t.Errorf("control: %d", status)
	}
	call(t, own, "write_note", map[string]any{"request": "save", "session": structured["session"]})
	if readUntil(lines, uri) == "" {
		t.Errorf("control: no notification for %s", uri)
	}
}

// A client that has set a level receives log messages with the agent's name, and no text of the run.
func TestLogging(t *testing.T) {
	_, url := newEnv(t, library, &mcpserver.Options{}, nil)
	logged := make(chan *mcp.LoggingMessageParams, 10)
	s := connect(t, url+"/apps/library/mcp", eras[0], "", &mcp.ClientOptions{LoggingMessageHandler: func(_ context.Context, req *mcp.LoggingMessageRequest) {
		logged <- req.Params
	}})
	if err := s.SetLoggingLevel(t.Context(), &mcp.SetLoggingLevelParams{Level: "info"}); err != nil {
		t.Fatal(err)
	}
	call(t, s, "desk", map[string]any{"request": "save"})
	got := <-logged
	data, _ := got.Data.(map[string]any)
	if got.Level != "info" || data["agent"] != "desk" || len(data) != 2 {
		t.Errorf("the message is %+v", got)
	}
}

// skillFiles are a skill for the desk, in an archive's form.
const skillFiles = `-- apps/desk/skills/letters/SKILL.md --
---
name: letters
description: Writes letters.
---
Write a letter.
-- apps/desk/skills/letters/references/style.md --
Be brief.
-- apps/desk/skills/unlisted/SKILL.md --
---
name: unlisted
description: Is not for clients.
---
Write nothing.
`

// The skills in expose are resources, with all their files, and a capability. Other skills are not,
// and a reload without the skill ends both.
func TestSkills(t *testing.T) {
	desk := strings.Replace(readDesk(t), "    - artifacts: true\n", "    - artifacts: true\n    - skill: letters\n", 1)
	desk = strings.Replace(desk, "tools:\n", "tools:\n  - skills: {from: [skills]}\n", 1)
	e, url := newEnv(t, desk+skillFiles, nil, nil)
	for _, era := range eras {
		s := connect(t, url+"/apps/desk/mcp", era, "", nil)
		if got := s.InitializeResult().Capabilities.Extensions["io.modelcontextprotocol/skills"]; got == nil {
			t.Errorf("%s: the server does not declare the extension", era)
		}
		list, err := s.ListResources(t.Context(), nil)
		if err != nil || len(list.Resources) != 1 {
			t.Fatalf("%s: %v %v", era, list, err)
		}
		if r := list.Resources[0]; r.URI != "skill://letters/SKILL.md" || r.Name != "letters" || r.Description != "Writes letters." || r.MIMEType != "text/markdown" {
			t.Errorf("%s: the resource is %+v", era, r)
		}
		read, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "skill://letters/references/style.md"})
		if err != nil || read.Contents[0].Text != "Be brief.\n" {
			t.Errorf("%s: %v %v", era, read, err)
		}
		for _, uri := range []string{"skill://unlisted/SKILL.md", "skill://letters/../unlisted/SKILL.md", "skill://letters/app.yaml"} {
			if _, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri}); err == nil {
				t.Errorf("%s: %s was read", era, uri)
			}
		}
	}
	withSkill := e.Host.App("desk")
	other, _ := newEnv(t, readDesk(t), nil, nil)
	e.Host.Swap(other.Host.App("desk"))
	for _, era := range eras {
		s := connect(t, url+"/apps/desk/mcp", era, "", nil)
		if got := s.InitializeResult().Capabilities.Extensions["io.modelcontextprotocol/skills"]; got != nil {
			t.Errorf("%s: the skills extension is %v", era, got)
		}
		if _, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "skill://letters/SKILL.md"}); err == nil {
			t.Errorf("%s: the skill was read after it was removed", era)
		}
	}
	e.Host.Swap(withSkill)
}

// An empty file is a resource with an empty blob, which clients require.
func TestEmptyArtifact(t *testing.T) {
	e, url := newEnv(t, readDesk(t), nil, nil)
	s := connect(t, url+"/apps/desk/mcp", eras[1], "", nil)
	_, structured := call(t, s, "desk", map[string]any{"request": "hello"})
	key := session.Key{App: "desk", User: "mcp_user", ID: structured["session"].(string)}
	if _, err := e.Host.Store().Artifacts.Save(t.Context(), key, "empty.txt", &genai.Part{InlineData: &genai.Blob{MIMEType: "text/plain"}}); err != nil {
		t.Fatal(err)
	}
	read, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "artifact://" + key.ID + "/empty.txt"})
	if err != nil || read.Contents[0].Blob == nil || len(read.Contents[0].Blob) != 0 {
		t.Errorf("%+v, %v", read, err)
	}
}
