package fakeopenai

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"agenthost/internal/fake"
)

// An issuedItem is an output item whose ID a later input may have.
type issuedItem struct {
	kind string
	// encrypted is a reasoning item's content.
	encrypted string
	// reasoning is the ID of the reasoning that led to another item.
	reasoning string
}

func (s *Server) handleResponses(w http.ResponseWriter, r *http.Request) {
	body, err := fake.DecodeBody(r)
	req := Request{Key: readKey(r.Header), Header: r.Header.Clone(), Body: body}
	s.RecordRequest(req)
	reply := s.NextReply(Reply{Chunks: []string{"ok"}})
	if err == nil {
		err = s.checkResponses(req.Body)
	}
	if err != nil {
		failure := Reply{Status: http.StatusBadRequest, Message: err.Error()}
		if strings.Contains(failure.Message, "could not be verified") {
			failure.Code = "invalid_encrypted_content"
		}
		writeFailure(w, failure)
		return
	}
	if !reply.startReply(w) {
		return
	}
	output := s.issueOutput(reply, req.Body)
	w = reply.Odd.WrapWriter(w)
	if streaming, _ := req.Body["stream"].(bool); reply.Odd.Streams(streaming) {
		reply.streamResponse(w, r, output)
		return
	}
	if !fake.WaitForHold(r, reply.Hold) {
		return
	}
	if reply.Raw != "" {
		fmt.Fprint(w, reply.Raw)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(reply.responseObject(output))
}

// A rejection is an error with OpenAI's text.
type rejection string

func (r rejection) Error() string { return string(r) }

func newRejection(format string, args ...any) error { return rejection(fmt.Sprintf(format, args...)) }

// parameters are a request's known parameters.
var parameters = []string{
	"model", "input", "instructions", "stream", "store", "include", "max_output_tokens", "temperature", "top_p", "reasoning", "text",
	"tools", "tool_choice", "parallel_tool_calls", "metadata", "prompt_cache_key", "safety_identifier", "service_tier", "truncation", "user",
}

// reasoningModel matches the models that reason.
var reasoningModel = regexp.MustCompile(`^(o[1-9]|gpt-5)`)

// checkResponses rejects what OpenAI rejects.
func (s *Server) checkResponses(body map[string]any) error {
	for name := range body {
		if !slices.Contains(parameters, name) {
			return newRejection("Unknown parameter: '%s'.", name)
		}
	}
	name, _ := body["model"].(string)
	input, _ := body["input"].([]any)
	if name == "" || len(input) == 0 {
		return newRejection("Missing required parameter: 'input'.")
	}
	if err := checkReasoningSettings(body, reasoningModel.MatchString(name)); err != nil {
		return err
	}
	tools, _ := body["tools"].([]any)
	for i, tool := range tools {
		t, _ := tool.(map[string]any)
		if t["type"] != "function" {
			return newRejection("Invalid value: '%v'. Supported values are: 'function', …", t["type"])
		}
		if err := checkFunction(fmt.Sprintf("tools[%d]", i), t); err != nil {
			return err
		}
	}
	return s.checkInput(input, body["store"] != false)
}

// checkReasoningSettings rejects settings that a model lacks.
func checkReasoningSettings(body map[string]any, reasons bool) error {
	include, _ := body["include"].([]any)
	switch {
	case reasons:
		for _, name := range []string{"temperature", "top_p"} {
			if body[name] != nil {
				return newRejection("Unsupported parameter: '%s' is not supported with this model.", name)
			}
		}
	case body["reasoning"] != nil:
		return newRejection("Unsupported parameter: 'reasoning.effort' is not supported with this model.")
	case slices.Contains(include, any("reasoning.encrypted_content")):
		return newRejection("Encrypted content is not supported with this model.")
	}
	return nil
}

// checkInput rejects calls without outputs, outputs without calls, and items that are
// not what the server issued.
func (s *Server) checkInput(input []any, store bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	open, used := map[string]bool{}, map[string]bool{}
	last := ""
	for i, in := range input {
		item, _ := in.(map[string]any)
		if err := checkItem(i, item); err != nil {
			return err
		}
		kind, _ := item["type"].(string)
		id, _ := item["id"].(string)
		if last != "" && (kind != "message" && kind != "function_call" || s.issued[id].reasoning != last) {
			return newRejection("Item '%s' of type 'reasoning' was provided without its required following item.", last)
		}
		last = ""
		if err := s.checkID(item, input[:i], store); err != nil {
			return err
		}
		callID, _ := item["call_id"].(string)
		switch kind {
		case "reasoning":
			last = id
		case "function_call":
			if used[callID] {
				return newRejection("Duplicate function call with call_id %s in input.", callID)
			}
			open[callID], used[callID] = true, true
		case "function_call_output":
			if !open[callID] {
				return newRejection("No tool call found for function call output with call_id %s.", callID)
			}
			delete(open, callID)
		}
	}
	if last != "" {
		return newRejection("Item '%s' of type 'reasoning' was provided without its required following item.", last)
	}
	for callID := range open {
		return newRejection("No tool output found for function call %s.", callID)
	}
	return nil
}

// checkID rejects IDs that were not issued, and reasoning that was changed or is missing.
func (s *Server) checkID(item map[string]any, before []any, store bool) error {
	id, ok := item["id"].(string)
	if !ok {
		return nil
	}
	known, ok := s.issued[id]
	switch {
	case !ok || known.kind != item["type"]:
		return newRejection("Item with id '%s' not found.", id)
	case known.kind == "reasoning" && item["encrypted_content"] == nil && !store:
		return newRejection("Item with id '%s' not found. Items are not persisted when `store` is set to false.", id)
	case known.kind == "reasoning" && item["encrypted_content"] != known.encrypted:
		return newRejection("The encrypted content for item %s could not be verified.", id)
	}
	sent := func(in any) bool { item, _ := in.(map[string]any); return item["id"] == known.reasoning }
	if known.reasoning != "" && !slices.ContainsFunc(before, sent) {
		return newRejection("Item '%s' of type '%s' was provided without its required 'reasoning' item: '%s'.", id, known.kind, known.reasoning)
	}
	return nil
}

// checkItem rejects items with a wrong form.
func checkItem(i int, item map[string]any) error {
	switch item["type"] {
	case "message":
		return checkResponsesMessage(i, item)
	case "function_call":
		arguments, _ := item["arguments"].(string)
		callID, _ := item["call_id"].(string)
		if !json.Valid([]byte(arguments)) || callID == "" || len(callID) > 64 {
			return newRejection("Invalid 'input[%d]'.", i)
		}
		return checkName(fmt.Sprintf("input[%d].name", i), item["name"])
	case "function_call_output":
		if item["call_id"] == nil || item["output"] == nil {
			return newRejection("Missing required parameter: 'input[%d].output'.", i)
		}
		parts, _ := item["output"].([]any)
		return checkInputParts(parts, []string{"input_text", "input_image", "input_file"})
	case "reasoning":
		if _, ok := item["summary"].([]any); !ok || item["id"] == nil {
			return newRejection("Missing required parameter: 'input[%d].summary'.", i)
		}
	default:
		return newRejection("Invalid value: '%v'. Supported values are: 'message', 'function_call', …", item["type"])
	}
	return nil
}

func checkResponsesMessage(i int, item map[string]any) error {
	role, _ := item["role"].(string)
	permitted := map[string][]string{"user": {"input_text", "input_image", "input_file"}, "system": {"input_text"}, "assistant": {"output_text", "refusal"}}[role]
	if permitted == nil {
		return newRejection("Invalid value: '%s'. Supported values are: 'assistant', 'system', 'developer', and 'user'.", role)
	}
	if _, ok := item["content"].(string); ok {
		return nil
	}
	content, _ := item["content"].([]any)
	if len(content) == 0 {
		return newRejection("Missing required parameter: 'input[%d].content'.", i)
	}
	return checkInputParts(content, permitted)
}

// checkInputParts rejects parts with other types, and files that are not what they seem.
func checkInputParts(parts []any, permitted []string) error {
	for _, p := range parts {
		part, _ := p.(map[string]any)
		kind, _ := part["type"].(string)
		image, hasImage := part["image_url"].(string)
		file, hasFile := part["file_data"].(string)
		if !slices.Contains(permitted, kind) {
			return newRejection("Invalid value: '%s'. Supported values are: '%s'.", kind, strings.Join(permitted, "', '"))
		}
		if hasImage {
			if err := checkDataURL(image, true); err != nil {
				return err
			}
		}
		if hasFile {
			if err := checkDataURL(file, false); err != nil {
				return err
			}
		}
	}
	return nil
}
