package provider

import "agenthost/pkg/spec"

// callsConfig configures retries, timeouts and fallbacks.
type callsConfig struct {
	Retry    retryConfig    `yaml:"retry" doc:"When to retry failed calls."`
	Timeouts timeoutsConfig `yaml:"timeouts" doc:"How long the service may be silent before the call fails."`
	Limits   LimitsConfig   `yaml:"limits" doc:"The limits of calls. All models of the host with the same key, address and name share them."`
	Price    *PriceConfig   `yaml:"price" doc:"The price of tokens. Default: that of the file of --prices, or none."`
	Fallback []FallbackRef  `yaml:"fallback" doc:"Models of the app to try in this order when this one fails and retries did not help."`
}

type retryConfig struct {
	Codes    []int `yaml:"codes" doc:"The HTTP status codes to retry. Default: 429, 500, 502, 503, 504 and 529."`
	Attempts int   `yaml:"attempts" default:"3" doc:"The maximum number of attempts, including the first."`
}

// validateCalls reports problems of the settings in n.
func (c *callsConfig) validateCalls(n *spec.Node) spec.Diagnostics {
	return append(c.Retry.validateRetry(n.Get("retry")), c.Limits.validateLimits(n.Get("limits"))...)
}

func (c *retryConfig) retryOptions(env Env) *RetryOptions {
	return &RetryOptions{Codes: c.Codes, Attempts: c.Attempts, Wait: env.Wait, Logger: env.Logger, Provider: env.Provider, Gate: env.Gate}
}

func (c *retryConfig) validateRetry(n *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	if at := n.Get("attempts"); at != nil && c.Attempts < 1 {
		ds = append(ds, at.Errorf("value", "attempts must be at least 1, which disables retries"))
	}
	codes := n.Get("codes")
	for i, code := range c.Codes {
		if code < 400 || code > 599 {
			ds = append(ds, codes.Items[i].Errorf("value", "%d is not an error status, must be 400 to 599", code))
		}
	}
	return ds
}

// decodeService decodes and checks the settings of a service. base and calls are fields
// of dst.
func decodeService(n *spec.Node, dst any, base *spec.Text, calls *callsConfig) spec.Diagnostics {
	ds := spec.Decode(n, dst)
	if base.Value != "" {
		if problem := badBaseURL(base.Value); problem != "" {
			ds = append(ds, base.Errorf(0, "value", "%s", problem))
		}
	}
	ds = append(ds, calls.validateCalls(n)...)
	ds.Sort()
	return ds
}
