package tool

import "agenthost/pkg/spec"

// A bodyText is a value with placeholders: exactly one field is set, or none
// for a constant.
type bodyText struct {
	text     *valueText
	object   []bodyMember
	list     []*bodyText
	constant any
}

type bodyMember struct {
	key  string
	body *bodyText
}

// body is nil where nothing is said.
func (c *compiler) body(n *spec.Node) *bodyText {
	switch {
	case n == nil:
		return nil
	case n.Kind == spec.Mapping:
		return c.bodyObject(n)
	case n.Kind == spec.Sequence:
		return c.bodyList(n)
	case n.Tag != "!!str":
		return &bodyText{constant: n.Any()}
	}
	text, err := parseValue(n.Value, c.params)
	if err != nil {
		c.add(n.Errorf("placeholder", "%s", err))
	}
	return &bodyText{text: text}
}

func (c *compiler) bodyObject(n *spec.Node) *bodyText {
	b := &bodyText{object: make([]bodyMember, len(n.Entries))}
	for i, e := range n.Entries {
		b.object[i] = bodyMember{e.Key.Value, c.body(e.Value)}
	}
	return b
}

func (c *compiler) bodyList(n *spec.Node) *bodyText {
	b := &bodyText{list: make([]*bodyText, len(n.Items))}
	for i, item := range n.Items {
		b.list[i] = c.body(item)
	}
	return b
}

// value fills in the body; false if it is an optional placeholder without
// value, which is left out of its map or list.
func (b *bodyText) value(call *Call) (any, bool, error) {
	switch {
	case b.text != nil:
		return b.text.value(call)
	case b.object != nil:
		return b.objectValue(call)
	case b.list != nil:
		return b.listValue(call)
	default:
		return b.constant, true, nil
	}
}

func (b *bodyText) objectValue(call *Call) (any, bool, error) {
	m := make(map[string]any, len(b.object))
	for _, member := range b.object {
		v, ok, err := member.body.value(call)
		if err != nil {
			return nil, false, err
		}
		if ok {
			m[member.key] = v
		}
	}
	return m, true, nil
}

func (b *bodyText) listValue(call *Call) (any, bool, error) {
	list := make([]any, 0, len(b.list))
	for _, item := range b.list {
		v, ok, err := item.value(call)
		if err != nil {
			return nil, false, err
		}
		if ok {
			list = append(list, v)
		}
	}
	return list, true, nil
}
