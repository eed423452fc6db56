package main

import (
	"fmt"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"agenthost/internal/fake/fakemcp"
	"agenthost/wing/programs"
)

// TestMain lets scripts run the test binary as agenthost with its helper, as the docs' MCP server,
// and as an MCP server that ignores the end of its input.
func TestMain(m *testing.M) {
	programs.ServeHelper(os.Args[1:])
	testscript.Main(leakCheck{m}, map[string]func(){"agenthost": main, "sums-mcp": fakemcp.Serve, "stays-mcp": fakemcp.Stay})
}

// leakCheck runs the tests, then checks for leaked goroutines.
type leakCheck struct{ m *testing.M }

func (l leakCheck) Run() int {
	code := l.m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
