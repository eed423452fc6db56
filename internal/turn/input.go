package turn

import "agenthost/pkg/spec"

// CheckInput checks which keys in a YAML turn are the user's input: user with parts, confirm
// with payload, or respond. The problems have the given rule.
func CheckInput(n *spec.Node, confirm *bool, rule string) spec.Diagnostics {
	var inputs []string
	for _, key := range []string{"user", "confirm", "respond"} {
		if n.Get(key) != nil {
			inputs = append(inputs, key)
		}
	}
	switch {
	case len(inputs) == 0 && n.Get("parts") == nil:
		return spec.Diagnostics{n.Errorf(rule, "a turn requires user, confirm or respond")}
	case len(inputs) > 1:
		return spec.Diagnostics{n.Get(inputs[1]).Errorf(rule, "%s and %s are mutually exclusive", inputs[0], inputs[1])}
	case n.Get("payload") != nil && (confirm == nil || !*confirm):
		return spec.Diagnostics{n.Get("payload").Errorf(rule, "payload requires confirm: true")}
	case n.Get("parts") != nil && len(inputs) == 1 && inputs[0] != "user":
		return spec.Diagnostics{n.Get("parts").Errorf(rule, "parts cannot be combined with %s", inputs[0])}
	}
	return nil
}
