package openaiserver_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// The acceptance tests of Open Responses, https://www.openresponses.org: the requests are those of
// src/lib/compliance-tests.ts in github.com/openresponses/openresponses, and the checks are its schema,
// schema/openapi.json of 2026-04-24: which keys a response, an item and an event require, and of which type.

const weatherTools = `[{"type":"function","name":"get_weather","description":"Get the current weather for a location","parameters":{"type":"object","properties":{"location":{"type":"string","description":"The city and state, e.g. San Francisco, CA"}},"required":["location"]}}]`

var openResponses = []struct {
	name, request string
	streams       bool
	// item is the type of an output item that the response must have.
	item string
}{
	{"basic text response", `"input":[{"type":"message","role":"user","content":"Say hello in exactly 3 words."}]`, false, "message"},
	{"streaming response", `"input":[{"type":"message","role":"user","content":"Count from 1 to 5."}]`, true, "message"},
	{"streaming thoughts", `"input":[{"type":"message","role":"user","content":"I think so."}]`, true, "reasoning"},
	{"system prompt", `"input":[{"type":"message","role":"system","content":"You are a pirate. Always respond in pirate speak."},{"type":"message","role":"user","content":"Say hello."}]`, false, "message"},
	{"tool calling", `"input":[{"type":"message","role":"user","content":"What's the weather like in San Francisco?"}],"tools":` + weatherTools, false, "function_call"},
	{"streaming tool calling", `"input":[{"type":"message","role":"user","content":"What's the weather like in San Francisco?"}],"tools":` + weatherTools, true, "function_call"},
	{"image input", `"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"What do you see in this image? Answer in one sentence."},{"type":"input_image","image_url":"data:image/png;base64,iVBORw0KGgo="}]}]`, false, "message"},
	{"multi-turn conversation", `"input":[{"type":"message","role":"user","content":"My name is Alice."},{"type":"message","role":"assistant","content":"Hello Alice! Nice to meet you. How can I help you today?"},{"type":"message","role":"user","content":"What is my name?"}]`, false, "message"},
}

// Each case has a complete response of the specification's form; that of a stream is its last event.
func TestOpenResponses(t *testing.T) {
	for _, tt := range openResponses {
		t.Run(tt.name, func(t *testing.T) {
			e := newEnv(t, nil)
			body := send(e, http.MethodPost, "/v1/responses", "", `{"model":"desk",`+tt.request+fmt.Sprintf(`,"stream":%t}`, tt.streams)).Body.String()
			c := &formChecker{}
			var response map[string]any
			if tt.streams {
				response = c.checkStream(body)
			} else if err := json.Unmarshal([]byte(body), &response); err != nil {
				t.Fatal(err, body)
			}
			if c.checkResponse("response", response); len(c.problems) > 0 {
				t.Error(strings.Join(c.problems, "\n"))
			}
			if response["status"] != "completed" {
				t.Errorf("the status is %v", response["status"])
			}
			output, _ := response["output"].([]any)
			if !slices.ContainsFunc(output, func(item any) bool { return item.(map[string]any)["type"] == tt.item }) {
				t.Errorf("the output has no %s: %s", tt.item, body)
			}
		})
	}
}

// A formChecker lists what is not of the specification's form.
type formChecker struct{ problems []string }

func (c *formChecker) addProblem(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

// checkKeys checks that an object has keys, each with a type: string, number, boolean, array, object, or one
// of them or null with a question mark.
func (c *formChecker) checkKeys(at string, object map[string]any, keys string) {
	for pair := range strings.FieldsSeq(keys) {
		key, kind, _ := strings.Cut(pair, ":")
		value, ok := object[key]
		if !ok {
			c.addProblem("%s.%s is absent", at, key)
			continue
		}
		name, isOptional := strings.CutSuffix(kind, "?")
		if got := nameKind(value); got != name && (got != "null" || !isOptional) {
			c.addProblem("%s.%s is %s, want %s", at, key, got, kind)
		}
	}
}

func nameKind(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case string:
		return "string"
	case float64:
		return "number"
	case bool:
		return "boolean"
	case []any:
		return "array"
	}
	return "object"
}

func (c *formChecker) checkResponse(at string, r map[string]any) {
	c.checkKeys(at, r, `id:string object:string created_at:number completed_at:number? status:string incomplete_details:object?
		model:string previous_response_id:string? instructions:string? output:array error:object? tools:array tool_choice:string
		truncation:string parallel_tool_calls:boolean text:object top_p:number presence_penalty:number frequency_penalty:number
		top_logprobs:number temperature:number reasoning:object? usage:object? max_output_tokens:number? max_tool_calls:number?
		store:boolean background:boolean service_tier:string metadata:object safety_identifier:string? prompt_cache_key:string?`)
	if r["object"] != "response" || !slices.Contains([]any{"disabled", "auto"}, r["truncation"]) || !slices.Contains([]any{"auto", "none", "required"}, r["tool_choice"]) {
		c.addProblem("%s: object %v, truncation %v, tool_choice %v", at, r["object"], r["truncation"], r["tool_choice"])
	}
	for i, item := range asArray(r["output"]) {
		c.checkItem(fmt.Sprintf("%s.output[%d]", at, i), item)
	}
	for i, one := range asArray(r["tools"]) {
		c.checkKeys(fmt.Sprintf("%s.tools[%d]", at, i), one, "type:string name:string description:string? parameters:object? strict:boolean?")
	}
	if usage, ok := r["usage"].(map[string]any); ok {
		c.checkKeys(at+".usage", usage, "input_tokens:number output_tokens:number total_tokens:number input_tokens_details:object output_tokens_details:object")
	}
}

func asArray(value any) []map[string]any {
	var all []map[string]any
	list, _ := value.([]any)
	for _, one := range list {
		object, _ := one.(map[string]any)
		all = append(all, object)
	}
	return all
}

func (c *formChecker) checkItem(at string, item map[string]any) {
	switch item["type"] {
	case "message":
		c.checkKeys(at, item, "id:string status:string role:string content:array")
		for i, part := range asArray(item["content"]) {
			c.checkPart(fmt.Sprintf("%s.content[%d]", at, i), part)
		}
	case "function_call":
		c.checkKeys(at, item, "id:string call_id:string name:string arguments:string status:string")
	case "reasoning":
		c.checkKeys(at, item, "id:string summary:array")
	default:
		c.addProblem("%s has the type %v", at, item["type"])
	}
}

func (c *formChecker) checkPart(at string, part map[string]any) {
	switch part["type"] {
	case "output_text":
		c.checkKeys(at, part, "text:string annotations:array logprobs:array")
	case "summary_text":
		c.checkKeys(at, part, "text:string")
	default:
		c.addProblem("%s has the type %v", at, part["type"])
	}
}

// eventKeys are what each event requires besides type and sequence_number.
var eventKeys = map[string]string{
	"response.created": "response:object", "response.in_progress": "response:object", "response.completed": "response:object",
	"response.output_item.added":             "output_index:number item:object",
	"response.output_item.done":              "output_index:number item:object",
	"response.content_part.added":            "item_id:string output_index:number content_index:number part:object",
	"response.content_part.done":             "item_id:string output_index:number content_index:number part:object",
	"response.output_text.delta":             "item_id:string output_index:number content_index:number delta:string logprobs:array",
	"response.output_text.done":              "item_id:string output_index:number content_index:number text:string logprobs:array",
	"response.reasoning_summary_part.added":  "item_id:string output_index:number summary_index:number part:object",
	"response.reasoning_summary_part.done":   "item_id:string output_index:number summary_index:number part:object",
	"response.reasoning_summary_text.delta":  "item_id:string output_index:number summary_index:number delta:string",
	"response.reasoning_summary_text.done":   "item_id:string output_index:number summary_index:number text:string",
	"response.function_call_arguments.delta": "item_id:string output_index:number delta:string",
	"response.function_call_arguments.done":  "item_id:string output_index:number arguments:string",
}

// checkStream checks the events' form, numbers and order, and returns the last one's response: an item is
// added, grows by its deltas to what it is when it is done, and is in the output. The event's name is its
// type.
func (c *formChecker) checkStream(body string) map[string]any {
	var types []string
	var done []any
	var last map[string]any
	open, text := "", ""
	for i, frame := range strings.Split(strings.TrimSpace(body), "\n\n") {
		name, data, _ := strings.Cut(strings.TrimPrefix(frame, "event: "), "\ndata: ")
		var ev map[string]any
		if err := json.Unmarshal([]byte(data), &ev); err != nil {
			c.addProblem("%v: %s", err, frame)
			return nil
		}
		at := fmt.Sprintf("event %d, %s", i, name)
		keys, known := eventKeys[name]
		if !known || ev["type"] != name || ev["sequence_number"] != float64(i) {
			c.addProblem("%s: type %v, sequence_number %v", at, ev["type"], ev["sequence_number"])
		}
		c.checkKeys(at, ev, keys)
		if types = append(types, name); ev["response"] != nil {
			last = ev["response"].(map[string]any)
			c.checkResponse(at, last)
		}
		item, _ := ev["item"].(map[string]any)
		part, _ := ev["part"].(map[string]any)
		switch {
		case part != nil:
			c.checkPart(at, part)
		case item != nil && strings.HasSuffix(name, ".added"):
			open, text = item["id"].(string), ""
			c.checkItem(at, item)
		case item != nil:
			done = append(done, item)
			c.checkItem(at, item)
		}
		if id, ok := ev["item_id"]; ok && id != open || item != nil && item["id"] != open {
			c.addProblem("%s: the item is not the one that was added, %s", at, open)
		}
		delta, _ := ev["delta"].(string)
		text += delta
		for _, key := range []string{"text", "arguments"} {
			if whole, ok := ev[key]; ok && whole != text {
				c.addProblem("%s: %v, want the deltas %q", at, whole, text)
			}
		}
	}
	if n := len(types); n < 3 || types[0] != "response.created" || types[1] != "response.in_progress" || types[n-1] != "response.completed" {
		c.addProblem("the events are %v", types)
	}
	if got, want := fmt.Sprint(last["output"]), fmt.Sprint(done); got != want {
		c.addProblem("the output is %s, want the items that are done, %s", got, want)
	}
	return last
}

// The checks find what is wrong: an absent key, a wrong type, a gap in the numbers and an unknown event.
func TestFormChecker(t *testing.T) {
	e := newEnv(t, nil)
	stream := send(e, http.MethodPost, "/v1/responses", "", `{"model":"desk","input":"hello","stream":true}`).Body.String()
	for _, replaced := range [][2]string{{`"truncation":"disabled",`, ``}, {`"top_p":1`, `"top_p":null`}, {`"sequence_number":3`, `"sequence_number":4`}, {"response.output_text.delta", "response.text.delta"}} {
		if !strings.Contains(stream, replaced[0]) {
			t.Fatalf("the stream has no %s", replaced[0])
		}
		c := &formChecker{}
		if c.checkStream(strings.ReplaceAll(stream, replaced[0], replaced[1])); len(c.problems) == 0 {
			t.Errorf("%s instead of %s is not found", replaced[1], replaced[0])
		}
	}
}
