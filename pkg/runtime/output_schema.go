package runtime

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// schemaMixer is implemented by models that may accept tools and a response
// schema in one request. Models without the method do not.
type schemaMixer interface{ MixesToolsAndSchema() bool }

func mixesToolsAndSchema(llm model.LLM) bool {
	m, ok := llm.(schemaMixer)
	return ok && m.MixesToolsAndSchema()
}

// applyOutputSchema selects how the model's answer is constrained to the
// output schema: by the request, or, if the model cannot combine a schema with
// tools, by an additional tool that takes the answer (adk-python
// flows/llm_flows/_output_schema_processor.py).
func (n *node) applyOutputSchema(l *LLMAgent, tools []tool.Tool) ([]tool.Tool, error) {
	schema := l.opts.OutputSchema
	if schema == nil {
		return tools, nil
	}
	if len(tools)+len(l.opts.Toolsets) == 0 || mixesToolsAndSchema(n.llm) {
		n.responseSchema = schema.JSON()
		return tools, nil
	}
	hasName := func(t tool.Tool) bool { return t.Declaration().Name == setModelResponse }
	if slices.ContainsFunc(tools, hasName) {
		return nil, fmt.Errorf("agent %s has a tool named %s, a name that is reserved for its output_schema", l.AgentName, setModelResponse)
	}
	transfer := n.transferText
	n.transferText = sync.OnceValue(func() string {
		return prompt(nil).appendParagraph(setModelResponseText).appendParagraph(transfer()).joinText()
	})
	return append(tools, newResponseTool(schema)), nil
}

// addResponseSchema adds the schema to a request.
func (n *node) addResponseSchema(c *genai.GenerateContentConfig) {
	if n.responseSchema != nil {
		c.ResponseJsonSchema, c.ResponseMIMEType = n.responseSchema, "application/json"
	}
}

const (
	setModelResponse     = "set_model_response"
	setModelResponseText = "You have tools, and your final answer must have a fixed structure. Use the other tools as you need them. " +
		"Then give the final answer by calling `set_model_response` with arguments that fit its declaration. " +
		"Do not write the final answer as text."
)

// A responseTool receives the final answer of an agent whose model cannot combine
// a schema with tools (adk-python tools/set_model_response_tool.py).
type responseTool struct {
	schema *tool.Schema
	decl   *genai.FunctionDeclaration
	// wrapped is the parameter with the answer; empty if the fields of the
	// answer are the parameters.
	wrapped string
}

func newResponseTool(schema *tool.Schema) *responseTool {
	t := &responseTool{schema: schema}
	params := schema.JSON()
	if params["type"] != "object" {
		t.wrapped = "response"
		if items, ok := params["items"].(map[string]any); ok && items["type"] == "object" {
			t.wrapped = "items"
		}
		params = wrapSchema(t.wrapped, params)
	}
	t.decl = &genai.FunctionDeclaration{
		Name:                 setModelResponse,
		Description:          "Sets the final answer. Call it once everything is known; it ends your turn.",
		ParametersJsonSchema: params,
	}
	return t
}

// wrapSchema returns the schema of an object with one field of the given schema.
// It moves definitions to the root, where references expect them.
func wrapSchema(name string, schema map[string]any) map[string]any {
	inner := maps.Clone(schema)
	outer := map[string]any{"type": "object", "properties": map[string]any{name: inner}, "required": []any{name}}
	for _, key := range []string{"$defs", "definitions"} {
		if defs, ok := inner[key]; ok {
			outer[key] = defs
			delete(inner, key)
		}
	}
	return outer
}

// Declaration returns the declaration, with the schema's fields as parameters.
func (t *responseTool) Declaration() *genai.FunctionDeclaration { return t.decl }

// Run validates the answer. An invalid one is reported to the model, which may
// try again.
func (t *responseTool) Run(_ context.Context, call *tool.Call) (*tool.Result, error) {
	given := any(call.Args)
	if t.wrapped != "" {
		v, ok := call.Args[t.wrapped]
		if !ok {
			return nil, &tool.ArgsError{Tool: setModelResponse, Missing: []string{t.wrapped}}
		}
		given = v
	}
	answer, err := t.schema.Check(given)
	if err != nil {
		return nil, &tool.ArgsError{Tool: setModelResponse, Wrong: strings.Split(err.Error(), "; ")}
	}
	call.Actions.SetModelResponse = answer
	return &tool.Result{Response: asResponse(answer)}, nil
}

// asResponse converts a value to a function response: an object unchanged,
// anything else under the key result.
func asResponse(v any) map[string]any {
	if m, ok := v.(map[string]any); ok {
		return m
	}
	return map[string]any{"result": v}
}

// emitStructuredOutput yields the answer that the response tool received, as an
// event of the model (semantics 5.3).
func (s *step) emitStructuredOutput(answer *session.Event) (*session.Event, bool) {
	value := answer.Actions.SetModelResponse
	if value == nil || s.inv.node.tools.byName[setModelResponse] == nil {
		return answer, true
	}
	ev := s.inv.NewEvent()
	ev.Content = model.ModelText(jsonText(value))
	ev.Actions.SetModelResponse = value
	return ev, s.emitAnswer(ev)
}

// emitAnswer stores the output of an event and yields the event. An answer
// that does not match the schema is stored and ends the run.
func (s *step) emitAnswer(ev *session.Event) bool {
	var failure *RunError
	if !ev.Partial {
		failure = s.agent.storeOutput(s.inv.run.app.state, ev)
	}
	if failure == nil && s.inv.endsRun && s.inv.endsWithAgent() && !ev.Partial && ev.IsFinal() && len(ev.Calls()) == 0 {
		s.inv.run.onLastEvent()
	}
	if !s.emitEvent(ev, nil) {
		return false
	}
	if failure != nil {
		s.emitEvent(nil, failure)
		return false
	}
	return true
}

// parseOutput returns the value of the final text. If the text does not match
// the schema, it makes ev an error event.
func (a *LLMAgent) parseOutput(ev *session.Event, text string) (any, *RunError) {
	v, err := a.opts.OutputSchema.Parse(text)
	if err == nil {
		return v, nil
	}
	return nil, rejectOutput(ev, err, "the answer of agent %s does not match its output_schema: %s", a.AgentName, err)
}

// inputSchemaOf returns the input schema of an agent: for a composite agent,
// that of its first sub-agent (adk-python tools/agent_tool.py).
func inputSchemaOf(a Agent) *tool.Schema {
	if l, ok := a.(*LLMAgent); ok {
		return l.opts.InputSchema
	}
	if subs := a.SubAgents(); len(subs) > 0 {
		return inputSchemaOf(subs[0])
	}
	return nil
}

// outputSchemaOf returns the output schema of an agent: for a composite agent,
// that of its last sub-agent.
func outputSchemaOf(a Agent) *tool.Schema {
	if l, ok := a.(*LLMAgent); ok {
		return l.opts.OutputSchema
	}
	if subs := a.SubAgents(); len(subs) > 0 {
		return outputSchemaOf(subs[len(subs)-1])
	}
	return nil
}
