package template

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// A corpusCase is a template with its output in the implementations of ADK.
type corpusCase struct {
	Name      string
	Template  string
	State     map[string]any
	Artifacts map[string]string
	Expected  *string
	Oracles   map[string]struct{ OK, Err *string }
}

// A deviation is an output of this package that differs from adk-python's.
type deviation struct{ want, why string }

func knownDeviations() map[string]deviation {
	const part = "the text of an artifact; Java and Kotlin print the JSON of its part"
	return map[string]deviation{
		"java/artifact_is_part_json":   {"Include this knowledge: This is a knowledge document..", part},
		"java-proc/artifact_json":      {"File content: Artifact content", part},
		"kt/artifact_json":             {"Read this document: Artifact content", part},
		"kt/optional_present_artifact": {"Read this document: Artifact content", part},
		"kt/multiple":                  {"Hello Bob, running v2.0. Here is the report: Report content", part},
		"diff/wholefloat":              {"2", "values are JSON; Python prints 2.0"},
		"diff/dict":                    {`{"a":1,"b":[2]}`, "values are JSON; Python prints a dict"},
	}
}

// TestCorpus compares the output with adk-python's, except for knownDeviations.
func TestCorpus(t *testing.T) {
	dir := os.Getenv("AGENTHOST_CORPUS")
	if dir == "" {
		dir = "../../../shared/corpus"
	}
	src, err := os.ReadFile(filepath.Join(dir, "templating.json"))
	if err != nil {
		t.Skipf("SKIPPED, NO CORPUS: %v", err)
	}
	var cases []corpusCase
	if err := json.Unmarshal(src, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			got, err := Parse(c.Template).Render(t.Context(), mapScope{state: c.State, artifacts: c.Artifacts})
			if err != nil {
				got = "error: " + err.Error()
			}
			if want, why := c.expectedOutput(); got != want {
				t.Errorf("Render(%q) = %q, want %q (%s)", c.Template, got, want, why)
			}
		})
	}
}

func (c *corpusCase) expectedOutput() (text, why string) {
	if p := Parse(c.Template); len(p.Preserved()) > 0 && len(p.Refs()) == 0 {
		return c.Template, "recorded with 2.5; since 2.10, ${key} stays"
	}
	if d, ok := knownDeviations()[c.Name]; ok {
		return d.want, d.why
	}
	py := c.Oracles["py"]
	if py.Err != nil {
		return "error: " + *py.Err, "adk-python"
	}
	if py.OK != nil {
		return *py.OK, "adk-python"
	}
	return *c.Expected, "as recorded"
}
