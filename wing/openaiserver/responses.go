package openaiserver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/protocol"
	"agenthost/pkg/protocol/task"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
)

// A responseRequest is the body for POST /v1/responses. Other keys are ignored, as in chat completions.
type responseRequest struct {
	Model        string          `json:"model"`
	Input        json.RawMessage `json:"input"`
	Instructions string          `json:"instructions"`
	Previous     string          `json:"previous_response_id"`
	Conversation json.RawMessage `json:"conversation"`
	Store        *bool           `json:"store"`
	Stream       bool            `json:"stream"`
	Background   bool            `json:"background"`
	Tools        []functionTool  `json:"tools"`
	ToolChoice   json.RawMessage `json:"tool_choice"`
	MaxToolCalls *int            `json:"max_tool_calls"`
	User         string          `json:"user"`
	Metadata     map[string]any  `json:"metadata"`
}

// readResponse reads a request's body.
func (h *handlers) readResponse(w http.ResponseWriter, r *http.Request) (*responseRequest, error) {
	q := &responseRequest{}
	if err := h.readBody(w, r, q); err != nil {
		return nil, err
	}
	switch {
	case q.MaxToolCalls != nil && *q.MaxToolCalls < 1:
		return nil, newRefusal("max_tool_calls", "max_tool_calls must be at least 1, got %d", *q.MaxToolCalls)
	case q.Background && q.Store != nil && !*q.Store:
		return nil, newRefusal("store", "store must be true for a response in the background")
	}
	return q, checkMetadata(q.Metadata)
}

// nameConversation returns the session ID that the request names; empty without one.
func (q *responseRequest) nameConversation() (string, error) {
	if len(q.Conversation) == 0 || string(q.Conversation) == "null" {
		return "", nil
	}
	var id string
	var object conversation
	if json.Unmarshal(q.Conversation, &id) != nil {
		if err := json.Unmarshal(q.Conversation, &object); err != nil {
			return "", newRefusal("conversation", "conversation must be an ID, or an object with an id")
		}
		id = object.ID
	}
	if id = strings.TrimSpace(id); id == "" {
		return "", newRefusal("conversation", "conversation must have an id")
	}
	if q.Previous != "" {
		return "", newRefusal("previous_response_id", "previous_response_id and conversation exclude each other")
	}
	return id, nil
}

// An input is what a request brings.
type input struct {
	messages     []message
	instructions string
	// approvals are answers by their call.
	approvals map[string]bool
}

// readInput reads text, or a list with messages and answers. Items of earlier answers that clients
// send back, such as reasoning, are ignored.
func (q *responseRequest) readInput() (*input, error) {
	in := &input{instructions: q.Instructions, approvals: map[string]bool{}}
	var text string
	if json.Unmarshal(q.Input, &text) == nil {
		in.messages = []message{{role: roleUser, text: text, parts: []*genai.Part{{Text: text}}}}
		if strings.TrimSpace(text) == "" {
			return nil, newRefusal("input", "input must have text")
		}
		return in, nil
	}
	var items []inputItem
	if err := json.Unmarshal(q.Input, &items); err != nil {
		return nil, newRefusal("input", "input must be text, or a list of items")
	}
	if len(items) > maxMessages {
		return nil, newRefusal("input", "input exceeds the limit of %d, got %d", maxMessages, len(items))
	}
	var system []string
	for i := range items {
		at := fmt.Sprintf("input[%d]", i)
		switch item := &items[i]; item.Type {
		case "", "message":
			m, err := (&chatMessage{Role: item.Role, Content: item.Content}).readMessage(at)
			switch {
			case err != nil:
				return nil, err
			case m.isEmpty():
			case m.role == roleSystem:
				system = append(system, m.text)
			default:
				in.messages = addMessage(in.messages, m)
			}
		case "function_call", "function_call_output":
			m, err := item.readCall(at)
			if err != nil {
				return nil, err
			}
			in.messages = addMessage(in.messages, m)
		case "mcp_approval_response":
			in.approvals[item.ApprovalID] = item.Approve
		case "reasoning", "mcp_approval_request":
		default:
			return nil, newRefusal(at+".type", "%s.type %q is not supported: use message, function_call_output or mcp_approval_response", at, protocol.TruncateText(item.Type, maxShown))
		}
	}
	in.instructions = strings.Join(append([]string{q.Instructions}, system...), "\n\n")
	n := len(in.messages)
	if len(in.approvals) == 0 && (n == 0 || in.messages[n-1].role != roleUser) {
		return nil, newRefusal("input", "input must end with a message of the user, or answer an approval")
	}
	if len(in.approvals) > 0 && n > 0 {
		return nil, newRefusal("input", "input must either answer approvals or have messages")
	}
	return in, nil
}

func (h *handlers) handleResponses(w http.ResponseWriter, r *http.Request) error {
	q, err := h.readResponse(w, r)
	if err != nil {
		return err
	}
	m, user, err := h.openDoor(r, q.Model, q.User)
	if err != nil {
		return err
	}
	in, err := q.readInput()
	if err != nil {
		return err
	}
	tools, err := m.readTools(q.Tools, q.ToolChoice)
	if err != nil {
		return err
	}
	ctx, end, err := h.StartRun(r.Context(), m.app.Name(), user, false)
	if err != nil {
		return err
	}
	defer end()
	p, err := h.placeResponse(ctx, q, in, &search{h: h, model: m, user: user, messages: in.messages})
	if err != nil {
		return server.WithSessionKey(session.Key{App: m.app.Name(), User: user}, err)
	}
	if p.temporary {
		defer h.deleteTemporary(r, p)
	} else {
		w.Header().Set(sessionHeader, p.key.ID)
	}
	o := &responseWriter{turn: &turn{h: h, r: r, w: w, model: m, place: p, instructions: in.instructions, tools: tools, finish: finishStop}}
	o.turn.isBackground = q.Background
	if q.MaxToolCalls != nil {
		o.turn.maxToolCalls = *q.MaxToolCalls
	}
	o.object = o.newObject()
	q.describeRequest(o)
	if o.turn.isFollowed = q.Stream && q.Background; q.Stream && !q.Background {
		o.turn.stream = h.NewStream(w)
	}
	return o.answerInput(ctx, in)
}

// describeRequest adds what the request has to the response.
func (q *responseRequest) describeRequest(o *responseWriter) {
	o.object.Previous, o.object.Instructions = newOptional(q.Previous), newOptional(q.Instructions)
	if o.turn.isNamed = len(q.Conversation) > 0 && string(q.Conversation) != "null"; o.turn.isNamed {
		o.object.Conversation = &conversation{o.turn.place.key.ID}
	}
	for _, t := range o.turn.tools {
		decl := t.Declaration()
		parameters, _ := decl.ParametersJsonSchema.(map[string]any)
		o.object.Tools = append(o.object.Tools, usedTool{"function", decl.Name, newOptional(decl.Description), parameters, false})
	}
	if string(q.ToolChoice) == `"none"` {
		o.object.ToolChoice = "none"
	}
	if q.Metadata != nil {
		o.object.Metadata = q.Metadata
	}
}

// placeResponse finds or creates the session that a response continues.
func (h *handlers) placeResponse(ctx context.Context, q *responseRequest, in *input, s *search) (*place, error) {
	id, err := q.nameConversation()
	switch {
	case err != nil:
		return nil, err
	case q.Previous != "":
		return s.openPrevious(ctx, q.Previous)
	case id != "":
		p, err := s.openStored(ctx, s.newKey(id), "")
		if errors.Is(err, session.ErrNotFound) && len(in.messages) > 0 {
			return s.createSession(ctx, s.newKey(id))
		}
		return p, err
	case len(in.messages) == 0:
		return nil, newRefusal("input", "an answer to an approval requires previous_response_id or conversation")
	case q.Store != nil && !*q.Store:
		return s.openTemporary(ctx)
	}
	return s.openByTranscript(ctx)
}

// openPrevious returns the session after a response: its own, or a fork if the session has continued.
func (s *search) openPrevious(ctx context.Context, response string) (*place, error) {
	missing := &requestError{http.StatusNotFound, fmt.Sprintf("Previous response with id %q not found", protocol.TruncateText(response, maxShown)), "previous_response_id", "previous_response_not_found"}
	app, id, invocation := decodeResponseID(response)
	if app != s.model.app.Name() {
		return nil, missing
	}
	p, err := s.openStored(ctx, s.newKey(id), invocation)
	if errors.Is(err, session.ErrNotFound) {
		return nil, missing
	}
	return p, err
}

// openStored returns a session as it was after an invocation; empty is the last one.
func (s *search) openStored(ctx context.Context, key session.Key, invocation string) (*place, error) {
	sess, err := s.h.Host().Store().Sessions.Get(ctx, key, nil)
	if err != nil {
		return nil, err
	}
	if len(s.messages) > 1 {
		return nil, newRefusal("input", "input must have one message: the session has the earlier ones")
	}
	events := session.WithoutRewound(sess.Events())
	last := len(events) - 1
	if invocation != "" {
		for last >= 0 && events[last].InvocationID != invocation {
			last--
		}
		if last < 0 || slices.Contains(listDeleted(sess.Events()), invocation) {
			return nil, session.ErrNotFound
		}
	}
	isContinued := slices.ContainsFunc(events[last+1:], func(ev *session.Event) bool { return ev.Content != nil })
	if isContinued {
		sum := sha256.Sum256([]byte(key.ID + "\x00" + events[last].ID))
		return s.forkSession(ctx, key, events[last].ID, idPrefix+hex.EncodeToString(sum[:sessionDigest]))
	}
	return newPlace(sess), nil
}

// answerInput runs the turn and writes the response.
func (o *responseWriter) answerInput(ctx context.Context, in *input) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if o.turn.stream != nil {
		defer o.turn.stream.StartKeepAlive(stop)()
	}
	content, repeats, err := o.readContent(ctx, in)
	switch {
	case err != nil:
		return err
	case repeats:
		o.turn.asks = true
		err = o.beginTurn(o.turn.place.invocation)
	case o.turn.isBackground:
		return o.startBackground(ctx, content)
	default:
		err = o.turn.runTurn(ctx, content, o)
	}
	if err == nil && o.turn.asks {
		err = o.addQuestions()
	}
	if err != nil && !o.turn.isOverLimit(err) {
		return o.failResponse(err)
	}
	o.finishResponse()
	if o.turn.stream == nil {
		return server.WriteJSON(o.turn.w, o.object)
	}
	_ = o.sendStatus("response." + o.object.Status)
	return nil
}

// startBackground starts the turn, and writes the response once its message is stored.
func (o *responseWriter) startBackground(ctx context.Context, content *genai.Content) error {
	run, err := o.turn.startTask(ctx, content, "")
	if err != nil {
		return err
	}
	invocation := run.WaitForStart(ctx)
	switch {
	case invocation != "":
	case ctx.Err() != nil:
		return ctx.Err()
	case run.Err() != nil:
		return run.Err()
	default:
		return task.ErrPanicked
	}
	o.object.ID = encodeResponseID(o.turn.place.key, invocation)
	if o.turn.isFollowed {
		return (&storedReader{responseWriter: o, invocation: invocation}).followResponse(ctx, run, 0)
	}
	return server.WriteJSON(o.turn.w, o.object)
}

// readContent returns the content for the run. repeats is set if it does not answer the question
// that waits.
func (o *responseWriter) readContent(ctx context.Context, in *input) (content *genai.Content, repeats bool, err error) {
	if len(in.approvals) == 0 {
		content, q, err := o.turn.readAnswer(ctx, &in.messages[len(in.messages)-1])
		return content, q != nil, err
	}
	content = &genai.Content{Role: genai.RoleUser}
	for _, q := range o.turn.place.questions {
		approve, ok := in.approvals[q.Call.ID]
		a := runtime.ReadApproval(q.Call)
		if !ok || a == nil {
			continue
		}
		delete(in.approvals, q.Call.ID)
		response := map[string]any{"confirmed": approve}
		if approve && a.Payload != nil {
			response["payload"] = a.Payload
		}
		content.Parts = append(content.Parts, &genai.Part{FunctionResponse: &genai.FunctionResponse{ID: q.Call.ID, Name: q.Call.Name, Response: response}})
	}
	for id := range in.approvals {
		return nil, false, newRefusal("input", "approval_request_id %q is not that of an open approval", protocol.TruncateText(id, maxShown))
	}
	return content, false, nil
}

// failResponse ends the response with an error: as the answer, if nothing was streamed, or as the
// last event.
func (o *responseWriter) failResponse(err error) error {
	if o.turn.hasRun {
		o.turn.w.Header().Set(retryHeader, "false")
	}
	if o.turn.stream == nil || !o.turn.stream.HasStarted() {
		return err
	}
	body, _ := o.turn.h.describeError(o.turn.r, err)
	o.object.Status, o.object.Error = statusFailed, &responseError{"server_error", body.Error.Message}
	_ = o.sendStatus("response.failed")
	return nil
}
