package runtime

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"agenthost/pkg/spec"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

// agentCallbackLists are the YAML of the callbacks that all agents have.
type agentCallbackLists struct {
	Before callbackList `yaml:"before_agent_callbacks" doc:"Asked before the agent: respond answers in its place, set writes state, fail ends the run."`
	After  callbackList `yaml:"after_agent_callbacks" doc:"Asked after the agent: emit says one thing more, set writes state, fail ends the run."`
}

// llmCallbackLists are those that LLM agents have besides.
type llmCallbackLists struct {
	BeforeModel  callbackList `yaml:"before_model_callbacks" doc:"Asked before the model: respond and deny answer in its place, set, fail."`
	AfterModel   callbackList `yaml:"after_model_callbacks" doc:"Asked about each answer of the model, pieces of streams too: replace changes its text, respond the whole answer, set, fail."`
	OnModelError callbackList `yaml:"on_model_error_callbacks" doc:"Asked when the model fails: respond answers in its place, set, fail."`

	Tools toolCallbackLists `yaml:",inline"`
}

// toolCallbackLists are those of agents that call tools.
type toolCallbackLists struct {
	BeforeTool  callbackList `yaml:"before_tool_callbacks" doc:"Asked before a tool: respond and deny answer in its place, confirm asks a person first, set, fail."`
	AfterTool   callbackList `yaml:"after_tool_callbacks" doc:"Asked about the answer of a tool: replace and respond change it, set, fail."`
	OnToolError callbackList `yaml:"on_tool_error_callbacks" doc:"Asked when a tool fails or is not there: respond answers in its place, set, fail."`
}

// callbackList stands for a list that [DecodeCallbacks] reads.
type callbackList struct{}

// DecodeSpec leaves the list to DecodeCallbacks, which knows the functions.
func (*callbackList) DecodeSpec(*spec.Node) spec.Diagnostics { return nil }

// SchemaSpec refers to the definition of a callback.
func (*callbackList) SchemaSpec() map[string]any {
	return map[string]any{"type": "array", "items": map[string]any{"$ref": "#/$defs/callback"}, "title": "list of [callback](#callbacks)"}
}

// A CallbackConfig is one callback in YAML: the name of a function, or a rule
// of one verb.
type CallbackConfig struct {
	Name    spec.Text        `yaml:"name" doc:"A function that the program has under this name; it stands alone."`
	When    spec.Expr        `yaml:"when" doc:"The rule counts when this is true; without it always."`
	Respond *spec.Node       `yaml:"respond" doc:"Answers with a text with placeholders; for tools also a mapping with such texts."`
	Deny    spec.Text        `yaml:"deny" doc:"Refuses with a text: a tool answers {error: text}; the answer in a model's place has the errorCode DENIED."`
	Confirm spec.Text        `yaml:"confirm" doc:"Has a person approve the call of a tool, who is shown this text."`
	Replace spec.Expr        `yaml:"replace" doc:"Puts the value of an expression in the place of the model's text, whose thoughts are left out, or of the tool's answer; null leaves it."`
	Emit    spec.Text        `yaml:"emit" doc:"Says a text in an event more."`
	Writes  tool.StateWrites `yaml:",inline"`
	Fail    spec.Text        `yaml:"fail" doc:"Ends the run with this message."`
}

// A hookSpec is one moment as YAML knows it.
type hookSpec struct {
	name  string
	verbs []string
	// env are the names that the hook has besides those of all.
	env        template.Env
	selectHook func(c Callbacks) Callbacks
}

// withWriteVerbs are the verbs of a hook, where state may be written at any.
func withWriteVerbs(own ...string) []string {
	last := len(own) - 1
	return slices.Concat(own[:last], tool.WriteVerbs(), own[last:])
}

// hookSpecs returns the hooks of an agent. The list is built once, because every
// agent of every load reads it; nobody changes it.
var hookSpecs = sync.OnceValue(func() []hookSpec {
	args := map[string]any{}
	call := template.Env{"name": "", "args": args}
	said := template.Env{"event": template.Env{"id": "", "author": "", "branch": "", "text": "", "error_code": ""}}
	return []hookSpec{
		{"before_agent", withWriteVerbs("respond", "fail"), nil, func(c Callbacks) Callbacks { return Callbacks{BeforeAgent: c.BeforeAgent} }},
		{"after_agent", withWriteVerbs("emit", "fail"), said, func(c Callbacks) Callbacks { return Callbacks{AfterAgent: c.AfterAgent} }},
		{"before_model", withWriteVerbs("respond", "deny", "fail"), nil, func(c Callbacks) Callbacks { return Callbacks{BeforeModel: c.BeforeModel} }},
		{
			"after_model",
			withWriteVerbs("respond", "replace", "fail"),
			template.Env{"response": template.Env{"text": "", "calls": []any{}, "partial": false, "error_code": ""}},
			func(c Callbacks) Callbacks { return Callbacks{AfterModel: c.AfterModel} },
		},
		{
			"on_model_error",
			withWriteVerbs("respond", "fail"),
			template.Env{"error": template.Env{"code": "", "message": ""}},
			func(c Callbacks) Callbacks { return Callbacks{OnModelError: c.OnModelError} },
		},
		{"before_tool", withWriteVerbs("respond", "deny", "confirm", "fail"), template.Env{"tool": call, "args": args}, func(c Callbacks) Callbacks { return Callbacks{BeforeTool: c.BeforeTool} }},
		{
			"after_tool",
			withWriteVerbs("respond", "replace", "fail"),
			template.Env{"tool": call, "args": args, "response": map[string]any{}},
			func(c Callbacks) Callbacks { return Callbacks{AfterTool: c.AfterTool} },
		},
		{
			"on_tool_error",
			withWriteVerbs("respond", "fail"),
			template.Env{"tool": call, "args": args, "error": template.Env{"message": ""}},
			func(c Callbacks) Callbacks { return Callbacks{OnToolError: c.OnToolError} },
		},
	}
})

// DecodeCallbacks reads the callbacks of an agent's mapping. A name is looked
// up in functions, where it has one or more functions for the hook. It reports
// every problem, and returns the callbacks that are right.
func DecodeCallbacks(n *spec.Node, functions map[string]Callbacks) (Callbacks, spec.Diagnostics) {
	d := callbackDecoder{functions: functions}
	for _, h := range hookSpecs() {
		list := n.Get(h.name + "_callbacks")
		if list.IsNull() {
			continue
		}
		if list.Kind != spec.Sequence {
			d.addDiagnostics(list.Errorf("type", "%s_callbacks is a list", h.name))
			continue
		}
		for _, item := range list.Items {
			d.decodeItem(item, h)
		}
		d.checkReached(list)
	}
	return d.callbacks, d.ds
}

// AddCallbacks adds callbacks after those that an agent has. It is for agents that
// are not yet part of an app. An agent that does not embed [Base] cannot have
// callbacks, which is an error.
func AddCallbacks(agent Agent, more Callbacks) error {
	a, ok := agent.(interface{ agentCallbacks() *Callbacks })
	switch {
	case ok:
		a.agentCallbacks().Add(&more)
	case more.countFunctions() > 0:
		return fmt.Errorf("agent %s cannot have callbacks: its type %T does not embed runtime.Base", agent.Name(), agent)
	}
	return nil
}

// checkReached warns of callbacks below a rule that always answers: they are
// never asked. It is silent about replace, which may leave an answer as it is.
func (d *callbackDecoder) checkReached(list *spec.Node) {
	for i, item := range list.Items[:max(len(list.Items)-1, 0)] {
		if d.ds.HasErrors() {
			return
		}
		always := item.Get("when").IsNull() && len(item.Entries) == 1
		if verb := item.Keys(); always && slices.Contains([]string{"respond", "deny", "emit", "fail"}, verb[0]) {
			d.addDiagnostics(list.Items[i+1].Warnf("callback-order", "this callback is never asked: the one above, in line %d, always answers", item.Pos.Line).
				WithHint("give that one a when, or put it last"))
			return
		}
	}
}

type callbackDecoder struct {
	functions map[string]Callbacks
	callbacks Callbacks
	ds        spec.Diagnostics
}

func (d *callbackDecoder) addDiagnostics(ds ...spec.Diagnostic) { d.ds = append(d.ds, ds...) }

func (d *callbackDecoder) decodeItem(n *spec.Node, h hookSpec) {
	if n.Kind != spec.Mapping {
		d.addDiagnostics(n.Errorf("type", "a callback is {name: NAME}, or a rule of one verb, such as {when: …, %s: …}", h.verbs[0]))
		return
	}
	var c CallbackConfig
	ds := spec.Decode(n, &c)
	d.addDiagnostics(ds...)
	if ds.HasErrors() {
		return
	}
	var found Callbacks
	if c.Name.Value != "" {
		found = d.resolveNamed(n, &c, h)
	} else {
		r := d.compileRule(n, &c, h)
		found = h.selectHook(r.toCallbacks())
	}
	d.callbacks.Add(&found)
}

func (d *callbackDecoder) resolveNamed(n *spec.Node, c *CallbackConfig, h hookSpec) Callbacks {
	if len(n.Entries) > 1 {
		d.addDiagnostics(n.Errorf("callback", "name stands alone: the function decides what follows"))
	}
	found := h.selectHook(d.functions[c.Name.Value])
	if found.countFunctions() == 0 {
		diag := c.Name.Errorf(0, "code", "%s callback %s is code of another program, which this host does not have", h.name, c.Name.Value)
		d.addDiagnostics(diag.WithHint("say what stands in its place under functions: in app.yaml, write a rule here (when, and one of %s), or register a Go function of this name", strings.Join(h.verbs, ", ")))
	}
	return found
}

// compileRule compiles a rule of one verb.
func (d *callbackDecoder) compileRule(n *spec.Node, c *CallbackConfig, h hookSpec) *rule {
	env := h.declareEnv()
	r := &rule{verb: d.decodeVerb(n, h)}
	if slices.Contains(tool.WriteVerbs(), r.verb) {
		r.writes = c.Writes.Assignments(func(e spec.Expr) *template.Expr { return d.compileExpr(e, env, template.Compile) })
		if len(r.writes) == 0 {
			d.addDiagnostics(n.Get(r.verb).Errorf("callback", "%s has no key to write", r.verb))
		}
	}
	if !n.Get("when").IsNull() {
		r.when = d.compileExpr(c.When, env, template.CompileBool)
	}
	switch r.verb {
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

// decodeVerb finds the one verb of a rule.
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
		d.addDiagnostics(n.Errorf("callback", "the rule does nothing: it needs one of %s", allowed))
		return ""
	case len(verbs) > 1:
		d.addDiagnostics(verbs[1].Errorf("callback", "a rule has one verb, and %s stands here already: write two rules", verbs[0].Value))
	case !slices.Contains(h.verbs, verbs[0].Value):
		d.addDiagnostics(verbs[0].Errorf("callback", "%s has no meaning in %s_callbacks; the verbs there are %s", verbs[0].Value, h.name, allowed))
	}
	return verbs[0].Value
}

// declareEnv are all names of a hook.
func (h hookSpec) declareEnv() template.Env {
	env := template.Env{
		"state": map[string]any{}, "user": "", "agent": "",
		"session":    template.Env{"id": "", "user_id": "", "app": ""},
		"invocation": template.Env{"id": ""}, "now": time.Time{},
	}
	maps.Copy(env, h.env)
	return env
}

func (d *callbackDecoder) compileExpr(src spec.Expr, env template.Env, compile func(string, template.Env) (*template.Expr, error)) *template.Expr {
	if src.Pos.Line == 0 { // it is not a text, as has been said
		return nil
	}
	x, err := compile(src.Value, env)
	if err != nil {
		d.addDiagnostics(diagnosticAt(src.Text, "expression", err))
	}
	return x
}

// compileRespond is a text, or for tools also a mapping with texts in it.
func (d *callbackDecoder) compileRespond(n *spec.Node, h hookSpec, r *rule) {
	if n.Kind == spec.Scalar {
		var t spec.Text
		d.addDiagnostics(t.DecodeSpec(n)...)
		r.text = d.compileText(t, h.declareEnv())
		return
	}
	if n.Kind != spec.Mapping || h.env["tool"] == nil {
		d.addDiagnostics(n.Errorf("type", "respond is a text here"))
		return
	}
	r.respond = d.compileTexts(n, h.declareEnv())
}

// compileTexts is the value of a node with its texts compiled.
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

// compileText compiles a text with placeholders: the names of the hook, and else keys
// of the state.
func (d *callbackDecoder) compileText(t spec.Text, env template.Env) *template.Paths {
	p, err := template.ParsePaths(t.Value)
	if err != nil {
		d.addDiagnostics(diagnosticAt(t, "placeholder", err))
		return &template.Paths{}
	}
	for _, ref := range p.Refs() {
		root, rest, _ := strings.Cut(ref.Name, ".")
		known, closed := env[root].(template.Env)
		name, _, _ := strings.Cut(rest, ".")
		if _, ok := known[name]; closed && !ok {
			d.addDiagnostics(t.Errorf(ref.Offset, "placeholder", "{%s}: there is no such value here; %s has %s", ref.Name, root, strings.Join(slices.Sorted(maps.Keys(known)), ", ")))
		}
	}
	return p
}

// diagnosticAt gives a template's error its place.
func diagnosticAt(t spec.Text, rule string, err error) spec.Diagnostic {
	offset := 0
	var te *template.Error
	if errors.As(err, &te) {
		offset = te.Offset
	}
	return t.Errorf(offset, rule, "%s", err)
}
