package a2aagent

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/genai"

	"agenthost/internal/agentconfig"
	"agenthost/pkg/connection"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/store/memstore"
	"agenthost/pkg/tool"
)

// A userSource has a credential for a user after the consent.
type userSource struct{ isAuthorized atomic.Bool }

func (s *userSource) Credential(context.Context, connection.User) (*connection.Credential, error) {
	if s.isAuthorized.Load() {
		return &connection.Credential{In: connection.InHeader, Name: "Authorization", Value: "Bearer ana", Secrets: []string{"ana"}}, nil
	}
	return nil, connection.NewConsentError(func(context.Context, string, string) (map[string]any, error) {
		return map[string]any{"credentialKey": "connection:crm", "exchangedAuthCredential": map[string]any{"oauth2": map[string]any{"authUri": "https://login.example.com"}}}, nil
	})
}

func (s *userSource) Evict(connection.User, *connection.Credential) bool { return false }
func (s *userSource) PerUser() bool                                      { return true }

// FinishConsent implements [runtime.ConsentFinisher].
func (s *userSource) FinishConsent(context.Context, connection.Answer) error {
	s.isAuthorized.Store(true)
	return nil
}

// A user authorizes the connection when it is first needed, and the message that waited is then sent
// with the user's credential.
func TestConsent(t *testing.T) {
	var sent []string
	s := httptest.NewServer(nil)
	t.Cleanup(s.Close)
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent = append(sent, r.URL.Path+" "+r.Header.Get("Authorization"))
		if r.URL.Path == "/card.json" {
			_, _ = w.Write([]byte(`{"name":"x","supportedInterfaces":[{"url":"` + s.URL + `/rpc","protocolBinding":"JSONRPC","protocolVersion":"1.0"}]}`))
			return
		}
		var call struct{ ID json.RawMessage }
		_ = json.NewDecoder(r.Body).Decode(&call)
		_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":` + string(call.ID) + `,"result":{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"Hello, Ana."}]}}}`))
	})
	source, st := &userSource{}, memstore.New(nil)
	host := runtime.NewHost(st, &runtime.Options{Consents: source})
	t.Cleanup(host.Close)
	set, err := newRemote(t.Context(), tool.Env{
		HTTP: s.Client(), Logger: slog.New(slog.DiscardHandler), Connection: connection.New("crm", source, []string{connection.HostOf(s.URL)}),
	}, &serverYAML{Card: spec.Text{Value: s.URL + "/card.json"}})
	if err != nil {
		t.Fatal(err)
	}
	c := &agentYAML{}
	c.Common.Name.Value = "front"
	agent, err := newAgent(t.Context(), agentconfig.AgentEnv{Server: set, WrapModel: func(m model.LLM) model.LLM { return m }}, c)
	if err != nil {
		t.Fatal(err)
	}
	app, err := runtime.NewApp("front", agent, nil)
	if err != nil {
		t.Fatal(err)
	}
	host.Swap(app)
	key := session.Key{App: "front", User: "ana", ID: "s"}
	if _, err := st.Sessions.Create(t.Context(), key, nil); err != nil {
		t.Fatal(err)
	}
	send := func(c *genai.Content) *genai.Content {
		var last *genai.Content
		for ev, err := range host.Run(t.Context(), &runtime.RunRequest{App: "front", UserID: key.User, SessionID: key.ID, Message: c}) {
			if err != nil || ev.ErrorCode != "" {
				t.Fatal(errors.Join(err, errors.New(ev.ErrorMessage)))
			}
			if ev.Content != nil {
				last = ev.Content
			}
		}
		return last
	}
	send(model.UserText("hi"))
	sess, err := st.Sessions.Get(t.Context(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	pending := runtime.Pending(sess.Events())
	if len(pending) != 1 || pending[0].Calls[0].Name != runtime.RequestCredential || len(sent) != 0 {
		t.Fatalf("%d events wait, %q was sent", len(pending), sent)
	}
	request := pending[0].Calls[0]
	answer := &genai.FunctionResponse{ID: request.ID, Name: request.Name, Response: map[string]any{
		"exchangedAuthCredential": map[string]any{"oauth2": map[string]any{"authResponseUri": "https://host.example.com/callback?code=c&state=s"}},
	}}
	got := send(&genai.Content{Role: genai.RoleUser, Parts: []*genai.Part{{FunctionResponse: answer}}})
	if model.TextOf(got) != "Hello, Ana." || strings.Join(sent, ", ") != "/card.json Bearer ana, /rpc Bearer ana" {
		t.Errorf("answer %q after %q", model.TextOf(got), sent)
	}
}
