package main

import (
	"net/http"
	"strings"

	"agenthost"
)

// chatRoutes adds our own protocol: POST /chat/{app} takes {"user", "text"} and answers with the
// agent's text. The server authenticates the caller, limits the body, and describes the route in
// its OpenAPI document.
func chatRoutes(s *agenthost.Services) *agenthost.Extension {
	chat := func(w http.ResponseWriter, r *http.Request) error {
		var message struct{ User, Text string }
		if err := s.ReadJSON(w, r, &message); err != nil {
			return err
		}
		if message.Text == "" {
			return agenthost.NewError(http.StatusBadRequest, "text is required")
		}
		app := r.PathValue("app")
		user, err := s.ResolveUser(r, app, message.User)
		if err != nil {
			return err
		}
		if err := s.ReserveRun(app, user); err != nil { // the rate limits
			return err
		}
		end, err := s.TrackRun() // a shutdown waits for it
		if err != nil {
			return err
		}
		defer end()
		var reply strings.Builder
		for ev, err := range s.Host().Run(r.Context(), &agenthost.RunRequest{
			App: app, UserID: user, SessionID: "chat-" + user, CreateSession: true, Message: agenthost.UserText(message.Text),
		}) {
			if err != nil {
				return err
			}
			reply.WriteString(ev.Text())
		}
		return agenthost.WriteJSON(w, map[string]string{"text": reply.String()})
	}
	return &agenthost.Extension{Routes: []agenthost.Route{{
		Method: "POST", Pattern: "/chat/{app}", Access: agenthost.AccessUser, Limits: agenthost.RouteLimits{Body: 16 << 10}, Handler: chat,
		Doc: agenthost.RouteDoc{Tag: "chat", ID: "chat", Summary: "Send a message and get the answer", Body: "AnyObject", Answer: "AnyObject"},
	}}}
}
