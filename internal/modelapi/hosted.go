package modelapi

import (
	"context"

	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/pkg/spec"
)

// A HostedModel has the settings of a model of a vendor on the platform of
// another, such as Claude on Vertex AI.
type HostedModel struct {
	Name    string
	BaseURL spec.Text
	APIKey  spec.Secret
	Calls   provider.CallsConfig
}

// A HostedConfig is the config of a hosted model.
type HostedConfig interface {
	provider.EndpointConfig
	provider.CredentialConfig
	provider.KeyConfig
	// KeyProblem returns why the model has no api_key there, or "".
	KeyProblem() string
	// BuildModel builds the model.
	BuildModel(ctx context.Context, env provider.Env) (model.LLM, error)
}

// A HostVendor returns the config of a vendor's model on the platform, or nil if the name
// is not that of a model of the vendor. A nil HostVendor is a vendor that the program does
// not have.
type HostVendor func(HostedModel) HostedConfig

// ConfigOf returns the config of a model, or nil.
func (v HostVendor) ConfigOf(m HostedModel) HostedConfig {
	if v == nil {
		return nil
	}
	return v(m)
}
