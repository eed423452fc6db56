package chatpage_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"google.golang.org/genai"

	"agenthost/internal/servertest"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/wing/chatpage"
)

const (
	guestA = "X-Chat-Guest: 0123456789abcdef0123456789abcdef"
	guestB = "X-Chat-Guest: fedcba9876543210fedcba9876543210"
)

// send handles a request with header lines.
func send(e *servertest.Env, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	w, r := httptest.NewRecorder(), httptest.NewRequest(method, path, strings.NewReader(body))
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	e.Server.ServeHTTP(w, r)
	return w
}

// createConversation returns the new conversation's ID.
func createConversation(t *testing.T, e *servertest.Env, app string, headers ...string) string {
	t.Helper()
	w := send(e, "POST", "/chat/"+app+"/conversations", "{}", headers...)
	var made struct{ ID string }
	if err := json.Unmarshal(w.Body.Bytes(), &made); err != nil || w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return made.ID
}

// A conversation exists for its own user only: to a foreign guest, a user with a token and an
// administrator it is not found, on each route. The control is its owner.
func TestForeignConversationNotFound(t *testing.T) {
	apps := strings.Replace(helpdesk(t), "chat:\n", "chat:\n  guests: true\n", 1)
	o := newOptions(nil)
	o.Server.Auth = newAuth(t)
	e := newEnv(t, o, apps)
	id := createConversation(t, e, "helpdesk", guestA)
	send(e, "POST", "/chat/helpdesk/conversations/"+id+"/messages", `{"text":"I want a refund"}`, guestA)
	routes := []struct{ method, path, body string }{
		{"GET", "", ""},
		{"PATCH", "", `{"title":"mine"}`},
		{"POST", "/messages", `{"text":"hello"}`},
		{"POST", "/answers", `{"question":"x","approve":true}`},
		{"POST", "/retry", ""},
		{"POST", "/feedback", `{"message":"x","score":1}`},
		{"GET", "/follow", ""},
		{"GET", "/files/x/0", ""},
		{"GET", "/artifacts/0/x", ""},
	}
	for _, who := range []string{guestB, "Authorization: Bearer token-of-u-0123456789", "Authorization: Bearer token-of-root-0123456789"} {
		for _, route := range routes {
			w := send(e, route.method, "/chat/helpdesk/conversations/"+id+route.path, route.body, who)
			if w.Code != 404 || strings.Contains(w.Body.String(), "SECRET") {
				t.Errorf("%s %s as %s = %d %s", route.method, route.path, who, w.Code, w.Body)
			}
		}
		send(e, "DELETE", "/chat/helpdesk/conversations/"+id, "", who)
		if w := send(e, "GET", "/chat/helpdesk/conversations", "", who); strings.Contains(w.Body.String(), id) {
			t.Errorf("the list of %s has the conversation: %s", who, w.Body)
		}
	}
	if w := send(e, "GET", "/chat/helpdesk/conversations/"+id, "", guestA); w.Code != 200 || !strings.Contains(w.Body.String(), "I want a refund") {
		t.Errorf("control: the owner gets %d %s", w.Code, w.Body)
	}
}

// The user is the token's. Where guests are not welcome, a guest's secret does not authenticate; a
// user ID in the request, the query or a header is ignored; a token for other apps is rejected.
func TestUserIsTheTokens(t *testing.T) {
	o := newOptions(nil)
	o.Server.Auth = newAuth(t)
	e := newEnv(t, o, helpdesk(t))
	for headers, want := range map[string]int{
		"": 401, guestA: 401, "Authorization: Bearer x": 401, "Authorization: Bearer token-of-w-0123456789": 403, "Authorization: Bearer token-of-u-0123456789": 200,
	} {
		if w := send(e, "POST", "/chat/helpdesk/conversations?user=v&userId=v", `{"userId":"v","user":"v"}`, headers); w.Code != want {
			t.Errorf("POST with %q = %d %s, want %d", headers, w.Code, w.Body, want)
		}
	}
	all, err := e.Store.Sessions.List(t.Context(), "helpdesk", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, sess := range all {
		if sess.User != "u" {
			t.Errorf("a session of %q was created", sess.User)
		}
	}
	if mine, err := e.Store.Sessions.List(t.Context(), "helpdesk", "u"); err != nil || len(mine) != 1 {
		t.Errorf("u has %d sessions, %v", len(mine), err)
	}
}

// A guest's user ID does not contain the secret, differs between guests, and no secret reaches the
// user ID that another caller has.
func TestGuestSecretIsNotTheUser(t *testing.T) {
	e := newEnv(t, newOptions(nil), helpdesk(t))
	createConversation(t, e, "helpdesk", guestA)
	createConversation(t, e, "helpdesk", guestB)
	all, _, err := e.Store.Sessions.Page(t.Context(), pageOfAll("helpdesk"))
	if err != nil || len(all) != 2 || all[0].User == all[1].User {
		t.Fatalf("sessions %v, %v", all, err)
	}
	for _, sess := range all {
		if !strings.HasPrefix(sess.User, "guest-") || len(sess.User) != len("guest-")+32 || strings.Contains(sess.User, "0123456789abcdef") {
			t.Errorf("user ID %q", sess.User)
		}
		secret := strings.TrimPrefix(sess.User, "guest-")
		if w := send(e, "GET", "/chat/helpdesk/conversations", "", "X-Chat-Guest: "+secret); w.Body.String() != `{"conversations":[]}` {
			t.Errorf("the user ID as a secret lists %s", w.Body)
		}
	}
}

// Instructions, arguments, results, state, errors, thoughts and the names of agents and tools reach
// no response. The control is ADK's API, which has them.
func TestSecretsStayOnServer(t *testing.T) {
	e := newEnv(t, newOptions(nil), helpdesk(t))
	id := createConversation(t, e, "helpdesk", guestA)
	base := "/chat/helpdesk/conversations/" + id
	var seen strings.Builder
	see := func(method, path, body string) string {
		text := send(e, method, path, body, guestA).Body.String()
		seen.WriteString(text)
		return text
	}
	for _, text := range []string{"a little", "my order", "fail", "I want a refund"} {
		see("POST", base+"/messages", `{"text":"`+text+`"}`)
	}
	conversation := see("GET", base, "")
	var c struct {
		Messages []struct{ Questions []struct{ ID string } }
	}
	if err := json.Unmarshal([]byte(conversation), &c); err != nil {
		t.Fatal(err)
	}
	question := c.Messages[len(c.Messages)-1].Questions[0].ID
	answered := see("POST", base+"/answers", `{"question":"`+question+`","approve":true}`)
	if !strings.Contains(answered, "500 euros") {
		t.Errorf("the approved call has not run: %s", answered)
	}
	see("GET", base, "")
	see("GET", base+"/follow", "")
	see("GET", "/chat/helpdesk", "")
	for _, secret := range []string{"SECRET", "look_up", "refunded", "ledger", "functionCall", "stateDelta", "scripted", "instruction"} {
		if strings.Contains(seen.String(), secret) {
			t.Errorf("a response has %q", secret)
		}
	}
	all, _, err := e.Store.Sessions.Page(t.Context(), pageOfAll("helpdesk"))
	if err != nil {
		t.Fatal(err)
	}
	if w := send(e, "GET", "/apps/helpdesk/users/"+all[0].User+"/sessions/"+id, ""); !strings.Contains(w.Body.String(), "SECRET-ARGUMENT") || !strings.Contains(w.Body.String(), "SECRET-STATE") {
		t.Errorf("control: ADK's API has %s", w.Body)
	}
}

// A browser answers open questions only, once, and with the answer's own form: it cannot answer for
// a tool, change what it approves, or choose another option.
func TestForgedAnswers(t *testing.T) {
	e := newEnv(t, newOptions(nil), helpdesk(t))
	base := "/chat/helpdesk/conversations/" + createConversation(t, e, "helpdesk", guestA)
	ask := func(text string) string {
		t.Helper()
		stream := send(e, "POST", base+"/messages", `{"text":"`+text+`"}`, guestA).Body.String()
		_, rest, ok := strings.Cut(stream, `"questions":[{"id":"`)
		if !ok {
			t.Fatalf("no question in %s", stream)
		}
		id, _, _ := strings.Cut(rest, `"`)
		return id
	}
	refund, choice := ask("refund"), ask("choose")
	for _, tc := range []struct {
		body string
		want int
	}{
		{`{"question":"` + refund + `","text":"yes"}`, 422},
		{`{"question":"` + refund + `"}`, 422},
		{`{"question":"` + choice + `","text":"Coffee"}`, 422},
		{`{"question":"` + choice + `","approve":true}`, 422},
		{`{"question":"","approve":true}`, 409},
		{`{"question":"` + refund + `","approve":false,"payload":{"amount":9999},"args":{"amount":9999}}`, 200},
		{`{"question":"` + refund + `","approve":true}`, 409},
		{`{"question":"` + choice + `","text":"Black tea"}`, 200},
	} {
		if w := send(e, "POST", base+"/answers", tc.body, guestA); w.Code != tc.want {
			t.Errorf("%s = %d %s, want %d", tc.body, w.Code, w.Body, tc.want)
		}
	}
}

// A rejected answer names the fields whose values do not fit, and describes no value.
func TestRejectedFieldsAreNamed(t *testing.T) {
	e := newEnv(t, newOptions(nil), readApp(t, "till"))
	base := "/chat/till/conversations/" + createConversation(t, e, "till", guestA)
	stream := send(e, "POST", base+"/messages", `{"text":"refund"}`, guestA).Body.String()
	_, rest, _ := strings.Cut(stream, `"questions":[{"id":"`)
	id, _, _ := strings.Cut(rest, `"`)
	one := func(kind, name, text string) string {
		return `{"type":"` + kind + `","loc":["body","fields","` + name + `"],"msg":"` + text + `"}`
	}
	wrong := func(name string) string { return one("value_error", name, "The value does not fit") }
	for _, tc := range []struct{ fields, want string }{
		{`{"amount":2000,"note":"SECRET"}`, `{"detail":[` + wrong("amount") + `]}`},
		{`{"amount":"much","note":"` + strings.Repeat("x", 81) + `"}`, `{"detail":[` + wrong("amount") + `,` + wrong("note") + `]}`},
		{`{"amount":null}`, `{"detail":[` + wrong("amount") + `]}`},
		{`{"to":"me"}`, `{"detail":"The answer does not fit the question"}`},
	} {
		w := send(e, "POST", base+"/answers", `{"question":"`+id+`","approve":true,"fields":`+tc.fields+`}`, guestA)
		if w.Code != 422 || strings.TrimSpace(w.Body.String()) != tc.want {
			t.Errorf("%s = %d %s, want 422 %s", tc.fields, w.Code, w.Body, tc.want)
		}
	}
}

// The page is off unless the app has chat or the host serves all, and --chat off wins.
func TestChatIsOffByDefault(t *testing.T) {
	const plain = "-- apps/plain/root_agent.yaml --\nname: plain\nagent_class: SequentialAgent\n"
	for _, tc := range []struct {
		opts            *chatpage.Options
		plain, helpdesk int
	}{
		{nil, 404, 200},
		{&chatpage.Options{All: true}, 200, 200},
		{&chatpage.Options{Off: true}, 404, 404},
	} {
		e := newEnv(t, newOptions(tc.opts), plain+helpdesk(t))
		for app, want := range map[string]int{"plain": tc.plain, "helpdesk": tc.helpdesk} {
			for _, path := range []string{"/chat/" + app, "/chat/" + app + "/chat.js", "/chat/" + app + "/embed.js", "/chat/" + app + "/conversations"} {
				if w := send(e, "GET", path, "", guestA); w.Code != want {
					t.Errorf("%+v: GET %s = %d, want %d", tc.opts, path, w.Code, want)
				}
			}
		}
	}
}

// The policy allows this server only, and frames only on the app's origins. No file of the page has
// inline code.
func TestPagePolicy(t *testing.T) {
	e := newEnv(t, newOptions(nil), helpdesk(t)+strings.ReplaceAll(strings.Replace(helpdesk(t), "chat:\n", "chat:\n  origins: [https://shop.example, \"http://localhost:3000\"]\n", 1), "apps/helpdesk/", "apps/framed/"))
	for app, frames := range map[string]string{"helpdesk": "'none'", "framed": "https://shop.example http://localhost:3000"} {
		w := send(e, "GET", "/chat/"+app, "")
		policy := w.Header().Get("Content-Security-Policy")
		if !strings.HasSuffix(policy, "; frame-ancestors "+frames) || !strings.HasPrefix(policy, "default-src 'none'; script-src 'self'; style-src 'self'; ") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: the policy is %s", app, policy)
		}
		if body := w.Body.String(); strings.Contains(body, "<style") || strings.Contains(body, " style=") || strings.Contains(body, "<script>") {
			t.Errorf("%s: the page has inline code: %s", app, body)
		}
	}
}

// Whatever texts a program puts into its options, the page has no other markup and the theme no
// other CSS.
func TestOptionsCannotInject(t *testing.T) {
	evil := `"></body><script>alert(1)</script>`
	chat := &chatpage.Settings{Title: evil, Welcome: evil, Suggestions: []string{evil}, Theme: chatpage.Theme{
		Mode: evil, Font: `x; } body { background: url(https://evil.example) }`, Radius: -7,
		Light: chatpage.Colors{Accent: "red; } * { display: none", Background: "url(//evil.example)", Surface: "#12345", Text: "#GGGGGG"},
		Dark:  chatpage.Colors{Accent: "#123456; --x: y"},
	}}
	e := newEnv(t, newOptions(nil), "")
	app, err := runtime.NewApp("evil", runtime.NewSequential("evil", ""), &runtime.AppOptions{Sections: map[string]any{"chat": chat}})
	if err != nil {
		t.Fatal(err)
	}
	e.Host.Swap(app)
	if body := send(e, "GET", "/chat/evil", "").Body.String(); strings.Contains(body, "<script>") || strings.Count(body, "</body>") != 1 {
		t.Errorf("the page has other markup: %s", body)
	}
	def := chatpage.DefaultSettings().Theme
	css := send(e, "GET", "/chat/evil/theme.css", "").Body.String()
	if strings.Contains(css, "evil") || strings.Contains(css, "display") || strings.Count(css, "}") != 1 || !strings.Contains(css, def.Light.Accent) || !strings.Contains(css, "--round: 0px") {
		t.Errorf("the theme is %s", css)
	}
}

// The page's files name no word for developers and no other host. The words are those that a person
// can see.
func TestPageHasNoWordsForDevelopers(t *testing.T) {
	err := filepath.WalkDir("ui", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, line := range strings.Split(string(text), "\n") {
			code, _, _ := strings.Cut(line, "// ")
			for _, word := range []string{"YAML", "yaml", " agent ", " tool call", " session", "stateDelta", "http://", "innerHTML", "eval("} {
				if strings.Contains(code, word) {
					t.Errorf("%s has %q in %s", path, word, line)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// A conversation of 10 000 events is read in pages; each page is bounded, and together they have all
// messages once.
func TestLongConversation(t *testing.T) {
	e := newEnv(t, newOptions(nil), helpdesk(t))
	id := createConversation(t, e, "helpdesk", guestA)
	all, _, err := e.Store.Sessions.Page(t.Context(), pageOfAll("helpdesk"))
	if err != nil {
		t.Fatal(err)
	}
	addEvents(t, e, all[0].Key, 10_000)
	seen, before := map[string]bool{}, ""
	for range 200 {
		w := send(e, "GET", "/chat/helpdesk/conversations/"+id+"?before="+before, "", guestA)
		var c struct {
			Messages []struct{ ID string }
			Before   string
		}
		if err := json.Unmarshal(w.Body.Bytes(), &c); err != nil || w.Code != 200 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		if len(c.Messages) > 100 {
			t.Fatalf("a page has %d messages", len(c.Messages))
		}
		for _, m := range c.Messages {
			if seen[m.ID] {
				t.Fatalf("message %s appears twice", m.ID)
			}
			seen[m.ID] = true
		}
		if before = c.Before; before == "" {
			break
		}
	}
	if len(seen) != 10_000 {
		t.Errorf("%d messages", len(seen))
	}
}

// A conversation that is open at another replica delays no turn: reading and following it acquire no
// lease. Both replicas show a turn that runs, and the follow stream of the other one ends after it.
func TestReadingOnAnotherReplica(t *testing.T) {
	url := "sqlite:///" + t.TempDir() + "/chat.db"
	var replicas []*servertest.Env
	for range 2 {
		o := newOptions(nil)
		o.URL = url
		replicas = append(replicas, newEnv(t, o, helpdesk(t)))
	}
	one, two := replicas[0], replicas[1]
	base := "/chat/helpdesk/conversations/" + createConversation(t, one, "helpdesk", guestA)
	for i := range 3 {
		for _, path := range []string{base, base + "/follow"} {
			if w := send(two, "GET", path, "", guestA); w.Code != 200 || i == 0 && strings.Contains(w.Body.String(), `"running":true`) {
				t.Errorf("GET %s at the second replica: %d %s", path, w.Code, w.Body)
			}
		}
		if w := send(one, "POST", base+"/messages", `{"text":"hello"}`, guestA); !strings.Contains(w.Body.String(), "You wrote: hello") {
			t.Errorf("a turn at the first replica: %s", w.Body)
		}
	}
	all, _, err := one.Store.Sessions.Page(t.Context(), pageOfAll("helpdesk"))
	if err != nil || len(all) != 1 {
		t.Fatalf("%d sessions, %v", len(all), err)
	}
	_, release, err := one.Store.Sessions.Acquire(t.Context(), all[0].Key, servertest.SessionWait)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range replicas {
		if w := send(e, "GET", base, "", guestA); !strings.Contains(w.Body.String(), `"running":true`) {
			t.Errorf("replica %d during a turn: %s", i, w.Body)
		}
	}
	following := make(chan string, 1)
	go func() { following <- send(two, "GET", base+"/follow", "", guestA).Body.String() }()
	release()
	if text := <-following; !strings.Contains(text, "You wrote: hello") {
		t.Errorf("the follow stream of the second replica: %s", text)
	}
	if w := send(one, "GET", base, "", guestA); strings.Contains(w.Body.String(), `"running":true`) {
		t.Errorf("the first replica after the turn: %s", w.Body)
	}
}

// Stop reaches a turn of another replica: the session is taken over, and the turn can store nothing
// more. Without a turn there is nothing to stop.
func TestStopOnAnotherReplica(t *testing.T) {
	url := "sqlite:///" + t.TempDir() + "/chat.db"
	var replicas []*servertest.Env
	for range 2 {
		o := newOptions(nil)
		o.URL = url
		replicas = append(replicas, newEnv(t, o, helpdesk(t)))
	}
	one, two := replicas[0], replicas[1]
	base := "/chat/helpdesk/conversations/" + createConversation(t, one, "helpdesk", guestA)
	if w := send(two, "POST", base+"/stop", "", guestA); !strings.Contains(w.Body.String(), `"stopped":false`) {
		t.Fatalf("without a turn: %d %s", w.Code, w.Body)
	}
	all, _, err := one.Store.Sessions.Page(t.Context(), pageOfAll("helpdesk"))
	if err != nil || len(all) != 1 {
		t.Fatalf("%d sessions, %v", len(all), err)
	}
	ctx, release, err := one.Store.Sessions.Acquire(t.Context(), all[0].Key, servertest.SessionWait)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if w := send(two, "POST", base+"/stop", "", guestA); !strings.Contains(w.Body.String(), `"stopped":true`) {
		t.Fatalf("during a turn: %d %s", w.Code, w.Body)
	}
	err = one.Store.Sessions.Append(ctx, all[0], &session.Event{InvocationID: "e-1", Author: "helpdesk"})
	if !errors.Is(err, session.ErrFenced) {
		t.Errorf("the stopped turn stored an event: %v", err)
	}
	if w := send(two, "GET", base, "", guestA); strings.Contains(w.Body.String(), `"running":true`) {
		t.Errorf("after stop: %s", w.Body)
	}
}

func addEvents(t *testing.T, e *servertest.Env, key session.Key, count int) {
	t.Helper()
	sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	var events []*session.Event
	for range count {
		events = append(events, &session.Event{Author: session.UserAuthor, InvocationID: "i", Response: model.Response{Content: genai.NewContentFromText("hello", genai.RoleUser)}})
	}
	ctx, release, err := e.Store.Sessions.Acquire(t.Context(), key, servertest.SessionWait)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if err := e.Store.Sessions.AppendAll(ctx, sess, events); err != nil {
		t.Fatal(err)
	}
}

// A user rates an answer in the own conversation, once for a turn; other scores and messages are
// rejected. The rating is that of the user whom the store names.
func TestFeedback(t *testing.T) {
	e := newEnv(t, newOptions(nil), helpdesk(t))
	id := createConversation(t, e, "helpdesk", guestA)
	base := "/chat/helpdesk/conversations/" + id
	send(e, "POST", base+"/messages", `{"text":"hello"}`, guestA)
	var c struct{ Messages []struct{ ID, From string } }
	if err := json.Unmarshal(send(e, "GET", base, "", guestA).Body.Bytes(), &c); err != nil || len(c.Messages) != 2 {
		t.Fatalf("%+v, %v", c, err)
	}
	rate := func(message, score string) *httptest.ResponseRecorder {
		return send(e, "POST", base+"/feedback", `{"message":"`+message+`","score":`+score+`}`, guestA)
	}
	servertest.ExpectResponse(t, rate(c.Messages[1].ID, "2"), 422, `{"detail":"score must be -1, 0 or 1"}`)
	servertest.ExpectResponse(t, rate(c.Messages[0].ID, "1"), 404, `{"detail":"Not Found"}`)
	servertest.ExpectResponse(t, rate(c.Messages[1].ID, "1"), 200, `null`)
	servertest.ExpectResponse(t, rate(c.Messages[1].ID, "-1"), 200, `null`)
	all, _, err := e.Store.Sessions.Page(t.Context(), pageOfAll("helpdesk"))
	if err != nil {
		t.Fatal(err)
	}
	feedback, err := e.Store.Outcomes.ListFeedback(t.Context(), all[0].Key)
	if err != nil || len(feedback) != 1 || feedback[0].Score != -1 || feedback[0].Caller != all[0].User {
		t.Errorf("feedback %+v, %v", feedback, err)
	}
	if w := send(e, "GET", base, "", guestA); !strings.Contains(w.Body.String(), `"score":-1`) {
		t.Errorf("the conversation is %s", w.Body)
	}
}

// A stop request ends the turn, which the stream reports, and only for its own user.
func TestStopEndsTheTurn(t *testing.T) {
	started := make(chan struct{})
	e := newEnv(t, newOptions(nil), "")
	app, err := runtime.NewApp("slow", &waitingAgent{runtime.Base{AgentName: "slow"}, started}, &runtime.AppOptions{Sections: map[string]any{"chat": chatpage.DefaultSettings()}})
	if err != nil {
		t.Fatal(err)
	}
	e.Host.Swap(app)
	base := "/chat/slow/conversations/" + createConversation(t, e, "slow", guestA)
	answer := make(chan string, 1)
	go func() {
		answer <- send(e, "POST", base+"/messages", `{"text":"wait"}`, guestA).Body.String()
	}()
	<-started
	if w := send(e, "GET", base, "", guestA); !strings.Contains(w.Body.String(), `"running":true`) {
		t.Errorf("the conversation is %s", w.Body)
	}
	ctx, leave := context.WithCancel(t.Context())
	var followers sync.WaitGroup
	for range 8 { // the limit for a user's follow streams
		opened := make(chan struct{})
		r := httptest.NewRequest("GET", base+"/follow", nil).WithContext(ctx)
		r.Header.Set("X-Chat-Guest", strings.TrimPrefix(guestA, "X-Chat-Guest: "))
		followers.Go(func() {
			e.Server.ServeHTTP(&watchedClient{httptest.NewRecorder(), sync.OnceFunc(func() { close(opened) })}, r)
		})
		<-opened
	}
	servertest.ExpectResponse(t, send(e, "GET", base+"/follow", "", guestA), 429, `{"detail":"Too many open streams"}`)
	leave()
	followers.Wait()
	if w := send(e, "POST", base+"/stop", "", guestB); w.Body.String() != `{"stopped":false}` {
		t.Errorf("a stranger's stop: %s", w.Body)
	}
	if w := send(e, "POST", base+"/stop", "", guestA); w.Body.String() != `{"stopped":true}` {
		t.Errorf("the owner's stop: %s", w.Body)
	}
	if got := <-answer; !strings.HasSuffix(got, "data: {\"failed\":\"stopped\"}\n\n") {
		t.Errorf("the stream is %s", got)
	}
	if w := send(e, "GET", base, "", guestA); !strings.Contains(w.Body.String(), `"failed":"stopped"`) {
		t.Errorf("the conversation is %s", w.Body)
	}
}

// A waitingAgent waits until it is canceled.
type waitingAgent struct {
	runtime.Base
	started chan struct{}
}

func (a *waitingAgent) Run(ctx context.Context, _ *runtime.Invocation) runtime.Events {
	return func(yield func(*session.Event, error) bool) {
		close(a.started)
		<-ctx.Done()
		yield(nil, ctx.Err())
	}
}

// A turn continues when its browser leaves, and the page finds its answer.
func TestTurnOutlivesItsBrowser(t *testing.T) {
	e := newEnv(t, newOptions(nil), helpdesk(t))
	base := "/chat/helpdesk/conversations/" + createConversation(t, e, "helpdesk", guestA)
	ctx, leave := context.WithCancel(t.Context())
	r := httptest.NewRequest("POST", base+"/messages", strings.NewReader(`{"text":"tell me a story"}`)).WithContext(ctx)
	r.Header.Set("X-Chat-Guest", strings.TrimPrefix(guestA, "X-Chat-Guest: "))
	e.Server.ServeHTTP(&leavingClient{httptest.NewRecorder(), leave}, r)
	if w := send(e, "GET", base+"/follow", "", guestA); !strings.Contains(w.Body.String(), "the whole street listened") {
		t.Errorf("the follower receives %s", w.Body)
	}
}

// A leavingClient disconnects when it receives the first frame.
type leavingClient struct {
	*httptest.ResponseRecorder
	leave func()
}

func (c *leavingClient) Write([]byte) (int, error) {
	c.leave()
	return 0, io.ErrClosedPipe
}

// A file that an answer saved can be read by its user, as a download that runs nothing. Another file
// in the session is the app's own.
func TestArtifacts(t *testing.T) {
	e := newEnv(t, newOptions(&chatpage.Options{All: true}), "")
	id := createConversation(t, e, "noter", guestA)
	base := "/chat/noter/conversations/" + id
	if stream := send(e, "POST", base+"/messages", `{"text":"save"}`, guestA).Body.String(); !strings.Contains(stream, `"files":[{"name":"note.txt","path":"artifacts/0/note.txt"}]`) {
		t.Fatalf("the stream is %s", stream)
	}
	w := send(e, "GET", base+"/artifacts/0/note.txt", "", guestA)
	if h := w.Header(); w.Code != 200 || w.Body.String() != "hello" || !strings.HasPrefix(h.Get("Content-Disposition"), "attachment") || h.Get("Content-Security-Policy") != "default-src 'none'; sandbox" {
		t.Errorf("%d %s %v", w.Code, w.Body, w.Header())
	}
	all, _, err := e.Store.Sessions.Page(t.Context(), pageOfAll("noter"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Store.Artifacts.Save(t.Context(), all[0].Key, "own.txt", &genai.Part{Text: "of the app"}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/artifacts/0/own.txt", "/artifacts/1/note.txt", "/artifacts/-1/note.txt", "/artifacts/x/note.txt"} {
		if w := send(e, "GET", base+path, "", guestA); w.Code != 404 {
			t.Errorf("GET %s = %d %s", path, w.Code, w.Body)
		}
	}
}

// Thoughts and tool names reach the browser only if the app shows them, and never as names in code.
func TestShow(t *testing.T) {
	for _, isShown := range []bool{false, true} {
		e := newEnv(t, newOptions(nil), "")
		chat := chatpage.DefaultSettings()
		chat.ShowThoughts, chat.ShowTools = isShown, isShown
		app, err := runtime.NewApp("thinker", &thinker{runtime.Base{AgentName: "thinker"}}, &runtime.AppOptions{Sections: map[string]any{"chat": chat}})
		if err != nil {
			t.Fatal(err)
		}
		e.Host.Swap(app)
		base := "/chat/thinker/conversations/" + createConversation(t, e, "thinker", guestA)
		text := send(e, "POST", base+"/messages", `{"text":"think"}`, guestA).Body.String() + send(e, "GET", base, "", guestA).Body.String()
		for _, word := range []string{"a deep thought", "Look up order"} {
			if strings.Contains(text, word) != isShown {
				t.Errorf("shown %v: the responses are %s", isShown, text)
			}
		}
		if strings.Contains(text, "look_up_order") || !strings.Contains(text, "the answer") {
			t.Errorf("the responses are %s", text)
		}
	}
}

// A thinker thinks, calls a tool and answers.
type thinker struct{ runtime.Base }

func (*thinker) Run(context.Context, *runtime.Invocation) runtime.Events {
	return func(yield func(*session.Event, error) bool) {
		for _, ev := range []*session.Event{
			{Response: model.Response{Partial: true, Content: &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{{Text: "a deep thought", Thought: true}}}}},
			{Response: model.Response{Content: &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{{FunctionCall: &genai.FunctionCall{ID: "c", Name: "look_up_order"}}}}}},
			{Response: model.Response{Content: &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{{Text: "a deep thought", Thought: true}, {Text: "the answer"}}}}},
		} {
			ev.Author = "thinker"
			if !yield(ev, nil) {
				return
			}
		}
	}
}

// A watchedClient calls a function when it receives something.
type watchedClient struct {
	*httptest.ResponseRecorder
	received func()
}

func (c *watchedClient) Write(b []byte) (int, error) {
	defer c.received()
	return c.ResponseRecorder.Write(b)
}
