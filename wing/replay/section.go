package replay

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"agenthost/pkg/loader"
	"agenthost/pkg/spec"
)

// sectionKey is the key in app.yaml, and the rule that its problems name.
const sectionKey = "replay"

// Section returns the kind of replay in app.yaml.
func Section() spec.Kind[loader.SectionEnv, any] {
	return spec.NewKind(sectionKey, "Which stored sessions a replay runs on a change, and what it ignores. See [replay.md](replay.md).",
		func(_ context.Context, _ loader.SectionEnv, c *sectionConfig) (any, error) {
			return c.buildRules(), nil
		})
}

// sectionConfig is replay.
type sectionConfig struct {
	Since  spec.Duration      `yaml:"since" default:"7d" doc:"How long ago the last event of a session may be, at most 365d."`
	Sample int                `yaml:"sample" default:"200" doc:"How many sessions are replayed at most, 1 to 10000. One of each kind comes first: the same revision, agents, tool errors, approvals and failures."`
	Ignore []spec.Text        `yaml:"ignore" doc:"What is not compared, at most 100: args.request_id is an argument of all tools, state.last_seen a state key."`
	Allow  map[string]float64 `yaml:"allow" doc:"For the gate replay: the share of sessions, 0 to 1, that may differ in this way: error, approval, tool, arguments, result, agent, state, text. Default: text may differ in all sessions, nothing else in any."`
}

// Limits for replay.
const (
	MaxSince  = 365 * 24 * time.Hour
	MaxSample = 10_000
	maxIgnore = 100
)

// A Class is how a replayed turn differs first.
type Class string

// The classes, worst first.
const (
	// ClassError is a turn that fails, or that calls a model more often than the record.
	ClassError Class = "error"
	// ClassApproval is an approval that is new or missing.
	ClassApproval Class = "approval"
	// ClassTool is another tool call, or none.
	ClassTool Class = "tool"
	// ClassArguments are other arguments for the same tool.
	ClassArguments Class = "arguments"
	// ClassResult is another result from a tool that ran.
	ClassResult Class = "result"
	// ClassAgent is another agent.
	ClassAgent Class = "agent"
	// ClassState is another write to the state.
	ClassState Class = "state"
	// ClassText is another text.
	ClassText Class = "text"
)

var classes = []Class{ClassError, ClassApproval, ClassTool, ClassArguments, ClassResult, ClassAgent, ClassState, ClassText}

// Rules are an app's replay in app.yaml.
type Rules struct {
	Since  time.Duration
	Sample int
	// IgnoredArgs and IgnoredState are not compared.
	IgnoredArgs, IgnoredState []string
	// Allow is the share of sessions by class that the gate lets differ.
	Allow map[Class]float64
}

// defaultRules returns the rules without the section.
func defaultRules() *Rules {
	return &Rules{Since: 7 * 24 * time.Hour, Sample: 200, Allow: map[Class]float64{ClassText: 1}}
}

// Check reports values that are not in their range or form, at their position in n, the mapping
// that the config was decoded from.
func (c *sectionConfig) Check(n *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	if since := time.Duration(c.Since); since <= 0 || since > MaxSince {
		ds = append(ds, n.Get("since").Errorf(sectionKey, "since must be above 0 and at most 365d, got %s", since))
	}
	if c.Sample < 1 || c.Sample > MaxSample {
		ds = append(ds, n.Get("sample").Errorf(sectionKey, "sample must be from 1 to %d, got %d", MaxSample, c.Sample))
	}
	if len(c.Ignore) > maxIgnore {
		ds = append(ds, n.Get("ignore").Errorf(sectionKey, "ignore exceeds the limit of %d, got %d", maxIgnore, len(c.Ignore)))
	}
	for i, path := range c.Ignore {
		kind, name, _ := strings.Cut(path.Value, ".")
		if name == "" || kind != "args" && kind != "state" {
			ds = append(ds, n.Get("ignore").Items[i].Errorf(sectionKey, "ignore must name args.NAME or state.KEY, got %q", path.Value))
		}
	}
	if allow := n.Get("allow"); allow != nil {
		for _, e := range allow.Entries {
			if !slices.Contains(classes, Class(e.Key.Value)) {
				ds = append(ds, e.Key.Errorf(sectionKey, "unknown class %q in allow", e.Key.Value).WithHint("classes are %s", joinClasses()))
			} else if share := c.Allow[e.Key.Value]; !(share >= 0 && share <= 1) {
				ds = append(ds, e.Value.Errorf(sectionKey, "allow.%s must be from 0 to 1, got %v", e.Key.Value, share).WithHint("write 0.05 for 5 %%"))
			}
		}
	}
	return ds
}

// buildRules returns the rules of a config that was checked.
func (c *sectionConfig) buildRules() *Rules {
	r := defaultRules()
	r.Since, r.Sample = time.Duration(c.Since), c.Sample
	for _, path := range c.Ignore {
		if key, isState := strings.CutPrefix(path.Value, "state."); isState {
			r.IgnoredState = append(r.IgnoredState, key)
		} else {
			r.IgnoredArgs = append(r.IgnoredArgs, strings.TrimPrefix(path.Value, "args."))
		}
	}
	for class, share := range c.Allow {
		r.Allow[Class(class)] = share
	}
	return r
}

// rulesOf returns the rules of an app's sections.
func rulesOf(section any) *Rules {
	if r, ok := section.(*Rules); ok {
		return r
	}
	return defaultRules()
}

func joinClasses() string {
	var names []string
	for _, c := range classes {
		names = append(names, string(c))
	}
	return fmt.Sprintf("%s and %s", strings.Join(names[:len(names)-1], ", "), names[len(names)-1])
}
