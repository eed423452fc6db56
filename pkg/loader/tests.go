package loader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"agenthost/pkg/apptest"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// testSuffix is how the files of tests end.
const testSuffix = ".test.yaml"

// A Suite is the tests of an app, checked, and how they open it.
type Suite struct {
	// App is the app's name, Revision that of the content that was checked.
	App, Revision string
	// Tests are in the order of their files and places.
	Tests []*apptest.Test
	// UnmockedTools are the tools that do their work in a test as they do it elsewhere:
	// those that need nothing from outside the session.
	UnmockedTools []string

	loader *Loader
	dir    string
	names  *apptest.Names
}

// Suite reads the tests of a folder's app. The problems are those of the app
// and of its tests; with an error among them there is no suite.
func (l *Loader) Suite(ctx context.Context, dir string) (*Suite, spec.Diagnostics) {
	got := l.loadApp(ctx, dir, nil, (*job).readTests)
	if got.app != nil {
		got.app.Close()
	}
	return got.suite, got.ds
}

// Decode checks a text as a file of the suite's tests.
func (s *Suite) Decode(file string, text []byte) ([]*apptest.Test, spec.Diagnostics) {
	n, ds := spec.Parse(file, text)
	if ds.HasErrors() {
		return nil, ds
	}
	tests, more := apptest.Decode(n, s.names)
	return tests, append(ds, more...)
}

// Run runs one of the suite's tests, on an app, a store and a host of its own.
// Tests may be run side by side.
func (s *Suite) Run(ctx context.Context, t *apptest.Test) *apptest.Result {
	r := t.Run(ctx, s.openApp)
	r.App = cmp.Or(r.App, s.App)
	return r
}

// openApp loads the app with what a test puts in the place of the world.
func (s *Suite) openApp(ctx context.Context, env *apptest.TestEnv) (*runtime.App, error) {
	opts := s.loader.opts
	opts.Model, opts.HTTP, opts.ReplaceTool, opts.WrapTool = env.Model, env.HTTP, env.Replace, nil
	app, ds := New(&opts).Load(ctx, s.dir)
	if app == nil {
		return nil, ds.Err()
	}
	if app.Revision != s.Revision {
		app.Close()
		return nil, fmt.Errorf("the files of app %s changed while its tests ran", s.App)
	}
	return app, nil
}

// readTests reads the tests beside an app, whose tree is nil when it cannot be
// known.
func (j *job) readTests(ctx context.Context, root *resolvedAgent) *Suite {
	s := &Suite{App: j.src.name, Revision: j.src.computeRevision(), loader: j.loader, dir: j.src.dir}
	s.names = j.collectTestNames(ctx, root)
	s.UnmockedTools = listUnmockedTools(ctx, root)
	for _, file := range j.testFiles(ctx) {
		n, ds := j.src.readDocument(file)
		if n != nil {
			tests, more := apptest.Decode(n, s.names)
			s.Tests = append(s.Tests, tests...)
			ds = append(ds, more...)
		}
		j.report(ds...)
	}
	return s
}

// testFiles lists the files of tests, in folders that are not hidden. One that
// cannot be read is a problem: nothing else would show that its tests do not run.
func (j *job) testFiles(ctx context.Context) []string {
	root, err := filepath.EvalSymlinks(j.src.dir)
	var files []string
	w := newWalker(root)
	w.file = func(_, rel string, _ fs.FileInfo) {
		file := filepath.ToSlash(rel)
		switch {
		case !strings.HasSuffix(file, testSuffix):
		case j.src.fileExists(file):
			files = append(files, file)
		case !isIgnored(path.Base(file)): // an editor's lock is a hidden link to nowhere
			j.reportIrregularFile(file)
		}
	}
	if err == nil {
		err = w.walkFolder(ctx, root, "", 0)
	}
	if limit := (*limitError)(nil); errors.As(err, &limit) {
		j.report(limit.toDiagnostic(j.src.displayDir))
	} else if err != nil {
		j.report(spec.Diagnostic{Pos: spec.Pos{File: j.src.displayDir}, Rule: "file", Message: "cannot look for tests: " + formatOSError(err)})
	}
	return files
}

func (j *job) collectTestNames(ctx context.Context, root *resolvedAgent) *apptest.Names {
	names := &apptest.Names{File: func(at spec.Text) (*spec.Node, spec.Diagnostics) { return j.readModelFile(ctx, at) }}
	if root == nil || j.ds.HasErrors() {
		return names
	}
	dynamic := false
	names.Agents, names.Tools = []string{}, []string{}
	if typed := stateSchema(root); typed != nil {
		names.State = typed.Samples()
	}
	root.visitTree(func(p *resolvedAgent) {
		if _, ok := p.plan.Config.(interface{ ModelName() spec.Text }); ok {
			names.Agents = append(names.Agents, p.name)
		}
		for _, t := range p.tools {
			names.Tools = append(names.Tools, t.listToolNames(ctx)...)
			dynamic = dynamic || t.isDynamic()
		}
	})
	if dynamic {
		names.Tools = nil
	}
	return names
}

// listUnmockedTools are expressions, the built-in tools but for the search of memories,
// and what the runtime adds.
func listUnmockedTools(ctx context.Context, root *resolvedAgent) []string {
	own := []string{"set_model_response", "transfer_to_agent"}
	if root == nil {
		return own
	}
	builtins := tool.Builtins()
	root.visitTree(func(p *resolvedAgent) {
		for _, t := range p.tools {
			_, builtin := builtins.Lookup(t.kind)
			if t.kind == "expr" || builtin && t.kind != "load_memory" {
				own = append(own, t.listToolNames(ctx)...)
			}
		}
	})
	return own
}

// visitTree visits an agent and all below it, those that are called as tools
// included.
func (p *resolvedAgent) visitTree(visit func(*resolvedAgent)) {
	visit(p)
	for _, sub := range slices.Concat(p.subs, toolAgents(p.tools)) {
		sub.visitTree(visit)
	}
}

// replaceSetTools is a set whose tools are replaced when they are known.
func (j *job) replaceSetTools(set tool.Set) tool.Set {
	if replace := j.loader.opts.ReplaceTool; replace != nil {
		return wrappedSet{set, replace}
	}
	return set
}

// replaceTools gives each tool the one that takes its place.
func (j *job) replaceTools(tools []tool.Tool, err error) ([]tool.Tool, error) {
	if err != nil || j.loader.opts.ReplaceTool == nil {
		return tools, err
	}
	all := make([]tool.Tool, len(tools))
	for i, t := range tools {
		all[i] = j.loader.opts.ReplaceTool(t)
	}
	return all, nil
}
