package gemini

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"google.golang.org/genai"

	"agenthost/internal/buffers"
	"agenthost/internal/legalrequest"
	"agenthost/internal/limit"
	"agenthost/internal/modelapi"
	"agenthost/internal/modelcall"
	"agenthost/internal/safe"
	"agenthost/pkg/model"
	"agenthost/pkg/spec"
)

// Limits for a live connection.
const (
	liveWriteLimit = 10 * time.Second
	livePingEvery  = 20 * time.Second
	liveSetupLimit = 30 * time.Second
	liveCloseLimit = 10 * time.Second
)

var _ model.LiveLLM = (*gemini)(nil)

// LiveTraits returns a model name's traits (adk-python utils/model_name_utils.py).
func (g *gemini) LiveTraits(name string) model.LiveTraits {
	if name == "" {
		name = g.name
	}
	name = path.Base(name)
	vertex := g.geminiAccess().usesVertex(g.newVariables())
	translates := strings.HasPrefix(name, "gemini-3.5-live-translate")
	three := strings.HasPrefix(name, "gemini-3.") && strings.Contains(name, "-live") && !translates
	return model.LiveTraits{
		ExecutesCallsAtOnce: three, WholeTranscripts: three, RealtimeText: three, NoDialogOptions: three,
		TypedMedia: three || translates,
		CanReplay:  vertex, NoAsyncCalls: vertex,
	}
}

// ConnectLive opens a connection; see [model.LiveLLM].
func (g *gemini) ConnectLive(ctx context.Context, setup *model.LiveSetup) (model.LiveConn, error) {
	config, err := g.clientConfig()
	if err != nil {
		return nil, err
	}
	if err := checkLiveSetup(config.Backend, setup); err != nil {
		return nil, err
	}
	release := func(int) {}
	if gate := g.opts.Retry.Gate; gate != nil {
		if err := gate.AcquireSlot(ctx, func(string, time.Duration) {}); err != nil {
			return nil, err
		}
		release = gate.ReleaseSlot
	}
	conn, err := g.openLive(ctx, config, setup)
	if err != nil {
		release(0)
		return nil, err
	}
	conn.release = release
	return conn, nil
}

// openLive opens a connection within the time limit.
func (g *gemini) openLive(ctx context.Context, config *genai.ClientConfig, setup *model.LiveSetup) (*geminiLiveConn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, liveSetupLimit, errLiveSetupLimit)
	defer cancel()
	auth := &geminiTransport{key: config.APIKey}
	if err := g.addCredentials(ctx, config, auth); err != nil {
		return nil, err
	}
	address, err := g.liveAddress(config)
	if err != nil {
		return nil, err
	}
	header, redactor, err := liveHeader(ctx, config, auth)
	if err != nil {
		return nil, err
	}
	rules := g.requestRules()
	rules.Turns = legalrequest.TurnsAny // each frame continues the conversation
	names := legalrequest.NewNameMap(&rules.Names)
	legal := *setup
	legal.Tools = legalrequest.LegalTools(names, setup.Tools)
	text, err := encodeLiveSetup(liveModelName(config, cmp.Or(setup.Model, g.name)), &legal)
	if err != nil {
		return nil, modelcall.NewConfigError(http.StatusBadRequest, err.Error())
	}
	upgrade := &upgradeTransport{RoundTripper: cmp.Or(g.opts.HTTP.Transport, http.DefaultTransport)}
	client := *g.opts.HTTP
	client.Transport = upgrade
	// A redirect would take the key to another address.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	socket, resp, err := websocket.Dial(ctx, address, &websocket.DialOptions{HTTPClient: &client, HTTPHeader: header})
	if err != nil {
		return nil, liveDialError(ctx, resp, err, redactor)
	}
	socket.SetReadLimit(int64(limit.LiveMessage.Bytes))
	c := &geminiLiveConn{socket: socket, network: upgrade.conn, typed: g.LiveTraits(setup.Model).TypedMedia, redactor: redactor, rules: rules, names: names}
	if err := c.startSession(ctx, text); err != nil {
		_ = socket.CloseNow() // the setup error is the cause
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ping = time.AfterFunc(livePingEvery, func() {
		defer safe.Recover(func(*safe.Panic) { _ = socket.CloseNow() }) // Receive returns the end
		c.sendPing()
	})
	return c, nil
}

var errLiveSetupLimit = errors.New("the live model did not accept the setup within 30s")

// An upgradeTransport gets the connection when a request was upgraded.
type upgradeTransport struct {
	http.RoundTripper
	conn io.Closer
}

// RoundTrip sends one request.
func (t *upgradeTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(req)
	if err == nil && resp.StatusCode == http.StatusSwitchingProtocols {
		t.conn = resp.Body
	}
	return resp, err
}

// checkLiveSetup rejects settings that a service does not have.
func checkLiveSetup(backend genai.Backend, setup *model.LiveSetup) error {
	if backend == genai.BackendVertexAI {
		return nil
	}
	if setup.ExplicitVAD != nil {
		return modelcall.NewConfigError(http.StatusBadRequest, "explicit_vad_signal requires Vertex AI: remove it from run_config")
	}
	if setup.Resumption != nil && setup.Resumption.Transparent {
		return modelcall.NewConfigError(http.StatusBadRequest, "session_resumption with transparent requires Vertex AI: remove transparent from run_config")
	}
	return nil
}

// liveAddress returns a live connection's URL. The Gemini API has all live features only in v1alpha
// (adk-python models/google_llm.py).
func (g *gemini) liveAddress(config *genai.ClientConfig) (string, error) {
	base := config.HTTPOptions.BaseURL
	vertex := config.Backend == genai.BackendVertexAI
	if base == "" && vertex {
		usual, err := modelapi.VertexURL(cmp.Or(config.Location, "global"))
		if err != nil {
			return "", modelcall.NewConfigError(http.StatusBadRequest, err.Error())
		}
		base = usual
	}
	u, err := url.Parse(cmp.Or(base, geminiURL))
	if err != nil {
		return "", modelcall.NewConfigError(http.StatusBadRequest, modelapi.BadBaseURL(base))
	}
	version, method := cmp.Or(g.opts.APIVersion, "v1alpha"), "BidiGenerateContent"
	if strings.HasPrefix(config.APIKey, ephemeralPrefix) {
		version, method = "v1alpha", "BidiGenerateContentConstrained"
	}
	name := "google.ai.generativelanguage." + version + ".GenerativeService." + method
	if vertex {
		name = "google.cloud.aiplatform." + cmp.Or(g.opts.APIVersion, "v1beta1") + ".LlmBidiService/BidiGenerateContent"
	}
	return u.JoinPath("ws", name).String(), nil
}

// ephemeralPrefix begins the tokens that the Gemini API makes for browsers.
const ephemeralPrefix = "auth_tokens/"

// liveHeader returns the handshake credentials, and the function that removes them from errors.
func liveHeader(ctx context.Context, config *genai.ClientConfig, auth *geminiTransport) (http.Header, *spec.Redactor, error) {
	header := config.HTTPOptions.Headers.Clone()
	if header == nil {
		header = http.Header{}
	}
	token := ""
	switch {
	case auth.token != nil:
		var err error
		if token, err = auth.token(ctx); err != nil {
			return nil, nil, &model.Error{Message: "no token for Vertex AI: " + err.Error(), Err: err}
		}
		header.Set("Authorization", "Bearer "+token)
	case strings.HasPrefix(config.APIKey, ephemeralPrefix):
		header.Set("Authorization", "Token "+config.APIKey)
	case config.APIKey != "":
		header.Set("X-Goog-Api-Key", config.APIKey)
	}
	return header, spec.NewRedactor(config.APIKey, token), nil
}

// liveModelName returns a model's full name.
func liveModelName(config *genai.ClientConfig, name string) string {
	switch {
	case config.Backend != genai.BackendVertexAI && strings.Contains(name, "/"):
		return name
	case config.Backend != genai.BackendVertexAI:
		return "models/" + name
	case strings.HasPrefix(name, "projects/"):
		return name
	}
	name = strings.TrimPrefix(strings.TrimPrefix(name, "models/"), "publishers/google/models/")
	if config.Project == "" {
		return "publishers/google/models/" + name
	}
	return "projects/" + config.Project + "/locations/" + cmp.Or(config.Location, "global") + "/publishers/google/models/" + name
}

// liveDialError returns the error for a failed handshake, with the service's text.
func liveDialError(ctx context.Context, resp *http.Response, err error, redactor *spec.Redactor) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if resp != nil && resp.StatusCode >= 300 {
		return errorFromGemini(resp, redactor)
	}
	return &model.Error{Message: "connecting to the live model failed: " + redactor.RedactString(err.Error()), Err: err}
}

// A geminiLiveConn is a connection to the Live API.
type geminiLiveConn struct {
	socket   *websocket.Conn
	network  io.Closer
	typed    bool
	redactor *spec.Redactor
	session  string
	// err is why the connection ended, for the receiving goroutine.
	err error
	// tokens is what the connection's answers used.
	tokens atomic.Int64
	// release gives up the connection's place in the model limits.
	release func(tokens int)

	// rules are what the service accepts in a frame.
	rules *legalrequest.Rules

	mu     sync.Mutex
	names  *legalrequest.NameMap // for tools
	closed bool
	ping   *time.Timer
}

// SessionID returns the id in the answer to the setup, if it has one.
func (c *geminiLiveConn) SessionID() string { return c.session }

// startSession sends the setup and waits until it is accepted.
func (c *geminiLiveConn) startSession(ctx context.Context, setup []byte) error {
	if err := c.socket.Write(ctx, websocket.MessageText, setup); err != nil {
		return c.explainEnd(ctx, err)
	}
	m, err := c.receiveMessage(ctx)
	switch {
	case err != nil:
		return err
	case m.failure != nil:
		return c.serviceError(m.failure)
	case m.setup == nil:
		return &model.Error{Message: "the live model did not accept the setup: it sent another message first"}
	}
	c.session = m.setup.SessionID
	return nil
}

// Send sends a frame; see [model.LiveConn].
func (c *geminiLiveConn) Send(ctx context.Context, f *model.LiveFrame) error {
	buffer := buffers.Take()
	defer buffers.Return(buffer)
	var err error
	if *buffer, err = appendLiveFrame(*buffer, c.legalFrame(f), c.typed); err != nil {
		return modelcall.NewConfigError(http.StatusBadRequest, err.Error())
	}
	ctx, cancel := context.WithTimeout(ctx, liveWriteLimit)
	defer cancel()
	if err := c.socket.Write(ctx, websocket.MessageText, *buffer); err != nil {
		return c.explainEnd(ctx, err)
	}
	return nil
}

// legalFrame returns a frame that the service accepts, as [legalrequest.New] does for
// requests.
func (c *geminiLiveConn) legalFrame(f *model.LiveFrame) *model.LiveFrame {
	if len(f.Turns) == 0 && len(f.Responses) == 0 {
		return f
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	legal := *f
	if len(f.Turns) > 0 {
		legal.Turns = c.rules.LegalContents(geminiVendor, f.Turns, c.names, map[string]bool{})
	}
	legal.Responses = nil
	for _, r := range f.Responses {
		own := *r
		own.Name = c.names.MapName(r.Name)
		legal.Responses = append(legal.Responses, &own)
	}
	return &legal
}

// restoreCalls restores the declared tool names in a message's calls.
func (c *geminiLiveConn) restoreCalls(calls []*genai.FunctionCall) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, call := range calls {
		if call != nil {
			call.Name = c.names.RestoreName(call.Name)
		}
	}
}

// Receive returns the next message; see [model.LiveConn]. The setup's answer and messages
// that mean nothing to agents are skipped.
func (c *geminiLiveConn) Receive(ctx context.Context) (*model.LiveMessage, error) {
	for c.err == nil {
		m, err := c.receiveMessage(ctx)
		switch {
		case err != nil:
			c.err = err
		case m.failure != nil:
			c.err = c.serviceError(m.failure)
			_ = c.socket.CloseNow()
		case m.hasContent:
			c.restoreCalls(m.Calls)
			if m.Usage != nil {
				c.tokens.Add(int64(m.Usage.TotalTokenCount))
			}
			return &m.LiveMessage, nil
		}
	}
	return nil, c.err
}

// receiveMessage receives and decodes one message. The service sends JSON in text or binary frames.
func (c *geminiLiveConn) receiveMessage(ctx context.Context) (*liveMessage, error) {
	_, r, err := c.socket.Reader(ctx)
	if err != nil {
		return nil, c.explainEnd(ctx, err)
	}
	buffer := buffers.Take()
	defer buffers.Return(buffer)
	if err := buffers.ReadAll(buffer, r); err != nil {
		return nil, c.explainEnd(ctx, err)
	}
	m, err := decodeLiveMessage(*buffer)
	if err != nil {
		_ = c.socket.CloseNow() // the error below is the cause
		return nil, c.malformedMessage(*buffer, err)
	}
	return m, nil
}

// explainEnd returns the error for a connection that has ended.
func (c *geminiLiveConn) explainEnd(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	var end websocket.CloseError
	if errors.As(err, &end) {
		return &model.LiveCloseError{Code: int(end.Code), Reason: c.redactor.RedactString(end.Reason)}
	}
	if errors.Is(err, websocket.ErrMessageTooBig) {
		return &model.LiveCloseError{Code: int(websocket.StatusMessageTooBig), Reason: "the model sent a message larger than 16 MiB"}
	}
	return &model.LiveCloseError{Code: int(websocket.StatusAbnormalClosure), Reason: c.redactor.RedactString(err.Error())}
}

func (c *geminiLiveConn) malformedMessage(text []byte, err error) error {
	return &model.Error{Message: malformedMessage(c.redactor, text, err), Err: err}
}

func (c *geminiLiveConn) serviceError(failure *genai.APIError) error {
	return &model.Error{Code: failure.Code, Status: failure.Status, Message: c.redactor.RedactString(failure.Message)}
}

// sendPing sends a ping, so that a peer that is gone is noticed. It runs on a timer.
func (c *geminiLiveConn) sendPing() {
	ctx, cancel := context.WithTimeout(context.Background(), livePingEvery)
	defer cancel()
	if err := c.socket.Ping(ctx); err != nil {
		_ = c.socket.CloseNow() // Receive returns the end
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.ping.Reset(livePingEvery)
	}
}

// Close ends the connection; see [model.LiveConn].
func (c *geminiLiveConn) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	c.ping.Stop()
	c.mu.Unlock()
	defer func() { c.release(int(c.tokens.Load())) }()
	// The library reads a frame to its end without a time limit.
	cut := time.AfterFunc(liveCloseLimit, func() {
		defer safe.Recover(func(*safe.Panic) {}) // closing has no result
		_ = c.network.Close()                    // the peer is gone
	})
	defer cut.Stop()
	err := c.socket.Close(websocket.StatusNormalClosure, "")
	var end websocket.CloseError
	if err == nil || errors.As(err, &end) || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
