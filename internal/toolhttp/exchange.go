// Package toolhttp sends tools' HTTP requests, and reads the responses within limits and without
// secrets.
package toolhttp

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"

	"agenthost/pkg/connection"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// An Exchange sends tools' HTTP requests, and reads the responses: it bounds them, guards
// redirects, and redacts secrets. It is immutable and safe for concurrent use.
type Exchange struct {
	client      *http.Client
	connection  *connection.Connection
	maxResponse int64
	secrets     []string
	// redactor removes the secrets from responses and errors.
	redactor *spec.Redactor
}

// NewExchange returns an exchange over an environment's client, with its connection. A response has
// at most maxResponse bytes.
func NewExchange(env tool.Env, maxResponse int64, secrets ...string) *Exchange {
	return &Exchange{GuardRedirects(env.HTTP), env.Connection, maxResponse, slices.Clip(secrets), spec.NewRedactor(secrets...)}
}

// WithSecrets returns an exchange that redacts further secrets, such as a session's credentials.
func (e *Exchange) WithSecrets(secrets ...string) *Exchange {
	if len(secrets) == 0 {
		return e
	}
	more := *e
	more.secrets = append(e.secrets, secrets...)
	more.redactor = spec.NewRedactor(more.secrets...)
	return &more
}

// WithoutConnection returns an exchange that sends no credential.
func (e *Exchange) WithoutConnection() *Exchange {
	bare := *e
	bare.connection = nil
	return &bare
}

// OpenResponse sends a request with the connection's credential, and returns the response unread.
// The returned exchange redacts the credential.
func (e *Exchange) OpenResponse(req *http.Request, call *tool.Call) (*http.Response, *Exchange, error) {
	resp, secrets, err := e.connection.Send(e.client, req, connection.User{App: call.Origin.App, UserID: call.Origin.UserID})
	e = e.WithSecrets(secrets...)
	if err != nil {
		return nil, e, e.RedactError(UnwrapURLError(err))
	}
	return resp, e, nil
}

// SendRequest sends a request and reads the response. A status other than 2xx is an error.
func (e *Exchange) SendRequest(req *http.Request, call *tool.Call) (*Response, error) {
	resp, e, err := e.OpenResponse(req, call)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	got, err := e.ReadResponse(resp)
	if err != nil {
		return nil, e.RedactError(err)
	}
	return got, nil
}

// RedactError removes the secrets that the service repeated, such as in the
// status or in an unparsable URL.
func (e *Exchange) RedactError(err error) error {
	if text := e.redactor.RedactString(err.Error()); text != err.Error() {
		return errors.New(text)
	}
	return err
}

// UnwrapURLError removes the URL, which may contain a key, from the error.
func UnwrapURLError(err error) error {
	if ue := (*url.Error)(nil); errors.As(err, &ue) {
		return ue.Err
	}
	return err
}

// ReadResponse reads a response within the limit, with *** for secrets
// that the service repeats. A status other than 2xx is an error.
func (e *Exchange) ReadResponse(resp *http.Response) (*Response, error) {
	raw, err := io.ReadAll(io.LimitReader(resp.Body, e.maxResponse+1))
	tooLarge := int64(len(raw)) > e.maxResponse
	raw = []byte(e.redactor.RedactString(string(raw)))
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil, newStatusError(resp, raw)
	}
	if err != nil {
		return nil, fmt.Errorf("reading response: %w", err)
	}
	if tooLarge {
		return nil, fmt.Errorf("the response exceeds the limit of %s", FormatSize(e.maxResponse))
	}
	got, err := decodeBody(resp.Header.Get("Content-Type"), raw)
	if err != nil {
		return nil, err
	}
	header := resp.Header.Clone()
	for _, values := range header {
		for i := range values {
			values[i] = e.redactor.RedactString(values[i])
		}
	}
	got.Status, got.Header, got.Body = resp.StatusCode, header, e.redactor.RedactValue(got.Body)
	return got, nil
}

// UserAgent is the User-Agent in all tool requests.
const UserAgent = "agenthost"

// SetRequestHeaders sets the headers that all tool requests have: the user agent, the body's type,
// if there is one, and the call's idempotency key.
func SetRequestHeaders(req *http.Request, call *tool.Call, contentType string) {
	req.Header.Set("User-Agent", UserAgent)
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	if req.Method != http.MethodGet && call.IdempotencyKey != "" {
		req.Header.Set("Idempotency-Key", call.IdempotencyKey)
	}
}

// ConstantHost returns the scheme and host with which an http or https URL begins, or
// "" if the host contains a placeholder or is missing.
func ConstantHost(url string) string { return urlBase.FindString(url) }

var urlBase = regexp.MustCompile(`^https?://[^/?#{}\\]+`)

// DecodeEvent decodes one response event, whose data has a media type; an empty one means that the
// data decides. Secrets become ***.
func (e *Exchange) DecodeEvent(resp *http.Response, mediaType string, data []byte) (*Response, error) {
	got, err := decodeBody(mediaType, []byte(e.redactor.RedactString(string(data))))
	if err != nil {
		return nil, err
	}
	if got.file != nil {
		return nil, errors.New("an event is neither JSON nor UTF-8 text")
	}
	got.Status, got.Header, got.Body = resp.StatusCode, resp.Header, e.redactor.RedactValue(got.Body)
	return got, nil
}
