package conformance

import (
	"fmt"
	"io"
	"strings"
)

// A Summary has the results from all cases in one mode.
type Summary struct {
	Mode    Mode      `json:"mode"`
	Results []*Result `json:"results"`
	// Skipped are the cases without recordings of the mode.
	Skipped []*Case `json:"skipped"`
}

// countPassed returns how many cases passed.
func (s *Summary) countPassed() int {
	passed := 0
	for _, r := range s.Results {
		if r.Passed() {
			passed++
		}
	}
	return passed
}

// Failed returns how many cases failed.
func (s *Summary) Failed() int { return len(s.Results) - s.countPassed() }

// successRate returns the passed cases in percent.
func (s *Summary) successRate() float64 {
	if len(s.Results) == 0 {
		return 0
	}
	return 100 * float64(s.countPassed()) / float64(len(s.Results))
}

// WriteText writes the summary as ADK prints it.
func (s *Summary) WriteText(w io.Writer) error {
	line := strings.Repeat("=", 50)
	out := &strings.Builder{}
	fmt.Fprintf(out, "\n%s\nCONFORMANCE TEST SUMMARY FOR STREAMING MODE: %s\n%s\n", line, s.Mode, line)
	fmt.Fprintf(out, "Total tests: %d\nPassed: %d\nFailed: %d\nSuccess rate: %.1f%%\n", len(s.Results), s.countPassed(), s.Failed(), s.successRate())
	if s.Failed() > 0 {
		fmt.Fprint(out, "\nFailed tests:\n")
	}
	for _, r := range s.Results {
		if !r.Passed() {
			fmt.Fprintf(out, "\n✗ %s\n%s\n", r.Case, r.Error)
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// A Version describes the server that was tested.
type Version struct {
	Version  string `json:"version"`
	Language string `json:"language"`
}

// ReportName returns the name that ADK gives its report file.
func (v *Version) ReportName() string {
	return v.Language + "_" + strings.ReplaceAll(v.Version, ".", "_") + "_report.md"
}

// WriteMarkdown writes a report with a row for each case.
func WriteMarkdown(w io.Writer, v *Version, all []*Summary) error {
	out := &strings.Builder{}
	fmt.Fprintf(out, "# Conformance report\n\nServer: %s %s\n", v.Language, v.Version)
	for _, s := range all {
		fmt.Fprintf(out, "\n## Streaming mode %s\n\n%d of %d cases passed (%.1f%%).\n\n| category | case | description | result |\n| --- | --- | --- | --- |\n",
			s.Mode, s.countPassed(), len(s.Results), s.successRate())
		for _, r := range s.Results {
			result := "passed"
			if !r.Passed() {
				result = "**failed**"
			}
			fmt.Fprintf(out, "| %s | %s | %s | %s |\n", escapeCell(r.Case.Category), escapeCell(r.Case.Name), escapeCell(r.Case.Spec.Description), result)
		}
		for _, r := range s.Results {
			if !r.Passed() {
				fmt.Fprintf(out, "\n### %s\n\n```\n%s\n```\n", r.Case, strings.ReplaceAll(r.Error, "```", "'''"))
			}
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// escapeCell returns text for a Markdown table cell.
func escapeCell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ").Replace(strings.TrimSpace(text))
}

// A Result is a case's outcome in a mode.
type Result struct {
	Case *Case `json:"case"`
	Mode Mode  `json:"-"`
	// Error is why the case failed; empty if it passed. Differences are between the sessions.
	Error       string   `json:"error,omitempty"`
	Differences []string `json:"differences,omitempty"`
}

// Passed reports whether the case passed.
func (r *Result) Passed() bool { return r.Error == "" }

// FailCase returns the result for a case that could not run.
func FailCase(c *Case, mode Mode, err error) *Result {
	return &Result{Case: c, Mode: mode, Error: "Test setup failed: " + err.Error()}
}

// A replayError is an error that the server has sent in a run's stream.
type replayError struct{ message string }

func (e *replayError) Error() string { return e.message }
