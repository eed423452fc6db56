package server

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"agenthost/pkg/runtime"
)

// A Handler handles a request. An error that it returns becomes the response: an [*Error] as
// it is, store and runtime errors with the statuses that the server's own routes use, and any
// other as 500 with its cause in the log.
type Handler func(w http.ResponseWriter, r *http.Request) error

// A Route is a route on a server. The server authorizes, limits, counts and logs its requests,
// recovers its panics, writes its errors, and describes it in its OpenAPI document. [New] panics,
// as [http.ServeMux] does, if a route lacks a required field or conflicts with another one.
type Route struct {
	// Method is an HTTP method, and required.
	Method string
	// Pattern is a path in the syntax of [http.ServeMux], and required. A path that starts with … is a
	// developer route: it is served below /dev/apps/{app}, as in ADK 2, and below
	// /apps/{app}, as in ADK 1 and its Go and Java servers.
	Pattern string
	// Access is who may use the route.
	Access Access
	// Limits bound its requests.
	Limits Limits
	// Disabled routes are documented but not served.
	Disabled bool
	// Handler is required.
	Handler Handler
	// Doc describes the route in the OpenAPI document.
	Doc Doc
}

// An Access is who may use a route. Without Options.Auth every caller may use every route.
type Access int

const (
	// AccessPath allows the user {user} in the path, and for {app} only an app that the
	// caller may use. Without {user} in the path it allows administrators only, so that a new
	// route is not exposed by mistake. Administrators may use every route.
	AccessPath Access = iota
	// AccessUser allows every authenticated caller. The handler checks the request's user
	// with [Services.ResolveUser].
	AccessUser
	// AccessMetrics allows the callers that may read metrics.
	AccessMetrics
	// AccessHandler leaves authentication to the handler.
	AccessHandler
	// AccessPublic allows everyone: the response has no app or user data.
	AccessPublic
	// AccessProbe is AccessPublic for any Host header: health checks use addresses that are
	// not known in advance, such as a pod's IP.
	AccessProbe
)

// Limits bound a route's requests.
type Limits struct {
	// Body limits the request body in bytes; the default is Options.MaxBody.
	Body int64
	// ShareTimeout gives a request's store calls one timeout together. Without it each call
	// has its own, because runs and imports may be long.
	ShareTimeout bool
}

// A Doc describes a route in the OpenAPI document.
type Doc struct {
	// Tag is the group of the route: one of sessions, runs, artifacts, apps, server,
	// developer, or one of its own; the default is server.
	Tag string
	// ID is required and unique: client generators name functions after it.
	ID, Summary string
	// Params names query parameters and headers in the components.
	Params []string
	// Body and Answer are the schemas of the request and the response: AnyObject, or one of the
	// components of the server or the extension. [X] is a list of X,
	// MEDIA/TYPE is text, and MEDIA/TYPE:X is text that contains X. An empty answer is null,
	// 307 a redirect, and 501 a route that always responds with this status.
	Body, Answer string
	// AltStatus is another status with the same response.
	AltStatus string
}

// An Extension adds routes to a server, and what they bring along.
type Extension struct {
	Routes []Route
	// Components are the parameters and schemas that the routes' docs name, in YAML: an
	// object with OpenAPI's keys parameters and schemas.
	Components []byte
	// ListApps returns the app names that /list-apps lists next to the host's, such as drafts;
	// nil for none.
	ListApps func() []string
	// DevUI reports that the routes serve ADK's web client at /dev-ui/: the page links to it.
	DevUI bool
	// DescribeProtocol returns how clients reach an app on the server with a base URL; nil for none. It is
	// called concurrently.
	DescribeProtocol func(base string, app *runtime.App) Protocol
	// Sessions are sessions outside the store; nil for none.
	Sessions ForeignSessions
	// RunTalk runs live conversations for [Services.RunTalk]; nil for none. It is called
	// concurrently.
	RunTalk func(http.ResponseWriter, *http.Request, *Talk) error
	// Metrics are served at GET /metrics if the server has Options.Metrics.
	Metrics []prometheus.Collector
	// Observe receives each Options.Metrics measurement, from the server's start; nil for
	// none. It is called concurrently.
	Observe func(runtime.Measurement)
}

// ForeignSessions are sessions that the store does not have. Lists omit them, and
// administrators can read them. Implementations are safe for concurrent use.
type ForeignSessions interface {
	// Owns reports whether a session with the ID belongs to them.
	Owns(id string) bool
	// Read returns a session in JSON. The error is [session.ErrNotFound] if it does not exist.
	Read(r *http.Request) ([]byte, error)
}

const developerMark = "…"

// listPatterns returns the route's patterns in [http.ServeMux] syntax.
func (rt *Route) listPatterns() []string {
	tail, isDeveloper := strings.CutPrefix(rt.Pattern, developerMark)
	if !isDeveloper {
		return []string{rt.Method + " " + rt.Pattern}
	}
	var all []string
	for _, prefix := range []string{"/dev/apps/{app}", "/apps/{app}"} {
		all = append(all, rt.Method+" "+prefix+tail)
	}
	return all
}

// mustBeComplete panics if an extension's route lacks something. It adds the route's ID to the
// known ones, with the pattern that has it.
func (rt *Route) mustBeComplete(ids map[string]string) {
	problem := ""
	name := strings.TrimSpace(rt.Method + " " + rt.Pattern)
	switch {
	case rt.Method == "":
		problem = "Method is required"
	case !strings.HasPrefix(rt.Pattern, "/") && !strings.HasPrefix(rt.Pattern, developerMark):
		problem = "Pattern must start with /"
	case rt.Handler == nil && !rt.Disabled:
		problem = "Handler is required"
	case rt.Doc.ID == "":
		problem = "Doc.ID is required: generated clients name a function after it"
	case ids[rt.Doc.ID] != "":
		problem = "Doc.ID " + rt.Doc.ID + " is that of " + ids[rt.Doc.ID]
	}
	if problem != "" {
		panic(fmt.Sprintf("server: route %q: %s", name, problem))
	}
	ids[rt.Doc.ID] = name
}

// A mountedRoute is a route with what a request needs from its pattern.
type mountedRoute struct {
	*Route
	// hasUser and hasApp report whether the path has {user} and {app}.
	hasUser, hasApp bool
}

func (a Access) isPublic() bool { return a == AccessPublic || a == AccessProbe }
