package main

import (
	"context"

	"agenthost"
)

// agentClasses lists our agent classes.
func agentClasses() []agenthost.AgentKind {
	return []agenthost.AgentKind{
		agenthost.NewKind("FirstAnswerAgent", "Runs its sub-agents in order until one answers.", newFirstAnswer),
	}
}

// firstAnswerConfig is a FirstAnswerAgent's YAML.
type firstAnswerConfig struct {
	Common agenthost.CommonConfig `yaml:",inline"`
}

// AgentRefs returns the sub-agents, which the loader builds first.
func (c *firstAnswerConfig) AgentRefs() []*agenthost.AgentRef { return c.Common.AgentRefs() }

func newFirstAnswer(_ context.Context, env agenthost.AgentEnv, c *firstAnswerConfig) (agenthost.Agent, error) {
	return &firstAnswer{agenthost.AgentBase{
		AgentName: c.Common.Name.Value, AgentDescription: c.Common.Description, Children: env.SubAgents,
	}}, nil
}

// firstAnswer embeds AgentBase, with which an agent has callbacks and when.
type firstAnswer struct{ agenthost.AgentBase }

func (a *firstAnswer) Run(ctx context.Context, inv *agenthost.Invocation) agenthost.Events {
	return func(yield func(*agenthost.Event, error) bool) {
		for i := range a.Children {
			answered := false
			for ev, err := range inv.RunChild(ctx, i) {
				if !yield(ev, err) || err != nil {
					return
				}
				answered = answered || ev.Text() != ""
			}
			if answered {
				return
			}
		}
	}
}
