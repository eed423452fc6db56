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

// shownLine is what a test tells of a proof: t.Logf("shown: …").
var shownLine = regexp.MustCompile(`(?m)^\s+\w+_test\.go:\d+: shown: (.*)$`)

// A tested promise is shown by tests of the program, with a control of their own.
// They log what they show.
type tested struct {
	promised string
	// pkg is the package below the module, and tests the names.
	pkg, tests string
	// drawn says that they take the flags -seed and -full.
	drawn bool
}

// rows runs the tests and makes a row of what they say.
func (p tested) rows(ctx context.Context, l *lab) ([]row, error) {
	args := []string{"test", "-count=1", "-v", "-timeout", fullLimit.String(), "-run", "^(" + p.tests + ")$", "./" + p.pkg}
	if p.drawn {
		args = append(args, "-args", "-seed", fmt.Sprint(l.seed), fmt.Sprintf("-full=%v", l.full))
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		return nil, fmt.Errorf("running the tests: %w", err)
	}
	var said []string
	for _, m := range shownLine.FindAllStringSubmatch(string(out), -1) {
		said = append(said, m[1])
	}
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "--- SKIP") || strings.HasPrefix(line, "--- FAIL") {
			said = append(said, line)
		}
	}
	return []row{{p.promised, strings.Join(said, "; "), err == nil && len(said) > 0}}, nil
}
