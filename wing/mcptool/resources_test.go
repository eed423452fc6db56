package mcptool

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/tool"
)

// addResource adds a resource to a server.
func addResource(s *mcp.Server, name string, c *mcp.ResourceContents) {
	s.AddResource(&mcp.Resource{Name: name, URI: c.URI, MIMEType: c.MIMEType}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{c}}, nil
	})
}

// editRequest lets a set's resource tool edit the request after a call that named resources, and
// returns the notes and the texts of the contents.
func editRequest(t *testing.T, set tool.Set, invocation string, names ...any) (notes string, texts []string, err error) {
	t.Helper()
	tools, err := set.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	last := tools[len(tools)-1]
	call := &tool.Call{State: emptyState{}, Args: map[string]any{"resource_names": names}}
	call.Origin.InvocationID = invocation
	res, err := last.Run(t.Context(), call)
	if err != nil {
		t.Fatal(err)
	}
	part := &genai.Part{FunctionResponse: &genai.FunctionResponse{Name: last.Declaration().Name, Response: res.Response}}
	req := &model.Request{Config: &genai.GenerateContentConfig{}, Contents: []*genai.Content{{Role: genai.RoleUser, Parts: []*genai.Part{part}}}}
	err = last.(tool.RequestEditor).EditRequest(t.Context(), call, req)
	for _, c := range req.Contents[1:] {
		text := ""
		for _, p := range c.Parts {
			if p.InlineData != nil {
				text += fmt.Sprintf("<%s %d bytes>", p.InlineData.MIMEType, len(p.InlineData.Data))
			}
			text += p.Text + "|"
		}
		texts = append(texts, text)
	}
	return strings.Join(req.Notes, "\n"), texts, err
}

// TestResourcesOnlyInNextRequest: the model sees the resource names from all pages, and the
// contents that it loads in the next request only. Secrets are redacted.
func TestResourcesOnlyInNextRequest(t *testing.T) {
	h := serveMCP(t, false)
	for i := range 3 {
		addResource(h.serving, fmt.Sprintf("note%d", i), &mcp.ResourceContents{URI: fmt.Sprintf("mem://%d", i), MIMEType: "text/plain", Text: "the key is k3y-of-ops"})
	}
	addResource(h.serving, "photo", &mcp.ResourceContents{URI: "mem://photo", MIMEType: "image/png", Blob: []byte{1, 2, 3}})
	addResource(h.serving, "list", &mcp.ResourceContents{URI: "mem://list", MIMEType: "text/csv; charset=iso-8859-1", Blob: []byte("a,\xfc")})
	addResource(h.serving, "disk", &mcp.ResourceContents{URI: "mem://disk", MIMEType: "application/zip", Blob: []byte{1, 2}})
	for _, tt := range []struct{ kind, yaml, names string }{
		{"mcp", "url: " + h.URL + "\nheaders: {X-Key: k3y}\nresources: true\ntool_filter: [add]", `["note0","note1","note2","disk","list","photo"]`},
		{"mcp", "url: " + h.URL + "\nheaders: {X-Key: k3y}\nresources: [photo, note1, list, disk, gone]", `["note1","disk","list","photo"]`},
		{"McpToolset", "streamable_http_connection_params: {url: '" + h.URL + "', headers: {X-Key: k3y}}\nuse_mcp_resources: true", `["note0","note1","note2","disk","list","photo"]`},
	} {
		set := buildSet(t, tt.kind, tt.yaml)
		set.(*serverSet).redactor = newTestRedactor()
		if names := namesOf(t, set); names[len(names)-1] != "load_mcp_resource" {
			t.Errorf("tools = %v", names)
		}
		note, texts, err := editRequest(t, set, "1", "photo", "note1", "note1", "list", "disk", "unknown")
		if !strings.Contains(note, tt.names) || !strings.Contains(note, "`load_mcp_resource`") || err != nil {
			t.Errorf("note = %s, %v", note, err)
		}
		want := []string{
			`Resource disk is:|[Binary resource of type "application/zip", 2 bytes, which cannot be displayed.]|`,
			"Resource list is:|a,ü|", "Resource note1 is:|the key is ***|", "Resource photo is:|<image/png 3 bytes>|",
		}
		if diff := cmp.Diff(want, texts); diff != "" {
			t.Errorf("contents (-want +got):\n%s", diff)
		}
		if _, texts, _ := editRequest(t, set, "1"); len(texts) > 0 {
			t.Errorf("without names: %v", texts)
		}
	}
}

// TestResourceBounds: too many names, contents and bytes are described instead, and so
// are resources that cannot be read. A server without resources is an error.
func TestResourceBounds(t *testing.T) {
	s := serveRaw(t)
	s.answer("tools/list", anyTool)
	var all []string
	var asked []any
	for i := range 250 {
		all = append(all, fmt.Sprintf(`{"name":"r%03d","uri":"mem://%d"}`, i, i))
	}
	for i := range 22 {
		asked = append(asked, fmt.Sprintf("r%03d", i))
	}
	lists := 0
	s.answers["resources/list"] = func(id, params json.RawMessage) string {
		lists++
		page, next := all[:125], `,"nextCursor":"2"`
		if strings.Contains(string(params), `"2"`) {
			page, next = all[125:], ""
		}
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"resources":[%s]%s}}`, id, strings.Join(page, ","), next)
	}
	s.answers["resources/read"] = func(id, params json.RawMessage) string {
		switch {
		case strings.Contains(string(params), `"mem://0"`):
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32002,"message":"gone"}}`, id)
		case strings.Contains(string(params), `"mem://1"`):
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"contents":[{"uri":"x","text":"%s"}]}}`, id, strings.Repeat("x", 2000))
		}
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"contents":[{"uri":"x","text":"ok"}]}}`, id)
	}
	set := buildSet(t, "mcp", "url: "+s.URL+"\nresources: true\nmax_result: 1KiB")
	note, texts, err := editRequest(t, set, "1", asked...)
	if err != nil || !strings.Contains(note, "and 50 more that are not listed") || strings.Contains(note, "r200") {
		t.Errorf("note = %.300s, %v", note, err)
	}
	for i, want := range map[int]string{
		0:  "Resource r000 is:|not available: mcp server " + strings.TrimPrefix(s.URL, "http://") + " (root_agent.yaml:1:6): the server reports: gone|",
		1:  "Resource r001 is:|not available: the resource of 2000 bytes exceeds the remaining limit of 1024 (max_result)|",
		2:  "Resource r002 is:|ok|",
		20: "Resource r020 is:|not available: more than 20 resources in one request: call the function again for this one|",
	} {
		if texts[i] != want {
			t.Errorf("content %d = %s\nwant %s", i, texts[i], want)
		}
	}
	if _, _, err := editRequest(t, set, "1"); err != nil || lists != 2 {
		t.Errorf("second request of the invocation: %d pages were listed, want 2; %v", lists, err)
	}
	if _, _, err := editRequest(t, set, "2"); err != nil || lists != 4 {
		t.Errorf("another invocation: %d pages were listed, want 4; %v", lists, err)
	}
	s.answers["resources/list"] = func(id, _ json.RawMessage) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, id)
	}
	if _, _, err := editRequest(t, set, "3"); !strings.HasSuffix(errText(err), "the server reports: Method not found") {
		t.Errorf("without resources: %v", err)
	}
}

// TestResourcesOffline: in app tests the tool is answered by stubs.
func TestResourcesOffline(t *testing.T) {
	set := buildSet(t, "mcp", "url: http://127.0.0.1:1\nresources: true\ntool_name_prefix: docs")
	offline := offlineSet{set.(*serverSet)}
	tools, err := offline.ListTools(t.Context(), nil)
	if err != nil || !slices.ContainsFunc(tools, func(one tool.Tool) bool { return one.Declaration().Name == "docs_load_mcp_resource" }) {
		t.Errorf("tools = %v, %v", tools, err)
	}
}
