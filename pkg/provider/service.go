package provider

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
	"agenthost/pkg/model"
	"agenthost/pkg/spec"
)

// A service is the HTTP API of a model. Providers translate requests to JSON and
// responses from JSON; everything that their APIs have in common is here: limits of
// size and time, rejected redirects, errors, and secrets that are redacted in them. It is
// safe for concurrent use.
type service struct {
	model  string // the model's name in errors
	client *http.Client
	// parseError returns the status word and the message of an error body; each may be
	// empty. nil is parseServiceError.
	parseError func(body []byte) (status, message string)
}

// newService returns a service for a model. A nil client is [http.DefaultClient].
func newService(model string, client *http.Client, timeouts TimeoutOptions) *service {
	if client == nil {
		client = http.DefaultClient
	}
	own := *client
	own.Transport = newTimeoutTransport(client.Transport, timeouts)
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &service{model: model, client: &own, parseError: parseServiceError}
}

// A serviceRequest is one call of a service.
type serviceRequest struct {
	url    string
	header http.Header // with the credentials
	body   any         // encoded as JSON
	// secrets are redacted in errors.
	secrets []string
	// timeout limits the whole call; 0 disables the limit.
	timeout time.Duration
	// maxCalls is that of the request of the runtime.
	maxCalls int
}

// addOptions adds the headers and the timeout of the generation settings. opts may be
// nil.
func (r *serviceRequest) addOptions(opts *genai.HTTPOptions) {
	if opts == nil {
		return
	}
	for name, values := range opts.Headers {
		r.header[http.CanonicalHeaderKey(name)] = values
	}
	if opts.Timeout != nil {
		r.timeout = *opts.Timeout
	}
}

// postJSON sends a request. The caller closes the response. A status other than 2xx and a
// page of HTML are errors. All errors are those that [model.LLM] promises.
func (s *service) postJSON(ctx context.Context, req *serviceRequest) (*serviceResponse, error) {
	raw, err := json.Marshal(req.body)
	if err != nil {
		return nil, newConfigError(http.StatusBadRequest, "cannot encode request: "+err.Error())
	}
	if problem := badBaseURL(req.url); problem != "" {
		return nil, newConfigError(http.StatusBadRequest, problem)
	}
	r := &serviceResponse{service: s, caller: ctx.Err, redactor: spec.NewRedactor(req.secrets...), budget: newAnswerBudget(req.maxCalls)}
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

// A serviceResponse is the response of a service. Its body is read once: by readBody,
// readEvents or readLines.
type serviceResponse struct {
	service  *service
	url      string // for errors, without user info and query
	header   http.Header
	body     *serviceBody
	redactor *spec.Redactor
	budget   *answerBudget
	cancel   context.CancelFunc
	caller   func() error // the error of the caller's context
}

func (r *serviceResponse) sendCall(ctx context.Context, req *serviceRequest, body []byte) error {
	call, err := http.NewRequestWithContext(ctx, http.MethodPost, req.url, bytes.NewReader(body))
	if err != nil {
		return newConfigError(http.StatusBadRequest, "base_url is not a valid URL")
	}
	r.url = bareURL(call.URL)
	call.Header.Set("Content-Type", "application/json")
	call.Header.Set("User-Agent", "agenthost")
	for name, values := range req.header {
		call.Header[http.CanonicalHeaderKey(name)] = values
	}
	resp, err := r.service.client.Do(call)
	if err != nil {
		return r.toModelError(err)
	}
	r.header, r.body = resp.Header, &serviceBody{Reader: bufio.NewReader(limit.ModelAnswer.NewReader(resp.Body)), Closer: resp.Body}
	switch {
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		defer r.closeBody()
		return r.errorFromStatus(resp)
	case strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html"):
		defer r.closeBody()
		return r.htmlError(0)
	}
	return nil
}

// closeBody ends the call.
func (r *serviceResponse) closeBody() {
	_ = r.body.Close()
	r.cancel()
}

// drainBody reads the rest of a complete response for at most a second: only a drained
// connection is reused.
func (r *serviceResponse) drainBody() {
	defer time.AfterFunc(time.Second, r.cancel).Stop()
	_, _ = io.CopyN(io.Discard, r.body, 4<<10)
}

// errorFromStatus reads the body of an error.
func (r *serviceResponse) errorFromStatus(resp *http.Response) *model.Error {
	body, err := io.ReadAll(io.LimitReader(r.body, int64(limit.ModelError.Bytes)))
	if err != nil {
		body = nil
	}
	if isHTML(body) {
		e := r.htmlError(resp.StatusCode)
		e.Err = retryAfter(resp.Header)
		return e
	}
	body = charset.DecodeText(resp.Header.Get("Content-Type"), body)
	status, message := r.service.parseError([]byte(r.redactor.RedactString(string(body))))
	if message == "" {
		message = fmt.Sprintf("%s answered %s", r.service.model, resp.Status)
	}
	e := r.newError(resp.StatusCode, message)
	e.Status, e.Err = cmp.Or(status, e.Status), retryAfter(resp.Header)
	e.Reason = r.redactor.RedactString(errorReason(body))
	return e
}

// newError returns an error of the service, with redacted secrets. code is the HTTP
// status, or 0.
func (r *serviceResponse) newError(code int, message string) *model.Error {
	return &model.Error{Code: code, Status: statusWord(code), Message: r.redactor.RedactString(message), URL: r.url}
}

// malformedError returns the error of a body or an event that cannot be decoded.
func (r *serviceResponse) malformedError(data []byte, err error) *model.Error {
	if isHTML(data) {
		return r.htmlError(0)
	}
	e := r.newError(0, fmt.Sprintf("malformed response from %s: %v in %q", r.service.model, err, r.redactor.RedactStart(string(data), maxQuoted)))
	e.Err = err
	return e
}

// htmlError returns the error of a page. Pages of status 5xx come from proxies; others
// are those of another server.
func (r *serviceResponse) htmlError(code int) *model.Error {
	return r.newError(code, htmlMessage(r.service.model, code))
}

func htmlMessage(name string, code int) string {
	if code < 500 {
		return name + " answered with HTML: is base_url right?"
	}
	return name + " answered with HTML"
}

func isHTML(body []byte) bool { return bytes.HasPrefix(bytes.TrimSpace(body), []byte("<")) }

// toModelError converts an error of the network or of a body.
func (r *serviceResponse) toModelError(err error) error {
	if ended := r.caller(); ended != nil {
		return fmt.Errorf("calling %s: %w", r.service.model, ended)
	}
	if named, ok := errors.AsType[*model.Error](err); ok {
		return named
	}
	if tooLarge, ok := errors.AsType[*limit.Error](err); ok {
		e := r.newError(0, tooLarge.Error())
		e.Err = tooLarge
		return e
	}
	if urlErr, ok := errors.AsType[*url.Error](err); ok {
		err = urlErr.Err
	}
	e := r.newError(0, fmt.Sprintf("no response from %s: %s", r.service.model, err))
	e.Status, e.Err = statusOfSilence(err), err
	return e
}

// readBody reads a body that is not streamed.
func (r *serviceResponse) readBody() ([]byte, error) {
	raw, err := io.ReadAll(r.body)
	if err != nil {
		return nil, r.toModelError(fmt.Errorf("response was truncated: %w", err))
	}
	raw = charset.DecodeJSON(r.header.Get("Content-Type"), raw)
	if err := limit.ModelAnswer.CheckJSON(raw); err != nil {
		return nil, r.toModelError(err)
	}
	return raw, nil
}

// A serviceBody is a body whose beginning can be read twice.
type serviceBody struct {
	*bufio.Reader
	io.Closer
}

// isStream reports whether the body has server-sent events, by its beginning: some gateways
// answer a request for a stream with JSON, or one for JSON with a stream. requested is what
// the request asked for, which decides in doubt.
func (r *serviceResponse) isStream(requested bool) bool {
	if first := r.body.peekByte(); first == '{' || first == '[' {
		return false
	}
	field, _ := r.body.Peek(len("event:"))
	for _, name := range []string{"data:", "event:", ":"} {
		requested = requested || bytes.HasPrefix(field, []byte(name))
	}
	return requested
}

// peekByte drops white space and a byte order mark, and returns the next byte without
// reading it. It returns 0 after a failure, which the next read reports.
func (b *serviceBody) peekByte() byte {
	for {
		next, err := b.Peek(1)
		if err != nil {
			return 0
		}
		switch next[0] {
		case ' ', '\t', '\r', '\n':
			_, _ = b.Discard(1)
		case utf8Mark[0]:
			if mark, _ := b.Peek(len(utf8Mark)); string(mark) != utf8Mark {
				return next[0]
			}
			_, _ = b.Discard(len(utf8Mark))
		default:
			return next[0]
		}
	}
}

// utf8Mark is the byte order mark of UTF-8.
const utf8Mark = "\xef\xbb\xbf"

// readValues yields the JSON values of a body: one, or those of a stream. A failure is
// yielded last; a page of HTML is one.
func (r *serviceResponse) readValues() iter.Seq2[json.RawMessage, error] {
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
				err = r.malformedError(rest, err)
			} else if err != nil {
				err = r.toModelError(fmt.Errorf("stream was interrupted: %w", err))
			}
			if !yield(value, err) || err != nil {
				return
			}
		}
	}
}

// forwardChunks returns yield for a request for a stream, or else one that drops the
// partial responses of a stream that was not requested.
func forwardChunks(requested bool, yield func(*model.Response, error) bool) func(*model.Response, error) bool {
	if requested {
		return yield
	}
	return func(r *model.Response, err error) bool { return r != nil && r.Partial || yield(r, err) }
}

// A serviceEvent is one server-sent event. Its data is valid until the next one.
type serviceEvent struct {
	name string // empty without an `event:` line
	data []byte
}

// readEvents yields the server-sent events of a stream, one for each `data:` line: servers
// write JSON on one line, and some forget the empty line after it. A failure is yielded
// last. The consumer decides whether the stream is complete.
func (r *serviceResponse) readEvents() iter.Seq2[serviceEvent, error] {
	return func(yield func(serviceEvent, error) bool) {
		name := ""
		for line, err := range r.readLines() {
			if err != nil {
				yield(serviceEvent{}, err)
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
					yield(serviceEvent{}, r.toModelError(err))
					return
				}
				if len(value) > 0 && !yield(serviceEvent{name, value}, nil) {
					return
				}
			}
		}
	}
}

// readLines yields the lines of a stream without white space around them. A failure is
// yielded last; a page of HTML is one. A line is valid until the next one.
func (r *serviceResponse) readLines() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		lines := limit.NewLines(r.body, limit.ModelEvent)
		for lines.Scan() {
			line := bytes.TrimSpace(lines.Bytes())
			if isHTML(line) {
				yield(nil, r.htmlError(0))
				return
			}
			if !yield(line, nil) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(nil, r.toModelError(fmt.Errorf("stream was interrupted: %w", err)))
		}
	}
}

// parseServiceError returns the message of an error body: {"error": {"message": …}},
// {"error": …}, {"message": …}, {"detail": …}, or else the body itself.
func parseServiceError(body []byte) (status, message string) {
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

// errorReason returns the code of an error body, {"error": {"code": …}}, or else its
// type, if they are words.
func errorReason(body []byte) string {
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

// badBaseURL returns the problem of a base URL, or "".
func badBaseURL(base string) string {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return "base_url must be a URL such as https://example.com"
	}
	if strings.Contains(base, "#") {
		return "base_url cannot have a fragment: remove # and what follows"
	}
	return ""
}

// maxQuoted is how many bytes of an answer an error quotes.
const maxQuoted = 200

func truncateBytes(text []byte) string {
	if len(text) > maxQuoted {
		return string(bytes.ToValidUTF8(text[:maxQuoted], nil)) + "…"
	}
	return string(text)
}
