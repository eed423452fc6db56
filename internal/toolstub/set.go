package toolstub

import (
	"maps"
	"regexp"
	"slices"

	"agenthost/pkg/spec"
)

// stub is one tool response, at its position in the document.
type stub struct {
	stubConfig
	pos      spec.Pos
	patterns map[string]*regexp.Regexp
}

// A Set has the stubs for a test, a case or an eval set. It is immutable, and nil is a set
// without stubs.
type Set struct {
	tools      map[string][]*stub
	simulation *SimulationConfig
}

// Build returns the stubs in the mapping n. It reports tools that are not in the name list; a
// nil list has all tools.
func Build(n *spec.Node, tools map[string]Config, names []string) (*Set, spec.Diagnostics) {
	s := &Set{tools: map[string][]*stub{}}
	var ds spec.Diagnostics
	for _, e := range entriesOf(n) {
		if c, ok := tools[e.Key.Value]; ok {
			s.tools[e.Key.Value] = c.stubs
			ds = append(ds, checkToolName(e.Key, names)...)
		}
	}
	return s, ds
}

// WithSimulation returns the set with its simulation's settings; c may be nil.
func (s *Set) WithSimulation(c *SimulationConfig) *Set {
	if s == nil {
		s = &Set{}
	}
	return &Set{tools: s.tools, simulation: c}
}

// Merge returns the stubs from both sets. Those from s come first, and its simulation
// replaces that of outer.
func (s *Set) Merge(outer *Set) *Set {
	if s == nil || outer == nil {
		if s == nil {
			return outer
		}
		return s
	}
	merged := &Set{tools: maps.Clone(outer.tools), simulation: s.simulation}
	if merged.tools == nil {
		merged.tools = map[string][]*stub{}
	}
	if merged.simulation == nil {
		merged.simulation = outer.simulation
	}
	for name, own := range s.tools {
		merged.tools[name] = append(slices.Clip(own), outer.tools[name]...)
	}
	return merged
}

// Simulates reports whether a model writes responses.
func (s *Set) Simulates() bool {
	if s == nil {
		return false
	}
	for _, stubs := range s.tools {
		if slices.ContainsFunc(stubs, func(s *stub) bool { return s.Simulate }) {
			return true
		}
	}
	return false
}

// Tools returns the names of tools with stubs, sorted.
func (s *Set) Tools() []string {
	if s == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(s.tools))
}
