package runtime

import (
	"context"
	"errors"
	"maps"
	"slices"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
)

// A ContentFilter returns the contents of a request that the model receives. It
// must not change the given contents, and must return at least one.
type ContentFilter func(ctx context.Context, m *CallbackContext, contents []*genai.Content) ([]*genai.Content, error)

// filterConfig is a filter in YAML: an expression that is true for the contents
// to keep, or {name: NAME} of a function.
type filterConfig struct {
	name   spec.Text
	filter ContentFilter
}

// DecodeSpec accepts both forms and compiles the expression.
func (c *filterConfig) DecodeSpec(n *spec.Node) spec.Diagnostics {
	if n.Kind == spec.Mapping {
		var named struct {
			Name spec.Text `yaml:"name" required:"true"`
		}
		ds := spec.Decode(n, &named)
		c.name = named.Name
		return ds
	}
	var src spec.Expr
	if ds := src.DecodeSpec(n); ds.HasErrors() {
		return ds
	}
	x, ds := compileConditionIn(src, contentEnv())
	if x != nil {
		c.filter = newExprFilter(x)
	}
	return ds
}

// SchemaSpec describes both forms.
func (*filterConfig) SchemaSpec() map[string]any {
	schema := nameOrMappingSchema()
	schema["title"] = "expression, or name of a function"
	return schema
}

// bindFilter resolves the function that a document names.
func (c *filterConfig) bindFilter(f *Functions) spec.Diagnostics {
	if c.name.Value == "" {
		return nil
	}
	if c.filter = f.ContentFilters[c.name.Value]; c.filter != nil {
		return nil
	}
	return spec.Diagnostics{c.name.Errorf(0, "code", "unknown filter %s: functions registered for custom_filter: %s",
		c.name.Value, joinNames(slices.Sorted(maps.Keys(f.ContentFilters)))).
		WithHint("write an expression that is true for the contents to keep, or register the function in Functions.ContentFilters")}
}

// contentEnv declares the names available to the expression of a filter.
func contentEnv() template.Env {
	env := conditionEnv()
	env["content"] = template.Env{"role": "", "text": "", "calls": []any{}, "responses": []any{}}
	env["index"], env["count"] = 0, 0
	return env
}

// newExprFilter returns a filter that keeps the contents for which an expression
// is true. It always keeps the last content, which the model answers, and keeps
// calls together with the responses that directly follow them.
func newExprFilter(x *template.Expr) ContentFilter {
	return func(ctx context.Context, m *CallbackContext, contents []*genai.Content) ([]*genai.Content, error) {
		vars := m.Invocation.conditionVars()
		vars["count"] = len(contents)
		keep := make([]bool, len(contents))
		for i, c := range contents {
			vars["index"], vars["content"] = i, contentVars(c)
			ok, err := x.Bool(ctx, vars)
			if err != nil {
				return nil, err
			}
			keep[i] = ok || i == len(contents)-1
			if i > 0 && len(model.ResponsesOf(c)) > 0 {
				keep[i] = keep[i] || keep[i-1]
				keep[i-1] = keep[i]
			}
		}
		var rest []*genai.Content
		for i, c := range contents {
			if keep[i] {
				rest = append(rest, c)
			}
		}
		return rest, nil
	}
}

func contentVars(c *genai.Content) map[string]any {
	calls, responses := []any{}, []any{}
	for _, f := range model.CallsOf(c) {
		calls = append(calls, map[string]any{"name": f.Name, "args": f.Args})
	}
	for _, f := range model.ResponsesOf(c) {
		responses = append(responses, map[string]any{"name": f.Name, "response": f.Response})
	}
	return map[string]any{"role": c.Role, "text": model.TextOf(c), "calls": calls, "responses": responses}
}

var errNothingLeft = errors.New("custom_filter removed all contents of the request")

// applyFilter applies the filter to the contents of a request.
func (c *filterConfig) applyFilter(ctx context.Context, m *CallbackContext, contents []*genai.Content) ([]*genai.Content, error) {
	if c.filter == nil || len(contents) == 0 {
		return contents, nil
	}
	rest, err := c.filter(ctx, m, contents)
	switch {
	case err != nil:
		return nil, wrapWithKey("custom_filter", err)
	case len(rest) == 0:
		return nil, errNothingLeft
	}
	return rest, nil
}
