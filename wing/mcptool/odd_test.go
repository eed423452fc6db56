package mcptool

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/fake/fakemcp"
	"agenthost/pkg/tool"
)

const fortyTwo = `{"content":[{"text":"forty-two","type":"text"}],"isError":false}`

// oddResponses are the responses that the model gets from [fakemcp.OddServer]'s tools, or the
// errors.
func oddResponses() map[string]string {
	return map[string]string{
		"unknown_type":    `{"content":[{"text":"forty-two","type":"text"},{"foo":1,"type":"ui_widget"},{"foo":2}],"isError":false,"warnings":["content[1] has the unknown type ui_widget","content[2] has the unknown type null"]}`,
		"bad_base64":      `{"content":[{"text":"kept","type":"text"},{"text":"(image of type image/png, which cannot be read: data is not valid base64)","type":"text"},{"text":"(audio of type null, which cannot be read: data is null and not a string)","type":"text"},{"resource":{"uri":"a:b"},"type":"resource"}],"isError":false,"warnings":["content[1] is left out: data is not valid base64","content[2] is left out: data is null and not a string","blob of content[3] is left out: blob is not valid base64"]}`,
		"other_base64":    `{"content":[{"data":"/+8=","mimeType":"image/png","type":"image"},{"data":"AAA=","mimeType":"image/png","type":"image"}],"isError":false}`,
		"content_text":    `{"content":[{"text":"forty-two","type":"text"}],"isError":false,"warnings":["content is a string and not a list"]}`,
		"content_object":  `{"content":[{"text":"forty-two","type":"text"}],"isError":false,"warnings":["content is an object and not a list"]}`,
		"content_number":  `{"content":[{"text":"7","type":"text"}],"isError":false,"warnings":["content is a number and not a list"]}`,
		"content_null":    `{"content":[],"isError":false,"structuredContent":{"n":9007199254740993}}`,
		"content_missing": `{"content":[],"isError":false,"structuredContent":{"n":-1.5}}`,
		"content_items":   `{"content":[{"text":"forty","type":"text"},{"text":"2","type":"text"},{"text":"[1]","type":"text"}],"isError":false,"warnings":["content[0] is a string and not an object","content[1] is a number and not an object","content[2] is null and not an object","content[3] is a list and not an object"]}`,
		"text_number":     `{"content":[{"text":"42","type":"text"},{"text":"null","type":"text"}],"isError":false,"warnings":["text of content[0] is a number and not a string","text of content[1] is null and not a string"]}`,
		"resource_text":   `{"content":[{"resource":"a:b","type":"resource"},{"type":"resource_link"}],"isError":false,"warnings":["resource of content[0] is a string and not an object"]}`,
		"structured_list": `{"content":[],"isError":false,"structuredContent":[1,2]}`,
		"structured_text": `{"_meta":7,"content":[],"isError":false,"structuredContent":"x"}`,
		"error_flag_text": `{"content":[{"text":"forty-two","type":"text"}],"isError":false,"warnings":["isError is a string and not a boolean"]}`,
		"error_flag_null": fortyTwo,
		"unknown_members": `{"content":[{"_meta":"x","annotations":7,"more":1,"text":"forty-two","type":"text"}],"isError":false}`,
		"result_text":     `{"content":[{"text":"forty-two","type":"text"}],"isError":false,"warnings":["the result is a string and not an object"]}`,
		"result_list":     `{"content":[{"text":"[1,\"b\"]","type":"text"}],"isError":false,"warnings":["the result is a list and not an object"]}`,
		"result_null":     `{"content":[],"isError":false,"warnings":["the result is null and not an object"]}`,
		"result_missing":  `{"content":[],"isError":false,"warnings":["the result is null and not an object"]}`,
		"id_text":         fortyTwo, "version_missing": fortyTwo, "version_1": fortyTwo, "method_null": fortyTwo, "batch": fortyTwo,
		"byte_order_mark": fortyTwo, "right": fortyTwo,
		"failure_text": "MCP tool execution failed: no such order", "failure_code_text": "MCP tool execution failed: no such order",
		"failure_message_object": `MCP tool execution failed: {"why":"no such order"}`,
		"failure_id_null":        "MCP tool execution failed: no such order",
		"not_json":               "MCP tool execution failed: the server answered, but the server's response cannot be read: it is not valid JSON: invalid character 'N' looking for beginning of value",
		"cut_off":                "MCP tool execution failed: the server answered, but the server's response cannot be read: it is not valid JSON: unexpected end of JSON input",
		"schema_null":            "", "schema_missing": "", "schema_untyped": "", "schema_nulls": "", "schema_wrong": "", "description_number": "",
	}
}

// TestOddServer: over every transport the model gets what can be read from each response, with the
// cause for what cannot, and the connection stays. Listed tools that cannot be read are left out,
// the others stay. Servers without sessions are read the same way.
func TestOddServer(t *testing.T) {
	for name, path := range map[string]string{
		"program": "", "json": "/", "events": "/stream", "text": "/text", "sse": "/sse",
		"stateless json": "/", "stateless events": "/stream", "stateless text": "/text",
	} {
		t.Run(name, func(t *testing.T) {
			server := &fakemcp.OddServer{Stateless: strings.HasPrefix(name, "stateless")}
			yaml := self("odd")
			if path != "" {
				h := httptest.NewServer(server)
				t.Cleanup(h.Close)
				yaml = "url: " + h.URL + path + "\n"
			}
			if name == "sse" {
				yaml += "transport: sse\n"
			}
			set := buildSet(t, "mcp", yaml)
			want := oddResponses()
			got := map[string]string{}
			tools, err := set.Tools(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, one := range tools {
				name := one.Declaration().Name
				if strings.HasPrefix(name, "schema") || name == "description_number" {
					got[name] = ""
					continue
				}
				res, err := one.Run(t.Context(), &tool.Call{})
				if err != nil {
					got[name] = err.Error()
					continue
				}
				raw, _ := json.Marshal(res.Response)
				got[name] = string(raw)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("responses (-want +got):\n%s", diff)
			}
			if n := server.Initialized.Load(); n > 1 {
				t.Errorf("the server was initialized %d times", n)
			}
		})
	}
}
