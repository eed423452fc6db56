package loader

import (
	"errors"
	"fmt"
	"net/http"

	"agenthost/pkg/policy"
	"agenthost/pkg/provider"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// configAddresses are the addresses that the config of a tool names.
func configAddresses(config any) []spec.Text {
	if c, ok := config.(interface{ Addresses() []spec.Text }); ok {
		return c.Addresses()
	}
	return nil
}

// modelEndpoint is where the model of a config is reached; false when it is not
// reached over the network.
func modelEndpoint(config any, env provider.Env) (provider.Endpoint, bool) {
	if c, ok := config.(interface {
		Endpoint(env provider.Env) provider.Endpoint
	}); ok {
		return c.Endpoint(env), true
	}
	return provider.Endpoint{}, false
}

// acquireToolClient is one for a tool: it reaches what the host lets the app reach, and what
// the config itself names. Those that name the same share their connections, also
// with other revisions.
func (j *job) acquireToolClient(config any) (*http.Client, func() error) {
	addresses := configAddresses(config)
	words := []string{"client", j.src.name}
	for _, text := range addresses {
		words = append(words, text.Value)
	}
	return j.acquireGuardedClient(words, func(guard *policy.Guard) {
		for _, text := range addresses {
			_ = guard.Check(text.Value) // what is refused was reported when it was decoded
		}
	})
}

// acquireModelClient is one for a model. It may reach the provider's own address, or the
// host's, with the host's key; an address or a key that the app has chosen needs a
// grant for the address.
func (j *job) acquireModelClient(e provider.Endpoint) (*http.Client, func() error) {
	return j.acquireGuardedClient([]string{"model client", j.src.name, e.URL, fmt.Sprint(e.OfHost)}, func(guard *policy.Guard) {
		if e.OfHost {
			guard.Trust(e.URL)
		} else {
			_ = guard.Check(e.URL) // what is refused was reported when it was decoded
		}
	})
}

func (j *job) acquireGuardedClient(words []string, prepare func(guard *policy.Guard)) (*http.Client, func() error) {
	if j.loader.opts.HTTP != nil {
		return j.loader.opts.HTTP, func() error { return nil }
	}
	client, end, _ := acquireResource(j.loader.resources, hashResourceKey(words...), func() (*http.Client, func() error, error) {
		guard := j.loader.opts.Policy.Guard(j.src.name)
		prepare(guard)
		transport := guard.Transport()
		return &http.Client{Transport: tracingTransport{transport}}, func() error {
			transport.CloseIdleConnections()
			return nil
		}, nil
	})
	return client, end
}

// checkPolicy refuses the programs of a config that the host does not let the app
// run, and the addresses that it does not let it reach. A caller's own client
// decides about addresses itself.
func (j *job) checkPolicy(config any) spec.Diagnostics {
	ds := j.checkProgram(config)
	for _, text := range configAddresses(config) {
		ds = append(ds, j.checkAddress(text.Value, text)...)
	}
	return ds
}

// checkEndpoint refuses the address of a model that the app has chosen, or to
// which it brings a key of its own, at its place or else at that of the model.
func (j *job) checkEndpoint(e provider.Endpoint, at spec.Text) spec.Diagnostics {
	if e.OfHost {
		return nil
	}
	if e.At.Value != "" {
		at = e.At
	}
	return j.checkAddress(e.URL, at)
}

func (j *job) checkAddress(address string, at spec.Text) spec.Diagnostics {
	if j.loader.opts.HTTP != nil {
		return nil
	}
	return policyDiagnostic(j.guard.Check(address), at)
}

func (j *job) checkProgram(config any) spec.Diagnostics {
	c, ok := config.(interface{ Program() *tool.Program })
	if !ok || c.Program() == nil {
		return nil
	}
	asked := c.Program()
	return policyDiagnostic(j.loader.opts.Policy.CheckProgram(j.src.name, asked.Program), asked.At)
}

// policyDiagnostic is the problem of a refusal at the place that asks.
func policyDiagnostic(err error, at spec.Text) spec.Diagnostics {
	refused := (*policy.Refused)(nil)
	if !errors.As(err, &refused) {
		return nil
	}
	return spec.Diagnostics{at.Errorf(0, "grant", "%s", refused.Message()).WithHint("%s", refused.Hint())}
}
