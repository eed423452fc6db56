package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
)

// shownLine matches a result that a test logs: t.Logf("shown: …").
var shownLine = regexp.MustCompile(`(?m)^\s+\w+_test\.go:\d+: shown: (.*)$`)

// A testProof runs the program's tests that have their own controls and log their results.
type testProof struct {
	name, promised string
	// packages are the package paths in the module, and tests the test names.
	packages, tests []string
	// seeded means that the tests accept the flags -seed and -full.
	seeded bool
}

// newTestProof returns a proof by tests. Packages and tests are separated by spaces.
func newTestProof(name, promised, packages, tests string) testProof {
	return testProof{name: name, promised: promised, packages: strings.Fields(packages), tests: strings.Fields(tests)}
}

// newSeededProof returns a proof by a package's tests that accept the flags -seed and -full.
func newSeededProof(name, promised, pkg, tests string) testProof {
	p := newTestProof(name, promised, pkg, tests)
	p.seeded = true
	return p
}

// explainsFailure matches the lines from which a reader learns why tests have failed, also those that
// no test prints: a package that does not build, a leaked goroutine, a panic.
var explainsFailure = regexp.MustCompile(`^(--- (SKIP|FAIL)|FAIL\s+\S+|goleak: |panic: )`)

// runTests runs the tests and returns a row with the results that they log.
func (p testProof) runTests(ctx context.Context, l *lab) ([]row, error) {
	args := []string{"test", "-count=1", "-v", "-timeout", fullLimit.String(), "-run", "^(" + strings.Join(p.tests, "|") + ")$"}
	for _, pkg := range p.packages {
		args = append(args, "./"+pkg)
	}
	if p.seeded {
		args = append(args, "-args", "-seed", fmt.Sprint(l.seed), fmt.Sprintf("-full=%v", l.full))
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		return nil, fmt.Errorf("running the tests: %w", err)
	}
	var lines []string
	for _, m := range shownLine.FindAllStringSubmatch(string(out), -1) {
		lines = append(lines, m[1])
	}
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		if explainsFailure.MatchString(line) {
			lines = append(lines, line)
		}
	}
	return []row{{p.promised, strings.Join(lines, "; "), err == nil && len(lines) > 0}}, nil
}
