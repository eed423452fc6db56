package policy

import (
	"reflect"
	"slices"
	"strings"

	"agenthost/pkg/spec"
)

// fileConfig is policy.yaml.
type fileConfig struct {
	Grants []grantConfig `yaml:"grants" doc:"The permissions of apps: variables, secrets, addresses and programs."`
}

type grantConfig struct {
	Apps      []string       `yaml:"apps" doc:"The apps that the grant is for, by name; default: all apps."`
	Network   []spec.Text    `yaml:"network" doc:"The addresses that tools and models may reach: a host name, a pattern such as *.example.com, an address or a range such as 10.0.0.0/8, each optionally with :PORT; * matches every public address."`
	Variables []spec.Text    `yaml:"variables" doc:"The variables of the host's environment that the app may read, by name; a trailing * matches any suffix."`
	Secrets   []spec.Text    `yaml:"secrets" doc:"The shared secrets that the app may use: files in the folder of --secrets and variables, by name; a trailing * matches any suffix."`
	Commands  [][]spec.Text  `yaml:"commands" doc:"The programs that tools may run, each with its arguments; * is any one argument that is not an option, ... at the end is any further arguments."`
	Env       []string       `yaml:"env" doc:"The variables that an app may set for the commands."`
	Skills    []skillConfig  `yaml:"skills" doc:"The app skills whose scripts may run, by folder and content hash."`
	Sampling  bool           `yaml:"sampling" doc:"Whether the apps' MCP servers may use their agents' models."`
	Google    bool           `yaml:"google_account" doc:"Whether the apps' connections may use the host's Google account (application default credentials)."`
	Register  bool           `yaml:"register_clients" doc:"Whether the apps' connections may register clients at the authorization servers that they discover."`
	Sandbox   *sandboxConfig `yaml:"sandbox" doc:"Limits on the commands, by Landlock and seccomp (Linux 6.12); without it, they have the host's permissions."`
}

// Decode decodes a policy file. It reports all problems.
func Decode(n *spec.Node) (*Policy, spec.Diagnostics) {
	var c fileConfig
	p := &Policy{file: n.Pos.File}
	if n.IsNull() {
		return p, nil
	}
	ds := spec.Decode(n, &c)
	for i, g := range c.Grants {
		ds = append(ds, g.validateGrant(n.Get("grants").Items[i])...)
		decoded := grant{apps: g.Apps, commands: g.commandArgs(), env: g.Env, skills: g.Skills, sampling: g.Sampling, google: g.Google, registration: g.Register}
		if limits := n.Get("grants").Items[i].Get("sandbox"); g.Sandbox != nil && limits != nil && limits.Kind == spec.Mapping {
			ds = append(ds, g.Sandbox.validateSandbox(limits)...)
			decoded.sandbox = g.Sandbox.decodeSandbox(limits)
		}
		for _, text := range g.Network {
			t, ok := parseTarget(text.Value)
			if !ok {
				ds = append(ds, text.Errorf(0, "grant", "%q is not an address, a range or a host name", text.Value).
					WithHint("write crm.internal, *.example.com, 10.0.0.5, 10.0.0.0/8, or one of them with :PORT; [fd00::1]:443 for IPv6; * for every public address"))
				continue
			}
			decoded.targets = append(decoded.targets, t)
		}
		var more spec.Diagnostics
		decoded.variables, more = parsePatterns(g.Variables)
		ds = append(ds, more...)
		decoded.secrets, more = parsePatterns(g.Secrets)
		ds = append(ds, more...)
		p.grants = append(p.grants, decoded)
	}
	ds.Sort()
	return p, ds
}

// grantKeys are the keys that grant something.
func grantKeys() []string {
	return []string{"network", "variables", "secrets", "commands", "skills", "sampling", "google_account", "register_clients"}
}

// validateGrant reports grants without effect.
func (g *grantConfig) validateGrant(n *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	if n.Kind != spec.Mapping {
		return nil // already reported by spec.Decode
	}
	if !slices.ContainsFunc(grantKeys(), func(key string) bool { return n.Get(key) != nil }) {
		last := len(grantKeys()) - 1
		ds = append(ds, n.Errorf("required", "a grant requires %s or %s", strings.Join(grantKeys()[:last], ", "), grantKeys()[last]))
	}
	if apps := n.Get("apps"); apps != nil && apps.Kind == spec.Sequence && len(apps.Items) == 0 {
		ds = append(ds, apps.Errorf("grant", "apps is empty; list the apps, or omit the key for all apps"))
	}
	if commands := n.Get("commands"); commands != nil {
		for _, c := range commands.Items {
			if c.Kind == spec.Sequence && len(c.Items) == 0 {
				ds = append(ds, c.Errorf("grant", "a command requires a program, such as [npx, -y, server]"))
			}
			ds = append(ds, checkCommand(c)...)
		}
	}
	if limits := n.Get("sandbox"); limits != nil && n.Get("commands") == nil && n.Get("skills") == nil {
		ds = append(ds, limits.Errorf("grant", "sandbox requires commands or skills"))
	}
	if env := n.Get("env"); env != nil && n.Get("commands") == nil {
		ds = append(ds, env.Errorf("grant", "env requires commands").
			WithHint("use variables: to allow the app to read variables of the host"))
	}
	return ds
}

// checkCommand reports a pattern in a place where it would match too much, or nothing.
func checkCommand(c *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	for i, arg := range c.Items {
		switch {
		case i == 0 && (arg.Value == anyArg || arg.Value == furtherArgs):
			ds = append(ds, arg.Errorf("grant", "the program of a command cannot be a pattern, got %q", arg.Value))
		case arg.Value == furtherArgs && i < len(c.Items)-1:
			ds = append(ds, arg.Errorf("grant", "%s must be the last argument of a command", furtherArgs))
		}
	}
	return ds
}

func (g *grantConfig) commandArgs() [][]string {
	var all [][]string
	for _, c := range g.Commands {
		args := make([]string, len(c))
		for i, arg := range c {
			args[i] = arg.Value
		}
		all = append(all, args)
	}
	return all
}

// Schema returns policy.yaml's JSON Schema, for editors.
func Schema() map[string]any {
	var set spec.SchemaSet
	return set.Document(set.Object(reflect.TypeFor[fileConfig]()))
}

// Reference returns policy.yaml's reference page.
func Reference() string {
	return spec.Reference("The policy", "The permissions that the host grants to apps.", reflect.TypeFor[fileConfig]())
}
