package server

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
)

// Limits of retained spans.
const (
	maxSpans = 4096
	// maxContentBytes limits the total size of the inputs and outputs of models and
	// tools.
	maxContentBytes = 32 << 20
)

// Traces retains the latest spans of runs for developers, up to maxSpans. Pass Observe
// to the host. It is safe for concurrent use.
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

// NewTraces returns an empty Traces. With contents it retains the inputs and outputs of
// models and tools, otherwise only names, times and token counts.
func NewTraces(contents bool) *Traces { return &Traces{contents: contents} }

// A keptSpan is a retained span. It holds no reference to its run.
type keptSpan struct {
	kind         runtime.SpanKind
	name, agent  string
	trace        trace.TraceID
	span, parent trace.SpanID
	began, ended time.Time
	run          runtime.TracedRun
	event        string

	requestedModel, finish string
	tokensIn               int32
	tokensOut              int32
	call                   string
	// input and output are JSON: the request and the response of a model, or the
	// arguments and the result of a tool.
	input, output string
}

// Observe retains a span.
func (t *Traces) Observe(s *runtime.Span) {
	k := keptSpan{
		kind: s.Kind, name: s.Name, agent: s.Agent, event: s.Event, began: s.Start, ended: s.End,
		trace: s.IDs.TraceID(), span: s.IDs.SpanID(), parent: s.Parent.SpanID(),
	}
	if s.Run != nil {
		k.run = *s.Run
	}
	if s.Model != nil {
		k.setModel(s.Model, t.contents)
	}
	if s.Tool != nil {
		k.setTool(s.Tool, t.contents)
	}
	t.addSpan(k)
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
		oldest.input, oldest.output = "", ""
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

func (k *keptSpan) contentSize() int { return len(k.input) + len(k.output) }

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

func (k *keptSpan) setModel(m *runtime.TracedModel, contents bool) {
	if m.Request != nil {
		k.requestedModel = m.Request.Model
	}
	if r := m.Response; r != nil {
		k.finish = string(r.FinishReason)
		if u := r.UsageMetadata; u != nil {
			k.tokensIn, k.tokensOut = u.PromptTokenCount, u.CandidatesTokenCount+u.ThoughtsTokenCount
		}
	}
	if contents {
		k.input, k.output = traceRequest(m.Request), traceResponse(m.Response)
	}
}

func (k *keptSpan) setTool(c *runtime.TracedTool, contents bool) {
	if c.Call == nil {
		return
	}
	k.call = c.Call.ID
	if !contents {
		return
	}
	k.input = jsonString(c.Call.Args)
	if c.Result != nil {
		k.output = jsonString(c.Result.Response)
	}
}

// A tracedConfig is the config of a request with its system instruction as text.
type tracedConfig struct {
	*genai.GenerateContentConfig
	SystemInstruction string `json:"systemInstruction,omitempty"`
}

// traceRequest encodes a request in the form of ADK's clients (adk-python
// telemetry/tracing.py). Files are omitted, and so are headers, which may contain keys.
func traceRequest(req *model.Request) string {
	if req == nil {
		return ""
	}
	config := genai.GenerateContentConfig{}
	if req.Config != nil {
		config = *req.Config
	}
	config.HTTPOptions = nil
	contents := make([]json.RawMessage, 0, len(req.Contents))
	for _, c := range req.Contents {
		contents = append(contents, traceContent(c))
	}
	return jsonString(struct {
		Model    string            `json:"model"`
		Config   tracedConfig      `json:"config"`
		Contents []json.RawMessage `json:"contents"`
	}{req.Model, tracedConfig{&config, req.Instruction()}, contents})
}

func traceResponse(r *model.Response) string {
	if r == nil {
		return ""
	}
	return jsonString(struct {
		Content       json.RawMessage                             `json:"content,omitempty"`
		FinishReason  genai.FinishReason                          `json:"finishReason,omitempty"`
		ErrorCode     string                                      `json:"errorCode,omitempty"`
		ErrorMessage  string                                      `json:"errorMessage,omitempty"`
		ModelVersion  string                                      `json:"modelVersion,omitempty"`
		UsageMetadata *genai.GenerateContentResponseUsageMetadata `json:"usageMetadata,omitempty"`
	}{traceContent(r.Content), r.FinishReason, r.ErrorCode, r.ErrorMessage, r.ModelVersion, r.UsageMetadata})
}

// traceContent encodes a content without its files.
func traceContent(c *genai.Content) json.RawMessage {
	if c == nil {
		return nil
	}
	bare := &genai.Content{Role: c.Role}
	for _, p := range c.Parts {
		if p != nil && p.InlineData == nil {
			bare.Parts = append(bare.Parts, p)
		}
	}
	text, err := session.EncodeContent(bare)
	if err != nil {
		return json.RawMessage(`{}`)
	}
	return text
}

// jsonString encodes a value as JSON, or returns an empty string if that fails.
func jsonString(v any) string {
	text, err := encodeJSON(v)
	if err != nil {
		return ""
	}
	return string(text)
}

// A spanBody is a span in the form of ADK's clients: times are in nanoseconds, and only
// the parent may be null, otherwise ADK's web client rejects the whole list.
type spanBody struct {
	Name       string         `json:"name"`
	SpanID     string         `json:"span_id"`
	TraceID    string         `json:"trace_id"`
	StartTime  int64          `json:"start_time"`
	EndTime    int64          `json:"end_time"`
	Attributes map[string]any `json:"attributes"`
	Parent     *string        `json:"parent_span_id"`
}

// handleSessionTrace lists the spans of a session's runs, oldest first.
func (s *Server) handleSessionTrace(w http.ResponseWriter, r *http.Request) error {
	key := pathKey(r)
	found := s.opts.Traces.findSpans(func(k *keptSpan) bool {
		return k.run.SessionID == key.ID && (key.App == "" || k.run.App == key.App)
	})
	slices.SortStableFunc(found, func(a, b keptSpan) int { return a.began.Compare(b.began) })
	bodies := []spanBody{}
	for _, k := range found {
		bodies = append(bodies, k.wireBody())
	}
	return writeJSON(w, bodies)
}

// handleEventTrace describes the model call or tool call that produced an event.
func (s *Server) handleEventTrace(w http.ResponseWriter, r *http.Request) error {
	app, event := r.PathValue("app"), r.PathValue("event")
	found := s.opts.Traces.findSpans(func(k *keptSpan) bool {
		return event != "" && k.event == event && (app == "" || k.run.App == app)
	})
	if len(found) == 0 {
		return notFoundError("Trace not found")
	}
	k := found[len(found)-1]
	body := k.wireAttributes()
	body["trace_id"], body["span_id"] = k.trace.String(), k.span.String()
	return writeJSON(w, body)
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

// spanName returns adk-python's name of a span.
func (k *keptSpan) spanName() string {
	switch k.kind {
	case runtime.SpanAgent:
		return "invoke_agent " + k.name
	case runtime.SpanModel:
		return "call_llm"
	case runtime.SpanTool:
		return "execute_tool " + k.name
	}
	return "invocation"
}

// wireAttributes returns the attributes of adk-python's telemetry/tracing.py. Unknown
// values are omitted.
func (k *keptSpan) wireAttributes() map[string]any {
	all := map[string]any{}
	put := func(key, value string) {
		if value != "" {
			all[key] = value
		}
	}
	put("gen_ai.conversation.id", k.run.SessionID)
	put("gcp.vertex.agent.session_id", k.run.SessionID)
	put("gcp.vertex.agent.invocation_id", k.run.Invocation)
	put("gcp.vertex.agent.event_id", k.event)
	put("gen_ai.agent.name", k.agent)
	put("agenthost.revision", k.run.Revision)
	switch k.kind {
	case runtime.SpanAgent:
		put("gen_ai.operation.name", "invoke_agent")
		put("gen_ai.agent.name", k.name)
	case runtime.SpanModel:
		if k.event != "" {
			put("gen_ai.operation.name", "generate_content")
		}
		k.addModelAttributes(all, put)
	case runtime.SpanTool:
		put("gen_ai.operation.name", "execute_tool")
		put("gen_ai.tool.name", k.name)
		put("gen_ai.tool.call.id", k.call)
		put("gcp.vertex.agent.tool_call_args", k.input)
		put("gcp.vertex.agent.tool_response", k.output)
	}
	return all
}

func (k *keptSpan) addModelAttributes(all map[string]any, put func(key, value string)) {
	put("gen_ai.system", "agenthost")
	put("gen_ai.request.model", k.requestedModel)
	put("gcp.vertex.agent.llm_request", k.input)
	put("gcp.vertex.agent.llm_response", k.output)
	if k.tokensIn > 0 || k.tokensOut > 0 {
		all["gen_ai.usage.input_tokens"], all["gen_ai.usage.output_tokens"] = k.tokensIn, k.tokensOut
	}
	if k.finish != "" {
		all["gen_ai.response.finish_reasons"] = []string{strings.ToLower(k.finish)}
	}
}
