package server_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/pkg/store/memstore"
)

// chatRoutes adds a protocol of its own: POST /chat/{app} takes {"user", "text"}, and answers
// with the text of the agent. The server authenticates the caller, limits the body, waits for
// the turn on shutdown, and describes the route in its OpenAPI document.
func chatRoutes(s *server.Services) *server.Extension {
	chat := func(w http.ResponseWriter, r *http.Request) error {
		var message struct{ User, Text string }
		if err := s.ReadJSON(w, r, &message); err != nil {
			return err
		}
		if message.Text == "" {
			return server.NewError(http.StatusBadRequest, "text is required")
		}
		app := r.PathValue("app")
		user, err := s.ResolveUser(r, app, message.User)
		if err != nil {
			return err
		}
		if err := s.ReserveRun(app, user); err != nil {
			return err
		}
		end, err := s.TrackRun()
		if err != nil {
			return err
		}
		defer end()
		var reply strings.Builder
		for ev, err := range s.Host().Run(r.Context(), &runtime.RunRequest{
			App: app, UserID: user, SessionID: "chat-" + user, CreateSession: true, Message: genai.NewContentFromText(message.Text, genai.RoleUser),
		}) {
			if err != nil {
				return server.WrapRunError(session.Key{App: app, User: user}, err)
			}
			for _, part := range ev.Content.Parts {
				reply.WriteString(part.Text)
			}
		}
		return server.WriteJSON(w, map[string]string{"text": reply.String()})
	}
	return &server.Extension{Routes: []server.Route{{
		Method: "POST", Pattern: "/chat/{app}", Access: server.AccessUser, Limits: server.Limits{Body: 16 << 10}, Handler: chat,
		Doc: server.Doc{Tag: "chat", ID: "chat", Summary: "Send a message and get the answer", Body: "AnyObject", Answer: "AnyObject"},
	}}}
}

func ExampleRoute() {
	sessions := memstore.New(nil)
	defer sessions.Close()
	host := runtime.NewHost(sessions, nil)
	defer host.Close()
	greet := func(_ context.Context, emit emitFunc) error { emit("Hello!"); return nil }
	app, err := runtime.NewApp("hello", &funcAgent{runtime.Base{AgentName: "hello"}, greet}, nil)
	if err != nil {
		panic(err)
	}
	host.Swap(app)
	api := httptest.NewServer(server.New(host, &server.Options{Extensions: []func(*server.Services) *server.Extension{chatRoutes}}))
	defer api.Close()
	for _, body := range []string{`{"user":"ada"}`, `{"user":"ada","text":"Hi"}`} {
		resp, err := http.Post(api.URL+"/chat/hello", "application/json", strings.NewReader(body))
		if err != nil {
			panic(err)
		}
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		fmt.Println(resp.StatusCode, string(text))
	}
	// Output:
	// 400 {"detail":"text is required"}
	// 200 {"text":"Hello!"}
}
