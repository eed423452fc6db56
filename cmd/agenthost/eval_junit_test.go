package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"agenthost/internal/command"
)

// A junitElement is the rule for an element in a JUnit schema.
type junitElement struct {
	required, optional []string
	children           []string
	hasText            bool
}

// junitSchema has the rules from Jenkins' junit-10.xsd (jenkinsci/xunit-plugin), which rejects
// unknown attributes and elements.
func junitSchema() map[string]junitElement {
	problem := junitElement{optional: []string{"type", "message"}, hasText: true}
	return map[string]junitElement{
		"testsuites": {optional: []string{"name", "time", "tests", "failures", "errors"}, children: []string{"testsuite"}},
		"testsuite": {
			required: []string{"name", "tests", "failures", "errors"},
			optional: []string{"group", "time", "skipped", "timestamp", "hostname", "id", "package", "file", "log", "url"},
			children: []string{"testsuite", "properties", "testcase", "system-out", "system-err"},
		},
		"testcase": {
			required: []string{"name"}, optional: []string{"time", "classname", "group"},
			children: []string{"skipped", "error", "failure", "system-out", "system-err"},
		},
		"properties": {children: []string{"property"}},
		"property":   {required: []string{"name", "value"}},
		"failure":    problem, "error": problem, "skipped": problem,
		"system-out": {hasText: true}, "system-err": {hasText: true},
	}
}

// junitTime is the type of the attribute time.
var junitTime = regexp.MustCompile(`^(([0-9]{0,3},)*[0-9]{3}|[0-9]{0,3})*(\.[0-9]*)?$`)

// validateJUnit checks a document against the schema, and its suites' counts.
func validateJUnit(text []byte) error {
	dec := xml.NewDecoder(bytes.NewReader(text))
	var open []string
	counts := map[string]int{}
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch token := token.(type) {
		case xml.StartElement:
			parent := ""
			if len(open) > 0 {
				parent = open[len(open)-1]
			}
			if err := validateElement(token, parent); err != nil {
				return err
			}
			open = append(open, token.Name.Local)
			counts[token.Name.Local]++
			if token.Name.Local == "testsuites" || token.Name.Local == "testsuite" {
				for _, a := range token.Attr {
					if n, err := strconv.Atoi(a.Value); err == nil && slices.Contains([]string{"tests", "failures", "errors"}, a.Name.Local) {
						counts[token.Name.Local+" "+a.Name.Local] += n
					}
				}
			}
		case xml.EndElement:
			open = open[:len(open)-1]
			if len(open) > 0 {
				continue
			}
			for _, c := range [][2]string{{"tests", "testcase"}, {"failures", "failure"}, {"errors", "error"}} {
				if a, b := counts["testsuites "+c[0]], counts["testsuite "+c[0]]; a != counts[c[1]] || b != counts[c[1]] {
					return fmt.Errorf("%s are %d and %d, the document has %d", c[0], a, b, counts[c[1]])
				}
			}
		case xml.CharData:
			if len(open) == 0 || strings.TrimSpace(string(token)) != "" && !junitSchema()[open[len(open)-1]].hasText {
				if strings.TrimSpace(string(token)) != "" {
					return fmt.Errorf("text %q in %s", token, strings.Join(open, "/"))
				}
			}
		}
	}
}

func validateElement(e xml.StartElement, parent string) error {
	name := e.Name.Local
	rule, ok := junitSchema()[name]
	if !ok || parent == "" && name != "testsuites" || parent != "" && !slices.Contains(junitSchema()[parent].children, name) {
		return fmt.Errorf("element %s in %q is not allowed", name, parent)
	}
	var names []string
	for _, a := range e.Attr {
		names = append(names, a.Name.Local)
		if !slices.Contains(slices.Concat(rule.required, rule.optional), a.Name.Local) {
			return fmt.Errorf("attribute %s of %s is not allowed", a.Name.Local, name)
		}
		if a.Name.Local == "time" && !junitTime.MatchString(a.Value) {
			return fmt.Errorf("time %q of %s is not valid", a.Value, name)
		}
	}
	for _, required := range rule.required {
		if !slices.Contains(names, required) {
			return fmt.Errorf("attribute %s of %s is required", required, name)
		}
	}
	return nil
}

// The JUnit output conforms to a schema that build servers use, whatever the models answer:
// with passed, failed, crashed and not evaluated cases, usage, models and several runs.
func TestEvalJUnitSchema(t *testing.T) {
	app := filepath.Join(t.TempDir(), "shop")
	saveFile(t, app, "root_agent.yaml", "name: clerk\ninstruction: Greet.\nmodel: demo\n")
	saveFile(t, app, "app.yaml", "models:\n  demo: {provider: scripted, script: s.yaml, price: {input: 1, output: 1}}\n  mute: {provider: scripted, script: m.yaml}\n")
	saveFile(t, app, "s.yaml", "- {when: user contains \"fail\", error: {code: 400, message: \"]]> & <b>\\u0001\"}}\n- {text: \"]]> & </failure> \\u0001\\uFFFE\", usage: {prompt: 3, candidates: 2}}\n")
	saveFile(t, app, "m.yaml", "- text: no verdict\n")
	saveFile(t, app, "first.eval.yaml", `metrics: {response_match: 0.5}
cases:
- {name: passes, user: hi, expect: {text: "failure"}}
- {name: fails, user: "<b>&", expect: {text: "other ]]> words"}}
- {name: crashes, user: fail}
`)
	saveFile(t, app, "second.eval.yaml", `metrics: {final_response_match_v2: {threshold: 1, judge_model_options: {judge_model: mute}}}
cases:
- {name: mute, user: hi, expect: {text: hi}}
`)
	for _, args := range [][]string{nil, {"--runs", "2"}, {"--model", "demo,mute"}} {
		var out, problems bytes.Buffer
		code := run(t.Context(), append([]string{"eval", app, "--output", "junit"}, args...), command.Env{Out: &out, Err: &problems})
		if code != command.ExitProblems || problems.Len() > 0 {
			t.Fatalf("%v: status %d, %s", args, code, &problems)
		}
		if err := validateJUnit(out.Bytes()); err != nil {
			t.Errorf("%v: %v\n%s", args, err, &out)
		}
		for _, want := range []string{"<failure ", "<error ", "<system-out>"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%v: the output has no %s:\n%s", args, want, &out)
			}
		}
	}
}

// The check rejects documents that do not conform.
func TestJUnitSchemaControl(t *testing.T) {
	for text, want := range map[string]string{
		`<testsuites tests="1" failures="0" errors="0"><testsuite name="a" tests="1" failures="0" errors="0"><testcase name="b"/></testsuite></testsuites>`: "",
		`<testsuites><testcase name="b"/></testsuites>`:                                                                            `element testcase in "testsuites" is not allowed`,
		`<testsuites><testsuite name="a" tests="0" failures="0"/></testsuites>`:                                                    `attribute errors of testsuite is required`,
		`<testsuites><testsuite name="a" tests="0" failures="0" errors="0"><testcase name="b" line="1"/></testsuite></testsuites>`: `attribute line of testcase is not allowed`,
		`<testsuites time="1s"/>`:       `time "1s" of testsuites is not valid`,
		`<testsuites>text</testsuites>`: `text "text" in testsuites`,
		`<testsuites tests="2"><testsuite name="a" tests="2" failures="0" errors="0"><testcase name="b"/></testsuite></testsuites>`: `tests are 2 and 2, the document has 1`,
	} {
		got := ""
		if err := validateJUnit([]byte(text)); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("validateJUnit(%s) = %q, want %q", text, got, want)
		}
	}
}
