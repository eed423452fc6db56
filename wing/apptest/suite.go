package apptest

import (
	"cmp"
	"context"
	"fmt"

	"agenthost/pkg/loader"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// testSuffix ends test file names.
const testSuffix = ".test.yaml"

// A Suite holds an app's validated tests, and opens the app for them.
type Suite struct {
	// App is the app's name, Revision the revision that was validated.
	App, Revision string
	// Tests are ordered by file and position.
	Tests []*Test
	// UnmockedTools are the tools that run in a test without a stub: they use only the session.
	UnmockedTools []string

	loader *loader.Loader
	dir    string
	names  *Names
}

// OpenSuite reads the tests in an app's folder. The diagnostics are about the app and its
// tests. It returns nil if there are errors.
func OpenSuite(ctx context.Context, l *loader.Loader, dir string) (*Suite, spec.Diagnostics) {
	var suite *Suite
	app, ds := l.Inspect(ctx, dir, func(ctx context.Context, in *loader.Inspection) { suite = readSuite(ctx, in) })
	if app == nil {
		return nil, ds
	}
	app.Close()
	suite.loader, suite.dir = l, dir
	return suite, ds
}

// readSuite reads an app's tests; the app's agents may be unknown.
func readSuite(ctx context.Context, in *loader.Inspection) *Suite {
	s := &Suite{App: in.FolderName(), Revision: in.Revision()}
	names := in.ListNames()
	s.names = &Names{Agents: names.Agents, Tools: names.Tools, State: names.State, File: func(at spec.Text) (*spec.Node, spec.Diagnostics) {
		return in.ReadNamedFile(ctx, at)
	}}
	s.UnmockedTools = in.SessionTools()
	for _, file := range in.FindFiles(ctx, "tests", testSuffix) {
		n, ds := in.ReadDocument(file)
		if n != nil {
			tests, more := Decode(n, s.names)
			s.Tests = append(s.Tests, tests...)
			ds = append(ds, more...)
		}
		in.Report(ds...)
	}
	return s
}

// DecodeTests validates text as a test file in the suite.
func (s *Suite) DecodeTests(file string, text []byte) ([]*Test, spec.Diagnostics) {
	n, ds := spec.Parse(file, text)
	if ds.HasErrors() {
		return nil, ds
	}
	tests, more := Decode(n, s.names)
	return tests, append(ds, more...)
}

// Run runs one test with its own app, store and host. Tests may run in parallel.
func (s *Suite) Run(ctx context.Context, t *Test) *Result {
	r := t.Run(ctx, s.openApp)
	r.App = cmp.Or(r.App, s.App)
	return r
}

// openApp loads the app in a test's environment.
func (s *Suite) openApp(ctx context.Context, env *TestEnv) (*runtime.App, error) {
	app, ds := s.loader.Isolate(env.Model, env.HTTP).Load(ctx, s.dir)
	if app == nil {
		return nil, ds.Err()
	}
	if app.Revision() != s.Revision {
		app.Close()
		return nil, fmt.Errorf("the files of app %s changed during its tests", s.App)
	}
	return app, nil
}
