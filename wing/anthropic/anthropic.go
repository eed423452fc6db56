// Package anthropic provides Anthropic's models: Claude through Anthropic's Messages API and on
// Vertex AI. [Kind] and [OnVertex] are for the loader, and [New] is for Go callers.
package anthropic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"

	"google.golang.org/genai"

	"agenthost/internal/legalrequest"
	"agenthost/internal/modelapi"
	"agenthost/internal/modelcall"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
)

// Options configure a Claude model. The zero value is Anthropic's own API with the key from the
// process environment.
type Options struct {
	// Lookup reads a host environment variable; nil is [os.LookupEnv].
	Lookup func(name string) (string, bool)
	// App holds the app's own variables, used if Lookup has none. An address in App never gets the
	// host's key or token.
	App map[string]string
	// BaseURL is the URL without /v1/messages; the default is ANTHROPIC_BASE_URL, or
	// Anthropic.
	BaseURL string
	// APIKey is the key; the default is ANTHROPIC_API_KEY, unless BaseURL is set.
	APIKey string
	// Vertex, if set, calls the model on Vertex AI, without a key.
	Vertex *Vertex
	// Header is sent with each call, such as anthropic-beta.
	Header http.Header
	// MaxOutputTokens limits the response if the request does not; 0 is 8192, in
	// addition to a budget for thinking.
	MaxOutputTokens int32
	// Thinking is off, adaptive, or a token budget; empty leaves it to the model. A request's
	// thinking config takes precedence.
	Thinking string
	// Effort is low, medium, high, xhigh or max; empty leaves it to the model.
	Effort string
	// Cache is auto, 1h or off: which lifetime cached prompts have; empty is auto, 5 min.
	Cache string
	// HTTP is the client; nil is [http.DefaultClient]. Redirects are errors.
	HTTP *http.Client
	// Timeouts limit how long the service may be silent.
	Timeouts provider.TimeoutOptions
	// Retry configures retries.
	Retry provider.RetryOptions
	// Logger logs unsupported settings; nil discards logs.
	Logger *slog.Logger
}

// Vertex is where a Claude model runs on Vertex AI.
type Vertex struct {
	// Project and Location override GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION. The
	// default location is global.
	Project, Location string
	// Token returns the bearer token; nil means Google's application default
	// credentials.
	Token func(context.Context) (string, error)
}

// New returns the Claude model with a name. A name such as
// projects/P/locations/L/publishers/anthropic/models/M is a model on Vertex AI. The
// environment is read on each call. opts may be nil.
func New(name string, opts *Options) model.LLM {
	a := &anthropic{name: name}
	if opts != nil {
		a.opts = *opts
	}
	a.opts.Vertex = resolveVertexName(name, a.opts.Vertex)
	a.service = modelapi.NewService(name, a.opts.HTTP, a.opts.Timeouts)
	a.service.ParseError = parseAnthropicError
	if a.opts.Logger == nil {
		a.opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &anthropicModel{LLM: provider.Retry(a, &a.opts.Retry), anthropic: a}
}

// anthropicModel adds the model's capabilities to its retries.
type anthropicModel struct {
	model.LLM
	anthropic *anthropic
}

var (
	_ model.SchemaMixer   = (*anthropicModel)(nil)
	_ model.ContentCacher = (*anthropicModel)(nil)
)

// CachesContents returns true; see [model.CanCache].
func (m *anthropicModel) CachesContents() bool { return m.anthropic.opts.Cache != cacheOff }

// MixesToolsAndSchema reports whether one request may have both tools and a response
// schema.
func (m *anthropicModel) MixesToolsAndSchema() bool {
	return m.anthropic.hasOutputFormat(m.anthropic.name)
}

type anthropic struct {
	name    string
	opts    Options
	service *modelapi.Service

	mu    sync.Mutex
	token func(context.Context) (string, error) // from Google's default credentials
	quota string                                // the project that they bill
}

func (a *anthropic) Name() string { return a.name }

// Generate calls the model once; see [model.LLM].
func (a *anthropic) Generate(ctx context.Context, req *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) {
		legal := legalrequest.New(ctx, &anthropicRules, modelapi.AnthropicVendor, req)
		req, yield := legal.Request, legal.RestoreCalls(yield)
		call, err := a.newCall(ctx, req)
		if err != nil {
			yield(nil, err)
			return
		}
		reply := &anthropicReply{call: call, stream: req.Stream, yield: modelapi.ForwardChunks(req.Stream, yield)}
		switch err := reply.readTurn(ctx); {
		case reply.stopped:
		case err != nil:
			yield(nil, err)
		default:
			yield(reply.buildResponse())
		}
	}
}

// maxPauses is how many times one response may be continued.
const maxPauses = 8

// readTurn sends the request, and sends it again with the content so far for as long as
// the service pauses the turn.
func (r *anthropicReply) readTurn(ctx context.Context) error {
	for range maxPauses + 1 {
		if err := r.readReply(ctx); err != nil || r.stopped || r.stop != "pause_turn" {
			return err
		}
		r.call.continueWith(r.blocks)
	}
	return &model.Error{
		Code: http.StatusGatewayTimeout, Status: modelcall.StatusWord(http.StatusGatewayTimeout), Reason: modelcall.ReasonPaused,
		Message: fmt.Sprintf("%s paused its turn more than %d times", r.call.model, maxPauses),
	}
}

func (r *anthropicReply) readReply(ctx context.Context) error {
	resp, err := r.call.anthropic.sendCall(ctx, r.call)
	if err != nil {
		return err
	}
	defer resp.CloseBody()
	r.resp = resp
	if r.budget == nil {
		r.budget = resp.Budget
	}
	resp.Budget = r.budget
	if resp.IsStream(r.stream) {
		err := r.readStream()
		if err == nil && !r.stopped {
			resp.DrainBody()
		}
		return err
	}
	return r.readMessage()
}

// An anthropicCall is one model call.
type anthropicCall struct {
	anthropic *anthropic
	model     string
	body      map[string]any
	options   *genai.HTTPOptions
	maxCalls  int
	// answerTool is set if the response schema was sent as the tool with that name.
	answerTool string
}

// continueWith appends a paused turn's content. blocks belong to the whole turn.
func (c *anthropicCall) continueWith(blocks []*replyBlock) {
	messages, _ := c.body["messages"].([]anthropicMessage)
	if n := len(messages); messages[n-1].Role == roleAssistant {
		messages = messages[:n-1]
	}
	turn := anthropicMessage{Role: roleAssistant}
	for _, b := range blocks {
		turn.Content = append(turn.Content, b.encodeBlock())
	}
	if turn.trimEnd(); len(turn.Content) > 0 {
		messages = append(slices.Clip(messages), turn)
	}
	c.body["messages"] = messages
}

// sendCall sends a request.
func (a *anthropic) sendCall(ctx context.Context, c *anthropicCall) (*modelapi.Response, error) {
	at, err := a.findEndpoint(ctx, c)
	if err != nil {
		return nil, err
	}
	call := &modelapi.Request{Url: at.url, Header: http.Header{}, Body: c.body, Secrets: at.secrets, MaxCalls: c.maxCalls}
	maps.Copy(call.Header, at.header)
	for name, values := range a.opts.Header {
		call.Header[http.CanonicalHeaderKey(name)] = values
		call.Secrets = append(call.Secrets, values...)
	}
	call.AddOptions(c.options)
	return a.service.PostJSON(ctx, call)
}

// An anthropicFailure is an error body.
type anthropicFailure struct {
	Error struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
	RequestID string `json:"request_id"`
}

// describeFailure returns the message with the request ID: Anthropic's support asks for it.
func (f *anthropicFailure) describeFailure() string {
	message := f.Error.Message
	if message == "" {
		message = f.Error.Type
	}
	if f.RequestID != "" && message != "" {
		message += " (request " + f.RequestID + ")"
	}
	return message
}

// parseAnthropicError parses Anthropic's errors and, on Vertex AI, Google's.
func parseAnthropicError(body []byte) (status, message string) {
	var f anthropicFailure
	if json.Unmarshal(body, &f) == nil && f.describeFailure() != "" {
		return "", f.describeFailure()
	}
	if google := modelapi.ParseErrorBody(body); google.Message != "" {
		return google.Status, google.Message
	}
	return modelapi.ParseServiceError(body)
}

// newFailure returns an error that the service sent in a stream.
func (r *anthropicReply) newFailure(f *anthropicFailure) error {
	if f.describeFailure() == "" {
		return r.resp.NewError(0, r.call.model+" failed without a message")
	}
	if f.RequestID == "" {
		f.RequestID = r.resp.Header.Get("Request-Id")
	}
	e := r.resp.NewError(modelcall.ReasonCode(f.Error.Type), f.describeFailure())
	e.Reason = f.Error.Type
	return e
}

// newMalformed returns the error for data that is not what the service documents.
func (r *anthropicReply) newMalformed(data []byte, problem string) error {
	return r.resp.MalformedError(data, errors.New(problem))
}
