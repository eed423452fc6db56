// Package aguiserver serves apps to AG-UI 1.0 clients, such as CopilotKit, at
// /apps/{app}/ag-ui: a run per request, whose events are a stream.
//
// A thread is the caller's session with the same ID. The client sends the whole thread with
// each run; the host finds what is new by the messages' IDs, and runs that only. An interrupt is a
// call that waits for a person, and the next run answers it.
package aguiserver

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"agenthost/pkg/protocol"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
)

// Options configure the wing. The zero value is valid: it serves the apps that have agui_server in
// app.yaml.
type Options struct {
	// All serves every app, with its defaults, and accepts their instructions and tools.
	All bool
	// User is the user on a host without authentication; the default is user, as on the page.
	User string
}

const localUser = "user"

// handlers handle the routes.
type handlers struct {
	*server.Services
	opts Options
}

// Extend returns a server extension; opts may be nil.
func Extend(opts *Options) func(*server.Services) *server.Extension {
	if opts == nil {
		opts = &Options{}
	}
	return func(s *server.Services) *server.Extension {
		h := &handlers{s, *opts}
		if h.opts.User == "" {
			h.opts.User = localUser
		}
		return &server.Extension{DescribeProtocol: h.describeProtocol, Routes: h.listRoutes()}
	}
}

func (h *handlers) listRoutes() []server.Route {
	var all []server.Route
	add := func(method, path, id, summary, body, answer string, handle server.Handler) {
		all = append(all, server.Route{
			Method: method, Pattern: path, Access: server.AccessHandler, Handler: h.inForm(handle),
			Doc: server.Doc{Tag: "ag-ui", ID: id, Summary: summary, Body: body, Answer: answer},
		})
	}
	const run, describe = "Run an AG-UI agent, and stream its events", "Get an AG-UI agent's capabilities"
	add(http.MethodPost, "/apps/{app}/ag-ui", "runAGUI", run, "AnyObject", "text/event-stream:AnyObject", h.handleRun)
	add(http.MethodGet, "/apps/{app}/ag-ui/capabilities", "getAGUICapabilities", describe, "", "AnyObject", h.handleCapabilities)
	add(http.MethodPost, "/apps/{app}/ag-ui/agents/{agent}", "runAGUIAgent", run, "AnyObject", "text/event-stream:AnyObject", h.handleRun)
	add(http.MethodGet, "/apps/{app}/ag-ui/agents/{agent}/capabilities", "getAGUIAgentCapabilities", describe, "", "AnyObject", h.handleCapabilities)
	return all
}

// An endpoint is an app, or one of its agents, for a caller.
type endpoint struct {
	app      *runtime.App
	settings *Settings
	// agent is the one that the route names; empty for the one that continues the session.
	agent string
	user  string
}

// openEndpoint returns a request's endpoint. An app or agent that is not offered is not found, as
// one that does not exist.
func (h *handlers) openEndpoint(r *http.Request) (*endpoint, error) {
	if _, err := h.Authenticate(r); err != nil {
		return nil, err // before it learns which apps exist
	}
	name, agent := r.PathValue("app"), r.PathValue("agent")
	e := &endpoint{app: h.Host().App(name), agent: agent}
	if e.app != nil {
		e.settings = h.readSettings(e.app)
	}
	if e.settings == nil || agent != "" && !slices.Contains(e.settings.Agents, agent) {
		return nil, &requestError{status: http.StatusNotFound, code: "NOT_FOUND", text: "AG-UI agent not found"}
	}
	user, err := protocol.ResolveCaller(h.Services, r, name, h.opts.User)
	e.user = user
	return e, err
}

// A requestError is an error that the client has caused.
type requestError struct {
	status     int
	code, text string
}

// Error returns the message for the client.
func (e *requestError) Error() string { return e.text }

func newRefusal(format string, args ...any) error {
	return &requestError{http.StatusBadRequest, runtime.CodeInvalidRequest, fmt.Sprintf(format, args...)}
}

// newInterruptError returns an error about answers to interrupts, which is an event in the protocol, and
// not a status.
func newInterruptError(format string, args ...any) error {
	return &requestError{http.StatusOK, runtime.CodeInvalidRequest, fmt.Sprintf(format, args...)}
}

// inForm writes a handler's error as a run's error.
func (h *handlers) inForm(handle server.Handler) server.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		err := handle(w, r)
		if err == nil || r.Context().Err() != nil {
			return err
		}
		failed := h.describeError(r, err)
		ev := &event{Type: runError, Message: failed.Detail, Code: failed.Code}
		if failed.Status == http.StatusOK {
			return h.NewStream(w).SendJSON(ev)
		}
		text, encodeErr := server.EncodeJSON(ev)
		if encodeErr != nil {
			return encodeErr
		}
		if failed.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(failed.RetryAfter.Seconds())))
		}
		if failed.Status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		server.WriteRawJSON(w, failed.Status, text)
		return nil
	}
}

// describeError returns an error for the client. An internal error's cause is in the log only.
func (h *handlers) describeError(r *http.Request, err error) *server.Error {
	if own := (*requestError)(nil); errors.As(err, &own) {
		return &server.Error{Status: own.status, Code: own.code, Detail: own.text}
	}
	if wrong := (*protocol.FieldError)(nil); errors.As(err, &wrong) {
		return &server.Error{Status: http.StatusBadRequest, Code: runtime.CodeInvalidRequest, Detail: wrong.Message}
	}
	failed := h.LogError(r, err)
	if failed.Detail == "" { // the body has several errors
		failed.Detail = err.Error()
	}
	if failed.Status == http.StatusUnprocessableEntity {
		failed.Status = http.StatusBadRequest
	}
	return failed
}

// maxShown limits what an error repeats from a request, in characters.
const maxShown = 100
