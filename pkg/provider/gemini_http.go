package provider

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/spec"
)

const (
	maxFailure = 64 << 10
	maxAnswer  = 256 << 20
)

// A geminiTransport stands between the SDK and the network. It adds the token,
// turns failures into [*model.Error] with the wait that the service asks for
// (the SDK drops headers), and passes on only well-formed answers: on others
// the SDK logs, hides the cause, or panics.
type geminiTransport struct {
	base  http.RoundTripper // nil is http.DefaultTransport
	token func(context.Context) (string, error)
	hide  *spec.Veil
}

// RoundTrip carries one request. Any status but 2xx is an error.
func (t *geminiTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	req, err := t.authorized(req)
	if err != nil {
		return nil, err
	}
	base := t.base
	if base == nil {
		base = http.DefaultTransport
	}
	resp, err := base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		defer resp.Body.Close()
		return nil, t.failure(resp)
	}
	if req.URL.Query().Get("alt") == "sse" {
		resp.Body = newBlocks(resp.Body, t.hide)
		return resp, nil
	}
	if err := bufferAnswer(resp, t.hide); err != nil {
		return nil, err
	}
	return resp, nil
}

func (t *geminiTransport) authorized(req *http.Request) (*http.Request, error) {
	if t.token == nil {
		return req, nil
	}
	token, err := t.token(req.Context())
	if err != nil {
		return nil, &model.Error{Message: "no token for Vertex AI: " + err.Error(), Err: err}
	}
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+token)
	return req, nil
}

func (t *geminiTransport) failure(resp *http.Response) *model.Error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxFailure))
	if err != nil {
		body = nil
	}
	said := parseFailure([]byte(t.hide.Text(string(body))))
	e := &model.Error{Code: resp.StatusCode, Status: said.Status, Message: t.hide.Text(said.Message)}
	if e.Status == "" {
		e.Status = statusWord(e.Code)
	}
	if e.Message == "" {
		e.Message = fmt.Sprintf("Gemini answered %s", resp.Status)
	}
	e.Err = retryDelay(said.Details)
	if asked := retryAfter(resp.Header); asked != nil {
		e.Err = asked
	}
	return e
}

// parseFailure reads Google's error JSON, alone or in a list (as Vertex AI sends
// it for streams). Other bodies are taken as the message.
func parseFailure(body []byte) genai.APIError {
	var one struct{ Error genai.APIError }
	if json.Unmarshal(body, &one) == nil && one.Error.Message != "" {
		return one.Error
	}
	var list []struct{ Error genai.APIError }
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		return list[0].Error
	}
	return genai.APIError{Message: clip(bytes.TrimSpace(body))}
}

func bufferAnswer(resp *http.Response, hide *spec.Veil) error {
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return &model.Error{Message: "the answer of Gemini was cut: " + err.Error(), Err: err}
	}
	if err := wellFormed(body); err != nil {
		return &model.Error{Message: malformed(hide, body, err), Err: err}
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return nil
}

// wellFormed says whether an answer, or an error inside a stream, has the shape
// that the SDK expects without looking.
func wellFormed(answer []byte) error {
	var r genai.GenerateContentResponse
	if err := json.Unmarshal(answer, &r); err != nil {
		return err
	}
	var failed struct{ Error *genai.APIError }
	return json.Unmarshal(answer, &failed)
}

func malformed(hide *spec.Veil, answer []byte, err error) string {
	return fmt.Sprintf("malformed answer of Gemini: %v in %q", err, clip([]byte(hide.Text(string(answer)))))
}

func clip(text []byte) string {
	const most = 200
	if len(text) > most {
		return string(bytes.ToValidUTF8(text[:most], nil)) + "…"
	}
	return string(text)
}

// blocks reads server-sent events and hands them on in the one form that the
// SDK takes: `data:` lines alone. Comments and other fields are dropped. A
// stream that is cut or malformed ends with an error block in place of what
// cannot be used.
type blocks struct {
	lines *bufio.Scanner
	body  io.Closer
	hide  *spec.Veil
	ready bytes.Buffer
	ended bool
}

func newBlocks(body io.ReadCloser, hide *spec.Veil) *blocks {
	b := &blocks{lines: bufio.NewScanner(body), body: body, hide: hide}
	b.lines.Buffer(nil, maxAnswer)
	return b
}

// Read returns whole blocks, cut to the size of p.
func (b *blocks) Read(p []byte) (int, error) {
	for b.ready.Len() == 0 {
		if b.ended {
			return 0, io.EOF
		}
		b.advance()
	}
	return b.ready.Read(p)
}

// Close closes the body. Its error is of no use to anybody: the SDK would log it.
func (b *blocks) Close() error {
	_ = b.body.Close()
	return nil
}

func (b *blocks) advance() {
	data := bytes.TrimSpace(b.nextData())
	if err := b.lines.Err(); err != nil {
		b.fail("the stream of Gemini was cut: " + err.Error())
		return
	}
	if len(data) == 0 {
		return
	}
	if err := wellFormed(data); err != nil {
		b.fail(malformed(b.hide, data, err))
		return
	}
	b.write(data)
}

// nextData joins the data lines up to an empty line. A line that is no field of
// an event stream is taken as data, since Google sends late errors as bare JSON.
func (b *blocks) nextData() []byte {
	var data []byte
	for b.lines.Scan() {
		line := b.lines.Bytes()
		if len(line) == 0 {
			return data
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		switch string(field) {
		case "", "event", "id", "retry":
		case "data":
			data = append(append(data, value...), '\n')
		default:
			data = append(append(data, line...), '\n')
		}
	}
	b.ended = true
	return data
}

func (b *blocks) fail(message string) {
	b.ended = true
	said, err := json.Marshal(map[string]any{"error": map[string]any{"message": message}})
	if err == nil {
		b.write(said)
	}
}

func (b *blocks) write(data []byte) {
	b.ready.WriteString("data:")
	if err := json.Compact(&b.ready, data); err != nil {
		b.ended = true
	}
	b.ready.WriteString("\n\n")
}
