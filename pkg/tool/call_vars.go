package tool

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"agenthost/pkg/template"
)

// callEnv declares the variables of a tool's expressions.
func callEnv(p *Params) template.Env {
	return template.Env{
		"args":       p.sampleArgs(),
		"state":      map[string]any{},
		"user":       "",
		"session":    template.Env{"id": "", "user_id": "", "app": ""},
		"invocation": template.Env{"id": ""},
		"agent":      "",
	}
}

// callVars returns the values of the variables in callEnv.
func callVars(call *Call) map[string]any {
	return map[string]any{
		"args":       call.Args,
		"state":      call.State, // copied only if the expression reads it
		"user":       call.Origin.User,
		"session":    sessionVars(call),
		"invocation": map[string]any{"id": call.Origin.InvocationID},
		"agent":      call.Origin.Agent,

		template.BudgetName: call.Expressions,
	}
}

func sessionVars(call *Call) map[string]any {
	return map[string]any{"id": call.Origin.SessionID, "user_id": call.Origin.UserID, "app": call.Origin.App}
}

// valueLookup resolves dotted paths in a call: the names of callEnv, and
// otherwise state keys.
func valueLookup(call *Call) func(path string) (any, bool) {
	return func(path string) (any, bool) {
		root, rest, _ := strings.Cut(path, ".")
		switch root {
		case "args":
			return template.Dig(call.Args, rest)
		case "state":
			return lookupState(call, rest)
		case "user":
			return call.Origin.User, rest == ""
		case "session":
			return template.Dig(sessionVars(call), rest)
		case "invocation":
			return call.Origin.InvocationID, rest == "id"
		case "agent":
			return call.Origin.Agent, rest == ""
		default:
			return lookupState(call, path)
		}
	}
}

func lookupState(call *Call, path string) (any, bool) {
	key, rest, _ := strings.Cut(path, ".")
	v, ok := call.State.Get(key)
	if !ok {
		return nil, false
	}
	return template.Dig(v, rest)
}

// sampleArgs returns a value of the right type for each parameter that every
// call has, and nil for the others. If undeclared parameters are accepted, any
// name is valid.
func (p *Params) sampleArgs() any {
	if p.acceptsUndeclared() {
		return map[string]any{}
	}
	props := asMap(p.schema["properties"])
	samples := make(template.Env, len(props))
	for name, prop := range props {
		samples[name] = nil
		if slices.Contains(p.required, name) || hasDefault(prop) {
			samples[name] = sampleValue(asMap(prop))
		}
	}
	return samples
}

func sampleValue(schema map[string]any) any {
	switch schema["type"] {
	case "string":
		return ""
	case "integer":
		return int64(0)
	case "boolean":
		return false
	case "array":
		return []any{}
	case "object":
		return map[string]any{}
	default:
		return nil
	}
}

// checkPlaceholders rejects placeholders for undeclared parameters.
func (p *Params) checkPlaceholders(refs []template.Ref) error {
	if p.acceptsUndeclared() {
		return nil
	}
	props := asMap(p.schema["properties"])
	for _, ref := range refs {
		root, rest, _ := strings.Cut(ref.Name, ".")
		name, _, _ := strings.Cut(rest, ".")
		if _, ok := props[name]; ok || root != "args" || rest == "" {
			continue
		}
		return &template.Error{
			Offset: ref.Offset,
			Msg:    fmt.Sprintf("{%s}: unknown parameter; declared: %s", ref.Name, joinNames(props)),
		}
	}
	return nil
}

func joinNames(m map[string]any) string {
	if len(m) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(m)), ", ")
}
