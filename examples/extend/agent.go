package main

import (
	"context"

	"agenthost/pkg/loader"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
)

// agentClasses lists our classes of agents.
func agentClasses() spec.Kinds[loader.AgentEnv, runtime.Agent] {
	return spec.Kinds[loader.AgentEnv, runtime.Agent]{
		spec.NewKind("FirstAnswerAgent", "Runs its sub-agents in order until one answers.", newFirstAnswer),
	}
}

// firstAnswerConfig is the YAML of a FirstAnswerAgent.
type firstAnswerConfig struct {
	Common loader.CommonConfig `yaml:",inline"`
}

// AgentRefs returns the sub-agents, which the loader builds first.
func (c *firstAnswerConfig) AgentRefs() []*loader.AgentRef { return c.Common.AgentRefs() }

func newFirstAnswer(_ context.Context, env loader.AgentEnv, c *firstAnswerConfig) (runtime.Agent, error) {
	return &firstAnswer{runtime.Base{
		AgentName: c.Common.Name.Value, AgentDescription: c.Common.Description, Children: env.SubAgents,
	}}, nil
}

// firstAnswer embeds Base, with which an agent has callbacks and when.
type firstAnswer struct{ runtime.Base }

func (a *firstAnswer) Run(ctx context.Context, inv *runtime.Invocation) runtime.Events {
	return func(yield func(*session.Event, error) bool) {
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
