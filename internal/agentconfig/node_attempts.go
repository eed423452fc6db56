package agentconfig

import (
	"math"
	"regexp"
	"strconv"
	"time"

	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// seconds is a duration, in seconds like in ADK, or with its unit.
type seconds time.Duration

// DecodeSpec decodes both forms.
func (s *seconds) DecodeSpec(n *spec.Node) spec.Diagnostics {
	if v, err := strconv.ParseFloat(n.Value, 64); n.Kind == spec.Scalar && err == nil {
		if math.IsNaN(v) || v < 0 || v > math.MaxInt32 {
			return spec.Diagnostics{n.Errorf("value", "expected 0 or more seconds, got %s", n.Value)}
		}
		*s = seconds(v * float64(time.Second))
		return nil
	}
	var d spec.Duration
	ds := d.DecodeSpec(n)
	*s = seconds(d)
	return ds
}

// SchemaSpec describes both forms.
func (*seconds) SchemaSpec() map[string]any {
	return map[string]any{"title": "seconds, or duration", "type": []any{"number", "string"}, "minimum": 0, "examples": []any{1.5, "30s", "5m"}}
}

// retryConfig is the YAML for ADK's retry_config.
type retryConfig struct {
	MaxAttempts   int      `yaml:"max_attempts" default:"5" doc:"Attempts, including the first; 0 and 1 do not retry."`
	InitialDelay  seconds  `yaml:"initial_delay" default:"1s" doc:"Delay before the second attempt, in seconds or with a unit."`
	MaxDelay      seconds  `yaml:"max_delay" default:"60s" doc:"Longest delay."`
	BackoffFactor float64  `yaml:"backoff_factor" default:"2" doc:"Factor between a delay and the next one."`
	Jitter        float64  `yaml:"jitter" default:"1" doc:"Part of a delay by which it varies at random, 0 to 1."`
	Exceptions    []string `yaml:"exceptions" doc:"Error codes to retry, such as TOOL_FAILED. Default: all node failures."`
}

// checkValues reports values out of range and invalid error codes.
func (c *retryConfig) checkValues(n *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	if at := n.Get("max_attempts"); c.MaxAttempts < 0 || c.MaxAttempts > maxAttempts {
		ds = append(ds, at.Errorf("node", "max_attempts must be 0 to %d, got %d", maxAttempts, c.MaxAttempts))
	}
	if at := n.Get("backoff_factor"); c.BackoffFactor < 1 {
		ds = append(ds, at.Errorf("node", "backoff_factor must be 1 or more, got %v", c.BackoffFactor))
	}
	if at := n.Get("jitter"); c.Jitter < 0 || c.Jitter > 1 {
		ds = append(ds, at.Errorf("node", "jitter must be 0 to 1, got %v", c.Jitter))
	}
	if at := n.Get("exceptions"); at != nil {
		for i, code := range c.Exceptions {
			if !errorCode.MatchString(code) {
				ds = append(ds, at.Items[i].Errorf("node", "expected an error code, such as TOOL_FAILED, got %s", code).
					WithHint("ADK names Python exceptions here: write the error codes of events, or omit the list to retry all failures"))
			}
		}
	}
	return ds
}

var errorCode = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)

// maxAttempts limits how often a node is repeated.
const maxAttempts = 100

// buildAttempts returns a node's attempts.
func (c *nodeConfig) buildAttempts() runtime.Attempts {
	a := runtime.Attempts{Timeout: time.Duration(c.Timeout)}
	if r := c.RetryConfig; r != nil {
		a.Max, a.Initial, a.Longest = r.MaxAttempts, time.Duration(r.InitialDelay), time.Duration(r.MaxDelay)
		a.Backoff, a.Jitter, a.Codes = r.BackoffFactor, r.Jitter, r.Exceptions
	}
	return a
}
