package tool

import (
	"errors"
	"net/http"
	"net/url"
	"testing"
)

// TestHTTPRedirect checks that the target of a redirect does not receive what is
// meant for the first host.
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
			got, err := buildHTTP(t, s, "name: it\n"+tt.yaml+secrets).Run(t.Context(), newCall(nil, nil))
			if errorString(err) != tt.wantErr {
				t.Fatalf("Run error = %q, want %q", errorString(err), tt.wantErr)
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
	tool.exchange.client = http.DefaultClient
	got, err := tool.Run(t.Context(), newCall(nil, nil))
	if want := "GET /\nUser-Agent: agenthost\nX-Note: secret\n"; err != nil || got.Response["result"] != want {
		t.Errorf("Run = %v, %v, want %q", got, err, want)
	}
}

// TestHTTPRedirectClientRule checks that the CheckRedirect of the host's client is
// called after the guard.
func TestHTTPRedirectClientRule(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/b", http.StatusFound) })
	tool := buildHTTP(t, s, "name: it\nurl: HOST").(*httpTool)
	tool.exchange.client = GuardRedirects(&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error {
		return errors.New("not allowed here")
	}})
	if _, err := tool.Run(t.Context(), newCall(nil, nil)); errorString(err) != "http tool it: not allowed here" {
		t.Errorf("Run error = %v", err)
	}
}

func TestLeavesHost(t *testing.T) {
	tests := []struct {
		name, from, to string
		want           bool
	}{
		{"same", "https://a/x", "https://a/y", false},
		{"to TLS", "http://a/x", "https://a/x", false},
		{"from TLS", "https://a/x", "http://a/x", true},
		{"another port", "http://a:1/x", "http://a:2/x", true},
		{"a host below", "https://a/x", "https://b.a/x", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			from, _ := url.Parse(tt.from)
			to, _ := url.Parse(tt.to)
			got := leavesHost(&http.Request{URL: to}, []*http.Request{{URL: from}})
			if got != tt.want {
				t.Errorf("leavesHost(%s → %s) = %v, want %v", tt.from, tt.to, got, tt.want)
			}
		})
	}
}
