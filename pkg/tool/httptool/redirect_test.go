package httptool

import (
	"errors"
	"io"
	"net/http"
	"testing"

	"agenthost/internal/toolhttp"
	"agenthost/internal/tooltest"
	"agenthost/pkg/tool"
)

// TestHTTPRedirect checks that a redirect's target does not receive what is meant for the first
// host.
func TestHTTPRedirect(t *testing.T) {
	const secrets = "\nheaders: {Authorization: Bearer s3cret, X-Note: also secret}"
	foreign := serve(t, echo)
	var home string
	back := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, home+"/b", http.StatusFound) })
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		targets := map[string]string{"/same": "/b", "/away": foreign.URL + "/c", "/round": back.URL, "/loop": "/loop"}
		if to, ok := targets[r.URL.Path]; ok {
			code := http.StatusFound
			if r.Method == http.MethodPost {
				code = http.StatusTemporaryRedirect
			}
			http.Redirect(w, r, to, code)
			return
		}
		echo(w, r)
	})
	home = s.URL

	tests := []struct{ name, yaml, want, wantErr string }{
		{
			name: "the same host gets everything", yaml: "url: HOST/same",
			want: "GET /b\nAuthorization: Bearer s3cret\nUser-Agent: agenthost\nX-Note: also secret\n",
		},
		{
			name: "the same host gets the body again", yaml: "url: HOST/same\nmethod: POST\nbody: {a: 1}",
			want: "POST /b\nAuthorization: Bearer s3cret\nContent-Type: application/json\nIdempotency-Key: inv-1/call-1\n" +
				"User-Agent: agenthost\nX-Note: also secret\n\n{\"a\":1}",
		},
		{name: "another host gets no headers", yaml: "url: HOST/away", want: "GET /c\nUser-Agent: agenthost\n"},
		{name: "not even on the way home", yaml: "url: HOST/round", want: "GET /b\nUser-Agent: agenthost\n"},
		{name: "another host gets no body", yaml: "url: HOST/away\nmethod: POST", wantErr: "http tool it: 307 Temporary Redirect"},
		{name: "in circles", yaml: "url: HOST/loop", wantErr: "http tool it: stopped after 10 redirects"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := buildHTTP(t, s, "name: it\n"+tt.yaml+secrets).Run(t.Context(), tooltest.NewCall(nil, nil))
			if tooltest.ErrorString(err) != tt.wantErr {
				t.Fatalf("Run error = %q, want %q", tooltest.ErrorString(err), tt.wantErr)
			}
			if err == nil && got.Response["result"] != tt.want {
				t.Errorf("the last request was %q, want %q", got.Response["result"], tt.want)
			}
		})
	}
}

// TestHTTPRedirectUnguarded is the control: without the guard, another host
// receives the headers.
func TestHTTPRedirectUnguarded(t *testing.T) {
	foreign := serve(t, echo)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, foreign.URL, http.StatusFound) })
	tool := buildHTTP(t, s, "name: it\nurl: HOST\nheaders: {X-Note: secret}").(*httpTool)
	req, err := tool.newRequest(t.Context(), tooltest.NewCall(nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if want := "GET /\nUser-Agent: agenthost\nX-Note: secret\n"; err != nil || string(got) != want {
		t.Errorf("response = %s, %v, want %q", got, err, want)
	}
}

// TestHTTPRedirectClientRule checks that the host client's CheckRedirect is called after the guard.
func TestHTTPRedirectClientRule(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/b", http.StatusFound) })
	it := buildHTTP(t, s, "name: it\nurl: HOST").(*httpTool)
	it.exchange = toolhttp.NewExchange(tool.Env{HTTP: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error {
		return errors.New("not allowed here")
	}}}, 1<<20)
	if _, err := it.Run(t.Context(), tooltest.NewCall(nil, nil)); tooltest.ErrorString(err) != "http tool it: not allowed here" {
		t.Errorf("Run error = %v", err)
	}
}
