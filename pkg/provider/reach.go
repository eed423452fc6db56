package provider

import "agenthost/pkg/spec"

// Addresses are those that the model's document names.
func (c *geminiConfig) Addresses() []spec.Text { return []spec.Text{c.BaseURL} }

// Addresses are those that the model's document names.
func (c *openAIConfig) Addresses() []spec.Text { return []spec.Text{c.BaseURL} }
