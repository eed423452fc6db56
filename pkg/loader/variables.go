package loader

import (
	"slices"

	"agenthost/internal/agentconfig"
	"agenthost/internal/toolconfig"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

// Finding the variables at a cursor: the mappings around an expression or a template are decoded as
// a load decodes them, the innermost first. Their state use lists each expression with the names that
// it may use, so that an editor needs no second list of fields.
//
// A load of the app has the same information, but the string at a cursor is unfinished: the load
// would stop at its error. Here the string counts only with its position.

// Variables are the names that an expression or a template may use.
type Variables struct {
	// Env declares the names in an expression, or the roots of a template's paths. It is nil for a
	// template that names only state keys.
	Env template.Env
	// Template reports that the text has placeholders. Otherwise it is an expression.
	Template bool
	// Tool is the name of the tool that the text belongs to, or "". Params are its params.
	Tool   string
	Params *spec.Node
}

// FindVariables returns the variables for a string in a document, for editors. Ok is false if the
// string is neither an expression nor a template. The document may have errors, and is
// changed while the function runs.
func (l *Loader) FindVariables(document, text *spec.Node) (found Variables, ok bool) {
	path := findPath(document, text)
	if path == nil {
		return Variables{}, false
	}
	written := text.Value
	defer func() { text.Value = written }()
	// An expression is listed if it is valid, and a template if its placeholders are closed.
	for _, value := range []string{"nil", written, written + "}"} {
		text.Value = value
		for i, at := range slices.Backward(path) {
			if at.node.Kind != spec.Mapping {
				continue
			}
			settings := replaceSchemaNames(at.node)
			use, isUser := l.describeUse(settings, at.key, i == 0)
			if !isUser && len(path) > 1 {
				use, isUser = l.describeSectionUse(path[1].key, at)
			}
			if !isUser {
				continue
			}
			if found, ok = findInUse(use, text, settings); ok {
				if _, isTool := l.kinds.Tools.Lookup(at.key); isTool {
					found.Tool, found.Params = settings.Get("name").Text().Value, findParams(settings)
				}
				return found, true
			}
		}
	}
	return Variables{}, false
}

// findInUse finds a string by its position.
func findInUse(use tool.StateUse, text, settings *spec.Node) (Variables, bool) {
	for _, e := range use.Exprs {
		if e.Expr.Pos == text.Pos {
			return Variables{Env: e.Env}, true
		}
	}
	for _, t := range use.Texts {
		switch {
		case t.Text.Pos != text.Pos:
		case t.Paths:
			return Variables{Template: true, Env: callEnv(settings)}, true
		default:
			return Variables{Template: true}, true
		}
	}
	return Variables{}, false
}

// A nodeStep is a node on the way to another, and its key in the mapping before it.
type nodeStep struct {
	key  string
	node *spec.Node
}

// findPath returns the nodes from a document to the one that contains a node, or nil.
func findPath(document, target *spec.Node) []nodeStep {
	var path []nodeStep
	var visit func(key string, n *spec.Node) bool
	visit = func(key string, n *spec.Node) bool {
		if n == target {
			return true
		}
		path = append(path, nodeStep{key, n})
		for _, e := range n.Entries {
			if visit(e.Key.Value, e.Value) {
				return true
			}
		}
		if slices.ContainsFunc(n.Items, func(item *spec.Node) bool { return visit("", item) }) {
			return true
		}
		path = path[:len(path)-1]
		return false
	}
	if document == nil || document == target || !visit("", document) {
		return nil
	}
	return path
}

// describeUse decodes a mapping, a key's value, as a tool or an agent, and returns how it uses names.
func (l *Loader) describeUse(n *spec.Node, key string, isRoot bool) (use tool.StateUse, ok bool) {
	var config any
	if kind, isTool := l.kinds.Tools.Lookup(key); isTool {
		plan, _ := kind.Decode(n)
		config = plan.Config
	} else if kind, isTool := l.kinds.AgentTools.Lookup(key); isTool {
		plan, _ := kind.Decode(n)
		config = plan.Config
	}
	if config != nil {
		if c, isUser := config.(tool.StateConfig); isUser {
			use = c.StateUse(n)
		}
		if c, hasResult := config.(tool.ResultConfig); hasResult {
			use.Exprs = append(use.Exprs, c.ResultExprs()...)
		}
		return use, true
	}
	isAgent := isRoot || slices.ContainsFunc(n.Keys(), func(key string) bool {
		return slices.Contains([]string{"agent_class", "instruction", "sub_agents", "output_key", "model"}, key)
	})
	kind, ok := l.kinds.Agents.Lookup(normalizeClassName(n.Get("agent_class").Text().Value))
	if !ok {
		kind, ok = l.kinds.Agents.Lookup("LlmAgent")
	}
	if !ok || !isAgent {
		return use, false
	}
	plan, _ := kind.Decode(n)
	return agentconfig.StateUse(n, plan.Config), true
}

// describeSectionUse decodes a mapping below a section of app.yaml or of the root agent's file: a
// plugin's settings, a model, or a callback rule under functions.
func (l *Loader) describeSectionUse(section string, at nodeStep) (use tool.StateUse, ok bool) {
	var config any
	switch section {
	case "plugins":
		kind, isPlugin := l.kinds.Plugins.Lookup(at.key)
		if !isPlugin {
			return use, false
		}
		plan, _ := kind.Decode(at.node)
		config = plan.Config
	case "models", "functions":
		kind, isModel := l.kinds.Models.Lookup(at.node.Get("provider").Text().Value)
		if !isModel {
			return agentconfig.RuleUse(at.node), section == "functions"
		}
		plan, _ := kind.Decode(at.node)
		config = plan.Config
	default:
		return use, false
	}
	if c, isUser := config.(tool.StateConfig); isUser {
		return c.StateUse(at.node), true
	}
	return use, false
}

// replaceSchemaNames returns settings whose params name no schemas, which other files may declare.
func replaceSchemaNames(n *spec.Node) *spec.Node {
	params := n.Get("params")
	if params == nil {
		return n
	}
	plain, _ := spec.ResolveSchemaNames(params, func(string) *spec.Node { return newScalar("any") })
	return replaceKey(n, "params", plain)
}

// callEnv declares the roots of the paths in a tool's templates, with its params.
func callEnv(settings *spec.Node) template.Env {
	env := toolconfig.CallEnv(&tool.Params{})
	args := template.Env{}
	for _, name := range findParams(settings).Keys() {
		args[name] = nil
	}
	env["args"] = args
	return env
}

// findParams returns a tool's params by name, or nil.
func findParams(settings *spec.Node) *spec.Node {
	params := settings.Get("params")
	if properties := params.Get("properties"); properties != nil {
		return properties
	}
	return params
}
