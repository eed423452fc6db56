package policy

import (
	"fmt"
	"net/netip"
	"slices"
)

// A Policy decides what apps may do. It is immutable and safe for concurrent use. The
// zero Policy grants nothing. A nil Policy is for a developer's own machine: there is
// no policy file, and only local clients can reach the host.
type Policy struct {
	grants []grant
	// file is the policy file's path, for hints.
	file string
	// withoutFile reports that there is no policy file.
	withoutFile bool
	host        Host
}

// A Host describes the process that a policy is for.
type Host struct {
	// Shared is set if other machines can reach the host, or if it authenticates
	// callers. The environment, shared secrets and loopback addresses then require
	// grants even without a policy file.
	Shared bool
	// Listeners are the addresses that the process listens on, and Names its public
	// host names. Apps may not reach them without an explicit grant.
	Listeners []netip.AddrPort
	Names     []string
	// Variables are the names of further variables and secrets that configure the
	// host, and Values are its secret values. No app may read them, granted or not.
	Variables, Values []string
}

type grant struct {
	apps      []string
	targets   []target
	variables []string
	secrets   []string
	commands  [][]string
	env       []string
	skills    []skillConfig
	sampling  bool
	google    bool
	// registration is whether connections may register clients.
	registration bool
	sandbox      *Sandbox
}

// skillConfig is a grant's skill.
type skillConfig struct {
	Folder string `yaml:"folder" required:"true" doc:"The folder of the skill in the app, such as skills/pdf."`
	SHA256 string `yaml:"sha256" required:"true" doc:"The hash of its files, as shown in the error for a script without a grant."`
}

// For returns the policy for a host. It may be called on a nil Policy.
func (p *Policy) For(h Host) *Policy {
	if p == nil {
		return &Policy{withoutFile: true, host: h}
	}
	bound := *p
	bound.host = h
	return &bound
}

// hasPolicyFile reports whether there is a policy file.
func (p *Policy) hasPolicyFile() bool { return p != nil && !p.withoutFile }

// isOwnMachine reports whether the host is a developer's own machine.
func (p *Policy) isOwnMachine() bool { return p == nil || p.withoutFile && !p.host.Shared }

// hasMatchingGrant reports whether one of an app's grants matches.
func (p *Policy) hasMatchingGrant(app string, matches func(g *grant) bool) bool {
	return p != nil && slices.ContainsFunc(p.grants, func(g grant) bool { return g.appliesToApp(app) && matches(&g) })
}

func (g *grant) appliesToApp(app string) bool {
	return len(g.apps) == 0 || slices.Contains(g.apps, app)
}

// CheckSampling reports whether an app's MCP servers may use its models. The error is a [*Refused].
func (p *Policy) CheckSampling(app string) error {
	if p.isOwnMachine() || p.hasMatchingGrant(app, func(g *grant) bool { return g.sampling }) {
		return nil
	}
	return p.newRefused(app, "let MCP servers use its models", "", "sampling: true")
}

// CheckGoogleAccount reports whether an app's connections may use the host's Google account. The
// error is a [*Refused].
func (p *Policy) CheckGoogleAccount(app string) error {
	if p.isOwnMachine() || p.hasMatchingGrant(app, func(g *grant) bool { return g.google }) {
		return nil
	}
	return p.newRefused(app, "use the Google account of the host", "", "google_account: true")
}

// CheckRegistration reports whether an app's connections may register clients at authorization
// servers. The error is a [*Refused].
func (p *Policy) CheckRegistration(app string) error {
	if p.isOwnMachine() || p.hasMatchingGrant(app, func(g *grant) bool { return g.registration }) {
		return nil
	}
	return p.newRefused(app, "register clients", "", "register_clients: true")
}

// newRefused returns a Refused; grant is what its line has after the app.
func (p *Policy) newRefused(app, action, reason, grant string) *Refused {
	e := &Refused{App: app, Action: action, Reason: reason}
	if grant != "" {
		e.Line = fmt.Sprintf("- {apps: [%s], %s}", app, grant)
	}
	if p.hasPolicyFile() {
		e.file = p.file
	}
	return e
}
