package fakeidp

import (
	"html/template"
	"net/http"
	"net/url"
	"strings"
)

// A Grant is what a person has consented to: the client may use an account at a resource.
type Grant struct {
	// Account is empty if the server does not ask.
	Account string `json:"account"`
	// Client is the client's ID.
	Client   string `json:"client"`
	Resource string `json:"resource"`
	Scope    string `json:"scope"`
}

// Consents returns what was consented to, in order.
func (s *Server) Consents() []Grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Grant{}, s.consents...)
}

// FindGrant returns the grant for the token in an Authorization header, or nil if it has no valid one.
func (s *Server) FindGrant(header string) *Grant {
	token, ok := strings.CutPrefix(header, "Bearer ")
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.access[token]
	if !ok || f == nil || f.revoked || f.token != token {
		return nil
	}
	return &f.grant
}

// consentPage has a button for each account. Its form sends the client's request again.
var consentPage = template.Must(template.New("consent").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Consent</title>
<style>body{margin:10vh auto 0;max-width:34rem;padding:0 1rem;font:16px/1.5 system-ui,sans-serif}dd{margin:0 0 .5rem;overflow-wrap:anywhere}button{font:inherit;padding:.4rem 1rem;margin-right:.5rem}</style>
<h1>Give access?</h1>
<dl><dt>Client</dt><dd id="client">{{.Client}}</dd><dt>Service</dt><dd id="resource">{{.Resource}}</dd><dt>Scopes</dt><dd id="scope">{{.Scope}}</dd><dt>Afterwards at</dt><dd id="redirect">{{.Redirect}}</dd></dl>
<form method="post"><input type="hidden" name="request" value="{{.Request}}">
{{range .Accounts}}<button name="account" value="{{.}}">Allow as {{.}}</button>{{end}}<button name="account" value="">Refuse</button></form></html>
`))

// answerConsent sends the browser back with a code, or with a refusal. Without accounts there is no
// person to ask, and the answer is yes.
func (s *Server) answerConsent(w http.ResponseWriter, r *http.Request, q url.Values) {
	account := r.PostForm.Get("account")
	switch {
	case len(s.Accounts) == 0:
	case r.Method == http.MethodGet:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
		_ = consentPage.Execute(w, map[string]any{
			"Client": q.Get("client_id"), "Resource": q.Get("resource"), "Scope": q.Get("scope"),
			"Redirect": q.Get("redirect_uri"), "Request": q.Encode(), "Accounts": s.Accounts,
		})
		return
	case account == "":
		s.redirectBrowser(w, r, q, url.Values{"error": {"access_denied"}})
		return
	}
	grant := Grant{Account: account, Client: q.Get("client_id"), Resource: q.Get("resource"), Scope: q.Get("scope")}
	s.redirectBrowser(w, r, q, url.Values{"code": {s.newCode(q, grant)}})
}

// redirectBrowser sends the browser to the client with an answer, which names its issuer (RFC 9207).
func (s *Server) redirectBrowser(w http.ResponseWriter, r *http.Request, q, answer url.Values) {
	answer.Set("state", q.Get("state"))
	answer.Set("iss", s.Issuer())
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+answer.Encode(), http.StatusFound)
}
