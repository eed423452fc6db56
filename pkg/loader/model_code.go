package loader

import (
	"context"
	"slices"
	"strings"

	"agenthost/pkg/agentconfig"
	"agenthost/pkg/model"
	"agenthost/pkg/spec"
)

// resolveModelCode returns the model of an agent's model_code: the one that functions:
// maps the name to, or that of a model class of ADK. It returns its name as well.
func (r *resolver) resolveModelCode(ctx context.Context, agent *spec.Node) (model.LLM, string) {
	code := agent.Get("model_code")
	ref := agentconfig.CodeRef(code)
	if ref == nil {
		r.report(code.Errorf("type", "model_code must name code, such as {name: my_pkg.models.one}"))
		return nil, ""
	}
	if named := agent.Get("model"); !named.IsNull() {
		r.report(code.Errorf("model", "model_code and model cannot be combined"))
	}
	f, ok := r.findFunction(ref.Value)
	if prefix, adk := adkModelClass(ref.Value); adk && !ok {
		return r.resolveModelClass(ctx, code, prefix)
	}
	r.report(checkCodeArgs(code)...)
	switch {
	case !ok:
		r.report(missingCodeError(ref, "model", ref.Value, "map the name to a model under functions: in app.yaml, or set model: instead"))
		return nil, ""
	case r.loader.opts.Model != nil || f.node.Kind == spec.Scalar:
		return r.resolveModel(ctx, f.node.Text()), f.node.Value
	}
	return r.buildPartModel(ctx, ref.Value, f), ref.Value
}

// adkModelClass returns the prefix that the model names of an ADK class have here.
func adkModelClass(name string) (prefix string, ok bool) {
	if !strings.HasPrefix(name, "google.adk.models.") {
		return "", false
	}
	prefix, ok = map[string]string{
		"LiteLlm": "", "Gemini": "gemini/", "ApigeeLlm": "", "AnthropicLlm": "anthropic/", "Claude": "vertex_ai/",
	}[lastWord(name)]
	return prefix, ok
}

// resolveModelClass builds a model of an ADK class from the arguments of its constructor.
func (r *resolver) resolveModelClass(ctx context.Context, code *spec.Node, prefix string) (model.LLM, string) {
	args, ok := r.decodeModelArgs(code)
	if !ok {
		return nil, ""
	}
	name := args["model"].Text()
	name.Value = prefix + strings.TrimPrefix(name.Value, prefix)
	if len(args) == 1 {
		return r.resolveModel(ctx, name), name.Value
	}
	kind, rest, ok := r.loader.findModelKind(name.Value)
	if !ok {
		return r.resolveModel(ctx, name), "" // reports the name
	}
	settings := name.Mapping("model", rest).WithEntry("provider", kind.Name)
	for _, e := range []struct{ arg, field string }{{"api_base", "base_url"}, {"api_key", "api_key"}} {
		if value := args[e.arg]; value != nil {
			settings.Entries = append(settings.Entries, spec.Entry{Key: settings.WithEntry(e.field, "").Entries[0].Key, Value: value})
		}
	}
	key := name.Value + " at " + name.Pos.String() // its address may differ
	m, _ := r.buildModel(ctx, key, settings)
	if m == nil {
		return nil, ""
	}
	return r.loader.opts.WrapModel(m), key
}

// decodeModelArgs returns the arguments of a model class: a mapping, or a list of {name,
// value}.
func (r *resolver) decodeModelArgs(code *spec.Node) (map[string]*spec.Node, bool) {
	known := []string{"model", "api_base", "api_key"}
	class, args, valid := agentconfig.CodeRef(code), map[string]*spec.Node{}, true
	for _, e := range listArgs(code.Get("args")) {
		if !slices.Contains(known, e.Key.Value) || e.Value.Kind != spec.Scalar {
			r.report(e.Key.Errorf("code", "%s takes the arguments %s here, not %s", lastWord(class.Value), strings.Join(known, ", "), e.Key.Value).
				WithHint("declare the model with its settings under models: in app.yaml, and set model: to its name"))
			valid = false
			continue
		}
		args[e.Key.Value] = e.Value
	}
	if valid && args["model"] == nil {
		r.report(class.Errorf("code", "%s requires the argument model", lastWord(class.Value)).
			WithHint("write args: [{name: model, value: openai/gpt-4o}], or set model: openai/gpt-4o instead"))
	}
	return args, args["model"] != nil && valid
}

// listArgs returns the arguments of a code reference.
func listArgs(args *spec.Node) []spec.Entry {
	if args.IsNull() {
		return nil
	}
	all := slices.Clone(args.Entries) // of a mapping
	for _, item := range args.Items {
		if key, value := item.Get("name"), item.Get("value"); key != nil && value != nil {
			all = append(all, spec.Entry{Key: key, Value: value})
		}
	}
	return all
}
