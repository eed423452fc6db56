package loader

import (
	"errors"
	"net/http"

	"agenthost/pkg/policy"
	"agenthost/pkg/spec"
)

// baseURLs are the variables that name where models are.
func baseURLs() []string {
	return []string{"GOOGLE_GEMINI_BASE_URL", "GOOGLE_VERTEX_BASE_URL", "OPENAI_BASE_URL"}
}

// guardHTTP gives the app a client that reaches what the host lets it reach.
// What the host's own environment names it may reach; what the app's .env names
// counts as named by its documents.
func (j *job) guardHTTP() {
	j.guard = j.loader.opts.Policy.Guard(j.src.name)
	j.http = j.loader.opts.HTTP
	if j.http != nil {
		return
	}
	for _, name := range baseURLs() {
		if address, ok := j.loader.opts.Env(name); ok {
			j.guard.Trust(address)
		} else if address, ok := j.src.dotenv[name]; ok {
			_ = j.guard.Check(address) // what is refused is told when it is asked for
		}
	}
	transport := j.guard.Transport()
	j.http = &http.Client{Transport: transport}
	j.closers = append(j.closers, func() error {
		transport.CloseIdleConnections()
		return nil
	})
}

// checkReach refuses the addresses of a config that the host does not let the
// app reach. A caller's own client decides by itself.
func (j *job) checkReach(config any) spec.Diagnostics {
	c, ok := config.(interface{ Addresses() []spec.Text })
	if !ok || j.loader.opts.HTTP != nil {
		return nil
	}
	var ds spec.Diagnostics
	for _, text := range c.Addresses() {
		refused := (*policy.Refused)(nil)
		if errors.As(j.guard.Check(text.Value), &refused) {
			ds = append(ds, text.Errorf(0, "grant", "%s is a private address, which the host does not let app %s reach", refused.Target, refused.App).
				WithHint("the host's policy.yaml grants it with this line under grants: %s", refused.Line()))
		}
	}
	return ds
}
