package agentconfig

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"agenthost/internal/toolconfig"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

// agentCallbackLists are the callbacks in YAML that all agents have.
type agentCallbackLists struct {
	Before callbackList `yaml:"before_agent_callbacks" doc:"Called before the agent: respond answers instead, set writes state, fail ends the run."`
	After  callbackList `yaml:"after_agent_callbacks" doc:"Called after the agent: emit adds an event with text, set writes state, fail ends the run."`
}

// llmCallbackLists are the additional callbacks for LLM agents.
type llmCallbackLists struct {
	BeforeModel  callbackList `yaml:"before_model_callbacks" doc:"Called before the model: respond and deny answer instead, set writes state, fail ends the run."`
	AfterModel   callbackList `yaml:"after_model_callbacks" doc:"Called after each response of the model, including partial ones: replace changes its text, respond the whole response, set writes state, fail ends the run."`
	OnModelError callbackList `yaml:"on_model_error_callbacks" doc:"Called when the model fails: respond answers instead, set writes state, fail ends the run."`

	Tools toolCallbackLists `yaml:",inline"`
}

// toolCallbackLists are the callbacks for agents that call tools.
type toolCallbackLists struct {
	BeforeTool  callbackList `yaml:"before_tool_callbacks" doc:"Called before a tool: respond and deny answer instead, confirm requires approval by a person, set writes state, fail ends the run."`
	AfterTool   callbackList `yaml:"after_tool_callbacks" doc:"Called after a tool: replace and respond change its result, set writes state, fail ends the run."`
	OnToolError callbackList `yaml:"on_tool_error_callbacks" doc:"Called when a tool fails or does not exist: respond answers instead, set writes state, fail ends the run."`
}

// callbackList is a list that [DecodeCallbacks] decodes.
type callbackList struct{}

// DecodeSpec does nothing: DecodeCallbacks decodes the list with the
// registered functions.
func (*callbackList) DecodeSpec(*spec.Node) spec.Diagnostics { return nil }

// SchemaSpec refers to a callback's definition.
func (*callbackList) SchemaSpec() map[string]any {
	return map[string]any{"type": "array", "items": map[string]any{"$ref": "#/$defs/callback"}, "title": "list of [callback](#callbacks)"}
}

// A CallbackConfig is one callback in YAML: a function's name, or a rule with one verb.
type CallbackConfig struct {
	Name    spec.Text                `yaml:"name" doc:"Name of a function registered by the program; not combined with other keys."`
	When    spec.Expr                `yaml:"when" doc:"Condition of the rule. Default: always true."`
	Respond *spec.Node               `yaml:"respond" doc:"Answers with a string with placeholders; for tools also with a mapping of such strings."`
	Deny    spec.Text                `yaml:"deny" doc:"Denies the call with a message: a tool returns {error: message}; a model response gets the errorCode DENIED."`
	Confirm spec.Text                `yaml:"confirm" doc:"Requires a person to approve the tool call, and shows this text."`
	Replace spec.Expr                `yaml:"replace" doc:"Replaces the text of the model response, without thoughts, or the tool result with an expression's value; null keeps it."`
	Emit    spec.Text                `yaml:"emit" doc:"Adds an event with this text."`
	Writes  toolconfig.StateWrites   `yaml:",inline"`
	Saves   toolconfig.ArtifactSaves `yaml:"save_artifact" doc:"Session artifacts to save, each with its expression. Names may contain placeholders. A string has the media type for the name's extension, any other value is JSON; null saves nothing."`
	Fail    spec.Text                `yaml:"fail" doc:"Ends the run with this message."`
}

// A hookSpec describes one hook's callbacks in YAML.
type hookSpec struct {
	name  string
	verbs []string
	// env declares the names that only this hook has.
	env        template.Env
	selectHook func(c runtime.Callbacks) runtime.Callbacks
}

// withWriteVerbs returns a hook's verbs including those that write state or artifacts.
func withWriteVerbs(own ...string) []string {
	last := len(own) - 1
	return slices.Concat(own[:last], toolconfig.WriteVerbs(), []string{toolconfig.SaveVerb}, own[last:])
}

// hookSpecs returns an agent's hooks. The list is built once, because every agent in every load
// reads it; it must not be changed.
var hookSpecs = sync.OnceValue(func() []hookSpec {
	args := map[string]any{}
	call := template.Env{"name": "", "args": args}
	eventVars := template.Env{"event": template.Env{"id": "", "author": "", "branch": "", "text": "", "error_code": ""}}
	return []hookSpec{
		{"before_agent", withWriteVerbs("respond", "fail"), nil, func(c runtime.Callbacks) runtime.Callbacks { return runtime.Callbacks{BeforeAgent: c.BeforeAgent} }},
		{"after_agent", withWriteVerbs("emit", "fail"), eventVars, func(c runtime.Callbacks) runtime.Callbacks { return runtime.Callbacks{AfterAgent: c.AfterAgent} }},
		{"before_model", withWriteVerbs("respond", "deny", "fail"), nil, func(c runtime.Callbacks) runtime.Callbacks { return runtime.Callbacks{BeforeModel: c.BeforeModel} }},
		{
			"after_model",
			withWriteVerbs("respond", "replace", "fail"),
			template.Env{"response": template.Env{"text": "", "calls": []any{}, "partial": false, "error_code": ""}},
			func(c runtime.Callbacks) runtime.Callbacks { return runtime.Callbacks{AfterModel: c.AfterModel} },
		},
		{
			"on_model_error",
			withWriteVerbs("respond", "fail"),
			template.Env{"error": template.Env{"code": "", "message": ""}},
			func(c runtime.Callbacks) runtime.Callbacks { return runtime.Callbacks{OnModelError: c.OnModelError} },
		},
		{"before_tool", withWriteVerbs("respond", "deny", "confirm", "fail"), template.Env{"tool": call, "args": args}, func(c runtime.Callbacks) runtime.Callbacks { return runtime.Callbacks{BeforeTool: c.BeforeTool} }},
		{
			"after_tool",
			withWriteVerbs("respond", "replace", "fail"),
			template.Env{"tool": call, "args": args, "response": map[string]any{}},
			func(c runtime.Callbacks) runtime.Callbacks { return runtime.Callbacks{AfterTool: c.AfterTool} },
		},
		{
			"on_tool_error",
			withWriteVerbs("respond", "fail"),
			template.Env{"tool": call, "args": args, "error": template.Env{"message": ""}},
			func(c runtime.Callbacks) runtime.Callbacks { return runtime.Callbacks{OnToolError: c.OnToolError} },
		},
	}
})

// DecodeCallbacks decodes the callbacks in an agent's mapping. A name is looked up in functions,
// which has one or more functions for the hook. It reports all problems, and returns the valid
// callbacks.
func DecodeCallbacks(n *spec.Node, functions map[string]runtime.Callbacks) (runtime.Callbacks, spec.Diagnostics) {
	d := callbackDecoder{functions: functions}
	for _, h := range hookSpecs() {
		list := n.Get(h.name + "_callbacks")
		if list.IsNull() {
			continue
		}
		if list.Kind != spec.Sequence {
			d.addDiagnostics(list.Errorf("type", "%s_callbacks must be a list", h.name))
			continue
		}
		for _, item := range list.Items {
			d.decodeItem(item, h)
		}
		d.checkReached(list)
	}
	return d.callbacks, d.ds
}

// checkReached warns about callbacks after a rule that always answers: they are never called. It
// ignores replace, which may keep the answer.
func (d *callbackDecoder) checkReached(list *spec.Node) {
	for i, item := range list.Items[:max(len(list.Items)-1, 0)] {
		if d.ds.HasErrors() {
			return
		}
		always := item.Get("when").IsNull() && len(item.Entries) == 1
		if verb := item.Keys(); always && slices.Contains([]string{"respond", "deny", "emit", "fail"}, verb[0]) {
			d.addDiagnostics(list.Items[i+1].Warnf("callback-order", "this callback is never called: the one in line %d always answers", item.Pos.Line).
				WithHint("add a when to that one, or move it to the end"))
			return
		}
	}
}

type callbackDecoder struct {
	functions map[string]runtime.Callbacks
	callbacks runtime.Callbacks
	ds        spec.Diagnostics
}

func (d *callbackDecoder) addDiagnostics(ds ...spec.Diagnostic) { d.ds = append(d.ds, ds...) }

func (d *callbackDecoder) decodeItem(n *spec.Node, h hookSpec) {
	if n.Kind != spec.Mapping {
		d.addDiagnostics(n.Errorf("type", "a callback must be {name: NAME} or a rule with one verb, such as {when: …, %s: …}", h.verbs[0]))
		return
	}
	var c CallbackConfig
	ds := spec.Decode(n, &c)
	d.addDiagnostics(ds...)
	if ds.HasErrors() {
		return
	}
	var found runtime.Callbacks
	if c.Name.Value != "" {
		if len(n.Entries) > 1 {
			d.addDiagnostics(n.Errorf("callback", "name cannot be combined with other keys"))
		}
		found = h.selectHook(d.functions[c.Name.Value])
		if found.IsEmpty() {
			diag := c.Name.Errorf(0, "code", "%s callback %s is code that this host does not have", h.name, c.Name.Value)
			d.addDiagnostics(diag.WithHint("declare a replacement under functions in app.yaml, write a rule here (when, and one of %s), or register a Go function with this name", strings.Join(h.verbs, ", ")))
		}
	} else {
		r := d.compileRule(n, &c, h)
		found = h.selectHook(r.toCallbacks())
	}
	d.callbacks.Add(&found)
}

// compileRule compiles a rule with one verb.
func (d *callbackDecoder) compileRule(n *spec.Node, c *CallbackConfig, h hookSpec) *rule {
	env := h.declareEnv()
	r := &rule{verb: d.decodeVerb(n, h)}
	if slices.Contains(toolconfig.WriteVerbs(), r.verb) {
		r.writes = c.Writes.Assignments(func(e spec.Expr) *template.Expr { return d.compileExpr(e, env, template.Compile) })
		if len(r.writes) == 0 {
			d.addDiagnostics(n.Get(r.verb).Errorf("callback", "%s requires at least one key", r.verb))
		}
	}
	if !n.Get("when").IsNull() {
		r.when = d.compileExpr(c.When, env, template.CompileBool)
	}
	switch r.verb {
	case toolconfig.SaveVerb:
		for _, s := range c.Saves {
			name, err := toolconfig.NewArtifactName(s.Name.Value, d.compileText(s.Name, env))
			if err != nil {
				d.addDiagnostics(s.Name.Errorf(0, "callback", "%s", err))
			}
			r.saves = append(r.saves, toolconfig.ArtifactSave{Name: name, Value: d.compileExpr(s.Value, env, template.Compile)})
		}
	case "replace":
		r.replace = d.compileExpr(c.Replace, env, template.Compile)
	case "respond":
		d.compileRespond(c.Respond, h, r)
	case "deny":
		r.text = d.compileText(c.Deny, env)
	case "confirm":
		r.text = d.compileText(c.Confirm, env)
	case "emit":
		r.text = d.compileText(c.Emit, env)
	case "fail":
		r.text = d.compileText(c.Fail, env)
	}
	return r
}

// decodeVerb returns the rule's verb.
func (d *callbackDecoder) decodeVerb(n *spec.Node, h hookSpec) string {
	var verbs []*spec.Node
	for _, e := range n.Entries {
		if e.Key.Value != "when" && !e.Value.IsNull() {
			verbs = append(verbs, e.Key)
		}
	}
	allowed := strings.Join(h.verbs, ", ")
	switch {
	case len(verbs) == 0:
		d.addDiagnostics(n.Errorf("callback", "the rule has no verb: it requires one of %s", allowed))
		return ""
	case len(verbs) > 1:
		d.addDiagnostics(verbs[1].Errorf("callback", "a rule has only one verb, and it already has %s: write two rules", verbs[0].Value))
	case !slices.Contains(h.verbs, verbs[0].Value):
		d.addDiagnostics(verbs[0].Errorf("callback", "%s is not allowed in %s_callbacks; the allowed verbs are %s", verbs[0].Value, h.name, allowed))
	}
	return verbs[0].Value
}

// declareEnv declares all names that a hook has.
func (h hookSpec) declareEnv() template.Env {
	env := template.Env{
		"state": map[string]any{}, "user": "", "agent": "",
		"session":    template.Env{"id": "", "user_id": "", "app": ""},
		"run_config": template.Env(model.SampleRunConfig()),
		"invocation": template.Env{"id": ""}, "now": time.Time{},
	}
	maps.Copy(env, h.env)
	return env
}

func (d *callbackDecoder) compileExpr(src spec.Expr, env template.Env, compile func(string, template.Env) (*template.Expr, error)) *template.Expr {
	if src.Pos.Line == 0 { // not a string, which is already reported
		return nil
	}
	x, err := compile(src.Value, env)
	if err != nil {
		d.addDiagnostics(tool.NewTemplateDiagnostic(src.Text, "expression", err))
	}
	return x
}

// compileRespond compiles a string, or for tools also a mapping with strings.
func (d *callbackDecoder) compileRespond(n *spec.Node, h hookSpec, r *rule) {
	if n.Kind == spec.Scalar {
		var t spec.Text
		d.addDiagnostics(t.DecodeSpec(n)...)
		r.text = d.compileText(t, h.declareEnv())
		return
	}
	if n.Kind != spec.Mapping || h.env["tool"] == nil {
		d.addDiagnostics(n.Errorf("type", "respond must be a string here"))
		return
	}
	r.respond = d.compileTexts(n, h.declareEnv())
}

// compileTexts returns a node's value with its strings compiled.
func (d *callbackDecoder) compileTexts(n *spec.Node, env template.Env) any {
	switch {
	case n.Kind == spec.Mapping:
		m := map[string]any{}
		for _, e := range n.Entries {
			m[e.Key.Value] = d.compileTexts(e.Value, env)
		}
		return m
	case n.Kind == spec.Sequence:
		var list []any
		for _, item := range n.Items {
			list = append(list, d.compileTexts(item, env))
		}
		return list
	case n.Tag == "!!str":
		var t spec.Text
		d.addDiagnostics(t.DecodeSpec(n)...)
		return d.compileText(t, env)
	}
	return n.Any()
}

// compileText compiles a string with placeholders: the hook's names, or state keys.
func (d *callbackDecoder) compileText(t spec.Text, env template.Env) *template.Paths {
	p, err := template.ParsePaths(t.Value)
	if err != nil {
		d.addDiagnostics(tool.NewTemplateDiagnostic(t, "placeholder", err))
		return &template.Paths{}
	}
	for _, ref := range p.Refs() {
		root, rest, _ := strings.Cut(ref.Name, ".")
		known, closed := env[root].(template.Env)
		name, _, _ := strings.Cut(rest, ".")
		if _, ok := known[name]; closed && !ok {
			d.addDiagnostics(t.Errorf(ref.Offset, "placeholder", "unknown value {%s}; %s has %s", ref.Name, root, strings.Join(slices.Sorted(maps.Keys(known)), ", ")))
		}
	}
	return p
}
