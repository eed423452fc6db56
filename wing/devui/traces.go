package devui

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
)

// Limits for retained spans.
const (
	maxSpans = 4096
	// maxContentBytes limits the total size of model and tool inputs and outputs.
	maxContentBytes = 32 << 20
)

// Traces retains the latest spans from runs for developers, up to maxSpans. It is a span
// processor for the host's TracerProvider, and safe for concurrent use.
type Traces struct {
	contents bool

	mu sync.Mutex
	// spans is a ring buffer once it is full: the oldest span is at next.
	spans []keptSpan
	next  int
	// stripped counts the oldest spans whose contents were removed; contentBytes is the
	// size of the remaining contents.
	stripped, contentBytes int
}

var _ sdktrace.SpanProcessor = (*Traces)(nil)

// NewTraces returns an empty Traces. With contents it retains the inputs and outputs of
// models and tools, if spans have them ([runtime.Options.TraceContents]), otherwise only
// names, times and token counts.
func NewTraces(contents bool) *Traces { return &Traces{contents: contents} }

// A keptSpan is a retained span. It holds no reference to its run.
type keptSpan struct {
	// operation is empty for a run.
	operation                string
	app, revision, session   string
	invocation, event, agent string
	trace                    trace.TraceID
	span, parent             trace.SpanID
	began, ended             time.Time

	model, finish       string
	tokensIn, tokensOut int64
	tool, call          string
	// queued is how long a run waited for its session, in seconds.
	queued, cost      float64
	failure, callback string
	waits             []keptWait
	keptContents
}

// A keptWait is why a model call waited, from a time on.
type keptWait struct {
	at   time.Time
	text string
}

// maxWaits limits a span's waits; a call has few attempts.
const maxWaits = 16

// keptContents are JSON.
type keptContents struct {
	// input and output are the messages to and from a model, or a tool's arguments and
	// result.
	input, output string
	// request and response are a model's, without messages.
	request, response string
}

func (c *keptContents) contentSize() int {
	return len(c.input) + len(c.output) + len(c.request) + len(c.response)
}

// OnStart does nothing.
func (t *Traces) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

// OnEnd retains a run's span. Spans from other instrumentation, which belong to no session,
// are ignored.
func (t *Traces) OnEnd(s sdktrace.ReadOnlySpan) {
	if s.InstrumentationScope().Name != runtime.TracerName {
		return
	}
	ids := s.SpanContext()
	k := keptSpan{
		trace: ids.TraceID(), span: ids.SpanID(), parent: s.Parent().SpanID(),
		began: s.StartTime(), ended: s.EndTime(),
	}
	for _, a := range s.Attributes() {
		if !runtime.IsContentAttribute(a.Key) {
			k.setAttribute(a)
		} else if t.contents {
			k.setContent(a)
		}
	}
	for _, e := range s.Events() {
		for _, a := range e.Attributes {
			if a.Key == runtime.AttrWait && len(k.waits) < maxWaits {
				k.waits = append(k.waits, keptWait{e.Time, a.Value.AsString()})
			}
		}
	}
	t.addSpan(k)
}

// Shutdown does nothing: the spans remain.
func (t *Traces) Shutdown(context.Context) error { return nil }

// ForceFlush does nothing: spans are retained when they end.
func (t *Traces) ForceFlush(context.Context) error { return nil }

func (k *keptSpan) setAttribute(a attribute.KeyValue) {
	switch a.Key {
	case runtime.AttrOperation:
		k.operation = a.Value.AsString()
	case runtime.AttrApp:
		k.app = a.Value.AsString()
	case runtime.AttrRevision:
		k.revision = a.Value.AsString()
	case runtime.AttrSession:
		k.session = a.Value.AsString()
	case runtime.AttrInvocation:
		k.invocation = a.Value.AsString()
	case runtime.AttrEvent:
		k.event = a.Value.AsString()
	case runtime.AttrAgent:
		k.agent = a.Value.AsString()
	case runtime.AttrModel:
		k.model = a.Value.AsString()
	case runtime.AttrFinishReasons:
		k.finish = strings.Join(a.Value.AsStringSlice(), " ")
	case runtime.AttrInputTokens:
		k.tokensIn = a.Value.AsInt64()
	case runtime.AttrOutputTokens:
		k.tokensOut = a.Value.AsInt64()
	case runtime.AttrTool:
		k.tool = a.Value.AsString()
	case runtime.AttrCall:
		k.call = a.Value.AsString()
	case runtime.AttrSessionWait:
		k.queued = a.Value.AsFloat64()
	case runtime.AttrCost:
		k.cost = a.Value.AsFloat64()
	case runtime.AttrErrorType:
		k.failure = a.Value.AsString()
	case runtime.AttrCallback:
		k.callback = a.Value.AsString()
	}
}

func (c *keptContents) setContent(a attribute.KeyValue) {
	switch a.Key {
	case runtime.AttrInputMessages, runtime.AttrArguments:
		c.input = a.Value.AsString()
	case runtime.AttrOutputMessages, runtime.AttrResult:
		c.output = a.Value.AsString()
	case runtime.AttrModelRequest:
		c.request = a.Value.AsString()
	case runtime.AttrModelResponse:
		c.response = a.Value.AsString()
	}
}

func (t *Traces) addSpan(k keptSpan) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.spans) < maxSpans {
		t.spans = append(t.spans, k)
	} else {
		t.evictOldest()
		t.spans[t.next] = k
		t.next = (t.next + 1) % maxSpans
	}
	for t.contentBytes += k.contentSize(); t.contentBytes > maxContentBytes; t.stripped++ {
		oldest := t.spanAt(t.stripped)
		t.contentBytes -= oldest.contentSize()
		oldest.keptContents = keptContents{}
	}
}

func (t *Traces) evictOldest() {
	if t.stripped > 0 {
		t.stripped--
		return
	}
	t.contentBytes -= t.spanAt(0).contentSize()
}

// spanAt returns the nth oldest span, counted from 0.
func (t *Traces) spanAt(n int) *keptSpan { return &t.spans[(t.next+n)%len(t.spans)] }

// findSpans returns the matching spans, oldest first.
func (t *Traces) findSpans(matches func(*keptSpan) bool) []keptSpan {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var found []keptSpan
	for n := range t.spans {
		if k := t.spanAt(n); matches(k) {
			found = append(found, *k)
		}
	}
	return found
}

// A spanBody is a span as ADK's clients read it: times are in nanoseconds, and only the
// parent may be null, otherwise ADK's web client rejects the whole list.
type spanBody struct {
	Name       string         `json:"name"`
	SpanID     string         `json:"span_id"`
	TraceID    string         `json:"trace_id"`
	StartTime  int64          `json:"start_time"`
	EndTime    int64          `json:"end_time"`
	Attributes map[string]any `json:"attributes"`
	Parent     *string        `json:"parent_span_id"`
}

// handleSessionTrace lists the spans from a session's runs, oldest first.
func (s *handlers) handleSessionTrace(w http.ResponseWriter, r *http.Request) error {
	key := server.PathKey(r)
	found := s.opts.Traces.findSpans(func(k *keptSpan) bool {
		return k.session == key.ID && (key.App == "" || k.app == key.App)
	})
	slices.SortStableFunc(found, func(a, b keptSpan) int { return a.began.Compare(b.began) })
	bodies := []spanBody{}
	for _, k := range found {
		bodies = append(bodies, k.wireBody())
	}
	return server.WriteJSON(w, bodies)
}

// handleEventTrace describes the model call or tool call that produced an event.
func (s *handlers) handleEventTrace(w http.ResponseWriter, r *http.Request) error {
	app, event := r.PathValue("app"), r.PathValue("event")
	found := s.opts.Traces.findSpans(func(k *keptSpan) bool {
		return event != "" && k.event == event && (app == "" || k.app == app)
	})
	if len(found) == 0 {
		return server.NewError(http.StatusNotFound, "Trace not found")
	}
	k := found[len(found)-1]
	body := k.wireAttributes()
	body["trace_id"], body["span_id"] = k.trace.String(), k.span.String()
	return server.WriteJSON(w, body)
}

func (k *keptSpan) wireBody() spanBody {
	b := spanBody{
		Name: k.spanName(), SpanID: k.span.String(), TraceID: k.trace.String(),
		StartTime: k.began.UnixNano(), EndTime: k.ended.UnixNano(), Attributes: k.wireAttributes(),
	}
	if k.parent.IsValid() {
		parent := k.parent.String()
		b.Parent = &parent
	}
	return b
}

// spanName returns adk-python's name for a span.
func (k *keptSpan) spanName() string {
	switch k.operation {
	case runtime.OperationAgent:
		return "invoke_agent " + k.agent
	case runtime.OperationModel:
		return "call_llm"
	case runtime.OperationTool:
		return "execute_tool " + k.tool
	}
	return "invocation"
}

// wireAttributes returns the attributes in adk-python's telemetry/tracing.py. Unknown values
// are omitted.
func (k *keptSpan) wireAttributes() map[string]any {
	all := map[string]any{}
	put := func(key, value string) {
		if value != "" {
			all[key] = value
		}
	}
	put("gen_ai.conversation.id", k.session)
	put("gcp.vertex.agent.session_id", k.session)
	put("gcp.vertex.agent.invocation_id", k.invocation)
	put("gcp.vertex.agent.event_id", k.event)
	put("gen_ai.agent.name", k.agent)
	put("agenthost.revision", k.revision)
	if k.operation != runtime.OperationModel || k.event != "" {
		put("gen_ai.operation.name", k.operation)
	}
	switch k.operation {
	case runtime.OperationModel:
		put("gen_ai.system", "agenthost")
		put("gen_ai.request.model", k.model)
		put("gcp.vertex.agent.llm_request", k.wireRequest())
		put("gcp.vertex.agent.llm_response", k.wireResponse())
		if k.tokensIn > 0 || k.tokensOut > 0 {
			all["gen_ai.usage.input_tokens"], all["gen_ai.usage.output_tokens"] = k.tokensIn, k.tokensOut
		}
		if k.finish != "" {
			all["gen_ai.response.finish_reasons"] = []string{strings.ToLower(k.finish)}
		}
	case runtime.OperationTool:
		put("gen_ai.tool.name", k.tool)
		put("gen_ai.tool.call.id", k.call)
		put("gcp.vertex.agent.tool_call_args", k.input)
		put("gcp.vertex.agent.tool_response", k.output)
	}
	return all
}

// wireRequest returns the request with its messages as its last field.
func (c *keptContents) wireRequest() string {
	if c.request == "" {
		return ""
	}
	return strings.TrimSuffix(c.request, "}") + `,"contents":` + c.input + "}"
}

// wireResponse returns the response with its message as its first field.
func (c *keptContents) wireResponse() string {
	if c.output == "" {
		return c.response
	}
	fields := strings.TrimPrefix(c.response, "{")
	if fields == "}" {
		return `{"content":` + c.output + "}"
	}
	return `{"content":` + c.output + "," + fields
}
