package provider

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"

	"agenthost/internal/modelcall"
	"agenthost/pkg/model"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

type routeConfig struct {
	Provider string        `yaml:"provider" doc:"route."`
	Routes   []routeChoice `yaml:"routes" required:"true" doc:"The routes; the first one whose when is true is taken."`

	compiled []*template.Expr // parallel to Routes; nil is always
	keys     []string         // the state keys that conditions read
}

// routeChoice is one route.
type routeChoice struct {
	When  spec.Expr `yaml:"when" doc:"The route's condition; the last route may omit it and is then the default. It can use state, user, session, run_config, invocation and agent."`
	Model spec.Text `yaml:"model" required:"true" doc:"The model's name."`
}

// routeEnv declares the variables that agents' conditions have.
func routeEnv() template.Env {
	return template.Env{
		"state": map[string]any{}, "user": "", "session": map[string]any{},
		"run_config": template.Env(model.SampleRunConfig()), "invocation": map[string]any{}, "agent": "",
	}
}

// DecodeSpec decodes the routes and compiles their conditions.
func (c *routeConfig) DecodeSpec(n *spec.Node) spec.Diagnostics {
	ds := spec.Decode(n, c)
	if !ds.HasErrors() {
		ds = append(ds, c.compileRoutes(n.Get("routes"))...)
	}
	ds.Sort()
	return ds
}

// compileRoutes compiles the conditions, and reports routes that cannot be taken.
func (c *routeConfig) compileRoutes(routes *spec.Node) spec.Diagnostics {
	if len(c.Routes) == 0 {
		return spec.Diagnostics{routes.Errorf("route", "routes requires at least one route")}
	}
	var ds spec.Diagnostics
	known := map[string]int{}
	c.compiled, c.keys = make([]*template.Expr, len(c.Routes)), nil
	for i := range c.Routes {
		when := c.Routes[i].When
		if when.Value == "" {
			if i < len(c.Routes)-1 {
				ds = append(ds, routes.Items[i].Errorf("route", "this route always matches: the routes after it are unreachable").
					WithHint("add a when, or move it to the end"))
			}
			continue
		}
		words := strings.Join(strings.Fields(when.Value), " ")
		if line, ok := known[words]; ok {
			ds = append(ds, when.Warnf(0, "route-twice", "this route is unreachable: the route in line %d has the same condition", line))
		} else {
			known[words] = when.Pos.Line
		}
		ds = append(ds, c.compileRoute(i, when)...)
	}
	if c.Routes[len(c.Routes)-1].When.Value != "" {
		ds = append(ds, routes.Warnf("route", "no default route: a call fails when no condition is true").
			WithHint("end with a route without when"))
	}
	return ds
}

func (c *routeConfig) compileRoute(i int, when spec.Expr) spec.Diagnostics {
	compiled, err := template.CompileBool(when.Value, routeEnv())
	if err == nil {
		var keys []string
		if keys, err = stateKeys(when.Value); err == nil {
			c.compiled[i], c.keys = compiled, append(c.keys, keys...)
			return nil
		}
	}
	return spec.Diagnostics{tool.NewTemplateDiagnostic(when.Text, "expression", err)}
}

// StateUse describes the conditions.
func (c *routeConfig) StateUse(*spec.Node) tool.StateUse {
	var u tool.StateUse
	for _, choice := range c.Routes {
		u.Exprs = append(u.Exprs, tool.StateExpr{Expr: choice.When, Env: routeEnv(), Bool: true})
	}
	return u
}

// A RouteConfig is the config for a model that calls other models in the app.
type RouteConfig interface{ RouteModels() []spec.Text }

// RouteModels names the models in all routes.
func (c *routeConfig) RouteModels() []spec.Text {
	var all []spec.Text
	for _, choice := range c.Routes {
		all = append(all, choice.Model)
	}
	return all
}

func buildRoute(ctx context.Context, env Env, c *routeConfig) (model.LLM, error) {
	if env.Model == nil {
		return nil, spec.Diagnostics{c.Routes[0].Model.Errorf(0, "model", "there are no models to route to")}
	}
	r := &routeModel{name: env.Name, keys: c.keys}
	failed := false
	for i, choice := range c.Routes {
		llm := env.Model(ctx, choice.Model)
		failed = failed || llm == nil
		r.routes = append(r.routes, modelRoute{c.compiled[i], choice.When.Value, llm})
	}
	if failed {
		return nil, spec.Diagnostics{} // already reported
	}
	return r, nil
}

// A routeModel calls the model of the first route whose condition is true.
type routeModel struct {
	name   string
	keys   []string
	routes []modelRoute
}

type modelRoute struct {
	when *template.Expr // nil is always
	text string
	llm  model.LLM
}

var (
	_ model.SchemaMixer = (*routeModel)(nil)
	_ model.CodeRunner  = (*routeModel)(nil)
)

func (r *routeModel) Name() string { return r.name }

// MixesToolsAndSchema reports whether all models support it.
func (r *routeModel) MixesToolsAndSchema() bool { return r.allCan(model.CanMixSchema) }

// RunsCode reports whether all models support it; see [model.RunsCode].
func (r *routeModel) RunsCode() bool { return r.allCan(model.RunsCode) }

func (r *routeModel) allCan(can func(model.LLM) bool) bool {
	return !slices.ContainsFunc(r.routes, func(c modelRoute) bool { return !can(c.llm) })
}

// Generate calls a route's model; see [model.LLM].
func (r *routeModel) Generate(ctx context.Context, req *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) {
		llm, err := r.chooseModel(ctx, &req.Origin)
		if err != nil {
			yield(nil, err)
			return
		}
		llm.Generate(ctx, ownRequest(req, true))(yield)
	}
}

func (r *routeModel) chooseModel(ctx context.Context, from *model.Origin) (model.LLM, error) {
	state := map[string]any{}
	for _, key := range r.keys {
		if v, ok := from.ReadState(key); ok {
			state[key] = v
		}
	}
	vars := map[string]any{
		"state": state, "user": from.UserText, "agent": from.Agent, "invocation": map[string]any{"id": from.InvocationID},
		"session":    map[string]any{"id": from.SessionID, "user_id": from.UserID, "app": from.App},
		"run_config": from.ReadRunConfig(),
	}
	for _, c := range r.routes {
		if c.when == nil {
			return c.llm, nil
		}
		ok, err := c.when.Bool(ctx, vars)
		if err != nil {
			return nil, modelcall.NewConfigError(http.StatusBadRequest, fmt.Sprintf("when in a route of model %s: %v", r.name, err))
		}
		if ok {
			return c.llm, nil
		}
	}
	return nil, modelcall.NewConfigError(http.StatusBadRequest, fmt.Sprintf("no route of model %s matches: add a route without when", r.name))
}
