package apptest

import (
	"context"
	"time"

	"agenthost/internal/toolstub"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
)

// simulatorAgent is the agent that a scripted model sees when it simulates tools.
const simulatorAgent = "simulator"

// beginStubs returns the stubs for one run. Latencies are counted, but not waited for.
func (t *Test) beginStubs() *toolstub.Run {
	o := &toolstub.RunOptions{Wait: skipWait}
	if t.simulator != nil {
		llm := provider.NewScripted(t.simulator.Script, &provider.ScriptedOptions{Name: simulatorAgent, Wait: skipWait})
		o.Ask = func(ctx context.Context, prompt string) (string, error) {
			resp, err := model.Answer(ctx, llm, &model.Request{Origin: model.Origin{Agent: simulatorAgent, UserText: prompt, Turn: 1}})
			if err != nil {
				return "", err
			}
			return model.TextOf(resp.Content), nil
		}
	}
	return t.stubs.Begin(o)
}

func skipWait(ctx context.Context, _ time.Duration) error { return ctx.Err() }
