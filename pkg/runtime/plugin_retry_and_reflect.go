package runtime

import (
	"context"
	"fmt"

	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

type retryAndReflectConfig struct {
	MaxRetries int           `yaml:"max_retries" default:"3" doc:"Number of consecutive failures of a tool that are retried."`
	Throw      bool          `yaml:"throw_exception_if_retry_exceeded" default:"true" doc:"Whether one more failure ends the run; otherwise the model is instructed not to call the tool again."`
	Scope      trackingScope `yaml:"tracking_scope" enum:"invocation|global" default:"invocation" doc:"Whether failures of a tool are counted per run or across all runs of the app."`
}

// trackingScope selects which failures of a tool are counted together.
type trackingScope string

const trackGlobal trackingScope = "global"

// stateKey returns the state key that counts the failures of a tool.
func (s trackingScope) stateKey(call *tool.Call) string {
	prefix := session.TempPrefix
	if s == trackGlobal {
		prefix = session.AppPrefix
	}
	return prefix + "retry_and_reflect:" + call.Name
}

// DecodeSpec rejects a negative count.
func (c *retryAndReflectConfig) DecodeSpec(n *spec.Node) spec.Diagnostics {
	ds := spec.Decode(n, c)
	if at := n.Get("max_retries"); !ds.HasErrors() && c.MaxRetries < 0 {
		ds = append(ds, at.Errorf("value", "max_retries must be 0 or more, got %d", c.MaxRetries))
	}
	return ds
}

// retryAndReflect is ADK's ReflectAndRetryToolPlugin. It counts the failures of
// each tool in the state: under a temp: key, which is dropped after the run, or
// under an app: key, which all sessions on all replicas share.
type retryAndReflect struct{ retryAndReflectConfig }

func newRetryAndReflect(_ context.Context, _ PluginEnv, c *retryAndReflectConfig) (*Plugin, error) {
	p := retryAndReflect{*c}
	return &Plugin{Name: "retry_and_reflect", Callbacks: Callbacks{
		OnToolError: []ToolErrorFunc{p.reflectOnError},
		AfterTool:   []AfterToolFunc{p.resetCount},
	}}, nil
}

// reflectMark is the response_type that identifies these responses for ADK's
// clients.
const reflectMark = "ERROR_HANDLED_BY_REFLECT_AND_RETRY_PLUGIN"

func (p *retryAndReflect) reflectOnError(_ context.Context, _ tool.Tool, call *tool.Call, failure error) (*tool.Result, error) {
	key := p.Scope.stateKey(call)
	v, _ := call.State.Get(key)
	before, _ := toCount(v)
	n := before + 1
	if n > p.MaxRetries {
		if p.Throw {
			return nil, failf(CodeToolFailed, failure, "tool %s of agent %s exceeded max_retries with %d consecutive failures: %s", call.Name, call.Origin.Agent, n, failure)
		}
		return reflectionResult(failure, n, fmt.Sprintf("The tool %s failed too often, with %d consecutive failures. Do not call it again in this turn: "+
			"find another way, or explain to the user what cannot be done.", call.Name, n)), nil
	}
	if err := call.State.Update(session.StateUpdate{Key: key, Verb: session.UpdateAdd, Value: 1}); err != nil {
		return nil, err
	}
	return reflectionResult(failure, n, fmt.Sprintf("The call of %s failed; this was attempt %d of %d. Before the next call, think about the cause: "+
		"are the arguments complete, of the right type, and intended for this tool? Do not repeat the same call. "+
		"If the tool cannot help, find another way.", call.Name, n, p.MaxRetries+1)), nil
}

func reflectionResult(failure error, n int, guidance string) *tool.Result {
	return &tool.Result{Response: map[string]any{
		"response_type": reflectMark, "error_details": failure.Error(), "retry_count": n, "reflection_guidance": guidance,
	}}
}

// resetCount resets the failure count of a tool that succeeded.
func (p *retryAndReflect) resetCount(_ context.Context, _ tool.Tool, call *tool.Call, result *tool.Result) (*tool.Result, error) {
	if result != nil && result.Response["response_type"] == reflectMark {
		return nil, nil
	}
	if v, _ := call.State.Get(p.Scope.stateKey(call)); v != nil {
		call.State.Set(p.Scope.stateKey(call), nil)
	}
	return nil, nil
}

func toCount(v any) (int, bool) {
	switch v := v.(type) {
	case int:
		return v, true
	case int64:
		return int(v), true
	}
	return 0, false
}
