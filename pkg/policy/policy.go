package policy

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"agenthost/pkg/spec"
)

// fileConfig is policy.yaml.
type fileConfig struct {
	Grants []grantConfig `yaml:"grants" doc:"What apps may do that reaches into the host and its network."`
}

type grantConfig struct {
	Apps     []string      `yaml:"apps" doc:"The apps that the grant is for, by name; without it all."`
	Network  []spec.Text   `yaml:"network" doc:"The private addresses that tools and models may reach: an address, a range such as 10.0.0.0/8, or the name of a host, each also with :PORT."`
	Commands [][]spec.Text `yaml:"commands" doc:"The programs that tools may run, each with all of its arguments, as the app has them."`
	Env      []string      `yaml:"env" doc:"The variables that an app may set for the commands."`
}

// A Policy says what is granted. It does not change; many goroutines may use
// it. A nil Policy is that of a host without a policy file: it grants an app
// those loopback addresses that its own documents name.
type Policy struct {
	grants []grant
}

type grant struct {
	apps     []string
	targets  []target
	commands [][]string
	env      []string
}

// target is one entry of a network grant.
type target struct {
	prefix netip.Prefix // of an address or a range
	host   string       // else the name of a host
	port   string       // empty is any
}

// Decode reads a policy file, and reports every problem.
func Decode(n *spec.Node) (*Policy, spec.Diagnostics) {
	var c fileConfig
	p := &Policy{}
	if n.IsNull() {
		return p, nil
	}
	ds := spec.Decode(n, &c)
	for i, g := range c.Grants {
		ds = append(ds, g.check(n.Get("grants").Items[i])...)
		made := grant{apps: g.Apps, commands: g.commands(), env: g.Env}
		for _, text := range g.Network {
			t, ok := parseTarget(text.Value)
			if !ok {
				ds = append(ds, text.Errorf(0, "grant", "%q is no address, range or name of a host", text.Value).
					WithHint("write 10.0.0.5, 10.0.0.0/8, crm.internal, or one of them with :PORT; [fd00::1]:443 for IPv6"))
				continue
			}
			made.targets = append(made.targets, t)
		}
		p.grants = append(p.grants, made)
	}
	ds.Sort()
	return p, ds
}

// Schema is the JSON Schema of policy.yaml, for editors.
func Schema() map[string]any {
	var set spec.SchemaSet
	return set.Document(set.Object(reflect.TypeFor[fileConfig]()))
}

// Reference is the page of the fields of policy.yaml.
func Reference() string {
	return spec.Reference("The policy", "What the host grants to apps.", reflect.TypeFor[fileConfig]())
}

func parseTarget(text string) (target, bool) {
	if prefix, err := netip.ParsePrefix(text); err == nil {
		return target{prefix: prefix.Masked()}, true
	}
	host, port := cutPort(text)
	if strings.Trim(port, "0123456789") != "" {
		return target{}, false
	}
	if addr, ok := ParseAddr(host); ok {
		return target{prefix: netip.PrefixFrom(addr, addr.BitLen()), port: port}, true
	}
	if host == "" || strings.ContainsAny(host, "/*@ ?#[]:") {
		return target{}, false
	}
	return target{host: canonical(host), port: port}, true
}

func (g *grant) isFor(app string) bool { return len(g.apps) == 0 || slices.Contains(g.apps, app) }

// allows says whether an app may reach an address by the name of a host.
func (p *Policy) allows(app, host, port string, addr netip.Addr) bool {
	if p == nil {
		return false
	}
	return slices.ContainsFunc(p.grants, func(g grant) bool {
		return g.isFor(app) && slices.ContainsFunc(g.targets, func(t target) bool {
			return (t.port == "" || t.port == port) && (t.host == "" && t.prefix.Contains(addr) || t.host != "" && t.host == host)
		})
	})
}
