package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agenthost/internal/safe"
	"agenthost/pkg/protocol"
	"agenthost/pkg/server"
	"agenthost/wing/mcpserver/mcpdirect"
)

const (
	versionHeader = "MCP-Protocol-Version"
	sessionHeader = "Mcp-Session-Id"
	// statelessVersion is the first version without sessions.
	statelessVersion = "2026-07-28"
	listenMethod     = "subscriptions/listen"
	metadataPath     = "/.well-known/oauth-protected-resource"
)

// handleMCP authenticates the caller and passes the request to the handler of its era.
func (h *handlers) handleMCP(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("app")
	user, err := protocol.ResolveCaller(h.Services, r, name, h.localUser())
	if err != nil {
		return h.sendChallenge(w, r, err)
	}
	p := h.findPublished(name)
	if p == nil {
		return errNotFound
	}
	var rest *call
	if r.Method == http.MethodPost {
		body, err := h.ReadText(w, r)
		if err != nil {
			return err
		}
		mcpdirect.DecodeName(r.Header)
		if direct := p.findDirect(r.Header, body); direct != nil {
			return p.callDirectly(w, r, user, direct)
		}
		var sent bool
		if rest, sent, err = p.callInSession(w, r, user, body); sent || err != nil {
			return err
		}
		if err := server.DecodeJSON(body, new(json.RawMessage)); err != nil {
			return err
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	handler := p.sessions
	if r.Header.Get(versionHeader) >= statelessVersion {
		handler = p.stateless
	} else if release, err := p.reserveSession(r, user); err != nil {
		return err
	} else {
		defer release()
	}
	r, leave, err := p.enterStream(r, user)
	if err != nil {
		return err
	}
	defer leave()
	out := newSessionWriter(w, r)
	withCaller(handler, user, rest).ServeHTTP(out, r)
	p.recordSession(out.Header().Get(sessionHeader), user)
	if r.Method == http.MethodDelete {
		p.closeConnection(r.Header.Get(sessionHeader), user)
	}
	return nil
}

// findDirect returns an agent's call that needs nothing from the SDK, or nil.
func (p *publishedApp) findDirect(header http.Header, body []byte) *mcpdirect.Call {
	direct := mcpdirect.ReadCall(header, statelessVersion, body)
	if direct == nil || offersTasks(direct.Capabilities) || !p.isDirect(direct.Params.Name) {
		return nil
	}
	return direct
}

// callDirectly calls an agent, and sends its result.
func (p *publishedApp) callDirectly(w http.ResponseWriter, r *http.Request, user string, direct *mcpdirect.Call) error {
	req := &mcp.CallToolRequest{Params: direct.Params, Extra: &mcp.RequestExtra{TokenInfo: &auth.TokenInfo{UserID: user}, Header: r.Header}}
	result, err := p.runDirect(func() (*mcp.CallToolResult, error) { return p.runTool(r.Context(), req, direct.Capabilities) })
	return p.sendDirect(w, direct, result, err)
}

// runDirect runs a call whose panic is an error of the protocol.
func (p *publishedApp) runDirect(run func() (*mcp.CallToolResult, error)) (result *mcp.CallToolResult, err error) {
	if caught := safe.Call(func() { result, err = run() }); caught != nil {
		caught.Log(p.h.Logger(), "MCP handler panicked", "app", p.name, "method", "tools/call")
		return nil, errInternal
	}
	return result, err
}

// sendDirect sends a call's result, or an error of the protocol.
func (p *publishedApp) sendDirect(w http.ResponseWriter, direct *mcpdirect.Call, result *mcp.CallToolResult, err error) error {
	var text []byte
	failure, isFailure := errors.AsType[*jsonrpc.Error](err)
	switch {
	case isFailure:
		text, err = direct.EncodeError(failure)
	case err == nil:
		text, err = direct.EncodeResult(result, p.info)
	}
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-cache, no-transform")
	server.WriteRawJSON(protocol.NewFrameWriter(w), http.StatusOK, text)
	return nil
}

// refreshInterval is how long the SDK is not called in a session that is in use. The SDK closes a session
// that it has not been called in for the session timeout.
const refreshInterval = sessionTimeout / 4

// A connection is a client's open session.
type connection struct {
	user string
	// session is the SDK's; nil until a tool is called in it.
	session *mcp.ServerSession
	// called is when the SDK has handled a tool call last.
	called time.Time
	// logs is set once the client has set a log level: the SDK sends the messages in a call's stream.
	logs bool
	// running cancel the direct calls by their request's ID.
	running map[string]context.CancelFunc
	// canceled are the last requests that were canceled and not in progress: a cancel may overtake its call.
	canceled []string
}

// maxEarlyCancels limits connection.canceled.
const maxEarlyCancels = 16

// maxCanceledID limits each ID in connection.canceled, in bytes.
const maxCanceledID = 128

// callInSession calls an agent in a session directly, and reports whether the response is sent. The SDK
// handles any other request, and the rest of a call whose agent has questions, which it sends to the client.
func (p *publishedApp) callInSession(w http.ResponseWriter, r *http.Request, user string, body []byte) (rest *call, sent bool, err error) {
	id := r.Header.Get(sessionHeader)
	if request := mcpdirect.ReadCanceled(body); request != nil {
		p.cancelCall(id, user, string(request))
		return nil, false, nil
	}
	direct := mcpdirect.ReadSessionCall(r.Header, body)
	if direct == nil || p.h.opts.Events != nil || !p.isDirect(direct.Params.Name) {
		return nil, false, nil
	}
	// A client that leaves does not cancel its call in a session.
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	defer cancel()
	session, leave := p.enterCall(id, user, string(direct.ID), cancel)
	if session == nil {
		return nil, false, nil
	}
	defer leave()
	req := &mcp.CallToolRequest{Session: session, Params: direct.Params, Extra: &mcp.RequestExtra{TokenInfo: &auth.TokenInfo{UserID: user}, Header: r.Header}}
	result, err := p.runDirect(func() (result *mcp.CallToolResult, err error) {
		rest, result, err = p.runFirstTurn(ctx, req)
		return result, err
	})
	if rest != nil && err == nil {
		return rest, false, nil
	}
	return nil, true, p.sendDirect(w, direct, result, err)
}

// enterCall registers a direct call in a session that the SDK has open for the user, until leave is called.
// It returns no session if the SDK must handle the call.
func (p *publishedApp) enterCall(id, user, request string, cancel context.CancelFunc) (session *mcp.ServerSession, leave func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.connections[id]
	if c == nil || c.user != user || c.session == nil || c.logs || c.running[request] != nil || p.h.Now().Sub(c.called) > refreshInterval {
		return nil, nil
	}
	c.running[request] = cancel
	if i := slices.Index(c.canceled, request); i >= 0 {
		c.canceled = slices.Delete(c.canceled, i, i+1)
		cancel()
	}
	return c.session, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(c.running, request)
	}
}

// cancelCall cancels a direct call in the user's session that is in progress, or arrives later.
func (p *publishedApp) cancelCall(id, user, request string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.connections[id]
	switch {
	case c == nil || c.user != user:
	case c.running[request] != nil:
		c.running[request]()
	case len(request) <= maxCanceledID:
		c.canceled = append(c.canceled, request)
		c.canceled = c.canceled[max(0, len(c.canceled)-maxEarlyCancels):]
	}
}

// closeConnection cancels the direct calls in a session that the user has closed.
func (p *publishedApp) closeConnection(id, user string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.connections[id]
	if c == nil || c.user != user {
		return
	}
	delete(p.connections, id)
	for _, cancel := range c.running {
		cancel()
	}
}

// streamUserKey is the key for the user that opens a stream.
type streamUserKey struct{}

// observeSessions records the sessions in which tools are called, and those with a log level. A stream's
// subscriptions are the user's that opens it: the SDK subscribes without the stream's token.
func (p *publishedApp) observeSessions(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if method == listenMethod {
			ctx = context.WithValue(ctx, streamUserKey{}, p.callerOf(req))
		}
		if session, ok := req.GetSession().(*mcp.ServerSession); ok && (method == "tools/call" || method == "logging/setLevel") {
			p.mu.Lock()
			if c := p.connections[session.ID()]; c != nil {
				c.session, c.called, c.logs = session, p.h.Now(), c.logs || method == "logging/setLevel"
			}
			p.mu.Unlock()
		}
		return next(ctx, method, req)
	}
}

// restKey is the key in a token's values for a call that has been started.
const restKey = "agenthost.call"

// withCaller wraps an SDK handler so that it takes the caller for the owner of its sessions, and
// hands it to the tools, with the call that has been started, if any.
func withCaller(handler http.Handler, user string, rest *call) http.Handler {
	known := auth.RequireBearerToken(func(context.Context, string, *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: user, Extra: map[string]any{restKey: rest}}, nil
	}, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})(handler)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer verified") // the SDK keeps the headers with the request
		known.ServeHTTP(w, r)
	})
}

// A sessionWriter is a response that hides other callers' sessions.
type sessionWriter struct {
	*protocol.FrameWriter
	// named reports that the request names a session.
	named  bool
	hidden bool
}

func newSessionWriter(w http.ResponseWriter, r *http.Request) *sessionWriter {
	return &sessionWriter{FrameWriter: protocol.NewFrameWriter(w), named: r.Header.Get(sessionHeader) != ""}
}

// WriteHeader sends the status. The SDK rejects a foreign session with 403; a caller does not learn
// that it exists.
func (w *sessionWriter) WriteHeader(status int) {
	if w.hidden = w.named && status == http.StatusForbidden; w.hidden {
		http.Error(w.ResponseWriter, "session not found", http.StatusNotFound)
		return
	}
	w.FrameWriter.WriteHeader(status)
}

// Write sends a frame.
func (w *sessionWriter) Write(b []byte) (n int, err error) {
	if w.hidden {
		return len(b), nil
	}
	return w.FrameWriter.Write(b)
}

// sendChallenge returns an authentication error. With issuers, the response names the metadata that
// leads a client to them.
func (h *handlers) sendChallenge(w http.ResponseWriter, r *http.Request, err error) error {
	issuers := h.Issuers()
	failed := h.LogError(r, err)
	if failed.Status != http.StatusUnauthorized || len(issuers) == 0 {
		return err
	}
	address := h.BaseURL(r) + metadataPath + r.URL.EscapedPath()
	w.Header().Set("WWW-Authenticate", "Bearer resource_metadata="+strconv.Quote(address))
	text, err := server.EncodeJSON(map[string]string{"detail": failed.Detail})
	if err != nil {
		return err
	}
	server.WriteRawJSON(w, failed.Status, text)
	return nil
}

type resourceMetadata struct {
	Resource               string   `json:"resource"`
	AuthorizationServers   []string `json:"authorization_servers"`
	BearerMethodsSupported []string `json:"bearer_methods_supported"`
}

// handleMetadata names the issuers whose tokens the host accepts. It does not depend on whether the
// app exists.
func (h *handlers) handleMetadata(w http.ResponseWriter, r *http.Request) error {
	issuers := h.Issuers()
	if len(issuers) == 0 {
		return errNotFound
	}
	w.Header().Set("Access-Control-Allow-Origin", "*")
	path := strings.TrimPrefix(r.URL.EscapedPath(), metadataPath)
	return server.WriteJSON(w, &resourceMetadata{h.BaseURL(r) + path, issuers, []string{"header"}})
}
