// Package liveweb serves live conversations over HTTP: a WebSocket at /run_live, as in ADK, and
// tickets for browsers, which cannot authenticate a WebSocket handshake by a header.
package liveweb

import (
	"cmp"
	_ "embed"

	"agenthost/pkg/server"
)

// Options configure the routes. The zero value is valid.
type Options struct {
	// MaxSockets limits the open live conversations, and MaxUserSockets those per user; the
	// defaults are 10000 and 20.
	MaxSockets, MaxUserSockets int
}

// components are the routes' parameters and schemas.
//
//go:embed components.yaml
var components []byte

// handlers handle the routes.
type handlers struct {
	*server.Services
	sockets liveSockets
	tickets ticketStore
	metrics *liveMetrics
}

// Extend returns a server extension; opts may be nil.
func Extend(opts *Options) func(*server.Services) *server.Extension {
	if opts == nil {
		opts = &Options{}
	}
	most, mostPerUser := cmp.Or(opts.MaxSockets, 10_000), cmp.Or(opts.MaxUserSockets, 20)
	return func(s *server.Services) *server.Extension {
		h := &handlers{
			Services: s, metrics: newLiveMetrics(), tickets: ticketStore{clock: s.Now},
			sockets: liveSockets{most: most, mostPerUser: mostPerUser},
		}
		return &server.Extension{Routes: h.liveRoutes(), Components: components, RunTalk: h.runTalk, Metrics: h.metrics.listCollectors(), Observe: h.metrics.countDropped}
	}
}

// liveRoutes are the routes for live conversations.
func (s *handlers) liveRoutes() []server.Route {
	return []server.Route{
		{Method: "GET", Pattern: "/run_live", Access: server.AccessHandler, Handler: s.handleRunLive, Doc: server.Doc{Tag: "runs", ID: "runLive", Summary: "Hold a live conversation on a WebSocket, see docs/live.md; 426 without an upgrade", Params: []string{"liveApp", "liveUser", "liveSession"}, Answer: "Event"}},
		{Method: "POST", Pattern: "/run_live/ticket", Access: server.AccessUser, Handler: s.handleLiveTicket, Doc: server.Doc{Tag: "runs", ID: "createLiveTicket", Summary: "Create a ticket that opens one live conversation within a minute", Params: []string{"liveApp", "liveUser", "liveSession"}, Answer: "LiveTicket"}},
	}
}
