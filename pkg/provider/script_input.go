package provider

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"
	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/template"
)

// scriptEnv declares the variables for conditions.
func scriptEnv() template.Env {
	return template.Env{
		"agent": "", "user": "", "instruction": "", "added": "", "step": 0, "turn": 0,
		"state": map[string]any{}, "responses": map[string]any{}, "tools": []any{},
	}
}

// A scriptInput is what scripts read from a request.
type scriptInput struct {
	vars  map[string]any
	state func(key string) (any, bool)
}

func newScriptInput(req *model.Request, keys []string) *scriptInput {
	q := &scriptInput{state: req.Origin.ReadState}
	state := map[string]any{}
	for _, key := range keys {
		if v, ok := q.state(key); ok {
			state[key] = v
		}
	}
	contents, added := splitToolContents(req)
	q.vars = map[string]any{
		"agent": req.Origin.Agent, "user": userText(req), "instruction": req.Instruction(),
		"added": added, "step": req.Origin.Step, "turn": req.Origin.Turn,
		"state": state, "responses": responsesOf(contents), "tools": toolNames(req.Config),
	}
	return q
}

// lookupPath returns a placeholder's value: a variable, or else a state key.
func (q *scriptInput) lookupPath(path string) (any, bool) {
	name, rest, _ := strings.Cut(path, ".")
	if v, ok := q.vars[name]; ok && name != "state" {
		return template.Dig(v, rest)
	}
	if name == "state" {
		name, rest, _ = strings.Cut(rest, ".")
	}
	v, ok := q.state(name)
	if !ok {
		return nil, false
	}
	return template.Dig(v, rest)
}

// userText returns the text in the invocation's user message. Without an invocation, it reads the
// contents.
func userText(req *model.Request) string {
	if req.Origin.UserText != "" {
		return req.Origin.UserText
	}
	for _, c := range slices.Backward(req.Contents) {
		if isUserMessage(c) {
			return model.TextOf(c)
		}
	}
	return ""
}

// isUserMessage distinguishes user messages from function responses, which have the same
// role.
func isUserMessage(c *genai.Content) bool {
	return c.Role == genai.RoleUser && slices.ContainsFunc(c.Parts, func(p *genai.Part) bool { return p.FunctionResponse == nil })
}

// splitToolContents separates contents that tools added after function responses, such
// as loaded artifacts, from the conversation. It joins their texts with spaces.
func splitToolContents(req *model.Request) (conversation []*genai.Content, added string) {
	conversation = req.Contents
	if req.Origin.Step == 0 {
		return conversation, ""
	}
	answered := len(conversation)
	for answered > 0 && isUserMessage(conversation[answered-1]) {
		answered--
	}
	if answered == 0 || len(model.ResponsesOf(conversation[answered-1])) == 0 {
		return conversation, ""
	}
	var texts []string
	for _, c := range conversation[answered:] {
		for _, p := range c.Parts {
			if p.Text != "" {
				texts = append(texts, p.Text)
			}
		}
	}
	return conversation[:answered], strings.Join(texts, " ")
}

// responsesOf returns the function responses since the last user message by name. Later
// responses replace earlier ones.
func responsesOf(contents []*genai.Content) map[string]any {
	start := 0
	for i, c := range slices.Backward(contents) {
		if isUserMessage(c) {
			start = i
			break
		}
	}
	responses := map[string]any{}
	for _, c := range contents[start:] {
		for _, r := range model.ResponsesOf(c) {
			responses[r.Name] = r.Response
		}
	}
	return responses
}

func toolNames(config *genai.GenerateContentConfig) []any {
	names := []any{}
	if config == nil {
		return names
	}
	for _, tool := range config.Tools {
		for _, f := range tool.FunctionDeclarations {
			names = append(names, f.Name)
		}
	}
	return names
}

// stateKeys lists the state keys that an expression reads. State is read by key and
// cannot be listed, so each key must be literal. The error is a [*template.Error].
func stateKeys(src string) ([]string, error) {
	tree, err := parser.Parse(src)
	if err != nil {
		return nil, &template.Error{Msg: err.Error()}
	}
	var r stateReader
	ast.Walk(&tree.Node, &r)
	if len(r.whole) > 0 {
		return nil, &template.Error{
			Offset: r.whole[0].Location().From, Msg: `name the state key that you mean: state.tier or state["user:name"]`,
		}
	}
	return r.keys, nil
}

// A stateReader walks an expression. It visits children before their parents, so a key
// reverts the assumption that its node reads the whole state.
type stateReader struct {
	keys  []string
	whole []ast.Node
}

func (r *stateReader) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.IdentifierNode:
		if n.Value == "state" {
			r.whole = append(r.whole, n)
		}
	case *ast.MemberNode:
		key, fixed := n.Property.(*ast.StringNode)
		if i := slices.Index(r.whole, n.Node); i >= 0 && fixed {
			r.whole = slices.Delete(r.whole, i, i+1)
			r.keys = append(r.keys, key.Value)
		}
	}
}

// jsonText encodes a value as one line of JSON, without HTML escapes.
func jsonText(v any) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return string(bytes.TrimSpace(b.Bytes())), err
}
