package main

import (
	"fmt"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"agenthost/internal/testmcp"
)

// TestMain makes the test binary an agenthost as well, the MCP server of the pages,
// and one that hears nothing: a script that runs one starts a process of its own.
func TestMain(m *testing.M) {
	testscript.Main(leakCheck{m}, map[string]func(){"agenthost": main, "sums-mcp": testmcp.Serve, "stays-mcp": testmcp.Stay})
}

// leakCheck runs the tests, then looks for goroutines that they left behind.
type leakCheck struct{ m *testing.M }

func (l leakCheck) Run() int {
	code := l.m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
