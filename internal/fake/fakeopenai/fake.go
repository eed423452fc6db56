// Package fakeopenai is an OpenAI server for tests. It implements the HTTP APIs for chat
// completions and Responses, unary and streaming, and rejects what OpenAI rejects: a call without a
// response, a response without a call, two calls with one ID, a name with other characters,
// parameters whose root is not a plain object, an unknown role, an invalid image, settings that a
// model lacks, reasoning without the item that follows it. For models called mistral… it rejects
// what Mistral rejects in addition. It answers from a queue of [Reply] values and records every
// [Request].
package fakeopenai

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	"agenthost/internal/fake"
)

// A Server is a fake OpenAI server on a loopback port. Each call takes a reply. Without replies
// it answers "ok". It is safe for concurrent use.
type Server struct {
	fake.Service[Request, Reply]

	mu     sync.Mutex
	issued map[string]issuedItem
}

// A Request is one received request.
type Request struct {
	// Key is the bearer token, or Azure's header Api-Key.
	Key    string
	Header http.Header
	// Body is the decoded JSON.
	Body map[string]any
}

// New starts a server. The caller must close it.
func New() *Server {
	s := &Server{issued: map[string]issuedItem{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", s.handleCompletion)
	mux.HandleFunc("POST /v1/responses", s.handleResponses)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeFailure(w, Reply{Status: http.StatusNotFound, Message: "Invalid URL (" + r.Method + " " + r.URL.Path + ")"})
	})
	s.StartServer(mux)
	return s
}

// URL returns the base URL with its version.
func (s *Server) URL() string { return s.Service.URL() + "/v1" }

func readKey(h http.Header) string {
	token, _ := strings.CutPrefix(h.Get("Authorization"), "Bearer ")
	return cmp.Or(token, h.Get("Api-Key"))
}

func (s *Server) handleCompletion(w http.ResponseWriter, r *http.Request) {
	body, err := fake.DecodeBody(r)
	req := Request{Key: readKey(r.Header), Header: r.Header.Clone(), Body: body}
	if err == nil {
		err = checkRequest(req.Body)
	}
	s.RecordRequest(req)
	reply := s.NextReply(Reply{Chunks: []string{"ok"}})
	if err != nil {
		writeFailure(w, Reply{Status: http.StatusBadRequest, Message: err.Error()})
		return
	}
	w = reply.Odd.WrapWriter(w)
	if streaming, _ := req.Body["stream"].(bool); reply.Odd.Streams(streaming) {
		options, _ := req.Body["stream_options"].(map[string]any)
		reply.streamReply(w, r, options["include_usage"] == true || !streaming)
		return
	}
	reply.writeReply(w, r)
}

// checkRequest rejects what OpenAI rejects.
func checkRequest(body map[string]any) error {
	messages, _ := body["messages"].([]any)
	if body["model"] == nil || len(messages) == 0 {
		return fmt.Errorf("you must provide a model and messages")
	}
	tools, _ := body["tools"].([]any)
	for i, t := range tools {
		tool, _ := t.(map[string]any)
		function, _ := tool["function"].(map[string]any)
		if err := checkFunction(fmt.Sprintf("tools[%d].function", i), function); err != nil {
			return err
		}
	}
	mistral := strings.HasPrefix(fmt.Sprint(body["model"]), "mistral")
	open := map[string]bool{}
	before := ""
	for i, m := range messages {
		message := m.(map[string]any)
		if err := checkMessage(message, open); err != nil {
			return fmt.Errorf("messages.[%d]: %w", i, err)
		}
		if err := checkContent(message["content"]); err != nil {
			return err
		}
		role, _ := message["role"].(string)
		if mistral && before == "tool" && role == "user" {
			return newRejection("Unexpected role 'user' after role 'tool'")
		}
		before = role
		for id := range open {
			if mistral && !mistralID.MatchString(id) {
				return newRejection("Tool call id was %s but must be a-z, A-Z, 0-9, with a length of 9.", id)
			}
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("an assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'")
	}
	return nil
}

func checkMessage(m map[string]any, open map[string]bool) error {
	role, _ := m["role"].(string)
	calls, _ := m["tool_calls"].([]any)
	switch {
	case !slices.Contains([]string{"system", "user", "assistant", "tool"}, role):
		return fmt.Errorf("invalid role %q", role)
	case role != "tool" && len(open) > 0:
		return fmt.Errorf("tool_call_ids did not have response messages: %v", open)
	case role != "assistant" && m["content"] == nil, m["content"] == nil && len(calls) == 0:
		return fmt.Errorf("invalid content: expected a string or a list, got null")
	case role == "tool":
		id, _ := m["tool_call_id"].(string)
		if !open[id] {
			return fmt.Errorf("messages with role 'tool' must be a response to a preceding message with 'tool_calls'")
		}
		delete(open, id)
	}
	for _, c := range calls {
		call := c.(map[string]any)
		function, _ := call["function"].(map[string]any)
		arguments, ok := function["arguments"].(string)
		id, _ := call["id"].(string)
		if !ok || !json.Valid([]byte(arguments)) || call["type"] != "function" || id == "" {
			return fmt.Errorf("invalid tool call %v", call)
		}
		if err := checkName("tool_calls.function.name", function["name"]); err != nil {
			return err
		}
		if len(id) > 40 {
			return newRejection("Invalid 'tool_calls.id': string too long. Expected a string with maximum length 40, but got a string with length %d instead.", len(id))
		}
		if open[id] {
			return newRejection("Duplicate value for 'tool_call_id' of '%s'", id)
		}
		open[id] = true
	}
	return nil
}

// mistralID matches the call IDs that Mistral's models accept.
var mistralID = regexp.MustCompile(`^[a-zA-Z0-9]{9}$`)

// checkContent rejects parts with unknown types, and files that are not what they seem.
func checkContent(content any) error {
	parts, isList := content.([]any)
	if isList && len(parts) == 0 {
		return newRejection("Invalid 'content': empty array. Expected an array with minimum length 1, but got an empty array instead.")
	}
	for _, p := range parts {
		part, _ := p.(map[string]any)
		kind, _ := part["type"].(string)
		inner, _ := part[kind].(map[string]any)
		url, _ := inner["url"].(string)
		data, _ := inner["file_data"].(string)
		switch {
		case kind == "text":
			if part["text"] == "" {
				return newRejection("Invalid 'content': text must not be empty.")
			}
		case kind == "image_url":
			if err := checkDataURL(url, true); err != nil {
				return err
			}
		case kind == "file" && inner["file_id"] == nil:
			if err := checkDataURL(data, false); err != nil {
				return err
			}
		case kind == "file":
		case kind == "input_audio":
			if inner["data"] == "" || inner["format"] != "wav" && inner["format"] != "mp3" {
				return newRejection("Invalid value: '%v'. Supported values are: 'wav' and 'mp3'.", inner["format"])
			}
		case kind == "video_url" && url != "":
		default:
			return newRejection("Invalid value: '%s'. Supported values are: 'text', 'image_url', 'input_audio', 'refusal', and 'file'.", kind)
		}
	}
	return nil
}
