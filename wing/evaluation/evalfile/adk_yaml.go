package evalfile

import (
	"bytes"
	"encoding/json"

	"agenthost/pkg/spec"
)

// SetSuffix ends the names of files with an ADK eval set in YAML: they have the keys of its JSON.
const SetSuffix = ".evalset.yaml"

// YAMLSuffixes returns the suffixes for eval sets in YAML.
func YAMLSuffixes() []string { return []string{Suffix, SetSuffix} }

// A yamlText is a YAML file as JSON. Each key and value begins a line in the JSON, so that a
// problem's line corresponds to a place in the YAML.
type yamlText struct {
	json   bytes.Buffer
	places []spec.Pos // of the lines from the second on
	// problems are values that JSON does not have.
	problems spec.Diagnostics
}

// convertYAML returns a YAML file as JSON.
func convertYAML(file string, src []byte) (*yamlText, spec.Diagnostics) {
	n, ds := spec.Parse(file, src)
	if ds.HasErrors() {
		return nil, ds
	}
	if n == nil {
		return nil, spec.Diagnostics{{Pos: spec.Pos{File: file}, Rule: "eval-file", Message: "the file is empty"}}
	}
	t := &yamlText{}
	t.writeNode(n)
	return t, append(ds, t.problems...)
}

func (t *yamlText) beginLine(at spec.Pos) {
	t.json.WriteByte('\n')
	t.places = append(t.places, at)
}

func (t *yamlText) writeNode(n *spec.Node) {
	t.beginLine(n.Pos)
	switch n.Kind {
	case spec.Mapping:
		t.json.WriteByte('{')
		for i, e := range n.Entries {
			if i > 0 {
				t.json.WriteByte(',')
			}
			t.beginLine(e.Key.Pos)
			t.writeScalar(e.Key, e.Key.Value)
			t.json.WriteByte(':')
			t.writeNode(e.Value)
		}
		t.json.WriteByte('}')
	case spec.Sequence:
		t.json.WriteByte('[')
		for i, item := range n.Items {
			if i > 0 {
				t.json.WriteByte(',')
			}
			t.writeNode(item)
		}
		t.json.WriteByte(']')
	default:
		t.writeScalar(n, n.Any())
	}
}

func (t *yamlText) writeScalar(n *spec.Node, v any) {
	b, err := json.Marshal(v)
	if err != nil { // such as .nan
		t.problems = append(t.problems, n.Errorf("eval-file", "the value has no form in JSON"))
	}
	t.json.Write(b)
}
