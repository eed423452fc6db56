package testcommand

import (
	"fmt"
	"io"
	"strings"
	"time"

	"agenthost/internal/command"
	"agenthost/internal/junit"
	"agenthost/internal/terminal"
	"agenthost/pkg/spec"
	"agenthost/wing/apptest"
)

// writeText prints failed tests on stdout, each with the failed expectation, its parts'
// values and the transcript; with verbose, also passed tests. It prints problems and the
// summary on stderr.
func (r *testReport) writeText(out command.Env, verbose bool) error {
	if err := command.PrintDiagnostics(out.Err, r.problems); err != nil {
		return err
	}
	for _, result := range r.results {
		if result.Passed() && !verbose {
			continue
		}
		if err := WriteResult(out.Out, result); err != nil {
			return err
		}
	}
	fmt.Fprintf(out.Err, "%s passed, %d failed in %s\n", command.FormatCount(len(r.results)-r.countFailed(), "test"), r.countFailed(), r.duration.Round(time.Millisecond))
	return nil
}

// WriteResult prints a test with its failures and its transcript.
func WriteResult(w io.Writer, r *apptest.Result) error {
	var b strings.Builder
	outcome := terminal.Cell{Text: "ok  ", Role: terminal.Good}
	if !r.Passed() {
		outcome = terminal.Cell{Text: "FAIL", Role: terminal.Bad}
	}
	if err := terminal.Print(w, terminal.StylesOf(w).Format(outcome.Role, outcome.Text)); err != nil {
		return err
	}
	fmt.Fprintf(&b, " %s: %s\n", r.App, r.Test.Name)
	for _, f := range r.Failures {
		if err := (spec.Diagnostics{f.Diagnostic}).WriteText(&b); err != nil {
			return err
		}
		for _, line := range f.Lines() {
			b.WriteString("  " + line + "\n")
		}
	}
	for _, line := range r.Transcript {
		b.WriteString("  " + line + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// testJSON is a test in --output json.
type testJSON struct {
	App        string        `json:"app"`
	Name       string        `json:"name"`
	File       string        `json:"file"`
	Line       int           `json:"line"`
	Passed     bool          `json:"passed"`
	Seconds    float64       `json:"seconds"`
	Failures   []failureJSON `json:"failures,omitempty"`
	Transcript []string      `json:"transcript"`
}

// failureJSON is a test failure in --output json.
type failureJSON struct {
	Turn       int            `json:"turn"`
	File       string         `json:"file"`
	Line       int            `json:"line"`
	Column     int            `json:"column"`
	Expression string         `json:"expression,omitempty"`
	Message    string         `json:"message"`
	Values     map[string]any `json:"values,omitempty"`
}

// writeJSON prints an object with the problems and the tests.
func (r *testReport) writeJSON(out command.Env) error {
	tests := []testJSON{}
	for _, result := range r.results {
		t := testJSON{
			App: result.App, Name: result.Test.Name, File: result.Test.Pos.File, Line: result.Test.Pos.Line,
			Passed: result.Passed(), Seconds: result.Took.Seconds(), Transcript: result.Transcript,
		}
		for _, f := range result.Failures {
			values := map[string]any{}
			for _, v := range f.Values {
				values[v.Part] = v.Value
			}
			at := f.Diagnostic.Pos
			t.Failures = append(t.Failures, failureJSON{f.Turn, at.File, at.Line, at.Col, f.Expression, f.Diagnostic.Message, values})
		}
		tests = append(tests, t)
	}
	return out.PrintJSON(map[string]any{"problems": r.problems, "tests": tests})
}

// writeJUnit prints a suite for each app, and a suite with the problems that prevented
// tests from running.
func (r *testReport) writeJUnit(out command.Env) error {
	all := &junit.Suites{Time: junit.FormatSeconds(r.duration)}
	byApp := map[string]*junit.Suite{}
	suite := func(name string) *junit.Suite {
		if byApp[name] == nil {
			byApp[name] = &junit.Suite{Name: name}
			all.Suites = append(all.Suites, byApp[name])
		}
		return byApp[name]
	}
	for _, result := range r.results {
		suite(result.App).AddCase(junit.Case{
			Name: result.Test.Name, Class: result.App, File: result.Test.Pos.File, Line: result.Test.Pos.Line,
			Time: junit.FormatSeconds(result.Took), Failure: junitFailureOf(result), Out: strings.Join(result.Transcript, "\n"),
		})
	}
	for _, d := range r.problems {
		if d.Severity == spec.Error {
			suite("check").AddCase(junit.Case{Name: d.Pos.String(), Class: "check", Time: "0", Error: &junit.Problem{Message: d.Message, Text: d.String()}})
		}
	}
	return all.WriteXML(out.Out)
}

func junitFailureOf(r *apptest.Result) *junit.Problem {
	if r.Passed() {
		return nil
	}
	var text strings.Builder
	for _, f := range r.Failures {
		text.WriteString(f.Diagnostic.String() + "\n" + strings.Join(f.Lines(), "\n") + "\n")
	}
	return &junit.Problem{Message: r.Failures[0].Diagnostic.Message, Text: text.String()}
}
