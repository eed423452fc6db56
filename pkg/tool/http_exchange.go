package tool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/connection"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
)

// An Exchange sends the requests of tools over HTTP, and reads the responses: it bounds
// them, guards redirects, and redacts secrets. It is immutable and safe for concurrent use.
type Exchange struct {
	client      *http.Client
	connection  *connection.Connection
	maxResponse int64
	secrets     []string
	// redactor removes the secrets from responses and errors.
	redactor *spec.Redactor
}

// NewExchange returns an exchange over the client of an environment, with its connection. A
// response has at most maxResponse bytes.
func NewExchange(env Env, maxResponse int64, secrets ...string) *Exchange {
	return &Exchange{GuardRedirects(env.HTTP), env.Connection, maxResponse, slices.Clip(secrets), spec.NewRedactor(secrets...)}
}

// WithSecrets returns an exchange that redacts further secrets, such as the credentials of
// a session.
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

// sendAuthorized sends a request with the credential of the connection. The returned exchange
// redacts it.
func (e *Exchange) sendAuthorized(req *http.Request, call *Call) (*http.Response, *Exchange, error) {
	resp, secrets, err := e.connection.Send(e.client, req, connection.User{App: call.Origin.App, UserID: call.Origin.UserID})
	e = e.WithSecrets(secrets...)
	if err != nil {
		return nil, e, e.redactError(unwrapURLError(err))
	}
	return resp, e, nil
}

// SendRequest sends a request and reads the response. A status other than 2xx is an error.
func (e *Exchange) SendRequest(req *http.Request, call *Call) (*Response, error) {
	resp, e, err := e.sendAuthorized(req, call)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	got, err := e.readResponse(resp)
	if err != nil {
		return nil, e.redactError(err)
	}
	return got, nil
}

// redactError removes the secrets that the service repeated, such as in the
// status or in an unparsable URL.
func (e *Exchange) redactError(err error) error {
	if text := e.redactor.RedactString(err.Error()); text != err.Error() {
		return errors.New(text)
	}
	return err
}

// unwrapURLError removes the URL, which may contain a key, from the error.
func unwrapURLError(err error) error {
	if ue := (*url.Error)(nil); errors.As(err, &ue) {
		return ue.Err
	}
	return err
}

// A Response is a decoded response with a 2xx status.
type Response struct {
	// Status is the status code, Header the header of the response.
	Status int
	Header http.Header
	// Body is a JSON value, a string, or nil for an empty body and for a file; see
	// [Response.SaveFile].
	Body any
	// IsJSON reports that the body is a JSON value.
	IsJSON bool
	// raw is the body as it was received, and file that of a file, else nil.
	raw  []byte
	file *genai.Blob
}

// responseEnv declares the variables of the result expression.
func responseEnv() template.Env {
	return template.Env{"status": int64(0), "headers": map[string]any{}, "body": nil}
}

// exprVars returns the values of the variables in responseEnv. Header names are
// in lower case.
func (r *Response) exprVars() map[string]any {
	headers := make(map[string]any, len(r.Header))
	for name, values := range r.Header {
		headers[strings.ToLower(name)] = strings.Join(values, ", ")
	}
	return map[string]any{"status": int64(r.Status), "headers": headers, "body": r.Body}
}

// readResponse reads a response within the limit, with *** for secrets
// that the service repeats. A status other than 2xx is an error.
func (e *Exchange) readResponse(resp *http.Response) (*Response, error) {
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
		return nil, fmt.Errorf("the response exceeds the limit of %s", formatSize(e.maxResponse))
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

const userAgent = "agenthost"

// SetRequestHeaders sets the headers that all requests of tools have: the user agent, the
// type of the body, if there is one, and the idempotency key of the call.
func SetRequestHeaders(req *http.Request, call *Call, contentType string) {
	req.Header.Set("User-Agent", userAgent)
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	if req.Method != http.MethodGet && call.IdempotencyKey != "" {
		req.Header.Set("Idempotency-Key", call.IdempotencyKey)
	}
}

// A ResultRule is a compiled result expression over status, headers and body.
type ResultRule struct{ expr *template.Expr }

// CompileResult compiles the result of a document. It returns nil if there is none. The
// error is a [spec.Diagnostics].
func CompileResult(src spec.Expr) (*ResultRule, error) {
	if src.Value == "" {
		return nil, nil
	}
	x, err := template.Compile(src.Value, responseEnv())
	if err != nil {
		return nil, spec.Diagnostics{templateError(src.Text, "expression", err)}
	}
	return &ResultRule{x}, nil
}

// Eval returns the result for a response.
func (r *ResultRule) Eval(ctx context.Context, call *Call, got *Response) (any, error) {
	vars := got.exprVars()
	vars[template.BudgetName] = call.Expressions
	value, err := r.expr.Eval(ctx, vars)
	if err != nil {
		return nil, fmt.Errorf("result: %w", err)
	}
	return value, nil
}
