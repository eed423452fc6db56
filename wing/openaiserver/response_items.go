package openaiserver

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"google.golang.org/genai"

	"agenthost/pkg/protocol"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
)

// The values of a response's status.
const (
	statusInProgress = "in_progress"
	statusCompleted  = "completed"
	statusIncomplete = "incomplete"
	statusFailed     = "failed"
	statusCancelled  = "cancelled"
)

// responsePrefix begins the IDs of responses. The rest is the app, the session and the invocation, so
// that any replica finds the response among the caller's own sessions.
const responsePrefix = "resp_"

func encodeResponseID(key session.Key, invocation string) string {
	return responsePrefix + base64.RawURLEncoding.EncodeToString([]byte(key.App+"\x00"+key.ID+"\x00"+invocation))
}

// decodeResponseID returns the app, the session and the invocation in an ID; empty for another one.
func decodeResponseID(text string) (app, id, invocation string) {
	code, ok := strings.CutPrefix(text, responsePrefix)
	names, err := base64.RawURLEncoding.DecodeString(code)
	parts := strings.Split(string(names), "\x00")
	if !ok || err != nil || len(parts) != 3 {
		return "", "", ""
	}
	return parts[0], parts[1], parts[2]
}

// A responseObject is a response on the wire. Open Responses requires all keys, also those that are null. The
// app decides sampling, so that these keys have the defaults.
type responseObject struct {
	ID              string         `json:"id"`
	Object          string         `json:"object"`
	Created         int64          `json:"created_at"`
	Completed       *int64         `json:"completed_at"`
	Status          string         `json:"status"`
	Background      bool           `json:"background"`
	Error           *responseError `json:"error"`
	Incomplete      *incomplete    `json:"incomplete_details"`
	Instructions    *string        `json:"instructions"`
	MaxOutputTokens *int           `json:"max_output_tokens"`
	MaxToolCalls    *int           `json:"max_tool_calls"`
	Model           string         `json:"model"`
	Output          []any          `json:"output"`
	Parallel        bool           `json:"parallel_tool_calls"`
	Previous        *string        `json:"previous_response_id"`
	Conversation    *conversation  `json:"conversation"`
	Store           bool           `json:"store"`
	Temperature     float64        `json:"temperature"`
	TopP            float64        `json:"top_p"`
	Presence        float64        `json:"presence_penalty"`
	Frequency       float64        `json:"frequency_penalty"`
	TopLogprobs     int            `json:"top_logprobs"`
	Reasoning       any            `json:"reasoning"`
	Text            textFormat     `json:"text"`
	ToolChoice      string         `json:"tool_choice"`
	Tools           []usedTool     `json:"tools"`
	Truncation      string         `json:"truncation"`
	ServiceTier     string         `json:"service_tier"`
	Metadata        map[string]any `json:"metadata"`
	User            *string        `json:"user"`
	Safety          *string        `json:"safety_identifier"`
	CacheKey        *string        `json:"prompt_cache_key"`
	Usage           *responseUsage `json:"usage"`
}

// A usedTool is a client's tool in the response to its request.
type usedTool struct {
	Type        string         `json:"type"`
	Name        string         `json:"name"`
	Description *string        `json:"description"`
	Parameters  map[string]any `json:"parameters"`
	Strict      bool           `json:"strict"`
}

type responseError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type incomplete struct {
	Reason string `json:"reason"`
}

type conversation struct {
	ID string `json:"id"`
}

type textFormat struct {
	Format struct {
		Type string `json:"type"`
	} `json:"format"`
}

type responseUsage struct {
	Input        int           `json:"input_tokens"`
	InputDetail  promptDetail  `json:"input_tokens_details"`
	Output       int           `json:"output_tokens"`
	OutputDetail completionSum `json:"output_tokens_details"`
	Total        int           `json:"total_tokens"`
}

type outputText struct {
	Type        string `json:"type"`
	Text        string `json:"text"`
	Annotations []any  `json:"annotations"`
	Logprobs    []any  `json:"logprobs"`
}

func newOutputText(text string) outputText {
	return outputText{Type: "output_text", Text: text, Annotations: []any{}, Logprobs: []any{}}
}

type messageItem struct {
	ID      string       `json:"id"`
	Type    string       `json:"type"`
	Status  string       `json:"status"`
	Role    string       `json:"role"`
	Content []outputText `json:"content"`
}

type summaryText struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type reasoningItem struct {
	ID      string        `json:"id"`
	Type    string        `json:"type"`
	Summary []summaryText `json:"summary"`
}

// An approvalItem is an approval that waits.
type approvalItem struct {
	ID        string `json:"id"`
	Type      string `json:"type"`
	Label     string `json:"server_label"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// A callItem is a call of a client's tool.
type callItem struct {
	ID        string `json:"id"`
	Type      string `json:"type"`
	Status    string `json:"status"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// A streamEvent is an event of a response's stream. Each type has some of its keys.
type streamEvent struct {
	Type     string          `json:"type"`
	Sequence int             `json:"sequence_number"`
	Response *responseObject `json:"response,omitempty"`
	ItemID   string          `json:"item_id,omitempty"`
	Output   *int            `json:"output_index,omitempty"`
	Content  *int            `json:"content_index,omitempty"`
	Summary  *int            `json:"summary_index,omitempty"`
	Item     any             `json:"item,omitempty"`
	Part     any             `json:"part,omitempty"`
	Delta    string          `json:"delta,omitempty"`
	Text     *string         `json:"text,omitempty"`
	Args     *string         `json:"arguments,omitempty"`
	Name     string          `json:"name,omitempty"`
	Logprobs []any           `json:"logprobs,omitzero"`
}

// A responseWriter builds a response, and streams it as it grows.
type responseWriter struct {
	turn   *turn
	object *responseObject
	// text and thoughts are those of the open items, which have isOpen.
	text, thoughts         strings.Builder
	isTextOpen, isThinking bool
	items, sequence        int
	// skip is the first sequence number that the client does not have.
	skip int
}

// newObject returns the response before the turn.
func (o *responseWriter) newObject() *responseObject {
	object := &responseObject{
		Object: "response", Created: o.turn.h.Now().Unix(), Status: statusInProgress, Background: o.turn.isBackground, Model: o.turn.model.id, Output: []any{},
		Store: !o.turn.place.temporary, Temperature: 1, TopP: 1, ToolChoice: "auto", Tools: []usedTool{}, Truncation: "disabled",
		ServiceTier: "default", Metadata: map[string]any{},
	}
	object.Text.Format.Type = "text"
	if o.turn.maxToolCalls > 0 {
		object.MaxToolCalls = &o.turn.maxToolCalls
	}
	return object
}

// sendEvent streams an event. Without a stream it does nothing.
func (o *responseWriter) sendEvent(ev *streamEvent) error {
	if o.turn.stream == nil {
		return nil
	}
	ev.Sequence = o.sequence
	if o.sequence++; ev.Sequence < o.skip {
		return nil
	}
	text, err := server.EncodeJSON(ev)
	if err != nil {
		return err
	}
	return o.turn.stream.SendText(ev.Type, text)
}

// sendDelta streams an event with text. In the background, text has a sequence number for each byte, and the
// event has that of its last one: so chunks and a whole message are numbered alike.
func (o *responseWriter) sendDelta(ev *streamEvent) error {
	if o.turn.stream == nil || !o.turn.isBackground {
		return o.sendEvent(ev)
	}
	known := max(0, o.skip-o.sequence)
	if o.sequence += len(ev.Delta) - 1; known >= len(ev.Delta) {
		o.sequence++
		return nil
	}
	for known > 0 && !utf8.RuneStart(ev.Delta[known]) { // a number that no event had
		known--
	}
	ev.Delta = ev.Delta[known:]
	return o.sendEvent(ev)
}

func (o *responseWriter) sendStatus(kind string) error {
	return o.sendEvent(&streamEvent{Type: kind, Response: o.object})
}

func (o *responseWriter) beginTurn(invocation string) error {
	if o.object.ID == "" {
		o.object.ID = encodeResponseID(o.turn.place.key, invocation)
	}
	if err := o.sendStatus("response.created"); err != nil {
		return err
	}
	return o.sendStatus("response.in_progress")
}

// itemID returns the open item's ID.
func (o *responseWriter) itemID(kind string) string {
	return fmt.Sprintf("%s_%s_%d", kind, strings.TrimPrefix(o.object.ID, responsePrefix), o.items)
}

func (o *responseWriter) addTexts(text, thoughts string) error {
	if thoughts != "" {
		if err := o.addThoughts(thoughts); err != nil {
			return err
		}
	}
	if text == "" {
		return nil
	}
	if err := o.endThoughts(); err != nil {
		return err
	}
	if !o.isTextOpen {
		o.isTextOpen = true
		item := &messageItem{o.itemID("msg"), "message", statusInProgress, roleAssistant, []outputText{}}
		err := errors.Join(
			o.sendEvent(&streamEvent{Type: "response.output_item.added", Output: &o.items, Item: item}),
			o.sendEvent(&streamEvent{Type: "response.content_part.added", ItemID: item.ID, Output: &o.items, Content: new(int), Part: newOutputText("")}),
		)
		if err != nil {
			return err
		}
	}
	o.text.WriteString(text)
	return o.sendDelta(&streamEvent{Type: "response.output_text.delta", ItemID: o.itemID("msg"), Output: &o.items, Content: new(int), Delta: text, Logprobs: []any{}})
}

// addAudio does nothing: responses have no audio.
func (o *responseWriter) addAudio(*genai.Blob) {}

func (o *responseWriter) addThoughts(thoughts string) error {
	if err := o.endText(); err != nil {
		return err
	}
	if !o.isThinking {
		o.isThinking = true
		item := &reasoningItem{o.itemID("rs"), "reasoning", []summaryText{}}
		err := errors.Join(
			o.sendEvent(&streamEvent{Type: "response.output_item.added", Output: &o.items, Item: item}),
			o.sendEvent(&streamEvent{Type: "response.reasoning_summary_part.added", ItemID: item.ID, Output: &o.items, Summary: new(int), Part: summaryText{Type: "summary_text"}}),
		)
		if err != nil {
			return err
		}
	}
	o.thoughts.WriteString(thoughts)
	return o.sendDelta(&streamEvent{Type: "response.reasoning_summary_text.delta", ItemID: o.itemID("rs"), Output: &o.items, Summary: new(int), Delta: thoughts})
}

func (o *responseWriter) endMessage() error {
	if err := o.endThoughts(); err != nil {
		return err
	}
	return o.endText()
}

func (o *responseWriter) addCall(call *genai.FunctionCall, arguments string) error {
	item := &callItem{o.itemID("fc"), "function_call", statusInProgress, call.ID, call.Name, ""}
	begun := *item
	item.Status, item.Arguments = statusCompleted, arguments
	err := errors.Join(
		o.sendEvent(&streamEvent{Type: "response.output_item.added", Output: &o.items, Item: &begun}),
		o.sendEvent(&streamEvent{Type: "response.function_call_arguments.delta", ItemID: item.ID, Output: &o.items, Delta: arguments}),
		o.sendEvent(&streamEvent{Type: "response.function_call_arguments.done", ItemID: item.ID, Output: &o.items, Args: &arguments, Name: call.Name}),
	)
	return errors.Join(err, o.endItem(item))
}

func (o *responseWriter) endText() error {
	if !o.isTextOpen {
		return nil
	}
	text := o.text.String()
	item := &messageItem{o.itemID("msg"), "message", statusCompleted, roleAssistant, []outputText{newOutputText(text)}}
	o.isTextOpen = false
	o.text.Reset()
	err := errors.Join(
		o.sendEvent(&streamEvent{Type: "response.output_text.done", ItemID: item.ID, Output: &o.items, Content: new(int), Text: &text, Logprobs: []any{}}),
		o.sendEvent(&streamEvent{Type: "response.content_part.done", ItemID: item.ID, Output: &o.items, Content: new(int), Part: item.Content[0]}),
	)
	return errors.Join(err, o.endItem(item))
}

func (o *responseWriter) endThoughts() error {
	if !o.isThinking {
		return nil
	}
	text := o.thoughts.String()
	item := &reasoningItem{o.itemID("rs"), "reasoning", []summaryText{{"summary_text", text}}}
	o.isThinking = false
	o.thoughts.Reset()
	err := errors.Join(
		o.sendEvent(&streamEvent{Type: "response.reasoning_summary_text.done", ItemID: item.ID, Output: &o.items, Summary: new(int), Text: &text}),
		o.sendEvent(&streamEvent{Type: "response.reasoning_summary_part.done", ItemID: item.ID, Output: &o.items, Summary: new(int), Part: item.Summary[0]}),
	)
	return errors.Join(err, o.endItem(item))
}

// endItem completes an item.
func (o *responseWriter) endItem(item any) error {
	o.object.Output = append(o.object.Output, item)
	err := o.sendEvent(&streamEvent{Type: "response.output_item.done", Output: &o.items, Item: item})
	o.items++
	return err
}

// addQuestions adds approvals that wait as requests, and another question that waits first as text.
func (o *responseWriter) addQuestions() error {
	all, err := o.turn.listQuestions(o.turn.r.Context())
	if err != nil {
		return err
	}
	for i, q := range all {
		if i > 0 && runtime.ReadApproval(q.Call) == nil {
			continue
		}
		if err := o.addQuestion(q); err != nil {
			return err
		}
	}
	return nil
}

// addQuestion adds an approval as a request, and another question as text.
func (o *responseWriter) addQuestion(q *protocol.Question) error {
	a := runtime.ReadApproval(q.Call)
	if a == nil {
		return errors.Join(o.addTexts(q.Text, ""), o.endMessage())
	}
	args, err := server.EncodeJSON(a.Args)
	if err != nil {
		return err
	}
	item := &approvalItem{q.Call.ID, "mcp_approval_request", o.turn.model.app.Name(), a.Tool, string(args)}
	return errors.Join(o.sendEvent(&streamEvent{Type: "response.output_item.added", Output: &o.items, Item: item}), o.endItem(item))
}

// finishResponse sets the status with which the response ends.
func (o *responseWriter) finishResponse() {
	u := o.turn.usage
	o.object.Usage = &responseUsage{u.Prompt, u.PromptDetail, u.Completion, u.CompletionDetail, u.Total}
	o.object.Status = statusCompleted
	at := o.turn.endedAt
	if at.IsZero() { // a question that was repeated
		at = o.turn.h.Now()
	}
	completed := at.Unix()
	o.object.Completed = &completed
	switch o.turn.finish {
	case finishLength:
		o.object.Status, o.object.Incomplete, o.object.Completed = statusIncomplete, &incomplete{"max_output_tokens"}, nil
	case finishFilter, finishToolLimit:
		o.object.Status, o.object.Incomplete, o.object.Completed = statusIncomplete, &incomplete{o.turn.finish}, nil
	}
}
