package server

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"agenthost/pkg/runtime"
)

// A Protocol is a way for clients to reach an app.
type Protocol struct {
	// Name is what its clients call it, such as A2A.
	Name string `json:"name"`
	// Section is the key in app.yaml that offers it; empty if every app does.
	Section string `json:"section,omitempty"`
	// Offered reports that the app offers it.
	Offered bool `json:"offered"`
	// Address is the URL that clients take, or the command that they start.
	Address string `json:"address"`
	// Snippets are in the order in which people see them.
	Snippets []Snippet `json:"snippets"`
}

// A Snippet is a start for a client: it runs as it is, apart from a token.
type Snippet struct {
	// Client is the program, such as curl or npm openai.
	Client string `json:"client"`
	// Language is sh, js, python, json or yaml.
	Language string `json:"language"`
	Text     string `json:"text"`
}

// protocolsBody lists the protocols of an app.
type protocolsBody struct {
	Protocols []Protocol `json:"protocols"`
}

// tokenVariable is the environment variable with a client's token in snippets.
const tokenVariable = "AGENTHOST_TOKEN"

// BaseURL returns the URL at which clients reach the server, without a slash at its end:
// Options.PublicURL, or one with the request's Host header.
func (s *Services) BaseURL(r *http.Request) string {
	if s.opts.PublicURL != "" {
		return strings.TrimRight(s.opts.PublicURL, "/")
	}
	u := url.URL{Scheme: "http", Host: r.Host}
	if r.TLS != nil {
		u.Scheme = "https"
	}
	return u.String()
}

// TokenHeader returns curl's option for a client's token, after a space; empty without authentication.
func (s *Services) TokenHeader() string {
	if !s.HasAuth() {
		return ""
	}
	return ` -H "Authorization: Bearer $` + tokenVariable + `"`
}

// QuoteShell quotes a string as one word of a POSIX shell.
func QuoteShell(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// QuoteJSON quotes a string for JSON, JavaScript or Python.
func QuoteJSON(text string) string {
	quoted, _ := json.Marshal(text) // a string cannot fail
	return string(quoted)
}

// handleProtocols lists how clients reach an app.
func (s *Services) handleProtocols(w http.ResponseWriter, r *http.Request) error {
	app := s.host.App(r.PathValue("app"))
	if app == nil {
		return notFoundError("App not found: " + r.PathValue("app"))
	}
	base := s.BaseURL(r)
	body := &protocolsBody{Protocols: []Protocol{s.describeREST(base, app)}}
	for _, x := range s.extensions {
		if x.DescribeProtocol != nil {
			body.Protocols = append(body.Protocols, x.DescribeProtocol(base, app))
		}
	}
	return WriteJSON(w, body)
}

// describeREST describes the server's own routes, which are ADK's.
func (s *Services) describeREST(base string, app *runtime.App) Protocol {
	name := QuoteJSON(app.Name())
	message := `{"appName": ` + name + `, "userId": "user", "sessionId": "first", "streaming": true, "newMessage": {"role": "user", "parts": [{"text": "hello"}]}}`
	text := "curl -N " + QuoteShell(base+"/run_sse") + s.TokenHeader() + " -H 'Content-Type: application/json' \\\n  -d " + QuoteShell(message) + "\n"
	if !s.opts.AutoCreateSession {
		session := base + "/apps/" + url.PathEscape(app.Name()) + "/users/user/sessions/first"
		text = "curl -X POST " + QuoteShell(session) + s.TokenHeader() + "\n" + text
	}
	return Protocol{Name: "REST (ADK)", Offered: true, Address: base, Snippets: []Snippet{{"curl", "sh", text}}}
}
