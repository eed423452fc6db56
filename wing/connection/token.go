package connection

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"agenthost/internal/limit"
	"agenthost/pkg/connection"
	"agenthost/pkg/spec"
)

// A tokenServer is an authorization server. Its address is an issuer with metadata that names the
// token endpoint, or the endpoint itself.
type tokenServer struct {
	client *http.Client
	// issuer is empty if the endpoints are the document's.
	issuer, authorizationURL, deviceURL, tokenURL string
}

// A tokenRequest is a form with the client's authentication.
type tokenRequest struct {
	form url.Values
	// id and secret are the client's; the secret may be empty.
	id, secret string
	// endpoint, if set, is the token endpoint.
	endpoint string
	// redactor removes the request's secrets from errors.
	redactor *spec.Redactor
	// inBody sends the client's ID and secret in the form.
	inBody bool
}

// A tokenResponse is a token endpoint's response (RFC 6749, 5.1).
type tokenResponse struct {
	AccessToken  string  `json:"access_token"`
	RefreshToken string  `json:"refresh_token"`
	TokenType    string  `json:"token_type"`
	ExpiresIn    seconds `json:"expires_in"`
}

// seconds are a number, or a string with one, as some servers write them.
type seconds int64

// maxSeconds bounds them, so that sums with a time do not overflow.
const maxSeconds = 1 << 40

// UnmarshalJSON reads them. Without a value they are 0.
func (s *seconds) UnmarshalJSON(raw []byte) error {
	text := strings.Trim(string(raw), `"`)
	if text == "" || text == "null" {
		return nil
	}
	n, err := strconv.ParseFloat(text, 64)
	if math.IsNaN(n) || err != nil && !errors.Is(err, strconv.ErrRange) {
		return errors.New("it must be a number of seconds")
	}
	*s = seconds(min(max(n, 0), maxSeconds))
	return nil
}

const (
	maxErrorText = 200
)

func newTokenServer(c *oauthConfig, env connection.Env) *tokenServer {
	return &tokenServer{
		client: withoutRedirects(env.HTTP), issuer: c.Issuer.Value, authorizationURL: c.AuthorizationURL.Value, deviceURL: c.DeviceURL.Value, tokenURL: c.TokenURL.Value,
	}
}

// withoutRedirects returns a client copy that follows no redirects: requests to token endpoints
// contain secrets.
func withoutRedirects(c *http.Client) *http.Client {
	if c == nil {
		c = http.DefaultClient
	}
	direct := *c
	direct.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &direct
}

// An oauthClient is the host's identity at an authorization server, and what its tokens are for. It
// is stored with consents and tokens if it was discovered.
type oauthClient struct {
	ID string `json:"id"`
	// Secret is empty for a public client.
	Secret string `json:"secret,omitempty"`
	// TokenAuth is how the client authenticates to the token endpoint (RFC 7591, 2).
	TokenAuth string   `json:"token_auth,omitempty"`
	Scopes    []string `json:"scopes,omitempty"`
	Audience  string   `json:"audience,omitempty"`
	// Resource is the service that the tokens are for (RFC 8707).
	Resource string `json:"resource,omitempty"`
}

// The values of TokenAuth.
const (
	authBasic = "client_secret_basic"
	authPost  = "client_secret_post"
	authNone  = "none"
)

// newClient returns the client in the document.
func (c *oauthConfig) newClient() *oauthClient {
	return &oauthClient{
		ID: c.ClientID.Reveal(), Secret: c.ClientSecret.Reveal(), TokenAuth: c.TokenAuth, Scopes: c.Scopes, Audience: c.Audience, Resource: c.Resource.Value,
	}
}

// newTokenRequest returns a request with the authentication of the document's client.
func (c *oauthConfig) newTokenRequest(form url.Values, secrets ...string) tokenRequest {
	return c.newClient().newTokenRequest(form, secrets...)
}

// newTokenRequest returns a request with the client's authentication. Its errors do not show the
// secrets.
func (c *oauthClient) newTokenRequest(form url.Values, secrets ...string) tokenRequest {
	if c.Resource != "" {
		form.Set("resource", c.Resource)
	}
	return tokenRequest{
		form: form, id: c.ID, secret: c.Secret, redactor: spec.NewRedactor(append(secrets, c.Secret)...),
		inBody: c.Secret == "" || c.TokenAuth == authPost,
	}
}

// requestToken requests a token. Its errors contain neither the secret nor the token.
func (s *tokenServer) requestToken(ctx context.Context, r tokenRequest) (*tokenResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, limit.TokenAnswer.Time)
	defer cancel()
	if r.endpoint == "" {
		m, err := s.findMetadata(ctx)
		if err != nil {
			return nil, r.redactError(err)
		}
		r.endpoint = m.TokenURL
	}
	token, err := s.postForm(ctx, r)
	if err != nil {
		return nil, r.redactError(fmt.Errorf("requesting a token: %w", err))
	}
	return token, nil
}

func (r *tokenRequest) redactError(err error) error {
	text := r.redactor.RedactString(err.Error())
	if text == err.Error() {
		return err
	}
	if failed := (*tokenError)(nil); errors.As(err, &failed) {
		return &tokenError{failed.code, text}
	}
	return errors.New(text)
}

// A tokenError is a token endpoint's error (RFC 6749, 5.2).
type tokenError struct{ code, text string }

// Error returns the status with the server's error.
func (e *tokenError) Error() string { return e.text }

func (s *tokenServer) postForm(ctx context.Context, r tokenRequest) (*tokenResponse, error) {
	raw, err := s.sendForm(ctx, r)
	if err != nil {
		return nil, err
	}
	var token tokenResponse
	if err := json.Unmarshal(raw, &token); err != nil {
		return nil, errors.New("the response is not valid token JSON")
	}
	if !strings.EqualFold(token.TokenType, "bearer") {
		return nil, fmt.Errorf("token_type must be Bearer, got %s", describeTokenType(token.TokenType))
	}
	if !headerValue.MatchString(token.AccessToken) {
		return nil, errors.New("the response has no valid access_token")
	}
	return &token, nil
}

// describeTokenType returns a token type for an error. Only registered types are quoted: a
// server may write the token itself into the field.
func describeTokenType(name string) string {
	switch strings.ToLower(name) {
	case "":
		return "none"
	case "mac", "dpop", "pop", "n_a", "basic":
		return strconv.Quote(name)
	}
	return "an unknown type"
}

// sendForm posts a form, and returns a successful response's body.
func (s *tokenServer) sendForm(ctx context.Context, r tokenRequest) ([]byte, error) {
	if r.inBody {
		r.form.Set("client_id", r.id)
	}
	if r.inBody && r.secret != "" {
		r.form.Set("client_secret", r.secret)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.endpoint, strings.NewReader(r.form.Encode()))
	if err != nil {
		return nil, errors.New("invalid token endpoint")
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	if !r.inBody { // RFC 6749, 2.3.1
		req.SetBasicAuth(url.QueryEscape(r.id), url.QueryEscape(r.secret))
	}
	raw, status, err := s.sendRequest(req)
	if err != nil {
		return nil, err
	}
	if status != http.StatusOK {
		return nil, newTokenError(status, raw, r.redactor)
	}
	return raw, nil
}

// sendRequest returns a response's bounded body and status.
func (s *tokenServer) sendRequest(req *http.Request) ([]byte, int, error) {
	resp, err := s.client.Do(req)
	if err != nil {
		if ue := (*url.Error)(nil); errors.As(err, &ue) {
			err = ue.Err
		}
		return nil, 0, err
	}
	defer resp.Body.Close()
	raw, err := limit.TokenAnswer.ReadAll(resp.Body)
	return raw, resp.StatusCode, err
}

// newTokenError returns a response's error. It removes secrets before it cuts the text: a cut could
// leave a part of one.
func newTokenError(status int, raw []byte, redactor *spec.Redactor) error {
	var e struct {
		Code        string `json:"error"`
		Description string `json:"error_description"`
	}
	text := fmt.Sprintf("%d %s", status, http.StatusText(status))
	if json.Unmarshal(raw, &e) == nil && e.Code != "" {
		text += ": " + cutText(redactor.RedactString(e.Code))
		if e.Description != "" {
			text += ": " + cutText(redactor.RedactString(e.Description))
		}
	}
	return &tokenError{e.Code, text}
}

// cutText bounds a server's string, and replaces its control characters.
func cutText(text string) string {
	clean := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
	if runes := []rune(clean); len(runes) > maxErrorText {
		return string(runes[:maxErrorText]) + "…"
	}
	return clean
}

// serverMetadata is an authorization server's metadata (RFC 8414, 2, RFC 8628, 4, RFC 9207, 3 and
// OAuth Client ID Metadata Document, 5).
type serverMetadata struct {
	Issuer           string `json:"issuer"`
	AuthorizationURL string `json:"authorization_endpoint"`
	DeviceURL        string `json:"device_authorization_endpoint"`
	TokenURL         string `json:"token_endpoint"`
	IssuerInAnswer   bool   `json:"authorization_response_iss_parameter_supported"`

	RegistrationURL  string   `json:"registration_endpoint"`
	ClientDocuments  bool     `json:"client_id_metadata_document_supported"`
	TokenAuthMethods []string `json:"token_endpoint_auth_methods_supported"`
	Challenges       []string `json:"code_challenge_methods_supported"`
	Scopes           []string `json:"scopes_supported"`
}

// findMetadata returns the endpoints in the document or in the issuer's metadata. Those for users
// are empty if there are none.
func (s *tokenServer) findMetadata(ctx context.Context) (*serverMetadata, error) {
	if s.tokenURL != "" {
		return &serverMetadata{AuthorizationURL: s.authorizationURL, DeviceURL: s.deviceURL, TokenURL: s.tokenURL}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, limit.TokenAnswer.Time)
	defer cancel()
	var last error
	for _, address := range metadataURLs(s.issuer) {
		m, err := s.readMetadata(ctx, address)
		if err == nil {
			return m, nil
		}
		last = err
	}
	return nil, fmt.Errorf("metadata of %s: %w", s.issuer, last)
}

// metadataURLs returns the places for issuer metadata, in ADK's order (RFC 8414, 3.1 and OpenID
// Connect Discovery 1.0, 4).
func metadataURLs(issuer string) []string {
	u, err := url.Parse(strings.TrimSuffix(issuer, "/"))
	if err != nil {
		return nil // the config was checked
	}
	path := u.EscapedPath()
	root := u.Scheme + "://" + u.Host
	all := []string{root + "/.well-known/oauth-authorization-server" + path, root + "/.well-known/openid-configuration" + path}
	if path != "" {
		all = append(all, root+path+"/.well-known/openid-configuration")
	}
	return all
}

func (s *tokenServer) readMetadata(ctx context.Context, address string) (*serverMetadata, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, errors.New("invalid issuer")
	}
	raw, status, err := s.sendRequest(req)
	if err != nil {
		return nil, err
	}
	if status != http.StatusOK {
		return nil, fmt.Errorf("%d %s", status, http.StatusText(status))
	}
	var m serverMetadata
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, errors.New("the metadata is not valid JSON")
	}
	if !sameIssuer(m.Issuer, s.issuer) {
		return nil, fmt.Errorf("the metadata names another issuer: %q", cutText(m.Issuer))
	}
	if err := checkServerURL(m.TokenURL); err != nil {
		return nil, fmt.Errorf("token_endpoint: %w", err)
	}
	for name, endpoint := range map[string]string{
		"authorization_endpoint": m.AuthorizationURL, "device_authorization_endpoint": m.DeviceURL, "registration_endpoint": m.RegistrationURL,
	} {
		if endpoint == "" {
			continue
		}
		if err := checkServerURL(endpoint); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return &m, nil
}

func sameIssuer(a, b string) bool { return strings.TrimSuffix(a, "/") == strings.TrimSuffix(b, "/") }
