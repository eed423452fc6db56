package provider

import (
	"cmp"
	"time"

	"agenthost/pkg/spec"
)

// A CallsConfig configures what all services' calls have in common: retries, timeouts, limits,
// prices and fallbacks. A provider's config embeds it with yaml:",inline", and thereby is a
// [FallbackConfig], a [LimitedConfig], a [PricedConfig] and a [SizedConfig].
type CallsConfig struct {
	Retry    retryConfig    `yaml:"retry" doc:"When to retry failed calls."`
	Timeouts timeoutsConfig `yaml:"timeouts" doc:"How long the service may be silent before the call fails."`
	Limits   LimitsConfig   `yaml:"limits" doc:"Limits for calls. All models on the host with the same key, address and name share them."`
	Price    *PriceConfig   `yaml:"price" doc:"The token price. Default: the price in the --prices file, or none."`
	Context  *ContextConfig `yaml:"context" doc:"The maximum prompt and response sizes, for check's warnings and editors. Default: the sizes in the --prices file, or unknown."`
	Fallback []FallbackRef  `yaml:"fallback" doc:"Models in the app to try in this order when this one fails and retries did not help."`
}

// Advice lists other programs' names for a model's settings.
func (c *CallsConfig) Advice() spec.Advice {
	const config = "set it on the agents that use the model, in generate_content_config"
	const timeout = "use timeouts: {first_byte: 5m, idle: 2m}"
	return spec.Advice{
		Fields: map[string]string{
			"name": "model", "model_name": "model", "model_id": "model", "deployment": "model", "deployment_name": "model",
			"api_base": "base_url", "baseUrl": "base_url", "baseURL": "base_url", "url": "base_url", "endpoint": "base_url",
			"apiKey": "api_key", "key": "api_key", "token": "api_key",
			"fallbacks": "fallback", "max_retries": "use retry: {attempts: 3}", "num_retries": "use retry: {attempts: 3}",
			"timeout": timeout, "request_timeout": timeout,
			"temperature": config, "top_p": config, "top_k": config, "seed": config,
			"max_tokens": "set max_output_tokens on the agents that use the model, in generate_content_config",
			"rpm":        "use limits: {requests: 60/1m}", "tpm": "use limits: {tokens: 200k/1m}",
		},
		Shapes: map[string]string{
			"retry: text":    "write retry: {attempts: 3}",
			"fallback: text": "write a list of models: fallback: [NAME]",
			"fallback: {}":   "write a list of models: fallback: [NAME]",
		},
	}
}

type retryConfig struct {
	Codes    []int `yaml:"codes" doc:"The HTTP status codes to retry. Default: 429, 500, 502, 503, 504 and 529."`
	Attempts int   `yaml:"attempts" default:"3" doc:"The maximum attempts, including the first."`
}

// ValidateCalls reports problems in the settings decoded from the mapping n.
func (c *CallsConfig) ValidateCalls(n *spec.Node) spec.Diagnostics {
	ds := append(c.Retry.validateRetry(n.Get("retry")), c.Limits.validateLimits(n.Get("limits"))...)
	return append(ds, c.Context.validateContext(n.Get("context"))...)
}

// RetryOptions returns the model's retry options.
func (c *CallsConfig) RetryOptions(env Env) *RetryOptions { return c.Retry.retryOptions(env) }

// TimeoutOptions returns the model's timeout options.
func (c *CallsConfig) TimeoutOptions() TimeoutOptions {
	disabled := time.Duration(-1)
	return TimeoutOptions{
		FirstByte: cmp.Or(time.Duration(c.Timeouts.FirstByte), disabled), Idle: cmp.Or(time.Duration(c.Timeouts.Idle), disabled),
	}
}

// Fallbacks names the fallback models.
func (c *CallsConfig) Fallbacks() []FallbackRef { return c.Fallback }

// CallLimits returns the limits for the model's calls.
func (c *CallsConfig) CallLimits() (Limits, bool) { return c.Limits.Limits() }

// ModelPrice returns the model's price, or nil.
func (c *CallsConfig) ModelPrice() *Price { return c.Price.priceOrNil() }

// ContextLimits returns the maximum prompt and response sizes.
func (c *CallsConfig) ContextLimits() ContextLimits { return c.Context.contextLimits() }

func (c *retryConfig) retryOptions(env Env) *RetryOptions {
	return &RetryOptions{Codes: c.Codes, Attempts: c.Attempts, Wait: env.Wait, Logger: env.Logger, Provider: env.Provider, Gate: env.Gate}
}

func (c *retryConfig) validateRetry(n *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	if at := n.Get("attempts"); at != nil && c.Attempts < 1 {
		ds = append(ds, at.Errorf("value", "attempts must be at least 1; 1 disables retries"))
	}
	codes := n.Get("codes")
	for i, code := range c.Codes {
		if code < 400 || code > 599 {
			ds = append(ds, codes.Items[i].Errorf("value", "%d is not an error status, must be 400 to 599", code))
		}
	}
	return ds
}

// ContextLimits are a model's maximum prompt and response sizes in tokens; 0 means unknown.
type ContextLimits struct{ Input, Output int }

// A ContextConfig is the YAML for [ContextLimits].
type ContextConfig struct {
	Input  int `yaml:"input" doc:"The maximum prompt tokens, with the instruction and the tools."`
	Output int `yaml:"output" doc:"The maximum response tokens: max_output_tokens must not exceed it."`
}

// A SizedConfig is the config for a model that may have context limits.
type SizedConfig interface{ ContextLimits() ContextLimits }

// validateContext reports problems in the limits in n, which may be nil.
func (c *ContextConfig) validateContext(n *spec.Node) spec.Diagnostics {
	if c == nil {
		return nil
	}
	var ds spec.Diagnostics
	if len(n.Entries) == 0 {
		ds = append(ds, n.Errorf("required", "context requires input or output"))
	}
	if at := n.Get("input"); at != nil && c.Input < 1 {
		ds = append(ds, at.Errorf("value", "input must be at least 1"))
	}
	if at := n.Get("output"); at != nil && c.Output < 1 {
		ds = append(ds, at.Errorf("value", "output must be at least 1"))
	}
	return ds
}

// contextLimits returns the limits; with nil they are unknown.
func (c *ContextConfig) contextLimits() ContextLimits {
	if c == nil {
		return ContextLimits{}
	}
	return ContextLimits(*c)
}

// TimeoutOptions limit how long a service may be silent. The zero value has the defaults.
type TimeoutOptions struct {
	// FirstByte is the maximum time from the request to the response body's first byte; 0 is 5 min,
	// negative disables the limit.
	FirstByte time.Duration
	// Idle is the maximum time for each later read from the body; 0 is 2 min, and a negative time
	// disables the limit.
	Idle time.Duration
}

type timeoutsConfig struct {
	FirstByte spec.Duration `yaml:"first_byte" default:"5m" doc:"Maximum time from the request to the response's first byte. 0 disables the limit."`
	Idle      spec.Duration `yaml:"idle" default:"2m" doc:"Maximum time between two response chunks. 0 disables the limit."`
}
