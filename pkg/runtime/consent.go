package runtime

import (
	"context"
	"errors"
	"net/url"
	"slices"

	"google.golang.org/genai"

	"agenthost/pkg/connection"
	"agenthost/pkg/session"
)

// A ConsentFinisher takes the authorization server answers that clients send, such as the grants in
// agenthost/wing/connection.
type ConsentFinisher interface {
	// FinishConsent stores a user's tokens. Its errors are for clients.
	FinishConsent(ctx context.Context, a connection.Answer) error
}

// readConsent reads the answer to a connection's request. If the client itself received the
// authorization server's answer, it is in authResponseUri, as in ADK; otherwise the host received
// it, or polls for it if the request has a user code. The host uses nothing else in the answer: the
// client's own tokens are rejected, because another user could have authorized them. The stored
// answer has no code.
func (d *decisions) readConsent(request map[string]any, callID string, resp *genai.FunctionResponse, m map[string]any) error {
	exchanged, _ := m["exchangedAuthCredential"].(map[string]any)
	oauth, _ := exchanged["oauth2"].(map[string]any)
	for _, key := range []string{"accessToken", "refreshToken", "idToken"} {
		if token, _ := oauth[key].(string); token != "" {
			return invalidRequest("the answer to the credential %s must not have %s: the host requests the tokens itself", resp.ID, key)
		}
	}
	d.received = append(d.received, resp.ID)
	if state := connection.DeviceState(request); state != "" {
		d.consents = append(d.consents, connection.Answer{State: state, Device: true, CallID: callID})
		return nil
	}
	text, _ := oauth["authResponseUri"].(string)
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil {
		return invalidRequest("the answer to the credential %s has an invalid authResponseUri", resp.ID)
	}
	query := u.Query()
	redirect, _ := oauth["redirectUri"].(string)
	d.consents = append(d.consents, connection.Answer{
		State: query.Get("state"), Code: query.Get("code"), Issuer: query.Get("iss"), Error: query.Get("error"),
		RedirectURL: redirect, CallID: callID,
	})
	return nil
}

// withoutCodes returns the user's message without the authorization servers' answers.
func (d *decisions) withoutCodes(message *genai.Content) *genai.Content {
	if d == nil || len(d.received) == 0 {
		return message
	}
	clean := &genai.Content{Role: message.Role}
	for _, p := range message.Parts {
		if f := p.FunctionResponse; f != nil && slices.Contains(d.received, f.ID) {
			p = &genai.Part{FunctionResponse: &genai.FunctionResponse{ID: f.ID, Name: f.Name, Response: map[string]any{"status": "received"}}}
		}
		clean.Parts = append(clean.Parts, p)
	}
	return clean
}

// finishConsents requests the tokens for the answers. It ignores a user code that was not
// requested, has expired or has been used: the tool runs, and asks again if it has no token.
func (h *Host) finishConsents(ctx context.Context, d *decisions, user connection.User, sessionID string) error {
	if d == nil {
		return nil
	}
	for _, a := range d.consents {
		if h.consents == nil {
			return invalidRequest("this host stores no tokens of users")
		}
		owner := user // only an answer needs its address
		a.User, a.SessionID = &owner, sessionID
		err := h.consents.FinishConsent(ctx, a)
		if a.Device && errors.Is(err, connection.ErrNoConsent) {
			continue
		}
		if err != nil {
			if own := (*connection.AnswerError)(nil); errors.As(err, &own) {
				return invalidRequest("%s", own)
			}
			return storeFailure(session.Key{App: user.App, User: user.UserID, ID: sessionID}, err)
		}
	}
	return nil
}
