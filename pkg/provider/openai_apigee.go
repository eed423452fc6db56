package provider

import (
	"context"

	"agenthost/pkg/model"
)

// BehindApigee returns the config of a model with OpenAI's chat completions API behind an
// Apigee proxy, which adds the key; it is a [HostVendor].
func BehindApigee(m HostedModel) HostedConfig {
	return &chatBehindApigee{HostedModel: m, vendor: &chatVendor{vendor: vendor{
		prefix: "apigee", title: "Apigee", example: "https://proxy.example.com/llm", baseVariables: []string{"APIGEE_PROXY_URL"}, keyless: true,
	}}}
}

// chatBehindApigee is the config of a model of the provider apigee.
type chatBehindApigee struct {
	HostedModel
	vendor *chatVendor
}

// Endpoint returns the address of the model's calls.
func (c *chatBehindApigee) Endpoint(env Env) Endpoint {
	return c.vendor.describeEndpoint(env, c.APIKey, c.BaseURL)
}

// Credential describes the key, which the proxy adds.
func (c *chatBehindApigee) Credential(env Env) Credential {
	return c.vendor.describeCredential(env, c.APIKey.Reveal(), c.BaseURL.Value)
}

// KeyVariables returns none: the proxy adds the key.
func (c *chatBehindApigee) KeyVariables(Env) []string { return nil }

// KeyProblem returns "": a bearer token is permitted.
func (c *chatBehindApigee) KeyProblem() string { return "" }

// BuildModel builds the model.
func (c *chatBehindApigee) BuildModel(_ context.Context, env Env) (model.LLM, error) {
	return newChat(c.vendor, c.Name, &OpenAIOptions{
		Lookup: env.Lookup, App: env.App, BaseURL: c.BaseURL.Value, APIKey: c.APIKey.Reveal(), HTTP: env.HTTP,
		Timeouts: c.Calls.TimeoutOptions(), Retry: *c.Calls.RetryOptions(env), Logger: env.Logger,
	}), nil
}
