package loader

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/propagation"

	"agenthost/internal/policy"
	"agenthost/pkg/provider"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// resources are the apps' open resources that survive reloads: tool sets, model clients,
// connections. The next revision of an app shares a resource if its key is equal; otherwise a new
// resource is created before the revision serves. A resource is closed when its last user, which
// has no more runs, releases it. It is safe for concurrent use.
type resources struct {
	mu    sync.Mutex
	byKey map[resourceKey]*resource
}

// A resourceKey hashes a resource's kind, app and settings. Positions in files do not count.
type resourceKey [sha256.Size]byte

func hashResourceKey(words ...string) resourceKey {
	return sha256.Sum256([]byte(strings.Join(words, "\x00")))
}

// A resource is reference-counted.
type resource struct {
	value    any
	close    func() error
	refCount int
}

// acquireResource returns a key's resource, and its release function, which may be called once. It
// creates the resource if it does not exist.
func acquireResource[T any](r *resources, key resourceKey, make func() (T, func() error, error)) (T, func() error, error) {
	release := func() error { return r.releaseResource(key) }
	if got := r.acquireOrAdd(key, nil); got != nil {
		return got.value.(T), release, nil
	}
	value, end, err := make() // may be slow
	if err != nil {
		return value, nil, err
	}
	made := &resource{value: value, close: end}
	if got := r.acquireOrAdd(key, made); got != made { // another goroutine was faster
		return got.value.(T), closeBoth(end, release), nil
	}
	return value, release, nil
}

// acquireOrAdd increments the existing resource's reference count, or adds the new one.
func (r *resources) acquireOrAdd(key resourceKey, made *resource) *resource {
	r.mu.Lock()
	defer r.mu.Unlock()
	got := r.byKey[key]
	if got == nil {
		if made == nil {
			return nil
		}
		got = made
		r.byKey[key] = got
	}
	got.refCount++
	return got
}

func (r *resources) releaseResource(key resourceKey) error {
	r.mu.Lock()
	got := r.byKey[key]
	got.refCount--
	last := got.refCount == 0
	if last {
		delete(r.byKey, key)
	}
	r.mu.Unlock()
	if !last {
		return nil
	}
	return got.close()
}

// closeBoth returns a function that calls both functions in order.
func closeBoth(first, second func() error) func() error {
	return func() error { return errors.Join(first(), second()) }
}

// configAddresses returns the addresses in a tool's config.
func configAddresses(config any) []spec.Text {
	if c, ok := config.(tool.AddressConfig); ok {
		return c.Addresses()
	}
	return nil
}

// modelEndpoint returns the endpoint in a model's config; false means that the model does not use
// the network.
func modelEndpoint(config any, env provider.Env) (provider.Endpoint, bool) {
	if c, ok := config.(provider.EndpointConfig); ok {
		return c.Endpoint(env), true
	}
	return provider.Endpoint{}, false
}

// acquireToolClient returns an HTTP client for a tool. It can reach the addresses that
// the host grants to the app, and the given ones. Tools with the same addresses
// share connections, also across revisions.
func (r *appLoad) acquireToolClient(addresses []spec.Text) (*http.Client, func() error) {
	if r.loader.opts.ToolHTTP != nil {
		return r.loader.opts.ToolHTTP, func() error { return nil }
	}
	words := []string{"client", r.src.name}
	for _, text := range addresses {
		words = append(words, text.Value)
	}
	return r.acquireGuardedClient(words, func(guard *policy.Guard) {
		for _, text := range addresses {
			_ = guard.Check(text.Value) // a refusal was reported when the config was decoded
		}
	})
}

// acquireModelClient returns an HTTP client for a model. It can reach the provider's address, or
// the address in the host's configuration with the host's key. An address or a key from the app
// requires a grant for the address.
func (r *appLoad) acquireModelClient(e provider.Endpoint) (*http.Client, func() error) {
	return r.acquireGuardedClient([]string{"model client", r.src.name, e.URL, fmt.Sprint(e.OfHost)}, func(guard *policy.Guard) {
		if e.OfHost {
			guard.Trust(e.URL)
		} else {
			_ = guard.Check(e.URL) // a refusal was reported when the config was decoded
		}
	})
}

func (r *appLoad) acquireGuardedClient(words []string, prepare func(guard *policy.Guard)) (*http.Client, func() error) {
	if r.loader.opts.HTTP != nil {
		return r.loader.opts.HTTP, func() error { return nil }
	}
	client, end, _ := acquireResource(r.loader.resources, hashResourceKey(words...), func() (*http.Client, func() error, error) {
		guard := r.loader.opts.Policy.Guard(r.src.name)
		prepare(guard)
		transport := guard.Transport()
		return &http.Client{Transport: tracingTransport{transport}}, func() error {
			transport.CloseIdleConnections()
			return nil
		}, nil
	})
	return client, end
}

// checkPolicy reports programs and addresses in a config that the host does not grant. If the
// caller supplies its own HTTP client, that client decides about addresses.
func (r *appLoad) checkPolicy(config any) spec.Diagnostics {
	var ds spec.Diagnostics
	if c, ok := config.(tool.ProgramConfig); ok {
		for _, asked := range c.Programs() {
			ds = append(ds, r.checkOneProgram(asked)...)
		}
	}
	if c, ok := config.(tool.SamplingConfig); ok && c.Sampling() != nil {
		ds = append(ds, policyDiagnostic(r.loader.opts.Policy.CheckSampling(r.src.name), c.Sampling().Text())...)
	}
	if c, ok := config.(tool.HostAccountConfig); ok {
		ds = append(ds, policyDiagnostic(r.loader.opts.Policy.CheckGoogleAccount(r.src.name), c.HostAccount())...)
	}
	for _, text := range configAddresses(config) {
		ds = append(ds, r.checkAddress(text.Value, text)...)
	}
	return ds
}

// checkEndpoint reports a model endpoint without a grant if the app chose the address
// or the key. The diagnostic is at the address, or at the model.
func (r *appLoad) checkEndpoint(e provider.Endpoint, at spec.Text) spec.Diagnostics {
	if e.OfHost {
		return nil
	}
	if e.At.Value != "" {
		at = e.At
	}
	return r.checkAddress(e.URL, at)
}

func (r *appLoad) checkAddress(address string, at spec.Text) spec.Diagnostics {
	if r.loader.opts.HTTP != nil {
		return nil
	}
	return policyDiagnostic(r.guard.Check(address), at)
}

func (r *appLoad) checkOneProgram(asked *tool.Program) spec.Diagnostics {
	ds := policyDiagnostic(r.loader.opts.Policy.CheckProgram(r.src.name, policy.Program{Args: asked.Args, Kinds: asked.Kinds, Env: asked.Env, Unconfined: asked.Unconfined}), asked.At)
	for i := range ds {
		if ds[i].Hint != "" && asked.Note != "" {
			ds[i].Hint = asked.Note + "; " + ds[i].Hint
		}
	}
	return ds
}

const traceparent = "Traceparent"

// A tracingTransport adds the current span to requests from models and tools (W3C Trace Context),
// so that their servers continue the trace. It does not forward the caller's baggage, because a
// server may be untrusted.
type tracingTransport struct{ base http.RoundTripper }

// RoundTrip sends one request. It keeps a traceparent header from the document.
func (t tracingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	header := http.Header{}
	propagation.TraceContext{}.Inject(req.Context(), propagation.HeaderCarrier(header))
	if span := header.Get(traceparent); span != "" && req.Header.Get(traceparent) == "" {
		req = req.Clone(req.Context())
		req.Header.Set(traceparent, span)
	}
	return t.base.RoundTrip(req)
}
