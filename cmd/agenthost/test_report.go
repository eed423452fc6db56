package main

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"

	"agenthost/internal/apptest"
	"agenthost/pkg/spec"
)

// writeText prints failed tests on stdout, each with the failed expectation, the values
// of its parts and the transcript; with verbose, also passed tests. It prints problems
// and the summary on stderr.
func (r *testReport) writeText(out stdio, verbose bool) error {
	if err := r.problems.WriteText(out.err); err != nil {
		return err
	}
	for _, result := range r.results {
		if result.Passed() && !verbose {
			continue
		}
		if err := writeResult(out.out, result); err != nil {
			return err
		}
	}
	fmt.Fprintf(out.err, "%s passed, %d failed in %s\n", formatCount(len(r.results)-r.countFailed(), "test"), r.countFailed(), r.duration.Round(time.Millisecond))
	return nil
}

func writeResult(w io.Writer, r *apptest.Result) error {
	var b strings.Builder
	outcome := "ok  "
	if !r.Passed() {
		outcome = "FAIL"
	}
	fmt.Fprintf(&b, "%s %s: %s\n", outcome, r.App, r.Test.Name)
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

// testJSON is a test in --format json.
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

// failureJSON is a failure of a test in --format json.
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
func (r *testReport) writeJSON(out stdio) error {
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
	return printJSON(out, map[string]any{"problems": r.problems, "tests": tests})
}

// The elements of --format junit, in the form that build servers read.
type (
	junitSuites struct {
		XMLName  xml.Name      `xml:"testsuites"`
		Tests    int           `xml:"tests,attr"`
		Failures int           `xml:"failures,attr"`
		Errors   int           `xml:"errors,attr"`
		Time     string        `xml:"time,attr"`
		Suites   []*junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Name    string        `xml:"name,attr"`
		Class   string        `xml:"classname,attr"`
		File    string        `xml:"file,attr,omitempty"`
		Line    int           `xml:"line,attr,omitempty"`
		Time    string        `xml:"time,attr"`
		Failure *junitFailure `xml:"failure"`
		Error   *junitFailure `xml:"error"`
		Out     string        `xml:"system-out,omitempty"`
	}
	junitFailure struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// writeJUnit prints a suite for each app, and a suite with the problems that prevented
// tests from running.
func (r *testReport) writeJUnit(out stdio) error {
	all := &junitSuites{Time: formatSeconds(r.duration)}
	byApp := map[string]*junitSuite{}
	suite := func(name string) *junitSuite {
		if byApp[name] == nil {
			byApp[name] = &junitSuite{Name: name}
			all.Suites = append(all.Suites, byApp[name])
		}
		return byApp[name]
	}
	for _, result := range r.results {
		suite(result.App).addCase(junitCase{
			Name: result.Test.Name, Class: result.App, File: result.Test.Pos.File, Line: result.Test.Pos.Line,
			Time: formatSeconds(result.Took), Failure: junitFailureOf(result), Out: strings.Join(result.Transcript, "\n"),
		})
	}
	for _, d := range r.problems {
		if d.Severity == spec.Error {
			suite("check").addCase(junitCase{Name: d.Pos.String(), Class: "check", Time: "0", Error: &junitFailure{Message: d.Message, Text: d.String()}})
		}
	}
	return all.writeXML(out.out)
}

// writeXML adds up the counts of the suites and prints them.
func (s *junitSuites) writeXML(w io.Writer) error {
	for _, suite := range s.Suites {
		s.Tests, s.Failures, s.Errors = s.Tests+suite.Tests, s.Failures+suite.Failures, s.Errors+suite.Errors
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	return cmp.Or(enc.Encode(s), enc.Close(), writeNewline(w))
}

func (s *junitSuite) addCase(c junitCase) {
	s.Cases = append(s.Cases, c)
	s.Tests++
	if c.Failure != nil {
		s.Failures++
	}
	if c.Error != nil {
		s.Errors++
	}
}

func junitFailureOf(r *apptest.Result) *junitFailure {
	if r.Passed() {
		return nil
	}
	var text strings.Builder
	for _, f := range r.Failures {
		text.WriteString(f.Diagnostic.String() + "\n" + strings.Join(f.Lines(), "\n") + "\n")
	}
	return &junitFailure{Message: r.Failures[0].Diagnostic.Message, Text: text.String()}
}

func formatSeconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }

func writeNewline(w io.Writer) error {
	_, err := io.WriteString(w, "\n")
	return err
}
