package evalfile

import (
	"cmp"
	"slices"

	"agenthost/pkg/spec"
	"agenthost/wing/evaluation/eval"
)

// A File is a validated eval file.
type File struct {
	*eval.Set
	// Config has the file's metrics and simulated user. Its criteria are nil if the file has
	// no metrics; it is nil if the file has neither.
	Config *eval.Config
	// Models are the model names for judges and the simulated user, with their places.
	Models []spec.Text
}

// Names are the names that an app's eval files may refer to.
type Names struct {
	// Tools are the tools that agents may call; nil means that names are not checked.
	Tools []string
	// Metrics are the Go program's custom metrics.
	Metrics []string
	// Config is the test_config.json next to the file; nil for the default one.
	Config *eval.Config
	// State has sample values for the typed state keys; nil means no typed keys.
	State map[string]any
}

// MergeConfigs returns a set's config from its own, which eval files have, and from its
// folder's. Either may be nil.
func MergeConfigs(own, folder *eval.Config) *eval.Config {
	if own != nil && own.Criteria != nil {
		return own
	}
	merged := eval.Config{}
	if folder != nil {
		merged = *folder
	}
	if merged.Criteria == nil {
		merged.Criteria = eval.DefaultConfig().Criteria
	}
	if own != nil {
		merged.Simulator, merged.Live = own.Simulator, cmp.Or(own.Live, merged.Live)
	}
	return &merged
}

// A decoder collects what the parts of an eval file declare, and their problems.
type decoder struct {
	names       *Names
	seenCases   map[string]spec.Pos
	diagnostics spec.Diagnostics
	// models are the models for judges and the simulated user.
	models []spec.Text
	// shared are the file's rubrics.
	shared []*eval.Rubric
	// judgesAll reports whether a metric scores turns without expectations.
	judgesAll bool
	// stubs are the file's, and then each case's.
	stubs []*stubLevel
}

func (d *decoder) addDiagnostics(ds ...spec.Diagnostic) { d.diagnostics = append(d.diagnostics, ds...) }

func (d *decoder) checkTool(name spec.Text) {
	if d.names.Tools == nil || name.Value == "" || slices.Contains(d.names.Tools, name.Value) {
		return
	}
	problem := name.Errorf(0, "unknown-name", "the app has no tool %s", name.Value)
	if near := spec.Suggest(name.Value, d.names.Tools); near != "" {
		problem = problem.WithNearName(name.Value, near)
	}
	d.addDiagnostics(problem)
}

func listItems(n *spec.Node) []*spec.Node {
	if n == nil {
		return nil
	}
	return n.Items
}

func entriesOf(n *spec.Node) []spec.Entry {
	if n == nil {
		return nil
	}
	return n.Entries
}

// expectsSomething reports whether a case has anything that a metric compares or judges.
func expectsSomething(c *eval.Case) bool {
	return len(c.Rubrics) > 0 || len(c.FinalState) > 0 || c.FinalStateMatch != "" || slices.ContainsFunc(c.Conversation, func(t *eval.Invocation) bool {
		return t.FinalResponse != nil || len(t.Rubrics) > 0 || t.Intermediate != nil
	})
}
