package mcpserver

//lint:file-ignore SA1019 clients of 2025-11-25 use logging until MCP removes it

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agenthost/internal/safe"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/wing/mcpserver/mcpskills"
)

// Limits for clients.
const (
	maxSessions     = 4096
	maxUserSessions = 64
	maxStreams      = 4096
	maxUserStreams  = 16
	sessionTimeout  = 30 * time.Minute
	// watchInterval is how often an app with open streams is compared with the one it was published
	// from.
	watchInterval = 250 * time.Millisecond
	// listTTL is how long a client may keep a list.
	listTTL = 5 * time.Second
)

// A publishedApp is an app's server, which follows the app's reloads. Both handlers use it.
type publishedApp struct {
	h    *handlers
	name string
	// info is the server's name and version in JSON.
	info                json.RawMessage
	server              *mcp.Server
	sessions, stateless http.Handler
	// connection is the session of a client without a session ID that has a connection of its own:
	// one on stdio.
	connection string

	mu       sync.Mutex
	app      *runtime.App
	settings *Settings
	// listed are the tools and prompts that the server lists, in JSON, by name.
	listed, listedPrompts map[string][]byte
	// listedResources are the resources by URI.
	listedResources map[string][]byte
	hasArtifacts    bool
	hasSkills       bool
	// connections are the open sessions by their ID, and opening counts those to come by user.
	connections map[string]*connection
	opening     map[string]int
	// streams are the open streams by user.
	streams   map[string]int
	streaming int
	timer     *time.Timer
}

// settingsOf returns what an app offers; nil for an app that is not served.
func (h *handlers) settingsOf(app *runtime.App) *Settings {
	if app == nil {
		return nil
	}
	if s, ok := app.Section(sectionKey).(*Settings); ok {
		return s
	}
	if h.opts.All {
		return DefaultSettings(app.Root())
	}
	return nil
}

// findPublished returns an app's server after it has listed what the current revision offers; nil
// for an app that is not served.
func (h *handlers) findPublished(name string) *publishedApp {
	app := h.Host().App(name)
	settings := h.settingsOf(app)
	if settings == nil {
		return nil
	}
	h.mu.Lock()
	p := h.published[name]
	if p == nil {
		p = h.newPublished(name, settings)
		h.published[name] = p
	}
	h.mu.Unlock()
	p.updateLists(app, settings)
	return p
}

// newPublished returns a server without tools.
func (h *handlers) newPublished(name string, settings *Settings) *publishedApp {
	p := &publishedApp{
		h: h, name: name, listed: map[string][]byte{}, listedPrompts: map[string][]byte{},
		connections: map[string]*connection{}, opening: map[string]int{}, streams: map[string]int{},
	}
	opts := mcp.ServerOptions{}
	if h.opts.Server != nil {
		opts = *h.opts.Server
	}
	opts.Instructions = settings.Instructions
	if opts.Capabilities == nil {
		opts.Capabilities = &mcp.ServerCapabilities{Logging: &mcp.LoggingCapabilities{}}
	}
	if opts.CompletionHandler == nil {
		opts.CompletionHandler = p.handleComplete
	}
	if opts.SubscribeHandler == nil {
		opts.SubscribeHandler, opts.UnsubscribeHandler = p.handleSubscribe, p.handleUnsubscribe
	}
	opts.Capabilities = withTasks(opts.Capabilities)
	opts.SetCacheable = func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) {
		c.CacheScope, c.TTLMs = "private", int(listTTL/time.Millisecond)
	}
	implementation := &mcp.Implementation{Name: name, Version: h.Version()}
	p.info, p.server = encodeEntry(implementation), mcp.NewServer(implementation, &opts)
	p.addTaskMethods()
	p.server.AddReceivingMiddleware(p.recoverPanics, p.observeSessions, p.handleTasks)
	currentSkills := func() *mcpskills.Catalog { return p.currentSettings().Skills }
	if err := mcpskills.Register(p.server, currentSkills, int(listTTL/time.Millisecond)); err != nil {
		h.Logger().Error("MCP skills rejected", "app", name, "reason", err)
	}
	if h.opts.Extend != nil {
		h.opts.Extend(name, p.server)
	}
	choose := func(*http.Request) *mcp.Server { return p.server }
	limit := h.MaxBody()
	p.sessions = mcp.NewStreamableHTTPHandler(choose, &mcp.StreamableHTTPOptions{
		SessionTimeout: sessionTimeout, DisableLocalhostProtection: true, MaxRequestBodyBytes: limit, EventStore: h.opts.Events,
	})
	p.stateless = mcp.NewStreamableHTTPHandler(choose, &mcp.StreamableHTTPOptions{
		Stateless: true, PropagateRequestCancellation: true, DisableLocalhostProtection: true, MaxRequestBodyBytes: limit,
	})
	context.AfterFunc(h.Stopping(), func() {
		defer safe.Recover(func(caught *safe.Panic) { caught.Log(h.Logger(), "closing MCP sessions panicked") })
		for s := range p.server.Sessions() {
			_ = s.Close()
		}
	})
	return p
}

// recoverPanics keeps a handler's panic from ending the process: the SDK calls handlers on
// its own goroutines.
func (p *publishedApp) recoverPanics(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (result mcp.Result, err error) {
		defer safe.Recover(func(caught *safe.Panic) {
			caught.Log(p.h.Logger(), "MCP handler panicked", "app", p.name, "method", method)
			result, err = nil, errInternal
		})
		return next(ctx, method, req)
	}
}

// updateLists makes the server list what the app's revision offers. The SDK notifies clients of a
// change.
func (p *publishedApp) updateLists(app *runtime.App, settings *Settings) {
	var changed []string
	defer func() { p.notifySubscribers(context.Background(), changed...) }()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.app == app {
		return
	}
	p.app, p.settings = app, settings
	tools, prompts := map[string][]byte{}, map[string][]byte{}
	for i := range settings.Tools {
		t := settings.Tools[i].describeTool(settings)
		tools[t.Name] = encodeEntry(t)
		if bytes.Equal(tools[t.Name], p.listed[t.Name]) {
			continue
		}
		if caught := safe.Call(func() { p.server.AddTool(t, p.handleTool) }); caught != nil { // its schema is not one for tools
			p.h.Logger().Error("MCP tool rejected", "app", p.name, "tool", t.Name, "reason", caught.Value)
			delete(tools, t.Name)
		}
	}
	for i := range settings.Prompts {
		t := settings.Prompts[i].describePrompt()
		prompts[t.Name] = encodeEntry(t)
		if !bytes.Equal(prompts[t.Name], p.listedPrompts[t.Name]) {
			p.server.AddPrompt(t, p.handlePrompt)
		}
	}
	p.server.RemoveTools(listMissing(p.listed, tools)...)
	p.server.RemovePrompts(listMissing(p.listedPrompts, prompts)...)
	p.listed, p.listedPrompts = tools, prompts
	changed = p.updateResources(settings)
}

func encodeEntry(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return text
}

// listMissing returns the names in before that after does not have.
func listMissing(before, after map[string][]byte) []string {
	var names []string
	for name := range before {
		if after[name] == nil {
			names = append(names, name)
		}
	}
	return names
}

// isDirect reports whether a tool is an agent that is listed, and no argument of it is repeated in a header,
// which the SDK checks.
func (p *publishedApp) isDirect(tool string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := p.listed[tool]
	return text != nil && !bytes.Contains(text, []byte(`"x-mcp-header"`))
}

// currentSettings returns the settings of the revision that the server lists.
func (p *publishedApp) currentSettings() *Settings {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.settings
}

var (
	errTooManySessions = server.NewError(http.StatusTooManyRequests, "Too many open MCP sessions")
	errTooManyStreams  = server.NewError(http.StatusTooManyRequests, "Too many open streams")
)

// reserveSession counts the session that a request opens, until release is called.
func (p *publishedApp) reserveSession(r *http.Request, user string) (release func(), err error) {
	if r.Method != http.MethodPost || r.Header.Get(sessionHeader) != "" {
		return func() {}, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	open := map[string]*connection{}
	own, all := p.opening[user], 0
	for s := range p.server.Sessions() {
		if c := p.connections[s.ID()]; c != nil {
			open[s.ID()] = c
			if c.user == user {
				own++
			}
		}
	}
	for _, n := range p.opening {
		all += n
	}
	p.connections = open
	if own >= maxUserSessions || all+len(open) >= maxSessions {
		return nil, errTooManySessions
	}
	p.opening[user]++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.opening[user]--; p.opening[user] == 0 {
			delete(p.opening, user)
		}
	}, nil
}

// recordSession records who owns the session that a request has opened.
func (p *publishedApp) recordSession(id, user string) {
	if id == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.connections[id] == nil {
		p.connections[id] = &connection{user: user, running: map[string]context.CancelFunc{}}
	}
}

// isStream reports whether a request has no end: it waits for notifications.
func isStream(r *http.Request) bool {
	return r.Method == http.MethodGet || r.Header.Get("Mcp-Method") == listenMethod
}

// enterStream counts a stream until leave is called. The streams of an app share a timer that
// notices reloads, and end when a shutdown starts.
func (p *publishedApp) enterStream(r *http.Request, user string) (inner *http.Request, leave func(), err error) {
	if !isStream(r) {
		return r, func() {}, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.streaming >= maxStreams || p.streams[user] >= maxUserStreams {
		return nil, nil, errTooManyStreams
	}
	p.streaming++
	p.streams[user]++
	if p.streaming == 1 {
		p.timer = time.AfterFunc(watchInterval, func() {
			defer safe.Recover(func(caught *safe.Panic) { caught.Log(p.h.Logger(), "watching an app for MCP streams panicked") })
			p.watchReload()
		})
	}
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(p.h.Stopping(), func() {
		defer safe.Recover(func(caught *safe.Panic) { caught.Log(p.h.Logger(), "ending an MCP stream panicked") })
		cancel()
	})
	return r.WithContext(ctx), func() {
		stop()
		cancel()
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.streams[user]--; p.streams[user] == 0 {
			delete(p.streams, user)
		}
		if p.streaming--; p.streaming == 0 {
			p.timer.Stop()
		}
	}, nil
}

// watchReload updates the lists while streams are open.
func (p *publishedApp) watchReload() {
	p.h.findPublished(p.name)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.streaming > 0 {
		p.timer.Reset(watchInterval)
	}
}

// findTool returns the tool with a name in the current revision, or nil.
func (s *Settings) findTool(name string) *AgentTool {
	i := slices.IndexFunc(s.Tools, func(t AgentTool) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	return &s.Tools[i]
}
