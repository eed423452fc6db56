package mcpdirect

import (
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	version = "2026-07-28"
	body    = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"desk","arguments":{"request":"hi"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}},"traceparent":"x"}}}`
)

func usualHeader() http.Header {
	h := http.Header{}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"MCP-Protocol-Version": version, "Mcp-Method": "tools/call", "Mcp-Name": "desk",
	} {
		h.Set(name, value)
	}
	return h
}

// The usual call is read; one that differs in a header or a field is the SDK's.
func TestReadCall(t *testing.T) {
	c := ReadCall(usualHeader(), version, []byte(body))
	if c == nil || c.Params.Name != "desk" || string(c.Params.Arguments) != `{"request":"hi"}` || c.Capabilities.Elicitation == nil {
		t.Fatalf("the usual call: %+v", c)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json; charset=utf-8", "Accept": "application/json", "MCP-Protocol-Version": "2027-01-01",
		"Mcp-Method": "tools/list", "Mcp-Name": "other", "Mcp-Param-Region": "x", "Mcp-Session-Id": "x", "Last-Event-Id": "1",
	} {
		h := usualHeader()
		if h.Set(name, value); ReadCall(h, version, []byte(body)) != nil {
			t.Errorf("%s: %s is read", name, value)
		}
	}
	for old, unusual := range map[string]string{
		`"id":7`:                `"id":7.5`,
		`"id":7,`:               ``,
		`"jsonrpc":"2.0"`:       `"jsonrpc":"1.0"`,
		`"method":"tools/call"`: `"method":"tools/list"`,
		`"name":"desk"`:         `"name":"Desk"`,
		`"params":{`:            `"params":{"requestState":"x",`,
		`{"request":"hi"}`:      `["hi"]`,
		`"_meta":{`:             `"_meta":{"progressToken":1,`,
		`"traceparent"`:         `"io.modelcontextprotocol/logLevel"`,
		`{"elicitation":{}}`:    `[]`,
		`{"name":"c",`:          `{"name":7,`,
		`Version":"2026-07-28"`: `Version":"2025-11-25"`,
		`{"jsonrpc"`:            `[{"jsonrpc"`,
		`"x"}}}`:                `"x"}}} {}`,
	} {
		changed := strings.Replace(body, old, unusual, 1)
		if changed == body || ReadCall(usualHeader(), version, []byte(changed)) != nil {
			t.Errorf("%s instead of %s is read", unusual, old)
		}
	}
}

// In a session the usual call has no metadata, or a trace. One that differs is the SDK's.
func TestReadSessionCall(t *testing.T) {
	const body = `{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"desk","arguments":{"request":"hi"},"_meta":{"traceparent":"x"}}}`
	usual := func() http.Header {
		h := usualHeader()
		h.Set("MCP-Protocol-Version", "2025-11-25")
		h.Set("Mcp-Session-Id", "s")
		h.Del("Mcp-Method")
		h.Del("Mcp-Name")
		return h
	}
	for _, text := range []string{body, strings.Replace(body, `,"_meta":{"traceparent":"x"}`, "", 1)} {
		if c := ReadSessionCall(usual(), []byte(text)); c == nil || c.Params.Name != "desk" || string(c.ID) != `"a"` || c.Capabilities != nil {
			t.Errorf("%s: %+v", text, c)
		}
	}
	for name, value := range map[string]string{
		"MCP-Protocol-Version": version, "Mcp-Session-Id": "", "Mcp-Name": "other", "Accept": "text/event-stream", "Last-Event-Id": "1",
	} {
		h := usual()
		if h.Set(name, value); ReadSessionCall(h, []byte(body)) != nil {
			t.Errorf("%s: %s is read", name, value)
		}
	}
	for old, unusual := range map[string]string{
		`"traceparent"`: `"progressToken"`, `"id":"a",`: ``, `{"traceparent":"x"}`: `[]`, `"name":"desk"`: `"name":7`, `tools/call`: `tools/list`,
	} {
		if ReadSessionCall(usual(), []byte(strings.Replace(body, old, unusual, 1))) != nil {
			t.Errorf("%s instead of %s is read", unusual, old)
		}
	}
}

// A notification that cancels a request names it.
func TestReadCanceled(t *testing.T) {
	for body, want := range map[string]string{
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`:                `7`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a","reason":"x"}}`: `"a"`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[7]}}`:              ``,
		`{"jsonrpc":"2.0","method":"notifications/cancelled"}`:                                         ``,
		`{"jsonrpc":"2.0","method":"notifications/initialized","params":{"requestId":7}}`:              ``,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"notifications/cancelled"}}`:   ``,
	} {
		if got := string(ReadCanceled([]byte(body))); got != want {
			t.Errorf("%s is %q, want %q", body, got, want)
		}
	}
}

// A header for a name that is not ASCII is decoded, and another one stays.
func TestDecodeName(t *testing.T) {
	for given, want := range map[string]string{
		"=?base64?Z3LDvMOfZQ==?=": "grüße", "desk": "desk", "=?base64?!?=": "=?base64?!?=", "=?base64?Zg==": "=?base64?Zg==",
	} {
		h := http.Header{}
		h.Set("Mcp-Name", given)
		if DecodeName(h); h.Get("Mcp-Name") != want {
			t.Errorf("%s is %q, want %q", given, h.Get("Mcp-Name"), want)
		}
	}
}

// A response has the request's ID, and the result's type and server.
func TestEncode(t *testing.T) {
	c := ReadCall(usualHeader(), version, []byte(strings.Replace(body, `"id":7`, `"id":"a"`, 1)))
	info := []byte(`{"name":"desk","version":"1"}`)
	got, err := c.EncodeResult(&mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "ok"}}}, info)
	want := `{"jsonrpc":"2.0","id":"a","result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"desk","version":"1"}},"content":[{"type":"text","text":"ok"}]}}`
	if err != nil || string(got) != want {
		t.Errorf("%v, got\n%s, want\n%s", err, got, want)
	}
	got, err = c.EncodeError(&jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "no"})
	if want := `{"jsonrpc":"2.0","id":"a","error":{"code":-32602,"message":"no"}}`; err != nil || string(got) != want {
		t.Errorf("%v, got %s, want %s", err, got, want)
	}
}
