package mcpserver

//lint:file-ignore SA1019 clients of 2025-11-25 use logging until MCP removes it

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/genai"

	"agenthost/pkg/protocol"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/wing/mcpserver/mcptask"
)

// A tool call is one run or more. Each run ends with an answer, or with questions for a person. An
// old client answers them within the call: the server sends elicitation requests and waits. A client
// without sessions receives the questions as the call's result, and repeats the call with the answers
// and the request state (see requestState). No run is in progress while a person thinks, so that the
// session's lease is free.

const (
	// requestArgument has the message, as in ADK, for an agent without an input schema.
	requestArgument = "request"
	// sessionArgument has the session's handle, in arguments and results.
	sessionArgument = "session"
	// maxRounds limits the questions and answers within one call.
	maxRounds = 32
	// maxProgress limits a call's progress notifications.
	maxProgress = 10_000
	// maxToken limits a request's progress token, which each notification repeats.
	maxToken = 256
	// maxProgressText limits a notification's message in characters.
	maxProgressText = 500
)

var (
	errInternal  = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error"}
	errBadState  = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "requestState is not that of an open question: call the tool without it"}
	errNoState   = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "inputResponses require the requestState of the result that they answer"}
	errLongToken = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("progressToken exceeds the limit of %d bytes", maxToken)}
)

// describeTool returns the tool as clients see it.
func (t *AgentTool) describeTool(s *Settings) *mcp.Tool {
	input := t.describeInput()
	output := map[string]any{"type": "string", "description": "The agent's answer."}
	switch {
	case t.Output != nil && !hasReference(t.Output.JSON()):
		output = t.Output.JSON()
	case t.Entry != nil:
		output = map[string]any{"description": "The tool's response."}
	case t.Output != nil:
		output = map[string]any{"description": "The agent's answer."}
	}
	results := map[string]any{"answer": output}
	if t.takesHandle(s) {
		properties, _ := input["properties"].(map[string]any)
		properties = copyMap(properties)
		properties[sessionArgument] = map[string]any{"type": "string", "description": "The session of an earlier result, to continue that conversation."}
		input["properties"] = properties
		results[sessionArgument] = map[string]any{"type": "string", "description": "The conversation. Repeat it as an argument to continue."}
	}
	return &mcp.Tool{
		Name: t.Name, Description: t.Description, InputSchema: input,
		OutputSchema: map[string]any{"type": "object", "properties": results, "required": []string{"answer"}},
	}
}

// describeInput returns the schema for the arguments without the session. The caller may add to it. A
// tool without parameters has no properties, and one that a server lists when it is called has any.
func (t *AgentTool) describeInput() map[string]any {
	input := map[string]any{"type": "object", "properties": map[string]any{}}
	switch {
	case t.Input != nil && t.hasOwnInput():
		input = copyMap(t.Input.JSON())
		input["type"] = "object"
	case t.Entry == nil:
		input["required"] = []string{requestArgument}
		input["properties"] = map[string]any{requestArgument: map[string]any{"type": "string", "description": "The message to the agent."}}
	}
	return input
}

// hasOwnInput reports whether the arguments are those of the agent's input schema, or of a tool without
// a model.
func (t *AgentTool) hasOwnInput() bool {
	return t.Entry != nil || t.Input != nil && t.Input.JSON()["type"] == "object"
}

// takesHandle reports whether the session's handle is an argument: an argument of the agent or tool with
// that name has precedence.
func (t *AgentTool) takesHandle(s *Settings) bool {
	if s.Session == sessionOfCall {
		return false
	}
	if !t.hasOwnInput() || t.Input == nil {
		return true
	}
	properties, _ := t.Input.JSON()["properties"].(map[string]any)
	return properties[sessionArgument] == nil
}

func copyMap(m map[string]any) map[string]any {
	c := make(map[string]any, len(m)+1)
	for k, v := range m {
		c[k] = v
	}
	return c
}

// hasReference reports whether a schema refers to its own parts by their place, which differs once
// it is part of another schema.
func hasReference(v any) bool {
	text, err := json.Marshal(v)
	return err != nil || strings.Contains(string(text), `"$ref"`) || strings.Contains(string(text), `"$dynamicRef"`)
}

// A call is a tool call in progress.
type call struct {
	p        *publishedApp
	req      *mcp.CallToolRequest
	settings *Settings
	tool     *AgentTool
	key      session.Key
	// creates is set for a new session; hidden if the client does not receive its handle.
	creates, hidden bool
	message         *genai.Content
	progress        int
	// capabilities are the client's.
	capabilities *mcp.ClientCapabilities
	// resumes is the invocation that a run without a message continues.
	resumes string
	// failure is why a run failed without an event that has the reason; nil for none.
	failure *runtime.RunError
	// asked is the turn whose questions the client has not received yet; nil for none.
	asked *turn
	// detached is set once the call's request has its result, so that no notification can follow.
	detached atomic.Bool
}

// handleTool runs an agent, or a tool without a model.
func (p *publishedApp) handleTool(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if extra := req.GetExtra(); extra != nil && extra.TokenInfo != nil {
		if rest, _ := extra.TokenInfo.Extra[restKey].(*call); rest != nil {
			rest.req = req
			return rest.askInConversation(ctx, rest.asked)
		}
	}
	return p.runTool(ctx, req, req.ClientCapabilities())
}

// runTool runs an agent for a client with capabilities.
func (p *publishedApp) runTool(ctx context.Context, req *mcp.CallToolRequest, capabilities *mcp.ClientCapabilities) (*mcp.CallToolResult, error) {
	c, err := p.newCall(req, capabilities)
	if err != nil {
		return nil, err
	}
	if err := c.readArguments(ctx); err != nil {
		return failedResult(err.Error()), nil
	}
	if c.isStateless() {
		return c.runStateless(ctx)
	}
	return c.runConversation(ctx)
}

// runFirstTurn runs an agent in a session. If the turn ends with questions, rest is the call that the SDK
// continues, and there is no result.
func (p *publishedApp) runFirstTurn(ctx context.Context, req *mcp.CallToolRequest) (rest *call, result *mcp.CallToolResult, err error) {
	c, err := p.newCall(req, req.ClientCapabilities())
	if err != nil {
		return nil, nil, err
	}
	if err := c.readArguments(ctx); err != nil {
		return nil, failedResult(err.Error()), nil
	}
	if c.asked, err = c.runTurn(ctx, c.message); err != nil {
		return nil, failedResult(err.Error()), nil
	}
	if !c.asked.asks {
		return nil, c.buildResult(ctx, c.asked), nil
	}
	return c, nil, nil
}

// newCall returns the call in a request. An error is the protocol's.
func (p *publishedApp) newCall(req *mcp.CallToolRequest, capabilities *mcp.ClientCapabilities) (*call, error) {
	settings := p.currentSettings()
	t := settings.findTool(req.Params.Name)
	if t == nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("unknown tool %q", req.Params.Name)}
	}
	if token, ok := req.Params.GetProgressToken().(string); ok && len(token) > maxToken {
		return nil, errLongToken
	}
	if t.RequiresTask && (!offersTasks(capabilities) || req.ProtocolVersion() < statelessVersion) {
		return nil, mcptask.NewCapabilityError("tool " + t.Name)
	}
	return &call{p: p, req: req, settings: settings, tool: t, key: session.Key{App: p.name, User: p.callerOf(req)}, capabilities: capabilities}, nil
}

// callerOf returns the user that a request acts as.
func (p *publishedApp) callerOf(req mcp.Request) string {
	if extra := req.GetExtra(); extra != nil && extra.TokenInfo != nil {
		return extra.TokenInfo.UserID
	}
	return p.h.localUser()
}

func (h *handlers) localUser() string {
	if h.opts.User != "" {
		return h.opts.User
	}
	return localUser
}

func (c *call) isStateless() bool { return c.req.ProtocolVersion() >= statelessVersion }

// readArguments reads the message and chooses the session.
func (c *call) readArguments(ctx context.Context) error {
	var args map[string]any
	if len(c.req.Params.Arguments) > 0 {
		var err error
		if args, err = session.DecodeMap(c.req.Params.Arguments); err != nil {
			return fmt.Errorf("arguments must be an object: %w", err)
		}
	}
	if args == nil {
		args = map[string]any{}
	}
	handle := ""
	if c.tool.takesHandle(c.settings) {
		given, ok := args[sessionArgument].(string)
		if !ok && args[sessionArgument] != nil {
			return errors.New("session must be a string")
		}
		handle = given
		delete(args, sessionArgument)
	}
	text, err := c.readMessage(ctx, args)
	if err != nil {
		return err
	}
	c.message = genai.NewContentFromText(text, genai.RoleUser)
	c.chooseSession(handle)
	return nil
}

func (c *call) readMessage(ctx context.Context, args map[string]any) (string, error) {
	if !c.tool.hasOwnInput() {
		text, ok := args[requestArgument].(string)
		if !ok || strings.TrimSpace(text) == "" {
			return "", errors.New("request is required: the message to the agent, as a string")
		}
		return text, nil
	}
	var checked any = args
	if c.tool.Input != nil {
		var err error
		if checked, err = c.tool.Input.Check(ctx, args); err != nil {
			return "", fmt.Errorf("invalid arguments: %w", err)
		}
	}
	if c.tool.Entry != nil { // the tool adds its own defaults
		checked = args
	}
	text, err := server.EncodeJSON(checked)
	return string(text), err
}

// chooseSession names the session: the handle's, the one of the client's connection, or a new one.
// A connection's session has an ID that follows from the connection's, so that it needs no memory.
func (c *call) chooseSession(handle string) {
	connection := c.p.connection
	if c.req.Session != nil && c.req.Session.ID() != "" {
		connection = c.req.Session.ID()
	}
	switch {
	case handle != "":
		c.key.ID = handle
	case c.settings.Session == sessionOfConnection && connection != "":
		sum := sha256.Sum256([]byte("agenthost mcp connection\x00" + c.key.App + "\x00" + c.key.User + "\x00" + connection))
		c.key.ID, c.creates = "mcp-"+hex.EncodeToString(sum[:16]), true
	default:
		c.key.ID, c.creates = "mcp-"+uuid.NewString(), true
	}
	c.hidden = !c.tool.takesHandle(c.settings)
}

// A turn is what a run has answered.
type turn struct {
	content []mcp.Content
	text    strings.Builder
	// response is that of the last tool call; nil without.
	response map[string]any
	// asks is set if the run has ended with questions.
	asks bool
	// failure is an error event's text.
	failure string
}

// runTurn runs one turn to its end. An error is the client's to see.
func (c *call) runTurn(ctx context.Context, message *genai.Content) (*turn, error) {
	return c.runStarted(ctx, message, nil)
}

// runStarted is runTurn, and calls onStart, if set, with the invocation once the message is stored.
func (c *call) runStarted(ctx context.Context, message *genai.Content, onStart func(invocation string)) (*turn, error) {
	h := c.p.h
	runCtx, end, err := h.StartRun(ctx, c.key.App, c.key.User, true)
	if err != nil {
		return nil, c.describeError(ctx, err)
	}
	defer end()
	t := &turn{}
	err = protocol.Run(runCtx, h.Services, &runtime.RunRequest{
		App: c.key.App, UserID: c.key.User, SessionID: c.key.ID, Message: message, Agent: c.tool.Agent,
		CreateSession: c.creates, InvocationID: c.resumes, OnStart: onStart, Writer: session.WriterClient, Protocol: "mcp",
	}, func(ev *session.Event) error {
		c.reportProgress(ctx, ev)
		c.logEvent(ctx, ev)
		c.notifyArtifacts(ctx, ev)
		t.readEvent(c.key.ID, ev)
		return nil
	})
	if err != nil {
		c.failure = runtime.AsRunError(err)
		return nil, c.describeError(ctx, err)
	}
	c.creates = false
	return t, nil
}

// describeError returns an error for the client; an internal one's cause is in the log.
func (c *call) describeError(ctx context.Context, err error) error {
	failed := protocol.LogError(ctx, c.p.h.Services, "/apps/"+c.p.name+"/mcp", err)
	if failed.Code == runtime.CodeSessionNotFound {
		return fmt.Errorf("unknown session %q: omit session to start a new conversation", c.key.ID)
	}
	return failed
}

// reportProgress sends a notification that the run has come further, if the client wants them. Its
// message is the text before the final answer.
func (c *call) reportProgress(ctx context.Context, ev *session.Event) {
	if c.req == nil {
		return
	}
	token := c.req.Params.GetProgressToken()
	if token == nil || c.req.Session == nil || c.progress >= maxProgress || c.detached.Load() {
		return
	}
	c.progress++
	params := &mcp.ProgressNotificationParams{ProgressToken: token, Progress: float64(c.progress)}
	if ev.Partial || !ev.IsFinal() {
		params.Message = protocol.TruncateText(plainText(ev.Content), maxProgressText)
	}
	_ = c.req.Session.NotifyProgress(ctx, params) // a client that has left ends the call by itself
}

// logEvent sends a log message, if the client has set a level: which agent has come further, or its
// error.
func (c *call) logEvent(ctx context.Context, ev *session.Event) {
	if ev.Partial || ev.IsFromUser() || c.req == nil || c.req.Session == nil || c.detached.Load() {
		return
	}
	params := &mcp.LoggingMessageParams{Level: "info", Logger: c.p.name, Data: map[string]any{"agent": ev.Author, "event": ev.ID}}
	if ev.ErrorCode != "" {
		params.Level, params.Data = "error", map[string]any{"agent": ev.Author, "event": ev.ID, "error": ev.ErrorCode}
	}
	_ = c.req.Session.Log(ctx, params) // a client that has left ends the call by itself
}

// buildResult returns the answer as the call's result.
func (c *call) buildResult(ctx context.Context, t *turn) *mcp.CallToolResult {
	if t.failure != "" {
		return failedResult(t.failure)
	}
	var answer any = t.text.String()
	if c.tool.Entry != nil {
		var failure string
		if answer, failure = c.tool.readResponse(t.response); failure != "" {
			return failedResult(failure)
		}
		t.addText(describeValue(answer))
	} else if c.tool.Output != nil {
		parsed, err := c.tool.Output.Parse(ctx, t.text.String())
		if err != nil {
			return failedResult("the agent's answer does not match its output_schema")
		}
		answer = parsed
	}
	structured := map[string]any{"answer": answer}
	if !c.hidden {
		structured[sessionArgument] = c.key.ID
	}
	result := &mcp.CallToolResult{Content: t.content, StructuredContent: structured}
	if result.Content == nil {
		result.Content = []mcp.Content{}
	}
	return result
}

// readResponse returns the answer in a tool's response, or its error. The value of {"result": …} is the
// answer, unless the tool declares its response.
func (t *AgentTool) readResponse(response map[string]any) (answer any, failure string) {
	value, isSole := response["result"]
	switch {
	case response == nil:
		return nil, "the tool has no response"
	case response["isError"] == true || response["error"] != nil:
		if len(response) > 1 {
			return nil, describeValue(response)
		}
		return nil, describeValue(response["error"])
	case isSole && len(response) == 1 && t.Output == nil:
		return value, ""
	}
	return response, ""
}

// describeValue returns a string as it is, and any other value as JSON.
func describeValue(v any) string {
	if text, ok := v.(string); ok {
		return text
	}
	text, err := server.EncodeJSON(v)
	if err != nil {
		return errInternal.Message
	}
	return string(text)
}

func failedResult(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}
