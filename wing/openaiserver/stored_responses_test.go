package openaiserver_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"agenthost/internal/servertest"
	"agenthost/pkg/session"
)

// createResponse creates a response of the user u, and returns its ID and its session's.
func createResponse(t *testing.T, e *servertest.Env, fields string) (id, sess string) {
	t.Helper()
	w := send(e, http.MethodPost, "/v1/responses", tokenOfU, `{"model":"desk",`+fields+`}`)
	_, rest, _ := strings.Cut(w.Body.String(), `{"id":"`)
	if id, _, _ = strings.Cut(rest, `"`); w.Code != http.StatusOK || !strings.HasPrefix(id, "resp_") {
		t.Fatalf("%s: %d %s", fields, w.Code, w.Body)
	}
	return id, w.Header().Get("X-Conversation-Id")
}

// expectDeleted deletes a response of the user u, after which no route finds it.
func expectDeleted(t *testing.T, e *servertest.Env, id string) {
	t.Helper()
	path := "/v1/responses/" + id
	if w := send(e, http.MethodDelete, path, tokenOfU, ""); w.Code != http.StatusOK || w.Body.String() != `{"id":"`+id+`","object":"response","deleted":true}` {
		t.Fatalf("deleted: %d %s", w.Code, w.Body)
	}
	missing := `404 {"error":{"message":"Response with id \"` + id + `\" not found","type":"invalid_request_error","param":null,"code":null}}`
	for _, c := range []struct{ method, path, body, want string }{
		{http.MethodGet, path, "", missing},
		{http.MethodGet, path + "?stream=true", "", missing},
		{http.MethodGet, path + "/input_items", "", missing},
		{http.MethodPost, path + "/cancel", "", missing},
		{http.MethodDelete, path, "", missing},
		{http.MethodPost, "/v1/responses", `{"model":"desk","input":"x","previous_response_id":"` + id + `"}`, `404 {"error":{"message":"Previous response with id \"` + id + `\" not found","type":"invalid_request_error","param":"previous_response_id","code":"previous_response_not_found"}}`},
	} {
		if w := send(e, c.method, c.path, tokenOfU, c.body); fmt.Sprintf("%d %s", w.Code, w.Body) != c.want {
			t.Errorf("%s %s: %d %s", c.method, c.path, w.Code, w.Body)
		}
	}
}

// A deleted response is not found, and is not continued. Its session is deleted once it has nothing besides
// deleted responses; a conversation that a client has named stays, and so does one with other turns.
func TestDeletedResponses(t *testing.T) {
	history := `"input":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]`
	for name, tt := range map[string]struct {
		// fields create the responses, each of which continues the former one if it has %s.
		fields []string
		// order has the deletions; more is another client's request before them.
		order []int
		more  func(t *testing.T, e *servertest.Env, sess string)
		stays bool
	}{
		"the only one":          {[]string{`"input":"hello"`}, []int{0}, nil, false},
		"with its history":      {[]string{history}, []int{0}, nil, false},
		"all of them":           {[]string{`"input":"hello"`, `"input":"more","previous_response_id":"%s"`}, []int{0, 1}, nil, false},
		"the last first":        {[]string{`"input":"hello"`, `"input":"more","previous_response_id":"%s"`}, []int{1, 0}, nil, false},
		"the first of two":      {[]string{`"input":"hello"`, `"input":"more","previous_response_id":"%s"`}, []int{0}, nil, true},
		"that waits":            {[]string{`"input":"refund"`}, []int{0}, nil, false},
		"before a running one":  {[]string{`"input":"hello"`, `"input":"think","background":true,"previous_response_id":"%s"`}, []int{0}, nil, true},
		"in a conversation":     {[]string{`"input":"hello","conversation":"chat-00112233445566778899aabbccddeeff"`}, []int{0}, nil, true},
		"in another ID":         {[]string{`"input":"hello","conversation":"mine"`}, []int{0}, nil, true},
		"later in conversation": {[]string{`"input":"hello"`, `"input":"more","conversation":"SESSION"`}, []int{0, 1}, nil, true},
		"next to a completion": {[]string{`"input":"hello"`}, []int{0}, func(t *testing.T, e *servertest.Env, _ string) {
			body := `{"model":"desk","messages":[{"role":"user","content":"hello"},{"role":"assistant","content":"You wrote: hello"},{"role":"user","content":"more"}]}`
			if w := send(e, http.MethodPost, completions, tokenOfU, body); w.Code != http.StatusOK {
				t.Fatal(w.Code, w.Body)
			}
		}, true},
		"with metadata": {[]string{`"input":"hello"`}, []int{0}, func(t *testing.T, e *servertest.Env, sess string) {
			if w := send(e, http.MethodPost, "/v1/conversations/"+sess, tokenOfU, `{"metadata":{"k":"v"}}`); w.Code != http.StatusOK {
				t.Fatal(w.Code, w.Body)
			}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t, newAuth(t))
			t.Cleanup(func() { e.Server.Drain(); _ = e.Server.Wait(context.Background()) })
			var ids []string
			sess, previous := "", ""
			for _, fields := range tt.fields {
				if strings.Contains(fields, "%s") {
					fields = fmt.Sprintf(fields, previous)
				}
				previous, sess = createResponse(t, e, strings.Replace(fields, "SESSION", sess, 1))
				ids = append(ids, previous)
			}
			if tt.more != nil {
				tt.more(t, e, sess)
			}
			before := send(e, http.MethodGet, "/v1/conversations/"+sess+"/items", tokenOfU, "").Body.String()
			for _, i := range tt.order {
				expectDeleted(t, e, ids[i])
			}
			after := send(e, http.MethodGet, "/v1/conversations/"+sess+"/items", tokenOfU, "")
			switch {
			case !tt.stays && after.Code != http.StatusNotFound:
				t.Errorf("the session stays: %d %s", after.Code, after.Body)
			case tt.stays && name != "before a running one" && after.Body.String() != before:
				t.Errorf("the conversation has %s, want %s", after.Body, before)
			}
		})
	}
}

// A conversation continues after its response was deleted, and the model reads all of it.
func TestConversationAfterDeletion(t *testing.T) {
	e := newEnv(t, newAuth(t))
	id, _ := createResponse(t, e, `"input":"hello","conversation":"c"`)
	expectDeleted(t, e, id)
	if w := send(e, http.MethodPost, "/v1/responses", tokenOfU, `{"model":"desk","input":"more","conversation":"c"}`); w.Code != http.StatusOK {
		t.Fatal(w.Code, w.Body)
	}
	sess, err := e.Host.Store().Sessions.Get(t.Context(), session.Key{App: "desk", User: "u", ID: "c"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(sess.Events()); got != 5 { // two turns, and the mark
		t.Errorf("%d events", got)
	}
}

// A response in progress is canceled before it is deleted. Of two deletions at the same time one succeeds.
func TestDeletedInProgress(t *testing.T) {
	e := newEnv(t, newAuth(t))
	t.Cleanup(func() {
		e.Server.Drain()
		e.Server.Abort()
		_ = e.Server.Wait(context.Background())
	})
	id, _ := createResponse(t, e, `"input":"wait","background":true`)
	want := `400 {"error":{"message":"A response in progress cannot be deleted: cancel it first","type":"invalid_request_error","param":null,"code":null}}`
	if w := send(e, http.MethodDelete, "/v1/responses/"+id, tokenOfU, ""); fmt.Sprintf("%d %s", w.Code, w.Body) != want {
		t.Errorf("deleted in progress: %d %s", w.Code, w.Body)
	}
	if w := send(e, http.MethodPost, "/v1/responses/"+id+"/cancel", tokenOfU, ""); w.Code != http.StatusOK {
		t.Fatal(w.Code, w.Body)
	}
	var all sync.WaitGroup
	codes := make(chan int, 4)
	for range cap(codes) {
		all.Go(func() { codes <- send(e, http.MethodDelete, "/v1/responses/"+id, tokenOfU, "").Code })
	}
	all.Wait()
	close(codes)
	count := map[int]int{}
	for code := range codes {
		count[code]++
	}
	if count[http.StatusOK] != 1 || count[http.StatusNotFound] != cap(codes)-1 {
		t.Errorf("the deletions return %v", count)
	}
}

// The input items are those that the user has brought to the response: its message, or its answers.
func TestInputItems(t *testing.T) {
	e := newEnv(t, newAuth(t))
	list := func(id, query string) string {
		w := send(e, http.MethodGet, "/v1/responses/"+id+"/input_items"+query, tokenOfU, "")
		return fmt.Sprintf("%d %s", w.Code, w.Body)
	}
	expect := func(id, query string, want ...string) {
		t.Helper()
		got := list(id, query)
		for _, text := range want {
			if !strings.Contains(got, text) {
				t.Errorf("%s: %s misses %s", query, got, text)
			}
		}
	}
	first, _ := createResponse(t, e, `"conversation":"c","input":[{"role":"user","content":[{"type":"input_text","text":"look"},{"type":"input_image","image_url":"data:image/png;base64,AAAA"}]}]`)
	expect(first, "", `200 {"object":"list","data":[{"id":"msg_`, `"role":"user","content":[{"type":"input_text","text":"look"},{"type":"input_image","detail":"auto"}]}],"first_id":"msg_`, `"has_more":false}`)
	expect(first, "?include[]=message.input_image.image_url", `"image_url":"data:image/png;base64,AAAA"`)
	asks, _ := createResponse(t, e, `"conversation":"c","input":"refund"`)
	expect(asks, "?order=asc", `"text":"refund"`)
	if strings.Contains(list(asks, ""), "look") || strings.Contains(list(asks, ""), "approval") {
		t.Errorf("the items of another response: %s", list(asks, ""))
	}
	_, rest, _ := strings.Cut(send(e, http.MethodGet, "/v1/responses/"+asks, tokenOfU, "").Body.String(), `"output":[{"id":"`)
	call, _, _ := strings.Cut(rest, `"`)
	answered, _ := createResponse(t, e, `"conversation":"c","input":[{"type":"mcp_approval_response","approval_request_id":"`+call+`","approve":true}]`)
	expect(answered, "", `"data":[{"id":"mcpr_`+call+`","type":"mcp_approval_response","approval_request_id":"`+call+`","approve":true}]`)
	expect(answered, "?limit=0", `400`, `limit must be from 1 to 100, got \"0\"`)
	expect(answered, "?order=up", `400`, `order must be asc or desc, got \"up\"`)
	expect(answered, "?after=mcpr_"+call, `"data":[],"first_id":"","last_id":"","has_more":false`)
	expect(answered, "?after=msg_x", `400`, `after must be the ID of an item, got \"msg_x\"`)
	stored := send(e, http.MethodGet, "/v1/responses/"+answered, tokenOfU, "").Body.String()
	if !strings.Contains(stored, `"conversation":{"id":"c"}`) {
		t.Errorf("the stored response has not its conversation: %s", stored)
	}
}

// A response belongs to its user: another one neither lists its input nor deletes it, and learns no more of it
// than of one that does not exist. An ID that names another app's or a foreign session's turn is not found.
func TestForeignResponses(t *testing.T) {
	e := newEnv(t, newAuth(t))
	id, _ := createResponse(t, e, `"input":"hello"`)
	missing := func(id string) string {
		return `404 {"error":{"message":"Response with id \"` + id + `\" not found","type":"invalid_request_error","param":null,"code":null}}`
	}
	for _, c := range []struct{ method, id, rest string }{
		{http.MethodDelete, id, ""},
		{http.MethodDelete, id, "?user=u"},
		{http.MethodGet, id, "/input_items"},
		{http.MethodGet, id, "/input_items?user=u"},
		{http.MethodDelete, "resp_none", ""},
		{http.MethodGet, "resp_none", "/input_items"},
		{http.MethodGet, "resp_AAA", "/input_items"},
	} {
		if w := send(e, c.method, "/v1/responses/"+c.id+c.rest, tokenOfV, ""); fmt.Sprintf("%d %s", w.Code, w.Body) != missing(c.id) {
			t.Errorf("%s %s: %d %s", c.method, c.rest, w.Code, w.Body)
		}
	}
	for _, c := range []struct{ method, rest string }{{http.MethodDelete, ""}, {http.MethodGet, "/input_items"}} {
		if w := send(e, c.method, "/v1/responses/"+id+c.rest, "wrong", ""); w.Code != http.StatusUnauthorized {
			t.Errorf("%s %s without a valid token: %d %s", c.method, c.rest, w.Code, w.Body)
		}
	}
	if w := send(e, http.MethodGet, "/v1/responses/"+id+"/input_items", tokenOfU, ""); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "hello") {
		t.Errorf("the owner reads: %d %s", w.Code, w.Body)
	}
}
