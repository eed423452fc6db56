package toolstub

import (
	"maps"
	"regexp"
	"slices"
	"time"

	"agenthost/pkg/spec"
)

const (
	// maxLatency is ADK's limit for injected_latency_seconds.
	maxLatency = 120 * time.Second
	// defaultModelCalls and maxModelCalls limit a simulation's model calls.
	defaultModelCalls, maxModelCalls = 100, 1000
	// maxDataBytes limits a simulation's data and traces, which each prompt contains.
	maxDataBytes = 256 << 10
)

// checkStub validates a stub and compiles its patterns.
func (s *stub) checkStub(n *spec.Node) spec.Diagnostics {
	if n.Kind != spec.Mapping {
		return nil
	}
	ds := checkAnswer(n)
	if times := n.Get("times"); times != nil && !times.IsNull() && s.Times < 1 {
		ds = append(ds, times.Errorf("value", "must be at least 1"))
	}
	if p := s.Probability; p != nil && !(*p >= 0 && *p <= 1) {
		ds = append(ds, n.Get("probability").Errorf("value", "must be between 0 and 1"))
	}
	if n.Get("seed") != nil && n.Get("probability") == nil {
		ds = append(ds, n.Get("seed").Errorf("stub", "seed requires probability"))
	}
	if d := time.Duration(s.Latency); d < 0 || d > maxLatency {
		ds = append(ds, n.Get("latency").Errorf("value", "must be between 0s and 2m"))
	}
	if e := s.Error; e != nil && e.Code != nil && (*e.Code < 100 || *e.Code > 599) {
		ds = append(ds, n.Get("error").Get("code").Errorf("value", "must be an HTTP status between 100 and 599"))
	}
	if s.Args != nil && s.MatchArgs != nil {
		ds = append(ds, n.Get("match_args").Errorf("stub", "args and match_args are mutually exclusive"))
	}
	return append(ds, s.compilePatterns(n.Get("patterns"))...)
}

// checkAnswer expects one key that answers a call.
func checkAnswer(n *spec.Node) spec.Diagnostics {
	var given []string
	for _, key := range []string{"return", "fail", "error", "simulate"} {
		if n.Get(key) != nil {
			given = append(given, key)
		}
	}
	fail, simulate := n.Get("fail"), n.Get("simulate")
	switch {
	case len(given) == 0:
		return spec.Diagnostics{n.Errorf("stub", "a stub requires return, fail, error or simulate")}
	case len(given) > 1:
		return spec.Diagnostics{n.Get(given[1]).Errorf("stub", "%s and %s are mutually exclusive", given[0], given[1])}
	case fail != nil && fail.Value == "":
		return spec.Diagnostics{fail.Errorf("stub", "fail requires an error message")}
	case simulate != nil && simulate.Any() == false:
		return spec.Diagnostics{simulate.Errorf("stub", "simulate must be true").WithHint("a tool without a stub runs itself")}
	case n.Get("error").IsNull() && n.Get("error") != nil:
		return spec.Diagnostics{n.Get("error").Errorf("stub", "error requires code and message")}
	}
	return nil
}

func (s *stub) compilePatterns(n *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	for _, name := range slices.Sorted(maps.Keys(s.Patterns)) {
		pattern, err := regexp.Compile(s.Patterns[name].Value)
		if err == nil {
			pattern, err = regexp.Compile(`^(?:` + pattern.String() + `)$`)
		}
		if err != nil {
			ds = append(ds, n.Get(name).Errorf("value", "the regular expression is invalid: %v", err))
			continue
		}
		if s.patterns == nil {
			s.patterns = map[string]*regexp.Regexp{}
		}
		s.patterns[name] = pattern
	}
	return ds
}

// CheckSeeds reports stubs that answer other calls each time. Tests reject them.
func (s *Set) CheckSeeds(n *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	for _, e := range entriesOf(n) {
		nodes := []*spec.Node{e.Value}
		if e.Value.Kind == spec.Sequence {
			nodes = e.Value.Items
		}
		for _, item := range nodes {
			if at := item.Get("probability"); at != nil && item.Get("seed") == nil {
				ds = append(ds, at.Errorf("stub", "probability requires seed in a test: a test has the same result each time").WithHint("add seed: 1"))
			}
		}
	}
	return ds
}

// CheckSimulation validates the simulation settings at n. It reports a simulation that no
// stub in the sets uses.
func CheckSimulation(n *spec.Node, c *SimulationConfig, tools []string, sets ...*Set) spec.Diagnostics {
	if n.Kind != spec.Mapping {
		return nil
	}
	var ds spec.Diagnostics
	if !slices.ContainsFunc(sets, (*Set).Simulates) {
		ds = append(ds, n.Errorf("stub", "simulation requires a stub with simulate: true").WithHint("tools: {NAME: {simulate: true}}"))
	}
	for _, key := range []string{"data", "traces"} {
		if at := n.Get(key); at != nil && len(formatData(at)) > maxDataBytes {
			ds = append(ds, at.Errorf("stub", "%s exceeds the limit of 256 KiB", key))
		}
	}
	if c.MaxCalls != nil && (*c.MaxCalls < 1 || *c.MaxCalls > maxModelCalls) {
		ds = append(ds, n.Get("max_model_calls").Errorf("value", "must be between 1 and %d", maxModelCalls))
	}
	for _, item := range itemsOf(n.Get("stateful_parameters")) {
		for _, key := range []string{"creating_tools", "consuming_tools"} {
			for _, name := range itemsOf(item.Get(key)) {
				ds = append(ds, checkToolName(name, tools)...)
			}
		}
	}
	return ds
}

// checkToolName reports a tool that is not in the list; a nil list has all tools.
func checkToolName(at *spec.Node, tools []string) spec.Diagnostics {
	if tools == nil || slices.Contains(tools, at.Value) {
		return nil
	}
	problem := at.Errorf("unknown-name", "the app has no tool %s", at.Value)
	if near := spec.Suggest(at.Value, tools); near != "" {
		problem = problem.WithNearName(at.Value, near)
	}
	return spec.Diagnostics{problem}
}

func entriesOf(n *spec.Node) []spec.Entry {
	if n == nil {
		return nil
	}
	return n.Entries
}

func itemsOf(n *spec.Node) []*spec.Node {
	if n == nil {
		return nil
	}
	return n.Items
}
