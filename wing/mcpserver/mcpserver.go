// Package mcpserver serves apps as MCP servers at /apps/{app}/mcp: an agent is a tool that takes a
// message and returns the answer.
//
// One path speaks both eras of the protocol. Clients of 2026-07-28 and later name it in the header
// MCP-Protocol-Version and have no sessions; each request is complete. Any other request belongs to
// an older client, which opens a session with initialize. The SDK serves each era with its own
// handler, and both use the same server for an app.
//
// Conversations are the host's sessions. A tool result has the session's ID as a handle, and a call
// that repeats the handle continues the conversation. A handle is looked up among the caller's own
// sessions, so that another user's handle is unknown.
package mcpserver

import (
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agenthost/pkg/protocol/task"
	"agenthost/pkg/server"
)

// Options configure the wing. The zero value is valid: it serves no app.
type Options struct {
	// All serves every app, with its root agent as the only tool.
	All bool
	// AnswerTimeout is how long a call in a session waits for a person's answer; the
	// default is 10 minutes. Newer clients repeat the call instead.
	AnswerTimeout time.Duration
	// TaskDelay is how long a call by a client that offers tasks may run before it continues as a
	// task; the default is 2 seconds. Below 0 each call of such a client is a task.
	TaskDelay time.Duration
	// User is the user on a host without authentication; the default is mcp_user, as in ADK.
	User string
	// Server has further options of the SDK's servers, for programs with handlers of their own; nil
	// for none.
	Server *mcp.ServerOptions
	// Extend, if set, is called for each app's server when it is created: a program adds tools,
	// resources and prompts in Go. They are not runs, and their handlers bound themselves.
	Extend func(app string, s *mcp.Server)
	// Events lets clients of 2025-11-25 resume a stream; nil for none.
	Events mcp.EventStore
}

// localUser is the user of a host without authentication, as in ADK.
const localUser = "mcp_user"

// handlers handle the routes.
type handlers struct {
	*server.Services
	opts Options
	// tasks are the runs that continue without their calls.
	tasks *task.Tasks

	mu sync.Mutex
	// published are the servers by app.
	published map[string]*publishedApp
}

// Extend returns a server extension; opts may be nil.
func Extend(opts *Options) func(*server.Services) *server.Extension {
	if opts == nil {
		opts = &Options{}
	}
	return func(s *server.Services) *server.Extension {
		h := newHandlers(s, opts)
		return &server.Extension{DescribeProtocol: h.describeProtocol, Routes: h.listRoutes()}
	}
}

func newHandlers(s *server.Services, opts *Options) *handlers {
	h := &handlers{Services: s, opts: *opts, tasks: task.New(s), published: map[string]*publishedApp{}}
	if h.opts.AnswerTimeout == 0 {
		h.opts.AnswerTimeout = 10 * time.Minute
	}
	if h.opts.TaskDelay == 0 {
		h.opts.TaskDelay = 2 * time.Second
	}
	return h
}

func (h *handlers) listRoutes() []server.Route {
	const path = "/apps/{app}/mcp"
	return []server.Route{
		{Method: "POST", Pattern: path, Access: server.AccessHandler, Handler: h.handleMCP, Doc: server.Doc{Tag: "mcp", ID: "sendMCP", Summary: "Send a message to the app as an MCP server", Body: "AnyObject", Answer: "text/event-stream:AnyObject"}},
		{Method: "GET", Pattern: path, Access: server.AccessHandler, Handler: h.handleMCP, Doc: server.Doc{Tag: "mcp", ID: "streamMCP", Summary: "Stream the notifications of an MCP session", Answer: "text/event-stream:AnyObject"}},
		{Method: "DELETE", Pattern: path, Access: server.AccessHandler, Handler: h.handleMCP, Doc: server.Doc{Tag: "mcp", ID: "deleteMCP", Summary: "Close an MCP session"}},
		{Method: "GET", Pattern: metadataPath + path, Access: server.AccessPublic, Handler: h.handleMetadata, Doc: server.Doc{Tag: "mcp", ID: "getMCPMetadata", Summary: "Authorization servers for the app as an MCP server (RFC 9728)", Answer: "AnyObject"}},
	}
}

var errNotFound = server.NewError(http.StatusNotFound, "Not Found")
