package loader

import (
	"errors"
	"fmt"
	"net/http"

	"agenthost/internal/policy"
	"agenthost/pkg/provider"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// configAddresses returns the addresses in the config of a tool.
func configAddresses(config any) []spec.Text {
	if c, ok := config.(interface{ Addresses() []spec.Text }); ok {
		return c.Addresses()
	}
	return nil
}

// modelEndpoint returns the endpoint of a model's config; false means that the model
// does not use the network.
func modelEndpoint(config any, env provider.Env) (provider.Endpoint, bool) {
	if c, ok := config.(interface {
		Endpoint(env provider.Env) provider.Endpoint
	}); ok {
		return c.Endpoint(env), true
	}
	return provider.Endpoint{}, false
}

// acquireToolClient returns an HTTP client for a tool. It can reach the addresses that
// the host grants to the app, and those in the config. Tools with the same addresses
// share connections, also across revisions.
func (j *job) acquireToolClient(config any) (*http.Client, func() error) {
	addresses := configAddresses(config)
	words := []string{"client", j.src.name}
	for _, text := range addresses {
		words = append(words, text.Value)
	}
	return j.acquireGuardedClient(words, func(guard *policy.Guard) {
		for _, text := range addresses {
			_ = guard.Check(text.Value) // a refusal was reported when the config was decoded
		}
	})
}

// acquireModelClient returns an HTTP client for a model. It can reach the address of
// the provider, or the address in the host's configuration with the host's key. An
// address or a key from the app requires a grant for the address.
func (j *job) acquireModelClient(e provider.Endpoint) (*http.Client, func() error) {
	return j.acquireGuardedClient([]string{"model client", j.src.name, e.URL, fmt.Sprint(e.OfHost)}, func(guard *policy.Guard) {
		if e.OfHost {
			guard.Trust(e.URL)
		} else {
			_ = guard.Check(e.URL) // a refusal was reported when the config was decoded
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

// checkPolicy reports programs and addresses of a config that the host does not grant.
// If the caller supplies its own HTTP client, that client decides about addresses.
func (j *job) checkPolicy(config any) spec.Diagnostics {
	ds := j.checkProgram(config)
	for _, text := range configAddresses(config) {
		ds = append(ds, j.checkAddress(text.Value, text)...)
	}
	return ds
}

// checkEndpoint reports a model endpoint without a grant if the app chose the address
// or the key. The diagnostic is at the address, or at the model.
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

// policyDiagnostic converts a refusal to a diagnostic at its position.
func policyDiagnostic(err error, at spec.Text) spec.Diagnostics {
	refused := (*policy.Refused)(nil)
	if !errors.As(err, &refused) {
		return nil
	}
	return spec.Diagnostics{at.Errorf(0, "grant", "%s", refused.Message()).WithHint("%s", refused.Hint())}
}
