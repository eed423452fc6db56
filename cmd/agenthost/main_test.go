package main

import (
	"fmt"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
)

// TestMain makes the test binary an agenthost as well: a script that runs
// agenthost starts a process of its own.
func TestMain(m *testing.M) {
	testscript.Main(leakless{m}, map[string]func(){"agenthost": main})
}

// leakless runs the tests, then looks for goroutines that they left behind.
type leakless struct{ m *testing.M }

func (l leakless) Run() int {
	code := l.m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
