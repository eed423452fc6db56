package httptool

import (
	"agenthost/internal/toolconfig"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// A bodyTemplate is a value with placeholders: exactly one field is set, or
// none for a constant.
type bodyTemplate struct {
	text     *toolconfig.ValueTemplate
	object   []bodyMember
	list     []*bodyTemplate
	constant any
}

type bodyMember struct {
	key  string
	body *bodyTemplate
}

// compileBody returns nil if there is no body.
func compileBody(c *toolconfig.Compiler, n *spec.Node) *bodyTemplate {
	switch {
	case n == nil:
		return nil
	case n.Kind == spec.Mapping:
		return compileBodyObject(c, n)
	case n.Kind == spec.Sequence:
		return compileBodyList(c, n)
	case n.Tag != "!!str":
		return &bodyTemplate{constant: n.Any()}
	}
	text, err := toolconfig.CompileValue(n.Value, c.Params)
	if err != nil {
		c.AddDiagnostic(n.Errorf("placeholder", "%s", err))
	}
	return &bodyTemplate{text: text}
}

func compileBodyObject(c *toolconfig.Compiler, n *spec.Node) *bodyTemplate {
	b := &bodyTemplate{object: make([]bodyMember, len(n.Entries))}
	for i, e := range n.Entries {
		b.object[i] = bodyMember{e.Key.Value, compileBody(c, e.Value)}
	}
	return b
}

func compileBodyList(c *toolconfig.Compiler, n *spec.Node) *bodyTemplate {
	b := &bodyTemplate{list: make([]*bodyTemplate, len(n.Items))}
	for i, item := range n.Items {
		b.list[i] = compileBody(c, item)
	}
	return b
}

// render fills in the placeholders. The second result is false for an optional
// placeholder without a value, which is omitted from its map or list.
func (b *bodyTemplate) render(call *tool.Call) (any, bool, error) {
	switch {
	case b.text != nil:
		return b.text.RenderValue(call)
	case b.object != nil:
		return b.renderObject(call)
	case b.list != nil:
		return b.renderList(call)
	default:
		return b.constant, true, nil
	}
}

func (b *bodyTemplate) renderObject(call *tool.Call) (any, bool, error) {
	m := make(map[string]any, len(b.object))
	for _, member := range b.object {
		v, ok, err := member.body.render(call)
		if err != nil {
			return nil, false, err
		}
		if ok {
			m[member.key] = v
		}
	}
	return m, true, nil
}

func (b *bodyTemplate) renderList(call *tool.Call) (any, bool, error) {
	list := make([]any, 0, len(b.list))
	for _, item := range b.list {
		v, ok, err := item.render(call)
		if err != nil {
			return nil, false, err
		}
		if ok {
			list = append(list, v)
		}
	}
	return list, true, nil
}
