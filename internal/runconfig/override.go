package runconfig

import (
	"cmp"
	"reflect"
	"strings"

	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// Override returns an app's config with the fields in one request replaced: a JSON object with
// run_config's fields, in snake_case or camelCase. It is validated like the YAML. The app's limits
// cannot be raised.
func Override(app runtime.RunConfig, text []byte) (*runtime.RunConfig, spec.Diagnostics) {
	n, ds := spec.Parse("run_config", text)
	if ds.HasErrors() {
		return nil, ds
	}
	convertKeysToSnake(n)
	for _, key := range []string{"get_session_config", "tool_thread_pool_config"} {
		if v := n.Get(key); v != nil {
			convertKeysToSnake(v)
		}
	}
	asked := &Config{}
	if ds = spec.Decode(n, asked); !ds.HasErrors() {
		if n.Get("streaming_mode").IsNull() {
			asked.StreamingMode = app.StreamingMode
		}
		ds = append(ds, asked.Check(n)...)
	}
	if ds.HasErrors() {
		return nil, ds
	}
	if problems := asked.checkAgainst(app, n); len(problems) > 0 {
		return nil, append(ds, problems...)
	}
	from, to := reflect.ValueOf(asked.Convert()), reflect.ValueOf(&app).Elem()
	for field := range reflect.TypeFor[Config]().Fields() {
		if !n.Get(field.Tag.Get("yaml")).IsNull() {
			to.FieldByName(field.Name).Set(from.FieldByName(field.Name))
		}
	}
	return &app, ds
}

// checkAgainst reports what a request may not change in an app's config.
func (c *Config) checkAgainst(app runtime.RunConfig, n *spec.Node) spec.Diagnostics {
	maxCalls := cmp.Or(app.MaxFunctionCalls, runtime.DefaultMaxFunctionCalls)
	if at := n.Get("max_llm_calls"); !at.IsNull() && app.MaxLLMCalls > 0 && (c.MaxLLMCalls <= 0 || c.MaxLLMCalls > app.MaxLLMCalls) {
		return spec.Diagnostics{at.Errorf("run-config", "max_llm_calls %d exceeds the limit of the app, %d", c.MaxLLMCalls, app.MaxLLMCalls)}
	}
	if at := n.Get("max_function_calls"); !at.IsNull() && c.MaxFunctionCalls > maxCalls {
		return spec.Diagnostics{at.Errorf("run-config", "max_function_calls %d exceeds the limit of the app, %d", c.MaxFunctionCalls, maxCalls)}
	}
	if at := n.Get("live"); !at.IsNull() {
		return spec.Diagnostics{at.Errorf("run-config", "live is a limit of the app: a request cannot change it")}
	}
	if at := n.Get("support_cfc"); c.SupportCFC && !app.SupportCFC {
		return spec.Diagnostics{at.Errorf("run-config", "support_cfc lets models execute code: only the app can turn it on")}
	}
	switch at := n.Get("max_cost"); {
	case at.IsNull():
	case app.MaxCost == 0:
		return spec.Diagnostics{at.Errorf("run-config", "max_cost requires max_cost in run_config of the app, which a request can only lower")}
	case c.MaxCost > app.MaxCost:
		return spec.Diagnostics{at.Errorf("run-config", "max_cost %v exceeds the limit of the app, %v", c.MaxCost, app.MaxCost)}
	}
	return nil
}

// convertKeysToSnake converts a mapping's keys to snake_case.
func convertKeysToSnake(n *spec.Node) {
	for _, e := range n.Entries {
		var snake strings.Builder
		for _, c := range e.Key.Value {
			if 'A' <= c && c <= 'Z' {
				snake.WriteByte('_')
				c += 'a' - 'A'
			}
			snake.WriteRune(c)
		}
		e.Key.Value = snake.String()
	}
}
