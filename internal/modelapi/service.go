// Package modelapi is what model vendors share: HTTP calls with limits and timeouts, a service's
// addresses and keys, lenient decoding, token counts, tool calls, schemas and the marks on parts.
package modelapi

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"

	"google.golang.org/genai"

	"agenthost/internal/charset"
	"agenthost/internal/limit"
	"agenthost/internal/modelcall"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/pkg/spec"
)

// A Service is a model's HTTP API. Providers translate requests to JSON and responses from JSON;
// everything that their APIs have in common is here: size and time limits, rejected redirects,
// errors, and secrets that are redacted in them. It is safe for concurrent use.
type Service struct {
	model  string // the model's name in errors
	client *http.Client
	// ParseError returns an error body's status word and message; each may be empty. nil is
	// parseServiceError.
	ParseError func(body []byte) (status, message string)
}

// NewService returns a service for a model. A nil client is [http.DefaultClient].
func NewService(model string, client *http.Client, timeouts provider.TimeoutOptions) *Service {
	if client == nil {
		client = http.DefaultClient
	}
	own := *client
	own.Transport = NewTimeoutTransport(client.Transport, timeouts)
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Service{model: model, client: &own, ParseError: ParseServiceError}
}

// A Request is one call to a service.
type Request struct {
	Url    string
	Header http.Header // with the credentials
	Body   any         // encoded as JSON
	// Secrets are redacted in errors.
	Secrets []string
	// timeout limits the whole call; 0 disables the limit.
	timeout time.Duration
	// MaxCalls is the limit in the runtime's request.
	MaxCalls int
}

// AddOptions adds the generation settings' headers and timeout. opts may be nil.
func (r *Request) AddOptions(opts *genai.HTTPOptions) {
	if opts == nil {
		return
	}
	for name, values := range opts.Headers {
		r.Header[http.CanonicalHeaderKey(name)] = values
	}
	if opts.Timeout != nil {
		r.timeout = *opts.Timeout
	}
}

// PostJSON sends a request. The caller closes the response. A status other than 2xx and an HTML
// page are errors. All errors are those that [model.LLM] promises.
func (s *Service) PostJSON(ctx context.Context, req *Request) (*Response, error) {
	raw, err := json.Marshal(req.Body)
	if err != nil {
		return nil, modelcall.NewConfigError(http.StatusBadRequest, "cannot encode request: "+err.Error())
	}
	if problem := BadBaseURL(req.Url); problem != "" {
		return nil, modelcall.NewConfigError(http.StatusBadRequest, problem)
	}
	r := &Response{service: s, caller: ctx.Err, Redactor: spec.NewRedactor(req.Secrets...), Budget: NewAnswerBudget(req.MaxCalls)}
	if req.timeout > 0 {
		ctx, r.cancel = context.WithTimeoutCause(ctx, req.timeout, &silenceError{req.timeout, "a complete response"})
	} else {
		ctx, r.cancel = context.WithCancel(ctx)
	}
	if err := r.sendCall(ctx, req, raw); err != nil {
		r.cancel()
		return nil, err
	}
	return r, nil
}

// A Response is a service's response. Its body is read once: by readBody, readEvents or readLines.
type Response struct {
	service  *Service
	url      string // for errors, without user info and query
	Header   http.Header
	body     *serviceBody
	Redactor *spec.Redactor
	Budget   *AnswerBudget
	cancel   context.CancelFunc
	caller   func() error // the caller's context error
}

func (r *Response) sendCall(ctx context.Context, req *Request, body []byte) error {
	call, err := http.NewRequestWithContext(ctx, http.MethodPost, req.Url, bytes.NewReader(body))
	if err != nil {
		return modelcall.NewConfigError(http.StatusBadRequest, "base_url is not a valid URL")
	}
	r.url = modelcall.BareURL(call.URL)
	call.Header.Set("Content-Type", "application/json")
	call.Header.Set("User-Agent", "agenthost")
	for name, values := range req.Header {
		call.Header[http.CanonicalHeaderKey(name)] = values
	}
	resp, err := r.service.client.Do(call)
	if err != nil {
		return r.ToModelError(err)
	}
	r.Header, r.body = resp.Header, &serviceBody{Reader: bufio.NewReader(limit.ModelAnswer.NewReader(resp.Body)), Closer: resp.Body}
	switch {
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		defer r.CloseBody()
		return r.errorFromStatus(resp)
	case strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html"):
		defer r.CloseBody()
		return r.htmlError(0)
	}
	return nil
}

// CloseBody ends the call.
func (r *Response) CloseBody() {
	_ = r.body.Close()
	r.cancel()
}

// DrainBody reads a complete response to its end for at most a second: only a drained connection is
// reused.
func (r *Response) DrainBody() {
	defer time.AfterFunc(time.Second, r.cancel).Stop()
	_, _ = io.CopyN(io.Discard, r.body, 4<<10)
}

// errorFromStatus reads an error's body.
func (r *Response) errorFromStatus(resp *http.Response) *model.Error {
	body, err := io.ReadAll(io.LimitReader(r.body, int64(limit.ModelError.Bytes)))
	if err != nil {
		body = nil
	}
	if IsHTML(body) {
		e := r.htmlError(resp.StatusCode)
		e.Err = modelcall.RetryAfter(resp.Header)
		return e
	}
	body = charset.DecodeText(resp.Header.Get("Content-Type"), body)
	status, message := r.service.ParseError([]byte(r.Redactor.RedactString(string(body))))
	if message == "" {
		message = fmt.Sprintf("%s answered %s", r.service.model, resp.Status)
	}
	e := r.NewError(resp.StatusCode, message)
	e.Status, e.Err = cmp.Or(status, e.Status), modelcall.RetryAfter(resp.Header)
	e.Reason = r.Redactor.RedactString(ErrorReason(body))
	return e
}

// NewError returns a service error, with redacted secrets. code is the HTTP status, or 0.
func (r *Response) NewError(code int, message string) *model.Error {
	return &model.Error{Code: code, Status: modelcall.StatusWord(code), Message: r.Redactor.RedactString(message), URL: r.url}
}

// MalformedError returns the error for a body or an event that cannot be decoded.
func (r *Response) MalformedError(data []byte, err error) *model.Error {
	if IsHTML(data) {
		return r.htmlError(0)
	}
	e := r.NewError(0, fmt.Sprintf("malformed response from %s: %v in %q", r.service.model, err, r.Redactor.RedactStart(string(data), MaxQuoted)))
	e.Err = err
	return e
}

// htmlError returns the error for an HTML page. Pages with a 5xx status come from proxies; others
// come from another server.
func (r *Response) htmlError(code int) *model.Error {
	return r.NewError(code, HTMLMessage(r.service.model, code))
}

// HTMLMessage returns the message for an HTML page instead of a response; code is the HTTP status.
func HTMLMessage(name string, code int) string {
	if code < 500 {
		return name + " answered with HTML: is base_url right?"
	}
	return name + " answered with HTML"
}

// IsHTML reports whether a body is an HTML page.
func IsHTML(body []byte) bool { return bytes.HasPrefix(bytes.TrimSpace(body), []byte("<")) }

// ToModelError converts a network or body error.
func (r *Response) ToModelError(err error) error {
	if ended := r.caller(); ended != nil {
		return fmt.Errorf("calling %s: %w", r.service.model, ended)
	}
	if named, ok := errors.AsType[*model.Error](err); ok {
		return named
	}
	if tooLarge, ok := errors.AsType[*limit.Error](err); ok {
		e := r.NewError(0, tooLarge.Error())
		e.Err = tooLarge
		return e
	}
	if urlErr, ok := errors.AsType[*url.Error](err); ok {
		err = urlErr.Err
	}
	e := r.NewError(0, fmt.Sprintf("no response from %s: %s", r.service.model, err))
	e.Status, e.Err = StatusOfSilence(err), err
	return e
}

// ReadBody reads a body that is not streamed.
func (r *Response) ReadBody() ([]byte, error) {
	raw, err := io.ReadAll(r.body)
	if err != nil {
		return nil, r.ToModelError(fmt.Errorf("response was truncated: %w", err))
	}
	raw = charset.DecodeJSON(r.Header.Get("Content-Type"), raw)
	if err := limit.ModelAnswer.CheckJSON(raw); err != nil {
		return nil, r.ToModelError(err)
	}
	return raw, nil
}

// A serviceBody is a body whose beginning can be read twice.
type serviceBody struct {
	*bufio.Reader
	io.Closer
}

// IsStream reports whether the body has server-sent events, by its beginning: some gateways
// answer a request for a stream with JSON, or one for JSON with a stream. requested is what
// the request asked for, which decides in doubt.
func (r *Response) IsStream(requested bool) bool {
	if first := r.body.peekByte(); first == '{' || first == '[' {
		return false
	}
	field, _ := r.body.Peek(len("event:"))
	for _, name := range []string{"data:", "event:", ":"} {
		requested = requested || bytes.HasPrefix(field, []byte(name))
	}
	return requested
}

// peekByte drops white space and a byte order mark, and returns the next byte without reading it.
// It returns 0 after a failure; the next read reports it.
func (b *serviceBody) peekByte() byte {
	for {
		next, err := b.Peek(1)
		if err != nil {
			return 0
		}
		switch next[0] {
		case ' ', '\t', '\r', '\n':
			_, _ = b.Discard(1)
		case Utf8Mark[0]:
			if mark, _ := b.Peek(len(Utf8Mark)); string(mark) != Utf8Mark {
				return next[0]
			}
			_, _ = b.Discard(len(Utf8Mark))
		default:
			return next[0]
		}
	}
}

// Utf8Mark is the UTF-8 byte order mark.
const Utf8Mark = "\xef\xbb\xbf"

// ReadValues yields the JSON values in a body: one, or a stream's. A failure is yielded last; an
// HTML page is one.
func (r *Response) ReadValues() iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		if r.body.peekByte() == '<' {
			yield(nil, r.htmlError(0))
			return
		}
		event := &limit.EventReader{Reader: r.body, Input: limit.ModelEvent}
		values := json.NewDecoder(event)
		for {
			var value json.RawMessage
			err := values.Decode(&value)
			event.NextEvent()
			if err == nil {
				err = limit.ModelEvent.CheckJSON(value)
			}
			if errors.Is(err, io.EOF) {
				return
			}
			if _, malformed := errors.AsType[*json.SyntaxError](err); malformed {
				rest, _ := io.ReadAll(io.LimitReader(values.Buffered(), int64(limit.ModelError.Bytes)))
				err = r.MalformedError(rest, err)
			} else if err != nil {
				err = r.ToModelError(fmt.Errorf("stream was interrupted: %w", err))
			}
			if !yield(value, err) || err != nil {
				return
			}
		}
	}
}

// ForwardChunks returns yield if the request asks for a stream, or else a function that drops
// partial responses.
func ForwardChunks(requested bool, yield func(*model.Response, error) bool) func(*model.Response, error) bool {
	if requested {
		return yield
	}
	return func(r *model.Response, err error) bool { return r != nil && r.Partial || yield(r, err) }
}

// A Event is one server-sent event. Its data is valid until the next one.
type Event struct {
	name string // empty without an `event:` line
	Data []byte
}

// ReadEvents yields a stream's server-sent events, one for each `data:` line: servers write JSON on
// one line, and some forget the empty line after it. A failure is yielded last. The consumer
// decides whether the stream is complete.
func (r *Response) ReadEvents() iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		name := ""
		for line, err := range r.readLines() {
			if err != nil {
				yield(Event{}, err)
				return
			}
			if len(line) == 0 {
				name = ""
				continue
			}
			field, value, _ := bytes.Cut(line, []byte(":"))
			value = bytes.TrimSpace(value)
			switch string(field) {
			case "event":
				name = string(value)
			case "data":
				if err := limit.ModelEvent.CheckJSON(value); err != nil {
					yield(Event{}, r.ToModelError(err))
					return
				}
				if len(value) > 0 && !yield(Event{name, value}, nil) {
					return
				}
			}
		}
	}
}

// readLines yields a stream's lines without white space around them. A failure is yielded last; an
// HTML page is one. A line is valid until the next one.
func (r *Response) readLines() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		lines := limit.NewLines(r.body, limit.ModelEvent)
		for lines.Scan() {
			line := bytes.TrimSpace(lines.Bytes())
			if IsHTML(line) {
				yield(nil, r.htmlError(0))
				return
			}
			if !yield(line, nil) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(nil, r.ToModelError(fmt.Errorf("stream was interrupted: %w", err)))
		}
	}
}

// ParseServiceError returns an error body's message: {"error": {"message": …}}, {"error": …},
// {"message": …}, {"detail": …}, or else the body itself.
func ParseServiceError(body []byte) (status, message string) {
	var fields map[string]any
	if json.Unmarshal(body, &fields) != nil {
		return "", truncateBytes(bytes.TrimSpace(body))
	}
	if inner, ok := fields["error"].(map[string]any); ok {
		fields = inner
	}
	for _, key := range []string{"message", "error", "detail"} {
		if text, ok := fields[key].(string); ok && text != "" {
			return "", text
		}
	}
	return "", truncateBytes(bytes.TrimSpace(body))
}

// ErrorReason returns an error body's code, {"error": {"code": …}}, or else its type, if they are
// words.
func ErrorReason(body []byte) string {
	var fields struct {
		Error struct{ Code, Type any }
	}
	if json.Unmarshal(body, &fields) != nil {
		return ""
	}
	code, _ := fields.Error.Code.(string)
	kind, _ := fields.Error.Type.(string)
	return cmp.Or(code, kind)
}

// BadBaseURL returns what is wrong with a base URL, or "".
func BadBaseURL(base string) string {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return "base_url must be a URL such as https://example.com"
	}
	if strings.Contains(base, "#") {
		return "base_url cannot have a fragment: remove # and what follows"
	}
	return ""
}

// MaxQuoted is how many bytes an error quotes from an answer.
const MaxQuoted = 200

func truncateBytes(text []byte) string {
	if len(text) > MaxQuoted {
		return string(bytes.ToValidUTF8(text[:MaxQuoted], nil)) + "…"
	}
	return string(text)
}
