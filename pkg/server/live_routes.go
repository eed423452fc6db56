package server

// liveHandlers handle the routes of live conversations.
type liveHandlers struct {
	*Services
	sockets liveSockets
	tickets ticketStore
	metrics *liveMetrics
}

// extendLive returns the extension of live conversations.
func extendLive(s *Services) *Extension {
	h := &liveHandlers{
		Services: s, metrics: newLiveMetrics(), tickets: ticketStore{clock: s.Now},
		sockets: liveSockets{most: s.opts.MaxLiveSockets, mostPerUser: s.opts.MaxUserLiveSockets},
	}
	return &Extension{Routes: h.liveRoutes(), Metrics: h.metrics.listCollectors(), Observe: h.metrics.observe}
}

// liveRoutes are those of live conversations.
func (s *liveHandlers) liveRoutes() []Route {
	return []Route{
		{Method: "GET", Pattern: "/run_live", Access: AccessHandler, Handler: s.handleRunLive, Doc: Doc{Tag: "runs", ID: "runLive", Summary: "Hold a live conversation on a WebSocket, see docs/live.md; 426 without an upgrade", Params: []string{"liveApp", "liveUser", "liveSession"}, Answer: "Event"}},
		{Method: "POST", Pattern: "/run_live/ticket", Access: AccessUser, Handler: s.handleLiveTicket, Doc: Doc{Tag: "runs", ID: "createLiveTicket", Summary: "Create a ticket that opens one live conversation within a minute", Params: []string{"liveApp", "liveUser", "liveSession"}, Answer: "LiveTicket"}},
	}
}
