package toolconfig

import (
	"strings"

	"agenthost/pkg/model"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

// CallEnv declares the variables for a tool's expressions.
func CallEnv(p *tool.Params) template.Env {
	return template.Env{
		"args":       p.SampleArgs(),
		"state":      map[string]any{},
		"user":       "",
		"session":    template.Env{"id": "", "user_id": "", "app": ""},
		"run_config": template.Env(model.SampleRunConfig()),
		"invocation": template.Env{"id": ""},
		"agent":      "",
	}
}

// CallVars returns the values for the variables in CallEnv.
func CallVars(call *tool.Call) map[string]any {
	vars := map[string]any{
		"args":       call.Args,
		"state":      call.State, // copied only if the expression reads it
		"user":       call.Origin.UserText,
		"session":    sessionVars(call),
		"run_config": call.Origin.ReadRunConfig(),
		"invocation": map[string]any{"id": call.Origin.InvocationID},
		"agent":      call.Origin.Agent,

		template.BudgetName: call.Expressions,
	}
	if call.Media != nil {
		vars["media"] = mediaVars(call.Media)
	}
	return vars
}

func sessionVars(call *tool.Call) map[string]any {
	return map[string]any{"id": call.Origin.SessionID, "user_id": call.Origin.UserID, "app": call.Origin.App}
}

// ValueLookup resolves dotted paths in a call: names in CallEnv, and otherwise state keys.
func ValueLookup(call *tool.Call) func(path string) (any, bool) {
	return func(path string) (any, bool) {
		root, rest, _ := strings.Cut(path, ".")
		switch root {
		case "args":
			return template.Dig(call.Args, rest)
		case "state":
			return lookupState(call, rest)
		case "user":
			return call.Origin.UserText, rest == ""
		case "session":
			return template.Dig(sessionVars(call), rest)
		case "run_config":
			return template.Dig(call.Origin.ReadRunConfig(), rest)
		case "invocation":
			return call.Origin.InvocationID, rest == "id"
		case "agent":
			return call.Origin.Agent, rest == ""
		case "media":
			if call.Media == nil { // a state key
				return lookupState(call, path)
			}
			return template.Dig(mediaVars(call.Media), rest)
		default:
			return lookupState(call, path)
		}
	}
}

func lookupState(call *tool.Call, path string) (any, bool) {
	key, rest, _ := strings.Cut(path, ".")
	v, ok := call.State.Get(key)
	if !ok {
		return nil, false
	}
	return template.Dig(v, rest)
}

// IsCallName reports whether a path's root is a call variable rather than a state key.
func IsCallName(root string) bool {
	_, ok := CallEnv(&tool.Params{})[root]
	return ok
}
