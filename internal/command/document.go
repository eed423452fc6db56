package command

import (
	"fmt"
	"os"
	"strings"

	"agenthost/pkg/spec"
)

// ReadDocument reads a flag's file.
func ReadDocument(flag, file string) (*spec.Node, spec.Diagnostics, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, FailWithf("%s: %w", flag, err)
	}
	n, ds := spec.Parse(file, text)
	return n, ds, nil
}

// ProblemsError returns the problems in a flag's file as an error, or nil.
func ProblemsError(flag, file string, ds spec.Diagnostics) error {
	if !ds.HasErrors() {
		return nil
	}
	return &ExitError{ExitProblems, &DocumentError{flag, file, ds}}
}

// A DocumentError reports the problems in a flag's file.
type DocumentError struct {
	flag, file string
	Problems   spec.Diagnostics
}

// Error returns the summary and the problems.
func (e *DocumentError) Error() string {
	var text strings.Builder
	text.WriteString(e.FormatSummary() + ":\n")
	_ = e.Problems.WriteText(&text) // a strings.Builder returns no errors
	return strings.TrimSuffix(text.String(), "\n")
}

// FormatSummary names the flag and the file.
func (e *DocumentError) FormatSummary() string {
	return fmt.Sprintf("%s: %s has problems", e.flag, e.file)
}
