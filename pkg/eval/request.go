package eval

import (
	"fmt"
	"slices"
	"strings"

	"agenthost/internal/adkjson"
	"agenthost/pkg/spec"
)

// A RunRequest selects the cases of a set to run on an app, and the metrics that score them.
type RunRequest struct {
	App string
	Set *Set
	// Config has the criteria and the simulated user of the set; nil for the defaults.
	Config *Config
	// CaseIDs select cases; empty for all.
	CaseIDs []string
	// Measures are the metrics; empty for those of the config. A measure without a criterion
	// has that of the config, or else a default one.
	Measures []*Measure
	// Simulator replaces that of the config; nil keeps it.
	Simulator *SimulatorConfig
}

// RunProgress is a step of a run: its start, or a case that ended.
type RunProgress struct {
	// ResultID is the ID of the result, which is stored when the run ends.
	ResultID string
	// Total is the number of cases that the run has.
	Total int
	// Result is that of the case; nil at the start.
	Result *CaseResult
}

// An UnknownNameError reports a case, metric or model that does not exist.
type UnknownNameError struct {
	// Kind is that of the name, such as "case".
	Kind, Name string
	// Known are the existing names.
	Known []string
}

// maxKnownNames limits the names in an error.
const maxKnownNames = 30

// Error suggests the most similar name, or else lists all of them.
func (e *UnknownNameError) Error() string {
	known := slices.Compact(slices.Sorted(slices.Values(e.Known)))
	text := fmt.Sprintf("unknown %s %q: ", e.Kind, e.Name)
	switch near := spec.Suggest(e.Name, known); {
	case near != "":
		return text + fmt.Sprintf("did you mean %q?", near)
	case len(known) == 0:
		return text + "there is none"
	case len(known) > maxKnownNames:
		return text + fmt.Sprintf("the names are %s and %d more", strings.Join(known[:maxKnownNames], ", "), len(known)-maxKnownNames)
	default:
		return text + "the names are " + strings.Join(known, ", ")
	}
}

// validateFields rejects a criterion that would call a judge too often.
func (m *Measure) validateFields() *adkjson.Error {
	if m.Criterion == nil {
		return nil
	}
	r := newDecoder(nil, true)
	m.Criterion.checkLimits(r)
	if r.Err != nil {
		r.Err.Path = append([]any{"criterion"}, r.Err.Path...)
	}
	return r.Err
}
