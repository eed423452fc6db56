package connection

import (
	"context"
	"strings"
)

// A ConsentError reports that the user has not authorized the connection.
type ConsentError struct {
	request func(ctx context.Context, sessionID, callID string) (map[string]any, error)
}

// NewConsentError returns an error with the function that starts a consent.
func NewConsentError(request func(ctx context.Context, sessionID, callID string) (map[string]any, error)) *ConsentError {
	return &ConsentError{request}
}

// Error ends a sentence about the connection.
func (e *ConsentError) Error() string {
	return "the user has not authorized it yet"
}

// Request starts a consent for a call in a session. It returns ADK's AuthConfig: the address that
// the user opens in a browser is exchangedAuthCredential.oauth2.authUri. It contains neither the
// client's secret nor the code verifier or the device code.
func (e *ConsentError) Request(ctx context.Context, sessionID, callID string) (map[string]any, error) {
	return e.request(ctx, sessionID, callID)
}

// keyPrefix begins the credentialKey in requests for connections.
const keyPrefix = "connection:"

// CredentialKey returns the credentialKey that requests for a connection have.
func CredentialKey(name string) string { return keyPrefix + name }

// IsCredentialKey reports whether a credentialKey belongs to a connection.
func IsCredentialKey(key string) bool { return strings.HasPrefix(key, keyPrefix) }

// ServiceKey is the key in exchangedAuthCredential.oauth2 for the service's address, if the
// connection has no name of its own.
const ServiceKey = "service"

// ServiceName returns the name that users read for a request in an AuthConfig: the connection's, or
// the service's address if the connection has no name of its own.
func ServiceName(authConfig map[string]any) string {
	exchanged, _ := authConfig["exchangedAuthCredential"].(map[string]any)
	asked, _ := exchanged["oauth2"].(map[string]any)
	if service, _ := asked[ServiceKey].(string); service != "" {
		return service
	}
	key, _ := authConfig["credentialKey"].(string)
	return strings.TrimPrefix(key, keyPrefix)
}

// DeviceFlow is OpenAPI 3.2's name for the flow with user codes.
const DeviceFlow = "deviceAuthorization"

// DeviceState returns the state in the AuthConfig from a request with a user code, or "" for other
// requests.
func DeviceState(authConfig map[string]any) string {
	scheme, _ := authConfig["authScheme"].(map[string]any)
	flows, _ := scheme["flows"].(map[string]any)
	if flows[DeviceFlow] == nil {
		return ""
	}
	exchanged, _ := authConfig["exchangedAuthCredential"].(map[string]any)
	asked, _ := exchanged["oauth2"].(map[string]any)
	state, _ := asked["state"].(string)
	return state
}

// An Answer is an authorization server's answer (RFC 6749, 4.1.2 and RFC 9207).
type Answer struct {
	State, Code, Issuer string
	// Error is the refusal code.
	Error string
	// Device reports that the state belongs to a device consent: the host polls for its answer.
	Device bool
	// Immediate polls at most once, and does not wait for the user.
	Immediate bool
	// RedirectURL belongs to a client that received the answer; empty for the host's.
	RedirectURL string
	// User, SessionID and CallID, if set, must be the request's.
	User              *User
	SessionID, CallID string
}

// An AnswerError is an error about an answer.
type AnswerError struct {
	// Text is for the user.
	Text string
	// Pending reports that the user has not authorized a device consent yet: the same answer is
	// possible again.
	Pending bool
}

// Error returns the text.
func (e *AnswerError) Error() string { return e.Text }

// ErrNoConsent reports an answer to a consent that was not requested, has expired or has
// been answered.
var ErrNoConsent error = &AnswerError{Text: "this authorization was not requested, has expired or has been used: start again in the conversation"}
