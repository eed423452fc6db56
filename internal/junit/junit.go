// Package junit writes test results as JUnit XML, which build servers read.
package junit

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"time"
)

// Suites is a report.
type Suites struct {
	XMLName  xml.Name `xml:"testsuites"`
	Tests    int      `xml:"tests,attr"`
	Failures int      `xml:"failures,attr"`
	Errors   int      `xml:"errors,attr"`
	Time     string   `xml:"time,attr"`
	Suites   []*Suite `xml:"testsuite"`
}

// A Suite is a group of cases. [Suite.AddCase] counts them.
type Suite struct {
	Name       string      `xml:"name,attr"`
	File       string      `xml:"file,attr,omitempty"`
	Tests      int         `xml:"tests,attr"`
	Failures   int         `xml:"failures,attr"`
	Errors     int         `xml:"errors,attr"`
	Properties *Properties `xml:"properties"`
	Cases      []Case      `xml:"testcase"`
}

// Properties are a suite's properties.
type Properties struct {
	Properties []Property `xml:"property"`
}

// A Property is a named value.
type Property struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

// A Case is a test. Many build servers read its file and line, though some schemas, such as
// Jenkins's, do not have them.
type Case struct {
	Name    string   `xml:"name,attr"`
	Class   string   `xml:"classname,attr"`
	File    string   `xml:"file,attr,omitempty"`
	Line    int      `xml:"line,attr,omitempty"`
	Time    string   `xml:"time,attr"`
	Failure *Problem `xml:"failure"`
	Error   *Problem `xml:"error"`
	Out     string   `xml:"system-out,omitempty"`
}

// A Problem is the reason why a case failed, or could not run.
type Problem struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// AddCase adds a case and counts it.
func (s *Suite) AddCase(c Case) {
	s.Cases = append(s.Cases, c)
	s.Tests++
	if c.Failure != nil {
		s.Failures++
	}
	if c.Error != nil {
		s.Errors++
	}
}

// WriteXML adds up the suites' counts and writes the report. It is called once.
func (s *Suites) WriteXML(w io.Writer) error {
	for _, suite := range s.Suites {
		s.Tests, s.Failures, s.Errors = s.Tests+suite.Tests, s.Failures+suite.Failures, s.Errors+suite.Errors
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := cmp.Or(enc.Encode(s), enc.Close()); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// FormatSeconds formats a duration as an attribute.
func FormatSeconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }
