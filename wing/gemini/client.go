package gemini

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"google.golang.org/genai"

	"agenthost/internal/charset"
	"agenthost/internal/limit"
	"agenthost/internal/modelapi"
	"agenthost/internal/modelcall"
	"agenthost/pkg/model"
	"agenthost/pkg/spec"
)

// newClient creates the SDK's client. It passes all settings explicitly, so that the
// app's .env applies as well and the SDK reads no environment variables.
func (g *gemini) newClient(ctx context.Context) (*genai.Client, error) {
	config, err := g.clientConfig()
	if err != nil {
		return nil, err
	}
	wire := &geminiTransport{base: modelapi.NewTimeoutTransport(g.opts.HTTP.Transport, g.opts.Timeouts), key: config.APIKey}
	if err := g.addCredentials(ctx, config, wire); err != nil {
		return nil, err
	}
	client := *g.opts.HTTP
	client.Transport = wire
	config.HTTPClient = &client
	config.HTTPOptions.BaseURL, wire.query, _ = strings.Cut(config.HTTPOptions.BaseURL, "?")
	made, err := genai.NewClient(ctx, config)
	if err != nil {
		// Do not wrap the cause: the SDK prints its config with the key.
		return nil, modelcall.NewConfigError(http.StatusBadRequest, spec.NewRedactor(config.APIKey).RedactString(err.Error()))
	}
	return made, nil
}

func (g *gemini) clientConfig() (*genai.ClientConfig, error) {
	config, err := g.backendConfig()
	if err != nil {
		return nil, err
	}
	if base := config.HTTPOptions.BaseURL; base != "" {
		if problem := modelapi.BadBaseURL(base); problem != "" {
			return nil, modelcall.NewConfigError(http.StatusBadRequest, problem)
		}
	}
	return config, nil
}

func (g *gemini) backendConfig() (*genai.ClientConfig, error) {
	c, err := g.geminiAccess().resolveEndpoint(g.newVariables())
	if err != nil {
		return nil, modelcall.NewConfigError(http.StatusBadRequest, err.Error())
	}
	config := &genai.ClientConfig{Backend: genai.BackendGeminiAPI, APIKey: c.key.Value, HTTPOptions: genai.HTTPOptions{BaseURL: c.base.Value, APIVersion: g.opts.APIVersion}}
	switch {
	case !c.vertex && c.key.Value == "" && c.base.OfApp:
		return nil, modelcall.NewConfigError(http.StatusUnauthorized, noGeminiKeyForBase)
	case !c.vertex && c.key.Value == "":
		return nil, modelcall.NewConfigError(http.StatusUnauthorized, noGeminiKey)
	case !c.vertex:
		return config, nil
	}
	config.Backend, config.Project, config.Location = genai.BackendVertexAI, c.project.Value, c.location
	if !g.usesDefaultBase() {
		return config, nil
	}
	if config.Project == "" && config.APIKey == "" {
		return nil, modelcall.NewConfigError(http.StatusUnauthorized, noVertexProject)
	}
	config.HTTPOptions.BaseURL = "" // the SDK's own
	return config, nil
}

// usesDefaultBase reports whether no base URL is set.
func (g *gemini) usesDefaultBase() bool {
	return g.geminiAccess().chooseBase(g.newVariables()).Value == ""
}

func (g *gemini) geminiAccess() geminiAccess {
	return geminiAccess{key: g.opts.APIKey, base: g.opts.BaseURL, backend: g.opts.Backend, baseVariable: g.opts.BaseVariable}
}

func (g *gemini) newVariables() modelapi.Variables {
	return modelapi.NewVariables(g.opts.Lookup, g.opts.App)
}

// addCredentials adds a Vertex project's token to the transport. With a base URL, the token may be
// missing: a proxy adds its own. An address that the app chose does not get the host's token.
func (g *gemini) addCredentials(ctx context.Context, config *genai.ClientConfig, wire *geminiTransport) error {
	if config.Project == "" {
		return nil
	}
	if g.opts.Token != nil {
		wire.token = g.opts.Token
		return nil
	}
	if base := g.geminiAccess().chooseBase(g.newVariables()); base.OfApp {
		return nil
	}
	token, quota, err := modelapi.DetectGoogleCredentials(ctx)
	if err != nil {
		if !g.usesDefaultBase() {
			return nil
		}
		return modelcall.NewConfigError(http.StatusUnauthorized, modelapi.NoVertexLogin+": "+err.Error())
	}
	if quota != "" {
		config.HTTPOptions.Headers = http.Header{"X-Goog-User-Project": {quota}}
	}
	wire.token = token
	return nil
}

// A geminiTransport is the SDK's HTTP transport. It adds the token, turns failures into
// [*model.Error] with the requested retry delay (the SDK drops headers), and rejects malformed
// responses, on which the SDK logs, hides the cause, or panics.
type geminiTransport struct {
	base  http.RoundTripper // nil is http.DefaultTransport
	token func(context.Context) (string, error)
	key   string
	query string // from the base URL: the SDK cannot join it
}

// RoundTrip sends one request. Any status other than 2xx is an error.
func (t *geminiTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	req, token, err := t.authorizeRequest(req)
	if err != nil {
		return nil, err
	}
	if t.query != "" {
		req = req.Clone(req.Context())
		req.URL.RawQuery = strings.TrimSuffix(t.query+"&"+req.URL.RawQuery, "&")
	}
	redactor := spec.NewRedactor(t.key, token)
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
		failed := errorFromGemini(resp, redactor)
		failed.URL = modelcall.BareURL(req.URL)
		return nil, failed
	}
	if req.URL.Query().Get("alt") == "sse" {
		resp.Body = newSSEReader(resp, redactor)
		return resp, nil
	}
	if failed := bufferResponse(resp, redactor); failed != nil {
		failed.URL = modelcall.BareURL(req.URL)
		return nil, failed
	}
	return resp, nil
}

// authorizeRequest adds the token and returns it.
func (t *geminiTransport) authorizeRequest(req *http.Request) (authorized *http.Request, token string, err error) {
	if t.token == nil {
		return req, "", nil
	}
	token, err = t.token(req.Context())
	if err != nil {
		return nil, "", &model.Error{Message: "no token for Vertex AI: " + err.Error(), Err: err}
	}
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+token)
	return req, token, nil
}

func errorFromGemini(resp *http.Response, redactor *spec.Redactor) *model.Error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, int64(limit.ModelError.Bytes)))
	if err != nil {
		body = nil
	}
	if modelapi.IsHTML(body) {
		return &model.Error{Code: resp.StatusCode, Status: modelcall.StatusWord(resp.StatusCode), Message: modelapi.HTMLMessage("Gemini", resp.StatusCode), Err: modelcall.RetryAfter(resp.Header)}
	}
	body = charset.DecodeJSON(resp.Header.Get("Content-Type"), body)
	apiErr := modelapi.ParseErrorBody([]byte(redactor.RedactString(string(body))))
	e := &model.Error{
		Code: resp.StatusCode, Status: apiErr.Status, Reason: errorInfoReason(apiErr.Details),
		Message: redactor.RedactString(apiErr.Message),
	}
	if e.Status == "" {
		e.Status = modelcall.StatusWord(e.Code)
	}
	if e.Message == "" {
		e.Message = fmt.Sprintf("Gemini answered %s", resp.Status)
	}
	e.Err = modelcall.RetryDelay(apiErr.Details)
	if asked := modelcall.RetryAfter(resp.Header); asked != nil {
		e.Err = asked
	}
	return e
}

// errorInfoReason returns the reason in Google's error details (google.rpc.ErrorInfo).
func errorInfoReason(details []map[string]any) string {
	for _, d := range details {
		if reason, ok := d["reason"].(string); ok {
			return reason
		}
	}
	return ""
}

func bufferResponse(resp *http.Response, redactor *spec.Redactor) *model.Error {
	defer resp.Body.Close()
	resp.Header.Del(finishMessageHeader)
	body, err := limit.ModelAnswer.ReadAll(resp.Body)
	if tooLarge, ok := errors.AsType[*limit.Error](err); ok {
		return &model.Error{Message: tooLarge.Error(), Err: tooLarge}
	}
	if err != nil {
		return &model.Error{Status: modelapi.StatusOfSilence(err), Message: "Gemini's response was truncated: " + err.Error(), Err: err}
	}
	body = charset.DecodeJSON(resp.Header.Get("Content-Type"), body)
	answers, check, err := decodeAnswers(body)
	if err == nil && len(answers) != 1 {
		err = fmt.Errorf("%d responses", len(answers))
	}
	if err != nil {
		return &model.Error{Message: malformedMessage(redactor, body, err), Err: err}
	}
	check.addFinishMessage(resp.Header)
	resp.Body = io.NopCloser(bytes.NewReader(answers[0]))
	return nil
}

func malformedMessage(redactor *spec.Redactor, answer []byte, err error) string {
	if modelapi.IsHTML(answer) {
		return modelapi.HTMLMessage("Gemini", 0)
	}
	return fmt.Sprintf("malformed response from Gemini: %v in %q", err, redactor.RedactStart(string(answer), modelapi.MaxQuoted))
}

// sseReader converts server-sent events to the only form that the SDK accepts: `data:`
// lines. It drops comments and other fields. It ends a truncated or malformed stream
// with an error block.
type sseReader struct {
	lines    *limit.Lines
	body     io.Closer
	header   http.Header
	redactor *spec.Redactor
	ready    bytes.Buffer
	ended    bool
}

func newSSEReader(resp *http.Response, redactor *spec.Redactor) *sseReader {
	resp.Header.Del(finishMessageHeader)
	lines := limit.NewLines(limit.ModelAnswer.NewReader(resp.Body), limit.ModelEvent)
	return &sseReader{lines: lines, body: resp.Body, header: resp.Header, redactor: redactor}
}

// Read returns whole blocks, split to fit p.
func (b *sseReader) Read(p []byte) (int, error) {
	for b.ready.Len() == 0 {
		if b.ended {
			return 0, io.EOF
		}
		b.readEvent()
	}
	return b.ready.Read(p)
}

// Close closes the body. It drops the error: the SDK would only log it.
func (b *sseReader) Close() error {
	_ = b.body.Close()
	return nil
}

func (b *sseReader) readEvent() {
	data := bytes.TrimSpace(b.nextData())
	err := b.lines.Err()
	if err == nil {
		err = limit.ModelEvent.CheckJSON(data)
	}
	if tooLarge, ok := errors.AsType[*limit.Error](err); ok {
		b.writeError(statusTooLarge, tooLarge.Error())
		return
	}
	if err != nil {
		b.writeError(modelapi.StatusOfSilence(err), "Gemini's stream was interrupted: "+err.Error())
		return
	}
	if len(data) == 0 {
		return
	}
	answers, check, err := decodeAnswers(data)
	if err != nil {
		b.writeError("", malformedMessage(b.redactor, data, err))
		return
	}
	check.addFinishMessage(b.header)
	for _, answer := range answers {
		if check.failed {
			answer = []byte(b.redactor.RedactString(string(answer)))
		}
		b.writeData(answer)
	}
}

// nextData joins the data lines up to an empty line. It reads a line that is not an event stream
// field as data, because Google sends late errors as bare JSON.
func (b *sseReader) nextData() []byte {
	var data []byte
	for b.lines.Scan() {
		line := bytes.TrimPrefix(b.lines.Bytes(), []byte(modelapi.Utf8Mark))
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

// statusTooLarge is the status in an error block for a response above a limit. From it the call,
// after the SDK, distinguishes this error from a network error.
const statusTooLarge = "AGENTHOST_RESPONSE_TOO_LARGE"

func (b *sseReader) writeError(status, message string) {
	b.ended = true
	body, err := json.Marshal(map[string]any{"error": map[string]any{"status": status, "message": message}})
	if err == nil {
		b.writeData(body)
	}
}

// writeData writes JSON, as one line.
func (b *sseReader) writeData(data []byte) {
	b.ready.WriteString("data:")
	if !bytes.ContainsAny(data, "\r\n") {
		b.ready.Write(data)
	} else if err := json.Compact(&b.ready, data); err != nil {
		b.ended = true
	}
	b.ready.WriteString("\n\n")
}
