package apptest

import (
	"context"
	"net/http"
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

// blockedTransport rejects all requests: tests have no network access.
type blockedTransport struct{}

// RoundTrip returns an error; see [http.RoundTripper].
func (blockedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	return nil, &networkError{req.URL.Host}
}

type networkError struct{ host string }

// Error contains the host but not the URL, which may contain a key.
func (e *networkError) Error() string {
	return "tests have no network access, request to " + e.host + " rejected"
}
