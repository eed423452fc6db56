package main

import (
	"regexp"

	"github.com/rogpeppe/go-internal/testscript"
)

// keepLast sets a variable to the last match of a pattern in the output of the
// last exec.
func keepLast(ts *testscript.TestScript, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: keep-last VAR PATTERN")
	}
	pattern, err := regexp.Compile(args[1])
	ts.Check(err)
	found := pattern.FindAllString(ts.ReadFile("stdout"), -1)
	if len(found) == 0 {
		ts.Fatalf("nothing matches %s", args[1])
	}
	ts.Setenv(args[0], found[len(found)-1])
}
