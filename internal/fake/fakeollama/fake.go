// Package fakeollama is an Ollama server for tests. It implements POST /api/chat, unary and
// streaming, and rejects what Ollama rejects: unknown models, roles and think values, calls without
// a name, arguments other than objects, data that is not an image in base64, options with the wrong
// type, and tools or thinking that a model lacks. It answers from a queue of [Reply] values and
// records every [Request].
package fakeollama

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"agenthost/internal/fake"
)

// A Server is a fake Ollama server on a loopback port. It has the models qwen3 and
// gpt-oss, which think and use tools, and plain, which does neither. Each call takes a reply.
// Without replies it answers "ok". It is safe for concurrent use.
type Server struct {
	fake.Service[Request, Reply]
}

// A Request is one received request.
type Request struct {
	Header http.Header
	// Body is the decoded JSON.
	Body map[string]any
}

// New starts a server. The caller must close it.
func New() *Server {
	s := &Server{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/chat", s.handleChat)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "404 page not found", http.StatusNotFound) })
	s.StartServer(mux)
	return s
}

func (s *Server) handleChat(w http.ResponseWriter, r *http.Request) {
	body, err := fake.DecodeBody(r)
	s.RecordRequest(Request{Header: r.Header.Clone(), Body: body})
	reply := s.NextReply(Reply{Chunks: []string{"ok"}})
	code := http.StatusBadRequest
	if err == nil {
		code, err = checkRequest(body)
	}
	if err != nil {
		writeFailure(w, Reply{Status: code, Message: err.Error()})
		return
	}
	w = reply.Odd.WrapWriter(w)
	if streaming, ok := body["stream"].(bool); reply.Odd.Streams(!ok || streaming) {
		reply.streamReply(w, r, body["model"])
		return
	}
	reply.writeReply(w, r, body["model"])
}

// checkRequest rejects what Ollama rejects, with its status.
func checkRequest(body map[string]any) (int, error) {
	name, _ := body["model"].(string)
	if name == "" {
		return http.StatusBadRequest, fmt.Errorf("model is required")
	}
	if !slices.Contains([]string{"qwen3", "gpt-oss", "plain"}, name) {
		return http.StatusNotFound, fmt.Errorf("model '%s' not found", name)
	}
	tools, _ := body["tools"].([]any)
	think := body["think"]
	if name == "plain" && len(tools) > 0 {
		return http.StatusBadRequest, fmt.Errorf("registry.ollama.ai/library/plain:latest does not support tools")
	}
	if name == "plain" && think != nil && think != false {
		return http.StatusBadRequest, fmt.Errorf("\"plain\" does not support thinking")
	}
	for _, check := range []func(map[string]any) error{checkThink, checkKeepAlive, checkOptions, checkFormat, checkTools, checkMessages} {
		if err := check(body); err != nil {
			return http.StatusBadRequest, err
		}
	}
	return 0, nil
}

func checkThink(body map[string]any) error {
	switch think := body["think"].(type) {
	case nil, bool:
		return nil
	case string:
		if !slices.Contains([]string{"low", "medium", "high"}, think) {
			return fmt.Errorf("invalid think value: %q (must be \"high\", \"medium\", \"low\", true, or false)", think)
		}
		if body["model"] != "gpt-oss" {
			return fmt.Errorf("think value %q is not supported for this model", think)
		}
		return nil
	}
	return fmt.Errorf("think must be a boolean or string (\"high\", \"medium\", \"low\")")
}

func checkKeepAlive(body map[string]any) error {
	text, ok := body["keep_alive"].(string)
	if !ok {
		return nil
	}
	_, err := time.ParseDuration(text)
	return err
}

func checkOptions(body map[string]any) error {
	options, _ := body["options"].(map[string]any)
	for _, name := range []string{"num_ctx", "num_predict", "top_k", "seed"} {
		if v, ok := options[name]; ok {
			if n, ok := v.(float64); !ok || n != float64(int64(n)) {
				return fmt.Errorf("option %q must be of type integer", name)
			}
		}
	}
	for _, name := range []string{"temperature", "top_p", "presence_penalty", "frequency_penalty"} {
		if v, ok := options[name]; ok {
			if _, ok := v.(float64); !ok {
				return fmt.Errorf("option %q must be of type float32", name)
			}
		}
	}
	return nil
}

func checkFormat(body map[string]any) error {
	switch format := body["format"].(type) {
	case nil, map[string]any:
		return nil
	case string:
		if format == "json" || format == "" {
			return nil
		}
	}
	return fmt.Errorf("invalid format: %v; expected \"json\" or a valid JSON Schema object", body["format"])
}

func checkTools(body map[string]any) error {
	tools, _ := body["tools"].([]any)
	for _, t := range tools {
		tool, _ := t.(map[string]any)
		function, _ := tool["function"].(map[string]any)
		parameters, ok := function["parameters"].(map[string]any)
		if name, _ := function["name"].(string); name == "" || tool["type"] != "function" || !ok || parameters["type"] != "object" {
			return fmt.Errorf("json: cannot unmarshal tool %v", t)
		}
	}
	return nil
}

func checkMessages(body map[string]any) error {
	messages, _ := body["messages"].([]any)
	for _, m := range messages {
		if err := checkMessage(m); err != nil {
			return err
		}
	}
	return nil
}

func checkMessage(m any) error {
	message, _ := m.(map[string]any)
	role, _ := message["role"].(string)
	if !slices.Contains([]string{"system", "user", "assistant", "tool"}, role) {
		return fmt.Errorf("invalid role: %q, must be one of [\"system\", \"user\", \"assistant\", \"tool\"]", role)
	}
	if _, ok := message["content"].(string); !ok {
		return fmt.Errorf("json: cannot unmarshal field ChatRequest.messages.content of type string")
	}
	images, _ := message["images"].([]any)
	for _, image := range images {
		text, _ := image.(string)
		data, err := base64.StdEncoding.DecodeString(text)
		if err != nil || text == "" || strings.HasPrefix(text, "data:") {
			return fmt.Errorf("illegal base64 data at input byte 0")
		}
		if !slices.Contains([]string{"image/png", "image/jpeg", "image/webp"}, http.DetectContentType(data)) {
			return fmt.Errorf("failed to load image or audio file")
		}
	}
	calls, _ := message["tool_calls"].([]any)
	for _, c := range calls {
		call, _ := c.(map[string]any)
		function, _ := call["function"].(map[string]any)
		if name, _ := function["name"].(string); name == "" {
			return fmt.Errorf("tool call has no function name")
		}
		if _, ok := function["arguments"].(map[string]any); !ok {
			return fmt.Errorf("json: cannot unmarshal string into Go struct field ChatRequest.messages.tool_calls.function.arguments of type map[string]interface {}")
		}
	}
	return nil
}
