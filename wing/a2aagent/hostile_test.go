package a2aagent_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"agenthost/pkg/model"
)

// serveRaw serves a card and answers each request with write, which gets the request's id.
func serveRaw(t *testing.T, card func(url string) string, answer func(w http.ResponseWriter, id string)) *httptest.Server {
	var s *httptest.Server
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/card.json" {
			_, _ = fmt.Fprint(w, card(s.URL))
			return
		}
		var call struct{ ID json.RawMessage }
		_ = json.NewDecoder(r.Body).Decode(&call)
		answer(w, string(call.ID))
	}))
	t.Cleanup(s.Close)
	return s
}

func plainCard(url string) string {
	return `{"name":"x","description":"x","version":"1","capabilities":{"streaming":true},"defaultInputModes":[],"defaultOutputModes":[],"skills":[],` +
		`"supportedInterfaces":[{"url":"` + url + `/rpc","protocolBinding":"JSONRPC","protocolVersion":"1.0"}]}`
}

func noAnswer(w http.ResponseWriter, _ string) { w.WriteHeader(http.StatusTeapot) }

// Whatever a server sends, the turn ends with an error that names the rule, within bounds.
func TestHostileServer(t *testing.T) {
	stream := func(events ...string) func(http.ResponseWriter, string) {
		return func(w http.ResponseWriter, id string) {
			w.Header().Set("Content-Type", "text/event-stream")
			for _, ev := range events {
				_, _ = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", id, ev)
			}
		}
	}
	task := func(id string) string {
		return `{"task":{"id":"` + id + `","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}`
	}
	artifact := func(parts string) string {
		return `{"artifactUpdate":{"taskId":"t","contextId":"c","append":true,"artifact":{"artifactId":"a","parts":[` + parts + `]}}}`
	}
	long := `{"text":"` + strings.Repeat("x", 5<<20) + `"}`
	file := `{"raw":"YQ==","mediaType":"a/b"}`
	for _, tt := range []struct {
		name   string
		card   func(url string) string
		answer func(http.ResponseWriter, string)
		want   string
	}{
		{"no card", func(string) string { return "<html>" }, noAnswer, "cannot read the agent card: it is not an agent card"},
		{"a card without an interface", func(string) string { return `{"name":"x"}` }, noAnswer, "the agent card has no interface over JSON-RPC or REST: "},
		{"a card without encryption", func(string) string { return plainCard("http://example.com") }, noAnswer, `cannot read the agent card: its address "http://example.com/rpc" does not begin with https://`},
		{"a huge card", func(string) string { return `{"name":"` + strings.Repeat("x", 2<<20) + `"}` }, noAnswer, "agent card exceeds the limit of 1 MiB"},
		{"another status", plainCard, noAnswer, ""},
		{"another task", plainCard, stream(task("t"), task("u")), "the server sent an event of another task"},
		{"a long ID", plainCard, stream(task(strings.Repeat("x", 513))), "the server sent an ID with more than 512 bytes"},
		{"many parts", plainCard, stream(task("t"), artifact(file+strings.Repeat(","+file, 1000))), "the answer has more than 1000 parts"},
		{"many values", plainCard, stream(task("t"), artifact(`{"data":[0`+strings.Repeat(",0", 300_000)+`]}`)), "response of a remote agent exceeds the limit of 250000 values"},
		{"many bytes", plainCard, stream(task("t"), artifact(long), artifact(long), artifact(long), artifact(long)), "response of a remote agent exceeds the limit of 16 MiB"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serveRaw(t, tt.card, tt.answer)
			e := newEnv(t, s.URL+"/card.json", "")
			got := e.send(t.Context(), model.UserText("hi"), false)
			want := "error model a2a/" + strings.TrimPrefix(s.URL, "http://") + " failed: " + tt.want
			if !strings.HasPrefix(got, want) || len(got) > 1000 {
				t.Errorf("got %.300s\nwant %s", got, want)
			}
		})
	}
}

// The credential goes to the card's host and to no other, and no error or answer shows it.
func TestCredential(t *testing.T) {
	var mu sync.Mutex
	seen := map[string][]string{}
	record := func(host string, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen[host] = append(seen[host], r.Header.Get("Authorization"))
	}
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		record("other", r)
		w.WriteHeader(http.StatusTeapot)
	}))
	t.Cleanup(other.Close)
	for _, isOwn := range []bool{true, false} {
		var s *httptest.Server
		s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			record("own", r)
			switch {
			case r.URL.Path != "/card.json":
				http.Error(w, r.Header.Get("Authorization"), http.StatusTeapot)
			case isOwn:
				_, _ = fmt.Fprint(w, plainCard(s.URL))
			default:
				_, _ = fmt.Fprint(w, plainCard(other.URL))
			}
		}))
		t.Cleanup(s.Close)
		e := newEnv(t, s.URL+"/card.json", "auth: {bearer: t0p-s3cret-token}\n")
		if got := e.send(t.Context(), model.UserText("hi"), false); !strings.HasPrefix(got, "error ") || strings.Contains(got, "t0p") {
			t.Errorf("own host %v: %s", isOwn, got)
		}
	}
	const bearer = "Bearer t0p-s3cret-token"
	if got := fmt.Sprint(seen["own"], seen["other"]); got != fmt.Sprint([]string{bearer, bearer, bearer}, []string{""}) {
		t.Errorf("credentials: %s", got)
	}
}
