package evalfile

import (
	"encoding/json"
	"slices"
	"strings"

	"agenthost/internal/toolstub"
	"agenthost/pkg/spec"
	"agenthost/wing/evaluation/eval"
)

// The keys for stubs. In the JSON of sets and cases, ADK ignores them.
const (
	toolsKey      = "tools"
	simulationKey = "simulation"
)

// stubsConfig has the stubs for a file or a case.
type stubsConfig struct {
	Tools      map[string]toolstub.Config `yaml:"tools" doc:"Stubs by tool name: one response or a list. Case stubs come before file stubs. Other calls run the tool."`
	Simulation *simulationConfig          `yaml:"simulation" doc:"How a model writes the responses for stubs with simulate: true."`
}

// simulationConfig configures responses by a model.
type simulationConfig struct {
	Model                     string `yaml:"model" doc:"A model in the app, or another by its name. Default: the --judge model."`
	toolstub.SimulationConfig `yaml:",inline"`
}

// Stubs are a case's stubs.
type Stubs struct {
	*toolstub.Set
	// Model simulates tools; empty for the default.
	Model string
}

// StubsOf returns the stubs for the cases that have any, their own before the set's.
func StubsOf(set *eval.Set) (map[*eval.Case]*Stubs, spec.Diagnostics) {
	r := &stubReader{file: set.ID, names: &Names{}}
	own := r.readSet(set)
	all := map[*eval.Case]*Stubs{}
	for i, c := range set.Cases {
		merged := own[i+1].Merge(own[0].Set)
		if len(merged.Tools()) > 0 {
			all[c] = &Stubs{merged, own[0].Model}
			if own[i+1].config != nil {
				all[c].Model = own[i+1].Model
			}
		}
	}
	return all, r.diagnostics
}

// A stubReader reads a set's stubs, which are keys in its JSON.
type stubReader struct {
	file string
	// places finds members in the file; nil if places do not matter.
	places      *eval.Locator
	names       *Names
	diagnostics spec.Diagnostics
}

// stubLevel has the stubs in a set or a case.
type stubLevel struct {
	Stubs
	config     *simulationConfig
	simulation *spec.Node
}

// readSet returns a set's stubs, and then each case's.
func (r *stubReader) readSet(set *eval.Set) []*stubLevel {
	levels := []*stubLevel{r.readLevel(set.Extra)}
	for i, c := range set.Cases {
		levels = append(levels, r.readLevel(c.Extra, "eval_cases", i))
	}
	r.diagnostics = append(r.diagnostics, checkSimulations(levels, r.names)...)
	r.diagnostics.Sort()
	return levels
}

func (r *stubReader) readLevel(extra eval.Extra, path ...any) *stubLevel {
	var c stubsConfig
	tools := r.parseKey(extra, toolsKey, &c.Tools, path)
	simulation := r.parseKey(extra, simulationKey, &c.Simulation, path)
	level, ds := buildLevel(tools, simulation, &c, r.names)
	r.diagnostics = append(r.diagnostics, ds...)
	return level
}

// parseKey decodes a key's value, and returns its node, at its place in the file.
func (r *stubReader) parseKey(extra eval.Extra, key string, dst any, path []any) *spec.Node {
	raw, ok := extra[key]
	if !ok {
		return nil
	}
	member, at := []byte(`"`+key+`": `+string(raw)), spec.Pos{File: r.file, Line: 1, Col: 2}
	if r.places != nil {
		member, at = r.places.Member(append(slices.Clone(path), key)...)
	}
	at.Col-- // of the brace
	object, ds := spec.ParseAt(at, []byte("{"+jsonToYAML().Replace(string(member))+"}"))
	n := object.Get(key)
	if n != nil {
		ds = append(ds, spec.Decode(n, dst)...)
	}
	r.diagnostics = append(r.diagnostics, ds...)
	return n
}

// jsonToYAML replaces what YAML reads otherwise than JSON: tabs and carriage returns, which
// strings in JSON do not have, and Unicode line breaks, which only strings have.
func jsonToYAML() *strings.Replacer {
	return strings.NewReplacer("\t", " ", "\r", " ", "\u0085", `\u0085`, "\u2028", `\u2028`, "\u2029", `\u2029`)
}

// buildLevel compiles the stubs in a file or a case.
func buildLevel(tools, simulation *spec.Node, c *stubsConfig, names *Names) (*stubLevel, spec.Diagnostics) {
	set, ds := toolstub.Build(tools, c.Tools, names.Tools)
	level := &stubLevel{Stubs: Stubs{Set: set}, config: c.Simulation, simulation: simulation}
	if c.Simulation != nil {
		level.Set, level.Model = set.WithSimulation(&c.Simulation.SimulationConfig), c.Simulation.Model
	}
	return level, ds
}

// checkSimulations checks the simulations in a set and its cases, in this order.
func checkSimulations(levels []*stubLevel, names *Names) spec.Diagnostics {
	var ds spec.Diagnostics
	for i, level := range levels {
		if level.config == nil {
			continue
		}
		users := []*toolstub.Set{level.Set, levels[0].Set}
		for _, other := range levels[1:] {
			if i == 0 && other.config == nil {
				users = append(users, other.Set)
			}
		}
		ds = append(ds, toolstub.CheckSimulation(level.simulation, &level.config.SimulationConfig, names.Tools, users...)...)
	}
	return ds
}

// addStubs decodes a file's or case's stubs, which its JSON keeps.
func (d *decoder) addStubs(n *spec.Node, c *stubsConfig, extra *eval.Extra) {
	level, ds := buildLevel(n.Get(toolsKey), n.Get(simulationKey), c, d.names)
	d.addDiagnostics(ds...)
	d.stubs = append(d.stubs, level)
	for _, key := range []string{toolsKey, simulationKey} {
		at := n.Get(key)
		if at == nil {
			continue
		}
		raw, err := json.Marshal(at.Any())
		if err != nil {
			d.addDiagnostics(at.Errorf("eval", "%s has a value without a JSON form: %v", key, err))
			continue
		}
		if *extra == nil {
			*extra = eval.Extra{}
		}
		(*extra)[key] = raw
	}
}
