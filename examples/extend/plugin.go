package main

import (
	"context"

	"google.golang.org/genai"

	"agenthost/pkg/loader"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// plugins lists our plugins.
func plugins() spec.Kinds[loader.PluginEnv, *runtime.Plugin] {
	return spec.Kinds[loader.PluginEnv, *runtime.Plugin]{
		spec.NewKind("opening_hours", "Answers that the shop is closed.", newOpeningHours),
	}
}

// openingHoursConfig is the YAML of opening_hours.
type openingHoursConfig struct {
	Closed bool   `yaml:"closed" doc:"Whether the shop is closed."`
	Answer string `yaml:"answer" default:"We are closed." doc:"The answer while it is closed."`
}

func newOpeningHours(_ context.Context, _ loader.PluginEnv, c *openingHoursConfig) (*runtime.Plugin, error) {
	return &runtime.Plugin{
		Name: "opening_hours",
		BeforeRun: func(context.Context, *runtime.Invocation) (*genai.Content, error) {
			if !c.Closed {
				return nil, nil // run the agent
			}
			return genai.NewContentFromText(c.Answer, genai.RoleModel), nil
		},
	}, nil
}
