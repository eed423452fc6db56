// Package a2aserver serves apps to agents and clients of the Agent2Agent protocol, 1.0 and 0.3, over
// JSON-RPC and REST, below /a2a/{app}, and over gRPC.
//
// A context is a session, and a task is the turn that a message began: it follows from the session's
// events, so that every replica finds it. A run does not end with its request; clients that come back,
// here or on another replica, follow it.
package a2aserver

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"agenthost/internal/a2acard"
	"agenthost/internal/a2apart"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"agenthost/internal/safe"
	"agenthost/pkg/protocol"
	"agenthost/pkg/protocol/task"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/wing/a2aserver/a2adirect"
	"agenthost/wing/a2aserver/a2apush"
	"agenthost/wing/a2aserver/a2arpc"
)

// Options configure the wing. The zero value is valid: it serves the apps that have a2a_server in
// app.yaml.
type Options struct {
	// All serves every app, with its defaults.
	All bool
	// User is the user on a host without authentication; the default is user, as on the page.
	User string
	// Keys encrypt the push notification configurations. Without keys there are no push notifications.
	Keys a2apush.Sealer
	// Wait waits between two attempts to send a notification, until a time has passed or ctx ends; nil waits
	// with a timer.
	Wait func(ctx context.Context, d time.Duration) error
	// Cards signs the public agent cards; nil signs none.
	Cards *a2acard.Signer
	// GRPC serves gRPC, too. The HTTP server must accept HTTP/2, without TLS if it has none.
	GRPC bool
}

const localUser = "user"

// protocolName is the protocol in the runs' outcomes.
const protocolName = "a2a"

// handlers handle the routes.
type handlers struct {
	*server.Services
	opts  Options
	tasks *task.Tasks
	// configs is nil on a host that has no keys.
	configs *a2apush.Configs
	sender  *a2apush.Sender
	// loads is acquired by each saved file that is read.
	loads chan struct{}
	// warned has the apps whose push_hosts have no effect.
	warned sync.Map
	// The protocol's transports, by version.
	rpc, oldRPC, rest, oldREST http.Handler
	grpc                       *a2arpc.Service

	mu sync.Mutex
	// feeds are the runs here that clients may follow.
	feeds map[task.ID]*feed
}

// Extend returns a server extension; opts may be nil.
func Extend(opts *Options) func(*server.Services) *server.Extension {
	if opts == nil {
		opts = &Options{}
	}
	return func(s *server.Services) *server.Extension {
		h := &handlers{Services: s, opts: *opts, tasks: task.New(s), feeds: map[task.ID]*feed{}, loads: make(chan struct{}, maxLoads)}
		if h.opts.User == "" {
			h.opts.User = localUser
		}
		if h.opts.Keys != nil && s.Host().Store().Grants != nil {
			h.configs, h.sender = a2apush.NewConfigs(s.Host().Store().Grants, h.opts.Keys, s.Now), a2apush.NewSender(s.Logger(), h.opts.Wait)
		}
		h.buildTransports()
		return &server.Extension{DescribeProtocol: h.describeProtocol, Routes: h.listRoutes(), Observe: h.observeRun}
	}
}

const keepAlive = 15 * time.Second

func (h *handlers) buildTransports() {
	options := []a2asrv.TransportOption{a2asrv.WithTransportKeepAlive(keepAlive), a2asrv.WithTransportPanicHandler(func(value any) error {
		h.Logger().Error("handling an A2A request panicked", "panic", value)
		return a2a.ErrInternalError
	})}
	h.rpc, h.rest = a2asrv.NewJSONRPCHandler(h, options...), a2asrv.NewRESTHandler(h, options...)
	h.oldRPC, h.oldREST = a2av0.NewJSONRPCHandler(h, options...), a2av0.NewRESTHandler(h, options...)
	h.grpc = a2arpc.New(h.Services, h, h.openRPC)
}

func (h *handlers) listRoutes() []server.Route {
	const path, below = "/a2a/{app}", "/a2a/{app}/{path...}"
	add := func(method, pattern, id, summary string) server.Route {
		return server.Route{
			Method: method, Pattern: pattern, Access: server.AccessHandler, Handler: h.handleA2A,
			Doc: server.Doc{Tag: "a2a", ID: id, Summary: summary, Body: map[string]string{http.MethodPost: "AnyObject"}[method], Answer: "AnyObject"},
		}
	}
	return []server.Route{
		add(http.MethodPost, path, "callA2A", "Call the app as an A2A agent, over JSON-RPC"),
		add(http.MethodPost, below, "postA2A", "Send to the app as an A2A agent, over REST"),
		add(http.MethodGet, below, "getA2A", "Read the app's card, or its tasks, as an A2A agent"),
		add(http.MethodDelete, below, "deleteA2A", "Delete from the app as an A2A agent"),
		{
			Method: http.MethodPost, Pattern: a2arpc.Path + "{method}", Access: server.AccessHandler, Handler: h.grpc.Handle, Disabled: !h.opts.GRPC,
			Doc: server.Doc{Tag: "a2a", ID: "callA2AGRPC", Summary: "Call an app as an A2A agent, over gRPC", Body: a2arpc.Content, Answer: a2arpc.Content},
		},
	}
}

// Paths below an agent's address.
const (
	cardPath   = ".well-known/agent-card.json"
	agentsPath = "agents/"
)

// handleA2A handles all requests: it finds the agent, authenticates the caller, and answers usual calls. The
// others are for the transport of their version.
func (h *handlers) handleA2A(w http.ResponseWriter, r *http.Request) error {
	d, err := h.findAgent(r, r.PathValue("app"), r.PathValue("path"))
	if err != nil {
		return err
	}
	if d.path == cardPath {
		return d.sendCard(w)
	}
	if d.user, err = protocol.ResolveCaller(h.Services, r, d.app.Name(), h.opts.User); err != nil {
		return err
	}
	if d.isADK {
		w.Header().Set(a2a.SvcParamExtensions, a2apart.ADKExtension)
	}
	var body []byte
	if r.Method == http.MethodPost && !strings.HasSuffix(d.path, ":cancel") && !strings.HasSuffix(d.path, ":subscribe") {
		if body, err = h.ReadText(w, r); err != nil {
			return err
		}
	}
	if version := d.readVersion(r); d.path == "" && (version == "" || version == "1.0") {
		if c := a2adirect.ReadCall(body); c != nil {
			return d.answerCall(w, r, c, body)
		}
	}
	if err := server.DecodeJSON(body, new(json.RawMessage)); err != nil {
		return err
	}
	return d.serveTransport(protocol.NewFrameWriter(w), r, body)
}

// serveTransport passes a request to the transport of its version.
func (d *door) serveTransport(w http.ResponseWriter, r *http.Request, body []byte) error {
	transport := d.chooseTransport(r, body)
	own := r.Clone(context.WithValue(r.Context(), doorKey{}, d))
	own.Body, own.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	own.URL = &url.URL{Path: "/" + d.path, RawQuery: r.URL.RawQuery}
	own.Header.Del("Authorization") // the transport keeps the headers with the request
	if caught := safe.Call(func() { transport.ServeHTTP(w, own) }); caught != nil {
		return caught
	}
	return nil
}

// openRPC finds the agent that gRPC's tenant names, APP or APP/agents/AGENT.
func (h *handlers) openRPC(w http.ResponseWriter, r *http.Request, tenant string) (context.Context, error) {
	app, path, _ := strings.Cut(tenant, "/")
	r.SetPathValue("app", app) // for the log
	d, err := h.findAgent(r, app, path)
	if err != nil {
		return nil, err
	}
	if d.path != "" {
		return nil, errNotFound
	}
	d.isRPC = true
	if d.user, err = protocol.ResolveCaller(h.Services, r, app, h.opts.User); err != nil {
		return nil, err
	}
	if version := r.Header.Get(versionHeader); version != "" && version != "1.0" && !strings.HasPrefix(version, "1.0.") {
		d.rejected = a2a.NewError(a2a.ErrVersionNotSupported, "A2A-Version must be 1.0 over gRPC")
	}
	if d.isADK {
		w.Header().Set(a2a.SvcParamExtensions, a2apart.ADKExtension)
	}
	return context.WithValue(r.Context(), doorKey{}, d), nil
}

// A door is an agent as a caller has reached it.
type door struct {
	h        *handlers
	r        *http.Request
	app      *runtime.App
	settings *Settings
	// agent is empty for the root.
	agent string
	// path is what follows the agent's address.
	path  string
	user  string
	saved savedFiles
	// isADK is set if the client requests ADK's extension, for whom answers have all that a remote agent of
	// ADK reads.
	isADK bool
	// isOld reports that the client speaks 0.3, and isRPC that it speaks gRPC.
	isOld, isRPC bool
	// rejected is the error for each call, or nil.
	rejected error
}

type doorKey struct{}

func doorOf(ctx context.Context) *door {
	d, _ := ctx.Value(doorKey{}).(*door)
	return d
}

var errNotFound = server.NewError(http.StatusNotFound, "Not Found")

// findAgent returns the agent that an app and a path name. An app that is not offered is not found, as one
// that does not exist.
func (h *handlers) findAgent(r *http.Request, app, path string) (*door, error) {
	d := &door{h: h, r: r, saved: savedFiles{h: h, base: h.BaseURL(r)}, app: h.Host().App(app), path: path}
	if d.app == nil {
		return nil, errNotFound
	}
	if d.settings = h.readSettings(d.app); d.settings == nil {
		return nil, errNotFound
	}
	if rest, ok := strings.CutPrefix(d.path, agentsPath); ok {
		if d.agent, d.path, _ = strings.Cut(rest, "/"); !slices.Contains(d.settings.Agents, d.agent) {
			return nil, errNotFound
		}
	}
	for _, header := range extensionHeaders {
		for _, line := range r.Header[header] {
			d.isADK = d.isADK || slices.Contains(strings.FieldsFunc(line, func(c rune) bool { return c == ',' || c == ' ' }), a2apart.ADKExtension)
		}
	}
	return d, nil
}

// readSettings returns what an app offers; nil for nothing.
func (h *handlers) readSettings(app *runtime.App) *Settings {
	settings, _ := app.Section(sectionKey).(*Settings)
	if settings == nil && h.opts.All {
		return &Settings{version: "1.0.0"}
	}
	return settings
}

func addressOf(base, app string) string { return base + "/a2a/" + url.PathEscape(app) }

// buildAddress returns the agent's URL.
func (d *door) buildAddress() string {
	address := addressOf(d.h.BaseURL(d.r), d.app.Name())
	if d.agent != "" {
		address += "/" + agentsPath + url.PathEscape(d.agent)
	}
	return address
}

// versionHeader has the version, as MAJOR.MINOR; a request may have it in its query instead.
const versionHeader = "A2A-Version"

// The headers' names as requests have them.
var (
	versionKey       = http.CanonicalHeaderKey(versionHeader)
	extensionHeaders = []string{http.CanonicalHeaderKey(a2a.SvcParamExtensions), http.CanonicalHeaderKey("X-" + a2a.SvcParamExtensions)}
)

// readVersion returns the version in a request, or an empty string.
func (d *door) readVersion(r *http.Request) string {
	if version := r.Header.Get(versionKey); version != "" || r.URL.RawQuery == "" {
		return version
	}
	return r.URL.Query().Get(versionHeader)
}

// oldPrefix begins the paths of 0.3's REST.
const oldPrefix = "v1/"

// chooseTransport returns the transport for a request. Without a version the form decides: the names of
// methods, and the paths, differ between 0.3 and 1.0.
func (d *door) chooseTransport(r *http.Request, body []byte) http.Handler {
	version := d.readVersion(r)
	isRPC := d.path == ""
	isOld := strings.HasPrefix(d.path, oldPrefix)
	if isRPC {
		var call struct {
			Method string `json:"method"`
		}
		_ = json.Unmarshal(body, &call) // the transport reports it
		isOld = strings.Contains(call.Method, "/")
	}
	switch {
	case version == "":
	case version == "0.3" || strings.HasPrefix(version, "0.3."):
		isOld = true
	case version == "1.0" || strings.HasPrefix(version, "1.0."):
		isOld = false
	default:
		d.rejected = a2a.NewError(a2a.ErrVersionNotSupported, "A2A-Version must be 1.0 or 0.3")
	}
	d.isOld = isOld
	switch {
	case isRPC && isOld:
		return d.h.oldRPC
	case isRPC:
		return d.h.rpc
	case isOld:
		return d.h.oldREST
	}
	return d.h.rest
}
