package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// sampleTests skip in both ways, fail and pass.
const sampleTests = `package a

import "testing"

func TestPasses(t *testing.T) { t.Log("quiet") }
func TestSkips(t *testing.T)  { t.Skip("no database") }
func TestFails(t *testing.T) {
	t.Run("here", func(t *testing.T) { t.Error("wrong") })
	t.Run("there", func(t *testing.T) { t.SkipNow() })
}
`

// runCommand runs a program in a folder and returns its output.
func runCommand(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	out, _ := cmd.Output() // failing tests return an error
	return string(out)
}

// findSkips returns the lines that .ci/skips finds in a log.
func findSkips(t *testing.T, log string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(file, []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	return runCommand(t, "../..", ".ci/skips", file)
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// The report names skipped tests, prints failed tests' output and omits passed tests. go test
// itself does not report skipped tests.
func TestSkippedTestsAreReported(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "go.mod"), "module example.org/a\n\ngo 1.26\n")
	writeFile(t, filepath.Join(dir, "a_test.go"), sampleTests)
	var out strings.Builder
	if err := printReport(strings.NewReader(runCommand(t, dir, "go", "test", "-json", ".")), &out); err != nil {
		t.Fatal(err)
	}
	log := out.String()
	for _, want := range []string{
		"SKIPPED: example.org/a TestSkips: a_test.go:6: no database\n", "SKIPPED: example.org/a TestFails/there: \n",
		"a_test.go:8: wrong\n", "--- FAIL: TestFails (", "FAIL\texample.org/a\t",
	} {
		if !strings.Contains(log, want) {
			t.Errorf("the report does not have %q:\n%s", want, log)
		}
	}
	if strings.Contains(log, "quiet") || strings.Contains(log, "=== RUN") {
		t.Errorf("the report has more than failures:\n%s", log)
	}
	if got := strings.Count(findSkips(t, log), "\n"); got != 2 {
		t.Errorf(".ci/skips finds %d lines, want 2", got)
	}
	if plain := runCommand(t, dir, "go", "test", "-run", "TestSkips|TestPasses", "."); strings.Contains(plain, "SKIP") || findSkips(t, plain) != "" {
		t.Errorf("go test reports the skipped test itself: %s", plain)
	}
}

// A build failure is reported as go test does.
func TestBuildFailureIsReported(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "go.mod"), "module example.org/a\n\ngo 1.26\n")
	writeFile(t, filepath.Join(dir, "a_test.go"), "package a\n\nvar x int = true\n")
	var out strings.Builder
	if err := printReport(strings.NewReader(runCommand(t, dir, "go", "test", "-json", ".")), &out); err != nil {
		t.Fatal(err)
	}
	if log := out.String(); !strings.Contains(log, "a_test.go:3:13: cannot use true") || !strings.Contains(log, "FAIL\texample.org/a [build failed]") {
		t.Errorf("the report is:\n%s", log)
	}
}

// .ci/skips finds skipped tests in a node --test log, and nothing in a log without skips.
func TestSkippedNodeTestsAreFound(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.test.mjs")
	runNode := func(text string) string {
		writeFile(t, file, "import { test } from 'node:test';\n"+text)
		return runCommand(t, dir, "node", "--test", "--test-reporter=spec", file)
	}
	if log := runNode("test('passes', () => {});\n"); !strings.Contains(log, "pass 1") || findSkips(t, log) != "" {
		t.Errorf("without a skip: %q in\n%s", findSkips(t, log), log)
	}
	for _, text := range []string{"test.skip('a', () => {});\n", "test('a', (t) => t.skip('no browser'));\n", "test.todo('a');\n"} {
		if log := runNode(text); findSkips(t, log) == "" {
			t.Errorf("the skip is not found in:\n%s", log)
		}
	}
	if findSkips(t, "SKIPPED: ui-test needs Chromium\n") == "" {
		t.Error("the skip of ui-test/run.sh is not found")
	}
}
