package fakemcp

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// An OddServer answers like real servers that do not follow the protocol. Each of its tools has one
// fault in its responses. It serves over all transports, and is safe for concurrent use.
type OddServer struct {
	// Stateless makes it a server without sessions.
	Stateless bool
	// Initialized counts the connections.
	Initialized atomic.Int32
	streams     sync.Map
	next        atomic.Int32
}

// An OddTool is an [OddServer]'s tool.
type OddTool struct {
	Name string
	// Response is the whole response, in which ID is the request's id.
	Response string
}

// OddTools returns an [OddServer]'s tools by their faults.
func OddTools() []OddTool {
	result := func(name, result string) OddTool {
		return OddTool{name, `{"jsonrpc":"2.0","id":ID,"result":` + result + `}`}
	}
	return []OddTool{
		result("unknown_type", `{"content":[{"type":"text","text":"forty-two"},{"type":"ui_widget","foo":1},{"foo":2}]}`),
		result("bad_base64", `{"content":[{"type":"text","text":"kept"},{"type":"image","data":"%%%","mimeType":"image/png"},{"type":"audio","data":null},{"type":"resource","resource":{"uri":"a:b","blob":"%"}}]}`),
		result("other_base64", `{"content":[{"type":"image","data":"_-8","mimeType":"image/png"},{"type":"image","data":"data:image/png;base64,AAA=","mimeType":"image/png"}]}`),
		result("content_text", `{"content":"forty-two"}`),
		result("content_object", `{"content":{"type":"text","text":"forty-two"}}`),
		result("content_number", `{"content":7}`),
		result("content_null", `{"content":null,"structuredContent":{"n":9007199254740993}}`),
		result("content_missing", `{"structuredContent":{"n":-1.5}}`),
		result("content_items", `{"content":["forty",2,null,[1]]}`),
		result("text_number", `{"content":[{"type":"text","text":42},{"type":"text"}]}`),
		result("resource_text", `{"content":[{"type":"resource","resource":"a:b"},{"type":"resource_link"}]}`),
		result("structured_list", `{"content":[],"structuredContent":[1,2]}`),
		result("structured_text", `{"content":[],"structuredContent":"x","_meta":7}`),
		result("error_flag_text", `{"content":[{"type":"text","text":"forty-two"}],"isError":"false"}`),
		result("error_flag_null", `{"content":[{"type":"text","text":"forty-two"}],"isError":null}`),
		result("unknown_members", `{"content":[{"type":"text","text":"forty-two","annotations":7,"_meta":"x","more":1}],"more":{"a":1}}`),
		result("result_text", `"forty-two"`),
		result("result_list", `[1,"b"]`),
		result("result_null", `null`),
		{"result_missing", `{"jsonrpc":"2.0","id":ID}`},
		{"id_text", `{"jsonrpc":"2.0","id":"ID","result":{"content":[{"type":"text","text":"forty-two"}]}}`},
		{"version_missing", `{"id":ID,"result":{"content":[{"type":"text","text":"forty-two"}]}}`},
		{"version_1", `{"jsonrpc":"1.0","id":ID,"result":{"content":[{"type":"text","text":"forty-two"}],"isError":false},"error":null}`},
		{"method_null", `{"jsonrpc":"2.0","id":ID,"method":null,"result":{"content":[{"type":"text","text":"forty-two"}]}}`},
		{"batch", `[{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"forty-two"}]}}]`},
		{"byte_order_mark", "\uFEFF" + `{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"forty-two"}]}}`},
		{"failure_text", `{"jsonrpc":"2.0","id":ID,"error":"no such order"}`},
		{"failure_code_text", `{"jsonrpc":"2.0","id":ID,"error":{"code":"E7","message":"no such order","data":1}}`},
		{"failure_message_object", `{"jsonrpc":"2.0","id":ID,"error":{"code":1,"message":{"why":"no such order"}}}`},
		{"failure_id_null", `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no such order"}}`},
		{"not_json", `{"jsonrpc":"2.0","id":ID,"result":{"content":[],"structuredContent":{"n":NaN}}}`},
		{"cut_off", `{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text"`},
		result("right", `{"content":[{"type":"text","text":"forty-two"}]}`),
	}
}

// oddLists has the other results by method. Each list has entries that cannot be read.
func oddLists() map[string]string {
	var tools []string
	for _, t := range OddTools() {
		tools = append(tools, fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, t.Name))
	}
	tools = append(tools, `7`, `null`, `{"description":"no name"}`, `{"name":7}`,
		`{"name":"schema_null","inputSchema":null}`, `{"name":"schema_missing"}`, `{"name":"schema_untyped","inputSchema":{"properties":{"a":{}}}}`,
		`{"name":"schema_nulls","inputSchema":{"type":"object","properties":null,"required":null,"description":null}}`,
		`{"name":"schema_wrong","inputSchema":{"type":"object","properties":{"a":{"type":"str","minLength":"1","description":"kept"},"b":{"type":"string"}},"required":"a"}}`,
		`{"name":"schema_text","inputSchema":"object"}`, `{"name":"description_number","description":7,"annotations":"none","title":[],"inputSchema":{"type":"object"}}`)
	return map[string]string{
		"initialize":     `{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"resources":{},"prompts":{}},"serverInfo":{"name":"odd","version":"1"}}`,
		"tools/list":     `{"tools":[` + strings.Join(tools, ",") + `],"nextCursor":null}`,
		"resources/list": `{"resources":[7,{"uri":"a:no-name"},{"name":"notes","uri":"a:notes","size":"large","mimeType":7},{"name":"photo","uri":"a:photo"}]}`,
		"prompts/list":   `{"prompts":[null,{"name":"greet","arguments":"none"},{"name":"plain","arguments":[]}]}`,
		"prompts/get":    `{"messages":[{"role":"user","content":"Be "},{"role":"user","content":[{"type":"text","text":"kind."},{"type":"hologram"}]},{"role":7,"content":{"type":"image"}}]}`,
		"resources/read": `{"contents":[{"uri":"a:notes","text":7},"more",{"uri":"a:photo","mimeType":"image/png","blob":"%%%"}]}`,
	}
}

// newResponse returns the response to a message, or "".
func (s *OddServer) newResponse(raw []byte) string {
	var req struct {
		ID     json.RawMessage
		Method string
		Params struct{ Name string }
	}
	if err := json.Unmarshal(raw, &req); err != nil || len(req.ID) == 0 {
		return ""
	}
	if req.Method == "initialize" || s.Stateless && req.Method == "server/discover" {
		s.Initialized.Add(1)
	}
	response := `{"jsonrpc":"2.0","id":ID,"result":{}}`
	if result, ok := oddLists()[req.Method]; ok {
		response = `{"jsonrpc":"2.0","id":ID,"result":` + result + `}`
	}
	if s.Stateless && req.Method == "server/discover" {
		response = `{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"resources":{},"prompts":{}}}}`
	}
	tools := OddTools()
	if i := slices.IndexFunc(tools, func(t OddTool) bool { return req.Method == "tools/call" && t.Name == req.Params.Name }); i >= 0 {
		response = tools[i].Response
	}
	return strings.ReplaceAll(response, "ID", string(req.ID))
}

// ServeProgram serves on a program's input and output. The program also prints other lines: a
// banner, log lines, and the beginning of a line.
func (s *OddServer) ServeProgram(in io.Reader, out io.Writer) {
	fmt.Fprint(out, "Server running on stdio\n\n\u001b[32m{ready}\u001b[0m\n{\"level\":\"info\",\"msg\":\"started\"}\n")
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		if response := s.newResponse(lines.Bytes()); response != "" {
			fmt.Fprint(out, "working...\n{'progress': 1}\n42\nalmost done: "+response+"\r\n")
		}
	}
}

// ServeHTTP serves the streamable transport, with responses as JSON, as an event stream if the
// path is /stream, or as text if it is /text; and the older transport if it is /sse.
func (s *OddServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	response := ""
	if r.Method == http.MethodPost {
		response = s.newResponse(raw)
	}
	stream, _ := s.streams.Load(r.URL.Query().Get("stream"))
	switch {
	case r.URL.Path == "/sse" && r.Method == http.MethodGet:
		s.serveStream(w, r)
	case r.URL.Path == "/sse" && stream != nil:
		if response != "" {
			stream.(chan string) <- response
		}
		fmt.Fprint(w, "Accepted")
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case response == "":
		w.WriteHeader(http.StatusAccepted)
	case r.URL.Path == "/stream":
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, ": a comment\n\nevent: ping\ndata: no JSON\n\n"+formatEvent("working...")+formatEvent(response))
	case r.URL.Path == "/text":
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, response)
	default:
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, response)
	}
}

// formatEvent returns an event with two data lines, if the text can be cut.
func formatEvent(data string) string {
	if before, after, ok := strings.Cut(data, `,"`); ok {
		data = before + ",\ndata: \"" + after
	}
	return "id: 1\r\ndata: " + data + "\r\n\r\n"
}

// serveStream serves the older transport's stream.
func (s *OddServer) serveStream(w http.ResponseWriter, r *http.Request) {
	id := fmt.Sprint(s.next.Add(1))
	responses := make(chan string, 8)
	s.streams.Store(id, responses)
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w)
	fmt.Fprintf(w, "event: endpoint\ndata: /sse?stream=%s\n\n", id)
	for {
		if err := flush.Flush(); err != nil {
			return
		}
		select {
		case response := <-responses:
			fmt.Fprint(w, formatEvent("working...")+formatEvent(response))
		case <-r.Context().Done():
			return
		}
	}
}
