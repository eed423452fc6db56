// Package oauthweb handles authorization servers' answers to browsers: the redirect URL for
// connections that users authorize.
package oauthweb

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"html/template"
	"net/http"

	"agenthost/internal/limit"
	"agenthost/pkg/connection"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	connections "agenthost/wing/connection"
)

// handlers handle the routes. Without grants the page does not exist.
type handlers struct {
	*server.Services
	grants *connections.Grants
}

// Extend returns a server extension that handles answers for grants. grants may be nil.
func Extend(grants *connections.Grants) func(*server.Services) *server.Extension {
	return func(s *server.Services) *server.Extension {
		h := &handlers{s, grants}
		return &server.Extension{Routes: []server.Route{
			{Method: "GET", Pattern: connections.CallbackPath, Access: server.AccessPublic, Handler: h.handleCallback, Doc: server.Doc{Tag: "server", ID: "receiveAuthorization", Summary: "Receive an authorization server's answer", Answer: "text/html", AltStatus: "400"}},
			{Method: "POST", Pattern: connections.CallbackPath, Access: server.AccessPublic, Handler: h.handleCallback, Doc: server.Doc{Tag: "server", ID: "confirmAuthorization", Summary: "Confirm an authorization server's answer", Answer: "text/html", AltStatus: "400"}},
			{Method: "GET", Pattern: connections.ClientDocumentPath, Access: server.AccessPublic, Handler: h.handleClientDocument, Doc: server.Doc{Tag: "server", ID: "getClientDocument", Summary: "Get the host's OAuth client metadata document", Answer: "application/json", AltStatus: "404"}},
		}}
	}
}

// handleClientDocument sends the host's client metadata document, which authorization servers read
// (OAuth Client ID Metadata Document, 4).
func (s *handlers) handleClientDocument(w http.ResponseWriter, _ *http.Request) error {
	var document []byte
	if s.grants != nil {
		document = s.grants.ClientDocument()
	}
	if document == nil {
		return server.NewError(http.StatusNotFound, "Not Found")
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "max-age=3600")
	_, err := w.Write(document)
	return err
}

// callbackStyle is the page style. callbackCSP names it by its hash.
const callbackStyle = `:root{color-scheme:light dark}body{margin:15vh auto 0;max-width:30rem;padding:0 1rem;font:16px/1.5 system-ui,sans-serif}` +
	`h1{font-size:1.4rem}button{font:inherit;padding:.4rem 1rem}`

// callbackCSP allows nothing but the style and the form, which browsers send to this server
// only.
var callbackCSP = "default-src 'none'; style-src 'sha256-" + hashStyle(callbackStyle) + "'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// hashStyle returns a style's hash for a Content-Security-Policy (CSP Level 3, 6.7.3).
func hashStyle(style string) string {
	sum := sha256.Sum256([]byte(style))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// handleCallback handles an authorization server's answer (RFC 6749, 4.1.2). Its state is
// unguessable and used once. A browser without authentication could have been sent here by someone
// else, who would then use the account of the person in front of it: the page shows whose agent
// gets the access, and asks. Only browsers of this machine reach a loopback address.
func (s *handlers) handleCallback(w http.ResponseWriter, r *http.Request) error {
	r.Body = http.MaxBytesReader(w, r.Body, int64(limit.CallbackForm.Bytes))
	if err := r.ParseForm(); err != nil {
		return server.NewError(http.StatusBadRequest, "invalid form")
	}
	values := r.Form
	a := connection.Answer{State: values.Get("state"), Code: values.Get("code"), Issuer: values.Get("iss"), Error: values.Get("error")}
	if s.grants == nil {
		return server.NewError(http.StatusNotFound, "Not Found")
	}
	pending, err := s.grants.FindConsent(r.Context(), a.State)
	if err != nil {
		return sendCallbackPage(w, http.StatusBadRequest, callbackPage{Problem: callbackProblem(err)})
	}
	page := callbackPage{Answer: a, User: pending.User.UserID, App: pending.User.App, Service: pending.Service}
	asks := !s.grants.IsLocal()
	if s.HasAuth() {
		caller, err := s.Authenticate(r)
		switch {
		case err == nil && caller.UserID != pending.User.UserID:
			return server.ErrPermissionDenied
		case errors.Is(err, server.ErrAuthUnavailable):
			return err
		}
		asks = err != nil
	}
	if asks && r.Method != http.MethodPost {
		return sendCallbackPage(w, http.StatusOK, page)
	}
	if err := s.grants.FinishConsent(r.Context(), a); err != nil {
		s.Logger().WarnContext(r.Context(), "authorization failed", "app", page.App, "connection", pending.Connection, "error", err)
		return sendCallbackPage(w, http.StatusBadRequest, callbackPage{Problem: callbackProblem(err)})
	}
	page.Done = true
	return sendCallbackPage(w, http.StatusOK, page)
}

// callbackProblem returns an error's text. The store's errors are only in the log.
func callbackProblem(err error) string {
	if own := (*connection.AnswerError)(nil); errors.As(err, &own) {
		return own.Error()
	}
	return runtime.AsRunError(err).Message
}

// A callbackPage is a problem, a question, or the end.
type callbackPage struct {
	Problem            string
	Done               bool
	Answer             connection.Answer
	User, App, Service string
}

var callbackTemplate = template.Must(template.New("callback").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Authorization</title><style>` + callbackStyle + `</style>
{{if .Problem}}<h1>Not authorized</h1><p>{{.Problem}}</p>
{{else if .Done}}<h1>Authorized</h1><p>The connection {{.Service}} of {{.App}} is authorized for {{.User}}. Close this page and continue the conversation.</p>
{{else}}<h1>Give access?</h1><p>The agents of <b>{{.App}}</b> that talk with the user <b>{{.User}}</b> get access to <b>your</b> account at the connection <b>{{.Service}}</b>. Continue only if you are this user and started this.</p>
<form method="post"><input type="hidden" name="state" value="{{.Answer.State}}"><input type="hidden" name="code" value="{{.Answer.Code}}"><input type="hidden" name="iss" value="{{.Answer.Issuer}}"><input type="hidden" name="error" value="{{.Answer.Error}}"><button>Give access</button></form>
{{end}}</html>
`))

func sendCallbackPage(w http.ResponseWriter, status int, page callbackPage) error {
	h := w.Header()
	h.Set("Content-Security-Policy", callbackCSP)
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "same-origin") // with no-referrer, browsers send the form without an origin
	h.Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	return callbackTemplate.Execute(w, page)
}
