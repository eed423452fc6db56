package openai

import (
	"context"

	"agenthost/internal/modelapi"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
)

// OnApigee returns the config for a model with OpenAI's chat completions API on an Apigee proxy
// that adds the key; it is a [modelapi.HostVendor].
func OnApigee(m modelapi.HostedModel) modelapi.HostedConfig {
	return &chatOnApigee{HostedModel: m, vendor: &chatVendor{Vendor: modelapi.Vendor{
		Prefix: "apigee", Title: "Apigee", Example: "https://proxy.example.com/llm", BaseVariables: []string{"APIGEE_PROXY_URL"}, Keyless: true,
	}}}
}

// chatOnApigee is the config for a model from the provider apigee.
type chatOnApigee struct {
	modelapi.HostedModel
	vendor *chatVendor
}

// Endpoint returns the address that the model's calls go to.
func (c *chatOnApigee) Endpoint(env provider.Env) provider.Endpoint {
	return c.vendor.DescribeEndpoint(env, c.APIKey, c.BaseURL)
}

// Credential describes the key that the proxy adds.
func (c *chatOnApigee) Credential(env provider.Env) provider.Credential {
	return c.vendor.DescribeCredential(env, c.APIKey.Reveal(), c.BaseURL.Value)
}

// KeyVariables returns none: the proxy adds the key.
func (c *chatOnApigee) KeyVariables(provider.Env) []string { return nil }

// KeyProblem returns "": a bearer token is permitted.
func (c *chatOnApigee) KeyProblem() string { return "" }

// BuildModel builds the model.
func (c *chatOnApigee) BuildModel(_ context.Context, env provider.Env) (model.LLM, error) {
	return newChat(c.vendor, c.Name, &Options{
		Lookup: env.Lookup, App: env.App, BaseURL: c.BaseURL.Value, APIKey: c.APIKey.Reveal(), HTTP: env.HTTP,
		Timeouts: c.Calls.TimeoutOptions(), Retry: *c.Calls.RetryOptions(env), Logger: env.Logger,
	}), nil
}
