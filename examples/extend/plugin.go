package main

import (
	"context"

	"google.golang.org/genai"

	"agenthost"
)

// plugins lists our plugins.
func plugins() []agenthost.PluginKind {
	return []agenthost.PluginKind{
		agenthost.NewKind("opening_hours", "Answers that the shop is closed.", newOpeningHours),
	}
}

// openingHoursConfig is opening_hours' YAML.
type openingHoursConfig struct {
	Closed bool   `yaml:"closed" doc:"Whether the shop is closed."`
	Answer string `yaml:"answer" default:"We are closed." doc:"The answer while it is closed."`
}

func newOpeningHours(_ context.Context, _ agenthost.PluginEnv, c *openingHoursConfig) (*agenthost.Plugin, error) {
	return &agenthost.Plugin{
		Name: "opening_hours",
		BeforeRun: func(context.Context, *agenthost.Invocation) (*genai.Content, error) {
			if !c.Closed {
				return nil, nil // run the agent
			}
			return genai.NewContentFromText(c.Answer, genai.RoleModel), nil
		},
	}, nil
}
