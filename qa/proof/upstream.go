package main

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// upstreamBytes is the size of an answer without an end: far above each host limit, and small
// enough for the machine that runs the proof.
const upstreamBytes = 128 << 20

// An upstream serves the answers from hostile models (/model/KIND/chat/completions), HTTP tools
// (/tool/KIND) and MCP servers (/mcp/KIND).
type upstream struct{}

// upstreamApps returns an app for each hostile answer, and their names.
func upstreamApps(url string) (apps files, names []string) {
	apps = files{}
	add := func(name, models, script, tools string) {
		apps[name+"/app.yaml"] = models
		apps[name+"/root_agent.yaml"] = "name: root\nmodel: m\ninstruction: Help.\n" + tools
		if script != "" {
			apps[name+"/script.yaml"] = script
		}
		names = append(names, name)
	}
	for _, kind := range []string{"values", "deep", "calls", "line", "comments", "compressed", "echo", "silent"} {
		add("model_"+kind, fmt.Sprintf("models:\n  m: {provider: openai_compatible, base_url: '%s/model/%s', model: x, api_key: k, retry: {attempts: 1}, timeouts: {first_byte: 2s, idle: 2s}}\n", url, kind),
			"", "tools:\n  - expr: {name: ask, params: {k: any}, value: \"1\"}\n")
	}
	const scripted = "models:\n  m: {provider: scripted, script: script.yaml}\n"
	const script = "- when: responses.ask != nil\n  text: done\n- calls: [{name: ask, args: {}}]\n"
	for _, kind := range []string{"values", "deep", "line", "compressed", "silent"} {
		add("tool_"+kind, scripted, script, fmt.Sprintf("tools:\n  - http: {name: ask, url: '%s/tool/%s', timeout: 2s}\n", url, kind))
	}
	for _, kind := range []string{"values", "deep", "line", "compressed", "pings", "schema", "silent"} {
		add("mcp_"+kind, scripted, script, fmt.Sprintf("tools:\n  - mcp: {url: '%s/mcp/%s', timeout: 2s}\n", url, kind))
	}
	return apps, names
}

// ServeHTTP implements http.Handler.
func (u upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	role, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	kind, _, _ := strings.Cut(rest, "/")
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	switch {
	case err != nil:
	case kind == "silent" && (role != "mcp" || strings.Contains(string(body), `"tools/call"`)):
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	case role == "model":
		u.answerAsModel(w, kind, r.Header.Get("Authorization"))
	case role == "tool":
		w.Header().Set("Content-Type", "application/json")
		u.writeResult(w, kind, `{"result": `, `}`)
	case role == "mcp":
		u.answerAsServer(w, kind, body)
	}
}

// answerAsModel streams one answer's chunks.
func (u upstream) answerAsModel(w http.ResponseWriter, kind, key string) {
	const begin = `data: {"id": "c", "object": "chat.completion.chunk", "model": "x", "choices": [{"index": 0, "delta": `
	call := func(index int, args string) string {
		text, err := json.Marshal(args)
		if err != nil {
			return ""
		}
		return fmt.Sprintf(`%s{"tool_calls": [{"index": %d, "id": "c%d", "type": "function", "function": {"name": "ask", "arguments": %s}}]}}]}`+"\n\n", begin, index, index, text)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	switch kind {
	case "values":
		fmt.Fprint(w, call(0, `{"k": [`+strings.Repeat("{},", 2_000_000)+`{}]}`))
	case "deep":
		fmt.Fprint(w, call(0, strings.Repeat(`{"k":`, 9000)+"1"+strings.Repeat("}", 9000)))
	case "calls":
		for i := range 20_000 {
			if _, err := fmt.Fprint(w, call(i, "{}")); err != nil {
				return
			}
		}
	case "comments":
		_ = writeRepeated(w, ": x\n\n", upstreamBytes) // until the host closes the connection
	case "echo":
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(w, `{"error": {"message": "%s %s"}}`, key, strings.Repeat("x", 1<<20))
		return
	default:
		u.writeResult(w, kind, begin+`{"content": `, "}}]}")
	}
	fmt.Fprint(w, begin+`{}, "finish_reason": "stop"}]}`+"\n\ndata: [DONE]\n\n")
}

// writeResult writes a JSON value between two strings.
func (u upstream) writeResult(w http.ResponseWriter, kind, before, after string) {
	var out io.Writer = w
	value := func(out io.Writer) {
		switch kind {
		case "values":
			fmt.Fprint(out, "["+strings.Repeat("0,", 2_000_000)+"0]")
		case "deep":
			fmt.Fprint(out, strings.Repeat("[", 9000)+strings.Repeat("]", 9000))
		case "line", "compressed":
			fmt.Fprint(out, `"`)
			_ = writeRepeated(out, "x", upstreamBytes) // until the host closes the connection
			fmt.Fprint(out, `"`)
		default:
			fmt.Fprint(out, `"x"`)
		}
	}
	if kind == "compressed" {
		w.Header().Set("Content-Encoding", "gzip")
		packed := gzip.NewWriter(out)
		defer packed.Close()
		out = packed
	}
	fmt.Fprint(out, before)
	value(out)
	fmt.Fprint(out, after)
}

// answerAsServer answers one message from an MCP client.
func (u upstream) answerAsServer(w http.ResponseWriter, kind string, body []byte) {
	var message struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if json.Unmarshal(body, &message) != nil || message.Method == "" || message.ID == nil {
		w.WriteHeader(http.StatusAccepted) // a notification or a response; GET gets no stream
		return
	}
	result := "{}"
	switch message.Method {
	case "initialize":
		result = `{"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "hostile", "version": "1"}}`
	case "tools/list":
		schema := `{"type": "object"}`
		if kind == "schema" {
			schema = doublingSchema(40)
		}
		result = `{"tools": [{"name": "ask", "inputSchema": ` + schema + `}]}`
	case "tools/call":
		w.Header().Set("Content-Type", "text/event-stream")
		if kind == "pings" {
			for i := range 20_000 {
				if _, err := fmt.Fprintf(w, "data: {\"jsonrpc\": \"2.0\", \"id\": \"p%d\", \"method\": \"ping\"}\n\n", i); err != nil {
					return
				}
			}
		}
		u.writeResult(w, kind, `data: {"jsonrpc": "2.0", "id": `+string(message.ID)+`, "result": {"content": [], "structuredContent": {"k": `, "}}}\n\n")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc": "2.0", "id": %s, "result": %s}`, message.ID, result)
}

// doublingSchema returns a JSON Schema whose validation visits 2^n subschemas.
func doublingSchema(n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"type": "object", "allOf": [{"$ref": "#/$defs/a%d"}], "$defs": {"a0": {"type": "object"}`, n)
	for i := range n {
		fmt.Fprintf(&b, `, "a%d": {"allOf": [{"$ref": "#/$defs/a%d"}, {"$ref": "#/$defs/a%d"}]}`, i+1, i, i)
	}
	b.WriteString("}}")
	return b.String()
}
