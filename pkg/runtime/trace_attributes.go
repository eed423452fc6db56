package runtime

import (
	"encoding/json"

	"go.opentelemetry.io/otel/attribute"
	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
)

// TracerName is the instrumentation scope for run spans.
const TracerName = "agenthost"

// The span operations, which are the values for [AttrOperation] and begin the span names. A whole
// run's span has no operation.
const (
	OperationAgent = "invoke_agent"     // an agent's run, including its sub-agents
	OperationModel = "generate_content" // a model call
	OperationTool  = "execute_tool"     // a tool call
)

// The span attributes: those in OpenTelemetry's GenAI semantic conventions (1.41) and agenthost's
// own. They exclude the user ID, because many people can read a collector. Empty values are
// omitted.
const (
	AttrApp         = attribute.Key("agenthost.app")
	AttrRevision    = attribute.Key("agenthost.revision")
	AttrInvocation  = attribute.Key("agenthost.invocation")
	AttrSession     = attribute.Key("gen_ai.conversation.id")
	AttrSessionWait = attribute.Key("agenthost.session_wait") // seconds that the run waited for the session
	AttrEvent       = attribute.Key("agenthost.event")        // the ID of the resulting event
	AttrErrorType   = attribute.Key("error.type")             // a model service's HTTP status, else the error's code

	// AttrMainAgent is the root agent's name.
	AttrMainAgent = attribute.Key("gen_ai.main_agent.id")
	// AttrCallback marks a model call that a callback has answered.
	AttrCallback = attribute.Key("agenthost.model.callback")

	AttrOperation = attribute.Key("gen_ai.operation.name")
	AttrAgent     = attribute.Key("gen_ai.agent.name")
	AttrTool      = attribute.Key("gen_ai.tool.name")
	AttrCall      = attribute.Key("gen_ai.tool.call.id")

	AttrModel         = attribute.Key("gen_ai.request.model")
	AttrModelVersion  = attribute.Key("gen_ai.response.model")
	AttrFinishReasons = attribute.Key("gen_ai.response.finish_reasons")
	AttrInputTokens   = attribute.Key("gen_ai.usage.input_tokens")
	AttrOutputTokens  = attribute.Key("gen_ai.usage.output_tokens") // including thoughts
	AttrCost          = attribute.Key("agenthost.model.cost_usd")
	AttrWait          = attribute.Key("agenthost.model.wait") // of an event "wait": why the call waits
)

// The attributes for [Options.TraceContents]. All but the texts are JSON, and files are omitted.
const (
	AttrInstructions   = attribute.Key("gen_ai.system_instructions") // text
	AttrInputMessages  = attribute.Key("gen_ai.input.messages")
	AttrOutputMessages = attribute.Key("gen_ai.output.messages")
	AttrArguments      = attribute.Key("gen_ai.tool.call.arguments")
	AttrResult         = attribute.Key("gen_ai.tool.call.result")
	AttrErrorMessage   = attribute.Key("error.message") // text
	// AttrModelRequest and AttrModelResponse are a model's request and response without messages,
	// as in ADK's clients.
	AttrModelRequest  = attribute.Key("agenthost.model.request")
	AttrModelResponse = attribute.Key("agenthost.model.response")
)

// IsContentAttribute reports whether spans have the attribute only with
// [Options.TraceContents].
func IsContentAttribute(key attribute.Key) bool {
	switch key {
	case AttrInstructions, AttrInputMessages, AttrOutputMessages, AttrArguments, AttrResult, AttrErrorMessage, AttrModelRequest, AttrModelResponse:
		return true
	}
	return false
}

// modelCallAttributes returns the attributes of a model call that are known at its end. The
// response may be nil.
func (h *Host) modelCallAttributes(req *model.Request, r *model.Response) []attribute.KeyValue {
	all := make([]attribute.KeyValue, 0, 9)
	if h.traceContents {
		all = append(all, AttrInstructions.String(req.Instruction()), AttrInputMessages.String(tracedContents(req.Contents)),
			AttrModelRequest.String(tracedRequest(req)))
	}
	if r == nil {
		return all
	}
	if r.ModelVersion != "" {
		all = append(all, AttrModelVersion.String(r.ModelVersion))
	}
	if r.FinishReason != "" {
		all = append(all, AttrFinishReasons.StringSlice([]string{string(r.FinishReason)}))
	}
	if u := r.UsageMetadata; u != nil {
		all = append(all, AttrInputTokens.Int(int(u.PromptTokenCount)), AttrOutputTokens.Int(int(u.CandidatesTokenCount+u.ThoughtsTokenCount)))
	}
	if usd, ok := model.CostOf(r); ok {
		all = append(all, AttrCost.Float64(usd))
	}
	if h.traceContents {
		all = append(all, AttrModelResponse.String(tracedResponse(r)))
		if r.Content != nil {
			all = append(all, AttrOutputMessages.String(string(tracedContent(r.Content))))
		}
	}
	return all
}

// A tracedConfig is a request's config with its system instruction as text.
type tracedConfig struct {
	*genai.GenerateContentConfig
	SystemInstruction string `json:"systemInstruction,omitempty"`
}

// tracedRequest encodes a request without its contents as in ADK's clients (adk-python
// telemetry/tracing.py). Headers are omitted, because they may contain keys.
func tracedRequest(req *model.Request) string {
	config := genai.GenerateContentConfig{}
	if req.Config != nil {
		config = *req.Config
	}
	config.HTTPOptions = nil
	return jsonText(struct {
		Model  string       `json:"model"`
		Config tracedConfig `json:"config"`
	}{req.Model, tracedConfig{&config, req.Instruction()}})
}

// tracedResponse encodes a response without its content as in ADK's clients.
func tracedResponse(r *model.Response) string {
	return jsonText(struct {
		FinishReason  genai.FinishReason                          `json:"finishReason,omitempty"`
		ErrorCode     string                                      `json:"errorCode,omitempty"`
		ErrorMessage  string                                      `json:"errorMessage,omitempty"`
		ModelVersion  string                                      `json:"modelVersion,omitempty"`
		UsageMetadata *genai.GenerateContentResponseUsageMetadata `json:"usageMetadata,omitempty"`
	}{r.FinishReason, r.ErrorCode, r.ErrorMessage, r.ModelVersion, r.UsageMetadata})
}

func tracedContents(contents []*genai.Content) string {
	all := make([]json.RawMessage, 0, len(contents))
	for _, c := range contents {
		all = append(all, tracedContent(c))
	}
	return jsonText(all)
}

// tracedContent encodes a content without its files.
func tracedContent(c *genai.Content) json.RawMessage {
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
