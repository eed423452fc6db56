package evalrun

import (
	"context"
	"iter"
	"sync"

	"google.golang.org/genai"

	"agenthost/internal/turn"
	"agenthost/pkg/model"
	"agenthost/wing/evaluation/eval"
)

// WrapModel returns a model that records its requests' instructions and tools during a case,
// for metrics that judge by them, and its responses' usage. Without it, turns have no app
// details and no usage.
func WrapModel(llm model.LLM) model.LLM { return &loggedModel{wrappedModel{llm}} }

// A wrappedModel has the capabilities of the model that it wraps.
type wrappedModel struct{ model.LLM }

var (
	_ model.ContentCacher = (*wrappedModel)(nil)
	_ model.CodeRunner    = (*wrappedModel)(nil)
	_ model.SchemaMixer   = (*wrappedModel)(nil)
)

// CachesContents reports the model's capability; see [model.CanCache].
func (m *wrappedModel) CachesContents() bool { return model.CanCache(m.LLM) }

// RunsCode reports the model's capability; see [model.RunsCode].
func (m *wrappedModel) RunsCode() bool { return model.RunsCode(m.LLM) }

// MixesToolsAndSchema reports the model's capability. Without it, an agent with tools and an
// output schema runs differently than in production.
func (m *wrappedModel) MixesToolsAndSchema() bool { return model.CanMixSchema(m.LLM) }

// Live returns the model's live conversations, or nil. See [model.LiveProvider].
func (m *wrappedModel) Live() model.LiveLLM { return model.LiveOf(m.LLM) }

type loggedModel struct{ wrappedModel }

// Generate records the request and calls the model; see [model.LLM].
func (m *loggedModel) Generate(ctx context.Context, req *model.Request) iter.Seq2[*model.Response, error] {
	log, ok := ctx.Value(requestLogKey{}).(*requestLog)
	if !ok {
		return m.LLM.Generate(ctx, req)
	}
	log.addRequest(req)
	// A route calls models that are wrapped, too: their calls must not count twice.
	responses := m.LLM.Generate(context.WithValue(ctx, requestLogKey{}, nil), req)
	return func(yield func(*model.Response, error) bool) {
		responses(func(resp *model.Response, err error) bool {
			if err == nil && !resp.Partial {
				log.usage.addResponse(resp)
			}
			return yield(resp, err)
		})
	}
}

// Live returns the model's live conversations, which record each connection's setup and each
// answer's usage, or nil. See [model.LiveProvider].
func (m *loggedModel) Live() model.LiveLLM {
	inner := model.LiveOf(m.LLM)
	if inner == nil {
		return nil
	}
	return &loggedLive{inner}
}

type loggedLive struct{ model.LiveLLM }

// ConnectLive records the setup and opens a connection; see [model.LiveLLM].
func (m *loggedLive) ConnectLive(ctx context.Context, setup *model.LiveSetup) (model.LiveConn, error) {
	log, ok := ctx.Value(requestLogKey{}).(*requestLog)
	if !ok {
		return m.LiveLLM.ConnectLive(ctx, setup)
	}
	log.addRequest(&model.Request{
		Model: setup.Model, Origin: setup.Origin,
		Config: &genai.GenerateContentConfig{SystemInstruction: setup.SystemInstruction, Tools: setup.Tools},
	})
	conn, err := m.LiveLLM.ConnectLive(context.WithValue(ctx, requestLogKey{}, nil), setup)
	if err != nil {
		return nil, err
	}
	return &loggedConn{conn, log.usage}, nil
}

type loggedConn struct {
	model.LiveConn
	usage *usageMeter
}

// Receive returns the next message and records its usage; see [model.LiveConn].
func (c *loggedConn) Receive(ctx context.Context) (*model.LiveMessage, error) {
	m, err := c.LiveConn.Receive(ctx)
	if err == nil && m.Usage != nil {
		c.usage.addResponse(&model.Response{UsageMetadata: m.Usage, CustomMetadata: m.CustomMetadata})
	}
	return m, err
}

type requestLogKey struct{}

// A requestLog has the details from each agent's first request in a turn, and adds the usage
// from all requests to a meter.
type requestLog struct {
	usage *usageMeter
	// keepsAll makes the log keep all requests, for expressions.
	keepsAll bool

	mu       sync.Mutex
	agents   map[string]*eval.AgentDetails
	requests []turn.Request
}

func withRequestLog(ctx context.Context, usage *usageMeter, keepsAll bool) (context.Context, *requestLog) {
	log := &requestLog{usage: usage, keepsAll: keepsAll, agents: map[string]*eval.AgentDetails{}}
	return context.WithValue(ctx, requestLogKey{}, log), log
}

func (l *requestLog) addRequest(req *model.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.keepsAll {
		l.requests = append(l.requests, turn.NewRequest(req))
	}
	name := req.Origin.Agent
	if l.agents[name] != nil {
		return
	}
	l.agents[name] = &eval.AgentDetails{Name: name, Instructions: req.Instruction()}
	if req.Config != nil {
		l.agents[name].Tools = req.Config.Tools
	}
}

// listRequests returns the requests that the log keeps.
func (l *requestLog) listRequests() []turn.Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.requests
}

// appDetails returns what is recorded, or nil.
func (l *requestLog) appDetails() *eval.AppDetails {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.agents) == 0 {
		return nil
	}
	return &eval.AppDetails{Agents: l.agents}
}

// A usageMeter adds up the usage by model calls. It is safe for concurrent use.
type usageMeter struct {
	mu  sync.Mutex
	sum eval.Usage
}

func (m *usageMeter) addResponse(r *model.Response) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sum.AddResponse(r)
}

func (m *usageMeter) addCached() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sum.CachedAnswers++
}

// usageOrNil returns the sum, or nil if there were no calls.
func (m *usageMeter) usageOrNil() *eval.Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sum == (eval.Usage{}) {
		return nil
	}
	sum := m.sum
	return &sum
}
