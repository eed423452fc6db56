// Package acpserver serves one app as an agent of the Agent Client Protocol (ACP), version 1, on two
// streams: editors such as Zed start the program, and each line is one JSON-RPC message.
//
// The wire is written here and not by a library: it is a few dozen lines, and libraries neither bound
// a line, nor name the place of a wrong value, nor end a turn in an order that stores everything.
//
// Conversations are the host's sessions, so that one that began over another protocol can be listed,
// loaded and continued. A prompt is one run or more: a run ends with an answer, or with calls that
// wait for a person. The client shows these, and the answers start the next run of the same prompt. No
// run is in progress while a person thinks, so that the session's lease is free, and a call without an
// answer stays open for any other client.
package acpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/genai"

	"agenthost/internal/terminal"
	"agenthost/pkg/protocol"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
)

// Options configure [Serve].
type Options struct {
	// App is the app's name, and User the owner of its sessions.
	App, User string
	// In and Out are the client's.
	In  io.Reader
	Out io.Writer
	// Host has the limits for turns, and the log; nil for the defaults.
	Host *server.Options
	// Drain is how long started requests may continue after the end of the input.
	Drain time.Duration
	// Flush limits how long the last responses may take to write after Drain; the default is 2 seconds.
	Flush time.Duration
	// Authorize lets the client's person authorize a connection; nil if another program does. It may be called by
	// many goroutines.
	Authorize Authorize
}

// An Authorize waits until a person has authorized the connection for a call in a session, and returns the
// answer to the call. It calls show at most once, in a goroutine of its own, whose context ends with the
// authorization.
type Authorize func(ctx context.Context, call *genai.FunctionCall, key session.Key, show ShowAddress) (map[string]any, error)

// A ShowAddress shows the person the address to open, and the code to enter there, if it has one. An error ends
// the authorization.
type ShowAddress func(ctx context.Context, address, userCode string) error

// Serve serves one app to the client on the streams, until the input or ctx ends. Requests that have
// started may continue for [Options.Drain]. The app needs no acp_server in app.yaml.
func Serve(ctx context.Context, host *runtime.Host, opts *Options) error {
	srv := server.New(host, opts.Host)
	defer srv.Drain()
	if host.App(opts.App) == nil {
		return fmt.Errorf("app %q not found", opts.App)
	}
	a := &agent{Services: srv.Services, opts: opts, sessions: map[string]*openSession{}}
	a.conn = newConnection(opts, srv.MaxBody(), a)
	return a.conn.serveClient(ctx, srv.Drain)
}

// An agent answers the client's messages.
type agent struct {
	*server.Services
	opts *Options
	conn *connection

	mu sync.Mutex
	// client is nil before initialize.
	client *clientCapabilities
	// sessions are those that the client has opened.
	sessions map[string]*openSession
	// hasReported is set once a message has reported what is ignored.
	hasReported bool
}

// A job computes a request's result.
type job func(ctx context.Context) (any, error)

// newHandler returns a method's function for the wire.
func newHandler[P any](begin func(a *agent, p *P) (job, error)) func(*agent, json.RawMessage) (job, error) {
	return func(a *agent, params json.RawMessage) (job, error) {
		p := new(P)
		if err := decodeParams(params, p); err != nil {
			return nil, err
		}
		return begin(a, p)
	}
}

// listMethods returns the methods that requests can name.
func listMethods() map[string]func(*agent, json.RawMessage) (job, error) {
	return map[string]func(*agent, json.RawMessage) (job, error){
		"initialize":       newHandler((*agent).beginInitialize),
		"authenticate":     newHandler((*agent).beginAuthenticate),
		"session/new":      newHandler((*agent).beginNew),
		"session/load":     newHandler((*agent).beginLoad),
		"session/resume":   newHandler((*agent).beginResume),
		"session/list":     newHandler((*agent).beginList),
		"session/close":    newHandler((*agent).beginClose),
		"session/delete":   newHandler((*agent).beginDelete),
		"session/set_mode": newHandler((*agent).beginSetMode),
		"session/prompt":   newHandler((*agent).beginPrompt),
	}
}

var methods = listMethods()

// beginRequest reads a request in the order of the input. The job that it returns may run while
// later ones begin.
func (a *agent) beginRequest(method string, params json.RawMessage) (job, error) {
	begin := methods[method]
	if begin == nil {
		return nil, newWireError(codeUnknownMethod, "unknown method %q", protocol.TruncateText(method, maxShown))
	}
	if method != "initialize" && a.readClient() == nil {
		return nil, newWireError(codeInvalidRequest, "initialize must be the first request")
	}
	return begin(a, params)
}

func (a *agent) readClient() *clientCapabilities {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.client
}

// handleNotification handles a message without a response. Unknown ones are ignored, as JSON-RPC
// requires.
func (a *agent) handleNotification(method string, params json.RawMessage) {
	var p struct {
		SessionID string          `json:"sessionId"`
		RequestID json.RawMessage `json:"requestId"`
	}
	if decodeParams(params, &p) != nil {
		return
	}
	switch method {
	case "session/cancel":
		a.mu.Lock()
		defer a.mu.Unlock()
		if s := a.sessions[p.SessionID]; s != nil && s.turn != nil {
			s.turn.cancelByClient()
		}
	case "$/cancel_request":
		a.conn.cancelRequest(p.RequestID)
	}
}

// protocolVersion is the only version that the agent speaks.
const protocolVersion = 1

type initializeParams struct {
	ProtocolVersion    *int                `json:"protocolVersion"`
	ClientCapabilities *clientCapabilities `json:"clientCapabilities"`
}

// clientCapabilities are what the client can do for the agent.
type clientCapabilities struct {
	Elicitation *struct {
		Form *struct{} `json:"form"`
		URL  *struct{} `json:"url"`
	} `json:"elicitation"`
}

func (c *clientCapabilities) hasForm() bool { return c.Elicitation != nil && c.Elicitation.Form != nil }

func (c *clientCapabilities) hasURL() bool { return c.Elicitation != nil && c.Elicitation.URL != nil }

type initializeResult struct {
	ProtocolVersion   int              `json:"protocolVersion"`
	AgentCapabilities map[string]any   `json:"agentCapabilities"`
	AgentInfo         map[string]any   `json:"agentInfo"`
	AuthMethods       []map[string]any `json:"authMethods"`
}

// beginInitialize returns the agent's version: a client that cannot speak it disconnects.
func (a *agent) beginInitialize(p *initializeParams) (job, error) {
	if p.ProtocolVersion == nil {
		return nil, newParamsError("protocolVersion is required")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.client != nil {
		return nil, newWireError(codeInvalidRequest, "the connection is already initialized")
	}
	a.client = p.ClientCapabilities
	if a.client == nil {
		a.client = &clientCapabilities{}
	}
	none := struct{}{}
	return newResult(&initializeResult{
		ProtocolVersion: protocolVersion,
		AgentCapabilities: map[string]any{
			"loadSession":         true,
			"promptCapabilities":  map[string]any{"image": true, "audio": true, "embeddedContext": true},
			"mcpCapabilities":     map[string]any{"http": false, "sse": false},
			"sessionCapabilities": map[string]any{"list": none, "resume": none, "close": none, "delete": none},
			"auth":                none,
		},
		AgentInfo:   map[string]any{"name": a.opts.App, "version": a.Version()},
		AuthMethods: []map[string]any{},
	}), nil
}

func newResult(v any) job { return func(context.Context) (any, error) { return v, nil } }

type authenticateParams struct {
	MethodID *string `json:"methodId"`
}

// beginAuthenticate rejects each method: the person who starts the program is the user.
func (a *agent) beginAuthenticate(p *authenticateParams) (job, error) {
	if p.MethodID == nil {
		return nil, newParamsError("methodId is required")
	}
	return nil, newParamsError("methodId: unknown method %q, the agent has no authentication methods", protocol.TruncateText(*p.MethodID, maxShown))
}

// reportIgnored logs once that the agent does not use what clients hand to a session.
func (a *agent) reportIgnored(servers []mcpServer, folders []string) {
	if len(servers)+len(folders) == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.hasReported {
		return
	}
	a.hasReported = true
	var ignored []string
	for _, s := range servers {
		ignored = append(ignored, "MCP server "+protocol.TruncateText(s.Name, maxShown))
	}
	for _, folder := range folders {
		ignored = append(ignored, "folder "+protocol.TruncateText(folder, maxShown))
	}
	a.Logger().Warn("the app has its own tools and files, and ignores those of the client: " +
		terminal.Clean(strings.Join(slices.Compact(ignored[:min(len(ignored), maxReported)]), ", ")))
}

// maxReported limits the entries that a warning names.
const maxReported = 10

// readSettings returns what the app offers; nil without acp_server.
func (a *agent) readSettings() (*Settings, *runtime.App) {
	app := a.Host().App(a.opts.App)
	if app == nil {
		return nil, nil
	}
	s, _ := app.Section(sectionKey).(*Settings)
	return s, app
}
