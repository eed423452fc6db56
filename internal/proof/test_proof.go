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

// A testProof runs tests of the program that have controls of their own and log their
// results.
type testProof struct {
	promised string
	// pkg is the package path in the module, and tests the pattern of test names.
	pkg, tests string
	// seeded means that the tests accept the flags -seed and -full.
	seeded bool
}

// runTests runs the tests and returns a row with the results that they log.
func (p testProof) runTests(ctx context.Context, l *lab) ([]row, error) {
	args := []string{"test", "-count=1", "-v", "-timeout", fullLimit.String(), "-run", "^(" + p.tests + ")$", "./" + p.pkg}
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
		if strings.HasPrefix(line, "--- SKIP") || strings.HasPrefix(line, "--- FAIL") {
			lines = append(lines, line)
		}
	}
	return []row{{p.promised, strings.Join(lines, "; "), err == nil && len(lines) > 0}}, nil
}
