package loader

import (
	"errors"
	"net/http"
	"strings"

	"agenthost/pkg/policy"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// baseURLs are the variables that name where models are.
func baseURLs() []string {
	return []string{"GOOGLE_GEMINI_BASE_URL", "GOOGLE_VERTEX_BASE_URL", "OPENAI_BASE_URL"}
}

// trust lets the app reach what the host's own environment names. What the
// app's .env names counts as named by its documents.
func (j *job) trust(guard *policy.Guard) {
	for _, name := range baseURLs() {
		if address, ok := j.loader.opts.Env(name); ok {
			guard.Trust(address)
		} else if address, ok := j.src.dotenv[name]; ok {
			_ = guard.Check(address) // what is refused is told when it is asked for
		}
	}
}

// addressesOf are those that a config names.
func addressesOf(config any) []spec.Text {
	if c, ok := config.(interface{ Addresses() []spec.Text }); ok {
		return c.Addresses()
	}
	return nil
}

// client is one for a tool or a model: it reaches what the host lets the app
// reach, and what the config itself names. Those that name the same share their
// connections, also with other revisions.
func (j *job) client(config any) (*http.Client, func() error) {
	if j.loader.opts.HTTP != nil {
		return j.loader.opts.HTTP, func() error { return nil }
	}
	addresses := addressesOf(config)
	words := []string{"client", j.src.name}
	for _, name := range baseURLs() {
		address, _ := j.src.peek(name)
		words = append(words, address)
	}
	for _, text := range addresses {
		words = append(words, text.Value)
	}
	client, end, _ := borrow(j.loader.resources, resourceKeyOf(words...), func() (*http.Client, func() error, error) {
		guard := j.loader.opts.Policy.Guard(j.src.name)
		j.trust(guard)
		for _, text := range addresses {
			_ = guard.Check(text.Value) // what is refused was told when it was decoded
		}
		transport := guard.Transport()
		return &http.Client{Transport: tracing{transport}}, func() error {
			transport.CloseIdleConnections()
			return nil
		}, nil
	})
	return client, end
}

// checkReach refuses the programs of a config that the host does not let the app
// run, and the addresses that it does not let it reach. Of addresses, a caller's
// own client decides by itself.
func (j *job) checkReach(config any) spec.Diagnostics {
	ds := j.checkProgram(config)
	if j.loader.opts.HTTP != nil {
		return ds
	}
	for _, text := range addressesOf(config) {
		refused := (*policy.Refused)(nil)
		if errors.As(j.guard.Check(text.Value), &refused) {
			ds = append(ds, text.Errorf(0, "grant", "%s is a private address, which the host does not let app %s reach", refused.Target, refused.App).
				WithHint("the host's policy.yaml grants it with this line under grants: %s", refused.Line()))
		}
	}
	return ds
}

func (j *job) checkProgram(config any) spec.Diagnostics {
	c, ok := config.(interface{ Program() *tool.Program })
	if !ok || c.Program() == nil {
		return nil
	}
	asked := c.Program()
	refused := (*policy.RefusedProgram)(nil)
	if !errors.As(j.loader.opts.Policy.CheckProgram(j.src.name, asked.Program), &refused) {
		return nil
	}
	return spec.Diagnostics{asked.At.Errorf(0, "grant", "the host does not let app %s run %s", refused.App, strings.Join(asked.Args, " ")).
		WithHint("the host's policy.yaml grants it with this line under grants: %s", refused.Line())}
}
