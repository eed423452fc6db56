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

// applyOutputSchema selects how the model's answer is constrained to the
// output schema: by the request, or, if the model cannot combine a schema with
// tools, by an additional tool that takes the answer (adk-python
// flows/llm_flows/_output_schema_processor.py).
func (n *node) applyOutputSchema(l *LLMAgent, tools []tool.Tool) ([]tool.Tool, error) {
	schema := l.opts.OutputSchema
	if schema == nil || l.opts.Mode == ModeTask { // finish_task takes a task's output
		return tools, nil
	}
	if len(tools)+len(l.opts.Toolsets) == 0 || model.CanMixSchema(n.llm) {
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

const (
	setModelResponse     = "set_model_response"
	setModelResponseText = "You have tools, and your final answer must have a fixed structure. Use the other tools as you need them. " +
		"Then give the final answer by calling `set_model_response` with arguments that fit its declaration. " +
		"Do not write the final answer as text."
)

// emitStructuredOutput yields the answer that the response tool received, as a model event
// (semantics 5.3). The answer is nil if results have none.
func (s *step) emitStructuredOutput(ctx context.Context, results *session.Event) (answer *session.Event, o outcome) {
	value := results.Actions.SetModelResponse
	if value == nil || s.inv.node.tools.byName[setModelResponse] == nil {
		return nil, outcome{}
	}
	ev := s.inv.NewEvent()
	ev.Content = model.ModelText(jsonText(value))
	ev.Actions.SetModelResponse = value
	if o = s.emitAnswer(ctx, ev); o.endsAgent() {
		return ev, o
	}
	return ev, answerWith(ev)
}

// A responseTool receives the final answer from an agent whose model cannot combine a schema with
// tools (adk-python tools/set_model_response_tool.py).
type responseTool struct {
	schema *tool.Schema
	decl   *genai.FunctionDeclaration
	// wrapped is the parameter with the answer; empty if the answer's fields are the parameters.
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

// wrapSchema returns the schema for an object whose only field has the given schema. It moves
// definitions to the root, where references expect them.
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
func (t *responseTool) Run(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	given := any(call.Args)
	if t.wrapped != "" {
		v, ok := call.Args[t.wrapped]
		if !ok {
			return nil, &tool.ArgsError{Tool: setModelResponse, Missing: []string{t.wrapped}}
		}
		given = v
	}
	answer, err := t.schema.Check(ctx, given)
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

// InputSchema returns an agent's input schema, or nil: for a composite agent without one, its first
// sub-agent's.
func InputSchema(a Agent) *tool.Schema { return inputSchemaOf(a) }

// OutputSchema returns an agent's output schema, or nil: for a composite agent, its last sub-agent's.
func OutputSchema(a Agent) *tool.Schema { return outputSchemaOf(a) }

// inputSchemaOf returns an agent's input schema: for a composite agent without one, its first
// sub-agent's (adk-python tools/agent_tool.py).
func inputSchemaOf(a Agent) *tool.Schema {
	switch a := a.(type) {
	case *LLMAgent:
		return a.opts.InputSchema
	case *Workflow:
		if a.input != nil {
			return a.input
		}
	}
	if subs := a.SubAgents(); len(subs) > 0 {
		return inputSchemaOf(subs[0])
	}
	return nil
}

// outputSchemaOf returns an agent's output schema: for a composite agent, its last sub-agent's.
func outputSchemaOf(a Agent) *tool.Schema {
	if l, ok := a.(*LLMAgent); ok {
		return l.opts.OutputSchema
	}
	if subs := a.SubAgents(); len(subs) > 0 {
		return outputSchemaOf(subs[len(subs)-1])
	}
	return nil
}

// CheckWriter returns an error for the first key in a delta that the state_schema does not let the
// writer write.
func (a *App) CheckWriter(w session.Writer, delta map[string]any) error {
	if err := a.state.CheckWriter(w, delta); err != nil {
		return failf(CodeForbidden, err, "%s", err)
	}
	return nil
}

// Writable returns a state key's least trusted writer, and whether the app's state_schema declares
// it.
func (a *App) Writable(key string) (by session.Writer, declared bool) { return a.state.Writable(key) }

// checkWrites rejects all writes by a tool call if one violates the state schema.
func (s *callRunner) checkWrites(actions *session.Actions) error {
	err := s.inv.run.app.state.CheckDelta(actions.StateDelta)
	if err != nil {
		*actions = session.Actions{ArtifactDelta: actions.ArtifactDelta}
	}
	return err
}
