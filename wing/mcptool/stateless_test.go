package mcptool

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// A statelessServer is an MCP server over HTTP without sessions. It records the requests' methods
// and headers.
type statelessServer struct {
	*httptest.Server
	serving *mcp.Server

	mu      sync.Mutex
	methods []string
	headers []http.Header
}

func serveStateless(t *testing.T) *statelessServer {
	s := &statelessServer{serving: mcp.NewServer(&mcp.Implementation{Name: "stateless", Version: "1"}, nil)}
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s.serving }, &mcp.StreamableHTTPOptions{Stateless: true})
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(raw)))
		var req struct{ Method string }
		_ = json.Unmarshal(raw, &req)
		s.mu.Lock()
		s.methods, s.headers = append(s.methods, req.Method), append(s.headers, r.Header)
		s.mu.Unlock()
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// seenMethods returns the requests since the last call.
func (s *statelessServer) seenMethods() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := strings.Join(s.methods, " ")
	s.methods = nil
	return seen
}

// TestStatelessServer: a server that has only the stateless protocol gets server/discover once for
// each connection, and never initialize. Every request has its version and its method as headers.
func TestStatelessServer(t *testing.T) {
	s := serveStateless(t)
	mcp.AddTool(s.serving, &mcp.Tool{Name: "hello"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "hi"}}}, nil, nil
	})
	set := buildSet(t, "mcp", "url: "+s.URL)
	for range 2 {
		got, err := callOf(t, set, "hello", nil)
		want := map[string]any{"content": []any{map[string]any{"type": "text", "text": "hi"}}, "isError": false}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Fatalf("hello: %v (-want +got):\n%s", err, diff)
		}
	}
	if got, want := s.seenMethods(), "server/discover tools/list tools/call tools/list tools/call"; got != want {
		t.Errorf("requests: %s\nwant:     %s", got, want)
	}
	call := s.headers[2]
	for name, want := range map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "hello"} {
		if got := call.Get(name); got != want {
			t.Errorf("header %s = %q, want %q", name, got, want)
		}
	}
}

// TestServersWithSessions: a server that has sessions works, however it answers server/discover,
// which it gets only once.
func TestServersWithSessions(t *testing.T) {
	for name, discover := range map[string]func(w http.ResponseWriter, r *http.Request){
		"the method is unknown": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}`)
		},
		"a session is required": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "Bad Request: No valid session ID provided", http.StatusBadRequest)
		},
		"no common version": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2025-06-18"],"requested":"2026-07-28"}}}`)
		},
		"a path is missing":         func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) },
		"it fails":                  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"it accepts a notification": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) },
		"an empty result":           func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"result":{}}`) },
		"no answer":                 func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"it closes the connection":  func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serveRaw(t)
			s.answer("tools/list", anyTool)
			s.answer("tools/call", done)
			discovers := 0
			inner := s.Config.Handler
			s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				raw, _ := io.ReadAll(r.Body)
				r.Body = io.NopCloser(strings.NewReader(string(raw)))
				if strings.Contains(string(raw), discoverMethod) {
					discovers++
					w.Header().Set("Content-Type", "application/json")
					discover(w, r)
					return
				}
				inner.ServeHTTP(w, r)
			})
			set := buildSet(t, "mcp", "url: "+s.URL+"\nconnect_timeout: 2s")
			for range 2 {
				if _, err := callOf(t, set, "t", nil); err != nil {
					t.Fatal(err)
				}
				onlyLink(t, set).resetConn()
			}
			if discovers != 1 {
				t.Errorf("%d requests with server/discover, want 1", discovers)
			}
		})
	}
}

// TestReplacedServer: a server with sessions that is replaced by one without them works after the
// next failed connection.
func TestReplacedServer(t *testing.T) {
	s := serveRaw(t)
	s.answer("tools/list", anyTool)
	s.answer("tools/call", done)
	set := buildSet(t, "mcp", "url: "+s.URL).(*serverSet)
	if _, err := callOf(t, set, "t", nil); err != nil || !set.hasSessions.Load() {
		t.Fatalf("with sessions: %v", err)
	}
	s.answers["initialize"] = func(id, _ json.RawMessage) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"unsupported","data":{"supported":["2026-07-28"]}}}`, id)
	}
	s.answer(discoverMethod, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`)
	onlyLink(t, set).resetConn()
	_, first := callOf(t, set, "t", nil)
	if _, err := callOf(t, set, "t", nil); first == nil || err != nil {
		t.Errorf("the first call: %v; the second: %v", first, err)
	}
}

// TestDiscoverWait: the wait for the answer to server/discover leaves half of the time for initialize.
func TestDiscoverWait(t *testing.T) {
	now := time.Unix(0, 0)
	for left, want := range map[time.Duration]time.Duration{4 * time.Second: 2 * time.Second, time.Hour: maxDiscoverWait} {
		ctx, stop := context.WithDeadline(t.Context(), now.Add(left))
		if got := discoverWait(ctx, now); got != want {
			t.Errorf("with %s left: %s, want %s", left, got, want)
		}
		stop()
	}
	if got := discoverWait(t.Context(), now); got != maxDiscoverWait {
		t.Errorf("without a deadline: %s", got)
	}
}

// answerLater runs a call as the runtime does after a person has answered: in another process, with
// the request as it was stored.
func answerLater(t *testing.T, set tool.Set, name string, asked *session.Confirmation, answer map[string]any) (*tool.Result, *tool.Call, error) {
	t.Helper()
	call := &tool.Call{State: emptyState{}, Actions: &session.Actions{}, ID: "1", Args: map[string]any{}}
	if asked != nil {
		raw, err := json.Marshal(asked.Payload)
		if err != nil {
			t.Fatal(err)
		}
		stored, err := session.DecodeValue(raw)
		if err != nil {
			t.Fatal(err)
		}
		call.Requested = &session.Confirmation{Hint: asked.Hint, Payload: stored}
		call.Confirmation = &session.Confirmation{Confirmed: true, Payload: answer}
	}
	tools, err := set.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(tools, func(one tool.Tool) bool { return one.Declaration().Name == name })
	res, err := tools[i].Run(t.Context(), call)
	return res, call, err
}

// askedOf returns the confirmation that a call requests, or nil.
func askedOf(call *tool.Call) *session.Confirmation {
	for _, c := range call.Actions.RequestedToolConfirmations {
		return c
	}
	return nil
}

// newQuestion returns a question with one required string field.
func newQuestion(message, field string) *mcp.ElicitParams {
	return &mcp.ElicitParams{Message: message, RequestedSchema: map[string]any{
		"type": "object", "properties": map[string]any{field: map[string]any{"type": "string"}}, "required": []any{field},
	}}
}

// TestQuestionsInResults: a stateless server asks two questions in a call's result, and one more
// after the answers. The person answers each, in another process; an answer that does not match the
// form leads to the same question again. The state comes back unchanged, with all answers.
func TestQuestionsInResults(t *testing.T) {
	s := serveStateless(t)
	mcp.AddTool(s.serving, &mcp.Tool{Name: "book"}, func(_ context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		switch state := req.Params.RequestState; state {
		case "":
			return &mcp.CallToolResult{RequestState: "asked twice", InputRequests: mcp.InputRequestMap{"a": newQuestion("Where?", "city"), "b": newQuestion("When?", "day")}}, nil, nil
		case "asked twice":
			return &mcp.CallToolResult{RequestState: state + ", then once", InputRequests: mcp.InputRequestMap{"c": newQuestion("Why "+describeAnswers(req)+"?", "reason")}}, nil, nil
		default:
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: state + ": " + describeAnswers(req)}}}, nil, nil
		}
	})
	yaml := "url: " + s.URL + "\nelicitation: true"
	var asked *session.Confirmation
	var answer map[string]any
	for _, step := range []struct {
		answer map[string]any
		asks   string
	}{
		{nil, "Where?"},
		{map[string]any{"town": "Bern"}, "Where?"}, // it does not match the form
		{map[string]any{"content": map[string]any{"city": "Bern"}}, "When?"},
		{map[string]any{"day": "Monday"}, "Why a=accept map[city:Bern] b=accept map[day:Monday]?"},
	} {
		answer = step.answer
		res, call, err := answerLater(t, buildSet(t, "mcp", yaml), "book", asked, answer)
		asked = askedOf(call)
		if err != nil || res != nil || asked == nil || !strings.HasSuffix(asked.Hint, " asks: "+step.asks) {
			t.Fatalf("after %v: %v, %v, asked %+v, want %q", answer, res, err, asked, step.asks)
		}
	}
	res, call, err := answerLater(t, buildSet(t, "mcp", yaml), "book", asked, map[string]any{"reason": "work"})
	if err != nil || askedOf(call) != nil {
		t.Fatalf("at the end: %v, asked %+v", err, askedOf(call))
	}
	if got, want := fmt.Sprint(res.Response["content"]), "asked twice, then once: c=accept map[reason:work]"; !strings.Contains(got, want) {
		t.Errorf("content %s, want %s", got, want)
	}
}

// describeAnswers formats the answers in a call, by their ids.
func describeAnswers(req *mcp.CallToolRequest) string {
	var texts []string
	for _, id := range slices.Sorted(maps.Keys(req.Params.InputResponses)) {
		if res, ok := req.Params.InputResponses[id].(*mcp.ElicitResult); ok {
			texts = append(texts, fmt.Sprintf("%s=%s %v", id, res.Action, res.Content))
		}
	}
	return strings.Join(texts, " ")
}

// TestRefusedQuestions: what a stateless server may not ask, or cannot be stored, fails the call
// with the reason. No person gets the question, and the server gets no answer.
func TestRefusedQuestions(t *testing.T) {
	many := func() string {
		var requests []string
		for i := range maxQuestions + 1 {
			requests = append(requests, fmt.Sprintf(`"q%d":{"method":"elicitation/create","params":{"message":"x"}}`, i))
		}
		return `"inputRequests":{` + strings.Join(requests, ",") + `}`
	}
	question := `"inputRequests":{"a":{"method":"elicitation/create","params":{"message":"x","requestedSchema":{"type":"object","properties":{}}}}}`
	for _, tt := range []struct{ yaml, result, want string }{
		{"", question, "the server asks the user a question, which it may only with elicitation: true"},
		{"elicitation: true", `"inputRequests":{"a":{"method":"sampling/createMessage","params":{}}}`, "the server asks the model, which it may only with sampling"},
		{"sampling: {}", `"inputRequests":{"a":{"method":"sampling/createMessage","params":{"messages":[]}}}`, "the server asks the model: the calling agent has no model"},
		{"elicitation: true", `"inputRequests":{"a":{"method":"roots/list"}}`, "the server asks for roots/list, which agenthost does not offer"},
		{"elicitation: true", `"inputRequests":{"a":7}`, "the server asks with a request that cannot be read"},
		{"elicitation: true", `"inputRequests":{"a":{"method":"elicitation/create","params":[]}}`, "the server asks the user with a question that cannot be read"},
		{"elicitation: true", many(), "the server asks 11 questions at once, and the limit is 10"},
		{"elicitation: true", question + `,"requestState":{"a":1}`, "the server's requestState is not a string"},
		{"elicitation: true", question + `,"requestState":"` + strings.Repeat("x", maxRequestState+1) + `"`, "the server's requestState exceeds the limit of 64 KiB"},
		{"elicitation: true", question + `,"requestState":"a-key-of-ops"`, "the server's requestState contains a credential"},
		{"elicitation: true", `"requestState":"busy"`, "the server asks again after 10 rounds of answers, the limit"},
	} {
		s := serveRaw(t)
		s.answer(discoverMethod, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`)
		s.answer("tools/list", anyTool)
		s.answer("tools/call", `{"resultType":"input_required",`+tt.result+`}`)
		set := buildSet(t, "mcp", "url: "+s.URL+"\n"+tt.yaml).(*serverSet)
		set.redactor = spec.NewRedactor("a-key-of-ops")
		res, call, err := answerLater(t, set, "t", nil, nil)
		if want := callFailed + tt.want; res != nil || errText(err) != want || askedOf(call) != nil {
			t.Errorf("%s, %.80s:\n %v, %s\nwant %s", tt.yaml, tt.result, res, errText(err), want)
		}
	}
}

// TestForgedRounds: an answer with a stored round that is not as agenthost stores it begins the call
// again; it never answers a question that the server did not send.
func TestForgedRounds(t *testing.T) {
	s := serveStateless(t)
	mcp.AddTool(s.serving, &mcp.Tool{Name: "book"}, func(_ context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		if len(req.Params.InputResponses) > 0 || req.Params.RequestState != "" {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "answered " + describeAnswers(req)}}}, nil, nil
		}
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"a": newQuestion("Where?", "city")}}, nil, nil
	})
	set := buildSet(t, "mcp", "url: "+s.URL+"\nelicitation: true")
	for _, round := range []any{nil, "x", []any{}, map[string]any{"requests": "x"}, map[string]any{"requests": map[string]any{"a": 1}, "responses": map[string]any{"a": "x"}}} {
		payload := map[string]any{elicitKey: map[string]any{"key": "forged", "round": round, "id": "a"}}
		res, call, err := answerLater(t, set, "book", &session.Confirmation{Payload: payload}, map[string]any{"city": "Bern"})
		if asked := askedOf(call); err != nil || res != nil || asked == nil {
			t.Errorf("round %v: %v, %v, asked %v", round, res, err, asked)
		}
	}
}

// TestListsWithTTL: a stateless server's list is used again for its ttlMs, at most
// maxTTL, and read again after that.
func TestListsWithTTL(t *testing.T) {
	for ttl, want := range map[string]time.Duration{
		`"ttlMs":60000`: time.Minute, `"ttlMs":1e30`: maxTTL, `"ttlMs":-1`: 0, `"ttlMs":"x"`: 0, `"ttlMs":null`: 0, `"cacheScope":"private"`: 0,
	} {
		s := serveRaw(t)
		lists := 0
		s.answer(discoverMethod, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`)
		s.answers["tools/list"] = func(id, _ json.RawMessage) string {
			lists++
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"t","inputSchema":{"type":"object"}}],%s}}`, id, ttl)
		}
		set := buildSet(t, "mcp", "url: "+s.URL).(*serverSet)
		now := time.Unix(0, 0)
		set.now = func() time.Time { return now }
		for _, after := range []time.Duration{0, want - 1, want} {
			now = time.Unix(0, 0).Add(max(0, after))
			namesOf(t, set)
		}
		if wantLists := map[bool]int{true: 2, false: 3}[want > 0]; lists != wantLists {
			t.Errorf("%s: %d lists, want %d", ttl, lists, wantLists)
		}
	}
}

// TestParamHeaders: the arguments that a schema marks with x-mcp-header are sent as headers too, and
// encoded where a header cannot carry them; a tool whose headers are not as in the protocol is not
// offered, and the others are.
func TestParamHeaders(t *testing.T) {
	s := serveRaw(t)
	var got http.Header
	inner := s.Config.Handler
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Method") == "tools/call" {
			got = r.Header
		}
		inner.ServeHTTP(w, r)
	})
	property := func(kind, header string) string { return fmt.Sprintf(`{"type":%q,"x-mcp-header":%s}`, kind, header) }
	schemas := map[string]string{
		"good":     `{"region":` + property("string", `"Region"`) + `,"count":` + property("integer", `"Count"`) + `,"on":` + property("boolean", `"On"`) + `,"in":{"type":"object","properties":{"x":` + property("string", `"In-X"`) + `}},"none":` + property("string", `"None"`) + `}`,
		"number":   `{"a":` + property("number", `"A"`) + `}`,
		"object":   `{"a":` + property("object", `"A"`) + `}`,
		"empty":    `{"a":` + property("string", `""`) + `}`,
		"notText":  `{"a":` + property("string", `7`) + `}`,
		"space":    `{"a":` + property("string", `"A B"`) + `}`,
		"line":     `{"a":` + property("string", `"A\r\nCookie"`) + `}`,
		"colon":    `{"a":` + property("string", `"A:"`) + `}`,
		"notASCII": `{"a":` + property("string", `"Ä"`) + `}`,
		"twice":    `{"a":` + property("string", `"A"`) + `,"b":` + property("string", `"a"`) + `}`,
	}
	var tools []string
	for name, properties := range schemas {
		tools = append(tools, fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object","properties":%s}}`, name, properties))
	}
	s.answer(discoverMethod, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`)
	s.answer("tools/list", `{"tools":[`+strings.Join(tools, ",")+`]}`)
	s.answer("tools/call", done)
	set := buildSet(t, "mcp", "url: "+s.URL)
	if names := namesOf(t, set); !slices.Equal(names, []string{"good"}) {
		t.Errorf("tools %v, want only good", names)
	}
	for _, tt := range []struct {
		args map[string]any
		want map[string]string
	}{
		{map[string]any{"region": "eu-west 1", "count": 3, "on": false, "in": map[string]any{"x": "y"}}, map[string]string{"Region": "eu-west 1", "Count": "3", "On": "false", "In-X": "y"}},
		{map[string]any{"region": " Zürich\n", "count": -7}, map[string]string{"Region": "=?base64?IFrDvHJpY2gK?=", "Count": "-7"}},
		{map[string]any{"region": "=?base64?eA==?="}, map[string]string{"Region": "=?base64?PT9iYXNlNjQ/ZUE9PT89?="}},
		{map[string]any{"region": ""}, map[string]string{"Region": ""}},
		{map[string]any{}, map[string]string{}},
	} {
		if _, err := callOf(t, set, "good", tt.args); err != nil {
			t.Fatal(err)
		}
		sent := map[string]string{}
		for name, values := range got {
			if suffix, ok := strings.CutPrefix(name, "Mcp-Param-"); ok {
				sent[suffix] = values[0]
			}
		}
		if diff := cmp.Diff(tt.want, sent); diff != "" {
			t.Errorf("headers for %v (-want +got):\n%s", tt.args, diff)
		}
	}
}
