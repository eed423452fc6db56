package server

import (
	"net/http"
	"slices"
	"strings"

	"agenthost/pkg/runtime"
)

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
