package runtime

import (
	"math"
	"reflect"
	"strings"

	"agenthost/pkg/spec"
)

// Override returns the config with the fields of one request replaced: a JSON
// object with the fields of run_config, in snake_case or camelCase. It is
// validated like the YAML. Limits of c cannot be raised.
func (c RunConfig) Override(text []byte) (*RunConfig, spec.Diagnostics) {
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
	asked := &RunConfig{}
	if ds = spec.Decode(n, asked); !ds.HasErrors() {
		if n.Get("streaming_mode").IsNull() {
			asked.StreamingMode = c.StreamingMode
		}
		ds = append(ds, asked.Check(n)...)
	}
	if ds.HasErrors() {
		return nil, ds
	}
	if at := n.Get("max_llm_calls"); !at.IsNull() && c.MaxLLMCalls > 0 && (asked.MaxLLMCalls <= 0 || asked.MaxLLMCalls > c.MaxLLMCalls) {
		return nil, append(ds, at.Errorf("run-config", "max_llm_calls %d exceeds the limit of the app, %d", asked.MaxLLMCalls, c.MaxLLMCalls))
	}
	if at := n.Get("max_function_calls"); !at.IsNull() && asked.MaxFunctionCalls > c.maxFunctionCalls() {
		return nil, append(ds, at.Errorf("run-config", "max_function_calls %d exceeds the limit of the app, %d", asked.MaxFunctionCalls, c.maxFunctionCalls()))
	}
	from, to := reflect.ValueOf(asked).Elem(), reflect.ValueOf(&c).Elem()
	for i := range from.NumField() {
		if !n.Get(from.Type().Field(i).Tag.Get("yaml")).IsNull() {
			to.Field(i).Set(from.Field(i))
		}
	}
	return &c, ds
}

// convertKeysToSnake converts the keys of a mapping to snake_case.
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

// validateConfig rejects invalid configs made by Go code; configs from YAML
// are validated when they are decoded.
func (c *RunConfig) validateConfig() error {
	switch {
	case c.MaxLLMCalls >= math.MaxInt32:
		return invalidRequest(tooManyCalls, math.MaxInt32)
	case c.SupportCFC && c.StreamingMode != StreamingSSE:
		return invalidRequest("%s", cfcNeedsSSE)
	case c.ToolThreadPoolConfig != nil && c.ToolThreadPoolConfig.MaxWorkers < 1:
		return invalidRequest(noWorkers, c.ToolThreadPoolConfig.MaxWorkers)
	case c.MaxFunctionCalls < 0:
		return invalidRequest(noFunctionCalls, c.MaxFunctionCalls)
	case c.StreamingMode != "" && c.StreamingMode != StreamingNone && c.StreamingMode != StreamingSSE && c.StreamingMode != StreamingBidi:
		return invalidRequest("streaming_mode %q is not one of: none, sse, bidi", c.StreamingMode)
	}
	return nil
}

// effectiveConfig returns the config of a request.
func (req *RunRequest) effectiveConfig(app *App) RunConfig {
	if req.Config != nil {
		return *req.Config
	}
	return app.Config
}

// validateConfig validates the config of a request, and logs one without a
// limit on model calls.
func (req *RunRequest) validateConfig(h *Host) error {
	if req.Config == nil {
		return nil
	}
	if err := req.Config.validateConfig(); err != nil {
		return err
	}
	if req.Config.MaxLLMCalls <= 0 {
		h.logger.Warn("request without a limit on model calls",
			"app", req.App, "session", req.SessionID, "max_llm_calls", req.Config.MaxLLMCalls)
	}
	return nil
}
