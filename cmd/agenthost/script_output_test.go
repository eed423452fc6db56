package main

import (
	"regexp"

	"github.com/rogpeppe/go-internal/testscript"
)

// setFromOutput sets a variable to a pattern's last match in the last output, or to that match's
// group.
func setFromOutput(ts *testscript.TestScript, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: keep-last VAR PATTERN")
	}
	pattern, err := regexp.Compile(args[1])
	ts.Check(err)
	found := pattern.FindAllStringSubmatch(ts.ReadFile("stdout"), -1)
	if len(found) == 0 {
		ts.Fatalf("nothing matches %s", args[1])
	}
	last := found[len(found)-1]
	ts.Setenv(args[0], last[len(last)-1])
}
