package apptest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"agenthost/internal/safe"
	"agenthost/pkg/loader"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

const (
	// maxGateTests limits an app's concurrent tests, because the host serves requests at the
	// same time.
	maxGateTests = 2
	// gateTestTimeout limits one test's time.
	gateTestTimeout = 30 * time.Second
)

// Files returns the file kind for tests.
func Files() loader.FileKind {
	return loader.FileKind{
		Name: "test", Matches: func(file string) bool { return strings.HasSuffix(file, testSuffix) }, Schema: Schema,
		Title: "Tests", About: "A file `*.test.yaml` in an app is a list of tests; see [testing.md](testing.md).", Reference: Reference,
		Check: func(ctx context.Context, in *loader.Inspection) { readSuite(ctx, in) }, Names: findNames, Suffixes: []string{testSuffix},
	}
}

// findNames returns the names from an app in a test: the agents with models and their scripts, the
// stubbed tools, state keys, and expectations.
func findNames(keys []string, key string) loader.NameKind {
	in := func(name string) bool { return len(keys) > 0 && keys[len(keys)-1] == name }
	turn := len(keys) == 1 || len(keys) == 3 && keys[1] == "then"
	parent := []string{}
	if len(keys) > 0 {
		parent = keys[:len(keys)-1]
	}
	inTurn := len(parent) == 1 || len(parent) == 3 && parent[1] == "then"
	switch {
	case key == "name" && len(keys) == 1:
		return loader.CaseNames
	case key == "model" && (len(keys) == 1 || len(keys) == 2 && in("simulation")):
		return loader.Scripts
	case key == "expect" && turn, key == "" && in("[]") && len(keys) > 1 && keys[len(keys)-2] == "expect":
		return loader.Expressions
	case key != "":
		return loader.NoNames
	case in("model") && len(keys) == 2:
		return loader.AgentNames
	case in("tools") && len(keys) == 2, in("respond") && inTurn:
		return loader.ToolNames
	case in("state") && (inTurn || len(parent) > 2 && parent[1] == "tools" && (len(parent) == 3 || len(parent) == 4 && parent[3] == "[]")):
		return loader.StateValues
	}
	return loader.NoNames
}

// Gate returns the gate that lets an app pass if all its tests pass.
func Gate() loader.Gate {
	return loader.Gate{Name: runtime.GateTests, Rule: "test-failed", Run: runGate}
}

func runGate(ctx context.Context, g *loader.GateRun) spec.Diagnostics {
	suite, ds := OpenSuite(ctx, g.Loader, g.Dir)
	switch {
	case suite == nil:
		return ds
	case suite.Revision != g.App.Revision():
		return spec.Diagnostics{g.DescribeFailure("the files changed before the tests ran; the tests run again")}
	}
	failures := make([]spec.Diagnostics, len(suite.Tests))
	var wg sync.WaitGroup
	free := make(chan struct{}, maxGateTests)
	for i, t := range suite.Tests {
		free <- struct{}{}
		if ctx.Err() != nil {
			failures[i] = spec.Diagnostics{g.DescribeStop(ctx, fmt.Sprintf("%d of %d tests", i, len(suite.Tests)))}
			break
		}
		wg.Go(func() {
			defer func() { <-free }()
			defer safe.Recover(func(p *safe.Panic) {
				p.Log(g.Loader.Logger(), "test panicked", "app", g.App.Name(), "test", t.Name)
				failures[i] = spec.Diagnostics{g.DescribeFailure("test " + t.Name + " panicked, which is a bug in agenthost: " + p.Error())}
			})
			ctx, cancel := context.WithTimeoutCause(ctx, gateTestTimeout, errors.New("the test exceeded the limit of 30s"))
			defer cancel()
			failures[i] = suite.Run(ctx, t).Diagnostics()
		})
	}
	wg.Wait()
	return slices.Concat(failures...)
}
