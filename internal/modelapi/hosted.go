package modelapi

import (
	"context"

	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/pkg/spec"
)

// A HostedModel has the settings for a vendor's model on another platform, such as Claude on Vertex
// AI.
type HostedModel struct {
	Name    string
	BaseURL spec.Text
	APIKey  spec.Secret
	Calls   provider.CallsConfig
}

// A HostedConfig is a hosted model's config.
type HostedConfig interface {
	provider.EndpointConfig
	provider.CredentialConfig
	provider.KeyConfig
	// KeyProblem returns why the model has no api_key there, or "".
	KeyProblem() string
	// BuildModel builds the model.
	BuildModel(ctx context.Context, env provider.Env) (model.LLM, error)
}

// A HostVendor returns the config for a vendor's model on the platform, or nil if the vendor has no
// such model. A nil HostVendor is a vendor that the program does not have.
type HostVendor func(HostedModel) HostedConfig

// ConfigOf returns a model's config, or nil.
func (v HostVendor) ConfigOf(m HostedModel) HostedConfig {
	if v == nil {
		return nil
	}
	return v(m)
}
