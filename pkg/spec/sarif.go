package spec

import (
	"encoding/json"
	"io"
	"net/url"
	"slices"
	"strings"
)

// sarifSchema is the URL of the SARIF 2.1.0 schema.
const sarifSchema = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

// The subset of SARIF that WriteSARIF uses.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool       sarifTool     `json:"tool"`
		ColumnKind string        `json:"columnKind"`
		Results    []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name    string      `json:"name"`
		Version string      `json:"version,omitempty"`
		Rules   []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID string `json:"id"`
	}
	sarifResult struct {
		RuleID    string          `json:"ruleId"`
		RuleIndex int             `json:"ruleIndex"`
		Level     string          `json:"level"`
		Message   sarifMessage    `json:"message"`
		Locations []sarifLocation `json:"locations"`
		Fixes     []sarifFix      `json:"fixes,omitempty"`
	}
	sarifMessage struct {
		Text string `json:"text"`
	}
	sarifLocation struct {
		Physical sarifPhysical `json:"physicalLocation"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   *sarifRegion  `json:"region,omitempty"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		StartLine   int           `json:"startLine"`
		StartColumn int           `json:"startColumn"`
		EndColumn   int           `json:"endColumn,omitempty"`
		Snippet     *sarifMessage `json:"snippet,omitempty"`
	}
	sarifFix struct {
		Description sarifMessage  `json:"description"`
		Changes     []sarifChange `json:"artifactChanges"`
	}
	sarifChange struct {
		Artifact     sarifArtifact      `json:"artifactLocation"`
		Replacements []sarifReplacement `json:"replacements"`
	}
	sarifReplacement struct {
		Deleted  sarifRegion  `json:"deletedRegion"`
		Inserted sarifMessage `json:"insertedContent"`
	}
)

// WriteSARIF writes the problems as a SARIF 2.1.0 log for code review services. version
// is the version of the program. Columns count characters.
func (ds Diagnostics) WriteSARIF(w io.Writer, version string) error {
	rules := []string{}
	for _, d := range ds {
		rules = append(rules, d.Rule)
	}
	slices.Sort(rules)
	rules = slices.Compact(rules)
	run := sarifRun{ColumnKind: "unicodeCodePoints", Results: []sarifResult{}}
	run.Tool.Driver = sarifDriver{Name: "agenthost", Version: version, Rules: []sarifRule{}}
	for _, id := range rules {
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{id})
	}
	for _, d := range ds {
		r := d.toSARIF()
		r.RuleIndex, _ = slices.BinarySearch(rules, d.Rule)
		run.Results = append(run.Results, r)
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(sarifLog{sarifSchema, "2.1.0", []sarifRun{run}})
}

func (d Diagnostic) toSARIF() sarifResult {
	at := sarifPhysical{Artifact: sarifArtifact{fileURI(d.Pos.File)}}
	if d.Pos.Line > 0 {
		at.Region = &sarifRegion{StartLine: d.Pos.Line, StartColumn: d.Pos.Col}
		if d.Source != "" && len(d.Source) <= maxSnippet {
			at.Region.Snippet = &sarifMessage{d.Source}
		}
	}
	r := sarifResult{
		RuleID: d.Rule, Level: d.Severity.String(), Message: sarifMessage{d.fullText()},
		Locations: []sarifLocation{{at}},
	}
	if f := d.Fix; f != (Fix{}) {
		r.Fixes = []sarifFix{{
			Description: sarifMessage{"replace with " + f.New},
			Changes: []sarifChange{{at.Artifact, []sarifReplacement{{
				Deleted:  sarifRegion{StartLine: f.Line, StartColumn: f.Col, EndColumn: f.Col + len([]rune(f.Old))},
				Inserted: sarifMessage{f.New},
			}}}},
		}}
	}
	return r
}

// fullText returns the message, the hint and the other places.
func (d Diagnostic) fullText() string {
	text := d.Message
	if d.Hint != "" {
		text += "\n" + d.Hint
	}
	if len(d.Also) > 0 {
		text += "\nalso: " + d.alsoText()
	}
	return text
}

// fileURI returns a path as a URI reference.
func fileURI(path string) string {
	u := url.URL{Path: path}
	if strings.HasPrefix(path, "/") {
		u.Scheme = "file"
	}
	return u.String()
}
